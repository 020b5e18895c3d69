/* Encoders of IQ1_S, IQ1_M, IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS, IQ3_S: indices into grids, which are searched
 * exactly.
 *
 * The search is codec/simd/grid_search.h's, and what all these types have in common
 * codec/simd/grid_encode.h's. Here is what each type has of its own: how its fields are packed, the numbers
 * of its search at each effort, and a grid_type with its entries, levels and signs. */
#include "codec/simd/grid_encode.h"

/* ---- packing ---- */
/* Four numbers of seven bits, and one of four above them. */
INLINE vi pack_sevens(const vi *signs, vi top) {
    return (signs[0] & 127) | (signs[1] & 127) << 7 | (signs[2] & 127) << 14 | (signs[3] & 127) << 21 |
           top << 28;
}
/* n numbers of eight bits; n of four bits, a multiple of eight. */
INLINE void pack_low_bytes(const vi *from, int n, vi *words) {
    vi bytes[64];
    for (int i = 0; i < n; i++) bytes[i] = from[i] & 255;
    pack_bytes(bytes, n, words);
}
INLINE void grid_pack_nibbles(const vi *from, int n, vi *words) {
    for (int i = 0; i < n; i += 8) {
        words[i / 8] = from[i];
        for (int k = 1; k < 8; k++) words[i / 8] = words[i / 8] | from[i + k] << 4 * k;
    }
}

INLINE void pack_iq2_xxs(const grid_fields *f, vi *words) {
    for (int k = 0; k < 8; k++) {
        pack_bytes(f->index + 4 * k, 4, words + 2 * k);
        words[2 * k + 1] = pack_sevens(f->signs + 4 * k, f->s[k]);
    }
    prepend_words(words, 16, f->d, 16);
}

INLINE void pack_iq2_xs(const grid_fields *f, vi *words) {
    for (int k = 0; k < 16; k++) {
        const vi *index = f->index + 2 * k, *signs = f->signs + 2 * k;
        words[k] = index[0] | (signs[0] & 127) << 9 | index[1] << 16 | (signs[1] & 127) << 25;
    }
    grid_pack_nibbles(f->s, 16, words + 16);
    prepend_words(words, 18, f->d, 16);
}

INLINE void pack_iq2_s(const grid_fields *f, vi *words) {
    pack_low_bytes(f->index, 32, words);
    pack_bytes(f->signs, 32, words + 8);
    for (int k = 0; k < 2; k++) {
        words[16 + k] = vi_all(0);
        for (int i = 0; i < 16; i++) words[16 + k] = words[16 + k] | f->index[16 * k + i] >> 8 << 2 * i;
    }
    grid_pack_nibbles(f->s, 16, words + 18);
    prepend_words(words, 20, f->d, 16);
}

INLINE void pack_iq3_xxs(const grid_fields *f, vi *words) {
    pack_bytes(f->index, 64, words);
    for (int k = 0; k < 8; k++) words[16 + k] = pack_sevens(f->signs + 4 * k, f->s[k]);
    prepend_words(words, 24, f->d, 16);
}

INLINE void pack_iq3_s(const grid_fields *f, vi *words) {
    vi signs[32];
    pack_low_bytes(f->index, 64, words);
    for (int k = 0; k < 2; k++) {
        words[16 + k] = vi_all(0);
        for (int i = 0; i < 32; i++) words[16 + k] = words[16 + k] | f->index[32 * k + i] >> 8 << i;
    }
    for (int k = 0; k < 32; k++) signs[k] = f->signs[2 * k] | f->signs[2 * k + 1] << 4;
    pack_bytes(signs, 32, words + 18);
    grid_pack_nibbles(f->s, 8, words + 26);
    prepend_words(words, 27, f->d, 16);
}

INLINE void pack_iq1_s(const grid_fields *f, vi *words) {
    vi tops[8];
    pack_low_bytes(f->index, 32, words);
    for (int k = 0; k < 8; k++) {
        const vi *index = f->index + 4 * k;
        tops[k] = index[0] >> 8 | index[1] >> 8 << 3 | index[2] >> 8 << 6 | index[3] >> 8 << 9 |
                  f->s[k] << 12 | f->down[k] << 15;
    }
    for (int k = 0; k < 4; k++) words[8 + k] = tops[2 * k] | tops[2 * k + 1] << 16;
    prepend_words(words, 12, f->d, 16);
}

INLINE void pack_iq1_m(const grid_fields *f, vi *words) {
    vi tops[32], four[4];
    pack_low_bytes(f->index, 32, words);
    for (int k = 0; k < 32; k++) tops[k] = f->index[k] >> 8 | f->signs[k] << 3;
    grid_pack_nibbles(tops, 32, words + 8);
    for (int k = 0; k < 4; k++) {
        const vi *s = f->s + 4 * k;
        four[k] = s[0] | s[1] << 3 | s[2] << 6 | s[3] << 9 | (f->d >> 4 * k & 15) << 12;
    }
    words[12] = four[0] | four[1] << 16, words[13] = four[2] | four[3] << 16;
}

/* ---- encoders ---- */
static const codec_search searches_iq2_xxs[3][2] = {
    [EFFORT_FAST] = {[0 ... 1] = {.grid = {1, 1, false, false}, .factors = 16}},
    [EFFORT_DEFAULT] = {[0 ... 1] = {.grid = {4, 1.12f, false, false}, .factors = 32}},
    [EFFORT_BEST] = {[0 ... 1] = {.grid = {8, 1.08f, true, false}, .factors = 64}},
};
#define searches_iq2_xs searches_iq2_xxs
static const codec_search searches_iq2_s[3][2] = {
    [EFFORT_FAST] = {[0 ... 1] = {.grid = {1, 1, false, false}, .factors = 16}},
    [EFFORT_DEFAULT] = {[0 ... 1] = {.grid = {3, 1.15f, false, false}, .factors = 32}},
    [EFFORT_BEST] = {[0 ... 1] = {.grid = {8, 1.08f, true, false}, .factors = 64}},
};
#define searches_iq3_xxs searches_iq2_xxs
#define searches_iq3_s searches_iq2_s
static const codec_search searches_iq1_s[3][2] = {
    [EFFORT_FAST] = {[0 ... 1] = {.grid = {1, 1, false, false}, .factors = 16}},
    [EFFORT_DEFAULT] = {[0 ... 1] = {.grid = {2, 1.2f, false, true}, .factors = 32}},
    [EFFORT_BEST] = {[0 ... 1] = {.grid = {8, 1.08f, true, true}, .factors = 64}},
};
#define searches_iq1_m searches_iq1_s

/* The entries of a grid, and what types of a family have in common. */
#define ENTRIES(grid) .least = least_##grid, .index = grid_index_##grid
#define IQ2 .size = 8, .step = 8, .level = {8, 25, 43, 0, 8, 25, 43, 0}, .unit = 0.125f, .top = 31
#define IQ1 .size = 8, .step = 8, .level = {0, -1, 1, 0, 0, -1, 1, 0}, .unit = 1, .top = 15
static const grid_type iq2_xxs_type = {ENTRIES(iq2_xxs), IQ2, .length = 32, .signs = GRID_SIGNS_EVEN,
                                       .estimate = 0.0323f};
static const grid_type iq2_xs_type = {ENTRIES(iq2_xs), IQ2, .length = 16, .signs = GRID_SIGNS_EVEN,
                                      .estimate = 0.0320f};
static const grid_type iq2_s_type = {ENTRIES(iq2_s), IQ2, .length = 16, .signs = GRID_SIGNS_FREE,
                                     .estimate = 0.0322f};
static const grid_type iq3_xxs_type = {ENTRIES(iq3_xxs),
                                       .size = 4,
                                       .step = 8,
                                       .length = 32,
                                       .signs = GRID_SIGNS_EVEN,
                                       .level = {4, 12, 20, 28, 36, 44, 52, 62},
                                       .unit = 0.25f,
                                       .top = 31,
                                       .estimate = 0.0190f};
static const grid_type iq3_s_type = {ENTRIES(iq3_s),
                                     .size = 4,
                                     .step = 4,
                                     .length = 32,
                                     .signs = GRID_SIGNS_FREE,
                                     .level = {1, 3, 5, 7, 9, 11, 13, 15},
                                     .unit = 1,
                                     .top = 31,
                                     .estimate = 0.0795f};
static const grid_type iq1_s_type = {ENTRIES(iq1), IQ1, .length = 32, .signs = GRID_SHIFT_OF_SUB_BLOCK,
                                     .estimate = 0.905f};
static const grid_type iq1_m_type = {ENTRIES(iq1), IQ1, .length = 16, .signs = GRID_SHIFT_OF_ENTRY,
                                     .estimate = 0.925f};

#define NAME iq2_xxs
#define TYPE IQ2_XXS
#define GROUP 8
#include "codec/simd/grid_encoder_of.h"
#define NAME iq2_xs
#define TYPE IQ2_XS
#define GROUP 8
#include "codec/simd/grid_encoder_of.h"
#define NAME iq2_s
#define TYPE IQ2_S
#define GROUP 8
#include "codec/simd/grid_encoder_of.h"
#define NAME iq3_xxs
#define TYPE IQ3_XXS
#define GROUP 8
#include "codec/simd/grid_encoder_of.h"
#define NAME iq3_s
#define TYPE IQ3_S
#define GROUP 4
#include "codec/simd/grid_encoder_of.h"
#define NAME iq1_s
#define TYPE IQ1_S
#define GROUP 8
#include "codec/simd/grid_encoder_of.h"
#define NAME iq1_m
#define TYPE IQ1_M
#define GROUP 8
#include "codec/simd/grid_encoder_of.h"
