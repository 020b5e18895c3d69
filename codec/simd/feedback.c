/* GPTQ-style error feedback (codec/feedback.h) over up to FEEDBACK_ROWS rows.
 *
 * As in GPTQ, errors are propagated lazily. A strip receives the errors of earlier strips when it is reached,
 * by one matrix product, and so does a slice of a strip those of earlier slices; within a slice each column's
 * error is propagated at once. All sums run in the order of columns, one chain per row and column.
 *
 * In a chain several batches of rows go through a strip one after another: the errors of earlier strips are
 * gathered for all of them at once, and only then does a batch receive the remainder of the rows before it.
 */
#include "codec/simd/pass.h"

/* Lays out operands and what is beyond the scratch's floats. */
static void lay_out_operands(feedback_pass *s, uint8_t *at) {
    size_t column = FEEDBACK_ROWS * s->by->bytes, all = s->padded * column;
    s->of_w = (pass_operand){s->w, s->padded}, s->of_error = (pass_operand){s->error, s->padded};
    s->of_shift = (pass_operand){s->shift, s->padded}, s->states = at;
    if (!s->by->rounds) return;
    s->of_w.at = at, s->of_shift.at = s->of_error.at = at + all; /* errors come when z is done with */
    s->of_strip = (pass_operand){at + 2 * all, STRIP_COLUMNS};
    s->states = at + s->by->bytes * feedback_rounded_elements(s->task->columns);
}

/* Lays out a pass over `batches` batches of `lanes` rows, or as many as there is room for. */
static feedback_pass start_pass(const feedback_task *t, size_t lanes, size_t batches) {
    const codec_columnwise *columnwise = t->kernels->codecs[t->type].columnwise;
    size_t length = tensor_type_of(t->type)->block_elements;
    const product_kernels *floats = kernels_products(t->kernels, MATMUL_FLOAT32);
    feedback_pass s = {.task = t,
                       .columnwise = columnwise,
                       .type = tensor_type_of(t->type),
                       .by = t->by ? t->by : kernels_products(t->kernels, t->hessian->arithmetic),
                       .lanes = lanes,
                       .width = lanes <= L ? L : floats->panel,
                       .panel = floats->panel,
                       .padded = feedback_padded(t->columns),
                       .length = length,
                       .group = columnwise->group,
                       .slice = length < SLICE_COLUMNS ? length : SLICE_COLUMNS,
                       .state_bytes = feedback_state_bytes(columnwise)};
    float *scratch = t->scratch, **arrays[] = {&s.w, &s.error, &s.shift, &s.rest, &s.goal};
    float **strips[] = {&s.sum, &s.trial, &s.trial_error, &s.trial_rest, &s.value, &s.aim, &s.best};
    _Static_assert(sizeof arrays / sizeof *arrays == FEEDBACK_ARRAYS, "as many as there is room for");
    _Static_assert(sizeof strips / sizeof *strips == FEEDBACK_STRIP_ARRAYS, "as many as there is room for");
    for (size_t i = 0; i < FEEDBACK_ARRAYS; i++, scratch += s.padded * FEEDBACK_ROWS) *arrays[i] = scratch;
    for (size_t i = 0; i < FEEDBACK_STRIP_ARRAYS; i++, scratch += STRIP_COLUMNS * FEEDBACK_ROWS)
        *strips[i] = scratch;
    s.transposed = scratch;
    lay_out_operands(&s, (uint8_t *)t->scratch + sizeof(float) * feedback_floats(t->columns));
    s.batch_panels = (lanes + s.panel - 1) / s.panel;
    size_t most = FEEDBACK_ROWS / s.panel / s.batch_panels;
    s.batches = batches < most ? batches : most, s.panels = s.batches * s.batch_panels;
    memset(t->scratch, 0, sizeof(float) * feedback_floats(t->columns));
    return s;
}

/* A batch's last row stands for those that its last panel lacks. Columns are a multiple of L. */
static void load_rows(const feedback_pass *s, const float *x) {
    for (size_t first = 0; first < s->panels * s->panel; first += L) {
        const float *from[L];
        size_t p = first / s->panel, lane = first % s->panel;
        float *to = pass_at(s, s->w, p, 0) + lane;
        for (size_t k = 0; k < L; k++) from[k] = x + pass_row(s, p, lane + k) * s->task->columns;
        for (size_t c = 0; c < s->task->columns; c += L) {
            vf t[L];
            for (size_t k = 0; k < L; k++) t[k] = vf_load(from[k] + c);
            vf_transpose(t);
            for (size_t k = 0; k < L; k++) vf_store(to + (c + k) * s->panel, t[k]);
        }
    }
    for (size_t c = 0; c < s->padded; c += STRIP_COLUMNS) pass_round_columns(s, s->w, s->of_w, c);
}

static void begin_headers(const feedback_pass *s) {
    for (size_t p = 0; s->columnwise->begin && p < s->panels; p++)
        for (size_t lane = 0; lane < s->width; lane += L)
            s->columnwise->begin(pass_state_at(s, p, lane, 0), s->state_bytes, pass_at(s, s->w, p, 0) + lane,
                            s->panel, s->task->columns);
}

/* ---- shifts: a z of feedback.h ---- */
/* z of a slice for a batch of lanes, `known` what later columns add up to. Pointers are to its first column. */
static void solve_slice(const float *own, float *z, float *known, size_t stride) {
    for (size_t c = SLICE_COLUMNS; c-- > 0;) {
        vf x = (vf_load(z + c * stride) - vf_load(known + c * stride)) / own[c * STRIP_COLUMNS + c];
        vf_store(z + c * stride, x);
        for (size_t k = 0; k < c; k++)
            vf_store(known + k * stride,
                     vf_fused(vf_all(own[k * STRIP_COLUMNS + c]), x, vf_load(known + k * stride)));
    }
}

/* w D of a strip. */
static void multiply_by_d(const feedback_pass *s, const pass_span *u, size_t strip) {
    size_t first = u->first + strip * STRIP_COLUMNS;
    const float *tile = u->m->gptaq_d + feedback_square(u->m->columns, strip);
    for (size_t i = 0; i < u->strips; i++, tile += STRIP_COLUMNS * STRIP_COLUMNS)
        pass_multiply_all(s, pass_tile(s, tile, false), STRIP_COLUMNS, s->of_w, u->first + i * STRIP_COLUMNS,
                          pass_at(s, s->shift, 0, first), s->padded, i > 0);
}

/* p of a strip for some lanes of a panel from `lane` on, which are rows from `row` on. Returns how many
 * lanes: those whose rows are in one tile of P. A tile ends beyond the last row, with zeros; there are none
 * behind it. */
static size_t load_p_lanes(const feedback_pass *s, const float *tiles, size_t row, float *to, size_t lane) {
    size_t tile = row / STRIP_COLUMNS, left = STRIP_COLUMNS - row % STRIP_COLUMNS, n = s->panel - lane;
    bool is_there = tile < feedback_strips(s->task->matrix_rows);
    if (n > left) n = left;
    for (size_t c = 0; c < STRIP_COLUMNS; c++) {
        const float *from = tiles + (tile * STRIP_COLUMNS + c) * STRIP_COLUMNS + row % STRIP_COLUMNS;
        if (is_there)
            memcpy(to + c * s->panel + lane, from, n * sizeof *to);
        else
            memset(to + c * s->panel + lane, 0, n * sizeof *to);
    }
    return n;
}

/* p of a strip. */
static void load_p(const feedback_pass *s, const pass_span *u, size_t strip) {
    size_t first = u->first + strip * STRIP_COLUMNS, row = s->task->first_row;
    const float *tiles =
        u->m->gptaq_p + strip * feedback_strips(s->task->matrix_rows) * STRIP_COLUMNS * STRIP_COLUMNS;
    for (size_t p = 0; p < s->panels; p++)
        for (size_t lane = 0; lane < s->panel;)
            lane += load_p_lanes(s, tiles, row + p * s->panel + lane, pass_at(s, s->shift, p, first), lane);
}

/* z of a strip for all panels, those of later strips being known. */
static void solve_strip(const feedback_pass *s, const pass_span *u, size_t strip) {
    const float *own = root_tile(u, strip, strip);
    size_t first = u->first + strip * STRIP_COLUMNS;
    (u->m->gptaq_p ? load_p : multiply_by_d)(s, u, strip);
    memset(s->sum, 0, sizeof(float) * STRIP_COLUMNS * FEEDBACK_ROWS);
    for (size_t i = strip + 1; i < u->strips; i++)
        pass_multiply_all(s, pass_tile(s, root_tile(u, strip, i), false), STRIP_COLUMNS, s->of_shift,
                          u->first + i * STRIP_COLUMNS, s->sum, STRIP_COLUMNS, true);
    for (size_t end = STRIP_COLUMNS; end > 0; end -= SLICE_COLUMNS)
        for (size_t p = 0; p < s->panels; p++) {
            size_t c = end - SLICE_COLUMNS;
            float *z = pass_at(s, s->shift, p, first), *known = pass_strip_at(s, s->sum, p, c);
            if (end < STRIP_COLUMNS)
                pass_multiply(s, tile_rows(own, c, end), SLICE_COLUMNS, STRIP_COLUMNS - end,
                              z + end * s->panel, known, true);
            for (size_t lane = 0; lane < s->width; lane += L)
                solve_slice(own + c * STRIP_COLUMNS + c, z + c * s->panel + lane, known + lane, s->panel);
        }
    pass_round_columns(s, s->shift, s->of_shift, first);
}

static void compute_shifts(const feedback_pass *s, const pass_span *u) {
    if ((!u->m->gptaq_d && !u->m->gptaq_p) || !(u->m->gptaq_a > 0)) return;
    for (size_t strip = u->strips; strip-- > 0;) solve_strip(s, u, strip);
    for (size_t p = 0; p < s->panels; p++) {
        float *z = pass_at(s, s->shift, p, u->first);
        for (size_t i = 0; i < u->strips * STRIP_COLUMNS * s->panel; i++) z[i] *= u->m->gptaq_a;
    }
}

/* ---- the pass ---- */
/* s->goal and s->sum of a strip: the weights up to it, and the errors before it, times R. A strip's tiles of
 * R are below each other, so that all of them can be one product. The strip's own tile, which what follows
 * takes, too, is of floats and goes last. */
static void gather_products(const feedback_pass *s, const pass_span *u, size_t strip) {
    size_t first = u->first + strip * STRIP_COLUMNS, n = s->by->whole ? strip : 1;
    for (size_t i = 0; i < strip; i += n) {
        product_rows tiles = pass_tile(s, root_tile(u, i, strip), true);
        size_t from = u->first + i * STRIP_COLUMNS, columns = n * STRIP_COLUMNS;
        pass_multiply_all(s, tiles, columns, s->of_w, from, pass_at(s, s->goal, 0, first), s->padded, i > 0);
        pass_multiply_all(s, tiles, columns, s->of_error, from, s->sum, STRIP_COLUMNS, true);
    }
    transpose_tile(s, root_tile(u, strip, strip));
    for (size_t p = 0; p < s->panels; p++)
        pass_multiply_tile(s, transposed_rows(s, 0, 0), pass_at(s, s->w, p, first),
                           pass_at(s, s->goal, p, first), strip > 0);
}

/* Adds up the parts from earlier strips, and t R, to which the strip's own tile adds; the result stays
 * transposed. */
static void gather_strip(const feedback_pass *s, const pass_span *u, size_t strip) {
    size_t first = u->first + strip * STRIP_COLUMNS;
    memset(s->sum, 0, sizeof(float) * STRIP_COLUMNS * FEEDBACK_ROWS);
    gather_products(s, u, strip);
    for (size_t p = 0; p < s->panels; p++) {
        float *goal = pass_at(s, s->goal, p, first), *shift = pass_at(s, s->shift, p, first);
        for (size_t i = 0; i < STRIP_COLUMNS * s->panel; i++) goal[i] += shift[i];
    }
}

/* ---- chains ---- */
/* Adds up what the rows before a place of a head leave undone in `columns` columns, as far as the row at that
 * place can make it good. */
static void chain_gather(const feedback_chain *chain, size_t head, size_t place, const float *rest,
                         size_t padded, float *z) {
    enum { VECTORS = 8 };
    const float *factors = chain->factors + (head * chain->length + place) * chain->length;
    size_t known = place / chain->together * chain->together;
    rest += head * chain->length * padded;
    for (size_t c = 0; c < STRIP_COLUMNS; c += VECTORS * L) {
        vf sum[VECTORS];
        for (size_t v = 0; v < VECTORS; v++) sum[v] = vf_all(0);
        for (size_t j = 0; j < known; j++)
            for (size_t v = 0; v < VECTORS; v++)
                sum[v] = vf_fused(vf_all(factors[j]), vf_load(rest + j * padded + c + v * L), sum[v]);
        for (size_t v = 0; v < VECTORS; v++) vf_store(z + c + v * L, sum[v]);
    }
}

/* The lane of a batch that belongs to a head, and the place of the order that it is at. */
typedef struct chain_lane {
    size_t head, place, panel, lane;
    float *rest; /* of the lane's row */
} chain_lane;
INLINE chain_lane chain_lane_at(const feedback_pass *s, size_t batch, size_t i) {
    const feedback_chain *chain = s->task->chain;
    chain_lane l = {.head = i / chain->together,
                    .place = (s->first + batch) * chain->together + i % chain->together,
                    .panel = batch * s->batch_panels + i / s->panel,
                    .lane = i % s->panel};
    l.rest = chain->rest + (l.head * chain->length + l.place) * s->padded;
    return l;
}

/* Adds to the shifts of a batch in a strip by what earlier rows leave undone, and notes its negative as these
 * rows' rest. */
static void chain_add_shifts(const feedback_pass *s, size_t batch, size_t first) {
    float z[STRIP_COLUMNS];
    for (size_t i = 0; i < s->lanes; i++) {
        chain_lane l = chain_lane_at(s, batch, i);
        float *shift = pass_at(s, s->shift, l.panel, first) + l.lane;
        float *goal = pass_at(s, s->goal, l.panel, first) + l.lane;
        chain_gather(s->task->chain, l.head, l.place, s->task->chain->rest + first, s->padded, z);
        for (size_t c = 0; c < STRIP_COLUMNS; c++) {
            shift[c * s->panel] += z[c], goal[c * s->panel] += z[c];
            l.rest[first + c] = -z[c];
        }
    }
}

/* Makes the notes what is left of these rows themselves: r less the shift. */
static void chain_keep_rest(const feedback_pass *s, size_t batch, size_t first, size_t columns) {
    for (size_t i = 0; i < s->lanes; i++) {
        chain_lane l = chain_lane_at(s, batch, i);
        const float *rest = pass_at(s, s->rest, l.panel, first) + l.lane;
        for (size_t c = 0; c < columns; c++) l.rest[first + c] += rest[c * s->panel];
    }
}

/* ---- strips ---- */
/* A batch of rows in a strip. */
static uint64_t round_batch(const feedback_pass *s, const pass_span *u, size_t strip, size_t batch) {
    pass_position b = {u, strip, 0, u->first + strip * STRIP_COLUMNS};
    size_t begin = batch * s->batch_panels, end = begin + s->batch_panels;
    uint64_t clipped = 0;
    for (; b.c < strip_columns(u, strip); b.c += s->length)
        for (size_t p = begin; p < end; p++) {
            if (b.c)
                pass_multiply(s, transposed_rows(s, b.c, 0), s->length, b.c, pass_at(s, s->error, p, b.first),
                              pass_strip_at(s, s->sum, p, b.c), true);
            clipped += LEVEL(round_block)(s, &b, p);
        }
    return clipped;
}

static uint64_t round_strip(const feedback_pass *s, const pass_span *u, size_t strip) {
    size_t first = u->first + strip * STRIP_COLUMNS;
    uint64_t clipped = 0;
    gather_strip(s, u, strip);
    for (size_t batch = 0; batch < s->batches; batch++) {
        if (s->task->chain) chain_add_shifts(s, batch, first);
        clipped += round_batch(s, u, strip, batch);
        if (s->task->chain && !s->task->sweeps) chain_keep_rest(s, batch, first, STRIP_COLUMNS);
    }
    pass_round_columns(s, s->error, s->of_error, first);
    return clipped;
}

/* ---- the end of a row ---- */
/* t H t^T over t H q^T, bounded as plain encoding's gain is; where that would leave more error than zeros,
 * what leaves the least. */
static float gain_of(const feedback_pass *s, size_t p, size_t lane, feedback_sums *sums) {
    double power = 0, kept = 0, error = 0;
    for (size_t c = 0; c < s->padded; c++) {
        double t = (double)pass_at(s, s->goal, p, c)[lane], r = (double)pass_at(s, s->rest, p, c)[lane];
        power += t * t, kept += t * (t - r), error += r * r;
    }
    sums->power += power, sums->error += error;
    double gain = kept > 0 ? power / kept : 1, square = 2 * kept - power + error; /* q H q^T */
    if (gain * square > 2 * kept) gain = kept / square;
    return (float)(gain < 0.75 ? 0.75 : gain > 1.5 ? 1.5 : gain);
}

/* Copies what `lanes` has of some lanes of a panel, n bytes of each, to byte `at` of their rows. */
static void put_lanes(const feedback_pass *s, size_t p, size_t lane, size_t used, const uint8_t *lanes,
                      size_t n, uint8_t *out, size_t at) {
    size_t row_bytes = gguf_row_bytes(s->type, s->task->columns);
    for (size_t k = 0; k < used; k++)
        memcpy(out + pass_row(s, p, lane + k) * row_bytes + at, lanes + k * n, n);
}

static void finish_rows(const feedback_pass *s, uint8_t *out, feedback_sums *sums) {
    enum { MOST_BYTES = 512 }; /* of a block, or of a row header */
    uint8_t lanes[L * MOST_BYTES];
    size_t head = s->type->row_header_bytes, bytes = s->type->block_bytes;
    for (size_t p = 0; p < s->panels; p++)
        for (size_t lane = 0; lane < s->width; lane += L) {
            size_t left = pass_lanes_used(s, p, lane), used = left < L ? left : L;
            float gain[L];
            if (!used) break;
            for (size_t k = 0; k < L; k++) gain[k] = k < used ? gain_of(s, p, lane + k, sums) : 1;
            if (head) {
                s->columnwise->finish_headers(pass_state_at(s, p, lane, 0), gain, lanes, head, used);
                put_lanes(s, p, lane, used, lanes, head, out, 0);
            }
            for (size_t i = 0; i < s->task->columns / s->length; i++) {
                s->columnwise->finish(pass_state_at(s, p, lane, i), gain, lanes, bytes, used);
                put_lanes(s, p, lane, used, lanes, bytes, out, head + i * bytes);
            }
        }
}

static void feedback_batches(feedback_pass *s, const float *x, uint8_t *blocks, feedback_sums *sums) {
    const feedback_task *t = s->task;
    pass_span u = {.first = 0};
    load_rows(s, x);
    begin_headers(s);
    for (size_t i = 0; i < t->n_hessians; i++, u.first += u.strips * STRIP_COLUMNS) {
        u.m = &t->hessian[i], u.strips = feedback_strips(u.m->columns);
        compute_shifts(s, &u);
        for (size_t strip = 0; strip < u.strips; strip++) sums->clipped += round_strip(s, &u, strip);
    }
    sums->codes += s->batches * s->lanes * t->columns;
    if (t->unswept) finish_rows(s, t->unswept, &(feedback_sums){0});
    u.first = 0;
    for (size_t i = 0; i < t->n_hessians && t->sweeps > 0; i++, u.first += u.strips * STRIP_COLUMNS) {
        u.m = &t->hessian[i], u.strips = feedback_strips(u.m->columns);
        for (int k = 0; k < t->sweeps; k++)
            for (size_t strip = u.strips; strip-- > 0;) LEVEL(descend)(s, &u, strip);
    }
    if (t->chain && t->sweeps) chain_keep_rest(s, 0, 0, s->padded);
    finish_rows(s, blocks, sums);
}

void LEVEL(feedback)(const feedback_task *t, const float *x, size_t rows, uint8_t *blocks,
                     feedback_sums *sums) {
    size_t lanes = t->chain ? t->chain->heads * t->chain->together : rows, all = rows / lanes;
    for (size_t first = 0; first < all;) {
        /* Sweeps end a row before the next one may begin. */
        feedback_pass s = start_pass(t, lanes, t->chain && t->sweeps ? 1 : all - first);
        s.first = first, first += s.batches;
        feedback_batches(&s, x, blocks, sums);
        if (t->report) t->report(t->data, s.batches * lanes);
    }
}
