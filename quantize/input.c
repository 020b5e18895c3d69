#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gguf/gguf.h"
#include "hf/adapter/adapter.h"
#include "hf/hf.h"
#include "quantize/quantize.h"

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

bool input_open_adapted(model_source *m, const char *path, const gq_adapters *adapters, gq_error *e) {
    static const gq_adapters none = {.n = 0};
    if (!adapters) adapters = &none;
    const char *target = adapters->target;
    bool is_folder = hf_model_is(path), has_adapters = adapters->n > 0 || adapters->base;
    *m = (model_source){.path = NULL};
    if (target && (!is_folder || adapters->base))
        return gq_fail_usage(e,
                             "%s is %s, which needs no target: a draft's vocabulary is in its GGUF file; %s "
                             "is not used",
                             path, is_folder ? "an adapter" : "a GGUF file", target);
    if (adapters->base && adapters->n > 0)
        return gq_fail_usage(e, "%s is an adapter that becomes a file of its own: no other is merged into it",
                             path);
    bool ok = is_folder && adapters->base ? hf_adapter_file_open(m, path, adapters->base, e)
              : is_folder                 ? hf_model_open_adapted(m, path, adapters, e)
                                          : gguf_model_open(m, path, e);
    if (ok && has_adapters && !is_folder) {
        model_close(m);
        ok =
            gq_fail(e,
                    "%s is a GGUF file, whose tensors no longer have the names and the order that an adapter "
                    "goes by: name the model's folder from Hugging Face, or make a GGUF file of the adapter "
                    "and load it beside this one",
                    path);
    }
    return ok;
}

bool input_open(model_source *m, const char *path, gq_error *e) {
    return input_open_adapted(m, path, NULL, e);
}

bool input_open_projector(model_source *m, const char *path, const gq_adapters *adapters, gq_error *e) {
    *m = (model_source){.path = NULL};
    if (!hf_model_is(path))
        return gq_fail(
            e,
            "%s is no folder from Hugging Face: a projector (mmproj) is made of the folder that the "
            "model was published as",
            path);
    return hf_projector_open(m, path, adapters, e);
}

/* Adds an adapter's name to a stem, which it frees on failure. */
static char *stem_add(char *stem, const char *adapter, gq_error *e) {
    char *longer = NULL, *name = hf_model_name(adapter, e);
    if (name && asprintf(&longer, "%s-%s", stem, name) < 0) longer = NULL, gq_fail_memory(e, strlen(stem));
    free(stem), free(name);
    return longer;
}

char *input_stem(const char *path, const gq_adapters *adapters, gq_error *e) {
    char *stem = hf_model_is(path) ? hf_model_stem(path, e) : strdup(path);
    if (!stem) gq_fail_memory(e, strlen(path));
    for (size_t i = 0; stem && adapters && i < adapters->n; i++)
        stem = stem_add(stem, adapters->items[i].path, e);
    return stem;
}

char *input_kept_path(const char *path, const gq_adapters *adapters, const char *suffix, gq_error *e) {
    char *stem = input_stem(path, adapters, e), *kept = NULL;
    if (stem && asprintf(&kept, "%s%s", stem, suffix) < 0) {
        gq_fail_memory(e, strlen(stem) + strlen(suffix) + 1);
        kept = NULL;
    }
    free(stem);
    return kept;
}
