/* Errors and warnings, on standard error. */
#pragma once

#include "base/error.h"

/* Print "gquant: error: ..." and return the exit status that fits. */
int say_failure(const gq_error *e);
/* The failure that was said last; of status GQ_OK: none was. */
const gq_error *say_last_failure(void);
void say_warning(const char *text);
void warn_all(const char *const *texts, size_t n); /* the first dozen at most, and how many more there are */
