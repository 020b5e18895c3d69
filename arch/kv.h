/* The metadata of a model as its config has them: lists of items, each of which sets a key, or a few that belong
 * together. Later items replace the metadata of earlier ones, so that a list can begin with what others have and
 * state only what differs. */
#pragma once

/* Kinds of items, the function of hf/ for each, and the type of the key that it makes (arch_key_type). */
#define ARCH_MAKES(M) \
    /* items that any list may have */ \
    M(KV_LIST, kv_list, UNKNOWN)         /* all items of another list */ \
    M(KV_REMOVE, kv_remove, UNKNOWN)     /* takes a key away again */ \
    M(KV_U32, kv_u32, INTEGER)           /* an integer */ \
    M(KV_LENGTHS, kv_lengths, INTEGER)   /* an integer, or an array of them, one for each layer */ \
    M(KV_FLOAT, kv_float, FLOAT)         /* a number */ \
    M(KV_BOOL, kv_bool, BOOL)            /* true or false */ \
    M(KV_TEXT, kv_text, TEXT)            /* `names` itself */ \
    M(KV_COPY_TEXT, kv_copy_text, TEXT)  /* a text, where there is one */ \
    M(KV_BLOCKS, kv_blocks, INTEGER)     /* the number of blocks */ \
    M(KV_PREDICT, kv_predict, INTEGER)   /* the number of MTP layers; IF: where there is a name */ \
    M(KV_FIRST, kv_first, INTEGER)       /* the first entry of a list of equal integers, or an integer */ \
    M(KV_COUNT, kv_count, INTEGER)       /* the number of a list's entries; 0 without a list */ \
    M(KV_ZEROS, kv_zeros, INTEGER)       /* the number of zeros that a list begins with */ \
    M(KV_TIMES, kv_times, INTEGER)       /* `value` times an integer */ \
    M(KV_PRODUCT, kv_product, INTEGER)   /* of two integers, and of `value` where both are needed */ \
    M(KV_SUM, kv_sum, INTEGER)           /* of two integers */ \
    M(KV_QUOTIENT, kv_quotient, INTEGER) /* of two integers, rounded down */ \
    M(KV_KV_HEADS, kv_kv_heads, INTEGER) /* heads of keys and values; without a value all heads */ \
    M(KV_SHARE_OF_HEAD, kv_share_of_head, INTEGER) /* a factor's part of head_dim or width / heads */ \
    M(KV_SHARE_OF_EVEN_HEAD, kv_share_of_even_head, INTEGER) /* of width / heads */ \
    M(KV_SHARE_OF_WIDTH, kv_share_of_width, INTEGER)         /* of the width, then divided by heads */ \
    M(KV_SHARE_OF, kv_share_of, INTEGER)                     /* of the first of two names */ \
    M(KV_GATING, kv_gating, INTEGER) /* the function of the router's scores, by its name */ \
    M(KV_CAUSAL, kv_causal, BOOL)    /* only where attention is not */ \
    /* "NAME=TEXT": how many entries of a list are this text, up to another */ \
    M(KV_LEADING, kv_leading, INTEGER) \
    /* none, but "NAME=TEXT": the text, number, true or false that NAME has to be */ \
    M(KV_EXPECT, kv_expect, UNKNOWN) \
    M(KV_ROPE, kv_rope, UNKNOWN) /* the pairs of the rotation */ \
    /* metadata of rotations that stretch the base, or name it otherwise */ \
    M(KV_ROPE_MISTRAL, rope_mistral, UNKNOWN) \
    M(KV_ROPE_PHI, rope_phi, UNKNOWN) \
    M(KV_ROPE_HUNYUAN, rope_hunyuan, UNKNOWN) \
    M(KV_ROPE_HUNYUAN_EXPERTS, rope_hunyuan_experts, UNKNOWN) \
    M(KV_ROPE_NEMOTRON, rope_nemotron, UNKNOWN) \
    M(KV_ROPE_QWEN35, rope_qwen35, UNKNOWN) \
    M(KV_ROPE_SECTIONS, rope_section_list, UNKNOWN) /* parts of a head for time, height and width */ \
    M(KV_ROPE_GPTNEOX, rope_gptneox, UNKNOWN) \
    M(KV_ROPE_DEEPSEEK, rope_deepseek, UNKNOWN) \
    M(KV_ROPE_STEP, rope_step, UNKNOWN) \
    M(KV_ROPE_RATIO, rope_ratio, UNKNOWN) /* 10000 times a number */ \
    M(KV_ROPE_XD, rope_xd, UNKNOWN) \
    M(KV_ROPE_GROK, rope_grok, UNKNOWN) \
    M(KV_ROPE_PLAMO3, rope_plamo3, UNKNOWN) \
    /* arrays with a value for each layer; KV_LAYERS_FLAGS: names "NAME=TEXT", whether an entry is this text */ \
    M(KV_LAYERS_FLAGS, layers_flags, UNKNOWN) \
    M(KV_LAYERS_USED, layers_used, UNKNOWN) /* whether an entry is a number other than 0 */ \
    /* a number that is not 0 for each layer; IF_NOT_ZERO: or none */ \
    M(KV_LAYERS_VALUE, layers_value, UNKNOWN) \
    /* a list's numbers; without it the second name's number for each */ \
    M(KV_LAYERS_SAME, layers_same, UNKNOWN) \
    M(KV_LAYERS_OLMO_WINDOW, layers_olmo_window, UNKNOWN) \
    M(KV_LAYERS_USED_WINDOW, layers_used_window, UNKNOWN) \
    M(KV_LAYERS_GRANITE_WINDOW, layers_granite_window, UNKNOWN) \
    M(KV_LAYERS_EXAONE_WINDOW, layers_exaone_window, UNKNOWN) \
    /* heads where "NAME=TEXT", or "NAME!TEXT" where not; else 0 */ \
    M(KV_LAYERS_KIND_HEADS, layers_kind_heads, UNKNOWN) \
    M(KV_LAYERS_PERIOD_HEADS, layers_period_heads, UNKNOWN) \
    M(KV_LAYERS_KIMI_HEADS, layers_kimi_heads, UNKNOWN) \
    M(KV_LAYERS_GRANITE, layers_granite, UNKNOWN) \
    M(KV_LAYERS_NEMOTRON, layers_nemotron, UNKNOWN) \
    M(KV_LAYERS_GEMMA3N_SPARSITY, layers_gemma3n_sparsity, UNKNOWN) \
    M(KV_LAYERS_GEMMA4, layers_gemma4, UNKNOWN) \
    M(KV_LAYERS_STEP, layers_step, UNKNOWN) \
    M(KV_LAYERS_STEP_CLAMP, layers_step_clamp, UNKNOWN) \
    M(KV_LAYERS_MIMO, layers_mimo, UNKNOWN) \
    M(KV_LAYERS_OPENELM, layers_openelm, UNKNOWN) \
    M(KV_LAYERS_LATENT_HEADS, layers_latent_heads, UNKNOWN) /* 1, and 0 in layers of linear attention */ \
    M(KV_LAYERS_BAILING3, layers_bailing3, UNKNOWN) \
    M(KV_LAYERS_PUZZLE, layers_puzzle, UNKNOWN) \
    M(KV_LAYERS_DECI, layers_deci, UNKNOWN) \
    M(KV_LAYERS_PLAMO2, layers_plamo2, UNKNOWN) \
    /* metadata of one or two families */ \
    M(KV_OWN_MINICPM, own_minicpm, UNKNOWN) \
    M(KV_OWN_DEEPSEEK_DENSE, own_deepseek_dense, UNKNOWN) \
    M(KV_OWN_DEEPSEEK_NORM, own_deepseek_norm, UNKNOWN) \
    M(KV_OWN_GEMMA3_WINDOW, own_gemma3_window, UNKNOWN) \
    M(KV_OWN_GEMMA_ALTUP, own_gemma_altup, UNKNOWN) \
    M(KV_OWN_LLAMA4_WINDOW, own_llama4_window, UNKNOWN) \
    M(KV_OWN_SMALLTHINKER, own_smallthinker, UNKNOWN) \
    M(KV_OWN_LFM2_WIDTH, own_lfm2_width, UNKNOWN) \
    M(KV_OWN_STEP_DENSE, own_step_dense, UNKNOWN) \
    M(KV_OWN_LAGUNA, own_laguna, UNKNOWN) \
    M(KV_OWN_GROK_SCALE, own_grok_scale, UNKNOWN) \
    M(KV_OWN_HY4_INDEXER, own_hy4_indexer, UNKNOWN) \
    M(KV_OWN_REFACT_WIDTH, own_refact_width, UNKNOWN) \
    M(KV_OWN_MPT_ALIBI, own_mpt_alibi, UNKNOWN) \
    M(KV_OWN_KIMI_CHECKS, own_kimi_checks, UNKNOWN) \
    M(KV_OWN_MIMO_CHECKS, own_mimo_checks, UNKNOWN) \
    M(KV_OWN_POOLING, own_pooling, UNKNOWN) /* of modules.json, and that of classifiers */ \
    M(KV_OWN_LABELS, own_labels, UNKNOWN)   /* names of a classifier's outputs, if the config has them */ \
    M(KV_OWN_DENSE, own_dense, UNKNOWN)     /* sizes of dense heads that modules.json lists */ \
    M(KV_OWN_NOMIC_LENGTH, own_nomic_length, UNKNOWN) \
    M(KV_OWN_ROBERTA_LENGTH, own_roberta_length, UNKNOWN) \
    M(KV_OWN_TWO_THIRDS, own_two_thirds, UNKNOWN) \
    M(KV_OWN_TIME_STEP_RANK, own_time_step_rank, UNKNOWN) \
    M(KV_OWN_MAMBA, own_mamba, UNKNOWN) \
    M(KV_OWN_MAMBA2, own_mamba2, UNKNOWN) \
    M(KV_LAYERS_DOTS3, layers_dots3, UNKNOWN) /* heads, windows and indexers of layers; checks */ \
    /* keys that one pooled key stands for, which layers read n-grams */ \
    M(KV_LAYERS_QWEN4, layers_qwen4, UNKNOWN) \
    /* widths of what changes with the token, and of the feed-forward sublayer */ \
    M(KV_OWN_RWKV6, own_rwkv6, UNKNOWN) \
    M(KV_OWN_LOW_RANK, own_low_rank, UNKNOWN)     /* rwkv7: where null, a root of the width times `value` */ \
    M(KV_OWN_ARWKV7, own_arwkv7, UNKNOWN)         /* whether there is a gate */ \
    M(KV_OWN_HRM, own_hrm, UNKNOWN)               /* hrm_text: runs of all blocks, and blocks of a stack */ \
    M(KV_OWN_MINIMAX_01, own_minimax_01, UNKNOWN) /* checks that all residual scales are one */ \
    /* of draft models */ \
    M(KV_DRAFT_EAGLE, draft_eagle, UNKNOWN)       /* layers whose states go in, and the states' width */ \
    M(KV_DRAFT_LAYERS, draft_layers, UNKNOWN)     /* layers whose states go in, and the mask's token */ \
    M(KV_DRAFT_WINDOW, draft_window, UNKNOWN)     /* value 1: whatever use_sliding_window says */ \
    M(KV_DRAFT_CAUSAL, draft_causal, UNKNOWN)     /* whatever it is, where the config says it */ \
    M(KV_DRAFT_SECTIONS, draft_sections, UNKNOWN) /* if the target has sections */ \
    M(KV_DRAFT_ANCHOR, draft_anchor, UNKNOWN)     /* whether a block's first token is sampled from */ \
    M(KV_DRAFT_RATIOS, draft_ratios, UNKNOWN)     /* no layer compresses keys */ \
    M(KV_DRAFT_GEMMA4, draft_gemma4, UNKNOWN) \
    /* projectors */ \
    M(KV_LIST_IF, kv_list_if, UNKNOWN)   /* all items of another list, where there is a value */ \
    M(KV_FLOATS, kv_floats, UNKNOWN)     /* an array of numbers */ \
    M(KV_INTEGERS, kv_integers, UNKNOWN) /* an array of integers; `value`: those below 0 become 0 */ \
    M(KV_TRIPLE, kv_triple, UNKNOWN)     /* `names`, a digit, three times: a number for each colour */ \
    M(KV_ROOT, kv_root, INTEGER) /* an integer: the root of a number, times `value` or 1, rounded down */ \
    M(KV_INVERSE, kv_inverse, INTEGER) /* an integer: 1 by a number, rounded down */ \
    M(KV_SQUARE, kv_square, INTEGER)   /* of a number's square with another, or with `value` */ \
    /* .use_gelu or .use_silu; IF: neither for another name; `value`: gelu in any form */ \
    M(KV_ACTIVATION, kv_activation, UNKNOWN) \
    M(KV_FLOOR, kv_floor, INTEGER)   /* an integer: a number rounded down */ \
    M(KV_MARKED, kv_marked, UNKNOWN) /* "LIST N": N booleans, true where the list has their number */ \
    M(KV_CLIP_GEMMA3_SCALE, clip_gemma3_scale, UNKNOWN) \
    M(KV_CLIP_WINDOW_PATTERN, clip_window_pattern, UNKNOWN) \
    /* the size of images by the number of positions and of a patch */ \
    M(KV_CLIP_POSITIONS, clip_positions, UNKNOWN) \
    M(KV_CLIP_LFM2_BLOCKS, clip_lfm2_blocks, UNKNOWN) \
    M(KV_CLIP_MINICPM, clip_minicpm, UNKNOWN) \
    M(KV_CLIP_KIMI25, clip_kimi25, UNKNOWN) \
    M(KV_CLIP_GLM_PIXELS, clip_glm_pixels, UNKNOWN) \
    M(KV_CLIP_MUSE_SIZE, clip_muse_size, UNKNOWN) \
    M(KV_CLIP_GEMMA3N_PATCH, clip_gemma3n_patch, UNKNOWN) \
    M(KV_CLIP_MLP_RATIO, clip_mlp_ratio, UNKNOWN) \
    M(KV_CLIP_MIMO_WINDOWS, clip_mimo_windows, UNKNOWN) \
    M(KV_CLIP_GRANITE, clip_granite, UNKNOWN)

#define ARCH_MAKE_MEMBER(member, function, type) member,
typedef enum arch_make { MAKE_END, ARCH_MAKES(ARCH_MAKE_MEMBER) ARCH_MAKE_LIMIT } arch_make;
#undef ARCH_MAKE_MEMBER

/* The meaning of a missing value; null counts as missing. */
typedef enum arch_need {
    NEEDED,      /* an error */
    IF,          /* no key */
    IF_NOT_ZERO, /* no key, and 0 counts as missing, too */
    OR,          /* the item's `value` */
    OR_NOT_ZERO, /* the item's `value`, also in place of 0 */
} arch_need;

typedef struct arch_item arch_item;
struct arch_item {
    const char *key; /* in the GGUF; NULL where the function knows it */
    arch_make make;  /* MAKE_END ends a list */
    /* The place of the value: a key of the config, or several with '|' between them. A name that begins with
     * "rope." is looked up in the completed parameters of the rotation, with "local." in those of layers with a
     * window, with "full." in those of layers with full attention. Functions of several values take several of these,
     * with a space between. NULL: `value` itself.
     */
    const char *names;
    arch_need need;
    double value;
    const arch_item *list; /* for KV_LIST */
};

/* Names that configs have for the same. */
#define NAMES_CONTEXT \
    "max_position_embeddings|n_ctx|n_positions|max_length|max_sequence_length|model_max_length"
#define NAMES_WIDTH "hidden_size|n_embd|dim|d_model|n_embed"
#define NAMES_HEADS "num_attention_heads|n_head|n_heads"
#define NAMES_KV_HEADS "num_key_value_heads|n_kv_heads"
#define NAMES_FF "prefix_dense_intermediate_size|dense_intermediate_size|intermediate_size|n_inner|hidden_dim"
#define NAMES_BASE "rope_theta|rope_parameters"
#define NAMES_RMS "rms_norm_eps|norm_eps"
#define NAMES_NORM "layer_norm_eps|layer_norm_epsilon|norm_epsilon"
#define NAMES_EXPERTS "num_local_experts|num_experts|n_routed_experts"
#define NAMES_USED "num_experts_per_tok|num_experts_per_token|top_k_experts"
#define NAMES_GATING \
    "score_function|scoring_func|score_func|moe_router_activation|moe_router_activation_func|" \
    "expert_selection_fn"

/* Items of the usual kinds: the key, then where its value is, then what stands in for it. Those that
 * end in _NOT_ZERO take 0 for a missing value. */
#define ITEM(k, m) \
    { .key = (k), .make = (m) }
#define ITEM_NAMES(k, m, n) \
    { .key = (k), .make = (m), .names = (n) }
#define ITEM_IF(k, m, n) \
    { .key = (k), .make = (m), .names = (n), .need = IF }
#define ITEM_IF_NOT_ZERO(k, m, n) \
    { .key = (k), .make = (m), .names = (n), .need = IF_NOT_ZERO }
#define ITEM_OR(k, m, n, v) \
    { .key = (k), .make = (m), .names = (n), .need = OR, .value = (v) }
#define ITEM_OR_NOT_ZERO(k, m, n, v) \
    { .key = (k), .make = (m), .names = (n), .need = OR_NOT_ZERO, .value = (v) }
#define ITEM_VALUE(k, m, n, v) \
    { .key = (k), .make = (m), .names = (n), .value = (v) }
#define LIST(l) \
    { .make = KV_LIST, .list = (l) }
#define END ITEM(NULL, MAKE_END)
#define EXPECT(n) ITEM_NAMES(NULL, KV_EXPECT, n)
#define EXPECT_IF(n) ITEM_IF(NULL, KV_EXPECT, n)
#define LENGTHS_IF(k, n) ITEM_IF(k, KV_LENGTHS, n)
#define SHARE_WHOLE(k, m) ITEM_VALUE(k, m, NULL, 1)
#define U32(k, n) ITEM_NAMES(k, KV_U32, n)
#define U32_IF(k, n) ITEM_IF(k, KV_U32, n)
#define U32_IF_NOT_ZERO(k, n) ITEM_IF_NOT_ZERO(k, KV_U32, n)
#define U32_OR(k, n, v) ITEM_OR(k, KV_U32, n, v)
#define U32_OR_NOT_ZERO(k, n, v) ITEM_OR_NOT_ZERO(k, KV_U32, n, v)
#define U32_IS(k, v) ITEM_VALUE(k, KV_U32, NULL, v)
#define FLOAT(k, n) ITEM_NAMES(k, KV_FLOAT, n)
#define FLOAT_IF(k, n) ITEM_IF(k, KV_FLOAT, n)
#define FLOAT_IF_NOT_ZERO(k, n) ITEM_IF_NOT_ZERO(k, KV_FLOAT, n)
#define FLOAT_OR(k, n, v) ITEM_OR(k, KV_FLOAT, n, v)
#define FLOAT_OR_NOT_ZERO(k, n, v) ITEM_OR_NOT_ZERO(k, KV_FLOAT, n, v)
#define FLOAT_IS(k, v) ITEM_VALUE(k, KV_FLOAT, NULL, v)
#define BOOL(k, n) ITEM_NAMES(k, KV_BOOL, n)
#define BOOL_IF(k, n) ITEM_IF(k, KV_BOOL, n)
#define BOOL_OR(k, n, v) ITEM_OR(k, KV_BOOL, n, v)
#define BOOL_IS(k, v) ITEM_VALUE(k, KV_BOOL, NULL, v)

/* Items that several lists have. */
#define WINDOW_BY_TYPES \
    U32(".attention.sliding_window", "sliding_window"), \
        ITEM_NAMES(".attention.sliding_window_pattern", KV_LAYERS_FLAGS, "layer_types=sliding_attention")
#define DENSE_THEN_EXPERTS \
    U32(".leading_dense_block_count", "first_k_dense_replace"), U32(".vocab_size", "vocab_size"), \
        U32(".expert_feed_forward_length", "moe_intermediate_size")
#define INDEXER_SIZES \
    U32(".attention.indexer.head_count", "index_n_heads"), \
        U32(".attention.indexer.key_length", "index_head_dim"), \
        U32(".attention.indexer.top_k", "index_topk")
