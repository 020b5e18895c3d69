/* Multi-head latent attention (MLA, DeepSeek-V2, arXiv:2405.04434): each token has one latent vector of
 * `rank` values, from which the keys and values of all heads follow, and `rotated` values with rope that the
 * keys of all heads share. Files hold the matrices that unfold a latent in one of two forms. With attn_kv_b,
 * each head's keys and values are computed and attended to as usual. With attn_k_b and attn_v_b no keys are
 * made: attn_k_b takes a head's queries to the space of the latents, where they are compared, and attn_v_b
 * makes values of the latents that the head has mixed. `work` holds in this order q, what the heads give, the
 * low-rank queries, the latents, the rows of attn_gate, whose sigmoids are factors of what the heads give,
 * and what each form needs in addition. */
#include <math.h>
#include <string.h>

#include "forward/graph/attention/indexer.h"

typedef struct latent_numbers {
    attention_numbers attention; /* first */
    size_t rank, local_rank;     /* of the latent vector: kv_lora_rank; in layers with a window */
    indexer_numbers indexer;
    bool shares_choice; /* some layers use the choice of a layer before them */
} latent_numbers;

typedef struct latent_layer {
    attention_layer attention; /* first */
    size_t rank;               /* of the latent vector */
    size_t q_rank;             /* rows of attn_q_a; 0: there is attn_q */
    bool chooses;              /* the layer has an indexer, which chooses the keys that it attends to */
    bool attends_to_all;       /* the layer attends to all keys of its window, whoever chooses */
} latent_layer;

typedef struct latent_scratch {
    attention_scratch attention; /* first */
    indexer_scratch indexer;
} latent_scratch;

/* The number of a head's values that rope does not rotate. */
static size_t latent_plain_values(const sublayer_spec *p) {
    const latent_numbers *n = p->sublayer->numbers;
    const latent_layer *l = p->numbers;
    return l->attention.head - n->attention.rope.angles[0].rotated;
}

/* ---- keys and tensors ---- */

/* Yarn's magnitude is applied to the values that rope rotates and not to the others; the scale of the scores
 * makes up for that. */
static void latent_set_score_scale(attention_numbers *n) {
    const rope_numbers *r = &n->rope;
    const rope_angles *p = &r->angles[0];
    double scale = 1 / sqrt((double)n->head);
    double magnitude = p->magnitude * (p->yarn ? 1 : 1 + 0.1 * r->log_factor) *
                       (1 + 0.1 * r->log_multiplier * r->log_factor);
    n->score_scale = (float)(scale * (magnitude * magnitude));
}

/* Sizes of layers with a window, where the row has them. */
static void latent_read_local(latent_numbers *n, const forward_model *m, key_reader *r) {
    attention_numbers *a = &n->attention;
    a->local_head = a->head, a->local_value = a->value, n->local_rank = n->rank;
    if (!m->arch->graph.local_latents) return;
    a->local_head = key_number_needed(r, "attention.key_length_mla_swa", 2, MODEL_MOST);
    a->local_value = key_number_needed(r, "attention.value_length_mla_swa", 1, MODEL_MOST);
    n->local_rank = key_number_needed(r, "attention.kv_lora_rank_swa", 1, MODEL_MOST);
}

/* Gives each layer its sizes: local layers may have others. */
static void latent_share_sizes(forward_model *m, model_sublayer *p) {
    const latent_numbers *n = p->numbers;
    attention_share_sizes(m, p);
    for (size_t i = 0; i < m->sizes.layers; i++) {
        latent_layer *l = model_layer_numbers(m, p, i);
        if (!l) continue;
        bool is_other = m->arch->graph.local_latents && l->attention.is_local;
        l->rank = is_other ? n->local_rank : n->rank, l->attends_to_all = is_other;
        if (is_other) l->attention.score_scale = (float)(1 / sqrt((double)l->attention.head));
    }
}

static void latent_read_indexer(latent_numbers *n, forward_model *m, key_reader *r, model_sublayer *p) {
    indexer_read_keys(&n->indexer, m, r);
    for (size_t i = 0; i < m->sizes.layers && n->indexer.heads; i++) {
        latent_layer *l = model_layer_numbers(m, p, i);
        if (!l || l->attends_to_all) continue;
        l->chooses = indexer_layer_chooses(m, r, i);
        if (!l->chooses) n->shares_choice = true;
        if (!l->chooses && i == 0)
            key_fail(r, "attention.indexer.types",
                     "begins with 0, but no layer before the first has an indexer to share");
    }
}

/* Readers size the cache of keys and values by the lengths that heads have once they are multiplied out: the
 * rank, and what is rotated beside it. Without a length they take the even head's. */
static void latent_check_cache(key_reader *r, const latent_numbers *n) {
    const attention_numbers *a = &n->attention;
    const char *names[] = {"attention.key_length", "attention.value_length"};
    uint64_t rank = n->rank, rotated = a->rope.angles[0].rotated,
             key = key_number(r, names[0], a->even_head, 0, UINT64_MAX),
             found = key_number(r, names[1], a->even_head, 0, UINT64_MAX);
    if (!key_there(r, "attention.key_length_mla")) return;
    if (key != rank + rotated)
        key_fail(r, names[0], "is %llu%s, expected %llu: attention.kv_lora_rank + rope.dimension_count",
                 (unsigned long long)key, key_there(r, names[0]) ? "" : " without the key",
                 (unsigned long long)(rank + rotated));
    if (found != rank && found != a->value)
        key_fail(r, names[1], "is %llu%s, expected %llu, as attention.kv_lora_rank says",
                 (unsigned long long)found, key_there(r, names[1]) ? "" : " without the key",
                 (unsigned long long)rank);
}

static void latent_read_keys(forward_model *m, key_reader *r, model_sublayer *p) {
    latent_numbers *n = p->numbers;
    attention_numbers *a = &n->attention;
    attention_read_heads(m, r, p);
    a->head = key_number(r, "attention.key_length_mla", a->head, 2, MODEL_MOST);
    a->value = key_number(r, "attention.value_length_mla", a->value, 1, MODEL_MOST);
    n->rank = key_number_needed(r, "attention.kv_lora_rank", 1, MODEL_MOST);
    attention_read_windows(m, r, p);
    attention_check_heads(r, p, 2);
    latent_read_local(n, m, r);
    latent_share_sizes(m, p);
    if (!r->ok) return;
    rope_read_keys(&a->rope, m, r, a->head < a->local_head ? a->head : a->local_head, a->local_head, true);
    latent_check_cache(r, n);
    latent_set_score_scale(a);
    latent_read_indexer(n, m, r, p);
    indexer_check_head(&n->indexer, r, a->rope.angles[0].rotated);
    attention_choose_rope(m, r, p);
}

static void latent_find_queries(tensor_finder *f, const sublayer_spec *p, uint64_t rows) {
    latent_layer *l = p->numbers;
    uint64_t d = f->m->sizes.width;
    if (!tensors_layer_has(f->m, f->index, WEIGHT_ATTN_Q_A) &&
        !tensors_layer_has(f->m, f->index, WEIGHT_ATTN_Q_B)) {
        tensors_take_weight(f, WEIGHT_ATTN_Q, REQUIRED, SHAPE(d, rows));
        return;
    }
    l->q_rank = tensors_rows(f, WEIGHT_ATTN_Q_A);
    tensors_take_weight(f, WEIGHT_ATTN_Q_A, REQUIRED, SHAPE(d, l->q_rank));
    tensors_take_weight(f, WEIGHT_ATTN_Q_A_NORM, REQUIRED, SHAPE(l->q_rank));
    tensors_take_weight(f, WEIGHT_ATTN_Q_B, REQUIRED, SHAPE(l->q_rank, rows));
}

static void latent_find_tensors(tensor_finder *f, const sublayer_spec *p) {
    const latent_numbers *n = p->sublayer->numbers;
    const attention_numbers *a = &n->attention;
    const latent_layer *l = p->numbers;
    const presence *has = f->m->arch->graph.has;
    uint64_t d = f->m->sizes.width, heads = l->attention.heads, plain = latent_plain_values(p),
             rank = l->rank, value = l->attention.value;
    latent_find_queries(f, p, heads * l->attention.head);
    if (n->indexer.heads && !l->attends_to_all) indexer_find_tensors(&n->indexer, f, l->q_rank, l->chooses);
    tensors_take_weight(f, WEIGHT_ATTN_KV_A, REQUIRED, SHAPE(d, rank + a->rope.angles[0].rotated));
    tensors_take_weight(f, WEIGHT_ATTN_KV_A_NORM, REQUIRED, SHAPE(rank));
    tensors_take_weight(f, WEIGHT_ATTN_K_NORM, has[WEIGHT_ATTN_K_NORM], SHAPE(a->rope.angles[0].rotated));
    tensors_take_weight(f, WEIGHT_ATTN_SINKS, has[WEIGHT_ATTN_SINKS], SHAPE(heads));
    if (tensors_layer_has(f->m, f->index, WEIGHT_ATTN_KV_B)) {
        tensors_take_weight(f, WEIGHT_ATTN_KV_B, REQUIRED, SHAPE(rank, heads * (plain + value)));
    } else {
        tensors_take_weight(f, WEIGHT_ATTN_K_B, REQUIRED, SHAPE(plain, rank, heads));
        tensors_take_weight(f, WEIGHT_ATTN_V_B, REQUIRED, SHAPE(rank, value, heads));
    }
    uint64_t gates = tensors_rows(f, WEIGHT_ATTN_GATE) == heads ? heads : heads * value;
    tensors_take_weight(f, WEIGHT_ATTN_GATE, has[WEIGHT_ATTN_GATE], SHAPE(d, gates));
    tensors_take_weight(f, WEIGHT_ATTN_OUTPUT, REQUIRED, SHAPE(heads * value, d));
}

/* ---- running it ---- */

/* Rows of attn_gate: one per head, or one per value that the heads give. */
static size_t latent_gate_rows(const layer_spec *plan) {
    const model_tensor *t = plan->weight[WEIGHT_ATTN_GATE];
    return t ? t->ne[1] : 0;
}

/* The weights' rows that make queries, and keys and values where attn_kv_b does. */
static size_t latent_row_groups(const forward_model *, const layer_spec *plan, const sublayer_spec *p,
                                forward_row_group *groups) {
    const latent_layer *l = p->numbers;
    const attention_layer *a = &l->attention;
    size_t heads = a->heads, plain = latent_plain_values(p), stride = plain + a->value;
    const model_tensor *q = plan->weight[l->q_rank ? WEIGHT_ATTN_Q_B : WEIGHT_ATTN_Q],
                       *kv = plan->weight[WEIGHT_ATTN_KV_B];
    if (!kv) return 0;
    groups[0] = (forward_row_group){q, ROWS_OF_QUERIES, 0, a->head, heads, a->head};
    groups[1] = (forward_row_group){kv, ROWS_OF_KEYS, 0, stride, heads, plain};
    groups[2] = (forward_row_group){kv, ROWS_OF_VALUES, plain, stride, heads, a->value};
    return 3;
}

static uint64_t latent_count_rows(const forward_model *, const layer_spec *plan, const sublayer_spec *p) {
    const latent_numbers *n = p->sublayer->numbers;
    const latent_layer *l = p->numbers;
    const attention_layer *a = &l->attention;
    size_t heads = a->heads, rotated = n->attention.rope.angles[0].rotated;
    uint64_t both = heads * (a->head + a->value) + l->q_rank + l->rank + rotated + latent_gate_rows(plan);
    uint64_t rest =
        plan->weight[WEIGHT_ATTN_KV_B] ? heads * (latent_plain_values(p) + a->value) : 2 * l->rank + rotated;
    uint64_t choice = indexer_count_rows(&n->indexer); /* which ends before the rest begins */
    return both + (rest > choice ? rest : choice);
}

/* Takes memory per thread for the scores of QUERIES queries and for one head's keys, its own and the shared
 * ones put together. */
static void latent_lay_out(forward_batch *b, const model_sublayer *p, scratch *s) {
    const latent_numbers *n = p->numbers;
    latent_scratch *own = batch_own(b, p);
    _Static_assert(sizeof *own <= sizeof b->own->bytes, "BATCH_OWN_BYTES");
    size_t each = QUERIES + max(n->attention.head, n->attention.local_head),
           choice = n->indexer.heads ? 2 * QUERIES : 0;
    attention_take_scratch(b, p, s, forward_stride(b->context) * (each > choice ? each : choice));
    indexer_lay_out(&n->indexer, &own->indexer, b, s);
}

/* Keys that layers choose, where others use the choice; they do nothing with it where windows are short. */
static uint64_t latent_carried_rows(const forward_model *, const model_sublayer *p, size_t context) {
    const latent_numbers *n = p->numbers;
    return n->shares_choice ? indexer_choice_rows(&n->indexer, context) : 0;
}

/* Before the first choice all keys are chosen. That matters where the layer that would choose is not run. */
static bool latent_embed(forward_batch *b, const model_sublayer *p, const uint32_t *, const float *,
                         float *carried, size_t stride) {
    for (size_t r = 0; r < latent_carried_rows(b->model, p, b->context); r++)
        memset(carried + r * stride, 0xff, b->tokens * sizeof *carried);
    return true;
}

/* The keys that tokens attend to; NULL: all. */
static const uint64_t *latent_choice(forward_batch *b, const sublayer_spec *p) {
    const latent_scratch *memory = batch_own(b, p->sublayer);
    const latent_layer *l = p->numbers;
    return l->attends_to_all ? NULL : memory->indexer.chosen;
}

/* For files with attn_kv_b: computes each head's keys and values in full. */
static bool latent_attend_unfolded(forward_batch *b, const sublayer_spec *p, float *q, const float *latent,
                                   float *unfolded, float *o) {
    const latent_numbers *n = p->sublayer->numbers;
    const latent_layer *l = p->numbers;
    const attention_layer *a = &l->attention;
    size_t heads = a->heads, rotated = n->attention.rope.angles[0].rotated;
    size_t s = b->stride, plain = latent_plain_values(p), stride = plain + a->value;
    if (!batch_apply(b, WEIGHT_ATTN_KV_B, 0, latent, s, unfolded, s)) return false;
    batch_temper(b, p, q, heads * a->head);
    attention_heads h = {.chosen = latent_choice(b, p),
                         .sinks = b->layer->values[WEIGHT_ATTN_SINKS],
                         .q = q,
                         .k = unfolded,
                         .k_tail = latent + l->rank * s,
                         .v = unfolded + plain * s,
                         .o = o,
                         .heads = heads,
                         .kv_heads = heads,
                         .head = a->head,
                         .tail = rotated,
                         .value = a->value,
                         .k_head_stride = stride,
                         .v_head_stride = stride,
                         .rotated_from = plain};
    if (!batch_scores(b, p, &h)) return false;
    batch_attend(b, p, &h);
    return true;
}

/* For files with attn_k_b and attn_v_b: takes queries to the space of the latents, and makes values of the
 * latents that a head has mixed. One head at a time, because its queries then have rank + rotated values. */
static bool latent_attend_folded(forward_batch *b, const sublayer_spec *p, const float *q,
                                 const float *latent, float *query, float *o) {
    const latent_numbers *n = p->sublayer->numbers;
    const latent_layer *l = p->numbers;
    const attention_layer *a = &l->attention;
    const float *sinks = b->layer->values[WEIGHT_ATTN_SINKS];
    size_t heads = a->heads, rotated = n->attention.rope.angles[0].rotated;
    size_t s = b->stride, plain = latent_plain_values(p), rows = l->rank + rotated;
    float *mixed = query + rows * s;
    for (size_t h = 0; h < heads; h++) {
        const float *own = q + h * a->head * s;
        if (!batch_apply(b, WEIGHT_ATTN_K_B, h, own, s, query, s)) return false;
        memcpy(query + l->rank * s, own + plain * s, rotated * s * sizeof *query);
        batch_temper(b, p, query, rows);
        batch_attend(b, p,
                     &(attention_heads){.chosen = latent_choice(b, p),
                                        .sinks = sinks ? sinks + h : NULL,
                                        .q = query,
                                        .k = latent,
                                        .v = latent,
                                        .o = mixed,
                                        .heads = 1,
                                        .kv_heads = 1,
                                        .head = rows,
                                        .value = l->rank});
        if (!batch_apply(b, WEIGHT_ATTN_V_B, h, mixed, s, o + h * a->value * s, s)) return false;
    }
    return true;
}

static void latent_gate_heads(forward_batch *b, const attention_layer *a, const float *x, size_t stride,
                              float *gates, float *o) {
    size_t each = latent_gate_rows(b->layer->plan) / a->heads;
    if (!each) return;
    batch_multiply(b, WEIGHT_ATTN_GATE, 0, x, stride, gates, b->stride, b->tokens);
    attention_gate(
        &(attention_gates){b, o, gates, a->heads, a->value, each, each, b->model->elements->sigmoid});
}

static bool latent_run(forward_batch *b, const sublayer_spec *p, const float *x, size_t stride) {
    const latent_numbers *n = p->sublayer->numbers;
    const latent_layer *l = p->numbers;
    const attention_layer *a = &l->attention;
    const latent_scratch *own = batch_own(b, p->sublayer);
    size_t heads = a->heads, rotated = n->attention.rope.angles[0].rotated;
    size_t s = b->stride;
    bool has_choice = latent_choice(b, p);
    float *q = b->work, *o = q + heads * a->head * s, *low = o + heads * a->value * s;
    float *latent = low + l->q_rank * s, *gates = latent + (l->rank + rotated) * s;
    float *rest = gates + latent_gate_rows(b->layer->plan) * s;
    if (!batch_report_inputs(b, x, stride,
                             (weight_slot[]){WEIGHT_ATTN_Q, WEIGHT_ATTN_Q_A, WEIGHT_ATTN_KV_A,
                                             WEIGHT_ATTN_GATE, WEIGHT_INDEXER_K, WEIGHT_INDEXER_PROJ,
                                             WEIGHT_INDEXER_COMPRESSOR_GATE, WEIGHT_SLOTS}))
        return false;
    if (!l->q_rank)
        batch_multiply(b, WEIGHT_ATTN_Q, 0, x, stride, q, s, b->tokens);
    else if (!attention_make_low_queries(b, l->q_rank, x, stride, low, q))
        return false;
    if (has_choice && !l->chooses)
        indexer_copy_choice(b, &own->indexer, batch_carried(b, p->sublayer), b->residual_stride, false);
    else if (has_choice)
        indexer_choose(b, p,
                       &(indexer_task){.n = &n->indexer,
                                       .own = &own->indexer,
                                       .x = x,
                                       .low = low,
                                       .x_stride = stride,
                                       .rotated = rotated,
                                       .work = rest,
                                       .scores = own->attention.scores,
                                       .scores_each = own->attention.scores_each});
    if (has_choice && l->chooses && n->shares_choice)
        indexer_copy_choice(b, &own->indexer, batch_carried(b, p->sublayer), b->residual_stride, true);
    batch_multiply(b, WEIGHT_ATTN_KV_A, 0, x, stride, latent, s, b->tokens);
    batch_norm_slot(b, WEIGHT_ATTN_KV_A_NORM, latent, s, l->rank, latent, s);
    if (b->layer->plan->weight[WEIGHT_ATTN_K_NORM])
        batch_norm_slot(b, WEIGHT_ATTN_K_NORM, latent + l->rank * s, s, rotated, latent + l->rank * s, s);
    if (l->attention.has_rope) {
        batch_rope(b, p, latent + l->rank * s, 1, 0);
        batch_rope(b, p, q + latent_plain_values(p) * s, heads, a->head);
    }
    if (b->layer->plan->weight[WEIGHT_ATTN_KV_B] ? !latent_attend_unfolded(b, p, q, latent, rest, o)
                                                 : !latent_attend_folded(b, p, q, latent, rest, o))
        return false;
    latent_gate_heads(b, a, x, stride, gates, o);
    return batch_apply(b, WEIGHT_ATTN_OUTPUT, 0, o, s, b->output, s);
}

const sublayer_kind mixer_latent = {
    .model_bytes = sizeof(latent_numbers),
    .layer_bytes = sizeof(latent_layer),
    .choose_layers = attention_choose_layers,
    .read_keys = latent_read_keys,
    .find_model_tensors = attention_find_model_tensors,
    .find_tensors = latent_find_tensors,
    .scratch_rows = latent_count_rows,
    .row_groups = latent_row_groups,
    .lay_out = latent_lay_out,
    .carried_rows = latent_carried_rows,
    .embed = latent_embed,
    .prepare = attention_prepare,
    .run = latent_run,
};
