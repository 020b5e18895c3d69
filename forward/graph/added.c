/* Facts of a model's weights for callers: whose inputs are reported, which have a factor beside them, and
 * whose outputs are added to the residual stream unchanged. Where an architecture has a norm, another matrix
 * or a rule of its own in between there is none, as an error of the output then does not reach the residual
 * stream by a mere factor. */
#include "forward/graph/attention/attention.h"
#include "forward/graph/experts/experts.h"

/* Whether a sublayer's output is only added to the residual stream until the call that runs the sublayer ends. */
static bool is_added_plainly(const forward_model *m, const layer_spec *l, const sublayer_spec *p) {
    bool is_last = p == &l->ffn || layer_is_parallel(l) || forward_model_splits(m);
    const sublayer_kind *tail = l->tail.sublayer ? l->tail.sublayer->kind : NULL;
    bool has_gain = l->weight[p == &l->ffn ? WEIGHT_FFN_GAIN : WEIGHT_MIXER_GAIN];
    return is_last && p->after == WEIGHT_SLOTS && !l->bank.sublayer && !has_gain &&
           (!tail || tail == &tail_embedding);
}

static float mixer_factor(const layer_spec *l, weight_slot s) {
    const sublayer_spec *p = l->beside.sublayer && s == WEIGHT_SSM_OUT ? &l->beside : &l->mixer;
    bool has_scale = p->sublayer->kind == &mixer_attention && s == WEIGHT_ATTN_OUTPUT;
    return has_scale ? ((const attention_numbers *)p->sublayer->numbers)->output_scale : 1;
}

/* Returns the factor of what experts, or what stands beside them, give to the layer; 0: it passes a norm or a
 * matrix first. */
static float experts_factor(const forward_model *m, const layer_spec *l, weight_slot s) {
    const experts_layer *e = l->ffn.numbers;
    float factor = m->arch->graph.routing.sum_factor;
    bool is_read = e->chunk_ff; /* by small experts */
    if (s == WEIGHT_FFN_DOWN_EXPS &&
        (is_read || e->width != m->sizes.width || l->weight[WEIGHT_POST_FFW_NORM_2]))
        return 0;
    if (s != WEIGHT_FFN_DOWN_EXPS && l->weight[WEIGHT_POST_FFW_NORM_1]) return 0;
    return factor != 0 && (e->shared_ff || e->dense_ff) ? factor : 1;
}

/* Returns the layer's slot of an output; WEIGHT_SLOTS: it is none. */
static weight_slot added_slot(const layer_spec *l, const model_tensor *t) {
    static const weight_slot slots[] = {WEIGHT_ATTN_OUTPUT, WEIGHT_SSM_OUT,       WEIGHT_SHORTCONV_OUT,
                                        WEIGHT_FFN_DOWN,    WEIGHT_FFN_DOWN_EXPS, WEIGHT_FFN_DOWN_SHEXP};
    for (size_t i = 0; i < sizeof slots / sizeof *slots; i++)
        if (l->weight[slots[i]] == t) return slots[i];
    return WEIGHT_SLOTS;
}

float forward_adds(const forward_model *m, const model_tensor *t) {
    size_t layer = forward_layer_of(m, t->name);
    if (layer == SIZE_MAX) return 0;
    const layer_spec *l = &m->layers[layer];
    weight_slot s = added_slot(l, t);
    bool is_ffn = s == WEIGHT_FFN_DOWN || s == WEIGHT_FFN_DOWN_EXPS || s == WEIGHT_FFN_DOWN_SHEXP;
    const sublayer_spec *p = is_ffn ? &l->ffn : &l->mixer;
    if (s == WEIGHT_SLOTS || !p->sublayer || !is_added_plainly(m, l, p) || t->ne[1] != m->sizes.width)
        return 0;
    if (!weight_facts_of[s].is_routed && t->ne[2] > 1) return 0;
    if (l->factor[s]) return 0; /* NAME.scale stands between */
    bool is_routed = p->sublayer->kind == &ffn_experts;
    float end = is_ffn && l->end_scale != 0 ? l->end_scale : 1;
    return m->residual_scale * end * (is_routed ? experts_factor(m, l, s) : is_ffn ? 1 : mixer_factor(l, s));
}

static const model_tensor *layer_factored(const layer_spec *l) {
    for (weight_slot s = 0; s < WEIGHT_SLOTS; s++)
        if (l->factor[s]) return l->weight[s];
    return NULL;
}

const model_tensor *forward_factored(const forward_model *m) {
    const model_tensor *found = NULL;
    for (size_t i = 0; !found && i < m->sizes.layers; i++) found = layer_factored(&m->layers[i]);
    for (size_t i = 0; !found && i < m->n_mtp_layers; i++)
        found = layer_factored(&m->mtp_layers[i]->layers[m->mtp_layers[i]->first]);
    return found;
}

/* The layer, or MTP layer, that has the weight of this name; NULL: none is run. */
static const layer_spec *layer_spec_with(const forward_model *m, const char *name) {
    model_block b;
    size_t layer = forward_layer_of(m, name);
    if (layer != SIZE_MAX) return &m->layers[layer];
    for (size_t i = 0; i < m->n_mtp_layers && model_block_leads(name, &b); i++)
        if (m->mtp_layers[i]->first == b.number) return &m->mtp_layers[i]->layers[b.number];
    return NULL;
}

bool forward_feeds(const forward_model *m, const model_tensor *t) {
    const layer_spec *l = layer_spec_with(m, t->name);
    for (weight_slot s = 0; l && s < WEIGHT_SLOTS; s++)
        if (!weight_facts_of[s].is_decoded && !weight_facts_of[s].is_helper && l->weight[s] == t) return true;
    return t == m->sizes.out && t != m->sizes.embedding;
}
