/* Files that the command writes, through the library, which gives them their names when they are whole; and cells of
 * CSV in them. */
#pragma once

#include <stdio.h>

#include "base/error.h"

/* Write what `write` prints to a file, in place of one that is there. */
bool render_file(const char *path, void (*write)(FILE *to, const void *what), const void *what, gq_error *e);

/* Writes a cell of CSV in quotes. One that a spreadsheet would take for a formula gets an apostrophe in front. */
void csv_quoted(FILE *to, const char *value);
