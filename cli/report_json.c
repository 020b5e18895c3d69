#include <string.h>

#include "cli/report.h"

static void losses(emitter *j, const gq_loss *l) {
    emit_number(j, "rmse", gq_loss_rmse(l));
    emit_number(j, "relative_error", gq_loss_relative(l));
    emit_number(j, "snr_db", gq_loss_snr_db(l));
    emit_number(j, "max_error", l->max_error);
    emit_number(j, "weighted_error", gq_loss_weighted(l));
}

static const char *const coverage_names[] = {
    [GQ_IMPORTANCE_UNUSED] = "unused", [GQ_IMPORTANCE_MISSING] = "missing", [GQ_IMPORTANCE_FULL] = "full"};

static void tensor(emitter *j, const gq_tensor *t, const gq_loss *l, bool checksum) {
    emit_open_line(j, NULL, '{');
    emit_text(j, "name", t->name);
    emit_text(j, "source_name", t->source_name);
    emit_open(j, "shape", '[');
    for (uint32_t d = 0; d < t->n_dims; d++) emit_count(j, NULL, t->ne[d]);
    emit_close(j);
    emit_text(j, "from", gq_type_name(t->from));
    emit_text(j, "to", gq_type_name(t->to));
    emit_text(j, "wanted", gq_type_name(t->wanted));
    if (t->wanted != t->to) emit_count(j, "fallback_bytes", t->fallback_bytes);
    emit_text(j, "why", t->why);
    emit_count(j, "in_bytes", t->in_bytes);
    emit_count(j, "out_bytes", t->out_bytes);
    emit_text(j, "importance", coverage_names[t->importance]);
    if (t->experts > 1) {
        emit_count(j, "experts", t->experts);
        emit_count(j, "experts_unseen", t->experts_unseen);
    }
    if (l) {
        char crc[16];
        snprintf(crc, sizeof crc, "%08x", (unsigned)l->crc32);
        if (checksum) emit_text(j, "crc32", crc);
        emit_bool(j, "measured", l->n > 0);
        if (l->n) losses(j, l);
    }
    emit_close(j);
}

static void output_object(emitter *j, const report *r, const report_output *o) {
    const gq_summary *s = o->summary;
    emit_open(j, NULL, '{');
    emit_text(j, "path", s->path);
    emit_text(j, "file_type", s->filetype);
    emit_count(j, "weights", s->n_weights);
    emit_count(j, "in_bytes", s->in_bytes);
    emit_count(j, "out_bytes", s->out_bytes);
    emit_count(j, "file_bytes", s->file_bytes);
    emit_number(j, "bits_per_weight", report_bits(s->out_bytes, (double)s->n_weights));
    emit_count(j, "fallbacks", s->n_fallbacks);
    emit_count(j, "fallback_bytes", s->fallback_bytes);
    emit_count(j, "without_importance", s->n_without_importance);
    emit_count(j, "experts_unseen", s->n_experts_unseen);
    if (o->losses) {
        report_totals total = report_total(o);
        if (r->seconds > 0) emit_number(j, "weights_per_second", (double)s->n_weights / r->seconds);
        losses(j, &total.loss);
        emit_open_line(j, "worst", '[');
        for (size_t i = 0; i < total.n_worst; i++) emit_text(j, NULL, o->tensors[total.worst[i]].name);
        emit_close(j);
    }
    emit_open(j, "tensors", '[');
    bool checksums = strcmp(r->kind, "run") == 0;
    for (size_t i = 0; i < o->n; i++) tensor(j, &o->tensors[i], o->losses ? &o->losses[i] : NULL, checksums);
    emit_close(j);
    emit_close(j);
}

void report_json(FILE *to, const report *r) {
    emitter j;
    emit_start(&j, to);
    emit_open(&j, NULL, '{');
    emit_text(&j, "gquant", gq_version());
    emit_text(&j, "kind", r->kind);
    emit_text(&j, "isa", gq_isa());
    emit_text(&j, "input", r->input);
    if (r->imatrix) emit_text(&j, "imatrix", r->imatrix);
    if (r->effort) emit_text(&j, "effort", r->effort);
    if (r->measure_file) emit_text(&j, "measurements", r->measure_file);
    if (r->seconds > 0) emit_number(&j, "seconds", r->seconds);
    emit_open(&j, "warnings", '[');
    for (size_t i = 0; i < r->n_warnings; i++) emit_text(&j, NULL, r->warnings[i]);
    emit_close(&j);
    emit_open(&j, "outputs", '[');
    for (size_t i = 0; i < r->n_outputs; i++) output_object(&j, r, &r->outputs[i]);
    emit_close(&j);
    emit_close(&j);
    emit_end(&j);
}
