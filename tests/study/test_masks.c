/* Diffusion language models, which predict what masks stand for: which tokens are masked, and what follows from
 * that for evaluations and importance data, on models whose predictions are known. In these a token is all that
 * its place's logits follow from: its embedding is a unit vector, no part of the only layer adds anything, and
 * the output matrix has the logits. */
#include <math.h>

#include "imatrix/imatrix.h"
#include "study/sweep/sweep.h"
#include "tests/support/evaluation_model.h"
#include "tests/support/folder.h"

enum { VOCABULARY = 64, MASK = 63, CONTEXT = 20, WINDOWS = 60 };

static char ids[4 * CONTEXT * WINDOWS + 1];
static float logits[2][VOCABULARY][VOCABULARY]; /* [copy][token that is there][token that is predicted] */

/* ---- the models ---- */

static void add(model *m, const char *name, uint64_t rows, const float *x) {
    float none[VOCABULARY * VOCABULARY] = {0}, ones[VOCABULARY];
    for (size_t i = 0; i < VOCABULARY; i++) ones[i] = 1;
    model_add(m, name, GGUF_F32, (uint64_t[4]){VOCABULARY, rows}, x ? x : rows ? none : ones);
}

/* mask: the token that its metadata name; 0: none. */
static void write_model(const char *name, const char *arch, int shifts, uint32_t mask, size_t copy) {
    static const char *const numbers[] = {"attention.head_count", "attention.head_count_kv"},
                             *const norms[] = {"attn_norm", "ffn_norm"}, *const matrices[] = {"attn_q",
                                                                                              "attn_k",
                                                                                              "attn_v",
                                                                                              "attn_output",
                                                                                              "ffn_gate",
                                                                                              "ffn_up",
                                                                                              "ffn_down"};
    static const char *const sizes[] = {"embedding_length", "feed_forward_length"};
    static float unit[VOCABULARY][VOCABULARY], out[VOCABULARY][VOCABULARY];
    float epsilon = 1e-12F;
    char key[64];
    model *m = model_new(arch, 1);
    for (size_t i = 0; i < 2; i++) {
        snprintf(key, sizeof key, "%s.%s", arch, numbers[i]), model_set_u32(m, key, 2);
        snprintf(key, sizeof key, "%s.%s", arch, sizes[i]), model_set_u32(m, key, VOCABULARY);
    }
    snprintf(key, sizeof key, "%s.context_length", arch), model_set_u32(m, key, 512);
    snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", arch);
    model_set(m, key, GGUF_FLOAT32, &epsilon, 4);
    token_model_letters(m, false, VOCABULARY);
    if (mask) model_set_u32(m, "tokenizer.ggml.mask_token_id", mask);
    if (!shifts) model_set(m, "diffusion.shift_logits", GGUF_BOOL, &(uint8_t){0}, 1);
    if (shifts > 1) model_set_u32(m, "diffusion.shift_logits", 0);
    for (size_t i = 0; i < VOCABULARY; i++)
        for (size_t k = 0; k < VOCABULARY; k++)
            unit[i][k] = i == k, out[i][k] = logits[copy][k][i] / sqrtf(VOCABULARY);
    add(m, "token_embd.weight", VOCABULARY, *unit), add(m, "output.weight", VOCABULARY, *out);
    add(m, "output_norm.weight", 0, NULL);
    for (size_t i = 0; i < 2; i++)
        snprintf(key, sizeof key, "blk.0.%s.weight", norms[i]), add(m, key, 0, NULL);
    for (size_t i = 0; i < 7; i++)
        snprintf(key, sizeof key, "blk.0.%s.weight", matrices[i]), add(m, key, VOCABULARY, NULL);
    model_save(m, path(name));
}

FIXTURE(make_models) {
    folder = temporary_folder();
    for (size_t copy = 0; copy < 2; copy++) {
        float *x = random_values(VOCABULARY * VOCABULARY, 7 + copy);
        for (size_t i = 0; i < VOCABULARY * VOCABULARY; i++)
            (&logits[copy][0][0])[i] = copy ? (&logits[0][0][0])[i] + 10 * x[i] : 30 * x[i];
        free(x);
    }
    for (size_t copy = 0; copy < 2;
         copy++) { /* e, f and what a mask tells of them; g is not likely anywhere */
        logits[copy][MASK][4] = logits[copy][MASK][5] = logits[copy][1][4] = 9;
        logits[copy][4][4] = logits[copy][4][5] = logits[copy][1][6] = logits[copy][MASK][6] = -9;
    }
    for (size_t copy = 0; copy < 2; copy++) {
        write_model(copy ? "dream-copy.gguf" : "dream.gguf", "dream", true, MASK, copy);
        write_model(copy ? "llada-copy.gguf" : "llada.gguf", "llada", false, MASK, copy);
    }
    for (size_t i = 0, at = 0; i < WINDOWS * CONTEXT; i++)
        at += (size_t)snprintf(ids + at, sizeof ids - at, "%zu ", i * i * 31 % 61);
    return 0;
}

static gq_text text_of(const char *bytes) {
    return (gq_text){.name = "ids", .bytes = bytes, .n = strlen(bytes), .ids = true, .context = CONTEXT};
}

static text_windows masked(const char *name, gq_text text) {
    static const windows_limits limits = {.memory = 1 << 30};
    model_source m = open_model(path(name));
    text_windows w;
    warning_list warnings = {0};
    gq_error e;
    if (!windows_read(&w, &text, &m, VOCABULARY, &limits, &warnings, &e) ||
        !masks_set(&w, &m, VOCABULARY, MASKS_DRAWN, &e))
        fail_msg("%s", e.text);
    model_close(&m), warnings_free(&warnings);
    return w;
}

static bool is_masked(const text_windows *w, size_t t) { return w->masked[t].weight > 0; }

/* ---- which tokens are masked ---- */

TEST(any_number_of_tokens_is_masked) {
    text_windows w = masked("llada.gguf", text_of(ids));
    size_t at[CONTEXT] = {0}, numbers[CONTEXT] = {0}, n_numbers = 0;
    for (size_t i = 0; i < w.n; i++) {
        size_t n = 0;
        for (size_t t = i * CONTEXT; t < (i + 1) * CONTEXT; t++) {
            assert_int_equal(w.masked[t].token, t * t * 31 % 61);
            assert_int_equal(w.ids[t], is_masked(&w, t) ? MASK : w.masked[t].token);
            n += is_masked(&w, t), at[t % CONTEXT] += is_masked(&w, t);
        }
        double share = ((double)i + 1) * (sqrt(5) - 1) / 2;
        assert_int_equal(n, 1 + (size_t)((share - floor(share)) * (CONTEXT - 1)));
        for (size_t t = i * CONTEXT; t < (i + 1) * CONTEXT; t++)
            assert_true(!is_masked(&w, t) || w.masked[t].weight == (float)((CONTEXT - 1) / (double)n));
        n_numbers += !numbers[n]++;
    }
    assert_true(w.in_place && n_numbers == CONTEXT - 1 && at[0] == 0);
    for (size_t t = 1; t < CONTEXT; t++) assert_in_range(at[t], WINDOWS / 4, WINDOWS * 3 / 4);
    windows_free(&w);
}

TEST(masks_do_not_depend_on_what_follows) {
    gq_text some = text_of(ids);
    some.tokens = 7 * CONTEXT;
    text_windows w = masked("llada.gguf", text_of(ids)), few = masked("dream.gguf", some);
    assert_int_equal(few.n, 7);
    assert_memory_equal(w.ids, few.ids, 7 * CONTEXT * sizeof *w.ids);
    assert_memory_equal(w.masked, few.masked, 7 * CONTEXT * sizeof *w.masked);
    assert_false(few.in_place);
    windows_free(&w), windows_free(&few);
}

/* Of a conversation tokens that count are masked, as much as they count. */
TEST(conversations_are_masked_where_they_count) {
    static const char chats[] = "#gquant-chats 1\n=0 1 2 3 4 =1 5 6 =0 7 8 =0.5 9 10 11\n=1 12 13 14\n";
    gq_text text = text_of(chats);
    text.context = 128;
    text_windows w = masked("llada.gguf", text);
    double sums[2] = {0};
    for (size_t t = 0; t < w.n * w.context; t++) {
        assert_true(!is_masked(&w, t) || (w.marks[t].weight && w.marks[t].position));
        sums[t >= 64] += (double)w.masked[t].weight;
        if (t % 64 < 3) assert_false(is_masked(&w, t) && t < 64);
    }
    assert_true(w.n == 1 && w.texts == 2 && sums[0] > 0 && fabs(sums[1] - 2) < 1e-6);
    windows_free(&w);
}

/* ---- evaluations ---- */

static double log_sum(const float *z) {
    double sum = 0;
    for (size_t i = 0; i < VOCABULARY; i++) sum += exp((double)z[i]);
    return log(sum);
}

static gq_evaluation_request request_of(const char *name, const char *const *copy) {
    return (gq_evaluation_request){sizeof(gq_evaluation_request), .base_model = path(name), .quants = copy,
                                   .n_quants = copy ? 1 : 0,      .text = text_of(ids),     .threads = 1};
}

static void masks_are_scored_as_it_is_known(const char *name, const char *copy) {
    text_windows w = masked(name, text_of(ids));
    double all = 0, nll = 0, apart = 0, same = 0;
    size_t n = 0;
    for (size_t t = 0; t < w.n * CONTEXT; t++) {
        if (!is_masked(&w, t)) continue;
        uint32_t from = w.in_place ? (uint32_t)MASK : w.ids[t - 1];
        const float *p = logits[0][from], *q = logits[1][from];
        double weight = (double)w.masked[t].weight, of_p = log_sum(p), of_q = log_sum(q);
        size_t top[2] = {0};
        all += weight, nll += weight * (of_p - (double)p[w.masked[t].token]), n++;
        for (size_t i = 0; i < VOCABULARY; i++) {
            double log_p = (double)p[i] - of_p;
            apart += weight * exp(log_p) * (log_p - ((double)q[i] - of_q));
            if (p[i] > p[top[0]]) top[0] = i;
            if (q[i] > q[top[1]]) top[1] = i;
        }
        same += weight * (top[0] == top[1]);
    }
    gq_evaluation_request r = request_of(name, &copy);
    gq_evaluation *v = must_evaluate(&r);
    const gq_evaluated *m = gq_evaluation_models(v, &(size_t){0});
    const gq_evaluation_facts *facts = gq_evaluation_summary(v);
    assert_near(all, WINDOWS * (CONTEXT - 1), 2e-5);
    assert_near(m[0].perplexity.value, exp(nll / all), 2e-5);
    assert_near(m[1].kld.value, apart / all, 2e-5), assert_near(m[1].top1_agreement.value, same / all, 2e-5);
    assert_true(facts->masked && facts->scored == n && m[1].kld.value > 1e-5);
    r.threads = 3, r.memory = 1, r.folder = folder;
    gq_evaluation *again = must_evaluate(&r);
    assert_memory_equal(&gq_evaluation_models(again, &(size_t){0})[1].kld, &m[1].kld, sizeof m[1].kld);
    gq_evaluation_free(v), gq_evaluation_free(again);
    windows_free(&w);
}

TEST(masks_are_scored) {
    masks_are_scored_as_it_is_known("dream.gguf", path("dream-copy.gguf"));
    masks_are_scored_as_it_is_known("llada.gguf", path("llada-copy.gguf"));
}

/* Both tokens of the right choice are likely where masks stand; were they seen, they would not be. */
TEST(choices_are_masked) {
    static const char *const choices[] = {"g", "ef"}, *const names[] = {"dream.gguf", "llada.gguf"};
    const gq_question questions[] = {{.text = "ab", .choices = choices, .n_choices = 2, .answer = 1}};
    for (size_t i = 0; i < 2; i++) {
        gq_evaluation_request r = request_of(names[i], NULL);
        gq_chosen chosen;
        r.questions = questions, r.n_questions = 1;
        gq_evaluation *v = must_evaluate(&r);
        assert_true(gq_evaluation_chosen(v, 0, &chosen));
        assert_int_equal(chosen.right, 1);
        gq_evaluation_free(v);
    }
}

TEST(what_masks_cannot_do_is_refused) {
    gq_evaluation_request r = request_of("llada.gguf", NULL);
    r.stride = 5, must_not_evaluate(&r, "llada.gguf is a diffusion language model");
    r.stride = 0, r.base_out = path("base"), must_not_evaluate(&r, "files of log-probabilities");
    r = request_of("llada.gguf", NULL), r.prompts = 1,
    must_not_evaluate(&r, "need a model that predicts the next token");
    write_model("none.gguf", "llada", false, 0, 0);
    write_model("beyond.gguf", "llada", false, VOCABULARY, 0);
    write_model("number.gguf", "llada", 2, MASK, 0);
    r = request_of("number.gguf", NULL),
    must_not_evaluate(&r, "key diffusion.shift_logits has type u32, expected bool");
    r = request_of("none.gguf", NULL), must_not_evaluate(&r, "has no key tokenizer.ggml.mask_token_id");
    r = request_of("beyond.gguf", NULL),
    must_not_evaluate(&r, "is not a token of the model, which has 0 to 63");
}

/* ---- importance data, and the text of a calibration ---- */

TEST(importance_is_of_masked_windows) {
    const gq_text text = text_of(ids);
    text_windows w = masked("llada.gguf", text);
    gq_error e;
    gq_importance_request r = {.size = sizeof r, .texts = &text, .n_texts = 1, .threads = 1};
    r.model = path("llada.gguf"), r.out = path("llada.imatrix");
    gq_importance_plan *p = gq_importance_plan_new(&r, &e);
    gq_imatrix *made = p ? gq_importance_compute(p, NULL, &e) : NULL;
    if (!made) fail_msg("%s", e.text);
    gq_imatrix_free(made), gq_importance_plan_free(p);
    imatrix im;
    gq_file f;
    double seen[VOCABULARY] = {0};
    assert_true(gq_file_open(&f, r.out, &e) && imatrix_read(&im, &f, &e));
    gq_file_close(&f);
    const imatrix_entry *x = imatrix_find(&im, "blk.0.attn_q.weight");
    for (size_t t = 0; t < w.n * CONTEXT; t++) seen[w.ids[t]] += VOCABULARY; /* the square of a normed unit */
    for (size_t i = 0; i < VOCABULARY; i++) assert_true(fabs((double)x->sums[i] - seen[i]) <= 1e-4 * seen[i]);
    assert_true(seen[MASK] > VOCABULARY * WINDOWS && x->counts[0] == CONTEXT * WINDOWS);
    imatrix_free(&im), windows_free(&w);
    r.model = path("none.gguf"), r.out = path("none.imatrix");
    assert_null(gq_importance_plan_new(&r, &e));
    assert_non_null(strstr(e.text, "tokenizer.ggml.mask_token_id"));
}

int main(void) { return tests_run(make_models, folder_remove); }
