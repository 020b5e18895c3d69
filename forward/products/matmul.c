#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "forward/products/matmul.h"
#include "forward/products/product.h"

static void lay_out_matmul(matmul *m, int threads, memory_ledger *l) {
    m->shared = memory_take(l, STEP_FLOATS, sizeof(float));
    m->scratches = memory_take(l, (uint64_t)threads, sizeof(matmul_scratch));
}

uint64_t matmul_bytes(int threads) {
    memory_ledger l = {.counts = true};
    lay_out_matmul(&(matmul){.shared = NULL}, threads, &l);
    return l.bytes;
}

matmul *matmul_new(const kernels *k, threads_pool *pool, gq_error *e) {
    memory_ledger l = {.failed = false};
    matmul *m = malloc(sizeof *m);
    if (!m) return gq_fail_memory(e, sizeof *m), NULL;
    *m = (matmul){.level = k, .floats = kernels_products(k, MATMUL_FLOAT32), .pool = pool};
    matmul_set_arithmetic(m, MATMUL_FLOAT32);
    lay_out_matmul(m, threads_pool_most(pool), &l);
    if (memory_had(&l, e)) return m;
    matmul_free(m);
    return NULL;
}

void matmul_free(matmul *m) {
    if (!m) return;
    free(m->shared), free(m->scratches);
    free(m);
}

const char *const matmul_arithmetic_names[] = {[MATMUL_FLOAT32] = "float32", [MATMUL_BF16] = "bf16"};

bool matmul_arithmetic_take(matmul_arithmetic *to, const char *name, gq_error *e) {
    *to = MATMUL_FLOAT32;
    if (!name || !strcmp(name, matmul_arithmetic_names[MATMUL_FLOAT32])) return true;
    *to = MATMUL_BF16;
    return !strcmp(name, matmul_arithmetic_names[MATMUL_BF16]) ||
           gq_fail_usage(e, "'%.32s' is not an arithmetic; expected float32 or bf16", name);
}

const char *matmul_arithmetic_caution(matmul_arithmetic arithmetic, const kernels *k) {
    /* Tiles take parts of 2 bytes; chains of floats, which do the same elsewhere, are no faster than float32.
     */
    if (arithmetic != MATMUL_BF16 || kernels_products(k, arithmetic)->bytes == sizeof(uint16_t)) return NULL;
    return "products in bf16 take no less time than in float32 on this processor, which has no AMX; float32 "
           "is more exact";
}

void matmul_set_arithmetic(matmul *m, matmul_arithmetic arithmetic) {
    m->by = product_kernels_for(m->level, arithmetic);
}

void matmul_run(matmul *m, const matmul_weights *w, const float *x, size_t x_stride, float *y,
                size_t y_stride, size_t tokens) {
    (m->by->whole ? matmul_run_whole : matmul_run_tiles)(m, w, x, x_stride, y, y_stride, tokens);
}

threads_pool *matmul_pool(const matmul *m) { return m->pool; }

void matmul_within(matmul *m, int thread, const matmul_product *p) {
    const product_kernels *k = m->floats;
    float *panel = m->scratches[thread].floats;
    size_t row_step = p->transposed ? 1 : p->w_stride, column_step = p->transposed ? p->w_stride : 1;
    product_tile t = {
        .x = panel, .panel = k->panel, .width = k->panel, .y_stride = p->y_stride, .rows = p->rows};
    for (size_t token = 0; token < p->tokens; token += k->panel) {
        t.tokens = min(k->panel, p->tokens - token);
        t.y = p->y + token;
        for (size_t column = 0; column < p->columns; column += TILE_COLUMNS) {
            t.columns = min(TILE_COLUMNS, p->columns - column);
            t.w = (product_rows){p->w + column * column_step, row_step, column_step};
            t.add = column > 0;
            k->pack(p->x + column * p->x_stride + token, p->x_stride, t.columns, t.tokens, panel);
            k->multiply(&t);
        }
    }
}
