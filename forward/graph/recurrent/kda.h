/* The numbers of KDA, some of which only the keys of one architecture say (own_keys.c). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

typedef struct kda_numbers {
    size_t taps;                 /* tokens that a convolution sees */
    size_t head;                 /* features of a head */
    bool is_flat;                /* ssm_a has one dimension */
    bool has_bound, is_positive; /* decays have a lower bound; ssm_a is stored positive */
    float bound;
    float
        unit_eps; /* beside the sum of squares where queries and keys get unit length; 0: the eps of norms */
} kda_numbers;

typedef struct kda_layer {
    size_t heads;
} kda_layer;
