/* The report of a run or a plan: tables for people, JSON and CSV for programs. */
#pragma once

#include <stdio.h>

#include "base/json.h"
#include "cli/json.h"
#include "cli/options/options.h"
#include "quantize/gquant_publish.h"

/* The tables for people, of a report that the library has gathered. */
typedef struct report {
    gq_report *of;
    const char *kind; /* "plan", "run", "comparison" or "evaluation" */
    const request *request;
    const gq_report_output *outputs; /* n_outputs of them */
    size_t n_outputs;
    const gq_evaluation *evaluation; /* NULL: none */
    gq_evaluation *const *kinds;     /* of the same models on more texts, request->kinds; n_kinds of them */
    size_t n_kinds;
    const gq_calibration_facts *calibration; /* NULL: none */
    double seconds;                          /* of all, the plan's among them */
    double plan_seconds;                     /* 0: not known */
    const char **warnings;                   /* n_warnings of them; the list belongs to the report */
    size_t n_warnings;
    char **options; /* n_options of them, as the report has them */
    size_t n_options;
    char *advice; /* how long a text an evaluation needs; NULL: its own is long enough */
} report;

/* Make the report of a plan or its run (results and evaluation may be NULL; rate: weights per second, 0: not
 * known), of a comparison, and of an evaluation. What they are of must outlive the report. */
report report_of_plan(const request *r, const gq_plan *plan, const gq_results *results,
                      const gq_evaluation *evaluation, double rate);
report report_of_comparison(const request *r, const gq_comparison *c);
report report_of_evaluation(const request *r, const gq_evaluation *v, gq_evaluation *const *kinds);
void report_free(report *r);

/* ---- for people (report.c) ---- */
/* Final sizes, fallbacks and what they cost, how many tensors get each type; with --verbose each tensor. */
void report_plan(FILE *to, const report *r, const gq_report_output *o);
/* Losses per tensor, totals, the worst tensors. */
void report_losses(FILE *to, const report *r, const gq_report_output *o);
/* Returns a path or name from a file with control characters made visible, shortened so that `beside` columns
 * stay free beside it; whole where `to` is no terminal. malloc'ed. */
char *report_path(FILE *to, const char *path, size_t beside);
/* Prints a line for each of several outputs. */
void report_overview(FILE *to, const report *r);
/* Prints the line of a finished tensor for --verbose. */
void report_line(FILE *to, const gq_summary *s, const gq_tensor *t, const gq_loss *loss);

/* ---- as text, and as a file by its extension (report.c) ---- */

/* Prints the JSON. */
void report_print_json(const report *r);
/* To be called before the work: whether the extension of --report is known. */
bool report_check(const request *r, gq_error *e);
bool report_write(const report *r, const char *path, gq_error *e); /* path NULL: nothing */
/* Print a JSON text that the library has made, which is freed. NULL: ends the program, as memory has run out. */
void print_json_text(char *text);

/* ---- figures of an evaluation as text, malloc'ed (figure_text.c) ---- */

/* Prints a value with as many decimals as its error allows: two digits of the error. */
char *estimate_text(gq_estimate x);
char *perplexity_text(gq_estimate x); /* as llama-perplexity does */
char *kld_text(double x);
char *share_text(gq_estimate x);
/* "0.0123 (0.0119 to 0.0127)"; factor 100 for percent. */
char *interval_text(const gq_interval *i, double factor);
/* NaN where there is none. */
gq_interval interval_of(const gq_evaluation *v, gq_statistic of, size_t a, size_t b);

/* ---- report_asked.c ---- */

/* The parts of an evaluation's report about depths, and about what quants were asked besides the text:
 * prompts to continue, questions to choose answers of, a draft's tokens to accept. */

/* Tables for people, of n models, the base model first; nothing where there is nothing to show. */
void report_print_depths(FILE *to, const report *r, const gq_evaluated *models, size_t n);
void report_print_continued(FILE *to, const report *r, const gq_evaluated *models, size_t n);
void report_print_chosen(FILE *to, const report *r, const gq_evaluated *models, size_t n);
void report_print_drafted(FILE *to, const report *r, const gq_evaluated *models, size_t n);
/* ---- what a calibration takes and what it has brought (report_calibration.c) ---- */

/* Prints the memory and the disk space that running a model takes. */
void report_room(FILE *to, uint64_t memory, uint64_t disk, bool hidden_states_in_file);
/* Prints the time, the memory and the disk space that a run takes. of: the words in front of these. */
/* Says of a file that a dry run would not make anew, or would replace. */
void report_existing(FILE *to, const request *r, const char *path);
void report_needs(FILE *to, const gq_needs *needs, const char *of);
/* Prints what a calibration will take, for people. */
void report_calibration_plan(FILE *to, const gq_calibration_facts *f);
/* Prints what a calibration has brought; nothing where nothing was calibrated. */
void report_calibration(FILE *to, const gq_report_output *o);
/* ---- the part of a report about models that were run on a text (report_evaluation.c) ---- */

/* Returns a caution about the figures if few positions are scored, a static text; NULL: enough are. */
const char *report_few_places(const gq_evaluation_facts *facts);
/* Returns which difference or KL divergence a longer text would make certain, and how long that text is; malloc'ed,
 * NULL: the text is long enough. */
char *evaluation_advice(const report *r);
/* Perplexities, KL divergences and who is better, for people. */
void report_evaluation(FILE *to, const report *r);

/* ---- tensors that come from a folder's arrays; an origin may be NULL (report_origin.c) ---- */

/* Returns the type in the input, without what is said of scales; malloc'ed. */
char *report_origin_type(uint32_t type, const gq_origin *o);
/* Returns the arrays and what is done to them, "" where there are none; malloc'ed. */
char *report_origin_text(const gq_origin *o);

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
