/* Descent: codes chosen again, column by column, for what is best when all others stay.
 *
 * With (t - q) H known, which is r R^T, the best change of a group of columns is that times the inverse of
 * their own part of H.
 */
#include "codec/simd/pass.h"

/* g H^-1 in place, H the moments of a group of columns: its first element, rows STRIP apart. */
INLINE void solve_group(const float *h, size_t n, vf *g) {
    float a[MOST_GROUP][MOST_GROUP];
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) a[i][j] = h[i * STRIP + j];
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

/* The change of the objective when codes change by d: d H d^T - 2 g d^T, with g = (t - q) H.
 */
INLINE vf change_of(const float *h, size_t n, const vf *g, const vf *d) {
    vf change = all(0);
    for (size_t i = 0; i < n; i++) {
        vf hd = all(0);
        for (size_t j = 0; j < n; j++) hd = fused(all(h[i * STRIP + j]), d[j], hd);
        change = change + d[i] * (hd - 2.0f * g[i]);
    }
    return change;
}

/* A group's codes chosen again: those nearest to what is best, unless the old ones are better, which can be
 * where codes stand for several weights. d: what becomes of q. */
INLINE void sweep_group(const pass *s, const lanes *b, void *state, size_t column, size_t c,
                        const vf *gradient, vf *d) {
    const float *h = b->root + c * STRIP + c;
    float v[MOST_GROUP * L], old[MOST_GROUP * L], q[MOST_GROUP * L];
    size_t n = s->group;
    vf best[MOST_GROUP];
    for (size_t g = 0; g < n; g++) best[g] = gradient[g];
    solve_group(h, n, best);
    for (size_t g = 0; g < n; g++) {
        size_t i = (c + g) * b->step;
        vf was = load(b->w + i) - load(b->error + i);
        store(old + g * L, was), store(v + g * L, was + best[g]);
    }
    s->steps->round(state, column, v, q);
    for (size_t g = 0; g < n; g++) d[g] = load(q + g * L) - load(old + g * L);
    if (n == 1) return;
    vm worse = lt(all(0), change_of(h, n, gradient, d));
    if (!in_any(worse)) return;
    for (size_t g = 0; g < n; g++) store(v + g * L, pick(worse, load(old + g * L), load(v + g * L)));
    s->steps->round(state, column, v, q);
    for (size_t g = 0; g < n; g++) d[g] = load(q + g * L) - load(old + g * L);
}

/* One batch in a chunk: b->sum is (t - q) H, b->root H; how errors change goes to `change`. */
static void sweep_chunk(const pass *s, const lanes *b, void *state, size_t column, float *change) {
    vf sum[CHUNK];
    for (size_t c = 0; c < s->chunk; c++) sum[c] = load(b->sum + c * b->step);
    for (size_t c = 0; c < s->chunk; c += s->group) {
        vf d[MOST_GROUP];
        sweep_group(s, b, state, column + c, c, sum + c, d);
        for (size_t g = 0; g < s->group; g++) {
            size_t i = (c + g) * b->step;
            store(change + i, -d[g]), store(b->error + i, load(b->error + i) - d[g]);
            push(b, sum, c + g, c + s->group, s->chunk, -d[g]);
        }
    }
}

/* From last to first, what a change does to r is known wherever an earlier strip needs it. */
void LEVEL(descend)(const pass *s, const run *u, size_t strip) {
    const float *moments = u->m->diagonal + strip * STRIP * STRIP;
    size_t first = u->first + strip * STRIP, columns = strip_columns(u, strip);
    float *change = s->trial_error;
    memset(change, 0, sizeof(float) * STRIP * FEEDBACK_ROWS);
    for (size_t i = strip; i < u->strips; i++)
        for (size_t p = 0; p < s->panels; p++)
            multiply(s, whole_tile(root_tile(u, strip, i)), at(s, s->rest, p, u->first + i * STRIP),
                     strip_at(s, s->sum, p, 0), i > strip);
    for (size_t c = 0; c < columns; c += s->chunk)
        for (size_t p = 0; p < s->panels; p++) {
            if (c)
                multiply(s, (matrix){moments + c * STRIP, STRIP, s->chunk, c}, strip_at(s, change, p, 0),
                         strip_at(s, s->sum, p, c), true);
            for (size_t lane = 0; lane < s->panel; lane += L) {
                size_t column = first + c;
                lanes of = {.root = moments + c * STRIP + c,
                            .w = at(s, s->w, p, column) + lane,
                            .sum = strip_at(s, s->sum, p, c) + lane,
                            .error = at(s, s->error, p, column) + lane,
                            .step = s->panel};
                sweep_chunk(s, &of, state_at(s, p, lane, column / s->length), column % s->length,
                            strip_at(s, change, p, c) + lane);
            }
        }
    for (size_t i = strip; i < u->strips; i++) {
        turn_tile(s, root_tile(u, strip, i));
        for (size_t p = 0; p < s->panels; p++)
            multiply(s, turned_part(s, 0, STRIP, 0, STRIP), strip_at(s, change, p, 0),
                     at(s, s->rest, p, u->first + i * STRIP), true);
    }
}
