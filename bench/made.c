/* Shapes and weights of synthetic models. Weights are normal with a scale per row and one outlier in a
 * thousand.
 */
#include "bench/made.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void *made_allocate(size_t count, size_t size) {
    void *memory = calloc(count, size);
    if (!memory) fputs("make-model: out of memory\n", stderr), exit(1);
    return memory;
}

void made_exit_unless(bool ok, const gq_error *e) {
    if (!ok) fprintf(stderr, "make-model: %s\n", e->text), exit(1);
}

/* ---- files ---- */

/* A link of that name is replaced, and not the file that it leads to, which may be a real model. */
FILE *made_create(const char *path) {
    if (unlink(path) != 0 && errno != ENOENT) perror(path), exit(1);
    FILE *f = fopen(path, "wbx");
    if (!f) perror(path), exit(1);
    return f;
}

void made_write(FILE *f, const void *bytes, size_t n) {
    if (n && fwrite(bytes, 1, n, f) != n) perror("make-model: cannot write"), exit(1);
}

void made_extend(FILE *f, const char *path, uint64_t size) {
    if (fflush(f) != 0 || ftruncate(fileno(f), (off_t)size) != 0) perror(path), exit(1);
}

void made_close(FILE *f, const char *path) {
    if (fclose(f) != 0) perror(path), exit(1);
}

/* ---- numbers ---- */

static const uint64_t SPLITMIX_STEP = 0x9e3779b97f4a7c15u;

uint64_t made_next(uint64_t *state) {
    uint64_t z = *state += SPLITMIX_STEP;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Four 16-bit uniforms have variance 4 * 65536^2 / 12. Integers make it the same everywhere. */
float made_normal(uint64_t *state) {
    uint64_t z = made_next(state);
    int32_t sum = (int32_t)(z & 0xffff) + (int32_t)(z >> 16 & 0xffff) + (int32_t)(z >> 32 & 0xffff) +
                  (int32_t)(z >> 48);
    return (float)(sum - 2 * 65535) * (1 / 37837.2f);
}

void made_fill_row(const made_model *m, const made_weight *w, uint64_t row, float *x) {
    uint64_t stream = (m->seed ^ (uint64_t)(w - m->weights) * 0xd1342543de82ef95u) + row * SPLITMIX_STEP;
    uint64_t state = made_next(&stream), n = w->ne[0];
    float scale = (1 + 0.25f * made_normal(&state)) / sqrtf((float)n);
    if (w->norm) {
        for (uint64_t i = 0; i < n; i++) x[i] = 1 + 0.1f * made_normal(&state);
        return;
    }
    for (uint64_t i = 0; i < n; i++) x[i] = scale * made_normal(&state);
    for (uint64_t left = n / 1024 + (made_next(&state) % 1024 < n % 1024); left > 0; left--)
        x[made_next(&state) % n] *= 8;
}

/* ---- the model ---- */

/* A layer has 2.5 width^2 weights and 3 width x feed for each expert, the embeddings 8 width^2. */
static made_shape choose_shape(double weights, uint64_t width, uint64_t feed, uint64_t experts,
                               uint64_t used) {
    made_shape s = {.width = width ? width : 256, .experts = experts, .used = experts > 1 ? used : experts};
    double wide = feed && width ? (double)feed / (double)width : 3,
           layer = 2.5 + 3 * wide * (double)(experts ? experts : 1);
    while (!width && s.width < 8192 && 4.0 * (double)(s.width * s.width) * (8 * layer + 8) <= weights)
        s.width *= 2;
    double fit = (weights / (double)(s.width * s.width) - 8) / layer;
    s.layers = fit < 1 ? 1 : (uint64_t)(fit + 0.5);
    s.heads = s.width / 64;
    s.kv_heads = s.heads / 4;
    s.feed = feed ? feed : 3 * s.width;
    s.vocabulary = 4 * s.width;
    return s;
}

static void add_weight(made_model *m, const char *name, int64_t layer, uint64_t n0, uint64_t n1, uint64_t n2,
                       bool norm) {
    made_weight *w = &m->weights[m->n++];
    *w = (made_weight){.ne = {n0, n1, n2, 1}, .norm = norm, .input = layer >= 0 && !norm};
    if (layer >= 0)
        snprintf(w->name, sizeof w->name, "blk.%lld.%s.weight", (long long)layer, name);
    else
        snprintf(w->name, sizeof w->name, "%s.weight", name);
}

static void add_layer_weights(made_model *m, int64_t layer) {
    made_shape s = m->shape;
    uint64_t kv = s.width / s.heads * s.kv_heads, experts = s.experts ? s.experts : 1;
    const char *suffix = s.experts ? "_exps" : "";
    char gate[32], up[32], down[32];
    snprintf(gate, sizeof gate, "ffn_gate%s", suffix);
    snprintf(up, sizeof up, "ffn_up%s", suffix);
    snprintf(down, sizeof down, "ffn_down%s", suffix);
    add_weight(m, "attn_norm", layer, s.width, 1, 1, true);
    add_weight(m, "attn_q", layer, s.width, s.width, 1, false);
    add_weight(m, "attn_k", layer, s.width, kv, 1, false);
    add_weight(m, "attn_v", layer, s.width, kv, 1, false);
    add_weight(m, "attn_output", layer, s.width, s.width, 1, false);
    add_weight(m, "ffn_norm", layer, s.width, 1, 1, true);
    if (s.experts) add_weight(m, "ffn_gate_inp", layer, s.width, s.experts, 1, false);
    add_weight(m, gate, layer, s.width, s.feed, experts, false);
    add_weight(m, up, layer, s.width, s.feed, experts, false);
    add_weight(m, down, layer, s.feed, s.width, experts, false);
}

void made_lay_out(made_model *m, double weights, uint64_t width, uint64_t feed, uint64_t experts,
                  uint64_t used) {
    made_shape s = m->shape = choose_shape(weights, width, feed, experts, used);
    m->weights = made_allocate(10 * s.layers + 3, sizeof *m->weights);
    add_weight(m, "token_embd", -1, s.width, s.vocabulary, 1, false);
    for (uint64_t l = 0; l < s.layers; l++) add_layer_weights(m, (int64_t)l);
    add_weight(m, "output_norm", -1, s.width, 1, 1, true);
    add_weight(m, "output", -1, s.width, s.vocabulary, 1, false);
}

const tensor_type *made_type_of(const made_model *m, const made_weight *w) {
    return w->norm || strstr(w->name, "ffn_gate_inp") ? tensor_type_of(GGUF_F32) : m->type;
}

int made_word(char *to, size_t size, uint64_t n) {
    int length = 0;
    do {
        length += snprintf(to + length, size - (size_t)length, "%c%c", "bcdfghjklmnprstvwxyz"[n % 20],
                           "aeiou"[n / 20 % 5]);
        n /= 100;
    } while (n-- > 0);
    return length;
}
