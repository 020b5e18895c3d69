/* The report of a call that can fail: a kind, and one sentence for people.
 *
 * A call returns false (or NULL) and fills the caller's gq_error. The text names the file, the tensor, the
 * offset or element, what was found and what was expected; it holds no control characters, whatever the file
 * held. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Part of the library's interface; all else stays inside. */
#define GQ_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

typedef enum gq_status {
    GQ_OK = 0,
    GQ_FAILED = 1,      /* bad input, I/O, memory; also the exit code of the command */
    GQ_USAGE = 2,       /* the request itself makes no sense */
    GQ_INTERRUPTED = 3, /* stopped by the caller's cancel callback */
    GQ_BAD_WEIGHTS = 4, /* of the input; they cannot be quantized or run, and trying again is no use */
} gq_status;

/* The change to a request after which the same work could be done. A program puts it in its own words: the
 * library does not know how it is asked. */
typedef enum gq_remedy {
    GQ_REMEDY_NONE,
    GQ_REMEDY_REPLACE,       /* allow replacing what is there: force */
    GQ_REMEDY_REQUANTIZE,    /* allow quantizing quantized tensors again: allow_requantize */
    GQ_REMEDY_OTHER_TYPE,    /* another type for tensors that the imatrix lacks: missing_importance */
    GQ_REMEDY_SET_METADATA,  /* a value for a metadata key-value pair that the input lacks: override_kv */
    GQ_REMEDY_MEMORY,        /* more memory: an allocation failed, which says nothing about files */
    GQ_REMEDY_ALLOW_MISSING, /* allow tensors to be missing: allow_missing */
    GQ_REMEDY_TARGET_MODEL,  /* the folder of the draft's target model: gq_adapters.target */
    GQ_REMEDY_OTHER_PROGRAM, /* none: another program may do it, and the files may be right */
    GQ_REMEDY_PART,          /* say that the input is a part of a model: its general.type, by override_kv */
    GQ_REMEDY_IMPORTANCE,    /* an imatrix for a type that requires one: imatrix */
    GQ_REMEDY_MORE_MEMORY,   /* a larger limit of memory: the last word of the text, such as 14Gi */
    GQ_REMEDY_SET_PAIR = GQ_REMEDY_SET_METADATA, /* the name of version 0.1, which works for one release */
} gq_remedy;

typedef struct gq_error {
    gq_status status;
    gq_remedy remedy;
    char text[1024];
} gq_error;

/* Fill *e (may be NULL) and return false, so that `return gq_fail(e, ...)` reads well. Control characters
 * that came in through a %s are shown as \xNN; a text that does not fit loses its middle. Arguments may point
 * into e->text, so that a caller can add to a message. */
GQ_API bool gq_fail(gq_error *e, const char *format, ...) __attribute__((format(printf, 2, 3)));
GQ_API bool gq_fail_usage(gq_error *e, const char *format, ...) __attribute__((format(printf, 2, 3)));
GQ_API bool gq_fail_memory(gq_error *e, unsigned long long bytes);
GQ_API bool gq_fail_remedy(gq_error *e, gq_remedy remedy, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#ifdef __clang_analyzer__ /* it looks at one file at a time, and here at what these return */
#define gq_fail(...) (gq_fail(__VA_ARGS__), false)
#define gq_fail_usage(...) (gq_fail_usage(__VA_ARGS__), false)
#define gq_fail_remedy(...) (gq_fail_remedy(__VA_ARGS__), false)
#define gq_fail_memory(...) (gq_fail_memory(__VA_ARGS__), false)
#endif

/* Length of the UTF-8 sequence that the n bytes (at least 1) begin with, and what it encodes; 0: none. */
GQ_API size_t gq_utf8(const char *text, size_t n, uint32_t *code);
/* Whether a character does something to a terminal or a line instead of being shown: controls, line
 * separators, marks that turn the direction of writing. */
GQ_API bool gq_acts(uint32_t code);
/* Copy text for showing: characters that act and bytes that are not UTF-8 become \xNN; what does not fit into
 * size (at least 1) bytes is cut. Returns `to`. */
GQ_API char *gq_printable(char *to, size_t size, const char *text);

/* For sentences: "1 tensor", "2 tensors" as "%zu tensor%s"; "an IQ2_S", "a Q4_K", as the names of types are
 * spoken. */
static inline const char *plural_suffix(unsigned long long n) { return n == 1 ? "" : "s"; }
static inline const char *article(const char *name) {
    for (const char *c = "AEFHILMNORSXaefhilmnorsx8"; *c; c++)
        if (*c == *name) return "an";
    return "a";
}

/* Returns the one of n words that `text` was most likely meant to be, for a message to suggest; NULL: all
 * take slips of `below` or more. A wrong, missing or needless letter counts 2, a digit 3, a '_' that is
 * missing or needless 1; case counts nothing. */
GQ_API const char *gq_nearest(const char *text, const char *const *words, size_t n, unsigned below);

#ifdef __cplusplus
}
#endif
