/* The embedding of an output, before the first layer. Its rows are looked up, so its errors are in the state
 * of all layers. Two things make some of these errors worse than others, and then the embedding is rounded
 * with error feedback:
 *
 * In a mixture of experts they move the routers, which then send tokens to other experts. The routers' rows
 * stand in for inputs, which needs no text:
 *
 *     G = 2 G_0 + G_1 + G_2 + ...,  G_l = A^T A / trace,
 *
 * A the rows of the l-th router as forward_router_read gives them. The first router counts twice: nothing has
 * been added to the embedding yet but the first mixer's output.
 *
 * An embedding that is the output matrix as well is multiplied with what flows there (embedding_gather_ahead), whose mean
 * squares are H_out. All routers together then count as much as that: G is scaled to H_out's trace.
 *
 *     H = H_out + G + a share of the mean diagonal
 *
 * The check is that of any matrix, in this metric: the error is less than plain encoding's, or the latter is
 * written. Held-back tokens stand for H_out there. Where only routers decide the whole model is asked besides
 * (embedding_try). An embedding that is neither is encoded plainly.
 */
#pragma once

#include "study/calibrate/round.h"
#include "study/calibrate/site.h"

/* Whether the routers of a model's layers decide how its embedding is rounded. numbers: of the n layers that
 * are run; NULL: the first n. */
bool embedding_is_routed(const forward_model *m, const uint64_t *numbers, size_t n);
/* Whether the embedding is the output matrix, too. */
bool embedding_is_output(const forward_model *m);
/* Whether some output has it calibrated. */
bool embedding_is_rounded(const calibration *job);

/* What an embedding is rounded by, the same for all outputs. */
typedef struct embedding_metric {
    cholesky factored;
    float *mean_square; /* per column; NULL where it is not the output matrix */
    float *checked;     /* [width][stride]: what counts as tokens in the check */
    size_t n_checked, stride;
} embedding_metric;
/* output: what flows into the output matrix, whose Hessian is used up; NULL: the embedding is not that. */
bool embedding_metric_new(embedding_metric *to, const calibration *of, threads_pool *pool,
                          site_inputs *output, gq_error *e);
void embedding_metric_free(embedding_metric *m); /* also one of zeros */

/* Rounds and writes the whole embedding of an output; t->inputs is not used. is_worse: by plain encoding, as rounding it
 * raised its KL divergence. */
bool embedding_round(const round_task *t, const embedding_metric *m, bool is_worse, calibrate_figures *sums,
                     round_reason *why, gq_error *e);
/* Starts a stream with the output's embedding, tensor `number` of the job: what was written, decoded; or, where it
 * is not calibrated or `is_plain`, what plain encoding writes. blocks: what was written; NULL: it is read from
 * the file. */
bool embedding_start(const calibration *job, size_t output, size_t number, const uint8_t *blocks,
                     bool is_plain, forward_stream *stream, gq_error *e);

/* ---- what flows into the output matrix of the base model ----
 * An embedding that is the output matrix as well has to be
 * rounded first, since the rounded model's stream begins with it; but what its rows are multiplied with is
 * known last. So the base model alone is run before, over a part of the text: the Hessian of n columns needs
 * some tokens per column and no more. The rounded model's inputs differ from the base model's by little, and
 * what they differ by could not be made good anyway. */

/* Tokens per column that the base model is run with (bench/results/calibration.md). */
enum { AHEAD_TOKENS_PER_COLUMN = 10 };

/* Runs the base model through all layers with job->ahead, and makes the metric of its embedding from what flows
 * into the output matrix. A collective of the job's ranks; all get the same. told: the progress of the whole
 * job, which has so many units of work for a predicted second. */
bool embedding_gather_ahead(const calibration *job, sweep_progress *progress, double per_second,
                            embedding_metric *to, gq_error *e);

/* ---- the trial ----
 * Whether an embedding that was rounded for the routers has a lower KL divergence than plain encoding. How much
 * a choice of experts matters, and how much all else that an error of the embedding does, no metric of one
 * matrix tells: so both are tried. The model is run on the text's beginning with each of them in place of its
 * own embedding, and the divergences of its predictions are compared. No window decides how such an embedding
 * is rounded, so none need be held back. */

enum {
    EMBEDDING_TRIAL_TOKENS =
        512, /* differences of a tenth are seen; those of the models in bench/results/small-models.md
                                     are larger */
    EMBEDDING_TRIAL_STREAMS = 3,
};

/* Whether an embedding that is calibrated is tried: its errors are in routers and are no output matrix's, and a
 * window of so many tokens has some to predict. numbers, n: as in embedding_is_routed. */
bool embedding_is_tried(const forward_model *m, const uint64_t *numbers, size_t n, size_t context);
/* Tries the embedding that was written for an output, tensor `number` of the job. kept: as embedding_start has it.
 * *is_worse: plain encoding did no worse. A collective of the job's ranks, of which the first one runs the model;
 * all get the same. */
bool embedding_try(const calibration *job, size_t output, size_t number, const uint8_t *kept, bool *is_worse,
                   gq_error *e);
