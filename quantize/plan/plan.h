/* A plan from the inside: what plan_make works out and gq_run carries out. */
#ifndef GQ_PLAN_H
#define GQ_PLAN_H

#include <sys/stat.h>
#include <time.h>

#include "codec/codec.h"
#include "gguf/facts.h"
#include "imatrix/imatrix.h"
#include "mixes/mixes.h"
#include "quantize/gquant.h"
#include "quantize/plan/chunk.h"
#include "quantize/words.h"

/* A tensor of the input that is written, with what all outputs share of it. */
typedef struct plan_source {
    const gguf_tensor *tensor;
    char name[GGUF_MAX_NAME + 1];     /* in the outputs */
    const float *importance;          /* normalised, one value per column of each matrix; NULL: none */
    uint32_t importance_sum;          /* checksum of the values */
    bool covered;                     /* the data have been looked up */
    uint64_t experts, experts_unseen; /* matrices with data of their own; of these, never activated */
} plan_source;

typedef struct plan_shard {
    char *path, *temporary;
    gguf_header *header;
    const uint8_t *head; /* the header's bytes */
    uint64_t head_size, size;
} plan_shard;

typedef struct plan_place {
    uint32_t shard;
    uint64_t offset, end; /* in the shard's file; up to `end` the tensor's padding reaches */
} plan_place;

typedef struct plan_output {
    const mix_filetype *filetype; /* with a target, that of most weights */
    char label[32];               /* what people call it: the file type's name, or the target */
    char *path;                   /* as asked for, or derived */
    uint32_t n_shards;
    plan_shard *shards;
    uint64_t digest;    /* in each of several shards: they belong together */
    gq_tensor *tensors; /* in output order, as `places` and `losses` */
    plan_place *places;
    gq_loss *losses;
    gq_summary summary;
} plan_output;

/* Key-value pairs to set, in order; keys and values are owned. */
typedef struct plan_overrides {
    size_t n;
    gguf_kv *items;
} plan_overrides;

/* --prune-layers: old numbers of the layers that stay, in order. n = 0: nothing is pruned. */
typedef struct plan_layers {
    uint64_t *kept;
    size_t n;
    size_t n_absent; /* that the model does not have; `absent` is one of them */
    uint64_t absent;
} plan_layers;

/* What a plan is made of, for journals: two plans with the same identity write the same bytes. */
typedef struct plan_identity {
    uint32_t input;   /* times of change of the input's shards */
    uint32_t content; /* their headers, and a sample of the weights */
    uint32_t options; /* the encode_settings */
    uint32_t layout;  /* what is where in each output, from which tensor; and the cut into chunks */
} plan_identity;

struct gq_plan {
    int threads;
    encode_settings settings; /* what decides the bytes of blocks; hashed by all that is kept */
    bool force, join;
    uint32_t part, parts; /* 0, 0: the whole work */
    const kernels *kernels;
    gguf_model model;
    struct timespec *modified; /* of each input shard when the plan was made */
    imatrix matrix;
    bool has_matrix; /* with at least one entry left */
    plan_layers layers;
    plan_overrides overrides;
    gguf_facts facts; /* after overrides */
    size_t n_tensors;
    plan_source *sources; /* in output order */
    size_t n_outputs;
    plan_output *outputs;
    chunk_map chunks;
    plan_identity identity;
    char *measure_file; /* see gq_plan_measure_file */
    word_list warnings;
    double seconds;
};

/* All of a plan but what lies beside its outputs; gq_plan_free frees it. */
gq_plan *plan_make(const gq_options *options, gq_error *e);
/* Path of the input as given, for messages. */
const char *plan_input(const gq_plan *plan);
bool plan_warn(gq_plan *plan, gq_error *e, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* What gives each tensor its type. */
typedef struct plan_assignment {
    mix_model model;
    mix_options options;
    mix_pattern *patterns, *keep;
    mix_tensor *tensors;
    uint32_t *order;
    uint32_t *types;     /* options.types, for a target */
    bool *covered;       /* options.covered */
    mix_choice *choices; /* n_outputs x n_tensors */
} plan_assignment;

/* ---- plan.c ---- */
/* Give the tensors of an output their types; may be done again with other options. */
bool plan_assign(gq_plan *plan, plan_assignment *a, size_t output, gq_error *e);

/* ---- identity.c ---- */
extern const char gq_build_id[9]; /* of the sources that this was built from (cmake/build-id.cmake) */
/* "0.1.0-1a2b3c4d": version and sources, which decide the bytes as much as the plan does. */
void plan_build(char to[24]);
/* What the input is; reads a little of its weights. */
bool plan_identify_input(gq_plan *plan, gq_error *e);
/* The settings, and when all outputs are laid out what is where. */
void plan_identify_layout(gq_plan *plan);
/* A number for a set of shards: what it is made of, and how. Unlike the identity it depends on neither times
 * nor builds, since it is in the output. */
uint64_t plan_set_digest(const gq_plan *plan, const plan_output *out);

/* ---- target.c ---- */
/* Whether a size is asked for instead of a file type. */
bool plan_has_target(const gq_options *options, size_t output);
bool plan_check_target(const gq_options *options, gq_error *e);
/* What the output is called after: "7.5GB", "4.6bpw". */
void plan_target_label(const gq_options *options, size_t output, char label[32]);
/* Give the tensors of all outputs that have a target their types, by measuring. */
bool plan_targets(gq_plan *plan, plan_assignment *a, const gq_options *options, gq_error *e);

/* ---- prune.c ---- */
/* Read "3,7,11" and find which layers stay. */
bool plan_layers_read(plan_layers *layers, const char *list, const gguf_model *model, gq_error *e);
/* New name of a tensor: renumbered, or as it is; false: it belongs to a pruned layer. */
bool plan_layers_rename(const plan_layers *layers, const char *name, char to[GGUF_MAX_NAME + 1]);

/* ---- override.c ---- */
/* Read "KEY=TYPE:VALUE" items; types of keys that the model has are kept where the value fits. */
bool plan_overrides_read(plan_overrides *overrides, const gq_list *items, const gguf_model *model,
                         gq_error *e);
void plan_overrides_free(plan_overrides *overrides);

/* ---- meta.c ---- */
/* What else but text the key may hold is no model. */
bool plan_check_architecture(const gq_plan *plan, gq_error *e);
/* The output's metadata, all but the split keys. */
bool plan_meta_write(const gq_plan *plan, const plan_output *out, const gq_options *options, gguf_header *h,
                     gq_error *e);

/* ---- advice.c ---- */
/* Adapters and importance data have nothing to quantize. */
bool plan_check_kind(const gq_plan *plan, gq_error *e);
/* Warn of what the user may not know of the model: once its tensors have their types. */
bool plan_advise(gq_plan *plan, gq_error *e);

/* ---- layout.c ---- */
/* Shards, headers, offsets and sizes of an output whose tensors have their types; may be done again. */
bool plan_layout(gq_plan *plan, plan_output *out, const gq_options *options, gq_error *e);
void plan_layout_free(plan_output *out);

/* ---- paths.c ---- */
/* The input's name with the file type in place of F16, BF16 or F32, in `folder` (NULL: the input's);
 * malloc'ed, NULL: no memory. */
char *plan_derive_path(const char *folder, const char *input, const char *filetype);
/* PREFIX-kkkkk-of-nnnnn.gguf for the k-th shard (from 0) of n. When n is 1 it is the path itself, or, where
 * that was given as a prefix, PREFIX.gguf. */
char *plan_shard_path(const char *path, bool prefix, uint32_t k, uint32_t n);
/* Whether this is a shard of the input, or the importance data. */
bool plan_is_input(const gq_plan *plan, const gq_options *options, const struct stat *st);
/* Whether all outputs may be written where they are asked for. named: which shards, output by output, have
 * their names from an earlier run; NULL: none. */
bool plan_check_targets(const gq_plan *plan, const gq_options *options, const bool *named, gq_error *e);

/* ---- importance.c ---- */
/* Open, filter and check the importance data. */
bool plan_open_importance(gq_plan *plan, const gq_options *options, gq_error *e);
/* Whether a tensor has data. */
bool plan_has_importance(const gq_plan *plan, const plan_source *source);
/* Say which tensors of an output got another type because they have none. */
bool plan_warn_raised(gq_plan *plan, const plan_output *out, const mix_choice *choices, gq_error *e);
/* Give a source its values; nothing happens where it has them, or where there are none. */
bool plan_cover_source(gq_plan *plan, plan_source *source, const gq_options *options, gq_error *e);
/* Give the sources that some output quantizes their values, and each output's tensors their coverage. */
bool plan_cover(gq_plan *plan, const gq_options *options, gq_error *e);

#endif
