/* Logits and inputs of small models of every architecture, as an independent forward pass in binary64 has
 * them; and that how the work is cut, and by whom it is done, changes no bit. */
#include <float.h>
#include <math.h>

#include "arch/arch.h"
#include "codec/codec.h"
#include "forward/graph/forward.h"
#include "gguf/scales.h"
#include "tests/support/fed.h"
#include "tests/support/folder.h"
#include "tests/support/forward_models.h"
#include "tests/support/forwarding.h"

enum { LOGITS = VARIANT_IDS * VARIANT_VOCABULARY, WINDOWS = VARIANT_IDS / VARIANT_CONTEXT };

static uint32_t ids[VARIANT_IDS];

static float *run(const char *file, forwarding f) {
    model_source g = open_model(file);
    gq_error e;
    size_t vocabulary;
    f.ids = ids, f.n = VARIANT_IDS, f.context = f.context ? f.context : VARIANT_CONTEXT;
    f.threads = f.threads ? f.threads : 1;
    float *z = forward_whole(&g, &f, &vocabulary, &e);
    if (!z) fail_msg("%s", e.text);
    assert_int_equal(vocabulary, VARIANT_VOCABULARY);
    model_close(&g);
    return z;
}

static const char *written(const variant *v, uint32_t type, const char *without) {
    const char *file = in_folder(folder, "model.gguf");
    model_save(variant_model(v, type, without), file);
    return file;
}

static double deviation(const float *z) {
    double sum = 0, squares = 0;
    for (size_t i = 0; i < LOGITS; i++) sum += (double)z[i], squares += (double)z[i] * (double)z[i];
    return sqrt(squares / LOGITS - sum / LOGITS * (sum / LOGITS));
}

static double difference(const float *a, const float *b) {
    double most = 0;
    for (size_t i = 0; i < LOGITS; i++) most = fmax(most, fabs((double)a[i] - (double)b[i]));
    return most / deviation(a);
}

/* ---- against stored values ---- */

/* How far logits may be from the stored ones, in deviations. Rounding adds up: over the 40 layers of
 * baichuan-13b even two programs that round alike differ by 2e-4. Rough ones have GELU from a table of F16. */
static double logit_bound(const variant *v, bool is_rough) {
    return is_rough ? 1e-2 : v->layers >= 40 ? 4e-4 : 1e-4;
}

static void check_logit(const variant *v, size_t token, size_t id, float found, double expected,
                        double most) {
    if (!(fabs((double)found - expected) <= most))
        fail_msg("%s: token %zu: logit %zu is %g, expected %g", v->name, token, id, (double)found, expected);
}

/* The embeddings of the windows, in the order of the lines that have them. */
typedef struct embeddings {
    double values[WINDOWS * VARIANT_VOCABULARY];
    size_t at;
} embeddings;

static void check_pooled(const variant *v, bool is_rough, char *at, embeddings *found) {
    char *end;
    double most = is_rough ? 1e-2 : 1e-5;
    for (double expected = strtod(at, &end); end != at; expected = strtod(at = end, &end)) {
        double value = found->values[found->at++];
        if (!(fabs(value - expected) <= most * fmax(1, fabs(expected))))
            fail_msg("%s: number %zu of the embeddings is %g, expected %g", v->name, found->at, value,
                     expected);
    }
}

static void check_line(const variant *v, bool is_rough, char *line, const float *z, size_t *window,
                       fed_list *all, embeddings *pooled) {
    double most = logit_bound(v, is_rough) * deviation(z), squares;
    char *at = line + 5, name[64];
    long rows;
    if (!strncmp(line, "fed ", 4)) {
        fed *f;
        assert_int_equal(sscanf(line, "fed %63s %ld %lf", name, &rows, &squares), 3);
        if (!(f = fed_of(all, name))) fail_msg("%s: nothing told of %s", v->name, name);
        if (f->rows != (double)rows || !(fabs(f->squares - squares) <= (is_rough ? 1e-3 : 1e-4) * squares))
            fail_msg("%s: %s: %g rows and squares of %g, expected %ld and %g", v->name, name, f->rows,
                     f->squares, rows, squares);
        return;
    }
    if (!strncmp(line, "pooled ", 7)) return check_pooled(v, is_rough, line + 7, pooled);
    size_t first = *window * VARIANT_CONTEXT;
    for (size_t i = 0; !strncmp(line, "last ", 5) && i < VARIANT_VOCABULARY; i++) {
        size_t t = first + VARIANT_CONTEXT - 1;
        check_logit(v, t, i, z[t * VARIANT_VOCABULARY + i], strtod(at, &at), most);
    }
    if (strncmp(line, "some ", 5) != 0) return;
    for (size_t t = 0; t < VARIANT_CONTEXT - 1; t++) {
        size_t id = t * 37 % VARIANT_VOCABULARY;
        check_logit(v, first + t, id, z[(first + t) * VARIANT_VOCABULARY + id], strtod(at, &at), most);
    }
    ++*window;
}

TEST(logits_and_inputs_are_as_stored) {
    static char line[4096];
    FILE *f = fopen(test_path("golden/forward.txt"), "r");
    const variant *v = NULL;
    float *z = NULL;
    static fed_list all;
    static embeddings pooled;
    size_t window = 0, checked = 0;
    bool is_rough = false;
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        if (!strncmp(line, "model ", 6)) {
            forward_observer observer = {.on_inputs = fed_take, .data = &all};
            char *rough = strstr(line, " rough");
            if ((is_rough = rough)) *rough = 0;
            v = variant_named(line + 6), window = 0, all.n = 0, checked++;
            free(z);
            pooled.at = 0;
            z = run(written(v, GGUF_F32, NULL), (forwarding){.observer = &observer, .pooled = pooled.values});
        } else {
            check_line(v, is_rough, line, z, &window, &all, &pooled);
        }
    }
    free(z);
    fclose(f);
    if (variant_at(checked))
        fail_msg("%zu checked, then %s", checked,
                 variant_at(checked)->name); /* none is missing in the file */
}

TEST(every_architecture_has_a_variant) {
    const architecture *a;
    size_t n = 0;
    for (size_t k = 0; (a = arch_at(k)); k++) {
        bool found = !arch_can_run(a);
        n += arch_can_run(a);
        for (size_t i = 0; variant_at(i); i++) found = found || !strcmp(variant_arch(variant_at(i)), a->name);
        if (!found) fail_msg("no variant of %s", a->name);
    }
    assert_int_equal(n, 146);
}

/* Keys that are there to be ignored, or say what is so anyway. */
static bool is_idle(const char *name, const char *key) {
    static const char *const idle[][2] = {{"phi3", "attention.sliding_window"},
                                          {"phi3", "rope.scaling.original_context_length"},
                                          {"phimoe", "rope.scaling.original_context_length"},
                                          {"llama-linear", "rope.scaling.type"},
                                          {"gemma3", "rope.scaling.type"},
                                          {"glm4moe", "expert_gating_func"},
                                          {"dots3note", "attention.key_length_swa"},
                                          {"dots3note", "attention.value_length_swa"},
                                          {"dots3note", "attention.indexer.types"},
                                          {"deepseek4", "expert_shared_count"},
                                          {"qwen4exp-blocks", "attention.compress_ratios"},
                                          {"qwen4exp-blocks", "attention.indexer.top_k"},
                                          {"glm5-next", "attention.layer_norm_epsilon"},
                                          {"glm5-next", "expert_shared_count"},
                                          {"qwen", "feed_forward_length"},
                                          {"hy_v4", "expert_shared_count"},
                                          {"hy_v4-full", "expert_shared_count"}};
    /* Encoders are encoders whatever the first says, and states are looked at before they are pooled. */
    static const char *const always[] = {
        "attention.causal", "pooling_type",     "moe_every_n_layers", ":tokenizer.ggml.token_type_count",
        "dense_2_feat_in",  "dense_2_feat_out", "dense_3_feat_in",    "dense_3_feat_out"};
    for (size_t i = 0; i < sizeof always / sizeof *always; i++)
        if (!strcmp(always[i], key)) return true;
    /* RWKV's sizes of low rank follow from its tensors. */
    if (strstr(name, "rwkv") && (strstr(key, "_rank") || strstr(key, "_dim") || strstr(key, "_count")))
        return true;
    for (size_t i = 0; i < sizeof idle / sizeof *idle; i++)
        if (!strcmp(idle[i][0], name) && !strcmp(idle[i][1], key)) return true;
    return false;
}

/* A key that changed nothing would not be needed in its variant: what the table says of it would be idle. */
TEST(every_key_matters) {
    for (size_t i = 0; variant_at(i); i++) {
        const variant *v = variant_at(i);
        char keys[1024], *save = NULL;
        snprintf(keys, sizeof keys, "%s", v->keys ? v->keys : "");
        if (!*keys) continue;
        float *with = run(written(v, GGUF_F32, NULL), (forwarding){0});
        for (char *key = strtok_r(keys, ";", &save); key; key = strtok_r(NULL, ";", &save)) {
            gq_error e;
            size_t vocabulary;
            key[strcspn(key, "=")] = 0;
            model_source g = open_model(written(v, GGUF_F32, key));
            float *without = forward_whole(
                &g, &(forwarding){.ids = ids, .n = VARIANT_IDS, .context = VARIANT_CONTEXT, .threads = 1},
                &vocabulary, &e);
            if (without && difference(with, without) < 0.01 && !is_idle(v->name, key))
                fail_msg("%s: without %s logits are the same", v->name, key);
            free(without);
            model_close(&g);
        }
        free(with);
    }
}

/* In models that have them all. */
TEST(images_are_never_predicted) {
    enum { FIRST = 4, END = 8196, ALL = END + 4, TOKENS = 3 };
    variant v = *variant_named("chameleon");
    for (uint32_t rows = ALL; rows >= END - 1; rows -= ALL - END + 1) {
        gq_error e;
        size_t vocabulary;
        v.vocabulary = rows;
        model_source g = open_model(written(&v, GGUF_F32, NULL));
        forwarding f = {.ids = ids, .n = TOKENS, .context = TOKENS, .threads = 1};
        float *z = forward_whole(&g, &f, &vocabulary, &e);
        assert_non_null(z);
        assert_int_equal(vocabulary, rows);
        for (size_t t = 0; t < TOKENS; t++)
            for (size_t id = 0; id < rows; id++)
                assert_int_equal(z[t * rows + id] <= -FLT_MAX, rows == ALL && id >= FIRST && id < END);
        free(z);
        model_close(&g);
    }
}

/* ---- how the work is cut ---- */

TEST(threads_batches_and_tiles_change_nothing) {
    static const forwarding cuts[] = {
        {.threads = 2}, {.threads = 3, .windows = 1}, {.windows = 1, .tile = 7}, {.tile = 64, .threads = 2}};
    for (size_t i = 0; variant_at(i); i++) {
        const char *file = written(variant_at(i), GGUF_F32, NULL);
        float *whole = run(file, (forwarding){0});
        forwarding cut = cuts[i % (sizeof cuts / sizeof *cuts)];
        float *z = run(file, cut);
        if (memcmp(whole, z, LOGITS * sizeof *z) != 0) fail_msg("%s differs", variant_at(i)->name);
        free(z), free(whole);
    }
}

/* Bytes of a layer between the fewest and all that it has. */
static uint64_t half_a_layer(const char *file) {
    model_source g = open_model(file);
    forward_model *m = forward_model_new(&g, NULL);
    const forward_sizes *s = forward_model_sizes(m);
    uint64_t half = s->layer_least + s->layer_bytes / 2;
    forward_model_free(m);
    model_close(&g);
    return half;
}

static void check_layer_in_parts(const variant *v, const char *file, uint64_t layer, const float *whole) {
    float *z = run(file, (forwarding){.layer = layer, .windows = 1, .threads = 2});
    if (memcmp(whole, z, LOGITS * sizeof *z) != 0)
        fail_msg("%s differs with %llu bytes of a layer", v->name, (unsigned long long)layer);
    free(z);
}

/* Rows that are read when they are multiplied are the same as those that wait in memory. */
TEST(a_layer_need_not_be_in_memory) {
    for (size_t i = 0; variant_at(i); i++) {
        const char *file = written(variant_at(i), i % 2 ? GGUF_BF16 : GGUF_F32, NULL);
        float *whole = run(file, (forwarding){0});
        check_layer_in_parts(variant_at(i), file, i % 3 ? 1 : half_a_layer(file), whole);
        free(whole);
    }
}

/* This one has 68 MiB, as floats. */
TEST(a_matrix_need_not_be_in_memory) {
    variant v = *variant_named("llama");
    v.layers = 1, v.width = 256, v.ff = 69632;
    const char *file = written(&v, GGUF_Q8_0, NULL);
    float *whole = run(file, (forwarding){0});
    check_layer_in_parts(&v, file, 1, whole);
    free(whole);
}

/* A container that reads so many rows, and then no more. */
static model_container failing;
static const model_container *reading;
static _Atomic long reads_left;

static bool read_some(const model_source *m, const model_tensor *t, uint64_t first, uint64_t n, void *to,
                      gq_error *e) {
    if (reads_left-- > 0) return reading->read(m, t, first, n, to, e);
    return gq_fail(e, "the disk is gone");
}

/* Runs a model in parts with a disk that fails at a read; false: there were fewer reads. */
static bool fails_at(const char *file, long read) {
    gq_error e = {0};
    size_t vocabulary;
    model_source g = open_model(file);
    reading = g.container, failing = *g.container, failing.read = read_some, g.container = &failing;
    reads_left = read;
    const forwarding f = {
        .ids = ids, .n = VARIANT_CONTEXT, .context = VARIANT_CONTEXT, .threads = 1, .layer = 1};
    float *z = forward_whole(&g, &f, &vocabulary, &e);
    bool failed = !z;
    if (failed != (reads_left < 0)) fail_msg("read %ld: %s", read, failed ? e.text : "what it gave was used");
    if (failed && strcmp(e.text, "the disk is gone") != 0) fail_msg("read %ld: %s", read, e.text);
    free(z);
    g.container = reading;
    model_close(&g);
    return failed;
}

TEST(weights_that_cannot_be_read_end_the_run) {
    static const char *const names[] = {"llama", "deepseek2", "qwen35moe", "jamba", "gemma3"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *file = written(variant_named(names[i]), GGUF_F32, NULL);
        long n = 0;
        while (fails_at(file, n)) n++;
        assert_true(n > 20);
    }
}

/* Windows of 16 and of 40 are not those of 20, but a window's first tokens know nothing of what follows. */
TEST(a_window_is_a_text_of_its_own) {
    const variant *v = variant_named("gemma3");
    const char *file = written(v, GGUF_F32, NULL);
    float *short_ones = run(file, (forwarding){.context = 8}),
          *long_one = run(file, (forwarding){.context = 40});
    assert_memory_equal(short_ones, long_one, 8 * VARIANT_VOCABULARY * sizeof(float));
    assert_true(memcmp(short_ones + 8 * VARIANT_VOCABULARY, long_one + 8 * VARIANT_VOCABULARY,
                       VARIANT_VOCABULARY * sizeof(float)) != 0);
    free(short_ones), free(long_one);
}

TEST(levels_agree) {
    const char *was = getenv("GQUANT_ISA");
    char *kept = was ? strdup(was) : NULL;
    for (size_t i = 0; variant_at(i); i++) {
        const char *file = written(variant_at(i), GGUF_F32, NULL);
        float *fused = NULL;
        for (size_t level = 0; kernels_level_name(level); level++) {
            const char *name = kernels_level_name(level);
            if (!kernels_level(name) || strstr(name, "v2")) continue;
            setenv("GQUANT_ISA", name, 1);
            float *z = run(file, (forwarding){0});
            if (fused && memcmp(fused, z, LOGITS * sizeof *z) != 0)
                fail_msg("%s differs at %s", variant_at(i)->name, name);
            free(fused);
            fused = z;
        }
        if (fused && kernels_level("x86-64-v2")) {
            setenv("GQUANT_ISA", "x86-64-v2", 1);
            float *z = run(file, (forwarding){0});
            if (!(difference(fused, z) < 1e-3))
                fail_msg("%s: v2 is %g off", variant_at(i)->name, difference(fused, z));
            free(z);
        }
        free(fused);
    }
    if (kept) setenv("GQUANT_ISA", kept, 1);
    if (!kept) unsetenv("GQUANT_ISA");
    free(kept);
}

/* ---- types ---- */

/* A model in some type, and the same weights decoded to F32, are one model. */
TEST(types_are_what_they_decode_to) {
    static const uint32_t types[] = {GGUF_F16,    GGUF_BF16,  GGUF_Q8_0, GGUF_Q4_0, GGUF_Q5_1,
                                     GGUF_IQ4_NL, GGUF_MXFP4, GGUF_Q4_K, GGUF_Q6_K};
    const char *plain = in_folder(folder, "plain.gguf");
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        variant v = *variant_named(i % 2 ? "llama" : "llama-moe");
        v.ff = 64;
        if (tensor_type_of(types[i])->block_elements > 32) v.width = v.ff = 256;
        const char *file = written(&v, types[i], NULL);
        model_source g = open_model(file);
        model *m = model_new(variant_arch(&v), 2);
        for (uint64_t k = 0; k < g.n_kv; k++)
            model_set(m, g.kv[k].key, g.kv[k].type, g.kv[k].value, g.kv[k].size);
        for (uint64_t k = 0; k < g.n_tensors; k++) {
            uint64_t n;
            float *x = tensor_values(&g, g.tensors[k]->name, &n);
            model_add(m, g.tensors[k]->name, GGUF_F32, g.tensors[k]->ne, x);
            free(x);
        }
        model_save(m, plain);
        model_close(&g);
        float *a = run(file, (forwarding){0}), *b = run(plain, (forwarding){0});
        if (memcmp(a, b, LOGITS * sizeof *a) != 0) fail_msg("%s differs", tensor_type_name(types[i]));
        free(a), free(b);
    }
}

/* A number for each expert's result counts as the same factor of its last matrix. */
TEST(experts_may_have_scales) {
    enum { EXPERTS = 6 };
    const float scales[EXPERTS] = {2, .5f, 1, 4, .25f, 2};
    model_source g = open_model(written(variant_named("gemma4-moe"), GGUF_F32, NULL));
    const char *file = in_folder(folder, "scaled.gguf");
    float *logits[2];
    for (int scaled = 0; scaled < 2; scaled++) {
        model *m = model_new("gemma4", 2);
        for (uint64_t k = 0; k < g.n_kv; k++)
            model_set(m, g.kv[k].key, g.kv[k].type, g.kv[k].value, g.kv[k].size);
        for (uint64_t k = 0; k < g.n_tensors; k++) {
            const char *name = g.tensors[k]->name;
            uint64_t n;
            float *x = tensor_values(&g, name, &n);
            for (uint64_t i = 0; i < n && strstr(name, "ffn_down_exps") && !scaled; i++)
                x[i] *= scales[i / (n / EXPERTS)];
            model_add(m, name, GGUF_F32, g.tensors[k]->ne, x);
            free(x);
        }
        if (scaled) {
            model_add(m, "blk.0.ffn_down_exps.scale", GGUF_F32, (uint64_t[4]){EXPERTS}, scales);
            model_add(m, "blk.1.ffn_down_exps.scale", GGUF_F32, (uint64_t[4]){EXPERTS}, scales);
        }
        model_save(m, file);
        logits[scaled] = run(file, (forwarding){0});
    }
    model_close(&g);
    assert_memory_equal(logits[0], logits[1], LOGITS * sizeof *logits[0]);
    free(logits[0]), free(logits[1]);
}

/* Writes a variant with all elements of tensors whose names contain `part` set to one value. */
static const char *write_filled(const variant *v, const char *part, float value) {
    const char *file = in_folder(folder, "filled.gguf");
    model_source g = open_model(written(v, GGUF_F32, NULL));
    model *m = model_new(variant_arch(v), 2);
    for (uint64_t k = 0; k < g.n_kv; k++)
        model_set(m, g.kv[k].key, g.kv[k].type, g.kv[k].value, g.kv[k].size);
    for (uint64_t k = 0; k < g.n_tensors; k++) {
        uint64_t n;
        float *x = tensor_values(&g, g.tensors[k]->name, &n);
        for (uint64_t i = 0; i < n && strstr(g.tensors[k]->name, part); i++) x[i] = value;
        model_add(m, g.tensors[k]->name, GGUF_F32, g.tensors[k]->ne, x);
        free(x);
    }
    model_save(m, file), model_close(&g);
    return file;
}

static float *logits_in_windows(const model_source *g, size_t n, size_t context, size_t windows) {
    gq_error e;
    size_t vocabulary;
    float *z = forward_whole(
        g, &(forwarding){.ids = ids, .n = n, .context = context, .windows = windows, .threads = 1},
        &vocabulary, &e);
    if (!z) fail_msg("%s", e.text);
    return z;
}

/* 41 times the float 1/41 is less than 1, so small expert 0 has the first 42 experts, not 41. A router of
 * zeros has every token choose just these. 32 tokens at once fill their rows of memory, 8 only half of them.
 */
TEST(small_experts_may_have_one_expert_more) {
    enum { TOKENS = 32, CONTEXT = 8 };
    variant v = *variant_named("grovemoe");
    v.experts = 1722, v.used = 42, v.ff = 1;
    v.extra = "ffn_gate_chexps.weight=32x24x42@1.7;ffn_up_chexps.weight=32x24x42@1.7;"
              "ffn_down_chexps.weight=24x32x42@1.7";
    v.keys = "experts_per_group=41;expert_group_scale=0.3";
    model_source g = open_model(write_filled(&v, "ffn_gate_inp.", 0));
    float *z[2];
    for (size_t windows = 0; windows < 2; windows++)
        z[windows] = logits_in_windows(&g, TOKENS, CONTEXT, windows);
    model_close(&g);
    assert_memory_equal(z[0], z[1], TOKENS * VARIANT_VOCABULARY * sizeof *z[0]);
    free(z[0]), free(z[1]);
}

/* Biases of 1e38 leave nothing of the router's values, so the first experts of the first groups are chosen.
 * With 3e38 the sum of two overflows, which must not leave all groups out. */
TEST(groups_may_have_huge_biases) {
    enum { TOKENS = 8 };
    static const float biases[] = {1e38F, 3e38F};
    float *z[2];
    for (size_t i = 0; i < 2; i++) {
        model_source g = open_model(write_filled(variant_named("deepseek2"), "exp_probs_b", biases[i]));
        z[i] = logits_in_windows(&g, TOKENS, TOKENS, 0);
        model_close(&g);
    }
    assert_memory_equal(z[0], z[1], TOKENS * VARIANT_VOCABULARY * sizeof *z[0]);
    free(z[0]), free(z[1]);
}

/* ---- scales moved between tensors ---- */

static int exponent_of(uint64_t matrix, size_t column) { return (int)((5 * matrix + 3 * column) % 7) - 3; }

/* Moves scales between all tensors of a group, for each column another one. */
static void move_scales(model_scales *to, const forward_scale_group *g) {
    for (size_t i = 0; i < g->n_readers; i++)
        for (uint64_t k = 0; k < shape_matrices(g->readers[i]->ne); k++)
            for (size_t c = 0; c < g->columns; c++)
                assert_true(
                    model_scales_column(to, g->readers[i], k, c, exponent_of(g->of_rows ? k : 0, c), NULL));
    for (size_t i = 0; i < g->n_makers; i++) {
        const model_tensor *t = g->makers[i];
        for (uint64_t k = 0; k < shape_matrices(t->ne); k++)
            for (size_t c = 0; c < g->columns; c++)
                assert_true(g->of_rows ? model_scales_row(to, t, k * t->ne[1] + g->first_row + c,
                                                          -exponent_of(k, c), NULL)
                                       : model_scales_column(to, t, 0, c, -exponent_of(0, c), NULL));
    }
}

/* Returns the scales of all groups of a model, and how many groups there are of either kind. */
static model_scales *moved_scales(const model_source *source, size_t found[2]) {
    gq_error e;
    forward_model *m = forward_model_new(source, &e);
    if (!m) fail_msg("%s", e.text);
    model_scales *scales = model_scales_new(NULL);
    for (size_t i = 0; i <= forward_model_sizes(m)->blocks; i++) {
        forward_scale_group groups[FORWARD_SCALE_GROUPS];
        size_t n = forward_scale_groups(m, i, groups);
        assert_true(n <= FORWARD_SCALE_GROUPS);
        for (size_t k = 0; k < n; k++) move_scales(scales, &groups[k]), found[groups[k].of_rows]++;
    }
    forward_model_free(m);
    return scales;
}

TEST(moved_scales_change_no_logit) {
    size_t all[2] = {0};
    for (size_t i = 0; variant_at(i); i++) {
        const char *file = written(variant_at(i), GGUF_F32, NULL);
        model_source g = open_model(file);
        float *as_is = logits_in_windows(&g, VARIANT_IDS, VARIANT_CONTEXT, 0);
        model_scales *scales = moved_scales(&g, all);
        g.scales = scales;
        float *moved = logits_in_windows(&g, VARIANT_IDS, VARIANT_CONTEXT, 0);
        if (memcmp(as_is, moved, LOGITS * sizeof *moved) != 0) fail_msg("%s", variant_at(i)->name);
        model_scales_free(scales);
        model_close(&g);
        free(as_is), free(moved);
    }
    assert_true(all[0] > 500 && all[1] > 200);
}

/* A part of a tensor is scaled as it is in the whole, and each type as its values are. */
TEST(scales_fit_any_part_and_type) {
    static const uint32_t types[] = {GGUF_F32, GGUF_F16, GGUF_BF16};
    const kernels *k = kernels_select();
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        model_source g = open_model(written(variant_named("qwen3moe"), types[i], NULL));
        size_t found[2] = {0}, n_scaled = 0;
        model_scales *scales = moved_scales(&g, found);
        for (uint64_t t = 0; t < g.n_tensors; t++) {
            const model_tensor *of = g.tensors[t];
            uint64_t n = shape_elements(of->ne), first = n / 3, some = n / 2, bytes = of->type->block_bytes;
            uint8_t *as_is = malloc(of->size), *whole = malloc(of->size), *part = malloc(of->size);
            float *x = malloc(n * sizeof *x), *y = malloc(n * sizeof *y);
            assert_true(as_is && whole && part && x && y && model_read(&g, of, 0, n, as_is, NULL));
            g.scales = scales;
            assert_true(model_read(&g, of, 0, n, whole, NULL) && model_read(&g, of, first, some, part, NULL));
            g.scales = NULL;
            assert_memory_equal(part, whole + first * bytes, some * bytes);
            k->codecs[of->type->id].decode(as_is, 0, x, n), k->codecs[of->type->id].decode(whole, 0, y, n);
            bool is_row = model_scales_has(scales, of);
            for (uint64_t c = 0; c < n; c++) {
                int by;
                float ratio = frexpf(x[c] != 0 ? y[c] / x[c] : 1, &by);
                if (fabsf(x[c]) > 1e-2F) assert_true(fabsf(ratio) == 0.5F), n_scaled += by != 1;
                assert_true(is_row || by == 1);
            }
            free(as_is), free(whole), free(part), free(x), free(y);
        }
        assert_true(n_scaled > 1000);
        model_scales_free(scales);
        model_close(&g);
    }
}

/* ---- several texts in a window ---- */

/* Texts of a window: shorter and, of variants that have other factors of rope from 300 or 16 tokens on, longer
 * than these. What is behind a text fills its step of tokens. */
typedef struct text_place {
    size_t first, n;
} text_place;
enum { TEXTS = 3, TEXTS_END = 9 * FORWARD_TEXT_ALIGNMENT };
static const text_place short_texts[TEXTS] = {{0, 70}, {128, 64}, {192, 7}},
                        long_texts[TEXTS] = {{0, 100}, {128, 330}, {512, 7}};

static float *run_text(const char *file, size_t first, size_t n, const forward_mark *marks, gq_error *e) {
    uint32_t own[TEXTS_END];
    size_t vocabulary;
    for (size_t i = 0; i < n; i++) own[i] = (uint32_t)((first + i) * (first + i) * 7) % VARIANT_VOCABULARY;
    model_source g = open_model(file);
    float *z = forward_whole(
        &g, &(forwarding){.ids = own, .n = n, .context = n, .threads = 2, .marks = marks}, &vocabulary, e);
    model_close(&g);
    return z;
}

/* Compares each text's logits in the window, whose rest is filled, with those that it has alone. False: the
 * model has no such windows. */
static bool compare_texts(const variant *v, const char *file) {
    const text_place *texts = v->factors == 'l' ? long_texts : short_texts;
    forward_mark marks[TEXTS_END];
    size_t end = texts[TEXTS - 1].first + FORWARD_TEXT_ALIGNMENT;
    gq_error e = {.text = ""};
    for (size_t i = 0; i < end; i++) marks[i] = (forward_mark){.position = FORWARD_BEHIND_TEXT};
    for (size_t k = 0; k < TEXTS; k++)
        for (size_t i = 0; i < texts[k].n; i++)
            marks[texts[k].first + i] = (forward_mark){(uint32_t)i, FORWARD_WEIGHT_ONE};
    float *together = run_text(file, 0, end, marks, &e);
    if (!together && strstr(e.text, "too few for windows")) return false;
    if (!together) fail_msg("%s: %s", v->name, e.text);
    for (size_t k = 0; k < TEXTS; k++) {
        float *alone = run_text(file, texts[k].first, texts[k].n, NULL, &e);
        if (!alone) fail_msg("%s: %s", v->name, e.text);
        if (memcmp(together + texts[k].first * VARIANT_VOCABULARY, alone,
                   texts[k].n * VARIANT_VOCABULARY * sizeof *alone) != 0)
            fail_msg("%s: text %zu of a window has other logits than alone", v->name, k);
        free(alone);
    }
    return free(together), true;
}

TEST(texts_of_a_window_do_not_see_each_other) {
    const variant *v;
    size_t same = 0, by_length = 0;
    for (size_t i = 0; (v = variant_at(i)); i++) {
        const char *file = written(v, GGUF_F32, NULL);
        model_source g = open_model(file);
        bool alone = !forward_is_bidirectional(&g) || forward_fills_masks(&g);
        model_close(&g);
        if (!alone || !compare_texts(v, file)) continue;
        same++, by_length += v->factors == 'l';
    }
    assert_true(same > 100 && by_length >= 3);
}

int main(void) {
    for (size_t i = 0; i < VARIANT_IDS; i++) ids[i] = variant_id(i);
    return tests_run(folder_make, folder_remove);
}
