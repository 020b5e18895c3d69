/* The chart of a page's files. */
#pragma once

#include <stdio.h>

#include "quantize/gquant_publish.h"

/* The quantity plotted against the size: "KL divergence", or its substitute. */
const char *page_measure(const gq_page *p);
char *page_chart(const gq_page *p, gq_error *e); /* malloc'ed */
/* Whether page_chart has made a text. */
bool page_is_chart(const char *text);
