/* Files of token ids: words between white space. Conversations that were rendered outside, as gquant-chat writes them: ids with
 * a weight for each token (docs/formats.md). */
#pragma once

#include "base/file.h"
#include "study/sweep/windows.h"

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

/* Packs texts into windows, one after another. Begins with zeros but for w, whose context is set, and limits. */
typedef struct windows_packer {
    text_windows *w;
    const token_limits *limits;
    size_t *used; /* tokens of each window, up to the next step; the caller frees it */
    size_t ids_capacity, marks_capacity, used_capacity;
} windows_packer;
/* Puts a text of 1 to a window's tokens into the first of the last few windows that has room behind what it
 * holds. weights: of each token, in FORWARD_WEIGHT_ONE-ths. What is left of the window stands as the text's last
 * token again, and counts nothing. *begin: where its first token is in w->ids. */
bool windows_pack(windows_packer *p, const uint32_t *ids, const uint32_t *weights, size_t n, size_t *begin,
                  gq_error *e);

/* Whether a file begins as one of conversations. */
bool chats_begin(const gq_file *file);
/* Packs the conversations of a file into windows: in order, each into the first of the last few windows that
 * has room for it behind what it holds already. So windows hold several conversations, and what is behind
 * the last of each step of tokens counts nothing. A conversation that is longer than a window is cut; one
 * whose tokens count nothing is left out. w->context is set before. */
bool chats_read(text_windows *w, const gq_text *text, const gq_file *file, size_t vocabulary,
                const token_limits *limits, warning_list *warnings, gq_error *e);
