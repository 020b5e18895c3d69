/* Columns that line up, whatever is in them, and that fit a terminal. */
#pragma once

#include <stdio.h>

typedef struct table {
    const char *columns;           /* as below; borrowed */
    size_t n_columns, n, capacity; /* n: cells there are; capacity: that there is memory for */
    char **cells;                  /* malloc'ed texts, row by row */
} table;

/* `columns`, as "ll3rr1": how each is aligned. On a terminal that is too narrow those with a digit are left
 * out, the largest digit first; then the names in the first column are shortened in their middle; then each
 * row is stacked: its name on a line, its other cells on lines below. What is too long in a last column of
 * texts goes to a line of its own. Cells are added row by row; the table takes over their texts. headings: of
 * all columns; NULL: they are added as a row. */
void table_start(table *t, const char *columns, const char *const *headings);
void table_cell(table *t, char *text);
void table_text(table *t, const char *text); /* a copy */
void table_error(table *t, double error);    /* "0.01234"; NaN: "-" */
void table_row(table *t, const char *const *texts);
/* A copy of a name from a file, with control characters made visible. */
void table_name(table *t, const char *name);
void table_print(const table *t, FILE *to);
/* Columns of the terminal that a stream writes to; 0: it is none. */
int terminal_columns(FILE *to);
void table_free(table *t);
/* Prints it, also below an empty line, and frees it. */
void table_end(table *t, FILE *to);
void table_end_below(table *t, FILE *to);

/* Writes a name in at most `width` columns: the middle gives way, since layers stand in front and roles
 * behind. Never more than `size` bytes with the NUL; returns the length. */
size_t name_fit(char *to, size_t size, const char *name, size_t width);
/* Prints a line; on a terminal as several that fit, broken at spaces. A word that is longer than the screen
 * stays whole. */
void print_wrapped(FILE *to, const char *text);
/* The same of a line that is formatted first. Names in it may be a file's: control characters are made
 * visible. */
__attribute__((format(printf, 2, 3))) void print_line(FILE *to, const char *format, ...);
/* Prints a text of lines as it is. On a screen that is narrower, longer lines are broken between words, and
 * what stands in a second column gets lines of its own. */
void print_fitted(FILE *to, const char *text);
/* The same where `used` columns of the line are taken already. */
void print_wrapped_behind(FILE *to, size_t used, const char *text);

/* A malloc'ed copy of a text from a file, fit for a terminal. */
char *text_shown(const char *text);
