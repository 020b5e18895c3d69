/* Runs models over a text, one layer at a time. sweep_open makes the thread pool and a stream for each model
 * (forward/stream/stream.h), whose hidden states lie in memory, in a file without a name, or in the slots of the
 * checkpoint. sweep_run then does the steps that the checkpoint does not have yet: it reads a layer of one model,
 * lets all streams of that model pass, and continues with the next model. When all have passed, the caller may hand
 * out a record, and the checkpoint gets it together with the checksums of the states. A layer is read once per step
 * and model, however many streams use it, and only one model's layer is in memory. Ranks do the steps at the same
 * time, each for its windows; rank 0 alone writes the checkpoint's records. What is done with a layer (inputs
 * collected, matrices rounded, copies compared) is the caller's business, through sweep_calls. */
#include "study/sweep/sweep.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/checksum.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/relay.h"
#include "forward/graph/draft/draft.h"
#include "forward/stream/head.h"

/* ---- progress ---- */

static uint64_t bytes_of(double work) { return work > 0 ? (uint64_t)work : 0; }

sweep_progress sweep_progress_start(const gq_callbacks *callbacks, double work, double done,
                                    uint64_t tokens) {
    sweep_progress p = {.callbacks = callbacks,
                        .started = clock_seconds(),
                        .work = work,
                        .done = done,
                        .resumed = done,
                        .begin = done,
                        .end = work,
                        .next = done,
                        .limit = work};
    p.progress = (gq_progress){.size = sizeof p.progress,
                               .bytes_total = bytes_of(work),
                               .bytes_done = bytes_of(done),
                               .bytes_resumed = bytes_of(done),
                               .tokens = tokens};
    return p;
}

void sweep_progress_span(sweep_progress *p, double begin, double end) {
    p->done = fmax(p->done, fmin(begin, p->work));
    p->begin = p->next = p->done;
    p->end = p->limit = fmax(p->begin, fmin(end, p->work));
}

void sweep_progress_piece(sweep_progress *p, double work) {
    p->begin = p->next;
    p->end = p->next = fmin(p->begin + work, p->limit);
    p->done = fmax(p->done, p->begin);
}

static void progress_send(sweep_progress *p, const char *what) {
    const gq_callbacks *calls = p->callbacks;
    if (!calls || !calls->progress) return;
    /* Sums of parts may miss the whole by their rounding. */
    static const double NEARLY = 1 - 1e-9;
    p->progress.bytes_done = p->done < NEARLY * p->work ? bytes_of(p->done) : p->progress.bytes_total;
    p->progress.seconds = clock_seconds() - p->started;
    p->progress.tensor = what;
    share_set(&p->progress, p->done, p->resumed, p->work);
    calls->progress(calls->user, &p->progress);
}

void sweep_progress_within(sweep_progress *p, double share, const char *what) {
    p->done = fmax(p->done, p->begin + fmin(share, 1) * (p->end - p->begin));
    progress_send(p, what);
}

bool sweep_progress_report(void *data, double work, const char *what, gq_error *e) {
    sweep_progress *p = data;
    const gq_callbacks *calls = p->callbacks;
    p->done = fmax(p->done, fmin(p->done + work, p->end));
    progress_send(p, what);
    if (!calls || !calls->cancelled || !calls->cancelled(calls->user)) return true;
    return gq_fail_as(e, GQ_INTERRUPTED, "stopped on request");
}

bool sweep_ask(void *data, gq_error *e) {
    const sweep *s = data;
    return sweep_progress_report(s->progress, 0, s->what, e);
}

void sweep_report(void *data, double share) {
    const sweep *s = data;
    sweep_progress_within(s->progress, share, s->what);
}

static bool report_forward(void *data, double work, const char *what, gq_error *e) {
    sweep *s = data;
    const sweep_plan *p = s->plan;
    double unit = s->step < sweep_steps(p) ? p->progress.layer_work : p->progress.logits_work;
    return sweep_progress_report(s->progress, unit > 0 ? work * unit : work,
                                 p->progress.within ? s->what : what, e);
}

void sweep_name_phase(sweep *s, const char *phase) {
    snprintf(s->what + s->what_step, sizeof s->what - s->what_step, ", %s", phase);
}

/* ---- the text ---- */

void text_share_take(text_share *t, gq_comm *comm, bool read_once) {
    size_t n = t->job.windows, context = t->job.context;
    int rank = gq_comm_rank(comm);
    t->comm = comm, t->read_once = comm && read_once, t->all_windows = n;
    t->first_window = windows_share(comm, n, context, rank);
    t->job.windows = windows_share(comm, n, context, rank + 1) - t->first_window;
    t->job.ids += t->first_window * context;
    t->job.marks = forward_job_marks(&t->job, t->first_window);
    t->job.masked = forward_job_masked(&t->job, t->first_window);
    t->idle = !t->job.windows;
}

/* ---- layers that rank 0 reads for all ---- */

static bool share_layer(void *data, void *bytes, size_t n, gq_error *e) {
    const sweep *s = data;
    return comm_broadcast(s->plan->text.comm, bytes, n, e);
}

bool sweep_skip_layer(const sweep *s, const forward_model *m, gq_error *e) {
    uint64_t n = forward_layer_bytes(m, s->layer, s->plan->text.bounds.layer);
    void *bytes = s->job.share ? memory_lines(1, n, e) : NULL;
    bool ok = !s->job.share || (bytes && comm_broadcast(s->plan->text.comm, bytes, n, e));
    free(bytes);
    return ok;
}

bool sweep_agree_layer(gq_comm *comm, bool read_once, uint64_t *layer, gq_error *e) {
    uint64_t least = *layer ? *layer : UINT64_MAX;
    if (!comm || !read_once) return true;
    if (!comm_least(comm, &least, e)) return false;
    *layer = least == UINT64_MAX ? 0 : least;
    return true;
}

/* ---- the streams ---- */

static uint64_t window_bytes_of(const sweep *s, size_t stream, size_t windows) {
    return forward_stream_bytes(s->plan->models[stream], windows, s->job.context);
}

static uint64_t slot_bytes(const sweep *s, size_t stream) {
    return window_bytes_of(s, stream, s->job.windows * forward_job_loops(&s->job));
}

/* Bytes of a slot with the windows of all ranks. */
static uint64_t whole_slot_bytes(const sweep *s, size_t stream) {
    return window_bytes_of(s, stream, s->plan->text.all_windows * forward_job_loops(&s->job));
}

/* The first window of a rank's share. */
static size_t share_begin(const sweep *s, int rank) {
    return windows_share(s->plan->text.comm, s->plan->text.all_windows, s->job.context, rank);
}

static bool open_hidden_states(sweep *s, gq_error *e) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < s->plan->n_streams; i++) bytes = add_sat(bytes, slot_bytes(s, i));
    s->hidden_states_fd = hidden_state_slots_open(s->plan->folder, bytes, e);
    return s->hidden_states_fd >= 0;
}

/* Chooses the file for the first stream's hidden states; without a descriptor they stay in memory. */
static bool choose_keep(sweep *s, hidden_state_slots *keep, gq_error *e) {
    const sweep_plan *p = s->plan;
    *keep = (hidden_state_slots){.fd = -1, .slots = 1};
    if (p->checkpoint)
        *keep = (hidden_state_slots){
            .fd = p->checkpoint->fd, .path = p->checkpoint->path, .at = checkpoint_slots(), .slots = 2};
    if (p->checkpoint || !p->text.bounds.in_file || !p->folder) return true;
    if (!open_hidden_states(s, e)) return false;
    keep->fd = s->hidden_states_fd, keep->path = p->folder;
    return true;
}

/* The part of a stream's slots that this rank's windows have, in a file that has those of all ranks. */
static hidden_state_slots keep_of_rank(const sweep *s, size_t stream, hidden_state_slots keep) {
    if (!s->plan->text.comm || !s->plan->checkpoint) return keep;
    keep.at += window_bytes_of(s, stream, share_begin(s, gq_comm_rank(s->plan->text.comm)));
    keep.all_windows = s->plan->text.all_windows;
    return keep;
}

static bool open_streams(sweep *s, gq_error *e) {
    const sweep_plan *p = s->plan;
    hidden_state_slots keep;
    if (!choose_keep(s, &keep, e)) return false;
    for (size_t i = 0; i < p->n_streams; i++) {
        bool is_run = !p->absent || !p->absent[i];
        hidden_state_slots own = !i && p->first ? *p->first : keep_of_rank(s, i, keep);
        if (is_run && !(s->streams[i] = forward_stream_new(s->run, p->models[i],
                                                           own.fd >= 0 && !p->text.idle ? &own : NULL, e)))
            return false;
        keep.at = add_sat(keep.at,
                          mul_sat(keep.slots, own.all_windows ? whole_slot_bytes(s, i) : slot_bytes(s, i)));
    }
    return true;
}

bool sweep_open(sweep *s, const sweep_plan *p, gq_error *e) {
    *s = (sweep){.plan = p, .job = p->text.job, .what = "embedding", .hidden_states_fd = -1};
    s->own = sweep_progress_start(p->progress.callbacks, p->progress.work, p->progress.done,
                                  s->job.windows * s->job.context);
    s->own.progress.seconds_expected = p->progress.seconds_expected;
    if (p->progress.started > 0)
        s->own.started = p->progress.started, s->own.progress.bytes_resumed = 0, s->own.resumed = 0;
    s->progress = p->progress.within ? p->progress.within : &s->own;
    s->job.progress = report_forward, s->job.data = s;
    if (p->text.read_once && p->text.comm)
        s->job.share = share_layer, s->job.awaits = !comm_is_first(p->text.comm);
    s->streams = calloc(p->n_streams, sizeof(forward_stream *));
    if (!s->streams) return gq_fail_memory(e, p->n_streams * sizeof(forward_stream *));
    if (!s->job.windows) return true;
    s->run = forward_run_new(&s->job, &p->text.bounds, e);
    return s->run && open_streams(s, e);
}

threads_pool *sweep_pool(const sweep *s) { return s->run ? forward_run_pool(s->run) : NULL; }

threads_count sweep_threads(const sweep *s) { return threads_pool_count(sweep_pool(s)); }

void sweep_close(sweep *s) {
    for (size_t i = 0; s->streams && i < s->plan->n_streams; i++) forward_stream_free(s->streams[i]);
    forward_run_free(s->run);
    if (s->plan && s->hidden_states_fd >= 0) close(s->hidden_states_fd);
    free(s->streams);
    *s = (sweep){.plan = NULL};
}

/* ---- steps ---- */

/* Notes what this rank has sent for the first layer it does, to be told from then on. */
static void sweep_note_sent(sweep *s, size_t done, uint64_t before) {
    if (s->step != done || s->step >= s->plan->n_layers || gq_comm_ranks(s->plan->text.comm) == 1) return;
    s->progress->progress.sent_layer = gq_comm_bytes_sent(s->plan->text.comm) - before;
}

size_t sweep_steps(const sweep_plan *p) { return p->n_layers + (p->output || p->mtp_layers); }

/* Gives each stream its hidden states before the first step to be done: those that an earlier run left, or the
 * embedding's, as those of an idle rank do not matter. */
static bool start_streams(sweep *s, size_t done, const sweep_calls *calls, gq_error *e) {
    if (!done && calls->before) return calls->before(calls->data, e);
    for (size_t i = 0; i < s->plan->n_streams; i++) {
        forward_stream *stream = s->streams[i];
        bool is_done = !i && s->plan->is_first_done;
        unsigned slot = is_done ? 0 : done % 2;
        if (stream && !(is_done || (done && !s->plan->text.idle) ? forward_stream_resume(stream, slot, e)
                                                                 : forward_stream_embed(stream, NULL, e)))
            return false;
    }
    return true;
}

/* Lets streams i to end - 1, all of one model, pass its layer, or reach the output matrix (l: NULL). */
static bool sweep_pass_layer(sweep *s, size_t i, size_t end, forward_layer *l, const sweep_calls *calls,
                             gq_error *e) {
    if (calls->on) return calls->on(calls->data, l, e);
    if (!s->run) return true;
    for (; i < end; i++) {
        if (!s->streams[i]) continue;
        if (!(l ? forward_stream_pass(s->streams[i], l, FORWARD_WHOLE, calls->observer, e)
                : forward_stream_final(s->streams[i], calls->observer, e)))
            return false;
    }
    return true;
}

/* Records in the checkpoint that a layer is about to overwrite states. No rank writes any before that. */
static bool begin_layer(sweep *s, gq_error *e) {
    const sweep_plan *p = s->plan;
    return !p->checkpoint || ((!comm_is_first(p->text.comm) || checkpoint_begin(p->checkpoint, e)) &&
                              comm_meet(p->text.comm, e));
}

/* Whether the next layer is one of the model's next loop. Where some of its blocks are not run it need not be
 * the first of these. */
static bool sweep_ends_loop(const sweep *s, const forward_model *m) {
    const sweep_plan *p = s->plan;
    size_t blocks = forward_model_sizes(m)->blocks, next = s->step + 1;
    return next < p->n_layers && p->numbers[next] / blocks != s->layer / blocks;
}

/* Streams from i on that share a model go through its layers together: returns the one behind the last of them. */
static size_t streams_alike(const sweep_plan *p, size_t i) {
    size_t end = i + 1;
    while (end < p->n_streams && p->models[end] == p->models[i]) end++;
    return end;
}

/* One model's layer is in memory at a time. */
static bool do_models(sweep *s, bool is_layer, const sweep_calls *calls, gq_error *e) {
    const sweep_plan *p = s->plan;
    for (size_t i = 0, end; i < p->n_streams; i = end) {
        const forward_model *m = p->models[i];
        forward_layer *l = NULL;
        end = streams_alike(p, i);
        if (is_layer && (s->layer >= forward_model_sizes(m)->layers || (!i && p->is_first_done))) continue;
        if (is_layer && !s->run && !sweep_skip_layer(s, m, e)) return false;
        if (is_layer && s->run && !(l = forward_run_layer(s->run, m, s->layer, e))) return false;
        if (l && p->numbers) forward_layer_end_loop(l, sweep_ends_loop(s, m));
        if (is_layer && !begin_layer(s, e)) return false;
        if (!sweep_pass_layer(s, i, end, l, calls, e)) return false;
    }
    return true;
}

/* Lets streams i to end - 1, all of one model, pass its MTP layers. */
static bool sweep_pass_mtp_layers(sweep *s, size_t i, size_t end, const sweep_calls *calls, gq_error *e) {
    const forward_model *m = s->plan->models[i];
    bool ok = true;
    for (size_t k = 0; ok && k < forward_model_mtp_layers(m); k++) {
        const forward_model *mtp = forward_model_mtp_layer(m, k);
        forward_layer *l = NULL;
        s->layer = forward_mtp_layer(mtp);
        for (size_t n = i; n < end; n++)
            if (s->streams[n]) forward_stream_mtp(s->streams[n], mtp);
        ok = s->run ? (l = forward_run_layer(s->run, mtp, s->layer, e)) != NULL : sweep_skip_layer(s, mtp, e);
        ok = ok && sweep_pass_layer(s, i, end, l, calls, e);
    }
    for (; i < end; i++)
        if (s->streams[i]) forward_stream_mtp(s->streams[i], NULL);
    return ok;
}

static bool do_mtp_layers(sweep *s, const sweep_calls *calls, gq_error *e) {
    const sweep_plan *p = s->plan;
    snprintf(s->what, sizeof s->what, "MTP layers");
    s->what_step = strlen(s->what);
    for (size_t i = 0, end; i < p->n_streams; i = end) {
        end = streams_alike(p, i);
        if (!sweep_pass_mtp_layers(s, i, end, calls, e)) return false;
    }
    return true;
}

/* Makes the checksums of whole slots from those of the ranks' windows, loop by loop. own: of this rank's, for
 * each stream its loops. */
static bool join_sums(const sweep *s, const uint64_t *own, uint64_t *sums, gq_error *e) {
    const sweep_plan *p = s->plan;
    size_t ranks = (size_t)gq_comm_ranks(p->text.comm), loops = forward_job_loops(&s->job),
           n = p->n_streams * loops;
    uint64_t *all = calloc(ranks * n, sizeof *all);
    bool ok = all || gq_fail_memory(e, ranks * n * sizeof *all);
    ok = ok && comm_exchange(p->text.comm, own, all, n, e);
    for (size_t i = 0; ok && i < n * ranks; i++) {
        size_t rank = i % ranks, of = i / ranks, stream = of / loops; /* in the order of the slot */
        size_t windows =
            p->text.comm ? share_begin(s, (int)rank + 1) - share_begin(s, (int)rank) : s->job.windows;
        uint64_t more = all[rank * n + of], *sum = &sums[stream];
        if (!windows || !more) continue;
        if (*sum)
            more = UINT64_C(1) << 32 |
                   checksum_join((uint32_t)*sum, (uint32_t)more, window_bytes_of(s, stream, windows));
        *sum = more;
    }
    free(all);
    return ok;
}

/* Makes the hidden states of all ranks safe; rank 0 then adds the record. */
static bool keep_record(sweep *s, const uint64_t *own, uint64_t *sums, const sweep_record *r, gq_error *e) {
    const sweep_plan *p = s->plan;
    bool last = s->step + 1 == sweep_steps(p);
    if ((p->text.comm && !checkpoint_sync(p->checkpoint, e)) || !join_sums(s, own, sums, e)) return false;
    if (comm_is_first(p->text.comm))
        return checkpoint_add(p->checkpoint, last ? NULL : sums, r->bytes, r->n, e);
    return p->checkpoint->finished++, true;
}

/* Adds the step to the checkpoint. After the last step no hidden states are needed, so their checksums are left
 * out. */
static bool keep_step(sweep *s, const sweep_record *r, gq_error *e) {
    const sweep_plan *p = s->plan;
    size_t loops = forward_job_loops(&s->job);
    uint64_t *sums = calloc(p->n_streams * (1 + loops), sizeof *sums);
    if (!sums) return gq_fail_memory(e, p->n_streams * (1 + loops) * sizeof *sums);
    uint64_t *own = sums + p->n_streams;
    for (size_t i = 0; i < p->n_streams * loops; i++)
        own[i] = s->streams[i / loops] ? forward_stream_sum(s->streams[i / loops], i % loops) : 0;
    bool ok = keep_record(s, own, sums, r, e);
    free(sums);
    return ok;
}

static bool end_step(sweep *s, const sweep_calls *calls, gq_error *e) {
    sweep_record r = {.n = 0};
    bool ok =
        (!calls->after || calls->after(calls->data, &r, e)) && (!s->plan->checkpoint || keep_step(s, &r, e));
    free(r.bytes);
    return ok;
}

bool sweep_run(sweep *s, const sweep_calls *calls, gq_error *e) {
    const sweep_plan *p = s->plan;
    size_t done = p->checkpoint ? p->checkpoint->finished : 0, steps = sweep_steps(p);
    if (done == steps) return true;
    if (!start_streams(s, done, calls, e)) return false;
    for (s->step = done; s->step < steps; s->step++) {
        bool is_layer = s->step < p->n_layers;
        s->layer = p->numbers && is_layer ? p->numbers[s->step] : s->step;
        if (is_layer)
            snprintf(s->what, sizeof s->what, "layer %zu of %zu", s->step + 1, p->n_layers);
        else
            snprintf(s->what, sizeof s->what, "the output matrix");
        s->what_step = strlen(s->what);
        uint64_t before = gq_comm_bytes_sent(p->text.comm);
        if (((is_layer || p->output) && !do_models(s, is_layer, calls, e)) ||
            (!is_layer && p->mtp_layers && !do_mtp_layers(s, calls, e)) || !end_step(s, calls, e))
            return false;
        sweep_note_sent(s, done, before);
    }
    return true;
}
