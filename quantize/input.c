#include "quantize/input.h"

#include "gguf/gguf.h"

bool input_open(gguf_model *m, const char *path, gq_error *e) {
    if (gguf_model_open(m, path, e)) return true;
    *m = (gguf_model){.path = NULL};
    return false;
}
