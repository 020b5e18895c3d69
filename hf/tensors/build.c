/* Converts the source tensors of a folder to those of a GGUF, in five stages, each in the file of its name:
 *
 * 1. names.c   the name of a source tensor is cleaned of what differs between releases of one model
 * 2. rules.c   its rule is looked up: the architecture's (arch/), then those that all share
 * 3. ops.c     the rule's op makes a tensor of it, or a piece of one; computed.c adds tensors that have no source
 * 4. checks.c  every tensor must be complete, of the shape that the config says, and none may be missing
 * 5. tensor.c  a delivered tensor is read through its pieces
 *
 * builder.c has the tensors meanwhile, mlx.c what MLX changes before. Here is the loop over source tensors.
 */
#include "hf/tensors/tensors.h"

#include <stdlib.h>
#include <string.h>

enum { EXPERTS_MOST = 65536 };

bool hf_build_op(hf_build *b, const hf_match *f, gq_error *e) {
#define FUNCTION(member, function, makes) [member] = hf_op_##function,
    static hf_op *const ops[ARCH_OP_LIMIT] = {ARCH_OPS(FUNCTION)};
#undef FUNCTION
    return ops[f->rule->op](b, f, e);
}

static bool build_layer_fits(const hf_build *b, const hf_match *f) {
    return !strchr(f->rule->from, '#') || f->layer < hf_config_blocks(b->config);
}

/* Whether one matrix is both embedding and output: the config says so, or the class of models does where it
 * does not. */
static bool build_is_tied(const hf_build *b, bool *tied, gq_error *e) {
    bool by_class = b->config->row->folder.is_tied_by_class;
    if (!hf_config_bool_or(b->config, "tie_word_embeddings|tie_embedding", by_class, tied, e)) return false;
    /* Models that also see say it of the whole, whatever their text part says. */
    *tied |= json_is_true(json_object_get(b->config->stored, "tie_word_embeddings"));
    return true;
}

/* Returns the rule by which an architecture's embedding is read; NULL: it has arithmetic of its own. */
static const arch_rule *build_embedding_rule(const hf_build *b) {
    const arch_rule *const lists[] = {b->arch->rules, b->arch->more, hf_common_rules};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        for (const arch_rule *r = lists[i]; r && r->from; r++)
            if (strcmp(r->to, "token_embd") == 0) return r->op == OP_SCALE_FALCON_H1 ? NULL : r;
    return NULL;
}

/* Adds the output's matrix; as the embedding, where both are one and it was saved under this name alone. */
static bool build_add_head(hf_build *b, gq_error *e) {
    hf_match f = b->head;
    bool tied = false;
    if (!f.source) return true;
    if (!hf_build_find(b, "token_embd.weight") && !b->config->target) {
        const arch_rule *rule = build_embedding_rule(b);
        if (!build_is_tied(b, &tied, e)) return false;
        if (tied && rule) {
            f.rule = rule;
            if (!hf_folder_warn(b->list->folder, "", e,
                                "missing token embedding, which is tied to the output head: '%s' is used",
                                f.source->name))
                return false;
        }
    }
    return hf_build_op(b, &f, e);
}

static bool found_is_head(const hf_match *f) {
    return strcmp(f->suffix, ".weight") == 0 &&
           (strcmp(f->rule->from, "lm_head") == 0 || strcmp(f->rule->to, "output") == 0);
}

/* Some programs save experts that are in one source tensor with rows and columns exchanged. The side that has the
 * model's width shows, unless both have it: then they are taken as published. */
static void build_transpose_experts(hf_build *b, hf_match *f) {
    const hf_source *s = f->source;
    const uint64_t *n = s->shape;
    arch_op op = f->rule->op;
    if (b->is_transposed || s->n_dims != 3 || s->coding != &hf_plain || !strstr(f->rule->to, "_exps")) return;
    bool rule_transposes = op == OP_TRANSPOSE || op == OP_TRANSPOSE_SPLIT_HALVES || op == OP_SPLIT_EVEN_ODD ||
                           op == OP_TRANSPOSE_DOWN_EXPERTS;
    if (!rule_transposes && op != OP_COPY && op != OP_SPLIT_HALVES) return;
    unsigned at = rule_transposes != (strstr(f->rule->to, "ffn_down") != NULL) ? 1 : 2, other = 3 - at;
    f->is_transposed = n[at] != b->sizes.width && n[other] == b->sizes.width;
    if (f->is_transposed) b->transposed = s;
    if (n[at] == n[other]) b->square = s;
}

/* Source tensors of MTP layers are numbered on from the layers, and only their count in the config makes room for
 * them. */
static bool build_fail_layer(const hf_build *b, const hf_match *f, gq_error *e) {
    const hf_config *c = b->config;
    const char *key = c->row->folder.mtp.key;
    bool predicts = key && f->layer >= c->layers && f->layer < c->layers + 64;
    return hf_match_fail(f, e, "layer %llu, counted from 0, but the config has %llu layer%s%s%s%s: %s",
                         LLU(f->layer), LLU(hf_config_blocks(c)), plural_suffix(hf_config_blocks(c)),
                         predicts ? " including those of " : "", predicts ? key : "",
                         predicts ? ", the MTP layers" : "",
                         predicts ? "set that key to their number, or remove their tensors"
                                  : "correct num_hidden_layers, or remove the tensors of other layers");
}

static bool build_add_one(hf_build *b, const hf_source *s, gq_error *e) {
    hf_match f = {.source = s};
    switch (hf_names_find_rule(b, s->name, &f)) {
    case HF_NAME_LEFT_OUT:
        return true;
    case HF_NAME_TOO_LONG:
        return hf_list_fail(s->list, s->stored, e, "its name is too long");
    case HF_NAME_UNKNOWN:
        return hf_names_fail(b, s, e);
    case HF_NAME_FOUND:
        break;
    }
    if (!build_layer_fits(b, &f)) {
        if (b->arch->drops_extra_layers) return true;
        return build_fail_layer(b, &f, e);
    }
    if (found_is_head(&f) && !b->head.source) return b->head = f, true;
    build_transpose_experts(b, &f);
    return hf_build_op(b, &f, e);
}

static bool tensor_check_blocks(const hf_tensor *t, gq_error *e) {
    for (size_t k = 0; k < t->n_pieces && t->tensor.type->id != GGUF_MXFP4; k++)
        if (t->pieces[k].source && t->pieces[k].source->coding == &hf_mxfp4)
            return hf_list_fail(t->pieces[k].source->list, t->pieces[k].source->stored, e,
                                "MXFP4, but other parts of %s are not", t->tensor.name);
    return true;
}

/* Ends of the names of tensors that stay F32. */
static const char *const *const ends_f32 =
    NAMES("_norm.weight", "ffn_gate_inp.weight", "ffn_gate_inp_shexp.weight", "position_embd.weight",
          "token_types.weight", "ssm_conv1d.weight", "ssm_conv1d_q.weight", "ssm_conv1d_k.weight",
          "ssm_conv1d_v.weight", "shortconv.conv.weight", "altup_correct_coef.weight",
          "altup_predict_coef.weight", "indexer.proj.weight", "_compressor_ape.weight",
          "time_mix_first.weight", "time_mix_w1.weight", "time_mix_w2.weight", "time_mix_decay_w1.weight",
          "time_mix_decay_w2.weight", "time_mix_lerp_fused.weight");

/* Whether a tensor stays F32, whatever type was asked for: llama.cpp's converter keeps such ones. stays: what else has
 * this in its name; NULL: nothing. */
static bool stays_f32(const char *stays, const char *name, uint32_t n_dims) {
    if (n_dims < 2 || !name_ends(name, ".weight")) return true;
    for (size_t n; stays && *stays; stays += n + (stays[n] == '|')) {
        n = strcspn(stays, "|");
        if (memmem(name, strlen(name), stays, n)) return true;
    }
    return name_ends_with_one(name, ends_f32);
}

/* Sets the type that a tensor is delivered in: its source's own, if all its elements are only moved. */
static bool tensor_set_type(const hf_build *b, const void *unused, hf_tensor *t, gq_error *e) {
    const tensor_type *type = hf_tensor_moved_type(t);
    (void)unused;
    t->tensor.kept_type = tensor_type_of(GGUF_F32);
    const arch_folder *own_row = &b->config->row->folder;
    t->tensor.stays = stays_f32(own_row->stays, t->tensor.name, t->tensor.n_dims) &&
                      !(own_row->follows && strstr(t->tensor.name, own_row->follows));
    if (t->pieces[0].ids) t->tensor.stays = true, t->tensor.kept_type = t->tensor.type;
    if (type && (!t->tensor.stays || type->id == GGUF_MXFP4)) t->tensor.type = type;
    if (t->tensor.type->quantized) t->tensor.kept_type = t->tensor.type;
    return tensor_check_blocks(t, e);
}

static bool build_begin(hf_build *b, const hf_config *c, const hf_list *l, uint64_t n_tokens, gq_error *e) {
    uint32_t experts = 0;
    *b = (hf_build){.config = c, .list = l, .n_tokens = n_tokens, .arch = c->like};
    if (!hf_config_sizes(c, &b->sizes, e) ||
        !hf_config_u32_or(c,
                          b->arch->expert_count ? b->arch->expert_count
                                                : "num_local_experts|num_experts|n_routed_experts",
                          0, &experts, e))
        return false;
    if (experts > EXPERTS_MOST)
        return hf_config_fail(c, e, "%u experts, expected at most %d", experts, EXPERTS_MOST);
    b->n_experts = experts;
    return true;
}

bool hf_build_arrays(hf_build *b, const hf_config *c, const hf_list *l, hf_source *sources, size_t n,
                     gq_error *e) {
    bool ok = build_begin(b, c, l, UINT64_MAX, e);
    b->sources = sources, b->n_sources = n;
    for (size_t i = 0; ok && i < n; i++) ok = build_add_one(b, &sources[i], e);
    return ok && build_add_head(b, e);
}

bool hf_build_changed_tensors(hf_build *b, const hf_config *c, const hf_list *l, uint64_t n_tokens,
                              hf_build_change *change, const void *user, gq_error *e) {
    if (!build_begin(b, c, l, n_tokens, e)) return false;
    if (!hf_sources_find(c, l, &b->sources, &b->n_sources, e) || !hf_mlx_find(b, e) ||
        (change && !change(user, b, e)))
        return false;
    for (size_t i = 0; i < b->n_sources; i++)
        if (!build_add_one(b, &b->sources[i], e)) return false;
    if (!build_add_head(b, e) || !hf_names_warn(b, e)) return false;
    if (!hf_build_finish(b, e)) return false;
    if (!hf_build_find(b, "token_embd.weight") && !c->target)
        return hf_config_fail(c, e, "missing token embedding (model.embed_tokens.weight)");
    return hf_build_complete(b, tensor_set_type, NULL, e) && hf_build_check(b, e);
}

bool hf_build_tensors(hf_build *b, const hf_config *c, const hf_list *l, uint64_t n_tokens, gq_error *e) {
    return hf_build_changed_tensors(b, c, l, n_tokens, NULL, NULL, e);
}
