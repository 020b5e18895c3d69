/* What copies are asked besides a text: to continue prompts as the original does, and to choose answers. */
#ifndef GQ_EVALUATE_ASKED_H
#define GQ_EVALUATE_ASKED_H

#include "quantize/study/evaluate/side_by_side.h"

/* Raises *peak to the bytes that both below take at most, for s->windows and their scores are held beside. False: a
 * prompt or a question is none. */
bool asked_bounds(const side_by_side *s, size_t prompts, const gq_question *questions, size_t n,
                  uint64_t *peak, gq_error *e);
/* s: how the models are run, with the windows of the text, of which prompts are the beginnings. Both return an
 * array with one for each model, malloc'ed; NULL: *e says why. */
gq_continued *continued_run(const side_by_side *s, size_t prompts, gq_error *e);
gq_chosen *chosen_run(const side_by_side *s, const gq_question *questions, size_t n, gq_error *e);

#endif
