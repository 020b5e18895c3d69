/* Reading tensors piece by piece on several threads: what comparing and verifying have in common. */
#ifndef GQ_SCAN_H
#define GQ_SCAN_H

#include "codec/codec.h"
#include "gguf/gguf.h"
#include "quantize/gquant.h"
#include "quantize/workers.h"

enum {
    SCAN_PIECE = 1 << 20, /* elements that a worker takes at once, in strips */
    SCAN_STRIP = 1 << 16, /* elements in memory; a multiple of every type's block */
};

/* A worker's memory: two strips as stored (8 bytes an element at most) and decoded. */
typedef struct scan_room {
    uint8_t *stored[2];
    float *decoded[2];
} scan_room;

typedef struct scan {
    const kernels *kernels;
    const gq_callbacks *callbacks; /* may be NULL */
    gq_progress progress;
    double started;
    int threads;
    workers_count fewest; /* when some could not be started, for workers_warn */
    scan_room *rooms;     /* one per thread, NULL until it is needed */
} scan;

bool scan_start(scan *s, int threads, const gq_callbacks *callbacks, uint64_t bytes_total, gq_error *e);
void scan_end(scan *s);

/* What was read of a piece, for progress. */
typedef struct scan_work {
    uint64_t bytes, weights;
} scan_work;

/* Do n elements from `first` on, which is a multiple of SCAN_PIECE, and say what that was. Called on several
 * threads. */
typedef bool scan_visit(void *arg, uint64_t piece, uint64_t first, uint64_t n, const scan_room *room,
                        scan_work *done, gq_error *e);
/* All pieces of a tensor. Of several failures that of the first piece is reported. */
bool scan_tensor(scan *s, uint64_t elements, scan_visit *visit, void *arg, gq_error *e);
uint64_t scan_pieces(uint64_t elements);

/* Read `n` elements of a tensor as stored. */
bool scan_read(const gguf_model *m, const gguf_tensor *t, uint64_t first, uint64_t n, uint8_t *to,
               gq_error *e);
double scan_seconds(void); /* of a clock that only goes on */

#endif
