/* How much is kept of a token: counted from the shapes of the layers' matrices. Where a layer keeps more than
 * that, as one that hands its keys on does, the rest is computed again. */
#include "base/checked.h"
#include "forward/layer_part.h"
#include "forward/stream.h"

/* Whether a weight's output is only used in a result that is kept behind it. */
static bool kept_is_inner(const layer_plan *l, weight_slot s) {
    static const weight_slot ffn[] = {WEIGHT_FFN_GATE,      WEIGHT_FFN_UP,           WEIGHT_FFN_GATE_EXPS,
                                      WEIGHT_FFN_UP_EXPS,   WEIGHT_FFN_GATE_UP_EXPS, WEIGHT_FFN_GATE_CHEXPS,
                                      WEIGHT_FFN_UP_CHEXPS, WEIGHT_FFN_GATE_SHEXP,   WEIGHT_FFN_UP_SHEXP};
    static const weight_slot mixer[] = {WEIGHT_ATTN_Q, WEIGHT_ATTN_K, WEIGHT_ATTN_V, WEIGHT_ATTN_QKV,
                                        WEIGHT_ATTN_GATE};
    for (size_t i = 0; i < sizeof ffn / sizeof *ffn; i++)
        if (s == ffn[i]) return true;
    bool attends = l->mixer.part && l->mixer.part->kind->keeps_inputs;
    for (size_t i = 0; attends && i < sizeof mixer / sizeof *mixer; i++)
        if (s == mixer[i]) return true;
    return false;
}

/* Whether the inputs of a weight are kept, and not what led to them. */
static bool kept_has_inputs(const layer_plan *l, weight_slot s) {
    return s == WEIGHT_FFN_DOWN || s == WEIGHT_FFN_DOWN_EXPS || s == WEIGHT_FFN_DOWN_CHEXPS ||
           s == WEIGHT_FFN_DOWN_SHEXP ||
           (s == WEIGHT_ATTN_OUTPUT && l->mixer.part && l->mixer.part->kind->keeps_inputs);
}

/* Values per token of what is kept of a weight. */
static uint64_t kept_slot_values(const layer_plan *l, weight_slot s, uint64_t experts_used, bool original) {
    const model_tensor *t = l->weight[s];
    if (!t || weight_facts_of[s].is_decoded || kept_is_inner(l, s)) return 0;
    if (!kept_has_inputs(l, s)) return times(t->ne[1], t->ne[2]);
    bool some = weight_facts_of[s].is_routed && experts_used && experts_used < t->ne[2];
    uint64_t met = weight_facts_of[s].is_routed ? some ? experts_used : t->ne[2] : 1;
    return plus(times(met, t->ne[0]), original ? t->ne[1] : 0);
}

/* Bytes per token: of the part of a layer that has most. */
static uint64_t kept_token_bytes(const forward_model *m, uint64_t experts_used, bool original) {
    bool splits = forward_model_splits(m);
    uint64_t most = 0;
    for (size_t i = 0; i < m->sizes.layers; i++) {
        uint64_t part[2] = {0, 0};
        for (weight_slot s = 0; s < WEIGHT_SLOTS; s++) {
            bool is_mixer = splits && s >= WEIGHT_ATTN_Q && s < WEIGHT_FFN_GATE;
            part[is_mixer] = plus(part[is_mixer], kept_slot_values(&m->layers[i], s, experts_used, original));
        }
        most = larger(most, larger(part[0], part[1]));
    }
    return times(most, sizeof(float));
}

void forward_kept_sizes(const forward_model *m, uint64_t experts_used,
                        uint64_t token_bytes[FORWARD_KEPT_SIDES]) {
    for (int side = 0; side < FORWARD_KEPT_SIDES; side++)
        token_bytes[side] = kept_token_bytes(m, experts_used, side == 0);
}
