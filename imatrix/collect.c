/* Collects importance data from a running model: a site that adds the squares of what flows into weights.
 * Weights that share their inputs are one collected_site. A group of tokens (forward/groups.h) is summed by
 * itself and then added to the total, both in double; a token's group follows from its number in the text, so
 * the sums depend neither on batches nor on threads. Experts count their own tokens; other weights count a
 * batch's tokens once, with their first matrix. collection_take makes an entry for each weight and begins
 * anew, as a rule after every layer, so that only one layer's sums are in memory.
 */
#include "imatrix/collect.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/memory.h"
#include "forward/groups.h"
#include "forward/squares.h"
#include "imatrix/entries.h"

/* Weights that share what flows into them. */
typedef struct collected_site {
    const model_tensor *weights[FORWARD_MOST_WEIGHTS];
    size_t n_weights, features, matrices;
    bool routed;      /* each matrix counts for itself */
    double *sums;     /* matrices x features */
    double *group;    /* the same, of the group of tokens at work */
    uint64_t *number; /* number of that group, per matrix */
    uint64_t *counts; /* tokens: one count, or one per matrix */
} collected_site;

struct collection {
    threads_pool *pool;
    size_t group_tokens;
    size_t n, capacity;
    collected_site *sites; /* in the order in which they were first reported */
};

collection *collection_new(threads_pool *pool, size_t context, gq_error *e) {
    collection *c = calloc(1, sizeof *c);
    if (!c) return gq_fail_memory(e, sizeof *c), NULL;
    c->pool = pool, c->group_tokens = token_group_size(context);
    return c;
}

static void drop_sites(collection *c) {
    for (size_t i = 0; i < c->n; i++) {
        free(c->sites[i].sums), free(c->sites[i].counts);
        free(c->sites[i].group), free(c->sites[i].number);
    }
    free(c->sites);
    c->sites = NULL, c->n = c->capacity = 0;
}

void collection_free(collection *c) {
    if (c) drop_sites(c);
    free(c);
}

static size_t counts_of(const collected_site *s) { return s->routed ? s->matrices : 1; }

static void lay_out_site(collected_site *s, memory_ledger *l) {
    uint64_t values = times(s->matrices, s->features);
    s->sums = memory_take_zeros(l, values, sizeof *s->sums);
    s->group = memory_take_zeros(l, values, sizeof *s->group);
    s->number = memory_take_zeros(l, s->matrices, sizeof *s->number);
    s->counts = memory_take_zeros(l, counts_of(s), sizeof *s->counts);
}

static collected_site *collection_add_site(collection *c, const forward_inputs *in, gq_error *e) {
    if (!memory_grow(&c->sites, &c->capacity, c->n + 1, sizeof *c->sites, e)) return NULL;
    collected_site *s = &c->sites[c->n];
    *s = (collected_site){
        .n_weights = in->n_weights, .features = in->features, .matrices = in->matrices, .routed = in->routed};
    memcpy(s->weights, in->weights, sizeof s->weights);
    memory_ledger l = {.failed = false};
    lay_out_site(s, &l);
    c->n++; /* so that it is freed */
    return memory_had(&l, e) ? s : NULL;
}

/* Adds a group's sums to the total and clears them. */
static void end_group(const collected_site *s, size_t matrix) {
    double *sums = s->sums + matrix * s->features, *group = s->group + matrix * s->features;
    for (size_t i = 0; i < s->features; i++) sums[i] += group[i], group[i] = 0;
}

/* Adds tokens, one group after another in the order of forward/groups.h. */
static void add_tokens(const collection *c, const collected_site *s, const forward_inputs *in) {
    for (size_t begin = 0, end; begin < in->tokens; begin = end) {
        uint64_t number = (in->first + (in->token ? in->token[begin] : begin)) / c->group_tokens;
        for (end = begin + 1; end < in->tokens; end++)
            if ((in->first + (in->token ? in->token[end] : end)) / c->group_tokens != number) break;
        if (number != s->number[in->matrix]) end_group(s, in->matrix);
        s->number[in->matrix] = number;
        forward_inputs some = *in;
        some.x += begin, some.tokens = end - begin;
        forward_add_squares(&some, s->group + in->matrix * s->features, c->pool);
    }
}

static forward_answer collection_on_inputs(void *data, const forward_inputs *in, gq_error *e) {
    collection *c = data;
    collected_site *s = NULL;
    for (size_t i = 0; !s && i < c->n; i++)
        if (c->sites[i].weights[0] == in->weights[0]) s = &c->sites[i];
    if (!s && !(s = collection_add_site(c, in, e))) return FORWARD_FAILED;
    add_tokens(c, s, in);
    if (s->routed || in->matrix == 0) s->counts[s->routed ? in->matrix : 0] += in->tokens;
    return FORWARD_ON;
}

forward_site collection_site(collection *c) { return (forward_site){collection_on_inputs, c}; }

/* ---- entries ---- */

static bool collection_add_entry(imatrix *im, const collected_site *s, const model_tensor *t, gq_error *e) {
    imatrix_entry *x = &im->entries[im->n_entries];
    uint64_t n = s->matrices * s->features, n_counts = counts_of(s);
    if (!imatrix_entry_new(x, t->name, strlen(t->name), n, n_counts, false, e)) return false;
    im->n_entries++;
    for (uint64_t i = 0; i < n; i++) x->sums[i] = (float)s->sums[i];
    for (uint64_t i = 0; i < n_counts; i++) x->counts[i] = (float)s->counts[i];
    imatrix_count_unseen(x);
    return true;
}

bool collection_take(collection *c, imatrix *im, gq_error *e) {
    bool ok = true;
    *im = (imatrix){0};
    for (size_t i = 0; ok && i < c->n; i++) {
        collected_site *s = &c->sites[i];
        for (size_t m = 0; m < s->matrices; m++) end_group(s, m);
        free(s->group), s->group = NULL; /* entries come into its place */
        ok = imatrix_reserve(im, s->n_weights, e);
        for (size_t w = 0; ok && w < s->n_weights; w++) ok = collection_add_entry(im, s, s->weights[w], e);
    }
    drop_sites(c);
    ok = ok && imatrix_sort(im, "importance", e);
    if (!ok) imatrix_free(im);
    return ok;
}

/* ---- sizes ---- */

/* Returns N of "blk.N."; UINT64_MAX: the name has none. */
static uint64_t layer_of(const char *name) {
    return strncmp(name, "blk.", 4) == 0 ? strtoull(name + 4, NULL, 10) : UINT64_MAX;
}

/* Counts every tensor as a site of its own, which is an upper bound, since some share one. Entries, and the
 * bytes that they are written as, later take the place of the sums of a group. */
collection_sizes collection_measure(const model_source *m, size_t layers, const char *output) {
    memory_ledger *of = calloc(layers + 1, sizeof *of);
    collection_sizes sizes = {0, 0};
    if (!of) return (collection_sizes){UINT64_MAX, UINT64_MAX};
    for (uint64_t i = 0; i < m->n_tensors; i++) {
        const model_tensor *t = m->tensors[i];
        uint64_t layer = layer_of(t->name);
        if (layer >= layers && (!output || strcmp(t->name, output) != 0)) continue;
        memory_ledger *l = &of[layer < layers ? layer : layers];
        l->counts = true;
        lay_out_site(&(collected_site){.features = t->ne[0], .matrices = t->ne[2], .routed = true}, l);
        sizes.layer = larger(sizes.layer, l->bytes);
        sizes.entries = plus(sizes.entries, times(times(t->ne[0], t->ne[2]), sizeof(float)));
    }
    free(of);
    return sizes;
}
