/* Evaluates models on a text. The base model and its quants are opened, and checked to be of one architecture
 * and vocabulary; the text is cut into windows, and memory is bounded. A base file can stand for the base model
 * and the text; where the quants are such files, too, nothing is run (base_file.c). Else side_by_side.c runs all
 * models and scores every position. Then figures.c makes means and standard errors of the scores. With a file
 * for scores only those models are run that it does not have (cached_run.c). gq_evaluation_plan stops before the
 * run. gq_evaluation_check applies the same checks to outputs of a plan that do not exist yet, by the headers
 * that the plan has made: so a program knows before hours of quantizing whether the result can be evaluated. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/relay.h"
#include "base/sized.h"
#include "base/units.h"
#include "quantize/quantize.h"
#include "study/evaluate/evaluate.h"

/* Returns one of n models with nothing in it, for gq_evaluation_free; NULL: out of memory. */
static gq_evaluation *evaluation_alloc(size_t n, gq_error *e) {
    gq_evaluation *v = calloc(1, sizeof *v);
    if (!v) return gq_fail_memory(e, sizeof *v), NULL;
    v->n = n;
    v->runners = calloc(n, sizeof *v->runners);
    v->paths = calloc(n, sizeof *v->paths);
    v->models = calloc(n, sizeof *v->models);
    v->bases = calloc(n, sizeof *v->bases);
    if (v->runners && v->paths && v->models && v->bases) return v;
    gq_fail_memory(e, n * sizeof *v->models);
    gq_evaluation_free(v);
    return NULL;
}

void gq_evaluation_free(gq_evaluation *v) {
    if (!v) return;
    for (size_t i = 0; v->runners && i < v->n; i++) {
        forward_model_free(v->runners[i].model);
        model_close(&v->runners[i].file);
        if (v->paths) free(v->paths[i]);
    }
    for (size_t i = 0; v->bases && i < v->n; i++) base_file_close(&v->bases[i]);
    drafter_close(&v->drafter);
    free(v->continued), free(v->chosen), free(v->drafted), free(v->scores_path), free(v->runners),
        free(v->paths), free(v->models), free(v->bases);
    windows_free(&v->windows);
    scores_free(&v->scores);
    warnings_free(&v->warnings);
    free(v);
}

/* Base files have a window's second half, and one window after another. */
static bool evaluation_check_stride(const gq_evaluation_request *r, gq_error *e) {
    return !r->stride || !(r->base || r->base_out || r->logits) ||
           gq_fail_usage(e, "overlapping windows cannot be combined with files of logits or "
                            "log-probabilities, whose windows follow one another; leave out one of the two");
}

/* Files of log-probabilities, and windows that overlap, are of next tokens. */
static bool evaluation_check_masks(const gq_evaluation *v, const gq_evaluation_request *r, gq_error *e) {
    const runner *first = compared_reference(v);
    if (!forward_fills_masks(&first->file)) return true;
    return masks_check(&first->file, forward_model_sizes(first->model)->vocabulary, e) &&
           (!(r->base || r->base_out || r->stride) ||
            gq_fail_usage(
                e,
                "%s is a diffusion language model, which fills in masks: files of log-probabilities and "
                "overlapping windows need a model that predicts the next token; leave them out",
                first->path));
}

/* Prompts, questions and a draft are run in one process, on models that predict tokens; the next one, except for
 * questions, whose choices can be masked. */
static bool evaluation_check_more(gq_evaluation *v, const gq_evaluation_request *r, gq_error *e) {
    if (!r->prompts && !r->n_questions && !r->draft) return true;
    const char *needs = r->prompts ? "prompts need" : r->draft ? "draft models need" : "questions need";
    if (v->first) return gq_fail_usage(e, "%s a base model, not a base file; leave one of them out", needs);
    if (gq_comm_ranks(r->comm) > 1) return gq_fail_usage(e, "%s one process; leave them out", needs);
    const model_source *m = &compared_reference(v)->file;
    if (forward_is_bidirectional(m) && (!forward_fills_masks(m) || r->prompts || r->draft))
        return gq_fail_usage(e, "%s a model that predicts the next token; leave them out", needs);
    if (r->draft && (r->stride || forward_model_sizes(compared_reference(v)->model)->embeds))
        return gq_fail_usage(e, "a draft model needs models that give logits and windows that do not "
                                "overlap; leave the draft out");
    return !r->draft || drafter_open(&v->drafter, r->draft, compared_reference(v), r->adapters.target, e);
}

/* A decoder predicts the second half of a window, however windows follow one another. */
static bool evaluation_check_halves(const gq_evaluation *v, const gq_evaluation_request *r, gq_error *e) {
    return !forward_model_sizes(compared_reference(v)->model)->halves || !r->stride ||
           gq_fail_usage(e,
                         "%s has an encoder, which reads the first half of each window: overlapping windows "
                         "need a model without an encoder; leave the overlap out",
                         compared_reference(v)->path);
}

/* A model that gives embeddings has neither perplexity nor logits. */
static bool evaluation_check_kind(const gq_evaluation *v, const gq_evaluation_request *r, gq_error *e) {
    return !forward_model_sizes(compared_reference(v)->model)->embeds ||
           !(r->base || r->base_out || r->logits || r->stride) ||
           gq_fail_usage(e,
                         "%s is an encoder, which gives embeddings and no logits: leave out files of logits "
                         "or log-probabilities and overlapping windows; quantized models are compared by the "
                         "cosine distance of embeddings",
                         compared_reference(v)->path);
}

/* Programs differ in what they do with a file that does not say how hidden states are pooled. */
static bool evaluation_warn_pooling(gq_evaluation *v, gq_error *e) {
    const runner *first = compared_reference(v);
    model_facts facts = compared_facts(&first->file);
    return !forward_model_sizes(first->model)->embeds || model_fact(&facts, "pooling_type") ||
           warnings_add(&v->warnings, e,
                        "%s has no key pooling_type: hidden states are pooled to their mean here; convert "
                        "the model with its modules.json, which says what it was trained with",
                        first->path);
}

static bool evaluation_check_context(gq_evaluation *v, const gq_text *text, gq_error *e) {
    enum { LEAST = 4 };
    size_t context = v->first ? v->bases->context : text->context ? text->context : GQ_CONTEXT;
    if (context < LEAST)
        return gq_fail_usage(
            e, "windows of %zu tokens: the second half of each is scored, so they need at least %d", context,
            LEAST);
    return windows_warn_longer(context, forward_model_sizes(compared_reference(v)->model)->trained,
                               compared_reference(v)->path, &v->warnings, e);
}

static bool evaluation_conclude(gq_evaluation *v, gq_error *e) {
    v->scores.pools = v->windows.pools;
    if (!figures_of_base_model(&v->scores, &v->models[0], e)) return false;
    for (size_t i = 1; i < v->n; i++)
        if (!figures_of_copy(&v->scores, i, &v->models[i], e)) return false;
    return true;
}

/* Positions that are scored and count. */
static size_t evaluation_scored(const gq_evaluation *v) {
    const text_windows *w = &v->windows;
    size_t n = 0;
    for (size_t i = 0; w->masked && i < w->n * w->context; i++) n += w->masked[i].weight > 0;
    if (w->masked || !w->marks) return w->masked ? n : w->n * windows_scored(w);
    for (size_t i = 0; i < w->n * w->context; i++) n += w->marks[i].weight && w->marks[i].position;
    return n;
}

/* Makes windows of a base's tokens, and takes these over. */
static void take_base_windows(gq_evaluation *v, const gq_text *text) {
    base_file *base = v->bases;
    size_t n = base->windows, context = base->context;
    if (text->tokens) n = min(n, max(1, text->tokens / context));
    v->windows = (text_windows){.ids = base->ids, .n = n, .context = context};
    base->ids = NULL;
}

/* Makes the windows. Those of a base file begin as a text's do, whatever they were made of: programs that
 * read it put BOS there. */
static bool read_windows(gq_evaluation *v, const gq_evaluation_request *r, uint64_t memory, gq_error *e) {
    const runner *base_model = compared_reference(v);
    windows_limits limits = {memory, r->callbacks};
    size_t vocabulary = forward_model_sizes(base_model->model)->vocabulary;
    if (!evaluation_check_context(v, &r->text, e) || !evaluation_warn_pooling(v, e)) return false;
    if (v->first)
        take_base_windows(v, &r->text);
    else if (r->stride)
        return windows_read_overlapping(&v->windows, &r->text, r->stride, &base_model->file, vocabulary,
                                        &limits, &v->warnings, e);
    else if (!windows_read(&v->windows, &r->text, &base_model->file, vocabulary, &limits, &v->warnings, e))
        return false;
    v->windows.pools = forward_model_sizes(base_model->model)->embeds;
    if (!masks_set(&v->windows, &base_model->file, vocabulary, MASKS_DRAWN, e)) return false;
    if (!evaluation_scored(v))
        return gq_fail(e,
                       "%s: in each conversation only the first token has a weight above 0, and no token "
                       "before it predicts it; give weights to later tokens",
                       r->text.name ? r->text.name : "the conversations");
    if (v->windows.marks && (r->base_out || r->logits))
        return gq_fail_usage(
            e, "conversations with weights cannot be combined with files of logits or log-probabilities, "
               "which have the second half of each window; leave the file out");
    return !(r->base || r->base_out) || windows_begin_as_texts(&v->windows, &base_model->file, e);
}

/* Checks that the file of logits replaces nothing that is read. */
static bool evaluation_check_inputs(const gq_evaluation *v, const gq_evaluation_request *r, gq_error *e) {
    bool ok = true;
    for (size_t i = v->first; ok && i < v->n; i++) {
        const model_source *m = &v->runners[i].file;
        ok = (!r->logits || files_check_inputs(r->logits, m, &r->text.name, 1, e)) &&
             (!r->base_out || files_check_inputs(r->base_out, m, &r->text.name, 1, e));
    }
    return ok;
}

/* Chooses the file of scores. It takes no input's place. */
static bool evaluation_choose_scores(gq_evaluation *v, const gq_evaluation_request *r, gq_error *e) {
    if (!r->scores_file) return true;
    v->is_named = *r->scores_file;
    if (r->base || r->base_out || r->logits || r->comm)
        return !v->is_named || gq_fail_usage(e, "scores are saved only for a run in one process that writes "
                                                "no logits and whose base model is a model file");
    v->scores_path = v->is_named ? strdup(r->scores_file)
                                 : input_kept_path(r->base_model, &r->adapters, GQ_SCORES_SUFFIX, NULL);
    if (!v->scores_path) return gq_fail_memory(e, strlen(r->base_model));
    for (size_t i = 0; i < v->n; i++)
        if (!files_check_inputs(v->scores_path, &v->runners[i].file, &r->text.name, 1, e)) return false;
    return true;
}

/* Measures how long it will take. Where scores may be kept, what is to be run is known later. */
static void evaluation_forecast(gq_evaluation *v, const gq_evaluation_request *r, side_by_side *s,
                                bool only_plan) {
    bool is_later = v->scores_path && !only_plan;
    if (!r->forecast || (is_later && !r->draft)) return;
    side_by_side_forecast(s);
    v->draft_share = r->draft ? drafted_share(s, &v->drafter) : 0;
    v->draft_seconds = v->draft_share * s->seconds_expected;
    if (is_later) s->seconds_expected = s->logits_work = 0;
    v->seconds_expected = s->seconds_expected + v->draft_seconds;
}

/* Warns where less memory was asked for than one window at a time takes. */
static bool evaluation_check_memory(gq_evaluation *v, const gq_evaluation_request *r, const side_by_side *s,
                                    gq_error *e) {
    char given[UNITS_TEXT_BYTES], needed[UNITS_TEXT_BYTES];
    if (!r->memory || v->bounds.peak <= s->memory) return true;
    units_compare_memory(given, s->memory, needed, v->bounds.peak);
    return warnings_add(
        &v->warnings, e,
        "%s of memory is not enough, and is exceeded: a layer and a window of %zu tokens take %s", given,
        v->windows.context, needed);
}

static bool evaluation_plan(gq_evaluation *v, const gq_evaluation_request *r, side_by_side *s, bool only_plan,
                            gq_error *e) {
    *s = (side_by_side){.runners = v->runners,
                        .n = v->n,
                        .base = v->first ? v->bases : NULL,
                        .windows = &v->windows,
                        .comm = r->comm,
                        .read_once = r->read_once,
                        .threads = comm_threads(r->comm, r->threads),
                        .memory = comm_memory(r->comm, memory_budget_of(r->memory)),
                        .folder = r->folder ? r->folder : ".",
                        .callbacks = r->callbacks,
                        .logits = r->logits,
                        .base_out = r->base_out,
                        .replace_logits = r->replace_logits,
                        .tokens_run = &v->tokens_run};
    if (!evaluation_check_stride(r, e) || !compared_open_all(v, r, e)) return false;
    if (v->none_runs) {
        if (!evaluation_check_more(v, r, e)) return false;
        take_base_windows(v, &r->text);
        for (size_t i = 1; i < v->n; i++) v->windows.n = min(v->windows.n, v->bases[i].windows);
        v->bounds.peak = base_scores_bytes(v->n, v->windows.n * windows_scored(&v->windows));
        return true;
    }
    if (!evaluation_check_kind(v, r, e) || !evaluation_check_masks(v, r, e) ||
        !evaluation_check_halves(v, r, e) || !evaluation_check_more(v, r, e) ||
        !evaluation_check_inputs(v, r, e) || !evaluation_choose_scores(v, r, e) ||
        !read_windows(v, r, s->memory, e) || !side_by_side_bounds(s, &v->bounds, e) ||
        !asked_bounds(s, r->prompts, r->questions, r->n_questions, &v->bounds.peak, e) ||
        !evaluation_check_memory(v, r, s, e))
        return false;
    if (r->draft)
        v->bounds.peak = add_sat(v->bounds.peak, drafter_bytes(&v->drafter, compared_reference(v),
                                                               v->windows.n * v->windows.context, s->memory));
    uint64_t machine = memory_budget_machine();
    if (v->bounds.peak > comm_memory(r->comm, machine))
        return memory_budget_fail(r->comm, machine, "", v->windows.context, v->bounds.peak, e);
    evaluation_forecast(v, r, s, only_plan);
    v->bounds.peak = max(v->bounds.peak, memory_budget_peak());
    return true;
}

static bool evaluation_score_models(gq_evaluation *v, const side_by_side *s, bool forecast, gq_error *e) {
    const cached_run_request kept = {
        .all = s, .path = v->scores_path, .is_named = v->is_named, .forecast = forecast};
    if (!v->scores_path) return side_by_side_run(s, &v->scores, &v->warnings, e);
    bool ok = cached_run(&kept, &v->scores, &v->seconds_expected, &v->warnings, e);
    v->seconds_expected += v->draft_seconds;
    return ok;
}

/* Tasks besides the text's figures; they need callbacks for cancelling alone. */
static bool evaluation_ask_more(gq_evaluation *v, const gq_evaluation_request *r, const side_by_side *s,
                                gq_error *e) {
    gq_callbacks stops = {
        .size = sizeof stops, .cancelled = s->callbacks->cancelled, .user = s->callbacks->user};
    side_by_side quiet = *s;
    quiet.callbacks = &stops;
    if (r->prompts && !(v->continued = asked_continue(&quiet, r->prompts, e))) return false;
    if (r->draft && !(v->drafted = drafted_run(&quiet, &v->drafter, e))) return false;
    return !r->n_questions || (v->chosen = asked_choose(&quiet, r->questions, r->n_questions, e));
}

static bool evaluation_new_scores(gq_evaluation *v, gq_error *e) {
    const text_windows *w = &v->windows;
    const forward_job job = windows_job(w);
    size_t scored = windows_scored(w);
    bool ok = scores_new(&v->scores, w->n * scored, token_group_windows(w->context) * scored, v->n, e);
    v->scores.of_window = scored;
    ok = ok && (!(w->marks || w->masked) || scores_set_weights(&v->scores, &job, e));
    for (size_t i = v->first; ok && i < v->n; i++)
        if (v->runners[i].model && !v->windows.pools && forward_model_mtp_layers(v->runners[i].model))
            ok = scores_add_draft(&v->scores, i, e);
    return ok;
}

static bool evaluation_run_models(gq_evaluation *v, const gq_evaluation_request *r, const side_by_side *s,
                                  gq_error *e) {
    bool forecast = r->forecast;
    double started = clock_seconds();
    job_progress job;
    job_progress_begin(&job, s->callbacks, 1 + v->draft_share);
    side_by_side with_callbacks = *s;
    with_callbacks.callbacks = job_progress_stage(&job, 1);
    bool ok = evaluation_new_scores(v, e) &&
              (v->none_runs ? base_scores_run(v->bases, v->n, v->windows.ids, v->windows.n, s->threads,
                                              with_callbacks.callbacks, &v->scores, e)
                            : evaluation_score_models(v, &with_callbacks, forecast, e)) &&
              evaluation_conclude(v, e) && evaluation_ask_more(v, r, &with_callbacks, e);
    if (ok) job_progress_end(&job);
    v->seconds = clock_seconds() - started;
    return ok;
}

/* Checks that all ranks have the same text, and replaces bounds that differ by the largest. */
static bool evaluation_agree_plan(gq_evaluation *v, side_by_side *s, gq_error *e) {
    const text_windows *w = &v->windows;
    gq_comm *comm = s->comm;
    if (!comm) return true;
    uint32_t ids = windows_sum_up(w) ^ (uint32_t)w->stride, first = ids;
    if (!comm_broadcast(comm, &first, sizeof first, e)) return false;
    if (ids != first) return gq_fail(e, "rank %d has another text than rank 0", gq_comm_rank(comm));
    uint64_t most[] = {v->bounds.peak, v->bounds.hidden_states, v->bounds.in_file};
    if (!comm_most(comm, most, sizeof most / sizeof *most, e)) return false;
    v->bounds.peak = most[0], v->bounds.hidden_states = most[1], v->bounds.in_file = most[2];
    if (!sweep_agree_layer(comm, s->read_once, &v->bounds.layer, e)) return false;
    if (s->read_once) s->layer = v->bounds.layer;
    return true;
}

static void evaluation_sum_up(gq_evaluation *v, const gq_comm *comm) {
    size_t rank_windows = windows_share(comm, v->windows.n, v->windows.context, 1);
    v->facts = (gq_evaluation_facts){.size = sizeof v->facts,
                                     .architecture = v->architecture,
                                     .context = (uint32_t)v->windows.context,
                                     .windows = v->windows.n,
                                     .tokens = windows_tokens(&v->windows),
                                     .scored = evaluation_scored(v),
                                     .texts = v->windows.texts,
                                     .masked = v->windows.masked,
                                     .stride = (uint32_t)v->windows.stride,
                                     .peak_bytes = v->bounds.peak,
                                     .hidden_state_bytes = v->bounds.hidden_states,
                                     .hidden_states_in_file = v->bounds.in_file,
                                     .seconds = v->seconds,
                                     .seconds_expected = v->seconds_expected,
                                     .ranks = (uint32_t)gq_comm_ranks(comm),
                                     .rank_windows = rank_windows,
                                     .tokens_run = v->tokens_run};
}

static gq_evaluation *evaluation_new(const gq_evaluation_request *request, bool only_plan, gq_error *e) {
    gq_evaluation_request asked;
    gq_callbacks callbacks;
    side_by_side s;
    if (!SIZED_TAKE(asked, request, e) || !SIZED_TAKE(callbacks, asked.callbacks, e)) return NULL;
    asked.callbacks = &callbacks;
    gq_evaluation *v = evaluation_alloc(asked.n_quants + 1, e);
    if (v) v->first = asked.base ? 1 : 0;
    bool ok = v && evaluation_plan(v, &asked, &s, only_plan, e) && evaluation_agree_plan(v, &s, e) &&
              (only_plan || evaluation_run_models(v, &asked, &s, e));
    if (gq_comm_agree(asked.comm, ok, e) && v) {
        evaluation_sum_up(v, asked.comm);
        return v;
    }
    gq_evaluation_free(v);
    return NULL;
}

gq_evaluation *gq_evaluate(const gq_evaluation_request *r, gq_error *e) {
    return evaluation_new(r, false, e);
}

gq_evaluation *gq_evaluation_plan(const gq_evaluation_request *r, gq_error *e) {
    return evaluation_new(r, true, e);
}

bool gq_evaluation_check(const gq_plan *plan, gq_error *e) {
    gq_error unused;
    if (!e) e = &unused;
    gq_evaluation *v = evaluation_alloc(plan->n_outputs + 1, e);
    bool ok = v && compared_lend_reference(v, plan, e) &&
              evaluation_check_masks(v, &(gq_evaluation_request){.size = sizeof(gq_evaluation_request)}, e);
    for (size_t o = 0; ok && o < plan->n_outputs; o++)
        ok =
            compared_open_planned(v, o + 1, &plan->outputs[o], e) && compared_check(v, &v->runners[o + 1], e);
    if (v) compared_return_reference(v);
    gq_evaluation_free(v);
    return ok;
}

/* ---- what it says ---- */

const gq_evaluated *gq_evaluation_models(const gq_evaluation *v, size_t *n) {
    *n = v->n;
    return v->models;
}

void gq_evaluation_difference(const gq_evaluation *v, size_t a, size_t b, gq_estimate *to) {
    *to = figures_difference(&v->scores, a, b);
}

bool gq_evaluation_interval(const gq_evaluation *v, gq_statistic of, size_t a, size_t b, gq_interval *to,
                            gq_error *e) {
    if (of > GQ_NLL || a >= v->n || b >= v->n || (a == 0 && (of != GQ_NLL || b)))
        return gq_fail_usage(e, "unknown statistic, or a model's index is out of range");
    return figures_interval(&v->scores, of, a, b, to, e);
}

size_t gq_evaluation_depths(const gq_evaluation *v, size_t model, gq_depth to[GQ_DEPTHS]) {
    const text_windows *w = &v->windows;
    if (w->masked) return 0; /* a mask is predicted from the whole window */
    return figures_depths(&v->scores, model, w->context - 1 - windows_scored(w), to);
}

bool gq_evaluation_level(const gq_evaluation *v, size_t model, gq_level *to, gq_error *e) {
    gq_interval mean, changed_top1;
    if (!gq_evaluation_interval(v, GQ_KLD, model, 0, &mean, e) ||
        !gq_evaluation_interval(v, GQ_CHANGED_TOP1, model, 0, &changed_top1, e))
        return false;
    return *to = figures_level(&mean, &changed_top1), true;
}

bool gq_evaluation_continued(const gq_evaluation *v, size_t model, gq_continued *to) {
    if (!v->continued || model == 0 || model >= v->n) return false;
    return *to = v->continued[model], true;
}

bool gq_evaluation_chosen(const gq_evaluation *v, size_t model, gq_chosen *to) {
    if (!v->chosen || model >= v->n) return false;
    return *to = v->chosen[model], true;
}

bool gq_evaluation_drafted(const gq_evaluation *v, size_t model, gq_drafted *to) {
    if (!v->drafted || model >= v->n) return false;
    return *to = v->drafted[model], true;
}

const gq_evaluation_facts *gq_evaluation_summary(const gq_evaluation *v) { return &v->facts; }

const char *const *gq_evaluation_warnings(const gq_evaluation *v, size_t *n) {
    *n = v->warnings.n;
    return (const char *const *)v->warnings.items;
}
