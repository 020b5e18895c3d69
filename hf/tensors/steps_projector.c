/* Steps of projectors, which see and hear. Their arrays are convolutions, tables of positions, and queries, keys and
 * values in one, in the orders that single families have.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "hf/arrays/delta.h"
#include "hf/arrays/numbers.h"
#include "hf/tensors/build_tensor.h"
#include "hf/tensors/steps.h"

static bool projector_fail_shape(const hf_found *f, const char *expected, gq_error *e) {
    char shape[128] = "";
    size_t n = 0;
    for (uint32_t i = 0; i < f->source->n_dims && n < 100; i++)
        n += (size_t)snprintf(shape + n, sizeof shape - n, "%s%llu", i ? ", " : "",
                              (unsigned long long)f->source->shape[i]);
    return hf_found_fail(f, e, "its shape is [%s], expected %s", shape, expected);
}

bool hf_step_add_one(hf_build *b, const hf_found *f, gq_error *e) {
    return hf_build_with_op(b, f, HF_ADD, 1, e);
}

bool hf_step_softplus(hf_build *b, const hf_found *f, gq_error *e) {
    return hf_build_with_op(b, f, HF_SOFTPLUS, 0, e);
}

/* ---- dimensions ---- */

/* Appends dimensions of 1: a bias becomes one of a convolution's outputs. */
static bool projector_add_ones(hf_build *b, const hf_found *f, uint32_t behind, gq_error *e) {
    hf_view v = hf_view_of(f->source);
    for (uint32_t i = 0; i < behind && v.n_dims < VIEW_DIMS; i++)
        v.count[v.n_dims] = v.stride[v.n_dims] = 1, v.n_dims++;
    return hf_build_view(b, f, 0, &v, e);
}

bool hf_step_columns_2(hf_build *b, const hf_found *f, gq_error *e) { return projector_add_ones(b, f, 2, e); }

bool hf_step_channels(hf_build *b, const hf_found *f, gq_error *e) {
    hf_view v = hf_view_of(f->source);
    if (v.n_dims != 1) return projector_fail_shape(f, "one dimension", e);
    hf_view all = {
        .n_dims = 4, .count = {1, v.count[0], 1, 1}, .stride = {1, v.stride[0], 1, 1}, .base = v.base};
    return hf_build_view(b, f, 0, &all, e);
}

bool hf_step_join_rows(hf_build *b, const hf_found *f, gq_error *e) {
    const hf_source *s = f->source;
    hf_view joined = {.n_dims = 2, .count = {s->rows, s->columns}, .stride = {s->columns, 1}};
    if (s->n_dims == 2) return hf_build_whole(b, f, e);
    if (s->n_dims != 3) return projector_fail_shape(f, "three dimensions", e);
    return hf_build_view(b, f, 0, &joined, e);
}

bool hf_step_swapped_rows(hf_build *b, const hf_found *f, gq_error *e) {
    hf_view v = hf_view_of(f->source);
    if (v.n_dims != 3) return projector_fail_shape(f, "three dimensions", e);
    hf_view_swap(&v, 0, 1);
    return hf_build_view(b, f, 0, &v, e);
}

bool hf_step_row(hf_build *b, const hf_found *f, gq_error *e) {
    hf_view v = hf_view_of(f->source);
    if (v.n_dims != 1) return projector_fail_shape(f, "one dimension", e);
    hf_view row = {.n_dims = 2, .count = {1, v.count[0]}, .stride = {1, v.stride[0]}, .base = v.base};
    return hf_build_view(b, f, 0, &row, e);
}

bool hf_step_depthwise(hf_build *b, const hf_found *f, gq_error *e) {
    hf_view v = hf_view_of(f->source);
    if (v.n_dims != 3 || v.count[1] != 1) return projector_fail_shape(f, "[C, 1, width]", e);
    uint64_t ne[4] = {v.count[2], v.count[0], 1, 1};
    return hf_build_shaped(b, f, 0, &v, 4, ne, e) != NULL;
}

/* The rows are a square of positions. How many says how large images are, which the config does not. */
bool hf_step_count_rows(hf_build *b, const hf_found *f, gq_error *e) {
    json_t *sees = json_object_get(b->config->merged, "vision");
    uint64_t n = f->source->n_dims == 2 ? f->source->shape[0] : 0, side = (uint64_t)sqrt((double)n);
    if (!n || n > UINT32_MAX || side * side != n)
        return projector_fail_shape(f, "a square number of rows", e);
    return (json_object_set_new(sees, "num_position_embeddings", json_integer((json_int_t)n)) == 0 ||
            gq_fail_memory(e, 0)) &&
           hf_step_plain(b, f, e);
}

/* ---- patches of images ---- */

/* [C, 3, T, h, w]: a tensor for each of as many frames as the rule has names. */
bool hf_step_frames(hf_build *b, const hf_found *f, gq_error *e) {
    unsigned frames = hf_found_names(f);
    if (f->source->n_dims != 5 || f->source->shape[2] != frames)
        return projector_fail_shape(f, "[C, 3, frames, h, w] with two frames", e);
    for (unsigned i = 0; i < frames; i++) {
        hf_view v = hf_view_of(f->source);
        if (!hf_view_cut(&v, 2, i, 1, 1)) return projector_fail_shape(f, "frames", e);
        v.count[2] = v.count[3], v.stride[2] = v.stride[3], v.count[3] = v.count[4],
        v.stride[3] = v.stride[4];
        v.n_dims = 4;
        if (!hf_build_view(b, f, i, &v, e)) return false;
    }
    return true;
}

/* [C, p p 3], of rows, columns, colours: [C, 3, p, p]. */
bool hf_step_patches_last(hf_build *b, const hf_found *f, gq_error *e) {
    hf_view v = hf_view_of(f->source);
    uint64_t n = v.n_dims == 2 ? v.count[1] : 0, side = (uint64_t)sqrt((double)n / 3);
    if (n == 0 || 3 * side * side != n || !hf_view_split(&v, 1, 3) || !hf_view_split(&v, 1, side))
        return projector_fail_shape(f, "[C, p p 3]", e);
    hf_view_swap(&v, 1, 3);
    hf_view_swap(&v, 2, 3);
    return hf_build_view(b, f, 0, &v, e);
}

/* [C, 3 p p]: [C, 3, p, p]. */
bool hf_step_patches_first(hf_build *b, const hf_found *f, gq_error *e) {
    hf_view v = hf_view_of(f->source);
    uint64_t n = v.n_dims == 2 ? v.count[1] : 0, side = (uint64_t)sqrt((double)n / 3);
    if (n == 0 || 3 * side * side != n || !hf_view_split(&v, 1, side * side) || !hf_view_split(&v, 2, side))
        return projector_fail_shape(f, "[C, 3 p p]", e);
    return hf_build_view(b, f, 0, &v, e);
}

/* ---- queries, keys and values ---- */

/* Rows of three parts of one size become three tensors. */
bool hf_step_thirds(hf_build *b, const hf_found *f, gq_error *e) {
    if (hf_view_of(f->source).count[0] % 3) return projector_fail_shape(f, "rows of three parts", e);
    return hf_build_equal_parts(b, f, 0, 3, e);
}

/* Queries and keys whose rotation goes by pairs of pairs, height and width in turn: all of one behind those of the
 * other. Readers do it for heads of the number that the config has under this name, else for 16. */
bool hf_step_kimi_qkv(hf_build *b, const hf_found *f, gq_error *e) {
    uint32_t heads;
    hf_view whole = hf_view_of(f->source);
    uint64_t rows = whole.count[0] / 3;
    if (!hf_config_u32_or(b->config, "vision.num_attention_heads", 16, &heads, e)) return false;
    uint64_t width = heads ? rows / heads : 0;
    if (whole.n_dims < 1 || whole.n_dims > 2 || width == 0 || width % 4 || rows * 3 != whole.count[0] ||
        width * heads != rows)
        return projector_fail_shape(f, "queries, keys and values of heads of a multiple of 4", e);
    hf_tensor *t = hf_build_parts(b, f, 3, e);
    for (size_t i = 0; t && i < 3; i++) {
        hf_view v = whole;
        bool ok =
            hf_view_cut(&v, 0, i * rows, rows, 1) &&
            (i == 2 || (hf_view_split(&v, 0, width) && hf_view_split(&v, 1, 4) && hf_view_split(&v, 2, 2)));
        if (ok && i < 2) hf_view_swap(&v, 1, 2);
        if (!ok) return projector_fail_shape(f, "heads", e);
        if (!hf_build_piece(f, t, i, &v, e)) return false;
    }
    return t != NULL;
}

/* Rows of each head are halves of three axes and a rest; readers have both halves of an axis together. */
bool hf_step_minimax_axes(hf_build *b, const hf_found *f, gq_error *e) {
    hf_view whole = hf_view_of(f->source);
    uint64_t heads = b->sizes.heads, width = heads ? whole.count[0] / heads : 0, part = width / 2 * 2 / 3 / 2;
    if (whole.n_dims < 1 || whole.n_dims > 2 || width != 80 || width * heads != whole.count[0])
        return projector_fail_shape(f, "heads of 80 rows", e);
    hf_tensor *t = hf_build_parts(b, f, 2 * heads, e);
    for (uint64_t i = 0; t && i < 2 * heads; i++) {
        hf_view v = whole;
        uint64_t first = i / 2 * width;
        bool ok = i % 2 ? hf_view_cut(&v, 0, first + 6 * part, width - 6 * part, 1)
                        : hf_view_cut(&v, 0, first, 6 * part, 1) && hf_view_split(&v, 0, 3 * part) &&
                              hf_view_split(&v, 1, part);
        if (ok && i % 2 == 0) hf_view_swap(&v, 0, 1);
        if (!ok) return projector_fail_shape(f, "heads of 80 rows", e);
        if (!hf_build_piece(f, t, i, &v, e)) return false;
    }
    return t != NULL;
}

/* ---- numbers of layers, and single rows ---- */

/* The number in the name counts those layers whose output the text model gets, too: the tensor has the layer's own. */
bool hf_step_deepstack(hf_build *b, const hf_found *f, gq_error *e) {
    const json_t *list = hf_config_get(b->config, "vision.deepstack_visual_indexes");
    json_int_t at = json_integer_value(json_array_get(list, f->layer));
    hf_found own = *f;
    if (f->layer >= json_array_size(list) || at < 0)
        return hf_found_fail(f, e, "deepstack_visual_indexes has no entry %llu",
                             (unsigned long long)f->layer);
    own.layer = (uint64_t)at;
    return hf_step_plain(b, &own, e);
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

bool hf_step_img_break(hf_build *b, const hf_found *f, gq_error *e) {
    static const char TOKEN[] = "[IMG_BREAK]";
    json_t *config = NULL, *tokens = NULL;
    uint64_t id = 0;
    hf_view v = hf_view_of(f->source);
    hf_found row = *f;
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
        return projector_fail_shape(f, "a row for the token [IMG_BREAK]", e);
    row.suffix = "";
    return hf_build_view(b, &row, 0, &v, e);
}

/* Readers have one convolution for a single frame, whose like are all frames of an image. */
bool hf_step_sum_frames(hf_build *b, const hf_found *f, gq_error *e) {
    enum { SIDE_MOST = 4096 }; /* pixels: products of it do not wrap */
    const hf_source *s = f->source;
    uint32_t frames, side;
    if (!hf_config_u32(b->config, "vision.patch_temporal", &frames, e) ||
        !hf_config_u32(b->config, "vision.patch_size", &side, e))
        return false;
    uint64_t part = 3 * (uint64_t)side * side, outputs = s->n_dims ? s->shape[0] : 0;
    if (s->coding != HF_PLAIN || !frames || !part || side > SIDE_MOST || !outputs ||
        outputs > UINT64_MAX / 8 / part || frames > 16 || s->stored->n != outputs * frames * part)
        return projector_fail_shape(f, "[C, frames 3 p p] of patch_temporal frames", e);
    float *sum = malloc(outputs * part * sizeof *sum), *row = malloc(frames * part * sizeof *row);
    bool ok = (sum && row) || gq_fail_memory(e, outputs * part * sizeof *sum);
    for (uint64_t o = 0; ok && o < outputs; o++) {
        ok = s->deltas.n ? hf_changed_read(s, o, 1, 0, s->columns, tensor_type_of(GGUF_F32), row, e)
                         : hf_list_floats(s->list, s->stored, o * frames * part, frames * part, row, e);
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

bool hf_step_rows(hf_build *b, const hf_found *f, gq_error *e) {
    unsigned rows = hf_found_names(f);
    if (f->source->n_dims != 2 || f->source->shape[0] != rows)
        return projector_fail_shape(f, "another number of rows", e);
    for (unsigned i = 0; i < rows; i++) {
        hf_view v = hf_view_of(f->source);
        if (!view_take_row(&v, i)) return projector_fail_shape(f, "rows", e);
        if (!hf_build_view(b, f, i, &v, e)) return false;
    }
    return true;
}

bool hf_step_without_first(hf_build *b, const hf_found *f, gq_error *e) {
    hf_view v = hf_view_of(f->source);
    if (v.n_dims != 2 || v.count[0] < 2 || !hf_view_cut(&v, 0, 1, v.count[0] - 1, 1))
        return projector_fail_shape(f, "a matrix of several rows", e);
    return hf_build_view(b, f, 0, &v, e);
}

bool hf_step_next_number(hf_build *b, const hf_found *f, gq_error *e) {
    hf_found next = *f;
    next.layer++;
    return hf_step_plain(b, &next, e);
}

/* The last dimension holds p rows of p columns of three colours: the colours come first, as patches are cut. */
bool hf_step_patch_colours(hf_build *b, const hf_found *f, gq_error *e) {
    hf_view v = hf_view_of(f->source);
    uint32_t last = v.n_dims ? v.n_dims - 1 : 0;
    uint64_t n = v.count[last], side = (uint64_t)sqrt((double)n / 3);
    if (v.n_dims < 1 || v.n_dims > 2 || 3 * side * side != n || !hf_view_split(&v, last, 3) ||
        !hf_view_split(&v, last, side))
        return projector_fail_shape(f, "p p 3 columns", e);
    hf_view_swap(&v, last, last + 2);
    hf_view_swap(&v, last + 1, last + 2);
    return hf_build_reordered(b, f, &v, e);
}
