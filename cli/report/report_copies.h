/* Several copies of a model side by side. */
#pragma once

#include "cli/report/report.h"

/* Find the best of several copies for each tensor. */
void report_rank_copies(report *r);
/* Prints them side by side, for people; they have been ranked. */
void report_copies(FILE *to, const report *r);
