/* The files of projectors' rows, and what many rows share. */
#ifndef GQ_ARCH_PROJECTORS_H
#define GQ_ARCH_PROJECTORS_H

#include "arch/projector.h"
#include "arch/rows.h"

/* A file's rows; the classes of the last one are NULL. */
extern const arch_projector arch_projectors_see[], arch_projectors_hear[], arch_projectors_both[],
    arch_projectors_more[];

/* Items that all projectors have that see; the same without the size of images, and without that of the feed-forward
 * part, too; and those of all that hear. */
extern const arch_item clip_sees[], clip_sees_sized[], clip_sees_core[], clip_hears[];

/* Qwen 2.5's, which its models that hear have, too; and what their configs may leave out. */
extern const arch_item qwen25_pairs[];
extern const arch_rule qwen2_rules[], qwen3_rules[];
#define QWEN25_MISSING \
    "{\"hidden_size\": 3584, \"intermediate_size\": 3420, \"patch_size\": 14, \"depth\": 32, " \
    "\"num_heads\": 16," \
    " \"fullatt_block_indexes\": [7, 15, 23, 31]}"

#define QWEN2_MISSING \
    "{\"hidden_size\": 3584, \"patch_size\": 14, \"depth\": 32, \"num_heads\": 16, \"embed_dim\": 1280}"
#define QWEN3_MISSING \
    "{\"hidden_size\": 1152, \"intermediate_size\": 4304, \"patch_size\": 16, \"depth\": 27, " \
    "\"num_heads\": 16," \
    " \"num_position_embeddings\": 2304, \"spatial_merge_size\": 2}"
/* What many rows have: the kind, which readers choose their code by, and the norms' epsilon. */
#define KIND(k) ITEM_NAMES(".projector_type", PAIR_TEXT, k)
#define KIND_OF(part, k) ITEM_NAMES("." part ".projector_type", PAIR_TEXT, k)
#define EPS(n) FLOAT(".vision.attention.layer_norm_epsilon", n)
#define EPS_OR(n, v) FLOAT_OR(".vision.attention.layer_norm_epsilon", n, v)
#define EPS_IS(v) FLOAT_IS(".vision.attention.layer_norm_epsilon", v)
#define GELU BOOL_IS(".use_gelu", 1)
#define SCALE(n) U32(".vision.projector.scale_factor", n)
#define SCALE_OR(n, v) U32_OR(".vision.projector.scale_factor", n, v)
#define MERGE_OR(n, v) U32_OR(".vision.spatial_merge_size", n, v)

#define QWEN2_PAIRS \
    LIST(clip_sees_core), U32_OR(".vision.image_size", "vision.image_size", 560), \
        EPS_OR("root.rms_norm_eps", 1e-6)

/* A layer that sees, whose arrays are under p, a name with '#'. */
#define SEES_LAYER(p, from, to, ...) RULE(p from, "v.blk.#." to, __VA_ARGS__)
#define SEES_QKV(p, q, k, v) \
    SEES_LAYER(p, q, "attn_q"), SEES_LAYER(p, k, "attn_k"), SEES_LAYER(p, v, "attn_v")
/* CLIP's and SigLIP's layers and what is before and behind them, as transformers has them. */
#define SEES_CLIP_LAYERS(p) \
    SEES_QKV(p "encoder.layers.#.", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"), \
        SEES_LAYER(p "encoder.layers.#.", "self_attn.out_proj", "attn_out"), \
        SEES_LAYER(p "encoder.layers.#.", "layer_norm1", "ln1"), \
        SEES_LAYER(p "encoder.layers.#.", "layer_norm2", "ln2"), \
        SEES_LAYER(p "encoder.layers.#.", "mlp.fc1", "ffn_up"), \
        SEES_LAYER(p "encoder.layers.#.", "mlp.fc2", "ffn_down")
#define SEES_CLIP(p) \
    RULE(p "embeddings.patch_embedding", "v.patch_embd"), \
        RULE(p "embeddings.position_embedding", "v.position_embd"), RULE(p "post_layernorm", "v.post_ln"), \
        SEES_CLIP_LAYERS(p)

/* Whisper's encoder, whose arrays are under p. */
#define WHISPER_LAYER(p, from, to) RULE(p "layers.#." from, "a.blk.#." to)
#define WHISPER(p) \
    RULE(p "conv1.bias", "a.conv1d.1.bias", STEP_COLUMN), \
        RULE(p "conv2.bias", "a.conv1d.2.bias", STEP_COLUMN), RULE(p "conv1", "a.conv1d.1"), \
        RULE(p "conv2", "a.conv1d.2"), RULE(p "embed_positions", "a.position_embd"), \
        RULE(p "layer_norm", "a.post_ln"), RULE(p "ln_post", "a.post_ln"), \
        WHISPER_LAYER(p, "self_attn.q_proj", "attn_q"), WHISPER_LAYER(p, "self_attn.k_proj", "attn_k"), \
        WHISPER_LAYER(p, "self_attn.v_proj", "attn_v"), WHISPER_LAYER(p, "self_attn.out_proj", "attn_out"), \
        WHISPER_LAYER(p, "self_attn_layer_norm", "ln1"), WHISPER_LAYER(p, "final_layer_norm", "ln2"), \
        WHISPER_LAYER(p, "fc1", "ffn_up"), WHISPER_LAYER(p, "fc2", "ffn_down")

#endif
