/* Reports as pages: the JSON report inside one that draws it (page.html); and a table in Markdown and a chart in SVG,
 * as published pages have them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report/report_page.h"
#include "cli/text.h"

extern const unsigned char
    page[]; /* page.html and a zero, by the build (CMakeLists.txt); has @REPORT@ once */

void report_html(FILE *to, const report *r) {
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

void report_markdown(FILE *to, const report *r) {
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

void report_svg(FILE *to, const report *r) {
    gq_interval *intervals;
    gq_page p = report_page_of(r, &intervals);
    report_print_made(to, gq_page_chart(&p, NULL));
    free((void *)p.rows), free(intervals);
}
