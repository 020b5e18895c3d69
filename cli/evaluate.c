/* The command `gquant evaluate`: how much a quant differs from its base model on a text. evaluation_ask and
 * evaluation_run are also what publish and a run with --evaluate use. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

bool evaluation_keeps_scores(const request *r) {
    return !r->base && !r->base_out && !r->logits && r->kinds.n == 0 && !r->speed;
}

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
    if (v && !r->quiet) warn_all(r->said, warnings, n);
    return v;
}

gq_evaluation *evaluation_plan(const request *r, gq_evaluation_request *asked, gq_error *e) {
    progress p;
    progress_start_measuring(
        &p, r, "estimating the time of the evaluation, for about a second, up to a minute for large layers");
    gq_callbacks callbacks = progress_callbacks(&p);
    asked->callbacks = &callbacks;
    gq_evaluation *v = gq_evaluation_plan(asked, e);
    asked->callbacks = NULL;
    progress_end(&p, v ? NULL : e);
    return v;
}

static bool evaluate_check_request(const request *r, gq_error *e) {
    if (!r->text && !r->ids && !r->base)
        return gq_fail_usage(e, "no text to evaluate on: expected --text FILE, --ids FILE with token ids, or "
                                "--base FILE with log-probabilities ('gquant text --held-out FILE' writes a "
                                "text); --speed alone measures the speed");
    if (r->kinds.n && r->base)
        return gq_fail_usage(e, "--kind cannot be used with --base: a base file has one text; name the base "
                                "model instead of --base");
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
    json_put_count(&j, "hidden_state_bytes", f->hidden_state_bytes);
    json_put_bool(&j, "hidden_states_in_file", f->hidden_states_in_file);
    if (f->seconds_expected > 0) json_put_number(&j, "seconds_expected", f->seconds_expected);
    json_end(&j);
}

static bool evaluate_print_plan(const request *r, gq_evaluation_request *asked, gq_error *e) {
    size_t n;
    gq_evaluation *v = evaluation_plan(r, asked, e);
    if (!v) return false;
    const char *const *warnings = gq_evaluation_warnings(v, &n);
    const gq_evaluation_facts *facts = gq_evaluation_summary(v);
    char peak[UNIT_ROOM], hidden_states[UNIT_ROOM];
    if (!r->quiet) warn_all(r->said, warnings, n);
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
               memory_text(peak, (double)facts->peak_bytes),
               facts->hidden_states_in_file ? "a file" : "memory",
               file_text(hidden_states, (double)facts->hidden_state_bytes));
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

/* Names the figure that decides a model's level, malloc'ed: levels go by the upper ends of intervals. */
static char *evaluate_deciding(const gq_evaluation *v, size_t model, gq_level level) {
    size_t n;
    double kld = gq_evaluation_models(v, &n)[model].kld.value;
    gq_interval of_kld = {NAN, NAN, NAN, 0}, changed = {NAN, NAN, NAN, 0};
    gq_evaluation_interval(v, GQ_KLD, model, 0, &of_kld, NULL);
    gq_evaluation_interval(v, GQ_CHANGED_TOP1, model, 0, &changed, NULL);
    if (gq_level_of(fmax(kld, of_kld.high), NAN) < level)
        return text_format("KL divergence %.2g nats, but up to %.1f %% of changed top-1 tokens", kld,
                           100 * fmax(changed.value, changed.high));
    if (gq_level_of(kld, NAN) < level)
        return text_format("KL divergence %.2g nats, up to %.2g by its interval", kld, of_kld.high);
    return text_format("KL divergence %.2g nats", kld);
}

static void evaluate_recommend(const request *r, const gq_evaluation *v) {
    gq_level level = GQ_VISIBLE_LOSS;
    size_t n, best = r->json || r->quiet ? 0 : gq_evaluation_recommended(v, &level);
    const gq_evaluated *m = gq_evaluation_models(v, &n);
    if (!best) return;
    const char *name = path_reported(m[best].path, r->full_paths),
               *by = report_few_places(gq_evaluation_summary(v)) ? ", as far as so few tokens show" : "";
    char *figure = evaluate_deciding(v, best, level);
    if (level >= GQ_VISIBLE_LOSS)
        print_line(stdout,
                   "Recommended%s: a larger type, or a calibrated file unless this is one. %s has %s "
                   "(%s)%s.",
                   by, name, gq_level_text(level), figure, n > 2 ? "; none of these has less" : "");
    else
        print_line(stdout, "Recommended%s: %s, %s (%s)%s.", by, name, gq_level_text(level), figure,
                   n > 2 ? "; the smallest quant of that level" : "");
    free(figure);
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
    if (!evaluate_check_request(r, &e) || (r->choices && !input_questions(&q, r->choices, &e)) ||
        !evaluation_ask(r, &asked, &e))
        return input_questions_free(&q), say_failure(r->said, &e);
    asked.questions = q.items, asked.n_questions = q.n;
    size_t first = r->base ? 0 : 1; /* of the quants */
    asked.base_model = r->base ? NULL : r->arguments[0];
    asked.quants = r->arguments + first, asked.n_quants = r->n_arguments - first;
    if (r->dry_run) {
        bool ok = evaluate_print_plan(r, &asked, &e);
        evaluation_free(&asked), input_questions_free(&q);
        return ok ? GQ_OK : say_failure(r->said, &e);
    }
    interrupt_catch();
    bool ok = evaluate_and_report(r, &asked, &e);
    evaluation_free(&asked), input_questions_free(&q);
    return ok ? GQ_OK : say_failure(r->said, &e);
}
