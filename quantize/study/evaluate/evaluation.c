#include <stdlib.h>

#include "quantize/study/evaluate/evaluation.h"

gq_evaluation *evaluation_alloc(size_t n, gq_error *e) {
    gq_evaluation *v = calloc(1, sizeof *v);
    if (!v) return gq_fail_memory(e, sizeof *v), NULL;
    v->n = n;
    v->runners = calloc(n, sizeof *v->runners);
    v->paths = calloc(n, sizeof *v->paths);
    v->models = calloc(n, sizeof *v->models);
    v->bases = calloc(n, sizeof *v->bases);
    if (v->runners && v->paths && v->models && v->bases) return v;
    gq_fail_memory(e, n * sizeof *v->models);
    gq_evaluation_free(v);
    return NULL;
}

void gq_evaluation_free(gq_evaluation *v) {
    if (!v) return;
    for (size_t i = 0; v->runners && i < v->n; i++) {
        forward_model_free(v->runners[i].model);
        model_close(&v->runners[i].file);
        if (v->paths) free(v->paths[i]);
    }
    for (size_t i = 0; v->bases && i < v->n; i++) base_file_close(&v->bases[i]);
    drafter_close(&v->drafter);
    free(v->continued), free(v->chosen), free(v->drafted), free(v->scores_path), free(v->runners),
        free(v->paths), free(v->models), free(v->bases);
    windows_free(&v->windows);
    scores_free(&v->scores);
    warnings_free(&v->warnings);
    free(v);
}

const gq_evaluated *gq_evaluation_models(const gq_evaluation *v, size_t *n) {
    *n = v->n;
    return v->models;
}

void gq_evaluation_difference(const gq_evaluation *v, size_t a, size_t b, gq_estimate *to) {
    *to = figures_difference(&v->scores, a, b);
}

bool gq_evaluation_interval(const gq_evaluation *v, gq_statistic of, size_t a, size_t b, gq_interval *to,
                            gq_error *e) {
    if (of > GQ_SURPRISE || a >= v->n || b >= v->n || (a == 0 && (of != GQ_SURPRISE || b)))
        return gq_fail_usage(e, "there is no such statistic of these models");
    return figures_interval(&v->scores, of, a, b, to, e);
}

size_t gq_evaluation_depths(const gq_evaluation *v, size_t model, gq_depth to[GQ_DEPTHS]) {
    const text_windows *w = &v->windows;
    if (w->targets) return 0; /* a mask is predicted from the whole window */
    return figures_depths(&v->scores, model, w->context - 1 - windows_scored(w), to);
}

bool gq_evaluation_level(const gq_evaluation *v, size_t model, gq_level *to, gq_error *e) {
    gq_interval apart, flips;
    if (!gq_evaluation_interval(v, GQ_DIVERGENCE, model, 0, &apart, e) ||
        !gq_evaluation_interval(v, GQ_FLIPS, model, 0, &flips, e))
        return false;
    return *to = figures_level(&apart, &flips), true;
}

bool gq_evaluation_continued(const gq_evaluation *v, size_t model, gq_continued *to) {
    if (!v->continued || model == 0 || model >= v->n) return false;
    return *to = v->continued[model], true;
}

bool gq_evaluation_chosen(const gq_evaluation *v, size_t model, gq_chosen *to) {
    if (!v->chosen || model >= v->n) return false;
    return *to = v->chosen[model], true;
}

bool gq_evaluation_drafted(const gq_evaluation *v, size_t model, gq_drafted *to) {
    if (!v->drafted || model >= v->n) return false;
    return *to = v->drafted[model], true;
}

const gq_evaluation_facts *gq_evaluation_summary(const gq_evaluation *v) { return &v->facts; }

const char *const *gq_evaluation_warnings(const gq_evaluation *v, size_t *n) {
    return warnings_texts(&v->warnings, n);
}
