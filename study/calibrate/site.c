#include "study/calibrate/calibrate.h"

#include <stdlib.h>
#include <string.h>

float site_adds(const calibration_settings *s, const forward_model *m, const model_tensor *weight) {
    return calibration_does(s, CALIBRATE_RESIDUAL) ? forward_adds(m, weight) : 0;
}

site_sizes site_sizes_of(const calibration_settings *s, const forward_model *m, const site_weight *w,
                         size_t batch_windows) {
    uint64_t width = w->tensor->ne[0];
    bool is_residual = site_adds(s, m, w->tensor) != 0;
    return (site_sizes){.shape = {.columns = width,
                                  .width = s->width < width ? s->width : width,
                                  .two_streams = !is_residual,
                                  .group_tokens = token_group_size(s->context),
                                  .residual_features = is_residual ? w->tensor->ne[1] : 0,
                                  .arithmetic = calibration_arithmetic(s)},
                        .matrices = w->matrices,
                        .met = w->routed ? w->met : w->matrices,
                        .tokens = batch_windows * s->context,
                        .held = calibration_held_most(s, w->routed),
                        .repeats = w->late ? w->met : 1,
                        .taped = w->taped * s->context,
                        .routed = w->routed};
}

void site_inputs_free(site_inputs *inputs) {
    hessian_free(inputs->hessian);
    free(inputs->base), free(inputs->rounded);
    *inputs = (site_inputs){.held = 0};
}

void site_free(site *s) {
    for (size_t i = 0; s->inputs && i < s->end - s->first; i++) site_inputs_free(&s->inputs[i]);
    free(s->inputs);
    *s = (site){.n_weights = 0};
}

size_t site_matrices_at_once(size_t left, uint64_t fit, bool routed, size_t ranks) {
    size_t n = min(left, max(fit, 1));
    return routed && left >= ranks ? min(left, max(n, n * ranks)) : n;
}

uint64_t site_rotation(const model_tensor *weight, size_t first) {
    model_block b;
    return (model_block_in(weight->name, &b) ? b.number : 0) + first;
}

int site_owner(const site *s, const gq_comm *comm, size_t i) {
    int rank = 0;
    uint64_t rotation = site_rotation(s->weights[0], s->first);
    while (comm_share_rotated(comm, s->end - s->first, rotation, rank + 1) <= i) rank++;
    return rank;
}

site_inputs site_take(site *s, size_t i) {
    site_inputs taken = s->inputs[i];
    s->inputs[i] = (site_inputs){.held = 0};
    return taken;
}

/* ---- pairs on their way between ranks ---- */

uint64_t tape_bytes(uint64_t x_features, uint64_t features, uint64_t tokens) {
    return mul_sat(mul_sat(tokens, add_sat(add_sat(x_features, features), 1)), sizeof(float));
}

void tape_free(tape *t) {
    for (size_t i = 0; i < t->n_pieces; i++) free(t->pieces[i]);
    free(t->pieces), free(t->entries);
    *t = (tape){.n = 0};
}

/* ---- recording ---- */

static float *tape_copy(float *to, size_t features, const float *from, size_t stride, size_t tokens) {
    for (size_t f = 0; f < features; f++, to += tokens) memcpy(to, from + f * stride, tokens * sizeof *to);
    return to;
}

bool tape_record(tape *t, uint64_t matrix, uint64_t window, const site_pairs *p, gq_error *e) {
    if (!p->tokens) return true;
    if (!memory_grow(&t->entries, &t->capacity, t->n + 1, sizeof *t->entries, e) ||
        !memory_grow(&t->pieces, &t->pieces_capacity, t->n_pieces + 1, sizeof *t->pieces, e))
        return false;
    uint64_t bytes = tape_bytes(t->x_features, t->features, p->tokens);
    float *at = t->pieces[t->n_pieces] = malloc(bytes);
    if (!at) return gq_fail_memory(e, bytes);
    t->n_pieces++;
    at = tape_copy(at, t->x_features, p->x, p->x_stride, p->tokens);
    at = tape_copy(at, t->features, p->y, p->y_stride, p->tokens);
    memset(at, 0, p->tokens * sizeof *at);
    if (p->token) memcpy(at, p->token, p->tokens * sizeof *p->token);
    t->entries[t->n++] = (tape_entry){matrix, window, p->tokens, p->token != NULL};
    return true;
}

/* ---- playing ---- */

static site_pairs pairs_of_piece(const tape *t, const tape_entry *entry, const float *piece) {
    const float *y = piece + t->x_features * entry->tokens;
    const float *numbers = y + t->features * entry->tokens;
    return (site_pairs){.x = piece,
                        .y = y,
                        .x_stride = entry->tokens,
                        .y_stride = entry->tokens,
                        .tokens = entry->tokens,
                        .token = entry->numbered ? (const uint32_t *)(const void *)numbers : NULL};
}

/* The entries of a rank while they are played. */
typedef struct playing {
    const tape *tape;
    const tape_entry *entries;
    float **own;  /* the pieces, where this rank has them; else NULL */
    float *piece; /* where they come to else */
    tape_player *player;
    void *data;
} playing;

static uint64_t playing_bytes(void *data, size_t i) {
    const playing *p = data;
    return tape_bytes(p->tape->x_features, p->tape->features, p->entries[i].tokens);
}

static void *playing_at(void *data, size_t i) {
    const playing *p = data;
    return p->own ? p->own[i] : p->piece;
}

static bool playing_use(void *data, size_t i, gq_error *e) {
    const playing *p = data;
    site_pairs pairs = pairs_of_piece(p->tape, &p->entries[i], playing_at(data, i));
    bool ok = !pairs.tokens || p->player(p->data, &p->entries[i], &pairs, e);
    if (p->own) free(p->own[i]), p->own[i] = NULL;
    return ok;
}

/* Plays entries of a rank. own: its pieces, where this rank is it; else NULL. */
static bool play_entries(const tape *t, gq_comm *comm, int rank, const tape_entry *entries, size_t n,
                         float **own, tape_player *player, void *data, gq_error *e) {
    uint64_t most = 0;
    for (size_t i = 0; i < n; i++) most = max(most, entries[i].tokens);
    uint64_t bytes = own ? 0 : tape_bytes(t->x_features, t->features, most);
    playing p = {t, entries, own, own ? NULL : malloc(bytes ? bytes : 1), player, data};
    bool ok = own || p.piece || gq_fail_memory(e, bytes);
    ok = ok &&
         comm_broadcast_pieces(comm, rank, &(comm_pieces){n, playing_bytes, playing_at, playing_use, &p}, e);
    free(p.piece);
    return ok;
}

bool tape_play(tape *t, gq_comm *comm, tape_player *player, void *data, gq_error *e) {
    size_t ranks = (size_t)gq_comm_ranks(comm);
    uint64_t mine = t->n, *all = calloc(ranks, sizeof *all);
    bool ok = (all || gq_fail_memory(e, ranks * sizeof *all)) && comm_exchange(comm, &mine, all, 1, e);
    for (size_t r = 0; ok && r < ranks; r++) {
        bool is_own = (int)r == gq_comm_rank(comm);
        tape_entry *entries = is_own ? t->entries : memory_lines(sizeof *entries, all[r] ? all[r] : 1, e);
        if (!all[r]) {
            if (!is_own) free(entries);
            continue;
        }
        ok = entries && comm_broadcast_from(comm, (int)r, entries, all[r] * sizeof *entries, e) &&
             play_entries(t, comm, (int)r, entries, all[r], is_own ? t->pieces : NULL, player, data, e);
        if (!is_own) free(entries);
    }
    free(all);
    tape_free(t);
    return ok;
}
