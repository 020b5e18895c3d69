/* The report of a run or a plan: tables for people, JSON and CSV for programs. */
#pragma once

#include <stdio.h>

#include "cli/json.h"
#include "cli/options/request.h"

/* One output of a run, or the second model of a comparison. */
typedef struct report_output {
    uint64_t reused, reused_bytes; /* tensors copied from earlier outputs, or, of a plan, that may be */
    const gq_summary *summary;
    const gq_tensor *tensors;
    size_t n;
    const gq_loss *losses;        /* NULL: only planned, nothing measured */
    const gq_rounding *roundings; /* NULL: nothing was calibrated, or it is only planned */
    const gq_step *steps;         /* n_steps of its calibration; NULL likewise */
    size_t n_steps;
    const size_t *numbers; /* of several copies: which of the original's each tensor is; else NULL */
    bool *best;            /* and whether no copy is nearer to it; belongs to the report */
    size_t n_best;
} report_output;

typedef struct report {
    const char *kind;                /* "plan", "run", "comparison" or "evaluation" */
    const char *input, *imatrix;     /* imatrix: NULL where there is none */
    const char *effort;              /* NULL: it plays no part */
    const char *measure_file;        /* of targets; NULL: none */
    const gq_evaluation *evaluation; /* NULL: none */
    gq_evaluation *const *kinds;     /* of the same models on more texts, request->kinds; n_kinds of them */
    size_t n_kinds;
    const gq_calibration_facts *calibration; /* NULL: none */
    const request *request;                  /* for the options in it, and whether paths are wanted */
    double seconds;                          /* of all, the plan's among them */
    double plan_seconds;                     /* 0: not known */
    double rate; /* of a run: weights per second, resumed ones apart; 0: not known */
    size_t n_outputs, n_warnings;
    report_output *outputs; /* belong to the report */
    const char **warnings;  /* so does the list */
    char *advice;           /* how long a text an evaluation needs; NULL: its own is long enough */
} report;

/* Makes the report of a plan or its run; results are NULL while it is only planned. Plan and results must
 * outlive the report.
 */
report report_of_plan(const request *r, const gq_plan *plan, const gq_results *results);
report report_of_comparison(const request *r, const gq_comparison *c);
void report_free(report *r);
void report_add_warnings(report *r, const char *const *warnings, size_t n);

/* ---- for people (report.c) ---- */
/* Final sizes, fallbacks and what they cost, how many tensors get each type; with --verbose each tensor. */
void report_plan(FILE *to, const report *r, const report_output *o);
/* Losses per tensor, totals, the worst tensors. */
void report_losses(FILE *to, const report *r, const report_output *o);
/* Returns a path or name from a file with control characters made visible, shortened so that `beside` columns
 * stay free beside it; whole where `to` is no terminal. malloc'ed. */
char *report_path(FILE *to, const char *path, size_t beside);
/* Prints a line for each of several outputs. */
void report_overview(FILE *to, const report *r);
/* Prints the line of a finished tensor for --verbose. */
void report_line(FILE *to, const gq_summary *s, const gq_tensor *t, const gq_loss *loss);

/* Weights per second, of a comparison those of the output; 0: not known. */
double report_rate(const report *r, const report_output *o);

/* The facts that all formats give of a whole output. */
enum { WORST = 5 };
typedef struct report_totals {
    gq_loss loss;        /* sums over the measured tensors */
    double squares;      /* sum of report_squares over them */
    size_t worst[WORST]; /* tensors with the largest error, worst first */
    size_t n_worst;
} report_totals;
report_totals report_total(const report_output *o);
/* The error a tensor is ranked by: under importance where there is data, plain elsewhere. */
double report_error(const gq_loss *loss);
/* The loss's part of the whole error: its sum of squares, weighted by importance where there is data. */
double report_squares(const gq_loss *loss);
double report_bits(uint64_t bytes, double weights); /* per weight */
/* The path's last part, or all of it with --full-paths; points into `path`. */
const char *report_named(const report *r, const char *path);

/* ---- formats ---- */
void report_json(FILE *to, const report *r);
void report_csv(FILE *to, const report *r);
