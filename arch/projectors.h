/* The files of projectors' rows, and what many rows share. */
#pragma once

#include "arch/projector.h"
#include "arch/rows.h"

/* A file's rows; the classes of the last one are NULL. */
extern const arch_projector arch_projectors_vision[], arch_projectors_audio[], arch_projectors_both[],
    arch_projectors_more[];

/* Items that all projectors of vision encoders have; the same without the size of images, and without that of the
 * feed-forward sublayer, too; and those of all audio encoders. */
extern const arch_item clip_vision[], clip_vision_sized[], clip_vision_core[], clip_audio[];

/* Qwen 2.5's, which its models with an audio encoder have, too; and what their configs may leave out. */
extern const arch_item qwen25_metadata[], qwen3_metadata[];
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
/* Layers of a transformer whose states are `w` wide, and whose queries, keys and feed-forward sublayer q, k and f. */
#define SIZES_OF_LAYERS(p, w, q, k, h, f) \
    {p "ln1", w}, {p "ln2", w}, {p "attn_q", w " " q}, {p "attn_k", w " " k}, {p "attn_v", w " " k}, \
        {p "attn_out", q " " w}, {p "attn_q_norm", h "|" q}, {p "attn_k_norm", h "|" k}, \
        {p "attn_post_norm", w}, {p "ffn_post_norm", w}, {p "ffn_up", w " " f}, {p "ffn_gate", w " " f}, { \
        p "ffn_down", f " " w \
    }
/* Layers that ask others (Q-Former), whose keys and values of these have another width. */
#define SIZES_OF_QUERIES(p, w, k, f) \
    {p "self_attn_q", w " " w}, {p "self_attn_k", w " " w}, {p "self_attn_v", w " " w}, \
        {p "self_attn_out", w " " w}, {p "self_attn_norm", w " +"}, {p "cross_attn_q", w " " w}, \
        {p "cross_attn_k", k " " w}, {p "cross_attn_v", k " " w}, {p "cross_attn_out", w " " w}, \
        {p "cross_attn_norm", w " +"}, {p "ffn_up", w " " f}, {p "ffn_down", f " " w}, { \
        p "ffn_norm", w " +" \
    }

/* Patches by a convolution, or a matrix, with a bias. */
#define PATCHES_WITH_BIAS \
    { "v.patch_embd", "? D|? ? 3 D +" }

/* Common to many rows: the kind, by which readers choose their code, and the epsilon of the norms. */
#define KIND(k) ITEM_NAMES(".projector_type", KV_TEXT, k)
#define KIND_OF(part, k) ITEM_NAMES("." part ".projector_type", KV_TEXT, k)
#define EPS(n) FLOAT(".vision.attention.layer_norm_epsilon", n)
#define EPS_OR(n, v) FLOAT_OR(".vision.attention.layer_norm_epsilon", n, v)
#define EPS_IS(v) FLOAT_IS(".vision.attention.layer_norm_epsilon", v)
#define IMAGE_MEANS \
    ITEM_NAMES(".vision.image_mean", KV_FLOATS, "pre.image_mean"), \
        ITEM_NAMES(".vision.image_std", KV_FLOATS, "pre.image_std")
#define GELU BOOL_IS(".use_gelu", 1)
#define SCALE(n) U32(".vision.projector.scale_factor", n)
#define SCALE_OR(n, v) U32_OR(".vision.projector.scale_factor", n, v)
#define MERGE_OR(n, v) U32_OR(".vision.spatial_merge_size", n, v)

#define QWEN2_METADATA \
    LIST(clip_vision_core), U32_OR(".vision.image_size", "vision.image_size", 560), \
        EPS_OR("root.rms_norm_eps", 1e-6)

/* A layer of a vision encoder, whose source tensors are under p, a name with '#'. */
#define VISION_LAYER(p, from, to, ...) RULE(p from, "v.blk.#." to, __VA_ARGS__)
#define VISION_QKV(p, q, k, v) \
    VISION_LAYER(p, q, "attn_q"), VISION_LAYER(p, k, "attn_k"), VISION_LAYER(p, v, "attn_v")
/* CLIP's and SigLIP's layers and what is before and behind them, as transformers has them. */
#define VISION_CLIP_LAYERS(p) \
    VISION_QKV(p "encoder.layers.#.", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"), \
        VISION_LAYER(p "encoder.layers.#.", "self_attn.out_proj", "attn_out"), \
        VISION_LAYER(p "encoder.layers.#.", "layer_norm1", "ln1"), \
        VISION_LAYER(p "encoder.layers.#.", "layer_norm2", "ln2"), \
        VISION_LAYER(p "encoder.layers.#.", "mlp.fc1", "ffn_up"), \
        VISION_LAYER(p "encoder.layers.#.", "mlp.fc2", "ffn_down")
#define VISION_CLIP(p) \
    RULE(p "embeddings.patch_embedding", "v.patch_embd"), \
        RULE(p "embeddings.position_embedding", "v.position_embd"), RULE(p "post_layernorm", "v.post_ln"), \
        VISION_CLIP_LAYERS(p)

/* Whisper's encoder, whose source tensors are under p. */
#define WHISPER_LAYER(p, from, to) RULE(p "layers.#." from, "a.blk.#." to)
/* All but the first matrix of the feed-forward sublayer. */
#define WHISPER_LAYERS(p) \
    WHISPER_LAYER(p, "self_attn.q_proj", "attn_q"), WHISPER_LAYER(p, "self_attn.k_proj", "attn_k"), \
        WHISPER_LAYER(p, "self_attn.v_proj", "attn_v"), WHISPER_LAYER(p, "self_attn.out_proj", "attn_out"), \
        WHISPER_LAYER(p, "self_attn_layer_norm", "ln1"), WHISPER_LAYER(p, "final_layer_norm", "ln2"), \
        WHISPER_LAYER(p, "fc2", "ffn_down")
#define WHISPER(p) \
    RULE(p "conv1.bias", "a.conv1d.1.bias", OP_APPEND_DIM), \
        RULE(p "conv2.bias", "a.conv1d.2.bias", OP_APPEND_DIM), RULE(p "conv1", "a.conv1d.1"), \
        RULE(p "conv2", "a.conv1d.2"), RULE(p "embed_positions", "a.position_embd"), \
        RULE(p "layer_norm", "a.post_ln"), RULE(p "ln_post", "a.post_ln"), WHISPER_LAYERS(p), \
        WHISPER_LAYER(p, "fc1", "ffn_up")
/* Convolutions of two dimensions in front of it, as in the audio encoder of Qwen 3. */
#define QWEN3_AUDIO \
    RULE("audio_tower.conv2d#.bias", "a.conv2d.#.bias", OP_APPEND_TWO_DIMS), \
        RULE("audio_tower.conv2d1", "a.conv2d.1"), RULE("audio_tower.conv2d2", "a.conv2d.2"), \
        RULE("audio_tower.conv2d3", "a.conv2d.3"), RULE("audio_tower.conv_out", "a.conv_out"), \
        RULE("audio_tower.proj1", "mm.a.mlp.1"), RULE("audio_tower.proj2", "mm.a.mlp.2"), \
        WHISPER("audio_tower.")
/* Frequencies are halved by each of its convolutions. */
#define QWEN3_AUDIO_LETTERS LETTERS({"audio.num_mel_bins", 'B', 8})
#define QWEN3_AUDIO_F16 "a.conv2d.1.weight", "a.conv2d.2.weight", "a.conv2d.3.weight", "a.conv_out.weight"

/* A layer that asks what is seen or heard (Q-Former), whose source tensors are under p. */
#define QFORMER(p, to, ...) \
    RULE(p "attention.attention.query", to "self_attn_q", __VA_ARGS__), \
        RULE(p "attention.attention.key", to "self_attn_k", __VA_ARGS__), \
        RULE(p "attention.attention.value", to "self_attn_v", __VA_ARGS__), \
        RULE(p "attention.output.dense", to "self_attn_out", __VA_ARGS__), \
        RULE(p "attention.output.LayerNorm", to "self_attn_norm", __VA_ARGS__), \
        RULE(p "crossattention.attention.query", to "cross_attn_q", __VA_ARGS__), \
        RULE(p "crossattention.attention.key", to "cross_attn_k", __VA_ARGS__), \
        RULE(p "crossattention.attention.value", to "cross_attn_v", __VA_ARGS__), \
        RULE(p "crossattention.output.dense", to "cross_attn_out", __VA_ARGS__), \
        RULE(p "crossattention.output.LayerNorm", to "cross_attn_norm", __VA_ARGS__), \
        RULE(p "intermediate_query.dense", to "ffn_up", __VA_ARGS__), \
        RULE(p "output_query.dense", to "ffn_down", __VA_ARGS__), \
        RULE(p "output_query.LayerNorm", to "ffn_norm", __VA_ARGS__)

/* A conformer's layer, whose source tensors are under p. */
#define CONFORMER_LAYER(p, from, to, ...) RULE(p "layers.#." from, "a.blk.#." to, __VA_ARGS__)
#define CONFORMER(p, q, k, v, out, pos, bias_u, bias_v) \
    CONFORMER_LAYER(p, "norm_feed_forward1", "ffn_norm"), \
        CONFORMER_LAYER(p, "feed_forward1.linear1", "ffn_up"), \
        CONFORMER_LAYER(p, "feed_forward1.linear2", "ffn_down"), \
        CONFORMER_LAYER(p, "norm_feed_forward2", "ffn_norm_1"), \
        CONFORMER_LAYER(p, "feed_forward2.linear1", "ffn_up_1"), \
        CONFORMER_LAYER(p, "feed_forward2.linear2", "ffn_down_1"), \
        CONFORMER_LAYER(p, "norm_self_att", "ln1"), CONFORMER_LAYER(p, "norm_out", "ln2"), \
        CONFORMER_LAYER(p, "norm_conv", "norm_conv"), CONFORMER_LAYER(p, q, "attn_q"), \
        CONFORMER_LAYER(p, k, "attn_k"), CONFORMER_LAYER(p, v, "attn_v"), \
        CONFORMER_LAYER(p, out, "attn_out"), CONFORMER_LAYER(p, pos, "linear_pos"), \
        CONFORMER_LAYER(p, bias_u, "pos_bias_u"), CONFORMER_LAYER(p, bias_v, "pos_bias_v"), \
        CONFORMER_LAYER(p, "conv.pointwise_conv1.weight", "conv_pw1.weight", OP_SQUEEZE), \
        CONFORMER_LAYER(p, "conv.pointwise_conv2.weight", "conv_pw2.weight", OP_SQUEEZE)
/* The convolutions before its layers: one with a stride, one of a single column. */
#define PARAKEET_STRIDES \
    {"a.conv1d.0", "3 3 1 u +"}, {"a.conv1d.2", "3 3 1 u +"}, {"a.conv1d.3", "1 1 u u +"}, \
        {"a.conv1d.5", "3 3 1 u +"}, { \
        "a.conv1d.6", "1 1 u u +" \
    }
#define BATCH_NORM(from, to) \
    RULE(from ".weight", to, OP_FOLD_BATCH_NORM), RULE(from ".bias", to, OP_FOLD_BATCH_NORM), \
        RULE(from ".running_mean", to, OP_FOLD_BATCH_NORM), \
        RULE(from ".running_var", to, OP_FOLD_BATCH_NORM)
