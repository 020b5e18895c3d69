/* Makes imatrix data from a model and texts: the model is run over them, a layer at a time, and sums of
 * the squares of the inputs of its weights are kept. Making the plan turns the texts into windows, takes
 * this part's share of them, bounds the memory, and identifies the run, so that an interrupted one can be
 * continued. The run is a sweep (study/sweep/sweep.c) to which a collection (study/inputs/collect.c)
 * listens. After each layer its sums become a record of the checkpoint, in the GGUF layout of importance
 * files. At the end the records are merged, and the file is written. So memory holds the sums of one layer
 * while the model runs, and all of them only when it is done.
 *
 * Ranks run the model over their shares of the windows. After each layer rank 0 gets the sums of all and
 * writes the record; all write their hidden states into its checkpoint. Plan and run each end with gq_comm_agree
 * (base/comm/ranks.h says why). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/relay.h"
#include "base/sized.h"
#include "base/threads.h"
#include "codec/codec.h"
#include "forward/graph/draft/draft.h"
#include "forward/graph/layer.h"
#include "forward/products/matmul.h"
#include "forward/stream/stream.h"
#include "gguf/facts.h"
#include "imatrix/imatrix.h"
#include "quantize/plan/plan.h"
#include "quantize/quantize.h"
#include "study/inputs/inputs.h"
#include "study/sweep/sweep.h"

struct gq_importance_plan {
    model_source file;
    forward_model *model;
    const forward_sizes *sizes;
    char *out, architecture[128];
    bool dat, force, output, is_there;
    matmul_arithmetic arithmetic;
    uint32_t *ids;       /* of all texts' windows, */
    forward_mark *marks; /* and their marks, where the text is of conversations */
    imatrix about;       /* the texts' names, numbers of windows; no entries */
    text_share share;
    collection_sizes collected;
    checkpoint_header header;
    gq_importance_facts facts;
    warning_list warnings;
};

/* ---- texts ---- */

static bool add_windows(gq_importance_plan *p, text_windows *w, gq_error *e) {
    size_t before = p->share.job.windows * w->context, n = w->n * w->context;
    uint32_t *ids = realloc(p->ids, (before + n) * sizeof *ids);
    if (!ids) return gq_fail_memory(e, (before + n) * sizeof *ids);
    memcpy(ids + before, w->ids, n * sizeof *ids);
    p->ids = ids, p->share.job.windows += w->n, p->share.job.context = w->context;
    p->marks = w->marks, w->marks = NULL;
    return true;
}

static bool read_texts(gq_importance_plan *p, const gq_importance_request *r, gq_error *e) {
    uint64_t left = r->texts[0].tokens;
    windows_limits limits = {comm_memory(p->share.comm, memory_budget_of(r->memory)), r->callbacks};
    for (size_t i = 0; i < r->n_texts; i++) {
        text_windows w;
        gq_text text = r->texts[i];
        const char *slash = text.name ? strrchr(text.name, '/') : NULL; /* folders are private */
        const char *name = slash ? slash + 1 : text.name ? text.name : "";
        text.context = r->texts[0].context, text.tokens = left;
        if (!windows_read(&w, &text, &p->file, p->sizes->vocabulary, &limits, &p->warnings, e)) return false;
        bool ok =
            (r->n_texts == 1 || !w.marks ||
             gq_fail_usage(e, "%s: conversations with weights cannot be joined with other texts", name)) &&
            add_windows(p, &w, e) && imatrix_add_dataset(&p->about, name, strlen(name), e);
        windows_free(&w);
        if (!ok) return false;
        if (!r->texts[0].tokens) continue;
        left = r->texts[0].tokens - (uint64_t)p->share.job.windows * p->share.job.context;
        if (left < p->share.job.context && i + 1 < r->n_texts)
            return warnings_add(
                &p->warnings, e,
                "%zu text%s not used: the texts before have all the tokens that were asked for",
                r->n_texts - i - 1, r->n_texts - i == 2 ? " is" : "s are");
    }
    return true;
}

/* Masks tokens of all texts, whatever part of them is run. What they stand for is not needed here. */
static bool importance_mask(gq_importance_plan *p, gq_error *e) {
    text_windows all = {
        .ids = p->ids, .n = p->share.job.windows, .context = p->share.job.context, .marks = p->marks};
    bool ok = masks_set(&all, &p->file, p->sizes->vocabulary, MASKS_DRAWN, e);
    free(all.masked);
    return ok;
}

/* Limits the job to the windows of this part. */
static bool take_part(gq_importance_plan *p, uint32_t part, uint32_t parts, gq_error *e) {
    uint64_t n = p->share.job.windows, begin = 0, end = n;
    if (part > parts || (parts && !part))
        return gq_fail_usage(e, "part %u of %u: parts are numbered from 1 to their number", part, parts);
    if (parts > n)
        return gq_fail_usage(e, "%u parts: the texts have only %llu window%s, and each part needs one", parts,
                             LLU(n), plural_suffix(n));
    if (parts) begin = n * (part - 1) / parts, end = n * part / parts; /* no more than 2^30 ids, 2^20 parts */
    p->share.job.ids = p->ids + begin * p->share.job.context;
    p->share.job.marks = p->marks ? p->marks + begin * p->share.job.context : NULL;
    p->share.job.windows = p->share.all_windows = end - begin;
    return true;
}

static collection_share importance_share(const gq_importance_plan *p) {
    return collection_share_of(p->share.comm, p->share.all_windows, p->share.job.context);
}

/* ---- memory ---- */

/* Computes the peak: the larger of running the model and of merging, which holds all entries, a second copy
 * meanwhile, and the bytes that are written. */
static bool importance_bound_memory(gq_importance_plan *p, uint64_t memory, gq_error *e) {
    const forward_model *model = p->model;
    uint64_t resident = memory_budget_taken(), entries = p->collected.entries;
    p->share.job.memory = comm_memory(p->share.comm, memory_budget_of(memory));
    p->share.job.extra_bytes = add_sat(resident, p->collected.layer);
    p->share.job.batch_tokens = forward_batch_tokens(model);
    if (p->share.job.windows) p->share.bounds = forward_bounds_of(&p->share.job, &model, 1, false);
    uint64_t after = add_sat(resident, add_sat(entries, add_sat(entries, entries))),
             peak = p->share.bounds.peak;
    if (after > peak) peak = after;
    p->facts.memory = max(peak, memory_budget_peak());
    return peak <= p->share.job.memory ||
           memory_budget_fail(p->share.comm, memory, "", p->share.job.context, peak, e);
}

/* ---- the plan ---- */

/* Identifies the run: model, text and settings, by which an unfinished run is known again. */
static bool importance_identify(gq_importance_plan *p, const gq_importance_request *r, gq_error *e) {
    checkpoint_header *h = &p->header;
    if (!read_texts(p, r, e) || !importance_mask(p, e) || !take_part(p, r->part, r->parts, e)) return false;
    plan_build(h->build);
    bool ok = model_fingerprint(&p->file, &h->times, &h->content, e);
    h->kind = CHECKPOINT_IMPORTANCE, h->streams = 1;
    h->settings = (uint32_t)p->output | (uint32_t)p->arithmetic << 1;
    h->windows = p->share.all_windows, h->context = (uint32_t)p->share.job.context;
    h->ids = windows_checksum(p->share.job.ids, p->share.job.marks, h->windows * h->context);
    h->slot = forward_stream_bytes(p->model, p->share.all_windows, p->share.job.context);
    checkpoint_seal(h);
    text_share_take(&p->share, p->share.comm, p->share.read_once);
    return ok;
}

/* Returns the bytes that the finished layers' records take at most: all values, once for each time that the
 * model runs its blocks, and up to 64 KiB per layer for headers. */
static uint64_t importance_record_bytes(const gq_importance_plan *p) {
    enum { EACH = 64 << 10 };
    return add_sat(mul_sat(p->sizes->layers / p->sizes->blocks, p->collected.entries),
                   (p->sizes->layers + 1) * (uint64_t)EACH);
}

static bool importance_has_mtp_layers(const gq_importance_plan *p) {
    return forward_model_mtp_layers(p->model) > 0;
}

/* Rank 0 alone looks for one, as it reads all states. */
static bool importance_announce_kept(gq_importance_plan *p, gq_error *e) {
    checkpoint c;
    if (!comm_is_first(p->share.comm)) return true;
    bool ok = checkpoint_peek(&c, p->out, &p->header, e);
    /* The output matrix comes after the layers, and is none. */
    p->facts.layers_finished = min(c.finished, p->facts.layers);
    if (c.finished)
        ok = ok && warnings_add(&p->warnings, e, "an unfinished run for %s will be continued", p->out);
    if (c.why)
        ok = ok && warnings_add(&p->warnings, e, "an unfinished run for %s starts afresh: %s", p->out, c.why);
    checkpoint_close(&c);
    return ok;
}

static void importance_describe(gq_importance_plan *p) {
    model_facts facts = model_facts_of(p->file.kv, p->file.n_kv, NULL, 0);
    gq_importance_facts *f = &p->facts;
    snprintf(p->architecture, sizeof p->architecture, "%s", facts.arch);
    f->architecture = p->architecture, f->arithmetic = matmul_arithmetic_names[p->arithmetic];
    f->context = (uint32_t)p->share.job.context;
    f->windows = p->share.all_windows, f->tokens = p->share.all_windows * p->share.job.context;
    f->ranks = (uint32_t)gq_comm_ranks(p->share.comm);
    f->rank_windows = windows_share(p->share.comm, p->share.all_windows, f->context, 1);
    f->layers = p->sizes->layers;
    f->windows_at_once = p->share.bounds.batch;
    f->hidden_states_in_file = p->share.bounds.in_file;
    f->disk = checkpoint_bytes(&p->header, importance_record_bytes(p));
    p->about.chunk_count = (uint32_t)f->windows, p->about.chunk_size = f->context;
}

/* Measures how long the layers take that are left to do. A model that cannot be run shows that when it is
 * run: then nothing is forecast. */
static void importance_forecast(gq_importance_plan *p, const gq_callbacks *callbacks) {
    const forward_model *model = p->model;
    forecast_request r = {.job = &p->share.job,
                          .models = &model,
                          .n_models = 1,
                          .callbacks = callbacks,
                          .batch = p->share.bounds.batch,
                          .layer = p->share.bounds.layer};
    forecast_pace pace;
    double share = 1 - (double)p->facts.layers_finished / (double)p->facts.layers;
    p->facts.seconds_expected = FORECAST_LEAST_SECONDS;
    if (forecast_work(&r) < FORECAST_LEAST_WORK) return;
    p->facts.seconds_expected =
        forecast_measure(&r, &pace, NULL)
            ? share * (pace.read + pace.token * (double)(p->share.job.windows * p->share.job.context))
            : 0;
}

static bool importance_open_model(gq_importance_plan *p, const gq_importance_request *r, gq_error *e) {
    if (!input_open_adapted(&p->file, r->model, &r->adapters, e)) return p->file = (model_source){0}, false;
    if (!warnings_join(&p->warnings, &p->file.warnings, e)) return false;
    p->model = forward_model_new(&p->file, e);
    if (!p->model) return false;
    p->sizes = forward_model_sizes(p->model);
    forward_model_set_arithmetic(p->model, p->arithmetic);
    return forward_model_find_mtp_layers(p->model, &p->warnings, e);
}

/* Neither the output nor the hidden states beside it may take the place of what is read. */
static bool importance_check_inputs(const gq_importance_plan *p, const gq_importance_request *r,
                                    gq_error *e) {
    const char **texts = calloc(r->n_texts, sizeof *texts);
    char *path = checkpoint_path(r->out);
    if (texts)
        for (size_t i = 0; i < r->n_texts; i++) texts[i] = r->texts[i].name;
    bool ok = texts && path ? files_check_inputs(r->out, &p->file, texts, r->n_texts, e) &&
                                  files_check_inputs(path, &p->file, texts, r->n_texts, e)
                            : gq_fail_memory(e, r->n_texts * sizeof *texts);
    free(path), free(texts);
    return ok;
}

/* Whether this very run, killed before it could remove its hidden states, has written the output: the last layer is
 * done, and the output is not older than they are. */
static bool importance_checkpoint_proves(const gq_importance_plan *p) {
    struct stat made, left;
    checkpoint c = {.fd = -1};
    char *path = checkpoint_path(p->out);
    bool older = !path || stat(p->out, &made) != 0 || stat(path, &left) != 0 ||
                 made.st_mtim.tv_sec < left.st_mtim.tv_sec ||
                 (made.st_mtim.tv_sec == left.st_mtim.tv_sec && made.st_mtim.tv_nsec < left.st_mtim.tv_nsec);
    free(path);
    if (older) return false;
    bool proves = checkpoint_peek(&c, p->out, &p->header, NULL) &&
                  c.finished == p->sizes->layers + (p->output || importance_has_mtp_layers(p));
    checkpoint_close(&c);
    return proves;
}

/* Finds out whether the output that is there is what this run makes, by hidden states that it left. These are of no
 * use then. */
static bool importance_check_whole(gq_importance_plan *p, gq_error *e) {
    if (!p->is_there) return true;
    p->facts.is_whole = importance_checkpoint_proves(p);
    if (p->facts.is_whole && comm_is_first(p->share.comm)) checkpoint_clean(p->out, &p->header);
    return p->facts.is_whole ||
           gq_fail_remedy(e, GQ_REMEDY_REPLACE,
                          "%s already exists, and nothing shows whether it is this run's result", p->out);
}

static bool importance_check_output(gq_importance_plan *p, const gq_importance_request *r, gq_error *e) {
    if (r->dry_run && files_lack_folder(r->out))
        return warnings_add(&p->warnings, e, FILES_NO_FOLDER, r->out);
    gq_error why;
    p->is_there = !gq_check_target(r->out, r->force || r->dry_run, &why);
    return !p->is_there || why.remedy == GQ_REMEDY_REPLACE || gq_fail_again(e, &why, "%s", why.text);
}

static bool importance_fill_plan(gq_importance_plan *p, const gq_importance_request *r, gq_error *e) {
    p->dat = r->dat, p->force = r->force, p->output = r->output;
    p->share.comm = r->comm, p->share.read_once = r->read_once;
    if (!matmul_arithmetic_take(&p->arithmetic, r->arithmetic, e)) return false;
    const kernels *k = kernels_select();
    const char *caution = k ? matmul_arithmetic_caution(p->arithmetic, k) : NULL;
    if (caution && !warnings_add(&p->warnings, e, "%s", caution)) return false;
    p->out = strdup(r->out);
    if (!p->out) return gq_fail_memory(e, strlen(r->out));
    if (!importance_check_output(p, r, e)) return false;
    if (!importance_open_model(p, r, e) || !importance_check_inputs(p, r, e)) return false;
    if (p->output && p->sizes->embeds)
        return gq_fail_usage(e, "%s is an encoder and has no output matrix: leave the output matrix out",
                             p->file.path);
    p->share.job.threads = comm_threads(p->share.comm, r->threads);
    const char *output = p->output ? p->sizes->out->name : NULL;
    if (!importance_identify(p, r, e) ||
        !windows_warn_longer(p->share.job.context, p->sizes->trained, p->file.path, &p->warnings, e))
        return false;
    p->collected = collection_measure(&p->file, p->sizes->blocks + forward_model_mtp_layers(p->model), output,
                                      importance_share(p), p->share.comm);
    if (!importance_bound_memory(p, r->memory, e)) return false;
    importance_describe(p);
    if (!importance_check_whole(p, e) || !importance_announce_kept(p, e)) return false;
    if (r->forecast && !p->is_there) importance_forecast(p, r->callbacks);
    return true;
}

/* Checks that all ranks have the same run, and replaces facts that differ by the largest. */
static bool importance_agree_plan(gq_importance_plan *p, gq_error *e) {
    gq_importance_facts *f = &p->facts;
    checkpoint_header first = p->header;
    if (!p->share.comm) return true;
    if (!comm_broadcast(p->share.comm, &first, sizeof first, e)) return false;
    if (memcmp(&first, &p->header, sizeof first) != 0)
        return gq_fail(e, "rank %d has another model, text or build than rank 0",
                       gq_comm_rank(p->share.comm));
    uint64_t most[] = {f->memory, f->layers_finished, f->hidden_states_in_file, f->is_whole};
    if (!comm_most(p->share.comm, most, sizeof most / sizeof *most, e) ||
        !sweep_agree_layer(p->share.comm, p->share.read_once, &p->share.bounds.layer, e))
        return false;
    f->memory = most[0], f->layers_finished = most[1], f->hidden_states_in_file = most[2],
    f->is_whole = most[3];
    return true;
}

gq_importance_plan *gq_importance_plan_new(const gq_importance_request *request, gq_error *e) {
    gq_importance_request asked;
    gq_callbacks callbacks;
    if (!SIZED_TAKE(asked, request, e) || !SIZED_TAKE(callbacks, asked.callbacks, e)) return NULL;
    asked.callbacks = &callbacks;
    gq_importance_plan *p = calloc(1, sizeof *p);
    bool ok = p || gq_fail_memory(e, sizeof *p);
    if (ok) p->facts.size = sizeof p->facts;
    ok = ok && (asked.n_texts > 0 || gq_fail_usage(e, "no text to run the model on")) &&
         importance_fill_plan(p, &asked, e) && importance_agree_plan(p, e);
    if (gq_comm_agree(asked.comm, ok, e)) return p;
    gq_importance_plan_free(p);
    return NULL;
}

void gq_importance_plan_free(gq_importance_plan *p) {
    if (!p) return;
    forward_model_free(p->model);
    model_close(&p->file);
    imatrix_free(&p->about);
    warnings_free(&p->warnings);
    free(p->ids), free(p->marks), free(p->out);
    free(p);
}

const gq_importance_facts *gq_importance_summary(const gq_importance_plan *p) { return &p->facts; }

const char *const *gq_importance_warnings(const gq_importance_plan *p, size_t *n) {
    return warnings_texts(&p->warnings, n);
}

/* ---- the run ---- */

typedef struct running {
    gq_importance_plan *plan;
    checkpoint checkpoint;
    collection *sums;
} running;

/* Checks a layer's sums. If they are too large the model is the cause, and trying again is no use:
 * GQ_BAD_WEIGHTS. */
static bool check_sums(const imatrix *layer, const char *out, gq_error *e) {
    bool ok = imatrix_check(layer, out, e);
    if (!ok && e) e->status = GQ_BAD_WEIGHTS;
    return ok;
}

/* Hands out the sums since the last record as the next one. */
static bool importance_take_layer(void *data, sweep_record *to, gq_error *e) {
    running *r = data;
    imatrix layer;
    uint8_t *bytes = NULL;
    if (!collection_gather(r->sums, r->plan->share.comm, e) || !collection_take(r->sums, &layer, e))
        return false;
    if (!comm_is_first(r->plan->share.comm) || !layer.n_entries) /* no part of the layer has a matrix */
        return imatrix_free(&layer), true;
    layer.chunk_size = r->plan->about.chunk_size;
    bool ok = check_sums(&layer, r->plan->out, e) && imatrix_write_gguf(&layer, &bytes, &to->n, e);
    to->bytes = bytes;
    imatrix_free(&layer);
    return ok;
}

static bool importance_run_model(running *r, const gq_callbacks *callbacks, gq_error *e) {
    gq_importance_plan *p = r->plan;
    const forward_model *const model = p->model;
    double work = forward_job_work(&p->share.job, model, false), layers = (double)p->sizes->layers;
    double done = (double)r->checkpoint.finished < layers ? (double)r->checkpoint.finished / layers : 1;
    sweep s;
    sweep_plan plan = {.text = p->share,
                       .models = &model,
                       .n_streams = 1,
                       .n_layers = p->sizes->layers,
                       .output = p->output,
                       .mtp_layers = importance_has_mtp_layers(p),
                       .checkpoint = &r->checkpoint,
                       .progress = {.callbacks = callbacks,
                                    .work = work,
                                    .done = done * work,
                                    .seconds_expected = p->facts.seconds_expected}};
    bool ok = sweep_open(&s, &plan, e) && (r->sums = collection_new(sweep_pool(&s), importance_share(p), e));
    if (ok) {
        forward_observer observer = collection_observer(r->sums);
        ok = sweep_run(&s, &(sweep_calls){.after = importance_take_layer, .observer = &observer, .data = r},
                       e) &&
             warnings_add_threads(&p->warnings, sweep_threads(&s), e);
    }
    sweep_close(&s), collection_free(r->sums);
    return ok;
}

/* Merges the records of all layers, and adds the names of the texts. */
static bool put_together(const running *r, imatrix *all, gq_error *e) {
    const gq_importance_plan *p = r->plan;
    uint64_t at = 0, n;
    *all = (imatrix){.chunk_size = p->about.chunk_size};
    bool ok = true;
    for (size_t i = 0; ok && i < r->checkpoint.finished; i++) {
        imatrix layer;
        gq_file file;
        uint8_t *bytes = checkpoint_next(&r->checkpoint, &at, &n, e);
        if (bytes && !n) {
            free(bytes);
            continue;
        }
        ok = bytes && gq_file_memory(&file, r->checkpoint.path, bytes, n, bytes, e) &&
             imatrix_read(&layer, &file, e);
        if (!ok) break;
        ok = imatrix_merge(all, &layer, r->checkpoint.path, e);
        imatrix_free(&layer);
    }
    for (uint64_t i = 0; ok && i < p->about.n_datasets; i++)
        ok = imatrix_add_dataset(all, p->about.datasets[i], strlen(p->about.datasets[i]), e);
    all->chunk_count = p->about.chunk_count;
    if (!ok) imatrix_free(all);
    return ok;
}

/* Writes the file; the other ranks have nothing to write. */
static gq_imatrix *write_out(const running *r, gq_error *e) {
    const gq_importance_plan *p = r->plan;
    imatrix all = {.chunk_size = p->about.chunk_size};
    if (!comm_is_first(p->share.comm)) return importance_of(&all, p->out, e);
    gq_imatrix *m = put_together(r, &all, e) ? importance_of(&all, p->out, e) : NULL;
    if (m && gq_imatrix_write(m, p->out, !p->dat, p->force, e)) return m;
    gq_imatrix_free(m);
    return NULL;
}

static void say_what_is_kept(const checkpoint *c, gq_error *e) {
    gq_fail_again(e, e, "%s; finished work is kept in %s, and the same command continues from there", e->text,
                  c->path);
}

/* Opens the checkpoint: rank 0 continues or begins it, the others join. */
static bool importance_open_kept(running *r, gq_error *e) {
    const gq_importance_plan *p = r->plan;
    uint64_t finished = 0;
    if (comm_is_first(p->share.comm)) {
        if (!checkpoint_open(&r->checkpoint, p->out, &p->header, importance_record_bytes(p), e)) return false;
        finished = r->checkpoint.finished;
    }
    return comm_broadcast(p->share.comm, &finished, sizeof finished, e) &&
           (comm_is_first(p->share.comm) || checkpoint_join(&r->checkpoint, p->out, &p->header, finished, e));
}

static gq_imatrix *importance_run(gq_importance_plan *p, const gq_callbacks *callbacks, gq_error *e) {
    running r = {.plan = p, .checkpoint.fd = -1};
    gq_imatrix *m = NULL;
    gq_error unused;
    if (!e) e = &unused;
    job_progress job;
    job_progress_begin(&job, callbacks, 1);
    callbacks = job_progress_stage(&job, 1);
    bool ok = importance_open_kept(&r, e) && importance_run_model(&r, callbacks, e), bad_input = false;
    if (!ok)
        bad_input = r.checkpoint.fd >= 0 && (e->status == GQ_BAD_WEIGHTS || !model_unchanged(&p->file, NULL));
    if (ok && !model_unchanged(&p->file, e)) ok = false, bad_input = true;
    /* The file is written when all ranks are done. */
    ok = ok && comm_meet(p->share.comm, e) && (m = write_out(&r, e));
    ok = gq_comm_agree(p->share.comm, ok, e);
    bool is_opened = comm_is_first(p->share.comm) && r.checkpoint.fd >= 0;
    bool is_kept = is_opened && !ok && !bad_input && e->status != GQ_BAD_WEIGHTS && r.checkpoint.finished > 0;
    if (is_opened && !is_kept) checkpoint_remove(&r.checkpoint);
    if (is_kept) say_what_is_kept(&r.checkpoint, e);
    checkpoint_close(&r.checkpoint);
    if (ok) return job_progress_end(&job), m;
    gq_imatrix_free(m);
    return NULL;
}

gq_imatrix *gq_importance_compute(gq_importance_plan *p, const gq_callbacks *callbacks, gq_error *e) {
    gq_callbacks called;
    if (p->facts.is_whole)
        return comm_is_first(p->share.comm) ? gq_imatrix_open(p->out, e)
                                            : importance_of(&(imatrix){0}, p->out, e);
    return SIZED_TAKE(called, callbacks, e) ? importance_run(p, &called, e) : NULL;
}
