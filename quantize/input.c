#include "quantize/input.h"

#include <string.h>

#include "base/fail.h"
#include "gguf/gguf.h"
#include "hf/hf.h"

const gq_origin *model_origin_show(const model_tensor *t, gq_origin *to) {
    const model_origin *from = t->origin;
    if (!from) return NULL;
    *to = (gq_origin){.size = sizeof *to,
                      .names = from->names,
                      .type = from->type,
                      .changes = from->changes,
                      .bytes = from->bytes,
                      .quantized = from->quantized};
    return to;
}

uint64_t model_stored_bytes(const model_tensor *t) { return t->origin ? t->origin->bytes : t->size; }

bool input_open_with_target(model_source *m, const char *path, const char *target, gq_error *e) {
    if (hf_model_is(path)
            ? hf_model_open(m, path, target, e)
            : (!target || gq_fail_usage(e,
                                        "%s is a GGUF file, which needs no target: a draft's vocabulary "
                                        "is in it; %s is not used",
                                        path, target)) &&
                  gguf_model_open(m, path, e))
        return true;
    *m = (model_source){.path = NULL};
    return false;
}

bool input_open(model_source *m, const char *path, gq_error *e) {
    return input_open_with_target(m, path, NULL, e);
}

char *input_stem(const char *path, gq_error *e) {
    if (hf_model_is(path)) return hf_model_stem(path, e);
    char *stem = strdup(path);
    if (!stem) gq_fail_memory(e, strlen(path));
    return stem;
}
