/* Steps of projectors whose numbers are computed of several arrays, or whose tensors are counted over several lists. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "hf/arrays/names.h"
#include "hf/tensors/build_tensor.h"
#include "hf/tensors/granite_projectors.h"
#include "hf/tensors/steps.h"

enum { NAME_BYTES = 512 };

/* ---- norms of convolutions ---- */

/* Finds what stands beside one of a norm's arrays under the same name with another end, of as many numbers. */
static bool norm_find(hf_build *b, const hf_found *f, const char *end, const hf_source **found, gq_error *e) {
    char name[NAME_BYTES];
    const char *own = strrchr(f->source->name, '.');
    int before = own ? (int)(own - f->source->name) : 0;
    if (snprintf(name, sizeof name, "%.*s%s", before, f->source->name, end) >= NAME_BYTES)
        return hf_found_fail(f, e, "its name is too long");
    if (!hf_build_source(b, name, found, e)) return false;
    return (*found && (*found)->coding == HF_PLAIN && (*found)->stored->n == f->source->stored->n) ||
           hf_found_fail(f, e, "there is no %s of as many numbers beside it", name);
}

static bool norm_add(hf_build *b, const hf_found *f, const char *end, float *numbers, uint64_t n,
                     gq_error *e) {
    char name[NAME_BYTES];
    hf_pattern_write(f->rule->to, f->layer, UINT64_MAX, end, name, sizeof name);
    return hf_build_numbers(b, name, numbers, n, e);
}

/* Rules have the norm's four arrays under the name of one tensor, without its end: the weight's makes both. */
bool hf_step_batch_norm(hf_build *b, const hf_found *f, gq_error *e) {
    static const char *const ends[] = {".weight", ".bias", ".running_mean", ".running_var"};
    const float epsilon = 1e-5f;
    const hf_source *parts[4];
    uint64_t n = f->source->stored->n;
    bool is_weight = name_ends(f->source->name, ".weight");
    for (size_t k = 0; k < (is_weight ? 4 : 1); k++)
        if (!norm_find(b, f, ends[k], &parts[k], e)) return false;
    if (!is_weight) return true;
    float *x[4] = {NULL};
    bool ok = n > 0 || hf_found_fail(f, e, "it is empty");
    for (size_t k = 0; ok && k < 4; k++)
        ok = ((x[k] = malloc(n * sizeof *x[k])) || gq_fail_memory(e, n * sizeof *x[k])) &&
             hf_list_floats(parts[k]->list, parts[k]->stored, 0, n, x[k], e);
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
bool hf_step_radio_positions(hf_build *b, const hf_found *f, gq_error *e) {
    enum { SIDE_MOST = 1024, LARGER_MOST = 8 }; /* published ones have a side 4 times as long */
    const hf_source *s = f->source;
    uint32_t image, patch;
    if (!hf_config_u32_or(b->config, "root.force_image_size", 512, &image, e) ||
        !hf_config_u32(b->config, "vision.patch_size", &patch, e))
        return false;
    uint64_t to = patch ? image / patch : 0, rows = s->n_dims == 3 ? s->shape[1] : 0,
             from = (uint64_t)sqrt((double)rows), width = s->n_dims == 3 ? s->shape[2] : 0;
    if (s->coding != HF_PLAIN || !from || from > SIDE_MOST || from * from != rows || !width || !to ||
        to > SIDE_MOST || to > LARGER_MOST * from || s->stored->n != rows * width ||
        width > UINT64_MAX / 8 / to / to)
        return hf_found_fail(
            f, e, "expected [1, n n, D] positions, and images of 1 to %d patches a side, and of %d n at most",
            SIDE_MOST, LARGER_MOST);
    if (to == from) return hf_step_plain(b, f, e);
    float scale = to > 1 ? (float)(from - 1) / (float)(to - 1) : 0, *x = malloc(rows * width * sizeof *x),
          *y = malloc(to * to * width * sizeof *y);
    bool ok = (x && y) || gq_fail_memory(e, (rows + to * to) * width * sizeof *x);
    ok = ok && hf_list_floats(s->list, s->stored, 0, rows * width, x, e);
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

/* ---- codes of sounds ---- */

/* Finds codebook i beside that of a rule; *found NULL: there is none. */
static bool codebook_find(hf_build *b, const hf_found *f, unsigned i, const hf_source **found, gq_error *e) {
    char name[NAME_BYTES];
    hf_pattern_write(f->rule->from, i, UINT64_MAX, "", name, sizeof name);
    if (!hf_build_source(b, name, found, e)) return false;
    return !*found ||
           ((*found)->n_dims == 2 && (*found)->shape[0] && (*found)->shape[1] == f->source->shape[1]) ||
           hf_found_fail(f, e, "'%s' has other columns", name);
}

/* A codebook behind the first, which brings all, has one before it: else those behind a gap would be left out. */
static bool codebook_follows(hf_build *b, const hf_found *f, gq_error *e) {
    const hf_source *before;
    if (!codebook_find(b, f, (unsigned)f->layer - 1, &before, e)) return false;
    return before ||
           hf_found_fail(f, e, "codebook %u is missing: part of the model was not saved or downloaded",
                         (unsigned)f->layer - 1);
}

/* The first codebook brings all. How many rows each has goes into the config, for the pairs. */
bool hf_step_codebooks(hf_build *b, const hf_found *f, gq_error *e) {
    enum { CODEBOOKS_MOST = 256 };
    hf_found of[CODEBOOKS_MOST];
    json_t *sizes = json_array();
    uint64_t most = 0;
    size_t n = 0, shorter = 0, piece = 0;
    if (f->layer > 0) return json_decref(sizes), codebook_follows(b, f, e);
    bool ok = f->source->n_dims == 2 || hf_found_fail(f, e, "expected a matrix");
    for (const hf_source *s = f->source, *next = NULL; ok && s; s = next, n++) {
        if (n == CODEBOOKS_MOST) return json_decref(sizes), hf_found_fail(f, e, "more codebooks than %zu", n);
        of[n] = *f, of[n].source = s;
        most = s->shape[0] > most ? s->shape[0] : most;
        ok = (json_array_append_new(sizes, json_integer((json_int_t)s->shape[0])) == 0 ||
              gq_fail_memory(e, 0)) &&
             codebook_find(b, f, (unsigned)n + 1, &next, e);
    }
    uint32_t wanted = 0;
    ok = ok && hf_config_u32_or(b->config, "audio.num_quantizers", 0, &wanted, e) &&
         (n >= wanted ||
          hf_found_fail(f, e, "%zu codebooks, expected %u: part of the model was not saved or downloaded", n,
                        wanted));
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
bool hf_step_mean_codes(hf_build *b, const hf_found *f, gq_error *e) {
    enum { CODEBOOKS_MOST = 256 };
    const hf_source *sums[CODEBOOKS_MOST], *counts[CODEBOOKS_MOST];
    const char *end = "cluster_usage";
    size_t n = 0;
    if (name_ends(f->source->name, end)) return true;
    if (f->layer > 0) return codebook_follows(b, f, e);
    if (f->source->n_dims != 2 || !f->source->stored->n) return hf_found_fail(f, e, "expected a matrix");
    uint64_t rows = f->source->shape[0], columns = f->source->shape[1];
    for (const hf_source *s = f->source; s; n++) {
        char name[NAME_BYTES];
        size_t before = strlen(s->name) - strlen("embedding_sum");
        snprintf(name, sizeof name, "%.*s%s", (int)before, s->name, end);
        if (n == CODEBOOKS_MOST) return hf_found_fail(f, e, "more codebooks than %zu", n);
        sums[n] = s;
        if (!hf_build_source(b, name, &counts[n], e)) return false;
        if (!counts[n] || counts[n]->stored->n != rows || s->shape[0] != rows || s->coding != HF_PLAIN ||
            counts[n]->coding != HF_PLAIN)
            return hf_found_fail(f, e, "'%s' is missing, or is of another number of codes", name);
        if (!codebook_find(b, f, (unsigned)n + 1, &s, e)) return false;
    }
    float *codes = malloc(n * rows * columns * sizeof *codes), *count = malloc(rows * sizeof *count);
    bool ok = (codes && count) || gq_fail_memory(e, n * rows * columns * sizeof *codes);
    for (size_t i = 0; ok && i < n; i++) {
        float *x = codes + i * rows * columns;
        ok = hf_list_floats(sums[i]->list, sums[i]->stored, 0, rows * columns, x, e) &&
             hf_list_floats(counts[i]->list, counts[i]->stored, 0, rows, count, e);
        for (uint64_t k = 0; ok && k < rows * columns; k++) x[k] /= fmaxf(count[k / columns], 1e-5f);
    }
    free(count);
    if (!ok) return free(codes), false;
    return hf_build_numbers_shaped(b, f->rule->to, codes, n * rows * columns, n > 1 ? 3 : 2,
                                   (uint64_t[]){columns, rows, n}, e);
}

/* ---- activations ---- */

bool hf_step_snake_alpha(hf_build *b, const hf_found *f, gq_error *e) {
    return hf_build_with_op(b, f, HF_EXP, 0, e);
}

bool hf_step_snake_beta(hf_build *b, const hf_found *f, gq_error *e) {
    hf_piece *p = hf_build_whole(b, f, e);
    return p && hf_piece_add_op(p, HF_EXP, 0, e) && hf_piece_add_op(p, HF_ADD, 1e-9f, e) &&
           hf_piece_add_op(p, HF_RECIPROCAL, 0, e);
}

/* ---- Granite's projectors ---- */

bool hf_step_granite(hf_build *b, const hf_found *f, gq_error *e) {
    granite_projector list[GRANITE_MOST];
    bool is_spatial = strstr(f->rule->from, "spatial_projectors") != NULL;
    hf_found own = *f;
    size_t n;
    if (!granite_projectors(b->config, list, &n, e)) return false;
    for (own.layer = 0; own.layer < n; own.layer++)
        if (list[own.layer].is_spatial == is_spatial && list[own.layer].number == f->layer)
            return hf_step_plain(b, &own, e);
    return hf_found_fail(f, e, "the config has no projector of this number");
}
