/* Giving several files their names, which no file system does in one step.
 *
 * When every file is whole and on disk, a record beside the first output says so; then the names are given. A
 * run that is killed in the middle, or fails, is finished by the same command, which finds the record. Of a
 * split output the first shard, by which loaders find the others, is the first to lose its name and the last
 * to get one: shards of two sets never lie behind a first one.
 */
#ifndef GQ_NAMES_H
#define GQ_NAMES_H

#include "quantize/run/output.h"

/* The facts that identify a file, whatever its name. */
typedef struct name_file {
    uint64_t inode, size;
    int64_t seconds, nanoseconds; /* time of change */
} name_file;

typedef struct names {
    const output_set *set;
    char *path;
    int fd;           /* -1: not open */
    name_file *files; /* in the order of the set's */
    bool whole;       /* all files are whole, and only names are left to give */
} names;

/* The files that an earlier run of the same plan has left. */
typedef struct names_left {
    bool whole;  /* all files are whole, and some may only lack their names */
    bool *named; /* which have theirs, in the order of an output_set; malloc'ed, NULL: none */
} names_left;
/* When the plan is made. Fails when an input or an output has the record's name. */
bool names_look(const gq_plan *plan, const gq_options *options, names_left *left, gq_error *e);

/* Take up the record of an earlier run and lock it. One that is damaged, of another plan or of files that are
 * gone is removed. Fails when another process is at work with it, or it cannot be read. */
bool names_open(names *r, const output_set *set, gq_error *e);
void names_close(names *r);
/* All files are whole and on disk: record that. */
bool names_record(names *r, gq_error *e);
/* Give all files the names that they do not have yet. */
bool names_give(const names *r, gq_error *e);
/* All have their names: remove the record for good. false: it is still there, so that journals have to stay.
 */
bool names_remove(const names *r);

#endif
