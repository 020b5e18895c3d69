/* Finds a model's tensors by name and checks their shapes and types. First come the tensors of the whole
 * model, then layer by layer the norms, as the architecture's row places them, and the tensors of the layer's
 * two parts, each by its own find_tensors. Some sizes, such as the rows of an expert, follow only from the
 * tensors. Every tensor that is found is marked as taken, and in the end one that nobody took is an error:
 * its effect would be missing from the logits. What running a layer needs to know stands in the layer's plan
 * afterwards. tensors.h says how the first fault ends all this.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "forward/layer_part.h"
#include "model/facts.h"

/* Returns the tensor's index in by_name; n_tensors: there is none of that name. */
static uint64_t metadata_number(const model_source *g, const char *name) {
    uint64_t low = 0, high = g->n_tensors;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        int order = strcmp(g->by_name[middle]->name, name);
        if (order == 0) return middle;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return g->n_tensors;
}

static const model_tensor *tensor_named(const forward_model *m, const char *name) {
    uint64_t at = metadata_number(m->file, name);
    return at < m->file->n_tensors ? m->file->by_name[at] : NULL;
}

static char *expected_shape_text(char *to, size_t size, const uint64_t *ne, int n) {
    size_t at = (size_t)snprintf(to, size, "[");
    for (int i = 0; i < n; i++)
        at += (size_t)snprintf(to + at, size - at, "%s%llu", i ? ", " : "", (unsigned long long)ne[i]);
    snprintf(to + at, size - at, "]");
    return to;
}

static void tensor_check_shape(tensor_finder *f, const model_tensor *t, tensor_shape s) {
    const char *path = model_file_path(f->m->file, t);
    char found[96], expected[96];
    bool same = t->ne[3] == 1;
    for (int i = 0; i < 3; i++) same = same && t->ne[i] == (i < s.n ? s.ne[i] : 1); /* never 0 */
    if (!same) {
        f->ok = gq_fail(f->e, "%s: tensor %s has shape %s, expected %s", path, t->name,
                        expected_shape_text(found, sizeof found, t->ne, (int)t->n_dims),
                        expected_shape_text(expected, sizeof expected, s.ne, s.n));
    } else if (!f->m->codecs->codecs[t->type->id].decode) {
        f->ok = gq_fail(f->e, "%s: tensor %s has type %s, which is not decoded here", path, t->name,
                        t->type->name);
    }
}

const model_tensor *tensors_take(tensor_finder *f, const char *name, presence p, tensor_shape of) {
    if (!f->ok || p == ABSENT) return NULL;
    uint64_t at = metadata_number(f->m->file, name);
    if (at < f->m->file->n_tensors) {
        f->taken[at] = true;
        tensor_check_shape(f, f->m->file->by_name[at], of);
        return f->m->file->by_name[at];
    }
    if (p == REQUIRED)
        f->ok = gq_fail(f->e, "%s: there is no tensor %s, which every %s model has", f->m->path, name,
                        f->m->arch->name);
    return NULL;
}

/* ---- one layer's ---- */

const char *tensors_layer_name(size_t layer, weight_slot s, const char *suffix) {
    static _Thread_local char name[GGUF_MAX_NAME + 1];
    snprintf(name, sizeof name, "blk.%zu.%s%s", layer, weight_facts_of[s].name, suffix);
    return name;
}

static const model_tensor *weight_of(const forward_model *m, size_t layer, weight_slot s) {
    return tensor_named(m, tensors_layer_name(layer, s, ".weight"));
}

bool tensors_layer_has(const forward_model *m, size_t layer, weight_slot s) {
    return weight_of(m, layer, s) != NULL;
}

size_t tensors_rows(const tensor_finder *f, weight_slot s) {
    const model_tensor *t = weight_of(f->m, f->index, s);
    return t ? t->ne[1] : 1;
}

void tensors_take_weight(tensor_finder *f, weight_slot s, presence p, tensor_shape of) {
    const weight_facts *facts = &weight_facts_of[s];
    bool is_bare = facts->is_bare || (facts->is_decoded && !tensors_layer_has(f->m, f->index, s) &&
                                      tensor_named(f->m, tensors_layer_name(f->index, s, "")));
    f->l->weight[s] = tensors_take(f, tensors_layer_name(f->index, s, is_bare ? "" : ".weight"), p, of);
}

void tensors_take_bias(tensor_finder *f, weight_slot s, presence p, tensor_shape of) {
    const model_tensor *t = tensors_take(f, tensors_layer_name(f->index, s, ".bias"), p, of);
    f->l->bias[s] = p == UNUSED ? NULL : t;
}

void tensors_take_biased(tensor_finder *f, weight_slot s, presence p, tensor_shape of, presence bias) {
    tensors_take_weight(f, s, p, of);
    if (!f->l->weight[s]) return;
    tensors_take_bias(f, s, bias, of.n == 1 ? of : of.n == 2 ? SHAPE(of.ne[1]) : SHAPE(of.ne[1], of.ne[2]));
}

/* Whether the layer has both parts. A part that is alone reads through attn_norm. */
static bool has_both(const layer_plan *l) { return l->mixer.part && l->ffn.part; }

static bool has_norms_after(placement place) { return place == PLACE_SANDWICH || place == PLACE_POST; }

static void find_norms(tensor_finder *f) {
    const architecture *a = f->m->arch;
    tensor_shape d = SHAPE(f->m->sizes.width);
    presence bias = a->norm_bias, after = has_norms_after(a->place) ? REQUIRED : ABSENT;
    presence middle = a->place == PLACE_PAN ? REQUIRED : after;
    presence inner = a->has[WEIGHT_FFN_NORM] == OPTIONAL ? OPTIONAL : REQUIRED;
    if (!has_both(f->l) || (a->place != PLACE_PRE && a->place != PLACE_SANDWICH)) inner = ABSENT;
    tensors_take_biased(f, WEIGHT_ATTN_NORM, a->place == PLACE_POST ? ABSENT : REQUIRED, d, bias);
    tensors_take_biased(f, WEIGHT_ATTN_NORM_2, a->has[WEIGHT_ATTN_NORM_2], d, bias);
    tensors_take_biased(f, WEIGHT_FFN_NORM, inner, d, bias);
    tensors_take_biased(f, WEIGHT_POST_ATTENTION_NORM, middle, d, bias);
    tensors_take_biased(f, WEIGHT_POST_FFW_NORM, after, d, bias);
}

/* Records the places of the norms that were found. Running a layer looks at nothing else. */
static void place_norms(const forward_model *m, layer_plan *l) {
    placement place = m->arch->place;
    l->mixer.before = l->weight[WEIGHT_ATTN_NORM_2] ? WEIGHT_ATTN_NORM_2
                      : l->weight[WEIGHT_ATTN_NORM] ? WEIGHT_ATTN_NORM
                                                    : WEIGHT_SLOTS;
    l->mixer.after = has_norms_after(place) ? WEIGHT_POST_ATTENTION_NORM : WEIGHT_SLOTS;
    l->ffn.after = has_norms_after(place) ? WEIGHT_POST_FFW_NORM : WEIGHT_SLOTS;
    if (place == PLACE_POST || !has_both(l))
        l->ffn.before = l->mixer.before;
    else if (place == PLACE_PAN)
        l->ffn.before = WEIGHT_POST_ATTENTION_NORM;
    else
        l->ffn.before = l->weight[WEIGHT_FFN_NORM] ? WEIGHT_FFN_NORM : WEIGHT_ATTN_NORM;
    l->is_parallel = has_both(l) && (m->parallel_own || l->ffn.before == WEIGHT_ATTN_NORM);
}

static void find_layer(tensor_finder *f, size_t i) {
    f->l = &f->m->layers[i], f->index = i;
    find_norms(f);
    place_norms(f->m, f->l);
    const plan_part *parts[] = {&f->l->mixer, &f->l->beside, &f->l->ffn};
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
        if (parts[k]->part) parts[k]->part->kind->find_tensors(f, parts[k]);
}

/* ---- the whole model's ---- */

static void find_head(tensor_finder *f) {
    forward_model *m = f->m;
    const architecture *a = m->arch;
    uint64_t d = m->sizes.width;
    const model_tensor *t = tensor_named(m, "token_embd.weight");
    m->sizes.vocabulary = t ? t->ne[1] : 1;
    tensor_shape of = SHAPE(d, m->sizes.vocabulary);
    m->sizes.embedding = tensors_take(f, "token_embd.weight", REQUIRED, of);
    presence out = a->tied == TIED_MAY ? OPTIONAL : a->tied == TIED_NO ? REQUIRED : ABSENT;
    m->sizes.out = tensors_take(f, "output.weight", out, of);
    if (!m->sizes.out) m->sizes.out = m->sizes.embedding;
    m->out_bias = tensors_take(f, "output.bias", a->logit_bias, SHAPE(m->sizes.vocabulary));
    m->output_norm =
        tensors_take(f, a->final_norm ? a->final_norm : "output_norm.weight", REQUIRED, SHAPE(d));
    m->output_norm_bias = tensors_take(f, "output_norm.bias", a->norm_bias, SHAPE(d));
    if (f->ok && m->sizes.vocabulary > UINT32_MAX)
        f->ok = gq_fail(f->e, "%s: tensor token_embd.weight has %zu rows, more than ids can name", m->path,
                        m->sizes.vocabulary);
}

/* Refuses tensors that no part uses: without their effect the logits would be wrong. */
static void refuse_others(tensor_finder *f) {
    const model_source *g = f->m->file;
    for (uint64_t i = 0; f->ok && i < g->n_tensors; i++) {
        model_block b;
        if (f->taken[i]) continue;
        if (model_block_leads(g->by_name[i]->name, &b) && b.number >= f->m->sizes.layers &&
            f->m->arch->extra_layers)
            continue;
        f->ok = gq_fail(f->e, "%s: tensor %s is none that a model of architecture %s is known to have here",
                        model_file_path(g, g->by_name[i]), g->by_name[i]->name, f->m->arch->name);
    }
}

bool model_find_tensors(forward_model *m, gq_error *e) {
    tensor_finder f = {.m = m, .e = e, .ok = true, .taken = calloc(m->file->n_tensors + 1, sizeof(bool))};
    if (!f.taken) return gq_fail_memory(e, m->file->n_tensors + 1);
    find_head(&f);
    for (size_t i = 0; f.ok && i < m->n_parts; i++)
        if (m->parts[i].kind->find_model_tensors) m->parts[i].kind->find_model_tensors(&f, &m->parts[i]);
    for (size_t i = 0; f.ok && i < m->sizes.layers; i++) find_layer(&f, i);
    refuse_others(&f);
    for (size_t i = 0; f.ok && i < m->sizes.layers; i++) {
        uint64_t bytes = layer_plan_bytes(&m->layers[i]);
        if (bytes > m->sizes.layer_bytes) m->sizes.layer_bytes = bytes;
    }
    free(f.taken);
    return f.ok;
}
