/* The report of a run or a plan: tables for people, JSON and CSV for programs. */
#pragma once

#include <stdio.h>

#include "cli/json.h"
#include "cli/options/options.h"
#include "quantize/gquant_inspect.h"

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
    const size_t *numbers; /* of several quants: which of the base model's each tensor is; else NULL */
    bool *best;            /* and whether no quant is nearer to it; belongs to the report */
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

/* ---- figures of an evaluation as text, malloc'ed, and as JSON (figure_text.c) ---- */

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

/* ---- report_asked.c ---- */

/* The parts of an evaluation's report about depths, and about what quants were asked besides the text:
 * prompts to continue, questions to choose answers of, a draft's tokens to accept. */

/* Tables for people, of n models, the base model first; nothing where there is nothing to show. */
void report_print_depths(FILE *to, const report *r, const gq_evaluated *models, size_t n);
void report_print_continued(FILE *to, const report *r, const gq_evaluated *models, size_t n);
void report_print_chosen(FILE *to, const report *r, const gq_evaluated *models, size_t n);
void report_print_drafted(FILE *to, const report *r, const gq_evaluated *models, size_t n);
/* Members of a model's JSON object. */
void report_set_depths(json_t *o, const gq_evaluation *v, size_t model);
void report_set_asked(json_t *o, const gq_evaluation *v, size_t model);

/* ---- what a calibration takes and what it has brought (report_calibration.c) ---- */

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

/* ---- the part of a report about models that were run on a text (report_evaluation.c) ---- */

report report_of_evaluation(const request *r, const gq_evaluation *v);
/* Returns a caution about the figures if few positions are scored, a static text; NULL: enough are. */
const char *report_few_places(const gq_evaluation_facts *facts);
/* Adds the evaluation of a run's outputs; NULL: they were not evaluated. */
void report_take_evaluation(report *r, const gq_evaluation *v);
/* Perplexities, KL divergences and who is better, for people. */
void report_evaluation(FILE *to, const report *r);
/* What is known of the text and its windows; and of a plan what the evaluation will take. */
json_t *report_evaluation_facts(const gq_evaluation_facts *f, bool only_planned);
json_t *report_evaluation_json(const report *r);
void report_evaluation_csv(FILE *to, const report *r);

/* ---- a report as a file, by its extension (report_file.c) ---- */

/* To be called before the work: whether the extension of --report is known. */
bool report_check(const request *r, gq_error *e);
bool report_write(const report *r, const char *path, gq_error *e);
/* Write what `write` prints to a file, in place of one that is there. */
bool render_file(const char *path, void (*write)(FILE *to, const void *what), const void *what, gq_error *e);

/* ---- tensors that come from a folder's arrays; an origin may be NULL (report_origin.c) ---- */

/* Returns the type in the input, without what is said of scales; malloc'ed. */
char *report_origin_type(uint32_t type, const gq_origin *o);
/* Returns the arrays and what is done to them, "" where there are none; malloc'ed. */
char *report_origin_text(const gq_origin *o);
json_t *report_origin_json(const gq_origin *o);       /* not NULL */
void report_origin_csv(FILE *to, const gq_origin *o); /* three columns, with a comma before each */

/* ---- the checksums in a JSON report (checksums.c) ---- */

typedef struct checksum_list {
    gq_checksum *items; /* n of them; they and their names belong to the list */
    size_t n;
} checksum_list;

/* Reads the checksums of the output with the file name of `model` from the JSON report at the path `report`;
 * without by_name, those of the only output, whatever its name. Free the list in every case. */
bool checksums_read(checksum_list *list, const char *report, const char *model, bool by_name, gq_error *e);
/* The same from a text of n bytes; `report` is its name in messages. */
bool checksums_parse(checksum_list *list, const char *text, size_t n, const char *report, const char *model,
                     bool by_name, gq_error *e);
void checksums_free(checksum_list *list);
