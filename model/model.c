#include "model/model.h"

#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"

/* ---- tensors ---- */

static int model_compare_names(const void *a, const void *b) {
    return strcmp((*(gguf_tensor *const *)a)->name, (*(gguf_tensor *const *)b)->name);
}

bool model_index_names(gguf_model *m, gq_error *e) {
    m->by_name = malloc((m->n_tensors + 1) * sizeof *m->by_name);
    if (!m->by_name) return gq_fail_memory(e, m->n_tensors * sizeof *m->by_name);
    if (m->n_tensors) memcpy(m->by_name, m->tensors, m->n_tensors * sizeof *m->by_name);
    qsort(m->by_name, m->n_tensors, sizeof *m->by_name, model_compare_names);
    for (uint64_t i = 1; i < m->n_tensors; i++) {
        const gguf_tensor *a = m->by_name[i - 1], *b = m->by_name[i];
        if (strcmp(a->name, b->name) == 0)
            return gq_fail(e, "%s: tensor '%s' is in %s, too", m->files[b->shard]->path, b->name,
                           m->files[a->shard]->path);
    }
    return true;
}

const gguf_tensor *gguf_model_tensor(const gguf_model *m, const char *name) {
    const gguf_tensor wanted = {.name = name}, *key = &wanted;
    gguf_tensor **found =
        m->n_tensors ? bsearch(&key, m->by_name, m->n_tensors, sizeof *m->by_name, model_compare_names)
                     : NULL;
    return found ? *found : NULL;
}

const char *gguf_model_path(const gguf_model *m, const gguf_tensor *t) { return m->files[t->shard]->path; }

bool gguf_model_read(const gguf_model *m, const gguf_tensor *t, uint64_t first, uint64_t n, void *to,
                     gq_error *e) {
    return m->container->read(m, t, first, n, to, e);
}

void model_advise(const gguf_model *m, const gguf_tensor *t, uint64_t first, uint64_t n,
                  model_advice advice) {
    m->container->advise(m, t, first, n, advice);
}

bool model_is_cold(const gguf_model *m, const gguf_tensor *t, uint64_t first, uint64_t n) {
    return m->container->is_cold(m, t, first, n);
}

uint64_t model_stored_at(const gguf_model *m, const gguf_tensor *t) { return m->container->stored_at(m, t); }

/* ---- files ---- */

uint64_t model_file_bytes(const gguf_model *m) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < m->n_files; i++) bytes += m->files[i]->size;
    return bytes;
}

bool model_fingerprint(const gguf_model *m, uint32_t *times, uint32_t *content, gq_error *e) {
    for (uint32_t i = 0; i < m->n_files; i++) {
        const struct timespec *modified = &m->files[i]->modified;
        uint64_t time[2] = {(uint64_t)modified->tv_sec, (uint64_t)modified->tv_nsec};
        *times = checksum_add(*times, time, sizeof time);
    }
    return m->container->fold_content(m, content, e);
}

bool gguf_model_unchanged(const gguf_model *m, gq_error *e) {
    for (uint32_t i = 0; i < m->n_files; i++)
        if (!gq_file_unchanged(m->files[i], e)) return false;
    return true;
}

bool gguf_model_has_file(const gguf_model *m, uint64_t device, uint64_t inode) {
    for (uint32_t i = 0; i < m->n_files; i++) {
        const gq_file *f = m->files[i];
        if (f->fd >= 0 && f->device == device && f->inode == inode) return true;
    }
    return false;
}

bool gguf_model_mixed(const gguf_model *m, uint32_t *shard, uint32_t *other) {
    return m->container->mixed && m->container->mixed(m, shard, other);
}

void gguf_model_close(gguf_model *m) {
    if (m->container) m->container->close(m->state);
    free(m->tensors);
    free(m->by_name);
    free(m->files);
    *m = (gguf_model){.path = NULL};
}
