/* Reads config.json. Models that also see or hear keep the text model's numbers in an object of their own,
 * which several names are in use for; its values are laid over those of the root, so that the rules look in
 * one place. The parameters of the rotation have changed their place twice over the years: they are brought
 * into the newest form once, here.
 */
#include "hf/config.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "hf/architectures.h"

enum { LAYERS_MOST = 4096 }; /* the largest published models have some 130 */

bool hf_config_fail(const hf_config *c, gq_error *e, const char *format, ...) {
    char text[900];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return gq_fail(e, "%s: %s", c->file, text);
}

/* ---- values ---- */

/* Follows a name with dots into objects; the length of the name is given. NULL: no such key. */
static const json_t *config_follow(const json_t *v, const char *name, size_t n) {
    while (v) {
        size_t part = 0;
        while (part < n && name[part] != '.') part++;
        v = json_object_getn(v, name, part);
        if (part == n) return v;
        name += part + 1, n -= part + 1;
    }
    return NULL;
}

static const json_t *config_find(const hf_config *c, const char *names) {
    for (const char *end; *names; names = *end ? end + 1 : end) {
        end = strchrnul(names, '|');
        const json_t *v = config_follow(c->merged, names, (size_t)(end - names));
        if (v) return v;
    }
    return NULL;
}

bool hf_config_has(const hf_config *c, const char *names) { return config_find(c, names) != NULL; }

const json_t *hf_config_get(const hf_config *c, const char *names) {
    const json_t *v = config_find(c, names);
    return v && !json_is_null(v) ? v : NULL;
}

const char *hf_config_text(const hf_config *c, const char *names) {
    return json_string_value(hf_config_get(c, names));
}

/* Returns what a value is, for messages. */
static const char *value_kind(const json_t *v) {
    static const char *const kinds[] = {
        "an object", "an array", "a string", "an integer", "a number with a fraction",
        "true",      "false",    "null"};
    return v ? kinds[json_typeof(v)] : "no such key";
}

static bool config_fail_kind(const hf_config *c, const json_t *v, const char *what, const char *expected,
                             gq_error *e) {
    return hf_config_fail(c, e, "%s: %s, expected %s", what, value_kind(v), expected);
}

bool hf_value_u32(const hf_config *c, const json_t *v, const char *what, uint32_t *value, gq_error *e) {
    if (!json_is_integer(v)) return config_fail_kind(c, v, what, "an integer", e);
    json_int_t n = json_integer_value(v);
    if (n < 0 || n > UINT32_MAX)
        return hf_config_fail(c, e, "%s is %lld, expected 0 to 4294967295", what, (long long)n);
    *value = (uint32_t)n;
    return true;
}

bool hf_value_float(const hf_config *c, const json_t *v, const char *what, double *value, gq_error *e) {
    if (!json_is_number(v)) return config_fail_kind(c, v, what, "a number", e);
    *value = json_number_value(v);
    return isfinite((float)*value) ||
           hf_config_fail(c, e, "%s is %g, expected a number of 32 bits", what, *value);
}

bool hf_config_u32(const hf_config *c, const char *names, uint32_t *value, gq_error *e) {
    return hf_value_u32(c, config_find(c, names), names, value, e);
}

bool hf_config_float(const hf_config *c, const char *names, double *value, gq_error *e) {
    return hf_value_float(c, config_find(c, names), names, value, e);
}

bool hf_config_bool(const hf_config *c, const char *names, bool *value, gq_error *e) {
    const json_t *v = config_find(c, names);
    if (!json_is_boolean(v)) return config_fail_kind(c, v, names, "true or false", e);
    *value = json_is_true(v);
    return true;
}

bool hf_config_u32_or(const hf_config *c, const char *names, uint32_t missing, uint32_t *value, gq_error *e) {
    *value = missing;
    return !hf_config_get(c, names) || hf_config_u32(c, names, value, e);
}

bool hf_config_float_or(const hf_config *c, const char *names, double missing, double *value, gq_error *e) {
    *value = missing;
    return !hf_config_get(c, names) || hf_config_float(c, names, value, e);
}

bool hf_config_bool_or(const hf_config *c, const char *names, bool missing, bool *value, gq_error *e) {
    *value = missing;
    return !hf_config_get(c, names) || hf_config_bool(c, names, value, e);
}

/* ---- the text model's object ---- */

static bool config_merge(hf_config *c, gq_error *e) {
    static const char *const parts[] = {"llm_config", "lm_config", "language_config"};
    json_t *text = NULL;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (json_object_get(c->stored, parts[i])) text = json_object_get(c->stored, parts[i]);
    json_t *thinker = json_object_get(json_object_get(c->stored, "thinker_config"), "text_config");
    if (thinker) text = thinker;
    if (text && json_object_set(c->stored, "text_config", text) != 0) return gq_fail_memory(e, 0);
    c->merged = json_copy(c->stored);
    text = json_object_get(c->stored, "text_config");
    if (!c->merged || (json_is_object(text) && json_object_update(c->merged, text) != 0))
        return gq_fail_memory(e, 0);
    return true;
}

/* ---- the rotation ---- */

/* Sets rope[key] to the value of the first of the names that the config has, unless it is there already. */
static bool rope_complete(hf_config *c, json_t *rope, const char *key, const char *names) {
    const json_t *v = config_find(c, names);
    return !v || json_object_get(rope, key) || json_object_set(rope, key, (json_t *)v) == 0;
}

static bool config_normalize_rope(hf_config *c, gq_error *e) {
    const json_t *given =
        config_find(c, hf_config_has(c, "rope_parameters") ? "rope_parameters" : "rope_scaling");
    json_t *rope = json_is_object(given) ? json_copy((json_t *)given) : json_object();
    const json_t *local = config_find(
        c, "local_rope_theta|rope_local_theta|rope_theta_local|swa_rope_theta|rope_local_base_freq");
    bool ok = rope != NULL;
    if (ok && !json_object_get(rope, "full_attention") && !json_object_get(rope, "sliding_attention")) {
        json_t *type = json_object_get(rope, "type");
        if (local)
            ok = json_object_set_new(rope, "sliding_attention", json_pack("{s:O}", "rope_theta", local)) == 0;
        ok = ok &&
             (json_object_get(rope, "rope_type") || !type || json_object_set(rope, "rope_type", type) == 0) &&
             rope_complete(
                 c, rope, "rope_theta",
                 "global_rope_theta|rope_global_theta|rope_theta_global|rope_theta|rotary_emb_base") &&
             rope_complete(c, rope, "partial_rotary_factor", "partial_rotary_factor|rope_pct|rope_percent") &&
             rope_complete(c, rope, "original_max_position_embeddings", "original_max_position_embeddings");
    }
    c->rope = rope;
    return ok || gq_fail_memory(e, 0);
}

const json_t *hf_config_rope_full(const hf_config *c) {
    const json_t *full = json_object_get(c->rope, "full_attention");
    return full ? full : c->rope;
}

/* ---- the whole ---- */

static bool config_count_layers(hf_config *c, gq_error *e) {
    uint32_t n = 0;
    if (!hf_config_u32(c, "n_layers|num_hidden_layers|n_layer|num_layers", &n, e)) return false;
    if (n > LAYERS_MOST) return hf_config_fail(c, e, "%u layers, expected at most %d", n, LAYERS_MOST);
    c->layers = n;
    return true;
}

bool hf_config_read(hf_config *c, hf_folder *f, gq_error *e) {
    *c = (hf_config){.file = hf_folder_path(f, "config.json", e)};
    bool ok = c->file && hf_folder_json(f, "config.json", &c->stored, e);
    if (ok && !c->stored)
        ok = gq_fail(e, "%s has no config.json: expected a model's folder from Hugging Face", f->path);
    ok = ok && config_merge(c, e) && config_normalize_rope(c, e) && config_count_layers(c, e) &&
         hf_architecture_find(c, e);
    if (!ok) hf_config_free(c);
    return ok;
}

void hf_config_free(hf_config *c) {
    json_decref(c->rope), json_decref(c->merged), json_decref(c->stored);
    free(c->file);
    *c = (hf_config){.file = NULL};
}

bool hf_config_sizes(const hf_config *c, hf_sizes *s, gq_error *e) {
    *s = (hf_sizes){0};
    if (!hf_config_u32_or(c, "hidden_size|n_embd|dim|d_model|n_embed", 0, &s->width, e) ||
        !hf_config_u32_or(c, "num_attention_heads|n_head|n_heads", 0, &s->heads, e) ||
        !hf_config_u32_or(c, "num_key_value_heads|n_kv_heads", s->heads, &s->kv_heads, e) ||
        !hf_config_u32_or(c, "head_dim", s->heads ? s->width / s->heads : 0, &s->head_width, e))
        return false;
    return true;
}
