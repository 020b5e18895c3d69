/* --tensor-type and --tensor-type-file: items for gq_options.tensor_types. */
#pragma once

#include "cli/options/request.h"

/* Append the PATTERN=TYPE items of a text of n bytes, or of a file. The items belong to the request. `name`
 * is for messages; NULL: the text is no file. */
bool recipe_add(request *r, gq_list *list, const char *name, const char *text, size_t n, gq_error *e);
bool recipe_add_file(request *r, gq_list *list, const char *path, gq_error *e);
