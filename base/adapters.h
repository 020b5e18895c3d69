/* Adapters that go with a model: fine-tunes as PEFT saves them, to be merged into its weights.
 *
 * An adapter is a folder with adapter_config.json and adapter_model.safetensors. Its changes are added to the
 * weights of the folder that it belongs to while these are read; no merged copy is written anywhere. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gq_adapter {
    const char *path;
    double scale; /* factor of its changes, in addition to the one in its own config; 0: 1 */
    uint64_t reserved[2];
} gq_adapter;

/* All 0: none. The model must be a folder from Hugging Face. Beside adapters proper, folders that it needs. */
typedef struct gq_adapters {
    const gq_adapter *items; /* n of them, merged in this order */
    size_t n;
    /* Folder of the model that the input, which is an adapter itself, was made for: the input then becomes a
     * GGUF file of an adapter, which llama.cpp loads beside the model. NULL: the input is a model. */
    const char *base;
    /* Folder of the model that the input, which is a draft, proposes tokens for: its vocabulary is the
     * draft's. NULL: the input is no draft, or has a vocabulary of its own. */
    const char *target;
} gq_adapters;

#ifdef __cplusplus
}
#endif
