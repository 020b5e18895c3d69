/* Texts that are made tokens a piece at a time have the ids of the same texts taken as a whole: made-up
 * vocabularies of all kinds, whose tokens overlap in all ways, and texts of runs, broken characters and
 * special tokens, with pieces of a few bytes, so that each kind of place is cut at. GQUANT_TEST_TEXTS draws
 * that many texts in place of a few thousand, GQUANT_TEST_SEED others. And memory: what may be taken, and
 * what is told where that is not enough. */
#include "base/error.h"
#include "forward/tokens/tokens.h"
#include "tests/support/pretokenizer_names.h"
#include "tests/support/tokenizer_keys.h"

/* ---- vocabularies ---- */

enum { MADE = 420, ROOM = 64 };
typedef struct made {
    char texts[MADE][ROOM], lines[MADE][2 * ROOM];
    const char *tokens[MADE], *merges[MADE];
    float scores[MADE];
    int32_t types[MADE];
    size_t n, n_merges;
} made;

static bool made_has(const made *m, const char *text) {
    for (size_t i = 0; i < m->n; i++)
        if (!strcmp(m->texts[i], text)) return true;
    return false;
}

static void made_add(made *m, const char *text, int32_t type) {
    if (m->n == MADE || made_has(m, text)) return;
    snprintf(m->texts[m->n], ROOM, "%s", text);
    m->types[m->n] = type, m->scores[m->n] = -(float)random_below(9);
    m->n++;
}

/* Symbols as they stand in the texts, and what bytes of a vocabulary by rank on bytes are called. */
static const char *const symbols[] = {"a", "b", "c", "1",        "\n",
                                      "!", "'", "s", "\xc3\xa9", "\xf0\x9f\x98\x80"};
static const char *const of_bytes[] = {"a", "b", "c", "1", "\xc4\x8a", "!", "'", "s", "\xc4\xa0", "\xc3\x83"};
static const char *const special_texts[] = {"<x>",    "aa", "aaa", "ab<x>", "\n\n",
                                       "\n\n\n", "b!", " a",  "x>b",   "<|im_end|>"};

/* Tokens that begin with a character that is none, and runs of newlines. */
static const char *const plain[] = {"(A", "/A(", "\n\n", "\n\n\n\n", "\n\n\n\n\n"};

/* Longer tokens are joined of two that are there; most merges make a token. Some ranks are in no order. */
static made make_up(vocabulary_kind kind, size_t longer) {
    made m = {.n = 0};
    bool mapped = kind == VOCABULARY_BPE;
    for (unsigned i = 0; i < 256 && !mapped; i++) {
        char text[8];
        snprintf(text, sizeof text, "<0x%02X>", i);
        made_add(&m, text, 6);
    }
    size_t first = m.n, n = sizeof symbols / sizeof *symbols;
    for (size_t i = 0; i < n; i++)
        if (mapped || random_below(8)) made_add(&m, mapped ? of_bytes[i] : symbols[i], 1);
    if (!mapped) made_add(&m, "\xe2\x96\x81", 1);
    for (size_t i = 0; i < longer; i++) {
        char text[2 * ROOM];
        size_t few = random_below(2) ? 3 : m.n - first;
        char a[ROOM], b[ROOM];
        memcpy(a, m.texts[first + random_below((unsigned)few)], ROOM);
        memcpy(b, m.texts[first + random_below((unsigned)few)], ROOM);
        if (strlen(a) + strlen(b) >= ROOM) continue;
        snprintf(text, sizeof text, "%s%s", a, b);
        if (m.n_merges < MADE) snprintf(m.lines[m.n_merges++], 2 * ROOM, "%s %s", a, b);
        if (random_below(9)) made_add(&m, text, 1);
    }
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (!mapped && random_below(2)) made_add(&m, plain[i], 1);
    for (size_t i = 0; i < sizeof special_texts / sizeof *special_texts; i++)
        if (random_below(3) == 0) made_add(&m, special_texts[i], random_below(3) ? 4 : 3);
    for (size_t i = m.n_merges; i > 1 && random_below(2); i--) {
        char line[2 * ROOM];
        size_t k = random_below((unsigned)i);
        memcpy(line, m.lines[i - 1], sizeof line);
        memcpy(m.lines[i - 1], m.lines[k], sizeof line), memcpy(m.lines[k], line, sizeof line);
    }
    return m;
}

static tokenizer *tokenizer_of(vocabulary_kind kind, const char *pre, keys *k, made *m) {
    static const char *const kinds[] = {"llama", "gpt2", "gemma4", [VOCABULARY_UNIGRAM] = "t5"};
    gq_error e;
    *m = make_up(kind, random_below(random_below(3) ? 60 : 6));
    for (size_t i = 0; i < m->n; i++) m->tokens[i] = m->texts[i];
    for (size_t i = 0; i < m->n_merges; i++) m->merges[i] = m->lines[i];
    *k = (keys){0};
    add_text(k, "tokenizer.ggml.model", kinds[kind]);
    add_text(k, "tokenizer.ggml.pre", pre);
    add_texts(k, "tokenizer.ggml.tokens", m->tokens, m->n);
    add_texts(k, "tokenizer.ggml.merges", m->merges, m->n_merges);
    add_values(k, "tokenizer.ggml.scores", GGUF_FLOAT32, m->scores, m->n);
    add_values(k, "tokenizer.ggml.token_type", GGUF_INT32, m->types, m->n);
    add_switch(k, "tokenizer.ggml.add_bos_token", false);
    if (random_below(2)) add_text(k, "general.name", "Phi-3");
    if (kind == VOCABULARY_UNIGRAM) {
        add_switch(k, "tokenizer.ggml.add_space_prefix", random_below(2));
        add_switch(k, "tokenizer.ggml.remove_extra_whitespaces", random_below(2));
        if (random_below(3)) add_map(k);
    }
    tokenizer *t = make(k, &e);
    if (!t) fail_msg("%s, %s: %s", kinds[kind], pre, e.text);
    return t;
}

/* ---- texts ---- */

enum { LONGEST = 300 };

/* Symbols one by one and in runs, of bytes too that are no character, and what is special or nearly so. */
static size_t draw_text(char *text) {
    static const char *const others[] = {" ",
                                         " ",
                                         "  ",
                                         "\t",
                                         "\r\n",
                                         "\xe2\x96\x81",
                                         "\xe2\x80\x83",
                                         "12",
                                         "\xf0",
                                         "\x80",
                                         "\xe2\x96",
                                         "\xed\xa0\x80",
                                         "\xf0\x91\xbc\x82",
                                         "<x",
                                         "<|im_",
                                         "A",
                                         "\xc1\x81",
                                         "/",
                                         "\xe4\xb8\xad",
                                         "\xcc\x81",
                                         "'re",
                                         "\xef\xbf\xbd",
                                         "\xc2\x85",
                                         "(",
                                         "aaab<x",
                                         "aab<x>",
                                         "(A",
                                         "/A(/"};
    size_t n = 0, parts = 1 + random_below(40);
    for (size_t i = 0; i < parts; i++) {
        unsigned kind = random_below(10), of = random_below(10), other = random_below(28);
        const char *part = kind < 5   ? symbols[kind < 3 ? of % 3 : of]
                           : kind < 8 ? others[other]
                                      : special_texts[of];
        size_t length = strlen(part),
               times = random_below(6) ? 1 : 1 + random_below(random_below(4) ? 30 : 150);
        if (random_below(40) == 0) part = "", length = 1; /* NUL */
        for (; times > 0 && n + length <= LONGEST; times--, n += length) memcpy(text + n, part, length);
    }
    return n;
}

static bool read_pieces(const tokenizer *t, const char *text, size_t n, const token_limits *limits,
                        token_list *to, gq_error *e) {
    gq_file file;
    assert_true(gq_file_memory(&file, "text", text, n, NULL, e));
    bool ok = tokenizer_read(t, &file, TOKENIZE_PARSE_SPECIAL, limits, to, e);
    gq_file_close(&file);
    return ok;
}

/* One list is the other's beginning, or all of it. */
static void compare(const char *what, const char *text, size_t n, const token_limits *l,
                    const token_list *all, const token_list *found) {
    bool ok = l->tokens ? found->n >= (all->n < l->tokens ? all->n : l->tokens) && found->n <= all->n
                        : found->n == all->n && found->dropped == all->dropped;
    if (ok && (found->n == 0 || !memcmp(found->ids, all->ids, found->n * sizeof *all->ids))) return;
    for (size_t i = 0; i < n; i++) print_error("%02x", (uint8_t)text[i]);
    fail_msg(": %s, pieces of %zu, windows of %zu, %llu tokens: %zu ids, expected %zu", what, l->piece,
             l->window, (unsigned long long)l->tokens, found->n, all->n);
}

static void try_text(const tokenizer *t, const char *what) {
    char text[LONGEST];
    size_t n = draw_text(text);
    token_list all = {0};
    gq_error e = {0};
    bool whole = read_pieces(t, text, n, &(token_limits){.piece = 1 << 20, .window = 1 << 20}, &all, &e);
    for (int i = 0; i < 4; i++) {
        token_limits l = {.piece = 1 + random_below(i ? 30 : 3), .window = 1 + random_below(i ? 30 : 4)};
        if (i == 3 && whole) l.tokens = 1 + random_below((unsigned)all.n + 2);
        token_list found = {0};
        gq_error failure = {0};
        bool ok = read_pieces(t, text, n, &l, &found, &failure);
        if (ok != whole)
            fail_msg("%s: %s in pieces, %s whole", what, ok ? "done" : failure.text, whole ? "done" : e.text);
        if (ok) compare(what, text, n, &l, &all, &found);
        free(found.ids);
    }
    free(all.ids);
}

static size_t texts_of_a_kind(size_t usual) {
    const char *texts = getenv("GQUANT_TEST_TEXTS"), *seed = getenv("GQUANT_TEST_SEED");
    random_state = seed ? strtoull(seed, NULL, 10) : 1;
    return texts ? strtoul(texts, NULL, 10) : SANITIZED ? usual / 8 : usual;
}

static void try_kind(vocabulary_kind kind, const char *pre, size_t n) {
    enum { OF_ONE = 40 };
    for (size_t i = 0; i < n; i += OF_ONE) {
        keys k;
        made m;
        tokenizer *t = tokenizer_of(kind, pre, &k, &m);
        for (size_t text = 0; text < OF_ONE; text++) try_text(t, pre);
        tokenizer_free(t);
        free_keys(&k);
    }
}

TEST(pieces_have_the_ids_of_the_whole_by_score) {
    try_kind(VOCABULARY_SPM, "default", texts_of_a_kind(4000));
}

TEST(pieces_have_the_ids_of_the_whole_by_unigrams) {
    try_kind(VOCABULARY_UNIGRAM, "default", texts_of_a_kind(4000));
}

TEST(pieces_have_the_ids_of_the_whole_by_rank_on_characters) {
    try_kind(VOCABULARY_RAW, "gemma4", texts_of_a_kind(4000));
}

TEST(pieces_have_the_ids_of_the_whole_by_rank_on_bytes) {
    size_t n = texts_of_a_kind(160);
    for (size_t p = 0; p < sizeof pretokenizer_names / sizeof *pretokenizer_names; p++)
        try_kind(VOCABULARY_BPE, pretokenizer_names[p], n);
}

/* ---- memory ---- */

/* So many NULs. */
static bool read_run(const char *pre, size_t n, uint64_t memory, token_list *to, gq_error *e) {
    keys k;
    made m;
    char *text = calloc(n, 1);
    assert_non_null(text);
    random_state = 2;
    tokenizer *t = tokenizer_of(strcmp(pre, "default") ? VOCABULARY_BPE : VOCABULARY_SPM, pre, &k, &m);
    bool ok = read_pieces(t, text, n, &(token_limits){.memory = memory}, to, e);
    tokenizer_free(t);
    free_keys(&k);
    free(text);
    return ok;
}

TEST(a_run_that_memory_cannot_hold_is_named) {
    enum { MIB = 1 << 20 };
    token_list ids = {0};
    gq_error e = {0};
    assert_false(read_run("gpt-2", 40 * MIB, 24 * MIB, &ids, &e));
    assert_int_equal(e.status, GQ_USAGE);
    if (!strstr(e.text, "from byte 0 on") || !strstr(e.text, "24.0 MiB")) fail_msg("%s", e.text);
    free(ids.ids);
    /* where nothing but joins makes words, a run without end needs no memory besides its ids */
    ids = (token_list){0}, e = (gq_error){0};
    assert_false(read_run("default", 40 * MIB, 24 * MIB, &ids, &e));
    if (!strstr(e.text, "take fewer tokens")) fail_msg("%s", e.text);
    assert_true(ids.n > 1 << 20 && ids.capacity * sizeof *ids.ids <= 24 * MIB);
    free(ids.ids);
}

int main(void) { return tests_run(NULL, NULL); }
