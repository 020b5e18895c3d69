/* side_by_side_run with what earlier evaluations have kept (score_cache.h): models whose scores are there are not
 * run. The others are run a few quants at a time, and what they gave is kept at once; so an evaluation that
 * is stopped loses the quants at work alone. */
#pragma once

#include "study/evaluate/side_by_side.h"

typedef struct cached_run_request {
    const side_by_side *all; /* the base model and all quants, as one run would have them */
    const char *path;        /* of the scores */
    bool is_named;           /* by the user: a path that cannot be used is an error, else a warning */
    bool forecast;           /* measure first how long the models that are run will take */
} cached_run_request;

/* Fills the scores of all. *seconds_expected: 0 where nothing is run or was not measured. */
bool cached_run(const cached_run_request *r, scores *to, double *seconds_expected, warning_list *warnings,
                gq_error *e);
