/* The pass of codec/feedback.h over up to FEEDBACK_ROWS rows.
 *
 * Rows are lanes: of a panel of them, as wide as products of matrices like it, column c is one run of floats.
 * What earlier strips do to a strip is gathered when it is reached, by such a product; within it, each
 * column's error is pushed on at once. Both add up in the order of columns, one chain per row and column.
 */
#include "codec/feedback.h"
#include "codec/simd/fma.h"
#include "codec/simd/kernels.h"

enum { STRIP = FEEDBACK_STRIP };

typedef struct pass {
    const feedback_task *task;
    const codec_steps *steps;
    const gguf_type *type;
    size_t rows, panel, panels, padded; /* panel: rows of one; padded: columns */
    /* Per panel, [column][row of the panel]: the weights; w - q; a z; r; t R. */
    float *w, *error, *target, *rest, *goal;
    float *sum, *change; /* of a strip */
    uint8_t *states;     /* of a batch of lanes, all its blocks, then of the next one */
    size_t state_bytes;
} pass;

/* Column c of panel p. */
INLINE float *at(const pass *s, float *array, size_t p, size_t c) {
    return array + (p * s->padded + c) * s->panel;
}
INLINE float *strip_of(const pass *s, float *array, size_t p) { return array + p * STRIP * s->panel; }
INLINE void *state_at(const pass *s, size_t p, size_t lane, size_t block) {
    size_t batch = (p * s->panel + lane) / L, blocks = s->task->columns / s->type->block_elements;
    return s->states + (batch * blocks + block) * s->state_bytes;
}

static pass start_pass(const feedback_task *t, size_t rows) {
    pass s = {.task = t,
              .steps = t->kernels->codecs[t->type].steps,
              .type = gguf_type_of(t->type),
              .rows = rows,
              .panel = t->kernels->matmul->panel,
              .padded = feedback_padded(t->columns)};
    float *room = t->room;
    float **arrays[] = {&s.w, &s.error, &s.target, &s.rest, &s.goal};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++, room += s.padded * FEEDBACK_ROWS)
        *arrays[i] = room;
    s.sum = room, s.change = room + STRIP * FEEDBACK_ROWS;
    s.states = (uint8_t *)(room + 2 * STRIP * FEEDBACK_ROWS);
    s.state_bytes = (s.steps->state_bytes + 63) / 64 * 64;
    s.panels = (rows + s.panel - 1) / s.panel;
    memset(t->room, 0, sizeof(float) * 5 * s.padded * FEEDBACK_ROWS);
    return s;
}

/* The last row stands for those that a panel lacks. */
static void load_rows(const pass *s, const float *x) {
    for (size_t p = 0; p < s->panels; p++)
        for (size_t k = 0; k < s->panel; k++) {
            size_t row = p * s->panel + k;
            const float *from = x + (row < s->rows ? row : s->rows - 1) * s->task->columns;
            float *to = at(s, s->w, p, 0) + k;
            for (size_t c = 0; c < s->task->columns; c++) to[c * s->panel] = from[c];
        }
}

/* y (+)= a tile of STRIP x STRIP times a panel. */
static void multiply(const pass *s, const float *tile, bool by_row, const float *x, float *y, bool add) {
    s->task->kernels->matmul->multiply(&(matmul_tile){.w = tile,
                                                      .row_step = by_row ? STRIP : 1,
                                                      .column_step = by_row ? 1 : STRIP,
                                                      .x = x,
                                                      .y = y,
                                                      .y_stride = s->panel,
                                                      .rows = STRIP,
                                                      .columns = STRIP,
                                                      .tokens = s->panel,
                                                      .add = add});
}

/* Runs of columns: m's begin at `first`; a strip's number, and rows of its matrices, count from there. */
typedef struct run {
    const feedback_moments *m;
    size_t first, strips;
} run;
INLINE const float *root_tile(const run *u, size_t row_strip, size_t strip) {
    return u->m->root + feedback_triangle(strip) + row_strip * STRIP * STRIP;
}

/* ---- what moves the target ---- */
/* z of a strip for all panels, those of later strips being known. */
static void solve_strip(const pass *s, const run *u, size_t strip) {
    const float *own = root_tile(u, strip, strip);
    size_t first = u->first + strip * STRIP, panel = s->panel;
    for (size_t i = 0; i < u->strips; i++)
        for (size_t p = 0; p < s->panels; p++)
            multiply(s, u->m->difference + feedback_square(u->m->columns, strip) + i * STRIP * STRIP, false,
                     at(s, s->w, p, u->first + i * STRIP), at(s, s->target, p, first), i > 0);
    for (size_t i = strip + 1; i < u->strips; i++)
        for (size_t p = 0; p < s->panels; p++)
            multiply(s, root_tile(u, strip, i), true, at(s, s->target, p, u->first + i * STRIP),
                     strip_of(s, s->sum, p), i > strip + 1);
    for (size_t p = 0; p < s->panels; p++)
        for (size_t lane = 0; lane < panel; lane += L) {
            float *z = at(s, s->target, p, first) + lane, *known = strip_of(s, s->sum, p) + lane;
            for (size_t c = STRIP; c-- > 0;) {
                vf sum = load(z + c * panel);
                if (strip + 1 < u->strips) sum = sum - load(known + c * panel);
                for (size_t k = c + 1; k < STRIP; k++)
                    sum = fused(all(-own[c * STRIP + k]), load(z + k * panel), sum);
                store(z + c * panel, sum / own[c * STRIP + c]);
            }
        }
}

static void move_target(const pass *s, const run *u) {
    if (!u->m->difference || !(u->m->correction > 0)) return;
    for (size_t strip = u->strips; strip-- > 0;) solve_strip(s, u, strip);
    for (size_t p = 0; p < s->panels; p++) {
        float *z = at(s, s->target, p, u->first);
        for (size_t i = 0; i < u->strips * STRIP * s->panel; i++) z[i] *= u->m->correction;
    }
}

/* ---- the pass ---- */
/* A batch of lanes in a strip. Pointers are to the first lane in the strip's first column. */
typedef struct lanes {
    const float *root; /* the strip's tile */
    const float *w, *target;
    float *sum, *error, *rest;
    size_t step; /* from a column to the next */
} lanes;

INLINE vf value(const lanes *b, size_t c) {
    size_t i = c * b->step;
    return load(b->w + i) + (load(b->target + i) + load(b->sum + i)) / b->root[c * STRIP + c];
}

/* What a block's columns will be like if each answers to the errors so far, and to the answers of those
 * before it, as well as numbers can: what its scales are chosen for. importance: what an error costs. */
static void expect_block(const lanes *b, size_t c, size_t length, float *v, float *importance) {
    float sum[STRIP * L];
    for (size_t i = 0; i < length; i++) store(sum + i * L, load(b->sum + (c + i) * b->step));
    for (size_t i = 0; i < length; i++) {
        const float *root = b->root + (c + i) * STRIP + c;
        vf w = load(b->w + (c + i) * b->step), z = load(b->target + (c + i) * b->step);
        vf x = w + (z + load(sum + i * L)) / root[i], e = w - x;
        store(v + i * L, x), importance[i] = root[i] * root[i];
        for (size_t k = i + 1; k < length; k++) store(sum + k * L, fused(all(root[k]), e, load(sum + k * L)));
    }
}

/* Codes for lanes that lie beyond the end of their range, in as many lanes as count. */
static uint64_t count_ends(const codec_steps *steps, const void *state, size_t column, const float *v,
                           size_t lanes_used) {
    float low[L * 16], high[L * 16];
    uint64_t n = 0;
    steps->ends(state, column, low, high);
    for (size_t g = 0; g < steps->group; g++)
        for (size_t k = 0; k < lanes_used; k++) {
            float x = v[g * L + k];
            n += x < low[g * L + k] || x > high[g * L + k];
        }
    return n;
}

static uint64_t round_lanes(const pass *s, const lanes *b, size_t p, size_t lane, size_t first,
                            size_t columns) {
    size_t length = s->type->block_elements, group = s->steps->group;
    size_t row = p * s->panel + lane, used = row < s->rows ? s->rows - row : 0;
    uint64_t ends = 0;
    float v[STRIP * L], q[STRIP * L], importance[STRIP];
    for (size_t c = 0; c < columns; c += length) {
        void *state = state_at(s, p, lane, (first + c) / length);
        expect_block(b, c, length, v, importance);
        s->steps->choose(state, v, importance, &s->steps->searches[s->task->effort][1]);
        for (size_t i = c; i < c + length; i += group) {
            for (size_t g = 0; g < group; g++) store(v + g * L, value(b, i + g));
            s->steps->round(state, i - c, v, q);
            ends += count_ends(s->steps, state, i - c, v, used < L ? used : L);
            for (size_t g = i; g < i + group; g++) {
                const float *root = b->root + g * STRIP;
                vf e = load(b->w + g * b->step) - load(q + (g - i) * L);
                store(b->error + g * b->step, e);
                store(b->rest + g * b->step, (load(v + (g - i) * L) - load(q + (g - i) * L)) * root[g]);
                for (size_t k = g + 1; k < STRIP; k++)
                    store(b->sum + k * b->step, fused(all(root[k]), e, load(b->sum + k * b->step)));
            }
        }
    }
    return ends;
}

static uint64_t round_strip(const pass *s, const run *u, size_t strip) {
    size_t first = u->first + strip * STRIP, panel = s->panel, left = u->m->columns - strip * STRIP;
    uint64_t ends = 0;
    memset(s->sum, 0, sizeof(float) * STRIP * FEEDBACK_ROWS);
    for (size_t i = 0; i <= strip; i++)
        for (size_t p = 0; p < s->panels; p++) {
            size_t from = u->first + i * STRIP;
            multiply(s, root_tile(u, i, strip), false, at(s, s->w, p, from), at(s, s->goal, p, first), i > 0);
            if (i < strip)
                multiply(s, root_tile(u, i, strip), false, at(s, s->error, p, from), strip_of(s, s->sum, p),
                         i > 0);
        }
    for (size_t p = 0; p < s->panels; p++) {
        float *goal = at(s, s->goal, p, first), *target = at(s, s->target, p, first);
        for (size_t i = 0; i < STRIP * panel; i++) goal[i] += target[i];
        for (size_t lane = 0; lane < panel; lane += L)
            ends +=
                round_lanes(s,
                            &(lanes){root_tile(u, strip, strip), at(s, s->w, p, first) + lane, target + lane,
                                     strip_of(s, s->sum, p) + lane, at(s, s->error, p, first) + lane,
                                     at(s, s->rest, p, first) + lane, panel},
                            p, lane, first, left < STRIP ? left : STRIP);
    }
    return ends;
}

/* ---- descent ---- */
/* One batch in a strip: gradient (t - q) H in b->sum, which changes with every code; what became of q, turned
 * round, in `change`. */
static void sweep_lanes(const pass *s, const lanes *b, const float *moments, float *change, size_t p,
                        size_t lane, size_t first, size_t columns) {
    size_t length = s->type->block_elements, group = s->steps->group;
    float v[16 * L], q[16 * L];
    for (size_t c = 0; c < columns; c += group) {
        for (size_t g = 0; g < group; g++) {
            size_t i = (c + g) * b->step;
            vf old = load(b->w + i) - load(b->error + i);
            store(v + g * L, old + load(b->sum + i) / moments[(c + g) * STRIP + c + g]);
        }
        s->steps->round(state_at(s, p, lane, (first + c) / length), (first + c) % length, v, q);
        for (size_t g = c; g < c + group; g++) {
            vf e = load(b->w + g * b->step) - load(q + (g - c) * L), by = e - load(b->error + g * b->step);
            store(b->error + g * b->step, e), store(change + g * b->step, by);
            for (size_t k = 0; k < STRIP; k++)
                store(b->sum + k * b->step,
                      fused(all(moments[g * STRIP + k]), by, load(b->sum + k * b->step)));
        }
    }
}

/* Strips from last to first: what a change does to r is then known wherever an earlier strip needs it. */
static void sweep_strip(const pass *s, const run *u, size_t strip) {
    size_t first = u->first + strip * STRIP, panel = s->panel, left = u->m->columns - strip * STRIP;
    memset(s->change, 0, sizeof(float) * STRIP * FEEDBACK_ROWS);
    for (size_t i = strip; i < u->strips; i++)
        for (size_t p = 0; p < s->panels; p++)
            multiply(s, root_tile(u, strip, i), true, at(s, s->rest, p, u->first + i * STRIP),
                     strip_of(s, s->sum, p), i > strip);
    for (size_t p = 0; p < s->panels; p++)
        for (size_t lane = 0; lane < panel; lane += L)
            sweep_lanes(s,
                        &(lanes){.w = at(s, s->w, p, first) + lane,
                                 .sum = strip_of(s, s->sum, p) + lane,
                                 .error = at(s, s->error, p, first) + lane,
                                 .step = panel},
                        u->m->diagonal + strip * STRIP * STRIP, strip_of(s, s->change, p) + lane, p, lane,
                        first, left < STRIP ? left : STRIP);
    for (size_t i = strip; i < u->strips; i++)
        for (size_t p = 0; p < s->panels; p++)
            multiply(s, root_tile(u, strip, i), false, strip_of(s, s->change, p),
                     at(s, s->rest, p, u->first + i * STRIP), true);
}

/* ---- the end of a row ---- */
/* t H t^T over t H q^T, bounded as plain encoding's gain is. */
static float gain_of(const pass *s, size_t p, size_t lane, feedback_sums *sums) {
    double power = 0, kept = 0, error = 0;
    for (size_t c = 0; c < s->padded; c++) {
        double t = (double)at(s, s->goal, p, c)[lane], r = (double)at(s, s->rest, p, c)[lane];
        power += t * t, kept += t * (t - r), error += r * r;
    }
    sums->power += power, sums->error += error;
    double gain = kept > 0 ? power / kept : 1;
    return (float)(gain < 0.75 ? 0.75 : gain > 1.5 ? 1.5 : gain);
}

static void finish_rows(const pass *s, uint8_t *out, feedback_sums *sums) {
    size_t blocks = s->task->columns / s->type->block_elements, stride = blocks * s->type->block_bytes;
    for (size_t row = 0; row < s->rows; row += L, out += L * stride) {
        size_t p = row / s->panel, lane = row % s->panel, used = s->rows - row < L ? s->rows - row : L;
        float gain[L];
        for (size_t k = 0; k < L; k++) gain[k] = k < used ? gain_of(s, p, lane + k, sums) : 1;
        for (size_t i = 0; i < blocks; i++)
            s->steps->finish(state_at(s, p, lane, i), gain, out + i * s->type->block_bytes, stride, used);
    }
}

void LEVEL(feedback)(const feedback_task *t, const float *x, size_t rows, uint8_t *blocks,
                     feedback_sums *sums) {
    pass s = start_pass(t, rows);
    load_rows(&s, x);
    run u = {.first = 0};
    for (size_t i = 0; i < t->n_moments; i++, u.first += u.strips * STRIP) {
        u.m = &t->moments[i], u.strips = feedback_strips(u.m->columns);
        move_target(&s, &u);
        for (size_t strip = 0; strip < u.strips; strip++) sums->ends += round_strip(&s, &u, strip);
        for (int k = 0; k < t->sweeps; k++)
            for (size_t strip = u.strips; strip-- > 0;) sweep_strip(&s, &u, strip);
    }
    sums->codes += rows * t->columns;
    finish_rows(&s, blocks, sums);
}
