/* The chart of a page's files. */
#pragma once

#include <stdio.h>

#include "quantize/gquant_publish.h"

char *page_chart(const gq_page *p, gq_error *e); /* malloc'ed */
/* Whether page_chart has made a text. */
bool page_is_chart(const char *text);
