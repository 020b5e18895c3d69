#include "study/evaluate/evaluate.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "quantize/quantize.h"

/* ---- the draft ---- */

static const model_kv *drafter_tokens(const model_source *m) {
    return model_kv_find(m->kv, m->n_kv, "tokenizer.ggml.tokens");
}

/* Whether both have the same tokens, but for a few that one has more at its end, as padding. */
static bool drafter_shares_tokens(const model_source *a, const model_source *b) {
    enum { MOST_MORE = 128 }; /* tokens */
    const model_kv *x = drafter_tokens(a), *y = drafter_tokens(b);
    if (!x || !y) return x == y;
    if (x->size < GGUF_ARRAY_HEADER || y->size < GGUF_ARRAY_HEADER || memcmp(x->value, y->value, 4) != 0)
        return false;
    uint64_t of_x, of_y, n = min(x->size, y->size);
    memcpy(&of_x, x->value + 4, sizeof of_x), memcpy(&of_y, y->value + 4, sizeof of_y);
    return max(of_x, of_y) - min(of_x, of_y) <= MOST_MORE &&
           memcmp(x->value + GGUF_ARRAY_HEADER, y->value + GGUF_ARRAY_HEADER, n - GGUF_ARRAY_HEADER) == 0;
}

static bool drafter_check_tokens(const drafter *d, const runner *target, gq_error *e) {
    size_t a = forward_model_sizes(d->own.model)->vocabulary,
           b = forward_model_sizes(target->model)->vocabulary;
    if (drafter_shares_tokens(&d->own.file, &target->file) && (drafter_tokens(&d->own.file) || a == b))
        return true;
    return gq_fail_usage(e,
                         "%s has a vocabulary of %zu tokens, and %s another one of %zu: a draft model needs "
                         "the tokens of its target",
                         d->own.path, a, target->path, b);
}

/* Opens a draft's file, or its folder, which may have its vocabulary in another one. */
static bool drafter_open_file(drafter *d, const char *path, const runner *target, const char *folder,
                              gq_error *e) {
    gq_error why = {0};
    struct stat st;
    bool ok = input_open(&d->own.file, path, &why);
    if (!folder && stat(target->path, &st) == 0 && S_ISDIR(st.st_mode)) folder = target->path;
    if (!ok && why.remedy == GQ_REMEDY_TARGET_MODEL && folder)
        ok = input_open_adapted(&d->own.file, path, &(gq_adapters){.target = folder}, &why);
    if (ok) return true;
    d->own.path = NULL;
    return *e = why, false;
}

bool drafter_open(drafter *d, const char *path, const runner *target, const char *folder, gq_error *e) {
    *d = (drafter){.own.path = path};
    if (!drafter_open_file(d, path, target, folder, e)) return false;
    if (forward_continues_hidden_states(&d->own.file)) {
        if (drafter_tokens(&d->own.file) && !drafter_shares_tokens(&d->own.file, &target->file))
            return gq_fail_usage(
                e, "%s: its vocabulary is not that of %s, so it is a draft model for another target", path,
                target->path);
        return d->continues_hidden_states = continued_check(&d->own.file, target, e);
    }
    model_facts facts = model_facts_of(d->own.file.kv, d->own.file.n_kv, NULL, 0);
    d->own.model = forward_model_new(&d->own.file, e);
    if (!d->own.model) return false;
    if (forward_is_bidirectional(&d->own.file) || forward_model_sizes(d->own.model)->embeds)
        return gq_fail_usage(e,
                             "%s: models of architecture '%s' do not predict the next token; expected a "
                             "draft model for this model, or a model with the same tokens",
                             path, facts.arch);
    return drafter_check_tokens(d, target, e);
}

uint64_t drafter_bytes(const drafter *d, const runner *target, uint64_t tokens, uint64_t memory) {
    /* A few tokens more are run than the text has: those that are drafted behind each piece. */
    tokens = add_sat(tokens, ceil_div(tokens, PIECE_TOKENS / GQ_DRAFTED));
    return d->continues_hidden_states ? continued_bytes(&d->own.file, target, tokens, memory) : 0;
}

/* If the model or the draft cannot be run, tokens and the hidden size are compared. */
static bool drafter_check_facts(const drafter *d, const runner *target, gq_error *e) {
    static const struct {
        const char *arch, *width;
    } kinds[] = {{"eagle3", "target_hidden_size"},
                 {"dflash", "embedding_length"},
                 {"gemma4-assistant", "embedding_length_out"}};
    model_facts of = model_facts_of(d->own.file.kv, d->own.file.n_kv, NULL, 0),
                to = model_facts_of(target->file.kv, target->file.n_kv, NULL, 0);
    int64_t width, hidden_states;
    bool needs_tokens = !forward_continues_hidden_states(&d->own.file) || drafter_tokens(&d->own.file);
    if (needs_tokens && !drafter_shares_tokens(&d->own.file, &target->file))
        return gq_fail_usage(e, "%s: its vocabulary is not that of %s, so it cannot draft for it",
                             d->own.path, target->path);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].arch, of.arch) == 0 && model_fact_int(&of, kinds[i].width, &width) &&
            model_fact_int(&to, "embedding_length", &hidden_states) && width != hidden_states)
            return gq_fail_usage(
                e,
                "%s: %s.%s is %lld, and %s has hidden states of %lld: it is a draft model for another target",
                d->own.path, of.arch, kinds[i].width, (long long)width, target->path,
                (long long)hidden_states);
    return true;
}

/* Whether it can be run for a target. */
static bool drafter_runs(const drafter *d, const runner *target) {
    const model_source *file = &d->own.file;
    model_facts facts = model_facts_of(file->kv, file->n_kv, NULL, 0);
    if (!target->model) return false;
    if (forward_continues_hidden_states(file)) return !model_fact(&facts, "hyper_connection.count");
    forward_model *m = forward_model_new(file, &(gq_error){0});
    forward_model_free(m);
    return m != NULL;
}

static bool draft_check_model(const char *draft, const runner *target, const char *folder, gq_error *e) {
    drafter d = {.own.path = draft};
    if (target->model &&
        (forward_model_sizes(target->model)->embeds || forward_is_bidirectional(&target->file)))
        return gq_fail_usage(e, "%s: a draft model needs models that predict the next token; leave %s out",
                             target->path, draft);
    bool ok = drafter_open_file(&d, draft, target, folder, e), runs = ok && drafter_runs(&d, target);
    if (ok && !runs) ok = drafter_check_facts(&d, target, e);
    drafter_close(&d);
    if (!runs) return ok;
    ok = drafter_open(&d, draft, target, folder, e);
    drafter_close(&d);
    return ok;
}

bool gq_check_draft(const char *draft, const char *model, const gq_adapters *adapters, gq_error *e) {
    gq_error unused;
    gq_adapters own = adapters ? *adapters : (gq_adapters){.n = 0};
    const char *folder = own.target;
    runner target = {.path = model};
    if (!e) e = &unused;
    own.target = NULL;
    if (!input_open_adapted(&target.file, model, &own, e)) return false;
    target.model = forward_model_new(&target.file, &(gq_error){0});
    bool ok = draft_check_model(draft, &target, folder, e);
    forward_model_free(target.model);
    model_close(&target.file);
    return ok;
}

void drafter_close(drafter *d) {
    forward_model_free(d->own.model);
    if (d->own.path) model_close(&d->own.file);
    *d = (drafter){.own.path = NULL};
}

/* ---- proposals of a model with a vocabulary of its own ---- */

/* Takes the k-th tokens of the drafts from a run, and of the first one all choices. */
static void drafted_take(draft_texts *t, const scores *s, size_t k, size_t vocabulary) {
    if (k == 0) memcpy(t->choices, s->models[0].top, t->positions * sizeof *t->choices);
    for (size_t i = 0; i < t->texts.n; i++) {
        size_t at = t->pieces[i].root + k;
        draft_texts_propose(t, i, k, s->models[0].top[asked_position(&t->texts, at)], vocabulary);
    }
}

static bool drafted_propose(draft_texts *t, const side_by_side *s, const drafter *d, gq_error *e) {
    side_by_side own = *s;
    own.runners = &d->own;
    for (size_t k = 0; k < GQ_DRAFTED; k++) {
        scores found;
        bool ok = asked_run(&t->texts, &own, 1, 1, &found, e);
        if (ok) drafted_take(t, &found, k, forward_model_sizes(s->runners->model)->vocabulary);
        scores_free(&found);
        if (!ok) return false;
    }
    return true;
}

/* ---- figures ---- */

/* Figures of one model: top is what it chooses at each position. sums: for each piece. */
static bool drafted_count(const draft_texts *t, const uint32_t *top, window_sums *sums, gq_drafted *to,
                          gq_error *e) {
    *to = (gq_drafted){.texts = t->texts.n};
    for (size_t i = 0; i < t->texts.n; i++) {
        size_t first = asked_position(&t->texts, t->pieces[i].from),
               n = t->pieces[i].root - t->pieces[i].from + 1;
        sums[i] = (window_sums){0, (double)n};
        for (size_t k = 0; k < n; k++) sums[i].x += t->choices[first + k] == top[first + k];
        to->positions += n;
    }
    if (!figures_mean_interval(sums, t->texts.n, &to->first, e)) return false;
    for (size_t k = 0; k < GQ_DRAFTED; k++)
        for (size_t sum = 0; sum < 2; sum++) { /* the share of drafts that come so far; the mean length */
            for (size_t i = 0; i < t->texts.n; i++) {
                size_t at = asked_position(&t->texts, t->pieces[i].root), same = 0;
                while (same <= k && t->proposed[i * GQ_DRAFTED + same] == top[at + same]) same++;
                sums[i] = (window_sums){sum ? (double)same : same > k, 1};
            }
            if (!figures_mean_interval(sums, t->texts.n, sum ? &to->length[k] : &to->accepted[k], e))
                return false;
        }
    return true;
}

/* Runs n models on what was proposed. */
static bool drafted_verify(const draft_texts *t, const side_by_side *s, size_t n, gq_drafted *to,
                           gq_error *e) {
    scores found = {.n = 0};
    window_sums *sums = malloc(t->texts.n * sizeof *sums);
    bool ok = sums || gq_fail_memory(e, t->texts.n * sizeof *sums);
    ok = ok && asked_run(&t->texts, s, n, n, &found, e);
    for (size_t m = 0; ok && m < n; m++) ok = drafted_count(t, found.models[m].top, sums, &to[m], e);
    scores_free(&found), free(sums);
    return ok;
}

double drafted_share(const side_by_side *s, const drafter *d) {
    draft_texts t;
    side_by_side pieces = *s, own = *s;
    double whole = side_by_side_usual_seconds(s), seconds = 0;
    if (draft_texts_begin(&t, s, NULL) && whole > 0) {
        pieces.windows = own.windows = &t.texts.windows, pieces.hidden_states = own.hidden_states = NULL;
        pieces.logits = pieces.base_out = own.logits = own.base_out = NULL;
        own.runners = &d->own, own.n = 1;
        seconds = side_by_side_usual_seconds(&pieces); /* all verify what is proposed */
        seconds += d->continues_hidden_states ? (double)s->n * continued_usual_seconds(&t, s, d)
                                              : GQ_DRAFTED * side_by_side_usual_seconds(&own);
    }
    draft_texts_free(&t);
    return whole > 0 ? seconds / whole : 0;
}

gq_drafted *drafted_run(const side_by_side *s, const drafter *d, gq_error *e) {
    draft_texts t;
    gq_drafted *to = calloc(s->n, sizeof *to);
    if (!to) return gq_fail_memory(e, s->n * sizeof *to), NULL;
    bool ok = draft_texts_begin(&t, s, e);
    /* A draft model that reads the target's hidden states proposes anew for each model. */
    size_t each = d->continues_hidden_states ? 1 : s->n;
    for (size_t m = 0; ok && m < s->n; m += each) {
        side_by_side own = *s;
        own.runners += m;
        ok = (d->continues_hidden_states ? continued_propose(&t, &own, d, e)
                                         : drafted_propose(&t, &own, d, e)) &&
             drafted_verify(&t, &own, each, to + m, e);
    }
    draft_texts_free(&t);
    if (!ok) free(to), to = NULL;
    return to;
}
