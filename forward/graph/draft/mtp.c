#include "forward/graph/draft/draft.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "forward/graph/sublayer.h"

/* ---- setting up ---- */

/* Changes a row to that of its MTP layers, which attend with all keys and have both sublayers. */
static void mtp_change_row(architecture *row) {
    arch_graph *a = &row->graph;
    for (size_t i = 0; i < ARCH_GRAPH_SUBLAYERS; i++)
        if (a->mixers[i] == MIXER_ATTENTION || a->mixers[i] == MIXER_LATENT) a->mixers[0] = a->mixers[i];
    for (size_t i = 1; i < ARCH_GRAPH_SUBLAYERS; i++) a->mixers[i] = SUBLAYER_NONE;
    a->entry = SUBLAYER_MTP, a->one_sublayer = a->extra_layers = false, a->indexer = INDEXER_NONE;
    if (a->no_rope == ROPE_LOCAL_OR_DENSE) a->no_rope = ROPE_ALWAYS;
    if (a->mtp.place != PLACE_PRE) a->place = a->mtp.place;
}

/* Whether nobody has said how blocks of an architecture are run, or they would need a sublayer that is not run
 * for them. */
static bool mtp_is_new_kind(const architecture *row) {
    const arch_graph *a = &row->graph;
    return a->mtp.input == MTP_UNKNOWN || a->beside || (a->tail && a->mtp.input != MTP_STREAMS) || a->bank ||
           a->embedding_norm != EMBEDDING_AS_IS;
}

static forward_model *mtp_new(const forward_model *of, size_t i, gq_error *e) {
    forward_model *m = calloc(1, sizeof *m);
    if (m) m->mtp_row = malloc(sizeof *m->mtp_row);
    if (!m || !m->mtp_row) {
        gq_fail_memory(e, sizeof *m->mtp_row);
        free(m);
        return NULL;
    }
    *m->mtp_row = *of->arch;
    mtp_change_row(m->mtp_row);
    m->file = of->file, m->path = of->path, m->arch = m->mtp_row, m->sublayer_kinds = of->sublayer_kinds;
    m->mtp_of = of, m->first = of->sizes.layers + i, m->arithmetic = of->arithmetic;
    m->final_centers = of->arch->graph.mtp.centers;
    return model_set_up(m, e);
}

/* The MTP layers that the metadata speak of; 0 where the file has no tensor of them. */
static size_t mtp_count(const forward_model *m) {
    enum { MOST = 64 };
    model_facts facts = model_facts_of(m->file->kv, m->file->n_kv, NULL, 0);
    char name[GGUF_MAX_NAME + 1];
    int64_t blocks;
    snprintf(name, sizeof name, "blk.%zu.nextn.eh_proj.weight", m->sizes.layers);
    if (!m->arch->graph.extra_layers || !model_fact_int(&facts, "block_count", &blocks) ||
        !model_tensor_named(m->file, name))
        return 0;
    return min((size_t)blocks - m->sizes.layers, MOST);
}

bool forward_model_find_mtp_layers(forward_model *m, warning_list *warnings, gq_error *e) {
    size_t n = mtp_count(m);
    gq_error why = {0};
    if (n == 0) return true;
    if (mtp_is_new_kind(m->arch))
        return warnings_add(
            warnings, e, "%s: MTP layers of architecture '%s' are not supported and left out of model runs",
            m->path, m->arch->name);
    m->mtp_layers = calloc(n, sizeof(forward_model *));
    if (!m->mtp_layers) return gq_fail_memory(e, n * sizeof(forward_model *));
    for (size_t i = 0; i < n; i++) {
        if (!(m->mtp_layers[i] = mtp_new(m, i, &why)) && why.remedy == GQ_REMEDY_MEMORY)
            return gq_fail_again(e, &why, "%s", why.text);
        if (!m->mtp_layers[i])
            return warnings_add(warnings, e, "%s: MTP layer %zu is left out of model runs: %s", m->path,
                                m->sizes.layers + i, model_error_behind_path(&why, m->path));
        m->n_mtp_layers++;
    }
    return true;
}

size_t forward_model_mtp_layers(const forward_model *m) { return m->n_mtp_layers; }
const forward_model *forward_model_mtp_layer(const forward_model *m, size_t i) { return m->mtp_layers[i]; }
const forward_model *forward_mtp_of(const forward_model *m) { return m->mtp_of; }
size_t forward_mtp_layer(const forward_model *draft) { return draft->first; }

bool forward_mtp_has_head(const forward_model *draft) {
    const forward_sizes *s = &draft->sizes;
    return s->out != draft->mtp_of->sizes.out;
}

/* ---- a run ---- */

/* The tail, whose rows of the hidden state are the streams; NULL: the hidden state is one. */
static const model_sublayer *mtp_tail(const forward_model *m) {
    const sublayer_kind *kind = m->sublayer_kinds[m->arch->graph.tail];
    for (size_t i = 0; i < m->n_sublayers; i++)
        if (m->arch->graph.tail && m->sublayers[i].kind == kind) return &m->sublayers[i];
    return NULL;
}

/* Moves all hidden states of a text on by a position. */
static void mtp_shift_row(const forward_batch *b, float *row) {
    for (size_t i = 0; i < b->n_spans; i++) {
        float *x = row + b->spans[i].first;
        memmove(x + 1, x, (b->spans[i].tokens - 1) * sizeof *x);
        *x = 0;
    }
}

bool forward_mtp_enter(forward_batch *b, const uint32_t *ids, const float *x, size_t stride, float *y,
                       size_t y_stride, gq_error *e) {
    const forward_model *of = b->model->mtp_of;
    size_t width = of->sizes.width * model_streams(b->model, mtp_tail(b->model));
    if (!forward_embed(b, NULL, ids, y, y_stride, e)) return false;
    if (of->arch->graph.mtp.input == MTP_STREAMS)
        x += mtp_tail(of)->carried * stride, y += mtp_tail(b->model)->carried * y_stride;
    if (of->arch->graph.mtp.input != MTP_NORMED)
        batch_copy(b, y, y_stride, x, stride, width);
    else if (!forward_norm_last(b, of, x, stride, y, y_stride, e))
        return false;
    for (size_t c = 0; c < width; c++) mtp_shift_row(b, y + c * y_stride);
    return true;
}
