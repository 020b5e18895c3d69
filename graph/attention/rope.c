/* Rotary positions: tables of sines and cosines, in double, and turning by them. */
#include <math.h>
#include <stdlib.h>

#include "graph/attention/attention.h"
#include "graph/attention/rope.h"

/* How much of a pair's angle yarn keeps as it is, instead of scaling it. */
static double yarn_keeps(const rope_numbers *n, const rope_angles *p, size_t pair) {
    const double pi = 3.14159265358979323846;
    double turned = (double)p->turned, turns = 2 * log(p->base);
    double low = floor(turned * log(n->original_context / (n->beta_fast * 2 * pi)) / turns);
    double high = ceil(turned * log(n->original_context / (n->beta_slow * 2 * pi)) / turns);
    low = fmax(0, low), high = fmin(turned - 1, high);
    double ramp = ((double)pair - low) / fmax(0.001, high - low);
    return 1 - fmin(fmax(ramp, 0), 1);
}

/* Whether text turns a pair: the last of four positions is 0. */
static bool pair_turns(const rope_numbers *n, size_t pair) {
    const size_t *of = n->sections;
    size_t sum = of[0] + of[1] + of[2] + of[3], at = sum ? pair % sum : 0;
    if (n->kind == SECTIONS_IN_ORDER) return at < sum - of[3];
    return n->kind == SECTIONS_NONE || at < 3 * of[at % 3];
}

static void rope_fill_one_table(const rope_numbers *n, rope_tables *tables, int local, bool is_short,
                                size_t context, const float *factors) {
    const rope_angles *p = &n->angles[local];
    size_t pairs = p->turned / 2, row = is_short ? pairs : 0;
    for (size_t i = 0; i < pairs; i++, row++) {
        double step = pair_turns(n, i) ? pow(p->base, -2.0 * (double)i / (double)p->turned) : 0;
        double keep = p->yarn ? n->yarn_share * yarn_keeps(n, p, i) : 0;
        if (factors) step /= (double)factors[i];
        for (size_t t = 0; t < context; t++) {
            double theta = (double)t * step, angle = keep * theta + (1 - keep) * p->scale * theta;
            tables->cosine[local][row * tables->turn_stride + t] = (float)(cos(angle) * p->magnitude);
            tables->sine[local][row * tables->turn_stride + t] = (float)(sin(angle) * p->magnitude);
        }
    }
}

/* Texts of a window of `context` tokens that are short enough for other factors than it has; 0: none can be. */
static size_t rope_short_tokens(const rope_numbers *n, size_t context) {
    bool differ = !n->freqs && n->longer != n->shorter && (double)context > n->original_context;
    return differ ? (size_t)n->original_context : 0;
}

/* The factors that the angles of texts of `context` tokens are divided by, or NULL: there are none. */
static bool read_factors(const rope_numbers *n, const forward_model *m, size_t context, float **factors,
                         gq_error *e) {
    const model_tensor *t = n->freqs;
    if (!t) t = (double)context > n->original_context ? n->longer : n->shorter;
    *factors = NULL;
    if (!t) return true;
    void *raw = malloc(t->size);
    *factors = malloc(shape_elements(t->ne) * sizeof **factors);
    bool ok = raw && *factors ? model_read_values(m, t, raw, *factors, e) : gq_fail_memory(e, t->size);
    free(raw);
    for (size_t i = 0; ok && i < n->angles[0].turned / 2; i++)
        if (!isfinite((*factors)[i]) || (*factors)[i] == 0) {
            gq_fail(e, "%s: tensor %s: element %zu is %g, expected a number other than 0", m->path, t->name,
                    i, (double)(*factors)[i]);
            ok = batch_blame_weights(e);
        }
    return ok;
}

void rope_lay_out(const rope_numbers *n, rope_tables *t, size_t context, scratch *s) {
    t->turn_stride = forward_stride(context), t->short_tokens = rope_short_tokens(n, context);
    for (int local = 0; local < 2; local++) {
        size_t rows = n->angles[local].turned / 2 * (t->short_tokens ? 2 : 1);
        t->cosine[local] = scratch_take(s, rows, t->turn_stride, sizeof(float));
        t->sine[local] = scratch_take(s, rows, t->turn_stride, sizeof(float));
    }
    if (n->temperature != 0) t->temperature = scratch_take(s, 1, t->turn_stride, sizeof(float));
}

bool rope_fill_tables(const rope_numbers *n, rope_tables *tables, const forward_model *m, size_t context,
                      gq_error *e) {
    bool ok = true;
    for (int is_short = 0; ok && is_short < (tables->short_tokens ? 2 : 1); is_short++) {
        float *factors;
        ok = read_factors(n, m, is_short ? tables->short_tokens : context, &factors, e);
        for (int local = 0; ok && local < 2; local++)
            rope_fill_one_table(n, tables, local, is_short, context,
                                local && n->freqs_global ? NULL : factors);
        free(factors);
    }
    for (size_t t = 0; n->temperature != 0 && t < context; t++)
        tables->temperature[t] =
            (float)(1 + n->temperature *
                            log(floor(((double)t + n->temperature_first) / n->temperature_length) + 1));
    return ok;
}

typedef struct turned_rows {
    const forward_batch *b;
    const rope_tables *tables;
    float *x;
    size_t step; /* rows from a head to the next */
    size_t pairs;
    bool is_local, neox;
} turned_rows;

static void turn_pair(void *data, size_t j, int thread) {
    const turned_rows *t = data;
    const forward_batch *b = t->b;
    const rope_tables *tables = t->tables;
    size_t pairs = t->pairs, i = j % pairs, head = j / pairs * t->step;
    size_t u = head + (t->neox ? i : 2 * i), v = head + (t->neox ? i + pairs : 2 * i + 1);
    (void)thread;
    for (size_t w = 0; w < b->n_spans; w++) {
        const batch_span *text = &b->spans[w];
        size_t row = rope_rows_of(tables, text, pairs) + i * tables->turn_stride;
        b->model->elements->turn(t->x + u * b->stride + text->first, t->x + v * b->stride + text->first,
                                 tables->cosine[t->is_local] + row, tables->sine[t->is_local] + row,
                                 text->tokens);
    }
}

void batch_rope(forward_batch *b, const plan_part *p, float *x, size_t heads, size_t step) {
    const attention_numbers *n = p->part->numbers;
    batch_rope_pairs(b, p, x, heads, step, n->rope.neox);
}

void batch_rope_pairs(forward_batch *b, const plan_part *p, float *x, size_t heads, size_t step, bool neox) {
    const attention_numbers *n = p->part->numbers;
    const attention_scratch *own = batch_own(b, p->part);
    const attention_layer *l = p->numbers;
    size_t pairs = n->rope.angles[l->is_local].turned / 2;
    turned_rows t = {b, &own->rope, x, step, pairs, l->is_local, neox};
    threads_for(b->pool, heads * pairs, THREADS_EVEN, turn_pair, &t);
}

typedef struct turned_columns {
    const forward_batch *b;
    const rope_tables *tables;
    const rope_columns *of;
    size_t pairs;
    bool is_local, neox;
} turned_columns;

static void turn_column_pair(void *data, size_t j, int thread) {
    const turned_columns *t = data;
    const rope_columns *of = t->of;
    size_t s = t->b->stride, i = j % t->pairs, head = j / t->pairs * of->head;
    float *u = of->x + (head + (t->neox ? i : 2 * i)) * s, *v = u + (t->neox ? t->pairs : 1) * s;
    const rope_tables *tables = t->tables;
    (void)thread;
    for (size_t w = 0; w < t->b->n_spans; w++) {
        const batch_span *text = &t->b->spans[w];
        size_t row = rope_rows_of(tables, text, t->pairs) + i * tables->turn_stride;
        const float *cosine = tables->cosine[t->is_local] + row, *sine = tables->sine[t->is_local] + row;
        for (size_t k = 0; k < of->columns && k < text->tokens / of->step; k++) {
            size_t at = text->first + k, position = k * of->step;
            float a = u[at], c = v[at], turn = of->back ? -sine[position] : sine[position];
            u[at] = a * cosine[position] - c * turn, v[at] = a * turn + c * cosine[position];
        }
    }
}

void batch_rope_columns(forward_batch *b, const plan_part *p, const rope_columns *c) {
    const attention_numbers *n = p->part->numbers;
    const attention_scratch *own = batch_own(b, p->part);
    const attention_layer *l = p->numbers;
    turned_columns t = {b, &own->rope, c, n->rope.angles[l->is_local].turned / 2, l->is_local, n->rope.neox};
    threads_for(b->pool, c->heads * t.pairs, THREADS_EVEN, turn_column_pair, &t);
}

typedef struct tempered_rows {
    const forward_batch *b;
    float *x;
    const float *temperature;
} tempered_rows;

static void temper_row(void *data, size_t r, int thread) {
    const tempered_rows *t = data;
    const forward_batch *b = t->b;
    (void)thread;
    for (size_t i = 0; i < b->n_spans; i++)
        b->model->elements->multiply(t->x + r * b->stride + b->spans[i].first, t->temperature,
                                     b->spans[i].tokens);
}

void batch_temper(forward_batch *b, const plan_part *p, float *x, size_t rows) {
    const attention_scratch *own = batch_own(b, p->part);
    const attention_layer *l = p->numbers;
    tempered_rows t = {b, x, own->rope.temperature};
    if (t.temperature && l->is_tempered) threads_for(b->pool, rows, THREADS_EVEN, temper_row, &t);
}
