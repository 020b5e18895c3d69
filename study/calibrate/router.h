/* Fits a router to the inputs that it gets in the rounded model, so that tokens keep their experts. A router
 * is not rounded: no mix quantizes it, and its bytes are few. Whether the fit is written is decided on
 * held-back tokens, by the share of the base model's choice that is kept: the sum over tokens and experts of
 * the lesser of the two gates. */
#pragma once

#include "study/calibrate/round.h"

/* Returns the bytes that router_refit takes, besides its inputs and copies of the blocks. windows: of a
 * batch. UINT64_MAX: too many to count. */
uint64_t router_bytes(const calibration_settings *s, const model_tensor *tensor, size_t windows);
/* Writes the router of the layer at hand, fitted or as it was. t->blocks_copy must not be NULL. */
bool router_refit(const round_task *t, calibrate_figures *sums, round_reason *why, gq_error *e);
