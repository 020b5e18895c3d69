#include "quantize/study/evaluate/asked_texts.h"

#include <stdlib.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/memory.h"
#include "pass/groups.h"

void asked_begin(asked_texts *t, const side_by_side *s, size_t context) {
    *t = (asked_texts){.windows.context = max(context, 2), .limits.memory = s->memory};
    t->packer = (windows_packer){.w = &t->windows, .limits = &t->limits};
}

void asked_free(asked_texts *t) {
    windows_free(&t->windows);
    free(t->packer.used), free(t->begins);
    *t = (asked_texts){.n = 0};
}

bool asked_add(asked_texts *t, const uint32_t *ids, size_t n, size_t first, gq_error *e) {
    uint32_t *weights = calloc(n, sizeof *weights);
    size_t begin;
    if (!weights) return gq_fail_memory(e, n * sizeof *weights);
    for (size_t i = first; i < n; i++) weights[i] = FORWARD_WEIGHT_ONE;
    bool ok = memory_grow(&t->begins, &t->capacity, t->n + 1, sizeof *t->begins, e) &&
              windows_pack(&t->packer, ids, weights, n, &begin, e);
    if (ok) t->begins[t->n++] = begin + first;
    free(weights);
    return ok;
}

size_t asked_position(const asked_texts *t, size_t token) {
    size_t context = t->windows.context;
    return token / context * (context - 1) + token % context - 1;
}

bool asked_add_peak(const asked_texts *t, const side_by_side *s, uint64_t *peak, gq_error *e) {
    side_by_side own = *s;
    forward_bounds bounds;
    own.windows = &t->windows, own.states = NULL, own.logits = own.base_out = NULL;
    if (!side_by_side_bounds(&own, &bounds, e)) return false;
    *peak = max(*peak, add_sat(bounds.peak, side_by_side_score_bytes(s)));
    return true;
}

bool asked_run(const asked_texts *t, const side_by_side *s, size_t n, size_t tops, scores *to, gq_error *e) {
    side_by_side own = *s;
    warning_list unused = {.n = 0};
    size_t scored = t->windows.context - 1, positions = t->windows.n * scored;
    forward_job windows = windows_job(&t->windows);
    own.windows = &t->windows, own.n = n, own.states = NULL, own.logits = own.base_out = NULL;
    bool ok = scores_new(to, positions, token_group_windows(t->windows.context) * scored, n, e) &&
              scores_set_weights(to, &windows, e);
    for (size_t m = 0; ok && m < tops; m++) {
        to->models[m].top = calloc(positions, sizeof *to->models[m].top);
        ok = to->models[m].top || gq_fail_memory(e, positions * sizeof *to->models[m].top);
    }
    ok = ok && side_by_side_run(&own, to, &unused, e);
    warnings_free(&unused);
    return ok;
}
