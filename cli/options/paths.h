/* What a line of the command reads and what it writes: no file that is read is written over, whichever of the
 * line's options and arguments name it. */
#pragma once

#include "cli/options/option_table.h"

/* Compares each path that the line writes with all that it reads and with the others that it writes. To be
 * called before the work; it also looks whether files of options can be written. */
bool paths_check(const request *r, gq_error *e);
/* The same for one more file that the option of that name writes. */
bool paths_check_written(const request *r, const char *option, const char *path, gq_error *e);
/* Returns the path that an option with its argument names; NULL: it names none. */
const char *path_of_given(const struct given *g);

/* Returns the path in the argument of an option that reads a text for metadata from a file; NULL: it reads
 * none. */
const char *override_file(const option_row *o, const char *argument);
