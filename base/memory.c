#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

static void *memory_aligned(uint64_t alignment, uint64_t bytes, gq_error *e) {
    void *memory;
    /* No object is larger than PTRDIFF_MAX; what is a little less does not wrap when it is rounded up. */
    if (bytes <= PTRDIFF_MAX - alignment &&
        posix_memalign(&memory, alignment, round_up(bytes ? bytes : 1, alignment)) == 0)
        return memory;
    return gq_fail_memory(e, bytes), NULL;
}

void *memory_lines(uint64_t n, uint64_t size, gq_error *e) { return memory_aligned(64, mul_sat(n, size), e); }

void *memory_pages(uint64_t n, uint64_t size, gq_error *e) {
    return memory_aligned(4096, mul_sat(n, size), e);
}

bool memory_grow(void *items, size_t *capacity, uint64_t n, size_t size, gq_error *e) {
    enum { LEAST = 16 };
    void *now, *grown = NULL;
    if (n <= *capacity) return true;
    uint64_t more = max(max(n, LEAST), mul_sat(2, *capacity)), bytes = mul_sat(more, size);
    memcpy(&now, items, sizeof now); /* a pointer to whatever */
    if (bytes <= PTRDIFF_MAX) grown = realloc(now, bytes);
    if (!grown) return gq_fail_memory(e, bytes);
    memcpy(items, &grown, sizeof grown);
    *capacity = (size_t)more;
    return true;
}

void memory_hold(memory_ledger *l, uint64_t bytes) {
    l->bytes = add_sat(l->bytes, bytes);
    l->peak = max(l->peak, l->bytes);
}

void memory_release(memory_ledger *l, uint64_t bytes) {
    if (l->bytes != UINT64_MAX) l->bytes -= min(l->bytes, bytes);
}

void *memory_take(memory_ledger *l, uint64_t n, uint64_t size) {
    enum { LINE = 64 };
    uint64_t bytes = mul_sat(n, size);
    memory_hold(l, bytes > UINT64_MAX - LINE ? UINT64_MAX : round_up(bytes ? bytes : 1, LINE));
    if (l->counts || l->failed) return NULL;
    void *memory = memory_lines(n, size, NULL);
    l->failed = !memory;
    return memory;
}

void *memory_take_zeros(memory_ledger *l, uint64_t n, uint64_t size) {
    void *memory = memory_take(l, n, size);
    return memory ? memset(memory, 0, n * size) : NULL;
}

bool memory_had(const memory_ledger *l, gq_error *e) { return !l->failed || gq_fail_memory(e, l->bytes); }
