/* A report as a file, by its extension. */
#ifndef GQ_CLI_REPORT_REPORT_FILE_H
#define GQ_CLI_REPORT_REPORT_FILE_H

#include "cli/report/report.h"

/* To be called before the work: whether the extension of --report is known. */
bool report_check(const request *r, gq_error *e);
bool report_write(const report *r, const char *path, gq_error *e);

#endif
