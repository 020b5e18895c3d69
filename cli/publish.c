/* The command `gquant publish MODEL --out-dir DIR TYPE...`: a folder to upload. The steps: name the outputs
 * by a template, plan all of them, leave out what is there and whole, make the rest in one run, evaluate all
 * on
 * --evaluate's text, and write the page, its chart and the checksums (publish_page.c). Every step can be
 * repeated: the same command goes on where it was stopped, and makes only what is missing.
 *
 * A ladder has a file for each common size of memory: the target is what is left beside the keys and values
 * of a context and the buffers. Sizes that hold more than Q8_0, or less than the smallest types, are left
 * out.
 */
#include "cli/publish.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/calibration.h"
#include "cli/commands.h"
#include "cli/evaluation.h"
#include "cli/path.h"
#include "cli/positional.h"
#include "cli/progress.h"
#include "cli/say.h"
#include "cli/table.h"
#include "cli/text.h"

/* Bytes of a shard at most: hubs take files of up to 50 GB. */
static const uint64_t SHARD_BYTES = UINT64_C(48) * 1000 * 1000 * 1000;
static const uint64_t GB = 1000 * 1000 * 1000;

/* ---- names ---- */

/* The model's name in file names: that of the library's own outputs without their type. It knows shards,
 * types of 16 or 32 bits in names, folders called "." and a hub's cache. */
static bool publication_name_model(publication *p, gq_error *e) {
    static const char type[] = "COPY";
    gq_output out = {.filetype = type};
    gq_options o = {.size = sizeof o, .input = p->request->arguments[0], .model = p->model};
    o.outputs = &out, o.n_outputs = 1, o.out_dir = ".", o.dry_run = o.force = true;
    gq_plan *plan = gq_plan_new(&o, e);
    if (!plan) return false;
    p->stem = text_format("%s", path_reported(gq_plan_summary(plan, 0)->path, false));
    gq_plan_free(plan);
    size_t n = strlen(p->stem) - strlen(".gguf");
    p->stem[n] = 0;
    for (size_t at = n; at-- > 0;) {
        if (strncmp(p->stem + at, type, sizeof type - 1) != 0) continue;
        size_t from = at > 0 ? at - 1 : at, behind = at + sizeof type - 1; /* with what separates it */
        memmove(p->stem + from, p->stem + behind, n - behind + 1);
        break;
    }
    if (!*p->stem) free(p->stem), p->stem = text_format("model"); /* the name was a type alone */
    return true;
}

/* DIR/TEMPLATE with {model} and {type} replaced. */
static char *publication_name(const publication *p, const char *type) {
    char *path = text_format("%s/", p->request->out_dir);
    for (const char *c = p->request->name; *c;) {
        const char *word = !strncmp(c, "{model}", 7) ? p->stem : !strncmp(c, "{type}", 6) ? type : NULL;
        char *longer = word ? text_format("%s%s", path, word) : text_format("%s%c", path, *c);
        free(path);
        path = longer, c += !word ? 1 : word == type ? 6 : 7;
    }
    return path;
}

static bool check_template(const request *r, gq_error *e) {
    size_t n = strlen(r->name);
    return (strstr(r->name, "{type}") && !strchr(r->name, '/') && n > 5 &&
            !strcmp(r->name + n - 5, ".gguf")) ||
           gq_fail_usage(e,
                         "--name %s: expected a file name with {type}, and maybe {model}, that ends in .gguf",
                         r->name);
}

/* Refuses to replace a page that somebody else has written. One of this command has its line in it. */
static bool check_page(const request *r, gq_error *e) {
    enum { MOST = 1 << 20 }; /* ours are a few thousand bytes */
    size_t n;
    struct stat st;
    char *path = text_format("%s/README.md", r->out_dir);
    bool is_there = !r->quantize.force && !r->dry_run && stat(path, &st) == 0;
    char *text = is_there ? gq_read_whole(path, MOST, &n, &(gq_error){0}) : NULL;
    bool ok = !is_there || (text && strstr(text, "gquant publish")) ||
              gq_fail_remedy(e, GQ_REMEDY_REPLACE, "%s is there, and this command has not made it", path);
    free(text), free(path);
    return ok;
}

/* ---- outputs ---- */

static void publication_add(publication *p, gq_output out, char *label) {
    p->outputs = need_next(p->outputs, p->n, sizeof *p->outputs);
    p->labels = need_next(p->labels, p->n, sizeof *p->labels);
    char *path = publication_name(p, label);
    out.path = path;
    p->labels[p->n] = label, p->outputs[p->n++] = out;
}

/* A target's size as names have it: "7.5GB". */
static char *target_label(const gq_target *t, const char *size_of) {
    if (size_of) return text_format("%s-size", size_of);
    if (!t->size) return text_format("%.4gbpw", t->bpw);
    return t->size < GB ? text_format("%.4gMB", (double)t->size / 1e6)
                        : text_format("%.4gGB", (double)t->size / (double)GB);
}

/* Sizes of memory that people have, in GB. */
static const unsigned ladder_sizes[] = {4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256};

/* Returns the file's bytes of a type, 0: it cannot be planned. */
static uint64_t planned_bytes(const publication *p, const char *type) {
    gq_options o = p->request->quantize;
    gq_output out = {.path = publication_name(p, type), .filetype = type};
    gq_error unused;
    o.outputs = &out, o.n_outputs = 1, o.dry_run = o.force = true, o.model = p->model;
    gq_plan *plan = gq_plan_new(&o, &unused);
    uint64_t bytes = plan ? gq_plan_summary(plan, 0)->file_bytes : 0;
    gq_plan_free(plan);
    free((void *)out.path);
    return bytes;
}

static bool publication_add_ladder(publication *p, gq_error *e) {
    uint64_t most = planned_bytes(p, "Q8_0"), least = planned_bytes(p, "Q2_K");
    size_t before = p->n;
    for (size_t i = 0; i < sizeof ladder_sizes / sizeof *ladder_sizes; i++) {
        uint64_t memory = ladder_sizes[i] * GB;
        if (memory < p->memory + least || (most && memory > p->memory + most)) continue;
        publication_add(p, (gq_output){.target.size = memory - p->memory},
                        text_format("for-%uGB", ladder_sizes[i]));
    }
    return p->n > before ||
           gq_fail_usage(e,
                         "--ladder: no common size of memory from %u GB on lies between the model's Q2_K and "
                         "its Q8_0, which take %.3g and %.3g GB; name types or sizes",
                         ladder_sizes[0], (double)(least + p->memory) / (double)GB,
                         (double)(most + p->memory) / (double)GB);
}

static bool publication_list(publication *p, gq_error *e) {
    const request *r = p->request;
    for (size_t i = 1; i < r->n_arguments; i++) {
        if (!filetype_known(r->arguments[i]))
            return gq_fail_usage(e, "unknown file type '%s' ('gquant types' lists them)", r->arguments[i]);
        const gq_named_recipe *named = gq_named_recipe_find(r->arguments[i]);
        const char *type = named ? named->name : gq_filetype_name((size_t)gq_filetype_find(r->arguments[i]));
        publication_add(p, (gq_output){.filetype = type}, text_format("%s", type));
    }
    for (size_t i = 0; i < r->n_targets; i++)
        publication_add(p, (gq_output){.target = r->targets[i], .size_of = r->size_of[i]},
                        target_label(&r->targets[i], r->size_of[i]));
    if (r->ladder && !publication_add_ladder(p, e)) return false;
    return p->n || gq_fail_usage(e, "nothing to make: name file types, --target-size SIZE, or --ladder");
}

/* ---- plans and runs ---- */

static gq_plan *publication_plan(const publication *p, const gq_output *outputs, size_t n, bool dry,
                                 gq_error *e) {
    const request *r = p->request;
    progress bar;
    gq_calibration calibration;
    gq_options o = r->quantize;
    progress_start(&bar, r, NULL);
    gq_callbacks callbacks = progress_callbacks(&bar);
    gq_plan *plan = NULL;
    o.outputs = outputs, o.n_outputs = n, o.callbacks = &callbacks, o.dry_run = dry, o.model = p->model;
    o.force |= dry, o.other_inputs = r->files;
    if (!o.split_max_size) o.split_max_size = SHARD_BYTES;
    if (calibration_ask(r, &calibration, &o.calibration, e)) plan = gq_plan_new(&o, e);
    calibration_free(&calibration);
    progress_end(&bar, plan ? NULL : e);
    return plan;
}

/* Whether a file of the right size is what would be made now: its digests name the types, settings and
 * importance data of all tensors that have digests. Their sources are not read for that. */
static bool publication_is_current(const publication *p, size_t i, const char *path) {
    publication now = *p;
    request r = *p->request;
    gq_error unused;
    size_t n = 0;
    uint64_t digested = 0, bytes;
    if (r.quantize.no_digests) return true;
    now.request = &r, r.quiet = true, r.progress = 0;
    r.quantize.reuse = (gq_list){&path, 1};
    gq_plan *plan = publication_plan(&now, &p->outputs[i], 1, true, &unused);
    const gq_tensor *tensors = plan ? gq_plan_tensors(plan, 0, &n) : NULL;
    for (size_t k = 0; k < n; k++)
        digested += tensors[k].from != tensors[k].to && !tensors[k].calibrated && !tensors[k].transposed;
    bool is = plan && gq_plan_reusable(plan, 0, &bytes) == digested;
    gq_plan_free(plan);
    return is;
}

/* Whether the file that an output would be is there: all bytes of it, and sound. */
static bool publication_has_whole(const char *path, uint64_t bytes) {
    struct stat st;
    gq_error unused;
    size_t n;
    if (stat(path, &st) != 0) return false;
    gq_model *m = gq_model_open(path, &unused);
    bool whole = m && gq_model_summary(m)->file_bytes == bytes;
    gq_model_close(m);
    gq_verification *v = whole ? gq_verify(path, NULL, 0, 0, NULL, &unused) : NULL;
    const gq_verdict *verdicts = v ? gq_verification_verdicts(v, &n) : NULL;
    whole = v;
    for (size_t i = 0; whole && i < n; i++) whole = !*verdicts[i].problem;
    gq_verification_free(v);
    return whole;
}

static bool publication_run(const publication *p, const gq_plan *plan, gq_error *e) {
    progress bar;
    gq_results *results = NULL;
    size_t n = 0;
    progress_start(&bar, p->request, plan);
    gq_callbacks callbacks = progress_callbacks(&bar);
    bool ok = gq_run(plan, &callbacks, &results, e);
    progress_end(&bar, ok ? NULL : e);
    const char *const *warnings = results ? gq_results_warnings(results, &n) : NULL;
    if (!p->request->quiet) warn_all(warnings, n);
    gq_results_free(results);
    return ok;
}

/* Makes the outputs that are not there. */
static bool publication_make(publication *p, gq_error *e) {
    const request *r = p->request;
    gq_output *missing = need_memory(p->n, sizeof *missing);
    size_t n = 0, n_warnings;
    for (size_t i = 0; i < p->n; i++) {
        const gq_summary *s = gq_plan_summary(p->plan, i);
        bool whole = !r->quantize.force && publication_has_whole(s->path, s->file_bytes) &&
                     publication_is_current(p, i, s->path);
        if (whole && !r->quiet) fprintf(stderr, "%s is there and whole\n", s->path);
        if (!whole) missing[n++] = p->outputs[i];
    }
    gq_plan *plan = n ? publication_plan(p, missing, n, false, e) : NULL;
    const char *const *warnings = plan ? gq_plan_warnings(plan, &n_warnings) : NULL;
    if (plan && !r->quiet) warn_all(warnings, n_warnings);
    bool ok = !n || (plan && publication_run(p, plan, e));
    p->made = n;
    gq_plan_free(plan);
    free(missing);
    return ok;
}

static bool publication_evaluate(publication *p, gq_error *e) {
    gq_evaluation_request asked;
    if (!p->request->text) return true;
    if (!evaluation_ask(p->request, &asked, e)) return false;
    const char **paths = need_memory(p->n, sizeof *paths);
    for (size_t i = 0; i < p->n; i++) paths[i] = gq_plan_summary(p->plan, i)->path;
    asked.original = p->request->arguments[0], asked.copies = paths, asked.n_copies = p->n;
    p->evaluation = evaluation_run(p->request, &asked, e);
    evaluation_free(&asked);
    free(paths);
    return p->evaluation;
}

/* ---- the command ---- */

static void publication_print(const publication *p) {
    table t;
    table_start(&t, "lrrl");
    table_row(&t, (const char *const[]){"file", "size, GB", "bpw", "type"});
    for (size_t i = 0; i < p->n; i++) {
        const gq_summary *s = gq_plan_summary(p->plan, i);
        table_name(&t, path_reported(s->path, p->request->full_paths));
        table_cell(
            &t, text_format("%.*f", decimals_for((double)s->file_bytes / 1e9), (double)s->file_bytes / 1e9));
        table_cell(&t, text_format("%.3f", report_bits(s->out_bytes, (double)s->n_weights)));
        table_text(&t, s->filetype);
    }
    table_print(&t, stdout);
    table_free(&t);
}

static bool check_request(const request *r, gq_error *e) {
    if (!r->out_dir) return gq_fail_usage(e, "--out-dir DIR is missing: the folder for files and page");
    return check_template(r, e) && check_page(r, e);
}

static bool publication_open(publication *p, gq_error *e) {
    const request *r = p->request;
    gq_memory memory = {.size = sizeof memory};
    p->model = gq_model_open(r->arguments[0], e);
    if (!p->model) return false;
    gq_model_memory(p->model, 0, &memory);
    p->memory = memory.cache_bytes + memory.buffer_bytes, p->context = memory.context;
    return publication_name_model(p, e) && publication_list(p, e);
}

static bool publication_do(publication *p, gq_error *e) {
    size_t n;
    const request *r = p->request;
    p->plan = publication_plan(p, p->outputs, p->n, true, e);
    if (!p->plan) return false;
    const char *const *warnings = gq_plan_warnings(p->plan, &n);
    if (r->dry_run) {
        if (!r->quiet) warn_all(warnings, n), publication_print(p);
        return true;
    }
    bool ok = publication_make(p, e) && publication_evaluate(p, e) && publication_write_page(p, e);
    if (ok && !r->quiet) {
        publication_print(p);
        printf("%s: %zu of %zu files made, README.md, SHA256SUMS%s\n", r->out_dir, p->made, p->n,
               p->evaluation ? ", divergence.svg" : "");
    }
    return ok;
}

int publish_main(const request *asked) {
    gq_error e = {0};
    request r = *asked;
    if (!r.name) r.name = "{model}-{type}.gguf";
    r.quantize.input = r.arguments[0];
    publication p = {.request = &r};
    size_t made = 0;
    signal(SIGPIPE, SIG_IGN);
    interrupt_catch();
    bool ok = check_request(&r, &e) && path_make_folder(r.out_dir, &made, &e) && publication_open(&p, &e) &&
              publication_do(&p, &e);
    if (!ok || r.dry_run) path_remove_folder(r.out_dir ? r.out_dir : "", made); /* only if it is empty */
    gq_evaluation_free(p.evaluation);
    gq_plan_free(p.plan);
    gq_model_close(p.model);
    for (size_t i = 0; i < p.n; i++) free((void *)p.outputs[i].path), free(p.labels[i]);
    free(p.outputs), free(p.labels), free(p.stem);
    return ok ? GQ_OK : say_failure(&e);
}
