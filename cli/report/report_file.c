#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "quantize/gquant_common.h"

bool render_file(const char *path, void (*write)(FILE *to, const void *what), const void *what, gq_error *e) {
    char *text = NULL;
    size_t n = 0;
    FILE *to = open_memstream(&text, &n);
    if (to) write(to, what);
    bool ok = to && !ferror(to);
    ok = to && fclose(to) == 0 && ok;
    ok = ok ? gq_write_whole(path, true, text, n, e) : gq_fail_memory(e, n);
    free(text);
    return ok;
}

/* ---- pages: the JSON report in one that draws it (page.html), a Markdown table, an SVG chart ---- */

extern const unsigned char
    page[]; /* page.html and a zero, by the build (CMakeLists.txt); has @REPORT@ once */

static void report_html(FILE *to, const report *r) {
    /* The document has no '<' (see emit), so nothing in it can end the script element it is put into. */
    const char *text = (const char *)page, *place = strstr(text, "@REPORT@");
    fwrite(text, 1, (size_t)(place - text), to);
    report_json(to, r);
    fputs(place + strlen("@REPORT@"), to);
}

/* Makes the page of a run's or an evaluation's report. Free ->rows, and *intervals, which they point to. */
static gq_page report_page_of(const report *r, gq_interval **intervals) {
    gq_page p = {.size = sizeof p, .n = r->n_outputs, .errors = !r->evaluation};
    size_t n = 0;
    const gq_evaluated *models = r->evaluation ? gq_evaluation_models(r->evaluation, &n) : NULL;
    if (!p.n && n > 1) p.n = n - 1;
    gq_page_row *rows = need_memory(p.n + 1, sizeof *rows);
    *intervals = need_memory(2 * (p.n + 1), sizeof **intervals);
    for (size_t i = 0; i < p.n; i++) {
        const gq_evaluated *m = i + 1 < n ? &models[i + 1] : NULL;
        rows[i] = (gq_page_row){.evaluated = m, .relative_error = NAN};
        if (m) gq_page_row_evaluated(&rows[i], r->evaluation, i + 1, *intervals + 2 * i, NULL);
        if (m && !r->n_outputs) {
            rows[i].path = m->path, rows[i].type = m->filetype, rows[i].file_bytes = m->file_bytes;
            rows[i].bits = report_bits(m->tensor_bytes, (double)m->n_weights);
            continue;
        }
        const gq_summary *s = r->outputs[i].summary;
        report_totals total = report_total(&r->outputs[i]);
        rows[i].path = s->path, rows[i].type = s->filetype, rows[i].file_bytes = s->file_bytes;
        rows[i].bits = report_bits(s->out_bytes, (double)s->n_weights);
        if (total.loss.n) rows[i].relative_error = gq_loss_relative(&total.loss);
    }
    p.rows = rows, p.original = models;
    p.evaluation = r->evaluation ? gq_evaluation_summary(r->evaluation) : NULL;
    return p;
}

/* Prints a text that the library has made. */
static void report_print_made(FILE *to, char *text) {
    if (text) fputs(text, to);
    free(text);
}

/* Prints a text of any origin within a line of Markdown: without markup and control characters. */
static void report_print_plain(FILE *to, const char *text) {
    for (const char *c = text; *c; c++)
        fprintf(to, strchr("\\`*_{}[]<>#|&", *c) ? "\\%c" : "%c", (unsigned char)*c < ' ' ? ' ' : *c);
}

static void report_markdown(FILE *to, const report *r) {
    gq_interval *intervals;
    gq_page p = report_page_of(r, &intervals);
    fputs("# ", to), report_print_plain(to, report_named(r, r->input)), fputs("\n\n", to);
    report_print_made(to, gq_page_table(&p, false, NULL));
    fprintf(to, "\ngquant %s (%s)\n", gq_version(), gq_build());
    if (r->n_warnings) fputs("\nWarnings:\n\n", to);
    for (size_t i = 0; i < r->n_warnings; i++)
        fputs("- ", to), report_print_plain(to, r->warnings[i]), fputc('\n', to);
    free((void *)p.rows), free(intervals);
}

static void report_svg(FILE *to, const report *r) {
    gq_interval *intervals;
    gq_page p = report_page_of(r, &intervals);
    report_print_made(to, gq_page_chart(&p, NULL));
    free((void *)p.rows), free(intervals);
}

/* ---- a table for spreadsheets ---- */

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

static void report_csv(FILE *to, const report *r) {
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

/* ---- files ---- */

static const struct {
    const char *extension;
    void (*write)(FILE *to, const report *r);
} formats[] = {{".json", report_json},
               {".csv", report_csv},
               {".html", report_html},
               {".md", report_markdown},
               {".svg", report_svg}};

static int format_of(const char *path) {
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot && i < sizeof formats / sizeof *formats; i++)
        if (strcasecmp(dot, formats[i].extension) == 0) return (int)i;
    return -1;
}

bool report_check(const request *r, gq_error *e) {
    return !r->report || format_of(r->report) >= 0 ||
           gq_fail_usage(e, "--report %s: expected a name that ends in .json, .csv, .html, .md or .svg",
                         r->report);
}

typedef struct report_job {
    const report *report;
    void (*write)(FILE *to, const report *r);
} report_job;

static void write_format(FILE *to, const void *what) {
    const report_job *j = what;
    j->write(to, j->report);
}

bool report_write(const report *r, const char *path, gq_error *e) {
    return !path || render_file(path, write_format, &(report_job){r, formats[format_of(path)].write}, e);
}
