#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "products/matmul_scratch.h"
#include "products/product.h"

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
           gq_fail_usage(e, "'%.32s' is no arithmetic of products; these are: float32, bf16", name);
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

/* ---- floats, by one thread ---- */
/* The positions that some token from first to last sees. */
typedef struct range {
    size_t first, end;
} range;
static range matmul_positions_seen(const matmul_product *p, size_t first, size_t last, size_t positions) {
    size_t from = p->window && first >= p->window ? first - p->window + 1 : 0, end = min(positions, last + 1);
    return (range){min(from, end), end};
}

void matmul_within(matmul *m, int thread, const matmul_product *p) {
    const product_kernels *k = m->floats;
    float *panel = m->scratches[thread].floats;
    size_t row_step = p->transposed ? 1 : p->w_stride, column_step = p->transposed ? p->w_stride : 1;
    product_tile t = {.x = panel, .panel = k->panel, .width = k->panel, .y_stride = p->y_stride};
    for (size_t token = 0; token < p->tokens; token += k->panel) {
        t.tokens = min(k->panel, p->tokens - token);
        range rows = {0, p->rows}, columns = {0, p->columns};
        if (p->limit == MATMUL_ROWS_SEEN)
            rows = matmul_positions_seen(p, token, token + t.tokens - 1, p->rows);
        if (p->limit == MATMUL_COLUMNS_SEEN)
            columns = matmul_positions_seen(p, token, token + t.tokens - 1, p->columns);
        t.rows = rows.end - rows.first;
        t.y = p->y + rows.first * p->y_stride + token;
        for (size_t column = columns.first; column < columns.end; column += TILE_COLUMNS) {
            t.columns = min(TILE_COLUMNS, columns.end - column);
            t.w = (product_rows){p->w + rows.first * row_step + column * column_step, row_step, column_step};
            t.add = column > columns.first;
            k->pack(p->x + column * p->x_stride + token, p->x_stride, t.columns, t.tokens, panel);
            k->multiply(&t);
        }
    }
}
