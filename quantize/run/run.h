/* Carrying a plan out: the parts of the engine, from the journal to the names of finished files. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "quantize/plan/plan.h"
#include "quantize/strips/strips.h"

/* ---- results.c ---- */

/* The results of a run, for its caller. They are apart from the plan, which does not change. Error sums of
 * chunks are folded into them in chunk order, whatever order they come in, so that reports do not depend on
 * the number of threads. */

struct gq_results {
    size_t n_tensors;
    gq_loss *losses;        /* output by output */
    gq_rounding *roundings; /* the same; NULL: nothing is calibrated */
    gq_step *steps;         /* output by output, n_steps each; NULL: likewise */
    size_t n_steps;
    uint32_t *sources; /* per tensor: checksum of its weights, as the input delivers them */
    uint64_t *reused;  /* per output: tensors that were copied, and their bytes */
    warning_list warnings;
    gq_progress progress;
};

/* Makes the results of a run that has done nothing yet. */
gq_results *results_new(const gq_plan *plan, gq_error *e);
/* Return a tensor's, or a step's, place in the results of a calibrated run. */
gq_rounding *results_rounding(gq_results *r, size_t output, size_t tensor);
gq_step *results_step(gq_results *r, size_t output, size_t step);
/* Warns of matrices that are zero throughout, as far as this run has quantized them. */
bool results_warn_of_zeros(gq_results *r, const gq_plan *plan, gq_error *e);

/* ---- error sums of chunks, folded in their order ---- */

/* The error sums of one chunk for one output. Journals store it as it is. */
typedef struct chunk_sum {
    double x2, e2, wx2, we2;
    float max_e;
    uint32_t crc;      /* of the chunk's bytes in the output */
    uint32_t source;   /* the same of its weights, as the input delivers them; 0: it is transposed */
    uint32_t reserved; /* 0 */
} chunk_sum;

typedef struct error_sums {
    const gq_plan *plan;
    gq_results *results;           /* get the losses of tensors as they are complete */
    const gq_callbacks *callbacks; /* their tensor_done is called then; may be NULL */
    uint64_t begin, next;          /* the first chunk that is counted; the first that is not folded yet */
    size_t tensor;                 /* the first that is not complete yet */
    gq_loss *losses;               /* its own so far, one per output */
    uint32_t source;               /* the tensor's checksum so far, as the input delivers it */
    /* Chunks that came before an earlier one: chunk i waits in place i % capacity. Few, as chunks are handed
     * out in order. */
    size_t capacity;
    bool *waiting;
    chunk_sum *sums; /* capacity x outputs */
} error_sums;

bool error_sums_new(error_sums *t, const gq_plan *plan, gq_results *results, const gq_callbacks *callbacks,
                    uint64_t begin, gq_error *e);
void error_sums_free(error_sums *t);
/* Adds a chunk's sums, one per output; each chunk once, in any order. */
bool error_sums_add(error_sums *t, uint64_t chunk_number, const chunk_sum *sums, gq_error *e);

/* ---- output.c ---- */

/* The files of all outputs while they are made: temporary ones beside their targets, locked, with their space
 * reserved; renamed when they are whole. */

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
/* Whether no other process has the files open that output_open_shared opened; if so, none will from now on. */
bool output_alone(const output_set *set);
/* Sets the disk space for all files aside. */
bool output_reserve(output_set *set, gq_error *e);
/* Returns the bytes that are free in the folder of a path, or in the nearest above it that there is; UINT64_MAX: not
 * known. */
uint64_t output_room(const char *path);
/* Whether a run makes any file. *bytes: what its files take beyond what an interrupted run has left of them; files that
 * are there and will not be replaced take nothing. */
bool output_needs(const gq_plan *plan, uint64_t *bytes);

/* Write or read n bytes of a shard's file. offset: from the beginning of that file. Safe from several
 * threads. */
bool output_write(const output_set *set, size_t output, uint32_t shard, uint64_t offset, const void *bytes,
                  size_t n, gq_error *e);
bool output_read(const output_set *set, size_t output, uint32_t shard, uint64_t offset, void *to, size_t n,
                 gq_error *e);
/* Make all that was written safe from a power cut. */
bool output_sync(const output_set *set, gq_error *e);
/* Write the headers and sync: all files are whole then. The results have the digests that belong into them. */
bool output_complete(const output_set *set, const gq_results *results, gq_error *e);
/* Give a single file its name, which needs no record (finalize.c). */
bool output_give_name(output_set *set, gq_error *e);
/* Whether the temporary files are all still where they were opened. */
bool output_still_there(const output_set *set);
/* Remove the temporary files that this run made; with `old` those of an earlier run too. */
void output_remove(output_set *set, bool old);

/* ---- work.c ---- */

/* A worker's steps for a chunk: read, decode, and for each output encode, measure the error and write. */

/* The sizes of a thread's scratch for a plan. */
typedef struct work_scratches {
    size_t strip, tile; /* elements at most: of a strip, of a tile (0: nothing is transposed) */
    size_t in, bytes;   /* bytes: of the input's strip as stored, of the whole scratch */
    size_t n_outputs;
} work_scratches;

typedef struct work_scratch {
    uint8_t *in, *out;
    float *x, *decoded, *tile;
    chunk_sum *sums;     /* one per output: the result */
    codec_error *errors; /* one per output */
} work_scratch;

void work_scratches_measure(work_scratches *r, const gq_plan *plan);
/* Lays a thread's scratch out in `memory`: r->bytes, aligned to 64. */
work_scratch work_scratch_in(const work_scratches *r, void *memory);

/* The state that the chunks of a tensor share: opened before the first of them, closed after the last. Chunks
 * may be done by several threads at once meanwhile. */
typedef struct work_tensor {
    const gq_plan *plan;
    size_t number;
    const plan_source *source;
    size_t strip;  /* elements at most */
    bool digested; /* an output keeps a checksum of its weights */
    struct work_output {
        const gq_tensor *to;
        bool calibrated;                  /* its blocks are in the output already */
        const struct reuse_offer *reused; /* its blocks are in an earlier output; NULL: they are made */
        size_t encoder; /* the first output that gives the tensor this type, and encodes for all that do */
        strip_encoder with; /* all but importance, which changes from strip to strip */
    } outputs[];
} work_tensor;

/* reused: whether each output's tensor is copied from an earlier one, output by output; NULL: none is. */
work_tensor *work_tensor_open(const gq_plan *plan, size_t number, const bool *reused, gq_error *e);
void work_tensor_close(work_tensor *t);

/* Does chunk i, which is one of the tensor's. The results are in scratch->sums, one per output. */
bool work_chunk(const work_tensor *t, const output_set *outputs, uint64_t i, const work_scratch *scratch,
                gq_error *e);
/* Whether the outputs hold chunk i as scratch->sums says, by reading it back. */
bool work_verify(const gq_plan *plan, const output_set *outputs, uint64_t i, const work_scratch *scratch);

/* Reads the chunk's weights and, for each output, the blocks that are offered to it: offers, one list of
 * tensors per output, NULL: none. The first strip is encoded, too, and without digests all are.
 * scratch->sums, one per output, get two checksums, `source` of the weights and `crc` of the blocks.
 * scratch->errors[o].n is WORK_UNLIKE where encoding gives other blocks. */
#define WORK_UNLIKE UINT64_MAX
bool work_check_offers(const work_tensor *t, const struct reuse_offer *const *offers, uint64_t i,
                       const work_scratch *scratch, gq_error *e);

/* Returns the seconds, about, that a thread takes for each weight of a tensor, in all outputs: the reported share of a
 * run is counted by them, as types are encoded at speeds that differ by ten times and more, and
 * a copy costs next to nothing. reused: per output and tensor, or NULL. */
double run_cost_per_weight(const gq_plan *plan, size_t tensor, const bool *reused);

/* ---- journal.c ---- */

/* Records which chunks are done and safe on disk, so that an interrupted run can continue.
 *
 * A journal is a file beside the first output: a header that says which plan it belongs to, then one slot per
 * chunk, in chunk order. A slot that is not written reads as zeros. Each has a CRC of its own, so a torn one
 * counts as not done. The caller syncs the chunk's bytes before its slot is written. */

/* The header of a file beside an output: which plan it belongs to, in the machine's own byte order, as a
 * journal never outlives its run for long. */
typedef struct journal_header {
    char magic[8];
    char build[24];
    plan_identity identity;
    uint32_t part, parts, outputs, slot;
    uint32_t crc; /* of all before it */
} journal_header;

journal_header journal_header_of(const gq_plan *plan, uint32_t part, uint32_t parts);
/* Returns why a journal with the header `found` cannot be continued; NULL: it can. */
const char *journal_mismatch(const journal_header *found, const journal_header *wanted);

typedef struct journal {
    int fd; /* -1: not open */
    char *path;
    uint32_t part, parts;   /* 0, 0: of the whole */
    uint64_t begin, end;    /* chunks that it has slots for */
    size_t n_outputs, slot; /* bytes of a slot */
    bool resumed;           /* the journal holds slots of an earlier run */
    bool unread;            /* reading it failed: it may be an earlier run's, whose files must stay */
} journal;

/* Sets *begin and *end to the chunks of part `part` (1..parts), end excluded; parts 0: all chunks. */
void journal_range(const gq_plan *plan, uint32_t part, uint32_t parts, uint64_t *begin, uint64_t *end);

/* Open the plan's own journal and lock it. With keep, one that is there and belongs to the same plan is
 * continued; otherwise an empty one is made. Fails where it cannot be read, and leaves it as it is. */
bool journal_open(journal *j, const gq_plan *plan, bool keep, gq_error *e);
/* Opens and locks the finished journal of one part, to read it. */
bool journal_open_part(journal *j, const gq_plan *plan, uint32_t part, uint32_t parts, gq_error *e);
void journal_close(journal *j);
void journal_remove(const journal *j);

/* Reads the slot of a chunk into `sums`, one per output; false: the chunk is not done. Safe from several
 * threads. */
bool journal_find(const journal *j, uint64_t chunk_number, chunk_sum *sums);

/* *parts: the number of parts that other journals beside the output cut the work into; 0: there are no
 * others. Fails when one of them is of another plan, or they disagree in that number. */
bool journal_count_parts(const gq_plan *plan, uint32_t *parts, gq_error *e);
/* *any: whether the journal of any part is there, of whatever plan, the plan's own part included. */
bool journal_has_parts(const gq_plan *plan, bool *any, gq_error *e);
/* Removes all journals beside an output that no process holds, of any plan. */
void journal_remove_all(const char *output);
/* Removes those beside the plan's first output that belong to this plan. */
void journal_clean(const gq_plan *plan);

/* When the plan is made: fail when an input or an output has a journal's name, for all journals are removed
 * in the end. */
bool journal_check_names(const gq_plan *plan, const gq_options *options, gq_error *e);
/* When the plan is made: warn that an earlier run will be continued, or why it will not. whole: it has
 * finished all files. */
bool journal_announce(const gq_plan *plan, bool whole, warning_list *warnings, gq_error *e);

/* ---- cache.c ---- */

/* Uses the page cache, which belongs to the whole machine, with care.
 *
 * Input is asked for ahead of the workers. A run that is large beside the machine's memory gives back pages that
 * it no longer needs: input that was not cached before the run, output once it is safe on disk. A run that is
 * small leaves both cached, since a quantized model is mostly used next. */

typedef struct cache {
    const gq_plan *plan;
    uint64_t begin, end; /* chunks of this run */
    bool large;
    _Atomic uint64_t asked;    /* chunks before this one have been asked for */
    _Atomic uint8_t *was_cold; /* one bit per chunk of the run; NULL unless large */
} cache;

bool cache_new(cache *c, const gq_plan *plan, uint64_t begin, uint64_t end, gq_error *e);
void cache_free(cache *c);
/* A worker begins chunk i: asks the system for the input of later chunks. */
void cache_ahead(cache *c, uint64_t i);
/* Chunk i will not be read again: its input may be given back. */
void cache_read(const cache *c, uint64_t i);
/* The outputs' bytes of chunk i are on disk: they may be given back. */
void cache_written(const cache *c, const output_set *outputs, uint64_t i);

/* ---- journal.c ---- */

/* Makes finished chunks safe in the background: now and then syncs the outputs, then records in the journal
 * the chunks that were finished before that sync. Where the system starts no thread for that, the worker that
 * adds a chunk does it when it is time. */

typedef struct syncer {
    const output_set *outputs;
    const journal *journal;
    const cache *cache;
    pthread_t thread;
    bool started, alone; /* alone: no thread could be started */
    double due;          /* by clock_seconds, when to sync next, where there is no thread */
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool stop, failed; /* under the lock, as are all members below */
    gq_error error;
    uint8_t *slots; /* chunks that are finished and not yet recorded */
    size_t n, capacity;
    uint64_t recorded; /* chunks, by this run */
} syncer;

void syncer_start(syncer *k, const output_set *outputs, const journal *j, const cache *c);
/* Adds a chunk whose bytes have all been written. Fails when recording has failed. */
bool syncer_add(syncer *k, uint64_t chunk_number, const chunk_sum *sums, gq_error *e);
/* Ends the thread. record: what is left is made safe first. */
bool syncer_stop(syncer *k, bool record, gq_error *e);

/* ---- finalize.c ---- */

/* Gives several files their names, which no file system does in one step.
 *
 * When every file is whole and on disk, a record beside the first output says so; then the names are given. A
 * run that is killed in the middle, or fails, is finished by the same command, which finds the record. Loaders
 * find the shards of a split output by its first one. So the first shard of an older set loses its name before
 * the others, and the new first shard gets its name last: a first shard never leads to shards of two sets. */

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
    bool *named; /* files that have their names, in the order of an output_set; malloc'ed, NULL: none */
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

/* ---- reuse.c ---- */

/* Finds out, before the work, which tensors a run may copy from earlier outputs (reuse_offer). */

/* Returns for each output and tensor whether it is copied from an earlier output, malloc'ed; NULL: it failed.
 * The results get the sums. */
bool *reuse_check(const gq_plan *plan, uint64_t begin, uint64_t end, const gq_callbacks *callbacks,
                  gq_results *results, gq_error *e);
