
#include "forward/graph/experts/experts.h"

/* The weights that read a sublayer's input, helpers last. A layer that has one of `unknown` is left alone: this
 * weight reads the input in another way, or a weight in no list reads it, too. */
typedef struct sublayer_readers {
    const sublayer_kind *kind;
    weight_slot readers[FORWARD_GROUP_READERS + 1];
    weight_slot unknown[FORWARD_GROUP_READERS + 1];
} sublayer_readers;

static const sublayer_readers readers_of[] = {
    {&mixer_attention,
     {WEIGHT_ATTN_Q, WEIGHT_ATTN_K, WEIGHT_ATTN_V, WEIGHT_ATTN_QKV, WEIGHT_ATTN_GATE, WEIGHT_ATTN_Q_LORA_A,
      WEIGHT_ATTN_K_LORA_A, WEIGHT_ATTN_V_LORA_A, WEIGHT_SLOTS},
     {WEIGHT_INDEXER_K, WEIGHT_INDEXER_PROJ, WEIGHT_INDEXER_Q_PROJ, WEIGHT_INDEXER_K_PROJ, WEIGHT_SLOTS}},
    {&mixer_latent,
     {WEIGHT_ATTN_Q, WEIGHT_ATTN_Q_A, WEIGHT_ATTN_KV_A, WEIGHT_ATTN_GATE, WEIGHT_INDEXER_K,
      WEIGHT_INDEXER_PROJ, WEIGHT_SLOTS},
     {WEIGHT_INDEXER_Q_PROJ, WEIGHT_INDEXER_K_PROJ, WEIGHT_INDEXER_COMPRESSOR_GATE, WEIGHT_SLOTS}},
    {&mixer_delta_net,
     {WEIGHT_SSM_IN, WEIGHT_ATTN_QKV, WEIGHT_ATTN_GATE, WEIGHT_SSM_BETA, WEIGHT_SSM_ALPHA, WEIGHT_SSM_BA,
      WEIGHT_SLOTS},
     {WEIGHT_SLOTS}},
    {&mixer_shortconv, {WEIGHT_SHORTCONV_IN, WEIGHT_SLOTS}, {WEIGHT_SLOTS}},
    {&mixer_mamba1, {WEIGHT_SSM_IN, WEIGHT_SLOTS}, {WEIGHT_SLOTS}},
    {&mixer_mamba2, {WEIGHT_SSM_IN, WEIGHT_SLOTS}, {WEIGHT_SLOTS}},
    {&ffn_gated,
     {WEIGHT_FFN_GATE, WEIGHT_FFN_UP, WEIGHT_FFN_GATE_LORA_A, WEIGHT_FFN_UP_LORA_A, WEIGHT_SLOTS},
     {WEIGHT_SLOTS}},
    {&ffn_fused, {WEIGHT_FFN_UP, WEIGHT_SLOTS}, {WEIGHT_SLOTS}},
    {&ffn_plain, {WEIGHT_FFN_UP, WEIGHT_SLOTS}, {WEIGHT_SLOTS}},
    {&ffn_experts,
     {WEIGHT_FFN_ROUTER, WEIGHT_FFN_GATE_EXPS, WEIGHT_FFN_UP_EXPS, WEIGHT_FFN_GATE_UP_EXPS,
      WEIGHT_FFN_SHARED_GATE, WEIGHT_FFN_GATE_SHEXP, WEIGHT_FFN_UP_SHEXP, WEIGHT_SLOTS},
     {WEIGHT_FFN_UP, WEIGHT_FFN_NORM_EXPS, WEIGHT_FFN_ROUTER_SCALE, WEIGHT_FFN_LATENT_DOWN,
      WEIGHT_FFN_ROUTED_DOWN, WEIGHT_FFN_UP_CHEXPS, WEIGHT_SLOTS}},
};

/* The reader of a gated product's rows, and the matrix whose rows are a factor of it. */
typedef struct gated_product {
    const sublayer_kind *kind;
    weight_slot up, down;
    bool is_fused; /* `up` has the gates' rows, too, before its own */
} gated_product;

static const gated_product products_of[] = {
    {&ffn_gated, WEIGHT_FFN_UP, WEIGHT_FFN_DOWN, false},
    {&ffn_fused, WEIGHT_FFN_UP, WEIGHT_FFN_DOWN, true},
    {&ffn_experts, WEIGHT_FFN_UP_EXPS, WEIGHT_FFN_DOWN_EXPS, false},
    {&ffn_experts, WEIGHT_FFN_GATE_UP_EXPS, WEIGHT_FFN_DOWN_EXPS, true},
    {&ffn_experts, WEIGHT_FFN_UP_SHEXP, WEIGHT_FFN_DOWN_SHEXP, false},
};

static bool group_has_room_for(const layer_spec *l, const weight_slot *unknown) {
    for (; *unknown != WEIGHT_SLOTS; unknown++)
        if (l->weight[*unknown]) return false;
    return true;
}

/* Takes the norm that a sublayer reads through; false: it reads through none with weights. */
static bool group_norm(forward_scale_group *g, const model_tensor *weight, const model_tensor *bias) {
    if (!weight) return false;
    *g = (forward_scale_group){.columns = weight->ne[0]};
    g->makers[g->n_makers++] = weight;
    if (bias) g->makers[g->n_makers++] = bias;
    return true;
}

static bool group_sublayer_inputs(forward_scale_group *g, const layer_spec *l, const sublayer_spec *p) {
    const sublayer_readers *of = NULL;
    for (size_t i = 0; i < sizeof readers_of / sizeof *readers_of; i++)
        if (p->sublayer && readers_of[i].kind == p->sublayer->kind) of = &readers_of[i];
    if (!of || p->before == WEIGHT_SLOTS || !group_has_room_for(l, of->unknown) ||
        !group_norm(g, l->weight[p->before], l->bias[p->before]))
        return false;
    bool crosses =
        l->weight[WEIGHT_ENCODER_NORM] && of->kind == &mixer_attention; /* keys and values do not */
    for (const weight_slot *s = of->readers; *s != WEIGHT_SLOTS; s++)
        if (l->weight[*s] && (!crosses || *s == WEIGHT_ATTN_Q)) {
            g->readers[g->n_readers++] = l->weight[*s];
            g->n_judged += !weight_facts_of[*s].is_helper;
        }
    return g->n_readers > 0;
}

/* Whether the product is linear in what `up` gives. */
static bool is_linear(const activation_rule *act) {
    bool is_known =
        act->act == ACT_SILU || act->act == ACT_GELU || act->act == ACT_RELU2 || act->act == ACT_RELU;
    return is_known && act->limit == 0;
}

static bool group_product(forward_scale_group *g, const forward_model *m, const layer_spec *l,
                          const gated_product *p) {
    const model_tensor *up = l->weight[p->up], *down = l->weight[p->down];
    bool is_routed = weight_facts_of[p->up].is_routed;
    if (l->ffn.sublayer->kind != p->kind || !up || !down || l->bias[p->up] || l->switched.sublayer ||
        l->weight[WEIGHT_FFN_SUB_NORM] || !is_linear(is_routed ? &l->experts_act : &l->act))
        return false;
    if (p->kind == &ffn_experts && (m->arch->graph.plain_experts || l->weight[WEIGHT_FFN_UP_CHEXPS] ||
                                    (!is_routed && m->arch->graph.fused_shared)))
        return false;
    *g = (forward_scale_group){
        .columns = down->ne[0], .of_rows = true, .first_row = p->is_fused ? down->ne[0] : 0};
    g->readers[g->n_readers++] = down, g->makers[g->n_makers++] = up, g->n_judged = 1;
    return up->ne[1] == g->first_row + g->columns;
}

static bool group_output(forward_scale_group *g, const forward_model *m) {
    const forward_sizes *s = &m->sizes;
    if (s->out == s->embedding || m->loops > 1 || !group_norm(g, m->output_norm, m->output_norm_bias))
        return false;
    g->readers[g->n_readers++] = s->out, g->n_judged = 1;
    return true;
}

size_t forward_scale_groups(const forward_model *m, size_t i,
                            forward_scale_group groups[FORWARD_SCALE_GROUPS]) {
    size_t n = 0;
    if (i >= m->sizes.blocks) return group_output(&groups[0], m);
    const layer_spec *l = &m->layers[i];
    bool is_alone = !l->beside.sublayer && !l->tail.sublayer && !l->bank.sublayer && !layer_is_parallel(l) &&
                    !l->ffn_needs_start;
    if (!is_alone || i < m->arch->graph.sparse_layers) return 0;
    if (m->input_scale == 0) { /* else the state continues as a norm's result, too */
        n += group_sublayer_inputs(&groups[n], l, &l->mixer);
        n += group_sublayer_inputs(&groups[n], l, &l->ffn);
    }
    for (size_t k = 0; l->ffn.sublayer && k < sizeof products_of / sizeof *products_of; k++)
        n += group_product(&groups[n], m, l, &products_of[k]);
    return n;
}
