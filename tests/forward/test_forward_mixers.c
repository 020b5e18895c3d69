/* What a mixer has to bring, shown by one that no architecture has: a struct of functions and a row of the
 * table, and no other file knows of it. Which layers have which part is said by the model. */
#include <math.h>

#include "base/checked.h"
#include "forward/graph/block.h"
#include "forward/graph/layer.h"
#include "forward/graph/sublayer.h"
#include "tests/support/folder.h"
#include "tests/support/forward_models.h"

/* ---- a mixer: out (b * conv(c * x)), where b, c and x are thirds of what attn_qkv gives ---- */

enum { PREPARED = 1000 }; /* floats in a batch */

typedef struct convolution_numbers {
    size_t taps; /* of a kernel */
} convolution_numbers;

typedef struct convolution_layer {
    size_t channels;
} convolution_layer;

typedef struct convolution_scratch {
    float *ones;
} convolution_scratch;

static void convolution_read_keys(forward_model *m, key_reader *r, model_sublayer *p) {
    convolution_numbers *n = p->numbers;
    (void)m;
    n->taps = key_number_needed(r, "shortconv.l_cache", 1, 16);
}

static void convolution_find_tensors(tensor_finder *f, const sublayer_spec *p) {
    const convolution_numbers *n = p->sublayer->numbers;
    convolution_layer *l = p->numbers;
    uint64_t d = f->m->sizes.width;
    l->channels = d;
    tensors_take_weight(f, WEIGHT_ATTN_QKV, REQUIRED, SHAPE(d, 3 * d));
    tensors_take_weight(f, WEIGHT_ATTN_Q_A_NORM, REQUIRED, SHAPE(n->taps, d)); /* the kernels */
    tensors_take_weight(f, WEIGHT_ATTN_OUTPUT, REQUIRED, SHAPE(d, d));
}

static uint64_t convolution_count_rows(const forward_model *m, const layer_spec *plan,
                                       const sublayer_spec *p) {
    const convolution_layer *l = p->numbers;
    (void)m, (void)plan;
    return 4 * l->channels;
}

static void convolution_lay_out(forward_batch *b, const model_sublayer *p, scratch *s) {
    convolution_scratch *own = batch_own(b, p);
    own->ones = scratch_take(s, PREPARED, 1, sizeof(float));
}

static bool convolution_prepare(forward_batch *b, const model_sublayer *p, gq_error *e) {
    convolution_scratch *own = batch_own(b, p);
    (void)e;
    for (size_t i = 0; i < PREPARED; i++) own->ones[i] = 1;
    return true;
}

static bool convolution_run(forward_batch *b, const sublayer_spec *p, const float *x, size_t stride) {
    const convolution_numbers *n = p->sublayer->numbers;
    const convolution_layer *l = p->numbers;
    const convolution_scratch *own = batch_own(b, p->sublayer);
    const float *kernel = b->layer->values[WEIGHT_ATTN_Q_A_NORM];
    size_t s = b->stride, d = l->channels;
    float *all = b->work, *y = all + 3 * d * s;
    if (!batch_report_inputs(b, x, stride, (weight_slot[]){WEIGHT_ATTN_QKV, WEIGHT_SLOTS})) return false;
    batch_multiply(b, WEIGHT_ATTN_QKV, 0, x, stride, all, s, b->tokens);
    for (size_t c = 0; c < d; c++)
        for (size_t t = 0; t < b->tokens; t++) {
            const float *in = all + (d + c) * s + t, *times = in + d * s;
            float sum = 0;
            for (size_t j = 0; j < n->taps && j <= t % b->context; j++)
                sum += kernel[c * n->taps + n->taps - 1 - j] * in[-(ptrdiff_t)j] * times[-(ptrdiff_t)j];
            y[c * s + t] = all[c * s + t] * sum * own->ones[PREPARED - 1];
        }
    if (!batch_report_inputs(b, y, s, (weight_slot[]){WEIGHT_ATTN_OUTPUT, WEIGHT_SLOTS})) return false;
    batch_multiply(b, WEIGHT_ATTN_OUTPUT, 0, y, s, b->output, s, b->tokens);
    return true;
}

static const sublayer_kind mixer_convolution = {
    .model_bytes = sizeof(convolution_numbers),
    .layer_bytes = sizeof(convolution_layer),
    .read_keys = convolution_read_keys,
    .find_tensors = convolution_find_tensors,
    .scratch_rows = convolution_count_rows,
    .lay_out = convolution_lay_out,
    .prepare = convolution_prepare,
    .run = convolution_run,
};

/* ---- models: llamas, of which some layers are changed ---- */

enum { WIDTH = 32, TAPS = 3, TOKENS = VARIANT_CONTEXT };

/* The convolution stands for a part of the list that llamas do not have. */
static const architecture hybrid = {
    .name = "llama",
    .graph = {.mixers = {MIXER_ATTENTION, MIXER_SHORTCONV}, .ffns = {FFN_GATED}, .free_head = true}};
static const architecture only_attention = {.name = "llama",
                                            .graph = {.mixers = {MIXER_ATTENTION}, .free_head = true}};
static const architecture only_ffn = {.name = "llama", .graph = {.ffns = {FFN_GATED}}};

/* A llama of two layers without the tensors whose names contain one of the words. */
static model *llama_without(const char *const *words) {
    model *m = variant_model(variant_named("llama"), GGUF_F32, NULL);
    model_save(m, path("llama.gguf"));
    model_source g = open_model(path("llama.gguf"));
    m = model_new(NULL, 0);
    for (uint64_t k = 0; k < g.n_kv; k++)
        model_set(m, g.kv[k].key, g.kv[k].type, g.kv[k].value, g.kv[k].size);
    for (uint64_t k = 0; k < g.n_tensors; k++) {
        const model_tensor *t = g.tensors[k];
        bool left_out = false;
        for (const char *const *w = words; *w; w++) left_out = left_out || strstr(t->name, *w);
        if (left_out) continue;
        uint64_t n;
        float *x = tensor_values(&g, t->name, &n);
        model_add(m, t->name, GGUF_F32, t->ne, x);
        free(x);
    }
    model_close(&g);
    return m;
}

/* Layer 0 has no heads for keys and values, and what the convolution needs. */
static void write_hybrid(const char *to, uint32_t taps) {
    model *m = llama_without((const char *[]){"blk.0.attn_q", "blk.0.attn_k", "blk.0.attn_v", NULL});
    model_set_array(m, "llama.attention.head_count_kv", GGUF_U32, (uint32_t[]){0, 2}, 2);
    model_set_u32(m, "llama.shortconv.l_cache", taps);
    model_add(m, "blk.0.attn_qkv.weight", GGUF_F32, (uint64_t[4]){WIDTH, 3 * WIDTH}, NULL);
    model_add(m, "blk.0.attn_q_a_norm.weight", GGUF_F32, (uint64_t[4]){TAPS, WIDTH}, NULL);
    model_save(m, to);
}

/* ---- running a layer ---- */

typedef struct running {
    model_source g;
    forward_model *m;
    forward_layer *l;
    threads_pool *pool;
    forward_batch *b;
    gq_error e;
} running;

/* Windows of TOKENS, two at once. row NULL: as the model says. */
static running *start(const char *file, const architecture *row) {
    running *r = calloc(1, sizeof *r);
    assert_non_null(r);
    r->g = open_model(file);
    static const sublayer_kind *sublayers_of[ARCH_SUBLAYER_LIMIT]; /* as long as the model */
    memcpy(sublayers_of, sublayer_kinds, sizeof sublayers_of);
    sublayers_of[MIXER_SHORTCONV] = &mixer_convolution;
    r->m = row ? model_new_of(&r->g, row, sublayers_of, &r->e) : forward_model_new(&r->g, &r->e);
    if (!r->m) return r;
    r->l = forward_layer_new(r->m, 0, &r->e), r->pool = threads_pool_new(2);
    assert_true(r->l && r->pool);
    r->b = forward_batch_new(r->m, TOKENS, 2, r->pool, &r->e);
    assert_non_null(r->b);
    return r;
}

static void end(running *r) {
    forward_batch_free(r->b), threads_pool_free(r->pool), forward_layer_free(r->l), forward_model_free(r->m);
    model_close(&r->g);
    free(r);
}

static size_t stride_of(void) { return forward_stride(2 * TOKENS); }

/* The state after a part of layer i, of one that is the same each time; malloc'ed. */
static float *state_after(running *r, size_t i, forward_sublayers which) {
    gq_error e;
    size_t stride = stride_of();
    float *x = forward_activations(WIDTH, stride, &e), *values = random_values(WIDTH * 2 * TOKENS, 5);
    assert_non_null(x);
    for (size_t c = 0; c < WIDTH; c++)
        memcpy(x + c * stride, values + c * 2 * TOKENS, 2 * TOKENS * sizeof *x);
    free(values);
    if (!forward_layer_read(r->l, i, &e) || !forward_block(r->b, r->l, which, x, stride, NULL, &e))
        fail_msg("%s", e.text);
    return x;
}

static void assert_same_state(float *a, float *b) {
    for (size_t c = 0; c < WIDTH; c++)
        assert_memory_equal(a + c * stride_of(), b + c * stride_of(), 2 * TOKENS * sizeof *a);
    free(a), free(b);
}

/* ---- tests ---- */

/* x + out (b * conv(c * x')), where x' etc. come from the norm of x; plainly, in double. */
static float *convolved(const model_source *g, const float *x) {
    uint64_t n;
    float *norm = tensor_values(g, "blk.0.attn_norm.weight", &n),
          *in = tensor_values(g, "blk.0.attn_qkv.weight", &n);
    float *kernel = tensor_values(g, "blk.0.attn_q_a_norm.weight", &n);
    float *out = tensor_values(g, "blk.0.attn_output.weight", &n);
    double(*all)[3 * WIDTH] = calloc(2 * TOKENS, sizeof *all), eps = 1e-5;
    float *y = calloc(WIDTH * 2 * TOKENS, sizeof *y);
    for (size_t t = 0; t < 2 * TOKENS; t++) {
        double sum = 0;
        for (size_t c = 0; c < WIDTH; c++)
            sum += (double)x[c * 2 * TOKENS + t] * (double)x[c * 2 * TOKENS + t];
        for (size_t r = 0; r < 3 * WIDTH; r++)
            for (size_t c = 0; c < WIDTH; c++)
                all[t][r] += (double)in[r * WIDTH + c] * (double)x[c * 2 * TOKENS + t] * (double)norm[c] /
                             sqrt(sum / WIDTH + eps);
    }
    for (size_t t = 0; t < 2 * TOKENS; t++)
        for (size_t c = 0; c < WIDTH; c++) {
            double sum = 0;
            for (size_t j = 0; j < TAPS && j <= t % TOKENS; j++)
                sum += (double)kernel[c * TAPS + TAPS - 1 - j] * all[t - j][WIDTH + c] *
                       all[t - j][2 * WIDTH + c];
            for (size_t r = 0; r < WIDTH; r++)
                y[r * 2 * TOKENS + t] += (float)((double)out[r * WIDTH + c] * all[t][c] * sum);
        }
    for (size_t i = 0; i < WIDTH * 2 * TOKENS; i++) y[i] += x[i];
    free(norm), free(in), free(kernel), free(out), free(all);
    return y;
}

TEST(a_layer_without_kv_heads_has_the_rows_other_mixer) {
    write_hybrid(path("hybrid.gguf"), TAPS);
    running *own = start(path("hybrid.gguf"), &hybrid), *plain = start(path("llama.gguf"), NULL);
    if (!own->m) fail_msg("%s", own->e.text);
    float *x = random_values(WIDTH * 2 * TOKENS, 5), *expected = convolved(&own->g, x);
    float *found = state_after(own, 0, FORWARD_ATTENTION);
    for (size_t c = 0; c < WIDTH; c++)
        for (size_t t = 0; t < 2 * TOKENS; t++)
            assert_float_equal(found[c * stride_of() + t], expected[c * 2 * TOKENS + t], 1e-4);
    free(x), free(expected), free(found);
    /* what is not the convolution's is as ever: the feed-forward sublayer beside it, and the other layer */
    assert_same_state(state_after(own, 0, FORWARD_FFN), state_after(plain, 0, FORWARD_FFN));
    assert_same_state(state_after(own, 1, FORWARD_WHOLE), state_after(plain, 1, FORWARD_WHOLE));
    assert_true(forward_model_splits(own->m));
    end(own), end(plain);
}

TEST(a_mixers_memory_is_counted) {
    write_hybrid(path("hybrid.gguf"), TAPS);
    running *own = start(path("hybrid.gguf"), &hybrid), *plain = start(path("llama.gguf"), NULL);
    if (!own->m) fail_msg("%s", own->e.text);
    uint64_t with = forward_batch_bytes(own->m, TOKENS, 2, 1);
    uint64_t without = forward_batch_bytes(plain->m, TOKENS, 2, 1);
    /* more rows than any other part here has, of which attention has most; the floats that it prepares; and
     * no experts, to which a llama without them gives a line of the cache */
    uint64_t attention = 2 * (4 + 2) * (WIDTH / 4), rows = 4 * WIDTH - attention;
    assert_int_equal(with, without + rows * stride_of() * sizeof(float) +
                               round_up(PREPARED * sizeof(float), 64) - 64);
    end(own), end(plain);
}

TEST(a_mixers_matrices_are_fed_and_its_small_weights_are_not) {
    write_hybrid(path("hybrid.gguf"), TAPS);
    running *own = start(path("hybrid.gguf"), &hybrid);
    if (!own->m) fail_msg("%s", own->e.text);
    for (uint64_t i = 0; i < own->g.n_tensors; i++) {
        const model_tensor *t = own->g.tensors[i];
        bool matrix = !strstr(t->name, "norm") && !strstr(t->name, "token_embd");
        if (forward_feeds(own->m, t) != matrix) fail_msg("%s", t->name);
    }
    end(own);
}

TEST(what_a_mixer_finds_wrong_is_told) {
    write_hybrid(path("hybrid.gguf"), TAPS + 1);
    running *own = start(path("hybrid.gguf"), &hybrid);
    if (own->m || !strstr(own->e.text, "blk.0.attn_q_a_norm.weight has shape [3, 32], expected [4, 32]"))
        fail_msg("%s", own->e.text);
    end(own);
    write_hybrid(path("hybrid.gguf"), 17);
    own = start(path("hybrid.gguf"), &hybrid);
    if (own->m || !strstr(own->e.text, "llama.shortconv.l_cache is 17, expected 1 to 16"))
        fail_msg("%s", own->e.text);
    end(own);
}

TEST(a_layer_may_have_one_part_alone) {
    model *m = llama_without((const char *[]){"ffn_", NULL});
    model_save(m, path("mixers.gguf"));
    running *own = start(path("mixers.gguf"), &only_attention), *plain = start(path("llama.gguf"), NULL);
    if (!own->m) fail_msg("%s", own->e.text);
    assert_same_state(state_after(own, 1, FORWARD_WHOLE), state_after(plain, 1, FORWARD_ATTENTION));
    end(own);
    own = start(path("llama.gguf"), &only_attention);
    if (own->m || !strstr(own->e.text, "blk.0.ffn_")) fail_msg("%s", own->e.text);
    end(own);
    /* both norms are the same here, so that the whole model's part shows what the part alone gives */
    m = llama_without((const char *[]){"attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm", NULL});
    model_save(m, path("ffns.gguf"));
    m = llama_without((const char *[]){"attn_norm", "ffn_norm", NULL});
    model_source g = open_model(path("llama.gguf"));
    for (int i = 0; i < 2; i++) {
        char from[64], to[64];
        snprintf(from, sizeof from, "blk.%d.attn_norm.weight", i),
            snprintf(to, sizeof to, "blk.%d.ffn_norm.weight", i);
        uint64_t n;
        float *x = tensor_values(&g, from, &n);
        model_add(m, from, GGUF_F32, (uint64_t[4]){WIDTH}, x),
            model_add(m, to, GGUF_F32, (uint64_t[4]){WIDTH}, x);
        free(x);
    }
    model_close(&g), end(plain);
    model_save(m, path("norms.gguf"));
    own = start(path("ffns.gguf"), &only_ffn), plain = start(path("norms.gguf"), NULL);
    if (!own->m || !plain->m) fail_msg("%s%s", own->e.text, plain->e.text);
    assert_same_state(state_after(own, 1, FORWARD_WHOLE), state_after(plain, 1, FORWARD_FFN));
    end(own), end(plain);
}

int main(void) { return tests_run(folder_make, folder_remove); }
