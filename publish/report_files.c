/* A report as files other than JSON: the table of published pages and their chart, a page that draws the JSON, and
 * CSV, with the members' names of version 0.1. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "publish/report.h"
#include "publish/text.h"

/* ---- pages ---- */

extern const char card_report[]; /* page.html and a zero, by the build (CMakeLists.txt); has @REPORT@ once */

static void report_write_html(FILE *to, const void *report) {
    /* The document has no '<' (base/json.h), so nothing in it can end the script element it is put into. */
    const char *place = strstr(card_report, "@REPORT@");
    fwrite(card_report, 1, (size_t)(place - card_report), to);
    report_write_json(to, report);
    fputs(place + strlen("@REPORT@"), to);
}

/* Prints a text of any origin within a line of Markdown: without markup and control characters. */
static void report_put_plain(FILE *to, const char *text) { page_write_text(to, text, strlen(text), false); }

typedef struct markdown_job {
    const gq_report *report;
    const char *table;
} markdown_job;

static void report_write_markdown(FILE *to, const void *job) {
    const markdown_job *m = job;
    const gq_report *r = m->report;
    fputs("# ", to), report_put_plain(to, report_path_shown(r, r->asked.input)), fputs("\n\n", to);
    fputs(m->table, to);
    fprintf(to, "\ngquant %s (%s)\n", gq_version(), gq_build());
    if (r->asked.n_warnings) fputs("\nWarnings:\n\n", to);
    for (size_t i = 0; i < r->asked.n_warnings; i++)
        fputs("- ", to), report_put_plain(to, r->asked.warnings[i]), fputc('\n', to);
}

static char *report_markdown(const gq_report *r, gq_error *e) {
    size_t n;
    char *table = gq_page_table(&r->page, false, e);
    char *text = table ? page_text(report_write_markdown, &(markdown_job){r, table}, &n, e) : NULL;
    free(table);
    return text;
}

/* ---- tables for spreadsheets ---- */

/* A cell in quotes. One that a spreadsheet would take for a formula gets an apostrophe in front. */
static void put_quoted(FILE *to, const char *value) {
    fputs(strchr("=+-@\t\r", *value) && *value ? "\"'" : "\"", to);
    for (; *value; value++) fprintf(to, *value == '"' ? "\"%c" : "%c", *value);
    fputc('"', to);
}

/* Empty: not measured, or infinite. */
static void put_cell(FILE *to, double value) {
    fputc(',', to);
    if (isfinite(value)) fprintf(to, "%.9g", value);
}

static void put_row(FILE *to, const char *path, const gq_report_output *o, size_t i, bool checksum) {
    const gq_tensor *t = &o->tensors[i];
    const gq_loss *l = o->losses ? &o->losses[i] : NULL, *m = l && l->n > 0 ? l : NULL;
    const gq_rounding *r = o->roundings && o->roundings[i].matrices ? &o->roundings[i] : NULL;
    put_quoted(to, path), fputc(',', to), put_quoted(to, t->name), fputs(",\"", to);
    for (uint32_t d = 0; d < t->n_dims; d++) fprintf(to, "%s%" PRIu64, d ? "x" : "", t->ne[d]);
    fprintf(to, "\",%s,%s", gq_type_name(t->from), gq_type_name(t->to));
    put_cell(to, gq_bits_per_weight(t->out_bytes, t->n_weights));
    fprintf(to, ",%" PRIu64 ",%" PRIu64, t->in_bytes, t->out_bytes);
    const double figures[] = {m ? gq_loss_rmse(m) : (double)NAN,     m ? gq_loss_relative(m) : (double)NAN,
                              m ? gq_loss_snr_db(m) : (double)NAN,   m ? m->max_error : (double)NAN,
                              m ? gq_loss_weighted(m) : (double)NAN, r ? gq_rounding_written(r) : (double)NAN,
                              r ? gq_rounding_plain(r) : (double)NAN};
    for (size_t k = 0; k < sizeof figures / sizeof *figures; k++) put_cell(to, figures[k]);
    fputc(',', to);
    if (r) fprintf(to, "%" PRIu64, r->plain);
    fputc(',', to);
    if (checksum) fprintf(to, "%08x", (unsigned)l->crc32);
    fputc(',', to), put_quoted(to, t->why);
    fprintf(to, ",%s", !o->best ? "" : o->best[i] ? "1" : "0");
    const gq_origin *origin = t->origin;
    const char *const cells[] = {origin ? origin->names : "", origin ? origin->type : "",
                                 origin ? origin->changes : ""};
    for (size_t k = 0; k < sizeof cells / sizeof *cells; k++) fputc(',', to), put_quoted(to, cells[k]);
    fputs("\r\n", to);
}

/* A line per model. The figures of a draft are there if some model has an MTP layer. */
static void write_models(FILE *to, const gq_report *r) {
    size_t n;
    bool accepts = false;
    const gq_evaluated *models = gq_evaluation_models(r->asked.evaluation, &n);
    for (size_t i = 0; i < n; i++) accepts |= isfinite(models[i].acceptance.value);
    fprintf(to,
            "model,file_type,file_bytes,tensor_bytes,weights,bits_per_weight,perplexity,perplexity_error,"
            "divergence,divergence_error,divergence_median,divergence_90,divergence_95,divergence_99,"
            "divergence_99_9,divergence_max,perplexity_ratio,perplexity_ratio_error,rms_change,"
            "rms_change_error,same_top%s\r\n",
            accepts ? ",acceptance,acceptance_error" : "");
    for (const gq_evaluated *m = models; m < models + n; m++) {
        put_quoted(to, report_path_shown(r, m->path));
        fprintf(to, ",%s,%" PRIu64 ",%" PRIu64 ",%" PRIu64, m->filetype, m->file_bytes, m->tensor_bytes,
                m->n_weights);
        const double none = m == models ? (double)NAN : 0; /* makes figures of the base model empty */
        put_cell(to, gq_bits_per_weight(m->tensor_bytes, m->n_weights));
        put_cell(to, m->perplexity.value), put_cell(to, m->perplexity.error);
        put_cell(to, m->kld.value + none), put_cell(to, m->kld.error + none);
        for (size_t q = 0; q < GQ_QUANTILES; q++) put_cell(to, m->quantiles[q] + none);
        put_cell(to, m->ratio.value + none), put_cell(to, m->ratio.error + none);
        put_cell(to, m->rms_change.value + none), put_cell(to, m->rms_change.error + none);
        put_cell(to, m->top1_agreement.value + none);
        if (accepts) put_cell(to, m->acceptance.value), put_cell(to, m->acceptance.error);
        fputs("\r\n", to);
    }
}

static void report_write_csv(FILE *to, const void *report) {
    const gq_report *r = report;
    if (!r->asked.plan && !r->asked.comparison) {
        write_models(to, r);
        return;
    }
    fputs(
        "output,tensor,shape,from,to,bits_per_weight,in_bytes,out_bytes,rmse,relative_error,snr_db,max_error,"
        "weighted_error,output_error,searched_output_error,matrices_plain,crc32,why,best,origin_names,origin_"
        "type,origin_changes\r\n",
        to);
    for (size_t k = 0; k < r->n; k++)
        for (size_t i = 0; i < r->outputs[k].n; i++)
            put_row(to, report_path_shown(r, r->outputs[k].summary->path), &r->outputs[k], i,
                    r->asked.results != NULL);
}

/* ---- formats ---- */

static const char *const extensions[] = {[GQ_REPORT_JSON] = ".json",
                                         [GQ_REPORT_CSV] = ".csv",
                                         [GQ_REPORT_HTML] = ".html",
                                         [GQ_REPORT_SVG] = ".svg",
                                         [GQ_REPORT_MARKDOWN] = ".md"};

int gq_report_format_of(const char *path) {
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot && i < sizeof extensions / sizeof *extensions; i++)
        if (extensions[i] && strcasecmp(dot, extensions[i]) == 0) return (int)i;
    return -1;
}

char *gq_report_text(const gq_report *r, gq_report_format format, gq_error *e) {
    size_t n;
    switch (format) {
    case GQ_REPORT_JSON:
        return page_text(report_write_json, r, &n, e);
    case GQ_REPORT_EXACT:
        return page_text(report_write_exact, r, &n, e);
    case GQ_REPORT_CSV:
        return page_text(report_write_csv, r, &n, e);
    case GQ_REPORT_HTML:
        return page_text(report_write_html, r, &n, e);
    case GQ_REPORT_MARKDOWN:
        return report_markdown(r, e);
    case GQ_REPORT_SVG:
        return gq_page_chart(&r->page, e);
    case GQ_REPORT_TABLE:
        return gq_page_table(&r->page, false, e);
    case GQ_REPORT_HTML_TABLE:
        return gq_page_table(&r->page, true, e);
    }
    return gq_fail_usage(e, "a report has no format %d", (int)format), NULL;
}
