/* Choosing types for a budget: Lagrangian relaxation, then an exact search among the few tensors for which it
 * leaves a doubt.
 *
 * With a price per byte, each tensor can choose alone: the candidate with the least error + price x bytes. As
 * the price falls, choices move along the lower convex hull of each tensor's (bytes, error) points, and the
 * steps of all hulls, in the order of error saved per byte, are the best choices for ever larger budgets. The
 * price at which the budget is used up also gives a bound: for any choice x within the budget B,
 *
 *     error(x) = bound + sum of regrets(x) + price x (B - bytes(x)),
 *
 * where a candidate's regret is what it costs at this price beyond the tensor's best. All three terms are
 * known or not negative, so a choice can beat the one in hand only if its regrets stay below the gap between
 * that one and the bound. Few candidates do: the search is over those. */
#include "mixes/budget.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "mixes/mixes.h"

/* Search limits: at most this many tensors, and partial choices kept after each. Beyond them the result is
 * feasible and still at most the gap above the bound. */
enum { CORE = 48, STATES = 4096 };

typedef struct step {
    size_t tensor, from, to; /* candidates */
    size_t rank;             /* place in the list before sorting: decides between equals */
    uint64_t bytes;          /* more */
    double saved;            /* error per byte */
} step;

/* A partial choice for the first tensors of the core. */
typedef struct state {
    uint64_t bytes;
    double error, regret;
    uint32_t parent, candidate;
} state;

typedef struct doubt {
    size_t tensor;
    double regret; /* of the second best candidate */
} doubt;

typedef struct layer {
    size_t n;
    state *states; /* bytes rise, error falls */
} layer;

typedef struct search {
    const budget_tensor *tensors;
    size_t n;
    uint64_t budget;
    size_t *choice; /* within the budget, the best so far */
    size_t *best;   /* least error + price x bytes for each tensor, also within the budget */
    double price, bound;
    step *steps;
    size_t n_steps;
    doubt *doubts;
    size_t *trial;
    layer layers[CORE + 1]; /* after each tensor of the core */
    state *states, *work;   /* of all layers; of the next one */
} search;

static const budget_candidate *chosen_candidate(const search *s, const size_t *choice, size_t t) {
    return &s->tensors[t].candidates[choice[t]];
}

static uint64_t total_bytes(const search *s, const size_t *choice) {
    uint64_t bytes = 0;
    for (size_t t = 0; t < s->n; t++) bytes += chosen_candidate(s, choice, t)->bytes;
    return bytes;
}

static double total_error(const search *s, const size_t *choice) {
    double error = 0;
    for (size_t t = 0; t < s->n; t++) error += chosen_candidate(s, choice, t)->error;
    return error;
}

static bool check_tensors(const search *s, gq_error *e) {
    uint64_t least = 0, most = 0;
    for (size_t t = 0; t < s->n; t++) {
        uint64_t low = UINT64_MAX, high = 0;
        for (size_t k = 0; k < s->tensors[t].n; k++) {
            const budget_candidate *c = &s->tensors[t].candidates[k];
            if (!(c->error >= 0 && c->error <= 1e300))
                return gq_fail(e, "tensor %zu, candidate %zu: error %g is not a finite number >= 0", t, k,
                               c->error);
            if (c->bytes < low) low = c->bytes;
            if (c->bytes > high) high = c->bytes;
        }
        if (s->tensors[t].n == 0) return gq_fail(e, "tensor %zu has no candidates", t);
        if (__builtin_add_overflow(most, high, &most))
            return gq_fail(e, "sizes add up to more than 2^64 bytes");
        least += low;
    }
    if (least <= s->budget) return true;
    return gq_fail_usage(e, "the smallest types need %llu bytes, but only %llu are allowed",
                         (unsigned long long)least, (unsigned long long)s->budget);
}

/* ---- the relaxed problem ---- */

/* The next point of the lower hull behind candidate `from`: the one that saves most error per byte; of equals
 * the larger, so that points on one line are one step. False: `from` is the last. */
static bool next_step(const budget_tensor *t, size_t from, step *out) {
    const budget_candidate *a = &t->candidates[from];
    bool found = false;
    for (size_t k = 0; k < t->n; k++) {
        const budget_candidate *b = &t->candidates[k];
        if (b->bytes <= a->bytes || b->error >= a->error) continue;
        double saved = (a->error - b->error) / (double)(b->bytes - a->bytes);
        if (found && (saved < out->saved || (saved == out->saved && b->bytes - a->bytes <= out->bytes)))
            continue;
        *out = (step){.from = from, .to = k, .bytes = b->bytes - a->bytes, .saved = saved};
        found = true;
    }
    return found;
}

/* Smallest candidate, and of the smallest the one with the least error. */
static size_t smallest_candidate(const budget_tensor *t) {
    size_t best = 0;
    for (size_t k = 1; k < t->n; k++) {
        const budget_candidate *a = &t->candidates[best], *b = &t->candidates[k];
        if (b->bytes < a->bytes || (b->bytes == a->bytes && b->error < a->error)) best = k;
    }
    return best;
}

static int by_saving(const void *left, const void *right) {
    const step *a = left, *b = right;
    if (a->saved != b->saved) return a->saved > b->saved ? -1 : 1;
    return (a->rank > b->rank) - (a->rank < b->rank);
}

/* All hulls' steps, most saved per byte first; each tensor's choice is its smallest candidate. */
static void list_steps(search *s) {
    for (size_t t = 0; t < s->n; t++) {
        s->choice[t] = smallest_candidate(&s->tensors[t]);
        size_t at = s->choice[t];
        double before = INFINITY;
        for (step next; next_step(&s->tensors[t], at, &next); at = next.to) {
            next.tensor = t;
            next.rank = s->n_steps;
            /* Savings fall along a hull; rounding must not turn the order of two steps around. */
            before = next.saved = fmin(next.saved, before);
            s->steps[s->n_steps++] = next;
        }
    }
    qsort(s->steps, s->n_steps, sizeof *s->steps, by_saving);
}

/* Take steps while they fit. The first that does not sets the price and the bound; smaller ones may still
 * fill what it leaves. */
static void search_relax(search *s) {
    list_steps(s);
    uint64_t bytes = total_bytes(s, s->choice);
    bool full = false;
    for (size_t i = 0; i < s->n_steps; i++) {
        const step *next = &s->steps[i];
        if (s->choice[next->tensor] != next->from) continue; /* an earlier step of this tensor did not fit */
        if (next->bytes <= s->budget - bytes) {
            s->choice[next->tensor] = next->to;
            bytes += next->bytes;
        } else if (!full) {
            full = true;
            s->price = next->saved;
            memcpy(s->best, s->choice, s->n * sizeof *s->best);
            s->bound = total_error(s, s->best) - s->price * (double)(s->budget - bytes);
        }
    }
    if (!full) {
        memcpy(s->best, s->choice, s->n * sizeof *s->best);
        s->bound = total_error(s, s->best);
    }
}

/* ---- the search among the doubtful ---- */

static double candidate_regret(const search *s, size_t t, size_t k) {
    const budget_candidate *c = &s->tensors[t].candidates[k], *best = chosen_candidate(s, s->best, t);
    double r = c->error - best->error + s->price * ((double)c->bytes - (double)best->bytes);
    return r > 0 ? r : 0;
}

static int by_regret(const void *left, const void *right) {
    const doubt *a = left, *b = right;
    if (a->regret != b->regret) return a->regret < b->regret ? -1 : 1;
    return (a->tensor > b->tensor) - (a->tensor < b->tensor);
}

/* The tensors for which another candidate could still win, the likeliest first. */
static size_t list_doubts(search *s, double gap) {
    size_t n = 0;
    for (size_t t = 0; t < s->n; t++) {
        double least = INFINITY;
        for (size_t k = 0; k < s->tensors[t].n; k++)
            if (k != s->best[t]) least = fmin(least, candidate_regret(s, t, k));
        if (least < gap) s->doubts[n++] = (doubt){t, least};
    }
    qsort(s->doubts, n, sizeof *s->doubts, by_regret);
    return n;
}

static int by_bytes(const void *left, const void *right) {
    const state *a = left, *b = right;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? -1 : 1;
    if (a->error != b->error) return a->error < b->error ? -1 : 1;
    return (a->parent > b->parent) - (a->parent < b->parent);
}

static int by_state_regret(const void *left, const void *right) {
    const state *a = left, *b = right;
    if (a->regret != b->regret) return a->regret < b->regret ? -1 : 1;
    return by_bytes(left, right);
}

/* Drop states that are no smaller than one with at most their error; and the most regretted of too many. */
static size_t states_prune(state *states, size_t n) {
    qsort(states, n, sizeof *states, by_bytes);
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (kept == 0 || states[i].error < states[kept - 1].error) states[kept++] = states[i];
    if (kept <= STATES) return kept;
    qsort(states, kept, sizeof *states, by_state_regret);
    qsort(states, STATES, sizeof *states, by_bytes);
    return STATES;
}

/* Extend each state by each candidate of tensor t that can still win, up to `room` bytes, into s->work. */
static size_t layer_extend(const search *s, const layer *from, size_t t, double gap, uint64_t room) {
    size_t n = 0;
    for (size_t k = 0; k < s->tensors[t].n; k++) {
        const budget_candidate *c = &s->tensors[t].candidates[k];
        double r = candidate_regret(s, t, k);
        if (k != s->best[t] && r >= gap) continue;
        for (size_t i = 0; i < from->n; i++) {
            const state *f = &from->states[i];
            if (c->bytes > room || f->bytes > room - c->bytes) break; /* the others are larger */
            if (f->regret + r < gap)
                s->work[n++] = (state){f->bytes + c->bytes, f->error + c->error, f->regret + r, (uint32_t)i,
                                       (uint32_t)k};
        }
    }
    return states_prune(s->work, n);
}

static uint64_t least_bytes(const budget_tensor *t) { return t->candidates[smallest_candidate(t)].bytes; }

/* Search the choices that differ from s->best in the core only. True: s->choice is now a better one. */
static bool search_core(search *s, const doubt *core, size_t n_core, double gap) {
    uint64_t rest = 0, fixed = total_bytes(s, s->best);
    for (size_t c = 0; c < n_core; c++) {
        rest += least_bytes(&s->tensors[core[c].tensor]);
        fixed -= chosen_candidate(s, s->best, core[c].tensor)->bytes;
    }
    s->layers[0].n = 1;
    s->layers[0].states[0] = (state){0};
    for (size_t c = 0; c < n_core; c++) {
        size_t t = core[c].tensor;
        rest -= least_bytes(&s->tensors[t]);
        size_t n = layer_extend(s, &s->layers[c], t, gap, s->budget - fixed - rest);
        if (n == 0) return false;
        memcpy(s->layers[c + 1].states, s->work, n * sizeof *s->work);
        s->layers[c + 1].n = n;
    }
    memcpy(s->trial, s->best, s->n * sizeof *s->trial);
    uint32_t at = (uint32_t)s->layers[n_core].n - 1; /* the largest has the least error */
    for (size_t c = n_core; c-- > 0;) {
        const state *last = &s->layers[c + 1].states[at];
        s->trial[core[c].tensor] = last->candidate;
        at = last->parent;
    }
    if (total_error(s, s->trial) >= total_error(s, s->choice)) return false;
    memcpy(s->choice, s->trial, s->n * sizeof *s->choice);
    return true;
}

/* Close the gap between the choice in hand and the bound. */
static void search_refine(search *s) {
    for (bool better = true;
         better;) { /* a smaller gap leaves fewer doubts, which may make room for others */
        double gap = total_error(s, s->choice) - s->bound;
        size_t n = gap > 0 ? list_doubts(s, gap) : 0;
        better = n > 0 && search_core(s, s->doubts, n < CORE ? n : CORE, gap) && n > CORE;
    }
}

/* ---- */

static bool search_reserve(search *s, gq_error *e) {
    size_t candidates = 0, most = 1;
    for (size_t t = 0; t < s->n; t++) {
        candidates += s->tensors[t].n;
        if (s->tensors[t].n > most) most = s->tensors[t].n;
    }
    s->best = calloc(s->n + 1, sizeof *s->best);
    s->trial = calloc(s->n + 1, sizeof *s->trial);
    s->doubts = calloc(s->n + 1, sizeof *s->doubts);
    s->steps = calloc(candidates + 1, sizeof *s->steps);
    s->work = reallocarray(NULL, STATES * most, sizeof *s->work);
    s->states = reallocarray(NULL, (CORE + 1) * STATES, sizeof *s->states);
    if (!s->best || !s->trial || !s->doubts || !s->steps || !s->work || !s->states)
        return gq_fail_memory(e, STATES * (most + CORE + 1) * sizeof *s->work);
    for (size_t c = 0; c <= CORE; c++) s->layers[c].states = s->states + c * STATES;
    return true;
}

bool budget_choose(const budget_tensor *tensors, size_t n, uint64_t budget, size_t *choice,
                   budget_result *result, gq_error *e) {
    search s = {.tensors = tensors, .n = n, .budget = budget, .choice = choice};
    bool ok = check_tensors(&s, e) && search_reserve(&s, e);
    if (ok) {
        search_relax(&s);
        search_refine(&s);
        *result = (budget_result){total_bytes(&s, choice), total_error(&s, choice), s.bound};
    }
    free(s.best), free(s.trial), free(s.doubts), free(s.steps), free(s.work), free(s.states);
    return ok;
}

/* ---- candidates ---- */

/* The types that a budget may give to a tensor; docs/internals/target-size.md has the reasons. */

/* Types with long blocks first. Those with blocks of 32 serve where rows are no multiple of 256; elsewhere a
 * long block does better in the same bytes. */
const uint32_t budget_types[BUDGET_TYPES] = {
    GGUF_IQ1_S, GGUF_IQ1_M, GGUF_IQ2_XXS, GGUF_IQ2_XS, GGUF_IQ2_S, GGUF_Q2_K, GGUF_IQ3_XXS,
    GGUF_IQ3_S, GGUF_Q3_K,  GGUF_IQ4_XS,  GGUF_Q4_K,   GGUF_Q5_K,  GGUF_Q6_K, GGUF_Q8_0,
    GGUF_F16,   GGUF_Q4_0,  GGUF_IQ4_NL,  GGUF_Q4_1,   GGUF_Q5_0,  GGUF_Q5_1, GGUF_MXFP4};
enum {
    STAND_INS = 15, /* first of those for odd rows */
    LOSSLESS = 20,  /* first of those for nothing but what they hold exactly */
};

bool budget_type_applies(size_t type, const char *name, const tensor_type *from, uint64_t columns,
                         bool has_importance, bool loses_nothing) {
    const tensor_type *to = tensor_type_of(budget_types[type]);
    if (!gguf_fits_row(to, columns)) return false;
    if (!loses_nothing && (type >= LOSSLESS || (type >= STAND_INS && columns % 256 == 0))) return false;
    if (mix_demands_importance(name, to->id) && !has_importance) return false;
    return gguf_row_bytes(to, columns) < gguf_row_bytes(from, columns);
}
