/* The files of rows, and what many rows share. */
#pragma once

#include "arch/arch.h"
#include "arch/kv.h"
#include "arch/rules.h"

/* Lists that stand in a row. */
/* clang-format off */
#define METADATA(...) (const arch_item[]) { __VA_ARGS__, END }
#define RULES(...) (const arch_rule[]) { __VA_ARGS__, { .from = NULL } }
#define RENAMES(...) (const arch_rename[]) { __VA_ARGS__, { .from = NULL } }
#define MARKS(...) (const arch_image_mark[]) { __VA_ARGS__, { .has = { NULL } } }
/* clang-format on */
/* A tensor that folders have, its sizes, then other members. */
#define SHAPED(name, sizes, ...) \
    { .tensor = (name), .shape = sizes, __VA_ARGS__ }

#define SHAPED_FFN \
    SHAPED("blk.#.ffn_norm.weight", DIMS(DIM_WIDTH)), \
        SHAPED("blk.#.ffn_gate.weight", DIMS(DIM_WIDTH, DIM_FEED_FORWARD)), \
        SHAPED("blk.#.ffn_up.weight", DIMS(DIM_WIDTH, DIM_FEED_FORWARD)), \
        SHAPED("blk.#.ffn_down.weight", DIMS(DIM_FEED_FORWARD, DIM_WIDTH))

#define MIXERS(...) .mixers = {__VA_ARGS__}
/* Common to most rows: attention in all layers, with optional biases of queries, keys and values, and these
 * feed-forward sublayers. */
#define ATTENTION_AND(...) MIXERS(MIXER_ATTENTION), .ffns = {__VA_ARGS__}, .qkv_bias = OPTIONAL

/* Members of `has`: tensors that layers of a row's models may have or must have. */
#define MAY_HAVE(weight) [weight] = OPTIONAL
#define MUST_HAVE(weight) [weight] = REQUIRED
/* Files of a vocabulary as Llama's. */
#define TOKENIZER_LLAMA \
    { .files = {FILE_MODEL, FILE_PIECES, FILE_BYTES}, .exceptions = TOKENS_LLAMA }

/* A file's rows; the last one's name is NULL. */
extern const architecture arch_rows_llama[], arch_rows_qwen[], arch_rows_gemma[], arch_rows_latent[],
    arch_rows_kda[], arch_rows_granite[], arch_rows_makers[], arch_rows_recurrent[], arch_rows_experts[],
    arch_rows_plain[], arch_rows_images[], arch_rows_encoders[], arch_rows_others[], arch_rows_diffusion[],
    arch_rows_drafts[];

/* Lists that others begin with: sizes that all models have; those and all else that llama.cpp's converter
 * looks for in any config; llama's; and the widths of latent attention. */
extern const arch_item arch_core[], arch_base[], arch_llama[], arch_latent_sizes[], arch_deepseek4[],
    list_gemma3[];

extern const arch_rule arch_latent_rules[];    /* two matrices in place of a wide one, and an indexer */
extern const arch_rule arch_permuted_rules[];  /* queries and keys whose pairs are halves apart, as llama's */
extern const arch_rule arch_after_attention[]; /* the norm behind attention is called by its place */
extern const arch_rename arch_backbone_renames[];

/* ---- names of source tensors under which a layer has its own ---- */

#define FALCON(from, to, ...) RULE("transformer.h.#." from, "blk.#." to, __VA_ARGS__)
#define MAMBA(prefix, a) \
    RULE(prefix "conv1d", "blk.#.ssm_conv1d", OP_SQUEEZE), RULE(prefix "dt_proj", "blk.#.ssm_dt"), \
        RULE(prefix "x_proj", "blk.#.ssm_x"), RULE(prefix "in_proj", "blk.#.ssm_in"), \
        RULE(prefix "out_proj", "blk.#.ssm_out"), RULE(prefix "A_log", "blk.#.ssm_a", a)
#define MAMBA2(prefix) \
    RULE(prefix "D", "blk.#.ssm_d", OP_APPEND_DIM), \
        RULE(prefix "norm", "blk.#.ssm_norm", OP_RESHAPE_NORM_GROUPS)
#define BACKBONE(from, to, ...) RULE("backbone.layers.#." from, "blk.#." to, __VA_ARGS__)
#define BACKBONE_ENDS \
    RULE("backbone.embeddings", "token_embd"), RULE("backbone.embedding", "token_embd"), \
        RULE("backbone.norm_f", "output_norm"), BACKBONE("norm", "attn_norm")

/* ---- routing ---- */

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
