#include "cli/next.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/report/table.h"
#include "cli/text.h"

static bool next_is_wanted(const request *r) {
    return !r->quiet && !r->json && !r->progress && isatty(STDOUT_FILENO) && isatty(STDERR_FILENO);
}

/* Not wrapped: a line that is broken cannot be pasted. Neither can one with control characters, which a name may have. */
static void next_print(char *line) {
    char *shown = text_shown(line);
    if (!strcmp(shown, line)) fprintf(stderr, "next: %s\n", line);
    free(shown), free(line);
}

void next_say(const request *r, ...) {
    va_list words;
    char *line = text_format("gquant");
    va_start(words, r);
    for (const char *word; (word = va_arg(words, const char *));) line = text_add_word(line, word);
    va_end(words);
    if (next_is_wanted(r))
        next_print(line);
    else
        free(line);
}

void next_say_evaluate(const request *r, const char *original, const char *copy) {
    static const char held_out[] = "held-out.txt";
    if (!next_is_wanted(r)) return;
    bool is_there = access(held_out, R_OK) == 0;
    char *line = text_format("%sgquant evaluate", is_there ? "" : "gquant text --held-out held-out.txt && ");
    line = text_add_word(text_add_word(line, original), copy);
    next_print(text_add_word(text_add_word(line, "--text"), held_out));
}
