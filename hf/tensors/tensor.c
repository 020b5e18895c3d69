/* Stage 5, delivered tensors. Reads their elements: a range of a piece is walked in the order of its view.
 * Three ways cover all views:
 *
 * - runs: the innermost dimension is contiguous in the source. Each run is read where it goes. Short runs
 * that together fill a small part of the source (a row whose columns are reordered) are read at once and
 * picked apart in memory.
 * - columns: the innermost dimension goes down a column, so a row of the tensor is a column of the source.
 * Rows of the tensor that lie near one another there are read together, as a rectangle of the source.
 * - steps: the innermost dimension takes every s-th element: what lies between is read, too, if it is not
 * much.
 *
 * Arithmetic is done on floats where they have arrived.
 */
#include "hf/tensors/tensors.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    SHORT_RUN = 1024,       /* units; shorter ones are not worth a call of the system */
    FAR_STRIDE = 64,        /* units; what lies between them is not worth reading */
    PICKED_UNITS = 1 << 17, /* of the source that are read to be picked apart */
    RECTANGLE_UNITS = 1 << 16,
};

bool hf_piece_add_op(hf_piece *p, hf_value_op_kind kind, double value, gq_error *e) {
    if (p->n_ops == PIECE_OPS) return gq_fail(e, "more than %d operations on a tensor", PIECE_OPS);
    p->ops[p->n_ops++] = (hf_value_op){kind, (float)value};
    return true;
}

const tensor_type *hf_tensor_moved_type(const hf_tensor *t) {
    const tensor_type *type = NULL;
    for (size_t i = 0; i < t->n_pieces; i++) {
        const hf_piece *p = &t->pieces[i];
        const tensor_type *own = p->source ? hf_source_type(p->source) : NULL;
        if (p->numbers || p->n_ops || (own && type && own != type)) return NULL;
        if (own) type = own;
    }
    return type;
}

bool hf_tensor_join(hf_tensor *t, gq_error *e) {
    model_tensor *m = &t->tensor;
    uint64_t n = 0, unit = m->type->id == GGUF_MXFP4 ? m->type->block_elements : 1, wanted = 1;
    for (int i = 0; i < GGUF_MAX_DIMS; i++) wanted = mul_sat(wanted, m->ne[i]);
    for (size_t i = 0; i < t->n_pieces; i++) {
        hf_piece *p = &t->pieces[i];
        if (p->source) hf_view_simplify(&p->view), p->n = hf_view_units(&p->view);
        p->first = n, n = add_sat(n, p->n);
    }
    if (mul_sat(n, unit) == wanted && wanted % m->type->block_elements == 0) {
        m->size = model_bytes(m, wanted);
        return true;
    }
    return gq_fail(e, "tensor '%s': %llu elements are there, expected %llu (%llu x %llu x %llu)", m->name,
                   LLU(mul_sat(n, unit)), LLU(wanted), LLU(m->ne[0]), LLU(m->ne[1]),
                   LLU(mul_sat(m->ne[2], m->ne[3])));
}

/* ---- arithmetic ---- */

static float op_apply(const hf_value_op *op, float x) {
    switch (op->kind) {
    case HF_ADD:
        return x + op->value;
    case HF_MULTIPLY:
        return x * op->value;
    case HF_EXP:
        return expf(x);
    case HF_RECIPROCAL:
        return 1 / x;
    case HF_ROUND_TERNARY: /* NaN stays NaN */
        x = rintf(x * op->value);
        return (x > 1 ? 1 : x < -1 ? -1 : x) / op->value;
    case HF_SOFTPLUS: /* as PyTorch has it: large numbers are their own */
        return x > 20 ? x : log1pf(expf(x));
    default:
        return -expf(x);
    }
}

static void piece_apply_ops(const hf_piece *p, float *x, uint64_t n) {
    bool half =
        p->source->coding == &hf_plain && p->source->stored->dtype == HF_F16 && p->source->deltas.n == 0;
    for (uint32_t k = 0; k < p->n_ops; k++)
        for (uint64_t i = 0; i < n; i++) {
            x[i] = op_apply(&p->ops[k], x[i]);
            if (half) x[i] = number_round_f16(x[i]);
        }
}

static void piece_divide_columns(const hf_piece *p, float *x, uint64_t first, uint64_t n) {
    for (uint64_t i = 0; i < n; i++) x[i] /= p->numbers[(first + i) % p->source->columns];
}

/* ---- a range of a view ---- */

/* Reads n units that follow one another in the source: the end of a row, whole rows, the beginning of a row. */
static bool source_read_run(const hf_source *s, uint64_t at, uint64_t n, const tensor_type *as, uint8_t *to,
                            gq_error *e) {
    for (uint64_t some; n > 0; n -= some, at += some, to += some * as->block_bytes) {
        uint64_t row = at / s->columns, column = at % s->columns, rows = 1, columns;
        if (column == 0 && n >= s->columns)
            rows = n / s->columns, columns = s->columns;
        else
            columns = min(n, s->columns - column);
        if (!hf_changed_read(s, row, rows, column, columns, as, to, e)) return false;
        some = rows * columns;
    }
    return true;
}

static void unit_copy(uint8_t *to, const uint8_t *from, uint64_t i, uint64_t k, size_t size) {
    memcpy(to + i * size, from + k * size, size);
}

/* Returns the first of the innermost dimensions that together fill a small part of the source without gaps,
 * if the innermost one alone has short runs; n_dims: there are none. */
static uint32_t view_picked_from(const hf_view *v) {
    uint64_t span = 0, units = 1;
    if (v->count[v->n_dims - 1] >= SHORT_RUN) return v->n_dims;
    uint32_t found = v->n_dims;
    for (uint32_t i = v->n_dims; i > 0; i--) {
        uint32_t d = i - 1;
        units *= v->count[d];
        span += (v->count[d] - 1) * v->stride[d];
        if (units > PICKED_UNITS || span >= PICKED_UNITS) break;
        if (span + 1 == units) found = d;
    }
    return found == v->n_dims - 1 ? v->n_dims : found;
}

/* Reads one whole cycle of the dimensions from `dim` on, which fill a part of the source, into `part`, and
 * copies units [first, first + n) of them. */
static bool view_pick(const hf_source *s, const hf_view *v, uint32_t dim, uint64_t cycle, uint64_t units,
                      uint64_t first, uint64_t n, const tensor_type *as, uint8_t *part, uint8_t *to,
                      gq_error *e) {
    hf_view inner = {.n_dims = v->n_dims - dim};
    memcpy(inner.count, v->count + dim, inner.n_dims * sizeof *inner.count);
    memcpy(inner.stride, v->stride + dim, inner.n_dims * sizeof *inner.stride);
    if (!source_read_run(s, hf_view_offset(v, dim, cycle), units, as, part, e)) return false;
    uint64_t run = inner.stride[inner.n_dims - 1] == 1 ? inner.count[inner.n_dims - 1] : 1;
    for (uint64_t i = first, some; i < first + n; i += some) {
        some = min(run - i % run, first + n - i);
        memcpy(to + (i - first) * as->block_bytes,
               part + hf_view_offset(&inner, inner.n_dims, i) * as->block_bytes, some * as->block_bytes);
    }
    return true;
}

static bool view_read_picked(const hf_source *s, const hf_view *v, uint32_t dim, uint64_t first, uint64_t n,
                             const tensor_type *as, uint8_t *to, gq_error *e) {
    uint64_t units = 1;
    for (uint32_t i = dim; i < v->n_dims; i++) units *= v->count[i];
    uint8_t *part = malloc(units * as->block_bytes);
    bool ok = part || gq_fail_memory(e, units * as->block_bytes);
    for (uint64_t some; ok && n > 0; first += some, n -= some, to += some * as->block_bytes) {
        some = min(n, units - first % units);
        ok = view_pick(s, v, dim, first / units, units, first % units, some, as, part, to, e);
    }
    free(part);
    return ok;
}

static bool view_read_runs(const hf_source *s, const hf_view *v, uint64_t first, uint64_t n,
                           const tensor_type *as, uint8_t *to, gq_error *e) {
    uint64_t run = v->stride[v->n_dims - 1] == 1 ? v->count[v->n_dims - 1] : 1;
    for (uint64_t some; n > 0; first += some, n -= some, to += some * as->block_bytes) {
        some = min(n, run - first % run);
        if (!source_read_run(s, hf_view_offset(v, v->n_dims, first), some, as, to, e)) return false;
    }
    return true;
}

static bool view_read_strided(const hf_source *s, const hf_view *v, uint64_t first, uint64_t n,
                              const tensor_type *as, uint8_t *to, gq_error *e) {
    uint64_t count = v->count[v->n_dims - 1], stride = v->stride[v->n_dims - 1], size = as->block_bytes;
    uint64_t most = PICKED_UNITS / stride + 1;
    uint8_t *part = malloc((most * stride + 1) * size);
    bool ok = part || gq_fail_memory(e, most * stride * size);
    for (uint64_t some; ok && n > 0; first += some, n -= some, to += some * size) {
        some = min(min(n, count - first % count), most);
        ok = source_read_run(s, hf_view_offset(v, v->n_dims, first), (some - 1) * stride + 1, as, part, e);
        for (uint64_t i = 0; ok && i < some; i++) unit_copy(to, part, i, i * stride, size);
    }
    free(part);
    return ok;
}

/* Rows of a tensor that are columns of the source: how many from number `row` on lie in the same rows of the
 * source, within four times as many columns as they are (a permuted head does), and which columns these are. */
static uint64_t columns_together(const hf_source *s, const hf_view *v, uint64_t row, uint64_t most,
                                 uint64_t *low, uint64_t *width) {
    uint64_t first = hf_view_offset(v, v->n_dims - 1, row), least = first, last = first, n = 1;
    for (uint64_t i = 1; i < most; i++) {
        uint64_t at = hf_view_offset(v, v->n_dims - 1, row + i);
        if (at / s->columns != first / s->columns) break;
        uint64_t from = min(least, at), to = max(last, at);
        if (to - from >= 4 * most + 64) break;
        least = from, last = to, n = i + 1;
    }
    *low = least % s->columns, *width = last - least + 1;
    return n;
}

/* Copies `count` rows of a rectangle of the source to where they go: row i of it is element i of each of
 * n_rows rows. */
static void columns_spread(const hf_source *s, const hf_view *v, uint64_t row, uint64_t n_rows, uint64_t low,
                           uint64_t width, const uint8_t *part, uint64_t count, uint64_t size, uint8_t *to,
                           uint64_t row_units) {
    for (uint64_t j = 0; j < n_rows; j++) {
        const uint8_t *from = part + (hf_view_offset(v, v->n_dims - 1, row + j) % s->columns - low) * size;
        uint8_t *out = to + j * row_units * size;
        for (uint64_t i = 0; i < count; i++) memcpy(out + i * size, from + i * width * size, size);
    }
}

/* Reads elements [first, first + n) of n_rows rows of the tensor; more than one row is read whole. */
static bool columns_read(const hf_source *s, const hf_view *v, uint64_t row, uint64_t n_rows, uint64_t first,
                         uint64_t n, const tensor_type *as, uint8_t *part, uint8_t *to, gq_error *e) {
    uint64_t low, width, size = as->block_bytes;
    for (uint64_t together; n_rows > 0; row += together, n_rows -= together, to += together * n * size) {
        together = columns_together(s, v, row, min(n_rows, 4096), &low, &width);
        uint64_t from = hf_view_offset(v, v->n_dims - 1, row) / s->columns + first, some;
        uint64_t most = max(1, RECTANGLE_UNITS / width);
        for (uint64_t i = 0; i < n; i += some) {
            some = min(most, n - i);
            if (!hf_changed_read(s, from + i, some, low, width, as, part, e)) return false;
            columns_spread(s, v, row, together, low, width, part, some, size, to + i * size, n);
        }
    }
    return true;
}

static bool view_read_columns(const hf_source *s, const hf_view *v, uint64_t first, uint64_t n,
                              const tensor_type *as, uint8_t *to, gq_error *e) {
    uint64_t count = v->count[v->n_dims - 1], size = as->block_bytes;
    uint8_t *part = malloc(RECTANGLE_UNITS * size);
    bool ok = part || gq_fail_memory(e, RECTANGLE_UNITS * size);
    for (uint64_t some; ok && n > 0; first += some, n -= some, to += some * size) {
        bool whole = first % count == 0 && n >= count;
        some = whole ? n / count * count : min(n, count - first % count);
        ok = columns_read(s, v, first / count, whole ? n / count : 1, first % count, whole ? count : some, as,
                          part, to, e);
    }
    free(part);
    return ok;
}

static bool view_read(const hf_source *s, const hf_view *v, uint64_t first, uint64_t n, const tensor_type *as,
                      uint8_t *to, gq_error *e) {
    uint64_t stride = v->stride[v->n_dims - 1];
    uint32_t picked = view_picked_from(v);
    if (picked < v->n_dims) return view_read_picked(s, v, picked, first, n, as, to, e);
    if (stride == s->columns) return view_read_columns(s, v, first, n, as, to, e);
    return stride == 1 || stride > FAR_STRIDE ? view_read_runs(s, v, first, n, as, to, e)
                                              : view_read_strided(s, v, first, n, as, to, e);
}

/* ---- a tensor ---- */

static bool piece_read_rows(const hf_piece *p, uint64_t first, uint64_t n, const tensor_type *type,
                            uint8_t *to, gq_error *e) {
    if (p->source) {
        if (!view_read(p->source, &p->view, first, n, type, to, e)) return false;
        if (p->n_ops) piece_apply_ops(p, (float *)(void *)to, n);
        if (p->numbers) piece_divide_columns(p, (float *)(void *)to, first, n);
    } else if (p->ids) {
        for (uint64_t i = 0; i < n; i++) /* the lower bytes of a number come first */
            memcpy(to + i * type->block_bytes, p->ids + first + i, type->block_bytes);
    } else if (p->numbers) {
        memcpy(to, p->numbers + first, n * sizeof *p->numbers);
    } else {
        memset(to, 0, n * type->block_bytes);
    }
    return true;
}

/* Returns the number of the piece that a unit is in. */
static size_t tensor_piece_of(const hf_tensor *t, uint64_t unit) {
    size_t low = 0, high = t->n_pieces;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        *(t->pieces[middle].first <= unit ? &low : &high) = middle;
    }
    return low;
}

bool hf_tensor_read(const hf_tensor *t, uint64_t first, uint64_t n, void *to, gq_error *e) {
    const tensor_type *type = t->tensor.type;
    uint8_t *out = to;
    first /= type->block_elements, n /= type->block_elements;
    for (size_t i = tensor_piece_of(t, first); n > 0; i++) {
        const hf_piece *p = &t->pieces[i];
        uint64_t some = min(n, p->first + p->n - first);
        if (!piece_read_rows(p, first - p->first, some, type, out, e)) return false;
        first += some, n -= some, out += some * type->block_bytes;
    }
    return true;
}

void hf_tensor_ranges(const hf_tensor *t, uint64_t first, uint64_t n,
                      void (*visit)(void *user, const gq_file *f, uint64_t offset, uint64_t bytes),
                      void *user) {
    uint64_t block = t->tensor.type->block_elements;
    first /= block, n /= block;
    for (size_t i = tensor_piece_of(t, first); n > 0; i++) {
        const hf_piece *p = &t->pieces[i];
        uint64_t some = min(n, p->first + p->n - first), at = first - p->first;
        if (p->source) {
            const hf_source *s = p->source;
            const hf_stored *stored = s->stored;
            uint64_t begin = hf_view_offset(&p->view, p->view.n_dims, at), units = s->rows * s->columns;
            uint64_t end = min(units, begin + some);
            double scale = (double)stored->bytes / (double)units;
            visit(user, &s->list->folder->files[stored->file].file,
                  stored->offset + (uint64_t)((double)begin * scale),
                  (uint64_t)((double)(end - begin) * scale));
        }
        first += some, n -= some;
    }
}

void hf_tensor_free(hf_tensor *t) {
    free((char *)t->origin.names), free((char *)t->origin.type), free((char *)t->origin.changes);
}
