#include "quantize/plan/calibration_ranks.h"

#include <string.h>

#include "base/checked.h"
#include "quantize/plan/calibration_sent.h"

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
    return calibration_count_sent(plan, e);
}
