/* Opens models: their keys, tensors and layers. */
#include "forward/graph/model.h"

#include <stdlib.h>
#include <string.h>

#include "forward/graph/residual/residual.h"

/* ---- kernels of a level ---- */

extern const forward_kernels forward_kernels_v2, forward_kernels_v3, forward_kernels_v4, forward_kernels_neon,
    forward_kernels_generic;

static const struct {
    const char *name; /* of the codec's level */
    const forward_kernels *kernels;
} levels[] = {
#ifdef GQ_HAVE_v2
    {"x86-64-v2", &forward_kernels_v2},
#endif
#ifdef GQ_HAVE_v3
    {"x86-64-v3", &forward_kernels_v3},
#endif
#ifdef GQ_HAVE_v4
    {"x86-64-v4", &forward_kernels_v4},    {"amx", &forward_kernels_v4},
#endif
#ifdef GQ_HAVE_neon
    {"neon", &forward_kernels_neon},
#endif
#ifdef GQ_HAVE_generic
    {"generic", &forward_kernels_generic},
#endif
};

const forward_kernels *forward_kernels_of(const kernels *k) {
    for (size_t i = 1; i < sizeof levels / sizeof *levels; i++)
        if (!strcmp(levels[i].name, kernels_name(k))) return levels[i].kernels;
    return levels[0].kernels; /* a level that every supported processor has */
}

/* ---- a model ---- */

/* Refuses transposed tensors before shapes are checked, which would be reported as wrong. */
static bool refuse_transposed(const forward_model *m, gq_error *e) {
    for (uint64_t i = 0; i < m->file->n_tensors; i++) {
        const model_tensor *t = m->file->tensors[i];
        if (t->transposed)
            return gq_fail(e,
                           "%s: tensor %s is stored transposed, as %s says, and a model cannot be run like "
                           "that: transpose it back first",
                           model_file_path(m->file, t), t->name, GGUF_TRANSPOSED_KEY);
    }
    return true;
}

/* Makes layers of the blocks for each time that they are run. The norm between two loops belongs to all
 * layers of the first, as it follows the last of them that is run. */
static bool repeat_blocks(forward_model *m, gq_error *e) {
    size_t blocks = m->sizes.blocks, n = blocks * m->loops;
    if (m->loops == 1) return true;
    layer_spec *layers = realloc(m->layers, n * sizeof *layers);
    if (!layers) return gq_fail_memory(e, n * sizeof *layers);
    m->layers = layers, m->sizes.layers = n;
    for (size_t i = blocks; i < n; i++) layers[i] = layers[i - blocks];
    stacks_rest(m);
    for (size_t i = 0; m->norms_loops && i + blocks < n; i++)
        layers[i].weight[WEIGHT_LOOP_NORM] = m->output_norm;
    return true;
}

forward_model *model_set_up(forward_model *m, gq_error *e) {
    m->codecs = kernels_select();
    bool ok = m->codecs || gq_fail_usage(e, "%s", kernels_why_none());
    m->kernels = ok ? forward_kernels_of(m->codecs) : NULL;
    m->elements = ok ? m->kernels->elements : NULL;
    if (ok && refuse_transposed(m, e) && model_read_keys(m, e) && model_find_tensors(m, e) &&
        repeat_blocks(m, e)) {
        for (size_t i = m->first; i < m->sizes.layers; i++) {
            m->sizes.layer_bytes = max(m->sizes.layer_bytes, layer_spec_bytes(&m->layers[i]));
            m->sizes.layer_least = max(m->sizes.layer_least, layer_spec_least(&m->layers[i]));
        }
        return m;
    }
    forward_model_free(m);
    return NULL;
}

forward_model *model_new_of(const model_source *g, const architecture *row,
                            const sublayer_kind *const *sublayers, gq_error *e) {
    forward_model *m = calloc(1, sizeof *m);
    if (!m) return gq_fail_memory(e, sizeof *m), NULL;
    m->file = g, m->path = g->path, m->arch = row, m->sublayer_kinds = sublayers;
    return model_set_up(m, e);
}

static const architecture *source_row(const model_source *g) {
    model_facts facts = model_facts_of(g->kv, g->n_kv, NULL, 0);
    return arch_of_facts(&facts);
}

static const architecture *model_draft_row(const model_source *g) {
    const architecture *row = source_row(g);
    return row && row->kind && row->graph.mixers[0] ? row : NULL;
}

bool forward_continues_hidden_states(const model_source *g) { return model_draft_row(g) != NULL; }

forward_model *forward_model_new_draft(const model_source *g, const forward_model *target, gq_error *e) {
    forward_model *m = calloc(1, sizeof *m);
    if (!m) return gq_fail_memory(e, sizeof *m), NULL;
    m->file = g, m->path = g->path, m->arch = model_draft_row(g), m->sublayer_kinds = target->sublayer_kinds;
    m->target = target, m->arithmetic = target->arithmetic;
    return model_set_up(m, e);
}

bool forward_embeds(const model_source *g) {
    const architecture *row = source_row(g);
    return row && row->graph.embeds;
}

bool forward_is_bidirectional(const model_source *g) {
    const architecture *row = source_row(g);
    return row && (row->graph.both_ways || row->graph.coders);
}

bool forward_fills_masks(const model_source *g) {
    return forward_is_bidirectional(g) && !forward_embeds(g) && !source_row(g)->graph.coders;
}

void forward_model_free(forward_model *m) {
    if (!m) return;
    for (size_t i = 0; i < m->n_sublayers; i++) free(m->sublayers[i].numbers), free(m->sublayers[i].layers);
    for (size_t i = 0; i < m->n_mtp_layers; i++) forward_model_free(m->mtp_layers[i]);
    free(m->mtp_layers), free(m->mtp_row), free(m->layers);
    free(m);
}

void forward_model_set_arithmetic(forward_model *m, matmul_arithmetic arithmetic) {
    m->arithmetic = arithmetic;
    for (size_t i = 0; i < m->n_mtp_layers; i++) m->mtp_layers[i]->arithmetic = arithmetic;
}

const forward_sizes *forward_model_sizes(const forward_model *m) { return &m->sizes; }

bool forward_layer_idles(const forward_model *m, size_t i) {
    return i < m->sizes.layers && m->layers[i].is_idle;
}

bool forward_layers_alike(const forward_model *m, size_t a, size_t b) {
    const layer_spec *x = &m->layers[a], *y = &m->layers[b];
    return x->mixer.sublayer == y->mixer.sublayer && x->ffn.sublayer == y->ffn.sublayer &&
           x->beside.sublayer == y->beside.sublayer && x->tail.sublayer == y->tail.sublayer &&
           x->bank.sublayer == y->bank.sublayer;
}
