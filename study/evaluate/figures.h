/* The figures of an evaluation: for every scored position the results of each model, and from these
 * perplexities, divergences and their standard errors.
 *
 * Errors are standard errors of a mean over positions, which are taken for independent samples.
 */
#pragma once

#include "forward/stream/job.h"
#include "quantize/gquant_study.h"

/* Positions of a window that are scored: the second half, but for the last one, whose successor is not in the
 * window. Windows have at least four tokens. */
static inline size_t scored_from(size_t context) { return context / 2; }
static inline size_t scored_of(size_t context) { return context - 1 - scored_from(context); }
/* Returns where the text has the right token of a scored position, which is the next one. Positions are
 * counted over all windows, and so are the text's tokens. */
static inline size_t scored_right(size_t context, size_t position) {
    size_t n = scored_of(context);
    return position / n * context + scored_from(context) + position % n + 1;
}

/* All positions of one model, in order. */
typedef struct model_scores {
    double *log_p;   /* logarithm of the right token's probability */
    double *kld;     /* from the base model, in nats; NULL for itself */
    bool *same_top1; /* whether the likeliest token is the base model's; NULL for itself */
    /* Of a model with a prediction block: the likeliest token, and whether the block's is the same; else NULL. */
    uint32_t *top;
    bool *accepted;
} model_scores;

typedef struct scores {
    size_t n, n_models; /* positions; the base model, 0, and its quants */
    size_t group;       /* positions of a group of windows (forward/stream/stream.h) */
    size_t of_window;   /* positions of a window */
    bool pools;         /* positions are windows, and divergences cosine distances of embeddings */
    model_scores *models;
    /* How much a position counts; at those that count nothing scores mean nothing. NULL: all count alike. */
    float *weights;
    uint32_t
        *depths; /* tokens that a position is predicted from; NULL: as many as the window has before it */
} scores;

/* Sets weights, and of conversations depths, of windows all of whose positions but the last are scored. */
bool scores_set_weights(scores *s, const forward_job *windows, gq_error *e);
static inline float scores_weight(const scores *s, size_t i) { return s->weights ? s->weights[i] : 1; }

bool scores_new(scores *s, size_t n, size_t group, size_t n_models, gq_error *e);
/* Has a model's scores with those of its prediction block. */
bool scores_add_draft(scores *s, size_t model, gq_error *e);
void scores_free(scores *s); /* also one of zeros */

/* Set the members of *to that follow from the scores; the others stay. */
bool figures_of_base_model(const scores *s, gq_evaluated *to, gq_error *e);
bool figures_of_copy(const scores *s, size_t model, gq_evaluated *to, gq_error *e);
/* Returns the mean divergence of model a minus that of model b, in nats; both were scored at the same
 * positions. */
gq_estimate figures_difference(const scores *s, size_t a, size_t b);
/* Gives a statistic of model a, or with b above 0 by how much it is more than that of model b, with the interval
 * that a bootstrap over windows finds. */
bool figures_interval(const scores *s, gq_statistic of, size_t a, size_t b, gq_interval *to, gq_error *e);
/* The weighted sum of samples of a window, or of another block of positions that are alike. */
typedef struct window_sums {
    double x, weight;
} window_sums;
/* The mean of n such blocks, with the interval of a bootstrap over them. */
bool figures_mean_interval(const window_sums *windows, size_t n, gq_interval *to, gq_error *e);
/* What the intervals of divergence and flips (NaN: none) come to. */
gq_level figures_level(const gq_interval *kld, const gq_interval *changed_top1);
/* Fills the figures of model m by depth; from: the first position of a window's that is scored. Returns how
 * many depths have positions. */
size_t figures_depths(const scores *s, size_t m, size_t from, gq_depth to[GQ_DEPTHS]);
