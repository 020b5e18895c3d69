/* Ways that any job knows: by other numbers of threads and ISA levels, in parts that are joined, killed or
 * disturbed by faults and then done to the end, one output at a time, after an unfinished run of other
 * options or of another input, over files that are in the way, from the uncut model, from a recipe of its own
 * types. All must end with the bytes of the reference. The table at the end lists them with the condition
 * under which they apply; a way that stands there twice is drawn twice as often. crossing_runs_ways.c builds
 * on these ways and on the kills and stops that are drawn here.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "codec/codec.h"
#include "tests/crossings/crossing_case.h"
#include "tests/crossings/crossing_files.h"
#include "tests/crossings/crossing_ways.h"
#include "tests/support/command.h"
#include "tests/support/model.h"

/* Whether a level gives the same bits as this processor's. A model that runs depends, in its last bits, on
 * whether multiplying and adding is one step. */
static bool is_same_arithmetic(const char *level) {
    bool fuses = strcmp(level, "x86-64-v2") != 0, own = strcmp(gq_isa(), "x86-64-v2") != 0;
    return !at.model.runs || fuses == own;
}

/* A command that stands in, for Windows, may have other levels, which it lists. */
static bool is_in_command(const char *level) {
    static char *listed;
    if (command_stands_in() && !listed) listed = PRINTED("--version", "--verbose");
    return !listed || strstr(listed, level);
}

const char *any_level(void) {
    const char *levels[8];
    size_t n = 0;
    for (size_t i = 0; kernels_level_name(i); i++)
        if (kernels_level(kernels_level_name(i)) && is_in_command(kernels_level_name(i)) &&
            is_same_arithmetic(kernels_level_name(i)))
            levels[n++] = kernels_level_name(i);
    return levels[below(n)];
}

unsigned any_threads(void) {
    if (at.model.runs) return 1 + (unsigned)below(at.options.most_threads ? at.options.most_threads : 6);
    return 1 + (unsigned)below(chance(10) ? 40 : 5);
}

/* Runs the job once more, wherever earlier runs were stopped; it has to end well. */
void replace_in(const char *where, setting s) {
    arguments a = all_words(&at.options, any_threads());
    arguments_add(&a, "--force");
    outcome o = run(where, s, a);
    if (o.status != 0) fail_case("in %s: %s", where, o.text);
    same_folder(where);
}

void finish_in(const char *where, setting s) {
    outcome o = run(where, s, all_words(&at.options, any_threads()));
    /* Stopped when all was done, and nothing in the output tells whose it is: logits, and without digests. */
    if (o.status != 0 && strstr(o.text, "already exists")) {
        same_outputs(where);
        replace_in(where, s);
        return;
    }
    if (o.status != 0) fail_case("in %s: %s", where, o.text);
    same_folder(where);
}

/* ---- ways ---- */

void by_other_threads(void) {
    const char *where = new_folder("other");
    setting s = {.isa = any_level()};
    outcome o = run(where, s, reported(all_words(&at.options, any_threads()), where));
    same_outcome(where, &o);
    if (has_reference()) same_report(where);
}

static arguments part_words(uint32_t part, uint32_t parts) {
    arguments a = all_words(&at.options, any_threads());
    arguments_add(&a, "--part"), arguments_add(&a, "%u/%u", part, parts);
    return a;
}

static arguments join_words(void) {
    arguments a = all_words(&at.options, any_threads());
    arguments_add(&a, "--join");
    return a;
}

static void in_parts(void) {
    const char *where = new_folder("parts");
    uint32_t parts = 2 + (uint32_t)below(4), order[5], failed = 0;
    for (uint32_t k = 0; k < parts; k++) {
        uint32_t other = (uint32_t)below(k + 1);
        order[k] = order[other], order[other] = k + 1;
    }
    for (uint32_t k = 0; k < parts; k++) {
        setting s = {.isa = any_level()}, once = {.kill_us = 0};
        if (has_reference() && chance(20)) once.kill_us = 1 + (unsigned)below(at.reference.us);
        if (k + 1 == parts && chance(30) && run(where, s, join_words()).status == 0 && !failed)
            fail_case("in %s: joined without part %u of %u", where, order[k], parts);
        if (once.kill_us) run(where, once, part_words(order[k], parts));
        failed += run(where, s, part_words(order[k], parts)).status != 0;
        if (exists_output(in_folder(at.folder, where))) fail_case("in %s: an output before --join", where);
    }
    if (failed && has_reference()) fail_case("in %s: %u parts failed", where, failed);
    if (!failed && at.reference.status) fail_case("in %s: no part failed: %s", where, at.reference.text);
    outcome o = run(where, (setting){.isa = any_level()}, reported(join_words(), where));
    if (has_reference())
        same_outcome(where, &o), same_report(where);
    else if (o.status == 0 || exists_output(in_folder(at.folder, where)))
        fail_case("in %s: joined although the whole run fails", where);
}

static setting at_call(const char *kind, unsigned call, const char *what) {
    static char faults[8][32];
    static size_t next;
    char *fault = faults[next++ % 8];
    snprintf(fault, sizeof faults[0], "%s:%u:%s", kind, call, what);
    return (setting){.fault = fault};
}

setting at_any_call(const char *what) {
    static const char *const kinds[] = {"pwrite", "pwrite", "pwrite", "fdatasync", "fdatasync", "fsync",
                                        "rename", "unlink", "open",   "pread",     "pread",     "flock"};
    const char *kind = kinds[below(sizeof kinds / sizeof *kinds)];
    unsigned calls = calls_counted(kind);
    return at_call(kind, 1 + (unsigned)below(calls ? calls : 1), what);
}

setting any_stop(void) {
    if (has_faults() && chance(70)) return at_any_call("stop");
    return (setting){.stop_us = 1 + (unsigned)below(at.reference.us)};
}

setting any_kill(void) {
    if (at.model.runs && has_faults()) {
        if (chance(60)) return at_any_call("kill");
        if (chance(10)) return (setting){.cut_at = 1 + (unsigned)below(5)};
    }
    return (setting){.kill_us = 1 + (unsigned)below(at.reference.us + at.reference.us / 4)};
}

setting late_kill(void) {
    static const char *const kinds[] = {"pwrite", "pwrite", "fdatasync", "fdatasync", "rename", "unlink"};
    if (!has_faults())
        return (setting){.kill_us = 1 + at.reference.us / 4 + (unsigned)below(at.reference.us * 3 / 4)};
    const char *kind = kinds[below(sizeof kinds / sizeof *kinds)];
    unsigned calls = calls_counted(kind);
    return at_call(kind, 1 + calls / 4 + (unsigned)below(calls * 3 / 4), "kill");
}

void with_kills(void) {
    const char *where = new_folder("kills");
    for (unsigned kills = 1 + (unsigned)below(3); kills > 0; kills--) {
        setting s = any_kill();
        s.isa = any_level();
        run(where, s, all_words(&at.options, any_threads()));
    }
    finish_in(where, (setting){.isa = any_level()});
}

static void draw_fault(char fault[64]) {
    static const char *const kinds[] = {"open",   "pread",     "pwrite", "fsync", "fdatasync",
                                        "rename", "fallocate", "unlink", "flock"};
    static const int codes[] = {EIO, ENOSPC, EACCES, EMFILE};
    snprintf(fault, 64, "%s:%u%s:%d", kinds[below(9)], 1 + (unsigned)below(chance(50) ? 4 : 30),
             chance(30) ? "+" : "", codes[below(4)]);
}

void with_faults(void) {
    const char *where = new_folder("faults");
    char fault[64];
    for (unsigned faults = 1 + (unsigned)below(2); faults > 0; faults--) {
        draw_fault(fault);
        run(where, (setting){.fault = fault}, all_words(&at.options, any_threads()));
    }
    finish_in(where, (setting){.isa = any_level()});
}

void one_by_one(void) {
    const char *where = new_folder("single");
    for (size_t i = 0; i < at.options.outputs.n; i++) {
        arguments a = words_of(&at.options, any_threads());
        arguments_add(&a, "../in/%s", crossing_model_input(&at.model));
        arguments_add(&a, "%s", at.options.outputs.items[i]);
        outcome o = run(where, (setting){.isa = NULL}, a);
        if (o.status) fail_case("in %s: %s", where, o.text);
    }
    same_folder(where);
}

/* Leaves a run unfinished; with faults, one whose files only lack their names. False: it has finished. */
bool leave_unfinished(const char *where, arguments a) {
    setting s = {.fault = "rename:1+:5"};
    if (at.model.runs && chance(50))
        s = late_kill();
    else if (!has_faults())
        s = any_kill();
    run(where, s, a);
    return !exists_output(in_folder(at.folder, where));
}

/* Checks that the job does not go on from what another run has left under the same names. */
void not_mixed(const char *where, bool may_refuse) {
    outcome o = run(where, (setting){.isa = NULL}, all_words(&at.options, any_threads()));
    if (o.status == 0)
        same_outputs(where);
    else if (!may_refuse || !strstr(o.text, "was started") || exists_output(in_folder(at.folder, where)))
        fail_case("in %s: %s", where, o.text);
}

/* After an unfinished run with one aspect drawn afresh. */
void after_other_options(void) {
    const char *where = new_folder("another");
    crossing_options other;
    crossing_options_copy(&other, &at.options);
    enum crossing_aspect aspect =
        at.options.aspects[ASPECT_PRUNE].n && chance(40) ? ASPECT_PRUNE : crossing_aspect_any(&at.options);
    bool same = true, part = chance(20) && !at.model.runs; /* no parts of these */
    for (int tries = 0; same && tries < 20; tries++) {
        crossing_aspect_draw(&other, aspect, &at.model);
        same = arguments_same(&other.aspects[aspect], &at.options.aspects[aspect]);
    }
    arguments a = all_words(&other, any_threads());
    if (part) arguments_add(&a, "--part"), arguments_add(&a, "%u/2", 1 + (unsigned)below(2));
    crossing_options_free(&other);
    if (leave_unfinished(where, a)) not_mixed(where, part);
}

/* Flips the lowest bit of every fourth byte of a tensor, which leaves numbers finite. same_age: the file
 * keeps its modification time. */
static void change_tensor(const model_tensor *t, const char *path, bool same_age) {
    int fd = open(path, O_RDWR);
    uint8_t *bytes = malloc(t->size);
    struct stat st;
    assert_true(fd >= 0 && bytes && fstat(fd, &st) == 0);
    assert_int_equal(pread(fd, bytes, t->size, (off_t)t->offset), t->size);
    for (uint64_t i = 0; i < t->size; i += 4) bytes[i] ^= 1;
    assert_int_equal(pwrite(fd, bytes, t->size, (off_t)t->offset), t->size);
    if (same_age) assert_int_equal(futimens(fd, (struct timespec[2]){st.st_atim, st.st_mtim}), 0);
    close(fd), free(bytes);
}

/* After an unfinished run of another input of the same size and the same age. */
void after_another_input(void) {
    const char *where = new_folder("changed"), *name = crossing_model_input(&at.model);
    model_source m = open_model(in_folder(in_folder(at.folder, "in"), name));
    const model_tensor *t = m.n_tensors ? m.tensors[below(m.n_tensors)] : NULL;
    if (t) {
        const char *path = model_file_path(&m, t);
        change_tensor(t, path, true);
        bool unfinished = leave_unfinished(where, all_words(&at.options, any_threads()));
        change_tensor(t, path, true);
        if (unfinished) not_mixed(where, false);
    }
    model_close(&m);
}

void change_input(void) {
    const char *name = crossing_model_input(&at.model);
    model_source m = open_model(in_folder(in_folder(at.folder, "in"), name));
    const model_tensor *t = m.tensors[below(m.n_tensors)];
    change_tensor(t, m.files[t->shard]->path, false);
    model_close(&m);
}

/* The shards of the reference, merged into one file, are the same as a copy of an output that was never
 * split. */
static void merged(void) {
    const char *whole = new_folder("whole"), *two[2] = {new_folder("merged"), new_folder("copied")};
    crossing_options other;
    crossing_options_copy(&other, &at.options);
    arguments_free(&other.aspects[ASPECT_SPLIT]);
    outcome o = run(whole, (setting){.isa = NULL}, all_words(&other, any_threads()));
    crossing_options_free(&other);
    if (o.status) fail_case("in %s: %s", whole, o.text);
    for (int k = 0; k < 2; k++) {
        const char *from = k ? whole : "ref";
        file_list files = files_first(in_folder(at.folder, from));
        for (size_t i = 0; i < files.n; i++) {
            arguments a = {.n = 0};
            arguments_add(&a, "-q"), arguments_add(&a, "../%s/%s", from, files.names[i]);
            arguments_add(&a, "%zu.gguf", i), arguments_add(&a, "COPY");
            o = run(two[k], (setting){.isa = NULL}, a);
            if (o.status) fail_case("in %s: %s", two[k], o.text);
        }
        files_free(&files);
    }
    char *difference = files_difference(in_folder(at.folder, two[0]), in_folder(at.folder, two[1]), NULL);
    if (difference) fail_case("%s and %s: %s", two[0], two[1], difference);
}

/* The input was cut into shards; the same model in one file is quantized alike. */
static void from_whole_input(void) {
    const char *where = new_folder("uncut");
    arguments a = words_of(&at.options, any_threads());
    arguments_add(&a, "../in/whole.gguf"), arguments_append(&a, &at.options.outputs);
    outcome o = run(where, (setting){.isa = NULL}, a);
    if (o.status) fail_case("in %s: %s", where, o.text);
    same_folder(where);
}

/* The types of the output, written as a recipe, make the same output again. */
static void from_recipe(void) {
    const char *where = new_folder("recipe"), *type = at.options.outputs.items[1];
    crossing_options other;
    crossing_options_copy(&other, &at.options);
    arguments a = all_words(&at.options, any_threads());
    arguments_add(&a, "--dry-run"), arguments_add(&a, "--recipe-out"), arguments_add(&a, "../recipe.txt");
    outcome o = run(where, (setting){.isa = NULL}, a);
    if (o.status) fail_case("in %s: %s", where, o.text);
    arguments_free(&other.aspects[ASPECT_TYPES]);
    arguments_add(&other.aspects[ASPECT_TYPES], "--tensor-type-file");
    arguments_add(&other.aspects[ASPECT_TYPES], "../recipe.txt");
    o = run(where, (setting){.isa = NULL}, all_words(&other, any_threads()));
    crossing_options_free(&other);
    if (o.status) fail_case("in %s, %s: %s", where, type, o.text);
    same_folder(where);
}

/* A file in the way stays, or is replaced with --force. */
void over_files(void) {
    const char *where = new_folder("over");
    file_list files = files_in(in_folder(at.folder, "ref"), NULL);
    for (size_t i = 0; i < files.n; i++)
        write_whole(in_folder(in_folder(at.folder, where), files.names[i]), "old", 3);
    if (run(where, (setting){.isa = NULL}, all_words(&at.options, any_threads())).status == 0)
        fail_case("in %s: a file was replaced", where);
    for (size_t i = 0; i < files.n; i++) {
        struct stat st;
        if (stat(in_folder(in_folder(at.folder, where), files.names[i]), &st) || st.st_size != 3)
            fail_case("in %s: %s was touched", where, files.names[i]);
    }
    files_free(&files);
    arguments a = all_words(&at.options, any_threads());
    arguments_add(&a, "--force");
    outcome o = run(where, (setting){.isa = NULL}, a);
    same_outcome(where, &o);
}

static bool is_split(void) {
    const arguments *a = &at.options.aspects[ASPECT_SPLIT];
    return a->n == 2 && !at.options.target;
}
static bool may_merge(void) { return has_reference() && is_split(); }
bool is_list(void) {
    return has_reference() && at.options.list && !at.options.target && at.options.outputs.n > 1;
}
static bool had_shards(void) {
    /* Derived names follow the input's; shards tell in a digest what they are made of. */
    return has_reference() && at.model.shards > 1 && !at.options.aspects[ASPECT_SPLIT].n &&
           !(at.options.list && at.options.before.n);
}
/* A recipe sets types where the file type quantizes. */
static bool may_follow_recipe(void) {
    static const char *const plain[] = {"COPY", "F32", "F16", "BF16"};
    if (!has_reference() || at.options.list || at.options.target || at.model.n == 0) return false;
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (!strcmp(at.options.outputs.items[1], plain[i])) return false;
    return true;
}
bool always(void) { return true; }
bool may_fault(void) { return has_faults() && has_reference(); }

static const crossing_way plain_ways[] = {
    {"by_other_threads", by_other_threads, always},
    {"by_other_threads", by_other_threads, always},
    {"in_parts", in_parts, always},
    {"with_kills", with_kills, has_reference},
    {"with_faults", with_faults, may_fault},
    {"one_by_one", one_by_one, is_list},
    {"after_other_options", after_other_options, has_reference},
    {"after_other_options", after_other_options, has_reference},
    {"after_another_input", after_another_input, has_reference},
    {"merged", merged, may_merge},
    {"from_whole_input", from_whole_input, had_shards},
    {"over_files", over_files, has_reference},
    {"from_recipe", from_recipe, may_follow_recipe},
};

const crossing_way *crossing_plain_ways(size_t *n) {
    *n = sizeof plain_ways / sizeof *plain_ways;
    return plain_ways;
}
