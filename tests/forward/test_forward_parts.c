/* Layers run part by part, looked at, ended early and with weights replaced: small models of every
 * architecture, to the bit. */
#include "forward/graph/block.h"
#include "forward/graph/layer.h"
#include "forward/graph/model.h"
#include "forward/stream/head.h"
#include "forward/stream/stream.h"
#include "gguf/facts.h"
#include "tests/support/folder.h"
#include "tests/support/forward_models.h"
#include "tests/support/forwarding.h"

enum { MOST = 4096, BATCHES = VARIANT_IDS / VARIANT_CONTEXT };

static uint32_t ids[VARIANT_IDS];

/* ---- what is told ---- */

/* Of each call a digest of all that it was given. */
typedef struct told {
    uint64_t calls[MOST];
    bool closes_expert[MOST]; /* what flows into an expert's last matrix */
    bool is_sum[MOST];        /* of experts: it lacks what was skipped */
    size_t n, end;
    forward_answer answer, at_end; /* at_end: of call `end` */
    const float *fed;              /* what the experts' tokens are taken from */
    size_t fed_stride, routed;     /* routed: tokens of all experts, since then */
    uint32_t token[VARIANT_IDS];   /* of the last expert */
} told;

/* Whether experts of the model at hand read something else than its router does. */
static bool is_other;
/* Whether layers run on halves of windows. */
static bool has_halves;

static uint64_t digest(uint64_t d, const void *bytes, size_t n) {
    for (const uint8_t *b = bytes; n > 0; n--, b++) d = (d ^ *b) * 1099511628211u;
    return d;
}

/* The tokens that are told are those whose columns flow in. */
static void check_tokens(told *to, const forward_inputs *in, bool closes) {
    assert_true((in->routed || has_halves) == (in->token != NULL));
    for (size_t i = 0; in->token && i < in->tokens; i++) {
        assert_true(in->token[i] < VARIANT_CONTEXT &&
                    (i == 0 || in->token[i] >= in->token[i - 1] + !in->late));
        if (closes) assert_int_equal(in->token[i], to->token[i]);
        for (size_t f = 0; in->routed && !closes && !in->late && to->fed && f < in->features; f++)
            assert_true(in->x[f * in->stride + i] == to->fed[f * to->fed_stride + in->token[i]]);
        to->token[i] = in->token[i];
    }
    if (in->routed && !closes && !in->late) to->routed += in->tokens;
}

static forward_answer take(void *data, const forward_inputs *in, gq_error *e) {
    told *to = data;
    uint64_t d = 14695981039346656037u;
    bool closes = in->routed && strstr(in->weights[0]->name, "ffn_down_") != NULL;
    if (strstr(in->weights[0]->name, "ffn_gate_inp."))
        to->fed = is_other ? NULL : in->x, to->fed_stride = in->stride, to->routed = 0;
    check_tokens(to, in, closes);
    for (size_t i = 0; i < in->n_weights; i++)
        d = digest(d, in->weights[i]->name, strlen(in->weights[i]->name));
    d = digest(d, &in->matrix, sizeof in->matrix), d = digest(d, &in->matrices, sizeof in->matrices);
    if (in->token) d = digest(d, in->token, in->tokens * sizeof *in->token);
    for (size_t f = 0; f < in->features; f++)
        d = digest(d, in->x + f * in->stride, in->tokens * sizeof *in->x);
    assert_true(to->n < MOST);
    to->is_sum[to->n] = in->late || strstr(in->weights[0]->name, "ffn_latent_up") ||
                        strstr(in->weights[0]->name, "ffn_routed_up");
    to->closes_expert[to->n] = closes, to->calls[to->n] = d;
    if (to->n++ != to->end) return to->answer;
    if (to->at_end == FORWARD_FAILED) gq_fail(e, "told to fail");
    return to->at_end;
}

static void begin(told *to, forward_answer answer) { to->n = 0, to->end = SIZE_MAX, to->answer = answer; }

static void assert_same(const char *name, const told *a, const told *b) {
    if (a->n != b->n || memcmp(a->calls, b->calls, a->n * sizeof *a->calls) != 0)
        fail_msg("%s: what is told differs: %zu calls, and %zu", name, a->n, b->n);
}

/* ---- models and streams ---- */

static const char *written(const variant *v, uint32_t type, const char *name) {
    static const char *const others[] = {"llama4", "smallthinker", "gemma4"};
    is_other = v->latents, has_halves = v->coders == 'b';
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        is_other = is_other || !strcmp(variant_arch(v), others[i]);
    model_save(variant_model(v, type, NULL), path(name));
    return path(name);
}

typedef struct runner {
    model_source g;
    forward_model *m;
    forward_job job;
    forward_run *r;
    hidden_state_slots keep;
} runner;

static void start(runner *k, const char *file, bool in_file) {
    gq_error e;
    k->g = open_model(file);
    if (!(k->m = forward_model_new(&k->g, &e))) fail_msg("%s", e.text);
    k->job = (forward_job){.ids = ids, .windows = BATCHES, .context = VARIANT_CONTEXT, .threads = 1};
    k->r = forward_run_new(&k->job, &(forward_bounds){.batch = 1, .in_file = in_file}, &e);
    uint64_t bytes = forward_stream_bytes(k->m, k->job.windows, k->job.context);
    k->keep = (hidden_state_slots){
        .fd = in_file ? hidden_state_slots_open(folder, 2 * bytes, &e) : -1, .path = "states", .slots = 2};
    assert_true(k->r && (!in_file || k->keep.fd >= 0));
}

static forward_stream *stream_of(runner *k) {
    gq_error e;
    forward_stream *s = forward_stream_new(k->r, k->m, k->keep.fd < 0 ? NULL : &k->keep, &e);
    assert_non_null(s);
    assert_int_equal(forward_stream_batches(s), BATCHES);
    return s;
}

static forward_layer *layer_of(runner *k, size_t i) {
    gq_error e;
    forward_layer *l = forward_run_layer(k->r, k->m, i, &e);
    if (!l) fail_msg("%s", e.text);
    return l;
}

static void stop(runner *k) {
    forward_run_free(k->r);
    if (k->keep.fd >= 0) close(k->keep.fd);
    forward_model_free(k->m);
    model_close(&k->g);
}

/* The whole model, batch after batch in every layer. */
static float *reference(const char *file, bool parts, told *to) {
    model_source g = open_model(file);
    gq_error e;
    size_t vocabulary;
    begin(to, FORWARD_ON);
    float *z = forward_whole(&g,
                             &(forwarding){.ids = ids,
                                           .n = VARIANT_IDS,
                                           .context = VARIANT_CONTEXT,
                                           .windows = 1,
                                           .threads = 1,
                                           .parts = parts,
                                           .observer = &(forward_observer){.on_inputs = take, .data = to}},
                             &vocabulary, &e);
    if (!z) fail_msg("%s", e.text);
    model_close(&g);
    return z;
}

/* ---- parts ---- */

TEST(parts_are_the_whole) {
    static const char *const parallel[] = {
        "command-r",     "cohere2",         "phi2",       "falcon",       "falcon-40b",
        "gptneox",       "stablelm-12b",    "cohere2moe", "smallthinker", "smallthinker-rope",
        "arctic",        "gemma3n",         "hy_v4",      "hy_v4-full",   "deepseek4",
        "qwen4exp",      "qwen4exp-blocks", "glm5-next",  "plamo",        "hrm_text",
        "chameleon-swin"};
    static told whole, parts;
    size_t found = 0;
    for (size_t i = 0; variant_at(i); i++) {
        const variant *v = variant_at(i);
        const char *file = written(v, GGUF_F32, "model.gguf");
        bool splits = true;
        for (size_t k = 0; k < sizeof parallel / sizeof *parallel; k++)
            if (!strcmp(v->name, parallel[k])) splits = false, found++;
        float *a = reference(file, false, &whole), *b = reference(file, true, &parts);
        assert_same(v->name, &whole, &parts);
        if (memcmp(a, b, (size_t)VARIANT_IDS * VARIANT_VOCABULARY * sizeof *a) != 0)
            fail_msg("%s: logits differ", v->name);
        free(a), free(b);

        runner k;
        gq_error e;
        start(&k, file, false);
        if (forward_model_splits(k.m) != splits) fail_msg("%s splits, or does not", v->name);
        forward_stream *s = stream_of(&k);
        assert_true(forward_stream_embed(s, NULL, &e));
        assert_true(forward_stream_probe(s, 0, layer_of(&k, 0), FORWARD_ATTENTION, NULL, NULL, &e) == splits);
        if (!splits)
            assert_non_null(strstr(e.text, "model.gguf: layer 0 cannot be run one sublayer at a time"));
        forward_stream_free(s);
        stop(&k);
    }
    assert_int_equal(found, sizeof parallel / sizeof *parallel);
}

/* ---- looks ---- */

static bool look(forward_stream *s, const forward_layer *l, forward_sublayers which, size_t batch, told *to,
                 gq_error *e) {
    return forward_stream_probe(s, batch, l, which, &(forward_observer){.on_inputs = take, .data = to}, NULL,
                                e);
}

static void leave_out_skipped(told *t) {
    size_t left = 0;
    for (size_t i = 0; i < t->n; i++)
        if (!t->closes_expert[i] && !t->is_sum[i]) t->calls[left++] = t->calls[i];
    t->n = left;
}

/* What ends where, of batch 0. */
static void answer_in_turn(const char *name, forward_stream *s, const forward_layer *l,
                           forward_sublayers which) {
    static told all, some;
    gq_error e;
    begin(&all, FORWARD_ON);
    assert_true(look(s, l, which, 0, &all, &e));
    for (size_t end = 0; end < all.n; end++)
        for (int failed = 0; failed < 2; failed++) {
            begin(&some, FORWARD_ON);
            some.end = end, some.at_end = failed ? FORWARD_FAILED : FORWARD_END;
            assert_true(look(s, l, which, 0, &some, &e) == !failed);
            if (failed) assert_string_equal(e.text, "told to fail");
            assert_int_equal(some.n, end + 1);
            if (memcmp(all.calls, some.calls, some.n * sizeof *all.calls) != 0)
                fail_msg("%s, %zu", name, end);
        }
    /* what is skipped of experts is all behind their first site, and nothing else but what their sum gives */
    begin(&some, FORWARD_SKIP);
    assert_true(look(s, l, which, 0, &some, &e));
    leave_out_skipped(&all), leave_out_skipped(&some);
    assert_same(name, &all, &some);
}

static void look_and_pass(const char *name, runner *k, forward_stream *s, size_t layer,
                          forward_sublayers which) {
    static told looked, passed;
    gq_error e;
    const forward_layer *l = layer_of(k, layer);
    bool ends = layer == 0 || layer + 1 == forward_model_sizes(k->m)->layers;
    begin(&looked, FORWARD_ON), begin(&passed, FORWARD_ON);
    if (ends) answer_in_turn(name, s, l, which);
    for (size_t i = 0; i < BATCHES; i++)
        if (!look(s, l, which, i, &looked, &e)) fail_msg("%s: %s", name, e.text);
    if (!forward_stream_pass(s, l, which, &(forward_observer){.on_inputs = take, .data = &passed}, &e))
        fail_msg("%s: %s", name, e.text);
    assert_same(name, &looked, &passed);
}

TEST(looks_tell_what_passes_tell) {
    static told whole, last, final;
    for (size_t i = 0; variant_at(i); i++) {
        const variant *v = variant_at(i);
        const char *file = written(v, GGUF_F32, "model.gguf");
        free(reference(file, false, &whole));
        for (int in_file = 0; in_file < 2; in_file++) {
            runner k;
            gq_error e;
            start(&k, file, in_file);
            forward_stream *s = stream_of(&k);
            bool parts = forward_model_splits(k.m);
            assert_true(forward_stream_embed(s, NULL, &e));
            for (size_t layer = 0; layer < forward_model_sizes(k.m)->layers; layer++) {
                look_and_pass(v->name, &k, s, layer, parts ? FORWARD_ATTENTION : FORWARD_WHOLE);
                if (parts) look_and_pass(v->name, &k, s, layer, FORWARD_FFN);
            }
            begin(&last, FORWARD_ON), begin(&final, FORWARD_ON);
            for (size_t b = 0; b < BATCHES; b++)
                assert_true(forward_stream_probe_final(
                    s, b, &(forward_observer){.on_inputs = take, .data = &last}, &e));
            assert_true(forward_stream_final(s, &(forward_observer){.on_inputs = take, .data = &final}, &e));
            assert_same(v->name, &last, &final);
            bool embeds = forward_model_sizes(k.m)->embeds; /* which has no output matrix */
            /* Streams are summed up. */
            static const char *const more[][2] = {{"hy_v4", "2"}, {"deepseek4", "2"}, {"qwen4exp", "3"}};
            size_t ends = embeds ? 0 : BATCHES;
            for (size_t a = 0; a < sizeof more / sizeof *more; a++)
                if (!strcmp(variant_arch(v), more[a][0])) ends = BATCHES * strtoul(more[a][1], NULL, 10);
            assert_int_equal(final.n, ends);
            if (ends && memcmp(final.calls, whole.calls + whole.n - ends, ends * sizeof *final.calls) != 0)
                fail_msg("%s: what flows into the output matrix differs", v->name);
            forward_stream_free(s);
            stop(&k);
        }
    }
}

/* ---- experts ---- */

TEST(every_token_goes_to_its_experts) {
    static told to;
    static const char *const names[] = {"llama-moe", "deepseek2", "glm4moe"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const variant *v = variant_named(names[i]);
        free(reference(written(v, GGUF_F32, "model.gguf"), false, &to));
        assert_int_equal(to.routed, VARIANT_CONTEXT * v->used); /* of the last layer and batch */
    }
}

/* As llama-moe, with more experts than are gathered together. */
static variant many_experts(uint32_t used) {
    variant v = *variant_named("llama-moe");
    v.experts = 70, v.used = used;
    return v;
}

static void check_spread(const variant *v, size_t spread, size_t tokens) {
    runner k;
    start(&k, written(v, GGUF_F32, "model.gguf"), false);
    if (forward_experts_spread(k.m) != spread || forward_batch_tokens(k.m) != tokens)
        fail_msg("%s: %zu, batches of %zu tokens", v->name, forward_experts_spread(k.m),
                 forward_batch_tokens(k.m));
    stop(&k);
}

TEST(batches_grow_with_the_experts) {
    for (size_t i = 0; variant_at(i); i++) {
        const variant *v = variant_at(i);
        check_spread(v, v->experts ? (v->experts + v->used - 1) / v->used : 1, 2048);
    }
    variant few = many_experts(5), fewer = many_experts(2);
    check_spread(&few, 14, 14 * 256);
    check_spread(&fewer, 35, 8192);
}

/* Returns the tokens of a batch with the least memory that has states in memory, where a job asks for so many
 * tokens at once. */
static size_t tokens_in_memory(const variant *v, size_t asked) {
    runner k;
    start(&k, written(v, GGUF_F32, "model.gguf"), false);
    const forward_model *m = k.m;
    forward_job j = {
        .windows = 1 << 16, .context = 8, .threads = 1, .memory = UINT64_MAX, .batch_tokens = asked};
    uint64_t low = 0, high = forward_bounds_of(&j, &m, 1, false).peak; /* high will do, low will not */
    while (high - low > 1) {
        j.memory = low + (high - low) / 2;
        *(forward_bounds_of(&j, &m, 1, false).in_file ? &low : &high) = j.memory;
    }
    j.memory = high;
    size_t batch = forward_bounds_of(&j, &m, 1, false).batch;
    j.memory = low;
    assert_true(forward_bounds_of(&j, &m, 1, false).batch >= batch); /* that is what the file is for */
    stop(&k);
    return batch * j.context;
}

/* Each batch decodes the experts that it meets again. */
TEST(experts_have_tokens_before_states_are_in_memory) {
    variant some = many_experts(5), more = many_experts(18), dense = *variant_named("llama");
    assert_int_equal(tokens_in_memory(&some, 14 * 256), 14 * 256);
    assert_int_equal(tokens_in_memory(&some, 2048), 2048); /* where there is no room for larger ones */
    assert_int_equal(tokens_in_memory(&more, 2048), 4 * 256);
    assert_int_equal(tokens_in_memory(&more, 0), 512); /* a job that does not ask for it */
    assert_int_equal(tokens_in_memory(&dense, 2048), 512);
}

/* If batches are no larger with states in a file, they are in memory. */
TEST(states_are_in_a_file_for_larger_batches) {
    variant v = many_experts(18);
    runner k;
    start(&k, written(&v, GGUF_F32, "model.gguf"), false);
    const forward_model *m = k.m;
    forward_job j = {.windows = 5, .context = 256, .threads = 1, .memory = UINT64_MAX, .batch_tokens = 2048};
    uint64_t most = forward_bounds_of(&j, &m, 1, false).peak;
    size_t files = 0, same = 0;
    for (uint64_t memory = most; memory > most / 4; memory -= most / 500) {
        j.memory = memory, j.batch_tokens = 2048;
        forward_bounds b = forward_bounds_of(&j, &m, 1, false);
        j.batch_tokens = 0;
        forward_bounds usual = forward_bounds_of(&j, &m, 1, false);
        if (usual.in_file) break;
        if (b.in_file != (b.batch > usual.batch))
            fail_msg("%llu bytes: %zu windows, in a file: %d; usually %zu", (unsigned long long)memory,
                     b.batch, b.in_file, usual.batch);
        files += b.in_file, same += !b.in_file && b.batch * j.context < 1024;
    }
    assert_true(files > 0 && same > 0);
    stop(&k);
}

/* Skips every third expert before its first matrix, and every third before its last one. */
static forward_answer skip_some(void *data, const forward_inputs *in, gq_error *e) {
    size_t *skipped = data;
    (void)e;
    bool closes = strstr(in->weights[0]->name, "ffn_down_") != NULL;
    if (!in->routed || in->matrix % 3 == 0 || closes != (in->matrix % 3 == 2)) return FORWARD_ON;
    return ++*skipped, FORWARD_SKIP;
}

/* Appends what the last layer makes of a stream's windows, as rows of tokens. Returns how many were skipped.
 */
static size_t states_after(runner *k, forward_stream *s, const forward_layer *l, bool skips, float *to) {
    size_t skipped = 0, width = forward_model_features(k->m, VARIANT_CONTEXT), token = 0;
    const forward_observer observer = {.on_inputs = skip_some, .data = &skipped};
    for (size_t i = 0; i < forward_stream_batches(s); i++) {
        gq_error e;
        const float *x;
        size_t tokens = VARIANT_IDS / forward_stream_batches(s), stride = forward_stride(tokens);
        if (!forward_stream_probe(s, i, l, FORWARD_WHOLE, skips ? &observer : NULL, &x, &e))
            fail_msg("%s", e.text);
        for (size_t t = 0; t < tokens; t++, token++)
            for (size_t f = 0; f < width; f++) to[token * width + f] = x[f * stride + t];
    }
    return skipped;
}

/* Returns how many experts were skipped. */
static size_t check_what_is_lacking(const variant *v) {
    const char *file = written(v, GGUF_F32, "model.gguf");
    float *x[4];
    size_t n = 0, skipped = 0;
    for (size_t run = 0; run < 4; run++) {
        runner k;
        gq_error e;
        start(&k, file, false);
        forward_run_free(k.r);
        k.r = forward_run_new(&k.job, &(forward_bounds){.batch = run < 2 ? 1 : BATCHES}, &e);
        forward_stream *s = forward_stream_new(k.r, k.m, NULL, &e);
        size_t layers = forward_model_sizes(k.m)->layers;
        assert_true(s && forward_stream_embed(s, NULL, &e));
        for (size_t layer = 0; layer + 1 < layers; layer++)
            assert_true(forward_stream_pass(s, layer_of(&k, layer), FORWARD_WHOLE, NULL, &e));
        n = forward_model_features(k.m, VARIANT_CONTEXT) * VARIANT_IDS;
        x[run] = malloc(n * sizeof *x[run]);
        skipped += states_after(&k, s, layer_of(&k, layers - 1), run % 2, x[run]);
        forward_stream_free(s);
        stop(&k);
    }
    for (int skips = 0; skips < 2; skips++)
        if (memcmp(x[skips], x[2 + skips], n * sizeof **x)) fail_msg("%s: other batches differ", v->name);
    if (skipped && !memcmp(x[0], x[1], n * sizeof **x)) fail_msg("%s: nothing is lacking", v->name);
    for (size_t run = 0; run < 4; run++) free(x[run]);
    return skipped;
}

/* A sum of experts lacks those that were skipped, and no others, however experts and windows are put
 * together. */
TEST(sums_lack_what_was_skipped) {
    size_t tried = 0;
    for (size_t i = 0; variant_at(i); i++)
        if (variant_at(i)->experts >= 3) tried += check_what_is_lacking(variant_at(i)) > 0;
    assert_true(tried > 10);
    variant many = many_experts(1);
    assert_true(check_what_is_lacking(&many) > 0);
}

/* ---- replaced weights ---- */

static bool read_rows(void *data, const uint32_t *wanted, size_t n, float *rows, gq_error *e) {
    const model_source *g = data;
    uint64_t all;
    (void)e;
    float *x = tensor_values(g, "token_embd.weight", &all);
    size_t width = all / VARIANT_VOCABULARY;
    for (size_t i = 0; i < n; i++) memcpy(rows + i * width, x + wanted[i] * width, width * sizeof *x);
    free(x);
    return true;
}

static bool read_nothing(void *data, const uint32_t *wanted, size_t n, float *rows, gq_error *e) {
    (void)data, (void)wanted, (void)n, (void)rows;
    return gq_fail(e, "no rows");
}

/* The other model's blocks of the layer's matrices; NULL where it is not a matrix that is told. */
static uint8_t **replace(runner *k, forward_layer *l, size_t layer, const model_source *other) {
    uint8_t **kept = calloc(k->g.n_tensors, sizeof *kept);
    size_t block = layer % forward_model_sizes(k->m)->blocks;
    for (uint64_t i = 0; i < k->g.n_tensors; i++) {
        const model_tensor *t = k->g.tensors[i];
        uint64_t size;
        if (forward_layer_of(k->m, t->name) != block || !forward_feeds(k->m, t)) continue;
        kept[i] = tensor_bytes(other, t->name, &size);
        forward_layer_replace(l, t, other->tensors[i]->type->id, kept[i]);
    }
    return kept;
}

static void take_back(runner *k, forward_layer *l, uint8_t **kept) {
    for (uint64_t i = 0; i < k->g.n_tensors; i++) {
        if (kept[i]) forward_layer_replace(l, k->g.tensors[i], GGUF_F32, NULL);
        free(kept[i]);
    }
    free(kept);
}

/* Both streams, by turns, through the layers of one model; the second with the weights of another one. */
static void run_replaced(const variant *v, uint32_t type) {
    static told expected[2], found[2], again;
    runner k;
    gq_error e;
    const char *own = written(v, GGUF_F32, "model.gguf"), *other = written(v, type, "other.gguf");
    free(reference(own, false, &expected[0])), free(reference(other, false, &expected[1]));
    model_source g = open_model(other);
    start(&k, own, false);
    forward_stream *s[] = {stream_of(&k), stream_of(&k)};
    assert_true(forward_stream_embed(s[0], NULL, &e));
    assert_true(forward_stream_embed(s[1], &(forward_rows){read_rows, &g}, &e));
    for (int i = 0; i < 2; i++) begin(&found[i], FORWARD_ON);
    for (size_t layer = 0; layer < forward_model_sizes(k.m)->layers; layer++) {
        forward_layer *l = layer_of(&k, layer);
        uint8_t **kept = replace(&k, l, layer, &g);
        size_t before = found[0].n;
        begin(&again, FORWARD_ON);
        for (size_t b = 0; b < BATCHES; b++) assert_true(look(s[0], l, FORWARD_WHOLE, b, &again, &e));
        for (int i = 1; i >= 0; i--) {
            forward_layer_use(l, i);
            assert_true(forward_stream_pass(s[i], l, FORWARD_WHOLE,
                                            &(forward_observer){.on_inputs = take, .data = &found[i]}, &e));
        }
        /* looked at while the others were there, but not in use */
        assert_int_equal(again.n, found[0].n - before);
        assert_memory_equal(again.calls, found[0].calls + before, again.n * sizeof *again.calls);
        forward_layer_use(l, true);
        take_back(&k, l, kept);
        assert_true(look(s[0], l, FORWARD_WHOLE, 0, &again, &e)); /* nothing that was freed is read */
    }
    for (int i = 0; i < 2; i++) {
        assert_true(
            forward_stream_final(s[i], &(forward_observer){.on_inputs = take, .data = &found[i]}, &e));
        assert_same(v->name, &expected[i], &found[i]);
    }
    assert_false(forward_stream_embed(s[0], &(forward_rows){read_nothing, NULL}, &e));
    assert_string_equal(e.text, "no rows");
    for (int i = 0; i < 2; i++) forward_stream_free(s[i]);
    stop(&k);
    model_close(&g);
}

TEST(replaced_weights_are_those_of_another_file) {
    for (size_t i = 0; variant_at(i); i++) run_replaced(variant_at(i), GGUF_F16);
    static const uint32_t types[] = {GGUF_Q8_0, GGUF_Q4_0, GGUF_Q6_K};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        variant v = *variant_named(i % 2 ? "llama" : "llama-moe");
        v.ff = 64;
        if (tensor_type_of(types[i])->block_elements > 32) v.width = v.ff = 256;
        run_replaced(&v, types[i]);
    }
}

/* ---- what is added to the state ---- */

/* What a weight gives in batch 0, times its factors, summed over its matrices. */
typedef struct given {
    const model_tensor *t;
    const float *w;
    double *sum; /* [rows][VARIANT_CONTEXT] */
    bool found;
} given;

static forward_answer add_given(void *data, const forward_inputs *in, gq_error *e) {
    given *g = data;
    size_t rows = g->t->ne[1], columns = g->t->ne[0];
    const float *w = g->w + in->matrix * rows * columns;
    (void)e;
    if (in->weights[0] != g->t) return FORWARD_ON;
    g->found = true;
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < in->tokens; i++) {
            double y = 0;
            for (size_t c = 0; c < columns; c++)
                y += (double)w[r * columns + c] * (double)in->x[c * in->stride + i];
            g->sum[r * VARIANT_CONTEXT + (in->token ? in->token[i] : i)] +=
                in->gate ? (double)in->gate[i] * y : y;
        }
    return FORWARD_ON;
}

/* The weight, larger by a quarter, changes the state after its part by a quarter of what it gives. */
static void check_added(const char *name, forward_stream *s, forward_layer *l, forward_sublayers which,
                        const model_tensor *t, const model_source *g, float factor) {
    enum { STRIDE = (VARIANT_CONTEXT + 15) / 16 * 16 };
    uint64_t n;
    gq_error e;
    const float *after;
    float *w = tensor_values(g, t->name, &n), *before = malloc(t->ne[1] * STRIDE * sizeof *before);
    given of = {t, w, calloc(t->ne[1] * VARIANT_CONTEXT, sizeof *of.sum), false};
    double power = 0, off = 0;
    assert_true(forward_stream_probe(s, 0, l, which, &(forward_observer){.on_inputs = add_given, .data = &of},
                                     &after, &e));
    assert_true(of.found);
    memcpy(before, after, t->ne[1] * STRIDE * sizeof *before);
    for (uint64_t i = 0; i < n; i++) w[i] *= 1.25f;
    forward_layer_replace(l, t, GGUF_F32, w), forward_layer_use(l, true);
    assert_true(forward_stream_probe(s, 0, l, which, NULL, &after, &e));
    forward_layer_replace(l, t, GGUF_F32, NULL), forward_layer_use(l, false);
    for (size_t r = 0; r < t->ne[1]; r++)
        for (size_t i = 0; i < VARIANT_CONTEXT; i++) {
            double wanted = 0.25 * (double)factor * of.sum[r * VARIANT_CONTEXT + i],
                   d = (double)after[r * STRIDE + i] - (double)before[r * STRIDE + i] - wanted;
            power += wanted * wanted, off += d * d;
        }
    if (!(off < 1e-6 * power))
        fail_msg("%s: %s: the state is off by %g of what is added, %g", name, t->name, off, power);
    free(w), free(before), free(of.sum);
}

/* A number beside a matrix, NAME.scale, stands between its output and the state. */
TEST(what_has_a_scale_is_not_added) {
    variant v = *variant_named("llama");
    v.extra = "ffn_down.scale=1";
    runner k;
    start(&k, written(&v, GGUF_F32, "scaled.gguf"), false);
    for (uint64_t n = 0; n < k.g.n_tensors; n++) {
        const model_tensor *t = k.g.tensors[n];
        if (strstr(t->name, "ffn_down.weight")) assert_true(forward_adds(k.m, t) == 0);
        if (strstr(t->name, "attn_output.weight")) assert_true(forward_adds(k.m, t) == 1);
    }
    stop(&k);
}

/* Such numbers are among the fewest bytes that a layer takes: rows behind them have their own place. */
TEST(a_layer_with_scales_has_room_for_its_rows) {
    variant v = *variant_named("llama");
    v.extra =
        "attn_q.scale=1;attn_k.scale=1;attn_v.scale=1;attn_output.scale=1;ffn_gate.scale=1;ffn_up.scale=1;"
        "ffn_down.scale=1";
    runner k;
    start(&k, written(&v, GGUF_F32, "scaled.gguf"), false);
    const forward_sizes *s = forward_model_sizes(k.m);
    for (uint64_t most = s->layer_least; most < s->layer_least + s->layer_bytes; most += 500)
        for (size_t i = 0; i < s->layers; i++) {
            uint64_t bytes = forward_layer_bytes(k.m, i, most) + layer_window_bytes(&k.m->layers[i], most);
            assert_true(k.m->layers[i].factor[WEIGHT_FFN_DOWN] &&
                        bytes <= forward_layer_memory_bytes(k.m, most));
        }
    stop(&k);
}

TEST(what_is_added_is_what_a_weight_gives) {
    size_t plain = 0, none = 0;
    for (size_t i = 0; variant_at(i); i++) {
        const variant *v = variant_at(i);
        runner k;
        gq_error e;
        start(&k, written(v, GGUF_F32, "model.gguf"), false);
        forward_stream *s = stream_of(&k);
        bool parts = forward_model_splits(k.m);
        size_t blocks = forward_model_sizes(k.m)->blocks, last = forward_model_sizes(k.m)->layers - blocks;
        assert_true(forward_stream_embed(s, NULL, &e));
        for (size_t layer = 0; layer < forward_model_sizes(k.m)->layers; layer++) {
            forward_layer *l = layer_of(&k, layer);
            for (int which = parts ? FORWARD_ATTENTION : FORWARD_WHOLE; which;) {
                for (uint64_t n = 0; n < k.g.n_tensors; n++) {
                    const model_tensor *t = k.g.tensors[n];
                    float factor = forward_adds(k.m, t);
                    bool is_ffn = strstr(t->name, ".ffn_") != NULL;
                    if (model_block_number(t->name) != (int64_t)(layer % blocks) || layer < last ||
                        !forward_feeds(k.m, t))
                        continue;
                    if (parts && is_ffn != (which == FORWARD_FFN)) continue;
                    if (factor != 0) check_added(v->name, s, l, (forward_sublayers)which, t, &k.g, factor);
                    plain += factor != 0;
                    none += factor == 0 && strstr(t->name, "ffn_down");
                }
                if (!forward_stream_pass(s, l, (forward_sublayers)which, NULL, &e))
                    fail_msg("%s: %s", v->name, e.text);
                which = which == FORWARD_ATTENTION ? FORWARD_FFN : 0;
            }
        }
        forward_stream_free(s);
        stop(&k);
    }
    assert_true(plain > 400 && none > 20);
}

/* ---- which weights are fed ---- */

typedef struct named {
    const model_source *g;
    bool *told; /* by place in the file */
} named;

static forward_answer note(void *data, const forward_inputs *in, gq_error *e) {
    named *n = data;
    (void)e;
    for (size_t w = 0; w < in->n_weights; w++)
        for (uint64_t i = 0; i < n->g->n_tensors; i++)
            if (n->g->tensors[i] == in->weights[w]) n->told[i] = true;
    return FORWARD_ON;
}

TEST(what_is_fed_is_told) {
    for (size_t i = 0; variant_at(i); i++) {
        model_source g = open_model(written(variant_at(i), GGUF_F32, "model.gguf"));
        named n = {&g, calloc(g.n_tensors, sizeof *n.told)};
        gq_error e;
        size_t vocabulary;
        free(forward_whole(&g,
                           &(forwarding){.ids = ids,
                                         .n = VARIANT_IDS,
                                         .context = VARIANT_CONTEXT,
                                         .threads = 1,
                                         .observer = &(forward_observer){.on_inputs = note, .data = &n}},
                           &vocabulary, &e));
        forward_model *m = forward_model_new(&g, &e);
        for (uint64_t t = 0; t < g.n_tensors; t++) {
            bool embedding = !strcmp(g.tensors[t]->name, "token_embd.weight") ||
                             !strncmp(g.tensors[t]->name, "output_hc_", 10);
            if (forward_feeds(m, g.tensors[t]) != (n.told[t] && !embedding))
                fail_msg("%s: %s", variant_at(i)->name, g.tensors[t]->name);
        }
        forward_model_free(m);
        free(n.told);
        model_close(&g);
    }
}

int main(void) {
    for (size_t i = 0; i < VARIANT_IDS; i++) ids[i] = variant_id(i);
    return tests_run(folder_make, folder_remove);
}
