#include "hf/folder/folder.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

/* Counts of what a text has outside of its strings; Python's numbers that jansson lacks are counted apart. */
typedef struct json_scan {
    size_t depth, deepest, values;
    size_t foreign; /* NaN, Infinity, integers of more than 64 bits */
} json_scan;

static const char *const constants[] = {"-Infinity", "Infinity", "NaN"};

/* Returns the length of the constant that a text begins with; 0: none. */
static size_t json_constant(const char *text, size_t n) {
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++) {
        size_t length = strlen(constants[i]);
        if (n >= length && memcmp(text, constants[i], length) == 0) return length;
    }
    return 0;
}

static size_t digits_count(const char *text, size_t n) {
    size_t digits = 0;
    while (digits < n && text[digits] >= '0' && text[digits] <= '9') digits++;
    return digits;
}

/* Returns the length of the number that a text begins with. An integer may be too large for jansson: most
 * tokenizer_config.json have a model_max_length of 10^30. */
static size_t json_number(const char *text, size_t n, bool *is_large) {
    static const char most[] = "9223372036854775807";
    size_t begin = text[0] == '-', digits = digits_count(text + begin, n - begin), length = begin + digits;
    *is_large = digits >= sizeof most - 1 && text[begin] != '0' &&
                (digits > sizeof most - 1 || memcmp(text + begin, most, digits) > 0);
    for (; length < n && memchr(".eE+-0123456789", text[length], 15); length++) *is_large = false;
    return length;
}

/* Returns the length of a number that jansson lacks, 0: the text does not begin with one. *n_number: the
 * length of any number that it begins with. */
static size_t json_foreign(const char *text, size_t n, size_t *n_number) {
    bool is_large;
    size_t constant = json_constant(text, n);
    *n_number = constant ? constant : json_number(text, n, &is_large);
    return constant || is_large ? *n_number : 0;
}

/* Looks at a text once, before anything is allocated for it. `copy`: gets an empty string in place of each
 * foreign number; NULL: they are only counted. */
static json_scan json_look(const char *text, size_t n, char *copy) {
    json_scan s = {0};
    for (size_t i = 0; i < n; i++) {
        char c = text[i];
        size_t length;
        if (c == '"') {
            for (i++; i < n && text[i] != '"'; i++) i += text[i] == '\\';
        } else if (c == '{' || c == '[') {
            s.values++;
            if (++s.depth > s.deepest) s.deepest = s.depth;
        } else if (c == '}' || c == ']') {
            s.depth -= s.depth > 0;
        } else if (c == ',' || c == ':') {
            s.values++;
        } else if (c == 'N' || c == 'I' || c == '-' || (c >= '0' && c <= '9')) {
            size_t foreign = json_foreign(text + i, n - i, &length);
            s.foreign += foreign > 0;
            if (foreign && copy) memcpy(memset(copy + i, ' ', foreign), "\"\"", 2);
            i += length > 0 ? length - 1 : 0;
        }
    }
    return s;
}

static json_t *json_parse_checked(const char *name, const char *text, size_t n, unsigned flags, gq_error *e) {
    json_error_t why;
    size_t ours = JSON_ALLOW_NUL | (flags & HF_JSON_ONE_VALUE ? JSON_REJECT_DUPLICATES : 0);
    json_t *v = json_loadb(text, n, ours, &why);
    if (!v) {
        if (json_error_code(&why) == json_error_out_of_memory)
            gq_fail_memory(e, n);
        else
            gq_fail(e, "%s: line %d, column %d: %s", name, why.line, why.column, why.text);
        return NULL;
    }
    if (json_is_object(v)) return v;
    gq_fail(e, "%s: a JSON array, expected an object", name);
    json_decref(v);
    return NULL;
}

json_t *hf_json_parse(const char *name, const char *text, size_t n, unsigned flags, gq_error *e) {
    json_scan s = json_look(text, n, NULL);
    if (s.deepest > HF_JSON_DEPTH) {
        gq_fail(e, "%s: brackets are %zu deep, expected at most %d", name, s.deepest, HF_JSON_DEPTH);
        return NULL;
    }
    if (s.values > HF_JSON_VALUES) {
        gq_fail(e, "%s: %zu values, expected at most %d", name, s.values, HF_JSON_VALUES);
        return NULL;
    }
    if (s.foreign == 0) return json_parse_checked(name, text, n, flags, e);
    char *copy = malloc(n);
    if (!copy) {
        gq_fail_memory(e, n);
        return NULL;
    }
    json_look(text, n, memcpy(copy, text, n));
    json_t *v = json_parse_checked(name, copy, n, flags, e);
    free(copy);
    return v;
}

const char *hf_json_text(const json_t *v) {
    const char *text = json_string_value(v);
    return text && strlen(text) == json_string_length(v) ? text : NULL;
}

bool hf_json_is(const json_t *v, const char *text) {
    const char *is = json_string_value(v);
    return is && strcmp(is, text) == 0;
}

/* ---- merges as one text ---- */

/* Half a million merges of a vocabulary are arrays of two texts each in newer files, and as trees take 270
 * bytes each; as one text, the older form, 80. So they get that form before they are parsed, where it says
 * the same: both halves are there and have no spaces. */

/* A place in a text of n bytes that need not be JSON at all. */
typedef struct json_place {
    char *text;
    size_t n, i;
} json_place;

static char json_here(const json_place *p) { return p->i < p->n ? p->text[p->i] : 0; }

/* Passes a character, and blanks around it. false: another one is there. */
static bool json_skip(json_place *p, char c) {
    while (p->i < p->n && memchr(" \t\r\n", p->text[p->i], 4)) p->i++;
    if (c && json_here(p) != c) return false;
    p->i += c != 0;
    while (p->i < p->n && memchr(" \t\r\n", p->text[p->i], 4)) p->i++;
    return true;
}

/* Passes a string. *inside: what is between its quotes. */
static bool json_skip_string(json_place *p, size_t *inside, size_t *length) {
    if (json_here(p) != '"') return false;
    *inside = ++p->i;
    for (; p->i < p->n && p->text[p->i] != '"'; p->i++) p->i += p->text[p->i] == '\\';
    if (p->i >= p->n) return p->i = p->n, false;
    *length = p->i++ - *inside;
    return true;
}

static bool json_joins(const char *half, size_t n) {
    return n > 0 && !memchr(half, ' ', n) && !memmem(half, n, "u0020", 5);
}

/* Passes an array of strings, and makes one string of it if it is a pair that joins. Line breaks stay, for
 * the lines that errors name. */
static bool json_join_pair(json_place *p) {
    size_t begin = p->i, n = 0, inside[2] = {0}, length[2] = {0}, at, lines = 0, one, size;
    if (!json_skip(p, '[')) return false;
    do {
        if (!json_skip_string(p, &one, &size)) return false;
        if (n < 2) inside[n] = one, length[n] = size;
        n++;
    } while (json_skip(p, ','));
    if (json_here(p) != ']') return false;
    size_t end = ++p->i;
    if (n != 2 || !json_joins(p->text + inside[0], length[0]) || !json_joins(p->text + inside[1], length[1]))
        return true;
    for (size_t i = begin; i < end; i++) lines += p->text[i] == '\n';
    at = begin;
    p->text[at++] = '"';
    memmove(p->text + at, p->text + inside[0], length[0]);
    at += length[0];
    p->text[at++] = ' ';
    memmove(p->text + at, p->text + inside[1], length[1]);
    at += length[1];
    p->text[at++] = '"';
    for (; at < end; at++) p->text[at] = lines ? lines--, '\n' : ' ';
    return true;
}

static void json_join_list(json_place *p) {
    size_t inside, length;
    do {
        if (json_here(p) == '"' ? !json_skip_string(p, &inside, &length) : !json_join_pair(p)) return;
    } while (json_skip(p, ','));
}

void hf_json_join_pairs(char *text, size_t n, const char *key) {
    json_place p = {text, n, 0};
    size_t inside, length;
    while (p.i < p.n) {
        if (json_here(&p) != '"') {
            p.i++;
            continue;
        }
        if (!json_skip_string(&p, &inside, &length)) return;
        if (length == strlen(key) && !memcmp(text + inside, key, length) && json_skip(&p, ':') &&
            json_skip(&p, '['))
            json_join_list(&p);
    }
}

/* ---- patterns of module names ---- */

bool hf_expression_fits(const char *pattern, const char *expression, const char *module, bool *fits,
                        gq_error *e) {
    enum { MATCH_LIMIT = 20000, MATCH_KIB = 1024 }; /* of a name of some 60 bytes */
    int error;
    PCRE2_SIZE at;
    pcre2_code *code = pcre2_compile(
        (PCRE2_SPTR)expression, PCRE2_ZERO_TERMINATED,
        PCRE2_UTF | PCRE2_ANCHORED | PCRE2_DOLLAR_ENDONLY | PCRE2_NEVER_BACKSLASH_C, &error, &at, NULL);
    pcre2_match_context *limits = code ? pcre2_match_context_create(NULL) : NULL;
    pcre2_match_data *match = limits ? pcre2_match_data_create(1, NULL) : NULL;
    int found = PCRE2_ERROR_NOMEMORY;
    if (match) {
        pcre2_set_match_limit(limits, MATCH_LIMIT), pcre2_set_heap_limit(limits, MATCH_KIB);
        found = pcre2_match(code, (PCRE2_SPTR)module, strlen(module), 0, 0, match, limits);
    }
    bool bad = !code && error != PCRE2_ERROR_HEAP_FAILED;
    pcre2_match_data_free(match), pcre2_match_context_free(limits), pcre2_code_free(code);
    *fits = found >= 0;
    if (bad || (found < 0 && found != PCRE2_ERROR_NOMATCH && found != PCRE2_ERROR_NOMEMORY))
        return gq_fail(e, "the pattern '%.80s' is not a regular expression that gquant supports", pattern);
    return found != PCRE2_ERROR_NOMEMORY || gq_fail_memory(e, 0);
}
