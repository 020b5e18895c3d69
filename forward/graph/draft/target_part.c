#include "forward/graph/draft/target_part.h"
#include "forward/graph/draft/draft.h"

#include "forward/graph/layer_part.h"
#include "gguf/model.h"

void draft_take(forward_model *m, draft_source s) {
    draft_sources *to = &m->sources;
    to->of[to->n++] = s, to->rows += s.rows;
}

void draft_read_layers(forward_model *m, key_reader *r) {
    const char *name = "target_layers";
    const forward_sizes *of = &m->target->sizes;
    key_list layers = key_list_needed(r, name);
    uint64_t n = 1;
    if (key_list_counts(&layers, &n) && (n == 0 || n > DRAFT_SOURCES))
        key_fail(r, name, "has %llu layers, expected 1 to %d", (unsigned long long)n, DRAFT_SOURCES);
    for (size_t i = 0; r->ok && i < n; i++) {
        size_t layer = key_number_at(r, &layers, i, 0, 0, MODEL_MOST);
        if (layer < 1 || layer > of->layers)
            key_fail(r, name, "has %zu, expected layers 1 to %zu, as %s has %zu", layer, of->layers,
                     m->target->path, of->layers);
        draft_take(m, (draft_source){.layer = layer, .rows = of->width});
    }
}

bool draft_apply(forward_batch *b, const forward_layer *l, weight_slot s, const draft_flow *f, gq_error *e) {
    b->layer = l, b->observer = NULL, b->e = e, b->answer = FORWARD_ON, b->unread = false;
    return batch_apply(b, s, 0, f->x, f->stride, f->y, f->y_stride) && !b->unread;
}
