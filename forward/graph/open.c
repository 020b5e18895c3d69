/* Opens a model that is to be run: it is whole, or refused. */
#include "forward/graph/layer_part.h"
#include "forward/graph/model.h"

/* row NULL: the architecture is not known at all. */
static bool unknown_architecture(const char *path, const char *name, const architecture *row, gq_error *e) {
    const char *kind = row ? row->kind : NULL;
    if (!*name) return gq_fail(e, "%s: there is no key general.architecture", path);
    return gq_fail(e,
                   "%s: architecture '%s' cannot be run%s%s; it can be quantized, also with an imatrix that "
                   "another program computed for tensors of these names%s (docs/internals/forward.md lists "
                   "the architectures that can be run)",
                   path, name, kind ? ": it is " : "", kind ? kind : "",
                   !kind ? ", and log-probabilities that another program has written of it and of its "
                           "quantized models can be compared"
                         : "");
}

static bool none_may_lack(void *, const char *) { return false; }

/* Refuses what all other commands refuse, even if a run does not read it: token ids, rows that the metadata
 * name. Doubts do not stop a run. */
static bool model_is_whole(const model_source *g, gq_error *e) {
    warning_list doubts = {0};
    bool ok = forward_model_check(g, &(model_expected){.may_lack = none_may_lack, .doubts = &doubts}, e);
    if (!ok && e) e->remedy = GQ_REMEDY_NONE; /* there is none that a run knows */
    warnings_free(&doubts);
    return ok;
}

forward_model *forward_model_new(const model_source *g, gq_error *e) {
    model_facts facts = model_facts_of(g->kv, g->n_kv, NULL, 0);
    const architecture *row = arch_of_facts(&facts);
    if (!arch_can_run(row)) return unknown_architecture(g->path, facts.arch, row, e), NULL;
    if (!model_is_whole(g, e)) return NULL;
    return model_new_of(g, row, layer_parts, e);
}
