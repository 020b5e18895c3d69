#include "study/study.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/safe_file.h"
#include "forward/graph/draft/draft.h"

typedef struct sampling {
    forward_job job;
    text_windows windows;
    collection *sums;
    const char *name; /* of the text */
    imatrix all;
} sampling;

bool sample_windows(text_windows *kept, forward_job *j, const forward_job *all, size_t n, gq_error *e) {
    size_t context = all->context;
    *kept = (text_windows){.ids = malloc(n * context * sizeof *kept->ids), .n = n, .context = context};
    if (all->marks) kept->marks = malloc(n * context * sizeof *kept->marks);
    if (all->masked) kept->masked = malloc(n * context * sizeof *kept->masked);
    if (!kept->ids || (all->marks && !kept->marks) || (all->masked && !kept->masked))
        return gq_fail_memory(e, n * context * sizeof *kept->marks);
    for (size_t i = 0; i < n; i++) {
        size_t from = i * all->windows / n * context, to = i * context;
        memcpy(kept->ids + to, all->ids + from, context * sizeof *kept->ids);
        if (all->marks) memcpy(kept->marks + to, all->marks + from, context * sizeof *kept->marks);
        if (all->masked) memcpy(kept->masked + to, all->masked + from, context * sizeof *kept->masked);
    }
    j->ids = kept->ids, j->marks = kept->marks, j->masked = kept->masked, j->windows = n;
    return true;
}

collection_sizes sample_sizes(const gq_plan *plan) {
    const calibration *c = plan->rounding->calibration;
    const forward_sizes *sizes = forward_model_sizes(c->model);
    size_t windows = forward_job_windows(&c->job, SAMPLE_TOKENS);
    return collection_measure(&plan->model, sizes->blocks + forward_model_mtp_layers(c->model),
                              sizes->out->name, collection_share_of(NULL, windows, c->job.context), NULL);
}

/* Takes windows from the whole text. Their number does not depend on memory, which only decides where their hidden
 * states are. */
static bool choose_windows(sampling *s, const gq_plan *plan, gq_error *e) {
    const calibration *c = plan->rounding->calibration;
    const forward_job *j = &c->job;
    collection_sizes sums = sample_sizes(plan);
    s->job = *j, s->job.probes = false, s->job.loops = 1;
    s->job.extra_bytes = add_sat(c->memory.resident, add_sat(sums.layer, sums.entries));
    return sample_windows(&s->windows, &s->job, j, forward_job_windows(j, SAMPLE_TOKENS), e);
}

/* The folder of a file, or the nearest one above that exists: a plan alone makes no folder, and its outputs'
 * own may still be missing. malloc'ed; NULL: no memory. */
static char *existing_folder(const char *path) {
    char *folder = safe_file_folder(path);
    struct stat st;
    while (folder && stat(folder, &st) != 0 && (errno == ENOENT || errno == ENOTDIR)) {
        char *above = safe_file_folder(folder);
        bool last = above && !strcmp(above, folder);
        free(folder), folder = above;
        if (last) break;
    }
    return folder;
}

static bool sample_take_layer(void *data, sweep_record *to, gq_error *e) {
    sampling *s = data;
    imatrix layer;
    (void)to;
    if (!collection_take(s->sums, &layer, e)) return false;
    bool ok = imatrix_merge(&s->all, &layer, s->name, e);
    imatrix_free(&layer);
    return ok;
}

/* Hidden states that do not fit into memory are in a file without a name beside the first output. */
static bool sample_run_model(sampling *s, const gq_plan *plan, const gq_callbacks *callbacks, gq_error *e) {
    const calibration *c = plan->rounding->calibration;
    const forward_model *const model = c->model;
    char *folder = existing_folder(plan->outputs[0].path);
    sweep_plan p = {.text = {.job = s->job, .bounds = forward_bounds_of(&s->job, &model, 1, false)},
                    .models = &model,
                    .n_streams = 1,
                    .numbers = c->numbers,
                    .n_layers = c->n_layers,
                    .output = true,
                    .mtp_layers = forward_model_mtp_layers(model) > 0,
                    .folder = folder,
                    .progress = {.callbacks = callbacks, .work = forward_job_work(&s->job, model, false)}};
    sweep run = {.plan = NULL};
    bool ok = folder ? sweep_open(&run, &p, e) : gq_fail_memory(e, strlen(plan->outputs[0].path));
    ok = ok && (s->sums = collection_new(forward_run_pool(run.run),
                                         collection_share_of(NULL, s->job.windows, s->job.context), e));
    if (ok) {
        forward_observer observer = collection_observer(s->sums);
        ok = sweep_run(&run, &(sweep_calls){.after = sample_take_layer, .observer = &observer, .data = s}, e);
    }
    sweep_close(&run), collection_free(s->sums);
    free(folder);
    return ok;
}

bool sample_run(const gq_plan *plan, model_inputs *inputs, const gq_callbacks *callbacks, gq_error *e) {
    const char *name = plan->rounding->calibration->whole.name;
    sampling s = {.name = name ? name : "the calibration"};
    *inputs = (model_inputs){.path = NULL};
    bool ok = choose_windows(&s, plan, e) && sample_run_model(&s, plan, callbacks, e) &&
              model_inputs_of(inputs, &s.all, s.name, e);
    imatrix_free(&s.all);
    windows_free(&s.windows);
    return ok;
}

/* ---- forecast ---- */

/* The pace of a usual processor, from the operations of a job that sends tokens through a model. */
static forecast_pace usual_pace(const forecast_request *r) {
    const forecast_request layers = {.job = r->job, .models = r->models, .n_models = r->n_models};
    double tokens = (double)(r->job->windows * r->job->context), thread = FORECAST_USUAL_PRODUCT / 2,
           each = thread / threads_asked(r->job->threads), all = forecast_work(&layers);
    forecast_pace pace = {.token = each * all / tokens};
    if (r->scored) pace.scored = each * (forecast_work(r) - all) / (double)(r->scored * r->job->windows);
    return pace;
}

trials_forecast calibration_forecast_trials(const calibration *c, size_t n, size_t windows, bool measures) {
    const forward_model *model = c->model;
    forward_job sample = c->job, trial_job = c->job;
    sample.windows = forward_job_windows(&c->job, SAMPLE_TOKENS), trial_job.windows = windows,
    trial_job.batch_tokens = 0, trial_job.memory = c->memory.deciding; /* as trials have it */
    const size_t scored = c->job.context - 1;
    forecast_request sampled = {.job = &sample, .models = &model, .n_models = 1},
                     tried = {.job = &trial_job, .models = &model, .n_models = 1, .scored = scored};
    tried.layer = forward_bounds_of(&trial_job, &model, 1, true).layer;
    forecast_pace pace;
    double streams = 1 + (double)n / 2; /* a trial begins at its layer, half of the layers on average */
    bool is_short = forecast_work(&sampled) + streams * forecast_work(&tried) < FORECAST_LEAST_WORK,
         is_measured = measures && !is_short && forecast_measure(&tried, &pace, NULL);
    if (!is_measured) pace = usual_pace(&tried);
    double kept = (double)c->facts.layers / (double)forward_model_sizes(model)->layers,
           context = (double)c->job.context, texts = (double)windows;
    trials_forecast found = {.sample = kept * (pace.read + pace.token * context * (double)sample.windows),
                             .layers = kept * (pace.read + streams * pace.token * context * texts),
                             .head = (1 + (double)n) * pace.scored * (double)scored * texts};
    if (is_measured) found.expected = found.sample + found.layers + found.head;
    if (measures && is_short) found.expected = FORECAST_LEAST_SECONDS;
    return found;
}
