/* A block of a pass: its scales, and then its codes.
 *
 * Scales are chosen for what the block's columns will be like if they are not rounded. But rounding moves
 * them. So trials round the block, keep nothing but v as the columns were met and what they add to the sum of
 * r^2, and choose scales for weights that lie between the best so far and these. A row takes the scales with
 * which its columns added least. */
#include "codec/simd/pass.h"

/* ---- values ---- */
INLINE pass_lanes lanes_at(const feedback_pass *s, const pass_position *at, size_t c, size_t p, size_t lane) {
    size_t column = at->first + c;
    return (pass_lanes){.root = root_tile(at->u, at->strip, at->strip) + c * STRIP_COLUMNS + c,
                        .w = pass_at(s, s->w, p, column) + lane,
                        .shift = pass_at(s, s->shift, p, column) + lane,
                        .sum = pass_strip_at(s, s->sum, p, c) + lane,
                        .error = pass_at(s, s->error, p, column) + lane,
                        .rest = pass_at(s, s->rest, p, column) + lane,
                        .value = pass_strip_at(s, s->value, p, c) + lane,
                        .stride = s->panel};
}
/* The same, where nothing is kept. */
INLINE pass_lanes trial_lanes_at(const feedback_pass *s, const pass_position *at, size_t c, size_t p,
                                 size_t lane) {
    pass_lanes of = lanes_at(s, at, c, p, lane);
    of.sum = pass_strip_at(s, s->trial, p, c) + lane;
    of.error = pass_strip_at(s, s->trial_error, p, c) + lane;
    of.rest = pass_strip_at(s, s->trial_rest, p, c) + lane;
    return of;
}

/* Makes the sums of a slice for a trial: those of the pass, and what the block's columns before it add. */
static void begin_trial_slice(const feedback_pass *s, const pass_position *b, size_t c, size_t p) {
    float *trial = pass_strip_at(s, s->trial, p, c);
    memcpy(trial, pass_strip_at(s, s->sum, p, c), sizeof *trial * s->slice * s->panel);
    if (c > b->c)
        pass_multiply(s, transposed_rows(s, c, b->c), s->slice, c - b->c,
                      pass_strip_at(s, s->trial_error, p, b->c), trial, true);
}

/* v, sum being what earlier columns add up to. */
INLINE vf feedback_value(const pass_lanes *b, size_t c, vf sum) {
    return vf_load(b->w + c * b->stride) +
           (vf_load(b->shift + c * b->stride) + sum) / b->root[c * STRIP_COLUMNS + c];
}
/* Computes the columns as they will be if each compensates the errors so far, without rounding. */
static void expect_slice(const pass_lanes *b, size_t columns) {
    vf sum[SLICE_COLUMNS];
    for (size_t c = 0; c < columns; c++) sum[c] = vf_load(b->sum + c * b->stride);
    for (size_t c = 0; c < columns; c++) {
        vf x = feedback_value(b, c, sum[c]), e = vf_load(b->w + c * b->stride) - x;
        vf_store(b->value + c * b->stride, x), vf_store(b->error + c * b->stride, e);
        pass_push(b, sum, c, c + 1, columns, e);
    }
}

/* v of a block, in s->value. */
static void expect_block(const feedback_pass *s, const pass_position *b, size_t p) {
    for (size_t c = b->c; c < b->c + s->length; c += s->slice) {
        begin_trial_slice(s, b, c, p);
        for (size_t lane = 0; lane < s->width; lane += L) {
            pass_lanes of = trial_lanes_at(s, b, c, p, lane);
            expect_slice(&of, s->slice);
        }
    }
}

/* ---- scales ---- */
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

/* The scales of a batch's block, for weights v. */
static void choose_block(const feedback_pass *s, void *state, float *v, const float *importance) {
    const codec_search *search = &s->columnwise->searches[s->task->effort][1];
    float q[STRIP_COLUMNS * L];
    bool again = false;
    s->columnwise->choose(state, v, importance, search);
    vf tiny = vf_all(0), top = tiny;
    for (size_t i = 0; i < s->length; i++) top = vf_larger(vf_magnitude(vf_load(v + i * L)), top);
    if (!vm_any(vm_both(vf_less(tiny, top), vf_less(top, vf_all(0x1p-9f))))) return;
    for (size_t i = 0; i < s->length; i += s->group) s->columnwise->round(state, i, v + i * L, q + i * L);
    for (size_t k = 0; k < L; k++)
        if (worse_than_zeros(v + k, q + k, importance, s->length)) {
            for (size_t i = 0; i < s->length; i++) v[i * L + k] = 0;
            again = true;
        }
    if (again) s->columnwise->choose(state, v, importance, search); /* where all is zero so are scales */
}

/* Chooses scales for weights `aim` of a strip. */
static void choose_lanes(const feedback_pass *s, const pass_position *b, size_t p, float *aim,
                         const float *importance) {
    float v[STRIP_COLUMNS * L];
    for (size_t lane = 0; lane < s->width; lane += L) {
        for (size_t i = 0; i < s->length; i++)
            vf_store(v + i * L, vf_load(pass_strip_at(s, aim, p, b->c + i) + lane));
        choose_block(s, pass_state_at(s, p, lane, (b->first + b->c) / s->length), v, importance);
    }
}

/* ---- codes ---- */
/* Weights beyond the ends of their range, in `ends`. */
INLINE vf count_ends(const codec_columnwise *columnwise, const void *state, size_t column, const float *v, vf ends) {
    float low[CODEC_MOST_GROUP * L], high[CODEC_MOST_GROUP * L];
    columnwise->ends(state, column, low, high);
    for (size_t g = 0; g < columnwise->group; g++) {
        vf x = vf_load(v + g * L);
        ends = ends + vf_pick(vm_either(vf_less(x, vf_load(low + g * L)), vf_less(vf_load(high + g * L), x)),
                              vf_all(1), vf_all(0));
    }
    return ends;
}

/* Codes for a group of columns from c on: v, what would be best if all of them could be met, and what is
 * left of r. column: in the block. ends: NULL: not counted. */
INLINE void round_group(const feedback_pass *s, const pass_lanes *b, void *state, size_t column, size_t c,
                        vf *sum, vf *ends) {
    size_t group = s->group, end = c + group;
    float v[CODEC_MOST_GROUP * L], q[CODEC_MOST_GROUP * L];
    vf answer[SLICE_COLUMNS], rest[CODEC_MOST_GROUP];
    for (size_t g = c; g < end; g++) answer[g] = sum[g];
    for (size_t g = c; g < end; g++) {
        vf x = feedback_value(b, g, answer[g]);
        vf_store(v + (g - c) * L, x), vf_store(b->value + g * b->stride, x);
        pass_push(b, answer, g, g + 1, end, vf_load(b->w + g * b->stride) - x);
    }
    if (s->columnwise->round_path)
        s->columnwise->round_path(state, column, v, b->root + c * (STRIP_COLUMNS + 1), q);
    else
        s->columnwise->round(state, column, v, q);
    if (ends) *ends = count_ends(s->columnwise, state, column, v, *ends);
    for (size_t g = 0; g < group; g++) rest[g] = vf_all(0);
    for (size_t g = 0; g < group; g++) {
        const float *root = b->root + (c + g) * STRIP_COLUMNS + c;
        vf off = vf_load(v + g * L) - vf_load(q + g * L);
        for (size_t k = g; k < group; k++) rest[k] = vf_fused(vf_all(root[k]), off, rest[k]);
    }
    for (size_t g = 0; g < group; g++) vf_store(b->rest + (c + g) * b->stride, rest[g]);
    for (size_t g = c; g < end; g++) {
        vf e = vf_load(b->w + g * b->stride) - vf_load(q + (g - c) * L);
        vf_store(b->error + g * b->stride, e);
        pass_push(b, sum, g, end, s->slice, e);
    }
}

INLINE void round_slice(const feedback_pass *s, const pass_lanes *b, void *state, size_t column, vf *ends) {
    vf sum[SLICE_COLUMNS];
    for (size_t c = 0; c < s->slice; c++) sum[c] = vf_load(b->sum + c * b->stride);
    for (size_t c = 0; c < s->slice; c += s->group) round_group(s, b, state, column + c, c, sum, ends);
}

static uint64_t round_codes(const feedback_pass *s, const pass_position *b, size_t p) {
    uint64_t n = 0;
    for (size_t c = b->c; c < b->c + s->length; c += s->slice) {
        if (c > b->c)
            pass_multiply(s, transposed_rows(s, c, b->c), s->slice, c - b->c,
                          pass_at(s, s->error, p, b->first + b->c), pass_strip_at(s, s->sum, p, c), true);
        for (size_t lane = 0; lane < s->width; lane += L) {
            pass_lanes of = lanes_at(s, b, c, p, lane);
            vf ends = vf_all(0);
            round_slice(s, &of, pass_state_at(s, p, lane, (b->first + b->c) / s->length), c - b->c, &ends);
            for (size_t k = 0; k < L && k < pass_lanes_used(s, p, lane); k++) n += (uint64_t)ends[k];
        }
    }
    return n;
}

/* ---- trials ---- */
/* Rounds a block by the scales at hand; cost: what its columns add to the sum, per lane. */
static void try_codes(const feedback_pass *s, const pass_position *b, size_t p, float *cost) {
    memset(cost, 0, sizeof *cost * s->width);
    for (size_t c = b->c; c < b->c + s->length; c += s->slice) {
        begin_trial_slice(s, b, c, p);
        for (size_t lane = 0; lane < s->width; lane += L) {
            pass_lanes of = trial_lanes_at(s, b, c, p, lane);
            vf sum = vf_load(cost + lane);
            round_slice(s, &of, pass_state_at(s, p, lane, (b->first + b->c) / s->length), c - b->c, NULL);
            for (size_t i = 0; i < s->slice; i++) {
                vf r = vf_load(of.rest + i * of.stride);
                sum = sum + r * r;
            }
            vf_store(cost + lane, sum);
        }
    }
}

/* Keeps the aim of rows that it serves better than the best so far. */
static void block_keep_better(const feedback_pass *s, float *best, const float *aim, float *least,
                              const float *cost) {
    for (size_t lane = 0; lane < s->width; lane += L) {
        vf known = vf_load(least + lane), found = vf_load(cost + lane);
        vm better = vf_less(found, known);
        vf_store(least + lane, vf_pick(better, found, known));
        for (size_t i = lane; i < s->length * s->panel; i += s->panel)
            vf_store(best + i, vf_pick(better, vf_load(aim + i), vf_load(best + i)));
    }
}

/* Tries scales for weights beside `aim`, those that scales were chosen for, and leaves the best scales. */
static void try_scales(const feedback_pass *s, const pass_position *b, size_t p, const float *importance) {
    static const float STEP = 0.3f; /* of the way from the best aim to v as it was met */
    float least[MATMUL_MOST_PANEL], cost[MATMUL_MOST_PANEL];
    float *value = pass_strip_at(s, s->value, p, b->c), *aim = pass_strip_at(s, s->aim, p, b->c),
          *best = pass_strip_at(s, s->best, p, b->c);
    size_t n = s->length * s->panel;
    memcpy(best, aim, sizeof *best * n);
    try_codes(s, b, p, least);
    for (int i = 0; i < s->task->trials; i++) {
        for (size_t k = 0; k < n; k += L)
            vf_store(aim + k, vf_load(best + k) + STEP * (vf_load(value + k) - vf_load(best + k)));
        choose_lanes(s, b, p, s->aim, importance);
        try_codes(s, b, p, cost);
        block_keep_better(s, best, aim, least, cost);
    }
    choose_lanes(s, b, p, s->best, importance);
}

uint64_t LEVEL(round_block)(const feedback_pass *s, const pass_position *b, size_t p) {
    const float *own = root_tile(b->u, b->strip, b->strip) + b->c * (STRIP_COLUMNS + 1);
    float importance[STRIP_COLUMNS]; /* what an error costs, the columns after it answering */
    for (size_t i = 0; i < s->length; i++)
        importance[i] = own[i * (STRIP_COLUMNS + 1)] * own[i * (STRIP_COLUMNS + 1)];
    expect_block(s, b, p);
    memcpy(pass_strip_at(s, s->aim, p, b->c), pass_strip_at(s, s->value, p, b->c),
           sizeof *s->aim * s->length * s->panel);
    choose_lanes(s, b, p, s->aim, importance);
    if (s->task->trials > 0) try_scales(s, b, p, importance);
    return round_codes(s, b, p);
}
