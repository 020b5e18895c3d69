/* The recurrences of kernels.h at one ISA level. Per token a task goes over its state once for the delta
 * rule's S^T key, and once to change it and to form S^T query, so the state stays in the first cache: 64
 * columns of 128 rows are 32 KiB. A pass takes a few vectors of columns at a time, whose sums stay in
 * registers; what a row needs (key, query, decay) is broadcast from the transposed tokens. Columns behind the
 * last are computed as well: their values are 0. */
#include "forward/graph/simd/kernels.h"

#include "forward/graph/simd/exponential.h"

enum {
    STATE_VECTORS = STATE_COLUMNS / L,
    READ_VECTORS = STATE_VECTORS < 8 ? STATE_VECTORS : 8, /* chains that a pass which reads has */
    WRITE_VECTORS = 4,                                    /* twice as many registers a chain */
};

#ifdef __clang__
#define UNROLLED(i, n) _Pragma("clang loop unroll(full)") for (size_t i = 0; i < (n); i++)
#else
#define UNROLLED(i, n) _Pragma("GCC unroll 16") for (size_t i = 0; i < (n); i++)
#endif

/* to[t][at + i] = row i of token t, for `n` tokens; the width of `to` is `to_stride`. */
static void transpose_rows(const float *from, size_t stride, size_t rows, size_t n, float *to,
                           size_t to_stride) {
    for (size_t i = 0; i < rows; i++)
        for (size_t t = 0; t < n; t++) to[t * to_stride + i] = from[i * stride + t];
}

static void transpose_back(const float *from, size_t from_stride, float *to, size_t stride, size_t rows,
                           size_t n) {
    for (size_t i = 0; i < rows; i++)
        for (size_t t = 0; t < n; t++) to[i * stride + t] = from[t * from_stride + i];
}

/* ---- delta nets, and state spaces with a decay per head ---- */

/* One token's; rows are arrays of the transposed tokens. */
typedef struct recurrence_step {
    float *state;
    const float *key, *query, *decay, *decayed_key;
    float *value; /* [STATE_COLUMNS] */
    size_t rows;
    float rate, scale, skip;
} recurrence_step;

/* u = value - S^T (decay key), S from before it decays; into u[STATE_COLUMNS]. */
static void recurrence_compare(const recurrence_step *s, float *u) {
    for (size_t first = 0; first < STATE_VECTORS; first += READ_VECTORS) {
        vf sum[READ_VECTORS];
        const float *state = s->state + first * L;
        UNROLLED(v, READ_VECTORS) sum[v] = vf_all(0.0f);
        for (size_t j = 0; j < s->rows; j++) {
            vf key = vf_all(s->decayed_key[j]);
            UNROLLED(v, READ_VECTORS)
            sum[v] = vf_fused(vf_load(state + j * STATE_COLUMNS + v * L), key, sum[v]);
        }
        UNROLLED(v, READ_VECTORS)
        vf_store(u + (first + v) * L, vf_load(s->value + (first + v) * L) - sum[v]);
    }
}

/* S = diag(decay) S + key (rate u)^T; value = S^T query * scale + skip * value. */
static void recurrence_change(const recurrence_step *s, const float *u) {
    for (size_t first = 0; first < STATE_VECTORS; first += WRITE_VECTORS) {
        vf sum[WRITE_VECTORS], added[WRITE_VECTORS];
        float *state = s->state + first * L;
        UNROLLED(v, WRITE_VECTORS) {
            sum[v] = vf_all(0.0f);
            added[v] = vf_load(u + (first + v) * L) * s->rate;
        }
        for (size_t j = 0; j < s->rows; j++) {
            vf decay = vf_all(s->decay[j]), key = vf_all(s->key[j]), query = vf_all(s->query[j]);
            UNROLLED(v, WRITE_VECTORS) {
                float *at = state + j * STATE_COLUMNS + v * L;
                vf x = vf_fused(key, added[v], vf_load(at) * decay);
                vf_store(at, x);
                sum[v] = vf_fused(x, query, sum[v]);
            }
        }
        UNROLLED(v, WRITE_VECTORS) {
            float *at = s->value + (first + v) * L;
            vf_store(at, vf_fused(vf_load(at), vf_all(s->skip), sum[v] * s->scale));
        }
    }
}

static void recurrence_run(const recurrence_task *t) {
    size_t rows = t->rows;
    float *state = t->scratch, *key = state + rows * STATE_COLUMNS, *query = key + STATE_TOKENS * rows;
    float *decay = query + STATE_TOKENS * rows, *decayed_key = decay + STATE_TOKENS * rows;
    float *value = decayed_key + STATE_TOKENS * rows, u[STATE_COLUMNS];
    memset(state, 0, rows * STATE_COLUMNS * sizeof *state);
    memset(value, 0, STATE_TOKENS * STATE_COLUMNS * sizeof *value);
    for (size_t first = 0; first < t->tokens; first += STATE_TOKENS) {
        size_t n = t->tokens - first < STATE_TOKENS ? t->tokens - first : STATE_TOKENS;
        transpose_rows(t->key + first, t->stride, rows, n, key, rows);
        transpose_rows(t->query + first, t->stride, rows, n, query, rows);
        transpose_rows(t->decay + first, t->decay_stride, rows, n, decay, rows);
        transpose_rows(t->value + first, t->stride, t->columns, n, value, STATE_COLUMNS);
        for (size_t i = 0; i < n * rows; i++) decayed_key[i] = key[i] * decay[i];
        for (size_t i = 0; i < n; i++) {
            recurrence_step s = {.state = state,
                                 .key = key + i * rows,
                                 .query = query + i * rows,
                                 .decay = decay + i * rows,
                                 .decayed_key = decayed_key + i * rows,
                                 .value = value + i * STATE_COLUMNS,
                                 .rows = rows,
                                 .rate = t->rate[first + i],
                                 .scale = t->scale,
                                 .skip = t->skip};
            if (t->is_delta) recurrence_compare(&s, u);
            recurrence_change(&s, t->is_delta ? u : s.value);
        }
        transpose_back(value, STATE_COLUMNS, t->value + first, t->stride, t->columns, n);
    }
}

/* ---- state spaces with a decay per element ---- */

/* One token of one vector of columns. */
INLINE vf selection_step(float *state, const float *log_decay, const float *key, const float *query,
                         size_t rows, vf rate, vf value) {
    vf sum = vf_all(0.0f), added = rate * value;
    for (size_t j = 0; j < rows; j++) {
        float *at = state + j * STATE_COLUMNS;
        vf decay = lanes_exponential(rate * vf_load(log_decay + j * STATE_COLUMNS));
        vf x = vf_fused(added, vf_all(key[j]), vf_load(at) * decay);
        vf_store(at, x);
        sum = vf_fused(x, vf_all(query[j]), sum);
    }
    return sum;
}

static void selection_run(const selection_task *t) {
    size_t rows = t->rows;
    float *state = t->scratch, *log_decay = state + rows * STATE_COLUMNS;
    float *key = log_decay + rows * STATE_COLUMNS, *query = key + STATE_TOKENS * rows;
    float *rate = query + STATE_TOKENS * rows, *value = rate + STATE_TOKENS * STATE_COLUMNS;
    float *skip = value + STATE_TOKENS * STATE_COLUMNS;
    memset(state, 0, selection_floats(rows) * sizeof *state);
    transpose_rows(t->log_decay, rows, t->columns, rows, log_decay, STATE_COLUMNS);
    memcpy(skip, t->skip, t->columns * sizeof *skip);
    for (size_t first = 0; first < t->tokens; first += STATE_TOKENS) {
        size_t n = t->tokens - first < STATE_TOKENS ? t->tokens - first : STATE_TOKENS;
        transpose_rows(t->key + first, t->stride, rows, n, key, rows);
        transpose_rows(t->query + first, t->stride, rows, n, query, rows);
        transpose_rows(t->rate + first, t->stride, t->columns, n, rate, STATE_COLUMNS);
        transpose_rows(t->value + first, t->stride, t->columns, n, value, STATE_COLUMNS);
        for (size_t i = 0; i < n; i++)
            for (size_t c = 0; c < t->columns; c += L) {
                float *at = value + i * STATE_COLUMNS + c;
                vf x = vf_load(at);
                vf y = selection_step(state + c, log_decay + c, key + i * rows, query + i * rows, rows,
                                      vf_load(rate + i * STATE_COLUMNS + c), x);
                vf_store(at, vf_fused(vf_load(skip + c), x, y));
            }
        transpose_back(value, STATE_COLUMNS, t->value + first, t->stride, t->columns, n);
    }
}

/* ---- states that forget what other keys stand for ---- */

/* One token of one vector of columns; rows: key, query, decay, remove, restore. */
INLINE vf forgetting_step(float *state, const float *const *row, size_t rows, vf value) {
    vf found = vf_all(0.0f), sum = vf_all(0.0f);
    for (size_t j = 0; j < rows; j++)
        found = vf_fused(vf_load(state + j * STATE_COLUMNS), vf_all(row[3][j]), found);
    for (size_t j = 0; j < rows; j++) {
        float *at = state + j * STATE_COLUMNS;
        vf x = vf_fused(vf_all(row[0][j]), value, vf_load(at) * vf_all(row[2][j]));
        x = vf_fused(vf_all(row[4][j]), found, x);
        vf_store(at, x);
        sum = vf_fused(x, vf_all(row[1][j]), sum);
    }
    return sum;
}

static void forgetting_run(const forgetting_task *t) {
    enum { ARRAYS = 5 };
    size_t rows = t->rows;
    const float *from[ARRAYS] = {t->key, t->query, t->decay, t->remove, t->restore};
    float *state = t->scratch, *arrays = state + rows * STATE_COLUMNS;
    float *value = arrays + ARRAYS * STATE_TOKENS * rows;
    memset(state, 0, forgetting_floats(rows) * sizeof *state);
    for (size_t first = 0; first < t->tokens; first += STATE_TOKENS) {
        size_t n = t->tokens - first < STATE_TOKENS ? t->tokens - first : STATE_TOKENS;
        for (size_t k = 0; k < ARRAYS; k++)
            transpose_rows(from[k] + first, t->stride, rows, n, arrays + k * STATE_TOKENS * rows, rows);
        transpose_rows(t->value + first, t->stride, t->columns, n, value, STATE_COLUMNS);
        for (size_t i = 0; i < n; i++) {
            const float *row[ARRAYS];
            for (size_t k = 0; k < ARRAYS; k++) row[k] = arrays + (k * STATE_TOKENS + i) * rows;
            for (size_t c = 0; c < t->columns; c += L) {
                float *at = value + i * STATE_COLUMNS + c;
                vf_store(at, forgetting_step(state + c, row, rows, vf_load(at)));
            }
        }
        transpose_back(value, STATE_COLUMNS, t->value + first, t->stride, t->columns, n);
    }
}

/* ---- along the tokens of a row ---- */

/* From the last span to the first, so that x can be overwritten: a value depends on those before it. */
static void recurrence_convolve(float *x, const float *kernel, size_t taps, float bias, size_t n) {
    enum { SPAN = 64 };
    float before[CONVOLUTION_TAPS + SPAN], sum[SPAN];
    for (size_t end = n; end > 0;) {
        size_t first = (end - 1) / SPAN * SPAN, m = end - first, past = taps - 1;
        size_t zeros = past > first ? past - first : 0;
        memset(before, 0, zeros * sizeof *before);
        memcpy(before + zeros, x + first + zeros - past, (past + m - zeros) * sizeof *x);
        for (size_t i = 0; i < m; i++) sum[i] = bias;
        for (size_t j = 0; j < taps; j++)
            for (size_t i = 0; i < m; i++) sum[i] += kernel[j] * before[i + j];
        memcpy(x + first, sum, m * sizeof *x);
        end = first;
    }
}

static void recurrence_decay(float *y, const float *x, float factor, size_t n) {
    for (size_t i = 0; i < n; i += L) vf_store(y + i, lanes_exponential(vf_load(x + i) * factor));
}

const recurrence_kernels LEVEL(recurrence_kernels) = {recurrence_run, selection_run, recurrence_convolve,
                                                      recurrence_decay, forgetting_run};
