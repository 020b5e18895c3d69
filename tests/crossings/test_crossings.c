/* Features crossed at random: small models and sets of options. However a job is done - by how many threads,
 * on which kind of CPU, in parts, with interruptions - it ends in the same bytes or in the same error.
 *
 *     GQUANT_TEST_CROSSINGS=N   cases; default: 200, fewer under sanitizers
 *     GQUANT_TEST_SEED=N        of the first case; the next ones have N+1, N+2, ...
 */
#include "tests/crossings/crossing_case.h"
#include "tests/crossings/crossing_files.h"
#include "tests/crossings/crossing_ways.h"
#include "tests/support/json.h"
#include "tests/support/model.h"

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

/* ---- cases ---- */

static void draw_case(const char *in) {
    crossing_model_draw(&at.model, in);
    crossing_options_draw(&at.options, &at.model);
    crossing_importance_draw(&at.model, in, "importance.dat", "importance.gguf");
    crossing_importance_draw(&at.model, in, "importance-2.dat", "importance-2.gguf");
}

int main(void) {
    crossing_test test = {.draw = draw_case,
                          .look_at_reference = look_at_reference,
                          .ways_with_reference = 3,
                          .cases = SANITIZED ? 40 : 200};
    test.ways = crossing_plain_ways(&test.n_ways);
    return crossing_run_cases(&test);
}
