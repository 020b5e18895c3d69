/* The container of Hugging Face folders: config.json, safetensors and tokenizer files, delivered as the GGUF
 * that llama.cpp's converter would make of them (docs/hugging-face.md).
 */
#ifndef GQ_HF_H
#define GQ_HF_H

#include "model/model.h"

/* Whether a path is a folder, and so to be opened here. */
bool hf_model_is(const char *path);
/* Opens a folder; everything is checked except the weights. */
bool hf_model_open(model_source *m, const char *path, gq_error *e);

#endif
