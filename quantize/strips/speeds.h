/* How long a thread takes for a weight, about: what the share of a run that is done is counted by. Only
 * ratios matter, and they differ little between processors: bench/results/products.md has the measurements. */
#ifndef GQ_SPEEDS_H
#define GQ_SPEEDS_H

#include "codec/codec.h"

/* Seconds of encoding a weight with importance data in a type, and of measuring what was lost. */
double speed_encode(uint32_t type, codec_effort effort);
/* Seconds of decoding a weight of any type, of reading or writing a byte, with its checksum. */
static const double SPEED_DECODE = .7e-9, SPEED_BYTE = .4e-9;

/* Seconds of reading and decoding weights. */
static inline double speed_read(uint64_t bytes, uint64_t weights) {
    return (double)bytes * SPEED_BYTE + (double)weights * SPEED_DECODE;
}

#endif
