/* Shared by the sublayers of draft models (draft.h). */
#pragma once

#include "forward/graph/attention/attention.h"
#include "forward/graph/keys.h"
#include "forward/graph/model.h"
#include "forward/graph/sublayer.h"

/* Adds what the draft takes of its target, of which there are not DRAFT_SOURCES yet. */
void draft_take(forward_model *m, draft_source s);
/* Takes the hidden states before the layers of the key target_layers. */
void draft_read_layers(forward_model *m, key_reader *r);

/* The product with a weight of a layer that is not run now. */
typedef struct draft_flow {
    const float *x;
    float *y;
    size_t stride, y_stride;
} draft_flow;
bool draft_apply(forward_batch *b, const forward_layer *l, weight_slot s, const draft_flow *f, gq_error *e);

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

static inline const dflash_numbers *dflash_numbers_of(const forward_model *m) {
    return model_numbers(m, &mixer_dflash);
}
