/* Adds up what each collective of a calibration sends, tensor by tensor and rank by rank. The parts are told
 * by the files that send them; docs/internals/ranks.md has the sum in words. Tensors that read the same inputs,
 * a site, are recognised by their names: inputs are sent once for all of them. */
#include "quantize/plan/calibration_sent.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/checksum.h"
#include "graph/layer.h"
#include "graph/router_rows.h"
#include "mixes/harm.h"
#include "mixes/names.h"
#include "quantize/calibrate/embedding_trial.h"
#include "quantize/calibrate/layers.h"
#include "quantize/calibrate/router.h"
#include "quantize/calibrate/site.h"
#include "quantize/calibrate/tape.h"
#include "quantize/plan/calibration_memory.h"

typedef struct sent_counting {
    const gq_plan *plan;
    const plan_calibration *c;
    uint32_t *sites;    /* per tensor, what its site has in common */
    uint64_t *of_block; /* bytes that `rank` sends for each block */
    size_t n_blocks;
    int rank;
} sent_counting;

/* ---- sites ---- */

enum { OUTLET_BYTES = 128 };

/* Returns a checksum of what tells a site from others. The router reads what shared experts read. */
static uint32_t site_of(const gq_plan *plan, size_t i) {
    const model_tensor *t = plan->sources[i].tensor;
    char outlet[OUTLET_BYTES] = "";
    const char *name = plan->sources[i].name;
    model_block b;
    bool beside =
        strstr(name, "ffn_gate_inp") || strstr(name, "ffn_gate_shexp") || strstr(name, "ffn_up_shexp");
    if (beside && model_block_in(name, &b))
        snprintf(outlet, sizeof outlet, "%llu router", (unsigned long long)b.number);
    bool shares = outlet[0] || mix_outlet(name, 0, outlet);
    uint64_t sizes[] = {shares, t->ne[0], shape_matrices(t->ne)};
    return checksum_add(checksum_add_text(0, shares ? outlet : name), sizes, sizeof sizes);
}

/* Whether no calibrated tensor before the i-th one of an output is of its site. */
static bool begins_site(const sent_counting *s, size_t output, size_t i) {
    for (size_t k = 0; k < i; k++)
        if (s->sites[k] == s->sites[i] && s->plan->outputs[output].tensors[k].calibrated) return false;
    return true;
}

/* Matrices that are gathered at once. */
typedef struct gathered_matrices {
    size_t first, n;
    bool dealt;
} gathered_matrices;

static gathered_matrices matrices_from(const sent_counting *s, const model_tensor *t, size_t first) {
    size_t ranks = (size_t)s->c->ranks;
    size_t n = site_matrices_at_once(shape_matrices(t->ne) - first, s->c->matrices_at_once,
                                     mix_is_experts(t->name), ranks);
    return (gathered_matrices){first, n, n >= ranks};
}

/* ---- a tensor ---- */

/* The windows, of all `n`, that a rank has. */
static size_t windows_of(const sent_counting *s, size_t n, int rank) {
    size_t context = s->c->job.context;
    return windows_share(s->c->comm, n, context, rank + 1) - windows_share(s->c->comm, n, context, rank);
}

/* Bytes of the inputs of a site that a tensor belongs to, and of their moments. all: windows, which are run
 * `batch` at a time. */
static uint64_t inputs_sent(const sent_counting *s, const model_tensor *t, size_t all, size_t batch) {
    const plan_calibration *c = s->c;
    bool is_head = t == forward_model_sizes(c->model)->out; /* what flows there does so in the last loop */
    uint64_t used, sent = 0, windows = windows_of(s, all, s->rank), others = 0, width = t->ne[0],
                   matrices = shape_matrices(t->ne), loops = is_head ? 1 : c->settings.loops;
    calibration_share_met(s->plan, t, &used);
    site_sizes z = site_sizes_of(
        &c->settings, c->model,
        &(site_weight){.tensor = t, .routed = mix_is_experts(t->name), .met = used, .matrices = 1}, 1);
    for (int r = 0; r < c->ranks; r++) others += r != s->rank && windows_of(s, all, r);
    for (size_t first = 0; first < matrices;) {
        gathered_matrices g = matrices_from(s, t, first);
        uint64_t tokens = times(windows * c->job.context, mix_is_experts(t->name) && matrices > 1 ? 0 : g.n);
        if (first == 0 && !tokens) tokens = times(windows * c->job.context, used);
        uint64_t entries = times(parts(windows, batch), g.n);
        sent = plus(sent, times(loops, tape_sent(z.shape.lacking ? z.shape.lacking : width, width, entries,
                                                 tokens, others)));
        if (!g.dealt) sent = plus(sent, times(g.n, moments_sent(z.shape, c->comm, s->rank)));
        first += g.n;
    }
    return sent;
}

/* Metrics of a tensor's rows; without any where its rounding will do without them. */
static layer_metrics metrics_of_rows(const sent_counting *s, const model_tensor *t, uint64_t block) {
    const calibration_settings *of = &s->c->settings;
    forward_row_group groups[FORWARD_MOST_GROUPS];
    layer_metrics own = {.n = 0};
    bool unchecked = !of->held_every && of->windows * of->context < t->ne[0];
    if (!calibration_does(of, STEP_ROWS) || unchecked || block >= s->n_blocks) return own;
    size_t n = forward_row_groups(s->c->model, block, groups);
    for (size_t i = 0; i < n; i++)
        if (groups[i].weight == t) own.of[own.n++].group = groups[i];
    return own;
}

/* Bytes of a tensor's rounding. */
static uint64_t rounding_sent(const sent_counting *s, size_t output, size_t i, uint64_t block) {
    const plan_calibration *c = s->c;
    const gq_tensor *of = &s->plan->outputs[output].tensors[i];
    const model_tensor *t = s->plan->sources[i].tensor;
    const gguf_type *to = gguf_type_of(of->to);
    layer_metrics metrics = metrics_of_rows(s, t, block);
    uint64_t sent = 0, matrices = shape_matrices(t->ne);
    if (forward_is_router(c->model, t) && !to->quantized) return router_sent(&c->settings, c->comm, s->rank);
    for (size_t first = 0; first < matrices;) {
        gathered_matrices g = matrices_from(s, t, first);
        uint64_t turn = site_turn(t, first), begin = comm_share_in_turn(c->comm, g.n, turn, s->rank),
                 end = comm_share_in_turn(c->comm, g.n, turn, s->rank + 1);
        for (size_t k = 0; k < g.n; k++)
            sent += g.dealt ? calibrator_matrix_sent(of->out_bytes / matrices, k >= begin && k < end)
                            : round_sent(c->comm, s->rank, t, first + k, output, &metrics, to);
        first += g.n;
    }
    return sent;
}

/* ---- a layer, and all ---- */

/* Bytes of a layer that one rank reads for all. */
static uint64_t read_sent(const sent_counting *s, const forward_bounds *bounds, size_t layer) {
    if (!s->c->read_once) return 0;
    return COMM_HEAD_BYTES + (s->rank ? 0 : forward_layer_bytes(s->c->model, layer, bounds->layer));
}

/* Bytes of a layer besides its tensors. rounds: it is one of the last loop, so its tensors are rounded. */
static uint64_t layer_sent(const sent_counting *s, size_t layer, bool rounds) {
    const plan_calibration *c = s->c;
    forward_row_group groups[FORWARD_MOST_GROUPS];
    bool has_metrics = rounds && calibration_does(&c->settings, STEP_ROWS);
    size_t n = has_metrics ? forward_row_groups(c->model, layer, groups) : 0;
    uint64_t sent = sweep_sent(s->plan->n_outputs + 1, c->settings.loops, true);
    bool wanted = false;
    for (size_t i = 0; i < s->plan->n_tensors; i++)
        for (size_t g = 0; g < n; g++)
            for (size_t o = 0; groups[g].weight == s->plan->sources[i].tensor && o < s->plan->n_outputs; o++)
                wanted = wanted || s->plan->outputs[o].tensors[i].calibrated;
    if (wanted) sent += layer_metrics_sent(&c->settings, c->comm, s->rank, groups, n);
    return sent + read_sent(s, &c->bounds, layer);
}

/* Bytes of a run of the original ahead. */
static uint64_t ahead_sent(const sent_counting *s) {
    const plan_calibration *c = s->c;
    const model_tensor *embedding = forward_model_sizes(c->model)->embedding;
    uint64_t sent = inputs_sent(s, embedding, c->ahead.windows, c->ahead.bounds.batch);
    for (size_t i = 0; i < c->facts.layers; i++)
        sent = plus(sent, read_sent(s, &c->ahead.bounds, c->numbers ? c->numbers[i] : i));
    return sent;
}

/* Adds what is sent for an output's tensors. *besides: of those that are in no block. *has_head: the output
 * matrix is among them. begins: tensors with which a site begins. */
static void add_output(sent_counting *s, size_t o, const bool *begins, uint64_t *besides, bool *has_head) {
    for (size_t i = 0; i < s->plan->n_tensors; i++) {
        const model_tensor *t = s->plan->sources[i].tensor;
        model_block b;
        if (!s->plan->outputs[o].tensors[i].calibrated) continue;
        bool in_block = model_block_in(t->name, &b) && b.number < s->n_blocks;
        uint64_t *to = in_block ? &s->of_block[b.number] : besides;
        *to = plus(*to, rounding_sent(s, o, i, in_block ? b.number : UINT64_MAX));
        if (calibration_tries(s->c, t)) *to = plus(*to, embedding_trial_sent(s->rank));
        if (begins[i] && forward_feeds(s->c->model, t))
            *to = plus(*to, inputs_sent(s, t, s->c->job.windows, s->c->bounds.batch));
        if (t == forward_model_sizes(s->c->model)->out && forward_feeds(s->c->model, t)) *has_head = true;
    }
}

/* Counts for one rank. begins: output by output. */
static void count_rank(sent_counting *s, const bool *begins, gq_calibration_facts *f) {
    enum { CALL_BYTES = 16 }; /* with which rank 0 calls the others */
    const gq_plan *plan = s->plan;
    bool has_head = false;
    uint64_t sum = calibrator_sent_at_start(plan->n_outputs, plan->n_tensors, s->rank);
    sum =
        plus(sum, 2 * COMM_HEAD_BYTES + (s->rank ? 0 : CALL_BYTES)); /* the call, and agreement in the end */
    if (calibration_runs_ahead(plan, s->c)) sum = plus(sum, ahead_sent(s));
    memset(s->of_block, 0, s->n_blocks * sizeof *s->of_block);
    for (size_t o = 0; o < plan->n_outputs; o++)
        add_output(s, o, begins + o * plan->n_tensors, &sum, &has_head);
    if (has_head) sum = plus(sum, sweep_sent(plan->n_outputs + 1, s->c->settings.loops, false));
    for (size_t i = 0; i < f->layers; i++) {
        size_t layer = s->c->numbers ? s->c->numbers[i] : i, loop = layer / s->n_blocks;
        bool rounds = loop + 1 == s->c->settings.loops;
        uint64_t sent = plus(rounds ? s->of_block[layer % s->n_blocks] : 0, layer_sent(s, layer, rounds));
        f->sent_layer = larger(f->sent_layer, sent);
        sum = plus(sum, sent);
    }
    f->sent = larger(f->sent, sum);
}

bool calibration_count_sent(gq_plan *plan, gq_error *e) {
    plan_calibration *c = plan->calibration;
    size_t n = plan->n_tensors, blocks = forward_model_sizes(c->model)->blocks;
    sent_counting s = {.plan = plan, .c = c, .n_blocks = blocks};
    bool *begins = calloc(plan->n_outputs * n + 1, sizeof *begins);
    s.sites = calloc(n + 1, sizeof *s.sites), s.of_block = calloc(blocks + 1, sizeof *s.of_block);
    bool ok = (begins && s.sites && s.of_block) || gq_fail_memory(e, n * sizeof *s.sites);
    for (size_t i = 0; ok && i < n; i++) s.sites[i] = site_of(plan, i);
    for (size_t o = 0; ok && o < plan->n_outputs; o++)
        for (size_t i = 0; i < n; i++) begins[o * n + i] = begins_site(&s, o, i);
    for (s.rank = 0; ok && s.rank < c->ranks; s.rank++) count_rank(&s, begins, &c->facts);
    free(begins), free(s.sites), free(s.of_block);
    return ok;
}
