/* Files that the command writes, through the library, which gives them their names when they are whole. */
#ifndef CLI_RENDER_H
#define CLI_RENDER_H

#include <stdio.h>

#include "base/error.h"

/* Write what `write` prints to a file, in place of one that is there. */
bool render_file(const char *path, void (*write)(FILE *to, const void *what), const void *what, gq_error *e);

#endif
