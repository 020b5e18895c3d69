/* A report is read back for its checksums. It may come from anywhere. */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

enum { MAX_REPORT = 64 << 20 }; /* 450 bytes a tensor: 140,000 tensors */

static bool output_is_called(const json_t *output, const char *model) {
    const json_t *named = json_object_get(output, "path");
    char *name = json_is_string(named) ? json_bytes_of(named) : NULL;
    bool is = name && !strcmp(path_reported(name, false), path_reported(model, false));
    free(name);
    return is;
}

/* NULL: none. */
static json_t *find_output(const json_t *root, const char *path, const char *model, bool by_name,
                           gq_error *e) {
    json_t *outputs = json_object_get(root, "outputs"), *found = NULL;
    if (!json_is_array(outputs))
        return gq_fail(e, "%s: has no list of outputs; expected the report of a run", path), NULL;
    size_t n = json_array_size(outputs);
    if (n == 1 && !by_name) return json_array_get(outputs, 0);
    for (size_t i = 0; i < n; i++)
        if (output_is_called(json_array_get(outputs, i), model)) found = json_array_get(outputs, i);
    if (!found)
        gq_fail(e, "%s: lists %zu output%s, none named %s", path, n, plural_suffix(n),
                path_reported(model, false));
    return found;
}

static bool checksum_list_add(checksum_list *list, const json_t *tensor, const char *path, gq_error *e) {
    const json_t *name = json_object_get(tensor, "name");
    const char *crc = json_string_value(json_object_get(tensor, "crc32"));
    if (!json_is_string(name) || !crc)
        return gq_fail(e, "%s: holds no checksums; expected the report of a run", path);
    if (strlen(crc) != 8 || strspn(crc, "0123456789abcdef") != 8)
        return gq_fail(e, "%s: tensor %s: crc32 is %s, expected eight hexadecimal digits", path,
                       json_string_value(name), crc);
    list->items[list->n++] = (gq_checksum){json_bytes_of(name), (uint32_t)strtoul(crc, NULL, 16)};
    return true;
}

bool checksums_parse(checksum_list *list, const char *text, size_t n, const char *path, const char *model,
                     bool by_name, gq_error *e) {
    *list = (checksum_list){0};
    json_t *root = json_read(text, n, path, e),
           *output = root ? find_output(root, path, model, by_name, e) : NULL;
    const json_t *tensors = json_object_get(output, "tensors");
    size_t n_tensors = json_array_size(tensors); /* 0 of what is no list */
    list->items = need_memory(n_tensors, sizeof *list->items);
    bool ok = output && (json_is_array(tensors) ||
                         gq_fail(e, "%s: holds no checksums; expected the report of a run", path));
    for (size_t i = 0; ok && i < n_tensors; i++)
        ok = checksum_list_add(list, json_array_get(tensors, i), path, e);
    json_decref(root);
    return ok;
}

bool checksums_read(checksum_list *list, const char *path, const char *model, bool by_name, gq_error *e) {
    size_t n;
    char *text = gq_read_whole(path, MAX_REPORT, &n, e);
    bool ok = text && checksums_parse(list, text, n, path, model, by_name, e);
    free(text);
    return ok;
}

void checksums_free(checksum_list *list) {
    for (size_t i = 0; i < list->n; i++) free((void *)list->items[i].name);
    free(list->items);
    *list = (checksum_list){0};
}
