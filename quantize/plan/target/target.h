/* Types for a size: what a type costs a tensor is measured, and types are chosen so that the files fit. */
#pragma once

#include "mixes/budget.h"
#include "quantize/plan/plan.h"

/* ---- measures the error of each type for each tensor, on a sample of its rows (measure.c) ---- */

enum {
    MEASURE_KEY = 160,        /* bytes of the text that says what measurements belong to */
    MEASURE_SAMPLE = 1 << 18, /* weights of a tensor that are looked at, at most (and one row at least) */
};

typedef struct measured {
    double weights;     /* looked at; 0: not measured */
    double power;       /* sum of x^2 */
    double sensitivity; /* KL divergence of the logits, in nats, that a relative squared error of 1 would
                                    bring if it stayed proportional; negative: not known */
    double
        error[BUDGET_TYPES]; /* power times the relative squared error, plain or under importance, whichever
                                    is larger; negative: not measured, infinite: the type cannot hold the values */
} measured;

/* Seconds that measuring by runs of the model takes. */
typedef struct trials_forecast {
    double sample, layers, head; /* of a sample of inputs; of the trials' layers, and of their logits */
    double expected;             /* of all; 0: it was not measured */
} trials_forecast;
/* Measures how much the errors of a tensor add to the KL divergence; errors of encoding are the core's own.
 * The core runs no models, so that is handed in (model_runners). It is used where a rounding runs ahead. */
typedef struct measurement {
    /* Decides in how many layers tensors are tried one by one. *layers 0: in none; *least: bytes of memory
     * that a trial takes, if it is for want of these, else 0. */
    bool (*decide_layers)(const gq_plan *plan, const bool *wanted, size_t *layers, uint64_t *least,
                          gq_error *e);
    trials_forecast (*forecast)(const gq_plan *plan, const bool *wanted, size_t layers, bool measures);
    /* Samples the inputs of tensors, by which errors are weighted. */
    bool (*sample)(const gq_plan *plan, model_inputs *inputs, const gq_callbacks *callbacks, gq_error *e);
    /* Sets `sensitivity` of what was measured. */
    bool (*trials)(const gq_plan *plan, const bool *wanted, size_t layers, measured *found,
                   const gq_callbacks *callbacks, const trials_forecast *seconds, gq_error *e);
    void (*end)(void); /* all memory is freed */
} measurement;
/* Returns what tries tensors for a plan; NULL: errors of encoding are all that is measured. */
const measurement *measure_trials(const gq_plan *plan);

/* Whether a target may give a tensor budget_types[type], and the codecs can read the tensor and write that
 * type. */
bool measure_applies(const gq_plan *plan, size_t tensor, size_t type);
/* Whether `found` has all measurements of the tensors with wanted[i] set. Both have plan->n_tensors elements. */
bool measure_known(const gq_plan *plan, const bool *wanted, const measured *found);
/* Returns the seconds, about, that measure_tensors will take. */
double measure_seconds(const gq_plan *plan, const bool *wanted, const measured *found);
/* Measures the tensors with wanted[i] set that `found` does not know; found[i] belongs to plan->sources[i].
 * *fresh: something was measured. */
bool measure_tensors(gq_plan *plan, const bool *wanted, measured *found, bool *fresh,
                     const gq_callbacks *callbacks, gq_error *e);

/* ---- from one run to the next ---- */

/* Makes the key under which measurements may be used again: input, settings, version and build; for a calibrated
 * plan also the layers that are run and tried and the wanted tensors, as the trials depend on each other. */
void measure_key(const gq_plan *plan, const bool *wanted, size_t trial_layers, char key[MEASURE_KEY]);
/* Fills `found` from the file with what was measured under this key. A file that is damaged, or of another
 * key, counts as not there. */
void measure_read(const gq_plan *plan, const char *path, const char *key, measured *found);
/* Fails where replacing the file would lose anything else than measurements. */
bool measure_may_replace(const char *path, gq_error *e);
/* Writes the file, in place of an older one, in one step. */
bool measure_write(const gq_plan *plan, const char *path, const char *key, const measured *found,
                   gq_error *e);

/* ---- gives tensors their types so that the output has a size asked for (gq_target) ---- */

/* Whether an output has a target instead of a file type. */
bool plan_has_target(const gq_options *options, size_t output);
/* Checks the targets of all outputs; GQ_USAGE where one makes no sense. */
bool plan_check_target(const gq_options *options, gq_error *e);
/* Writes the label that an output is named after: "7.5GB", "4.6bpw". */
void plan_target_label(const gq_options *options, size_t output, char label[32]);
/* Gives the tensors of all outputs with a target their types: measures errors, or reads an earlier run's
 * measurements, and chooses. */
bool plan_targets(gq_plan *plan, plan_assignment *a, const gq_options *options, gq_error *e);

/* ---- finds tensors whose weights lie on a quantization grid of few bits (QAT) (qat_grid.c) ---- */

/* Sets plan_source.qat_grid of all tensors by a sample of their rows, where an output is quantized. Rows that
 * cannot be read are none of a grid: the run will say why. False: no memory, or the caller cancelled. */
bool plan_find_qat_grids(gq_plan *plan, const gq_options *options, gq_error *e);
/* Whether a tensor lies on such a grid that a type holds: encoding loses nothing then but what rounding to
 * the input's type has left. */
static inline bool plan_qat_grid_holds(const plan_source *s, uint32_t type) {
    return type < 64 && s->qat_grid >> type & 1;
}
/* Warns of tensors on such a grid, and of outputs whose types do not hold it. Called when these are chosen. */
bool plan_warn_qat_grids(gq_plan *plan, gq_error *e);

/* ---- tensor_scales.c ---- */

/* Matrices that become NVFP4, with a factor for each beside them (gq_options.tensor_scales). */

/* Puts in front of the plan's model one in which such matrices are multiplied by a power of two and a tensor
 * NAME.scale beside each holds the inverse. From then on it is the plan's model. */
bool plan_scale_tensors(gq_plan *plan, const gq_options *options, gq_error *e);
