/* The mixer with keys and values per head. A layer makes q, k and v of the input, normalizes and rotates q
 * and k, attends (attention.c), and multiplies with attn_output. */
#include "forward/graph/attention/attention.h"
#include "forward/graph/residual/residual.h"

#include <math.h>
#include <string.h>

static void attention_read_scores(attention_numbers *n, const arch_graph *a, key_reader *r) {
    n->score_scale = (float)(1 / sqrt((double)n->head));
    n->alibi = a->alibi;
    if (a->alibi_key) n->alibi = (float)key_float(r, "attention.max_alibi_bias", 0, 0, 1e3);
    if (a->clamp == REQUIRED) key_float_needed(r, "attention.clamp_kqv", 0, 1e9);
    if (a->clamp != ABSENT) n->clamp = (float)key_float(r, "attention.clamp_kqv", 0, 0, 1e9);
}

/* Layers from `own` on use keys and values of the last own layer of their kind: the last layers before `own`
 * are one with a window and one without. */
static void attention_share_keys(forward_model *m, key_reader *r, model_sublayer *p) {
    const char *key = "attention.shared_kv_layers";
    attention_numbers *n = p->numbers;
    size_t layers = m->sizes.layers, fixed = m->arch->graph.own_kv_layers, row = 0;
    n->shared = fixed ? layers - (layers < fixed ? layers : fixed) : key_number(r, key, 0, 0, layers - 1);
    size_t own = layers - n->shared;
    const attention_layer *kept[2] = {NULL, NULL}; /* [is_local] */
    for (size_t i = own < 2 ? 0 : own - 2; n->shared && i < own; i++) {
        attention_layer *l = model_layer_numbers(m, p, i);
        l->lends_kv = true, l->kept = row;
        row += l->kv_heads * (l->head + l->value);
        kept[i == own - 2] = l;
    }
    for (size_t i = own; i < layers && r->ok; i++) {
        attention_layer *l = model_layer_numbers(m, p, i);
        const attention_layer *from = kept[l->is_local];
        if (!from || from->kv_heads != l->kv_heads || from->head != l->head || from->value != l->value) {
            key_fail(r, key, "is %zu, but layer %zu has no keys and values that layer %zu could share",
                     n->shared, own - (l->is_local ? 2 : 1), i);
            return;
        }
        l->borrows_kv = true, l->kept = from->kept;
    }
}

/* Rows for the keys and values that are kept. */
static uint64_t attention_carried_rows(const forward_model *m, const model_sublayer *p, size_t) {
    uint64_t rows = 0;
    for (size_t i = 0; i < m->sizes.layers; i++) {
        const attention_layer *l = model_layer_numbers(m, p, i);
        if (l && l->lends_kv) rows += l->kv_heads * (l->head + l->value);
    }
    return rows;
}

static void attention_read_keys(forward_model *m, key_reader *r, model_sublayer *p) {
    const arch_graph *a = &m->arch->graph;
    attention_numbers *n = p->numbers;
    attention_read_heads(m, r, p);
    if (!a->free_head && n->head != n->even_head)
        key_fail(r, "attention.key_length", "is %zu, expected embedding_length / attention.head_count: %zu",
                 n->head, n->even_head);
    if (!a->free_value && n->value != n->head)
        key_fail(r, "attention.value_length", "is %zu, expected attention.key_length: %zu", n->value,
                 n->head);
    attention_check_heads(r, p, 1);
    attention_read_windows(m, r, p);
    attention_share_sizes(m, p);
    if (a->shares_kv) attention_share_keys(m, r, p);
    relative_read_keys(m, r, p);
    for (size_t i = 0; i < m->sizes.layers; i++) {
        attention_layer *l = model_layer_numbers(m, p, i);
        coder_kind kind = coder_layer_of(m, i).kind;
        if (l)
            l->crosses = kind == CODER_CROSS,
            l->both_ways = m->both_ways || l->crosses || kind == CODER_ENCODER;
    }
    if (!r->ok) return;
    if (a->no_rope != ROPE_NEVER) rope_read_keys(&n->rope, m, r, n->head, n->local_head, false);
    attention_read_scores(n, a, r);
    attention_choose_rope(m, r, p);
    if (a->has[WEIGHT_INDEXER_Q_PROJ]) block_choice_read_keys(m, r, p);
}

/* Rows of q that a head has in attn_q. */
static size_t q_head_stride(const forward_model *m, const attention_layer *l) {
    return m->arch->graph.gate_in_q ? 2 * l->head : l->head;
}

/* The shape of the weights of q's or k's norm. */
static tensor_shape qk_norm_shape(qk_norm kind, size_t head, size_t heads) {
    return kind == QK_FULL     ? SHAPE(heads * head)
           : kind == QK_EACH   ? SHAPE(head, heads)
           : kind == QK_SCALED ? SHAPE(1, heads)
                               : SHAPE(head);
}

/* Their bias has the shape of the weights. */
static void qk_norm_find(tensor_finder *f, weight_slot s, presence is, tensor_shape of) {
    tensors_take_weight(f, s, is, of);
    if (f->l->weight[s]) tensors_take_bias(f, s, f->m->arch->graph.qk_bias, of);
}

static void attention_find_qk_norms(tensor_finder *f, const sublayer_spec *p) {
    const arch_graph *a = &f->m->arch->graph;
    const attention_layer *l = p->numbers;
    presence is = a->has[WEIGHT_ATTN_Q_NORM] == OPTIONAL ? OPTIONAL : REQUIRED;
    if (a->qk == QK_NONE || a->qk == QK_UNWEIGHTED) return;
    qk_norm_find(f, WEIGHT_ATTN_Q_NORM, is, qk_norm_shape(a->qk, l->head, l->heads));
    bool has_k = f->l->weight[WEIGHT_ATTN_Q_NORM] && a->qk != QK_SCALED && !l->borrows_kv;
    is = has_k ? REQUIRED : l->borrows_kv && a->own_kv_layers ? UNUSED : ABSENT; /* both or none */
    qk_norm_find(f, WEIGHT_ATTN_K_NORM, is, qk_norm_shape(a->qk, l->head, l->kv_heads));
}

/* Rows of attn_gate: one per head, or one per value of the heads. */
static size_t attention_count_gates(const layer_spec *plan, const attention_layer *l) {
    const model_tensor *t = plan->weight[WEIGHT_ATTN_GATE];
    return !t ? 0 : t->ne[1] == l->heads ? l->heads : l->heads * l->value;
}

static void attention_find_tensors(tensor_finder *f, const sublayer_spec *p) {
    const arch_graph *a = &f->m->arch->graph;
    const attention_layer *l = p->numbers;
    uint64_t width = f->m->sizes.width, d = f->m->mixer_width ? f->m->mixer_width : width,
             q = l->heads * l->head, k = l->kv_heads * l->head, v = l->kv_heads * l->value;
    if (a->has[WEIGHT_ATTN_QKV] == REQUIRED ||
        (!a->gate_in_q && tensors_layer_has(f->m, f->index, WEIGHT_ATTN_QKV))) {
        tensors_take_biased(f, WEIGHT_ATTN_QKV, REQUIRED, SHAPE(d, q + k + v), a->qkv_bias);
    } else {
        uint64_t q_and_gate = (uint64_t)l->heads * q_head_stride(f->m, l);
        tensors_take_biased(f, WEIGHT_ATTN_Q, REQUIRED, SHAPE(d, q_and_gate), a->qkv_bias);
        presence own = !l->borrows_kv ? REQUIRED : a->own_kv_layers ? UNUSED : ABSENT;
        tensors_take_biased(f, WEIGHT_ATTN_K, own, SHAPE(d, k), a->qkv_bias);
        if (((a->norms_v && !l->is_local) || a->shares_v) && k == v && own == REQUIRED) own = OPTIONAL;
        tensors_take_biased(f, WEIGHT_ATTN_V, own, SHAPE(d, v), a->qkv_bias);
    }
    attention_find_qk_norms(f, p);
    relative_find_tensors(f, p);
    if (l->crosses)
        f->l->weight[WEIGHT_ENCODER_NORM] = tensors_take(f, "enc.output_norm.weight", REQUIRED, SHAPE(d));
    if (l->chooses_blocks || a->pools_keys) block_choice_find_tensors(f, p);
    tensors_take_weight(f, WEIGHT_ATTN_SINKS, a->has[WEIGHT_ATTN_SINKS], SHAPE(l->heads));
    size_t gate = tensors_rows(f, WEIGHT_ATTN_GATE) == l->heads ? l->heads : l->heads * l->value;
    tensors_take_weight(f, WEIGHT_ATTN_GATE, a->has[WEIGHT_ATTN_GATE], SHAPE(d, gate));
    tensors_take_weight(f, WEIGHT_ATTN_SUB_NORM, a->has[WEIGHT_ATTN_SUB_NORM], SHAPE(l->heads * l->value));
    tensors_take_biased(f, WEIGHT_ATTN_OUTPUT, REQUIRED, SHAPE(l->heads * l->value, width), a->output_bias);
}

/* The weights' rows that make q, k and v. None of k where they make v, too, and none of gates. */
static size_t attention_row_groups(const forward_model *m, const layer_spec *plan, const sublayer_spec *p,
                                   forward_row_group *groups) {
    const attention_layer *l = p->numbers;
    const model_tensor *fused = plan->weight[WEIGHT_ATTN_QKV], *k = plan->weight[WEIGHT_ATTN_K],
                       *v = plan->weight[WEIGHT_ATTN_V];
    size_t q_stride = q_head_stride(m, l), q_rows = l->heads * q_stride, k_rows = l->kv_heads * l->head,
           n = 0;
    groups[n++] = (forward_row_group){
        fused ? fused : plan->weight[WEIGHT_ATTN_Q], ROWS_OF_QUERIES, 0, q_stride, l->heads, l->head};
    if (!fused && (l->borrows_kv || !v)) return n;
    groups[n++] = (forward_row_group){fused ? fused : k, ROWS_OF_KEYS, fused ? q_rows : 0,
                                      l->head,           l->kv_heads,  l->head};
    groups[n++] = (forward_row_group){fused ? fused : v, ROWS_OF_VALUES, fused ? q_rows + k_rows : 0,
                                      l->value,          l->kv_heads,    l->value};
    return n;
}

/* Rows of `work`: q, with its gates, k, v, what the heads give, and the rows of attn_gate. */
static uint64_t attention_count_rows(const forward_model *m, const layer_spec *l, const sublayer_spec *p) {
    const attention_layer *own = p->numbers;
    return own->heads * (q_head_stride(m, own) + own->value) + own->kv_heads * (own->head + own->value) +
           attention_count_gates(l, own) + block_choice_rows(p) + (own->crosses ? m->sizes.width : 0);
}

static void attention_lay_out(forward_batch *b, const model_sublayer *p, scratch *s) {
    attention_take_scratch(b, p, s, (forward_stride(b->context) + block_choice_scores(b, p)) * QUERIES);
    block_choice_lay_out(b, p, s);
}

static void attention_norm_q_and_k(forward_batch *b, const sublayer_spec *p, float *q, float *k) {
    const forward_model *m = b->model;
    const attention_layer *l = p->numbers;
    static const weight_slot slots[] = {WEIGHT_ATTN_Q_NORM, WEIGHT_ATTN_K_NORM};
    float *x[] = {q, k};
    size_t heads[] = {l->heads, l->kv_heads};
    qk_norm kind = m->arch->graph.qk;
    bool full = kind == QK_FULL;
    if (kind == QK_UNWEIGHTED ? !l->norms_qk : !b->layer->plan->weight[WEIGHT_ATTN_Q_NORM]) return;
    for (int i = 0; i < (l->borrows_kv ? 1 : 2); i++)
        batch_norm(b, &(norm_groups){.y = x[i],
                                     .weight = b->layer->values[slots[i]],
                                     .bias = b->layer->bias_values[slots[i]],
                                     .features = full ? heads[i] * l->head : l->head,
                                     .groups = full ? 1 : heads[i],
                                     .group_stride = i == 0 && !full ? q_head_stride(m, l) : 0,
                                     .weight_stride = kind == QK_EACH ? l->head : kind == QK_SCALED,
                                     .one_weight = kind == QK_SCALED,
                                     .centers = m->arch->graph.qk_centers,
                                     .eps = m->arch->graph.qk_eps});
}

typedef struct attention_flow {
    const sublayer_spec *p;
    const float *x, *from; /* from: what keys and values are made of */
    size_t stride, from_stride;
    float *q, *o;
} attention_flow;

/* Makes q, k and v, side by side, of the input. */
static void attention_multiply_in(forward_batch *b, const attention_flow *of) {
    const sublayer_spec *p = of->p;
    const float *x = of->x, *from = of->from;
    float *q = of->q;
    const attention_numbers *n = p->sublayer->numbers;
    const attention_layer *l = p->numbers;
    size_t s = b->stride, q_rows = l->heads * q_head_stride(b->model, l), k_rows = l->kv_heads * l->head;
    size_t stride = of->stride, from_stride = of->from_stride;
    size_t rows = q_rows + k_rows + l->kv_heads * l->value;
    if (b->layer->plan->weight[WEIGHT_ATTN_QKV]) {
        batch_multiply(b, WEIGHT_ATTN_QKV, 0, x, stride, q, s, b->tokens);
    } else {
        batch_multiply(b, WEIGHT_ATTN_Q, 0, x, stride, q, s, b->tokens);
        float *k = q + q_rows * s, *v = k + k_rows * s;
        if (!l->borrows_kv) batch_multiply(b, WEIGHT_ATTN_K, 0, from, from_stride, k, s, b->tokens);
        if (b->layer->plan->weight[WEIGHT_ATTN_V])
            batch_multiply(b, WEIGHT_ATTN_V, 0, from, from_stride, v, s, b->tokens);
        else if (!l->borrows_kv)
            memcpy(v, k, k_rows * s * sizeof *v);
    }
    if (n->clamp > 0) batch_change_rows(b, b->model->elements->clamp, batch_rows(b, q, rows), n->clamp);
}

/* o times a function of the gates: what attn_gate gives, or the rows behind each head's q. */
static void attention_gate_heads(forward_batch *b, const sublayer_spec *p, const float *x, size_t stride,
                                 float *q, float *o) {
    const attention_layer *l = p->numbers;
    const element_kernels *k = b->model->elements;
    size_t rows = attention_count_gates(b->layer->plan, l);
    attention_gates g = {.b = b,
                         .o = o,
                         .heads = l->heads,
                         .value = l->value,
                         .open = b->model->arch->graph.gate == GATE_SOFTPLUS ? k->softplus : k->sigmoid};
    if (rows) {
        g.gates = o + l->heads * l->value * b->stride, g.each = g.stride = rows / l->heads;
        batch_multiply(b, WEIGHT_ATTN_GATE, 0, x, stride, g.gates, b->stride, b->tokens);
    } else if (b->model->arch->graph.gate_in_q) {
        g.gates = q + l->head * b->stride, g.each = l->head, g.stride = q_head_stride(b->model, l);
    } else {
        return;
    }
    attention_gate(&g);
}

/* Copies k, and v behind it, to where later layers find them, or from there. */
static void attention_hand_on(forward_batch *b, const sublayer_spec *p, float *k) {
    const attention_layer *l = p->numbers;
    float *kept = batch_carried(b, p->sublayer) + l->kept * b->residual_stride;
    for (size_t r = 0; r < l->kv_heads * (l->head + l->value); r++) {
        float *own = k + r * b->stride, *other = kept + r * b->residual_stride;
        memcpy(l->lends_kv ? other : own, l->lends_kv ? own : other, b->tokens * sizeof *own);
    }
}

/* o: what all heads give, the input of attn_output. */
static bool attention_make_heads(forward_batch *b, void *data) {
    const attention_flow *of = data;
    const sublayer_spec *p = of->p;
    const forward_model *m = b->model;
    const attention_layer *l = p->numbers;
    const float *x = of->x;
    float *q = of->q, *o = of->o;
    size_t stride = of->stride;
    size_t s = b->stride, q_stride = q_head_stride(m, l), q_rows = l->heads * q_stride;
    float *k = q + q_rows * s, *v = k + l->kv_heads * l->head * s,
          *rest = o + (l->heads * l->value + attention_count_gates(b->layer->plan, l)) * s;
    attention_multiply_in(b, of);
    if (!m->arch->graph.qk_after_rope) attention_norm_q_and_k(b, p, q, k);
    bool norms_v =
        m->arch->graph.norms_v || (m->arch->graph.shares_v && !b->layer->plan->weight[WEIGHT_ATTN_V]);
    if (norms_v && !l->borrows_kv) batch_norm_groups(b, NULL, v, l->value, l->kv_heads);
    if (l->has_rope) batch_rope(b, p, q, l->heads, q_stride);
    if (l->has_rope && !l->borrows_kv) batch_rope(b, p, k, l->kv_heads, l->head);
    if (m->arch->graph.qk_after_rope) attention_norm_q_and_k(b, p, q, k);
    batch_temper(b, p, q, q_rows);
    if (l->lends_kv || l->borrows_kv) attention_hand_on(b, p, k);
    attention_heads h = {.chosen = block_choice_make(b, p, x, stride, rest),
                         .chosen_stride = block_choice_stride(b, p),
                         .q = q,
                         .k = k,
                         .v = v,
                         .o = o,
                         .heads = l->heads,
                         .kv_heads = l->kv_heads,
                         .head = l->head,
                         .value = l->value,
                         .q_head_stride = q_stride,
                         .k_head_stride = l->head,
                         .v_head_stride = l->value,
                         .sinks = b->layer->values[WEIGHT_ATTN_SINKS],
                         .norm = m->arch->graph.qk,
                         .norm_stride = m->arch->graph.qk == QK_HEAD ? 0 : l->head};
    if (!batch_scores(b, p, &h)) return false;
    batch_attend(b, p, &h);
    attention_gate_heads(b, p, x, stride, q, o);
    if (b->layer->plan->weight[WEIGHT_ATTN_SUB_NORM])
        batch_norm_slot(b, WEIGHT_ATTN_SUB_NORM, o, s, l->heads * l->value, o, s);
    return true;
}

/* Reports the input: the same to all, unless keys and values are the encoder's. */
static bool attention_report(forward_batch *b, const attention_flow *of) {
    static const weight_slot all[] = {WEIGHT_ATTN_Q,   WEIGHT_ATTN_K,    WEIGHT_ATTN_V,
                                      WEIGHT_ATTN_QKV, WEIGHT_ATTN_GATE, WEIGHT_SLOTS},
                             queries[] = {WEIGHT_ATTN_Q, WEIGHT_SLOTS},
                             others[] = {WEIGHT_ATTN_K, WEIGHT_ATTN_V, WEIGHT_SLOTS};
    if (of->from == of->x) return batch_report_inputs(b, of->x, of->stride, all);
    return batch_report_inputs(b, of->x, of->stride, queries) &&
           coders_report_encoder(b, of->from, of->from_stride, others);
}

static bool attention_run(forward_batch *b, const sublayer_spec *p, const float *x, size_t stride) {
    const forward_model *m = b->model;
    const attention_numbers *n = p->sublayer->numbers;
    const attention_layer *l = p->numbers;
    size_t s = b->stride, values = l->heads * l->value;
    float *q = b->work, *o = q + (l->heads * q_head_stride(m, l) + l->kv_heads * (l->head + l->value)) * s;
    attention_flow of = {p, x, x, stride, stride, q, o};
    if (l->crosses) {
        float *from = o + values * s;
        coders_read_encoder(b, from, s);
        of.from = from, of.from_stride = s;
    }
    if (!attention_report(b, &of)) return false;
    const batch_values heads = {o, values, s, b->tokens};
    /* Later layers need the keys of those that hand theirs on. */
    if (!(l->lends_kv
              ? attention_make_heads(b, &of)
              : batch_make(b, WEIGHT_ATTN_OUTPUT, 0, RESULT_INPUTS, &heads, attention_make_heads, &of)) ||
        !batch_apply(b, WEIGHT_ATTN_OUTPUT, 0, o, s, b->output, s))
        return false;
    if (n->output_scale != 1) batch_scale(b, b->output, s, m->sizes.width, n->output_scale);
    return true;
}

const sublayer_kind mixer_attention = {
    .model_bytes = sizeof(attention_numbers),
    .layer_bytes = sizeof(attention_layer),
    .choose_layers = attention_choose_layers,
    .read_keys = attention_read_keys,
    .find_model_tensors = attention_find_model_tensors,
    .find_tensors = attention_find_tensors,
    .keeps_inputs = true,
    .carried_rows = attention_carried_rows,
    .scratch_rows = attention_count_rows,
    .row_groups = attention_row_groups,
    .lay_out = attention_lay_out,
    .prepare = attention_prepare,
    .run = attention_run,
};
