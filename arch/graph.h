/* The computation of a layer of an architecture: its sublayers, its optional tensors, its norms, its RoPE. Read by
 * forward/graph/, which has the code of each sublayer (docs/internals/forward.md). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/weights.h"

/* The sublayers that layers are made of: the member, and its code in forward/graph/. */
#define ARCH_SUBLAYERS(P) \
    /* mixers */ \
    P(MIXER_ATTENTION, mixer_attention)   /* keys and values per head */ \
    P(MIXER_LATENT, mixer_latent)         /* keys and values of all heads come from one latent vector */ \
    P(MIXER_PRODUCT, mixer_product)       /* one matrix: tokens do not see each other */ \
    P(MIXER_COMPRESSED, mixer_compressed) /* one key for all heads, near ones and compressed blocks */ \
    P(MIXER_SHORTCONV, mixer_shortconv)   /* a short convolution between two gates */ \
    P(MIXER_DELTA_NET, mixer_delta_net)   /* a state per head that learns each key's value */ \
    P(MIXER_KDA, mixer_kda)               /* a delta net that forgets row by row */ \
    P(MIXER_LIGHTNING, mixer_lightning)   /* linear attention with constant decays */ \
    P(MIXER_MAMBA1, mixer_mamba1)         /* a state space with a decay per element of the state */ \
    P(MIXER_MAMBA2, mixer_mamba2)         /* a state space with a decay per head */ \
    P(MIXER_PLAMO2, mixer_plamo2)         /* the same, with other products before it */ \
    P(MIXER_RWKV6, mixer_rwkv6)           /* a state per head whose rows decay by the token */ \
    P(MIXER_RWKV7, mixer_rwkv7)           /* the same, which forgets what a key stands for as well */ \
    P(MIXER_DFLASH, mixer_dflash) /* attention of blocks to hidden states of a target and to themselves */ \
    P(MIXER_ASSISTANT, mixer_assistant) /* attention to keys and values of a target */ \
    /* feed-forward sublayers */ \
    P(FFN_GATED, ffn_gated)             /* down(act(gate x) * up x) */ \
    P(FFN_FUSED, ffn_fused)             /* the same, gate and up in one matrix */ \
    P(FFN_PLAIN, ffn_plain)             /* down(act(up x)) */ \
    P(FFN_EXPERTS, ffn_experts)         /* a few experts per token, and a shared one */ \
    P(FFN_CHANNEL_MIX, ffn_channel_mix) /* RWKV's: it reads the token before, too */ \
    P(FFN_DFLASH, ffn_dflash)           /* FFN_GATED, between two convolutions where the model has them */ \
    /* tails */ \
    P(TAIL_SCALE, tail_scale)         /* the residual stream times layer_output_scale */ \
    P(TAIL_EMBEDDING, tail_embedding) /* adds what was embedded */ \
    P(TAIL_PER_LAYER, tail_per_layer) /* adds what the layer's own inputs let through, and scales */ \
    P(TAIL_STREAMS, tail_streams)     /* four streams, of which a layer runs one and corrects all */ \
    P(TAIL_HYPER, tail_hyper)         /* streams that sublayers read and write by weights of the token */ \
    P(TAIL_GATED, tail_gated)         /* the same, by gates of low rank; one layer reads n-grams, too */ \
    P(TAIL_STACKS, tail_stacks)       /* two alternating stacks of blocks, each with a state of its own */ \
    P(SUBLAYER_BANK, sublayer_bank)   /* hidden states before earlier layers */ \
    P(SUBLAYER_SWITCHED, sublayer_switched) /* small matrices beside others, which tokens choose */ \
    P(SUBLAYER_MTP, sublayer_mtp)           /* hidden state and token that an MTP layer begins with */ \
    P(SUBLAYER_EAGLE, sublayer_eagle)       /* hidden states of the target and token: EAGLE-3's input */

#define ARCH_SUBLAYER_MEMBER(member, sublayer) member,
typedef enum arch_sublayer {
    SUBLAYER_NONE,
    ARCH_SUBLAYERS(ARCH_SUBLAYER_MEMBER) ARCH_SUBLAYER_LIMIT
} arch_sublayer;
#undef ARCH_SUBLAYER_MEMBER

/* Keys that hardly another architecture has, or numbers that follow from others: read in this order after all
 * other keys (forward/graph/own_keys.c). */
#define ARCH_OWN_KEYS(K) \
    K(OWN_SCORE_CAP, own_read_score_cap) /* attn_logit_softcapping, or else score_cap */ \
    K(OWN_FINAL_CAP, own_read_final_cap) /* final_logit_softcapping, or else final_cap */ \
    /* hidden states between layers, and scores */ \
    K(OWN_SCALES_GRANITE, own_read_scales_granite) /* scales of four places, that of logits needed */ \
    K(OWN_SCALES_DEPTH, own_read_scales_depth)     /* three keys, by default of a model's depth and width */ \
    K(OWN_SCALES_FIXED, own_set_scales_depth)      /* the same numbers, without a key */ \
    K(OWN_SCALES_OUTPUT, own_read_scales_output) /* scales of embedding, logits, scores, and yarn's share */ \
    K(OWN_EMBEDDING_SCALE, own_read_embedding_scale) /* of the embedding alone */ \
    K(OWN_SCALE_INPUTS, \
      own_read_scale_inputs) /* residual_scale is of what a sublayer reads, not of its result */ \
    K(OWN_SHARED_LENGTH, own_check_shared_length) /* whether routed layers have a shared expert */ \
    K(OWN_VALUE_SCALE, own_read_value_scale)      /* a factor on the attention's output */ \
    /* rope */ \
    K(OWN_NEOX_SECTIONS, own_read_neox_sections)    /* pairs are halves apart where there are sections */ \
    K(OWN_ROPE_ALPHA, own_read_rope_alpha)          /* the base grows with a factor */ \
    K(OWN_SECTIONS_IF_ANY, own_read_sections)       /* sections where the key has two that are not 0 */ \
    K(OWN_YARN_BETAS, own_read_yarn_betas)          /* yarn's bounds */ \
    K(OWN_POSITIONS_BY_NUMBER, own_set_positions)   /* rope, or linear biases, by_number */ \
    K(OWN_GROWING_QUERIES, own_set_growing_queries) /* by the position, in layers without rope */ \
    K(OWN_HALF_ROTATED, own_halve_rotated)          /* in layers without a window */ \
    /* others */ \
    K(OWN_GATE_LIMITS, own_read_gate_limits)           /* swiglu_clamp_exp, swiglu_clamp_shexp */ \
    K(OWN_INPUT_LIMITS, own_read_input_limits)         /* swiglu_clamp_exp, before the activation */ \
    K(OWN_INPUT_LIMITS_ALL, own_read_input_limits_all) /* and swiglu_clamp_shexp, likewise */ \
    K(OWN_HALVING, own_read_halving)     /* rescale_every_n_layers: layers that halve the residual stream */ \
    K(OWN_LOOPS, own_read_loops)         /* blocks that run several times */ \
    K(OWN_KDA_FLAT, own_read_kda_flat)   /* KDA with an optional bound, and SITU's numbers */ \
    K(OWN_KDA_BOUND, own_read_kda_bound) /* KDA with an optional bound */ \
    K(OWN_KDA_POSITIVE, own_read_kda_positive)           /* KDA with a needed one */ \
    K(OWN_HIDDEN_ACTIVATION, own_read_hidden_activation) /* hidden_activation: that of gates */ \
    K(OWN_UNGATED_RELU, own_set_ungated_relu)   /* feed-forward sublayers without gates have ReLU */ \
    K(OWN_XIELU, own_read_xielu)                /* the numbers of each layer's activation */ \
    K(OWN_PARALLEL, own_read_parallel)          /* use_parallel_residual */ \
    K(OWN_SWIN, own_read_swin)                  /* swin_norm: PLACE_SWIN */ \
    K(OWN_ALL_KV_HEADS, own_check_all_kv_heads) /* as many heads of keys as of queries */

#define ARCH_OWN_MEMBER(member, function) member,
typedef enum arch_own { OWN_NONE, ARCH_OWN_KEYS(ARCH_OWN_MEMBER) ARCH_OWN_LIMIT } arch_own;
#undef ARCH_OWN_MEMBER

typedef enum activation {
    ACT_SILU,
    ACT_GELU,
    ACT_RELU2,
    ACT_CLAMPED,
    ACT_RELU,
    ACT_XIELU,
    ACT_SITU
} activation;

/* Whether models of a row have a tensor or a key. A model with a tensor that its row has as ABSENT is
 * refused, because its effect would be left out. UNUSED: a bias that may be there and is not added. */
typedef enum presence { ABSENT, OPTIONAL, REQUIRED, UNUSED } presence;

/* The place of a layer's norms; tensors.c has their tensors. */
typedef enum placement {
    PLACE_PRE,          /* attn_norm and ffn_norm, each before its sublayer */
    PLACE_TWO,          /* attn_norm and attn_norm_2 */
    PLACE_PAN,          /* the same as the first, but the second is called post_attention_norm */
    PLACE_PAN_OUTPUT,   /* or attn_output_norm */
    PLACE_SANDWICH,     /* pre, and post_attention_norm and post_ffw_norm on what the sublayers give */
    PLACE_SANDWICH_OUT, /* the same, called attn_output_norm and layer_output_norm or post_ffw_norm */
    PLACE_POST,         /* only those two */
    PLACE_SWIN, /* attn_norm and ffn_norm on what the sublayers give; the second reads what the first gives */
    PLACE_SUMS, /* attn_output_norm and layer_output_norm, on the residual stream after the sublayer */
    PLACE_PARALLEL, /* both sublayers read what attn_norm gives */
    PLACE_NOWHERE,  /* there are none */
} placement;

typedef enum norm_kind {
    NORM_RMS,    /* root mean square */
    NORM_LAYER,  /* mean and variance */
    NORM_BY_EPS, /* the one whose eps the metadata have */
} norm_kind;

typedef enum embedding_norm {
    EMBEDDING_AS_IS,
    EMBEDDING_UNWEIGHTED,
    EMBEDDING_WEIGHTED, /* token_embd_norm, with a bias */
} embedding_norm;

typedef enum qk_norm {
    QK_NONE,
    QK_HEAD,       /* over the values of a head, the same weights for all heads */
    QK_EACH,       /* each head its own weights */
    QK_FULL,       /* over all heads' values at once */
    QK_UNWEIGHTED, /* over a head's values, without weights, and only where the layer has rope */
    QK_SCALED,     /* the same everywhere; of q times one weight per head */
} qk_norm;

/* The choice of the keys that a token attends to, with latent attention. */
typedef enum indexer_kind {
    INDEXER_NONE,
    INDEXER_NEOX,    /* RoPE rotates pairs (i, i + n/2) in it */
    INDEXER_LAST,    /* the last values of a head are rotated; without top_k there is none */
    INDEXER_POOLED,  /* nothing is rotated; it chooses pools of keys by a sum of their own */
    INDEXER_BY_TYPE, /* pairs (2i, 2i + 1); attention.indexer.types says which layers choose */
} indexer_kind;

/* The use of what attn_gate gives: its function's value is a factor of what each head gives, or of each of
 * its values.
 */
typedef enum head_gate { GATE_NONE, GATE_SIGMOID, GATE_SOFTPLUS } head_gate;

/* The function that makes weights of a router's values; the numbers are those of expert_gating_func. */
typedef enum router_function {
    ROUTER_SOFTMAX = 1,
    ROUTER_SIGMOID,
    ROUTER_SOFTMAX_CHOSEN, /* over the chosen alone; the values themselves choose */
    ROUTER_ROOT_SOFTPLUS,
    ROUTER_FUNCTIONS
} router_function;
typedef enum router_sum { SUM_AS_IS, SUM_IS_ONE, SUM_BY_KEY } router_sum;

typedef struct routing {
    router_function function;
    presence function_key; /* expert_gating_func, in place of that function */
    router_sum sum;        /* of the weights of the chosen; by the key expert_weights_norm */
    bool scale_key;        /* expert_weights_scale is read */
    bool has_groups;       /* expert_group_count is read */
    bool is_late;          /* the values choose, and the function is applied to those of the chosen */
    bool scales_inputs;    /* gate weights scale the experts' inputs, not their outputs */
    bool has_chunks;       /* sigmoids choose; small experts work on what the experts give */
    bool reads_start;      /* the router reads the layer's input */
    bool has_tables;       /* in the first hash_layer_count layers a table has the experts of each token id */
    float sum_factor;      /* of the experts' and the shared or dense sublayer's sum; 0: 1 */
} routing;

/* The factor of scores of queries and keys. */
typedef enum score_scale {
    SCORES_BY_HEAD,   /* 1 / sqrt(a head's size), as rope changes it */
    SCORES_ONE,       /* 1 */
    SCORES_BY_WIDTH,  /* as SCORES_BY_HEAD; by_number: 1 / sqrt(width / heads) */
    SCORES_UNCHANGED, /* 1 / sqrt(a head's size of latent attention): yarn does not change it */
    SCORES_BY_SQUARE, /* 1 / a head's size */
    SCORES_BY_VALUE,  /* 1 / sqrt(a value's size) */
} score_scale;

/* RoPE in layers with a sliding window. */
typedef enum local_rope {
    LOCAL_SAME,
    LOCAL_BASE_SWA,  /* rope.freq_base_swa, by default the base */
    LOCAL_OWN,       /* the same, by default 10000, and no scaling */
    LOCAL_UNSCALED,  /* the same, by default the base, and no scaling */
    LOCAL_PLAIN,     /* the base, no scaling, magnitude 1 */
    LOCAL_PLAIN_SWA, /* the same, with rope.freq_base_swa, by default the base */
} local_rope;

typedef enum no_rope {
    ROPE_ALWAYS,
    ROPE_NOT_FOURTH,     /* not in layers 3, 7, 11, ... */
    ROPE_IF_FINETUNED,   /* by the key rope.scaling.finetuned */
    ROPE_LOCAL,          /* only in layers with a window */
    ROPE_LOCAL_IF_ANY,   /* the same, but everywhere where no layer has one */
    ROPE_LOCAL_OR_DENSE, /* in layers with a window, and in the leading_dense_block_count first ones */
    ROPE_BY_PATTERN,     /* as the list attention.rope_pattern has it */
    ROPE_NOT_FIRST,      /* not in layers 0, 4, 8, ... of models with windows and other than 4 blocks */
    ROPE_NEVER,
} no_rope;

/* The assignment of RoPE's pairs to sections of positions (M-RoPE). Text has the same position in three sections and
 * 0 in the fourth, whose pairs are not rotated. */
typedef enum rope_sections {
    SECTIONS_NONE,
    SECTIONS_IN_ORDER,    /* one section after the other */
    SECTIONS_INTERLEAVED, /* the first three alternately */
} rope_sections;

typedef enum rope_factors {
    FACTORS_NONE,
    FACTORS_UNUSED,   /* rope_freqs may be there and changes nothing */
    FACTORS_FREQS,    /* rope_freqs */
    FACTORS_LONGROPE, /* rope_freqs, or with scaling of type longrope the long and the short ones */
    FACTORS_PAIR,     /* the long and the short ones */
    FACTORS_GLOBAL,   /* rope_freqs, or the pair with type longrope, in layers without a window */
} rope_factors;

/* Blocks called enc.blk.N and dec.blk.N (forward/graph/residual/residual.h). */
typedef enum arch_coders { CODERS_NONE, CODERS_ENCODER, CODERS_BOTH } arch_coders;

typedef enum tying { TIED_MAY, TIED_MUST, TIED_NO } tying; /* whether output.weight is absent */
typedef enum window_key {
    WINDOW_NONE,
    WINDOW_OPTIONAL,
    WINDOW_REQUIRED,
    WINDOW_BY_NUMBER, /* only in models of a number of layers */
    WINDOW_IF_ANY,    /* window_default where the key is there and not 0 */
    WINDOW_CHUNKS,    /* of window_default tokens: a token sees those of its own chunk */
} window_key;

/* The hidden state that an MTP layer reads: as it is, or behind the model's last
 * norm, or all streams of a tail as they are. UNKNOWN: nobody has said how such blocks of this architecture are run. */
typedef enum mtp_input { MTP_UNKNOWN, MTP_NORMED, MTP_BARE, MTP_STREAMS } mtp_input;
typedef struct arch_mtp_layer {
    mtp_input input;
    placement place; /* of the block's norms; PLACE_PRE: as in layers */
    bool centers;    /* its last norm is a layer norm */
} arch_mtp_layer;

/* A matrix for image tokens alone, as large as another one of the layer. */
typedef struct arch_unread {
    const char *name; /* NULL ends a list */
    weight_slot as;
} arch_unread;

/* Ids of what is no text, from `first` up to `end`, which are never predicted: their logits are as small as can be.
 * A model with fewer ids than `end` has none of them. */
typedef struct arch_unsaid {
    uint32_t first, end;
} arch_unsaid;

enum {
    ARCH_GRAPH_SUBLAYERS = 3,
    ARCH_OWN_MOST = 5
}; /* mixers, and feed-forward sublayers; lists of own keys */

/* A member that a row does not name is ABSENT, 0, or the first value of its enum. */
typedef struct arch_graph {
    /* A layer takes the first of these sublayers that claims it, else the last one. An empty list: layers have no
     * such sublayer. */
    arch_sublayer mixers[ARCH_GRAPH_SUBLAYERS], ffns[ARCH_GRAPH_SUBLAYERS];
    /* A second mixer of every layer, which reads what the first one reads; both results are added. */
    arch_sublayer beside;
    /* A tail, which changes the residual stream after both sublayers of every layer; its input is the residual
     * stream. SUBLAYER_NONE: nothing. */
    arch_sublayer tail;
    bool ends_mean;     /* behind the last layer TAIL_HYPER takes the mean of its streams, without weights */
    bool mixes_streams; /* TAIL_HYPER's streams are mixed */
    arch_sublayer bank; /* earlier hidden states that layers read with the present one */
    arch_sublayer
        switched; /* adapters in the file, of which tokens switch one on (forward/graph/sublayer.h) */
    arch_sublayer
        entry; /* makes the input of the layer; only MTP layers have one (forward/graph/draft/mtp.c) */
    /* Layers from this one on use keys and values of earlier ones, whatever the key says; their own are in
     * the file and unused. 0: the key says it. */
    size_t own_kv_layers;
    /* In the first layers of a model only what stands out of its row passes the activation (ffn.c). */
    size_t sparse_layers;
    /* A layer has a feed-forward sublayer where feed_forward_length says so, and else a mixer: never both. */
    bool one_sublayer;
    arch_coders coders; /* encoder and decoder, or such an encoder alone */
    /* A layer has no mixer where attention.head_count is 0, and no feed-forward sublayer where
     * feed_forward_length is. A feed-forward sublayer that is alone reads through its own norm. */
    bool lacks_sublayers;
    /* Without the key full_attention_interval, the last of so many layers has attention, the others have the
     * row's first mixer. */
    uint32_t interval_default;
    bool experts_by_number; /* the key interleave_moe_layer_step says which layers have experts */

    /* Whether weights are there that only some rows have, or have in different ways. Two of them have
     * consequences: without an optional ffn_norm both sublayers read what attn_norm gives, and with a required
     * attn_qkv there are no attn_q, attn_k, attn_v in its place. */
    presence has[WEIGHT_SLOTS];
    const arch_unread *unread; /* matrices of a layer that text tokens do not use; NULL: there are none */
    arch_own own[ARCH_OWN_MOST];

    /* norms */
    norm_kind norm;
    placement place;
    presence norm_bias;
    const char *final_norm; /* tensor of the last one; NULL: output_norm.weight */
    bool unweighted;        /* no norm of a layer, and not the last one, has a tensor */
    bool ends_bare;         /* no norm follows the last layer */
    bool begins_bare;       /* the first layer's mixer may read the residual stream unnormed */
    float eps_after;        /* of norms of what sublayers give; 0: as of the others */
    embedding_norm embedding_norm;

    /* attention */
    score_scale score_scale;
    float score_cap; /* for OWN_SCORE_CAP */
    qk_norm qk;
    presence qk_bias; /* biases of the norms of queries and keys */
    bool qk_after_rope;
    /* the norms of queries and keys take the mean off, whatever others do, and their eps is qk_eps */
    bool qk_centers;
    float qk_eps;    /* 0: as of the others */
    bool free_head;  /* a head's size is attention.key_length; else width / heads */
    bool free_value; /* attention.value_length may differ from it */
    /* Latent attention with a window has attention.key_length_mla_swa, value_length_mla_swa, kv_lora_rank_swa,
     * and no indexer. */
    bool local_latents;
    bool local_sizes;  /* layers with a window have attention.key_length_swa, value_length_swa */
    bool shares_kv;    /* the last attention.shared_kv_layers use keys and values of earlier ones */
    bool norms_v;      /* v passes a norm without weights; without attn_v it is what attn_k gives */
    bool shares_v;     /* without attn_v, v is what attn_k gives behind a norm without weights */
    bool rotated_head; /* a head's size is rope.dimension_count */
    bool gate_in_q;    /* attn_q has each head's q, then as many rows of its gate: heads times its sigmoid */
    bool pools_keys;   /* an indexer chooses blocks of keys by the mean of their own (block_choice.c) */
    bool sigmoid_states; /* gates of delta nets are sigmoids, not SiLU */
    indexer_kind indexer;
    head_gate gate;
    float alibi;        /* the largest slope of linear biases is 2^-(this / heads); 0: there are none */
    bool alibi_key;     /* as attention.max_alibi_bias says */
    presence clamp;     /* attention.clamp_kqv */
    presence positions; /* position_embd, a row per position, is added to the embedding */
    presence kinds;     /* token_types: its first row is added as well */
    /* Tokens see those behind them, too. A window then reaches half its length to either side. */
    bool both_ways;
    bool ways_by_key; /* the same only where attention.causal is false */
    presence qkv_bias;
    bool bias_is_usual; /* all published models have one of queries, keys and values */
    presence output_bias;

    /* scales */
    bool embedding_sqrt;  /* times sqrt(width) */
    presence logit_scale; /* the key; logits times it */
    float final_cap;      /* of logits; 0: none */

    /* rope */
    bool neox;          /* pairs are (i, i + n/2); else (2i, 2i + 1) */
    bool rotated_local; /* rope.dimension_count_swa is read */
    bool rope_partial;  /* may rotate only some of a head's values */
    bool rope_fixed;    /* whole heads are rotated, with a base of 10000, whatever the keys say */
    rope_sections sections;
    rope_factors factors;
    no_rope no_rope;
    double log_multiplier; /* rope.scaling.yarn_log_multiplier is read, and divided by this; 0: not read */
    bool log_multiplier_twice; /* the multiplier counts on both sides of the magnitude's fraction */
    bool temperature;

    /* windows */
    window_key window;
    uint32_t window_default; /* 0: no window */
    uint32_t period_default; /* 0: all layers have one */
    bool pattern_by_number;  /* llama.cpp reads no list in place of a period */
    bool pattern_list;       /* the pattern has to be there, as a list */
    bool first_global;       /* of a period the first layer has no window; else the last one */
    local_rope local_rope;

    /* feed-forward */
    activation act;
    presence ffn_bias; /* of dense ones */
    bool ffn_is_half;  /* feed_forward_length is twice as large as the features in the middle */
    routing routing;
    bool experts_are_ffn; /* experts have feed_forward_length, though they have a length of their own */
    bool experts_share; /* experts without a length of their own share feed_forward_length among those used */
    presence router_bias; /* and experts' */
    bool fused_shared;    /* gate and up of the shared expert are one matrix */
    bool shared_is_each;  /* expert_shared_feed_forward_length is of one of expert_shared_count experts */
    bool plain_experts;   /* experts, the shared one too, have no gates: down(act(up x)) */
    bool extra_layers;    /* the last nextn_predict_layers blocks are no layers: they predict more tokens */
    arch_mtp_layer mtp;   /* how these are run */

    /* head */
    bool embeds; /* the output is pooled hidden states, not logits; there is no output.weight */
    /* Tensors of a classification head: names, with a space between two, of which a model has all or none. NULL: each
     * matrix has a bias. */
    const char *const *head;
    bool has_dense; /* matrices behind the pooling: dense_2, dense_3 */
    tying tied;
    presence logit_bias;
    arch_unsaid unsaid;
} arch_graph;
