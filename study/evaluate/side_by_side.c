/* Runs a base model and its quants on the same windows and compares their predictions. All models are streams
 * of one sweep (study/sweep/sweep.h): each layer is done for all of them before the next. Then the logits
 * are computed for a few windows and a tile of the vocabulary at a time, and go to forward/stream/kld.h,
 * which keeps sums per position. When all tiles of these windows have passed, the sums become scores
 * (figures.c). A file of log-probabilities (base_file.c) can take the base model's place: then its tiles are
 * read where a model's are computed. If the request names files for logits, the base model's are written to
 * them in passes of their own. A file that changes during the run is an error.
 *
 * Ranks run the models over their shares of the windows and write their logits into rank 0's files. At the
 * end all ranks get the scores of all. Windows and positions are numbered over the whole text. */
#include "study/evaluate/evaluate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- drafts of MTP layers ----
 * How often an MTP layer's first choice is the model's own: what drafting tokens with it is worth. */

/* The positions from, ..., from + n - 1 of each window, the first of which is number `first` of the model's scores,
 * *to. */
typedef struct acceptance_places {
    size_t from, n, first;
    model_scores *to;
} acceptance_places;

/* The best logit so far of each position of a batch, and its token. */
typedef struct best_logit {
    float logit;
    uint32_t token;
} best_logit;

typedef struct accepting {
    const acceptance_places *places;
    best_logit *best;
    size_t begin, positions; /* the batch's first score, and its number of them */
} accepting;

static bool acceptance_start(void *data, size_t first_window, size_t windows, gq_error *e) {
    accepting *a = data;
    (void)e;
    a->begin = a->places->first + first_window * a->places->n, a->positions = windows * a->places->n;
    for (size_t i = 0; i < a->positions; i++) a->best[i] = (best_logit){.logit = -INFINITY};
    return true;
}

static bool acceptance_tile(void *data, size_t first, size_t rows, const float *const *logits, size_t stride,
                            gq_error *e) {
    accepting *a = data;
    (void)e;
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < a->positions; i++)
            if (logits[0][r * stride + i] > a->best[i].logit)
                a->best[i] = (best_logit){logits[0][r * stride + i], (uint32_t)(first + r)};
    return true;
}

static bool acceptance_end(void *data, gq_error *e) {
    const accepting *a = data;
    const model_scores *to = a->places->to;
    (void)e;
    for (size_t i = 0; i < a->positions; i++)
        to->accepted[a->begin + i] = a->best[i].token == to->top[a->begin + i];
    return true;
}

/* Runs the first MTP layer of model m behind the hidden states of its stream, which stay, and compares its choices
 * with to->top. Does nothing for a model without one. */
static bool acceptance_run(forward_run *r, forward_stream *s, const forward_model *m,
                           const acceptance_places *p, gq_error *e) {
    if (!forward_model_mtp_layers(m) || !p->to->accepted) return true;
    size_t most = forward_stream_windows(s) * p->n;
    accepting a = {.places = p, .best = calloc(most, sizeof *a.best)};
    if (!a.best) return gq_fail_memory(e, most * sizeof *a.best);
    const forward_head head = {.from = p->from,
                               .n = p->n,
                               .start = acceptance_start,
                               .tile = acceptance_tile,
                               .end = acceptance_end,
                               .data = &a};
    forward_stream_mtp(s, forward_model_mtp_layer(m, 0));
    bool ok = forward_run_head(r, &s, 1, &head, e);
    forward_stream_mtp(s, NULL);
    free(a.best);
    return ok;
}

/* Bytes of a model's `scored` positions, and of a batch's. */
static uint64_t acceptance_bytes(size_t scored, size_t batch) {
    return add_sat(mul_sat(scored, sizeof(uint32_t) + sizeof(bool)), mul_sat(batch, sizeof(best_logit)));
}

/* Bytes per position and model: the scores, and a copy of the KL divergences to sort them for quantiles. */
enum { SCORE_BYTES = 2 * sizeof(double) + sizeof(bool) + sizeof(double) };

/* A run, with what all its steps need. */
typedef struct contest {
    const side_by_side *s;
    scores *to;
    text_share text;
    size_t scored;                /* positions of a window that are scored, the last of them before its end */
    size_t first;                 /* the first runner that is a model: 0, or 1 behind a base file */
    const forward_model **models; /* from that one on */
    sweep sweep;
    /* Sums of the windows whose logits are being computed. */
    kld *kld;
    size_t first_window, n_windows;
    base_batch base;
    const float **base_logits; /* the base's tile, and those of the quants */
    base_range *ranges; /* of the base model's logits, per scored position, where base_out is written */
    logits_file file;
    base_writer base_out;
} contest;

static size_t contest_runs(const contest *c) { return c->s->n - c->first; }

/* The first scored position of a window. */
static size_t contest_from(const contest *c) { return c->text.job.context - 1 - c->scored; }

/* Counts scored positions: those of a batch, and those before it. */
static size_t batch_positions(const contest *c) { return c->n_windows * c->scored; }
static size_t batch_begin(const contest *c) { return c->first_window * c->scored; }

/* ---- the base file ---- */

/* Reads the base's logarithms of a tile and sets them before the quants' logits. */
static bool read_base_tile(contest *c, size_t first, size_t rows, const float *const *logits, size_t stride,
                           gq_error *e) {
    if (!base_batch_tile(&c->base, c->s->base, c->s->windows->ids, first, rows, stride, e)) return false;
    base_batch_leave_out(&c->base, rows, stride);
    c->base_logits[0] = c->base.tile;
    memcpy(c->base_logits + 1, logits, contest_runs(c) * sizeof *logits);
    return true;
}

/* ---- scores ---- */

static bool start_scores(void *data, size_t first_window, size_t windows, gq_error *e) {
    contest *c = data;
    c->first_window = c->text.first_window + first_window, c->n_windows = windows;
    kld_free(c->kld);
    c->kld = kld_of_windows(&c->text.job, first_window, windows, contest_from(c), c->scored, c->s->n - 1,
                            forward_run_pool(c->sweep.run), e);
    for (size_t t = 0; c->ranges && t < batch_positions(c); t++)
        c->ranges[batch_begin(c) + t] = (base_range){.most = -INFINITY, .least = INFINITY};
    return c->kld &&
           (!c->s->base || base_batch_start(&c->base, c->s->base, batch_begin(c), batch_positions(c), e));
}

/* Takes a tile of the base model's logits into the ranges of their positions. */
static void widen_ranges(const contest *c, size_t rows, const float *logits, size_t stride) {
    base_range *to = c->ranges + batch_begin(c);
    size_t n = batch_positions(c);
    for (size_t r = 0; r < rows; r++)
        for (size_t t = 0; t < n; t++) {
            to[t].most = fmaxf(to[t].most, logits[r * stride + t]);
            to[t].least = fminf(to[t].least, logits[r * stride + t]);
        }
}

static bool add_scores(void *data, size_t first, size_t rows, const float *const *logits, size_t stride,
                       gq_error *e) {
    contest *c = data;
    if (c->s->base && !read_base_tile(c, first, rows, logits, stride, e)) return false;
    if (c->ranges) widen_ranges(c, rows, logits[0], stride);
    kld_tile(c->kld, (uint32_t)first, (uint32_t)rows, c->s->base ? c->base_logits : logits, stride);
    return true;
}

static bool fail_place(const contest *c, size_t model, size_t at, gq_error *e) {
    size_t n = c->scored;
    return gq_fail(
        e,
        "%s: logits after token %zu of window %zu are not finite, or so far apart that they cannot "
        "be compared",
        c->s->runners[model].path, forward_job_place(&c->text.job, at % n + contest_from(c) + 1), at / n + 1);
}

static bool keep_scores(void *data, gq_error *e) {
    contest *c = data;
    size_t first = batch_begin(c);
    for (size_t t = 0; t < batch_positions(c); t++) {
        kld_figures base_model = kld_at(c->kld, t, 0);
        if (c->ranges) c->ranges[first + t].log_sum = base_model.log_sum;
        for (size_t m = 0; scores_weight(c->to, first + t) > 0 && m < c->s->n; m++) {
            model_scores *to = &c->to->models[m];
            kld_figures f = kld_at(c->kld, t, m);
            if (c->s->base && m == 0) f.log_p = c->base.log_p[t];
            if (c->s->base && m) f.kld = base_kld(&base_model, &f, 0);
            if (!isfinite(f.log_p) || !isfinite(f.kld)) return fail_place(c, m, first + t, e);
            to->log_p[first + t] = f.log_p;
            if (to->top) to->top[first + t] = f.top;
            if (m == 0) continue;
            to->kld[first + t] = f.kld;
            to->same_top1[first + t] = f.top == base_model.top;
        }
    }
    return true;
}

/* Scores embeddings: the KL divergence of a window is the cosine distance of its embeddings. */
static bool keep_distances(void *data, size_t first_window, size_t windows, const double *const *vectors,
                           gq_error *e) {
    contest *c = data;
    size_t n = forward_model_sizes(c->models[0])->embedded;
    c->first_window = c->text.first_window + first_window, c->n_windows = windows;
    for (size_t w = 0; w < windows; w++)
        for (size_t m = 1; m < c->s->n; m++) {
            double apart = forward_distance(vectors[0] + w * n, vectors[m] + w * n, n);
            if (!isfinite(apart))
                return gq_fail(e,
                               "%s: the embedding of window %zu is 0 or not finite, so it cannot be compared",
                               c->s->runners[m].path, c->first_window + w + 1);
            c->to->models[m].kld[c->first_window + w] = apart;
        }
    return true;
}

static bool contest_score(contest *c, gq_error *e) {
    const forward_pooled pooled = {.windows = keep_distances, .data = c};
    if (c->s->windows->pools)
        return !c->sweep.run ||
               forward_run_embeddings(c->sweep.run, c->sweep.streams, contest_runs(c), &pooled, e);
    const forward_head head = {.from = forward_job_place(&c->text.job, contest_from(c)),
                               .n = c->scored,
                               .start = start_scores,
                               .tile = add_scores,
                               .end = keep_scores,
                               .data = c};
    bool ok = !c->sweep.run || forward_run_head(c->sweep.run, c->sweep.streams, contest_runs(c), &head, e);
    kld_free(c->kld);
    for (size_t i = 0; ok && !c->sweep.run && i < contest_runs(c); i++)
        if (forward_model_mtp_layers(c->models[i]) && c->to->models[c->first + i].accepted) {
            const forward_model *draft = forward_model_mtp_layer(c->models[i], 0);
            c->sweep.layer = forward_mtp_layer(draft);
            ok = sweep_skip_layer(&c->sweep, draft, e);
        }
    for (size_t i = 0; ok && c->sweep.run && i < contest_runs(c); i++)
        ok = acceptance_run(c->sweep.run, c->sweep.streams[i], c->models[i],
                            &(acceptance_places){.from = contest_from(c),
                                                 .n = c->scored,
                                                 .first = c->text.first_window * c->scored,
                                                 .to = &c->to->models[c->first + i]},
                            e);
    return ok;
}

/* ---- files of the base model's logits: of all positions, and of the scored ones in 16 bits ---- */

static bool start_logits(void *data, size_t first_window, size_t windows, gq_error *e) {
    contest *c = data;
    (void)e;
    c->first_window = c->text.first_window + first_window, c->n_windows = windows;
    return true;
}

static bool add_logits(void *data, size_t first, size_t rows, const float *const *logits, size_t stride,
                       gq_error *e) {
    contest *c = data;
    size_t context = c->text.job.context;
    return logits_file_add(&c->file, c->first_window * context, c->n_windows * context, first, rows,
                           logits[0], stride, e);
}

static bool write_logits(contest *c, gq_error *e) {
    const forward_head head = {
        .n = c->text.job.context, .start = start_logits, .tile = add_logits, .data = c};
    return !c->sweep.run || forward_run_head(c->sweep.run, c->sweep.streams, 1, &head, e);
}

static bool add_base(void *data, size_t first, size_t rows, const float *const *logits, size_t stride,
                     gq_error *e) {
    contest *c = data;
    return base_writer_add(&c->base_out, c->ranges + batch_begin(c), batch_begin(c), batch_positions(c),
                           first, rows, logits[0], stride, e);
}

/* Writes the base file; the ranges of all positions are known. */
static bool write_base(contest *c, gq_error *e) {
    const forward_head head = {
        .from = contest_from(c), .n = c->scored, .start = start_logits, .tile = add_base, .data = c};
    return !c->sweep.run || forward_run_head(c->sweep.run, c->sweep.streams, 1, &head, e);
}

/* Checks that no file has changed meanwhile: the figures would be of a model that never existed. */
static bool models_unchanged(const contest *c, gq_error *e) {
    if (c->s->base && !gq_file_unchanged(&c->s->base->file, e)) return false;
    for (size_t m = c->first; m < c->s->n; m++)
        if (!model_unchanged(&c->s->runners[m].file, e)) return false;
    return true;
}

/* Begins the files before hours of work: what cannot be written is reported at once. */
static bool start_files(contest *c, gq_error *e) {
    size_t vocabulary = forward_model_sizes(c->models[0])->vocabulary;
    uint64_t bytes =
        mul_sat(mul_sat(c->s->windows->n, c->text.job.context), mul_sat(vocabulary, sizeof(float)));
    const side_by_side *s = c->s;
    if (s->logits && !logits_file_start(&c->file, s->logits, s->replace_logits, bytes, vocabulary, e))
        return false;
    return !s->base_out ||
           base_writer_start(&c->base_out, s->base_out, s->replace_logits, s->windows, vocabulary, e) ||
           (s->logits && logits_file_end(&c->file, false, true, e));
}

/* Rank 0 begins the files, and the others join it. */
static bool share_files(contest *c, gq_error *e) {
    const side_by_side *s = c->s;
    size_t vocabulary = forward_model_sizes(c->models[0])->vocabulary;
    if (comm_is_first(s->comm)) return start_files(c, e) && comm_meet(s->comm, e);
    return comm_meet(s->comm, e) &&
           (!s->logits || logits_file_join(&c->file, s->logits, s->replace_logits, vocabulary, e)) &&
           (!s->base_out ||
            base_writer_join(&c->base_out, s->base_out, s->replace_logits, s->windows, vocabulary, e));
}

/* Ends a file. Rank 0 gives it its name when all ranks have written what is theirs. */
static bool end_file(contest *c, logits_file *f, bool ok, gq_error *e) {
    if (!f->beside) return ok;
    if (!comm_is_first(c->s->comm)) return logits_file_end(f, ok, false, e) && comm_meet(c->s->comm, e);
    if (ok && !comm_meet(c->s->comm, e)) ok = false;
    return logits_file_end(f, ok, true, e);
}

static bool share_array(const contest *c, void *array, size_t each, gq_error *e) {
    return !array ||
           windows_gather(c->s->comm, c->s->windows->n, c->text.job.context, array, c->scored * each, e);
}

/* Gives all ranks the scores of all windows. */
static bool share_scores(contest *c, gq_error *e) {
    bool ok = true;
    for (size_t m = 0; ok && m < c->s->n; m++) {
        model_scores *of = &c->to->models[m];
        ok = share_array(c, of->log_p, sizeof *of->log_p, e) &&
             share_array(c, of->accepted, sizeof *of->accepted, e) &&
             share_array(c, of->kld, sizeof *of->kld, e) &&
             share_array(c, of->same_top1, sizeof *of->same_top1, e);
    }
    return ok;
}

/* The base model's hidden states are whole when all have passed their last layer. */
static bool contest_run_layers(contest *c, gq_error *e) {
    hidden_state_cache *hidden_states = c->s->hidden_states;
    return sweep_run(&c->sweep, &(sweep_calls){.data = c}, e) &&
           (!hidden_states || hidden_states->whole ||
            hidden_state_cache_finish(hidden_states, forward_stream_sum(c->sweep.streams[0], 0), e));
}

static bool run_with_files(contest *c, gq_error *e) {
    bool ok = share_files(c, e) && contest_run_layers(c, e) && (!c->s->logits || write_logits(c, e)) &&
              contest_score(c, e) && (!c->s->base_out || write_base(c, e)) && models_unchanged(c, e) &&
              share_scores(c, e);
    ok = end_file(c, &c->file, ok, e);
    return end_file(c, &c->base_out.file, ok, e);
}

/* ---- the run ---- */

/* Lays out what the contest itself holds for batches of `positions`: what a base file needs, and ranges. */
static void lay_out_contest(contest *c, size_t positions, memory_ledger *l) {
    size_t all = c->s->windows->n * c->scored;
    if (c->s->base) {
        base_batch_lay_out(&c->base, positions, HEAD_ROWS, forward_stride(positions), l);
        c->base_logits = memory_take(l, c->s->n, sizeof *c->base_logits);
    }
    if (c->s->base_out) c->ranges = memory_take(l, all, sizeof *c->ranges);
}

uint64_t side_by_side_score_bytes(const side_by_side *s) {
    uint64_t n = mul_sat(s->windows->n, windows_scored(s->windows));
    return add_sat(mul_sat(mul_sat(s->n, n), SCORE_BYTES), s->windows->marks || s->windows->masked
                                                               ? mul_sat(n, sizeof(float) + sizeof(uint32_t))
                                                               : 0);
}

static bool contest_prepare(contest *c, const side_by_side *s, gq_error *e) {
    size_t n = s->windows->n * windows_scored(s->windows);
    memory_ledger counted = {.counts = true};
    *c = (contest){.s = s,
                   .text.job = windows_job(s->windows),
                   .scored = windows_scored(s->windows),
                   .first = s->base ? 1 : 0,
                   .models = calloc(s->n, sizeof *c->models)};
    if (!c->models) return gq_fail_memory(e, s->n * sizeof *c->models);
    c->text.job.threads = s->threads, c->text.job.memory = s->memory;
    text_share_take(&c->text, s->comm, s->read_once);
    size_t batch = c->text.job.windows ? forward_job_batch(&c->text.job) * c->scored : 0;
    lay_out_contest(c, batch, &counted);
    c->text.job.extra_bytes = add_sat(add_sat(memory_budget_taken(), counted.bytes),
                                      add_sat(side_by_side_score_bytes(s), kld_bytes(batch, s->n - 1)));
    for (size_t m = c->first; m < s->n; m++) c->models[m - c->first] = s->runners[m].model;
    for (size_t m = 0; m < contest_runs(c); m++)
        if (forward_model_mtp_layers(c->models[m]))
            c->text.job.extra_bytes = add_sat(c->text.job.extra_bytes, acceptance_bytes(n, batch));
    return true;
}

/* Bounds of this rank's run; without windows it holds the scores alone. */
static forward_bounds contest_bounds(const contest *c) {
    forward_bounds b = c->text.job.windows ? forward_bounds_of(&c->text.job, c->models, contest_runs(c), true)
                                           : (forward_bounds){.peak = c->text.job.extra_bytes};
    if (c->s->layer) b.layer = c->s->layer;
    return b;
}

bool side_by_side_bounds(const side_by_side *s, forward_bounds *to, gq_error *e) {
    contest c;
    bool ok = contest_prepare(&c, s, e);
    if (ok) *to = contest_bounds(&c);
    free(c.models);
    return ok;
}

/* Without a forecast logits count by their number. */
static double contest_logits_work(const contest *c) {
    return c->s->logits_work > 0 ? c->s->logits_work : (double)c->scored / (double)c->text.job.context;
}

/* Work as models report it: of their layers, and of their logits. A base model whose hidden states are there passes
 * no layers. */
static double contest_layers(const contest *c) {
    double sum = 0;
    for (size_t m = c->s->hidden_states && c->s->hidden_states->whole; m < contest_runs(c); m++)
        sum += forward_job_work(&c->text.job, c->models[m], false);
    return sum;
}
static double contest_head(const contest *c, size_t models) {
    double sum = 0;
    for (size_t m = 0; m < models; m++)
        sum += (double)forward_model_sizes(c->models[m])->out->size * (double)c->text.job.windows *
               (forward_model_mtp_layers(c->models[m]) ? 2 : 1);
    return sum;
}

/* Logits of the base model alone that go to files count as much for each. */
static double contest_work(const contest *c) {
    size_t files = (c->s->base_out != NULL) + (c->s->logits != NULL);
    double head = contest_head(c, contest_runs(c)) + (double)files * contest_head(c, files ? 1 : 0);
    return contest_layers(c) + contest_logits_work(c) * head;
}

void side_by_side_forecast(side_by_side *s) {
    contest c;
    forecast_pace pace;
    s->seconds_expected = 0;
    if (!contest_prepare(&c, s, NULL)) return;
    size_t scored = c.scored, windows = c.text.job.windows;
    forward_bounds bounds = contest_bounds(&c);
    forecast_request r = {.job = &c.text.job,
                          .models = c.models,
                          .n_models = contest_runs(&c),
                          .callbacks = s->callbacks,
                          .batch = bounds.batch,
                          .layer = bounds.layer,
                          .scored = scored};
    /* Each file of logits has passes of its own through the output matrix. */
    double passes = 1 + (s->base_out ? 1 : 0) + (s->logits ? (double)c.text.job.context / (double)scored : 0);
    if (forecast_work(&r) < FORECAST_LEAST_WORK) {
        s->seconds_expected = FORECAST_LEAST_SECONDS;
    } else if (forecast_measure(&r, &pace, NULL)) {
        double layers = pace.read + pace.token * (double)windows * (double)c.text.job.context,
               head = pace.scored * (double)windows * (double)scored;
        s->seconds_expected = layers + passes * head;
        s->logits_work = layers > 0 ? head / layers * contest_layers(&c) / contest_head(&c, r.n_models) : 0;
    }
    free(c.models);
}

double side_by_side_usual_seconds(const side_by_side *s) {
    contest c;
    if (!contest_prepare(&c, s, NULL)) return 0;
    forecast_request r = {
        .job = &c.text.job, .models = c.models, .n_models = contest_runs(&c), .scored = c.scored};
    double operations = forecast_work(&r);
    free(c.models);
    return operations / 2 * FORECAST_USUAL_PRODUCT / threads_asked(s->threads);
}

double side_by_side_work(const side_by_side *s) {
    contest c;
    if (!contest_prepare(&c, s, NULL)) return 0;
    double work = contest_work(&c);
    free(c.models);
    return work;
}

/* Runs all models in one sweep, so that they are equally far at any time. Copies may have fewer layers. */
static bool run_all(contest *c, warning_list *warnings, gq_error *e) {
    const side_by_side *s = c->s;
    c->text.bounds = contest_bounds(c);
    sweep_plan plan = {.text = c->text,
                       .models = c->models,
                       .n_streams = contest_runs(c),
                       .folder = s->folder,
                       .progress = {.callbacks = s->callbacks,
                                    .seconds_expected = s->seconds_expected,
                                    .work = s->work > 0 ? s->work : contest_work(c),
                                    .done = s->done,
                                    .started = s->started,
                                    .logits_work = contest_logits_work(c)}};
    hidden_state_slots hidden_states;
    if (s->hidden_states)
        hidden_states = hidden_state_cache_place(s->hidden_states), plan.first = &hidden_states;
    plan.is_first_done = s->hidden_states && s->hidden_states->whole;
    for (size_t m = 0; m < contest_runs(c); m++)
        plan.n_layers = max(plan.n_layers, forward_model_sizes(c->models[m])->layers);
    bool ok = sweep_open(&c->sweep, &plan, e) && run_with_files(c, e) &&
              warnings_add_threads(warnings, sweep_threads(&c->sweep), e);
    sweep_close(&c->sweep);
    return ok;
}

bool side_by_side_run(const side_by_side *s, scores *to, warning_list *warnings, gq_error *e) {
    contest c;
    memory_ledger l = {.failed = false};
    if (!contest_prepare(&c, s, e)) return false;
    c.to = to;
    size_t batch = c.text.job.windows ? forward_job_batch(&c.text.job) : 0;
    lay_out_contest(&c, batch * c.scored, &l);
    bool ok = memory_had(&l, e) && run_all(&c, warnings, e);
    if (s->tokens_run) *s->tokens_run += windows_tokens(s->windows);
    base_batch_free(&c.base);
    free(c.base_logits), free(c.ranges), free(c.models);
    return ok;
}
