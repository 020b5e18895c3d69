/* A digest of what a level that fuses makes of products of matrices, to compare kinds of CPUs by.
 *
 *     matmul-digest          exits with 77 where the CPU's best level does not fuse
 */
#include <stdio.h>
#include <string.h>

#include "codec/codec.h"
#include "tests/numbers.h"

enum { ROWS = 47, COLUMNS = 600, MOST_TOKENS = 100, STRETCH = COLUMNS / 2 };
static float w[ROWS * COLUMNS], x[COLUMNS * MOST_TOKENS], y[ROWS * MOST_TOKENS];
static float panel[STRETCH * MATMUL_MOST_PANEL];

static const matmul_kernels *kernels_here(void) {
#ifdef GQ_HAVE_neon /* built on its own */
    extern const matmul_kernels matmul_kernels_neon;
    return &matmul_kernels_neon;
#else
    const kernels *k = kernels_select();
    if (!k || !strcmp(kernels_name(k), "x86-64-v2") || !strcmp(kernels_name(k), "generic")) return NULL;
    return k->matmul;
#endif
}

static void product(const matmul_kernels *k, bool by_column, size_t tokens) {
    matmul_tile t = {.x = panel, .y_stride = MOST_TOKENS, .rows = ROWS, .columns = STRETCH};
    t.row_step = by_column ? 1 : COLUMNS, t.column_step = by_column ? ROWS : 1;
    for (size_t column = 0; column < COLUMNS; column += STRETCH)
        for (size_t token = 0; token < tokens; token += k->panel) {
            t.tokens = tokens - token < k->panel ? tokens - token : k->panel;
            t.w = w + column * t.column_step, t.y = y + token, t.add = column > 0;
            k->pack(x + column * MOST_TOKENS + token, MOST_TOKENS, STRETCH, t.tokens, panel);
            k->multiply(&t);
        }
}

int main(void) {
    const matmul_kernels *k = kernels_here();
    if (!k) return 77;
    fill_normal(w, ROWS * COLUMNS, 1), fill_normal(x, COLUMNS * MOST_TOKENS, 1);
    for (int by_column = 0; by_column < 2; by_column++)
        for (size_t tokens = 1; tokens <= MOST_TOKENS; tokens += 9) {
            uint64_t digest = 0xcbf29ce484222325;
            product(k, by_column, tokens);
            for (size_t i = 0; i < ROWS * MOST_TOKENS; i++) {
                uint32_t bits;
                memcpy(&bits, y + i, sizeof bits);
                digest = (digest ^ bits) * 0x100000001b3;
            }
            printf("%zu tokens%s: %016llx\n", tokens, by_column ? ", by column" : "",
                   (unsigned long long)digest);
        }
    return 0;
}
