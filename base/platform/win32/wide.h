/* Between the UTF-8 of the sources and what Windows' functions take. */
#pragma once

#include <stdbool.h>
#include <wchar.h>

enum { WIDE_CAPACITY = 4096 + 8 };
/* The sharing mode of every file: others may rename and remove it meanwhile, as under POSIX. */
#define WIDE_SHARED (FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE)
/* A path as Windows' functions take it, "/dev/null" as well; false and errno. */
bool wide_path(const char *path, wchar_t to[WIDE_CAPACITY]);
/* errno for the error that Windows' last function left; -1. */
int wide_fail(void);
/* A file for a moment, which goes when it is closed (tmpfile() there puts it where few may write); NULL and
 * errno. */
FILE *wide_file(void);
