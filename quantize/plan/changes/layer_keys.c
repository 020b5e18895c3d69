/* Metadata that speak of layers, as they read after some were pruned.
 *
 * There are four ways in which metadata say what a layer is. Lists have an entry per layer; those of pruned
 * layers go. Numbers count the first or the last layers of a kind; the pruned ones among them are taken off.
 * Periods make every n-th layer another one, by its number; a list takes their place where the numbers no
 * longer fit and llama.cpp reads one. The number of layers itself decides in a few architectures, and in some
 * a period is fixed: then nothing can be written, and a warning says what changes.
 */
#include "arch/arch.h"
#include "quantize/plan/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Lists of ARCH.* that have as many entries as there are layers by chance only. */
static const char *const fixed_lists[] = {"rope.dimension_sections", "classifier.output_labels",
                                          "adapters.token_ids_activate", "adapters.token_ids_substitute"};
/* Lists with an entry per layer that are not called ARCH.* */
static const char *const other_lists[] = {"xielu.alpha_n", "xielu.alpha_p", "xielu.beta", "xielu.eps"};

static const struct {
    const char *name;
    bool last; /* counts the last layers; else the first */
} counts[] = {
    {"leading_dense_block_count", false}, {"decoder_block_count", false},
    {"vision.block_count", false},        {"audio.block_count", false},
    {"nextn_predict_layers", true},       {"attention.shared_kv_layers", true},
    {"hash_layer_count", false},
};

/* One layer of each period differs from the others. */
typedef struct period_rule {
    const char *key;  /* "": no key changes the period */
    uint64_t period;  /* without the key; 0: then no layer differs, or there is no such rule */
    bool first;       /* the first of a period differs; else the last */
    bool windowed;    /* holds only with a window */
    const char *list; /* a list that says true for all others; NULL: llama.cpp reads none */
    const char *what; /* layers that differ; NULL: no such rule */
} period_rule;
enum { PERIOD_RULES = 5 };
#define FULL "attends to all tokens"
#define CHOICES "attention.indexer.types"

/* The rules of an architecture, of which few have any: what its row says of layers by their number. */
static void period_rules_of(const architecture *a, period_rule rules[PERIOD_RULES]) {
    const char *pattern = "attention.sliding_window_pattern";
    const arch_graph *g = &a->graph;
    bool has_windows = g->window != WINDOW_NONE && g->window != WINDOW_CHUNKS && g->period_default;
    memset(rules, 0, PERIOD_RULES * sizeof *rules);
    if (g->interval_default)
        rules[0] = (period_rule){.key = "full_attention_interval",
                                 .period = g->interval_default,
                                 .list = "attention.recurrent_layers",
                                 .what = FULL};
    if (has_windows)
        rules[1] = (period_rule){.key = pattern,
                                 .period = g->period_default,
                                 .first = g->first_global,
                                 .windowed = g->window != WINDOW_OPTIONAL || !g->window_default,
                                 .list = g->pattern_by_number ? NULL : pattern,
                                 .what = FULL};
    if (g->no_rope == ROPE_NOT_FOURTH)
        rules[2] = (period_rule){.key = "", .period = 4, .what = "has no RoPE"};
    if (g->experts_by_number)
        rules[3] = (period_rule){.key = "interleave_moe_layer_step", .what = "has experts"};
    if (g->bank != SUBLAYER_NONE)
        rules[4] = (period_rule){
            .key = "attn_res.block_size", .first = true, .what = "keeps its input for later layers"};
}

/* Metadata that follow from the number of layers (arch_by_number). */
static const char *const numbered[] = {
    [BY_NUMBER_SCORES] = "the scale of queries",
    [BY_NUMBER_ROPE] = "rope",
    [BY_NUMBER_ALIBI] = "ALiBi",
    [BY_NUMBER_QK_NORMS] = "the norms of queries and keys",
    [BY_NUMBER_QUERIES] = "the form of queries",
    [BY_NUMBER_WINDOWS] = "sliding windows",
    [BY_NUMBER_SCALES] = "the scale of layers",
};

/* Tensors that hold something for every layer. */
static const char *const of_all_layers[] = {"per_layer_token_embd.weight", "per_layer_model_proj.weight"};

#define N(table) (sizeof(table) / sizeof *(table))

/* ---- what is pruned ---- */

/* The number of layers that the model says it has; 0: unknown, or nothing is pruned. */
static uint64_t layers_before(const gq_plan *plan) {
    int64_t n;
    return plan->layers.n && model_fact_int(&plan->facts, "block_count", &n) && n > 0 ? (uint64_t)n : 0;
}

static bool name_among(const char *const *names, size_t n, const char *name) {
    for (size_t i = 0; i < n; i++)
        if (!strcmp(names[i], name)) return true;
    return false;
}

/* The part of a key behind "ARCH."; NULL: it is not one of the architecture's. */
static const char *name_in_arch(const gq_plan *plan, const char *key) {
    size_t n = strlen(plan->facts.arch);
    return n && !strncmp(key, plan->facts.arch, n) && key[n] == '.' ? key + n + 1 : NULL;
}

/* ---- lists ---- */

/* Length of the element at `at`: fixed, or a string's. The reader has checked that it is inside. */
static uint64_t element_length(uint32_t type, const uint8_t *at) {
    uint64_t n = gguf_value_size(type);
    if (type == GGUF_STRING) memcpy(&n, at, 8), n += 8;
    return n;
}

/* The number of layers that predict further tokens, the last ones. */
static uint64_t layers_predicting(const gq_plan *plan, uint64_t count) {
    int64_t n;
    bool there = model_fact_int(&plan->facts, "nextn_predict_layers", &n) && n > 0 && (uint64_t)n < count;
    return there ? (uint64_t)n : 0;
}

/* Copies an array with one element per layer, or per layer that does not predict, without those of pruned
 * layers. */
static bool slice_array(const gq_plan *plan, uint64_t count, const model_kv *kv, gguf_header *h,
                        gq_error *e) {
    const plan_layers *layers = &plan->layers;
    uint32_t type;
    uint64_t n, kept = 0, size = 0;
    const uint8_t *from;
    if (!model_kv_array(kv, &type, &n, &from) || type == GGUF_ARRAY ||
        (n != count && n != count - layers_predicting(plan, count)))
        return gguf_header_copy(h, kv, e);
    uint8_t *value = malloc(kv->size);
    if (!value) return gq_fail_memory(e, kv->size);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t length = element_length(type, from);
        if (kept < layers->n && layers->kept[kept] == i) {
            memcpy(value + size, from, length);
            size += length;
            kept++;
        }
        from += length;
    }
    bool ok = gguf_header_set_array(h, kv->key, type, kept, value, size, e);
    free(value);
    return ok;
}

/* ---- numbers ---- */

/* The number of the first or the last n layers that stay. */
static uint64_t layers_kept_of(const gq_plan *plan, uint64_t count, uint64_t n, bool last) {
    uint64_t kept = 0;
    for (size_t i = 0; i < plan->layers.n; i++) {
        uint64_t layer = plan->layers.kept[i];
        kept += last ? layer < count && count - layer <= n : layer < n;
    }
    return kept;
}

bool plan_layer_key_copy(const gq_plan *plan, const model_kv *kv, gguf_header *h, gq_error *e) {
    uint64_t count = layers_before(plan);
    const char *name = name_in_arch(plan, kv->key);
    int64_t n;
    if (plan->layers.no_mtp && name && !strcmp(name, "nextn_predict_layers")) return true;
    if (!count) return gguf_header_copy(h, kv, e);
    if (kv->type == GGUF_ARRAY) {
        bool by_layer = name ? !name_among(fixed_lists, N(fixed_lists), name)
                             : name_among(other_lists, N(other_lists), kv->key);
        return by_layer ? slice_array(plan, count, kv, h, e) : gguf_header_copy(h, kv, e);
    }
    for (size_t i = 0; name && i < N(counts); i++)
        if (!strcmp(name, counts[i].name) && model_fact_at(kv, 0, &n) && n > 0)
            return gguf_header_set_u32(h, kv->key,
                                       (uint32_t)layers_kept_of(plan, count, (uint64_t)n, counts[i].last), e);
    return gguf_header_copy(h, kv, e);
}

bool plan_layer_count_write(const gq_plan *plan, gguf_header *h, gq_error *e) {
    if (!layers_before(plan)) return true;
    return gguf_header_set_u32(h, model_fact(&plan->facts, "block_count")->key, (uint32_t)plan->layers.n, e);
}

/* ---- periods ---- */

/* Whether the layer of this number differs from the others of its period. */
static bool layer_differs(const period_rule *r, uint64_t period, uint64_t layer) {
    return period && layer % period == (r->first ? 0 : period - 1);
}

/* Whether a rule holds for the model, and then its period. */
static bool period_of(const gq_plan *plan, const period_rule *r, uint64_t *period) {
    int64_t n;
    *period = r->period;
    if (!r->what) return false;
    if (r->windowed && (!model_fact_int(&plan->facts, "attention.sliding_window", &n) || n <= 0))
        return false;
    const model_kv *list = r->list ? model_fact(&plan->facts, r->list) : NULL;
    if (list && list->type == GGUF_ARRAY) return false;
    if (*r->key && model_fact_int(&plan->facts, r->key, &n)) *period = n > 0 ? (uint64_t)n : 0;
    return true;
}

/* The first of the remaining layers that its new number makes another one; SIZE_MAX: none. */
static size_t layer_changed(const gq_plan *plan, const period_rule *r, uint64_t period) {
    for (size_t i = 0; i < plan->layers.n; i++)
        if (layer_differs(r, period, i) != layer_differs(r, period, plan->layers.kept[i])) return i;
    return SIZE_MAX;
}

/* Writes a list of bools, one per layer that is left. */
static bool write_flags(const gq_plan *plan, const char *name, const bool *flags, gguf_header *h,
                        gq_error *e) {
    char key[sizeof plan->facts.arch + 64];
    snprintf(key, sizeof key, "%s.%s", plan->facts.arch, name);
    return gguf_header_set_array(h, key, GGUF_BOOL, plan->layers.n, flags, plan->layers.n, e);
}

static bool write_list(const gq_plan *plan, const period_rule *r, uint64_t period, gguf_header *h,
                       gq_error *e) {
    uint64_t count = layers_before(plan), n = plan->layers.n;
    uint64_t extra = layers_predicting(plan, count); /* which are none of the others */
    bool *value = malloc(n);
    if (!value) return gq_fail_memory(e, n);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t layer = plan->layers.kept[i];
        bool predicts = layer < count && count - layer <= extra;
        value[i] = !predicts && !layer_differs(r, period, layer);
    }
    bool ok = write_flags(plan, r->list, value, h, e);
    free(value);
    return ok;
}

/* ---- layers that choose the tokens to attend to ---- */

/* Says whether a layer chooses; the others use the choice of the last layer before them that does. False:
 * nothing is known. */
static bool choice_at(const gq_plan *plan, uint64_t layer, bool *chooses) {
    const model_kv *types = model_fact(&plan->facts, CHOICES);
    const architecture *a = arch_of_facts(&plan->facts);
    int64_t type, tokens;
    *chooses = arch_layer_chooses(layer);
    if (!types) /* a layer has a tensor at least, whatever block_count says */
        return a && layer < plan->model.n_tensors &&
               model_fact_int(&plan->facts, "context_length", &tokens) && tokens > 0 &&
               arch_chooses_by_number(a, (uint64_t)tokens);
    if (!model_fact_at(types, layer, &type)) return false;
    *chooses = type != 0;
    return true;
}

/* Writes which layers choose, where no list says so and numbers no longer do. */
static bool write_choices(const gq_plan *plan, gguf_header *h, gq_error *e) {
    uint64_t n = plan->layers.n;
    bool *value = malloc(n);
    bool ok = value || gq_fail_memory(e, n), changed = false, is_known = true;
    for (uint64_t i = 0; ok && is_known && i < n; i++) {
        bool chooses = false, by_place = false;
        is_known = choice_at(plan, plan->layers.kept[i], &chooses) && choice_at(plan, i, &by_place);
        value[i] = chooses;
        changed = changed || chooses != by_place;
    }
    if (is_known && changed && !model_fact(&plan->facts, CHOICES))
        ok = write_flags(plan, CHOICES, value, h, e);
    free(value);
    return ok;
}

bool plan_layer_lists_write(const gq_plan *plan, gguf_header *h, gq_error *e) {
    const architecture *a = arch_of_facts(&plan->facts);
    period_rule rules[PERIOD_RULES];
    uint64_t period;
    if (!layers_before(plan)) return true;
    if (a) period_rules_of(a, rules);
    for (const period_rule *r = rules; a && r < rules + PERIOD_RULES; r++)
        if (r->list && period_of(plan, r, &period) && layer_changed(plan, r, period) != SIZE_MAX &&
            !write_list(plan, r, period, h, e))
            return false;
    return write_choices(plan, h, e);
}

/* ---- what cannot be written ---- */

static bool warn_periods(gq_plan *plan, const architecture *a, gq_error *e) {
    period_rule rules[PERIOD_RULES];
    period_rules_of(a, rules);
    for (const period_rule *r = rules; r < rules + PERIOD_RULES; r++) {
        uint64_t period;
        if (r->list || !period_of(plan, r, &period)) continue;
        size_t i = layer_changed(plan, r, period);
        if (i == SIZE_MAX) continue;
        if (!warnings_add(
                &plan->warnings, e,
                "layers to prune: in architecture '%s' a layer's number says whether it is the one of every "
                "%llu that %s, and layer %llu becomes layer %zu; prune so that such layers keep their place, "
                "or the outputs cannot be loaded or compute something else",
                a->name, LLU(period), r->what, LLU(plan->layers.kept[i]), i))
            return false;
    }
    return true;
}

static bool warn_number(gq_plan *plan, const architecture *a, gq_error *e) {
    uint64_t before = layers_before(plan), n = plan->layers.n;
    for (size_t i = 0; i < N(a->by_number) && a->by_number[i].what && before != n; i++) {
        const arch_numbered *of = &a->by_number[i];
        uint64_t least = of->least, most = of->most;
        if (most && (before >= least && before <= most) == (n >= least && n <= most)) continue;
        if (of->unless && model_fact(&plan->facts, of->unless)) continue;
        if (!warnings_add(&plan->warnings, e,
                          "layers to prune: architecture '%s' decides %s by the number of layers, which "
                          "becomes %llu instead of %llu: the outputs compute something else",
                          a->name, numbered[of->what], LLU(n), LLU(before)))
            return false;
    }
    return true;
}

/* Layers with a window see all of it, and use nobody's choice. */
static bool warn_choices(gq_plan *plan, gq_error *e) {
    const model_kv *windows = model_fact(&plan->facts, "attention.sliding_window_pattern");
    uint64_t chosen_by = UINT64_MAX;
    int64_t has_window;
    bool chooses;
    size_t at = 0; /* in the layers that are kept */
    for (uint64_t i = 0; i < layers_before(plan) && choice_at(plan, i, &chooses); i++) {
        while (at < plan->layers.n && plan->layers.kept[at] < i) at++;
        bool is_kept = at < plan->layers.n && plan->layers.kept[at] == i;
        if (!chooses && windows && model_fact_at(windows, i, &has_window) && has_window) continue;
        if (chooses)
            chosen_by = is_kept ? UINT64_MAX : i;
        else if (is_kept && chosen_by != UINT64_MAX)
            return warnings_add(&plan->warnings, e,
                                "layers to prune: layer %llu attends to the tokens that layer %llu chooses, "
                                "which is pruned: outputs fail or differ; keep layer %llu",
                                LLU(i), LLU(chosen_by), LLU(chosen_by));
    }
    return true;
}

/* In RWKV 7 the first layer's values go to all others, and it has no tensors to take some in. */
static bool warn_first(gq_plan *plan, const architecture *a, gq_error *e) {
    return !arch_has_sublayer(a, MIXER_RWKV7) || !plan->layers.n || plan->layers.kept[0] == 0 ||
           warnings_add(&plan->warnings, e,
                        "layers to prune: the values of layer 0 of architecture '%s' go to all other layers, "
                        "and it is pruned: the outputs compute something else",
                        a->name);
}

/* The first layers get features of images besides, one set a layer. */
static bool warn_deepstack(gq_plan *plan, gq_error *e) {
    int64_t n;
    if (!model_fact_int(&plan->facts, "n_deepstack_layers", &n) || n <= 0) return true;
    for (uint64_t i = 0; i < (uint64_t)n && i < layers_before(plan); i++)
        if (i >= plan->layers.n || plan->layers.kept[i] != i)
            return warnings_add(&plan->warnings, e,
                                "layers to prune: the first %lld layers get features of images "
                                "(n_deepstack_layers), and layer %llu is pruned: the others get those of "
                                "other layers, and the outputs compute something else",
                                (long long)n, LLU(i));
    return true;
}

bool plan_check_layers(gq_plan *plan, gq_error *e) {
    if (!layers_before(plan)) return true;
    for (uint64_t i = 0; i < plan->model.n_tensors; i++)
        if (name_among(of_all_layers, N(of_all_layers), plan->model.tensors[i]->name))
            return gq_fail_usage(e,
                                 "%s: no layer can be pruned: tensor %s holds values for each of the %llu "
                                 "layers, and would have to be cut",
                                 plan->model.path, plan->model.tensors[i]->name, LLU(layers_before(plan)));
    const architecture *a = arch_of_facts(&plan->facts);
    return (!a || (warn_periods(plan, a, e) && warn_number(plan, a, e) && warn_first(plan, a, e))) &&
           warn_choices(plan, e) && warn_deepstack(plan, e);
}

/* What is set is written as it is, whatever layers are left out: it must be true of those that stay. */
bool plan_layer_overrides_check(const gq_plan *plan, gq_error *e) {
    for (size_t i = 0; i < plan->overrides.n; i++) {
        const model_kv *kv = &plan->overrides.items[i];
        const char *name = name_in_arch(plan, kv->key);
        int64_t n;
        if (!name || !model_kv_int(kv, &n)) continue;
        if (plan->layers.no_mtp && !strcmp(name, "nextn_predict_layers") && n != 0)
            return gq_fail_usage(e, "%s is set to %lld, but the output has no MTP layers", kv->key,
                                 (long long)n);
        if (plan->layers.n && !strcmp(name, "block_count") && n != (int64_t)plan->layers.n)
            return gq_fail_usage(e, "%s is set to %lld, but %zu layers are written", kv->key, (long long)n,
                                 plan->layers.n);
    }
    return true;
}
