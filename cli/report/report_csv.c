#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "cli/report/render.h"
#include "cli/report/report.h"
#include "cli/report/report_evaluation.h"
#include "cli/report/report_origin.h"

/* Empty: not measured, or infinite. */
static void write_number(FILE *to, double value) {
    if (isfinite(value)) fprintf(to, "%.9g", value);
    fputc(',', to);
}

static void write_row(FILE *to, const char *path, const report_output *o, size_t i, bool checksum) {
    const gq_tensor *t = &o->tensors[i];
    const gq_loss *l = o->losses ? &o->losses[i] : NULL;
    bool measured = l && l->n > 0;
    csv_quoted(to, path);
    fputc(',', to);
    csv_quoted(to, t->name);
    fputc(',', to);
    fputc('"', to);
    for (uint32_t d = 0; d < t->n_dims; d++) fprintf(to, "%s%" PRIu64, d ? "x" : "", t->ne[d]);
    fprintf(to, "\",%s,%s,", gq_type_name(t->from), gq_type_name(t->to));
    write_number(to, report_bits(t->out_bytes, (double)t->n_weights));
    fprintf(to, "%" PRIu64 ",%" PRIu64 ",", t->in_bytes, t->out_bytes);
    write_number(to, measured ? gq_loss_rmse(l) : (double)NAN);
    write_number(to, measured ? gq_loss_relative(l) : (double)NAN);
    write_number(to, measured ? gq_loss_snr_db(l) : (double)NAN);
    write_number(to, measured ? l->max_error : (double)NAN);
    write_number(to, measured ? gq_loss_weighted(l) : (double)NAN);
    const gq_rounding *r = o->roundings && o->roundings[i].matrices ? &o->roundings[i] : NULL;
    write_number(to, r ? gq_rounding_written(r) : (double)NAN);
    write_number(to, r ? gq_rounding_searched(r) : (double)NAN);
    if (r) fprintf(to, "%" PRIu64, r->plain);
    fputc(',', to);
    if (checksum) fprintf(to, "%08x", (unsigned)l->crc32);
    fputc(',', to);
    csv_quoted(to, t->why);
    fputc(',', to);
    fputs(!o->best ? "" : o->best[i] ? "1" : "0", to);
    report_origin_csv(to, t->origin);
    fputs("\r\n", to);
}

void report_csv(FILE *to, const report *r) {
    bool checksums = strcmp(r->kind, "run") == 0;
    if (strcmp(r->kind, "evaluation") == 0) {
        report_evaluation_csv(to, r);
        return;
    }
    fputs(
        "output,tensor,shape,from,to,bits_per_weight,in_bytes,out_bytes,rmse,relative_error,snr_db,max_error,"
        "weighted_error,output_error,searched_output_error,matrices_plain,crc32,why,best,origin_names,origin_"
        "type,origin_changes\r\n",
        to);
    for (size_t k = 0; k < r->n_outputs; k++) {
        const report_output *o = &r->outputs[k];
        for (size_t i = 0; i < o->n; i++) write_row(to, report_named(r, o->summary->path), o, i, checksums);
    }
}
