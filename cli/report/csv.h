/* Cells of CSV files. */
#ifndef CLI_CSV_H
#define CLI_CSV_H

#include <stdio.h>

/* Writes a text in quotes. One that a spreadsheet would take for a formula gets an apostrophe in front. */
void csv_quoted(FILE *to, const char *value);

#endif
