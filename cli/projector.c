/* --mmproj: one more plan and run of the library, of the same folder. It is planned before the text model's
 * work begins, so that a class that has no projector is reported at once, and written first: it is small. Its
 * name is that of the folder, with "mmproj-" in front, as llama.cpp's programs look for it. Of ranks the
 * first one does it, and the others wait. */
#include "cli/cli.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

void projector_say_beside(const request *r, const gq_plan *plan) {
    size_t n;
    const gq_beside *b = gq_plan_beside(plan, &n);
    char *line = NULL, size[UNIT_ROOM];
    bool more = false;
    for (size_t i = 0; i < n; i++) {
        char *item =
            b[i].is_in_outputs
                ? text_format("%" PRIu64 " MTP layer%s (in the output)", b[i].n, plural_suffix(b[i].n))
                : text_format("%s (%" PRIu64 " array%s, %s)", b[i].kind, b[i].n, plural_suffix(b[i].n),
                              file_text(size, (double)b[i].bytes));
        char *whole = text_format("%s%s%s", line ? line : "", line ? ", " : "", item);
        more |= !strcmp(b[i].kind, "vision") || !strcmp(b[i].kind, "audio");
        free(line), free(item);
        line = whole;
    }
    if (line)
        print_line(stderr, "the folder also holds: %s%s", line,
                   more && !r->mmproj ? "; --mmproj writes the multimodal projector" : "");
    free(line);
}

/* Returns the folder that the projector goes to, malloc'ed; NULL: beside the input. */
static char *projector_folder(const request *r, const gq_plan *main) {
    const char *path = main && r->quantize.outputs[0].path ? gq_plan_summary(main, 0)->path : NULL;
    const char *slash = path ? strrchr(path, '/') : NULL;
    if (r->out_dir) return text_format("%s", r->out_dir);
    return !path   ? NULL
           : slash ? text_format("%.*s", (int)(slash == path ? 1 : slash - path), path)
                   : text_format(".");
}

static bool projector_is_asked(const request *r) { return r->mmproj && strcmp(r->mmproj, "none") != 0; }

static gq_plan *projector_plan_in(const request *r, const char *folder, bool dry, gq_error *e) {
    const gq_output out = {.filetype = r->mmproj};
    const gq_options asked = {.size = sizeof asked,
                              .input = r->quantize.input,
                              .outputs = &out,
                              .n_outputs = 1,
                              .out_dir = folder,
                              .threads = r->quantize.threads,
                              .force = r->quantize.force,
                              .dry_run = dry,
                              .no_digests = r->quantize.no_digests,
                              .adapters = {.items = r->quantize.adapters.items, .n = r->quantize.adapters.n},
                              .projector = true};
    return gq_plan_new(&asked, e);
}

/* Refuses a projector in the place of an output, or of a file that an option names. */
static bool projector_check_name(const request *r, const gq_plan *main, const char *path, gq_error *e) {
    for (size_t o = 0; main && o < gq_plan_outputs(main); o++)
        if (path_same(gq_plan_summary(main, o)->path, path))
            return gq_fail_usage(e,
                                 "the projector would be named %s, which is an output; give the output "
                                 "another name, or make the projector alone",
                                 path);
    for (size_t i = 0; i < r->files.n; i++)
        if (path_same(path, r->files.items[i]))
            return gq_fail_usage(e, "the projector would be named %s, which is an input; rename that", path);
    return true;
}

/* Whether the existing file is the projector that would be written, left by a run that was stopped after it.
 * Another file is an error. */
static bool projector_keep(const request *r, const gq_plan *plan, gq_error *e) {
    gq_found found = {0};
    const char *path = gq_plan_summary(plan, 0)->path;
    if (!gq_check_earlier(plan, &found, NULL, e)) return false;
    if (!found.is_whole)
        return gq_fail_remedy(e, GQ_REMEDY_REPLACE, "%s already exists with other content: %s", path,
                              found.why.text);
    size_t n;
    const char *const *warnings = gq_plan_warnings(plan, &n);
    if (!r->quiet) warn_all(r->said, warnings, n);
    if (!r->quiet) print_line(stderr, "%s: already exists and is complete", path);
    return true;
}

/* The same as projector_plan, of a process alone. */
static bool projector_plan_alone(const request *r, const gq_plan *main, gq_plan **plan, gq_error *e) {
    gq_error why = {0};
    char *folder = projector_folder(r, main);
    *plan = projector_plan_in(r, folder, r->dry_run, &why);
    bool is_there = !*plan && why.remedy == GQ_REMEDY_REPLACE;
    if (is_there) *plan = projector_plan_in(r, folder, true, &why);
    free(folder);
    if (!*plan) return *e = why, false;
    bool ok = projector_check_name(r, main, gq_plan_summary(*plan, 0)->path, e) &&
              (!is_there || projector_keep(r, *plan, e));
    if (is_there) gq_plan_free(*plan), *plan = NULL;
    return ok;
}

bool projector_plan(const request *r, const gq_plan *main, gq_plan **plan, gq_error *e) {
    *plan = NULL;
    return !projector_is_asked(r) ||
           gq_comm_agree(r->comm, gq_comm_rank(r->comm) > 0 || projector_plan_alone(r, main, plan, e), e);
}

static void projector_say(const request *r, const gq_plan *plan) {
    size_t n;
    const gq_summary *s = gq_plan_summary(plan, 0);
    char in[UNIT_ROOM], out[UNIT_ROOM];
    const char *const *warnings = gq_plan_warnings(plan, &n);
    if (!r->quiet) warn_all(r->said, warnings, n);
    if (!r->quiet)
        print_line(stderr, "%s: %s, %" PRIu64 " tensor%s of %s -> file %s%s", s->path, s->filetype,
                   s->n_tensors, plural_suffix(s->n_tensors), file_text(in, (double)s->in_bytes),
                   file_text(out, (double)s->file_bytes), r->dry_run ? ", only planned" : "");
}

static bool projector_write(const request *r, const gq_plan *plan, gq_error *e) {
    progress p;
    gq_results *results = NULL;
    projector_say(r, plan);
    if (r->dry_run) return true;
    progress_start(&p, r, plan);
    gq_callbacks callbacks = progress_callbacks(&p);
    bool ok = gq_run(plan, &callbacks, &results, e);
    progress_end(&p, ok ? NULL : e);
    gq_results_free(results);
    return ok;
}

bool projector_run(const request *r, const gq_plan *plan, gq_error *e) {
    return !projector_is_asked(r) || gq_comm_agree(r->comm, !plan || projector_write(r, plan, e), e);
}

int projector_main(const request *r) {
    gq_error e = {0};
    gq_plan *plan = NULL;
    size_t made = 0;
    bool makes = r->out_dir && !r->dry_run && gq_comm_rank(r->comm) == 0;
    bool ok = gq_comm_agree(r->comm, !makes || path_make_folder(r->out_dir, &made, &e), &e) &&
              projector_plan(r, NULL, &plan, &e);
    if (ok && !r->dry_run) interrupt_catch();
    ok = ok && projector_run(r, plan, &e);
    if (!ok) path_remove_folder(r->out_dir ? r->out_dir : "", made);
    gq_plan_free(plan);
    return ok ? GQ_OK : say_failure(r->said, &e);
}
