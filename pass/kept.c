#include "pass/kept.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/safe_file.h"
#include "graph/layer_part.h"
#include "pass/states.h"
#include "pass/stream.h"

typedef struct kept_result {
    weight_slot slot;
    kept_what what;
    size_t matrix, rows, tokens;
    uint64_t at;    /* bytes, from the beginning of the batch's */
    uint64_t run;   /* that added or recalled it last */
    double seconds; /* that it took to compute; 0 in memory */
    bool recalled;
} kept_result;

struct kept_batch {
    kept_result *results;
    size_t n, capacity;
    uint64_t at, bytes, used; /* bytes 0: it has no place yet */
    bool in_file;
    bool is_full;
    uint64_t runs;
};

struct forward_kept {
    uint8_t *memory;
    int fd; /* -1: there is no file */
    uint64_t memory_bytes, file_bytes, memory_used, file_used;
    uint64_t token_bytes[FORWARD_KEPT_SIDES];
    kept_batch *batches[FORWARD_KEPT_SIDES];
    size_t n[FORWARD_KEPT_SIDES], capacity[FORWARD_KEPT_SIDES];
    double saved, moved; /* seconds that results in the file save in computing, and take to write and read */
};

/* ---- memory and file ---- */

forward_kept *forward_kept_new(const forward_kept_plan *p, gq_error *e) {
    forward_kept *k = calloc(1, sizeof *k);
    if (!k) return gq_fail_memory(e, sizeof *k), NULL;
    *k = (forward_kept){.fd = -1, .memory_bytes = p->memory, .file_bytes = p->file};
    memcpy(k->token_bytes, p->token_bytes, sizeof k->token_bytes);
    if (k->memory_bytes && !(k->memory = memory_lines(k->memory_bytes, 1, NULL))) k->memory_bytes = 0;
    if (!k->file_bytes || !p->folder) return k;
    k->file_bytes = min(k->file_bytes, forward_kept_room(p->folder));
    if (safe_file_may_grow(p->folder, k->file_bytes, NULL))
        k->fd = forward_keep_open(p->folder, k->file_bytes, NULL);
    return k;
}

/* Lets the file go, and its room on the disk with it. What it holds is computed again. */
static void kept_close_file(forward_kept *k) {
    if (k->fd >= 0) close(k->fd);
    k->fd = -1;
}

void kept_forget(forward_kept *k, unsigned side) {
    for (size_t i = 0; k && i < k->n[side]; i++) {
        kept_batch *b = &k->batches[side][i];
        b->n = 0, b->used = 0, b->is_full = false;
    }
}

void forward_kept_free(forward_kept *k) {
    for (unsigned side = 0; k && side < FORWARD_KEPT_SIDES; side++) {
        for (size_t i = 0; i < k->n[side]; i++) free(k->batches[side][i].results);
        free(k->batches[side]);
    }
    if (k) kept_close_file(k), free(k->memory);
    free(k);
}

/* Gives a batch its bytes, which it has as long as there are any. */
static void kept_place(forward_kept *k, kept_batch *b, uint64_t bytes) {
    uint64_t left = k->memory_bytes - k->memory_used;
    if (b->bytes || !bytes) return;
    if (bytes <= left) {
        *b = (kept_batch){.at = k->memory_used, .bytes = bytes};
        k->memory_used += bytes;
    } else if (k->fd >= 0 && bytes <= k->file_bytes - k->file_used) {
        *b = (kept_batch){.at = k->file_used, .bytes = bytes, .in_file = true};
        k->file_used += bytes;
    }
}

/* ---- results ---- */

/* The run whose results a batch has. */
static kept_run *kept_run_in(const forward_batch *b) { return (kept_run *)b->results; }

/* A result on its way to its place, or from there. */
typedef struct kept_rows {
    const forward_kept *of;
    const kept_batch *batch;
    uint64_t at;
    float *x;
    size_t stride, tokens;
    bool reads;
    _Atomic bool failed;
} kept_rows;

static void kept_move_row(void *data, size_t r, int thread) {
    kept_rows *k = data;
    size_t bytes = k->tokens * sizeof(float);
    uint64_t at = k->at + (uint64_t)r * bytes;
    float *x = k->x + r * k->stride;
    (void)thread;
    if (!k->batch->in_file)
        memcpy(k->reads ? (void *)x : k->of->memory + at, k->reads ? k->of->memory + at : (void *)x, bytes);
    else if (!(k->reads ? safe_file_read(k->of->fd, at, x, bytes) : safe_file_write(k->of->fd, at, x, bytes)))
        k->failed = true;
}

/* Whether the file has taken longer than computing what it holds. */
static bool kept_is_slow(const forward_kept *k) {
    enum { SECONDS = 20 }; /* before that is judged */
    return k->moved > SECONDS && k->moved > k->saved;
}

/* Returns whether all rows could be written or read. A file that is slow or cannot be written, as on a disk
 * that has become full, is used no more. */
static bool kept_move(const forward_batch *b, const kept_result *r, float *x, size_t stride, bool reads) {
    const kept_run *run = kept_run_in(b);
    forward_kept *k = run->of;
    bool in_file = run->batch->in_file;
    kept_rows rows = {.of = k,
                      .batch = run->batch,
                      .at = run->batch->at + r->at,
                      .x = x,
                      .stride = stride,
                      .tokens = r->tokens,
                      .reads = reads};
    if (in_file && kept_is_slow(k)) kept_close_file(k);
    if (in_file && k->fd < 0) return false;
    double started = clock_seconds();
    threads_for(b->pool, r->rows, THREADS_EVEN, kept_move_row, &rows);
    if (in_file) k->moved += clock_seconds() - started;
    if (rows.failed && !reads) kept_close_file(k);
    return !rows.failed;
}

static kept_result *kept_find(const kept_run *run, weight_slot s, size_t matrix, kept_what what) {
    const kept_batch *of = run->batch;
    for (size_t i = of->n; i-- > 0;) {
        kept_result *r = &of->results[i];
        if (r->slot == s && r->matrix == matrix && r->what == what) return r;
    }
    return NULL;
}

/* The first recall of a result was counted when it was kept: at least the pass recalls it. */
static void kept_count_recall(forward_kept *k, kept_result *r) {
    if (r->recalled) k->saved += r->seconds;
    r->recalled = true;
}

static bool kept_recall(forward_batch *b, weight_slot s, size_t matrix, kept_what what,
                        const batch_values *v) {
    kept_run *run = kept_run_in(b);
    if (b->site && b->site->on_scores) return false;
    kept_result *r = run->within ? NULL : kept_find(run, s, matrix, what);
    if (r && r->rows == v->rows && r->tokens == v->tokens && r->run != run->batch->runs &&
        !(what == KEPT_SUM && run->is_looked_at)) {
        r->run = run->batch->runs;
        if (kept_move(b, r, v->x, v->stride, true)) return kept_count_recall(run->of, r), true;
    }
    if (what != KEPT_SUM && run->within++ == 0) run->started = clock_seconds();
    return false;
}

/* Whether a result that was just computed will be the same in later runs of the part. */
static bool kept_may_add(const kept_run *run, weight_slot s, kept_what what) {
    const weight_facts *facts = &weight_facts_of[s];
    bool of_expert = facts->is_routed && !facts->is_late && what == KEPT_INPUTS;
    return run->within == 0 && run->adds && !run->results.awaits && (!run->results.lacks || of_expert) &&
           !run->batch->is_full && !(facts->is_routed && what == KEPT_OUTPUT);
}

static void kept_keep(forward_batch *b, weight_slot s, size_t matrix, kept_what what, const batch_values *v) {
    kept_run *run = kept_run_in(b);
    if (b->site && b->site->on_scores) return;
    if (what != KEPT_SUM) run->within--;
    kept_batch *to = run->batch;
    uint64_t bytes = mul_sat(mul_sat(v->rows, v->tokens), sizeof(float));
    if (!kept_may_add(run, s, what) || kept_find(run, s, matrix, what)) return;
    kept_result r = {s, what, matrix, v->rows, v->tokens, to->used, to->runs, .seconds = 0};
    if (to->in_file && what != KEPT_SUM) r.seconds = clock_seconds() - run->started;
    run->of->saved += r.seconds;
    to->is_full = bytes > to->bytes - to->used ||
                  !memory_grow(&to->results, &to->capacity, (uint64_t)to->n + 1, sizeof r, NULL) ||
                  !kept_move(b, &r, v->x, v->stride, false);
    if (to->is_full) return;
    to->results[to->n++] = r;
    to->used += bytes;
}

/* ---- runs ---- */

kept_run kept_run_of(forward_kept *k, unsigned side, size_t batch, uint64_t tokens, bool adds,
                     bool is_looked_at) {
    if (!k || !memory_grow(&k->batches[side], &k->capacity[side], (uint64_t)batch + 1,
                           sizeof *k->batches[side], NULL))
        return (kept_run){.of = NULL};
    while (k->n[side] <= batch) k->batches[side][k->n[side]++] = (kept_batch){.n = 0};
    kept_batch *b = &k->batches[side][batch];
    kept_place(k, b, mul_sat(tokens, k->token_bytes[side]));
    b->runs++;
    return (kept_run){
        {.recall = kept_recall, .keep = kept_keep}, k, b, .adds = adds, .is_looked_at = is_looked_at};
}

/* ---- sizes ---- */

/* How much is kept of a token: counted from the shapes of the layers' matrices. Where a layer keeps more than
 * that, as one that hands its keys on does, the rest is computed again. */

/* Whether a weight's output is only used in a result that is kept behind it. */
static bool kept_is_inner(const layer_plan *l, weight_slot s) {
    static const weight_slot ffn[] = {WEIGHT_FFN_GATE,      WEIGHT_FFN_UP,           WEIGHT_FFN_GATE_EXPS,
                                      WEIGHT_FFN_UP_EXPS,   WEIGHT_FFN_GATE_UP_EXPS, WEIGHT_FFN_GATE_CHEXPS,
                                      WEIGHT_FFN_UP_CHEXPS, WEIGHT_FFN_GATE_SHEXP,   WEIGHT_FFN_UP_SHEXP};
    static const weight_slot mixer[] = {WEIGHT_ATTN_Q, WEIGHT_ATTN_K, WEIGHT_ATTN_V, WEIGHT_ATTN_QKV,
                                        WEIGHT_ATTN_GATE};
    for (size_t i = 0; i < sizeof ffn / sizeof *ffn; i++)
        if (s == ffn[i]) return true;
    bool attends = l->mixer.part && l->mixer.part->kind->keeps_inputs;
    for (size_t i = 0; attends && i < sizeof mixer / sizeof *mixer; i++)
        if (s == mixer[i]) return true;
    return false;
}

/* Whether the inputs of a weight are kept, and not what led to them. */
static bool kept_has_inputs(const layer_plan *l, weight_slot s) {
    return s == WEIGHT_FFN_DOWN || s == WEIGHT_FFN_DOWN_EXPS || s == WEIGHT_FFN_DOWN_CHEXPS ||
           s == WEIGHT_FFN_DOWN_SHEXP ||
           (s == WEIGHT_ATTN_OUTPUT && l->mixer.part && l->mixer.part->kind->keeps_inputs);
}

/* Values per token of what is kept of a weight. */
static uint64_t kept_slot_values(const layer_plan *l, weight_slot s, uint64_t experts_used, bool original) {
    const model_tensor *t = l->weight[s];
    if (!t || weight_facts_of[s].is_decoded || kept_is_inner(l, s)) return 0;
    if (!kept_has_inputs(l, s)) return mul_sat(t->ne[1], t->ne[2]);
    bool some = weight_facts_of[s].is_routed && experts_used && experts_used < t->ne[2];
    uint64_t met = weight_facts_of[s].is_routed ? some ? experts_used : t->ne[2] : 1;
    return add_sat(mul_sat(met, t->ne[0]), original ? t->ne[1] : 0);
}

/* Bytes per token: of the part of a layer that has most. */
static uint64_t kept_token_bytes(const forward_model *m, uint64_t experts_used, bool original) {
    bool splits = forward_model_splits(m);
    uint64_t most = 0;
    for (size_t i = 0; i < m->sizes.layers; i++) {
        uint64_t part[2] = {0, 0};
        for (weight_slot s = 0; s < WEIGHT_SLOTS; s++) {
            bool is_mixer = splits && s >= WEIGHT_ATTN_Q && s < WEIGHT_FFN_GATE;
            part[is_mixer] =
                add_sat(part[is_mixer], kept_slot_values(&m->layers[i], s, experts_used, original));
        }
        most = max(most, max(part[0], part[1]));
    }
    return mul_sat(most, sizeof(float));
}

void forward_kept_sizes(const forward_model *m, uint64_t experts_used,
                        uint64_t token_bytes[FORWARD_KEPT_SIDES]) {
    for (int side = 0; side < FORWARD_KEPT_SIDES; side++)
        token_bytes[side] = kept_token_bytes(m, experts_used, side == 0);
}
