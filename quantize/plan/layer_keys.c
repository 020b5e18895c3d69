/* Metadata that speak of layers, as they read after some were pruned.
 *
 * There are four ways in which metadata say what a layer is. Lists have an entry per layer; those of pruned
 * layers go. Numbers count the first or the last layers of a kind; the pruned ones among them are taken off.
 * Periods make every n-th layer another one, by its number; a list takes their place where the numbers no
 * longer fit and llama.cpp reads one. The number of layers itself decides in a few architectures, and in some
 * a period is fixed: then nothing can be written, and a warning says what changes.
 */
#include "quantize/plan/layer_keys.h"
#include "gguf/header.h"
#include "model/value.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Lists of ARCH.* that have as many entries as there are layers by chance only. */
static const char *const fixed_lists[] = {"rope.dimension_sections", "classifier.output_labels"};
/* Lists with an entry per layer that are not called ARCH.* */
static const char *const other_lists[] = {"xielu.alpha_n", "xielu.alpha_p", "xielu.beta", "xielu.eps"};

static const struct {
    const char *name;
    bool last; /* counts the last layers; else the first */
} counts[] = {
    {"leading_dense_block_count", false}, {"decoder_block_count", false},
    {"vision.block_count", false},        {"audio.block_count", false},
    {"nextn_predict_layers", true},       {"attention.shared_kv_layers", true},
};

/* One layer of each period differs from the others. */
typedef struct period_rule {
    const char *arch;
    const char *key;  /* "": no key changes the period */
    uint64_t period;  /* without the key; 0: then no layer differs */
    bool first;       /* the first of a period differs; else the last */
    bool windowed;    /* holds only with a window */
    const char *list; /* a list that says true for all others; NULL: llama.cpp reads none */
    const char *what; /* layers that differ */
} period_rule;
#define INTERVAL "full_attention_interval"
#define PATTERN "attention.sliding_window_pattern"
#define FULL "attend to all tokens"
#define CHOICES "attention.indexer.types"
static const period_rule periods[] = {
    /* clang-format off */
    {"qwen35",       INTERVAL,                    4, false, false, "attention.recurrent_layers", FULL},
    {"qwen35moe",    INTERVAL,                    4, false, false, "attention.recurrent_layers", FULL},
    {"qwen3next",    INTERVAL,                    4, false, false, "attention.recurrent_layers", FULL},
    {"gemma2",       PATTERN,                     2, false, false, PATTERN, FULL},
    {"gemma3",       PATTERN,                     6, false, true,  PATTERN, FULL},
    {"olmo2",        PATTERN,                     4, false, true,  PATTERN, FULL},
    {"cohere2",      PATTERN,                     4, false, true,  PATTERN, FULL},
    {"gpt-oss",      PATTERN,                     2, false, true,  PATTERN, FULL},
    {"exaone4",      PATTERN,                     4, false, true,  PATTERN, FULL},
    {"exaone-moe",   PATTERN,                     4, false, true,  PATTERN, FULL},
    {"afmoe",        PATTERN,                     4, false, true,  PATTERN, FULL},
    {"afmoe",        "",                          4, false, false, NULL,    "have no rope"},
    {"mellum",       PATTERN,                     4, false, true,  PATTERN, FULL},
    {"muse-glimmer", PATTERN,                     4, false, true,  PATTERN, FULL},
    {"plamo3",       PATTERN,                     8, false, true,  PATTERN, FULL},
    {"laguna",       PATTERN,                     4, true,  true,  NULL,    FULL},
    {"smallthinker", PATTERN,                     4, true,  true,  NULL,    FULL},
    {"cohere2moe",   PATTERN,                     4, true,  true,  PATTERN, FULL},
    {"smollm3",      "",                          4, false, false, NULL,    "have no rope"},
    {"llama4",       "",                          4, false, false, NULL,    "have no rope"},
    {"llama4",       "interleave_moe_layer_step", 0, false, false, NULL,    "have experts"},
    {"kimi-k3",      "attn_res.block_size",       0, true,  false, NULL,    "keep their input for later layers"},
    /* clang-format on */
};

/* A rule that holds for models with from `least` to `most` layers; most = 0: with each number. */
static const struct {
    const char *arch;
    uint64_t least, most;
    const char *what;
    const char *unless; /* the key that says it as well, if there is one; else NULL */
} by_number[] = {
    /* clang-format off */
    {"gemma2",       46, 46,         "the scale of queries",         NULL},
    {"gemma3",       62, 62,         "the scale of queries",         NULL},
    {"baichuan",     32, 32,         "rope",                         NULL},
    {"baichuan",     40, 40,         "ALiBi",                        NULL},
    {"command-r",    64, UINT64_MAX, "the norms of queries and keys", NULL},
    {"deepseek2",    26, 27,         "the form of queries",          NULL},
    {"exaone4",      64, 64,         "sliding windows",              NULL},
    {"minicpm",      0,  0,          "the scale of layers",          "residual_scale"},
    {"minicpm3",     0,  0,          "the scale of layers",          NULL},
    /* clang-format on */
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

/* Copies an array with one element per layer, without those of pruned layers. */
static bool slice_array(const plan_layers *layers, uint64_t count, const model_kv *kv, gguf_header *h,
                        gq_error *e) {
    uint32_t type;
    uint64_t n, kept = 0, size = 12;
    const uint8_t *from;
    if (!model_kv_array(kv, &type, &n, &from) || n != count || type == GGUF_ARRAY)
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
    memcpy(value, &type, 4), memcpy(value + 4, &kept, 8);
    bool ok = gguf_header_set(h, kv->key, GGUF_ARRAY, value, size, e);
    free(value);
    return ok;
}

/* ---- numbers ---- */

/* How many of the first or the last n layers stay. */
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
    if (!count) return gguf_header_copy(h, kv, e);
    if (kv->type == GGUF_ARRAY) {
        bool by_layer = name ? !name_among(fixed_lists, N(fixed_lists), name)
                             : name_among(other_lists, N(other_lists), kv->key);
        return by_layer ? slice_array(&plan->layers, count, kv, h, e) : gguf_header_copy(h, kv, e);
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
    if (strcmp(plan->facts.arch, r->arch) != 0) return false;
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

/* Writes a list of bools, one per layer that is left: what stands in `value` behind its first 12 bytes. */
static bool write_flags(const gq_plan *plan, const char *name, uint8_t *value, gguf_header *h, gq_error *e) {
    uint64_t n = plan->layers.n;
    char key[sizeof plan->facts.arch + 64];
    memcpy(value, &(uint32_t){GGUF_BOOL}, 4), memcpy(value + 4, &n, 8);
    snprintf(key, sizeof key, "%s.%s", plan->facts.arch, name);
    return gguf_header_set(h, key, GGUF_ARRAY, value, 12 + n, e);
}

static bool write_list(const gq_plan *plan, const period_rule *r, uint64_t period, gguf_header *h,
                       gq_error *e) {
    uint64_t count = layers_before(plan), n = plan->layers.n;
    int64_t extra = 0; /* layers at the end that predict further tokens, which are none of the others */
    uint8_t *value = malloc(12 + n);
    if (!value) return gq_fail_memory(e, 12 + n);
    model_fact_int(&plan->facts, "nextn_predict_layers", &extra);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t layer = plan->layers.kept[i];
        bool predicts = extra > 0 && layer < count && count - layer <= (uint64_t)extra;
        value[12 + i] = !predicts && !layer_differs(r, period, layer);
    }
    bool ok = write_flags(plan, r->list, value, h, e);
    free(value);
    return ok;
}

/* ---- layers that choose the tokens to attend to ---- */

/* Says whether a layer chooses; the others use the choice of the last layer before them that does. Models of
 * glm-dsa for a million tokens choose in few layers where no list says in which. False: nothing is known. */
static bool choice_at(const gq_plan *plan, uint64_t layer, bool *chooses) {
    enum { LONG = 1 << 20 };
    const model_kv *types = model_fact(&plan->facts, CHOICES);
    int64_t type, tokens;
    *chooses = layer < 3 || layer % 4 == 2;
    if (!types) /* a layer has a tensor at least, whatever block_count says */
        return !strcmp(plan->facts.arch, "glm-dsa") && layer < plan->model.n_tensors &&
               model_fact_int(&plan->facts, "context_length", &tokens) && tokens >= LONG;
    if (!model_fact_at(types, layer, &type)) return false;
    *chooses = type != 0;
    return true;
}

/* Writes which layers choose, where no list says so and numbers no longer do. */
static bool write_choices(const gq_plan *plan, gguf_header *h, gq_error *e) {
    uint64_t n = plan->layers.n;
    uint8_t *value = malloc(12 + n);
    bool ok = value || gq_fail_memory(e, 12 + n), changed = false, is_known = true;
    for (uint64_t i = 0; ok && is_known && i < n; i++) {
        bool chooses = false, by_place = false;
        is_known = choice_at(plan, plan->layers.kept[i], &chooses) && choice_at(plan, i, &by_place);
        value[12 + i] = chooses;
        changed = changed || chooses != by_place;
    }
    if (is_known && changed && !model_fact(&plan->facts, CHOICES))
        ok = write_flags(plan, CHOICES, value, h, e);
    free(value);
    return ok;
}

bool plan_layer_lists_write(const gq_plan *plan, gguf_header *h, gq_error *e) {
    uint64_t period;
    if (!layers_before(plan)) return true;
    for (const period_rule *r = periods; r < periods + N(periods); r++)
        if (r->list && period_of(plan, r, &period) && layer_changed(plan, r, period) != SIZE_MAX &&
            !write_list(plan, r, period, h, e))
            return false;
    return write_choices(plan, h, e);
}

/* ---- what cannot be written ---- */

static bool warn_periods(gq_plan *plan, gq_error *e) {
    for (const period_rule *r = periods; r < periods + N(periods); r++) {
        uint64_t period;
        if (r->list || !period_of(plan, r, &period)) continue;
        size_t i = layer_changed(plan, r, period);
        if (i == SIZE_MAX) continue;
        if (!warnings_add(
                &plan->warnings, e,
                "layers to prune: architecture '%s' tells by a layer's number whether it is one of "
                "every %llu that %s, and layer %llu becomes layer %zu; prune so that the others keep "
                "their place, or the outputs cannot be loaded or compute something else",
                r->arch, (unsigned long long)period, r->what, (unsigned long long)plan->layers.kept[i], i))
            return false;
    }
    return true;
}

static bool warn_number(gq_plan *plan, gq_error *e) {
    uint64_t before = layers_before(plan), n = plan->layers.n;
    for (size_t i = 0; i < N(by_number); i++) {
        uint64_t least = by_number[i].least, most = by_number[i].most;
        if (strcmp(plan->facts.arch, by_number[i].arch) != 0 || before == n) continue;
        if (most && (before >= least && before <= most) == (n >= least && n <= most)) continue;
        if (by_number[i].unless && model_fact(&plan->facts, by_number[i].unless)) continue;
        if (!warnings_add(&plan->warnings, e,
                          "layers to prune: architecture '%s' tells %s by the number of layers, which "
                          "becomes %llu instead of %llu: the outputs compute something else",
                          by_number[i].arch, by_number[i].what, (unsigned long long)n,
                          (unsigned long long)before))
            return false;
    }
    return true;
}

static bool warn_choices(gq_plan *plan, gq_error *e) {
    uint64_t chosen_by = 0;
    bool chooses;
    size_t at = 0; /* in the layers that are kept */
    for (uint64_t i = 0; i < layers_before(plan) && choice_at(plan, i, &chooses); i++) {
        while (at < plan->layers.n && plan->layers.kept[at] < i) at++;
        bool is_kept = at < plan->layers.n && plan->layers.kept[at] == i;
        if (chooses)
            chosen_by = is_kept ? UINT64_MAX : i;
        else if (is_kept && chosen_by != UINT64_MAX)
            return warnings_add(&plan->warnings, e,
                                "layers to prune: layer %llu attends to the tokens that layer %llu chooses, "
                                "which is pruned: the outputs cannot be run or compute something else",
                                (unsigned long long)i, (unsigned long long)chosen_by);
    }
    return true;
}

bool plan_check_layers(gq_plan *plan, gq_error *e) {
    if (!layers_before(plan)) return true;
    for (uint64_t i = 0; i < plan->model.n_tensors; i++)
        if (name_among(of_all_layers, N(of_all_layers), plan->model.tensors[i]->name))
            return gq_fail_usage(e,
                                 "%s: no layer can be pruned: tensor %s holds values for each of the %llu "
                                 "layers, and would have to be cut",
                                 plan->model.path, plan->model.tensors[i]->name,
                                 (unsigned long long)layers_before(plan));
    return warn_periods(plan, e) && warn_number(plan, e) && warn_choices(plan, e);
}
