/* A worker's steps for a chunk: read, decode, and for each output encode, measure the error and write. */
#pragma once

#include "quantize/run/output.h"
#include "quantize/strips/strip.h"

/* The sizes of a thread's scratch for a plan. */
typedef struct work_scratches {
    size_t strip, tile; /* elements at most: of a strip, of a tile (0: nothing is transposed) */
    size_t in, bytes;   /* bytes: of the input's strip as stored, of the whole scratch */
    size_t n_outputs;
} work_scratches;

typedef struct work_scratch {
    uint8_t *in, *out;
    float *x, *decoded, *tile;
    chunk_sum *sums;     /* one per output: the result */
    codec_error *errors; /* one per output */
} work_scratch;

void work_scratches_measure(work_scratches *r, const gq_plan *plan);
/* Lays a thread's scratch out in `memory`: r->bytes, aligned to 64. */
work_scratch work_scratch_in(const work_scratches *r, void *memory);

/* The state that the chunks of a tensor share: opened before the first of them, closed after the last. Chunks
 * may be done by several threads at once meanwhile. */
typedef struct work_tensor {
    const gq_plan *plan;
    size_t number;
    const plan_source *source;
    size_t strip;  /* elements at most */
    bool digested; /* an output keeps a checksum of its weights */
    struct work_output {
        const gq_tensor *to;
        bool calibrated;                  /* its blocks are in the output already */
        const struct reuse_offer *reused; /* its blocks are in an earlier output; NULL: they are made */
        size_t encoder; /* the first output that gives the tensor this type, and encodes for all that do */
        strip_encoder with; /* all but importance, which changes from strip to strip */
    } outputs[];
} work_tensor;

/* reused: whether each output's tensor is copied from an earlier one, output by output; NULL: none is. */
work_tensor *work_tensor_open(const gq_plan *plan, size_t number, const bool *reused, gq_error *e);
void work_tensor_close(work_tensor *t);

/* Does chunk i, which is one of the tensor's. The results are in scratch->sums, one per output. */
bool work_chunk(const work_tensor *t, const output_set *outputs, uint64_t i, const work_scratch *scratch,
                gq_error *e);
/* Whether the outputs hold chunk i as scratch->sums says, by reading it back. */
bool work_verify(const gq_plan *plan, const output_set *outputs, uint64_t i, const work_scratch *scratch);

/* Reads the chunk's weights and, for each output, the blocks that are offered to it: offers, one list of
 * tensors per output, NULL: none. The first strip is encoded, too, and without digests all are.
 * scratch->sums, one per output, get two checksums, `source` of the weights and `crc` of the blocks.
 * scratch->errors[o].n is WORK_UNLIKE where encoding gives other blocks. */
#define WORK_UNLIKE UINT64_MAX
bool work_check_offers(const work_tensor *t, const struct reuse_offer *const *offers, uint64_t i,
                       const work_scratch *scratch, gq_error *e);

/* Returns the seconds, about, that a thread takes for each weight of a tensor, in all outputs: the share of a
 * run that is told is counted by them, as types are encoded at speeds that differ by ten times and more, and a
 * copy costs next to nothing. reused: per output and tensor, or NULL. */
double run_cost_per_weight(const gq_plan *plan, size_t tensor, const bool *reused);
