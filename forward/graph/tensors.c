/* Finds a model's tensors by name and checks their shapes and types. First come the tensors of the whole
 * model, then layer by layer the norms, as the architecture's row places them, and the tensors of the layer's
 * two sublayers, each by its own find_tensors. Some sizes, such as the rows of an expert, follow only from the
 * tensors. Every tensor that is found is marked as taken, and in the end one that nobody took is an error:
 * its effect would be missing from the logits. What running a layer needs to know stands in the layer's plan
 * afterwards. tensors.h says how the first fault ends all this. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "forward/graph/residual/residual.h"
#include "forward/graph/tensors.h"

static char *expected_shape_text(char *to, size_t size, const uint64_t *ne, int n) {
    size_t at = (size_t)snprintf(to, size, "[");
    for (int i = 0; i < n; i++)
        at += (size_t)snprintf(to + at, size - at, "%s%llu", i ? ", " : "", (unsigned long long)ne[i]);
    snprintf(to + at, size - at, "]");
    return to;
}

const char *tensors_own_name(const tensor_finder *f, const char *name, char own[TENSOR_OWN_NAME]) {
    const model_source *g = f->m->file;
    char text[TENSOR_OWN_NAME - 3];
    *own = 0;
    if (g->container && g->container->own_name && g->container->own_name(g, name, text, sizeof text))
        snprintf(own, TENSOR_OWN_NAME, " (%s)", text);
    return own;
}

/* Compares with the shape as it is delivered: a tensor that is stored transposed has its first two dimensions
 * exchanged. */
static bool tensor_has_shape(const model_tensor *t, tensor_shape s) {
    bool same = true;
    for (int i = 0; i < 4; i++) {
        int of = i < 2 && t->transposed ? 1 - i : i;
        same = same && t->ne[of] == (i < s.n ? s.ne[i] : 1); /* never 0 */
    }
    return same;
}

void tensors_fail_shape(tensor_finder *f, const model_tensor *t, tensor_shape s, const char *why) {
    char found[96], expected[96], own[TENSOR_OWN_NAME];
    f->ok = gq_fail(f->e, "%s: tensor %s%s has shape %s, expected %s%s%s", model_file_path(f->m->file, t),
                    t->name, tensors_own_name(f, t->name, own),
                    expected_shape_text(found, sizeof found, t->ne, (int)t->n_dims),
                    expected_shape_text(expected, sizeof expected, s.ne, s.n), *why ? ", as " : "", why);
}

static void tensor_check(tensor_finder *f, const model_tensor *t, tensor_shape s, bool is_table) {
    const char *path = model_file_path(f->m->file, t);
    if (f->is_partial || (f->hooks && !f->hooks->check_rows)) return;
    if (!tensor_has_shape(t, s)) {
        tensors_fail_shape(f, t, s, "");
    } else if (is_table) {
        if (t->type->id != GGUF_I32)
            f->ok = gq_fail(f->e, "%s: tensor %s has type %s, expected I32", path, t->name, t->type->name);
    } else if (!f->hooks && !f->m->codecs->codecs[t->type->id].decode) {
        f->ok = gq_fail(f->e, "%s: tensor %s has type %s, which is not decoded here", path, t->name,
                        t->type->name);
    }
}

/* beside: the tensor that is not without it; NULL: no model of its kind is. */
static void fail_missing(tensor_finder *f, const char *name, const char *beside) {
    char own[TENSOR_OWN_NAME], other[GGUF_MAX_NAME + 1], who[GGUF_MAX_NAME + 32];
    if (f->hooks) name = f->hooks->name(f, name, other);
    if (f->hooks && f->hooks->may_lack(f, name)) {
        f->is_partial = true;
        return;
    }
    snprintf(who, sizeof who, beside ? "though there is %s" : "which every %s model has",
             beside ? beside : f->m->arch->name);
    f->ok = gq_fail_remedy(f->e, f->hooks ? GQ_REMEDY_ALLOW_MISSING : GQ_REMEDY_NONE,
                           "%s: there is no tensor %s%s, %s%s", f->m->path, name,
                           tensors_own_name(f, name, own), who, f->hooks ? "; get the whole model" : "");
}

void tensors_fail_missing(tensor_finder *f, const char *name) { fail_missing(f, name, NULL); }

/* Fails where a model has some of several tensors, but not all. names: with a space between two. */
static void check_group(tensor_finder *f, const char *names) {
    char has[GGUF_MAX_NAME + 1] = "", lacks[GGUF_MAX_NAME + 1] = "", name[GGUF_MAX_NAME + 1];
    for (size_t n; *names; names += n + (names[n] == ' ')) {
        n = strcspn(names, " ");
        snprintf(name, sizeof name, "%.*s", (int)n, names);
        snprintf(model_tensor_named(f->m->file, name) ? has : lacks, sizeof name, "%s", name);
    }
    if (*has && *lacks && f->ok) fail_missing(f, lacks, has);
}

static const model_tensor *take_tensor(tensor_finder *f, const char *name, presence p, tensor_shape of,
                                       bool is_table) {
    if (!f->ok || p == ABSENT) return NULL;
    f->n_required += p == REQUIRED;
    uint64_t at = model_tensor_index(f->m->file, name);
    if (at < f->m->file->n_tensors) {
        f->taken[at] = true;
        tensor_check(f, f->m->file->by_name[at], of, is_table);
        return p == UNUSED ? NULL : f->m->file->by_name[at];
    }
    if (p == REQUIRED) tensors_fail_missing(f, name);
    return NULL;
}

const model_tensor *tensors_take(tensor_finder *f, const char *name, presence p, tensor_shape of) {
    return take_tensor(f, name, p, of, false);
}

const model_tensor *tensors_take_integers(tensor_finder *f, const char *name, presence p, tensor_shape of) {
    return take_tensor(f, name, p, of, true);
}

void tensors_ignore(tensor_finder *f, const char *name) {
    uint64_t at = model_tensor_index(f->m->file, name);
    if (at < f->m->file->n_tensors) f->taken[at] = true;
}

/* ---- one layer's ---- */

tensor_name tensors_layer_name(const forward_model *m, size_t layer, weight_slot s, const char *suffix) {
    tensor_name name;
    static const char *const prefixes[] = {
        [CODER_NONE] = "", [CODER_ENCODER] = "enc.", [CODER_DECODER] = "dec.", [CODER_CROSS] = "dec."};
    coder_layer of = coder_layer_of(m, layer);
    const char *own = of.kind && s == WEIGHT_ATTN_OUTPUT ? "attn_o" : weight_facts_of[s].name;
    bool crosses = of.kind == CODER_CROSS && strncmp(own, "attn_", 5) == 0;
    snprintf(name.text, sizeof name.text, "%sblk.%zu.%s%s%s", prefixes[of.kind], of.block,
             crosses ? "cross_" : "", own, suffix);
    return name;
}

const model_tensor *tensors_layer_weight(const forward_model *m, size_t layer, weight_slot s) {
    return model_tensor_named(m->file, tensors_layer_name(m, layer, s, ".weight").text);
}

bool tensors_layer_has(const forward_model *m, size_t layer, weight_slot s) {
    return tensors_layer_weight(m, layer, s) != NULL;
}

size_t tensors_rows(tensor_finder *f, weight_slot s) {
    const model_tensor *t = tensors_layer_weight(f->m, f->index, s);
    if (t && f->ok && f->hooks && f->hooks->check_rows) f->hooks->check_rows(f, s, t);
    return t ? tensor_rows(t) : 1;
}

/* Returns the name of a tensor of the layer. Some converters write small ones without the suffix. */
static tensor_name layer_stored_name(const tensor_finder *f, weight_slot s, const char *suffix) {
    const weight_facts *facts = &weight_facts_of[s];
    if (facts->is_bare ||
        (facts->is_decoded &&
         !model_tensor_named(f->m->file, tensors_layer_name(f->m, f->index, s, suffix).text) &&
         model_tensor_named(f->m->file, tensors_layer_name(f->m, f->index, s, "").text)))
        return tensors_layer_name(f->m, f->index, s, "");
    return tensors_layer_name(f->m, f->index, s, suffix);
}

static void note_optional(tensor_finder *f, weight_slot s, bool is_bias, bool has) {
    if (f->hooks && f->hooks->count_optional) f->hooks->count_optional(f, s, is_bias, has);
}

/* Matrices with a factor beside them, NAME.scale, as llama.cpp reads them: NVFP4 has scales of few bits that
 * leave the size of a whole matrix to it. `own`: where an architecture has a weight of that name, that is it.
 * What the inputs of NVFP4 are rounded by where they are, NAME.input_scale, changes nothing here. */
static const struct {
    weight_slot slot, own; /* WEIGHT_SLOTS: none has */
} factored[] = {
    {WEIGHT_ATTN_Q, WEIGHT_SLOTS},        {WEIGHT_ATTN_K, WEIGHT_SLOTS},
    {WEIGHT_ATTN_V, WEIGHT_SLOTS},        {WEIGHT_ATTN_OUTPUT, WEIGHT_MIXER_GAIN},
    {WEIGHT_ATTN_QKV, WEIGHT_SLOTS},      {WEIGHT_ATTN_GATE, WEIGHT_SLOTS},
    {WEIGHT_FFN_GATE, WEIGHT_SLOTS},      {WEIGHT_FFN_UP, WEIGHT_SLOTS},
    {WEIGHT_FFN_DOWN, WEIGHT_FFN_GAIN},   {WEIGHT_FFN_GATE_SHEXP, WEIGHT_SLOTS},
    {WEIGHT_FFN_UP_SHEXP, WEIGHT_SLOTS},  {WEIGHT_FFN_DOWN_SHEXP, WEIGHT_SLOTS},
    {WEIGHT_FFN_GATE_EXPS, WEIGHT_SLOTS}, {WEIGHT_FFN_UP_EXPS, WEIGHT_SLOTS},
    {WEIGHT_SSM_IN, WEIGHT_SLOTS},        {WEIGHT_FFN_DOWN_EXPS, WEIGHT_FFN_DOWN_SCALE},
    {WEIGHT_SSM_OUT, WEIGHT_SLOTS},       {WEIGHT_SSM_ALPHA, WEIGHT_SLOTS},
    {WEIGHT_SSM_BETA, WEIGHT_SLOTS},
};

/* A tail that adds the embedding has gains of both sublayers under these names (forward/graph/residual/tails.c).
 */
static bool has_own_factor(const architecture *a, weight_slot own) {
    return own != WEIGHT_SLOTS &&
           (a->graph.has[own] || (a->graph.tail == TAIL_EMBEDDING && own != WEIGHT_FFN_DOWN_SCALE));
}

static void take_factor(tensor_finder *f, weight_slot s, tensor_shape of) {
    for (size_t i = 0; i < sizeof factored / sizeof *factored; i++) {
        if (factored[i].slot != s || has_own_factor(f->m->arch, factored[i].own)) continue;
        f->l->factor[s] = tensors_take(f, tensors_layer_name(f->m, f->index, s, ".scale").text, OPTIONAL,
                                       SHAPE(of.n > 2 ? of.ne[2] : 1));
        tensors_ignore(f, tensors_layer_name(f->m, f->index, s, ".input_scale").text);
    }
}

void tensors_take_weight(tensor_finder *f, weight_slot s, presence p, tensor_shape of) {
    f->l->weight[s] = tensors_take(f, layer_stored_name(f, s, ".weight").text, p, of);
    if (f->l->weight[s]) take_factor(f, s, of);
    if (p == OPTIONAL) note_optional(f, s, false, f->l->weight[s]);
}

void tensors_take_bias(tensor_finder *f, weight_slot s, presence p, tensor_shape of) {
    f->l->bias[s] = tensors_take(f, layer_stored_name(f, s, ".bias").text, p, of);
    if (p == OPTIONAL) note_optional(f, s, true, f->l->bias[s]);
}

void tensors_take_biased(tensor_finder *f, weight_slot s, presence p, tensor_shape of, presence bias) {
    tensors_take_weight(f, s, p, of);
    if (!f->l->weight[s]) return;
    tensors_take_bias(f, s, bias, of.n == 1 ? of : of.n == 2 ? SHAPE(of.ne[1]) : SHAPE(of.ne[1], of.ne[2]));
}

#define NO_NORM WEIGHT_SLOTS

/* The norms of a layer: what each sublayer reads through, and what its result passes. */
typedef struct norm_slots {
    weight_slot before_mixer, after_mixer, before_ffn, after_ffn;
} norm_slots;

static const norm_slots norms_of[] = {
    [PLACE_PRE] = {WEIGHT_ATTN_NORM, NO_NORM, WEIGHT_FFN_NORM, NO_NORM},
    [PLACE_TWO] = {WEIGHT_ATTN_NORM, NO_NORM, WEIGHT_ATTN_NORM_2, NO_NORM},
    [PLACE_PAN] = {WEIGHT_ATTN_NORM, NO_NORM, WEIGHT_POST_ATTENTION_NORM, NO_NORM},
    [PLACE_PAN_OUTPUT] = {WEIGHT_ATTN_NORM, NO_NORM, WEIGHT_ATTN_OUTPUT_NORM, NO_NORM},
    [PLACE_SANDWICH] = {WEIGHT_ATTN_NORM, WEIGHT_POST_ATTENTION_NORM, WEIGHT_FFN_NORM, WEIGHT_POST_FFW_NORM},
    [PLACE_SANDWICH_OUT] = {WEIGHT_ATTN_NORM, WEIGHT_ATTN_OUTPUT_NORM, WEIGHT_FFN_NORM,
                            WEIGHT_LAYER_OUTPUT_NORM},
    [PLACE_POST] = {NO_NORM, WEIGHT_POST_ATTENTION_NORM, NO_NORM, WEIGHT_POST_FFW_NORM},
    [PLACE_SWIN] = {NO_NORM, WEIGHT_ATTN_NORM, NO_NORM, WEIGHT_FFN_NORM},
    [PLACE_SUMS] = {NO_NORM, WEIGHT_ATTN_OUTPUT_NORM, NO_NORM, WEIGHT_LAYER_OUTPUT_NORM},
    [PLACE_PARALLEL] = {WEIGHT_ATTN_NORM, NO_NORM, WEIGHT_ATTN_NORM, NO_NORM},
    [PLACE_NOWHERE] = {NO_NORM, NO_NORM, NO_NORM, NO_NORM},
};

/* Takes the tensors of a norm; false: it is optional and the layer lacks it. */
static bool find_norm(tensor_finder *f, weight_slot s) {
    const arch_graph *a = &f->m->arch->graph;
    if (s == NO_NORM || a->unweighted) return true;
    if (s == WEIGHT_ATTN_NORM && a->begins_bare && f->index == 0 && !tensors_layer_has(f->m, 0, s))
        return false;
    presence is = a->has[s] == OPTIONAL ? OPTIONAL : REQUIRED;
    tensors_take_biased(f, s, is, SHAPE(f->m->sizes.width), a->norm_bias);
    return f->l->weight[s] != NULL;
}

/* Finds the norms of the sublayers that the layer has and records their places. Running a layer looks at nothing
 * else. A sublayer that is alone reads through attn_norm. */
static void find_norms(tensor_finder *f) {
    layer_spec *l = f->l;
    const arch_graph *a = &f->m->arch->graph;
    norm_slots s = norms_of[f->m->is_swin ? PLACE_SWIN : a->place];
    bool has_both = l->mixer.sublayer && l->ffn.sublayer;
    if (a->place == PLACE_SANDWICH_OUT && !tensors_layer_has(f->m, f->index, s.after_ffn))
        s.after_ffn = WEIGHT_POST_FFW_NORM;
    if (a->lacks_sublayers && !l->mixer.sublayer) s.before_mixer = NO_NORM;
    if (!find_norm(f, s.before_mixer)) s.before_mixer = NO_NORM;
    if (!(has_both || (a->lacks_sublayers && l->ffn.sublayer)) || !find_norm(f, s.before_ffn))
        s.before_ffn = s.before_mixer;
    if (l->mixer.sublayer && !find_norm(f, s.after_mixer)) s.after_mixer = NO_NORM;
    if (l->ffn.sublayer && !find_norm(f, s.after_ffn)) s.after_ffn = NO_NORM;
    l->ffn.before = s.before_ffn, l->ffn.after = s.after_ffn;
    if (a->has[WEIGHT_ATTN_NORM_2] && find_norm(f, WEIGHT_ATTN_NORM_2)) {
        if (a->place == PLACE_SUMS)
            l->adds_start = true;
        else
            s.before_mixer = WEIGHT_ATTN_NORM_2;
    }
    l->mixer.before = s.before_mixer, l->mixer.after = s.after_mixer;
    bool is_parallel = has_both && (f->m->parallel_own || l->ffn.before == WEIGHT_ATTN_NORM);
    l->ffn_reads = has_both && f->m->is_swin ? FFN_READS_MIXER
                   : is_parallel             ? FFN_READS_START
                                             : FFN_READS_SUM;
}

static void find_layer(tensor_finder *f, size_t i) {
    f->l = &f->m->layers[i], f->index = i, f->is_partial = false;
    find_norms(f);
    for (const sublayer_spec *p = f->l->sublayers; p < f->l->sublayers + LAYER_SUBLAYERS; p++)
        if (p->sublayer && p->sublayer->kind->find_tensors) p->sublayer->kind->find_tensors(f, p);
    for (const arch_unread *u = f->m->arch->graph.unread; u && u->name; u++) {
        const model_tensor *as = f->l->weight[u->as];
        char name[GGUF_MAX_NAME + 1];
        snprintf(name, sizeof name, "blk.%zu.%s.weight", i, u->name);
        if (as) tensors_take(f, name, REQUIRED, SHAPE(as->ne[0], as->ne[1]));
    }
}

/* ---- the whole model's ---- */

/* Finds what stands before the first layer, and the norm after the last. */
static void find_ends(tensor_finder *f) {
    forward_model *m = f->m;
    const arch_graph *a = &m->arch->graph;
    tensor_shape d = SHAPE(m->sizes.width), positions = SHAPE(m->sizes.width, m->sizes.trained);
    presence embedding = a->embedding_norm == EMBEDDING_WEIGHTED ? REQUIRED : ABSENT;
    bool is_weighted = !a->unweighted && !a->ends_bare;
    m->output_norm = tensors_take(f, a->final_norm ? a->final_norm : "output_norm.weight",
                                  is_weighted ? REQUIRED : ABSENT, d);
    m->output_norm_bias = tensors_take(f, "output_norm.bias", is_weighted ? a->norm_bias : ABSENT, d);
    m->embedding_norm = tensors_take(f, "token_embd_norm.weight", embedding, d);
    m->embedding_norm_bias = tensors_take(f, "token_embd_norm.bias", embedding ? a->norm_bias : ABSENT, d);
    m->positions = tensors_take(f, "position_embd.weight", a->positions, positions);
    const model_tensor *kinds = a->kinds ? model_tensor_named(m->file, "token_types.weight") : NULL;
    key_reader r = {.facts = model_expected_facts(m), .file = m->path, .e = f->e, .ok = true};
    uint64_t n_kinds = kinds ? tensor_rows(kinds) : 1;
    if (kinds) n_kinds = key_number(&r, ":tokenizer.ggml.token_type_count", n_kinds, 1, MODEL_MOST);
    m->kinds = tensors_take(f, "token_types.weight", a->kinds, SHAPE(m->sizes.width, n_kinds));
    f->ok = f->ok && r.ok;
}

/* Checks a classification head, which is not run: its input is the pooled hidden state. Its first matrix is
 * square where another one follows. */
static void find_classifier(tensor_finder *f) {
    static const char *const usual[] = {"cls.weight cls.bias", "cls.output.weight cls.output.bias", NULL};
    const model_tensor *first = model_tensor_named(f->m->file, "cls.weight"),
                       *last = model_tensor_named(f->m->file, "cls.output.weight");
    uint64_t d = f->m->sizes.width,
             inner =
                 !first || last || model_tensor_named(f->m->file, "cls.norm.weight") ? d : tensor_rows(first),
             outputs = last ? tensor_rows(last) : 1;
    const struct {
        const char *name;
        tensor_shape of;
    } optional[] = {{"cls.weight", SHAPE(d, inner)},
                    {"cls.bias", SHAPE(inner)},
                    {"cls.norm.weight", SHAPE(inner)},
                    {"cls.output.weight", SHAPE(inner, outputs)},
                    {"cls.output.bias", SHAPE(outputs)}};
    for (size_t i = 0; i < sizeof optional / sizeof *optional; i++)
        tensors_take(f, optional[i].name, UNUSED, optional[i].of);
    const char *const *head = f->m->arch->graph.head;
    for (const char *const *group = head ? head : usual; *group && f->ok && f->hooks; group++)
        check_group(f, *group);
}

/* Finds the matrices behind the pooling, the first of which reads the width. */
static void find_dense(tensor_finder *f) {
    static const char *const names[FORWARD_MOST_DENSE] = {"dense_2.weight", "dense_3.weight"},
                             *const sizes[FORWARD_MOST_DENSE] = {"dense_2_feat_out", "dense_3_feat_out"},
                             *const takes[FORWARD_MOST_DENSE] = {"dense_2_feat_in", "dense_3_feat_in"};
    forward_model *m = f->m;
    key_reader r = {.facts = model_expected_facts(m), .file = m->path, .e = f->e, .ok = true};
    m->sizes.embedded = m->sizes.width;
    if (!m->arch->graph.embeds) return;
    find_classifier(f);
    for (size_t i = 0; m->arch->graph.has_dense && i < FORWARD_MOST_DENSE; i++) {
        const model_tensor *t = model_tensor_named(m->file, names[i]);
        uint64_t rows = t ? tensor_rows(t) : 1;
        bool is_width = m->arch->of_embeddings && i == 0;
        if (t && is_width)
            rows = key_number(&r, "embedding_length_out", m->sizes.width, 1, MODEL_MOST);
        else if (t)
            rows = key_number(&r, sizes[i], rows, 1, MODEL_MOST);
        t = tensors_take(f, names[i], OPTIONAL, SHAPE(m->sizes.embedded, rows));
        if (!t) continue;
        if (f->ok && r.ok && key_number(&r, takes[i], t->ne[0], 0, UINT64_MAX) != t->ne[0])
            key_fail(&r, takes[i], "is not %llu, the width of the matrix's input",
                     (unsigned long long)t->ne[0]);
        m->dense[m->n_dense++] = t, m->sizes.embedded = tensor_rows(t);
        if (is_width) m->dense_bias = tensors_take(f, "dense_2.bias", OPTIONAL, SHAPE(m->sizes.embedded));
    }
    f->ok = f->ok && r.ok;
}

static void find_head(tensor_finder *f) {
    forward_model *m = f->m;
    const arch_graph *a = &m->arch->graph;
    uint64_t d = m->sizes.width;
    const model_tensor *t = model_tensor_named(m->file, "token_embd.weight");
    m->sizes.vocabulary = t ? tensor_rows(t) : 1;
    tensor_shape of = SHAPE(d, m->sizes.vocabulary);
    m->sizes.embedding = tensors_take(f, "token_embd.weight", REQUIRED, of);
    presence out = a->embeds             ? UNUSED
                   : a->tied == TIED_MAY ? OPTIONAL
                   : a->tied == TIED_NO  ? REQUIRED
                                         : ABSENT;
    m->sizes.out = tensors_take(f, "output.weight", out, of);
    if (!m->sizes.out) m->sizes.out = m->sizes.embedding;
    m->out_bias = tensors_take(f, "output.bias", a->logit_bias, SHAPE(m->sizes.vocabulary));
    find_ends(f);
    find_dense(f);
    if (f->ok && m->sizes.vocabulary > UINT32_MAX)
        f->ok = gq_fail(f->e, "%s: tensor token_embd.weight has %zu rows, more than ids can name", m->path,
                        m->sizes.vocabulary);
}

bool tensors_in_extra_block(const tensor_finder *f, const char *name, model_block *b) {
    return f->m->arch->graph.extra_layers && model_block_leads(name, b) && b->number >= f->m->sizes.layers;
}

/* Refuses tensors that no sublayer uses: without their effect the logits would be wrong. */
static void refuse_others(tensor_finder *f) {
    const model_source *g = f->m->file;
    for (uint64_t i = 0; f->ok && i < g->n_tensors; i++) {
        model_block b;
        if (f->taken[i] || tensors_in_extra_block(f, g->by_name[i]->name, &b)) continue;
        if (f->m->mtp_of && (!model_block_leads(g->by_name[i]->name, &b) || b.number != f->m->first))
            continue;
        f->ok = gq_fail(f->e, "%s: tensor %s is unknown for architecture %s",
                        model_file_path(g, g->by_name[i]), g->by_name[i]->name, f->m->arch->name);
    }
}

/* Places what sublayers carry from layer to layer behind the width. A sublayer whose rows depend on the context has
 * none with a context of 0, and stands behind all others. */
static void lay_out_hidden_state(forward_model *m) {
    size_t rows = m->sizes.width;
    for (size_t i = 0; i < m->n_sublayers; i++) {
        model_sublayer *p = &m->sublayers[i];
        p->carried = rows;
        if (p->kind->carried_rows) rows += p->kind->carried_rows(m, p, 0);
    }
    for (size_t i = 0; i < m->n_sublayers; i++) {
        model_sublayer *p = &m->sublayers[i];
        if (p->kind->carried_rows && p->kind->carried_rows(m, p, 0) == 0) p->carried = rows;
    }
}

uint64_t forward_model_features(const forward_model *m, size_t context) {
    uint64_t rows = m->sizes.width;
    for (size_t i = 0; i < m->n_sublayers; i++)
        if (m->sublayers[i].kind->carried_rows)
            rows = add_sat(rows, m->sublayers[i].kind->carried_rows(m, &m->sublayers[i], context));
    return rows;
}

/* Finds a draft's embedding and output matrix: a missing one is the target's. One that is tied has an output
 * matrix that is its embedding; where it must be, what is embedded is the target's. */
static void find_mtp_head(tensor_finder *f) {
    forward_model *m = f->m;
    const forward_sizes *of = &m->target->sizes;
    tying tied = m->arch->graph.tied;
    const model_tensor *out = model_tensor_named(m->file, "output.weight"),
                       *embedding = model_tensor_named(m->file, "token_embd.weight");
    uint64_t d = m->sizes.width;
    m->sizes.vocabulary = out                            ? tensor_rows(out)
                          : embedding && tied != TIED_NO ? tensor_rows(embedding)
                                                         : of->vocabulary;
    m->sizes.out = tensors_take(f, "output.weight", tied == TIED_MUST ? ABSENT : OPTIONAL,
                                SHAPE(d, m->sizes.vocabulary));
    m->sizes.embedding = tensors_take(f, "token_embd.weight", tied == TIED_MUST ? REQUIRED : OPTIONAL,
                                      SHAPE(d, embedding ? tensor_rows(embedding) : of->vocabulary));
    tensors_ignore(f, "d2t");
    if (!m->sizes.out && tied != TIED_NO) m->sizes.out = m->sizes.embedding;
    if (f->ok && (!m->sizes.out || !m->sizes.embedding) && d != of->width)
        f->ok = gq_fail(f->e,
                        "%s: has no embedding or output matrix of its own, and those of %s have %zu columns, "
                        "expected %llu",
                        m->path, m->target->path, of->width, (unsigned long long)d);
    if (!m->sizes.out) m->sizes.out = of->out;
    if (!m->sizes.embedding || tied == TIED_MUST) m->sizes.embedding = of->embedding;
}

bool tensors_find_all(tensor_finder *f) {
    forward_model *m = f->m;
    f->ok = true, f->taken = calloc(m->file->n_tensors + 1, sizeof *f->taken);
    if (!f->taken) return f->ok = gq_fail_memory(f->e, m->file->n_tensors + 1);
    if (f->m->target)
        find_mtp_head(f), find_ends(f);
    else
        find_head(f);
    for (size_t i = 0; f->ok && i < m->n_sublayers; i++)
        if (m->sublayers[i].kind->find_model_tensors)
            m->sublayers[i].kind->find_model_tensors(f, &m->sublayers[i]);
    for (size_t i = m->first; f->ok && i < m->sizes.layers; i++) find_layer(f, i);
    return f->ok;
}

bool model_find_tensors(forward_model *m, gq_error *e) {
    tensor_finder f = {.m = m, .e = e};
    if (tensors_find_all(&f)) refuse_others(&f);
    if (f.ok) lay_out_hidden_state(m);
    free(f.taken);
    return f.ok;
}
