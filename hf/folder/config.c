#include "hf/folder/folder.h"

#include <math.h>
#include <string.h>

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

const json_t *hf_config_find(const hf_config *c, const char *names) {
    for (const char *end; *names; names = *end ? end + 1 : end) {
        end = strchrnul(names, '|');
        const json_t *v = config_follow(c->merged, names, (size_t)(end - names));
        if (v) return v;
    }
    return NULL;
}

const char *hf_config_name(const hf_config *c, const char *names, char room[HF_CONFIG_NAME]) {
    for (const char *at = names, *end; *at; at = *end ? end + 1 : end) {
        end = strchrnul(at, '|');
        if (!config_follow(c->merged, at, (size_t)(end - at))) continue;
        snprintf(room, HF_CONFIG_NAME, "%.*s", (int)(end - at), at);
        return room;
    }
    return names;
}

bool hf_config_has(const hf_config *c, const char *names) { return hf_config_find(c, names) != NULL; }

const json_t *hf_config_get(const hf_config *c, const char *names) {
    const json_t *v = hf_config_find(c, names);
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
    char room[HF_CONFIG_NAME];
    return hf_config_fail(c, e, "%s: %s, expected %s", hf_config_name(c, what, room), value_kind(v),
                          expected);
}

bool hf_value_u32(const hf_config *c, const json_t *v, const char *what, uint32_t *value, gq_error *e) {
    char room[HF_CONFIG_NAME];
    if (!json_is_integer(v)) return config_fail_kind(c, v, what, "an integer", e);
    json_int_t n = json_integer_value(v);
    if (n < 0 || n > UINT32_MAX)
        return hf_config_fail(c, e, "%s is %lld, expected 0 to 4294967295", hf_config_name(c, what, room),
                              (long long)n);
    *value = (uint32_t)n;
    return true;
}

bool hf_value_float(const hf_config *c, const json_t *v, const char *what, double *value, gq_error *e) {
    char room[HF_CONFIG_NAME];
    if (!json_is_number(v)) return config_fail_kind(c, v, what, "a number", e);
    *value = json_number_value(v);
    return isfinite((float)*value) || hf_config_fail(c, e, "%s is %g, expected a number of 32 bits",
                                                     hf_config_name(c, what, room), *value);
}

bool hf_config_u32(const hf_config *c, const char *names, uint32_t *value, gq_error *e) {
    return hf_value_u32(c, hf_config_find(c, names), names, value, e);
}

bool hf_config_float(const hf_config *c, const char *names, double *value, gq_error *e) {
    return hf_value_float(c, hf_config_find(c, names), names, value, e);
}

bool hf_config_bool(const hf_config *c, const char *names, bool *value, gq_error *e) {
    const json_t *v = hf_config_find(c, names);
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

bool hf_config_sizes(const hf_config *c, hf_sizes *s, gq_error *e) {
    *s = (hf_sizes){0};
    if (!hf_config_u32_or(c, "hidden_size|n_embd|dim|d_model|n_embed", 0, &s->width, e) ||
        !hf_config_u32_or(c, "num_attention_heads|n_head|n_heads", 0, &s->heads, e) ||
        !hf_config_u32_or(c, "num_key_value_heads|n_kv_heads", s->heads, &s->kv_heads, e) ||
        !hf_config_u32_or(c, "head_dim", s->heads ? s->width / s->heads : 0, &s->head_width, e))
        return false;
    return true;
}
