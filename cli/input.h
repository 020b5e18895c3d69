/* Texts that the command is given. */
#ifndef CLI_INPUT_H
#define CLI_INPUT_H

#include "quantize/gquant.h"

/* Reads a whole file, or standard input for "-". *n: bytes, at most what the library takes as a text.
 * malloc'ed; NULL: *e says why. */
char *input_read(const char *path, size_t *n, gq_error *e);

#endif
