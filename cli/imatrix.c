/* The command `gquant imatrix show|merge|convert`; `compute` is in importance.c. The library opens importance
 * files in either layout; this file prints its warnings and what it found. `show` prints a row of statistics
 * per entry, and with a model also which of the model's weights lack data, as tables or as JSON. `merge` adds
 * all further inputs to the first and writes the sum. `convert` is a merge of one file, so that only the
 * layout changes: GGUF where the output's name ends in .gguf, else the legacy layout. Which job takes how
 * many arguments is the table in imatrix_main.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/cli.h"

/* ---- show, for people ---- */

static char *imatrix_share_text(double x) {
    return isnan(x) ? text_format("-") : text_format("%.2f", 100 * x);
}
static char *statistic_text(double x) { return isnan(x) ? text_format("-") : text_format("%.4g", x); }

static void print_rows(const gq_imatrix *m) {
    size_t n;
    const gq_imatrix_row *rows = gq_imatrix_rows(m, &n);
    table t;
    table_start(&t, "lr3r1r2rr5r4r6rr3r7",
                (const char *const[]){"entry", "values", "experts", "unseen", "mean", "deviation", "max",
                                      "active %", "evenness %", "outliers %", "cosine"});
    for (size_t i = 0; i < n; i++) {
        const gq_imatrix_row *r = &rows[i];
        table_name(&t, r->name);
        table_cell(&t, text_format("%" PRIu64, r->values));
        table_cell(&t, r->experts > 1 ? text_format("%" PRIu64, r->experts) : text_format("-"));
        table_cell(&t, r->experts_unseen ? text_format("%" PRIu64, r->experts_unseen) : text_format("-"));
        table_cell(&t, statistic_text(r->mean));
        table_cell(&t, statistic_text(r->deviation));
        table_cell(&t, statistic_text(r->max));
        table_cell(&t, imatrix_share_text(r->active));
        table_cell(&t, imatrix_share_text(r->evenness));
        table_cell(&t, imatrix_share_text(r->outliers));
        table_cell(&t, statistic_text(r->cosine));
    }
    table_end(&t, stdout);
}

static void print_facts(const char *path, const gq_imatrix *m) {
    const gq_imatrix_facts *f = gq_imatrix_summary(m);
    char chunks[32] = "", tokens[32] = "";
    if (f->chunk_count)
        snprintf(chunks, sizeof chunks, ", %u chunk%s", f->chunk_count, plural_suffix(f->chunk_count));
    if (f->chunk_size)
        snprintf(tokens, sizeof tokens, " of %u token%s", f->chunk_size, plural_suffix(f->chunk_size));
    print_line(stdout, "%s: %s layout, %zu entr%s%s%s", path, f->legacy ? ".dat" : "GGUF", f->n_entries,
               f->n_entries == 1 ? "y" : "ies", chunks, tokens);
    for (size_t i = 0; i < f->n_datasets; i++) print_line(stdout, "from %s", f->datasets[i]);
}

static const char *problem_of(const gq_imatrix_cover *w) {
    if (!w->has_entry) return "no entry";
    if (!w->fits) return "an entry of another size";
    return w->experts_seen < w->experts ? "experts that no token reached" : NULL;
}

static void imatrix_print_coverage(const gq_imatrix_coverage *c) {
    size_t covered = 0;
    table t;
    table_start(&t, "lr1r1lr2",
                (const char *const[]){"weight", "columns", "matrices", "problem", "experts seen"});
    for (size_t i = 0; i < c->n; i++) {
        const gq_imatrix_cover *w = &c->weights[i];
        const char *problem = problem_of(w);
        covered += w->has_entry && w->fits;
        if (!problem) continue;
        table_name(&t, w->name);
        table_cell(&t, text_format("%" PRIu64, w->columns));
        table_cell(&t, text_format("%" PRIu64, w->matrices));
        table_text(&t, problem);
        table_cell(&t, w->experts > 1 ? text_format("%" PRIu64 " of %" PRIu64, w->experts_seen, w->experts)
                                      : text_format("-"));
    }
    putchar('\n');
    print_line(stdout, "%zu of %zu weight%s data", covered, c->n, c->n == 1 ? " has" : "s have");
    if (t.n > t.n_columns) table_print(&t, stdout);
    table_free(&t);
    for (size_t i = 0, k = 0; i < c->n_unused; i++) {
        bool unknown = k < c->n_unknown && c->unknown[k] == c->unused[i];
        k += unknown;
        print_line(stdout, "%s: of %s", c->unused[i],
                   unknown ? "no weight of the model" : "a weight that is not quantized");
    }
}

/* ---- show, for programs ---- */

static void put_row(json_writer *j, const gq_imatrix_row *r) {
    json_open(j, NULL, '{');
    json_put_text(j, "name", r->name);
    json_put_signed(j, "layer", r->layer);
    json_put_text(j, "role", r->role);
    json_put_count(j, "values", r->values);
    json_put_count(j, "experts", r->experts);
    json_put_count(j, "experts_unseen", r->experts_unseen);
    json_put_number(j, "sum", r->sum);
    json_put_number(j, "min", r->min);
    json_put_number(j, "max", r->max);
    json_put_number(j, "mean", r->mean);
    json_put_number(j, "deviation", r->deviation);
    json_put_number(j, "active", r->active);
    json_put_number(j, "entropy", r->entropy);
    json_put_number(j, "evenness", r->evenness);
    json_put_number(j, "outliers", r->outliers);
    json_put_number(j, "cosine", r->cosine);
    json_close(j);
}

static void put_cover(json_writer *j, const gq_imatrix_cover *w) {
    json_open(j, NULL, '{');
    json_put_text(j, "name", w->name);
    json_put_count(j, "columns", w->columns);
    json_put_count(j, "matrices", w->matrices);
    json_put_bool(j, "has_entry", w->has_entry);
    json_put_bool(j, "fits", w->fits);
    json_put_count(j, "experts", w->experts);
    json_put_count(j, "experts_seen", w->experts_seen);
    json_put_number(j, "smallest_count", w->smallest_count);
    json_close(j);
}

static void put_imatrix_facts(json_writer *j, const char *path, const gq_imatrix *m) {
    const gq_imatrix_facts *f = gq_imatrix_summary(m);
    json_put_text(j, "path", path);
    json_put_text(j, "layout", f->legacy ? "dat" : "gguf");
    json_put_count(j, "chunk_count", f->chunk_count);
    json_put_count(j, "chunk_size", f->chunk_size);
    json_put_texts(j, "datasets", f->datasets, f->n_datasets);
}

static void imatrix_print_json(const char *path, const gq_imatrix *m, const gq_imatrix_coverage *c) {
    size_t n;
    const gq_imatrix_row *rows = gq_imatrix_rows(m, &n);
    json_writer j = json_start(stdout, '{');
    put_imatrix_facts(&j, path, m);
    json_open_lines(&j, "entries", '[');
    for (size_t i = 0; i < n; i++) put_row(&j, &rows[i]);
    json_close(&j);
    if (c) {
        json_open_lines(&j, "weights", '[');
        for (size_t i = 0; i < c->n; i++) put_cover(&j, &c->weights[i]);
        json_close(&j);
        json_put_texts(&j, "unused", c->unused, c->n_unused);
        json_put_texts(&j, "unknown", c->unknown, c->n_unknown);
    }
    json_end(&j);
}

/* ---- showing, merging, converting ---- */

/* Prints the warnings after the first `from` bytes of the list, to which merging appends. */
static void say_warnings(const request *r, const gq_imatrix *m, size_t from) {
    if (r->quiet) return;
    char *lines = text_format("%s", gq_imatrix_summary(m)->warnings + from);
    for (char *rest = lines, *line; (line = strsep(&rest, "\n"));)
        if (*line) say_warning(r->said, line);
    free(lines);
}

static gq_imatrix *open_imatrix(const request *r, const char *path, gq_error *e) {
    gq_imatrix *m = gq_imatrix_open(path, e);
    if (m) say_warnings(r, m, 0);
    return m;
}

/* Adds the file at `path` to `sum`, and prints the warnings that this has caused. */
static bool add_imatrix(const request *r, gq_imatrix *sum, const char *path, gq_error *e) {
    size_t before = strlen(gq_imatrix_summary(sum)->warnings);
    gq_imatrix *m = open_imatrix(r, path, e);
    bool ok = m && gq_imatrix_merge(sum, m, e);
    if (ok) say_warnings(r, sum, before);
    gq_imatrix_free(m);
    return ok;
}

static bool show_imatrix(const request *r, gq_error *e) {
    const char *path = r->arguments[1], *model = r->n_arguments > 2 ? r->arguments[2] : NULL;
    gq_imatrix_coverage *coverage = NULL;
    gq_imatrix *m = open_imatrix(r, path, e);
    bool ok = m && (!model || (coverage = gq_imatrix_cover_model(m, model, e)));
    if (ok && r->json) {
        imatrix_print_json(path, m, coverage);
    } else if (ok) {
        print_facts(path, m);
        putchar('\n'), print_rows(m);
        if (coverage) imatrix_print_coverage(coverage);
    }
    gq_imatrix_coverage_free(coverage);
    gq_imatrix_free(m);
    return ok;
}

static void warn_of_same_input(const request *r, size_t i) {
    char line[512];
    for (size_t k = 1; k < i && !r->quiet; k++)
        if (path_same(r->arguments[k], r->arguments[i])) {
            snprintf(line, sizeof line, "%s is given twice, and counts twice", r->arguments[i]);
            say_warning(r->said, line);
            return;
        }
}

/* Adds up the files that all arguments but the last name, and writes the sum to the last. With a single input
 * only the layout changes. */
static bool merge_imatrices(const request *r, gq_error *e) {
    const char *out = r->arguments[r->n_arguments - 1], *dot = strrchr(out, '.');
    gq_imatrix *sum = open_imatrix(r, r->arguments[1], e);
    bool ok = sum != NULL;
    for (size_t i = 2; ok && i + 1 < r->n_arguments; i++) {
        warn_of_same_input(r, i);
        ok = add_imatrix(r, sum, r->arguments[i], e);
    }
    bool legacy = !dot || strcasecmp(dot, ".gguf") != 0;
    ok = ok && gq_imatrix_write(sum, out, !legacy, r->quantize.force, e);
    if (ok && !r->quiet) {
        size_t n = gq_imatrix_summary(sum)->n_entries, files = r->n_arguments - 2;
        print_line(stdout, "%s: %s layout, %zu entr%s from %zu file%s", out, legacy ? ".dat" : "GGUF", n,
                   n == 1 ? "y" : "ies", files, plural_suffix(files));
    }
    gq_imatrix_free(sum);
    return ok;
}

/* Returns an option that was given and that only computing uses; NULL: none. */
static const char *option_of_compute(const request *r) {
    for (size_t i = 0; i < r->n_given; i++)
        if (r->given[i].option->commands & COMPUTE) return r->given[i].option->name;
    return NULL;
}

int imatrix_main(const request *r) {
    static const struct {
        const char *name, *arguments;
        bool (*run)(const request *r, gq_error *e);
        size_t min, max;
    } jobs[] = {{"compute", "MODEL TEXT... OUT", imatrix_compute, 3, SIZE_MAX},
                {"show", "FILE [MODEL]", show_imatrix, 2, 3},
                {"merge", "IN... OUT", merge_imatrices, 3, SIZE_MAX},
                {"convert", "IN OUT", merge_imatrices, 3, 3}};
    gq_error e = {0};
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        if (strcmp(jobs[i].name, r->arguments[0]) != 0) continue;
        if (jobs[i].run != imatrix_compute && option_of_compute(r)) {
            gq_fail_usage(&e, "imatrix %s: --%s works only with imatrix compute", jobs[i].name,
                          option_of_compute(r));
            return say_failure(r->said, &e);
        }
        if (r->n_arguments >= jobs[i].min && r->n_arguments <= jobs[i].max) {
            if (!jobs[i].run(r, &e)) return say_failure(r->said, &e);
            if (jobs[i].run == imatrix_compute && !r->dry_run && !r->quantize.parts)
                next_say(r, "--imatrix", r->arguments[r->n_arguments - 1], r->arguments[1], "Q4_K_M",
                         (char *)NULL);
            return GQ_OK;
        }
        gq_fail_usage(&e, "imatrix %s: usage: gquant imatrix %s %s", jobs[i].name, jobs[i].name,
                      jobs[i].arguments);
        return say_failure(r->said, &e);
    }
    gq_fail_usage(&e, "imatrix %s: expected compute, show, merge or convert", r->arguments[0]);
    return say_failure(r->said, &e);
}
