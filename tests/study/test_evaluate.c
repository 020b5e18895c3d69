/* Models run on a text and compared: figures against those of whole logits, copies that are none, and that
 * the number of threads does not matter. */
#include <math.h>

#include "base/safe_file.h"
#include "quantize/quantize.h"
#include "study/evaluate/evaluate.h"
#include "tests/support/evaluation_model.h"
#include "tests/support/folder.h"

enum { VOCABULARY = 512, CONTEXT = 20, WINDOWS = 5, SCORED = CONTEXT / 2 - 1 };

static char ids[4096];

FIXTURE(make_models) {
    folder = temporary_folder();
    model_save(evaluation_model(2), path("model.gguf"));
    quantize(path("model.gguf"), path("q2.gguf"), "Q2_K", 1);
    quantize(path("model.gguf"), path("q8.gguf"), "Q8_0", 1);
    for (size_t i = 0, at = 0; i < WINDOWS * CONTEXT + 7; i++)
        at += (size_t)snprintf(ids + at, sizeof ids - at, "%zu ", i * i * 31 % VOCABULARY);
    return 0;
}

static gq_evaluation_request request_of(const char *const *copies, size_t n) {
    return (gq_evaluation_request){
        sizeof(gq_evaluation_request),
        .base_model = path("model.gguf"),
        .quants = copies,
        .n_quants = n,
        .text = {.name = "ids", .bytes = ids, .n = strlen(ids), .ids = true, .context = CONTEXT},
        .threads = 1};
}

/* All logits of a model, which is evaluated alone for them. */
static float *logits_of(const char *name) {
    gq_evaluation_request r = request_of(NULL, 0);
    size_t size;
    r.base_model = path(name), r.logits = path("logits"), r.replace_logits = true;
    gq_evaluation_free(must_evaluate(&r));
    float *z = (float *)read_whole(path("logits"), &size);
    assert_int_equal(size, sizeof(float) * VOCABULARY * CONTEXT * WINDOWS);
    return z;
}

static double log_sum(const float *z) {
    long double sum = 0;
    for (size_t i = 0; i < VOCABULARY; i++) sum += expl((long double)z[i]);
    return (double)logl(sum);
}

TEST(figures_are_those_of_the_logits) {
    const char *copies[] = {path("q2.gguf"), path("q8.gguf")};
    gq_evaluation_request r = request_of(copies, 2);
    gq_evaluation *v = must_evaluate(&r);
    size_t n, places = WINDOWS * SCORED;
    const gq_evaluated *models = gq_evaluation_models(v, &n);
    assert_int_equal(n, 3);
    float *z[] = {logits_of("model.gguf"), logits_of("q2.gguf"), logits_of("q8.gguf")};
    double nll[3] = {0}, kl[3] = {0}, most[3] = {0}, change[3] = {0}, same[3] = {0};
    for (size_t w = 0; w < WINDOWS; w++)
        for (size_t t = CONTEXT / 2; t + 1 < CONTEXT; t++) {
            size_t at = w * CONTEXT + t, right = (at + 1) * (at + 1) * 31 % VOCABULARY, top[3] = {0};
            double first_p = 0;
            for (size_t m = 0; m < 3; m++) {
                const float *p = z[0] + at * VOCABULARY, *q = z[m] + at * VOCABULARY;
                double of_p = log_sum(p), of_q = log_sum(q), kl_sum = 0;
                for (size_t i = 0; i < VOCABULARY; i++) {
                    double log_p = (double)p[i] - of_p, log_q = (double)q[i] - of_q;
                    kl_sum += exp(log_p) * (log_p - log_q);
                    if (q[i] > q[top[m]]) top[m] = i;
                }
                double right_p = exp((double)q[right] - of_q);
                if (m == 0) first_p = right_p;
                nll[m] -= log(right_p), kl[m] += kl_sum, same[m] += top[m] == top[0];
                most[m] = fmax(most[m], kl_sum), change[m] += (right_p - first_p) * (right_p - first_p);
            }
        }
    for (size_t m = 0; m < 3; m++) {
        assert_near(models[m].perplexity.value, exp(nll[m] / (double)places), 1e-10);
        if (m == 0) continue;
        assert_near(models[m].kld.value, kl[m] / (double)places, 1e-9);
        assert_near(models[m].quantiles[GQ_QUANTILES - 1], most[m], 1e-9);
        assert_near(models[m].rms_change.value, sqrt(change[m] / (double)places), 1e-9);
        assert_near(models[m].top1_agreement.value, same[m] / (double)places, 1e-12);
        assert_near(models[m].ratio.value, models[m].perplexity.value / models[0].perplexity.value, 1e-12);
    }
    for (size_t m = 0; m < 3; m++) free(z[m]);
    assert_true(models[1].kld.value > 10 * models[2].kld.value);
    gq_estimate more, less;
    gq_evaluation_difference(v, 1, 2, &more), gq_evaluation_difference(v, 2, 1, &less);
    assert_near(more.value, (kl[1] - kl[2]) / (double)places, 1e-9);
    assert_true(less.value == -more.value && less.error == more.error && more.error > 0);
    const gq_evaluation_facts *facts = gq_evaluation_summary(v);
    assert_true(facts->windows == WINDOWS && facts->tokens == WINDOWS * CONTEXT && facts->scored == places);
    assert_string_equal(facts->architecture, "llama");
    assert_string_equal(models[1].filetype, "Q2_K");
    gq_evaluation_free(v);
}

static void assert_same_figures(const gq_evaluation *a, const gq_evaluation *b) {
    const gq_evaluated *x = gq_evaluation_models(a, &(size_t){0}) + 1,
                       *y = gq_evaluation_models(b, &(size_t){0}) + 1;
    assert_memory_equal(&x->kld, &y->kld, sizeof x->kld);
    assert_memory_equal(&x->perplexity, &y->perplexity, sizeof x->perplexity);
    assert_memory_equal(x->quantiles, y->quantiles, sizeof x->quantiles);
}

/* The windows of a stride, cut by hand, score the same: each token is predicted once, from what is before it
 * in its window. Neither threads nor memory matter. */
TEST(windows_may_overlap) {
    enum { STRIDE = 7, MANY = (WINDOWS * CONTEXT + 7 - CONTEXT + STRIDE - 1) / STRIDE };
    char cut[8192];
    double nll = 0;
    for (size_t w = 0, at = 0; w < MANY; w++)
        for (size_t i = w * STRIDE; i < w * STRIDE + CONTEXT; i++)
            at += (size_t)snprintf(cut + at, sizeof cut - at, "%zu ", i * i * 31 % VOCABULARY);
    gq_evaluation_request r = request_of((const char *[]){path("q2.gguf")}, 1);
    r.stride = STRIDE;
    gq_evaluation *v = must_evaluate(&r);
    r.threads = 3, r.memory = 1, r.folder = folder;
    gq_evaluation *in_file = must_evaluate(&r);
    assert_same_figures(v, in_file);
    r = request_of(NULL, 0);
    r.text.bytes = cut, r.text.n = strlen(cut), r.logits = path("cut"), r.replace_logits = true;
    gq_evaluation_free(must_evaluate(&r));
    size_t size;
    float *z = (float *)read_whole(path("cut"), &size);
    assert_int_equal(size, sizeof(float) * VOCABULARY * CONTEXT * MANY);
    for (size_t w = 0; w < MANY; w++)
        for (size_t t = CONTEXT - STRIDE - 1; t + 1 < CONTEXT; t++) {
            const float *p = z + (w * CONTEXT + t) * VOCABULARY;
            size_t next = w * STRIDE + t + 1;
            nll += log_sum(p) - (double)p[next * next * 31 % VOCABULARY];
        }
    free(z);
    const gq_evaluation_facts *facts = gq_evaluation_summary(v);
    assert_true(facts->windows == MANY && facts->scored == MANY * STRIDE && facts->stride == STRIDE);
    assert_near(gq_evaluation_models(v, &size)[0].perplexity.value, exp(nll / (MANY * STRIDE)), 1e-10);
    gq_evaluation_free(v), gq_evaluation_free(in_file);
    r = request_of(NULL, 0);
    r.stride = CONTEXT;
    must_not_evaluate(&r, "expected a stride from 1 to 19");
    r.stride = 1, r.base_out = path("base");
    must_not_evaluate(&r, "overlapping windows");
}

TEST(a_model_is_not_far_from_itself) {
    gq_evaluation_request r = request_of((const char *[]){path("model.gguf")}, 1);
    gq_evaluation *v = must_evaluate(&r);
    const gq_evaluated *m = gq_evaluation_models(v, &(size_t){0});
    assert_true(m[1].kld.value < 1e-13 && m[1].ratio.value == 1 && m[1].ratio.error == 0);
    assert_true(m[1].top1_agreement.value == 1 && m[1].rms_change.value == 0);
    assert_true(m[1].perplexity.value == m[0].perplexity.value && m[0].perplexity.error > 0);
    gq_evaluation_free(v);
}

/* Nor do memory, and where states are when there is too little of it. */
TEST(threads_do_not_matter) {
    gq_evaluation_request r = request_of((const char *[]){path("q2.gguf")}, 1);
    gq_evaluation *one = must_evaluate(&r);
    r.threads = 3;
    gq_evaluation *three = must_evaluate(&r);
    r.text.tokens = 2 * CONTEXT + 1;
    gq_evaluation *two_windows = must_evaluate(&r);
    assert_same_figures(one, three);
    size_t files = count_files(folder);
    r = request_of((const char *[]){path("q2.gguf")}, 1);
    r.memory = 1, r.folder = folder;
    gq_evaluation *from_file = must_evaluate(&r);
    assert_same_figures(one, from_file);
    assert_int_equal(count_files(folder), files);
    gq_evaluation_free(from_file);
    r.folder = path("absent");
    must_not_evaluate(&r, "absent");
    assert_int_equal(gq_evaluation_summary(two_windows)->scored, 2 * SCORED);
    gq_evaluation_free(one), gq_evaluation_free(three), gq_evaluation_free(two_windows);
}

/* ---- what is refused ---- */

static const char *warnings_of(const gq_evaluation *v) {
    static char text[4096];
    size_t n;
    const char *const *warnings = gq_evaluation_warnings(v, &n);
    *text = 0;
    for (size_t i = 0; i < n; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s\n", warnings[i]);
    return text;
}

TEST(copies_are_of_the_original) {
    const char *copies[] = {path("q8.gguf"), path("other.gguf")};
    gq_evaluation_request r = request_of(copies, 2);
    model *m = evaluation_model(1);
    model_write(m, path("other.gguf"));
    gq_evaluation *v = must_evaluate(&r); /* a layer fewer is no matter */
    assert_null(strstr(warnings_of(v), "metadata differ"));
    gq_evaluation_free(v);
    model *other = evaluation_model(2);
    model_set_u32(other, "llama.context_length", 77), model_set_u32(other, "llama.expert_count", 0);
    model_save(other, path("other.gguf"));
    v = must_evaluate(&r);
    assert_non_null(strstr(warnings_of(v), "other.gguf: its metadata differ from those of "));
    assert_null(strstr(warnings_of(v), "context_length"));
    assert_non_null(strstr(warnings_of(v), ": llama.expert_count is 0, there missing"));
    gq_evaluation_free(v);
    const gq_comparison_request of = {
        .size = sizeof of, .base_model = r.base_model, .quants = copies, .n_quants = 2};
    gq_error e;
    size_t n;
    gq_comparison *c = gq_compare(&of, &e);
    assert_non_null(strstr(gq_comparison_warnings(c, &n)[0], ": llama.expert_count is 0, there missing"));
    assert_int_equal(n, 1);
    gq_comparison_free(c);
    enum { ROWS = 512, EACH = 9 }; /* as many tokens, but others: all are "x" */
    static uint8_t texts[12 + ROWS * EACH] = {GGUF_STRING, 0, 0, 0, 0, ROWS / 256};
    for (size_t i = 0; i < ROWS; i++) texts[12 + i * EACH] = 1, texts[12 + i * EACH + 8] = 'x';
    model_set(m, "tokenizer.ggml.tokens", GGUF_ARRAY, texts, sizeof texts);
    model_write(m, path("other.gguf"));
    must_not_evaluate(&r, "other.gguf: its vocabulary differs from that of");
    model_free(m);
    must_not_evaluate(&(gq_evaluation_request){.size = sizeof(gq_evaluation_request),
                                               .base_model = path("absent.gguf"),
                                               .text = r.text},
                      "absent.gguf");
    copies[1] = path("absent.gguf");
    must_not_evaluate(&r, "absent.gguf");
    m = model_new("blub", 1);
    model_add(m, "token_embd.weight", GGUF_F16, (uint64_t[4]){256, 512}, NULL);
    model_save(m, path("blub.gguf"));
    copies[1] = path("blub.gguf");
    must_not_evaluate(&r, "blub");
}

TEST(texts_have_bounds) {
    gq_evaluation_request r = request_of(NULL, 0);
    r.text.context = 3;
    must_not_evaluate(&r, "windows of 3 tokens");
    r.text.context = 5000;
    must_not_evaluate(&r, "ids: has 107 tokens, fewer than one window of 5000");
    r.text.context = CONTEXT, r.text.tokens = 5;
    must_not_evaluate(&r, "5 tokens are fewer than one window");
    r.text = (gq_text){.name = "ids", .bytes = "1 2 3 512", .n = 9, .ids = true, .context = 4};
    must_not_evaluate(&r, "token 4 is 512, but the model has 512 tokens");
    r.text.n = 0;
    must_not_evaluate(&r, "ids: is empty");
}

TEST(long_windows_are_warned_of) {
    gq_evaluation_request r = request_of(NULL, 0);
    r.text.context = 65;
    gq_evaluation *v = must_evaluate(&r);
    size_t n;
    const char *const *warnings = gq_evaluation_warnings(v, &n);
    assert_int_equal(n, 1);
    assert_non_null(strstr(warnings[0], "windows of 65 tokens are longer than the 64"));
    gq_evaluation_free(v);
}

static bool at_once(void *user) {
    (void)user;
    return true;
}

TEST(it_can_be_stopped) {
    gq_evaluation_request r = request_of(NULL, 0);
    gq_error e = {0};
    r.logits = path("stopped");
    r.callbacks = &(gq_callbacks){.size = sizeof(gq_callbacks), .cancelled = at_once};
    assert_null(gq_evaluate(&r, &e));
    assert_int_equal(e.status, GQ_INTERRUPTED);
    assert_false(exists(path("stopped")));
}

TEST(logits_replace_nothing_unasked) {
    gq_evaluation_request r = request_of(NULL, 0);
    write_whole(path("mine"), "mine", 4);
    r.logits = path("mine");
    must_not_evaluate(&r, "already exists");
    size_t before = count_files(folder);
    r.replace_logits = true;
    gq_evaluation_free(must_evaluate(&r));
    assert_int_equal(count_files(folder), before);
}

/* What cannot fit is refused before hours of work, and leaves nothing. */
TEST(logits_that_do_not_fit_the_disk_are_refused_first) {
    gq_error e = {0};
    logits_file f;
    assert_false(logits_file_start(&f, path("huge"), false, UINT64_C(1) << 60, 32000, &e));
    assert_non_null(strstr(e.text, "huge: it needs 1152922 TB and "));
    assert_non_null(strstr(e.text, " are free"));
    assert_false(exists(path("huge")));
    char *beside = safe_file_beside(path("huge"), FILES_LOGITS_SUFFIX);
    assert_false(exists(beside));
    free(beside);
}

int main(void) { return tests_run(make_models, folder_remove); }
