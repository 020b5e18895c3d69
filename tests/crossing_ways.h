/* Ways to do the work of a case that any job knows, and what other ways are made of. */
#ifndef GQ_TEST_CROSSING_WAYS_H
#define GQ_TEST_CROSSING_WAYS_H

#include "tests/crossing_case.h"

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

/* Of those that make the same bytes. */
const char *any_level(void);
unsigned any_threads(void);
/* The model is another one from now on. */
void change_input(void);
/* Something happens, as tests/faults.c calls it, at one of the reference's calls that change files or read
 * them. */
setting at_any_call(const char *what);
/* At a moment, or at a call, of a run like the reference's. */
setting any_kill(void);
setting late_kill(void); /* not at the beginning, where there is something to go on from */
setting any_stop(void);  /* for start_in */
/* A run that may have been stopped anywhere, and now has to end well. */
void finish_in(const char *where, setting s);
/* The same where outputs are there, which it replaces. */
void replace_in(const char *where, setting s);
/* Leave a run unfinished; with faults, one that only lacks its names. false: it has finished. */
bool leave_unfinished(const char *where, arguments a);
/* What another run has left under the same names is not taken for one's own. */
void not_mixed(const char *where, bool may_refuse);

#endif
