/* Structs of the public header that begin with their size: the caller may be built with an older or a newer
 * version of them. */
#pragma once

#include <stddef.h>

#include "base/error.h"

/* Fills *to, `own` bytes in this library, with what the caller gave. Members that an older caller does not
 * have become 0, as do all where `from` is NULL. Fails with GQ_USAGE when the size makes no sense, or when a
 * newer caller sets a member that this library does not know. name: of the struct, for the message. */
bool sized_take(void *to, size_t own, const void *from, const char *name, gq_error *e);
/* Fill what the caller's *to has room for, as its size says, from the library's own. */
void sized_give(void *to, const void *from, size_t own);

#define SIZED_TAKE(to, from, e) sized_take(&(to), sizeof(to), from, #from, e)
