/* The class names of a config's "architectures", which the rows of arch/ have. Names that llama.cpp's converter knows
 * and that no row has are refused like all others.
 */
#include "hf/folder/folder.h"

#include <stdlib.h>
#include <string.h>

#include "base/name_index.h"
/* Whether a layer has attention: by a list of kinds, a list of numbers, or a period. */
bool hf_granite_has_attention(const hf_config *c, uint64_t layer) {
    const json_t *kinds = hf_config_get(c, "layer_types"), *numbers = hf_config_get(c, "attn_layer_indices");
    uint32_t period, offset;
    if (kinds) return hf_json_is(json_array_get(kinds, layer), "attention");
    for (size_t i = 0; numbers && i < json_array_size(numbers) && i < c->layers; i++)
        if (json_integer_value(json_array_get(numbers, i)) == (json_int_t)layer) return true;
    return !numbers && hf_config_u32(c, "attn_layer_period", &period, NULL) &&
           hf_config_u32(c, "attn_layer_offset", &offset, NULL) && period > 0 && layer % period == offset;
}

bool hf_bailing3_is_full(const hf_config *c, uint64_t layer) {
    uint32_t group;
    if (layer >= c->layers || !hf_config_u32(c, "layer_group_size", &group, NULL) || group == 0) return true;
    return (layer + 1) % group == 0 || layer >= c->layers / group * group;
}

uint64_t hf_deci_kv_heads(const hf_config *c, uint64_t heads, uint64_t kv_heads, uint64_t layer) {
    const json_t *numbers = hf_config_get(c, "num_key_value_heads_per_layer"),
                 *blocks = hf_config_get(c, "block_configs"),
                 *attention = json_object_get(json_array_get(blocks, layer), "attention");
    if (!numbers && !blocks) return kv_heads;
    json_int_t n = json_integer_value(numbers ? json_array_get(numbers, layer)
                                              : json_object_get(attention, "n_heads_in_group"));
    return n <= 0 ? 0 : numbers ? (uint64_t)n : heads / (uint64_t)n;
}

const json_t *hf_classifier_labels(const hf_config *c) {
    const json_t *labels = hf_config_get(c, "id2label");
    size_t n = json_object_size(labels);
    return n == 0 || (n == 2 && hf_json_is(json_object_get(labels, "0"), "LABEL_0")) ? NULL : labels;
}

/* ---- Granite's projectors ---- */

/* Adds one behind those that go to no later layer. */
static bool granite_add(const hf_config *c, granite_projector *list, size_t *n, granite_projector p,
                        gq_error *e) {
    size_t i = (*n)++;
    if (i == GRANITE_MOST) return hf_config_fail(c, e, "expected at most %d projectors", GRANITE_MOST);
    for (; i > 0 && list[i - 1].text_layer > p.text_layer; i--) list[i] = list[i - 1];
    list[i] = p;
    return true;
}

/* Reads a number of a layer; those below 0 count from the end. Without one it is the last. */
static bool granite_layer(const hf_config *c, const json_t *v, uint32_t layers, json_int_t *layer,
                          gq_error *e) {
    *layer = v ? json_integer_value(v) : -1;
    if (*layer < 0) *layer += layers;
    return ((!v || json_is_integer(v)) && *layer >= 0 && *layer < layers) ||
           hf_config_fail(
               c, e, "deepstack_layer_map or spatial_target_layers: expected the number of one of %u layers",
               layers);
}

/* The number of entries of a list before entry i, as the list counts them. */
static uint32_t granite_rank(const json_t *map, size_t i) {
    uint32_t before = 0;
    for (size_t k = 0; k < json_array_size(map); k++) {
        const json_t *x = json_array_get(map, k), *y = json_array_get(map, i);
        json_int_t d = json_integer_value(json_array_get(x, 0)) - json_integer_value(json_array_get(y, 0));
        if (d == 0) d = json_integer_value(json_array_get(x, 1)) - json_integer_value(json_array_get(y, 1));
        before += d < 0 || (d == 0 && k < i);
    }
    return before;
}

bool granite_projectors(const hf_config *c, granite_projector list[GRANITE_MOST], size_t *n, gq_error *e) {
    const json_t *map = hf_config_get(c, "root.deepstack_layer_map"),
                 *targets = hf_config_get(c, "root.spatial_target_layers"),
                 *spatial = hf_config_get(c, "root.spatial_vision_layer");
    uint32_t text = 0, vision_layers = 0;
    bool ok = (json_array_size(map) <= GRANITE_MOST ||
               hf_config_fail(c, e, "expected at most %d projectors", GRANITE_MOST)) &&
              hf_config_u32(c, "text.num_hidden_layers", &text, e) &&
              hf_config_u32(c, "vision.num_hidden_layers", &vision_layers, e);
    *n = 0;
    for (size_t rank = 0; ok && rank < json_array_size(map); rank++)
        for (size_t i = 0; ok && i < json_array_size(map); i++) {
            const json_t *v = json_array_get(map, i);
            granite_projector p = {.number = (uint32_t)rank};
            if (granite_rank(map, i) != rank) continue;
            ok = granite_layer(c, json_array_get(v, 0), vision_layers, &p.vision_layer, e) &&
                 granite_layer(c, json_array_get(v, 1), text, &p.text_layer, e) &&
                 granite_add(c, list, n, p, e);
        }
    for (size_t i = 0; ok && i < json_array_size(targets); i++) {
        granite_projector p = {.is_spatial = true, .number = (uint32_t)i};
        ok = granite_layer(c, spatial, vision_layers, &p.vision_layer, e) &&
             granite_layer(c, json_array_get(targets, i), text, &p.text_layer, e) &&
             granite_add(c, list, n, p, e);
    }
    return ok && (*n > 0 || hf_config_fail(c, e,
                                           "neither deepstack_layer_map nor spatial_target_layers has "
                                           "an entry: expected the layers that projectors go to"));
}

/* ---- what a class asks of a config ---- */

static bool config_is_recurrent(const hf_config *c) {
    for (uint64_t i = 0; i < c->layers; i++)
        if (!hf_granite_has_attention(c, i)) return true;
    return false;
}

static bool class_fits(const arch_class *of, const hf_config *c) {
    uint32_t n = 0;
    switch (of->when) {
    case WHEN_ALWAYS:
        break;
    case WHEN_MODEL_TYPE:
        return hf_json_is(hf_config_get(c, "model_type"), of->text);
    case WHEN_KEY:
        return hf_config_get(c, of->text);
    case WHEN_RECURRENT:
        return config_is_recurrent(c);
    case WHEN_USED:
        return hf_config_u32_or(c, of->text, 0, &n, NULL) && n;
    case WHEN_NO_DRAFT: /* a draft model has a vocabulary of its own and predicts for another model */
    case WHEN_DRAFT:
        return (hf_config_has(c, "draft_vocab_size") && c->layers == 1) == (of->when == WHEN_DRAFT);
    }
    return true;
}

/* ---- all classes ---- */

/* Returns the class after `c`, and its row; of c NULL the first one. NULL: there are no more. */
static const arch_class *class_next(const arch_class *c, size_t *row) {
    const architecture *a;
    if (c && (++c)->name) return c;
    for (*row += c != NULL; (a = arch_at(*row)); ++*row)
        if (a->folder.classes) return a->folder.classes;
    return NULL;
}

/* Whether a model's text part is described by the root, whatever text_config says of itself. */
static bool class_of_root_counts(const char *name) {
    size_t row = 0;
    for (const arch_class *c = class_next(NULL, &row); name && c; c = class_next(c, &row))
        if (c->is_root && strcmp(c->name, name) == 0) return true;
    return false;
}

static const char *class_named_by(const json_t *object) {
    return json_string_value(json_array_get(json_object_get(object, "architectures"), 0));
}

/* Fails with the name that is closest to one that is read, if any is. */
static bool architecture_fail(const hf_config *c, gq_error *e) {
    enum { MOST = 1024 };
    const char *names[MOST] = {NULL};
    size_t row = 0, n = 0, distinct = 0;
    for (const arch_refusal *r = arch_refused; r->name; r++)
        if (strcmp(r->name, c->class_name) == 0)
            return hf_config_fail(c, e, "%s is not supported: %s", r->name, r->why);
    for (const arch_class *of = class_next(NULL, &row); of && n < MOST; of = class_next(of, &row))
        names[n++] = of->name;
    qsort(names, n, sizeof *names, name_compare);
    for (size_t i = 0; i < n; i++)
        if (!distinct || strcmp(names[distinct - 1], names[i]) != 0) names[distinct++] = names[i];
    const char *near = gq_nearest(c->class_name, names, distinct, 7);
    return hf_config_fail(c, e,
                          "%s is not one of the %zu supported model classes%s%s%s; llama.cpp's converter may "
                          "support it: convert with it, and quantize the GGUF",
                          c->class_name, distinct, near ? " (the nearest is " : "", near ? near : "",
                          near ? ")" : "");
}

static bool class_is_known(const char *name) {
    size_t row = 0;
    const arch_class *c = class_next(NULL, &row);
    while (c && strcmp(c->name, name) != 0) c = class_next(c, &row);
    return c;
}

bool hf_architecture_find_class(hf_config *c, gq_error *e) {
    const char *root = class_named_by(c->stored), *part = hf_config_text(c, "_class_name"),
               *text = class_named_by(json_object_get(c->stored, "text_config"));
    c->class_name = text && !class_of_root_counts(root) ? text : root;
    if (!c->class_name && part)
        return hf_config_fail(c, e,
                              "%s is a part of an image model, and its weights, "
                              "diffusion_pytorch_model*.safetensors, are missing",
                              part);
    if (!c->class_name)
        return hf_config_fail(c, e, "no model class: expected \"architectures\": [\"...ForCausalLM\"]");
    return class_is_known(c->class_name) || architecture_fail(c, e);
}

bool hf_architecture_decide(hf_config *c, gq_error *e) {
    size_t row = 0;
    for (const arch_class *of = class_next(NULL, &row); of; of = class_next(of, &row)) {
        if (strcmp(of->name, c->class_name) != 0 || (c->row && of->when == WHEN_ALWAYS) || !class_fits(of, c))
            continue;
        c->row = arch_at(row), c->class_row = of;
        if (of->when != WHEN_ALWAYS) break;
    }
    if (!c->row)
        return hf_config_fail(c, e,
                              "expected an EAGLE-3 draft model, which has draft_vocab_size and one layer, "
                              "found a %s with %llu layer%s %s draft_vocab_size",
                              c->class_name, LLU(c->layers), plural_suffix(c->layers),
                              hf_config_has(c, "draft_vocab_size") ? "and" : "without");
    c->arch = c->row->name;
    c->like = &(c->class_row->like ? arch_named(c->class_row->like) : c->row)->folder;
    return true;
}
