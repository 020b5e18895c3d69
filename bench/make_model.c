/* make-model: writes a synthetic llama of any size with random weights, as a GGUF file or a Hugging Face folder,
 * and an imatrix for it; `usage` below lists the options.
 *
 * For experiments, tests and benchmarks without a download. The same options give the same bytes. llama.cpp
 * loads the file. Memory does not grow with the model.
 */
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/made.h"
#include "codec/codec.h"
#include "gguf/gguf.h"
#include "imatrix/imatrix.h"

static gq_error error;

static void exit_unless(bool ok) { made_exit_unless(ok, &error); }

/* ---- metadata ---- */

static void header_set_float(gguf_header *h, const char *key, float value) {
    exit_unless(gguf_header_set(h, key, GGUF_FLOAT32, &value, sizeof value, &error));
}

static void header_set_array(gguf_header *h, const char *key, uint32_t type, uint64_t n, const void *bytes,
                             size_t size) {
    exit_unless(gguf_header_set_array(h, key, type, n, bytes, size, &error));
}

/* Piece i of the vocabulary: three control tokens, the 256 bytes, then random syllables, every other one at
 * the start of a word. */
static int vocabulary_piece(char *to, size_t size, uint64_t i) {
    static const char *const control[] = {"<unk>", "<s>", "</s>"};
    if (i < 3) return snprintf(to, size, "%s", control[i]);
    if (i < 259) return snprintf(to, size, "<0x%02X>", (unsigned)(i - 3));
    int n = snprintf(to, size, "%s", i % 2 ? "\xe2\x96\x81" : "");
    return n + made_word(to + n, size - (size_t)n, (i - 259) / 2);
}

static void write_tokenizer(gguf_header *h, uint64_t n) {
    enum { NORMAL = 1, UNKNOWN, CONTROL, BYTE = 6 };
    char *tokens = made_allocate(n, 8 + 32);
    float *scores = made_allocate(n, sizeof *scores);
    int32_t *kinds = made_allocate(n, sizeof *kinds);
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
                   {"llama.expert_used_count", s.used}};
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

static void write_weight(FILE *f, const made_model *m, const made_weight *w) {
    static const uint8_t zeros[GGUF_DEFAULT_ALIGNMENT];
    const tensor_type *type = made_type_of(m, w);
    codec_encode *encode = kernels_select()->codecs[type->id].encode;
    uint64_t columns = w->ne[0], rows = w->ne[1] * w->ne[2], bytes = gguf_row_bytes(type, columns);
    float *x = made_allocate(columns, sizeof *x);
    uint8_t *row = made_allocate(bytes, 1);
    for (uint64_t r = 0; r < rows; r++) {
        made_fill_row(m, w, r, x);
        encode(x, row, 1, columns, NULL, &(encode_settings){.effort = EFFORT_DEFAULT});
        made_write(f, row, bytes);
    }
    made_write(f, zeros, -(rows * bytes) % GGUF_DEFAULT_ALIGNMENT);
    free(x), free(row);
}

static void write_model(const made_model *m, const char *path) {
    FILE *f = made_create(path);
    gguf_header *h = gguf_header_new(&error);
    exit_unless(h != NULL);
    write_metadata(h, m);
    for (size_t i = 0; i < m->n; i++)
        exit_unless(gguf_header_add_tensor(h, m->weights[i].name, m->weights[i].ne,
                                           made_type_of(m, &m->weights[i]), &error));
    const uint8_t *head;
    uint64_t size, data;
    exit_unless(gguf_header_finish(h, &head, &size, &data, &error));
    made_write(f, head, size);
    for (size_t i = 0; !m->sparse && i < m->n; i++) write_weight(f, m, &m->weights[i]);
    if (m->sparse) made_extend(f, path, size + data);
    made_close(f, path);
    gguf_header_free(h);
}

/* ---- imatrix ---- */

enum { CHUNKS = 100 };

/* Mean squared activations as real models have them: over some decades, a few columns far above the rest. */
static void write_importance(const made_model *m, const char *path) {
    imatrix im = {.entries = made_allocate(m->n, sizeof *im.entries), .chunk_count = CHUNKS, .legacy = true};
    char *dataset = "made-up activations";
    im.n_datasets = 1, im.datasets = &dataset;
    float *calls = made_allocate(1, sizeof *calls);
    *calls = CHUNKS;
    for (size_t i = 0, norm = 0; i < m->n; i++) {
        const made_weight *w = &m->weights[i];
        if (w->norm) norm = i;
        if (!w->input) continue;
        /* Weights after the same norm have the same input activations. */
        bool own = strstr(w->name, "attn_output") || strstr(w->name, "ffn_down");
        imatrix_entry *entry = &im.entries[im.n_entries++];
        *entry = (imatrix_entry){
            .name = (char *)w->name, .n_values = w->ne[0] * w->ne[2], .n_counts = 1, .counts = calls};
        entry->sums = made_allocate(entry->n_values, sizeof *entry->sums);
        uint64_t state = ~m->seed ^ (uint64_t)(own ? i : norm) * 0xd1342543de82ef95u;
        for (uint64_t k = 0; k < entry->n_values; k++)
            entry->sums[k] =
                CHUNKS * exp2f(2 * made_normal(&state)) * (made_next(&state) % 256 == 0 ? 64.0f : 1.0f);
    }
    uint8_t *bytes;
    uint64_t size;
    exit_unless(imatrix_write_dat(&im, &bytes, &size, &error));
    FILE *f = made_create(path);
    made_write(f, bytes, size);
    made_close(f, path);
    for (uint64_t i = 0; i < im.n_entries; i++) free(im.entries[i].sums);
    free(im.entries), free(calls), free(bytes);
}

/* ---- the command ---- */

static const char usage[] =
    "usage: make-model [options] OUT.gguf [WEIGHTS]\n"
    "       make-model --folder [--shards N] [options] DIR [WEIGHTS]\n"
    "Writes a synthetic llama with random weights, the same in either form. What stands at OUT or in DIR is "
    "replaced.\n"
    "  --folder        a folder as Hugging Face has them: config.json, tokenizer.json, safetensors\n"
    "  --shards N      in so many files with an index (1: model.safetensors alone)\n"
    "  --lora ADAPTER  with --folder: a folder with a LoRA adapter for it, too\n"
    "  --weights N     about so many (30e6), also as the last argument\n"
    "  --experts N     a mixture of so many experts (0); the folder is a Mixtral\n"
    "  --used N        experts that a token meets (2)\n"
    "  --feed N        width inside a feed-forward sublayer, a multiple of 256 (3 x --width, which must be "
    "given)\n"
    "  --width N       of a row, a multiple of 256; the number of layers follows (by default they are 8 or "
    "more)\n"
    "  --type TYPE     F16 (a file's default), BF16 (a folder's), F32; F8_E4M3 in a folder: matrices of "
    "layers\n"
    "                  have a scale for each 128 x 128, all else is BF16\n"
    "  --imatrix FILE  an imatrix that fits it, too\n"
    "  --seed N        other weights (1)\n"
    "  --sparse        all weights zero, which takes no time and no room on the disk\n";

typedef struct made_options {
    const char *type, *importance, *lora;
    double weights;
    uint64_t experts, used, width, feed, shards;
    bool folder;
} made_options;

static bool options_read(made_options *o, made_model *m, int argc, char **argv) {
    static const struct option longs[] = {{"type", 1, NULL, 't'},    {"weights", 1, NULL, 'w'},
                                          {"experts", 1, NULL, 'e'}, {"used", 1, NULL, 'u'},
                                          {"width", 1, NULL, 'd'},   {"feed", 1, NULL, 'F'},
                                          {"imatrix", 1, NULL, 'i'}, {"seed", 1, NULL, 's'},
                                          {"folder", 0, NULL, 'f'},  {"lora", 1, NULL, 'l'},
                                          {"shards", 1, NULL, 'n'},  {"sparse", 0, NULL, 'z'},
                                          {"help", 0, NULL, 'h'},    {0}};
    for (int c; (c = getopt_long(argc, argv, "", longs, NULL)) != -1;) {
        if (c == 't') o->type = optarg;
        if (c == 'w') o->weights = strtod(optarg, NULL);
        if (c == 'e') o->experts = strtoull(optarg, NULL, 10);
        if (c == 'd') o->width = strtoull(optarg, NULL, 10);
        if (c == 'u') o->used = strtoull(optarg, NULL, 10);
        if (c == 'F') o->feed = strtoull(optarg, NULL, 10);
        if (c == 'i') o->importance = optarg;
        if (c == 's') m->seed = strtoull(optarg, NULL, 10);
        if (c == 'f') o->folder = true;
        if (c == 'l') o->lora = optarg;
        if (c == 'n') o->shards = strtoull(optarg, NULL, 10);
        if (c == 'z') m->sparse = true;
        if (c == 'h') fputs(usage, stdout), exit(0);
        if (c == '?') return false;
    }
    if (argc == optind + 2) o->weights = strtod(argv[optind + 1], NULL);
    return argc == optind + 1 || argc == optind + 2;
}

static bool options_fit(const made_options *o, made_model *m) {
    m->fp8 = o->folder && strcmp(o->type, "F8_E4M3") == 0;
    m->type = m->fp8 ? tensor_type_of(GGUF_BF16) : tensor_type_named(o->type);
    return m->type && (m->type->id == GGUF_F16 || m->type->id == GGUF_BF16 || m->type->id == GGUF_F32) &&
           o->weights >= 1 && o->weights <= 1e13 && o->experts <= 1024 && o->width <= 65536 &&
           o->width % 256 == 0 && o->feed <= 1 << 20 && o->feed % 256 == 0 && (!o->feed || o->width) &&
           o->used >= 1 && (o->used <= o->experts || o->experts < 2) && o->shards >= 1 &&
           o->shards <= (o->folder ? 10000 : 1) && (!o->lora || o->folder);
}

int main(int argc, char **argv) {
    made_model m = {.seed = 1};
    made_options o = {.weights = 30e6, .shards = 1, .used = 2};
    bool ok = options_read(&o, &m, argc, argv);
    if (!o.type) o.type = o.folder ? "BF16" : "F16";
    if (!ok || !options_fit(&o, &m)) {
        fputs(usage, stderr);
        return 2;
    }
    made_lay_out(&m, o.weights, o.width, o.feed, o.experts, o.used);
    if (o.folder)
        made_write_folder(&m, argv[optind], o.shards);
    else
        write_model(&m, argv[optind]);
    if (o.lora) made_write_adapter(&m, argv[optind], o.lora);
    if (o.importance) write_importance(&m, o.importance);
    free(m.weights);
    return 0;
}
