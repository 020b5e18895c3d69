/* The architectures that can be run: one graph, and a row per architecture that says what it has of it. */
#ifndef GQ_FORWARD_ARCHITECTURES_H
#define GQ_FORWARD_ARCHITECTURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "forward/forward.h"
#include "forward/keys.h"
#include "forward/parts.h"
#include "forward/simd/elements.h"

/* Whether models of a row have a tensor or a key. A model with a tensor that its row has as ABSENT is
 * refused, because its effect would be left out. UNUSED: a bias that may be there and is not added. */
typedef enum presence { ABSENT, OPTIONAL, REQUIRED, UNUSED } presence;

/* The place of a layer's norms. */
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

typedef enum routing {
    ROUTE_SOFT,      /* weights of the chosen as softmax over all gives them */
    ROUTE_SOFT_NORM, /* the same, their sum made 1 */
    /* as the metadata say; where they say no function, softmax or sigmoid */
    ROUTE_KEYS_SOFT,
    ROUTE_KEYS_SIGMOID,
    ROUTE_FUNCTION_NORM, /* the function as the metadata say, which they must; the sum made 1 */
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
    ROPE_NEVER,
    ROPE_NOT_FOURTH,   /* not in layers 3, 7, 11, ... */
    ROPE_IF_FINETUNED, /* by the key rope.scaling.finetuned */
    ROPE_LOCAL,        /* only in layers with a window */
    ROPE_LOCAL_IF_ANY, /* the same, but everywhere where no layer has one */
} no_rope;

/* How pairs belong to sections of positions. Text has the same position in three of them and 0 in the fourth,
 * whose pairs do not turn. */
typedef enum rope_sections {
    SECTIONS_NONE,
    SECTIONS_ROW,         /* one section after the other */
    SECTIONS_INTERLEAVED, /* the first three by turns */
} rope_sections;

typedef enum rope_factors {
    FACTORS_NONE,
    FACTORS_UNUSED,   /* rope_freqs may be there and changes nothing */
    FACTORS_FREQS,    /* rope_freqs */
    FACTORS_LONGROPE, /* rope_freqs, or with scaling of type longrope the long and the short ones */
    FACTORS_PAIR,     /* the long and the short ones */
} rope_factors;

typedef enum tying { TIED_MAY, TIED_MUST, TIED_NO } tying; /* whether output.weight is absent */
typedef enum window_key { WINDOW_NONE, WINDOW_OPTIONAL, WINDOW_REQUIRED, WINDOW_64_BLOCKS } window_key;

enum { ARCHITECTURE_PARTS = 3 }; /* mixers of a row, and feed-forward parts */

typedef struct architecture {
    const char *name;

    /* A layer takes the first of these parts that claims it, else the last one. An empty list: layers have no
     * such part. */
    const layer_part *mixers[ARCHITECTURE_PARTS], *ffns[ARCHITECTURE_PARTS];
    /* A second mixer of every layer, which reads what the first one reads; both results are added. */
    const layer_part *beside;
    /* A layer has a feed-forward part where feed_forward_length says so, and else a mixer: never both. */
    bool one_part;

    /* Whether weights are there that only some rows have, or have in different ways. Two of them have
     * consequences: without an optional ffn_norm both parts read what attn_norm gives, and with a required
     * attn_qkv there are no attn_q, attn_k, attn_v in its place. */
    presence has[WEIGHT_SLOTS];
    /* Reads keys that hardly another row has, after all others; NULL: there are none. */
    void (*read_own_keys)(forward_model *m, key_reader *r);

    /* norms */
    bool layer_norm; /* mean and variance; else root mean square */
    placement place;
    presence norm_bias;
    const char *final_norm; /* tensor of the last one; NULL: output_norm.weight */

    /* attention */
    qk_norm qk;
    bool qk_after_rope;
    bool free_head; /* a head's size is attention.key_length; else width / heads */
    bool gate_in_q; /* attn_q has each head's q, then as many rows of its gate: heads times its sigmoid */
    presence qkv_bias;
    presence output_bias;

    /* scales */
    bool embedding_sqrt;  /* times sqrt(width) */
    presence logit_scale; /* the key; logits times it */

    /* rope */
    bool neox;         /* pairs are (i, i + n/2); else (2i, 2i + 1) */
    bool rope_partial; /* may turn only some of a head's values */
    rope_sections sections;
    rope_factors factors;
    no_rope no_rope;
    double log_multiplier; /* rope.scaling.yarn_log_multiplier is read, and divided by this; 0: not read */
    bool temperature;

    /* windows */
    window_key window;
    uint32_t window_default; /* 0: no window */
    uint32_t period_default;
    local_rope local_rope;

    /* feed-forward */
    activation act;
    presence ffn_bias; /* of dense ones */
    routing routing;
    presence router_bias; /* and experts' */
    bool extra_layers;    /* the last nextn_predict_layers blocks are not run */

    /* head */
    tying tied;
    presence logit_bias;
} architecture;

/* The row of this name; NULL: not in the table. Rows are static. */
const architecture *architecture_named(const char *name);
const architecture *architecture_at(size_t i); /* row i; NULL behind the last */

#endif
