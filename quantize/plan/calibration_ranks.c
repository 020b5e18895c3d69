#include "quantize/plan/calibration_ranks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/safe_file.h"
#include "quantize/study/sweep/sweep.h"

/* Makes `own` a job with this rank's share of the first n windows. *idle: there is none. */
static void share_windows(const gq_comm *comm, size_t n, forward_job *own, size_t *first, bool *idle) {
    int rank = gq_comm_rank(comm);
    size_t begin = windows_share(comm, n, own->context, rank),
           end = windows_share(comm, n, own->context, rank + 1);
    *idle = begin == end;
    *first = *idle ? 0 : begin;
    own->windows = *idle ? 1 : end - begin;
    own->ids += *first * own->context;
}

void calibration_share(plan_calibration *c, const gq_options *options) {
    calibrate_ahead *ahead = &c->ahead;
    c->comm = options->comm;
    c->own = c->job, c->ranks = 1, c->read_once = c->comm && options->read_once;
    share_windows(c->comm, c->job.windows, &c->own, &c->first_window, &c->idle);
    ahead->windows = c->settings.ahead, ahead->run = c->job, ahead->run.loops = 1;
    if (ahead->windows)
        share_windows(c->comm, ahead->windows, &ahead->run, &ahead->first_window, &ahead->idle);
}

/* ---- the folder ---- */

/* Looks for a file that rank 0 has just made. */
static bool look_for_probe(const gq_comm *comm, const char *probe, gq_error *e) {
    int fd = safe_file_open(probe);
    if (fd >= 0) return close(fd), true;
    return gq_fail(e,
                   "rank %d cannot open %s, which rank 0 has made: %s; all ranks need one folder that they "
                   "share and can write to",
                   gq_comm_rank(comm), probe, strerror(errno));
}

static char *probe_path(const gq_plan *plan) {
    return safe_file_beside(plan->outputs[0].path, ".gquant-ranks");
}

void calibration_clean_folder(const gq_plan *plan) {
    char *probe = probe_path(plan);
    if (probe) safe_file_clean(probe);
    free(probe);
}

bool calibration_check_folder(const gq_plan *plan, const plan_calibration *c, bool dry_run, gq_error *e) {
    if (gq_comm_ranks(c->comm) == 1 || dry_run) return true;
    char *probe = probe_path(plan);
    bool ok = probe || gq_fail_memory(e, strlen(plan->outputs[0].path)), is_first = comm_is_first(c->comm);
    int fd = ok && is_first ? safe_file_renew(probe) : -1;
    if (ok && is_first && fd < 0) ok = gq_fail(e, "cannot write %s: %s", probe, strerror(errno));
    /* The others look between two meetings. */
    ok = ok && comm_meet(c->comm, e) && (is_first || look_for_probe(c->comm, probe, e)) &&
         comm_meet(c->comm, e);
    if (fd >= 0) close(fd), unlink(probe);
    free(probe);
    return ok;
}

/* ---- agreement ---- */

bool plan_agree_calibration(gq_plan *plan, gq_error *e) {
    plan_calibration *c = plan->calibration;
    if (!c || !c->comm) return true;
    gq_calibration_facts *f = &c->facts;
    checkpoint_head first = c->head;
    uint64_t batch = c->bounds.batch, ahead = c->ahead.bounds.batch,
             most[] = {f->memory, f->states_in_file, f->layers_finished};
    if (!comm_broadcast(c->comm, &first, sizeof first, e)) return false;
    if (memcmp(&first, &c->head, sizeof first) != 0)
        return gq_fail(e, "rank %d has another model, text, options or build than rank 0",
                       gq_comm_rank(c->comm));
    if (!comm_least(c->comm, &c->matrices_at_once, e) || !comm_least(c->comm, &batch, e) ||
        !comm_least(c->comm, &ahead, e) || !comm_most(c->comm, most, sizeof most / sizeof *most, e) ||
        !sweep_agree_layer(c->comm, c->read_once, &c->bounds.layer, e) ||
        !sweep_agree_layer(c->comm, c->read_once, &c->ahead.bounds.layer, e))
        return false;
    c->bounds.batch = c->idle ? 1 : batch;
    c->ahead.bounds.batch = c->ahead.idle ? 1 : ahead;
    f->windows_at_once = batch;
    f->experts_at_once = c->matrices_at_once * (uint64_t)(f->experts_at_once > 1 ? c->ranks : 1);
    f->memory = most[0], f->states_in_file = most[1], f->layers_finished = most[2];
    f->ranks = (uint32_t)c->ranks,
    f->rank_windows = windows_share(c->comm, c->job.windows, c->job.context, 1);
    return true;
}
