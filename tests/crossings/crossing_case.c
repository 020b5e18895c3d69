/* Draws cases and tries ways of doing them. A case is a random model with random options, all from one seed.
 * It is first planned with --dry-run and then run on one thread, which is the reference in ref/. Ways are
 * then drawn that do the same job differently, with other threads, kills, faults and more, and each must end
 * in the same bytes or in the same error. Every way is drawn from the case's seed and its number alone, so
 * what is drawn does not depend on how long anything took. A way for which --memory is not enough is left by
 * longjmp. If something fails, the folder stays, and all command lines are printed with the seed to run the
 * case once more.
 */
#include "tests/crossings/crossing_case.h"

#include <signal.h>

#include <sys/stat.h>

#include "tests/crossings/crossing_files.h"
#include "tests/support/model.h"
#include "tests/support/numbers.h"

crossing_case at;
static jmp_buf way_left;

bool has_reference(void) { return at.reference.status == 0; }

void fail_case(const char *format, ...) {
    char text[7000];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    fail_msg("%s%s%s", at.way ? at.way : "", at.way ? ": " : "", text);
    abort();
}

/* ---- running the command ---- */

bool is_short_of_memory(const outcome *o) {
    return o->status == 2 && at.options.aspects[ASPECT_MEMORY].n &&
           strstr(o->text, "of memory is not enough") && !strstr(o->text, " 1 byte");
}

outcome run(const char *where, setting s, arguments a) {
    outcome o = run_in(where, &s, &a);
    arguments_free(&a);
    at.runs++;
    at.kills += o.status == 128 + SIGKILL;
    if (o.status > 2 && !(setting_kills(&s) && o.status == 128 + SIGKILL) &&
        !(s.cut_at && o.status == STATUS_POWER_CUT))
        fail_case("in %s: status %d: %s", where, o.status, o.text);
    if (at.way && is_short_of_memory(&o)) longjmp(way_left, 1);
    return o;
}

arguments words_of(const crossing_options *o, unsigned threads) {
    arguments a = {.n = 0};
    arguments_add(&a, "-q"), arguments_add(&a, "-t"), arguments_add(&a, "%u", threads);
    for (int i = 0; i < N_ASPECTS; i++) arguments_append(&a, &o->aspects[i]);
    arguments_append(&a, &o->before);
    return a;
}

arguments all_words(const crossing_options *o, unsigned threads) {
    arguments a = words_of(o, threads);
    arguments_append(&a, &o->command);
    arguments_add(&a, "../in/%s", crossing_model_input(&at.model));
    arguments_append(&a, &o->texts);
    arguments_append(&a, &o->outputs);
    return a;
}

arguments reported(arguments a, const char *name) {
    if (at.options.command.n) return a; /* commands have no report of what was made */
    arguments_add(&a, "--report"), arguments_add(&a, "../%s.json", name);
    return a;
}

/* ---- what must be the same ---- */

void same_folder(const char *where) {
    char *difference = files_difference(in_folder(at.folder, "ref"), in_folder(at.folder, where), NULL);
    if (difference) fail_case("ref and %s: %s", where, difference);
}

void same_outputs(const char *where) {
    char *difference = files_difference(in_folder(at.folder, "ref"), in_folder(at.folder, where), ".");
    if (difference) fail_case("ref and %s: %s", where, difference);
}

/* Returns the bytes of a message that must be the same in all runs. A value that is not finite is named by
 * its place in a batch; the size of a batch follows from the threads, and a larger batch may meet another
 * site's value first. */
static size_t fixed_text(const char *text) {
    const char *site = strstr(text, "the input of "), *place = strstr(text, " is not finite: feature ");
    return site && place > site ? (size_t)(site - text) : strlen(text);
}

void same_outcome(const char *where, const outcome *o) {
    const char *wanted = at.reference.text;
    size_t n = fixed_text(wanted);
    if (o->status != at.reference.status || n != fixed_text(o->text) || strncmp(o->text, wanted, n) != 0)
        fail_case("ref: status %d: %s\n%s: status %d: %s", at.reference.status, at.reference.text, where,
                  o->status, o->text);
    same_folder(where);
}

void same_report(const char *where) {
    char name[80];
    if (at.options.command.n) return;
    snprintf(name, sizeof name, "%s.json", where);
    char *a = report_facts(in_folder(at.folder, "ref.json")), *b = report_facts(in_folder(at.folder, name));
    size_t i = 0, line = 0;
    for (; a[i] && a[i] == b[i]; i++)
        if (a[i] == '\n') line = i + 1;
    if (a[i] || b[i])
        fail_case("the reports ref.json and %s differ: '%.*s' and '%.*s'", name, (int)strcspn(a + line, "\n"),
                  a + line, (int)strcspn(b + line, "\n"), b + line);
    free(a), free(b);
}

void no_leftovers(void) {
    const char *folders[] = {"", "in"};
    for (size_t i = 0; i < 2; i++) {
        file_list files = files_in(in_folder(at.folder, folders[i]), NULL);
        for (size_t k = 0; k < files.n; k++)
            if (files.names[k][0] == '.') fail_case("left in %s/: %s", folders[i], files.names[k]);
        files_free(&files);
    }
}

/* ---- the reference ---- */

/* Checks that a failed reference has left no files. The output may stay only if nothing but its evaluation
 * failed, which a bad weight that was copied does. */
static void check_failure(void) {
    bool evaluated = at.model.spoilt && at.options.aspects[ASPECT_EVALUATE].n;
    if (!at.reference.status) return;
    file_list files = files_in(in_folder(at.folder, "ref"), NULL);
    for (size_t i = 0; i < files.n; i++)
        if (files.names[i][0] == '.' || !evaluated)
            fail_case("a failure left %s: %s", files.names[i], at.reference.text);
    files_free(&files);
}

/* Counts the inputs, without the measurements of a target, which a dry run keeps for the run. */
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

static void run_reference(const crossing_test *test) {
    mkdir(in_folder(at.folder, "ref"), 0777), mkdir(in_folder(at.folder, "dry"), 0777);
    arguments a = all_words(&at.options, 1);
    arguments_add(&a, "--dry-run");
    size_t files = count_inputs();
    outcome dry = run("dry", (setting){.isa = NULL}, reported(a, "dry"));
    at.planned = dry.status == 0;
    if (count_files(in_folder(at.folder, "dry")) || count_inputs() != files)
        fail_case("a dry run left files");
    at.reference = run("ref", (setting){.count_calls = at.model.runs && has_faults()},
                       reported(all_words(&at.options, 1), "ref"));
    if (is_short_of_memory(&dry) && !at.reference.status)
        at.reference = dry; /* the memory is just about enough */
    if (is_short_of_memory(&at.reference)) return;
    if (dry.status && (dry.status != at.reference.status || strcmp(dry.text, at.reference.text)))
        fail_case("dry: status %d: %s\nref: status %d: %s", dry.status, dry.text, at.reference.status,
                  at.reference.text);
    if (at.reference.status && at.planned && !at.model.spoilt)
        fail_case("planned, but: %s", at.reference.text);
    check_failure();
    if (has_reference()) test->look_at_reference();
}

/* ---- cases ---- */

/* Makes what is drawn from here on independent of what was drawn before, which may depend on time. */
static void seed_step(void) {
    seed_random((at.seed * 16 + at.step) * 0x9E3779B97F4A7C15u + 1);
    for (int i = 0; i < 8; i++) next_random();
}

static void next_step(void) {
    at.step++;
    seed_step();
}

/* Tries a way that is drawn at random, if it applies to the case. */
static void try_way(const crossing_test *test) {
    const crossing_way *way = &test->ways[below(test->n_ways)];
    const char *asked = getenv("GQUANT_TEST_WAY");
    for (size_t i = 0; asked && i < test->n_ways; i++)
        if (!strcmp(test->ways[i].name, asked)) way = &test->ways[i];
    at.step += asked && !way->applies();
    if (!way->applies()) return;
    next_step();
    at.way = way->name;
    if (setjmp(way_left) == 0)
        way->try();
    else
        at.left++, at.way_left = true;
    at.way = NULL;
}

static void run_case(const crossing_test *test, unsigned long seed) {
    at.seed = seed, at.step = 0, at.open = true, at.way_left = false;
    at.folder = temporary_folder();
    run_below(at.folder);
    seed_step();
    const char *in = in_folder(at.folder, "in");
    mkdir(in, 0777);
    test->draw(in);
    run_reference(test);
    at.errors += !has_reference();
    unsigned ways = is_short_of_memory(&at.reference) ? 0 : test->ways_with_reference;
    if (!has_reference() && ways > 1) ways--;
    while (at.step < ways) try_way(test);
    if (test->end) test->end();
    crossing_options_free(&at.options);
    remove_folder(at.folder);
    at.open = false;
}

static unsigned long number_of(const char *variable, unsigned long otherwise) {
    const char *text = getenv(variable);
    return text ? strtoul(text, NULL, 10) : otherwise;
}

static void every_way_ends_in_the_same_bytes(void **state) {
    const crossing_test *test = *state;
    unsigned long seed = number_of("GQUANT_TEST_SEED", 1),
                  cases = number_of("GQUANT_TEST_CROSSINGS", test->cases);
    for (unsigned long i = 0; i < cases; i++) run_case(test, seed + i);
    print_message(
        "%lu cases from seed %lu, %u of them errors; %u runs, %u killed, %u damaged files; %u ways left\n",
        cases, seed, at.errors, at.runs, at.kills, at.damaged, at.left);
}

/* After a failure: prints which case it was. Its folder stays. */
FIXTURE(show_case) {
    if (!at.open) return 0;
    fprintf(stderr, "%sonce more: GQUANT_TEST_SEED=%lu GQUANT_TEST_CROSSINGS=1\n", run_log(), at.seed);
    return 0;
}

int crossing_run_cases(const crossing_test *test) {
    const struct CMUnitTest tests[] = {{"every_way_ends_in_the_same_bytes", every_way_ends_in_the_same_bytes,
                                        NULL, show_case, (void *)test}};
    setenv("GQUANT_SYNC_MS", "1", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
