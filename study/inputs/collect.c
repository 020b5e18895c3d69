/* Collects imatrix data from a running model: a site that adds the squares of the inputs of weights.
 * Weights that share their inputs are one collected_site. A group of tokens (forward/stream/stream.h) is a leaf of
 * the fixed tree of base/comm/fold.h; a token's group follows from its number in the text. So the sums depend
 * neither on batches, nor on threads, nor on ranks. Experts count their own tokens; other weights count a
 * batch's tokens once, with their first matrix. collection_take makes an entry for each weight and begins
 * anew, as a rule after every layer, so that only one layer's sums are in memory.
 *
 * Ranks have seen the same sites in the same order, but for ranks without a window, which are the last ones
 * and have seen none. A rank's parcel has, for each site, a parcel_site, its counts, and for each matrix the
 * number of nodes of its fold, and these: the number of the first leaf and the sums.
 */
#include "study/inputs/inputs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/comm/fold.h"
#include "gguf/facts.h"

/* Weights that share the inputs of them. */
typedef struct collected_site {
    const model_tensor *weights[FORWARD_MOST_WEIGHTS];
    size_t n_weights, features, matrices;
    bool routed;      /* each matrix counts for itself */
    fold *folds;      /* one per matrix */
    uint64_t *counts; /* weights of tokens, in FORWARD_WEIGHT_ONE-ths: one sum, or one per matrix */
} collected_site;

struct collection {
    threads_pool *pool;
    collection_share share;
    size_t group_tokens;
    size_t n, capacity;
    collected_site *sites; /* in the order in which they were first reported */
};

collection_share collection_share_of(const gq_comm *comm, size_t windows, size_t context) {
    uint64_t groups = ceil_div(windows, token_group_windows(context));
    int rank = gq_comm_rank(comm);
    return (collection_share){context, comm_share(comm, groups, rank), comm_share(comm, groups, rank + 1),
                              groups};
}

collection *collection_new(threads_pool *pool, collection_share share, gq_error *e) {
    collection *c = calloc(1, sizeof *c);
    if (!c) return gq_fail_memory(e, sizeof *c), NULL;
    c->pool = pool, c->share = share, c->group_tokens = token_group_size(share.context);
    return c;
}

static void drop_sites(collection *c) {
    for (size_t i = 0; i < c->n; i++) {
        collected_site *s = &c->sites[i];
        for (size_t m = 0; s->folds && m < s->matrices; m++) fold_free(&s->folds[m]);
        free(s->folds), free(s->counts);
    }
    free(c->sites);
    c->sites = NULL, c->n = c->capacity = 0;
}

void collection_free(collection *c) {
    if (c) drop_sites(c);
    free(c);
}

static size_t counts_of(const collected_site *s) { return s->routed ? s->matrices : 1; }

/* The nodes of the folds are taken as groups come. */
static void lay_out_site(collected_site *s, memory_ledger *l) {
    s->folds = memory_take_zeros(l, s->matrices, sizeof *s->folds);
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
    if (!memory_had(&l, e)) return NULL;
    for (size_t m = 0; m < s->matrices; m++)
        s->folds[m] = (fold){.begin = c->share.begin, .length = s->features};
    return s;
}

/* Returns the sums of a group, which is the last one that a fold has, or comes behind it. */
static double *collection_group(fold *f, uint64_t number, gq_error *e) {
    const fold_node *last = f->n ? &f->nodes[f->n - 1] : NULL;
    return last && last->first == number ? last->sums : fold_begin_leaf(f, number, e);
}

/* Adds tokens, one group after another in the order of forward/stream/stream.h. */
static bool add_tokens(const collection *c, const collected_site *s, const forward_inputs *in, gq_error *e) {
    for (size_t begin = 0, end; begin < in->tokens; begin = end) {
        uint64_t number = (in->first + (in->token ? in->token[begin] : begin)) / c->group_tokens;
        for (end = begin + 1; end < in->tokens; end++)
            if ((in->first + (in->token ? in->token[end] : end)) / c->group_tokens != number) break;
        double *sums = collection_group(&s->folds[in->matrix], c->share.begin + number, e);
        if (!sums) return false;
        forward_inputs some = *in;
        some.x += begin, some.tokens = end - begin;
        forward_add_squares(&some, sums, c->pool);
    }
    return true;
}

static forward_answer collection_on_inputs(void *data, const forward_inputs *in, gq_error *e) {
    collection *c = data;
    collected_site *s = NULL;
    for (size_t i = 0; !s && i < c->n; i++)
        if (c->sites[i].weights[0] == in->weights[0]) s = &c->sites[i];
    if (!s && !(s = collection_add_site(c, in, e))) return FORWARD_FAILED;
    if (!add_tokens(c, s, in, e)) return FORWARD_FAILED;
    if (s->routed || in->matrix == 0)
        s->counts[s->routed ? in->matrix : 0] += in->weight ? in->weight : in->tokens * FORWARD_WEIGHT_ONE;
    return FORWARD_ON;
}

forward_observer collection_observer(collection *c) {
    return (forward_observer){.on_inputs = collection_on_inputs, .data = c};
}

/* ---- what ranks hand on ---- */

typedef struct parcel_site {
    uint64_t matrices, features, routed;
} parcel_site;

static uint64_t parcel_bytes(const collection *c) {
    uint64_t n = 0;
    for (size_t i = 0; i < c->n; i++) {
        const collected_site *s = &c->sites[i];
        n += sizeof(parcel_site) + (counts_of(s) + s->matrices) * sizeof(uint64_t);
        for (size_t m = 0; m < s->matrices; m++) n += s->folds[m].n * (1 + s->features) * sizeof(uint64_t);
    }
    return n;
}

static uint8_t *parcel_put_fold(uint8_t *to, const fold *f) {
    uint64_t n = f->n;
    to = mempcpy(to, &n, sizeof n);
    for (size_t i = 0; i < f->n; i++) {
        to = mempcpy(to, &f->nodes[i].first, sizeof f->nodes[i].first);
        to = mempcpy(to, f->nodes[i].sums, f->length * sizeof(double));
    }
    return to;
}

static bool collection_pack(void *data, uint8_t **bytes, uint64_t *n, gq_error *e) {
    const collection *c = data;
    *n = parcel_bytes(c);
    uint8_t *to = *bytes = malloc(*n ? *n : 1);
    if (!to) return gq_fail_memory(e, *n);
    for (size_t i = 0; i < c->n; i++) {
        const collected_site *s = &c->sites[i];
        to = mempcpy(to, &(parcel_site){s->matrices, s->features, s->routed}, sizeof(parcel_site));
        to = mempcpy(to, s->counts, counts_of(s) * sizeof *s->counts);
        for (size_t m = 0; m < s->matrices; m++) to = parcel_put_fold(to, &s->folds[m]);
    }
    return true;
}

/* The rest of a parcel. */
typedef struct parcel_rest {
    const uint8_t *at;
    uint64_t n;
} parcel_rest;

static bool parcel_fail(gq_error *e) {
    return gq_fail(e, "another rank collected inputs of other weights than this one");
}

static bool parcel_get(parcel_rest *p, void *to, uint64_t n, gq_error *e) {
    if (n > p->n) return parcel_fail(e);
    memcpy(to, p->at, n);
    p->at += n, p->n -= n;
    return true;
}

static bool parcel_get_fold(parcel_rest *p, fold *f, double *sums, gq_error *e) {
    uint64_t n = 0, first = 0;
    if (!parcel_get(p, &n, sizeof n, e)) return false;
    for (uint64_t i = 0; i < n; i++) {
        if (!parcel_get(p, &first, sizeof first, e) || !parcel_get(p, sums, f->length * sizeof *sums, e))
            return false;
        if (f->n && first <= f->nodes[f->n - 1].first)
            return gq_fail(e, "another rank collected inputs of the same tokens as this one");
        if (!fold_append(f, first, sums, e)) return false;
    }
    return true;
}

static bool parcel_get_site(parcel_rest *p, collected_site *s, gq_error *e) {
    parcel_site of = {0};
    if (!parcel_get(p, &of, sizeof of, e)) return false;
    if (of.matrices != s->matrices || of.features != s->features || of.routed != s->routed)
        return parcel_fail(e);
    double *sums = malloc((s->features ? s->features : 1) * sizeof *sums);
    bool ok = sums || gq_fail_memory(e, s->features * sizeof *sums);
    for (size_t i = 0; ok && i < counts_of(s); i++) {
        uint64_t count = 0;
        ok = parcel_get(p, &count, sizeof count, e);
        s->counts[i] += count;
    }
    for (size_t m = 0; ok && m < s->matrices; m++) ok = parcel_get_fold(p, &s->folds[m], sums, e);
    free(sums);
    return ok;
}

static bool collection_add_parcel(void *data, const uint8_t *bytes, uint64_t n, gq_error *e) {
    collection *c = data;
    parcel_rest p = {bytes, n};
    if (n == 0) return true; /* of a rank without windows */
    for (size_t i = 0; i < c->n; i++)
        if (!parcel_get_site(&p, &c->sites[i], e)) return false;
    return p.n == 0 || parcel_fail(e);
}

bool collection_gather(collection *c, gq_comm *comm, gq_error *e) {
    for (size_t i = 0; i < c->n; i++)
        for (size_t m = 0; m < c->sites[i].matrices; m++) fold_end(&c->sites[i].folds[m], c->share.end);
    return comm_collect(comm, &(comm_parcel){collection_pack, collection_add_parcel, c}, e);
}

/* ---- entries ---- */

static bool collection_add_entry(imatrix *im, const collected_site *s, const model_tensor *t, gq_error *e) {
    imatrix_entry *x = &im->entries[im->n_entries];
    uint64_t n = s->matrices * s->features, n_counts = counts_of(s);
    if (!imatrix_entry_new(x, t->name, strlen(t->name), n, n_counts, false, e)) return false;
    im->n_entries++;
    /* Readers take less than one token for a damaged file. What counts less in all counts as one, and sums grow
     * by as much, so that means stay. */
    for (uint64_t i = 0; i < n_counts; i++)
        x->counts[i] = s->counts[i] ? fmaxf(1, (float)s->counts[i] / FORWARD_WEIGHT_ONE) : 0;
    for (size_t m = 0; m < s->matrices; m++) {
        const double *total = fold_total(&s->folds[m]);
        uint64_t count = s->counts[n_counts > 1 ? m : 0];
        double raised = count && count < FORWARD_WEIGHT_ONE ? (double)FORWARD_WEIGHT_ONE / (double)count : 1;
        for (size_t i = 0; i < s->features; i++)
            x->sums[m * s->features + i] = total ? (float)(raised * total[i]) : 0;
    }
    imatrix_count_unseen(x);
    return true;
}

bool collection_take(collection *c, imatrix *im, gq_error *e) {
    bool ok = true;
    *im = (imatrix){0};
    for (size_t i = 0; ok && i < c->n; i++) {
        collected_site *s = &c->sites[i];
        ok = imatrix_reserve(im, s->n_weights, e);
        for (size_t w = 0; ok && w < s->n_weights; w++) ok = collection_add_entry(im, s, s->weights[w], e);
    }
    drop_sites(c);
    ok = ok && imatrix_sort(im, "importance", e);
    if (!ok) imatrix_free(im);
    return ok;
}

/* ---- sizes ---- */

/* Returns N of "blk.N.", of an encoder's and a decoder's alike; UINT64_MAX: the name has none. */
static uint64_t layer_of(const char *name) {
    model_block b;
    return model_block_in(name, &b) ? b.number : UINT64_MAX;
}

/* Takes what a tensor needs that is a site of its own: sums, the entry, and the bytes that it is written as.
 * A rank of several holds what it packs as well, or what another has packed. */
static void collection_count_tensor(const model_tensor *t, collection_share share, bool packs,
                                    memory_ledger *l) {
    uint64_t values = mul_sat(t->ne[0], t->ne[2]);
    uint64_t nodes = mul_sat(t->ne[2], fold_bytes(t->ne[0], fold_most_nodes(share.begin, share.end)));
    collected_site s = {.features = t->ne[0], .matrices = t->ne[2], .routed = true};
    lay_out_site(&s, l);
    memory_hold(l, mul_sat(nodes, packs ? 2 : 1));
    memory_hold(l, mul_sat(values, 2 * sizeof(float)));
}

/* Counts every tensor as a site of its own, which is an upper bound, since some share one. */
collection_sizes collection_measure(const model_source *m, size_t layers, const char *output,
                                    collection_share share, const gq_comm *comm) {
    memory_ledger *of = calloc(layers + 1, sizeof *of);
    collection_sizes sizes = {0, 0};
    if (!of) return (collection_sizes){UINT64_MAX, UINT64_MAX};
    for (uint64_t i = 0; i < m->n_tensors; i++) {
        const model_tensor *t = m->tensors[i];
        uint64_t layer = layer_of(t->name);
        if (layer >= layers && (!output || strcmp(t->name, output) != 0)) continue;
        memory_ledger *l = &of[layer < layers ? layer : layers];
        l->counts = true;
        collection_count_tensor(t, share, gq_comm_ranks(comm) > 1, l);
        sizes.layer = max(sizes.layer, l->bytes);
        sizes.entries = add_sat(sizes.entries, mul_sat(mul_sat(t->ne[0], t->ne[2]), sizeof(float)));
    }
    free(of);
    return sizes;
}
