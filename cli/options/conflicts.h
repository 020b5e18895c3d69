#pragma once

#include "cli/options/request.h"

/* Whether the options that were given go together. What excludes each other in the library is its own table;
 * here it gets the options' names. */
bool request_check_conflicts(const request *r, gq_error *e);
