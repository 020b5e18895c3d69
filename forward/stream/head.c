/* Logits of all windows, of several models side by side, a tile of the vocabulary at a time. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "forward/stream/head.h"
#include "forward/stream/run.h"

/* A model's part of it. */
typedef struct head {
    forward_stream *stream;
    const forward_head *to; /* who gets logits; NULL: nobody */
    size_t number;          /* of the stream */
    bool shares;            /* batch and tile are those of the head before it, of the same model */
    forward_batch *batch;   /* of one token: logits need no more */
    forward_tile *tile;
    float *normed;  /* of a batch; then of the wanted places, side by side */
    float *logits;  /* of HEAD_ROWS tokens */
    double *pooled; /* of a batch's windows, where the model gives embeddings in place of logits */
} head;

/* windows: of a batch. */
static void lay_out_head(head *h, const forward_model *m, size_t windows, size_t stride, memory_ledger *l) {
    const forward_sizes *s = forward_model_sizes(m);
    h->normed = forward_activations_take(l, s->width, stride);
    if (s->embeds)
        h->pooled = memory_take(l, mul_sat(windows, s->embedded), sizeof *h->pooled);
    else
        h->logits = forward_activations_take(l, HEAD_ROWS, stride);
}

uint64_t forward_head_bytes(const forward_job *j, const forward_model *const *models, size_t n,
                            size_t batch) {
    memory_ledger l = {.counts = true};
    uint64_t most = 0;
    for (size_t i = 0; i < n; i++) {
        lay_out_head(&(head){.stream = NULL}, models[i], batch, forward_stride(batch * j->context), &l);
        most = max(most, forward_batch_bytes(models[i], j->context, batch, j->threads));
        if (forward_model_sizes(models[i])->embeds || (i > 0 && models[i] == models[i - 1])) continue;
        memory_hold(&l, forward_tile_bytes(models[i], HEAD_ROWS));
        memory_hold(&l, forward_batch_bytes(models[i], 1, 1, j->threads));
    }
    return add_sat(l.bytes, most);
}

static bool head_new(head *h, const head *before, forward_stream *s, gq_error *e) {
    memory_ledger l = {.failed = false};
    h->stream = s;
    lay_out_head(h, s->model, hidden_states_windows(&s->hidden_states, 0),
                 hidden_states_stride(&s->hidden_states, 0), &l);
    if (!memory_had(&l, e)) return false;
    if (h->pooled) return true;
    h->shares = before && before->stream->model == s->model;
    h->batch = h->shares ? before->batch : forward_batch_new(s->model, 1, 1, s->run->pool, e);
    h->tile = h->shares ? before->tile : h->batch ? forward_tile_new(s->model, HEAD_ROWS, e) : NULL;
    return h->tile;
}

static void head_free(head *h) {
    if (!h->shares) forward_batch_free(h->batch), forward_tile_free(h->tile);
    free(h->normed), free(h->logits), free(h->pooled);
}

/* ---- the output matrix's input ---- */

/* Reports to an observer where a batch begins. */
typedef struct head_positions {
    forward_run *run;
    const forward_observer *observer;
    size_t first;
} head_positions;

static forward_answer head_on_inputs(void *data, const forward_inputs *in, gq_error *e) {
    const head_positions *p = data;
    forward_inputs placed = *in;
    placed.first = p->first;
    return run_hand_inputs(p->run, p->observer, &placed, e);
}

/* The hidden states of batch i behind the last layer, or behind the MTP layer that is next. */
static const float *head_hidden_states(const head *h, size_t i, gq_error *e) {
    forward_stream *s = h->stream;
    const float *after = NULL;
    if (!forward_mtp_of(s->model)) return hidden_states_take(&s->hidden_states, i, false, e);
    forward_layer *l = forward_run_layer(s->run, s->model, forward_mtp_layer(s->model), e);
    if (!l) return NULL;
    bool calls = h->to && h->to->block, ok = (!calls || h->to->block(h->to->data, h->number, l, false, e)) &&
                                             forward_stream_probe(s, i, l, FORWARD_WHOLE, NULL, &after, e);
    return (!calls || h->to->block(h->to->data, h->number, l, true, e)) && ok ? after : NULL;
}

/* Writes the final norm of batch i into normed. */
static bool head_final_norm(const head *h, size_t i, float *normed, const forward_observer *observer,
                            gq_error *e) {
    forward_stream *s = h->stream;
    forward_batch *b = run_batch(s->run, s->model, e);
    const float *x = b ? head_hidden_states(h, i, e) : NULL;
    size_t stride = hidden_states_stride(&s->hidden_states, i);
    if (!x) return false;
    run_choose_windows(s->run, b, hidden_states_first(&s->hidden_states, i),
                       hidden_states_windows(&s->hidden_states, i));
    head_positions p = {s->run, observer,
                        hidden_states_first(&s->hidden_states, i) * s->hidden_states.context};
    return forward_final(b, x, stride, normed, stride,
                         observer ? &(forward_observer){.on_inputs = head_on_inputs, .data = &p} : NULL, e);
}

bool forward_stream_probe_final(forward_stream *s, size_t batch, const forward_observer *observer,
                                gq_error *e) {
    run_drop_layer(s->run);
    float *normed =
        s->hidden_states.held ? run_copy(s->run, s->model, e) : s->hidden_states.x; /* in place of a copy */
    return normed && head_final_norm(&(head){.stream = s}, batch, normed, observer, e) &&
           run_progress(s->run, 0, "output", e);
}

bool forward_stream_final(forward_stream *s, const forward_observer *observer, gq_error *e) {
    for (size_t i = 0; i < s->hidden_states.batches; i++)
        if (!forward_stream_probe_final(s, i, observer, e)) return false;
    return true;
}

/* The wanted places of each window to the front, with rows as long as they need. */
static void head_pick_positions(float *x, size_t width, size_t windows, size_t context, const forward_head *h,
                                size_t from, size_t to) {
    for (size_t f = 0; f < width; f++)
        for (size_t w = 0; w < windows; w++)
            memmove(x + f * to + w * h->n, x + f * from + w * context + h->from, h->n * sizeof *x);
}

/* ---- tiles ---- */

static bool head_run_tile(head *heads, size_t n, size_t first, size_t rows, size_t tokens,
                          const float **logits, const forward_head *to, gq_error *e) {
    size_t stride = forward_stride(tokens);
    for (size_t i = 0; i < n; i++) {
        head *h = &heads[i];
        if ((!h->shares && !forward_tile_read(h->tile, first, rows, e)) ||
            !forward_logits(h->batch, h->tile, h->normed, stride, tokens, h->logits, stride, e))
            return false;
        logits[i] = h->logits;
    }
    return to->tile(to->data, first, rows, logits, stride, e);
}

static bool do_batch(head *heads, size_t n, size_t i, const float **logits, const forward_head *to,
                     gq_error *e) {
    const hidden_states *s = &heads[0].stream->hidden_states;
    const forward_run *r = heads[0].stream->run;
    size_t windows = hidden_states_windows(s, i), tokens = windows * to->n, work = 0;
    size_t vocabulary = forward_model_sizes(heads[0].stream->model)->vocabulary;
    for (size_t k = 0; k < n; k++) {
        const forward_sizes *sizes = forward_model_sizes(heads[k].stream->model);
        if (!head_final_norm(&heads[k], i, heads[k].normed, NULL, e)) return false;
        head_pick_positions(heads[k].normed, sizes->width, windows, s->context, to,
                            hidden_states_stride(s, i), forward_stride(tokens));
        work += sizes->out->size;
    }
    if (to->start && !to->start(to->data, i * s->batch, windows, e)) return false;
    for (size_t first = 0; first < vocabulary; first += HEAD_ROWS) {
        size_t rows = vocabulary - first < HEAD_ROWS ? vocabulary - first : HEAD_ROWS;
        double share = (double)rows / (double)vocabulary * (double)windows;
        if (!head_run_tile(heads, n, first, rows, tokens, logits, to, e) ||
            !run_progress(r, (double)work * share, "logits", e))
            return false;
    }
    return !to->end || to->end(to->data, e);
}

static void heads_free(head *heads, size_t n) {
    for (size_t i = 0; heads && i < n; i++) head_free(&heads[i]);
    free(heads);
}

/* One of each stream; NULL: *e says why. */
static head *heads_new(forward_run *r, forward_stream *const *streams, size_t n, const forward_head *to,
                       gq_error *e) {
    head *heads = calloc(n, sizeof *heads);
    bool ok = heads || gq_fail_memory(e, n * sizeof *heads);
    run_drop_layer(r);
    for (size_t i = 0; ok && i < n; i++) {
        heads[i].to = to, heads[i].number = i;
        ok = head_new(&heads[i], i ? &heads[i - 1] : NULL, streams[i], e);
    }
    if (ok) return heads;
    heads_free(heads, n);
    return NULL;
}

bool forward_run_head(forward_run *r, forward_stream *const *streams, size_t n, const forward_head *to,
                      gq_error *e) {
    head *heads = heads_new(r, streams, n, to, e);
    const float **logits = calloc(n, sizeof *logits);
    bool ok = heads && (logits || gq_fail_memory(e, n * sizeof *logits));
    for (size_t i = 0; ok && i < streams[0]->hidden_states.batches; i++)
        ok = do_batch(heads, n, i, logits, to, e);
    heads_free(heads, n), free(logits);
    return ok;
}

/* ---- embeddings ---- */

static bool pool_batch(head *heads, size_t n, size_t i, const double **vectors, const forward_pooled *to,
                       gq_error *e) {
    const hidden_states *s = &heads[0].stream->hidden_states;
    for (size_t k = 0; k < n; k++) {
        forward_stream *stream = heads[k].stream;
        if (!head_final_norm(&heads[k], i, heads[k].normed, NULL, e) ||
            !forward_pool(stream->run->batch, heads[k].normed, hidden_states_stride(s, i), heads[k].pooled,
                          e))
            return false;
        vectors[k] = heads[k].pooled;
    }
    return to->windows(to->data, hidden_states_first(s, i), hidden_states_windows(s, i), vectors, e) &&
           run_progress(heads[0].stream->run, 0, "embeddings", e);
}

bool forward_run_embeddings(forward_run *r, forward_stream *const *streams, size_t n,
                            const forward_pooled *to, gq_error *e) {
    head *heads = heads_new(r, streams, n, NULL, e);
    const double **vectors = calloc(n, sizeof *vectors);
    bool ok = heads && (vectors || gq_fail_memory(e, n * sizeof *vectors));
    for (size_t i = 0; ok && i < streams[0]->hidden_states.batches; i++)
        ok = pool_batch(heads, n, i, vectors, to, e);
    heads_free(heads, n), free(vectors);
    return ok;
}

double forward_distance(const double *a, const double *b, size_t n) {
    double aa = 0, bb = 0, apart = 0;
    for (size_t i = 0; i < n; i++) aa += a[i] * a[i], bb += b[i] * b[i];
    double of_a = 1 / sqrt(aa), of_b = 1 / sqrt(bb);
    /* Half the square of what lies between both at unit length: small distances keep all their digits. */
    for (size_t i = 0; i < n; i++) {
        double d = a[i] * of_a - b[i] * of_b;
        apart += d * d;
    }
    return apart / 2;
}
