/* Renders a conversation with a model's chat template: the statements of Jinja, as transformers runs them. Templates
 * are written by strangers: work and memory are bounded. What is not known here, fractions for one, is refused. */
#pragma once

#include "base/error.h"

typedef struct chat_message {
    const char *role, *content;
} chat_message;

/* Returns the text of a conversation with what makes the assistant begin, malloc'ed; NULL: *e says why. `bos`, `eos`:
 * texts of the tokens that begin and end a text, "" where there are none. */
char *jinja_render(const char *template, size_t n, const chat_message *messages, size_t n_messages,
                   const char *bos, const char *eos, gq_error *e);
