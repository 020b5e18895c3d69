/* EAGLE-3 drafts (graph/eagle.h): one layer, fed with states of three of the target's layers. */
#ifndef GQ_EVALUATE_EAGLE_H
#define GQ_EVALUATE_EAGLE_H

#include "quantize/study/evaluate/drafted.h"

/* Checks that a draft fits a target. */
bool eagle_check(const model_source *file, const runner *target, gq_error *e);
/* Fills choices and proposals of the pieces by the states of the first model of s. */
bool eagle_propose(draft_texts *t, const side_by_side *s, const drafter *d, gq_error *e);

#endif
