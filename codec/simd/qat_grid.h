/* Weights on a quantization grid, as in checkpoints of quantization-aware training (QAT): whole multiples of
 * a step, as those of models that were trained for 4 bits, or stored in 4 bits and written out again. A
 * search that compares scales passes by the one that meets all of them where a block has few of the codes; so
 * the steps that are possible are tried by themselves: the largest weight is the first, second, ... multiple.
 * Blocks of other weights are recognized by their first few weights, so the trial costs them little. Each
 * lane one (sub-)block.
 *
 * What is found counts only where the decoded block is nearer to its weights than the search's. */
#pragma once

#include "codec/simd/encoder.h"

enum { QAT_GRID_MOST = 16 }; /* the largest multiple: 4 bits with any zero point, E2M1's 12 */

/* The allowed relative distance of a quotient of weights from a whole number: weights in BF16 are off by up to 2^-8
 * each; those in floats by their last bits. */
#define QAT_GRID_SLACK 0x1.04p-7f
#define QAT_GRID_SLACK_FLOATS 0x1p-17f

/* Finds the largest step of which n weights (a multiple of 4) are whole multiples, the largest weight at most
 * the `most`-th; by least squares. 0: there is none, or all weights are 0, which `on` distinguishes: it keeps
 * the lanes that are on a grid or 0. */
INLINE vf qat_grid_step(const vf *x, int n, int most, float slack, vm *on) {
    vf low, high, step = vf_all(0);
    vf_extremes(x, n, &low, &high);
    vf top = vf_larger(vf_magnitude(low), vf_magnitude(high)), per = vf_inverse(top);
    vm some = vm_both(*on, vf_less(vf_all(0), top));
    for (int k = 1; k <= most; k++) {
        vf inv = per * (float)k, qq = vf_all(0), qx = vf_all(0);
        vm fits = vm_both(some, vf_at_most(step, vf_all(0)));
        for (int i = 0; i < n && vm_any(fits); i += 2)
            for (int j = i; j < i + 2; j++) {
                vf t = x[j] * inv, q = vf_nearest(t);
                fits = vm_both(fits, vf_at_most(vf_magnitude(t - q), vf_magnitude(q) * slack));
            }
        if (!vm_any(fits)) continue;
        for (int i = 0; i < n; i++) {
            vf q = vf_nearest(x[i] * inv);
            qq = qq + q * q, qx = qx + q * x[i];
        }
        step = vf_pick(fits, qx * vf_inverse(qq), step);
    }
    *on = vm_both(*on, vm_either(vf_less(vf_all(0), step), vf_at_most(top, vf_all(0))));
    return step;
}

/* The steps of n sub-blocks of a block, and a factor of which all of them are whole multiples, the largest
 * one at most the `levels`-th. Returns the factor, 0 in lanes that have none. */
INLINE vf qat_grid_factor(const batch *b, int n, int length, int most, int levels, vf *steps) {
    vm on = vf_less(vf_all(-1), vf_all(0)), exact;
    for (int k = 0; k < n && vm_any(on); k++)
        steps[k] = qat_grid_step(b->x + k * length, length, most, QAT_GRID_SLACK, &on);
    if (!vm_any(on)) return vf_all(0);
    exact = on;
    vf factor = qat_grid_step(steps, n, levels, QAT_GRID_SLACK_FLOATS, &exact);
    vf about = qat_grid_step(steps, n, levels < QAT_GRID_MOST ? levels : QAT_GRID_MOST, QAT_GRID_SLACK, &on);
    return vf_pick(vf_less(vf_all(0), factor), factor, about);
}

/* The error of a weight that was decoded as y, squared and weighted. */
INLINE vf qat_grid_error(vf x, vf y, bool weighted, float w) {
    vf e = x - y;
    return (weighted ? w * e : e) * e;
}

/* The largest multiple of a step that codes low..high can hold. */
INLINE int qat_grid_most(float low, float high) {
    float most = -low > high ? -low : high;
    return most < QAT_GRID_MOST ? (int)most : QAT_GRID_MOST;
}
