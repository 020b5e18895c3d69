#include "publish/template.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/memory.h"
#include "publish/text.h"

/* ---- facts ---- */

void fact_add_text(fact_list *l, const char *name, const char *text, size_t n) {
    gq_error unused;
    if (!text || !n) return;
    char *copy = strndup(text, n);
    if (!copy || !memory_grow(&l->items, &l->capacity, l->n + 1, sizeof *l->items, &unused)) {
        l->is_incomplete = true;
        free(copy);
        return;
    }
    l->items[l->n++] = (fact){name, copy};
}

void fact_add(fact_list *l, const char *name, const char *format, ...) {
    char *text = NULL;
    va_list args;
    va_start(args, format);
    int n = vasprintf(&text, format, args);
    va_end(args);
    if (n < 0) l->is_incomplete = true;
    if (n > 0) fact_add_text(l, name, text, (size_t)n);
    if (n >= 0) free(text);
}

void fact_set(fact_list *l, const char *name, bool is) { fact_add_text(l, name, "yes", is ? 3 : 0); }

const char *fact_text(const fact_list *l, const char *name) {
    for (size_t i = 0; i < l->n; i++)
        if (!strcmp(l->items[i].name, name)) return l->items[i].text;
    return "";
}

void fact_free(fact_list *l) {
    for (size_t i = 0; i < l->n; i++) free(l->items[i].text);
    free(l->items);
    *l = (fact_list){.n = 0};
}

/* ---- texts in their place ---- */

/* Writes a text in JSON's quotes, all in ASCII; a byte that is not UTF-8 becomes U+FFFD. */
static void template_write_quoted(FILE *to, const char *text, size_t n) {
    fputc('"', to);
    for (size_t i = 0, step; i < n; i += step) {
        uint32_t code = 0xFFFD;
        step = gq_utf8(text + i, n - i, &code);
        if (!step) step = 1, code = 0xFFFD;
        if (code == '"' || code == '\\')
            fprintf(to, "\\%c", (int)code);
        else if (code >= ' ' && code <= '~')
            fputc((int)code, to);
        else if (code < 0x10000)
            fprintf(to, "\\u%04" PRIx32, code);
        else
            fprintf(to, "\\u%04" PRIx32 "\\u%04" PRIx32, 0xD800 + ((code - 0x10000) >> 10),
                    0xDC00 + (code & 0x3FF));
    }
    fputc('"', to);
}

static void template_write_fact(FILE *to, char kind, const char *text, bool html) {
    size_t n = strlen(text);
    if (kind == '"')
        template_write_quoted(to, text, n);
    else if (kind == '&')
        fputs(text, to);
    else if (kind == '$')
        page_write_word(to, text);
    else if (kind == '\'')
        for (; *text; text++) fputc(iscntrl((unsigned char)*text) ? ' ' : *text == '`' ? '\'' : *text, to);
    else
        page_write_text(to, text, n, html);
}

/* ---- templates ---- */

typedef struct template_job {
    const char *template;
    const fact_list *facts;
} template_job;

typedef struct template_tag {
    const char *at, *behind; /* the tag in the template, with its line where it is alone there */
    char kind;               /* one of KINDS; 0: none of them */
    char name[32];
} template_tag;
static const char KINDS[] = "#^/&\"'$";

/* Finds the next tag from `at` on; false: there is none before `end`. */
static bool template_find(const template_job *j, const char *at, const char *end, template_tag *to) {
    to->at = memmem(at, (size_t)(end - at), "{{", 2);
    if (!to->at) return false;
    const char *name = to->at + 2, *close = strstr(name, "}}");
    to->kind = strchr(KINDS, *name) ? *name++ : 0;
    snprintf(to->name, sizeof to->name, "%.*s", (int)(close - name), name);
    to->behind = close + 2;
    bool is_alone = (to->at == j->template || to->at[-1] == '\n') && *to->behind == '\n';
    if (is_alone && to->kind && strchr("#^/", to->kind)) to->behind++;
    return true;
}

static void template_write(FILE *to, const template_job *j, const char *at, const char *end,
                           const fact *current) {
    const fact_list *l = j->facts;
    template_tag tag, close;
    for (; template_find(j, at, end, &tag); at = tag.behind) {
        fwrite(at, 1, (size_t)(tag.at - at), to);
        if (tag.kind != '#' && tag.kind != '^') {
            bool is_current = current && !strcmp(current->name, tag.name);
            template_write_fact(to, tag.kind, is_current ? current->text : fact_text(l, tag.name), l->html);
            continue;
        }
        const char *inner = tag.behind;
        do
            if (!template_find(j, tag.behind, end, &close))
                return; /* it is not closed: a test looks for that */
        while (tag.behind = close.behind, close.kind != '/' || strcmp(close.name, tag.name) != 0);
        if (tag.kind == '^' && !*fact_text(l, tag.name)) template_write(to, j, inner, close.at, current);
        for (size_t i = 0; tag.kind == '#' && i < l->n; i++)
            if (!strcmp(l->items[i].name, tag.name)) template_write(to, j, inner, close.at, &l->items[i]);
    }
    fwrite(at, 1, (size_t)(end - at), to);
}

static void template_write_all(FILE *to, const void *what) {
    const template_job *j = what;
    template_write(to, j, j->template, j->template + strlen(j->template), NULL);
}

char *template_fill(const char *template, const fact_list *facts, gq_error *e) {
    size_t n = 0;
    if (facts->is_incomplete) return gq_fail_memory(e, facts->n * sizeof(fact)), NULL;
    return page_text(template_write_all, &(template_job){template, facts}, &n, e);
}
