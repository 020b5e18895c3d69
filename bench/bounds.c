/* bench-bounds: the smallest relative error of each type on the reference data if its scales (and minimums)
 * were free real numbers, one per sub-block: a lower bound for every encoder.
 *
 *     bench-bounds [TYPE...]
 *
 * Prints the rows of bench/bounds.inc, of these types or of all, in a quarter of an hour. The rows of IQ1_S
 * to IQ3_S come from another program, which tries all grid entries at 144 scales per sub-block.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/reference_data.h"
#include "codec/codec.h"

enum { ROWS = REFERENCE_ROWS, COLS = REFERENCE_COLS, N = ROWS * COLS, MOST_LEVELS = 256, MOST_COLUMNS = 256 };
static float x[N], importance[COLS], ones[COLS];

/* ---- a scale alone: x' = a v, v from a list of levels ----
 * Exact. As s = 1 / a grows from 0, each weight passes the middles between its levels one by one; between two
 * such events no code changes, and the best scale for these codes is least squares. So all codings that any
 * scale can give are tried.
 */
typedef struct levels {
    int n;
    double value[MOST_LEVELS]; /* ascending */
} levels;

static levels integer_levels(int low, int high) {
    levels l = {.n = high - low + 1};
    for (int i = 0; i < l.n; i++) l.value[i] = low + i;
    return l;
}
static levels iq4_levels(void) {
    return (levels){16, {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}};
}
static levels fp4_levels(void) {
    return (levels){15, {-12, -8, -6, -4, -3, -2, -1, 0, 1, 2, 3, 4, 6, 8, 12}};
}
static levels sign_levels(void) { return (levels){2, {-1, 1}}; }

typedef struct level_event {
    double at;     /* value of s */
    double vv, vx; /* what it adds to sum w v^2 and sum w v x */
} level_event;

static int by_time(const void *a, const void *b) {
    double s = ((const level_event *)a)->at, t = ((const level_event *)b)->at;
    return (s > t) - (s < t);
}

/* Largest part of sum w x^2 that scales of one sign can explain. */
static double explained_by(const levels *l, const float *block, const float *w, int n, double sign) {
    static level_event events[MOST_COLUMNS * MOST_LEVELS];
    int count = 0;
    double vv = 0, vx = 0, best = 0;
    for (int i = 0; i < n; i++) {
        double value = sign * (double)block[i], wi = (double)w[i];
        bool up = value >= 0;
        /* Level at s = 0, then the thresholds on the weight's side of 0, outward. */
        int level = 0;
        while (level + 1 < l->n &&
               (up ? l->value[level] + l->value[level + 1] < 0 : l->value[level] + l->value[level + 1] <= 0))
            level++;
        vv += wi * l->value[level] * l->value[level], vx += wi * value * l->value[level];
        for (int next; value != 0 && (next = up ? level + 1 : level - 1) >= 0 && next < l->n; level = next) {
            double from = l->value[level], to = l->value[next];
            events[count++] = (level_event){0.5 * (from + to) / value, wi * (to * to - from * from),
                                            wi * value * (to - from)};
        }
    }
    qsort(events, (size_t)count, sizeof *events, by_time);
    for (int k = 0;; k++) {
        if ((k == count || k == 0 || events[k].at > events[k - 1].at) && vx > 0 && vv > 0)
            best = fmax(best, vx * vx / vv);
        if (k == count) return best;
        vv += events[k].vv, vx += events[k].vx;
    }
}

static double best_by_scale(const levels *l, const float *block, const float *w, int n) {
    double x2 = 0;
    for (int i = 0; i < n; i++) x2 += (double)w[i] * (double)block[i] * (double)block[i];
    return fmax(0, x2 - fmax(explained_by(l, block, w, n, 1), explained_by(l, block, w, n, -1)));
}

/* ---- a scale and a minimum: x' = a q - m, q = 0..top ----
 * A dense search: each end of the code range is moved from two fifths of the range outward to four fifths
 * inward, in steps of 0.2 codes, coarser far inward; for each placing codes, least squares, and again while
 * that lowers the error. Steps half as long find nothing lower in the first four digits.
 */
typedef struct placing_span {
    int length, top;
    bool any_min; /* false: m >= 0 */
} placing_span;

typedef struct placing_fit {
    double a, m, error;
} placing_fit;

typedef float v8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t v8i __attribute__((vector_size(32)));

/* By address: as an argument a v8 travels differently with AVX and without. */
static double total_of_8(const v8 *v) {
    double sum = 0;
    for (int i = 0; i < 8; i++) sum += (double)(*v)[i];
    return sum;
}

/* Least squares for the codes that a scale and a minimum give. */
#ifdef __x86_64__
__attribute__((target_clones("avx2", "default")))
#endif
static placing_fit
try_placing(const placing_span *sp, const float *block, const float *weight, double a, double m) {
    float inv = (float)(1 / a), offset = (float)(m / a), top = (float)sp->top;
    v8 q1 = {0}, qq = {0}, qx = {0}, w1 = {0}, wx = {0}, xx = {0}, most = (v8){0} + top;
    for (int i = 0; i < sp->length; i += 8) {
        v8 x8 = *(const v8 *)(block + i), w = *(const v8 *)(weight + i), q = x8 * inv + offset;
        v8i over = q > top, positive = q > 0;
        q = (v8)(((v8i)most & over) | ((v8i)q & positive & ~over));
        q = (q + 0x1.8p23f) - 0x1.8p23f; /* nearest integer */
        v8 wq = w * q;
        q1 += wq, qq += wq * q, qx += wq * x8, w1 += w, wx += w * x8, xx += w * x8 * x8;
    }
    double sq = total_of_8(&q1), sqq = total_of_8(&qq), sqx = total_of_8(&qx), sw = total_of_8(&w1),
           swx = total_of_8(&wx);
    double det = sw * sqq - sq * sq;
    placing_fit f = {0, -swx / sw, 0};
    if (det > 1e-6 * sw * sqq) {
        f.a = (sw * sqx - sq * swx) / det;
        f.m = (f.a * sq - swx) / sw;
    }
    if (!sp->any_min && f.m < 0) f.m = 0, f.a = sqq > 0 ? sqx / sqq : 0;
    f.error = total_of_8(&xx) - f.a * sqx + f.m * swx;
    return f;
}

/* Codes for a scale and a minimum, least squares for these codes, and so on while it helps. */
static void polish_placing(const placing_span *sp, const float *block, const float *w, placing_fit f,
                           int rounds, placing_fit *best) {
    for (int k = 0; k < rounds && f.a > 0; k++) {
        placing_fit next = try_placing(sp, block, w, f.a, f.m);
        if (k > 0 && next.error >= f.error) break;
        f = next;
    }
    if (f.error < best->error) *best = f;
}

static double best_by_scale_and_minimum(const placing_span *sp, const float *block, const float *w) {
    float low = sp->any_min ? block[0] : 0, high = block[0];
    for (int i = 0; i < sp->length; i++) low = fminf(low, block[i]), high = fmaxf(high, block[i]);
    /* All codes zero, first. */
    placing_fit best = try_placing(sp, block, w, 1e30, 0);
    if (high <= low) return fmax(0, best.error);
    double shifts[200];
    int n = 0;
    double by = 0.4 * sp->top;
    while (by > -0.8 * sp->top) {
        shifts[n++] = by;
        by -= by > -1 ? 0.2 : 0.4;
    }
    for (int lower = 0; lower < n; lower++)
        for (int upper = 0; upper < n; upper++) {
            double codes = sp->top + shifts[lower] + shifts[upper];
            if (codes < 0.2 * sp->top) continue;
            double a = (double)(high - low) / codes;
            polish_placing(sp, block, w, (placing_fit){a, a * shifts[lower] - (double)low, INFINITY}, 4,
                           &best);
        }
    polish_placing(sp, block, w, best, 20, &best);
    return fmax(0, best.error);
}

/* ---- types ---- */
typedef struct type_bound {
    uint32_t type;
    int length, per_block; /* of a sub-block; sub-blocks that share a factor, over which the gain is kept, 0:
                              not kept */
    enum { BOUND_SCALE, BOUND_PAIR, BOUND_POWERS } kind;
    int low, high; /* codes */
    levels (*special)(void);
    bool any_min;
} type_bound;

static const type_bound types[] = {
    {GGUF_Q4_0, 32, 1, BOUND_SCALE, -8, 7, NULL, false},
    {GGUF_Q4_1, 32, 1, BOUND_PAIR, 0, 15, NULL, true},
    {GGUF_Q5_0, 32, 1, BOUND_SCALE, -16, 15, NULL, false},
    {GGUF_Q5_1, 32, 1, BOUND_PAIR, 0, 31, NULL, true},
    {GGUF_Q8_0, 32, 1, BOUND_SCALE, -127, 127, NULL, false},
    {GGUF_Q2_K, 16, 16, BOUND_PAIR, 0, 3, NULL, false},
    {GGUF_Q3_K, 16, 16, BOUND_SCALE, -4, 3, NULL, false},
    {GGUF_Q4_K, 32, 8, BOUND_PAIR, 0, 15, NULL, false},
    {GGUF_Q5_K, 32, 8, BOUND_PAIR, 0, 31, NULL, false},
    {GGUF_Q6_K, 16, 16, BOUND_SCALE, -32, 31, NULL, false},
    {GGUF_IQ4_NL, 32, 1, BOUND_SCALE, 0, 0, iq4_levels, false},
    {GGUF_IQ4_XS, 32, 8, BOUND_SCALE, 0, 0, iq4_levels, false},
    {GGUF_TQ1_0, 256, 1, BOUND_SCALE, -1, 1, NULL, false},
    {GGUF_TQ2_0, 256, 1, BOUND_SCALE, -1, 1, NULL, false},
    {GGUF_MXFP4, 32, 0, BOUND_POWERS, 0, 0, fp4_levels, false},
    {GGUF_NVFP4, 16, 0, BOUND_SCALE, 0, 0, fp4_levels, false},
    {GGUF_Q1_0, 128, 0, BOUND_SCALE, 0, 0, sign_levels, false},
    {GGUF_Q2_0, 64, 1, BOUND_SCALE, -1, 2, NULL, false},
};

/* MXFP4: the few powers of two are all there is. */
static double best_by_power(const levels *l, const float *block, const float *w, int n) {
    double best = INFINITY;
    for (int power = -40; power <= 10; power++) {
        double a = ldexp(1, power), error = 0;
        for (int i = 0; i < n; i++) {
            double least = INFINITY;
            for (int k = 0; k < l->n; k++) least = fmin(least, fabs((double)block[i] - a * l->value[k]));
            error += (double)w[i] * least * least;
        }
        best = fmin(best, error);
    }
    return best;
}

static double best_error(const type_bound *t, const levels *l, const float *block, const float *w) {
    if (t->kind == BOUND_SCALE) return best_by_scale(l, block, w, t->length);
    if (t->kind == BOUND_POWERS) return best_by_power(l, block, w, t->length);
    return best_by_scale_and_minimum(&(placing_span){t->length, t->high, t->any_min}, block, w);
}

/* Relative errors: the least, and with the gain kept. The least-error x' has <x', x> = <x', x'> = x2 - e2;
 * scaled so that <x', x> = x2 its error is x2 e2 / (x2 - e2). */
static void bound_of(const type_bound *t, const float *w, double *least, double *kept) {
    levels l = t->special               ? t->special()
               : t->kind == BOUND_SCALE ? integer_levels(t->low, t->high)
                                        : (levels){0, {0}};
    int group = t->length * (t->per_block ? t->per_block : 1);
    double all_x2 = 0, all_e2 = 0, all_kept = 0;
    for (int first = 0; first < N; first += group) {
        double x2 = 0, e2 = 0;
        for (int i = first; i < first + group; i += t->length) e2 += best_error(t, &l, x + i, w + i % COLS);
        for (int i = first; i < first + group; i++) x2 += (double)w[i % COLS] * (double)x[i] * (double)x[i];
        all_x2 += x2, all_e2 += e2, all_kept += x2 * e2 / (x2 - e2);
    }
    *least = sqrt(all_e2 / all_x2), *kept = t->per_block ? sqrt(all_kept / all_x2) : 0;
}

static bool is_wanted(const char *name, char *const *names) {
    if (!*names) return true;
    while (*names && strcmp(*names, name) != 0) names++;
    return *names != NULL;
}

int main(int argc, char **argv) {
    if (argc > 1 && argv[1][0] == '-') return fputs("usage: bench-bounds [TYPE...]\n", stderr), 2;
    reference_data(x, importance);
    for (int i = 0; i < COLS; i++) ones[i] = 1;
    for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
        const char *name = tensor_type_name(types[k].type);
        if (!is_wanted(name, argv + 1)) continue;
        double least[2], kept[2];
        for (int on = 0; on < 2; on++) bound_of(&types[k], on ? importance : ones, &least[on], &kept[on]);
        printf("    {GGUF_%s, {%.6f, %.6f}, {%.6f, %.6f}},\n", name, least[0], least[1], kept[0], kept[1]);
        fflush(stdout);
    }
    return 0;
}
