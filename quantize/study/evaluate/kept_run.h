/* side_by_side_run with what earlier evaluations have kept (kept.h): models whose scores are there are not
 * run. The others are run a few copies at a time, and what they gave is kept at once; so an evaluation that
 * is stopped loses the copies at work alone. */
#ifndef GQ_INSPECT_KEPT_RUN_H
#define GQ_INSPECT_KEPT_RUN_H

#include "quantize/study/evaluate/side_by_side.h"

typedef struct kept_run_request {
    const side_by_side *all; /* the original and all copies, as one run would have them */
    const char *path;        /* of the scores */
    bool is_named;           /* by the user: a path that cannot be used is an error, else a warning */
    bool forecast;           /* measure first how long the models that are run will take */
} kept_run_request;

/* Fills the scores of all. *seconds_expected: 0 where nothing is run or was not measured. */
bool kept_run(const kept_run_request *r, scores *to, double *seconds_expected, warning_list *warnings,
              gq_error *e);

#endif
