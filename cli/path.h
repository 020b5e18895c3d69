/* What a path leads to. */
#ifndef CLI_PATH_H
#define CLI_PATH_H

#include <stdbool.h>

#include "quantize/gquant.h"

/* As it was typed, and from here on with '/' between folders, which on Windows may be '\\' as well; changed
 * where it is. */
char *path_typed(char *path);
/* Up to and with its last slash, and a dot: "folder/.". malloc'ed. */
char *path_folder(const char *path);
bool path_is_folder(const char *path);
/* The same file, or the same name for one that is still to be made; b may be NULL. */
bool path_same(const char *a, const char *b);

/* False where the model is a folder, as models have that are no GGUF: the message says what to do. */
bool path_check_model(const char *path, gq_error *e);

#endif
