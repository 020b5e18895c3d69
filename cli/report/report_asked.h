/* The parts of an evaluation's report about depths, and about what copies were asked besides the text: prompts
 * to continue, questions to choose answers of, a draft's tokens to accept. */
#pragma once

#include "cli/report/report.h"

/* Tables for people, of n models, the original first; nothing where there is nothing to show. */
void report_print_depths(FILE *to, const report *r, const gq_evaluated *models, size_t n);
void report_print_continued(FILE *to, const report *r, const gq_evaluated *models, size_t n);
void report_print_chosen(FILE *to, const report *r, const gq_evaluated *models, size_t n);
void report_print_drafted(FILE *to, const report *r, const gq_evaluated *models, size_t n);
/* Members of a model's JSON object. */
void report_set_depths(json_t *o, const gq_evaluation *v, size_t model);
void report_set_asked(json_t *o, const gq_evaluation *v, size_t model);
