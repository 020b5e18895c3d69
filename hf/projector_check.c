/* gquant does not run projectors, so four things show whether one is complete: all layers are alike
 * (projector_layers.c), the config says how wide they are, sizes agree with one another (projector_shapes.c), and each
 * rule of the row has a source tensor, but for those that the row says some projectors lack. */
#include "hf/projector.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/memory.h"
#include "gguf/facts.h"

/* ---- widths ---- */

/* The dimension of a layer's tensors that is the hidden size: their row length, or their number of rows. */
typedef struct layer_width {
    const char *name;
    unsigned dim;
} layer_width;
static const layer_width widths[] = {{"ln1.weight", 0},      {"ln2.weight", 0},      {"attn_q.weight", 0},
                                     {"attn_k.weight", 0},   {"attn_v.weight", 0},   {"attn_qkv.weight", 0},
                                     {"attn_out.weight", 1}, {"ffn_up.weight", 0},   {"pre_ln.weight", 0},
                                     {"attn.qkv.weight", 0}, {"attn.out.weight", 1}, {"ffn_gate.weight", 0},
                                     {"ffn_down.weight", 1}, {"conv_pw1.weight", 0}, {"conv_pw2.weight", 1}};

/* The same with the width of the feed-forward sublayer. */
static const layer_width feeds[] = {{"ffn_up.weight", 1}, {"ffn_down.weight", 0}};

/* The same of tensors outside of layers: in their rows, or in the last dimension; and those that have the width of
 * the text model in either of two. Readers leave out a norm that they do not find, without a word: where rules make
 * one, the folder has to have it, and with a bias where the norms of layers have one. */
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
    char name[GGUF_MAX_NAME + 8];
    return hf_projector_bias(b, norm, name) || !hf_build_find(b, of_layers) ||
           hf_projector_fail(b, norm, e,
                             "there is no %s beside it, but there is %s: download the whole model", name,
                             of_layers);
}

static bool ends_check(const hf_build *b, const hf_metadata *p, gq_error *e) {
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const hf_tensor *t = hf_build_find(b, ends[i].name);
        uint32_t width = ends[i].key ? hf_metadata_number(p, ends[i].key) : 0;
        if (t && ends[i].is_norm && !norm_check_bias(b, t, ends[i].is_norm, e)) return false;
        if (!t || !width) continue;
        if (ends[i].other && t->tensor.ne[0] == hf_metadata_number(p, ends[i].other)) continue;
        const uint64_t *ne = t->tensor.ne, last = ne[t->tensor.n_dims - 1];
        if (ends[i].where == IN_ROWS   ? ne[0] != width
            : ends[i].where == IN_LAST ? last != width
                                       : ne[0] != width && ne[1] != width)
            return hf_projector_fail(b, t, e,
                                     "%llu columns and %llu outputs, but the config has a width of %u",
                                     LLU(ne[0]), LLU(last), width);
    }
    return true;
}

/* Checks the first layer's tensors of a list. `what` the config has. */
static bool widths_check(const hf_build *b, const char *prefix, const layer_width *list, size_t n,
                         const char *what, uint32_t width, gq_error *e) {
    for (size_t i = 0; i < n; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s0.%s", prefix, list[i].name);
        const hf_tensor *t = hf_build_find(b, name);
        if (t && (t->tensor.n_dims <= 2 || list == feeds) && t->tensor.ne[list[i].dim] != width)
            return hf_projector_fail(b, t, e, "%llu %s, but the config has %s of %u",
                                     LLU(t->tensor.ne[list[i].dim]), list[i].dim ? "rows" : "columns", what,
                                     width);
    }
    return true;
}

/* Whether the config itself has this number for the multimodal projector, under one of several names. Numbers that
 * stand for missing ones, and those that files of a kind always have, say nothing of a folder's source tensors. */
static bool config_says(const hf_build *b, const char *part, const char *const *names, uint32_t number) {
    for (; part && number && *names; names++) {
        char key[128];
        uint32_t said;
        snprintf(key, sizeof key, "root.%s.%s", part, *names);
        if (hf_config_get(b->config, key) && hf_config_u32(b->config, key, &said, NULL))
            return said == number;
    }
    return false;
}

/* The feed-forward sublayer is as wide as the config says. */
static bool feeds_check(const hf_build *b, const arch_projector *row, const char *prefix, const char *part,
                        uint32_t length, gq_error *e) {
    static const char *const names[] = {"vt_intermediate_size", "intermediate_size", "encoder_ffn_dim", NULL};
    enum { FEEDS = sizeof feeds / sizeof *feeds };
    char key[128] = "";
    uint32_t other;
    if (row->feeds && part) snprintf(key, sizeof key, "root.%s.%s", part, row->feeds);
    return !config_says(b, part, names, length) ||
           (*key && hf_config_u32(b->config, key, &other, NULL) &&
            widths_check(b, prefix, feeds, FEEDS, "", other, NULL)) ||
           widths_check(b, prefix, feeds, FEEDS, "a feed-forward length", length, e);
}

/* Patches are as wide and high as the config says: a convolution's kernel, or the rows of a matrix, which has three
 * colors of each pixel, in all frames, and may join patches to larger ones. Kernels of other convolutions are square,
 * too. */
static bool patches_check(const hf_build *b, uint32_t size, gq_error *e) {
    const hf_tensor *t = hf_build_find(b, "v.patch_embd.weight");
    uint32_t frames;
    for (size_t i = 0; i < b->n; i++) {
        const hf_tensor *k = &b->tensors[i];
        if (k->tensor.n_dims == 4 && k->tensor.ne[0] != k->tensor.ne[1] && *k->tensor.name != 'a' &&
            !strstr(k->tensor.name, "pos"))
            return hf_projector_fail(b, k, e, "a kernel of %llu by %llu, expected a square",
                                     LLU(k->tensor.ne[0]), LLU(k->tensor.ne[1]));
    }
    if (!t || !size) return true;
    if (!hf_config_u32_or(b->config, "vision.temporal_patch_size", 1, &frames, e)) return false;
    const uint64_t *ne = t->tensor.ne, pixels = (uint64_t)size * size;
    uint64_t joined = frames ? ne[0] / pixels / 3 / frames : 0, root = (uint64_t)(sqrt((double)joined) + .5);
    bool fits = t->tensor.n_dims >= 4 ? ne[0] == size && ne[1] == size
                                      : root > 0 && ne[0] == root * root * pixels * 3 * frames;
    return fits ||
           hf_projector_fail(b, t, e, "patches of %llu by %llu, but the config has a patch size of %u",
                             LLU(ne[0]), LLU(ne[1]), size);
}

/* Reports positions that are not those of the images that the config has, whose size readers take from the GGUF; some
 * resize them. There may be one more, of the class embedding. A grid that the config has itself (Muse Glimmer)
 * counts. */
static bool positions_check(const hf_build *b, uint32_t patch, gq_error *e) {
    const hf_tensor *t = hf_build_find(b, "v.position_embd.weight");
    uint32_t image, high, wide;
    if (t && hf_config_u32(b->config, "vision.init_pos_emb_height|vision.pos_emb_height", &high, NULL) &&
        hf_config_u32(b->config, "vision.init_pos_emb_width|vision.pos_emb_width", &wide, NULL) &&
        mul_sat(t->tensor.ne[1], t->tensor.ne[2]) != (uint64_t)high * wide)
        return hf_projector_fail(b, t, e, "%llu positions, but the config has a grid of %u by %u",
                                 LLU(mul_sat(t->tensor.ne[1], t->tensor.ne[2])), high, wide);
    if (!t || !patch || !hf_config_get(b->config, "vision.image_size")) return true;
    if (!hf_config_u32(b->config, "vision.image_size", &image, NULL)) return true; /* two sizes, or none */
    uint64_t side = image / patch, has = t->tensor.ne[1];
    return side == 0 || has == side * side || has == side * side + 1 ||
           hf_folder_warn(b->list->folder, "", e,
                          "%s (%s) has %llu positions, but config.json has images of %u with patches of %u, "
                          "which are %llu: the config may be another model's",
                          t->tensor.name, t->stored_name ? t->stored_name : "computed", LLU(has), image,
                          patch, LLU(side * side));
}

/* A vision encoder of RADIO has a class embedding, or one for each teacher, and registers: as many as its config says,
 * or as make all of them a multiple of a number. */
static bool registers_check(const hf_build *b, gq_error *e) {
    static const char fixed[] = "vision.args.cpe_num_registers", multiple[] = "vision.args.register_multiple";
    const hf_tensor *t = hf_build_find(b, "v.class_embd");
    uint64_t has = t ? t->tensor.ne[1] : 0,
             teachers = json_array_size(hf_config_get(b->config, "vision.args.teachers"));
    bool has_many = false;
    uint32_t n;
    if (!hf_config_u32_or(b->config, fixed, 0, &n, e) ||
        !hf_config_bool_or(b->config, "vision.args.cls_token_per_teacher", teachers != 0, &has_many, e))
        return false;
    if (n) {
        bool fits = has > n && (has == n + 1 || (has_many && (!teachers || has <= n + teachers)));
        return !t || fits ||
               hf_projector_fail(b, t, e,
                                 "%llu class embeddings and registers, but args.cpe_num_registers is %u",
                                 LLU(has), n);
    }
    if (!hf_config_u32_or(b->config, multiple, 0, &n, e)) return false;
    return !t || !n || has % n == 0 ||
           hf_projector_fail(b, t, e, "%llu class embeddings and registers, but args.register_multiple is %u",
                             LLU(has), n);
}

/* The first convolution of sounds reads all frequencies. */
static bool frequencies_check(const hf_build *b, const char *part, uint32_t bins, gq_error *e) {
    static const char *const names[] = {"num_mel_bins", "n_mels", "feat_in", NULL};
    const hf_tensor *t = hf_build_find(b, "a.conv1d.0.weight");
    if (!t) t = hf_build_find(b, "a.conv1d.1.weight");
    return !t || !config_says(b, part, names, bins) || t->tensor.n_dims != 3 || t->tensor.ne[1] == bins ||
           hf_projector_fail(b, t, e, "%llu inputs, but the config has %u frequencies", LLU(t->tensor.ne[1]),
                             bins);
}

/* The output to the text model must have the text model's width. */
static bool outputs_check(const hf_build *b, uint32_t width, gq_error *e) {
    for (size_t i = 0; width && i < b->n; i++)
        for (unsigned k = 0; k < GGUF_MAX_DIMS; k++)
            if (b->tensors[i].tensor.ne[k] == width) return true;
    return !width ||
           hf_config_fail(
               b->config, e,
               "the text model has a width of %u, but no tensor of the projector has as many rows or columns",
               width);
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
        if (!name_with_end(name, sizeof name, bias->tensor.name, ".bias", ".weight")) continue;
        const hf_tensor *w = hf_build_find(b, name);
        if (!w) return hf_projector_fail_missing(b, bias, name, e);
        uint32_t last = w->tensor.n_dims - 1;
        if (last > 0 && arch_names_match(lengthening, name)) last--;
        uint64_t outputs = w->tensor.ne[last], elements = shape_elements(bias->tensor.ne);
        if (!bias_is_vector(&bias->tensor, &w->tensor))
            return hf_projector_fail(b, bias, e, "%u dimensions, expected a vector", bias->tensor.n_dims);
        if (outputs != elements)
            return hf_projector_fail(b, bias, e, "%llu elements, but %s has %llu outputs", LLU(elements),
                                     name, LLU(outputs));
        if (last > 0 && arch_names_match(even, name) && w->tensor.ne[last - 1] != outputs)
            return hf_projector_fail(b, w, e, "%llu inputs, expected %llu", LLU(w->tensor.ne[last - 1]),
                                     LLU(outputs));
    }
    return true;
}

/* ---- rules ---- */

static bool rule_makes_norm(const arch_rule *r) {
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (ends[i].is_norm && arch_rule_makes(r, ends[i].name)) return true;
    return false;
}

/* Warns of what is not there though a rule makes it; fails for a norm. */
static bool rules_check(const hf_build *b, const arch_projector *row, const arch_rule *rules, bool has_audio,
                        gq_error *e) {
    for (const arch_rule *r = rules; r && r->from; r++) {
        bool has = arch_names_match(row->may_lack, r->to) || (arch_rule_is_heard(r) && !has_audio);
        for (size_t i = 0; !has && i < b->n; i++) has = arch_rule_makes(r, b->tensors[i].tensor.name);
        if (!has && rule_makes_norm(r))
            return hf_config_fail(
                b->config, e,
                "missing tensor %.*s (%s), a norm that such projectors have: download the whole model",
                (int)strcspn(r->to, "|"), r->to, r->from);
        if (!has && !hf_folder_warn(
                        b->list->folder, "", e,
                        "missing tensor %.*s (%s), which such projectors have: llama.cpp may refuse the GGUF",
                        (int)strcspn(r->to, "|"), r->to, r->from))
            return false;
    }
    return true;
}

/* ---- the whole ---- */

bool hf_projector_check(const hf_build *b, const arch_projector *row, const hf_metadata *p, gq_error *e) {
    const struct {
        const char *blocks, *count, *width, *feeds, *outputs, *part;
    } parts[] = {{"v.blk.", ".vision.block_count", ".vision.embedding_length", ".vision.feed_forward_length",
                  ".vision.projection_dim", row->vision},
                 {"a.blk.", ".audio.block_count", ".audio.embedding_length", ".audio.feed_forward_length",
                  ".audio.projection_dim", row->audio},
                 {"v.sam.blk.", ".vision.sam.block_count", ".vision.sam.embedding_length", NULL, NULL, NULL},
                 {"mm.a.local_blk.", ".audio.local_block_count", NULL, NULL, NULL, NULL}};
    if (!hf_projector_check_counts(b->config, row, e)) return false;
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
        uint32_t n = hf_metadata_number(p, parts[k].count), width = hf_metadata_number(p, parts[k].width);
        if (!outputs_check(b, hf_metadata_number(p, parts[k].outputs), e)) return false;
        if (row->counted && !strstr(row->counted, parts[k].blocks)) continue;
        if (n > HF_PROJECTOR_LAYERS)
            return hf_config_fail(b->config, e, "%u layers, expected at most %d", n, HF_PROJECTOR_LAYERS);
        if (!hf_projector_check_blocks(b, row, parts[k].blocks, n, e) ||
            (n && parts[k].width &&
             !widths_check(b, parts[k].blocks, widths, sizeof widths / sizeof *widths, "states", width, e)) ||
            !feeds_check(b, row, parts[k].blocks, parts[k].part, hf_metadata_number(p, parts[k].feeds), e))
            return false;
    }
    bool has_audio = hf_metadata_find(p, ".has_audio_encoder");
    uint32_t patch = hf_metadata_number(p, ".vision.patch_size");
    return patches_check(b, patch, e) && positions_check(b, patch, e) && registers_check(b, e) &&
           frequencies_check(b, row->audio, hf_metadata_number(p, ".audio.num_mel_bins"), e) &&
           ends_check(b, p, e) && hf_projector_check_shapes(b, row, p, e) && biases_check(b, e) &&
           hf_projector_check_layers(b, row, p, e) && rules_check(b, row, row->folder.rules, has_audio, e) &&
           rules_check(b, row, row->folder.more, has_audio, e);
}
