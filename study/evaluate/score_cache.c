#include "quantize/quantize.h"
#include "study/evaluate/evaluate.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/safe_file.h"
#include "quantize/strips/strips.h"

/* ---- the content of a model ---- */

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

static uint32_t content_of_metadata(const model_source *m) {
    uint32_t sum = 0;
    for (uint64_t i = 0; i < m->n_kv; i++) {
        sum = checksum_add(checksum_add_text(sum, m->kv[i].key), &m->kv[i].type, sizeof m->kv[i].type);
        sum = checksum_add(sum, m->kv[i].value, m->kv[i].size);
    }
    return sum;
}

static content_sum content_join(const model_source *m, const uint32_t *crcs) {
    content_sum s = {.crc = content_of_metadata(m)};
    for (uint64_t i = 0; i < m->n_tensors; i++) {
        const model_tensor *t = m->tensors[i];
        uint32_t is[3] = {t->type->id, t->transposed, crcs[i]};
        s.crc = checksum_add(checksum_add_text(s.crc, t->name), t->ne, sizeof t->ne);
        s.crc = checksum_add(s.crc, is, sizeof is);
        s.bytes += t->size;
    }
    return s;
}

static void content_report(void *user, const gq_progress *progress) {
    const gq_callbacks *to = user;
    gq_progress reported = *progress;
    reported.tensor = "checksums of the files";
    to->progress(to->user, &reported);
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
    if (callbacks && callbacks->progress) own.progress = content_report;
    bool ok = schedule_start(&s, threads, STORED_BYTES * STRIP_ELEMENTS, callbacks ? &own : NULL, e);
    for (uint64_t i = 0; i < m->n_tensors; i++) s.progress.bytes_total += m->tensors[i]->size;
    ok = ok &&
         schedule_run(&s, &(schedule_job){.end = m->n_tensors, .work = content_read_tensor, .arg = &j}, e);
    schedule_end(&s);
    if (ok) *to = content_join(m, j.crcs);
    free(j.crcs);
    return ok && model_unchanged(m, e);
}

/* ---- what they are of ---- */

void score_cache_name(const content_sum *base_model, const text_windows *w, char of[SCORE_CACHE_OF]) {
    char build[24];
    plan_build(build);
    snprintf(of, SCORE_CACHE_OF,
             "gquant %s, original %08x of %llu bytes, text %08x, %zu windows of %zu tokens, stride %zu%s",
             build, (unsigned)base_model->crc, LLU(base_model->bytes), (unsigned)windows_sum_up(w), w->n,
             w->context, w->stride, checkpoint_fuses() ? "" : ", products not fused");
}

/* ---- the base model's hidden states ---- */

static const char HIDDEN_STATES_MAGIC[8] = {'G', 'Q', 'E', 'V', 'A', 'L', '0', '1'};
enum { HIDDEN_STATES_AT = 4096 };

typedef struct hidden_state_cache_header {
    char magic[8];
    char of[SCORE_CACHE_OF];
    uint64_t bytes, sum;
    uint32_t unused, crc; /* crc: of all before it */
} hidden_state_cache_header;

static bool hidden_state_cache_fail(hidden_state_cache *s, gq_error *e) {
    gq_fail(e, "cannot keep hidden states in %s: %s", s->path, safe_file_error(errno));
    hidden_state_cache_close(s);
    return false;
}

static hidden_state_cache_header hidden_state_cache_header_of(const hidden_state_cache *s, uint64_t sum) {
    hidden_state_cache_header h = {.bytes = s->bytes, .sum = sum};
    memcpy(h.magic, HIDDEN_STATES_MAGIC, sizeof h.magic);
    memcpy(h.of, s->of, sizeof h.of);
    h.crc = checksum_add(0, &h, offsetof(hidden_state_cache_header, crc));
    return h;
}

/* Whether the hidden states have the checksum of the header. */
static bool hidden_state_cache_hold(const hidden_state_cache *s, uint64_t sum) {
    uint32_t found = 0;
    bool there;
    return safe_file_sum(s->fd, HIDDEN_STATES_AT, s->bytes, &found, &there) && there &&
           found == (uint32_t)sum;
}

/* Opens the file, or makes one. Another program's file stays as it is. */
static bool hidden_state_cache_open_file(hidden_state_cache *s, hidden_state_cache_header *found) {
    struct stat st;
    s->fd = safe_file_open(s->path);
    if (s->fd < 0 && errno == ENOENT) s->fd = safe_file_create(s->path);
    if (s->fd < 0 || !safe_file_lock(s->fd, SAFE_FILE_ALONE) || fstat(s->fd, &st) != 0) return false;
    if (st.st_size == 0) return true;
    if (!safe_file_read(s->fd, 0, found, sizeof *found)) return false;
    errno = EEXIST;
    return !memcmp(found->magic, HIDDEN_STATES_MAGIC, sizeof found->magic);
}

bool hidden_state_cache_open(hidden_state_cache *s, const char *path, const char *of, uint64_t bytes,
                             gq_error *e) {
    hidden_state_cache_header found = {.bytes = 0}, expected;
    *s = (hidden_state_cache){.fd = -1, .bytes = bytes, .path = strdup(path)};
    if (!s->path) return gq_fail_memory(e, strlen(path));
    memcpy(s->of, of, strnlen(of, sizeof s->of - 1));
    if (!hidden_state_cache_open_file(s, &found)) return hidden_state_cache_fail(s, e);
    expected = hidden_state_cache_header_of(s, found.sum);
    s->whole = !memcmp(&found, &expected, sizeof found) && hidden_state_cache_hold(s, found.sum);
    if (s->whole) return true;
    /* The magic stays, so that a file of a run that was killed is known as ours. */
    found = (hidden_state_cache_header){.bytes = 0};
    memcpy(found.magic, HIDDEN_STATES_MAGIC, sizeof found.magic);
    return (safe_file_may_grow(path, HIDDEN_STATES_AT + bytes, NULL) && ftruncate(s->fd, 0) == 0 &&
            safe_file_write(s->fd, 0, &found, sizeof found) &&
            safe_file_reserve(s->fd, HIDDEN_STATES_AT + bytes)) ||
           hidden_state_cache_fail(s, e);
}

hidden_state_slots hidden_state_cache_place(const hidden_state_cache *s) {
    return (hidden_state_slots){.fd = s->fd, .path = s->path, .at = HIDDEN_STATES_AT, .slots = 1};
}

bool hidden_state_cache_finish(hidden_state_cache *s, uint64_t sum, gq_error *e) {
    hidden_state_cache_header h = hidden_state_cache_header_of(s, sum);
    s->whole = fsync(s->fd) == 0 && safe_file_write(s->fd, 0, &h, sizeof h);
    return s->whole || gq_fail(e, "cannot write %s: %s", s->path, safe_file_error(errno));
}

void hidden_state_cache_close(hidden_state_cache *s) {
    if (s->fd >= 0) close(s->fd);
    free(s->path);
    *s = (hidden_state_cache){.fd = -1};
}

/* ---- scores ---- */

static const char OF[] = "scores.of";
enum { SCORE_CACHE_KEY_BYTES = 64 }; /* of both keys, which take less than 50 */

/* The key of a model's array, and that of its checksum. */
static void cache_key(const content_sum *model, bool is_copy, char key[SCORE_CACHE_KEY_BYTES],
                      char sum[SCORE_CACHE_KEY_BYTES]) {
    static const char *const of[] = {"scores.original", "scores.copy"}, *const ends[] = {"", ".crc32"};
    char *const to[] = {key, sum};
    for (size_t i = 0; i < 2; i++)
        snprintf(to[i], SCORE_CACHE_KEY_BYTES, "%s.%08x.%llx%s", of[is_copy], (unsigned)model->crc,
                 LLU(model->bytes), ends[i]);
}

/* Numbers of a position: the logarithm; of a quant also the KL divergence and whether the top is the same; of a model
 * with an MTP layer whether that one's is. */
static size_t cache_numbers(const score_cache *k, const model_scores *of) {
    return k->positions * ((of->kld ? 3 : 1) + (of->accepted != NULL));
}

/* Flags as numbers, and back. */
static void cache_put_flags(uint8_t *to, const bool *flags, size_t n) {
    for (size_t i = 0; flags && i < n; i++) {
        double flag = flags[i];
        memcpy(to + i * sizeof flag, &flag, sizeof flag);
    }
}

static void cache_get_flags(const uint8_t *from, bool *flags, size_t n) {
    for (size_t i = 0; flags && i < n; i++) {
        double flag;
        memcpy(&flag, from + i * sizeof flag, sizeof flag);
        flags[i] = flag > 0;
    }
}

/* Takes over the scores of a file. false: no file with scores. */
static bool score_cache_read(score_cache *k) {
    gq_file file;
    gguf_shard s;
    if (!gq_file_open(&file, k->path, NULL) || !gguf_shard_read(&s, &file, NULL)) return false;
    bool ok = true;
    for (uint64_t i = 0; ok && i < s.n_kv; i++)
        ok = strncmp(s.kv[i].key, "scores.", 7) != 0 ||
             gguf_header_set(k->header, s.kv[i].key, s.kv[i].type, s.kv[i].value, s.kv[i].size, NULL);
    gguf_shard_free(&s);
    return ok && gguf_header_find(k->header, OF);
}

static bool score_cache_write(score_cache *k, gq_error *e) {
    const uint8_t *bytes;
    uint64_t size, data;
    return gguf_header_finish(k->header, &bytes, &size, &data, e) &&
           gq_write_whole(k->path, true, bytes, size, e);
}

bool score_cache_open(score_cache *k, const char *path, const char *of, size_t positions, gq_error *e) {
    struct stat st;
    *k = (score_cache){.positions = positions, .path = strdup(path), .header = gguf_header_new(e)};
    bool ok = k->header && (k->path || gq_fail_memory(e, strlen(path)));
    if (ok && lstat(path, &st) == 0)
        ok = score_cache_read(k) ||
             (files_begin_with(path, OF)
                  ? gq_fail(e, "%s: damaged scores; remove the file to compute them again", path)
                  : gq_fail(e, "%s exists and is not a file of scores; choose another name", path));
    if (ok && !model_kv_is_text(gguf_header_find(k->header, OF), of)) {
        gguf_header_free(k->header);
        k->header = gguf_header_new(e);
        ok = k->header && gguf_header_set_string(k->header, OF, of, e) && score_cache_write(k, e);
    }
    if (!ok) score_cache_close(k);
    return ok;
}

void score_cache_close(score_cache *k) {
    gguf_header_free(k->header);
    free(k->path);
    *k = (score_cache){.positions = 0};
}

static bool cache_is_sound(const gguf_header *h, const model_kv *kv, const char *sum) {
    const model_kv *found = gguf_header_find(h, sum);
    uint32_t crc;
    if (!found || found->type != GGUF_U32) return false;
    memcpy(&crc, found->value, sizeof crc);
    return crc == checksum_add(0, kv->value, kv->size);
}

bool score_cache_find(const score_cache *k, const content_sum *model, model_scores *to) {
    char key[SCORE_CACHE_KEY_BYTES], sum[SCORE_CACHE_KEY_BYTES];
    uint32_t type;
    uint64_t n;
    const uint8_t *numbers;
    bool is_copy = to->kld;
    cache_key(model, is_copy, key, sum);
    const model_kv *kv = gguf_header_find(k->header, key);
    if (!kv || !model_kv_array(kv, &type, &n, &numbers) || type != GGUF_FLOAT64 ||
        n != cache_numbers(k, to) || !cache_is_sound(k->header, kv, sum))
        return false;
    size_t each = k->positions * sizeof *to->log_p;
    memcpy(to->log_p, numbers, each);
    if (is_copy) memcpy(to->kld, numbers + each, each);
    cache_get_flags(numbers + 2 * each, to->same_top1, k->positions);
    cache_get_flags(numbers + (is_copy ? 3 : 1) * each, to->accepted, k->positions);
    return true;
}

bool score_cache_add(score_cache *k, const content_sum *model, const model_scores *from, gq_error *e) {
    char key[SCORE_CACHE_KEY_BYTES], sum[SCORE_CACHE_KEY_BYTES];
    bool is_copy = from->kld;
    uint32_t type = GGUF_FLOAT64;
    uint64_t n = cache_numbers(k, from), bytes = GGUF_ARRAY_HEADER + n * sizeof(double);
    size_t each = k->positions * sizeof *from->log_p;
    uint8_t *array = malloc(bytes);
    if (!array) return gq_fail_memory(e, bytes);
    memcpy(array, &type, sizeof type);
    memcpy(array + sizeof type, &n, sizeof n);
    memcpy(array + GGUF_ARRAY_HEADER, from->log_p, each);
    if (is_copy) memcpy(array + GGUF_ARRAY_HEADER + each, from->kld, each);
    cache_put_flags(array + GGUF_ARRAY_HEADER + 2 * each, from->same_top1, k->positions);
    cache_put_flags(array + GGUF_ARRAY_HEADER + (is_copy ? 3 : 1) * each, from->accepted, k->positions);
    cache_key(model, is_copy, key, sum);
    bool ok = gguf_header_set(k->header, key, GGUF_ARRAY, array, bytes, e) &&
              gguf_header_set_u32(k->header, sum, checksum_add(0, array, bytes), e) &&
              score_cache_write(k, e);
    free(array);
    return ok;
}
