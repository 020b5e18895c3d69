/* Ops of multimodal projectors and their encoders. Their tensors are convolutions, tables of positions, fused queries,
 * keys and values, and codebooks, in the orders that single families have. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hf/tensors/tensors.h"

enum { NAME_BYTES = 512 };

/* ---- dimensions ---- */

/* Appends dimensions of 1: a bias becomes one of a convolution's outputs. */
static bool projector_add_ones(hf_build *b, const hf_match *f, uint32_t behind, gq_error *e) {
    hf_view v = hf_view_of(f->source);
    for (uint32_t i = 0; i < behind && v.n_dims < VIEW_DIMS; i++)
        v.count[v.n_dims] = v.stride[v.n_dims] = 1, v.n_dims++;
    return hf_build_view(b, f, 0, &v, e);
}

HF_OP(append_two_dims) { return projector_add_ones(b, f, 2, e); }

HF_OP(reshape_channels) {
    hf_view v = hf_view_of(f->source);
    if (v.n_dims != 1) return hf_match_fail_shape(f, e, "one dimension");
    hf_view all = {
        .n_dims = 4, .count = {1, v.count[0], 1, 1}, .stride = {1, v.stride[0], 1, 1}, .base = v.base};
    return hf_build_view(b, f, 0, &all, e);
}

HF_OP(reshape_positions) {
    const hf_source *s = f->source;
    hf_view joined = {.n_dims = 2, .count = {s->rows, s->columns}, .stride = {s->columns, 1}};
    if (s->n_dims == 2) return hf_build_whole(b, f, e);
    if (s->n_dims != 3) return hf_match_fail_shape(f, e, "three dimensions");
    return hf_build_view(b, f, 0, &joined, e);
}

HF_OP(reorder_rows_axes) {
    hf_view v = hf_view_of(f->source);
    if (v.n_dims != 3) return hf_match_fail_shape(f, e, "three dimensions");
    hf_view_swap(&v, 0, 1);
    return hf_build_view(b, f, 0, &v, e);
}

HF_OP(reshape_row) {
    hf_view v = hf_view_of(f->source);
    if (v.n_dims != 1) return hf_match_fail_shape(f, e, "one dimension");
    hf_view row = {.n_dims = 2, .count = {1, v.count[0]}, .stride = {1, v.stride[0]}, .base = v.base};
    return hf_build_view(b, f, 0, &row, e);
}

HF_OP(reshape_depthwise) {
    hf_view v = hf_view_of(f->source);
    if (v.n_dims != 3 || v.count[1] != 1) return hf_match_fail_shape(f, e, "[C, 1, width]");
    uint64_t ne[4] = {v.count[2], v.count[0], 1, 1};
    return hf_build_shaped(b, f, 0, &v, 4, ne, e) != NULL;
}

/* The rows are a square of positions. How many says how large images are, which the config does not. */
HF_OP(check_positions) {
    json_t *vision = json_object_get(b->config->merged, "vision");
    uint64_t n = f->source->n_dims == 2 ? f->source->shape[0] : 0, side = (uint64_t)sqrt((double)n);
    if (!n || n > UINT32_MAX || side * side != n) return hf_match_fail_shape(f, e, "a square number of rows");
    return (json_object_set_new(vision, "num_position_embeddings", json_integer((json_int_t)n)) == 0 ||
            gq_fail_memory(e, 0)) &&
           hf_op_copy(b, f, e);
}

/* ---- patches of images ---- */

/* [C, 3, T, h, w]: a tensor for each of as many frames as the rule has names. */
HF_OP(split_frames) {
    unsigned frames = hf_match_names(f);
    if (f->source->n_dims != 5 || f->source->shape[2] != frames)
        return hf_match_fail_shape(f, e, "[C, 3, frames, h, w] with two frames");
    for (unsigned i = 0; i < frames; i++) {
        hf_view v = hf_view_of(f->source);
        if (!hf_view_cut(&v, 2, i, 1, 1)) return hf_match_fail_shape(f, e, "frames");
        v.count[2] = v.count[3], v.stride[2] = v.stride[3], v.count[3] = v.count[4],
        v.stride[3] = v.stride[4];
        v.n_dims = 4;
        if (!hf_build_view(b, f, i, &v, e)) return false;
    }
    return true;
}

/* [C, p p 3], of rows, columns, colours: [C, 3, p, p]. */
HF_OP(reorder_patches_last) {
    hf_view v = hf_view_of(f->source);
    uint64_t n = v.n_dims == 2 ? v.count[1] : 0, side = (uint64_t)sqrt((double)n / 3);
    if (n == 0 || 3 * side * side != n || !hf_view_split(&v, 1, 3) || !hf_view_split(&v, 1, side))
        return hf_match_fail_shape(f, e, "[C, p p 3]");
    hf_view_swap(&v, 1, 3);
    hf_view_swap(&v, 2, 3);
    return hf_build_view(b, f, 0, &v, e);
}

/* [C, 3 p p]: [C, 3, p, p]. */
HF_OP(reorder_patches_first) {
    hf_view v = hf_view_of(f->source);
    uint64_t n = v.n_dims == 2 ? v.count[1] : 0, side = (uint64_t)sqrt((double)n / 3);
    if (n == 0 || 3 * side * side != n || !hf_view_split(&v, 1, side * side) || !hf_view_split(&v, 2, side))
        return hf_match_fail_shape(f, e, "[C, 3 p p]");
    return hf_build_view(b, f, 0, &v, e);
}

/* The last dimension holds p rows of p columns of three colours: the colours come first, as patches are cut. */
HF_OP(reorder_patch_channels) {
    hf_view v = hf_view_of(f->source);
    uint32_t last = v.n_dims ? v.n_dims - 1 : 0;
    uint64_t n = v.count[last], side = (uint64_t)sqrt((double)n / 3);
    if (v.n_dims < 1 || v.n_dims > 2 || 3 * side * side != n || !hf_view_split(&v, last, 3) ||
        !hf_view_split(&v, last, side))
        return hf_match_fail_shape(f, e, "p p 3 columns");
    hf_view_swap(&v, last, last + 2);
    hf_view_swap(&v, last + 1, last + 2);
    return hf_build_reordered(b, f, &v, e);
}

/* Readers have one convolution for a single frame, whose like are all frames of an image. */
HF_OP(sum_frames) {
    enum { SIDE_MOST = 4096 }; /* pixels: products of it do not wrap */
    const hf_source *s = f->source;
    uint32_t frames, side;
    if (!hf_config_u32(b->config, "vision.patch_temporal", &frames, e) ||
        !hf_config_u32(b->config, "vision.patch_size", &side, e))
        return false;
    uint64_t part = 3 * (uint64_t)side * side, outputs = s->n_dims ? s->shape[0] : 0;
    if (s->coding != &hf_plain || !frames || !part || side > SIDE_MOST || !outputs ||
        outputs > UINT64_MAX / 8 / part || frames > 16 || s->stored->n != outputs * frames * part)
        return hf_match_fail_shape(f, e, "[C, frames 3 p p] of patch_temporal frames");
    float *sum = malloc(outputs * part * sizeof *sum), *row = malloc(frames * part * sizeof *row);
    bool ok = (sum && row) || gq_fail_memory(e, outputs * part * sizeof *sum);
    for (uint64_t o = 0; ok && o < outputs; o++) {
        ok = s->deltas.n ? hf_changed_read(s, o, 1, 0, s->columns, tensor_type_of(GGUF_F32), row, e)
                         : hf_build_floats(s, o * frames * part, frames * part, row, e);
        for (uint64_t i = 0; ok && i < part; i++) {
            float x = row[i];
            for (uint32_t k = 1; k < frames; k++) x += row[k * part + i];
            sum[o * part + i] = s->stored->dtype == HF_F16 && !s->deltas.n ? number_round_f16(x) : x;
        }
    }
    free(row);
    if (!ok) return free(sum), false;
    return hf_build_numbers_shaped(b, f->rule->to, sum, outputs * part, 4,
                                   (uint64_t[]){side, side, 3, outputs}, e);
}

/* ---- queries, keys and values ---- */

/* Rows of three parts of one size become three tensors. */
HF_OP(split_thirds) {
    if (hf_view_of(f->source).count[0] % 3) return hf_match_fail_shape(f, e, "rows of three parts");
    return hf_build_equal_pieces(b, f, 0, 3, e);
}

/* Queries and keys whose rotation goes by pairs of pairs, height and width in turn: all of one behind those of the
 * other. Readers do it for heads of the number that the config has under this name, else for 16. */
HF_OP(rope_axes_qkv) {
    uint32_t heads;
    hf_view whole = hf_view_of(f->source);
    uint64_t rows = whole.count[0] / 3;
    if (!hf_config_u32_or(b->config, "vision.num_attention_heads", 16, &heads, e)) return false;
    uint64_t width = heads ? rows / heads : 0;
    if (whole.n_dims < 1 || whole.n_dims > 2 || width == 0 || width % 4 || rows * 3 != whole.count[0] ||
        width * heads != rows)
        return hf_match_fail_shape(f, e, "queries, keys and values of heads of a multiple of 4");
    hf_tensor *t = hf_build_pieces(b, f, 3, e);
    for (size_t i = 0; t && i < 3; i++) {
        hf_view v = whole;
        bool ok =
            hf_view_cut(&v, 0, i * rows, rows, 1) &&
            (i == 2 || (hf_view_split(&v, 0, width) && hf_view_split(&v, 1, 4) && hf_view_split(&v, 2, 2)));
        if (ok && i < 2) hf_view_swap(&v, 1, 2);
        if (!ok) return hf_match_fail_shape(f, e, "heads");
        if (!hf_build_piece(f, t, i, &v, e)) return false;
    }
    return t != NULL;
}

/* Rows of each head are halves of three axes and a rest; readers have both halves of an axis together. */
HF_OP(rope_axes_of_three) {
    hf_view whole = hf_view_of(f->source);
    uint64_t heads = b->sizes.heads, width = heads ? whole.count[0] / heads : 0, part = width / 2 * 2 / 3 / 2;
    if (whole.n_dims < 1 || whole.n_dims > 2 || width != 80 || width * heads != whole.count[0])
        return hf_match_fail_shape(f, e, "heads of 80 rows");
    hf_tensor *t = hf_build_pieces(b, f, 2 * heads, e);
    for (uint64_t i = 0; t && i < 2 * heads; i++) {
        hf_view v = whole;
        uint64_t first = i / 2 * width;
        bool ok = i % 2 ? hf_view_cut(&v, 0, first + 6 * part, width - 6 * part, 1)
                        : hf_view_cut(&v, 0, first, 6 * part, 1) && hf_view_split(&v, 0, 3 * part) &&
                              hf_view_split(&v, 1, part);
        if (ok && i % 2 == 0) hf_view_swap(&v, 0, 1);
        if (!ok) return hf_match_fail_shape(f, e, "heads of 80 rows");
        if (!hf_build_piece(f, t, i, &v, e)) return false;
    }
    return t != NULL;
}

/* ---- numbers of layers, and single rows ---- */

/* The number in the name counts those layers whose output the text model gets, too: the tensor has the layer's own. */
HF_OP(number_of_deepstack) {
    const json_t *list = hf_config_get(b->config, "vision.deepstack_visual_indexes");
    json_int_t at = json_integer_value(json_array_get(list, f->layer));
    hf_match own = *f;
    if (f->layer >= json_array_size(list) || at < 0)
        return hf_match_fail(f, e, "deepstack_visual_indexes has no entry %llu", LLU(f->layer));
    own.layer = (uint64_t)at;
    return hf_op_copy(b, &own, e);
}

HF_OP(number_of_projector) {
    granite_projector list[GRANITE_MOST];
    bool is_spatial = strstr(f->rule->from, "spatial_projectors") != NULL;
    hf_match own = *f;
    size_t n;
    if (!granite_projectors(b->config, list, &n, e)) return false;
    for (own.layer = 0; own.layer < n; own.layer++)
        if (list[own.layer].is_spatial == is_spatial && list[own.layer].number == f->layer)
            return hf_op_copy(b, &own, e);
    return hf_match_fail(f, e, "the config has no projector of this number");
}

HF_OP(number_plus_one) {
    hf_match next = *f;
    next.layer++;
    return hf_op_copy(b, &next, e);
}

/* Finds the number of a token by its text in a list of objects, or in an object by numbers. */
static bool token_find(const json_t *list, const char *text, uint64_t *id) {
    const char *key;
    size_t i;
    json_t *token;
    json_array_foreach((json_t *)list, i, token) {
        const json_t *content = json_object_get(token, "content");
        json_int_t n = json_integer_value(json_object_get(token, "id"));
        if (hf_json_is(content, text) && n >= 0) return *id = (uint64_t)n, true;
    }
    json_object_foreach((json_t *)list, key, token) {
        const json_t *content = json_object_get(token, "content");
        unsigned long long n;
        if (hf_json_is(content, text) && sscanf(key, "%llu", &n) == 1) return *id = n, true;
    }
    return false;
}

/* Makes a vector of one row of a matrix's view. */
static bool view_take_row(hf_view *v, uint64_t row) {
    if (!hf_view_cut(v, 0, row, 1, 1)) return false;
    v->count[0] = v->count[1], v->stride[0] = v->stride[1], v->n_dims = 1;
    return true;
}

HF_OP(take_img_break_row) {
    static const char TOKEN[] = "[IMG_BREAK]";
    json_t *config = NULL, *tokens = NULL;
    uint64_t id = 0;
    hf_view v = hf_view_of(f->source);
    hf_match row = *f;
    bool ok = hf_folder_json(b->list->folder, "tokenizer_config.json", &config, e) &&
              (token_find(json_object_get(config, "added_tokens_decoder"), TOKEN, &id) ||
               (hf_folder_json(b->list->folder, "tokenizer.json", &tokens, e) &&
                (token_find(json_object_get(tokens, "added_tokens"), TOKEN, &id) ||
                 hf_config_fail(b->config, e,
                                "neither tokenizer_config.json nor tokenizer.json has the token %s, whose "
                                "embedding the projector needs",
                                TOKEN))));
    json_decref(config), json_decref(tokens);
    if (!ok || id == 0) return ok;
    if (v.n_dims != 2 || !view_take_row(&v, id))
        return hf_match_fail_shape(f, e, "a row for the token [IMG_BREAK]");
    row.suffix = "";
    return hf_build_view(b, &row, 0, &v, e);
}

HF_OP(split_rows) {
    unsigned rows = hf_match_names(f);
    if (f->source->n_dims != 2 || f->source->shape[0] != rows)
        return hf_match_fail_shape(f, e, "another number of rows");
    for (unsigned i = 0; i < rows; i++) {
        hf_view v = hf_view_of(f->source);
        if (!view_take_row(&v, i)) return hf_match_fail_shape(f, e, "rows");
        if (!hf_build_view(b, f, i, &v, e)) return false;
    }
    return true;
}

HF_OP(cut_first_row) {
    hf_view v = hf_view_of(f->source);
    if (v.n_dims != 2 || v.count[0] < 2 || !hf_view_cut(&v, 0, 1, v.count[0] - 1, 1))
        return hf_match_fail_shape(f, e, "a matrix of several rows");
    return hf_build_view(b, f, 0, &v, e);
}

/* ---- batch norms ---- */

/* Finds what stands beside one of a norm's source tensors under the same name with another end, of as many
 * numbers. */
static bool norm_find(hf_build *b, const hf_match *f, const char *end, const hf_source **found, gq_error *e) {
    char name[NAME_BYTES];
    const char *own = strrchr(f->source->name, '.');
    int before = own ? (int)(own - f->source->name) : 0;
    if (snprintf(name, sizeof name, "%.*s%s", before, f->source->name, end) >= NAME_BYTES)
        return hf_match_fail(f, e, "its name is too long");
    if (!hf_build_source(b, name, found, e)) return false;
    return (*found && (*found)->coding == &hf_plain && (*found)->stored->n == f->source->stored->n) ||
           hf_match_fail(f, e, "there is no %s of as many numbers beside it", name);
}

static bool norm_add(hf_build *b, const hf_match *f, const char *end, float *numbers, uint64_t n,
                     gq_error *e) {
    char name[NAME_BYTES];
    hf_pattern_write(f->rule->to, f->layer, UINT64_MAX, end, name, sizeof name);
    return hf_build_numbers(b, name, numbers, n, e);
}

/* Rules have the norm's four source tensors under the name of one tensor, without its end: the weight's makes
 * both. */
HF_OP(fold_batch_norm) {
    static const char *const ends[] = {".weight", ".bias", ".running_mean", ".running_var"};
    const float epsilon = 1e-5f;
    const hf_source *parts[4];
    uint64_t n = f->source->stored->n;
    bool is_weight = name_ends(f->source->name, ".weight");
    for (size_t k = 0; k < (is_weight ? 4 : 1); k++)
        if (!norm_find(b, f, ends[k], &parts[k], e)) return false;
    if (!is_weight) return true;
    float *x[4] = {NULL};
    bool ok = n > 0 || hf_match_fail(f, e, "it is empty");
    for (size_t k = 0; ok && k < 4; k++)
        ok = ((x[k] = malloc(n * sizeof *x[k])) || gq_fail_memory(e, n * sizeof *x[k])) &&
             hf_build_floats(parts[k], 0, n, x[k], e);
    for (uint64_t i = 0; ok && i < n; i++) {
        x[0][i] /= sqrtf(x[3][i] + epsilon);
        x[1][i] -= x[2][i] * x[0][i];
    }
    ok = ok && norm_add(b, f, ends[0], x[0], n, e);
    if (ok) x[0] = NULL;
    ok = ok && norm_add(b, f, ends[1], x[1], n, e);
    if (ok) x[1] = NULL;
    for (size_t k = 0; k < 4; k++) free(x[k]);
    return ok;
}

/* ---- positions ---- */

/* A side's row that lies behind `at`, and how near it is to the row after. */
static uint64_t positions_between(float scale, uint64_t at, float *share) {
    float x = scale * (float)at;
    uint64_t row = (uint64_t)x;
    *share = x - (float)row;
    return row;
}

/* [1, n n, D]: positions of a square of n, of which those of images of another size are interpolated. */
HF_OP(resample_positions) {
    enum { SIDE_MOST = 1024, LARGER_MOST = 8 }; /* published ones have a side 4 times as long */
    const hf_source *s = f->source;
    uint32_t image, patch;
    if (!hf_config_u32_or(b->config, "root.force_image_size", 512, &image, e) ||
        !hf_config_u32(b->config, "vision.patch_size", &patch, e))
        return false;
    uint64_t to = patch ? image / patch : 0, rows = s->n_dims == 3 ? s->shape[1] : 0,
             from = (uint64_t)sqrt((double)rows), width = s->n_dims == 3 ? s->shape[2] : 0;
    if (s->coding != &hf_plain || !from || from > SIDE_MOST || from * from != rows || !width || !to ||
        to > SIDE_MOST || to > LARGER_MOST * from || s->stored->n != rows * width ||
        width > UINT64_MAX / 8 / to / to)
        return hf_match_fail(
            f, e, "expected [1, n n, D] positions, and images of 1 to %d patches a side, and of %d n at most",
            SIDE_MOST, LARGER_MOST);
    if (to == from) return hf_op_copy(b, f, e);
    float scale = to > 1 ? (float)(from - 1) / (float)(to - 1) : 0, *x = malloc(rows * width * sizeof *x),
          *y = malloc(to * to * width * sizeof *y);
    bool ok = (x && y) || gq_fail_memory(e, (rows + to * to) * width * sizeof *x);
    ok = ok && hf_build_floats(s, 0, rows * width, x, e);
    for (uint64_t i = 0; ok && i < to * to; i++) {
        float down, right;
        uint64_t h = positions_between(scale, i / to, &down), w = positions_between(scale, i % to, &right);
        const float *p = x + (h * from + w) * width, *next = p + (w + 1 < from ? width : 0);
        uint64_t below = h + 1 < from ? from * width : 0;
        float a = (1 - down) * (1 - right), c = (1 - down) * right, d = down * (1 - right), r = down * right;
        for (uint64_t k = 0; k < width; k++)
            y[i * width + k] = a * p[k] + c * next[k] + d * p[below + k] + r * next[below + k];
    }
    free(x);
    if (!ok) return free(y), false;
    return hf_build_numbers_shaped(b, f->rule->to, y, width * to * to, 3, (uint64_t[]){width, to * to, 1}, e);
}

/* ---- codebooks of audio ---- */

/* Finds codebook i beside that of a rule; *found NULL: there is none. */
static bool codebook_find(hf_build *b, const hf_match *f, unsigned i, const hf_source **found, gq_error *e) {
    char name[NAME_BYTES];
    hf_pattern_write(f->rule->from, i, UINT64_MAX, "", name, sizeof name);
    if (!hf_build_source(b, name, found, e)) return false;
    return !*found ||
           ((*found)->n_dims == 2 && (*found)->shape[0] && (*found)->shape[1] == f->source->shape[1]) ||
           hf_match_fail(f, e, "'%s' has other columns", name);
}

/* A codebook behind the first, which brings all, has one before it: else those behind a gap would be left out. */
static bool codebook_follows(hf_build *b, const hf_match *f, gq_error *e) {
    const hf_source *before;
    if (!codebook_find(b, f, (unsigned)f->layer - 1, &before, e)) return false;
    return before ||
           hf_match_fail(f, e, "codebook %u is missing: download the whole model", (unsigned)f->layer - 1);
}

/* The first codebook brings all. How many rows each has goes into the config, for the metadata. */
HF_OP(join_codebooks) {
    enum { CODEBOOKS_MOST = 256 };
    hf_match of[CODEBOOKS_MOST];
    json_t *sizes = json_array();
    uint64_t most = 0;
    size_t n = 0, shorter = 0, piece = 0;
    if (f->layer > 0) return json_decref(sizes), codebook_follows(b, f, e);
    bool ok = f->source->n_dims == 2 || hf_match_fail(f, e, "expected a matrix");
    for (const hf_source *s = f->source, *next = NULL; ok && s; s = next, n++) {
        if (n == CODEBOOKS_MOST) return json_decref(sizes), hf_match_fail(f, e, "more codebooks than %zu", n);
        of[n] = *f, of[n].source = s;
        most = s->shape[0] > most ? s->shape[0] : most;
        ok = (json_array_append_new(sizes, json_integer((json_int_t)s->shape[0])) == 0 ||
              gq_fail_memory(e, 0)) &&
             codebook_find(b, f, (unsigned)n + 1, &next, e);
    }
    uint32_t wanted = 0;
    ok = ok && hf_config_u32_or(b->config, "audio.num_quantizers", 0, &wanted, e) &&
         (n >= wanted ||
          hf_match_fail(f, e, "%zu codebooks, expected %u: download the whole model", n, wanted));
    for (size_t i = 0; ok && i < n; i++) shorter += of[i].source->shape[0] < most;
    uint64_t columns = ok ? f->source->shape[1] : 0;
    hf_tensor *t = ok ? hf_build_tensor(b, f, 0, n + shorter, 3, (uint64_t[]){columns, most, n}, e) : NULL;
    for (size_t i = 0; t && i < n; i++) {
        hf_view v = hf_view_of(of[i].source);
        if (!hf_build_piece(&of[i], t, piece++, &v, e)) t = NULL;
        if (t && v.count[0] < most) t->pieces[piece++].n = mul_sat(most - v.count[0], columns);
    }
    ok = t && (json_object_set(json_object_get(b->config->merged, "audio"), "rvq_sizes", sizes) == 0 ||
               gq_fail_memory(e, 0));
    json_decref(sizes);
    return ok;
}

/* Codes are kept as sums with how many each is of. The first codebook brings all: [codes, D], or [n, codes, D]. */
HF_OP(fold_codebook_counts) {
    enum { CODEBOOKS_MOST = 256 };
    const hf_source *sums[CODEBOOKS_MOST], *counts[CODEBOOKS_MOST];
    const char *end = "cluster_usage";
    size_t n = 0;
    if (name_ends(f->source->name, end)) return true;
    if (f->layer > 0) return codebook_follows(b, f, e);
    if (f->source->n_dims != 2 || !f->source->stored->n) return hf_match_fail(f, e, "expected a matrix");
    uint64_t rows = f->source->shape[0], columns = f->source->shape[1];
    for (const hf_source *s = f->source; s; n++) {
        char name[NAME_BYTES];
        size_t before = strlen(s->name) - strlen("embedding_sum");
        snprintf(name, sizeof name, "%.*s%s", (int)before, s->name, end);
        if (n == CODEBOOKS_MOST) return hf_match_fail(f, e, "more codebooks than %zu", n);
        sums[n] = s;
        if (!hf_build_source(b, name, &counts[n], e)) return false;
        if (!counts[n] || counts[n]->stored->n != rows || s->shape[0] != rows || s->coding != &hf_plain ||
            counts[n]->coding != &hf_plain)
            return hf_match_fail(f, e, "'%s' is missing, or is of another number of codes", name);
        if (!codebook_find(b, f, (unsigned)n + 1, &s, e)) return false;
    }
    float *codes = malloc(n * rows * columns * sizeof *codes), *count = malloc(rows * sizeof *count);
    bool ok = (codes && count) || gq_fail_memory(e, n * rows * columns * sizeof *codes);
    for (size_t i = 0; ok && i < n; i++) {
        float *x = codes + i * rows * columns;
        ok = hf_build_floats(sums[i], 0, rows * columns, x, e) &&
             hf_build_floats(counts[i], 0, rows, count, e);
        for (uint64_t k = 0; ok && k < rows * columns; k++) x[k] /= fmaxf(count[k / columns], 1e-5f);
    }
    free(count);
    if (!ok) return free(codes), false;
    return hf_build_numbers_shaped(b, f->rule->to, codes, n * rows * columns, n > 1 ? 3 : 2,
                                   (uint64_t[]){columns, rows, n}, e);
}

/* ---- activations ---- */

HF_OP(exp) { return hf_build_with_op(b, f, HF_EXP, 0, e); }

HF_OP(inverse_exp) {
    hf_piece *p = hf_build_whole(b, f, e);
    return p && hf_piece_add_op(p, HF_EXP, 0, e) && hf_piece_add_op(p, HF_ADD, 1e-9f, e) &&
           hf_piece_add_op(p, HF_RECIPROCAL, 0, e);
}
