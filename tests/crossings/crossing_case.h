/* The case at hand: what is drawn, how the command is run for it, and what all runs must have in common. */
#pragma once

#include "tests/crossings/crossing.h"
#include "tests/crossings/crossing_run.h"

typedef struct crossing_case {
    unsigned long seed;
    char *folder;
    crossing_model model;
    crossing_options options;
    outcome reference;
    bool planned;                          /* a dry run succeeded */
    bool open;                             /* the case has begun and not ended */
    unsigned step;                         /* how many ways were tried */
    const char *way;                       /* that is tried */
    bool way_left;                         /* there was too little memory for it */
    unsigned runs, kills, damaged, errors; /* of all cases */
    unsigned left;                         /* ways for which there was too little memory */
} crossing_case;
extern crossing_case at;

/* A way to do the work of the case, which must end as the reference did. */
typedef struct crossing_way {
    const char *name;
    void (*try)(void);
    bool (*applies)(void); /* to the case at hand */
} crossing_way;

/* What a program that draws cases brings. */
typedef struct crossing_test {
    void (*draw)(const char *in);    /* a model and options, into at.model, at.options and the folder */
    void (*look_at_reference)(void); /* at what the reference made */
    void (*end)(void);               /* of a case, before its folder is removed; may be NULL */
    const crossing_way *ways;
    size_t n_ways;
    unsigned ways_with_reference; /* that are tried; where the job fails one less, but at least one */
    unsigned long cases;          /* by default */
} crossing_test;
/* As main(): as many cases as $GQUANT_TEST_CROSSINGS says, from $GQUANT_TEST_SEED on, all in the way
 * $GQUANT_TEST_WAY where that is given. */
int crossing_run_cases(const crossing_test *test);

bool has_reference(void);
/* Where --memory is given and not enough: what a run takes depends on its threads and on what its process has
 * taken already. Such a run ends the way that is tried. */
bool is_short_of_memory(const outcome *o);
void fail_case(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* Runs and frees the arguments. */
outcome run(const char *where, setting s, arguments a);
/* What is common to all runs of one set of options: no words of the outputs. */
arguments words_of(const crossing_options *o, unsigned threads);
arguments all_words(const crossing_options *o, unsigned threads);
/* The same with words to write a report to FOLDER/NAME.json, where the command has one. */
arguments reported(arguments a, const char *name);

/* Compare a run in a folder with the reference and fail the case where they differ: all files; only files
 * that are not hidden, as an unfinished run may have left those; files, status and message; the reports. */
void same_folder(const char *where);
void same_outputs(const char *where);
void same_outcome(const char *where, const outcome *o);
void same_report(const char *where);
/* Fails the case if a run has left a hidden file beside inputs and reports. */
void no_leftovers(void);
