/* The input activations of each weight of a model that is run: all rows, and the sum of their squares. */
#pragma once

#include "forward/graph/forward.h"

typedef struct fed {
    char name[64];
    double rows, squares;
} fed;
enum { FED_MOST = 1024 };
typedef struct fed_list {
    fed weights[FED_MOST];
    size_t n;
} fed_list;

/* NULL: no inputs were reported for a weight of that name. */
fed *fed_of(fed_list *l, const char *name);
/* A forward_observer's on_inputs; data: a fed_list. */
forward_answer fed_take(void *data, const forward_inputs *in, gq_error *e);
