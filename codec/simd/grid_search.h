/* The types that code 8 or 4 weights by an entry of a grid: the entry nearest to some weights at a given
 * scale, exactly.
 *
 * What an entry costs, sum w (x - a v)^2, is a sum over its digits. So costs are added up digit by digit, and
 * the least is taken of all entries that have a beginning in common before the next digits join:
 * grid_least.inc, straight-line code that codec/make_grids writes, needs a third to a half of an addition per
 * digit of each entry. A cost is an integer whose lower bits hold the digits it is the cost of, each in a
 * place of its own: adding costs joins digits, and a minimum brings along what it is the minimum of.
 */
#ifndef GQ_GRID_SEARCH_H
#define GQ_GRID_SEARCH_H

#include "codec/grids.h"
#include "codec/simd/encoder.h"

/* ---- the words of grid_least.inc ---- */
/* Sanitizers find nothing in straight-line arithmetic that reads no memory but its argument, and take minutes
 * to compile it. */
#define STRAIGHT NOINLINE __attribute__((no_sanitize("address", "undefined")))
#define LEAST(x, y) vi_smaller(x, y)
#define SET(name, x, y) const vi name = LEAST(x, y);
#define SUM(name, x, y) const vi name = (x) + (y);
/* Costs of parts. Compilers share sums that occur twice, and store more of them to memory than that saves:
 * after HIDE_PARTS they take u for other values than before. */
#define PARTS_OF_8 \
    vi best = vi_all(INT32_MAX); \
    const vi d0 = c[3][0], d1 = c[3][1], d2 = c[3][2], d3 = c[3][3], d4 = c[3][4], d5 = c[3][5], \
             d6 = c[3][6], d7 = c[3][7]; \
    vi u0 = c[2][0], u1 = c[2][1], u2 = c[2][2], u3 = c[2][3], u4 = c[2][4], u5 = c[2][5], u6 = c[2][6], \
       u7 = c[2][7];
#define PARTS_OF_9 \
    PARTS_OF_8 \
    const vi d8 = c[3][8]; \
    vi u8 = c[2][8];
#if defined(__AVX512F__)
#define HIDE(u) "+v"(u)
#elif defined(__SSE2__)
#define HIDE(u) "+x"(u)
#elif defined(__aarch64__)
#define HIDE(u) "+w"(u)
#else
#define HIDE(u) "+m"(u)
#endif
#define HIDE_PARTS \
    __asm__ volatile("" : HIDE(u0), HIDE(u1), HIDE(u2), HIDE(u3), HIDE(u4), HIDE(u5), HIDE(u6), HIDE(u7));
#define FIRST(a) \
    { \
        vi of_first = vi_all(INT32_MAX);
#define SECOND(b, least) HIDE_PARTS of_first = LEAST(of_first, (least) + c[1][b]);
#define FIRST_END(a) \
    best = LEAST(best, of_first + c[0][a]); \
    }
#include "codec/simd/grid_least.inc"

/* ---- a type ---- */
typedef enum grid_signs {
    GRID_SIGNS_EVEN, /* of eight weights, an even number is negative */
    GRID_SIGNS_FREE,
    GRID_SHIFT_OF_ENTRY,    /* none; values are shifted up or down by an eighth, each entry's, ... */
    GRID_SHIFT_OF_SUB_BLOCK /* ... or a sub-block's */
} grid_signs;

typedef struct grid_type {
    vi (*least)(const vi costs[4][9]);
    const uint16_t *index; /* of an entry, by its digits */
    int size;              /* weights of an entry: 8 or 4 */
    int step, length;      /* weights that are coded together; of a sub-block */
    grid_signs signs;
    float level[8]; /* of a digit; of three, twice over */
    float unit;     /* times (2 s + 1) times the block's factor: what a level is multiplied by */
    float top;      /* largest 2 s + 1 */
    float estimate; /* the best scale, by what moments say of it */
    float gain;     /* share of the gain that is kept */
} grid_type;

INLINE bool grid_is_shifted(const grid_type t) {
    return t.signs == GRID_SHIFT_OF_ENTRY || t.signs == GRID_SHIFT_OF_SUB_BLOCK;
}
INLINE int digit_bits(const grid_type t) { return t.size == 8 ? 2 : 3; }
INLINE int digit_levels(const grid_type t) { return t.size == 8 ? 3 : 8; }

/* ---- a step: weights that are coded together ---- */
typedef struct grid_step {
    vf x[8];   /* as entries see them: magnitudes, but of one that gets the other sign; shifted types: as they
                  are */
    vi signs;  /* bit i: weight i becomes negative */
    vf per[2]; /* of each entry: units of cost per squared error, all_cost / sum w x^2 */
} grid_step;
/* The result of coding it. */
typedef struct grid_code {
    vi digits[2]; /* of each entry */
    vi signs;     /* as above; shifted types: 1 where the shift is downward */
    vf vv, vx;    /* sum w v^2, sum w v x: v what the codes stand for, x as the entries saw it */
} grid_code;

/* Error for scale a, without sum w x^2. */
INLINE vf coded_error(vf vv, vf vx, vf a) { return a * (a * vv - 2.0f * vx); }

/* The number that sum w x^2 is scaled to. Costs are relative to those of digit 0 everywhere, which every grid
 * has as an entry, and a weight's stops at 2^27 (in grids of four 2^28), so that sums stay below 2^31. No
 * entry may look better than it is for that: a cost that stops must outweigh all that the other weights can
 * gain, which is no more than sum w x^2; of shifted types, where digit 0 is an eighth beside 0, no more than
 * (4 / 3)^2 of it. */
INLINE float all_cost(const grid_type t) {
    return t.size == 4 ? 0x1p28f : grid_is_shifted(t) ? 0x1p26f : 0x1p27f;
}

/* Costs of nothing but rounding noise are not told apart; and no quotient overflows. */
INLINE void weigh_entries(const grid_type t, const float *w, grid_step *s) {
    for (int k = 0; k < t.step / t.size; k++) {
        vf xx = vf_all(0x1p-60f);
        for (int i = k * t.size; i < (k + 1) * t.size; i++) xx = xx + w[i] * s->x[i] * s->x[i];
        s->per[k] = all_cost(t) / xx;
    }
}

/* The level that a magnitude would be rounded to alone, nearly. */
INLINE vf level_alone(const grid_type t, vf x, vf a) {
    if (t.size == 4) return vf_larger(x, t.level[0] * a);
    vf low = a * (0.5f * (t.level[0] + t.level[1])), high = a * (0.5f * (t.level[1] + t.level[2]));
    return vf_pick(vf_less(x, low), vf_all(t.level[0]),
                   vf_pick(vf_less(x, high), vf_all(t.level[1]), vf_all(t.level[2])));
}

/* -a where bit i is set. */
INLINE vf change_sign(vf a, vi signs, int i) {
    return vf_from_bits(vf_bits(a) ^ (signs << (31 - i) & INT32_MIN));
}

/* Weights, and signs. Where an odd number is negative, one weight gets the wrong sign: the one that this
 * harms least, or in *second, if that is not NULL, second least. */
INLINE void start_step(const grid_type t, const vf *x, const float *w, vf a, grid_step *s,
                       grid_step *second) {
    s->signs = vi_all(0);
    if (grid_is_shifted(t)) {
        for (int i = 0; i < t.step; i++) s->x[i] = x[i];
        weigh_entries(t, w, s);
        return;
    }
    vi odd = vi_all(0), least = vi_all(0), next = vi_all(0);
    vf least_harm = vf_all(INFINITY), next_harm = vf_all(INFINITY);
    for (int i = 0; i < t.step; i++) {
        const vi negative = vf_bits(x[i]) >> 31;
        s->signs = s->signs | (negative & 1 << i), odd = odd ^ negative;
        s->x[i] = vf_magnitude(x[i]);
        if (t.signs == GRID_SIGNS_EVEN) {
            const vf harm = w[i] * s->x[i] * level_alone(t, s->x[i], a);
            const vm below = vf_less(harm, least_harm), below_next = vf_less(harm, next_harm);
            next = vi_pick(below, least, vi_pick(below_next, vi_all(1 << i), next));
            next_harm = vf_pick(below, least_harm, vf_pick(below_next, harm, next_harm));
            least = vi_pick(below, vi_all(1 << i), least), least_harm = vf_pick(below, harm, least_harm);
        }
    }
    if (second) *second = *s;
    if (t.signs == GRID_SIGNS_EVEN) {
        least = least & odd, next = next & odd;
        for (int i = 0; i < t.step; i++) {
            if (second) second->x[i] = change_sign(s->x[i], next, i);
            s->x[i] = change_sign(s->x[i], least, i);
        }
        if (second) second->signs = s->signs ^ next;
        s->signs = s->signs ^ least;
    }
    weigh_entries(t, w, s);
    if (second)
        for (int k = 0; k < t.step / t.size; k++) second->per[k] = s->per[k];
}

/* Costs of the digits of each weight, in the upper 16 bits (20 in grids of four). */
INLINE void digit_costs(const grid_type t, const vf *x, const float *w, vf per, vf a, vf shift, vi e[8][8]) {
    const vf cap = vf_all(t.size == 8 ? 0x1p27f : 0x1p28f), per_a = per * a, a2 = a * 2.0f;
    const vi cost = vi_all(t.size == 8 ? ~0xffff : ~0xfff);
    vf sum[8], difference[8];
    for (int k = 1; k < digit_levels(t); k++) {
        sum[k] = a * (t.level[k] + t.level[0]), difference[k] = per_a * (t.level[k] - t.level[0]);
        if (grid_is_shifted(t)) sum[k] = sum[k] + a2 * shift;
    }
    for (int i = 0; i < t.size; i++)
        for (int k = 1; k < digit_levels(t); k++) {
            const vf c = (sum[k] - (x[i] + x[i])) * (difference[k] * w[i]);
            e[i][k] = (vf_to_int(vf_smaller(c, cap)) & cost) | k << digit_bits(t) * i;
        }
}

/* The digits of the entry nearest to x at scale a. */
INLINE vi nearest_entry(const grid_type t, const vf *x, const float *w, vf per, vf a, vf shift) {
    vi e[8][8], c[4][9];
    digit_costs(t, x, w, per, a, shift, e);
    for (int p = 0; p < 4; p++) {
        c[p][0] = vi_all(0);
        if (t.size == 4)
            for (int k = 1; k < 8; k++) c[p][k] = e[p][k];
        else
            for (int k = 1; k < 9; k++) {
                const vi *one = &e[2 * p][k / 3], *two = &e[2 * p + 1][k % 3];
                c[p][k] = k < 3 ? *two : k % 3 == 0 ? *one : *one + *two;
            }
    }
    return t.least(c) & (t.size == 8 ? 0xffff : 0xfff);
}

INLINE vf level_at(const grid_type t, const grid_code *c, int i, vf shift) {
    const vf v = look_up8(t.level, c->digits[i / t.size] >> digit_bits(t) * (i % t.size));
    return grid_is_shifted(t) ? v + shift : v;
}
INLINE vf shift_of(vi down) { return vf_from_bits(down << 31 | vf_bits(vf_all(0.125f))); }

/* At scale a > 0. down: of shifted types, whether downward. */
INLINE grid_code code_step(const grid_type t, const grid_step *s, const float *w, vf a, vi down) {
    const vf shift = shift_of(down);
    grid_code c = {.signs = grid_is_shifted(t) ? down : s->signs, .vv = vf_all(0), .vx = vf_all(0)};
    for (int k = 0; k < t.step / t.size; k++)
        c.digits[k] = nearest_entry(t, s->x + k * t.size, w + k * t.size, s->per[k], a, shift);
    for (int i = 0; i < t.step; i++) {
        const vf v = level_at(t, &c, i, shift), wv = w[i] * v;
        c.vv = c.vv + wv * v, c.vx = c.vx + wv * s->x[i];
    }
    return c;
}
INLINE void pick_coded(const grid_type t, vm m, const grid_code *a, grid_code *b) {
    for (int k = 0; k < t.step / t.size; k++) b->digits[k] = vi_pick(m, a->digits[k], b->digits[k]);
    b->signs = vi_pick(m, a->signs, b->signs);
    b->vv = vf_pick(m, a->vv, b->vv), b->vx = vf_pick(m, a->vx, b->vx);
}

/* Returns 1 in lanes where a downward shift leaves less error of n weights, if each is rounded alone. */
INLINE vi likely_shift(const vf *x, const float *w, int n, vf a) {
    const vf per_a = 1.0f / a;
    vf more = vf_all(0);
    for (int i = 0; i < n; i++) {
        const vf v = x[i] * per_a, up = v - 0.125f, down = v + 0.125f;
        const vf e = up - vf_clamp(vf_nearest(up), vf_all(-1), vf_all(1)),
                 f = down - vf_clamp(vf_nearest(down), vf_all(-1), vf_all(1));
        const vf d = e * e - f * f;
        more = more + w[i] * d;
    }
    return vi_pick(vf_less(vf_all(0), more), vi_all(1), vi_all(0));
}

/* The better of what there is to try: both signs in *second, unless NULL, and shifts if each entry has its
 * own. */
INLINE grid_code code_best(const grid_type t, const grid_step *s, const grid_step *second, const float *w,
                           vf a, vi down, bool thorough) {
    if (t.signs == GRID_SHIFT_OF_ENTRY && !thorough) down = likely_shift(s->x, w, t.step, a);
    grid_code c = code_step(t, s, w, a, down), other;
    if (t.signs == GRID_SIGNS_EVEN && second)
        other = code_step(t, second, w, a, down);
    else if (t.signs == GRID_SHIFT_OF_ENTRY && thorough)
        other = code_step(t, s, w, a, 1 - down);
    else
        return c;
    pick_coded(t, vf_less(coded_error(other.vv, other.vx, a), coded_error(c.vv, c.vx, a)), &other, &c);
    return c;
}

/* The index of the entry with these digits. */
INLINE vi index_of(const grid_type t, vi digits) {
    if (t.size == 8) { /* pairs, fours, all eight as numbers of base 3 */
        digits = (digits & 0x3333) + 3 * (digits >> 2 & 0x3333);
        digits = (digits & 0x0f0f) + 9 * (digits >> 4 & 0x0f0f);
        digits = (digits & 0x00ff) + 81 * (digits >> 8);
    }
    vi found;
    for (int k = 0; k < L; k++) found[k] = t.index[digits[k]];
    return found;
}

#endif
