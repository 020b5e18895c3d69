/* The entry of an MTP layer (draft.h): the hidden state and the token's embedding behind it each pass a norm,
 * and one matrix combines both. It is a part of the MTP layer, so that this matrix's input is reported like
 * all others. The block's own last norm, embedding and output matrix take the place of the model's. */
#include <stdio.h>
#include <string.h>

#include "forward/graph/layer_part.h"

/* The block attends to all keys, also where its file has what would choose some. */
static void draft_ignore_indexer(tensor_finder *f) {
    for (weight_slot s = 0; s < WEIGHT_SLOTS; s++) {
        if (strncmp(weight_facts_of[s].name, "indexer.", 8) != 0) continue;
        tensors_ignore(f, tensors_layer_name(f->m, f->index, s, ".weight"));
        tensors_ignore(f, tensors_layer_name(f->m, f->index, s, ".bias"));
    }
}

static void draft_find_tensors(tensor_finder *f, const part_spec *p) {
    forward_model *m = f->m;
    uint64_t d = m->sizes.width, rows = m->sizes.vocabulary;
    const model_tensor *t;
    char name[GGUF_MAX_NAME + 1];
    (void)p;
    draft_ignore_indexer(f);
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
static uint64_t draft_scratch_rows(const forward_model *m, const layer_spec *, const part_spec *) {
    return 2 * (uint64_t)m->sizes.width;
}

/* Combines hidden state and embedding; with several streams per token, each stream. The matrix's input is
 * reported for one stream of each token, by turns. */
static bool draft_begin(forward_batch *b, const part_spec *p, float *x, size_t stride) {
    const model_part *tail = b->layer->plan->tail.part;
    size_t width = b->model->sizes.width, s = b->stride, n = model_streams(b->model, tail);
    float *both = b->work, *hidden = both + width * s, *streams = tail ? batch_carried(b, tail) : x;
    batch_norm_slot(b, WEIGHT_NEXTN_ENORM, batch_carried(b, p->part), b->residual_stride, width, both, s);
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
        batch_multiply(b, WEIGHT_NEXTN_EH_PROJ, 0, both, s, b->part, s, b->tokens);
        batch_copy(b, streams + i * width * stride, stride, b->part, s, width);
    }
    return true;
}

const layer_part part_draft = {.carried_rows = carries_hidden_state, /* the token's embedding */
                               .embed = carries_embedding,
                               .find_tensors = draft_find_tensors,
                               .scratch_rows = draft_scratch_rows,
                               .begin = draft_begin};
