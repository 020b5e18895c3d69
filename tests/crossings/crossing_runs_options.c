/* Options of jobs that run a model: calibrated files, importance data, logits, and files that are evaluated.
 */
#include "tests/crossings/crossing.h"

#define ANY_OF(list) (list)[below(sizeof(list) / sizeof *(list))]

static const char *second(void) { return chance(65) ? "" : "-2"; }

static void draw_context(arguments *a) {
    static const unsigned contexts[] = {4, 6, 8, 8, 12, 16};
    arguments_add(a, "--context"), arguments_add(a, "%u", ANY_OF(contexts));
}

static void draw_number(arguments *a, const char *option, unsigned least, unsigned n) {
    arguments_add(a, "%s", option), arguments_add(a, "%u", least + (unsigned)below(n));
}

static void draw_arithmetic(arguments *a) {
    if (chance(20)) arguments_add(a, "--arithmetic"), arguments_add(a, chance(80) ? "bf16" : "float32");
}

/* ---- what the model is run on ---- */

static void draw_calibration(arguments *a, const crossing_model *m) {
    static const char *const settings[] = {"--correction", "--damp", "--shrink"}, *const values[] = {
                                                                                      "0", "0.01", "0.3",
                                                                                      "1"};
    if (m->letters && chance(40)) {
        arguments_add(a, "--calibrate"), arguments_add(a, "../in/text%s.txt", second());
    } else if (chance(12)) {
        arguments_add(a, "--calibrate"), arguments_add(a, "@random");
        draw_number(a, "--calibrate-tokens", 16, 80);
    } else {
        arguments_add(a, "--calibrate-ids");
        arguments_add(a, "../in/%s%s.txt", m->chats && chance(35) ? "chats" : "ids", second());
        if (chance(30)) draw_number(a, "--calibrate-tokens", 16, 80);
    }
    draw_context(a);
    for (size_t i = 0; i < 3; i++)
        if (chance(10)) arguments_add(a, "%s", settings[i]), arguments_add(a, "%s", ANY_OF(values));
    static const char *const steps[] = {"none",  "all", "-damping", "sweeps", "-state", "-router,-embedding",
                                        "-rows", "rows"};
    if (chance(20)) arguments_add(a, "--calibrate-steps"), arguments_add(a, "%s", ANY_OF(steps));
    draw_arithmetic(a);
}

static void draw_importance(crossing_options *o, const crossing_model *m) {
    arguments *a = &o->aspects[ASPECT_TOKENS];
    arguments_free(&o->texts);
    if (m->letters && chance(60)) {
        arguments_add(&o->texts, "../in/text%s.txt", second());
        if (chance(30)) arguments_add(&o->texts, "../in/text%s.txt", second());
        if (chance(20)) arguments_add(a, "--parse-special");
    } else {
        arguments_add(a, "--ids");
        arguments_add(a, "../in/%s%s.txt", m->chats && chance(35) ? "chats" : "ids", second());
    }
    draw_context(a);
    if (chance(25)) draw_number(a, "--tokens", 16, 80);
    if (chance(25)) arguments_add(a, "--process-output");
    if (chance(12)) arguments_add(a, "--part"), arguments_add(a, "%u/2", 1 + (unsigned)below(2));
    draw_arithmetic(a);
}

static void draw_logits(arguments *a, const crossing_model *m) {
    bool text = m->letters && chance(50);
    arguments_add(a, text ? "--text" : "--ids");
    arguments_add(a, "../in/%s%s.txt", text ? "text" : "ids", second());
    draw_context(a);
}

/* The other text of the same kind. */
static bool swap_text(arguments *a) {
    for (size_t i = 0; i < a->n; i++) {
        char *old = a->items[i], *end = strstr(old, ".txt"), *two = strstr(old, "-2.txt");
        if (!end) continue;
        *(two ? two : end) = 0;
        assert_true(asprintf(&a->items[i], "%s%s.txt", old, two ? "" : "-2") > 0);
        free(old);
        return true;
    }
    return false;
}

static void draw_tokens(crossing_options *o, const crossing_model *m) {
    arguments *a = &o->aspects[ASPECT_TOKENS];
    if (a->n && chance(50) && (swap_text(a) || swap_text(&o->texts))) return; /* in which just that differs */
    arguments_free(a);
    if (o->job == JOB_CALIBRATE) draw_calibration(a, m);
    if (o->job == JOB_IMPORTANCE) draw_importance(o, m);
    if (o->job == JOB_LOGITS) draw_logits(a, m);
}

/* ---- within what ---- */

/* Near the least, where less and less is done at once. */
static void draw_memory(crossing_options *o) {
    arguments *a = &o->aspects[ASPECT_MEMORY];
    static const uint64_t more[] = {64 << 10, 512 << 10, 2 << 20, 8 << 20, 32 << 20, 128 << 20};
    if (!o->least_memory || chance(15)) return;
    arguments_add(a, "--memory");
    arguments_add(a, "%llu", (unsigned long long)(o->least_memory + below(ANY_OF(more))));
}

static void draw_evaluation(crossing_options *o, const crossing_model *m) {
    arguments *a = &o->aspects[ASPECT_EVALUATE];
    if (o->job > JOB_CALIBRATE || !m->letters || !chance(o->job == JOB_QUANTIZE ? 85 : 20)) return;
    arguments_add(a, "--evaluate"), arguments_add(a, "../in/text%s.txt", second());
    if (o->job == JOB_QUANTIZE) draw_context(a);
}

void crossing_run_aspect_draw(crossing_options *o, enum crossing_aspect aspect, const crossing_model *m) {
    if (aspect != ASPECT_TOKENS) arguments_free(&o->aspects[aspect]);
    if (aspect == ASPECT_TOKENS) draw_tokens(o, m);
    if (aspect == ASPECT_MEMORY) draw_memory(o);
    if (aspect == ASPECT_EVALUATE) draw_evaluation(o, m);
}

/* ---- together ---- */

/* What a job of another kind than quantizing is asked for by, and what it makes. */
static void draw_command(crossing_options *o) {
    if (o->job == JOB_IMPORTANCE) {
        arguments_add(&o->command, "imatrix"), arguments_add(&o->command, "compute");
        arguments_add(&o->outputs, chance(50) ? "out.gguf" : "out.dat");
    } else {
        arguments_add(&o->command, "evaluate");
        arguments_add(&o->outputs, "--logits"), arguments_add(&o->outputs, "out.logits");
    }
}

void crossing_options_draw_running(crossing_options *o, const crossing_model *m) {
    static const enum crossing_job jobs[] = {JOB_CALIBRATE,  JOB_CALIBRATE,  JOB_CALIBRATE, JOB_CALIBRATE,
                                             JOB_CALIBRATE,  JOB_CALIBRATE,  JOB_QUANTIZE,  JOB_QUANTIZE,
                                             JOB_IMPORTANCE, JOB_IMPORTANCE, JOB_LOGITS};
    enum crossing_job job = ANY_OF(jobs);
    *o = (crossing_options){.target = false};
    if (job == JOB_QUANTIZE && !m->letters) job = JOB_CALIBRATE;
    if (job <= JOB_CALIBRATE) crossing_options_draw(o, m);
    o->job = job;
    if (job > JOB_CALIBRATE) draw_command(o);
    /* Refused beside a calibration: seldom. */
    if (job == JOB_CALIBRATE && !chance(4)) arguments_free(&o->aspects[ASPECT_IMPORTANCE]);
    if (job == JOB_CALIBRATE && !chance(4)) arguments_free(&o->aspects[ASPECT_TRANSPOSE]);
    for (int i = N_PLAIN_ASPECTS; i < N_ASPECTS; i++) crossing_run_aspect_draw(o, (enum crossing_aspect)i, m);
}
