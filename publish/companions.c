#include "publish/publish.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"

/* Kinds of companion files: how the name begins, and the plan's options for the file. */
static const struct {
    const char *prefix;
    gq_options options;
} companions[GQ_COMPANIONS] = {[GQ_PROJECTOR] = {"mmproj-", {.projector = true}},
                               [GQ_MTP_FILE] = {"mtp-", {.mtp_only = true}},
                               [GQ_DRAFT_FILE] = {"draft-", {.threads = 0}}};

bool publication_has_sense(const gq_publication *p, const char *kind) {
    size_t n;
    const gq_beside *b = gq_plan_beside(p->plan, &n);
    for (size_t i = 0; i < n; i++)
        if (!strcmp(b[i].kind, kind)) return true;
    return false;
}

/* Returns the type that a companion is made in; NULL: it is not made. */
static const char *companion_type(const gq_publication *p, gq_companion which) {
    const gq_publish_request *r = &p->request;
    if (which == GQ_MTP_FILE) return r->mtp_file;
    if (which == GQ_DRAFT_FILE) return !r->draft ? NULL : r->draft_type ? r->draft_type : "Q8_0";
    if (r->projector) return strcmp(r->projector, "none") != 0 ? r->projector : NULL;
    return publication_has_sense(p, "vision") || publication_has_sense(p, "audio") ? "F16" : NULL;
}

/* Plans one of the type under its name in the folder. */
static gq_plan *companion_plan_as(const gq_publication *p, gq_companion which, const char *type, bool dry,
                                  gq_error *e) {
    char *path = NULL;
    if (asprintf(&path, "%s/%s%s-%s.gguf", p->options.out_dir, companions[which].prefix, p->stem, type) < 0)
        return gq_fail_memory(e, strlen(p->stem)), NULL;
    const gq_output out = {.path = path, .filetype = type};
    gq_options o = companions[which].options;
    if (which == GQ_MTP_FILE) { /* made as the table's files are, but for what concerns several */
        o = p->options, o.mtp_only = true, o.no_mtp = false;
        o.calibration = NULL, o.forecast = o.foretell = false, o.measure_file = NULL, o.callbacks = NULL;
        o.reuse = (gq_list){.n = 0}, o.split_max_size = 0;
    }
    o.size = sizeof o, o.input = p->options.input, o.outputs = &out, o.n_outputs = 1;
    o.threads = p->options.threads, o.force = p->options.force, o.dry_run = dry;
    o.no_digests = p->options.no_digests, o.other_inputs = p->options.other_inputs;
    o.allow_requantize = p->options.allow_requantize;
    if (which == GQ_PROJECTOR) o.adapters = p->options.adapters;
    if (which == GQ_DRAFT_FILE) o.input = p->request.draft;
    gq_error why = {0};
    gq_plan *plan = gq_plan_new(&o, &why);
    if (!plan && why.remedy == GQ_REMEDY_TARGET_MODEL && which == GQ_DRAFT_FILE) {
        o.adapters.target = p->options.input; /* whose vocabulary the draft's folder takes */
        plan = gq_plan_new(&o, &why);
    }
    if (!plan) *e = why;
    free(path);
    return plan;
}

/* A warning about one file becomes one about the folder, once. */
static bool companion_warn_of(gq_publication *p, gq_companion which, const char *const *all, size_t n,
                              gq_error *e) {
    warning_list warnings = {0};
    bool ok = true;
    for (size_t i = 0; ok && i < n; i++)
        ok = warnings_add(&warnings, e, "%s: %s", gq_plan_summary(p->companions[which], 0)->path, all[i]);
    ok = ok && warnings_join(&p->warnings, &warnings, e);
    warnings_free(&warnings);
    return ok;
}

/* A draft drafts for this model. */
static bool companion_check(const gq_publication *p, gq_companion which, gq_error *e) {
    return which != GQ_DRAFT_FILE ||
           gq_check_draft(p->request.draft, p->options.input, &p->options.adapters, e);
}

static bool companion_warn(gq_publication *p, gq_companion which, const gq_plan *plan, gq_error *e) {
    size_t n;
    const char *const *all = gq_plan_warnings(plan, &n);
    return companion_warn_of(p, which, all, n, e);
}

/* Plans one. A projector that nobody asked for may be of a kind that cannot be made here. */
static bool companion_plan(gq_publication *p, gq_companion which, const char *type, gq_error *e) {
    gq_error why = {0};
    bool is_projector = which == GQ_PROJECTOR;
    p->companions[which] = companion_plan_as(p, which, type, true, &why);
    if (p->companions[which])
        return companion_check(p, which, e) && companion_warn(p, which, p->companions[which], e);
    if (is_projector && !p->request.projector && why.remedy == GQ_REMEDY_OTHER_PROGRAM)
        return warnings_add(&p->warnings, e, "the projector (mmproj) is left out: %s", why.text);
    if (is_projector) return gq_fail_again(e, &why, "the projector (mmproj): %s", why.text);
    *e = why;
    return false;
}

bool publication_plan_companions(gq_publication *p, gq_error *e) {
    for (gq_companion i = 0; i < GQ_COMPANIONS; i++) {
        const char *type = companion_type(p, i);
        if (type && !companion_plan(p, i, type, e)) return false;
    }
    return true;
}

static bool companion_make(gq_publication *p, gq_companion which, gq_error *e) {
    const gq_callbacks *asked = p->request.callbacks;
    /* The file is small: writing can be stopped, but is not part of the reported progress. */
    gq_callbacks none = {.size = sizeof none};
    if (asked) none.cancelled = asked->cancelled, none.user = asked->user;
    gq_found found = {0};
    gq_results *results = NULL;
    const gq_summary *s = gq_plan_summary(p->companions[which], 0);
    if (!p->options.force && !gq_check_earlier(p->companions[which], &found, &none, e)) return false;
    if (found.is_there && !found.is_whole)
        return gq_fail_remedy(e, GQ_REMEDY_REPLACE, "%s already exists with other content: %s", s->path,
                              found.why.text);
    if (found.is_whole) {
        if (p->request.kept) p->request.kept(p->request.user, s->path);
        return true;
    }
    gq_plan *plan = companion_plan_as(p, which, s->filetype, false, e);
    bool ok = plan && companion_warn(p, which, plan, e) && gq_run(plan, &none, &results, e);
    p->companions_made += ok;
    size_t n = 0;
    const char *const *warnings = results ? gq_results_warnings(results, &n) : NULL;
    ok = ok && companion_warn_of(p, which, warnings, n, e);
    gq_results_free(results);
    gq_plan_free(plan);
    return ok;
}

bool publication_make_companions(gq_publication *p, gq_error *e) {
    for (gq_companion i = 0; i < GQ_COMPANIONS; i++)
        if (p->companions[i] && !companion_make(p, i, e)) return false;
    return true;
}

bool companion_is_named(const char *file, const char *stem) {
    size_t n = strlen(stem);
    if (n && !strncmp(file, stem, n) && !strncmp(file + n, "-imatrix.", strlen("-imatrix."))) return true;
    for (gq_companion i = 0; i < GQ_COMPANIONS; i++) {
        size_t begins = strlen(companions[i].prefix);
        if (!strncmp(file, companions[i].prefix, begins) && !strncmp(file + begins, stem, n) &&
            (!n || file[begins + n] == '-'))
            return true;
    }
    return false;
}
