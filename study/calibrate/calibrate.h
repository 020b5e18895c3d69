/* Plans and runs a calibration: how it is bounded and what it takes; then a matrix, the embedding, the
 * calibrator that goes through the layers, and the validation. site.h has what is gathered for a matrix. */
#pragma once

#include <stdatomic.h>

#include "quantize/quantize.h"
#include "study/calibrate/site.h"

/* ---- within.c: A calibration that takes no longer than a given time ---- */

/* Makes plans of calibrations that take less and less, the best first, and returns the first one whose
 * forecast is within the seconds asked for. Where an unfinished run of one of them lies beside the outputs,
 * that is continued instead. What is chosen are tokens and steps, which the plan's facts have: a plan that is
 * asked for these makes the same bytes. */
gq_plan *calibration_plan_within(const gq_options *asked, plan_maker *make, gq_error *e);

/* ---- calibration_memory.c: Computes the memory of a calibrated run ---- */

/* Decisions that change bytes assume this many threads, and this many bytes of the process besides
 * calibration, whatever the real numbers are. */
enum { USUAL_THREADS = 16, USUAL_PROCESS = 16 << 20 };

/* Sets c->settings.width and c->memory.deciding from the request and the model alone, c->job.memory (bytes),
 * and the facts about columns. */
void calibration_set_width(const gq_plan *plan, calibration *c);
/* Sets the bounds of c->text and c->ahead, c->memory and facts.memory. Fails with GQ_USAGE where the memory that
 * was asked for is too little. */
bool calibration_bound(const gq_plan *plan, calibration *c, gq_error *e);
/* Whether the base model is run ahead, for an embedding that is the output matrix and is calibrated in some
 * output. */
bool calibration_runs_ahead(const gq_plan *plan, const calibration *c);

/* ---- operations.c ----
 * What a calibration does with a tensor, counted: tokens, columns, times, floating-point operations. A tensor
 * is its number in the job. */

/* Returns the share of a tensor's matrices that a token meets; *used: how many of its experts. */
double calibrate_share_met(const model_source *file, const model_tensor *t, uint64_t *used);
/* Returns the approximate number of floating-point operations of a whole run. */
double calibrate_work(const calibration *j);

/* Tokens of the text that meet a layer's weights, in all loops of the model. */
double operations_tokens(const calibration *j);
/* Columns of a tensor that are considered together. */
double operations_width(const calibration *j, size_t i);
/* Held-out tokens that each matrix of a tensor is compared on. */
double operations_held(const calibration *j, size_t i);
/* Times that a tensor's site is gathered, for some of its matrices each. */
double operations_gathers(const calibration *j, size_t i);
/* Whether the base model is run ahead over a part of the text. */
bool operations_run_ahead(const calibration *j);
/* Streams that pass the layers. */
double operations_streams(const calibration *j);
static inline bool operations_calibrated(const calibration *j, size_t output, size_t i) {
    return j->outputs[output][i].calibrated;
}

enum { OPERATIONS_PRODUCT = 2 }; /* of a product, per token and weight */
/* Operations that one tensor adds. */
typedef struct tensor_work {
    double pass; /* of a stream through it, with all tokens */
    double gather, cholesky, round;
} tensor_work;
tensor_work operations_of(const calibration *j, size_t output, size_t i);

/* ---- costs.c: Predicts what a calibration takes ---- */

/* Fills *to, which is empty, by the operations. NULL in to->tensors: no memory. */
void calibrate_costs_guess(const calibration *job, calibrate_costs *to);
/* Likewise by timing the calibrator, as one process, on up to four layers: both streams, Hessians, Cholesky factors,
 * rounding and comparing as in the run, with a piece of the text, some rows of each matrix and some experts of a
 * layer. It takes a second or some, and longer where layers are large and threads few. false: it could not be timed,
 * and *to is empty. callbacks: told that a sample is measured, and asked whether to continue. */
bool calibrate_costs_measure(const calibration *job, const gq_callbacks *callbacks, calibrate_costs *to);
void calibrate_costs_free(calibrate_costs *c);
/* Returns the seconds until the step begins; n_steps: until all end. */
static inline double calibrate_costs_begin(const calibrate_costs *c, size_t step) {
    return !c->tensors ? 0 : step ? c->ends[step - 1] : c->ahead + c->embedding;
}

/* ---- calibrate.c ----
 * The run of a calibrated plan: functions of rounding_by_calibration, which has what they do. */

bool calibrate_run(const gq_plan *plan, const rounding_store *store, bool written, gq_results *results,
                   const gq_callbacks *callbacks, rounding_kept *kept, gq_error *e);
void calibrate_remove_kept(const rounding_kept *kept);
void calibrate_close_kept(rounding_kept *kept);

/* ---- layers.c: Runs a calibration: the layers of a model, rounded one after another for all outputs ---- */

/* Steps of the sweep, each with a record: all layers, and the output matrix if it is rounded. */
size_t calibrate_layers_steps(const calibration *job);
/* Does the steps that `saved` does not have yet, then the validation (validate.c), and adds them to it. callbacks: may
 * be NULL. *threads: how many threads worked. */
bool calibrate_layers(const calibration *job, checkpoint *saved, const gq_callbacks *callbacks,
                      threads_count *threads, gq_error *e);

/* ---- round.c ----
 * Rounds a matrix by the Hessian of its inputs, and plainly to compare; the result that does better on held-out tokens
 * is written. */

/* Why a matrix was encoded plainly. */
typedef enum round_reason {
    ROUND_CALIBRATED,
    ROUND_UNSEEN,     /* no token reached the matrix */
    ROUND_INDEFINITE, /* its Hessian has no Cholesky factor, however much it is damped */
    ROUND_UNCHECKED,  /* few tokens, and none held out */
    ROUND_WORSE,
    ROUND_FELL_BACK, /* validation of the whole model (validate.c) */
    ROUND_REASONS
} round_reason;
const char *round_reason_text(round_reason r);

/* The figures of a tensor's matrices, as in gq_rounding. */
typedef struct calibrate_figures {
    uint64_t matrices, plain, unchecked;
    double power, plain_error, written;
    uint64_t codes, clipped, tokens, width;
    float damp;
    uint32_t unused; /* so that no byte of it is without a value */
    calibrate_step_figures steps[CALIBRATE_STEPS];
} calibrate_figures;

/* A matrix to round, for the output at work, and what it is rounded by. */
typedef struct round_task {
    calibrator *c;
    size_t tensor; /* its number */
    uint64_t matrix;
    gq_comm *comm;        /* ranks that share the rows; NULL: this process has all */
    uint8_t *blocks_copy; /* gets a copy of the matrix's blocks; NULL: none is made */
    const cholesky *factored;
    layer_metrics metrics;    /* of the matrix's rows; n 0: all rows count by themselves */
    const float *mean_square; /* per column; NULL: no token was seen */
    /* Held-out tokens: [features][stride], of which `held` are tokens; in the base model, and in the rounded
     * one. */
    const float *base, *rounded;
    size_t held, stride;
    bool is_residual;  /* `base` is what the output is to change by, [rows][stride] */
    bool is_embedding; /* rows of routers stand in for tokens (embedding.c) */
    bool is_worse;     /* the result was tried already: it has a higher KL divergence than plain encoding */
} round_task;

/* Adds the figures of a matrix to those of the tensor's matrices before it. */
void figures_add(calibrate_figures *to, const calibrate_figures *of);

/* Rounds and writes a matrix. *sums, which is zeros but for the width, gets its figures, *why the reason if
 * it is not calibrated. */
bool round_matrix(const round_task *t, calibrate_figures *sums, round_reason *why, gq_error *e);

/* ---- rows.c ----
 * The rows of a matrix that is rounded, and memory for as many of them as are at hand at once: rows with a metric in
 * chains, a head's rows one after another (codec/feedback.h), all others in groups of rows that know nothing of each
 * other.
 *
 * A matrix is a list of spans of rows. Ranks have contiguous shares of them and go through these in slices, as
 * many as the largest share needs. */

/* Rows that one thread rounds. */
typedef struct chain_task {
    size_t first, rows;   /* rows: with a chain, all of its heads' */
    feedback_chain chain; /* heads 0: none */
} chain_task;

/* Rows whose output errors count together. */
typedef struct chain_span {
    size_t first, rows;
    const float *metric; /* rows x rows; NULL: each row counts by itself */
} chain_span;

typedef struct row_chains {
    size_t n_tasks, n_spans;
    chain_task *tasks;
    chain_span *spans;
    float *factors, *rest;
    double *scratch; /* for feedback_chain_factors */
} row_chains;

/* The metrics of a tensor's rows; n 0: it has none. The pointers are those of m. */
layer_metrics chains_metrics_of(const layer_metrics *m, const model_tensor *t);

/* The ways of rounding, each with all of those before it. */
typedef enum round_way {
    WAY_PLAIN, /* plain encoding */
    WAY_PASS,  /* with error feedback */
    WAY_SWEPT, /* and with sweeps behind it */
    ROUND_WAYS
} round_way;

typedef struct matrix_rows {
    const round_task *task;
    const model_tensor *tensor;
    const tensor_type *from, *to;
    size_t columns;
    size_t n_rows, most; /* of the matrix; at once */
    round_way last;      /* the last way that is tried */
    threads_pool *pool;
    uint8_t *raw;
    uint8_t *blocks[ROUND_WAYS]; /* as each way makes them; NULL: that way is not tried */
    float *x;
    uint8_t *scratches; /* of codec_feedback, scratch_bytes for each thread */
    size_t scratch_bytes;
    matmul_arithmetic arithmetic;
    const layer_metrics *metrics; /* of the rows */
    row_chains chains;            /* of matrices with metrics; all rows are at hand at once then */
    size_t n_spans;               /* of the matrix */
    output_errors *errors;        /* per span, on held-out tokens */
    /* Ranks: spans begin to end - 1 are this rank's, and go through memory in slices. */
    struct {
        uint64_t rotation; /* of comm_share_rotated: site_rotation of the output and the matrix */
        size_t begin, end, slices, slice_spans;
        /* If ranks share the rows: this rank's blocks, a slice behind the other; those of all ranks' spans of a slice,
         * and where each rank's begin. */
        uint8_t *own, *gathered;
        uint64_t *begins;
    } share;
    /* The rows at hand: spans `span` to span_end - 1 of this rank, from row `first` on. */
    struct {
        size_t span, span_end;
        uint64_t first;
        double reported, share; /* of the matrix: reported before the work on them, and what that work is */
        /* Threads round them some at a time. */
        round_way way;
        size_t n;                        /* rows */
        _Atomic uint64_t codes, clipped; /* of feedback_sums */
        _Atomic size_t done;             /* rows */
        atomic_flag telling;
    } at_hand;
} matrix_rows;

/* Rows of a span without a metric: those that output errors are added up by. So few that many ranks have as
 * much to do as each other. */
enum { SPAN_ROWS = OUTPUT_SPAN };
_Static_assert((int)FEEDBACK_ROWS % SPAN_ROWS == 0 && (int)CALIBRATION_ROWS % FEEDBACK_ROWS == 0,
               "groups of rows are whole spans");

/* Lays out the rows of a matrix, for ways up to the last one of the job, or for plain encoding. */
bool rows_new(matrix_rows *r, const round_task *t, bool calibrated, gq_error *e);
void rows_free(matrix_rows *r);
/* Returns the bytes that round_matrix takes for a matrix of the tensor, besides its inputs. metrics: of its
 * rows, by their groups. UINT64_MAX: too many to count. */
uint64_t rows_bytes(const calibration_settings *s, const model_tensor *tensor, const layer_metrics *metrics,
                    const tensor_type *to, int threads, int ranks);
/* Reads and decodes the rows of this rank's spans in a slice, which are at hand from then on. */
bool rows_read(matrix_rows *r, size_t slice, gq_error *e);

static inline size_t rows_to_bytes(const matrix_rows *r) { /* of a row */
    return gguf_row_bytes(r->to, r->columns);
}
chain_span rows_span(const matrix_rows *r, size_t i);
/* The first span of a rank's share. */
size_t rows_spans_begin(const matrix_rows *r, int rank);
/* The spans of a rank in a slice are those from here on; *end: up to before this one. */
size_t rows_slice_spans(const matrix_rows *r, size_t slice, int rank, size_t *end);
/* The rows of spans i to end - 1 that are one behind the other: without a metric of all, else of one. *next:
 * the span behind them. */
chain_span rows_together_from(const matrix_rows *r, size_t i, size_t end, size_t *next);
/* The place of a span among the current rows. */
size_t rows_place(const matrix_rows *r, const chain_span *s);
/* The rows of spans begin to end - 1. */
size_t rows_of_spans(const matrix_rows *r, size_t begin, size_t end);
/* Rows at hand. */
size_t rows_count(const matrix_rows *r);

/* ---- router.c ----
 * Fits a router to the inputs that it gets in the rounded model, so that tokens keep their experts. A router is not
 * rounded: no mix quantizes it, and its bytes are few. Whether the fit is written is decided on held-out tokens, by the
 * share of the base model's choice that is kept: the sum over tokens and experts of the lesser of the two gates. */

/* Returns the bytes that router_refit takes, besides its inputs and copies of the blocks. windows: of a
 * batch. UINT64_MAX: too many to count. */
uint64_t router_bytes(const calibration_settings *s, const model_tensor *tensor, size_t windows);
/* Writes the router of the layer at hand, fitted or as it was. t->blocks_copy must not be NULL. */
bool router_refit(const round_task *t, calibrate_figures *sums, round_reason *why, gq_error *e);

/* ---- embedding.c ----
 * The embedding of an output, before the first layer. Its rows are looked up, so its errors are in the state
 * of all layers. Two things make some of these errors worse than others, and then the embedding is rounded
 * with error feedback:
 *
 * In a mixture of experts they move the routers, which then send tokens to other experts. The routers' rows
 * stand in for inputs, which needs no text:
 *
 *     R = 2 R_0 + R_1 + R_2 + ...,  R_l = A^T A / trace,
 *
 * A the rows of the l-th router as forward_router_read gives them. The first router counts twice: nothing has
 * been added to the embedding yet but the first mixer's output.
 *
 * An embedding that is the output matrix as well is multiplied with its inputs (embedding_gather_ahead), whose mean
 * squares are H_out. All routers together then count as much as that: R is scaled to H_out's trace.
 *
 *     H = H_out + R + a share of the mean diagonal
 *
 * The check is that of any matrix, in this metric: the error is less than plain encoding's, or the latter is
 * written. Held-out tokens stand for H_out there. Where only routers decide the whole model is asked besides
 * (embedding_try). An embedding that is neither is encoded plainly. */

/* Whether the routers of a model's layers decide how its embedding is rounded. numbers: of the n layers that
 * are run; NULL: the first n. */
bool embedding_is_routed(const forward_model *m, const uint64_t *numbers, size_t n);
/* Whether the embedding is the output matrix, too. */
bool embedding_is_output(const forward_model *m);
/* Whether some output has it calibrated. */
bool embedding_is_rounded(const calibration *job);

/* The metric by which an embedding is rounded, the same for all outputs. */
typedef struct embedding_metric {
    cholesky factored;
    float *mean_square; /* per column; NULL where it is not the output matrix */
    float *checked;     /* [width][stride]: what counts as tokens in the check */
    size_t n_checked, stride;
} embedding_metric;
/* output: the inputs of the output matrix, whose Hessian is used up; NULL: the embedding is not that. */
bool embedding_metric_new(embedding_metric *to, const calibration *of, threads_pool *pool,
                          site_inputs *output, gq_error *e);
void embedding_metric_free(embedding_metric *m); /* also one of zeros */

/* Rounds and writes the whole embedding of an output. is_worse: by plain encoding, as rounding
 * it raised its KL divergence. */
bool embedding_round(const round_task *t, const embedding_metric *m, bool is_worse, calibrate_figures *sums,
                     round_reason *why, gq_error *e);
/* Starts a stream with the output's embedding, tensor `number` of the job: what was written, decoded; or, where it
 * is not calibrated or `is_plain`, what plain encoding writes. blocks: what was written; NULL: it is read from
 * the file. */
bool embedding_start(const calibration *job, size_t output, size_t number, const uint8_t *blocks,
                     bool is_plain, forward_stream *stream, gq_error *e);

/* ---- the inputs of the output matrix of the base model ----
 * An embedding that is the output matrix as well has to be rounded first, since the rounded model's stream begins with
 * it; but what its rows are multiplied with is known last. So the base model alone is run before, over a part of the
 * text: the Hessian of n columns needs some tokens per column and no more. The rounded model's inputs differ from the
 * base model's by little, and what they differ by could not be compensated anyway. */

/* Tokens per column that the base model is run with (bench/results/calibration.md). */
enum { AHEAD_TOKENS_PER_COLUMN = 10 };

/* Runs the base model through all layers with job->ahead, and makes the metric of its embedding from the inputs of
 * the output matrix. A collective of the job's ranks; all get the same. told: the progress of the whole job, which
 * has so many units of work for a predicted second. */
bool embedding_gather_ahead(const calibration *job, sweep_progress *progress, double per_second,
                            embedding_metric *to, gq_error *e);

/* ---- the trial ----
 * Whether an embedding that was rounded for the routers has a lower KL divergence than plain encoding. How much a
 * routing matters, and how much all else that an error of the embedding does, no metric of one matrix shows: so both
 * are tried. The model is run on the text's beginning with each of them in place of its own embedding, and the KL
 * divergences of its predictions are compared. No window decides how such an embedding is rounded, so none need be held
 * out. */

/* Differences of a tenth are seen; those of the models in bench/results/small-models.md are larger. */
enum { EMBEDDING_TRIAL_TOKENS = 512, EMBEDDING_TRIAL_STREAMS = 3 };

/* Whether an embedding that is calibrated is tried: its errors are in routers and are no output matrix's, and a
 * window of so many tokens has some to predict. numbers, n: as in embedding_is_routed. */
bool embedding_is_tried(const forward_model *m, const uint64_t *numbers, size_t n, size_t context);
/* Tries the embedding that was written for an output, tensor `number` of the job. kept: as embedding_start has it.
 * *is_worse: plain encoding did no worse. A collective of the job's ranks, of which the first one runs the model;
 * all get the same. */
bool embedding_try(const calibration *job, size_t output, size_t number, const uint8_t *kept, bool *is_worse,
                   gq_error *e);

/* ---- records.c ----
 * Records of finished steps, which a checkpoint keeps with the streams' hidden states: which tensors are rounded,
 * their figures, checksums of their blocks in the outputs' files, and the mean squares of their inputs, by
 * which they could be encoded plainly. */

/* A tensor's entry. `squares` floats stand behind it: of each matrix the mean squares of its columns, zeros
 * where no token was seen. 0: they are not known. */
typedef struct calibrate_entry {
    uint64_t tensor;
    uint32_t output, crc;     /* crc: of the tensor's bytes */
    uint32_t reason, squares; /* reason: a round_reason */
    calibrate_figures figures;
} calibrate_entry;

typedef struct calibrate_record {
    uint8_t *bytes; /* entries with their floats, one behind the other */
    size_t n, capacity;
} calibrate_record;

bool record_add(calibrate_record *r, const calibrate_entry *entry, const float *squares, gq_error *e);
/* Sets the entries' checksums from what the outputs' files hold now. */
bool record_sum_up(calibrate_record *r, const calibration *job, gq_error *e);

/* Reads the entry that begins at byte *at of a record of n bytes, and moves *at behind it; squares: where its
 * floats begin, not aligned; may be NULL. false: there is none, or what is there is no entry of the job's. */
bool record_next(const uint8_t *bytes, uint64_t n, uint64_t *at, const calibration *job,
                 calibrate_entry *entry, const uint8_t **squares);
/* Whether the output's file has the entry's checksum. false: *e says why that is not known. */
bool record_is_in_file(const calibrate_entry *entry, const calibration *job, bool *holds, gq_error *e);

/* ---- calibrator.c ----
 * What runs of a calibration: the streams of hidden states and where in the layers they are, which tensors are
 * rounded, and the progress. layers.c goes through the layers with it, layer.c through the sites of one. */

/* A tensor of the calibration, found by its address. */
typedef struct numbered {
    const model_tensor *tensor;
    size_t number;
} numbered;

/* The progress of a tensor for an output. */
typedef struct tensor_progress {
    uint64_t settled; /* matrices */
    round_reason reason;
    calibrate_figures figures;
    float *squares; /* mean squares of its matrices' inputs; NULL: none are known */
} tensor_progress;

/* A weight that is being rounded; its output's stream continues with it. */
typedef struct rounded_weight {
    const model_tensor *tensor;
    uint8_t *blocks; /* NULL: they are read from the output again */
} rounded_weight;

struct calibrator {
    const calibration *of;
    checkpoint *saved;
    sweep sweep;
    sweep_progress progress; /* in weights that are to be rounded, by what is predicted to take long */
    double per_second;       /* units of work per predicted second */
    forward_stream *base, **rounded; /* the sweep's; one per output, NULL: not calibrated */
    matmul *products;
    probe_cache *results;       /* kept between probes; NULL: none are */
    numbered *sorted;           /* NULL: nothing is rounded, inputs of the output matrix alone are gathered */
    tensor_progress *by_tensor; /* output by output */
    calibrate_record record;    /* of the current step */
    embedding_metric embedding;
    calibrate_timing untimed; /* timing of work that is no sample */
    /* The current position: an output, at a sublayer. */
    struct {
        size_t output;
        forward_layer *layer; /* NULL: the output matrix */
        forward_sublayers sublayers;
        const layer_metrics *metrics; /* of the layer's rows; NULL: none are wanted */
        rounded_weight *weights;
        size_t n_weights;
    } at;
};

/* Makes the tables of tensors. What they take is freed with calibrator_drop_tensors, also after a failure. */
bool calibrator_list_tensors(calibrator *c, gq_error *e);
void calibrator_drop_tensors(calibrator *c);
/* The calibration's number of a tensor; SIZE_MAX: it is not written. */
size_t calibrator_number_of(const calibrator *c, const model_tensor *t);
tensor_progress *calibrator_progress_at(const calibrator *c, size_t output, size_t tensor);
/* The number of a tensor's matrices, the first ones, that are rounded for the current output; UINT64_MAX: none is
 * left, or it is not calibrated. */
uint64_t calibrator_matrices_done(const calibrator *c, const model_tensor *t);
/* Records the figures of a tensor whose matrices are all rounded, and the mean squares of its inputs, which are
 * freed. */
bool calibrator_record(calibrator *c, size_t output, size_t number, gq_error *e);

/* Announces a piece of work with its predicted seconds. */
void calibrator_begin_piece(calibrator *c, double seconds);
calibrate_cost calibrator_cost_of(const calibrator *c, size_t output, const model_tensor *t);
/* The costs of a site's inputs and of their Cholesky factor, of so many of its matrices. */
calibrate_cost calibrator_site_cost(const calibrator *c, const site *s, size_t matrices);
/* Returns where a sample notes the time of a tensor. */
calibrate_timing *calibrator_timing_of(calibrator *c, const model_tensor *t);

/* ---- layer.c: A layer of a calibration, or the inputs of the output matrix ---- */

/* Rounds what is left of a layer, or of the output matrix (NULL), for all outputs, and lets all streams pass
 * it. */
bool calibrator_do_layer(calibrator *c, forward_layer *l, gq_error *e);

/* ---- validate.c ----
 * Validation of a calibrated output as a whole: the KL divergence of its predictions from the base model's, on the
 * held-out windows.
 *
 * Every matrix is checked by the error of its own output (round.c), but small errors of matrices that lean on each
 * other can add up to a worse model. So when all layers are rounded, the model is run on the held-out windows with
 * all of its layers as they were written, with all of them encoded plainly, and with one group of layers
 * after another encoded plainly. Groups without which the model does better, by more than two standard errors
 * of the difference, fall back to search; where the rest is not better than search, all layers do.
 *
 * The embedding and the output matrix take no part: the check of the latter is of the logits already, and the
 * former has a trial of its own where it is not the output matrix as well (embedding.c). */

/* Groups of successive layers; the base model, the two whole ones and one variant for each group. */
enum { VALIDATION_GROUPS = 4, VALIDATION_STREAMS = VALIDATION_GROUPS + 3 };
/* Passes over the windows at most: behind these the base model and what is left, where some groups fall back. */
enum { VALIDATION_PASSES = VALIDATION_STREAMS + 2 };

/* Decisions for an output, as stored in the checkpoint. */
typedef struct validation_record {
    uint64_t positions; /* positions that the KL divergences are means of; 0: nothing could be compared */
    uint64_t fallback;  /* bit g: group g is encoded plainly */
    double plain_error, calibrated, written; /* mean KL divergence in nats */
} validation_record;

/* The group of a tensor's layer; VALIDATION_GROUPS: it is in none. */
size_t validation_group(const calibration *job, size_t tensor);
/* The checkpoint's decisions, one per output; zeros where none is stored yet. swept: records before these. malloc'ed;
 * NULL: *e. */
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
/* Returns the number of streams of the model that fit into the job's memory side by side, from two to the given
 * number, with their bounds. */
size_t validation_streams(const forward_job *j, const forward_model *m, size_t most, forward_bounds *bounds);

/* Decides for all outputs and adds two records to the checkpoint: a validation_record for each output, then the
 * entries of the tensors that fell back, when they are written anew. swept: as above. Continues where an earlier run
 * was killed. For the process that has the files. */
bool validate_outputs(const calibration *job, checkpoint *saved, size_t swept, sweep_progress *progress,
                      gq_error *e);
