/* The ids of a text, and how many of them may be held. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Zero it before the first use; ids is the owner's to free. */
typedef struct token_list {
    uint32_t *ids;
    size_t n, capacity;
    uint64_t dropped; /* bytes of the text that no token of the vocabulary stands for */
} token_list;

/* What a run may take, and when it stops. */
typedef struct token_limits {
    uint64_t tokens;               /* stop soon after so many, without an error; 0: at the end of the text */
    uint64_t memory;               /* bytes for ids and all that making them takes; 0: as many as it takes */
    bool (*cancelled)(void *user); /* asked now and then; NULL: nobody is asked */
    void *user;
    size_t piece, window; /* bytes that are cut into words, and joined, at once; 0: what does well */
} token_limits;

/* Whether nobody has asked to stop, and the list may become longer; asks now and then. */
bool token_limits_allow(const token_limits *limits, const token_list *list, gq_error *e);

/* Whether a list of so many ids may be held besides other bytes. */
bool token_limits_hold(const token_limits *limits, const token_list *list, uint64_t ids, uint64_t others,
                       gq_error *e);

bool token_list_add(token_list *l, uint32_t id, gq_error *e);
