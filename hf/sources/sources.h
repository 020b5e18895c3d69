/* Source tensors: safetensors files and their headers, what weights are coded in, views, changes of low rank. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "hf/folder/folder.h"

/* ---- safetensors.c ----
 * The weights as safetensors files have them: headers read and checked, elements left alone. */

enum { HF_DIMS = 8 };

/* The order counts: types that weights are published in (up to HF_BF16), floats of 8 bits, powers of two (HF_E8M0,
 * which are no weights without a coding), then integers (from HF_I64 on). */
typedef enum hf_dtype {
    HF_F64,
    HF_F32,
    HF_F16,
    HF_BF16,
    HF_E4M3,
    HF_E5M2,
    HF_E8M0,
    HF_I64,
    HF_I32,
    HF_I16,
    HF_I8,
    HF_U8,
    HF_BOOL,
    HF_DTYPES
} hf_dtype;

typedef struct hf_stored {
    const char *name; /* owned by the list; first member, for base/name_index.h */
    hf_dtype dtype;
    uint32_t n_dims;
    uint64_t shape[HF_DIMS]; /* outermost first, as PyTorch has it */
    uint64_t n;              /* elements */
    uint64_t offset, bytes;  /* in the file */
    uint32_t file;           /* number in the folder's list */
} hf_stored;

typedef struct hf_list {
    hf_folder *folder;
    hf_stored *stored; /* part by part, names of a part in order of code points */
    size_t n, capacity;
    name_index by_name;
    bool is_mlx;  /* a file says that MLX has saved it */
    char *config; /* "config" of a file's metadata, which image models' readers look for; owned. NULL: none */
} hf_list;

/* Opens all parts of a folder and reads their headers: those that model.safetensors.index.json names, or all
 * that are called model*.safetensors. */
bool hf_list_read(hf_list *l, hf_folder *f, gq_error *e);
/* The same with another name in place of "model". */
bool hf_list_read_called(hf_list *l, hf_folder *f, const char *called, gq_error *e);
/* The same for one file; with its other parts, where its name says that it has some. */
bool hf_list_read_file(hf_list *l, hf_folder *f, const char *name, gq_error *e);
/* Adds the source tensors of one more file, in whose names `to` takes the place of `from` at their beginning. */
bool hf_list_add_file(hf_list *l, const char *name, const char *from, const char *to, gq_error *e);
/* Returns the length of a name before "-kkkkk-of-nnnnn.safetensors", and the number of parts; 0: the name is
 * no part's. */
size_t hf_shard_stem(const char *name, unsigned *parts);
/* Fails with what a folder without such weights holds instead, and what to do. */
bool hf_folder_fail_no_weights(const hf_folder *f, const char *called, gq_error *e);
void hf_list_free(hf_list *l);
/* Makes the index of names anew, once names have changed. Fails for a name that two source tensors have. */
bool hf_list_index(hf_list *l, gq_error *e);
const hf_stored *hf_list_find(const hf_list *l, const char *name); /* NULL: none */
const char *hf_dtype_name(hf_dtype d);
uint32_t hf_dtype_bytes(hf_dtype d);
/* Reads n elements of a tensor from element `first` on as floats (nearest, where floats cannot hold them). */
bool hf_list_floats(const hf_list *l, const hf_stored *t, uint64_t first, uint64_t n, float *to, gq_error *e);
/* Adds the names, places and shapes of all tensors, and a sample of their bytes, to a checksum. */
bool hf_list_fold(const hf_list *l, uint32_t *content, gq_error *e);
const char *hf_list_path(const hf_list *l, uint32_t file);
/* Fails with a sentence about a tensor: its file and name go in front. */
#define hf_list_fail(l, t, e, format, ...) \
    gq_fail(e, "%s: tensor '%s': " format, hf_list_path(l, (t)->file), (t)->name, ##__VA_ARGS__)

/* ---- source.c ----
 * A tensor of the folder as the rules see it: numbers in C order, whatever they are coded in. Its last dimension is a
 * row; all others together count the rows. A GPTQ matrix is seen as it is stored, with inputs as rows, and MXFP4 in
 * units of a block of 32 elements. */

typedef struct hf_source hf_source;

/* What a source is coded in: a row in the file that finds and reads it. */
typedef struct hf_coding {
    uint32_t type; /* of GGUF, whose blocks are read; 0: F32 */
    /* Reads as hf_source_read does, in that type. NULL: hf_plain alone, which is read in any. */
    bool (*read)(const hf_source *s, uint64_t row, uint64_t n_rows, uint64_t column, uint64_t n_columns,
                 void *to, gq_error *e);
    void (*write_type)(const hf_source *s, char *to, size_t room); /* for people. NULL: the stored type */
} hf_coding;

/* hf_scaled: F8 elements (or any) times a scale for each block of rows and columns. hf_packed: integers in words
 * along a row, times a scale for each group of columns. hf_gptq: integers in words along a column, scales and
 * zeros for each group of rows. hf_mxfp4: blocks of 32 elements, and their scale bytes in another source tensor.
 * hf_fp4: two codes of 4 bits in a byte, times a scale for each group of columns, times a factor. hf_ternary:
 * four codes of 2 bits in a byte, of rows that lie a quarter of the rows apart, times a factor. */
extern const hf_coding hf_plain, hf_scaled, hf_packed, hf_gptq, hf_mxfp4, hf_fp4, hf_ternary;

/* ---- changes that adapters make; delta.c says what they mean ---- */

/* One of the two matrices. Element (line, k) of matrix m lies at base + m * matrix + line * line_stride + k *
 * rank_stride; lines are the rows or the columns of the array that is changed. */
typedef struct hf_factor {
    const hf_stored *stored; /* NULL: all its elements are 1 */
    uint64_t base, matrix, line_stride, rank_stride;
} hf_factor;

/* A row that takes the place of the source tensor's. */
typedef struct hf_own_row {
    uint64_t row, at; /* in the source tensor, and in the adapter's */
} hf_own_row;

typedef struct hf_delta {
    const hf_list *list; /* list of the source tensors that hold the factors */
    hf_factor rows, columns;
    uint32_t rank;
    float scale;
    uint64_t only;    /* the one matrix that is changed, counted from 1; 0: all are */
    float *magnitude; /* DoRA: of each output; owned. NULL: none */
    /* DoRA: the norms, as the bits of floats; owned. 0: not known yet. Whoever computes one gets the same. */
    _Atomic uint32_t *norms;
    bool outputs_are_columns;
    bool
        was_read; /* by somebody who computes numbers of the source tensor, or by a tensor: written by any thread */
    /* In place of all that: rows of columns.stored, sorted by row; owned. NULL: none. */
    hf_own_row *own_rows;
    size_t n_own_rows;
} hf_delta;

typedef struct hf_deltas {
    hf_delta *items;
    size_t n, capacity;
} hf_deltas;

/* ---- */

struct hf_source {
    const char *name; /* without a coding's suffix; owned by the list of sources; first member */
    const hf_list *list;
    const hf_stored *stored; /* elements, words, or blocks */
    const hf_coding *coding; /* never NULL */
    uint32_t n_dims;
    uint64_t shape[HF_DIMS]; /* of units */
    uint64_t rows, columns;
    const hf_stored *scale; /* all but hf_plain */
    const hf_stored *zero;  /* hf_packed, hf_scaled: NULL: none; hf_gptq */
    const hf_stored *group; /* hf_gptq: the group of each row, hf_packed: of each column; NULL: in order */
    /* Rows (of the last two dimensions) and columns that share a scale; hf_gptq: rows, 0: not known. */
    uint64_t scale_rows, scale_columns;
    uint64_t matrix_rows; /* shape[n_dims - 2] */
    uint32_t bits;        /* of a packed integer: 2, 4 or 8 */
    uint32_t zero_more;   /* hf_gptq: what is added to a zero */
    float factor;         /* hf_fp4, hf_ternary: of all elements */
    bool divides;         /* the same: they are divided by it */
    hf_deltas deltas;     /* changes that adapters make; owned */
    bool is_adapters;     /* an adapter's source tensor in the place of the model's */
};

/* Reads n elements of a source tensor from element `first` on as they are stored. */
bool stored_read(const hf_list *l, const hf_stored *t, uint64_t first, uint64_t n, void *to, gq_error *e);
/* Returns the elements of a unit: those of a block, or 1. */
uint64_t hf_source_unit(const hf_source *s);
/* Returns the type whose bytes a source has: reading in it changes nothing. F32 if it has no such type. */
const tensor_type *hf_source_type(const hf_source *s);
/* Without the changes of adapters, which delta.c adds: reads `n_rows` rows from row `row` on, of each
 * n_columns units from `column` on, in hf_source_type or as F32, one row behind the other. The caller has checked
 * that they are there. */
bool hf_source_read(const hf_source *s, uint64_t row, uint64_t n_rows, uint64_t column, uint64_t n_columns,
                    const tensor_type *as, void *to, gq_error *e);

/* ---- coded.c ----
 * The tensors of a folder without their coding: scales, words and blocks that belong together become one source. */

/* Makes a source of each source tensor, in the list's order; those that only serve another are none. */
bool hf_sources_find(const hf_config *c, const hf_list *l, hf_source **sources, size_t *n, gq_error *e);
void hf_sources_free(hf_source *sources, size_t n);

/* ---- coded_method.c ----
 * The method by which a folder's weights are quantized, and the source tensors that belong to it. */

/* The quantization settings of config.json, checked against the source tensors. */
typedef struct coded_find {
    const hf_config *config;
    const hf_list *list;
    const json_t *settings; /* quantization_config; NULL: none */
    json_t *own;            /* contents of hf_quant_config.json; NULL: none */
    const char
        *method;     /* its quant_method, or what stands for one; NULL: none, or no source tensor is coded */
    bool has_scales; /* some source tensor of F8 has a scale beside it */
    size_t n_left_out;    /* scales of activations */
    const char *left_out; /* the first of them */
} coded_find;

/* Returns a text of the settings; NULL: no such key, or no text. */
const char *coded_text(const coded_find *c, const char *key);
bool coded_method_is(const coded_find *c, const char *method);
/* Finds the source tensor whose name is `name` with its last `cut` characters replaced. NULL: there is none. */
const hf_stored *coded_sibling(const coded_find *c, const char *name, size_t cut, const char *end);
/* Returns the floats beside a source tensor of F8 by which it is multiplied; NULL: there are none. `t` may be of any
 * type. */
const hf_stored *coded_scale_beside(const coded_find *c, const hf_stored *t);
/* Fails where there are two of them. */
bool coded_check_one_scale(const coded_find *c, const hf_stored *t, gq_error *e);
bool stored_is_f8(const hf_stored *t);

/* What hf_sources_find sets of a source: its name, that of the source tensor with the last `cut` characters replaced,
 * and its shape. */
bool source_set_name(hf_source *s, size_t cut, const char *end, gq_error *e);
void source_set_shape(hf_source *s, uint32_t n_dims, const uint64_t *shape);
#define coded_fail(c, t, other, e) \
    hf_list_fail((c)->list, t, e, "its shape does not fit that of '%s'", (other)->name)

/* The modules that a group of config_groups names, as compressed-tensors has it: by a name, or an expression of it,
 * which goes before a class of modules. */
typedef enum group_claim { CLAIM_NONE, CLAIM_BY_CLASS, CLAIM_BY_NAME } group_claim;
group_claim group_claims(const json_t *group, const hf_stored *weight);
/* Returns a setting of the group of a plain format that a source tensor is of; NULL: there is none, or groups that
 * name it alike disagree. */
const json_t *plain_setting(const coded_find *c, const hf_stored *t, const char *key);

/* Finds how weights are coded: in config.json, or in the file that modelopt leaves beside it. What they say
 * counts only where source tensors are coded; else it warns. On failure, too, the caller releases c->own. */
bool coded_find_method(coded_find *c, gq_error *e);
/* Warns of the scales of activations that were left out. */
bool coded_warn_left_out(const coded_find *c, gq_error *e);

/* ---- coded_scaled.c, coded_words.c, coded_codes.c ----
 * A coding each: its parts are found, their shapes compared, and rectangles read. */

bool source_check_scale(const coded_find *c, const hf_stored *t, const hf_stored *scale, gq_error *e);
/* Reads the scale of a whole source tensor: 0 would lose the source tensor, and no tool writes one that is below 0
 * or infinite. */
bool factor_read(const coded_find *c, const hf_stored *scale, float *x, gq_error *e);
/* Makes a source hf_scaled. `blocks`: how many rows and columns share a scale; NULL: its shape says it. */
bool source_add_scale(const coded_find *c, hf_source *s, const hf_stored *scale, const json_t *blocks,
                      gq_error *e);
/* Reads the scales of some columns of rows, and multiplies a row by its own. `zeros` NULL: none. */
bool scales_read(const hf_source *s, uint64_t row, uint64_t n_rows, uint64_t column, uint64_t n_columns,
                 float *to, gq_error *e);
void source_scale_row(const hf_source *s, uint64_t column, uint64_t n, const float *scales,
                      const float *zeros, float *x);

bool source_make_packed(const coded_find *c, hf_source *s, gq_error *e);
bool source_make_gptq(const coded_find *c, hf_source *s, gq_error *e);

/* Experts stay MXFP4, which GGUF has; other source tensors may be split and turned as floats alone. */
bool source_make_mxfp4(const coded_find *c, hf_source *s, gq_error *e);
bool source_set_mxfp4(const coded_find *c, hf_source *s, const hf_stored *scale, gq_error *e);
/* `factor`: the end of the name of what is multiplied, or divided by, in place of the last `cut` characters. */
bool source_make_nvfp4(const coded_find *c, hf_source *s, const hf_stored *scale, size_t cut,
                       const char *factor, bool divides, gq_error *e);
/* BitNet: four codes in a byte, which stand for -1, 0 and 1; bits 2 i and 2 i + 1 of row r are row i R / 4 +
 * r of the R rows. The scale divides, but for layers that multiply their outputs by it. */
bool source_make_ternary(const coded_find *c, hf_source *s, const hf_stored *scale, gq_error *e);

/* ---- delta.c ----
 * A change of low rank to a source tensor: the product of two narrow matrices that an adapter has, which is added as
 * the source tensor is read. Element (i, j) of matrix m becomes w + scale * (l(i, 0) r(0, j) + l(i, 1) r(1, j) + ...),
 * where i and j count rows and columns as the source tensor is stored. The sum begins with the product of rank 0, each
 * product is rounded before it is added, and all is done in 32-bit floats: the result depends on neither the rectangle
 * that is read nor the processor. With DoRA the sum is then multiplied by a magnitude over the norm of w plus the
 * change, along the row or, where outputs are columns, along the column. */

/* Reads n_rows rows of a source, as hf_source_read does, with all its changes. */
bool hf_changed_read(const hf_source *s, uint64_t row, uint64_t n_rows, uint64_t column, uint64_t n_columns,
                     const tensor_type *as, void *to, gq_error *e);
/* Reads n lines from `first` on of a factor of matrix m: element (i, k) goes to to[i * by_line + k * by_rank].
 */
bool hf_factor_read(const hf_delta *d, const hf_factor *f, uint64_t m, uint64_t first, uint64_t n, float *to,
                    uint64_t by_line, uint64_t by_rank, gq_error *e);
/* Takes the magnitudes of DoRA, one for each output; reads the whole source where outputs are columns. */
bool hf_delta_set_magnitude(const hf_source *s, hf_delta *d, const hf_stored *magnitude, gq_error *e);
void hf_delta_free(hf_delta *d);
void hf_deltas_free(hf_deltas *d);

/* ---- image_kind.c ----
 * Which image or video model a list of source tensors is, whatever stands before their names, and what else the list
 * holds or lacks. */

typedef struct hf_image_kind {
    const char *prefix; /* before the names of the model's tensors; "": none */
    const architecture *arch;
    const arch_image_mark *mark; /* the mark by which the model is reported */
    size_t n_left_out;           /* source tensors that are not the model's */
    const char *left_out;        /* the first of them */
} hf_image_kind;

/* Whether a file of weights holds an image model by itself; one whose header cannot be read does not. */
bool hf_image_is(const char *folder, const char *file);
/* Returns the known architectures, for messages: "flux, sd3, ..." */
enum { HF_IMAGE_NAMES = 256 };
const char *hf_image_names(char *text, size_t size);
/* Finds the first mark that fits, with any prefix, for a model that is to be read: fails for what is none, and for
 * codes that only other programs know. */
bool hf_image_recognise(hf_image_kind *k, const hf_list *l, gq_error *e);
/* Returns a source tensor's name without the prefix, and what readers want in front of it. NULL: it is not the
 * model's. */
const char *hf_image_own_name(const hf_image_kind *k, const char *name, const char **begins);
/* Whether no later block has the source tensor that a block has. */
bool hf_image_is_last_block(const hf_list *l, const char *name);
/* Warns of source tensors that were left out, and of blocks that lack a source tensor of their neighbours. */
bool hf_image_warn(const hf_image_kind *k, const hf_list *l, gq_error *e);

/* ---- beginnings and ends of names. ---- */

static inline bool name_ends(const char *name, const char *end) {
    size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

/* Writes a name with another end in place of one; false: it does not end so. */
static inline bool name_with_end(char *to, size_t room, const char *name, const char *end,
                                 const char *other) {
    if (!name_ends(name, end)) return false;
    snprintf(to, room, "%.*s%s", (int)(strlen(name) - strlen(end)), name, other);
    return true;
}

/* Whether a name is one of a list, or ends with one; the list ends with NULL. */
static inline bool name_is_one(const char *name, const char *const *list) {
    while (*list && strcmp(*list, name) != 0) list++;
    return *list;
}
static inline bool name_ends_with_one(const char *name, const char *const *list) {
    while (*list && !name_ends(name, *list)) list++;
    return *list;
}

/* Returns what follows a beginning; NULL: the name begins otherwise. */
static inline const char *name_behind(const char *name, const char *begin) {
    size_t n = strlen(begin);
    return strncmp(name, begin, n) == 0 ? name + n : NULL;
}

/* ---- the small floats of weights' files, one at a time. ---- */

static inline float number_of_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint32_t number_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float number_from_bf16(uint16_t h) { return number_of_bits((uint32_t)h << 16); }

/* 5 bits of exponent and 10 of mantissa go where a float has them; the difference of the biases, 112, is compensated
 * by a product, which is exact for subnormal numbers, too. Infinities and NaN keep all bits of the exponent. */
static inline float number_from_f16(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = (uint32_t)(h & 0x7fff) << 13;
    if ((h & 0x7c00) == 0x7c00) return number_of_bits(sign | 0x7f800000 | rest);
    return number_of_bits(sign | number_bits(number_of_bits(rest) * 0x1p112f));
}

/* Rounds to the nearest half precision number, ties to even, and widens it again. */
static inline float number_round_f16(float x) {
    uint32_t sign = number_bits(x) & 0x80000000;
    float a = number_of_bits(number_bits(x) ^ sign);
    if (!(a < 65520.0f)) return a <= 0x1.fffffep127f ? number_of_bits(sign | 0x7f800000) : x;
    /* Adding 2^13 times the value's power of two (at least 2^-14, the least normal one) cuts behind 10 bits. */
    uint32_t power = number_bits(a) & 0x7f800000;
    if (power < 113u << 23) power = 113u << 23;
    float magic = number_of_bits(power + (13u << 23));
    volatile float sum = a + magic;
    return number_of_bits(sign | number_bits(sum - magic));
}

/* 4 bits of exponent, bias 7, and 3 of mantissa; no infinity, 7F and FF are NaN. */
static inline float number_from_e4m3(uint8_t b) {
    uint32_t sign = (uint32_t)(b & 0x80) << 24, rest = (uint32_t)(b & 0x7f) << 20;
    if ((b & 0x7f) == 0x7f) return number_of_bits(sign | 0x7fc00000);
    return number_of_bits(sign | number_bits(number_of_bits(rest) * 0x1p120f));
}

static inline float number_from_e5m2(uint8_t b) { return number_from_f16((uint16_t)(b << 8)); }

/* A power of two: 2^(b - 127); 255 is NaN, 0 the subnormal 2^-127. */
static inline float number_from_e8m0(uint8_t b) {
    return number_of_bits(b == 255 ? 0x7fc00000 : b == 0 ? 0x00400000 : (uint32_t)b << 23);
}

/* ---- place.c ----
 * The place that a path leads to where it is no GGUF file: the files to read, and what the model is called. */

typedef struct hf_place {
    char *folder;   /* folder of the files */
    char *pipeline; /* the folder of an image model's parts, of which that is one; NULL: none was named */
    char *file;     /* the only file of weights to read, in that folder; NULL: those that `called` names */
    const char *called; /* beginning of weights' file names: "model", or "diffusion_pytorch_model" */
    bool is_image;      /* an image or video model: weights without the config of a language model */
    char *stem;         /* beginning of outputs' names: a path whose last part is the model's name */
} hf_place;

/* Whether a path is a folder, or a file of one, and so is not for the reader of GGUF files. */
bool hf_place_is(const char *path);
/* On failure, too, hf_place_free has to be called. */
bool hf_place_find(hf_place *p, const char *path, gq_error *e);
void hf_place_free(hf_place *p);

/* Returns what follows the last slash of a path or of an id. */
const char *hf_path_last(const char *path);
/* Takes the model's name from a folder's path: *id with its organization where the hub's cache says it
 * ("Qwen/Qwen3-8B"), *stem as above. Both are malloc'ed. */
bool hf_folder_names(const char *path, char **id, char **stem, gq_error *e);

/* ---- saved_names.c: names that training tools, compilers and adapters leave in a folder's source tensors. ---- */

/* Takes the wrappers of training tools out of all names, such as "_orig_mod.", wherever they stand, and warns
 * of it. Two source tensors with one name afterwards are an error. */
bool hf_list_unwrap(hf_list *l, gq_error *e);
/* Fails for a source tensor that no rule of an architecture has: by the tool whose mark its name bears, with what to
 * do; else by the nearest name that a rule has, NULL where none is near. `method`: the quant_method of
 * config.json, which is reported in place of a quantizer's name; NULL: none. */
bool hf_name_fail(const hf_list *l, const hf_stored *t, const char *arch, const char *method,
                  const char *nearest, gq_error *e);
/* The same for a source tensor of codes that no rule of a quantization reads. */
bool hf_codes_fail(const hf_list *l, const hf_stored *t, const char *method, gq_error *e);

/* ---- view.c ----
 * A way to look at an array: the elements of a delivered tensor, in order, as positions in a source. Each dimension,
 * outermost first, has a count and a stride in units of the source, as an array of numpy's has. All that rules do to a
 * tensor but arithmetic (split, cut, reorder, transpose) is a view. */

enum { VIEW_DIMS = 12 };

typedef struct hf_view {
    uint32_t n_dims;
    uint64_t count[VIEW_DIMS], stride[VIEW_DIMS];
    uint64_t base; /* of the first element */
} hf_view;

/* The whole source tensor, in its own order; that of a GPTQ matrix has its outputs as rows. */
hf_view hf_view_of(const hf_source *s);
hf_view hf_view_squeezed(const hf_source *s); /* without dimensions of 1 */
uint64_t hf_view_units(const hf_view *v);
/* Returns where unit number `at` of a view's dimensions before `dims` lies in the source. */
uint64_t hf_view_offset(const hf_view *v, uint32_t dims, uint64_t at);
/* Make two dimensions of one: `inner` is the count of the second. False: it does not divide the first's. */
bool hf_view_split(hf_view *v, uint32_t dim, uint64_t inner);
void hf_view_swap(hf_view *v, uint32_t a, uint32_t b);
/* Keep `count` entries of a dimension from `first` on, `step` apart. False: there are not so many. */
bool hf_view_cut(hf_view *v, uint32_t dim, uint64_t first, uint64_t count, uint64_t step);
/* Drop dimensions of one entry, and join those that follow one another without a gap. */
void hf_view_simplify(hf_view *v);
