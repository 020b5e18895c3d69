#include "quantize/strips/speeds.h"

#include "model/type.h"

/* Millions of weights per second of a thread, per codec_effort, at the level AVX-512 with importance data. */
static const double speeds[GGUF_TYPE_LIMIT][EFFORT_BEST + 1] = {
    [GGUF_Q4_0] = {1044, 596, 251}, [GGUF_Q4_1] = {1308, 450, 320},  [GGUF_Q5_0] = {992, 546, 228},
    [GGUF_Q5_1] = {1249, 447, 315}, [GGUF_Q8_0] = {1793, 615, 177},  [GGUF_Q2_K] = {610, 230, 128},
    [GGUF_Q3_K] = {722, 296, 162},  [GGUF_Q4_K] = {716, 260, 147},   [GGUF_Q5_K] = {682, 204, 134},
    [GGUF_Q6_K] = {817, 274, 151},  [GGUF_IQ4_NL] = {533, 201, 100}, [GGUF_IQ4_XS] = {535, 224, 92},
    [GGUF_IQ1_S] = {212, 92, 16.5}, [GGUF_IQ1_M] = {216, 93, 17},    [GGUF_IQ2_XXS] = {410, 247, 84},
    [GGUF_IQ2_XS] = {356, 196, 65}, [GGUF_IQ2_S] = {390, 238, 120},  [GGUF_IQ3_XXS] = {258, 130, 39},
    [GGUF_IQ3_S] = {212, 120, 57},  [GGUF_TQ1_0] = {969, 677, 387},  [GGUF_TQ2_0] = {963, 675, 386},
    [GGUF_MXFP4] = {927, 929, 923}, [GGUF_NVFP4] = {689, 374, 221},  [GGUF_Q1_0] = {2722, 2715, 2728},
    [GGUF_Q2_0] = {844, 497, 242},
};

/* Of what is not in the table: conversions between numbers. */
static const double CONVERTED = 2000;

/* What is lost is measured of numbers and of decoded blocks alike: seconds. */
static const double MEASURED = .5e-9;

double speed_encode(uint32_t type, codec_effort effort) {
    double speed = type < GGUF_TYPE_LIMIT ? speeds[type][effort] : 0;
    return 1e-6 / (speed > 0 ? speed : CONVERTED) + MEASURED;
}
