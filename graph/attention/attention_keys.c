/* Reads heads, windows and the layers that use rope from the metadata. */
#include "graph/attention/attention_keys.h"
#include "graph/attention/attention.h"
#include "graph/attention/rope_keys.h"
#include "graph/layer_part.h"
#include "model/value.h"

void attention_choose_layers(const forward_model *m, key_reader *r, bool *is_own) {
    key_list kv = key_list_of(r, "attention.head_count_kv");
    for (size_t i = 0; i < m->sizes.layers; i++) is_own[i] = key_number_at(r, &kv, i, 1, 0, MODEL_MOST) > 0;
}

void attention_read_heads(forward_model *m, key_reader *r, model_part *p) {
    attention_numbers *n = p->numbers;
    key_list heads = key_list_needed(r, "attention.head_count"),
             kv = key_list_of(r, "attention.head_count_kv");
    size_t first = 0; /* of the first layer that has any */
    for (size_t i = 0; i < m->sizes.layers && r->ok; i++) {
        attention_layer *l = model_layer_numbers(m, p, i);
        if (!l) continue;
        l->heads = key_number_at(r, &heads, i, 1, 1, MODEL_MOST);
        l->kv_heads = key_number_at(r, &kv, i, l->heads, 1, l->heads);
        if (!first) first = l->heads;
    }
    if (!first) first = key_number_at(r, &heads, 0, 1, 0, MODEL_MOST); /* no layer has attention */
    n->even_head = m->sizes.width / (first ? first : 1);
    uint64_t absent = n->even_head;
    if (m->arch->graph.turned_head) absent = key_number(r, "rope.dimension_count", absent, 1, MODEL_MOST);
    n->head = key_number(r, "attention.key_length", absent, 1, MODEL_MOST);
    n->value = key_number(r, "attention.value_length", absent, 1, MODEL_MOST);
    n->local_head = n->head, n->local_value = n->value;
    if (m->arch->graph.local_sizes) {
        n->local_head = key_number_needed(r, "attention.key_length_swa", 1, MODEL_MOST);
        n->local_value = key_number_needed(r, "attention.value_length_swa", 1, MODEL_MOST);
    }
    n->output_scale = 1;
}

void attention_share_sizes(forward_model *m, model_part *p) {
    const attention_numbers *n = p->numbers;
    for (size_t i = 0; i < m->sizes.layers; i++) {
        attention_layer *l = model_layer_numbers(m, p, i);
        if (!l) continue;
        l->head = l->is_local ? n->local_head : n->head;
        l->value = l->is_local ? n->local_value : n->value;
    }
}

void attention_check_heads(key_reader *r, const model_part *p, size_t least) {
    const attention_numbers *n = p->numbers;
    if (n->head < least || n->value == 0)
        key_fail(r, "attention.head_count", "is more than embedding_length");
}

void attention_read_windows(forward_model *m, key_reader *r, model_part *p) {
    attention_numbers *n = p->numbers;
    const arch_graph *a = &m->arch->graph;
    size_t layers = m->sizes.layers;
    key_list pattern = key_list_of(r, "attention.sliding_window_pattern");
    const char *key = "attention.sliding_window";
    if (a->window == WINDOW_REQUIRED) {
        n->window = key_number_needed(r, key, 0, MODEL_MOST);
    } else if (a->window == WINDOW_OPTIONAL) {
        n->window = key_number(r, key, a->window_default, 0, MODEL_MOST);
    } else if (a->window == WINDOW_BY_NUMBER && arch_is_by_number(m->arch, BY_NUMBER_WINDOWS, layers)) {
        n->window = key_number(r, key, a->window_default, 0, MODEL_MOST);
        if (!n->window) n->window = a->window_default;
    } else if (a->window == WINDOW_IF_ANY) {
        n->window = key_number(r, key, 0, 0, MODEL_MOST) ? a->window_default : 0;
    } else if (a->window == WINDOW_CHUNKS) {
        n->window = a->window_default, n->has_chunks = true;
    }
    uint64_t count;
    bool list = key_list_counts(&pattern, &count);
    if (n->window && a->pattern_list && !list)
        key_fail(r, pattern.name, "is missing or no list, expected one with a value per layer");
    for (size_t i = 0; n->window && i < layers && r->ok; i++) {
        attention_layer *l = model_layer_numbers(m, p, i);
        uint64_t period = key_number_at(r, &pattern, i, a->period_default, 0, list ? 1 : MODEL_MOST);
        uint64_t at = period ? i % period : 0;
        bool has_period = !m->draft_of; /* prediction blocks see all tokens, unless a list says otherwise */
        if (l)
            l->is_local =
                list ? period != 0 : has_period && (!period || (a->first_global ? at != 0 : at < period - 1));
    }
}

/* Facts that decide which layers use rope. */
typedef struct rope_layers {
    no_rope rule;
    size_t layers, dense; /* dense: leading_dense_block_count */
    bool has_windows, is_finetuned;
} rope_layers;

/* in_pattern: the layer's value of attention.rope_pattern. */
static bool layer_has_rope(const rope_layers *of, size_t i, bool is_local, bool in_pattern) {
    switch (of->rule) {
    case ROPE_NOT_FOURTH:
        return (i + 1) % 4 != 0;
    case ROPE_IF_FINETUNED:
        return of->is_finetuned;
    case ROPE_LOCAL:
        return is_local;
    case ROPE_LOCAL_IF_ANY:
        return is_local || !of->has_windows;
    case ROPE_LOCAL_OR_DENSE:
        return is_local || i < of->dense;
    case ROPE_BY_PATTERN:
        return in_pattern;
    case ROPE_NOT_FIRST:
        return !of->has_windows || of->layers == 4 || i % 4 != 0;
    case ROPE_NEVER:
        return false;
    case ROPE_ALWAYS:
        break;
    }
    return true;
}

void attention_choose_rope(forward_model *m, key_reader *r, model_part *p) {
    const attention_numbers *n = p->numbers;
    rope_layers of = {.rule = m->arch->graph.no_rope, .layers = m->sizes.layers, .has_windows = n->window};
    key_list pattern = key_list_of(r, "attention.rope_pattern");
    if (of.rule == ROPE_IF_FINETUNED) of.is_finetuned = key_bool(r, "rope.scaling.finetuned", true);
    if (of.rule == ROPE_LOCAL_OR_DENSE)
        of.dense = key_number(r, "leading_dense_block_count", 0, 0, MODEL_MOST);
    for (size_t i = 0; i < m->sizes.layers; i++) {
        attention_layer *l = model_layer_numbers(m, p, i);
        bool in_pattern = true;
        if (of.rule == ROPE_BY_PATTERN) in_pattern = key_number_at(r, &pattern, i, 1, 0, 1);
        if (!l) continue;
        l->has_rope = layer_has_rope(&of, i, l->is_local, in_pattern);
        l->is_tempered = !n->has_chunks || !l->has_rope;
    }
}

void attention_find_model_tensors(tensor_finder *f, model_part *p) {
    attention_numbers *n = p->numbers;
    rope_find_tensors(&n->rope, f);
}
