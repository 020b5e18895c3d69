/* Carrying a plan out: workers, in any number, take chunks in order until all are done.
 *
 * What is on disk moves through these states, and every one of them can be left by a kill and entered again
 * by the same command:
 *
 *     nothing --begin--> BEGUN --all chunks done, files synced--> WHOLE --names given--> NAMED
 *                          |                                        ^
 *                          +-- RUN_PART: one share of the chunks ---+-- RUN_JOIN: all shares are done
 *
 * BEGUN: the outputs lie under their temporary names at their full size, beside them a journal, or one per
 * part. WHOLE: of several outputs, a record says that only names are left to give (finalize.c); of one,
 * nothing is needed, as it gets its name in one step. NAMED: the outputs have their names; what lies beside
 * them is removed.
 *
 * What holds at any moment, and is relied on below:
 *
 *  1. A file under an output's name is whole. Nothing is written to it, and none is replaced before its
 *     successor is whole and on disk.
 *  2. A chunk that a journal has was on disk before its slot was written (journal.c). work_verify compares its
 *     bytes with the slot's checksum all the same: a disk may lose what it has acknowledged.
 *  3. Bytes of a chunk depend on the plan alone: not on the thread, on what was done before, or on a stop.
 *  4. Each chunk is folded into the losses exactly once, in the order of chunks, whether it was encoded now
 *     or is taken from a journal. So a report does not depend on stops either.
 *  5. A run removes only what it has opened and locked itself. What else lies there may be the work of
 *     others.
 *  6. A failure whose message says what to do (leave_as_is) removes nothing.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/comm/ranks.h"
#include "base/fail.h"
#include "base/relay.h"
#include "base/sized.h"
#include "quantize/plan/rounding.h"
#include "quantize/run/run.h"

/* The mode of a run, decided once in engine_begin() by the request and the files beside the outputs. Only the
 * step to RUN_NAME follows, when all files are whole. */
typedef enum run_mode {
    RUN_FRESH,    /* new files and a new journal */
    RUN_CONTINUE, /* an unfinished run's: chunks that its journal has are looked at, the rest is done */
    RUN_PART,     /* the same of one share, in files that all parts write */
    RUN_JOIN,     /* chunks that the parts' journals have are looked at, none is done */
    RUN_NAME,     /* all files are whole, and journals are only asked for losses */
} run_mode;

typedef struct engine {
    const gq_plan *plan;
    run_mode mode;
    gq_results *results;
    job_progress job;
    schedule schedule;
    double *costs; /* per tensor, of a weight: run_cost_per_weight */
    work_scratches scratches;
    output_set outputs;
    finalize names;
    journal *journals; /* one; of RUN_JOIN one per part */
    uint32_t n_journals;
    syncer syncer;
    cache cache;
    rounding_kept kept;       /* tensors that are rounded ahead; held until the run's end */
    bool *reused;             /* per output and tensor: it is copied from an earlier output */
    uint64_t begin, end;      /* chunks of this run */
    _Atomic bool leave_as_is; /* the failure says what to do: nothing is removed, and nothing more is said */
    pthread_mutex_t opening;
    work_tensor *
        *tensors; /* tensors in work, by number: opened under `opening`, closed when they are folded */
    /* Under the schedule's lock: */
    error_sums error_sums;
    size_t n_closed;
    uint64_t *missing; /* RUN_JOIN: chunks that each part lacks */
} engine;

/* ---- one chunk ---- */

static uint64_t input_bytes(const gq_plan *plan, uint64_t i, uint64_t *weights) {
    const model_tensor *t = plan->sources[chunk_tensor(&plan->chunks, i)].tensor;
    chunk c = chunk_at(&plan->chunks, i, t->ne);
    *weights = c.n;
    return model_bytes_read(t, c.n);
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

static bool is_known(const engine *g, const journal *j, const work_scratch *scratch, work_piece *p) {
    if (g->mode == RUN_FRESH || !journal_find(j, p->number, scratch->sums)) return false;
    if (g->mode == RUN_NAME) return true; /* the files may have their names */
    double began = clock_seconds();
    bool known = work_verify(g->plan, &g->outputs, p->number, scratch);
    p->resuming = clock_seconds() - began;
    return known;
}

/* Opens a tensor. The thread that needs it first opens it; the others wait. */
static const work_tensor *open_tensor(engine *g, size_t number, gq_error *e) {
    pthread_mutex_lock(&g->opening);
    if (!g->tensors[number]) g->tensors[number] = work_tensor_open(g->plan, number, g->reused, e);
    const work_tensor *t = g->tensors[number];
    pthread_mutex_unlock(&g->opening);
    return t;
}

static bool encode_chunk(engine *g, uint64_t i, const work_scratch *scratch, gq_error *e) {
    const work_tensor *t = open_tensor(g, chunk_tensor(&g->plan->chunks, i), e);
    if (!t) return false;
    cache_ahead(&g->cache, i);
    bool done = work_chunk(t, &g->outputs, i, scratch, e);
    cache_read(&g->cache, i);
    return done && syncer_add(&g->syncer, i, scratch->sums, e);
}

static bool do_chunk(void *arg, work_piece *p, gq_error *e) {
    engine *g = arg;
    uint64_t i = p->number, weights, bytes = input_bytes(g->plan, i, &weights);
    const journal *j = &g->journals[journal_of(g, i)];
    work_scratch scratch = work_scratch_in(&g->scratches, p->scratch);
    p->resumed = is_known(g, j, &scratch, p);
    if (!p->resumed && g->mode == RUN_JOIN) return true; /* continue, to be able to say all that is missing */
    if (!p->resumed && g->mode == RUN_NAME) {
        atomic_store(&g->leave_as_is, true);
        return gq_fail(e, "%s is damaged: it lacks chunk %llu; to start afresh remove %s%s", j->path, LLU(i),
                       g->names.path, j->parts ? " and run all parts again" : "");
    }
    if (!p->resumed && !encode_chunk(g, i, &scratch, e)) return false;
    p->bytes = bytes, p->weights = weights;
    p->work = (double)weights * g->costs[chunk_tensor(&g->plan->chunks, i)];
    return true;
}

/* No thread works on a chunk of these any more. */
static void close_tensors(engine *g, size_t end) {
    for (; g->n_closed < end; g->n_closed++) {
        work_tensor_close(g->tensors[g->n_closed]);
        g->tensors[g->n_closed] = NULL;
    }
}

static bool engine_fold_chunk(void *arg, const work_piece *p, gq_error *e) {
    engine *g = arg;
    if (p->weights == 0) return g->missing[journal_of(g, p->number)]++, true;
    bool ok = error_sums_add(&g->error_sums, p->number, work_scratch_in(&g->scratches, p->scratch).sums, e);
    close_tensors(g, g->error_sums.tensor);
    if (g->error_sums.tensor < g->plan->n_tensors)
        g->schedule.progress.tensor = g->plan->sources[g->error_sums.tensor].name;
    return ok;
}

/* ---- before ---- */

static bool open_own_journal(engine *g, bool keep, gq_error *e) {
    g->journals = calloc(1, sizeof *g->journals);
    if (!g->journals) return gq_fail_memory(e, sizeof *g->journals);
    g->journals[0].fd = -1;
    g->n_journals = 1;
    bool ok = journal_open(&g->journals[0], g->plan, keep, e);
    if (g->journals[0].unread) atomic_store(&g->leave_as_is, true);
    return ok;
}

/* All files are whole: the journal is only asked for the losses. */
static bool begin_naming(engine *g, gq_error *e) {
    if (!open_own_journal(g, true, e) || g->journals[0].resumed) return g->journals[0].resumed;
    journal_remove(&g->journals[0]); /* a new one, which says nothing */
    atomic_store(&g->leave_as_is, true);
    return gq_fail(e, "%s, which belongs to %s, is damaged or no longer there; to start afresh remove %s",
                   g->journals[0].path, g->names.path, g->names.path);
}

/* All files are whole. Only a request with the share of the one that made them, which is known by its
 * journals, can give them their names. */
static bool check_share_of_naming(engine *g, gq_error *e) {
    const gq_plan *plan = g->plan;
    bool in_parts;
    if (!journal_has_parts(plan, &in_parts, e)) return false;
    if (plan->share == (in_parts ? SHARE_JOIN : SHARE_WHOLE)) return true;
    atomic_store(&g->leave_as_is, true);
    return gq_fail(e,
                   in_parts ? "all parts of %s are done and it is whole: joining them finishes it"
                            : "all files of %s are whole and only lack their names: repeat the command that "
                              "made them, in one run and not in parts",
                   plan->outputs[0].path);
}

static bool begin_whole(engine *g, gq_error *e) {
    bool all;
    uint32_t parts;
    if (g->mode == RUN_NAME) return check_share_of_naming(g, e) && begin_naming(g, e);
    if (!output_open_old(&g->outputs, &all, e) || !journal_count_parts(g->plan, &parts, e)) return false;
    if (parts)
        return gq_fail(
            e, "%s was started in %u parts: finish these and join them, or remove %s* to start afresh",
            g->plan->outputs[0].path, parts, g->plan->outputs[0].shards[0].temporary);
    if ((!all && !output_create(&g->outputs, e)) || !open_own_journal(g, all, e)) return false;
    g->mode = g->journals[0].resumed ? RUN_CONTINUE : RUN_FRESH;
    return !all || g->mode == RUN_CONTINUE || output_create(&g->outputs, e);
}

static bool begin_part(engine *g, gq_error *e) {
    uint32_t parts;
    if (g->names.whole) return check_share_of_naming(g, e);
    return journal_count_parts(g->plan, &parts, e) && output_open_shared(&g->outputs, e) &&
           open_own_journal(g, true, e);
}

/* A part's journal cannot be opened. Where all files are whole, repeating the command is of no use with one
 * that is damaged or no longer there; one that another process holds is free later. */
static bool fail_part(engine *g, const journal *j, gq_error *e) {
    if (g->mode != RUN_NAME || !j->path || (j->fd < 0 && access(j->path, F_OK) == 0)) return false;
    atomic_store(&g->leave_as_is, true);
    return gq_fail_again(e, e, "%s; to start afresh remove %s and run all parts again", e->text,
                         g->names.path);
}

static bool begin_join(engine *g, gq_error *e) {
    bool all = true;
    uint32_t parts;
    if (g->mode == RUN_NAME && !check_share_of_naming(g, e)) return false;
    if (!journal_count_parts(g->plan, &parts, e)) return false;
    if (g->mode != RUN_NAME && !output_open_old(&g->outputs, &all, e)) return false;
    if (parts == 0)
        return gq_fail(e, "there is nothing to join for %s: its parts have not been started",
                       g->plan->outputs[0].path);
    if (!all)
        return gq_fail(e,
                       "%s cannot be joined: what its %u parts have written is missing or too short; run all "
                       "parts again",
                       g->plan->outputs[0].path, parts);
    g->journals = calloc(parts, sizeof *g->journals);
    g->missing = calloc(parts, sizeof *g->missing);
    if (!g->journals || !g->missing) return gq_fail_memory(e, parts * sizeof *g->journals);
    for (uint32_t k = 0; k < parts; k++) { /* untouched memory costs nothing, whatever the number in a name */
        g->n_journals = k + 1;
        if (!journal_open_part(&g->journals[k], g->plan, k + 1, parts, e))
            return fail_part(g, &g->journals[k], e);
    }
    return true;
}

static bool does_work(const engine *g) { return g->mode != RUN_JOIN && g->mode != RUN_NAME; }

/* Finds what the chunks cost, as far as it is known what is copied from earlier outputs. */
static void engine_count_work(engine *g) {
    const gq_plan *plan = g->plan;
    uint64_t weights;
    for (size_t i = 0; i < plan->n_tensors; i++) g->costs[i] = run_cost_per_weight(plan, i, g->reused);
    g->schedule.work = 0, g->schedule.progress.bytes_total = 0;
    for (uint64_t i = g->begin; i < g->end; i++) {
        g->schedule.progress.bytes_total += input_bytes(plan, i, &weights);
        g->schedule.work += (double)weights * g->costs[chunk_tensor(&plan->chunks, i)];
    }
}

static bool engine_begin(engine *g, gq_error *e) {
    const gq_plan *plan = g->plan;
    static const run_mode modes[] = {
        [SHARE_WHOLE] = RUN_FRESH, [SHARE_PART] = RUN_PART, [SHARE_JOIN] = RUN_JOIN};
    g->mode = modes[plan->share]; /* till more is known */
    journal_range(plan, plan->part, plan->share == SHARE_PART ? plan->parts : 0, &g->begin, &g->end);
    if (!output_new(&g->outputs, plan, e) || !output_all_may_grow(&g->outputs, e) ||
        !finalize_open(&g->names, &g->outputs, e))
        return false;
    if (g->names.whole && plan->share != SHARE_PART) g->mode = RUN_NAME;
    static bool (*const begins[])(engine *, gq_error *) = {
        [SHARE_WHOLE] = begin_whole, [SHARE_PART] = begin_part, [SHARE_JOIN] = begin_join};
    if (!begins[plan->share](g, e) || (does_work(g) && !output_reserve(&g->outputs, e))) return false;
    g->tensors = calloc(plan->n_tensors + 1, sizeof *g->tensors);
    g->costs = calloc(plan->n_tensors + 1, sizeof *g->costs);
    if (!g->tensors || !g->costs) return gq_fail_memory(e, plan->n_tensors * sizeof *g->tensors);
    work_scratches_measure(&g->scratches, plan);
    if (!schedule_start(&g->schedule, plan->threads, g->scratches.bytes, &g->job.relay.own, e) ||
        !error_sums_new(&g->error_sums, plan, g->results, &g->job.relay.to, g->begin, e) ||
        !cache_new(&g->cache, plan, g->begin, g->end, e))
        return false;
    engine_count_work(g);
    if (does_work(g)) syncer_start(&g->syncer, &g->outputs, &g->journals[0], &g->cache);
    return true;
}

/* ---- after ---- */

static bool check_join(const engine *g, gq_error *e) {
    for (uint32_t k = 0; k < g->n_journals && g->missing; k++) {
        unsigned long long missing = g->missing[k], all = g->journals[k].end - g->journals[k].begin;
        if (missing)
            return gq_fail(
                e, "part %u of %u is not finished: %llu of its %llu chunks missing or damaged; run it again",
                k + 1, g->n_journals, missing, all);
    }
    return true;
}

static void engine_remove_kept(const engine *g) {
    const rounding_kind *k = g->plan->rounding->kind;
    if (k->remove_kept) k->remove_kept(&g->kept);
}

/* Finished chunks outlive a failure that is not the input's fault; say so. What is not worth keeping goes, if
 * this run has opened and locked it: anything else may be the work of others. */
static void keep_or_remove(engine *g, bool bad_input, gq_error *e) {
    const gq_plan *plan = g->plan;
    if (atomic_load(&g->leave_as_is)) return;
    if (g->mode == RUN_NAME) {
        gq_fail_again(
            e, e, "%s; all files are whole and only lack their names: the same command continues from there",
            e->text);
        return;
    }
    if (g->mode == RUN_JOIN) return;
    const journal *j = g->n_journals ? &g->journals[0] : NULL;
    if (!bad_input && j && output_still_there(&g->outputs) &&
        (j->resumed || g->syncer.recorded > 0 || g->kept.finished > 0)) {
        gq_fail_again(e, e, "%s; finished work is kept in %s, and the same command continues from there",
                      e->text, plan->outputs[0].shards[0].temporary);
        return;
    }
    uint32_t others = 0;
    if (j) journal_remove(j);
    engine_remove_kept(g);
    if (g->mode == RUN_PART &&
        (!journal_count_parts(plan, &others, NULL) || others || !output_alone(&g->outputs)))
        return;
    output_remove(&g->outputs, bad_input || g->mode == RUN_PART);
}

/* One file gets its name in one step; several need a record of what is left to do. */
static bool give_names(engine *g, gq_error *e) {
    if (g->outputs.n == 1) return output_give_name(&g->outputs, e);
    if (g->mode != RUN_NAME && !finalize_record(&g->names, e)) return false;
    g->mode = RUN_NAME;
    return finalize_rename_all(&g->names, e);
}

static bool engine_finish(engine *g, gq_error *e) {
    if (!check_join(g, e)) return false;
    if (g->mode == RUN_PART) return true;
    if (g->mode != RUN_NAME && !output_complete(&g->outputs, g->results, e)) return false;
    if (!give_names(g, e)) return false;
    if (!finalize_remove(&g->names)) return true; /* the record would be taken up without its journals */
    engine_remove_kept(g);
    for (uint32_t k = 0; k < g->n_journals; k++) journal_remove(&g->journals[k]);
    journal_remove_all(g->plan->outputs[0].shards[0].path);
    rounding_clean_up(g->plan, 0); /* also where this output has replaced one that was rounded ahead */
    return true;
}

static void engine_release(engine *g) {
    for (uint32_t k = 0; k < g->n_journals; k++) journal_close(&g->journals[k]);
    free(g->journals), free(g->missing);
    const rounding_kind *k = g->plan->rounding->kind;
    if (k->close_kept) k->close_kept(&g->kept);
    finalize_close(&g->names);
    output_free(&g->outputs);
    if (g->tensors) close_tensors(g, g->plan->n_tensors);
    free(g->tensors), free(g->costs), free(g->reused);
    pthread_mutex_destroy(&g->opening);
    error_sums_free(&g->error_sums);
    cache_free(&g->cache);
    schedule_end(&g->schedule);
}

/* ---- what is rounded ahead ---- */

static bool engine_write(void *data, size_t output, size_t tensor, uint64_t offset, const void *bytes,
                         size_t n, gq_error *e) {
    const engine *g = data;
    const plan_place *place = &g->plan->outputs[output].places[tensor];
    return output_write(&g->outputs, output, place->shard, place->offset + offset, bytes, n, e);
}

static bool engine_read(void *data, size_t output, size_t tensor, uint64_t offset, void *to, size_t n,
                        gq_error *e) {
    const engine *g = data;
    const plan_place *place = &g->plan->outputs[output].places[tensor];
    return output_read(&g->outputs, output, place->shard, place->offset + offset, to, n, e);
}

static bool engine_sync(void *data, gq_error *e) { return output_sync(&((engine *)data)->outputs, e); }

static bool engine_round(engine *g, double seconds, gq_error *e) {
    double began = clock_seconds();
    if (!rounding_runs_ahead(g->plan)) return true;
    const gq_callbacks *callbacks = job_progress_stage(&g->job, seconds);
    bool written = g->mode == RUN_NAME;
    const rounding_store store = {engine_write, written ? NULL : engine_read, engine_sync, g};
    bool ok = g->plan->rounding->kind->run(g->plan, &store, written, g->results, callbacks, &g->kept, e);
    /* The skipped part says nothing about the speed of the rest. */
    g->schedule.before += clock_seconds() - began;
    return ok;
}

/* Looks which tensors earlier outputs have. */
static bool engine_reuse(engine *g, double seconds, gq_error *e) {
    double began = clock_seconds();
    if (!does_work(g) || !g->plan->n_reused) return true;
    const gq_callbacks *callbacks = job_progress_stage(&g->job, seconds);
    g->reused = reuse_check(g->plan, g->begin, g->end, callbacks, g->results, e);
    g->schedule.before += clock_seconds() - began;
    if (g->reused) engine_count_work(g);
    return g->reused;
}

/* Does the stages of the work. Looking at what may be reused takes a part of encoding it. */
static bool engine_work(engine *g, gq_error *e) {
    static const double REUSE_SHARE = 1. / 8;
    const schedule_job chunks = {g->begin, g->end, do_chunk, engine_fold_chunk, g};
    bool works = does_work(g);
    double seconds = g->schedule.work / threads_pool_most(g->schedule.pool),
           reuse = works && g->plan->n_reused ? REUSE_SHARE * seconds : 0,
           ahead = works ? rounding_seconds_left(g->plan) : 0;
    g->job.all = ahead + reuse + seconds;
    if (ahead > 0) g->job.expected = g->plan->rounding->facts->seconds_expected;
    if (!engine_round(g, ahead, e) || !engine_reuse(g, reuse, e)) return false;
    job_progress_stage(&g->job, seconds);
    return schedule_run(&g->schedule, &chunks, e);
}

static bool engine_run(engine *g, const gq_callbacks *callbacks, gq_error *e) {
    double started = clock_seconds();
    job_progress_begin(&g->job, callbacks, 0);
    bool ok = engine_begin(g, e), bad_input = false;
    if (ok) {
        g->schedule.started = started;
        ok = engine_work(g, e);
        warnings_add_threads(&g->results->warnings, threads_pool_count(g->schedule.pool), NULL);
        results_warn_of_zeros(g->results, g->plan, NULL);
        bad_input = !ok && (e->status == GQ_BAD_WEIGHTS || !model_unchanged(&g->plan->model, NULL));
    }
    /* A single file is synced when it gets its name; what may be continued, or has several, is recorded now. */
    bool record = ok ? g->mode == RUN_PART || g->outputs.n > 1 : !bad_input;
    bool kept = syncer_stop(&g->syncer, record, ok ? e : NULL);
    if (ok && g->mode != RUN_NAME && !model_unchanged(&g->plan->model, e)) ok = false, bad_input = true;
    ok = ok && kept && plan_reused_unchanged(g->plan, e) && engine_finish(g, e);
    if (ok) job_progress_end(&g->job);
    g->results->progress = g->schedule.progress;
    g->results->progress.seconds = clock_seconds() - started;
    g->results->progress.tensor = NULL;
    if (!ok) keep_or_remove(g, bad_input, e);
    engine_release(g);
    return ok;
}

bool gq_run(const gq_plan *plan, const gq_callbacks *callbacks, gq_results **results, gq_error *e) {
    gq_error unused;
    gq_callbacks called;
    if (!e) e = &unused;
    if (results) *results = NULL;
    if (!SIZED_TAKE(called, callbacks, e)) return false;
    engine g = {.plan = plan, .results = results_new(plan, e), .opening = PTHREAD_MUTEX_INITIALIZER};
    bool ok = g.results && (comm_is_first(plan->comm) ? engine_run(&g, &called, e)
                            : rounding_runs_ahead(plan)
                                ? plan->rounding->kind->run(plan, NULL, false, NULL, &called, NULL, e)
                                : true);
    ok = gq_comm_agree(plan->comm, ok, e);
    if (results)
        *results = g.results;
    else
        gq_results_free(g.results);
    return ok;
}
