/* Files of token ids: words between white space. */
#ifndef GQ_SWEEP_IDS_H
#define GQ_SWEEP_IDS_H

#include "base/error.h"
#include "base/file.h"

/* A file of ids, byte by byte. Begins with zeros but for the file and line 1. */
typedef struct ids_reader {
    const gq_file *file;
    uint64_t at;
    size_t n, next; /* bytes in the buffer, and the one that comes next */
    size_t line;    /* from 1 */
    unsigned char buffer[1 << 16];
} ids_reader;

/* The beginning of a word, for messages: of a longer one than IDS_WORD bytes no more than these. */
enum { IDS_WORD = 40, IDS_SHOWN = 64 };

/* *c: the next byte; -1: there is none. */
bool ids_next(ids_reader *r, int *c, gq_error *e);
/* Reads the word that begins with byte c, which white space follows. is_id: it is a decimal number below 2^32. */
bool ids_read_word(ids_reader *r, int c, char shown[IDS_SHOWN], uint64_t *id, bool *is_id, gq_error *e);
static inline bool ids_is_space(int c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

#endif
