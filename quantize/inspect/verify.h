/* Verifying a model, as gq_verify does. */
#pragma once

#include "gguf/expected.h"
#include "quantize/gquant_inspect.h"

/* complete: compares its tensors with its architecture; NULL: there is none, which becomes a warning. */
gq_verification *verify_model(const char *path, const gq_checksum *expected, size_t n, int threads,
                              model_check *complete, const gq_callbacks *callbacks, gq_error *e);
