#include "quantize/plan/calibration_sample.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/safe_file.h"
#include "imatrix/collect.h"
#include "quantize/plan/calibration.h"
#include "quantize/sweep/pulse.h"

/* Mean squares need far fewer tokens than moments do; these are an eighth of the usual text. */
enum { SAMPLE_TOKENS = 8192 };

typedef struct sampling {
    forward_job job;
    forward_bounds bounds;
    uint32_t *ids;
    collection *sums;
    forward_run *run;
    forward_stream *stream;
    imatrix all;
    char *folder; /* of the states' file */
    int states;   /* that file; -1: none */
} sampling;

uint32_t *plan_sample_windows(const forward_job *j, size_t n, gq_error *e) {
    size_t bytes = j->context * sizeof(uint32_t);
    uint32_t *ids = malloc(n * bytes);
    if (!ids) return gq_fail_memory(e, n * bytes), NULL;
    for (size_t i = 0; i < n; i++)
        memcpy(ids + i * j->context, j->ids + i * j->windows / n * j->context, bytes);
    return ids;
}

/* Windows from the whole text, as many whatever the memory is: it decides where their states are. */
static bool choose_windows(sampling *s, const gq_plan *plan, gq_error *e) {
    const plan_calibration *how = plan->calibration;
    const forward_job *j = &how->job;
    s->job = *j, s->job.looks = false;
    s->job.besides = plus(how->resident, plus(how->sums.layer, how->sums.entries));
    s->job.windows = forward_job_windows(j, SAMPLE_TOKENS);
    s->bounds = forward_bounds_of(&s->job, (const forward_model *const[]){how->model}, 1, false);
    s->job.ids = s->ids = plan_sample_windows(j, s->job.windows, e);
    return s->ids;
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

/* States that do not fit into memory are in a file without a name beside the first output. */
static bool open_stream(sampling *s, const gq_plan *plan, gq_error *e) {
    const forward_model *m = plan->calibration->model;
    forward_keep keep = {.fd = -1, .slots = 1};
    if (s->bounds.in_file) {
        s->folder = existing_folder(plan->outputs[0].path);
        if (!s->folder) return gq_fail_memory(e, strlen(plan->outputs[0].path));
        s->states = forward_keep_open(s->folder, forward_stream_bytes(m, s->job.windows, s->job.context), e);
        if (s->states < 0) return false;
        keep.fd = s->states, keep.path = s->folder;
    }
    s->run = forward_run_new(&s->job, &s->bounds, e);
    s->sums = s->run ? collection_new(forward_run_pool(s->run), s->job.context, e) : NULL;
    s->stream = s->sums ? forward_stream_new(s->run, m, s->bounds.in_file ? &keep : NULL, e) : NULL;
    return s->stream;
}

static bool take_layer(sampling *s, const char *name, gq_error *e) {
    imatrix layer;
    if (!collection_take(s->sums, &layer, e)) return false;
    bool ok = imatrix_merge(&s->all, &layer, name, e);
    imatrix_free(&layer);
    return ok;
}

static bool run_layers(sampling *s, const gq_plan *plan, const char *name, gq_error *e) {
    forward_site site = collection_site(s->sums);
    if (!forward_stream_embed(s->stream, NULL, e)) return false;
    for (size_t i = 0; i < plan->calibration->facts.layers; i++) {
        const forward_layer *l =
            forward_run_layer(s->run, plan->calibration->model, plan_run_layer(plan, i), e);
        if (!l || !forward_stream_pass(s->stream, l, FORWARD_WHOLE, &site, e) || !take_layer(s, name, e))
            return false;
    }
    return forward_stream_final(s->stream, &site, e) && take_layer(s, name, e);
}

bool plan_sample_calibration(const gq_plan *plan, model_inputs *inputs, const gq_callbacks *callbacks,
                             gq_error *e) {
    const plan_calibration *how = plan->calibration;
    const char *name = how->text ? how->text : "the calibration";
    sampling s = {.states = -1};
    *inputs = (model_inputs){.path = NULL};
    bool ok = choose_windows(&s, plan, e);
    pulse told = pulse_start(callbacks, ok ? forward_job_work(&s.job, how->model, false) : 1, 0,
                             s.job.windows * s.job.context);
    s.job.pulse = pulse_tell, s.job.data = &told;
    ok = ok && open_stream(&s, plan, e) && run_layers(&s, plan, name, e) &&
         model_inputs_of(inputs, &s.all, name, e);
    forward_stream_free(s.stream), collection_free(s.sums), forward_run_free(s.run);
    imatrix_free(&s.all);
    if (s.states >= 0) close(s.states);
    free(s.ids), free(s.folder);
    return ok;
}
