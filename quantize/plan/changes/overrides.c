/* Reads the items of gq_options.override_kv, KEY=TYPE:VALUE, into KV pairs as GGUF stores them. A key that the
 * model has gets the type in which llama.cpp reads it, or keeps the type it has there: the value is converted,
 * and refused if it does not fit. One number may take the place of a list of numbers, for all layers. A text can
 * be that of a file. A new key gets the first of u32, i32, u64 and i64 that holds the value, or f32. Keys that
 * follow from the file's layout (alignment, shards, transposed tensors) are refused. The KV pairs stand in for
 * the model's own in model_facts (gguf/facts.h) and in the outputs' metadata (plan/changes/meta.c). */
#include "quantize/plan/plan.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch/arch.h"
#include "arch/pretokenizers.h"
#include "base/name_index.h"

enum {
    MAX_KEY = 127,
    MAX_TEXT = 127,
    MAX_FILE = 16 << 20, /* bytes of a text from a file; chat templates have up to some 100,000 */
};

const char *plan_override_file(const char *item) {
    static const char type[] = "=file:";
    const char *equals = strchr(item, '=');
    return equals && strncmp(equals, type, sizeof type - 1) == 0 ? equals + sizeof type - 1 : NULL;
}

/* Whether a key follows from the file's layout, so that it is neither set nor left out. */
static bool plan_key_is_layout(const char *key) {
    return !strcmp(key, "general.alignment") || !strncmp(key, "split.", 6) || !strcmp(key, GGUF_SET_KEY) ||
           !strcmp(key, GGUF_TRANSPOSED_KEY) || !strcmp(key, GGUF_DIGESTS_KEY) ||
           !strcmp(key, GGUF_SOURCE_KEY);
}

static bool is_integer(uint32_t type) { return type <= GGUF_INT32 || type == GGUF_U64 || type == GGUF_INT64; }
static bool is_float(uint32_t type) { return type == GGUF_FLOAT32 || type == GGUF_FLOAT64; }

static bool override_set(model_kv *o, uint32_t type, const void *value, uint64_t size, gq_error *e) {
    uint8_t *copy = malloc(size);
    if (!copy) return gq_fail_memory(e, size);
    memcpy(copy, value, size);
    o->type = type, o->size = size, o->value = copy;
    return true;
}

/* f64 where the model has that, else f32. */
static bool set_float(model_kv *o, uint32_t type, double value, gq_error *e) {
    float single = (float)value;
    return type == GGUF_FLOAT64 ? override_set(o, type, &value, 8, e)
                                : override_set(o, GGUF_FLOAT32, &single, 4, e);
}

/* Sign and magnitude are apart, so that all of u64 and i64 can be written. kept: the type that the model has;
 * GGUF_ARRAY: a new key, which gets the first type that holds the value. */
static bool set_integer(model_kv *o, uint32_t kept, bool negative, uint64_t magnitude, const char *item,
                        gq_error *e) {
    static const uint32_t types[] = {GGUF_U32, GGUF_INT32, GGUF_U64, GGUF_INT64};
    uint64_t bits = negative ? 0 - magnitude : magnitude;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        uint32_t type = kept == GGUF_ARRAY ? types[i] : kept;
        if (gguf_value_holds(type, negative, magnitude))
            return override_set(o, type, &bits, gguf_value_size(type), e);
    }
    return gq_fail_usage(e, "override '%s': the number does not fit the type that the key has in the model",
                         item);
}

static bool read_integer(model_kv *o, uint32_t kept, const char *text, const char *item, gq_error *e) {
    bool negative = *text == '-';
    const char *digits = text + (*text == '-' || *text == '+');
    size_t n = strspn(digits, "0123456789");
    errno = 0;
    uint64_t magnitude = strtoull(digits, NULL, 10);
    if (n == 0 || digits[n] || errno == ERANGE || (negative && magnitude > 1ull << 63))
        return gq_fail_usage(e, "override '%s': '%s', expected a 64-bit integer", item, text);
    if (is_float(kept)) {
        double value = negative ? -(double)magnitude : (double)magnitude;
        return set_float(o, kept, value, e);
    }
    return set_integer(o, kept, negative, magnitude, item, e);
}

static bool read_float(model_kv *o, uint32_t kept, const char *text, const char *item, gq_error *e) {
    char *end;
    double value = strtod(text, &end);
    bool plain = *text && strspn(text, "+-.0123456789eE") == strlen(text);
    if (!plain || *end || !isfinite(value) || (kept != GGUF_FLOAT64 && !isfinite((float)value)))
        return gq_fail_usage(e, "override '%s': '%s', expected a finite decimal number in range", item, text);
    if (!is_integer(kept)) return set_float(o, kept, value, e);
    double magnitude = fabs(value);
    if (magnitude != floor(magnitude) || magnitude >= 0x1p64)
        return gq_fail_usage(e, "override '%s': the key is an integer in the model, found '%s'", item, text);
    return set_integer(o, kept, value < 0, (uint64_t)magnitude, item, e);
}

/* Programs show and split such texts, and GGUF says that they are UTF-8. */
static bool check_utf8(const char *text, size_t n, const char *path, gq_error *e) {
    uint32_t code;
    for (size_t at = 0, length; at < n; at += length) {
        length = text[at] ? gq_utf8(text + at, n - at, &code) : 0;
        if (length == 0)
            return gq_fail(e, "%s: byte %zu is 0x%02x, expected a text in UTF-8", path, at,
                           (unsigned)(uint8_t)text[at]);
    }
    return true;
}

static bool read_text_file(model_kv *o, const char *path, gq_error *e) {
    size_t n;
    char *text = gq_read_whole(path, MAX_FILE, &n, e);
    if (!text) return false;
    uint64_t length = n;
    uint8_t *raw = check_utf8(text, n, path, e) ? malloc(GGUF_STRING_HEADER + n) : NULL;
    if (raw) {
        memcpy(raw, &length, GGUF_STRING_HEADER), memcpy(raw + GGUF_STRING_HEADER, text, n);
        o->type = GGUF_STRING, o->size = GGUF_STRING_HEADER + n, o->value = raw;
    }
    free(text);
    return raw != NULL;
}

static bool read_value(model_kv *o, uint32_t kept, const char *text, const char *item, gq_error *e) {
    if (!strncmp(text, "int:", 4)) return read_integer(o, kept, text + 4, item, e);
    if (!strncmp(text, "float:", 6)) return read_float(o, kept, text + 6, item, e);
    if (!strcmp(text, "bool:true")) return override_set(o, GGUF_BOOL, "\1", 1, e);
    if (!strcmp(text, "bool:false")) return override_set(o, GGUF_BOOL, "\0", 1, e);
    if (!strncmp(text, "bool:", 5)) return gq_fail_usage(e, "override '%s': expected true or false", item);
    if (!strncmp(text, "str:", 4)) {
        uint64_t length = strlen(text + 4);
        uint8_t raw[8 + MAX_TEXT];
        if (length > MAX_TEXT)
            return gq_fail_usage(
                e,
                "override '%s': a text of %llu bytes, expected at most %d; put a longer one in "
                "a file, file:PATH",
                item, LLU(length), MAX_TEXT);
        memcpy(raw, &length, 8), memcpy(raw + 8, text + 4, length);
        return override_set(o, GGUF_STRING, raw, 8 + length, e);
    }
    if (!strncmp(text, "file:", 5)) return read_text_file(o, text + 5, e);
    return gq_fail_usage(e,
                         "override '%s': the type after the '=' is int:, float:, bool:, str: or file:", item);
}

typedef enum kind { NUMBER, TRUTH, TEXT, LIST } kind;

/* Returns what a KV pair may be replaced by. A list of numbers, one per layer, counts as NUMBER: one for all layers
 * may replace it. */
static kind kind_of(const model_kv *kv) {
    uint32_t type = kv->type;
    uint64_t count;
    const uint8_t *elements;
    bool list = model_kv_array(kv, &type, &count, &elements);
    if (is_integer(type) || is_float(type)) return NUMBER;
    return list ? LIST : type == GGUF_BOOL ? TRUTH : TEXT;
}

static bool check_kind(const model_kv *o, const model_kv *old, const char *item, gq_error *e) {
    model_kv now = {.type = o->type};
    return kind_of(old) == kind_of(&now) ||
           gq_fail_usage(e, "override '%s': the key has type %s in the model, not %s", item,
                         gguf_value_name(old->type), gguf_value_name(o->type));
}

/* A key whose readers are known has the type in which they read it. */
static bool check_read(const model_kv *o, arch_key_type type, const char *item, gq_error *e) {
    return arch_key_type_is(type, false, o->type) ||
           gq_fail_usage(e, "override '%s': llama.cpp reads the key as a %s, not %s", item,
                         arch_key_type_name(type), gguf_value_name(o->type));
}

/* Numbers of what the model has no tensors of. */
static bool check_count(const model_kv *o, const model_source *model, const char *item, gq_error *e) {
    const char *dot = strchr(o->key, '.');
    bool is_mtp = dot && strcmp(dot, ".nextn_predict_layers") == 0;
    if (!is_mtp && !(dot && (!strcmp(dot, ".expert_count") || !strcmp(dot, ".expert_used_count"))))
        return true;
    char name[MAX_KEY + 1];
    snprintf(name, sizeof name, "%.*s", (int)(dot - o->key), o->key);
    const architecture *a = arch_named(name);
    if (is_mtp && a && a->graph.extra_layers) return true; /* their tensors are checked by name */
    for (uint64_t k = 0; k < model->n_tensors; k++)
        if (strstr(model->tensors[k]->name, is_mtp ? ".nextn." : "_exps.")) return true;
    return gq_fail_usage(e, "override '%s': the model has no tensors of %s", item,
                         is_mtp ? "MTP layers" : "experts");
}

static bool model_is_known(const char *name, size_t n) {
    static const char *const known[] = {"llama",  "gpt2",   "bert",      "t5",       "rwkv",
                                        "plamo2", "gemma4", "hybriddna", "no_vocab", "none"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strlen(known[i]) == n && memcmp(known[i], name, n) == 0) return true;
    return false;
}

/* Reports names of tokenizers that llama.cpp refuses. */
static bool warn_tokenizer_name(const model_kv *o, const char *item, warning_list *warnings, gq_error *e) {
    const char *name;
    uint64_t n;
    split_rule rule;
    bool is_pre = strcmp(o->key, "tokenizer.ggml.pre") == 0;
    if ((!is_pre && strcmp(o->key, "tokenizer.ggml.model") != 0) || !model_kv_string(o, &name, &n) ||
        (is_pre ? pretokenizers_find(name, n, &rule) : model_is_known(name, n)))
        return true;
    return warnings_add(warnings, e,
                        "override '%s': no %s of this name is known; llama.cpp refuses a file whose %s it "
                        "does not know",
                        item, is_pre ? "pre-tokenizer" : "tokenizer", is_pre ? "pre-tokenizer" : "tokenizer");
}

/* The kind of a tokenizer fits what the model has of it. */
static bool check_tokenizer_kind(const model_kv *o, const model_source *model, const char *item,
                                 gq_error *e) {
    static const char *const needs[][2] = {{"llama", "tokenizer.ggml.scores"},
                                           {"t5", "tokenizer.ggml.scores"},
                                           {"gpt2", "tokenizer.ggml.merges"}};
    if (strcmp(o->key, "tokenizer.ggml.model") != 0 ||
        !model_kv_find(model->kv, model->n_kv, "tokenizer.ggml.tokens"))
        return true;
    for (size_t i = 0; i < sizeof needs / sizeof *needs; i++)
        if (model_kv_is_text(o, needs[i][0]) && !model_kv_find(model->kv, model->n_kv, needs[i][1]))
            return gq_fail_usage(e, "override '%s': the model has no %s, by which such tokenizers cut texts",
                                 item, needs[i][1]);
    return true;
}

/* A file does not become one of another kind. */
static bool check_type(const model_kv *o, const model_kv *old, const char *item, gq_error *e) {
    static const char *const others[] = {"mmproj", "adapter", "imatrix"};
    if (strcmp(o->key, "adapter.type") == 0)
        return gq_fail_usage(e, "override '%s': this key is set by the adapter and cannot be changed", item);
    for (size_t i = 0; old && !strcmp(o->key, "general.type") && i < sizeof others / sizeof *others; i++)
        if (model_kv_is_text(old, others[i]) && !model_kv_is_text(o, others[i]))
            return gq_fail_usage(e, "override '%s': the file is of type %s, and stays so", item, others[i]);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (!strcmp(o->key, "general.type") && model_kv_is_text(o, others[i]) &&
            !(old && model_kv_is_text(old, others[i])))
            return gq_fail_usage(e, "override '%s': the file is a model, or a part of one", item);
    return true;
}

static bool read_item(model_kv *o, const char *item, const model_source *model, const name_index *by_key,
                      warning_list *warnings, gq_error *e) {
    const char *equals = strchr(item, '=');
    if (!equals || equals == item || equals - item > MAX_KEY)
        return gq_fail_usage(e, "override '%s': expected KEY=TYPE:VALUE with a key of 1 to %d bytes", item,
                             MAX_KEY);
    o->key = strndup(item, (size_t)(equals - item));
    if (!o->key) return gq_fail_memory(e, MAX_KEY);
    if (plan_key_is_layout(o->key))
        return gq_fail_usage(e, "override '%s': this key describes the file's layout and cannot be set",
                             item);
    uint64_t i;
    const model_kv *old =
        name_index_find(by_key, model->kv, sizeof *model->kv, o->key, &i) ? &model->kv[i] : NULL;
    bool number = old && (is_integer(old->type) || is_float(old->type));
    arch_key_type type = arch_key_of(o->key).type;
    uint32_t kept = old && type == ARCH_KEY_INTEGER ? GGUF_U32
                    : old && type == ARCH_KEY_FLOAT ? GGUF_FLOAT32
                    : number                        ? old->type
                                                    : GGUF_ARRAY;
    return read_value(o, kept, equals + 1, item, e) && check_read(o, type, item, e) &&
           (old ? type || check_kind(o, old, item, e) : check_count(o, model, item, e)) &&
           check_type(o, old, item, e) && check_tokenizer_kind(o, model, item, e) &&
           warn_tokenizer_name(o, item, warnings, e);
}

/* A key of projectors says nothing in the model's own file. */
static bool warn_of_other_file(const char *key, const model_source *model, warning_list *warnings,
                               gq_error *e) {
    model_facts facts = model_facts_of(model->kv, model->n_kv, NULL, 0);
    return strncmp(key, "clip.", 5) != 0 || !*facts.arch || !strcmp(facts.arch, "clip") ||
           warnings_add(
               warnings, e,
               "override '%s': it is set in the file of the %s model, where nobody reads it; to set it "
               "in a projector, give that GGUF as the input",
               key, facts.arch);
}

bool plan_overrides_read(plan_overrides *overrides, const gq_list *items, const model_source *model,
                         warning_list *warnings, gq_error *e) {
    if (items->n == 0) return true;
    overrides->items = calloc(items->n, sizeof *overrides->items);
    if (!overrides->items) return gq_fail_memory(e, items->n * sizeof *overrides->items);
    overrides->n = items->n;
    name_index by_key = {0};
    bool ok = name_index_all(&by_key, model->kv, sizeof *model->kv, model->n_kv, e);
    for (size_t i = 0; ok && i < items->n; i++)
        ok = read_item(&overrides->items[i], items->items[i], model, &by_key, warnings, e) &&
             warn_of_other_file(overrides->items[i].key, model, warnings, e);
    name_index_free(&by_key);
    return ok;
}

void plan_overrides_free(plan_overrides *overrides) {
    for (size_t i = 0; i < overrides->n; i++)
        free((char *)overrides->items[i].key), free((uint8_t *)overrides->items[i].value);
    free(overrides->items);
}

/* ---- KV pairs that are left out ---- */

/* Matches patterns with keys once for all outputs. The input's KV pairs that match are then not copied
 * (plan/changes/meta.c), and those that gquant adds are taken out of the header at its end. Overrides are not
 * concerned: a KV pair that is set by name is wanted. */

static const char *const own_keys[REMOVE_OWN_KEYS] = {
    "general.quantization_version",
    "general.file_type",
    "quantize.imatrix.file",
    "quantize.imatrix.dataset",
    "quantize.imatrix.entries_count",
    "quantize.imatrix.chunks_count",
    "quantize.calibration.fitted",
    "quantize.calibration.balanced",
    GGUF_ARITHMETIC_KEY,
    GGUF_DIGESTS_KEY,
    GGUF_SOURCE_KEY,
};

/* Without the architecture no program knows what it reads; the others follow from the file's layout. Digests
 * do so, too, but are of use to gquant alone. */
static bool key_has_to_stay(const char *key, bool is_adapter) {
    if (is_adapter && (strncmp(key, "adapter.", 8) == 0 || strcmp(key, "general.type") == 0)) return true;
    return strcmp(key, GGUF_DIGESTS_KEY) != 0 && strcmp(key, GGUF_SOURCE_KEY) != 0 &&
           (!strcmp(key, "general.architecture") || plan_key_is_layout(key));
}

/* Pairs found so far. */
typedef struct remove_search {
    bool is_adapter;
    const mix_pattern *patterns;
    mix_matcher *matcher;
    bool *matched; /* one for each pattern */
} remove_search;

static bool search_key(remove_search *s, const char *key, bool *found, gq_error *e) {
    uint32_t unused;
    size_t number;
    *found = false;
    if (key_has_to_stay(key, s->is_adapter)) return true;
    if (!mix_patterns_find(s->patterns, s->matcher, key, &number, &unused, e)) return false;
    *found = number != MIX_NO_PATTERN;
    if (*found) s->matched[number] = true;
    return true;
}

static bool search_all(remove_search *s, plan_removed *to, const model_source *model, gq_error *e) {
    for (uint64_t i = 0; i < model->n_kv; i++)
        if (!search_key(s, model->kv[i].key, &to->kv[i], e)) return false;
    for (size_t i = 0; i < REMOVE_OWN_KEYS; i++)
        if (!search_key(s, own_keys[i], &to->own[i], e)) return false;
    return true;
}

static bool removed_warn_idle(const gq_list *patterns, const bool *matched, warning_list *warnings,
                              gq_error *e) {
    size_t n = 0, first = 0;
    for (size_t i = patterns->n; i > 0; i--)
        if (!matched[i - 1]) n++, first = i - 1;
    return mix_patterns_warn(warnings, n, patterns->items[first],
                             "of metadata to remove: no key matches, or only keys that have to stay, or "
                             "earlier patterns take all that do",
                             e);
}

/* Reports a tokenizer that is left without a part that readers need. */
static bool removed_warn_tokenizer(const plan_removed *to, const model_source *model, warning_list *warnings,
                                   gq_error *e) {
    static const char all[] = "tokenizer.ggml.";
    static const char *const keys[] = {"model", "tokens", "token_type", "scores", "merges", "pre"};
    const char *first = NULL;
    bool stays = false;
    for (uint64_t i = 0; i < model->n_kv; i++) {
        const char *key = model->kv[i].key;
        if (strncmp(key, all, sizeof all - 1) != 0) continue;
        stays = stays || !to->kv[i];
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
            if (to->kv[i] && !first && strcmp(key + sizeof all - 1, keys[k]) == 0) first = key;
    }
    return !first || !stays ||
           warnings_add(warnings, e,
                        "metadata to remove: without %s llama.cpp cannot load the tokenizer, or tokenizes "
                        "differently; remove all of it (tokenizer.*) or none",
                        first);
}

bool plan_removed_find(plan_removed *removed, const gq_list *patterns, const model_source *model,
                       warning_list *warnings, gq_error *e) {
    if (patterns->n == 0) return true;
    mix_pattern *compiled = mix_patterns_new(patterns->items, patterns->n, false, e);
    const model_kv *type = model_kv_find(model->kv, model->n_kv, "general.type");
    remove_search s = {.patterns = compiled,
                       .is_adapter = type && model_kv_is_text(type, "adapter"),
                       .matcher = compiled ? mix_matcher_new(e) : NULL,
                       .matched = calloc(patterns->n, sizeof *s.matched)};
    removed->kv = calloc(model->n_kv + 1, sizeof *removed->kv);
    bool ok = s.matcher && ((s.matched && removed->kv) || gq_fail_memory(e, model->n_kv + patterns->n)) &&
              search_all(&s, removed, model, e) && removed_warn_tokenizer(removed, model, warnings, e) &&
              removed_warn_idle(patterns, s.matched, warnings, e);
    free(s.matched);
    mix_matcher_free(s.matcher);
    mix_patterns_free(compiled);
    return ok;
}

void plan_removed_free(plan_removed *removed) { free(removed->kv); }

model_kv *plan_removed_rest(const plan_removed *removed, const model_source *model, uint64_t *n,
                            gq_error *e) {
    model_kv *rest = malloc((model->n_kv + 1) * sizeof *rest);
    if (!rest) return gq_fail_memory(e, (model->n_kv + 1) * sizeof *rest), NULL;
    *n = 0;
    for (uint64_t i = 0; i < model->n_kv; i++)
        if (!removed->kv || !removed->kv[i]) rest[(*n)++] = model->kv[i];
    return rest;
}

bool plan_removed_has(const plan_removed *removed, const char *key) {
    for (size_t i = 0; i < REMOVE_OWN_KEYS; i++)
        if (!strcmp(own_keys[i], key)) return removed->own[i];
    return false;
}

void plan_removed_apply(const plan_removed *removed, const plan_overrides *overrides, gguf_header *h) {
    for (size_t i = 0; i < REMOVE_OWN_KEYS; i++)
        if (removed->own[i] && !model_kv_find(overrides->items, overrides->n, own_keys[i]))
            gguf_header_remove(h, own_keys[i]);
}
