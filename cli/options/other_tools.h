/* Command lines of llama.cpp's tools for importance data and perplexity, as lines of gquant:
 *
 *     gquant imatrix -m MODEL -f TEXT -o OUT ...        gquant-imatrix, by a link of that name
 *     gquant perplexity -m MODEL -f TEXT ...            gquant-perplexity
 *
 * gquant-quantize needs no translation: the main job takes the words of llama-quantize.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

enum { OTHER_TOOL_LINES = 2 };
typedef struct tool_lines {
    size_t n; /* lines to run, one after another while they succeed */
    struct tool_line {
        int argc;
        char **argv; /* NULL-terminated */
    } lines[OTHER_TOOL_LINES];
    char *temporary; /* a file that only the later lines need; NULL: none */
} tool_lines;

/* Whether a line is one of another tool's. True: `to` has gquant's lines, of which there are none where the
 * request was for help, which has been printed, or where it cannot be fulfilled: *e says why. A note about
 * options that mean nothing here has been printed. Free with tool_lines_free. */
bool other_tool_lines(tool_lines *to, int argc, char **argv, gq_error *e);
void tool_lines_free(tool_lines *l);
