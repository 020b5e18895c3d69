/* The JSON report, which docs/reports.md describes member by member: facts of the whole, warnings, then for each
 * output its facts and one object per tensor, and at the end an evaluation. Reports are made to be passed on, so
 * paths are cut to their last part, in the text of warnings as well, unless full paths are asked for. Numbers that
 * are not finite become null. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "publish/report.h"
#include "publish/text.h"

/* ---- tensors ---- */

static void put_losses(json_writer *j, const gq_loss *l) {
    json_put_number(j, "rmse", gq_loss_rmse(l));
    json_put_number(j, "relative_error", gq_loss_relative(l));
    json_put_number(j, "snr_db", gq_loss_snr_db(l));
    json_put_number(j, "max_error", l->max_error);
    json_put_number(j, "weighted_error", gq_loss_weighted(l));
}

static void put_origin(json_writer *j, const gq_origin *o) {
    json_open(j, "origin", '{');
    json_put_text(j, "names", o->names);
    json_put_text(j, "type", o->type);
    json_put_text(j, "changes", o->changes);
    json_put_count(j, "bytes", o->bytes);
    if (j->exact) json_put_bool(j, ".quantized", o->quantized);
    json_close(j);
}

/* The names of the types of a set, bit by number. */
static void put_types(json_writer *j, const char *key, uint64_t types) {
    json_open(j, key, '[');
    for (uint32_t i = 0; i < 64; i++)
        if (types >> i & 1) json_put_text(j, NULL, gq_type_name(i));
    json_close(j);
}

static void put_rounding(json_writer *j, const gq_report_output *output, const gq_rounding *r) {
    json_put_number(j, "output_error", gq_rounding_written(r));
    json_put_number(j, "plain_output_error", gq_rounding_plain(r));
    json_open(j, "rounding", '{');
    json_put_count(j, "matrices", r->matrices);
    json_put_count(j, "plain", r->plain);
    json_put_count(j, "unchecked", r->unchecked);
    json_put_text(j, "why", r->why);
    json_put_count(j, "tokens", r->tokens);
    json_put_count(j, "width", r->width);
    json_put_number(j, "damp", (double)r->damp);
    json_put_count(j, "codes", r->codes);
    json_put_count(j, "clipped", r->clipped);
    json_open(j, "steps", '[');
    for (size_t i = 0; i < output->n_steps; i++)
        if (r->steps >> i & 1) json_put_text(j, NULL, output->steps[i].name);
    json_close(j);
    json_close(j);
}

static void put_loss(json_writer *j, const gq_report_output *output, size_t i, bool checksum) {
    const gq_loss *l = &output->losses[i];
    char crc[16];
    snprintf(crc, sizeof crc, "%08x", (unsigned)l->crc32);
    if (checksum) json_put_text(j, "crc32", crc);
    if (j->exact) {
        const double sums[] = {l->x2, l->e2, l->wx2, l->we2, l->max_error};
        json_put_count(j, ".n", l->n), json_put_count(j, ".crc32", l->crc32);
        json_open(j, ".sums", '[');
        for (size_t k = 0; k < sizeof sums / sizeof *sums; k++) json_put_number(j, NULL, sums[k]);
        json_close(j);
    }
    json_put_bool(j, "measured", l->n > 0);
    if (l->n) put_losses(j, l);
    if (l->n)
        json_put_number(j, "error_share", output->squares > 0 ? gq_loss_squares(l) / output->squares : 0);
    if (output->best) json_put_bool(j, "best", output->best[i]);
    if (output->roundings && output->roundings[i].matrices) put_rounding(j, output, &output->roundings[i]);
}

static void put_tensor(json_writer *j, const gq_report_output *output, size_t i, bool checksum) {
    static const char *const coverage[] = {[GQ_IMPORTANCE_UNUSED] = "unused",
                                           [GQ_IMPORTANCE_MISSING] = "missing",
                                           [GQ_IMPORTANCE_FULL] = "full"};
    const gq_tensor *t = &output->tensors[i];
    json_open(j, NULL, '{');
    json_put_text(j, "name", t->name);
    json_put_text(j, "source_name", t->source_name);
    json_open(j, "shape", '[');
    for (uint32_t d = 0; d < t->n_dims; d++) json_put_count(j, NULL, t->ne[d]);
    json_close(j);
    if (t->transposed) json_put_bool(j, "transposed", true);
    json_put_text(j, "from", gq_type_name(t->from));
    json_put_text(j, "to", gq_type_name(t->to));
    json_put_text(j, "wanted", gq_type_name(t->wanted));
    if (t->wanted != t->to) json_put_count(j, "fallback_bytes", t->fallback_bytes);
    json_put_text(j, "why", t->why);
    if (t->origin) put_origin(j, t->origin);
    if (t->grid_types) put_types(j, "grid_types", t->grid_types);
    if (t->grid_types && !j->exact) put_types(j, json_old_name("grid_types"), t->grid_types);
    json_put_count(j, "in_bytes", t->in_bytes);
    json_put_count(j, "out_bytes", t->out_bytes);
    json_put_text(j, "importance", coverage[t->importance]);
    json_put_bool(j, "calibrated", t->calibrated);
    if (t->experts > 1) json_put_count(j, "experts", t->experts);
    if (t->experts > 1) json_put_count(j, "experts_unseen", t->experts_unseen);
    if (output->losses) put_loss(j, output, i, checksum);
    json_close(j);
}

/* ---- outputs ---- */

static void put_steps(json_writer *j, const gq_report_output *o) {
    json_open(j, "steps", '[');
    for (size_t i = 0; i < o->n_steps; i++) {
        const gq_step *s = &o->steps[i];
        json_open(j, NULL, '{');
        json_put_text(j, "name", s->name);
        json_put_text(j, "what", s->what);
        json_put_bool(j, "on", s->on);
        json_put_count(j, "matrices", s->matrices);
        json_put_count(j, "kept", s->kept);
        json_put_count(j, "compared", s->compared);
        if (s->compared) json_put_number(j, "error", sqrt(s->with / (double)s->compared));
        if (s->compared) json_put_number(j, "error_without", sqrt(s->without / (double)s->compared));
        json_close(j);
    }
    json_close(j);
}

static void put_output_losses(json_writer *j, const gq_report_output *o) {
    if (o->rate > 0) json_put_number(j, "weights_per_second", o->rate);
    put_losses(j, &o->loss);
    if (o->best) json_put_count(j, "best_in", o->n_best);
    if (o->roundings) {
        json_put_number(j, "output_error", o->written);
        json_put_number(j, "plain_output_error", o->plain_error);
        json_put_count(j, "matrices_calibrated", o->matrices - o->plain);
        json_put_count(j, "matrices_plain", o->plain);
        json_put_count(j, "matrices_unchecked", o->unchecked);
        put_steps(j, o);
    }
    json_open(j, "worst", '[');
    for (size_t i = 0; i < o->n_worst; i++) json_put_text(j, NULL, o->tensors[o->worst[i]].name);
    json_close(j);
}

static void put_output(json_writer *j, const gq_report *r, const gq_report_output *o) {
    const gq_summary *s = o->summary;
    json_open_lines(j, NULL, '{');
    json_put_text(j, "path", report_path_shown(r, s->path));
    if (j->exact) json_put_text(j, ".path", s->path);
    json_put_text(j, "file_type", s->filetype);
    json_put_count(j, "weights", s->n_weights);
    json_put_count(j, "in_bytes", s->in_bytes);
    json_put_count(j, "out_bytes", s->out_bytes);
    json_put_count(j, "file_bytes", s->file_bytes);
    json_put_number(j, "bits_per_weight", gq_bits_per_weight(s->out_bytes, s->n_weights));
    json_put_count(j, "fallbacks", s->n_fallbacks);
    json_put_count(j, "fallback_bytes", s->fallback_bytes);
    json_put_count(j, "without_imatrix", s->n_without_imatrix);
    json_put_count(j, "experts_unseen", s->n_experts_unseen);
    if (r->asked.reuses) json_put_count(j, "reused_tensors", o->reused);
    if (r->asked.reuses) json_put_count(j, "reused_bytes", o->reused_bytes);
    if (o->losses) put_output_losses(j, o);
    json_open_lines(j, "tensors", '[');
    for (size_t i = 0; i < o->n; i++) put_tensor(j, o, i, r->asked.results != NULL);
    json_close(j);
    json_close(j);
}

static void put_calibration(json_writer *j, const gq_calibration_facts *f) {
    json_open(j, "calibration", '{');
    if (f->text) json_put_text(j, "text", f->text);
    json_put_bool(j, "random", !f->text);
    json_put_count(j, "context", f->context);
    json_put_count(j, "windows", f->windows);
    json_put_count(j, "tokens", f->tokens);
    json_put_count(j, "held_out", f->held_out);
    json_put_number(j, "tokens_per_column", f->per_column);
    json_put_count(j, "columns", f->columns);
    json_put_count(j, "width", f->width);
    json_put_count(j, "memory_bytes", f->memory);
    json_put_count(j, "disk_bytes", f->disk);
    json_put_bool(j, "hidden_states_in_file", f->hidden_states_in_file);
    json_put_count(j, "inputs_memory_bytes", f->inputs_memory);
    json_put_count(j, "inputs_disk_bytes", f->inputs_disk);
    json_put_number(j, "gflop", f->work / 1e9);
    if (f->seconds_expected > 0) json_put_number(j, "seconds_expected", f->seconds_expected);
    if (f->left_out) json_put_text(j, "left_out", f->left_out);
    json_put_count(j, "tokens_advised", f->tokens_advised);
    if (f->has_trials) json_put_count(j, "trial_layers", f->trial_layers);
    json_put_text(j, "steps", f->steps);
    json_put_text(j, "arithmetic", f->arithmetic);
    if (f->ranks > 1) json_put_count(j, "ranks", f->ranks);
    if (f->ranks > 1) json_put_count(j, "rank_windows", f->rank_windows);
    json_close(j);
}

/* ---- evaluations ---- */

/* Whether models give embeddings, which are compared by cosine distance: nothing is predicted then. */
static bool has_embeddings(const gq_evaluated *models) { return isnan(models[0].perplexity.value); }

static void put_interval_as(json_writer *j, const char *key, const gq_interval *i) {
    json_open(j, key, '{');
    json_put_number(j, "value", i->value);
    json_put_number(j, "low", i->low);
    json_put_number(j, "high", i->high);
    json_put_count(j, "of", i->windows);
    json_close(j);
}

static void put_interval(json_writer *j, const char *key, const gq_interval *i) {
    const char *old = json_old_name(key);
    put_interval_as(j, key, i);
    if (old != key && !j->exact) put_interval_as(j, old, i);
}

static void put_intervals(json_writer *j, const char *key, const gq_interval *all, size_t n) {
    json_open(j, key, '[');
    for (size_t i = 0; i < n; i++) put_interval_as(j, NULL, &all[i]);
    json_close(j);
}

/* A statistic of a model with its interval by windows. */
static void put_statistic(json_writer *j, const char *key, const gq_evaluation *v, gq_statistic of, size_t a,
                          size_t b) {
    gq_interval to = {NAN, NAN, NAN, 0};
    gq_evaluation_interval(v, of, a, b, &to, NULL);
    put_interval(j, key, &to);
}

static void put_estimate(json_writer *j, const char *key, const char *error, gq_estimate x) {
    json_put_number(j, key, x.value), json_put_number(j, error, x.error);
}

static void put_figures(json_writer *j, const gq_evaluated *m, bool is_quant) {
    static const char *const quantiles[GQ_QUANTILES] = {"kld_median", "kld_90",   "kld_95",
                                                        "kld_99",     "kld_99_9", "kld_max"};
    put_estimate(j, "perplexity", "perplexity_error", m->perplexity);
    if (is_quant) {
        put_estimate(j, "kld", "kld_error", m->kld);
        for (size_t i = 0; i < GQ_QUANTILES; i++) json_put_number(j, quantiles[i], m->quantiles[i]);
        put_estimate(j, "perplexity_ratio", "perplexity_ratio_error", m->ratio);
        put_estimate(j, "rms_change", "rms_change_error", m->rms_change);
        json_put_number(j, "top1_agreement", m->top1_agreement.value);
        if (j->exact) json_put_number(j, ".top1_error", m->top1_agreement.error);
    }
    if (isfinite(m->acceptance.value)) put_estimate(j, "acceptance", "acceptance_error", m->acceptance);
}

static void put_depths(json_writer *j, const gq_evaluation *v, size_t model) {
    gq_depth depths[GQ_DEPTHS];
    json_open(j, "depths", '[');
    for (size_t d = 0, n = gq_evaluation_depths(v, model, depths); d < n; d++) {
        json_open(j, NULL, '{');
        json_put_count(j, "from", depths[d].from);
        if (depths[d].to != UINT32_MAX) json_put_count(j, "to", depths[d].to);
        json_put_count(j, "scored", depths[d].scored);
        json_put_number(j, "perplexity", depths[d].perplexity);
        if (model) json_put_number(j, "kld", depths[d].kld);
        if (model) json_put_number(j, "changed_top1", depths[d].changed_top1);
        json_close(j);
    }
    json_close(j);
}

static void put_drafted(json_writer *j, const gq_evaluation *v, size_t model) {
    gq_drafted d;
    if (!gq_evaluation_drafted(v, model, &d)) return;
    json_open(j, "drafted", '{');
    json_put_count(j, "texts", d.texts);
    json_put_count(j, "positions", d.positions);
    put_interval(j, "first", &d.first);
    put_intervals(j, "accepted", d.accepted, GQ_DRAFTED);
    put_intervals(j, "length", d.length, GQ_DRAFTED);
    json_close(j);
}

static void put_continued(json_writer *j, const gq_evaluation *v, size_t model) {
    gq_continued c;
    if (!gq_evaluation_continued(v, model, &c)) return;
    json_open(j, "continued", '{');
    json_open(j, "parts", '[');
    for (size_t i = 0; i < GQ_PARTS; i++) json_put_count(j, NULL, c.parts[i]);
    json_close(j);
    json_put_count(j, "prompts", c.prompts);
    put_interval(j, "same", &c.same);
    json_put_number(j, "mean", c.mean);
    json_close(j);
}

static void put_chosen(json_writer *j, const gq_evaluation *v, size_t model) {
    gq_chosen q;
    if (!gq_evaluation_chosen(v, model, &q)) return;
    json_open(j, "chosen", '{');
    json_put_count(j, "questions", q.questions);
    json_put_count(j, "right", q.right);
    put_interval(j, "accuracy", &q.accuracy);
    if (model || j->exact) {
        json_put_count(j, model ? "lost" : ".lost", q.lost);
        json_put_count(j, model ? "gained" : ".gained", q.gained);
        json_put_count(j, model ? "others" : ".others", q.others);
        put_interval(j, model ? "more" : ".more", &q.more);
    }
    json_close(j);
}

static void put_model(json_writer *j, const gq_report *r, const gq_evaluation *v, size_t model) {
    size_t n;
    const gq_evaluated *models = gq_evaluation_models(v, &n), *m = &models[model];
    gq_level level;
    json_open(j, NULL, '{');
    json_put_text(j, "path", report_path_shown(r, m->path));
    if (j->exact) json_put_text(j, ".path", m->path);
    json_put_text(j, "file_type", m->filetype);
    json_put_count(j, "file_bytes", m->file_bytes);
    json_put_count(j, "tensor_bytes", m->tensor_bytes);
    json_put_count(j, "weights", m->n_weights);
    json_put_number(j, "bits_per_weight", gq_bits_per_weight(m->tensor_bytes, m->n_weights));
    put_figures(j, m, model > 0);
    if (!has_embeddings(models)) {
        put_statistic(j, "nll_interval", v, GQ_NLL, model, 0);
        if (model) put_statistic(j, "changed_top1_interval", v, GQ_CHANGED_TOP1, model, 0);
        if (model)
            json_put_text(j, "level",
                          gq_evaluation_level(v, model, &level, NULL) ? gq_level_text(level) : "");
        put_depths(j, v, model);
        put_drafted(j, v, model);
        put_continued(j, v, model);
        put_chosen(j, v, model);
    }
    if (model) put_statistic(j, "kld_interval", v, GQ_KLD, model, 0);
    json_close(j);
}

static void put_difference(json_writer *j, const gq_evaluation *v, size_t a, size_t b) {
    gq_estimate more;
    gq_evaluation_difference(v, a, b, &more);
    json_open(j, NULL, '{');
    json_put_count(j, "a", a), json_put_count(j, "b", b);
    put_estimate(j, "difference", "error", more);
    json_put_text(j, "sure", gq_evaluation_certainty(v, a, b));
    put_statistic(j, "interval", v, GQ_KLD, a, b);
    json_close(j);
}

static void put_evaluation(json_writer *j, const gq_report *r, const gq_evaluation *v) {
    const gq_evaluation_facts *f = gq_evaluation_summary(v);
    size_t n;
    gq_evaluation_models(v, &n);
    json_put_text(j, "architecture", f->architecture);
    json_put_count(j, "context", f->context);
    json_put_count(j, "windows", f->windows);
    json_put_count(j, "tokens", f->tokens);
    json_put_count(j, "scored", f->scored);
    if (f->stride) json_put_count(j, "stride", f->stride);
    if (f->texts) json_put_count(j, "conversations", f->texts);
    if (f->masked) json_put_bool(j, "masked", true);
    json_put_number(j, "seconds", f->seconds);
    if (j->exact) json_put_count(j, ".peak_bytes", f->peak_bytes);
    json_open(j, "models", '[');
    for (size_t i = 0; i < n; i++) put_model(j, r, v, i);
    json_close(j);
    json_open(j, "differences", '[');
    for (size_t a = 1; a < n; a++)
        for (size_t b = a + 1; b < n; b++) put_difference(j, v, a, b);
    json_close(j);
}

static void put_evaluations(json_writer *j, const gq_report *r) {
    json_open(j, "evaluation", '{');
    put_evaluation(j, r, r->asked.evaluation);
    if (r->asked.n_kinds) json_open(j, "kinds", '[');
    for (size_t i = 0; i < r->asked.n_kinds; i++) {
        json_open(j, NULL, '{');
        put_evaluation(j, r, r->asked.kinds[i]);
        json_put_text(j, "text", report_path_shown(r, r->asked.kind_names[i]));
        json_close(j);
    }
    if (r->asked.n_kinds) json_close(j);
    json_close(j);
}

/* ---- the document ---- */

/* A warning with the name of each file of the report in place of its path. */
static void put_warning(json_writer *j, const gq_report *r, const char *sentence) {
    char *text = strdup(sentence);
    size_t models = 0;
    const gq_evaluated *model =
        r->asked.evaluation ? gq_evaluation_models(r->asked.evaluation, &models) : NULL;
    for (size_t i = 0; text && i < 2 + r->n + models; i++) {
        const char *path = i == 0         ? r->asked.input
                           : i == 1       ? r->asked.imatrix
                           : i < 2 + r->n ? r->outputs[i - 2].summary->path
                                          : model[i - 2 - r->n].path;
        char whole[4096], *at; /* as warnings spell it */
        gq_printable(whole, sizeof whole, path ? path : "");
        const char *name = report_path_shown(r, whole);
        while (name > whole && (at = strstr(text, whole)))
            memmove(at, at + (name - whole), strlen(at + (name - whole)) + 1);
    }
    json_put_text(j, NULL, text ? text : sentence);
    free(text);
}

static void put_facts(json_writer *j, const gq_report *r) {
    const gq_report_request *q = &r->asked;
    const gq_calibration_facts *calibration = q->plan ? gq_plan_calibration(q->plan) : NULL;
    const char *measured = q->plan ? gq_plan_measure_file(q->plan) : NULL;
    json_put_text(j, "gquant", gq_version());
    json_put_text(j, "kind", r->kind);
    json_put_text(j, "isa", gq_isa());
    json_put_text(j, "input", report_path_shown(r, q->input));
    if (q->imatrix) json_put_text(j, "imatrix", report_path_shown(r, q->imatrix));
    if (q->effort) json_put_text(j, "effort", q->effort);
    if (calibration) put_calibration(j, calibration);
    if (measured) json_put_text(j, "measurements", report_path_shown(r, measured));
    json_put_texts(j, "options", q->options, q->n_options);
    if (r->seconds > 0) json_put_number(j, "seconds", r->seconds);
    if (r->seconds > 0 && r->plan_seconds > 0) json_put_number(j, "plan_seconds", r->plan_seconds);
}

static void write_document(json_writer *j, const gq_report *r) {
    put_facts(j, r);
    json_open_lines(j, "warnings", '[');
    for (size_t i = 0; i < r->asked.n_warnings; i++) put_warning(j, r, r->asked.warnings[i]);
    json_close(j);
    json_open_lines(j, "outputs", '[');
    for (size_t i = 0; i < r->n; i++) put_output(j, r, &r->outputs[i]);
    json_close(j);
    if (r->asked.evaluation) put_evaluations(j, r);
    json_end(j);
}

void report_write_json(FILE *to, const void *report) {
    json_writer j = json_start(to, '{');
    write_document(&j, report);
}

void report_write_exact(FILE *to, const void *report) {
    json_writer j = json_start(to, '{');
    j.exact = true;
    write_document(&j, report);
}
