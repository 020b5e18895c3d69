/* The command `gquant imatrix compute`: runs a model on texts and writes the mean squares of the inputs of
 * its matrices. Texts, or one file of token ids, become a request; the library makes a plan of it, which
 * knows the memory, the disk space and the layers that an earlier, unfinished run has done. With --dry-run
 * the plan is printed and nothing runs. Otherwise the model runs with progress, Ctrl-C is caught, and
 * afterwards the experts that few tokens reached are listed, because their importance is hardly known. An
 * output named *.dat gets the legacy layout, any other name GGUF. The other imatrix jobs are in imatrix.c.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/cli.h"

/* ---- request ---- */

static bool importance_read_texts(const request *r, const char *const *paths, size_t n, gq_text *texts,
                                  gq_error *e) {
    for (size_t i = 0; i < n; i++) {
        texts[i] = (gq_text){.ids = r->ids,
                             .parse_special = r->parse_special,
                             .context = (uint32_t)r->context,
                             .tokens = r->tokens};
        if (!input_text(paths[i], r->memory, &texts[i], e)) return false;
    }
    return true;
}

static gq_importance_plan *importance_make_plan(const request *r, gq_error *e) {
    const char *const *paths = r->ids ? &r->ids : r->arguments + 2, *dot;
    size_t n = r->ids ? 1 : r->n_arguments - 3;
    gq_text *texts = need_memory(n, sizeof *texts);
    gq_importance_request asked = {.size = sizeof asked,
                                   .model = r->arguments[1],
                                   .texts = texts,
                                   .n_texts = n,
                                   .out = r->arguments[r->n_arguments - 1],
                                   .force = r->quantize.force,
                                   .dry_run = r->dry_run,
                                   .output = r->process_output,
                                   .part = r->quantize.part,
                                   .parts = r->quantize.parts,
                                   .threads = r->quantize.threads,
                                   .memory = r->memory,
                                   .comm = r->comm,
                                   .forecast = !r->quiet,
                                   .read_once = r->read_once,
                                   .arithmetic = r->calibration.arithmetic,
                                   .adapters = r->quantize.adapters};
    progress shown;
    gq_callbacks callbacks;
    if (r->dry_run) {
        progress_start_measuring(
            &shown, r, "estimating the time of the run, for about a second, up to a minute for large layers");
        callbacks = progress_callbacks(&shown);
        asked.callbacks = &callbacks;
    }
    dot = strrchr(asked.out, '.');
    asked.dat = dot && !strcasecmp(dot, ".dat");
    gq_importance_plan *p =
        importance_read_texts(r, paths, n, texts, e) ? gq_importance_plan_new(&asked, e) : NULL;
    if (r->dry_run) progress_end(&shown, p ? NULL : e);
    for (size_t i = 0; i < n; i++) input_free(&texts[i]);
    free(texts);
    return p;
}

/* ---- output ---- */

/* Warns about little text. Some thousand independent tokens give means of squares to a few percent;
 * neighbouring tokens of a text are about the same matter, so several times as many are needed. With --part
 * the tokens of all parts count. */
static void print_little(const request *r, const gq_importance_facts *f) {
    enum { LITTLE = 10240, USUAL = 51200 };
    uint64_t parts = r->quantize.parts ? r->quantize.parts : 1, tokens = f->tokens * parts;
    if (tokens >= LITTLE) return;
    print_line(stdout,
               "%" PRIu64 " tokens are little text for an imatrix, which then fits this "
               "text better than others; %d (100 windows of 512) are usual",
               tokens, (int)USUAL);
}

static void importance_print_plan_json(const gq_importance_facts *f) {
    json_writer j = json_start(stdout, '{');
    json_put_text(&j, "architecture", f->architecture);
    json_put_count(&j, "context", f->context);
    json_put_count(&j, "windows", f->windows);
    json_put_count(&j, "tokens", f->tokens);
    json_put_text(&j, "arithmetic", f->arithmetic);
    json_put_count(&j, "layers", f->layers);
    json_put_count(&j, "layers_finished", f->layers_finished);
    json_put_count(&j, "memory_bytes", f->memory);
    json_put_count(&j, "disk_bytes", f->disk);
    json_put_bool(&j, "hidden_states_in_file", f->hidden_states_in_file);
    if (f->seconds_expected > 0) json_put_number(&j, "seconds_expected", f->seconds_expected);
    json_end(&j);
}

static void importance_print_plan(const request *r, const gq_importance_plan *p) {
    const gq_importance_facts *f = gq_importance_summary(p);
    char time[UNIT_ROOM];
    print_line(stdout,
               "%s, %" PRIu64 " layer%s; %" PRIu64 " tokens in windows of %u, %" PRIu64 " window%s at once",
               f->architecture, f->layers, plural_suffix(f->layers), f->tokens, f->context,
               f->windows_at_once, plural_suffix(f->windows_at_once));
    if (f->is_whole)
        print_line(stdout, "%s already exists and is complete", r->arguments[r->n_arguments - 1]);
    else
        report_existing(stdout, r, r->arguments[r->n_arguments - 1]);
    report_room(stdout, f->memory, f->disk, f->hidden_states_in_file);
    if (f->ranks > 1)
        print_line(stdout, "%" PRIu32 " ranks: each has at most %" PRIu64 " window%s and the memory above",
                   f->ranks, f->rank_windows, plural_suffix(f->rank_windows));
    if (f->layers_finished)
        print_line(stdout, "%" PRIu64 " layer%s done already", f->layers_finished,
                   f->layers_finished == 1 ? " is" : "s are");
    if (f->seconds_expected > 0)
        print_line(stdout, "time: about %s", duration_text(time, f->seconds_expected));
    print_little(r, f);
}

enum { FEW = 64 }; /* tokens; the mean of 64 squares is known to about 18 %, sqrt(2 / 64) */

typedef struct coverage {
    uint64_t none, few;
    double fewest;
} coverage;

static coverage importance_row_coverage(const gq_imatrix_row *row) {
    coverage c = {.fewest = (double)row->counts[0]};
    for (uint64_t i = 0; i < row->experts; i++) {
        double count = (double)row->counts[i];
        c.none += count == 0;
        c.few += count < FEW;
        if (count < c.fewest) c.fewest = count;
    }
    return c;
}

static void importance_print_coverage(const gq_imatrix *m) {
    size_t n, shown_rows = 0;
    const gq_imatrix_row *rows = gq_imatrix_rows(m, &n);
    table t;
    table_start(&t, "lrrrr",
                (const char *const[]){"entry", "experts", "seen by none", "by fewer than 64", "fewest"});
    for (size_t i = 0; i < n; i++) {
        if (rows[i].experts < 2) continue;
        coverage c = importance_row_coverage(&rows[i]);
        if (c.few == 0) continue;
        shown_rows++;
        table_name(&t, rows[i].name);
        table_cell(&t, text_format("%" PRIu64, rows[i].experts));
        table_cell(&t, text_format("%" PRIu64, c.none));
        table_cell(&t, text_format("%" PRIu64, c.few));
        table_cell(&t, text_format("%.0f", c.fewest));
    }
    if (shown_rows) {
        print_line(stdout, "experts that few tokens reached (a longer or another text would reach more):");
        table_print(&t, stdout);
    }
    table_free(&t);
}

static void print_result(const request *r, const gq_importance_plan *p, const gq_imatrix *m) {
    const gq_importance_facts *f = gq_importance_summary(p);
    size_t n = gq_imatrix_summary(m)->n_entries;
    print_line(stdout, "%s: %zu entr%s from %" PRIu64 " window%s of %u token%s",
               r->arguments[r->n_arguments - 1], n, n == 1 ? "y" : "ies", f->windows,
               plural_suffix(f->windows), f->context, plural_suffix(f->context));
    print_little(r, f);
    importance_print_coverage(m);
    if (r->quantize.parts)
        print_line(stdout, "part %u of %u; 'gquant imatrix merge' adds the parts up", r->quantize.part,
                   r->quantize.parts);
}

/* ---- the work ---- */

static gq_imatrix *importance_compute(const request *r, gq_importance_plan *p, gq_error *e) {
    progress shown_progress;
    interrupt_catch();
    progress_start_phase(&shown_progress, r, "importance");
    gq_callbacks callbacks = progress_callbacks(&shown_progress);
    gq_imatrix *m = gq_importance_compute(p, &callbacks, e);
    progress_end(&shown_progress, m ? NULL : e);
    return m;
}

bool imatrix_compute(const request *r, gq_error *e) {
    if (r->n_arguments < 4 && !r->ids)
        return gq_fail_usage(e, "imatrix compute: a text is missing; usage: gquant imatrix compute MODEL "
                                "TEXT... OUT, or --ids FILE MODEL OUT");
    if (r->n_arguments > 3 && r->ids)
        return gq_fail_usage(e, "imatrix compute: --ids takes the place of texts; usage: gquant imatrix "
                                "compute --ids FILE MODEL OUT");
    gq_importance_plan *p = importance_make_plan(r, e);
    if (!p) return false;
    size_t n;
    const char *const *warnings = gq_importance_warnings(p, &n);
    if (!r->quiet) warn_all(r->said, warnings, n);
    bool ok = true;
    if (r->dry_run) {
        if (r->json)
            importance_print_plan_json(gq_importance_summary(p));
        else if (!r->quiet)
            importance_print_plan(r, p);
    } else {
        gq_imatrix *m = importance_compute(r, p, e);
        if (m && !r->quiet) print_result(r, p, m);
        ok = m;
        if (m && !r->quiet && gq_importance_summary(p)->is_whole)
            print_line(stderr, "%s: already exists and is complete", r->arguments[r->n_arguments - 1]);
        gq_imatrix_free(m);
    }
    gq_importance_plan_free(p);
    return ok;
}
