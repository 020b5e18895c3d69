/* Recipes: files of items PATTERN=TYPE, read and written, and those that have a name. */
#pragma once

#include "mixes/mixes.h"

/* The items of a recipe file, ready for mix_patterns_new. White space separates them, and so does a comma
 * behind a type; where an item would start, '#' makes the rest of the line a comment. Fails on the first item
 * that is not PATTERN=TYPE, with its line and column and with `name`, the file's; NULL: the text is no file.
 */
typedef struct mix_recipe {
    size_t n;
    char **items;
} mix_recipe;
bool mix_recipe_read(mix_recipe *r, const char *name, const char *text, size_t n, gq_error *e);
void mix_recipe_free(mix_recipe *r);
/* The text of a recipe that gives each tensor its type (types[i], whose blocks fit its rows) where the file
 * type quantizes; those that always keep theirs are not in it. The comment, one line, comes first. malloc'ed;
 * NULL: no memory. */
char *mix_recipe_write(const mix_tensor *tensors, const uint32_t *types, size_t n, const char *comment,
                       gq_error *e);

/* A recipe with a name: a file type, and items that go before its rules. */
typedef struct mix_named_recipe {
    const char *name, *filetype;
    const char *items; /* as a recipe file has them */
    const char *summary;
} mix_named_recipe;
extern const mix_named_recipe mix_named_recipes[];
extern const size_t mix_n_named_recipes;
const mix_named_recipe *mix_recipe_named(const char *name); /* in any case; NULL: there is none */
