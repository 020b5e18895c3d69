/* Validation of a calibrated output as a whole: the KL divergence of its predictions from the base model's, on the
 * held-out windows.
 *
 * Every matrix is checked by the error of its own output (round.h), but small errors of matrices that lean on each
 * other can add up to a worse model. So when all layers are rounded, the model is run on the held-out windows with
 * all of its layers as they were written, with all of them encoded plainly, and with one group of layers
 * after another encoded plainly. Groups without which the model does better, by more than two standard errors
 * of the difference, fall back to search; where the rest is not better than search, all layers do.
 *
 * The embedding and the output matrix take no part: the check of the latter is of the logits already, and the
 * former has a trial of its own where it is not the output matrix as well (embedding.h). */
#pragma once

#include "study/calibrate/record.h"
#include "study/sweep/checkpoint.h"

/* Groups of successive layers; the base model, the two whole ones and one variant for each group. */
enum { VALIDATION_GROUPS = 4, VALIDATION_STREAMS = VALIDATION_GROUPS + 3 };
/* Passes over the windows at most: behind these the base model and what is left, where some groups fall back. */
enum { VALIDATION_PASSES = VALIDATION_STREAMS + 2 };

/* What was decided for an output, as the checkpoint keeps it. */
typedef struct validation_record {
    uint64_t positions; /* that the divergences are means of; 0: nothing could be compared */
    uint64_t fallback;  /* bit g: group g is encoded plainly */
    double plain_error, calibrated, written; /* mean KL divergence in nats */
} validation_record;

/* The group of a tensor's layer; VALIDATION_GROUPS: it is in none. */
size_t validation_group(const calibration *job, size_t tensor);
/* What the checkpoint says of the outputs, one for each; zeros where it has not got so far. swept: records before
 * these. malloc'ed; NULL: *e. */
validation_record *validation_records(const checkpoint *saved, const calibration *job, size_t swept,
                                      gq_error *e);
/* Whether the record has the tensor fall back. */
bool validation_drops(const validation_record *v, const calibration *job, size_t tensor);

/* Whether embeddings are compared, not predictions. */
bool validation_embeds(const calibration *job);
/* The layers that fall back, as a warning names them: "layers 0 to 6, 14 to 20". malloc'ed; NULL: no memory. */
char *validation_layers_text(const validation_record *v, const calibration *job, gq_error *e);

/* Whether the step is done, and there are windows for it. */
bool validation_is_done(const calibration_settings *s);
/* How many streams of the model the job's memory holds side by side, at most so many and at least two, with their
 * bounds. */
size_t validation_streams(const forward_job *j, const forward_model *m, size_t most, forward_bounds *bounds);

/* Decides for all outputs and adds two records to the checkpoint: a validation_record for each output, then the
 * entries of the tensors that fell back, when they are written anew. swept: as above. Continues where an earlier run
 * was killed. For the process that has the files. */
bool validate_outputs(const calibration *job, checkpoint *saved, size_t swept, sweep_progress *progress,
                      gq_error *e);
