#include "quantize/run/cost.h"

#include "base/threads.h"
#include "quantize/strips/speeds.h"
#include "quantize/study/calibration_job.h"

/* Whether an output before this one encodes the tensor in the same type, so that both share the blocks. */
static bool is_shared(const gq_plan *plan, size_t output, size_t tensor, const bool *reused) {
    const gq_tensor *t = &plan->outputs[output].tensors[tensor];
    for (size_t o = 0; o < output; o++) {
        const gq_tensor *other = &plan->outputs[o].tensors[tensor];
        if (other->to == t->to && other->calibrated == t->calibrated &&
            !(reused && reused[o * plan->n_tensors + tensor]))
            return true;
    }
    return false;
}

double run_cost_per_weight(const gq_plan *plan, size_t tensor, const bool *reused) {
    const model_tensor *from = plan->sources[tensor].tensor;
    double weights = (double)shape_elements(from->ne);
    if (!(weights > 0)) return 0;
    double cost = (double)model_bytes_read(from, shape_elements(from->ne)) / weights * SPEED_BYTE;
    bool decoded = false;
    for (size_t o = 0; o < plan->n_outputs; o++) {
        const gq_tensor *t = &plan->outputs[o].tensors[tensor];
        cost += (double)t->out_bytes / weights * SPEED_BYTE;
        if (t->to == t->from) continue;
        decoded = true;
        if ((reused && reused[o * plan->n_tensors + tensor]) || t->calibrated)
            cost += SPEED_DECODE;
        else if (!is_shared(plan, o, tensor, reused))
            cost += speed_encode(t->to, plan->settings.effort) + SPEED_DECODE;
    }
    return cost + (decoded ? SPEED_DECODE : 0);
}

double gq_plan_run_seconds(const gq_plan *plan) {
    double seconds = 0;
    for (size_t i = 0; i < plan->n_tensors; i++)
        seconds += (double)shape_elements(plan->sources[i].tensor->ne) * run_cost_per_weight(plan, i, NULL);
    seconds /= threads_asked(plan->threads);
    return seconds + (plan->calibration ? calibration_seconds_left(plan->calibration) : 0);
}
