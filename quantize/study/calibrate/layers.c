/* Calibrates a model layer by layer, for all outputs at once. One sweep (quantize/study/sweep/sweep.h) carries the
 * original's states in one stream and, for each output, those of the model as rounded so far in another. For
 * each part of a layer and each output, the inputs of the next site that has matrices left are gathered
 * (site.h) and its matrices rounded (round.h). The blocks then stand in for the weights in the output's
 * stream, so the inputs of the next site contain the rounding already. When no site is left, the output's
 * stream passes the part with the rounded weights. The original's stream passes it last, as every output
 * needs its states from before the part. The output matrix is a step of its own behind the layers; the
 * embedding comes before them (embedding.h), and its record is the first step's. A model that runs its blocks
 * several times is rounded in the last of these loops, with states of all of them; prepare_loops says where
 * these come from.
 *
 * The blocks of a step are written and synced before its record goes into the checkpoint. So an interrupted
 * run continues behind the last recorded step, and the record says which tensors the files hold. */
#include "quantize/study/calibrate/layers.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/memory.h"
#include "graph/block.h"
#include "graph/layer.h"
#include "graph/router_rows.h"
#include "imatrix/factor.h"
#include "quantize/study/calibrate/chains.h"
#include "quantize/study/calibrate/embedding_trial.h"
#include "quantize/study/calibrate/router.h"
#include "quantize/study/calibrate/site.h"
#include "quantize/study/calibrate/tied.h"

/* A tensor of the job, found by its address. */
typedef struct numbered {
    const model_tensor *tensor;
    size_t number;
} numbered;

/* The progress of a tensor for an output. */
typedef struct progress_of {
    uint64_t settled; /* matrices */
    round_reason reason;
    calibrate_figures figures;
} progress_of;

typedef struct calibrator {
    const calibrate_job *of;
    checkpoint *kept;
    sweep sweep;
    sweep_progress told; /* in weights that are to be rounded, shared out by what is predicted to take long */
    double per_second;   /* of these units to a predicted second */
    forward_stream *original, **rounded; /* the sweep's; one per output, NULL: not calibrated */
    matmul *products;
    forward_kept *results; /* kept between looks; NULL: none are */
    numbered *sorted;
    progress_of *progress;   /* output by output */
    calibrate_record record; /* of the current step */
    embedding_metric embedding;
    calibrate_timing untimed; /* of what is no sample */
} calibrator;

/* A weight that is being rounded for an output; its stream goes on with it. */
typedef struct rounded_weight {
    const model_tensor *tensor;
    uint8_t *blocks; /* NULL: they are read from the output again */
} rounded_weight;

/* An output's turn at a part of a layer, or at the output matrix. */
typedef struct turn {
    calibrator *c;
    size_t output;
    forward_layer *layer; /* NULL: the output matrix */
    rounded_weight *weights;
    size_t n_weights;
    const layer_metrics *metrics; /* of the layer's rows; NULL: none are wanted */
} turn;

/* ---- tensors ---- */

static int by_address(const void *a, const void *b) {
    uintptr_t x = (uintptr_t)((const numbered *)a)->tensor, y = (uintptr_t)((const numbered *)b)->tensor;
    return (x > y) - (x < y);
}

/* The job's number of a tensor; SIZE_MAX: it is not written. */
static size_t number_of(const calibrator *c, const model_tensor *t) {
    numbered wanted = {t, 0};
    const numbered *found = bsearch(&wanted, c->sorted, c->of->n_tensors, sizeof *c->sorted, by_address);
    return found ? found->number : SIZE_MAX;
}

static progress_of *progress_at(const calibrator *c, size_t output, size_t tensor) {
    return &c->progress[output * c->of->n_tensors + tensor];
}

/* Returns how many matrices of a tensor are rounded already; UINT64_MAX: none is left, or it is not
 * calibrated. */
static uint64_t turn_matrices_done(void *data, const model_tensor *t) {
    const turn *at = data;
    const calibrator *c = at->c;
    size_t i = number_of(c, t);
    if (i == SIZE_MAX || !c->of->outputs[at->output][i].calibrated) return UINT64_MAX;
    uint64_t n = progress_at(c, at->output, i)->settled, all = shape_matrices(t->ne);
    if (c->of->sample) all = smaller(all, c->of->sample->matrices);
    return n < all ? n : UINT64_MAX;
}

/* Whether the output matrix is calibrated for some output. */
static bool head_calibrated(const calibrate_job *job) {
    const model_tensor *out = forward_model_sizes(job->streams[0])->out;
    if (embedding_is_output(job->streams[0])) return false;
    for (size_t i = 0; i < job->n_tensors; i++)
        for (size_t o = 0; job->tensors[i] == out && o < job->n_outputs; o++)
            if (job->outputs[o][i].calibrated) return true;
    return false;
}

static bool ask_round(void *data, gq_error *e) {
    calibrator *c = data;
    return sweep_ask(&c->sweep, e);
}

/* ---- progress ---- */

/* What follows is a piece of work that is predicted to take so many seconds. */
static void calibrator_begin_piece(calibrator *c, double seconds) {
    sweep_progress_piece(&c->told, seconds * c->per_second);
}

static void calibrator_tell(void *data, double share) {
    calibrator *c = data;
    sweep_tell(&c->sweep, share);
}

static calibrate_cost cost_of(const calibrator *c, size_t output, const model_tensor *t) {
    size_t i = number_of(c, t);
    const calibrate_costs *costs = &c->of->costs;
    if (!costs->tensors || i == SIZE_MAX) return (calibrate_cost){0};
    return costs->tensors[output * c->of->n_tensors + i];
}

/* The costs of a site's inputs and of their root, of so many of its matrices. */
static calibrate_cost site_cost(const calibrator *c, size_t output, const site *s, size_t matrices) {
    calibrate_cost sum = {0};
    double share = (double)matrices / (double)s->matrices;
    for (size_t w = 0; w < s->n_weights; w++) {
        calibrate_cost one = cost_of(c, output, s->weights[w]);
        sum.gather += share * one.gather, sum.factor += share * one.factor;
    }
    return sum;
}

/* Where a sample notes what a tensor takes. */
static calibrate_timing *timing_of(turn *at, const model_tensor *t) {
    calibrator *c = at->c;
    size_t i = number_of(c, t);
    return c->of->sample && i != SIZE_MAX ? &c->of->sample->tensors[at->output * c->of->n_tensors + i]
                                          : &c->untimed;
}

/* What a sample notes of a site is with the first of its weights that is to be rounded. */
static calibrate_timing *timing_of_site(turn *at, const site *s) {
    size_t w = 0;
    while (w + 1 < s->n_weights && turn_matrices_done(at, s->weights[w]) == UINT64_MAX) w++;
    return timing_of(at, s->weights[w]);
}

/* ---- a site ---- */

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
    const calibrate_store *store = &at->c->of->store;
    return store->read(store->data, at->output, number_of(at->c, t), first, to, n, e);
}

/* Tells the layer which of its weights are still to be rounded for the output; after the turn: none. */
static void turn_expect(turn *at, bool begins) {
    const calibrate_job *job = at->c->of;
    for (size_t i = 0; at->layer && i < job->n_tensors; i++)
        forward_layer_expect(at->layer, job->tensors[i],
                             begins && turn_matrices_done(at, job->tensors[i]) != UINT64_MAX);
}

static void drop_weights(turn *at) {
    for (size_t i = 0; i < at->n_weights; i++) {
        if (at->layer) forward_layer_replace(at->layer, at->weights[i].tensor, 0, NULL);
        free(at->weights[i].blocks);
    }
    free(at->weights);
    at->weights = NULL, at->n_weights = 0;
}

/* Records the figures of a tensor whose matrices are all rounded. */
static bool record_rounded(calibrator *c, size_t output, size_t number, gq_error *e) {
    const progress_of *p = progress_at(c, output, number);
    return record_add(
        &c->record,
        &(calibrate_entry){
            .tensor = number, .output = (uint32_t)output, .reason = p->reason, .figures = p->figures},
        e);
}

/* All matrices of a tensor are rounded: its blocks stand in for it in the stream, and its figures are
 * recorded. */
static bool turn_finish_tensor(turn *at, const model_tensor *t, size_t number, gq_error *e) {
    calibrator *c = at->c;
    if (at->layer && c->of->sample && !forward_is_router(c->of->streams[0], t)) {
        forward_layer_expect(at->layer, t, false); /* some rows alone are rounded */
    } else if (at->layer) {
        const rounded_weight *w = turn_weight(at, t, number, e);
        uint32_t type = c->of->outputs[at->output][number].to;
        if (!w) return false;
        if (w->blocks)
            forward_layer_replace(at->layer, t, type, w->blocks);
        else
            forward_layer_replace_read(at->layer, t, type, (forward_blocks){turn_read_blocks, at});
        forward_layer_expect(at->layer, t, false);
    }
    return record_rounded(c, at->output, number, e);
}

/* The layer's choice of experts is looked at in both streams. */
static bool turn_refit_router(turn *at, forward_part part, const round_task *task, calibrate_figures *figures,
                              round_reason *reason, gq_error *e) {
    const calibrator *c = at->c;
    router_task router = {.round = task,
                          .original = c->original,
                          .rounded = c->rounded[at->output],
                          .layer = at->layer,
                          .part = part};
    return router_refit(&router, figures, reason, e);
}

/* What became of a matrix of a weight. */
typedef struct rounded_matrix {
    calibrate_figures figures;
    uint64_t reason; /* a round_reason */
} rounded_matrix;

/* Returns the place for a matrix's blocks. NULL: they are not kept, or *e. */
static uint8_t *matrix_blocks(turn *at, const model_tensor *t, uint64_t matrix, gq_error *e) {
    size_t number = number_of(at->c, t);
    const rounded_weight *w = turn_weight(at, t, number, e);
    uint64_t bytes = at->c->of->outputs[at->output][number].out_bytes / shape_matrices(t->ne);
    return w && w->blocks ? w->blocks + matrix * bytes : NULL;
}

/* comm: the ranks that share the rows; NULL: this process rounds them alone. */
static bool round_weight(turn *at, forward_part part, uint64_t matrix, const model_tensor *t,
                         const round_inputs *inputs, gq_comm *comm, rounded_matrix *to, gq_error *e) {
    calibrator *c = at->c;
    const calibration_settings *settings = c->of->settings;
    size_t number = number_of(c, t);
    const gq_tensor *of = &c->of->outputs[at->output][number];
    uint8_t *blocks = at->layer ? matrix_blocks(at, t, matrix, e) : NULL;
    round_reason reason = ROUND_CALIBRATED;
    if (at->layer && !blocks && !turn_reads_blocks(at, t)) return false;
    round_task task = {.of = c->of,
                       .products = c->products,
                       .output = at->output,
                       .tensor = number,
                       .matrix = matrix,
                       .inputs = *inputs,
                       .kept = blocks,
                       .comm = comm,
                       .rows = c->of->sample ? c->of->sample->rows : 0,
                       .timing = timing_of(at, t),
                       .progress = ask_round,
                       .told = calibrator_tell,
                       .data = c};
    double began = clock_seconds();
    calibrator_begin_piece(c, cost_of(c, at->output, t).round / (double)shape_matrices(t->ne));
    if (at->metrics) task.inputs.metrics = chains_metrics_of(at->metrics, t);
    *to = (rounded_matrix){.figures = {.width = smaller(settings->width, t->ne[0])}};
    bool ok = forward_is_router(c->of->streams[0], t) && !gguf_type_of(of->to)->quantized
                  ? turn_refit_router(at, part, &task, &to->figures, &reason, e)
                  : round_matrix(&task, &to->figures, &reason, e);
    task.timing->round += clock_seconds() - began;
    to->reason = reason;
    return ok;
}

/* Adds what became of a weight's next matrix to what is known of the weight. */
static bool settle_matrix(turn *at, const model_tensor *t, const rounded_matrix *of, gq_error *e) {
    calibrator *c = at->c;
    size_t number = number_of(c, t);
    progress_of *p = progress_at(c, at->output, number);
    figures_add(&p->figures, &of->figures);
    if (p->reason == ROUND_CALIBRATED) p->reason = (round_reason)of->reason;
    p->settled++;
    if (!sweep_ask(&c->sweep, e)) return false;
    return p->settled < shape_matrices(t->ne) || turn_finish_tensor(at, t, number, e);
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

/* Whether a matrix of a weight is still to be rounded. */
static bool turn_wants(turn *at, const model_tensor *t, uint64_t matrix) {
    return turn_matrices_done(at, t) <= matrix;
}

/* Products of the pass are as all others. A router is fitted again by the floats. */
static void round_moments(const turn *at, const site *s, moments_factored *f) {
    if (calibration_arithmetic(at->c->of->settings) != MATMUL_BF16) return;
    for (size_t w = 0; w < s->n_weights; w++)
        if (forward_is_router(at->c->of->streams[0], s->weights[w])) return;
    moments_round(f, matmul_pool(at->c->products));
}

/* Rounds one matrix of each of the site's weights by the inputs gathered for it, and frees these. to: one for
 * each weight. */
static bool round_site_matrix(turn *at, forward_part part, const site *s, uint64_t matrix, site_inputs of,
                              gq_comm *comm, rounded_matrix *to, gq_error *e) {
    moments_factored f = {.tokens = 0};
    float *mean_square = calloc(s->features, sizeof *mean_square), *original = NULL, *rounded = NULL;
    bool ok = mean_square || gq_fail_memory(e, s->features * sizeof *mean_square);
    calibrate_timing *timing = timing_of_site(at, s);
    double began = clock_seconds();
    if (ok) {
        moments_mean_squares(of.moments, mean_square);
        moments_settings settings = calibration_moments_settings(at->c->of->settings);
        settings.told = calibrator_tell, settings.data = at->c;
        calibrator_begin_piece(at->c, site_cost(at->c, at->output, s, 1).factor);
        ok = moments_factor(of.moments, settings, &f, e);
    }
    if (ok) round_moments(at, s, &f);
    timing->factor += clock_seconds() - began, timing->factored++;
    moments_free(of.moments), of.moments = NULL;
    size_t stride = forward_stride(of.held);
    ok = ok && (original = turn_tokens(site_original_features(s), &of.original, of.held, stride, e)) &&
         (rounded = turn_tokens(s->features, &of.rounded, of.held, stride, e));
    round_inputs in = {.factored = &f,
                       .mean_square = f.tokens ? mean_square : NULL,
                       .original = original,
                       .rounded = rounded,
                       .is_state = s->adds != 0,
                       .held = of.held,
                       .stride = stride};
    for (size_t w = 0; ok && w < s->n_weights; w++)
        if (turn_wants(at, s->weights[w], matrix))
            ok = round_weight(at, part, matrix, s->weights[w], &in, comm, &to[w], e);
    free(original), free(rounded), free(mean_square);
    moments_factored_free(&f), site_inputs_free(&of);
    return ok;
}

/* Gives all ranks what one of them has made of a matrix of a weight, and has the first one write it. */
static bool share_matrix(turn *at, const model_tensor *t, uint64_t matrix, int rank, rounded_matrix *of,
                         gq_error *e) {
    const calibrate_job *job = at->c->of;
    const calibrate_store *store = &job->store;
    size_t number = number_of(at->c, t);
    uint64_t bytes = job->outputs[at->output][number].out_bytes / shape_matrices(t->ne);
    uint8_t *blocks = matrix_blocks(at, t, matrix, e);
    return blocks && comm_broadcast_from(job->text.comm, rank, of, sizeof *of, e) &&
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

/* Rounds what was gathered: all matrices with the other ranks, or this rank's share of them alone. */
static bool round_gathered(turn *at, forward_part part, site *s, gq_error *e) {
    size_t n = s->end - s->first;
    if (at->c->of->sample) s->own_end = smaller(s->own_end, at->c->of->sample->matrices);
    gq_comm *comm = s->dealt ? NULL : at->c->of->text.comm;
    rounded_matrix *to = calloc(n * s->n_weights, sizeof *to);
    bool ok = to || gq_fail_memory(e, n * s->n_weights * sizeof *to);
    for (size_t i = s->own; ok && i < s->own_end; i++) {
        ok = round_site_matrix(at, part, s, s->first + i, site_take(s, i), comm, to + i * s->n_weights, e);
        if (!s->dealt) ok = ok && settle_site_matrix(at, s, i, to + i * s->n_weights, e);
    }
    for (size_t i = 0; s->dealt && ok && i < n; i++)
        ok = settle_site_matrix(at, s, i, to + i * s->n_weights, e);
    free(to);
    return ok;
}

static void turn_begin_site(void *data, const site *s) {
    turn *at = data;
    calibrator_begin_piece(at->c, site_cost(at->c, at->output, s, s->end - s->first).gather);
}

static void turn_tell_gathered(void *data, double share) {
    const turn *at = data;
    sweep_tell(&at->c->sweep, share);
}

static void turn_note_gathered(turn *at, const site *s) {
    calibrate_timing *timing = timing_of_site(at, s);
    timing->looks += s->look * (double)s->batches, timing->moments += s->moments;
    timing->gathered += s->end - s->first;
}

/* Gathers and rounds site after site, until no matrix of the part is left. */
static bool round_sites(turn *at, forward_part part, gq_error *e) {
    calibrator *c = at->c;
    for (;;) {
        site s;
        site_search search = {.of = c->of,
                              .pool = forward_run_pool(c->sweep.run),
                              .original = c->original,
                              .rounded = c->rounded[at->output],
                              .layer = at->layer,
                              .part = part,
                              .settled = turn_matrices_done,
                              .begun = turn_begin_site,
                              .told = turn_tell_gathered,
                              .data = at};
        sweep_name_phase(&c->sweep, "inputs");
        bool ok = site_gather(&s, &search, e), found = s.n_weights > 0;
        if (found) turn_note_gathered(at, &s);
        sweep_name_phase(&c->sweep, "rounding");
        ok = ok && (!found || round_gathered(at, part, &s, e));
        site_free(&s);
        if (!ok || !found) return ok;
    }
}

/* ---- a layer ---- */

static bool calibrator_pass_layer(calibrator *c, forward_stream *s, forward_layer *l, bool replaced,
                                  forward_part part, gq_error *e) {
    double began = clock_seconds();
    calibrator_begin_piece(c, c->of->costs.pass * (part == FORWARD_WHOLE ? 1 : .5));
    forward_layer_use(l, replaced);
    bool ok = forward_stream_pass(s, l, part, NULL, e);
    if (c->of->sample) c->of->sample->passes[c->sweep.step] += clock_seconds() - began;
    return ok;
}

static bool do_part(calibrator *c, forward_layer *l, forward_part part, gq_error *e) {
    layer_metrics metrics = {.n = 0};
    bool ok = true;
    if (l && part & FORWARD_ATTENTION && calibration_does(c->of->settings, STEP_ROWS) &&
        layer_metrics_wanted(c->of, l)) {
        double began = clock_seconds();
        calibrator_begin_piece(c, c->of->costs.metrics);
        ok = layer_metrics_gather(&metrics, c->of, c->original, l, part, e);
        if (c->of->sample) c->of->sample->metrics += clock_seconds() - began, c->of->sample->n_metrics++;
    }
    for (size_t o = 0; ok && o < c->of->n_outputs; o++) {
        turn at = {.c = c, .output = o, .layer = l, .metrics = &metrics};
        if (!c->rounded[o]) continue;
        turn_expect(&at, true);
        ok = round_sites(&at, part, e) && (!l || calibrator_pass_layer(c, c->rounded[o], l, true, part, e));
        turn_expect(&at, false);
        drop_weights(&at);
    }
    layer_metrics_free(&metrics);
    return ok && (!l || calibrator_pass_layer(c, c->original, l, false, part, e));
}

/* The number of the loop, of those that the model runs its blocks in, that the layer at work belongs to. */
static size_t calibrator_loop(const calibrator *c) {
    return c->sweep.layer / forward_model_sizes(c->of->streams[0])->blocks;
}

/* Nothing is rounded before the last loop, in which the states of all loops pass the blocks side by side. The
 * original's states before that are what its blocks give in the loops before: those of loop k, counted from
 * 0, pass the blocks k times. The rounded models begin each of these loops with the original's states, since
 * their own would need blocks that are not rounded yet. */
static bool prepare_loops(calibrator *c, const forward_layer *l, gq_error *e) {
    size_t next = calibrator_loop(c) + 1;
    if (!forward_stream_pass_loops(c->original, next, l, e)) return false;
    for (size_t o = 0; o < c->of->n_outputs; o++)
        if (c->rounded[o] && !forward_stream_follow(c->rounded[o], c->original, next, e)) return false;
    return true;
}

static bool do_step(void *data, forward_layer *l, gq_error *e) {
    calibrator *c = data;
    const calibrate_costs *costs = &c->of->costs;
    sweep_progress_span(&c->told, c->per_second * calibrate_costs_begin(costs, c->sweep.step),
                        c->per_second * calibrate_costs_begin(costs, c->sweep.step + 1));
    if (l && calibrator_loop(c) + 1 < forward_job_loops(&c->of->text.job)) return prepare_loops(c, l, e);
    return l && forward_model_splits(c->of->streams[0])
               ? do_part(c, l, FORWARD_ATTENTION, e) && do_part(c, l, FORWARD_FFN, e)
               : do_part(c, l, FORWARD_WHOLE, e);
}

/* Finishes a step. Rounded blocks are safe on disk before the record says so; of ranks only the first has
 * written any. */
static bool finish_step(void *data, sweep_record *to, gq_error *e) {
    calibrator *c = data;
    calibrate_record *r = &c->record;
    const calibrate_store *store = &c->of->store;
    bool ok = !comm_is_first(c->of->text.comm) || (record_sum_up(r, c->of, e) && store->sync(store->data, e));
    if (!ok) return false;
    *to = (sweep_record){r->entries, r->n * sizeof *r->entries};
    *r = (calibrate_record){.n = 0};
    return true;
}

/* ---- the embedding ---- */

/* Rounds an output's embedding, where that is calibrated, before anything else. One that does harm is written
 * anew by search alone; all ranks can do without its blocks then. */
static bool calibrator_round_embedding(calibrator *c, size_t output, size_t number, uint8_t *kept,
                                       bool *harms, gq_error *e) {
    progress_of *p = progress_at(c, output, number);
    const model_tensor *t = c->of->tensors[number];
    round_task task = {.of = c->of,
                       .products = c->products,
                       .output = output,
                       .tensor = number,
                       .kept = kept,
                       .comm = c->of->text.comm,
                       .progress = ask_round,
                       .told = calibrator_tell,
                       .data = c};
    calibrate_cost cost = cost_of(c, output, t);
    calibrator_begin_piece(c, cost.factor + cost.round);
    bool ok =
        embedding_round(&task, &c->embedding, false, &p->figures, &p->reason, e) && sweep_ask(&c->sweep, e);
    if (ok && embedding_is_tried(c->of->streams[0], c->of->numbers, c->of->n_layers, c->of->text.job.context))
        ok = embedding_try(c->of, output, number, kept, harms, e);
    if (ok && *harms && comm_is_first(c->of->text.comm)) {
        task.comm = NULL, p->figures = (calibrate_figures){0};
        ok = embedding_round(&task, &c->embedding, true, &p->figures, &p->reason, e);
    }
    if (!ok) return false;
    p->settled = 1;
    return record_rounded(c, output, number, e);
}

/* Starts an output's stream with its embedding as it is written. Only the first rank has the file, so with
 * others the blocks are kept meanwhile. */
static bool calibrator_embed(calibrator *c, size_t output, gq_error *e) {
    size_t number = number_of(c, forward_model_sizes(c->of->streams[0])->embedding);
    if (number == SIZE_MAX) return forward_stream_embed(c->rounded[output], NULL, e);
    const gq_tensor *of = &c->of->outputs[output][number];
    uint8_t *kept = NULL;
    bool keeps = of->calibrated && gq_comm_ranks(c->of->text.comm) > 1, harms = false;
    bool ok = !keeps || (kept = memory_lines(of->out_bytes, 1, e));
    ok = ok && (!of->calibrated || calibrator_round_embedding(c, output, number, kept, &harms, e)) &&
         embedding_start(c->of, output, number, kept, harms, c->rounded[output], e);
    free(kept);
    return ok;
}

/* ---- the job ---- */

static bool embed_all(void *data, gq_error *e) {
    calibrator *c = data;
    const calibrate_costs *costs = &c->of->costs;
    sweep_progress_span(&c->told, c->per_second * costs->ahead,
                        c->per_second * (costs->ahead + costs->embedding));
    bool ok = forward_stream_embed(c->original, NULL, e);
    if (ok && embedding_is_rounded(c->of) && !embedding_is_output(c->of->streams[0]))
        ok = embedding_metric_new(&c->embedding, c->of, sweep_pool(&c->sweep), NULL, e);
    for (size_t o = 0; ok && o < c->of->n_outputs; o++) ok = !c->rounded[o] || calibrator_embed(c, o, e);
    embedding_metric_free(&c->embedding);
    return ok;
}

size_t calibrator_steps(const calibrate_job *job) { return job->n_layers + head_calibrated(job); }

/* Returns the number of weights to be rounded for all outputs, in which progress is told. */
static double calibrator_weights(const calibrate_job *job) {
    double n = 0;
    for (size_t o = 0; o < job->n_outputs; o++)
        for (size_t i = 0; i < job->n_tensors; i++)
            if (job->outputs[o][i].calibrated) n += (double)job->outputs[o][i].n_weights;
    return n;
}

/* Fails where a calibrated tensor was never rounded: its place in the file would hold zeros. */
static bool all_settled(const calibrator *c, gq_error *e) {
    const calibrate_job *job = c->of;
    for (size_t o = 0; o < job->n_outputs; o++)
        for (size_t i = 0; i < job->n_tensors; i++)
            if (job->outputs[o][i].calibrated && !progress_at(c, o, i)->settled)
                return gq_fail(e, "%s: tensor %s: it was given no inputs when the model ran", job->file->path,
                               job->outputs[o][i].name);
    return true;
}

/* Marks the tensors of finished steps as rounded. */
static bool take_records(calibrator *c, gq_error *e) {
    uint64_t at = 0, n;
    for (size_t i = 0; i < c->kept->finished; i++) {
        uint8_t *bytes = checkpoint_next(c->kept, &at, &n, e);
        if (!bytes) return false;
        for (uint64_t k = 0; k < record_entries(n); k++) {
            calibrate_entry entry = record_entry(bytes, k);
            progress_at(c, entry.output, entry.tensor)->settled =
                shape_matrices(c->of->tensors[entry.tensor]->ne);
        }
        free(bytes);
    }
    return true;
}

/* Tells all ranks what is rounded already. Only the first has the records. */
static bool calibrator_resume(calibrator *c, gq_error *e) {
    const calibrate_job *job = c->of;
    size_t bytes = job->n_outputs * job->n_tensors * sizeof *c->progress;
    if (comm_is_first(job->text.comm) && !take_records(c, e)) return false;
    return gq_comm_ranks(job->text.comm) == 1 || comm_broadcast(job->text.comm, c->progress, bytes, e);
}

/* Has all streams keep what their looks compute. */
static bool calibrator_keep_results(calibrator *c, gq_error *e) {
    const calibrate_job *job = c->of;
    if (!(c->results = forward_kept_new(&job->keeps, e))) return false;
    forward_stream_keep(c->original, c->results, 0);
    for (size_t o = 0; o < job->n_outputs; o++)
        if (c->rounded[o]) forward_stream_keep(c->rounded[o], c->results, 1);
    return true;
}

static bool calibrator_end_progress(calibrator *c, gq_error *e) {
    sweep_progress_span(&c->told, c->told.work, c->told.work);
    return sweep_ask(&c->sweep, e);
}

/* Does the steps that are not finished. The first stream of the sweep is the original's. */
static bool run_sweep(calibrator *c, const sweep_plan *plan, gq_error *e) {
    if (!c->kept->finished && embedding_is_rounded(c->of) && embedding_is_output(c->of->streams[0]) &&
        !tied_gather(c->of, &c->told, c->per_second, &c->embedding, e))
        return false;
    if (!sweep_open(&c->sweep, plan, e)) return false;
    if (!c->kept->finished) sweep_progress_span(&c->told, c->per_second * c->of->costs.ahead, c->told.work);
    c->original = c->sweep.streams[0], c->rounded = c->sweep.streams + 1;
    c->products = matmul_new(c->of->kernels, forward_run_pool(c->sweep.run), e);
    if (!c->products) return false;
    matmul_set_arithmetic(c->products, calibration_arithmetic(c->of->settings));
    if (!calibrator_keep_results(c, e)) return false;
    sweep_calls calls = {.before = embed_all, .on = do_step, .after = finish_step, .data = c};
    if (c->of->sample) calls.before = NULL, calls.after = NULL;
    return sweep_run(&c->sweep, &calls, e) && calibrator_end_progress(c, e) && all_settled(c, e);
}

/* Begins what is told of the job behind the steps that are finished. Returns the units of it that one of
 * forward_job_work's is where layers pass, of which all passes of a stream report a job's. */
static double calibrator_start_progress(calibrator *c, const gq_callbacks *callbacks) {
    const calibrate_job *job = c->of;
    const calibrate_costs *costs = &job->costs;
    double seconds = calibrate_costs_begin(costs, costs->n_steps), weights = calibrator_weights(job),
           done = c->kept->finished ? calibrate_costs_begin(costs, c->kept->finished) : 0,
           pass = forward_job_work(&job->text.job, job->streams[0], false) *
                  (double)forward_job_loops(&job->text.job) /
                  (double)forward_model_sizes(job->streams[0])->layers;
    c->per_second = seconds > 0 ? weights / seconds : 0;
    c->told = sweep_progress_start(callbacks, weights, c->per_second * done,
                                   job->text.job.windows * job->text.job.context);
    c->told.progress.seconds_expected = job->seconds_expected;
    return pass > 0 ? c->per_second * costs->pass / pass : 0;
}

static bool run_job(calibrator *c, const gq_callbacks *callbacks, threads_count *threads, gq_error *e) {
    const calibrate_job *job = c->of;
    bool *absent = calloc(job->n_outputs + 1, sizeof *absent);
    if (!absent) return gq_fail_memory(e, job->n_outputs + 1);
    for (size_t o = 0; o < job->n_outputs; o++) absent[1 + o] = !calibrate_job_uses(job, o);
    sweep_plan p = {.text = job->text,
                    .models = job->streams,
                    .absent = absent,
                    .n_streams = job->n_outputs + 1,
                    .numbers = job->numbers,
                    .n_layers = job->n_layers,
                    .output = head_calibrated(job),
                    .kept = job->sample ? NULL : c->kept,
                    .progress = &c->told,
                    .layer_work = calibrator_start_progress(c, callbacks)};
    bool ok = calibrator_resume(c, e) && run_sweep(c, &p, e);
    *threads = sweep_threads(&c->sweep);
    matmul_free(c->products);
    sweep_close(&c->sweep);
    forward_kept_free(c->results);
    free(absent);
    return ok;
}

bool calibrator_run(const calibrate_job *job, checkpoint *kept, const gq_callbacks *callbacks,
                    threads_count *threads, gq_error *e) {
    calibrator c = {.of = job, .kept = kept};
    size_t n = job->n_tensors;
    *threads = (threads_count){.error = 0};
    if (kept->finished == calibrator_steps(job)) return true;
    c.sorted = calloc(n + 1, sizeof *c.sorted);
    c.progress = calloc(job->n_outputs * n + 1, sizeof *c.progress);
    bool ok = (c.sorted && c.progress) || gq_fail_memory(e, job->n_outputs * n * sizeof *c.progress);
    for (size_t i = 0; ok && i < n; i++) c.sorted[i] = (numbered){job->tensors[i], i};
    if (ok) qsort(c.sorted, n, sizeof *c.sorted, by_address);
    ok = ok && run_job(&c, callbacks, threads, e);
    embedding_metric_free(&c.embedding);
    free(c.sorted), free(c.progress), free(c.record.entries);
    return ok;
}
