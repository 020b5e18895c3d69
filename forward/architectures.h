/* The architectures that can be run: one graph, and a row per architecture that says what it has of it. */
#ifndef GQ_FORWARD_ARCHITECTURES_H
#define GQ_FORWARD_ARCHITECTURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of a tensor: a row that has it not refuses a model with it, as what it is for would be left out. */
typedef enum presence { ABSENT, OPTIONAL, REQUIRED } presence;

/* Where norms stand. */
typedef enum placement {
    PLACE_PRE,      /* attn_norm and ffn_norm, each before its part */
    PLACE_PAN,      /* the same, but the second is called post_attention_norm */
    PLACE_SANDWICH, /* pre, and post_attention_norm and post_ffw_norm on what the parts give */
    PLACE_POST,     /* only those two */
    PLACE_PARALLEL, /* both parts read what attn_norm gives */
} placement;

typedef enum qk_norm {
    QK_NONE,
    QK_HEAD, /* over the values of a head, the same weights for all heads */
    QK_EACH, /* each head its own weights */
    QK_FULL, /* over all heads' values at once */
} qk_norm;

typedef enum ffn_form { FFN_GATED, FFN_FUSED, FFN_PLAIN } ffn_form;
typedef enum activation { ACT_SILU, ACT_GELU, ACT_RELU2, ACT_CLAMPED } activation;
typedef enum routing {
    ROUTE_NONE,
    ROUTE_SOFT,      /* weights of the chosen as softmax over all gives them */
    ROUTE_SOFT_NORM, /* the same, their sum made 1 */
    ROUTE_KEYS,      /* as the metadata say */
} routing;

/* How rope turns in layers with a window. */
typedef enum local_rope {
    LOCAL_SAME,
    LOCAL_BASE_SWA, /* rope.freq_base_swa, by default the base */
    LOCAL_OWN,      /* the same, by default 10000, and no scaling */
    LOCAL_PLAIN,    /* the base, no scaling */
} local_rope;

typedef enum no_rope {
    ROPE_ALWAYS,
    ROPE_NOT_FOURTH,   /* not in layers 3, 7, 11, ... */
    ROPE_IF_FINETUNED, /* by the key rope.scaling.finetuned */
    ROPE_LOCAL,        /* only in layers with a window */
    ROPE_LOCAL_IF_ANY, /* the same, but everywhere where no layer has one */
} no_rope;

typedef enum rope_factors {
    FACTORS_NONE,
    FACTORS_FREQS,    /* rope_freqs */
    FACTORS_LONGROPE, /* rope_freqs, or with scaling of type longrope the long and the short ones */
    FACTORS_PAIR,     /* the long and the short ones */
} rope_factors;

typedef enum tying { TIED_MAY, TIED_MUST, TIED_NO } tying; /* whether output.weight is absent */
typedef enum window_key { WINDOW_NONE, WINDOW_OPTIONAL, WINDOW_REQUIRED, WINDOW_64_BLOCKS } window_key;
typedef enum logit_use { LOGITS_PLAIN, LOGITS_TIMES, LOGITS_OVER } logit_use;

typedef struct architecture {
    const char *name;

    /* norms */
    bool layer_norm; /* mean and variance; else root mean square */
    placement place;
    bool parallel_without_ffn_norm; /* where the file has none, as PLACE_PARALLEL */
    bool parallel_by_key;           /* use_parallel_residual: both parts read the state, each by its norm */
    bool attn_norm_2;               /* may have it: what attention reads instead */
    presence norm_bias;

    /* attention */
    qk_norm qk;
    bool qk_optional;
    bool qk_after_rope;
    bool free_head;   /* a head's size is attention.key_length; else width / heads */
    bool only_qkv;    /* attn_qkv in place of attn_q, attn_k, attn_v; else either */
    bool equal_heads; /* as many key/value heads as query heads */
    presence qkv_bias;
    presence output_bias;
    bool output_bias_unused; /* accepted, not added */
    bool latent;
    bool sinks;

    /* scales, caps */
    bool embedding_sqrt; /* times sqrt(width) */
    bool scale_keys;     /* embedding_scale, residual_scale */
    bool scale_defaults; /* of their own, and of logit_scale, instead of 1 */
    bool attention_scale;
    uint32_t blocks_of_width_scale; /* models of so many blocks scale scores by width / heads; 0: none */
    bool attention_cap;
    float attention_cap_default;
    bool final_cap;
    float final_cap_default;
    logit_use logits;
    bool logit_scale_required;

    /* rope */
    bool neox;         /* pairs are (i, i + n/2); else (2i, 2i + 1) */
    bool sections;     /* neox also where rope.dimension_sections says so */
    bool rope_partial; /* may turn only some of a head's values */
    rope_factors factors;
    no_rope no_rope;
    double log_multiplier; /* rope.scaling.yarn_log_multiplier is read, and divided by this; 0: not read */
    bool yarn_betas;
    bool rope_alpha;
    bool temperature;

    /* windows */
    window_key window;
    uint32_t window_default; /* 0: no window */
    uint32_t period_default;
    local_rope local_rope;

    /* feed-forward */
    ffn_form ffn;
    activation act;
    presence ffn_bias; /* of dense ones */
    bool dense;        /* blocks without experts */
    routing routing;
    presence router_bias;  /* and experts' */
    presence choice_bias;  /* exp_probs_b */
    uint32_t gating;       /* ROUTE_KEYS: default of expert_gating_func */
    bool fused_experts;    /* ffn_gate_up_exps in place of two */
    presence shared;       /* shared expert */
    bool shared_by_length; /* if expert_shared_feed_forward_length says so */
    bool shared_gate;
    bool extra_layers; /* the last nextn_predict_layers blocks are not run */

    /* head */
    tying tied;
    presence logit_bias;
} architecture;

/* NULL: not in the table. */
const architecture *architecture_named(const char *name);
const architecture *architecture_at(size_t i); /* NULL behind the last */

#endif
