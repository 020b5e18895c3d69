#include "publish/jinja/filters.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const jinja_value UNDEFINED = {.kind = JINJA_UNDEFINED};

/* ---- texts ---- */

static jinja_value filter_strip(jinja *j, jinja_value v, const jinja_arguments *a, bool left, bool right) {
    jinja_value of = jinja_argument(a, 0, "chars");
    jinja_text blanks = of.kind == JINJA_TEXT ? of.text : (jinja_text){" \t\n\r\v\f", 6}, t = v.text;
    if (v.kind != JINJA_TEXT) return jinja_fail(j, "strips something that is not a string");
    while (left && t.n && memchr(blanks.at, t.at[0], blanks.n)) t.at++, t.n--;
    while (right && t.n && memchr(blanks.at, t.at[t.n - 1], blanks.n)) t.n--;
    return jinja_text_value(t.at, t.n);
}

static jinja_value filter_trim(jinja *j, jinja_value v, const jinja_arguments *a) {
    return filter_strip(j, v, a, true, true);
}
static jinja_value filter_lstrip(jinja *j, jinja_value v, const jinja_arguments *a) {
    return filter_strip(j, v, a, true, false);
}
static jinja_value filter_rstrip(jinja *j, jinja_value v, const jinja_arguments *a) {
    return filter_strip(j, v, a, false, true);
}

/* Changes letters of ASCII: `first` those that begin the text, `rest` the others. */
static jinja_value filter_letters(jinja *j, jinja_value v, int (*first)(int), int (*rest)(int)) {
    if (v.kind != JINJA_TEXT) return jinja_fail(j, "changes the case of something that is not a string");
    char *to = jinja_take(&j->memory, v.text.n + 1);
    for (size_t i = 0; to && i < v.text.n; i++) {
        unsigned char c = (unsigned char)v.text.at[i];
        to[i] = c < 0x80 ? (char)(i ? rest : first)(c) : (char)c;
    }
    return jinja_text_value(to, to ? v.text.n : 0);
}

static jinja_value filter_upper(jinja *j, jinja_value v, const jinja_arguments *) {
    return filter_letters(j, v, toupper, toupper);
}
static jinja_value filter_lower(jinja *j, jinja_value v, const jinja_arguments *) {
    return filter_letters(j, v, tolower, tolower);
}
static jinja_value filter_capitalize(jinja *j, jinja_value v, const jinja_arguments *) {
    return filter_letters(j, v, toupper, tolower);
}

/* Returns where a text has another; its end: nowhere. */
static size_t filter_find(jinja_text in, jinja_text piece) {
    const char *at = piece.n && piece.n <= in.n ? memmem(in.at, in.n, piece.at, piece.n) : NULL;
    return at ? (size_t)(at - in.at) : in.n;
}

static jinja_value filter_split(jinja *j, jinja_value v, const jinja_arguments *a) {
    jinja_value by = jinja_argument(a, 0, "sep"), most = jinja_argument(a, 1, "maxsplit");
    jinja_value list = jinja_collection(&j->memory, JINJA_LIST);
    if (v.kind != JINJA_TEXT || by.kind != JINJA_TEXT || !by.text.n)
        return jinja_fail(j, "splits something that is not a string");
    jinja_text rest = v.text;
    for (int64_t left = most.kind == JINJA_NUMBER ? most.number : INT64_MAX; left && jinja_spend(j); left--) {
        size_t at = filter_find(rest, by.text);
        if (at == rest.n) break;
        jinja_add(&j->memory, list, jinja_text_value(rest.at, at));
        rest = (jinja_text){rest.at + at + by.text.n, rest.n - at - by.text.n};
    }
    jinja_add(&j->memory, list, jinja_text_value(rest.at, rest.n));
    return list;
}

static jinja_value filter_join(jinja *j, jinja_value v, const jinja_arguments *a) {
    jinja_value by = jinja_argument(a, 0, "d"), to = jinja_text_of("");
    if (v.kind != JINJA_LIST) return jinja_fail(j, "joins something that is not a list");
    for (size_t i = 0; i < v.list->n && jinja_spend(j); i++) {
        jinja_text piece;
        if (!jinja_print(&j->memory, v.list->items[i], &piece))
            return jinja_fail(j, "joins something that is not a string");
        if (i && by.kind == JINJA_TEXT) to = jinja_join(&j->memory, to.text, by.text);
        to = jinja_join(&j->memory, to.text, piece);
    }
    return to;
}

static jinja_value filter_replace(jinja *j, jinja_value v, const jinja_arguments *a) {
    jinja_value with = jinja_argument(a, 1, "new");
    if (with.kind != JINJA_TEXT || a->n > 2)
        return jinja_fail(j, "replaces by something that is not a string");
    jinja_arguments by = {.n = 1, .values = {with}};
    jinja_value pieces = filter_split(j, v, &(jinja_arguments){.n = 1, .values = {a->values[0]}});
    return pieces.kind == JINJA_LIST ? filter_join(j, pieces, &by) : UNDEFINED;
}

static bool filter_has(jinja_value v, const jinja_arguments *a, bool end) {
    jinja_value piece = jinja_argument(a, 0, "prefix");
    if (v.kind != JINJA_TEXT || piece.kind != JINJA_TEXT || piece.text.n > v.text.n) return false;
    return !memcmp(v.text.at + (end ? v.text.n - piece.text.n : 0), piece.text.at, piece.text.n);
}
static jinja_value filter_starts(jinja *, jinja_value v, const jinja_arguments *a) {
    return jinja_bool(filter_has(v, a, false));
}
static jinja_value filter_ends(jinja *, jinja_value v, const jinja_arguments *a) {
    return jinja_bool(filter_has(v, a, true));
}

static jinja_value filter_string(jinja *j, jinja_value v, const jinja_arguments *) {
    jinja_text to;
    return jinja_print(&j->memory, v, &to) ? jinja_text_value(to.at, to.n) : jinja_fail(j, "prints a list");
}

static jinja_value filter_json(jinja *j, jinja_value v, const jinja_arguments *a) {
    jinja_text to = jinja_json(&j->memory, v, 0);
    return a->n ? jinja_fail(j, "prints JSON in lines") : jinja_text_value(to.at, to.n);
}

/* ---- lists and dicts ---- */

static jinja_value filter_length(jinja *j, jinja_value v, const jinja_arguments *) {
    size_t n = 0;
    if (v.kind == JINJA_LIST) return jinja_number((int64_t)v.list->n);
    if (v.kind == JINJA_DICT) return jinja_number((int64_t)v.list->n / 2);
    if (v.kind != JINJA_TEXT) return jinja_fail(j, "counts something that is not a list");
    for (size_t i = 0; i < v.text.n; i++) n += ((unsigned char)v.text.at[i] & 0xC0) != 0x80;
    return jinja_number((int64_t)n);
}

static jinja_value filter_default(jinja *, jinja_value v, const jinja_arguments *a) {
    bool falsy = jinja_is_true(jinja_argument(a, 1, "boolean")) && !jinja_is_true(v);
    return v.kind == JINJA_UNDEFINED || falsy ? jinja_argument(a, 0, "default_value") : v;
}

static jinja_value filter_first(jinja *, jinja_value v, const jinja_arguments *) {
    return v.kind == JINJA_LIST && v.list->n ? v.list->items[0] : UNDEFINED;
}
static jinja_value filter_last(jinja *, jinja_value v, const jinja_arguments *) {
    return v.kind == JINJA_LIST && v.list->n ? v.list->items[v.list->n - 1] : UNDEFINED;
}
static jinja_value filter_same(jinja *, jinja_value v, const jinja_arguments *) { return v; }

static jinja_value filter_items(jinja *j, jinja_value v, const jinja_arguments *) {
    jinja_value list = jinja_collection(&j->memory, JINJA_LIST);
    for (size_t i = 0; v.kind == JINJA_DICT && i < v.list->n; i += 2) {
        jinja_value pair = jinja_collection(&j->memory, JINJA_LIST);
        jinja_add(&j->memory, pair, v.list->items[i]), jinja_add(&j->memory, pair, v.list->items[i + 1]);
        jinja_add(&j->memory, list, pair);
    }
    return list;
}

static jinja_value filter_keys(jinja *j, jinja_value v, const jinja_arguments *) {
    jinja_value list = jinja_collection(&j->memory, JINJA_LIST);
    for (size_t i = 0; v.kind == JINJA_DICT && i < v.list->n; i += 2)
        jinja_add(&j->memory, list, v.list->items[i]);
    return list;
}

static jinja_value filter_get(jinja *, jinja_value v, const jinja_arguments *a) {
    jinja_value key = jinja_argument(a, 0, "key"), otherwise = jinja_argument(a, 1, "default");
    jinja_value *found = key.kind == JINJA_TEXT ? jinja_find(v, key.text) : NULL;
    return found ? *found : otherwise.kind ? otherwise : (jinja_value){.kind = JINJA_NONE};
}

static jinja_value filter_append(jinja *j, jinja_value v, const jinja_arguments *a) {
    if (v.kind == JINJA_LIST) jinja_add(&j->memory, v, jinja_argument(a, 0, "object"));
    return (jinja_value){.kind = JINJA_NONE};
}

static jinja_value filter_reverse(jinja *j, jinja_value v, const jinja_arguments *) {
    jinja_value list = jinja_collection(&j->memory, JINJA_LIST);
    for (size_t i = v.kind == JINJA_LIST ? v.list->n : 0; i > 0; i--)
        jinja_add(&j->memory, list, v.list->items[i - 1]);
    return list;
}

/* Keeps the items whose attribute passes a test, or does not. */
static jinja_value filter_select(jinja *j, jinja_value v, const jinja_arguments *a, bool wanted) {
    jinja_value name = jinja_argument(a, 0, "attr"), test = jinja_argument(a, 1, "test");
    jinja_value list = jinja_collection(&j->memory, JINJA_LIST);
    if (!jinja_is_true(v)) return list;
    if (v.kind != JINJA_LIST || name.kind != JINJA_TEXT)
        return jinja_fail(j, "selects from something that is not a list");
    for (size_t i = 0; i < v.list->n && jinja_spend(j); i++) {
        jinja_value *found = jinja_find(v.list->items[i], name.text), its = found ? *found : UNDEFINED;
        bool is = test.kind == JINJA_TEXT ? jinja_test(j, test.text, its, jinja_argument(a, 2, ""))
                                          : jinja_is_true(its);
        if (is == wanted) jinja_add(&j->memory, list, v.list->items[i]);
    }
    return list;
}
static jinja_value filter_selectattr(jinja *j, jinja_value v, const jinja_arguments *a) {
    return filter_select(j, v, a, true);
}
static jinja_value filter_rejectattr(jinja *j, jinja_value v, const jinja_arguments *a) {
    return filter_select(j, v, a, false);
}

/* Takes an attribute of each item, or puts each through a filter. */
static jinja_value filter_map(jinja *j, jinja_value v, const jinja_arguments *a) {
    jinja_value name = jinja_argument(a, SIZE_MAX, "attribute"), filter = jinja_argument(a, 0, "");
    jinja_value list = jinja_collection(&j->memory, JINJA_LIST);
    if (v.kind != JINJA_LIST || (name.kind != JINJA_TEXT && filter.kind != JINJA_TEXT))
        return jinja_fail(j, "maps something that is not a list");
    for (size_t i = 0; i < v.list->n && jinja_spend(j); i++) {
        jinja_value item = v.list->items[i], *found = jinja_find(item, name.text);
        jinja_add(&j->memory, list,
                  name.kind != JINJA_TEXT ? jinja_filter(j, filter.text, item, &(jinja_arguments){.n = 0})
                  : found                 ? *found
                                          : UNDEFINED);
    }
    return list;
}

/* ---- their names ---- */

typedef struct filter_row {
    const char *name;
    jinja_value (*run)(jinja *j, jinja_value v, const jinja_arguments *a);
} filter_row;

static const filter_row filters[] = {{"trim", filter_trim},
                                     {"upper", filter_upper},
                                     {"lower", filter_lower},
                                     {"capitalize", filter_capitalize},
                                     {"replace", filter_replace},
                                     {"join", filter_join},
                                     {"string", filter_string},
                                     {"tojson", filter_json},
                                     {"length", filter_length},
                                     {"count", filter_length},
                                     {"default", filter_default},
                                     {"d", filter_default},
                                     {"first", filter_first},
                                     {"last", filter_last},
                                     {"list", filter_same},
                                     {"safe", filter_same},
                                     {"items", filter_items},
                                     {"reverse", filter_reverse},
                                     {"selectattr", filter_selectattr},
                                     {"rejectattr", filter_rejectattr},
                                     {"map", filter_map}};
static const filter_row methods[] = {
    {"strip", filter_trim},      {"lstrip", filter_lstrip}, {"rstrip", filter_rstrip},
    {"upper", filter_upper},     {"lower", filter_lower},   {"capitalize", filter_capitalize},
    {"replace", filter_replace}, {"split", filter_split},   {"startswith", filter_starts},
    {"endswith", filter_ends},   {"items", filter_items},   {"keys", filter_keys},
    {"get", filter_get},         {"append", filter_append}};

static jinja_value filter_run(jinja *j, const filter_row *rows, size_t n, jinja_text name, jinja_value v,
                              const jinja_arguments *a) {
    for (size_t i = 0; i < n; i++)
        if (jinja_text_is(name, rows[i].name)) return rows[i].run(j, v, a);
    return jinja_fail(j, "uses %.*s, which is not supported", (int)(name.n < 32 ? name.n : 32), name.at);
}

jinja_value jinja_filter(jinja *j, jinja_text name, jinja_value v, const jinja_arguments *a) {
    return filter_run(j, filters, sizeof filters / sizeof *filters, name, v, a);
}

jinja_value jinja_method(jinja *j, jinja_text name, jinja_value v, const jinja_arguments *a) {
    return filter_run(j, methods, sizeof methods / sizeof *methods, name, v, a);
}

bool jinja_test(jinja *j, jinja_text name, jinja_value v, jinja_value than) {
    static const struct {
        const char *name;
        unsigned kinds; /* bits of jinja_kind */
    } tests[] = {{"undefined", 1 << JINJA_UNDEFINED},
                 {"none", 1 << JINJA_NONE},
                 {"boolean", 1 << JINJA_BOOL},
                 {"number", 1 << JINJA_NUMBER | 1 << JINJA_BOOL},
                 {"integer", 1 << JINJA_NUMBER},
                 {"string", 1 << JINJA_TEXT},
                 {"mapping", 1 << JINJA_DICT},
                 {"iterable", 1 << JINJA_TEXT | 1 << JINJA_LIST | 1 << JINJA_DICT},
                 {"sequence", 1 << JINJA_TEXT | 1 << JINJA_LIST | 1 << JINJA_DICT},
                 {"callable", 1 << JINJA_MACRO | 1 << JINJA_FUNCTION}};
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        if (jinja_text_is(name, tests[i].name)) return tests[i].kinds >> v.kind & 1;
    if (jinja_text_is(name, "defined")) return v.kind != JINJA_UNDEFINED;
    if (jinja_text_is(name, "true")) return v.kind == JINJA_BOOL && v.number;
    if (jinja_text_is(name, "false")) return v.kind == JINJA_BOOL && !v.number;
    if (jinja_text_is(name, "equalto") || jinja_text_is(name, "eq") || jinja_text_is(name, "=="))
        return jinja_equal(v, than, 0);
    if (jinja_text_is(name, "ne")) return !jinja_equal(v, than, 0);
    if (jinja_text_is(name, "odd")) return v.kind == JINJA_NUMBER && v.number % 2;
    if (jinja_text_is(name, "even")) return v.kind == JINJA_NUMBER && v.number % 2 == 0;
    jinja_fail(j, "tests for %.*s, which is not supported", (int)(name.n < 32 ? name.n : 32), name.at);
    return false;
}
