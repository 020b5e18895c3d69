/* Small random models of every architecture that is run, with every optional feature that it can have. */
#pragma once

#include "tests/support/model.h"

enum { VARIANT_VOCABULARY = 96, VARIANT_CONTEXT = 20, VARIANT_IDS = 40 };

/* Names of tensors and sizes are written out here, and not taken from the table under test. */
typedef struct variant {
    const char *name, *arch; /* arch NULL: the name */
    /* 0: as in the first row of the list */
    uint32_t layers, width, heads, kv, head, ff, value, rotated, experts, used, dense, shared, groups;
    uint32_t vocabulary; /* 0: VARIANT_VOCABULARY */
    bool ln, norm_bias, post, tied, fused_qkv, qkv_bias, out_bias, ffn_bias, logit_bias;
    bool no_pre, no_length, sinks, expert_bias, choice_bias, shared_gate, fused_experts;
    bool no_norms, bare_norms, bare_choice; /* none; those after parts, exp_probs_b without a suffix */
    bool positions, embedding_norm, fused_shared, plain_experts;
    uint32_t latents;                        /* the experts' width; 0: the model's */
    bool routed_names;                       /* ffn_routed_down, _norm and _up instead of ffn_latent_ */
    uint32_t step;                           /* of layers, of which the last one is routed */
    uint32_t no_sinks;                       /* bit i: layer i has none */
    uint8_t heads_at[6], kv_at[6], ff_at[6]; /* per layer; first one 0: all layers alike */
    uint8_t head_at[6];
    bool no_rotation;          /* no rope */
    bool dense_too;            /* routed layers have a dense part as well */
    const char *post_names[2]; /* names of the norms of the parts' outputs; NULL: as .post has them */
    uint32_t own_kv;           /* layers that have keys and values; 0: all */
    uint32_t no_v;             /* bit i: layer i has no attn_v */
    /* "name=2;name=3x4": tensors of each layer, and of the model, beside those of the options */
    const char *extra, *extra_model, *extra_last; /* last: after all others */
    uint32_t extra_at;                            /* bit i: layer i has an indexer of 12 heads of 64 */
    char
        coders; /* e(ncoder): its blocks are called enc.blk.N; b(oth): and dec.blk.N, which attend to its output */
    uint32_t decoders; /* blocks of the decoder */
    uint32_t mask;     /* tokenizer.ggml.mask_token_id; 0: it has none */
    bool
        own_distances; /* every block has relative position biases, not only the first of encoder and decoder */
    char gate;         /* rows of attn_gate: one per h(ead) or v(alue) */
    const char *inner; /* name of the norm before the FFN; NULL: ffn_norm; "": none */
    char qk;           /* norms of q and k: h(ead), f(ull), e(ach), s(caled) */
    char ffn;          /* g(ate), f(used), p(lain), r(outed), c(hannel mix), n(o receptance); 0: gate */
    char factors;      /* rope factors: f(reqs), l(ong and short) */
    /* A mixer per layer: a(ttention), c(onvolution); delta nets: d, b(oth rates in one matrix), o(ld files');
     * Mamba 1, 2; j(amba's), h: 2 without norm, p(lamo2's); KDA: k(imi's), l: without low rank, m: k3's, g:
     * GLM's. t: lightning, x: a matrix. RWKV 6, 7; q, r: those of Qwen's models. n(one): a layer with a
     * feed-forward sublayer alone. NULL: attention. */
    const char *mixers;
    bool one_sublayer; /* a layer with a mixer has no feed-forward sublayer */
    bool beside;       /* attention in every layer, beside its other mixer */
    bool gated_q;      /* attn_q has gates, too */
    bool no_first;     /* layer 0 has no norm before its mixer */
    const char *last;  /* name of the last norm; NULL: output_norm; "": none */
    uint32_t
        local; /* bit i: layer i has latents of other sizes: 16 in a head, 8 of them values, a rank of 8 */
    uint32_t tables; /* layers with a table of experts for each token */
    /* c(ompressed keys); f(olded): attn_k_b and attn_v_b; u(nfolded): attn_kv_b and attn_q; q: attn_kv_b */
    char latent;
    const char *keys; /* "key=value;...", numbers with a point are f32; "[1,2]" are lists */
} variant;

/* The other parts of the list; they end with a row without a name. */
extern const variant variants_more[], variants_mixers[], variants_newer[], variants_encoders[];

const variant *variant_at(size_t i); /* NULL after the last */
const variant *variant_named(const char *name);
const char *variant_arch(const variant *v);

/* type: of matrices. without: a key of v->keys that is left out, or NULL. */
model *variant_model(const variant *v, uint32_t type, const char *without);
/* Keys as in `variant`, set over those there are; "key=u:1", "key=f:1", "key=b:true" and "key=s:1" say the
 * type, "key=[1,2]" is a list of integers, and a key that begins with ':' is not the architecture's. */
void variant_set(model *m, const char *arch, const char *keys);
/* Adds a tensor of values between low and high; ne[k] 0: no such dimension. */
void variant_add(model *m, uint64_t *random, const char *name, uint32_t type, const uint64_t ne[4], float low,
                 float high);
/* A layer whose tensors are being added; type: of matrices. */
typedef struct variant_layer {
    model *m;
    uint64_t *random;
    int index;
    uint32_t type;
} variant_layer;
/* Adds the tensors of a mixer other than attention, as `mixers` calls it. */
void variant_add_mixer(const variant_layer *l, uint64_t width, char kind);
/* The i-th id of the text that models are run on. */
uint32_t variant_id(size_t i);
