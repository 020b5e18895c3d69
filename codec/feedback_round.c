/* Rounds moments to bf16, tile by tile, each in its own place: parts are half as long as floats. */
#include <string.h>

#include "codec/feedback.h"

enum { TILE = PASS_COLUMNS * PASS_COLUMNS };

/* Row i of the parts ends where the floats' row i / 2 does, so none is overwritten before it is read. */
static void round_tile(float *tile) {
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
    round_tile(tile);
    memcpy((uint8_t *)tile + sizeof turned, turned, sizeof turned);
}

void feedback_round_strip(const feedback_moments *m, size_t strip) {
    float *root = (float *)m->root + feedback_triangle(strip);
    for (size_t i = 0; i < strip; i++) round_root_tile(root + i * TILE);
    if (!m->difference) return;
    float *difference = (float *)m->difference + feedback_square(m->columns, strip);
    for (size_t i = 0; i < feedback_strips(m->columns); i++) round_tile(difference + i * TILE);
}
