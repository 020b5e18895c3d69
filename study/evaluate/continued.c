#include "study/evaluate/evaluate.h"

#include <stdlib.h>
#include <string.h>

/* Whether the file says which of the target's tokens those of the draft are. */
static bool continued_check_tokens(const model_source *file, size_t tokens, size_t of_target, gq_error *e) {
    const model_tensor *ids = model_tensor_named(file, "d2t");
    if (!ids)
        return tokens == of_target ||
               gq_fail(e,
                       "%s: has %zu tokens, but no tensor d2t that maps them to the %zu of the target model",
                       file->path, tokens, of_target);
    return (ids->type->id == GGUF_I64 && ids->ne[0] == tokens) ||
           gq_fail(e,
                   "%s: tensor d2t has %llu elements of type %s, expected %zu of I64, the target's token of "
                   "each of "
                   "the draft's",
                   file->path, LLU(ids->ne[0]), ids->type->name, tokens);
}

/* The draft, set up for a target. NULL: *e says why. */
static forward_model *continued_open(const model_source *file, const forward_model *target, gq_error *e) {
    forward_model *m = forward_model_new_draft(file, target, e);
    if (m && continued_check_tokens(file, forward_model_sizes(m)->vocabulary,
                                    forward_model_sizes(target)->vocabulary, e))
        return m;
    forward_model_free(m);
    return NULL;
}

bool continued_check(const model_source *file, const runner *target, gq_error *e) {
    forward_model *m = continued_open(file, target->model, e);
    forward_model_free(m);
    return m != NULL;
}

/* Windows whose hidden states are held at once: of half of the memory, or of one. */
static size_t continued_windows(const forward_model *draft, size_t windows, size_t context, uint64_t memory) {
    uint64_t each = mul_sat(forward_draft_sources(draft)->rows * sizeof(float), context);
    return (size_t)min((uint64_t)windows, max(1, memory / 2 / max(1, each)));
}

uint64_t continued_bytes(const model_source *file, const runner *target, uint64_t tokens, uint64_t memory) {
    enum { WINDOW = PIECE_TOKENS + GQ_DRAFTED };
    forward_model *m = continued_open(file, target->model, NULL);
    if (!m) return 0;
    uint64_t rows = forward_draft_sources(m)->rows,
             windows = continued_windows(m, ceil_div(tokens, WINDOW), WINDOW, memory);
    forward_model_free(m);
    return mul_sat(windows * WINDOW, rows * sizeof(float));
}

/* ---- what is taken of the target ---- */

static size_t source_row(const draft_sources *s, size_t source) {
    size_t row = 0;
    for (size_t i = 0; i < source; i++) row += s->of[i].rows;
    return row;
}

static bool continued_take_hidden_states(continued_run *r, size_t source, gq_error *e) {
    size_t row = source_row(r->sources, source);
    for (size_t i = 0; i < r->n_batches; i++) {
        draft_batch *b = &r->batches[i];
        size_t stride;
        const float *x = forward_stream_hidden_states(r->sweep.streams[0], i, &stride, e);
        if (!x) return false;
        for (size_t c = 0; c < r->sources->of[source].rows; c++)
            memcpy(b->taken + (row + c) * b->stride, x + c * stride, b->tokens * sizeof *x);
    }
    return true;
}

/* Called behind each layer of the target. */
static bool continued_after_layer(void *data, sweep_record *to, gq_error *e) {
    continued_run *r = data;
    (void)to;
    r->passing = 0;
    for (size_t i = 0; i < r->sources->n; i++)
        if (!r->sources->of[i].is_keys && r->sources->of[i].layer == r->sweep.layer + 1 &&
            !continued_take_hidden_states(r, i, e))
            return false;
    return true;
}

/* Called for each batch right before a layer attends; batches follow one another. */
static forward_answer continued_on_scores(void *data, const forward_scores *s, gq_error *e) {
    continued_run *r = data;
    draft_batch *b = &r->batches[r->passing++];
    (void)e;
    for (size_t i = 0; i < r->sources->n; i++)
        if (r->sources->of[i].is_keys && r->sources->of[i].layer == r->sweep.layer)
            forward_scores_keys(s, b->taken + source_row(r->sources, i) * b->stride, b->stride);
    return FORWARD_ON;
}

static void continued_free_batches(continued_run *r) {
    for (size_t i = 0; r->batches && i < r->n_batches; i++) free(r->batches[i].taken);
    free(r->batches);
    r->batches = NULL;
}

static bool continued_new_batches(continued_run *r, size_t windows, gq_error *e) {
    forward_stream *s = r->sweep.streams[0];
    size_t context = r->t->texts.windows.context;
    r->n_batches = forward_stream_batches(s), r->passing = 0;
    r->batch_windows = forward_stream_windows(s);
    r->batches = calloc(r->n_batches, sizeof *r->batches);
    if (!r->batches) return gq_fail_memory(e, r->n_batches * sizeof *r->batches);
    for (size_t i = 0; i < r->n_batches; i++) {
        draft_batch *b = &r->batches[i];
        size_t first = forward_stream_first(s, i);
        b->windows = min(r->batch_windows, windows - first);
        b->first = (r->first_window + first) * context, b->tokens = b->windows * context,
        b->stride = forward_stride(b->tokens);
        b->taken = forward_activations(r->sources->rows, b->stride, e);
        if (!b->taken) return false;
    }
    return true;
}

static bool continued_read_ids(continued_run *r, gq_error *e) {
    const model_tensor *t = model_tensor_named(r->file, "d2t");
    if (!t) return true;
    r->ids = malloc(t->ne[0] * sizeof *r->ids);
    if (!r->ids) return gq_fail_memory(e, t->ne[0] * sizeof *r->ids);
    return model_read(r->file, t, 0, t->ne[0], r->ids, e);
}

/* ---- a run ---- */

static const draft_method *continued_method(const model_source *file) {
    static const draft_method *const methods[] = {&draft_method_eagle, &draft_method_dflash,
                                                  &draft_method_assistant};
    model_facts facts = model_facts_of(file->kv, file->n_kv, NULL, 0);
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (strcmp(methods[i]->arch, facts.arch) == 0) return methods[i];
    return NULL;
}

static bool continued_draft_all(continued_run *r, const draft_method *by, gq_error *e) {
    bool ok = by->begin(r, e);
    for (size_t i = 0; ok && i < r->n_batches; i++) {
        ok = by->draft(r, &r->batches[i], e);
        free(r->batches[i].taken), r->batches[i].taken = NULL;
    }
    by->end(r);
    r->own = NULL;
    return ok;
}

/* Runs the target on n windows, and the draft behind it. */
static bool continued_run_windows(continued_run *r, const side_by_side *s, size_t n, const draft_method *by,
                                  gq_error *e) {
    const text_windows *w = &r->t->texts.windows;
    size_t first = r->first_window * w->context;
    const forward_observer observer = {.on_scores = continued_on_scores, .data = r};
    bool takes_keys = false;
    for (size_t i = 0; i < r->sources->n; i++) takes_keys |= r->sources->of[i].is_keys;
    text_share text = {.job = {.ids = w->ids + first,
                               .windows = n,
                               .context = w->context,
                               .marks = w->marks + first,
                               .threads = s->threads,
                               .memory = s->memory}};
    text_share_take(&text, NULL, false);
    text.job.extra_bytes =
        add_sat(memory_budget_taken(), mul_sat(n * w->context, r->sources->rows * sizeof(float)));
    text.bounds = forward_bounds_of(&text.job, &r->target, 1, false);
    sweep_plan plan = {
        .text = text,
        .models = &r->target,
        .n_streams = 1,
        .n_layers = forward_model_sizes(r->target)->layers,
        .folder = s->folder,
        .progress = {.callbacks = s->callbacks, .work = forward_job_work(&text.job, r->target, false)}};
    sweep_calls calls = {
        .after = continued_after_layer, .observer = takes_keys ? &observer : NULL, .data = r};
    r->sweep = (sweep){.hidden_states_fd = -1};
    bool ok = sweep_open(&r->sweep, &plan, e) && continued_new_batches(r, n, e) &&
              sweep_run(&r->sweep, &calls, e) && continued_draft_all(r, by, e);
    continued_free_batches(r);
    sweep_close(&r->sweep);
    return ok;
}

double continued_usual_seconds(const draft_texts *t, const side_by_side *s, const drafter *d) {
    const text_windows *w = &t->texts.windows;
    forward_model *draft = continued_open(&d->own.file, s->runners->model, NULL);
    if (!draft) return 0;
    forward_job job = {.windows = w->n, .context = w->context};
    forecast_request target = {.job = &job,
                               .models = (const forward_model *const *)&s->runners->model,
                               .n_models = 1},
                     own = {.job = &job,
                            .models = (const forward_model *const *)&draft,
                            .n_models = 1,
                            .scored = w->context / 2};
    /* The draft's layers process about GQ_DRAFTED times as many columns as a piece has tokens. */
    double operations = forecast_work(&target) + GQ_DRAFTED * forecast_work(&own);
    forward_model_free(draft);
    return operations / 2 * FORECAST_USUAL_PRODUCT / threads_asked(s->threads);
}

bool continued_propose(draft_texts *t, const side_by_side *s, const drafter *d, gq_error *e) {
    const text_windows *w = &t->texts.windows;
    continued_run r = {.t = t,
                       .file = &d->own.file,
                       .target = s->runners->model,
                       .draft = continued_open(&d->own.file, s->runners->model, e)};
    bool ok = r.draft && continued_read_ids(&r, e);
    size_t most = 1;
    if (ok) r.sources = forward_draft_sources(r.draft);
    if (ok) most = continued_windows(r.draft, w->n, w->context, s->memory);
    for (size_t i = 0; i < t->positions; i++) t->choices[i] = DRAFT_NONE;
    for (size_t i = 0; i < t->texts.n * GQ_DRAFTED; i++) t->proposed[i] = DRAFT_NONE;
    for (; ok && r.first_window < w->n; r.first_window += most)
        ok = continued_run_windows(&r, s, min(most, w->n - r.first_window), continued_method(r.file), e);
    free(r.ids);
    forward_model_free(r.draft);
    return ok;
}
