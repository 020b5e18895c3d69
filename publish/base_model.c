#include "publish/base_model.h"

#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/name_index.h"
#include "publish/text.h"

const char *base_model_of_url(const char *url) {
    static const char *const hubs[] = {"https://huggingface.co/datasets/", "https://huggingface.co/", ""};
    for (size_t i = 0; i < sizeof hubs / sizeof *hubs; i++)
        if (!strncmp(url, hubs[i], strlen(hubs[i])) &&
            name_is_hub_id(url + strlen(hubs[i]), strlen(url + strlen(hubs[i]))))
            return url + strlen(hubs[i]);
    return NULL;
}

/* Whether an id's NAME is a model's name, which may be written in another way: "Qwen3-8B", "qwen3 8b". */
static bool base_model_is_named(const char *id, const char *name) {
    const char *a = strchr(id, '/') + 1, *b = name;
    for (;; a++, b++) {
        a += strspn(a, "-_. "), b += strspn(b, "-_. ");
        if (tolower((unsigned char)*a) != tolower((unsigned char)*b)) return false;
        if (!*a) return true;
    }
}

bool base_model_take(base_model *to, const char *id, size_t n, const char *source, gq_error *e) {
    *to = (base_model){strndup(id, n), source};
    return to->id || gq_fail_memory(e, n);
}

/* Takes what a key of the metadata names. */
static bool base_model_of_key(base_model *to, const gq_model *m, const char *key, const char *name,
                              gq_error *e) {
    char id_or_url[512];
    size_t n;
    const char *text = to->id ? NULL : page_model_text(m, key, &n);
    if (!text || n >= sizeof id_or_url) return true;
    snprintf(id_or_url, sizeof id_or_url, "%.*s", (int)n, text);
    const char *id = base_model_of_url(id_or_url);
    if (!id || (name && !base_model_is_named(id, name))) return true;
    return base_model_take(to, id, strlen(id), key, e);
}

/* Takes OWNER/NAME of a folder in the hub's cache: .../models--OWNER--NAME/snapshots/REVISION. */
static bool base_model_of_cache(base_model *to, const char *path, gq_error *e) {
    static const char begins[] = "models--";
    char *whole = realpath(path, NULL), *at = whole;
    for (char *next; at && (next = strstr(at + 1, begins));) at = next;
    char *end = at && !strncmp(at, begins, strlen(begins)) ? strchr(at, '/') : NULL;
    if (end) *end = 0, at += strlen(begins);
    char *gap = end && !strncmp(end + 1, "snapshots/", 10) ? strstr(at, "--") : NULL;
    if (gap) *gap = '/', memmove(gap + 1, gap + 2, strlen(gap + 2) + 1);
    bool ok = !gap || !name_is_hub_id(at, strlen(at)) ||
              base_model_take(to, at, strlen(at), "the path in the cache of the Hub", e);
    free(whole);
    return ok;
}

/* Takes what a JSON file of a folder names. name: only if it is that model's; NULL: any. */
static bool base_model_of_file(base_model *to, const char *path, const char *file_name, const char *key,
                               const char *name, const char *source, gq_error *e) {
    enum { MOST = 16 << 20 };
    char *file = NULL;
    size_t n;
    if (asprintf(&file, "%s/%s", path, file_name) < 0) return gq_fail_memory(e, strlen(path));
    char *text = gq_read_whole(file, MOST, &n, &(gq_error){0});
    json_t *config = text ? json_loadb(text, n, 0, NULL) : NULL;
    const char *id = json_string_value(json_object_get(config, key));
    bool ok = !id || !name_is_hub_id(id, strlen(id)) || (name && !base_model_is_named(id, name)) ||
              base_model_take(to, id, strlen(id), source, e);
    json_decref(config);
    free(text), free(file);
    return ok;
}

bool base_model_find(base_model *to, const char *asked, const char *path, const char *adapter,
                     const gq_model *m, const char *stem, gq_error *e) {
    static const char *const keys[] = {"general.source.repo_url", "general.repo_url",
                                       "general.source.huggingface.repository", "general.source.url"};
    *to = (base_model){.id = NULL};
    if (asked) return base_model_take(to, asked, strlen(asked), NULL, e);
    bool ok = base_model_of_cache(to, path, e);
    for (size_t i = 0; ok && i < sizeof keys / sizeof *keys; i++)
        ok = base_model_of_key(to, m, keys[i], NULL, e);
    /* A folder's own name may be that of what was trained further. */
    ok = ok && (to->id || base_model_of_file(to, path, "config.json", "_name_or_path", stem,
                                             "_name_or_path in config.json", e));
    ok = ok && (to->id || !adapter ||
                base_model_of_file(to, adapter, "adapter_config.json", "base_model_name_or_path", NULL,
                                   "base_model_name_or_path in adapter_config.json", e));
    /* The card's own base model is what the model was made from, and the model itself where the name says so. */
    return ok && base_model_of_key(to, m, "general.base_model.0.repo_url", stem, e);
}
