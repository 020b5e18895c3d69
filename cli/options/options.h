/* Words of a command line -> a request, by the tables of option_table.h. */
#pragma once

#include "cli/options/option_table.h"

/* Fill *r, which request_free releases in every case. False: bad usage (or an unreadable recipe file). */
bool request_parse(request *r, int argc, char **argv, gq_error *e);

/* Makes the member of an option that stores a flag, a number or a text what it is without the option. */
void option_clear(request *r, const option_row *o);
