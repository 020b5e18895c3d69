/* A job: a text, threads and memory, and the bounds that follow from them before anything is read. */
#pragma once

#include <math.h>

#include "forward/graph/forward.h"

/* Tokens of a batch at most, unless a job asks for more: that makes decoding weights cheaper for experts
 * alone, of which each sees a part of the tokens. */
enum { FORWARD_BATCH_TOKENS = 2048 };

/* The token of the text at a mask, and how much its prediction counts: 0 where nothing is masked. */
typedef struct forward_masked {
    uint32_t token;
    float weight;
} forward_masked;

/* The text, threads and memory of a run, the same for all its streams. Lives as long as the run. */
typedef struct forward_job {
    const uint32_t *ids; /* windows x context */
    size_t windows, context;
    /* Marks of the same tokens, if windows hold several texts or tokens count differently: observers get the
     * inputs of tokens that count, times the root of their weight, so that squares and products of inputs are
     * weighted sums. NULL: each window is one text, and all count alike. */
    const forward_mark *marks;
    /* Masked tokens of the same windows: only these are predicted. NULL: each token's next one
     * is, given by the ids, with the weight that the marks give. */
    const forward_masked *masked;
    bool in_place;        /* the logits at a mask predict its token, not those at the token before it */
    int threads;          /* threads to use, at most */
    uint64_t memory;      /* bytes to stay within, as far as that can be done */
    uint64_t extra_bytes; /* bytes that the caller takes meanwhile; they count */
    /* Most tokens of a batch; fewer than FORWARD_BATCH_TOKENS count as these. Not 0: mixtures have hidden
     * states in a file before their experts have few tokens of a batch. */
    size_t batch_tokens;
    bool probes; /* forward_stream_probe will be called */
    /* States of all windows are kept so many times: of one before each time that a model runs its blocks. 0:
     * once. */
    size_t loops;
    /* Progress callback. `work` is what was done since the last call, in bytes of weights times windows; 0
     * only asks whether to continue. Looks report no work. On false the call ends with the callback's error.
     * May be NULL. */
    bool (*progress)(void *data, double work, const char *what, gq_error *e);
    /* If one process reads the layers for all: hands out the n bytes of a layer, or fills them in. awaits:
     * this process only gets them. NULL: layers are read here. */
    bool (*share)(void *data, void *bytes, size_t n, gq_error *e);
    bool awaits;
    void *data;
} forward_job;

static inline size_t forward_job_loops(const forward_job *j) { return j->loops ? j->loops : 1; }
/* The factor of a token's inputs. */
static inline float forward_weight_root(uint32_t weight) { return sqrtf((float)weight / FORWARD_WEIGHT_ONE); }
/* The marks of a window and those behind it; NULL: there are none. */
static inline const forward_mark *forward_job_marks(const forward_job *j, size_t window) {
    return j->marks ? j->marks + window * j->context : NULL;
}
/* The masked tokens of a window and of those behind it; NULL: there are none. */
static inline const forward_masked *forward_job_masked(const forward_job *j, size_t window) {
    return j->masked ? j->masked + window * j->context : NULL;
}
/* The right prediction for the token of this number, counted over all windows. */
static inline uint32_t forward_job_right(const forward_job *j, size_t token) {
    return j->masked ? j->masked[token].token : j->ids[token];
}
/* The position in a window with the logits of the token after `from`. */
static inline size_t forward_job_place(const forward_job *j, size_t from) { return from + j->in_place; }
/* The weight of the prediction of a token, by its number over all windows, never a window's first: as much as the
 * token itself; 0 where it begins a text. */
double forward_job_weight(const forward_job *j, size_t token);
/* The number of the job's tokens that count. */
uint64_t forward_job_counted(const forward_job *j);
/* The number of windows that so many tokens fill: at least one, and no more than there are. */
size_t forward_job_windows(const forward_job *j, size_t tokens);
/* Tokens of a batch with which a mixture's experts have enough for each time that they are decoded: what a
 * job's batch_tokens can be where its caller takes little for each token. */
size_t forward_batch_tokens(const forward_model *m);
/* Windows of a batch at most, whatever memory there is. */
size_t forward_job_batch(const forward_job *j);
/* All work that progress will get of one stream: of its layers and, with `logits`, of its logits. */
double forward_job_work(const forward_job *j, const forward_model *m, bool logits);

/* Known before anything is read. */
typedef struct forward_bounds {
    size_t batch; /* windows at once */
    bool in_file; /* hidden states do not fit into memory, beside a batch of a size that is worth it */
    uint64_t hidden_states; /* bytes of all streams' hidden states, wherever they are */
    uint64_t peak;  /* bytes that are taken at most, `extra_bytes` among them; beyond `memory` where a single
                        window needs more. UINT64_MAX: more than can be counted */
    uint64_t layer; /* bytes that a layer may take at most (forward_layer_new), where a whole one does not
                        fit; 0: it does */
} forward_bounds;
/* Memory bounds of a run with one stream per given model. logits: forward_run_head will be called. */
forward_bounds forward_bounds_of(const forward_job *j, const forward_model *const *models, size_t n,
                                 bool logits);

/* The peak with so many windows at once and hidden states in a file. layer: as forward_bounds has it. */
uint64_t forward_peak_in_file(const forward_job *j, const forward_model *const *models, size_t n,
                              size_t batch, uint64_t layer);
