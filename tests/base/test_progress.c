/* What is told of a job on its way: bytes and weights that this run did, in every kind of job. */
#include "tests/support/command.h"
#include "tests/support/folder.h"

#include <fcntl.h>
#include <math.h>

#include "cli/cli.h"

enum { WEIGHTS = 256 * 1024 + 512 * 32, NORM = 1023 }; /* of matrices; and of what is never quantized */

FIXTURE(set_up) {
    folder = temporary_folder();
    model *m = model_new("llama", 1);
    model_add(m, "blk.0.attn_q.weight", GGUF_F16, (uint64_t[4]){256, 1024}, NULL);
    model_add(m, "blk.0.ffn_norm.weight", GGUF_F32, (uint64_t[4]){NORM}, NULL);
    model_add(m, "blk.0.ffn_up.weight", GGUF_F32, (uint64_t[4]){512, 32}, NULL);
    model_save(m, path("in.gguf"));
    quantize(path("in.gguf"), path("copy.gguf"), "Q8_0", 2);
    return 0;
}

static void keep_last(void *user, const gq_progress *now) {
    gq_progress *last = user;
    assert_true(now->bytes_done >= last->bytes_done && now->weights_done >= last->weights_done);
    *last = *now;
}

TEST(every_job_counts_what_it_did) {
    gq_error e;
    gq_progress last = {0};
    gq_callbacks callbacks = {.size = sizeof callbacks, .user = &last, .progress = keep_last};
    const gq_comparison_request asked = {.size = sizeof asked,
                                         .base_model = path("in.gguf"),
                                         .quants = (const char *const[]){path("copy.gguf")},
                                         .n_quants = 1,
                                         .threads = 2,
                                         .callbacks = &callbacks};
    gq_comparison *c = gq_compare(&asked, &e);
    if (!c) fail_msg("%s", e.text);
    assert_int_equal(last.weights_done, WEIGHTS + NORM);
    assert_int_equal(last.bytes_done, last.bytes_total);
    gq_comparison_free(c);
    last = (gq_progress){0};
    gq_verification *v = gq_verify(path("in.gguf"), NULL, 0, 2, &callbacks, &e);
    if (!v) fail_msg("%s", e.text);
    assert_int_equal(last.weights_done, WEIGHTS + NORM);
    assert_int_equal(last.bytes_done, last.bytes_total);
    gq_verification_free(v);
    /* Measuring for a target: both matrices are no larger than a sample. */
    last = (gq_progress){0};
    gq_output out = {.path = path("out.gguf"), .target.bpw = 6};
    gq_options o = {.size = sizeof o,
                    .input = path("in.gguf"),
                    .outputs = &out,
                    .n_outputs = 1,
                    .threads = 2,
                    .effort = GQ_EFFORT_FAST,
                    .callbacks = &callbacks};
    gq_plan *plan = gq_plan_new(&o, &e);
    if (!plan) fail_msg("%s", e.text);
    assert_int_equal(last.weights_done, WEIGHTS);
    assert_int_equal(last.bytes_done, last.bytes_total);
    last = (gq_progress){0};
    assert_true(gq_run(plan, &callbacks, NULL, &e));
    assert_int_equal(last.weights_done, WEIGHTS + NORM);
    assert_int_equal(last.bytes_done, last.bytes_total);
    gq_plan_free(plan);
}

/* Four fifths were there already and were looked at in four seconds; the rest took two. */
TEST(rates_are_of_this_run) {
    gq_progress now = {.bytes_done = 900 << 20,
                       .bytes_total = 1000 << 20,
                       .weights_done = 450000000,
                       .seconds = 6,
                       .bytes_resumed = 800 << 20,
                       .weights_resumed = 400000000,
                       .seconds_resumed = 4,
                       .share = .909,
                       .seconds_left = 2};
    char text[PROGRESS_LINE_BYTES];
    assert_string_equal(progress_text(text, &now, NULL, 0),
                        " 90 %  of 1.05 GB  52.4 MB/s  25.0 M weights/s  2.0 s left");
    assert_string_equal(progress_text(text, &now, "verify", 0),
                        " 90 %  verify: 1.05 GB  52.4 MB/s  25.0 M weights/s  2.0 s left");
    assert_int_equal(strlen(progress_text(text, &now, NULL, 40)), 39);
    assert_true(progress_weights(&now) == 25e6);
    now.bytes_done = now.bytes_resumed, now.weights_done = now.weights_resumed;
    now.seconds = now.seconds_resumed, now.share = .8, now.seconds_left = NAN;
    assert_string_equal(progress_text(text, &now, NULL, 0), " 80 %  of 1.05 GB  0 bytes/s  ? left");
    assert_true(progress_weights(&now) == 0);
    /* What is nearly done is not said to be. */
    now.share = .9999;
    assert_int_equal(strncmp(progress_text(text, &now, NULL, 0), " 99 %", 5), 0);
    now = (gq_progress){.bytes_done = UINT64_MAX, .bytes_total = UINT64_MAX, .weights_done = UINT64_MAX};
    assert_true(strlen(progress_text(text, &now, NULL, 1000)) < PROGRESS_LINE_BYTES);
}

/* Where standard error is no terminal, a run that takes long writes a line for every tenth. */
TEST(a_log_gets_a_line_for_each_tenth) {
    const request r = {.command = CMD_EVALUATE, .said = &(said){.log = -1}};
    progress p;
    int before = dup(STDERR_FILENO), to = open(path("log"), O_RDWR | O_CREAT, 0600);
    assert_true(before >= 0 && to >= 0 && dup2(to, STDERR_FILENO) >= 0);
    progress_start_phase(&p, &r, "evaluate");
    gq_callbacks calls = progress_callbacks(&p);
    for (unsigned i = 0; i <= 100; i++)
        calls.progress(calls.user, &(gq_progress){.bytes_done = i,
                                                  .bytes_total = 100,
                                                  .share = i / 100.,
                                                  .seconds = i / 4.,
                                                  .tokens = 7,
                                                  .seconds_expected = 1200,
                                                  .tensor = "layer 1 of 2"});
    progress_end(&p, NULL);
    assert_true(dup2(before, STDERR_FILENO) >= 0);
    close(before), close(to);
    char *log = (char *)read_whole(path("log"), NULL);
    assert_int_equal(strncmp(log, "time: about 20 minutes\n 20 %  of 7 tokens", 40), 0);
    size_t lines = 0;
    for (const char *c = log; (c = strchr(c, '\n')); c++) lines++;
    assert_int_equal(lines, 1 + 9);
    free(log);
}

TEST(comparing_takes_a_copy) {
    gq_error e;
    gq_comparison_request r = {sizeof r, .original = path("in.gguf")};
    assert_null(gq_compare(&r, &e));
    assert_true(e.status == GQ_USAGE && strstr(e.text, "at least one quantized model"));
}

int main(void) { return tests_run(set_up, folder_remove); }
