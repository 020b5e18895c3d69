/* Finds a model's tensors by an adapter's names: as they are, or else by the rule and the numbers of the name,
 * which all spellings of one tensor share.
 */
#include "hf/adapter/adapter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* Names are looked up in a copy of the build: that of an adapter counts as no name of the folder's. */
static hf_name_result rule_find(const hf_build *b, const char *name, hf_match *f) {
    hf_build copy = {.config = b->config, .arch = b->arch, .list = b->list};
    *f = (hf_match){.source = NULL};
    return b->projector ? hf_names_find_projector_rule(b->projector, name, f)
                        : hf_names_find_rule(&copy, name, f);
}

static bool name_write(const char *module, const char *suffix, char *to, size_t size) {
    return snprintf(to, size, "%s%s", module, suffix) < (int)size;
}

bool hf_module_is(const hf_build *b, const char *module, const char *suffix, const char *tensor) {
    char name[HF_MODULE_BYTES];
    hf_match f;
    return name_write(module, suffix, name, sizeof name) && rule_find(b, name, &f) == HF_NAME_FOUND &&
           strcmp(f.rule->to, tensor) == 0 && strcmp(f.suffix, ".bias") != 0;
}

void hf_module_name(const char *name, char *to, size_t size) {
    static const char nested[] = ".base_layer";
    size_t n = strlen(name), m = sizeof nested - 1;
    while (n > m && strncmp(name + n - m, nested, m) == 0) n -= m;
    snprintf(to, size, "%.*s", (int)n, name);
}

/* ---- the table ---- */

static int rule_compare(const void *a, const void *b) {
    const hf_module_rule *x = a, *y = b;
    int by_name = strcmp(x->to, y->to);
    if (by_name == 0) by_name = strcmp(x->suffix, y->suffix);
    if (by_name != 0) return by_name;
    if (x->layer != y->layer) return x->layer < y->layer ? -1 : 1;
    return x->expert == y->expert ? 0 : x->expert < y->expert ? -1 : 1;
}

bool hf_modules_begin(hf_modules *t, gq_error *e) {
    hf_build *b = t->build;
    t->by_rule = calloc(b->n_sources + 1, sizeof *t->by_rule);
    if (!t->by_rule) return gq_fail_memory(e, b->n_sources * sizeof *t->by_rule);
    for (size_t i = 0; i < b->n_sources; i++) {
        hf_match f;
        if (rule_find(b, b->sources[i].name, &f) == HF_NAME_FOUND)
            t->by_rule[t->n_rules++] = (hf_module_rule){f.rule->to, f.suffix, f.layer, f.expert, i};
    }
    qsort(t->by_rule, t->n_rules, sizeof *t->by_rule, rule_compare);
    return name_index_all(&t->by_name, b->sources, sizeof *b->sources, b->n_sources, e);
}

void hf_modules_free(hf_modules *t) {
    name_index_free(&t->by_name);
    free(t->by_rule);
}

/* ---- finding ---- */

/* Several tensors may have one rule and the same numbers, as parts of one tensor: then the rule does not say which.
 */
static hf_source *find_by_rule(const hf_modules *t, const hf_match *f) {
    hf_module_rule key = {f->rule->to, f->suffix, f->layer, f->expert, 0};
    const hf_module_rule *r =
        t->n_rules ? bsearch(&key, t->by_rule, t->n_rules, sizeof *r, rule_compare) : NULL;
    if (!r || (r > t->by_rule && rule_compare(r - 1, r) == 0) ||
        (r + 1 < t->by_rule + t->n_rules && rule_compare(r + 1, r) == 0))
        return NULL;
    return &t->build->sources[r->source];
}

/* Finds a source by its name; a projector's also where "model." in front is too much or missing. */
static hf_source *find_by_name(const hf_modules *t, const char *name) {
    char longer[HF_MODULE_BYTES + 8];
    const char *spelled[] = {name, name_behind(name, "model."), longer};
    uint64_t i;
    snprintf(longer, sizeof longer, "model.%s", name);
    for (size_t k = 0; k < (t->build->projector ? 3 : 1); k++)
        if (spelled[k] &&
            name_index_find(&t->by_name, t->build->sources, sizeof *t->build->sources, spelled[k], &i))
            return &t->build->sources[i];
    return NULL;
}

hf_source *hf_module_find(const hf_modules *t, const char *module, const char *suffix) {
    char name[HF_MODULE_BYTES];
    hf_match f;
    if (!name_write(module, suffix, name, sizeof name)) return NULL;
    hf_name_result result = rule_find(t->build, name, &f);
    if (result == HF_NAME_LEFT_OUT) return NULL;
    hf_source *s = find_by_name(t, name);
    return !s && result == HF_NAME_FOUND ? find_by_rule(t, &f) : s;
}

bool hf_module_is_elsewhere(hf_modules *t, const hf_adapted *m, const char *suffix) {
    char name[HF_MODULE_BYTES];
    hf_match f;
    if (!name_write(m->module, suffix, name, sizeof name)) return false;
    hf_name_result result = rule_find(t->build, name, &f);
    if (t->build
            ->projector) { /* tensors that no projector takes are the text model's, which knows them or not */
        if (result == HF_NAME_UNKNOWN && !arch_names_match(hf_common_left_out, name)) return true;
        if (!m->is_of_folder) return false;
    } else if (result != HF_NAME_LEFT_OUT) {
        return false;
    }
    if (t->n_left_out++ == 0) t->left_out = m->module;
    return true;
}

bool hf_module_has_change(const hf_modules *t, const hf_source *s) {
    if (s->list == &t->adapter->list) return true;
    for (size_t i = 0; i < s->deltas.n; i++)
        if (s->deltas.items[i].list == &t->adapter->list) return true;
    return false;
}

hf_source *hf_module_add(hf_modules *t, const char *module, const char *suffix, gq_error *e) {
    hf_build *b = t->build;
    char name[HF_MODULE_BYTES];
    hf_match f;
    size_t capacity = b->n_sources;
    *e = (gq_error){.status = GQ_OK};
    if (!name_write(module, suffix, name, sizeof name) || rule_find(b, name, &f) != HF_NAME_FOUND)
        return NULL;
    char *copy = strdup(name);
    if (!copy || !memory_grow(&b->sources, &capacity, b->n_sources + 1, sizeof *b->sources, e))
        return free(copy), gq_fail_memory(e, strlen(name)), NULL;
    b->sources[b->n_sources++] = (hf_source){.name = copy, .coding = &hf_plain};
    if (!name_index_add(&t->by_name, b->sources, sizeof *b->sources, b->n_sources - 1, e)) return NULL;
    return &b->sources[b->n_sources - 1];
}

bool hf_module_copy_embedding(hf_modules *t, const char *module, gq_error *e) {
    const hf_build *b = t->build;
    const hf_module_rule *r = t->by_rule;
    size_t i = 0;
    while (i < t->n_rules && (strcmp(r[i].to, "token_embd") != 0 || strcmp(r[i].suffix, ".weight") != 0)) i++;
    if (i == t->n_rules) return true;
    hf_source copy = b->sources[r[i].source], *head = hf_module_add(t, module, ".weight", e);
    if (!head) return false;
    copy.name = head->name;
    *head = copy;
    return true;
}

void hf_module_replace(hf_source *s, const hf_list *l, const hf_stored *by) {
    hf_source to = {.name = s->name,
                    .list = l,
                    .stored = by,
                    .coding = &hf_plain,
                    .n_dims = by->n_dims,
                    .rows = 1,
                    .matrix_rows = 1,
                    .is_adapters = true};
    for (uint32_t i = 0; i < by->n_dims; i++) to.shape[i] = by->shape[i];
    for (uint32_t i = 0; i + 1 < by->n_dims; i++) to.rows *= by->shape[i], to.matrix_rows = by->shape[i];
    to.columns = by->shape[by->n_dims - 1];
    *s = to;
}

bool hf_module_is_transposed(const hf_modules *t, const hf_source *s) {
    hf_match f;
    if (rule_find(t->build, s->name, &f) != HF_NAME_FOUND) return false;
    arch_op op = f.rule->op;
    return op == OP_TRANSPOSE || op == OP_TRANSPOSE_SPLIT_HALVES || op == OP_SPLIT_EVEN_ODD ||
           op == OP_TRANSPOSE_DOWN_EXPERTS || op == OP_RESHAPE_TRANSPOSE_EXPERTS;
}

/* ---- experts one by one ---- */

const hf_expert_matrices hf_expert_matrix_rows[] = {
    {"gate_up_proj", {{"gate_proj", "up_proj"}, {"w1", "w3"}}, 2},
    {"down_proj", {{"down_proj", NULL}, {"w2", NULL}}, 1},
    {.parameter = NULL},
};

bool hf_module_is_expert_of(const char *name, const char *head, const char *parameter) {
    size_t n = strlen(head);
    for (const char *at = strstr(name, head); at; at = strstr(at + 1, head)) {
        size_t digits = at[n] == '.' ? strspn(at + n + 1, "0123456789") : 0;
        const char *part = at + n + digits + 2;
        if (digits == 0 || (at > name && at[-1] != '.') || part[-1] != '.') continue;
        for (const hf_expert_matrices *r = hf_expert_matrix_rows; r->parameter; r++)
            for (unsigned k = 0; strcmp(r->parameter, parameter) == 0 && k < 2 * r->n; k++) {
                const char *behind = name_behind(part, r->parts[k / r->n][k % r->n]);
                if (behind && strcmp(behind, ".weight") == 0) return true;
            }
    }
    return false;
}

/* ---- rows of single tokens ---- */

/* The numbers of tokens that the config has for a module: of all, or in an object by the module's name. */
static const json_t *config_tokens(const hf_adapter *a, const char *module) {
    json_t *v = json_object_get(a->config, "trainable_token_indices"), *list;
    const char *name;
    if (json_is_array(v)) return v;
    json_object_foreach(v, name, list) {
        if (hf_module_ends(module, name)) return list;
    }
    return NULL;
}

static int row_compare(const void *a, const void *b) {
    const hf_own_row *x = a, *y = b;
    return x->row == y->row ? 0 : x->row < y->row ? -1 : 1;
}

/* Whether an earlier adapter has changed a row of these. */
static bool rows_are_changed(const hf_source *s, const hf_delta *d) {
    bool changed = s->is_adapters && s->list != d->list;
    for (const hf_delta *old = s->deltas.items; !changed && old < s->deltas.items + s->deltas.n; old++) {
        changed = old->list != d->list && !old->own_rows;
        for (size_t i = 0; old->list != d->list && !changed && i < old->n_own_rows; i++)
            changed =
                bsearch(&old->own_rows[i], d->own_rows, d->n_own_rows, sizeof *d->own_rows, row_compare);
    }
    return changed;
}

bool hf_module_replace_rows(hf_modules *t, const hf_adapted *m, gq_error *e) {
    const hf_list *l = &t->adapter->list;
    const json_t *tokens = config_tokens(t->adapter, m->module);
    hf_source *s = hf_module_find(t, m->module, ".weight");
    size_t n = json_array_size(tokens);
    if (!s || s->n_dims != 2 || s->coding != &hf_plain || m->rows->n_dims != 2 || m->rows->shape[0] != n ||
        m->rows->shape[1] != s->columns)
        return hf_list_fail(
            l, m->rows, e,
            "rows of %zu tokens, by trainable_token_indices, do not fit the model's tensor of '%s'", n,
            m->module);
    hf_delta d = {.list = l, .columns = {.stored = m->rows}, .own_rows = calloc(n + 1, sizeof *d.own_rows)};
    bool ok = (d.own_rows || gq_fail_memory(e, n * sizeof *d.own_rows)) &&
              memory_grow(&s->deltas.items, &s->deltas.capacity, s->deltas.n + 1, sizeof *s->deltas.items, e);
    for (size_t i = 0; ok && i < n; i++) {
        json_int_t id = json_integer_value(json_array_get(tokens, i));
        d.own_rows[d.n_own_rows++] = (hf_own_row){(uint64_t)id, i};
        if (!json_is_integer(json_array_get(tokens, i)) || id < 0 || (uint64_t)id >= s->rows)
            ok = hf_adapter_fail(t->adapter, e, "trainable_token_indices: token %zu is not in '%s'", i,
                                 s->name);
    }
    if (ok) qsort(d.own_rows, d.n_own_rows, sizeof *d.own_rows, row_compare);
    if (ok && rows_are_changed(s, &d))
        ok = hf_folder_warn(
            &((hf_adapter *)t->adapter)->folder, "", e,
            "it replaces rows of '%s' that an earlier adapter has changed: that change is lost in them",
            s->name);
    if (!ok) return free(d.own_rows), false;
    s->deltas.items[s->deltas.n++] = d;
    return true;
}
