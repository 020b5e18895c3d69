/* make-model: writes a llama-shaped GGUF of any size with made-up weights, and importance data that fit it.
 *
 *     make-model [--type F16|BF16|F32] [--weights N] [--experts N] [--seed N] [--sparse]
 *                [--imatrix FILE] OUT.gguf
 *
 * For trying the quantizer, for tests and benchmarks without a download. The same options give the same file.
 * Weights are normal with a scale per row and one outlier in a thousand; llama.cpp loads the file and talks
 * nonsense. Memory does not grow with the model. --sparse leaves all weights zero, which takes no time and no
 * room on the disk: to see what sizes alone do.
 */
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "codec/codec.h"
#include "gguf/gguf.h"
#include "imatrix/imatrix.h"

typedef struct made_shape {
    uint64_t width, layers, heads, kv_heads, feed, vocabulary, experts;
} made_shape;

typedef struct made_weight {
    char name[GGUF_MAX_NAME + 1];
    uint64_t ne[4];
    bool norm, input; /* a norm's scale (all near 1, F32); meets activations, so it has importance */
} made_weight;

typedef struct made_model {
    made_shape shape;
    const gguf_type *type;
    uint64_t seed;
    bool sparse;
    made_weight *weights;
    size_t n;
} made_model;

static gq_error error;

static void *allocate_zeros(size_t count, size_t size) {
    void *memory = calloc(count, size);
    if (!memory) fputs("make-model: out of memory\n", stderr), exit(1);
    return memory;
}

static void exit_unless(bool ok) {
    if (!ok) fprintf(stderr, "make-model: %s\n", error.text), exit(1);
}

/* ---- numbers ---- */

/* splitmix64: every state gives an independent stream, so each row can start from its own. */
static uint64_t made_next(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Close to normal, deviation 1: four 16-bit uniforms have variance 4 * 65536^2 / 12. Integers make it the
 * same everywhere. */
static float made_normal(uint64_t *state) {
    uint64_t z = made_next(state);
    int32_t sum = (int32_t)(z & 0xffff) + (int32_t)(z >> 16 & 0xffff) + (int32_t)(z >> 32 & 0xffff) +
                  (int32_t)(z >> 48);
    return (float)(sum - 2 * 65535) * (1 / 37837.2f);
}

static void fill_row(float *x, uint64_t n, const made_weight *w, uint64_t stream) {
    uint64_t state = stream;
    float scale = (1 + 0.25f * made_normal(&state)) / sqrtf((float)w->ne[0]);
    if (w->norm) {
        for (uint64_t i = 0; i < n; i++) x[i] = 1 + 0.1f * made_normal(&state);
        return;
    }
    for (uint64_t i = 0; i < n; i++) x[i] = scale * made_normal(&state);
    for (uint64_t left = n / 1024 + (made_next(&state) % 1024 < n % 1024); left > 0; left--)
        x[made_next(&state) % n] *= 8;
}

/* ---- the model ---- */

/* The widest model that still has eight layers: a layer has 11.5 width^2 weights, the embeddings 8 width^2.
 */
static made_shape choose_shape(double weights, uint64_t experts) {
    made_shape s = {.width = 256, .experts = experts};
    double layer = 2.5 + 9.0 * (double)(experts ? experts : 1);
    while (s.width < 8192 && 4.0 * (double)(s.width * s.width) * (8 * layer + 8) <= weights) s.width *= 2;
    double fit = (weights / (double)(s.width * s.width) - 8) / layer;
    s.layers = fit < 1 ? 1 : (uint64_t)(fit + 0.5);
    s.heads = s.width / 64;
    s.kv_heads = s.heads / 4;
    s.feed = 3 * s.width;
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

static void lay_out_weights(made_model *m) {
    made_shape s = m->shape;
    m->weights = allocate_zeros(10 * s.layers + 3, sizeof *m->weights);
    add_weight(m, "token_embd", -1, s.width, s.vocabulary, 1, false);
    for (uint64_t l = 0; l < s.layers; l++) add_layer_weights(m, (int64_t)l);
    add_weight(m, "output_norm", -1, s.width, 1, 1, true);
    add_weight(m, "output", -1, s.width, s.vocabulary, 1, false);
}

/* ---- metadata ---- */

static void header_set_float(gguf_header *h, const char *key, float value) {
    exit_unless(gguf_header_set(h, key, GGUF_FLOAT32, &value, sizeof value, &error));
}

static void header_set_array(gguf_header *h, const char *key, uint32_t type, uint64_t n, const void *bytes,
                             size_t size) {
    uint8_t *value = allocate_zeros(12 + size, 1);
    memcpy(value, &type, 4), memcpy(value + 4, &n, 8), memcpy(value + 12, bytes, size);
    exit_unless(gguf_header_set(h, key, GGUF_ARRAY, value, 12 + size, &error));
    free(value);
}

/* Piece i of the vocabulary: three control tokens, the 256 bytes, then made-up syllables, every other one at
 * the start of a word. */
static int vocabulary_piece(char *to, size_t size, uint64_t i) {
    static const char *const control[] = {"<unk>", "<s>", "</s>"};
    if (i < 3) return snprintf(to, size, "%s", control[i]);
    if (i < 259) return snprintf(to, size, "<0x%02X>", (unsigned)(i - 3));
    uint64_t rest = (i - 259) / 2;
    int n = snprintf(to, size, "%s", i % 2 ? "\xe2\x96\x81" : "");
    do {
        n += snprintf(to + n, size - (size_t)n, "%c%c", "bcdfghjklmnprstvwxyz"[rest % 20],
                      "aeiou"[rest / 20 % 5]);
        rest /= 100;
    } while (rest-- > 0);
    return n;
}

static void write_tokenizer(gguf_header *h, uint64_t n) {
    enum { NORMAL = 1, UNKNOWN, CONTROL, BYTE = 6 };
    char *tokens = allocate_zeros(n, 8 + 32);
    float *scores = allocate_zeros(n, sizeof *scores);
    int32_t *kinds = allocate_zeros(n, sizeof *kinds);
    size_t at = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t length = (uint64_t)vocabulary_piece(tokens + at + 8, 32, i);
        memcpy(tokens + at, &length, 8);
        at += 8 + length;
        scores[i] = -(float)i;
        kinds[i] = i == 0 ? UNKNOWN : i < 3 ? CONTROL : i < 259 ? BYTE : NORMAL;
    }
    exit_unless(gguf_header_set_string(h, "tokenizer.ggml.model", "llama", &error));
    header_set_array(h, "tokenizer.ggml.tokens", GGUF_STRING, n, tokens, at);
    header_set_array(h, "tokenizer.ggml.scores", GGUF_FLOAT32, n, scores, n * sizeof *scores);
    header_set_array(h, "tokenizer.ggml.token_type", GGUF_INT32, n, kinds, n * sizeof *kinds);
    exit_unless(gguf_header_set_u32(h, "tokenizer.ggml.bos_token_id", 1, &error));
    exit_unless(gguf_header_set_u32(h, "tokenizer.ggml.eos_token_id", 2, &error));
    exit_unless(gguf_header_set_u32(h, "tokenizer.ggml.unknown_token_id", 0, &error));
    free(tokens), free(scores), free(kinds);
}

static void write_metadata(gguf_header *h, const made_model *m) {
    made_shape s = m->shape;
    const struct {
        const char *key;
        uint64_t value;
    } numbers[] = {{"llama.context_length", 2048},
                   {"llama.embedding_length", s.width},
                   {"llama.block_count", s.layers},
                   {"llama.feed_forward_length", s.feed},
                   {"llama.attention.head_count", s.heads},
                   {"llama.attention.head_count_kv", s.kv_heads},
                   {"llama.rope.dimension_count", s.width / s.heads},
                   {"llama.vocab_size", s.vocabulary},
                   {"llama.expert_count", s.experts},
                   {"llama.expert_used_count", s.experts > 1 ? 2 : s.experts}};
    exit_unless(gguf_header_set_string(h, "general.architecture", "llama", &error));
    exit_unless(gguf_header_set_string(h, "general.name", "made-up weights", &error));
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i].value)
            exit_unless(gguf_header_set_u32(h, numbers[i].key, (uint32_t)numbers[i].value, &error));
    header_set_float(h, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    uint32_t filetype = m->type->id == GGUF_F32 ? 0 : m->type->id == GGUF_F16 ? 1 : 32;
    exit_unless(gguf_header_set_u32(h, "general.file_type", filetype, &error));
    write_tokenizer(h, s.vocabulary);
}

/* ---- writing ---- */

static void write_or_exit(FILE *f, const void *bytes, size_t n) {
    if (n && fwrite(bytes, 1, n, f) != n) perror("make-model: cannot write"), exit(1);
}

static const gguf_type *type_of(const made_model *m, const made_weight *w) {
    return w->norm || strstr(w->name, "ffn_gate_inp") ? gguf_type_of(GGUF_F32) : m->type;
}

static void write_weight(FILE *f, const made_model *m, const made_weight *w) {
    static const uint8_t zeros[GGUF_DEFAULT_ALIGNMENT];
    const gguf_type *type = type_of(m, w);
    codec_encode *encode = kernels_select()->codecs[type->id].encode;
    uint64_t columns = w->ne[0], rows = w->ne[1] * w->ne[2], bytes = gguf_type_bytes(type, columns);
    float *x = allocate_zeros(columns, sizeof *x);
    uint8_t *row = allocate_zeros(bytes, 1);
    uint64_t stream = m->seed ^ (uint64_t)(w - m->weights) * 0xd1342543de82ef95u;
    for (uint64_t r = 0; r < rows; r++) {
        fill_row(x, columns, w, made_next(&stream));
        encode(x, row, 1, columns, NULL, &(encode_settings){.effort = EFFORT_DEFAULT});
        write_or_exit(f, row, bytes);
    }
    write_or_exit(f, zeros, -(rows * bytes) % GGUF_DEFAULT_ALIGNMENT);
    free(x), free(row);
}

static void write_model(const made_model *m, const char *path) {
    FILE *f = fopen(path, "wb");
    if (!f) perror(path), exit(1);
    gguf_header *h = gguf_header_new(&error);
    exit_unless(h != NULL);
    write_metadata(h, m);
    for (size_t i = 0; i < m->n; i++)
        exit_unless(gguf_header_add_tensor(h, m->weights[i].name, m->weights[i].ne,
                                           type_of(m, &m->weights[i]), &error));
    const uint8_t *head;
    uint64_t size, data;
    exit_unless(gguf_header_finish(h, &head, &size, &data, &error));
    write_or_exit(f, head, size);
    for (size_t i = 0; !m->sparse && i < m->n; i++) write_weight(f, m, &m->weights[i]);
    if (m->sparse && (fflush(f) != 0 || ftruncate(fileno(f), (off_t)(size + data)) != 0))
        perror(path), exit(1);
    if (fclose(f) != 0) perror(path), exit(1);
    gguf_header_free(h);
}

/* ---- importance ---- */

enum { CHUNKS = 100 };

/* Mean squared activations as they come: over some decades, a few columns far above the rest. */
static void write_importance(const made_model *m, const char *path) {
    imatrix im = {.entries = allocate_zeros(m->n, sizeof *im.entries), .chunk_count = CHUNKS, .legacy = true};
    char *dataset = "made-up activations";
    im.n_datasets = 1, im.datasets = &dataset;
    float *calls = allocate_zeros(1, sizeof *calls);
    *calls = CHUNKS;
    for (size_t i = 0, norm = 0; i < m->n; i++) {
        const made_weight *w = &m->weights[i];
        if (w->norm) norm = i;
        if (!w->input) continue;
        /* Weights behind the same norm meet the same activations. */
        bool own = strstr(w->name, "attn_output") || strstr(w->name, "ffn_down");
        imatrix_entry *entry = &im.entries[im.n_entries++];
        *entry = (imatrix_entry){
            .name = (char *)w->name, .n_values = w->ne[0] * w->ne[2], .n_counts = 1, .counts = calls};
        entry->sums = allocate_zeros(entry->n_values, sizeof *entry->sums);
        uint64_t state = ~m->seed ^ (uint64_t)(own ? i : norm) * 0xd1342543de82ef95u;
        for (uint64_t k = 0; k < entry->n_values; k++)
            entry->sums[k] =
                CHUNKS * exp2f(2 * made_normal(&state)) * (made_next(&state) % 256 == 0 ? 64.0f : 1.0f);
    }
    uint8_t *bytes;
    uint64_t size;
    exit_unless(imatrix_write_dat(&im, &bytes, &size, &error));
    FILE *f = fopen(path, "wb");
    if (!f) perror(path), exit(1);
    write_or_exit(f, bytes, size);
    if (fclose(f) != 0) perror(path), exit(1);
    for (uint64_t i = 0; i < im.n_entries; i++) free(im.entries[i].sums);
    free(im.entries), free(calls), free(bytes);
}

int main(int argc, char **argv) {
    static const struct option longs[] = {{"type", 1, NULL, 't'},
                                          {"weights", 1, NULL, 'w'},
                                          {"experts", 1, NULL, 'e'},
                                          {"imatrix", 1, NULL, 'i'},
                                          {"seed", 1, NULL, 's'},
                                          {"sparse", 0, NULL, 'z'},
                                          {0}};
    made_model m = {.type = gguf_type_of(GGUF_F16), .seed = 1};
    const char *importance = NULL;
    double weights = 30e6;
    uint64_t experts = 0;
    bool ok = true;
    for (int o; (o = getopt_long(argc, argv, "", longs, NULL)) != -1;) switch (o) {
        case 't':
            m.type = gguf_type_named(optarg);
            break;
        case 'w':
            weights = strtod(optarg, NULL);
            break;
        case 'e':
            experts = strtoull(optarg, NULL, 10);
            break;
        case 'i':
            importance = optarg;
            break;
        case 'z':
            m.sparse = true;
            break;
        case 's':
            m.seed = strtoull(optarg, NULL, 10);
            break;
        default:
            ok = false;
        }
    if (!ok || optind + 1 != argc || !m.type ||
        (m.type->id != GGUF_F16 && m.type->id != GGUF_BF16 && m.type->id != GGUF_F32) ||
        !(weights >= 1 && weights <= 1e13) || experts > 1024) {
        fputs("usage: make-model [--type F16|BF16|F32] [--weights N] [--experts N] [--seed N] "
              "[--sparse] [--imatrix FILE] OUT.gguf\n",
              stderr);
        return 2;
    }
    m.shape = choose_shape(weights, experts);
    lay_out_weights(&m);
    write_model(&m, argv[optind]);
    if (importance) write_importance(&m, importance);
    free(m.weights);
    return 0;
}
