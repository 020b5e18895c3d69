/* The metric of the scores: how much errors in the rows of a layer's queries, keys and values change what its
 * attention gives, rows of a head together.
 *
 * An error in a query matters as far as the keys that it meets differ under the softmax. For a query t of a
 * head, p its weights over the keys k, the KL divergence of the weights grows with e C e^T,
 *
 *     C = sum over keys s of p_s d_s^2 k_s k_s^T - (sum of p_s d_s k_s) (the same)^T,
 *
 * d the slope of the cap on scores, 1 where there is none; sinks take a share of the weights and have no key.
 * Likewise an error in a key s counts with the sum over queries t of p_ts (1 - p_ts) d_ts^2 q_t q_t^T, and an
 * error in a value with Wo^T Wo, Wo the columns of attn_output that read the head. As weights make rows
 * before the norms of q and k and before rope, both are taken back: each matrix is rotated by its position's
 * angles the other way, and multiplied by the products of the norm's weights. What a norm's divisor does is
 * left out, and so are gates on what heads give.
 *
 * Queries and keys at every n-th position of a window are added up, in float64 and in a fixed order. */
#pragma once

#include "forward/graph/forward.h"

typedef enum forward_row_kind { ROWS_OF_QUERIES, ROWS_OF_KEYS, ROWS_OF_VALUES } forward_row_kind;

/* Rows of a weight: those of head h begin at row first + h * stride. */
typedef struct forward_row_group {
    const model_tensor *weight;
    forward_row_kind kind;
    size_t first, stride;
    size_t heads, rows; /* rows: of a head; with keys of which only some are the weight's, the first ones */
} forward_row_group;

enum { FORWARD_MOST_GROUPS = 3 };
/* The groups of a layer, at most FORWARD_MOST_GROUPS, one of each kind and queries first. Returns how many
 * there are: 0 where the layer has no attention of heads, or one whose rows are not made by a matrix each. */
size_t forward_row_groups(const forward_model *m, size_t layer, forward_row_group *groups);

/* Calls are made from on_scores of a forward_observer, with groups of the layer that is run. */

/* Adds the metrics of queries and keys in one of the batch's windows: metrics[i][head][row][row] of
 * groups[i], n of them. marks: of the window's tokens, whose queries count by their weights; NULL: all alike.
 * every: positions from one that is looked at to the next. False: no memory. */
bool forward_scores_add(const forward_scores *s, const forward_row_group *groups, size_t n, size_t window,
                        const forward_mark *marks, size_t every, double *const *metrics, gq_error *e);
/* Adds the metric of values, by the layer's own attn_output. */
bool forward_scores_add_values(const forward_scores *s, const forward_row_group *group, double *metric,
                               gq_error *e);
/* Bytes that either call takes at most. */
uint64_t forward_scores_bytes(const forward_row_group *groups, size_t n, size_t context, size_t every,
                              int threads);
