/* The lists of items that say which metadata an architecture has: what the files of lists share. */
#ifndef GQ_HF_ARCH_LISTS_H
#define GQ_HF_ARCH_LISTS_H

#include "hf/arch_pairs.h"

typedef struct arch_row {
    const char *arch;
    const arch_item *list;
} arch_row;

/* The architectures of a file; the last row's name is NULL. */
extern const arch_row arch_rows_dense[], arch_rows_experts[], arch_rows_recurrent[];

/* Lists that others begin with: sizes that all models have; those and all else that llama.cpp's converter
 * looks for in any config; and those of a few families. */
extern const arch_item arch_core[], arch_base[], arch_llama[], arch_gemma3[], arch_granite_experts[];
extern const arch_item arch_phi3[], arch_exaone4[];

/* Names that configs have for the same. */
#define NAMES_CONTEXT \
    "max_position_embeddings|n_ctx|n_positions|max_length|max_sequence_length|model_max_length"
#define NAMES_WIDTH "hidden_size|n_embd|dim|d_model|n_embed"
#define NAMES_HEADS "num_attention_heads|n_head|n_heads"
#define NAMES_KV_HEADS "num_key_value_heads|n_kv_heads"
#define NAMES_FF "prefix_dense_intermediate_size|dense_intermediate_size|intermediate_size|n_inner|hidden_dim"
#define NAMES_RMS "rms_norm_eps|norm_eps"
#define NAMES_NORM "layer_norm_eps|layer_norm_epsilon|norm_epsilon"
#define NAMES_EXPERTS "num_local_experts|num_experts|n_routed_experts"
#define NAMES_USED "num_experts_per_tok|num_experts_per_token|top_k_experts"
#define NAMES_GATING \
    "score_function|scoring_func|score_func|moe_router_activation|moe_router_activation_func|" \
    "expert_selection_fn"

/* Items of the usual kinds: the pair's key, then where its value is, then what stands in for it. Those that
 * end in _NOT_ZERO take 0 for a missing value. */
#define ITEM(k, function) \
    { .key = (k), .make = (function) }
#define ITEM_NAMES(k, function, n) \
    { .key = (k), .make = (function), .names = (n) }
#define LIST(l) \
    { .make = pair_list, .list = (l) }
#define END \
    { .make = NULL }
#define U32(k, n) \
    { .key = (k), .make = pair_u32, .names = (n) }
#define U32_IF(k, n) \
    { .key = (k), .make = pair_u32, .names = (n), .need = IF }
#define U32_IF_NOT_ZERO(k, n) \
    { .key = (k), .make = pair_u32, .names = (n), .need = IF_NOT_ZERO }
#define U32_OR(k, n, v) \
    { .key = (k), .make = pair_u32, .names = (n), .need = OR, .value = (v) }
#define U32_OR_NOT_ZERO(k, n, v) \
    { .key = (k), .make = pair_u32, .names = (n), .need = OR_NOT_ZERO, .value = (v) }
#define U32_IS(k, v) \
    { .key = (k), .make = pair_u32, .value = (v) }
#define FLOAT(k, n) \
    { .key = (k), .make = pair_float, .names = (n) }
#define FLOAT_IF(k, n) \
    { .key = (k), .make = pair_float, .names = (n), .need = IF }
#define FLOAT_IF_NOT_ZERO(k, n) \
    { .key = (k), .make = pair_float, .names = (n), .need = IF_NOT_ZERO }
#define FLOAT_OR(k, n, v) \
    { .key = (k), .make = pair_float, .names = (n), .need = OR, .value = (v) }
#define FLOAT_OR_NOT_ZERO(k, n, v) \
    { .key = (k), .make = pair_float, .names = (n), .need = OR_NOT_ZERO, .value = (v) }
#define FLOAT_IS(k, v) \
    { .key = (k), .make = pair_float, .value = (v) }
#define BOOL(k, n) \
    { .key = (k), .make = pair_bool, .names = (n) }
#define BOOL_IF(k, n) \
    { .key = (k), .make = pair_bool, .names = (n), .need = IF }
#define BOOL_OR(k, n, v) \
    { .key = (k), .make = pair_bool, .names = (n), .need = OR, .value = (v) }
#define BOOL_IS(k, v) \
    { .key = (k), .make = pair_bool, .value = (v) }
#define LENGTHS_IF(k, n) \
    { .key = (k), .make = pair_lengths, .names = (n), .need = IF }
#define SHARE(k, function, n) \
    { .key = (k), .make = (function), .names = (n) }
#define SHARE_OR(k, function, n, v) \
    { .key = (k), .make = (function), .names = (n), .need = OR, .value = (v) }
#define SHARE_WHOLE(k, function) \
    { .key = (k), .make = (function), .value = 1 }

#endif
