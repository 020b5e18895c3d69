/* Reads an adapter's folder. The config's keys are in lists: what is used, what has no part in merging, and
 * what would change the weights in a way that a product of two matrices cannot say, which is refused. An
 * tensor's use is the end of its name.
 */
#include "hf/adapter/adapter.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/fail.h"
#include "base/memory.h"

static const char CONFIG[] = "adapter_config.json", WEIGHTS[] = "adapter_model.safetensors";
static const char INSTEAD[] = "merge it with peft (merge_and_unload), and convert the folder that it saves";

/* ---- the config ---- */

/* Keys that are read; those that were for training and do nothing to what is merged (peft, too, goes by a module's
 * class for fan_in_fan_out); and those that are refused unless they say nothing: null, false, 0 or empty. */
static const char *const *const keys_used =
    NAMES("alpha_pattern", "base_model_name_or_path", "bias", "ensure_weight_tying", "exclude_modules",
          "init_lora_weights", "layers_pattern", "layers_to_transform", "lora_B_layout", "lora_alpha",
          "lora_bias", "modules_to_save", "peft_type", "r", "rank_pattern", "target_modules",
          "target_parameters", "trainable_token_indices", "use_dora", "use_rslora");
static const char *const *const keys_without_effect =
    NAMES("auto_mapping", "corda_config", "eva_config", "fan_in_fan_out", "inference_mode", "loftq_config",
          "lora_dropout", "lora_ga_config", "megatron_config", "megatron_core", "peft_version",
          "qalora_group_size", "revision", "runtime_config", "task_type", "velora_config");
static const char *const *const keys_refused =
    NAMES("alora_invocation_tokens", "arrow_config", "kasa_config", "layer_replication", "monteclora_config",
          "use_bdlora", "use_qalora");

static bool value_says_nothing(const json_t *v) {
    return !v || json_is_null(v) || json_is_false(v) || (json_is_array(v) && json_array_size(v) == 0) ||
           (json_is_object(v) && json_object_size(v) == 0) ||
           (json_is_number(v) && json_number_value(v) == 0);
}

/* Whether a key that is not known is named as those are that change what the tensors mean. */
static bool key_may_change(const char *key) {
    return name_behind(key, "use_") || name_behind(key, "lora_") || name_ends(key, "_layout") ||
           name_ends(key, "_pattern");
}

static bool config_check_keys(hf_adapter *a, gq_error *e) {
    const char *key;
    json_t *value;
    json_object_foreach(a->config, key, value) {
        if (value_says_nothing(value) || name_is_one(key, keys_used) || name_is_one(key, keys_without_effect))
            continue;
        if (name_is_one(key, keys_refused))
            return hf_adapter_fail(a, e, "%s is set, which gquant cannot merge: %s", key, INSTEAD);
        if (key_may_change(key))
            return hf_adapter_fail(a, e, "unknown key %.60s, which may change what the tensors mean: %s", key,
                                   INSTEAD);
        if (!hf_folder_warn(&a->folder, CONFIG, e, "unknown key %.60s; it is left out", key)) return false;
    }
    return true;
}

/* Ways to begin training that take a part out of the model's own weights first. */
static bool config_check_beginning(hf_adapter *a, gq_error *e) {
    static const char *const changing[] = {"pissa", "olora", "corda", "loftq", "lora_ga", NULL};
    const char *begun = hf_json_text(json_object_get(a->config, "init_lora_weights"));
    for (size_t i = 0; begun && changing[i]; i++)
        if (name_behind(begun, changing[i]))
            return hf_adapter_fail(
                a, e,
                "init_lora_weights is '%s', which changed the base model's weights before training: save the "
                "adapter with path_initial_model_for_weight_conversion, or %s",
                begun, INSTEAD);
    return !begun || name_is_one(begun, NAMES("gaussian", "eva", "orthogonal")) ||
           hf_folder_warn(&a->folder, CONFIG, e,
                          "init_lora_weights is '%.40s', which is not known: if it changed the model's own "
                          "weights before training, the result is wrong",
                          begun);
}

static bool config_number(const hf_adapter *a, const char *key, double *value, gq_error *e) {
    const json_t *v = json_object_get(a->config, key);
    *value = json_is_number(v) ? json_number_value(v) : NAN;
    return isfinite(*value) || hf_adapter_fail(a, e, "%s is not a number", key);
}

static bool config_bool(const hf_adapter *a, const char *key, bool *value, gq_error *e) {
    const json_t *v = json_object_get(a->config, key);
    *value = json_is_true(v);
    return !v || json_is_boolean(v) || json_is_null(v) || hf_adapter_fail(a, e, "%s is not a boolean", key);
}

/* Says how lora_B of experts in one tensor is laid out. PEFT has the expert as the faster index, and no key;
 * unsloth has had both ways, and writes which since there are two. */
static bool config_read_layout(hf_adapter *a, gq_error *e) {
    const json_t *v = json_object_get(a->config, "lora_B_layout");
    const char *layout = hf_json_text(v), *base = hf_adapter_base(a);
    a->by_expert = layout && strcmp(layout, "grouped_by_expert") == 0;
    if (v && !json_is_null(v) && !a->by_expert && !(layout && strcmp(layout, "rank_major") == 0))
        return hf_adapter_fail(a, e, "lora_B_layout is '%.40s', expected rank_major or grouped_by_expert",
                               layout ? layout : "no text");
    return layout || !base || !strstr(base, "unsloth/") ||
           json_array_size(json_object_get(a->config, "target_parameters")) == 0 ||
           hf_folder_warn(
               &a->folder, CONFIG, e,
               "no lora_B_layout: experts are read as peft saves them (rank_major), but unsloth saved them "
               "grouped_by_expert until September 2026: if unsloth saved this adapter, set the key");
}

static bool config_check_bias(const hf_adapter *a, gq_error *e) {
    const json_t *v = json_object_get(a->config, "bias");
    const char *bias = hf_json_text(v);
    return !v || json_is_null(v) || (bias && name_is_one(bias, NAMES("none", "all", "lora_only"))) ||
           hf_adapter_fail(a, e, "bias is '%.40s', expected none, all or lora_only", bias ? bias : "no text");
}

/* Fails for a folder whose config does not say what it is. */
static bool fail_no_type(const hf_adapter *a, gq_error *e) {
    if (json_object_get(a->config, "fine_tune_type") || json_object_get(a->config, "lora_parameters") ||
        hf_folder_has(&a->folder, "adapters.safetensors"))
        return hf_adapter_fail(
            a, e,
            "no peft_type: the adapter was saved by MLX, whose tensors differ; merge it with mlx_lm.fuse "
            "(with --dequantize if the model is quantized), and convert the folder that it saves");
    return hf_adapter_fail(a, e, "no peft_type, expected \"LORA\"");
}

static bool adapter_read_config(hf_adapter *a, gq_error *e) {
    if (!(a->file = hf_folder_path(&a->folder, CONFIG, e)) ||
        !hf_folder_json(&a->folder, CONFIG, &a->config, e))
        return false;
    if (!a->config)
        return gq_fail(e, "%s is not an adapter: expected a folder with %s and %s, as peft saves it",
                       a->folder.path, CONFIG, WEIGHTS);
    const char *type = hf_json_text(json_object_get(a->config, "peft_type"));
    if (!type) return fail_no_type(a, e);
    if (strcmp(type, "LORA") != 0)
        return hf_adapter_fail(a, e, "peft_type is '%.40s', expected LORA: %s", type, INSTEAD);
    if (!config_number(a, "r", &a->rank, e) || !config_number(a, "lora_alpha", &a->alpha, e)) return false;
    if (a->rank < 1) return hf_adapter_fail(a, e, "r is %g, expected at least 1", a->rank);
    return config_bool(a, "use_rslora", &a->rank_stable, e) && config_bool(a, "use_dora", &a->has_dora, e) &&
           config_bool(a, "lora_bias", &a->has_bias, e) && config_check_bias(a, e) &&
           config_check_beginning(a, e) && config_check_keys(a, e) && config_read_layout(a, e);
}

const char *hf_adapter_base(const hf_adapter *a) {
    return hf_json_text(json_object_get(a->config, "base_model_name_or_path"));
}

/* ---- patterns of modules ---- */

enum {
    NAME_BYTES = 512,
    PATTERN_BYTES = 1024,
};

bool hf_module_ends(const char *module, const char *end) {
    size_t n = strlen(module), m = strlen(end);
    return name_ends(module, end) && (n == m || (n > m && module[n - m - 1] == '.'));
}

/* Configs name each module of hundreds: an expression whose only signs are dots, which stand for any byte, is
 * compared without being compiled. */
static bool dots_fit(const char *pattern, const char *module) {
    size_t n = strlen(module), m = strlen(pattern);
    if (n < m || (n > m && module[n - m - 1] != '.')) return false;
    for (module += n - m; *pattern && (*pattern == '.' || *pattern == *module);) pattern++, module++;
    return *pattern == 0;
}

/* Whether a pattern, a regular expression, fits a module's name: the whole of it, or what follows a dot. One
 * that cannot be run within little time fails. */
static bool pattern_fits(const char *pattern, const char *module, bool *fits, gq_error *e) {
    char whole[PATTERN_BYTES];
    *fits = dots_fit(pattern, module);
    if (*fits || !strpbrk(pattern, "\\^$*+?()[]{}|")) return true;
    if (snprintf(whole, sizeof whole, "(.*\\.)?(%s)$", pattern) >= (int)sizeof whole)
        return gq_fail(e, "the pattern '%.80s' is longer than %d bytes", pattern, PATTERN_BYTES);
    return hf_expression_fits(pattern, whole, module, fits, e);
}

/* Finds the value of the first pattern that fits a module; `missing` where none does. */
static bool config_pattern(const hf_adapter *a, const char *key, const char *module, double missing,
                           double *value, gq_error *e) {
    json_t *patterns = json_object_get(a->config, key), *v;
    const char *pattern;
    *value = missing;
    if (patterns && !json_is_null(patterns) && !json_is_object(patterns))
        return hf_adapter_fail(a, e, "%s is not an object", key);
    json_object_foreach(patterns, pattern, v) {
        bool fits;
        if (!pattern_fits(pattern, module, &fits, e))
            return gq_fail_again(e, e, "%s: %s: %s", a->file, key, gq_error_text(e));
        if (!fits) continue;
        *value = json_is_number(v) ? json_number_value(v) : NAN;
        return isfinite(*value) || hf_adapter_fail(a, e, "%s of '%.80s' is not a number", key, pattern);
    }
    return true;
}

bool hf_adapter_scale(const hf_adapter *a, const char *module, double *rank, double *scale, gq_error *e) {
    double alpha;
    if (!config_pattern(a, "rank_pattern", module, a->rank, rank, e) ||
        !config_pattern(a, "alpha_pattern", module, a->alpha, &alpha, e))
        return false;
    if (!(*rank >= 1)) return hf_adapter_fail(a, e, "rank_pattern: a rank of %g, expected at least 1", *rank);
    *scale = alpha / (a->rank_stable ? sqrt(*rank) : *rank) * a->given_scale;
    if (isfinite((float)*scale) && (float)*scale != 0) return true;
    return hf_adapter_fail(a, e,
                           "%s is %g: the change of '%s' is multiplied by %g, expected a number other than 0",
                           alpha == a->alpha ? "lora_alpha" : "alpha_pattern", alpha, module, *scale);
}

/* Whether an expression is the whole of a name. */
static bool expression_is(const char *expression, const char *module) {
    char *whole = NULL;
    bool fits = false;
    gq_error unused;
    if (asprintf(&whole, "(?:%s)$", expression) < 0) return false;
    bool ok = hf_expression_fits(expression, whole, module, &fits, &unused);
    free(whole);
    return ok && fits;
}

bool hf_adapter_names(const hf_adapter *a, const char *key, const char *module) {
    const json_t *v = json_object_get(a->config, key), *item;
    const char *text = hf_json_text(v);
    size_t i;
    if (text && strcmp(text, "all-linear") == 0) return true;
    if (text) return expression_is(text, module);
    json_array_foreach(v, i, item) {
        const char *end = hf_json_text(item);
        if (end && hf_module_ends(module, end)) return true;
    }
    return false;
}

/* ---- tensors ---- */

/* Kinds of tensors by the ends of their names. Rows are tried in order. */
static const struct {
    const char *end;
    size_t member;
} uses[] = {
    {".lora_A.weight", offsetof(hf_adapted, a)},
    {".lora_B.weight", offsetof(hf_adapted, b)},
    {".lora_B.bias", offsetof(hf_adapted, bias)},
    {".lora_embedding_A", offsetof(hf_adapted, embed_a)},
    {".lora_embedding_B", offsetof(hf_adapted, embed_b)},
    {".lora_magnitude_vector", offsetof(hf_adapted, magnitude)},
    {".lora_magnitude_vector.weight", offsetof(hf_adapted, magnitude)},
    {".token_adapter.trainable_tokens_delta", offsetof(hf_adapted, rows)},
    {".trainable_tokens_delta", offsetof(hf_adapted, rows)},
    {".base_layer.weight", offsetof(hf_adapted, base)},
    {".base_layer.bias", offsetof(hf_adapted, base_bias)},
    {".original_module.weight", offsetof(hf_adapted, original)},
    {".original_module.bias", offsetof(hf_adapted, original_bias)},
    {".weight", offsetof(hf_adapted, weight)},
    {".bias", offsetof(hf_adapted, own_bias)},
};
enum { USES = sizeof uses / sizeof *uses };

/* A tensor with the module that it is for. */
typedef struct adapter_array {
    char *module;
    size_t use;
    const hf_stored *stored;
} adapter_array;

static int array_compare(const void *x, const void *y) {
    return strcmp(((const adapter_array *)x)->module, ((const adapter_array *)y)->module);
}

/* Parts of names that PEFT uses in training and removes when it saves: its wrapper of whole modules, and the
 * adapter's name, by default this one. */
static const arch_rename names_in_training[] = {{".modules_to_save.", ".", ANYWHERE},
                                                {".default.", ".", ANYWHERE},
                                                {".default", "", AT_END},
                                                {.from = NULL}};

static bool fail_name(const hf_adapter *a, const hf_stored *t, gq_error *e) {
    if (name_ends(t->name, ".lora_a") || name_ends(t->name, ".lora_b"))
        return hf_list_fail(&a->list, t, e,
                            "its name is MLX's, which saves transposed matrices: merge the adapter with "
                            "mlx_lm.fuse, and convert the folder that it saves");
    return hf_list_fail(&a->list, t, e, "unknown tensor name, expected one such as .lora_A.weight: %s",
                        INSTEAD);
}

static bool array_read_name(const hf_adapter *a, const hf_stored *t, adapter_array *to, gq_error *e) {
    const char *behind = name_behind(t->name, "base_model.model.");
    char name[NAME_BYTES];
    if (snprintf(name, sizeof name, "%s", behind ? behind : t->name) >= (int)sizeof name ||
        !hf_names_replace(name, sizeof name, names_in_training))
        return hf_list_fail(&a->list, t, e, "its name is longer than %d bytes", NAME_BYTES);
    for (size_t i = 0; i < USES; i++) {
        if (!name_ends(name, uses[i].end) || strlen(name) == strlen(uses[i].end)) continue;
        name[strlen(name) - strlen(uses[i].end)] = 0;
        if (strstr(name, ".lora_")) break; /* .lora_A.another.weight */
        *to = (adapter_array){strdup(name), i, t};
        return to->module || gq_fail_memory(e, strlen(name));
    }
    return fail_name(a, t, e);
}

/* Warns of names as they are while a model is trained: PEFT itself does not load these. */
static bool adapter_warn_names(hf_adapter *a, gq_error *e) {
    for (size_t i = 0; i < a->list.n; i++) {
        const char *name = a->list.stored[i].name;
        if (strstr(name, ".default.") || name_ends(name, ".default"))
            return hf_folder_warn(&a->folder, "", e,
                                  "names of its tensors, such as '%s', contain the adapter's name, "
                                  "'default', which peft does not save: it is removed",
                                  name);
    }
    return true;
}

/* Puts tensors of one module together; they are sorted. */
static bool arrays_gather(hf_adapter *a, adapter_array *arrays, size_t n, gq_error *e) {
    for (size_t i = 0; i < n; i++) {
        hf_adapted *last = a->n ? &a->modules[a->n - 1] : NULL;
        if (!last || strcmp(last->module, arrays[i].module) != 0) {
            if (!memory_grow(&a->modules, &a->capacity, a->n + 1, sizeof *a->modules, e)) return false;
            last = &a->modules[a->n++];
            *last = (hf_adapted){.module = arrays[i].module};
            arrays[i].module = NULL;
        }
        const hf_stored **member = (const hf_stored **)(void *)((char *)last + uses[arrays[i].use].member);
        if (*member)
            return hf_list_fail(&a->list, arrays[i].stored, e, "'%s' is the same tensor of this module",
                                (*member)->name);
        *member = arrays[i].stored;
    }
    return true;
}

/* Whether matrices come in pairs, and nothing is there that the others give no meaning. */
static bool adapted_check(const hf_adapter *a, const hf_adapted *m, gq_error *e) {
    const hf_stored *pairs[2][2] = {{m->a, m->b}, {m->embed_a, m->embed_b}};
    static const char *const names[2][2] = {{"lora_A", "lora_B"}, {"lora_embedding_A", "lora_embedding_B"}};
    const hf_stored *alone = m->bias ? m->bias : m->magnitude;
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 2; k++)
            if (pairs[i][k] && !pairs[i][1 - k])
                return hf_list_fail(&a->list, pairs[i][k], e,
                                    "this module has no %s: download the whole adapter", names[i][1 - k]);
    if (alone && !m->a && !m->embed_a)
        return hf_list_fail(&a->list, alone, e, "its module has no lora_A: download the whole adapter");
    if (a->has_dora && !m->magnitude && (m->a || m->embed_a))
        return hf_list_fail(&a->list, m->a ? m->a : m->embed_a, e,
                            "use_dora is true, but there is no lora_magnitude_vector of this module");
    if (m->base && !m->a && !m->embed_a)
        return hf_list_fail(
            &a->list, m->base, e,
            "a tensor of the base layer, but its module has no lora_A: download the whole adapter");
    if (a->has_bias && m->a && !m->bias)
        return hf_list_fail(
            &a->list, m->a, e,
            "lora_bias is true, but this module has no lora_B.bias: download the whole adapter");
    if (!a->has_bias && m->bias)
        return hf_list_fail(&a->list, m->bias, e, "a bias of lora_B, but lora_bias is not true");
    if (!a->has_dora && m->magnitude)
        return hf_list_fail(&a->list, m->magnitude, e, "a magnitude of DoRA, but use_dora is not true");
    return true;
}

static bool array_check(const hf_adapter *a, const hf_stored *t, gq_error *e) {
    if (t->dtype > HF_BF16)
        return hf_list_fail(&a->list, t, e, "elements of type %s, expected F32, F16 or BF16",
                            hf_dtype_name(t->dtype));
    return t->n > 0 ||
           hf_list_fail(&a->list, t, e, "no elements: it was saved before its shards were gathered");
}

static bool adapter_sort(hf_adapter *a, gq_error *e) {
    size_t n = a->list.n, read = 0;
    adapter_array *arrays = calloc(n + 1, sizeof *arrays);
    bool ok = arrays || gq_fail_memory(e, n * sizeof *arrays);
    if (ok && n == 0) ok = gq_fail(e, "%s/%s has no tensors", a->folder.path, WEIGHTS);
    for (; ok && read < n; read++)
        ok = array_check(a, &a->list.stored[read], e) &&
             array_read_name(a, &a->list.stored[read], &arrays[read], e);
    if (ok) qsort(arrays, n, sizeof *arrays, array_compare);
    ok = ok && arrays_gather(a, arrays, n, e);
    for (size_t i = 0; ok && i < a->n; i++) ok = adapted_check(a, &a->modules[i], e);
    for (size_t i = 0; arrays && i < n; i++) free(arrays[i].module);
    free(arrays);
    return ok && adapter_warn_names(a, e);
}

const hf_stored *hf_adapted_lora(const hf_adapted *m) { return m->a ? m->a : m->embed_a; }

static int module_compare(const void *name, const void *m) {
    return strcmp(name, ((const hf_adapted *)m)->module);
}

const hf_adapted *hf_adapter_find(const hf_adapter *a, const char *module) {
    return a->n ? bsearch(module, a->modules, a->n, sizeof *a->modules, module_compare) : NULL;
}

/* ---- the whole ---- */

static bool adapter_read_arrays(hf_adapter *a, gq_error *e) {
    if (!hf_folder_has(&a->folder, WEIGHTS)) {
        if (hf_folder_has(&a->folder, "adapter_model.bin"))
            return gq_fail(e,
                           "%s has an adapter_model.bin, a pickle that can run code when it is loaded: load "
                           "it with peft and save it as safetensors",
                           a->folder.path);
        return gq_fail(e, "%s has no %s; expected the folder of a LoRA adapter", a->folder.path, WEIGHTS);
    }
    return hf_list_read_file(&a->list, &a->folder, WEIGHTS, e) && adapter_sort(a, e);
}

bool hf_adapter_open(hf_adapter *a, const gq_adapter *given, gq_error *e) {
    *a = (hf_adapter){.given_scale = given->scale != 0 ? given->scale : 1};
    if (!isfinite(a->given_scale)) return gq_fail_usage(e, "%s: its scale is not finite", given->path);
    return hf_folder_open(&a->folder, given->path, e) && adapter_read_config(a, e) &&
           adapter_read_arrays(a, e);
}

void hf_adapter_close(hf_adapter *a) {
    for (size_t i = 0; i < a->n; i++) free((char *)a->modules[i].module);
    free(a->modules), free(a->file);
    json_decref(a->config);
    hf_list_free(&a->list);
    hf_folder_close(&a->folder);
    *a = (hf_adapter){.file = NULL};
}

bool hf_adapter_has_vocabulary(const hf_adapter *a) {
    static const char *const files[] = {"tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (hf_folder_has(&a->folder, files[i])) return true;
    return false;
}

/* ---- what is in it ---- */

bool hf_adapter_fold(const hf_adapter *a, uint32_t *content, gq_error *e) {
    *content = checksum_add(*content, &a->given_scale, sizeof a->given_scale);
    hf_folder_fold(&a->folder, content);
    return hf_list_fold(&a->list, content, e);
}
