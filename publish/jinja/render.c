#include "publish/jinja/render.h"

#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "publish/jinja/expression.h"
#include "publish/jinja/filters.h"

typedef enum render_flow { FLOW_ON, FLOW_BREAK, FLOW_CONTINUE } render_flow;

static render_flow render_body(jinja *j);

static bool render_at_statement(const jinja *j, const char *name) {
    return j->tokens[j->at].kind == TOKEN_STATEMENT && jinja_text_is(j->tokens[j->at + 1].text, name);
}

/* Whether a tag ends a body: "else", "elif" or "end...". */
static bool render_at_end(const jinja *j) {
    const jinja_token *t = &j->tokens[j->at];
    if (t->kind == TOKEN_END) return true;
    if (t->kind != TOKEN_STATEMENT) return false;
    jinja_text name = t[1].text;
    return jinja_text_is(name, "else") || jinja_text_is(name, "elif") ||
           (name.n > 3 && !memcmp(name.at, "end", 3));
}

/* Passes "{% name". */
static void render_open(jinja *j, const char *name) {
    if (!render_at_statement(j, name)) {
        jinja_fail(j, "expected %s", name);
        return;
    }
    j->at += 2;
}

/* Whether "{% set" has no "=": what stands up to "{% endset %}" is the value. */
static bool render_is_block(const jinja *j) {
    const jinja_token *t = &j->tokens[j->at + 2];
    while (t->kind >= TOKEN_NAME && !(t->kind == TOKEN_OPERATOR && jinja_text_is(t->text, "="))) t++;
    return t->kind < TOKEN_NAME;
}

/* Passes a body without running it, up to the tag that ends it. */
static void render_skip(jinja *j) {
    static const char *const openers[] = {"if", "for", "macro", "generation", "filter", "call"};
    for (int nested = 0; j->at < j->end; j->at++) {
        if (j->tokens[j->at].kind != TOKEN_STATEMENT) continue;
        if (render_at_end(j)) {
            bool is_end = *j->tokens[j->at + 1].text.at == 'e' && j->tokens[j->at + 1].text.at[1] == 'n';
            if (!nested) return;
            nested -= is_end;
        }
        for (size_t i = 0; i < sizeof openers / sizeof *openers; i++)
            nested += render_at_statement(j, openers[i]);
        if (render_at_statement(j, "set")) nested += render_is_block(j);
    }
    jinja_fail(j, "has a block that does not end");
}

static void render_push(jinja *j, jinja_frame *frame, jinja_frame *outer) {
    *frame = (jinja_frame){jinja_collection(&j->memory, JINJA_DICT), outer};
    j->frame = frame;
}

static void render_name(jinja *j, jinja_frame *frame, const char *name, jinja_value v) {
    jinja_set(&j->memory, frame->names, jinja_text_of(name).text, v);
}

/* ---- statements ---- */

static render_flow render_if(jinja *j) {
    render_flow flow = FLOW_ON;
    render_open(j, "if");
    bool is = jinja_is_true(jinja_expression(j)), done = false;
    for (jinja_close(j); !j->failed;) {
        if (is && !done)
            flow = render_body(j);
        else
            render_skip(j);
        if (flow != FLOW_ON) return flow; /* the loop passes what is left */
        done |= is;
        if (j->at == j->end) jinja_fail(j, "has a block that does not end");
        if (render_at_statement(j, "endif") || j->failed) break;
        j->dead += done;
        is = render_at_statement(j, "elif") ? (j->at += 2, jinja_is_true(jinja_expression(j)))
                                            : (render_open(j, "else"), true);
        j->dead -= done;
        jinja_close(j);
    }
    render_open(j, "endif"), jinja_close(j);
    return FLOW_ON;
}

typedef struct render_loop {
    jinja_text names[2]; /* the second one: of the parts of a pair */
    size_t n_names, condition, body;
} render_loop;

static void render_bind(jinja *j, const render_loop *l, jinja_value item) {
    if (l->n_names == 1) {
        jinja_set(&j->memory, j->frame->names, l->names[0], item);
        return;
    }
    if (item.kind != JINJA_LIST || item.list->n != 2) {
        jinja_fail(j, "unpacks something that is not a pair");
        return;
    }
    for (size_t i = 0; i < 2; i++) jinja_set(&j->memory, j->frame->names, l->names[i], item.list->items[i]);
}

/* Returns the items of a loop that its condition lets through. */
static jinja_value render_items(jinja *j, const render_loop *l, jinja_value of) {
    if (of.kind == JINJA_DICT)
        of = jinja_method(j, jinja_text_of("keys").text, of, &(jinja_arguments){.n = 0});
    if (of.kind != JINJA_LIST)
        return of.kind == JINJA_UNDEFINED ? jinja_collection(&j->memory, JINJA_LIST)
                                          : jinja_fail(j, "loops over something that is not a list");
    if (!l->condition) return of;
    jinja_value kept = jinja_collection(&j->memory, JINJA_LIST);
    jinja_frame frame, *outer = j->frame;
    render_push(j, &frame, outer);
    for (size_t i = 0; i < of.list->n && jinja_spend(j); i++) {
        render_bind(j, l, of.list->items[i]);
        if (!j->failed) j->at = l->condition;
        if (jinja_is_true(jinja_expression(j))) jinja_add(&j->memory, kept, of.list->items[i]);
    }
    j->frame = outer;
    return kept;
}

static jinja_value render_loop_facts(jinja *j, jinja_value items, size_t i) {
    jinja_value loop = jinja_collection(&j->memory, JINJA_DICT);
    jinja_frame to = {loop, NULL};
    size_t n = items.list->n;
    render_name(j, &to, "index", jinja_number((int64_t)i + 1));
    render_name(j, &to, "index0", jinja_number((int64_t)i));
    render_name(j, &to, "revindex", jinja_number((int64_t)(n - i)));
    render_name(j, &to, "revindex0", jinja_number((int64_t)(n - i - 1)));
    render_name(j, &to, "first", jinja_bool(i == 0));
    render_name(j, &to, "last", jinja_bool(i + 1 == n));
    render_name(j, &to, "length", jinja_number((int64_t)n));
    if (i) render_name(j, &to, "previtem", items.list->items[i - 1]);
    if (i + 1 < n) render_name(j, &to, "nextitem", items.list->items[i + 1]);
    return loop;
}

static void render_for(jinja *j) {
    render_loop l = {.n_names = 1};
    render_open(j, "for");
    l.names[0] = jinja_expect_name(j);
    if (jinja_accept(j, ",")) l.names[1] = jinja_expect_name(j), l.n_names = 2;
    jinja_expect(j, "in");
    jinja_value items = jinja_either(j);
    if (jinja_accept(j, "if")) {
        l.condition = j->at;
        j->dead++, jinja_expression(j), j->dead--;
    }
    jinja_close(j);
    l.body = j->at;
    items = render_items(j, &l, items);
    jinja_frame frame, *outer = j->frame;
    for (size_t i = 0; !j->failed && i < items.list->n && jinja_spend(j); i++) {
        j->at = l.body;
        render_push(j, &frame, outer);
        render_bind(j, &l, items.list->items[i]);
        render_name(j, &frame, "loop", render_loop_facts(j, items, i));
        if (render_body(j) == FLOW_BREAK) break;
    }
    j->frame = outer;
    if (j->failed) return;
    j->at = l.body, render_skip(j);
    if (render_at_statement(j, "else")) {
        j->at += 2, jinja_close(j);
        if (items.list->n)
            render_skip(j);
        else
            render_body(j);
    }
    render_open(j, "endfor"), jinja_close(j);
}

/* Runs a body and returns what it printed. */
static jinja_value render_captured(jinja *j) {
    jinja_text out = j->out;
    j->out = (jinja_text){"", 0};
    render_body(j);
    jinja_value text = jinja_text_value(j->out.at, j->out.n);
    j->out = out;
    return text;
}

static void render_set(jinja *j) {
    bool is_block = render_is_block(j);
    render_open(j, "set");
    jinja_text name = jinja_expect_name(j), member = {"", 0};
    if (jinja_accept(j, ".")) member = jinja_expect_name(j);
    if (!is_block) jinja_expect(j, "=");
    jinja_value v = {.kind = JINJA_UNDEFINED};
    if (!is_block) v = jinja_expression(j);
    jinja_close(j);
    if (is_block) v = render_captured(j), render_open(j, "endset"), jinja_close(j);
    if (!member.n) {
        jinja_set(&j->memory, j->frame->names, name, v);
        return;
    }
    for (const jinja_frame *f = j->frame; f; f = f->outer) {
        const jinja_value *of = jinja_find(f->names, name);
        if (of) return jinja_set(&j->memory, *of, member, v);
    }
    jinja_fail(j, "sets a member of an undefined value");
}

/* Notes where a macro stands; calling it reads its parameters and runs its body. */
static void render_macro(jinja *j) {
    render_open(j, "macro");
    jinja_text name = jinja_expect_name(j);
    jinja_set(&j->memory, j->frame->names, name,
              (jinja_value){.kind = JINJA_MACRO, .number = (int64_t)j->at});
    while (j->tokens[j->at].kind >= TOKEN_NAME) j->at++;
    jinja_close(j), render_skip(j), render_open(j, "endmacro"), jinja_close(j);
}

static jinja_value render_call(jinja *j, jinja_value macro, const jinja_arguments *a) {
    size_t behind = j->at;
    jinja_frame frame, *outer = j->frame;
    j->at = (size_t)macro.number;
    render_push(j, &frame, j->global);
    jinja_expect(j, "(");
    for (size_t i = 0; !jinja_accept(j, ")") && jinja_spend(j); i++) {
        char name[64];
        jinja_text parameter = jinja_expect_name(j);
        if (parameter.n >= sizeof name) return jinja_fail(j, "has a long name");
        memcpy(name, parameter.at, parameter.n), name[parameter.n] = 0;
        jinja_value v = jinja_argument(a, i, name);
        if (jinja_accept(j, "=")) {
            bool given = v.kind != JINJA_UNDEFINED;
            j->dead += given;
            jinja_value otherwise = jinja_expression(j);
            j->dead -= given;
            if (!given) v = otherwise;
        }
        jinja_set(&j->memory, frame.names, parameter, v);
        if (!jinja_at(j, ")")) jinja_expect(j, ",");
    }
    jinja_close(j);
    jinja_value text = render_captured(j);
    j->frame = outer;
    if (!j->failed) j->at = behind;
    return text;
}

static void render_print(jinja *j) {
    jinja_text text;
    j->at++;
    jinja_value v = jinja_expression(j);
    jinja_close(j);
    if (!jinja_print(&j->memory, v, &text)) jinja_fail(j, "prints a list");
    if (!j->failed) j->out = jinja_join(&j->memory, j->out, text).text;
}

/* ---- bodies ---- */

static render_flow render_statement(jinja *j) {
    if (render_at_statement(j, "if")) return render_if(j);
    if (render_at_statement(j, "break")) return FLOW_BREAK;
    if (render_at_statement(j, "continue")) return FLOW_CONTINUE;
    if (render_at_statement(j, "for"))
        render_for(j);
    else if (render_at_statement(j, "set"))
        render_set(j);
    else if (render_at_statement(j, "macro"))
        render_macro(j);
    else if (render_at_statement(j, "generation")) { /* what the assistant wrote */
        j->at += 2, jinja_close(j);
        render_flow flow = render_body(j);
        if (flow != FLOW_ON) return flow;
        render_open(j, "endgeneration"), jinja_close(j);
    } else {
        jinja_text name = j->tokens[j->at + 1].text;
        jinja_fail(j, "uses %.*s, which is not supported", (int)(name.n < 32 ? name.n : 32), name.at);
    }
    return FLOW_ON;
}

/* Runs up to the tag that ends a body, or to one that leaves it. */
static render_flow render_body(jinja *j) {
    enum { MOST_DEPTH = 64 };
    render_flow flow = FLOW_ON;
    if (++j->depth > MOST_DEPTH) jinja_fail(j, "has too many nested blocks");
    while (flow == FLOW_ON && !render_at_end(j) && jinja_spend(j)) {
        const jinja_token *t = &j->tokens[j->at];
        if (t->kind == TOKEN_STATEMENT)
            flow = render_statement(j);
        else if (t->kind == TOKEN_PRINT)
            render_print(j);
        else
            j->out = jinja_join(&j->memory, j->out, t->text).text, j->at++;
    }
    j->depth--;
    return flow;
}

static void render_set_names(jinja *j, const chat_message *messages, size_t n, const char *bos,
                             const char *eos) {
    static const char *const functions[] = {[JINJA_RAISE] = "raise_exception",
                                            [JINJA_STRFTIME] = "strftime_now",
                                            [JINJA_RANGE] = "range",
                                            [JINJA_NAMESPACE] = "namespace"};
    jinja_value list = jinja_collection(&j->memory, JINJA_LIST);
    for (size_t i = 0; i < n; i++) {
        jinja_frame to = {jinja_collection(&j->memory, JINJA_DICT), NULL};
        render_name(j, &to, "role", jinja_text_of(messages[i].role));
        render_name(j, &to, "content", jinja_text_of(messages[i].content));
        jinja_add(&j->memory, list, to.names);
    }
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        render_name(j, j->global, functions[i], (jinja_value){.kind = JINJA_FUNCTION, .number = (int64_t)i});
    render_name(j, j->global, "messages", list);
    render_name(j, j->global, "add_generation_prompt", jinja_bool(true));
    render_name(j, j->global, "tools", (jinja_value){.kind = JINJA_NONE});
    render_name(j, j->global, "documents", (jinja_value){.kind = JINJA_NONE});
    if (*bos) render_name(j, j->global, "bos_token", jinja_text_of(bos));
    if (*eos) render_name(j, j->global, "eos_token", jinja_text_of(eos));
}

char *jinja_render(const char *template, size_t n, const chat_message *messages, size_t n_messages,
                   const char *bos, const char *eos, gq_error *e) {
    jinja j = {.call = render_call, .e = e, .out = {"", 0}};
    jinja_frame global;
    char *text = NULL;
    j.tokens = jinja_lex(template, n, &j.memory, j.e);
    if (j.tokens) {
        while (j.tokens[j.end].kind != TOKEN_END) j.end++;
        render_push(&j, &global, NULL);
        j.global = &global;
        render_set_names(&j, messages, n_messages, bos, eos);
        render_body(&j);
        if (j.at < j.end) jinja_fail(&j, "has an end without a beginning");
        if (!j.failed && !j.memory.is_full) text = strndup(j.out.at, j.out.n);
        if (!j.failed && !text) gq_fail_memory(j.e, j.memory.total);
    }
    jinja_memory_free(&j.memory);
    return text;
}
