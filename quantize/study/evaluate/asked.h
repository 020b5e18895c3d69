/* What copies are asked besides a text: to continue prompts as the original does, and to choose answers. */
#ifndef GQ_EVALUATE_ASKED_H
#define GQ_EVALUATE_ASKED_H

#include "quantize/study/evaluate/side_by_side.h"

/* s: how the models are run, with the windows of the text, of which prompts are the beginnings. Both return an
 * array with one for each model, malloc'ed; NULL: *e says why. */
gq_continued *continued_run(const side_by_side *s, size_t prompts, gq_error *e);
gq_chosen *chosen_run(const side_by_side *s, const gq_question *questions, size_t n, gq_error *e);

#endif
