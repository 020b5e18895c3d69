#include "publish/jinja/state.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/fail.h"

static const jinja_value UNDEFINED = {.kind = JINJA_UNDEFINED};

jinja_value jinja_fail(jinja *j, const char *format, ...) {
    va_list args;
    char text[160];
    if (j->dead || j->failed) return UNDEFINED;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    gq_fail(j->e, "%s", text);
    j->failed = true, j->at = j->end;
    return UNDEFINED;
}

void jinja_fail_syntax(jinja *j, const char *expected) {
    int dead = j->dead;
    jinja_text found = j->tokens[j->at].text;
    j->dead = 0;
    jinja_fail(j, "expected %s, found %.*s", expected, (int)(found.n < 32 ? found.n : 32), found.at);
    j->dead = dead;
}

bool jinja_at(const jinja *j, const char *word) {
    const jinja_token *t = &j->tokens[j->at];
    return (t->kind == TOKEN_NAME || t->kind == TOKEN_OPERATOR) && jinja_text_is(t->text, word);
}

bool jinja_accept(jinja *j, const char *word) {
    if (!jinja_at(j, word)) return false;
    j->at++;
    return true;
}

void jinja_expect(jinja *j, const char *word) {
    if (!jinja_accept(j, word)) jinja_fail_syntax(j, word);
}

jinja_text jinja_expect_name(jinja *j) {
    jinja_token t = j->tokens[j->at];
    if (t.kind != TOKEN_NAME) return jinja_fail_syntax(j, "a name"), (jinja_text){"", 0};
    j->at++;
    return t.text;
}

void jinja_close(jinja *j) {
    if (j->tokens[j->at].kind == TOKEN_CLOSE)
        j->at++;
    else
        jinja_fail_syntax(j, "the end of the tag");
}

bool jinja_spend(jinja *j) {
    enum { MOST_WORK = 1 << 20 };
    if (j->failed) return false;
    if (++j->work <= MOST_WORK && !j->memory.is_full) return true;
    int dead = j->dead;
    j->dead = 0;
    jinja_fail(j, "takes too much work");
    j->dead = dead;
    return false;
}

jinja_value jinja_argument(const jinja_arguments *a, size_t at, const char *name) {
    for (size_t i = 0; i < a->n; i++)
        if (a->names[i].n ? jinja_text_is(a->names[i], name) : i == at) return a->values[i];
    return UNDEFINED;
}
