/* Goes through the arrays of a folder in order. A name is cleaned of what differs between releases of one
 * model, looked up in the rules of its architecture and then in those that all share, and the rule's step
 * makes the tensor, or a piece of one. In the end every tensor must be complete.
 */
#include "hf/build.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/memory.h"
#include "hf/coded.h"
#include "hf/kept.h"
#include "hf/predicting.h"
#include "hf/steps.h"

enum { EXPERTS_MOST = 65536 };

bool hf_found_fail(const hf_found *f, gq_error *e, const char *format, ...) {
    char text[900];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return hf_list_fail(f->source->list, f->source->stored, e, "%s", text);
}

/* ---- tensors ---- */

/* Writes part `which` of a rule's name with its layer's number and suffix. */
static bool found_write_name(const hf_found *f, unsigned which, char *to, size_t size) {
    const char *from = f->rule->to, *end;
    size_t n = 0;
    for (; which > 0; which--) from = strchr(from, '|') + 1;
    end = strchrnul(from, '|');
    for (; from < end && n + 24 < size; from++)
        if (*from == '#')
            n += (size_t)snprintf(to + n, size - n, "%llu", (unsigned long long)f->layer);
        else
            to[n++] = *from;
    return from == end && n + (size_t)snprintf(to + n, size - n, "%s", f->suffix) < size;
}

static hf_tensor *build_find(hf_build *b, const char *name) {
    uint64_t i;
    return gguf_index_find(&b->by_name, b->tensors, sizeof *b->tensors, name, &i) ? &b->tensors[i] : NULL;
}

static hf_tensor *build_new(hf_build *b, const char *name, size_t n_pieces, uint32_t n_dims,
                            const uint64_t *ne, gq_error *e) {
    if (!memory_grow(&b->tensors, &b->capacity, b->n + 1, sizeof *b->tensors, e)) return NULL;
    hf_tensor *t = &b->tensors[b->n];
    *t = (hf_tensor){.tensor = {.name = strdup(name), .n_dims = 1, .ne = {1, 1, 1, 1}},
                     .pieces = calloc(n_pieces, sizeof *t->pieces),
                     .n_pieces = n_pieces};
    if (!t->tensor.name || !t->pieces) {
        free((char *)t->tensor.name), free(t->pieces);
        gq_fail_memory(e, n_pieces * sizeof *t->pieces);
        return NULL;
    }
    for (uint32_t i = 0; i < n_dims; i++) {
        t->tensor.ne[i] = ne[i];
        if (ne[i] != 1) t->tensor.n_dims = i + 1;
    }
    t->tensor.type = gguf_type_of(GGUF_F32);
    return gguf_index_add(&b->by_name, b->tensors, sizeof *b->tensors, b->n++, e) ? t : NULL;
}

static bool ne_fits(const uint64_t have[GGUF_MAX_DIMS], uint32_t n_dims, const uint64_t *ne) {
    for (uint32_t i = 0; i < GGUF_MAX_DIMS; i++)
        if (have[i] != (i < n_dims ? ne[i] : 1)) return false;
    return true;
}

hf_tensor *hf_build_tensor(hf_build *b, const hf_found *f, unsigned which, size_t n_pieces, uint32_t n_dims,
                           const uint64_t *ne, gq_error *e) {
    char name[GGUF_MAX_NAME + 1];
    if (!found_write_name(f, which, name, sizeof name)) {
        hf_found_fail(f, e, "its name in GGUF is longer than %d bytes", GGUF_MAX_NAME);
        return NULL;
    }
    if (n_dims > GGUF_MAX_DIMS) {
        hf_found_fail(f, e, "%u dimensions, expected at most %d", n_dims, GGUF_MAX_DIMS);
        return NULL;
    }
    for (uint32_t i = 0; i < n_dims; i++)
        if (ne[i] == 0) {
            hf_found_fail(f, e, "it has no elements");
            return NULL;
        }
    hf_tensor *t = build_find(b, name);
    if (!t) return build_new(b, name, n_pieces, n_dims, ne, e);
    if (n_pieces == t->n_pieces && n_pieces > 1 && ne_fits(t->tensor.ne, n_dims, ne)) return t;
    hf_found_fail(f, e,
                  n_pieces == 1 ? "'%s' has become %s already" : "its shape is not that of '%s', both of %s",
                  t->stored_name ? t->stored_name : "a number of the config", name);
    return NULL;
}

hf_piece *hf_build_piece(const hf_found *f, hf_tensor *t, size_t i, const hf_view *v, gq_error *e) {
    hf_piece *p = &t->pieces[i];
    if (p->source) {
        hf_found_fail(f, e, "'%s' has become the same part of %s", p->source->name, t->tensor.name);
        return NULL;
    }
    *p = (hf_piece){.source = f->source, .view = *v};
    if (!t->stored_name) t->stored_name = f->source->name;
    return p;
}

hf_piece *hf_build_shaped(hf_build *b, const hf_found *f, unsigned which, const hf_view *v, uint32_t n_dims,
                          const uint64_t *ne, gq_error *e) {
    hf_tensor *t = hf_build_tensor(b, f, which, 1, n_dims, ne, e);
    return t ? hf_build_piece(f, t, 0, v, e) : NULL;
}

hf_piece *hf_build_view(hf_build *b, const hf_found *f, unsigned which, const hf_view *v, gq_error *e) {
    uint64_t ne[VIEW_DIMS] = {1};
    for (uint32_t i = 0; i < v->n_dims; i++) ne[i] = v->count[v->n_dims - 1 - i];
    if (f->source->coding == HF_MXFP4) ne[0] *= gguf_type_of(GGUF_MXFP4)->block_elements;
    return hf_build_shaped(b, f, which, v, v->n_dims ? v->n_dims : 1, ne, e);
}

bool hf_build_numbers(hf_build *b, const char *name, float *numbers, uint64_t n, gq_error *e) {
    hf_tensor *t = numbers ? build_new(b, name, 1, 1, &n, e) : NULL;
    if (t)
        t->pieces[0] = (hf_piece){.numbers = numbers, .n = n};
    else
        free(numbers);
    return t != NULL;
}

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
        if (**list == '^' ? strncmp(name, *list + 1, strlen(*list + 1)) == 0 : strstr(name, *list) != NULL)
            return true;
    return false;
}

static bool name_ends(const char *name, const char *end) {
    size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

/* Replaces every `from` in a name, or the one at its end or beginning. False: the name becomes too long. */
static bool name_replace(char *name, size_t size, const hf_rename *r) {
    size_t m = strlen(r->from), k = strlen(r->to);
    for (char *at = name; (at = strstr(at, r->from)); at += k) {
        if ((r->where == HF_AT_END && at[m] != 0) || (r->where == HF_AT_BEGIN && at != name)) {
            at += m - k;
            continue;
        }
        if (strlen(name) + k - m >= size) return false;
        memmove(at + k, at + m, strlen(at + m) + 1);
        memcpy(at, r->to, k);
        if (r->where != HF_ANYWHERE) break;
    }
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
        if (strcmp(b->config->class_name, bare[i]) == 0 && strncmp(name, "model.", 6) != 0 && n + 7 < size)
            memmove(name + 6, name, n + 1), memcpy(name, "model.", 6);
}

static bool build_add_one(hf_build *b, const hf_source *s, gq_error *e) {
    hf_found f = {.source = s};
    char name[512];
    if (snprintf(name, sizeof name, "%s", s->name) >= (int)sizeof name)
        return hf_list_fail(b->list, s->stored, e, "its name is too long");
    for (const hf_rename *r = hf_common_renames; r->from; r++) name_replace(name, sizeof name, r);
    if (list_leaves_out(hf_common_left_out, s->name) || list_leaves_out(b->arch->left_out, name)) return true;
    for (const hf_rename *r = b->arch->renames; r && r->from; r++) name_replace(name, sizeof name, r);
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
        if (!hf_tensor_join(t, e)) return gq_fail_again(e, e, "%s: %s", b->config->file, gq_error_text(e));
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

const hf_source *hf_build_source(const hf_build *b, const char *name) {
    for (size_t i = 0; i < b->n_sources; i++)
        if (name_ends(b->sources[i].name, name)) return &b->sources[i];
    return NULL;
}

bool hf_build_tensors(hf_build *b, const hf_config *c, const hf_list *l, uint64_t n_tokens, gq_error *e) {
    uint32_t experts = 0;
    *b = (hf_build){.config = c, .list = l, .n_tokens = n_tokens, .arch = hf_arch_rules_of(c)};
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
    if (!build_find(b, "token_embd.weight"))
        return hf_config_fail(c, e, "no array is the embedding of tokens (model.embed_tokens.weight)");
    return build_check_complete(b, e) && build_check_layers(b, e);
}

void hf_build_free(hf_build *b) {
    for (size_t i = 0; i < b->n; i++) {
        hf_tensor *t = &b->tensors[i];
        for (size_t k = 0; k < t->n_pieces; k++) free((float *)t->pieces[k].numbers);
        free(t->pieces), free((char *)t->tensor.name);
    }
    hf_sources_free(b->sources, b->n_sources);
    free(b->tensors);
    gguf_index_free(&b->by_name);
    *b = (hf_build){.config = NULL};
}
