/* The tokens of a template: text between tags, and what is in tags. Blanks beside tags are gone as transformers has it
 * (trim_blocks, lstrip_blocks), and comments are left out. */
#pragma once

#include "base/error.h"
#include "publish/jinja/value.h"

typedef enum jinja_token_kind {
    TOKEN_END,
    TOKEN_OUTSIDE,   /* text between tags */
    TOKEN_PRINT,     /* {{ */
    TOKEN_STATEMENT, /* {% */
    TOKEN_CLOSE,     /* }} or %} */
    TOKEN_NAME,      /* words, keywords among them */
    TOKEN_STRING,    /* without quotes, its escapes replaced */
    TOKEN_NUMBER,
    TOKEN_OPERATOR
} jinja_token_kind;

typedef struct jinja_token {
    jinja_token_kind kind;
    jinja_text text;
} jinja_token;

/* Returns all tokens, the last one TOKEN_END; they point into the template and `m`. NULL: it is not understood. */
const jinja_token *jinja_lex(const char *template, size_t n, jinja_memory *m, gq_error *e);
