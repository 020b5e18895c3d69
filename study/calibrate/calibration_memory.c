/* The memory of a calibrated run. Bytes of the outputs depend on the width of Hessians' blocks, so that width
 * follows from the memory that was asked for and the model alone: not from the other outputs of the run, the
 * number of threads, the processor, the machine's memory or what the process has taken already. How many
 * windows and experts are done at once decides no bytes; that follows from all of these.
 */
#include "study/calibrate/calibrate.h"

#include <math.h>
#include <stdlib.h>

#include "base/safe_file.h"
#include "forward/graph/draft/draft.h"
#include "quantize/strips/strips.h"

/* Width and trials are decided for this much memory if no limit is asked for. n columns take about 18 n^2
 * bytes: 3.7 GB for the 14,336 of an 8 B model; up to some 24,000 are rounded together. */
static const uint64_t DECIDING_MEMORY = 12ull << 30;

/* ---- matrices ---- */

bool calibration_runs_ahead(const gq_plan *plan, const calibration *c) {
    const model_tensor *embedding = forward_model_sizes(c->model)->embedding;
    for (size_t i = 0; c->ahead.all_windows && i < plan->n_tensors; i++)
        for (size_t o = 0; plan->sources[i].tensor == embedding && o < plan->n_outputs; o++)
            if (plan->outputs[o].tensors[i].calibrated) return true;
    return false;
}

/* ---- memory ---- */

/* The calibrator's bytes with one matrix of a tensor at a time. */
typedef struct needs {
    /* ranks that share the rows of a matrix; 1 while what decides bytes of outputs is computed */
    int ranks;
    uint64_t taped;   /* windows, of all loops, whose pairs a rank keeps at a time */
    uint64_t one;     /* each further matrix's Hessian and tokens, of the tensors that have several */
    uint64_t several; /* most matrices of one of these */
    uint64_t site;    /* the peak of a site */
    uint64_t blocks;  /* written ones that are still needed */
    uint64_t metrics; /* of a layer's rows, with what gathering them takes */
} needs;

/* Returns the groups of rows of a tensor that count together, if the calibration does so. *all: bytes of the
 * metrics of its layer. */
static layer_metrics metrics_of(const calibration *c, const model_tensor *t, int threads, uint64_t *all) {
    layer_metrics own = {.n = 0};
    for (size_t i = 0;
         calibration_does(&c->settings, CALIBRATE_ROWS) && i < forward_model_sizes(c->model)->layers; i++) {
        forward_row_group groups[FORWARD_MOST_GROUPS];
        size_t n = forward_row_groups(c->model, i, groups);
        for (size_t g = 0; g < n; g++)
            if (groups[g].weight == t) own.of[own.n++].group = groups[g];
        if (!own.n) continue;
        *all = layer_metrics_bytes(groups, n, c->job.context, threads);
        break;
    }
    return own;
}

/* Returns the peak of a site whose matrices are gathered together and then rounded one after another: Hessians become
 * factors, held-out tokens are transposed, first the base model's, and rows are rounded. */
static uint64_t site_peak(const site_sizes *z, uint64_t rounding_bytes) {
    memory_ledger l = {.counts = true};
    uint64_t gathering = site_gathering_bytes(z);
    memory_hold(&l, site_bytes(z));
    memory_hold(&l, gathering), memory_release(&l, gathering);
    cholesky_count_memory(z->shape, &l);
    for (int base = 1; base >= 0; base--) { /* the transposed tokens, then the same as they were */
        uint64_t held = site_held_bytes(z, base);
        memory_hold(&l, held), memory_release(&l, held);
    }
    memory_hold(&l, rounding_bytes);
    return l.peak;
}

/* job: whose batches are gathered. */
static site_sizes sizes_of(const needs *n, const gq_plan *plan, const calibration *c, const forward_job *job,
                           const model_tensor *t, size_t matrices) {
    uint64_t used;
    calibrate_share_met(&plan->model, t, &used);
    return site_sizes_of(&c->settings, c->model,
                         &(site_weight){.tensor = t,
                                        .routed = mix_is_experts(t->name),
                                        .late = mix_is_late_experts(t->name),
                                        .met = used,
                                        .matrices = matrices,
                                        .taped = n->taped},
                         forward_job_batch(job));
}

static void add_site(needs *n, const gq_plan *plan, const calibration *c, const forward_job *job,
                     const model_tensor *t, const tensor_type *to, int threads) {
    site_sizes one = sizes_of(n, plan, c, job, t, 1), two = sizes_of(n, plan, c, job, t, 2);
    uint64_t metric_bytes = 0;
    layer_metrics metrics = metrics_of(c, t, threads, &metric_bytes);
    uint64_t rounding_bytes = to->quantized ? rows_bytes(&c->settings, t, &metrics, to, threads, n->ranks)
                                            : router_bytes(&c->settings, t, forward_job_batch(job));
    n->site = max(n->site, site_peak(&one, max(rounding_bytes, gptaq_bytes(t, one.held))));
    n->metrics = max(n->metrics, metric_bytes);
    if (shape_matrices(t->ne) < 2) return;
    uint64_t alone = add_sat(site_bytes(&one), site_gathering_bytes(&one)),
             both = add_sat(site_bytes(&two), site_gathering_bytes(&two));
    n->one = max(n->one, both == UINT64_MAX ? both : both - alone);
    n->several = max(n->several, shape_matrices(t->ne));
}

static uint64_t needs_sum(const needs *n, int threads) {
    return add_sat(add_sat(add_sat(n->site, n->blocks), n->metrics), matmul_bytes(threads));
}

/* Returns the type with the largest rows, of 256 columns, that tensors can be calibrated to. */
static const tensor_type *largest_type(const kernels *k) {
    const tensor_type *largest = NULL;
    for (uint32_t id = 0; id < GGUF_TYPE_LIMIT; id++) {
        const tensor_type *t = k->codecs[id].columnwise ? tensor_type_of(id) : NULL;
        if (t && (!largest || gguf_row_bytes(t, 256) > gguf_row_bytes(largest, 256))) largest = t;
    }
    return largest;
}

/* Returns the peak of a run of so many outputs, with so many windows at once and states in a file. in_parts:
 * with the least of a layer. */
static uint64_t peak_with(const calibration *c, const forward_job *job, size_t outputs, size_t windows,
                          bool in_parts) {
    return forward_peak_in_file(job, c->streams, outputs + 1, windows, in_parts);
}

/* Whether Hessians of the width that c->settings has fit the deciding memory, beside the least of a layer and
 * as much of what was written: all of a layer is not asked for, so that with more memory there is never less
 * width. It is asked as for one output alone: what else is made in the same run decides no bytes of it. */
static bool width_fits(const gq_plan *plan, const calibration *c, const model_tensor *widest) {
    needs n = {.ranks = 1, .blocks = forward_model_sizes(c->model)->layer_least};
    forward_job job = c->job;
    const tensor_type *to = largest_type(plan->kernels);
    add_site(&n, plan, c, &job, widest, to, USUAL_THREADS);
    for (uint64_t i = 0; i < plan->model.n_tensors; i++) { /* P has as many rows as they have */
        const model_tensor *t = plan->model.tensors[i];
        if (forward_feeds(c->model, t) && site_adds(&c->settings, c->model, t) != 0)
            add_site(&n, plan, c, &job, t, to, USUAL_THREADS);
    }
    job.threads = USUAL_THREADS;
    job.extra_bytes = add_sat(needs_sum(&n, USUAL_THREADS), USUAL_PROCESS);
    return peak_with(c, &job, 1, 1, true) <= c->memory.deciding;
}

static const model_tensor *widest_of(const gq_plan *plan, calibration *c) {
    const model_tensor *widest = NULL;
    double fewest = INFINITY;
    for (uint64_t i = 0; i < plan->model.n_tensors; i++) {
        const model_tensor *t = plan->model.tensors[i];
        uint64_t used;
        if (!forward_feeds(c->model, t)) continue;
        double tokens = calibrate_share_met(&plan->model, t, &used) * (double)calibration_text_tokens(c);
        if (!widest || t->ne[0] > widest->ne[0]) widest = t;
        if (tokens / (double)t->ne[0] < fewest) fewest = tokens / (double)t->ne[0];
    }
    c->facts.columns = widest ? widest->ne[0] : 0, c->facts.per_column = fewest;
    return widest;
}

void calibration_set_width(const gq_plan *plan, calibration *c) {
    const model_tensor *widest = widest_of(plan, c);
    c->job.memory = c->text.job.memory = comm_memory(c->text.comm, memory_budget_of(c->memory.asked));
    c->memory.deciding = c->memory.asked ? c->memory.asked : DECIDING_MEMORY;
    c->settings.width = SIZE_MAX;
    if (!widest || width_fits(plan, c, widest)) return;
    size_t low = 1, high = feedback_strips(widest->ne[0]); /* strips: low will do, high will not */
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        c->settings.width = middle * STRIP_COLUMNS;
        *(width_fits(plan, c, widest) ? &low : &high) = middle;
    }
    c->settings.width = low * STRIP_COLUMNS < widest->ne[0] ? low * STRIP_COLUMNS : SIZE_MAX;
}

/* Returns the bytes of a layer's blocks, which stay in memory until the layer is done, but for those that are
 * read from the file again. */
static uint64_t layer_blocks_bytes(const gq_plan *plan, const plan_output *out, bool reads_blocks) {
    uint64_t most = 0, sum = 0, layer = UINT64_MAX;
    for (size_t i = 0; i < plan->n_tensors; i++) {
        const gq_tensor *t = &out->tensors[i];
        model_block b;
        if (!t->calibrated || !model_block_in(t->source_name, &b)) continue;
        if (b.number != layer) sum = 0, layer = b.number;
        if (!reads_blocks || !calibrate_reads_blocks(plan->sources[i].tensor))
            sum = add_sat(sum, t->out_bytes);
        most = max(most, sum);
    }
    return most;
}

/* Returns the most bytes of mean squares that a layer's inputs have in all outputs, which a record holds for the
 * validation. UINT64_MAX: no memory. */
static uint64_t layer_squares_bytes(const gq_plan *plan, const calibration *c) {
    uint64_t most = 0, blocks = forward_model_sizes(c->model)->blocks + forward_model_mtp_layers(c->model);
    uint64_t *sums = calloc(blocks + 1, sizeof *sums);
    if (!sums) return UINT64_MAX;
    for (size_t i = 0; calibration_does(&c->settings, CALIBRATE_VALIDATION) && i < plan->n_tensors; i++) {
        const model_tensor *t = plan->sources[i].tensor;
        uint64_t outputs = 0;
        model_block b;
        for (size_t o = 0; o < plan->n_outputs; o++) outputs += plan->outputs[o].tensors[i].calibrated;
        if (!outputs || !model_block_in(t->name, &b) || b.number >= blocks) continue;
        uint64_t *sum = &sums[b.number];
        *sum = add_sat(*sum, mul_sat(mul_sat(t->ne[0], shape_matrices(t->ne)), outputs * sizeof(float)));
        most = max(most, *sum);
    }
    free(sums);
    return most;
}

/* The validation has blocks of a layer in memory, and encodes rows of it; its peak comes behind all else. */
static uint64_t validation_peak(const gq_plan *plan, calibration *c) {
    forward_job held = c->text.job;
    forward_bounds bounds;
    uint64_t blocks = 0, rows = 0;
    held.windows = calibration_held(&c->settings).n;
    held.loops = 1, held.probes = false, held.batch_tokens = 0;
    if (!validation_is_done(&c->settings)) return 0;
    for (size_t o = 0; o < plan->n_outputs; o++)
        blocks = max(blocks, layer_blocks_bytes(plan, &plan->outputs[o], c->memory.reads_blocks));
    for (size_t i = 0; i < plan->n_tensors; i++)
        rows = max(
            rows, mul_sat(plan->sources[i].tensor->ne[0], CODEC_MOST_LANES * (sizeof(float) + STORED_BYTES)));
    uint64_t figures = mul_sat(held.windows * held.context, (VALIDATION_STREAMS + 1) * sizeof(double));
    c->memory.validation = add_sat(
        add_sat(blocks, mul_sat(2, layer_squares_bytes(plan, c))), /* the record, and what is taken of it */
        add_sat(mul_sat(rows, (uint64_t)held.threads), add_sat(figures, c->memory.resident)));
    held.extra_bytes = c->memory.validation;
    validation_streams(&held, c->model, VALIDATION_STREAMS, &bounds);
    c->memory.validation_disk_bytes = bounds.in_file ? bounds.hidden_states : 0;
    return bounds.peak;
}

static needs needs_of(const gq_plan *plan, const calibration *c) {
    needs n = {.ranks = gq_comm_ranks(c->text.comm)};
    if (n.ranks > 1) n.taped = c->text.job.windows * forward_job_loops(&c->text.job);
    for (size_t o = 0; o < plan->n_outputs; o++) {
        for (size_t i = 0; i < plan->n_tensors; i++)
            if (plan->outputs[o].tensors[i].calibrated)
                add_site(&n, plan, c, &c->text.job, plan->sources[i].tensor,
                         tensor_type_of(plan->outputs[o].tensors[i].to), c->job.threads);
        n.blocks = max(n.blocks, layer_blocks_bytes(plan, &plan->outputs[o], c->memory.reads_blocks));
    }
    /* Tensors that are current or in the record, which may have room for as much again, and what the checkpoint
     * writes. */
    n.blocks = add_sat(n.blocks, mul_sat(3, layer_squares_bytes(plan, c)));
    return n;
}

/* Results of probes are kept in what the memory asked for has left, beyond that in a file, as far as the disk
 * has room for it. One batch of each
 * side may not fit where the memory ends, so the file has room for these besides. */
static void bound_keeps(const gq_plan *plan, calibration *c) {
    model_facts facts = model_facts_of(plan->model.kv, plan->model.n_kv, NULL, 0);
    probe_cache_plan *k = &c->memory.probes;
    uint64_t tokens =
                 mul_sat(mul_sat(c->text.job.windows, c->text.job.context), forward_job_loops(&c->text.job)),
             left = c->text.bounds.peak < c->text.job.memory ? c->text.job.memory - c->text.bounds.peak : 0;
    *k = (probe_cache_plan){.folder = NULL};
    probe_cache_sizes(c->model, (uint64_t)mix_experts_used(&facts), k->token_bytes);
    uint64_t each = add_sat(k->token_bytes[0], k->token_bytes[1]), all = mul_sat(each, tokens);
    if (all == UINT64_MAX || c->text.bounds.peak == UINT64_MAX) return;
    k->memory = min(all, left);
    if (k->memory < all) {
        char *folder = safe_file_folder(plan->outputs[0].shards[0].path);
        uint64_t room = folder ? probe_cache_room(folder) / (uint64_t)gq_comm_ranks(c->text.comm) : 0;
        k->file =
            min(add_sat(all - k->memory, mul_sat(each, c->text.bounds.batch * c->text.job.context)), room);
        free(folder);
    }
    c->text.bounds.peak += k->memory;
}

/* Sets what one matrix at a time needs. */
static needs needs_with(const gq_plan *plan, calibration *c) {
    needs n = needs_of(plan, c);
    c->memory.matrices_at_once = 1;
    c->text.job.extra_bytes = add_sat(needs_sum(&n, c->job.threads), c->memory.resident);
    return n;
}

/* Without the blocks a whole layer has come to fit: it gets a window for reading them, at its own expense. */
static void bound_window(calibration *c) {
    const forward_sizes *s = forward_model_sizes(c->model);
    c->text.bounds.layer = add_sat(s->layer_bytes, s->layer_least);
    c->text.bounds.peak = add_sat(c->text.bounds.peak, s->layer_least);
    uint64_t over = c->text.bounds.peak - min(c->text.bounds.peak, c->text.job.memory);
    over = min(over, s->layer_bytes);
    c->text.bounds.layer -= over, c->text.bounds.peak -= over;
}

/* Bounds with batches of at most so many tokens. Whole batches come before experts beside each other, which only take
 * another probe each time, and these before hidden states in memory. Returns the least that is needed. */
static uint64_t bound_batches(const gq_plan *plan, calibration *c, size_t tokens) {
    c->job.batch_tokens = c->text.job.batch_tokens = c->ahead.job.batch_tokens = tokens;
    c->memory.reads_blocks = false;
    needs n = needs_with(plan, c);
    size_t outputs = plan->n_outputs;
    bool in_parts = peak_with(c, &c->text.job, outputs, 1, false) > c->text.job.memory;
    if (in_parts && n.ranks == 1) c->memory.reads_blocks = true, n = needs_with(plan, c);
    uint64_t least = peak_with(c, &c->text.job, outputs, 1, in_parts),
             whole = peak_with(c, &c->text.job, outputs, forward_job_batch(&c->text.job), in_parts);
    if (n.one && whole < c->text.job.memory) {
        uint64_t more = (c->text.job.memory - whole) / n.one;
        if (more >= n.several) more = n.several - 1;
        c->memory.matrices_at_once += more;
        c->text.job.extra_bytes += more * n.one;
    }
    c->text.bounds = forward_bounds_of(&c->text.job, c->streams, plan->n_outputs + 1, false);
    if (c->memory.reads_blocks && !c->text.bounds.layer) bound_window(c);
    return least;
}

bool calibration_bound(const gq_plan *plan, calibration *c, gq_error *e) {
    uint64_t so_much;
    size_t tokens = 2 * forward_batch_tokens(c->model);
    do so_much = bound_batches(plan, c, tokens /= 2);
    while ((c->text.bounds.batch < forward_job_batch(&c->text.job) ||
            c->text.bounds.peak > c->text.job.memory) &&
           tokens > FORWARD_BATCH_TOKENS);
    if (c->text.idle) c->text.bounds.in_file = false;
    bound_keeps(plan, c);
    c->ahead.job.memory = c->text.job.memory, c->ahead.job.extra_bytes = c->text.job.extra_bytes;
    c->ahead.bounds = forward_bounds_of(&c->ahead.job, c->streams, 1, false);
    c->facts.memory = max(c->text.bounds.peak, calibration_runs_ahead(plan, c) ? c->ahead.bounds.peak : 0);
    c->facts.memory = max(c->facts.memory, validation_peak(plan, c));
    c->facts.memory = max(c->facts.memory, memory_budget_peak());
    if (c->text.bounds.peak == UINT64_MAX)
        return gq_fail(e, "%s: is too large to be calibrated: its memory cannot be counted",
                       plan_input(plan));
    uint64_t machine = memory_budget_machine(),
             limit = c->memory.asked ? c->memory.asked : min(machine, max(machine / 4, DECIDING_MEMORY));
    return c->text.bounds.peak <= comm_memory(c->text.comm, limit) ||
           memory_budget_fail(c->text.comm, limit, " to calibrate with", c->job.context, so_much, e);
}
