/* For tests of the command: synthetic models, runs with checked exit status, reports. */
#pragma once

#include "tests/support/json.h"
#include "tests/support/model.h"
#include "tests/support/support.h"

/* A folder with model-F16.gguf (about four million weights, llama-shaped) and imatrix.dat. */
char *model_folder(void);
/* Make another model there with make-model's options. */
void make_model(const char *const *options);

/* Run gquant with these words; fail the test, showing its messages, when the exit status is another. Returns
 * standard error (malloc'ed). */
char *gquant(int status, const char *const *words);
#define GQUANT(status, ...) free(gquant(status, (const char *const[]){__VA_ARGS__, NULL}))
/* The same where standard error must mention a text. */
#define GQUANT_SAYS(status, mention, ...) \
    gquant_says(status, mention, (const char *const[]){__VA_ARGS__, NULL})
void gquant_says(int status, const char *mention, const char *const *words);

/* Run gquant with these words, which must succeed and leave standard error empty. Returns standard output
 * (malloc'ed). */
char *printed(const char *const *words);
#define PRINTED(...) printed((const char *const[]){NULL, __VA_ARGS__, NULL})
/* Run gquant with these words, which must end with this exit status. Returns standard output (malloc'ed). */
char *output(int status, const char *const *words);
#define OUTPUT(status, ...) output(status, (const char *const[]){__VA_ARGS__, NULL})
/* The text must mention another. */
void says(const char *text, const char *expected);

/* Fit for a terminal: UTF-8 without control characters other than line feeds. */
void assert_plain(const char *text);

/* Run gquant with these words in a folder: fail the test when it dies, uses more than 64 MiB of memory or ten
 * seconds of a processor. The files it reads are below 1 MiB. */
void bounded(const char *in, const char *const *words);
/* The same for a run that must succeed, with so many times the memory: once per output, or for larger files.
 */
void bounded_times(unsigned times, const char *in, const char *const *words);

/* The plan for these words, as the report of a dry run in `folder`. */
json *plan_report(const char *folder, const char *const *words);
#define PLAN(folder, ...) plan_report(folder, (const char *const[]){__VA_ARGS__, NULL})
/* Tensor by name in the first output of a report, NULL: not there. */
const json *report_tensor(const json *report, const char *name);
/* Its member "to". */
const char *report_type(const json *report, const char *name);
