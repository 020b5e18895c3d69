/* The report of a run or a plan: tables for people, JSON and CSV for programs. */
#ifndef CLI_REPORT_H
#define CLI_REPORT_H

#include <stdio.h>

#include "cli/json.h"
#include "cli/request.h"

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
    const char *kind;                        /* "plan", "run", "comparison" or "evaluation" */
    const char *input, *imatrix;             /* imatrix: NULL where there is none */
    const char *effort;                      /* NULL: it plays no part */
    const char *measure_file;                /* of targets; NULL: none */
    const gq_evaluation *evaluation;         /* NULL: none */
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

/* ---- several copies (report_copies.c) ---- */
/* Find the best of several copies for each tensor. */
void report_rank_copies(report *r);
/* Prints them side by side, for people; they have been ranked. */
void report_copies(FILE *to, const report *r);

/* ---- what is calibrated (report_calibration.c) ---- */
/* Prints the memory and the disk space that running a model takes. */
void report_room(FILE *to, uint64_t memory, uint64_t disk, bool states_in_file);
/* Prints what a calibration will take, for people. */
void report_calibration_plan(FILE *to, const gq_calibration_facts *f);
/* Prints what a calibration has brought; nothing where nothing was calibrated. */
void report_calibration(FILE *to, const report_output *o);
typedef struct report_roundings { /* of an output's tensors together */
    uint64_t tensors, matrices, plain, unchecked, codes, ends;
    double searched, written; /* root mean square of the tensors' gq_rounding_*; NaN: unknown */
} report_roundings;
report_roundings report_roundings_of(const report_output *o);
json_t *report_calibration_json(const gq_calibration_facts *f);
json_t *report_rounding_json(const report_output *o, const gq_rounding *r);
json_t *report_steps_json(const report_output *o);

/* ---- tensors of a folder (report_origin.c); an origin may be NULL ---- */
/* Returns the type in the input, without what is said of scales; malloc'ed. */
char *report_origin_type(uint32_t type, const gq_origin *o);
/* Returns the arrays and what is done to them, "" where there are none; malloc'ed. */
char *report_origin_text(const gq_origin *o);
json_t *report_origin_json(const gq_origin *o);       /* not NULL */
void report_origin_csv(FILE *to, const gq_origin *o); /* three columns, with a comma before each */

/* ---- models run on a text (report_evaluation.c) ---- */
report report_of_evaluation(const request *r, const gq_evaluation *v);
/* Returns a caution about the figures if few positions are scored, a static text; NULL: enough are. */
const char *report_few_places(const gq_evaluation_facts *facts);
/* Adds the evaluation of a run's outputs; NULL: they were not evaluated. */
void report_take_evaluation(report *r, const gq_evaluation *v);
/* Perplexities, divergences and who is better, for people. */
void report_evaluation(FILE *to, const report *r);
json_t *report_evaluation_json(const report *r);
void report_evaluation_csv(FILE *to, const report *r);

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

/* ---- a file (report_file.c) ---- */
/* To be called before the work: whether the extension of --report is known, its folder can be written to, and
 * the file is none that the command reads. */
bool report_check(const request *r, gq_error *e);
/* To be called before the work: whether this option's file can be written, and is none that the command reads
 * or makes. */
bool report_check_file(const request *r, const char *option, const char *path, gq_error *e);
bool report_write(const report *r, const char *path, gq_error *e);
void report_json(FILE *to, const report *r);
void report_csv(FILE *to, const report *r);
void report_html(FILE *to, const report *r);
void report_markdown(FILE *to, const report *r); /* report_page.c */
void report_svg(FILE *to, const report *r);

#endif
