#include "quantize/study/calibrate/embedding_trial.h"

#include "pass/divergence.h"
#include "pass/head.h"

/* The original, and it with the embedding as search alone writes it, and as it was written. */
typedef struct embedding_trial {
    const calibrate_job *of;
    size_t output, number;
    const uint8_t *kept;
    forward_job run;
    sweep sweep;
    divergence *figures;
    size_t first_window, windows;               /* of the figures */
    double divergence[EMBEDDING_TRIAL_STREAMS]; /* sums over places */
} embedding_trial;

bool embedding_is_tried(const forward_model *m, const uint64_t *numbers, size_t n, size_t context) {
    return context > 1 && !embedding_is_output(m) && embedding_is_routed(m, numbers, n);
}

static bool trial_embed(void *data, gq_error *e) {
    embedding_trial *t = data;
    return forward_stream_embed(t->sweep.streams[0], NULL, e) &&
           embedding_start(t->of, t->output, t->number, NULL, true, t->sweep.streams[1], e) &&
           embedding_start(t->of, t->output, t->number, t->kept, false, t->sweep.streams[2], e);
}

/* The tokens of a window that predict the next one. */
static size_t trial_scored_from(const embedding_trial *t) {
    return forward_predicts_from(t->of->streams[0], t->run.context);
}
static size_t trial_scored(const embedding_trial *t) { return t->run.context - 1 - trial_scored_from(t); }

static bool trial_start(void *data, size_t first_window, size_t windows, gq_error *e) {
    embedding_trial *t = data;
    t->windows = windows, t->first_window = first_window;
    divergence_free(t->figures);
    t->figures = divergence_of_windows(&t->run, first_window, windows, trial_scored_from(t), trial_scored(t),
                                       EMBEDDING_TRIAL_STREAMS - 1, sweep_pool(&t->sweep), e);
    return t->figures;
}

static bool trial_tile(void *data, size_t first, size_t rows, const float *const *logits, size_t stride,
                       gq_error *e) {
    embedding_trial *t = data;
    (void)e;
    divergence_tile(t->figures, (uint32_t)first, (uint32_t)rows, logits, stride);
    return true;
}

static bool trial_add(void *data, gq_error *e) {
    embedding_trial *t = data;
    (void)e;
    for (size_t p = 0; p < t->windows * trial_scored(t); p++) {
        double weight = forward_job_weight(&t->run, t->first_window, p);
        for (size_t k = 1; weight > 0 && k < EMBEDDING_TRIAL_STREAMS; k++)
            t->divergence[k] += weight * divergence_at(t->figures, p, k).divergence;
    }
    return true;
}

static bool trial_run(embedding_trial *t, gq_error *e) {
    const calibrate_job *of = t->of;
    const forward_model *m = of->streams[0], *models[EMBEDDING_TRIAL_STREAMS] = {m, m, m};
    t->run = of->text.job;
    size_t before = of->text.first_window * t->run.context;
    t->run.ids -= before; /* from the text's beginning on, whatever this rank has */
    if (t->run.marks) t->run.marks -= before;
    if (t->run.targets) t->run.targets -= before;
    t->run.windows = of->text.all_windows;
    t->run.windows = forward_job_windows(&t->run, EMBEDDING_TRIAL_TOKENS);
    t->run.looks = false, t->run.loops = 1, t->run.batch_tokens = 0;
    sweep_plan p = {
        .text = {.job = t->run, .bounds = forward_bounds_of(&t->run, models, EMBEDDING_TRIAL_STREAMS, true)},
        .models = models,
        .n_streams = EMBEDDING_TRIAL_STREAMS,
        .numbers = of->numbers,
        .n_layers = of->n_layers};
    p.text.bounds.in_file = false; /* they are of few tokens */
    const forward_head head = {.from = forward_job_place(&t->run, trial_scored_from(t)),
                               .n = trial_scored(t),
                               .start = trial_start,
                               .tile = trial_tile,
                               .end = trial_add,
                               .data = t};
    bool ok = sweep_open(&t->sweep, &p, e) &&
              sweep_run(&t->sweep, &(sweep_calls){.before = trial_embed, .data = t}, e) &&
              forward_run_head(t->sweep.run, t->sweep.streams, EMBEDDING_TRIAL_STREAMS, &head, e);
    divergence_free(t->figures);
    sweep_close(&t->sweep);
    return ok;
}

bool embedding_try(const calibrate_job *job, size_t output, size_t number, const uint8_t *kept, bool *harms,
                   gq_error *e) {
    embedding_trial t = {.of = job, .output = output, .number = number, .kept = kept};
    if (comm_is_first(job->text.comm) && !trial_run(&t, e)) return false;
    *harms = !(t.divergence[2] < t.divergence[1]);
    return gq_comm_ranks(job->text.comm) == 1 || comm_broadcast(job->text.comm, harms, sizeof *harms, e);
}
