/* Error sums of rows. */
#include "codec/simd/kernels.h"

/* Sums run in 16 lanes at every level: in float within a stretch, whose 16 terms per lane lose at most about
 * 1e-6 of a sum, and in double from stretch to stretch. So the order of additions depends on the shape alone.
 * Stretches with numbers whose squares float does not hold are added up again in double, which holds them
 * all. */
enum { SUMS = 16, SUM_VECTORS = SUMS / L, STRETCH_ELEMENTS = 256 };

typedef struct measure_lanes {
    vf v[SUM_VECTORS];
} measure_lanes;

typedef struct stretch_sums {
    measure_lanes x2, e2, wx2, we2;
    measure_lanes max_x, max_e;
} stretch_sums;

typedef struct measure_totals {
    double x2[SUMS], e2[SUMS], wx2[SUMS], we2[SUMS];
    measure_lanes max_e;
} measure_totals;

/* w NULL: no importance, and no weighted sums. */
INLINE void stretch_add(stretch_sums *s, const float *x, const float *y, const float *w) {
    for (int k = 0; k < SUM_VECTORS; k++) {
        vf a = vf_load(x + k * L), e = a - vf_load(y + k * L), xx = a * a, ee = e * e;
        s->x2.v[k] += xx, s->e2.v[k] += ee;
        if (w) {
            vf weight = vf_load(w + k * L);
            s->wx2.v[k] += weight * xx, s->we2.v[k] += weight * ee;
        }
        s->max_x.v[k] = vf_larger(vf_magnitude(a), s->max_x.v[k]);
        s->max_e.v[k] = vf_larger(vf_magnitude(e), s->max_e.v[k]);
    }
}

INLINE void add_lanes(double total[SUMS], const measure_lanes *lanes) {
    float sums[SUMS];
    memcpy(sums, lanes, sizeof sums);
    for (int i = 0; i < SUMS; i++) total[i] += (double)sums[i];
}

INLINE void keep_larger(measure_lanes *most, const measure_lanes *lanes) {
    for (int k = 0; k < SUM_VECTORS; k++) most->v[k] = vf_larger(lanes->v[k], most->v[k]);
}

/* Whether float has served for these sums: none beyond its range, and the largest so far above the smallest
 * normal number, 2^-126, that what terms below it have lost does not count. A sum of nothing but zeros is
 * one, too. */
INLINE bool in_range(const measure_lanes *sums, const measure_lanes *terms) {
    vm beyond = vf_less(vf_all(0x1p100f), sums->v[0]), enough = vf_at_most(vf_all(0x1p-90f), sums->v[0]);
    vm any = vf_less(vf_all(0), terms->v[0]);
    for (int k = 1; k < SUM_VECTORS; k++) {
        beyond = vm_either(beyond, vf_less(vf_all(0x1p100f), sums->v[k]));
        enough = vm_either(enough, vf_at_most(vf_all(0x1p-90f), sums->v[k]));
        any = vm_either(any, vf_less(vf_all(0), terms->v[k]));
    }
    return !vm_any(beyond) && (vm_any(enough) || !vm_any(any));
}

static __attribute__((noinline)) void add_in_double(measure_totals *t, const float *x, const float *y,
                                                    const float *w, size_t n) {
    for (size_t i = 0; i < n; i++) {
        double a = (double)x[i], e = a - (double)y[i], weight = w ? (double)w[i] : 0;
        t->x2[i % SUMS] += a * a, t->e2[i % SUMS] += e * e;
        t->wx2[i % SUMS] += weight * a * a, t->we2[i % SUMS] += weight * e * e;
    }
}

INLINE void measure_stretch(measure_totals *t, const float *x, const float *y, const float *w, size_t n) {
    stretch_sums s = {0};
    size_t i = 0;
    for (; i + SUMS <= n; i += SUMS) stretch_add(&s, x + i, y + i, w ? w + i : NULL);
    if (i < n) { /* zeros add nothing */
        float a[SUMS] = {0}, b[SUMS] = {0}, c[SUMS] = {0};
        memcpy(a, x + i, 4 * (n - i)), memcpy(b, y + i, 4 * (n - i));
        if (w) memcpy(c, w + i, 4 * (n - i));
        stretch_add(&s, a, b, w ? c : NULL);
    }
    keep_larger(&t->max_e, &s.max_e);
    if (!in_range(&s.x2, &s.max_x) || !in_range(&s.e2, &s.max_e) ||
        (w && (!in_range(&s.wx2, &s.max_x) || !in_range(&s.we2, &s.max_e)))) {
        add_in_double(t, x, y, w, n);
        return;
    }
    add_lanes(t->x2, &s.x2), add_lanes(t->e2, &s.e2);
    if (w) add_lanes(t->wx2, &s.wx2), add_lanes(t->we2, &s.we2);
}

INLINE void measure_row(measure_totals *t, const float *x, const float *y, const float *w, size_t cols) {
    for (size_t c = 0; c < cols; c += STRETCH_ELEMENTS)
        measure_stretch(t, x + c, y + c, w ? w + c : NULL,
                        cols - c < STRETCH_ELEMENTS ? cols - c : STRETCH_ELEMENTS);
}

static double measure_fold(const double lanes[SUMS]) {
    double sum = 0;
    for (int i = 0; i < SUMS; i++) sum += lanes[i];
    return sum;
}

static float measure_largest(const measure_lanes *lanes, float most) {
    float values[SUMS];
    memcpy(values, lanes, sizeof values);
    for (int i = 0; i < SUMS; i++) most = values[i] > most ? values[i] : most;
    return most;
}

void LEVEL(measure)(const float *x, const float *y, size_t rows, size_t cols, const float *w,
                    codec_error *sum) {
    measure_totals t = {.max_e = {{{0}}}};
    if (w)
        for (size_t r = 0; r < rows; r++) measure_row(&t, x + r * cols, y + r * cols, w, cols);
    else /* rows make no difference */
        measure_row(&t, x, y, NULL, rows * cols);
    double x2 = measure_fold(t.x2), e2 = measure_fold(t.e2);
    sum->n += rows * cols;
    sum->x2 += x2, sum->e2 += e2;
    sum->wx2 += w ? measure_fold(t.wx2) : x2, sum->we2 += w ? measure_fold(t.we2) : e2;
    sum->max_e = measure_largest(&t.max_e, sum->max_e);
}
