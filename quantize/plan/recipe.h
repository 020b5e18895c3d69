/* A file type's named recipe, and the types of a plan's output as one. */
#ifndef GQ_RECIPE_H
#define GQ_RECIPE_H

#include "quantize/plan/plan.h"

/* Sets the output's file type, and the recipe of its name if that has one. */
bool plan_open_filetype(plan_output *out, const char *name, gq_error *e);

#endif
