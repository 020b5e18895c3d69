/* Running models over a whole text, a layer at a time: the weights of one layer are in memory, the hidden
 * hidden states of all tokens, and what a batch of windows needs meanwhile. Hidden states that do not fit into memory
 * are in a file, read and written once per layer, or per sublayer.
 *
 *     forward_bounds bounds = forward_bounds_of(&job, &m, 1, false);
 *     forward_run *r = forward_run_new(&job, &bounds, &e);
 *     forward_stream *s = forward_stream_new(r, m, NULL, &e);
 *     forward_stream_embed(s, NULL, &e);
 *     for (size_t i = 0; i < forward_model_sizes(m)->layers; i++)
 *         l = forward_run_layer(r, m, i, &e), forward_stream_pass(s, l, FORWARD_WHOLE, observer, &e);
 *     forward_run_head(r, &s, 1, &head, &e);
 *
 * The loop over layers is the caller's. Several streams (copies of a model, or the same model twice) go
 * through a layer one after another, and between two layers, or before a layer's weights are used, anything
 * can be done to them: activations can be looked at first, batch by batch and as often as wanted, and weights
 * be replaced by what was learned from it. Values depend neither on batches, nor on where hidden states are.
 */
#pragma once

#include <stddef.h>

#include "forward/graph/block.h"
#include "forward/graph/forward.h"
#include "forward/graph/layer.h"
#include "forward/stream/job.h"

/* The order of sums over the tokens of a text: of Hessians, of squares of inputs, of scores.
 *
 * A text is cut into windows of `context` tokens, numbered from 0. Neighboring windows form a group: as many
 * as TOKEN_GROUP tokens hold, at least one. What belongs to a group follows from the window's number alone,
 * not from what is left out of the sum (validation windows that are held out, tokens that are not routed to
 * an expert).
 *
 * The sum of a group is one chain over its tokens in their order, from 0. Groups that have no token in the
 * sum are left out. So totals do not depend on threads, batches or memory. How groups are added depends on
 * how large their sums are:
 *
 *     squares of inputs: in a fixed binary tree by the groups' numbers (base/comm/fold.h)
 *     Hessians, scores: ((0 + group 0) + group 1) + group 2 ...
 *
 * A rank that has contiguous groups adds the subtrees that it has wholly, and hands on about one sum for each
 * level of the tree. A single process holds as many, which is little for squares, a number per column. Of
 * Hessians one sum is as large as the total, gigabytes, so a process that holds one per level is out of
 * the question. Scores are numbers per position, which all ranks get, and are added afterwards.
 *
 * 512 tokens are the usual length of a window. Errors of a sum in float32 come from the longer of both
 * chains, that of a group and that over the groups; docs/internals/forward.md has them beside those of a
 * single chain. Each group costs one addition per element of the sum and, between processes, its transfer. */

enum { TOKEN_GROUP = 512 };

static inline size_t token_group_windows(size_t context) {
    return context < TOKEN_GROUP ? TOKEN_GROUP / context : 1;
}
/* All tokens of a group. Token t of the text is in group t / token_group_size. */
static inline size_t token_group_size(size_t context) { return token_group_windows(context) * context; }

/* ---- a run: what its streams share ---- */

typedef struct forward_run forward_run;
forward_run *forward_run_new(const forward_job *j, const forward_bounds *b, gq_error *e);
void forward_run_free(forward_run *r);
/* The run's threads, for other work between its passes. */
threads_pool *forward_run_pool(const forward_run *r);
/* The weights of layer i, valid until another layer is asked for, or the output matrix's input, or logits;
 * the system is asked to read those of the layer behind it ahead. One model's are in memory at a time, with
 * what its batches need. */
forward_layer *forward_run_layer(forward_run *r, const forward_model *m, size_t i, gq_error *e);

/* ---- a stream: the hidden states of a model ---- */

/* The file that hidden states are written to when a layer is done: `slots` (1 or 2) slots of
 * forward_stream_bytes from `at` on. With two of them a layer's hidden states are read from one and written
 * to the other, so that those before it stay until it is done. The layout depends on nothing but the model's
 * width and the windows. */
typedef struct hidden_state_slots {
    int fd;
    const char *path; /* for messages */
    uint64_t at;
    unsigned slots;
    size_t all_windows; /* of a loop, where a slot has other processes' windows, too, and `at` is where the
                           stream's own begin; 0: there are no others */
} hidden_state_slots;
/* windows: of all loops together. */
uint64_t forward_stream_bytes(const forward_model *m, size_t windows, size_t context);
/* A file without a name for such slots, in a folder, with its space set aside; -1: *e says why. */
int hidden_state_slots_open(const char *folder, uint64_t bytes, gq_error *e);

typedef struct forward_stream forward_stream;
/* file: needed where hidden states are not in memory, else they are written there, too; NULL: nowhere. */
forward_stream *forward_stream_new(forward_run *r, const forward_model *m, const hidden_state_slots *file,
                                   gq_error *e);
void forward_stream_free(forward_stream *s);
/* States before the first layer, in slot 0. rows: as in forward_embed. */
bool forward_stream_embed(forward_stream *s, const forward_rows *rows, gq_error *e);
/* The hidden states of another stream of the run, of a model as wide; both in memory. */
void forward_stream_copy(forward_stream *s, const forward_stream *from);
/* A checksum of a loop's windows in the slot that was written last, to be compared with what is found there
 * later: 2^32 and the CRC-32 of their bytes; 0: none has been written. */
uint64_t forward_stream_sum(const forward_stream *s, size_t loop);
/* States that an earlier run left in a slot. */
bool forward_stream_resume(forward_stream *s, unsigned slot, gq_error *e);
/* All windows through the layer, in order; or through a sublayer, the first and then the second. observer:
 * may be NULL. The hidden states are put into the next slot when the last sublayer is done. Where they are not in
 * memory that slot has the first sublayer's meanwhile, too, and until the last sublayer is done the hidden states
 * before the layer stay in theirs: an earlier run that was killed between the sublayers is resumed before the
 * layer. */
bool forward_stream_pass(forward_stream *s, const forward_layer *l, forward_sublayers which,
                         const forward_observer *observer, gq_error *e);

/* From now on what is next is an MTP layer of the stream's model (forward/graph/draft/draft.h): passes and
 * probes run its layer, whole, on the hidden states that the model's last layer left, and leave these as they
 * are. NULL: no block. */
void forward_stream_mtp(forward_stream *s, const forward_model *mtp);

/* All windows of the loops from `loop` on through the layer; those of the loops before stay as they are. The
 * hidden states are put into the next slot. */
bool forward_stream_pass_loops(forward_stream *s, size_t loop, const forward_layer *l, gq_error *e);
/* Whether the layer is idle for a batch's hidden states: of the loops whose hidden states pass the last
 * loop's layers side by side some may skip a layer. */
bool forward_stream_skips(const forward_stream *s, size_t batch, const forward_layer *l);
/* States of the same loops become those that another stream of the run has now, of a model as wide; they are
 * put into the next slot. */
bool forward_stream_follow(forward_stream *s, forward_stream *from, size_t loop, gq_error *e);

/* The hidden states of a batch as they are now, and the floats from one feature's row to the next; valid
 * until the next call. NULL: *e says why. */
const float *forward_stream_hidden_states(forward_stream *s, size_t batch, size_t *stride, gq_error *e);

/* Batches are within a loop, one loop after another, and all but a loop's last have bounds.batch windows. */
size_t forward_stream_batches(const forward_stream *s);
/* Windows of a batch, at most. */
size_t forward_stream_windows(const forward_stream *s);
/* The loop of batch i, and the number of its first window among those of the loop. */
size_t forward_stream_loop(const forward_stream *s, size_t batch);
size_t forward_stream_first(const forward_stream *s, size_t batch);
/* One batch through what is next, the layer or a sublayer, to observe its activations; the hidden states
 * stay. *after: the batch's state behind it, [features][forward_stride(tokens)], until the next call; it means
 * nothing where the observer has ended the call. after may be NULL. */
bool forward_stream_probe(forward_stream *s, size_t batch, const forward_layer *l, forward_sublayers which,
                          const forward_observer *observer, const float **after, gq_error *e);

/* ---- results that are kept ---- */

/* Cache of products that probes of a sublayer keep for later probes and for the pass, so that they are
 * not computed again for each site: in memory, and beyond that in a file without a name. It serves two sides
 * at a time, a stream of the base model and one of a quant. Values do not depend on it. */
typedef struct probe_cache probe_cache;
enum { PROBE_CACHE_SIDES = 2 };
typedef struct probe_cache_plan {
    uint64_t token_bytes[PROBE_CACHE_SIDES]; /* probe_cache_sizes */
    uint64_t memory, file;                   /* bytes, at most */
    const char *folder;                      /* for the file; NULL: there is none */
} probe_cache_plan;
/* Bytes per token with which everything is kept, for each side. experts_used: experts that a token meets; 0:
 * unknown, so all of them count. */
void probe_cache_sizes(const forward_model *m, uint64_t experts_used,
                       uint64_t token_bytes[PROBE_CACHE_SIDES]);
/* Bytes that a file in this folder may take, with part of the disk left free; as many as can be counted where
 * that is not known. */
uint64_t probe_cache_room(const char *folder);
/* Works without the memory or file that it cannot get. NULL: *e says why. */
probe_cache *probe_cache_new(const probe_cache_plan *p, gq_error *e);
void probe_cache_free(probe_cache *k);
/* From now on the stream's probes keep their results there. side 0: weights are never replaced in this
 * stream; 1: they are, and those that are still to come were announced by forward_layer_expect. Streams of
 * one side take turns: each passes the sublayer before the next one is looked at. */
void forward_stream_cache(forward_stream *s, probe_cache *k, unsigned side);

/* ---- logits ---- */

enum { HEAD_ROWS = 1024 }; /* tokens of the vocabulary at once, at most */

/* Sums of squares of the weights' inputs. */

/* sums[c] += the squares of feature c, token after token; sums[in->features]. */
void forward_add_squares(const forward_inputs *in, double *sums, threads_pool *pool);
