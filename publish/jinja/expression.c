#include "publish/jinja/expression.h"

#include <stdlib.h>
#include <string.h>

#include "publish/jinja/filters.h"

static const jinja_value UNDEFINED = {.kind = JINJA_UNDEFINED};

/* ---- what stands behind a value ---- */

/* Reads the arguments of a call, whose bracket is passed. */
static void expression_arguments(jinja *j, jinja_arguments *a) {
    a->n = 0;
    while (!jinja_accept(j, ")") && !j->failed) {
        const jinja_token *t = &j->tokens[j->at];
        bool named = t->kind == TOKEN_NAME && t[1].kind == TOKEN_OPERATOR && jinja_text_is(t[1].text, "=");
        if (a->n == JINJA_ARGUMENTS) jinja_fail_syntax(j, "fewer arguments");
        if (j->failed) return;
        a->names[a->n] = named ? t->text : (jinja_text){"", 0};
        j->at += named ? 2 : 0;
        a->values[a->n++] = jinja_expression(j);
        if (!jinja_at(j, ")")) jinja_expect(j, ",");
    }
}

static jinja_value expression_range(jinja *j, const jinja_arguments *a) {
    enum { MOST = 10000 };
    int64_t from = a->n > 1 ? a->values[0].number : 0, to = a->n ? a->values[a->n > 1].number : 0,
            step = a->n > 2 ? a->values[2].number : 1;
    jinja_value list = jinja_collection(&j->memory, JINJA_LIST);
    for (size_t i = 0; i < a->n; i++)
        if (a->values[i].kind != JINJA_NUMBER || llabs(a->values[i].number) > MOST || !step)
            return jinja_fail(j, "range is not of this kind");
    for (; step > 0 ? from < to : from > to; from += step) jinja_add(&j->memory, list, jinja_number(from));
    return list;
}

static jinja_value expression_call(jinja *j, jinja_value called, const jinja_arguments *a) {
    if (j->dead || !jinja_spend(j)) return UNDEFINED;
    if (called.kind == JINJA_MACRO) return j->call(j, called, a);
    if (called.kind != JINJA_FUNCTION) return jinja_fail(j, "calls something that is not a function");
    switch ((jinja_function)called.number) {
    case JINJA_RAISE: {
        jinja_text why = a->n && a->values[0].kind == JINJA_TEXT ? a->values[0].text : (jinja_text){"", 0};
        return jinja_fail(j, "%.*s", (int)(why.n < 120 ? why.n : 120), why.at);
    }
    case JINJA_STRFTIME:
        return jinja_text_of("{date}"); /* each day the same page */
    case JINJA_RANGE:
        return expression_range(j, a);
    case JINJA_NAMESPACE:
        break;
    }
    jinja_value dict = jinja_collection(&j->memory, JINJA_DICT);
    for (size_t i = 0; i < a->n; i++) jinja_set(&j->memory, dict, a->names[i], a->values[i]);
    return dict;
}

/* Returns the place that an index counts to, which counts from the end below 0; n: beyond. */
static size_t expression_place(int64_t index, size_t n) {
    if (index < 0) index = -index > (int64_t)n ? (int64_t)n : (int64_t)n + index;
    return index > (int64_t)n ? n : (size_t)index;
}

static jinja_value expression_item(jinja *j, jinja_value v, jinja_value index) {
    if (v.kind == JINJA_UNDEFINED) return jinja_fail(j, "indexes an undefined value");
    if (v.kind == JINJA_DICT) {
        jinja_text key;
        jinja_value *found = jinja_print(&j->memory, index, &key) ? jinja_find(v, key) : NULL;
        return found ? *found : UNDEFINED;
    }
    size_t n = v.kind == JINJA_LIST ? v.list->n : v.kind == JINJA_TEXT ? v.text.n : 0;
    size_t at = index.kind == JINJA_NUMBER ? expression_place(index.number, n) : n;
    if (at >= n) return UNDEFINED;
    return v.kind == JINJA_LIST ? v.list->items[at] : jinja_text_value(v.text.at + at, 1);
}

/* Returns a slice of a list or a text, from one number to another, or all of it backwards. */
static jinja_value value_slice(jinja *j, jinja_value v, jinja_value from, jinja_value to, jinja_value step) {
    bool is_text = v.kind == JINJA_TEXT, back = step.kind == JINJA_NUMBER && step.number == -1;
    if (v.kind != JINJA_LIST && !is_text) return jinja_fail(j, "indexes something that is not a list");
    size_t n = is_text ? v.text.n : v.list->n;
    size_t first = from.kind == JINJA_NUMBER ? expression_place(from.number, n) : 0,
           end = to.kind == JINJA_NUMBER ? expression_place(to.number, n) : n;
    if (from.kind == JINJA_NUMBER && -from.number > (int64_t)n) first = 0;
    if (to.kind == JINJA_NUMBER && -to.number > (int64_t)n) end = 0;
    if (end < first) end = first;
    if ((step.kind == JINJA_NUMBER && step.number != 1 && !back) || (back && (is_text || end - first != n)))
        return jinja_fail(j, "slices with a step");
    if (is_text) return jinja_text_value(v.text.at + first, end - first);
    jinja_value list = jinja_collection(&j->memory, JINJA_LIST);
    for (size_t i = first; i < end; i++) jinja_add(&j->memory, list, v.list->items[back ? n - 1 - i : i]);
    return list;
}

/* Reads "[...]" behind a value, whose bracket is passed. */
static jinja_value expression_slice(jinja *j, jinja_value v) {
    jinja_value bounds[3] = {UNDEFINED, UNDEFINED, UNDEFINED};
    size_t n = 0;
    while (!jinja_at(j, "]") && !j->failed) {
        if (!jinja_at(j, ":")) bounds[n] = jinja_expression(j);
        if (!jinja_at(j, "]")) jinja_expect(j, ":");
        if (!j->failed && j->tokens[j->at - 1].kind == TOKEN_OPERATOR &&
            jinja_text_is(j->tokens[j->at - 1].text, ":") && ++n > 2)
            jinja_fail_syntax(j, "]");
    }
    jinja_expect(j, "]");
    if (j->dead || j->failed) return UNDEFINED;
    return n ? value_slice(j, v, bounds[0], bounds[1], bounds[2]) : expression_item(j, v, bounds[0]);
}

static jinja_value expression_member(jinja *j, jinja_value v) {
    jinja_arguments a;
    const jinja_token *t = &j->tokens[j->at];
    jinja_value name = jinja_text_value(t->text.at, t->text.n);
    if (t->kind != TOKEN_NAME) return jinja_expect_name(j), UNDEFINED;
    j->at++;
    if (j->dead || !jinja_at(j, "(") || jinja_find(v, name.text))
        return j->dead ? UNDEFINED : expression_item(j, v, name);
    j->at++;
    expression_arguments(j, &a);
    return jinja_spend(j) ? jinja_method(j, name.text, v, &a) : UNDEFINED;
}

static jinja_value expression_filtered(jinja *j, jinja_value v) {
    jinja_arguments a = {.n = 0};
    jinja_text name = jinja_expect_name(j);
    if (jinja_accept(j, "(")) expression_arguments(j, &a);
    return j->dead || !jinja_spend(j) ? UNDEFINED : jinja_filter(j, name, v, &a);
}

static jinja_value expression_tested(jinja *j, jinja_value v) {
    jinja_arguments a = {.n = 0};
    bool negated = jinja_accept(j, "not");
    jinja_text name = jinja_expect_name(j);
    if (jinja_accept(j, "(")) expression_arguments(j, &a);
    if (j->dead || !jinja_spend(j)) return UNDEFINED;
    return jinja_bool(jinja_test(j, name, v, jinja_argument(&a, 0, "")) != negated);
}

static jinja_value expression_behind(jinja *j, jinja_value v) {
    while (!j->failed) {
        jinja_arguments a;
        if (jinja_accept(j, "."))
            v = expression_member(j, v);
        else if (jinja_accept(j, "["))
            v = expression_slice(j, v);
        else if (jinja_accept(j, "("))
            expression_arguments(j, &a), v = expression_call(j, v, &a);
        else if (jinja_accept(j, "|"))
            v = expression_filtered(j, v);
        else if (jinja_accept(j, "is"))
            v = expression_tested(j, v);
        else
            return v;
    }
    return UNDEFINED;
}

/* ---- values ---- */

/* Reads what brackets hold up to `close`: one value in round ones, else a list. */
static jinja_value expression_list(jinja *j, const char *close) {
    jinja_value list = jinja_collection(&j->memory, JINJA_LIST), item = UNDEFINED;
    bool comma = *close == ']';
    while (!jinja_accept(j, close) && !j->failed) {
        jinja_add(&j->memory, list, item = jinja_expression(j));
        if (!jinja_at(j, close)) jinja_expect(j, ","), comma = true;
    }
    return comma ? list : item;
}

static jinja_value expression_dict(jinja *j) {
    jinja_value dict = jinja_collection(&j->memory, JINJA_DICT);
    while (!jinja_accept(j, "}") && !j->failed) {
        jinja_text key; /* a number's digits */
        if (!jinja_print(&j->memory, jinja_expression(j), &key))
            jinja_fail(j, "has a key that is not a string");
        jinja_expect(j, ":");
        jinja_set(&j->memory, dict, key, jinja_expression(j));
        if (!jinja_at(j, "}")) jinja_expect(j, ",");
    }
    return dict;
}

static jinja_value expression_name(const jinja *j, jinja_text name) {
    static const struct {
        const char *name;
        jinja_value value;
    } words[] = {{"true", {.kind = JINJA_BOOL, .number = 1}},
                 {"True", {.kind = JINJA_BOOL, .number = 1}},
                 {"false", {.kind = JINJA_BOOL, .number = 0}},
                 {"False", {.kind = JINJA_BOOL, .number = 0}},
                 {"none", {.kind = JINJA_NONE}},
                 {"None", {.kind = JINJA_NONE}}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (jinja_text_is(name, words[i].name)) return words[i].value;
    for (const jinja_frame *f = j->frame; f; f = f->outer) {
        const jinja_value *found = jinja_find(f->names, name);
        if (found) return *found;
    }
    return UNDEFINED;
}

static jinja_value expression_number(jinja *j, jinja_text digits) {
    enum { MOST_DIGITS = 15 };
    int64_t number = 0;
    for (size_t i = 0; i < digits.n; i++) {
        if (digits.at[i] < '0' || digits.at[i] > '9' || i == MOST_DIGITS)
            return jinja_fail(j, "has an unreadable number"), UNDEFINED;
        number = 10 * number + (digits.at[i] - '0');
    }
    return jinja_number(number);
}

static jinja_value expression_unary(jinja *j) {
    if (jinja_accept(j, "-")) {
        jinja_value v = expression_unary(j);
        return v.kind == JINJA_NUMBER ? jinja_number(-v.number)
                                      : jinja_fail(j, "negates something that is not a number");
    }
    jinja_token t = j->tokens[j->at];
    jinja_value v = UNDEFINED;
    if (!jinja_spend(j)) return v;
    if (jinja_accept(j, "("))
        v = expression_list(j, ")");
    else if (jinja_accept(j, "["))
        v = expression_list(j, "]");
    else if (jinja_accept(j, "{"))
        v = expression_dict(j);
    else if (t.kind == TOKEN_NAME)
        j->at++, v = expression_name(j, t.text);
    else if (t.kind == TOKEN_NUMBER)
        j->at++, v = expression_number(j, t.text);
    else if (t.kind == TOKEN_STRING)
        for (v = jinja_text_of(""); j->tokens[j->at].kind == TOKEN_STRING; j->at++)
            v = jinja_join(&j->memory, v.text, j->tokens[j->at].text);
    else
        jinja_fail_syntax(j, "a value");
    return expression_behind(j, v);
}

/* ---- operators ---- */

static jinja_value expression_product(jinja *j) {
    enum { MOST = 1 << 30 };
    jinja_value v = expression_unary(j);
    while (jinja_at(j, "*") || jinja_at(j, "//") || jinja_at(j, "%")) {
        char op = *j->tokens[j->at++].text.at;
        jinja_value w = expression_unary(j);
        bool numbers = v.kind == JINJA_NUMBER && w.kind == JINJA_NUMBER && llabs(v.number) < MOST &&
                       llabs(w.number) < MOST;
        if (!numbers || (op == '*' ? false : v.number < 0 || w.number <= 0))
            v = jinja_fail(j, "calculates with something that is not a number");
        else
            v = jinja_number(op == '*'   ? v.number * w.number
                             : op == '/' ? v.number / w.number
                                         : v.number % w.number);
    }
    return v;
}

static jinja_value expression_concatenated(jinja *j) {
    jinja_value v = expression_product(j);
    while (jinja_accept(j, "~")) {
        jinja_value w = expression_product(j);
        jinja_text a, b;
        if (jinja_print(&j->memory, v, &a) && jinja_print(&j->memory, w, &b))
            v = jinja_join(&j->memory, a, b);
        else
            v = jinja_fail(j, "joins something that is not a string");
    }
    return v;
}

static jinja_value expression_added(jinja *j, jinja_value v, jinja_value w, bool minus) {
    enum { MOST = 1 << 30 };
    bool numbers =
        v.kind == JINJA_NUMBER && w.kind == JINJA_NUMBER && llabs(v.number) < MOST && llabs(w.number) < MOST;
    if (numbers) return jinja_number(minus ? v.number - w.number : v.number + w.number);
    if (v.kind == JINJA_TEXT && w.kind == JINJA_TEXT && !minus) return jinja_join(&j->memory, v.text, w.text);
    if (v.kind != JINJA_LIST || w.kind != JINJA_LIST || minus)
        return jinja_fail(j, "adds values of different kinds");
    jinja_value list = jinja_collection(&j->memory, JINJA_LIST);
    for (size_t i = 0; i < v.list->n; i++) jinja_add(&j->memory, list, v.list->items[i]);
    for (size_t i = 0; i < w.list->n; i++) jinja_add(&j->memory, list, w.list->items[i]);
    return list;
}

static jinja_value expression_sum(jinja *j) {
    jinja_value v = expression_concatenated(j);
    while (jinja_at(j, "+") || jinja_at(j, "-")) {
        bool minus = *j->tokens[j->at++].text.at == '-';
        jinja_value w = expression_concatenated(j);
        v = j->dead ? UNDEFINED : expression_added(j, v, w, minus);
    }
    return v;
}

static bool expression_is_in(jinja *j, jinja_value v, jinja_value of) {
    if (of.kind == JINJA_TEXT && v.kind == JINJA_TEXT) return jinja_text_has(of.text, v.text);
    if (of.kind == JINJA_DICT) return v.kind == JINJA_TEXT && jinja_find(of, v.text);
    if (of.kind == JINJA_UNDEFINED) return false;
    if (of.kind != JINJA_LIST)
        return jinja_fail(j, "looks for a value in something that is not a list"), false;
    for (size_t i = 0; i < of.list->n; i++)
        if (jinja_equal(v, of.list->items[i], 0)) return true;
    return false;
}

static bool expression_compare(jinja *j, jinja_text op, jinja_value v, jinja_value w) {
    if (jinja_text_is(op, "in")) return expression_is_in(j, v, w);
    if (jinja_text_is(op, "==")) return jinja_equal(v, w, 0);
    if (jinja_text_is(op, "!=")) return !jinja_equal(v, w, 0);
    if (v.kind != JINJA_NUMBER || w.kind != JINJA_NUMBER)
        return jinja_fail(j, "compares something that is not a number"), false;
    bool equal = op.n == 2 && v.number == w.number;
    return equal || (*op.at == '<' ? v.number < w.number : v.number > w.number);
}

static jinja_value expression_comparison(jinja *j) {
    static const char *const operators[] = {"==", "!=", "<", ">", "<=", ">=", "in", "not"};
    jinja_value v = expression_sum(j);
    for (bool found = true; found;) {
        found = false;
        for (size_t i = 0; i < sizeof operators / sizeof *operators && !found; i++)
            found = jinja_at(j, operators[i]);
        if (!found) break;
        bool negated = jinja_accept(j, "not");
        jinja_text op = j->tokens[j->at].text;
        if (negated && !jinja_at(j, "in")) return jinja_fail_syntax(j, "in"), UNDEFINED;
        j->at++;
        jinja_value w = expression_sum(j);
        v = j->dead ? UNDEFINED : jinja_bool(expression_compare(j, op, v, w) != negated);
    }
    return v;
}

static jinja_value expression_not(jinja *j) {
    if (!jinja_accept(j, "not")) return expression_comparison(j);
    if (!jinja_spend(j)) return UNDEFINED;
    return jinja_bool(!jinja_is_true(expression_not(j)));
}

static jinja_value expression_both(jinja *j) {
    jinja_value v = expression_not(j);
    while (jinja_accept(j, "and")) {
        bool decided = !jinja_is_true(v);
        j->dead += decided;
        jinja_value w = expression_not(j);
        j->dead -= decided;
        if (!decided) v = w;
    }
    return v;
}

jinja_value jinja_either(jinja *j) {
    jinja_value v = expression_both(j);
    while (jinja_accept(j, "or")) {
        bool decided = jinja_is_true(v);
        j->dead += decided;
        jinja_value w = expression_both(j);
        j->dead -= decided;
        if (!decided) v = w;
    }
    return v;
}

/* Whether "A if B else C" stands here. */
static bool expression_is_conditional(const jinja *j) {
    int nested = 0;
    for (const jinja_token *t = &j->tokens[j->at]; t->kind >= TOKEN_NAME; t++) {
        if (t->kind != TOKEN_NAME && t->kind != TOKEN_OPERATOR) continue;
        char c = *t->text.at;
        if (strchr("([{", c))
            nested++;
        else if (strchr(")]}", c) && nested-- == 0)
            return false;
        else if (!nested && (strchr(",:=", c) && t->text.n == 1))
            return false;
        else if (!nested && t->kind == TOKEN_NAME &&
                 (jinja_text_is(t->text, "if") || jinja_text_is(t->text, "else")))
            return jinja_text_is(t->text, "if");
    }
    return false;
}

/* Evaluates "A if B else C": B first, then the side that it decides for. */
static jinja_value expression_conditional(jinja *j) {
    size_t value = j->at;
    j->dead++, jinja_either(j), j->dead--;
    jinja_expect(j, "if");
    bool is = jinja_is_true(jinja_either(j)) && !j->dead && !j->failed;
    jinja_value v = UNDEFINED;
    if (is) {
        size_t behind = j->at;
        j->at = value, v = jinja_either(j);
        if (!j->failed) j->at = behind;
    }
    if (!jinja_accept(j, "else")) return v;
    j->dead += is;
    jinja_value w = jinja_expression(j);
    j->dead -= is;
    return is ? v : w;
}

jinja_value jinja_expression(jinja *j) {
    enum { MOST_DEPTH = 64 };
    if (j->depth > MOST_DEPTH) jinja_fail_syntax(j, "fewer nested brackets");
    if (!jinja_spend(j)) return UNDEFINED;
    j->depth++;
    jinja_value v = expression_is_conditional(j) ? expression_conditional(j) : jinja_either(j);
    j->depth--;
    return v;
}
