#include "quantize/study/calibrate/tied.h"
#include "graph/layer.h"
#include "quantize/study/calibrate/gather.h"

/* The run over the first windows, as a calibration of its own in which nothing is rounded. */
typedef struct run_ahead {
    calibrate_job job;
    calibration_settings settings;
    sweep sweep;
    embedding_metric *to;
} run_ahead;

/* Of what stands behind the last layer only the output matrix is gathered for: matrices that make a state of several
 * streams have inputs of their own before it. */
static uint64_t ahead_settled(void *data, const model_tensor *t) {
    const run_ahead *a = data;
    return t == forward_model_sizes(a->job.streams[0])->out ? 0 : UINT64_MAX;
}

/* Both streams are the original's. */
static bool ahead_gather_output(run_ahead *a, gq_error *e) {
    forward_stream *original = a->sweep.streams[0];
    site s;
    site_search search = {.of = &a->job,
                          .pool = sweep_pool(&a->sweep),
                          .original = original,
                          .rounded = original,
                          .part = FORWARD_WHOLE,
                          .settled = ahead_settled,
                          .data = a};
    bool ok = site_gather(&s, &search, e);
    ok = ok && embedding_metric_new(a->to, &a->job, sweep_pool(&a->sweep), &s.inputs[0], e);
    site_free(&s);
    return ok;
}

static bool ahead_on_layer(void *data, forward_layer *l, gq_error *e) {
    run_ahead *a = data;
    sweep_name_phase(&a->sweep, "ahead");
    return l ? forward_stream_pass(a->sweep.streams[0], l, FORWARD_WHOLE, NULL, e)
             : ahead_gather_output(a, e);
}

bool tied_gather(const calibrate_job *job, sweep_progress *told, double per_second, embedding_metric *to,
                 gq_error *e) {
    const text_share *ahead = &job->ahead;
    run_ahead a = {.job = *job, .settings = *job->settings, .sweep = {.plan = NULL}, .to = to};
    a.settings.windows = ahead->all_windows, a.settings.loops = 1;
    a.settings.held_every = windows_hold_back(ahead->all_windows, job->settings->context).every;
    a.job.settings = &a.settings, a.job.text = *ahead;
    sweep_plan p = {.text = *ahead,
                    .models = job->streams,
                    .n_streams = 1,
                    .numbers = job->numbers,
                    .n_layers = job->n_layers,
                    .output = true,
                    .folder = job->keeps.folder,
                    .progress = told};
    double work = forward_job_work(&ahead->job, job->streams[0], false);
    p.layer_work = work > 0 ? per_second * job->costs.ahead / work : 0;
    sweep_progress_span(told, 0, per_second * job->costs.ahead);
    bool ok = sweep_open(&a.sweep, &p, e) &&
              sweep_run(&a.sweep, &(sweep_calls){.on = ahead_on_layer, .data = &a}, e);
    sweep_close(&a.sweep);
    return ok;
}
