/* An adapter's folder as the GGUF file that llama.cpp loads beside a model (--lora). */
#pragma once

#include "base/adapters.h"
#include "gguf/model.h"

/* Opens the adapter in `path` with the config of the model's folder `base`, whose weights need not be there:
 * a tensor TENSOR.lora_a and one TENSOR.lora_b for each matrix that it changes, as llama.cpp's
 * convert_lora_to_gguf.py has them. */
bool hf_adapter_file_open(model_source *m, const char *path, const char *base, gq_error *e);
