#include "study/calibrate/calibration_job.h"

#include <stdlib.h>

#include "base/fail.h"
#include "mixes/mixes.h"
#include "study/calibrate/operations.h"
#include "study/sweep/forecast.h"

bool calibration_job_new(calibration_job *to, const gq_plan *plan, gq_error *e) {
    const plan_calibration *c = plan_calibration_of(plan);
    model_facts facts = model_facts_of(plan->model.kv, plan->model.n_kv, NULL, 0); /* as the model is run */
    *to = (calibration_job){.tensors = calloc(plan->n_tensors + 1, sizeof(const model_tensor *)),
                            .outputs = calloc(plan->n_outputs, sizeof(const gq_tensor *))};
    if (!to->tensors || !to->outputs) {
        calibration_job_free(to);
        return gq_fail_memory(e, plan->n_tensors * sizeof(const model_tensor *));
    }
    for (size_t i = 0; i < plan->n_tensors; i++) to->tensors[i] = plan->sources[i].tensor;
    for (size_t o = 0; o < plan->n_outputs; o++) to->outputs[o] = plan->outputs[o].tensors;
    to->job = (calibrate_job){.file = &plan->model,
                              .kernels = plan->kernels,
                              .encoding = &plan->settings,
                              .settings = &c->settings,
                              .text = c->share,
                              .streams = c->streams,
                              .numbers = c->numbers,
                              .n_layers = c->facts.layers,
                              .experts_used = (uint64_t)mix_experts_used(&facts),
                              .matrices_at_once = c->matrices_at_once,
                              .validation_bytes = c->validation_bytes,
                              .n_tensors = plan->n_tensors,
                              .n_outputs = plan->n_outputs,
                              .tensors = to->tensors,
                              .outputs = to->outputs,
                              .costs = c->costs,
                              .seconds_expected = c->facts.seconds_expected,
                              .reads_blocks = c->reads_blocks,
                              .keeps = c->keeps,
                              .ahead = c->ahead};
    return true;
}

void calibration_job_free(calibration_job *job) {
    free(job->tensors), free(job->outputs);
    *job = (calibration_job){.tensors = NULL};
}

bool calibration_cost(gq_plan *plan, bool measures, const gq_callbacks *callbacks, gq_error *e) {
    plan_calibration *c = plan_calibration_of(plan);
    gq_calibration_facts *f = &c->facts;
    calibration_job of;
    if (!calibration_job_new(&of, plan, e)) return false;
    calibrate_costs_free(&c->costs);
    f->work = calibrate_work(&of.job);
    bool is_short = f->work < FORECAST_LEAST_WORK,
         measured = measures && !is_short && calibrate_costs_measure(&of.job, callbacks, &c->costs);
    if (!measured) calibrate_costs_guess(&of.job, &c->costs);
    calibration_job_free(&of);
    if (!c->costs.tensors)
        return gq_fail_memory(e, plan->n_outputs * plan->n_tensors * sizeof *c->costs.tensors);
    double left = 1 - (double)f->layers_finished / (double)f->layers;
    f->seconds_expected = measured               ? calibration_seconds_left(c) + left * c->costs.plain
                          : measures && is_short ? FORECAST_LEAST_SECONDS
                                                 : 0;
    return true;
}

double calibration_seconds_left(const plan_calibration *c) {
    const calibrate_costs *costs = &c->costs;
    size_t done = c->facts.layers_finished;
    return calibrate_costs_begin(costs, costs->n_steps) - (done ? calibrate_costs_begin(costs, done) : 0) +
           costs->validation;
}
