/* Records which chunks are done and safe on disk, so that an interrupted run can go on.
 *
 * A journal is a file beside the first output: a head that says which plan it belongs to, then one slot per
 * chunk, in chunk order. A slot that is not written reads as zeros. Each has a CRC of its own, so a torn one
 * counts as not done. The caller syncs the chunk's bytes before its slot is written.
 */
#pragma once

#include "quantize/plan/plan.h"
#include "quantize/run/results.h"

/* The head of a file beside an output: which plan it belongs to, in the machine's own byte order, as a
 * journal never outlives its run for long. */
typedef struct journal_head {
    char magic[8];
    char build[24];
    plan_identity identity;
    uint32_t part, parts, outputs, slot;
    uint32_t crc; /* of all before it */
} journal_head;

journal_head journal_head_of(const gq_plan *plan, uint32_t part, uint32_t parts);
/* Returns why a journal with the head `found` cannot be continued; NULL: it can. */
const char *journal_mismatch(const journal_head *found, const journal_head *wanted);

typedef struct journal {
    int fd; /* -1: not open */
    char *path;
    uint32_t part, parts;   /* 0, 0: of the whole */
    uint64_t begin, end;    /* chunks that it has slots for */
    size_t n_outputs, slot; /* bytes of a slot */
    bool resumed;           /* it holds slots of an earlier run */
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
/* Put a chunk's slot together (journal.slot bytes), to be written later. */
void journal_fill(const journal *j, uint8_t *slot, uint64_t chunk_number, const chunk_sum *sums);
/* Write slots made by journal_fill, in any order, and make them safe. */
bool journal_write(const journal *j, const uint8_t *slots, size_t n, gq_error *e);

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
