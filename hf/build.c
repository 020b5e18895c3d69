/* Goes through the arrays of a folder in order. A name is cleaned of what differs between releases of one
 * model, looked up in the rules of its architecture and then in those that all share, and the rule's step
 * makes the tensor, or a piece of one. In the end every tensor must be complete.
 */
#include "hf/build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "hf/coded.h"
#include "hf/kept.h"
#include "hf/names.h"
#include "hf/origin.h"
#include "hf/predicting.h"
#include "hf/rules_arch.h"

enum { EXPERTS_MOST = 65536 };

/* ---- names ---- */

/* Compares a name with a rule's, and reads the numbers. Returns what follows in the name; NULL: it does not
 * fit. */
static const char *rule_match(const char *from, const char *name, hf_found *f) {
    for (; *from; from++) {
        if (*from != '#' && *from != '*') {
            if (*from != *name++) return NULL;
            continue;
        }
        uint64_t n = 0;
        const char *begin = name;
        for (; *name >= '0' && *name <= '9' && name < begin + 9; name++) n = 10 * n + (uint64_t)(*name - '0');
        if (name == begin) return NULL;
        *(*from == '#' ? &f->layer : &f->expert) = n;
    }
    return name;
}

static bool rules_find(const hf_rule *rules, const char *name, hf_found *f) {
    for (; rules && rules->from; rules++) {
        const char *rest = rule_match(rules->from, name, f);
        if (!rest || (*rest && strcmp(rest, ".weight") != 0 && strcmp(rest, ".bias") != 0)) continue;
        f->rule = rules, f->suffix = rest;
        return true;
    }
    return false;
}

/* Whether an array is left out by a list. */
static bool list_leaves_out(const char *const *list, const char *name) {
    for (; list && *list; list++)
        if (**list == '^' ? name_behind(name, *list + 1) != NULL : strstr(name, *list) != NULL) return true;
    return false;
}

/* Replaces every `from` in a name, or the one at its end or beginning. False: the name becomes too long. */
static bool name_replace(char *name, size_t size, const hf_rename *r) {
    size_t m = strlen(r->from), k = strlen(r->to);
    for (char *at = strstr(name, r->from); at; at = strstr(at, r->from)) {
        bool fits = r->where == HF_ANYWHERE || (r->where == HF_AT_END ? at[m] == 0 : at == name);
        if (!fits) {
            at += m;
            continue;
        }
        if (strlen(name) + k >= size + m) return false;
        memmove(at + k, at + m, strlen(at + m) + 1);
        memcpy(at, r->to, k);
        at += k;
        if (r->where != HF_ANYWHERE) break;
    }
    return true;
}

static bool names_replace(char *name, size_t size, const hf_rename *list) {
    for (const hf_rename *r = list; r && r->from; r++)
        if (!name_replace(name, size, r)) return false;
    return true;
}

/* ---- all arrays ---- */

static bool build_layer_fits(const hf_build *b, const hf_found *f) {
    return !strchr(f->rule->from, '#') || f->layer < hf_config_blocks(b->config);
}

/* Models without a head for predictions leave out the beginning of their names. */
static void build_complete_name(const hf_build *b, char *name, size_t size) {
    static const char *const bare[] = {"LlamaModel", "Qwen2Model", "Qwen3Model"};
    size_t n = strlen(name);
    for (size_t i = 0; i < sizeof bare / sizeof *bare; i++)
        if (strcmp(b->config->class_name, bare[i]) == 0 && !name_behind(name, "model.") && n + 7 < size)
            memmove(name + 6, name, n + 1), memcpy(name, "model.", 6);
}

static bool build_add_one(hf_build *b, const hf_source *s, gq_error *e) {
    hf_found f = {.source = s};
    char name[512];
    if (snprintf(name, sizeof name, "%s", s->name) >= (int)sizeof name)
        return hf_list_fail(b->list, s->stored, e, "its name is too long");
    bool fits = names_replace(name, sizeof name, hf_common_renames);
    if (list_leaves_out(hf_common_left_out, s->name) || list_leaves_out(b->arch->left_out, name)) return true;
    if (!fits || !names_replace(name, sizeof name, b->arch->renames))
        return hf_list_fail(b->list, s->stored, e, "its name is too long");
    build_complete_name(b, name, sizeof name);
    if (!hf_predicting_rename(b->config, name, sizeof name)) return true;
    if (name_ends(name, ".attention.masked_bias") || name_ends(name, ".attention.bias") ||
        name_ends(name, ".rotary_emb.inv_freq"))
        return true;
    if (!rules_find(b->arch->rules, name, &f) && !rules_find(b->arch->more, name, &f) &&
        !rules_find(hf_common_rules, name, &f))
        return hf_found_fail(&f, e, "no rule of the architecture %s has this name", b->config->arch);
    if (!build_layer_fits(b, &f)) {
        if (b->arch->drops_extra_layers) return true;
        return hf_found_fail(&f, e, "layer %llu, but the config has %llu", (unsigned long long)f.layer,
                             (unsigned long long)hf_config_blocks(b->config));
    }
    return (f.rule->step ? f.rule->step : hf_step_plain)(b, &f, e);
}

/* Sets the types that tensors are delivered in: their source's own, if all their elements are only moved. */
static void tensor_set_type(const hf_build *b, hf_tensor *t) {
    const gguf_type *type = NULL;
    bool moved = true;
    for (size_t i = 0; i < t->n_pieces; i++) {
        const hf_piece *p = &t->pieces[i];
        const gguf_type *own = p->source ? hf_source_type(p->source) : NULL;
        if (p->numbers || p->n_ops || (own && type && own != type)) moved = false;
        if (own) type = own;
    }
    t->tensor.kept_type = gguf_type_of(GGUF_F32);
    t->tensor.stays = hf_stays_f32(b->config->arch, t->tensor.name, t->tensor.n_dims);
    if (type && moved && (!t->tensor.stays || type->id == GGUF_MXFP4)) t->tensor.type = type;
    if (t->tensor.type->quantized) t->tensor.kept_type = t->tensor.type;
}

static bool build_check_complete(const hf_build *b, gq_error *e) {
    for (size_t i = 0; i < b->n; i++) {
        hf_tensor *t = &b->tensors[i];
        for (size_t k = 0; t->n_pieces > 1 && k < t->n_pieces; k++)
            if (!t->pieces[k].source && !t->pieces[k].n)
                return hf_config_fail(b->config, e,
                                      "%s needs %zu arrays such as '%s', and number %zu is missing",
                                      t->tensor.name, t->n_pieces, t->stored_name, k);
        tensor_set_type(b, t);
        for (size_t k = 0; k < t->n_pieces; k++)
            if (t->pieces[k].source && t->pieces[k].source->coding == HF_MXFP4 &&
                t->tensor.type->id != GGUF_MXFP4)
                return hf_list_fail(b->list, t->pieces[k].source->stored, e,
                                    "MXFP4, but not all of %s is, as it is", t->tensor.name);
        if (!hf_tensor_join(t, e)) return gq_fail_again(e, e, "%s: %s", b->config->file, gq_error_text(e));
        if (!hf_origin_describe(t, e)) return false;
    }
    return true;
}

static bool build_check_layers(const hf_build *b, gq_error *e) {
    uint64_t blocks = hf_config_blocks(b->config);
    bool *has = calloc(blocks + 1, sizeof *has), ok = has || gq_fail_memory(e, blocks);
    for (size_t i = 0; ok && i < b->n; i++) {
        unsigned long long n;
        if (sscanf(b->tensors[i].tensor.name, "blk.%llu.", &n) == 1 && n < blocks) has[n] = true;
    }
    for (uint64_t i = 0; ok && i < blocks; i++)
        if (!has[i])
            ok = hf_config_fail(b->config, e, "no array belongs to layer %llu of %llu", (unsigned long long)i,
                                (unsigned long long)blocks);
    free(has);
    return ok;
}

static const hf_arch_rules *arch_rules_of(const hf_config *c) {
    static const hf_arch_rules *const lists[] = {hf_plain_archs, hf_mixed_archs};
    const char *arch = c->arch;
    /* A hybrid without recurrent layers is another architecture in GGUF, with the same arrays in the folder.
     */
    if (strcmp(c->class_name, "GraniteMoeHybridForCausalLM") == 0 ||
        strcmp(c->class_name, "BambaForCausalLM") == 0)
        arch = "granitehybrid";
    for (int i = 0; i < 2; i++)
        for (const hf_arch_rules *r = lists[i]; r->arch; r++)
            if (strcmp(r->arch, arch) == 0) return r;
    return NULL;
}

bool hf_build_tensors(hf_build *b, const hf_config *c, const hf_list *l, uint64_t n_tokens, gq_error *e) {
    uint32_t experts = 0;
    *b = (hf_build){.config = c, .list = l, .n_tokens = n_tokens, .arch = arch_rules_of(c)};
    if (!b->arch) return hf_config_fail(c, e, "no rules for the architecture %s", c->arch);
    if (!hf_config_sizes(c, &b->sizes, e) ||
        !hf_config_u32_or(c,
                          b->arch->expert_count ? b->arch->expert_count
                                                : "num_local_experts|num_experts|n_routed_experts",
                          0, &experts, e))
        return false;
    if (experts > EXPERTS_MOST)
        return hf_config_fail(c, e, "%u experts, expected at most %d", experts, EXPERTS_MOST);
    b->n_experts = experts;
    if (!hf_sources_find(c, l, &b->sources, &b->n_sources, e)) return false;
    for (size_t i = 0; i < b->n_sources; i++)
        if (!build_add_one(b, &b->sources[i], e)) return false;
    if (b->arch->finish && !b->arch->finish(b, e)) return false;
    if (!hf_build_find(b, "token_embd.weight"))
        return hf_config_fail(c, e, "no array is the embedding of tokens (model.embed_tokens.weight)");
    return build_check_complete(b, e) && build_check_layers(b, e);
}
