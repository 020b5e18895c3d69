/* A plan from the inside: what plan_make works out and gq_run carries out. */
#pragma once

#include "base/warnings.h"
#include "codec/codec.h"
#include "gguf/facts.h"
#include "gguf/gguf.h"
#include "imatrix/imatrix.h"
#include "mixes/mixes.h"
#include "quantize/gquant_quantize.h"
#include "quantize/plan/changes/layers.h"
#include "quantize/plan/changes/pairs.h"
#include "quantize/plan/chunk.h"

/* A tensor of the input that is written, with what all outputs share of it. */
typedef struct plan_source {
    const model_tensor *tensor;   /* as it will be written, but for its type */
    const model_tensor *stored;   /* as it is in the input; another than `tensor`: plan_transposes */
    model_tensor view;            /* `tensor` points here then; its weights are read from `stored` */
    uint64_t number;              /* of `stored` among the model's */
    bool transposed;              /* in the outputs */
    gq_origin origin;             /* of `stored`, if it has one */
    char name[GGUF_MAX_NAME + 1]; /* in the outputs */
    tensor_inputs inputs;         /* once looked up, as `covered` says */
    uint32_t inputs_digest;
    bool covered;
    uint64_t lattice; /* types that hold the lattice it lies on, bit by number (lattice.h); 0: none */
} plan_source;

typedef struct plan_shard {
    char *path, *temporary;
    gguf_header *header;
    const uint8_t *head; /* the header's bytes */
    uint64_t head_size, size;
} plan_shard;

typedef struct rounding rounding;

typedef struct plan_place {
    uint32_t shard;
    uint64_t offset, end; /* in the shard's file; up to `end` the tensor's padding reaches */
} plan_place;

typedef struct plan_output {
    const mix_filetype *filetype; /* with a target, that of most weights */
    mix_pattern *recipe;          /* of a name with a recipe; NULL: it has none */
    char label[32];               /* what people call it: the file type's name, or the target */
    char *path;                   /* as asked for, or derived */
    uint32_t n_shards;
    plan_shard *shards;
    uint64_t digest; /* written into each shard where there are several, to show that they belong together */
    uint64_t source_at;  /* the same of the checksum of all weights (GGUF_SOURCE_KEY) */
    uint64_t digests_at; /* of the tensors' digests (identity.h) in the first shard's file; 0: it has none */
    struct reuse_offer *offers; /* per tensor; NULL: nothing is reused (reuse.h) */
    gq_tensor *tensors;         /* in output order, as `places` */
    plan_place *places;
    gq_summary summary;
} plan_output;

/* The identity of a plan, for journals: two plans with the same identity write the same bytes. */
typedef struct plan_identity {
    uint32_t input;   /* times of change of the input's shards */
    uint32_t content; /* their headers, and a sample of the weights */
    uint32_t options; /* the encode_settings, and those of the rounding */
    uint32_t layout;  /* what is where in each output, from which tensor; and the cut into chunks */
} plan_identity;

/* The share of the work that is asked for. The run finds out how much of it is left to do: run_mode in
 * run/engine.c. */
typedef enum plan_share {
    SHARE_WHOLE,
    SHARE_PART, /* the part-th of parts */
    SHARE_JOIN, /* nothing but to finish what all parts have made; parts: how many, 0: not said */
} plan_share;

struct gq_plan {
    int threads;
    gq_comm *comm;            /* the ranks that carry it out; NULL: this process alone */
    encode_settings settings; /* what decides the bytes of blocks; hashed by all that is kept */
    bool force;
    plan_share share;
    uint32_t part, parts;
    uint32_t sync_ms; /* between two times that finished work is made safe */
    const kernels *kernels;
    model_source model;
    gq_beside beside[MODEL_BESIDE];      /* what else the model's folder holds */
    bool model_is_lent;                  /* the caller's (gq_options.model) */
    model_inputs inputs;                 /* without entries: no importance data */
    struct rounding *rounding;           /* what decides codes (rounding.h) */
    const struct model_runners *runners; /* what runs models (runners.h) */
    plan_layers layers;
    plan_overrides overrides;
    plan_removed removed;
    model_kv *completed; /* the model's pairs, and one that it lacked and is overridden; NULL: as they are */
    model_facts facts;   /* after overrides */
    size_t n_tensors;
    plan_source *sources; /* in output order */
    size_t n_outputs;
    plan_output *outputs;
    chunk_map chunks;
    plan_identity identity;
    model_source *reused; /* earlier outputs, to copy tensors from; they decide no bytes */
    size_t n_reused;
    char *measure_file; /* see gq_plan_measure_file */
    double seconds;     /* it took to make the plan */
    warning_list warnings;
};

/* Whether a tensor's matrices are transposed on the way: quantize/strips/strip.h then reads them. */
static inline bool plan_transposes(const plan_source *s) { return s->tensor != s->stored; }
/* Whether a tensor's bytes are copied as they are in the input. */
static inline bool plan_copies(const plan_source *s, const gq_tensor *to) {
    return to->to == to->from && !plan_transposes(s) && !to->calibrated;
}

/* Whether some tensor of an output is calibrated. */
static inline bool plan_any_calibrated(const gq_plan *plan, const plan_output *out) {
    for (size_t i = 0; i < plan->n_tensors; i++)
        if (out->tensors[i].calibrated) return true;
    return false;
}

/* Makes a plan without looking at what lies beside its outputs; gq_plan_free frees it. NULL: *e says why.
 * runners: what runs models for it; it must outlive the plan. */
gq_plan *plan_make(const gq_options *options, const struct model_runners *runners, gq_error *e);
/* Path of the input as given, for messages. */
static inline const char *plan_input(const gq_plan *plan) { return plan->model.path; }
