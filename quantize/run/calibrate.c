#include "quantize/run/calibrate.h"

#include <stdlib.h>
#include <string.h>

#include "quantize/run/calibrate_layers.h"

/* Every record, in order, is of this plan, and the files hold what it says. */
static bool holds(const checkpoint *c, const gq_plan *plan, const output_set *outputs) {
    uint64_t at = 0, n;
    bool ok = true;
    for (size_t i = 0; ok && i < c->finished; i++) {
        uint8_t *bytes = checkpoint_next(c, &at, &n, NULL);
        ok = bytes && record_holds(bytes, n, plan, outputs);
        free(bytes);
    }
    return ok;
}

/* What is kept but does not fit the files is begun anew, and what is there then is looked at again. *why:
 * that there was such, which the plan could not know; NULL: there was not. written: nothing is begun. */
static bool open_kept(checkpoint *c, const gq_plan *plan, const output_set *outputs, bool written,
                      const char **why, gq_error *e) {
    const plan_calibration *how = plan->calibration;
    const char *out = plan->outputs[0].shards[0].path;
    *why = NULL;
    if (written) {
        if (!checkpoint_open_old(c, out, &how->head, e)) return false;
        if (c->fd >= 0 && !holds(c, plan, NULL)) c->finished = 0;
        return true;
    }
    for (int attempts = 0; attempts < 2; attempts++) {
        checkpoint_close(c);
        if (!checkpoint_open(c, out, &how->head, how->records, e)) return false;
        if (!*why && how->facts.layers_finished && !c->finished) *why = c->why;
        if (holds(c, plan, outputs)) return true;
        *why = "what it has rounded is not in the output's file";
        checkpoint_remove(c);
    }
    gq_fail(e, "%s holds layers that are not in the output's file, and cannot be removed", c->path);
    c->finished = 0; /* nothing of it is worth keeping */
    return false;
}

static bool tell_results(const checkpoint *c, gq_results *results, gq_error *e) {
    uint64_t at = 0, n;
    for (size_t i = 0; i < c->finished; i++) {
        uint8_t *bytes = checkpoint_next(c, &at, &n, e);
        if (!bytes) return false;
        record_tell(bytes, n, results);
        free(bytes);
    }
    return true;
}

bool calibrate_run(const gq_plan *plan, const output_set *outputs, bool written, gq_results *results,
                   const gq_callbacks *callbacks, checkpoint *kept, gq_error *e) {
    const char *why;
    bool ok = open_kept(kept, plan, outputs, written, &why, e) &&
              (!why || words_add(&results->warnings, e, "an unfinished calibration for %s starts afresh: %s",
                                 plan->outputs[0].path, why));
    calibrator *run = ok && !written ? calibrator_new(plan, outputs, kept, e) : NULL;
    ok = ok && (written || (run && calibrator_run(run, callbacks, e)));
    if (run) words_add_threads(&results->warnings, calibrator_threads(run), NULL);
    calibrator_free(run);
    if (kept->fd >= 0 && kept->finished && !tell_results(kept, results, ok ? e : NULL)) ok = false;
    return ok;
}
