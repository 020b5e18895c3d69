#include "gguf/rules.h"
#include "model/value.h"

#include <stdlib.h>
#include <string.h>

bool gguf_alignment(const model_kv *kv, uint64_t n, uint32_t *alignment, const char *file, gq_error *e) {
    static const char key[] = "general.alignment";
    const model_kv *pair = model_kv_find(kv, n, key);
    *alignment = GGUF_DEFAULT_ALIGNMENT;
    if (!pair) return true;
    if (pair->type != GGUF_U32)
        return gq_fail(e, "%s: %s has type %s, expected u32", file, key, gguf_value_name(pair->type));
    memcpy(alignment, pair->value, sizeof *alignment);
    if (*alignment && (*alignment & (*alignment - 1)) == 0 && *alignment <= MAX_ALIGNMENT) return true;
    return gq_fail(e, "%s: %s is %u, expected a power of two up to %d", file, key, *alignment, MAX_ALIGNMENT);
}

bool model_tensor_measure(model_tensor *t, gq_error *e) {
    uint64_t elements = 1;
    for (uint32_t i = 0; i < t->n_dims; i++) {
        if (t->ne[i] == 0) return gq_fail(e, "dimension %u is 0, expected at least 1", i);
        if (t->ne[i] > INT64_MAX / elements) {
            return gq_fail(e, "dimension %u is %llu, which makes 2^63 elements or more", i,
                           (unsigned long long)t->ne[i]);
        }
        elements *= t->ne[i];
    }
    if (t->ne[0] % t->type->block_elements) {
        return gq_fail(e, "row length %llu is not a multiple of %u, the block length of %s",
                       (unsigned long long)t->ne[0], t->type->block_elements, t->type->name);
    }
    if (!gguf_fits_row(t->type, t->ne[0]))
        return gq_fail(e, "row length %llu is more than %d, the most for %s", (unsigned long long)t->ne[0],
                       GGUF_HEADED_COLUMNS, t->type->name);
    /* below 2^63 after rounding up to any alignment, too */
    if (!gguf_rows_fit(t->type, t->ne[0], elements / t->ne[0], INT64_MAX - MAX_ALIGNMENT)) {
        return gq_fail(e, "%llu elements of type %s take 2^63 bytes or more", (unsigned long long)elements,
                       t->type->name);
    }
    t->size = model_bytes(t, elements);
    return true;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Sorts the names. */
static bool check_unique(const char **names, uint64_t n, const char *kind, const char *file, gq_error *e) {
    qsort(names, n, sizeof *names, compare_names);
    for (uint64_t i = 1; i < n; i++) {
        if (strcmp(names[i - 1], names[i]) == 0)
            return gq_fail(e, "%s: %s '%.200s' is there twice", file, kind, names[i]);
    }
    return true;
}

bool gguf_check_names(const model_kv *kv, uint64_t n_kv, const model_tensor *tensors, uint64_t n_tensors,
                      const char *file, gq_error *e) {
    uint64_t n = n_kv > n_tensors ? n_kv : n_tensors;
    const char **names = malloc((n + 1) * sizeof *names);
    if (!names) return gq_fail_memory(e, n * sizeof *names);
    for (uint64_t i = 0; i < n_kv; i++) names[i] = kv[i].key;
    bool ok = check_unique(names, n_kv, "key", file, e);
    for (uint64_t i = 0; i < n_tensors; i++) names[i] = tensors[i].name;
    ok = ok && check_unique(names, n_tensors, "tensor", file, e);
    free(names);
    return ok;
}
