/* A page made of a template and facts. A template is text with tags:
 *
 *     {{name}}   the fact's text, with Markdown's or HTML's markup escaped
 *     {{'name}}  within code: on one line and without backticks
 *     {{$name}}  as a word of a shell
 *     {{"name}}  in JSON's quotes, which YAML reads, all in ASCII
 *     {{&name}}  as it is
 *     {{#name}} ... {{/name}}  once for each fact of that name
 *     {{^name}} ... {{/name}}  if there is none
 *
 * A line that is nothing but the tag of a section leaves no line. A section holds none of its own name. */
#pragma once

#include <stdio.h>

#include "base/error.h"

typedef struct fact {
    const char *name;
    char *text; /* not empty; malloc'ed */
} fact;

/* Facts in the order in which they were added. Zero is an empty list. */
typedef struct fact_list {
    fact *items;
    size_t n, capacity;
    bool is_incomplete; /* there was no memory for one of them */
    bool html;          /* facts are escaped for HTML */
} fact_list;

/* Adds a fact, which has to outlive nothing; an empty text is none. `name` is a constant. */
void fact_add(fact_list *l, const char *name, const char *format, ...) __attribute__((format(printf, 3, 4)));
void fact_add_text(fact_list *l, const char *name, const char *text, size_t n);
/* A fact that is true or none. */
void fact_set(fact_list *l, const char *name, bool is);
/* Returns the first fact's text; "": there is none. */
const char *fact_text(const fact_list *l, const char *name);
void fact_free(fact_list *l);
/* Returns the template's text, malloc'ed; NULL: no memory. */
char *template_fill(const char *template, const fact_list *facts, gq_error *e);

extern const char card_front[], card_page[], card_notes[], card_chart[]; /* the files of card/ */
