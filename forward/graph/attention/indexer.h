/* The choice of keys in sparse attention: each token attends to the `top` keys of the largest scores. */
#pragma once

#include "forward/graph/attention/attention.h"
#include "forward/graph/sublayer.h"

typedef struct indexer_numbers {
    size_t heads, head; /* heads 0: there is no indexer */
    size_t top;         /* with fewer tokens there is nothing to choose */
    size_t pool;        /* keys that share one, and are chosen together; 0: each has its own */
    float eps;          /* of the norm of its keys; 0: the model's */
} indexer_numbers;

/* Per window, block of QUERIES queries and key: a bit for each query that attends to the key. NULL: there is
 * nothing to choose. */
typedef struct indexer_scratch {
    uint64_t *chosen;
    float *sorted; /* [threads][context] */
} indexer_scratch;

/* Reads heads of queries, values of a head, and how many keys are chosen. */
void indexer_read_sizes(key_reader *r, size_t *heads, size_t *head, size_t *top);
/* Refuses heads of which rope could not rotate so many values. */
void indexer_check_head(const indexer_numbers *n, key_reader *r, size_t rotated);
void indexer_read_keys(indexer_numbers *n, const forward_model *m, key_reader *r);
/* Whether a layer chooses for itself; else it uses the choice of the last layer before it that does. */
bool indexer_layer_chooses(const forward_model *m, key_reader *r, size_t layer);
/* Between layers a choice is rows of the hidden state, which this counts for a window, and which are written
 * from `chosen` or read back to it. */
uint64_t indexer_choice_rows(const indexer_numbers *n, size_t context);
void indexer_copy_choice(const forward_batch *b, const indexer_scratch *own, float *rows, size_t stride,
                         bool to_rows);
/* In layers that do not choose the tensors may be there, without an effect. */
void indexer_find_tensors(const indexer_numbers *n, tensor_finder *f, uint64_t q_rank, bool chooses);
/* Rows of `work` that indexer_choose needs, and memory for its choice. */
uint64_t indexer_count_rows(const indexer_numbers *n);
void indexer_lay_out(const indexer_numbers *n, indexer_scratch *own, const forward_batch *b, scratch *s);
/* Adds a head's share to sum[key][query], of z, the products of its queries with keys, and its weight per
 * query. */
void indexer_add_head(const float *z, const float *weight, float *sum, size_t keys, size_t n);
/* Sets the bit of one query for the `top` keys of the largest sums, of `keys` ones. */
void indexer_choose_keys(size_t top, const float *sum, size_t query, size_t keys, uint64_t *chosen,
                         float *sorted);
/* The mean of n values by a softmax of scores, which are used up. */
float indexer_mean(const element_kernels *k, const float *x, float *score, size_t n);
/* Makes the choice of the layer's input, x, and of the latent queries, low. scores: for each thread memory of
 * scores_each floats, at least 2 QUERIES for each token. */
typedef struct indexer_task {
    const indexer_numbers *n;
    const indexer_scratch *own;
    const float *x, *low;
    size_t x_stride, rotated; /* rotated: values that rope rotates */
    float *work, *scores;
    size_t scores_each;
} indexer_task;
void indexer_choose(forward_batch *b, const sublayer_spec *p, const indexer_task *t);
