/* Random models for crossings: shapes, types, names, values and metadata, written as one file and, for some,
 * also as shards. Most draws are ordinary and a few are odd, so that most cases can be done and every oddity
 * meets all kinds of options: rows that no block divides, names that programs stumble over, lists of the
 * wrong length, weights of extreme size or not finite. What decides whether a job may fail is kept in
 * crossing_model, `spoilt` above all. Metadata have a seed of their own, so they are the same however many
 * shards there are. Importance data for a model are drawn here, too; models that can be run are in
 * crossing_runs_model.c.
 */
#include "tests/crossings/crossing.h"

#include <math.h>

#include "codec/codec.h"
#include "tests/support/imatrix_files.h"
#include "tests/support/model.h"
#include "tests/support/numbers.h"

uint64_t below(uint64_t n) { return n ? next_random() % n : 0; }
bool chance(unsigned per_cent) { return below(100) < per_cent; }

/* ---- which tensors ---- */

static uint64_t row_length(void) {
    static const uint64_t lengths[] = {256, 256, 256, 512, 512, 64, 32, 128, 288, 320, 96, 100, 33, 7, 1};
    return lengths[below(sizeof lengths / sizeof *lengths)];
}

static bool is_taken(const crossing_model *m, const char *name) {
    for (size_t i = 0; i < m->n; i++)
        if (!strcmp(m->tensors[i].name, name)) return true;
    return false;
}

static uint32_t draw_type(crossing_model *m, uint64_t columns, bool quantized) {
    static const uint32_t floats[] = {GGUF_F16, GGUF_F16, GGUF_F32, GGUF_BF16};
    for (int tries = 0; quantized && tries < 10; tries++) {
        const tensor_type *type = tensor_type_of((uint32_t)below(GGUF_TYPE_LIMIT));
        if (!type || !type->quantized || columns % type->block_elements) continue;
        if (!kernels_select()->codecs[type->id].decode && !chance(2)) continue;
        m->any_quantized = true;
        return type->id;
    }
    return floats[below(4)];
}

static void add(crossing_model *m, const char *name, uint64_t columns, uint64_t rows, uint64_t matrices,
                unsigned quantized) {
    if (m->n == CROSSING_TENSORS || is_taken(m, name)) return;
    crossing_tensor *t = &m->tensors[m->n++];
    *t = (crossing_tensor){.ne = {columns, rows, matrices, 1}, .matrix = rows * matrices > 1};
    snprintf(t->name, sizeof t->name, "%s", name);
    t->type = t->matrix ? draw_type(m, columns, chance(quantized)) : chance(90) ? GGUF_F32 : GGUF_F16;
}

typedef struct block_shape {
    uint64_t width[2], experts;
    uint64_t rows[32]; /* rows of each part; 0: drawn for each block by itself, as in no real model */
    unsigned quantized;
} block_shape;

static void add_block(crossing_model *m, uint32_t block, const block_shape *shape) {
    enum { INNER = 1, NORM = 2, EXPERT = 4, SELDOM = 8 };
    static const struct {
        const char *name;
        unsigned is;
    } parts[] = {
        {"attn_norm.weight", NORM},
        {"attn_q.weight", 0},
        {"attn_k.weight", 0},
        {"attn_v.weight", 0},
        {"attn_output.weight", 0},
        {"attn_q.bias", NORM | SELDOM},
        {"ffn_norm.weight", NORM},
        {"ffn_gate.weight", 0},
        {"ffn_up.weight", 0},
        {"ffn_down.weight", INNER},
        {"ffn_gate_inp.weight", SELDOM},
        {"ffn_gate_exps.weight", EXPERT},
        {"ffn_down_exps.weight", INNER | EXPERT},
        {"attn_qkv.weight", SELDOM},
        {"ssm_conv1d.weight", SELDOM},
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char name[128];
        unsigned is = parts[i].is;
        if ((is & SELDOM && !chance(10)) || (is & EXPERT && !shape->experts) || chance(3)) continue;
        snprintf(name, sizeof name, "blk.%u.%s", block, parts[i].name);
        uint64_t rows = is & NORM ? 1 : shape->rows[i] ? shape->rows[i] : 1 + below(24);
        add(m, name, shape->width[is & INNER ? 1 : 0], rows, is & EXPERT ? shape->experts : 1,
            shape->quantized);
    }
}

/* Adds a tensor with a name that programs stumble over. */
static void add_odd(crossing_model *m, unsigned quantized) {
    char name[128], filler[128];
    memset(filler, 'n', sizeof filler);
    static const char *const names[] = {"blk.007.attn_q.weight",
                                        "blk.18446744073709551616.attn_k.weight",
                                        "blk..attn_v.weight",
                                        "blk.",
                                        "a/b/c.weight",
                                        "line\nfeed.weight",
                                        "\xff\xfe.weight",
                                        "gr\xc3\xb6\xc3\x9f.weight",
                                        " ",
                                        "blk.0",
                                        "output.weight.weight",
                                        "v.blk.0.attn_q.weight",
                                        "blk.1.attn_q.weight.lora_a",
                                        "double_blocks.0.img_attn.qkv.weight",
                                        "(.*)",
                                        "-x",
                                        "BLK.0.ATTN_Q.WEIGHT"};
    size_t i = below(sizeof names / sizeof *names + 4);
    if (i < sizeof names / sizeof *names)
        snprintf(name, sizeof name, "%s", names[i]);
    else
        snprintf(name, sizeof name, "%.*s.weight", (int)(50 + below(71)), filler);
    add(m, name, row_length(), 1 + below(12), 1 + below(2), quantized);
}

static void draw_tensors(crossing_model *m) {
    unsigned quantized = chance(25) ? 40 : 0;
    block_shape shape = {{row_length(), row_length()}, chance(25) ? 2 + below(7) : 0, {0}, quantized};
    bool odd_blocks = chance(30);
    for (size_t i = 0; i < 32; i++) shape.rows[i] = odd_blocks ? 0 : 1 + below(24);
    if (!chance(10)) add(m, "token_embd.weight", shape.width[0], 1 + below(40), 1, quantized);
    for (uint32_t b = 0; b < m->blocks; b++) {
        if (odd_blocks && chance(10)) shape.width[1] = row_length();
        add_block(m, b, &shape);
    }
    if (!chance(20)) add(m, "output_norm.weight", shape.width[0], 1, 1, 0);
    if (!chance(40)) add(m, "output.weight", shape.width[0], 1 + below(40), 1, quantized);
    for (size_t odd = chance(30) ? 1 + below(4) : 0; odd > 0; odd--) add_odd(m, quantized);
    /* a tensor of more than one chunk */
    if (chance(3)) add(m, "blk.0.ffn_big.weight", 1024, 1500, 1, 0);
    if (chance(2)) m->tensors[below(m->n)].type = GGUF_I32;
    if (chance(1)) m->n = 0;
}

/* ---- their values ---- */

static uint64_t elements(const crossing_tensor *t) { return shape_elements(t->ne); }

/* Draws values of another magnitude, or all alike. */
static float *draw_extremes(crossing_model *m, const crossing_tensor *t) {
    static const float sizes[] = {0, 1, 1e-9f, 1e-24f, 1e-40f, 1e4f, 1e19f, 3e38f};
    float size = sizes[below(sizeof sizes / sizeof *sizes)];
    if (size > 60000 && ((t->type != GGUF_F32 && t->type != GGUF_BF16) || !chance(20))) size = 1;
    m->spoilt = m->spoilt || size > 60000; /* too large for some types */
    float *x = random_values(elements(t), next_random());
    bool constant = chance(30);
    for (uint64_t i = 0; i < elements(t); i++) x[i] = (constant ? 0.5f : x[i]) * size;
    return x;
}

/* Draws the values of each tensor; NULL: model_add makes them. */
static void draw_values(crossing_model *m, float **values) {
    unsigned extremes = chance(30) ? 15 : 0;
    for (size_t i = 0; i < m->n; i++) values[i] = chance(extremes) ? draw_extremes(m, &m->tensors[i]) : NULL;
    size_t k = below(m->n);
    if (!chance(20) || !m->n || !values[k] || m->tensors[k].type > GGUF_F16) return;
    values[k][below(elements(&m->tensors[k]))] = chance(50) ? NAN : -INFINITY;
    m->spoilt = true;
}

/* ---- metadata ---- */

static void set_strings(model *m, const char *key, uint64_t n) {
    uint8_t *value = malloc(12 + n * 24), *to = value;
    uint32_t type = GGUF_STRING;
    memcpy(to, &type, 4), memcpy(to + 4, &n, 8), to += 12;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t length = below(16);
        memcpy(to, &length, 8), to += 8;
        for (uint64_t k = 0; k < length; k++) *to++ = (uint8_t)(chance(90) ? 'a' + below(26) : below(256));
    }
    model_set(m, key, GGUF_ARRAY, value, (uint64_t)(to - value));
    free(value);
}

static void set_per_layer(model *m, const crossing_model *c, const char *name) {
    char key[128];
    uint32_t values[16];
    uint64_t n = chance(85) ? c->blocks : below(12);
    snprintf(key, sizeof key, "%s.%s", c->arch, name);
    for (int i = 0; i < 16; i++) values[i] = 1 + (uint32_t)below(8);
    if (chance(70))
        model_set_array(m, key, chance(50) ? GGUF_U32 : GGUF_INT32, values, n);
    else
        set_strings(m, key, n);
}

static void set_metadata(model *m, const crossing_model *c) {
    char key[600];
    static const char *const numbers[] = {"attention.head_count", "attention.head_count_kv", "expert_count",
                                          "expert_used_count", "embedding_length"};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        snprintf(key, sizeof key, "%s.%s", c->arch, numbers[i]);
        if (chance(20) && i < 2)
            set_per_layer(m, c, numbers[i]);
        else if (chance(70))
            model_set_u32(m, key, 1 + (uint32_t)below(16));
    }
    if (chance(30)) set_per_layer(m, c, "feed_forward_length");
    if (chance(20)) set_per_layer(m, c, "some.list");
    if (chance(30)) model_set_string(m, "general.size_label", "8x7B");
    if (chance(50)) model_set_u32(m, "general.file_type", (uint32_t)below(40));
    if (chance(40)) set_strings(m, "tokenizer.ggml.tokens", below(300));
    if (chance(10)) set_strings(m, "an.empty.list", 0);
    if (chance(5)) {
        memset(key, 'k', sizeof key);
        key[100 + below(490)] = 0;
        model_set_u32(m, key, 7);
    }
    if (chance(30)) model_set_u32(m, "general.alignment", 8u << below(10));
}

/* ---- the files ---- */

static const char *shard_name(uint32_t shard, uint32_t shards) {
    static char name[64];
    snprintf(name, sizeof name, shards > 1 ? "in-%05u-of-%05u.gguf" : "whole.gguf", shard + 1, shards);
    return name;
}

const char *crossing_model_input(const crossing_model *m) {
    return shard_name((uint32_t)below(m->shards), m->shards);
}

static model *start_shard(const crossing_model *m, uint32_t shard, uint32_t shards, uint64_t seed) {
    model *s = shard == 0 ? model_new(m->arch, m->blocks) : model_new(NULL, 0);
    seed_random(seed); /* the metadata are the same, however many shards there are */
    if (shard == 0) set_metadata(s, m);
    if (shards > 1) {
        uint16_t number = (uint16_t)shard, count = (uint16_t)shards;
        int32_t all = (int32_t)m->n;
        model_set(s, "split.no", GGUF_U16, &number, sizeof number);
        model_set(s, "split.count", GGUF_U16, &count, sizeof count);
        model_set(s, "split.tensors.count", GGUF_INT32, &all, sizeof all);
    }
    if (shard > 0 && seed % 3 == 0) model_set_u32(s, "general.alignment", 8u << below(10));
    return s;
}

static void write_shards(const crossing_model *m, float **values, uint32_t shards, uint64_t seed,
                         const char *folder) {
    size_t next = 0;
    for (uint32_t k = 0; k < shards; k++) {
        model *s = start_shard(m, k, shards, seed);
        for (size_t end = m->n * (k + 1) / shards; next < end; next++)
            model_add(s, m->tensors[next].name, m->tensors[next].type, m->tensors[next].ne, values[next]);
        model_save(s, in_folder(folder, shard_name(k, shards)));
    }
}

void crossing_model_draw(crossing_model *m, const char *folder) {
    static const char *const archs[] = {"llama", "llama", "llama", "qwen2",  "falcon", "gemma", "bert",
                                        "flux",  "wan",   "clip",  "nobody", "",       "mamba", "llama4"};
    float *values[CROSSING_TENSORS];
    *m = (crossing_model){.arch = archs[below(sizeof archs / sizeof *archs)],
                          .blocks = 1 + (uint32_t)below(8)};
    draw_tensors(m);
    if (chance(3)) m->blocks += 2; /* the metadata are wrong */
    draw_values(m, values);
    m->shards = chance(25) ? 2 + (uint32_t)below(3) : 1;
    if (m->shards > m->n) m->shards = 1;
    uint64_t seed = next_random();
    write_shards(m, values, 1, seed, folder);
    if (m->shards > 1) write_shards(m, values, m->shards, seed, folder);
    seed_random(seed + 1);
    for (size_t i = 0; i < m->n; i++) free(values[i]);
}

/* ---- importance data ---- */

void crossing_importance_draw(const crossing_model *m, const char *folder, const char *dat,
                              const char *gguf) {
    blob entries = {0}, file = {0};
    int64_t n = 0;
    unsigned missing = chance(50) ? 0 : (unsigned)below(60);
    for (size_t i = 0; i < m->n; i++) {
        const crossing_tensor *t = &m->tensors[i];
        uint64_t columns = t->ne[0] * t->ne[2];
        if (!t->matrix || chance(missing)) continue;
        if (chance(1) && chance(30)) columns++; /* of another model */
        float *values = calloc(columns + 1, sizeof *values);
        fill_importance(values, columns);
        if (chance(5)) memset(values, 0, columns * sizeof *values);
        if (chance(1) && chance(30)) values[below(columns)] = chance(50) ? NAN : 3e38f;
        put_entry(&entries, t->name, 1 + (int32_t)below(100), values, (int32_t)columns);
        free(values);
        n++;
    }
    put32(&file, n), put(&file, entries.bytes, entries.n), put_trailer(&file, 7, "text.txt");
    write_whole(in_folder(folder, dat), file.bytes, file.n);
    free(file.bytes), free(entries.bytes);
    gq_imatrix *same = gq_imatrix_open(in_folder(folder, dat), NULL);
    /* Data that are not sound, or too large to be written as sums, become a file that is broken in the other
     * layout, too. */
    if (!same || !gq_imatrix_write(same, in_folder(folder, gguf), true, false, NULL))
        write_whole(in_folder(folder, gguf), "GGUF", 4);
    gq_imatrix_free(same);
}
