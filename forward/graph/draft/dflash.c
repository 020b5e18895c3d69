/* The mixer of DFlash drafts is attention (multi_head.c). Keys and values come from the target's hidden
 * states, unnormed, and from the block's tokens behind the layer's norm. The keys that a token sees and its
 * position are set before a layer is run. DFlash 2 has convolutions over a block's tokens on both sides of
 * both sublayers. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "forward/graph/draft/target_parts.h"
#include "forward/graph/experts/experts.h"

enum { DFLASH_CANDIDATES = 64 };

/* The numbers of a DFlash draft. */
typedef struct dflash_numbers {
    attention_numbers attention;
    size_t block; /* tokens that it was trained with */
    size_t taps,
        group;         /* of convolutions: tokens, and features that share what is added; 0: there are none */
    size_t candidates; /* tokens of which a selector takes one; 0: there is no selector */
    uint32_t mask;     /* token */
    bool is_causal;    /* tokens of a block do not see those behind them */
    bool predicts_at_once; /* the anchor predicts, too */
    /* DSpark: what is added to logits behind a token is markov_w2 (markov_w1 of the token). NULL: there is
     * none */
    const model_tensor *markov[2];
    const model_tensor *previous, *next, *gate; /* the selector's */
} dflash_numbers;

static const dflash_numbers *dflash_numbers_of(const forward_model *m) {
    return model_numbers(m, &mixer_dflash);
}

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

/* ---- the head ---- */

/* The tokens that a block proposes: at each place the most likely one; with DSpark the most likely after the
 * previous one, whose own part of the logits is added; with DFlash 2 the one of the most likely few with the
 * highest score of a selector after the previous one. */

/* Products with a matrix of the whole model, a run of rows at a time. */
typedef struct head_matrix {
    const model_tensor *t; /* NULL: there is none */
    void *rows;
} head_matrix;

typedef struct dflash_head {
    forward_batch *b;
    const forward_model *m;
    const dflash_numbers *n;
    forward_tile *tile;
    const dflash_ends *of;
    uint32_t *tokens;
    size_t rank, candidates, stride; /* candidates: that are kept; stride: of all below */
    float *z, *added;                /* [rows of a tile][column] */
    float *behind;                   /* [rank][block]: of the token before */
    float *best;                     /* [candidate][column], falling */
    uint32_t *id;                    /* the same */
    float *row, *decoded;            /* of a matrix with rank columns */
    head_matrix markov, gate;
} dflash_head;

/* ---- matrices ---- */

static bool head_multiply(dflash_head *h, head_matrix *w, size_t first, size_t rows, const float *x,
                          size_t x_stride, float *y, size_t tokens, gq_error *e) {
    uint64_t columns = w->t->ne[0];
    if (!model_read(h->m->file, w->t, first * columns, rows * columns, w->rows, e)) return false;
    matmul_weights of = {w->rows, w->t->type->id, rows, columns};
    matmul_run(h->b->products, &of, x, x_stride, y, h->stride, tokens);
    return true;
}

/* A row of a matrix, decoded; that of a token which it lacks is 0. */
static bool head_read_row(dflash_head *h, const model_tensor *t, uint32_t row, float *to, gq_error *e) {
    memset(to, 0, t->ne[0] * sizeof *to);
    return row >= t->ne[1] || model_read_row(h->m, t, row, h->row, to, e);
}

/* ---- candidates ---- */

/* Takes a tile's logits; of equal ones the first token stays. */
static void head_keep(dflash_head *h, size_t first, size_t rows, size_t columns) {
    size_t s = h->stride, last = h->candidates - 1;
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < columns; c++) {
            float z = h->z[r * s + c];
            if (!(z > h->best[last * s + c])) continue;
            size_t k = last;
            for (; k > 0 && z > h->best[(k - 1) * s + c]; k--)
                h->best[k * s + c] = h->best[(k - 1) * s + c], h->id[k * s + c] = h->id[(k - 1) * s + c];
            h->best[k * s + c] = z, h->id[k * s + c] = (uint32_t)(first + r);
        }
}

static uint32_t head_of_target(const dflash_head *h, uint32_t id) {
    if (!h->of->ids || id == DFLASH_NONE) return id;
    int64_t own = h->of->ids[id];
    return own >= 0 && own < DFLASH_NONE ? (uint32_t)own : DFLASH_NONE;
}

/* The candidates of n columns, from `column` on. */
static bool head_find(dflash_head *h, size_t column, size_t n, gq_error *e) {
    size_t words = h->m->sizes.vocabulary;
    for (size_t k = 0; k < h->candidates; k++)
        for (size_t c = 0; c < n; c++)
            h->best[k * h->stride + c] = -INFINITY, h->id[k * h->stride + c] = DFLASH_NONE;
    for (size_t first = 0, rows; first < words; first += rows) {
        rows = min((size_t)h->tile->most, words - first);
        if (!forward_tile_read(h->tile, first, rows, e) ||
            !forward_logits(h->b, h->tile, h->of->normed + column, h->of->stride, n, h->z, h->stride, e) ||
            (h->markov.t && !head_multiply(h, &h->markov, first, rows, h->behind, h->stride, h->added, n, e)))
            return false;
        for (size_t r = 0; h->markov.t && r < rows; r++)
            for (size_t c = 0; c < n; c++) h->z[r * h->stride + c] += h->added[r * h->stride + c];
        head_keep(h, first, rows, n);
    }
    return true;
}

/* ---- a draft ---- */

static uint32_t head_before(const dflash_head *h, size_t block, size_t i) {
    return i ? h->tokens[block * h->of->drafted + i - 1] : h->of->anchors[block];
}

static bool head_choose_likeliest(dflash_head *h, gq_error *e) {
    const dflash_ends *of = h->of;
    if (!head_find(h, 0, of->drafted * of->step, e)) return false;
    for (size_t i = 0; i < of->drafted; i++)
        for (size_t j = 0; j < of->blocks; j++)
            h->tokens[j * of->drafted + i] = head_of_target(h, h->id[i * of->step + j]);
    return true;
}

static bool head_choose_markov(dflash_head *h, gq_error *e) {
    const dflash_ends *of = h->of;
    for (size_t i = 0; i < of->drafted; i++) {
        for (size_t j = 0; j < of->blocks; j++) {
            if (!head_read_row(h, h->n->markov[0], head_before(h, j, i), h->decoded, e)) return false;
            for (size_t r = 0; r < h->rank; r++) h->behind[r * h->stride + j] = h->decoded[r];
        }
        if (!head_find(h, i * of->step, of->blocks, e)) return false;
        for (size_t j = 0; j < of->blocks; j++) h->tokens[j * of->drafted + i] = head_of_target(h, h->id[j]);
    }
    return true;
}

/* The candidate of a block whose logit and value behind the token before are largest together. */
static bool head_select(dflash_head *h, size_t i, size_t j, uint32_t *token, gq_error *e) {
    size_t column = i * h->of->step + j;
    float most = -INFINITY, *previous = h->decoded, *next = h->decoded + h->rank;
    if (!head_read_row(h, h->n->previous, head_before(h, j, i), previous, e)) return false;
    for (size_t r = 0; r < h->rank; r++) previous[r] *= h->behind[r * h->stride + j];
    *token = DFLASH_NONE;
    for (size_t k = 0; k < h->candidates; k++) {
        uint32_t id = head_of_target(h, h->id[k * h->stride + column]);
        float score = 0;
        if (id == DFLASH_NONE) continue;
        if (!head_read_row(h, h->n->next, id, next, e)) return false;
        for (size_t r = 0; r < h->rank; r++) score += next[r] * previous[r];
        score += h->best[k * h->stride + column];
        if (score > most) most = score, *token = id;
    }
    return true;
}

static bool head_choose_selected(dflash_head *h, gq_error *e) {
    const dflash_ends *of = h->of;
    if (!head_find(h, 0, of->drafted * of->step, e)) return false;
    for (size_t i = 0; i < of->drafted; i++) {
        if (!head_multiply(h, &h->gate, 0, h->rank, of->normed + i * of->step, of->stride, h->behind,
                           of->blocks, e))
            return false;
        for (size_t j = 0; j < of->blocks; j++)
            if (!head_select(h, i, j, &h->tokens[j * of->drafted + i], e)) return false;
    }
    return true;
}

/* ---- set up ---- */

static bool head_set_up(dflash_head *h, gq_error *e) {
    const dflash_numbers *n = h->n;
    size_t most = h->tile->most;
    memory_ledger l = {.failed = false};
    if (!n)
        return gq_fail(e, "%s: not a draft model that predicts blocks of tokens (DFlash, DSpark)",
                       h->m->path);
    h->markov.t = n->markov[1], h->gate.t = n->gate;
    h->candidates = n->candidates ? n->candidates : 1;
    h->rank = n->gate ? n->gate->ne[1] : n->markov[0] ? n->markov[0]->ne[0] : 0;
    h->stride = forward_stride(h->of->drafted * h->of->step);
    h->z = forward_activations_take(&l, most, h->stride);
    h->best = forward_activations_take(&l, h->candidates, h->stride);
    h->id = memory_take(&l, h->candidates * h->stride, sizeof *h->id);
    h->behind = forward_activations_take(&l, h->rank, h->stride);
    h->row = memory_take(&l, h->rank, sizeof *h->row);
    h->decoded = memory_take(&l, 2 * h->rank, sizeof *h->decoded);
    if (h->markov.t) {
        h->added = forward_activations_take(&l, most, h->stride);
        h->markov.rows = memory_take(&l, most, model_row_bytes(h->markov.t));
    }
    if (h->gate.t) h->gate.rows = memory_take(&l, h->rank, model_row_bytes(h->gate.t));
    return memory_had(&l, e);
}

bool forward_dflash_choose(forward_batch *b, forward_tile *t, const dflash_ends *of, uint32_t *tokens,
                           gq_error *e) {
    dflash_head h = {
        .b = b, .m = b->model, .n = dflash_numbers_of(b->model), .tile = t, .of = of, .tokens = tokens};
    bool ok = head_set_up(&h, e);
    ok = ok && (h.gate.t     ? head_choose_selected(&h, e)
                : h.markov.t ? head_choose_markov(&h, e)
                             : head_choose_likeliest(&h, e));
    free(h.z), free(h.best), free(h.id), free(h.behind), free(h.row), free(h.decoded);
    free(h.added), free(h.markov.rows), free(h.gate.rows);
    return ok;
}
