/* The mixer of DFlash drafts is attention (multi_head.c). Keys and values come from the target's hidden states,
 * unnormed, and from the block's tokens behind the layer's norm. The keys that a token sees and its position are
 * set before a layer is run. DFlash 2 has convolutions over a block's tokens on both sides of both sublayers. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "forward/graph/draft/target_parts.h"
#include "forward/graph/experts/experts.h"

enum { DFLASH_CANDIDATES = 64 };

typedef struct dflash_layer {
    attention_layer attention;
    bool is_local;
} dflash_layer;

typedef struct dflash_scratch {
    attention_scratch attention;
    float *angles;   /* cosines, then sines: [2][pair][position] */
    uint32_t *begin; /* per column, the first one of its block; NO_BLOCK: it has a state of the target; then
                        positions */
    uint64_t *masks; /* [is_local] attention.chosen */
} dflash_scratch;

enum { NO_BLOCK = UINT32_MAX };

/* ---- setting up ---- */

static void dflash_read_convolutions(forward_model *m, key_reader *r, dflash_numbers *n) {
    if (!model_tensor_named(m->file, "selector_hidden.weight")) return;
    n->taps = key_number_needed(r, "conv_kernel_size", 1, 1024);
    n->group = key_number_needed(r, "conv_group_size", 1, MODEL_MOST);
    n->candidates = key_number_needed(r, "selector_top_k", 1, DFLASH_CANDIDATES);
    if (r->ok && m->sizes.width % n->group != 0)
        key_fail(r, "conv_group_size", "is %zu, expected a divisor of the width, %zu", n->group,
                 m->sizes.width);
}

/* Text is rotated by time alone, whatever other sections the target has. */
static void dflash_check_sections(key_reader *r) {
    key_list sections = key_list_of(r, "rope.dimension_sections");
    for (uint64_t i = 1; sections.kv && i < 4; i++)
        if (key_number_at(r, &sections, i, 0, 0, MODEL_MOST) && r->ok)
            key_fail(r, sections.name, "has more than one section, expected one for a draft model");
}

static void dflash_read_activation(forward_model *m, key_reader *r) {
    static const char *const names[] = {"silu", "gelu", "gelu_pytorch_tanh"};
    activation act =
        key_choice(r, "hidden_activation", names, sizeof names / sizeof *names) ? ACT_GELU : ACT_SILU;
    for (size_t i = 0; i < m->sizes.layers; i++) m->layers[i].act.act = act;
}

static void dflash_read_keys(forward_model *m, key_reader *r, model_sublayer *p) {
    dflash_numbers *n = p->numbers;
    bool has_markov = model_tensor_named(m->file, "markov_w1.weight");
    if (key_there(r, "hyper_connection.count"))
        key_fail(r, "hyper_connection.count",
                 "belongs to a draft of DeepSeek V4, whose layers (hyper-connections, compressed keys, "
                 "experts) are not supported; measure its acceptance with llama.cpp");
    mixer_attention.read_keys(m, r, p);
    if (r->ok && m->target->sizes.width != m->sizes.width)
        key_fail(r, "embedding_length",
                 "is %zu, but the hidden size of %s is %zu: the draft was made for another target model",
                 m->sizes.width, m->target->path, m->target->sizes.width);
    draft_read_layers(m, r);
    m->norms_fused = true;
    n->mask = (uint32_t)key_number_needed(r, ":tokenizer.ggml.mask_token_id", 0, UINT32_MAX);
    n->is_causal = key_bool(r, "attention.causal", false);
    n->predicts_at_once = has_markov && key_bool(r, "sample_from_anchor", true);
    n->block = key_number(r, "block_size", 16, n->predicts_at_once ? 1 : 2, 1 << 20);
    dflash_read_convolutions(m, r, n), dflash_check_sections(r);
    dflash_read_activation(m, r);
    double scores = key_float(r, "attention.scale", 0, 0, 1e6);
    n->attention.output_scale = (float)key_scale(r, "attention.value_scale", 1);
    if (scores != 0) n->attention.score_scale = (float)scores;
    n->attention.blocks.is_given = true;
    for (size_t i = 0; i < m->sizes.layers; i++) {
        dflash_layer *l = model_layer_numbers(m, p, i);
        l->is_local = l->attention.is_local, l->attention.is_local = false;
    }
}

static void dflash_find_markov(tensor_finder *f, dflash_numbers *n) {
    const forward_sizes *of = &f->m->target->sizes;
    const model_tensor *w1 = model_tensor_named(f->m->file, "markov_w1.weight");
    presence is = w1 ? REQUIRED : ABSENT;
    uint64_t rank = w1 ? w1->ne[0] : 1;
    n->markov[0] = tensors_take(f, "markov_w1.weight", is, SHAPE(rank, of->vocabulary));
    n->markov[1] = tensors_take(f, "markov_w2.weight", is, SHAPE(rank, f->m->sizes.vocabulary));
    tensors_ignore(f, "conf_proj.weight"), tensors_ignore(f, "conf_proj.bias"); /* how sure it is */
}

static void dflash_find_selector(tensor_finder *f, dflash_numbers *n) {
    const forward_sizes *of = &f->m->target->sizes;
    const model_tensor *gate = model_tensor_named(f->m->file, "selector_hidden.weight");
    presence is = n->candidates ? REQUIRED : ABSENT;
    uint64_t rank = gate ? gate->ne[1] : 1;
    n->gate = tensors_take(f, "selector_hidden.weight", is, SHAPE(f->m->sizes.width, rank));
    n->previous = tensors_take(f, "selector_predecessor.weight", is, SHAPE(rank, of->vocabulary));
    n->next = tensors_take(f, "selector_successor.weight", is, SHAPE(rank, of->vocabulary));
}

/* The scale and cap of logits matter here, as a selector adds to them. */
static void dflash_find_model_tensors(tensor_finder *f, model_sublayer *p) {
    dflash_numbers *n = p->numbers;
    forward_model *m = f->m;
    key_reader r = {.facts = model_expected_facts(m), .file = m->path, .e = f->e, .ok = true};
    mixer_attention.find_model_tensors(f, p);
    dflash_find_markov(f, n), dflash_find_selector(f, n);
    m->embedding_scale = (float)key_scale(&r, "embedding_scale", 1);
    if (n->candidates) {
        m->sizes.logit_factor = (float)key_scale(&r, "logit_scale", 1);
        m->final_cap = (float)key_float(&r, "final_logit_softcapping", 0, 0, 1e6);
    }
    f->ok = f->ok && r.ok;
}

static void dflash_find_convolution(tensor_finder *f, weight_slot base, weight_slot added) {
    const dflash_numbers *n = dflash_numbers_of(f->m);
    uint64_t d = f->m->sizes.width;
    presence is = n->taps ? REQUIRED : ABSENT;
    tensors_take_weight(f, base, is, SHAPE(d, n->taps, 2));
    tensors_take_weight(f, added, is, SHAPE(d, n->taps ? 2 * n->taps * (d / n->group) : 1));
}

static void dflash_find_tensors(tensor_finder *f, const sublayer_spec *p) {
    uint64_t d = f->m->sizes.width;
    mixer_attention.find_tensors(f, p);
    dflash_find_convolution(f, WEIGHT_ATTN_CONV_BASE, WEIGHT_ATTN_CONV_PROJ);
    if (f->index > 0) return;
    f->l->weight[WEIGHT_DRAFT_FC] = tensors_take(f, "fc.weight", REQUIRED, SHAPE(f->m->sources.rows, d));
    f->l->weight[WEIGHT_DRAFT_NORM] = tensors_take(f, "enc.output_norm.weight", REQUIRED, SHAPE(d));
}

dflash_shape forward_dflash_shape(const forward_model *draft, size_t most) {
    const dflash_numbers *n = dflash_numbers_of(draft);
    size_t first = n->predicts_at_once ? 0 : 1, drafted = min(most, n->block - first);
    return (dflash_shape){.tokens = drafted + first, .drafted = drafted, .first = first, .mask = n->mask};
}

/* ---- memory ---- */

static uint64_t dflash_added_rows(const forward_model *m) {
    const dflash_numbers *n = dflash_numbers_of(m);
    return n->taps ? 2 * n->taps * (m->sizes.width / n->group) : 0;
}

/* Scratch after that of attention: the input, and what is added to a convolution's weights. */
static uint64_t dflash_scratch_rows(const forward_model *m, const layer_spec *l, const sublayer_spec *p) {
    return mixer_attention.scratch_rows(m, l, p) + m->sizes.width + dflash_added_rows(m);
}

static size_t dflash_angle_rows(const model_sublayer *p) {
    const attention_numbers *n = p->numbers;
    return n->rope.angles[0].rotated / 2;
}

static size_t dflash_mask_words(const forward_batch *b) { return ceil_div(b->context, QUERIES) * b->context; }

static void dflash_lay_out(forward_batch *b, const model_sublayer *p, scratch *s) {
    dflash_scratch *own = batch_own(b, p);
    _Static_assert(sizeof *own <= sizeof b->own->bytes, "BATCH_OWN_BYTES");
    mixer_attention.lay_out(b, p, s);
    own->angles =
        scratch_take(s, 2 * dflash_angle_rows(p), own->attention.rope.rotation_stride, sizeof *own->angles);
    own->begin = scratch_take(s, b->context, 2, sizeof *own->begin);
    own->masks = scratch_take(s, 2, dflash_mask_words(b), sizeof *own->masks);
}

static bool dflash_prepare(forward_batch *b, const model_sublayer *p, gq_error *e) {
    const dflash_scratch *own = batch_own(b, p);
    const rope_tables *t = &own->attention.rope;
    size_t values = dflash_angle_rows(p) * t->rotation_stride;
    if (!mixer_attention.prepare(b, p, e)) return false;
    memcpy(own->angles, t->cosine[0], values * sizeof *own->angles);
    memcpy(own->angles + values, t->sine[0], values * sizeof *own->angles);
    return true;
}

/* ---- places ---- */

/* Column by column, the angles of its position. */
static void dflash_rotate(const dflash_scratch *own, const model_sublayer *p, const uint32_t *position,
                          size_t columns) {
    const rope_tables *t = &own->attention.rope;
    size_t rows = dflash_angle_rows(p), ts = t->rotation_stride;
    for (size_t row = 0; row < rows; row++)
        for (size_t c = 0; c < columns; c++) {
            t->cosine[0][row * ts + c] = own->angles[row * ts + position[c]];
            t->sine[0][row * ts + c] = own->angles[(rows + row) * ts + position[c]];
        }
}

/* Whether a token of a block sees another column. */
static bool dflash_attends(const dflash_numbers *n, const dflash_scratch *own, const uint32_t *position,
                           size_t query, size_t key, bool is_local) {
    bool in_block = own->begin[key] == own->begin[query],
         in_text = own->begin[key] == NO_BLOCK && position[key] < position[own->begin[query]];
    if (!in_block && !in_text) return false;
    if (in_block && n->is_causal && key > query) return false;
    return !is_local || position[key] + n->attention.window > position[query];
}

static void dflash_fill_masks(const forward_batch *b, const dflash_numbers *n, const dflash_scratch *own,
                              const uint32_t *position) {
    size_t columns = b->context;
    memset(own->masks, 0, 2 * dflash_mask_words(b) * sizeof *own->masks);
    for (int local = 0; local < 2; local++)
        for (size_t q = 0; q < columns; q++) {
            uint64_t bit = UINT64_C(1) << q % QUERIES,
                     *keys = own->masks + local * dflash_mask_words(b) + q / QUERIES * columns;
            if (own->begin[q] == NO_BLOCK) {
                keys[q] |= bit; /* what a state of the target gives is not looked at */
                continue;
            }
            for (size_t k = 0; k < columns; k++)
                if (dflash_attends(n, own, position, q, k, local)) keys[k] |= bit;
        }
}

void forward_dflash_place(forward_batch *b, const dflash_blocks *of) {
    const model_sublayer *p = b->model->layers[0].mixer.sublayer;
    const dflash_scratch *own = batch_own(b, p);
    uint32_t *position = own->begin + b->context;
    for (size_t c = 0; c < b->context; c++) {
        size_t at = c - of->hidden_states, block = at / of->tokens;
        bool is_hidden_state = c < of->hidden_states, is_in_block = !is_hidden_state && block < of->n;
        own->begin[c] = is_hidden_state ? NO_BLOCK : (uint32_t)(is_in_block ? c - at % of->tokens : c);
        position[c] = is_hidden_state ? (uint32_t)c
                      : is_in_block   ? (uint32_t)(of->positions[block] + at % of->tokens)
                                      : 0;
    }
    dflash_rotate(own, p, position, b->context);
    dflash_fill_masks(b, p->numbers, own, position);
}

void forward_dflash_enter(forward_batch *b, const dflash_blocks *of, const float *g, size_t g_stride,
                          float *x, size_t stride) {
    const model_sublayer *p = b->model->layers[0].mixer.sublayer;
    size_t width = b->model->sizes.width;
    float *hidden_states = x + p->carried * stride;
    for (size_t c = 0; c < width; c++) {
        memset(x + c * stride, 0, of->hidden_states * sizeof *x);
        memcpy(hidden_states + c * stride, g + c * g_stride, of->hidden_states * sizeof *x);
    }
}

/* ---- a run ---- */

typedef struct dflash_rows {
    const forward_batch *b;
    const dflash_scratch *own;
    const float *base, *added; /* [side][tap][feature]; [side][tap][group] rows, of one side */
    float *x;
    size_t group, groups, taps, width;
} dflash_rows;

/* A sum over the tokens of the block up to the own one, from its last token on, so that it can take their
 * place. */
static void dflash_convolve_row(void *data, size_t c, int) {
    const dflash_rows *of = data;
    const forward_batch *b = of->b;
    float *x = of->x + c * b->stride;
    for (size_t t = b->tokens; t-- > 0;) {
        size_t begin = of->own->begin[t];
        if (begin == NO_BLOCK) continue;
        float sum = 0;
        for (size_t tap = 0; tap < of->taps && tap <= t - begin; tap++)
            sum += (of->base[tap * of->width + c] +
                    of->added[(tap * of->groups + c / of->group) * b->stride + t]) *
                   x[t - tap];
        x[t] = sum;
    }
}

/* side 0: before a sublayer; 1: behind it. */
static void dflash_convolve(forward_batch *b, weight_slot base, const float *added, int side, float *x) {
    const dflash_numbers *n = dflash_numbers_of(b->model);
    const model_sublayer *p = b->model->layers[0].mixer.sublayer;
    size_t width = b->model->sizes.width, groups = width / n->group;
    dflash_rows of = {b,
                      batch_own(b, p),
                      b->layer->values[base] + side * n->taps * width,
                      added + side * n->taps * groups * b->stride,
                      x,
                      n->group,
                      groups,
                      n->taps,
                      width};
    threads_for(b->pool, width, THREADS_EVEN, dflash_convolve_row, &of);
}

static bool dflash_run(forward_batch *b, const sublayer_spec *p, const float *x, size_t stride) {
    const dflash_numbers *n = p->sublayer->numbers;
    const dflash_layer *l = p->numbers;
    dflash_scratch *own = batch_own(b, p->sublayer);
    size_t s = b->stride, width = b->model->sizes.width, hidden_states = 0;
    float *in = b->work + mixer_attention.scratch_rows(b->model, b->layer->plan, p) * s,
          *added = in + width * s;
    batch_copy(b, in, s, x, stride, width);
    if (n->taps && !batch_apply(b, WEIGHT_ATTN_CONV_PROJ, 0, in, s, added, s)) return false;
    if (n->taps) dflash_convolve(b, WEIGHT_ATTN_CONV_BASE, added, 0, in);
    while (hidden_states < b->context && own->begin[hidden_states] == NO_BLOCK) hidden_states++;
    for (size_t c = 0; c < width; c++)
        memcpy(in + c * s, batch_carried(b, p->sublayer) + c * b->residual_stride,
               hidden_states * sizeof *in);
    own->attention.chosen = own->masks + l->is_local * dflash_mask_words(b);
    if (!mixer_attention.run(b, p, in, s)) return false;
    if (n->taps) dflash_convolve(b, WEIGHT_ATTN_CONV_BASE, added, 1, b->output);
    return true;
}

const sublayer_kind mixer_dflash = {.model_bytes = sizeof(dflash_numbers),
                                    .layer_bytes = sizeof(dflash_layer),
                                    .read_keys = dflash_read_keys,
                                    .find_model_tensors = dflash_find_model_tensors,
                                    .find_tensors = dflash_find_tensors,
                                    .carried_rows = carries_hidden_state, /* the target's, behind its own */
                                    .scratch_rows = dflash_scratch_rows,
                                    .lay_out = dflash_lay_out,
                                    .prepare = dflash_prepare,
                                    .run = dflash_run};

/* ---- the feed-forward sublayer ---- */

static void dflash_find_ffn(tensor_finder *f, const sublayer_spec *p) {
    ffn_gated.find_tensors(f, p);
    dflash_find_convolution(f, WEIGHT_FFN_CONV_BASE, WEIGHT_FFN_CONV_PROJ);
}

static uint64_t dflash_ffn_rows(const forward_model *m, const layer_spec *l, const sublayer_spec *p) {
    return ffn_gated.scratch_rows(m, l, p) + m->sizes.width + dflash_added_rows(m);
}

static bool dflash_run_ffn(forward_batch *b, const sublayer_spec *p, const float *x, size_t stride) {
    size_t s = b->stride, width = b->model->sizes.width;
    float *in = b->work + ffn_gated.scratch_rows(b->model, b->layer->plan, p) * s, *added = in + width * s;
    if (!dflash_numbers_of(b->model)->taps) return ffn_gated.run(b, p, x, stride);
    batch_copy(b, in, s, x, stride, width);
    if (!batch_apply(b, WEIGHT_FFN_CONV_PROJ, 0, in, s, added, s)) return false;
    dflash_convolve(b, WEIGHT_FFN_CONV_BASE, added, 0, in);
    if (!ffn_gated.run(b, p, in, s)) return false;
    dflash_convolve(b, WEIGHT_FFN_CONV_BASE, added, 1, b->output);
    return true;
}

const sublayer_kind ffn_dflash = {.layer_bytes = sizeof(ffn_layer),
                                  .find_tensors = dflash_find_ffn,
                                  .scratch_rows = dflash_ffn_rows,
                                  .run = dflash_run_ffn};
