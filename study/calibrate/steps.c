#include <stdlib.h>
#include <string.h>

#include "study/calibrate/calibrate.h"

const calibrate_step_row calibrate_steps[CALIBRATE_STEPS] = {
    [CALIBRATE_DAMPING] = {"damping", "each column damped by its own mean square", true},
    [CALIBRATE_SWEEPS] = {"sweeps", "codes chosen again with all others fixed: coordinate descent", true},
    [CALIBRATE_RESIDUAL] = {"state", "rounded for the residual stream after them", true},
    [CALIBRATE_EMBEDDING] = {"embedding",
                             "rounded by router errors, and by logit errors where it is the output matrix",
                             true},
    [CALIBRATE_ROUTER] = {"router", "fitted so that tokens keep their experts; errors: changed experts",
                          true},
    [CALIBRATE_ROWS] = {"rows", "rows of queries, keys and values rounded one after another", true},
    [CALIBRATE_RANDOM] = {"random", "a window of random tokens among every four, for texts of other kinds",
                          true},
    [CALIBRATE_BALANCE] = {"balance", "scale of outlier columns moved into what precedes them", true},
    [CALIBRATE_TRIALS] = {"trials", "other scales of each block tried by rounding with them", true},
    [CALIBRATE_VALIDATION] =
        {"validation", "layers that do not lower the KL divergence on held-out windows are encoded plainly",
         true},
};

enum { EVERY_STEP = (1 << CALIBRATE_STEPS) - 1 };

static calibrate_step_mask steps_default(void) {
    calibrate_step_mask mask = 0;
    for (calibrate_step i = 0; i < CALIBRATE_STEPS; i++)
        if (calibrate_steps[i].by_default) mask |= calibrate_step_bit(i);
    return mask;
}

/* Finds what n letters name: one step or a set of them. False: nothing. */
static bool step_set_named(const char *name, size_t n, calibrate_step_mask *found) {
    const struct {
        const char *name;
        calibrate_step_mask mask;
    } sets[] = {{"all", EVERY_STEP}, {"none", 0}, {"default", steps_default()}};
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        if (strlen(sets[i].name) == n && !memcmp(sets[i].name, name, n)) return *found = sets[i].mask, true;
    for (calibrate_step i = 0; i < CALIBRATE_STEPS; i++)
        if (strlen(calibrate_steps[i].name) == n && !memcmp(calibrate_steps[i].name, name, n))
            return *found = calibrate_step_bit(i), true;
    return false;
}

static bool steps_fail_unknown(const char *name, size_t n, gq_error *e) {
    char *known = calibrate_steps_text(EVERY_STEP, e);
    if (!known) return false;
    gq_fail_usage(e, "unknown calibration step '%.*s'; expected %s, or all, none, default",
                  n < 64 ? (int)n : 64, name, known);
    free(known);
    return false;
}

bool calibrate_steps_take(calibrate_step_mask *mask, const char *list, gq_error *e) {
    *mask = steps_default();
    if (!list || !*list) return true;
    if (*list != '-' && *list != '+') *mask = 0;
    for (const char *item = list;; item++) {
        bool away = *item == '-';
        calibrate_step_mask named;
        item += away || *item == '+';
        size_t n = strcspn(item, ",");
        if (!step_set_named(item, n, &named)) return steps_fail_unknown(item, n, e);
        *mask = away ? *mask & ~named : *mask | named;
        item += n;
        if (!*item) return true;
    }
}

char *calibrate_steps_text(calibrate_step_mask mask, gq_error *e) {
    size_t bytes = sizeof "none";
    for (calibrate_step i = 0; i < CALIBRATE_STEPS; i++) bytes += strlen(calibrate_steps[i].name) + 2;
    char *text = malloc(bytes), *end = text;
    if (!text) return gq_fail_memory(e, bytes), NULL;
    stpcpy(text, mask ? "" : "none");
    for (calibrate_step i = 0; i < CALIBRATE_STEPS; i++) {
        if (!(mask & calibrate_step_bit(i))) continue;
        if (end > text) end = stpcpy(end, ", ");
        end = stpcpy(end, calibrate_steps[i].name);
    }
    return text;
}
