/* A synthetic Hugging Face folder: a small llama, or a mixtral. */
#pragma once

#include <stdbool.h>

extern const char TINY_TOKENIZER[];

/* Writes config.json, tokenizer.json and model.safetensors in BF16 into a folder that is made if it is not
 * there. experts 0: a dense model. `seed` decides the weights. */
void tiny_folder_write(const char *folder, int layers, int experts, unsigned seed);
/* Writes the folder of an adapter of it, of rank 1: of the queries of layer 0, with DoRA or without. */
void tiny_adapter_write(const char *folder, bool dora);
/* Replaces a file of the folder by a text. */
void tiny_folder_text(const char *folder, const char *name, const char *text);
