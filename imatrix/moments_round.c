/* Rounds factored moments to bf16, tile by tile, each in its own place: parts are half as long as floats. */
#include <string.h>

#include "imatrix/moments_sums.h"

/* Row i of the parts ends where the floats' row i / 2 does, so none is overwritten before it is read. */
static void round_rows(float *tile) {
    for (size_t i = 0; i < PASS_COLUMNS; i++) {
        uint16_t row[PASS_COLUMNS];
        for (size_t j = 0; j < PASS_COLUMNS; j++) row[j] = matmul_bf16_part(tile[i * PASS_COLUMNS + j]);
        memcpy((uint8_t *)tile + i * sizeof row, row, sizeof row);
    }
}

static void round_root_tile(float *tile) {
    uint16_t turned[TILE];
    for (size_t i = 0; i < PASS_COLUMNS; i++)
        for (size_t j = 0; j < PASS_COLUMNS; j++)
            turned[j * PASS_COLUMNS + i] = matmul_bf16_part(tile[i * PASS_COLUMNS + j]);
    round_rows(tile);
    memcpy((uint8_t *)tile + sizeof turned, turned, sizeof turned);
}

/* A strip of the root down to the diagonal, and one of the differences. */
static void round_strip_tiles(void *data, size_t strip, int thread) {
    const feedback_moments *run = data;
    float *root = (float *)run->root + feedback_triangle(strip);
    (void)thread;
    for (size_t i = 0; i < strip; i++) round_root_tile(root + i * TILE);
    if (!run->difference) return;
    float *difference = (float *)run->difference + feedback_square(run->columns, strip);
    for (size_t i = 0; i < feedback_strips(run->columns); i++) round_rows(difference + i * TILE);
}

void moments_round(moments_factored *f, threads_pool *pool) {
    for (size_t i = 0; i < f->n_runs; i++) {
        threads_for(pool, feedback_strips(f->runs[i].columns), 1, round_strip_tiles, &f->runs[i]);
        f->runs[i].rounded = true;
    }
}
