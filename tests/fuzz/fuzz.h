/* What the fuzz targets share.
 *
 * A target is one file: LLVMFuzzerTestOneInput tries some bytes and aborts when a promise is broken (memory
 * errors are the sanitizers' to find), fuzz_seeds writes inputs to start from. Linked with libFuzzer it
 * searches; linked with driver.c it replays files: the regressions, or what another fuzzer feeds it.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "gguf/gguf.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);
void fuzz_seeds(const char *folder);

/* Stop with a message unless a promise holds. */
#define PROMISE(holds, ...) \
    do { \
        if (!(holds)) fuzz_broken(#holds, __VA_ARGS__); \
    } while (0)
_Noreturn void fuzz_broken(const char *promise, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A message that is fit for a terminal: not empty, ended, and without control characters. */
void fuzz_check_error(const gq_error *e);

/* A copy that ends where the data end, so that a sanitizer sees one byte too far. */
uint8_t *fuzz_copy(const uint8_t *bytes, size_t n);
/* One gzip member that unpacks to the bytes; malloc'ed. */
uint8_t *fuzz_gzip(const uint8_t *bytes, size_t n, size_t *packed);

/* Take from the front of the input; zeros once it is used up. */
typedef struct fuzz_input {
    const uint8_t *bytes;
    size_t n;
} fuzz_input;
uint8_t fuzz_byte(fuzz_input *in);
uint32_t fuzz_u16(fuzz_input *in);

/* A folder of this process's own below /dev/shm (or TMPDIR), removed at exit with the files in it. */
const char *fuzz_folder(void);
void fuzz_empty_folder(void);
void fuzz_write(const char *path, const void *bytes, size_t n);
void fuzz_write_in_folder(const char *name, const void *bytes, size_t n);

/* ---- seeds ---- */
void fuzz_seed(const char *folder, const char *name, const void *bytes, size_t n);
/* Same with bytes in front. */
void fuzz_seed_behind(const char *folder, const char *name, const void *head, size_t header_size,
                      const void *bytes, size_t n);
/* A small model with a key of every type and rows of `columns` weights of one type; malloc'ed. */
uint8_t *fuzz_model(const tensor_type *type, uint64_t columns, size_t *n);
/* Importance data for it in the legacy layout, or in the GGUF layout. */
uint8_t *fuzz_importance(uint64_t columns, bool legacy, size_t *n);
