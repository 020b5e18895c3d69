/* Lists that many rows of projectors share. */
#include "arch/projectors.h"

/* Names with "vt_" are first: transformers saves its class's defaults under the others beside them. */
#define NAMES_BLOCKS(o) \
    o ".vt_num_hidden_layers|" o ".n_layers|" o ".num_hidden_layers|" o ".n_layer|" o ".num_layers|" o \
      ".depth|" o ".layers|" o ".encoder_layers"

const arch_item clip_vision[] = {LIST(clip_vision_sized), U32(".vision.image_size", "vision.image_size"),
                                 END};

const arch_item clip_vision_sized[] = {
    LIST(clip_vision_core),
    U32(".vision.feed_forward_length", "vision.vt_intermediate_size|vision.intermediate_size"), END};

const arch_item clip_vision_core[] = {
    BOOL_IS(".has_vision_encoder", 1),
    U32(".vision.projection_dim", "text.hidden_size|text.n_embd"),
    U32(".vision.patch_size", "vision.patch_size"),
    U32(".vision.embedding_length", "vision.vt_hidden_size|vision.hidden_size|vision.width"),
    U32(".vision.block_count", NAMES_BLOCKS("vision")),
    U32(".vision.attention.head_count",
        "vision.vt_num_attention_heads|vision.num_attention_heads|vision.num_heads|vision.heads"),
    IMAGE_MEANS,
    END,
};

/* Sizes are under the names that most configs have, or under Whisper's. */
const arch_item clip_audio[] = {
    BOOL_IS(".has_audio_encoder", 1),
    U32(".audio.projection_dim", "text.hidden_size|text.n_embd"),
    U32(".audio.embedding_length", "audio.hidden_size|audio.d_model"),
    U32(".audio.feed_forward_length", "audio.intermediate_size|audio.encoder_ffn_dim"),
    U32(".audio.block_count", NAMES_BLOCKS("audio")),
    U32(".audio.attention.head_count", "audio.num_attention_heads|audio.encoder_attention_heads"),
    END,
};
