/* How fast this machine does what a calibration is made of, besides running the model: measured on matrices
 * of made-up numbers, which are no wider than the model's own. It takes about a second, or some seconds
 * where layers are large and threads few, and decides no bytes.
 */
#ifndef GQ_CALIBRATION_RATES_H
#define GQ_CALIBRATION_RATES_H

#include "quantize/plan/calibration.h"

/* Seconds of rounding a matrix. */
typedef struct rounding_seconds {
    double search;   /* per weight */
    double feedback; /* likewise: pass, trials and sweeps */
    double check;    /* per weight and held-back token: all ways compared with the original */
} rounding_seconds;

/* Seconds of making moments and their root. */
typedef struct inputs_seconds {
    double moments; /* per operation (calibration_time.c counts them) */
    double roots;   /* per column cubed */
} inputs_seconds;

typedef struct calibration_rates calibration_rates;

/* Measures all kinds of matrices that the plan calibrates. NULL: there is none, or no memory.
 * callbacks: told that it measures. */
calibration_rates *calibration_rates_measure(const gq_plan *plan, const plan_calibration *c,
                                             const gq_callbacks *callbacks);
void calibration_rates_free(calibration_rates *r);
/* Of a tensor of an output; zeros where it is not rounded. One that is encoded by search alone has the search
 * of whatever was measured for its type, or for another. */
rounding_seconds calibration_rates_rounding(const calibration_rates *r, size_t output, size_t tensor);
inputs_seconds calibration_rates_inputs(const calibration_rates *r, const model_tensor *t);

/* Seconds of copying a value of the inputs. */
double calibration_rates_copy(const calibration_rates *r);

/* Whether a tensor is rounded to blocks. A router keeps its type: a calibration fits its values. */
static inline bool calibration_rounds(const gq_tensor *t) {
    return t->calibrated && gguf_type_of(t->to)->quantized;
}
#endif
