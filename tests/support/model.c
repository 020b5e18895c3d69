/* Synthetic models, and helpers to plan, run, open and compare them. A model is a gguf_header and the
 * bytes of each tensor; model_write lays them out as a file. A tensor without given values gets values that
 * depend only on its name, nearly normal with a few outliers like real weights, so a model is the same in every
 * test that makes it. A failure of the library fails the test with its message, so tests need no checks of
 * their own.
 */
#include "tests/support/model.h"

#include <dirent.h>
#include <math.h>

#include "codec/codec.h"
#include "gguf/gguf.h"
#include "gguf/model.h"

struct model {
    gguf_header *header;
    size_t n;
    void **data;
    uint64_t *sizes;
    bool is_part; /* no epsilon, so not meant to be run, and no general.type: written as a part */
};

static const tensor_type *known_type(uint32_t id) {
    const tensor_type *t = tensor_type_of(id);
    if (!t) fail_msg("type %u", id);
    return t;
}

model *model_new(const char *arch, uint32_t blocks) {
    char key[128];
    model *m = calloc(1, sizeof *m);
    m->header = gguf_header_new(NULL);
    if (!arch) return m;
    model_set_string(m, "general.architecture", arch);
    m->is_part = true;
    snprintf(key, sizeof key, "%s.block_count", arch);
    model_set_u32(m, key, blocks);
    return m;
}

void model_free(model *m) {
    for (size_t i = 0; i < m->n; i++) free(m->data[i]);
    gguf_header_free(m->header);
    free(m->data), free(m->sizes), free(m);
}

void model_set(model *m, const char *key, uint32_t type, const void *value, uint64_t size) {
    if (strstr(key, "_epsilon")) m->is_part = false;
    assert_true(gguf_header_set(m->header, key, type, value, size, NULL));
}

void model_set_u32(model *m, const char *key, uint32_t value) { model_set(m, key, GGUF_U32, &value, 4); }

void model_set_string(model *m, const char *key, const char *text) {
    if (!strcmp(key, "general.type")) m->is_part = false;
    assert_true(gguf_header_set_string(m->header, key, text, NULL));
}

void model_set_array(model *m, const char *key, uint32_t type, const void *elements, uint64_t n) {
    uint64_t size = n * gguf_value_size(type);
    uint8_t *value = malloc(12 + size);
    memcpy(value, &type, 4), memcpy(value + 4, &n, 8), memcpy(value + 12, elements, size);
    model_set(m, key, GGUF_ARRAY, value, 12 + size);
    free(value);
}

float *random_values(uint64_t n, uint64_t seed) {
    float *x = malloc(4 * n + 4);
    uint64_t s = seed * 0x9E3779B97F4A7C15u + 1;
    for (uint64_t i = 0; i < n; i++) {
        float sum = 0; /* of eight uniform numbers: near enough to normal */
        for (int k = 0; k < 8; k++) {
            s = s * 6364136223846793005u + 1442695040888963407u;
            sum += (float)(s >> 40) * 0x1p-24f - 0.5f;
        }
        x[i] = sum * (s >> 53 == 7 ? 0.4f : 0.02f);
    }
    return x;
}

void model_add(model *m, const char *name, uint32_t type, const uint64_t ne[4], const float *values) {
    uint64_t full[4], n = 1, seed = 0;
    bool ended = true;
    for (int i = 4; i-- > 0;) {
        ended = ended && ne[i] == 0;
        full[i] = ended ? 1 : ne[i];
        n *= full[i];
    }
    for (const char *c = name; *c; c++) seed = seed * 31 + (unsigned char)*c;
    const tensor_type *t = known_type(type);
    assert_true(gguf_header_add_tensor(m->header, name, full, t, NULL));
    m->data = realloc(m->data, (m->n + 1) * sizeof *m->data);
    m->sizes = realloc(m->sizes, (m->n + 1) * sizeof *m->sizes);
    uint64_t size = m->sizes[m->n] = tensor_type_bytes(t, full[0], n);
    uint8_t *bytes = m->data[m->n++] = calloc(1, size + 1);
    const codec *c = &kernels_select()->codecs[type];
    float *made = values ? NULL : random_values(n, seed);
    if (c->encode && n)
        c->encode(values ? values : made, bytes, n / full[0], full[0], NULL,
                  &(encode_settings){.effort = EFFORT_DEFAULT});
    for (uint64_t i = 0; type == GGUF_I64 && values && i < n; i++) {
        int64_t integer = (int64_t)values[i];
        memcpy(bytes + 8 * i, &integer, sizeof integer);
    }
    for (uint64_t i = 0; type == GGUF_I32 && values && i < n; i++) {
        int32_t integer = (int32_t)values[i];
        memcpy(bytes + i * sizeof integer, &integer, sizeof integer);
    }
    free(made);
}

void model_write(model *m, const char *path) {
    const uint8_t *head;
    uint64_t head_size, data_size;
    gq_error e;
    if (m->is_part) model_set_string(m, "general.type", "part");
    if (!gguf_header_finish(m->header, &head, &head_size, &data_size, &e)) fail_msg("%s", e.text);
    uint8_t *file = calloc(1, head_size + data_size + 1);
    memcpy(file, head, head_size);
    for (size_t i = 0; i < m->n; i++)
        memcpy(file + gguf_header_tensor_offset(m->header, i), m->data[i], m->sizes[i]);
    write_whole(path, file, head_size + data_size);
    free(file);
}

void model_save(model *m, const char *path) {
    model_write(m, path);
    model_free(m);
}

model *model_llama(uint32_t blocks) {
    static const struct {
        const char *name;
        uint32_t type;
        uint64_t ne[4];
    } parts[] = {
        {"attn_norm.weight", GGUF_F32, {256}},        {"attn_q.weight", GGUF_F16, {256, 256}},
        {"attn_k.weight", GGUF_F16, {256, 64}},       {"attn_v.weight", GGUF_F16, {256, 64}},
        {"attn_output.weight", GGUF_F16, {256, 256}}, {"ffn_norm.weight", GGUF_F32, {256}},
        {"ffn_gate.weight", GGUF_F16, {256, 512}},    {"ffn_up.weight", GGUF_F16, {256, 512}},
        {"ffn_down.weight", GGUF_F16, {512, 256}},
    };
    char name[128];
    model *m = model_new("llama", blocks);
    model_set_u32(m, "llama.attention.head_count", 8);
    model_set_u32(m, "llama.attention.head_count_kv", 2);
    model_add(m, "token_embd.weight", GGUF_F16, (uint64_t[4]){256, 512}, NULL);
    for (uint32_t b = 0; b < blocks; b++)
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
            snprintf(name, sizeof name, "blk.%u.%s", b, parts[i].name);
            model_add(m, name, parts[i].type, parts[i].ne, NULL);
        }
    model_add(m, "output_norm.weight", GGUF_F32, (uint64_t[4]){256}, NULL);
    model_add(m, "output.weight", GGUF_F16, (uint64_t[4]){256, 512}, NULL);
    return m;
}

gq_plan *must_plan(const gq_options *options) {
    gq_error e;
    gq_plan *plan = gq_plan_new(options, &e);
    if (!plan) fail_msg("plan: %s", e.text);
    return plan;
}

gq_results *must_run(const gq_plan *plan) {
    gq_error e;
    gq_results *results;
    if (!gq_run(plan, NULL, &results, &e)) fail_msg("run: %s", e.text);
    return results;
}

gq_evaluation *must_evaluate(const gq_evaluation_request *r) {
    gq_error e;
    gq_evaluation *v = gq_evaluate(r, &e);
    if (!v) fail_msg("%s", e.text);
    return v;
}

void must_not_evaluate(const gq_evaluation_request *r, const char *says) {
    gq_error e = {0};
    gq_evaluation *v = gq_evaluate(r, &e);
    gq_evaluation_free(v);
    if (v) fail_msg("done, in place of: %s", says);
    if (!strstr(e.text, says)) fail_msg("'%s' without '%s'", e.text, says);
}

const gq_tensor *plan_tensor(const gq_plan *plan, const char *name) {
    size_t n;
    const gq_tensor *t = gq_plan_tensors(plan, 0, &n);
    for (size_t i = 0; i < n; i++)
        if (!strcmp(t[i].name, name)) return &t[i];
    fail_msg("no tensor %s", name);
    return NULL;
}

gq_results *run_plan(const gq_options *options) {
    gq_plan *plan = must_plan(options);
    gq_results *results = must_run(plan);
    gq_plan_free(plan);
    return results;
}

void assert_same_losses(const gq_results *a, size_t output_a, const gq_results *b, size_t output_b) {
    size_t n, n_b;
    const gq_loss *x = gq_results_losses(a, output_a, &n), *y = gq_results_losses(b, output_b, &n_b);
    assert_int_equal(n, n_b);
    assert_memory_equal(x, y, n * sizeof *x);
}

void quantize(const char *in, const char *out, const char *filetype, int threads) {
    gq_output output = {.path = out, .filetype = filetype};
    gq_results_free(run_plan(&(gq_options){.size = sizeof(gq_options),
                                           .input = in,
                                           .outputs = &output,
                                           .n_outputs = 1,
                                           .threads = threads,
                                           .effort = GQ_EFFORT_DEFAULT}));
}

bool warned(const gq_plan *plan, const char *text) {
    size_t n;
    const char *const *warnings = gq_plan_warnings(plan, &n);
    for (size_t i = 0; i < n; i++)
        if (strstr(warnings[i], text)) return true;
    return false;
}

const char *failure(const gq_options *options) {
    static gq_error e;
    memset(&e, 0, sizeof e);
    gq_plan *plan = gq_plan_new(options, &e);
    bool done = plan && gq_run(plan, NULL, NULL, &e);
    gq_plan_free(plan);
    if (done) fail_msg("%s was quantized", options->input);
    return e.text;
}

model_source open_model(const char *path) {
    model_source m;
    gq_error e;
    if (!gguf_model_open(&m, path, &e)) fail_msg("%s", e.text);
    return m;
}

uint8_t *tensor_bytes(const model_source *m, const char *name, uint64_t *size) {
    const model_tensor *t = model_tensor_named(m, name);
    if (!t) fail_msg("no tensor %s", name);
    uint8_t *bytes = malloc(t->size + 1);
    assert_true(gq_file_read(&gguf_container_of(m)->shards[t->shard].file, t->offset, bytes, t->size, NULL));
    *size = t->size;
    return bytes;
}

float *tensor_values(const model_source *m, const char *name, uint64_t *n) {
    uint64_t size;
    uint8_t *bytes = tensor_bytes(m, name, &size);
    const model_tensor *t = model_tensor_named(m, name);
    *n = size / t->type->block_bytes * t->type->block_elements;
    float *values = malloc(4 * *n + 4);
    assert_true(reference_decode(t->type->id, bytes, values, *n));
    free(bytes);
    return values;
}

void assert_same_file(const char *a, const char *b) {
    size_t na, nb;
    uint8_t *x = read_whole(a, &na), *y = read_whole(b, &nb);
    if (na != nb) fail_msg("%s has %zu bytes, %s has %zu", a, na, b, nb);
    for (size_t i = 0; i < na; i++)
        if (x[i] != y[i]) fail_msg("%s and %s differ at byte %zu of %zu", a, b, i, na);
    free(x), free(y);
}

size_t count_files(const char *folder) {
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    size_t n = 0;
    for (struct dirent *d; (d = readdir(dir));) n += strcmp(d->d_name, ".") && strcmp(d->d_name, "..");
    closedir(dir);
    return n;
}

const char *in_folder(const char *folder, const char *name) {
    static char paths[64][4096];
    static int next;
    char *path = paths[next++ % 64];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}
