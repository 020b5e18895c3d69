/* For the files of gguf/ only: reads a container's header front to back, piece by piece, and says where it is
 * wrong.
 */
#ifndef GQ_CURSOR_H
#define GQ_CURSOR_H

#include <string.h>

#include "gguf/gguf.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "GGUF numbers are copied as they are");

/* The owner of the bytes at hand, for messages. */
typedef struct gguf_subject {
    const char *kind; /* "key", "tensor" or "header" */
    uint64_t index, count;
    uint64_t name_at, name_length; /* the name's place in the file; length 0: not known yet */
} gguf_subject;

typedef struct gguf_cursor {
    const gq_file *file;
    uint8_t *bytes;            /* the file from byte 0; moves when more is read */
    uint64_t capacity, filled; /* bytes of memory there are, and that hold the file so far */
    uint64_t at;               /* next byte; at <= filled <= file->size */
    gguf_subject subject;
    gq_error *e;
} gguf_cursor;

/* Return false with "FILE: key 'NAME' at byte N: ...". */
bool gguf_cursor_fail(gguf_cursor *c, uint64_t at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#ifdef __clang_analyzer__
#define gguf_cursor_fail(...) (gguf_cursor_fail(__VA_ARGS__), false)
#endif

/* Read a number; `what` names it in the message. */
bool gguf_cursor_u32(gguf_cursor *c, uint32_t *value, const char *what);
bool gguf_cursor_u64(gguf_cursor *c, uint64_t *value, const char *what);
/* A key's or tensor's name: 1 to limit bytes, no NUL. Becomes the subject's name. */
bool gguf_cursor_name(gguf_cursor *c, uint64_t limit);

/* Step over a value, checking all of it. */
bool gguf_cursor_value(gguf_cursor *c, uint32_t type);

static inline uint64_t gguf_cursor_left(const gguf_cursor *c) { return c->file->size - c->at; }

#endif
