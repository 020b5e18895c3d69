/* The ids of a text, and how many of them may be held. */
#include "forward/tokens/tokenizer.h"

#include "base/checked.h"
#include "base/fail.h"
#include "base/memory.h"
#include "base/units.h"

bool token_list_add(token_list *l, uint32_t id, gq_error *e) {
    if (!memory_grow(&l->ids, &l->capacity, l->n + 1, sizeof *l->ids, e)) return false;
    l->ids[l->n++] = id;
    return true;
}

bool token_limits_hold(const token_limits *l, const token_list *list, uint64_t ids, uint64_t others,
                       gq_error *e) {
    char room[UNITS_TEXT_BYTES];
    return !l->memory || add_sat(mul_sat(ids, sizeof *list->ids), others) <= l->memory ||
           gq_fail_usage(e,
                         "the ids of more than %zu tokens do not fit into the %s of memory that are left for "
                         "the text: take fewer tokens",
                         list->n, units_memory(room, l->memory));
}

bool token_limits_allow(const token_limits *l, const token_list *list, gq_error *e) {
    enum { ASKED = 1 << 12 }; /* tokens after which the caller is asked */
    if (list->n % ASKED == 0 && l->cancelled && l->cancelled(l->user))
        return gq_fail_as(e, GQ_INTERRUPTED, "stopped while tokens were read");
    return list->n < list->capacity || token_limits_hold(l, list, mul_sat(2, list->capacity), 0, e);
}
