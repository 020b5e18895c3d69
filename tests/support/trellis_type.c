#include "tests/support/trellis_type.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "codec/vector.h"

static const tensor_type trellis_type = {TRELLIS,       "TRELLIS",    TRELLIS_COLUMNS,
                                         TRELLIS_BLOCK, TRELLIS_HEAD, true};

/* ---- the trellis ---- */

enum { STATES = 4, CODES = 4 };

/* A code is a branch and a level of its set. */
static int next_state(int state, int code) { return (state & 1) * 2 + (code & 1); }
static float level_of(int state, int code) {
    static const int sets[STATES][2] = {{0, 2}, {1, 3}, {2, 0}, {3, 1}};
    return (float)(sets[state][code & 1] + 4 * (code >> 1)) - 3.5f;
}

/* A path so far: what it costs, what its errors add to the costs of later columns, its codes. */
typedef struct trellis_path {
    double cost;
    float added[TRELLIS_COLUMNS];
    uint8_t codes[TRELLIS_COLUMNS];
} trellis_path;

/* Cost of errors: |e R|^2, R the Cholesky factor `root`. step 0: root has only the diagonal, contiguous. */
typedef struct trellis_costs {
    const float *root;
    size_t step;
} trellis_costs;

/* The best path to a state. */
typedef struct trellis_arrival {
    double cost;
    int from, code;
} trellis_arrival;

/* Finds the best path to each state at column c, weight x. */
static void path_arrive(const trellis_path *at, size_t c, float x, float scale, float root,
                        trellis_arrival best[STATES]) {
    for (int s = 0; s < STATES; s++) best[s].cost = INFINITY;
    for (int s = 0; s < STATES; s++)
        for (int code = 0; code < CODES && at[s].cost < INFINITY; code++) {
            double r = (double)(at[s].added[c] + (x - scale * level_of(s, code)) * root),
                   cost = at[s].cost + r * r;
            if (cost < best[next_state(s, code)].cost)
                best[next_state(s, code)] = (trellis_arrival){cost, s, code};
        }
}

/* Viterbi: finds the path of least cost, per column and state the best of those that lead there. greedy: only
 * the best state continues. */
static trellis_path path_find(const float *x, size_t step, float scale, const trellis_costs *by,
                              bool greedy) {
    trellis_path at[STATES] = {{0}}, next[STATES];
    for (int s = 1; s < STATES; s++) at[s].cost = INFINITY;
    for (size_t c = 0; c < TRELLIS_COLUMNS; c++) {
        const float *root = by->root + c * by->step;
        trellis_arrival best[STATES];
        path_arrive(at, c, x[c * step], scale, root[c], best);
        int first = 0;
        for (int s = 1; s < STATES; s++) first = best[s].cost < best[first].cost ? s : first;
        for (int s = 0; s < STATES; s++) {
            next[s].cost = greedy && s != first ? INFINITY : best[s].cost;
            if (!(next[s].cost < INFINITY)) continue;
            next[s] = at[best[s].from];
            next[s].cost = best[s].cost, next[s].codes[c] = (uint8_t)best[s].code;
            float e = x[c * step] - scale * level_of(best[s].from, best[s].code);
            for (size_t k = c + 1; by->step && k < TRELLIS_COLUMNS; k++) next[s].added[k] += e * root[k];
        }
        memcpy(at, next, sizeof at);
    }
    for (int s = 1; s < STATES; s++)
        if (at[s].cost < at[0].cost) at[0] = at[s];
    return at[0];
}

/* ---- columnwise encoding ---- */

static struct {
    kernels kernels;
    codec codecs[GGUF_TYPE_LIMIT];
    codec_columnwise columnwise;
    trellis_way way;
} made;

/* A block of a batch. */
typedef struct trellis_state {
    float head[CODEC_MOST_LANES],
        weight[TRELLIS_COLUMNS]; /* weight: square roots of the columns' own costs */
    uint8_t scale[CODEC_MOST_LANES], codes[CODEC_MOST_LANES][TRELLIS_COLUMNS];
} trellis_state;

static float scale_of(const trellis_state *s, size_t lane) {
    return s->head[lane] * (float)s->scale[lane] / 255;
}

static float root_mean_square(const float *x, size_t step) {
    double sum = 0;
    for (size_t c = 0; c < TRELLIS_COLUMNS; c++) sum += (double)x[c * step] * (double)x[c * step];
    return (float)sqrt(sum / TRELLIS_COLUMNS);
}

static void begin(void *states, size_t state_stride, const float *x, size_t step, size_t columns) {
    for (size_t lane = 0; lane < made.kernels.lanes; lane++) {
        float most = 0;
        for (size_t c = 0; c < columns; c += TRELLIS_COLUMNS)
            most = fmaxf(most, root_mean_square(x + c * step + lane, step));
        for (size_t c = 0; c < columns; c += TRELLIS_COLUMNS)
            ((trellis_state *)(void *)((char *)states + c / TRELLIS_COLUMNS * state_stride))->head[lane] =
                most;
    }
}

/* Rounds a lane. root NULL: columns are independent. */
static double round_lane(trellis_state *s, size_t lane, const float *x, const float *root, float *decoded) {
    trellis_costs by = {root ? root : s->weight, root ? STRIP_COLUMNS : 0};
    size_t lanes = made.kernels.lanes;
    trellis_path p = path_find(x + lane, lanes, scale_of(s, lane), &by, made.way == TRELLIS_GREEDY);
    memcpy(s->codes[lane], p.codes, sizeof p.codes);
    for (size_t c = 0, state = 0; c < TRELLIS_COLUMNS; c++) {
        if (decoded) decoded[c * lanes + lane] = scale_of(s, lane) * level_of((int)state, p.codes[c]);
        state = (size_t)next_state((int)state, p.codes[c]);
    }
    return p.cost;
}

static void choose(void *state, const float *x, const float *importance, const codec_search *search) {
    trellis_state *s = state;
    size_t lanes = made.kernels.lanes;
    for (size_t c = 0; c < TRELLIS_COLUMNS; c++) s->weight[c] = importance ? sqrtf(importance[c]) : 1;
    for (size_t lane = 0; lane < lanes; lane++) {
        float unit = s->head[lane] > 0 ? root_mean_square(x + lane, lanes) / s->head[lane] * 255 : 0;
        double least = INFINITY;
        uint8_t best = 0;
        for (int i = 0; i < search->moves; i++) {
            s->scale[lane] = (uint8_t)fminf(unit * (0.45f + 0.1f * (float)i) + 0.5f, 255);
            double cost = round_lane(s, lane, x, NULL, NULL);
            if (cost < least) least = cost, best = s->scale[lane];
        }
        s->scale[lane] = best;
    }
}

static void round_path(void *state, size_t column, const float *x, const float *root, float *decoded) {
    (void)column;
    for (size_t lane = 0; lane < made.kernels.lanes; lane++) round_lane(state, lane, x, root, decoded);
}
static void round_each(void *state, size_t column, const float *x, float *decoded) {
    round_path(state, column, x, NULL, decoded);
}

static void ends(const void *state, size_t column, float *low, float *high) {
    size_t lanes = made.kernels.lanes;
    (void)column;
    for (size_t i = 0; i < TRELLIS_COLUMNS * lanes; i++)
        high[i] = 3.5f * scale_of(state, i % lanes), low[i] = -high[i];
}

static void gain_kept(const void *state, const float *x, const float *decoded, const float *importance,
                      float *gain) {
    (void)state, (void)x, (void)decoded, (void)importance;
    for (size_t lane = 0; lane < made.kernels.lanes; lane++) gain[lane] = 1;
}

static void finish(const void *state, const float *gain, uint8_t *blocks, size_t stride, size_t rows) {
    const trellis_state *s = state;
    (void)gain; /* the head's */
    for (size_t lane = 0; lane < rows; lane++, blocks += stride) {
        memset(blocks, 0, TRELLIS_BLOCK);
        blocks[0] = s->scale[lane];
        for (size_t c = 0; c < TRELLIS_COLUMNS; c++)
            blocks[1 + c / 4] |= (uint8_t)(s->codes[lane][c] << 2 * (c % 4));
    }
}

static void finish_headers(const void *state, const float *gain, uint8_t *heads, size_t stride, size_t rows) {
    const trellis_state *s = state;
    for (size_t lane = 0; lane < rows; lane++) {
        float head = s->head[lane] * gain[lane];
        memcpy(heads + lane * stride, &head, sizeof head);
    }
}

/* ---- the codec ---- */

static void decode(const uint8_t *row, size_t first, float *x, size_t n) {
    float head;
    memcpy(&head, row, sizeof head);
    row += TRELLIS_HEAD + first / TRELLIS_COLUMNS * TRELLIS_BLOCK;
    for (; n; n -= TRELLIS_COLUMNS, x += TRELLIS_COLUMNS, row += TRELLIS_BLOCK)
        for (int c = 0, state = 0; c < TRELLIS_COLUMNS; c++) {
            int code = row[1 + c / 4] >> 2 * (c % 4) & 3;
            x[c] = head * (float)row[0] / 255 * level_of(state, code);
            state = next_state(state, code);
        }
}

/* Plain encoding by codec_columnwise: a batch of rows, padded with the last one. */
static void encode(const float *x, uint8_t *to, size_t rows, size_t cols, const float *column,
                   const encode_settings *settings) {
    size_t lanes = made.kernels.lanes, blocks = cols / TRELLIS_COLUMNS,
           row_bytes = gguf_row_bytes(&trellis_type, cols);
    const float gain[CODEC_MOST_LANES] = {[0 ... CODEC_MOST_LANES - 1] = 1};
    trellis_state *states = calloc(blocks, sizeof *states);
    float *transposed = calloc(cols * lanes, sizeof *transposed), decoded[TRELLIS_COLUMNS * CODEC_MOST_LANES];
    for (size_t r = 0; r < rows; r += lanes) {
        size_t used = rows - r < lanes ? rows - r : lanes;
        for (size_t i = 0; i < cols * lanes; i++) {
            size_t lane = i % lanes < used ? i % lanes : used - 1;
            transposed[i] = x[(r + lane) * cols + i / lanes];
        }
        begin(states, sizeof *states, transposed, lanes, cols);
        finish_headers(states, gain, to + r * row_bytes, row_bytes, used);
        for (size_t i = 0; i < blocks; i++) {
            const float *block = transposed + i * TRELLIS_COLUMNS * lanes;
            choose(&states[i], block, column ? column + i * TRELLIS_COLUMNS : NULL,
                   &made.columnwise.searches[settings->effort][column != NULL]);
            round_each(&states[i], 0, block, decoded);
            finish(&states[i], gain, to + r * row_bytes + TRELLIS_HEAD + i * TRELLIS_BLOCK, row_bytes, used);
        }
    }
    free(states), free(transposed);
}

static void dot(const uint8_t *rows, size_t n, size_t cols, const codec_vector *v, float *out) {
    for (size_t r = 0; r < n; r++, rows += gguf_row_bytes(&trellis_type, cols)) {
        double sum = 0;
        for (size_t c = 0; c < cols; c += TRELLIS_COLUMNS) {
            float w[TRELLIS_COLUMNS];
            decode(rows, c, w, TRELLIS_COLUMNS);
            for (size_t k = 0; k < TRELLIS_COLUMNS; k++) sum += (double)w[k] * (double)v->x[c + k];
        }
        out[r] = (float)sum;
    }
}

/* ---- for the library to find ---- */

const kernels *trellis_kernels(const kernels *k, trellis_way way) {
    static const codec_search searches[EFFORT_BEST + 1][2] = {
        [EFFORT_FAST] = {[0 ... 1] = {.moves = 3}},
        [EFFORT_DEFAULT... EFFORT_BEST] = {[0 ... 1] = {.moves = 5}},
    };
    made.kernels = *k, made.way = way;
    memcpy(made.codecs, k->codecs, sizeof made.codecs);
    made.columnwise = (codec_columnwise){.state_bytes = sizeof(trellis_state),
                                         .group = TRELLIS_COLUMNS,
                                         .searches = searches,
                                         .choose = choose,
                                         .round = round_each,
                                         .ends = ends,
                                         .gain_kept = gain_kept,
                                         .finish = finish,
                                         .round_path = way == TRELLIS_EACH ? NULL : round_path,
                                         .begin = begin,
                                         .finish_headers = finish_headers};
    made.codecs[TRELLIS] = (codec){TRELLIS, decode, encode, 0x1p100f, &made.columnwise, dot};
    made.kernels.codecs = made.codecs;
    return &made.kernels;
}

const kernels *__real_kernels_select(void);
const tensor_type *__real_tensor_type_of(uint32_t id), *__real_tensor_type_named(const char *name);
const char *__real_tensor_type_name(uint32_t id);
const kernels *__wrap_kernels_select(void);
const tensor_type *__wrap_tensor_type_of(uint32_t id), *__wrap_tensor_type_named(const char *name);
const char *__wrap_tensor_type_name(uint32_t id);

void trellis_use(trellis_way way) {
    const kernels *k = __real_kernels_select();
    /* Kernels are recognized by address, so a copy never asks for tiles. */
    trellis_kernels(strcmp(kernels_name(k), "amx") ? k : kernels_level("x86-64-v4"), way);
}

const kernels *__wrap_kernels_select(void) {
    return made.kernels.lanes ? &made.kernels : __real_kernels_select();
}
const tensor_type *__wrap_tensor_type_of(uint32_t id) {
    return id == TRELLIS ? &trellis_type : __real_tensor_type_of(id);
}
const tensor_type *__wrap_tensor_type_named(const char *name) {
    return strcasecmp(name, trellis_type.name) ? __real_tensor_type_named(name) : &trellis_type;
}
const char *__wrap_tensor_type_name(uint32_t id) {
    return id == TRELLIS ? trellis_type.name : __real_tensor_type_name(id);
}
