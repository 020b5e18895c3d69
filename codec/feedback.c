#include <string.h>

#include "codec/feedback.h"

uint64_t feedback_bytes(const kernels *k, uint32_t type, size_t columns, matmul_arithmetic arithmetic) {
    if (columns > UINT32_MAX) return UINT64_MAX;
    uint64_t blocks = columns / tensor_type_of(type)->block_elements;
    uint64_t parts = arithmetic == MATMUL_BF16
                         ? kernels_products(k, arithmetic)->bytes * feedback_rounded_elements(columns)
                         : 0;
    return sizeof(float) * feedback_floats(columns) + parts +
           FEEDBACK_ROWS / k->lanes * blocks * feedback_state_bytes(k->codecs[type].columnwise);
}

uint64_t feedback_most_bytes(size_t columns, matmul_arithmetic arithmetic) {
    if (columns > UINT32_MAX) return UINT64_MAX;
    uint64_t parts = arithmetic == MATMUL_BF16 ? sizeof(float) * feedback_rounded_elements(columns) : 0;
    return sizeof(float) * feedback_floats(columns) + parts +
           (uint64_t)FEEDBACK_STATE_BYTES * FEEDBACK_ROWS * columns;
}

void codec_feedback(const feedback_task *t, const float *x, size_t rows, uint8_t *blocks,
                    feedback_sums *sums) {
    t->kernels->feedback(t, x, rows, blocks, sums);
}

/* ---- chains ---- */

/* The damping, a share of the mean diagonal. Without it, metrics of few positions would trust directions that
 * none of these showed. */
static const double CHAIN_DAMP = 0.1;

/* Rows and columns in the order of places, damped. */
static void order_metric(const float *metric, size_t n, size_t together, double *s) {
    double mean = 0;
    for (size_t i = 0; i < n; i++) mean += (double)metric[i * (n + 1)] / (double)n;
    for (size_t k = 0; k < n; k++)
        for (size_t j = 0; j < n; j++) {
            size_t row = feedback_chain_row(n, together, k), column = feedback_chain_row(n, together, j);
            s[k * n + j] = (double)metric[row * n + column] + (j == k ? CHAIN_DAMP * mean : 0);
        }
}

void feedback_chain_factors(const float *metric, size_t n, size_t together, float *factors, double *s) {
    order_metric(metric, n, together, s);
    for (size_t k = n; k-- > 0;) {
        const double *pivot = s + k * n;
        bool usable = pivot[k] > 0;
        for (size_t j = 0; j < n; j++)
            factors[k * n + j] = usable && j < k ? (float)(pivot[j] / pivot[k]) : 0;
        for (size_t i = 0; usable && i < k; i++) {
            double by = pivot[i] / pivot[k];
            for (size_t j = 0; j <= i; j++) s[i * n + j] -= by * pivot[j];
        }
    }
}

/* ---- Hessians in bf16 ---- */

/* Rounds a Hessian's factor to product_rounded, tile by tile, each in its own place: parts are half as long as
 * floats. */

enum { TILE = STRIP_COLUMNS * STRIP_COLUMNS };

/* Row i of the parts ends where the floats' row i / 2 does, so none is overwritten before it is read. */
static void round_tile(float *tile) {
    for (size_t i = 0; i < STRIP_COLUMNS; i++) {
        uint16_t row[STRIP_COLUMNS];
        for (size_t j = 0; j < STRIP_COLUMNS; j++) row[j] = matmul_bf16_rounded(tile[i * STRIP_COLUMNS + j]);
        memcpy((uint8_t *)tile + i * sizeof row, row, sizeof row);
    }
}

static void round_root_tile(float *tile) {
    uint16_t transposed[TILE];
    for (size_t i = 0; i < STRIP_COLUMNS; i++)
        for (size_t j = 0; j < STRIP_COLUMNS; j++)
            transposed[j * STRIP_COLUMNS + i] = matmul_bf16_rounded(tile[i * STRIP_COLUMNS + j]);
    round_tile(tile);
    memcpy((uint8_t *)tile + sizeof transposed, transposed, sizeof transposed);
}

void feedback_round_strip(const feedback_hessian *m, size_t strip) {
    float *root = (float *)m->cholesky + feedback_triangle(strip);
    for (size_t i = 0; i < strip; i++) round_root_tile(root + i * TILE);
    if (!m->gptaq_d) return;
    float *d = (float *)m->gptaq_d + feedback_square(m->columns, strip);
    for (size_t i = 0; i < feedback_strips(m->columns); i++) round_tile(d + i * TILE);
}
