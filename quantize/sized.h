/* Structs of the public header that begin with their size: from callers who were built with an older or a
 * newer one. */
#ifndef GQ_SIZED_H
#define GQ_SIZED_H

#include <stddef.h>

#include "base/error.h"

/* Fill *to, whose size the library knows as `own`, with what the caller gave; what an older caller does not
 * have is 0, as are all members where from is NULL. Fails when the size is none, or when a newer caller asks
 * for what this library does not know. name: the struct's, for the message. */
bool sized_take(void *to, size_t own, const void *from, const char *name, gq_error *e);
/* Fill what the caller's *to has room for, as its size says, from the library's own. */
void sized_give(void *to, const void *from, size_t own);

#define SIZED_TAKE(to, from, e) sized_take(&(to), sizeof(to), from, #from, e)

#endif
