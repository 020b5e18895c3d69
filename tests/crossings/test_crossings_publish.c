/* A folder that is published again and again, with what can happen in between drawn at random: stops at any
 * moment, damage to finished and unfinished files, other people's files under the names, another source, more
 * types. What is said to be whole is, byte by byte, what each type published alone gives; a file that is not
 * is refused, and then nothing has changed; what is right is never refused.
 *
 *     GQUANT_TEST_CROSSINGS=N   cases; default: 12, fewer under sanitizers
 *     GQUANT_TEST_SEED=N        of the first case; the next ones have N+1, N+2, ...
 */
#include "tests/crossings/crossing_damage.h"
#include "tests/crossings/crossing_files.h"
#include "tests/crossings/crossing_run.h"
#include "tests/support/folder.h"
#include "tests/support/numbers.h"
#include "tests/support/plans.h"
#include "tests/support/tiny_folder.h"

#include <sys/stat.h>

enum { TYPES = 6, MOST_EVENTS = 6 };
static const char *const types[TYPES] = {"Q4_0", "Q8_0", "Q4_K_M", "Q6_K", "COPY", "Q5_1"};
/* What is asked for besides types. */
static const struct way {
    const char *model;
    const char *words[6];
    bool calibrates;
} ways[] = {{"in", {NULL}, false},
            {"in", {"--no-digests"}, false},
            {"in", {"--imatrix", "../importance.dat"}, false},
            {"in", {"--effort", "fast", "--tensor-type", "attn_q=Q8_0"}, false},
            {"in", {"--split-max-size", "300K"}, false},
            {"Model", {NULL}, false},
            {"Model", {"--calibrate", "../text.txt", "--context", "16"}, true}};

static struct {
    unsigned long seed;
    const struct way *way;
    unsigned asked;      /* types, as bits */
    const char *ref;     /* folder with each type, published alone from the source as it is now */
    bool source_changed; /* since something was made */
    unsigned runs, kills, damages, refusals;
} at;

__attribute__((format(printf, 1, 2), noreturn)) static void fail_case(const char *format, ...) {
    char text[8000];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fail_msg("seed %lu: %s\n%s(in %s)", at.seed, text, run_log(), folder);
    abort();
}

static const char *below_folder(const char *where, const char *name) {
    char both[512];
    snprintf(both, sizeof both, "%s/%s", where, name);
    return path(both);
}

/* ---- runs ---- */

static outcome publish(const char *where, unsigned asked, bool force, const setting *s) {
    arguments a = {.n = 0};
    arguments_add(&a, "publish"), arguments_add(&a, "-q"), arguments_add(&a, "--threads"),
        arguments_add(&a, "2");
    if (force) arguments_add(&a, "--force");
    for (size_t i = 0; i < sizeof at.way->words / sizeof *at.way->words && at.way->words[i]; i++)
        arguments_add(&a, "%s", at.way->words[i]);
    arguments_add(&a, "--out-dir"), arguments_add(&a, ".");
    arguments_add(&a, strcmp(at.way->model, "in") ? "../%s" : "../%s.gguf", at.way->model);
    for (unsigned t = 0; t < TYPES; t++)
        if (asked & 1u << t) arguments_add(&a, "%s", types[t]);
    outcome o = run_in(where, s, &a);
    arguments_free(&a);
    at.runs++;
    return o;
}

static void make_reference(void) {
    at.ref = new_folder("ref");
    for (unsigned t = 0; t < TYPES; t++) {
        outcome o = publish(at.ref, 1u << t, false, &(setting){.isa = NULL});
        if (o.status) fail_case("%s alone: %s", types[t], o.text);
    }
}

/* ---- what is there ---- */

/* Whether a name is of a type's files, which may be shards. */
static bool is_of_type(const char *name, unsigned t) {
    char stem[64];
    int n = snprintf(stem, sizeof stem, "%s-%s", at.way->model, types[t]);
    return !strncmp(name, stem, (size_t)n) && (!strcmp(name + n, ".gguf") || !strncmp(name + n, "-0", 2));
}

static bool is_asked(const char *name, unsigned asked) {
    for (unsigned t = 0; t < TYPES; t++)
        if ((asked & 1u << t) && is_of_type(name, t)) return true;
    return false;
}

static bool same_file(const char *a, const char *b) {
    size_t n, m;
    if (!exists(a) || !exists(b)) return false;
    uint8_t *x = read_whole(a, &n), *y = read_whole(b, &m);
    bool same = n == m && !memcmp(x, y, n);
    free(x), free(y);
    return same;
}

/* Whether each type's files that are there are those of the reference, all of them or none. */
static bool all_right(unsigned asked) {
    file_list has = files_in(path("out"), "."), would = files_in(path(at.ref), ".");
    bool right = true;
    for (size_t i = 0; i < has.n; i++)
        if (is_asked(has.names[i], asked))
            right &= same_file(below_folder("out", has.names[i]), below_folder(at.ref, has.names[i]));
    for (unsigned t = 0; t < TYPES; t++) {
        size_t n = 0, all = 0;
        for (size_t i = 0; i < has.n; i++) n += (asked & 1u << t) && is_of_type(has.names[i], t);
        for (size_t i = 0; i < would.n; i++) all += (asked & 1u << t) && is_of_type(would.names[i], t);
        right &= n == 0 || n == all;
    }
    files_free(&has), files_free(&would);
    return right;
}

/* All files that were asked for are there and right, their checksums too, and nothing is hidden beside them.
 */
static void check_done(unsigned asked, const outcome *o) {
    file_list would = files_in(path(at.ref), "."), has = files_in(path("out"), NULL);
    size_t n;
    char *sums = (char *)read_whole(path("out/SHA256SUMS"), &n), sum[GQ_SHA256_TEXT];
    sums = realloc(sums, n + 1), sums[n] = 0;
    for (size_t i = 0; i < would.n; i++) {
        const char *name = would.names[i], *is = below_folder("out", name);
        if (!is_asked(name, asked)) continue;
        if (!same_file(is, below_folder(at.ref, name)))
            fail_case("%s is not what it is alone: %s", name, o->text);
        assert_true(gq_file_sha256(is, sum, NULL));
        if (!strstr(sums, sum) || !strstr(strstr(sums, sum), name))
            fail_case("SHA256SUMS has not %s  %s:\n%s", sum, name, sums);
    }
    for (size_t i = 0; i < has.n; i++)
        if (has.names[i][0] == '.' && has.names[i][1] && is_asked(has.names[i] + 1, asked))
            fail_case("%s is left", has.names[i]);
    for (size_t i = 0; i < has.n; i++)
        for (unsigned t = 0; t < TYPES; t++) {
            char stem[80];
            int length = snprintf(stem, sizeof stem, ".%s-%s.gguf.gquant", at.way->model, types[t]);
            if ((asked & 1u << t) && !strncmp(has.names[i], stem, (size_t)length))
                fail_case("%s is left", has.names[i]);
        }
    free(sums);
    files_free(&would), files_free(&has);
}

/* Compares what is not hidden with a moment before; ->gone: that files may have come. */
static void check_unchanged(const snapshot *before, bool more, const outcome *o) {
    for (size_t i = 0; i < before->n; i++) {
        const struct snapshot_file *f = &before->files[i];
        size_t n;
        if (f->name[0] == '.') continue;
        if (!exists(below_folder("out", f->name))) fail_case("%s is gone: %s", f->name, o->text);
        uint8_t *bytes = read_whole(below_folder("out", f->name), &n);
        if (n != f->size || memcmp(bytes, f->bytes, n) != 0)
            fail_case("%s has changed: %s", f->name, o->text);
        free(bytes);
    }
    file_list now = files_in(path("out"), ".");
    for (size_t i = 0; i < now.n && !more; i++) {
        bool was = false;
        for (size_t k = 0; k < before->n; k++) was |= !strcmp(before->files[k].name, now.names[i]);
        if (!was) fail_case("%s has come: %s", now.names[i], o->text);
    }
    files_free(&now);
}

/* ---- events ---- */

static unsigned any_types(void) {
    unsigned asked = 0;
    while (!asked) asked = (unsigned)below(1u << TYPES) & (unsigned)below(1u << TYPES);
    return asked;
}

static void publish_whole(unsigned asked) {
    snapshot before = snapshot_take(path("out"));
    bool right = all_right(asked);
    outcome o = publish("out", asked, false, &(setting){.isa = NULL});
    if (o.status == 0) {
        if (!right) fail_case("what is not what it would be is called whole");
        check_done(asked, &o);
    } else {
        at.refusals++;
        /* Whether a calibrated file is of the weights that a newer source has, nobody can tell. */
        if (right && !(at.way->calibrates && at.source_changed)) fail_case("refused: %s", o.text);
        if (!strstr(o.text, "already exists")) fail_case("failed: %s", o.text);
        check_unchanged(&before, false, &o);
    }
    snapshot_free(&before);
}

/* Stops a run by time, or as it gives names. Files that had names keep them, whatever they are. */
static void publish_killed(unsigned asked) {
    char fault[32];
    setting s = {.kill_us = 1 + (unsigned)below(chance(50) ? 30000 : 150000)};
    snapshot before = snapshot_take(path("out"));
    if (has_faults() && chance(60)) {
        snprintf(fault, sizeof fault, "%s:%u:kill",
                 chance(50)   ? "rename"
                 : chance(50) ? "unlink"
                              : "fsync",
                 1 + (unsigned)below(6));
        s = (setting){.fault = fault};
    }
    outcome o = publish("out", asked, false, &s);
    at.kills += o.status > 128;
    for (size_t i = 0; i < before.n; i++) /* the page is replaced in a step */
        if (strstr(before.files[i].name, ".gguf") && before.files[i].name[0] != '.' &&
            !exists(below_folder("out", before.files[i].name)))
            fail_case("%s is gone", before.files[i].name);
    snapshot_free(&before);
}

static void damage_something(void) {
    file_list has = files_in(path("out"), NULL);
    for (int tries = 0; tries < 20 && has.n; tries++) {
        const char *name = has.names[below(has.n)];
        struct stat st;
        if (!strstr(name, ".gguf") || lstat(below_folder("out", name), &st) != 0 || !st.st_size) continue;
        damage_file(below_folder("out", name));
        at.damages++;
        break;
    }
    files_free(&has);
}

/* Another type's file, or somebody's own, under a name. */
static void put_another_file(void) {
    file_list would = files_in(path(at.ref), ".");
    const char *name = NULL, *other = NULL;
    for (size_t i = 0; i < would.n; i++) {
        if (!strstr(would.names[i], ".gguf")) continue;
        if (!name || chance(40)) name = would.names[i];
        if (!other || chance(40)) other = would.names[i];
    }
    size_t n;
    uint8_t *bytes = read_whole(below_folder(at.ref, other), &n);
    write_whole(below_folder("out", name), bytes, chance(20) ? 3 : n);
    free(bytes);
    files_free(&would);
}

static void change_source(void) {
    const char *name = strcmp(at.way->model, "in") ? "Model/model.safetensors" : "in.gguf";
    size_t n;
    uint8_t *bytes = read_whole(path(name), &n);
    bytes[n - 5000 - 2 * below(1000)] ^= 1; /* a last bit of 16 */
    write_whole(path(name), bytes, n);
    free(bytes);
    at.source_changed = true;
    make_reference();
}

static void one_case(void) {
    at.source_changed = false;
    write_llama(path("in.gguf"), 1), write_importance(path("importance.dat"), 1);
    tiny_folder_write(path("Model"), 1, 0, 1);
    char text[3000];
    for (size_t i = 0; i < sizeof text; i++) text[i] = (char)('a' + i * i * 3 % 8);
    write_whole(path("text.txt"), text, sizeof text);
    seed_random(at.seed);
    at.way = &ways[below(sizeof ways / sizeof *ways)];
    mkdir(path("out"), 0777);
    make_reference();
    if (chance(70)) publish_whole(any_types());
    for (size_t i = 2 + below(MOST_EVENTS - 1); i > 0; i--) {
        unsigned event = (unsigned)below(100);
        if (event < 35)
            publish_killed(any_types());
        else if (event < 55)
            publish_whole(any_types());
        else if (event < 78)
            damage_something();
        else if (event < 90)
            put_another_file();
        else
            change_source();
    }
    publish_whole(any_types());
    unsigned all = any_types();
    outcome o = publish("out", all, true, &(setting){.isa = NULL});
    if (o.status) fail_case("--force: %s", o.text);
    check_done(all, &o);
}

TEST(folders_are_right_or_refused) {
    const char *asked = getenv("GQUANT_TEST_CROSSINGS"), *seed = getenv("GQUANT_TEST_SEED");
    unsigned long cases = asked ? strtoul(asked, NULL, 10) : SANITIZED ? 3 : 12;
    at.seed = seed ? strtoul(seed, NULL, 10) : 1;
    for (unsigned long i = 0; i < cases; i++, at.seed++) {
        folder = temporary_folder();
        run_below(folder);
        one_case();
        remove_folder(folder);
    }
    print_message("%lu cases: %u runs, %u killed, %u damaged, %u refused\n", cases, at.runs, at.kills,
                  at.damages, at.refusals);
}

int main(void) { return tests_run(NULL, NULL); }
