/* The front matter and the title of a model's README.md. */
#pragma once

#include "hf/folder/folder.h"

/* Reads it into an object whose values are strings, or arrays of strings: *front, which the caller releases
 * with json_decref. There may be no file and no front matter: then the object is empty. What is not
 * understood is skipped. "#", which can be no key, has the first heading behind the front matter. */
bool hf_readme_front(hf_folder *f, json_t **front, gq_error *e);
