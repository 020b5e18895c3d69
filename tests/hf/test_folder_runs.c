/* Runs from a Hugging Face folder end in the same bytes as from its GGUF, and in the same bytes when they are
 * stopped, killed or shared; a folder that changes in between is noticed. */
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>

#include "tests/support/command.h"
#include "tests/support/folder.h"
#include "tests/support/runs.h"
#include "tests/support/tiny_folder.h"

enum { LAYERS = 4, EXPERTS = 4 };

static int set_up(void **state) {
    folder_make(state);
    tiny_folder_write(path("In"), LAYERS, EXPERTS, 5);
    tiny_folder_text(path("In"), "README.md", "---\nlicense: mit\n---\n");
    tiny_folder_text(path("In"), "notes.txt", "nobody reads this");
    quantize(path("In"), path("wanted.gguf"), "Q4_K_S", 2);
    GQUANT(0, "-q", path("In"), path("in.gguf"), "BF16");
    write_whole(path("ids.txt"), "0 1 2 3 4 5 6 7 7 6 5 3 1 4 2 0 5 5 1 2 6 3 0 4 4 1 7 2 0 6 5 3", 63);
    return 0;
}

static gq_options options_of(const char *input, const gq_output *out) { return run_options(input, out, 2); }

/* ---- stopped and killed ---- */

TEST(interrupted_runs_go_on) {
    gq_output out = {.path = path("interrupted.gguf"), .filetype = "Q4_K_S"};
    gq_options o = options_of(path("In"), &out);
    gq_error e;
    stopper first = {.after = 5}, second = {.after = 12}, last = {.after = 0};
    assert_int_equal(run_some(&o, &first, &e), GQ_INTERRUPTED);
    assert_true(announced(&o, "will be continued"));
    assert_int_equal(run_some(&o, &second, &e), GQ_INTERRUPTED);
    assert_true(second.resumed > 0);
    tiny_folder_text(path("In"), "notes.txt", "nor this");
    assert_int_equal(run_some(&o, &last, &e), GQ_OK);
    assert_true(last.resumed >= second.resumed && last.done == last.total);
    assert_same_file(path("wanted.gguf"), out.path);
}

/* What is done of a model belongs to its adapters, too. */
TEST(runs_with_an_adapter_go_on_with_that_adapter) {
    tiny_adapter_write(path("Lora"), false);
    char *lora = strdup(path("Lora"));
    gq_adapter adapter = {.path = lora};
    gq_output out = {.path = path("wanted-lora.gguf"), .filetype = "Q4_K_S"};
    gq_options o = options_of(path("In"), &out);
    gq_error e;
    stopper first = {.after = 5}, last = {.after = 0};
    o.adapters = (gq_adapters){.items = &adapter, .n = 1};
    assert_int_equal(run_some(&o, &last, &e), GQ_OK);
    out.path = path("lora.gguf"), last = (stopper){.after = 0};
    assert_int_equal(run_some(&o, &first, &e), GQ_INTERRUPTED);
    assert_true(announced(&o, "will be continued"));
    adapter.scale = 2;
    assert_false(announced(&o, "will be continued"));
    adapter.scale = 1; /* what 0 stands for */
    assert_true(announced(&o, "will be continued"));
    assert_int_equal(run_some(&o, &last, &e), GQ_OK);
    assert_true(last.resumed > 0);
    assert_same_file(path("wanted-lora.gguf"), path("lora.gguf"));
    free(lora);
}

TEST(killed_runs_go_on) {
    gq_output out = {.path = path("killed.gguf"), .filetype = "Q4_K_S"};
    gq_options o = options_of(path("In"), &out);
    for (long us = 2000; us < 2000 << 6; us *= 2) {
        pid_t child = start_run(&o);
        nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
        kill(child, SIGKILL);
        run_finished(child);
        if (!exists(out.path)) assert_true(run_finished(start_run(&o)));
        assert_same_file(path("wanted.gguf"), out.path);
        unlink(out.path);
    }
}

/* ---- folders that change ---- */

/* Replaces a piece of a file by one of the same length; its times stay as they were. */
static void change_quietly(const char *name, const char *from, const char *to) {
    char file[4096];
    struct stat st;
    size_t n;
    snprintf(file, sizeof file, "%s/%s", path("Changing"), name);
    assert_int_equal(stat(file, &st), 0);
    char *text = (char *)read_whole(file, &n), *at = memmem(text, n, from, strlen(from));
    assert_non_null(at);
    memcpy(at, to, strlen(from));
    int fd = open(file, O_WRONLY);
    assert_int_equal(write(fd, text, n), n);
    assert_int_equal(futimens(fd, (struct timespec[2]){st.st_atim, st.st_mtim}), 0);
    close(fd);
    free(text);
}

static void give_another_time(const char *name) {
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 1000000}};
    assert_int_equal(utimensat(AT_FDCWD, path(in_folder("Changing", name)), times, 0), 0);
}

static void change_config(void) { change_quietly("config.json", "1e-5", "2e-5"); }
static void change_vocabulary(void) { change_quietly("tokenizer.json", "\"e\":4", "\"f\":4"); }
static void change_card(void) { change_quietly("README.md", "mit", "bsd"); }
static void touch_weights(void) { give_another_time("model.safetensors"); }
static void lose_card(void) { unlink(path("Changing/README.md")); }
static void add_sampling(void) {
    tiny_folder_text(path("Changing"), "generation_config.json", "{\"top_k\":4}");
}

/* A run is stopped, a file of the folder changes, and the next run begins anew. */
TEST(a_changed_folder_starts_afresh) {
    static void (*const changes[])(void) = {change_config, change_vocabulary, change_card,
                                            touch_weights, lose_card,         add_sampling};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        gq_output out = {.path = path("changed.gguf"), .filetype = "Q4_K_S"};
        gq_options o = options_of(path("Changing"), &out);
        gq_error e;
        stopper first = {.after = 8}, last = {.after = 0};
        tiny_folder_write(path("Changing"), LAYERS, EXPERTS, 5);
        tiny_folder_text(path("Changing"), "README.md", "---\nlicense: mit\n---\n");
        assert_int_equal(run_some(&o, &first, &e), GQ_INTERRUPTED);
        assert_true(announced(&o, "will be continued"));
        changes[i]();
        if (!announced(&o, "starts afresh")) fail_msg("change %zu is not noticed", i);
        assert_int_equal(run_some(&o, &last, &e), GQ_OK);
        assert_int_equal(last.resumed, 0);
        quantize(path("Changing"), path("fresh.gguf"), "Q4_K_S", 2);
        assert_same_file(path("fresh.gguf"), out.path);
        remove_folder(strdup(path("Changing"))), unlink(out.path), unlink(path("fresh.gguf"));
    }
}

/* Of small files the contents decide, as of a folder that was downloaded again. */
TEST(a_touched_config_changes_nothing) {
    gq_output out = {.path = path("touched.gguf"), .filetype = "Q4_K_S"};
    gq_options o = options_of(path("Changing"), &out);
    gq_error e;
    stopper first = {.after = 8}, last = {.after = 0};
    tiny_folder_write(path("Changing"), LAYERS, EXPERTS, 5);
    assert_int_equal(run_some(&o, &first, &e), GQ_INTERRUPTED);
    give_another_time("config.json");
    assert_true(announced(&o, "will be continued"));
    assert_int_equal(run_some(&o, &last, &e), GQ_OK);
    assert_true(last.resumed > 0);
    quantize(path("Changing"), path("fresh.gguf"), "Q4_K_S", 2);
    assert_same_file(path("fresh.gguf"), out.path);
    remove_folder(strdup(path("Changing"))), unlink(out.path), unlink(path("fresh.gguf"));
}

static void touch_file(void *user, const gq_progress *p) {
    (void)p;
    assert_int_equal(utimensat(AT_FDCWD, user, NULL, 0), 0);
}

/* What is changed while it is read is refused in the end. */
TEST(a_folder_that_changes_meanwhile_is_refused) {
    static const char *const names[] = {"model.safetensors", "config.json", "tokenizer.json"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char file[4096];
        gq_error e;
        tiny_folder_write(path("Touched"), 1, 0, 5);
        snprintf(file, sizeof file, "%s/%s", path("Touched"), names[i]);
        gq_output out = {.path = path("touched.gguf"), .filetype = "Q4_K_S"};
        gq_options o = options_of(path("Touched"), &out);
        gq_callbacks callbacks = {sizeof callbacks, file, touch_file, NULL, NULL};
        gq_plan *plan = gq_plan_new(&o, &e);
        assert_non_null(plan);
        assert_false(gq_run(plan, &callbacks, NULL, &e));
        if (!strstr(e.text, names[i]) || !strstr(e.text, "changed")) fail_msg("%s: %s", names[i], e.text);
        gq_plan_free(plan);
        assert_false(exists(out.path));
    }
}

/* Every file that was read is an input, whatever is asked for. */
TEST(no_file_of_the_folder_is_replaced) {
    static const char *const names[] = {"model.safetensors", "config.json", "tokenizer.json"};
    tiny_folder_write(path("Kept"), 1, 0, 5);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        gq_output out = {.path = path(in_folder("Kept", names[i])), .filetype = "Q4_K_S"};
        gq_options o = options_of(path("Kept"), &out);
        gq_error e;
        o.force = true;
        assert_null(gq_plan_new(&o, &e));
        if (!strstr(e.text, names[i])) fail_msg("%s: %s", names[i], e.text);
    }
    quantize(path("Kept"), path("kept.gguf"), "Q4_K_S", 1);
}

/* ---- parts ---- */

TEST(parts_of_another_folder_are_not_joined) {
    tiny_folder_write(path("Shared"), LAYERS, EXPERTS, 5);
    tiny_folder_text(path("Shared"), "README.md", "---\nlicense: mit\n---\n");
    gq_output out = {.path = path("parts.gguf"), .filetype = "Q4_K_S"};
    gq_options o = options_of(path("Shared"), &out);
    gq_error e;
    stopper some = {.after = 0};
    o.parts = 3;
    for (o.part = 1; o.part <= 3; o.part++) assert_int_equal(run_some(&o, &some, &e), GQ_OK);
    assert_false(exists(out.path));
    o.part = o.parts = 0, o.join = true;
    tiny_folder_text(path("Shared"), "README.md", "---\nlicense: bsd\n---\n");
    assert_int_not_equal(run_some(&o, &some, &e), GQ_OK); /* it is not the folder that the parts are of */
    assert_non_null(strstr(e.text, "input"));
    assert_false(exists(out.path));
    remove_folder(strdup(path("Shared")));
}

/* The same with the command, from a folder that stays as it is. */
TEST(parts_are_joined) {
    static const char *const shares[] = {"1/3", "2/3", "3/3"};
    for (int i = 0; i < 3; i++)
        GQUANT(0, "-q", "--part", shares[i], path("In"), path("joined.gguf"), "Q4_K_S");
    GQUANT(0, "-q", "--join", path("In"), path("joined.gguf"), "Q4_K_S");
    assert_same_file(path("wanted.gguf"), path("joined.gguf"));
}

/* ---- the same as from the GGUF ---- */

/* Quantizes the folder and its GGUF by the same words behind the input and the output, and compares. */
static void same_from_both(const char *const *words) {
    static const char *const inputs[] = {"In", "in.gguf"}, *const outputs[] = {"both-0.gguf", "both-1.gguf"};
    for (int i = 0; i < 2; i++) {
        const char *all[24] = {"-q"};
        char in[4096], out[4096];
        size_t n = 1;
        snprintf(in, sizeof in, "%s", path(inputs[i])), snprintf(out, sizeof out, "%s", path(outputs[i]));
        all[n++] = in, all[n++] = out;
        for (size_t k = 0; words[k]; k++) all[n++] = words[k];
        free(gquant(0, all));
    }
    assert_same_file(path(outputs[0]), path(outputs[1]));
    unlink(path(outputs[0])), unlink(path(outputs[1]));
}
#define SAME(...) same_from_both((const char *const[]){__VA_ARGS__, NULL})

TEST(options_do_the_same) {
    SAME("Q4_K_M");
    SAME("Q5_K_M", "--prune-layers", "1,2");
    SAME("Q4_K_M", "--tensor-type", "ffn_up_exps=Q6_K", "--keep", "attn_v");
    SAME("Q8_0", "--transpose", "attn_output");
    SAME("--target-bpw", "5");
    SAME("--target-size", "3M", "--transpose", "attn_output|ffn_gate");
}

/* What a target has measured is kept beside the folder, and used again only as long as the folder stays. */
TEST(measurements_follow_the_folder) {
    const char *kept = path("Measured.gquant-measure");
    tiny_folder_write(path("Measured"), LAYERS, EXPERTS, 5);
    GQUANT(0, "-q", "--target-bpw", "4.2", path("Measured"), path("t-0.gguf"));
    assert_true(exists(kept));
    size_t n, m;
    uint8_t *first = read_whole(kept, &n);
    GQUANT(0, "-q", "--force", "--target-bpw", "4.2", path("Measured"), path("t-1.gguf"));
    assert_same_file(path("t-0.gguf"), path("t-1.gguf"));
    tiny_folder_write(path("Measured"), LAYERS, EXPERTS, 77);
    GQUANT(0, "-q", "--force", "--target-bpw", "4.2", path("Measured"), path("t-1.gguf"));
    uint8_t *second = read_whole(kept, &m);
    assert_true(n != m || memcmp(first, second, n) != 0);
    GQUANT(0, "-q", "--force", "--measure-file", "none", "--target-bpw", "4.2", path("Measured"),
           path("t-2.gguf"));
    assert_same_file(path("t-1.gguf"), path("t-2.gguf"));
    free(first), free(second);
}

TEST(several_outputs_in_one_run) {
    GQUANT(0, "-q", "--out-dir", path("many"), path("In"), "Q4_K_S", "Q6_K", "BF16");
    GQUANT(0, "-q", "--out-dir", path("many"), path("in.gguf"), "Q4_K_S", "Q6_K");
    assert_same_file(path("many/In-Q4_K_S.gguf"), path("wanted.gguf"));
    assert_same_file(path("many/In-Q4_K_S.gguf"), path("many/in-Q4_K_S.gguf"));
    assert_same_file(path("many/In-Q6_K.gguf"), path("many/in-Q6_K.gguf"));
    assert_same_file(path("many/In-BF16.gguf"), path("in.gguf"));
}

/* Shards say which set they belong to, and that knows the input; what is in them is the same. */
TEST(shards_hold_the_same) {
    GQUANT(0, "-q", "--split-max-size", "1M", path("In"), path("s.gguf"), "Q4_K_S");
    assert_true(exists(path("s-00001-of-00004.gguf")) || exists(path("s-00001-of-00003.gguf")));
    const char *first =
        exists(path("s-00001-of-00004.gguf")) ? "s-00001-of-00004.gguf" : "s-00001-of-00003.gguf";
    GQUANT(0, "-q", path(first), path("merged.gguf"), "COPY");
    assert_same_file(path("wanted.gguf"), path("merged.gguf"));
}

/* ---- what flows into matrices ---- */

TEST(importance_data_fit_both) {
    GQUANT(0, "-q", "imatrix", "compute", "--context", "8", "--ids", path("ids.txt"), path("In"),
           path("folder.imatrix"));
    GQUANT(0, "-q", "imatrix", "compute", "--context", "8", "--ids", path("ids.txt"), path("in.gguf"),
           path("file.imatrix"));
    assert_same_file(path("folder.imatrix"), path("file.imatrix"));
    SAME("Q4_K_M", "--imatrix", path("file.imatrix"));
    SAME("IQ3_S", "--imatrix", path("file.imatrix"));
}

/* Options of a calibration by the ids of the file. */
static gq_options calibrated(const char *input, const gq_output *out, gq_calibration *c, char **ids) {
    size_t n;
    *ids = (char *)read_whole(path("ids.txt"), &n);
    *c = (gq_calibration){.size = sizeof *c, .text = {.bytes = *ids, .n = n, .ids = true, .context = 8}};
    gq_options o = options_of(input, out);
    o.calibration = c;
    return o;
}

/* Answers how often it is asked whether to stop, and does so at one of these times. */
typedef struct asked_to_stop {
    _Atomic size_t calls;
    size_t at; /* 0: never */
} asked_to_stop;

static bool stop_now(void *user) {
    asked_to_stop *a = user;
    return ++a->calls == a->at;
}

static gq_status calibrate_until(const gq_options *o, asked_to_stop *a) {
    gq_error e;
    gq_callbacks callbacks = {.size = sizeof callbacks, .user = a, .cancelled = stop_now};
    gq_plan *plan = gq_plan_new(o, &e);
    if (!plan) fail_msg("%s", e.text);
    e.status = GQ_OK;
    gq_status status = gq_run(plan, &callbacks, NULL, &e) ? GQ_OK : e.status;
    gq_plan_free(plan);
    return status;
}

TEST(an_interrupted_calibration_goes_on) {
    char *ids;
    gq_calibration c;
    gq_output whole = {.path = path("calibrated.gguf"), .filetype = "Q4_K_S"};
    gq_options o = calibrated(path("in.gguf"), &whole, &c, &ids);
    asked_to_stop never = {.at = 0};
    assert_int_equal(calibrate_until(&o, &never), GQ_OK);
    free(ids);
    gq_output out = {.path = path("interrupted-c.gguf"), .filetype = "Q4_K_S"};
    o = calibrated(path("In"), &out, &c, &ids);
    for (size_t third = 1; third < 3; third++) {
        asked_to_stop a = {.at = third * never.calls / 3};
        gq_status status = calibrate_until(&o, &a);
        assert_true(status == GQ_INTERRUPTED || status == GQ_OK);
    }
    if (!exists(out.path)) assert_int_equal(calibrate_until(&o, &never), GQ_OK);
    assert_same_file(whole.path, out.path);
    free(ids);
}

/* ---- comparing and evaluating ---- */

TEST(copies_are_compared_with_the_folder) {
    GQUANT(0, "-q", "compare", "--report", path("c.json"), path("In"), path("in.gguf"), path("wanted.gguf"));
    json *j = json_file(path("c.json"));
    const json *outputs = json_need(j, "outputs");
    assert_int_equal(outputs->n, 2);
    for (size_t k = 0; k < 2; k++) {
        const json *tensors = json_need(&outputs->items[k], "tensors");
        double worst = 0;
        assert_int_equal(tensors->n, LAYERS * 10 + 2);
        for (size_t i = 0; i < tensors->n; i++) {
            json_need(&tensors->items[i], "origin");
            double error = json_number(&tensors->items[i], "relative_error", 0);
            if (error > worst) worst = error;
        }
        assert_true(k == 0 ? worst == 0 : worst > 0.01);
    }
    json_free(j);
    char *a = PRINTED("evaluate", "--json", "--context", "8", "--ids", path("ids.txt"), path("In"),
                      path("wanted.gguf"));
    json *of_folder = json_parse(a);
    free(a);
    a = PRINTED("evaluate", "--json", "--context", "8", "--ids", path("ids.txt"), path("in.gguf"),
                path("wanted.gguf"));
    json *of_file = json_parse(a);
    free(a);
    for (size_t i = 0; i < 2; i++) {
        const json *x = &json_need(json_need(of_folder, "evaluation"), "models")->items[i];
        const json *y = &json_need(json_need(of_file, "evaluation"), "models")->items[i];
        assert_true(json_number(x, "perplexity", -1) == json_number(y, "perplexity", -2));
        assert_true(json_number(x, "divergence", -1) == json_number(y, "divergence", -1));
    }
    json_free(of_folder), json_free(of_file);
}

int main(int argc, char **argv) {
    if (argc == 4) return run_as_asked(argv);
    return tests_run(set_up, folder_remove);
}
