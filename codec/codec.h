/* Codecs of tensor types: one table row per type, one set of kernels per ISA level.
 *
 * A row of weights is cut into blocks of consecutive columns (gguf/type.h says how long); a block is encoded
 * from its own weights and the importance of its own columns alone. So output bytes depend on nothing else:
 * not on the ISA level, the number of threads, or how rows and columns are grouped into calls. Callers own
 * all memory; nothing here allocates, fails or keeps state between calls.
 *
 * Rows of weights are contiguous float32, in the tensor's own unit; their length is a multiple of the
 * block's. As stored they are a header, where the type has one, and their blocks, one row after another. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codec/tile.h"
#include "gguf/type.h"

/* The kernels of this processor: the levels that are built in, and which of them runs here. */

typedef struct kernels kernels; /* codec/codec.h */

/* Name of a level: "x86-64-v3", "neon", ... */
const char *kernels_name(const kernels *k);
/* The best level that this CPU runs, or the one that GQUANT_ISA names. NULL when that one is unknown or
 * cannot run here. */
const kernels *kernels_select(void);
/* Why that was NULL, a sentence. */
const char *kernels_why_none(void);
/* Finds a level by name; NULL: unknown, not built in, or not for this CPU. */
const kernels *kernels_level(const char *isa);
/* The i-th level built in, best last; NULL behind the last. */
const char *kernels_level_name(size_t i);

/* Products at this level. For those in bf16 of the level "amx" this asks the system, once per process,
 * whether tiles may be used; if not (an old kernel, a container, a thread with a signal stack too small for
 * them), they are x86-64-v4's, whose bytes are the same. From then on the system refuses signal stacks that
 * are too small for tiles; so this is called for bf16 only by who multiplies in it. */
const product_kernels *kernels_products(const kernels *k, matmul_arithmetic arithmetic);

typedef enum codec_effort { EFFORT_FAST, EFFORT_DEFAULT, EFFORT_BEST } codec_effort;

/* All options that decide the bytes of a block of a type, and all of them that an encoder gets to see. What is
 * kept from one run to the next (journals, measurements, sets of shards) is distinguished by their digest. */
typedef struct encode_settings {
    codec_effort effort;
    uint32_t importance; /* digest of the imatrix of which each call gets a part; 0: there is none */
} encode_settings;
/* Added to `sum`. What is off adds nothing, so that a setting that joins leaves older digests as they were. */
uint32_t encode_settings_digest(uint32_t sum, const encode_settings *settings);

/* rows x cols weights -> rows as they are stored. importance: one value >= 0 per column, of one matrix's
 * imatrix entry; NULL: all columns count the same. Finite x only. With importance a call should have at least
 * as many rows as kernels.lanes, as it takes no longer for so many than for one. */
typedef void codec_encode(const float *x, uint8_t *to, size_t rows, size_t cols, const float *importance,
                          const encode_settings *settings);
/* n elements of a row from column `first` on (whole blocks) -> float32, exactly as the format says. Of rows
 * without a header n may reach into the rows behind it. */
typedef void codec_decode(const uint8_t *row, size_t first, float *x, size_t n);

/* ---- the search for scales ----
 * How many ways of coding a (sub-)block are tried, and which: what an effort is. Families of types (a source
 * file of simd/ each) use different members; the others are zero. bench-tune tries other numbers. */
/* Scales that put the largest weight at an end of the codes or near it: `tries` of them, `step` codes apart,
 * the first one `first` codes beyond the end. */
typedef struct codec_ladder {
    float first, step;
    int tries;
} codec_ladder;
/* The first n pairs of a list in which each lowers the error most after those before it. */
typedef struct codec_pairs {
    const int8_t (*list)[2];
    int n;
} codec_pairs;

typedef struct codec_search {
    /* For types whose codes are multiples of a scale: */
    codec_ladder lower, upper; /* scales to begin with */
    int moves;                 /* changes of the best one, or of the range of codes */
    float move_step;           /* between these, relative to the scale, or in codes */
    /* For types that add a minimum: */
    codec_pairs
        placings; /* of the code range over the block's: steps by which the block reaches beyond either end */
    float placing_step; /* in codes */
    int polish;         /* times that codes are chosen anew for the best scale and minimum */
    /* In super-blocks: */
    int factors;            /* sizes of the factors that packed scales and minimums are multiplied with */
    codec_pairs neighbours; /* packed scale and minimum relative to those that suit best */
    /* In grids: */
    struct {
        int tries;   /* scales tried around the estimate, ... */
        float ratio; /* ... each so many times the one before */
        bool
            thorough; /* search with either of the signs, or shifts, that may be best, not the likelier one */
        bool negative; /* try a negative factor, too */
    } grid;
    /* In types of their own: */
    int reach;      /* NVFP4: scales tried below the usual one, and half of those above */
    bool canonical; /* Q8_0: no search, but the bytes that everyone else writes */
} codec_search;

/* ---- encoding column by column ----
 * For callers that round a weight knowing what became of those before it. A batch is kernels.lanes rows at
 * the same block of columns; a row is a lane. What is given per row is given for all lanes, lane after lane:
 * weights of a block as x[block_elements][lanes]. Of rows that are fewer, the last one is repeated.
 *
 *     for each block of columns, in order:      choose(state, ...)
 *         for each column of it, in order:      round(state, column, ...), which may be called again
 *     when the gains of the rows are known, for each block: finish(state, gain, ...)
 *
 * A type whose rows have a header chooses it before the first block of a row, begin(states, ...), and writes it
 * when the gain is known, finish_headers(state, gain, ...). A type whose codes are a path through a trellis has
 * a group of as many columns as are chosen at once, which can be all of a block.
 *
 * Lanes are independent. Plain encoding is: choose; round each column with the weights that choose saw;
 * finish with what gain_kept says of these; and zeros in place of a block of weights so tiny that zeros are
 * nearer to them. */
typedef struct codec_columnwise {
    size_t state_bytes; /* of one block of a batch; the caller's, aligned to 64 */
    /* Columns that are rounded together: 1, more where a code stands for several weights or depends on
     * others; a divisor of the block's columns and of CODEC_MOST_GROUP. */
    size_t group;
    const codec_search (*searches)[2]; /* by effort, then without and with importance */

    /* Choose the block's scales for weights x, and freeze them. importance: one value >= 0 per column, the
     * same for all rows, or NULL. search: one of searches. */
    void (*choose)(void *state, const float *x, const float *importance, const codec_search *search);
    /* The codes nearest to x[group][lanes] in columns column .. column + group - 1 of the block, and what
     * they decode to as long as the gain is 1. */
    void (*round)(void *state, size_t column, const float *x, float *decoded);
    /* Returns the lowest and the highest value that round may return for these columns. */
    void (*ends)(const void *state, size_t column, float *low, float *high);
    /* The gain per lane that keeps the blocks' projection on weights x, as far as the type's plain encoding
     * keeps it. decoded: as round returned them. */
    void (*gain_kept)(const void *state, const float *x, const float *decoded, const float *importance,
                      float *gain);
    /* Multiply the block's factors by a gain per lane and write the first `rows` blocks, `stride` bytes
     * apart. Types whose scales are not binary16 (MXFP4, NVFP4) have no use for a gain. */
    void (*finish)(const void *state, const float *gain, uint8_t *blocks, size_t stride, size_t rows);

    /* NULL but where a type needs them: */
    /* round for a path: the codes of a group for which the errors e = x - decoded cost least together, the
     * sum over columns c of (sum over k <= c of e_k root[k][c])^2. root: rows STRIP_COLUMNS floats apart. */
    void (*round_path)(void *state, size_t column, const float *x, const float *root, float *decoded);
    /* Choose the headers of rows with weights x, `step` floats from a column to the next, and note them in the
     * states of all their blocks, `state_stride` bytes apart. */
    void (*begin)(void *states, size_t state_stride, const float *x, size_t step, size_t columns);
    /* Multiply the headers by a gain per lane, in place of the blocks' factors, and write the first `rows` of
     * them, `stride` bytes apart. state: of any block. */
    void (*finish_headers)(const void *state, const float *gain, uint8_t *headers, size_t stride,
                           size_t rows);
} codec_columnwise;
enum {
    CODEC_MOST_GROUP = 32,
};

/* Sums over a run of rows, each in an order that is fixed by the shape alone, so that adding chunks in their
 * order gives the same report for any number of threads. */
typedef struct codec_error {
    uint64_t n;
    double x2, e2;   /* sum x^2, sum (x - x')^2 */
    double wx2, we2; /* the same under importance; equal to x2, e2 without */
    float max_e;     /* largest |x - x'| */
} codec_error;
typedef void codec_measure(const float *x, const float *decoded, size_t rows, size_t cols,
                           const float *importance, codec_error *sum /* added to */);

/* ---- rows times a vector ----
 * out[r] = sum over columns of decoded weight times x, of n rows one after another, which need not be
 * aligned. codec/vector.h says what a vector is, in which order is added, and how near to exact a result is:
 * off by (cols / 8 + 16) 2^-24 of what is added without signs, and of blocks by about 2^-16 of that more. */
typedef struct codec_vector codec_vector;
typedef void codec_dot(const uint8_t *blocks, size_t n, size_t cols, const codec_vector *v, float *out);

typedef struct codec {
    uint32_t type;        /* GGUF id */
    codec_decode *decode; /* NULL: not supported */
    codec_encode *encode; /* NULL: decode only */
    /* Largest |x| that encode can store; beyond it the caller must refuse. Infinity: any finite. */
    float max_magnitude;
    const codec_columnwise *columnwise; /* NULL: no encoder, or numbers rather than blocks */
    codec_dot *dot;                     /* NULL: the type has no decoder */
} codec;

/* Decodes n elements of rows of so many columns, as tensor_type_bytes counts them: whole rows, or a part of
 * one. */
static inline void codec_decode_rows(const codec *c, const uint8_t *rows, size_t columns, float *x,
                                     size_t n) {
    const tensor_type *type = tensor_type_of(c->type);
    size_t step = type->row_header_bytes && columns < n ? columns : n;
    for (size_t at = 0; at < n; at += step)
        c->decode(rows + tensor_type_bytes(type, columns, at), 0, x + at, step);
}

struct feedback_task;
struct feedback_sums;
/* The kernels of one ISA level. */
struct kernels {
    size_t lanes;        /* rows of a batch; at most CODEC_MOST_LANES */
    const codec *codecs; /* indexed by GGUF type id, GGUF_TYPE_LIMIT rows; .decode NULL where unknown */
    /* Index of the first Inf or NaN, n when there is none. */
    size_t (*first_not_finite)(const float *x, size_t n);
    codec_measure *measure;
    const product_kernels *products[MATMUL_ARITHMETICS]; /* ask kernels_products for them */
    /* codec/feedback.h */
    void (*feedback)(const struct feedback_task *t, const float *x, size_t rows, uint8_t *blocks,
                     struct feedback_sums *sums);
    /* Looks at every byte and does nothing else: what memory can give. Returns a sum that means nothing. */
    uint64_t (*read)(const uint8_t *bytes, size_t n);
};
enum { CODEC_MOST_LANES = 16 };

/* Plain scalar decoders written from the format description, one element at a time: what the kernels are
 * checked against. */

bool reference_decode(uint32_t type, const uint8_t *blocks, float *x, size_t n);
/* |scale code| + |minimum| of each element, or a little more: what the error of codec_dot is measured by. */
bool reference_magnitude(uint32_t type, const uint8_t *blocks, float *a, size_t n);
