#include "cli/input.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MOST = 1 << 30 };

/* All of standard input. */
static char *read_standard_input(size_t most, size_t *n, gq_error *e) {
    char *text = NULL;
    *n = 0;
    for (size_t room = 0, got = 1; got > 0; *n += got) {
        if (room - *n < BUFSIZ) {
            char *grown = realloc(text, room = 2 * room + 2 * BUFSIZ);
            if (!grown) {
                gq_fail_memory(e, room);
                break;
            }
            text = grown;
        }
        got = fread(text + *n, 1, room - *n, stdin);
        if (got > 0 && *n + got <= most) continue;
        if (got == 0 && !ferror(stdin)) return text;
        gq_fail(
            e,
            got ? "standard input: a text of more than %zu bytes, which has to be in memory; a file has not"
                : "standard input cannot be read",
            most);
        break;
    }
    free(text);
    return NULL;
}

bool input_text(const char *path, uint64_t memory, gq_text *to, gq_error *e) {
    to->name = path;
    if (strcmp(path, "-") != 0) return true;
    size_t most = memory && memory < TEXT_MOST ? (size_t)memory : TEXT_MOST;
    return (to->bytes = read_standard_input(most, &to->n, e)) != NULL;
}

void input_free(gq_text *text) {
    free((void *)text->bytes);
    text->bytes = NULL;
}
