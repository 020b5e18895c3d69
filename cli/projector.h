/* What a folder's model sees and hears by: said to the user, and with --mmproj written beside the outputs. */
#pragma once

#include "cli/options/request.h"

/* Says what the folder holds besides the text model that is written. */
void projector_say_beside(const request *r, const gq_plan *plan);
/* Plans the projector, on all ranks; *plan NULL: none is asked for, it is there and whole, or another rank makes it.
 * `main`: the plan of the text model; NULL: the projector is made alone. */
bool projector_plan(const request *r, const gq_plan *main, gq_plan **plan, gq_error *e);
/* Says what it is and writes it, unless only a plan was asked for. All ranks call it, and it fails on all of them. */
bool projector_run(const request *r, const gq_plan *plan, gq_error *e);
/* The main job where the projector is made alone. */
int projector_main(const request *r);
