#include "cli/input.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MOST = 1 << 30 }; /* bytes that the library takes at once */

/* All of standard input. */
static char *read_standard_input(size_t *n, gq_error *e) {
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
        if (got > 0 && *n + got <= TEXT_MOST) continue;
        if (got == 0 && !ferror(stdin)) return text;
        gq_fail(e, got ? "standard input: a text of more than %d bytes" : "standard input cannot be read",
                TEXT_MOST);
        break;
    }
    free(text);
    return NULL;
}

char *input_read(const char *path, size_t *n, gq_error *e) {
    return strcmp(path, "-") == 0 ? read_standard_input(n, e) : gq_read_whole(path, TEXT_MOST, n, e);
}
