/* The rows of the table of architectures that stand in files of their own, and what many rows share. */
#ifndef GQ_FORWARD_ROWS_H
#define GQ_FORWARD_ROWS_H

#include "graph/architectures.h"

enum { ROWS_DENSE = 17, ROWS_OLDER = 14, ROWS_MIXTURES = 26, ROWS_RECURRENT = 16 };
extern const architecture rows_dense[ROWS_DENSE];         /* today's models without experts */
extern const architecture rows_older[ROWS_OLDER];         /* models from before 2024 */
extern const architecture rows_mixtures[ROWS_MIXTURES];   /* today's models with experts */
extern const architecture rows_recurrent[ROWS_RECURRENT]; /* models with other mixers than attention */

/* Routing rules that many rows have. */
#define ROUTING_SOFT \
    { .function = ROUTER_SOFTMAX }
#define ROUTING_SOFT_ONE \
    { .function = ROUTER_SOFTMAX, .sum = SUM_IS_ONE }
/* Follows the metadata; `absent` where they do not say the function. */
#define ROUTING_KEYS(absent, key) \
    { .function = (absent), .function_key = (key), .sum = SUM_BY_KEY, .scale_key = true, .has_groups = true }
#define ROUTING_KEYS_SOFTMAX ROUTING_KEYS(ROUTER_SOFTMAX, OPTIONAL)
#define ROUTING_KEYS_SIGMOID ROUTING_KEYS(ROUTER_SIGMOID, OPTIONAL)
#define ROUTING_KEYS_REQUIRED ROUTING_KEYS(ROUTER_SOFTMAX, REQUIRED)
/* Softmax or another function, weights with sum 1 and no scale; from models with groups on. */
#define ROUTING_FUNCTION_ONE \
    { .function = ROUTER_SOFTMAX, .function_key = REQUIRED, .sum = SUM_IS_ONE, .has_groups = true }
#define ROUTING_FUNCTION_ONE_SCALED \
    { \
        .function = ROUTER_SOFTMAX, .function_key = REQUIRED, .sum = SUM_IS_ONE, .scale_key = true, \
        .has_groups = true \
    }
#define ROUTING_GROUPS_SOFT_ONE \
    { .function = ROUTER_SOFTMAX, .sum = SUM_IS_ONE, .has_groups = true }

#endif
