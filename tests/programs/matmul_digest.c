/* A digest of what a level that fuses makes of products of matrices, to compare kinds of CPUs by.
 *
 *     matmul-digest          exits with 77 where the CPU's best level does not fuse
 */
#include <stdio.h>
#include <string.h>

#include "codec/codec.h"
#include "tests/support/numbers.h"

enum { ROWS = 47, COLUMNS = 600, MOST_TOKENS = 100, STRETCH = COLUMNS / 2 };
static float w[ROWS * COLUMNS], x[COLUMNS * MOST_TOKENS], y[ROWS * MOST_TOKENS];
static float panel[STRETCH * MATMUL_MOST_PANEL];

typedef struct products {
    const product_kernels *floats, *bf16; /* NULL: they are not fused */
} products;

static products kernels_here(void) {
#ifdef GQ_HAVE_neon /* built on its own */
    extern const product_kernels products_float32_neon, products_bf16_neon;
    return (products){&products_float32_neon, &products_bf16_neon};
#else
    const kernels *k = kernels_select();
    if (!k || !strcmp(kernels_name(k), "x86-64-v2") || !strcmp(kernels_name(k), "generic"))
        return (products){NULL, NULL};
    return (products){kernels_products(k, MATMUL_FLOAT32), kernels_products(k, MATMUL_BF16)};
#endif
}

static void product(const product_kernels *k, bool by_column, size_t tokens) {
    product_tile t = {.x = panel, .y_stride = MOST_TOKENS, .rows = ROWS, .columns = STRETCH};
    t.panel = t.width = k->panel;
    t.w.row_stride = by_column ? 1 : COLUMNS, t.w.column_stride = by_column ? ROWS : 1;
    for (size_t column = 0; column < COLUMNS; column += STRETCH)
        for (size_t token = 0; token < tokens; token += k->panel) {
            t.tokens = tokens - token < k->panel ? tokens - token : k->panel;
            t.w.at = w + column * t.w.column_stride, t.y = y + token, t.add = column > 0;
            k->pack(x + column * MOST_TOKENS + token, MOST_TOKENS, STRETCH, t.tokens, panel);
            k->multiply(&t);
        }
}

/* Of bf16 parts, in one stretch. */
static void product_bf16(const product_kernels *k, size_t tokens) {
    enum { PADDED = (COLUMNS + MATMUL_BF16_GROUP - 1) / MATMUL_BF16_GROUP * MATMUL_BF16_GROUP };
    static float rounded[ROWS * PADDED], packed[PADDED * MATMUL_MOST_PANEL];
    for (size_t row = 0; row < ROWS; row++)
        k->round(w + row * COLUMNS, COLUMNS, 0, (char *)rounded + row * PADDED * k->bytes);
    for (size_t token = 0; token < tokens; token += k->panel) {
        size_t n = tokens - token < k->panel ? tokens - token : k->panel;
        k->pack(x + token, MOST_TOKENS, COLUMNS, n, packed);
        k->multiply(&(product_tile){.w = {rounded, PADDED, 1},
                                    .x = packed,
                                    .panel = k->panel,
                                    .y = y + token,
                                    .y_stride = MOST_TOKENS,
                                    .rows = ROWS,
                                    .columns = COLUMNS,
                                    .tokens = n,
                                    .width = k->panel});
    }
}

static void print_digest(size_t tokens, const char *how) {
    uint64_t digest = 0xcbf29ce484222325;
    for (size_t i = 0; i < ROWS * MOST_TOKENS; i++) {
        uint32_t bits;
        memcpy(&bits, y + i, sizeof bits);
        digest = (digest ^ bits) * 0x100000001b3;
    }
    printf("%zu tokens%s: %016llx\n", tokens, how, (unsigned long long)digest);
}

int main(void) {
    products k = kernels_here();
    if (!k.floats) return 77;
    fill_normal(w, ROWS * COLUMNS, 1), fill_normal(x, COLUMNS * MOST_TOKENS, 1);
    for (int by_column = 0; by_column < 2; by_column++)
        for (size_t tokens = 1; tokens <= MOST_TOKENS; tokens += 9) {
            product(k.floats, by_column, tokens);
            print_digest(tokens, by_column ? ", by column" : "");
        }
    for (size_t tokens = 1; tokens <= MOST_TOKENS; tokens += 9) {
        product_bf16(k.bf16, tokens);
        print_digest(tokens, ", bf16");
    }
    return 0;
}
