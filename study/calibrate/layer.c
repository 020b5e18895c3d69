/* The story of a calibrated layer. For each of its sublayers, one output after another:
 *
 *     gather    both streams run up to the next site that has matrices left; its inputs are added up to
 *               Hessians, and held out where it is to check (gather.c)
 *     factor    the Hessian of a matrix becomes a Cholesky factor (study/inputs/cholesky.c)
 *     round     its rows are rounded in all ways: plainly, with error feedback, with sweeps (round.c)
 *     compare   these are multiplied with the held-out tokens; what does best is written (round.c)
 *     keep      the blocks stand in for the weights in the output's stream, so the inputs of the next site
 *               contain the rounding already; figures are recorded
 *
 * When no site is left the output's stream passes the sublayer with the rounded weights. The base model's stream
 * passes it last, as every output needs its hidden states from before the sublayer. Of ranks each gathers what its own
 * windows give; then they share rows of a matrix, or whole matrices of a site. */
#include "study/calibrate/calibrate.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "forward/graph/experts/experts.h"

/* ---- progress ---- */

/* A sample's time of a site is stored with the first of its weights that is to be rounded. */
static calibrate_timing *timing_of_site(calibrator *c, const site *s) {
    size_t w = 0;
    while (w + 1 < s->n_weights && calibrator_matrices_done(c, s->weights[w]) == UINT64_MAX) w++;
    return calibrator_timing_of(c, s->weights[w]);
}

/* ---- weights ---- */

static bool reads_blocks_again(const calibrator *c, const model_tensor *t) {
    return c->of->memory.reads_blocks && calibrate_reads_blocks(t);
}

/* Returns the weight that is being rounded, with memory for its blocks where they are kept. NULL: *e. */
static const rounded_weight *rounded_weight_of(calibrator *c, const model_tensor *t, size_t number,
                                               gq_error *e) {
    for (size_t i = 0; i < c->at.n_weights; i++)
        if (c->at.weights[i].tensor == t) return &c->at.weights[i];
    rounded_weight *grown = realloc(c->at.weights, (c->at.n_weights + 1) * sizeof *grown), of = {.tensor = t};
    if (!grown) return gq_fail_memory(e, sizeof *grown), NULL;
    c->at.weights = grown;
    if (!reads_blocks_again(c, t) &&
        !(of.blocks = memory_lines(c->of->outputs[c->at.output][number].out_bytes, 1, e)))
        return NULL;
    grown[c->at.n_weights] = of;
    return &grown[c->at.n_weights++];
}

/* Reads blocks of a weight that was rounded. */
static bool read_rounded_blocks(void *data, const model_tensor *t, uint64_t first, void *to, size_t n,
                                gq_error *e) {
    const calibrator *c = data;
    const rounding_store *store = &c->of->store;
    return store->read(store->data, c->at.output, calibrator_number_of(c, t), first, to, n, e);
}

/* Finds the place for a matrix's blocks; *blocks NULL: they are not kept, but read again. */
static bool matrix_blocks(calibrator *c, const model_tensor *t, uint64_t matrix, uint8_t **blocks,
                          gq_error *e) {
    size_t number = calibrator_number_of(c, t);
    const rounded_weight *w = rounded_weight_of(c, t, number, e);
    uint64_t bytes = c->of->outputs[c->at.output][number].out_bytes / shape_matrices(t->ne);
    *blocks = w && w->blocks ? w->blocks + matrix * bytes : NULL;
    return w;
}

/* Whether a matrix of a weight is still to be rounded. */
static bool wants_matrix(calibrator *c, const model_tensor *t, uint64_t matrix) {
    return calibrator_matrices_done(c, t) <= matrix;
}

/* Sets in the layer which of its weights are still to be rounded for the output; afterwards: none. */
static void expect_weights(calibrator *c, bool begins) {
    const calibration *job = c->of;
    for (size_t i = 0; c->at.layer && i < job->n_tensors; i++)
        forward_layer_expect(c->at.layer, job->tensors[i],
                             begins && calibrator_matrices_done(c, job->tensors[i]) != UINT64_MAX);
}

static void drop_weights(calibrator *c) {
    for (size_t i = 0; i < c->at.n_weights; i++) {
        if (c->at.layer) forward_layer_replace(c->at.layer, c->at.weights[i].tensor, 0, NULL);
        free(c->at.weights[i].blocks);
    }
    free(c->at.weights);
    c->at.weights = NULL, c->at.n_weights = 0;
}

/* ---- gather ---- */

/* Runs both streams up to the next site that has matrices left, and adds up its inputs. */
static bool gather_site(calibrator *c, site *s, gq_error *e) {
    sweep_name_phase(&c->sweep, "inputs");
    bool ok = site_gather(s, c, e);
    if (!s->n_weights) return ok;
    calibrate_timing *timing = timing_of_site(c, s);
    timing->probes += s->probe * (double)s->batches, timing->hessian += s->hessian;
    timing->gathered += s->end - s->first;
    return ok;
}

/* ---- factor ---- */

/* Products of the pass are as all others. A router is fitted again by the floats. */
static void round_hessian(const calibrator *c, const site *s, cholesky *f) {
    for (size_t w = 0; w < s->n_weights; w++)
        if (forward_is_router(c->of->streams[0], s->weights[w])) return;
    cholesky_round(f, calibration_arithmetic(&c->of->settings), matmul_pool(c->products));
}

/* Computes the Cholesky factor of a matrix's Hessian, which is freed, and the mean squares of its inputs. */
static bool factor_hessian(calibrator *c, const site *s, hessian *m, float *mean_square, cholesky *f,
                           gq_error *e) {
    calibrate_timing *timing = timing_of_site(c, s);
    double began = clock_seconds();
    hessian_settings settings = calibration_hessian_settings(&c->of->settings);
    settings.report = sweep_report, settings.data = &c->sweep;
    calibrator_begin_piece(c, calibrator_site_cost(c, s, 1).cholesky);
    hessian_mean_squares(m, mean_square);
    bool ok = cholesky_factor(m, settings, f, e);
    hessian_free(m);
    timing->cholesky += clock_seconds() - began, timing->factored++;
    return ok;
}

/* ---- round and compare ---- */

/* The result of a matrix of a weight. */
typedef struct rounded_matrix {
    calibrate_figures figures;
    uint64_t reason; /* a round_reason */
} rounded_matrix;

/* in: the matrix's inputs, which weights of a site have in common. */
static bool round_weight(calibrator *c, const model_tensor *t, const round_task *in, rounded_matrix *to,
                         gq_error *e) {
    const calibration_settings *settings = &c->of->settings;
    size_t number = calibrator_number_of(c, t);
    const gq_tensor *of = &c->of->outputs[c->at.output][number];
    round_reason reason = ROUND_CALIBRATED;
    round_task task = *in;
    task.tensor = number;
    if (c->at.layer && !matrix_blocks(c, t, in->matrix, &task.blocks_copy, e)) return false;
    double began = clock_seconds();
    calibrator_begin_piece(c, calibrator_cost_of(c, c->at.output, t).round / (double)shape_matrices(t->ne));
    if (c->at.metrics) task.metrics = chains_metrics_of(c->at.metrics, t);
    *to = (rounded_matrix){.figures = {.width = min(settings->width, t->ne[0])}};
    bool ok = forward_is_router(c->of->streams[0], t) && !tensor_type_of(of->to)->quantized
                  ? router_refit(&task, &to->figures, &reason, e)
                  : round_matrix(&task, &to->figures, &reason, e);
    calibrator_timing_of(c, t)->round += clock_seconds() - began;
    to->reason = reason;
    return ok;
}

/* Turns held-out tokens from [token][feature] into [feature][token], as products take them, and frees *tokens. NULL:
 * no memory. */
static float *transpose_tokens(size_t features, float **tokens, size_t held, size_t stride, gq_error *e) {
    float *x = forward_activations(features, stride ? stride : 16, e);
    for (size_t i = 0; x && i < held; i++)
        for (size_t f = 0; f < features; f++) x[f * stride + i] = (*tokens)[i * features + f];
    free(*tokens);
    *tokens = NULL;
    return x;
}

/* Notes the mean squares of a matrix's inputs, by which it can be encoded again. */
static bool keep_squares(calibrator *c, const model_tensor *t, uint64_t matrix, const float *mean_square,
                         gq_error *e) {
    size_t number = calibrator_number_of(c, t);
    uint64_t n = mul_sat(t->ne[0], shape_matrices(t->ne));
    tensor_progress *p = calibrator_progress_at(c, c->at.output, number);
    if (!c->at.layer || !calibration_does(&c->of->settings, CALIBRATE_VALIDATION) || n > UINT32_MAX)
        return true;
    if (!p->squares && !(p->squares = calloc(n, sizeof *p->squares)))
        return gq_fail_memory(e, n * sizeof *p->squares);
    if (mean_square) memcpy(p->squares + matrix * t->ne[0], mean_square, t->ne[0] * sizeof *mean_square);
    return true;
}

/* Rounds one matrix of each of the site's weights by the inputs gathered for it, and frees these. to: one for
 * each weight. */
static bool round_site_matrix(calibrator *c, const site *s, uint64_t matrix, site_inputs of, gq_comm *comm,
                              rounded_matrix *to, gq_error *e) {
    cholesky f = {.tokens = 0};
    float *mean_square = calloc(s->features, sizeof *mean_square), *base = NULL, *rounded = NULL;
    bool ok = mean_square || gq_fail_memory(e, s->features * sizeof *mean_square);
    ok = ok && factor_hessian(c, s, of.hessian, mean_square, &f, e);
    if (mean_square) of.hessian = NULL;
    ok = ok && gptaq_choose_a(c->of, s, matrix, &of, &f, matmul_pool(c->products), e);
    if (ok) round_hessian(c, s, &f);
    size_t stride = forward_stride(of.held);
    ok = ok && (base = transpose_tokens(site_base_features(s), &of.base, of.held, stride, e)) &&
         (rounded = transpose_tokens(s->features, &of.rounded, of.held, stride, e));
    round_task in = {.c = c,
                     .matrix = matrix,
                     .comm = comm,
                     .factored = &f,
                     .mean_square = f.tokens ? mean_square : NULL,
                     .base = base,
                     .rounded = rounded,
                     .is_residual = s->adds != 0,
                     .held = of.held,
                     .stride = stride};
    for (size_t w = 0; ok && w < s->n_weights; w++)
        if (wants_matrix(c, s->weights[w], matrix))
            ok = round_weight(c, s->weights[w], &in, &to[w], e) &&
                 keep_squares(c, s->weights[w], matrix, in.mean_square, e);
    free(base), free(rounded), free(mean_square);
    cholesky_free(&f), site_inputs_free(&of);
    return ok;
}

/* ---- keep ---- */

/* All matrices of a tensor are rounded: its blocks stand in for it in the stream, and its figures are
 * recorded. */
static bool finish_tensor(calibrator *c, const model_tensor *t, size_t number, gq_error *e) {
    if (c->at.layer && c->of->sample && !forward_is_router(c->of->streams[0], t)) {
        forward_layer_expect(c->at.layer, t, false); /* some rows alone are rounded */
    } else if (c->at.layer) {
        const rounded_weight *w = rounded_weight_of(c, t, number, e);
        uint32_t type = c->of->outputs[c->at.output][number].to;
        if (!w) return false;
        if (w->blocks)
            forward_layer_replace(c->at.layer, t, type, w->blocks);
        else
            forward_layer_replace_read(c->at.layer, t, type, (forward_blocks){read_rounded_blocks, c});
        forward_layer_expect(c->at.layer, t, false);
    }
    return calibrator_record(c, c->at.output, number, e);
}

/* Adds what became of a weight's next matrix to what is known of the weight. */
static bool settle_matrix(calibrator *c, const model_tensor *t, const rounded_matrix *of, gq_error *e) {
    size_t number = calibrator_number_of(c, t);
    tensor_progress *p = calibrator_progress_at(c, c->at.output, number);
    figures_add(&p->figures, &of->figures);
    if (p->reason == ROUND_CALIBRATED) p->reason = (round_reason)of->reason;
    p->settled++;
    if (!sweep_ask(&c->sweep, e)) return false;
    return p->settled < shape_matrices(t->ne) || finish_tensor(c, t, number, e);
}

/* Sends a rounded matrix of a weight from the rank that has it to all others, and has the first rank write
 * it. */
static bool share_matrix(calibrator *c, const model_tensor *t, uint64_t matrix, int rank, rounded_matrix *of,
                         gq_error *e) {
    const calibration *job = c->of;
    const rounding_store *store = &job->store;
    size_t number = calibrator_number_of(c, t);
    uint64_t bytes = job->outputs[c->at.output][number].out_bytes / shape_matrices(t->ne);
    uint8_t *blocks; /* there are some: one process alone reads them again (calibration_memory.c) */
    const tensor_progress *p = calibrator_progress_at(c, c->at.output, number);
    if (!matrix_blocks(c, t, matrix, &blocks, e) || !keep_squares(c, t, matrix, NULL, e)) return false;
    return comm_broadcast_from(job->text.comm, rank, of, sizeof *of, e) &&
           (!p->squares || comm_broadcast_from(job->text.comm, rank, p->squares + matrix * t->ne[0],
                                               t->ne[0] * sizeof *p->squares, e)) &&
           comm_broadcast_from(job->text.comm, rank, blocks, bytes, e) &&
           (rank == 0 || !comm_is_first(job->text.comm) ||
            store->write(store->data, c->at.output, number, matrix * bytes, blocks, bytes, e));
}

/* Shares and settles the i-th matrix that was gathered, if ranks have rounded some each. */
static bool settle_site_matrix(calibrator *c, const site *s, size_t i, rounded_matrix *to, gq_error *e) {
    for (size_t w = 0; w < s->n_weights; w++) {
        const model_tensor *t = s->weights[w];
        if (!wants_matrix(c, t, s->first + i)) continue;
        if (s->dealt && !share_matrix(c, t, s->first + i, site_owner(s, c->of->text.comm, i), &to[w], e))
            return false;
        if (!settle_matrix(c, t, &to[w], e)) return false;
    }
    return true;
}

/* ---- a site, a sublayer, a layer ---- */

/* Rounds what was gathered: all matrices with the other ranks, or this rank's share of them alone. */
static bool round_gathered(calibrator *c, site *s, gq_error *e) {
    size_t n = s->end - s->first;
    if (c->of->sample) s->own_end = min(s->own_end, c->of->sample->matrices);
    gq_comm *comm = s->dealt ? NULL : c->of->text.comm;
    rounded_matrix *to = calloc(n * s->n_weights, sizeof *to);
    bool ok = to || gq_fail_memory(e, n * s->n_weights * sizeof *to);
    for (size_t i = s->own; ok && i < s->own_end; i++) {
        ok = round_site_matrix(c, s, s->first + i, site_take(s, i), comm, to + i * s->n_weights, e);
        if (!s->dealt) ok = ok && settle_site_matrix(c, s, i, to + i * s->n_weights, e);
    }
    for (size_t i = 0; s->dealt && ok && i < n; i++)
        ok = settle_site_matrix(c, s, i, to + i * s->n_weights, e);
    free(to);
    return ok;
}

/* Does site after site, until no matrix of the sublayer is left. */
static bool round_sites(calibrator *c, gq_error *e) {
    for (bool found = true, ok; found;) {
        site s;
        ok = gather_site(c, &s, e), found = s.n_weights > 0;
        sweep_name_phase(&c->sweep, "rounding");
        ok = ok && (!found || round_gathered(c, &s, e));
        site_free(&s);
        if (!ok) return false;
    }
    return true;
}

static bool calibrator_pass_layer(calibrator *c, forward_stream *s, forward_layer *l, bool replaced,
                                  forward_sublayers which, gq_error *e) {
    double began = clock_seconds();
    calibrator_begin_piece(c, c->of->costs.pass * (which == FORWARD_WHOLE ? 1 : .5));
    forward_layer_use(l, replaced);
    bool ok = forward_stream_pass(s, l, which, NULL, e);
    if (c->of->sample) c->of->sample->passes[c->sweep.step] += clock_seconds() - began;
    return ok;
}

/* Whether a layer is an MTP layer: it is looked at as a whole, and its hidden states lead nowhere. */
static bool is_mtp(const calibrator *c, const forward_layer *l) {
    return l && forward_layer_number(l) >= forward_model_sizes(c->of->streams[0])->layers;
}

static bool do_sublayer(calibrator *c, forward_layer *l, forward_sublayers which, gq_error *e) {
    bool leads_on = l && !is_mtp(c, l);
    layer_metrics metrics = {.n = 0};
    bool ok = true;
    if (leads_on && which & FORWARD_ATTENTION && calibration_does(&c->of->settings, CALIBRATE_ROWS) &&
        layer_metrics_wanted(c->of, l)) {
        double began = clock_seconds();
        calibrator_begin_piece(c, c->of->costs.metrics);
        ok = layer_metrics_gather(&metrics, c->of, c->base, l, which, e);
        if (c->of->sample) c->of->sample->metrics += clock_seconds() - began, c->of->sample->n_metrics++;
    }
    for (size_t o = 0; ok && o < c->of->n_outputs; o++) {
        if (!c->rounded[o]) continue;
        c->at.output = o, c->at.layer = l, c->at.sublayers = which, c->at.metrics = &metrics;
        expect_weights(c, true);
        ok = round_sites(c, e) && (!leads_on || calibrator_pass_layer(c, c->rounded[o], l, true, which, e));
        expect_weights(c, false);
        drop_weights(c);
    }
    layer_metrics_free(&metrics), c->at.metrics = NULL;
    return ok && (!leads_on || calibrator_pass_layer(c, c->base, l, false, which, e));
}

bool calibrator_do_layer(calibrator *c, forward_layer *l, gq_error *e) {
    return l && !is_mtp(c, l) && forward_model_splits(c->of->streams[0])
               ? do_sublayer(c, l, FORWARD_ATTENTION, e) && do_sublayer(c, l, FORWARD_FFN, e)
               : do_sublayer(c, l, FORWARD_WHOLE, e);
}
