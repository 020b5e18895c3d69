/* The numbers of a model and the sublayers of its layers, from its metadata. */
#include "forward/graph/residual/residual.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void model_read_scales(forward_model *m, key_reader *r) {
    const arch_graph *a = &m->arch->graph;
    m->embedding_scale = a->embedding_sqrt ? sqrtf((float)m->sizes.width) : 1;
    m->residual_scale = m->sizes.logit_factor = 1;
    if (a->logit_scale == REQUIRED) key_float_needed(r, "logit_scale", -1e6, 1e6);
    if (a->logit_scale != ABSENT) m->sizes.logit_factor = (float)key_scale(r, "logit_scale", 1);
    m->final_scale = 1;
}

static void model_read_norms(forward_model *m, key_reader *r) {
    const arch_graph *a = &m->arch->graph;
    const char *rms = "attention.layer_norm_rms_epsilon", *layer = "attention.layer_norm_epsilon";
    m->centers = a->norm == NORM_LAYER || (a->norm == NORM_BY_EPS && !key_there(r, rms));
    m->eps = (float)key_float_needed(r, m->centers ? layer : rms, 0, 1);
    m->eps_after = a->eps_after != 0 ? a->eps_after : m->eps;
}

/* There may be fewer blocks with tensors than the metadata say: a part of a model has few of them, and llama.cpp
 * reads no more. */
enum { BLOCKS_FREE = 512 };

static bool read_layers(forward_model *m, key_reader *r) {
    uint64_t blocks = key_number_needed(r, "block_count", 1, MODEL_MOST), extra = 0;
    if (m->arch->graph.extra_layers) extra = key_number(r, "nextn_predict_layers", 0, 0, blocks - 1);
    if (m->mtp_of && r->ok) extra = blocks - m->first - 1;
    bool counts_runs = m->arch->graph.tail == TAIL_STACKS;
    if (r->ok && !counts_runs && blocks > BLOCKS_FREE && blocks > m->file->n_tensors)
        key_fail(r, "block_count", "is %llu, but the model has only %llu tensors", (unsigned long long)blocks,
                 (unsigned long long)m->file->n_tensors);
    if (!r->ok) return false;
    m->sizes.layers = m->sizes.blocks = blocks - extra, m->loops = 1;
    if (m->arch->graph.coders) coders_read_keys(m, r, blocks);
    if (counts_runs) stacks_read_keys(m, r, blocks);
    if (!r->ok) return false;
    m->layers = calloc(m->sizes.layers, sizeof *m->layers);
    if (!m->layers) return gq_fail_memory(r->e, m->sizes.layers * sizeof *m->layers);
    for (size_t i = 0; i < m->sizes.layers; i++) {
        layer_spec *l = &m->layers[i];
        l->act.act = l->experts_act.act = m->arch->graph.act;
        l->ffn_needs_start = m->arch->graph.routing.reads_start || m->arch->graph.has[WEIGHT_FFN_NORM_EXPS] ||
                             (m->arch->graph.tail && m->sublayer_kinds[m->arch->graph.tail]->begin);
    }
    return true;
}

/* ---- sublayers ---- */

#define KIND(member, name) [member] = &(name),
const sublayer_kind *const sublayer_kinds[ARCH_SUBLAYER_LIMIT] = {ARCH_SUBLAYERS(KIND)};
#undef KIND

static bool new_sublayer(forward_model *m, const sublayer_kind *kind, gq_error *e) {
    model_sublayer *p = &m->sublayers[m->n_sublayers];
    size_t layer = kind->layer_bytes ? kind->layer_bytes : 1;
    *p = (model_sublayer){.kind = kind, .at = m->n_sublayers++};
    p->numbers = calloc(1, kind->model_bytes ? kind->model_bytes : 1);
    p->layers = calloc(m->sizes.layers, layer);
    return (p->numbers && p->layers) || gq_fail_memory(e, kind->model_bytes + m->sizes.layers * layer);
}

/* The layers that a sublayer says are its own, of those that have none yet; all of these for a row's last sublayer.
 */
static void give_layers(forward_model *m, key_reader *r, const model_sublayer *p, size_t place, bool is_last,
                        bool *is_own) {
    for (size_t i = 0; i < m->sizes.layers; i++) is_own[i] = true;
    if (!is_last && p->kind->choose_layers) p->kind->choose_layers(m, r, is_own);
    for (size_t i = m->first; i < m->sizes.layers; i++) {
        sublayer_spec *to = &m->layers[i].sublayers[place];
        if (is_own[i] && !to->sublayer)
            *to = (sublayer_spec){.sublayer = p, .numbers = p->layers + i * p->kind->layer_bytes};
    }
}

/* place: where the layers have the sublayer, as the first one has. */
static bool choose_sublayers(forward_model *m, key_reader *r, const arch_sublayer *kinds, size_t n_kinds,
                             const sublayer_spec *place) {
    bool *is_own = calloc(m->sizes.layers, sizeof *is_own);
    bool ok = is_own || gq_fail_memory(r->e, m->sizes.layers);
    for (size_t i = 0; ok && i < n_kinds && kinds[i]; i++) {
        bool is_last = i + 1 == n_kinds || !kinds[i + 1];
        ok = new_sublayer(m, m->sublayer_kinds[kinds[i]], r->e);
        if (ok)
            give_layers(m, r, &m->sublayers[m->n_sublayers - 1], (size_t)(place - m->layers->sublayers),
                        is_last, is_own);
    }
    free(is_own);
    return ok;
}

/* Takes the other sublayer away from layers that have only one. */
static void keep_one_sublayer(forward_model *m, key_reader *r) {
    key_list ff = key_list_of(r, "feed_forward_length");
    for (size_t i = 0; i < m->sizes.layers; i++) {
        bool has_ffn = key_number_at(r, &ff, i, 0, 0, MODEL_MOST) > 0;
        *(has_ffn ? &m->layers[i].mixer : &m->layers[i].ffn) = (sublayer_spec){.sublayer = NULL};
    }
}

/* Takes away what a layer lacks. */
static void drop_sublayers(forward_model *m, key_reader *r) {
    key_list ff = key_list_of(r, "feed_forward_length"), heads = key_list_of(r, "attention.head_count");
    for (size_t i = 0; i < m->sizes.layers; i++) {
        if (!key_number_at(r, &heads, i, 1, 0, MODEL_MOST))
            m->layers[i].mixer = (sublayer_spec){.sublayer = NULL};
        if (!key_number_at(r, &ff, i, 1, 0, MODEL_MOST)) m->layers[i].ffn = (sublayer_spec){.sublayer = NULL};
        if (m->layers[i].mixer.sublayer && !m->layers[i].ffn.sublayer)
            key_fail(r, ff.name,
                     "is 0 for layer %zu, which has attention: llama.cpp drops the attention's output", i);
    }
}

/* Reads how hidden states are pooled. Without a key, or where it says that they are not, it is the mean; what
 * is classified is the first state, or by the key classifier.pooling_type the mean. */
static void pooling_read_keys(forward_model *m, key_reader *r) {
    bool by_default = m->arch->graph.final_norm == NULL && m->arch->graph.place == PLACE_PRE;
    uint64_t kind = key_number(r, "pooling_type", POOL_NONE, POOL_NONE, POOL_KINDS - 1);
    if (kind == POOL_RANK)
        kind = key_number(r, "classifier.pooling_type", by_default ? POOL_MEAN : POOL_FIRST, POOL_NONE,
                          POOL_KINDS - 1);
    m->sizes.pooling = kind == POOL_FIRST || kind == POOL_LAST ? (forward_pooling)kind : POOL_MEAN;
    m->sizes.embeds = true;
}

static bool read_all_keys(forward_model *m, key_reader *r) {
    m->sizes.width = key_number_needed(r, "embedding_length", 1, MODEL_MOST);
    m->sizes.trained = key_number_needed(r, "context_length", 1, MODEL_MOST);
    const arch_graph *a = &m->arch->graph;
    m->both_ways = a->both_ways && !(a->ways_by_key && key_bool(r, "attention.causal", true));
    if (!read_layers(m, r) || !choose_sublayers(m, r, a->mixers, ARCH_GRAPH_SUBLAYERS, &m->layers->mixer) ||
        !choose_sublayers(m, r, &a->beside, 1, &m->layers->beside) ||
        !choose_sublayers(m, r, a->ffns, ARCH_GRAPH_SUBLAYERS, &m->layers->ffn) ||
        !choose_sublayers(m, r, &a->tail, 1, &m->layers->tail) ||
        !choose_sublayers(m, r, &a->bank, 1, &m->layers->bank) ||
        !choose_sublayers(m, r, &a->switched, 1, &m->layers->switched) ||
        !choose_sublayers(m, r, &a->entry, 1, &m->layers->entry))
        return false;
    if (a->one_sublayer) keep_one_sublayer(m, r);
    if (a->coders) coders_choose_sublayers(m);
    if (a->lacks_sublayers) drop_sublayers(m, r);
    for (size_t i = 0; i < m->n_sublayers; i++)
        if (m->sublayers[i].kind->read_keys) m->sublayers[i].kind->read_keys(m, r, &m->sublayers[i]);
    model_read_scales(m, r);
    model_read_norms(m, r);
    if (a->embeds) pooling_read_keys(m, r);
    if (r->ok) own_keys_read(m, r);
    return r->ok;
}

bool model_read_keys(forward_model *m, gq_error *e) {
    key_reader r = {.facts = model_expected_facts(m), .file = m->path, .e = e, .ok = true};
    bool ok = read_all_keys(m, &r);
    m->lacks_key = r.lacks;
    return ok;
}

const char *model_error_behind_path(const gq_error *e, const char *path) {
    size_t n = strlen(path);
    return strncmp(e->text, path, n) == 0 && strncmp(e->text + n, ": ", 2) == 0 ? e->text + n + 2 : e->text;
}
