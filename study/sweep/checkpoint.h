/* Keeps the finished layers of a model that is run over a text, so that an interrupted run can continue. The
 * file lies beside the output. It begins with a head that says what run it belongs to. For each stream there
 * are two slots for the states of all tokens, which layers use in turn, and behind them a record per finished
 * layer.
 *
 * A record is written when the states after its layer are safe on disk, and holds their checksums. A torn
 * record counts as not there. If the states do not have the last record's checksums, the run starts afresh.
 */
#pragma once

#include "base/file.h"

typedef enum checkpoint_kind { CHECKPOINT_IMPORTANCE, CHECKPOINT_CALIBRATION } checkpoint_kind;

/* The head of a checkpoint: the run it belongs to, in the machine's own byte order. Unset members are 0. */
typedef struct checkpoint_head {
    char magic[8];
    char build[24];
    uint32_t kind;           /* a checkpoint_kind */
    uint32_t times, content; /* of the model */
    uint32_t ids;            /* checksum */
    uint32_t context;
    uint32_t settings; /* that values depend on, as a number of the caller's */
    uint64_t windows;
    uint64_t slot; /* bytes of one, of one stream */
    uint32_t streams;
    uint32_t fused;       /* this processor multiplies and adds in one step, which last bits depend on */
    uint32_t unused, crc; /* crc: of all before it */
} checkpoint_head;

/* Returns the checkpoint's path for an output; malloc'ed, NULL: no memory. */
char *checkpoint_path(const char *out);
/* Whether this processor multiplies and adds in one step. */
bool checkpoint_fuses(void);
/* Completes a head: sets magic, fused and crc. */
void checkpoint_seal(checkpoint_head *h);

typedef struct checkpoint {
    int fd; /* -1: not open */
    char *path;
    uint64_t slot;    /* bytes of one */
    uint32_t streams; /* that have two each */
    uint64_t end;     /* of the records */
    size_t finished;  /* layers */
    const char *why;  /* there was one that could not be continued; NULL: there was none */
} checkpoint;

/* Looks for a checkpoint that a run with this head would continue: ->finished is then above 0, else ->why may
 * say why not. Changes nothing, but reads the states to check them. *c is to be closed. This function and the
 * two below fail where memory or a read does, as that is no reason to begin anew. */
bool checkpoint_peek(checkpoint *c, const char *out, const checkpoint_head *h, gq_error *e);
/* Continue it or begin another, locked, with room for so many bytes of records set aside. On failure *c is
 * fit for checkpoint_close. */
bool checkpoint_open(checkpoint *c, const char *out, const checkpoint_head *h, uint64_t records, gq_error *e);
/* Continue it, locked, and make none: ->fd is -1 where there is none, and ->finished 0 where it is no use. */
bool checkpoint_open_old(checkpoint *c, const char *out, const checkpoint_head *h, gq_error *e);
/* Open, without its lock, the one that another process has opened, which has so many finished layers. This
 * process only writes states and reads records. */
bool checkpoint_join(checkpoint *c, const char *out, const checkpoint_head *h, size_t finished, gq_error *e);
void checkpoint_close(checkpoint *c);
void checkpoint_remove(const checkpoint *c); /* one that checkpoint_open has opened */
/* Remove what lies beside an output that is whole, unless another process is at work with it: what belongs to
 * this head; or whatever is of a kind, when the output of the run that left it is gone. */
void checkpoint_clean(const char *out, const checkpoint_head *h);
void checkpoint_clean_kind(const char *out, checkpoint_kind kind);

uint64_t checkpoint_slots(void); /* offset of the first stream's two; the other streams' follow */
/* Bytes of the file. */
uint64_t checkpoint_bytes(const checkpoint_head *h, uint64_t records);

/* The next layer is about to put states into their slot. */
bool checkpoint_begin(const checkpoint *c, gq_error *e);
/* Makes the states that were written safe from a power cut; checkpoint_add does so itself. */
bool checkpoint_sync(const checkpoint *c, gq_error *e);
/* The next layer is done: its states are in their slot. sums: forward_stream_sum of each stream; NULL:
 * nothing comes behind this step, and states do not matter any more. */
bool checkpoint_add(checkpoint *c, const uint64_t *sums, const void *bytes, uint64_t n, gq_error *e);
/* Records in order: *at is 0 before the first. malloc'ed. */
uint8_t *checkpoint_next(const checkpoint *c, uint64_t *at, uint64_t *n, gq_error *e);
