/* Weights on a lattice, as models have them that were trained for few bits, or stored in few bits and written
 * out again: encoders of types whose grid holds the lattice return them as they were, at every effort but that
 * of Q8_0's bytes that everyone writes, with and without importance. Where the weights were rounded to BF16,
 * what is left is that rounding. */
#include <math.h>

#include "tests/support/codecs.h"

enum { ROWS = 16, COLS = 512, N = ROWS * COLS, MOST_TYPES = 8 };
static float x[N], importance[COLS];

/* Rounds as BF16 has it. */
static float as_bf16(float v) {
    uint32_t u;
    memcpy(&u, &v, sizeof u);
    u = (u + 0x7fff + (u >> 16 & 1)) & 0xffff0000u;
    memcpy(&v, &u, sizeof v);
    return v;
}

static int random_below(int n) { return (int)(next_random() >> 33) % n; }

/* Codes from lowest to highest, times a scale for each group of columns. */
typedef struct lattice {
    const char *name;
    int group; /* columns */
    int lowest, highest;
    enum {
        ANY,
        ENDS,
        E2M1,
        ZEROS
    } codes; /* ENDS: each group has the lowest; ZEROS: less a zero point each */
    enum { AS_BF16, POWERS, UE4M3 } scales;
    uint32_t fits[MOST_TYPES]; /* types that hold it */
} lattice;

static float scale_of(const lattice *l) {
    switch (l->scales) {
    case AS_BF16:
        return as_bf16(0.01f * (1 + 0.9f * random_uniform()));
    case POWERS:
        return ldexpf(1, -8 - random_below(4));
    default:
        return ldexpf((float)(8 + random_below(8)), -8);
    }
}

static int code_of(const lattice *l) {
    static const int e2m1[] = {0, 1, 2, 3, 4, 6, 8, 12}; /* doubled */
    int code = l->lowest + random_below(l->highest - l->lowest + 1);
    return l->codes == E2M1 ? (code < 0 ? -1 : 1) * e2m1[abs(code)] : code;
}

static void fill_lattice(const lattice *l, bool round) {
    for (int first = 0; first < N; first += l->group) {
        float scale = scale_of(l);
        int zero = l->codes == ZEROS ? random_below(l->highest + 1) : 0;
        for (int i = first; i < first + l->group; i++) {
            int code = code_of(l) - zero;
            if (l->codes == ANY && i % 3) code /= 3; /* as of a bell curve: outer codes are rare */
            if (l->codes == ENDS && i == first) code = l->lowest;
            x[i] = scale * (float)code;
            if (round) x[i] = as_bf16(x[i]);
        }
    }
}

/* Each of a type's results, for efforts without and with importance; NULL behind the last. */
static float *next_result(uint32_t type, int *k) {
    if (*k == 0 && type == GGUF_Q8_0) *k = 2 * EFFORT_DEFAULT;
    if (*k > 2 * EFFORT_BEST + 1) return NULL;
    codec_effort effort = (codec_effort)(*k / 2);
    return through(tensor_type_of(type), x, ROWS, COLS, (*k)++ % 2 ? importance : NULL, effort);
}

static const lattice lattices[] = {
    {"Q4_0's own", 32, -8, 7, ENDS, AS_BF16, {GGUF_Q4_0, GGUF_Q4_1, GGUF_Q5_0, GGUF_Q5_1, GGUF_Q8_0}},
    {"int4, groups of 32", 32, -7, 7, ANY, AS_BF16, {GGUF_Q4_0, GGUF_Q4_1, GGUF_Q5_0, GGUF_Q8_0}},
    {"int4, groups of 128", 128, -8, 7, ANY, AS_BF16, {GGUF_Q4_0, GGUF_Q4_1, GGUF_Q5_0, GGUF_Q8_0}},
    {"int4, rows",
     COLS,
     -8,
     7,
     ANY,
     AS_BF16,
     {GGUF_Q4_0, GGUF_Q4_1, GGUF_Q5_0, GGUF_Q8_0, GGUF_Q4_K, GGUF_Q5_K, GGUF_Q6_K}},
    {"uint4, groups of 128", 128, 0, 15, ZEROS, AS_BF16, {GGUF_Q5_0, GGUF_Q5_1, GGUF_Q8_0}},
    {"uint4, rows",
     COLS,
     0,
     15,
     ZEROS,
     AS_BF16,
     {GGUF_Q5_0, GGUF_Q5_1, GGUF_Q8_0, GGUF_Q4_K, GGUF_Q5_K, GGUF_Q6_K}},
    {"int4, groups of 32, powers of two",
     32,
     -8,
     7,
     ENDS,
     POWERS,
     {GGUF_Q4_0, GGUF_Q4_K, GGUF_Q5_K, GGUF_Q6_K}},
    {"int3, rows", COLS, -4, 3, ENDS, AS_BF16, {GGUF_Q3_K, GGUF_Q4_K, GGUF_Q4_0}},
    {"MXFP4", 32, -7, 7, E2M1, POWERS, {GGUF_MXFP4, GGUF_Q5_0, GGUF_Q5_1, GGUF_Q8_0, GGUF_Q5_K, GGUF_Q6_K}},
    {"NVFP4", 16, -7, 7, E2M1, UE4M3, {GGUF_NVFP4}},
};

TEST(lattices_are_met_exactly) {
    for (size_t l = 0; l < sizeof lattices / sizeof *lattices; l++) {
        seed_random(l + 1), fill_importance(importance, COLS), fill_lattice(&lattices[l], false);
        for (size_t t = 0; t < MOST_TYPES && lattices[l].fits[t]; t++) {
            int k = 0;
            for (float *y; (y = next_result(lattices[l].fits[t], &k)); free(y))
                for (int i = 0; i < N; i++)
                    if (x[i] != y[i])
                        fail_msg("%s in %s, way %d: element %d is %.9g, was %.9g", lattices[l].name,
                                 tensor_type_name(lattices[l].fits[t]), k - 1, i, (double)y[i], (double)x[i]);
        }
    }
}

/* The products of scales and codes have been rounded to BF16: 2^-8 at most, a third of that on average. */
TEST(what_is_left_is_the_rounding_to_bf16) {
    for (size_t l = 0; l < sizeof lattices / sizeof *lattices; l++) {
        if (lattices[l].scales != AS_BF16) continue;
        seed_random(l + 1), fill_importance(importance, COLS), fill_lattice(&lattices[l], true);
        for (size_t t = 0; t < MOST_TYPES && lattices[l].fits[t]; t++) {
            int k = 0;
            for (float *y; (y = next_result(lattices[l].fits[t], &k)); free(y)) {
                double e = relative_error(x, y, ROWS, COLS, NULL);
                if (e > 0.0016)
                    fail_msg("%s in BF16 in %s, way %d: error %g", lattices[l].name,
                             tensor_type_name(lattices[l].fits[t]), k - 1, e);
            }
        }
    }
}

/* llama.cpp's rule for Q4_0: the largest weight is code -8. */
static double error_by_largest(void) {
    double e2 = 0, x2 = 0;
    for (int first = 0; first < N; first += 32) {
        float top = 0;
        for (int i = first; i < first + 32; i++) top = fabsf(x[i]) > fabsf(top) ? x[i] : top;
        float d = top / -8;
        for (int i = first; i < first + 32; i++) {
            float q = d != 0 ? floorf(x[i] / d + 8.5f) : 8, e = x[i] - d * ((q > 15 ? 15 : q) - 8);
            e2 += (double)e * (double)e, x2 += (double)x[i] * (double)x[i];
        }
    }
    return sqrt(e2 / x2);
}

TEST(more_than_forty_times_nearer_than_the_largest_as_code_8) {
    for (size_t l = 1; l < 3; l++) {
        seed_random(l + 1), fill_lattice(&lattices[l], true);
        float *y = through(tensor_type_of(GGUF_Q4_0), x, ROWS, COLS, NULL, EFFORT_DEFAULT);
        double own = relative_error(x, y, ROWS, COLS, NULL), largest = error_by_largest();
        if (largest < 0.05 || own * 40 > largest)
            fail_msg("%s: %g, by the largest weight %g", lattices[l].name, own, largest);
        free(y);
    }
}

/* Blocks with few different weights look like a lattice; they must not lose by it. */
TEST(few_weights_in_a_block_lose_nothing) {
    seed_random(7), fill_importance(importance, COLS);
    for (int i = 0; i < N; i++) x[i] = random_below(12) ? 0 : random_normal();
    EACH_ENCODER(type) {
        double bound = (double)known_of(type->id)->normal;
        if (!type->quantized || bound > 0.06) continue;
        float *y = through(type, x, ROWS, COLS, NULL, EFFORT_DEFAULT);
        double e = relative_error(x, y, ROWS, COLS, NULL);
        if (e > bound) fail_msg("%s: %g", type->name, e);
        free(y);
    }
}

int main(void) { return tests_run(NULL, NULL); }
