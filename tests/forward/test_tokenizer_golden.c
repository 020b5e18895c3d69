/* Ids and words against those of llama.cpp's library: every setting and text of the shared golden data. */
#include "forward/tokens/tokenizer.h"
#include "gguf/gguf.h"
#include "tests/support/pretokenizer_names.h"
#include "tests/support/support.h"

typedef struct vocabulary_file {
    model_source model;
    tokenizer *tokenizer;
} vocabulary_file;

static vocabulary_file open_vocabulary(const char *path) {
    vocabulary_file f;
    gq_error e;
    if (!gguf_model_open(&f.model, path, &e)) fail_msg("%s", e.text);
    f.tokenizer = tokenizer_new(path, f.model.kv, f.model.n_kv, &e);
    if (!f.tokenizer) fail_msg("%s", e.text);
    return f;
}

static void close_vocabulary(vocabulary_file *f) {
    tokenizer_free(f->tokenizer);
    model_close(&f->model);
}

/* relabel.py IN OUT options...: a copy of a vocabulary with other settings. */
static void relabel(const char *in, const char *out, char *options) {
    const char *argv[32] = {"python3", NULL, in, out};
    char *script = strdup(shared_path("golden/tokens/relabel.py"));
    argv[1] = script;
    size_t n = 4;
    for (char *word = strtok(options, " "); word && n < 31; word = strtok(NULL, " ")) argv[n++] = word;
    char *err;
    if (run_command(argv, NULL, &err) != 0) fail_msg("relabel.py: %s", err);
    free(err), free(script);
}

/* Compare a list with numbers in a line; says where they part. */
static void assert_numbers(const char *what, const token_list *found, char *expected) {
    size_t i = 0;
    for (char *word = strtok(expected, " \n"); word; word = strtok(NULL, " \n"), i++) {
        if (i >= found->n || found->ids[i] != strtoul(word, NULL, 10))
            fail_msg("%s: number %zu is %ld, expected %s", what, i, i < found->n ? (long)found->ids[i] : -1L,
                     word);
    }
    if (i != found->n) fail_msg("%s: %zu numbers, expected %zu", what, found->n, i);
}

typedef struct golden_text {
    char name[64];
    uint8_t *bytes;
    size_t n;
} golden_text;

static golden_text read_text(const char *name) {
    golden_text t;
    char relative[128];
    snprintf(t.name, sizeof t.name, "%s", name);
    snprintf(relative, sizeof relative, "golden/tokens/texts/%s.txt", name);
    t.bytes = read_whole(shared_path(relative), &t.n);
    return t;
}

/* The lines of FILE that begin with a column: `each` gets the columns behind it. */
static size_t for_lines(const char *relative, const char *first,
                        void (*each)(void *user, const char *name, char *numbers), void *user) {
    FILE *f = fopen(shared_path(relative), "r");
    char *line = NULL;
    size_t room = 0, n = 0;
    assert_non_null(f);
    while (getline(&line, &room, f) > 0) {
        char *name = strchr(line, '\t'), *numbers = name ? strchr(name + 1, '\t') : NULL;
        if (!numbers) continue;
        *name++ = *numbers++ = 0;
        if (strcmp(line, first) != 0) continue;
        each(user, name, numbers);
        n++;
    }
    free(line);
    fclose(f);
    return n;
}

typedef struct setting {
    const tokenizer *t;
    unsigned flags;
    const char *label;
} setting;

static void compare_ids(void *user, const char *name, char *numbers) {
    const setting *s = user;
    golden_text t = read_text(name);
    token_list ids = {0};
    gq_error e;
    char what[256];
    snprintf(what, sizeof what, "setting %s, text %s", s->label, name);
    if (!tokenizer_run(s->t, (const char *)t.bytes, t.n, s->flags, &ids, &e))
        fail_msg("%s: %s", what, e.text);
    assert_numbers(what, &ids, numbers);
    free(ids.ids), free(t.bytes);
}

TEST(ids_are_the_librarys) {
    char *folder = temporary_folder(), out[512], line[1024], in[4096];
    FILE *settings = fopen(shared_path("golden/tokens/settings.tsv"), "r");
    size_t texts = 0, n = 0;
    assert_non_null(settings);
    snprintf(out, sizeof out, "%s/vocabulary.gguf", folder);
    for (; fgets(line, sizeof line, settings); n++) {
        char *columns[5], *at = line;
        line[strcspn(line, "\n")] = 0;
        for (int i = 0; i < 5; i++) columns[i] = strsep(&at, "\t");
        snprintf(in, sizeof in, "golden/tokens/%s.gguf", columns[1]);
        snprintf(in, sizeof in, "%s", shared_path(in));
        relabel(in, out, columns[4]);
        vocabulary_file f = open_vocabulary(out);
        setting s = {f.tokenizer,
                     (*columns[2] == '1' ? TOKENIZE_ADD_SPECIAL : 0u) |
                         (*columns[3] == '1' ? TOKENIZE_PARSE_SPECIAL : 0u),
                     columns[0]};
        texts += for_lines("golden/tokens/expected.tsv", columns[0], compare_ids, &s);
        close_vocabulary(&f);
    }
    fclose(settings);
    assert_int_equal(n, 56);
    assert_true(texts > 3500);
    remove_folder(folder);
}

static void compare_words(void *user, const char *name, char *numbers) {
    const setting *s = user;
    golden_text t = read_text(name);
    token_list lengths = {0};
    gq_error e;
    char what[256];
    snprintf(what, sizeof what, "pre %s, text %s", s->label, name);
    if (!tokenizer_words(s->t, (const char *)t.bytes, t.n, &lengths, &e)) fail_msg("%s: %s", what, e.text);
    assert_numbers(what, &lengths, numbers);
    free(lengths.ids), free(t.bytes);
}

TEST(words_are_the_librarys) {
    char *folder = temporary_folder(), out[512], in[4096], option[64];
    size_t texts = 0;
    snprintf(out, sizeof out, "%s/vocabulary.gguf", folder);
    snprintf(in, sizeof in, "%s", shared_path("golden/tokens/gpt-2.gguf"));
    for (size_t i = 0; i < sizeof pretokenizer_names / sizeof *pretokenizer_names; i++) {
        snprintf(option, sizeof option, "pre=%s", pretokenizer_names[i]);
        relabel(in, out, option);
        vocabulary_file f = open_vocabulary(out);
        setting s = {f.tokenizer, 0, pretokenizer_names[i]};
        texts += for_lines("golden/tokens/splits.tsv", pretokenizer_names[i], compare_words, &s);
        close_vocabulary(&f);
    }
    assert_true(texts > 1800);
    remove_folder(folder);
}

/* ---- unigrams ---- */

/* KEY=0, KEY=1 or KEY=- (it goes by another name), as tests/peer/make_unigram_golden makes the changes. */
static void change_keys(uint8_t *file, size_t n, char *changes) {
    char key[128];
    for (char *word = strtok(changes, " "); word; word = strtok(NULL, " ")) {
        char *value = strchr(word, '=');
        *value++ = 0;
        snprintf(key, sizeof key, "tokenizer.ggml.%s", word);
        uint8_t *at = memmem(file, n, key, strlen(key));
        assert_non_null(at);
        at += strlen(key);
        if (*value == '-')
            at[-1] = 'X';
        else
            at[4] = (uint8_t)(*value - '0');
    }
}

static tokenizer *open_changed(uint8_t *file, size_t n, char *changes, model_source *m) {
    gq_error e;
    change_keys(file, n, changes);
    if (!gguf_model_memory(m, "vocabulary.gguf", file, n, &e)) fail_msg("%s", e.text);
    tokenizer *t = tokenizer_new("vocabulary.gguf", m->kv, m->n_kv, &e);
    if (!t) fail_msg("%s", e.text);
    return t;
}

TEST(ids_of_unigrams_are_the_librarys) {
    FILE *f = fopen(test_path("golden/unigram/ids.tsv"), "r");
    char *line = NULL, last[256] = "?";
    size_t room = 0, n, texts = 0;
    tokenizer *t = NULL;
    uint8_t *file = NULL;
    model_source m = {0};
    assert_non_null(f);
    shared_path("golden/tokens/texts/empty.txt"); /* skips without */
    while (getline(&line, &room, f) > 0) {
        char *columns[5], *at = line;
        for (int i = 0; i < 5; i++) columns[i] = strsep(&at, "\t");
        setting s = {.flags = (*columns[0] == '1' ? TOKENIZE_ADD_SPECIAL : 0u) |
                              (*columns[1] == '1' ? TOKENIZE_PARSE_SPECIAL : 0u)};
        if (strcmp(last, columns[2]) != 0) {
            if (t) tokenizer_free(t), model_close(&m), free(file);
            snprintf(last, sizeof last, "%s", columns[2]);
            file = read_whole(test_path("golden/unigram/vocabulary.gguf"), &n);
            t = open_changed(file, n, columns[2], &m);
        }
        s.t = t, s.label = last;
        compare_ids(&s, columns[3], columns[4]);
        texts++;
    }
    assert_true(texts > 600);
    tokenizer_free(t), model_close(&m), free(file);
    free(line), fclose(f);
}

int main(void) { return tests_run(NULL, NULL); }
