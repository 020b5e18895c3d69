/* Encoding step by step: choosing scales, rounding columns in order and finishing is what plain encoding
 * does, and a caller may change weights on the way. */
#include <math.h>

#include "tests/support/codecs.h"

enum { MOST_COLS = 256, MOST_LANES = CODEC_MOST_LANES, MOST_BYTES = 4 * MOST_COLS, GROUP = 8 /* at most */ };

/* One block of columns of as many rows as the level has lanes. */
typedef struct block {
    const kernels *kernels;
    const tensor_type *type;
    const codec *codec;
    const codec_columnwise *columnwise;
    codec_effort effort;
    const float *importance; /* or NULL */
    size_t lanes, cols;
    float rows[MOST_LANES * MOST_COLS];                                                 /* [lane][column] */
    float x[MOST_COLS * MOST_LANES], decoded[MOST_COLS * MOST_LANES], gain[MOST_LANES]; /* [column][lane] */
    void *state;
} block;

static float importance[MOST_COLS];

/* Normal weights, a row now and then much smaller, all zero, or with an outlier. */
static void start(block *b, const kernels *k, const tensor_type *type, codec_effort effort, bool weighted) {
    *b = (block){.kernels = k, .type = type, .effort = effort, .importance = weighted ? importance : NULL};
    b->codec = &k->codecs[type->id], b->columnwise = b->codec->columnwise;
    b->lanes = k->lanes, b->cols = type->block_elements;
    fill_normal(b->rows, b->lanes * b->cols, 1);
    for (size_t i = 0; i < b->lanes * b->cols; i++) {
        size_t lane = i / b->cols, column = i % b->cols;
        if (lane == 1) b->rows[i] *= 0.02f;
        if (lane == 2) b->rows[i] = 0;
        if (lane == 3 && column == 9) b->rows[i] = 30;
        b->x[column * b->lanes + lane] = b->rows[i];
    }
    if (posix_memalign(&b->state, 64, b->columnwise->state_bytes) != 0) fail_msg("no memory");
    memset(b->state, 0x55, b->columnwise->state_bytes);
    b->columnwise->choose(b->state, b->x, b->importance, &b->columnwise->searches[effort][weighted]);
}

static void round_all(block *b) {
    for (size_t c = 0; c < b->cols; c += b->columnwise->group)
        b->columnwise->round(b->state, c, b->x + c * b->lanes, b->decoded + c * b->lanes);
}

static void end(block *b) { free(b->state); }

static void fail_block(const block *b, const char *what, size_t lane) {
    fail_msg("%s at %s, effort %s, importance %s, row %zu: %s", b->type->name, kernels_name(b->kernels),
             effort_name(b->effort), b->importance ? "on" : "off", lane, what);
}

/* b: a block of each type, level, effort, without and with importance, its scales chosen. */
#define EACH_BLOCK(b) \
    EACH_ENCODER(type_) \
    if (type_->quantized) EACH_LEVEL(level_kernels_) \
    EACH_EFFORT(effort_) \
    for (int weighted_ = 0; weighted_ < 2; weighted_++) \
        for (bool once_ = (start(b, level_kernels_, type_, effort_, weighted_), true); once_; \
             once_ = (end(b), false))

TEST(steps_are_plain_encoding) {
    static block b;
    seed_random(1);
    EACH_BLOCK(&b) {
        uint8_t plain[MOST_LANES * MOST_BYTES], steps[MOST_LANES * MOST_BYTES];
        b.codec->encode(b.rows, plain, b.lanes, b.cols, b.importance, &(encode_settings){.effort = b.effort});
        round_all(&b);
        b.columnwise->gain_kept(b.state, b.x, b.decoded, b.importance, b.gain);
        b.columnwise->finish(b.state, b.gain, steps, b.type->block_bytes, b.lanes);
        for (size_t lane = 0; lane < b.lanes; lane++)
            if (memcmp(plain + lane * b.type->block_bytes, steps + lane * b.type->block_bytes,
                       b.type->block_bytes))
                fail_block(&b, "not the bytes of plain encoding", lane);
    }
}

/* What round returns is what will be read from the file, to the bit, and only rows that are asked for are
 * written, where they are asked for. */
TEST(rounded_is_decoded) {
    static block b;
    seed_random(2);
    EACH_BLOCK(&b) {
        enum { FILL = 0xa5, GAP = 3 };
        size_t rows = b.lanes - 1, stride = b.type->block_bytes + GAP;
        uint8_t bytes[MOST_LANES * (MOST_BYTES + GAP)];
        float y[MOST_COLS];
        memset(bytes, FILL, sizeof bytes);
        round_all(&b);
        for (size_t lane = 0; lane < b.lanes; lane++) b.gain[lane] = 1;
        b.columnwise->finish(b.state, b.gain, bytes, stride, rows);
        for (size_t lane = 0; lane < rows; lane++) {
            b.codec->decode(bytes + lane * stride, 0, y, b.cols);
            for (size_t c = 0; c < b.cols; c++)
                if (y[c] != b.decoded[c * b.lanes + lane]) fail_block(&b, "decodes to something else", lane);
            for (size_t i = 0; i < GAP; i++)
                if (bytes[(lane + 1) * stride - 1 - i] != FILL)
                    fail_block(&b, "written beyond the block", lane);
        }
        for (size_t i = rows * stride; i < sizeof bytes; i++)
            if (bytes[i] != FILL) fail_block(&b, "written though not asked for", rows);
    }
}

/* sum w (v - y scale)^2 of a group at column c, y 0 if NULL. Blocks may see dead columns as less than dead.
 */
static double weighted_square(const block *b, size_t c, const float *v, const float *y, double scale) {
    double sum = 0;
    for (size_t i = 0; i < b->columnwise->group; i++) {
        double e = (double)v[i * b->lanes] - (y ? (double)y[i * b->lanes] * scale : 0);
        sum += (b->importance ? (double)b->importance[c + i] : 1) * e * e;
    }
    return sum;
}
/* What part of a group's weights its error may be above the least. */
static double nearness(const block *b) {
    uint32_t id = b->type->id;
    bool even = id == GGUF_IQ2_XXS || id == GGUF_IQ2_XS || id == GGUF_IQ3_XXS;
    return even ? 0.3 : id == GGUF_IQ1_M ? 0.1 : 0.01;
}

/* What a row's values are multiplied by to be those that its codes are chosen from. Q8_0 at the least effort
 * takes its scale, largest / 127, before that is rounded to binary16, as everybody does. */
static double unrounded(const block *b, size_t c, size_t lane) {
    float low[GROUP * MOST_LANES], high[GROUP * MOST_LANES], top = 0;
    if (b->type->id != GGUF_Q8_0 || b->effort != EFFORT_FAST) return 1;
    for (size_t i = 0; i < b->cols; i++) top = fmaxf(top, fabsf(b->rows[lane * b->cols + i]));
    b->columnwise->ends(b->state, c, low, high);
    return high[lane] > 0 ? (double)top / (double)high[lane] : 1;
}

/* Columns may be rounded again, to other weights: always to the nearest of what their scales allow, whatever
 * was chosen before. In a group, importance counts; types that allow an even number of signs give the wrong
 * one to a likely weight, and costs are compared in steps of a 2^-10th of the weights. */
TEST(any_weight_becomes_the_nearest) {
    enum { TRIES = 40 };
    static block b;
    static float x[TRIES][GROUP * MOST_LANES], y[TRIES][GROUP * MOST_LANES];
    seed_random(3);
    EACH_BLOCK(&b) {
        round_all(&b);
        size_t group = b.columnwise->group, c = next_random() % (b.cols / group) * group;
        assert_true(group <= GROUP);
        for (int t = 0; t < TRIES; t++) {
            for (size_t i = 0; i < group * b.lanes; i++)
                x[t][i] = t == 0 ? 1e6f : t == 1 ? -1e6f : 4 * random_normal() * fabsf(b.x[c * b.lanes + i]);
            b.columnwise->round(b.state, c, x[t], y[t]);
        }
        for (int t = 0; t < TRIES * TRIES; t++)
            for (size_t lane = 0; lane < b.lanes; lane++) {
                const float *v = x[t / TRIES] + lane, *own = y[t / TRIES] + lane,
                            *other = y[t % TRIES] + lane;
                double scale = unrounded(&b, c, lane), all = weighted_square(&b, c, v, NULL, 1);
                double chosen = weighted_square(&b, c, v, own, scale);
                double possible = weighted_square(&b, c, v, other, scale);
                /* The nearest code is found with a rounded inverse of the scale. */
                if (chosen > possible * (1 + 1e-5) + (group == 1 ? 1e-12 : nearness(&b)) * all)
                    fail_block(&b, "a nearer value was possible", lane);
            }
    }
}

/* The ends of the range are what a far weight becomes, of a group the only one that is not zero, and all
 * others lie between. */
TEST(ends_are_the_farthest_values) {
    static block b;
    seed_random(5);
    EACH_BLOCK(&b) {
        float low[GROUP * MOST_LANES], high[GROUP * MOST_LANES];
        round_all(&b);
        size_t group = b.columnwise->group, c = next_random() % (b.cols / group) * group;
        size_t at = next_random() % group;
        b.columnwise->ends(b.state, c, low, high);
        for (size_t i = 0; i < group * b.lanes; i++) {
            float own = b.decoded[c * b.lanes + i];
            if (own < low[i] || own > high[i]) fail_block(&b, "beyond the ends", i % b.lanes);
        }
        for (int positive = 0; positive < 2; positive++) {
            float far[GROUP * MOST_LANES] = {0}, y[GROUP * MOST_LANES];
            for (size_t lane = 0; lane < b.lanes; lane++) {
                size_t i = at * b.lanes + lane;
                float most = group == 1 ? 1e6f : 100 * fmaxf(high[i], -low[i]);
                far[i] = positive ? most : -most;
            }
            b.columnwise->round(b.state, c, far, y);
            for (size_t lane = 0; lane < b.lanes; lane++) {
                size_t i = at * b.lanes + lane;
                if (y[i] != (positive ? high[i] : low[i]))
                    fail_block(&b, "a far weight does not go to the end", lane);
            }
        }
    }
}

/* Each row by its own gain; a state may be finished any number of times. */
TEST(gains_multiply) {
    static block b;
    seed_random(4);
    EACH_BLOCK(&b) {
        uint8_t bytes[MOST_LANES * MOST_BYTES];
        float y[MOST_COLS];
        bool fixed = b.type->id == GGUF_MXFP4 || b.type->id == GGUF_NVFP4;
        round_all(&b);
        for (int again = 0; again < 2; again++) {
            for (size_t lane = 0; lane < b.lanes; lane++) b.gain[lane] = 0.8f + 0.1f * (float)lane;
            b.columnwise->finish(b.state, b.gain, bytes, b.type->block_bytes, b.lanes);
        }
        for (size_t lane = 0; lane < b.lanes; lane++) {
            double e2 = 0, y2 = 0;
            b.codec->decode(bytes + lane * b.type->block_bytes, 0, y, b.cols);
            for (size_t c = 0; c < b.cols; c++) {
                double expected = (double)b.decoded[c * b.lanes + lane] * (fixed ? 1 : (double)b.gain[lane]);
                e2 += ((double)y[c] - expected) * ((double)y[c] - expected), y2 += expected * expected;
            }
            /* A scale and a minimum that nearly cancel, each rounded to binary16. */
            if (e2 > 1e-4 * y2) fail_block(&b, "not multiplied by its gain", lane);
        }
    }
}

FIXTURE(set_up) {
    seed_random(0), fill_importance(importance, MOST_COLS);
    return 0;
}

int main(void) { return tests_run(set_up, NULL); }
