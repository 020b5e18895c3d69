/* A target's states of three layers are taken while it runs on all pieces, and made one state per token. The draft's
 * layer then runs GQ_DRAFTED times on all pieces: each time behind them stands one token more, and its state is the one
 * that the layer left a position earlier. */
#include "quantize/study/evaluate/eagle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/memory.h"
#include "graph/eagle.h"
#include "graph/layer.h"
#include "quantize/study/sweep/memory_budget.h"
#include "quantize/study/sweep/sweep.h"

/* Whether the file says which of the target's tokens those of the draft are. */
static bool eagle_check_tokens(const model_source *file, size_t tokens, size_t of_target, gq_error *e) {
    const model_tensor *ids = model_tensor_named(file, "d2t");
    if (!ids)
        return tokens == of_target ||
               gq_fail(
                   e,
                   "%s: has %zu tokens, and no tensor d2t that says which of the %zu of its target they are",
                   file->path, tokens, of_target);
    return (ids->type->id == GGUF_I64 && ids->ne[0] == tokens) ||
           gq_fail(e,
                   "%s: tensor d2t has %llu elements of type %s, expected %zu of I64, the target's token of "
                   "each of "
                   "the draft's",
                   file->path, (unsigned long long)ids->ne[0], ids->type->name, tokens);
}

/* The draft, set up for a target. NULL: *e says why. */
static forward_model *eagle_open(const model_source *file, const forward_model *target, gq_error *e) {
    forward_model *m = forward_model_new_eagle(file, target, e);
    if (m && eagle_check_tokens(file, forward_model_sizes(m)->vocabulary,
                                forward_model_sizes(target)->vocabulary, e))
        return m;
    forward_model_free(m);
    return NULL;
}

bool eagle_check(const model_source *file, const runner *target, gq_error *e) {
    forward_model *m = eagle_open(file, target->model, e);
    forward_model_free(m);
    return m != NULL;
}

/* Windows that are run at once. */
typedef struct eagle_batch {
    size_t first, tokens, windows, stride; /* first: its first token among all */
    float *states; /* [EAGLE_LAYERS][the target's width][stride]; freed when they are fused */
    float *g;      /* [the draft's width][stride] */
} eagle_batch;

typedef struct eagle_run {
    draft_texts *t;
    const model_source *file; /* the draft's */
    const forward_model *target;
    forward_model *draft;
    sweep sweep;
    eagle_batch *batches;
    size_t n_batches;
    int64_t *ids; /* the target's token of each of the draft's; NULL: they are the same */
    forward_layer *layer;
    forward_batch *batch, *head; /* head: of one token, for logits */
    forward_tile *tile;
    /* Of a batch: positions whose logits are wanted, the token that each predicts, and the piece that gets it as its
     * next one; SIZE_MAX: none does. */
    size_t *at, *predicts, *piece, n;
    float *x, *normed, *picked, *logits, *best;
    uint32_t *token;
} eagle_run;

/* ---- the target's states ---- */

static bool eagle_take_states(eagle_run *r, size_t layer, gq_error *e) {
    size_t width = forward_model_sizes(r->target)->width;
    for (size_t i = 0; i < r->n_batches; i++) {
        eagle_batch *b = &r->batches[i];
        size_t stride;
        const float *x = forward_stream_states(r->sweep.streams[0], i, &stride, e);
        if (!x) return false;
        for (size_t c = 0; c < width; c++)
            memcpy(b->states + (layer * width + c) * b->stride, x + c * stride, b->tokens * sizeof *x);
    }
    return true;
}

/* Called behind each layer of the target. */
static bool eagle_after_layer(void *data, sweep_record *to, gq_error *e) {
    eagle_run *r = data;
    const size_t *layers = forward_eagle_layers(r->draft);
    (void)to;
    for (size_t k = 0; k < EAGLE_LAYERS; k++)
        if (layers[k] == r->sweep.layer + 1 && !eagle_take_states(r, k, e)) return false;
    return true;
}

static bool eagle_new_batches(eagle_run *r, gq_error *e) {
    forward_stream *s = r->sweep.streams[0];
    const text_windows *w = &r->t->texts.windows;
    size_t of_target = forward_model_sizes(r->target)->width, width = forward_model_sizes(r->draft)->width;
    r->n_batches = forward_stream_batches(s);
    r->batches = calloc(r->n_batches, sizeof *r->batches);
    if (!r->batches) return gq_fail_memory(e, r->n_batches * sizeof *r->batches);
    for (size_t i = 0; i < r->n_batches; i++) {
        eagle_batch *b = &r->batches[i];
        size_t first = forward_stream_first(s, i);
        b->windows = min(forward_stream_windows(s), w->n - first);
        b->first = first * w->context, b->tokens = b->windows * w->context,
        b->stride = forward_stride(b->tokens);
        b->states = forward_activations(EAGLE_LAYERS * of_target, b->stride, e);
        b->g = b->states ? forward_activations(width, b->stride, e) : NULL;
        if (!b->g) return false;
    }
    return true;
}

/* ---- the draft's layer ---- */

static bool eagle_read_ids(eagle_run *r, gq_error *e) {
    const model_tensor *t = model_tensor_named(r->file, "d2t");
    if (!t) return true;
    r->ids = malloc(t->ne[0] * sizeof *r->ids);
    if (!r->ids) return gq_fail_memory(e, t->ne[0] * sizeof *r->ids);
    return model_read(r->file, t, 0, t->ne[0], r->ids, e);
}

static bool eagle_set_up(eagle_run *r, gq_error *e) {
    const forward_model *head = forward_eagle_head(r->draft);
    threads_pool *pool = sweep_pool(&r->sweep);
    size_t context = r->t->texts.windows.context, windows = forward_stream_windows(r->sweep.streams[0]),
           stride = forward_stride(windows * context), width = forward_model_sizes(r->draft)->width;
    memory_ledger l = {.failed = false};
    r->x = forward_activations_take(&l, 2 * width, stride),
    r->normed = forward_activations_take(&l, width, stride);
    r->picked = forward_activations_take(&l, width, stride),
    r->logits = forward_activations_take(&l, HEAD_ROWS, stride);
    r->best = forward_activations_take(&l, 1, stride), r->at = memory_take(&l, stride, sizeof *r->at);
    r->predicts = memory_take(&l, stride, sizeof *r->predicts);
    r->piece = memory_take(&l, stride, sizeof *r->piece),
    r->token = memory_take(&l, stride, sizeof *r->token);
    return memory_had(&l, e) && (r->layer = forward_layer_new(r->draft, 0, e)) &&
           forward_layer_read(r->layer, 0, e) &&
           (r->batch = forward_batch_new(r->draft, context, windows, pool, e)) &&
           (r->head = forward_batch_new(head, 1, 1, pool, e)) &&
           (r->tile = forward_tile_new(head, HEAD_ROWS, e)) && eagle_read_ids(r, e);
}

static void eagle_free(eagle_run *r) {
    for (size_t i = 0; r->batches && i < r->n_batches; i++) free(r->batches[i].states), free(r->batches[i].g);
    forward_tile_free(r->tile), forward_batch_free(r->head), forward_batch_free(r->batch),
        forward_layer_free(r->layer);
    free(r->batches), free(r->ids), free(r->at), free(r->predicts), free(r->piece), free(r->token);
    free(r->x), free(r->normed), free(r->picked), free(r->logits), free(r->best);
}

static void eagle_choose_batch(const eagle_run *r, const eagle_batch *b) {
    forward_batch_windows(r->batch, b->windows);
    forward_batch_cut(r->batch, r->t->texts.windows.marks + b->first);
}

static bool eagle_fuse(eagle_run *r, gq_error *e) {
    for (size_t i = 0; i < r->n_batches; i++) {
        eagle_batch *b = &r->batches[i];
        eagle_choose_batch(r, b);
        if (!forward_eagle_fuse(r->batch, r->layer, b->states, b->stride, b->g, b->stride, e)) return false;
        free(b->states), b->states = NULL;
    }
    return true;
}

/* Picks the positions of a batch that matter: of the first step all that predict a compared token, later the k-th
 * drafted ones. A position predicts the token behind the next one. */
static void eagle_pick(eagle_run *r, const eagle_batch *b, size_t k) {
    r->n = 0;
    for (size_t i = 0; i < r->t->texts.n; i++) {
        draft_piece p = r->t->pieces[i];
        if (p.root < b->first || p.root >= b->first + b->tokens) continue;
        for (size_t token = k ? p.root + k : p.from; token <= p.root + k; token++)
            r->at[r->n] = token - 2 - b->first, r->predicts[r->n] = token,
            r->piece[r->n++] = token == p.root + k ? i : SIZE_MAX;
    }
}

/* The likeliest token of each position that was picked. */
static bool eagle_predict(eagle_run *r, gq_error *e) {
    size_t stride = forward_stride(r->n),
           words = forward_model_sizes(forward_eagle_head(r->draft))->vocabulary;
    for (size_t i = 0; i < r->n; i++) r->best[i] = -INFINITY, r->token[i] = 0;
    for (size_t first = 0; first < words; first += HEAD_ROWS) {
        size_t rows = min((size_t)HEAD_ROWS, words - first);
        if (!forward_tile_read(r->tile, first, rows, e) ||
            !forward_logits(r->head, r->tile, r->picked, stride, r->n, r->logits, stride, e))
            return false;
        for (size_t row = 0; row < rows; row++)
            for (size_t i = 0; i < r->n; i++)
                if (r->logits[row * stride + i] > r->best[i])
                    r->best[i] = r->logits[row * stride + i], r->token[i] = (uint32_t)(first + row);
    }
    for (size_t i = 0; i < r->n && r->ids; i++) {
        int64_t id = r->ids[r->token[i]];
        r->token[i] = id >= 0 && id < DRAFT_NONE ? (uint32_t)id : DRAFT_NONE;
    }
    return true;
}

/* Runs the layer on a batch, and makes logits of what was picked. */
static bool eagle_run_batch(eagle_run *r, const eagle_batch *b, gq_error *e) {
    size_t width = forward_model_sizes(r->draft)->width, stride = b->stride, to = forward_stride(r->n);
    memcpy(r->x, b->g, width * stride * sizeof *r->x);
    /* Position p has the embedding of the token of p + 1; behind the batch's last it does not matter. */
    if (!forward_eagle_embed(r->draft, r->t->texts.windows.ids + b->first + 1, b->tokens - 1,
                             r->x + width * stride, stride, e))
        return false;
    for (size_t c = 0; c < width; c++) r->x[(width + c) * stride + b->tokens - 1] = 0;
    eagle_choose_batch(r, b);
    if (!forward_block(r->batch, r->layer, FORWARD_WHOLE, r->x, stride, NULL, e) ||
        !forward_final(r->batch, r->x, stride, r->normed, stride, NULL, e))
        return false;
    for (size_t c = 0; c < width; c++)
        for (size_t i = 0; i < r->n; i++) r->picked[c * to + i] = r->normed[c * stride + r->at[i]];
    return r->n == 0 || eagle_predict(r, e);
}

/* Keeps what was predicted. A draft goes on from the state that the layer left where its last token was predicted. */
static void eagle_keep(eagle_run *r, eagle_batch *b, size_t k) {
    size_t width = forward_model_sizes(r->draft)->width, words = forward_model_sizes(r->target)->vocabulary;
    for (size_t i = 0; i < r->n; i++) {
        uint32_t token = r->token[i];
        if (k == 0) r->t->choices[asked_position(&r->t->texts, r->predicts[i])] = token;
        if (r->piece[i] == SIZE_MAX) continue;
        r->t->proposed[r->piece[i] * GQ_DRAFTED + k] = token;
        r->t->texts.windows.ids[r->predicts[i]] = token < words ? token : 0;
        for (size_t c = 0; c < width; c++)
            b->g[c * b->stride + r->at[i] + 1] = r->x[c * b->stride + r->at[i]];
    }
}

static bool eagle_draft(eagle_run *r, gq_error *e) {
    for (size_t i = 0; i < r->t->positions; i++) r->t->choices[i] = DRAFT_NONE;
    for (size_t i = 0; i < r->n_batches; i++)
        for (size_t k = 0; k < GQ_DRAFTED; k++) {
            eagle_pick(r, &r->batches[i], k);
            if (!eagle_run_batch(r, &r->batches[i], e)) return false;
            eagle_keep(r, &r->batches[i], k);
        }
    return true;
}

bool eagle_propose(draft_texts *t, const side_by_side *s, const drafter *d, gq_error *e) {
    const text_windows *w = &t->texts.windows;
    const forward_model *target = s->runners->model;
    eagle_run r = {
        .t = t, .file = &d->own.file, .target = target, .draft = eagle_open(&d->own.file, target, e)};
    if (!r.draft) return false;
    const forward_sizes *a = forward_model_sizes(target), *b = forward_model_sizes(r.draft);
    text_share text = {.job = {.ids = w->ids,
                               .windows = w->n,
                               .context = w->context,
                               .marks = w->marks,
                               .threads = s->threads,
                               .memory = s->memory}};
    text_share_take(&text, NULL, false);
    text.job.extra_bytes =
        add_sat(memory_budget_taken(),
                mul_sat(w->n * w->context, (EAGLE_LAYERS * a->width + b->width) * sizeof(float)));
    text.bounds = forward_bounds_of(&text.job, &target, 1, false);
    sweep_plan plan = {.text = text,
                       .models = &target,
                       .n_streams = 1,
                       .n_layers = a->layers,
                       .folder = s->folder,
                       .callbacks = s->callbacks,
                       .work = forward_job_work(&text.job, target, false)};
    bool ok = sweep_open(&r.sweep, &plan, e) && eagle_new_batches(&r, e) &&
              sweep_run(&r.sweep, &(sweep_calls){.after = eagle_after_layer, .data = &r}, e) &&
              eagle_set_up(&r, e) && eagle_fuse(&r, e) && eagle_draft(&r, e);
    eagle_free(&r);
    sweep_close(&r.sweep);
    forward_model_free(r.draft);
    return ok;
}
