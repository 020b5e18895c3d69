/* The models of an evaluation: opened, and checked to be copies of one original. */
#ifndef GQ_EVALUATE_COMPARED_H
#define GQ_EVALUATE_COMPARED_H

#include "model/facts.h"
#include "quantize/plan/plan.h"
#include "quantize/study/evaluate/evaluation.h"

model_facts compared_facts(const model_source *m);
/* Returns the model that all others must be copies of. */
const runner *compared_reference(const gq_evaluation *v);
/* Opens the original and its copies, or the base files that stand for them, and checks them. */
bool compared_open_all(gq_evaluation *v, const gq_evaluation_request *r, gq_error *e);
/* Takes a plan's input as the original, which stays open when it is returned. */
bool compared_lend_reference(gq_evaluation *v, const gq_plan *plan, gq_error *e);
void compared_return_reference(gq_evaluation *v);
/* Opens copy i, which does not exist yet, by the headers that it will have. */
bool compared_open_planned(gq_evaluation *v, size_t i, const plan_output *out, gq_error *e);
/* Fails where the copy is none; warns where its metadata differ. */
bool compared_check(gq_evaluation *v, const runner *copy, gq_error *e);

#endif
