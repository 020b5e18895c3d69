/* The JSON report, which docs/reports.md describes member by member. The document is written in pieces
 * (json.h): facts of the whole, warnings, then for each output its facts and one object per tensor, and at
 * the end an evaluation. Reports are made to be passed on, so paths are cut to their last part, in options
 * and in the text of warnings as well, unless --full-paths is given. Options that have no effect on the
 * outcome are left out. Numbers that are not finite become null.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

static void set_losses(json_t *o, const gq_loss *l) {
    set_number(o, "rmse", gq_loss_rmse(l));
    set_number(o, "relative_error", gq_loss_relative(l));
    set_number(o, "snr_db", gq_loss_snr_db(l));
    set_number(o, "max_error", l->max_error);
    set_number(o, "weighted_error", gq_loss_weighted(l));
}

static const char *const coverage_names[] = {
    [GQ_IMPORTANCE_UNUSED] = "unused", [GQ_IMPORTANCE_MISSING] = "missing", [GQ_IMPORTANCE_FULL] = "full"};

/* The names of the types of a set, bit by number. */
static json_t *lattice_json(uint64_t types) {
    json_t *a = json_array();
    for (uint32_t i = 0; i < 64; i++)
        if (types >> i & 1) json_array_append_new(a, json_string(gq_type_name(i)));
    return a;
}

static json_t *tensor_object(const report_output *output, size_t i, double squares, bool checksum) {
    const gq_tensor *t = &output->tensors[i];
    const gq_loss *l = output->losses ? &output->losses[i] : NULL;
    json_t *o = json_object();
    set_text(o, "name", t->name);
    set_text(o, "source_name", t->source_name);
    json_t *shape = set_array(o, "shape");
    for (uint32_t d = 0; d < t->n_dims; d++) json_array_append_new(shape, json_of_count(t->ne[d]));
    if (t->transposed) set_bool(o, "transposed", true);
    set_text(o, "from", gq_type_name(t->from));
    set_text(o, "to", gq_type_name(t->to));
    set_text(o, "wanted", gq_type_name(t->wanted));
    if (t->wanted != t->to) set_count(o, "fallback_bytes", t->fallback_bytes);
    set_text(o, "why", t->why);
    if (t->origin) json_object_set_new(o, "origin", report_origin_json(t->origin));
    if (t->lattice_types) set_value(o, "grid_types", lattice_json(t->lattice_types));
    set_count(o, "in_bytes", t->in_bytes);
    set_count(o, "out_bytes", t->out_bytes);
    set_text(o, "importance", coverage_names[t->importance]);
    set_bool(o, "calibrated", t->calibrated);
    if (t->experts > 1) {
        set_count(o, "experts", t->experts);
        set_count(o, "experts_unseen", t->experts_unseen);
    }
    if (!l) return o;
    char crc[16];
    snprintf(crc, sizeof crc, "%08x", (unsigned)l->crc32);
    if (checksum) set_text(o, "crc32", crc);
    set_bool(o, "measured", l->n > 0);
    if (l->n) set_losses(o, l);
    if (l->n) set_number(o, "error_share", squares > 0 ? report_squares(l) / squares : 0);
    if (output->best) set_bool(o, "best", output->best[i]);
    const gq_rounding *rounding = output->roundings ? &output->roundings[i] : NULL;
    if (rounding && rounding->matrices) {
        set_number(o, "output_error", gq_rounding_written(rounding));
        set_number(o, "searched_output_error", gq_rounding_searched(rounding));
        json_object_set_new(o, "rounding", report_rounding_json(output, rounding));
    }
    return o;
}

static void set_roundings(json_t *o, const report_output *output) {
    report_roundings all = report_roundings_of(output);
    set_number(o, "output_error", all.written);
    set_number(o, "searched_output_error", all.searched);
    set_count(o, "matrices_calibrated", all.matrices - all.plain);
    set_count(o, "matrices_plain", all.plain);
    set_count(o, "matrices_unchecked", all.unchecked);
    json_object_set_new(o, "steps", report_steps_json(output));
}

static json_t *output_facts(const report *r, const report_output *output) {
    const gq_summary *s = output->summary;
    json_t *o = json_object();
    set_text(o, "path", report_named(r, s->path));
    set_text(o, "file_type", s->filetype);
    set_count(o, "weights", s->n_weights);
    set_count(o, "in_bytes", s->in_bytes);
    set_count(o, "out_bytes", s->out_bytes);
    set_count(o, "file_bytes", s->file_bytes);
    set_number(o, "bits_per_weight", report_bits(s->out_bytes, (double)s->n_weights));
    set_count(o, "fallbacks", s->n_fallbacks);
    set_count(o, "fallback_bytes", s->fallback_bytes);
    set_count(o, "without_imatrix", s->n_without_importance);
    set_count(o, "experts_unseen", s->n_experts_unseen);
    if (r->request->quantize.reuse.n) {
        set_count(o, "reused_tensors", output->reused);
        set_count(o, "reused_bytes", output->reused_bytes);
    }
    if (!output->losses) return o;
    report_totals total = report_total(output);
    if (report_rate(r, output) > 0) set_number(o, "weights_per_second", report_rate(r, output));
    set_losses(o, &total.loss);
    if (output->best) set_count(o, "best_in", output->n_best);
    if (output->roundings) set_roundings(o, output);
    json_t *worst = set_array(o, "worst");
    for (size_t i = 0; i < total.n_worst; i++)
        json_array_append_new(worst, json_of_text(output->tensors[total.worst[i]].name));
    return o;
}

/* Appends the options of the command line, without those that have no effect on the outcome. */
static void add_options(json_t *list, const report *r) {
    for (size_t i = 0; i < r->request->n_given; i++) {
        const struct given *g = &r->request->given[i];
        if (g->option->commands & NO_RESULT) continue;
        const char *argument =
            g->argument && option_is_file(g->option) ? report_named(r, g->argument) : g->argument;
        const char *file = override_file(g->option, argument);
        char *text = text_format("--%s%s%.*s%s", g->option->name, argument ? " " : "",
                                 file ? (int)(file - argument) : INT_MAX, argument ? argument : "",
                                 file ? report_named(r, file) : "");
        json_array_append_new(list, json_of_text(text));
        free(text);
    }
}

static json_t *report_facts(const report *r) {
    json_t *o = json_object();
    set_text(o, "gquant", gq_version());
    set_text(o, "kind", r->kind);
    set_text(o, "isa", gq_isa());
    set_text(o, "input", report_named(r, r->input));
    if (r->imatrix) set_text(o, "imatrix", report_named(r, r->imatrix));
    if (r->effort) set_text(o, "effort", r->effort);
    if (r->calibration) json_object_set_new(o, "calibration", report_calibration_json(r->calibration));
    if (r->measure_file) set_text(o, "measurements", report_named(r, r->measure_file));
    add_options(set_array(o, "options"), r);
    if (r->seconds > 0) set_number(o, "seconds", r->seconds);
    if (r->seconds > 0 && r->plan_seconds > 0) set_number(o, "plan_seconds", r->plan_seconds);
    return o;
}

/* Returns a warning with the name of each file of the report in place of its path. */
static json_t *warning_json(const report *r, const char *sentence) {
    char *text = text_format("%s", sentence);
    for (size_t i = 0; i < r->n_outputs + 2; i++) {
        const char *path = i == 0 ? r->input : i == 1 ? r->imatrix : r->outputs[i - 2].summary->path;
        char *whole = text_shown(path ? path : ""), *at; /* as warnings spell it */
        const char *name = report_named(r, whole);
        for (; name > whole && (at = strstr(text, whole));)
            memmove(at, at + (name - whole), strlen(at + (name - whole)) + 1);
        free(whole);
    }
    json_t *value = json_of_text(text);
    free(text);
    return value;
}

void report_json(FILE *to, const report *r) {
    bool checksums = strcmp(r->kind, "run") == 0;
    emitter j;
    emit_start(&j, to, '{');
    emit_members(&j, report_facts(r));
    emit_open(&j, "warnings", '[');
    for (size_t i = 0; i < r->n_warnings; i++) json_emit(&j, NULL, warning_json(r, r->warnings[i]));
    emit_close(&j);
    emit_open(&j, "outputs", '[');
    for (size_t k = 0; k < r->n_outputs; k++) {
        const report_output *o = &r->outputs[k];
        emit_open(&j, NULL, '{');
        emit_members(&j, output_facts(r, o));
        double squares = report_total(o).squares;
        emit_open(&j, "tensors", '[');
        for (size_t i = 0; i < o->n; i++) json_emit(&j, NULL, tensor_object(o, i, squares, checksums));
        emit_close(&j);
        emit_close(&j);
    }
    emit_close(&j);
    if (r->evaluation) json_emit(&j, "evaluation", report_evaluation_json(r));
    emit_end(&j);
}
