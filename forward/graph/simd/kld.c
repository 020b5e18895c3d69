/* Sums of exponentials of logits, of positions side by side: kernels.h says which. Two passes over a tile of
 * the vocabulary: the first finds the new maximum of each position and scales what has been summed to it, the
 * second adds the exponentials relative to that maximum, so that none overflows. No sum runs across
 * positions, exp is our own, and no product is fused: the bits are those of every ISA level. */
#include "codec/simd/lanes.h"
#include "forward/graph/simd/kernels.h"

/* The number of doubles in a vector, at least two. */
enum { D = L / 2 };
typedef double vd __attribute__((vector_size(8 * D)));
typedef int64_t vdi __attribute__((vector_size(8 * D)));
typedef uint64_t vdu __attribute__((vector_size(8 * D)));
typedef float vs __attribute__((vector_size(4 * D)));
_Static_assert(KLD_POSITIONS % D == 0, "whole vectors");

INLINE vd vd_load(const double *from) {
    vd x;
    memcpy(&x, from, sizeof x);
    return x;
}
INLINE void vd_store(double *to, vd x) { memcpy(to, &x, sizeof x); }
INLINE vd vd_of_floats(const float *from) {
    vs x;
    memcpy(&x, from, sizeof x);
    return __builtin_convertvector(x, vd);
}
INLINE vd vd_pick(vdi which, vd a, vd b) { return (vd)((which & (vdi)a) | (~which & (vdi)b)); }

/* e^x for x <= 0, within 2^-52 of it: libm's differ in their last bits from machine to machine. k ln 2 is taken
 * off in two parts, the first so short that its product with k is exact; what is left is below 0.35, where the
 * series ends behind the 13th power. Below -700 the result is too small to be seen beside the largest, 1. */
INLINE vd exp_below(vd x) {
    x = vd_pick(x < -700.0, -700.0 + (vd){0}, x); /* NaN is not below, and stays */
    vd shifted = x * 0x1.71547652b82fep0 + 0x1.8p52, k = shifted - 0x1.8p52;
    vd r = (x - k * 0x1.62e42feep-1) - k * 0x1.a39ef35793c76p-33,
       p = r * (1.0 / 6227020800) + 1.0 / 479001600;
    p = p * r + 1.0 / 39916800, p = p * r + 1.0 / 3628800, p = p * r + 1.0 / 362880;
    p = p * r + 1.0 / 40320, p = p * r + 1.0 / 5040, p = p * r + 1.0 / 720, p = p * r + 1.0 / 120;
    p = p * r + 1.0 / 24, p = p * r + 1.0 / 6, p = p * r + 1.0 / 2, p = p * r + 1.0, p = p * r + 1.0;
    return (vd)((vdu)p + ((vdu)shifted << 52)); /* the low bits of `shifted` are k */
}

/* Returns a row's logits at the positions of a group; those of the last group are padded with zeros. */
INLINE const float *row_padded(const float *row, size_t n, float padded[KLD_POSITIONS]) {
    if (n == KLD_POSITIONS) return row;
    memcpy(padded, row, n * sizeof *row);
    return padded;
}

/* Takes a tile into the maximum and the likeliest token of each position, and makes `sum` relative to the new
 * maximum. scale: by which factor, per position. */
static void raise_maximum(kld_sums *to, const kld_task *k, size_t m, double *scale) {
    double before[KLD_POSITIONS];
    float padded[KLD_POSITIONS] = {0};
    memcpy(before, to->max, sizeof before);
    for (uint32_t r = 0; r < k->rows; r++) {
        const float *row = row_padded(k->logits[m] + r * k->stride + k->at, k->n, padded);
        for (size_t t = 0; t < KLD_POSITIONS; t += D) {
            vd x = vd_of_floats(row + t), max = vd_load(to->max + t);
            vdi more = x > max, top;
            memcpy(&top, to->top + t, sizeof top);
            top = (more & ((int64_t)k->first + r + (vdi){0})) | (~more & top);
            memcpy(to->top + t, &top, sizeof top);
            vd_store(to->max + t, vd_pick(more, x, max));
        }
    }
    for (size_t t = 0; t < KLD_POSITIONS; t += D) {
        vd down = exp_below(vd_load(before + t) - vd_load(to->max + t));
        vd_store(scale + t, down);
        vd_store(to->sum + t, vd_load(to->sum + t) * down);
    }
}

extern kld_adds LEVEL(kld_add);
void LEVEL(kld_add)(const kld_task *k) {
    double scale[KLD_POSITIONS], unused[KLD_POSITIONS], e[KLD_POSITIONS];
    float padded[2][KLD_POSITIONS] = {0};
    kld_sums *base = k->to;
    raise_maximum(base, k, 0, scale);
    for (size_t m = 1; m < k->models; m++) {
        raise_maximum(&base[m], k, m, unused);
        for (size_t t = 0; t < KLD_POSITIONS; t++) base[m].cross[t] *= scale[t];
    }
    for (uint32_t r = 0; r < k->rows; r++) {
        size_t row = r * k->stride + k->at;
        const float *z = row_padded(k->logits[0] + row, k->n, padded[0]);
        for (size_t t = 0; t < KLD_POSITIONS; t += D) {
            vd x = exp_below(vd_of_floats(z + t) - vd_load(base->max + t));
            vd_store(e + t, x);
            vd_store(base->sum + t, vd_load(base->sum + t) + x);
        }
        for (size_t m = 1; m < k->models; m++) {
            const float *w = row_padded(k->logits[m] + row, k->n, padded[1]);
            kld_sums *quant = &base[m];
            for (size_t t = 0; t < KLD_POSITIONS; t += D) {
                vd of_quant = vd_of_floats(w + t), x = exp_below(of_quant - vd_load(quant->max + t));
                vd_store(quant->sum + t, vd_load(quant->sum + t) + x);
                vd_store(quant->cross + t,
                         vd_load(quant->cross + t) + vd_load(e + t) * (vd_of_floats(z + t) - of_quant));
            }
        }
    }
}
