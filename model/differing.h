/* What two models' metadata say otherwise of how they are run. */
#ifndef GQ_DIFFERING_H
#define GQ_DIFFERING_H

#include "base/warnings.h"
#include "model/model.h"

/* Warns, in one sentence, of keys of the original's architecture that the copy lacks, has besides or has with another
 * value: the first few with both values. Of a copy with another number of layers, lists and counts of layers are
 * not compared. A copy of another architecture is none of it. */
bool differing_warn(const model_source *original, const model_source *copy, warning_list *to, gq_error *e);

#endif
