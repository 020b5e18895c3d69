/* Ways to do the work of a case that any job knows, and what other ways are made of. */
#pragma once

#include "tests/crossings/crossing_case.h"

const crossing_way *crossing_plain_ways(size_t *n);

/* ---- when ---- */

bool always(void);
bool may_fault(void);
bool is_list(void); /* each output can be made by itself */

/* ---- ways ---- */

void by_other_threads(void);
void with_kills(void);
void with_faults(void);
void one_by_one(void);
void after_other_options(void);
void after_another_input(void);
void over_files(void);

/* ---- parts of ways ---- */

/* Draw an ISA level and a number of threads that make the same bytes as the reference. */
const char *any_level(void);
unsigned any_threads(void);
/* Changes the model in in/, which is another one from now on. */
void change_input(void);
/* Draws one of the reference's system calls on files, at which `what` happens, as tests/faults/faults.c calls it. */
setting at_any_call(const char *what);
/* Draw a moment, or a system call, of a run like the reference's. */
setting any_kill(void);
setting late_kill(void); /* not at the beginning, where there is something to go on from */
setting any_stop(void);  /* for start_in */
/* Runs the job in a folder where earlier runs may have been stopped anywhere; it has to end well. */
void finish_in(const char *where, setting s);
/* The same with --force, where outputs are there. */
void replace_in(const char *where, setting s);
/* Leaves a run unfinished; with faults, one whose files only lack their names. False: it has finished. */
bool leave_unfinished(const char *where, arguments a);
/* Checks that the job does not go on from what another run has left. may_refuse: it may end with an error. */
void not_mixed(const char *where, bool may_refuse);
