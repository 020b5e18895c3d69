/* How source tensors become tensors: names by rules, shapes and order by steps. */
#pragma once

#include <stddef.h>

/* What becomes of a source tensor (docs/hugging-face.md): the member, and its function in hf/. */
#define ARCH_STEPS(S) \
    S(STEP_PLAIN, hf_step_plain) /* as it is, with 1 added to norms where the architecture asks for it */ \
    S(STEP_DROP, hf_step_drop)   /* left out */ \
    S(STEP_HEAD, hf_step_head)   /* with the rows of the embedding; left out where it is the embedding */ \
    S(STEP_PERMUTE_Q, hf_step_permute_q) /* rows of each head from halves to pairs */ \
    S(STEP_PERMUTE_K, hf_step_permute_k) \
    S(STEP_PERMUTE_K_DECI, hf_step_permute_k_deci) /* deci: each layer has its own number of heads */ \
    S(STEP_FIRST_TURNED_Q, hf_step_first_turned_q) /* the first row, from halves to pairs, for all heads */ \
    S(STEP_FIRST_TURNED_K, hf_step_first_turned_k) \
    S(STEP_OF_STACK, \
      hf_step_of_stack) /* hrm_text: equal parts of rows; the upper stack's blocks follow the lower one's */ \
    S(STEP_STACK, hf_step_stack)                 /* matrix of expert '*' of a tensor of all */ \
    S(STEP_STACK_HEADS_Q, hf_step_stack_heads_q) /* vector of head '*' of a tensor of all */ \
    S(STEP_STACK_HEADS_K, hf_step_stack_heads_k) \
    S(STEP_HALVES, hf_step_halves)       /* rows [.., 2 n, d] become two tensors of n rows */ \
    S(STEP_SPLIT_QKV, hf_step_split_qkv) /* rows of q, k, v, one behind the other, become three */ \
    S(STEP_SPLIT_QKV_PAIRS, hf_step_split_qkv_pairs) /* the same, and q and k permuted */ \
    S(STEP_QKV_TURNED, hf_step_qkv_turned)           /* rows of q, k, v stay one tensor; q and k permuted */ \
    S(STEP_ADAPTERS, hf_step_adapters)     /* [N, 1, r, c] as [N + 1, r, c]: zeros first, for no adapter */ \
    S(STEP_ADAPTERS_Q, hf_step_adapters_q) /* the same, and rows permuted */ \
    S(STEP_ADAPTERS_K, hf_step_adapters_k) \
    S(STEP_GLM_HALVES, \
      hf_step_glm_halves) /* rows of each head from pairs to halves, in models with a vision encoder */ \
    S(STEP_STACK_PAIRS, hf_step_stack_pairs) /* matrix '*' of a tensor of one for each two experts */ \
    S(STEP_EXPERT_ROWS, hf_step_expert_rows) /* [E n, d]: rows of all experts become a tensor of matrices */ \
    S(STEP_EXPERT_ROWS_TRANSPOSED, \
      hf_step_expert_rows_transposed)                    /* the same, and each matrix transposed */ \
    S(STEP_TRANSPOSED, hf_step_transposed)               /* each matrix transposed */ \
    S(STEP_TRANSPOSED_HALVES, hf_step_transposed_halves) /* [E, d, 2 n]: transposed, and then halves */ \
    S(STEP_INTERLEAVED, \
      hf_step_interleaved)     /* even and odd rows, or columns of a transposed matrix, become two */ \
    S(STEP_KV_B, hf_step_kv_b) /* [K (n + v), r] becomes attn_k_b, transposed, and attn_v_b */ \
    S(STEP_QKV_GROUPS, hf_step_qkv_groups)     /* groups of queries, key, value become all of each */ \
    S(STEP_QKV_GROUPS_3, hf_step_qkv_groups_3) /* the same as three tensors, permuted */ \
    S(STEP_QKV_HEADS, hf_step_qkv_heads)       /* [H, 3, hd]: all q, all k, all v */ \
    S(STEP_SQUEEZE, hf_step_squeeze)           /* without dimensions of 1 */ \
    S(STEP_COLUMN, hf_step_column)             /* a dimension of 1 behind the others */ \
    S(STEP_NEGATIVE_EXP, hf_step_negative_exp) /* -exp(x) */ \
    S(STEP_NEGATIVE_EXP_COLUMN, hf_step_negative_exp_column) \
    S(STEP_NORM_GROUPS, hf_step_norm_groups) /* [D] as [G, D / G] */ \
    S(STEP_TILE_HEADS, hf_step_tile_heads) /* rows of value heads in the order of key heads, and the like */ \
    S(STEP_TILE_COLUMNS, hf_step_tile_columns) \
    S(STEP_TILE_QKV, hf_step_tile_qkv) \
    S(STEP_QKVZ, hf_step_qkvz) \
    S(STEP_FACTORS, hf_step_factors)           /* falcon-h1's multipliers */ \
    S(STEP_FACTORS_JAIS, hf_step_factors_jais) /* jais' */ \
    S(STEP_TURNED_BACK, hf_step_turned_back)   /* the second half of each head's rows times -1 */ \
    S(STEP_TILED_HEADS, \
      hf_step_tiled_heads) /* plamo: heads that share keys are far apart, and become neighbours */ \
    S(STEP_NORM_PLAMO, hf_step_norm_plamo) /* a norm's weights and what the model adds to them */ \
    S(STEP_CHOICE, hf_step_choice)         /* a vector of one number for each expert */ \
    S(STEP_ZERO_MEAN, hf_step_zero_mean)   /* minus the mean */ \
    S(STEP_TERNARY, hf_step_ternary) /* -1, 0 or 1 times the mean of absolute values, unless coded so */ \
    S(STEP_GATE_BAILING, hf_step_gate_bailing)     /* bailingmoe3: a gate of linear or of full attention */ \
    S(STEP_EXP_COLUMN, hf_step_exp_column)         /* exp(x), [H] as [1, H] */ \
    S(STEP_HEAD_BAILING, hf_step_head_bailing)     /* a head, divided by its columns' norms */ \
    S(STEP_ZERO, hf_step_zero)                     /* must be zeros, and is left out */ \
    S(STEP_FILL_ROWS, hf_step_fill_rows)           /* rows up to the vocabulary's size, zeros */ \
    S(STEP_EMBEDDING_ONCE, hf_step_embedding_once) /* left out where another of T5's three names has it */ \
    S(STEP_CUT_ROWS, hf_step_cut_rows)             /* rows up to the number of tokens */ \
    S(STEP_CUT_POSITIONS, hf_step_cut_positions)   /* without RoBERTa's first rows */ \
    S(STEP_DOWN_EXPERTS, hf_step_down_experts)     /* gpt-oss: transposed, unless it is MXFP4 or a bias */ \
    S(STEP_SHARED_NEXT, hf_step_shared_next)       /* the shared MTP tensor, for each MTP layer */ \
    S(STEP_EXPERT_FIRST, hf_step_expert_first)     /* a layer of one expert has it as a plain part */ \
    S(STEP_CONV_3, hf_step_conv_3)                 /* [C, 1, w] or [C, w] as [w, 1, C, 1] */ \
    S(STEP_FIRST_HEADS, hf_step_first_heads)       /* kimi-k3's A_log */ \
    S(STEP_STACK_ALTUP, hf_step_stack_altup)       /* one of three matrices of gemma 3n */ \
    S(STEP_HEAD_UNLESS_SAME, hf_step_head_unless_same) /* left out where its bytes are the embedding's */ \
    S(STEP_SHARED_HALVES, hf_step_shared_halves) /* the shared expert, or without experts the only part */ \
    S(STEP_SHARED, hf_step_shared) \
    S(STEP_FUSED_GATE, hf_step_fused_gate)       /* [E, n, d]: the first n rows of a tensor that has both */ \
    S(STEP_FUSED_UP, hf_step_fused_up)           /* the others */ \
    S(STEP_HEADS_COLUMN, hf_step_heads_column)   /* kimi: -exp, [1, 1, H, 1] as [1, H] */ \
    S(STEP_GATE_OF_LAYER, hf_step_gate_of_layer) /* kimi: a gate of linear or of full attention */ \
    S(STEP_LERP, hf_step_lerp) /* rwkv: one of several vectors of a tensor, by its name's last letter */ \
    S(STEP_RESCALED, hf_step_rescaled) /* rwkv6: halved every few layers */ \
    S(STEP_SHIFT_ORDER, \
      hf_step_shift_order) /* rwkv6qwen2: transposed, and its five parts in rwkv6's order */ \
    S(STEP_LOW_RANK, \
      hf_step_low_rank) /* rwkv7: transposed; the first layer has none of values, and gets another's */ \
    S(STEP_INDEX_QK, hf_step_index_qk)     /* qwen4exp: rows of an indexer's queries, then of its keys */ \
    S(STEP_TABLE_PART, hf_step_table_part) /* qwen4exp: rows '*' of a table in parts */ \
    S(STEP_LATENT_NORM, \
      hf_step_latent_norm) /* dots3note: times the root of the width by the vector's length */ \
    S(STEP_KV_B_LAYERS, \
      hf_step_kv_b_layers)     /* dots3note: STEP_KV_B, where layers with a window have other heads */ \
    S(STEP_FLAT, hf_step_flat) /* all elements as a vector */ \
    S(STEP_JOIN_QKV, hf_step_join_qkv) /* queries, keys and values, equally high, become a tensor's rows */ \
    S(STEP_CLASSES, hf_step_classes)   /* a matrix, also if it has one row */ \
    S(STEP_CLASSIFIER, hf_step_classifier) /* a head's only matrix: its last one where outputs have names */ \
    S(STEP_EXPERT_TABLE, hf_step_expert_table) /* deepseek4: the numbers of each token's experts, as I32 */ \
    S(STEP_CHOICE_BY_SCORES, \
      hf_step_choice_by_scores) /* the same: left out where a layer has such a table */ \
    S(STEP_DRAFT_IDS, \
      hf_step_draft_ids) /* how far a draft model's tokens are from their numbers: the target's ids */ \
    S(STEP_DRAFT_HEAD, hf_step_draft_head)           /* left out where the vocabulary is the target's */ \
    S(STEP_DRAFT_ORDER, hf_step_draft_order)         /* left out, with a warning */ \
    S(STEP_DRAFT_EMBEDDING, hf_step_draft_embedding) /* left out where the config says so */ \
    S(STEP_DRAFT_HEADS, hf_step_draft_heads) /* rows of each head from pairs to halves, if it has pairs */ \
    /* projectors */ \
    S(STEP_ADD_ONE, hf_step_add_one)             /* 1 is added */ \
    S(STEP_SOFTPLUS, hf_step_softplus)           /* log(1 + exp(x)) */ \
    S(STEP_COLUMNS_2, hf_step_columns_2)         /* two dimensions of 1 behind the others */ \
    S(STEP_CHANNELS, hf_step_channels)           /* [C] as [1, C, 1, 1] */ \
    S(STEP_JOIN_ROWS, hf_step_join_rows)         /* [h, w, C] as [h w, C] */ \
    S(STEP_SWAPPED_ROWS, hf_step_swapped_rows)   /* [a, b, C] as [b, a, C] */ \
    S(STEP_FRAMES, hf_step_frames)               /* a convolution over frames: a tensor for each frame */ \
    S(STEP_PATCHES_LAST, hf_step_patches_last)   /* patches whose colours are their last dimension */ \
    S(STEP_THIRDS, hf_step_thirds)               /* rows of queries, keys, values become three tensors */ \
    S(STEP_KIMI_QKV, hf_step_kimi_qkv)           /* the rotation of height and width taken apart */ \
    S(STEP_MINIMAX_AXES, hf_step_minimax_axes)   /* the same of three axes */ \
    S(STEP_SUM_FRAMES, hf_step_sum_frames)       /* [C, frames 3 p p]: their sum as [C, 3, p, p] */ \
    S(STEP_IMG_BREAK, hf_step_img_break)         /* the row of the token between rows of an image */ \
    S(STEP_WITHOUT_FIRST, hf_step_without_first) /* without the first row */ \
    S(STEP_NEXT_NUMBER, hf_step_next_number)     /* the number in the name and 1 */ \
    S(STEP_PATCH_COLOURS, \
      hf_step_patch_colours)   /* columns, or a vector, of rows, columns, colours: colours first */ \
    S(STEP_ROWS, hf_step_rows) /* each row is a tensor of its own */ \
    S(STEP_DEEPSTACK, hf_step_deepstack) /* the layer's own number in place of its place in a list */ \
    S(STEP_ROW, hf_step_row)             /* [D] as [1, D] */ \
    S(STEP_DEPTHWISE, hf_step_depthwise) /* [C, 1, w] as [1, 1, C, w] */ \
    S(STEP_PATCHES_FIRST, hf_step_patches_first) /* patches whose colours are their first dimension */ \
    S(STEP_COUNT_ROWS, \
      hf_step_count_rows) /* as it is; a square of rows becomes the config's number of positions */ \
    S(STEP_BATCH_NORM, hf_step_batch_norm) /* mean and variance become part of weight and bias */ \
    S(STEP_STACK_PYRAMID, \
      hf_step_stack_pyramid) /* as STEP_STACK: each layer has its own number of experts */ \
    S(STEP_CODEBOOKS, \
      hf_step_codebooks) /* one behind the other, each with zeros up to the longest's rows */ \
    S(STEP_MEAN_CODES, hf_step_mean_codes)   /* all codebooks as means: sums by how many each is of */ \
    S(STEP_SNAKE_ALPHA, hf_step_snake_alpha) /* exp(x) */ \
    S(STEP_SNAKE_BETA, hf_step_snake_beta)   /* 1 / exp(x), but never by 0 */ \
    S(STEP_RADIO_POSITIONS, hf_step_radio_positions) /* rows between rows, for images of force_image_size */ \
    S(STEP_GRANITE, hf_step_granite)                 /* the number of a projector among all of both kinds */

#define ARCH_STEP_MEMBER(member, function) member,
typedef enum arch_step { ARCH_STEPS(ARCH_STEP_MEMBER) ARCH_STEP_LIMIT } arch_step;
#undef ARCH_STEP_MEMBER

/* `from`: the name in the folder, where '#' is the number of a layer and '*' that of an expert; with or
 * without .weight or .bias. `to`: the name in GGUF, with the same signs; what from lacked is put behind it. Several names have '|'
 * between them. from NULL ends a list. */
typedef struct arch_rule {
    const char *from, *to;
    arch_step step;
} arch_rule;

/* Without a step: STEP_PLAIN. P: source tensor `from` of layer N is tensor `to` of block N. */
#define RULE(name, tensor, ...) \
    { .from = name, .to = tensor, __VA_ARGS__ }
#define P(name, tensor, ...) RULE("model.layers.#." name, "blk.#." tensor, __VA_ARGS__)

/* Three rules of LAYER, which is P or another macro of a source tensor's and a tensor's name: queries, keys and
 * values, whose source tensors have a letter between `from` and `behind`; and gate, up and down of a feed-forward
 * part or of experts, which have these words there, or 1, 3 and 2. `end` is behind the tensors' "ffn_gate" and so
 * on: "", "_exps", "_shexp". */
#define QKV_RULES(LAYER, from, behind, to, ...) \
    LAYER(from "q" behind, to "q", ##__VA_ARGS__), LAYER(from "k" behind, to "k", ##__VA_ARGS__), \
        LAYER(from "v" behind, to "v", ##__VA_ARGS__)
#define FFN_RULES(LAYER, from, behind, end, ...) \
    LAYER(from "gate" behind, "ffn_gate" end, ##__VA_ARGS__), \
        LAYER(from "up" behind, "ffn_up" end, ##__VA_ARGS__), \
        LAYER(from "down" behind, "ffn_down" end, ##__VA_ARGS__)
#define W_RULES(LAYER, from, end, ...) \
    LAYER(from "1", "ffn_gate" end, ##__VA_ARGS__), LAYER(from "3", "ffn_up" end, ##__VA_ARGS__), \
        LAYER(from "2", "ffn_down" end, ##__VA_ARGS__)
/* How the streams of hyper-connections are mixed, before attention and before the feed-forward part. */
#define HYPER_RULES(LAYER, attention, feed) \
    LAYER(attention "fn", "hc_attn_fn.weight"), LAYER(attention "base", "hc_attn_base.weight"), \
        LAYER(attention "scale", "hc_attn_scale.weight"), LAYER(feed "fn", "hc_ffn_fn.weight"), \
        LAYER(feed "base", "hc_ffn_base.weight"), LAYER(feed "scale", "hc_ffn_scale.weight")

/* A list of names, which ends with NULL. */
/* clang-format off */
#define NAMES(...) (const char *const[]) { __VA_ARGS__, NULL }
/* clang-format on */

/* A piece of a name that is put in place of another before the rules are asked. */
typedef struct arch_rename {
    const char *from, *to;
    enum { ANYWHERE, AT_END, AT_BEGIN } where;
} arch_rename;
