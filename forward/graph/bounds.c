/* Compares the values of keys with what llama.cpp can read and a model can be (keys.h). */
#include "forward/graph/keys.h"

#include <stdio.h>
#include <string.h>

#include "arch/arch.h"
#include "gguf/model.h"

/* Keys without an architecture's name whose lists have one value for each layer. */
static const char *const of_layers[] = {":xielu.alpha_n", ":xielu.alpha_p", ":xielu.beta", ":xielu.eps"};

/* Whether a value has the type in which llama.cpp reads its key. It does not look at templates, sampling and
 * the kind of file itself, so that the model is loaded. */
static bool check_type(const model_kv *kv, const char *file, warning_list *doubts, gq_error *e) {
    arch_key key = arch_key_of(kv->key);
    uint32_t stored = kv->type;
    uint64_t count;
    const uint8_t *elements;
    bool is_list = model_kv_array(kv, &stored, &count, &elements), is_single = arch_key_is_single(key.type);
    if (!(is_list && is_single && key.list == LIST_NONE) && arch_key_type_is(key.type, is_list, stored))
        return true;
    char why[96];
    snprintf(why, sizeof why, "has type %s%s, but llama.cpp reads it as a %s", is_list ? "array of " : "",
             gguf_value_name(stored), arch_key_type_name(key.type));
    if (strcmp(kv->key, "tokenizer.chat_template") == 0 || strcmp(kv->key, "general.type") == 0 ||
        strncmp(kv->key, "general.sampling.", 17) == 0)
        return warnings_add(doubts, e, "%s %s", kv->key, why);
    return gq_fail_remedy(e, is_single ? GQ_REMEDY_SET_METADATA : GQ_REMEDY_NONE, "%s: %s %s", file, kv->key,
                          why);
}

static bool check_types(const model_facts *facts, const char *file, warning_list *doubts, gq_error *e) {
    bool ok = true;
    for (uint64_t i = 0; ok && i < facts->n_kv; i++)
        ok = check_type(model_facts_find(facts, facts->kv[i].key), file, doubts, e);
    return ok;
}

/* Checks each value of a key. */
static void check_bounds(key_reader *r, const arch_key *key) {
    key_list l = key_list_of(r, key->name);
    uint64_t n = 1;
    double value; /* of another type it is the row's to refuse, where one reads it */
    bool is_integer = key->type == ARCH_KEY_INTEGER;
    if (!l.kv || (key->least == 0 && key->most == 0)) return;
    if (!key_list_counts(&l, &n)) n = is_integer || model_kv_float(l.kv, &value);
    for (uint64_t i = 0; i < n && r->ok; i++) {
        if (is_integer)
            key_number_at(r, &l, i, 0, (uint64_t)key->least, (uint64_t)key->most);
        else
            key_float_at(r, &l, i, 0, key->least, key->most);
    }
}

/* Lists with one value for each layer: of another length llama.cpp refuses them. */
static void check_length(key_reader *r, const char *name) {
    key_list l = key_list_of(r, name);
    uint64_t n;
    int64_t blocks;
    if (key_list_counts(&l, &n) && model_fact_int(&r->facts, "block_count", &blocks) && n != (uint64_t)blocks)
        key_fail(r, l.name, "is an array of %llu, expected one value for each of %lld layers",
                 (unsigned long long)n, (long long)blocks);
}

/* llama.cpp refuses a list of another length. */
static void check_sections(key_reader *r) {
    key_list l = key_list_of(r, "rope.dimension_sections");
    uint64_t n;
    if (key_list_counts(&l, &n) && n != 4)
        key_fail(r, l.name, "is an array of %llu, expected 4 values", (unsigned long long)n);
}

/* Numbers of layers, of which there are no more than all. */
static const char *const layer_counts[] = {"leading_dense_block_count", "attention.shared_kv_layers"};

bool bounds_check(const model_facts *facts, const char *file, warning_list *doubts, gq_error *e) {
    key_reader r = {.facts = *facts, .file = file, .e = e, .ok = true};
    const architecture *a = arch_named(facts->arch);
    int64_t blocks;
    if (!check_types(facts, file, doubts, e)) return false;
    for (const arch_key *key = arch_keys; key->name && r.ok; key++) check_bounds(&r, key);
    for (size_t k = 0; k < sizeof layer_counts / sizeof *layer_counts; k++)
        if (r.ok && !arch_key_is_ignored(a, layer_counts[k]) && key_there(&r, layer_counts[k]) &&
            model_fact_int(facts, "block_count", &blocks))
            key_number(&r, layer_counts[k], 0, 0, (uint64_t)blocks);
    for (const arch_key *key = arch_keys; key->name && r.ok; key++)
        if (key->list == LIST_OF_LAYERS) check_length(&r, key->name);
    for (size_t k = 0; r.ok && k < sizeof of_layers / sizeof *of_layers; k++) check_length(&r, of_layers[k]);
    if (r.ok && a) check_sections(&r);
    return r.ok;
}
