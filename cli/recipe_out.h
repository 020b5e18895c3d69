/* --recipe-out: the types of outputs as files for --tensor-type-file. */
#ifndef CLI_RECIPE_OUT_H
#define CLI_RECIPE_OUT_H

#include "cli/options/request.h"

/* To be called before the work: whether --recipe-out, if given, can be written to. */
bool recipe_out_check(const request *r, gq_error *e);
/* Write the recipe of each output: to --recipe-out, or, of several outputs, beside it. */
bool recipe_out_write(const request *r, const gq_plan *plan, gq_error *e);

#endif
