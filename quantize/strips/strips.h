/* A strip of a tensor: read, decoded, encoded, measured; and the scheduling of such work on threads. */
#pragma once

#include "base/callbacks.h"
#include "codec/codec.h"
#include "imatrix/imatrix.h"

/* ---- strip.c ----
 * A strip is the part of a tensor that is in memory at once. Here it is read, decoded and checked; and
 * encoded, decoded again, and its error measured. */

enum {
    /* Elements that are decoded at once, a multiple of every type's block: with 2^16 the buffers stay in a
     * core's second-level cache. */
    STRIP_ELEMENTS = 1 << 16,
    /* Elements that a worker takes at a time where nothing is written; it goes through them in strips. Whole
     * rows of these are taken where rows have a header (strip_whole). */
    STRIP_PIECE = 1 << 20,
    STORED_BYTES = 8, /* bytes of an element as stored, at most */
};
_Static_assert((int)GGUF_HEADERED_COLUMNS <= (int)STRIP_ELEMENTS, "a strip holds a row with a header");

/* A thread's scratch for two strips, as stored and decoded. */
typedef struct strip_buffers {
    uint8_t stored[2][STORED_BYTES * STRIP_ELEMENTS];
    float decoded[2][STRIP_ELEMENTS];
} strip_buffers;

/* Returns the kernels for this processor; NULL: GQUANT_ISA names a level that cannot run here, or none can. */
const kernels *strip_kernels(gq_error *e);
/* Returns how many of a tensor's elements to take at a time where order is all that counts: `most`, or where
 * rows have a header the rows that these hold. */
static inline uint64_t strip_whole(const model_tensor *t, uint64_t most) {
    return t->type->row_header_bytes ? most - most % t->ne[0] : most;
}
/* Counts the pieces of strip_whole(t, STRIP_PIECE) elements, of which the last one may have less. */
uint64_t strip_pieces(const model_tensor *t);

/* The place of a strip in its tensor: whole rows, or a part of one row. */
typedef struct strip {
    uint64_t first; /* element */
    size_t rows, cols;
    uint64_t matrix, column; /* place of `first` */
} strip;
/* Returns the longest strip from element `first` on that lies in one matrix and ends at element `end` at the
 * latest. ne: the tensor's dimensions. */
strip strip_from(const uint64_t ne[4], uint64_t first, uint64_t end);

/* Reads n elements of a tensor from `first` on into `stored`, as model_read does, and decodes them into x, n
 * floats. Types without a decoder leave x as it is. Fails with GQ_BAD_WEIGHTS where a value is not finite. */
bool strip_read_decoded(const kernels *k, const model_source *m, const model_tensor *t, uint64_t first,
                        size_t n, uint8_t *stored, float *x, gq_error *e);

/* The encoding of rows x cols finite weights as blocks of a type. */
typedef struct strip_encoder {
    const kernels *kernels;
    const tensor_type *type;
    const float *importance; /* of the matrix they are of, from their first column on; NULL: there is none */
    const encode_settings *settings;
} strip_encoder;

/* Encode x into blocks, decode these into `decoded`, which has room for STRIP_ELEMENTS elements, and add up
 * the errors. Returns rows * cols, or the first element that the type cannot hold: the blocks are then good
 * for nothing, and strip_fail_to_hold says why. */
size_t strip_encode(const strip_encoder *to, const float *x, size_t rows, size_t cols, uint8_t *blocks,
                    float *decoded, codec_error *sum);
/* Does the second half of strip_encode for blocks that were encoded before: decodes them and adds up the
 * errors, with the same result. */
size_t strip_measure(const strip_encoder *to, const float *x, size_t rows, size_t cols, const uint8_t *blocks,
                     float *decoded, codec_error *sum);
/* Returns the first of n elements whose magnitude the type cannot hold; n: it holds all. */
size_t strip_beyond(const strip_encoder *to, const float *x, size_t n);
bool strip_fail_to_hold(const strip_encoder *to, const model_source *m, const model_tensor *t,
                        uint64_t element, float x, gq_error *e);

/* ---- transposed matrices ---- */

/* Reads matrices with rows and columns exchanged, each matrix of a 3-d tensor by itself: as if the tensor
 * were stored with the dimensions that transposed_shape gives. */

/* Sets `to` to ne with the first two dimensions exchanged. */
void transposed_shape(const uint64_t ne[4], uint64_t to[4]);
/* Returns the number of the stored element that is the i-th of the tensor transposed. */
uint64_t transposed_element(const model_tensor *stored, uint64_t i);

/* Does for a part of a transposed tensor what strip_read_decoded does: strip->rows rows from strip->first on, of
 * each strip->cols columns, packed. The rows may be of several matrices, and need not be whole. Every block that
 * holds some of the part is read and decoded anew, so parts of many rows at once are cheaper. Scratch: `bytes`
 * has STORED_BYTES * STRIP_ELEMENTS bytes, `decoded` STRIP_ELEMENTS floats. x gets rows * cols floats. */
bool transposed_read(const kernels *k, const model_source *m, const model_tensor *stored, const strip *s,
                     uint8_t *bytes, float *decoded, float *x, gq_error *e);

/* ---- schedule.c ----
 * Work in numbered pieces, done by several threads: what running a plan, measuring for it, comparing and
 * verifying have in common. Pieces are handed out in order and those in hand are finished, so the lowest
 * piece that fails is the same for any number of threads; its error is the one reported. */

typedef struct schedule {
    const gq_callbacks *callbacks; /* may be NULL */
    gq_progress progress;          /* bytes_total and tensor are the user's to set */
    double work;                   /* of all pieces, in the unit of work_piece; 0: bytes stand for it */
    double worked, resumed;        /* of `work`: done so far; done by an earlier run */
    double started;
    double resuming; /* seconds of all threads together */
    double before;   /* seconds before the first piece, left out of rates */
    threads_pool *pool;
    size_t scratch;                    /* bytes of a thread's memory */
    struct schedule_thread *of_thread; /* one per thread of the pool */
    pthread_mutex_t lock;              /* over progress, callbacks, and whatever `fold` does */
} schedule;

typedef struct work_piece {
    uint64_t number;
    void *scratch; /* this thread's memory, aligned to 64 */
    /* The size of the piece, for progress, set by the work. weights 0: the piece was not done. */
    uint64_t bytes, weights;
    double work;     /* predicted seconds of one thread; where the schedule has none it is not used */
    bool resumed;    /* an earlier run had done it */
    double resuming; /* seconds that went into looking whether it had */
} work_piece;

typedef struct schedule_job {
    uint64_t begin, end; /* pieces */
    /* Does a piece, on several threads at once. */
    bool (*work)(void *arg, work_piece *p, gq_error *e);
    /* Called after `work` for one piece at a time, in the order in which they are finished. NULL: not called. */
    bool (*fold)(void *arg, const work_piece *p, gq_error *e);
    void *arg;
} schedule_job;

/* Starts a schedule. threads: 0: one per processor. scratch: bytes of it for each thread. callbacks: may be
 * NULL, and are borrowed until schedule_end. */
bool schedule_start(schedule *s, int threads, size_t scratch, const gq_callbacks *callbacks, gq_error *e);
/* May be called for a schedule of zeros. */
void schedule_end(schedule *s);
/* Does all pieces of a job. Jobs are done one after another. Fails with GQ_INTERRUPTED when the caller
 * cancels. */
bool schedule_run(schedule *s, const schedule_job *job, gq_error *e);

/* ---- what a piece takes ---- */

/* The approximate time of a weight, by which the share of a run that is done is counted. Only ratios matter, and they
 * differ little between processors: bench/results/products.md has the measurements. */

/* Seconds of encoding a weight with an imatrix in a type, and of measuring what was lost. */
double speed_encode(uint32_t type, codec_effort effort);
/* Seconds of decoding a weight of any type, of reading or writing a byte, with its checksum. */
static const double SPEED_DECODE = .7e-9, SPEED_BYTE = .4e-9;

/* Seconds of reading and decoding weights. */
static inline double speed_read(uint64_t bytes, uint64_t weights) {
    return (double)bytes * SPEED_BYTE + (double)weights * SPEED_DECODE;
}
