/* The types that code 8 or 4 weights by an entry of a grid: the entry nearest to some weights at a given
 * scale, exactly.
 *
 * What an entry costs, sum w (x - a v)^2, is a sum over its digits. So costs are added up digit by digit, and
 * the least is taken of all entries that have a beginning in common before the next digits join:
 * grid_least.inc, straight-line code that codec/make_grids writes, needs 0.3 additions and minimums per digit
 * of each entry in the smallest grid, and 0.06 in the largest. A cost is an integer whose lower bits hold the
 * digits it is the cost of, each in a place of its own: adding costs joins digits, and a minimum brings along
 * what it is the minimum of. */
#pragma once

#include "codec/grids.h"
#include "codec/simd/encoder.h"

/* ---- the words of grid_least.inc ---- */
/* Sanitizers find nothing in straight-line arithmetic that reads no memory but its argument, and take minutes
 * to compile it. */
#define STRAIGHT NOINLINE __attribute__((no_sanitize("address", "undefined")))
#define SET(name, x, y) const vi name = vi_smaller(x, y);
#define SUM(name, x, y) const vi name = (x) + (y);
/* Digit k of weight i costs x<i><k>; e has these of k > 0, weight after weight. Digit 0 costs nothing. */
#define DIGIT(i, k, levels) const vi x##i##k = e[(levels - 1) * i + k - 1];
#define DIGITS_OF_3(i) DIGIT(i, 1, 3) DIGIT(i, 2, 3)
#define DIGITS_OF_8(i) \
    DIGIT(i, 1, 8) DIGIT(i, 2, 8) DIGIT(i, 3, 8) DIGIT(i, 4, 8) DIGIT(i, 5, 8) DIGIT(i, 6, 8) DIGIT(i, 7, 8)
#define WEIGHTS_OF_8 \
    const vi zero = vi_all(0); \
    DIGITS_OF_3(0) \
    DIGITS_OF_3(1) DIGITS_OF_3(2) DIGITS_OF_3(3) DIGITS_OF_3(4) DIGITS_OF_3(5) DIGITS_OF_3(6) DIGITS_OF_3(7)
#define WEIGHTS_OF_4 \
    const vi zero = vi_all(0); \
    DIGITS_OF_8(0) DIGITS_OF_8(1) DIGITS_OF_8(2) DIGITS_OF_8(3)
#include "codec/simd/grid_least.inc"

/* ---- a type ---- */
typedef enum grid_signs {
    GRID_SIGNS_EVEN, /* of eight weights, an even number is negative */
    GRID_SIGNS_FREE,
    GRID_SHIFT_OF_ENTRY,    /* none; values are shifted up or down by an eighth, which each entry chooses */
    GRID_SHIFT_OF_SUB_BLOCK /* the same, which each sub-block chooses */
} grid_signs;

typedef struct grid_type {
    vi (*least)(const vi *costs); /* digits of the entry that costs least */
    const uint16_t *index;        /* of an entry, by its digits */
    int size;                     /* weights of an entry: 8 or 4 */
    int step, length;             /* weights that are coded together; of a sub-block */
    grid_signs signs;
    float level[8]; /* of a digit; of three, twice over */
    float unit;     /* times (2 s + 1) times the block's factor: what a level is multiplied by */
    float top;      /* largest 2 s + 1 */
    float estimate; /* the best scale, by what moments say of it */
} grid_type;

INLINE bool grid_is_shifted(const grid_type t) {
    return t.signs == GRID_SHIFT_OF_ENTRY || t.signs == GRID_SHIFT_OF_SUB_BLOCK;
}
INLINE int digit_bits(const grid_type t) { return t.size == 8 ? 2 : 3; }
INLINE int digit_levels(const grid_type t) { return t.size == 8 ? 3 : 8; }

/* ---- a step: weights that are coded together ---- */
typedef struct grid_step {
    vf x[8]; /* as entries have them: magnitudes, but for one with the other sign; of shifted types: unchanged */
    vi flipped; /* bit i: weight i gets the other sign */
    vf per[2];  /* of each entry: units of cost per squared error, all_cost / sum w x^2 */
} grid_step;
typedef struct grid_sums {
    vf vv, vx; /* sum w v^2, sum w v x: v what the codes stand for, x as the entries saw it */
} grid_sums;
/* The result of coding it. */
typedef struct grid_code {
    vi digits[2]; /* of each entry */
    vi signs;     /* flipped; shifted types: 1 where the shift is downward */
    grid_sums sums;
} grid_code;

/* Error for scale a, without sum w x^2. */
INLINE vf coded_error(grid_sums s, vf a) { return a * (a * s.vv - 2.0f * s.vx); }

/* The number that sum w x^2 is scaled to. Costs are relative to those of digit 0 everywhere, which every grid
 * has as an entry, and a weight's stops at 2^27 (in grids of four 2^28), so that sums stay below 2^31. No
 * entry may look better than it is for that: a cost that stops must outweigh all that the other weights can
 * gain, which is no more than sum w x^2; of shifted types, where digit 0 is an eighth beside 0, no more than
 * (4 / 3)^2 of it. */
INLINE float all_cost(const grid_type t) {
    return t.size == 4 ? 0x1p28f : grid_is_shifted(t) ? 0x1p26f : 0x1p27f;
}

/* The level that a magnitude would be rounded to alone, nearly. */
INLINE vf level_alone(const grid_type t, vf x, vf a) {
    if (t.size == 4) return vf_larger(x, t.level[0] * a);
    const vf low = a * (0.5f * (t.level[0] + t.level[1])), high = a * (0.5f * (t.level[1] + t.level[2]));
    const vf v = vf_add_where(vf_all(t.level[0]), vf_at_most(low, x), vf_all(t.level[1] - t.level[0]));
    return vf_add_where(v, vf_at_most(high, x), vf_all(t.level[2] - t.level[1]));
}
/* The bit of the first of n that is least; n is a multiple of 4. */
INLINE vi first_least(const vf *of, int n) {
    vf least, greatest;
    vi bits = vi_all(0);
    vf_extremes(of, n, &least, &greatest);
    for (int i = 0; i < n; i++) bits = vi_set_where(bits, vf_equal(of[i], least), vi_all(1 << i));
    return bits & -bits;
}

/* -a where bit i is set. */
INLINE vf change_sign(vf a, vi signs, int i) {
    return vf_from_bits(vf_bits(a) ^ (signs << (31 - i) & INT32_MIN));
}

/* Gives the weight whose bit is set the other sign. */
INLINE void flip_sign(const grid_type t, grid_step *s, vi bit) {
    for (int i = 0; i < t.step; i++) s->x[i] = change_sign(s->x[i], bit, i);
    s->flipped = bit;
}

/* Weights as entries see them. Where an odd number is negative, one weight gets the wrong sign: the one with
 * the least loss by this, or in *second, if that is not NULL, the second least. */
INLINE void start_step(const grid_type t, const vf *x, const float *w, vf a, grid_step *s,
                       grid_step *second) {
    vf error[8], xx = vf_all(0);
    vi odd = vi_all(0);
    s->flipped = vi_all(0);
    for (int i = 0; i < t.step; i++) {
        s->x[i] = grid_is_shifted(t) ? x[i] : vf_magnitude(x[i]);
        /* Costs of nothing but rounding noise are not told apart; and no quotient overflows. */
        if (i % t.size == 0) xx = vf_all(0x1p-60f);
        const vf wx = w[i] * s->x[i];
        xx = xx + wx * s->x[i];
        if (i % t.size == t.size - 1) s->per[i / t.size] = all_cost(t) / xx;
        if (t.signs == GRID_SIGNS_EVEN) error[i] = wx * level_alone(t, s->x[i], a), odd = odd ^ vf_bits(x[i]);
    }
    if (t.signs != GRID_SIGNS_EVEN) return;
    odd = odd >> 31;
    if (second) *second = *s;
    const vi least = first_least(error, t.step);
    flip_sign(t, s, least & odd);
    if (!second) return;
    for (int i = 0; i < t.step; i++)
        error[i] = vf_pick(vi_equal(least, vi_all(1 << i)), vf_all(INFINITY), error[i]);
    flip_sign(t, second, first_least(error, t.step) & odd);
}

/* Digit k of weight i in its place. They are loaded: compilers would make each such constant with two
 * instructions, where there are too many for the registers. */
#define PLACED_3(i) \
    { 1 << 2 * i, 2 << 2 * i }
#define PLACED_8(i) \
    { 1 << 3 * i, 2 << 3 * i, 3 << 3 * i, 4 << 3 * i, 5 << 3 * i, 6 << 3 * i, 7 << 3 * i }
static const int32_t placed_3[8][2] = {PLACED_3(0), PLACED_3(1), PLACED_3(2), PLACED_3(3),
                                       PLACED_3(4), PLACED_3(5), PLACED_3(6), PLACED_3(7)};
static const int32_t placed_8[4][7] = {PLACED_8(0), PLACED_8(1), PLACED_8(2), PLACED_8(3)};

/* The digits of the entry nearest to x at scale a. Costs are in the upper 16 bits (20 in grids of four). */
INLINE vi nearest_entry(const grid_type t, const vf *x, const float *w, vf per, vf a, vf shift) {
    const vf cap = vf_all(t.size == 8 ? 0x1p27f : 0x1p28f), per_a = per * a, a2 = a * 2.0f;
    const int n = digit_levels(t) - 1;
    vf sum[7], difference[7];
    vi e[28];
    for (int k = 0; k < n; k++) {
        sum[k] = a * (t.level[k + 1] + t.level[0]), difference[k] = per_a * (t.level[k + 1] - t.level[0]);
        if (grid_is_shifted(t)) sum[k] = sum[k] + a2 * shift;
    }
    /* Unrolled, gcc makes all products first, which do not fit into AVX2's registers. */
#pragma GCC unroll 1
    for (int i = 0; i < t.size; i++) {
        const vf x2 = x[i] + x[i], wi = vf_all(w[i]);
        for (int k = 0; k < n; k++) {
            const vi cost = vf_to_int(vf_smaller((sum[k] - x2) * (difference[k] * wi), cap));
            e[n * i + k] =
                t.size == 8 ? vi_low_half(cost, vi_all(placed_3[i][k])) : (cost & ~0xfff) | placed_8[i][k];
        }
    }
    return t.least(e) & (t.size == 8 ? 0xffff : 0xfff);
}

INLINE vf level_at(const grid_type t, const grid_code *c, int i, vf shift) {
    const vf v = look_up8(t.level, c->digits[i / t.size] >> digit_bits(t) * (i % t.size));
    return grid_is_shifted(t) ? v + shift : v;
}
INLINE vf shift_of(vi down) { return vf_from_bits(down << 31 | vf_bits(vf_all(0.125f))); }

/* At scale a > 0. down: of shifted types, whether downward. */
INLINE grid_code code_step(const grid_type t, const grid_step *s, const float *w, vf a, vi down) {
    const vf shift = shift_of(down);
    grid_code c;
    c.signs = grid_is_shifted(t) ? down : s->flipped;
    c.sums.vv = c.sums.vx = vf_all(0);
    for (int k = 0; k < t.step / t.size; k++)
        c.digits[k] = nearest_entry(t, s->x + k * t.size, w + k * t.size, s->per[k], a, shift);
    for (int i = 0; i < t.step; i++) {
        const vf v = level_at(t, &c, i, shift), wv = w[i] * v;
        c.sums.vv = c.sums.vv + wv * v, c.sums.vx = c.sums.vx + wv * s->x[i];
    }
    return c;
}
INLINE void pick_sums(vm m, const grid_sums *a, grid_sums *b) {
    b->vv = vf_pick(m, a->vv, b->vv), b->vx = vf_pick(m, a->vx, b->vx);
}
INLINE void pick_coded(const grid_type t, vm m, const grid_code *a, grid_code *b) {
    for (int k = 0; k < t.step / t.size; k++) b->digits[k] = vi_pick(m, a->digits[k], b->digits[k]);
    b->signs = vi_pick(m, a->signs, b->signs);
    pick_sums(m, &a->sums, &b->sums);
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
    pick_coded(t, vf_less(coded_error(other.sums, a), coded_error(c.sums, a)), &other, &c);
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
