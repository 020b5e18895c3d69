/* The entry of an MTP layer (draft.h): the hidden state and the token's embedding behind it each pass a norm,
 * and one matrix combines both. It is a sublayer of the MTP layer, so that this matrix's input is reported like
 * all others. The block's own last norm, embedding and output matrix take the place of the model's. */
#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "forward/graph/draft/target_parts.h"

/* The block attends to all keys, also where its file has what would choose some. */
static void mtp_ignore_indexer(tensor_finder *f) {
    for (weight_slot s = 0; s < WEIGHT_SLOTS; s++) {
        if (strncmp(weight_facts_of[s].name, "indexer.", 8) != 0) continue;
        tensors_ignore(f, tensors_layer_name(f->m, f->index, s, ".weight").text);
        tensors_ignore(f, tensors_layer_name(f->m, f->index, s, ".bias").text);
    }
}

static void mtp_find_tensors(tensor_finder *f, const sublayer_spec *p) {
    forward_model *m = f->m;
    uint64_t d = m->sizes.width, rows = m->sizes.vocabulary;
    const model_tensor *t;
    char name[GGUF_MAX_NAME + 1];
    (void)p;
    mtp_ignore_indexer(f);
    tensors_take_weight(f, WEIGHT_NEXTN_ENORM, REQUIRED, SHAPE(d));
    tensors_take_weight(f, WEIGHT_NEXTN_HNORM, REQUIRED, SHAPE(d));
    tensors_take_weight(f, WEIGHT_NEXTN_EH_PROJ, REQUIRED, SHAPE(2 * d, d));
#define OWN(rest, of) \
    (snprintf(name, sizeof name, "blk.%zu." rest ".weight", f->index), tensors_take(f, name, OPTIONAL, of))
    if ((t = OWN("layer_output_norm", SHAPE(d)))) m->output_norm = t, m->output_norm_bias = NULL;
    if ((t = OWN("nextn.shared_head_norm", SHAPE(d)))) m->output_norm = t, m->output_norm_bias = NULL;
    if ((t = OWN("nextn.embed_tokens", SHAPE(d, rows)))) m->sizes.embedding = t;
    if ((t = OWN("nextn.shared_head_head", SHAPE(d, rows)))) m->sizes.out = t;
#undef OWN
}

/* Rows for both, the token's first. */
static uint64_t mtp_scratch_rows(const forward_model *m, const layer_spec *, const sublayer_spec *) {
    return 2 * (uint64_t)m->sizes.width;
}

/* Combines hidden state and embedding; with several streams per token, each stream. The matrix's input is
 * reported for one stream of each token, by turns. */
static bool mtp_begin(forward_batch *b, const sublayer_spec *p, float *x, size_t stride) {
    const model_sublayer *tail = b->layer->plan->tail.sublayer;
    size_t width = b->model->sizes.width, s = b->stride, n = model_streams(b->model, tail);
    float *both = b->work, *hidden = both + width * s, *streams = tail ? batch_carried(b, tail) : x;
    batch_norm_slot(b, WEIGHT_NEXTN_ENORM, batch_carried(b, p->sublayer), b->residual_stride, width, both, s);
    for (size_t i = 0; i < n; i++) {
        float *of = streams + i * width * stride;
        batch_norm_slot(b, WEIGHT_NEXTN_HNORM, of, stride, width, of, stride);
    }
    for (size_t c = 0; c < width; c++)
        for (size_t t = 0; t < b->tokens; t++)
            hidden[c * s + t] = streams[(t % b->context % n * width + c) * stride + t];
    if (!batch_report_inputs(b, both, s, (weight_slot[]){WEIGHT_NEXTN_EH_PROJ, WEIGHT_SLOTS})) return false;
    for (size_t i = 0; i < n; i++) {
        batch_copy(b, hidden, s, streams + i * width * stride, stride, width);
        batch_multiply(b, WEIGHT_NEXTN_EH_PROJ, 0, both, s, b->output, s, b->tokens);
        batch_copy(b, streams + i * width * stride, stride, b->output, s, width);
    }
    return true;
}

const sublayer_kind sublayer_mtp = {.carried_rows = carries_hidden_state, /* the token's embedding */
                                    .embed = carries_embedding,
                                    .find_tensors = mtp_find_tensors,
                                    .scratch_rows = mtp_scratch_rows,
                                    .begin = mtp_begin};

/* ---- EAGLE-3 ---- */

/* EAGLE-3 drafts (Li et al. 2025, arXiv:2503.01840; draft.h). */

enum { EAGLE_LAYERS = 3 };

typedef struct eagle_numbers {
    bool has_normed_residual; /* the hidden state's norm is what results are added to */
    bool norms_hidden_states; /* the target's hidden states pass a norm, all three as one */
} eagle_numbers;

typedef struct eagle_scratch {
    float *both; /* embedding and state, each behind its norm */
} eagle_scratch;

/* ---- setting up ---- */

static void eagle_read_keys(forward_model *m, key_reader *r, model_sublayer *p) {
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

static void eagle_find_tensors(tensor_finder *f, const sublayer_spec *p) {
    const eagle_numbers *n = p->sublayer->numbers;
    uint64_t hidden_states = f->m->sources.rows;
    f->l->weight[WEIGHT_DRAFT_FC] =
        tensors_take(f, "fc.weight", REQUIRED, SHAPE(hidden_states, f->m->sizes.width));
    f->l->weight[WEIGHT_DRAFT_NORM] = tensors_take(
        f, "enc.output_norm.weight", n->norms_hidden_states ? REQUIRED : ABSENT, SHAPE(hidden_states));
}

/* ---- a run ---- */

static void eagle_lay_out(forward_batch *b, const model_sublayer *p, scratch *s) {
    eagle_scratch *own = batch_own(b, p);
    own->both = scratch_take(s, 2 * (uint64_t)b->model->sizes.width, b->stride, sizeof *own->both);
}

static bool eagle_begin(forward_batch *b, const sublayer_spec *p, float *x, size_t stride) {
    const eagle_numbers *n = p->sublayer->numbers;
    const eagle_scratch *own = batch_own(b, p->sublayer);
    size_t width = b->model->sizes.width, s = b->stride;
    float *hidden = own->both + width * s;
    batch_norm_slot(b, WEIGHT_ATTN_NORM, batch_carried(b, p->sublayer), b->residual_stride, width, own->both,
                    s);
    batch_norm_slot(b, WEIGHT_ATTN_NORM_2, x, stride, width, hidden, s);
    if (n->has_normed_residual) batch_copy(b, x, stride, hidden, s, width);
    return true;
}

static const float *eagle_flows_in(forward_batch *b, const sublayer_spec *p, size_t *stride) {
    const eagle_scratch *own = batch_own(b, p->sublayer);
    *stride = b->stride;
    return own->both;
}

const sublayer_kind sublayer_eagle = {.model_bytes = sizeof(eagle_numbers),
                                      .read_keys = eagle_read_keys,
                                      .carried_rows = carries_hidden_state, /* the token's embedding */
                                      .find_tensors = eagle_find_tensors,
                                      .lay_out = eagle_lay_out,
                                      .begin = eagle_begin,
                                      .flows_in = eagle_flows_in};
