/* Reads the headers of a folder's weights. A file is eight bytes that give the length of a JSON object, that
 * object (name -> dtype, shape, place), and the elements. Everything is compared with the size of the file
 * before it is used; the elements stay where they are. The files are those that the index names, or all that
 * are called model*.safetensors.
 */
#include "hf/sources/sources.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/memory.h"

enum {
    HEADER_MOST = 100000000, /* the format's own limit */
    NAME_MOST = 511          /* bytes; published ones have some 100 */
};
static const char INDEX[] = ".safetensors.index.json", PART[] = ".safetensors";

static const struct {
    const char *name;
    uint32_t bytes;
} dtypes[HF_DTYPES] = {
    [HF_F64] = {"F64", 8},      [HF_F32] = {"F32", 4},      [HF_F16] = {"F16", 2},
    [HF_BF16] = {"BF16", 2},    [HF_E4M3] = {"F8_E4M3", 1}, [HF_E5M2] = {"F8_E5M2", 1},
    [HF_E8M0] = {"F8_E8M0", 1}, [HF_I64] = {"I64", 8},      [HF_I32] = {"I32", 4},
    [HF_I16] = {"I16", 2},      [HF_I8] = {"I8", 1},        [HF_U8] = {"U8", 1},
    [HF_BOOL] = {"BOOL", 1},
};

const char *hf_dtype_name(hf_dtype d) { return dtypes[d].name; }
uint32_t hf_dtype_bytes(hf_dtype d) { return dtypes[d].bytes; }

const char *hf_list_path(const hf_list *l, uint32_t file) { return l->folder->files[file].file.path; }

/* ---- one tensor of a header ---- */

static bool stored_read_dtype(const hf_list *l, hf_stored *t, const json_t *entry, gq_error *e) {
    const char *name = hf_json_text(json_object_get(entry, "dtype"));
    if (!name) return hf_list_fail(l, t, e, "it has no \"dtype\"");
    for (t->dtype = 0; t->dtype < HF_DTYPES; t->dtype++)
        if (strcmp(dtypes[t->dtype].name, name) == 0) return true;
    t->dtype = 0;
    return hf_list_fail(l, t, e, "elements of type %s are not supported", name);
}

static bool stored_read_shape(const hf_list *l, hf_stored *t, const json_t *entry, gq_error *e) {
    const json_t *shape = json_object_get(entry, "shape");
    if (!json_is_array(shape)) return hf_list_fail(l, t, e, "it has no \"shape\"");
    size_t n = json_array_size(shape);
    if (n > HF_DIMS) return hf_list_fail(l, t, e, "%zu dimensions, expected at most %d", n, HF_DIMS);
    t->n_dims = (uint32_t)n, t->n = 1;
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(shape, i);
        if (!json_is_integer(v) || json_integer_value(v) < 0)
            return hf_list_fail(l, t, e, "dimension %zu of its shape is not a size", i);
        t->shape[i] = (uint64_t)json_integer_value(v);
        t->n = mul_sat(t->n, t->shape[i]);
    }
    t->bytes = mul_sat(t->n, dtypes[t->dtype].bytes);
    return t->bytes <= INT64_MAX || hf_list_fail(l, t, e, "its shape has 2^64 elements or more");
}

/* Reads where the elements are: `begin` is the byte at which the file's elements begin, data the bytes of
 * all. */
static bool stored_read_place(const hf_list *l, hf_stored *t, const json_t *entry, uint64_t begin,
                              uint64_t data, gq_error *e) {
    const json_t *place = json_object_get(entry, "data_offsets");
    const json_t *from = json_array_get(place, 0), *to = json_array_get(place, 1);
    if (json_array_size(place) != 2 || !json_is_integer(from) || !json_is_integer(to) ||
        json_integer_value(from) < 0 || json_integer_value(to) < json_integer_value(from))
        return hf_list_fail(l, t, e, "\"data_offsets\" are not two ascending offsets");
    uint64_t first = (uint64_t)json_integer_value(from), last = (uint64_t)json_integer_value(to);
    if (last > data)
        return hf_list_fail(l, t, e,
                            "its elements end at byte %" PRIu64 ", but the file has %" PRIu64
                            " bytes: it is truncated, download it again",
                            begin + last, begin + data);
    if (last - first != t->bytes)
        return hf_list_fail(l, t, e, "%" PRIu64 " bytes, expected %" PRIu64 " for its shape and type",
                            last - first, t->bytes);
    t->offset = begin + first;
    return true;
}

/* ---- one file ---- */

static int compare_stored_names(const void *a, const void *b) {
    return strcmp(((const hf_stored *)a)->name, ((const hf_stored *)b)->name);
}

static int compare_stored_places(const void *a, const void *b) {
    const hf_stored *x = *(hf_stored *const *)a, *y = *(hf_stored *const *)b;
    return x->offset != y->offset ? (x->offset < y->offset ? -1 : 1)
                                  : (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* Finds tensors of a file, from number `first` on, that share bytes. */
static bool list_check_overlap(const hf_list *l, size_t first, gq_error *e) {
    size_t n = l->n - first;
    hf_stored **at = malloc((n + 1) * sizeof *at);
    bool ok = at || gq_fail_memory(e, n * sizeof *at);
    for (size_t i = 0; ok && i < n; i++) at[i] = &l->stored[first + i];
    if (ok && n) qsort(at, n, sizeof *at, compare_stored_places);
    const hf_stored *before = NULL; /* the last one that has bytes */
    for (size_t i = 0; ok && i < n; i++) {
        if (at[i]->bytes == 0) continue;
        if (before && before->offset + before->bytes > at[i]->offset)
            ok = hf_list_fail(l, at[i], e, "it overlaps tensor '%s'", before->name);
        before = at[i];
    }
    free(at);
    return ok;
}

static bool arrays_add(hf_list *l, uint32_t file, const char *name, const json_t *entry, uint64_t begin,
                       uint64_t data, gq_error *e) {
    if (strlen(name) > NAME_MOST)
        return gq_fail(e, "%s: the tensor '%.64s...' has a name of %zu bytes, expected at most %d",
                       hf_list_path(l, file), name, strlen(name), NAME_MOST);
    if (!memory_grow(&l->stored, &l->capacity, l->n + 1, sizeof *l->stored, e)) return false;
    hf_stored *t = &l->stored[l->n];
    *t = (hf_stored){.name = strdup(name), .file = file};
    if (!t->name) return gq_fail_memory(e, strlen(name));
    l->n++;
    return stored_read_dtype(l, t, entry, e) && stored_read_shape(l, t, entry, e) &&
           stored_read_place(l, t, entry, begin, data, e);
}

/* Reads the length of the header. */
static bool file_read_length(const gq_file *f, uint64_t *n, gq_error *e) {
    uint8_t bytes[8];
    if (f->size == 0) return gq_fail(e, "%s is empty: download it again", f->path);
    if (!gq_file_read(f, 0, bytes, sizeof bytes, e)) return false;
    *n = 0;
    for (int i = 7; i >= 0; i--) *n = *n << 8 | bytes[i];
    if (*n >= 2 && *n <= HEADER_MOST && *n <= f->size - 8) return true;
    return gq_fail(e,
                   "%s: its first 8 bytes say that a header of %" PRIu64
                   " bytes follows, and the file has %" PRIu64
                   " bytes: it is truncated, or not a safetensors file",
                   f->path, *n, f->size);
}

/* Words that MLX packs codes in have scales beside them, under its own name. */
static bool header_check_words(const hf_list *l, uint32_t file, json_t *header, gq_error *e) {
    const char *name;
    json_t *entry;
    json_object_foreach(header, name, entry) {
        const char *dtype = json_string_value(json_object_get(entry, "dtype"));
        size_t n = strlen(name);
        char scales[NAME_MOST + 8];
        if (!dtype || strcmp(dtype, "U32") != 0 || !name_ends(name, ".weight") || n > NAME_MOST) continue;
        snprintf(scales, sizeof scales, "%.*sscales", (int)(n - strlen("weight")), name);
        if (l->is_mlx || json_object_get(header, scales))
            return gq_fail(e,
                           "%s: tensor '%s': elements of type U32, quantized by MLX, are not supported; use "
                           "the model's folder in 16 bits",
                           hf_list_path(l, file), name);
    }
    return true;
}

/* ComfyUI's notes of layers that are coded, in the header in place of tensors: F8 times one scale is read. */
static bool header_check_notes(const hf_list *l, uint32_t file, const json_t *metadata, gq_error *e) {
    const json_t *text = json_object_get(metadata, "_quantization_metadata");
    const char *path = hf_list_path(l, file), *name;
    bool ok = true;
    json_t *note, *all = NULL;
    if (!json_is_string(text)) return true;
    all = hf_json_parse(path, json_string_value(text), json_string_length(text), HF_JSON_ONE_VALUE, e);
    if (!all) return false;
    json_object_foreach(json_object_get(all, "layers"), name, note) {
        const char *format = json_string_value(json_object_get(note, "format"));
        bool is_f8 = format && (!strcmp(format, "float8_e4m3fn") || !strcmp(format, "float8_e5m2"));
        if (ok && (!is_f8 || json_object_get(note, "convrot")))
            ok = gq_fail(e,
                         "%s: _quantization_metadata of '%.200s': ComfyUI's quantization %.40s%s is not "
                         "supported: use the file in 16 bits or in F8",
                         path, name, format ? format : "of no format",
                         json_object_get(note, "convrot") ? " with convrot" : "");
    }
    json_decref(all);
    return ok;
}

static bool list_read_file(hf_list *l, uint32_t file, gq_error *e) {
    const gq_file *f = &l->folder->files[file].file;
    uint64_t n = 0;
    size_t first = l->n;
    const char *name;
    json_t *entry, *header = NULL;
    if (!file_read_length(f, &n, e)) return false;
    char *text = malloc(n);
    bool ok = (text || gq_fail_memory(e, n)) && gq_file_read(f, 8, text, n, e);
    if (ok && text[0] != '{') ok = gq_fail(e, "%s: byte 8 is not '{': not a safetensors file", f->path);
    ok = ok && (header = hf_json_parse(f->path, text, n, HF_JSON_ONE_VALUE, e));
    free(text);
    const json_t *metadata = json_object_get(header, "__metadata__");
    const char *format = json_string_value(json_object_get(metadata, "format")),
               *config = json_string_value(json_object_get(metadata, "config"));
    l->is_mlx |= format && strcmp(format, "mlx") == 0;
    if (ok && config && !l->config && !(l->config = strdup(config))) ok = gq_fail_memory(e, strlen(config));
    ok = ok && header_check_words(l, file, header, e) && header_check_notes(l, file, metadata, e);
    json_object_foreach(header, name, entry) {
        ok = ok && (strcmp(name, "__metadata__") == 0 ||
                    arrays_add(l, file, name, entry, 8 + n, f->size - 8 - n, e));
    }
    json_decref(header);
    if (ok && l->n > first) qsort(l->stored + first, l->n - first, sizeof *l->stored, compare_stored_names);
    return ok && list_check_overlap(l, first, e);
}

/* ---- which files ---- */

bool hf_folder_fail_no_weights(const hf_folder *f, const char *called, gq_error *e) {
    static const char adapter[] =
        "a LoRA adapter, not a model: name its model and give the adapter as lora to merge them, or give its "
        "model as base to make a GGUF of the adapter",
                      pickle[] =
                          "no safetensors, but PyTorch files, which can run programs when they are read: "
                          "convert them to safetensors first";
    static const struct {
        const char *begin, *end, *what; /* %s: the first such file */
    } others[] = {
        {"adapter_config", ".json", adapter},
        {"adapter_model", "", adapter},
        {"", ".gguf", "no safetensors, but a GGUF file: name the model in it"},
        {"pytorch_model", ".bin",
         "weights only as pytorch_model*.bin, which can run programs when they are read: "
         "convert them to safetensors first"},
        {"consolidated", PART,
         "weights only as consolidated*.safetensors, with Mistral's own names: download "
         "the model*.safetensors, too"},
        {"", ".incomplete", "no safetensors, but an unfinished download: download the folder again"},
        {"", ".bin", pickle},
        {"", ".pth", pickle},
        {"", ".pt", pickle},
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char **names;
        size_t n;
        if (!hf_folder_list(f, others[i].begin, others[i].end, &names, &n, e)) return false;
        if (n) gq_fail(e, "%s is a directory with %s (%s/%s)", f->path, others[i].what, f->path, names[0]);
        hf_names_free(names, n);
        if (n) return false;
    }
    if (!hf_folder_has(f, "config.json"))
        return gq_fail(
            e,
            "%s is a directory without a model in it: expected a GGUF file, or a folder with config.json "
            "and %s%s",
            f->path, called, PART);
    return gq_fail(e, "%s has no weights: expected %s%s, or several with %s%s", f->path, called, PART, called,
                   INDEX);
}

/* Whether a name is that of a file in the folder itself. */
static bool name_stays_inside(const char *name) {
    return *name && !strpbrk(name, "/\\") && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

/* Lists the distinct files that the index names, sorted by bytes. `index` is its path. */
static bool index_list_files(const char *index, const json_t *map, char ***names, size_t *n, gq_error *e) {
    const char *key;
    json_t *value;
    bool ok = true;
    *names = calloc(json_object_size(map) + 1, sizeof **names), *n = 0;
    if (!*names) return gq_fail_memory(e, json_object_size(map) * sizeof **names);
    json_object_foreach((json_t *)map, key, value) {
        const char *name = hf_json_text(value);
        if (!ok) break;
        if (!name || !name_stays_inside(name))
            ok = gq_fail(e,
                         "%s: weight_map: the file of '%s' is %s, expected the name of a file in the folder",
                         index, key, name ? name : "no text");
        else
            ok = ((*names)[*n] = strdup(name)) ? ++*n : gq_fail_memory(e, strlen(name));
    }
    hf_names_sort(*names, *n);
    size_t kept = 0;
    for (size_t i = 0; i < *n; i++)
        if (kept > 0 && strcmp((*names)[kept - 1], (*names)[i]) == 0)
            free((*names)[i]);
        else
            (*names)[kept++] = (*names)[i];
    *n = kept;
    return ok;
}

static bool index_check_names(const hf_list *l, const char *index, const json_t *map, gq_error *e) {
    const char *key;
    json_t *value;
    for (size_t i = 0; i < l->n; i++)
        if (!json_object_get(map, l->stored[i].name))
            return hf_list_fail(l, &l->stored[i], e, "%s does not name it: the files do not belong together",
                                index);
    json_object_foreach((json_t *)map, key, value) {
        if (!hf_list_find(l, key))
            return gq_fail(e, "%s names tensor '%s' of %s, but no file has it", index, key,
                           json_string_value(value));
    }
    return true;
}

bool hf_list_index(hf_list *l, gq_error *e) {
    name_index_free(&l->by_name);
    if (!name_index_all(&l->by_name, l->stored, sizeof *l->stored, l->n, e)) return false;
    for (size_t i = 0; i < l->n; i++) {
        const hf_stored *other = hf_list_find(l, l->stored[i].name);
        if (other != &l->stored[i])
            return hf_list_fail(l, &l->stored[i], e, "%s has it, too", hf_list_path(l, other->file));
    }
    return true;
}

static bool list_read_files(hf_list *l, char **names, size_t n, gq_error *e) {
    for (size_t i = 0; i < n; i++) {
        uint32_t number;
        if (!hf_folder_has(l->folder, names[i]))
            return gq_fail(e, "%s: %s is missing, one of %zu files of weights: download it", l->folder->path,
                           names[i], n);
        if (!hf_folder_weights(l->folder, names[i], &number, e) || !list_read_file(l, number, e))
            return false;
    }
    return hf_list_index(l, e);
}

/* Checks that no part is missing, where nothing but the names says how many there are. The names are sorted,
 * so parts of one number follow one another. */
static bool names_check_shards(const hf_folder *f, char **names, size_t n, gq_error *e) {
    for (size_t i = 0, same; i < n; i += same) {
        unsigned wanted, other;
        size_t stem = hf_shard_stem(names[i], &wanted);
        for (same = 1; stem && i + same < n; same++)
            if (hf_shard_stem(names[i + same], &other) != stem || other != wanted ||
                strncmp(names[i], names[i + same], stem) != 0)
                break;
        if (stem && same != wanted)
            return gq_fail(e, "%s/%s is one of %u files, and %zu of them are there: download the others",
                           f->path, names[i], wanted, same);
    }
    return true;
}

/* Files of weights beside an index that does not name them are not read, which people may not expect. */
static bool index_warn_others(hf_folder *f, const char *called, const char *index, char **names, size_t n,
                              gq_error *e) {
    char **all;
    const char *first = NULL;
    size_t n_all, others = 0, at = 0;
    if (!hf_folder_list(f, called, PART, &all, &n_all, e)) return false;
    for (size_t i = 0; i < n_all; i++) { /* both are sorted */
        while (at < n && strcmp(names[at], all[i]) < 0) at++;
        if ((at == n || strcmp(names[at], all[i]) != 0) && others++ == 0) first = all[i];
    }
    bool ok =
        others == 0 || hf_folder_warn(f, first, e, "%sis not read: %s does not name %s",
                                      others > 1 ? "and others: " : "", index, others > 1 ? "them" : "it");
    hf_names_free(all, n_all);
    return ok;
}

/* Keeps the one file that holds a whole model, where parts of a model are beside it: an earlier save left them,
 * or their index. transformers takes that file, too. is_indexed: the names are those of an index, which is then
 * left out where a file of it is missing. */
static bool names_take_whole(hf_folder *f, const char *called, char **names, size_t *n, bool is_indexed,
                             bool *taken, gq_error *e) {
    char whole[64];
    size_t parts = 0, missing = 0, at = SIZE_MAX;
    unsigned of;
    snprintf(whole, sizeof whole, "%s%s", called, PART);
    for (size_t i = 0; i < *n; i++) {
        if (strcmp(names[i], whole) == 0) at = i;
        parts += hf_shard_stem(names[i], &of) != 0;
        missing += !hf_folder_has(f, names[i]);
    }
    *taken = is_indexed ? missing && at == SIZE_MAX && hf_folder_has(f, whole) : parts && at != SIZE_MAX;
    if (!*taken) return true;
    char *one = strdup(whole);
    if (!one) return gq_fail_memory(e, sizeof whole);
    if (is_indexed) { /* nothing that it names is read */
        for (size_t i = 0; i < *n; i++) free(names[i]);
        *n = 0;
    } else {
        size_t kept = 0;
        for (size_t i = 0; i < *n; i++)
            if (i == at || hf_shard_stem(names[i], &of))
                free(names[i]);
            else
                names[kept++] = names[i];
        *n = kept;
    }
    names[(*n)++] = one;
    return is_indexed ? hf_folder_warn(f, whole, e,
                                       "is read as the whole model: %s%s names files of which %zu %s missing",
                                       called, INDEX, missing, missing == 1 ? "is" : "are")
                      : hf_folder_warn(f, whole, e,
                                       "is read as the whole model: %zu file%s beside it %s of another save",
                                       parts, plural_suffix(parts), parts == 1 ? "is a part" : "are parts");
}

bool hf_list_read_called(hf_list *l, hf_folder *f, const char *called, gq_error *e) {
    json_t *index = NULL, *map = NULL;
    char **names = NULL, name[64], *path;
    bool whole = false;
    size_t n = 0;
    *l = (hf_list){.folder = f};
    snprintf(name, sizeof name, "%s%s", called, INDEX);
    path = hf_folder_path(f, name, e);
    bool ok = path && hf_folder_json(f, name, &index, e);
    if (ok && index && !json_is_object(map = json_object_get(index, "weight_map")))
        ok = gq_fail(e, "%s has no object \"weight_map\"", path);
    ok = ok && (index ? index_list_files(path, map, &names, &n, e)
                      : hf_folder_list(f, called, PART, &names, &n, e));
    if (ok && n == 0) ok = hf_folder_fail_no_weights(f, called, e);
    ok = ok && names_take_whole(f, called, names, &n, index != NULL, &whole, e);
    if (ok && !index) ok = names_check_shards(f, names, n, e);
    ok = ok && list_read_files(l, names, n, e) &&
         (!index || whole ||
          (index_check_names(l, path, map, e) && index_warn_others(f, called, name, names, n, e)));
    hf_names_free(names, n);
    json_decref(index);
    free(path);
    if (!ok) hf_list_free(l);
    return ok;
}

bool hf_list_read(hf_list *l, hf_folder *f, gq_error *e) { return hf_list_read_called(l, f, "model", e); }

size_t hf_shard_stem(const char *name, unsigned *parts) {
    static const char form[] = "-ddddd-of-ddddd.safetensors";
    size_t n = strlen(name), m = sizeof form - 1;
    if (n <= m) return 0;
    for (size_t i = 0; i < m; i++) {
        char c = name[n - m + i];
        if (form[i] == 'd' ? c < '0' || c > '9' : c != form[i]) return 0;
    }
    *parts = (unsigned)strtoul(name + n - m + sizeof "-ddddd-of-" - 1, NULL, 10);
    return n - m;
}

bool hf_list_read_file(hf_list *l, hf_folder *f, const char *name, gq_error *e) {
    char **names = NULL, *one = (char *)name;
    size_t n = 0, kept = 0;
    unsigned parts = 0;
    size_t stem = hf_shard_stem(name, &parts);
    *l = (hf_list){.folder = f};
    bool ok = true;
    if (stem) { /* all parts: the names differ in the part's number alone */
        char *begin = strndup(name, stem + 1);
        ok = (begin || gq_fail_memory(e, stem)) &&
             hf_folder_list(f, begin, name + stem + sizeof "-ddddd" - 1, &names, &n, e);
        free(begin);
        for (size_t i = 0; ok && i < n; i++)
            if (hf_shard_stem(names[i], &parts) == stem)
                names[kept++] = names[i];
            else
                free(names[i]);
        if (ok) n = kept;
        ok = ok && names_check_shards(f, names, n, e);
    }
    ok = ok && list_read_files(l, stem ? names : &one, stem ? n : 1, e);
    hf_names_free(names, n);
    if (!ok) hf_list_free(l);
    return ok;
}

bool hf_list_add_file(hf_list *l, const char *name, const char *from, const char *to, gq_error *e) {
    size_t first = l->n, n = strlen(from);
    uint32_t number;
    if (!hf_folder_weights(l->folder, name, &number, e) || !list_read_file(l, number, e)) return false;
    for (size_t i = first; i < l->n; i++) {
        char *other = NULL;
        const char *old = l->stored[i].name;
        if (strncmp(old, from, n) != 0) continue;
        if (asprintf(&other, "%s%s", to, old + n) < 0) return gq_fail_memory(e, strlen(old));
        free((char *)old);
        l->stored[i].name = other;
    }
    return hf_list_index(l, e);
}

void hf_list_free(hf_list *l) {
    for (size_t i = 0; i < l->n; i++) free((char *)l->stored[i].name);
    free(l->stored), free(l->config);
    name_index_free(&l->by_name);
    *l = (hf_list){.folder = NULL};
}

const hf_stored *hf_list_find(const hf_list *l, const char *name) {
    uint64_t i;
    return name_index_find(&l->by_name, l->stored, sizeof *l->stored, name, &i) ? &l->stored[i] : NULL;
}

static sample_range list_range(const void *user, uint64_t i) {
    const hf_list *l = user;
    const hf_stored *t = &l->stored[i];
    return (sample_range){&l->folder->files[t->file].file, t->offset, t->bytes};
}

bool hf_list_fold(const hf_list *l, uint32_t *content, gq_error *e) {
    for (size_t i = 0; i < l->n; i++) {
        const hf_stored *t = &l->stored[i];
        uint64_t place[3] = {t->dtype, t->offset, t->bytes};
        *content = checksum_add_text(*content, t->name);
        *content = checksum_add(*content, place, sizeof place);
        *content = checksum_add(*content, t->shape, t->n_dims * sizeof *t->shape);
    }
    return sample_fold(l->n, list_range, l, content, e);
}
