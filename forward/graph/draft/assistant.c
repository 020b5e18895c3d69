/* Assistants of Gemma 4 (draft.h): attention to keys and values of the target's last two layers, the last but
 * one in layers with a window. They stand behind the hidden state, those of layers with a window first. */
#include <math.h>
#include <string.h>

#include "forward/graph/draft/target_parts.h"

typedef struct assistant_numbers {
    attention_numbers attention;
    size_t rows[2]; /* [is_local]: of keys and values */
} assistant_numbers;

/* ---- setting up ---- */

/* The target's layer that a layer attends to; NULL: *r says why there is none. */
static const attention_layer *assistant_lender(const forward_model *m, key_reader *r, size_t layer) {
    const layer_spec *l = &m->target->layers[layer];
    if (l->mixer.sublayer && l->mixer.sublayer->kind == &mixer_attention) return l->mixer.numbers;
    key_fail(r, "attention.head_count",
             "requires attention, but layer %zu of %s has no keys to share: the draft was made for another "
             "target model",
             layer, m->target->path);
    return NULL;
}

static void assistant_share_keys(forward_model *m, key_reader *r, model_sublayer *p) {
    assistant_numbers *n = p->numbers;
    size_t layers = m->target->sizes.layers;
    for (size_t i = 0; r->ok && i < m->sizes.layers; i++) {
        attention_layer *l = model_layer_numbers(m, p, i);
        const attention_layer *of = assistant_lender(m, r, layers - (l->is_local ? 2 : 1));
        if (!of) return;
        if (of->kv_heads != l->kv_heads || of->head != l->head || of->value != l->value)
            key_fail(r, "attention.head_count_kv",
                     "is %zu (heads of %zu) for layer %zu, but layer %zu of %s, whose keys it shares, has "
                     "%zu (heads of %zu): the draft was made for another target model",
                     l->kv_heads, l->head, i, layers - (l->is_local ? 2 : 1), m->target->path, of->kv_heads,
                     of->head);
        n->rows[l->is_local] = l->kv_heads * (l->head + l->value);
        l->borrows_kv = true, l->is_tempered = false;
    }
    for (size_t i = 0; i < m->sizes.layers; i++) {
        attention_layer *l = model_layer_numbers(m, p, i);
        l->kept = l->is_local ? 0 : n->rows[1];
    }
}

static void assistant_read_keys(forward_model *m, key_reader *r, model_sublayer *p) {
    assistant_numbers *n = p->numbers;
    const forward_sizes *of = &m->target->sizes;
    size_t width = key_number_needed(r, "embedding_length_out", 1, MODEL_MOST);
    mixer_attention.read_keys(m, r, p);
    if (r->ok && width != of->width)
        key_fail(r, "embedding_length_out",
                 "is %zu, but the hidden size of %s is %zu: the draft was made for another target model",
                 width, m->target->path, of->width);
    if (r->ok && of->layers < 2)
        key_fail(r, "block_count", "requires a target model of at least two layers, but %s has one",
                 m->target->path);
    assistant_share_keys(m, r, p);
    if (!r->ok) return;
    n->attention.score_scale = 1, n->attention.blocks.is_given = true;
    draft_take(m, (draft_source){.layer = of->layers, .rows = of->width});
    for (int local = 1; local >= 0; local--)
        if (n->rows[local])
            draft_take(
                m, (draft_source){.is_keys = true, .layer = of->layers - 1 - local, .rows = n->rows[local]});
}

static void assistant_find_model_tensors(tensor_finder *f, model_sublayer *p) {
    f->m->embedding_scale = sqrtf((float)f->m->target->sizes.width);
    mixer_attention.find_model_tensors(f, p);
    tensors_ignore(f, "masked_embd_centroids.weight"), tensors_ignore(f, "masked_embd_ordering");
}

static void assistant_find_tensors(tensor_finder *f, const sublayer_spec *p) {
    uint64_t d = f->m->sizes.width, of = f->m->target->sizes.width;
    mixer_attention.find_tensors(f, p);
    if (f->index > 0) return;
    f->l->weight[WEIGHT_DRAFT_PRE] =
        tensors_take(f, "nextn.pre_projection.weight", REQUIRED, SHAPE(2 * of, d));
    f->l->weight[WEIGHT_DRAFT_POST] = tensors_take(f, "nextn.post_projection.weight", REQUIRED, SHAPE(d, of));
}

static uint64_t assistant_carried_rows(const forward_model *, const model_sublayer *p, size_t) {
    const assistant_numbers *n = p->numbers;
    return n->rows[0] + n->rows[1];
}

static uint64_t assistant_scratch_rows(const forward_model *m, const layer_spec *l, const sublayer_spec *p) {
    return mixer_attention.scratch_rows(m, l, p);
}

static void assistant_lay_out(forward_batch *b, const model_sublayer *p, scratch *s) {
    attention_scratch *own = batch_own(b, p);
    mixer_attention.lay_out(b, p, s);
    own->chosen =
        scratch_take(s, ceil_div(b->context, QUERIES) * b->most_windows, b->context, sizeof *own->chosen);
}

/* ---- a run ---- */

/* The first position of a text, which predicts nothing that is looked at, sees itself alone. */
void forward_assistant_cut(forward_batch *b) {
    const model_sublayer *p = b->model->layers[0].mixer.sublayer;
    const attention_scratch *own = batch_own(b, p);
    size_t blocks = ceil_div(b->context, QUERIES);
    memset(own->chosen, 0, blocks * b->windows * b->context * sizeof *own->chosen);
    for (size_t i = 0; i < b->n_spans; i++) {
        batch_span text = b->spans[i];
        size_t window = text.first / b->context, first = text.first % b->context;
        for (size_t q = 0; q < text.tokens; q++) {
            uint64_t *keys = own->chosen + (window * blocks + (first + q) / QUERIES) * b->context;
            for (size_t k = 0; k < q || k == 0; k++) keys[k] |= UINT64_C(1) << q % QUERIES;
        }
    }
}

static bool assistant_run(forward_batch *b, const sublayer_spec *p, const float *x, size_t stride) {
    return mixer_attention.run(b, p, x, stride);
}

const sublayer_kind mixer_assistant = {.model_bytes = sizeof(assistant_numbers),
                                       .layer_bytes = sizeof(attention_layer),
                                       .read_keys = assistant_read_keys,
                                       .find_model_tensors = assistant_find_model_tensors,
                                       .find_tensors = assistant_find_tensors,
                                       .carried_rows = assistant_carried_rows,
                                       .scratch_rows = assistant_scratch_rows,
                                       .lay_out = assistant_lay_out,
                                       .prepare = attention_prepare,
                                       .run = assistant_run};

bool forward_assistant_enter(forward_batch *b, const forward_layer *l, const float *both, size_t stride,
                             float *x, size_t x_stride, gq_error *e) {
    return draft_apply(b, l, WEIGHT_DRAFT_PRE, &(draft_flow){both, x, stride, x_stride}, e);
}

bool forward_assistant_leave(forward_batch *b, const forward_layer *l, const float *normed, size_t stride,
                             float *h, size_t h_stride, gq_error *e) {
    return draft_apply(b, l, WEIGHT_DRAFT_POST, &(draft_flow){normed, h, stride, h_stride}, e);
}
