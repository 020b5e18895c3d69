/* Which of several files to take: one rule for plans, published pages and evaluations. */
#pragma once

#include "quantize/gquant_publish.h"

typedef struct candidate {
    const char *type;
    uint64_t bytes;
    double bits;    /* per weight */
    gq_level level; /* of quality; GQ_LEVELS: not measured */
    bool is_whole;  /* it is not quantized: taken where nothing else can be */
} candidate;

typedef struct recommendation {
    bool is_limited; /* only files that fit a machine are offered */
    size_t at;       /* number of the file to take; SIZE_MAX: none was offered */
    candidate best;
} recommendation;

/* Bits per weight from which a file is not quantized. */
#define RECOMMEND_WHOLE_BITS 12

/* Takes a file if it is better than the best so far. Of files that were measured the smallest that is close to the base
 * model is best, else the smallest with the lowest loss. Of others it is the largest, if r->is_limited, else the usual
 * choice: Q4_K_M, or where it is not offered the smallest from 4.4 bits per weight on. */
void recommend_offer(recommendation *r, size_t at, candidate c);
/* The reason for a file of this level, as a noun phrase. */
const char *recommend_reason(gq_level level);
