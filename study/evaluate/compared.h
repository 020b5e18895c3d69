/* An evaluation: what is known of its models, which are opened here and checked to be quants of one base model, and from what
 * its figures are made. */
#pragma once

#include "gguf/facts.h"
#include "quantize/plan/plan.h"
#include "study/evaluate/drafted.h"

struct gq_evaluation {
    size_t n;
    size_t
        first; /* the first runner that is a model: 0, or 1 where a base file takes the base model's place */
    runner *runners;   /* the base model, 0, and its quants */
    base_file *bases;  /* per runner, where it is a file of log-probabilities; else zeros */
    bool none_runs;    /* all are such files */
    char *scores_path; /* where scores are kept; NULL: nowhere */
    bool is_named;     /* by the caller */
    char **paths;
    gq_evaluated *models;
    text_windows windows;
    forward_bounds bounds;
    scores scores;
    gq_continued *continued; /* of each model; NULL: not asked for */
    gq_chosen *chosen;       /* likewise */
    drafter drafter;         /* zeros: no draft was named */
    gq_drafted *drafted;     /* of each model; NULL: there is none */
    double
        draft_share; /* the time of drafts as a multiple of that of running all models, as it is expected */
    double draft_seconds; /* that time; 0: unknown */
    warning_list warnings;
    char architecture[128];
    double seconds, seconds_expected;
    gq_evaluation_facts facts;
};

model_facts compared_facts(const model_source *m);
/* Returns the model that all others must be quants of. */
const runner *compared_reference(const gq_evaluation *v);
/* Opens the base model and its quants, or the base files that stand for them, and checks them. */
bool compared_open_all(gq_evaluation *v, const gq_evaluation_request *r, gq_error *e);
/* Takes a plan's input as the base model, which stays open when it is returned. */
bool compared_lend_reference(gq_evaluation *v, const gq_plan *plan, gq_error *e);
void compared_return_reference(gq_evaluation *v);
/* Opens quant i, which does not exist yet, by the headers that it will have. */
bool compared_open_planned(gq_evaluation *v, size_t i, const plan_output *out, gq_error *e);
/* Fails where the quant is none; warns where its metadata differ. */
bool compared_check(gq_evaluation *v, const runner *quant, gq_error *e);
