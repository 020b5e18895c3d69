#include "quantize/study/sweep/ids.h"

#include <stdio.h>

#include "base/checked.h"

bool ids_next(ids_reader *r, int *c, gq_error *e) {
    if (r->next == r->n) {
        r->n = (size_t)min(sizeof r->buffer, r->file->size - r->at), r->next = 0;
        if (!gq_file_read(r->file, r->at, r->buffer, r->n, e)) return false;
        r->at += r->n;
    }
    *c = r->n ? r->buffer[r->next++] : -1;
    return true;
}

bool ids_read_word(ids_reader *r, int c, char shown[IDS_SHOWN], uint64_t *id, bool *is_id, gq_error *e) {
    size_t n = 0;
    shown[0] = 0;
    for (*id = 0, *is_id = true; c >= 0 && !ids_is_space(c);) {
        if (n <= IDS_WORD) n += (size_t)snprintf(shown + n, IDS_SHOWN - n, c ? "%c" : "\\x00", c);
        *is_id = *is_id && c >= '0' && c <= '9';
        if (*is_id) *id = 10 * *id + (uint64_t)(c - '0');
        *is_id = *is_id && *id <= UINT32_MAX;
        if (!ids_next(r, &c, e)) return false;
    }
    if (c >= 0) r->next--; /* white space, which may end a line */
    return true;
}
