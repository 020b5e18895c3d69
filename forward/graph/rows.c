#include "forward/graph/sublayer.h"

#include <string.h>

/* An operation on rows of x. */
typedef struct row_stride {
    batch_values x;
    const float *y; /* a row for each of x */
    size_t y_stride;
    const float *factors, *added; /* a number for each */
    float number;                 /* for all */
    const forward_model *m;
    const activation_rule *act;
    const row_groups *groups;
    void (*each)(float *x, size_t n); /* first; NULL: nothing */
    void (*change)(float *x, float number, size_t n);
} row_stride;

static void rows_run(forward_batch *b, threads_body *body, row_stride s) {
    s.m = b->model;
    threads_for(b->pool, s.x.rows, THREADS_EVEN, body, &s);
}

static float *row_of(const row_stride *s, size_t r) { return s->x.x + r * s->x.stride; }
static const float *other_row_of(const row_stride *s, size_t r) { return s->y + r * s->y_stride; }

/* ---- with other rows ---- */

static void row_add(void *data, size_t r, int) {
    const row_stride *s = data;
    s->m->elements->add_scaled(row_of(s, r), other_row_of(s, r), s->number, s->x.tokens);
}

void batch_add(forward_batch *b, float *x, size_t x_stride, const float *y, size_t y_stride, size_t rows,
               float factor) {
    rows_run(
        b, row_add,
        (row_stride){.x = {x, rows, x_stride, b->tokens}, .y = y, .y_stride = y_stride, .number = factor});
}

void batch_copy(const forward_batch *b, float *y, size_t y_stride, const float *x, size_t x_stride,
                size_t rows) {
    for (size_t r = 0; r < rows; r++) memcpy(y + r * y_stride, x + r * x_stride, b->tokens * sizeof *y);
}

static void row_sort(void *data, size_t r, int) {
    const row_stride *s = data;
    const row_groups *g = s->groups;
    size_t from = r / g->each * g->group + g->first + r % g->each;
    memcpy(row_of(s, r), other_row_of(s, from), s->x.tokens * sizeof *s->y);
}

void batch_sort_rows(forward_batch *b, const float *from, float *to, const row_groups *g) {
    rows_run(b, row_sort,
             (row_stride){
                 .x = batch_rows(b, to, g->groups * g->each), .y = from, .y_stride = b->stride, .groups = g});
}

static void row_multiply(void *data, size_t r, int) {
    const row_stride *s = data;
    if (s->each) s->each(row_of(s, r), s->x.tokens);
    s->m->elements->multiply(row_of(s, r), other_row_of(s, r), s->x.tokens);
}

void batch_multiply_rows(forward_batch *b, batch_values x, const float *y, size_t y_stride) {
    rows_run(b, row_multiply, (row_stride){.x = x, .y = y, .y_stride = y_stride});
}

static void row_gate(void *data, size_t r, int) {
    const row_stride *s = data;
    if (s->y)
        s->m->elements->gate(s->act, row_of(s, r), other_row_of(s, r), s->x.tokens);
    else
        s->m->elements->activate(s->act, row_of(s, r), s->x.tokens);
}

void batch_gate_rows(forward_batch *b, const activation_rule *act, batch_values x, const float *y,
                     size_t y_stride) {
    rows_run(b, row_gate, (row_stride){.x = x, .y = y, .y_stride = y_stride, .act = act});
}

void batch_gate_states(forward_batch *b, float *gate, const float *x, size_t rows, bool is_sigmoid) {
    if (is_sigmoid)
        rows_run(b, row_multiply,
                 (row_stride){.x = batch_rows(b, gate, rows),
                              .y = x,
                              .y_stride = b->stride,
                              .each = b->model->elements->sigmoid});
    else
        batch_gate_rows(b, &(activation_rule){.act = ACT_SILU}, batch_rows(b, gate, rows), x, b->stride);
}

/* ---- with numbers ---- */

static void row_change(void *data, size_t r, int) {
    const row_stride *s = data;
    s->change(row_of(s, r), s->number, s->x.tokens);
}

void batch_change_rows(forward_batch *b, void (*f)(float *x, float number, size_t n), batch_values x,
                       float number) {
    rows_run(b, row_change, (row_stride){.x = x, .change = f, .number = number});
}

void batch_scale(forward_batch *b, float *x, size_t stride, size_t rows, float factor) {
    batch_change_rows(b, b->model->elements->scale, (batch_values){x, rows, stride, b->tokens}, factor);
}

static void row_affine(void *data, size_t r, int) {
    const row_stride *s = data;
    if (s->factors) s->m->elements->scale(row_of(s, r), s->factors[r], s->x.tokens);
    if (s->added) s->m->elements->add(row_of(s, r), s->added[r], s->x.tokens);
}

void batch_affine_rows(forward_batch *b, batch_values x, const float *factors, const float *added) {
    rows_run(b, row_affine, (row_stride){.x = x, .factors = factors, .added = added});
}

static void row_decay(void *data, size_t r, int) {
    const row_stride *s = data;
    s->m->kernels->recurrence->decay(row_of(s, r), other_row_of(s, r), s->factors[r], s->x.tokens);
}

void batch_decay_rows(forward_batch *b, float *decay, const float *rate, const float *factor, size_t rows) {
    rows_run(
        b, row_decay,
        (row_stride){.x = batch_rows(b, decay, rows), .y = rate, .y_stride = b->stride, .factors = factor});
}

/* ---- by themselves ---- */

static void row_each(void *data, size_t r, int) {
    const row_stride *s = data;
    if (s->added) s->m->elements->add(row_of(s, r), s->added[r], s->x.tokens);
    s->each(row_of(s, r), s->x.tokens);
}

void batch_sigmoid_rows(forward_batch *b, float *x, size_t rows) {
    rows_run(b, row_each, (row_stride){.x = batch_rows(b, x, rows), .each = b->model->elements->sigmoid});
}

void batch_softplus_rows(forward_batch *b, float *x, const float *bias, size_t rows) {
    rows_run(b, row_each,
             (row_stride){.x = batch_rows(b, x, rows), .added = bias, .each = b->model->elements->softplus});
}
