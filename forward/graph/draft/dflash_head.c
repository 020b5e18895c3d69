/* The tokens that a block of a DFlash draft proposes: at each place the most likely one; with DSpark the most
 * likely after the previous one, whose own part of the logits is added; with DFlash 2 the one of the most
 * likely few with the highest score of a selector after the previous one. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "forward/graph/draft/target_parts.h"

/* Products with a matrix of the whole model, a run of rows at a time. */
typedef struct head_matrix {
    const model_tensor *t; /* NULL: there is none */
    void *rows;
} head_matrix;

typedef struct dflash_head {
    forward_batch *b;
    const forward_model *m;
    const dflash_numbers *n;
    forward_tile *tile;
    const dflash_ends *of;
    uint32_t *tokens;
    size_t rank, candidates, stride; /* candidates: that are kept; stride: of all below */
    float *z, *added;                /* [rows of a tile][column] */
    float *behind;                   /* [rank][block]: of the token before */
    float *best;                     /* [candidate][column], falling */
    uint32_t *id;                    /* the same */
    float *row, *decoded;            /* of a matrix with rank columns */
    head_matrix markov, gate;
} dflash_head;

/* ---- matrices ---- */

static bool head_multiply(dflash_head *h, head_matrix *w, size_t first, size_t rows, const float *x,
                          size_t x_stride, float *y, size_t tokens, gq_error *e) {
    uint64_t columns = w->t->ne[0];
    if (!model_read(h->m->file, w->t, first * columns, rows * columns, w->rows, e)) return false;
    matmul_weights of = {w->rows, w->t->type->id, rows, columns};
    matmul_run(h->b->products, &of, x, x_stride, y, h->stride, tokens);
    return true;
}

/* A row of a matrix, decoded; that of a token which it lacks is 0. */
static bool head_read_row(dflash_head *h, const model_tensor *t, uint32_t row, float *to, gq_error *e) {
    memset(to, 0, t->ne[0] * sizeof *to);
    return row >= t->ne[1] || model_read_row(h->m, t, row, h->row, to, e);
}

/* ---- candidates ---- */

/* Takes a tile's logits; of equal ones the first token stays. */
static void head_keep(dflash_head *h, size_t first, size_t rows, size_t columns) {
    size_t s = h->stride, last = h->candidates - 1;
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < columns; c++) {
            float z = h->z[r * s + c];
            if (!(z > h->best[last * s + c])) continue;
            size_t k = last;
            for (; k > 0 && z > h->best[(k - 1) * s + c]; k--)
                h->best[k * s + c] = h->best[(k - 1) * s + c], h->id[k * s + c] = h->id[(k - 1) * s + c];
            h->best[k * s + c] = z, h->id[k * s + c] = (uint32_t)(first + r);
        }
}

static uint32_t head_of_target(const dflash_head *h, uint32_t id) {
    if (!h->of->ids || id == DFLASH_NONE) return id;
    int64_t own = h->of->ids[id];
    return own >= 0 && own < DFLASH_NONE ? (uint32_t)own : DFLASH_NONE;
}

/* The candidates of n columns, from `column` on. */
static bool head_find(dflash_head *h, size_t column, size_t n, gq_error *e) {
    size_t words = h->m->sizes.vocabulary;
    for (size_t k = 0; k < h->candidates; k++)
        for (size_t c = 0; c < n; c++)
            h->best[k * h->stride + c] = -INFINITY, h->id[k * h->stride + c] = DFLASH_NONE;
    for (size_t first = 0, rows; first < words; first += rows) {
        rows = min((size_t)h->tile->most, words - first);
        if (!forward_tile_read(h->tile, first, rows, e) ||
            !forward_logits(h->b, h->tile, h->of->normed + column, h->of->stride, n, h->z, h->stride, e) ||
            (h->markov.t && !head_multiply(h, &h->markov, first, rows, h->behind, h->stride, h->added, n, e)))
            return false;
        for (size_t r = 0; h->markov.t && r < rows; r++)
            for (size_t c = 0; c < n; c++) h->z[r * h->stride + c] += h->added[r * h->stride + c];
        head_keep(h, first, rows, n);
    }
    return true;
}

/* ---- a draft ---- */

static uint32_t head_before(const dflash_head *h, size_t block, size_t i) {
    return i ? h->tokens[block * h->of->drafted + i - 1] : h->of->anchors[block];
}

static bool head_choose_likeliest(dflash_head *h, gq_error *e) {
    const dflash_ends *of = h->of;
    if (!head_find(h, 0, of->drafted * of->step, e)) return false;
    for (size_t i = 0; i < of->drafted; i++)
        for (size_t j = 0; j < of->blocks; j++)
            h->tokens[j * of->drafted + i] = head_of_target(h, h->id[i * of->step + j]);
    return true;
}

static bool head_choose_markov(dflash_head *h, gq_error *e) {
    const dflash_ends *of = h->of;
    for (size_t i = 0; i < of->drafted; i++) {
        for (size_t j = 0; j < of->blocks; j++) {
            if (!head_read_row(h, h->n->markov[0], head_before(h, j, i), h->decoded, e)) return false;
            for (size_t r = 0; r < h->rank; r++) h->behind[r * h->stride + j] = h->decoded[r];
        }
        if (!head_find(h, i * of->step, of->blocks, e)) return false;
        for (size_t j = 0; j < of->blocks; j++) h->tokens[j * of->drafted + i] = head_of_target(h, h->id[j]);
    }
    return true;
}

/* The candidate of a block whose logit and value behind the token before are largest together. */
static bool head_select(dflash_head *h, size_t i, size_t j, uint32_t *token, gq_error *e) {
    size_t column = i * h->of->step + j;
    float most = -INFINITY, *previous = h->decoded, *next = h->decoded + h->rank;
    if (!head_read_row(h, h->n->previous, head_before(h, j, i), previous, e)) return false;
    for (size_t r = 0; r < h->rank; r++) previous[r] *= h->behind[r * h->stride + j];
    *token = DFLASH_NONE;
    for (size_t k = 0; k < h->candidates; k++) {
        uint32_t id = head_of_target(h, h->id[k * h->stride + column]);
        float score = 0;
        if (id == DFLASH_NONE) continue;
        if (!head_read_row(h, h->n->next, id, next, e)) return false;
        for (size_t r = 0; r < h->rank; r++) score += next[r] * previous[r];
        score += h->best[k * h->stride + column];
        if (score > most) most = score, *token = id;
    }
    return true;
}

static bool head_choose_selected(dflash_head *h, gq_error *e) {
    const dflash_ends *of = h->of;
    if (!head_find(h, 0, of->drafted * of->step, e)) return false;
    for (size_t i = 0; i < of->drafted; i++) {
        if (!head_multiply(h, &h->gate, 0, h->rank, of->normed + i * of->step, of->stride, h->behind,
                           of->blocks, e))
            return false;
        for (size_t j = 0; j < of->blocks; j++)
            if (!head_select(h, i, j, &h->tokens[j * of->drafted + i], e)) return false;
    }
    return true;
}

/* ---- set up ---- */

static bool head_set_up(dflash_head *h, gq_error *e) {
    const dflash_numbers *n = h->n;
    size_t most = h->tile->most;
    memory_ledger l = {.failed = false};
    if (!n)
        return gq_fail(e, "%s: not a draft model that predicts blocks of tokens (DFlash, DSpark)",
                       h->m->path);
    h->markov.t = n->markov[1], h->gate.t = n->gate;
    h->candidates = n->candidates ? n->candidates : 1;
    h->rank = n->gate ? n->gate->ne[1] : n->markov[0] ? n->markov[0]->ne[0] : 0;
    h->stride = forward_stride(h->of->drafted * h->of->step);
    h->z = forward_activations_take(&l, most, h->stride);
    h->best = forward_activations_take(&l, h->candidates, h->stride);
    h->id = memory_take(&l, h->candidates * h->stride, sizeof *h->id);
    h->behind = forward_activations_take(&l, h->rank, h->stride);
    h->row = memory_take(&l, h->rank, sizeof *h->row);
    h->decoded = memory_take(&l, 2 * h->rank, sizeof *h->decoded);
    if (h->markov.t) {
        h->added = forward_activations_take(&l, most, h->stride);
        h->markov.rows = memory_take(&l, most, model_row_bytes(h->markov.t));
    }
    if (h->gate.t) h->gate.rows = memory_take(&l, h->rank, model_row_bytes(h->gate.t));
    return memory_had(&l, e);
}

bool forward_dflash_choose(forward_batch *b, forward_tile *t, const dflash_ends *of, uint32_t *tokens,
                           gq_error *e) {
    dflash_head h = {
        .b = b, .m = b->model, .n = dflash_numbers_of(b->model), .tile = t, .of = of, .tokens = tokens};
    bool ok = head_set_up(&h, e);
    ok = ok && (h.gate.t     ? head_choose_selected(&h, e)
                : h.markov.t ? head_choose_markov(&h, e)
                             : head_choose_likeliest(&h, e));
    free(h.z), free(h.best), free(h.id), free(h.behind), free(h.row), free(h.decoded);
    free(h.added), free(h.markov.rows), free(h.gate.rows);
    return ok;
}
