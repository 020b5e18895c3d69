/* The part of a report about models that were run on a text. */
#pragma once

#include "cli/report/report.h"

report report_of_evaluation(const request *r, const gq_evaluation *v);
/* Returns a caution about the figures if few positions are scored, a static text; NULL: enough are. */
const char *report_few_places(const gq_evaluation_facts *facts);
/* Adds the evaluation of a run's outputs; NULL: they were not evaluated. */
void report_take_evaluation(report *r, const gq_evaluation *v);
/* Perplexities, divergences and who is better, for people. */
void report_evaluation(FILE *to, const report *r);
/* What is known of the text and its windows; and of a plan what the evaluation will take. */
json_t *report_evaluation_facts(const gq_evaluation_facts *f, bool only_planned);
json_t *report_evaluation_json(const report *r);
void report_evaluation_csv(FILE *to, const report *r);
