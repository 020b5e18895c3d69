/* Columns that line up, whatever is in them. */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include <stdio.h>

typedef struct table {
    const char *align; /* a letter per column, l or r */
    size_t columns, n, room;
    char **cells;
} table;

/* Cells are added row by row, head first; the table takes over their texts. */
void table_start(table *t, const char *align);
void table_cell(table *t, char *text);
void table_text(table *t, const char *text); /* a copy */
void table_row(table *t, const char *const *texts);
/* A copy with control characters made visible, for names from a file. */
void table_name(table *t, const char *name);
void table_print(const table *t, FILE *to);
void table_free(table *t);

/* A malloc'ed copy of a text from a file, fit for a terminal. */
char *shown(const char *text);

#endif
