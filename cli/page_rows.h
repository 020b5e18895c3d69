/* What a page about published files shows of each: the rows of its table, and its chart. Reports ending in
 * .md and .svg have them, too. */
#ifndef CLI_PAGE_ROWS_H
#define CLI_PAGE_ROWS_H

#include <stdio.h>

#include "cli/report.h"

typedef struct page_row {
    const char *path;              /* of the file, or of its first shard */
    const char *type;              /* "Q4_K_M"; a target's label */
    uint64_t file_bytes;           /* of all shards */
    double bits;                   /* per weight; 0: not known */
    const gq_evaluated *evaluated; /* NULL: it was not */
    double relative_error;         /* of weights; NaN: not measured */
} page_row;

typedef struct page_rows {
    size_t n;
    page_row *rows; /* largest first */
    const gq_evaluated *original;
    const gq_evaluation_facts *evaluation; /* NULL: nothing was evaluated */
} page_rows;

/* The rows of a run's or an evaluation's report. Free ->rows. */
page_rows page_rows_of(const report *r);
/* evaluated: the models of an evaluation whose copies are the rows, in the same order; NULL: none. Sorts
 * them.
 */
void page_rows_take(page_rows *p, const gq_evaluation *v);
/* Writes the table in Markdown. memory: bytes that a row's file takes besides itself to run; 0: no column. */
void page_write_table(FILE *to, const page_rows *p, uint64_t memory);
/* Writes a chart of divergence, or else of the error of weights, against size, as SVG for light and dark. */
void page_write_chart(FILE *to, const page_rows *p);
/* Prints a text from a file within Markdown: on one line, without markup. */
void page_write_text(FILE *to, const char *text);

void report_markdown(FILE *to, const report *r);
void report_svg(FILE *to, const report *r);

#endif
