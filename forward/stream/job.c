/* The bounds of a run, known before anything is read. forward_bounds_of tries hidden states in memory with
 * batches of the job's most down to 512 tokens, then hidden states in a file with batches down to one window,
 * and takes the first that fits the memory; large batches come first because every batch decodes the layer's
 * weights again. A mixture tries a file earlier (least_windows). Where a whole layer leaves memory for
 * batches of fewer than 512 tokens, or for none, the same is tried with the least of a layer, which then gets
 * what is left: what is not in memory of it every batch reads again. */
#include "forward/stream/job.h"

#include "forward/stream/head.h"
#include "forward/stream/run.h"

enum {
    /* Tokens of each expert of a mixture, for which batches are larger: with 128, decoding an expert takes as
     * long as its products in bf16. But no more than so many of all: of a model 7,168 wide whose tokens meet
     * 8 experts, their inputs take 1.9 GB. */
    EXPERT_TOKENS = 256,
    MOST_TOKENS = 8192,
    LEAST_TOKENS =
        512, /* tokens; with fewer, decoding costs so much that hidden states go into a file instead */
    OVERHEAD = 128 << 10, /* bytes per thread beside those that are counted */
};

/* A trial of bounds. */
typedef struct bounds_trial {
    const forward_job *job;
    const forward_model *const *models;
    size_t n;
    bool logits;
    uint64_t layer; /* as forward_bounds has it */
} bounds_trial;

/* Bytes that a model takes while a layer is run, without the layer. */
static uint64_t beside_layer(const forward_job *j, const forward_model *m, size_t batch, bool in_file) {
    memory_ledger l = {.counts = true};
    memory_hold(&l, (uint64_t)OVERHEAD * (uint64_t)j->threads);
    memory_hold(&l, forward_batch_bytes(m, j->context, batch, j->threads));
    memory_hold(&l, run_weighted_bytes(j, m, batch));
    if (j->probes && !in_file) run_lay_out_copy(m, j, batch, &l);
    return l.bytes;
}

/* Returns the bytes that a model's MTP layer takes while it is run, beside the model's hidden states, with
 * those for its own logits. */
static uint64_t mtp_bytes(const bounds_trial *t, const forward_model *mtp, size_t batch) {
    const forward_job *j = t->job;
    memory_ledger l = {.counts = true};
    run_lay_out_copy(mtp, j, batch, &l);
    uint64_t head = t->logits ? forward_head_bytes(j, &mtp, 1, batch) : 0;
    return add_sat(add_sat(l.bytes, head),
                   add_sat(forward_layer_memory_bytes(mtp, t->layer), beside_layer(j, mtp, batch, true)));
}

static forward_bounds bounds_with(const bounds_trial *t, size_t batch, bool in_file) {
    const forward_job *j = t->job;
    forward_bounds b = {.batch = batch, .in_file = in_file, .layer = t->layer};
    uint64_t most = t->logits ? forward_head_bytes(j, t->models, t->n, batch) : 0;
    b.peak = j->extra_bytes;
    for (size_t i = 0; i < t->n; i++) {
        const forward_model *m = t->models[i];
        b.hidden_states =
            add_sat(b.hidden_states, forward_stream_bytes(m, j->windows * forward_job_loops(j), j->context));
        b.peak =
            add_sat(b.peak, hidden_states_bytes(forward_model_features(m, j->context), j, batch, in_file));
        most =
            max(most, add_sat(forward_layer_memory_bytes(m, t->layer), beside_layer(j, m, batch, in_file)));
        for (size_t k = 0; k < forward_model_mtp_layers(m); k++)
            most = max(most, mtp_bytes(t, forward_model_mtp_layer(m, k), batch));
    }
    b.peak = add_sat(b.peak, most);
    return b;
}

size_t forward_batch_tokens(const forward_model *m) {
    return min(max(mul_sat(forward_experts_spread(m), EXPERT_TOKENS), FORWARD_BATCH_TOKENS), MOST_TOKENS);
}

size_t forward_job_batch(const forward_job *j) {
    return forward_job_windows(j, max(j->batch_tokens, FORWARD_BATCH_TOKENS));
}

double forward_job_weight(const forward_job *j, size_t token) {
    if (j->masked) return (double)j->masked[token].weight;
    if (!j->marks) return 1;
    const forward_mark *next = j->marks + token;
    return next->position ? (double)next->weight / FORWARD_WEIGHT_ONE : 0;
}

uint64_t forward_job_counted(const forward_job *j) {
    uint64_t all = (uint64_t)j->windows * j->context, n = 0;
    for (uint64_t i = 0; j->marks && i < all; i++) n += j->marks[i].weight > 0;
    return j->marks ? n : all;
}

size_t forward_job_windows(const forward_job *j, size_t tokens) {
    size_t n = tokens / j->context;
    return n < 1 ? 1 : n < j->windows ? n : j->windows;
}

/* Windows of a batch with which hidden states are in memory, at least, where more fit with hidden states in a
 * file. Of a mixture they hold EXPERT_TOKENS for each expert, or all that the job has at once, if the job
 * asks for it. */
static size_t least_windows(const forward_job *j, const forward_model *const *models, size_t n) {
    size_t tokens = LEAST_TOKENS;
    for (size_t i = 0; j->batch_tokens && i < n; i++) {
        size_t spread = forward_experts_spread(models[i]);
        if (spread > 1) tokens = max(tokens, mul_sat(spread, EXPERT_TOKENS));
    }
    return min(forward_job_windows(j, tokens), forward_job_batch(j));
}

/* The largest batch, of `least` windows or more, that fits the memory; of no windows: none does. */
static forward_bounds largest_batch(const bounds_trial *t, size_t least, bool in_file) {
    for (size_t batch = forward_job_batch(t->job); batch >= least; batch--) {
        forward_bounds b = bounds_with(t, batch, in_file);
        if (b.peak <= t->job->memory) return b;
    }
    return (forward_bounds){.batch = 0};
}

/* Chooses batches and where hidden states are; of no windows: the memory is too small for any. */
static forward_bounds best_bounds(const bounds_trial *t) {
    size_t fewest = max(1, forward_job_windows(t->job, LEAST_TOKENS));
    forward_bounds held = largest_batch(t, fewest, false);
    if (held.batch && held.batch >= least_windows(t->job, t->models, t->n)) return held;
    forward_bounds filed = largest_batch(t, held.batch + 1, true);
    return filed.batch ? filed : held;
}

/* Lets a layer that is run more than once take what memory is left. */
static forward_bounds give_layer_the_rest(const bounds_trial *t, forward_bounds b) {
    const forward_job *j = t->job;
    uint64_t least = 0;
    for (size_t i = 0; i < t->n; i++) least = max(least, forward_model_sizes(t->models[i])->layer_least);
    bool again = j->probes || t->n > 1 || forward_job_loops(j) > 1 || b.batch < j->windows;
    bounds_trial more = *t;
    more.layer = add_sat(least, j->memory - b.peak);
    return again ? bounds_with(&more, b.batch, b.in_file) : b;
}

forward_bounds forward_bounds_of(const forward_job *j, const forward_model *const *models, size_t n,
                                 bool logits) {
    bounds_trial whole = {.job = j, .models = models, .n = n, .logits = logits}, least = whole;
    least.layer = 1;
    forward_bounds b = best_bounds(&whole);
    if (b.batch >= max(1, forward_job_windows(j, LEAST_TOKENS))) return b;
    forward_bounds in_parts = best_bounds(&least);
    if (in_parts.batch > b.batch) return give_layer_the_rest(&least, in_parts);
    if (b.batch) return b;
    b = bounds_with(&whole, 1, true), in_parts = bounds_with(&least, 1, true);
    return in_parts.peak < b.peak ? in_parts : b;
}

uint64_t forward_peak_in_file(const forward_job *j, const forward_model *const *models, size_t n,
                              size_t batch, uint64_t layer) {
    const bounds_trial t = {.job = j, .models = models, .n = n, .layer = layer};
    return bounds_with(&t, batch, true).peak;
}

double forward_job_work(const forward_job *j, const forward_model *m, bool logits) {
    const forward_sizes *s = forward_model_sizes(m);
    double layers = (double)s->layers * (double)s->layer_bytes;
    for (size_t i = 0; i < forward_model_mtp_layers(m); i++)
        layers += (double)forward_model_sizes(forward_model_mtp_layer(m, i))->layer_bytes;
    return (layers + (logits ? (double)s->out->size : 0)) * (double)j->windows;
}
