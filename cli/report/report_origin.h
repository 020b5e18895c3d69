/* Tensors that come from a folder's arrays; an origin may be NULL. */
#pragma once

#include "cli/report/report.h"

/* Returns the type in the input, without what is said of scales; malloc'ed. */
char *report_origin_type(uint32_t type, const gq_origin *o);
/* Returns the arrays and what is done to them, "" where there are none; malloc'ed. */
char *report_origin_text(const gq_origin *o);
json_t *report_origin_json(const gq_origin *o);       /* not NULL */
void report_origin_csv(FILE *to, const gq_origin *o); /* three columns, with a comma before each */
