/* Conversion of source tensors: rules give the names, ops the shapes and the order. */
#pragma once

#include <stddef.h>

/* The number of tensors that an op makes: that of the names in its rule's `to`. */
typedef enum arch_op_makes {
    MAKES_NONE, /* checks or warns only; a name in `to` is of no use */
    MAKES_ONE,
    MAKES_TWO,
    MAKES_THREE,
    MAKES_SOME, /* as many as the rule says */
    MAKES_PART, /* of a tensor, by the number that `from` has for '*' */
} arch_op_makes;

/* Conversion operations (ops) of a source tensor (docs/hugging-face.md): the member, its function in
 * hf/tensors/ (hf_op_ and the second word), and its result. */
/* clang-format off */
#define ARCH_OPS(S) \
    /* ---- as it is, but for its name ---- */ \
    S(OP_COPY, copy, ONE) /* as it is; 1 is added to norms of some architectures */ \
    S(OP_COPY_TO_MTP_LAYERS, copy_to_mtp_layers, ONE) /* the shared MTP tensor, for each MTP layer */ \
    S(OP_COPY_SHARED_EXPERT, copy_shared_expert, ONE) /* the shared expert, or without experts the only sublayer */ \
    S(OP_COPY_ONLY_EXPERT, copy_only_expert, PART) /* a layer of one expert has it as a plain sublayer */ \
    S(OP_NUMBER_PLUS_ONE, number_plus_one, ONE) /* the number in the name and 1 */ \
    S(OP_NUMBER_OF_DEEPSTACK, number_of_deepstack, ONE) /* the layer's own number in place of its place in a list */ \
    S(OP_NUMBER_OF_PROJECTOR, number_of_projector, ONE) /* granite: of a projector among all of both kinds */ \
    S(OP_GATE_BY_LAYER, gate_by_layer, ONE) /* kimi: a gate of linear or of full attention */ \
    S(OP_GATE_BY_LAYER_BAILING, gate_by_layer_bailing, ONE) /* bailingmoe3: the same */ \
    /* ---- what is left out ---- */ \
    S(OP_OMIT, omit, NONE) \
    S(OP_OMIT_ZEROS, omit_zeros, NONE) /* a tensor that must be zeros */ \
    S(OP_OMIT_TIED_HEAD, omit_tied_head, ONE) /* if the embedding is the head, too */ \
    S(OP_OMIT_EQUAL_HEAD, omit_equal_head, ONE) /* if the head's bytes are the embedding's */ \
    S(OP_OMIT_REPEATED_EMBEDDING, omit_repeated_embedding, ONE) /* T5: all but one of three names */ \
    S(OP_OMIT_BIAS_BESIDE_TABLE, omit_bias_beside_table, ONE) /* deepseek4: a bias that a table replaces */ \
    S(OP_OMIT_TARGETS_HEAD, omit_targets_head, ONE) /* if the vocabulary is the target's */ \
    S(OP_OMIT_TARGETS_EMBEDDING, omit_targets_embedding, ONE) /* if the config says so */ \
    S(OP_OMIT_WITH_WARNING, omit_with_warning, NONE) \
    /* ---- order of rows and columns ---- */ \
    S(OP_ROPE_PAIRS_Q, rope_pairs_q, ONE) /* rows of each head from halves to pairs */ \
    S(OP_ROPE_PAIRS_K, rope_pairs_k, ONE) \
    S(OP_ROPE_PAIRS_K_BY_LAYER, rope_pairs_k_by_layer, ONE) /* deci: each layer has its own number of heads */ \
    S(OP_ROPE_PAIRS_FIRST_ROW_Q, rope_pairs_first_row_q, ONE) /* the first row, for all heads */ \
    S(OP_ROPE_PAIRS_FIRST_ROW_K, rope_pairs_first_row_k, ONE) \
    S(OP_ROPE_PAIRS_QKV, rope_pairs_qkv, ONE) /* q, k, v stay one tensor; q and k from halves to pairs */ \
    S(OP_ROPE_HALVES_GLM, rope_halves_glm, ONE) /* from pairs to halves, beside a vision encoder */ \
    S(OP_ROPE_HALVES_DRAFT, rope_halves_draft, ONE) /* from pairs to halves, if it has pairs */ \
    S(OP_ROPE_AXES_QKV, rope_axes_qkv, ONE) /* kimi: the rotation of height and width apart */ \
    S(OP_ROPE_AXES_OF_THREE, rope_axes_of_three, ONE) /* minimax: the same of three axes */ \
    S(OP_REORDER_QKV_GROUPS, reorder_qkv_groups, ONE) /* groups of queries, key, value become all of each */ \
    S(OP_REORDER_QKV_HEADS, reorder_qkv_heads, ONE) /* [H, 3, hd]: all q, all k, all v */ \
    S(OP_REORDER_VALUE_HEADS, reorder_value_heads, ONE) /* value heads in the order of key heads */ \
    S(OP_REORDER_VALUE_COLUMNS, reorder_value_columns, ONE) \
    S(OP_REORDER_VALUES_OF_QKV, reorder_values_of_qkv, ONE) \
    S(OP_REORDER_SHARING_HEADS, reorder_sharing_heads, ONE) /* plamo: heads that share keys become neighbours */ \
    S(OP_REORDER_ROWS_AXES, reorder_rows_axes, ONE) /* [a, b, C] as [b, a, C] */ \
    S(OP_REORDER_PATCHES_LAST, reorder_patches_last, ONE) /* patches whose channels are their last dimension */ \
    S(OP_REORDER_PATCHES_FIRST, reorder_patches_first, ONE) /* patches whose channels are their first dimension */ \
    S(OP_REORDER_PATCH_CHANNELS, reorder_patch_channels, ONE) /* [rows, columns, channels]: channels first */ \
    S(OP_TRANSPOSE, transpose, ONE) /* each matrix */ \
    S(OP_TRANSPOSE_DOWN_EXPERTS, transpose_down_experts, ONE) /* gpt-oss: unless it is MXFP4 or a bias */ \
    S(OP_TRANSPOSE_SHIFTS, transpose_shifts, ONE) /* rwkv6qwen2: and its five parts in rwkv6's order */ \
    S(OP_TRANSPOSE_LOW_RANK, transpose_low_rank, SOME) /* rwkv7: the first layer gets another's of values */ \
    /* ---- several tensors from one ---- */ \
    S(OP_SPLIT_HALVES, split_halves, TWO) /* rows [.., 2 n, d] become two tensors of n rows */ \
    S(OP_TRANSPOSE_SPLIT_HALVES, transpose_split_halves, TWO) /* [E, d, 2 n]: transposed, and then halves */ \
    S(OP_SPLIT_SHARED_EXPERT, split_shared_expert, TWO) /* or, without experts, the only sublayer */ \
    S(OP_SPLIT_EVEN_ODD, split_even_odd, TWO) /* rows, or columns of a transposed matrix */ \
    S(OP_SPLIT_THIRDS, split_thirds, THREE) /* rows of queries, keys, values */ \
    S(OP_SPLIT_QKV, split_qkv, THREE) /* rows of q, k, v, one behind the other */ \
    S(OP_SPLIT_QKV_ROPE_PAIRS, split_qkv_rope_pairs, THREE) /* the same, and q and k from halves to pairs */ \
    S(OP_SPLIT_QKV_GROUPS, split_qkv_groups, THREE) /* groups of q, k, v; q and k from halves to pairs */ \
    S(OP_SPLIT_QKVZ, split_qkvz, TWO) \
    S(OP_SPLIT_KV_B, split_kv_b, TWO) /* [K (n + v), r]: attn_k_b, transposed, and attn_v_b */ \
    S(OP_SPLIT_KV_B_BY_LAYER, split_kv_b_by_layer, TWO) /* dots3note: layers with a window have other heads */ \
    S(OP_SPLIT_INDEX_QK, split_index_qk, TWO) /* qwen4exp: an indexer's queries, then its keys */ \
    S(OP_SPLIT_ROWS_OF_STACK, split_rows_of_stack, SOME) /* hrm_text: blocks of the upper stack follow the lower */ \
    S(OP_SPLIT_FRAMES, split_frames, TWO) /* a convolution over frames: a tensor for each frame */ \
    S(OP_SPLIT_ROWS, split_rows, TWO) /* each row is a tensor of its own */ \
    S(OP_TAKE_GATE_ROWS, take_gate_rows, ONE) /* [E, 2 n, d]: the first n */ \
    S(OP_TAKE_UP_ROWS, take_up_rows, ONE) /* the others */ \
    S(OP_TAKE_IMG_BREAK_ROW, take_img_break_row, ONE) /* the row of the token between rows of an image */ \
    S(OP_TAKE_FIRST_HEADS, take_first_heads, ONE) /* kimi-k3's A_log */ \
    /* ---- one tensor from several ---- */ \
    S(OP_JOIN_EXPERTS, join_experts, PART) /* matrix of expert '*' of a tensor of all */ \
    S(OP_JOIN_EXPERTS_BY_LAYER, join_experts_by_layer, PART) /* each layer has its own number of experts */ \
    S(OP_JOIN_EXPERT_PAIRS, join_expert_pairs, PART) /* matrix '*' of a tensor of one for each two experts */ \
    S(OP_JOIN_HEADS_Q, join_heads_q, PART) /* vector of head '*' of a tensor of all */ \
    S(OP_JOIN_HEADS_K, join_heads_k, PART) \
    S(OP_JOIN_ALTUP, join_altup, PART) /* one of three matrices of gemma 3n */ \
    S(OP_JOIN_TABLE_PARTS, join_table_parts, PART) /* qwen4exp: rows '*' of a table in parts */ \
    S(OP_JOIN_QKV, join_qkv, ONE) /* q, k and v, equally high, become rows of one */ \
    S(OP_JOIN_LERP, join_lerp, ONE) /* rwkv: a vector by its name's last letter */ \
    S(OP_JOIN_CODEBOOKS, join_codebooks, ONE) /* each with zeros up to the longest's rows */ \
    S(OP_FOLD_BATCH_NORM, fold_batch_norm, ONE) /* mean and variance become part of weight and bias */ \
    S(OP_FOLD_CODEBOOK_COUNTS, fold_codebook_counts, ONE) /* means: sums by how many each is of */ \
    /* ---- number of rows ---- */ \
    S(OP_PAD_ROWS, pad_rows, ONE) /* rows up to the vocabulary's size, zeros */ \
    S(OP_CUT_ROWS, cut_rows, ONE) /* rows up to the number of tokens */ \
    S(OP_CUT_FIRST_POSITIONS, cut_first_positions, ONE) /* without RoBERTa's first rows */ \
    S(OP_CUT_FIRST_ROW, cut_first_row, ONE) \
    S(OP_PREPEND_NO_ADAPTER, prepend_no_adapter, ONE) /* [N, 1, r, c] as [N + 1, r, c]: zeros first */ \
    S(OP_PREPEND_NO_ADAPTER_Q, prepend_no_adapter_q, ONE) /* the same, and rows from halves to pairs */ \
    S(OP_PREPEND_NO_ADAPTER_K, prepend_no_adapter_k, ONE) \
    S(OP_CHECK_POSITIONS, check_positions, ONE) /* a square of rows is the config's positions */ \
    S(OP_RESAMPLE_POSITIONS, resample_positions, ONE) /* rows between rows, for images of force_image_size */ \
    /* ---- dimensions ---- */ \
    S(OP_SQUEEZE, squeeze, ONE) /* without dimensions of 1 */ \
    S(OP_FLATTEN, flatten, ONE) /* all elements as a vector */ \
    S(OP_APPEND_DIM, append_dim, ONE) /* a dimension of 1 behind the others */ \
    S(OP_APPEND_TWO_DIMS, append_two_dims, ONE) \
    S(OP_RESHAPE_ROW, reshape_row, ONE) /* [D] as [1, D] */ \
    S(OP_RESHAPE_CHANNELS, reshape_channels, ONE) /* [C] as [1, C, 1, 1] */ \
    S(OP_RESHAPE_CONV, reshape_conv, ONE) /* [C, 1, w] or [C, w] as [w, 1, C, 1] */ \
    S(OP_RESHAPE_DEPTHWISE, reshape_depthwise, ONE) /* [C, 1, w] as [1, 1, C, w] */ \
    S(OP_RESHAPE_NORM_GROUPS, reshape_norm_groups, ONE) /* [D] as [G, D / G] */ \
    S(OP_RESHAPE_POSITIONS, reshape_positions, ONE) /* [h, w, C] as [h w, C] */ \
    S(OP_RESHAPE_EXPERTS, reshape_experts, ONE) /* [E n, d] as [E, n, d] */ \
    S(OP_RESHAPE_TRANSPOSE_EXPERTS, reshape_transpose_experts, ONE) /* and each matrix transposed */ \
    S(OP_RESHAPE_CLASSES, reshape_classes, ONE) /* a matrix, also if it has one row */ \
    S(OP_RESHAPE_CLASSIFIER, reshape_classifier, ONE) /* the head's last matrix, where outputs have names */ \
    S(OP_RESHAPE_ROUTER_BIAS, reshape_router_bias, ONE) /* a vector of one number for each expert */ \
    S(OP_SUM_FRAMES, sum_frames, ONE) /* [C, frames 3 p p]: their sum as [C, 3, p, p] */ \
    /* ---- values ---- */ \
    S(OP_ADD_ONE, add_one, ONE) \
    S(OP_ADD_PLAMO_OFFSET, add_plamo_offset, ONE) /* a norm's weights and what the model adds to them */ \
    S(OP_SUBTRACT_MEAN, subtract_mean, ONE) \
    S(OP_NEGATE_SECOND_HALVES, negate_second_halves, ONE) /* of each head's rows */ \
    S(OP_SCALE_FALCON_H1, scale_falcon_h1, ONE) /* by the config's multipliers */ \
    S(OP_SCALE_JAIS, scale_jais, ONE) \
    S(OP_SCALE_RWKV6, scale_rwkv6, ONE) /* halved every few layers */ \
    S(OP_SCALE_LATENT_NORM, scale_latent_norm, ONE) /* dots3note: by sqrt(width) / length of the vector */ \
    S(OP_SCALE_HEAD_BAILING, scale_head_bailing, ONE) /* a head, divided by its columns' norms */ \
    S(OP_ROUND_TERNARY, round_ternary, ONE) /* -1, 0 or 1 times the mean |x|, unless coded so */ \
    S(OP_SOFTPLUS, softplus, ONE) /* log(1 + exp(x)) */ \
    S(OP_EXP, exp, ONE) /* exp(x) */ \
    S(OP_INVERSE_EXP, inverse_exp, ONE) /* 1 / exp(x), but never by 0 */ \
    S(OP_EXP_COLUMN, exp_column, ONE) /* exp(x), [H] as [1, H] */ \
    S(OP_NEGATIVE_EXP, negative_exp, ONE) /* -exp(x) */ \
    S(OP_NEGATIVE_EXP_COLUMN, negative_exp_column, ONE) /* [H] as [1, H] */ \
    S(OP_NEGATIVE_EXP_OF_HEADS, negative_exp_of_heads, ONE) /* kimi: [1, 1, H, 1] as [1, H] */ \
    S(OP_EXPERTS_OF_TOKENS, experts_of_tokens, ONE) /* deepseek4: the numbers of each token's experts, as I32 */ \
    S(OP_TARGET_IDS, target_ids, ONE) /* how far a draft model's tokens are from their numbers: the target's ids */
/* clang-format on */

#define ARCH_OP_MEMBER(member, function, makes) member,
typedef enum arch_op { ARCH_OPS(ARCH_OP_MEMBER) ARCH_OP_LIMIT } arch_op;
#undef ARCH_OP_MEMBER

/* `from`: the name in the folder, where '#' is the number of a layer and '*' that of an expert; with or
 * without .weight or .bias. `to`: the name in GGUF, with the same signs; what from lacked is put behind it. Several
 * names have '|' between them. from NULL ends a list. */
typedef struct arch_rule {
    const char *from, *to;
    arch_op op;
} arch_rule;

/* Without an op: OP_COPY. P: source tensor `from` of layer N is tensor `to` of block N. */
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
/* The mixing of the streams of hyper-connections, before attention and before the feed-forward sublayer. */
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
