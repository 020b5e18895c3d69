/* Tensors on a quantization grid of few bits: models that were trained for few bits, or stored in few bits and
 * written out in 16. Types that hold the grid lose nothing, and there is nothing for a calibration to make
 * better. A sample of rows is encoded in the types that can hold one: a type holds the grid if all weights come
 * back, but for the rounding to BF16. Of ordinary tensors one row and one type are enough to know. The sample
 * depends on shapes alone and codecs give the same bytes everywhere, so what is found does, too. */
#include "quantize/plan/target/target.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/fail.h"
#include "quantize/plan/rounding.h"
#include "quantize/quantize.h"
#include "quantize/strips/strips.h"

enum {
    SAMPLE_ROWS = 16,
    SAMPLE_LEAST = 256, /* weights of a row that are not 0, in all rows together: fewer say nothing */
};

/* Types that can hold a grid, smallest first; and the one that holds all grids of at most 4 bits: no other
 * is tried where it does not. */
static const uint32_t grid_types[] = {
    GGUF_TQ1_0, GGUF_TQ2_0, GGUF_Q3_K, GGUF_MXFP4, GGUF_Q4_0, GGUF_Q4_K,
    GGUF_Q4_1,  GGUF_Q5_0,  GGUF_Q5_K, GGUF_Q5_1,  GGUF_Q6_K, GGUF_Q8_0,
};
#define HOLDS_ALL GGUF_Q5_0
enum { GRID_TYPES = sizeof grid_types / sizeof *grid_types };
enum { GRID_MARK = 56 }; /* bits above are not of types, where a model keeps what was found */
_Static_assert((int)GGUF_TYPE_LIMIT <= GRID_MARK, "a bit for each type");

/* Whether decoded weights are the same but for the rounding to BF16, of 2^-8 at most and less in all: by
 * blocks, so that large weights do not speak for small ones. */
static bool row_is_held(const float *x, const float *y, size_t n) {
    enum { BLOCK = 32 };
    for (size_t first = 0; first < n; first += BLOCK) {
        double x2 = 0, e2 = 0;
        for (size_t i = first; i < first + BLOCK && i < n; i++) {
            double e = (double)x[i] - (double)y[i];
            x2 += (double)x[i] * (double)x[i], e2 += e * e;
        }
        if (!(e2 <= 0x1p-16 * x2)) return false;
    }
    return true;
}

static bool type_holds(const gq_plan *plan, uint32_t type, const float *x, size_t columns,
                       strip_buffers *scratch) {
    strip_encoder encoder = {
        .kernels = plan->kernels, .type = tensor_type_of(type), .settings = &plan->settings};
    codec_error sum = {0};
    return strip_encode(&encoder, x, 1, columns, scratch->stored[1], scratch->decoded[1], &sum) == columns &&
           row_is_held(x, scratch->decoded[1], columns);
}

/* Returns those of `types` that hold a row. */
static uint64_t row_types(const gq_plan *plan, const float *x, size_t columns, uint64_t types,
                          strip_buffers *scratch) {
    if (!type_holds(plan, HOLDS_ALL, x, columns, scratch)) return 0;
    for (size_t k = 0; k < GRID_TYPES; k++) {
        uint64_t bit = UINT64_C(1) << grid_types[k];
        if ((types & bit) && !type_holds(plan, grid_types[k], x, columns, scratch)) types &= ~bit;
    }
    return types;
}

/* Returns row j of a sample, one of each sixteenth of the rows. Their distances differ, as rows of two kinds
 * may take turns. */
static uint64_t sample_row(uint64_t j, uint64_t rows) {
    uint64_t at = j * SAMPLE_ROWS + j * 5 % SAMPLE_ROWS;
    return (uint64_t)((__uint128_t)at * rows / (SAMPLE_ROWS * SAMPLE_ROWS));
}

/* Counts the weights that are not 0. A row of zeros, which a sparse file has for each hole, is held by all
 * types and needs no encoding. */
static uint64_t row_count(const float *x, size_t columns) {
    uint64_t n = 0;
    for (size_t i = 0; i < columns; i++) n += x[i] != 0;
    return n;
}

/* Returns the types that hold the rows of a tensor's sample; 0: it lies on no grid. */
static uint64_t tensor_types(const gq_plan *plan, const model_tensor *t, strip_buffers *scratch) {
    uint64_t rows = shape_rows(t->ne), columns = t->ne[0], types = 0, some = 0;
    gq_error ignored;
    for (size_t k = 0; k < GRID_TYPES; k++)
        if (gguf_fits_row(tensor_type_of(grid_types[k]), columns)) types |= UINT64_C(1) << grid_types[k];
    if (!(types >> HOLDS_ALL & 1)) return 0;
    for (uint64_t j = 0; j < SAMPLE_ROWS && types; j++) {
        uint64_t row = sample_row(j, rows);
        float *x = scratch->decoded[0];
        if (!strip_read_decoded(plan->kernels, &plan->model, t, row * columns, columns, scratch->stored[0], x,
                                &ignored))
            return 0;
        uint64_t n = row_count(x, columns);
        if (n) types = row_types(plan, x, columns, types, scratch);
        some += n;
    }
    return some < SAMPLE_LEAST ? 0 : types;
}

/* Whether a tensor can be on a grid that matters: a matrix of floating-point numbers whose rows a strip
 * holds. */
static bool can_be_found(const gq_plan *plan, const plan_source *s) {
    const model_tensor *t = s->tensor;
    return !plan_transposes(s) && !t->type->quantized && plan->kernels->codecs[t->type->id].decode &&
           t->ne[0] <= STRIP_ELEMENTS && shape_rows(t->ne) >= SAMPLE_ROWS;
}

static bool any_is_quantized(const gq_plan *plan, const gq_options *options) {
    for (size_t o = 0; o < plan->n_outputs; o++) {
        const tensor_type *base = tensor_type_of(plan->outputs[o].filetype->base);
        if (plan_has_target(options, o) || (base && base->quantized)) return true;
    }
    return false;
}

/* The same as tensor_types, from what an earlier plan of the model has found with the same effort. */
static uint64_t shared_types(const gq_plan *plan, const gq_options *options, const plan_source *s,
                             strip_buffers *scratch) {
    const uint64_t mark = (uint64_t)(plan->settings.effort + 1) << GRID_MARK,
                   types_below = (UINT64_C(1) << GRID_MARK) - 1;
    _Atomic uint64_t *place =
        options->model && s->tensor != &s->view ? &options->model->qat_grids[s->number] : NULL;
    uint64_t known = place ? atomic_load(place) : 0;
    if ((known & ~types_below) == mark) return known & types_below;
    uint64_t types = tensor_types(plan, s->tensor, scratch);
    if (place) atomic_store(place, mark | types);
    return types;
}

bool plan_find_qat_grids(gq_plan *plan, const gq_options *options, gq_error *e) {
    const gq_callbacks *to = options->callbacks;
    if (!any_is_quantized(plan, options)) return true;
    strip_buffers *scratch = malloc(sizeof *scratch);
    if (!scratch) return gq_fail_memory(e, sizeof *scratch);
    bool ok = true;
    for (size_t i = 0; ok && i < plan->n_tensors; i++) {
        plan_source *s = &plan->sources[i];
        if (can_be_found(plan, s)) s->qat_grid = shared_types(plan, options, s, scratch);
        if (to && to->cancelled && !options->comm && to->cancelled(to->user))
            ok = gq_fail_as(e, GQ_INTERRUPTED, "stopped on request");
    }
    free(scratch);
    return ok;
}

/* ---- warnings ---- */

/* Lists the types of a set in words: "Q4_0, Q5_0 and Q8_0". */
static void types_list(char *to, size_t size, uint64_t types) {
    size_t n = 0;
    *to = 0;
    for (size_t k = 0; k < GRID_TYPES && n < size; k++) {
        uint64_t bit = UINT64_C(1) << grid_types[k];
        if (!(types & bit)) continue;
        types &= ~bit;
        n += (size_t)snprintf(to + n, size - n, "%s%s", n ? types ? ", " : " and " : "",
                              tensor_type_name(grid_types[k]));
    }
}

static bool warn_output(gq_plan *plan, const plan_output *out, uint64_t common, gq_error *e) {
    char types[160];
    size_t n = 0, first = 0;
    for (size_t i = plan->n_tensors; i-- > 0;) {
        const gq_tensor *t = &out->tensors[i];
        if (plan->sources[i].qat_grid && tensor_type_of(t->to)->quantized &&
            !plan_qat_grid_holds(&plan->sources[i], t->to))
            n++, first = i;
    }
    if (n == 0) return true;
    types_list(types, sizeof types, common ? common : plan->sources[first].qat_grid);
    return warnings_add(&plan->warnings, e,
                        "%s: %zu tensor%s on a quantization grid %s a type that cannot store it exactly, "
                        "first %s as %s; %s can",
                        out->label, n, plural_suffix(n), n == 1 ? "gets" : "get", plan->sources[first].name,
                        tensor_type_name(out->tensors[first].to), types);
}

bool plan_warn_qat_grids(gq_plan *plan, gq_error *e) {
    char types[160];
    uint64_t common = UINT64_MAX;
    size_t n = 0, first = 0;
    for (size_t i = plan->n_tensors; i-- > 0;)
        if (plan->sources[i].qat_grid) n++, first = i, common &= plan->sources[i].qat_grid;
    if (n == 0) return true;
    types_list(types, sizeof types, common ? common : plan->sources[first].qat_grid);
    if (!warnings_add(&plan->warnings, e,
                      "on a quantization grid of few bits, as in a QAT checkpoint: %zu tensor%s (first %s); "
                      "%s can store %s exactly%s",
                      n, plural_suffix(n), plan->sources[first].name, types,
                      common ? n == 1 ? "it" : "them" : "that one",
                      rounding_runs_ahead(plan) ? ", and calibration then leaves them unchanged" : ""))
        return false;
    for (size_t o = 0; o < plan->n_outputs; o++)
        if (!warn_output(plan, &plan->outputs[o], common, e)) return false;
    return true;
}
