/* Latent attention: keys and values of all heads come from one latent vector per token. */
#include <string.h>

#include "forward/batch.h"

static size_t plain_values(const forward_model *m) { return m->head - m->turned; }

uint64_t latent_rows(const forward_model *m, const layer_plan *l) {
    uint64_t both = l->heads * (m->head + m->value) + l->q_rank + m->latent + m->turned;
    return both + (l->weight[KV_B] ? l->heads * (plain_values(m) + m->value) : 2 * m->latent + m->turned);
}

static bool queries(forward_batch *b, const float *x, size_t stride, float *q, float *low) {
    const layer_plan *l = b->layer->plan;
    if (!l->weight[Q_A]) {
        batch_multiply(b, Q, 0, x, stride, q, b->stride, b->tokens);
        return true;
    }
    batch_multiply(b, Q_A, 0, x, stride, low, b->stride, b->tokens);
    batch_norm_slot(b, Q_A_NORM, low, b->stride, l->q_rank, low, b->stride);
    if (!batch_site(b, low, b->stride, l->q_rank, b->tokens, 0, (slot[]){Q_B, SLOTS})) return false;
    batch_multiply(b, Q_B, 0, low, b->stride, q, b->stride, b->tokens);
    return true;
}

/* Files with attn_kv_b: each head's keys and values in full. */
static bool attend_unfolded(forward_batch *b, float *q, const float *latent, float *unfolded, float *o) {
    const forward_model *m = b->model;
    const layer_plan *l = b->layer->plan;
    size_t s = b->stride, plain = plain_values(m), step = plain + m->value;
    if (!batch_site(b, latent, s, m->latent, b->tokens, 0, (slot[]){KV_B, SLOTS})) return false;
    batch_multiply(b, KV_B, 0, latent, s, unfolded, s, b->tokens);
    batch_temper(b, q, l->heads * m->head);
    batch_attend(b, &(attention_heads){.q = q,
                                       .k = unfolded,
                                       .k_tail = latent + m->latent * s,
                                       .v = unfolded + plain * s,
                                       .o = o,
                                       .heads = l->heads,
                                       .kv_heads = l->heads,
                                       .head = m->head,
                                       .tail = m->turned,
                                       .value = m->value,
                                       .k_step = step,
                                       .v_step = step});
    return true;
}

/* Files with attn_k_b and attn_v_b: queries are taken to where the latents are, and the latents that a head
 * has mixed become its values. A head at a time, as these are long. */
static bool attend_folded(forward_batch *b, const float *q, const float *latent, float *query, float *o) {
    const forward_model *m = b->model;
    const layer_plan *l = b->layer->plan;
    size_t s = b->stride, plain = plain_values(m), rows = m->latent + m->turned;
    float *mixed = query + rows * s;
    for (size_t h = 0; h < l->heads; h++) {
        const float *own = q + h * m->head * s;
        if (!batch_site(b, own, s, plain, b->tokens, h, (slot[]){K_B, SLOTS})) return false;
        batch_multiply(b, K_B, h, own, s, query, s, b->tokens);
        memcpy(query + m->latent * s, own + plain * s, m->turned * s * sizeof *query);
        batch_temper(b, query, rows);
        batch_attend(b, &(attention_heads){.q = query,
                                           .k = latent,
                                           .v = latent,
                                           .o = mixed,
                                           .heads = 1,
                                           .kv_heads = 1,
                                           .head = rows,
                                           .value = m->latent});
        if (!batch_site(b, mixed, s, m->latent, b->tokens, h, (slot[]){V_B, SLOTS})) return false;
        batch_multiply(b, V_B, h, mixed, s, o + h * m->value * s, s, b->tokens);
    }
    return true;
}

bool batch_latent_attention(forward_batch *b, const float *x, size_t stride) {
    const forward_model *m = b->model;
    const layer_plan *l = b->layer->plan;
    size_t s = b->stride, width = m->sizes.width;
    float *q = b->work, *o = q + l->heads * m->head * s, *low = o + l->heads * m->value * s;
    float *latent = low + l->q_rank * s, *rest = latent + (m->latent + m->turned) * s;
    if (!batch_site(b, x, stride, width, b->tokens, 0, (slot[]){Q, Q_A, KV_A, SLOTS}) ||
        !queries(b, x, stride, q, low))
        return false;
    batch_multiply(b, KV_A, 0, x, stride, latent, s, b->tokens);
    batch_norm_slot(b, KV_A_NORM, latent, s, m->latent, latent, s);
    if (l->rope) {
        batch_rope(b, latent + m->latent * s, 1, 0);
        batch_rope(b, q + plain_values(m) * s, l->heads, m->head);
    }
    if (l->weight[KV_B] ? !attend_unfolded(b, q, latent, rest, o) : !attend_folded(b, q, latent, rest, o))
        return false;
    if (!batch_site(b, o, s, l->heads * m->value, b->tokens, 0, (slot[]){O, SLOTS})) return false;
    batch_multiply(b, O, 0, o, s, b->part, s, b->tokens);
    return true;
}
