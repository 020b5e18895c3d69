/* What a projector's layers have in common, and what goes together in them, or outside of them: a tensor of one
 * layer is there in each, as large; a matrix has a bias where its like has one; what is made of two tensors has
 * both. */
#include "hf/projector.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/memory.h"
#include "gguf/facts.h"

bool hf_projector_fail_missing(const hf_build *b, const hf_tensor *beside, const char *name, gq_error *e) {
    char own[512] = "";
    bool is_known = hf_names_find_source(b, name, own, sizeof own);
    return hf_projector_fail(b, beside, e, "%s%s%s%s is missing beside it: download the whole model", name,
                             is_known ? " (" : "", own, is_known ? ")" : "");
}

const hf_tensor *hf_projector_bias(const hf_build *b, const hf_tensor *w, char name[GGUF_MAX_NAME + 8]) {
    *name = 0;
    bool is_weight = name_with_end(name, GGUF_MAX_NAME + 8, w->tensor.name, ".weight", ".bias");
    return is_weight ? hf_build_find(b, name) : NULL;
}

static bool shapes_agree(const hf_tensor *a, const hf_tensor *b) {
    return memcmp(a->tensor.ne, b->tensor.ne, sizeof a->tensor.ne) == 0;
}

/* ---- kinds of names ---- */

/* Kinds of names: a text for each, with the first tensor of the kind. */
typedef struct name_kind {
    char *text; /* first member: of the index; owned */
    const hf_tensor *first;
    size_t n; /* tensors */
} name_kind;
typedef struct name_kinds {
    name_index by_text;
    name_kind *kinds;
    size_t n, capacity;
} name_kinds;

enum { KIND_BYTES = 4 * GGUF_MAX_NAME };

static void kinds_free(name_kinds *k) {
    for (size_t i = 0; i < k->n; i++) free(k->kinds[i].text);
    free(k->kinds);
    name_index_free(&k->by_text);
}

static name_kind *kinds_find(const name_kinds *k, const char *text) {
    uint64_t i;
    return name_index_find(&k->by_text, k->kinds, sizeof *k->kinds, text, &i) ? &k->kinds[i] : NULL;
}

static bool kinds_add(name_kinds *k, const char *text, const hf_tensor *t, gq_error *e) {
    name_kind *of = kinds_find(k, text);
    if (of) return of->n++, true;
    if (!memory_grow(&k->kinds, &k->capacity, k->n + 1, sizeof *k->kinds, e)) return false;
    k->kinds[k->n] = (name_kind){strdup(text), t, 1};
    if (!k->kinds[k->n].text) return gq_fail_memory(e, strlen(text) + 1);
    return name_index_add(&k->by_text, k->kinds, sizeof *k->kinds, k->n++, e);
}

/* ---- layers ---- */

static bool block_check_shape(const hf_build *b, const arch_projector *row, const hf_tensor *t,
                              const hf_tensor *like, gq_error *e) {
    return shapes_agree(t, like) || arch_names_match(row->grow, t->tensor.name) ||
           hf_projector_fail(b, t, e, "its shape differs from that of %s (%s)", like->tensor.name,
                             like->stored_name ? like->stored_name : "computed");
}

static const hf_tensor *block_find(const hf_build *b, const char *prefix, unsigned long long number,
                                   const char *rest, char name[2 * GGUF_MAX_NAME]) {
    snprintf(name, 2 * GGUF_MAX_NAME, "%s%llu%s", prefix, number, rest);
    return hf_build_find(b, name);
}

/* Compares a tensor with the first of other blocks, for it is of some alone. */
static bool block_check_some(const hf_build *b, const arch_projector *row, const hf_tensor *t,
                             const char *prefix, unsigned long long number, const char *rest, gq_error *e) {
    char name[2 * GGUF_MAX_NAME];
    const hf_tensor *like = NULL;
    for (unsigned long long k = 0; k < number && !like; k++) like = block_find(b, prefix, k, rest, name);
    return !like || block_check_shape(b, row, t, like, e);
}

/* Checks that a tensor of a block has its like in another block. */
static bool block_check_like(const hf_build *b, const arch_projector *row, const hf_tensor *t,
                             const char *prefix, unsigned long long other, const char *rest,
                             unsigned long long n, gq_error *e) {
    char name[2 * GGUF_MAX_NAME];
    const hf_tensor *like = block_find(b, prefix, other, rest, name);
    if (!like)
        return hf_config_fail(b->config, e,
                              "the projector has %llu layers (%s#), but there is no %s beside %s (%s): "
                              "download the whole model",
                              n, prefix, name, t->tensor.name, t->stored_name ? t->stored_name : "");
    return block_check_shape(b, row, t, like, e);
}

/* Sets what stands before the number of a layer in a name; false: it is of no layer. */
static bool block_prefix(const char *name, char prefix[GGUF_MAX_NAME]) {
    const char *at = strstr(name, "blk.");
    if (at) snprintf(prefix, GGUF_MAX_NAME, "%.*s", (int)(at - name + 4), name);
    return at;
}

/* The number behind the prefix of a name, and what follows it; false: the name is another. */
static bool block_in(const char *name, const char *prefix, unsigned long long *number, const char **rest) {
    const char *at = name_behind(name, prefix);
    int digits = 0;
    if (!at || sscanf(at, "%llu%n", number, &digits) != 1 || at[digits] != '.') return false;
    *rest = at + digits;
    return true;
}

bool hf_projector_check_blocks(const hf_build *b, const arch_projector *row, const char *prefix, uint32_t n,
                               gq_error *e) {
    bool has = n == 0;
    for (size_t i = 0; i < b->n; i++) {
        const hf_tensor *t = &b->tensors[i];
        const char *rest;
        unsigned long long number;
        if (!block_in(t->tensor.name, prefix, &number, &rest) || number >= n) continue;
        has = true;
        bool in_some = arch_names_match(row->in_some, t->tensor.name);
        if (in_some && !block_check_some(b, row, t, prefix, number, rest, e)) return false;
        if (in_some) continue;
        if (number > 0 && !block_check_like(b, row, t, prefix, 0, rest, n, e)) return false;
        for (uint32_t k = 1; number == 0 && k < n; k++)
            if (!block_check_like(b, row, t, prefix, k, rest, n, e)) return false;
    }
    return has || hf_config_fail(b->config, e, "the projector has %u layers, but no tensor belongs to %s#", n,
                                 prefix);
}

/* Blocks of parts that no number of the file counts are alike, too. */
static bool other_blocks_check(const hf_build *b, const arch_projector *row, gq_error *e) {
    name_kinds done = {.n = 0};
    bool ok = true;
    for (size_t i = 0; ok && i < b->n; i++) {
        const hf_tensor *t = &b->tensors[i];
        const char *rest;
        char prefix[GGUF_MAX_NAME];
        unsigned long long number, last = 0;
        if (!block_prefix(t->tensor.name, prefix) || kinds_find(&done, prefix) || !strcmp(prefix, "v.blk.") ||
            !strcmp(prefix, "a.blk."))
            continue;
        for (size_t k = 0; k < b->n; k++)
            if (block_in(b->tensors[k].tensor.name, prefix, &number, &rest)) last = max(last, number);
        ok = (last < HF_PROJECTOR_LAYERS || hf_projector_fail(b, t, e, "a layer of number %llu", last)) &&
             (last == 0 || hf_projector_check_blocks(b, row, prefix, (uint32_t)last + 1, e)) &&
             kinds_add(&done, prefix, t, e);
    }
    kinds_free(&done);
    return ok;
}

/* ---- what goes together, in towers whose layers are not counted, too ---- */

/* Writes a name with a sign in place of its number `which` between dots: that of a layer, or of a step in a row of
 * steps. False: it has fewer. */
static bool name_without_number(const char *name, unsigned which, char *text, size_t size) {
    for (const char *at = name; (at = strchr(at, '.')); at++) {
        size_t digits = strspn(at + 1, "0123456789");
        if (digits == 0 || at[1 + digits] != '.') continue;
        if (which > 0) {
            which--;
            continue;
        }
        snprintf(text, size, "%.*s.#%s", (int)(at - name), name, at + 1 + digits);
        return true;
    }
    return false;
}

/* Writes what weights of one kind have in common: all but one number in their names, and in the names of their source
 * tensors. False: there is no such combination of numbers. */
static bool weight_kind(const hf_tensor *t, unsigned number, unsigned of_source, char text[KIND_BYTES]) {
    int n = snprintf(text, KIND_BYTES, "%u ", t->tensor.n_dims);
    if (!t->stored_name || !name_without_number(t->tensor.name, number, text + n, KIND_BYTES - (size_t)n))
        return false;
    n = (int)strlen(text);
    snprintf(text + n, KIND_BYTES - (size_t)n, " ");
    return name_without_number(t->stored_name, of_source, text + strlen(text), KIND_BYTES - strlen(text));
}

/* A matrix has a bias where its like of another number has one. */
static bool weight_check_bias(const hf_build *b, const name_kinds *kinds, const hf_tensor *w, gq_error *e) {
    char name[GGUF_MAX_NAME + 8], other[GGUF_MAX_NAME + 8], text[KIND_BYTES];
    if (hf_projector_bias(b, w, name)) return true;
    for (unsigned i = 0; weight_kind(w, i, 0, text); i++)
        for (unsigned k = 0; weight_kind(w, i, k, text); k++) {
            const name_kind *of = kinds_find(kinds, text);
            if (of && hf_projector_bias(b, of->first, other))
                return hf_projector_fail(b, w, e, "there is no %s, but there is %s: download the whole model",
                                         name, other);
        }
    return true;
}

/* Tensors that belong together in a layer: one that has the first has the second as well, at least where other layers
 * have it, and both have one shape, or one size in common. Convolutions have their inputs in dimension 2, their
 * outputs in 3. */
static const struct {
    const char *one, *other;
    enum {
        TWIN_ALWAYS,
        TWIN_WHERE_OTHERS,
        TWIN_MAY_LACK
    } need; /* where others: where another layer has it */
    enum { TWIN_ANY, TWIN_SHAPE, TWIN_SIZE } same;
    unsigned of_one, of_other; /* the dimension of the size */
} twins[] = {
    {"ffn_gate", "ffn_up", .same = TWIN_SHAPE},
    {"ffn_up", "ffn_gate", .need = TWIN_WHERE_OTHERS},
    {"ffn_up", "ffn_down", .same = TWIN_SIZE, .of_one = 1, .of_other = 0},
    {"ffn_down", "ffn_up", .same = TWIN_ANY},
    {"attn_q_norm", "attn_k_norm", .same = TWIN_ANY},
    {"attn_k_norm", "attn_q_norm", .same = TWIN_ANY},
    {"attn.pos_h", "attn.pos_w", .same = TWIN_SHAPE},
    {"attn.pos_w", "attn.pos_h", .same = TWIN_ANY},
    {"ffn_gate_exps", "ffn_up_exps", .same = TWIN_SHAPE},
    {"ffn_up_exps", "ffn_gate_exps", .need = TWIN_WHERE_OTHERS},
    {"ffn_up_exps", "ffn_down_exps", .same = TWIN_SIZE, .of_one = 1, .of_other = 0},
    {"ffn_down_exps", "ffn_up_exps", .same = TWIN_ANY},
    {"ffn_down_exps", "ffn_gate_inp", .same = TWIN_SIZE, .of_one = 2, .of_other = 1},
    {"ffn_gate_inp", "ffn_down_exps", .same = TWIN_ANY},
    {"ffn_gate_inp", "exp_probs_b", TWIN_WHERE_OTHERS, TWIN_SIZE, .of_one = 1, .of_other = 0},
    {"conv_stem.conv", "conv_stem.bn", .same = TWIN_SIZE, .of_one = 3, .of_other = 0},
    {"conv_exp", "bn1", .same = TWIN_SIZE, .of_one = 3, .of_other = 0},
    {"conv_exp", "conv_pwl", .same = TWIN_SIZE, .of_one = 3, .of_other = 2},
    {"conv_pwl", "bn2", .same = TWIN_SIZE, .of_one = 3, .of_other = 0},
    {"dw_start.conv", "dw_start.bn", .same = TWIN_SIZE, .of_one = 3, .of_other = 0},
    {"dw_start.conv", "pw_exp.conv", TWIN_MAY_LACK, .same = TWIN_SIZE, .of_one = 3, .of_other = 2},
    {"dw_mid.conv", "dw_mid.bn", .same = TWIN_SIZE, .of_one = 3, .of_other = 0},
    {"dw_mid.conv", "pw_proj.conv", .same = TWIN_SIZE, .of_one = 3, .of_other = 2},
    {"pw_exp.conv", "pw_exp.bn", .same = TWIN_SIZE, .of_one = 3, .of_other = 0},
    {"pw_exp.conv", "pw_proj.conv", .same = TWIN_SIZE, .of_one = 3, .of_other = 2},
    {"pw_proj.conv", "pw_proj.bn", .same = TWIN_SIZE, .of_one = 3, .of_other = 0},
    {"pw_proj.conv", "layer_scale.gamma", TWIN_MAY_LACK, .same = TWIN_SIZE, .of_one = 3, .of_other = 0},
    {"ffn.pw_proj.conv", "norm", .same = TWIN_SIZE, .of_one = 3, .of_other = 0},
    {"attn.query.proj", "attn.key.proj", .same = TWIN_SIZE, .of_one = 2, .of_other = 2},
    {"attn.query.proj", "attn.output.proj", .same = TWIN_SIZE, .of_one = 3, .of_other = 2},
    {"attn.output.proj", "attn.query.proj", .same = TWIN_SIZE, .of_one = 3, .of_other = 2},
    {"attn.key.proj", "attn.value.proj", .same = TWIN_SIZE, .of_one = 2, .of_other = 2},
    {"attn.key.proj", "attn.value.proj", .same = TWIN_SIZE, .of_one = 3, .of_other = 3},
    {"attn.output.proj", "norm", .same = TWIN_SIZE, .of_one = 3, .of_other = 0},
    {"attn.output.proj", "layer_scale.gamma", TWIN_MAY_LACK, .same = TWIN_SIZE, .of_one = 3, .of_other = 0},
    {"attn.key.down_conv", "attn.key.norm", .same = TWIN_SIZE, .of_one = 3, .of_other = 0},
    {"attn.key.down_conv", "attn.key.proj", .same = TWIN_SIZE, .of_one = 3, .of_other = 2},
    {"attn.value.down_conv", "attn.value.norm", .same = TWIN_SIZE, .of_one = 3, .of_other = 0},
    {"attn.value.down_conv", "attn.value.proj", .same = TWIN_SIZE, .of_one = 3, .of_other = 2}};

/* Whether the tensor of that name, which this layer lacks, is there in another layer, or its experts'. */
static bool others_have(const hf_build *b, const name_kinds *kinds, const char *name) {
    char experts[GGUF_MAX_NAME + 16], text[GGUF_MAX_NAME + 16];
    snprintf(experts, sizeof experts, "%.*s_exps.weight", (int)(strlen(name) - strlen(".weight")), name);
    size_t own = hf_build_find(b, experts) != NULL;
    for (unsigned i = 0; name_without_number(name, i, text, sizeof text); i++)
        if (kinds_find(kinds, text)) return true;
    for (unsigned i = 0; name_without_number(experts, i, text, sizeof text); i++) {
        const name_kind *of = kinds_find(kinds, text);
        if (of && of->n > own) return true;
    }
    return false;
}

static bool layer_check_twin(const hf_build *b, const name_kinds *kinds, const hf_tensor *w, gq_error *e) {
    for (size_t i = 0; i < sizeof twins / sizeof *twins; i++) {
        char name[GGUF_MAX_NAME + 8], end[32];
        int n = snprintf(end, sizeof end, ".%s.weight", twins[i].one);
        if (!name_ends(w->tensor.name, end)) continue;
        snprintf(name, sizeof name, "%.*s.%s.weight", (int)strlen(w->tensor.name) - n, w->tensor.name,
                 twins[i].other);
        const hf_tensor *twin = hf_build_find(b, name);
        if (!twin && twins[i].need == TWIN_MAY_LACK) {
            name[strlen(name) - strlen(".weight")] = 0;
            twin = hf_build_find(b, name);
        }
        if (!twin && (twins[i].need == TWIN_ALWAYS ||
                      (twins[i].need == TWIN_WHERE_OTHERS && others_have(b, kinds, name))))
            return hf_projector_fail_missing(b, w, name, e);
        if (!twin || twins[i].same == TWIN_ANY) continue;
        if (twins[i].same == TWIN_SHAPE ? !shapes_agree(w, twin)
                                        : w->tensor.ne[twins[i].of_one] != twin->tensor.ne[twins[i].of_other])
            return hf_projector_fail(b, w, e, "its shape does not fit that of %s (%s)", name,
                                     twin->stored_name ? twin->stored_name : "computed");
    }
    return true;
}

/* Matrices that have a bias both, or neither, in all classes; `but` is not there beside them. One way: where the first
 * has one, so has the other. */
static const struct {
    const char *one, *other, *but;
    bool one_way;
} bias_pairs[] = {{.one = "attn_v", .other = "attn_out", .but = "ffn_gate", .one_way = true},
                  {.one = "attn_q", .other = "attn_v"},
                  {.one = "ffn_up", .other = "ffn_down"},
                  {.one = "ffn_up", .other = "ffn_gate"},
                  {.one = "ffn_up_1", .other = "ffn_down_1"},
                  {.one = "conv_pw1", .other = "conv_pw2"},
                  {.one = "attn.qkv", .other = "attn.out"},
                  {.one = "mlp.lin1", .other = "mlp.lin2"},
                  {.one = "self_attn_q", .other = "self_attn_k"},
                  {.one = "self_attn_q", .other = "self_attn_v"},
                  {.one = "self_attn_q", .other = "self_attn_out"},
                  {.one = "cross_attn_q", .other = "cross_attn_k"},
                  {.one = "cross_attn_q", .other = "cross_attn_v"},
                  {.one = "cross_attn_q", .other = "cross_attn_out"},
                  {.one = "ds_ffn_up", .other = "ds_ffn_down"},
                  {.one = "fc1", .other = "fc2"},
                  {.one = "mm.0", .other = "mm.1"},
                  {.one = "mm.0", .other = "mm.2", .but = "mm.1"},
                  {.one = "mm.1", .other = "mm.2", .but = "mm.0"},
                  {.one = "mm.gate", .other = "mm.up"},
                  {.one = "mm.up", .other = "mm.down"},
                  {.one = "mm.a.mlp.0", .other = "mm.a.mlp.1"},
                  {.one = "mm.a.mlp.1", .other = "mm.a.mlp.2"}};

/* A matrix has a bias where the one that goes with it has one. */
static bool weight_check_pair(const hf_build *b, const hf_tensor *w, gq_error *e) {
    for (size_t i = 0; i < 2 * (sizeof bias_pairs / sizeof *bias_pairs); i++) {
        char end[32], name[GGUF_MAX_NAME + 8], bias[GGUF_MAX_NAME + 8], own[GGUF_MAX_NAME + 8];
        const char *one = i % 2 ? bias_pairs[i / 2].other : bias_pairs[i / 2].one,
                   *other = i % 2 ? bias_pairs[i / 2].one : bias_pairs[i / 2].other;
        int n = snprintf(end, sizeof end, "%s.weight", one);
        if (!name_ends(w->tensor.name, end)) continue;
        size_t before = strlen(w->tensor.name) - (size_t)n;
        if (before && !strchr("._", w->tensor.name[before - 1])) continue;
        snprintf(name, sizeof name, "%.*s%s.weight", (int)before, w->tensor.name,
                 bias_pairs[i / 2].but ? bias_pairs[i / 2].but : "?");
        if (hf_build_find(b, name) || (bias_pairs[i / 2].one_way && i % 2 == 0)) continue;
        snprintf(name, sizeof name, "%.*s%s.weight", (int)before, w->tensor.name, other);
        const hf_tensor *t = hf_build_find(b, name);
        if (t && hf_projector_bias(b, t, bias) && !hf_projector_bias(b, w, own))
            return hf_projector_fail(b, w, e, "there is no %s, but there is %s: download the whole model",
                                     own, bias);
    }
    return true;
}

/* Bounds of a matrix's inputs and outputs: all four or none, and not without it. */
static bool bounds_check(const hf_build *b, const hf_tensor *t, gq_error *e) {
    static const char *const bounds[] = {".input_max", ".input_min", ".output_max", ".output_min", ".weight"};
    enum { BOUNDS = 4 };
    for (size_t i = 0; i < BOUNDS; i++)
        for (size_t k = 0; k <= BOUNDS && name_ends(t->tensor.name, bounds[i]); k++) {
            char name[GGUF_MAX_NAME + 16];
            snprintf(name, sizeof name, "%.*s%s", (int)(strlen(t->tensor.name) - strlen(bounds[i])),
                     t->tensor.name, bounds[k]);
            if (!hf_build_find(b, name)) return hf_projector_fail_missing(b, t, name, e);
        }
    return true;
}

/* Whether a tensor is a norm of a layer's states. */
static bool is_layer_norm(const char *name) {
    static const char *const norms[] = {"norm", ".ln", "_ln", NULL};
    return strstr(name, "blk.0.") && name_ends(name, ".weight") && arch_names_match(norms, name) &&
           !name_ends(name, "attn_q_norm.weight") && !name_ends(name, "attn_k_norm.weight");
}

/* All norms of a layer have a bias, or none has. */
static bool norms_check_alike(const hf_build *b, const name_kinds *kinds, const hf_tensor *norm,
                              gq_error *e) {
    char name[GGUF_MAX_NAME + 8], other[GGUF_MAX_NAME + 8], prefix[GGUF_MAX_NAME];
    if (!is_layer_norm(norm->tensor.name) || hf_projector_bias(b, norm, name)) return true;
    block_prefix(norm->tensor.name, prefix);
    const name_kind *of = kinds_find(kinds, prefix);
    return !of || !hf_projector_bias(b, of->first, other) ||
           hf_projector_fail(b, norm, e, "there is no %s, but there is %s: download the whole model", name,
                             other);
}

/* Adds what a tensor has in common with others: the name but for a number; a weight with a bias as what weights of its
 * kind have, and as a norm of its layers. */
static bool kinds_add_tensor(const hf_build *b, name_kinds *kinds, const hf_tensor *t, gq_error *e) {
    char text[KIND_BYTES], bias[GGUF_MAX_NAME + 8];
    bool ok = true;
    for (unsigned i = 0; ok && name_without_number(t->tensor.name, i, text, sizeof text); i++)
        ok = kinds_add(kinds, text, t, e);
    if (!ok || !hf_projector_bias(b, t, bias)) return ok;
    for (unsigned i = 0; ok && weight_kind(t, i, 0, text); i++)
        for (unsigned k = 0; ok && weight_kind(t, i, k, text); k++) ok = kinds_add(kinds, text, t, e);
    return ok && (!is_layer_norm(t->tensor.name) || !block_prefix(t->tensor.name, text) ||
                  kinds_add(kinds, text, t, e));
}

static bool weights_check(const hf_build *b, gq_error *e) {
    name_kinds kinds = {.n = 0};
    bool ok = true;
    for (size_t i = 0; ok && i < b->n; i++) ok = kinds_add_tensor(b, &kinds, &b->tensors[i], e);
    for (size_t i = 0; ok && i < b->n; i++) {
        const hf_tensor *t = &b->tensors[i];
        ok = bounds_check(b, t, e) &&
             (!name_ends(t->tensor.name, ".weight") ||
              (weight_check_bias(b, &kinds, t, e) && layer_check_twin(b, &kinds, t, e) &&
               norms_check_alike(b, &kinds, t, e) && weight_check_pair(b, t, e)));
    }
    kinds_free(&kinds);
    return ok;
}

/* Layers that see a window (mode -1: they see all) have sinks where another has. */
static bool sinks_check(const hf_build *b, const hf_metadata *p, gq_error *e) {
    const model_kv *modes = hf_metadata_find(p, ".vision.wa_pattern_mode");
    const hf_tensor *sinks = NULL;
    int64_t mode;
    for (size_t i = 0; modes && i < b->n && !sinks; i++)
        if (name_ends(b->tensors[i].tensor.name, ".attn_sinks")) sinks = &b->tensors[i];
    for (uint64_t i = 0; sinks && model_fact_at(modes, i, &mode); i++) {
        char name[GGUF_MAX_NAME];
        snprintf(name, sizeof name, "v.blk.%llu.attn_sinks", LLU(i));
        if (mode >= 0 && !hf_build_find(b, name)) return hf_projector_fail_missing(b, sinks, name, e);
    }
    return true;
}

static bool rules_make(const arch_rule *r, const char *name) {
    while (r && r->from && !arch_rule_makes(r, name)) r++;
    return r && r->from;
}

/* Tensors that belong together outside of layers, in projectors whose rules make both. */
static bool pairs_check(const hf_build *b, const arch_projector *row, gq_error *e) {
    static const char *const pairs[][2] = {
        {"v.std_scale", "v.std_bias"},
        {"v.norm_embd.weight", "v.position_embd.weight"},
        {"mm.patch_merger.weight", "mm.input_norm.weight"},
        {"v.image_newline", "v.token_embd.img_start"},
        {"v.token_embd.img_start", "v.token_embd.img_end"},
        {"v.token_embd.img_end", "v.token_embd.img_pad"},
    };
    for (size_t i = 0; i < 2 * sizeof pairs / sizeof *pairs; i++) {
        const char *one = pairs[i / 2][i % 2], *other = pairs[i / 2][1 - i % 2];
        const hf_tensor *t = hf_build_find(b, one);
        if (t && !hf_build_find(b, other) &&
            (rules_make(row->folder.rules, other) || rules_make(row->folder.more, other)))
            return hf_projector_fail_missing(b, t, other, e);
    }
    return true;
}

bool hf_projector_check_layers(const hf_build *b, const arch_projector *row, const hf_metadata *p,
                               gq_error *e) {
    return weights_check(b, e) && pairs_check(b, row, e) && sinks_check(b, p, e) &&
           other_blocks_check(b, row, e);
}
