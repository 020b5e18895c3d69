/* Cells of CSV files. */
#ifndef CLI_CSV_H
#define CLI_CSV_H

#include <stdio.h>

/* A text; what a spreadsheet would take for a formula gets a mark in front. */
void csv_quoted(FILE *to, const char *value);

#endif
