#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

/* ---- questions with several choices, from a file with one JSON object a line ---- */

typedef struct questions {
    gq_question *items; /* their texts belong to `rows` */
    size_t n;
    json_t *rows;
} questions;

enum { FILE_MOST = 1 << 30 };

/* The number of the right choice; n: it names none. */
static size_t question_answer(const json_t *answer, const json_t *choices) {
    size_t n = json_array_size(choices);
    const char *text = json_string_value(answer);
    if (json_is_integer(answer)) {
        json_int_t i = json_integer_value(answer);
        return i >= 0 && (size_t)i < n ? (size_t)i : n;
    }
    for (size_t i = 0; text && i < n; i++)
        if (strcmp(text, json_string_value(json_array_get(choices, i))) == 0) return i;
    if (text && strlen(text) == 1 && *text >= 'A' && (size_t)(*text - 'A') < n) return (size_t)(*text - 'A');
    return n;
}

static bool question_take(json_t *row, gq_question *to, const char *path, size_t line, gq_error *e) {
    const json_t *choices = json_object_get(row, "choices");
    size_t n = json_array_size(choices), i = 0;
    while (i < n && json_is_string(json_array_get(choices, i))) i++;
    to->text = json_string_value(json_object_get(row, "question"));
    if (!to->text || i < n || n < 2 || n > GQ_CHOICES)
        return gq_fail(
            e,
            "%s, line %zu: expected {\"question\": \"...\", \"choices\": [...], \"answer\": 0} with 2 to %d "
            "choices, all of them texts",
            path, line, GQ_CHOICES);
    to->answer = question_answer(json_object_get(row, "answer"), choices);
    if (to->answer == n)
        return gq_fail(
            e,
            "%s, line %zu: \"answer\" is none of the choices: expected its number from 0 on, its letter, or "
            "its text",
            path, line);
    const char **texts = need_memory(n, sizeof *texts);
    for (i = 0; i < n; i++) texts[i] = json_string_value(json_array_get(choices, i));
    to->choices = texts, to->n_choices = n;
    return true;
}

static bool question_read_line(questions *q, const char *text, size_t n, const char *path, size_t line,
                               gq_error *e) {
    json_error_t why;
    if (strspn(text, " \t\r") >= n) return true;
    json_t *row = json_loadb(text, n, 0, &why);
    if (!row) return gq_fail(e, "%s, line %zu: is not valid JSON: %s", path, line, why.text);
    json_array_append_new(q->rows, row);
    q->items = need_next(q->items, q->n, sizeof *q->items);
    q->items[q->n] = (gq_question){.text = NULL};
    return question_take(row, &q->items[q->n++], path, line, e);
}

/* Reads {"question": "...", "choices": ["...", ...], "answer": 0}: the number of the right choice, its
 * letter, A for the first one, or its text. False: *e names the line. */
static bool questions_read(questions *q, const char *path, gq_error *e) {
    size_t n, line = 1;
    char *text = gq_read_whole(path, FILE_MOST, &n, e);
    bool ok = text;
    *q = (questions){.rows = json_array()};
    for (size_t at = 0, end; ok && at < n; at = end + 1, line++) {
        const char *newline = memchr(text + at, '\n', n - at);
        end = newline ? (size_t)(newline - text) : n;
        text[end] = 0;
        ok = question_read_line(q, text + at, end - at, path, line, e);
    }
    gq_free(text);
    return ok && (q->n || gq_fail(e, "%s: has no questions", path));
}

static void questions_free(questions *q) {
    for (size_t i = 0; i < q->n; i++) free((void *)q->items[i].choices);
    free(q->items), json_decref(q->rows);
    *q = (questions){.n = 0};
}

/* ---- the command ---- */

/* Returns the file of scores as the library has it; NULL: none. A folder's own is beside its model. */
static const char *evaluation_scores_file(const request *r) {
    if (!r->scores_file) return r->command == CMD_PUBLISH ? "" : NULL;
    return *r->scores_file ? r->scores_file : NULL;
}

bool evaluation_ask(const request *r, gq_evaluation_request *to, gq_error *e) {
    const char *path = r->text ? r->text : r->ids;
    *to = (gq_evaluation_request){.size = sizeof(gq_evaluation_request),
                                  .text = {.name = path,
                                           .ids = r->ids,
                                           .parse_special = r->parse_special,
                                           .context = (uint32_t)r->context,
                                           .tokens = r->tokens},
                                  .threads = r->quantize.threads,
                                  .memory = r->memory,
                                  .logits = r->logits,
                                  .replace_logits = r->quantize.force,
                                  .base = r->base,
                                  .base_out = r->base_out,
                                  .comm = r->comm,
                                  .forecast = !r->quiet,
                                  .read_once = r->read_once,
                                  .stride = (uint32_t)r->stride,
                                  .prompts = (uint32_t)r->prompts,
                                  .draft = r->command == CMD_PUBLISH ? NULL : r->draft,
                                  .scores_file = evaluation_scores_file(r),
                                  .adapters = r->quantize.adapters};
    return r->base || input_text(path, r->memory, &to->text, e);
}

void evaluation_free(gq_evaluation_request *asked) {
    input_free(&asked->text);
    *asked = (gq_evaluation_request){0};
}

gq_evaluation *evaluation_run(const request *r, gq_evaluation_request *asked, gq_error *e) {
    progress p;
    size_t n;
    progress_start_phase(&p, r, "evaluate");
    gq_callbacks callbacks = progress_callbacks(&p);
    asked->callbacks = &callbacks;
    gq_evaluation *v = gq_evaluate(asked, e);
    asked->callbacks = NULL;
    progress_end(&p, v ? NULL : e);
    const char *const *warnings = v ? gq_evaluation_warnings(v, &n) : NULL;
    if (v && !r->quiet) warn_all(warnings, n);
    return v;
}

static bool evaluate_check_request(const request *r, gq_error *e) {
    if (!r->text && !r->ids && !r->base)
        return gq_fail_usage(
            e, "nothing to run on: name a text with --text, ids of tokens with --ids, or a file "
               "of log-probabilities with --base; --speed alone measures how fast models are here");
    if (r->kinds.n && r->base)
        return gq_fail_usage(e, "--kind: a base file has one text; name the base model in its place");
    return report_check(r, e);
}

static void print_evaluation(const report *r) {
    if (r->request->json)
        report_print_json(r);
    else if (!r->request->quiet)
        report_evaluation(stdout, r);
}

static void evaluate_print_facts(const gq_evaluation_facts *f) {
    json_writer j = json_start(stdout, '{');
    json_put_count(&j, "context", f->context);
    json_put_count(&j, "windows", f->windows);
    json_put_count(&j, "tokens", f->tokens);
    json_put_count(&j, "scored", f->scored);
    if (f->stride) json_put_count(&j, "stride", f->stride);
    if (f->masked) json_put_bool(&j, "masked", true);
    json_put_count(&j, "memory_bytes", f->peak_bytes);
    json_put_count(&j, "hidden_state_bytes", f->state_bytes);
    json_put_bool(&j, "hidden_states_in_file", f->states_in_file);
    if (f->seconds_expected > 0) json_put_number(&j, "seconds_expected", f->seconds_expected);
    json_end(&j);
}

static bool evaluate_print_plan(const request *r, gq_evaluation_request *asked, gq_error *e) {
    size_t n;
    progress p;
    progress_start_measuring(&p, r, "measuring for some seconds how long the evaluation will take");
    gq_callbacks callbacks = progress_callbacks(&p);
    asked->callbacks = &callbacks;
    gq_evaluation *v = gq_evaluation_plan(asked, e);
    asked->callbacks = NULL;
    progress_end(&p, v ? NULL : e);
    if (!v) return false;
    const char *const *warnings = gq_evaluation_warnings(v, &n);
    const gq_evaluation_facts *facts = gq_evaluation_summary(v);
    char peak[UNIT_ROOM], states[UNIT_ROOM];
    if (!r->quiet) warn_all(warnings, n);
    if (r->json) {
        evaluate_print_facts(facts);
        gq_evaluation_free(v);
        return true;
    }
    print_line(stdout,
               "%" PRIu64 " tokens in %" PRIu64 " window%s of %" PRIu32 ", %" PRIu64 " of them %sscored",
               facts->tokens, facts->windows, plural_suffix(facts->windows), facts->context, facts->scored,
               facts->masked ? "masked and " : "");
    print_line(stdout, "at most %s of memory; hidden states of all tokens are in %s, %s",
               size_text(peak, (double)facts->peak_bytes), facts->states_in_file ? "a file" : "memory",
               size_text(states, (double)facts->state_bytes));
    if (facts->seconds_expected > 0)
        print_line(stdout, "time: about %s", duration_text(peak, facts->seconds_expected));
    if (facts->ranks > 1)
        print_line(stdout, "%" PRIu32 " ranks: each has at most %" PRIu64 " window%s and the memory above",
                   facts->ranks, facts->rank_windows, plural_suffix(facts->rank_windows));
    if (report_few_places(facts)) print_wrapped(stdout, report_few_places(facts));
    gq_evaluation_free(v);
    return true;
}

/* Runs the same models on one more text. */
static gq_evaluation *evaluate_kind(const request *r, const gq_evaluation_request *asked, const char *path,
                                    gq_error *e) {
    gq_evaluation_request one = *asked;
    one.text =
        (gq_text){.parse_special = r->parse_special, .context = (uint32_t)r->context, .tokens = r->tokens};
    one.logits = NULL, one.base_out = NULL, one.scores_file = NULL;
    one.prompts = 0, one.draft = NULL, one.adapters.target = NULL, one.questions = NULL, one.n_questions = 0;
    if (!input_text(path, r->memory, &one.text, e)) return NULL;
    gq_evaluation *v = evaluation_run(r, &one, e);
    input_free(&one.text);
    return v;
}

/* Finds the one quant to recommend: the smallest without visible loss; where all have one, that of the least
 * KL divergence. 0: there is none. */
static size_t evaluate_best(const gq_evaluation *v, gq_level *level) {
    size_t n, best = 0;
    const gq_evaluated *m = gq_evaluation_models(v, &n);
    for (size_t i = 1; i < n; i++) {
        gq_level its = GQ_VISIBLE_LOSS;
        if (!gq_evaluation_level(v, i, &its, NULL)) return 0;
        bool usable = its < GQ_VISIBLE_LOSS, found_usable = best && *level < GQ_VISIBLE_LOSS;
        bool is_better = usable == found_usable
                             ? usable ? m[i].file_bytes < m[best].file_bytes
                                      : !best || m[i].divergence.value < m[best].divergence.value
                             : usable;
        if (is_better) best = i, *level = its;
    }
    return best;
}

static void evaluate_recommend(const request *r, const gq_evaluation *v) {
    gq_level level = GQ_VISIBLE_LOSS;
    size_t n, best = r->json || r->quiet ? 0 : evaluate_best(v, &level);
    const gq_evaluated *m = gq_evaluation_models(v, &n);
    if (!best) return;
    const char *name = path_reported(m[best].path, r->full_paths);
    if (level >= GQ_VISIBLE_LOSS)
        print_line(
            stdout,
            "Recommended: a larger type, or a calibrated file. Even %s%s has %s (KL divergence %.2g nats).",
            name, n > 2 ? ", the best of these," : "", gq_level_text(level), m[best].divergence.value);
    else
        print_line(stdout, "Recommended: %s, %s (KL divergence %.2g nats)%s.", name, gq_level_text(level),
                   m[best].divergence.value,
                   n > 2 ? "; the smallest of these of which that can be said" : "");
    if (m[0].path && !r->base)
        next_say(r, "compare", "--report", "loss.html", m[0].path, m[best].path, (char *)NULL);
}

/* Evaluates on all texts, prints and writes the report. */
static bool evaluate_and_report(const request *r, gq_evaluation_request *asked, gq_error *e) {
    gq_evaluation **kinds = need_memory(r->kinds.n, sizeof *kinds), *v = evaluation_run(r, asked, e);
    bool ok = v != NULL;
    for (size_t i = 0; ok && i < r->kinds.n; i++)
        ok = (kinds[i] = evaluate_kind(r, asked, r->kinds.items[i], e)) != NULL;
    if (ok) {
        report rep = report_of_evaluation(r, v, kinds);
        print_evaluation(&rep);
        evaluate_recommend(r, v);
        ok = report_write(&rep, r->report, e);
        report_free(&rep);
    }
    for (size_t i = 0; i < r->kinds.n; i++) gq_evaluation_free(kinds[i]);
    free(kinds);
    gq_evaluation_free(v);
    return ok;
}

int evaluate_main(const request *r) {
    gq_error e = {0};
    gq_evaluation_request asked;
    questions q = {.n = 0};
    if (r->speed) return speed_main(r);
    if (!evaluate_check_request(r, &e) || (r->choices && !questions_read(&q, r->choices, &e)) ||
        !evaluation_ask(r, &asked, &e))
        return questions_free(&q), say_failure(&e);
    asked.questions = q.items, asked.n_questions = q.n;
    size_t first = r->base ? 0 : 1; /* of the quants */
    asked.original = r->base ? NULL : r->arguments[0];
    asked.copies = r->arguments + first, asked.n_copies = r->n_arguments - first;
    if (r->dry_run) {
        bool ok = evaluate_print_plan(r, &asked, &e);
        evaluation_free(&asked), questions_free(&q);
        return ok ? GQ_OK : say_failure(&e);
    }
    interrupt_catch();
    bool ok = evaluate_and_report(r, &asked, &e);
    evaluation_free(&asked), questions_free(&q);
    return ok ? GQ_OK : say_failure(&e);
}
