/* Arrays of integers are read whole: they are tables of tokens. */
#include "hf/tensors/ids.h"

#include <stdlib.h>
#include <string.h>

#include "base/fail.h"

int64_t *hf_ids_read(const hf_found *f, gq_error *e) {
    const hf_stored *s = f->source->stored;
    const gq_file *file = &f->source->list->folder->files[s->file].file;
    bool is_wide = s->dtype == HF_I64;
    if (!is_wide && s->dtype != HF_I32) {
        hf_found_fail(f, e, "elements of type %s, expected I64 or I32", hf_dtype_name(s->dtype));
        return NULL;
    }
    int64_t *ids = malloc((s->n ? s->n : 1) * sizeof *ids);
    if (!ids) return gq_fail_memory(e, s->n * sizeof *ids), NULL;
    int32_t *narrow = (int32_t *)(void *)ids;
    if (!gq_file_read(file, s->offset, ids, s->bytes, e)) return free(ids), NULL;
    for (uint64_t i = s->n; !is_wide && i > 0;
         i--) { /* from behind, since the wide ones lie over the others */
        int32_t id;
        memcpy(&id, narrow + i - 1, sizeof id);
        memcpy(ids + i - 1, &(int64_t){id}, sizeof *ids);
    }
    return ids;
}
