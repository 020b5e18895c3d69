/* What a plan makes of a text to calibrate with: which tensors, what it takes, and what is refused. */
#include <math.h>

#include "study/calibrate/calibration.h"
#include "tests/support/evaluation_model.h"
#include "tests/support/folder.h"
#include "tests/support/plans.h"

enum { CONTEXT = 16, LETTERS = 1280 };
static char letters[LETTERS + 1];

FIXTURE(start) {
    folder = temporary_folder();
    write_run_models(path("model.gguf"), 2, path("experts.gguf"));
    for (size_t i = 0; i < LETTERS; i++) letters[i] = (char)('a' + i * i * 3 % 8);
    return 0;
}

static gq_calibration usual_calibration(void) {
    return (gq_calibration){
        .size = sizeof(gq_calibration),
        .text = {.name = "/some/where/text", .bytes = letters, .n = LETTERS, .context = CONTEXT}};
}

static gq_plan *plan_with(const gq_calibration *c, const char *name, const char *filetype) {
    gq_output out = {.path = path("out.gguf"), .filetype = filetype};
    gq_options o = options_for(path(name), &out);
    o.calibration = c;
    return must_plan(&o);
}

TEST(matrices_that_are_run_are_calibrated) {
    gq_calibration c = usual_calibration();
    gq_plan *plan = plan_with(&c, "experts.gguf", "Q2_K_S"); /* whose Q2_K demands importance */
    assert_true(plan_tensor(plan, "blk.0.attn_q.weight")->calibrated);
    assert_true(plan_tensor(plan, "blk.1.ffn_down_exps.weight")->calibrated);
    assert_true(plan_tensor(plan, "output.weight")->calibrated);
    assert_true(plan_tensor(plan, "token_embd.weight")->calibrated); /* which moves the router */
    assert_true(plan_tensor(plan, "blk.1.ffn_gate_inp.weight")->calibrated);
    assert_false(plan_tensor(plan, "blk.0.attn_norm.weight")->calibrated);
    gq_plan_free(plan);
    c.steps = "-embedding,-router";
    plan = plan_with(&c, "experts.gguf", "Q2_K_S");
    assert_false(plan_tensor(plan, "token_embd.weight")->calibrated);
    assert_false(plan_tensor(plan, "blk.1.ffn_gate_inp.weight")->calibrated);
    gq_plan_free(plan);
    c.steps = NULL;
    plan = plan_with(&c, "experts.gguf", "F16"); /* the router's inputs stay as they are */
    assert_false(plan_tensor(plan, "blk.1.ffn_gate_inp.weight")->calibrated);
    gq_plan_free(plan);
    plan = plan_with(&c, "model.gguf", "Q4_0");
    assert_false(plan_tensor(plan, "token_embd.weight")->calibrated);
    gq_plan_free(plan);
    plan = plan_with(&c, "model.gguf", "F16");
    assert_false(plan_tensor(plan, "blk.0.attn_q.weight")->calibrated);
    assert_true(warned(plan, "nothing to calibrate"));
    gq_plan_free(plan);
}

TEST(facts_are_those_of_the_text) {
    gq_calibration c = usual_calibration();
    gq_plan *plan = plan_with(&c, "model.gguf", "Q4_K_M");
    const gq_calibration_facts *f = gq_plan_calibration(plan);
    assert_string_equal(f->text, "text");
    assert_int_equal(f->windows, LETTERS / CONTEXT);
    assert_int_equal(f->tokens, LETTERS), assert_int_equal(f->held_out, LETTERS / CONTEXT / 8);
    assert_int_equal(f->columns, 512), assert_int_equal(f->width, 512);
    assert_float_equal(f->per_column, LETTERS / 512., 1e-9);
    assert_true(f->memory > 1 << 20 && f->disk > 4 * LETTERS * 256 * 4 && f->work > 1e9);
    const calibration *inside = plan->rounding->calibration;
    assert_true(inside->settings.width == SIZE_MAX && inside->settings.sweeps == 2);
    assert_int_equal(calibration_held_most(&inside->settings, false), LETTERS / CONTEXT / 8 * CONTEXT);
    gq_plan_free(plan);
    c.text.tokens = 100;
    plan = plan_with(&c, "model.gguf", "Q4_K_M");
    assert_int_equal(gq_plan_calibration(plan)->tokens, 96);
    gq_plan_free(plan);
    gq_options none =
        options_for(path("model.gguf"), &(gq_output){.path = path("out.gguf"), .filetype = "Q4_K_M"});
    plan = must_plan(&none);
    assert_null(gq_plan_calibration(plan));
    gq_plan_free(plan);
}

/* Files one after another are a text whose beginning is of one kind. Ids are taken from the first on. */
TEST(windows_are_spread_over_the_text) {
    enum { WINDOWS = 64, WANTED = 7 };
    char numbered[WINDOWS * CONTEXT];
    for (size_t i = 0; i < sizeof numbered; i++) /* each window has its number in digits of 8 */
        numbered[i] = (char)('a' + i / CONTEXT / (i % 2 ? 8 : 1) % 8);
    gq_calibration c = usual_calibration();
    c.steps = "-random", c.text.bytes = numbered, c.text.n = sizeof numbered,
    c.text.tokens = WANTED * CONTEXT + 5;
    gq_plan *plan = plan_with(&c, "model.gguf", "Q4_K_M");
    uint64_t n;
    const uint32_t *ids = gq_plan_calibration_ids(plan, &n);
    assert_int_equal(n, WANTED * CONTEXT);
    bool met[WANTED] = {false};
    for (size_t i = 0; i < WANTED; i++) { /* the first token is BOS */
        const uint32_t *window = ids + i * CONTEXT;
        assert_int_equal(window[0], 8);
        for (size_t k = 3; k < CONTEXT; k++) assert_int_equal(window[k], window[k - 2]);
        uint32_t number = window[1] + 8 * window[2];
        size_t part = (number * WANTED + WANTED - 1) / WINDOWS;
        assert_true(number < WINDOWS && !met[part]);
        met[part] = true;
        if (i == 1) assert_true(met[0] && met[4]);
    }
    gq_plan_free(plan);
    char given[LETTERS * 4] = "";
    for (size_t i = 0, at = 0; i < LETTERS; i++) at += (size_t)sprintf(given + at, "%zu ", i % 512);
    c.text.bytes = given, c.text.n = strlen(given), c.text.ids = true;
    plan = plan_with(&c, "model.gguf", "Q4_K_M");
    ids = gq_plan_calibration_ids(plan, &n);
    assert_int_equal(n, WANTED * CONTEXT);
    for (size_t i = 0; i < n; i++) assert_int_equal(ids[i], i);
    gq_plan_free(plan);
}

/* A text of 6 MB is read in pieces, which reach to its end and consist of whole lines. */
TEST(windows_are_spread_over_a_long_text) {
    enum { LINE = 64, LINES = 98304 };
    char *lines = malloc(LINE * LINES);
    for (size_t i = 0; i < (size_t)LINE * LINES; i++)
        lines[i] = i % LINE == LINE - 1 ? '\n' : (char)('a' + (i >= LINE * LINES / 2) * 4 + i % LINE / 16);
    gq_calibration c = usual_calibration();
    c.steps = "-random", c.text.bytes = lines, c.text.n = LINE * LINES, c.text.tokens = 7 * CONTEXT;
    gq_plan *plan = plan_with(&c, "model.gguf", "Q4_K_M");
    uint64_t n, second = 0;
    const uint32_t *ids = gq_plan_calibration_ids(plan, &n);
    assert_int_equal(n, 7 * CONTEXT);
    for (size_t i = 0; i < n; i++) second += i % CONTEXT && ids[i] / 4; /* a to d, then e to h */
    assert_in_range(second, 3 * (CONTEXT - 1), 4 * (CONTEXT - 1));
    gq_plan_free(plan);
    free(lines);
}

/* Of lines nearly as long as a piece more is kept than blank ones; where the pieces have too few tokens, or are
 * no text, the whole text is read. */
TEST(long_texts_of_other_kinds_give_all_tokens) {
    enum { BYTES = 5 << 20, LINE = 64000, FEW = 300000, BAD = BYTES / 2 + 10000 };
    char *text = malloc(BYTES);
    gq_calibration c = usual_calibration();
    c.steps = "-random", c.text.bytes = text, c.text.n = BYTES, c.text.tokens = 1 << 18;
    for (size_t kind = 0; kind < 3; kind++) {
        for (size_t i = 0; i < BYTES; i++) text[i] = letters[i % LETTERS];
        for (size_t i = 0; kind == 0 && i < BYTES; i += LINE) memcpy(text + i, "\n\n", 2);
        if (kind > 0) memset(text + FEW, kind == 1 ? '-' : '\x80', BYTES - FEW);
        gq_plan *plan = plan_with(&c, "model.gguf", "Q4_K_M");
        assert_int_equal(gq_plan_calibration(plan)->tokens, 1 << 18);
        gq_plan_free(plan);
    }
    gq_options o =
        options_for(path("model.gguf"), &(gq_output){.path = path("out.gguf"), .filetype = "Q4_K_M"});
    o.calibration = &c;
    memset(text, 'a', BYTES), memcpy(text + BAD, "\xf5\x87\xba\xad", 4);
    must_refuse(&o, GQ_FAILED, "byte 2631440 of"); /* of the text, not of its pieces */
    free(text);
}

/* What was measured to cost a third of the gain is not let pass. */
TEST(little_begins_above_what_was_seen_to_fall_short) {
    char more[2200];
    for (size_t i = 0; i < sizeof more; i++) more[i] = (char)('a' + i * i * 3 % 8);
    gq_calibration c = usual_calibration();
    c.text.bytes = more, c.text.n = sizeof more, c.text.tokens = 1408; /* 2.75 for each of 512 columns */
    gq_plan *plan = plan_with(&c, "model.gguf", "Q4_K_M");
    assert_true(gq_plan_calibration(plan)->per_column > 2.7 && gq_plan_calibration(plan)->per_column < 2.8);
    assert_true(warned(plan, "are few to calibrate with: 2.8"));
    assert_true(
        warned(plan, "or an imatrix and a size for the file, which take less time")); /* what to do instead */
    gq_plan_free(plan);
    c.text.tokens = 2048 + 80;
    plan = plan_with(&c, "model.gguf", "Q4_K_M");
    assert_false(warned(plan, "are little"));
    gq_plan_free(plan);
}

TEST(too_little_text_is_said) {
    gq_calibration c = usual_calibration();
    gq_plan *plan = plan_with(&c, "model.gguf", "Q4_K_M"); /* 2.5 tokens per column of ffn_down */
    assert_true(warned(plan, "are few to calibrate with: 2.5"));
    assert_false(warned(plan, "worse than without"));
    assert_false(warned(plan, "not held out"));
    gq_plan_free(plan);
    c.text.tokens = 64;
    plan = plan_with(&c, "model.gguf", "Q4_K_M");
    assert_int_equal(gq_plan_calibration(plan)->held_out, 1);
    assert_false(warned(plan, "not held out"));
    gq_plan_free(plan);
    c.text.tokens = 16;
    plan = plan_with(&c, "model.gguf", "Q4_K_M");
    assert_true(warned(plan, "the text has one window, so none is held out"));
    gq_plan_free(plan);
    c.text.tokens = 0, c.text.context = 80;
    plan = plan_with(&c, "model.gguf", "Q4_K_M");
    assert_true(warned(plan, "longer than the 64"));
    gq_plan_free(plan);
}

/* Empty lines, say, where a program that joined files has found no text. */
static void ids_of_period(char *text, size_t most, size_t period, bool empty_lines) {
    enum { IDS = 1280, LONG = 256 };
    size_t n = 0;
    for (size_t i = 0; i < IDS; i++)
        n += (size_t)snprintf(text + n, most - n, "%zu ",
                              empty_lines && i / LONG % 4 == 1 ? 5 : 5 + i % period);
}
TEST(repetition_is_said) {
    char text[8192];
    gq_calibration c = usual_calibration();
    c.text.bytes = text, c.text.context = 256, c.text.ids = true;
    ids_of_period(text, sizeof text, 9, true), c.text.n = strlen(text);
    gq_plan *plan = plan_with(&c, "model.gguf", "Q4_K_M");
    assert_true(warned(
        plan, "/some/where/text: 1 of 5 windows repeat a few tokens, the first one token 5 at token 256;"));
    gq_plan_free(plan);
    ids_of_period(text, sizeof text, 9, false), c.text.n = strlen(text);
    plan = plan_with(&c, "model.gguf", "Q4_K_M");
    assert_false(warned(plan, "repeat a few tokens"));
    gq_plan_free(plan);
    ids_of_period(text, sizeof text, 8, false), c.text.n = strlen(text);
    plan = plan_with(&c, "model.gguf", "Q4_K_M");
    assert_true(warned(plan, "5 of 5 windows repeat a few tokens"));
    gq_plan_free(plan);
}

/* Pruned layers are not run; a setting that the run does not know is named. */
TEST(other_options_are_looked_at) {
    gq_output out = {.path = path("out.gguf"), .filetype = "Q4_K_M"};
    gq_calibration c = usual_calibration();
    const char *const set[] = {"general.name=str:x", "llama.rope.freq_base=float:1000"};
    gq_options o = options_for(path("model.gguf"), &out);
    o.calibration = &c, o.prune_layers = "0", o.override_kv = (gq_list){set, 1};
    gq_plan *plan = must_plan(&o);
    assert_int_equal(gq_plan_calibration(plan)->layers, 1);
    assert_false(warned(plan, "as it is in the file"));
    gq_plan_free(plan);
    o.override_kv.n = 2;
    plan = must_plan(&o);
    assert_true(warned(plan, "without the new value of llama.rope.freq_base"));
    gq_plan_free(plan);
}

/* What the plan says is what the run holds back; of a long text no more than 4,096 tokens. */
TEST(windows_that_are_held_out) {
    static const struct {
        size_t windows, context, held;
    } texts[] = {{1, 16, 0},    {2, 16, 1},     {9, 512, 1},   {10, 512, 1},    {80, 512, 8},
                 {160, 512, 8}, {1000, 512, 8}, {16, 8192, 1}, {1000, 16, 100}, {4096, 16, 204}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        windows_held h = windows_hold_out(texts[i].windows, texts[i].context);
        size_t n = 0;
        for (size_t w = 0; w < texts[i].windows; w++) n += windows_is_held(h, w);
        assert_int_equal(h.n, texts[i].held), assert_int_equal(n, h.n);
    }
}

/* Windows of several kinds by turns, their tokens all of the kind's own: some of each kind are held back, but most are
 * left. A window of random tokens is among every four of them, and takes no text's place. */
TEST(no_kind_that_takes_turns_is_left_out) {
    enum { TEXTS = 180, WINDOWS = TEXTS / 4 * 5, FIRST_KIND = 5 };
    for (size_t kinds = 2; kinds <= 8; kinds++) {
        char *ids = malloc(TEXTS * CONTEXT * 4 + 1), *at = ids;
        size_t held[8] = {0}, texts = 0, drawn = 0;
        for (size_t w = 0; w < TEXTS; w++)
            for (size_t i = 0; i < CONTEXT; i++) at += sprintf(at, "%zu ", FIRST_KIND + w % kinds);
        gq_calibration c = usual_calibration();
        c.text = (gq_text){
            .name = "turns", .bytes = ids, .n = (size_t)(at - ids), .ids = true, .context = CONTEXT};
        gq_plan *plan = plan_with(&c, "model.gguf", "Q4_K_M");
        const calibration *p = plan->rounding->calibration;
        assert_int_equal(p->job.windows, WINDOWS);
        for (size_t w = 0; w < WINDOWS; w++) {
            const uint32_t *window = p->job.ids + w * CONTEXT;
            bool is_text = true, is_held = calibration_is_held(&p->settings, w);
            for (size_t i = 1; i < CONTEXT; i++) is_text &= window[i] == FIRST_KIND + texts % kinds;
            assert_true(is_text || !is_held);
            drawn += !is_text, held[texts % kinds] += is_held, texts += is_text;
            assert_true(drawn <= w / 5 + 1 && drawn >= (w + 1) / 5);
        }
        assert_int_equal(texts, TEXTS);
        for (size_t k = 0, each = TEXTS / kinds; k < kinds; k++)
            if (held[k] == 0 || held[k] > each / 3)
                fail_msg("of %zu windows of kind %zu of %zu, %zu are held back", each, k, kinds, held[k]);
        gq_plan_free(plan);
        free(ids);
    }
}

/* 65,536 tokens in windows of 512, as by default. */
TEST(held_out_at_the_default_size) {
    gq_calibration c = usual_calibration();
    c.text = (gq_text){.bytes = NULL}, c.random = true;
    gq_plan *plan = plan_with(&c, "model.gguf", "Q4_K_M");
    const gq_calibration_facts *f = gq_plan_calibration(plan);
    size_t held = 0;
    for (size_t w = 0; w < f->windows; w++)
        held += calibration_is_held(&plan->rounding->calibration->settings, w);
    assert_int_equal(f->windows, 128), assert_int_equal(f->held_out, 6), assert_int_equal(held, 6);
    gq_plan_free(plan);
}

/* The fixed figure by which memory is decided bounds what any processor takes. */
TEST(passes_take_less_than_is_counted) {
    const char *name;
    for (size_t i = 0; (name = kernels_level_name(i)); i++) {
        const kernels *k = kernels_level(name);
        for (uint32_t type = 0; k && type < GGUF_TYPE_LIMIT; type++)
            for (uint64_t columns = 256; k->codecs[type].columnwise && columns <= 16384; columns *= 4)
                for (matmul_arithmetic a = MATMUL_FLOAT32; a <= MATMUL_BF16; a++)
                    assert_true(feedback_bytes(k, type, columns, a) <= feedback_most_bytes(columns, a));
    }
}

/* Half the tokens are those of half the experts, two of four. */
TEST(experts_see_their_share) {
    gq_calibration c = usual_calibration();
    gq_plan *plan = plan_with(&c, "experts.gguf", "Q4_K_M");
    assert_float_equal(gq_plan_calibration(plan)->per_column, LETTERS / 2 / 256., 1e-9);
    assert_int_equal(gq_plan_calibration(plan)->experts_at_once, EXPERT_MODEL_EXPERTS);
    gq_plan_free(plan);
}

static uint32_t identity(const gq_calibration *c, int threads, int effort) {
    gq_output out = {.path = path("out.gguf"), .filetype = "Q4_K_M"};
    gq_options o = options_for(path("model.gguf"), &out);
    o.calibration = c, o.threads = threads, o.effort = effort;
    gq_plan *plan = must_plan(&o);
    uint32_t id = plan->identity.options;
    gq_plan_free(plan);
    return id;
}

/* A run of another text or setting is not continued; threads and memory that is enough change nothing. */
TEST(what_decides_bytes_decides_identity) {
    gq_calibration c = usual_calibration(), other = c;
    uint32_t same = identity(&c, 1, GQ_EFFORT_DEFAULT);
    assert_int_equal(identity(&c, 3, GQ_EFFORT_DEFAULT), same);
    other.memory = 1ull << 30, other.text.name = "x";
    assert_int_equal(identity(&other, 1, GQ_EFFORT_DEFAULT), same);
    assert_int_not_equal(identity(NULL, 1, GQ_EFFORT_DEFAULT), same);
    assert_int_not_equal(identity(&c, 1, GQ_EFFORT_BEST), same);
    other = c, other.damp = .02f;
    assert_int_not_equal(identity(&other, 1, GQ_EFFORT_DEFAULT), same);
    other = c, other.steps = "-damping";
    assert_int_not_equal(identity(&other, 1, GQ_EFFORT_DEFAULT), same);
    other.steps = "all"; /* which is the default */
    assert_int_equal(identity(&other, 1, GQ_EFFORT_DEFAULT), same);
    other = c, other.arithmetic = "bf16";
    assert_int_not_equal(identity(&other, 1, GQ_EFFORT_DEFAULT), same);
    other.arithmetic = "float32"; /* the default */
    assert_int_equal(identity(&other, 1, GQ_EFFORT_DEFAULT), same);
    other = c, other.shrink = -1;
    assert_int_not_equal(identity(&other, 1, GQ_EFFORT_DEFAULT), same);
    other = c, other.correction = -1;
    assert_int_not_equal(identity(&other, 1, GQ_EFFORT_DEFAULT), same);
    other = c, other.text.bytes++, other.text.n--;
    assert_int_not_equal(identity(&other, 1, GQ_EFFORT_DEFAULT), same);
    other = c, other.text.context = 32;
    assert_int_not_equal(identity(&other, 1, GQ_EFFORT_DEFAULT), same);
    other = c, other.text.bytes = NULL, other.random = true;
    assert_int_not_equal(identity(&other, 1, GQ_EFFORT_DEFAULT), same);
}

/* The narrower of two plans for the same model. */
TEST(memory_narrows_the_blocks) {
    gq_calibration c = usual_calibration();
    size_t width = 0;
    for (c.memory = 160 << 20; width != 256 && c.memory > 1 << 20; c.memory -= 4 << 20) {
        gq_output out = {.path = path("out.gguf"), .filetype = "Q4_K_M"};
        gq_options o = options_for(path("model.gguf"), &out);
        gq_error e;
        o.calibration = &c, o.threads = 1;
        gq_plan *plan = gq_plan_new(&o, &e);
        if (!plan && SANITIZED) return; /* these take memory of their own */
        if (!plan) fail_msg("%llu: %s", (unsigned long long)c.memory, e.text);
        const gq_calibration_facts *f = gq_plan_calibration(plan);
        assert_true(f->memory <= c.memory || SANITIZED);
        assert_true(width == 0 || f->width <= width);
        width = f->width;
        if (width < 512) assert_true(warned(plan, "little memory"));
        gq_plan_free(plan);
    }
    assert_int_equal(width, 256);
}

/* The same draw each time, of letters alone; each window begins with <s>. */
TEST(random_tokens_stand_for_text) {
    gq_calibration c = usual_calibration();
    c.text = (gq_text){.context = CONTEXT, .tokens = 4096}, c.random = true;
    gq_plan *a = plan_with(&c, "model.gguf", "Q4_K_M"), *b = plan_with(&c, "model.gguf", "Q8_0");
    const uint32_t *ids = a->rounding->calibration->job.ids;
    size_t seen[8] = {0};
    assert_null(gq_plan_calibration(a)->text);
    assert_int_equal(a->rounding->calibration->job.windows, 256);
    assert_memory_equal(ids, b->rounding->calibration->job.ids, 4096 * sizeof *ids);
    for (size_t i = 0; i < 4096; i++) {
        assert_true(i % CONTEXT ? ids[i] < 8 : ids[i] == 8);
        if (i % CONTEXT) seen[ids[i]]++;
    }
    for (size_t i = 0; i < 8; i++) assert_in_range(seen[i], 400, 560);
    gq_plan_free(a), gq_plan_free(b);
}

TEST(what_cannot_be_is_refused) {
    gq_output out = {.path = path("out.gguf"), .filetype = "Q4_K_M"};
    gq_calibration c = usual_calibration(), good = c;
    gq_options o = options_for(path("model.gguf"), &out), plain = o;
    o.calibration = &c;
    o.imatrix = "x", must_refuse(&o, GQ_USAGE, "leave the imatrix out");
    o.imatrix = NULL, o.join = true, must_refuse(&o, GQ_USAGE, "in parts");
    o.join = false, o.part = 1, o.parts = 2, must_refuse(&o, GQ_USAGE, "in parts");
    o = plain, o.calibration = &c;
    c.correction = 1.5f, must_refuse(&o, GQ_USAGE, "the GPTAQ term (correction) of 1.5");
    c = good, c.damp = 2, must_refuse(&o, GQ_USAGE, "damping of 2");
    c = good, c.arithmetic = "fp8", must_refuse(&o, GQ_USAGE, "'fp8' is not an arithmetic");
    c = good, c.shrink = NAN, must_refuse(&o, GQ_USAGE, "shrinkage of");
    c = good, c.random = true, must_refuse(&o, GQ_USAGE, "found both");
    c = good, c.text.n = 0, must_refuse(&o, GQ_FAILED, "is empty");
    c = good, c.text.n = 10, must_refuse(&o, GQ_FAILED, "fewer than one window of 16");
    c = good, c.memory = 1 << 20, must_refuse(&o, GQ_USAGE, "1.00 MiB of memory is not enough");
    c = good, c.text = (gq_text){.bytes = "1 2 x", .n = 5, .ids = true, .context = 2};
    must_refuse(&o, GQ_FAILED, "found 'x', expected a token id");
    c.text.bytes = "1 2 512", c.text.n = 7, must_refuse(&o, GQ_FAILED, "token 3 is 512");
    c = good, c.text.bytes = NULL, c.random = true, c.text.tokens = 8;
    must_refuse(&o, GQ_USAGE, "fewer than one window");
    c.text.tokens = 1ull << 40, must_refuse(&o, GQ_USAGE, "can be drawn at random");
    model *m = model_new("mamba", 1);
    model_add(m, "blk.0.ssm_in.weight", GGUF_F16, (uint64_t[4]){256, 64}, NULL);
    model_save(m, path("other.gguf"));
    c = good, o.input = path("other.gguf"), must_refuse(&o, GQ_FAILED, "mamba");
}

/* What else a run makes decides no bytes of an output. */
TEST(other_outputs_leave_the_width_as_it_is) {
    static const char *const types[] = {"Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K_M", "Q5_K_M", "Q6_K"};
    enum { OUTPUTS = sizeof types / sizeof *types };
    gq_output out[OUTPUTS];
    gq_calibration c = usual_calibration();
    uint64_t narrow = 0, wide = 0;
    c.text.context = LETTERS / 2; /* so that states of a window take a megabyte */
    for (size_t i = 0; i < OUTPUTS; i++) out[i] = (gq_output){.path = path(types[i]), .filetype = types[i]};
    gq_options o = options_for(path("model.gguf"), out);
    o.calibration = &c;
    for (c.memory = 160 << 20; c.memory > 16 << 20; c.memory -= 2 << 20) {
        gq_error e = {0};
        o.n_outputs = 1;
        gq_plan *one = gq_plan_new(&o, &e);
        o.n_outputs = OUTPUTS;
        gq_plan *all = gq_plan_new(&o, &e);
        if (one && all) {
            uint64_t width = gq_plan_calibration(one)->width;
            assert_int_equal(gq_plan_calibration(all)->width, width);
            *(width < 512 ? &narrow : &wide) += 1;
        }
        gq_plan_free(one), gq_plan_free(all);
    }
    assert_true((narrow > 0 && wide > 0) || SANITIZED);
}

int main(void) { return tests_run(start, folder_remove); }
