/* What the files of this room know of a model that is set up; forward.h is for the others. */
#ifndef GQ_FORWARD_MODEL_H
#define GQ_FORWARD_MODEL_H

#include "forward/architectures.h"
#include "forward/forward.h"
#include "forward/matmul.h"
#include "forward/simd/kernels.h"

/* The weights of a layer, each with a bias that may be there. VECTOR: small, kept decoded. */
#define FORWARD_SLOTS(MATRIX, VECTOR) \
    VECTOR(ATTN_NORM, "attn_norm") \
    VECTOR(ATTN_NORM_2, "attn_norm_2") \
    VECTOR(FFN_NORM, "ffn_norm") \
    VECTOR(POST_ATTENTION_NORM, "post_attention_norm") \
    VECTOR(POST_FFW_NORM, "post_ffw_norm") \
    MATRIX(Q, "attn_q") \
    MATRIX(K, "attn_k") \
    MATRIX(V, "attn_v") \
    MATRIX(QKV, "attn_qkv") \
    MATRIX(O, "attn_output") \
    VECTOR(Q_NORM, "attn_q_norm") \
    VECTOR(K_NORM, "attn_k_norm") \
    VECTOR(SINKS, "attn_sinks") \
    MATRIX(Q_A, "attn_q_a") \
    VECTOR(Q_A_NORM, "attn_q_a_norm") \
    MATRIX(Q_B, "attn_q_b") \
    MATRIX(KV_A, "attn_kv_a_mqa") \
    VECTOR(KV_A_NORM, "attn_kv_a_norm") \
    MATRIX(KV_B, "attn_kv_b") \
    MATRIX(K_B, "attn_k_b") \
    MATRIX(V_B, "attn_v_b") \
    MATRIX(GATE, "ffn_gate") \
    MATRIX(UP, "ffn_up") \
    MATRIX(DOWN, "ffn_down") \
    MATRIX(ROUTER, "ffn_gate_inp") \
    VECTOR(CHOICE, "exp_probs_b") \
    MATRIX(GATE_EXPS, "ffn_gate_exps") \
    MATRIX(UP_EXPS, "ffn_up_exps") \
    MATRIX(GATE_UP_EXPS, "ffn_gate_up_exps") \
    MATRIX(DOWN_EXPS, "ffn_down_exps") \
    MATRIX(SHARED_GATE, "ffn_gate_inp_shexp") \
    MATRIX(GATE_SHEXP, "ffn_gate_shexp") \
    MATRIX(UP_SHEXP, "ffn_up_shexp") \
    MATRIX(DOWN_SHEXP, "ffn_down_shexp")
#define FORWARD_SLOT(slot, name) slot,
typedef enum slot { FORWARD_SLOTS(FORWARD_SLOT, FORWARD_SLOT) SLOTS } slot;
#undef FORWARD_SLOT

/* What a layer is made of: tensors (NULL: it has them not), and its numbers. */
typedef struct layer_plan {
    const gguf_tensor *weight[SLOTS], *bias[SLOTS];
    size_t heads, kv_heads;
    size_t ff, expert_ff, shared_ff, q_rank; /* rows of the matrices in question; 0: none */
    bool local;                              /* with a window */
    bool rope;
    bool routed;
} layer_plan;

/* How rope turns, in layers with a window and in others. */
typedef struct rope_plan {
    double base;
    double scale; /* of positions: 1 / factor */
    double magnitude;
    bool yarn;
} rope_plan;

struct forward_model {
    const gguf_model *file;
    const char *path;
    const architecture *arch;
    const kernels *codecs;
    const forward_kernels *kernels;
    const element_kernels *elements;
    forward_sizes sizes;
    layer_plan *layers;
    const gguf_tensor *out_bias, *output_norm, *output_norm_bias;
    const gguf_tensor *rope_freqs, *rope_long, *rope_short;

    float eps, score_scale, attention_cap, final_cap;
    float embedding_scale, residual_scale;

    size_t head, value; /* values of a head of q and k, of v */
    size_t turned;      /* of a head's values by rope */
    size_t latent;      /* kv_lora_rank; 0: none */
    size_t window;      /* of local layers */

    bool neox, longrope;
    rope_plan rope[2]; /* [local] */
    double beta_fast, beta_slow, original_context;
    double temperature, temperature_length;

    bool parallel_own; /* both parts read the state, each through a norm of its own */

    size_t experts, experts_used, groups, groups_used;
    bool sigmoid, normalised;
    float expert_scale; /* 1: none */
};

/* Metadata into numbers; then tensors, which also say how many rows some have. */
bool model_read_keys(forward_model *m, gq_error *e);
bool model_find_tensors(forward_model *m, gq_error *e);

/* Aligned to a line of the cache; free() releases it. NULL: e says so. */
void *room_new(uint64_t bytes, gq_error *e);
/* Bytes of a layer in memory. */
uint64_t layer_plan_bytes(const layer_plan *plan);
/* Values of a small tensor; what is NULL reads as nothing. raw: room for it as stored. */
bool model_read_values(const forward_model *m, const gguf_tensor *t, void *raw, float *values, gq_error *e);

/* As it is stored. */
typedef struct layer_matrix {
    const uint8_t *data; /* NULL: not there */
    uint32_t type;
} layer_matrix;

struct forward_layer {
    const forward_model *model;
    const layer_plan *plan; /* NULL: nothing read so far */
    size_t index;
    uint8_t *room;
    layer_matrix own[SLOTS], other[SLOTS]; /* other: in place of its own where that is wanted */
    bool replaced;
    const float *values[SLOTS], *bias_values[SLOTS]; /* of vectors; NULL: not there */
};

struct forward_tile {
    const forward_model *model;
    size_t most, first, rows; /* rows 0: nothing read so far */
    uint8_t *data;
    float *bias;
};

#endif
