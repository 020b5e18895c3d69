/* Words: how a vocabulary by rank on bytes cuts a text before it merges, by its `tokenizer.ggml.pre`. */
#pragma once

#include "arch/pretokenizers.h"
#include "base/error.h"

typedef struct splitter splitter;
splitter *splitter_new(const split_rule *rule, gq_error *e);
void splitter_free(splitter *s);

/* Called for each word, in order; false stops. */
typedef bool split_word(void *user, const char *word, size_t length, gq_error *e);
/* Cut n bytes of `subject`, well-formed UTF-8, and hand out the same places of `text`. done NULL: that is the
 * whole of it. Else it is a beginning, of which only the words are handed out that stay words whatever comes
 * behind; *done: their bytes. The rest, with what comes behind, is cut by itself into the other words. */
bool splitter_run(const splitter *s, const char *subject, const char *text, size_t n, size_t *done,
                  split_word *word, void *user, gq_error *e);
