/* A checksum of all that a model is. Unlike model_fingerprint, which says whether unfinished work may go on,
 * it reads every byte: what is kept under it vouches for no changed file. */
#ifndef GQ_INSPECT_CONTENT_H
#define GQ_INSPECT_CONTENT_H

#include "base/callbacks.h"
#include "base/error.h"
#include "model/model.h"

typedef struct content_sum {
    uint64_t bytes; /* of the tensors */
    uint32_t crc;   /* of pairs, names, types, shapes and weights as they are delivered */
} content_sum;

/* Returns about how many seconds that takes. */
double content_seconds(const model_source *m, int threads);
/* callbacks: asked whether to go on, and told how far it is; may be NULL. */
bool content_sum_up(const model_source *m, int threads, const gq_callbacks *callbacks, content_sum *to,
                    gq_error *e);

#endif
