/* The filters, tests, methods and functions of templates that are known. */
#pragma once

#include "publish/jinja/state.h"

typedef enum jinja_function { JINJA_RAISE, JINJA_STRFTIME, JINJA_RANGE, JINJA_NAMESPACE } jinja_function;

jinja_value jinja_filter(jinja *j, jinja_text name, jinja_value v, const jinja_arguments *a);
jinja_value jinja_method(jinja *j, jinja_text name, jinja_value v, const jinja_arguments *a);
bool jinja_test(jinja *j, jinja_text name, jinja_value v, jinja_value than);
