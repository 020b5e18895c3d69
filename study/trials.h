/* Finds by trial how much each tensor's error changes the model's predictions: a part of the text is run with
 * one tensor at a time in a coarse type, or in models of many layers with some tensors that go together, and
 * the divergence from the base model is measured. Types for a target are chosen by it, before anything is
 * rounded. */
#pragma once

#include "quantize/plan/target/target.h"
#include "study/sample.h"

/* Decides in how many layers tensors are tried (docs/internals/mixes.md says how). That follows from the model, the
 * wanted tensors, the windows and the calibration's memory.deciding alone. *layers 0: a trial does not fit
 * into that memory, and *least is the bytes it takes; or windows are too short, and *least is 0. */
bool trials_decide_layers(const gq_plan *plan, const bool *wanted, size_t *layers, uint64_t *least,
                          gq_error *e);
/* Tells how long the sample and the trials in so many layers will take, and measures it if asked to. layers
 * 0: the sample alone. */
trials_forecast trials_forecast_seconds(const gq_plan *plan, const bool *wanted, size_t layers,
                                        bool measures);
/* Sets `sensitivity` of the wanted tensors that are run and were measured, after trials in so many layers; a layer
 * without trials gets the result of the nearest layer's tensor of the same name. Harms that `found` had
 * before are dropped. Importance is that of the sources. seconds: for progress. */
bool trials_run(const gq_plan *plan, const bool *wanted, size_t layers, measured *found,
                const gq_callbacks *callbacks, const trials_forecast *seconds, gq_error *e);

/* All of it, for the targets of a plan whose rounding is a calibration. */
extern const measurement measurement_by_trials;
