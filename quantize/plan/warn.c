/* What messages need of a plan. */
#include "quantize/plan/plan.h"

const char *plan_input(const gq_plan *plan) { return plan->model.shards[0].file.path; }

bool plan_warn(gq_plan *plan, gq_error *e, const char *format, ...) {
    va_list args;
    va_start(args, format);
    bool ok = words_vadd(&plan->warnings, e, format, args);
    va_end(args);
    return ok;
}
