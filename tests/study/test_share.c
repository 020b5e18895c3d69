/* The share of its work that a call tells is done: what it is counted by, that it never falls, that it is 1
 * at the end alone, and the time left by it. No clock is looked at: time is made up, or work is counted. */
#include <math.h>

#include "base/relay.h"
#include "study/sweep/sweep.h"
#include "tests/support/evaluation_model.h"
#include "tests/support/folder.h"
#include "tests/support/plans.h"

enum { LAYERS = 3, CONTEXT = 32, LETTERS = 1024 };
static char letters[LETTERS];

FIXTURE(start) {
    folder = temporary_folder();
    write_run_models(path("model.gguf"), LAYERS, path("experts.gguf"));
    for (size_t i = 0; i < LETTERS; i++) letters[i] = (char)('a' + i * i * 3 % 8);
    return 0;
}

/* ---- what a call tells ---- */

typedef struct told {
    double share, largest; /* the last one told; the largest step from one to the next */
    uint64_t calls, ends, bytes;
    double layer_ends[LAYERS + 1]; /* what was told last of each layer */
} told;

static void note(void *user, const gq_progress *now) {
    told *t = user;
    unsigned layer;
    assert_true(now->share >= t->share && now->share <= 1 && now->share_resumed <= now->share);
    assert_true(isnan(now->seconds_left) || now->seconds_left >= 0);
    assert_int_equal(t->ends, 0); /* nothing is told behind the end */
    t->largest = fmax(t->largest, now->share - t->share);
    t->share = now->share, t->bytes = now->bytes_total;
    t->calls++, t->ends += now->share == 1;
    if (now->tensor && sscanf(now->tensor, "layer %u of", &layer) == 1 && layer <= LAYERS)
        t->layer_ends[layer] = now->share;
}

static gq_callbacks noting(told *t) {
    *t = (told){.calls = 0};
    return (gq_callbacks){.size = sizeof(gq_callbacks), .user = t, .progress = note};
}

static void assert_told(const told *t, const char *what) {
    if (t->ends != 1 || t->share != 1 || t->calls < 2)
        fail_msg("%s: %g told last, %llu ends of %llu calls", what, t->share, (unsigned long long)t->ends,
                 (unsigned long long)t->calls);
}

static gq_text the_text(void) {
    return (gq_text){.name = "text", .bytes = letters, .n = LETTERS, .context = CONTEXT};
}

/* Plans and runs. planning: also what the plan tells. */
static void run_told(gq_options *o, bool planning, told *t) {
    gq_error e;
    gq_callbacks callbacks = noting(t);
    o->callbacks = planning ? &callbacks : NULL;
    gq_plan *plan = gq_plan_new(o, &e);
    if (!plan) fail_msg("%s", e.text);
    if (planning) assert_told(t, "a plan");
    callbacks = noting(t);
    if (!gq_run(plan, &callbacks, NULL, &e)) fail_msg("%s", e.text);
    assert_told(t, "a run");
    gq_plan_free(plan);
}

TEST(a_share_never_falls_and_is_1_at_the_end_alone) {
    gq_error e;
    told t;
    gq_callbacks callbacks;
    gq_calibration c = {.size = sizeof c, .text = the_text()};
    gq_output outs[] = {{.path = path("a.gguf"), .filetype = "Q8_0"},
                        {.path = path("b.gguf"), .filetype = "Q2_K"},
                        {.path = path("c.gguf"), .filetype = "F16"}};
    gq_options o = options_for(path("model.gguf"), outs);
    o.n_outputs = 3;
    run_told(&o, false, &t);
    o.n_outputs = 2, o.calibration = &c, o.force = true;
    run_told(&o, false, &t);
    o.input = path("experts.gguf");
    run_told(&o, false, &t);
    gq_output target = {.path = path("t.gguf"), .target.bpw = 5};
    o.outputs = &target, o.n_outputs = 1, o.measure_file = "", o.forecast = true;
    run_told(&o, true, &t);
    o.calibration = NULL;
    run_told(&o, true, &t);

    c = (gq_calibration){.size = sizeof c, .text = the_text()};
    callbacks = noting(&t);
    o = (gq_options){
        .size = sizeof o, .input = path("model.gguf"), .calibration = &c, .callbacks = &callbacks};
    gq_survey *survey = gq_survey_new(
        &(gq_survey_request){.size = sizeof(gq_survey_request), .options = &o, .folder = folder}, &e);
    if (!survey) fail_msg("%s", e.text);
    assert_told(&t, "a survey");
    gq_survey_free(survey);

    callbacks = noting(&t);
    gq_verification *v = gq_verify(path("a.gguf"), NULL, 0, 2, &callbacks, &e);
    if (!v) fail_msg("%s", e.text);
    assert_told(&t, "verify");
    gq_verification_free(v);
    callbacks = noting(&t);
    const gq_comparison_request request = {.size = sizeof request,
                                           .base_model = path("experts.gguf"),
                                           .quants = (const char *const[]){path("a.gguf")},
                                           .n_quants = 1,
                                           .threads = 2,
                                           .callbacks = &callbacks};
    gq_comparison *compared = gq_compare(&request, &e);
    if (!compared) fail_msg("%s", e.text);
    assert_told(&t, "compare");
    gq_comparison_free(compared);
    callbacks = noting(&t);
    gq_evaluation *evaluated =
        gq_evaluate(&(gq_evaluation_request){.size = sizeof(gq_evaluation_request),
                                             .base_model = path("experts.gguf"),
                                             .quants = (const char *const[]){path("a.gguf")},
                                             .n_quants = 1,
                                             .text = the_text(),
                                             .base_out = path("base"),
                                             .folder = folder,
                                             .callbacks = &callbacks},
                    &e);
    if (!evaluated) fail_msg("%s", e.text);
    assert_told(&t, "evaluate");
    gq_evaluation_free(evaluated);
    gq_text text = the_text();
    gq_importance_plan *p =
        gq_importance_plan_new(&(gq_importance_request){.size = sizeof(gq_importance_request),
                                                        .model = path("model.gguf"),
                                                        .texts = &text,
                                                        .n_texts = 1,
                                                        .out = path("importance.gguf"),
                                                        .output = true},
                               &e);
    if (!p) fail_msg("%s", e.text);
    callbacks = noting(&t);
    gq_imatrix *m = gq_importance_compute(p, &callbacks, &e);
    if (!m) fail_msg("%s", e.text);
    assert_told(&t, "importance");
    gq_imatrix_free(m);
    gq_importance_plan_free(p);
}

/* ---- a publication ---- */

/* A publication's parts, and what was told while each was at work. */
typedef struct publishing {
    told told;
    const char *part;
    char parts[256]; /* their names, one after another */
    double before;   /* the share when the part began */
    uint64_t unknown;
} publishing;

static void publishing_hear(void *user, const gq_progress *now) {
    publishing *p = user;
    assert_true(strcmp(p->part, "plan") != 0 || now->share <= fmax(p->before, .05));
    assert_true(now->share < 1 || !strcmp(p->part, "checksums"));
    if (strcmp(p->part, "plan") != 0) p->unknown += isnan(now->seconds_left);
    if (!strcmp(p->part, "checksums") && now->share < 1)
        assert_non_null(strstr(now->tensor, ".gguf")); /* the file at hand */
    note(&p->told, now);
}

static void publishing_begins(void *user, const char *part, const gq_plan *plan) {
    publishing *p = user;
    (void)plan;
    p->part = part, p->before = p->told.share;
    strcat(strcat(p->parts, *p->parts ? " " : ""), part);
}

static void publish_relayed(publishing *p) {
    gq_error e;
    *p = (publishing){.part = ""};
    const gq_callbacks callbacks = {.size = sizeof callbacks, .user = p, .progress = publishing_hear};
    gq_calibration c = {.size = sizeof c, .text = the_text()};
    const gq_output outs[] = {{.filetype = "Q8_0"}, {.filetype = "Q4_K_M"}};
    gq_options o = {.size = sizeof o, .input = path("model.gguf"), .out_dir = folder, .outputs = outs};
    o.n_outputs = 2, o.calibration = &c;
    const gq_evaluation_request evaluation = {
        .size = sizeof evaluation, .text = the_text(), .folder = folder, .scores_file = path("kept.scores")};
    gq_publication *made = gq_publish(&(gq_publish_request){.size = sizeof(gq_publish_request),
                                                            .options = &o,
                                                            .name = "published-{type}.gguf",
                                                            .evaluation = &evaluation,
                                                            .callbacks = &callbacks,
                                                            .user = p,
                                                            .begins = publishing_begins},
                                      &e);
    if (!made) fail_msg("%s", e.text);
    gq_publication_free(made);
    assert_told(&p->told, "a publication");
    assert_int_equal(p->unknown, 0);
}

/* Of all its parts together: one share that never falls and is 1 at the end alone, also where files and
 * scores are there already. */
TEST(a_publication_is_told_of_as_one) {
    publishing p;
    publish_relayed(&p);
    assert_string_equal(p.parts, "plan plan verify plan quantize evaluate checksums");
    publish_relayed(&p);
    assert_string_equal(p.parts, "plan plan verify evaluate checksums");
}

typedef struct summing {
    uint64_t calls;
    double first, last; /* shares told of checksums */
} summing;

static void summing_hear(void *user, const gq_progress *now) {
    summing *s = user;
    if (!now->tensor || strcmp(now->tensor, "checksums of the files") != 0) return;
    if (!s->calls++) s->first = now->share;
    s->last = now->share;
}

/* Before an evaluation whose scores are kept. */
TEST(checksums_before_an_evaluation_count) {
    gq_error e;
    summing s = {0};
    gq_callbacks callbacks = {.size = sizeof callbacks, .user = &s, .progress = summing_hear};
    gq_evaluation *v =
        gq_evaluate(&(gq_evaluation_request){.size = sizeof(gq_evaluation_request),
                                             .base_model = path("model.gguf"),
                                             .quants = (const char *const[]){path("model.gguf")},
                                             .n_quants = 1,
                                             .text = the_text(),
                                             .folder = folder,
                                             .scores_file = path("summed.scores"),
                                             .callbacks = &callbacks},
                    &e);
    if (!v) fail_msg("%s", e.text);
    gq_evaluation_free(v);
    assert_true(s.calls > 2 && s.first > 0 && s.last > s.first && s.last < 1);
}

/* ---- what it is counted by ---- */

/* Layers of one shape take the same share each, and a report comes long before a site ends. By weights that
 * were rounded, a layer's feed-forward sublayer would be two thirds of it. */
TEST(a_calibration_counts_what_each_piece_costs) {
    told t;
    gq_calibration c = {.size = sizeof c, .text = the_text(), .steps = "-random,-validation"};
    gq_output out = {.path = path("calibrated.gguf"), .filetype = "Q4_K_M"};
    gq_options o = options_for(path("model.gguf"), &out);
    o.calibration = &c, o.force = true;
    run_told(&o, false, &t);
    double first = t.layer_ends[1], second = t.layer_ends[2] - first,
           third = t.layer_ends[3] - t.layer_ends[2];
    if (!(fabs(second - third) < .02 && fabs(first - second) < .05))
        fail_msg("layers take %g, %g and %g of the work", first, second, third);
    if (!(t.largest < .06)) fail_msg("%g of the work was told at once", t.largest);
    assert_true(t.calls > 100);
}

/* The first tensor and the second have the same bytes, but one is copied and the other one encoded. */
typedef struct half {
    double at_half; /* the share when half of the bytes were done */
} half;

static void note_half(void *user, const gq_progress *now) {
    half *h = user;
    if (now->bytes_done * 2 <= now->bytes_total) h->at_half = now->share;
}

static double share_at_half(const char *first, const char *second) {
    gq_error e;
    half h = {0};
    const char *types[] = {first, second};
    gq_output out = {.path = path("two.gguf"), .filetype = "Q4_0"};
    gq_options o = options_for(path("two-in.gguf"), &out);
    o.tensor_types = (gq_list){types, 2}, o.threads = 1, o.force = true;
    gq_callbacks callbacks = {.size = sizeof callbacks, .user = &h, .progress = note_half};
    gq_plan *plan = gq_plan_new(&o, &e);
    if (!plan) fail_msg("%s", e.text);
    if (!gq_run(plan, &callbacks, NULL, &e)) fail_msg("%s", e.text);
    gq_plan_free(plan);
    return h.at_half;
}

TEST(outputs_count_what_their_types_cost) {
    const uint64_t ne[4] = {512, 4096};
    model *m = model_new("llama", 2);
    model_add(m, "blk.0.ffn_up.weight", GGUF_F16, ne, NULL);
    model_add(m, "blk.1.ffn_up.weight", GGUF_F16, ne, NULL);
    model_save(m, path("two-in.gguf"));
    double even = share_at_half("blk.0.ffn_up=Q4_K", "blk.1.ffn_up=Q4_K"),
           cheap = share_at_half("blk.0.ffn_up=F16", "blk.1.ffn_up=IQ3_S"),
           dear = share_at_half("blk.0.ffn_up=IQ3_S", "blk.1.ffn_up=F16");
    if (!(fabs(even - .5) < .01 && cheap < .2 && dear > .8))
        fail_msg("at half of the bytes: %g, %g and %g", even, cheap, dear);
}

/* ---- made-up time ---- */

/* A fake clock, in a job whose pieces take other times than was predicted: 1.4 and .8 of it, in turn. The
 * time left follows, and does not jump. */
TEST(the_time_left_rises_by_no_more_than_a_quarter) {
    enum { PIECES = 40, PARTS = 50 };
    gq_progress now = {.size = sizeof now, .bytes_total = 1, .seconds_expected = PIECES};
    double least = INFINITY;
    for (int piece = 0; piece < PIECES; piece++)
        for (int part = 1; part <= PARTS; part++) {
            now.seconds += (piece % 2 ? .8 : 1.4) / PARTS;
            share_set(&now, piece + (double)part / PARTS, 0, PIECES + 1e-9);
            double left = now.seconds_left;
            if (now.seconds > 2 && now.share < .95 && left > 1.25 * least)
                fail_msg("%g s left at %g s, %g s before", left, now.seconds, least);
            least = fmin(least, left);
        }
    assert_true(fabs(now.seconds - 1.1 * PIECES) < .01 && now.seconds_left < .1);
    /* What an earlier run did says nothing of the speed. */
    now = (gq_progress){.size = sizeof now, .bytes_total = 1, .seconds = 5, .seconds_resumed = 3};
    share_set(&now, 6, 5, 10);
    assert_true(fabs(now.seconds_left - 8) < 1e-9 && now.share == .6 && now.share_resumed == .5);
}

/* What is told of a piece stays within it, whether it has less or more than was predicted. */
TEST(pieces_begin_where_those_before_them_end) {
    gq_error e;
    told t;
    gq_callbacks callbacks = noting(&t);
    sweep_progress p = sweep_progress_start(&callbacks, 100, 0, 7);
    sweep_progress_span(&p, 10, 50);
    sweep_progress_within(&p, 0, "a");
    assert_true(t.share == .1);
    sweep_progress_piece(&p, 20);
    assert_true(sweep_progress_report(&p, 500, "a", &e) && t.share == .3); /* more than it was to have */
    sweep_progress_piece(&p, 10);
    sweep_progress_within(&p, .5, "a");
    assert_true(t.share == .35);
    sweep_progress_within(&p, .2, "a"); /* it is begun again: nothing falls */
    assert_true(t.share == .35);
    sweep_progress_piece(&p, 90); /* beyond the span */
    sweep_progress_within(&p, 1, "a");
    assert_true(t.share == .5);
    sweep_progress_span(&p, 100, 100);
    assert_true(sweep_progress_report(&p, 0, "a", &e) && t.share == 1);
}

static void report_stage(const gq_callbacks *c, double share, double resumed) {
    c->progress(c->user,
                &(gq_progress){.size = sizeof(gq_progress), .share = share, .share_resumed = resumed});
}

/* Three stages of 6, 3 and 1: the third is told nothing of. */
TEST(stages_share_a_call_by_what_they_take) {
    told t;
    gq_callbacks callbacks = noting(&t);
    job_progress j;
    job_progress_begin(&j, &callbacks, 10);
    const gq_callbacks *stage = job_progress_stage(&j, 6);
    assert_true(!stage->cancelled && !stage->tensor_done);
    report_stage(stage, .5, .25);
    assert_true(fabs(t.share - .3) < 1e-12);
    report_stage(stage, 1, .25);
    stage = job_progress_stage(&j, 3);
    report_stage(stage, 0, 0);
    assert_true(fabs(t.share - .6) < 1e-12 && fabs(j.relay.last.share_resumed - .15) < 1e-12);
    report_stage(stage, 1, 0);
    job_progress_stage(&j, 1);
    assert_true(fabs(t.share - .9) < 1e-12);
    job_progress_end(&j);
    assert_told(&t, "stages");
    /* A job that told nothing has no end to tell either. */
    callbacks = noting(&t);
    job_progress_begin(&j, &callbacks, 1);
    job_progress_end(&j);
    assert_int_equal(t.calls, 0);
}

int main(void) { return tests_run(start, folder_remove); }
