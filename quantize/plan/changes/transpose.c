#include "quantize/plan/changes/transpose.h"
#include "gguf/gguf.h"
#include "gguf/header.h"

#include <stdlib.h>
#include <string.h>

#include "mixes/patterns.h"
#include "quantize/strips/strip.h"

static void transpose_source(plan_source *s) {
    s->view = *s->stored;
    transposed_shape(s->stored->ne, s->view.ne);
    s->tensor = &s->view;
    s->transposed = !s->stored->transposed;
}

/* Transposes the sources that a pattern names, and notes in `found` which one did. Vectors are left out: they
 * have no other order, and a pattern may be meant for whole layers. */
static bool transpose_matches(gq_plan *plan, const mix_pattern *patterns, mix_matcher *m, mix_choice *found,
                              gq_error *e) {
    for (size_t i = 0; i < plan->n_tensors; i++) {
        plan_source *s = &plan->sources[i];
        uint32_t unused;
        found[i].keeper = MIX_NO_PATTERN;
        if (!shape_is_matrix(s->stored->ne)) continue;
        if (!mix_patterns_find(patterns, m, s->name, &found[i].keeper, &unused, e)) return false;
        if (found[i].keeper != MIX_NO_PATTERN) transpose_source(s);
    }
    return true;
}

static bool transpose_warn_idle(gq_plan *plan, const mix_pattern *patterns, const mix_choice *found,
                                gq_error *e) {
    mix_idle_patterns idle;
    if (!mix_patterns_idle(patterns, found, plan->n_tensors, &idle, e)) return false;
    size_t n = idle.unmatched;
    return n == 0 ||
           warnings_add(&plan->warnings, e,
                        "%zu %s of what to transpose: no matrix matches, or earlier patterns take all that "
                        "do%s%s'",
                        n, n == 1 ? "pattern" : "patterns", n == 1 ? ": '" : "; first: '",
                        idle.first_unmatched);
}

bool plan_transpose(gq_plan *plan, const gq_options *options, gq_error *e) {
    const gq_list *asked = &options->transpose;
    if (asked->n == 0) return true;
    mix_pattern *patterns = mix_patterns_new(asked->items, asked->n, false, e);
    mix_matcher *m = patterns ? mix_matcher_new(e) : NULL;
    mix_choice *found = calloc(plan->n_tensors + 1, sizeof *found);
    bool ok = m && (found || gq_fail_memory(e, plan->n_tensors * sizeof *found)) &&
              transpose_matches(plan, patterns, m, found, e) && transpose_warn_idle(plan, patterns, found, e);
    mix_matcher_free(m);
    mix_patterns_free(patterns);
    free(found);
    return ok;
}

bool plan_transposed_write(const gq_plan *plan, gguf_header *h, gq_error *e) {
    const char **names = calloc(plan->n_tensors + 1, sizeof *names);
    uint64_t n = 0;
    if (!names) return gq_fail_memory(e, plan->n_tensors * sizeof *names);
    for (size_t i = 0; i < plan->n_tensors; i++)
        if (plan->sources[i].transposed) names[n++] = plan->sources[i].name;
    bool ok = !n || gguf_header_set_texts(h, GGUF_TRANSPOSED_KEY, names, n, e);
    free((void *)names);
    return ok;
}
