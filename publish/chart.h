/* The chart of a page's files. */
#pragma once

#include <stdio.h>

#include "quantize/gquant_publish.h"

void page_write_chart(FILE *to, const gq_page *p);
/* Whether page_write_chart has written a text. */
bool page_is_chart(const char *text);
