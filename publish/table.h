/* The table of a page's files. */
#pragma once

#include "quantize/gquant_publish.h"

/* A page whose rows are sorted, largest file first. */
typedef struct page_sorted {
    gq_page page;
    gq_page_row *rows; /* page.n of them; malloc'ed */
} page_sorted;

/* Takes the caller's page. Free ->rows, also after a failure. */
bool page_sort(page_sorted *to, const gq_page *from, gq_error *e);
/* Returns the row of the file to take where nothing else decides; *why: a noun phrase. NULL: there is no row. */
const gq_page_row *page_recommended(const gq_page *p, const char **why);
/* Returns the table in Markdown or HTML, with notes on its columns, malloc'ed. */
char *page_table(const gq_page *p, bool html, gq_error *e);
