#include "quantize/calibrate/site.h"

#include <stdlib.h>
#include <string.h>

#include "imatrix/output.h"

enum { NOWHERE = UINT32_MAX };

/* The inputs of a matrix in this batch in the original model: feature after feature. */
typedef struct told {
    float *x;
    uint32_t *token;
    size_t tokens, room, token_room;
} told;

typedef struct gathering {
    const site_search *search;
    site *s;
    told *told;    /* of the matrices that are gathered */
    float *paired; /* x of the tokens of an expert */
    uint32_t *place;
    size_t paired_room, place_room;
    size_t window; /* the batch's first */
    bool original; /* whose turn it is */
} gathering;

/* ---- room ---- */

static bool grow(void *array, size_t *room, size_t n, size_t size, gq_error *e) {
    void **p = array;
    if (n <= *room) return true;
    void *grown = realloc(*p, n * size);
    if (!grown) return gq_fail_memory(e, n * size);
    *p = grown, *room = n;
    return true;
}

void site_inputs_free(site_inputs *inputs) {
    moments_free(inputs->moments);
    free(inputs->original), free(inputs->rounded);
    *inputs = (site_inputs){.held = 0};
}

void site_free(site *s) {
    for (size_t i = 0; s->inputs && i < s->end - s->first; i++) site_inputs_free(&s->inputs[i]);
    free(s->inputs);
    *s = (site){.n_weights = 0};
}

site_inputs site_take(site *s, size_t i) {
    site_inputs taken = s->inputs[i];
    s->inputs[i] = (site_inputs){.held = 0};
    return taken;
}

/* ---- which site ---- */

/* Matrices of all weights of the site that are settled. */
static uint64_t settled(const gathering *g, const forward_inputs *in) {
    uint64_t least = in->matrices;
    for (size_t i = 0; i < in->n_weights; i++) {
        uint64_t n = g->search->settled(g->search->data, in->weights[i]);
        if (n < least) least = n;
    }
    return least;
}

static bool begin_site(gathering *g, const forward_inputs *in, uint64_t first, gq_error *e) {
    const calibrate_job *of = g->search->of;
    site *s = g->s;
    size_t left = in->matrices - first, n = left < of->matrices_at_once ? left : of->matrices_at_once;
    if (n < 1) n = 1;
    *s = (site){.n_weights = in->n_weights,
                .features = in->features,
                .matrices = in->matrices,
                .first = first,
                .end = first + n,
                .routed = in->routed};
    memcpy(s->weights, in->weights, sizeof s->weights);
    s->inputs = calloc(n, sizeof *s->inputs);
    g->told = calloc(n, sizeof *g->told);
    if (!s->inputs || !g->told) return gq_fail_memory(e, n * sizeof *g->told);
    moments_shape shape = {in->features, of->settings->width, true, token_group_size(of->settings->context)};
    for (size_t i = 0; i < n; i++)
        if (!(s->inputs[i].moments = moments_new(of->kernels, shape, g->search->pool, e))) return false;
    return true;
}

/* ---- the original's turn ---- */

static bool keep_original(const site *s, told *t, const forward_inputs *in, gq_error *e) {
    if (!grow(&t->x, &t->room, s->features * in->tokens, sizeof *t->x, e)) return false;
    t->tokens = in->tokens;
    for (size_t f = 0; f < s->features; f++)
        memcpy(t->x + f * in->tokens, in->x + f * in->stride, in->tokens * sizeof *t->x);
    if (!in->token) return true;
    if (!grow(&t->token, &t->token_room, in->tokens, sizeof *t->token, e)) return false;
    memcpy(t->token, in->token, in->tokens * sizeof *t->token);
    return true;
}

/* ---- the other's ---- */

/* Finds the position of each token of `in` among those that the original sent to the same expert. */
static void find_places(const told *t, const forward_inputs *in, uint32_t *place) {
    for (size_t i = 0, k = 0; i < in->tokens; i++) {
        while (k < t->tokens && t->token[k] < in->token[i]) k++;
        place[i] = k < t->tokens && t->token[k] == in->token[i] ? (uint32_t)k : NOWHERE;
    }
}

static const float *pair_experts(gathering *g, const told *t, const forward_inputs *in, gq_error *e) {
    size_t n = in->tokens;
    if (!grow(&g->paired, &g->paired_room, g->s->features * n, sizeof *g->paired, e) ||
        !grow(&g->place, &g->place_room, n, sizeof *g->place, e))
        return NULL;
    find_places(t, in, g->place);
    for (size_t f = 0; f < g->s->features; f++)
        for (size_t i = 0; i < n; i++)
            g->paired[f * n + i] =
                g->place[i] == NOWHERE ? in->x[f * in->stride + i] : t->x[f * t->tokens + g->place[i]];
    return g->paired;
}

static bool is_held(const gathering *g, const forward_inputs *in, size_t i) {
    const calibrate_job *of = g->search->of;
    return calibration_is_held(of->settings,
                               g->window + (in->token ? in->token[i] : i) / of->settings->context);
}

static bool hold(const site *s, size_t most, site_inputs *to, const float *x, size_t x_stride, const float *y,
                 size_t y_stride, size_t tokens, gq_error *e) {
    if (to->held + tokens > most) tokens = most - to->held;
    size_t n = (to->held + tokens) * s->features, room = to->room;
    if (tokens == 0) return true;
    if (!grow(&to->original, &room, n, sizeof *x, e) || !grow(&to->rounded, &to->room, n, sizeof *x, e))
        return false;
    for (size_t i = 0; i < tokens; i++, to->held++)
        for (size_t f = 0; f < s->features; f++) {
            to->original[to->held * s->features + f] = x[f * x_stride + i];
            to->rounded[to->held * s->features + f] = y[f * y_stride + i];
        }
    return true;
}

/* Returns the token group of the i-th token of the inputs. */
static uint64_t group_of(const gathering *g, const forward_inputs *in, size_t i) {
    size_t context = g->search->of->settings->context;
    return (g->window * context + (in->token ? in->token[i] : i)) / token_group_size(context);
}

static void add_moments(site_inputs *to, uint64_t group, const float *x, size_t x_stride, const float *y,
                        size_t y_stride, size_t tokens) {
    if (group != to->group) moments_end_group(to->moments);
    to->group = group;
    moments_add(to->moments, x, x_stride, y, y_stride, tokens);
}

/* Runs of tokens of a group that are held back, or are not. */
static bool add_pairs(gathering *g, size_t matrix, const forward_inputs *in, gq_error *e) {
    site_inputs *to = &g->s->inputs[matrix];
    const told *t = &g->told[matrix];
    const float *x = g->s->routed ? pair_experts(g, t, in, e) : t->x;
    size_t n = in->tokens, most = calibration_held_most(g->search->of->settings, g->s->routed);
    if (!x) return false;
    for (size_t begin = 0, end; begin < n; begin = end) {
        bool held = is_held(g, in, begin);
        uint64_t group = group_of(g, in, begin);
        for (end = begin + 1; end < n && is_held(g, in, end) == held && group_of(g, in, end) == group;) end++;
        if (!held)
            add_moments(to, group, x + begin, n, in->x + begin, in->stride, end - begin);
        else if (!hold(g->s, most, to, x + begin, n, in->x + begin, in->stride, end - begin, e))
            return false;
    }
    return true;
}

/* ---- what is told ---- */

static forward_answer take(void *data, const forward_inputs *in, gq_error *e) {
    gathering *g = data;
    site *s = g->s;
    uint64_t first = settled(g, in);
    bool wanted = first < in->matrices;
    if (!s->n_weights && !wanted) return FORWARD_ON;
    if (!s->n_weights && !begin_site(g, in, first, e)) return FORWARD_FAILED;
    bool within = in->matrix >= s->first && in->matrix < s->end;
    if (in->weights[0] != s->weights[0]) {
        if (s->routed && in->routed) return within ? FORWARD_ON : FORWARD_SKIP;
        /* Sites of heads take turns with others of the same heads. */
        return wanted && (s->routed || s->matrices == 1) ? FORWARD_END : FORWARD_ON;
    }
    if (in->matrix >= s->end) return FORWARD_END;
    if (!within) return FORWARD_SKIP;
    size_t matrix = in->matrix - s->first;
    if (!(g->original ? keep_original(s, &g->told[matrix], in, e) : add_pairs(g, matrix, in, e)))
        return FORWARD_FAILED;
    return !s->routed && in->matrix + 1 == s->end ? FORWARD_END : FORWARD_SKIP;
}

/* ---- a run ---- */

static bool look(gathering *g, size_t batch, bool original, gq_error *e) {
    const site_search *search = g->search;
    forward_stream *stream = original ? search->original : search->rounded;
    forward_site taken = {take, g};
    g->original = original;
    if (!search->layer) return forward_stream_look_final(stream, batch, &taken, e);
    forward_layer_use(search->layer, !original);
    return forward_stream_look(stream, batch, search->layer, search->part, &taken, e);
}

bool site_gather(site *s, const site_search *search, gq_error *e) {
    const calibrate_job *of = search->of;
    gathering g = {.search = search, .s = s};
    bool ok = true;
    *s = (site){.n_weights = 0};
    for (size_t i = 0; ok && i < forward_stream_batches(search->original); i++) {
        g.window = i * of->bounds.batch;
        for (size_t k = 0; g.told && k < s->end - s->first; k++) g.told[k].tokens = 0;
        ok = look(&g, i, true, e);
        if (!s->n_weights) break;
        ok = ok && look(&g, i, false, e);
    }
    for (size_t k = 0; g.told && k < s->end - s->first; k++) free(g.told[k].x), free(g.told[k].token);
    free(g.told), free(g.paired), free(g.place);
    return ok;
}
