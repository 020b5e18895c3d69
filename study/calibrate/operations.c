#include "study/calibrate/calibrate.h"

#include <math.h>
#include <string.h>

#include "mixes/mixes.h"

double calibrate_share_met(const model_source *file, const model_tensor *t, uint64_t *used) {
    model_facts facts = model_facts_of(file->kv, file->n_kv, NULL, 0);
    uint64_t n = shape_matrices(t->ne), met = mix_matrices_met(t->name, t->ne, &facts);
    *used = mix_is_experts(t->name) && n > 1 ? met : 1; /* heads: each meets all tokens */
    return (double)met / (double)n;
}

static double share_met(const calibration *j, size_t i) {
    uint64_t used;
    return calibrate_share_met(j->file, j->tensors[i], &used);
}

double operations_tokens(const calibration *j) {
    return (double)(j->text.all_windows * j->text.job.context * forward_job_loops(&j->text.job));
}

double operations_width(const calibration *j, size_t i) {
    return (double)min(j->settings.width, j->tensors[i]->ne[0]);
}

double operations_held(const calibration *j, size_t i) {
    const model_tensor *t = j->tensors[i];
    double all = (double)calibration_held_most(&j->settings, false), most = (double)j->settings.expert_held;
    if (!forward_feeds(j->streams[0], t)) return fmin(all, most); /* the embedding */
    return mix_is_experts(t->name) && shape_matrices(t->ne) > 1 ? fmin(share_met(j, i) * all, most) : all;
}

double operations_gathers(const calibration *j, size_t i) {
    size_t n = shape_matrices(j->tensors[i]->ne), ranks = (size_t)gq_comm_ranks(j->text.comm), times = 0;
    bool is_routed = mix_is_experts(j->tensors[i]->name);
    for (size_t left = n; left; times++)
        left -= site_matrices_at_once(left, j->memory.matrices_at_once, is_routed, ranks);
    return (double)times;
}

bool operations_run_ahead(const calibration *j) { return j->ahead.all_windows && embedding_is_rounded(j); }

/* PRODUCT per token and weight, one per token and pair of columns for H, which is symmetric, PRODUCT for D or
 * P, and the others of rounding per weight and column. */
enum { PRODUCT = OPERATIONS_PRODUCT, GPTAQ = PRODUCT + 1, ROUND = 1, SWEEP = PRODUCT };

/* Whether no tensor before it has the same inputs: those that have are neighbours. */
static bool begins_site(const calibration *j, size_t i) {
    enum { OUTLET = 128, NEIGHBOURS = 16 };
    char own[OUTLET], other[OUTLET];
    if (!mix_outlet(j->tensors[i]->name, 0, own)) return true;
    for (size_t k = i; k-- > 0 && i - k <= NEIGHBOURS;)
        if (mix_outlet(j->tensors[k]->name, 0, other) && !strcmp(own, other)) return false;
    return true;
}

tensor_work operations_of(const calibration *j, size_t output, size_t i) {
    const model_tensor *t = j->tensors[i];
    const forward_model *m = j->streams[0];
    bool is_run = forward_feeds(m, t), is_residual = site_adds(&j->settings, m, t) != 0;
    double weights = (double)shape_elements(t->ne), columns = (double)t->ne[0],
           width = operations_width(j, i), matrices = (double)shape_matrices(t->ne),
           tokens = is_run ? share_met(j, i) * operations_tokens(j) : 0;
    tensor_work w = {.pass = PRODUCT * weights * tokens};
    if (t == forward_model_sizes(m)->out) w.pass = 0; /* only its inputs are needed */
    if (!operations_calibrated(j, output, i)) return w;
    if (is_residual)
        w.gather = 2 * w.pass; /* both streams run it to see the residual stream after it, and again */
    w.round = weights * width * ((is_residual ? 1 : GPTAQ) + ROUND + (double)j->settings.sweeps * SWEEP);
    if (!begins_site(j, i)) return w;
    w.gather += tokens * matrices * columns * (width + PRODUCT * (is_residual ? (double)t->ne[1] : width));
    w.cholesky = matrices * columns * width * width / 3;
    return w;
}

double operations_streams(const calibration *j) {
    double n = 1;
    for (size_t o = 0; o < j->n_outputs; o++) n += calibration_uses(j, o);
    return n;
}

double calibrate_work(const calibration *j) {
    double sum = 0, pass = 0;
    for (size_t o = 0; o < j->n_outputs; o++)
        for (size_t i = 0; i < j->n_tensors; i++) {
            tensor_work w = operations_of(j, o, i);
            sum += w.gather + w.cholesky + w.round;
            if (o == 0) pass += w.pass;
        }
    double ahead = operations_run_ahead(j)
                       ? (double)(j->ahead.all_windows * j->text.job.context) / operations_tokens(j)
                       : 0;
    return sum + (operations_streams(j) + ahead) * pass;
}
