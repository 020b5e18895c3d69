/* The story of a calibrated layer. For each of its parts, and each output in turn:
 *
 *     gather    both streams run up to the next site that has matrices left; what flows there is added up to
 *               Hessians, and held back where it is to check (site.h)
 *     factor    the Hessian of a matrix becomes a Cholesky factor (study/inputs/cholesky.h)
 *     round     its rows are rounded in all ways: by search, with error feedback, with sweeps (round.h)
 *     compare   these are multiplied with the held-back tokens; what does best is written (round.h)
 *     keep      the blocks stand in for the weights in the output's stream, so the inputs of the next site
 *               contain the rounding already; figures are recorded
 *
 * When no site is left the output's stream passes the part with the rounded weights. The base model's stream
 * passes it last, as every output needs its states from before the part. Of ranks each gathers what its own
 * windows give; then they share rows of a matrix, or whole matrices of a site. */
#include "study/calibrate/layer.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/memory.h"
#include "forward/graph/block.h"
#include "forward/graph/experts/experts.h"
#include "forward/graph/layer.h"
#include "study/calibrate/correction.h"
#include "study/calibrate/gather.h"
#include "study/calibrate/router.h"
#include "study/calibrate/rows.h"
#include "study/inputs/cholesky.h"

/* A weight that is being rounded for an output; its stream goes on with it. */
typedef struct rounded_weight {
    const model_tensor *tensor;
    uint8_t *blocks; /* NULL: they are read from the output again */
} rounded_weight;

/* An output's turn at a part of a layer, or at the output matrix. It must not move in memory. */
typedef struct turn {
    calibrator *c;
    size_t output;
    site_search search; /* both streams, the layer, the part; data: the turn */
    rounded_weight *weights;
    size_t n_weights;
    const layer_metrics *metrics; /* of the layer's rows; NULL: none are wanted */
} turn;

/* ---- tensors ---- */

static int by_address(const void *a, const void *b) {
    uintptr_t x = (uintptr_t)((const numbered *)a)->tensor, y = (uintptr_t)((const numbered *)b)->tensor;
    return (x > y) - (x < y);
}

bool calibrator_list_tensors(calibrator *c, gq_error *e) {
    const calibrate_job *job = c->of;
    size_t n = job->n_tensors;
    c->sorted = calloc(n + 1, sizeof *c->sorted);
    c->progress = calloc(job->n_outputs * n + 1, sizeof *c->progress);
    if (!c->sorted || !c->progress) return gq_fail_memory(e, job->n_outputs * n * sizeof *c->progress);
    for (size_t i = 0; i < n; i++) c->sorted[i] = (numbered){job->tensors[i], i};
    qsort(c->sorted, n, sizeof *c->sorted, by_address);
    return true;
}

void calibrator_drop_tensors(calibrator *c) {
    for (size_t i = 0; c->progress && i < c->of->n_outputs * c->of->n_tensors; i++)
        free(c->progress[i].squares);
    free(c->sorted), free(c->progress);
}

size_t calibrator_number_of(const calibrator *c, const model_tensor *t) {
    numbered wanted = {t, 0};
    const numbered *found = bsearch(&wanted, c->sorted, c->of->n_tensors, sizeof *c->sorted, by_address);
    return found ? found->number : SIZE_MAX;
}

tensor_progress *calibrator_progress_at(const calibrator *c, size_t output, size_t tensor) {
    return &c->progress[output * c->of->n_tensors + tensor];
}

/* Returns how many matrices of a tensor are rounded already; UINT64_MAX: none is left, or it is not
 * calibrated. */
static uint64_t turn_matrices_done(void *data, const model_tensor *t) {
    const turn *at = data;
    const calibrator *c = at->c;
    size_t i = calibrator_number_of(c, t);
    if (i == SIZE_MAX || !c->of->outputs[at->output][i].calibrated) return UINT64_MAX;
    uint64_t n = calibrator_progress_at(c, at->output, i)->settled, all = shape_matrices(t->ne);
    if (c->of->sample) all = min(all, c->of->sample->matrices);
    return n < all ? n : UINT64_MAX;
}

/* ---- progress ---- */

void calibrator_begin_piece(calibrator *c, double seconds) {
    sweep_progress_piece(&c->told, seconds * c->per_second);
}

calibrate_cost calibrator_cost_of(const calibrator *c, size_t output, const model_tensor *t) {
    size_t i = calibrator_number_of(c, t);
    const calibrate_costs *costs = &c->of->costs;
    if (!costs->tensors || i == SIZE_MAX) return (calibrate_cost){0};
    return costs->tensors[output * c->of->n_tensors + i];
}

/* The costs of a site's inputs and of their Cholesky factor, of so many of its matrices. */
static calibrate_cost site_cost(const calibrator *c, size_t output, const site *s, size_t matrices) {
    calibrate_cost sum = {0};
    double share = (double)matrices / (double)s->matrices;
    for (size_t w = 0; w < s->n_weights; w++) {
        calibrate_cost one = calibrator_cost_of(c, output, s->weights[w]);
        sum.gather += share * one.gather, sum.cholesky += share * one.cholesky;
    }
    return sum;
}

/* Where a sample notes what a tensor takes. */
static calibrate_timing *timing_of(turn *at, const model_tensor *t) {
    calibrator *c = at->c;
    size_t i = calibrator_number_of(c, t);
    return c->of->sample && i != SIZE_MAX ? &c->of->sample->tensors[at->output * c->of->n_tensors + i]
                                          : &c->untimed;
}

/* What a sample notes of a site is with the first of its weights that is to be rounded. */
static calibrate_timing *timing_of_site(turn *at, const site *s) {
    size_t w = 0;
    while (w + 1 < s->n_weights && turn_matrices_done(at, s->weights[w]) == UINT64_MAX) w++;
    return timing_of(at, s->weights[w]);
}

/* ---- weights ---- */

static bool turn_reads_blocks(const turn *at, const model_tensor *t) {
    return at->c->of->reads_blocks && calibrate_reads_blocks(t);
}

/* Returns the weight that is being rounded, with memory for its blocks where they are kept. NULL: *e. */
static const rounded_weight *turn_weight(turn *at, const model_tensor *t, size_t number, gq_error *e) {
    for (size_t i = 0; i < at->n_weights; i++)
        if (at->weights[i].tensor == t) return &at->weights[i];
    rounded_weight *grown = realloc(at->weights, (at->n_weights + 1) * sizeof *grown), of = {.tensor = t};
    if (!grown) return gq_fail_memory(e, sizeof *grown), NULL;
    at->weights = grown;
    if (!turn_reads_blocks(at, t) &&
        !(of.blocks = memory_lines(at->c->of->outputs[at->output][number].out_bytes, 1, e)))
        return NULL;
    grown[at->n_weights] = of;
    return &grown[at->n_weights++];
}

/* Reads blocks of a weight that was rounded. */
static bool turn_read_blocks(void *data, const model_tensor *t, uint64_t first, void *to, size_t n,
                             gq_error *e) {
    const turn *at = data;
    const rounding_store *store = &at->c->of->store;
    return store->read(store->data, at->output, calibrator_number_of(at->c, t), first, to, n, e);
}

/* Returns the place for a matrix's blocks. NULL: they are not kept, or *e. */
static uint8_t *matrix_blocks(turn *at, const model_tensor *t, uint64_t matrix, gq_error *e) {
    size_t number = calibrator_number_of(at->c, t);
    const rounded_weight *w = turn_weight(at, t, number, e);
    uint64_t bytes = at->c->of->outputs[at->output][number].out_bytes / shape_matrices(t->ne);
    return w && w->blocks ? w->blocks + matrix * bytes : NULL;
}

/* Whether a matrix of a weight is still to be rounded. */
static bool turn_wants(turn *at, const model_tensor *t, uint64_t matrix) {
    return turn_matrices_done(at, t) <= matrix;
}

/* Tells the layer which of its weights are still to be rounded for the output; after the turn: none. */
static void turn_expect(turn *at, bool begins) {
    const calibrate_job *job = at->c->of;
    for (size_t i = 0; at->search.layer && i < job->n_tensors; i++)
        forward_layer_expect(at->search.layer, job->tensors[i],
                             begins && turn_matrices_done(at, job->tensors[i]) != UINT64_MAX);
}

static void drop_weights(turn *at) {
    for (size_t i = 0; i < at->n_weights; i++) {
        if (at->search.layer) forward_layer_replace(at->search.layer, at->weights[i].tensor, 0, NULL);
        free(at->weights[i].blocks);
    }
    free(at->weights);
    at->weights = NULL, at->n_weights = 0;
}

/* ---- gather ---- */

static void turn_begin_site(void *data, const site *s) {
    turn *at = data;
    calibrator_begin_piece(at->c, site_cost(at->c, at->output, s, s->end - s->first).gather);
}

static void turn_tell_gathered(void *data, double share) {
    const turn *at = data;
    sweep_tell(&at->c->sweep, share);
}

/* Runs both streams up to the next site that has matrices left, and adds up what flows there. */
static bool gather_site(turn *at, site *s, gq_error *e) {
    sweep_name_phase(&at->c->sweep, "inputs");
    bool ok = site_gather(s, &at->search, e);
    if (!s->n_weights) return ok;
    calibrate_timing *timing = timing_of_site(at, s);
    timing->probes += s->probe * (double)s->batches, timing->hessian += s->hessian;
    timing->gathered += s->end - s->first;
    return ok;
}

/* ---- factor ---- */

/* Products of the pass are as all others. A router is fitted again by the floats. */
static void round_hessian(const turn *at, const site *s, cholesky *f) {
    for (size_t w = 0; w < s->n_weights; w++)
        if (forward_is_router(at->c->of->streams[0], s->weights[w])) return;
    cholesky_round(f, calibration_arithmetic(at->c->of->settings), matmul_pool(at->c->products));
}

/* Computes the Cholesky factor of a matrix's Hessian, which is freed, and the mean squares of its inputs. */
static bool factor_hessian(turn *at, const site *s, hessian *m, float *mean_square, cholesky *f,
                           gq_error *e) {
    calibrate_timing *timing = timing_of_site(at, s);
    double began = clock_seconds();
    hessian_settings settings = calibration_hessian_settings(at->c->of->settings);
    settings.told = sweep_tell, settings.data = &at->c->sweep;
    calibrator_begin_piece(at->c, site_cost(at->c, at->output, s, 1).cholesky);
    hessian_mean_squares(m, mean_square);
    bool ok = cholesky_factor(m, settings, f, e);
    hessian_free(m);
    timing->cholesky += clock_seconds() - began, timing->factored++;
    return ok;
}

/* ---- round and compare ---- */

/* What became of a matrix of a weight. */
typedef struct rounded_matrix {
    calibrate_figures figures;
    uint64_t reason; /* a round_reason */
} rounded_matrix;

/* The layer's choice of experts is looked at in both streams. */
static bool turn_refit_router(turn *at, const round_task *task, calibrate_figures *figures,
                              round_reason *reason, gq_error *e) {
    const calibrator *c = at->c;
    router_task router = {.round = task,
                          .base = c->base,
                          .rounded = c->rounded[at->output],
                          .layer = at->search.layer,
                          .part = at->search.part};
    return router_refit(&router, figures, reason, e);
}

/* comm: the ranks that share the rows; NULL: this process rounds them alone. */
static bool round_weight(turn *at, uint64_t matrix, const model_tensor *t, const round_inputs *inputs,
                         gq_comm *comm, rounded_matrix *to, gq_error *e) {
    calibrator *c = at->c;
    const calibration_settings *settings = c->of->settings;
    size_t number = calibrator_number_of(c, t);
    const gq_tensor *of = &c->of->outputs[at->output][number];
    uint8_t *blocks = at->search.layer ? matrix_blocks(at, t, matrix, e) : NULL;
    round_reason reason = ROUND_CALIBRATED;
    if (at->search.layer && !blocks && !turn_reads_blocks(at, t)) return false;
    round_task task = {.of = c->of,
                       .products = c->products,
                       .output = at->output,
                       .tensor = number,
                       .matrix = matrix,
                       .inputs = *inputs,
                       .blocks_copy = blocks,
                       .comm = comm,
                       .rows = c->of->sample ? c->of->sample->rows : 0,
                       .timing = timing_of(at, t),
                       .progress = sweep_ask,
                       .told = sweep_tell,
                       .data = &c->sweep};
    double began = clock_seconds();
    calibrator_begin_piece(c, calibrator_cost_of(c, at->output, t).round / (double)shape_matrices(t->ne));
    if (at->metrics) task.inputs.metrics = chains_metrics_of(at->metrics, t);
    *to = (rounded_matrix){.figures = {.width = min(settings->width, t->ne[0])}};
    bool ok = forward_is_router(c->of->streams[0], t) && !tensor_type_of(of->to)->quantized
                  ? turn_refit_router(at, &task, &to->figures, &reason, e)
                  : round_matrix(&task, &to->figures, &reason, e);
    task.timing->round += clock_seconds() - began;
    to->reason = reason;
    return ok;
}

/* Turns held-back tokens from [token][feature] into [feature][token], as products take them, and frees
 * *tokens. NULL: no memory. */
static float *turn_tokens(size_t features, float **tokens, size_t held, size_t stride, gq_error *e) {
    float *x = forward_activations(features, stride ? stride : 16, e);
    for (size_t i = 0; x && i < held; i++)
        for (size_t f = 0; f < features; f++) x[f * stride + i] = (*tokens)[i * features + f];
    free(*tokens);
    *tokens = NULL;
    return x;
}

/* Notes the mean squares of a matrix's inputs, by which it can be encoded again. */
static bool keep_squares(turn *at, const model_tensor *t, uint64_t matrix, const float *mean_square,
                         gq_error *e) {
    const calibrator *c = at->c;
    size_t number = calibrator_number_of(c, t);
    uint64_t n = mul_sat(t->ne[0], shape_matrices(t->ne));
    tensor_progress *p = calibrator_progress_at(c, at->output, number);
    if (!at->search.layer || !calibration_does(c->of->settings, CALIBRATE_VALIDATION) || n > UINT32_MAX)
        return true;
    if (!p->squares && !(p->squares = calloc(n, sizeof *p->squares)))
        return gq_fail_memory(e, n * sizeof *p->squares);
    if (mean_square) memcpy(p->squares + matrix * t->ne[0], mean_square, t->ne[0] * sizeof *mean_square);
    return true;
}

/* Rounds one matrix of each of the site's weights by the inputs gathered for it, and frees these. to: one for
 * each weight. */
static bool round_site_matrix(turn *at, const site *s, uint64_t matrix, site_inputs of, gq_comm *comm,
                              rounded_matrix *to, gq_error *e) {
    cholesky f = {.tokens = 0};
    float *mean_square = calloc(s->features, sizeof *mean_square), *base = NULL, *rounded = NULL;
    bool ok = mean_square || gq_fail_memory(e, s->features * sizeof *mean_square);
    ok = ok && factor_hessian(at, s, of.hessian, mean_square, &f, e);
    if (mean_square) of.hessian = NULL;
    ok = ok && correction_choose(at->c->of, s, matrix, &of, &f, matmul_pool(at->c->products), e);
    if (ok) round_hessian(at, s, &f);
    size_t stride = forward_stride(of.held);
    ok = ok && (base = turn_tokens(site_base_features(s), &of.base, of.held, stride, e)) &&
         (rounded = turn_tokens(s->features, &of.rounded, of.held, stride, e));
    round_inputs in = {.factored = &f,
                       .mean_square = f.tokens ? mean_square : NULL,
                       .base = base,
                       .rounded = rounded,
                       .is_state = s->adds != 0,
                       .held = of.held,
                       .stride = stride};
    for (size_t w = 0; ok && w < s->n_weights; w++)
        if (turn_wants(at, s->weights[w], matrix))
            ok = round_weight(at, matrix, s->weights[w], &in, comm, &to[w], e) &&
                 keep_squares(at, s->weights[w], matrix, in.mean_square, e);
    free(base), free(rounded), free(mean_square);
    cholesky_free(&f), site_inputs_free(&of);
    return ok;
}

/* ---- keep ---- */

bool calibrator_record(calibrator *c, size_t output, size_t number, gq_error *e) {
    tensor_progress *p = calibrator_progress_at(c, output, number);
    const uint64_t *ne = c->of->tensors[number]->ne;
    calibrate_entry entry = {
        .tensor = number, .output = (uint32_t)output, .reason = p->reason, .figures = p->figures};
    if (p->squares) entry.squares = (uint32_t)(ne[0] * shape_matrices(ne));
    bool ok = record_add(&c->record, &entry, p->squares, e);
    free(p->squares), p->squares = NULL;
    return ok;
}

/* All matrices of a tensor are rounded: its blocks stand in for it in the stream, and its figures are
 * recorded. */
static bool turn_finish_tensor(turn *at, const model_tensor *t, size_t number, gq_error *e) {
    calibrator *c = at->c;
    if (at->search.layer && c->of->sample && !forward_is_router(c->of->streams[0], t)) {
        forward_layer_expect(at->search.layer, t, false); /* some rows alone are rounded */
    } else if (at->search.layer) {
        const rounded_weight *w = turn_weight(at, t, number, e);
        uint32_t type = c->of->outputs[at->output][number].to;
        if (!w) return false;
        if (w->blocks)
            forward_layer_replace(at->search.layer, t, type, w->blocks);
        else
            forward_layer_replace_read(at->search.layer, t, type, (forward_blocks){turn_read_blocks, at});
        forward_layer_expect(at->search.layer, t, false);
    }
    return calibrator_record(c, at->output, number, e);
}

/* Adds what became of a weight's next matrix to what is known of the weight. */
static bool settle_matrix(turn *at, const model_tensor *t, const rounded_matrix *of, gq_error *e) {
    calibrator *c = at->c;
    size_t number = calibrator_number_of(c, t);
    tensor_progress *p = calibrator_progress_at(c, at->output, number);
    figures_add(&p->figures, &of->figures);
    if (p->reason == ROUND_CALIBRATED) p->reason = (round_reason)of->reason;
    p->settled++;
    if (!sweep_ask(&c->sweep, e)) return false;
    return p->settled < shape_matrices(t->ne) || turn_finish_tensor(at, t, number, e);
}

/* Gives all ranks what one of them has made of a matrix of a weight, and has the first one write it. */
static bool share_matrix(turn *at, const model_tensor *t, uint64_t matrix, int rank, rounded_matrix *of,
                         gq_error *e) {
    const calibrate_job *job = at->c->of;
    const rounding_store *store = &job->store;
    size_t number = calibrator_number_of(at->c, t);
    uint64_t bytes = job->outputs[at->output][number].out_bytes / shape_matrices(t->ne);
    uint8_t *blocks = matrix_blocks(at, t, matrix, e);
    const tensor_progress *p = calibrator_progress_at(at->c, at->output, number);
    if (!keep_squares(at, t, matrix, NULL, e)) return false;
    return blocks && comm_broadcast_from(job->text.comm, rank, of, sizeof *of, e) &&
           (!p->squares || comm_broadcast_from(job->text.comm, rank, p->squares + matrix * t->ne[0],
                                               t->ne[0] * sizeof *p->squares, e)) &&
           comm_broadcast_from(job->text.comm, rank, blocks, bytes, e) &&
           (rank == 0 || !comm_is_first(job->text.comm) ||
            store->write(store->data, at->output, number, matrix * bytes, blocks, bytes, e));
}

/* Shares and settles the i-th matrix that was gathered, if ranks have rounded some each. */
static bool settle_site_matrix(turn *at, const site *s, size_t i, rounded_matrix *to, gq_error *e) {
    for (size_t w = 0; w < s->n_weights; w++) {
        const model_tensor *t = s->weights[w];
        if (!turn_wants(at, t, s->first + i)) continue;
        if (s->dealt && !share_matrix(at, t, s->first + i, site_owner(s, at->c->of->text.comm, i), &to[w], e))
            return false;
        if (!settle_matrix(at, t, &to[w], e)) return false;
    }
    return true;
}

/* ---- a site, a part, a layer ---- */

/* Rounds what was gathered: all matrices with the other ranks, or this rank's share of them alone. */
static bool round_gathered(turn *at, site *s, gq_error *e) {
    size_t n = s->end - s->first;
    if (at->c->of->sample) s->own_end = min(s->own_end, at->c->of->sample->matrices);
    gq_comm *comm = s->dealt ? NULL : at->c->of->text.comm;
    rounded_matrix *to = calloc(n * s->n_weights, sizeof *to);
    bool ok = to || gq_fail_memory(e, n * s->n_weights * sizeof *to);
    for (size_t i = s->own; ok && i < s->own_end; i++) {
        ok = round_site_matrix(at, s, s->first + i, site_take(s, i), comm, to + i * s->n_weights, e);
        if (!s->dealt) ok = ok && settle_site_matrix(at, s, i, to + i * s->n_weights, e);
    }
    for (size_t i = 0; s->dealt && ok && i < n; i++)
        ok = settle_site_matrix(at, s, i, to + i * s->n_weights, e);
    free(to);
    return ok;
}

/* Does site after site, until no matrix of the part is left. */
static bool round_sites(turn *at, gq_error *e) {
    for (bool found = true, ok; found;) {
        site s;
        ok = gather_site(at, &s, e), found = s.n_weights > 0;
        sweep_name_phase(&at->c->sweep, "rounding");
        ok = ok && (!found || round_gathered(at, &s, e));
        site_free(&s);
        if (!ok) return false;
    }
    return true;
}

static bool calibrator_pass_layer(calibrator *c, forward_stream *s, forward_layer *l, bool replaced,
                                  forward_part part, gq_error *e) {
    double began = clock_seconds();
    calibrator_begin_piece(c, c->of->costs.pass * (part == FORWARD_WHOLE ? 1 : .5));
    forward_layer_use(l, replaced);
    bool ok = forward_stream_pass(s, l, part, NULL, e);
    if (c->of->sample) c->of->sample->passes[c->sweep.step] += clock_seconds() - began;
    return ok;
}

/* Whether a layer is a prediction block: it is looked at as a whole, and its states lead nowhere. */
static bool is_draft(const calibrator *c, const forward_layer *l) {
    return l && forward_layer_number(l) >= forward_model_sizes(c->of->streams[0])->layers;
}

static bool do_part(calibrator *c, forward_layer *l, forward_part part, gq_error *e) {
    bool leads_on = l && !is_draft(c, l);
    layer_metrics metrics = {.n = 0};
    bool ok = true;
    if (leads_on && part & FORWARD_ATTENTION && calibration_does(c->of->settings, CALIBRATE_ROWS) &&
        layer_metrics_wanted(c->of, l)) {
        double began = clock_seconds();
        calibrator_begin_piece(c, c->of->costs.metrics);
        ok = layer_metrics_gather(&metrics, c->of, c->base, l, part, e);
        if (c->of->sample) c->of->sample->metrics += clock_seconds() - began, c->of->sample->n_metrics++;
    }
    for (size_t o = 0; ok && o < c->of->n_outputs; o++) {
        turn at = {.c = c, .output = o, .metrics = &metrics};
        if (!c->rounded[o]) continue;
        at.search = (site_search){.of = c->of,
                                  .pool = forward_run_pool(c->sweep.run),
                                  .base = c->base,
                                  .rounded = c->rounded[o],
                                  .layer = l,
                                  .part = part,
                                  .settled = turn_matrices_done,
                                  .begun = turn_begin_site,
                                  .told = turn_tell_gathered,
                                  .data = &at};
        turn_expect(&at, true);
        ok = round_sites(&at, e) && (!leads_on || calibrator_pass_layer(c, c->rounded[o], l, true, part, e));
        turn_expect(&at, false);
        drop_weights(&at);
    }
    layer_metrics_free(&metrics);
    return ok && (!leads_on || calibrator_pass_layer(c, c->base, l, false, part, e));
}

bool calibrator_do_layer(calibrator *c, forward_layer *l, gq_error *e) {
    return l && !is_draft(c, l) && forward_model_splits(c->of->streams[0])
               ? do_part(c, l, FORWARD_ATTENTION, e) && do_part(c, l, FORWARD_FFN, e)
               : do_part(c, l, FORWARD_WHOLE, e);
}
