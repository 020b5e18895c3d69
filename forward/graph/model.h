/* A model that is set up, as the files of this folder see it; others use forward.h. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "arch/arch.h"
#include "arch/graph.h"
#include "arch/weights.h"
#include "forward/graph/draft/draft.h"
#include "forward/graph/forward.h"
#include "forward/graph/keys.h"
#include "forward/graph/layer.h"
#include "forward/graph/simd/kernels.h"
#include "forward/products/matmul.h"
#include "gguf/facts.h"

/* The facts of each weight that a layer may have (arch/weights.h). */
typedef struct weight_facts {
    const char *name; /* "blk.N." before it and ".weight" or ".bias" behind it make the tensor's */
    bool is_decoded;
    bool is_bare;
    bool is_routed;
    bool is_late;
    bool is_helper;
} weight_facts;
extern const weight_facts weight_facts_of[WEIGHT_SLOTS];

/* The sublayers that a layer of a model is made of: ARCH_SUBLAYERS (arch/graph.h) lists them, sublayer.h has their
 * interface. */
typedef struct sublayer_kind sublayer_kind;

#define SUBLAYER_DECLARE(member, name) extern const sublayer_kind name;
ARCH_SUBLAYERS(SUBLAYER_DECLARE)
#undef SUBLAYER_DECLARE

/* By arch_sublayer; that of SUBLAYER_NONE is NULL (model_keys.c). */
extern const sublayer_kind *const sublayer_kinds[ARCH_SUBLAYER_LIMIT];

/* A sublayer of the architecture's row, and what it knows of this model. */
typedef struct model_sublayer {
    const sublayer_kind *kind;
    size_t at;       /* its index in forward_model.sublayers */
    void *numbers;   /* the sublayer's own struct for the whole model */
    uint8_t *layers; /* a struct of the sublayer's for each layer */
    size_t carried;  /* the first of its rows of the residual stream */
} model_sublayer;

/* The sublayer that a layer has. */
typedef struct sublayer_spec {
    const model_sublayer *sublayer; /* NULL: none */
    void *numbers;                  /* the sublayer's struct for this layer */
    weight_slot before;             /* norm that it reads through; WEIGHT_SLOTS: none */
    weight_slot after;              /* norm of what it gives; WEIGHT_SLOTS: none */
} sublayer_spec;

/* Input of the feed-forward sublayer (FFN) of a layer with a mixer; the FFN's own norm follows, if it has one. */
typedef enum ffn_input {
    FFN_READS_SUM,   /* the residual stream, to which the mixer's output has been added */
    FFN_READS_START, /* the layer's input, as the mixer does: parallel attention and FFN (GPT-J, PaLM) */
    FFN_READS_MIXER, /* the mixer's output behind its norm, and no residual stream (Chameleon's swin_norm) */
} ffn_input;

enum { LAYER_SUBLAYERS = 7 };

/* The tensors (NULL: the layer has none) and sublayers that a layer is made of. */
typedef struct layer_spec {
    const model_tensor *weight[WEIGHT_SLOTS], *bias[WEIGHT_SLOTS];
    const model_tensor
        *factor[WEIGHT_SLOTS]; /* a matrix's products are multiplied by this, one for each matrix */
    union {
        struct {
            sublayer_spec mixer;
            sublayer_spec beside; /* a second mixer; its norms are the first one's */
            sublayer_spec ffn;
            sublayer_spec tail;     /* changes the residual stream behind both sublayers */
            sublayer_spec bank;     /* hidden states before earlier layers (residual.h); it is not run */
            sublayer_spec switched; /* adds to products (switched.c); it is not run either */
            sublayer_spec entry;    /* computes the hidden states before the layer (draft.c) */
        };
        sublayer_spec
            sublayers[LAYER_SUBLAYERS]; /* the same, in the order in which their tensors are found */
    };
    activation_rule act, experts_act; /* of dense sublayers and shared experts; of experts */
    float end_scale;                  /* the layer's output is multiplied by this; 0: 1 */
    bool is_idle;                     /* the layer is not run, and its weights are not read */
    ffn_input ffn_reads;
    /* Uses of the layer's input, batch.start: */
    bool ffn_needs_start; /* its router or the tail reads it, beside what ffn_reads says */
    /* the input is added to x a second time behind the mixer, and attn_norm_2 follows */
    bool adds_start;
} layer_spec;
_Static_assert(offsetof(layer_spec, entry) - offsetof(layer_spec, sublayers) ==
                   (LAYER_SUBLAYERS - 1) * sizeof(sublayer_spec),
               "`sublayers` has all of them, up to the last");

static inline bool layer_is_parallel(const layer_spec *l) { return l->ffn_reads != FFN_READS_SUM; }

enum { MODEL_SUBLAYERS = 2 * ARCH_GRAPH_SUBLAYERS + 5 };

enum { MODEL_MOST = INT32_MAX }; /* of any count: so products of two, and sums of them, fit 64 bits */

struct forward_model {
    const model_source *file;
    const char *path;
    const architecture *arch;
    const sublayer_kind *const *sublayer_kinds; /* by arch_sublayer */
    /* Set for a model that is only checked, which has no kernels; NULL: it is run. */
    const model_expected *expected;
    const kernels *codecs;
    const forward_kernels *kernels;
    const element_kernels *elements;
    matmul_arithmetic arithmetic;
    forward_sizes sizes;
    layer_spec *layers;
    const model_tensor *out_bias, *output_norm, *output_norm_bias;
    const model_tensor *embedding_norm, *embedding_norm_bias, *positions, *kinds; /* NULL: none */
    const model_tensor
        *dense[FORWARD_MOST_DENSE], /* n_dense of them, by which what was pooled is multiplied */
        *dense_bias;                /* of the first; NULL: none */
    size_t n_dense;
    model_sublayer sublayers[MODEL_SUBLAYERS];
    size_t n_sublayers;

    bool lacks_key; /* reading keys failed as one is missing */
    bool both_ways; /* tokens see those behind them */
    bool centers;   /* norms are layer norms, which take the mean off */
    float eps, eps_after, final_cap;
    float final_scale; /* of the output matrix's input */
    float embedding_scale, residual_scale;
    /* A sublayer's result is added to what the sublayer has read, times this, and the sum replaces the residual
     * stream; 0: it is added to the residual stream. */
    float input_scale;
    size_t encoders;      /* layers of an encoder whose blocks have names of their own (residual.h) */
    uint32_t start_token; /* the decoder begins with this token */
    size_t lower_cycles;  /* loops of two stacks (residual.h), the last runs the upper one; 0: no stacks */
    size_t loops;         /* times that all blocks are run, one after another */
    bool norms_loops;     /* output_norm is applied between two of them */
    bool is_swin;         /* norms stand as PLACE_SWIN has them */
    bool parallel_own;    /* both sublayers read the layer's input, each through a norm of its own */

    /* MTP layers (draft.h), models of their own that are freed with this one; of such a model: whose it is,
     * its only layer, and its row, which is that of the architecture but for what such a block has in another
     * way. */
    forward_model **mtp_layers;
    size_t n_mtp_layers;
    const forward_model *target; /* of a draft that has a file of its own (draft.h); NULL: it is none */
    draft_sources sources;       /* the target's data that the draft reads */
    bool norms_fused;            /* a norm follows the matrix that fuses these; else it may stand before */
    size_t mixer_width;          /* of the mixers' input; 0: the width */
    const forward_model *mtp_of; /* NULL: it is no MTP layer */
    size_t first;                /* the first layer that has sublayers; others have none */
    architecture *mtp_row;
    bool final_centers; /* the last norm takes the mean off, whatever others do */
};

/* Returns what a sublayer has read from the model's metadata; NULL: the model's row has no such sublayer. */
static inline void *model_numbers(const forward_model *m, const sublayer_kind *kind) {
    for (size_t i = 0; i < m->n_sublayers; i++)
        if (m->sublayers[i].kind == kind) return m->sublayers[i].numbers;
    return NULL;
}

/* The file that has a tensor of the model's embedding or output matrix, which may be its target's. */
static inline const model_source *model_file_of(const forward_model *m, const model_tensor *t) {
    const forward_model *of = m->target;
    return of && (t == of->sizes.out || t == of->sizes.embedding) ? of->file : m->file;
}

/* Returns what the sublayer knows of layer i; NULL: the layer has another sublayer. */
static inline void *model_layer_numbers(const forward_model *m, const model_sublayer *p, size_t i) {
    for (const sublayer_spec *of = m->layers[i].sublayers; of < m->layers[i].sublayers + LAYER_SUBLAYERS;
         of++)
        if (of->sublayer == p) return of->numbers;
    return NULL;
}

/* The metadata, with pairs that count in place of the model's own where it is only checked. */
static inline model_facts model_expected_facts(const forward_model *m) {
    const model_expected *x = m->expected;
    return model_facts_of(m->file->kv, m->file->n_kv, x ? x->set : NULL, x ? x->n_set : 0);
}

/* Text of an error behind the model's path. */
const char *model_error_behind_path(const gq_error *e, const char *path);

/* Sets up a model as one of this architecture. sublayers: the code of each arch_sublayer. NULL: *e says why. */
forward_model *model_new_of(const model_source *g, const architecture *row,
                            const sublayer_kind *const *sublayers, gq_error *e);
/* Reads metadata and finds tensors of a model whose file, row and sublayers are set. Returns it; NULL: it is
 * freed, and *e says why. */
forward_model *model_set_up(forward_model *m, gq_error *e);
/* Read the metadata into numbers; then find the tensors, from which some numbers of rows follow. */
bool model_read_keys(forward_model *m, gq_error *e);

/* Reads and decodes the values of a small tensor; t NULL: does nothing. raw: memory for t->size bytes. */
bool model_read_values(const forward_model *m, const model_tensor *t, void *raw, float *values, gq_error *e);
/* The same of a row of a matrix, which may be the target's. raw: memory for it. */
bool model_read_row(const forward_model *m, const model_tensor *t, uint64_t row, void *raw, float *values,
                    gq_error *e);

/* A weight of a layer in its stored type. Rows are counted through all of its matrices. */
typedef struct layer_matrix {
    const uint8_t *data; /* the rows that are in memory; NULL: there is no such weight */
    uint32_t type;
    uint64_t held;       /* rows in memory, from the first on; the others are read when they are multiplied */
    forward_blocks from; /* their source; read NULL: they are the model's own */
} layer_matrix;

enum { LAYER_ALIGNMENT = 64 };

struct forward_layer {
    const forward_model *model;
    const layer_spec *plan; /* NULL: nothing read so far */
    size_t index;
    bool ends_loop; /* see forward_layer_end_loop */
    uint64_t most;  /* bytes that it may take; 0: any */
    uint8_t *memory;
    uint64_t memory_bytes;
    uint8_t *window; /* part of `memory`, for rows that are read when they are multiplied */
    uint64_t window_bytes;
    layer_matrix own[WEIGHT_SLOTS], other[WEIGHT_SLOTS]; /* other: in place of its own where that is wanted */
    bool replaced;
    bool awaits[WEIGHT_SLOTS];                                     /* forward_layer_expect */
    const float *values[WEIGHT_SLOTS], *bias_values[WEIGHT_SLOTS]; /* of vectors; NULL: not there */
    const float *factor_values[WEIGHT_SLOTS];                      /* the same */
};

/* The matrix that products take: the layer's own, or one in its place. */
static inline const layer_matrix *layer_matrix_used(const forward_layer *l, weight_slot s) {
    return l->replaced && l->other[s].data ? &l->other[s] : &l->own[s];
}

/* Returns rows of a weight of the layer from row `first` on, in the type that products take: *n of them,
 * which may be fewer than were asked for. They are valid until the next call. NULL: *e says why they could
 * not be read. */
const uint8_t *layer_rows(const forward_layer *l, weight_slot s, uint64_t first, uint64_t *n,
                          threads_pool *pool, gq_error *e);

struct forward_tile {
    const forward_model *model;
    size_t most, first, rows; /* rows 0: nothing read so far */
    uint8_t *data;
    float *bias;
};

/* Keys that hardly another architecture has, and numbers that follow from others: what a row names as `own`
 * (arch/graph.h). All other keys are read before, without a fault, and each sublayer knows its numbers and
 * layers. */

void own_keys_read(forward_model *m, key_reader *r);
