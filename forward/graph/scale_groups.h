/* Tensors between which scales can be moved: whatever a column of some matrices is multiplied by, and the
 * weights that make what it reads divided by, logits stay the same, bit for bit with powers of two. */
#pragma once

#include "forward/graph/forward.h"

enum {
    FORWARD_GROUP_READERS = 8,
    FORWARD_GROUP_MAKERS = 2,
    FORWARD_SCALE_GROUPS = 6, /* of a block, at most */
};

typedef struct forward_scale_group {
    /* Matrices of `columns` columns each. */
    const model_tensor *readers[FORWARD_GROUP_READERS];
    size_t n_readers;
    size_t n_judged; /* the first readers, by which columns are judged: others are helpers (arch/weights.h) */
    size_t columns;
    /* A norm's weights and bias, one value per column for all readers; or a matrix, of which row
     * first_row + c makes column c. Then matrix i of the one reader reads what matrix i of the maker gives.
     */
    const model_tensor *makers[FORWARD_GROUP_MAKERS];
    size_t n_makers;
    bool of_rows;
    size_t first_row;
} forward_scale_group;

/* Fills the groups of block i, those of the output matrix where i is the number of blocks, and returns how
 * many there are. Parts of which it is not known have none. */
size_t forward_scale_groups(const forward_model *m, size_t i,
                            forward_scale_group groups[FORWARD_SCALE_GROUPS]);
