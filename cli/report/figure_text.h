/* Figures of an evaluation as text, malloc'ed, and as JSON. */
#pragma once

#include "cli/report/report.h"

/* As many decimals as the error allows: two digits of the error. */
char *estimate_text(gq_estimate x);
char *perplexity_text(gq_estimate x); /* as llama-perplexity does */
char *divergence_text(double x);
char *share_text(gq_estimate x);
/* "0.0123 (0.0119 to 0.0127)"; factor 100 for percent. */
char *interval_text(const gq_interval *i, double factor);
/* NaN where there is none. */
gq_interval interval_of(const gq_evaluation *v, gq_statistic of, size_t a, size_t b);
json_t *json_of_interval(const gq_interval *i);
void set_interval(json_t *object, const char *name, const gq_interval *i);
