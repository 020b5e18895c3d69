#include "publish/projector.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/warnings.h"

/* Whether the folder has arrays that see or hear. */
static bool publication_has_senses(const gq_publication *p) {
    size_t n;
    const gq_beside *b = gq_plan_beside(p->plan, &n);
    for (size_t i = 0; i < n; i++)
        if (!strcmp(b[i].kind, "vision") || !strcmp(b[i].kind, "audio")) return true;
    return false;
}

/* Plans a projector of the type under its name, malloc'ed, in the folder. */
static gq_plan *projector_plan_as(const gq_publication *p, const char *type, bool dry, gq_error *e) {
    char *path = NULL;
    if (asprintf(&path, "%s/mmproj-%s-%s.gguf", p->options.out_dir, p->stem, type) < 0)
        return gq_fail_memory(e, strlen(p->stem)), NULL;
    const gq_output out = {.path = path, .filetype = type};
    const gq_options o = {.size = sizeof o,
                          .input = p->options.input,
                          .outputs = &out,
                          .n_outputs = 1,
                          .threads = p->options.threads,
                          .force = p->options.force || dry,
                          .dry_run = dry,
                          .no_digests = p->options.no_digests,
                          .other_inputs = p->options.other_inputs,
                          .projector = true};
    gq_plan *plan = gq_plan_new(&o, e);
    free(path);
    return plan;
}

bool publication_plan_projector(gq_publication *p, gq_error *e) {
    const char *asked = p->request.projector;
    gq_error why = {0};
    if ((asked && !strcmp(asked, "none")) || (!asked && !publication_has_senses(p))) return true;
    p->projector = projector_plan_as(p, asked ? asked : "F16", true, &why);
    if (p->projector) return true;
    if (!asked && why.remedy == GQ_REMEDY_OTHER_PROGRAM)
        return warnings_add(&p->warnings, e, "the projector (mmproj) is left out: %s", why.text);
    return gq_fail_again(e, &why, "the projector (mmproj): %s", why.text);
}

bool publication_make_projector(gq_publication *p, gq_error *e) {
    const gq_callbacks *asked = p->request.callbacks;
    /* It is small: it can be stopped, but its progress is no part of the folder's. */
    gq_callbacks none = {.size = sizeof none};
    if (asked) none.cancelled = asked->cancelled, none.user = asked->user;
    gq_found found = {0};
    gq_results *results = NULL;
    if (!p->projector) return true;
    const gq_summary *s = gq_plan_summary(p->projector, 0);
    if (!p->options.force && !gq_check_earlier(p->projector, &found, &none, e)) return false;
    if (found.is_there && !found.is_whole)
        return gq_fail_remedy(e, GQ_REMEDY_REPLACE,
                              "%s is there already, and is not what would be written: %s", s->path,
                              found.why.text);
    if (found.is_whole) {
        if (p->request.kept) p->request.kept(p->request.user, s->path);
        return true;
    }
    gq_plan *plan = projector_plan_as(p, s->filetype, false, e);
    bool ok = plan && gq_run(plan, &none, &results, e);
    gq_results_free(results);
    gq_plan_free(plan);
    return ok;
}
