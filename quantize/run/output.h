/* The files of all outputs while they are made: temporary ones beside their targets, locked, with their space
 * reserved; renamed when they are whole. */
#pragma once

#include "quantize/run/results.h"

typedef struct output_file {
    int fd; /* -1: not open */
    const plan_shard *shard;
    bool fresh;   /* made by this call (output_create, output_open_shared) */
    bool renamed; /* has its final name */
} output_file;

typedef struct output_set {
    const gq_plan *plan;
    size_t n;
    output_file *files; /* output by output, shard by shard */
    size_t *first;      /* of each output */
} output_set;

/* Lists the files of a plan; none is opened. The caller calls output_free, also after a failure. */
bool output_new(output_set *set, const gq_plan *plan, gq_error *e);
void output_free(output_set *set); /* closes, removes nothing */
/* Whether this process may make files of their sizes. */
bool output_all_may_grow(const output_set *set, gq_error *e);

/* Open what an earlier run left, and lock it for this process alone. *all: every file was there with its full
 * size. Fails when another process is at work on one. */
bool output_open_old(output_set *set, bool *all, gq_error *e);
/* Begins anew: removes what output_open_old found, makes the files and locks them. */
bool output_create(output_set *set, gq_error *e);
/* For one of several processes: open or make the files, with a lock that the others share. */
bool output_open_shared(output_set *set, gq_error *e);
/* Whether no other process has the files open that output_open_shared opened; if so, none will from now on.
 */
bool output_alone(const output_set *set);
/* Sets the disk space for all files aside. */
bool output_reserve(output_set *set, gq_error *e);

/* Write or read n bytes of a shard's file. offset: from the beginning of that file. Safe from several
 * threads. */
bool output_write(const output_set *set, size_t output, uint32_t shard, uint64_t offset, const void *bytes,
                  size_t n, gq_error *e);
bool output_read(const output_set *set, size_t output, uint32_t shard, uint64_t offset, void *to, size_t n,
                 gq_error *e);
/* Make all that was written safe from a power cut. */
bool output_sync(const output_set *set, gq_error *e);
/* Write the headers and sync: all files are whole then. The results have the digests that belong into them.
 */
bool output_complete(const output_set *set, const gq_results *results, gq_error *e);
/* Give a single file its name, which needs no record (quantize/run/finalize.h). */
bool output_give_name(output_set *set, gq_error *e);
/* Whether the temporary files are all still where they were opened. */
bool output_still_there(const output_set *set);
/* Remove the temporary files that this run made; with `old` those of an earlier run too. */
void output_remove(output_set *set, bool old);
