/* Pages about files of a model: their table and chart as text, and what they are made of. */
#ifndef PUBLISH_PAGE_H
#define PUBLISH_PAGE_H

#include <stdio.h>

#include "quantize/gquant_publish.h"

/* A page whose rows are sorted, largest file first. */
typedef struct page_sorted {
    gq_page page;
    gq_page_row *rows; /* page.n of them; malloc'ed */
} page_sorted;

#endif
