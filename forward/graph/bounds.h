/* Bounds of metadata that hold for every architecture, whether its row reads the key or not: no model has a
 * negative epsilon, a rotation of base 0 or a negative factor. Rows have narrower bounds of their own. */
#pragma once

#include "gguf/facts.h"

/* Checks the types of all values, and those that have bounds, in lists, too. file: its path, for messages. */
bool bounds_check(const model_facts *facts, const char *file, warning_list *doubts, gq_error *e);
