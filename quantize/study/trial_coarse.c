#include "quantize/study/trial_coarse.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "quantize/strips/schedule.h"

typedef struct coarse {
    const gq_plan *plan;
    const plan_source *source;
    const tensor_type *type;
    uint8_t *blocks;
} coarse;

static bool encode_piece(void *arg, work_piece *p, gq_error *e) {
    const coarse *c = arg;
    strip_pair *scratch = p->scratch;
    const model_tensor *t = c->source->tensor;
    uint64_t piece = strip_whole(t, STRIP_PIECE), at = p->number * piece;
    uint64_t end = min(shape_elements(t->ne), at + piece);
    strip_encoder to = {.kernels = c->plan->kernels, .type = c->type, .settings = &c->plan->settings};
    while (at < end) {
        strip s = strip_from(t->ne, at, end - at < STRIP_ELEMENTS ? end : at + STRIP_ELEMENTS);
        size_t n = s.rows * s.cols;
        codec_error sum = {0};
        to.importance = strip_importance(&s, &c->source->inputs);
        if (!strip_read_decoded(c->plan->kernels, &c->plan->model, t, at, n, scratch->stored[0],
                                scratch->decoded[0], e))
            return false;
        size_t held = strip_encode(&to, scratch->decoded[0], s.rows, s.cols, scratch->stored[1],
                                   scratch->decoded[1], &sum);
        if (held < n)
            return strip_fail_to_hold(&to, &c->plan->model, t, at + held, scratch->decoded[0][held], e);
        memcpy(c->blocks + tensor_type_bytes(c->type, t->ne[0], at), scratch->stored[1],
               tensor_type_bytes(c->type, s.cols, n));
        at += n;
    }
    return true;
}

uint8_t *trial_encode(const trials *t, const trial *of, size_t k, gq_error *e) {
    coarse c = {t->plan, &t->plan->sources[of->tensor[k]], tensor_type_of(budget_types[of->type[k]]), NULL};
    const uint64_t *ne = c.source->tensor->ne, n = shape_elements(ne),
                   bytes = tensor_type_bytes(c.type, ne[0], n);
    schedule s = {.pool = NULL};
    c.blocks = malloc(bytes);
    if (!c.blocks) return gq_fail_memory(e, bytes), NULL;
    bool ok =
        schedule_start(&s, t->job.threads, sizeof(strip_pair), NULL, e) &&
        schedule_run(
            &s, &(schedule_job){.end = strip_pieces(c.source->tensor), .work = encode_piece, .arg = &c}, e);
    schedule_end(&s);
    if (!ok) free(c.blocks), c.blocks = NULL;
    return c.blocks;
}

bool trial_replace(const trials *t, trial *of, forward_layer *l, gq_error *e) {
    bool ok = true;
    for (size_t k = 0; ok && k < of->n; k++) {
        ok = (of->blocks[k] = trial_encode(t, of, k, e)) != NULL;
        forward_layer_replace(l, t->plan->sources[of->tensor[k]].tensor, budget_types[of->type[k]],
                              of->blocks[k]);
    }
    forward_layer_use(l, true);
    return ok;
}

void trial_restore(const trials *t, trial *of, forward_layer *l) {
    forward_layer_use(l, false);
    for (size_t k = 0; k < of->n; k++) {
        forward_layer_replace(l, t->plan->sources[of->tensor[k]].tensor, budget_types[of->type[k]], NULL);
        free(of->blocks[k]), of->blocks[k] = NULL;
    }
}
