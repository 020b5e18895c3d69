/* The files of a published folder that belong to all files of its table: the multimodal projector, its MTP layers in
 * a file of their own, and a draft. */
#pragma once

#include "publish/publish.h"

/* Plans them: p->companions, NULL: it is not made. A projector of a kind that cannot be made here is an error only if
 * it was asked for; else p->warnings says why. A damaged one is always an error. */
bool publication_plan_companions(gq_publication *p, gq_error *e);
/* Makes those that are not there and whole. */
bool publication_make_companions(gq_publication *p, gq_error *e);
/* Whether a file's name begins as one of them does, of a model of that name. stem: "": any model's. */
bool companion_is_named(const char *file, const char *stem);
