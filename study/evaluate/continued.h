/* Drafts that continue what a target computes (forward/graph/draft/draft.h). The target runs on the pieces, as many windows at a time as
 * memory holds what is taken of them; a batch after the other then goes to the method of the draft's kind, which fills
 * choices and proposals. */
#pragma once

#include "study/evaluate/drafted.h"

/* Checks that a draft fits a target. */
bool continued_check(const model_source *file, const runner *target, gq_error *e);
/* Bytes of what is taken of so many tokens that are held at once. memory: of all. */
uint64_t continued_bytes(const model_source *file, const runner *target, uint64_t tokens, uint64_t memory);
/* Seconds of a usual processor for continued_propose. */
double continued_usual_seconds(const draft_texts *t, const side_by_side *s, const drafter *d);
/* Fills choices and proposals of the pieces by what the first model of s computes. */
bool continued_propose(draft_texts *t, const side_by_side *s, const drafter *d, gq_error *e);
