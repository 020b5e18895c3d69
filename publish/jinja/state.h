/* The state of a template's evaluation: its tokens, names, output and failure. A failure moves the position to the
 * template's end, where nothing more is found. */
#pragma once

#include "publish/jinja/lex.h"

typedef struct jinja_frame {
    jinja_value names; /* a dict */
    struct jinja_frame *outer;
} jinja_frame;

enum { JINJA_ARGUMENTS = 8 }; /* the most of a call */
/* Arguments of a call; a name of length 0: by position. */
typedef struct jinja_arguments {
    size_t n;
    jinja_text names[JINJA_ARGUMENTS];
    jinja_value values[JINJA_ARGUMENTS];
} jinja_arguments;

typedef struct jinja {
    jinja_memory memory;
    const jinja_token *tokens;
    size_t at, end; /* tokens: the next one, the last one */
    size_t work;
    int dead, depth;
    jinja_frame *frame, *global;
    jinja_text out;
    jinja_value (*call)(struct jinja *j, jinja_value macro, const jinja_arguments *a);
    bool failed;
    gq_error *e;
} jinja;

/* Ends the rendering with a message, unless it has ended or what stands here is not evaluated. Returns undefined. */
__attribute__((format(printf, 2, 3))) jinja_value jinja_fail(jinja *j, const char *format, ...);
/* The same for a fault of the template itself, which counts where it is not evaluated, too. */
void jinja_fail_syntax(jinja *j, const char *expected);
bool jinja_at(const jinja *j, const char *word); /* a name or an operator */
bool jinja_accept(jinja *j, const char *word);   /* and pass it */
void jinja_expect(jinja *j, const char *word);
jinja_text jinja_expect_name(jinja *j);
void jinja_close(jinja *j); /* expects the end of a tag */
/* Begins a piece of work; false: there have been too many, or it has failed. */
bool jinja_spend(jinja *j);
/* Returns the argument at a position, or by a name; undefined: it is not given. */
jinja_value jinja_argument(const jinja_arguments *a, size_t at, const char *name);
