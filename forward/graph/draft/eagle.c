/* EAGLE-3 drafts (Li et al. 2025, arXiv:2503.01840; draft.h). */
#include "base/fail.h"
#include "forward/graph/draft/draft.h"
#include "forward/graph/draft/target_part.h"
#include "forward/graph/layer_part.h"

enum { EAGLE_LAYERS = 3 };

typedef struct eagle_numbers {
    bool has_normed_residual; /* the hidden state's norm is what results are added to */
    bool norms_hidden_states; /* the target's hidden states pass a norm, all three as one */
} eagle_numbers;

typedef struct eagle_scratch {
    float *both; /* embedding and state, each behind its norm */
} eagle_scratch;

/* ---- setting up ---- */

static void eagle_read_keys(forward_model *m, key_reader *r, model_part *p) {
    eagle_numbers *n = p->numbers;
    const forward_sizes *of = &m->target->sizes;
    size_t width = key_number_needed(r, "target_hidden_size", 1, MODEL_MOST);
    n->has_normed_residual = key_bool(r, "norm_before_residual", false);
    n->norms_hidden_states = key_bool(r, "norm_before_fc", false);
    if (r->ok && width != of->width)
        key_fail(r, "target_hidden_size",
                 "is %zu, but the hidden size of %s is %zu: the draft was made for another target model",
                 width, m->target->path, of->width);
    draft_read_layers(m, r);
    if (r->ok && m->sources.n != EAGLE_LAYERS)
        key_fail(r, "target_layers", "has %zu layers, expected %d", m->sources.n, EAGLE_LAYERS);
    m->mixer_width = 2 * m->sizes.width;
}

static void eagle_find_tensors(tensor_finder *f, const part_spec *p) {
    const eagle_numbers *n = p->part->numbers;
    uint64_t hidden_states = f->m->sources.rows;
    f->l->weight[WEIGHT_DRAFT_FC] =
        tensors_take(f, "fc.weight", REQUIRED, SHAPE(hidden_states, f->m->sizes.width));
    f->l->weight[WEIGHT_DRAFT_NORM] = tensors_take(
        f, "enc.output_norm.weight", n->norms_hidden_states ? REQUIRED : ABSENT, SHAPE(hidden_states));
}

/* ---- a run ---- */

static void eagle_lay_out(forward_batch *b, const model_part *p, scratch *s) {
    eagle_scratch *own = batch_own(b, p);
    own->both = scratch_take(s, 2 * (uint64_t)b->model->sizes.width, b->stride, sizeof *own->both);
}

static bool eagle_begin(forward_batch *b, const part_spec *p, float *x, size_t stride) {
    const eagle_numbers *n = p->part->numbers;
    const eagle_scratch *own = batch_own(b, p->part);
    size_t width = b->model->sizes.width, s = b->stride;
    float *hidden = own->both + width * s;
    batch_norm_slot(b, WEIGHT_ATTN_NORM, batch_carried(b, p->part), b->residual_stride, width, own->both, s);
    batch_norm_slot(b, WEIGHT_ATTN_NORM_2, x, stride, width, hidden, s);
    if (n->has_normed_residual) batch_copy(b, x, stride, hidden, s, width);
    return true;
}

static const float *eagle_flows_in(forward_batch *b, const part_spec *p, size_t *stride) {
    const eagle_scratch *own = batch_own(b, p->part);
    *stride = b->stride;
    return own->both;
}

const layer_part part_eagle = {.model_bytes = sizeof(eagle_numbers),
                               .read_keys = eagle_read_keys,
                               .carried_rows = carries_hidden_state, /* the token's embedding */
                               .find_tensors = eagle_find_tensors,
                               .lay_out = eagle_lay_out,
                               .begin = eagle_begin,
                               .flows_in = eagle_flows_in};
