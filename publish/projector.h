/* The projector of a published folder: what the model sees and hears by, one file for all of the table. */
#ifndef GQ_PUBLISH_PROJECTOR_H
#define GQ_PUBLISH_PROJECTOR_H

#include "publish/publish.h"

/* Plans it: p->projector, NULL: the model neither sees nor hears, or it is left out. One of a kind that cannot be made
 * here is an error only if it was asked for; else p->warnings says why. A damaged one is always an error. */
bool publication_plan_projector(gq_publication *p, gq_error *e);
/* Makes it, unless it is there and whole. Without p->projector nothing happens. */
bool publication_make_projector(gq_publication *p, gq_error *e);

#endif
