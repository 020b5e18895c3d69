#include "quantize/plan/calibration/calibration_ranks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/safe_file.h"
#include "quantize/study/sweep/sweep.h"

/* Takes this rank's windows of the first n; where there are none it runs on the first one. */
static text_share take_share(const plan_calibration *c, size_t n, const gq_options *options) {
    text_share t = {.job = c->job};
    t.job.windows = n;
    text_share_take(&t, options->comm, options->read_once);
    if (t.idle) t.job = c->job, t.job.windows = 1, t.first_window = 0;
    return t;
}

void calibration_share(plan_calibration *c, const gq_options *options) {
    c->ranks = 1, c->share = take_share(c, c->job.windows, options);
    c->ahead = (text_share){.job = c->job};
    if (c->settings.ahead) c->ahead = take_share(c, c->settings.ahead, options);
    c->ahead.job.loops = 1;
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
    if (gq_comm_ranks(c->share.comm) == 1 || dry_run) return true;
    char *probe = probe_path(plan);
    bool ok = probe || gq_fail_memory(e, strlen(plan->outputs[0].path)),
         is_first = comm_is_first(c->share.comm);
    int fd = ok && is_first ? safe_file_renew(probe) : -1;
    if (ok && is_first && fd < 0) ok = gq_fail(e, "cannot write %s: %s", probe, strerror(errno));
    /* The others look between two meetings. */
    ok = ok && comm_meet(c->share.comm, e) && (is_first || look_for_probe(c->share.comm, probe, e)) &&
         comm_meet(c->share.comm, e);
    if (fd >= 0) close(fd), unlink(probe);
    free(probe);
    return ok;
}

/* ---- agreement ---- */

bool plan_agree_calibration(gq_plan *plan, gq_error *e) {
    plan_calibration *c = plan->calibration;
    if (!c || !c->share.comm) return true;
    gq_calibration_facts *f = &c->facts;
    checkpoint_head first = c->head;
    uint64_t batch = c->share.bounds.batch, ahead = c->ahead.bounds.batch,
             most[] = {f->memory, f->states_in_file, f->layers_finished};
    if (!comm_broadcast(c->share.comm, &first, sizeof first, e)) return false;
    if (memcmp(&first, &c->head, sizeof first) != 0)
        return gq_fail(e, "rank %d has another model, text, options or build than rank 0",
                       gq_comm_rank(c->share.comm));
    if (!comm_least(c->share.comm, &c->matrices_at_once, e) || !comm_least(c->share.comm, &batch, e) ||
        !comm_least(c->share.comm, &ahead, e) ||
        !comm_most(c->share.comm, most, sizeof most / sizeof *most, e) ||
        !sweep_agree_layer(c->share.comm, c->share.read_once, &c->share.bounds.layer, e) ||
        !sweep_agree_layer(c->share.comm, c->share.read_once, &c->ahead.bounds.layer, e))
        return false;
    c->share.bounds.batch = c->share.idle ? 1 : batch;
    c->ahead.bounds.batch = c->ahead.idle ? 1 : ahead;
    f->windows_at_once = batch;
    f->experts_at_once = c->matrices_at_once * (uint64_t)(f->experts_at_once > 1 ? c->ranks : 1);
    f->memory = most[0], f->states_in_file = most[1], f->layers_finished = most[2];
    f->ranks = (uint32_t)c->ranks,
    f->rank_windows = windows_share(c->share.comm, c->job.windows, c->job.context, 1);
    return true;
}
