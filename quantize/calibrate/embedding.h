/* The embedding of an output, before the first layer. Its rows are looked up, so its errors are in the state
 * of all layers. In a mixture of experts they move the routers, which then send tokens to other experts. So
 * there the embedding is rounded with error feedback, like a matrix whose inputs are the routers' rows:
 *
 *     H = 2 G_0 + G_1 + G_2 + ... + a share of the mean diagonal,  G_l = A^T A / trace,
 *
 * A the rows of the l-th router as forward_router_read gives them. The first router counts twice: nothing has
 * been added to the embedding yet but the first mixer's output. That needs no text. The check is that of any
 * matrix: the error of what the routers read, which is less than plain encoding's or the latter is written.
 *
 * Where there are no routers, or the embedding is the output matrix as well, it is encoded by search alone.
 */
#ifndef GQ_CALIBRATE_EMBEDDING_H
#define GQ_CALIBRATE_EMBEDDING_H

#include "quantize/calibrate/round.h"

/* Whether the routers of a model's layers decide how its embedding is rounded. numbers: of the n layers that
 * are run; NULL: the first n. */
bool embedding_is_routed(const forward_model *m, const uint64_t *numbers, size_t n);
/* Rounds and writes the whole embedding of an output; t->inputs is not used. */
bool embedding_round(const round_task *t, calibrate_figures *sums, round_reason *why, gq_error *e);
/* Starts a stream with the output's embedding, tensor `number` of the job: what was written, decoded, or what
 * search alone will write. blocks: what was written; NULL: it is read from the file. */
bool embedding_start(const calibrate_job *job, size_t output, size_t number, const uint8_t *blocks,
                     forward_stream *stream, gq_error *e);

#endif
