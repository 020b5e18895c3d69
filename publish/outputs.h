/* The outputs of a publication: their names, and which there are. */
#pragma once

#include "publish/publish.h"

bool publication_check_template(const gq_publish_request *r, gq_error *e);
/* Finds the model's name in file names: p->stem. */
bool publication_name_model(gq_publication *p, gq_error *e);
/* Lists all that was asked for: p->outputs and p->labels. */
bool publication_list(gq_publication *p, const gq_options *asked, gq_error *e);
/* Returns the first output of the plan that is the same file as this one, which may be itself. */
size_t publication_first_same(const gq_publication *p, size_t output);
/* Warns of outputs that are the same file as an earlier one. */
bool publication_warn_same(gq_publication *p, gq_error *e);
