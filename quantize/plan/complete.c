#include "quantize/plan/complete.h"
#include "arch/arch.h"

#include <stdlib.h>
#include <string.h>

#include "graph/forward.h"
#include "mixes/patterns.h"
#include "model/value.h"

/* The patterns of tensors that may be missing. */
typedef struct allowed_missing {
    const mix_pattern *patterns;
    mix_matcher *matcher;
    bool *matched; /* one for each pattern */
    bool failed;
    gq_error *e;
} allowed_missing;

static bool complete_may_lack(void *user, const char *tensor) {
    allowed_missing *a = user;
    uint32_t unused;
    size_t number;
    if (!a->matcher || a->failed) return false;
    a->failed = !mix_patterns_find(a->patterns, a->matcher, tensor, &number, &unused, a->e);
    if (a->failed || number == MIX_NO_PATTERN) return false;
    return a->matched[number] = true;
}

/* Files of these kinds have only some tensors, some of them with the architecture of a whole model; or there is nothing
 * more to compare. */
static bool is_no_model(const gq_plan *plan) {
    static const char *const kinds[][2] = {
        {"general.type", "adapter"}, {"general.type", "imatrix"}, {"general.type", "mmproj"}};
    model_facts facts = model_facts_of(plan->model.kv, plan->model.n_kv, NULL, 0);
    const architecture *a = arch_of_facts(&facts);
    const char *text;
    uint64_t n;
    if (a && a->is_projector) return true;
    if (a && a->folder.shapes && plan->model.version == 0)
        return true; /* a folder that was compared when it was opened */
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (model_kv_string(model_kv_find(plan->model.kv, plan->model.n_kv, kinds[i][0]), &text, &n) &&
            n == strlen(kinds[i][1]) && !memcmp(text, kinds[i][1], n))
            return true;
    return false;
}

static bool complete_warn_idle(gq_plan *plan, const gq_list *patterns, const bool *matched, gq_error *e) {
    for (size_t i = 0; i < patterns->n; i++)
        if (!matched[i])
            return warnings_add(&plan->warnings, e,
                                "no tensor is missing whose name matches '%s', which may be missing",
                                patterns->items[i]);
    return true;
}

bool plan_check_complete(gq_plan *plan, const gq_options *options, gq_error *e) {
    const gq_list *list = &options->allow_missing;
    if (plan->model.n_tensors == 0)
        return warnings_add(
            &plan->warnings, e,
            "the model has no tensors: it is a vocabulary alone, and so is what is made of it");
    if (is_no_model(plan)) return true;
    mix_pattern *patterns = list->n ? mix_patterns_new(list->items, list->n, false, e) : NULL;
    allowed_missing allowed = {.patterns = patterns,
                               .matcher = patterns ? mix_matcher_new(e) : NULL,
                               .matched = calloc(list->n + 1, sizeof *allowed.matched),
                               .e = e};
    bool ok = (!list->n || allowed.matcher) && (allowed.matched || gq_fail_memory(e, list->n));
    const forward_expected expected = {.set = plan->overrides.items,
                                       .n_set = plan->overrides.n,
                                       .may_lack = complete_may_lack,
                                       .user = &allowed,
                                       .doubts = &plan->warnings,
                                       .without_blocks = options->no_mtp};
    gq_error why;
    if (ok && !(ok = forward_model_check(&plan->model, &expected, &why)) && !allowed.failed && e) *e = why;
    ok = ok && !allowed.failed && complete_warn_idle(plan, list, allowed.matched, e);
    free(allowed.matched);
    mix_matcher_free(allowed.matcher);
    mix_patterns_free(patterns);
    return ok;
}
