/* llama.cpp's files of log-probabilities: their bytes against the layout's formulas, divergences from them
 * against those from the model itself, and files that are damaged. */
#include <math.h>

#include "tests/support/evaluation_model.h"
#include "tests/support/folder.h"
#include "tests/support/numbers.h"

enum {
    VOCABULARY = 512,
    CONTEXT = 20,
    WINDOWS = 5,
    SCORED = CONTEXT / 2 - 1,
    ROWS_AT = 20 + 4 * WINDOWS * CONTEXT,
    ROW = 8 + 2 * VOCABULARY
};

static char ids[4096];

FIXTURE(make_models) {
    folder = temporary_folder();
    model_save(evaluation_model(2), path("model.gguf"));
    quantize(path("model.gguf"), path("q2.gguf"), "Q2_K", 1);
    quantize(path("model.gguf"), path("q8.gguf"), "Q8_0", 1);
    for (size_t i = 0, at = 0; i < WINDOWS * CONTEXT; i++)
        at += (size_t)snprintf(ids + at, sizeof ids - at, "%zu ", (i * i * 31 + 3) % 500);
    return 0;
}

static gq_evaluation_request request_on_text(const char *const *copies, size_t n) {
    return (gq_evaluation_request){
        sizeof(gq_evaluation_request),
        .base_model = path("model.gguf"),
        .quants = copies,
        .n_quants = n,
        .text = {.name = "ids", .bytes = ids, .n = strlen(ids), .ids = true, .context = CONTEXT},
        .threads = 1};
}

static gq_evaluation_request request_on_base(const char *base, const char *const *copies, size_t n) {
    return (gq_evaluation_request){sizeof(gq_evaluation_request), .base = base, .quants = copies,
                                   .n_quants = n, .threads = 1};
}

/* A row of the file against its position's logits; the numbers of a row may differ in their last digits. */
static void check_row(const uint8_t *row, const float *z) {
    float scale, least, largest = z[0], smallest = z[0];
    double sum = 0;
    memcpy(&scale, row, 4), memcpy(&least, row + 4, 4);
    for (size_t i = 0; i < VOCABULARY; i++) largest = fmaxf(largest, z[i]), smallest = fminf(smallest, z[i]);
    for (size_t i = 0; i < VOCABULARY; i++) sum += exp((double)z[i] - (double)largest);
    smallest = fmaxf(smallest, largest - 16);
    assert_near((double)scale, (double)(largest - smallest) / 65535, 1e-6);
    assert_near((double)least, (double)smallest - (double)largest - log(sum), 1e-6);
    for (size_t i = 0; i < VOCABULARY; i++) {
        uint16_t code;
        memcpy(&code, row + 8 + 2 * i, 2);
        double exact = z[i] > smallest ? (double)(z[i] - smallest) / (double)scale : 0;
        if (fabs(code - exact) > 0.51) fail_msg("code %u, expected %.2f", code, exact);
    }
}

TEST(bytes_are_those_of_the_layout) {
    gq_evaluation_request r = request_on_text(NULL, 0);
    size_t size, logits_size;
    r.logits = path("logits"), r.base_out = path("base");
    gq_evaluation_free(must_evaluate(&r));
    uint8_t *base = read_whole(path("base"), &size);
    float *z = (float *)read_whole(path("logits"), &logits_size);
    const int32_t head[] = {CONTEXT, VOCABULARY, WINDOWS};
    assert_int_equal(size, ROWS_AT + WINDOWS * SCORED * ROW);
    assert_memory_equal(base, "_logits_", 8);
    assert_memory_equal(base + 8, head, sizeof head);
    for (size_t i = 0; i < WINDOWS * CONTEXT; i++) {
        uint32_t id;
        memcpy(&id, base + 20 + 4 * i, 4);
        assert_int_equal(id, (i * i * 31 + 3) % 500); /* not BOS, which the models saw */
    }
    for (size_t w = 0; w < WINDOWS; w++)
        for (size_t t = 0; t < SCORED; t++)
            check_row(base + ROWS_AT + (w * SCORED + t) * ROW,
                      z + (w * CONTEXT + CONTEXT / 2 + t) * VOCABULARY);
    free(base), free(z);
}

/* 16 bits a logarithm change the divergence by their square at most: by some 1e-8 here. */
static void assert_same_klds(const gq_evaluation *a, const gq_evaluation *b) {
    size_t n, of_b;
    const gq_evaluated *x = gq_evaluation_models(a, &n), *y = gq_evaluation_models(b, &of_b);
    assert_int_equal(n, of_b);
    for (size_t m = 0; m < n; m++) {
        assert_near(y[m].perplexity.value, x[m].perplexity.value, 1e-4);
        if (m == 0) continue;
        assert_near(y[m].kld.value, x[m].kld.value, 1e-3);
        assert_true(y[m].top1_agreement.value == x[m].top1_agreement.value);
        assert_true(y[m].perplexity.value == x[m].perplexity.value);
    }
}

TEST(a_base_stands_for_its_model) {
    const char *copies[] = {path("q2.gguf"), path("q8.gguf")};
    gq_evaluation_request r = request_on_text(copies, 2), from = request_on_base(path("base"), copies, 2);
    r.base_out = path("base"), r.replace_logits = true;
    gq_evaluation *direct = must_evaluate(&r), *by_base = must_evaluate(&from);
    assert_same_klds(direct, by_base);
    assert_string_equal(gq_evaluation_models(by_base, &(size_t){0})[0].path, path("base"));
    assert_int_equal(gq_evaluation_summary(by_base)->scored, WINDOWS * SCORED);
    from.threads = 3, from.memory = 1, from.folder = folder; /* batches of a window, states in a file */
    gq_evaluation *in_file = must_evaluate(&from);
    assert_memory_equal(&gq_evaluation_models(in_file, &(size_t){0})[1].kld,
                        &gq_evaluation_models(by_base, &(size_t){0})[1].kld, sizeof(gq_estimate));
    gq_evaluation_free(direct), gq_evaluation_free(by_base), gq_evaluation_free(in_file);
}

/* The same bytes for any number of threads and any width of batches. */
TEST(a_base_is_always_the_same) {
    size_t n, m;
    gq_evaluation_request r = request_on_text(NULL, 0);
    r.base_out = path("one"), r.replace_logits = true;
    gq_evaluation_free(must_evaluate(&r));
    r.base_out = path("other"), r.threads = 3, r.memory = 1, r.folder = folder;
    gq_evaluation_free(must_evaluate(&r));
    uint8_t *a = read_whole(path("one"), &n), *b = read_whole(path("other"), &m);
    assert_int_equal(n, m);
    assert_memory_equal(a, b, n);
    free(a), free(b);
}

/* Whole windows of a run that was stopped can be used. */
TEST(a_file_may_end_early) {
    const char *copies[] = {path("q2.gguf")};
    gq_evaluation_request r = request_on_base(path("cut"), copies, 1);
    size_t n;
    uint8_t *base = read_whole(path("base"), &n);
    write_whole(path("cut"), base, ROWS_AT + 3 * SCORED * ROW - 1);
    gq_evaluation *v = must_evaluate(&r);
    const char *const *warnings = gq_evaluation_warnings(v, &n);
    assert_true(n == 1 && strstr(warnings[0], "cut is truncated: 2 of its 5 windows are used"));
    assert_int_equal(gq_evaluation_summary(v)->windows, 2);
    gq_evaluation_free(v);
    r.text.tokens = 2 * CONTEXT - 1;
    v = must_evaluate(&r);
    assert_int_equal(gq_evaluation_summary(v)->windows, 1);
    gq_evaluation_free(v);
    write_whole(path("cut"), base, ROWS_AT + SCORED * ROW - 1);
    must_not_evaluate(
        &r, "cut: has 9707 bytes; 5 windows of 20 tokens take 46860, and its first window ends at 9708");
    free(base);
}

TEST(damaged_files_are_refused) {
    static const struct {
        size_t at;
        uint32_t value;
        const char *says;
    } damages[] = {{0, 0, "bad: not a file of log-probabilities"},
                   {8, 0, "bad: has 5 windows of 0 tokens"},
                   {8, 3, "bad: has 5 windows of 3 tokens"},
                   {8, UINT32_MAX, "bad: has 46860 bytes; 5 windows of 4294967295 tokens take"},
                   {12, 0x80000000, "and a vocabulary of -2147483648"},
                   {12, 0x7fffffff, "bad: has 46860 bytes"},
                   {12, 500, "q2.gguf: has 512 tokens, and"},
                   {16, 0, "bad: has 0 windows"},
                   {16, 0xffffffff, "bad: has -1 windows"},
                   {16, 0x7fffffff, "bad: has 46860 bytes"},
                   {20 + 4 * 7, VOCABULARY, "bad: token 8 is 512, but the vocabulary has 512"},
                   {ROWS_AT + ROW, 0x7fc00000, "bad: the row at byte 1452 has scale nan"},
                   {ROWS_AT + ROW, 0xbf800000, "bad: the row at byte 1452 has scale -1"},
                   {ROWS_AT + 4, 0x7f800000, "bad: the row at byte 420 has scale"},
                   {ROWS_AT + 4, 0x40000000, "is a log-probability of"}};
    const char *copies[] = {path("q2.gguf")};
    gq_evaluation_request r = request_on_base(path("bad"), copies, 1);
    size_t n;
    uint8_t *base = read_whole(path("base"), &n);
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        uint8_t before[4];
        memcpy(before, base + damages[i].at, 4);
        memcpy(base + damages[i].at, &damages[i].value, 4);
        write_whole(path("bad"), base, n);
        must_not_evaluate(&r, damages[i].says);
        memcpy(base + damages[i].at, before, 4);
    }
    write_whole(path("bad"), base, 19);
    must_not_evaluate(&r, "bad");
    free(base);
    r.base = path("absent");
    must_not_evaluate(&r, "absent");
    r.base = folder;
    must_not_evaluate(&r, "is a directory, expected a regular file");
}

TEST(a_base_has_the_place_of_the_original) {
    const char *copies[] = {path("q2.gguf")};
    gq_evaluation_request r = request_on_base(path("base"), copies, 1);
    r.base_model = path("model.gguf");
    must_not_evaluate(&r, "a base file takes the place of the base model");
    r.base_model = NULL, r.n_quants = 0;
    must_not_evaluate(&r, "a base file takes the place of the base model");
    r.n_quants = 1, r.base_out = path("again");
    must_not_evaluate(&r, "a base file takes the place of the base model");
    r = request_on_text(NULL, 0), r.base_out = path("model.gguf"), r.replace_logits = true;
    must_not_evaluate(&r, "model.gguf");
}

/* Files of copies stand for them as the original's does for it: nothing is run. */
TEST(files_are_compared_with_each_other) {
    static const char *const models[] = {"q2.gguf", "q8.gguf"};
    const char *copies[] = {path("q2.gguf"), path("q8.gguf")}, *files[] = {path("q2.base"), path("q8.base")};
    for (size_t i = 0; i < 2; i++) {
        gq_evaluation_request r = request_on_text(NULL, 0);
        r.base_model = path(models[i]), r.base_out = files[i];
        gq_evaluation_free(must_evaluate(&r));
    }
    gq_evaluation_request run = request_on_base(path("base"), copies, 2),
                          read = request_on_base(path("base"), files, 2);
    gq_evaluation *a = must_evaluate(&run), *b = must_evaluate(&read);
    size_t n;
    const gq_evaluated *x = gq_evaluation_models(a, &n), *y = gq_evaluation_models(b, &n);
    assert_int_equal(n, 3);
    for (size_t m = 0; m < n; m++) {
        assert_near(y[m].perplexity.value, x[m].perplexity.value, 1e-4);
        assert_near(y[m].kld.value, x[m].kld.value, 1e-3);
        assert_near(y[m].top1_agreement.value, x[m].top1_agreement.value, 0.03); /* equal codes are a tie */
    }
    assert_int_equal(gq_evaluation_summary(b)->scored, WINDOWS * SCORED);
    assert_string_equal(y[2].path, path("q8.base"));
    read.threads = 3;
    gq_evaluation *again = must_evaluate(&read);
    assert_memory_equal(&gq_evaluation_models(again, &n)[1].kld, &y[1].kld, sizeof(gq_estimate));
    read.text.tokens = 2 * CONTEXT;
    gq_evaluation *planned = gq_evaluation_plan(&read, NULL);
    assert_int_equal(gq_evaluation_summary(planned)->windows, 2);
    gq_evaluation_free(a), gq_evaluation_free(b), gq_evaluation_free(again), gq_evaluation_free(planned);
}

/* A file of one window of 8 tokens and codes of a random vocabulary, some of them 0. Returns the file's
 * bytes; the logarithms of its three rows go to logs. */
static void write_base(const char *to, size_t vocabulary, uint64_t seed, double *logs) {
    enum { TOKENS = 8, ROWS = 3 };
    size_t row = 8 + (vocabulary + 1) / 2 * 4, size = 20 + 4 * TOKENS + ROWS * row;
    const int32_t head[] = {TOKENS, (int32_t)vocabulary, 1};
    uint8_t *file = calloc(1, size);
    seed_random(seed);
    memcpy(file, "_logits_", 8), memcpy(file + 8, head, sizeof head);
    for (uint32_t i = 0, id; i < TOKENS; i++)
        id = (uint32_t)(i * (vocabulary / 9)), memcpy(file + 20 + 4 * i, &id, 4);
    for (size_t r = 0; r < ROWS; r++) {
        uint8_t *at = file + 20 + 4 * TOKENS + r * row;
        float scale = 16.0F / 65535, least = -17.5F - (float)r;
        memcpy(at, &scale, 4), memcpy(at + 4, &least, 4);
        for (size_t i = 0; i < vocabulary; i++) {
            float u = (random_uniform() + 1) / 2;
            uint16_t code = (uint16_t)(65535 * fmaxf(0, u * u - 0.1F));
            memcpy(at + 8 + 2 * i, &code, 2);
            logs[r * vocabulary + i] = (double)(scale * (float)code + least);
        }
    }
    write_whole(to, file, size);
    free(file);
}

TEST(divergences_of_files_follow_the_formula) {
    static const size_t vocabularies[] = {9, 8191, 8192, 8193, 20001}; /* tiles have 8192 */
    for (size_t k = 0; k < sizeof vocabularies / sizeof *vocabularies; k++) {
        size_t n = vocabularies[k];
        double *p = malloc(3 * n * sizeof *p), *q = malloc(3 * n * sizeof *q), sum = 0, nll = 0;
        write_base(path("p"), n, 1, p), write_base(path("q"), n, 2, q);
        for (size_t i = 0; i < 3 * n; i++)
            if (p[i] > -16) sum += exp(p[i]) * (p[i] - q[i]);
        for (size_t r = 0; r < 3; r++) nll -= q[r * n + (5 + r) * (n / 9)];
        const char *copies[] = {path("q"), path("p")};
        gq_evaluation_request request = request_on_base(path("p"), copies, 2);
        gq_evaluation *v = must_evaluate(&request);
        const gq_evaluated *models = gq_evaluation_models(v, &(size_t){0});
        assert_near(models[1].kld.value, sum / 3, 1e-5);
        assert_near(models[1].perplexity.value, exp(nll / 3), 1e-5);
        assert_true(fabs(models[2].kld.value) < 1e-5 * fabs(sum));
        assert_true(models[2].top1_agreement.value == 1);
        gq_evaluation_free(v), free(p), free(q);
    }
}

TEST(files_that_do_not_belong_together_are_refused) {
    size_t n;
    uint8_t *base = read_whole(path("base"), &n);
    const char *copies[] = {path("q2.base"), path("q8.gguf")}, *bad[] = {path("bad")};
    gq_evaluation_request r = request_on_base(path("base"), copies, 2);
    must_not_evaluate(&r, "q8.gguf: not a file of log-probabilities");
    r = request_on_base(path("base"), bad, 1);
    base[20 + 4 * 7] ^= 1;
    write_whole(path("bad"), base, n);
    must_not_evaluate(&r, "bad: token 8 of its text is");
    base[20 + 4 * 7] ^= 1, base[8] = 10, base[16] = 2;
    write_whole(path("bad"), base, n);
    must_not_evaluate(&r, "bad: has windows of 10 tokens and a vocabulary of 512, and");
    base[8] = CONTEXT, base[16] = WINDOWS;
    write_whole(path("bad"), base, ROWS_AT + 2 * SCORED * ROW);
    gq_evaluation *v = must_evaluate(&r);
    assert_int_equal(gq_evaluation_summary(v)->windows, 2);
    assert_non_null(strstr(gq_evaluation_warnings(v, &n)[0], "bad is truncated: 2 of its 5 windows"));
    gq_evaluation_free(v);
    free(base);
}

int main(void) { return tests_run(make_models, folder_remove); }
