/* Stage 1, names: finds the rule of a source tensor. A name is cleaned of what differs between releases of one model,
 * and looked up in the rules of its architecture and then in those that all share (hf/tensors/rules.c). Saving a part
 * of a model leaves out how its names begin, saving a model as a part of another puts something in front: both are
 * undone where that makes a name that has a rule.
 */
#include "hf/tensors/tensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gguf/facts.h"

enum { NAME_BYTES = 512 };

/* Compares a name with a rule's, and reads the numbers. *rest: what follows in the name. */
static bool rule_match(const char *from, const char *name, hf_match *f, const char **rest) {
    for (; *from; from++) {
        if (*from != '#' && *from != '*') {
            if (*from != *name++) return false;
            continue;
        }
        uint64_t n = 0;
        const char *begin = name;
        for (; *name >= '0' && *name <= '9' && name < begin + 9; name++) n = 10 * n + (uint64_t)(*name - '0');
        if (name == begin) return false;
        *(*from == '#' ? &f->layer : &f->expert) = n;
    }
    *rest = name;
    return true;
}

/* Returns what a rule's name may lack, as a text of its own. NULL: something else follows. */
static const char *suffix_of(const char *rest, const char *const *suffixes) {
    for (; *suffixes; suffixes++)
        if (strcmp(rest, *suffixes) == 0) return *suffixes;
    return NULL;
}

/* Returns the suffix that a rule's tensor gets: none where the rule's own name has it. NULL: it has another one. */
static const char *suffix_to_add(const char *to, const char *suffix) {
    size_t n = strcspn(to, "|"), m = strlen(suffix), own = sizeof ".weight" - 1;
    if (n >= m && strncmp(to + n - m, suffix, m) == 0) return "";
    return n >= own && strncmp(to + n - own, ".weight", own) == 0 ? NULL : suffix;
}

/* Finds the rule of a name behind which one of the suffixes may stand. */
static bool rules_find(const arch_rule *rules, const char *const *suffixes, const char *name, hf_match *f) {
    for (; rules && rules->from; rules++) {
        const char *rest;
        if (!rule_match(rules->from, name, f, &rest) || !(f->suffix = suffix_of(rest, suffixes)) ||
            !(f->suffix = suffix_to_add(rules->to, f->suffix)))
            continue;
        f->rule = rules;
        return true;
    }
    return false;
}

/* Replaces every `from` in a name, or the one at its end or beginning. False: the name becomes too long. */
static bool name_replace(char *name, size_t size, const arch_rename *r) {
    size_t m = strlen(r->from), k = strlen(r->to);
    for (char *at = strstr(name, r->from); at; at = strstr(at, r->from)) {
        bool fits = r->where == ANYWHERE || (r->where == AT_END ? at[m] == 0 : at == name);
        if (!fits) {
            at += m;
            continue;
        }
        if (strlen(name) + k >= size + m) return false;
        memmove(at + k, at + m, strlen(at + m) + 1);
        memcpy(at, r->to, k);
        at += k;
        if (r->where != ANYWHERE) break;
    }
    return true;
}

bool hf_names_replace(char *name, size_t size, const arch_rename *list) {
    for (const arch_rename *r = list; r && r->from; r++)
        if (!name_replace(name, size, r)) return false;
    return true;
}

/* ---- one spelling of a name ---- */

/* Masks, and tables of the rotation, follow from the config: some models were saved with them. */
static bool name_is_buffer(const char *name) {
    return name_ends_with_one(
        name, NAMES(".attention.masked_bias", ".attention.bias", "inv_freq", ".cos_cached", ".sin_cached"));
}

static hf_name_result spelling_find(const hf_build *b, const char *spelled, hf_match *f) {
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%s", spelled);
    if (!hf_names_replace(name, sizeof name, b->arch->renames)) return HF_NAME_TOO_LONG;
    if (!hf_mtp_rename(b->config, name, sizeof name)) return HF_NAME_LEFT_OUT;
    if (name_is_buffer(name)) return HF_NAME_LEFT_OUT;
    static const char *const suffixes[] = {"", ".weight", ".bias", NULL};
    const arch_rule *mlx = b->config->row->folder.mlx & MLX_NO_NAMES ? NULL : hf_mlx_rules;
    const arch_rule *const lists[] = {b->config->class_row->rules, b->arch->rules, b->arch->more,
                                      hf_common_rules, mlx};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (rules_find(lists[i], suffixes, name, f)) return HF_NAME_FOUND;
    return HF_NAME_UNKNOWN;
}

static void respelled_add(hf_respelled *r, const char *name, const char *prefix) {
    if (r->n++ == 0) r->first = name, r->prefix = prefix;
}

/* Prefixes of the names of a whole model, which are missing if the trunk was saved alone. */
static hf_name_result completed_find(hf_build *b, const char *stored, const char *name, hf_match *f) {
    static const char *const prefixes[] = {"model.", "transformer.", "gpt_neox.", "backbone."};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        char whole[NAME_BYTES];
        if (name_behind(name, prefixes[i]) ||
            snprintf(whole, sizeof whole, "%s%s", prefixes[i], name) >= (int)sizeof whole)
            continue;
        hf_name_result result = spelling_find(b, whole, f);
        if (result == HF_NAME_UNKNOWN) continue;
        respelled_add(&b->completed, stored, prefixes[i]);
        return result;
    }
    return HF_NAME_UNKNOWN;
}

hf_name_result hf_names_find_rule(hf_build *b, const char *stored, hf_match *f) {
    char name[NAME_BYTES];
    if (snprintf(name, sizeof name, "%s", stored) >= (int)sizeof name) return HF_NAME_TOO_LONG;
    bool fits = hf_names_replace(name, sizeof name, hf_common_renames);
    if ((arch_names_match(hf_common_left_out, stored) && !arch_names_match(b->arch->kept, name)) ||
        arch_names_match(b->arch->left_out, name) || arch_names_match(b->config->class_row->left_out, name))
        return HF_NAME_LEFT_OUT;
    if (!fits) return HF_NAME_TOO_LONG;
    hf_name_result result = spelling_find(b, name, f);
    const char *behind = name_behind(name, "model.");
    if (result == HF_NAME_UNKNOWN && behind && (result = spelling_find(b, behind, f)) != HF_NAME_UNKNOWN)
        respelled_add(&b->shortened, stored, "model.");
    return result == HF_NAME_UNKNOWN ? completed_find(b, stored, name, f) : result;
}

/* ---- projectors ---- */

static hf_name_result projector_spelling_find(const arch_projector *row, const char *spelled, hf_match *f) {
    /* bounds of a tensor's inputs and outputs, beyond the usual ones */
    static const char *const suffixes[] = {"",           ".weight",     ".bias",       ".input_max",
                                           ".input_min", ".output_max", ".output_min", NULL};
    char name[NAME_BYTES];
    if (snprintf(name, sizeof name, "%s", spelled) >= (int)sizeof name ||
        !hf_names_replace(name, sizeof name, row->folder.renames))
        return HF_NAME_TOO_LONG;
    return rules_find(row->folder.rules, suffixes, name, f) || rules_find(row->folder.more, suffixes, name, f)
               ? HF_NAME_FOUND
               : HF_NAME_UNKNOWN;
}

hf_name_result hf_names_find_projector_rule(const arch_projector *row, const char *name, hf_match *f) {
    char longer[NAME_BYTES];
    const char *spelled[] = {name, name_behind(name, "model."), longer};
    bool taken = false;
    if (snprintf(longer, sizeof longer, "model.%s", name) >= (int)sizeof longer) return HF_NAME_TOO_LONG;
    for (size_t i = 0; i < sizeof spelled / sizeof *spelled; i++) {
        if (!spelled[i] || !arch_names_match(row->takes, spelled[i])) continue;
        if (projector_spelling_find(row, spelled[i], f) == HF_NAME_FOUND) return HF_NAME_FOUND;
        taken = true;
    }
    return taken ? HF_NAME_LEFT_OUT : HF_NAME_UNKNOWN;
}

/* ---- from a tensor back to its source ---- */

/* Writes a name with another layer's number in place of its own. False: it has none, or becomes too long. */
static bool name_renumber(const char *name, uint64_t from, uint64_t to, char *text, size_t size) {
    char number[32];
    int n = snprintf(number, sizeof number, ".%llu.", LLU(from));
    const char *at = strstr(name, number);
    return at && snprintf(text, size, "%.*s.%llu.%s", (int)(at - name), name, LLU(to), at + n) < (int)size;
}

static const char *tensor_names(const hf_tensor *t) {
    return t->origin.names && *t->origin.names ? t->origin.names : t->stored_name;
}

/* Writes a name with another end. False: it ends with something else, or becomes too long. */
static bool name_end_with(const char *name, const char *end, const char *other, char *to, size_t size) {
    size_t n = strlen(name);
    return name_ends(name, end) &&
           snprintf(to, size, "%.*s%s", (int)(n - strlen(end)), name, other) < (int)size;
}

static bool name_of_half(const hf_build *b, const char *name, char *to, size_t size) {
    static const char *const ends[] = {".weight", ".bias"};
    char other[GGUF_MAX_NAME + 8];
    for (int i = 0; i < 2; i++) {
        if (!name_end_with(name, ends[i], ends[1 - i], other, sizeof other)) continue;
        const hf_tensor *t = hf_build_find(b, other);
        const char *names = t ? tensor_names(t) : NULL;
        if (names && name_end_with(names, ends[1 - i], ends[i], to, size)) return true;
    }
    return false;
}

static bool name_of_sibling(const hf_build *b, const char *name, char *to, size_t size) {
    model_block block;
    char other[2 * GGUF_MAX_NAME];
    if (!model_block_in(name, &block)) return false;
    for (uint64_t i = 0; i < hf_config_blocks(b->config); i++) {
        snprintf(other, sizeof other, "%.*s%llu.%s", (int)(block.digits - name), name, LLU(i), block.rest);
        const hf_tensor *t = hf_build_find(b, other);
        const char *names = t ? tensor_names(t) : NULL;
        if (names && name_renumber(names, i, block.number, to, size)) return true;
    }
    return false;
}

/* Compares a name with one part of a rule's, up to '|'. *length: bytes of the name that fit. */
static bool pattern_match(const char *part, const char *name, size_t *length, uint64_t *layer) {
    enum { DIGITS = 9 };
    size_t at = 0;
    for (; *part && *part != '|'; part++) {
        size_t n = *part == '#' ? strspn(name + at, "0123456789") : name[at] == *part;
        if (n == 0 || n > DIGITS) return false;
        if (*part == '#') *layer = strtoull(name + at, NULL, 10);
        at += n;
    }
    *length = at;
    return true;
}

static bool name_of_rules(const arch_rule *rules, const char *name, char *to, size_t size) {
    for (; rules && rules->from; rules++)
        for (const char *part = rules->to; part; part = strchr(part, '|')) {
            uint64_t layer = 0;
            size_t length;
            if (*part == '|') part++;
            if (!pattern_match(part, name, &length, &layer)) continue;
            const char *rest = name + length;
            if (!*rest || !strcmp(rest, ".weight") || !strcmp(rest, ".bias"))
                return hf_pattern_write(rules->from, layer, UINT64_MAX, rest, to, size);
        }
    return false;
}

bool hf_names_find_source(const hf_build *b, const char *name, char *to, size_t size) {
    const hf_tensor *t = hf_build_find(b, name);
    const char *names = t ? tensor_names(t) : NULL;
    if (names) return snprintf(to, size, "%s", names) < (int)size;
    return name_of_half(b, name, to, size) || name_of_sibling(b, name, to, size) ||
           (b->arch &&
            (name_of_rules(b->config->class_row->rules, name, to, size) ||
             name_of_rules(b->arch->rules, name, to, size) || name_of_rules(b->arch->more, name, to, size) ||
             name_of_rules(hf_common_rules, name, to, size)));
}

/* ---- messages ---- */

bool hf_names_warn(const hf_build *b, gq_error *e) {
    const hf_respelled *more = &b->completed, *less = &b->shortened;
    /* The class of a trunk says by its own name that its source tensors begin so. */
    bool is_trunk = name_ends(b->config->class_name, "Model") || b->config->target;
    return (more->n == 0 || is_trunk ||
            hf_folder_warn(b->list->folder, "", e,
                           "%zu tensor name%s, such as '%s', %s the prefix '%s'; it is added", more->n,
                           plural_suffix(more->n), more->first, more->n == 1 ? "lacks" : "lack",
                           more->prefix)) &&
           (less->n == 0 || b->config->target ||
            hf_folder_warn(b->list->folder, "", e,
                           "%zu tensor name%s, such as '%s', %s an extra prefix '%s'; it is removed", less->n,
                           plural_suffix(less->n), less->first, less->n == 1 ? "has" : "have", less->prefix));
}

/* Writes a name as rules have it: its first number as '#', further ones as '*', without .weight or .bias. */
static bool name_as_pattern(const char *name, char *to, size_t size, const char *numbers[2]) {
    const char *suffix = name_ends(name, ".weight") ? ".weight" : name_ends(name, ".bias") ? ".bias" : "";
    size_t n = strlen(name) - strlen(suffix), seen = 0, k = 0;
    for (size_t i = 0; i < n && k + 1 < size; i++) {
        bool begins = name[i] >= '0' && name[i] <= '9' && (i == 0 || name[i - 1] == '.');
        if (begins) {
            if (seen < 2) numbers[seen] = name + i;
            to[k++] = seen++ ? '*' : '#';
            while (i + 1 < n && name[i + 1] >= '0' && name[i + 1] <= '9') i++;
        } else {
            to[k++] = name[i];
        }
    }
    to[k] = 0;
    return k + 1 < size;
}

/* Writes a rule's name with the numbers of a source tensor's. */
static void rule_spell(const char *from, const char *const numbers[2], char *to, size_t size) {
    size_t k = 0;
    for (; *from && k + 24 < size; from++) {
        const char *number = *from == '#' ? numbers[0] : *from == '*' ? numbers[1] : NULL;
        if (number)
            for (int i = 0; i < 9 && *number >= '0' && *number <= '9'; i++) to[k++] = *number++;
        else
            to[k++] = *from;
    }
    to[k] = 0;
}

/* Finds the rule whose name is most like a source tensor's. NULL: none is. */
static const char *rule_nearest(const hf_build *b, const char *pattern) {
    enum { FAR = 25 }; /* some twelve letters: names have 20 to 60 */
    const arch_rule *const lists[] = {b->config->class_row->rules, b->arch->rules, b->arch->more,
                                      hf_common_rules};
    const char *best = NULL;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        for (const arch_rule *r = lists[i]; r && r->from; r++) {
            const char *both[2] = {r->from, best};
            best = gq_nearest(pattern, both, best ? 2 : 1, FAR);
        }
    return best;
}

bool hf_names_fail(const hf_build *b, const hf_source *s, gq_error *e) {
    char pattern[NAME_BYTES], spelled[NAME_BYTES];
    const char *numbers[2] = {NULL, NULL}, *nearest = NULL;
    if (name_as_pattern(s->name, pattern, sizeof pattern, numbers) && (nearest = rule_nearest(b, pattern)))
        rule_spell(nearest, numbers, spelled, sizeof spelled);
    return hf_name_fail(s->list, s->stored, b->config->arch,
                        hf_config_text(b->config, "quantization_config.quant_method"),
                        nearest ? spelled : NULL, e);
}
