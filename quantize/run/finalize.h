/* Giving several files their names, which no file system does in one step.
 *
 * When every file is whole and on disk, a record beside the first output says so; then the names are given. A
 * run that is killed in the middle, or fails, is finished by the same command, which finds the record. Of a
 * split output the first shard, by which loaders find the others, is the first to lose its name and the last
 * to get one: shards of two sets never lie behind a first one.
 */
#ifndef GQ_FINALIZE_H
#define GQ_FINALIZE_H

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
/* When the plan is made. Fails when an input or an output has the record's name. */
bool finalize_probe(const gq_plan *plan, const gq_options *options, finalize_left *left, gq_error *e);

/* Take up the record of an earlier run and lock it. One that is damaged, of another plan or of files that are
 * gone is removed. Fails when another process is at work with it, or it cannot be read. */
bool finalize_open(finalize *r, const output_set *set, gq_error *e);
void finalize_close(finalize *r);
/* All files are whole and on disk: record that. */
bool finalize_record(finalize *r, gq_error *e);
/* Give all files the names that they do not have yet. */
bool finalize_rename_all(const finalize *r, gq_error *e);
/* All have their names: remove the record for good. false: it is still there, so that journals have to stay.
 */
bool finalize_remove(const finalize *r);

#endif
