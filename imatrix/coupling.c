#include "imatrix/coupling.h"

#include "codec/feedback.h"

/* The damping, a share of the mean diagonal. Without it, metrics of few positions would trust directions that
 * none of these showed. */
static const double DAMP = 0.1;

/* Rows and columns in the order of places, damped. */
static void order_metric(const float *metric, size_t n, size_t together, double *s) {
    double mean = 0;
    for (size_t i = 0; i < n; i++) mean += (double)metric[i * (n + 1)] / (double)n;
    for (size_t k = 0; k < n; k++)
        for (size_t j = 0; j < n; j++) {
            size_t row = feedback_chain_row(n, together, k), column = feedback_chain_row(n, together, j);
            s[k * n + j] = (double)metric[row * n + column] + (j == k ? DAMP * mean : 0);
        }
}

void coupling_factors(const float *metric, size_t n, size_t together, float *factors, double *s) {
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
