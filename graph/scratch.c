#include "graph/scratch.h"

#include "base/checked.h"

#include <stddef.h>

#include "model/model.h"

enum { ALIGNMENT = 64 };

void *scratch_take(scratch *s, uint64_t n, uint64_t of, uint64_t size) {
    uint64_t bytes, at = s->at;
    if (__builtin_mul_overflow(n, of, &bytes) || __builtin_mul_overflow(bytes, size, &bytes) ||
        bytes > UINT64_MAX / 4 || __builtin_add_overflow(at, round_up(bytes, ALIGNMENT), &s->at)) {
        s->at = UINT64_MAX;
        return NULL;
    }
    return s->bytes ? s->bytes + at : NULL;
}
