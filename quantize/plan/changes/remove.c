/* Matches patterns with keys once for all outputs. The input's pairs that match are then not copied
 * (plan/changes/meta.c), and those that gquant adds are taken out of the header at its end. Overrides are not
 * concerned: a pair that is set by name is wanted.
 */
#include "quantize/plan/changes/remove.h"

#include <stdlib.h>
#include <string.h>

#include "gguf/header.h"
#include "mixes/mixes.h"
#include "mixes/patterns.h"
#include "model/value.h"

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
};

/* Without the architecture no program knows what it reads; the others follow from the file's layout. Digests
 * do so, too, but are of use to gquant alone. */
static bool key_has_to_stay(const char *key) {
    return strcmp(key, GGUF_DIGESTS_KEY) != 0 &&
           (!strcmp(key, "general.architecture") || plan_key_is_layout(key));
}

/* Pairs found so far. */
typedef struct remove_search {
    const mix_pattern *patterns;
    mix_matcher *matcher;
    bool *matched; /* one for each pattern */
} remove_search;

static bool search_key(remove_search *s, const char *key, bool *found, gq_error *e) {
    uint32_t unused;
    size_t number;
    *found = false;
    if (key_has_to_stay(key)) return true;
    if (!mix_patterns_find(s->patterns, s->matcher, key, &number, &unused, e)) return false;
    *found = number != MIX_NO_PATTERN;
    if (*found) s->matched[number] = true;
    return true;
}

static bool search_all(remove_search *s, plan_removed *to, const model_source *model, gq_error *e) {
    for (uint64_t i = 0; i < model->n_kv; i++)
        if (!search_key(s, model->kv[i].key, &to->pairs[i], e)) return false;
    for (size_t i = 0; i < REMOVE_OWN_KEYS; i++)
        if (!search_key(s, own_keys[i], &to->own[i], e)) return false;
    return true;
}

static bool removed_warn_idle(const gq_list *patterns, const bool *matched, warning_list *warnings,
                              gq_error *e) {
    size_t n = 0, first = 0;
    for (size_t i = patterns->n; i > 0; i--)
        if (!matched[i - 1]) n++, first = i - 1;
    return n == 0 ||
           warnings_add(warnings, e,
                        "%zu %s of metadata to leave out: no key matches, or only keys that have to stay, or "
                        "earlier patterns take all that do%s%s'",
                        n, n == 1 ? "pattern" : "patterns", n == 1 ? ": '" : "; first: '",
                        patterns->items[first]);
}

bool plan_removed_find(plan_removed *removed, const gq_list *patterns, const model_source *model,
                       warning_list *warnings, gq_error *e) {
    if (patterns->n == 0) return true;
    mix_pattern *compiled = mix_patterns_new(patterns->items, patterns->n, false, e);
    remove_search s = {.patterns = compiled,
                       .matcher = compiled ? mix_matcher_new(e) : NULL,
                       .matched = calloc(patterns->n, sizeof *s.matched)};
    removed->pairs = calloc(model->n_kv + 1, sizeof *removed->pairs);
    bool ok = s.matcher && ((s.matched && removed->pairs) || gq_fail_memory(e, model->n_kv + patterns->n)) &&
              search_all(&s, removed, model, e) && removed_warn_idle(patterns, s.matched, warnings, e);
    free(s.matched);
    mix_matcher_free(s.matcher);
    mix_patterns_free(compiled);
    return ok;
}

void plan_removed_free(plan_removed *removed) { free(removed->pairs); }

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
