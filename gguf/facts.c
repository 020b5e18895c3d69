#include "gguf/facts.h"
#include "base/name_index.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char PREFIX[] = "blk.";
enum { PREFIX_LENGTH = sizeof PREFIX - 1, DIGITS = 9 };

model_facts model_facts_of(const model_kv *kv, uint64_t n_kv, const model_kv *set, uint64_t n_set) {
    model_facts f = {.kv = kv, .n_kv = n_kv, .set = set, .n_set = n_set};
    const char *text;
    uint64_t n;
    if (model_kv_string(model_facts_find(&f, "general.architecture"), &text, &n) && n < sizeof f.arch &&
        !memchr(text, 0, n))
        memcpy(f.arch, text, n);
    return f;
}

const model_kv *model_facts_find(const model_facts *f, const char *key) {
    for (uint64_t i = f->n_set; i > 0; i--)
        if (!strcmp(f->set[i - 1].key, key)) return &f->set[i - 1];
    return model_kv_find(f->kv, f->n_kv, key);
}

bool model_fact_is(const model_facts *f, const char *key, const char *text) {
    return model_kv_is_text(model_facts_find(f, key), text);
}

const model_kv *model_fact(const model_facts *f, const char *name) {
    char key[256];
    snprintf(key, sizeof key, "%s.%s", f->arch, name);
    return model_facts_find(f, key);
}

bool model_fact_at(const model_kv *kv, uint64_t i, int64_t *value) {
    model_kv element;
    uint64_t count;
    if (!model_kv_array(kv, &element.type, &count, &element.value)) return model_kv_int(kv, value);
    if (i >= count) return false;
    element.size = gguf_value_size(element.type); /* 0 for strings and lists, which are no integers */
    element.value += i * element.size;
    if (element.type != GGUF_BOOL) return model_kv_int(&element, value);
    *value = *element.value;
    return true;
}

bool model_fact_int(const model_facts *f, const char *name, int64_t *value) {
    return model_fact_at(model_fact(f, name), 0, value);
}

bool model_block_leads(const char *name, model_block *b) {
    if (strncmp(name, PREFIX, PREFIX_LENGTH) != 0) return false;
    const char *digits = name + PREFIX_LENGTH;
    size_t n = strspn(digits, "0123456789");
    if (n == 0 || n > DIGITS || (n > 1 && *digits == '0') || digits[n] != '.') return false;
    *b = (model_block){strtoull(digits, NULL, 10), digits, digits + n + 1};
    return true;
}

bool model_block_in(const char *name, model_block *b) {
    for (const char *at = name; (at = strstr(at, PREFIX)); at++)
        if (model_block_leads(at, b)) return true;
    return false;
}

int64_t model_block_number(const char *name) {
    if (strncmp(name, PREFIX, PREFIX_LENGTH) != 0 || name[PREFIX_LENGTH] < '0' || name[PREFIX_LENGTH] > '9')
        return -1;
    int64_t number = 0;
    for (const char *c = name + PREFIX_LENGTH; *c >= '0' && *c <= '9'; c++)
        if (__builtin_mul_overflow(number, 10, &number) || __builtin_add_overflow(number, *c - '0', &number))
            return INT64_MAX;
    return number;
}

/* ---- two models ---- */

enum { SHOWN = 4 };

typedef struct differing_keys {
    const char *arch;
    bool other_layers;
    size_t n;
    char text[512]; /* the first few */
} differing_keys;

static bool key_begins(const char *key, const char *with) { return strncmp(key, with, strlen(with)) == 0; }

/* Whether a KV pair says how a model is run; other KV pairs speak of its tokenizer, its file and where it is from.
 * What it has been trained on, and how many tokens it has, which its tensors say too, are no matter of a text that
 * fits. */
static bool kv_counts(const differing_keys *d, const model_kv *kv) {
    size_t n = strlen(d->arch);
    bool is_own = key_begins(kv->key, d->arch) && kv->key[n] == '.';
    int64_t unused;
    if (is_own && (!strcmp(kv->key + n, ".vocab_size") || !strcmp(kv->key + n, ".context_length")))
        return false;
    if (!is_own && !key_begins(kv->key, "xielu.") && !key_begins(kv->key, "diffusion.") &&
        strcmp(kv->key, "tokenizer.ggml.mask_token_id") != 0)
        return false;
    if (!d->other_layers) return true;
    return kv->type != GGUF_ARRAY &&
           !(model_kv_int(kv, &unused) && (strstr(kv->key, "layer") || strstr(kv->key, "block_count")));
}

static bool kv_agree(const model_kv *a, const model_kv *b) {
    int64_t i, k;
    double x, y;
    if (model_kv_int(a, &i) && model_kv_int(b, &k)) return i == k;
    if (model_kv_float(a, &x) && model_kv_float(b, &y)) return (float)x == (float)y || (isnan(x) && isnan(y));
    return a->type == b->type && a->size == b->size && memcmp(a->value, b->value, a->size) == 0;
}

static const char *kv_value(const model_kv *kv, char to[48]) {
    int64_t i;
    double x;
    uint64_t n;
    const char *text;
    if (!kv) return "missing";
    if (model_kv_int(kv, &i))
        snprintf(to, 48, "%lld", (long long)i);
    else if (model_kv_float(kv, &x))
        snprintf(to, 48, "%.9g", x);
    else if (model_kv_string(kv, &text, &n))
        snprintf(to, 48, "\"%.*s\"", n < 40 ? (int)n : 40, text);
    else
        return kv->type == GGUF_BOOL ? *kv->value ? "true" : "false" : "another list";
    return to;
}

/* One of both may be NULL. */
static void differing_note(differing_keys *d, const model_kv *of_original, const model_kv *of_copy) {
    char values[2][48];
    size_t at = strlen(d->text);
    if (d->n++ >= SHOWN) return;
    snprintf(d->text + at, sizeof d->text - at, "%s%s is %s, there %s", at ? "; " : "",
             (of_original ? of_original : of_copy)->key, kv_value(of_copy, values[0]),
             kv_value(of_original, values[1]));
}

/* Whether the KV pair says what programs take where it is missing: llama.cpp's base of rotation. */
static bool kv_is_default(const model_kv *kv) {
    static const char key[] = ".rope.freq_base";
    size_t n = strlen(kv->key);
    double value;
    return n > sizeof key - 1 && !strcmp(kv->key + n - (sizeof key - 1), key) && model_kv_float(kv, &value) &&
           value == 10000;
}

/* Notes the KV pairs that a has and b lacks, or has with another value if `values` says so. */
static bool differing_find(differing_keys *d, const model_source *a, const model_source *b, bool values,
                           gq_error *e) {
    name_index by_key = {0};
    bool ok = name_index_all(&by_key, b->kv, sizeof *b->kv, b->n_kv, e);
    for (uint64_t i = 0; ok && i < a->n_kv; i++) {
        const model_kv *kv = &a->kv[i], *other = NULL;
        uint64_t k;
        if (!kv_counts(d, kv)) continue;
        if (name_index_find(&by_key, b->kv, sizeof *b->kv, kv->key, &k)) other = &b->kv[k];
        if (!other && kv_is_default(kv)) continue;
        if (!other || (values && kv_counts(d, other) && !kv_agree(kv, other)))
            differing_note(d, values ? kv : other, values ? other : kv);
    }
    name_index_free(&by_key);
    return ok;
}

bool differing_warn(const model_source *original, const model_source *copy, warning_list *to, gq_error *e) {
    model_facts a = model_facts_of(original->kv, original->n_kv, NULL, 0),
                b = model_facts_of(copy->kv, copy->n_kv, NULL, 0);
    const model_kv *layers = model_fact(&a, "block_count"), *of_copy = model_fact(&b, "block_count");
    differing_keys d = {.arch = a.arch, .other_layers = layers && of_copy && !kv_agree(layers, of_copy)};
    char more[32] = "";
    if (strcmp(a.arch, b.arch) != 0) return true;
    if (!differing_find(&d, original, copy, true, e) || !differing_find(&d, copy, original, false, e))
        return false;
    if (d.n > SHOWN) snprintf(more, sizeof more, "; and %zu more", d.n - SHOWN);
    return !d.n ||
           warnings_add(to, e,
                        "%s: its metadata differ from those of %s, which can change what it computes: %s%s",
                        copy->path, original->path, d.text, more);
}
