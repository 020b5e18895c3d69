/* The metadata of a model as its config has them: lists of items, each of which sets a pair, or a few that belong
 * together. Later items replace the pairs of earlier ones, so that a list can begin with what others have and
 * state only what differs. */
#pragma once

/* What an item does (hf/): the member, and its function. */
#define ARCH_MAKES(M) \
    /* items that any list may have */ \
    M(PAIR_LIST, pair_list)           /* all items of another list */ \
    M(PAIR_REMOVE, pair_remove)       /* takes a pair away again */ \
    M(PAIR_U32, pair_u32)             /* an integer */ \
    M(PAIR_LENGTHS, pair_lengths)     /* an integer, or an array of them, one for each layer */ \
    M(PAIR_FLOAT, pair_float)         /* a number */ \
    M(PAIR_BOOL, pair_bool)           /* true or false */ \
    M(PAIR_TEXT, pair_text)           /* `names` itself */ \
    M(PAIR_COPY_TEXT, pair_copy_text) /* a text, where there is one */ \
    M(PAIR_BLOCKS, pair_blocks)       /* the number of blocks */ \
    M(PAIR_PREDICT, pair_predict)     /* the number of predicting blocks; IF: where there is a name */ \
    M(PAIR_FIRST, pair_first)         /* the first entry of a list of equal integers, or an integer */ \
    M(PAIR_COUNT, pair_count)         /* the number of a list's entries; 0 without a list */ \
    M(PAIR_ZEROS, pair_zeros)         /* the number of zeros that a list begins with */ \
    M(PAIR_TIMES, pair_times)         /* `value` times an integer */ \
    M(PAIR_PRODUCT, pair_product)     /* of two integers, and of `value` where both are needed */ \
    M(PAIR_SUM, pair_sum)             /* of two integers */ \
    M(PAIR_QUOTIENT, pair_quotient)   /* of two integers, rounded down */ \
    M(PAIR_KV_HEADS, pair_kv_heads)   /* heads of keys and values; without a value all heads */ \
    M(PAIR_SHARE_OF_HEAD, pair_share_of_head)           /* a factor's part of head_dim or width / heads */ \
    M(PAIR_SHARE_OF_EVEN_HEAD, pair_share_of_even_head) /* of width / heads */ \
    M(PAIR_SHARE_OF_WIDTH, pair_share_of_width)         /* of the width, then divided by heads */ \
    M(PAIR_SHARE_OF, pair_share_of)                     /* of the first of two names */ \
    M(PAIR_GATING, pair_gating)   /* the function of the router's scores, by its name */ \
    M(PAIR_CAUSAL, pair_causal)   /* only where attention is not */ \
    M(PAIR_LEADING, pair_leading) /* "NAME=TEXT": how many entries of a list are this text, up to another */ \
    M(PAIR_EXPECT, \
      pair_expect)          /* none, but "NAME=TEXT": the text, number, true or false that NAME has to be */ \
    M(PAIR_ROPE, pair_rope) /* the pairs of the rotation */ \
    /* those of rotations that stretch the base, or name it otherwise */ \
    M(PAIR_ROPE_MISTRAL, rope_mistral) \
    M(PAIR_ROPE_PHI, rope_phi) \
    M(PAIR_ROPE_HUNYUAN, rope_hunyuan) \
    M(PAIR_ROPE_HUNYUAN_EXPERTS, rope_hunyuan_experts) \
    M(PAIR_ROPE_NEMOTRON, rope_nemotron) \
    M(PAIR_ROPE_QWEN35, rope_qwen35) \
    M(PAIR_ROPE_SECTIONS, rope_section_list) /* parts of a head for time, height and width */ \
    M(PAIR_ROPE_GPTNEOX, rope_gptneox) \
    M(PAIR_ROPE_DEEPSEEK, rope_deepseek) \
    M(PAIR_ROPE_STEP, rope_step) \
    M(PAIR_ROPE_RATIO, rope_ratio) /* 10000 times a number */ \
    M(PAIR_ROPE_XD, rope_xd) \
    M(PAIR_ROPE_GROK, rope_grok) \
    M(PAIR_ROPE_PLAMO3, rope_plamo3) \
    /* arrays with a value for each layer; PAIR_LAYERS_FLAGS: names "NAME=TEXT", whether an entry is this text */ \
    M(PAIR_LAYERS_FLAGS, layers_flags) \
    M(PAIR_LAYERS_USED, layers_used)   /* whether an entry is a number other than 0 */ \
    M(PAIR_LAYERS_VALUE, layers_value) /* a number that is not 0 for each layer; IF_NOT_ZERO: or none */ \
    M(PAIR_LAYERS_SAME, layers_same)   /* a list's numbers; without it the second name's number for each */ \
    M(PAIR_LAYERS_OLMO_WINDOW, layers_olmo_window) \
    M(PAIR_LAYERS_USED_WINDOW, layers_used_window) \
    M(PAIR_LAYERS_GRANITE_WINDOW, layers_granite_window) \
    M(PAIR_LAYERS_EXAONE_WINDOW, layers_exaone_window) \
    M(PAIR_LAYERS_KIND_HEADS, \
      layers_kind_heads) /* heads where "NAME=TEXT", or "NAME!TEXT" where not; else 0 */ \
    M(PAIR_LAYERS_PERIOD_HEADS, layers_period_heads) \
    M(PAIR_LAYERS_KIMI_HEADS, layers_kimi_heads) \
    M(PAIR_LAYERS_GRANITE, layers_granite) \
    M(PAIR_LAYERS_NEMOTRON, layers_nemotron) \
    M(PAIR_LAYERS_GEMMA3N_SPARSITY, layers_gemma3n_sparsity) \
    M(PAIR_LAYERS_GEMMA4, layers_gemma4) \
    M(PAIR_LAYERS_STEP, layers_step) \
    M(PAIR_LAYERS_STEP_CLAMP, layers_step_clamp) \
    M(PAIR_LAYERS_MIMO, layers_mimo) \
    M(PAIR_LAYERS_OPENELM, layers_openelm) \
    M(PAIR_LAYERS_LATENT_HEADS, layers_latent_heads) /* 1, and 0 in layers of linear attention */ \
    M(PAIR_LAYERS_BAILING3, layers_bailing3) \
    M(PAIR_LAYERS_PUZZLE, layers_puzzle) \
    M(PAIR_LAYERS_DECI, layers_deci) \
    M(PAIR_LAYERS_PLAMO2, layers_plamo2) \
    /* what one or two families have */ \
    M(PAIR_OWN_MINICPM, own_minicpm) \
    M(PAIR_OWN_DEEPSEEK_DENSE, own_deepseek_dense) \
    M(PAIR_OWN_DEEPSEEK_NORM, own_deepseek_norm) \
    M(PAIR_OWN_GEMMA3_WINDOW, own_gemma3_window) \
    M(PAIR_OWN_GEMMA_ALTUP, own_gemma_altup) \
    M(PAIR_OWN_LLAMA4_WINDOW, own_llama4_window) \
    M(PAIR_OWN_SMALLTHINKER, own_smallthinker) \
    M(PAIR_OWN_LFM2_WIDTH, own_lfm2_width) \
    M(PAIR_OWN_STEP_DENSE, own_step_dense) \
    M(PAIR_OWN_LAGUNA, own_laguna) \
    M(PAIR_OWN_GROK_SCALE, own_grok_scale) \
    M(PAIR_OWN_HY4_INDEXER, own_hy4_indexer) \
    M(PAIR_OWN_REFACT_WIDTH, own_refact_width) \
    M(PAIR_OWN_MPT_ALIBI, own_mpt_alibi) \
    M(PAIR_OWN_KIMI_CHECKS, own_kimi_checks) \
    M(PAIR_OWN_MIMO_CHECKS, own_mimo_checks) \
    M(PAIR_OWN_POOLING, own_pooling) /* of modules.json, and that of classifiers */ \
    M(PAIR_OWN_LABELS, own_labels)   /* what a classifier's outputs are called, if the config names them */ \
    M(PAIR_OWN_DENSE, own_dense)     /* sizes of dense heads that modules.json lists */ \
    M(PAIR_OWN_NOMIC_LENGTH, own_nomic_length) \
    M(PAIR_OWN_ROBERTA_LENGTH, own_roberta_length) \
    M(PAIR_OWN_TWO_THIRDS, own_two_thirds) \
    M(PAIR_OWN_TIME_STEP_RANK, own_time_step_rank) \
    M(PAIR_OWN_MAMBA, own_mamba) \
    M(PAIR_OWN_MAMBA2, own_mamba2) \
    M(PAIR_LAYERS_DOTS3, layers_dots3) /* heads, windows and indexers of layers; checks */ \
    M(PAIR_LAYERS_QWEN4, layers_qwen4) /* keys that one pooled key stands for, which layers read n-grams */ \
    M(PAIR_OWN_RWKV6, own_rwkv6) /* widths of what changes with the token, and of the feed-forward part */ \
    M(PAIR_OWN_LOW_RANK, own_low_rank)     /* rwkv7: where null, a root of the width times `value` */ \
    M(PAIR_OWN_ARWKV7, own_arwkv7)         /* whether there is a gate */ \
    M(PAIR_OWN_HRM, own_hrm)               /* hrm_text: runs of all blocks, and blocks of a stack */ \
    M(PAIR_OWN_MINIMAX_01, own_minimax_01) /* checks that all residual scales are one */ \
    /* of drafts */ \
    M(PAIR_DRAFT_EAGLE, draft_eagle)       /* which layers' states go in, and how wide they are */ \
    M(PAIR_DRAFT_LAYERS, draft_layers)     /* which layers' states go in, and the mask's token */ \
    M(PAIR_DRAFT_WINDOW, draft_window)     /* value 1: whatever use_sliding_window says */ \
    M(PAIR_DRAFT_CAUSAL, draft_causal)     /* whatever it is, where the config says it */ \
    M(PAIR_DRAFT_SECTIONS, draft_sections) /* where the target has some */ \
    M(PAIR_DRAFT_ANCHOR, draft_anchor)     /* whether a block's first token is sampled from */ \
    M(PAIR_DRAFT_RATIOS, draft_ratios)     /* no layer compresses keys */ \
    M(PAIR_DRAFT_GEMMA4, draft_gemma4) \
    /* projectors */ \
    M(PAIR_LIST_IF, pair_list_if)   /* all items of another list, where there is a value */ \
    M(PAIR_FLOATS, pair_floats)     /* an array of numbers */ \
    M(PAIR_INTEGERS, pair_integers) /* an array of integers; `value`: those below 0 become 0 */ \
    M(PAIR_TRIPLE, pair_triple)     /* `names`, a digit, three times: a number for each colour */ \
    M(PAIR_ROOT, pair_root)         /* an integer: the root of a number, times `value` or 1, rounded down */ \
    M(PAIR_INVERSE, pair_inverse)   /* an integer: 1 by a number, rounded down */ \
    M(PAIR_SQUARE, pair_square)     /* of a number's square with another, or with `value` */ \
    M(PAIR_ACTIVATION, \
      pair_activation) /* .use_gelu or .use_silu; IF: neither for another name; `value`: gelu in any form */ \
    M(PAIR_FLOOR, pair_floor)   /* an integer: a number rounded down */ \
    M(PAIR_MARKED, pair_marked) /* "LIST N": N booleans, true where the list has their number */ \
    M(PAIR_CLIP_GEMMA3_SCALE, clip_gemma3_scale) \
    M(PAIR_CLIP_WINDOW_PATTERN, clip_window_pattern) \
    M(PAIR_CLIP_POSITIONS, \
      clip_positions) /* the size of images by the number of positions and of a patch */ \
    M(PAIR_CLIP_LFM2_BLOCKS, clip_lfm2_blocks) \
    M(PAIR_CLIP_MINICPM, clip_minicpm) \
    M(PAIR_CLIP_KIMI25, clip_kimi25) \
    M(PAIR_CLIP_GLM_PIXELS, clip_glm_pixels) \
    M(PAIR_CLIP_MUSE_SIZE, clip_muse_size) \
    M(PAIR_CLIP_GEMMA3N_PATCH, clip_gemma3n_patch) \
    M(PAIR_CLIP_MLP_RATIO, clip_mlp_ratio) \
    M(PAIR_CLIP_MIMO_WINDOWS, clip_mimo_windows) \
    M(PAIR_CLIP_GRANITE, clip_granite)

#define ARCH_MAKE_MEMBER(member, function) member,
typedef enum arch_make { MAKE_END, ARCH_MAKES(ARCH_MAKE_MEMBER) ARCH_MAKE_LIMIT } arch_make;
#undef ARCH_MAKE_MEMBER

/* The meaning of a missing value; null counts as missing. */
typedef enum arch_need {
    NEEDED,      /* an error */
    IF,          /* no pair */
    IF_NOT_ZERO, /* no pair, and 0 counts as missing, too */
    OR,          /* the item's `value` */
    OR_NOT_ZERO, /* the item's `value`, also in place of 0 */
} arch_need;

typedef struct arch_item arch_item;
struct arch_item {
    const char *key; /* of the pair; NULL where the function knows it */
    arch_make make;  /* MAKE_END ends a list */
    /* The place of the value: a key of the config, or several with '|' between them. A name that begins with
     * "rope." is looked up in the completed parameters of the rotation, with "local." in those of layers with a window, with "full." in those of layers with full
     * attention. Functions of several values take several of these, with a space between. NULL: `value` itself.
     */
    const char *names;
    arch_need need;
    double value;
    const arch_item *list; /* for PAIR_LIST */
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

/* Items of the usual kinds: the pair's key, then where its value is, then what stands in for it. Those that
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
    { .make = PAIR_LIST, .list = (l) }
#define END ITEM(NULL, MAKE_END)
#define EXPECT(n) ITEM_NAMES(NULL, PAIR_EXPECT, n)
#define EXPECT_IF(n) ITEM_IF(NULL, PAIR_EXPECT, n)
#define LENGTHS_IF(k, n) ITEM_IF(k, PAIR_LENGTHS, n)
#define SHARE_WHOLE(k, m) ITEM_VALUE(k, m, NULL, 1)
#define U32(k, n) ITEM_NAMES(k, PAIR_U32, n)
#define U32_IF(k, n) ITEM_IF(k, PAIR_U32, n)
#define U32_IF_NOT_ZERO(k, n) ITEM_IF_NOT_ZERO(k, PAIR_U32, n)
#define U32_OR(k, n, v) ITEM_OR(k, PAIR_U32, n, v)
#define U32_OR_NOT_ZERO(k, n, v) ITEM_OR_NOT_ZERO(k, PAIR_U32, n, v)
#define U32_IS(k, v) ITEM_VALUE(k, PAIR_U32, NULL, v)
#define FLOAT(k, n) ITEM_NAMES(k, PAIR_FLOAT, n)
#define FLOAT_IF(k, n) ITEM_IF(k, PAIR_FLOAT, n)
#define FLOAT_IF_NOT_ZERO(k, n) ITEM_IF_NOT_ZERO(k, PAIR_FLOAT, n)
#define FLOAT_OR(k, n, v) ITEM_OR(k, PAIR_FLOAT, n, v)
#define FLOAT_OR_NOT_ZERO(k, n, v) ITEM_OR_NOT_ZERO(k, PAIR_FLOAT, n, v)
#define FLOAT_IS(k, v) ITEM_VALUE(k, PAIR_FLOAT, NULL, v)
#define BOOL(k, n) ITEM_NAMES(k, PAIR_BOOL, n)
#define BOOL_IF(k, n) ITEM_IF(k, PAIR_BOOL, n)
#define BOOL_OR(k, n, v) ITEM_OR(k, PAIR_BOOL, n, v)
#define BOOL_IS(k, v) ITEM_VALUE(k, PAIR_BOOL, NULL, v)

/* Items that several lists have. */
#define WINDOW_BY_TYPES \
    U32(".attention.sliding_window", "sliding_window"), \
        ITEM_NAMES(".attention.sliding_window_pattern", PAIR_LAYERS_FLAGS, "layer_types=sliding_attention")
#define DENSE_THEN_EXPERTS \
    U32(".leading_dense_block_count", "first_k_dense_replace"), U32(".vocab_size", "vocab_size"), \
        U32(".expert_feed_forward_length", "moe_intermediate_size")
#define INDEXER_SIZES \
    U32(".attention.indexer.head_count", "index_n_heads"), \
        U32(".attention.indexer.key_length", "index_head_dim"), \
        U32(".attention.indexer.top_k", "index_topk")
