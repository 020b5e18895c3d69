/* The order of sums over the tokens of a text: of second moments, of squares of inputs, of scores.
 *
 * A text is cut into windows of `context` tokens, numbered from 0. Neighbouring windows form a group: as many
 * as TOKEN_GROUP tokens hold, at least one. What belongs to a group follows from the window's number alone,
 * not from what is left out of the sum (windows that are held back, tokens that an expert does not see).
 *
 * The sum of a group is one chain over its tokens in their order, from 0. Groups that have no token in the
 * sum are left out. So totals do not depend on threads, batches or memory. How groups are added depends on
 * how large their sums are:
 *
 *     squares of inputs: in a fixed binary tree by the groups' numbers (base/comm/fold.h)
 *     second moments, scores: ((0 + group 0) + group 1) + group 2 ...
 *
 * A rank that has contiguous groups adds the subtrees that it has wholly, and hands on about one sum for each
 * level of the tree. A single process holds as many, which is little for squares, a number per column. Of
 * second moments one sum is as large as the total, gigabytes, so a process that holds one per level is out of
 * the question. Scores are numbers per position, which all ranks get, and are added afterwards.
 *
 * 512 tokens are the usual length of a window. Errors of a sum in float32 come from the longer of both
 * chains, that of a group and that over the groups; docs/internals/forward.md has them beside those of a single chain.
 * Each group costs one addition per element of the sum and, between processes, its transfer.
 */
#pragma once

#include <stddef.h>

enum { TOKEN_GROUP = 512 };

static inline size_t token_group_windows(size_t context) {
    return context < TOKEN_GROUP ? TOKEN_GROUP / context : 1;
}
/* All tokens of a group. Token t of the text is in group t / token_group_size. */
static inline size_t token_group_size(size_t context) { return token_group_windows(context) * context; }
