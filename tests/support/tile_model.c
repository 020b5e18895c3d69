#include "tests/support/tile_model.h"

#include <math.h>
#include <string.h>

/* ---- arithmetic ---- */

static float float_of_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
static uint32_t bits_of_float(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
static float float_of_part(uint16_t part) { return float_of_bits((uint32_t)part << 16); }

static float no_denormal(float x) { return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x; }

static float flushed_fma(float a, float b, float c) {
    return no_denormal(fmaf(no_denormal(a), no_denormal(b), no_denormal(c)));
}

float tile_model_output(const uint16_t *a, const uint16_t *b, size_t b_step, size_t pairs, float c) {
    float even = 0, odd = 0;
    for (size_t k = 0; k < pairs; k++) {
        even = flushed_fma(float_of_part(a[2 * k]), float_of_part(b[k * b_step]), even);
        odd = flushed_fma(float_of_part(a[2 * k + 1]), float_of_part(b[k * b_step + 1]), odd);
    }
    return no_denormal(no_denormal(c) + no_denormal(even + odd));
}

/* By division into what is kept and what is rounded away, unlike the kernels. */
uint16_t tile_model_part(float x) {
    uint32_t bits = bits_of_float(x), kept = bits >> 16, rest = bits & 0xffff;
    if (isnan(x)) return 0x7fc0;
    if (fabsf(x) < 0x1p-56f) return 0;
    return (uint16_t)(rest > 0x8000 || (rest == 0x8000 && kept % 2) ? kept + 1 : kept);
}

/* ---- tiles ---- */

typedef struct tile_model {
    size_t rows, bytes;
    uint8_t data[16][64];
} tile_model;
static tile_model tiles[8];
static int n_configured;

int tile_model_configured(void) { return n_configured; }

static void must(bool ok) {
    if (!ok) __builtin_trap();
}

/* The layout of LDTILECFG's 64 bytes: palette, first row, 14 reserved, 16 times bytes of a row, 16 times
 * rows. */
static void model_configure(const void *from) {
    const uint8_t *c = from;
    must(c[0] == 1 && c[1] == 0);
    for (size_t i = 0; i < 8; i++) {
        uint16_t bytes;
        memcpy(&bytes, c + 16 + 2 * i, sizeof bytes);
        must(bytes <= 64 && c[48 + i] <= 16 && !bytes == !c[48 + i]);
        tiles[i] = (tile_model){.rows = c[48 + i], .bytes = bytes};
    }
    n_configured = 1;
}
static void model_release(void) { memset(tiles, 0, sizeof tiles), n_configured = 0; }
static void model_load(int i, const void *from, size_t stride) {
    must(n_configured && tiles[i].rows);
    for (size_t r = 0; r < tiles[i].rows; r++)
        memcpy(tiles[i].data[r], (const char *)from + r * stride, tiles[i].bytes);
}
static void model_zero(int i) {
    must(n_configured && tiles[i].rows);
    memset(tiles[i].data, 0, sizeof tiles[i].data);
}
static void model_store(int i, void *to, size_t stride) {
    must(n_configured && tiles[i].rows);
    for (size_t r = 0; r < tiles[i].rows; r++)
        memcpy((char *)to + r * stride, tiles[i].data[r], tiles[i].bytes);
}
static void model_multiply(int sum, int a, int b) {
    must(tiles[sum].rows == tiles[a].rows && tiles[sum].bytes == tiles[b].bytes &&
         tiles[a].bytes == 4 * tiles[b].rows);
    for (size_t r = 0; r < tiles[sum].rows; r++)
        for (size_t n = 0; n < tiles[sum].bytes / 4; n++) {
            uint16_t w[32], x[32][2];
            float c;
            memcpy(w, tiles[a].data[r], sizeof w);
            for (size_t k = 0; k < tiles[b].rows; k++) memcpy(x[k], tiles[b].data[k] + 4 * n, sizeof *x);
            memcpy(&c, tiles[sum].data[r] + 4 * n, sizeof c);
            c = tile_model_output(w, x[0], 2, tiles[b].rows, c);
            memcpy(tiles[sum].data[r] + 4 * n, &c, sizeof c);
        }
}

/* ---- the level ---- */

#define _tile_loadconfig model_configure
#define _tile_release model_release
#define _tile_loadd model_load
#define _tile_stored model_store
#define _tile_zero model_zero
#define _tile_dpbf16ps model_multiply
#define GQ_TILE_MODEL
#define products_bf16_amx products_bf16_model
#include "codec/amx/matmul_bf16.c"
