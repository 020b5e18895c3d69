#include "forward/stream/run.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/safe_file.h"
#include "forward/graph/sublayer.h"

typedef struct cached_result {
    weight_slot slot;
    result_kind what;
    size_t matrix, rows, tokens;
    uint64_t at;    /* bytes, from the beginning of the batch's */
    uint64_t run;   /* the run that added or recalled the result last */
    double seconds; /* time to compute the result; 0 in memory */
    bool recalled;
} cached_result;

struct cached_batch {
    cached_result *results;
    size_t n, capacity;
    uint64_t at, bytes, used; /* bytes 0: it has no place yet */
    bool in_file;
    bool is_full;
    uint64_t runs;
};

struct probe_cache {
    uint8_t *memory;
    int fd; /* -1: there is no file */
    uint64_t memory_bytes, file_bytes, memory_used, file_used;
    uint64_t token_bytes[PROBE_CACHE_SIDES];
    cached_batch *batches[PROBE_CACHE_SIDES];
    size_t n[PROBE_CACHE_SIDES], capacity[PROBE_CACHE_SIDES];
    double saved, moved; /* seconds that results in the file save in computing, and take to write and read */
};

/* ---- memory and file ---- */

probe_cache *probe_cache_new(const probe_cache_plan *p, gq_error *e) {
    probe_cache *k = calloc(1, sizeof *k);
    if (!k) return gq_fail_memory(e, sizeof *k), NULL;
    *k = (probe_cache){.fd = -1, .memory_bytes = p->memory, .file_bytes = p->file};
    memcpy(k->token_bytes, p->token_bytes, sizeof k->token_bytes);
    if (k->memory_bytes && !(k->memory = memory_lines(k->memory_bytes, 1, NULL))) k->memory_bytes = 0;
    if (!k->file_bytes || !p->folder) return k;
    k->file_bytes = min(k->file_bytes, probe_cache_room(p->folder));
    if (safe_file_may_grow(p->folder, k->file_bytes, NULL))
        k->fd = hidden_state_slots_open(p->folder, k->file_bytes, NULL);
    return k;
}

/* Lets the file go, and its room on the disk with it. What it holds is computed again. */
static void cache_close_file(probe_cache *k) {
    if (k->fd >= 0) close(k->fd);
    k->fd = -1;
}

void probe_cache_forget(probe_cache *k, unsigned side) {
    for (size_t i = 0; k && i < k->n[side]; i++) {
        cached_batch *b = &k->batches[side][i];
        b->n = 0, b->used = 0, b->is_full = false;
    }
}

void probe_cache_free(probe_cache *k) {
    for (unsigned side = 0; k && side < PROBE_CACHE_SIDES; side++) {
        for (size_t i = 0; i < k->n[side]; i++) free(k->batches[side][i].results);
        free(k->batches[side]);
    }
    if (k) cache_close_file(k), free(k->memory);
    free(k);
}

/* Gives a batch its bytes, which it has as long as there are any. */
static void cache_place(probe_cache *k, cached_batch *b, uint64_t bytes) {
    uint64_t left = k->memory_bytes - k->memory_used;
    if (b->bytes || !bytes) return;
    if (bytes <= left) {
        *b = (cached_batch){.at = k->memory_used, .bytes = bytes};
        k->memory_used += bytes;
    } else if (k->fd >= 0 && bytes <= k->file_bytes - k->file_used) {
        *b = (cached_batch){.at = k->file_used, .bytes = bytes, .in_file = true};
        k->file_used += bytes;
    }
}

/* ---- results ---- */

/* The run whose results a batch has. */
static probe_cache_run *cache_run_in(const forward_batch *b) { return (probe_cache_run *)b->results; }

/* A result on its way to its place, or from there. */
typedef struct cache_rows {
    const probe_cache *of;
    const cached_batch *batch;
    uint64_t at;
    float *x;
    size_t stride, tokens;
    bool reads;
    _Atomic bool failed;
} cache_rows;

static void cache_move_row(void *data, size_t r, int) {
    cache_rows *k = data;
    size_t bytes = k->tokens * sizeof(float);
    uint64_t at = k->at + (uint64_t)r * bytes;
    float *x = k->x + r * k->stride;
    if (!k->batch->in_file)
        memcpy(k->reads ? (void *)x : k->of->memory + at, k->reads ? k->of->memory + at : (void *)x, bytes);
    else if (!(k->reads ? safe_file_read(k->of->fd, at, x, bytes) : safe_file_write(k->of->fd, at, x, bytes)))
        k->failed = true;
}

/* Whether the file has taken longer than computing what it holds. */
static bool cache_is_slow(const probe_cache *k) {
    enum { SECONDS = 20 }; /* before that is judged */
    return k->moved > SECONDS && k->moved > k->saved;
}

/* Returns whether all rows could be written or read. A file that is slow or cannot be written, as on a disk
 * that has become full, is used no more. */
static bool cache_move(const forward_batch *b, const cached_result *r, float *x, size_t stride, bool reads) {
    const probe_cache_run *run = cache_run_in(b);
    probe_cache *k = run->of;
    bool in_file = run->batch->in_file;
    cache_rows rows = {.of = k,
                       .batch = run->batch,
                       .at = run->batch->at + r->at,
                       .x = x,
                       .stride = stride,
                       .tokens = r->tokens,
                       .reads = reads};
    if (in_file && cache_is_slow(k)) cache_close_file(k);
    if (in_file && k->fd < 0) return false;
    double started = clock_seconds();
    threads_for(b->pool, r->rows, THREADS_EVEN, cache_move_row, &rows);
    if (in_file) k->moved += clock_seconds() - started;
    if (rows.failed && !reads) cache_close_file(k);
    return !rows.failed;
}

static cached_result *cache_find(const probe_cache_run *run, weight_slot s, size_t matrix, result_kind what) {
    const cached_batch *of = run->batch;
    for (size_t i = of->n; i-- > 0;) {
        cached_result *r = &of->results[i];
        if (r->slot == s && r->matrix == matrix && r->what == what) return r;
    }
    return NULL;
}

static bool cache_recall(forward_batch *b, weight_slot s, size_t matrix, result_kind what,
                         const batch_values *v) {
    probe_cache_run *run = cache_run_in(b);
    if (b->observer && b->observer->on_scores) return false;
    cached_result *r = run->within ? NULL : cache_find(run, s, matrix, what);
    if (r && r->rows == v->rows && r->tokens == v->tokens && r->run != run->batch->runs &&
        !(what == RESULT_SUM && run->is_observed)) {
        r->run = run->batch->runs;
        if (cache_move(b, r, v->x, v->stride, true)) {
            /* The first recall was counted when the result was stored: at least the pass recalls it. */
            if (r->recalled) run->of->saved += r->seconds;
            return r->recalled = true;
        }
    }
    if (what != RESULT_SUM && run->within++ == 0) run->started = clock_seconds();
    return false;
}

/* Whether a result that was just computed will be the same in later runs of the sublayer. */
static bool cache_may_add(const probe_cache_run *run, weight_slot s, result_kind what) {
    const weight_facts *facts = &weight_facts_of[s];
    bool of_expert = facts->is_routed && !facts->is_late && what == RESULT_INPUTS;
    return run->within == 0 && run->adds && !run->results.awaits && (!run->results.lacks || of_expert) &&
           !run->batch->is_full && !(facts->is_routed && what == RESULT_OUTPUT);
}

static void cache_store(forward_batch *b, weight_slot s, size_t matrix, result_kind what,
                        const batch_values *v) {
    probe_cache_run *run = cache_run_in(b);
    if (b->observer && b->observer->on_scores) return;
    if (what != RESULT_SUM) run->within--;
    cached_batch *to = run->batch;
    uint64_t bytes = mul_sat(mul_sat(v->rows, v->tokens), sizeof(float));
    if (!cache_may_add(run, s, what) || cache_find(run, s, matrix, what)) return;
    cached_result r = {s, what, matrix, v->rows, v->tokens, to->used, to->runs, .seconds = 0};
    if (to->in_file && what != RESULT_SUM) r.seconds = clock_seconds() - run->started;
    run->of->saved += r.seconds;
    to->is_full = bytes > to->bytes - to->used ||
                  !memory_grow(&to->results, &to->capacity, (uint64_t)to->n + 1, sizeof r, NULL) ||
                  !cache_move(b, &r, v->x, v->stride, false);
    if (to->is_full) return;
    to->results[to->n++] = r;
    to->used += bytes;
}

/* ---- runs ---- */

probe_cache_run probe_cache_run_of(probe_cache *k, unsigned side, size_t batch, uint64_t tokens, bool adds,
                                   bool is_observed) {
    if (!k || !memory_grow(&k->batches[side], &k->capacity[side], (uint64_t)batch + 1,
                           sizeof *k->batches[side], NULL))
        return (probe_cache_run){.of = NULL};
    while (k->n[side] <= batch) k->batches[side][k->n[side]++] = (cached_batch){.n = 0};
    cached_batch *b = &k->batches[side][batch];
    cache_place(k, b, mul_sat(tokens, k->token_bytes[side]));
    b->runs++;
    return (probe_cache_run){
        {.recall = cache_recall, .store = cache_store}, k, b, .adds = adds, .is_observed = is_observed};
}

/* ---- sizes ---- */

/* Bytes that are cached for a token, counted from the shapes of the layers' matrices. Where a layer keeps more than
 * that, as one that hands its keys on does, the rest is computed again. */

/* Whether a weight's output is only used in a result that is kept behind it. */
static bool cache_is_inner(const layer_spec *l, weight_slot s) {
    static const weight_slot ffn[] = {WEIGHT_FFN_GATE,      WEIGHT_FFN_UP,           WEIGHT_FFN_GATE_EXPS,
                                      WEIGHT_FFN_UP_EXPS,   WEIGHT_FFN_GATE_UP_EXPS, WEIGHT_FFN_GATE_CHEXPS,
                                      WEIGHT_FFN_UP_CHEXPS, WEIGHT_FFN_GATE_SHEXP,   WEIGHT_FFN_UP_SHEXP};
    static const weight_slot mixer[] = {WEIGHT_ATTN_Q, WEIGHT_ATTN_K, WEIGHT_ATTN_V, WEIGHT_ATTN_QKV,
                                        WEIGHT_ATTN_GATE};
    for (size_t i = 0; i < sizeof ffn / sizeof *ffn; i++)
        if (s == ffn[i]) return true;
    bool attends = l->mixer.sublayer && l->mixer.sublayer->kind->keeps_inputs;
    for (size_t i = 0; attends && i < sizeof mixer / sizeof *mixer; i++)
        if (s == mixer[i]) return true;
    return false;
}

/* Whether the inputs of a weight are kept, and not what led to them. */
static bool cache_has_inputs(const layer_spec *l, weight_slot s) {
    return s == WEIGHT_FFN_DOWN || s == WEIGHT_FFN_DOWN_EXPS || s == WEIGHT_FFN_DOWN_CHEXPS ||
           s == WEIGHT_FFN_DOWN_SHEXP ||
           (s == WEIGHT_ATTN_OUTPUT && l->mixer.sublayer && l->mixer.sublayer->kind->keeps_inputs);
}

/* Values per token of what is kept of a weight. */
static uint64_t cache_slot_values(const layer_spec *l, weight_slot s, uint64_t experts_used, bool base) {
    const model_tensor *t = l->weight[s];
    if (!t || weight_facts_of[s].is_decoded || cache_is_inner(l, s)) return 0;
    if (!cache_has_inputs(l, s)) return mul_sat(t->ne[1], t->ne[2]);
    bool some = weight_facts_of[s].is_routed && experts_used && experts_used < t->ne[2];
    uint64_t met = weight_facts_of[s].is_routed ? some ? experts_used : t->ne[2] : 1;
    return add_sat(mul_sat(met, t->ne[0]), base ? t->ne[1] : 0);
}

/* Bytes per token: of the sublayer that has most. */
static uint64_t cache_token_bytes(const forward_model *m, uint64_t experts_used, bool base) {
    bool splits = forward_model_splits(m);
    uint64_t most = 0;
    for (size_t i = 0; i < m->sizes.layers; i++) {
        uint64_t sublayer[2] = {0, 0};
        for (weight_slot s = 0; s < WEIGHT_SLOTS; s++) {
            bool is_mixer = splits && s >= WEIGHT_ATTN_Q && s < WEIGHT_FFN_GATE;
            sublayer[is_mixer] =
                add_sat(sublayer[is_mixer], cache_slot_values(&m->layers[i], s, experts_used, base));
        }
        most = max(most, max(sublayer[0], sublayer[1]));
    }
    return mul_sat(most, sizeof(float));
}

void probe_cache_sizes(const forward_model *m, uint64_t experts_used,
                       uint64_t token_bytes[PROBE_CACHE_SIDES]) {
    for (int side = 0; side < PROBE_CACHE_SIDES; side++)
        token_bytes[side] = cache_token_bytes(m, experts_used, side == 0);
}
