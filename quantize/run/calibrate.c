#include "quantize/run/calibrate.h"

#include <stdlib.h>

#include "base/safe_file.h"
#include "quantize/study/calibrate/calibrator.h"
#include "quantize/study/calibration_job.h"

/* ---- the job ---- */

/* The outputs' files as the calibrator sees them. outputs NULL: another rank has them. */
typedef struct files {
    const gq_plan *plan;
    const output_set *outputs;
} files;

static bool write_file(void *data, size_t output, size_t tensor, uint64_t offset, const void *bytes, size_t n,
                       gq_error *e) {
    const files *f = data;
    const plan_place *place = &f->plan->outputs[output].places[tensor];
    return !f->outputs || output_write(f->outputs, output, place->shard, place->offset + offset, bytes, n, e);
}

static bool read_file(void *data, size_t output, size_t tensor, uint64_t offset, void *to, size_t n,
                      gq_error *e) {
    const files *f = data;
    const plan_place *place = &f->plan->outputs[output].places[tensor];
    return output_read(f->outputs, output, place->shard, place->offset + offset, to, n, e);
}

static bool sync_files(void *data, gq_error *e) { return output_sync(((const files *)data)->outputs, e); }

/* written: the outputs' files are not read. */
static calibrate_store files_store(files *f, bool written) {
    return (calibrate_store){write_file, written ? NULL : read_file, sync_files, f};
}

/* ---- what is kept ---- */

/* *hold: every record, in order, is of this job, and the files hold what it says. Where that cannot be told
 * the checkpoint is let go, so that nobody removes it. */
static bool calibrate_records_hold(checkpoint *c, const calibrate_job *job, bool *hold, gq_error *e) {
    uint64_t at = 0, n;
    bool ok = true;
    *hold = true;
    for (size_t i = 0; ok && *hold && i < c->finished; i++) {
        uint8_t *bytes = checkpoint_next(c, &at, &n, e);
        ok = bytes && record_holds(bytes, n, job, hold, e);
        free(bytes);
    }
    if (!ok) checkpoint_close(c);
    return ok;
}

/* Opens the checkpoint. One that does not fit the files is begun anew, and what is there then is looked at
 * again; *why then says so, as the plan could not know it, else it is NULL. written: nothing is begun. */
static bool open_saved(checkpoint *c, const gq_plan *plan, const calibrate_job *job, bool written,
                       const char **why, gq_error *e) {
    const plan_calibration *calibration = plan->calibration;
    const char *out = plan->outputs[0].shards[0].path;
    bool hold;
    *why = NULL;
    if (written) {
        if (!checkpoint_open_old(c, out, &calibration->head, e)) return false;
        if (c->fd >= 0 && !calibrate_records_hold(c, job, &hold, e)) return false;
        if (c->fd >= 0 && !hold) c->finished = 0;
        return true;
    }
    for (int attempts = 0; attempts < 2; attempts++) {
        checkpoint_close(c);
        if (!checkpoint_open(c, out, &calibration->head, calibration->records, e)) return false;
        if (!*why && calibration->facts.layers_finished && !c->finished) *why = c->why;
        if (!calibrate_records_hold(c, job, &hold, e)) return false;
        if (hold) return true;
        *why = "what it has rounded is not in the output's file";
        checkpoint_remove(c);
    }
    gq_fail(e, "%s holds layers that are not in the output's file, and cannot be removed", c->path);
    c->finished = 0; /* nothing of it is worth keeping */
    return false;
}

/* Adds what the steps did to a tensor to the output's sums. Returns which of them were used on it. */
static calibrate_step_mask tell_steps(const calibrate_entry *entry, gq_results *results) {
    calibrate_step_mask used = 0;
    for (calibrate_step i = 0; i < CALIBRATE_STEPS; i++) {
        const calibrate_step_figures *f = &entry->figures.steps[i];
        gq_step *s = results_step(results, entry->output, i);
        s->matrices += f->matrices, s->kept += f->kept, s->compared += f->compared;
        s->without += f->without, s->with += f->with;
        if (f->kept) used |= calibrate_step_bit(i);
    }
    return used;
}

static void tell_entry(const calibrate_entry *entry, gq_results *results) {
    const calibrate_figures *f = &entry->figures;
    *results_rounding(results, entry->output, entry->tensor) =
        (gq_rounding){.matrices = f->matrices,
                      .plain = f->plain,
                      .unchecked = f->unchecked,
                      .power = f->power,
                      .searched = f->searched,
                      .written = f->written,
                      .codes = f->codes,
                      .ends = f->ends,
                      .tokens = f->tokens,
                      .width = f->width,
                      .damp = f->damp,
                      .why = round_reason_text((round_reason)entry->reason),
                      .steps = tell_steps(entry, results)};
}

static bool tell_results(const checkpoint *c, gq_results *results, gq_error *e) {
    uint64_t at = 0, n;
    for (size_t i = 0; i < c->finished; i++) {
        uint8_t *bytes = checkpoint_next(c, &at, &n, e);
        if (!bytes) return false;
        for (uint64_t k = 0; k < record_entries(n); k++) {
            calibrate_entry entry = record_entry(bytes, k);
            tell_entry(&entry, results);
        }
        free(bytes);
    }
    return true;
}

/* What the first rank tells the others. */
typedef struct calibrate_call {
    uint64_t works; /* 0: there is nothing to do */
    uint64_t finished;
} calibrate_call;

static bool calibrate_call_ranks(const gq_plan *plan, bool written, size_t finished, gq_error *e) {
    calibrate_call call = {!written, finished};
    return comm_broadcast(plan->calibration->share.comm, &call, sizeof call, e);
}

bool calibrate_follow(const gq_plan *plan, const gq_callbacks *callbacks, gq_error *e) {
    const plan_calibration *calibration = plan->calibration;
    calibrate_call call;
    calibration_job of;
    files f = {plan, NULL};
    checkpoint saved = {.fd = -1};
    threads_count threads;
    if (!calibration || !calibration->share.comm) return true; /* there is none, or it is not shared */
    if (!comm_broadcast(calibration->share.comm, &call, sizeof call, e)) return false;
    if (!call.works) return true;
    bool ok = calibration_job_new(&of, plan, e) &&
              checkpoint_join(&saved, plan->outputs[0].shards[0].path, &calibration->head, call.finished, e);
    char *folder = safe_file_folder(plan->outputs[0].shards[0].path);
    of.job.store = files_store(&f, false), of.job.keeps.folder = folder;
    ok = ok && calibrator_run(&of.job, &saved, callbacks, &threads, e);
    checkpoint_close(&saved), calibration_job_free(&of);
    free(folder);
    return ok;
}

bool calibrate_run(const gq_plan *plan, const output_set *outputs, bool written, gq_results *results,
                   const gq_callbacks *callbacks, checkpoint *saved, gq_error *e) {
    const char *why = NULL;
    calibration_job of;
    files f = {plan, outputs};
    threads_count threads = {.error = 0};
    bool listed = calibration_job_new(&of, plan, e);
    char *folder = safe_file_folder(plan->outputs[0].shards[0].path);
    of.job.store = files_store(&f, written), of.job.keeps.folder = folder;
    bool ok =
        listed && open_saved(saved, plan, &of.job, written, &why, e) &&
        (!why || warnings_add(&results->warnings, e, "an unfinished calibration for %s starts afresh: %s",
                              plan->outputs[0].path, why));
    ok = ok && calibrate_call_ranks(plan, written, saved->finished, e) &&
         (written || calibrator_run(&of.job, saved, callbacks, &threads, e));
    warnings_add_threads(&results->warnings, threads, NULL);
    if (listed && saved->fd >= 0 && saved->finished && !tell_results(saved, results, ok ? e : NULL))
        ok = false;
    calibration_job_free(&of), free(folder);
    return ok;
}
