/* The case at hand: what is drawn, how the command is run for it, and what all runs must have in common. */
#ifndef GQ_TEST_CROSSING_CASE_H
#define GQ_TEST_CROSSING_CASE_H

#include "tests/crossing.h"
#include "tests/crossing_run.h"

typedef struct crossing_case {
    unsigned long seed;
    char *folder;
    crossing_model model;
    crossing_options options;
    outcome reference;
    bool planned;  /* a dry run succeeded */
    bool open;     /* the case has begun and not ended */
    unsigned step; /* how many ways were tried */
    unsigned runs; /* of all cases */
} crossing_case;
extern crossing_case at;

bool has_reference(void);
void fail_case(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* Runs and frees the arguments. */
outcome run(const char *where, setting s, arguments a);
/* What is common to all runs of one set of options: no words of the outputs. */
arguments words_of(const crossing_options *o, unsigned threads);
arguments all_words(const crossing_options *o, unsigned threads);
/* ... that also write FOLDER/NAME.json. */
arguments reported(arguments a, const char *name);

/* Of runs in a folder and the reference: all files, without what an unfinished run left beside them, and with
 * what was said. */
void same_folder(const char *where);
void same_outputs(const char *where);
void same_outcome(const char *where, const outcome *o);
void same_report(const char *where);

/* Do the work of the case in one more way, drawn at random, which must end as the reference did; false: the
 * one drawn is not for this case. step() comes before it, for what it draws. */
bool crossing_try_way(void (*step)(void));

#endif
