/* Compares an adapter with its config. A file that has lost tensors is the base model's in their place, and
 * nothing in what is written shows it. The config says what was trained: modules by the ends of their names or an
 * expression, in all layers or some, modules saved whole, parameters, rows of tokens, biases. What it names, and
 * the model has, must be changed. */
#include "hf/adapter/adapter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char WHOLE[] = "take the whole adapter";
static const char DIGITS[] = "0123456789";

static const json_t *config_of(const hf_modules *t, const char *key) {
    const json_t *v = json_object_get(t->adapter->config, key);
    bool is_empty =
        (json_is_array(v) && json_array_size(v) == 0) || (json_is_object(v) && json_object_size(v) == 0);
    return json_is_null(v) || json_is_false(v) || is_empty ? NULL : v;
}

#define check_warn(t, e, ...) hf_folder_warn(&((hf_adapter *)(t)->adapter)->folder, "", e, __VA_ARGS__)

/* Source i of those that have a rule; NULL: it is of a layer that transformers' classes do not have (MTP). */
static const hf_source *source_at(const hf_modules *t, size_t i) {
    const hf_module_rule *r = &t->by_rule[i];
    bool is_main = t->build->projector || r->layer < t->build->config->layers;
    return is_main ? &t->build->sources[r->source] : NULL;
}

/* Writes the name of the module that a tensor belongs to. */
static void source_module(const hf_source *s, char *to, size_t size) {
    const char *end = name_ends(s->name, ".weight") ? ".weight" : name_ends(s->name, ".bias") ? ".bias" : "";
    snprintf(to, size, "%.*s", (int)(strlen(s->name) - strlen(end)), s->name);
}

/* Whether a name is of the module `part`, or of one within it. */
static bool name_has_module(const char *name, const char *part) {
    size_t n = strlen(part);
    for (const char *at = n ? strstr(name, part) : NULL; at; at = strstr(at + 1, part))
        if ((at == name || at[-1] == '.') && (at[n] == 0 || at[n] == '.')) return true;
    return false;
}

/* ---- modules that are changed ---- */

/* Counts the matrices of main layers that a module's name fits: those that are changed, and the others. */
static void module_count(const hf_modules *t, const char *wanted, size_t *changed, size_t *others,
                         const char **first) {
    *changed = *others = 0;
    for (size_t i = 0; i < t->n_rules; i++) {
        const hf_source *s = source_at(t, i);
        char module[HF_MODULE_BYTES];
        if (!s || s->n_dims != 2 || strstr(s->name, ".experts.") || !name_ends(s->name, ".weight")) continue;
        source_module(s, module, sizeof module);
        if (!hf_module_ends(module, wanted)) continue;
        if (hf_module_has_change(t, s))
            ++*changed;
        else if (++*others == 1)
            *first = s->name;
    }
}

/* Whether the adapter changes a matrix of the model, or the projector, that is made. */
static bool changes_any(const hf_modules *t) {
    for (size_t i = 0; i < t->adapter->n; i++)
        if (t->adapter->modules[i].a && hf_module_find(t, t->adapter->modules[i].module, ".weight"))
            return true;
    return false;
}

/* A class may lack modules whose tensors the folder has, so that some that are not changed are reported. A list that
 * names modules of the text model may be that of an adapter that changes nothing of the projector. */
static bool check_target_modules(const hf_modules *t, gq_error *e) {
    const json_t *list = config_of(t, "target_modules"), *v;
    size_t i;
    bool is_text = !t->build->projector;
    if (config_of(t, "exclude_modules") || config_of(t, "layers_to_transform") ||
        (!is_text && !changes_any(t)))
        return true;
    json_array_foreach(list, i, v) {
        const char *wanted = hf_json_text(v), *first = NULL;
        size_t changed, others;
        if (!wanted) continue;
        module_count(t, wanted, &changed, &others, &first);
        if (others == 0) continue;
        if (changed == 0 && is_text)
            return hf_adapter_fail(t->adapter, e,
                                   "target_modules names '%.80s', of which the model has %zu, such as '%s', "
                                   "but the adapter none: %s",
                                   wanted, others, first, WHOLE);
        if (!check_warn(t, e, "target_modules names '%.80s', but '%s'%s keep%s the model's weights", wanted,
                        first, others > 1 ? " and others" : "", others > 1 ? "" : "s"))
            return false;
    }
    return true;
}

/* Whether a module is one whose parameters are changed, by their own list. */
static bool module_has_parameters(const hf_modules *t, const char *module) {
    const json_t *list = config_of(t, "target_parameters"), *v;
    char name[HF_MODULE_BYTES], head[HF_MODULE_BYTES];
    size_t i;
    hf_module_name(module, name, sizeof name);
    json_array_foreach(list, i, v) {
        const char *path = hf_json_text(v), *leaf = path ? strrchr(path, '.') : NULL;
        if (!leaf) continue;
        snprintf(head, sizeof head, "%.*s", (int)(leaf - path), path);
        if (hf_module_ends(name, head)) return true;
    }
    return false;
}

/* A module's name around the number of its layer, the first in it, or of its expert, the first behind "experts". */
typedef struct layer_name {
    const char *tail; /* behind the number */
    int head;         /* bytes before it */
    uint64_t layer;
} layer_name;

static bool name_read_number(const char *module, const char *from, layer_name *to) {
    for (const char *at = from; at && (at = strchr(at, '.')); at++) {
        size_t n = strspn(at + 1, DIGITS);
        if (n == 0 || n > 6 || at[1 + n] != '.') continue;
        *to = (layer_name){at + 1 + n, (int)(at + 1 - module), strtoull(at + 1, NULL, 10)};
        return true;
    }
    return false;
}

static bool layer_name_read(const char *module, layer_name *to) {
    return name_read_number(module, module, to);
}

static bool layers_have(const json_t *layers, uint64_t layer) {
    const json_t *v;
    size_t i;
    if (json_is_integer(layers)) return json_integer_value(layers) == (json_int_t)layer;
    json_array_foreach(layers, i, v) {
        if (json_is_integer(v) && json_integer_value(v) == (json_int_t)layer) return true;
    }
    return false;
}

/* PEFT takes layers_to_transform for lists of modules alone. */
static const json_t *layers_chosen(const hf_modules *t) {
    return json_is_array(config_of(t, "target_modules")) ? config_of(t, "layers_to_transform") : NULL;
}

static bool list_names_whole(const json_t *list, const char *module) {
    const json_t *v;
    size_t i;
    json_array_foreach(list, i, v) {
        if (hf_json_is(v, module)) return true;
    }
    return false;
}

/* Layers that the config chooses are those that are changed. */
static bool check_layers(const hf_modules *t, gq_error *e) {
    const hf_adapter *a = t->adapter;
    const json_t *layers = layers_chosen(t), *v;
    size_t k;
    if (!layers || t->build->projector) return true;
    for (size_t i = 0; i < a->n; i++) {
        const hf_adapted *m = &a->modules[i];
        layer_name at = {.layer = UINT64_MAX};
        if (!hf_adapted_lora(m) || module_has_parameters(t, m->module) ||
            list_names_whole(config_of(t, "target_modules"), m->module))
            continue;
        if (!layer_name_read(m->module, &at) || !layers_have(layers, at.layer))
            return hf_list_fail(&a->list, hf_adapted_lora(m), e,
                                "layers_to_transform of %s does not have this layer: the two files belong to "
                                "different adapters",
                                a->file);
    }
    json_t *all = json_is_array(layers) ? json_incref((json_t *)layers) : json_pack("[O]", layers);
    bool ok = all || gq_fail_memory(e, 0);
    json_array_foreach(all, k, v) {
        bool found = !json_is_integer(v) || (uint64_t)json_integer_value(v) >= t->build->config->layers;
        for (size_t i = 0; i < a->n && !found; i++) {
            layer_name at;
            found = hf_adapted_lora(&a->modules[i]) && layer_name_read(a->modules[i].module, &at) &&
                    (json_int_t)at.layer == json_integer_value(v);
        }
        if (ok && !found)
            ok = hf_adapter_fail(
                a, e, "layers_to_transform names layer %lld, but the adapter changes none of it: %s",
                (long long)json_integer_value(v), WHOLE);
    }
    json_decref(all);
    return ok;
}

/* A module that target_modules does not name, or exclude_modules does, is merged, but peft would not load it. */
static bool check_named(const hf_modules *t, gq_error *e) {
    const hf_adapter *a = t->adapter;
    const char *first = NULL;
    size_t n = 0;
    if (t->build->projector || !config_of(t, "target_modules")) return true;
    for (size_t i = 0; i < a->n; i++) {
        const hf_adapted *m = &a->modules[i];
        if (!hf_adapted_lora(m) || module_has_parameters(t, m->module) ||
            (hf_adapter_names(a, "target_modules", m->module) &&
             !hf_adapter_names(a, "exclude_modules", m->module)))
            continue;
        if (n++ == 0) first = m->module;
    }
    return n == 0 || check_warn(t, e,
                                "'%s'%s merged, but %s of its config leaves %s out, and peft would not load "
                                "%s: the two files may be of different adapters",
                                first, n > 1 ? " and others are" : " is",
                                config_of(t, "exclude_modules") ? "target_modules or exclude_modules"
                                                                : "target_modules",
                                n > 1 ? "them" : "it", n > 1 ? "them" : "it");
}

/* Returns the tensor of a module as it would be in another layer, or of another expert, where the model has it, the
 * config names it, and the adapter does not change it; NULL: nothing is missing there. */
static const hf_source *layer_missing(const hf_modules *t, const char *module, const layer_name *at,
                                      uint64_t layer, bool *exists) {
    const json_t *layers = layers_chosen(t);
    char name[HF_MODULE_BYTES];
    layer_name own;
    if (snprintf(name, sizeof name, "%.*s%llu%s", at->head, module, LLU(layer), at->tail) >= (int)sizeof name)
        return NULL;
    const hf_source *s = hf_module_find(t, name, ".weight");
    *exists = s != NULL;
    return s && s->n_dims == 2 && !hf_module_has_change(t, s) &&
                   (!layers || (layer_name_read(name, &own) && layers_have(layers, own.layer))) &&
                   hf_adapter_names(t->adapter, "target_modules", name) &&
                   !hf_adapter_names(t->adapter, "exclude_modules", name)
               ? s
               : NULL;
}

/* Whether the adapter changes the same module of no layer, or expert, before. */
static bool layer_is_first(const hf_modules *t, const char *module, const layer_name *at) {
    char name[HF_MODULE_BYTES];
    for (uint64_t k = 0; k < at->layer; k++) {
        const hf_adapted *m;
        snprintf(name, sizeof name, "%.*s%llu%s", at->head, module, LLU(k), at->tail);
        if ((m = hf_adapter_find(t->adapter, name)) && hf_adapted_lora(m)) return false;
    }
    return true;
}

/* Reports an unchanged matrix whose name ends as that of a changed one, if target_modules is an expression, or
 * all linear layers are changed. */
static bool check_alike(const hf_modules *t, gq_error *e) {
    enum { ENDS_MOST = 64 };
    const char *ends[ENDS_MOST + 1] = {NULL}, *first = NULL;
    size_t n_ends = 0, n = 0;
    if (!json_is_string(config_of(t, "target_modules"))) return true;
    for (size_t i = 0; i < t->adapter->n && n_ends < ENDS_MOST; i++) {
        const char *module = t->adapter->modules[i].module, *dot = strrchr(module, '.');
        const hf_source *s = t->adapter->modules[i].a ? hf_module_find(t, module, ".weight") : NULL;
        if (s && dot && !name_is_one(dot + 1, ends)) ends[n_ends++] = dot + 1;
    }
    for (size_t i = 0; i < t->n_rules; i++) {
        const hf_source *s = source_at(t, i);
        char module[HF_MODULE_BYTES];
        if (!s || s->n_dims != 2 || strstr(s->name, ".experts.") || !name_ends(s->name, ".weight") ||
            hf_module_has_change(t, s))
            continue;
        source_module(s, module, sizeof module);
        const char *dot = strrchr(module, '.');
        /* a projector's matrices are linear, whatever they are called, but for tables of embeddings */
        bool is_linear =
            n_ends &&
            (name_behind(t->by_rule[i].to, "mm.") || (t->build->projector && !strstr(module, "emb"))) &&
            hf_json_is(config_of(t, "target_modules"), "all-linear");
        if (((dot && name_is_one(dot + 1, ends)) || is_linear) &&
            hf_adapter_names(t->adapter, "target_modules", module) &&
            !hf_adapter_names(t->adapter, "exclude_modules", module) && n++ == 0)
            first = s->name;
    }
    return n == 0 || check_warn(t, e, "it changes modules like it, but '%s'%s keep%s the model's weights",
                                first, n > 1 ? " and others" : "", n > 1 ? "" : "s");
}

enum { LAYERS_MOST = 4096 };

/* Counts the layers, or experts, below `end` that lack a module, if it is the first of its name; *first: the tensor of
 * the first of them, if there is none yet. */
static size_t layers_lack(const hf_modules *t, const char *module, const layer_name *at, uint64_t end,
                          const char **first) {
    bool exists = true;
    size_t n = 0;
    if (at->layer > LAYERS_MOST || !layer_is_first(t, module, at)) return 0;
    for (uint64_t k = 0; k < end && (exists || k <= at->layer); k++) {
        const hf_source *s = layer_missing(t, module, at, k, &exists);
        n += s != NULL;
        if (s && !*first) *first = s->name;
    }
    return n;
}

/* A module that is changed in one layer is changed in all that the config names, and that of one expert for all
 * experts. What check_target_modules has told is not told again. */
static bool check_each_layer(const hf_modules *t, gq_error *e) {
    const hf_adapter *a = t->adapter;
    const char *first = NULL;
    size_t n = 0, n_experts = 0;
    /* layers behind the main ones (MTP) are none of transformers' classes */
    uint64_t end = t->build->projector ? LAYERS_MOST : t->build->config->layers;
    bool names_all = json_is_array(config_of(t, "target_modules")) && !config_of(t, "exclude_modules") &&
                     !config_of(t, "layers_to_transform");
    for (size_t i = 0; i < a->n; i++) {
        const char *module = a->modules[i].module, *experts = strstr(module, ".experts.");
        layer_name at;
        if (!a->modules[i].a || module_has_parameters(t, module) || (names_all && !experts)) continue;
        if (layer_name_read(module, &at)) n += layers_lack(t, module, &at, end, &first);
        if (name_read_number(module, experts, &at))
            n_experts += layers_lack(t, module, &at, LAYERS_MOST, &first);
    }
    bool of_layers = n > 0;
    n += n_experts;
    if (n == 0) return check_alike(t, e);
    if (layers_chosen(t))
        return hf_adapter_fail(a, e,
                               "layers_to_transform has the layer of '%s', which the adapter does not "
                               "change: %s",
                               first, WHOLE);
    return check_warn(t, e, "it changes modules of some %s, but '%s'%s keep%s the model's weights",
                      of_layers ? "layers" : "experts", first, n > 1 ? " and others" : "", n > 1 ? "" : "s");
}

/* ---- modules saved whole ---- */

static bool adapter_has_saved(const hf_adapter *a, const char *part) {
    for (size_t i = 0; i < a->n; i++) {
        const hf_adapted *m = &a->modules[i];
        if ((m->weight || m->own_bias || m->base || m->base_bias) && name_has_module(m->module, part))
            return true;
    }
    return false;
}

static bool check_saved(const hf_modules *t, gq_error *e) {
    const json_t *list = config_of(t, "modules_to_save"), *v;
    bool keeps_tied = config_of(t, "ensure_weight_tying");
    size_t k;
    json_array_foreach(list, k, v) {
        const char *part = hf_json_text(v);
        size_t n = 0;
        for (size_t i = 0; part && i < t->n_rules; i++) {
            const hf_source *s = source_at(t, i);
            char module[HF_MODULE_BYTES];
            if (!s) continue;
            source_module(s, module, sizeof module);
            if (!name_has_module(module, part)) continue;
            n++;
            if (!hf_module_has_change(t, s))
                return hf_adapter_fail(
                    t->adapter, e,
                    "modules_to_save names '%.80s', but the adapter has no tensor to replace '%s': %s", part,
                    s->name, WHOLE);
        }
        if (part && n == 0 && !t->build->projector && !keeps_tied && !adapter_has_saved(t->adapter, part))
            return hf_adapter_fail(
                t->adapter, e,
                "modules_to_save names '%.80s', but no tensor of the adapter belongs to it: %s", part, WHOLE);
    }
    return true;
}

/* ---- parameters ---- */

/* A path may be the last name alone: then it is of all experts. */
static bool source_is_parameter(const hf_source *s, const char *path) {
    const char *leaf = strrchr(path, '.');
    char head[HF_MODULE_BYTES] = "experts";
    if (leaf) snprintf(head, sizeof head, "%.*s", (int)(leaf - path), path);
    return hf_module_ends(s->name, path) || hf_module_is_expert_of(s->name, head, leaf ? leaf + 1 : path);
}

static bool check_parameters(const hf_modules *t, gq_error *e) {
    const json_t *list = config_of(t, "target_parameters"), *v;
    size_t k;
    if (t->build->projector) return true;
    json_array_foreach(list, k, v) {
        const char *path = hf_json_text(v);
        size_t n = 0;
        for (size_t i = 0; path && i < t->n_rules; i++) {
            const hf_source *s = source_at(t, i);
            if (!s || !source_is_parameter(s, path)) continue;
            n++;
            if (!hf_module_has_change(t, s))
                return hf_adapter_fail(
                    t->adapter, e,
                    "target_parameters names '%.80s', but the adapter does not change '%s': %s", path,
                    s->name, WHOLE);
        }
        if (path && n == 0 &&
            !check_warn(t, e, "target_parameters names '%.80s', of which the model has none", path))
            return false;
    }
    return true;
}

/* ---- rows of tokens ---- */

static bool adapter_has_rows(const hf_adapter *a, const char *of) {
    for (size_t i = 0; i < a->n; i++)
        if (a->modules[i].rows && (!of || hf_module_ends(a->modules[i].module, of))) return true;
    return false;
}

/* A head that is the embedding shares its rows, which are saved once. */
static bool check_tokens(const hf_modules *t, gq_error *e) {
    const json_t *v = config_of(t, "trainable_token_indices"), *list;
    const char *of;
    if (t->build->projector || !v) return true;
    bool is_there = adapter_has_rows(t->adapter, NULL);
    if (!json_is_object(v) && is_there) return true;
    json_object_foreach((json_t *)v, of, list) {
        is_there = json_array_size(list) == 0 || adapter_has_rows(t->adapter, of) ||
                   (hf_module_is(t->build, of, ".weight", "output") && !hf_module_find(t, of, ".weight") &&
                    adapter_has_rows(t->adapter, NULL));
        if (!is_there) break;
    }
    return is_there ||
           hf_adapter_fail(t->adapter, e,
                           "trainable_token_indices names tokens, but the adapter has no rows of them "
                           "(trainable_tokens_delta): %s",
                           WHOLE);
}

/* ---- biases ---- */

static bool fail_bias(const hf_modules *t, const hf_source *s, const char *bias, gq_error *e) {
    return hf_adapter_fail(t->adapter, e, "bias is '%s', but the adapter lacks '%s': %s", bias, s->name,
                           WHOLE);
}

/* All biases were trained: of a projector, if any is there. */
static bool check_all_biases(const hf_modules *t, gq_error *e) {
    const hf_source *missing = NULL;
    size_t found = 0;
    for (size_t i = 0; i < t->n_rules; i++) {
        const hf_source *s = source_at(t, i);
        if (!s || !name_ends(s->name, ".bias")) continue;
        if (hf_module_has_change(t, s))
            found++;
        else if (!missing)
            missing = s;
    }
    return !missing || (t->build->projector && found == 0) || fail_bias(t, missing, "all", e);
}

/* Biases of changed modules were trained. PEFT until 2025 did not save them: then the model's are loaded. */
static bool check_own_biases(const hf_modules *t, gq_error *e) {
    const hf_source *missing = NULL;
    size_t found = 0;
    for (size_t i = 0; i < t->adapter->n; i++) {
        const hf_adapted *m = &t->adapter->modules[i];
        const hf_source *s = m->a ? hf_module_find(t, m->module, ".bias") : NULL;
        if (s && (m->own_bias || m->base_bias))
            found++;
        else if (s && !missing)
            missing = s;
    }
    if (!missing) return true;
    return found ? fail_bias(t, missing, "lora_only", e)
                 : check_warn(
                       t, e,
                       "bias is 'lora_only', but the adapter has none: '%s' and others are the model's, as "
                       "peft loads them",
                       missing->name);
}

static bool check_biases(const hf_modules *t, gq_error *e) {
    const json_t *bias = config_of(t, "bias");
    if (hf_json_is(bias, "all")) return check_all_biases(t, e);
    return !hf_json_is(bias, "lora_only") || check_own_biases(t, e);
}

/* ---- values ---- */

/* Reads no further than the first byte that is not 0. *is_zero: there is none. */
static bool read_is_zero(const hf_adapter *a, const hf_stored *s, bool *is_zero, gq_error *e) {
    enum { PIECE = 4096 };
    uint8_t bytes[PIECE];
    *is_zero = s != NULL;
    for (uint64_t at = 0; *is_zero && at < s->bytes; at += PIECE) {
        size_t n = (size_t)min(s->bytes - at, PIECE);
        if (!gq_file_read(&a->folder.files[s->file].file, s->offset + at, bytes, n, e)) return false;
        for (size_t i = 0; i < n && *is_zero; i++) *is_zero = bytes[i] == 0;
    }
    return true;
}

/* A factor of zeros changes nothing: training may have left lora_B so, but never lora_A, nor a matrix that takes the
 * place of the model's; a file that was not loaded to its end has such holes. */
static bool check_zeros(const hf_modules *t, gq_error *e) {
    const hf_stored *first = NULL;
    size_t n = 0;
    for (size_t i = 0; i < t->adapter->n; i++) {
        const hf_adapted *m = &t->adapter->modules[i];
        const hf_stored *matrix = m->weight && m->weight->n_dims > 1 ? m->weight : NULL; /* norms may be 0 */
        const hf_stored *const factors[] = {m->a,         m->b,   m->embed_a, m->embed_b,
                                            m->magnitude, matrix, m->rows};
        for (size_t k = 0; k < sizeof factors / sizeof *factors; k++) {
            bool is_zero;
            if (!read_is_zero(t->adapter, factors[k], &is_zero, e)) return false;
            if (is_zero && n++ == 0) first = factors[k];
        }
    }
    return !n ||
           check_warn(
               t, e,
               "%zu tensor%s only zeros, the first is '%s': such modules keep the model's weights, or have "
               "none where these are magnitudes or the weights themselves; the download may be incomplete",
               n, n == 1 ? " has" : "s have", first->name);
}

/* Tensors that replace those of the model are not scaled. */
static bool check_scale(const hf_modules *t, gq_error *e) {
    const hf_adapter *a = t->adapter;
    const hf_stored *first = NULL;
    for (size_t i = 0; a->given_scale != 1 && i < a->n && !first; i++) {
        const hf_adapted *m = &a->modules[i];
        first = m->weight ? m->weight : m->own_bias ? m->own_bias : m->rows;
    }
    return !first || t->build->projector ||
           check_warn(t, e,
                      "it is merged with a factor of %g, but '%s' takes the place of the model's tensor: "
                      "--lora-scale has no effect on such tensors",
                      a->given_scale, first->name);
}

bool hf_adapter_check_complete(const hf_modules *t, gq_error *e) {
    return check_layers(t, e) && check_named(t, e) && check_target_modules(t, e) && check_each_layer(t, e) &&
           check_saved(t, e) && check_parameters(t, e) && check_tokens(t, e) && check_biases(t, e) &&
           check_zeros(t, e) && check_scale(t, e);
}
