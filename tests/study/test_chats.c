/* Conversations with a weight for each token: they do not see each other, and weights count where they should. */
#include <math.h>

#include "tests/support/chats.h"
#include "tests/support/ranks.h"

/* ---- importance data ---- */

static gq_imatrix *computed(const char *name, gq_text text, int threads, uint64_t memory) {
    gq_importance_request r = {sizeof r,       .model = path(name),         .texts = &text,
                               .n_texts = 1,   .out = path("imatrix.gguf"), .force = true,
                               .output = true, .threads = threads,          .memory = memory};
    gq_error e;
    gq_importance_plan *p = gq_importance_plan_new(&r, &e);
    if (!p) fail_msg("%s", e.text);
    gq_imatrix *m = gq_importance_compute(p, NULL, &e);
    if (!m) fail_msg("%s", e.text);
    gq_importance_plan_free(p);
    return m;
}

/* most: how far means may be apart. */
static void assert_same_means(const gq_imatrix *a, const gq_imatrix *b, double most, double counts) {
    size_t n, others;
    const gq_imatrix_row *x = gq_imatrix_rows(a, &n), *y = gq_imatrix_rows(b, &others);
    assert_true(n > 10 && n == others);
    for (size_t i = 0; i < n; i++) {
        assert_string_equal(x[i].name, y[i].name);
        for (uint64_t m = 0; m < x[i].experts; m++)
            assert_true(fabs((double)x[i].counts[m] - counts * (double)y[i].counts[m]) <= 1);
        if (!(fabs(x[i].mean - y[i].mean) <= most * x[i].mean))
            fail_msg("%s: mean %.9g, expected %.9g", x[i].name, x[i].mean, y[i].mean);
        assert_true(fabs(x[i].max - y[i].max) <= most * x[i].max);
    }
}

TEST(conversations_do_not_see_each_other) {
    const char *names[] = {"model.gguf", "experts.gguf"}, *chats = write_chats("a.ids", "0", " =1", false);
    for (size_t i = 0; i < 2; i++) {
        gq_imatrix *packed = computed(names[i], chats_text(chats, 256), 2, 0),
                   *alone = computed(names[i], chats_text(chats, WHOLE), 1, 0);
        assert_same_means(packed, alone, 1e-6, 1);
        gq_imatrix_free(packed), gq_imatrix_free(alone);
    }
}

/* Nothing behind a token that counts can change it, so what does not count there need not be there. */
TEST(what_does_not_count_is_left_out) {
    const char *bare = write_chats("a.ids", "1", " =1", false),
               *more = write_chats("b.ids", "1", " =1", true);
    gq_imatrix *a = computed("experts.gguf", chats_text(bare, 128), 1, 0),
               *b = computed("experts.gguf", chats_text(more, 128), 1, 0);
    assert_same_means(a, b, 1e-6, 1);
    gq_imatrix_free(a), gq_imatrix_free(b);
}

TEST(equal_shares_are_equal_weights) {
    const char *whole = write_chats("a.ids", "1", " =1", false),
               *quarter = write_chats("b.ids", "0.25", "", false);
    gq_imatrix *a = computed("model.gguf", chats_text(whole, 128), 1, 0),
               *b = computed("model.gguf", chats_text(quarter, 128), 1, 0);
    assert_same_means(a, b, 1e-6, 4);
    gq_imatrix_free(a), gq_imatrix_free(b);
}

/* What counts less than a token in all is noted as one token, with the same mean. */
TEST(means_of_little_weight_stay) {
    static const char whole[] = "#gquant-chats 1\n=1 5 6 7\n", little[] = "#gquant-chats 1\n=0.0625 5 6 7\n";
    write_whole(path("a.ids"), whole, strlen(whole)), write_whole(path("b.ids"), little, strlen(little));
    gq_imatrix *a = computed("experts.gguf", chats_text(path("a.ids"), 16), 1, 0),
               *b = computed("experts.gguf", chats_text(path("b.ids"), 16), 1, 0);
    size_t n, others, raised = 0;
    const gq_imatrix_row *x = gq_imatrix_rows(a, &n), *y = gq_imatrix_rows(b, &others);
    assert_int_equal(n, others);
    for (size_t i = 0; i < n; i++) {
        assert_near(y[i].mean, x[i].mean, 1e-6);
        for (uint64_t m = 0; m < x[i].experts; m++) {
            assert_true((x[i].counts[m] > 0) == (y[i].counts[m] > 0));
            if (y[i].counts[m] > 0) assert_true(y[i].counts[m] == 1);
            raised += y[i].counts[m] > 0;
        }
    }
    assert_true(raised > 10);
    gq_imatrix_free(a), gq_imatrix_free(b);
}

typedef struct late_work {
    const char *model, *chats;
    bool ok[RANKS_MOST];
} late_work;

static void compute_late(void *data, gq_comm *comm) {
    late_work *w = data;
    gq_text text = chats_text(w->chats, 96);
    gq_importance_request r = {sizeof r,     .model = w->model,        .texts = &text, .n_texts = 1,
                               .threads = 2, .out = path("late.gguf"), .force = true,  .comm = comm};
    gq_error e;
    gq_importance_plan *p = gq_importance_plan_new(&r, &e);
    gq_imatrix *m = p ? gq_importance_compute(p, NULL, &e) : NULL;
    w->ok[gq_comm_rank(comm)] = m;
    gq_imatrix_free(m), gq_importance_plan_free(p);
}

/* Experts that see a token several times, with weights: the same bytes for one process and for ranks. */
TEST(late_experts_know_weights) {
    size_t n[2];
    uint8_t *bytes[2];
    char *to = strdup(path("late.ids"));
    model_save(variant_model(variant_named("grovemoe"), GGUF_F32, NULL), path("grove.gguf"));
    FILE *f = fopen(to, "w");
    fputs(MAGIC, f);
    for (size_t c = 0; c < CHATS; c++) {
        for (size_t t = 0; t < length_of(c); t++)
            fprintf(f, "%s %zu", t % 3 ? " =1" : " =0.3", (c + 2) * (t + 1) * 7 % VARIANT_VOCABULARY);
        fputs("\n", f);
    }
    fclose(f);
    for (int ranks = 0; ranks < 2; ranks++) {
        late_work w = {.model = path("grove.gguf"), .chats = to};
        if (ranks)
            ranks_run(2, compute_late, &w, -1, 0, false);
        else
            compute_late(&w, NULL);
        assert_true(w.ok[0] && (!ranks || w.ok[1]));
        bytes[ranks] = read_whole(path("late.gguf"), &n[ranks]);
    }
    assert_int_equal(n[0], n[1]);
    assert_memory_equal(bytes[0], bytes[1], n[0]);
    free(bytes[0]), free(bytes[1]), free(to);
}

/* Windows of a plain file of ids as conversations: the same bytes, whatever the threads and the memory. */
TEST(whole_windows_are_the_text) {
    FILE *plain = fopen(path("text.ids"), "w"), *chats = fopen(path("chats.ids"), "w");
    size_t n, other;
    fputs(MAGIC, chats);
    for (size_t c = 0; c < CHATS; c++) {
        for (size_t t = 0; t < WHOLE; t++)
            fprintf(plain, "%u ", id_of(c, t)),
                fprintf(chats, "%u%c", id_of(c, t), t + 1 < WHOLE ? ' ' : '\n');
    }
    fclose(plain), fclose(chats);
    gq_imatrix_free(computed("experts.gguf", chats_text(path("text.ids"), WHOLE), 1, 0));
    uint8_t *expected = read_whole(path("imatrix.gguf"), &n);
    rename(path("chats.ids"), path("text.ids"));
    for (int threads = 1; threads <= 3; threads += 2) {
        gq_imatrix_free(computed("experts.gguf", chats_text(path("text.ids"), WHOLE), threads, 0));
        uint8_t *found = read_whole(path("imatrix.gguf"), &other);
        assert_int_equal(n, other);
        assert_memory_equal(found, expected, n);
        free(found);
    }
    free(expected);
}

/* ---- evaluation ---- */

TEST(tokens_are_scored_by_their_weights) {
    const char *copy = path("q2.gguf"), *chats = write_chats("a.ids", "0", " =1", false);
    size_t scored = 0, n;
    for (size_t c = 0; c < CHATS; c++) scored += length_of(c) - 6;
    const uint32_t contexts[] = {WHOLE, 256};
    gq_evaluated found[2][2];
    for (size_t i = 0; i < 2; i++) {
        gq_evaluation_request r = request_of(chats_text(chats, contexts[i]), &copy, 1);
        gq_evaluation *v = must_evaluate(&r);
        const gq_evaluated *models = gq_evaluation_models(v, &n);
        const gq_evaluation_facts *facts = gq_evaluation_summary(v);
        assert_true(facts->scored == scored && facts->texts == CHATS &&
                    (i == 0) == (facts->windows == CHATS));
        memcpy(found[i], models, sizeof found[i]);
        gq_evaluation_free(v);
    }
    assert_near(found[1][0].perplexity.value, found[0][0].perplexity.value, 1e-12);
    assert_near(found[1][1].kld.value, found[0][1].kld.value, 1e-12);
    assert_near(found[1][1].kld.error, found[0][1].kld.error, 1e-9);
    assert_near(found[1][1].top1_agreement.value, found[0][1].top1_agreement.value, 1e-12);
    assert_true(found[1][1].quantiles[GQ_QUANTILES - 1] == found[0][1].quantiles[GQ_QUANTILES - 1]);
}

TEST(intervals_are_of_windows) {
    const char *copies[] = {path("q2.gguf"), path("model.gguf")},
               *chats = write_chats("a.ids", "0", " =1", false);
    gq_evaluation_request r = request_of(chats_text(chats, WHOLE), copies, 2);
    gq_evaluation *v = must_evaluate(&r);
    gq_interval one, again, more, less;
    gq_depth depths[GQ_DEPTHS];
    gq_level level;
    gq_error e;
    size_t n;
    const gq_evaluated *models = gq_evaluation_models(v, &n);
    assert_true(gq_evaluation_interval(v, GQ_KLD, 1, 0, &one, &e));
    assert_true(gq_evaluation_interval(v, GQ_KLD, 1, 0, &again, &e));
    assert_memory_equal(&one, &again, sizeof one);
    assert_near(one.value, models[1].kld.value, 1e-12);
    assert_true(one.windows == CHATS && one.low < one.value && one.value < one.high && one.low > 0);
    assert_true(gq_evaluation_interval(v, GQ_CHANGED_TOP1, 1, 2, &more, &e));
    assert_true(gq_evaluation_interval(v, GQ_CHANGED_TOP1, 2, 1, &less, &e));
    assert_near(more.value, 1 - models[1].top1_agreement.value, 1e-12);
    assert_true(less.value == -more.value);
    assert_false(gq_evaluation_interval(v, GQ_CHANGED_TOP1, 0, 0, &less, &e));
    assert_false(gq_evaluation_interval(v, GQ_CHANGED_TOP1, 1, 3, &less, &e));
    assert_true(gq_evaluation_level(v, 1, &level, &e) && level == GQ_SEVERE_LOSS);
    assert_true(gq_evaluation_level(v, 2, &level, &e) && level == GQ_INDISTINGUISHABLE);
    assert_int_equal(gq_evaluation_depths(v, 1, depths), 1);
    assert_near(depths[0].kld, models[1].kld.value, 1e-12);
    assert_near(depths[0].perplexity, models[1].perplexity.value, 1e-12);
    gq_evaluation_free(v);
}

static void refuse(gq_evaluation_request r, const char *text, const char *expected) {
    gq_error e = {.text = ""};
    char all[4096];
    snprintf(all, sizeof all, "%s%s", MAGIC, text);
    r.text = (gq_text){.name = "chats", .bytes = all, .n = strlen(all), .ids = true, .context = 16};
    gq_evaluation *v = gq_evaluate(&r, &e);
    gq_evaluation_free(v);
    if (v || !strstr(e.text, expected)) fail_msg("'%s' without '%s'", e.text, expected);
}

TEST(what_is_no_conversation_is_refused) {
    gq_evaluation_request r = request_of((gq_text){0}, NULL, 0), strides = r, writes = r;
    refuse(r, "1 2 =x 3", "line 2: found '=x'");
    refuse(r, "1 2\n3 =1.5 4", "line 3: found '=1.5'");
    refuse(r, "1 =-0.5 4", "'=-0.5'");
    refuse(r, "1 two", "found 'two', expected a token id");
    refuse(r, "1 512", "token 512, but the model has 512");
    refuse(r, "=0 1 2 3\n# 4\n\n", "no conversation has a token with a weight above 0");
    refuse(r, "=1 5 =0 6 7 8\n=0.5 6 =0 4\n",
           "chats: in each conversation only the first token has a weight above 0");
    refuse(r, "1 =0.000000000000000000000000000000000000000001 2", "is longer than 40 characters");
    refuse(r, "1 =0,5 2", "'=0,5'");
    refuse(r, "1 =1e-1 2", "'=1e-1'");
    strides.stride = 4, writes.logits = path("logits");
    refuse(strides, "1 2 3", "windows that do not overlap");
    refuse(writes, "1 2 3", "conversations with weights cannot be combined");
}

/* Of a line that is longer than a window no more is held than the window's tokens. */
TEST(what_is_beyond_a_window_is_cut) {
    gq_evaluated found[2];
    for (int is_long = 0; is_long < 2; is_long++) {
        FILE *f = fopen(path("a.ids"), "w");
        fputs(MAGIC, f);
        for (size_t t = 0; t < (is_long ? 100000 : WHOLE); t++) fprintf(f, "%u ", id_of(1, t % 512));
        fclose(f);
        gq_evaluation_request r = request_of(chats_text(path("a.ids"), WHOLE), NULL, 0);
        gq_evaluation *v = must_evaluate(&r);
        size_t n;
        found[is_long] = *gq_evaluation_models(v, &n);
        gq_evaluation_warnings(v, &n);
        assert_int_equal(n, is_long);
        gq_evaluation_free(v);
    }
    assert_true(found[0].perplexity.value == found[1].perplexity.value);
}

/* ---- calibration ---- */

typedef struct calibrate_work {
    const char *chats, *out, *model, *steps, *filetype;
    int threads;
    gq_list types;
    bool ok[RANKS_MOST];
    gq_step router;
} calibrate_work;

static void calibrate(void *data, gq_comm *comm) {
    calibrate_work *w = data;
    gq_calibration c = {sizeof c, .text = chats_text(w->chats, 96), .steps = w->steps};
    gq_output out = {.path = w->out, .filetype = w->filetype ? w->filetype : "Q4_K_M"};
    gq_options o = {sizeof o,      .input = w->model,     .outputs = &out,   .n_outputs = 1,
                    .force = true, .threads = w->threads, .calibration = &c, .comm = comm};
    o.tensor_types = w->types;
    gq_error e;
    gq_plan *p = gq_plan_new(&o, &e);
    gq_results *r = NULL;
    size_t n = 0;
    w->ok[gq_comm_rank(comm)] = p && gq_run(p, NULL, &r, &e);
    const gq_step *steps = r && !comm ? gq_results_steps(r, 0, &n) : NULL;
    for (size_t i = 0; i < n; i++)
        if (!strcmp(steps[i].name, "router")) w->router = steps[i];
    gq_results_free(r), gq_plan_free(p);
}

/* What ranks write, or with 0 of them one process. */
static uint8_t *calibrated(const char *chats, int threads, int ranks, size_t *n) {
    calibrate_work w = {
        .chats = chats, .out = path("out.gguf"), .model = path("experts.gguf"), .threads = threads};
    if (ranks)
        ranks_run(ranks, calibrate, &w, -1, 0, false);
    else
        calibrate(&w, NULL);
    for (int i = 0; i < (ranks ? ranks : 1); i++) assert_true(w.ok[i]);
    return read_whole(path("out.gguf"), n);
}

/* Random windows count as the texts do, so all weights a quarter change no weight of the model. */
TEST(random_windows_count_as_texts_do) {
    size_t n;
    free(calibrated(write_chats("a.ids", "1", "", false), 1, 0, &n));
    rename(path("out.gguf"), path("whole.gguf"));
    free(calibrated(write_chats("b.ids", "0.25", "", false), 1, 0, &n));
    const char *copy = path("out.gguf");
    gq_comparison_request r = {sizeof r, .base_model = path("whole.gguf"), .quants = &copy, .n_quants = 1};
    gq_error e;
    gq_comparison *c = gq_compare(&r, &e);
    if (!c) fail_msg("%s", e.text);
    gq_comparison_tensors(c, 0, &n);
    assert_true(n > 10);
    for (size_t i = 0; i < n; i++) assert_true(gq_comparison_losses(c, 0)[i].e2 == 0);
    gq_comparison_free(c);
}

/* Tokens that hardly count hardly change what a coarse router is found to keep on held-back windows; all else stays
 * nearly as it was. */
TEST(routers_are_checked_by_weights) {
    static const char *const weights[] = {" =0", " =0.004", " =1"}, *coarse = "ffn_gate_inp=Q2_K";
    double lost[3];
    for (size_t i = 0; i < 3; i++) {
        const char *chats = write_chats("a.ids", "1", weights[i], false);
        calibrate_work w = {.chats = chats,
                            .out = path("out.gguf"),
                            .model = path("experts.gguf"),
                            .threads = 1,
                            .steps = "-random",
                            .filetype = "Q8_0",
                            .types = {&coarse, 1}};
        calibrate(&w, NULL);
        assert_true(w.ok[0] && w.router.compared == 1);
        lost[i] = w.router.without;
    }
    if (!(fabs(lost[1] - lost[0]) < .2 * fabs(lost[2] - lost[0])))
        fail_msg("lost %.6g, %.6g, %.6g", lost[0], lost[1], lost[2]);
}

TEST(calibrations_go_by_weights) {
    size_t n, others, unlike;
    const char *chats = write_chats("a.ids", "0.5", " =1", false),
               *alike = write_chats("b.ids", "1", "", false);
    uint8_t *one = calibrated(chats, 1, 0, &n), *three = calibrated(chats, 3, 0, &others),
            *ranks = calibrated(chats, 1, 3, &others), *even = calibrated(alike, 1, 0, &unlike);
    assert_int_equal(n, others);
    assert_memory_equal(one, three, n);
    assert_memory_equal(one, ranks, n);
    assert_true(unlike != n || memcmp(one, even, n) != 0);
    free(one), free(three), free(ranks), free(even);
}

int main(void) { return tests_run(make_models, folder_remove); }
