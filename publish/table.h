/* The table of a page's files. */
#pragma once

#include "quantize/gquant_publish.h"

/* Takes the caller's page with its rows sorted, largest file first. The caller frees to->rows, which are malloc'ed. */
bool page_sort(gq_page *to, const gq_page *from, gq_error *e);
/* Returns the row of the file to take (recommend); *why: a noun phrase. NULL: there is no row. */
const gq_page_row *page_recommended(const gq_page *p, const char **why);
/* Returns the table in Markdown or HTML, with notes on its columns, malloc'ed. */
char *page_table(const gq_page *p, bool html, gq_error *e);
