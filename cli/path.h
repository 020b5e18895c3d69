/* The kind of file that a path leads to. */
#pragma once

#include <stdbool.h>

#include "base/error.h"

/* Replaces '\\' between folders, which Windows allows, by '/', in place. */
char *path_typed(char *path);
/* Up to and with its last slash, and a dot: "folder/.". malloc'ed. */
char *path_folder(const char *path);
bool path_is_folder(const char *path);
/* The same file, or the same name for one that is still to be made; b may be NULL. */
bool path_same(const char *a, const char *b);

/* Returns the path as reports name it: `full`, or without its folders; points into it. */
const char *path_reported(const char *path, bool full);

/* A shell makes several arguments of "model-*.gguf". Those that follow each other and are shards of one model
 * become the first of them, which stands for all. */
void path_join_shards(const char **arguments, size_t *n);

/* Makes the folder, and those above it that are missing. *made: bytes of the path up to and with the first
 * folder that was made; 0: all were there. */
bool path_make_folder(const char *folder, size_t *made, gq_error *e);
/* Removes those folders again, from the last one up, as far as they are empty. made 0: does nothing. */
void path_remove_folder(const char *folder, size_t made);
