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

/* What is kept but does not fit the files is begun anew. */
static bool open_kept(checkpoint *c, const gq_plan *plan, const output_set *outputs, bool written,
                      gq_error *e) {
    const plan_calibration *how = plan->calibration;
    const char *out = plan->outputs[0].shards[0].path;
    if (!checkpoint_open(c, out, &how->head, how->records, e)) return false;
    if (holds(c, plan, written ? NULL : outputs)) return true;
    checkpoint_remove(c);
    checkpoint_close(c);
    return checkpoint_open(c, out, &how->head, how->records, e);
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
                   const gq_callbacks *callbacks, size_t *kept, gq_error *e) {
    checkpoint c;
    *kept = 0;
    bool ok = open_kept(&c, plan, outputs, written, e);
    calibrator *run = ok && !written ? calibrator_new(plan, outputs, &c, e) : NULL;
    ok = ok && (written || (run && calibrator_run(run, callbacks, e)));
    calibrator_free(run);
    *kept = c.finished;
    if (c.fd >= 0 && c.finished && !tell_results(&c, results, ok ? e : NULL)) ok = false;
    checkpoint_close(&c);
    return ok;
}

void calibrate_forget(const gq_plan *plan) {
    checkpoint c;
    if (checkpoint_look(&c, plan->outputs[0].shards[0].path, &plan->calibration->head, NULL))
        checkpoint_remove(&c);
    checkpoint_close(&c);
}
