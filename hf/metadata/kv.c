/* The architecture's own metadata. Lists in arch/ say for each architecture which metadata it has and under
 * which names models keep their values; the functions here are the kinds of items that any list may have.
 *
 * All integers are checked to be of 32 bits when they are read, so sums and products of two fit 64 bits. */
#include "hf/metadata/metadata.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- values ---- */

/* Finds one of several names; its length is given. NULL: no such key; null is a value. */
static const json_t *value_find(const hf_config *c, const char *name, size_t n) {
    char one[256];
    bool full = strncmp(name, "full.", 5) == 0;
    if (strncmp(name, "local.", 6) == 0)
        return json_object_getn(json_object_get(c->rope, "sliding_attention"), name + 6, n - 6);
    if (full || strncmp(name, "rope.", 5) == 0)
        return json_object_getn(full ? hf_config_rope_full(c) : c->rope, name + 5, n - 5);
    snprintf(one, sizeof one, "%.*s", (int)n, name);
    return hf_config_find(c, one);
}

const json_t *arch_value(const hf_config *c, const char *names) {
    const json_t *v = NULL;
    for (const char *end = names; !v && *names; names = *end ? end + 1 : end) {
        end = strchrnul(names, '|');
        v = value_find(c, names, (size_t)(end - names));
    }
    return v && !json_is_null(v) ? v : NULL;
}

/* Decides what a missing value means: fills *value, sets *missing, or fails. */
static bool arch_missing(const arch_item *i, const hf_config *c, const char *names, double *value,
                         bool *missing, gq_error *e) {
    *missing = i->need == IF || i->need == IF_NOT_ZERO;
    *value = i->value;
    return i->need != NEEDED ||
           hf_config_fail(c, e, "%s is missing: %s%s is made of it", names,
                          i->key && *i->key == '.' ? c->arch : "", i->key ? i->key : "the metadata");
}

static bool arch_zero_is_missing(const arch_item *i) {
    return i->need == IF_NOT_ZERO || i->need == OR_NOT_ZERO;
}

bool arch_u32(const arch_item *i, const hf_config *c, const char *names, uint32_t *value, bool *missing,
              gq_error *e) {
    const json_t *v = names ? arch_value(c, names) : NULL;
    double other = i->value;
    *missing = false;
    if (v && !hf_value_u32(c, v, names, value, e)) return false;
    if (names && (!v || (*value == 0 && arch_zero_is_missing(i)))) {
        if (!arch_missing(i, c, names, &other, missing, e)) return false;
        v = NULL;
    }
    if (!v) *value = (uint32_t)other;
    return true;
}

bool arch_float(const arch_item *i, const hf_config *c, const char *names, double *value, bool *missing,
                gq_error *e) {
    const json_t *v = names ? arch_value(c, names) : NULL;
    *missing = false;
    if (!names) *value = i->value;
    if (v && !hf_value_float(c, v, names, value, e)) return false;
    return !names || (v && (*value != 0 || !arch_zero_is_missing(i))) ||
           arch_missing(i, c, names, value, missing, e);
}

bool arch_set_u64(const arch_item *i, const hf_config *c, hf_metadata *p, uint64_t value, gq_error *e) {
    if (value > UINT32_MAX)
        return hf_config_fail(c, e, "%s comes to %llu, expected at most 4294967295", i->key, LLU(value));
    return hf_metadata_u32(p, i->key, (uint32_t)value, e);
}

bool arch_add_number(const hf_config *c, hf_metadata *p, uint64_t value, gq_error *e) {
    if (value > INT32_MAX)
        return hf_config_fail(c, e, "%llu for a layer, expected at most 2147483647", LLU(value));
    return hf_metadata_add_i32(p, (int32_t)value, e);
}

bool arch_check_same(const hf_config *c, const char *name, const char *other, gq_error *e) {
    uint32_t value, expected;
    if (!hf_config_u32(c, name, &value, e) || !hf_config_u32(c, other, &expected, e)) return false;
    return value == expected ||
           hf_config_fail(c, e, "%s is %u, expected %u as %s", name, value, expected, other);
}

bool arch_layer_list(const hf_config *c, const char *name, const json_t **list, gq_error *e) {
    const json_t *v = arch_value(c, name);
    size_t n = json_array_size(v);
    char room[HF_CONFIG_NAME];
    *list = v;
    if (!v) return true;
    name = hf_config_name(c, name, room);
    if (!json_is_array(v))
        return hf_config_fail(c, e, "%s is not an array, expected one value per layer", name);
    return n == c->layers || n == hf_config_blocks(c) ||
           hf_config_fail(c, e, "%s has %zu entries, expected one for each of the %llu layers", name, n,
                          LLU(c->layers));
}

const char *arch_names_part(char part[HF_NAMES_PART], const char *names, const char *signs) {
    size_t n = strcspn(names, signs);
    snprintf(part, HF_NAMES_PART, "%.*s", (int)n, names);
    return names + n + (names[n] != 0);
}

/* ---- items ---- */

bool arch_plain_set(const arch_item *list, const hf_config *c, hf_metadata *p, gq_error *e) {
    static kv_make *const makes[ARCH_MAKE_LIMIT] = {
        [KV_U32] = kv_u32, [KV_FLOAT] = kv_float, [KV_BOOL] = kv_bool, [KV_TEXT] = kv_text};
    while (list->make != MAKE_END && makes[list->make](list, c, p, e)) list++;
    return list->make == MAKE_END;
}

KV_MAKE(kv_remove) {
    (void)c, (void)e;
    hf_metadata_remove(p, i->key);
    return true;
}

KV_MAKE(kv_u32) {
    uint32_t value;
    bool missing;
    return arch_u32(i, c, i->names, &value, &missing, e) && (missing || hf_metadata_u32(p, i->key, value, e));
}

KV_MAKE(kv_lengths) {
    const json_t *list = arch_value(c, i->names);
    if (!json_is_array(list)) return kv_u32(i, c, p, e);
    if (!arch_layer_list(c, i->names, &list, e)) return false;
    for (size_t l = 0; l < json_array_size(list); l++) {
        uint32_t value;
        if (!hf_value_u32(c, json_array_get(list, l), i->names, &value, e)) return false;
        if (value > INT32_MAX)
            return hf_config_fail(c, e, "%s: entry %zu is %u, expected at most %d", i->names, l, value,
                                  INT32_MAX);
        if (!hf_metadata_add_i32(p, (int32_t)value, e)) return false;
    }
    return hf_metadata_array(p, i->key, GGUF_INT32, e);
}

KV_MAKE(kv_float) {
    double value;
    bool missing;
    return arch_float(i, c, i->names, &value, &missing, e) &&
           (missing || hf_metadata_f32(p, i->key, (float)value, e));
}

KV_MAKE(kv_bool) {
    bool value = i->value != 0;
    double other;
    bool missing = false;
    if (i->names && !arch_value(c, i->names)) {
        if (!arch_missing(i, c, i->names, &other, &missing, e)) return false;
    } else if (i->names && !hf_config_bool(c, i->names, &value, e)) {
        return false;
    }
    return missing || hf_metadata_bool(p, i->key, value, e);
}

KV_MAKE(kv_text) {
    (void)c;
    return hf_metadata_text(p, i->key, i->names, e);
}

KV_MAKE(kv_copy_text) {
    const char *text = hf_config_text(c, i->names);
    return !text || !*text || hf_metadata_text(p, i->key, text, e);
}

KV_MAKE(kv_blocks) { return arch_set_u64(i, c, p, hf_config_blocks(c), e); }

KV_MAKE(kv_predict) {
    bool none = (i->names && !arch_value(c, i->names)) || (i->need == IF_NOT_ZERO && c->mtp == 0);
    return none || arch_set_u64(i, c, p, c->mtp, e);
}

KV_MAKE(kv_first) {
    const json_t *list = arch_value(c, i->names);
    uint32_t first = 0, other;
    if (!json_is_array(list)) return kv_u32(i, c, p, e);
    if (json_array_size(list) == 0)
        return hf_config_fail(c, e, "%s is empty, expected one value per layer", i->names);
    for (size_t l = 0; l < json_array_size(list); l++) {
        if (!hf_value_u32(c, json_array_get(list, l), i->names, &other, e)) return false;
        if (l == 0) first = other;
        if (other != first)
            return hf_config_fail(c, e, "%s has %u and %u, expected the same for all layers", i->names, first,
                                  other);
    }
    return hf_metadata_u32(p, i->key, first, e);
}

KV_MAKE(kv_count) { return arch_set_u64(i, c, p, json_array_size(arch_value(c, i->names)), e); }

KV_MAKE(kv_zeros) {
    const json_t *list = hf_config_get(c, i->names); /* may end before the last layers */
    uint32_t n = 0;
    if (!json_is_array(list))
        return hf_config_fail(c, e, "%s: expected an array with a value per layer", i->names);
    while (n < json_array_size(list) && json_number_value(json_array_get(list, n)) == 0) n++;
    return hf_metadata_u32(p, i->key, n, e);
}

KV_MAKE(kv_times) {
    arch_item needed = {.key = i->key};
    uint32_t n;
    bool missing;
    return arch_u32(&needed, c, i->names, &n, &missing, e) &&
           arch_set_u64(i, c, p, (uint64_t)i->value * n, e);
}

/* Reads the integers of the two names of an item; where `value` may stand in, it does so for the first. */
static bool kv_read_two(const arch_item *i, const hf_config *c, uint64_t *a, uint64_t *b, bool *missing,
                        gq_error *e) {
    char part[HF_NAMES_PART];
    const char *behind = arch_names_part(part, i->names, " ");
    arch_item needed = {.key = i->key};
    uint32_t first, second;
    bool other;
    if (!arch_u32(i, c, part, &first, missing, e) || *missing) return *missing;
    *a = first;
    if (!arch_u32(&needed, c, behind, &second, &other, e)) return false;
    *b = second;
    return true;
}

KV_MAKE(kv_product) {
    uint64_t a, b;
    bool missing;
    uint64_t times = i->need == NEEDED && i->value > 0 ? (uint64_t)i->value : 1;
    if (!kv_read_two(i, c, &a, &b, &missing, e) || missing) return missing;
    return arch_set_u64(i, c, p, mul_sat(a * b, times), e);
}

KV_MAKE(kv_sum) {
    uint64_t a, b;
    bool missing;
    return kv_read_two(i, c, &a, &b, &missing, e) && (missing || arch_set_u64(i, c, p, a + b, e));
}

KV_MAKE(kv_quotient) {
    uint64_t a, b;
    bool missing;
    if (!kv_read_two(i, c, &a, &b, &missing, e) || missing) return missing;
    return b ? arch_set_u64(i, c, p, a / b, e) : hf_config_fail(c, e, "%s: the divisor is 0", i->names);
}

KV_MAKE(kv_kv_heads) {
    hf_sizes s;
    return hf_config_sizes(c, &s, e) && hf_metadata_u32(p, i->key, s.kv_heads, e);
}

/* ---- parts of widths ---- */

/* Sets a key to floor(width x factor) / divisor. */
static bool share_set(const arch_item *i, const hf_config *c, hf_metadata *p, const char *names,
                      uint32_t width, uint32_t divisor, gq_error *e) {
    double factor;
    bool missing;
    if (divisor == 0)
        return hf_config_fail(c, e, "num_attention_heads is 0 or missing: %s%s is made of it", c->arch,
                              i->key);
    if (!arch_float(i, c, names, &factor, &missing, e) || missing) return missing;
    if (!(factor >= 0 && width * factor < 4294967296.0))
        return hf_config_fail(c, e, "%s is %g, expected 0 to 1", names ? names : i->key, factor);
    return hf_metadata_u32(p, i->key, (uint32_t)(width * factor) / divisor, e);
}

KV_MAKE(kv_share_of_head) {
    hf_sizes s;
    return hf_config_sizes(c, &s, e) &&
           share_set(i, c, p, i->names, s.head_width, s.head_width || s.heads, e);
}

KV_MAKE(kv_share_of_even_head) {
    hf_sizes s;
    return hf_config_sizes(c, &s, e) &&
           share_set(i, c, p, i->names, s.heads ? s.width / s.heads : 0, s.heads != 0, e);
}

KV_MAKE(kv_share_of_width) {
    hf_sizes s;
    return hf_config_sizes(c, &s, e) && share_set(i, c, p, i->names, s.width, s.heads, e);
}

KV_MAKE(kv_share_of) {
    char part[HF_NAMES_PART];
    const char *share = arch_names_part(part, i->names, " ");
    arch_item needed = {.key = i->key};
    uint32_t width;
    bool missing;
    return arch_u32(&needed, c, part, &width, &missing, e) && share_set(i, c, p, share, width, 1, e);
}

/* ---- words ---- */

KV_MAKE(kv_gating) {
    static const struct {
        const char *name;
        uint32_t number;
    } functions[] = {{"softmax", 1}, {"sigmoid", 2}, {"sqrtsoftplus", 4}};
    const json_t *v = arch_value(c, i->names);
    const char *name = json_string_value(v);
    if (!v) return true;
    for (size_t f = 0; name && f < sizeof functions / sizeof *functions; f++)
        if (strcmp(name, functions[f].name) == 0) return hf_metadata_u32(p, i->key, functions[f].number, e);
    return hf_config_fail(c, e, "%s is %s%s%s, expected softmax, sigmoid or sqrtsoftplus", i->names,
                          name ? "\"" : "", name ? name : "no string", name ? "\"" : "");
}

KV_MAKE(kv_causal) {
    return !json_is_false(arch_value(c, i->names)) || hf_metadata_bool(p, i->key, false, e);
}

/* ---- texts ---- */

KV_MAKE(kv_leading) {
    char name[HF_NAMES_PART];
    const char *kind = arch_names_part(name, i->names, "=");
    const json_t *list;
    uint32_t n = 0;
    if (!arch_layer_list(c, name, &list, e)) return false;
    if (!list)
        return i->need == IF ||
               hf_config_fail(c, e, "%s is missing: %s%s is made of it", name, c->arch, i->key);
    while (arch_layer_is(list, n, kind)) n++;
    return hf_metadata_u32(p, i->key, n, e);
}

KV_MAKE(kv_expect) {
    char name[HF_NAMES_PART];
    const char *expected = arch_names_part(name, i->names, "="), *text;
    const json_t *v = arch_value(c, name);
    (void)p;
    text = json_is_boolean(v) ? (json_is_true(v) ? "true" : "false") : json_string_value(v);
    char *end;
    double number = strtod(expected, &end);
    if (json_is_number(v) && !*end && json_number_value(v) == number) return true;
    if ((!v && i->need == IF) || (text && strcmp(text, expected) == 0)) return true;
    hf_config_fail(c, e, "%s is %s, expected %s: llama.cpp's %s supports nothing else", name,
                   text ? text
                   : v  ? "of another kind"
                        : "missing",
                   expected, c->arch);
    if (!strcmp(c->arch, "clip")) e->remedy = GQ_REMEDY_OTHER_PROGRAM;
    return false;
}
