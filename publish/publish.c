/* A folder to upload. The steps: name the outputs by a template, plan all of them, leave out what is there and whole,
 * make the rest in one run, evaluate all, and write the page, its chart and the checksums (card.c, sums.c). Every
 * step can be repeated: the same request continues where it was stopped, and makes only what is missing. */
#include "publish/publish.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/name_index.h"
#include "base/sized.h"
#include "publish/ladder.h"
#include "publish/table.h"

/* Bytes of a shard at most: hubs take files of up to 50 GB. */
static const uint64_t SHARD_BYTES = 48 * LADDER_GB;

/* Whether a path leads to a file that is read. */
static bool publication_reads(const gq_publication *p, const char *path) {
    const gq_evaluation_request *v = p->request.evaluation;
    const gq_calibration *c = p->options.calibration;
    const char *const named[] = {p->options.imatrix, p->request.speeds, v ? v->text.name : NULL,
                                 v ? v->base : NULL, c && !c->random ? c->text.name : NULL};
    const gq_list *lists[] = {&p->options.other_inputs, &p->options.reuse};
    bool is = gq_file_is_any(path, named, sizeof named / sizeof *named);
    for (uint32_t i = 0; !is && i < gq_model_summary(p->model)->shards; i++) {
        const char *shard = gq_model_path(p->model, i);
        is = gq_file_is_any(path, &shard, 1);
    }
    for (size_t i = 0; !is && i < sizeof lists / sizeof *lists; i++)
        is = gq_file_is_any(path, lists[i]->items, lists[i]->n);
    return is;
}

/* Refuses the model's own folder: a page there would be read as the model's the next time. */
static bool publication_check_folder(const gq_publication *p, gq_error *e) {
    struct stat in;
    return stat(p->options.input, &in) != 0 || !S_ISDIR(in.st_mode) ||
           !gq_file_is_any(p->options.out_dir, &p->options.input, 1) ||
           gq_fail_usage(
               e, "%s is the model's own folder, whose README.md would be replaced: name another folder",
               p->options.out_dir);
}

/* Whether the page and what goes with it can be written: their places are free or hold files, none of which
 * is read. */
static bool publication_check_places(const gq_publication *p, gq_error *e) {
    static const char *const names[] = {PUBLISH_PAGE, PUBLISH_SUMS, PUBLISH_CHART, PUBLISH_ATTRIBUTES};
    bool ok = publication_check_folder(p, e);
    for (size_t i = 0; ok && !p->options.dry_run && i < sizeof names / sizeof *names; i++) {
        char *path = folder_path(p, names[i], e);
        ok = path && gq_check_target(path, true, e) &&
             (!publication_reads(p, path) ||
              gq_fail_usage(e, "%s is one of the inputs: writing the page would destroy what is read", path));
        free(path);
    }
    for (size_t i = 0; ok && i < p->n; i++)
        ok = !publication_reads(p, p->outputs[i].path) ||
             gq_fail_usage(e, "%s is one of the inputs: writing it would destroy what is read",
                           p->outputs[i].path);
    return ok;
}

/* ---- plans and runs ---- */

/* Whether what is kept beside the input would lie in the folder and be uploaded. Without memory: so it would. */
static bool publication_would_upload(const gq_publication *p, const char *suffix) {
    gq_error unused;
    char *kept = gq_kept_path(p->options.input, suffix, &unused), *slash = kept ? strrchr(kept, '/') : NULL;
    if (slash) slash[slash == kept] = 0;
    bool is = !kept || gq_file_is_any(slash ? kept : ".", &p->options.out_dir, 1);
    free(kept);
    return is;
}

static const char *const phase_names[PHASES] = {"plan", "verify", "quantize", "evaluate", "checksums"};

/* Returns the callbacks for the call of a phase. */
static const gq_callbacks *publication_begin(gq_publication *p, publication_phase phase,
                                             const gq_plan *plan) {
    if (p->request.begins) p->request.begins(p->request.user, phase_names[phase], plan);
    return phases_begin(&p->phases, phase, p->request.callbacks);
}

static void publication_end(gq_publication *p, const gq_error *failure) {
    phases_leave(&p->phases);
    if (p->request.ends) p->request.ends(p->request.user, phase_names[p->phases.at], failure);
}

static gq_plan *publication_plan(gq_publication *p, const gq_output *outputs, size_t n, bool dry,
                                 gq_error *e) {
    gq_options o = p->options;
    o.outputs = outputs, o.n_outputs = n, o.out_dir = NULL, o.forecast &= !dry;
    o.model = p->model, o.dry_run = dry;
    if (!o.split_max_size) o.split_max_size = SHARD_BYTES;
    o.callbacks = publication_begin(p, PHASE_PLAN, NULL);
    gq_plan *plan = gq_plan_new(&o, e);
    if (plan && p->options.dry_run) phases_end(&p->phases);
    publication_end(p, plan ? NULL : e);
    return plan;
}

static bool publication_warn(gq_publication *p, const char *const *warnings, size_t n, gq_error *e) {
    return warnings_join(&p->warnings, &(warning_list){(char **)warnings, n}, e);
}

static bool publication_run(gq_publication *p, const gq_plan *plan, gq_error *e) {
    gq_results *results = NULL;
    size_t n = 0;
    const char *const *warnings = gq_plan_warnings(plan, &n);
    if (!publication_warn(p, warnings, n, e)) return false;
    p->phases.seconds[PHASE_MAKE] = gq_plan_run_seconds(plan);
    const gq_callbacks *callbacks = publication_begin(p, PHASE_MAKE, plan);
    bool ok = gq_run(plan, callbacks, &results, e);
    publication_end(p, ok ? NULL : e);
    warnings = results ? gq_results_warnings(results, &n) : NULL;
    ok = ok && publication_warn(p, warnings, results ? n : 0, e);
    gq_results_free(results);
    return ok;
}

/* Finds out which outputs are there as they would be made; any other file under an output's name is refused. */
static bool publication_look(gq_publication *p, gq_found *found, gq_error *e) {
    memset(found, 0, p->n * sizeof *found);
    if (p->options.force) return true;
    bool ok = gq_check_earlier(p->plan, found, publication_begin(p, PHASE_VERIFY, NULL), e);
    publication_end(p, ok ? NULL : e);
    for (size_t i = 0; ok && i < p->n; i++)
        if (found[i].is_there && !found[i].is_whole)
            ok = gq_fail_remedy(e, GQ_REMEDY_REPLACE, "%s already exists with other content: %s",
                                gq_plan_summary(p->plan, i)->path, found[i].why.text);
    return ok;
}

/* Makes the outputs that are not there. */
static bool publication_make(gq_publication *p, const gq_found *found, gq_error *e) {
    gq_output *missing = calloc(p->n, sizeof *missing);
    if (!missing) return gq_fail_memory(e, p->n * sizeof *missing);
    for (size_t i = 0; i < p->n; i++) {
        if (!found[i].is_whole)
            missing[p->made++] = p->outputs[i];
        else if (p->request.kept)
            p->request.kept(p->request.user, gq_plan_summary(p->plan, i)->path);
    }
    gq_plan *plan = p->made ? publication_plan(p, missing, p->made, false, e) : NULL;
    bool ok = !p->made || (plan && publication_run(p, plan, e));
    gq_plan_free(plan);
    free(missing);
    return ok;
}

/* Evaluates the draft model with the files. One that cannot be run is left out with a warning. */
static bool publication_evaluates_draft(gq_publication *p, gq_evaluation_request *asked, gq_error *e) {
    gq_error why = {0};
    if (!p->companions[GQ_DRAFT_FILE]) return true;
    asked->draft = gq_plan_summary(p->companions[GQ_DRAFT_FILE], 0)->path;
    gq_evaluation_request alone = *asked;
    alone.n_quants = 0, alone.forecast = false, alone.scores_file = NULL, alone.callbacks = NULL;
    gq_evaluation *planned = gq_evaluation_plan(&alone, &why);
    gq_evaluation_free(planned);
    if (planned) return true;
    asked->draft = NULL;
    return warnings_add(&p->warnings, e, "README.md does not report the draft model's acceptance: %s",
                        why.text);
}

/* Whether the last of the quants, which an earlier call has made, can be evaluated beside the others. */
static bool publication_runs_earlier(gq_publication *p, const gq_evaluation_request *asked, gq_error *e) {
    gq_error why = {0};
    gq_evaluation_request alone = *asked;
    alone.quants += asked->n_quants, alone.n_quants = 1;
    alone.draft = NULL, alone.forecast = false, alone.scores_file = NULL, alone.callbacks = NULL;
    gq_evaluation *planned = gq_evaluation_plan(&alone, &why);
    gq_evaluation_free(planned);
    if (!planned)
        warnings_add(&p->warnings, e, "README.md lists %s without figures: %s", *alone.quants, why.text);
    return planned;
}

static bool publication_evaluate(gq_publication *p, gq_error *e) {
    gq_evaluation_request asked;
    size_t n;
    if (!p->request.evaluation) return true;
    if (!SIZED_TAKE(asked, p->request.evaluation, e)) return false;
    const char **paths = calloc(p->n_files, sizeof *paths);
    if (!paths) return gq_fail_memory(e, p->n_files * sizeof *paths);
    asked.base_model = p->options.input, asked.quants = paths, asked.n_quants = 0;
    asked.adapters = p->options.adapters;
    for (size_t i = 0; i < p->n_files; i++) {
        paths[asked.n_quants] = p->files[i].path;
        if (i < p->n || publication_runs_earlier(p, &asked, e)) p->files[i].evaluated = ++asked.n_quants;
        if (e->status) return free(paths), false;
    }
    if (!publication_evaluates_draft(p, &asked, e)) return free(paths), false;
    if (asked.scores_file && !*asked.scores_file && publication_would_upload(p, GQ_SCORES_SUFFIX))
        asked.scores_file = NULL;
    asked.callbacks = publication_begin(p, PHASE_EVALUATE, NULL);
    p->evaluation = gq_evaluate(&asked, e);
    publication_end(p, p->evaluation ? NULL : e);
    free(paths);
    const char *const *warnings = p->evaluation ? gq_evaluation_warnings(p->evaluation, &n) : NULL;
    return p->evaluation && publication_warn(p, warnings, n, e);
}

/* Whether the models can be run on the text: to be asked before the work. Of the files to come only the size is
 * known; the base model in place of each takes about as long, and no less memory. It is opened once more, not
 * for each of them, as it may have hundreds of shards. */
static bool publication_check_evaluation(gq_publication *p, gq_error *e) {
    gq_evaluation_request asked;
    if (!p->request.evaluation) return true;
    if (!SIZED_TAKE(asked, p->request.evaluation, e)) return false;
    double models = (double)(p->n + 1) / 2; /* for each of the two that are planned */
    asked.base_model = p->options.input, asked.quants = &p->options.input, asked.n_quants = 1;
    asked.adapters = p->options.adapters, asked.draft = p->request.draft;
    asked.callbacks = publication_begin(p, PHASE_PLAN, NULL);
    gq_evaluation *planned = asked.draft ? gq_evaluation_plan(&asked, NULL) : NULL;
    if (!planned) asked.draft = NULL, planned = gq_evaluation_plan(&asked, e);
    bool ok = planned && gq_evaluation_check(p->plan, e);
    publication_end(p, ok ? NULL : e);
    if (ok) {
        const gq_evaluation_facts *f = gq_evaluation_summary(planned);
        p->phases.seconds[PHASE_EVALUATE] = f->seconds_expected > 0
                                                ? models * f->seconds_expected
                                                : phases_usual_evaluation(p->plan, &asked, f->tokens);
        p->phases.is_measured |= f->seconds_expected > 0;
        p->needs.memory = (uint64_t)(models * (double)f->peak_bytes);
        p->needs.disk = f->hidden_states_in_file ? (uint64_t)(models * (double)f->hidden_state_bytes) : 0;
    }
    gq_evaluation_free(planned);
    return ok;
}

/* Whether a file of an earlier call has a speed. Without memory: so it has, and the page asks again. */
static bool publication_has_speed(const gq_publication *p) {
    bool has = false;
    for (size_t i = 0; !has && i < p->speeds.n; i++) {
        char *path = folder_path(p, p->speeds.rows[i].name, &(gq_error){0});
        has = !path || access(path, F_OK) == 0;
        free(path);
    }
    return has;
}

/* Whether some file of the folder has a speed: to be asked before the work. */
static bool publication_check_speeds(const gq_publication *p, gq_error *e) {
    char *note = NULL;
    if (!p->request.speeds || publication_has_speed(p)) return true;
    gq_page_row *rows = calloc(p->n, sizeof *rows);
    if (!rows) return gq_fail_memory(e, p->n * sizeof *rows);
    for (size_t i = 0; i < p->n; i++) rows[i].path = gq_plan_summary(p->plan, i)->path;
    bool ok = speeds_take(&p->speeds, p->request.speeds, rows, p->n, &note, e);
    free(rows), free(note);
    return ok;
}

/* Writes the page, its chart and the checksums. */
static bool publication_finish(gq_publication *p, gq_error *e) {
    publication_begin(p, PHASE_SUMS, NULL);
    publication_begin_sums(p);
    bool ok = publication_write_extras(p, e) && publication_write_page(p, e);
    if (ok) phases_end(&p->phases);
    publication_end(p, ok ? NULL : e);
    return ok;
}

static bool publication_check_ids(const gq_publish_request *r, gq_error *e) {
    const char *const ids[][2] = {{"base model", r->base_model}, {"repository", r->repo}};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        if (ids[i][1] && !name_is_hub_id(ids[i][1], strlen(ids[i][1])))
            return gq_fail_usage(e, "the %s '%s': expected OWNER/NAME, as a hub has it", ids[i][0],
                                 ids[i][1]);
    return true;
}

/* ---- the whole ---- */

static bool publication_open(gq_publication *p, const gq_options *asked, gq_error *e) {
    gq_memory memory = {.size = sizeof memory};
    if (p->request.mtp_file) p->options.no_mtp = true;
    if (p->request.speeds && !speeds_read(&p->speeds, p->request.speeds, e)) return false;
    p->model = gq_model_open_adapted(p->options.input, &p->options.adapters, e);
    if (!p->model) return false;
    gq_model_memory(p->model, 0, &memory);
    p->memory = memory.cache_bytes + memory.buffer_bytes, p->context = memory.context;
    if (!p->options.measure_file && publication_would_upload(p, GQ_MEASURE_SUFFIX))
        p->options.measure_file = "";
    return publication_name_model(p, e) && publication_list(p, asked, e) && folder_recall(p, e) &&
           (p->base_model.id ||
            base_model_find(&p->base_model, p->request.base_model, p->options.input,
                            p->options.adapters.n ? p->options.adapters.items[0].path : NULL, p->model,
                            p->stem, e));
}

/* The evaluation has put its memory and disk space there already. */
static void publication_take_needs(gq_publication *p) {
    gq_needs evaluation = p->needs, companion = {.size = sizeof companion};
    p->needs.size = sizeof p->needs;
    gq_plan_needs(p->plan, &p->needs);
    p->needs.memory = max(p->needs.memory, evaluation.memory);
    p->needs.disk += evaluation.disk;
    p->needs.seconds = 0;
    for (size_t i = 0; i < PHASES; i++) p->needs.seconds += p->phases.seconds[i];
    for (gq_companion i = 0; i < GQ_COMPANIONS; i++) {
        if (!p->companions[i]) continue;
        gq_plan_needs(p->companions[i], &companion);
        p->needs.disk += companion.disk;
    }
}

static bool publication_do(gq_publication *p, gq_error *e) {
    size_t n;
    const gq_publish_request *r = &p->request;
    if (!r->name) p->request.name = "{model}-{type}.gguf";
    gq_options asked = p->options;
    p->options.outputs = NULL, p->options.n_outputs = 0;
    if (!asked.input) return gq_fail_usage(e, "no input: name a model");
    if (!asked.out_dir) return gq_fail_usage(e, "no folder for the files: set out_dir");
    if (!publication_check_template(r, e) || !publication_check_ids(r, e) ||
        (!p->options.dry_run && !folder_lock(p, e)) || !publication_open(p, &asked, e) ||
        !publication_check_places(p, e) || !folder_check(p, e) || !publication_name_imatrix(p, e))
        return false;
    p->plan = publication_plan(p, p->outputs, p->n, true, e);
    if (!p->plan || !publication_warn_same(p, e) || !publication_plan_companions(p, e) ||
        !publication_check_speeds(p, e) || !publication_check_evaluation(p, e))
        return false;
    const char *const *warnings = gq_plan_warnings(p->plan, &n);
    p->phases.is_measured |= p->options.calibration && p->options.forecast;
    phases_predict(&p->phases, p->plan, p->options.force, publication_summed_bytes(p));
    publication_take_needs(p);
    if (p->options.dry_run) return publication_warn(p, warnings, n, e);
    gq_found *found = calloc(p->n, sizeof *found);
    bool ok = (found || gq_fail_memory(e, p->n * sizeof *found)) && publication_look(p, found, e) &&
              publication_check_extras(p, e) && publication_make_companions(p, e) &&
              publication_make(p, found, e) && folder_list_files(p, e) && publication_evaluate(p, e) &&
              publication_finish(p, e);
    for (size_t i = 0; ok && i < p->n; i++) gq_clean_earlier(p->plan, i); /* it would be uploaded, too */
    for (gq_companion i = 0; ok && i < GQ_COMPANIONS; i++)
        if (p->companions[i]) gq_clean_earlier(p->companions[i], 0);
    free(found);
    return ok;
}

gq_publication *gq_publish(const gq_publish_request *r, gq_error *error) {
    gq_error e = {0};
    gq_callbacks checked;
    gq_publication *p = calloc(1, sizeof *p);
    if (!p) return gq_fail_memory(error, sizeof *p), NULL;
    p->folder_fd = -1;
    bool ok = SIZED_TAKE(p->request, r, &e) && SIZED_TAKE(p->options, p->request.options, &e) &&
              SIZED_TAKE(checked, p->request.callbacks, &e) && publication_do(p, &e);
    p->request = (gq_publish_request){0}, p->options = (gq_options){0}; /* which belong to the caller */
    if (ok) return p;
    if (error) *error = e;
    gq_publication_free(p);
    return NULL;
}

void gq_publication_free(gq_publication *p) {
    if (!p) return;
    gq_evaluation_free(p->evaluation);
    gq_plan_free(p->plan);
    for (gq_companion i = 0; i < GQ_COMPANIONS; i++) gq_plan_free(p->companions[i]);
    gq_model_close(p->model);
    for (size_t i = 0; i < p->n; i++) free((void *)p->outputs[i].path), free(p->labels[i]);
    free(p->outputs), free(p->labels), free(p->stem), free(p->base_model.id), free(p->imatrix_name);
    free((void *)p->kept.repo), free((void *)p->kept.title), free((void *)p->kept.license);
    free((void *)p->kept.quantized_by);
    for (size_t i = 0; i < p->n_files; i++)
        free(p->files[i].path), free(p->files[i].label), free(p->files[i].checked_sums);
    free(p->old_page.text), free(p->files), free((void *)p->page.rows), free((void *)p->page.speed_note),
        free(p->intervals);
    if (p->folder_fd >= 0) close(p->folder_fd);
    speeds_free(&p->speeds);
    warnings_free(&p->warnings);
    free(p);
}

const gq_plan *gq_publication_projector(const gq_publication *p) { return p->companions[GQ_PROJECTOR]; }

const gq_plan *gq_publication_companion(const gq_publication *p, gq_companion which) {
    return which < GQ_COMPANIONS ? p->companions[which] : NULL;
}

const gq_plan *gq_publication_plan(const gq_publication *p) { return p->plan; }

size_t gq_publication_made(const gq_publication *p) { return p->made + p->companions_made; }

void gq_publication_needs(const gq_publication *p, gq_needs *to) {
    sized_give(to, &p->needs, sizeof p->needs);
}

const gq_evaluation *gq_publication_evaluation(const gq_publication *p) { return p->evaluation; }

const gq_page_row *gq_publication_rows(const gq_publication *p, size_t *n) {
    return *n = p->page.n, p->page.rows;
}

const gq_page_row *gq_publication_recommended(const gq_publication *p, const char **why) {
    return page_recommended(&p->page, why);
}

const char *gq_publication_base_model(const gq_publication *p, const char **source) {
    *source = p->base_model.source;
    return p->base_model.id;
}

const gq_publish_request *gq_publication_kept(const gq_publication *p) { return &p->kept; }

const char *const *gq_publication_warnings(const gq_publication *p, size_t *n) {
    return warnings_texts(&p->warnings, n);
}
