/* Reports as pages. */
#pragma once

#include "cli/report/report.h"

void report_html(FILE *to, const report *r);
void report_markdown(FILE *to, const report *r);
void report_svg(FILE *to, const report *r);
