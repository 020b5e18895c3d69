/* One file of a model, its weights aside. */
#pragma once

#include "gguf/gguf.h"

/* Parse one container; its tensors get shard 0. Takes over `file` in both outcomes. */
bool gguf_shard_read(gguf_shard *s, gq_file *file, gq_error *e);
void gguf_shard_free(gguf_shard *s);
