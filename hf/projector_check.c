/* Nothing runs a projector here, so what it must have is told by three things: all layers are alike, the config says how
 * wide they are, and each rule of the row has an array, but for those that the row says some projectors lack. */
#include "hf/projector_check.h"

#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "hf/build_names.h"
#include "hf/build_tensor.h"
#include "hf/names.h"

enum { BLOCKS_MOST = 4096 };

#define check_fail(b, t, e, format, ...) \
    gq_fail(e, "%s: tensor '%s' (%s): " format, (b)->list->folder->path, (t)->tensor.name, \
            (t)->stored_name ? (t)->stored_name : "computed", ##__VA_ARGS__)

static bool shapes_agree(const hf_tensor *a, const hf_tensor *b) {
    return memcmp(a->tensor.ne, b->tensor.ne, sizeof a->tensor.ne) == 0;
}

static uint32_t pair_number(const hf_pairs *p, const char *key) {
    const model_kv *kv = hf_pairs_find(p, key);
    uint32_t n = 0;
    if (kv && kv->type == GGUF_U32) memcpy(&n, kv->value, sizeof n);
    return n;
}

/* ---- layers ---- */

/* Checks that a tensor of block k has its like in another block, of the same shape where `shaped`. */
static bool block_check_like(const hf_build *b, const hf_tensor *t, const char *prefix,
                             unsigned long long other, const char *rest, unsigned long long n, bool shaped,
                             gq_error *e) {
    char name[2 * GGUF_MAX_NAME];
    snprintf(name, sizeof name, "%s%llu%s", prefix, other, rest);
    const hf_tensor *like = hf_build_find(b, name);
    if (!like)
        return hf_config_fail(
            b->config, e,
            "the projector has %llu layers (%s#), but there is no %s beside %s (%s): part of the "
            "model was not saved or downloaded",
            n, prefix, name, t->tensor.name, t->stored_name ? t->stored_name : "");
    return !shaped || shapes_agree(t, like) ||
           check_fail(b, t, e, "its shape is not that of %s (%s)", name,
                      like->stored_name ? like->stored_name : "computed");
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

/* All blocks from 0 to n - 1 have what the first has, and nothing else. */
static bool blocks_check(const hf_build *b, const char *prefix, uint32_t n, bool shaped, gq_error *e) {
    bool has = n == 0;
    for (size_t i = 0; i < b->n; i++) {
        const hf_tensor *t = &b->tensors[i];
        const char *rest;
        unsigned long long number;
        if (!block_in(t->tensor.name, prefix, &number, &rest) || number >= n) continue;
        has = true;
        if (number > 0 && !block_check_like(b, t, prefix, 0, rest, n, shaped, e)) return false;
        for (uint32_t k = 1; number == 0 && k < n; k++)
            if (!block_check_like(b, t, prefix, k, rest, n, shaped, e)) return false;
    }
    return has || hf_config_fail(b->config, e, "the projector has %u layers, but no array belongs to %s#", n,
                                 prefix);
}

/* Blocks of parts that no number of the file counts have the same names, and the same shapes, but that widths of waves
 * and windows of SAM grow from one to the next. */
static bool other_blocks_check(const hf_build *b, gq_error *e) {
    char done[GGUF_MAX_NAME] = "", prefix[GGUF_MAX_NAME];
    for (size_t i = 0; i < b->n; i++) {
        const char *rest;
        unsigned long long number, last = 0;
        if (!block_prefix(b->tensors[i].tensor.name, prefix) || !strcmp(prefix, done) ||
            !strcmp(prefix, "v.blk.") || !strcmp(prefix, "a.blk."))
            continue;
        for (size_t k = 0; k < b->n; k++)
            if (block_in(b->tensors[k].tensor.name, prefix, &number, &rest)) last = max(last, number);
        if (last >= BLOCKS_MOST) return check_fail(b, &b->tensors[i], e, "a layer of number %llu", last);
        bool grows = name_behind(prefix, "a.gen.wav.") || name_behind(prefix, "v.sam.");
        if (last > 0 && !blocks_check(b, prefix, (uint32_t)last + 1, !grows, e)) return false;
        memcpy(done, prefix, sizeof done);
    }
    return true;
}

/* ---- widths ---- */

/* Where a layer's tensors have the width of its states: in their rows, or as many rows. */
static const struct {
    const char *name;
    unsigned dim;
} widths[] = {{"ln1.weight", 0},      {"ln2.weight", 0},      {"attn_q.weight", 0},   {"attn_k.weight", 0},
              {"attn_v.weight", 0},   {"attn_qkv.weight", 0}, {"attn_out.weight", 1}, {"ffn_up.weight", 0},
              {"ffn_gate.weight", 0}, {"ffn_down.weight", 1}, {"conv_pw1.weight", 0}, {"conv_pw2.weight", 1}};

/* The same of tensors outside of layers: in their rows, or in the last dimension; and those that have the width of
 * the text model in either of two. Readers leave out a norm that they do not find, without a word: where rules make one,
 * the folder has to have it, and with a bias where the norms of layers have one. */
static const struct {
    const char *name, *key;
    enum { IN_ROWS, IN_LAST, IN_EITHER } where;
    const char *is_norm; /* a bias that it has one with, or ""; NULL: it is no norm */
    const char *other;   /* the width that some have instead */
} ends[] = {{"v.patch_embd.weight", ".vision.embedding_length", IN_LAST, NULL, NULL},
            {"v.position_embd.weight", ".vision.embedding_length", IN_ROWS, NULL, NULL},
            {"mm.embedding.weight", ".vision.embedding_length", IN_ROWS, NULL, NULL},
            {"a.position_embd.weight", ".audio.embedding_length", IN_ROWS, NULL, ".audio.projection_dim"},
            {"mm.a.embedding.weight", ".audio.embedding_length", IN_ROWS, NULL, NULL},
            {"mm.input_projection.weight", ".vision.projection_dim", IN_EITHER, NULL, NULL},
            {"mm.a.input_projection.weight", ".audio.projection_dim", IN_EITHER, NULL, NULL},
            {"v.pre_ln.weight", ".vision.embedding_length", IN_ROWS, "v.blk.0.ln1.bias", NULL},
            {"v.post_ln.weight", ".vision.embedding_length", IN_ROWS, "v.blk.0.ln1.bias", NULL},
            {"a.post_ln.weight", ".audio.embedding_length", IN_ROWS, "a.blk.0.ln1.bias", NULL},
            {"mm.soft_emb_norm.weight", ".vision.embedding_length", IN_ROWS, "", NULL},
            {"mm.hard_emb_norm.weight", ".vision.embedding_length", IN_ROWS, "", NULL},
            {"mm.a.soft_emb_norm.weight", ".audio.embedding_length", IN_ROWS, "", NULL},
            {"mm.a.hard_emb_norm.weight", ".audio.embedding_length", IN_ROWS, "", NULL}};

/* Fails for a norm without a bias where those of layers have one. */
static bool norm_check_bias(const hf_build *b, const hf_tensor *norm, const char *of_layers, gq_error *e) {
    char name[64];
    snprintf(name, sizeof name, "%.*s.bias", (int)(strlen(norm->tensor.name) - strlen(".weight")),
             norm->tensor.name);
    return !hf_build_find(b, of_layers) || hf_build_find(b, name) ||
           check_fail(b, norm, e,
                      "there is no %s beside it, but there is %s: part of the model was not "
                      "saved or downloaded",
                      name, of_layers);
}

static bool ends_check(const hf_build *b, const hf_pairs *p, gq_error *e) {
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const hf_tensor *t = hf_build_find(b, ends[i].name);
        uint32_t width = pair_number(p, ends[i].key);
        if (t && ends[i].is_norm && !norm_check_bias(b, t, ends[i].is_norm, e)) return false;
        if (!t || !width) continue;
        if (ends[i].other && t->tensor.ne[0] == pair_number(p, ends[i].other)) continue;
        const uint64_t *ne = t->tensor.ne, last = ne[t->tensor.n_dims - 1];
        if (ends[i].where == IN_ROWS   ? ne[0] != width
            : ends[i].where == IN_LAST ? last != width
                                       : ne[0] != width && ne[1] != width)
            return check_fail(b, t, e, "%llu columns and %llu outputs, but the config has a width of %u",
                              (unsigned long long)ne[0], (unsigned long long)last, width);
    }
    return true;
}

static bool widths_check(const hf_build *b, const char *prefix, uint32_t width, gq_error *e) {
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s0.%s", prefix, widths[i].name);
        const hf_tensor *t = hf_build_find(b, name);
        if (t && t->tensor.n_dims <= 2 && t->tensor.ne[widths[i].dim] != width)
            return check_fail(b, t, e, "%llu %s, but the config has states of %u",
                              (unsigned long long)t->tensor.ne[widths[i].dim],
                              widths[i].dim ? "rows" : "columns", width);
    }
    return true;
}

/* Whether one dimension has all elements: the first one, but for biases of convolutions. */
static bool bias_is_vector(const model_tensor *bias, const model_tensor *of) {
    uint64_t n = shape_elements(bias->ne);
    bool is = false;
    for (unsigned i = 0; i < (of->n_dims > 2 ? GGUF_MAX_DIMS : 1); i++) is = is || bias->ne[i] == n;
    return is;
}

/* A bias has as many elements as its matrix has rows, and as a norm has. */
static bool biases_check(const hf_build *b, gq_error *e) {
    /* Convolutions that lengthen have their outputs in the dimension before the last. */
    static const char *const lengthening[] = {"^a.gen.wav.up.blk.*.conv.weight",
                                              "^a.gen.wav.dac.blk.*.conv.weight", NULL},
                             *const even[] = {".res2.", NULL}; /* as many inputs as outputs */
    for (size_t i = 0; i < b->n; i++) {
        const hf_tensor *bias = &b->tensors[i];
        char name[GGUF_MAX_NAME + 8];
        size_t n = strlen(bias->tensor.name);
        if (!name_ends(bias->tensor.name, ".bias")) continue;
        snprintf(name, sizeof name, "%.*s.weight", (int)(n - strlen(".bias")), bias->tensor.name);
        const hf_tensor *w = hf_build_find(b, name);
        if (!w)
            return check_fail(
                b, bias, e, "there is no %s beside it: part of the model was not saved or downloaded", name);
        uint32_t last = w->tensor.n_dims - 1;
        if (last > 0 && hf_names_match(lengthening, name)) last--;
        uint64_t outputs = w->tensor.ne[last], elements = shape_elements(bias->tensor.ne);
        if (!bias_is_vector(&bias->tensor, &w->tensor))
            return check_fail(b, bias, e, "%u dimensions, expected a vector", bias->tensor.n_dims);
        if (outputs != elements)
            return check_fail(b, bias, e, "%llu elements, but %s has %llu outputs",
                              (unsigned long long)elements, name, (unsigned long long)outputs);
        if (last > 0 && hf_names_match(even, name) && w->tensor.ne[last - 1] != outputs)
            return check_fail(b, w, e, "%llu inputs, expected %llu",
                              (unsigned long long)w->tensor.ne[last - 1], (unsigned long long)outputs);
    }
    return true;
}

/* ---- what goes together in a layer, of towers whose layers are not counted too ---- */

/* A matrix has a bias where that of another layer has one. */
static bool layer_check_bias(const hf_build *b, const hf_tensor *w, gq_error *e) {
    char prefix[GGUF_MAX_NAME], name[GGUF_MAX_NAME + 8];
    const char *rest, *other_rest;
    unsigned long long number;
    if (!block_prefix(w->tensor.name, prefix) || !block_in(w->tensor.name, prefix, &number, &rest))
        return true;
    int n = (int)(strlen(rest) - strlen(".weight"));
    snprintf(name, sizeof name, "%s%llu%.*s.bias", prefix, number, n, rest);
    if (hf_build_find(b, name)) return true;
    for (size_t i = 0; i < b->n; i++) {
        const char *other = b->tensors[i].tensor.name;
        if (block_in(other, prefix, &number, &other_rest) && !strncmp(other_rest, rest, (size_t)n) &&
            !strcmp(other_rest + n, ".bias"))
            return check_fail(
                b, w, e, "there is no %s, but there is %s: part of the model was not saved or downloaded",
                name, other);
    }
    return true;
}

/* The matrix behind a gate has the gate's shape. */
static bool layer_check_gate(const hf_build *b, const hf_tensor *w, gq_error *e) {
    size_t n = strlen(w->tensor.name) - strlen("gate.weight");
    char name[GGUF_MAX_NAME + 8];
    if (!name_ends(w->tensor.name, "ffn_gate.weight")) return true;
    snprintf(name, sizeof name, "%.*sup.weight", (int)n, w->tensor.name);
    const hf_tensor *up = hf_build_find(b, name);
    return !up || shapes_agree(w, up) || check_fail(b, w, e, "its shape is not that of %s", name);
}

static bool layers_check(const hf_build *b, gq_error *e) {
    for (size_t i = 0; i < b->n; i++)
        if (name_ends(b->tensors[i].tensor.name, ".weight") &&
            !(layer_check_bias(b, &b->tensors[i], e) && layer_check_gate(b, &b->tensors[i], e)))
            return false;
    return true;
}

/* ---- rules ---- */

/* Whether a tensor's name is what a rule makes: `to` up to a '|', with numbers for its signs. */
static bool name_is_of(const char *name, const char *to) {
    for (; *to && *to != '|'; to++) {
        if (*to != '#' && *to != '*') {
            if (*to != *name++) return false;
            continue;
        }
        if (*name < '0' || *name > '9') return false;
        while (*name >= '0' && *name <= '9') name++;
    }
    return *name == 0 || *name == '.';
}

static bool rule_makes_norm(const arch_rule *r) {
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (ends[i].is_norm && name_is_of(ends[i].name, r->to)) return true;
    return false;
}

/* Warns of what is not there though a rule makes it; fails for a norm. */
static bool rules_check(const hf_build *b, const arch_projector *row, const arch_rule *rules, bool hears,
                        gq_error *e) {
    for (const arch_rule *r = rules; r && r->from; r++) {
        bool is_heard = name_behind(r->to, "a.") || name_behind(r->to, "mm.a."),
             has = hf_names_match(row->may_lack, r->to) || (is_heard && !hears);
        for (size_t i = 0; !has && i < b->n; i++) has = name_is_of(b->tensors[i].tensor.name, r->to);
        if (!has && rule_makes_norm(r))
            return hf_config_fail(
                b->config, e,
                "no array is %.*s (%s), a norm that such projectors have: part of the model "
                "was not saved or downloaded",
                (int)strcspn(r->to, "|"), r->to, r->from);
        if (!has &&
            !hf_folder_warn(b->list->folder, "", e,
                            "no array is %.*s (%s), which such projectors have: programs may refuse the file",
                            (int)strcspn(r->to, "|"), r->to, r->from))
            return false;
    }
    return true;
}

/* ---- the whole ---- */

bool hf_projector_check(const hf_build *b, const arch_projector *row, const hf_pairs *p, gq_error *e) {
    static const struct {
        const char *blocks, *count, *width;
    } parts[] = {{"v.blk.", ".vision.block_count", ".vision.embedding_length"},
                 {"a.blk.", ".audio.block_count", ".audio.embedding_length"}};
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
        uint32_t n = pair_number(p, parts[k].count), width = pair_number(p, parts[k].width);
        if (row->counted && !strstr(row->counted, parts[k].blocks)) continue;
        if (n > BLOCKS_MOST)
            return hf_config_fail(b->config, e, "%u layers, expected at most %d", n, BLOCKS_MOST);
        if (!blocks_check(b, parts[k].blocks, n, true, e) ||
            (n && !widths_check(b, parts[k].blocks, width, e)))
            return false;
    }
    bool hears = hf_pairs_find(p, ".has_audio_encoder");
    return ends_check(b, p, e) && biases_check(b, e) && layers_check(b, e) && other_blocks_check(b, e) &&
           rules_check(b, row, row->folder.rules, hears, e) &&
           rules_check(b, row, row->folder.more, hears, e);
}
