/* What copies are asked besides a text, prompts to continue and questions to answer: against plain windows and whole
 * logits. */
#include <math.h>

#include "tests/support/chats.h"

static uint64_t planned_peak(const gq_evaluation_request *r) {
    gq_error e;
    gq_evaluation *v = gq_evaluation_plan(r, &e);
    if (!v) fail_msg("%s", e.text);
    uint64_t peak = gq_evaluation_summary(v)->peak_bytes;
    gq_evaluation_free(v);
    return peak;
}

/* A question that is far longer than the text's windows takes more than they do, and so is known beforehand. */
TEST(what_is_asked_is_in_the_bounds) {
    enum { LONG = 20000, WIDTH = 256 };
    static char letters[LONG + 1];
    static const char *const choices[] = {"a", "b"};
    const char *copy = path("q2.gguf");
    gq_evaluation_request r =
        request_of(chats_text(write_chats("a.ids", "0", " =1", false), WHOLE), &copy, 1);
    uint64_t bare = planned_peak(&r);
    memset(letters, 'a', LONG);
    gq_question question = {letters, choices, 2, 0};
    r.questions = &question, r.n_questions = 1;
    assert_true(planned_peak(&r) > bare + 2 * (uint64_t)LONG * WIDTH * sizeof(float));
    r.n_questions = 0, r.prompts = 2;
    assert_true(planned_peak(&r) >= bare);
}

/* A vocabulary that ends texts with an EOS ends no question with one, nor a choice. */
TEST(no_eos_stands_behind_what_is_asked) {
    enum { QUESTIONS = 40 };
    static const char *const choices[] = {"a", "bcd", "ee", "hgfa"};
    char texts[QUESTIONS][16];
    gq_question questions[QUESTIONS];
    gq_chosen found[2];
    for (size_t i = 0; i < QUESTIONS; i++) {
        snprintf(texts[i], sizeof texts[i], "%c%c%c", (int)('a' + i % 8), (int)('a' + i * 3 / 7 % 8),
                 (int)('a' + i * 5 / 3 % 8));
        questions[i] = (gq_question){texts[i], choices, 4, i % 4};
    }
    for (int ends = 0; ends < 2; ends++) {
        model *m = evaluation_model(2);
        model_set(m, "tokenizer.ggml.add_eos_token", GGUF_BOOL, &(uint8_t){(uint8_t)ends}, 1);
        model_set_u32(m, "tokenizer.ggml.eos_token_id", 8);
        model_save(m, path("ends.gguf"));
        gq_error e;
        gq_tokens ids;
        gq_tokenizer *t = gq_tokenizer_open(path("ends.gguf"), &e);
        assert_true(t && gq_tokenize(t, "ab", 2, NULL, &ids, &e));
        assert_true((ids.ids[ids.n - 1] == 8) == ends);
        gq_tokens_free(&ids), gq_tokenizer_close(t);
        const char *copy = path("q2.gguf");
        gq_evaluation_request r =
            request_of(chats_text(write_chats("a.ids", "1", "", false), WHOLE), &copy, 1);
        r.original = path("ends.gguf"), r.questions = questions, r.n_questions = QUESTIONS;
        gq_evaluation *v = must_evaluate(&r);
        assert_true(gq_evaluation_chosen(v, 1, &found[ends]));
        gq_evaluation_free(v);
    }
    assert_memory_equal(&found[0], &found[1], sizeof found[0]);
}

/* The logits of the last token of a text. */
static float *logits_of(const char *name, const uint32_t *ids, size_t n) {
    char text[4096];
    size_t size, at = 0;
    for (size_t i = 0; i < n; i++) at += (size_t)snprintf(text + at, sizeof text - at, "%u ", ids[i]);
    gq_text of = {.name = "ids", .bytes = text, .n = at, .ids = true, .context = (uint32_t)n};
    gq_evaluation_request r = request_of(of, NULL, 0);
    r.original = path(name), r.logits = path("logits"), r.replace_logits = true;
    gq_evaluation_free(must_evaluate(&r));
    float *z = (float *)read_whole(path("logits"), &size), *last = malloc(VOCABULARY * sizeof *last);
    memcpy(last, z + (n - 1) * VOCABULARY, VOCABULARY * sizeof *last);
    free(z);
    return last;
}

static uint32_t likeliest(const char *name, const uint32_t *ids, size_t n) {
    float *z = logits_of(name, ids, n);
    uint32_t top = 0;
    for (uint32_t i = 0; i < VOCABULARY; i++)
        if (z[i] > z[top]) top = i;
    free(z);
    return top;
}

TEST(prompts_are_continued_token_by_token) {
    enum { PROMPTS = 3 };
    const char *copy = path("q2.gguf"), *chats = write_chats("a.ids", "0", " =1", false);
    gq_evaluation_request r = request_of(chats_text(chats, WHOLE), &copy, 1);
    r.prompts = PROMPTS;
    gq_evaluation *v = must_evaluate(&r);
    gq_continued found;
    uint64_t parts[GQ_PARTS] = {0};
    for (size_t c = 0; c < PROMPTS; c++) {
        uint32_t ids[6 + GQ_CONTINUED];
        size_t same = GQ_CONTINUED;
        for (size_t t = 0; t < 6; t++) ids[t] = id_of(c, t);
        for (size_t t = 0; t < GQ_CONTINUED; t++) {
            ids[6 + t] = likeliest("model.gguf", ids, 6 + t);
            if (same == GQ_CONTINUED && likeliest("q2.gguf", ids, 6 + t) != ids[6 + t]) same = t;
        }
        parts[same]++;
    }
    assert_false(gq_evaluation_continued(v, 0, &found));
    assert_true(gq_evaluation_continued(v, 1, &found));
    assert_int_equal(found.prompts, PROMPTS);
    assert_memory_equal(found.parts, parts, sizeof parts);
    assert_true(found.same.low <= found.same.value && found.same.value <= found.same.high);
    gq_evaluation_free(v);
}

TEST(questions_are_answered_by_likelihood) {
    enum { QUESTIONS = 12 };
    static const char *const choices[] = {"a", "b", "c"};
    const char *copy = path("q2.gguf");
    char texts[QUESTIONS][16];
    gq_question questions[QUESTIONS];
    for (size_t i = 0; i < QUESTIONS; i++) {
        snprintf(texts[i], sizeof texts[i], "%c%c%c%c", (int)('a' + i % 8), (int)('a' + i * 3 % 8),
                 (int)('a' + i * 5 / 3 % 8), 'h');
        questions[i] = (gq_question){texts[i], choices, 3, i % 3};
    }
    gq_evaluation_request r = request_of(chats_text(write_chats("a.ids", "1", "", false), WHOLE), &copy, 1);
    r.questions = questions, r.n_questions = QUESTIONS;
    gq_evaluation *v = must_evaluate(&r);
    gq_error e;
    gq_tokenizer *t = gq_tokenizer_open(path("model.gguf"), &e);
    assert_non_null(t);
    uint64_t right[2] = {0}, lost = 0, gained = 0;
    for (size_t i = 0; i < QUESTIONS; i++) {
        size_t chosen[2];
        for (size_t m = 0; m < 2; m++) {
            double best = -INFINITY;
            for (size_t c = 0; c < 3; c++) {
                char text[24];
                gq_tokens before, all;
                double sum = 0;
                snprintf(text, sizeof text, "%s %s", texts[i], choices[c]);
                assert_true(gq_tokenize(t, texts[i], strlen(texts[i]), NULL, &before, &e));
                assert_true(gq_tokenize(t, text, strlen(text), NULL, &all, &e));
                assert_true(all.n > before.n && before.n >= 4);
                for (size_t k = before.n; k < all.n; k++) {
                    float *z = logits_of(m ? "q2.gguf" : "model.gguf", all.ids, k);
                    long double whole = 0;
                    for (size_t w = 0; w < VOCABULARY; w++) whole += expl((long double)z[w]);
                    sum += (double)z[all.ids[k]] - (double)logl(whole);
                    free(z);
                }
                if (sum > best) best = sum, chosen[m] = c;
                gq_tokens_free(&before), gq_tokens_free(&all);
            }
            right[m] += chosen[m] == i % 3;
        }
        lost += chosen[0] == i % 3 && chosen[1] != i % 3, gained += chosen[0] != i % 3 && chosen[1] == i % 3;
    }
    gq_tokenizer_close(t);
    for (size_t m = 0; m < 2; m++) {
        gq_chosen found;
        assert_true(gq_evaluation_chosen(v, m, &found));
        assert_true(found.questions == QUESTIONS && found.right == right[m]);
        if (m) assert_true(found.lost == lost && found.gained == gained);
        if (m) assert_near(found.more.value + 1, 1 + ((double)gained - (double)lost) / QUESTIONS, 1e-12);
    }
    gq_evaluation_free(v);
    questions[3].answer = 3;
    r.original = path("model.gguf"), r.text.name = path("a.ids"), r.n_copies = 0; /* path() has few places */
    assert_null(gq_evaluate(&r, &e));
    if (!strstr(e.text, "question 4")) fail_msg("%s", e.text);
}

int main(void) { return tests_run(make_models, folder_remove); }
