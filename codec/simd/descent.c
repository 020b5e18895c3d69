/* Coordinate descent: each column's code is chosen again, all others given.
 *
 * With (t - q) H known, which is r R^T, the best change of a group of columns is that times the inverse of
 * their own part of H. */
#include "codec/simd/pass.h"

/* g H^-1 in place, H the Hessian of a group of columns: its first element, rows STRIP_COLUMNS apart. */
INLINE void solve_group(const float *h, size_t n, vf *g) {
    float a[CODEC_MOST_GROUP][CODEC_MOST_GROUP];
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) a[i][j] = h[i * STRIP_COLUMNS + j];
    for (size_t c = 0; c < n; c++)
        for (size_t i = c + 1; i < n; i++) {
            float by = a[i][c] / a[c][c];
            for (size_t j = c; j < n; j++) a[i][j] -= by * a[c][j];
            g[i] = g[i] - by * g[c];
        }
    for (size_t c = n; c-- > 0;) {
        for (size_t j = c + 1; j < n; j++) g[c] = g[c] - a[c][j] * g[j];
        g[c] = g[c] / a[c][c];
    }
}

/* The change of the objective when codes change by d: d H d^T - 2 g d^T, with g = (t - q) H. */
INLINE vf change_of(const float *h, size_t n, const vf *g, const vf *d) {
    vf change = vf_all(0);
    for (size_t i = 0; i < n; i++) {
        vf hd = vf_all(0);
        for (size_t j = 0; j < n; j++) hd = vf_fused(vf_all(h[i * STRIP_COLUMNS + j]), d[j], hd);
        change = change + d[i] * (hd - 2.0f * g[i]);
    }
    return change;
}

/* A group's codes chosen again: those nearest to what is best, unless the old ones are better, which can be
 * where codes stand for several weights. d: what becomes of q. */
INLINE void sweep_group(const feedback_pass *s, const pass_lanes *b, void *state, size_t column, size_t c,
                        const vf *gradient, vf *d) {
    const float *h = b->root + c * STRIP_COLUMNS + c;
    float v[CODEC_MOST_GROUP * L], old[CODEC_MOST_GROUP * L], q[CODEC_MOST_GROUP * L];
    size_t n = s->group;
    vf best[CODEC_MOST_GROUP];
    for (size_t g = 0; g < n; g++) best[g] = gradient[g];
    solve_group(h, n, best);
    for (size_t g = 0; g < n; g++) {
        size_t i = (c + g) * b->stride;
        vf was = vf_load(b->w + i) - vf_load(b->error + i);
        vf_store(old + g * L, was), vf_store(v + g * L, was + best[g]);
    }
    s->columnwise->round(state, column, v, q);
    for (size_t g = 0; g < n; g++) d[g] = vf_load(q + g * L) - vf_load(old + g * L);
    if (n == 1) return;
    vm worse = vf_less(vf_all(0), change_of(h, n, gradient, d));
    if (!vm_any(worse)) return;
    for (size_t g = 0; g < n; g++)
        vf_store(v + g * L, vf_pick(worse, vf_load(old + g * L), vf_load(v + g * L)));
    s->columnwise->round(state, column, v, q);
    for (size_t g = 0; g < n; g++) d[g] = vf_load(q + g * L) - vf_load(old + g * L);
}

/* One batch in a slice: b->sum is (t - q) H, b->root H; how errors change goes to `change`. */
static void sweep_slice(const feedback_pass *s, const pass_lanes *b, void *state, size_t column,
                        float *change) {
    vf sum[SLICE_COLUMNS];
    for (size_t c = 0; c < s->slice; c++) sum[c] = vf_load(b->sum + c * b->stride);
    for (size_t c = 0; c < s->slice; c += s->group) {
        vf d[CODEC_MOST_GROUP];
        sweep_group(s, b, state, column + c, c, sum + c, d);
        for (size_t g = 0; g < s->group; g++) {
            size_t i = (c + g) * b->stride;
            vf_store(change + i, -d[g]), vf_store(b->error + i, vf_load(b->error + i) - d[g]);
            pass_push(b, sum, c + g, c + s->group, s->slice, -d[g]);
        }
    }
}

/* Multiplies the strip's own tile with its r, of floats both. */
static void gather_own_rest(const feedback_pass *s, const pass_span *u, size_t strip, bool add) {
    for (size_t p = 0; p < s->panels; p++)
        pass_multiply_tile(s, tile_rows(root_tile(u, strip, strip), 0, 0),
                           pass_at(s, s->rest, p, u->first + strip * STRIP_COLUMNS),
                           pass_strip_at(s, s->sum, p, 0), add);
}

/* (t - q) H of a strip, of r in it and in those behind it. Its own tile goes first, but last where numbers
 * are rounded: such products may only be added to their like, as r and floats that are made of it can be
 * denormal. */
static void gather_rest(const feedback_pass *s, const pass_span *u, size_t strip) {
    size_t next = strip + 1;
    bool own_last = s->by->rounds;
    if (!own_last) gather_own_rest(s, u, strip, false);
    for (size_t i = next; i < u->strips; i++) {
        float *rest = pass_at(s, s->rest, 0, u->first + i * STRIP_COLUMNS);
        pass_operand x = pass_strip_operand(s, rest, s->padded);
        pass_multiply_all(s, pass_tile(s, root_tile(u, strip, i), false), STRIP_COLUMNS, x, 0, s->sum,
                          STRIP_COLUMNS, !own_last || i > next);
    }
    if (own_last) gather_own_rest(s, u, strip, next < u->strips);
}

/* Adds what a strip's changes make of its own r. */
static void change_own_rest(const feedback_pass *s, const pass_span *u, size_t strip) {
    for (size_t p = 0; p < s->panels; p++)
        pass_multiply_tile(s, tile_columns(root_tile(u, strip, strip)),
                           pass_strip_at(s, s->trial_error, p, 0),
                           pass_at(s, s->rest, p, u->first + strip * STRIP_COLUMNS), true);
}

/* The same of the r of later strips; where numbers are rounded, by way of s->sum. */
static void change_rest(const feedback_pass *s, const pass_span *u, size_t strip) {
    pass_operand change = pass_strip_operand(s, s->trial_error, STRIP_COLUMNS);
    bool apart = s->by->rounds;
    for (size_t i = strip + 1; i < u->strips; i++) {
        float *rest = pass_at(s, s->rest, 0, u->first + i * STRIP_COLUMNS);
        pass_multiply_all(s, pass_tile(s, root_tile(u, strip, i), true), STRIP_COLUMNS, change, 0,
                          apart ? s->sum : rest, apart ? STRIP_COLUMNS : s->padded, !apart);
        for (size_t p = 0; apart && p < s->panels; p++, rest += s->padded * s->panel) {
            const float *sum = pass_strip_at(s, s->sum, p, 0);
            for (size_t k = 0; k < STRIP_COLUMNS * s->panel; k++) rest[k] += sum[k];
        }
    }
}

/* From last to first, what a change does to r is known wherever an earlier strip needs it. */
void LEVEL(descend)(const feedback_pass *s, const pass_span *u, size_t strip) {
    const float *hessian = u->m->diagonal + strip * STRIP_COLUMNS * STRIP_COLUMNS;
    size_t first = u->first + strip * STRIP_COLUMNS, columns = strip_columns(u, strip);
    float *change = s->trial_error;
    memset(change, 0, sizeof(float) * STRIP_COLUMNS * FEEDBACK_ROWS);
    gather_rest(s, u, strip);
    for (size_t c = 0; c < columns; c += s->slice)
        for (size_t p = 0; p < s->panels; p++) {
            if (c)
                pass_multiply(s, tile_rows(hessian, c, 0), s->slice, c, pass_strip_at(s, change, p, 0),
                              pass_strip_at(s, s->sum, p, c), true);
            for (size_t lane = 0; lane < s->width; lane += L) {
                size_t column = first + c;
                pass_lanes of = {.root = hessian + c * STRIP_COLUMNS + c,
                                 .w = pass_at(s, s->w, p, column) + lane,
                                 .sum = pass_strip_at(s, s->sum, p, c) + lane,
                                 .error = pass_at(s, s->error, p, column) + lane,
                                 .stride = s->panel};
                sweep_slice(s, &of, pass_state_at(s, p, lane, column / s->length), column % s->length,
                            pass_strip_at(s, change, p, c) + lane);
            }
        }
    change_own_rest(s, u, strip);
    change_rest(s, u, strip);
}
