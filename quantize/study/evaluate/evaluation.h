/* An evaluation: what is known of its models, and from what its figures are made. */
#ifndef GQ_EVALUATE_EVALUATION_H
#define GQ_EVALUATE_EVALUATION_H

#include "quantize/study/evaluate/drafted.h"

struct gq_evaluation {
    size_t n;
    size_t first; /* the first runner that is a model: 0, or 1 where a base file takes the original's place */
    runner *runners;   /* the original, 0, and its copies */
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

/* Returns one of n models with nothing in it, for gq_evaluation_free; NULL: out of memory. */
gq_evaluation *evaluation_alloc(size_t n, gq_error *e);

#endif
