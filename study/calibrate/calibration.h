/* A calibration as a plan has decided it, before a weight is read: its steps and settings, the text, the tensors, and
 * what it is predicted to take. What was asked for is a gq_calibration; what runs is a calibrator (calibrate.h). */
#pragma once

#include "base/checksum.h"
#include "gguf/scales.h"
#include "quantize/plan/rounding.h"
#include "study/inputs/inputs.h"
#include "study/sweep/sweep.h"

/* ---- steps.c ----
 * The steps of a calibration that can be switched on and off one by one, to measure what each brings. A new
 * step is a member of calibrate_step and a row in steps.c. The place that carries it out asks
 * calibration_does, and adds what came of it to calibrate_figures (round.c). */

typedef enum calibrate_step {
    CALIBRATE_DAMPING,   /* by each column's own square, not by the mean of all (study/inputs/cholesky.c) */
    CALIBRATE_SWEEPS,    /* of descent after the pass of error feedback (codec/simd/descent.c) */
    CALIBRATE_RESIDUAL,  /* fitted by weights whose output is added to it (site.c) */
    CALIBRATE_EMBEDDING, /* rounded by what its errors do to routers, or as the output matrix (embedding.c) */
    CALIBRATE_ROUTER,    /* fitted to the inputs that it gets now (router.c) */
    CALIBRATE_ROWS,      /* of queries, keys and values, one after another (metric.c) */
    CALIBRATE_RANDOM, /* some windows are drawn at random, for texts of other kinds (study/calibrate/calibration.c) */
    CALIBRATE_BALANCE,    /* of columns that are far from the others (balance.c) */
    CALIBRATE_TRIALS,     /* of a block's scales (codec/simd/block.c) */
    CALIBRATE_VALIDATION, /* of the whole model on held-out windows (validate.c) */
    CALIBRATE_STEPS
} calibrate_step;

typedef struct calibrate_step_row {
    const char *name; /* as users give it */
    const char *what; /* a line for reports */
    bool by_default;
} calibrate_step_row;
extern const calibrate_step_row calibrate_steps[CALIBRATE_STEPS];

/* Bit i is on where step i is done. */
typedef uint64_t calibrate_step_mask;
static inline calibrate_step_mask calibrate_step_bit(calibrate_step step) {
    return (calibrate_step_mask)1 << step;
}

/* Reads a list of steps, separated by commas: NAME or +NAME adds a step, -NAME takes one away, and `all`,
 * `none` and `default` stand for sets of them. Items go from left to right. A list that begins with a sign
 * changes the default; any other one begins with nothing. NULL or "": the default. */
bool calibrate_steps_take(calibrate_step_mask *mask, const char *list, gq_error *e);
/* Writes the names of a mask's steps, separated by ", ", or "none". malloc'ed; NULL: no memory. */
char *calibrate_steps_text(calibrate_step_mask mask, gq_error *e);

/* The effect of a step, summed over matrices. */
typedef struct calibrate_step_figures {
    uint64_t matrices; /* on which it was tried */
    uint64_t kept;     /* matrices that were written with the step */
    /* matrices whose error with and without the step was measured on held-out tokens: */
    uint64_t compared;
    double without, with; /* sums of relative squared errors, in the metric that the step makes small */
} calibrate_step_figures;

/* ---- settings ----
 * The settings that decide the bytes of a calibrated run, besides those of encoding. The calibrator takes
 * them from here and nowhere else, and the digest is that of all of it: what is not in it cannot change
 * bytes. */

/* Held-out tokens of one expert, at most: enough to tell two roundings apart. */
enum { EXPERT_HELD_TOKENS = 512 };
/* Packed, so that there are no bytes between its members that would have no part in the digest. */
typedef struct __attribute__((packed)) calibration_settings {
    float damp, shrink, gptaq_a; /* of hessian_settings */
    uint64_t windows, context;   /* of the text */
    calibrate_step_mask steps;   /* steps that are done */
    uint64_t sweeps;             /* of descent: feedback_sweeps, 0 without CALIBRATE_SWEEPS */
    uint64_t trials;             /* of scales: feedback_trials, 0 without CALIBRATE_TRIALS */
    uint64_t width;      /* of Hessians' blocks, at most: a multiple of STRIP_COLUMNS; SIZE_MAX: whole rows */
    uint64_t held_every; /* of windows_held */
    uint64_t expert_held; /* EXPERT_HELD_TOKENS */
    uint64_t fused;       /* this processor multiplies and adds in one step */
    uint64_t ids;         /* checksum of the text's tokens */
    uint64_t ahead;       /* windows of calibration.ahead; 0: there are none */
    uint64_t loops;       /* times that the model runs its blocks: each matrix sees the text so often */
    uint64_t arithmetic;  /* matmul_arithmetic of Hessians and of products of weights with activations */
} calibration_settings;

static inline uint32_t calibration_settings_digest(const calibration_settings *s) {
    return checksum_add(0, s, sizeof *s);
}

static inline matmul_arithmetic calibration_arithmetic(const calibration_settings *s) {
    return (matmul_arithmetic)s->arithmetic;
}
/* Whether a step is done. */
static inline bool calibration_does(const calibration_settings *s, calibrate_step step) {
    return s->steps & calibrate_step_bit(step);
}
static inline hessian_settings calibration_hessian_settings(const calibration_settings *s) {
    return (hessian_settings){.damp = s->damp,
                              .shrink = s->shrink,
                              .gptaq_a = s->gptaq_a,
                              .mean_damping = !calibration_does(s, CALIBRATE_DAMPING)};
}
/* The windows that only check. */
static inline windows_held calibration_held(const calibration_settings *s) {
    return (windows_held){s->held_every, s->held_every ? s->windows / s->held_every : 0};
}
/* Whether a window only checks. */
static inline bool calibration_is_held(const calibration_settings *s, uint64_t window) {
    return windows_is_held(calibration_held(s), window);
}
/* Held-out tokens that one matrix is checked with, at most. */
static inline uint64_t calibration_held_most(const calibration_settings *s, bool is_routed) {
    uint64_t all = calibration_held(s).n * s->context * s->loops;
    return is_routed && all > s->expert_held ? s->expert_held : all;
}

/* ---- balance.c ----
 * Scales moved from columns that are far from the others to the weights that make what these columns read.
 *
 * Trained models have a few columns whose inputs are 10 to 300 times larger than the others and whose weights
 * are smaller by as much. A block has one scale for 16 or 32 columns, so such a column's weights become zero,
 * or a multiple of what they are. Multiplied by a power of two, with what makes the inputs divided by it, the
 * model gives the same logits, and the column is like the others (forward/graph/forward.h has what makes
 * what). */

typedef struct balance_scales {
    model_scales *scales; /* NULL: no column stands out */
    uint64_t columns;     /* columns that are multiplied, of all groups */
} balance_scales;

/* Probes a sample of the rows of all matrices of the model, whose source has no scales so far. The caller
 * frees what is found. */
bool balance_find(const kernels *k, const model_source *source, const forward_model *m, balance_scales *found,
                  gq_error *e);

/* ---- costs.c ----
 * What a calibration is predicted to take, piece by piece: what its progress is counted by, and the seconds
 * that a forecast gives. Either the calibrator itself has been timed on a sample of the model's layers, or
 * operations are counted and taken at the speed of a usual processor. */

/* Seconds of a tensor for an output, of all its matrices. What a site is gathered for is counted with the
 * first of its tensors. */
typedef struct calibrate_cost {
    double gather;   /* running both streams up to the site and adding to Hessians */
    double cholesky; /* computing their Cholesky factors */
    double round;    /* rounding in all ways, and comparing them on held-out tokens */
} calibrate_cost;

typedef struct calibrate_costs {
    calibrate_cost *tensors; /* output by output; NULL: unknown, and then so is all else */
    double pass;             /* a stream through a layer, with all tokens */
    double metrics;          /* of a layer's rows */
    double ahead;            /* the run of the base model ahead */
    double embedding;        /* rounding the outputs' embeddings, before the first step */
    /* The seconds until a step ends: n_layers of the layers, one more with the output matrix. What is before
     * the first step, `ahead` and `embedding`, is in all of them. */
    double *ends;
    size_t n_steps;
    double validation; /* behind all steps */
    double plain;      /* rounding what is not calibrated, which comes behind all that */
} calibrate_costs;

/* The time of a sample's tensor, for an output. The seconds of a site are with the first of its tensors. */
typedef struct calibrate_timing {
    double probes, hessian; /* running both streams up to the site; adding to Hessians */
    double cholesky;
    double round, checks; /* checks: the part of `round` in which ways were compared on held-out tokens */
    uint64_t gathered, factored; /* matrices */
    uint64_t rounded;            /* weights */
    uint64_t held;               /* tokens that the last matrix was compared on */
    bool chained;                /* rows count together */
} calibrate_timing;

/* Makes the calibrator do a part of each layer, write nothing, and report its time. The bytes that it makes mean
 * nothing. */
typedef struct calibrate_sample {
    size_t matrices, rows;     /* of a tensor, at most; all rows where they have a metric */
    calibrate_timing *tensors; /* output by output, zeros before */
    double *passes;            /* per layer: all passes of streams through it; zeros before */
    double metrics;            /* of rows, of all layers */
    size_t n_metrics;          /* layers with metrics */
} calibrate_sample;

/* ---- calibration.c ----
 * A calibration as a plan has decided it, before a weight is read: the text, the tensors, the settings that
 * decide bytes, and the bounds of memory and disk. What was asked for is a gq_calibration; what runs is a
 * calibrator (calibrator.c), which changes nothing here. */

/* Rows of a matrix in memory at once: 24 groups of FEEDBACK_ROWS, work for as many threads. With 14,336
 * columns the decoded rows take a tenth of the Hessian's memory. A multiple of 192, the rows that output
 * errors are added up by. */
enum { CALIBRATION_ROWS = 1536 };

/* The whole text; the windows that a rank has are a text_share's. */
typedef struct calibration_text {
    char *name;           /* NULL: drawn at random */
    text_windows windows; /* `replaced` is not used */
    uint32_t *ids;        /* without the windows of random tokens; NULL: there are none of these */
    size_t drawn;         /* how many there are */
} calibration_text;

/* Bytes, and what they decide. */
typedef struct calibration_memory {
    uint64_t asked; /* for; 0: no limit */
    /* memory of the process when the calibration was opened, before anything was measured; decides no bytes
     * of outputs */
    uint64_t resident;
    /* memory that decides width and trials: what was asked for, or a fixed number, so that the machine's own
     * memory decides no bytes of outputs */
    uint64_t deciding;
    uint64_t matrices_at_once;      /* experts whose Hessians fit beside each other */
    uint64_t validation;            /* of the process, besides the streams that are validated (validate.c) */
    uint64_t validation_disk_bytes; /* of validated streams' hidden states in a file; 0: they are in memory */
    /* The cache of probes (forward_stream_cache), so that a layer's beginning is not run again for each site. Its
     * folder is set when it runs. */
    probe_cache_plan probes;
    /* Blocks of tensors that calibrate_reads_blocks names are not kept in memory when they are written, but
     * read again from the output when they are multiplied. */
    bool reads_blocks;
} calibration_memory;

typedef struct calibration {
    calibration_settings settings; /* settings that decide bytes */
    char *steps;                   /* names of the settings' steps */
    gq_calibration_facts facts;
    /* -- the text -- */
    calibration_text whole;
    forward_job job; /* of the whole text: windows, context, threads, memory; the progress is the run's */
    /* The ranks that do this together, this one's windows, and the bounds of 1 + n_outputs streams. A rank
     * without windows takes part with one that counts nowhere. */
    text_share text;
    /* The windows with which the base model is run before all else, for the inputs of an output matrix that is the
     * embedding as well (embedding.c), and its bounds; all_windows 0: it is not run. */
    text_share ahead;
    /* -- the model -- */
    const model_source *file;
    forward_model *model;                /* of the plan's input */
    balance_scales balance;              /* scales that the model is read with */
    const forward_model *const *streams; /* the model, 1 + n_outputs times */
    const uint64_t *numbers;             /* in the model, of the layers that are run; NULL: all are */
    size_t n_layers;
    uint64_t experts_used; /* experts that a token meets; 0: unknown, so all of them count */
    /* -- the outputs -- */
    const kernels *kernels;
    const encode_settings *encoding;
    size_t n_tensors, n_outputs;
    const model_tensor *const *tensors; /* the model's, n_tensors in the outputs' order */
    const gq_tensor *const *outputs;    /* per output the planned tensors, in the same order */
    /* -- its bounds -- */
    calibration_memory memory;
    checkpoint_header header; /* of a stream of the base model and one per output, in this order */
    uint64_t records;         /* bytes of the checkpoint's, at most */
    calibrate_costs costs;    /* for progress */
    /* -- a run's, in its own copy -- */
    rounding_store store;
    calibrate_sample *sample; /* NULL: all is done */
} calibration;

/* Tokens of the text, without random ones; of conversations, those that count. */
static inline uint64_t calibration_text_tokens(const calibration *c) {
    return forward_job_counted(&c->job) - c->whole.drawn * c->job.context;
}

/* Whether a tensor's blocks can be read again: those of experts are many, and each meets few tokens. */
static inline bool calibrate_reads_blocks(const model_tensor *t) { return t->ne[2] > 1; }

/* Whether a tensor is one of the calibration's and some output has it calibrated. */
static inline bool calibration_has(const calibration *c, const model_tensor *t) {
    for (size_t i = 0; i < c->n_tensors; i++)
        for (size_t o = 0; c->tensors[i] == t && o < c->n_outputs; o++)
            if (c->outputs[o][i].calibrated) return true;
    return false;
}
/* Whether some tensor of an output is calibrated. */
static inline bool calibration_uses(const calibration *c, size_t output) {
    for (size_t i = 0; i < c->n_tensors; i++)
        if (c->outputs[output][i].calibrated) return true;
    return false;
}

/* The rounding whose plans have one. */
extern const rounding_kind rounding_by_calibration;
