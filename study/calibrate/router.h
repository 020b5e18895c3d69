/* Fits a router to the inputs that it gets in the rounded model, so that tokens keep their experts. A router
 * is not rounded: no mix quantizes it, and its bytes are few. Whether the fit is written is decided on
 * held-back tokens, by the share of the base model's choice that is kept: the sum over tokens and experts of
 * the lesser of the two gates. */
#pragma once

#include "forward/graph/block.h"
#include "forward/graph/layer.h"
#include "study/calibrate/round.h"

typedef struct router_task {
    const round_task *round; /* kept must not be NULL */
    forward_stream *base, *rounded;
    forward_layer *layer;
    forward_part part;
} router_task;

/* Returns the bytes that router_refit takes, besides its inputs and copies of the blocks. windows: of a
 * batch. UINT64_MAX: too many to count. */
uint64_t router_bytes(const calibration_settings *s, const model_tensor *tensor, size_t windows);
/* Writes the router, fitted or as it was. */
bool router_refit(const router_task *t, calibrate_figures *sums, round_reason *why, gq_error *e);
