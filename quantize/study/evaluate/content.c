#include "quantize/study/evaluate/content.h"

#include <stdlib.h>

#include "base/checked.h"
#include "base/checksum.h"
#include "quantize/strips/schedule.h"
#include "quantize/strips/strip.h"

typedef struct content_job {
    const model_source *m;
    uint32_t *crcs; /* per tensor */
} content_job;

static bool content_read_tensor(void *arg, work_piece *p, gq_error *e) {
    const content_job *j = arg;
    const model_tensor *t = j->m->tensors[p->number];
    uint64_t all = shape_elements(t->ne);
    uint32_t crc = 0;
    for (uint64_t at = 0, n; at < all; at += n) {
        n = min(strip_whole(t, STRIP_ELEMENTS), all - at);
        if (!model_read(j->m, t, at, n, p->scratch, e)) return false;
        crc = checksum_add(crc, p->scratch, model_bytes(t, n));
    }
    j->crcs[p->number] = crc;
    p->weights = all, p->bytes = t->size;
    return true;
}

static uint32_t content_of_pairs(const model_source *m) {
    uint32_t sum = 0;
    for (uint64_t i = 0; i < m->n_kv; i++) {
        sum = checksum_add(checksum_add_text(sum, m->kv[i].key), &m->kv[i].type, sizeof m->kv[i].type);
        sum = checksum_add(sum, m->kv[i].value, m->kv[i].size);
    }
    return sum;
}

static content_sum content_join(const model_source *m, const uint32_t *crcs) {
    content_sum s = {.crc = content_of_pairs(m)};
    for (uint64_t i = 0; i < m->n_tensors; i++) {
        const model_tensor *t = m->tensors[i];
        uint32_t is[3] = {t->type->id, t->transposed, crcs[i]};
        s.crc = checksum_add(checksum_add_text(s.crc, t->name), t->ne, sizeof t->ne);
        s.crc = checksum_add(s.crc, is, sizeof is);
        s.bytes += t->size;
    }
    return s;
}

static void content_tell(void *user, const gq_progress *progress) {
    const gq_callbacks *to = user;
    gq_progress told = *progress;
    told.tensor = "checksums of the files";
    to->progress(to->user, &told);
}

static bool content_ask(void *user) {
    const gq_callbacks *to = user;
    return to->cancelled && to->cancelled(to->user);
}

double content_seconds(const model_source *m, int threads) {
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < m->n_tensors; i++) bytes += m->tensors[i]->size;
    return speed_read(bytes, 0) / threads_asked(threads);
}

bool content_sum_up(const model_source *m, int threads, const gq_callbacks *callbacks, content_sum *to,
                    gq_error *e) {
    gq_callbacks own = {.size = sizeof own, .user = (void *)callbacks, .cancelled = content_ask};
    content_job j = {.m = m, .crcs = calloc(m->n_tensors + 1, sizeof *j.crcs)};
    schedule s = {.pool = NULL};
    if (!j.crcs) return gq_fail_memory(e, m->n_tensors * sizeof *j.crcs);
    if (callbacks && callbacks->progress) own.progress = content_tell;
    bool ok = schedule_start(&s, threads, STORED_BYTES * STRIP_ELEMENTS, callbacks ? &own : NULL, e);
    for (uint64_t i = 0; i < m->n_tensors; i++) s.progress.bytes_total += m->tensors[i]->size;
    ok = ok &&
         schedule_run(&s, &(schedule_job){.end = m->n_tensors, .work = content_read_tensor, .arg = &j}, e);
    schedule_end(&s);
    if (ok) *to = content_join(m, j.crcs);
    free(j.crcs);
    return ok && model_unchanged(m, e);
}
