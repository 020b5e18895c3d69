/* The table of a page's files, and texts within a page. */
#pragma once

#include <stdio.h>

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

/* Writes a text from a file within Markdown, on one line and without markup, or within HTML. */
void page_write_text(FILE *to, const char *text, size_t n, bool html);
/* Writes the name of a file beside the page as a link has it. */
void page_write_link(FILE *to, const char *name);
/* Formats bytes with three digits: "105 MB", "4.92 GB". */
const char *page_size(char to[24], uint64_t bytes);
/* The path's last part; points into it. */
const char *page_file_name(const char *path);

/* Returns what `write` prints, of *n bytes, malloc'ed. */
char *page_text(void (*write)(FILE *to, const void *what), const void *what, size_t *n, gq_error *e);
