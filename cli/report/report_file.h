/* A report as a file, by its extension. */
#pragma once

#include "cli/report/report.h"

/* To be called before the work: whether the extension of --report is known. */
bool report_check(const request *r, gq_error *e);
bool report_write(const report *r, const char *path, gq_error *e);
