/* Rotary positions: tables of sines and cosines, in double, and turning by them. */
#include <math.h>
#include <stdlib.h>

#include "forward/batch.h"

/* How much of a pair's angle yarn keeps as it is, instead of scaling it. */
static double yarn_keeps(const forward_model *m, const rope_plan *p, size_t pair) {
    const double pi = 3.14159265358979323846;
    double n = (double)m->turned, turns = 2 * log(p->base);
    double low = floor(n * log(m->original_context / (m->beta_fast * 2 * pi)) / turns);
    double high = ceil(n * log(m->original_context / (m->beta_slow * 2 * pi)) / turns);
    low = fmax(0, low), high = fmin(n - 1, high);
    double ramp = ((double)pair - low) / fmax(0.001, high - low);
    return 1 - fmin(fmax(ramp, 0), 1);
}

static void fill(forward_batch *b, int local, const float *factors) {
    const forward_model *m = b->model;
    const rope_plan *p = &m->rope[local];
    for (size_t i = 0; i < m->turned / 2; i++) {
        double step = pow(p->base, -2.0 * (double)i / (double)m->turned);
        double keep = p->yarn ? yarn_keeps(m, p, i) : 0;
        if (factors) step /= (double)factors[i];
        for (size_t t = 0; t < b->context; t++) {
            double theta = (double)t * step, angle = keep * theta + (1 - keep) * p->scale * theta;
            b->cosine[local][i * b->turn_stride + t] = (float)(cos(angle) * p->magnitude);
            b->sine[local][i * b->turn_stride + t] = (float)(sin(angle) * p->magnitude);
        }
    }
}

/* The factors that the angles are divided by, or NULL: there are none. */
static bool read_factors(const forward_batch *b, float **factors, gq_error *e) {
    const forward_model *m = b->model;
    const gguf_tensor *t = m->rope_freqs;
    if (!t) t = (double)b->context > m->original_context ? m->rope_long : m->rope_short;
    *factors = NULL;
    if (!t) return true;
    void *raw = malloc(t->size);
    *factors = malloc(gguf_elements(t->ne) * sizeof **factors);
    bool ok = raw && *factors ? model_read_values(m, t, raw, *factors, e) : gq_fail_memory(e, t->size);
    free(raw);
    for (size_t i = 0; ok && i < m->turned / 2; i++)
        if (!isfinite((*factors)[i]) || (*factors)[i] == 0) {
            gq_fail(e, "%s: tensor %s: element %zu is %g, expected a number other than 0", m->path, t->name,
                    i, (double)(*factors)[i]);
            ok = batch_blame_weights(e);
        }
    return ok;
}

bool batch_fill_rope(forward_batch *b, gq_error *e) {
    const forward_model *m = b->model;
    float *factors;
    bool ok = read_factors(b, &factors, e);
    for (int local = 0; ok && local < 2; local++) fill(b, local, factors);
    free(factors);
    for (size_t t = 0; m->temperature != 0 && t < b->context; t++)
        b->temperature[t] = (float)(1 + m->temperature * log(floor((double)t / m->temperature_length) + 1));
    return ok;
}

typedef struct turned_rows {
    const forward_batch *b;
    float *x;
    size_t step; /* rows from a head to the next */
} turned_rows;

static void turn_pair(void *data, size_t j, int thread) {
    const turned_rows *t = data;
    const forward_batch *b = t->b;
    const forward_model *m = b->model;
    int local = b->layer->plan->local;
    size_t pairs = m->turned / 2, i = j % pairs, head = j / pairs * t->step;
    size_t u = head + (m->neox ? i : 2 * i), v = head + (m->neox ? i + pairs : 2 * i + 1);
    (void)thread;
    for (size_t w = 0; w < b->windows; w++) {
        size_t first = w * b->context;
        m->elements->turn(t->x + u * b->stride + first, t->x + v * b->stride + first,
                          b->cosine[local] + i * b->turn_stride, b->sine[local] + i * b->turn_stride,
                          b->context);
    }
}

void batch_rope(forward_batch *b, float *x, size_t heads, size_t step) {
    threads_for(b->pool, heads * (b->model->turned / 2), THREADS_EVEN, turn_pair, &(turned_rows){b, x, step});
}

static void temper_row(void *data, size_t r, int thread) {
    const turned_rows *t = data;
    const forward_batch *b = t->b;
    (void)thread;
    for (size_t w = 0; w < b->windows; w++)
        b->model->elements->multiply(t->x + r * b->stride + w * b->context, b->temperature, b->context);
}

void batch_temper(forward_batch *b, float *x, size_t rows) {
    if (b->temperature) threads_for(b->pool, rows, THREADS_EVEN, temper_row, &(turned_rows){b, x, 0});
}
