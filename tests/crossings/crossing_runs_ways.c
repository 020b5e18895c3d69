/* Ways for jobs that run a model: calibrating, computing importance data, evaluating. Such jobs leave
 * journals, checkpoints and measurements behind, from which a later run goes on, and these ways put them to
 * the test: measurements of other options, damaged files, a refused run beside one that works or was killed,
 * a run that fails again, an input that changes meanwhile. Either the bytes are the reference's in the end,
 * or an error says so and nothing wrong has got an output's name. In half of the cases a target's
 * measurements are removed first, so that jobs run with and without them. Ways of any job are in
 * crossing_ways.c.
 */
#include "tests/crossings/crossing_runs_ways.h"

#include <errno.h>

#include "tests/crossings/crossing_damage.h"
#include "tests/crossings/crossing_files.h"
#include "tests/crossings/crossing_inputs.h"
#include "tests/crossings/crossing_ways.h"
#include "tests/support/model.h"

/* ---- measurements that targets leave ---- */

/* Returns the file where this case's job keeps its measurements, or NULL. Static buffer of in_folder. */
static const char *measures(void) {
    static const char *const names[] = {"in/whole.gguf.gquant-measure", "measures"};
    if (at.model.shards > 1) {
        file_list files = files_in(in_folder(at.folder, "in"), NULL);
        const char *found = NULL;
        for (size_t i = 0; i < files.n; i++)
            if (strstr(files.names[i], ".gquant-measure"))
                found = in_folder(in_folder(at.folder, "in"), files.names[i]);
        files_free(&files);
        if (found) return found;
    }
    for (size_t i = 0; i < 2; i++)
        if (exists(in_folder(at.folder, names[i]))) return in_folder(at.folder, names[i]);
    return NULL;
}

static void forget_measures(void) {
    for (const char *path; (path = measures());) assert_int_equal(unlink(path), 0);
}

static void maybe_forget_measures(void) {
    if (chance(50)) forget_measures();
}

/* ---- the ways of any job ---- */

static void other_threads(void) {
    maybe_forget_measures();
    by_other_threads();
}

static void kills(void) {
    maybe_forget_measures();
    with_kills();
    no_leftovers();
}

static void faults(void) {
    maybe_forget_measures();
    with_faults();
}

static void other_options(void) {
    maybe_forget_measures();
    after_other_options();
}

static void another_input(void) {
    maybe_forget_measures();
    after_another_input();
}

/* ---- what another run measured ---- */

static void change_target(crossing_options *o) {
    char *old = o->before.items[1]; /* behind --target-bpw or --target-size */
    assert_true(asprintf(&o->before.items[1], "%.2f", strtod(old, NULL) * (chance(50) ? .9 : 1.1)) > 0);
    char *point = strtod(old, NULL) > 1000 ? strchr(o->before.items[1], '.') : NULL;
    if (point) *point = 0;
    free(old);
}

/* The job with one aspect drawn afresh, or another target. */
static arguments other_words(void) {
    crossing_options other;
    crossing_options_copy(&other, &at.options);
    enum crossing_aspect aspect = chance(20) ? ASPECT_PRUNE : crossing_aspect_any(&at.options);
    if (other.target && chance(20)) change_target(&other);
    for (int tries = 0; tries < 20; tries++) {
        crossing_aspect_draw(&other, aspect, &at.model);
        if (!arguments_same(&other.aspects[aspect], &at.options.aspects[aspect])) break;
    }
    arguments a = all_words(&other, any_threads());
    crossing_options_free(&other);
    return a;
}

/* A run of other options has left its measurements; this one is the same with and without them. */
static void after_other_measurements(void) {
    const char *before = new_folder("measured"), *where = new_folder("choosing");
    forget_measures();
    for (size_t i = 1 + below(2); i > 0; i--) {
        arguments a = other_words();
        arguments_add(&a, "--force");
        run(before, (setting){.isa = any_level()}, a);
    }
    if (chance(25)) run(where, any_kill(), all_words(&at.options, any_threads()));
    finish_in(where, (setting){.isa = any_level()});
}

/* ---- damage ---- */

static bool is_hidden_work(const char *name) { return name[0] == '.'; }

/* Returns the paths of the files of an unfinished run that may be damaged. */
static file_list unfinished_files(const char *where) {
    file_list all = files_in(in_folder(at.folder, where), NULL), found = {.n = 0};
    found.names = calloc(all.n + 2, sizeof *found.names);
    for (size_t i = 0; i < all.n; i++)
        if (is_hidden_work(all.names[i]))
            found.names[found.n++] = strdup(in_folder(in_folder(at.folder, where), all.names[i]));
    if (found.n && at.options.target && measures()) found.names[found.n++] = strdup(measures());
    files_free(&all);
    return found;
}

/* Kills runs until one has left files, four at most. Returns these files; none where no run has left any. */
static file_list leave_files(const char *where) {
    file_list files = {.n = 0};
    for (int tries = 0; tries < 4 && !files.n && !exists_output(in_folder(at.folder, where)); tries++) {
        setting s = chance(75) ? late_kill() : any_kill();
        s.isa = any_level();
        run(where, s, all_words(&at.options, any_threads()));
        files_free(&files);
        files = unfinished_files(where);
    }
    return files;
}

static void remove_hidden(const char *where) {
    file_list files = files_in(in_folder(at.folder, where), NULL);
    for (size_t i = 0; i < files.n; i++)
        if (is_hidden_work(files.names[i]))
            assert_int_equal(unlink(in_folder(in_folder(at.folder, where), files.names[i])), 0);
    files_free(&files);
}

/* Draws one of the files, most often the states that a run goes on from. */
static const char *any_file(const file_list *files) {
    for (size_t i = 0; i < files->n; i++)
        if (strstr(files->names[i], ".gquant-states") && chance(40)) return files->names[i];
    return files->names[below(files->n)];
}

/* A damaged file is noticed: the bytes are the reference's, or an error says what to do. */
static void damaged(void) {
    const char *where = new_folder("damaged");
    char how[600] = "";
    maybe_forget_measures();
    file_list files = leave_files(where);
    for (size_t i = files.n ? 1 + (size_t)chance(15) : 0; i > 0; i--) {
        const char *path = any_file(&files), *slash = strrchr(path, '/');
        size_t n = strlen(how);
        snprintf(how + n, sizeof how - n, "%s: %s; ", slash + 1, damage_file(path));
        at.damaged++;
    }
    files_free(&files);
    if (!*how) return;
    bool there = exists_output(in_folder(at.folder, where)); /* it was stopped after its last step */
    arguments a = all_words(&at.options, any_threads());
    if (there) arguments_add(&a, "--force");
    outcome o = run(where, (setting){.isa = any_level()}, a);
    char *difference =
        o.status ? NULL : files_difference(in_folder(at.folder, "ref"), in_folder(at.folder, where), NULL);
    if (difference) fail_case("in %s, %s and the run ends well, but: %s", where, how, difference);
    if (o.status == 0) return;
    if (o.status != 1 || !*o.text || (exists_output(in_folder(at.folder, where)) && !there))
        fail_case("in %s, %s: status %d: %s", where, how, o.status, o.text);
    remove_hidden(where), forget_measures();
    if (there) /* some have their names, and the others may be among what was removed */
        replace_in(where, (setting){.isa = any_level()});
    else
        finish_in(where, (setting){.isa = any_level()});
}

/* ---- refused beside another ---- */

/* Draws words that are refused, or a setting that forbids the work, before it begins. *own: they are the
 * job's own words. */
static arguments refused_words(setting *s, bool *own) {
    static const char *const more[][2] = {{"--memory", "1"},          {"--part", "0/2"},
                                          {"--tensor-type", "x"},     {"--prune-layers", "77"},
                                          {"--context", "3"},         {"--calibrate-tokens", "1"},
                                          {"--imatrix", "../absent"}, {"--report", "../in/whole.gguf"},
                                          {"--tokens", "2"},          {"--join", "--force"},
                                          {"--part", "1/2"},          {"--keep-split", "--split-max-size=1"}};
    unsigned kind = (unsigned)below(100);
    *own = false;
    if (kind < 35) {
        s->most_bytes = 6000 + below(30000); /* its messages have room */
    } else if (kind < 45 && has_faults()) {
        s->fault = "flock:1+:11";
    } else if (kind < 55) {
        return other_words();
    } else if (kind < 90) {
        size_t i = below(sizeof more / sizeof *more);
        arguments a = all_words(&at.options, any_threads());
        arguments_add(&a, "%s", more[i][0]), arguments_add(&a, "%s", more[i][1]);
        return a;
    }
    *own = true;
    return all_words(&at.options, any_threads());
}

/* Returns what a refused run did to the files that were there. Where locking is made to fail, a file may be
 * new. */
static char *refusal_difference(const setting *s, const snapshot *before, const char *where) {
    const char *lost = snapshot_lost(before, in_folder(at.folder, where));
    char *text = NULL;
    if (!s->fault) return snapshot_difference(before, in_folder(at.folder, where));
    if (lost) assert_true(asprintf(&text, "%s is gone", lost) > 0);
    return text;
}

/* Refused beside a run that has been stopped at its work. */
static void beside_a_running_one(const char *where) {
    setting first = any_stop(), second = {.isa = any_level()};
    arguments a = all_words(&at.options, any_threads());
    started running;
    bool own, stopped = start_in(&running, where, &first, &a);
    arguments_free(&a);
    snapshot before = snapshot_take(in_folder(at.folder, where));
    a = refused_words(&second, &own);
    outcome o = run(where, second, a), ended;
    /* Stopped between making a file and locking it: to another process it is a killed run's. */
    if (first.fault && !strncmp(first.fault, "flock:", 6)) stopped = false;
    char *difference = o.status && stopped ? refusal_difference(&second, &before, where) : NULL;
    ended = end_started(&running, difference != NULL);
    if (difference) fail_case("in %s, beside one at work, refused (%s), but %s", where, o.text, difference);
    bool refused = o.status != 0;
    snapshot_free(&before);
    if (is_short_of_memory(&ended)) return;
    /* A file that the second could not lock, made where the first had just seen none, is not the first's. */
    if ((second.fault || !stopped) && ended.status == 1 && strstr(ended.text, "another process is writing"))
        return;
    if (refused && ended.status) fail_case("in %s: the first, beside a refused one: %s", where, ended.text);
    if (refused) same_folder(where);
}

/* Refused beside the files of a run that was killed. */
static void beside_an_unfinished_one(const char *where) {
    setting second = {.isa = any_level()};
    bool own;
    run(where, chance(75) ? late_kill() : any_kill(), all_words(&at.options, any_threads()));
    if (exists_output(in_folder(at.folder, where))) return;
    snapshot before = snapshot_take(in_folder(at.folder, where));
    arguments a = refused_words(&second, &own);
    outcome o = run(where, second, a);
    bool refused = o.status == 2 || second.most_bytes || second.fault;
    char *difference = o.status && refused ? refusal_difference(&second, &before, where) : NULL;
    if (difference)
        fail_case("in %s, beside an unfinished one, refused (%s), but %s", where, o.text, difference);
    snapshot_free(&before);
    if (o.status || own) finish_in(where, (setting){.isa = any_level()});
}

static void refused_beside(void) {
    const char *where = new_folder("beside");
    maybe_forget_measures();
    if (chance(50))
        beside_a_running_one(where);
    else
        beside_an_unfinished_one(where);
}

/* ---- work that is kept ---- */

/* Whether a plan says that there is something to go on from. */
static bool is_continued_by_plan(const char *where) {
    arguments a = all_words(&at.options, any_threads());
    free(a.items[0]);
    a.items[0] = strdup("--verbose"); /* in place of -q */
    arguments_add(&a, "--dry-run");
    outcome o = run(where, (setting){.isa = NULL}, a);
    return o.status == 0 && (strstr(o.text, " layers are done") || strstr(o.text, " will be continued"));
}

/* A run that fails half-way leaves what the one before it has finished. */
static void failing_again(void) {
    static const char *const codes[] = {"5", "12", "24", "28"}; /* EIO, ENOMEM, EMFILE, ENOSPC */
    const char *where = new_folder("failing");
    maybe_forget_measures();
    run(where, late_kill(), all_words(&at.options, any_threads()));
    if (exists_output(in_folder(at.folder, where))) return;
    bool promised = is_continued_by_plan(where);
    snapshot before = snapshot_take(in_folder(at.folder, where));
    outcome o = run(where, at_any_call(codes[below(4)]), all_words(&at.options, any_threads()));
    const char *lost = snapshot_lost(&before, in_folder(at.folder, where));
    if (o.status && promised && lost && !exists_output(in_folder(at.folder, where)))
        fail_case("in %s: a run has failed (%s), and %s is gone", where, o.text, lost);
    snapshot_free(&before);
    if (o.status == 0)
        same_outputs(where); /* what could not be removed may be there */
    else
        finish_in(where, (setting){.isa = any_level()});
}

/* ---- an input that changes ---- */

/* The model changes while the run is stopped. It is noticed, or the run is of either model alone. */
static void input_changes(void) {
    const char *where = new_folder("changing"), *after = new_folder("after");
    setting s = any_stop();
    snapshot in = snapshot_take(in_folder(at.folder, "in"));
    arguments a = all_words(&at.options, any_threads());
    started running;
    bool stopped = start_in(&running, where, &s, &a);
    arguments_free(&a);
    if (stopped) change_input();
    outcome o = end_started(&running, false);
    char *own =
        o.status ? NULL : files_difference(in_folder(at.folder, "ref"), in_folder(at.folder, where), NULL);
    if (own) {
        free(own);
        forget_measures();
        run(after, (setting){.isa = NULL}, all_words(&at.options, 1));
        own = files_difference(in_folder(at.folder, after), in_folder(at.folder, where), NULL);
    }
    if (own)
        fail_case("in %s: the input changed and the run ended well, but not as that of one input: %s", where,
                  own);
    if (o.status && exists_output(in_folder(at.folder, where)) && !at.options.aspects[ASPECT_EVALUATE].n)
        fail_case("in %s: the input changed, and there is an output: %s", where, o.text);
    snapshot_write(&in, in_folder(at.folder, "in")), snapshot_free(&in);
    if (chance(50) && o.status && !exists_output(in_folder(at.folder, where)))
        finish_in(where, (setting){.isa = NULL});
}

/* ---- which ---- */

static bool may_target(void) { return has_reference() && at.options.target; }
static bool each_alone(void) {
    return is_list() && at.options.job <= JOB_CALIBRATE && !at.options.aspects[ASPECT_MEMORY].n;
}
static bool is_continued(void) { return has_reference() && at.options.job != JOB_LOGITS; }

static bool may_fail_again(void) { return is_continued() && may_fault(); }

static const crossing_way ways[] = {
    {"other_threads", other_threads, always},
    {"other_threads", other_threads, has_reference},
    {"kills", kills, has_reference},
    {"kills", kills, is_continued},
    {"faults", faults, may_fault},
    {"one_by_one", one_by_one, each_alone},
    {"other_options", other_options, is_continued},
    {"other_options", other_options, is_continued},
    {"another_input", another_input, is_continued},
    {"over_files", over_files, has_reference},
    {"after_other_measurements", after_other_measurements, may_target},
    {"after_other_measurements", after_other_measurements, may_target},
    {"damaged", damaged, is_continued},
    {"damaged", damaged, is_continued},
    {"damaged", damaged, is_continued},
    {"refused_beside", refused_beside, is_continued},
    {"refused_beside", refused_beside, is_continued},
    {"failing_again", failing_again, may_fail_again},
    {"input_changes", input_changes, has_reference},
    {"inputs_as_outputs", inputs_as_outputs, always},
    {"inputs_as_outputs", inputs_as_outputs, always},
};

const crossing_way *crossing_runs_ways(size_t *n) {
    *n = sizeof ways / sizeof *ways;
    return ways;
}
