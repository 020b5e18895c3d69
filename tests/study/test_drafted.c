/* Drafts of an evaluation: what files that continue a target's states propose, as llama.cpp's library does, and
 * models of the same vocabulary against tokens that are drafted and verified one by one. */
#include <limits.h>
#include <math.h>

#include "study/evaluate/evaluate.h"
#include "tests/support/draft_models.h"
#include "tests/support/evaluation_model.h"
#include "tests/support/folder.h"
#include "tests/support/forward_models.h"

enum { TOKENS = 512, CONTEXT = 20, WINDOWS = 6, FROM = CONTEXT / 2 };

static uint32_t text[WINDOWS * CONTEXT];

static void write_model(const char *name, model *m) { model_save(m, path(name)); }

FIXTURE(make_models) {
    folder = temporary_folder();
    write_model("model.gguf", evaluation_model(2));
    quantize(path("model.gguf"), path("q4.gguf"), "Q4_K_M", 1);
    quantize(path("model.gguf"), path("q2.gguf"), "Q2_K", 1);
    write_model("target.gguf", target_new("target"));
    write_model("gemma4-target.gguf", target_new("gemma4-target"));
    for (size_t i = 0; target_draft_at(i); i++) {
        char name[64];
        snprintf(name, sizeof name, "%s.gguf", target_draft_at(i));
        write_model(name, target_draft_new(target_draft_at(i)));
    }
    for (size_t i = 0; i < WINDOWS * CONTEXT; i++) text[i] = (uint32_t)(i * i * 31 % TOKENS);
    return 0;
}

/* ---- drafts that continue a target's states ---- */

/* Compares with the next line of the golden data: first choices, and tokens behind them, as many as there are. */
static void assert_golden_piece(char *line, const char *name, const draft_texts *t, size_t piece) {
    size_t first = asked_position(&t->texts, t->pieces[piece].from), n = 0;
    char *word = strtok(line, " \n");
    if (!word || strcmp(word, name) != 0) fail_msg("%s: no such line", name);
    word = strtok(NULL, " \n");
    for (; (word = strtok(NULL, " \n")); n++) {
        uint32_t id = (uint32_t)atoi(word),
                 own = n <= FROM ? t->choices[first + n] : t->proposed[piece * GQ_DRAFTED + n - FROM];
        if (own != id) fail_msg("%s, piece %zu: token %zu is %u, expected %u", name, piece, n, own, id);
    }
    assert_true(n > FROM + 1);
    for (n -= FROM; n < GQ_DRAFTED; n++) assert_int_equal(t->proposed[piece * GQ_DRAFTED + n], DRAFT_NONE);
    assert_int_equal(t->proposed[piece * GQ_DRAFTED], t->choices[first + FROM]);
}

static void check_draft(FILE *golden, const char *name, uint64_t memory) {
    gq_error e;
    gq_callbacks callbacks = {.size = sizeof callbacks};
    enum {
        TEXTS = VARIANT_IDS / VARIANT_CONTEXT,
        TIMES = 2
    }; /* two fit a window, so the text is there twice */
    char draft[64], of[64], lines[TEXTS][256], line[256];
    uint32_t ids[TIMES * VARIANT_IDS];
    draft_texts t;
    drafter d;
    snprintf(draft, sizeof draft, "%s.gguf", name);
    snprintf(of, sizeof of, "%s.gguf", target_of_draft(name));
    for (size_t i = 0; i < TIMES * VARIANT_IDS; i++) ids[i] = variant_id(i % VARIANT_IDS);
    text_windows w = {.ids = ids, .n = TIMES * TEXTS, .context = VARIANT_CONTEXT};
    runner target = {.path = path(of), .file = open_model(path(of))};
    target.model = forward_model_new(&target.file, &e);
    side_by_side s = {.runners = &target,
                      .n = 1,
                      .windows = &w,
                      .threads = 1,
                      .memory = 1 << 30,
                      .folder = folder,
                      .callbacks = &callbacks};
    if (!target.model || !drafter_open(&d, path(draft), &target, NULL, &e) || !draft_texts_begin(&t, &s, &e))
        fail_msg("%s: %s", name, e.text);
    s.memory = memory;
    if (!continued_propose(&t, &s, &d, &e)) fail_msg("%s: %s", name, e.text);
    assert_int_equal(t.texts.n, w.n);
    for (size_t i = 0; i < TEXTS; i++) assert_non_null(fgets(lines[i], sizeof lines[i], golden));
    for (size_t i = 0; i < t.texts.n; i++) {
        memcpy(line, lines[i % TEXTS], sizeof line);
        assert_golden_piece(line, name, &t, i);
    }
    draft_texts_free(&t), drafter_close(&d);
    forward_model_free(target.model), model_close(&target.file);
}

TEST(drafts_are_those_of_llama_cpp) {
    FILE *golden = fopen(test_path("golden/continued.txt"), "r");
    assert_non_null(golden);
    for (size_t i = 0; target_draft_at(i); i++) check_draft(golden, target_draft_at(i), 1 << 30);
    rewind(golden); /* with memory for the states of one window */
    for (size_t i = 0; target_draft_at(i); i++) check_draft(golden, target_draft_at(i), 1);
    fclose(golden);
}

/* ---- models of the same vocabulary ---- */

static gq_evaluation *evaluate(const char *original, const char *draft, char *ids, size_t context,
                               const char *logits, gq_error *e) {
    const char *copy = path("q4.gguf");
    gq_evaluation_request r = {
        .size = sizeof r,
        .base_model = path(original),
        .quants = &copy,
        .n_quants = draft != NULL,
        .text = {.name = "ids", .bytes = ids, .n = strlen(ids), .ids = true, .context = (uint32_t)context},
        .logits = logits,
        .replace_logits = true,
        .draft = draft ? path(draft) : NULL,
        .threads = 1};
    return gq_evaluate(&r, e);
}

/* Likeliest tokens of windows of the text with `more` tokens behind each: [window][context + more]. */
static uint32_t *tops_of(const char *name, const uint32_t *more, size_t n_more) {
    size_t context = CONTEXT + n_more, n = WINDOWS * context, at = 0, size;
    char ids[8192];
    gq_error e;
    for (size_t w = 0; w < WINDOWS; w++)
        for (size_t i = 0; i < context; i++)
            at += (size_t)snprintf(ids + at, sizeof ids - at, "%u ",
                                   i < CONTEXT ? text[w * CONTEXT + i] : more[w * GQ_DRAFTED + i - CONTEXT]);
    gq_evaluation *v = evaluate(name, NULL, ids, context, path("logits"), &e);
    if (!v) fail_msg("%s", e.text);
    gq_evaluation_free(v);
    float *z = (float *)read_whole(path("logits"), &size);
    assert_int_equal(size, n * TOKENS * sizeof *z);
    uint32_t *top = calloc(n, sizeof *top);
    for (size_t i = 0; i < n; i++)
        for (uint32_t t = 1; t < TOKENS; t++)
            if (z[i * TOKENS + t] > z[i * TOKENS + top[i]]) top[i] = t;
    free(z);
    return top;
}

TEST(drafts_are_accepted_as_token_by_token) {
    static const char *const targets[] = {"model.gguf", "q4.gguf"};
    uint32_t proposed[WINDOWS * GQ_DRAFTED], *first = tops_of("q2.gguf", NULL, 0);
    char ids[4096];
    gq_error e;
    for (size_t k = 0, n; k < GQ_DRAFTED; k++) {
        uint32_t *top = tops_of("q2.gguf", proposed, k);
        n = CONTEXT + k;
        for (size_t w = 0; w < WINDOWS; w++) proposed[w * GQ_DRAFTED + k] = top[w * n + n - 1];
        free(top);
    }
    for (size_t i = 0, at = 0; i < WINDOWS * CONTEXT; i++)
        at += (size_t)snprintf(ids + at, sizeof ids - at, "%u ", text[i]);
    gq_evaluation *v = evaluate("model.gguf", "q2.gguf", ids, CONTEXT, NULL, &e);
    if (!v) fail_msg("%s", e.text);
    for (size_t m = 0; m < 2; m++) {
        gq_drafted d;
        uint32_t *top = tops_of(targets[m], proposed, GQ_DRAFTED);
        size_t context = CONTEXT + GQ_DRAFTED, same = 0, reach[GQ_DRAFTED] = {0};
        for (size_t w = 0; w < WINDOWS; w++) {
            for (size_t i = FROM - 1; i < CONTEXT; i++)
                same += top[w * context + i] == first[w * CONTEXT + i];
            for (size_t k = 0;
                 k < GQ_DRAFTED && proposed[w * GQ_DRAFTED + k] == top[w * context + CONTEXT - 1 + k]; k++)
                reach[k]++;
        }
        assert_true(gq_evaluation_drafted(v, m, &d));
        assert_int_equal(d.texts, WINDOWS), assert_int_equal(d.positions, WINDOWS * (FROM + 1));
        assert_true(fabs(d.first.value - (double)same / (WINDOWS * (FROM + 1))) < 1e-9);
        assert_true(d.first.value < 1);
        for (size_t k = 0, sum = 0; k < GQ_DRAFTED; k++) {
            sum += reach[k];
            assert_true(fabs(d.accepted[k].value - (double)reach[k] / WINDOWS) < 1e-9);
            assert_true(fabs(d.length[k].value - (double)sum / WINDOWS) < 1e-9);
            assert_true(d.length[k].low <= d.length[k].value && d.length[k].value <= d.length[k].high);
        }
        free(top);
    }
    gq_evaluation_free(v), free(first);
}

/* ---- the forecast ---- */

static double expected_seconds(const char *draft) {
    gq_error e;
    char ids[4096];
    const char *copy = path("q4.gguf");
    for (size_t i = 0, at = 0; i < WINDOWS * CONTEXT; i++)
        at += (size_t)snprintf(ids + at, sizeof ids - at, "%u ", text[i]);
    gq_evaluation_request r = {
        .size = sizeof r,
        .base_model = path("model.gguf"),
        .quants = &copy,
        .n_quants = 1,
        .text = {.name = "ids", .bytes = ids, .n = strlen(ids), .ids = true, .context = CONTEXT},
        .draft = draft,
        .forecast = true,
        .threads = 1};
    gq_evaluation *v = gq_evaluation_plan(&r, &e);
    if (!v) fail_msg("%s", e.text);
    double seconds = gq_evaluation_summary(v)->seconds_expected;
    gq_evaluation_free(v);
    return seconds;
}

/* Of a draft as large as the models: it runs four times, and both verify. Pieces are longer than windows are. */
TEST(drafts_count_in_the_forecast) {
    double without = expected_seconds(NULL), with = expected_seconds(path("q2.gguf"));
    assert_true(without > 0);
    if (with < 3 * without || with > 12 * without) fail_msg("%g seconds, and with a draft %g", without, with);
}

/* ---- what is refused ---- */

static void assert_refused(const char *draft, const char *why) {
    gq_error e;
    char ids[256] = "";
    for (size_t i = 0, at = 0; i < 2 * CONTEXT; i++)
        at += (size_t)snprintf(ids + at, sizeof ids - at, "%zu ", i);
    gq_evaluation *v = evaluate("model.gguf", draft, ids, CONTEXT, NULL, &e);
    assert_null(v);
    if (!strstr(e.text, why)) fail_msg("%s: %s", draft, e.text);
}

TEST(other_drafts_are_refused_by_name) {
    assert_refused("target.gguf", "target.gguf has a vocabulary of 96 tokens, and");
    assert_refused("shared.gguf", "target_hidden_size is 32");
    assert_refused("dflash.gguf", "embedding_length is 32, but");
    model *v4 = target_draft_new("dflash");
    model_set_u32(v4, "dflash.hyper_connection.count", 4);
    write_model("v4.gguf", v4);
    assert_refused("v4.gguf", "belongs to a draft of DeepSeek V4");
    model *short_blocks = target_draft_new("dspark-bonus"); /* a block's first token is the anchor alone */
    model_set_u32(short_blocks, "dflash.block_size", 1);
    write_model("short.gguf", short_blocks);
    char short_one[PATH_MAX];
    gq_error e;
    snprintf(short_one, sizeof short_one, "%s", path("short.gguf"));
    assert_false(gq_check_draft(short_one, path("target.gguf"), NULL, &e));
    if (!strstr(e.text, "block_size")) fail_msg("%s", e.text);
    assert_refused("assistant.gguf", "embedding_length_out is 32, but");
    write_model("t5.gguf", variant_model(variant_named("t5"), GGUF_F32, NULL));
    write_model("bert.gguf", variant_model(variant_named("bert"), GGUF_F32, NULL));
    assert_refused("t5.gguf", "models of architecture 't5' do not predict the next token");
    assert_refused("bert.gguf", "models of architecture 'bert' do not predict the next token");
}

int main(void) { return tests_run(make_models, folder_remove); }
