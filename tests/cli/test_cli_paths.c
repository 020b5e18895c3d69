/* No file that a line reads is written over by the same line. All options are tried that the table has: one
 * that is new is tried, too. */
#include <glob.h>
#include <sys/stat.h>

#include "cli/options/options.h"
#include "tests/support/command.h"
#include "tests/support/folder.h"
#include "tests/support/tiny_folder.h"

static const char *in, *out, *recipe;

FIXTURE(set_up) {
    folder_with_model(state);
    in = strdup(path("in.gguf")), out = strdup(path("out.gguf")), recipe = strdup(path("recipe.txt"));
    write_whole(recipe, "a=Q8_0\n", 7);
    tiny_folder_write(path("Folder"), 1, 0, 1);
    tiny_adapter_write(path("Adapter"), false);
    return 0;
}

FIXTURE(tear_down) {
    free((void *)in), free((void *)out), free((void *)recipe);
    return folder_remove(state);
}

enum { WORDS = 16 };
typedef struct line {
    const char *words[WORDS];
    int n;
} line;

static void line_add(line *l, const char *word) { l->words[l->n++] = word; }

/* A line that each command takes; `has_out`: with its output as a bare argument. */
static line line_of(command c, const char *read, bool has_out) {
    const command_row *row = command_of(c);
    line l = {.n = 0};
    line_add(&l, "gquant");
    if (row->name) line_add(&l, row->name);
    if (c == CMD_IMATRIX) line_add(&l, "compute");
    line_add(&l, read);
    if (c == CMD_IMATRIX || c == CMD_TOKENIZE) line_add(&l, "text");
    if (c == CMD_COMPARE) line_add(&l, "copy");
    if (has_out && (c == CMD_QUANTIZE || c == CMD_IMATRIX)) line_add(&l, out);
    if (c == CMD_QUANTIZE || c == CMD_PUBLISH) line_add(&l, "Q8_0");
    return l;
}

static const command all_commands[] = {CMD_QUANTIZE, CMD_INFO,    CMD_PLAN,     CMD_COMPARE,  CMD_VERIFY,
                                       CMD_IMATRIX,  CMD_PUBLISH, CMD_TOKENIZE, CMD_EVALUATE, CMD_TYPES};
enum { ALL_COMMANDS = sizeof all_commands / sizeof *all_commands };

/* The line must be refused because of the file that it names. */
static void assert_refused(const line *l) {
    static const char *const reasons[] = {"reads or writes", "the file of an option", "one of the inputs",
                                          "cannot be combined"};
    request r;
    gq_error e = {.text = ""};
    bool ok = request_parse(&r, l->n, (char **)l->words, &e), is = false;
    request_free(&r);
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) is |= strstr(e.text, reasons[i]) != NULL;
    if (ok || !is) {
        for (int i = 0; i < l->n; i++) fprintf(stderr, "%s ", l->words[i]);
        fail_msg("is not refused: %s", e.text);
    }
}

static void add_option(line *l, const option_row *o, const char *file) {
    char *word = malloc(strlen(o->name) + 3);
    sprintf(word, "--%s", o->name);
    line_add(l, word), line_add(l, file);
}

/* Two options of one command with the same file, of which one writes it. */
static void try_pair(command c, const option_row *a, const option_row *b) {
    static const char *const names[] = {"same", "link", "hard"};
    const char *file = b->kind == OPTION_RECIPE || a->kind == OPTION_RECIPE ? recipe : in;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *other = i ? path(names[i]) : file;
        if (i == 1) assert_int_equal(symlink(file, other), 0);
        if (i == 2) assert_int_equal(link(file, other), 0);
        line l = line_of(c, path("Folder"), a->member != offsetof(request, output));
        int first = l.n;
        add_option(&l, a, other), add_option(&l, b, file);
        assert_refused(&l);
        for (int k = first; k < l.n; k += 2) free((void *)l.words[k]);
        if (i) assert_int_equal(unlink(other), 0);
    }
}

TEST(what_one_option_reads_no_other_writes) {
    size_t n = 0;
    for (size_t c = 0; c < ALL_COMMANDS; c++)
        for (size_t i = 0; i < n_options; i++)
            for (size_t k = 0; k < n_options; k++) {
                const option_row *a = &options[i], *b = &options[k];
                bool both = a->name && b->name && a->commands & b->commands & all_commands[c] &&
                            a->member != b->member && option_is_written(a) &&
                            (option_is_read(b) || option_is_written(b)) && !option_is_folder(b);
                bool is_replaced = a->member == offsetof(request, output) && b->is == ARGUMENT_OLD_FILE;
                bool two_outputs = b->member == offsetof(request, output); /* tried the other way round */
                if (both && !is_replaced && !two_outputs) try_pair(all_commands[c], a, b), n++;
            }
    assert_true(n > 100);
}

static bool takes(command c, const char *option) {
    bool found = !option;
    for (size_t i = 0; i < n_options && option; i++)
        found |=
            options[i].name && !strcmp(options[i].name, option + strlen("--")) && options[i].commands & c;
    return found;
}

/* Bare arguments, the output among them, and what is in models and folders that they name. */
static void try_inside(const char *read, const char *file, const char *option, const char *value) {
    for (size_t c = 0; c < ALL_COMMANDS; c++)
        for (size_t i = 0; i < n_options; i++) {
            const option_row *o = &options[i];
            if (!o->name || !(o->commands & all_commands[c]) || !option_is_written(o) || option_is_read(o) ||
                all_commands[c] == CMD_TYPES || !takes(all_commands[c], option))
                continue;
            line l = line_of(all_commands[c], read, o->member != offsetof(request, output));
            int first = l.n;
            add_option(&l, o, file);
            if (option) line_add(&l, option), line_add(&l, value);
            assert_refused(&l);
            free((void *)l.words[first]);
        }
}

TEST(what_is_in_a_folder_is_not_written) {
    static const char *const files[] = {"Folder/config.json", "Folder/tokenizer.json",
                                        "Folder/model.safetensors"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        try_inside(path("Folder"), path(files[i]), NULL, NULL);
        assert_int_equal(link(path(files[i]), path("hard.json")), 0);
        try_inside(path("Folder"), path("hard.json"), NULL, NULL);
        assert_int_equal(unlink(path("hard.json")), 0);
        assert_int_equal(symlink(path(files[i]), path("link.json")), 0);
        try_inside(path("Folder"), path("link.json"), NULL, NULL);
        assert_int_equal(unlink(path("link.json")), 0);
    }
    try_inside(path("Folder"), path("Adapter/adapter_config.json"), "--lora", path("Adapter"));
    static const char *const kept[] = {"Folder.gquant-scores", "Folder.gquant-measure"};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        write_whole(path(kept[i]), "kept", 4);
        try_inside(path("Folder"), path(kept[i]), NULL, NULL);
    }
}

/* A folder that is no model by itself is read all the same. */
TEST(what_is_in_any_folder_is_not_written) {
    mkdir(path("Other"), 0777), mkdir(path("Other/1_Pooling"), 0777);
    write_whole(path("Other/config.json"), "{}", 2);
    write_whole(path("Other/1_Pooling/config.json"), "{}", 2);
    try_inside(path("Other"), path("Other/config.json"), NULL, NULL);
    try_inside(path("Other"), path("Other/1_Pooling/config.json"), NULL, NULL);
}

TEST(shards_are_not_written) {
    request r;
    gq_error e;
    GQUANT(0, "-q", in, path("s.gguf"), "COPY", "--split-max-size", "100K");
    glob_t found;
    assert_int_equal(glob(path("s-0000[12]-of-*"), 0, NULL, &found), 0);
    assert_int_equal(found.gl_pathc, 2);
    const char *first = found.gl_pathv[0], *second = found.gl_pathv[1];
    try_inside(first, second, NULL, NULL);
    const char *const words[] = {"gquant", in, "--like", first, "--recipe-out", second};
    assert_false(request_parse(&r, 6, (char **)words, &e));
    request_free(&r);
    globfree(&found);
}

/* New files in a model's folder may be made, and what an earlier run has made there is replaced. */
TEST(other_files_are_written) {
    for (int k = 0; k < 2; k++) {
        request r;
        gq_error e = {.text = ""};
        const char *words[] = {"gquant", path("Folder"), "Q8_0", "--report", path("Folder/loss.json")};
        if (!request_parse(&r, 5, (char **)words, &e)) fail_msg("%s", e.text);
        request_free(&r);
        write_whole(path("Folder/loss.json"), "{}", 2);
    }
}

/* A text is the name of a file, whose row says whether it is read or written, unless the option is listed here. */
TEST(rows_say_what_files_are) {
    static const char no_files[] =
        " include-weights exclude-weights calibrate-steps arithmetic tensor-type custom-q keep transpose "
        "prune-layers "
        "override-kv remove-kv allow-missing type outtype name base-model license title repo quantized-by ";
    char name[64];
    for (size_t i = 0; i < n_options; i++) {
        const option_row *o = &options[i];
        bool is_text = o->kind == OPTION_TEXT || o->kind == OPTION_KEPT || o->kind == OPTION_LIST ||
                       o->kind == OPTION_PAIRS || o->kind == OPTION_ITEMS;
        if (!o->name || !is_text || o->is != ARGUMENT_WORD) continue;
        snprintf(name, sizeof name, " %s ", o->name);
        if (!strstr(no_files, name)) fail_msg("--%s: is it read or written?", o->name);
    }
}

int main(void) { return tests_run(set_up, tear_down); }
