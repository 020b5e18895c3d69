#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "arch/arch.h"
#include "base/fail.h"
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

/* ---- metadata in the types that llama.cpp reads ---- */

/* The type that a value, or each of a list, is read in; GGUF_VALUE_TYPES: as it is stored, or it is for checks to
 * refuse. */
static uint32_t type_read(const model_kv *kv) {
    arch_key_type type = arch_key_of(kv->key).type;
    uint32_t stored = kv->type;
    uint64_t n;
    const uint8_t *elements;
    bool is_list = model_kv_array(kv, &stored, &n, &elements);
    if (arch_key_type_is(type, is_list, stored)) return GGUF_VALUE_TYPES;
    if (type == ARCH_KEY_INTEGER) return GGUF_U32;
    if (type == ARCH_KEY_FLOAT || (type == ARCH_KEY_FLOATS && is_list)) return GGUF_FLOAT32;
    return type == ARCH_KEY_BOOL                  ? GGUF_BOOL
           : type == ARCH_KEY_INTEGERS && is_list ? GGUF_INT32
                                                  : GGUF_VALUE_TYPES;
}

/* Converts a number whose value the type holds: integers exactly, floats to the nearest. */
static bool number_convert(const model_kv *number, uint32_t type, uint8_t *to) {
    int64_t i;
    double x;
    bool is_int = model_kv_int(number, &i), is_float = model_kv_float(number, &x);
    if (type == GGUF_FLOAT32) {
        float single = is_float ? (float)x : is_int ? (float)i : NAN;
        memcpy(to, &single, sizeof single);
        return is_float ? isinf(single) == isinf(x) : is_int && (double)single == (double)i;
    }
    if (is_float && x == floor(x) && fabs(x) < 0x1p53) i = (int64_t)x, is_int = true;
    if (!is_int) return false;
    memcpy(to, &i, gguf_value_size(type));
    return type == GGUF_BOOL ? i == 0 || i == 1
                             : gguf_value_holds(type, i < 0, i < 0 ? 0 - (uint64_t)i : (uint64_t)i);
}

/* Converts a KV pair to the bytes at `to`, which has room; false: its values do not fit. */
static bool kv_convert(model_kv *kv, uint32_t type, uint8_t *to) {
    model_kv number = {.type = kv->type, .value = kv->value, .size = kv->size};
    uint64_t n = 1, header = 0;
    bool ok = true;
    if (model_kv_array(kv, &number.type, &n, &number.value)) {
        header = GGUF_ARRAY_HEADER, number.size = gguf_value_size(number.type);
        memcpy(to, &type, sizeof type), memcpy(to + sizeof type, &n, sizeof n);
        if (!number.size) return false; /* texts, or lists */
    }
    for (uint64_t i = 0; ok && i < n; i++, number.value += number.size)
        ok = number_convert(&number, type, to + header + i * gguf_value_size(type));
    if (ok) *kv = (model_kv){kv->key, header ? GGUF_ARRAY : type, to, header + n * gguf_value_size(type)};
    return ok;
}

/* Converts numbers that are stored in another type than llama.cpp reads, which refuses such a file: as 64-bit
 * integers, doubles, or a 0 or 1 for a bool. Values that do not fit stay, for checks to refuse. */
static bool input_convert_metadata(model_source *m, gq_error *e) {
    uint64_t bytes = 0, n = 0;
    for (uint64_t i = 0; i < m->n_kv; i++)
        if (type_read(&m->kv[i]) != GGUF_VALUE_TYPES) bytes += 4 * m->kv[i].size; /* u8 to u32 at most */
    if (bytes == 0) return true;
    model_kv *all = malloc(m->n_kv * sizeof *all + bytes);
    if (!all) return gq_fail_memory(e, m->n_kv * sizeof *all + bytes);
    uint8_t *to = (uint8_t *)(all + m->n_kv);
    const model_kv *old = NULL, *new = NULL; /* of the first */
    for (uint64_t i = 0; i < m->n_kv; i++) {
        uint32_t type = type_read(&m->kv[i]);
        all[i] = m->kv[i];
        if (type == GGUF_VALUE_TYPES || !kv_convert(&all[i], type, to)) continue;
        to += all[i].size;
        if (n++ == 0) old = &m->kv[i], new = &all[i];
    }
    if (n == 0) return free(all), true;
    uint32_t from = old->type, type = new->type;
    uint64_t count;
    const uint8_t *elements;
    bool is_list =
        model_kv_array(old, &from, &count, &elements) && model_kv_array(new, &type, &count, &elements);
    const char *key = old->key;
    char more[48] = "";
    if (n > 1) snprintf(more, sizeof more, " (%llu keys have such types)", LLU(n));
    gguf_model_set_kv(m, all);
    return warnings_add(&m->warnings, e,
                        "%s is stored as %s%s, but llama.cpp reads %s and refuses the file; gquant reads and "
                        "writes it as %s%s",
                        key, is_list ? "list of " : "", gguf_value_name(from), gguf_value_name(type),
                        gguf_value_name(type), more);
}

/* Returns the name of the first shard of a file that is not there, malloc'ed; NULL: it has none. */
static char *first_shard(const char *path) {
    const char *name = strrchr(path, '/'), *dot = strrchr(path, '.');
    name = name ? name + 1 : path;
    char *folder = strndup(path, (size_t)(name - path)), *found = NULL;
    size_t n = dot && dot > name ? (size_t)(dot - name) : 0;
    DIR *d = n && folder ? opendir(*folder ? folder : ".") : NULL;
    for (struct dirent *entry; d && !found && (entry = readdir(d));)
        if (!strncmp(entry->d_name, name, n) && !strncmp(entry->d_name + n, "-00001-of-", 10))
            found = strdup(entry->d_name);
    if (d) closedir(d);
    free(folder);
    return found;
}

/* Whether a path that is not there is written as a hub has models: OWNER/NAME. */
static bool is_hub_id(const char *path) {
    struct stat st;
    char owner[256];
    size_t n = strlen(path);
    n -= n > 0 && path[n - 1] == '/';
    if (!name_is_hub_id(path, n) || (n >= 5 && !strncmp(path + n - 5, ".gguf", 5))) return false;
    snprintf(owner, sizeof owner, "%.*s", (int)strcspn(path, "/"), path);
    return stat(owner, &st) != 0;
}

/* Adds to the failure of a model that is not there what was probably meant. */
static bool input_fail_missing(const char *path, gq_error *e) {
    struct stat st;
    if (stat(path, &st) == 0 || errno != ENOENT) return false;
    char *shard = first_shard(path);
    const char *name = strrchr(path, '/');
    if (shard)
        gq_fail_again(e, e, "%s; it was written in shards: name the first one, %.*s%s", e->text,
                      name ? (int)(name + 1 - path) : 0, path, shard);
    else if (is_hub_id(path))
        gq_fail_again(
            e, e, "%s; a model of Hugging Face is downloaded first: hf download %.*s --local-dir %s", e->text,
            (int)(strlen(path) - (path[strlen(path) - 1] == '/')), path, strchr(path, '/') + 1);
    free(shard);
    return false;
}

/* An adapter that is given twice is merged twice. */
static bool warn_of_twice(model_source *m, const gq_adapters *adapters, gq_error *e) {
    for (size_t i = 1; i < adapters->n; i++)
        for (size_t k = 0; k < i; k++)
            if (gq_file_is_any(adapters->items[i].path, &adapters->items[k].path, 1) &&
                !warnings_add(&m->warnings, e, "adapter %s is given twice, and merged twice",
                              adapters->items[i].path))
                return false;
    return true;
}

bool input_open_adapted(model_source *m, const char *path, const gq_adapters *adapters, gq_error *e) {
    static const gq_adapters none = {.n = 0};
    if (!adapters) adapters = &none;
    const char *target = adapters->target;
    bool is_folder = hf_model_is(path), has_adapters = adapters->n > 0 || adapters->base;
    *m = (model_source){.path = NULL};
    if (target && (!is_folder || adapters->base))
        return gq_fail_usage(e,
                             "%s is %s, which needs no target model: the GGUF file of a draft model has its "
                             "vocabulary; leave %s out",
                             path, is_folder ? "an adapter" : "a GGUF file", target);
    if (adapters->base && adapters->n > 0)
        return gq_fail_usage(
            e, "%s is an adapter: no other adapter can be merged into it; leave the others out", path);
    bool ok = is_folder && adapters->base ? hf_adapter_file_open(m, path, adapters->base, e)
              : is_folder                 ? hf_model_open_adapted(m, path, adapters, e)
                                          : gguf_model_open(m, path, e) || input_fail_missing(path, e);
    if (ok && !(ok = is_folder ? warn_of_twice(m, adapters, e) : input_convert_metadata(m, e)))
        model_close(m);
    if (ok && has_adapters && !is_folder) {
        model_close(m);
        ok = gq_fail(e,
                     "%s is a GGUF file: adapters can be merged only into a Hugging Face folder. Name the "
                     "model's folder, or make a GGUF of the adapter and load both in llama.cpp",
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
            "%s is not a Hugging Face folder: a projector (mmproj) is made from the model's published folder",
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
    /* an adapter's folder, whose output lies beside it */
    for (size_t n = stem ? strlen(stem) : 0; n > 1 && stem[n - 1] == '/'; n--) stem[n - 1] = 0;
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
