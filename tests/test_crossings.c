/* Features crossed at random: small models and sets of options. However a job is done - by how many threads,
 * on which kind of CPU, in parts, with interruptions - it ends in the same bytes or in the same error.
 *
 *     GQUANT_TEST_CROSSINGS=N   cases; default: 300, fewer under sanitizers
 *     GQUANT_TEST_SEED=N        of the first case; the next ones have N+1, N+2, ...
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/crossing_case.h"
#include "tests/crossing_files.h"
#include "tests/json.h"
#include "tests/model.h"
#include "tests/numbers.h"

static unsigned errors;

/* ---- the reference ---- */

static void look_at_output(const char *name) {
    setting none = {.isa = NULL};
    arguments a = {.n = 0}, b = {.n = 0};
    arguments_add(&a, "verify"), arguments_add(&a, "-q"), arguments_add(&a, "-r"),
        arguments_add(&a, "../ref.json");
    arguments_add(&a, "--"), arguments_add(&a, "%s", name);
    outcome o = run("ref", none, a);
    if (o.status)
        fail_case("verify %s: %s%s", name, (char *)read_whole(in_folder(at.folder, "stdout"), NULL), o.text);
    arguments_add(&b, "compare"), arguments_add(&b, "-q"), arguments_add(&b, "-r"),
        arguments_add(&b, "../cmp.json");
    arguments_add(&b, "--"), arguments_add(&b, "../in/%s", crossing_model_input(&at.model));
    arguments_add(&b, "%s", name);
    o = run("ref", none, b);
    if (at.options.aspects[ASPECT_PRUNE].n) return; /* other layers have those names now */
    if (o.status && at.model.n) fail_case("compare %s: %s", name, o.text);
    char *difference =
        o.status ? NULL
                 : reports_difference(in_folder(at.folder, "ref.json"), in_folder(at.folder, "cmp.json"));
    if (difference) fail_case("what the run and compare say of %s: %s", name, difference);
}

static void look_at_reference(void) {
    char *difference = sizes_difference(in_folder(at.folder, "ref"), in_folder(at.folder, "dry.json"));
    if (difference) fail_case("the dry run and ref: %s", difference);
    const arguments *split = &at.options.aspects[ASPECT_SPLIT];
    if (split->n == 2)
        difference = shards_above(in_folder(at.folder, "ref"), strtoull(split->items[1], NULL, 10));
    if (difference) fail_case("%s", difference);
    file_list files = files_first(in_folder(at.folder, "ref"));
    for (size_t i = 0; i < files.n; i++) look_at_output(files.names[i]);
    files_free(&files);
}

/* Without what a target has measured, which a dry run keeps for the run. */
static size_t count_inputs(void) {
    static const char kept[] = ".gquant-measure";
    file_list files = files_in(in_folder(at.folder, "in"), NULL);
    size_t n = files.n;
    for (size_t i = 0; i < files.n; i++) {
        size_t length = strlen(files.names[i]);
        n -= length >= sizeof kept && !strcmp(files.names[i] + length - (sizeof kept - 1), kept);
    }
    files_free(&files);
    return n;
}

static void run_reference(void) {
    mkdir(in_folder(at.folder, "ref"), 0777), mkdir(in_folder(at.folder, "dry"), 0777);
    arguments a = all_words(&at.options, 1);
    arguments_add(&a, "--dry-run");
    size_t files = count_inputs();
    outcome dry = run("dry", (setting){.isa = NULL}, reported(a, "dry"));
    at.planned = dry.status == 0;
    if (count_files(in_folder(at.folder, "dry")) || count_inputs() != files)
        fail_case("a dry run left files");
    at.reference = run("ref", (setting){.isa = NULL}, reported(all_words(&at.options, 1), "ref"));
    if (dry.status && (dry.status != at.reference.status || strcmp(dry.text, at.reference.text)))
        fail_case("dry: status %d: %s\nref: status %d: %s", dry.status, dry.text, at.reference.status,
                  at.reference.text);
    if (at.reference.status && at.planned && !at.model.spoilt)
        fail_case("planned, but: %s", at.reference.text);
    if (at.reference.status && count_files(in_folder(at.folder, "ref"))) fail_case("a failure left files");
    if (has_reference()) look_at_reference();
}

/* ---- cases ---- */

static void draw_case(void) {
    const char *in = in_folder(at.folder, "in");
    mkdir(in, 0777);
    crossing_model_draw(&at.model, in);
    crossing_options_draw(&at.options, &at.model);
    crossing_importance_draw(&at.model, in, "importance.dat", "importance.gguf");
    crossing_importance_draw(&at.model, in, "importance-2.dat", "importance-2.gguf");
}

/* What is drawn from here on does not depend on what was drawn before, which may depend on time. */
static void seed_step(void) {
    seed_random((at.seed * 16 + at.step) * 0x9E3779B97F4A7C15u + 1);
    for (int i = 0; i < 8; i++) next_random();
}

static void next_step(void) {
    at.step++;
    seed_step();
}

static void run_case(unsigned long seed) {
    at.seed = seed, at.step = 0, at.open = true;
    at.folder = temporary_folder();
    run_below(at.folder);
    seed_step();
    draw_case();
    run_reference();
    errors += !has_reference();
    for (at.step = 0; at.step < (has_reference() ? 3 : 2);) crossing_try_way(next_step);
    crossing_options_free(&at.options);
    remove_folder(at.folder);
    at.open = false;
}

/* Whatever failed: which case it was. Its folder stays. */
static int show_case(void **state) {
    (void)state;
    if (!at.open) return 0;
    fprintf(stderr, "%sonce more: GQUANT_TEST_SEED=%lu GQUANT_TEST_CROSSINGS=1\n", run_log(), at.seed);
    return 0;
}

static unsigned long number_of(const char *variable, unsigned long otherwise) {
    const char *text = getenv(variable);
    return text ? strtoul(text, NULL, 10) : otherwise;
}

static void every_way_ends_in_the_same_bytes(void **state) {
    (void)state;
    unsigned long seed = number_of("GQUANT_TEST_SEED", 1),
                  cases = number_of("GQUANT_TEST_CROSSINGS", SANITIZED ? 40 : 300);
    setenv("GQUANT_SYNC_MS", "1", 1);
    for (unsigned long i = 0; i < cases; i++) run_case(seed + i);
    print_message("%lu cases from seed %lu, %u of them errors; %u runs\n", cases, seed, errors, at.runs);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(every_way_ends_in_the_same_bytes, show_case)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
