/* Reports as pages. */
#ifndef GQ_CLI_REPORT_REPORT_PAGE_H
#define GQ_CLI_REPORT_REPORT_PAGE_H

#include "cli/report/report.h"

void report_html(FILE *to, const report *r);
void report_markdown(FILE *to, const report *r);
void report_svg(FILE *to, const report *r);

#endif
