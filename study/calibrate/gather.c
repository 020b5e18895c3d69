/* Gathers the inputs of one site. For each batch of windows the base model's stream is run first, and what
 * enters the site is captured; then the rounded stream is run over the same batch, and each of its tokens
 * is paired with the base model's. Pairs of held-out windows are stored for checking; all others are added to
 * the Hessian. The first batch decides which site it is: the first one whose weights have matrices left.
 *
 * Experts see only some of the tokens. So tokens are captured with their numbers, once for each expert they
 * reach, and are paired by number. Where memory does not hold the Hessians of all experts, this call gathers
 * some, and later calls the others. A run ends as soon as nothing behind the site is needed. What is
 * allocated is counted by the same lay_out_ functions.
 *
 * Where the residual stream is fitted the base model's residual stream after the sublayer is kept instead of its
 * inputs, the rounded stream's inputs are captured, and pairs are made of these and of what its residual stream lacks
 * in the end.
 *
 * A model that runs its blocks several times has hidden states of all windows before each of these loops, so a
 * matrix sees the inputs of all its uses, one loop after another. */
#include "study/calibrate/calibrate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "forward/stream/head.h"

enum { NOWHERE = UINT32_MAX };

/* The inputs of one matrix in this batch, in the base model, or in the rounded one where the residual stream is
 * fitted: [feature][token]. */
typedef struct captured {
    float *x; /* part of gathering.x */
    uint32_t *token;
    float *gate; /* if the residual stream is fitted */
    size_t tokens;
} captured;

/* A batch where the residual stream is fitted. */
typedef struct residual_change {
    float *after; /* [width][tokens]: the base model's residual stream after the sublayer */
    float *gate;  /* as gathering.token */
    float *gates; /* per token, of all matrices that it meets */
    float *share; /* [width][tokens]: what one matrix is to answer for */
    size_t tokens;
} residual_change;

typedef struct gathering {
    calibrator *c;
    site *s;
    site_sizes sizes;
    captured *captured; /* of the matrices that are gathered */
    /* The inputs and token numbers of all captured matrices, one after another; n_captured tokens so far. */
    float *x;
    uint32_t *token;
    size_t n_captured;
    float
        *paired; /* for one expert's tokens in the rounded model: the base model's inputs, and their index in
                      `captured` */
    uint32_t *place;
    residual_change change;
    tape *tapes; /* if ranks share the text: what this rank's batches give, loop by loop */
    size_t n_tapes;
    size_t loop, window;       /* of the batch: its loop, and the number of its first window there */
    size_t batch;              /* its number */
    const forward_mark *marks; /* of the batch's tokens; NULL: all count alike */
    double pairs, added; /* of the batch: tokens that are paired, about, and those of them that are added */
    bool base;           /* the base model's stream is running, not the rounded one */
} gathering;

/* ---- memory ---- */

static float *take_features(uint64_t features, uint64_t tokens, memory_ledger *l) {
    return memory_take(l, mul_sat(tokens, features), sizeof(float));
}

static size_t base_features(const site_sizes *z) {
    return z->shape.residual_features ? z->shape.residual_features : z->shape.columns;
}

static void lay_out_inputs(site_inputs *to, const site_sizes *z, memory_ledger *l) {
    to->base = take_features(base_features(z), z->held, l);
    to->rounded = take_features(z->shape.columns, z->held, l);
}

/* Takes what is needed only while a site is gathered. A token is captured once for each matrix it meets. */
static void lay_out_gathering(gathering *g, const site_sizes *z, memory_ledger *l) {
    uint64_t tokens = mul_sat(z->tokens, z->met);
    if (l->counts && z->taped)
        memory_hold(
            l, tape_bytes(base_features(z), z->shape.columns, mul_sat(add_sat(z->taped, z->tokens), z->met)));
    g->captured = memory_take_zeros(l, z->matrices, sizeof *g->captured);
    g->x = take_features(z->shape.columns, tokens, l);
    if (z->shape.residual_features) {
        g->change.after = take_features(z->shape.residual_features, z->tokens, l);
        g->change.share = take_features(z->shape.residual_features, z->tokens, l);
        g->change.gate = memory_take(l, tokens, sizeof *g->change.gate);
        g->change.gates = memory_take_zeros(l, z->tokens, sizeof *g->change.gates);
    }
    g->token = memory_take(l, tokens, sizeof *g->token); /* of experts, and where not all tokens count */
    if (!z->routed || z->shape.residual_features) return;
    g->paired = take_features(z->shape.columns, mul_sat(z->tokens, z->repeats), l);
    g->place = memory_take(l, mul_sat(z->tokens, z->repeats), sizeof *g->place);
}

static void free_gathering(gathering *g) {
    residual_change *k = &g->change;
    free(g->captured), free(g->x), free(g->token), free(g->paired), free(g->place);
    free(k->after), free(k->gate), free(k->gates), free(k->share);
    for (size_t i = 0; g->tapes && i < g->n_tapes; i++) tape_free(&g->tapes[i]);
    free(g->tapes);
}

uint64_t site_held_bytes(const site_sizes *z, bool base) {
    memory_ledger l = {.counts = true};
    take_features(base ? base_features(z) : z->shape.columns, z->held, &l);
    return l.bytes;
}

uint64_t site_bytes(const site_sizes *z) {
    memory_ledger l = {.counts = true};
    lay_out_inputs(&(site_inputs){.held = 0}, z, &l);
    memory_hold(&l, hessian_bytes(z->shape));
    return mul_sat(l.bytes, z->matrices);
}

uint64_t site_gathering_bytes(const site_sizes *z) {
    memory_ledger l = {.counts = true};
    lay_out_gathering(&(gathering){.s = NULL}, z, &l);
    return l.bytes;
}

/* ---- which site ---- */

/* Returns how many matrices are settled in every weight of the site. */
static uint64_t site_matrices_done(const gathering *g, const forward_inputs *in) {
    uint64_t least = in->matrices;
    for (size_t i = 0; i < in->n_weights; i++) {
        uint64_t n = calibrator_matrices_done(g->c, in->weights[i]);
        if (n < least) least = n;
    }
    return least;
}

static bool begin_site(gathering *g, const forward_inputs *in, uint64_t first, gq_error *e) {
    const calibration *of = g->c->of;
    site *s = g->s;
    size_t ranks = (size_t)gq_comm_ranks(of->text.comm);
    size_t n = site_matrices_at_once(in->matrices - first, of->memory.matrices_at_once, in->routed, ranks);
    bool dealt = ranks > 1 && n >= ranks;
    uint64_t rotation = site_rotation(in->weights[0], first);
    *s = (site){
        .n_weights = in->n_weights,
        .features = in->features,
        .matrices = in->matrices,
        .first = first,
        .end = first + n,
        .own = dealt ? comm_share_rotated(of->text.comm, n, rotation, gq_comm_rank(of->text.comm)) : 0,
        .own_end =
            dealt ? comm_share_rotated(of->text.comm, n, rotation, gq_comm_rank(of->text.comm) + 1) : n,
        .dealt = dealt,
        .routed = in->routed,
        .late = in->late,
        .adds = site_adds(&of->settings, of->streams[0], in->weights[0])};
    memcpy(s->weights, in->weights, sizeof s->weights);
    memory_ledger l = {.failed = false};
    bool some = of->experts_used > 0 && of->experts_used < in->matrices;
    size_t met = some ? of->experts_used : in->matrices;
    g->sizes = site_sizes_of(
        &of->settings, of->streams[0],
        &(site_weight){
            .tensor = in->weights[0], .routed = in->routed, .late = in->late, .met = met, .matrices = n},
        of->text.bounds.batch);
    lay_out_gathering(g, &g->sizes, &l);
    g->n_tapes = forward_job_loops(&of->text.job),
    g->tapes = memory_take_zeros(&l, g->n_tapes, sizeof *g->tapes);
    s->inputs = memory_take_zeros(&l, n, sizeof *s->inputs);
    for (size_t i = s->own; s->inputs && i < s->own_end; i++) lay_out_inputs(&s->inputs[i], &g->sizes, &l);
    if (!memory_had(&l, e)) return false;
    for (size_t i = 0; i < g->n_tapes; i++)
        g->tapes[i] = (tape){.x_features = base_features(&g->sizes), .features = in->features};
    for (size_t i = s->own; s->inputs && i < s->own_end; i++) {
        if (!(s->inputs[i].hessian = hessian_new(of->kernels, g->sizes.shape, sweep_pool(&g->c->sweep), e)))
            return false;
        if (!dealt) hessian_share(s->inputs[i].hessian, of->text.comm);
    }
    if (g->c->sorted) calibrator_begin_piece(g->c, calibrator_site_cost(g->c, s, n).gather);
    return true;
}

/* ---- capturing ---- */

static bool capture_inputs(gathering *g, captured *t, const forward_inputs *in, gq_error *e) {
    const site *s = g->s;
    size_t most = g->sizes.tokens * g->sizes.met;
    if (in->tokens > most - g->n_captured)
        return gq_fail(e, "%s: tensor %s: a token is routed to more than %zu of its matrices",
                       g->c->of->file->path, in->weights[0]->name, g->sizes.met);
    *t = (captured){g->x + g->n_captured * s->features, in->token ? g->token + g->n_captured : NULL,
                    s->adds != 0 ? g->change.gate + g->n_captured : NULL, in->tokens};
    g->n_captured += in->tokens;
    for (size_t f = 0; f < s->features; f++)
        memcpy(t->x + f * in->tokens, in->x + f * in->stride, in->tokens * sizeof *t->x);
    if (in->token) memcpy(t->token, in->token, in->tokens * sizeof *t->token);
    for (size_t i = 0; t->gate && i < in->tokens; i++) t->gate[i] = in->gate ? in->gate[i] : 1;
    return true;
}

/* ---- pairs ---- */

/* Finds the position of each token of `in` among those that the base model sent to the same expert. */
static void find_places(const captured *t, const forward_inputs *in, uint32_t *place) {
    for (size_t i = 0, k = 0; i < in->tokens; i++) {
        while (k < t->tokens && t->token[k] < in->token[i]) k++;
        place[i] = k < t->tokens && t->token[k] == in->token[i] ? (uint32_t)k : NOWHERE;
    }
}

static const float *pair_experts(const gathering *g, const captured *t, const forward_inputs *in) {
    size_t n = in->tokens;
    find_places(t, in, g->place);
    for (size_t f = 0; f < g->s->features; f++)
        for (size_t i = 0; i < n; i++)
            g->paired[f * n + i] =
                g->place[i] == NOWHERE ? in->x[f * in->stride + i] : t->x[f * t->tokens + g->place[i]];
    return g->paired;
}

static bool is_held(const gathering *g, const site_pairs *p, size_t i) {
    const calibration *of = g->c->of;
    return calibration_is_held(&of->settings,
                               g->window + (p->token ? p->token[i] : i) / of->settings.context);
}

static void hold_tokens(float *to, size_t features, const float *x, size_t stride, size_t tokens) {
    for (size_t i = 0; i < tokens; i++)
        for (size_t f = 0; f < features; f++) to[i * features + f] = x[f * stride + i];
}

static void site_hold_out(const site *s, size_t most, site_inputs *to, const site_pairs *p, size_t begin,
                          size_t tokens) {
    size_t features = site_base_features(s);
    if (to->held + tokens > most) tokens = most - to->held;
    hold_tokens(to->base + to->held * features, features, p->x + begin, p->x_stride, tokens);
    hold_tokens(to->rounded + to->held * s->features, s->features, p->y + begin, p->y_stride, tokens);
    to->held += tokens;
}

/* Returns the token group of the i-th token of the pairs. */
static uint64_t group_of(const gathering *g, const site_pairs *p, size_t i) {
    size_t context = g->c->of->settings.context;
    size_t windows = g->loop * g->c->of->text.all_windows + g->window;
    return (windows * context + (p->token ? p->token[i] : i)) / token_group_size(context);
}

static void add_hessian(site *s, site_inputs *to, uint64_t group, const site_pairs *p, size_t begin,
                        size_t tokens) {
    double began = clock_seconds();
    if (group != to->group) hessian_end_group(to->hessian);
    to->group = group;
    hessian_add(to->hessian, p->x + begin, p->x_stride, p->y + begin, p->y_stride, tokens);
    s->hessian += clock_seconds() - began;
}

/* looked: the streams that have been run over the batch. Probes count as much as Hessians. */
static void report_gathered(const gathering *g, double looked) {
    double batches = (double)forward_stream_batches(g->c->base), before = (double)g->batch,
           added = g->pairs > 0 ? g->added / g->pairs : 0;
    if (g->s->n_weights && g->c->sorted)
        sweep_report(&g->c->sweep, (before + looked / 4 + fmin(added, 1) / 2) / batches);
}

/* Adds the pairs of a matrix, a span of tokens at a time: of one group, and all held out or none. */
static void settle_pairs(gathering *g, size_t matrix, const site_pairs *p) {
    site_inputs *to = &g->s->inputs[matrix];
    for (size_t begin = 0, end; begin < p->tokens; begin = end) {
        bool held = is_held(g, p, begin);
        uint64_t group = group_of(g, p, begin);
        for (end = begin + 1; end < p->tokens && is_held(g, p, end) == held && group_of(g, p, end) == group;)
            end++;
        if (held)
            site_hold_out(g->s, g->sizes.held, to, p, begin, end - begin);
        else
            add_hessian(g->s, to, group, p, begin, end - begin);
        g->added += (double)(end - begin);
        report_gathered(g, 2);
    }
}

/* Adds the pairs of this rank's batch, or keeps them until all ranks have theirs. */
static bool add_pairs(gathering *g, size_t matrix, const site_pairs *p, gq_error *e) {
    const calibration *of = g->c->of;
    if (of->text.idle || !p->tokens) return true;
    if (gq_comm_ranks(of->text.comm) > 1) return tape_record(&g->tapes[g->loop], matrix, g->window, p, e);
    return settle_pairs(g, matrix, p), true;
}

static bool play_pairs(void *data, const tape_entry *entry, const site_pairs *p, gq_error *e) {
    gathering *g = data;
    if (entry->matrix >= g->s->end - g->s->first)
        return gq_fail(e, "%s: tensor %s: ranks gather different matrices", g->c->of->file->path,
                       g->s->weights[0]->name);
    g->window = entry->window;
    if (entry->matrix >= g->s->own && entry->matrix < g->s->own_end) settle_pairs(g, entry->matrix, p);
    return true;
}

/* Gives all ranks the Hessian and held-out tokens of the whole text. For the output matrix this is done in the
 * last loop. */
static bool join_ranks(gathering *g, gq_error *e) {
    const calibration *of = g->c->of;
    gq_comm *comm = of->text.comm;
    const site *s = g->s;
    if (gq_comm_ranks(comm) == 1) return true;
    size_t loops = max(1, g->n_tapes); /* the analyzer cannot see that there are any */
    for (g->loop = g->c->at.layer ? 0 : loops - 1; g->loop < loops; g->loop++)
        if (!tape_play(&g->tapes[g->loop], comm, play_pairs, g, e)) return false;
    for (size_t i = s->own; !s->dealt && i < s->own_end; i++)
        if (!hessian_gather(s->inputs[i].hessian, comm, e)) return false;
    return true;
}

static bool pair_inputs(gathering *g, size_t matrix, const forward_inputs *in, gq_error *e) {
    const captured *t = &g->captured[matrix];
    return add_pairs(g, matrix,
                     &(site_pairs){.x = g->s->routed ? pair_experts(g, t, in) : t->x,
                                   .y = in->x,
                                   .x_stride = in->tokens,
                                   .y_stride = in->stride,
                                   .tokens = in->tokens,
                                   .token = in->token},
                     e);
}

/* ---- the change wanted of the residual stream ---- */

static bool keep_after(gathering *g, const float *after, gq_error *e) {
    (void)e;
    const residual_change *k = &g->change;
    size_t stride = forward_stride(k->tokens);
    for (size_t f = 0; f < g->sizes.shape.residual_features; f++)
        memcpy(k->after + f * k->tokens, after + f * stride, k->tokens * sizeof *after);
    return true;
}

/* Adds the gates of a matrix's tokens to those of the other matrices that they meet. */
static void add_gates(const gathering *g, const forward_inputs *in) {
    for (size_t i = 0; i < in->tokens; i++)
        g->change.gates[in->token ? in->token[i] : i] += in->gate ? in->gate[i] : 1;
}

typedef struct change_rows {
    const gathering *g;
    const captured *of;
} change_rows;

static uint32_t token_at(const captured *c, size_t i) { return c->token ? c->token[i] : (uint32_t)i; }

static void share_change_row(void *data, size_t f, int thread) {
    const change_rows *r = data;
    const captured *c = r->of;
    const residual_change *k = &r->g->change;
    (void)thread;
    for (size_t i = 0; i < c->tokens; i++) {
        uint32_t t = token_at(c, i);
        float share = k->gates[t] != 0 ? c->gate[i] / k->gates[t] : 0;
        if (r->g->marks) share *= forward_weight_root(r->g->marks[t].weight);
        k->share[f * c->tokens + i] = share * k->after[f * k->tokens + t];
    }
}

static void weigh_input_row(void *data, size_t f, int thread) {
    const captured *c = ((const change_rows *)data)->of;
    (void)thread;
    for (size_t i = 0; i < c->tokens; i++) c->x[f * c->tokens + i] *= c->gate[i];
}

/* `after` becomes what the rounded stream's state lacks, in units of the weight's output, and is shared out
 * to the matrices. */
static bool pair_residual_change(gathering *g, const float *after, gq_error *e) {
    const site *s = g->s;
    const residual_change *k = &g->change;
    size_t stride = forward_stride(k->tokens);
    for (size_t f = 0; f < g->sizes.shape.residual_features; f++)
        for (size_t t = 0; t < k->tokens; t++)
            k->after[f * k->tokens + t] = (k->after[f * k->tokens + t] - after[f * stride + t]) / s->adds;
    for (size_t i = 0; i < s->end - s->first; i++) {
        captured *c = &g->captured[i];
        change_rows rows = {g, c};
        if (!c->tokens) continue;
        threads_for(sweep_pool(&g->c->sweep), g->sizes.shape.residual_features, THREADS_EVEN,
                    share_change_row, &rows);
        threads_for(sweep_pool(&g->c->sweep), s->features, THREADS_EVEN, weigh_input_row, &rows);
        site_pairs p = {.x = k->share,
                        .y = c->x,
                        .x_stride = c->tokens,
                        .y_stride = c->tokens,
                        .tokens = c->tokens,
                        .token = c->token};
        if (!add_pairs(g, i, &p, e)) return false;
    }
    return true;
}

/* ---- inputs as the model runs ---- */

/* All is run to the end: the state is needed. */
static forward_answer on_inputs_before_residual(gathering *g, const forward_inputs *in, gq_error *e) {
    const site *s = g->s;
    if (g->base || in->weights[0] != s->weights[0]) return FORWARD_ON;
    add_gates(g, in);
    if (in->matrix < s->first || in->matrix >= s->end) return FORWARD_ON;
    return capture_inputs(g, &g->captured[in->matrix - s->first], in, e) ? FORWARD_ON : FORWARD_FAILED;
}

static forward_answer site_on_inputs(void *data, const forward_inputs *in, gq_error *e) {
    gathering *g = data;
    site *s = g->s;
    uint64_t first = site_matrices_done(g, in);
    bool wanted = first < in->matrices;
    if (!s->n_weights && !wanted) return FORWARD_ON;
    if (!s->n_weights && !begin_site(g, in, first, e)) return FORWARD_FAILED;
    if (s->adds != 0) return on_inputs_before_residual(g, in, e);
    bool within = in->matrix >= s->first && in->matrix < s->end;
    if (in->weights[0] != s->weights[0]) {
        if (s->routed && in->routed && s->late == in->late) return within ? FORWARD_ON : FORWARD_SKIP;
        /* Sites of heads alternate with other sites of the same heads, so the run continues. */
        return wanted && (s->routed || s->matrices == 1) ? FORWARD_END : FORWARD_ON;
    }
    if (in->matrix >= s->end) return FORWARD_END;
    if (!within) return FORWARD_SKIP;
    size_t matrix = in->matrix - s->first;
    if (!(g->base ? capture_inputs(g, &g->captured[matrix], in, e) : pair_inputs(g, matrix, in, e)))
        return FORWARD_FAILED;
    return !s->routed && in->matrix + 1 == s->end ? FORWARD_END : FORWARD_SKIP;
}

/* ---- a run ---- */

static bool site_run_batch(gathering *g, size_t batch, bool base, gq_error *e) {
    calibrator *c = g->c;
    forward_stream *stream = base ? c->base : c->rounded[c->at.output];
    forward_observer taken = {.on_inputs = site_on_inputs, .data = g};
    const float *after;
    g->base = base;
    if (!base) {
        const site *s = g->s;
        double met = s->routed ? (double)g->sizes.met / (double)s->matrices : 1;
        g->pairs = met * (double)(g->change.tokens * (s->end - s->first));
        report_gathered(g, 1);
    }
    if (!c->at.layer) return forward_stream_probe_final(stream, batch, &taken, e);
    forward_layer_use(c->at.layer, !base);
    if (!forward_stream_probe(stream, batch, c->at.layer, c->at.sublayers, &taken, &after, e)) return false;
    return !g->s->n_weights || g->s->adds == 0 || (base ? keep_after : pair_residual_change)(g, after, e);
}

/* Forgets the batch before. */
static void begin_batch(gathering *g, size_t batch) {
    const calibration *of = g->c->of;
    const site *s = g->s;
    g->loop = forward_stream_loop(g->c->base, batch);
    size_t first = forward_stream_first(g->c->base, batch);
    size_t left = of->text.job.windows - first,
           windows = left < of->text.bounds.batch ? left : of->text.bounds.batch;
    g->window = of->text.first_window + first, g->n_captured = 0;
    g->batch = batch, g->added = g->pairs = 0;
    g->marks = forward_job_marks(&of->text.job, first);
    g->change.tokens = windows * of->text.job.context;
    for (size_t k = 0; g->captured && k < s->end - s->first; k++) g->captured[k].tokens = 0;
    for (size_t i = 0; g->change.gates && i < g->change.tokens; i++) g->change.gates[i] = 0;
}

bool site_gather(site *s, calibrator *c, gq_error *e) {
    gathering g = {.c = c, .s = s};
    bool ok = true;
    *s = (site){.n_weights = 0};
    for (size_t i = 0; ok && i < forward_stream_batches(c->base); i++) {
        double began = clock_seconds() - s->hessian;
        begin_batch(&g, i);
        if (!c->at.layer && g.loop + 1 < forward_job_loops(&c->of->text.job))
            continue; /* the last one's end */
        if (c->at.layer && forward_stream_skips(c->base, i, c->at.layer)) continue;
        ok = site_run_batch(&g, i, true, e);
        if (!s->n_weights) break;
        ok = ok && site_run_batch(&g, i, false, e);
        double took = clock_seconds() - s->hessian - began;
        s->probe = s->batches++ ? fmin(s->probe, took) : took;
    }
    ok = ok && (!s->n_weights || join_ranks(&g, e));
    free_gathering(&g);
    return ok;
}
