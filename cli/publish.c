/* The command `gquant publish MODEL --out-dir DIR TYPE...`: a folder to upload, which the library makes
 * (gq_publish). This file turns words into its request, the line itself among them, for the page, and shows
 * how the work goes.
 */
#include <ctype.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

/* ---- the command again ---- */

/* Adds a word to the line, which is one line of a page whatever the word is. */
static char *publish_add_word(char *line, const char *word) {
    char *shown = text_format("%s", word);
    for (char *c = shown; *c; c++)
        if (iscntrl((unsigned char)*c)) *c = '?';
    line = text_add_word(line, shown);
    free(shown);
    return line;
}

/* Whether an option belongs to the line: those that change no file do not. The width of a calibration's
 * groups follows from the memory. */
static bool publish_says(const request *r, const option_row *o) {
    bool decides = (r->calibrate || r->calibrate_ids) && o->member == offsetof(request, memory);
    return decides || !(o->commands & (NO_RESULT | SAME_FILES));
}

/* Returns the line that makes the folder again, without folders' names and without what changes no file;
 * malloc'ed. */
static char *publish_line(const request *r) {
    char *line = publish_add_word(text_format("gquant publish"), path_reported(r->arguments[0], false));
    for (size_t i = 1; i < r->n_arguments; i++) line = publish_add_word(line, r->arguments[i]);
    for (size_t i = 0; i < r->n_given; i++) {
        const struct given *g = &r->given[i];
        bool path = option_is_file(g->option);
        if (!publish_says(r, g->option)) continue;
        char *name = text_format("--%s", g->option->name);
        line = publish_add_word(line, name);
        free(name);
        if (g->argument && option_is_optional(g->option)) {
            char *whole = text_format("%s=%s", line, g->argument);
            free(line), line = whole;
        } else if (g->argument)
            line = publish_add_word(line, path ? path_reported(g->argument, false) : g->argument);
    }
    bool calibrates = text_is_sample(r->calibrate, false), evaluates = text_is_sample(r->text, true);
    if (!calibrates && !evaluates) return line;
    char *text = text_format("gquant text%s", calibrates ? " --calibration" : "");
    if (calibrates) text = publish_add_word(text, path_reported(r->calibrate, false));
    if (evaluates) text = publish_add_word(text_add_word(text, "--held-out"), path_reported(r->text, false));
    char *both = text_format("%s && %s", text, line);
    free(text), free(line);
    return both;
}

/* ---- how it goes ---- */

typedef struct publish_view {
    const request *request;
    progress bar;
    gq_callbacks callbacks; /* of the phase at work; the request points here */
} publish_view;

static void publish_begins(void *user, const char *phase, const gq_plan *plan) {
    publish_view *v = user;
    size_t n;
    if (plan && !v->request->quiet) {
        const char *const *warnings = gq_plan_warnings(plan, &n);
        warn_all(v->request->said, warnings, n);
    }
    progress_start_stage(&v->bar, v->request, plan, phase);
    v->callbacks = progress_callbacks(&v->bar);
}

static void publish_ends(void *user, const char *phase, const gq_error *failure) {
    (void)phase;
    progress_end(&((publish_view *)user)->bar, failure);
}

static void publish_kept(void *user, const char *path) {
    if (!((publish_view *)user)->request->quiet)
        print_line(stderr, "%s already exists and is complete", path);
}

/* Adds a file; is_evaluated: with what the page's row of it, if any, says of its quality. */
static void publish_add_row(table *t, const request *r, const gq_page_row *row, const char *type,
                            bool is_evaluated) {
    char size[UNIT_ROOM];
    table_name(t, path_reported(row->path, r->full_paths));
    table_text(t, file_text(size, (double)row->file_bytes));
    table_cell(t, text_format("%.3f", row->bits));
    table_text(t, type);
    if (!is_evaluated) return;
    table_cell(t, row->evaluated ? estimate_text(row->evaluated->kld) : text_format("-"));
    table_cell(t, row->evaluated && row->changed_top1 ? interval_text(row->changed_top1, 100)
                                                      : text_format("-"));
    table_text(t, row->evaluated && row->level ? row->level : "");
}

/* Adds a file of a plan. */
static void publish_add_planned(table *t, const request *r, const gq_publication *p, const gq_summary *s,
                                bool is_evaluated) {
    size_t n, i = 0;
    const gq_page_row *rows = gq_publication_rows(p, &n);
    gq_page_row row = {.path = s->path};
    while (i < n && strcmp(rows[i].path, s->path) != 0) i++;
    if (i < n) row = rows[i]; /* none of a projector */
    row.file_bytes = s->file_bytes, row.bits = gq_bits_per_weight(s->out_bytes, s->n_weights);
    publish_add_row(t, r, &row, s->filetype, is_evaluated);
}

/* Whether an output of a plan has the path. */
static bool publish_plans(const gq_plan *plan, const char *path) {
    size_t i = 0, n = gq_plan_outputs(plan);
    while (i < n && strcmp(gq_plan_summary(plan, i)->path, path) != 0) i++;
    return i < n;
}

/* Prints the files of the command, then those that earlier ones have made. */
static void publish_print(const request *r, const gq_publication *p) {
    const gq_plan *plan = gq_publication_plan(p), *more;
    const gq_evaluation *v = gq_publication_evaluation(p);
    size_t n;
    bool predicts = v && !isnan(gq_evaluation_models(v, &n)->perplexity.value);
    table t;
    table_start(&t, v ? "lrr2l3rr1l" : "lrrl",
                (const char *const[]){"file", "size", "bpw", "type",
                                      predicts ? "KL divergence" : "cosine distance", "changed top-1, %",
                                      ""});
    for (size_t i = 0; i < gq_plan_outputs(plan); i++)
        publish_add_planned(&t, r, p, gq_plan_summary(plan, i), v);
    const gq_page_row *rows = gq_publication_rows(p, &n);
    for (size_t i = 0; i < n; i++)
        if (!publish_plans(plan, rows[i].path)) publish_add_row(&t, r, &rows[i], rows[i].type, v);
    for (gq_companion i = 0; i < GQ_COMPANIONS; i++)
        if ((more = gq_publication_companion(p, i)))
            publish_add_planned(&t, r, p, gq_plan_summary(more, 0), v);
    table_end(&t, stdout);
}

/* Says which file the page recommends. */
static void publish_say_recommended(const gq_publication *p) {
    const char *why;
    char size[UNIT_ROOM];
    const gq_page_row *row = gq_publication_recommended(p, &why);
    if (row)
        print_line(stdout, "Recommended: %s (%s), %s", path_reported(row->path, false),
                   file_text(size, (double)row->file_bytes), why);
}

/* Says which base model the page names, where it was found, or that it names none. */
static void publish_say_base(const request *r, const gq_publication *p) {
    const char *source, *base = gq_publication_base_model(p, &source);
    if (!base)
        print_line(stdout,
                   "base model: %s names none, so README.md has none; set it with --base-model OWNER/NAME",
                   path_reported(r->arguments[0], r->full_paths));
    else if (source)
        print_line(stdout, "base model: %s, by %s; --base-model names another", base, source);
}

/* Says what the page keeps of an earlier command, as options. */
static void publish_say_kept(const gq_publish_request *kept) {
    const char *const words[][2] = {{"--repo", kept->repo},
                                    {"--title", kept->title},
                                    {"--license", kept->license},
                                    {"--quantized-by", kept->quantized_by}};
    char *line = text_format("kept from README.md:");
    size_t bare = strlen(line);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (words[i][1]) line = publish_add_word(text_add_word(line, words[i][0]), words[i][1]);
    if (line[bare]) print_line(stdout, "%s", line);
    free(line);
}

static void publish_say(const request *r, const gq_publication *p) {
    const gq_publish_request *kept = gq_publication_kept(p);
    size_t n;
    if (r->quiet) return;
    const char *const *warnings = gq_publication_warnings(p, &n);
    const gq_plan *plan = gq_publication_plan(p);
    warn_all(r->said, warnings, n);
    publish_print(r, p);
    size_t files = gq_plan_outputs(plan);
    for (gq_companion i = 0; i < GQ_COMPANIONS; i++) files += gq_publication_companion(p, i) != NULL;
    gq_needs needs = {.size = sizeof needs};
    gq_publication_needs(p, &needs);
    if (r->dry_run) {
        for (size_t i = 0; i < gq_plan_outputs(plan); i++)
            report_existing(stdout, r, gq_plan_summary(plan, i)->path);
        for (gq_companion i = 0; i < GQ_COMPANIONS; i++)
            if (gq_publication_companion(p, i))
                report_existing(stdout, r, gq_plan_summary(gq_publication_companion(p, i), 0)->path);
        report_needs(stdout, &needs, "");
        warn_of_disk(r->said, &needs);
        return;
    }
    print_line(stdout, "%s: %zu of %zu files made, README.md, SHA256SUMS, .gitattributes%s", r->out_dir,
               gq_publication_made(p), files, gq_publication_evaluation(p) ? ", divergence.svg" : "");
    publish_say_base(r, p);
    publish_say_kept(kept);
    publish_say_recommended(p);
    const char *repo = r->repo ? r->repo : kept->repo ? kept->repo : "OWNER/NAME";
    char *line = text_add_word(text_format("upload: hf upload %s", repo), r->out_dir);
    print_line(stdout, "%s", line);
    if (!r->repo && !kept->repo)
        print_line(stdout, "before: README.md's commands name OWNER/NAME, too; repeat this one with --repo");
    free(line);
}

/* ---- the command ---- */

/* Makes outputs of the words and targets, malloc'ed; NULL: a word is no type. */
static gq_output *publish_outputs(const request *r, size_t *n, gq_error *e) {
    gq_output *outputs = need_memory(r->n_arguments + r->n_targets, sizeof *outputs);
    *n = 0;
    for (size_t i = 1; i < r->n_arguments; i++) {
        if (!filetype_known(r->arguments[i]))
            return filetype_fail_unknown(r->arguments[i], e), free(outputs), NULL;
        outputs[(*n)++].filetype = r->arguments[i];
    }
    for (size_t i = 0; i < r->n_targets; i++)
        outputs[(*n)++] = (gq_output){.target = r->targets[i], .size_of = r->size_of[i]};
    if (*n || r->ladder) return outputs;
    free(outputs);
    return gq_fail_usage(e, "nothing to make: name file types, --target-size SIZE, or --ladder"), NULL;
}

static gq_publication *publish_do(const request *r, const gq_evaluation_request *evaluation, gq_error *e) {
    publish_view view = {.request = r};
    gq_calibration calibration;
    gq_options o = r->quantize;
    gq_publish_request asked = {.size = sizeof asked,
                                .options = &o,
                                .name = r->name,
                                .ladder = r->ladder,
                                .base_model = r->base_model,
                                .license = r->license,
                                .quantized_by = r->quantized_by,
                                .evaluation = evaluation,
                                .speeds = r->speeds,
                                .title = r->title,
                                .repo = r->repo,
                                .projector = r->mmproj,
                                .mtp_file = r->mtp_file,
                                .draft = r->draft,
                                .draft_type = r->draft_type,
                                .callbacks = &view.callbacks,
                                .user = &view,
                                .begins = publish_begins,
                                .ends = publish_ends,
                                .kept = publish_kept};
    view.callbacks = progress_callbacks(&view.bar);
    o.input = r->arguments[0], o.out_dir = r->out_dir, o.dry_run = r->dry_run, o.other_inputs = r->files;
    o.outputs = publish_outputs(r, &o.n_outputs, e), o.forecast = !r->quiet;
    char *line = o.outputs ? publish_line(r) : NULL;
    asked.how = line;
    gq_publication *p = NULL;
    if (line && input_calibration(r, &calibration, &o.calibration, e)) {
        p = gq_publish(&asked, e);
        input_free(&calibration.text);
    }
    free((void *)o.outputs), free(line);
    return p;
}

int publish_main(const request *r) {
    gq_error e = {0};
    gq_evaluation_request evaluation = {0};
    gq_publication *p = NULL;
    size_t made = 0;
    signal(SIGPIPE, SIG_IGN);
    interrupt_catch();
    bool ok =
        r->out_dir || gq_fail_usage(&e, "--out-dir DIR is missing: the folder for the files and README.md");
    ok = ok && (!r->text || evaluation_ask(r, &evaluation, &e)) && path_make_folder(r->out_dir, &made, &e) &&
         (p = publish_do(r, r->text ? &evaluation : NULL, &e));
    if (ok) publish_say(r, p);
    if (!ok || r->dry_run) path_remove_folder(r->out_dir ? r->out_dir : "", made); /* only if it is empty */
    evaluation_free(&evaluation);
    gq_publication_free(p);
    return ok ? GQ_OK : say_failure(r->said, &e);
}
