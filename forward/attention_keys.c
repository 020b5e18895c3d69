/* Reads heads, windows and the layers that use rope from the metadata. */
#include "forward/attention.h"
#include "forward/layer_part.h"

void attention_choose_layers(const forward_model *m, key_reader *r, bool *is_own) {
    key_list kv = key_list_of(r, "attention.head_count_kv");
    for (size_t i = 0; i < m->sizes.layers; i++) is_own[i] = key_number_at(r, &kv, i, 1, 0, MODEL_MOST) > 0;
}

void attention_read_heads(forward_model *m, key_reader *r, model_part *p) {
    attention_numbers *n = p->numbers;
    key_list heads = key_list_of(r, "attention.head_count"), kv = key_list_of(r, "attention.head_count_kv");
    size_t first = 0; /* of the first layer that has any */
    if (!heads.kv) key_number_needed(r, heads.name, 1, MODEL_MOST);
    for (size_t i = 0; i < m->sizes.layers && r->ok; i++) {
        attention_layer *l = model_layer_numbers(m, p, i);
        if (!l) continue;
        l->heads = key_number_at(r, &heads, i, 1, 1, MODEL_MOST);
        l->kv_heads = key_number_at(r, &kv, i, l->heads, 1, l->heads);
        if (!first) first = l->heads;
    }
    n->even_head = m->sizes.width / (first ? first : 1);
    n->head = key_number(r, "attention.key_length", n->even_head, 1, MODEL_MOST);
    n->value = key_number(r, "attention.value_length", n->even_head, 1, MODEL_MOST);
}

void attention_check_heads(key_reader *r, const model_part *p, size_t least) {
    const attention_numbers *n = p->numbers;
    if (n->head < least || n->value == 0)
        key_fail(r, "attention.head_count", "is more than embedding_length");
}

void attention_read_windows(forward_model *m, key_reader *r, model_part *p) {
    attention_numbers *n = p->numbers;
    const architecture *a = m->arch;
    size_t layers = m->sizes.layers;
    key_list pattern = key_list_of(r, "attention.sliding_window_pattern");
    const char *key = "attention.sliding_window";
    if (a->window == WINDOW_REQUIRED) {
        n->window = key_number_needed(r, key, 0, MODEL_MOST);
    } else if (a->window == WINDOW_OPTIONAL) {
        n->window = key_number(r, key, a->window_default, 0, MODEL_MOST);
    } else if (a->window == WINDOW_64_BLOCKS && layers == 64) {
        n->window = key_number(r, key, a->window_default, 0, MODEL_MOST);
        if (!n->window) n->window = a->window_default;
    }
    uint32_t type;
    uint64_t count;
    const uint8_t *elements;
    bool list = model_kv_array(pattern.kv, &type, &count, &elements);
    for (size_t i = 0; n->window && i < layers && r->ok; i++) {
        attention_layer *l = model_layer_numbers(m, p, i);
        uint64_t period = key_number_at(r, &pattern, i, a->period_default, 0, list ? 1 : MODEL_MOST);
        if (l) l->is_local = list ? period != 0 : period == 0 || i % period < period - 1;
    }
}

static bool layer_has_rope(no_rope rule, size_t i, bool is_local, bool has_windows, bool is_finetuned) {
    switch (rule) {
    case ROPE_NEVER:
        return false;
    case ROPE_NOT_FOURTH:
        return (i + 1) % 4 != 0;
    case ROPE_IF_FINETUNED:
        return is_finetuned;
    case ROPE_LOCAL:
        return is_local;
    case ROPE_LOCAL_IF_ANY:
        return is_local || !has_windows;
    case ROPE_ALWAYS:
        break;
    }
    return true;
}

void attention_choose_rope(forward_model *m, key_reader *r, model_part *p) {
    const attention_numbers *n = p->numbers;
    no_rope rule = m->arch->no_rope;
    bool finetuned = true;
    if (rule == ROPE_IF_FINETUNED) finetuned = key_bool(r, "rope.scaling.finetuned", true);
    for (size_t i = 0; i < m->sizes.layers; i++) {
        attention_layer *l = model_layer_numbers(m, p, i);
        if (l) l->has_rope = layer_has_rope(rule, i, l->is_local, n->window, finetuned);
    }
}

void attention_find_model_tensors(tensor_finder *f, model_part *p) {
    attention_numbers *n = p->numbers;
    rope_find_tensors(&n->rope, f);
}
