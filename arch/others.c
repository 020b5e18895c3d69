/* Architectures that cannot be run: what neither reads nor writes text. */
#include "arch/rows.h"

const arch_refusal arch_refused[] = {
    {"UltravoxModel", "it has no text part, which is the model that text_model_id names; --mmproj makes the "
                      "file of its audio encoder"},
    {"Qwen3TTSForConditionalGeneration",
     "its embedding is computed by a network from one of texts; llama.cpp's converter makes a GGUF of it, "
     "which can be quantized"},
    {"PocketTTSModel", "the embeddings of sounds are computed from several tensors; llama.cpp's converter "
                       "makes a GGUF of it, which can be quantized"},
    {NULL, NULL},
};

/* Six blocks: four of convolutions, the third of attention, a norm; then as many as there are layers. */
#define POSNET(from, to) RULE("backbone.posnet.#." from, "posnet.#." to)
#define CONVNEXT(from, to) RULE("backbone.convnext.#." from, "convnext.#." to)
#define BOTH(name, size, bias) SHAPED(name ".weight", size), SHAPED(name ".bias", bias)
#define CONVOLUTIONS(n) \
    BOTH("posnet." n ".norm1", DIMS(DIM_1, DIM_POSNET_WIDTH), DIMS(DIM_1, DIM_POSNET_WIDTH)), \
        BOTH("posnet." n ".conv1", DIMS(DIM_ANY, DIM_POSNET_WIDTH, DIM_POSNET_WIDTH), \
             DIMS(DIM_1, DIM_POSNET_WIDTH)), \
        BOTH("posnet." n ".norm2", DIMS(DIM_1, DIM_POSNET_WIDTH), DIMS(DIM_1, DIM_POSNET_WIDTH)), \
        BOTH("posnet." n ".conv2", DIMS(DIM_ANY, DIM_POSNET_WIDTH, DIM_POSNET_WIDTH), \
             DIMS(DIM_1, DIM_POSNET_WIDTH))

static const arch_shape wavtokenizer_shapes[] = {
    SHAPED("token_embd.weight", DIMS(DIM_WIDTH, DIM_TOKENS)),
    BOTH("conv1d", DIMS(DIM_ANY, DIM_WIDTH, DIM_POSNET_WIDTH), DIMS(DIM_1, DIM_POSNET_WIDTH)),
    BOTH("token_embd_norm", DIMS(DIM_POSNET_WIDTH), DIMS(DIM_POSNET_WIDTH)),
    CONVOLUTIONS("0"),
    CONVOLUTIONS("1"),
    BOTH("posnet.2.attn_norm", DIMS(DIM_1, DIM_POSNET_WIDTH), DIMS(DIM_1, DIM_POSNET_WIDTH)),
    BOTH("posnet.2.attn_q", DIMS(DIM_1, DIM_POSNET_WIDTH, DIM_POSNET_WIDTH), DIMS(DIM_1, DIM_POSNET_WIDTH)),
    BOTH("posnet.2.attn_k", DIMS(DIM_1, DIM_POSNET_WIDTH, DIM_POSNET_WIDTH), DIMS(DIM_1, DIM_POSNET_WIDTH)),
    BOTH("posnet.2.attn_v", DIMS(DIM_1, DIM_POSNET_WIDTH, DIM_POSNET_WIDTH), DIMS(DIM_1, DIM_POSNET_WIDTH)),
    BOTH("posnet.2.attn_output", DIMS(DIM_1, DIM_POSNET_WIDTH, DIM_POSNET_WIDTH),
         DIMS(DIM_1, DIM_POSNET_WIDTH)),
    CONVOLUTIONS("3"),
    CONVOLUTIONS("4"),
    BOTH("posnet.5.attn_norm", DIMS(DIM_1, DIM_POSNET_WIDTH), DIMS(DIM_1, DIM_POSNET_WIDTH)),
    BOTH("convnext.#.dw", DIMS(DIM_ANY, DIM_1, DIM_POSNET_WIDTH), DIMS(DIM_1, DIM_POSNET_WIDTH)),
    BOTH("convnext.#.norm", DIMS(DIM_POSNET_WIDTH), DIMS(DIM_POSNET_WIDTH)),
    BOTH("convnext.#.pw1", DIMS(DIM_POSNET_WIDTH, DIM_CONVNEXT_INNER), DIMS(DIM_CONVNEXT_INNER)),
    BOTH("convnext.#.pw2", DIMS(DIM_CONVNEXT_INNER, DIM_POSNET_WIDTH), DIMS(DIM_POSNET_WIDTH)),
    SHAPED("convnext.#.gamma.weight", DIMS(DIM_POSNET_WIDTH)),
    BOTH("output_norm", DIMS(DIM_POSNET_WIDTH), DIMS(DIM_POSNET_WIDTH)),
    BOTH("output", DIMS(DIM_POSNET_WIDTH, DIM_OUTPUTS), DIMS(DIM_OUTPUTS)),
    {.tensor = NULL},
};

const architecture arch_rows_others[] = {
    {.name = "clip", .kind = "an encoder of images", .is_projector = true},
    {
        .name = "wavtokenizer-dec",
        .kind = "a decoder of audio",
        .folder = {CLASSES(CLASS("WavTokenizerDec")),
                   .metadata = METADATA(
                       LIST(arch_base), U32(".vocab_size", "vocab_size"),
                       U32(".features_length", "n_embd_features"), U32(".feed_forward_length", "n_ff"),
                       FLOAT(".attention.group_norm_epsilon", "group_norm_epsilon"),
                       U32(".attention.group_norm_groups", "group_norm_groups"),
                       U32(".posnet.embedding_length", "posnet.n_embd"),
                       U32(".posnet.block_count", "posnet.n_layer"),
                       U32(".convnext.embedding_length", "convnext.n_embd"),
                       U32(".convnext.block_count", "convnext.n_layer"), BOOL_IS(".attention.causal", false)),
                   .rules = RULES(
                       RULE("backbone.embedding", "token_embd"), RULE("backbone.embed", "conv1d"),
                       RULE("backbone.norm", "token_embd_norm"), POSNET("norm1", "norm1"),
                       POSNET("norm2", "norm2"), POSNET("conv1", "conv1"), POSNET("conv2", "conv2"),
                       POSNET("norm", "attn_norm"), QKV_RULES(POSNET, "", "", "attn_"),
                       POSNET("proj_out", "attn_output"), CONVNEXT("dwconv", "dw"), CONVNEXT("norm", "norm"),
                       CONVNEXT("pwconv1", "pw1"), CONVNEXT("pwconv2", "pw2"), CONVNEXT("gamma", "gamma"),
                       RULE("backbone.final_layer_norm", "output_norm"), RULE("head.out", "output")),
                   .left_out = NAMES("codebook.cluster_size", "codebook.embed_avg", "codebook.inited"),
                   .tokenizer = {.files = {FILE_NONE}}, .stays = "norm1|norm2",
                   .shapes = wavtokenizer_shapes},
        .graph = {.lacks_sublayers = true}, /* no source tensor is called by a block */
    },
    {.name = "qwen3tts", .kind = "a model whose tokens are sounds"},
    {.name = "pockettts", .kind = "a model that makes sounds, without logits"},
    {.name = NULL},
};
