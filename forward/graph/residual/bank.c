/* The bank of hidden states before earlier layers (residual.h). Every `every`-th layer adds the residual stream
 * to it before its mixer, and the mixer's output alone becomes the new residual stream. The bank is carried with
 * the hidden state from layer to layer. Tokens are taken in spans, with sums over features in double. */
#include "forward/graph/residual/residual.h"

#include <math.h>
#include <string.h>

typedef struct bank_numbers {
    size_t every; /* 0: there is no bank */
    const model_tensor *last_score;
} bank_numbers;

typedef struct bank_scratch {
    float *mixed;  /* [width][stride] */
    float *shares; /* [threads][hidden states][ELEMENT_SPAN] */
    size_t banked; /* most hidden states that are mixed */
} bank_scratch;

static uint64_t bank_hidden_states(const forward_model *m, const bank_numbers *n) {
    return n->every ? ceil_div(m->sizes.layers, n->every) : 0;
}

static void bank_read_keys(forward_model *, key_reader *r, model_sublayer *p) {
    bank_numbers *n = p->numbers;
    n->every = key_number_needed(r, "attn_res.block_size", 0, MODEL_MOST);
}

static void bank_find_model_tensors(tensor_finder *f, model_sublayer *p) {
    bank_numbers *n = p->numbers;
    if (n->every)
        n->last_score = tensors_take(f, "output_res_score.weight", REQUIRED, SHAPE(f->m->sizes.width));
}

static void bank_find_tensors(tensor_finder *f, const sublayer_spec *p) {
    const bank_numbers *n = p->sublayer->numbers;
    if (!n->every) return;
    tensors_take_weight(f, WEIGHT_ATTN_RES_SCORE, REQUIRED, SHAPE(f->m->sizes.width));
    tensors_take_weight(f, WEIGHT_FFN_RES_SCORE, REQUIRED, SHAPE(f->m->sizes.width));
}

static uint64_t bank_carried_rows(const forward_model *m, const model_sublayer *p, size_t) {
    return m->sizes.width * bank_hidden_states(m, p->numbers);
}

static void bank_lay_out(forward_batch *b, const model_sublayer *p, scratch *s) {
    const bank_numbers *n = p->numbers;
    bank_scratch *own = batch_own(b, p);
    _Static_assert(sizeof *own <= sizeof b->own->bytes, "BATCH_OWN_BYTES");
    if (!n->every) return;
    own->banked = bank_hidden_states(b->model, n) + 1;
    own->mixed = scratch_take(s, b->model->sizes.width, b->stride, sizeof(float));
    own->shares = scratch_take(s, own->banked, s->threads * ELEMENT_SPAN, sizeof(float));
}

/* States to mix: `banked` of the bank, then x. */
typedef struct bank_mixture {
    forward_batch *b;
    const bank_scratch *own;
    const float *score, *carried, *x;
    size_t carried_stride, x_stride, banked;
} bank_mixture;

static const float *hidden_state_at(const bank_mixture *m, size_t i, size_t *stride) {
    *stride = i < m->banked ? m->carried_stride : m->x_stride;
    return i < m->banked ? m->carried + i * m->b->model->sizes.width * m->carried_stride : m->x;
}

/* z = the products of norm(x), without weights, with the score's weights, for n tokens. */
static void score_span(const bank_mixture *m, const float *x, size_t stride, float *z, size_t n) {
    size_t width = m->b->model->sizes.width;
    double product[ELEMENT_SPAN] = {0}, squares[ELEMENT_SPAN] = {0};
    for (size_t c = 0; c < width; c++)
        for (size_t i = 0; i < n; i++) {
            double v = (double)x[c * stride + i];
            product[i] += v * (double)m->score[c], squares[i] += v * v;
        }
    for (size_t i = 0; i < n; i++)
        z[i] = (float)(product[i] / sqrt(squares[i] / (double)width + (double)m->b->model->eps));
}

static void mix_span(void *data, size_t span, int thread) {
    const bank_mixture *m = data;
    const forward_model *model = m->b->model;
    size_t first = span * ELEMENT_SPAN, width = model->sizes.width, s = m->b->stride, stride;
    size_t n = m->b->tokens - first < ELEMENT_SPAN ? m->b->tokens - first : ELEMENT_SPAN;
    float *shares = m->own->shares + (size_t)thread * m->own->banked * ELEMENT_SPAN;
    float *mixed = m->own->mixed + first;
    for (size_t i = 0; i <= m->banked; i++) {
        const float *x = hidden_state_at(m, i, &stride) + first;
        score_span(m, x, stride, shares + i * ELEMENT_SPAN, n);
    }
    model->elements->softmax(
        &(softmax_task){.s = shares, .stride = ELEMENT_SPAN, .rows = m->banked + 1, .n = n, .scale = 1});
    for (size_t c = 0; c < width; c++) memset(mixed + c * s, 0, n * sizeof *mixed);
    for (size_t i = 0; i <= m->banked; i++) {
        const float *x = hidden_state_at(m, i, &stride) + first, *share = shares + i * ELEMENT_SPAN;
        for (size_t c = 0; c < width; c++)
            for (size_t t = 0; t < n; t++) mixed[c * s + t] += share[t] * x[c * stride + t];
    }
}

static const float *bank_mix(const bank_mixture *m, size_t *stride) {
    threads_for(m->b->pool, ceil_div(m->b->tokens, ELEMENT_SPAN), 1, mix_span, (void *)m);
    *stride = m->b->stride;
    return m->own->mixed;
}

const float *bank_read(forward_batch *b, weight_slot score, const float *x, size_t *stride) {
    const sublayer_spec *p = &b->layer->plan->bank;
    const bank_numbers *n = p->sublayer ? p->sublayer->numbers : NULL;
    if (!n || !n->every) return x;
    size_t i = b->layer->index;
    size_t banked = score == WEIGHT_ATTN_RES_SCORE ? ceil_div(i, n->every) : i / n->every + 1;
    if (!banked) return x;
    return bank_mix(&(bank_mixture){.b = b,
                                    .own = batch_own(b, p->sublayer),
                                    .score = b->layer->values[score],
                                    .carried = batch_carried(b, p->sublayer),
                                    .x = x,
                                    .carried_stride = b->residual_stride,
                                    .x_stride = *stride,
                                    .banked = banked},
                    stride);
}

void bank_take(forward_batch *b, float *x, size_t stride) {
    const sublayer_spec *p = &b->layer->plan->bank;
    const bank_numbers *n = p->sublayer ? p->sublayer->numbers : NULL;
    size_t i = b->layer->index, width = b->model->sizes.width;
    if (!n || !n->every || i % n->every != 0) return;
    float *to = batch_carried(b, p->sublayer) + i / n->every * width * b->residual_stride;
    for (size_t c = 0; c < width; c++) {
        memcpy(to + c * b->residual_stride, x + c * stride, b->tokens * sizeof *x);
        memset(x + c * stride, 0, b->tokens * sizeof *x);
    }
}

/* The mixture behind the last layer, into y. */
static bool bank_finish(forward_batch *b, const model_sublayer *p, const float *x, size_t stride, float *y,
                        size_t y_stride) {
    const forward_model *m = b->model;
    const bank_numbers *n = p->numbers;
    const float *from = x;
    size_t from_stride = stride;
    if (n->every) {
        if (!model_read_values(m, n->last_score, b->normed, b->output, b->e)) return false;
        from = bank_mix(&(bank_mixture){.b = b,
                                        .own = batch_own(b, p),
                                        .score = b->output,
                                        .carried = x + p->carried * stride,
                                        .x = x,
                                        .carried_stride = stride,
                                        .x_stride = stride,
                                        .banked = bank_hidden_states(m, n)},
                        &from_stride);
    }
    if (from != y) batch_copy(b, y, y_stride, from, from_stride, m->sizes.width);
    return true;
}

const sublayer_kind sublayer_bank = {
    .model_bytes = sizeof(bank_numbers),
    .read_keys = bank_read_keys,
    .find_model_tensors = bank_find_model_tensors,
    .find_tensors = bank_find_tensors,
    .carried_rows = bank_carried_rows,
    .finish = bank_finish,
    .lay_out = bank_lay_out,
};
