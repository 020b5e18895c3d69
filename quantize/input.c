#include "quantize/input.h"

#include <string.h>

#include "base/fail.h"
#include "gguf/gguf.h"
#include "hf/hf.h"

bool input_open(model_source *m, const char *path, gq_error *e) {
    if ((hf_model_is(path) ? hf_model_open : gguf_model_open)(m, path, e)) return true;
    *m = (model_source){.path = NULL};
    return false;
}

char *input_stem(const char *path, gq_error *e) {
    if (hf_model_is(path)) return hf_model_stem(path, e);
    char *stem = strdup(path);
    if (!stem) gq_fail_memory(e, strlen(path));
    return stem;
}
