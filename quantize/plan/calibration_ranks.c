#include "quantize/plan/calibration_ranks.h"

#include <string.h>

#include "base/checked.h"
#include "quantize/calibrate/round.h"
#include "quantize/calibrate/site.h"
#include "quantize/plan/calibration_memory.h"

void calibration_share(plan_calibration *c, const gq_options *options) {
    c->comm = c->job.loops == 1 ? options->comm : NULL;
    c->own = c->job, c->ranks = 1, c->read_once = c->comm && options->read_once;
    int rank = gq_comm_rank(c->comm);
    size_t n = c->job.windows, context = c->job.context, begin = windows_share(c->comm, n, context, rank),
           end = windows_share(c->comm, n, context, rank + 1);
    c->idle = begin == end;
    c->first_window = c->idle ? 0 : begin;
    c->own.windows = c->idle ? 1 : end - begin;
    c->own.ids += c->first_window * context;
}

/* ---- what is sent: docs/large-models.md has the same in words ---- */

enum { HEAD_BYTES = 24, ENTRY_BYTES = 32 };

/* Floats of the moments of a matrix's inputs; second: of what differs or is lacking, 0: as many columns as a
 * block has. */
static uint64_t moments_floats(uint64_t columns, uint64_t width, uint64_t second) {
    uint64_t floats = 0;
    for (uint64_t first = 0, n; first < columns; first += n) {
        n = smaller(width, columns - first);
        floats = plus(floats, feedback_triangle(feedback_strips(n)));
        floats = plus(floats, times(feedback_padded(second ? second : n), feedback_padded(n)));
    }
    return floats;
}

/* Bytes that the rank with most windows sends for the inputs of a site, to which a tensor belongs. */
static uint64_t site_sent(const gq_plan *plan, const plan_calibration *c, const model_tensor *t) {
    uint64_t used, ranks = (uint64_t)c->ranks, n = shape_matrices(t->ne), columns = t->ne[0];
    uint64_t tokens = c->facts.rank_windows * c->job.context, lacking = 0;
    double share = calibration_share_met(plan, t, &used);
    if (site_adds(&c->settings, c->model, t) != 0) lacking = t->ne[1];
    uint64_t met = (uint64_t)(share * (double)n + .5);
    uint64_t pairs = times(times(tokens, met ? met : 1), columns + (lacking ? lacking : columns) + 1);
    uint64_t entries = times(parts(c->facts.rank_windows, c->facts.windows_at_once), n);
    uint64_t width = smaller(c->settings.width, columns), sums = 0;
    if (n < ranks) sums = times(n, moments_floats(columns, width, lacking) / ranks);
    return plus(times(plus(pairs, sums), sizeof(float)),
                plus(times(entries, ENTRY_BYTES), times(times(entries, ranks), HEAD_BYTES)));
}

/* Of a tensor's blocks. */
static uint64_t blocks_sent(const plan_calibration *c, const gq_tensor *t) {
    return t->out_bytes / (uint64_t)c->ranks;
}

/* Adds what is sent for an output; of layers the largest counts. */
static void add_sent_of_output(const gq_plan *plan, plan_calibration *c, size_t o) {
    enum { OUTLET = 128 };
    char outlet[OUTLET] = "", own[OUTLET];
    uint64_t layer = UINT64_MAX, of_layer = 0, most = 0;
    gq_calibration_facts *f = &c->facts;
    for (size_t i = 0; i < plan->n_tensors; i++) {
        const gq_tensor *t = &plan->outputs[o].tensors[i];
        const model_tensor *from = plan->sources[i].tensor;
        model_block b;
        if (!t->calibrated) continue;
        bool before = mix_outlet(plan->sources[i].name, 0, own), shares = before && !strcmp(own, outlet);
        if (before) memcpy(outlet, own, OUTLET);
        uint64_t sent = blocks_sent(c, t);
        if (!shares && forward_feeds(c->model, from)) sent = plus(sent, site_sent(plan, c, from));
        f->sent = plus(f->sent, sent);
        if (!model_block_in(t->source_name, &b)) continue;
        if (b.number != layer) of_layer = 0, layer = b.number;
        of_layer = plus(of_layer, sent);
        most = larger(most, of_layer);
    }
    f->sent_layer = plus(f->sent_layer, most);
    if (c->read_once) {
        uint64_t bytes = forward_model_sizes(c->model)->layer_bytes;
        f->sent_layer = plus(f->sent_layer, o ? 0 : bytes);
        f->sent = plus(f->sent, o ? 0 : times(bytes, f->layers));
    }
}

/* ---- agreement ---- */

bool plan_agree_calibration(gq_plan *plan, gq_error *e) {
    plan_calibration *c = plan->calibration;
    if (!c || !c->comm) return true;
    gq_calibration_facts *f = &c->facts;
    checkpoint_head first = c->head;
    uint64_t batch = c->bounds.batch, most[] = {f->memory, f->states_in_file, f->layers_finished};
    if (!comm_broadcast(c->comm, &first, sizeof first, e)) return false;
    if (memcmp(&first, &c->head, sizeof first) != 0)
        return gq_fail(e, "rank %d has another model, text, options or build than rank 0",
                       gq_comm_rank(c->comm));
    if (!comm_least(c->comm, &c->matrices_at_once, e) || !comm_least(c->comm, &batch, e) ||
        !comm_most(c->comm, most, sizeof most / sizeof *most, e))
        return false;
    c->bounds.batch = c->idle ? 1 : batch;
    f->windows_at_once = batch;
    f->experts_at_once = c->matrices_at_once * (uint64_t)(f->experts_at_once > 1 ? c->ranks : 1);
    f->memory = most[0], f->states_in_file = most[1], f->layers_finished = most[2];
    f->ranks = (uint32_t)c->ranks,
    f->rank_windows = windows_share(c->comm, c->job.windows, c->job.context, 1);
    for (size_t o = 0; o < plan->n_outputs; o++) add_sent_of_output(plan, c, o);
    return true;
}
