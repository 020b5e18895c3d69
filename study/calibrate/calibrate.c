#include "study/calibrate/calibrate.h"

#include <stdlib.h>
#include <string.h>

#include "base/safe_file.h"
#include "quantize/run/run.h"

/* ---- ranks without files ---- */

/* The first rank has the files: the others write nothing, and do not read. */
static bool write_nothing(void *data, size_t output, size_t tensor, uint64_t offset, const void *bytes,
                          size_t n, gq_error *e) {
    (void)data, (void)output, (void)tensor, (void)offset, (void)bytes, (void)n, (void)e;
    return true;
}

static bool read_nothing(void *data, size_t output, size_t tensor, uint64_t offset, void *to, size_t n,
                         gq_error *e) {
    (void)data, (void)offset, (void)to, (void)n;
    return gq_fail(e, "tensor %zu of output %zu is read by a rank that has no files", tensor, output);
}

static bool sync_nothing(void *data, gq_error *e) { return (void)data, (void)e, true; }

/* ---- what is kept ---- */

/* Calls `visit` for the entries that stand: a tensor that fell back has one behind the validation's record, or none
 * yet. decided: validation_records. *whole: all records are of this job. */
typedef bool entry_visitor(void *data, const calibrate_entry *entry, gq_error *e);
static bool each_entry(const checkpoint *c, const calibration *job, const validation_record *decided,
                       bool *whole, entry_visitor *visit, void *data, gq_error *e) {
    uint64_t at = 0, n;
    size_t swept = calibrate_layers_steps(job);
    bool ok = true;
    *whole = true;
    for (size_t i = 0; ok && i < c->finished; i++) {
        uint8_t *bytes = checkpoint_next(c, &at, &n, e);
        uint64_t in = i == swept ? n : 0;
        calibrate_entry entry;
        if (!(ok = bytes)) break;
        while (ok && in < n && (*whole = *whole && record_next(bytes, n, &in, job, &entry, NULL)))
            if (i > swept || !validation_drops(&decided[entry.output], job, entry.tensor))
                ok = visit(data, &entry, e);
        free(bytes);
    }
    return ok;
}

typedef struct entries_in_file {
    const calibration *job;
    bool hold;
} entries_in_file;

static bool check_entry(void *data, const calibrate_entry *entry, gq_error *e) {
    entries_in_file *f = data;
    return !f->hold || record_is_in_file(entry, f->job, &f->hold, e);
}

/* *hold: every record, in order, is of this job, and the files hold what it says. Where that cannot be told
 * the checkpoint is let go, so that nobody removes it. */
static bool calibrate_records_hold(checkpoint *c, const calibration *job, bool *hold, gq_error *e) {
    entries_in_file f = {job, true};
    validation_record *decided = validation_records(c, job, calibrate_layers_steps(job), e);
    bool whole = false, ok = decided && each_entry(c, job, decided, &whole, check_entry, &f, e);
    *hold = whole && f.hold;
    free(decided);
    if (!ok) checkpoint_close(c);
    return ok;
}

/* Opens the checkpoint. One that does not fit the files is begun anew, and what is there then is looked at
 * again; *why then says so, as the plan could not know it, else it is NULL. written: nothing is begun. */
static bool open_saved(checkpoint *c, const gq_plan *plan, const calibration *job, bool written,
                       const char **why, gq_error *e) {
    const calibration *planned = plan->rounding->calibration;
    const char *out = plan->outputs[0].shards[0].path;
    bool hold;
    *why = NULL;
    if (written) {
        if (!checkpoint_open_old(c, out, &planned->header, e)) return false;
        if (c->fd >= 0 && !calibrate_records_hold(c, job, &hold, e)) return false;
        if (c->fd >= 0 && !hold) c->finished = 0;
        return true;
    }
    for (int attempts = 0; attempts < 2; attempts++) {
        checkpoint_close(c);
        if (!checkpoint_open(c, out, &planned->header, planned->records, e)) return false;
        if (!*why && planned->facts.layers_finished && !c->finished) *why = c->why;
        if (!calibrate_records_hold(c, job, &hold, e)) return false;
        if (hold) return true;
        *why = "the output lacks layers that were finished";
        checkpoint_remove(c);
    }
    gq_fail(
        e, "cannot remove %s, whose finished layers are not in the output: remove it by hand and start again",
        c->path);
    c->finished = 0; /* nothing of it is worth keeping */
    return false;
}

/* Adds what the steps did to a tensor to the output's sums. Returns which of them were used on it. */
static calibrate_step_mask report_steps(const calibrate_entry *entry, gq_results *results) {
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

static void report_entry(const calibrate_entry *entry, gq_results *results) {
    const calibrate_figures *f = &entry->figures;
    *results_rounding(results, entry->output, entry->tensor) =
        (gq_rounding){.matrices = f->matrices,
                      .plain = f->plain,
                      .unchecked = f->unchecked,
                      .power = f->power,
                      .plain_error = f->plain_error,
                      .written = f->written,
                      .codes = f->codes,
                      .clipped = f->clipped,
                      .tokens = f->tokens,
                      .width = f->width,
                      .damp = f->damp,
                      .why = round_reason_text((round_reason)entry->reason),
                      .steps = report_steps(entry, results)};
}

static bool visit_entry(void *data, const calibrate_entry *entry, gq_error *e) {
    (void)e;
    return report_entry(entry, data), true;
}

/* Warns of layers that fell back. */
static bool report_fallback(const gq_plan *plan, const calibration *job, size_t o, const validation_record *v,
                            gq_results *results, gq_error *e) {
    bool embeds = validation_embeds(job);
    char *layers = validation_layers_text(v, job, e);
    bool ok = layers &&
              warnings_add(&results->warnings, e,
                           "%s: calibrating %s did not lower the %s on the held-out windows (%.5f%s "
                           "calibrated, %.5f plain, %.5f as written), so they are encoded "
                           "plainly; more text may help",
                           plan->outputs[o].path, layers, embeds ? "distance of embeddings" : "KL divergence",
                           v->calibrated, embeds ? "" : " nats", v->plain_error, v->written);
    free(layers);
    return ok;
}

/* Adds what the validation found for an output. */
static bool report_validation(const gq_plan *plan, const calibration *job, size_t o,
                              const validation_record *v, gq_results *results, gq_error *e) {
    gq_step *s = results_step(results, o, CALIBRATE_VALIDATION);
    uint64_t matrices = 0, kept = 0;
    for (size_t i = 0; i < job->n_tensors; i++) {
        const gq_rounding *r = results_rounding(results, o, i);
        if (!job->outputs[o][i].calibrated || validation_group(job, i) == VALIDATION_GROUPS) continue;
        matrices += r->matrices, kept += validation_drops(v, job, i) ? 0 : r->matrices;
    }
    if (!v->positions)
        return !matrices || !validation_is_done(&job->settings) ||
               warnings_add(&results->warnings, e,
                            "%s: no token of the held-out windows counts, so the calibrated layers are not "
                            "validated as a whole",
                            plan->outputs[o].path);
    s->matrices += matrices, s->kept += kept;
    s->compared = 1, s->without = v->plain_error, s->with = v->written;
    return !v->fallback || report_fallback(plan, job, o, v, results, e);
}

static bool report_results(const gq_plan *plan, const checkpoint *c, const calibration *job,
                           gq_results *results, gq_error *e) {
    size_t swept = calibrate_layers_steps(job);
    validation_record *decided = validation_records(c, job, swept, e);
    bool whole, ok = decided && each_entry(c, job, decided, &whole, visit_entry, results, e);
    for (size_t o = 0; ok && o < job->n_outputs && c->finished > swept; o++)
        ok = report_validation(plan, job, o, &decided[o], results, e);
    free(decided);
    return ok;
}

/* Values that the first rank sends to the others. */
typedef struct calibrate_call {
    uint64_t works; /* 0: there is nothing to do */
    uint64_t finished;
} calibrate_call;

static bool calibrate_call_ranks(const gq_plan *plan, bool written, size_t finished, gq_error *e) {
    calibrate_call call = {!written, finished};
    return comm_broadcast(plan->rounding->calibration->text.comm, &call, sizeof call, e);
}

/* Ranks besides the first do their share. */
static bool calibrate_follow(const gq_plan *plan, const gq_callbacks *callbacks, gq_error *e) {
    calibrate_call call;
    calibration job = *plan->rounding->calibration;
    checkpoint saved = {.fd = -1};
    threads_count threads;
    if (!job.text.comm) return true;
    if (!comm_broadcast(job.text.comm, &call, sizeof call, e)) return false;
    if (!call.works) return true;
    char *folder = safe_file_folder(plan->outputs[0].shards[0].path);
    job.store = (rounding_store){write_nothing, read_nothing, sync_nothing, NULL};
    job.memory.probes.folder = folder;
    bool ok = checkpoint_join(&saved, plan->outputs[0].shards[0].path, &job.header, call.finished, e) &&
              calibrate_layers(&job, &saved, callbacks, &threads, e);
    checkpoint_close(&saved);
    free(folder);
    return ok;
}

/* *saved: the checkpoint of the finished layers, beside the first output, opened and locked. */
static bool calibrate_into(const gq_plan *plan, const rounding_store *store, bool written,
                           gq_results *results, const gq_callbacks *callbacks, checkpoint *saved,
                           gq_error *e) {
    const char *why = NULL;
    calibration job = *plan->rounding->calibration;
    threads_count threads = {.error = 0};
    char *folder = safe_file_folder(plan->outputs[0].shards[0].path);
    job.store = *store, job.memory.probes.folder = folder;
    bool ok =
        open_saved(saved, plan, &job, written, &why, e) &&
        (!why || warnings_add(&results->warnings, e, "an unfinished calibration for %s starts afresh: %s",
                              plan->outputs[0].path, why));
    ok = ok && calibrate_call_ranks(plan, written, saved->finished, e) &&
         (written || calibrate_layers(&job, saved, callbacks, &threads, e));
    warnings_add_threads(&results->warnings, threads, NULL);
    if (saved->fd >= 0 && saved->finished && !report_results(plan, saved, &job, results, ok ? e : NULL))
        ok = false;
    free(folder);
    return ok;
}

/* ---- as the engine calls it ---- */

bool calibrate_run(const gq_plan *plan, const rounding_store *store, bool written, gq_results *results,
                   const gq_callbacks *callbacks, rounding_kept *kept, gq_error *e) {
    if (!store) return calibrate_follow(plan, callbacks, e);
    checkpoint *saved = kept->file = calloc(1, sizeof *saved);
    if (!saved) return gq_fail_memory(e, sizeof *saved);
    saved->fd = -1;
    bool ok = calibrate_into(plan, store, written, results, callbacks, saved, e);
    kept->finished = saved->finished;
    return ok;
}

void calibrate_remove_kept(const rounding_kept *kept) {
    if (kept->file) checkpoint_remove(kept->file);
}

void calibrate_close_kept(rounding_kept *kept) {
    if (kept->file) checkpoint_close(kept->file);
    free(kept->file);
    *kept = (rounding_kept){0};
}
