/* A way to go wrong: a command is asked to write a file that it also reads, under another name of it. A
 * command line is drawn with OUT where an output stands, then one of the files that it reads, then a name
 * that leads to it: a hard link, a symbolic link, an absolute path, a path with detours. With or without
 * --force, and whether the command succeeds or not, all inputs must have the same bytes afterwards. Only a
 * target's measurements may be written afresh, and must be measurements then.
 */
#include "tests/crossings/crossing_inputs.h"

#include "tests/crossings/crossing_case.h"
#include "tests/crossings/crossing_damage.h"
#include "tests/crossings/crossing_files.h"
#include "tests/support/model.h"

#define MODEL "../in/%s", crossing_model_input(&at.model)

static void add_words(arguments *a, const char *words) {
    char copy[200], *save = NULL;
    snprintf(copy, sizeof copy, "%s", words);
    for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save)) arguments_add(a, "%s", w);
}

/* ---- commands that write; "OUT" stands for what they write ---- */

/* The case's own job, with OUT in place of its output, or beside it. */
static void own_job(arguments *a) {
    static const char *const others[] = {"--report OUT", "--recipe-out OUT"};
    const arguments *outputs = &at.options.outputs;
    unsigned kind = (unsigned)below(at.options.command.n ? 1 : 3);
    *a = words_of(&at.options, 1);
    arguments_append(a, &at.options.command);
    arguments_add(a, MODEL);
    arguments_append(a, &at.options.texts);
    if (kind > 0) add_words(a, others[kind - 1]);
    for (size_t i = 0; i < outputs->n; i++) {
        const char *word = outputs->items[i], *type = strrchr(word, '=');
        bool last = kind == 0 && i + 1 == (at.options.list || at.options.job == JOB_LOGITS ? outputs->n : 1);
        if (last && type)
            arguments_add(a, "OUT%s", type);
        else
            arguments_add(a, "%s", last && !at.options.list ? "OUT" : word);
    }
}

static void measured(arguments *a) {
    add_words(a, "-q --target-bpw 9 --measure-file OUT");
    arguments_append(a, &at.options.aspects[ASPECT_REQUANTIZE]);
    arguments_add(a, MODEL), arguments_add(a, "new.gguf");
}

static void quantized(arguments *a) {
    static const char *const more[] = {"",
                                       "--imatrix ../in/importance.dat",
                                       "--imatrix ../in/importance.gguf",
                                       "--calibrate-ids ../in/ids.txt --context 8",
                                       "--target-bpw 9",
                                       "--tensor-type-file ../in/recipe.txt"};
    size_t kind = below(6);
    add_words(a, "-q"), add_words(a, more[kind]);
    arguments_add(a, MODEL), arguments_add(a, "OUT");
    if (kind != 4) arguments_add(a, "Q4_0");
}

static void computed(arguments *a) {
    bool text = at.model.letters && chance(50);
    add_words(a, "-q imatrix compute --context 8"), arguments_add(a, MODEL);
    add_words(a, text ? "../in/text.txt ../in/text-2.txt OUT" : "--ids ../in/ids.txt OUT");
}

static void merged(arguments *a) {
    add_words(a, "-q imatrix merge ../in/importance.dat ../in/importance-2.gguf OUT");
}

static void converted(arguments *a) {
    add_words(a, chance(50) ? "-q imatrix convert ../in/importance.dat OUT"
                            : "-q imatrix convert ../in/importance.gguf OUT");
}

static void evaluated(arguments *a) {
    bool text = at.model.letters && chance(50);
    add_words(a, "-q evaluate --context 8"), arguments_add(a, MODEL);
    add_words(a, text ? "--text ../in/text.txt" : "--ids ../in/ids.txt");
    add_words(a, chance(50) ? "--logits OUT" : "--report OUT");
}

static void compared(arguments *a) {
    add_words(a, "-q compare"), arguments_add(a, MODEL), arguments_add(a, MODEL);
    add_words(a, chance(50) ? "--report OUT" : "--imatrix ../in/importance.dat --report OUT");
}

static void verified(arguments *a) {
    add_words(a, "-q verify"), arguments_add(a, MODEL), add_words(a, "--report OUT");
}

static void (*const commands[])(arguments *) = {own_job, own_job,   own_job,   measured, quantized, computed,
                                                merged,  converted, evaluated, compared, verified};

/* ---- names ---- */

static bool has_word(const arguments *a, const char *word) {
    bool found = false;
    for (size_t i = 0; i < a->n; i++) found = found || !strcmp(a->items[i], word);
    return found;
}

/* Draws another name of a file of ../in, as seen from `where`. A report needs a name that ends in .json. */
static void draw_alias(char alias[512], const char *where, const char *name, bool report) {
    const char *victim = strcpy((char[4096]){""}, in_folder(in_folder(at.folder, "in"), name));
    const char *own = report ? "alias.json" : "alias.gguf";
    const char *linked = strcpy((char[4096]){""}, in_folder(in_folder(at.folder, where), own));
    uint64_t kind = below(report ? 2 : 5);
    if (kind < 2) {
        assert_int_equal(kind ? symlink(victim, linked) : link(victim, linked), 0);
        snprintf(alias, 512, "%s", own);
    } else if (kind == 2) {
        snprintf(alias, 512, "%s", victim);
    } else {
        snprintf(alias, 512, kind == 3 ? "../in/%s" : ".././in/../in/./%s", name);
    }
}

/* Whether `name` is that of the measurements kept beside the model `word`. */
static bool is_measures_of(const char *name, const char *word) {
    size_t n = strlen(word);
    return !strncmp(name, word, n) && !strcmp(name + n, ".gquant-measure");
}

/* Draws one of the files that these words have the command read. NULL: there is none. */
static const char *draw_victim(const arguments *a, const file_list *files) {
    const char *found[64];
    bool target = has_word(a, "--target-bpw") || has_word(a, "--target-size");
    size_t n = 0;
    for (size_t i = 0; i < files->n && n < 64; i++) {
        for (size_t k = 0; k < a->n && n < 64; k++) {
            const char *word = a->items[k], *name = files->names[i];
            if (strncmp(word, "../in/", 6)) continue;
            bool shard = !strncmp(word + 6, "in-0", 4) && !strncmp(name, "in-0", 4); /* all are read */
            if (shard || !strcmp(word + 6, name) || (target && is_measures_of(name, word + 6)))
                found[n++] = name;
        }
    }
    return n ? found[below(n)] : NULL;
}

static void replace_out(arguments *a, const char *alias) {
    for (size_t i = 0; i < a->n; i++) {
        char *old = a->items[i];
        if (strncmp(old, "OUT", 3) != 0 || (old[3] && old[3] != '=')) continue;
        assert_true(asprintf(&a->items[i], "%s%s", alias, old + 3) > 0);
        free(old);
    }
}

/* Checks that files of measurements, which may be written afresh, still are measurements. */
static void check_measures(const snapshot *before, const char *where) {
    for (size_t i = 0; i < before->n; i++) {
        size_t n;
        const char *name = before->files[i].name;
        if (!strstr(name, ".gquant-measure")) continue;
        uint8_t *bytes = read_whole(in_folder(in_folder(at.folder, "in"), name), &n);
        if (!memmem(bytes, n, "measured.of", 11))
            fail_case("in %s: %s holds no measurements any more", where, name);
        free(bytes);
    }
}

void inputs_as_outputs(void) {
    const char *where = new_folder("inputs");
    char alias[512];
    arguments a = {.n = 0};
    commands[below(sizeof commands / sizeof *commands)](&a);
    file_list files = files_in(in_folder(at.folder, "in"), NULL);
    const char *name = draw_victim(&a, &files);
    if (name) {
        draw_alias(alias, where, name, has_word(&a, "--report"));
        replace_out(&a, alias);
        if (chance(65)) arguments_add(&a, "--force");
        snapshot before = snapshot_take(in_folder(at.folder, "in"));
        outcome o = run(where, (setting){.isa = NULL}, a);
        snapshot_remove_new(&before, in_folder(at.folder, "in")); /* a shard's name is not the one given */
        char *difference = snapshot_difference(&before, in_folder(at.folder, "in"));
        if (difference) fail_case("in %s: status %d: %s: %s", where, o.status, o.text, difference);
        check_measures(&before, where);
        snapshot_free(&before);
    } else {
        arguments_free(&a);
    }
    files_free(&files);
}
