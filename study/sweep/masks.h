/* Masked windows, for diffusion language models (dream, llada, llada-moe, rnd1): such a model predicts what masks stand
 * for, and is trained and used on nothing else. */
#pragma once

#include "study/sweep/windows.h"

typedef enum masks_share {
    MASKS_DRAWN, /* of a text's n tokens 1 to n, each number as likely as the others */
    MASKS_ALL,
} masks_share;

/* Fails where the model predicts what masks stand for and does not say which token is one. */
bool masks_check(const model_source *model, size_t vocabulary, gq_error *e);
/* Masks tokens of each text that windows hold, if the model predicts what masks stand for: of those that count, and
 * never the first, as models that shift logits have none for it. w->targets is malloc'ed. How many are masked and
 * which follows from the number of the text among the windows alone, so it is the same for any threads, ranks and
 * parts. If one token in four is masked, each counts as four: a text counts the same, whatever share is masked. */
bool masks_set(text_windows *w, const model_source *model, size_t vocabulary, masks_share share, gq_error *e);
