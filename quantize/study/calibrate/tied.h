/* What flows into the output matrix of the original. An embedding that is the output matrix as well has to be
 * rounded first, since the rounded model's stream begins with it; but what its rows are multiplied with is
 * known last. So the original alone is run before, over a part of the text: the moments of n columns need
 * some tokens per column and no more. The rounded model's inputs differ from the original's by little, and
 * what they differ by could not be made good anyway.
 */
#ifndef GQ_CALIBRATE_TIED_H
#define GQ_CALIBRATE_TIED_H

#include "quantize/study/calibrate/embedding.h"
#include "quantize/study/sweep/sweep.h"

/* Tokens per column that the original is run with (bench/results/calibration.md). */
enum { AHEAD_TOKENS_PER_COLUMN = 10 };

/* Runs the original through all layers with job->ahead, and makes the metric of its embedding from what flows
 * into the output matrix. A collective of the job's ranks; all get the same. told: the progress of the whole
 * job, which has so many units of work for a predicted second. */
bool tied_gather(const calibrate_job *job, sweep_progress *told, double per_second, embedding_metric *to,
                 gq_error *e);

#endif
