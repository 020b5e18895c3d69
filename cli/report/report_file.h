/* A report as a file, by its extension. */
#ifndef GQ_CLI_REPORT_REPORT_FILE_H
#define GQ_CLI_REPORT_REPORT_FILE_H

#include "cli/report/report.h"

/* To be called before the work: whether the extension of --report is known, its folder can be written to, and
 * the file is none that the command reads. */
bool report_check(const request *r, gq_error *e);
/* To be called before the work: whether this option's file can be written, and is none that the command reads
 * or makes. */
bool report_check_file(const request *r, const char *option, const char *path, gq_error *e);
bool report_write(const report *r, const char *path, gq_error *e);

#endif
