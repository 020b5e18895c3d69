/* The main job, `gquant IN [OUT] TYPE`. The steps: check what can be checked at once (report and recipe files,
 * whether --evaluate can run IN and what will be written), make --out-dir, plan, print the plan, write the
 * recipe, run, evaluate the outputs, report. A run may take hours, so every reason to refuse it is looked for
 * before the work that it would waste. --dry-run stops before the run; --part leaves evaluation and report to
 * --join. When a step fails, the folders that this job has made are removed as far as they are empty. Planning
 * and running are the library's gq_plan_new and gq_run; tables and files are made by report*.c.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "cli/cli.h"

/* Returns the weights per second that this run did itself; 0: not known. A calibrated run's seconds are
 * mostly those of its layers, so of the weights it counts the share that is in the layers it did. */
static double rate_of(const gq_plan *plan, const gq_results *results) {
    const gq_progress *p = gq_results_progress(results);
    const gq_calibration_facts *c = gq_plan_calibration(plan);
    if (!c || c->layers_finished == c->layers) return progress_weights(p);
    double share = 1 - (double)c->layers_finished / (double)c->layers;
    return p->seconds > 0 ? share * (double)p->weights_done / p->seconds : 0;
}

static bool is_part(const request *r) { return r->quantize.parts && !r->quantize.join; }

/* Prints each fallback before the work starts; the plan's own warning has their number and the first. */
static void say_fallbacks(const request *r, const gq_plan *plan, size_t output) {
    size_t n, n_lines = 0;
    const gq_tensor *t = gq_plan_tensors(plan, output, &n);
    char **lines = need_memory(n, sizeof *lines), cost[UNIT_ROOM];
    for (size_t i = 0; i < n; i++)
        if (t[i].wanted != t[i].to)
            lines[n_lines++] = text_format("%s: %s instead of %s, +%s (%s)", t[i].name, gq_type_name(t[i].to),
                                           gq_type_name(t[i].wanted),
                                           file_text(cost, (double)t[i].fallback_bytes), t[i].why);
    warn_all(r->said, (const char *const *)lines, n_lines);
    for (size_t i = 0; i < n_lines; i++) free(lines[i]);
    free(lines);
}

static void say_plan(const request *r, const gq_plan *plan) {
    size_t n;
    if (r->text && is_part(r))
        say_warning(r->said,
                    "--evaluate has no effect with --part: the run with --join evaluates the whole output");
    if (r->text && r->calibrate && !strcmp(r->text, r->calibrate))
        say_warning(r->said, "--evaluate has the text of --calibrate, on which files lose less than on "
                             "others: evaluate on a text that was held out");
    const char *const *warnings = gq_plan_warnings(plan, &n);
    warn_all(r->said, warnings, n);
    projector_say_beside(r, plan);
    for (size_t o = 0; o < gq_plan_outputs(plan) && !r->dry_run; o++) {
        const gq_summary *s = gq_plan_summary(plan, o);
        char in[UNIT_ROOM], out[UNIT_ROOM], file[UNIT_ROOM];
        char *path = report_path(stderr, s->path, strlen(s->filetype) + 2 * UNIT_ROOM);
        print_line(stderr, "%s: %s, %" PRIu64 " tensor%s of %s -> %s, file %s", path, s->filetype,
                   s->n_tensors, plural_suffix(s->n_tensors), file_text(in, (double)s->in_bytes),
                   file_text(out, (double)s->out_bytes), file_text(file, (double)s->file_bytes));
        free(path);
        if (r->verbose) say_fallbacks(r, plan, o);
    }
    if (gq_plan_calibration(plan) && !r->dry_run) report_calibration_plan(stderr, gq_plan_calibration(plan));
    if (gq_plan_measure_file(plan))
        print_line(stderr, "measurements are saved in %s", gq_plan_measure_file(plan));
}

/* ---- --recipe-out ---- */

/* Whether --recipe-out, if given, is the name of a text. */
static bool recipe_out_check(const request *r, gq_error *e) {
    const char *path = r->recipe_out;
    size_t n = path ? strlen(path) : 0;
    if (n > 5 && !strcasecmp(path + n - 5, ".gguf"))
        return gq_fail_usage(e, "--recipe-out %s: a recipe is a text, not a model", path);
    return true;
}

/* FILE, or of several outputs FILE with the output's type or target before its extension. */
static char *recipe_path(const request *r, const gq_plan *plan, size_t output) {
    const char *path = r->recipe_out, *name = strrchr(path, '/'), *dot = strrchr(name ? name : path, '.');
    if (gq_plan_outputs(plan) == 1) return text_format("%s", path);
    int stem = dot && dot > (name ? name + 1 : path) ? (int)(dot - path) : (int)strlen(path);
    return text_format("%.*s-%s%s", stem, path, gq_plan_summary(plan, output)->filetype, path + stem);
}

static bool write_recipe_of(const request *r, const gq_plan *plan, size_t output, const char *path,
                            gq_error *e) {
    if (gq_plan_outputs(plan) > 1 && !paths_check_written(r, "recipe-out", path, e)) return false;
    char *text = gq_plan_recipe(plan, output, e);
    bool ok = text && gq_write_whole(path, true, text, strlen(text), e);
    free(text);
    return ok;
}

/* Writes the recipe of each output, a file for --tensor-type-file. */
static bool recipe_out_write(const request *r, const gq_plan *plan, gq_error *e) {
    size_t n = gq_plan_outputs(plan);
    if (!r->recipe_out) return true;
    char **paths = need_memory(n, sizeof *paths);
    bool ok = true;
    for (size_t i = 0; i < n; i++) paths[i] = recipe_path(r, plan, i);
    for (size_t i = 0; ok && i < n; i++)
        for (size_t k = 0; ok && k < i; k++)
            if (!strcmp(paths[i], paths[k]))
                ok = gq_fail_usage(e, "--recipe-out: two recipes would be written to %s", paths[i]);
    for (size_t i = 0; ok && i < n; i++) ok = write_recipe_of(r, plan, i, paths[i], e);
    for (size_t i = 0; i < n; i++) free(paths[i]);
    free(paths);
    return ok;
}

/* ---- running and reporting ---- */

static bool run_with_progress(const request *r, const gq_plan *plan, gq_results **results, gq_error *e) {
    progress p;
    size_t n = 0;
    progress_start(&p, r, plan);
    gq_callbacks callbacks = progress_callbacks(&p);
    bool ok = gq_run(plan, &callbacks, results, e);
    progress_end(&p, ok ? NULL : e);
    const char *const *warnings = *results ? gq_results_warnings(*results, &n) : NULL;
    if (!r->quiet) warn_all(r->said, warnings, n);
    return ok;
}

/* Prints the report. `all`: with every tensor of each output; else several outputs get a line each. */
static void print_report(const report *r, bool all) {
    for (size_t i = 0; all && i < r->n_outputs; i++) {
        if (i) putchar('\n');
        if (r->outputs[i].losses)
            report_losses(stdout, r, &r->outputs[i]);
        else
            report_plan(stdout, r, &r->outputs[i]);
    }
    if (r->n_outputs > 1 && all) putchar('\n');
    if (r->n_outputs > 1) report_overview(stdout, r);
    if (r->calibration && r->request->dry_run) report_calibration_plan(stdout, r->calibration);
    if (r->evaluation) putchar('\n'), report_evaluation(stdout, r);
}

/* Whether a model's states are pooled: it is run for them, not for the next token. */
static bool model_embeds(const gq_metadata *metadata, size_t n) {
    static const char key[] = ".pooling_type";
    for (size_t i = 0; i < n; i++) {
        size_t length = strlen(metadata[i].key);
        if (length >= sizeof key && !strcmp(metadata[i].key + length - (sizeof key - 1), key)) return true;
    }
    return false;
}

/* Says at a terminal how the first output is run: a text model by llama.cpp's programs. */
static void say_how_to_run(const gq_plan *plan) {
    gq_error unused;
    size_t n;
    if (!isatty(STDERR_FILENO)) return;
    const char *path = gq_plan_summary(plan, 0)->path;
    gq_model *m = gq_model_open(path, &unused);
    const gq_metadata *metadata = m ? gq_model_metadata(m, &n) : NULL;
    if (m && gq_model_find_key(m, "tokenizer.ggml.model") < n) {
        bool embeds = model_embeds(metadata, n);
        char *line = text_format("to run it with llama.cpp: %s -m", embeds ? "llama-embedding" : "llama-cli");
        line = text_add_word(line, path);
        print_line(stderr, "%s", line);
        free(line);
    }
    gq_model_close(m);
}

/* Prints the report and writes it to --report. results NULL: only planned; evaluation NULL: not evaluated. */
static bool report_results(const request *r, const gq_plan *plan, const gq_results *results,
                           const gq_evaluation *evaluation, gq_error *e) {
    const gq_options *asked = &r->quantize;
    if (!r->dry_run && is_part(r)) { /* losses are known once all parts are joined */
        if (results && !r->quiet)
            print_line(stdout,
                       "part %u of %u is done; when all are, the same command with --join in place of --part "
                       "finishes",
                       asked->part, asked->parts);
        return true;
    }
    report rep = report_of_plan(r, plan, results, evaluation, results ? rate_of(plan, results) : 0);
    if (r->json)
        report_print_json(&rep);
    else if (!r->quiet && (results || r->dry_run || evaluation)) /* nothing is new of files that were there */
        print_report(&rep, rep.n_outputs == 1 || r->verbose);
    bool ok = report_write(&rep, r->report, e);
    report_free(&rep);
    if (ok && results && !r->json && !r->quiet) say_how_to_run(plan);
    return ok;
}

/* Milliseconds between two syncs of finished work, from GQUANT_SYNC_MS, which is for tests and slow disks; 0:
 * the library's default. */
static uint32_t sync_ms(void) {
    const char *text = getenv("GQUANT_SYNC_MS");
    uint64_t ms;
    return text && number_parse(text, 1, 3600000, &ms) ? (uint32_t)ms : 0;
}

/* Makes the plan, with progress: for a target it measures errors, which takes a while. dry: of outputs that
 * may be there. */
static gq_plan *quantize_make_plan(const request *r, bool dry, gq_error *e) {
    progress p;
    gq_calibration calibration;
    progress_start_measuring(
        &p, r,
        r->n_targets
            ? "measuring the error of each type in each tensor, to choose types for the target"
            : "estimating the time of the calibration, for about a second, up to a minute for large layers");
    gq_callbacks callbacks = progress_callbacks(&p);
    gq_options asked = r->quantize;
    asked.callbacks = &callbacks;
    asked.dry_run = dry;
    if (dry && !r->dry_run) asked.join = false, asked.part = asked.parts = 0;
    asked.sync_ms = sync_ms();
    asked.forecast = !r->quiet;
    asked.comm = r->comm, asked.read_once = r->read_once;
    gq_plan *plan = NULL;
    for (size_t i = 0; i < r->files.n; i++) /* measurements are also written */
        if (r->files.items[i] != r->quantize.measure_file) list_add(&asked.other_inputs, r->files.items[i]);
    if (input_calibration(r, &calibration, &asked.calibration, e)) plan = gq_plan_new(&asked, e);
    input_free(&calibration.text);
    free((void *)asked.other_inputs.items);
    bool looks_next = !plan && !dry && e->remedy == GQ_REMEDY_REPLACE; /* at what is there: no failure yet */
    progress_end(&p, plan || looks_next ? NULL : e);
    return plan;
}

/* ---- outputs that are there ---- */

/* Whether the files under all outputs' names are what the plan would write. */
static bool quantize_check_whole(const request *r, const gq_plan *plan, gq_error *e) {
    progress p;
    size_t n = gq_plan_outputs(plan);
    gq_found *found = need_memory(n, sizeof *found);
    progress_start_phase(&p, r, "verify");
    gq_callbacks callbacks = progress_callbacks(&p);
    bool ok = gq_check_earlier(plan, found, &callbacks, e);
    size_t whole = 0;
    const char *there = "";
    for (size_t i = 0; ok && i < n; i++) {
        const char *path = gq_plan_summary(plan, i)->path;
        whole += found[i].is_whole;
        if (found[i].is_there) there = path;
        if (found[i].is_there && !found[i].is_whole)
            ok = gq_fail_remedy(e, GQ_REMEDY_REPLACE, "%s already exists with other content: %s", path,
                                found[i].why.text);
    }
    ok = ok && (whole == n || gq_fail_remedy(e, GQ_REMEDY_REPLACE, "%s already exists", there));
    progress_end(&p, ok ? NULL : e);
    free(found);
    return gq_comm_agree(r->comm, ok, e);
}

/* Some output already exists. A run that was stopped behind its last name has left all of them whole; then nothing is
 * left to do but what comes behind. Returns the plan of these; NULL: *e says what is there. */
static gq_plan *quantize_plan_whole(const request *r, gq_error *e) {
    if (r->dry_run || e->remedy != GQ_REMEDY_REPLACE) return NULL;
    gq_error why = {0};
    interrupt_catch();
    gq_plan *plan = quantize_make_plan(r, true, &why);
    if (!plan || quantize_check_whole(r, plan, e)) {
        for (size_t i = 0; plan && !r->quiet && i < gq_plan_outputs(plan); i++)
            print_line(stderr, "%s: already exists and is complete", gq_plan_summary(plan, i)->path);
        return plan;
    }
    gq_plan_free(plan);
    return NULL;
}

/* Only the run itself knows the quality loss that it reports. */
static void say_losses_are_gone(const request *r) {
    if (r->report || r->json)
        say_warning(r->said, "the report has no errors, as they are measured while a file is written; gquant "
                             "compare measures them");
}

/* Refuses an output, named by the plan where the user gave no name, that is a file which an option names. */
static bool quantize_check_names(const request *r, const gq_plan *plan, gq_error *e) {
    for (size_t o = 0; o < gq_plan_outputs(plan); o++) {
        const char *path = gq_plan_summary(plan, o)->path;
        for (size_t i = 0; i < r->files.n; i++)
            if (path_same(path, r->files.items[i]))
                return gq_fail_usage(
                    e, "the output would be named %s, which is an input; give it another name", path);
    }
    return true;
}

static bool check_quants(const gq_plan *plan, gq_error *e) {
    gq_error why;
    if (gq_evaluation_check(plan, &why)) return true;
    gq_fail(e, "--evaluate: what will be written cannot be evaluated: %s", why.text);
    e->status = why.status;
    return false;
}

/* Checks whether --evaluate can run the outputs before the slow part of planning: a target's measurements, a
 * calibration's text. A plan that makes F16 of everything shows it as well. If not even that plan can be
 * made, the real one will say why. */
static bool check_quants_early(const request *r, gq_error *e) {
    gq_options asked = r->quantize;
    gq_error unused;
    if (!r->text || is_part(r) || (!r->n_targets && !r->calibrate && !r->calibrate_ids)) return true;
    gq_output *outputs = need_memory(asked.n_outputs, sizeof *outputs);
    for (size_t i = 0; i < asked.n_outputs; i++)
        outputs[i] = (gq_output){.path = asked.outputs[i].path, .filetype = "F16"};
    asked.outputs = outputs, asked.imatrix = NULL;
    asked.dry_run = true;
    gq_plan *plan = gq_plan_new(&asked, &unused);
    bool ok = !plan || check_quants(plan, e);
    gq_plan_free(plan);
    free(outputs);
    return ok;
}

/* Checks before the work that IN can be run on the text. asked: without a text it is left empty. */
static bool ask_evaluation(const request *r, gq_evaluation_request *asked, gq_error *e) {
    *asked = (gq_evaluation_request){0};
    if (!r->text) return true;
    if (!evaluation_ask(r, asked, e)) return false;
    asked->base_model = r->quantize.input, asked->adapters = r->quantize.adapters;
    asked->forecast = false;
    gq_evaluation *v = gq_evaluation_plan(asked, e);
    asked->forecast = !r->quiet;
    gq_evaluation_free(v);
    return v;
}

/* Prints what a run takes, its evaluation included. Quants that are not there yet take about as long as the base model,
 * which stands in for each, and no more memory. */
static bool print_needs(const request *r, const gq_plan *plan, const gq_evaluation_request *of, gq_error *e) {
    bool evaluates = r->text && !is_part(r);
    gq_needs needs = {.size = sizeof needs};
    if (!r->dry_run || r->json || r->quiet) return true;
    gq_plan_needs(plan, &needs);
    for (size_t i = 0; i < gq_plan_outputs(plan); i++)
        report_existing(stdout, r, gq_plan_summary(plan, i)->path);
    if (evaluates) {
        gq_evaluation_request asked = *of;
        asked.quants = &r->quantize.input, asked.n_quants = 1;
        gq_evaluation *v = evaluation_plan(r, &asked, e);
        if (!v) return false;
        const gq_evaluation_facts *f = gq_evaluation_summary(v);
        double models = (double)(gq_plan_outputs(plan) + 1) / 2; /* for each of the two that are planned */
        uint64_t memory = (uint64_t)(models * (double)f->peak_bytes);
        needs.seconds += models * f->seconds_expected;
        if (memory > needs.memory) needs.memory = memory;
        if (f->hidden_states_in_file) needs.disk += (uint64_t)(models * (double)f->hidden_state_bytes);
        gq_evaluation_free(v);
    }
    if (evaluates || !gq_plan_calibration(plan)) /* a calibration's plan has its own */
        report_needs(stdout, &needs, evaluates ? "with --evaluate: " : "");
    warn_of_disk(r->said, &needs);
    return true;
}

/* Evaluates all outputs, which are complete by now. *v stays as it is where nothing is to be evaluated. */
static bool evaluate_outputs(const request *r, const gq_plan *plan, gq_evaluation_request *asked,
                             gq_evaluation **v, gq_error *e) {
    if (!r->text || r->dry_run || is_part(r)) return true;
    asked->n_quants = gq_plan_outputs(plan);
    const char **paths = need_memory(asked->n_quants, sizeof *paths);
    for (size_t i = 0; i < asked->n_quants; i++) paths[i] = gq_plan_summary(plan, i)->path;
    asked->quants = paths;
    *v = evaluation_run(r, asked, e);
    free(paths);
    return *v;
}

/* Evaluates the outputs and reports. They are complete even if evaluating fails, so the report is made
 * anyway. */
static bool evaluate_and_report(const request *r, const gq_plan *plan, const gq_results *results,
                                gq_evaluation_request *asked, gq_error *e) {
    gq_evaluation *evaluation = NULL;
    gq_error why;
    bool evaluated = evaluate_outputs(r, plan, asked, &evaluation, &why);
    bool ok = report_results(r, plan, results, evaluation, e) && print_needs(r, plan, asked, e);
    gq_evaluation_free(evaluation);
    if (evaluated || !ok) return ok;
    gq_fail(e, "%s; the output is complete, only its evaluation is missing", why.text);
    e->status = why.status;
    return false;
}

/* is_whole: the outputs are there. */
static bool run_plan(const request *r, const gq_plan *plan, bool is_whole, gq_evaluation_request *asked,
                     gq_error *e) {
    gq_results *results = NULL;
    bool ok = recipe_out_write(r, plan, e) &&
              (r->dry_run || is_whole || run_with_progress(r, plan, &results, e)) &&
              evaluate_and_report(r, plan, results, asked, e);
    gq_results_free(results);
    return ok;
}

/* With several ranks the first one makes the folder. */
static bool quantize_make_folder(const request *r, size_t *made, gq_error *e) {
    if (!r->out_dir || r->dry_run) return true;
    return gq_comm_agree(r->comm, gq_comm_rank(r->comm) > 0 || path_make_folder(r->out_dir, made, e), e);
}

int quantize_main(const request *r) {
    if (!r->quantize.n_outputs) return projector_main(r);
    gq_error e = {0};
    gq_evaluation_request asked = {0};
    /* If the reader of messages and table goes away the model is still made. */
    if (!r->dry_run) signal(SIGPIPE, SIG_IGN);
    if (r->n_targets) interrupt_catch();
    size_t made = 0;
    bool ok = report_check(r, &e) && recipe_out_check(r, &e) && ask_evaluation(r, &asked, &e) &&
              check_quants_early(r, &e) && quantize_make_folder(r, &made, &e);
    gq_plan *plan = ok ? quantize_make_plan(r, r->dry_run, &e) : NULL, *projector = NULL;
    bool is_whole = ok && !plan && (plan = quantize_plan_whole(r, &e));
    ok = plan && (!r->text || is_part(r) || check_quants(plan, &e)) && quantize_check_names(r, plan, &e) &&
         projector_plan(r, plan, &projector, &e);
    if (ok && !r->dry_run) interrupt_catch();
    if (ok && !r->quiet) is_whole ? say_losses_are_gone(r) : say_plan(r, plan);
    ok = ok && projector_run(r, projector, &e) && run_plan(r, plan, is_whole, &asked, &e);
    if (!ok && gq_comm_rank(r->comm) == 0)
        path_remove_folder(r->out_dir ? r->out_dir : "", made); /* only if it is empty */
    evaluation_free(&asked);
    if (ok && !r->dry_run && !r->text && !is_part(r)) {
        size_t n = gq_plan_outputs(plan);
        const char **quants = need_memory(n, sizeof *quants);
        for (size_t i = 0; i < n; i++) quants[i] = gq_plan_summary(plan, i)->path;
        next_say_evaluate(r, r->quantize.input, quants, n);
        free(quants);
    }
    gq_plan_free(plan), gq_plan_free(projector);
    return ok ? GQ_OK : say_failure(r->said, &e);
}
