#include "hf/metadata/metadata.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_MOST = 64, NAME_MOST = PATH_MOST + 32, FOUND_MOST = 160 };

/* A module's folder is one of this folder's. */
static bool module_path(const hf_folder *f, const json_t *module, const char **path, gq_error *e) {
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
    *path = json_string_value(json_object_get(module, "path"));
    size_t n = *path ? strlen(*path) : 0;
    return (n > 0 && n < PATH_MOST && strspn(*path, allowed) == n) ||
           gq_fail(e,
                   "%s/modules.json: the path of a module is %s%.80s%s, expected the name of a folder in "
                   "this one",
                   f->path, *path ? "\"" : "", *path ? *path : "missing", *path ? "\"" : "");
}

static bool module_is(const json_t *module, const char *kind) {
    const char *type = json_string_value(json_object_get(module, "type"));
    size_t n = type ? strlen(type) : 0, of = strlen(kind);
    return n >= of && strcmp(type + n - of, kind) == 0;
}

/* *config: the module's own, or NULL. */
static bool module_config(hf_folder *f, const char *path, json_t **config, gq_error *e) {
    char name[NAME_MOST];
    snprintf(name, sizeof name, "%s/config.json", path);
    return hf_folder_json(f, name, config, e);
}

/* ---- pooling ---- */

/* Returns the number of pooling_type; 0: it is not one that a file can name, or several in one. `found`: what the
 * config has. */
static uint32_t pooling_of(json_t *config, char *found, size_t size) {
    static const struct {
        const char *mode;
        uint32_t number;
    } kinds[] = {{"mean", 1}, {"mean_tokens", 1}, {"cls", 2}, {"cls_token", 2}, {"lasttoken", 3}};
    static const char begin[] = "pooling_mode_";
    const char *mode = json_string_value(json_object_get(config, "pooling_mode")), *flag;
    const json_t *value;
    size_t n = 0;
    snprintf(found, size, "%s", mode ? mode : "no pooling_mode");
    json_object_foreach(config, flag, value) {
        if (strncmp(flag, begin, sizeof begin - 1) != 0 || !json_is_true(value)) continue;
        size_t length = n++ ? strlen(found) : 0;
        mode = flag + sizeof begin - 1;
        snprintf(found + length, size - length, "%s%s", n > 1 ? " and " : "", mode);
    }
    for (size_t i = 0; mode && n < 2 && i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(mode, kinds[i].mode) == 0) return kinds[i].number;
    return 0;
}

/* Says how a model works without a pooling that GGUF can name: a decoder still generates text. */
static bool pooling_unknown(const hf_config *c, const char *path, const char *found, gq_error *e) {
    char name[NAME_MOST], what[FOUND_MOST + 128];
    snprintf(name, sizeof name, "%s/config.json", path);
    snprintf(what, sizeof what, "is missing, and modules.json names it: download it");
    if (found)
        snprintf(what, sizeof what,
                 "it pools by %s, expected mean, cls or lasttoken alone, which a GGUF can name", found);
    if (c->row->graph.embeds) return gq_fail(e, "%s/%s: %s", c->folder->path, name, what);
    return hf_folder_warn(c->folder, name, e,
                          "%s; the GGUF has no pooling_type: set it where you run the model (--pooling)",
                          what);
}

/* Sets a key to the pooling that modules.json has, if any. */
static bool pooling_set(const hf_config *c, const char *key, hf_metadata *p, gq_error *e) {
    json_t *config = NULL, *module;
    const char *path;
    size_t at;
    json_array_foreach(c->modules, at, module) {
        if (!module_is(module, "Pooling")) continue;
        if (!module_path(c->folder, module, &path, e) || !module_config(c->folder, path, &config, e))
            return false;
        char found[FOUND_MOST];
        uint32_t kind = pooling_of(config, found, sizeof found);
        bool is_missing = !config;
        json_decref(config);
        return kind ? hf_metadata_u32(p, key, kind, e)
                    : pooling_unknown(c, path, is_missing ? NULL : found, e);
    }
    return true;
}

KV_MAKE(own_pooling) {
    const char *of_class = hf_config_text(c, "classifier_pooling");
    if (!pooling_set(c, i->key, p, e)) return false;
    bool is_mean = of_class && strcmp(of_class, "mean") == 0,
         is_first = of_class && strcmp(of_class, "cls") == 0;
    /* Configs of classes without a classifier may have further kinds, which nothing reads there. */
    if (!of_class || (!is_mean && !is_first && !strstr(c->class_name, "Classification"))) return true;
    return is_mean || is_first
               ? hf_metadata_u32(p, ".classifier.pooling_type", is_mean ? 1 : 2, e)
               : hf_config_fail(c, e, "classifier_pooling is \"%s\", expected cls or mean", of_class);
}

bool hf_modules_metadata(const hf_config *c, hf_metadata *p, gq_error *e) {
    static const char key[] = ".pooling_type";
    if (c->row->graph.embeds || hf_metadata_find(p, key)) return true;
    return pooling_set(c, key, p, e) &&
           (!hf_metadata_find(p, key) || c->row->folder.pools ||
            hf_folder_warn(c->folder, "modules.json", e,
                           "older releases of llama.cpp do not read pooling_type for the architecture %s: "
                           "set it there with --pooling",
                           c->row->name));
}

/* ---- dense heads ---- */

/* A dense module whose weights are there. */
typedef struct dense_module {
    const char *path, *name; /* name: dense_2 or dense_3 */
    char weights[NAME_MOST];
} dense_module;

static bool module_is_dense(const hf_config *c, const json_t *module, dense_module *to, bool *is,
                            gq_error *e) {
    *is = module_is(module, "Dense");
    if (!*is) return true;
    if (!module_path(c->folder, module, &to->path, e)) return false;
    to->name = strcmp(to->path, "3_Dense") == 0 ? "dense_3" : "dense_2";
    snprintf(to->weights, sizeof to->weights, "%s/model.safetensors", to->path);
    *is = hf_folder_has(c->folder, to->weights);
    return *is || hf_folder_warn(c->folder, to->weights, e,
                                 "is missing: download it, or the embeddings lack this dense layer");
}

/* key NULL: both sizes, under the head's own keys; else how long its vectors are. */
static bool dense_set_sizes(const hf_config *c, const dense_module *of, const char *key_out, hf_metadata *p,
                            gq_error *e) {
    static const char *const keys[][2] = {{"in_features", "in"}, {"out_features", "out"}};
    json_t *config = NULL;
    bool ok = module_config(c->folder, of->path, &config, e);
    const char *act = json_string_value(json_object_get(config, "activation_function"));
    if (ok && act && !strstr(act, "Identity"))
        ok = gq_fail(e, "%s/%s/config.json: activation_function is %.80s, which llama.cpp does not apply",
                     c->folder->path, of->path, act);
    for (size_t i = key_out ? 1 : 0; ok && i < 2; i++) {
        char key[32];
        uint32_t value;
        snprintf(key, sizeof key, ".%s_feat_%s", of->name, keys[i][1]);
        ok = hf_value_u32(c, json_object_get(config, keys[i][0]), keys[i][0], &value, e) &&
             hf_metadata_u32(p, key_out ? key_out : key, value, e);
    }
    json_decref(config);
    return ok;
}

KV_MAKE(own_dense) {
    json_t *module;
    dense_module dense;
    size_t at;
    bool ok = true, is;
    json_array_foreach(c->modules, at, module) {
        ok = ok && module_is_dense(c, module, &dense, &is, e) &&
             (!is || dense_set_sizes(c, &dense, i->key, p, e));
    }
    return ok;
}

/* Reads the list, which is a JSON array, as the one member of an object. */
static bool modules_read(hf_config *c, gq_error *e) {
    static const char before[] = "{\"modules\":", name[] = "modules.json";
    char *text, *whole = NULL, *path = hf_folder_path(c->folder, name, e);
    size_t n;
    if (!path || !hf_folder_text(c->folder, name, &text, &n, e)) return free(path), false;
    bool ok = !text || (whole = malloc(sizeof before + n + 1)) || gq_fail_memory(e, n);
    if (whole) {
        memcpy(whole, before, sizeof before - 1), memcpy(whole + sizeof before - 1, text, n);
        whole[sizeof before - 1 + n] = '}', whole[sizeof before + n] = 0;
        json_t *object = hf_json_parse(path, whole, sizeof before + n, 0, e);
        ok = object != NULL;
        c->modules = json_incref(json_object_get(object, "modules"));
        if (ok && !json_is_array(c->modules))
            ok = gq_fail(e, "%s: expected an array of modules; repair or remove the file", path);
        json_decref(object);
    }
    free(text), free(whole), free(path);
    return ok;
}

/* Warns of a module that a file of this architecture does not hold. */
static bool modules_know(const hf_config *c, const json_t *module, gq_error *e) {
    static const char *const kinds[] = {"Transformer", "Pooling", "Normalize"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (module_is(module, kinds[i])) return true;
    const char *type = json_string_value(json_object_get(module, "type"));
    return (c->row->graph.has_dense && module_is(module, "Dense")) ||
           hf_folder_warn(c->folder, "modules.json", e,
                          "the module %.80s is left out, which %s GGUFs cannot have: the embeddings differ "
                          "from the base model's",
                          type ? type : "without a type", c->row->name);
}

bool hf_modules_add(hf_list *l, hf_config *c, gq_error *e) {
    json_t *module;
    dense_module dense;
    size_t at;
    bool ok = modules_read(c, e), is;
    json_array_foreach(c->modules, at, module) {
        ok = ok && modules_know(c, module, e) &&
             (!c->row->graph.has_dense ||
              (module_is_dense(c, module, &dense, &is, e) &&
               (!is || hf_list_add_file(l, dense.weights, "linear", dense.name, e))));
    }
    return ok;
}
