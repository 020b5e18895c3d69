/* Computes the numbers that people read from sums of errors. */
#include <math.h>

#include "quantize/gquant_quantize.h"

double gq_loss_rmse(const gq_loss *l) { return l->n ? sqrt(l->e2 / (double)l->n) : 0; }

double gq_loss_relative(const gq_loss *l) { return l->e2 > 0 ? sqrt(l->e2 / l->x2) : 0; }

double gq_loss_weighted(const gq_loss *l) {
    if (l->wx2 > 0) return sqrt(l->we2 / l->wx2);
    return (double)NAN;
}

double gq_loss_snr_db(const gq_loss *l) { return l->e2 > 0 ? 10 * log10(l->x2 / l->e2) : (double)INFINITY; }

static double output_error(const gq_rounding *r, double squares) {
    return r->power > 0 ? sqrt(squares / r->power) : (double)NAN;
}
double gq_rounding_searched(const gq_rounding *r) { return output_error(r, r->searched); }
double gq_rounding_written(const gq_rounding *r) { return output_error(r, r->written); }
