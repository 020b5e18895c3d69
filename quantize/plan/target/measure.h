/* Measures the error of each type for each tensor, on a sample of its rows. */
#pragma once

#include "mixes/budget.h"
#include "quantize/plan/plan.h"

enum {
    MEASURE_KEY = 160,        /* bytes of the text that says what measurements belong to */
    MEASURE_SAMPLE = 1 << 18, /* weights of a tensor that are looked at, at most (and one row at least) */
};

typedef struct measured {
    double weights;             /* looked at; 0: not measured */
    double power, weighted;     /* sum of x^2, plain and under importance (without any: the same) */
    double harm;                /* divergence at the end, in nats, that a relative squared error of 1 would
                                    bring if it stayed proportional; negative: not known */
    double error[BUDGET_TYPES]; /* sum of (x - x')^2 under importance; negative: not measured, infinite: the
                                    type cannot hold the values */
} measured;

/* Seconds that measuring by runs of the model takes. */
typedef struct trials_forecast {
    double sample, layers, head; /* of a sample of inputs; of the trials' layers, and of their logits */
    double expected;             /* of all; 0: it was not measured */
} trials_forecast;
/* What measures, besides the errors of encoding, how much the errors of a tensor add to the KL divergence. The core runs no
 * models, so that is handed in (runners.h). It is used where a rounding runs ahead. */
typedef struct measurement {
    /* Decides in how many layers tensors are tried one by one. *layers 0: in none; *least: bytes of memory that a trial
     * takes, if it is for want of these, else 0. */
    bool (*decide_layers)(const gq_plan *plan, const bool *wanted, size_t *layers, uint64_t *least,
                          gq_error *e);
    trials_forecast (*forecast)(const gq_plan *plan, const bool *wanted, size_t layers, bool measures);
    /* Samples what flows into tensors, by which errors are weighted. */
    bool (*sample)(const gq_plan *plan, model_inputs *inputs, const gq_callbacks *callbacks, gq_error *e);
    /* Sets `harm` of what was measured. */
    bool (*trials)(const gq_plan *plan, const bool *wanted, size_t layers, measured *found,
                   const gq_callbacks *callbacks, const trials_forecast *seconds, gq_error *e);
    void (*end)(void); /* all memory is freed */
} measurement;
/* Returns what tries tensors for a plan; NULL: errors of encoding are all that is measured. */
const measurement *measure_trials(const gq_plan *plan);

/* Whether a target may give a tensor budget_types[type], and the codecs can read the tensor and write that
 * type. */
bool measure_applies(const gq_plan *plan, size_t tensor, size_t type);
/* Whether `found` has all measurements of the tensors with wanted[i] set. Both have plan->n_tensors elements.
 */
bool measure_known(const gq_plan *plan, const bool *wanted, const measured *found);
/* Returns the seconds, about, that measure_tensors will take. */
double measure_seconds(const gq_plan *plan, const bool *wanted, const measured *found);
/* Measures the tensors with wanted[i] set that `found` does not know; found[i] belongs to plan->sources[i].
 * *fresh: something was measured. */
bool measure_tensors(gq_plan *plan, const bool *wanted, measured *found, bool *fresh,
                     const gq_callbacks *callbacks, gq_error *e);

/* ---- from one run to the next ---- */

/* Makes the key under which measurements may be used again: input, settings, version and build; for a
 * calibrated plan also the layers that are run and tried and the wanted tensors, as the trials depend on each
 * other. */
void measure_key(const gq_plan *plan, const bool *wanted, size_t trial_layers, char key[MEASURE_KEY]);
/* Fills `found` from the file with what was measured under this key. A file that is damaged, or of another
 * key, counts as not there. */
void measure_read(const gq_plan *plan, const char *path, const char *key, measured *found);
/* Fails where replacing the file would lose anything else than measurements. */
bool measure_may_replace(const char *path, gq_error *e);
/* Writes the file, in place of an older one, in one step. */
bool measure_write(const gq_plan *plan, const char *path, const char *key, const measured *found,
                   gq_error *e);
