#include "study/calibrate/calibrate.h"

#include <string.h>

/* Possible calibrations, best first. The number of tokens is reduced before steps are left out:
 * bench/results/calibration.md has the curve. */
typedef struct calibration_way {
    uint64_t tokens;
    const char *left_out; /* steps, as users give them; "": none */
} calibration_way;
static const calibration_way ways[] = {
    {262144, ""}, {131072, ""}, {65536, ""}, {32768, ""},       {16384, ""},
    {8192, ""},   {4096, ""},   {2048, ""},  {2048, "-trials"}, {2048, "-trials,-sweeps"},
};
enum { WAYS = sizeof ways / sizeof *ways };

static bool plan_way(const gq_options *asked, plan_maker *make, const calibration_way *way, uint64_t tokens,
                     bool forecast, gq_plan **plan, gq_error *e) {
    gq_options options = *asked;
    gq_calibration less = *asked->calibration;
    less.steps = way->left_out, less.text.tokens = tokens;
    options.calibration = &less, options.forecast = forecast;
    *plan = make(&options, e);
    if (*plan) (*plan)->rounding->calibration->facts.left_out = way->left_out;
    return *plan;
}

/* Whether the plan is what was looked for: one that an unfinished run is of, or one that takes no longer than
 * asked. The first rank, which sees the files and whose machine counts, decides. */
static bool plan_is_taken(const gq_options *asked, const gq_plan *plan, bool forecast, bool *is_taken,
                          gq_error *e) {
    const gq_calibration_facts *f = &plan->rounding->calibration->facts;
    *is_taken = forecast ? f->seconds_expected <= asked->calibration->seconds : f->layers_finished > 0;
    return comm_broadcast(asked->comm, is_taken, sizeof *is_taken, e);
}

/* Looks at one way after another. *plan NULL: none was taken; *least: the seconds of the last one. */
static bool plan_first(const gq_options *asked, plan_maker *make, bool forecast, gq_plan **plan,
                       double *least, gq_error *e) {
    const gq_text *text = &asked->calibration->text;
    uint64_t most = text->tokens ? text->tokens : UINT64_MAX, last = 0;
    const char *left_out = "";
    for (size_t i = 0; i < WAYS; i++) {
        uint64_t tokens = min(ways[i].tokens, most);
        if (last && tokens < text->context) break;                           /* not one window */
        if (tokens == last && !strcmp(left_out, ways[i].left_out)) continue; /* there is no more text */
        bool is_taken;
        if (!plan_way(asked, make, &ways[i], tokens, forecast, plan, e)) return false;
        if (!plan_is_taken(asked, *plan, forecast, &is_taken, e)) return gq_plan_free(*plan), false;
        const gq_calibration_facts *f = &(*plan)->rounding->calibration->facts;
        *least = f->seconds_expected, last = most = min(most, f->tokens), left_out = ways[i].left_out;
        if (is_taken && !forecast && asked->forecast) { /* once more, as the forecast is asked for */
            gq_plan_free(*plan);
            return plan_way(asked, make, &ways[i], tokens, true, plan, e);
        }
        if (is_taken) return true;
        gq_plan_free(*plan);
        *plan = NULL;
    }
    return true;
}

gq_plan *calibration_plan_within(const gq_options *asked, plan_maker *make, gq_error *e) {
    gq_plan *plan = NULL;
    double least = 0, given = asked->calibration->seconds;
    if (asked->calibration->steps && *asked->calibration->steps) {
        gq_fail_usage(
            e, "calibration steps and a calibration time cannot be combined: the time chooses the steps");
        return NULL;
    }
    if (!plan_first(asked, make, false, &plan, &least, e)) return NULL;
    if (plan || !plan_first(asked, make, true, &plan, &least, e) || plan) return plan;
    gq_fail_usage(e,
                  "the least calibration takes about %.*f seconds on this machine, and %.*f are given; give "
                  "more time, or an imatrix in place of a calibration",
                  least < 10, least, given < 10, given);
    return NULL;
}
