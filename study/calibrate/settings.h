/* The settings that decide the bytes of a calibrated run, besides those of encoding. The calibrator takes
 * them from here and nowhere else, and the digest is that of all of it: what is not in it cannot change
 * bytes.
 */
#pragma once

#include "base/checksum.h"
#include "study/calibrate/steps.h"
#include "study/inputs/hessian.h"
#include "study/sweep/windows.h"

/* Held-back tokens of one expert, at most: enough to tell two roundings apart. */
enum { EXPERT_HELD_TOKENS = 512 };
/* Packed, so that there are no bytes between its members that would have no part in the digest. */
typedef struct __attribute__((packed)) calibration_settings {
    float damp, shrink, gptaq_a; /* of hessian_settings */
    uint64_t windows, context;   /* of the text */
    calibrate_step_mask steps;   /* that are done */
    uint64_t sweeps;             /* of descent: feedback_sweeps, 0 without CALIBRATE_SWEEPS */
    uint64_t trials;             /* of scales: feedback_trials, 0 without CALIBRATE_TRIALS */
    uint64_t width;       /* of Hessians' blocks, at most: a multiple of PASS_COLUMNS; SIZE_MAX: whole rows */
    uint64_t held_every;  /* of windows_held */
    uint64_t expert_held; /* EXPERT_HELD_TOKENS */
    uint64_t fused;       /* this processor multiplies and adds in one step */
    uint64_t ids;         /* checksum of the text's tokens */
    uint64_t ahead;       /* windows of calibration.ahead; 0: there are none */
    uint64_t loops;       /* times that the model runs its blocks: each matrix sees the text so often */
    uint64_t arithmetic;  /* matmul_arithmetic of Hessians and of products of weights with activations */
} calibration_settings;

static inline uint32_t calibration_settings_digest(const calibration_settings *s) {
    return checksum_add(0, s, sizeof *s);
}

static inline matmul_arithmetic calibration_arithmetic(const calibration_settings *s) {
    return (matmul_arithmetic)s->arithmetic;
}
/* Whether a step is done. */
static inline bool calibration_does(const calibration_settings *s, calibrate_step step) {
    return s->steps & calibrate_step_bit(step);
}
static inline hessian_settings calibration_hessian_settings(const calibration_settings *s) {
    return (hessian_settings){.damp = s->damp,
                              .shrink = s->shrink,
                              .gptaq_a = s->gptaq_a,
                              .mean_damping = !calibration_does(s, CALIBRATE_DAMPING)};
}
/* The windows that only check. */
static inline windows_held calibration_held(const calibration_settings *s) {
    return (windows_held){s->held_every, s->held_every ? s->windows / s->held_every : 0};
}
/* Whether a window only checks. */
static inline bool calibration_is_held(const calibration_settings *s, uint64_t window) {
    return windows_is_held(calibration_held(s), window);
}
/* Held-back tokens that one matrix is checked with, at most. */
static inline uint64_t calibration_held_most(const calibration_settings *s, bool is_routed) {
    uint64_t all = calibration_held(s).n * s->context * s->loops;
    return is_routed && all > s->expert_held ? s->expert_held : all;
}
