/* Words of a command line -> a request, by the tables of option_table.h. */
#ifndef GQ_CLI_OPTIONS_OPTIONS_H
#define GQ_CLI_OPTIONS_OPTIONS_H

#include "cli/options/option_table.h"

/* Fill *r, which request_free releases in every case. False: bad usage (or an unreadable recipe file). */
bool request_parse(request *r, int argc, char **argv, gq_error *e);

/* Returns the path in the argument of an option that reads a text for metadata from a file; NULL: it reads
 * none. */
const char *override_file(const option_row *o, const char *argument);

#endif
