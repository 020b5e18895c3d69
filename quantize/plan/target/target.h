/* Gives tensors their types so that the output has a size asked for (gq_target). */
#pragma once

#include "quantize/plan/assign.h"
#include "quantize/plan/target/measure.h"

/* Whether an output has a target instead of a file type. */
bool plan_has_target(const gq_options *options, size_t output);
/* Checks the targets of all outputs; GQ_USAGE where one makes no sense. */
bool plan_check_target(const gq_options *options, gq_error *e);
/* Writes the label that an output is named after: "7.5GB", "4.6bpw". */
void plan_target_label(const gq_options *options, size_t output, char label[32]);
/* What types for a target are chosen by before: a sample of inputs, and trials of what tensors' errors do to
 * the predictions. */
typedef struct trials_forecast {
    double sample, layers, head; /* seconds of the sample; of the trials' layers, and of their logits */
    double expected;             /* of all; 0: it was not measured */
} trials_forecast;
/* Runs of the model by which types are chosen where there is a calibration. A plan runs no models: whoever
 * makes it says what does (study/trials.h has the functions). */
typedef struct plan_studies {
    bool (*decide_layers)(const gq_plan *plan, const bool *wanted, size_t *layers, uint64_t *least,
                          gq_error *e);
    trials_forecast (*forecast)(const gq_plan *plan, const bool *wanted, size_t layers, bool measures);
    bool (*sample)(const gq_plan *plan, model_inputs *inputs, const gq_callbacks *callbacks, gq_error *e);
    bool (*trials)(const gq_plan *plan, const bool *wanted, size_t layers, measured *found,
                   const gq_callbacks *callbacks, const trials_forecast *seconds, gq_error *e);
} plan_studies;

/* Gives the tensors of all outputs with a target their types: measures errors, or reads an earlier run's
 * measurements, and chooses. */
bool plan_targets(gq_plan *plan, plan_assignment *a, const gq_options *options, gq_error *e);
