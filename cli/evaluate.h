/* Running models on a text, for the command `evaluate` and behind a run. */
#pragma once

#include "cli/options/request.h"

/* Turns the options into a request, without its models. Reads the text; evaluation_free releases it in every
 * case. */
bool evaluation_ask(const request *r, gq_evaluation_request *to, gq_error *e);
void evaluation_free(gq_evaluation_request *asked);
/* Runs the models of the request, with progress and warnings. The caller frees the result; NULL: *e says why.
 */
gq_evaluation *evaluation_run(const request *r, gq_evaluation_request *asked, gq_error *e);
