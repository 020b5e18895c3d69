/* The base model continues its prompts without a token-by-token run: all GQ_CONTINUED tokens behind a prompt are
 * guessed, all are predicted at once, and the predictions are the next guesses. The first token is right after
 * the first run, and each run makes at least one more right, as it depends on those before it alone. When
 * nothing changes, the guesses are what greedy decoding gives. A quant then needs one run: up to where it parts
 * from the base model, both have the same tokens before them.
 */
#include "study/evaluate/evaluate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void asked_begin(asked_texts *t, const side_by_side *s, size_t context) {
    *t = (asked_texts){.windows.context = max(context, 2), .limits.memory = s->memory};
    t->packer = (windows_packer){.w = &t->windows, .limits = &t->limits};
}

void asked_free(asked_texts *t) {
    windows_free(&t->windows);
    free(t->packer.used), free(t->begins);
    *t = (asked_texts){.n = 0};
}

bool asked_add(asked_texts *t, const uint32_t *ids, size_t n, size_t first, gq_error *e) {
    uint32_t *weights = calloc(n, sizeof *weights);
    size_t begin;
    if (!weights) return gq_fail_memory(e, n * sizeof *weights);
    for (size_t i = first; i < n; i++) weights[i] = FORWARD_WEIGHT_ONE;
    bool ok = memory_grow(&t->begins, &t->capacity, t->n + 1, sizeof *t->begins, e) &&
              windows_pack(&t->packer, ids, weights, n, &begin, e);
    if (ok) t->begins[t->n++] = begin + first;
    free(weights);
    return ok;
}

size_t asked_position(const asked_texts *t, size_t token) {
    size_t context = t->windows.context;
    return token / context * (context - 1) + token % context - 1;
}

/* Raises *peak to what running these texts takes, with the scores of s beside them. */
static bool asked_add_peak(const asked_texts *t, const side_by_side *s, uint64_t *peak, gq_error *e) {
    side_by_side own = *s;
    forward_bounds bounds;
    own.windows = &t->windows, own.hidden_states = NULL, own.logits = own.base_out = NULL;
    if (!side_by_side_bounds(&own, &bounds, e)) return false;
    *peak = max(*peak, add_sat(bounds.peak, side_by_side_score_bytes(s)));
    return true;
}

bool asked_run(const asked_texts *t, const side_by_side *s, size_t n, size_t tops, scores *to, gq_error *e) {
    side_by_side own = *s;
    warning_list unused = {.n = 0};
    size_t scored = t->windows.context - 1, positions = t->windows.n * scored;
    forward_job windows = windows_job(&t->windows);
    own.windows = &t->windows, own.n = n, own.hidden_states = NULL, own.logits = own.base_out = NULL;
    bool ok = scores_new(to, positions, token_group_windows(t->windows.context) * scored, n, e) &&
              scores_set_weights(to, &windows, e);
    for (size_t m = 0; ok && m < tops; m++) {
        to->models[m].top = calloc(positions, sizeof *to->models[m].top);
        ok = to->models[m].top || gq_fail_memory(e, positions * sizeof *to->models[m].top);
    }
    ok = ok && side_by_side_run(&own, to, &unused, e);
    warnings_free(&unused);
    return ok;
}

static const double NORMAL_95 = 1.959963984540054;

/* Wilson's interval of a share. */
static gq_interval wilson(uint64_t n, uint64_t of) {
    double all = (double)of, p = (double)n / all, z = NORMAL_95 * NORMAL_95 / all;
    double middle = (p + z / 2) / (1 + z), half = NORMAL_95 * sqrt(p * (1 - p) / all + z / all / 4) / (1 + z);
    return (gq_interval){p, fmin(p, fmax(0, middle - half)), fmax(p, fmin(1, middle + half)), of};
}

/* ---- prompts ---- */

/* The prompt that begins at a token of the windows, if one does: of a conversation all before the first token
 * of weight 1, else the first half of a window, so many tokens at most. */
static size_t prompt_tokens(const text_windows *w, size_t token) {
    enum { MOST = 256 };
    size_t left = w->context - token % w->context;
    if (!w->marks) return token % w->context ? 0 : min(w->context / 2, MOST);
    if (w->marks[token].position) return 0;
    for (size_t n = 0; n < left && (n == 0 || w->marks[token + n].position); n++)
        if (w->marks[token + n].weight == FORWARD_WEIGHT_ONE) return n;
    return 0;
}

static bool prompts_add(asked_texts *t, const text_windows *w, size_t most, gq_error *e) {
    uint32_t *ids = malloc(t->windows.context * sizeof *ids);
    bool ok = ids || gq_fail_memory(e, t->windows.context * sizeof *ids);
    for (size_t i = 0; ok && i < w->n * w->context && t->n < most; i++) {
        size_t n = prompt_tokens(w, i);
        if (!n) continue;
        memcpy(ids, w->ids + i, n * sizeof *ids);
        for (size_t k = 0; k < GQ_CONTINUED; k++) ids[n + k] = ids[n - 1];
        ok = asked_add(t, ids, n + GQ_CONTINUED, n, e);
    }
    free(ids);
    return ok &&
           (t->n || gq_fail_usage(e, "the text has no prompt: no token stands before the first of weight 1"));
}

/* Makes the base model's predictions the guesses. Returns how many change. */
static size_t prompts_guess(asked_texts *t, const scores *s) {
    size_t changed = 0;
    for (size_t i = 0; i < t->n; i++)
        for (size_t k = 0; k < GQ_CONTINUED; k++) {
            uint32_t *guess = &t->windows.ids[t->begins[i] + k],
                     top = s->models[0].top[asked_position(t, t->begins[i] + k)];
            changed += *guess != top;
            *guess = top;
        }
    return changed;
}

static bool prompts_continue(asked_texts *t, const side_by_side *s, gq_error *e) {
    for (size_t run = 0, changed = 1; run < GQ_CONTINUED && changed; run++) {
        scores found;
        bool ok = asked_run(t, s, 1, 1, &found, e);
        if (ok) changed = prompts_guess(t, &found);
        scores_free(&found);
        if (!ok) return false;
    }
    return true;
}

static gq_continued prompts_compare(const asked_texts *t, const scores *s, size_t model) {
    gq_continued to = {.prompts = t->n};
    for (size_t i = 0; i < t->n; i++) {
        size_t same = 0;
        while (same < GQ_CONTINUED && s->models[model].same_top1[asked_position(t, t->begins[i] + same)])
            same++;
        to.parts[same]++, to.mean += (double)same / (double)t->n;
    }
    to.same = wilson(to.parts[GQ_CONTINUED], t->n);
    return to;
}

static bool prompts_make(asked_texts *t, const side_by_side *s, size_t prompts, gq_error *e) {
    asked_begin(t, s, s->windows->context + GQ_CONTINUED);
    return prompts_add(t, s->windows, prompts, e);
}

gq_continued *asked_continue(const side_by_side *s, size_t prompts, gq_error *e) {
    asked_texts t;
    scores found = {.n = 0};
    gq_continued *to = calloc(s->n, sizeof *to);
    if (!to) return gq_fail_memory(e, s->n * sizeof *to), NULL;
    bool ok =
        prompts_make(&t, s, prompts, e) && prompts_continue(&t, s, e) && asked_run(&t, s, s->n, 0, &found, e);
    for (size_t m = 1; ok && m < s->n; m++) to[m] = prompts_compare(&t, &found, m);
    scores_free(&found), asked_free(&t);
    if (!ok) free(to), to = NULL;
    return to;
}

/* ---- questions ---- */

/* The ids of the questions, and of each with each of its choices. */
typedef struct question_texts {
    token_list *before, *ids; /* of a choice: of its question, and with the choice behind it */
    size_t *first;            /* the choice's first token */
    char **texts;
    size_t n, longest;
} question_texts;

static void question_texts_free(question_texts *q) {
    for (size_t i = 0; i < q->n; i++) {
        if (q->before) free(q->before[i].ids);
        if (q->ids) free(q->ids[i].ids);
        if (q->texts) free(q->texts[i]);
    }
    free(q->before), free(q->ids), free(q->first), free(q->texts);
}

/* Makes the texts, of which `questions` has the question of each. */
static bool questions_write(question_texts *q, const gq_question *questions, size_t n, const char **of,
                            gq_error *e) {
    size_t text = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < questions[i].n_choices; c++, text++) {
            of[text] = questions[i].text;
            if (asprintf(&q->texts[text], "%s %s", questions[i].text, questions[i].choices[c]) < 0)
                return q->texts[text] = NULL, gq_fail_memory(e, strlen(questions[i].text));
        }
    return true;
}

/* Finds where choices begin: behind what the ids of the question alone share with those of both. */
static bool questions_find_choices(question_texts *q, const char *const *of, gq_error *e) {
    for (size_t i = 0; i < q->n; i++) {
        const token_list *before = &q->before[i], *all = &q->ids[i];
        size_t first = 0;
        while (first < before->n && first + 1 < all->n && before->ids[first] == all->ids[first]) first++;
        if (first == 0) return gq_fail(e, "question \"%.40s\": no token stands before its choice", of[i]);
        q->first[i] = first, q->longest = max(q->longest, all->n);
    }
    return true;
}

static bool questions_check(const gq_question *questions, size_t n, size_t *all, gq_error *e) {
    *all = 0;
    for (size_t i = 0; i < n; i++) {
        if (questions[i].n_choices < 2 || questions[i].n_choices > GQ_CHOICES ||
            questions[i].answer >= questions[i].n_choices)
            return gq_fail_usage(e,
                                 "question %zu: has %zu choices and the answer %zu, expected 2 to %d of them",
                                 i + 1, questions[i].n_choices, questions[i].answer, GQ_CHOICES);
        *all += questions[i].n_choices;
    }
    return true;
}

static bool questions_tokenize(question_texts *q, const side_by_side *s, const gq_question *questions,
                               size_t n, gq_error *e) {
    const model_source *m = &s->runners[0].file;
    if (!questions_check(questions, n, &q->n, e)) return false;
    const char **of = calloc(q->n, sizeof *of);
    q->before = calloc(q->n, sizeof *q->before), q->ids = calloc(q->n, sizeof *q->ids);
    q->first = calloc(q->n, sizeof *q->first), q->texts = calloc(q->n, sizeof *q->texts);
    bool ok = (of && q->before && q->ids && q->first && q->texts) ||
              gq_fail_memory(e, q->n * (2 * sizeof *q->ids + sizeof *q->first + sizeof *q->texts));
    ok = ok && questions_write(q, questions, n, of, e) && windows_tokenize(m, of, q->n, q->before, e) &&
         windows_tokenize(m, (const char *const *)q->texts, q->n, q->ids, e) &&
         questions_find_choices(q, of, e);
    free(of);
    return ok;
}

/* The choice of a model: that with the largest probability, the first of equal ones. text: its first choice. */
static size_t question_choose(const asked_texts *t, const question_texts *q, const scores *s, size_t model,
                              size_t text, size_t choices) {
    double best = -INFINITY;
    size_t chosen = 0;
    for (size_t c = 0; c < choices; c++) {
        double sum = 0;
        size_t n = q->ids[text + c].n - q->first[text + c];
        for (size_t k = 0; k < n; k++)
            sum += s->models[model].log_p[asked_position(t, t->begins[text + c] + k)];
        if (sum > best) best = sum, chosen = c;
    }
    return chosen;
}

/* The interval of the difference of two paired shares, with half an answer added to each of the four cells: without
 * them no changed answer at all would be an interval of no width (Agresti and Min, Simple improved confidence
 * intervals for comparing matched proportions, 2005). */
static gq_interval mcnemar(uint64_t gained, uint64_t lost, uint64_t of) {
    double n = (double)of + 2, more = (double)gained - (double)lost,
           apart = (double)gained + (double)lost + 1;
    double middle = more / n, half = NORMAL_95 * sqrt(fmax(0, apart - more * more / n)) / n;
    return (gq_interval){more / (double)of, fmax(-1, middle - half), fmin(1, middle + half), of};
}

static void questions_count(const asked_texts *t, const question_texts *q, const scores *s,
                            const gq_question *questions, size_t n, gq_chosen *to) {
    for (size_t i = 0, text = 0; i < n; text += questions[i++].n_choices) {
        size_t choices = questions[i].n_choices, answer = questions[i].answer,
               base_model = question_choose(t, q, s, 0, text, choices);
        for (size_t m = 0; m < s->n_models; m++) {
            size_t own = question_choose(t, q, s, m, text, choices);
            to[m].questions++, to[m].right += own == answer;
            to[m].lost += base_model == answer && own != answer;
            to[m].gained += base_model != answer && own == answer;
            to[m].others += base_model != answer && own != answer && own != base_model;
        }
    }
    for (size_t m = 0; m < s->n_models; m++) {
        to[m].accuracy = wilson(to[m].right, n);
        to[m].more = mcnemar(to[m].gained, to[m].lost, n);
    }
}

static bool questions_make(asked_texts *t, question_texts *q, const side_by_side *s,
                           const gq_question *questions, size_t n, gq_error *e) {
    enum { LEAST_CONTEXT = 512 };
    bool ok = questions_tokenize(q, s, questions, n, e);
    asked_begin(t, s, max(q->longest, LEAST_CONTEXT));
    for (size_t i = 0; ok && i < q->n; i++) ok = asked_add(t, q->ids[i].ids, q->ids[i].n, q->first[i], e);
    size_t vocabulary = ok ? forward_model_sizes(s->runners[0].model)->vocabulary : 0;
    return ok && masks_set(&t->windows, &s->runners[0].file, vocabulary, MASKS_ALL, e);
}

gq_chosen *asked_choose(const side_by_side *s, const gq_question *questions, size_t n, gq_error *e) {
    asked_texts t = {.n = 0};
    question_texts q = {.n = 0};
    scores found = {.n = 0};
    gq_chosen *to = calloc(s->n, sizeof *to);
    if (!to) return gq_fail_memory(e, s->n * sizeof *to), NULL;
    bool ok = questions_make(&t, &q, s, questions, n, e) && asked_run(&t, s, s->n, 0, &found, e);
    if (ok) questions_count(&t, &q, &found, questions, n, to);
    scores_free(&found), asked_free(&t), question_texts_free(&q);
    if (!ok) free(to), to = NULL;
    return to;
}

/* ---- memory ---- */

bool asked_bounds(const side_by_side *s, size_t prompts, const gq_question *questions, size_t n,
                  uint64_t *peak, gq_error *e) {
    asked_texts t = {.n = 0};
    question_texts q = {.n = 0};
    bool ok = !prompts || (prompts_make(&t, s, prompts, e) && asked_add_peak(&t, s, peak, e));
    asked_free(&t);
    ok = ok && (!n || (questions_make(&t, &q, s, questions, n, e) && asked_add_peak(&t, s, peak, e)));
    asked_free(&t), question_texts_free(&q);
    return ok;
}
