/* The inputs of a layer's weights as calibration gathers them: sites, pairs of inputs on their way between
 * ranks, metrics of rows, and GPTAQ's factor. */
#pragma once

#include "forward/graph/attention/scores.h"
#include "study/calibrate/calibration.h"

typedef struct calibrator calibrator;

/* ---- site.c ----
 * A site is the input of one or more linear layers, such as that of q, k and v. It has the activations of two streams,
 * the base model's x and y of the model rounded so far: the Hessians of the pairs (x, y) for each matrix, and the pairs
 * of held-out windows. gather.c fills it. */

/* The gathered inputs of one matrix. */
typedef struct site_inputs {
    hessian *hessian;
    uint64_t group; /* the token group (forward/stream/stream.h) that was added last */
    /* Held-out tokens, one after another, `features` values each: in the base model, in the other. Where the
     * residual stream is fitted `base` holds d, of as many values as the weight has rows. */
    float *base, *rounded;
    size_t held;
} site_inputs;

typedef struct site {
    const model_tensor *weights[FORWARD_MOST_WEIGHTS];
    size_t n_weights; /* 0: nothing is left to round */
    size_t features, matrices;
    size_t first, end; /* matrices first to end - 1 were gathered */
    /* The matrices, counted from `first`, whose inputs this rank has. dealt: other ranks have the rest; else
     * every rank has all. */
    size_t own, own_end;
    bool dealt;
    bool routed, late;
    float adds; /* forward_adds of the weight where the residual stream is fitted; 0: its own output is */
    site_inputs *inputs; /* one for each of them */
    /* Seconds: what adding to their Hessians took, and all else for a batch, the least of all batches, since the
     * first one touches new memory. */
    double hessian, probe;
    size_t batches;
} site;
/* Values of a held-out token in site_inputs.base. */
static inline size_t site_base_features(const site *s) {
    return s->adds != 0 ? s->weights[0]->ne[1] : s->features;
}
/* Matrices that are gathered at once, of those that are left; fit: as many as a rank's memory holds. Where
 * there are at least as many as ranks they are dealt. */
size_t site_matrices_at_once(size_t left, uint64_t fit, bool routed, size_t ranks);
/* The rotation (comm_share_rotated) by which the matrices from `first` on are dealt: those of one role anew in each
 * layer. */
uint64_t site_rotation(const model_tensor *weight, size_t first);
/* The rank that has the inputs of the i-th matrix that was gathered, where they are dealt. */
int site_owner(const site *s, const gq_comm *comm, size_t i);
void site_free(site *s);
/* Hands over the gathered inputs of the i-th matrix; the caller owns them from now on. */
site_inputs site_take(site *s, size_t i);
void site_inputs_free(site_inputs *inputs);

/* The sizes that decide how much memory a site takes. */
typedef struct site_sizes {
    hessian_shape shape;
    size_t matrices; /* gathered at once */
    size_t met;      /* matrices that a token meets: of experts some of all, of heads all that are gathered */
    size_t tokens;   /* of a batch, at most */
    size_t held;     /* tokens held out per matrix, at most */
    size_t repeats;  /* times that a matrix may meet a token */
    size_t taped;    /* tokens that a rank keeps until all have theirs; 0: there is one process */
    bool routed;
} site_sizes;
/* Returns forward_adds where the residual stream after a weight is fitted, else 0. */
float site_adds(const calibration_settings *s, const forward_model *m, const model_tensor *weight);
/* routed: the weight is of experts; late: as forward_inputs has it. met: matrices that a token then meets;
 * else it is not used. matrices: gathered at once. batch_windows: windows of a batch. */
typedef struct site_weight {
    const model_tensor *tensor;
    bool routed, late;
    size_t met, matrices;
    size_t taped; /* windows that a rank keeps */
} site_weight;
site_sizes site_sizes_of(const calibration_settings *s, const forward_model *m, const site_weight *w,
                         size_t batch_windows);

/* Pairs of inputs on their way between ranks. Sums over tokens are chains in the order of the text
 * (forward/stream/stream.h), and each rank has some windows of it. So a rank first records the pairs that its own
 * batches give, and then all ranks play all records in the order of the text: each gets every pair, and adds
 * it to its share of the Hessian. */

/* Pairs of a matrix: x[features of the base][tokens] and y[features][tokens]. */
typedef struct site_pairs {
    const float *x, *y;
    size_t x_stride, y_stride, tokens;
    const uint32_t *token; /* numbers among the batch's; NULL: all in order */
} site_pairs;

/* The same as one piece: x, y, and the numbers. */
typedef struct tape_entry {
    uint64_t matrix, window, tokens; /* window: the batch's first one */
    uint64_t numbered;               /* 1: `token` is not NULL */
} tape_entry;

typedef struct tape {
    size_t x_features, features;
    size_t n, capacity, n_pieces, pieces_capacity;
    tape_entry *entries;
    float **pieces;
} tape;

/* Bytes of an entry of so many tokens. */
uint64_t tape_bytes(uint64_t x_features, uint64_t features, uint64_t tokens);
void tape_free(tape *t); /* also one of zeros */
bool tape_record(tape *t, uint64_t matrix, uint64_t window, const site_pairs *p, gq_error *e);
/* A collective: has every rank play the entries of all, those of rank 0 first. Empties the tape. */
typedef bool tape_player(void *data, const tape_entry *entry, const site_pairs *p, gq_error *e);
bool tape_play(tape *t, gq_comm *comm, tape_player *player, void *data, gq_error *e);

/* ---- gather.c ----
 * Gathers the inputs of a site.
 *
 * Both streams are run batch by batch from the hidden states before a sublayer up to the first site that has
 * weights left to round. Experts are gathered some at a time, as many as their Hessians fit beside each other.
 * Tokens that only the rounded model sends to an expert count with no difference between the streams.
 *
 * Where the weight's output is added to the residual stream (forward_adds), what is fitted can be the residual stream
 * after it, in place of the output that the base model's weight gave. Then both streams run to the end of the sublayer,
 * the rounded one with the weight as it is in the file, and d is what its residual stream lacks for the base model's.
 * A token whose output is multiplied by a gate g, of those of all matrices that it meets, sum s, counts as g y with g
 * / s d: each matrix answers for its share, so that together they make up for all of it. */

/* Bytes of what is gathered, and of what is needed only while it is gathered. */
uint64_t site_bytes(const site_sizes *z);
uint64_t site_gathering_bytes(const site_sizes *z);
/* Bytes of a matrix's held-out tokens, of the base model's side or the rounded model's. */
uint64_t site_held_bytes(const site_sizes *z, bool base);

/* Runs both streams up to the calibrator's next site and gathers it; s->n_weights is 0 where none is left. The
 * caller frees *s, also on failure. */
bool site_gather(site *s, calibrator *c, gq_error *e);

/* ---- metric.c ----
 * The metrics by which rows of a layer's queries, keys and values count together, gathered from the base model's
 * stream. They are made of a fixed choice of positions in the first windows that are not held out, so they depend on
 * nothing but the model, the text and its windows. */

/* metric: [head][row][row], 1 on the diagonal in the mean over all heads. NULL: nothing was seen that sets
 * rows apart, so each counts by itself. */
typedef struct row_metric {
    forward_row_group group;
    float *metric;
} row_metric;

typedef struct layer_metrics {
    size_t n;
    row_metric of[FORWARD_MOST_GROUPS];
} layer_metrics;

enum { METRIC_WINDOWS = 4 }; /* windows that metrics are made of, at most */
/* Whether the layer has rows with a metric that an output rounds by feedback. */
bool layer_metrics_wanted(const calibration *of, const forward_layer *layer);
/* Runs the base model's stream over the layer, or the sublayer that attends, up to its scores. The caller frees *m,
 * also on failure. */
bool layer_metrics_gather(layer_metrics *m, const calibration *of, forward_stream *base, forward_layer *layer,
                          forward_sublayers which, gq_error *e);
void layer_metrics_free(layer_metrics *m);

/* Bytes of the metrics of a layer's groups, and those that gathering takes with them. */
uint64_t layer_metrics_bytes(const forward_row_group *groups, size_t n, size_t context, int threads);

/* ---- gptaq.c ----
 * How far a matrix's target moves (GPTAQ's term; codec/feedback.h has the formula): the factor a of w + a u.
 *
 * u makes up for what the matrix's inputs differ by from the base model's, as far as the calibration tokens show. On
 * other tokens it fits worse, the fewer tokens there were for each column, and the less the difference depends on the
 * inputs at all. So a is what fits the held-out tokens: with E = (x - y) w or what the residual stream lacks, and F =
 * y u,
 *
 *     a = sum E F / sum F F, within 0 and T / (T + 3 n) for T tokens and n columns,
 *
 * over all held-out tokens and some rows of the matrix, and half of that, as other texts differ more. A token whose
 * E is far beyond the others' counts for no more than GPTAQ_FAR times the median: the first tokens of texts can
 * have a residual stream a thousand times as large. */

/* Sets the factor of all blocks of f, where the settings leave it open and tokens are held out; else it stays. The
 * matrix is of all weights of the site. held: its held-out tokens, not transposed yet. */
bool gptaq_choose_a(const calibration *job, const site *s, uint64_t matrix, const site_inputs *held,
                    const cholesky *f, threads_pool *pool, gq_error *e);
/* Bytes that this takes for a weight, with so many held-out tokens. */
uint64_t gptaq_bytes(const model_tensor *t, size_t held);
