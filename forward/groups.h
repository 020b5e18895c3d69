/* The order of sums over the tokens of a text: of second moments, of squares of inputs, of scores.
 *
 * A text is cut into windows of `context` tokens, numbered from 0. Neighbouring windows form a group: as many
 * as TOKEN_GROUP tokens hold, at least one. What belongs to a group follows from the window's number alone,
 * not from what is left out of the sum (windows that are held back, tokens that an expert does not see).
 *
 *     sum of a group = one chain over its tokens in their order, from 0
 *     total          = ((0 + group 0) + group 1) + group 2 ..., without groups that have no token in the sum
 *
 * So the total does not depend on threads, batches or memory. Several processes can form it as well: process
 * r of n takes groups r, r + n, r + 2 n, ... All of them finish a group at about the same time; these n
 * groups are neighbours, and their sums are added to the total in order. A process then holds the sums of the
 * group at work, those of one finished group and its part of the total, for any number of processes.
 *
 * Rejected: a binary tree over the groups. A single process would hold a partial sum per level of it, and for
 * second moments a partial sum is as large as the total. Contiguous shares of groups for each process need
 * the same: a share is no single sum in any order that is fixed for all numbers of processes.
 *
 * 512 tokens are the usual length of a window. Errors of a sum in float32 come from the longer of both
 * chains, that of a group and that over the groups; docs/forward.md has them beside those of a single chain.
 * Each group costs one addition per element of the sum and, between processes, its transfer.
 */
#ifndef GQ_FORWARD_GROUPS_H
#define GQ_FORWARD_GROUPS_H

#include <stddef.h>

enum { TOKEN_GROUP = 512 };

static inline size_t token_group_windows(size_t context) {
    return context < TOKEN_GROUP ? TOKEN_GROUP / context : 1;
}
/* All tokens of a group. Token t of the text is in group t / token_group_size. */
static inline size_t token_group_size(size_t context) { return token_group_windows(context) * context; }

#endif
