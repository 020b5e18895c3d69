/* A plan from the inside: what plan_make works out and gq_run carries out, and the steps that make it. */
#pragma once

#include "base/checked.h"
#include "codec/codec.h"
#include "gguf/gguf.h"
#include "imatrix/imatrix.h"
#include "mixes/mixes.h"
#include "quantize/gquant_quantize.h"

/* ---- layout.c ---- */

/* Cuts the work into chunks: a chunk is a span of one tensor's elements, and the unit that workers take and
 * journals record. The cut depends on shapes alone, never on the number of threads. */

enum {
    /* Elements of a chunk: whole rows where they fit, else part of one row. 2^20 is about 5 ms of encoding,
     * so that threads end together, and makes a million chunks of a 10^12-weight model. */
    CHUNK_ELEMENTS = 1 << 20,
    /* Rows are taken in multiples of this where more of them fit: encoders work on so many at once. */
    CHUNK_ROWS = 16,
    /* Rows are cut at multiples of this only: the least common multiple of all types' block lengths. */
    CHUNK_GRAIN = 256,
    /* Least rows of a chunk of a tensor that is transposed on the way, however long they are: so many weights
     * that lie next to each other in the input are read at once. */
    CHUNK_BAND = 128,
};

typedef struct chunk_map {
    size_t n_tensors;
    uint64_t *first;  /* n_tensors + 1: number of each tensor's first chunk */
    uint64_t *length; /* n_tensors: elements of a tensor's chunks; the last one of it, or of a row, may be
                         shorter */
    uint64_t n;       /* chunks in all */
} chunk_map;

typedef struct chunk {
    size_t tensor;
    uint64_t first, n; /* elements, in the order in which they are stored */
    bool last;         /* of its tensor */
} chunk;

/* Returns the elements of a tensor's chunks, and how many chunks of that length it has. transposes: the
 * tensor is transposed on the way. */
uint64_t chunk_length(const uint64_t ne[GGUF_MAX_DIMS], bool transposes);
uint64_t chunk_count(const uint64_t ne[GGUF_MAX_DIMS], uint64_t length);
/* Allocates a map of zeros, which the caller fills and frees; also after a failure. */
bool chunk_map_new(chunk_map *map, size_t n_tensors, gq_error *e);
void chunk_map_free(chunk_map *map);
/* Return the tensor of chunk i, and the chunk. ne: the dimensions of that tensor. */
size_t chunk_tensor(const chunk_map *map, uint64_t i);
chunk chunk_at(const chunk_map *map, uint64_t i, const uint64_t ne[GGUF_MAX_DIMS]);

/* ---- layers.c ---- */

/* The layers that stay (gq_options.prune_layers, no_mtp, mtp_only), and the tensors that are written
 * transposed (transpose). */

/* Old numbers of the layers that stay, in order. n = 0: nothing is pruned. */
typedef struct plan_layers {
    uint64_t *kept;
    size_t n;
    size_t n_absent; /* layers asked for that the model does not have; `absent` is one of them */
    uint64_t absent;
    bool no_mtp;   /* MTP layers go, and no KV pair speaks of them */
    bool mtp_only; /* of the layers MTP layers alone stay, from first_mtp on, with their numbers */
    uint64_t first_mtp;
} plan_layers;

/* Reads "3,7,11", the layers that go; NULL: none. layers->kept is malloc'ed and the caller's. */
bool plan_layers_read(plan_layers *layers, const char *list, const model_source *model, gq_error *e);
/* Leaves out a model's MTP layers, besides the layers of a list, or all but these. A model without any is an
 * error where they alone were asked for. */
bool plan_layers_without_mtp(plan_layers *layers, const char *list, const model_source *model, gq_error *e);
bool plan_layers_mtp_only(plan_layers *layers, const model_source *model, gq_error *e);
/* Writes a tensor's name in the outputs: with its layer's new number, or as it is. false: the tensor belongs
 * to a pruned layer. */
bool plan_layers_rename(const plan_layers *layers, const char *name, char to[GGUF_MAX_NAME + 1]);

/* Makes the sources that the options name be read transposed. Those that are stored transposed get their rows
 * and columns back. */
bool plan_transpose(gq_plan *plan, const gq_options *options, gq_error *e);

/* ---- overrides.c ---- */

/* Metadata that is set in the outputs (gq_options.override_kv), and what is left out (remove_kv). */

/* Key-value pairs to set, in order; keys and values are owned. */
typedef struct plan_overrides {
    size_t n;
    model_kv *items;
} plan_overrides;

/* Reads "KEY=TYPE:VALUE" items, and the files that they name. A key that the model has keeps its type; a
 * value that does not fit it is refused with GQ_USAGE. *overrides is of zeros before; the caller frees it,
 * also after a failure. */
bool plan_overrides_read(plan_overrides *overrides, const gq_list *items, const model_source *model,
                         warning_list *warnings, gq_error *e);
/* Returns the path in an item KEY=file:PATH; NULL: the item is another. */
const char *plan_override_file(const char *item);
void plan_overrides_free(plan_overrides *overrides);

enum { REMOVE_OWN_KEYS = 11 }; /* keys that gquant writes whether the input has them or not */

/* Zeros: nothing is left out. */
typedef struct plan_removed {
    bool *kv; /* one for each key of the input; NULL: none */
    bool own[REMOVE_OWN_KEYS];
} plan_removed;

/* Finds the KV pairs whose keys match one of the patterns. What files cannot be read without stays. A pattern without
 * effect is warned of. The caller frees *removed, also after a failure. */
bool plan_removed_find(plan_removed *removed, const gq_list *patterns, const model_source *model,
                       warning_list *warnings, gq_error *e);
void plan_removed_free(plan_removed *removed);
/* Returns the model's KV pairs without those that are left out, malloc'ed; their values stay the model's. NULL: no
 * memory. */
model_kv *plan_removed_rest(const plan_removed *removed, const model_source *model, uint64_t *n, gq_error *e);
/* Whether a KV pair of gquant's own is left out. */
bool plan_removed_has(const plan_removed *removed, const char *key);
/* Takes gquant's own KV pairs out of a header, but not those that are overridden. */
void plan_removed_apply(const plan_removed *removed, const plan_overrides *overrides, gguf_header *h);

/* ---- the plan (plan.c) ---- */

/* A tensor of the input that is written, with what all outputs share of it. */
typedef struct plan_source {
    const model_tensor *tensor;   /* as it will be written, but for its type */
    const model_tensor *stored;   /* as it is in the input; another than `tensor`: plan_transposes */
    model_tensor view;            /* `tensor` points here then; its weights are read from `stored` */
    uint64_t number;              /* of `stored` among the model's */
    bool transposed;              /* in the outputs */
    gq_origin origin;             /* of `stored`, if it has one */
    char name[GGUF_MAX_NAME + 1]; /* in the outputs */
    tensor_inputs inputs;         /* once looked up, as `covered` says */
    uint32_t inputs_digest;
    bool covered;
    uint64_t
        qat_grid; /* types that hold the QAT grid it lies on, bit by number (target/qat_grid.c); 0: none */
} plan_source;

typedef struct plan_shard {
    char *path, *temporary;
    gguf_header *header;
    const uint8_t *header_data; /* the header's bytes */
    uint64_t header_size, size;
} plan_shard;

typedef struct rounding rounding;

typedef struct plan_place {
    uint32_t shard;
    uint64_t offset, end; /* in the shard's file; up to `end` the tensor's padding reaches */
} plan_place;

typedef struct plan_output {
    const mix_filetype *filetype; /* with a target, that of most weights */
    mix_pattern *recipe;          /* of a name with a recipe; NULL: it has none */
    char label[32];               /* name for people: the file type's name, or the target */
    char *path;                   /* as asked for, or derived */
    uint32_t n_shards;
    plan_shard *shards;
    uint64_t digest; /* written into each shard where there are several, to show that they belong together */
    uint64_t source_at; /* the same of the checksum of all weights (GGUF_SOURCE_KEY) */
    uint64_t
        digests_at; /* of the tensors' digests (tensor_digest) in the first shard's file; 0: it has none */
    struct reuse_offer *offers; /* per tensor; NULL: nothing is reused */
    gq_tensor *tensors;         /* in output order, as `places` */
    plan_place *places;
    gq_summary summary;
} plan_output;

/* The identity of a plan, for journals: two plans with the same identity write the same bytes. */
typedef struct plan_identity {
    uint32_t input;   /* times of change of the input's shards */
    uint32_t content; /* their headers, and a sample of the weights */
    uint32_t options; /* the encode_settings, and those of the rounding */
    /* checksum of the tensors' places in each output, their sources, and the cut into chunks */
    uint32_t layout;
} plan_identity;

/* The share of the work that is asked for. The run finds out how much of it is left to do: run_mode in
 * run/engine.c. */
typedef enum plan_share {
    SHARE_WHOLE,
    SHARE_PART, /* the part-th of parts */
    SHARE_JOIN, /* nothing but to finish what all parts have made; parts: how many, 0: not said */
} plan_share;

struct gq_plan {
    int threads;
    gq_comm *comm;            /* the ranks that carry it out; NULL: this process alone */
    encode_settings settings; /* settings that decide the bytes of blocks; hashed by all that is kept */
    bool force;
    plan_share share;
    uint32_t part, parts;
    uint32_t sync_ms; /* between two times that finished work is made safe */
    const kernels *kernels;
    /* The input. Three steps change it, in this order (plan_fill): tensors get a scale (plan_scale_tensors), metadata
     * that readers need are added, and a calibration may balance its weights. */
    model_source model;
    gq_beside beside[MODEL_BESIDE];      /* other models in the model's folder */
    bool model_is_lent;                  /* the caller's (gq_options.model) */
    model_inputs inputs;                 /* without entries: no imatrix data */
    struct rounding *rounding;           /* decides codes (rounding.h) */
    const struct model_runners *runners; /* functions that run models (quantize.h) */
    plan_layers layers;
    plan_overrides overrides;
    plan_removed removed;
    model_kv
        *completed;    /* the model's KV pairs, and one that it lacked and is overridden; NULL: as they are */
    model_facts facts; /* after overrides */
    size_t n_tensors;
    plan_source *sources; /* in output order */
    size_t n_outputs;
    plan_output *outputs;
    chunk_map chunks;
    plan_identity identity;
    model_source *reused; /* earlier outputs, to copy tensors from; they decide no bytes */
    size_t n_reused;
    char *measure_file; /* see gq_plan_measure_file */
    double seconds;     /* time to make the plan */
    warning_list warnings;
};

/* Whether a tensor's matrices are transposed on the way: quantize/strips/strip.c then reads them. */
static inline bool plan_transposes(const plan_source *s) { return s->tensor != s->stored; }
/* Whether a tensor's bytes are copied as they are in the input. */
static inline bool plan_copies(const plan_source *s, const gq_tensor *to) {
    return to->to == to->from && !plan_transposes(s) && !to->calibrated;
}

/* Whether some tensor of an output is calibrated. */
static inline bool plan_any_calibrated(const gq_plan *plan, const plan_output *out) {
    for (size_t i = 0; i < plan->n_tensors; i++)
        if (out->tensors[i].calibrated) return true;
    return false;
}

/* Makes a plan without looking at what lies beside its outputs; gq_plan_free frees it. NULL: *e says why.
 * runners: what runs models for it; it must outlive the plan. */
gq_plan *plan_make(const gq_options *options, const struct model_runners *runners, gq_error *e);
/* Path of the input as given, for messages. */
static inline const char *plan_input(const gq_plan *plan) { return plan->model.path; }

/* ---- gives the tensors of outputs their types, by the mixes (assign.c) ---- */

/* The input and output of choosing types. Tensors are in output order, plan->n_tensors of them. */
typedef struct plan_assignment {
    mix_model model;
    mix_options options;
    mix_pattern *patterns, *keep;
    mix_tensor *tensors;
    uint32_t *order;
    uint32_t *types;     /* options.types, for a target */
    bool *covered;       /* options.covered */
    mix_choice *choices; /* n_outputs x n_tensors */
} plan_assignment;

/* Fills *a and allocates the tensors of all outputs. The caller frees *a, also after a failure. */
bool plan_assignment_new(plan_assignment *a, gq_plan *plan, const gq_options *options, gq_error *e);
void plan_assignment_free(plan_assignment *a);
/* Gives the tensors of an output their types. It may be called again with other a->options. */
bool plan_assign(gq_plan *plan, plan_assignment *a, size_t output, gq_error *e);
/* Checks that all chosen types can be written. Called when they are final. */
bool plan_check_types(const gq_plan *plan, const plan_assignment *a, const gq_options *options, gq_error *e);
/* Warns of patterns without effect, which are mostly slips. */
bool plan_warn_patterns(gq_plan *plan, const plan_assignment *a, gq_error *e);

/* Sets the output's file type, and the recipe of its name if that has one. */
bool plan_open_filetype(plan_output *out, const char *name, gq_error *e);

/* ---- lays out an output's files (layout.c) ---- */

/* Makes shards, headers, offsets and sizes of an output whose tensors have their types. A layout from an
 * earlier call is freed. */
bool plan_layout(gq_plan *plan, plan_output *out, const gq_options *options, gq_error *e);
void plan_layout_free(plan_output *out);

/* ---- imatrix data in a plan (importance.c) ---- */

/* Reads, filters and checks the imatrix; does nothing where the options name none. */
bool plan_open_importance(gq_plan *plan, const gq_options *options, gq_error *e);
/* Whether a tensor has data. */
bool plan_has_importance(const gq_plan *plan, const plan_source *source);
/* Warns which tensors of an output got another type because they have no data. */
bool plan_warn_raised(gq_plan *plan, const plan_output *out, const mix_choice *choices, gq_error *e);
/* Looks up a source's values, unless that was done before. A tensor without data is no failure. */
bool plan_cover_source(gq_plan *plan, plan_source *source, const gq_options *options, gq_error *e);
/* Looks up the values of all sources that some output quantizes, and sets the coverage of the outputs'
 * tensors. */
bool plan_cover(gq_plan *plan, const gq_options *options, gq_error *e);
/* Warns of entries that the model has no tensor for, with the first of their names. */
bool importance_warn_unknown(const model_inputs *inputs, const model_source *model, warning_list *warnings,
                             gq_error *e);

/* ---- paths.c ---- */

/* Names of outputs and of their shards, and whether they and what lies beside them may be written. */

/* Returns the input's name with the file type in place of F16, BF16 or F32, and "mmproj-" in front of a
 * projector's, in out_dir (NULL: the input's folder); malloc'ed, NULL: no memory. */
char *plan_derive_path(const gq_options *options, const char *filetype);
/* Returns PREFIX-kkkkk-of-nnnnn.gguf for the k-th shard (from 0) of n; malloc'ed, NULL: no memory. When n is
 * 1 it is the path itself, or, where that was given as a prefix, PREFIX.gguf. */
char *plan_shard_path(const char *path, bool prefix, uint32_t k, uint32_t n);
/* Check that writing a file of this name destroys nothing that is read: the model, imatrix data, or the
 * text of a calibration. plan_check_beside is for files that are made, replaced or removed beside an output,
 * and has a message of its own. */
bool plan_check_inputs(const gq_plan *plan, const gq_options *options, const char *path, gq_error *e);
bool plan_check_beside(const gq_plan *plan, const gq_options *options, const char *path, gq_error *e);
/* Checks that all outputs may be written where they are asked for. named: which shards, output by output,
 * have their names from an earlier run; NULL: none. */
bool plan_check_targets(const gq_plan *plan, const gq_options *options, const bool *named, gq_error *e);
/* For a dry run: warns of a missing folder that the run will need, unless it is out_dir, which is made. */
bool plan_warn_missing_folder(gq_plan *plan, const gq_options *options, gq_error *e);
/* Whether all files of an unfinished run are there, so that it can be continued. */
bool plan_outputs_are_there(const gq_plan *plan);

/* ---- identity.c ---- */

/* Checksums that identify a plan; journals, checkpoints and measurements store them. */

extern const char gq_build_id[9]; /* of the sources that this was built from (cmake/build-id.cmake) */
/* "0.1.0-1a2b3c4d": version and sources, which decide the bytes as much as the plan does. */
void plan_build(char to[24]);
/* Computes the input's checksums; reads a small part of its weights. */
bool plan_identify_input(gq_plan *plan, gq_error *e);
/* Returns a checksum of all options that decide the bytes of blocks. */
uint32_t plan_settings_digest(const gq_plan *plan);
/* Computes the checksums of options and layout. Called when all outputs are laid out. */
void plan_identify_layout(gq_plan *plan);
/* The digest of a set of shards: of its inputs and settings. Unlike the identity it depends on neither times
 * nor builds, since it is in the output. */
uint64_t plan_set_digest(const gq_plan *plan, const plan_output *out);

/* ---- tensors ---- */

/* Digests of an output's tensors, by which a later run recognises what it would make again. They stand in the
 * metadata under GGUF_DIGESTS_KEY: an array of u32, three for each tensor in stored order. Like all that is
 * in an output they depend on neither times nor builds. */

typedef struct tensor_digest {
    uint32_t made_by; /* types, shape, settings and importance; 0: copied, or made of more than its own
                         weights, so that equality cannot be known */
    uint32_t source;  /* checksum of the weights, as the input delivered them; where made_by is 0,
                         what the output is made of besides the input: settings, imatrix data,
                         calibration. That does not depend on how the input is stored */
    uint32_t bytes;   /* of the tensor's bytes in the output */
} tensor_digest;

/* Returns tensor_digest.made_by of an output's tensor, whose type and importance are known. */
uint32_t digest_made_by(const gq_plan *plan, const plan_output *out, size_t tensor);
/* The same for other settings, or with and without an imatrix. */
uint32_t digest_of_settings(const gq_plan *plan, const plan_output *out, size_t tensor,
                            const encode_settings *with, bool has_importance);
/* Returns the digests in the output's header, as far as the plan knows them; NULL: it will have none. */
const uint8_t *digests_planned(const plan_output *out);
/* Whether an output's digests need checksums that only the run finds; not those of a mere copy. */
bool digests_await_run(const gq_plan *plan, const plan_output *out);
/* Adds the array to a header, with what is known before the run. A mere copy of the input gets the input's,
 * if it has any. */
bool digests_write(const gq_plan *plan, const plan_output *out, gguf_header *h, gq_error *e);
/* Returns the checksum of all weights, of those of each tensor in the plan's order. */
uint32_t digest_of_sources(const gq_plan *plan, const uint32_t *sources);
/* Returns the digests of a model's tensors, in stored order; NULL: it has none, or they cannot be right. They
 * need not be aligned: copy each. */
const uint8_t *digests_find(const model_source *m);

/* ---- checks and warnings about a model before the work (advice.c) ---- */

/* Fails for inputs that are no model to quantize: adapters, imatrix data, and files whose architecture is
 * no text. */
bool plan_check_kind(const gq_plan *plan, const gq_options *options, gq_error *e);
/* Warns of what the user may not know about the model. Called when its tensors have their types. */
bool plan_advise(gq_plan *plan, gq_error *e);

/* Fails where a tensor is missing, or has another shape than the metadata say; what may be right, and what
 * options->allow_missing lets pass, becomes a warning. Reads no weight. */
bool plan_check_complete(gq_plan *plan, const gq_options *options, gq_error *e);

/* ---- reuse.c ---- */

/* Tensors of earlier outputs that a run may copy instead of making them again. The plan compares digests,
 * types and shapes, which costs nothing; run/reuse.c then reads both the sources and the copies. */

/* A tensor of an earlier output that may be what the plan would make. */
typedef struct reuse_offer {
    const model_source *from; /* NULL: there is none */
    const model_tensor *tensor;
    bool is_digested;       /* there are the checksums of tensor_digest */
    uint32_t source, bytes; /* these */
} reuse_offer;

/* Opens the earlier outputs and fills the offers of each output. Called when all is laid out. */
bool plan_reuse(gq_plan *plan, const gq_options *options, gq_error *e);
/* Fails if an earlier output has changed since it was opened. */
bool plan_reused_unchanged(const gq_plan *plan, gq_error *e);

/* Whether sizes and headers of an earlier file are those that the output will have, but for the checksums
 * that only a run finds. false: *why says in a clause about "it" what differs first. */
bool plan_compare_header(const gq_plan *plan, const plan_output *out, const model_source *earlier,
                         gq_error *why);
/* Whether a file of the input was modified after one of an earlier output. */
bool plan_input_is_newer(const gq_plan *plan, const model_source *earlier);

/* ---- meta.c ---- */

/* The metadata of an output: the input's, as overrides, pruned layers and new types change them. */

/* Writes all KV pairs except those about shards into a header. */
bool plan_meta_write(const gq_plan *plan, const plan_output *out, const gq_options *options, gguf_header *h,
                     gq_error *e);

/* ---- layer_keys.c ---- */

/* Metadata that speak of layers, as they read after some were pruned (gq_options.prune_layers). */

/* Fails where a tensor holds something for every layer, which cannot be cut; warns where the remaining layers
 * would be computed in another way than before. */
bool plan_check_layers(gq_plan *plan, gq_error *e);

/* Copies a KV pair: lists without the entries of pruned layers, numbers of first or last layers counted anew, all
 * others as they are. */
bool plan_layer_key_copy(const gq_plan *plan, const model_kv *kv, gguf_header *h, gq_error *e);
/* Writes a list in place of a period that no longer fits. */
bool plan_layer_lists_write(const gq_plan *plan, gguf_header *h, gq_error *e);
/* Writes the number of layers that are left. */
bool plan_layer_count_write(const gq_plan *plan, gguf_header *h, gq_error *e);
/* Refuses metadata that are set and speak of layers that are left out. */
bool plan_layer_overrides_check(const gq_plan *plan, gq_error *e);
