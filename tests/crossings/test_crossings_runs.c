/* Features crossed at random where a model is run: calibrated files, importance data, logits, outputs that
 * are evaluated. However a job is done - by how many threads, in how much memory, beside others, after
 * interruptions and damage - it ends in the same bytes or in an error that leaves all others' files alone.
 *
 *     GQUANT_TEST_CROSSINGS=N   cases; default: 130, fewer under sanitizers
 *     GQUANT_TEST_SEED=N        of the first case; the next ones have N+1, N+2, ...
 */
#include "tests/crossings/crossing_damage.h"
#include "tests/crossings/crossing_files.h"
#include "tests/crossings/crossing_runs_ways.h"
#include "tests/support/model.h"

static snapshot inputs;

/* ---- what is drawn ---- */

/* The same model in shards. */
static void split_model(const char *in) {
    setting none = {.isa = NULL};
    arguments a = {.n = 0};
    arguments_add(&a, "-q"), arguments_add(&a, "--split-max-size"), arguments_add(&a, "%u", 40000);
    arguments_add(&a, "whole.gguf"), arguments_add(&a, "in"), arguments_add(&a, "COPY");
    if (run("in", none, a).status) return;
    file_list files = files_in(in, NULL);
    for (size_t i = 0; i < files.n; i++) at.model.shards += !strncmp(files.names[i], "in-0", 4);
    at.model.shards = at.model.shards > 2 ? at.model.shards - 1 : 1;
    files_free(&files);
}

/* "45.5 MiB" in bytes, with what rounding may have taken away. */
static uint64_t bytes_of(const char *text) {
    static const char *const units[] = {"KiB", "MiB", "GiB"};
    char *unit;
    double bytes = strtod(text, &unit) * 1.003;
    for (size_t i = 0; i < 3; i++)
        if (!strncmp(unit + (*unit == ' '), units[i], 3)) bytes *= (double)(UINT64_C(1) << (10 * (i + 1)));
    return (uint64_t)bytes;
}

/* What the job takes at least: what is said where there is not enough. */
static void find_least_memory(void) {
    crossing_options *o = &at.options;
    o->most_threads = 1 + (unsigned)below(6);
    if (o->job == JOB_LOGITS) {
        o->least_memory = 1 << 20;
        return;
    }
    arguments a = all_words(o, o->most_threads);
    arguments_add(&a, "--memory"), arguments_add(&a, "1"), arguments_add(&a, "--dry-run");
    outcome said = run("in", (setting){.isa = NULL}, a);
    char *take = strstr(said.text, " take ");
    if (said.status && strstr(said.text, "not enough") && take) o->least_memory = bytes_of(take + 6);
}

static void draw_case(const char *in) {
    crossing_model_draw_running(&at.model, in);
    if (chance(12)) split_model(in);
    crossing_importance_draw(&at.model, in, "importance.dat", "importance.gguf");
    crossing_importance_draw(&at.model, in, "importance-2.dat", "importance-2.gguf");
    write_whole(in_folder(in, "recipe.txt"), "attn=Q8_0", 9);
    crossing_options_draw_running(&at.options, &at.model);
    if (!SANITIZED && at.options.job != JOB_QUANTIZE && chance(45)) {
        find_least_memory();
        crossing_aspect_draw(&at.options, ASPECT_MEMORY, &at.model);
    }
    inputs = snapshot_take(in);
}

/* ---- what is looked at ---- */

static void look_at_reference(void) {
    if (at.options.command.n) return;
    char *difference = sizes_difference(in_folder(at.folder, "ref"), in_folder(at.folder, "dry.json"));
    if (difference) fail_case("the dry run and ref: %s", difference);
    if (!chance(10)) return;
    file_list files = files_first(in_folder(at.folder, "ref"));
    for (size_t i = 0; i < files.n; i++) {
        arguments a = {.n = 0};
        arguments_add(&a, "verify"), arguments_add(&a, "-q"), arguments_add(&a, "%s", files.names[i]);
        outcome o = run("ref", (setting){.isa = NULL}, a);
        if (o.status && !at.options.aspects[ASPECT_TRANSPOSE].n)
            fail_case("verify %s: %s", files.names[i], o.text);
    }
    files_free(&files);
}

static void end_case(void) {
    char *difference = snapshot_difference(&inputs, in_folder(at.folder, "in"));
    if (difference && !at.way_left) fail_case("of the inputs %s", difference);
    snapshot_free(&inputs);
}

int main(void) {
    crossing_test test = {.draw = draw_case,
                          .look_at_reference = look_at_reference,
                          .end = end_case,
                          .ways_with_reference = 1,
                          .cases = SANITIZED ? 25 : 130};
    test.ways = crossing_runs_ways(&test.n_ways);
    return crossing_run_cases(&test);
}
