/* Types of every architecture that llama.cpp runs: what its quantizer assigns to random models of each, for
 * every file type, with and without importance data. tests/peer/make_mixes_golden wrote the file and says what its
 * lines mean.
 */
#include "mixes/mixes.h"
#include "tests/support/support.h"

enum { MAX_NAMES = 16, MAX_ROWS = 256, MAX_TENSORS = 8192 };

/* A line 'tensor': one tensor, or as many as there are blocks. */
typedef struct row {
    size_t first, n;
} row;

typedef struct architectures {
    uint32_t types[128];         /* by letter */
    mix_model models[MAX_NAMES]; /* those that the next lines hold for */
    const char *names[MAX_NAMES];
    size_t n_models;
    row rows[MAX_ROWS];
    size_t n_rows;
    mix_tensor tensors[MAX_TENSORS];
    uint32_t order[MAX_TENSORS];
    mix_choice choices[MAX_TENSORS];
    size_t n_tensors;
    bool reading_tensors; /* lines of tensors have begun; a line 'model' then begins anew */
    size_t runs, models_seen;
} architectures;

static char *next_word(char **line) { return strtok_r(NULL, " ", line); }

static uint32_t type_named(const char *name) {
    const tensor_type *type = tensor_type_named(name);
    if (!type) fail_msg("no type '%s'", name);
    return type->id;
}

static void read_types(architectures *a, char *line) {
    for (char *word; (word = next_word(&line));) a->types[(unsigned char)*word] = type_named(word + 2);
}

static void forget_tensors(architectures *a) {
    for (size_t i = 0; i < a->n_tensors; i++) free((char *)a->tensors[i].name);
    a->n_tensors = a->n_rows = a->n_models = 0;
    a->reading_tensors = false;
}

static void read_model(architectures *a, char *line) {
    if (a->reading_tensors) forget_tensors(a);
    assert_true(a->n_models < MAX_NAMES);
    const char *name = next_word(&line), *arch = next_word(&line);
    model_kv pairs[8];
    char keys[8][128];
    uint32_t values[8];
    size_t n = 0;
    for (char *word, *equals; (word = next_word(&line)); n++) {
        assert_true(n < 8 && (equals = strchr(word, '=')));
        snprintf(keys[n], sizeof keys[n], "%s.%.*s", arch, (int)(equals - word), word);
        values[n] = (uint32_t)strtoul(equals + 1, NULL, 10);
        pairs[n] = (model_kv){keys[n], GGUF_U32, (const uint8_t *)&values[n], 4};
    }
    model_facts facts = model_facts_of(pairs, n, NULL, 0);
    snprintf(facts.arch, sizeof facts.arch, "%s", arch);
    a->names[a->n_models] = name;
    a->models[a->n_models] = mix_model_of(&facts);
    a->models[a->n_models++].arch = arch;
    a->models_seen++;
}

static void add_tensor(architectures *a, const char *name, const char *block, const mix_tensor *like) {
    char whole[256];
    const char *star = strchr(name, '*');
    int n = star ? snprintf(whole, sizeof whole, "%.*s%s%s", (int)(star - name), name, block, star + 1)
                 : snprintf(whole, sizeof whole, "%s", name);
    assert_true(n < (int)sizeof whole && a->n_tensors < MAX_TENSORS);
    a->tensors[a->n_tensors] = *like;
    a->tensors[a->n_tensors++].name = strdup(whole);
}

static void read_tensor(architectures *a, char *line) {
    const char *name = next_word(&line), *type = next_word(&line);
    mix_tensor like = {.name = NULL, .ne = {1, 1, 1, 1}, .type = type_named(type)};
    char *shape = next_word(&line), *blocks = next_word(&line);
    for (size_t d = 0; shape; d++) {
        assert_true(d < 4);
        like.ne[d] = strtoull(shape, &shape, 10);
        shape = *shape ? shape + 1 : NULL;
    }
    assert_true(a->n_rows < MAX_ROWS);
    row *r = &a->rows[a->n_rows++];
    r->first = a->n_tensors;
    if (!blocks) add_tensor(a, name, "", &like);
    for (char *at = blocks, *block; blocks && (block = strtok_r(NULL, ",", &at));)
        add_tensor(a, name, block, &like);
    r->n = a->n_tensors - r->first;
    a->reading_tensors = true;
}

/* Assigns the types of one run, and compares them with the letters. */
static void check_run(architectures *a, size_t model, char *key, const char *letters) {
    size_t length = strlen(key);
    bool demands = key[length - 1] == '!', demanded = false;
    char label[160], *plus = strchr(key, '+');
    snprintf(label, sizeof label, "%s, %s", a->names[model], key);
    if (demands) key[length - 1] = 0;
    if (plus) *plus = 0;
    mix_options o = {.filetype = mix_filetype_named(key),
                     .imatrix = plus,
                     .output_type = -1,
                     .embedding_type = -1,
                     .missing_type = -1};
    if (!o.filetype) fail_msg("%s: no such file type", label);
    gq_error e;
    if (!mix_assign(&a->models[model], &o, a->tensors, a->n_tensors, a->order, a->choices, &e))
        fail_msg("%s: %s", label, e.text);
    for (size_t i = 0; i < a->n_rows; i++) {
        bool each = *letters == '(';
        letters += each;
        for (size_t k = 0; k < a->rows[i].n; k++, letters += each) {
            size_t t = a->rows[i].first + k;
            uint32_t want = a->types[(unsigned char)*letters];
            if (a->choices[t].type != want)
                fail_msg("%s: %s is %s instead of %s", label, a->tensors[t].name,
                         tensor_type_name(a->choices[t].type), tensor_type_name(want));
            demanded |= a->choices[t].needs_imatrix;
        }
        letters++; /* the ')', or the one letter of all */
    }
    assert_int_equal(*letters, 0);
    if (!plus && demands != demanded) fail_msg("%s: demands importance data: %d", label, demanded);
    if (demands) key[length - 1] = '!';
    if (plus) *plus = '+';
    a->runs++;
}

static void read_assignment(architectures *a, char *line) {
    char *keys[128], *letters = strstr(line, " = ");
    size_t n = 0;
    assert_non_null(letters);
    *letters = 0, letters += 3;
    for (char *word; (word = next_word(&line)); n++) {
        assert_true(n < 128);
        keys[n] = word;
    }
    assert_true(mix_order(a->tensors, a->n_tensors, false, a->order, NULL));
    for (size_t m = 0; m < a->n_models; m++)
        for (size_t i = 0; i < n; i++) check_run(a, m, keys[i], letters);
}

TEST(every_architecture) {
    static const struct {
        const char *word;
        void (*read)(architectures *a, char *line);
    } lines[] = {
        {"types", read_types}, {"model", read_model}, {"tensor", read_tensor}, {"assign", read_assignment}};
    architectures *a = calloc(1, sizeof *a);
    assert_non_null(a);
    size_t size;
    char *text = (char *)read_whole(test_path("golden/mixes-architectures.txt"), &size), *rest = text;
    for (char *line; (line = strtok_r(NULL, "\n", &rest));) {
        size_t k = 0, word = strcspn(line, " ");
        while (k < 4 && (strlen(lines[k].word) != word || memcmp(line, lines[k].word, word) != 0)) k++;
        if (k == 4) fail_msg("a line begins with '%.*s'", (int)word, line);
        line[word] = 0;
        lines[k].read(a, line + word + 1);
    }
    print_message("%zu models, %zu runs\n", a->models_seen, a->runs);
    assert_true(a->models_seen >= 130);
    assert_int_equal(a->runs, a->models_seen * 2 * (mix_n_filetypes - 1)); /* all but COPY */
    forget_tensors(a);
    free(a), free(text);
}

int main(void) { return tests_run(NULL, NULL); }
