/* Expressions of a template, evaluated while they are parsed: what is not to be evaluated (the other side of
 * "or", a branch not taken) is parsed with `dead` above 0. */
#pragma once

#include "publish/jinja/state.h"

jinja_value jinja_expression(jinja *j);
jinja_value jinja_either(jinja *j); /* without "A if B else C", as "for" has it */
