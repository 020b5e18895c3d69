/* Carrying a plan out: workers, in any number, take chunks in order until all are done. */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "quantize/run/cache.h"
#include "quantize/run/journal.h"
#include "quantize/run/keeper.h"
#include "quantize/run/names.h"
#include "quantize/run/output.h"
#include "quantize/run/tally.h"
#include "quantize/run/work.h"
#include "quantize/workers.h"

typedef struct engine {
    gq_plan *plan;
    const gq_callbacks *callbacks;
    output_set outputs;
    names names;
    journal *journals; /* one, or with --join one per part */
    uint32_t n_journals;
    keeper keeper;
    cache cache;
    uint64_t begin, end; /* chunks of this run */
    _Atomic uint64_t next;
    _Atomic bool stop;
    pthread_mutex_t lock; /* over all that follows, and over callbacks */
    tally tally;
    gq_progress progress;
    double started;
    double resuming; /* seconds of all workers together */
    _Atomic int workers;
    uint64_t *missing; /* --join: chunks that each part lacks */
    work_status status;
    gq_error error; /* of the lowest chunk that failed */
    uint64_t failed_at;
} engine;

static double seconds_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- one chunk ---- */

/* Chunks are handed out in order and those in hand are finished, so the lowest chunk that fails is the same
 * for any number of threads; its error is the one reported. */
static void stop_at(engine *g, uint64_t i, work_status status, const gq_error *error) {
    pthread_mutex_lock(&g->lock);
    if (i < g->failed_at) g->failed_at = i, g->status = status, g->error = *error;
    pthread_mutex_unlock(&g->lock);
    atomic_store(&g->stop, true);
}

static uint64_t input_bytes(const gq_plan *plan, uint64_t i, uint64_t *weights) {
    const gguf_tensor *t = plan->sources[chunk_tensor(&plan->chunks, i)].tensor;
    chunk c = chunk_at(&plan->chunks, i, t->ne);
    *weights = c.n;
    return gguf_type_bytes(t->type, c.n);
}

/* The journal that would know of a chunk: journals are in the order of their shares. */
static uint32_t journal_of(const engine *g, uint64_t i) {
    uint32_t low = 0, high = g->n_journals;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (g->journals[middle].begin <= i)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static bool count_done(engine *g, uint64_t i, const work_room *room, bool known, gq_error *e) {
    uint64_t weights, bytes = input_bytes(g->plan, i, &weights);
    if (!known && !keeper_add(&g->keeper, i, room->sums, e)) return false;
    pthread_mutex_lock(&g->lock);
    bool ok = tally_add(&g->tally, i, room->sums, e);
    gq_progress *p = &g->progress;
    p->bytes_done += bytes, p->weights_done += weights;
    if (known) p->bytes_resumed += bytes, p->weights_resumed += weights;
    p->seconds = seconds_now() - g->started;
    p->seconds_resumed = g->resuming / g->workers;
    if (g->tally.tensor < g->plan->n_tensors) p->tensor = g->plan->sources[g->tally.tensor].name;
    if (g->callbacks && g->callbacks->progress) g->callbacks->progress(g->callbacks->user, p);
    pthread_mutex_unlock(&g->lock);
    return ok;
}

static bool is_known(engine *g, uint64_t i, uint32_t journal_number, work_room *room) {
    const journal *j = &g->journals[journal_number];
    if (g->names.whole) return journal_find(j, i, room->sums); /* the files may have their names already */
    if (!(j->resumed || g->plan->join) || !journal_find(j, i, room->sums)) return false;
    double began = seconds_now();
    bool known = work_verify(g->plan, &g->outputs, i, room);
    pthread_mutex_lock(&g->lock);
    g->resuming += seconds_now() - began;
    pthread_mutex_unlock(&g->lock);
    return known;
}

static void do_chunk(engine *g, uint64_t i, work_room *room) {
    gq_error error = {.status = GQ_OK};
    uint32_t j = journal_of(g, i);
    bool known = is_known(g, i, j, room);
    if (!known && g->plan->join) { /* go on, to be able to say all that is missing */
        pthread_mutex_lock(&g->lock);
        g->missing[j]++;
        pthread_mutex_unlock(&g->lock);
        return;
    }
    work_status status = WORK_DONE;
    if (!known && g->names.whole) {
        gq_fail(&error, "%s is damaged: it lacks chunk %llu", g->journals[j].path, (unsigned long long)i);
        status = WORK_FAILED;
    } else if (!known) {
        cache_ahead(&g->cache, i);
        status = work_chunk(g->plan, &g->outputs, i, room, &error);
        cache_read(&g->cache, i);
    }
    if (status == WORK_DONE && !count_done(g, i, room, known, &error)) status = WORK_FAILED;
    if (status != WORK_DONE) stop_at(g, i, status, &error);
}

static bool is_cancelled(const engine *g) {
    return g->callbacks && g->callbacks->cancelled && g->callbacks->cancelled(g->callbacks->user);
}

static void work(void *arg) {
    engine *g = arg;
    work_room room;
    gq_error error = {.status = GQ_OK};
    g->workers++;
    if (!work_room_new(&room, g->plan, &error)) stop_at(g, g->end, WORK_FAILED, &error);
    while (!atomic_load(&g->stop)) {
        if (is_cancelled(g)) {
            gq_fail(&error, "stopped on request");
            error.status = GQ_INTERRUPTED;
            stop_at(g, g->end, WORK_FAILED, &error);
            break;
        }
        uint64_t i = atomic_fetch_add(&g->next, 1);
        if (i >= g->end) break;
        do_chunk(g, i, &room);
    }
    work_room_free(&room);
}

/* ---- before ---- */

static bool open_own_journal(engine *g, bool keep, gq_error *e) {
    g->journals = calloc(1, sizeof *g->journals);
    if (!g->journals) return gq_fail_memory(e, sizeof *g->journals);
    g->journals[0].fd = -1;
    g->n_journals = 1;
    return journal_open(&g->journals[0], g->plan, keep, e);
}

/* All files are whole: the journal is only asked for the losses. */
static bool begin_naming(engine *g, gq_error *e) {
    if (!open_own_journal(g, true, e) || g->journals[0].resumed) return g->journals[0].resumed;
    g->names.whole = false;
    return gq_fail(e, "%s, which belongs to %s, is damaged or no longer there; to start afresh remove %s",
                   g->journals[0].path, g->names.path, g->names.path);
}

static bool begin_whole(engine *g, gq_error *e) {
    bool all;
    uint32_t parts;
    if (!g->names.whole && !output_open_old(&g->outputs, &all, e)) return false;
    if (!journal_count_parts(g->plan, &parts, e)) return false;
    if (parts)
        return gq_fail(e, "%s has been begun in %u parts: go on with --part and --join, or remove %s*",
                       g->plan->outputs[0].path, parts, g->plan->outputs[0].shards[0].temporary);
    if (g->names.whole) return begin_naming(g, e);
    if ((!all && !output_create(&g->outputs, e)) || !open_own_journal(g, all, e)) return false;
    return !all || g->journals[0].resumed || output_create(&g->outputs, e);
}

static bool begin_part(engine *g, gq_error *e) {
    uint32_t parts;
    if (g->names.whole)
        return gq_fail(e, "all parts of %s are done and it is whole: --join finishes",
                       g->plan->outputs[0].path);
    return journal_count_parts(g->plan, &parts, e) && output_open_shared(&g->outputs, e) &&
           open_own_journal(g, true, e);
}

static bool begin_join(engine *g, gq_error *e) {
    bool all = true;
    uint32_t parts;
    if (!journal_count_parts(g->plan, &parts, e)) return false;
    if (!g->names.whole && !output_open_old(&g->outputs, &all, e)) return false;
    if (parts == 0 || !all)
        return gq_fail(e, "there is nothing to join for %s: its parts have not been started",
                       g->plan->outputs[0].path);
    g->journals = calloc(parts, sizeof *g->journals);
    g->missing = calloc(parts, sizeof *g->missing);
    if (!g->journals || !g->missing) return gq_fail_memory(e, parts * sizeof *g->journals);
    for (uint32_t k = 0; k < parts; k++) { /* untouched memory costs nothing, whatever the number in a name */
        g->n_journals = k + 1;
        if (!journal_open_part(&g->journals[k], g->plan, k + 1, parts, e)) return false;
    }
    return true;
}

static bool begin(engine *g, gq_error *e) {
    gq_plan *plan = g->plan;
    journal_range(plan, plan->part, plan->join ? 0 : plan->parts, &g->begin, &g->end);
    atomic_init(&g->next, g->begin);
    g->failed_at = UINT64_MAX;
    if (!output_new(&g->outputs, plan, e) || !output_all_may_grow(&g->outputs, e) ||
        !names_open(&g->names, &g->outputs, e))
        return false;
    bool ok = plan->join ? begin_join(g, e) : plan->parts ? begin_part(g, e) : begin_whole(g, e);
    bool fresh_work = !plan->join && !g->names.whole;
    if (!ok || (fresh_work && !output_reserve(&g->outputs, e))) return false;
    if (!tally_new(&g->tally, plan, g->callbacks, g->begin, g->end, e) ||
        !cache_new(&g->cache, plan, g->begin, g->end, e))
        return false;
    for (uint64_t i = g->begin, weights; i < g->end; i++)
        g->progress.bytes_total += input_bytes(plan, i, &weights);
    if (fresh_work) keeper_start(&g->keeper, &g->outputs, &g->journals[0], &g->cache);
    return true;
}

/* ---- after ---- */

static bool input_unchanged(const gq_plan *plan, gq_error *e) {
    for (uint32_t i = 0; i < plan->model.n_shards; i++) {
        const gq_file *f = &plan->model.shards[i].file;
        struct stat st;
        if (fstat(f->fd, &st) != 0) return gq_fail(e, "%s: %s", f->path, strerror(errno));
        if ((uint64_t)st.st_size != f->size || st.st_mtim.tv_sec != plan->modified[i].tv_sec ||
            st.st_mtim.tv_nsec != plan->modified[i].tv_nsec)
            return gq_fail(e, "%s was changed while it was being read", f->path);
    }
    return true;
}

static bool check_join(const engine *g, gq_error *e) {
    for (uint32_t k = 0; k < g->n_journals && g->missing; k++) {
        unsigned long long missing = g->missing[k], all = g->journals[k].end - g->journals[k].begin;
        if (missing)
            return gq_fail(e, "part %u of %u is not finished: %llu of its %llu chunks are missing or damaged",
                           k + 1, g->n_journals, missing, all);
    }
    return true;
}

/* Finished chunks outlive a failure that is not the input's fault; say so. What is not worth keeping goes,
 * unless it may be the work of others. */
static void keep_or_remove(engine *g, bool bad_input, gq_error *e) {
    const gq_plan *plan = g->plan;
    gq_status status = e->status;
    if (g->names.whole) {
        gq_fail(e, "%s; all files are whole and only lack their names: the same command goes on from there",
                e->text);
        e->status = status;
        return;
    }
    if (plan->join) return;
    const journal *j = g->n_journals ? &g->journals[0] : NULL;
    if (!bad_input && j && (j->resumed || g->keeper.recorded > 0)) {
        gq_fail(e, "%s; what is done is kept in %s, and the same command goes on from there", e->text,
                plan->outputs[0].shards[0].temporary);
        e->status = status;
        return;
    }
    uint32_t others = 0;
    if (j) journal_remove(j);
    if (plan->parts && (!journal_count_parts(plan, &others, NULL) || others || !output_alone(&g->outputs)))
        return;
    output_remove(&g->outputs, bad_input || plan->parts > 0);
}

/* One file gets its name in one step; several need a record of what is left to do. */
static bool give_names(engine *g, gq_error *e) {
    if (g->outputs.n == 1) return output_give_name(&g->outputs, e);
    return (g->names.whole || names_record(&g->names, e)) && names_give(&g->names, e);
}

static bool finish(engine *g, gq_error *e) {
    if (!check_join(g, e)) return false;
    if (g->plan->parts && !g->plan->join) return true;
    if (!g->names.whole && !output_complete(&g->outputs, e)) return false;
    if (!give_names(g, e)) return false;
    if (!names_remove(&g->names)) return true; /* it would be taken up without its journals */
    for (uint32_t k = 0; k < g->n_journals; k++) journal_remove(&g->journals[k]);
    journal_remove_all(g->plan);
    return true;
}

static void release(engine *g) {
    for (uint32_t k = 0; k < g->n_journals; k++) journal_close(&g->journals[k]);
    free(g->journals), free(g->missing);
    names_close(&g->names);
    output_free(&g->outputs);
    tally_free(&g->tally);
    cache_free(&g->cache);
    pthread_mutex_destroy(&g->lock);
}

bool gq_run(gq_plan *plan, const gq_callbacks *callbacks, gq_error *e) {
    gq_error unused;
    if (!e) e = &unused;
    engine g = {.plan = plan, .callbacks = callbacks, .started = seconds_now()};
    pthread_mutex_init(&g.lock, NULL);
    bool ok = begin(&g, e), bad_input = false;
    if (ok) {
        uint64_t chunks = g.end - g.begin; /* what more threads than these could do is nothing */
        workers_count count = workers_run(
            chunks < (uint64_t)plan->threads ? chunks ? (int)chunks : 1 : plan->threads, work, &g);
        workers_warn(&count, &plan->warnings, NULL);
        ok = g.failed_at == UINT64_MAX;
        if (!ok) *e = g.error;
        bad_input = !ok && (g.status == WORK_BAD_INPUT || !input_unchanged(plan, NULL));
    }
    /* A single file is synced when it gets its name; what may be continued, or has several, is recorded now.
     */
    bool record = ok ? plan->parts > 0 || g.outputs.n > 1 : !bad_input;
    bool kept = keeper_stop(&g.keeper, record, ok ? e : NULL);
    if (ok && !g.names.whole && !input_unchanged(plan, e)) ok = false, bad_input = true;
    ok = ok && kept && finish(&g, e);
    plan->seconds = seconds_now() - g.started;
    if (!ok) keep_or_remove(&g, bad_input, e);
    release(&g);
    return ok;
}
