/* The pass of codec/feedback.h over up to FEEDBACK_ROWS rows.
 *
 * What earlier strips do to a strip is gathered when it is reached, by products of matrices; what earlier
 * chunks of a strip do to a chunk likewise; within a chunk each column's error is pushed on at once. All add
 * up in the order of columns, one chain per row and column.
 */
#include "codec/simd/pass.h"

static pass start_pass(const feedback_task *t, size_t rows) {
    const codec_steps *steps = t->kernels->codecs[t->type].steps;
    size_t length = gguf_type_of(t->type)->block_elements;
    pass s = {.task = t,
              .steps = steps,
              .type = gguf_type_of(t->type),
              .rows = rows,
              .panel = t->kernels->matmul->panel,
              .padded = feedback_padded(t->columns),
              .length = length,
              .group = steps->group,
              .chunk = length < CHUNK ? length : CHUNK,
              .state_bytes = feedback_state_bytes(steps)};
    float *room = t->room, **arrays[] = {&s.w, &s.error, &s.target, &s.rest, &s.goal};
    float **strips[] = {&s.sum, &s.trial, &s.trial_error, &s.value};
    _Static_assert(sizeof arrays / sizeof *arrays == FEEDBACK_ARRAYS, "as many as there is room for");
    _Static_assert(sizeof strips / sizeof *strips == FEEDBACK_STRIP_ARRAYS, "as many as there is room for");
    for (size_t i = 0; i < FEEDBACK_ARRAYS; i++, room += s.padded * FEEDBACK_ROWS) *arrays[i] = room;
    for (size_t i = 0; i < FEEDBACK_STRIP_ARRAYS; i++, room += STRIP * FEEDBACK_ROWS) *strips[i] = room;
    s.turned = room, s.states = (uint8_t *)t->room + sizeof(float) * feedback_floats(t->columns);
    s.panels = (rows + s.panel - 1) / s.panel;
    memset(t->room, 0, sizeof(float) * feedback_floats(t->columns));
    return s;
}

/* The last row stands for those that a panel lacks. Columns are a multiple of L. */
static void load_rows(const pass *s, const float *x) {
    for (size_t first = 0; first < s->panels * s->panel; first += L) {
        const float *from[L];
        float *to = at(s, s->w, first / s->panel, 0) + first % s->panel;
        for (size_t k = 0; k < L; k++)
            from[k] = x + (first + k < s->rows ? first + k : s->rows - 1) * s->task->columns;
        for (size_t c = 0; c < s->task->columns; c += L) {
            vf t[L];
            for (size_t k = 0; k < L; k++) t[k] = load(from[k] + c);
            transpose(t);
            for (size_t k = 0; k < L; k++) store(to + (c + k) * s->panel, t[k]);
        }
    }
}

/* ---- what moves the target ---- */
/* z of a chunk for a batch of lanes, `known` what later columns add up to. Pointers are to its first column.
 */
static void solve_chunk(const float *own, float *z, float *known, size_t step) {
    for (size_t c = CHUNK; c-- > 0;) {
        vf x = (load(z + c * step) - load(known + c * step)) / own[c * STRIP + c];
        store(z + c * step, x);
        for (size_t k = 0; k < c; k++)
            store(known + k * step, fused(all(own[k * STRIP + c]), x, load(known + k * step)));
    }
}

/* z of a strip for all panels, those of later strips being known. */
static void solve_strip(const pass *s, const run *u, size_t strip) {
    const float *own = root_tile(u, strip, strip);
    size_t first = u->first + strip * STRIP;
    for (size_t i = 0; i < u->strips; i++)
        for (size_t p = 0; p < s->panels; p++)
            multiply(s,
                     whole_tile(u->m->difference + feedback_square(u->m->columns, strip) + i * STRIP * STRIP),
                     at(s, s->w, p, u->first + i * STRIP), at(s, s->target, p, first), i > 0);
    memset(s->sum, 0, sizeof(float) * STRIP * FEEDBACK_ROWS);
    for (size_t i = strip + 1; i < u->strips; i++)
        for (size_t p = 0; p < s->panels; p++)
            multiply(s, whole_tile(root_tile(u, strip, i)), at(s, s->target, p, u->first + i * STRIP),
                     strip_at(s, s->sum, p, 0), true);
    for (size_t end = STRIP; end > 0; end -= CHUNK)
        for (size_t p = 0; p < s->panels; p++) {
            size_t c = end - CHUNK;
            float *z = at(s, s->target, p, first), *known = strip_at(s, s->sum, p, c);
            if (end < STRIP)
                multiply(s, (matrix){own + c * STRIP + end, STRIP, CHUNK, STRIP - end}, z + end * s->panel,
                         known, true);
            for (size_t lane = 0; lane < s->panel; lane += L)
                solve_chunk(own + c * STRIP + c, z + c * s->panel + lane, known + lane, s->panel);
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
/* v, sum being what earlier columns add up to. */
INLINE vf value(const lanes *b, size_t c, vf sum) {
    return load(b->w + c * b->step) + (load(b->target + c * b->step) + sum) / b->root[c * STRIP + c];
}
/* Computes the columns as they will be if each makes good the errors so far, without rounding. */
static void expect_chunk(const lanes *b, size_t columns, float *v, float *error) {
    vf sum[CHUNK];
    for (size_t c = 0; c < columns; c++) sum[c] = load(b->sum + c * b->step);
    for (size_t c = 0; c < columns; c++) {
        vf x = value(b, c, sum[c]), e = load(b->w + c * b->step) - x;
        store(v + c * b->step, x), store(error + c * b->step, e);
        push(b, sum, c, c + 1, columns, e);
    }
}

/* Whether a lane's block is farther from its weights than zeros are: binary16 holds the factors of tiny
 * weights badly or not at all. */
static bool worse_than_zeros(const float *v, const float *q, const float *importance, size_t n) {
    float top = 0;
    double beyond = 0; /* sum w ((q - v)^2 - v^2) */
    for (size_t i = 0; i < n; i++) top = fabsf(v[i * L]) > top ? fabsf(v[i * L]) : top;
    if (top >= 0x1p-9f) return false; /* as in plain encoding */
    for (size_t i = 0; i < n; i++)
        beyond += (double)importance[i] * (double)q[i * L] * ((double)q[i * L] - 2 * (double)v[i * L]);
    return beyond > 0;
}

/* The scales of a batch's block: for what its columns will be like. */
static void choose_block(const pass *s, void *state, float *v, const float *importance) {
    const codec_search *search = &s->steps->searches[s->task->effort][1];
    float q[STRIP * L];
    bool again = false;
    s->steps->choose(state, v, importance, search);
    vf tiny = all(0), top = tiny;
    for (size_t i = 0; i < s->length; i++) top = larger(magnitude(load(v + i * L)), top);
    if (!in_any(both(lt(tiny, top), lt(top, all(0x1p-9f))))) return;
    for (size_t i = 0; i < s->length; i += s->group) s->steps->round(state, i, v + i * L, q + i * L);
    for (size_t k = 0; k < L; k++)
        if (worse_than_zeros(v + k, q + k, importance, s->length)) {
            for (size_t i = 0; i < s->length; i++) v[i * L + k] = 0;
            again = true;
        }
    if (again) s->steps->choose(state, v, importance, search); /* where all is zero so are scales */
}

/* Weights beyond the ends of their range, in `ends`. */
INLINE vf count_ends(const codec_steps *steps, const void *state, size_t column, const float *v, vf ends) {
    float low[MOST_GROUP * L], high[MOST_GROUP * L];
    steps->ends(state, column, low, high);
    for (size_t g = 0; g < steps->group; g++) {
        vf x = load(v + g * L);
        ends = ends + pick(either(lt(x, load(low + g * L)), lt(load(high + g * L), x)), all(1), all(0));
    }
    return ends;
}

/* Codes for a group of columns from c on: v, what would be best if all of them could be met, and what is
 * left of r. column: in the block. */
INLINE void round_group(const pass *s, const lanes *b, void *state, size_t column, size_t c, vf *sum,
                        vf *ends) {
    size_t group = s->group, end = c + group;
    float v[MOST_GROUP * L], q[MOST_GROUP * L];
    vf answer[CHUNK], rest[MOST_GROUP];
    for (size_t g = c; g < end; g++) answer[g] = sum[g];
    for (size_t g = c; g < end; g++) {
        vf x = value(b, g, answer[g]);
        store(v + (g - c) * L, x);
        push(b, answer, g, g + 1, end, load(b->w + g * b->step) - x);
    }
    s->steps->round(state, column, v, q);
    *ends = count_ends(s->steps, state, column, v, *ends);
    for (size_t g = 0; g < group; g++) rest[g] = all(0);
    for (size_t g = 0; g < group; g++) {
        const float *root = b->root + (c + g) * STRIP + c;
        vf off = load(v + g * L) - load(q + g * L);
        for (size_t k = g; k < group; k++) rest[k] = fused(all(root[k]), off, rest[k]);
    }
    for (size_t g = 0; g < group; g++) store(b->rest + (c + g) * b->step, rest[g]);
    for (size_t g = c; g < end; g++) {
        vf e = load(b->w + g * b->step) - load(q + (g - c) * L);
        store(b->error + g * b->step, e);
        push(b, sum, g, end, s->chunk, e);
    }
}

static uint64_t round_chunk(const pass *s, const lanes *b, void *state, size_t column, size_t lanes_used) {
    vf sum[CHUNK], ends = all(0);
    uint64_t n = 0;
    for (size_t c = 0; c < s->chunk; c++) sum[c] = load(b->sum + c * b->step);
    for (size_t c = 0; c < s->chunk; c += s->group) round_group(s, b, state, column + c, c, sum, &ends);
    for (size_t k = 0; k < L && k < lanes_used; k++) n += (uint64_t)ends[k];
    return n;
}

/* The position of a pass: a block of columns in a strip, for all rows. */
typedef struct place {
    const run *u;
    size_t strip, c; /* in the strip */
    size_t first;    /* of the strip, in the row */
} place;

INLINE lanes lanes_at(const pass *s, const place *at_, size_t c, size_t p, size_t lane, float *sum) {
    size_t column = at_->first + c;
    return (lanes){.root = root_tile(at_->u, at_->strip, at_->strip) + c * STRIP + c,
                   .w = at(s, s->w, p, column) + lane,
                   .target = at(s, s->target, p, column) + lane,
                   .sum = strip_at(s, sum, p, c) + lane,
                   .error = at(s, s->error, p, column) + lane,
                   .rest = at(s, s->rest, p, column) + lane,
                   .step = s->panel};
}

/* v of a block, in s->value. */
static void expect_block(const pass *s, const place *b, size_t p) {
    size_t bytes = sizeof(float) * s->chunk * s->panel;
    for (size_t c = b->c; c < b->c + s->length; c += s->chunk) {
        float *trial = strip_at(s, s->trial, p, c);
        memcpy(trial, strip_at(s, s->sum, p, c), bytes);
        if (c > b->c)
            multiply(s, turned_part(s, c, s->chunk, b->c, c), strip_at(s, s->trial_error, p, b->c), trial,
                     true);
        for (size_t lane = 0; lane < s->panel; lane += L) {
            lanes of = lanes_at(s, b, c, p, lane, s->trial);
            expect_chunk(&of, s->chunk, strip_at(s, s->value, p, c) + lane,
                         strip_at(s, s->trial_error, p, c) + lane);
        }
    }
}

static void choose_lanes(const pass *s, const place *b, size_t p, const float *importance) {
    float v[STRIP * L];
    for (size_t lane = 0; lane < s->panel; lane += L) {
        for (size_t i = 0; i < s->length; i++)
            store(v + i * L, load(strip_at(s, s->value, p, b->c + i) + lane));
        choose_block(s, state_at(s, p, lane, (b->first + b->c) / s->length), v, importance);
    }
}

static uint64_t round_block(const pass *s, const place *b, size_t p) {
    uint64_t ends = 0;
    for (size_t c = b->c; c < b->c + s->length; c += s->chunk) {
        if (c > b->c)
            multiply(s, turned_part(s, c, s->chunk, b->c, c), at(s, s->error, p, b->first + b->c),
                     strip_at(s, s->sum, p, c), true);
        for (size_t lane = 0; lane < s->panel; lane += L) {
            size_t row = p * s->panel + lane;
            lanes of = lanes_at(s, b, c, p, lane, s->sum);
            ends += round_chunk(s, &of, state_at(s, p, lane, (b->first + b->c) / s->length), c - b->c,
                                row < s->rows ? s->rows - row : 0);
        }
    }
    return ends;
}

/* Adds up the parts from earlier strips, and t R, to which the strip's own tile adds; the result stays
 * transposed. */
static void gather_strip(const pass *s, const run *u, size_t strip) {
    size_t first = u->first + strip * STRIP;
    memset(s->sum, 0, sizeof(float) * STRIP * FEEDBACK_ROWS);
    for (size_t i = 0; i <= strip; i++) {
        size_t from = u->first + i * STRIP;
        turn_tile(s, root_tile(u, i, strip));
        for (size_t p = 0; p < s->panels; p++) {
            matrix tile = turned_part(s, 0, STRIP, 0, STRIP);
            multiply(s, tile, at(s, s->w, p, from), at(s, s->goal, p, first), i > 0);
            if (i < strip) multiply(s, tile, at(s, s->error, p, from), strip_at(s, s->sum, p, 0), true);
        }
    }
    for (size_t p = 0; p < s->panels; p++) {
        float *goal = at(s, s->goal, p, first), *target = at(s, s->target, p, first);
        for (size_t i = 0; i < STRIP * s->panel; i++) goal[i] += target[i];
    }
}

static uint64_t round_strip(const pass *s, const run *u, size_t strip) {
    place b = {u, strip, 0, u->first + strip * STRIP};
    uint64_t ends = 0;
    gather_strip(s, u, strip);
    for (; b.c < strip_columns(u, strip); b.c += s->length) {
        const float *own = root_tile(u, strip, strip) + b.c * (STRIP + 1);
        float importance[STRIP]; /* what an error costs, the columns after it answering */
        for (size_t i = 0; i < s->length; i++) importance[i] = own[i * (STRIP + 1)] * own[i * (STRIP + 1)];
        for (size_t p = 0; p < s->panels; p++) {
            if (b.c)
                multiply(s, turned_part(s, b.c, s->length, 0, b.c), at(s, s->error, p, b.first),
                         strip_at(s, s->sum, p, b.c), true);
            expect_block(s, &b, p);
            choose_lanes(s, &b, p, importance);
            ends += round_block(s, &b, p);
        }
    }
    return ends;
}

/* ---- the end of a row ---- */
/* t H t^T over t H q^T, bounded as plain encoding's gain is; where that would leave more error than zeros,
 * what leaves the least. */
static float gain_of(const pass *s, size_t p, size_t lane, feedback_sums *sums) {
    double power = 0, kept = 0, error = 0;
    for (size_t c = 0; c < s->padded; c++) {
        double t = (double)at(s, s->goal, p, c)[lane], r = (double)at(s, s->rest, p, c)[lane];
        power += t * t, kept += t * (t - r), error += r * r;
    }
    sums->power += power, sums->error += error;
    double gain = kept > 0 ? power / kept : 1, square = 2 * kept - power + error; /* q H q^T */
    if (gain * square > 2 * kept) gain = kept / square;
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
            for (size_t strip = u.strips; strip-- > 0;) LEVEL(descend)(&s, &u, strip);
    }
    sums->codes += rows * t->columns;
    finish_rows(&s, blocks, sums);
}
