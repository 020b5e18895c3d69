/* Failures of a kind, and adding to a failure what was being done; for this library's own files. What a
 * program needs of errors is in base/error.h. */
#pragma once

#include "base/error.h"

/* gq_fail with a status of its own. */
bool gq_fail_as(gq_error *e, gq_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Add to a failure what was being done, or where: the format's text takes the place of why's, which is one of
 * its arguments, and status and remedy stay what they were. why: may be e itself; NULL: nobody has asked. */
bool gq_fail_again(gq_error *e, const gq_error *why, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The text of an error that may be NULL, as an argument of gq_fail_again. */
static inline const char *gq_error_text(const gq_error *e) { return e ? e->text : ""; }

#ifdef __clang_analyzer__ /* as in base/error.h */
#define gq_fail_as(...) (gq_fail_as(__VA_ARGS__), false)
#define gq_fail_again(...) (gq_fail_again(__VA_ARGS__), false)
#endif
