/* The command `gquant compare`. One quant gets the report of a run (cli/report/); several are listed side by
 * side, tensor by tensor, with the nearest of them marked, and then by their totals. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "cli/cli.h"

/* ---- several quants side by side: which is nearest, tensor by tensor ---- */

/* All quants' tensors in the order of the base model: `at` has for each quant the next of its tensors.
 * Returns the number of the first one in the base model, SIZE_MAX: none is left. */
static size_t next_number(const report *r, const size_t *at) {
    size_t first = SIZE_MAX;
    for (size_t i = 0; i < r->n_outputs; i++) {
        const gq_report_output *o = &r->outputs[i];
        if (at[i] < o->n && o->numbers[at[i]] < first) first = o->numbers[at[i]];
    }
    return first;
}

static bool has_tensor(const gq_report_output *o, size_t at, size_t number) {
    return at < o->n && o->numbers[at] == number;
}

static void skip_tensor(const report *r, size_t *at, size_t number) {
    for (size_t i = 0; i < r->n_outputs; i++) at[i] += has_tensor(&r->outputs[i], at[i], number);
}

/* ---- for people ---- */

static void error_cells(table *out, const gq_report_output *o, size_t at, size_t number) {
    if (!has_tensor(o, at, number)) {
        table_text(out, "-"), table_text(out, "absent ");
        return;
    }
    const gq_loss *l = &o->losses[at];
    table_text(out, gq_type_name(o->tensors[at].to));
    table_cell(out, l->n ? text_format("%.5f%c", gq_loss_error(l), o->best[at] ? '*' : ' ')
                         : text_format("same%c", o->best[at] ? '*' : ' '));
}

/* Quants from first to end; each column is named by its number in the table of totals. */
static void comparison_print_tensors(FILE *to, const report *r, size_t first, size_t end) {
    char *columns = need_memory(3 * (end - first) + 4, 1), *c = columns;
    *c++ = 'l', *c++ = 'l', *c++ = '9';
    for (size_t i = first; i < end; i++) *c++ = 'l', *c++ = '8', *c++ = 'r';
    size_t *at = need_memory(r->n_outputs, sizeof *at);
    table out;
    table_start(&out, columns, NULL);
    table_text(&out, "tensor"), table_text(&out, "shape");
    for (size_t i = first; i < end; i++) {
        table_text(&out, "type");
        table_cell(&out, text_format("file %zu ", i + 1));
    }
    for (size_t number; (number = next_number(r, at)) != SIZE_MAX; skip_tensor(r, at, number)) {
        size_t any = 0;
        while (!has_tensor(&r->outputs[any], at[any], number)) any++;
        const gq_tensor *t = &r->outputs[any].tensors[at[any]];
        table_name(&out, t->name);
        table_cell(&out, shape_text(t->ne, t->n_dims, t->transposed));
        for (size_t i = first; i < end; i++) error_cells(&out, &r->outputs[i], at[i], number);
    }
    table_end(&out, to);
    free(at), free(columns);
}

/* Prints as many quants side by side as fit a terminal's width, the others below. */
static void print_all_tensors(FILE *to, const report *r) {
    enum { NAME = 28, COLUMN = 11 }; /* characters of a name, and of a quant without its types */
    size_t screen = (size_t)terminal_columns(to), n = r->n_outputs, beside = n;
    if (screen) beside = screen > NAME + COLUMN ? (screen - NAME) / COLUMN : 1;
    size_t groups = (n + beside - 1) / beside;
    for (size_t g = 0; g < groups; g++) {
        if (g) fputc('\n', to);
        comparison_print_tensors(to, r, g * n / groups, (g + 1) * n / groups);
    }
}

static void comparison_print_totals(FILE *to, const report *r) {
    table out;
    table_start(
        &out, "lr5r4r1r2r3r",
        (const char *const[]){"file", "file MiB", "bpw", "rel. error", "weighted", "SNR dB", "best in"});
    for (size_t i = 0; i < r->n_outputs; i++) {
        const gq_report_output *o = &r->outputs[i];
        const gq_summary *s = o->summary;
        double weighted = gq_loss_weighted(&o->loss), snr = gq_loss_snr_db(&o->loss);
        char *path = text_shown(report_named(r, s->path));
        table_cell(&out, text_format("%zu %s", i + 1, path));
        free(path);
        table_cell(&out, text_format("%.2f", (double)s->file_bytes / 0x1p20));
        table_cell(&out, text_format("%.3f", gq_bits_per_weight(s->out_bytes, s->n_weights)));
        table_cell(&out, text_format("%.5f", gq_loss_relative(&o->loss)));
        table_error(&out, weighted);
        table_cell(&out, o->loss.e2 > 0 ? text_format("%.2f", snr) : text_format("exact"));
        table_cell(&out, text_format("%zu of %zu", o->n_best, o->n));
    }
    table_end(&out, to);
}

static void report_comparison(FILE *to, const report *r) {
    print_all_tensors(to, r);
    bool weighted = false;
    for (size_t i = 0; i < r->n_outputs; i++) weighted |= r->outputs[i].loss.wx2 > 0;
    char time[UNIT_ROOM];
    print_line(to, "relative errors%s; *: the smallest",
               weighted ? ", under importance where there is data" : "");
    fputc('\n', to);
    comparison_print_totals(to, r);
    print_line(to, "%s", time_text(time, r->seconds));
}

/* ---- the command ---- */

static void print_comparison(const report *r) {
    if (r->request->json)
        report_print_json(r);
    else if (r->request->quiet)
        return;
    else if (r->n_outputs > 1)
        report_comparison(stdout, r);
    else
        report_losses(stdout, r, r->outputs);
}

int compare_main(const request *r) {
    gq_error e = {0};
    if (!report_check(r, &e)) return say_failure(r->said, &e);
    progress p;
    progress_start(&p, r, NULL);
    gq_callbacks callbacks = progress_callbacks(&p);
    gq_comparison *c = gq_compare(&(gq_comparison_request){.size = sizeof(gq_comparison_request),
                                                           .base_model = r->arguments[0],
                                                           .quants = r->arguments + 1,
                                                           .n_quants = r->n_arguments - 1,
                                                           .imatrix = r->quantize.imatrix,
                                                           .threads = r->quantize.threads,
                                                           .callbacks = &callbacks,
                                                           .adapters = r->quantize.adapters},
                                  &e);
    progress_end(&p, c ? NULL : &e);
    if (!c) return say_failure(r->said, &e);
    report rep = report_of_comparison(r, c);
    if (!r->quiet) warn_all(r->said, rep.warnings, rep.n_warnings);
    print_comparison(&rep);
    bool ok = report_write(&rep, r->report, &e);
    report_free(&rep);
    gq_comparison_free(c);
    if (ok) next_say_evaluate(r, r->arguments[0], r->arguments + 1, r->n_arguments - 1);
    return ok ? GQ_OK : say_failure(r->said, &e);
}
