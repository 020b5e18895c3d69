/* Gives several files their names, which no file system does in one step.
 *
 * When every file is whole and on disk, a record beside the first output says so; then the names are given. A
 * run that is killed in the middle, or fails, is finished by the same command, which finds the record.
 * Loaders find the shards of a split output by its first one. So the first shard of an older set loses its
 * name before the others, and the new first shard gets its name last: a first shard never leads to shards of
 * two sets.
 */
#pragma once

#include "quantize/run/output.h"

/* The facts that identify a file, whatever its name. */
typedef struct finalize_file {
    uint64_t inode, size;
    int64_t seconds, nanoseconds; /* time of change */
} finalize_file;

typedef struct finalize {
    const output_set *set;
    char *path;
    int fd;               /* -1: not open */
    finalize_file *files; /* in the order of the set's */
    bool whole;           /* all files are whole, and only names are left to give */
} finalize;

/* The files that an earlier run of the same plan has left. */
typedef struct finalize_left {
    bool whole;  /* all files are whole, and some may only lack their names */
    bool *named; /* which have theirs, in the order of an output_set; malloc'ed, NULL: none */
} finalize_left;
/* Looks for a record when the plan is made; changes nothing. left->named is the caller's to free. Fails where
 * an input or an output has the record's name. */
bool finalize_probe(const gq_plan *plan, const gq_options *options, finalize_left *left, gq_error *e);

/* Opens and locks the record of an earlier run, if there is one (r->whole then). A record that is damaged, of
 * another plan, or of files that are gone is removed. Fails when another process has it locked, or it cannot
 * be read. *r is to be closed in any case. */
bool finalize_open(finalize *r, const output_set *set, gq_error *e);
void finalize_close(finalize *r);
/* Records that all files are whole and on disk. */
bool finalize_record(finalize *r, gq_error *e);
/* Gives all files the names that they do not have yet. */
bool finalize_rename_all(const finalize *r, gq_error *e);
/* Removes a record beside an output that is whole, unless a process is at work with it. */
void finalize_clean(const char *output);
/* Removes the record for good, when all files have their names. false: it may still be there, so that
 * journals have to stay. */
bool finalize_remove(const finalize *r);
