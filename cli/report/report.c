/* Prints the report that the library has gathered of a plan, a run or a comparison as tables for people, and has its
 * other formats written. Other topics are in report_*.c, which report.h lists. */
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

/* ---- gathering ---- */

/* Options of the command line as a report has them, without those that have no effect on the outcome. */
static void take_options(report *rep) {
    const request *r = rep->request;
    rep->options = need_memory(r->n_given, sizeof *rep->options);
    for (size_t i = 0; i < r->n_given; i++) {
        const struct given *g = &r->given[i];
        if (g->option->commands & NO_RESULT) continue;
        const char *argument =
            g->argument && option_is_file(g->option) ? report_named(rep, g->argument) : g->argument;
        const char *file = override_file(g->option, argument);
        rep->options[rep->n_options++] = text_format(
            "--%s%s%.*s%s", g->option->name, argument ? " " : "", file ? (int)(file - argument) : INT_MAX,
            argument ? argument : "", file ? report_named(rep, file) : "");
    }
}

static void add_warnings(report *rep, const char *const *warnings, size_t n) {
    for (size_t i = 0; i < n; i++) {
        bool is_new = true; /* a run's evaluation opens the same model as its plan */
        for (size_t k = 0; k < rep->n_warnings; k++) is_new &= strcmp(rep->warnings[k], warnings[i]) != 0;
        if (!is_new) continue;
        rep->warnings = need_next(rep->warnings, rep->n_warnings, sizeof *rep->warnings);
        rep->warnings[rep->n_warnings++] = warnings[i];
    }
}

/* Makes the library gather what was asked for. */
static report report_make(const request *r, gq_report_request *asked, gq_evaluation *const *kinds) {
    report rep = {.request = r, .evaluation = asked->evaluation, .kinds = kinds};
    const char *const *warnings;
    size_t n;
    if (asked->plan) warnings = gq_plan_warnings(asked->plan, &n), add_warnings(&rep, warnings, n);
    if (asked->plan) rep.calibration = gq_plan_calibration(asked->plan);
    if (asked->results) warnings = gq_results_warnings(asked->results, &n), add_warnings(&rep, warnings, n);
    if (asked->comparison)
        warnings = gq_comparison_warnings(asked->comparison, &n), add_warnings(&rep, warnings, n);
    if (rep.evaluation) {
        warnings = gq_evaluation_warnings(rep.evaluation, &n), add_warnings(&rep, warnings, n);
        const char *few = report_few_places(gq_evaluation_summary(rep.evaluation));
        if (few) add_warnings(&rep, &few, 1);
        if (!few && (rep.advice = evaluation_advice(&rep)))
            add_warnings(&rep, (const char *const *)&rep.advice, 1);
    }
    take_options(&rep);
    asked->size = sizeof *asked;
    asked->warnings = rep.warnings, asked->n_warnings = rep.n_warnings;
    asked->options = (const char *const *)rep.options, asked->n_options = rep.n_options;
    asked->kinds = (const gq_evaluation *const *)kinds, asked->kind_names = r->kinds.items;
    asked->n_kinds = rep.n_kinds = kinds ? r->kinds.n : 0;
    asked->full_paths = r->full_paths, asked->reuses = r->quantize.reuse.n;
    rep.of = need(gq_report_new(asked, NULL)); /* fails only if memory runs out */
    rep.kind = gq_report_kind(rep.of);
    rep.seconds = gq_report_seconds(rep.of, &rep.plan_seconds);
    rep.outputs = gq_report_outputs(rep.of, &rep.n_outputs);
    return rep;
}

report report_of_plan(const request *r, const gq_plan *plan, const gq_results *results,
                      const gq_evaluation *evaluation, double rate) {
    gq_report_request asked = {.plan = plan,
                               .results = results,
                               .evaluation = evaluation,
                               .input = r->quantize.input,
                               .imatrix = r->quantize.imatrix,
                               .effort = effort_names[r->quantize.effort],
                               .rate = rate};
    return report_make(r, &asked, NULL);
}

report report_of_comparison(const request *r, const gq_comparison *c) {
    gq_report_request asked = {.comparison = c,
                               .n_quants = r->n_arguments - 1,
                               .input = r->arguments[0],
                               .imatrix = r->quantize.imatrix};
    return report_make(r, &asked, NULL);
}

report report_of_evaluation(const request *r, const gq_evaluation *v, gq_evaluation *const *kinds) {
    gq_report_request asked = {.evaluation = v, .input = r->base ? r->base : r->arguments[0]};
    return report_make(r, &asked, kinds);
}

void report_free(report *r) {
    for (size_t i = 0; i < r->n_options; i++) free(r->options[i]);
    gq_report_free(r->of);
    free(r->options), free(r->warnings), free(r->advice);
    *r = (report){0};
}

/* ---- formats ---- */

void print_json_text(char *text) {
    fputs(need(text), stdout);
    free(text);
}

void report_print_json(const report *r) { print_json_text(gq_report_text(r->of, GQ_REPORT_JSON, NULL)); }

bool report_check(const request *r, gq_error *e) {
    return !r->report || gq_report_format_of(r->report) >= 0 ||
           gq_fail_usage(e, "--report %s: expected a name that ends in .json, .csv, .html, .md or .svg",
                         r->report);
}

bool report_write(const report *r, const char *path, gq_error *e) {
    if (!path) return true;
    char *text = gq_report_text(r->of, (gq_report_format)gq_report_format_of(path), e);
    bool ok = text && gq_write_whole(path, true, text, strlen(text), e);
    free(text);
    return ok;
}

/* ---- tables ---- */

static char *types_text(const gq_tensor *t) {
    char *from = report_origin_type(t->from, t->origin);
    if (strcmp(from, gq_type_name(t->to)) == 0) return from;
    char *both = text_format("%s -> %s", from, gq_type_name(t->to));
    free(from);
    return both;
}

/* Name, shape, types, bits per weight, MiB: the columns of both tables. */
static void tensor_cells(table *out, const gq_tensor *t) {
    table_name(out, t->name);
    table_cell(out, shape_text(t->ne, t->n_dims, t->transposed));
    table_cell(out, types_text(t));
    table_cell(out, text_format("%.3f", gq_bits_per_weight(t->out_bytes, t->n_weights)));
    table_cell(out, text_format("%.2f", (double)t->out_bytes / 1e6));
}

char *report_path(FILE *to, const char *path, size_t beside) {
    char *safe = text_shown(path);
    size_t screen = (size_t)terminal_columns(to), n = strlen(safe);
    enum { LEAST = 28 }; /* columns; where fewer are left the path gets a line of its own */
    size_t room = screen > beside + LEAST ? screen - beside : screen > 2 ? screen - 2 : n;
    if (screen == 0 || n <= room) return safe;
    char *fitting = need_memory(n + 1, 1);
    name_fit(fitting, n + 1, safe, room);
    free(safe);
    return fitting;
}

/* Says what needs not be made again: of `all` tensors n, which take so many bytes. */
static void print_reused(FILE *to, const report *r, uint64_t n, uint64_t bytes, uint64_t all) {
    char size[UNIT_ROOM];
    if (!r->request->quantize.reuse.n) return;
    print_line(to, "%scopied from earlier outputs: %" PRIu64 " of %" PRIu64 " tensors, %s",
               strcmp(r->kind, "run") ? "may be " : "", n, all, file_text(size, (double)bytes));
}

static void print_sizes(FILE *to, const report *r, const gq_report_output *o) {
    const gq_summary *s = o->summary;
    char in[UNIT_ROOM], out[UNIT_ROOM], file[UNIT_ROOM], count[UNIT_ROOM];
    char *path = report_path(to, s->path, strlen(s->filetype) + UNIT_ROOM);
    print_line(to, "%s: %s%sfile %s", path, s->filetype, *s->filetype ? ", " : "",
               file_text(file, (double)s->file_bytes));
    print_line(to, "%s weights in %" PRIu64 " tensor%s of %s -> %s, %.4g -> %.4g bits per weight",
               count_text(count, (double)s->n_weights), s->n_tensors, plural_suffix(s->n_tensors),
               file_text(in, (double)s->in_bytes), file_text(out, (double)s->out_bytes),
               gq_bits_per_weight(s->in_bytes, s->n_weights), gq_bits_per_weight(s->out_bytes, s->n_weights));
    print_reused(to, r, o->reused, o->reused_bytes, s->n_tensors);
    if (s->n_fallbacks)
        print_line(to, "fallbacks to other types: %" PRIu64 " (+%s)", s->n_fallbacks,
                   file_text(in, (double)s->fallback_bytes));
    if (s->n_without_imatrix) print_line(to, "tensors without imatrix data: %" PRIu64, s->n_without_imatrix);
    if (s->n_experts_unseen)
        print_line(to, "expert matrices that no calibration token reached: %" PRIu64, s->n_experts_unseen);
    free(path);
}

/* Why the tensor gets its type, what a fallback costs, whether imatrix data is missing. */
static char *tensor_remark(const gq_tensor *t) {
    char cost[UNIT_ROOM];
    if (t->wanted != t->to)
        return text_format("%s wanted, +%s; %s", gq_type_name(t->wanted),
                           file_text(cost, (double)t->fallback_bytes), t->why);
    if (*t->why) return text_format("%s", t->why);
    return text_format("%s", t->importance == GQ_IMPORTANCE_MISSING ? "no imatrix data" : "");
}

/* The remark, whether the output stores the tensor transposed, and where a folder has it. */
static char *tensor_note(const gq_tensor *t) {
    char *notes[] = {tensor_remark(t), text_format("%s", t->transposed ? "transposed" : ""),
                     report_origin_text(t->origin)};
    char *note = text_format("%s", "");
    for (size_t i = 0; i < sizeof notes / sizeof *notes; i++) {
        char *longer = text_format("%s%s%s", note, *note && *notes[i] ? "; " : "", notes[i]);
        free(note), free(notes[i]);
        note = longer;
    }
    return note;
}

/* Prints how many tensors get each type, those that take most bytes first. */
static void print_types(FILE *to, const gq_report_output *o) {
    enum { TYPES = 64 };
    uint64_t tensors[TYPES] = {0}, bytes[TYPES] = {0};
    char *line = text_format("types:"), size[UNIT_ROOM];
    for (size_t i = 0; i < o->n; i++)
        if (o->tensors[i].to < TYPES)
            tensors[o->tensors[i].to]++, bytes[o->tensors[i].to] += o->tensors[i].out_bytes;
    for (const char *gap = "";; gap = ",") {
        uint32_t most = 0;
        for (uint32_t t = 1; t < TYPES; t++)
            if (tensors[t] && (!tensors[most] || bytes[t] > bytes[most])) most = t;
        if (!tensors[most]) break;
        char *longer =
            text_format("%s%s %s in %" PRIu64 " tensor%s (%s)", line, gap, gq_type_name(most), tensors[most],
                        plural_suffix(tensors[most]), file_text(size, (double)bytes[most]));
        free(line), line = longer, tensors[most] = 0;
    }
    print_wrapped(to, line);
    free(line);
}

static void print_plan_table(FILE *to, const gq_report_output *o) {
    table out;
    table_start(&out, "ll2lrr1l", (const char *const[]){"tensor", "shape", "type", "bpw", "MB", "note"});
    for (size_t i = 0; i < o->n; i++) {
        tensor_cells(&out, &o->tensors[i]);
        table_cell(&out, tensor_note(&o->tensors[i]));
    }
    table_end(&out, to);
}

void report_plan(FILE *to, const report *r, const gq_report_output *o) {
    print_sizes(to, r, o);
    if (o->n) print_types(to, o);
    if (r->request->verbose)
        fputc('\n', to), print_plan_table(to, o);
    else
        print_line(to, "-v lists the tensors");
}

/* Decimals of a column: the same for all its numbers, and enough for three digits of the smallest. */
typedef struct loss_decimals {
    int rmse, max_error;
} loss_decimals;

static loss_decimals decimals_of(const gq_report_output *o) {
    double rmse = INFINITY, max_error = INFINITY;
    for (size_t i = 0; i < o->n; i++) {
        const gq_loss *l = &o->losses[i];
        if (l->n > 0 && l->e2 > 0)
            rmse = fmin(rmse, gq_loss_rmse(l)), max_error = fmin(max_error, l->max_error);
    }
    return (loss_decimals){decimals_for(rmse), decimals_for(max_error)};
}

/* Tensors kept byte for byte have no losses to show. */
static void loss_cells(table *out, const gq_loss *l, const loss_decimals *d, bool weighted) {
    if (l->n == 0) {
        for (int i = 0; i < 4 + weighted; i++) table_text(out, "-");
        return;
    }
    double snr = gq_loss_snr_db(l), error = gq_loss_weighted(l);
    table_cell(out, text_format("%.*f", d->rmse, gq_loss_rmse(l)));
    table_cell(out, text_format("%.5f", gq_loss_relative(l)));
    table_cell(out, l->e2 > 0 ? text_format("%.2f", snr) : text_format("exact"));
    table_cell(out, text_format("%.*f", d->max_error, l->max_error));
    if (weighted) table_error(out, error);
}

static void print_time(FILE *to, const report *r, const gq_report_output *o) {
    char time[UNIT_ROOM], plan[UNIT_ROOM], text[UNIT_ROOM], planning[64] = "", fast[64] = "";
    double rate = o->rate;
    if (r->plan_seconds >= 1)
        snprintf(planning, sizeof planning, ", %s of it planning and measuring",
                 time_text(plan, r->plan_seconds));
    if (rate > 0) snprintf(fast, sizeof fast, ", %s weights/s", count_text(text, rate));
    print_line(to, "%s%s%s", time_text(time, r->seconds), planning, fast);
}

static void report_print_totals(FILE *to, const report *r, const gq_report_output *o) {
    double weighted = gq_loss_weighted(&o->loss);
    if (o->n_worst)
        print_line(to, "largest relative errors%s:",
                   isnan(weighted) ? "" : " (under importance where there is data)");
    for (size_t i = 0; i < o->n_worst; i++) {
        const gq_tensor *t = &o->tensors[o->worst[i]];
        char *name = report_path(to, t->name, 24);
        print_line(to, "  %.5f  %s  %s", gq_loss_error(&o->losses[o->worst[i]]), gq_type_name(t->to), name);
        free(name);
    }
    if (o->loss.e2 > 0) {
        char under[32] = "";
        if (!isnan(weighted)) snprintf(under, sizeof under, ", weighted %.5f", weighted);
        print_line(to, "relative error %.5f%s, SNR %.2f dB, over all changed weights",
                   gq_loss_relative(&o->loss), under, gq_loss_snr_db(&o->loss));
    } else {
        print_line(to, "no weight has changed");
    }
    print_time(to, r, o);
}

static void print_losses_table(FILE *to, const gq_report_output *o) {
    bool weighted = !isnan(gq_loss_weighted(&o->loss)); /* never beside roundings */
    loss_decimals decimals = decimals_of(o);
    table out;
    table_start(&out,
                o->roundings ? "ll4lr1r2r6rr3r5rr"
                : weighted   ? "ll4lr1r2r6rr3r5r"
                             : "ll4lr1r2r6rr3r5",
                NULL);
    const char *const headings[] = {
        "tensor",    "shape",      "type",   "bpw",       "MB",
        "RMSE",      "rel. error", "SNR dB", "max error", o->roundings ? "plain" : "weighted",
        "calibrated"};
    table_row(&out, headings);
    for (size_t i = 0; i < o->n; i++) {
        tensor_cells(&out, &o->tensors[i]);
        loss_cells(&out, &o->losses[i], &decimals, weighted);
        const gq_rounding *r = o->roundings ? &o->roundings[i] : NULL;
        if (r) table_error(&out, gq_rounding_plain(r)), table_error(&out, gq_rounding_written(r));
    }
    table_end(&out, to);
    fputc('\n', to);
}

void report_losses(FILE *to, const report *r, const gq_report_output *o) {
    /* A comparison is asked for its table; after a run the report has it. */
    if (strcmp(r->kind, "run") != 0 || r->request->verbose) print_losses_table(to, o);
    print_sizes(to, r, o);
    report_calibration(to, o);
    report_print_totals(to, r, o);
}

void report_overview(FILE *to, const report *r) {
    char size[UNIT_ROOM];
    table out;
    bool calibrated = r->n_outputs && r->outputs[0].roundings;
    table_start(&out, "ll1rr2rr",
                (const char *const[]){"output", "type", "file", "bpw", "rel. error",
                                      calibrated ? "output error" : "weighted"});
    for (size_t i = 0; i < r->n_outputs; i++) {
        const gq_report_output *o = &r->outputs[i];
        double weighted = gq_loss_weighted(&o->loss);
        table_name(&out, o->summary->path);
        table_text(&out, o->summary->filetype);
        table_text(&out, file_text(size, (double)o->summary->file_bytes));
        table_cell(&out,
                   text_format("%.3f", gq_bits_per_weight(o->summary->out_bytes, o->summary->n_weights)));
        table_error(&out, o->loss.n ? gq_loss_relative(&o->loss) : NAN);
        double last = calibrated ? o->written : weighted;
        table_error(&out, last);
    }
    table_end(&out, to);
    uint64_t reused = 0, bytes = 0, all = 0;
    for (size_t i = 0; i < r->n_outputs; i++)
        reused += r->outputs[i].reused, bytes += r->outputs[i].reused_bytes, all += r->outputs[i].n;
    print_reused(to, r, reused, bytes, all);
    if (r->seconds > 0) print_time(to, r, &r->outputs[0]);
}

enum { LINE_BYTES = 1024 }; /* of a tensor: a name of 512 and pieces of at most 96 */

/* Adds a piece to a line if both fit into `columns` bytes (0: no limit). */
__attribute__((format(printf, 3, 4))) static void add_piece(char line[LINE_BYTES], size_t columns,
                                                            const char *format, ...) {
    char text[96];
    va_list args;
    va_start(args, format);
    size_t n = (size_t)vsnprintf(text, sizeof text, format, args), used = strlen(line);
    va_end(args);
    if (columns ? used + n <= columns : used + sizeof text < LINE_BYTES)
        snprintf(line + used, LINE_BYTES - used, "%s", text);
}

void report_line(FILE *to, const gq_summary *s, const gq_tensor *t, const gq_loss *loss) {
    enum { TYPES = 36 };                         /* bytes of "  F16 -> IQ2_XXS  4.125 bpw" and more */
    char safe[512], name[512], line[LINE_BYTES]; /* a name has 127 bytes, each at most \xNN */
    size_t columns = (size_t)terminal_columns(to), label = strlen(s->filetype) + 2, room = 0;
    gq_printable(safe, sizeof safe, t->name);
    if (columns > label + TYPES) room = columns - label - TYPES;
    name_fit(name, sizeof name, safe, room ? room : sizeof name - 1);
    snprintf(line, sizeof line, "%s: %s", s->filetype, name);
    add_piece(line, columns, "  %s -> %s  %.4g bpw", gq_type_name(t->from), gq_type_name(t->to),
              gq_bits_per_weight(t->out_bytes, t->n_weights));
    if (loss->n) {
        add_piece(line, columns, "  error %.5f", gq_loss_relative(loss));
        if (!isnan(gq_loss_weighted(loss)))
            add_piece(line, columns, "  weighted %.5f", gq_loss_weighted(loss));
        add_piece(line, columns, "  SNR %.2f dB", gq_loss_snr_db(loss));
        add_piece(line, columns, "  RMSE %.4g", gq_loss_rmse(loss));
    }
    print_wrapped(to, line);
}
