/* Brings adapters to a model's tensors. An adapter names modules as the program that trained it did, so a
 * module's tensor is looked up by its name, and then by the rule that the name has: releases of one model
 * spell names differently, but have the same rules. Experts that the training program had in one tensor, and
 * the folder one by one, get their part of the change.
 */
#include "hf/adapter/adapter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/memory.h"

bool hf_adapters_open(hf_adapters *a, const gq_adapters *given, gq_error *e) {
    *a = (hf_adapters){.items = calloc(given->n + 1, sizeof *a->items)};
    if (!a->items) return gq_fail_memory(e, given->n * sizeof *a->items);
    for (size_t i = 0; i < given->n; i++) {
        a->n++;
        if (!hf_adapter_open(&a->items[i], &given->items[i], e)) return false;
    }
    return true;
}

void hf_adapters_close(hf_adapters *a) {
    for (size_t i = 0; i < a->n; i++) hf_adapter_close(&a->items[i]);
    free(a->items);
    *a = (hf_adapters){.items = NULL};
}

void hf_adapters_find_modules(hf_adapters *a, const hf_list *l) {
    static const char *const ends[] = {".weight", ".bias"};
    for (size_t i = 0; i < a->n; i++)
        for (size_t k = 0; k < a->items[i].n; k++) {
            hf_adapted *m = &a->items[i].modules[k];
            const char *begins[] = {"", "model."}, *shorter = name_behind(m->module, "model.");
            char name[HF_MODULE_BYTES];
            for (size_t e = 0; e < 4; e++) {
                snprintf(name, sizeof name, "%s%s%s", begins[e / 2], m->module, ends[e % 2]);
                m->is_of_folder |= hf_list_find(l, name) != NULL;
                snprintf(name, sizeof name, "%s%s", shorter ? shorter : m->module, ends[e % 2]);
                m->is_of_folder |= hf_list_find(l, name) != NULL;
            }
        }
}

/* ---- the vocabulary ---- */

static const hf_stored *adapted_weight(const hf_adapted *m) { return m->weight ? m->weight : m->base; }

/* Finds an adapter's tensor in the place of one that becomes a tensor of this name. */
static const hf_stored *adapter_replaces(const hf_adapter *a, const hf_build *names, const char *tensor) {
    for (size_t i = 0; i < a->n; i++)
        if (adapted_weight(&a->modules[i]) && hf_module_is(names, a->modules[i].module, ".weight", tensor))
            return adapted_weight(&a->modules[i]);
    return NULL;
}

static bool list_has_tensor(const hf_list *l, const hf_build *names, const char *tensor) {
    for (size_t i = 0; i < l->n; i++)
        if (hf_module_is(names, l->stored[i].name, "", tensor)) return true;
    return false;
}

/* An embedding of another size has other tokens: the folder of the adapter has to say which. */
static bool adapter_resize(hf_adapter *a, hf_config *c, const hf_list *l, const hf_build *names,
                           gq_error *e) {
    uint32_t size;
    const hf_stored *t = adapter_replaces(a, names, "token_embd");
    if (!t || !hf_config_has(c, "vocab_size")) return true;
    if (!hf_config_u32(c, "vocab_size", &size, e)) return false;
    if (t->n_dims != 2) return hf_list_fail(&a->list, t, e, "%u dimensions, expected a matrix", t->n_dims);
    if (t->shape[0] == size) return true;
    if (!hf_adapter_has_vocabulary(a))
        return hf_list_fail(
            &a->list, t, e,
            "%llu rows, but the model has %u tokens: put the tokenizer's files that the adapter "
            "was trained with into its folder",
            LLU(t->shape[0]), size);
    if (!adapter_replaces(a, names, "output") && list_has_tensor(l, names, "output"))
        return hf_list_fail(&a->list, t, e,
                            "%llu rows, but the head keeps the model's %u: save the head with the adapter "
                            "(modules_to_save)",
                            LLU(t->shape[0]), size);
    if (json_object_set_new(c->merged, "vocab_size", json_integer((json_int_t)t->shape[0])) != 0)
        return gq_fail_memory(e, 0);
    return hf_folder_warn(&a->folder, "", e, "its embedding has %llu rows, the model's %u: %s",
                          LLU(t->shape[0]), size,
                          t->shape[0] > size ? "tokens were added" : "rows were cut off");
}

/* Warns where an adapter says that it was made for another model. */
static bool adapter_check_base(hf_adapter *a, const hf_folder *f, gq_error *e) {
    const char *base = hf_adapter_base(a);
    char *id = NULL, *stem = NULL;
    if (!base || !*base) return true;
    if (!hf_folder_names(f->path, &id, &stem, e)) return false;
    bool same = strcasecmp(hf_path_last(base), hf_path_last(id)) == 0;
    free(id), free(stem);
    return same ||
           hf_folder_warn(&a->folder, "", e,
                          "its config names the base model '%.120s': check that this is the one in %s", base,
                          f->path);
}

bool hf_adapters_settle_tokens(hf_adapters *a, hf_config *c, const hf_list *l, hf_folder **tokens,
                               gq_error *e) {
    hf_build names = {.config = c, .arch = c->like, .list = l};
    for (size_t i = 0; i < a->n; i++) {
        hf_adapter *one = &a->items[i];
        if (!adapter_check_base(one, c->folder, e) || !adapter_resize(one, c, l, &names, e)) return false;
        if (!hf_adapter_has_vocabulary(one)) continue;
        *tokens = &one->folder;
        if (!hf_folder_warn(&one->folder, "", e, "its tokenizer replaces the model's")) return false;
    }
    return true;
}

/* ---- changes ---- */

static const char *base_or_unknown(const hf_adapter *a) {
    const char *base = hf_adapter_base(a);
    return base && *base ? base : "a model that its config does not name";
}

/* Finds the tensor of all experts of which a module is one's matrix; NULL: there is none. */
static const hf_source *all_experts_of(const hf_modules *t, const char *module) {
    static const char *const arrays[] = {"gate_up_proj", "down_proj", "gate_proj"};
    const char *at = strstr(module, ".experts.");
    char name[HF_MODULE_BYTES];
    for (size_t i = 0; at && i < sizeof arrays / sizeof *arrays; i++) {
        snprintf(name, sizeof name, "%.*s.experts.%s", (int)(at - module), module, arrays[i]);
        const hf_source *s = hf_module_find(t, name, "");
        if (s && s->n_dims == 3) return s;
    }
    return NULL;
}

/* Fails for a module that the model does not have. */
static bool module_fail(const hf_modules *t, const hf_stored *of, const char *module, gq_error *e) {
    const hf_source *experts = all_experts_of(t, module);
    if (experts)
        return hf_list_fail(
            &t->adapter->list, of, e,
            "it changes one expert, '%s', but the model in %s stores all experts in one tensor, '%s': merge "
            "the adapter with the program that trained it, and convert the folder that it saves",
            module, t->build->list->folder->path, experts->name);
    return hf_list_fail(&t->adapter->list, of, e,
                        "the model in %s has no module '%s': the adapter is for another model (it names "
                        "%.120s), or was saved by a program whose names gquant does not know: then merge it "
                        "with that program (merge_and_unload), and convert the folder that it saves",
                        t->build->list->folder->path, module, base_or_unknown(t->adapter));
}

static bool shape_fail(const hf_modules *t, const hf_stored *of, const hf_source *s, uint64_t outputs,
                       uint64_t inputs, gq_error *e) {
    return hf_list_fail(&t->adapter->list, of, e,
                        "it changes a matrix of %llu outputs and %llu inputs, but '%s' has %llu rows of "
                        "%llu: the adapter is for another model (it names %.120s)",
                        LLU(outputs), LLU(inputs), s->name, LLU(s->rows), LLU(s->columns),
                        base_or_unknown(t->adapter));
}

/* Makes a change of a source; *d is then complete but for its factors. */
static bool delta_begin(const hf_modules *t, const hf_source *s, const hf_stored *of, hf_delta *d,
                        double scale, gq_error *e) {
    if (s->coding == &hf_mxfp4)
        return hf_list_fail(
            &t->adapter->list, of, e,
            "'%s' is MXFP4, into which an adapter cannot be merged: use the model's folder in 16 bits",
            s->name);
    *d = (hf_delta){.list = &t->adapter->list, .scale = (float)scale};
    return true;
}

static bool delta_keep(hf_source *s, hf_delta *d, const hf_stored *magnitude, uint64_t outputs, gq_error *e) {
    if (magnitude && magnitude->n != outputs)
        return hf_list_fail(d->list, magnitude, e, "%llu magnitudes, expected %llu: one for each output",
                            LLU(magnitude->n), LLU(outputs));
    bool ok = (!magnitude || hf_delta_set_magnitude(s, d, magnitude, e)) &&
              memory_grow(&s->deltas.items, &s->deltas.capacity, s->deltas.n + 1, sizeof *s->deltas.items, e);
    if (ok)
        s->deltas.items[s->deltas.n++] = *d;
    else
        hf_delta_free(d);
    return ok;
}

/* The numbers of a module's matrices lora_A and lora_B. */
typedef struct lora_shape {
    uint64_t inputs, outputs, rank, all_ranks; /* all_ranks: of all experts together */
    double scale;
} lora_shape;

/* Compares a pair's shapes with one another and with the config; matrices is 0 where it is not known how many
 * share them. */
static bool lora_read(const hf_modules *t, const hf_adapted *m, const hf_stored *a, const hf_stored *b,
                      bool counts_experts, lora_shape *to, gq_error *e) {
    double rank;
    char module[HF_MODULE_BYTES];
    hf_module_name(m->module, module, sizeof module);
    if (a->n_dims != 2 || b->n_dims != 2)
        return hf_list_fail(&t->adapter->list, a->n_dims != 2 ? a : b, e, "%u dimensions, expected a matrix",
                            a->n_dims != 2 ? a->n_dims : b->n_dims);
    if (a->shape[0] != b->shape[1])
        return hf_list_fail(&t->adapter->list, a, e, "%llu rows, but '%s' has %llu columns", LLU(a->shape[0]),
                            b->name, LLU(b->shape[1]));
    if (!hf_adapter_scale(t->adapter, module, &rank, &to->scale, e)) return false;
    to->inputs = a->shape[1], to->outputs = b->shape[0], to->all_ranks = a->shape[0];
    to->rank = rank < 0x1p31 ? (uint64_t)rank : 0;
    if (to->rank == 0 || (double)to->rank != rank || to->all_ranks > UINT32_MAX ||
        (counts_experts ? to->all_ranks % to->rank != 0 : to->all_ranks != to->rank))
        return hf_list_fail(&t->adapter->list, a, e, "rank %llu, but %s says %g", LLU(a->shape[0]),
                            t->adapter->file, rank);
    return true;
}

/* A linear layer, or one of GPT-2's, whose matrices are stored with inputs as rows. */
static bool change_linear(const hf_modules *t, const hf_adapted *m, hf_source *s, gq_error *e) {
    lora_shape p;
    hf_delta d;
    if (!lora_read(t, m, m->a, m->b, false, &p, e) || !delta_begin(t, s, m->a, &d, p.scale, e)) return false;
    bool upright = s->rows == p.outputs && s->columns == p.inputs;
    bool transposed = s->rows == p.inputs && s->columns == p.outputs;
    if (s->n_dims != 2 || (!upright && !transposed)) return shape_fail(t, m->a, s, p.outputs, p.inputs, e);
    if (upright && transposed)
        transposed = s->coding == &hf_gptq || hf_module_is_transposed(t, s);
    else if ((s->coding == &hf_gptq) != transposed && (transposed ? !hf_module_is_transposed(t, s) : true))
        return shape_fail(t, m->a, s, p.outputs, p.inputs, e);
    hf_factor a = {m->a, 0, 0, 1, p.inputs}, b = {m->b, 0, 0, p.rank, 1};
    d.rank = (uint32_t)p.rank, d.outputs_are_columns = transposed;
    d.rows = transposed ? a : b, d.columns = transposed ? b : a;
    return delta_keep(s, &d, m->magnitude, p.outputs, e);
}

static bool change_embedding(const hf_modules *t, const hf_adapted *m, hf_source *s, gq_error *e) {
    lora_shape p;
    hf_delta d;
    if (!lora_read(t, m, m->embed_a, m->embed_b, false, &p, e) ||
        !delta_begin(t, s, m->embed_a, &d, p.scale, e))
        return false;
    if (s->n_dims != 2 || s->rows != p.inputs || s->columns != p.outputs)
        return shape_fail(t, m->embed_a, s, p.outputs, p.inputs, e);
    d.rows = (hf_factor){m->embed_a, 0, 0, 1, p.inputs}, d.columns = (hf_factor){m->embed_b, 0, 0, p.rank, 1};
    d.rank = (uint32_t)p.rank, d.outputs_are_columns = true;
    return delta_keep(s, &d, m->magnitude, p.outputs, e);
}

static bool change_bias(hf_modules *t, const hf_adapted *m, gq_error *e) {
    double rank, scale;
    hf_delta d;
    hf_source *s = hf_module_find(t, m->module, ".bias");
    if (!s && hf_module_is_elsewhere(t, m, ".bias")) return true;
    if (!s) return hf_list_fail(&t->adapter->list, m->bias, e, "the model has no such bias to add it to");
    if (!hf_adapter_scale(t->adapter, m->module, &rank, &scale, e) ||
        !delta_begin(t, s, m->bias, &d, scale, e))
        return false;
    if (s->n_dims != 1 || m->bias->n != s->columns) return shape_fail(t, m->bias, s, m->bias->n, 1, e);
    d.rank = 1, d.columns = (hf_factor){m->bias, 0, 0, 1, 1};
    return delta_keep(s, &d, NULL, 0, e);
}

/* ---- experts in one tensor ---- */

/* Matrices lora_A [experts x rank, inputs] and lora_B [outputs, rank x experts], whose columns have the expert as the
 * faster index, unless the config says otherwise. */
static void experts_set_factors(hf_delta *d, const hf_adapted *m, const lora_shape *p, uint64_t experts,
                                bool by_expert, bool transposed) {
    hf_factor a = {m->a, 0, p->rank * p->inputs, 1, p->inputs}, b = {m->b, 0, 1, p->all_ranks, experts};
    if (by_expert) b.matrix = p->rank, b.rank_stride = 1;
    d->rank = (uint32_t)p->rank;
    d->rows = transposed ? a : b, d->columns = transposed ? b : a;
}

/* Whether a pair fits a tensor [experts, rows, columns]; *transposed: inputs are its rows. */
static bool stacked_fits(const hf_modules *t, const hf_source *s, const lora_shape *p, bool *transposed) {
    if (s->n_dims != 3 || mul_sat(s->shape[0], p->rank) != p->all_ranks) return false;
    bool upright = s->shape[1] == p->outputs && s->shape[2] == p->inputs;
    *transposed = s->shape[1] == p->inputs && s->shape[2] == p->outputs;
    if (upright && *transposed) *transposed = hf_module_is_transposed(t, s);
    return upright || *transposed;
}

static hf_source *expert_find(const hf_modules *t, const char *module, uint64_t expert,
                              const hf_expert_matrices *row, unsigned part) {
    for (size_t spelling = 0; spelling < 2; spelling++) {
        char name[HF_MODULE_BYTES];
        int n = snprintf(name, sizeof name, "%s.%llu.%s", module, LLU(expert), row->parts[spelling][part]);
        hf_source *s = n < (int)sizeof name ? hf_module_find(t, name, ".weight") : NULL;
        if (s) return s;
    }
    return NULL;
}

/* Whether a pair fits one of n parts of an expert's matrix; *transposed: PEFT before 0.18.1 had inputs and outputs
 * of such parameters exchanged. */
static bool expert_fits(const hf_source *s, uint64_t n, const lora_shape *p, bool *transposed) {
    bool upright = mul_sat(s->rows, n) == p->outputs && s->columns == p->inputs;
    *transposed = !upright && mul_sat(s->rows, n) == p->inputs && s->columns == p->outputs;
    return s->n_dims == 2 && s->coding != &hf_gptq && (upright || *transposed);
}

/* Changes experts that the folder stores one by one. *fits false: the folder has no such expert. */
static bool change_each_expert(const hf_modules *t, const hf_adapted *m, const char *module,
                               const char *parameter, const lora_shape *p, bool *fits, gq_error *e) {
    const hf_expert_matrices *row = hf_expert_matrix_rows;
    uint64_t experts = p->all_ranks / p->rank;
    *fits = false;
    while (row->parameter && strcmp(row->parameter, parameter) != 0) row++;
    if (!row->parameter) return true;
    for (uint64_t x = 0; x < experts; x++)
        for (unsigned part = 0; part < row->n; part++) {
            hf_source *s = expert_find(t, module, x, row, part);
            hf_delta d;
            bool transposed;
            if (!s || !expert_fits(s, row->n, p, &transposed)) {
                if (!*fits) return true;
                return hf_list_fail(&t->adapter->list, m->a, e,
                                    "it changes expert %llu of '%s', which does not fit", LLU(x), module);
            }
            *fits = true;
            if (!delta_begin(t, s, m->a, &d, p->scale, e)) return false;
            experts_set_factors(&d, m, p, experts, t->adapter->by_expert, transposed);
            d.rows.base = x * d.rows.matrix + part * s->rows * d.rows.line_stride;
            d.columns.base = x * d.columns.matrix;
            if (!delta_keep(s, &d, NULL, 0, e)) return false;
        }
    return expert_find(t, module, experts, row, 0)
               ? hf_list_fail(&t->adapter->list, m->a, e, "it changes %llu experts of '%s', which has more",
                              LLU(experts), module)
               : true;
}

/* One parameter that the config's target_parameters names and that a module has. */
static bool change_parameter(const hf_modules *t, const hf_adapted *m, const char *module,
                             const char *parameter, const lora_shape *p, bool *fits, gq_error *e) {
    char name[HF_MODULE_BYTES];
    bool transposed;
    hf_delta d;
    *fits = false;
    if (snprintf(name, sizeof name, "%s.%s", module, parameter) >= (int)sizeof name) return true;
    hf_source *s = hf_module_find(t, name, "");
    /* One expert's matrix may have the rule of a tensor of all. */
    if (!s || s->n_dims < 3) return change_each_expert(t, m, module, parameter, p, fits, e);
    if (!stacked_fits(t, s, p, &transposed)) return true;
    *fits = true;
    if (!delta_begin(t, s, m->a, &d, p->scale, e)) return false;
    experts_set_factors(&d, m, p, s->shape[0], t->adapter->by_expert, transposed);
    return delta_keep(s, &d, NULL, 0, e);
}

/* Several parameters of a module have its matrices nested, by the name ".base_layer": shapes say which is
 * which. */
static bool change_parameters(const hf_modules *t, const hf_adapted *m, bool *found, gq_error *e) {
    json_t *list = json_object_get(t->adapter->config, "target_parameters"), *v;
    char module[HF_MODULE_BYTES];
    size_t i;
    lora_shape p;
    *found = false;
    if (!json_is_array(list) || json_array_size(list) == 0) return true;
    if (m->magnitude)
        return hf_list_fail(
            &t->adapter->list, m->magnitude, e,
            "gquant cannot merge DoRA magnitudes of parameters that hold several matrices: merge the adapter "
            "with peft (merge_and_unload), and convert the folder that it saves");
    if (!lora_read(t, m, m->a, m->b, true, &p, e)) return false;
    hf_module_name(m->module, module, sizeof module);
    json_array_foreach(list, i, v) {
        const char *path = hf_json_text(v), *leaf = path ? strrchr(path, '.') : NULL;
        char head[HF_MODULE_BYTES];
        bool fits;
        if (!path ||
            snprintf(head, sizeof head, "%.*s", leaf ? (int)(leaf - path) : 0, path) >= (int)sizeof head ||
            (leaf && !hf_module_ends(module, head)))
            continue;
        if (!change_parameter(t, m, module, leaf ? leaf + 1 : path, &p, &fits, e)) return false;
        if (fits && *found)
            return hf_list_fail(&t->adapter->list, m->a, e, "it fits more than one parameter of '%s'",
                                module);
        *found |= fits;
    }
    return true;
}

/* Changes one expert of a tensor of all: programs that train in few bits have a linear layer for each,
 * gate_up_projs.N of the tensor gate_up_proj. */
static bool change_one_expert(const hf_modules *t, const hf_adapted *m, bool *found, gq_error *e) {
    char name[HF_MODULE_BYTES];
    uint64_t expert;
    lora_shape p;
    hf_delta d;
    bool transposed;
    const char *number = strrchr(m->module, '.');
    *found = false;
    if (!number || number == m->module || number[-1] != 's' || strlen(number + 1) > 6 ||
        number[1 + strspn(number + 1, "0123456789")] || !number[1] ||
        snprintf(name, sizeof name, "%.*s", (int)(number - m->module - 1), m->module) >= (int)sizeof name)
        return true;
    expert = strtoull(number + 1, NULL, 10);
    hf_source *s = hf_module_find(t, name, "");
    if (!s || s->n_dims < 3 || expert >= s->shape[0]) return true;
    *found = true;
    if (m->magnitude)
        return hf_list_fail(&t->adapter->list, m->magnitude, e,
                            "gquant cannot merge a DoRA magnitude of one expert of '%s'", s->name);
    if (!lora_read(t, m, m->a, m->b, false, &p, e) || !delta_begin(t, s, m->a, &d, p.scale, e)) return false;
    lora_shape all = p;
    all.all_ranks = mul_sat(p.rank, s->shape[0]);
    if (!stacked_fits(t, s, &all, &transposed)) return shape_fail(t, m->a, s, p.outputs, p.inputs, e);
    hf_factor a = {m->a, 0, 0, 1, p.inputs}, b = {m->b, 0, 0, p.rank, 1};
    d.rank = (uint32_t)p.rank, d.only = expert + 1;
    d.rows = transposed ? a : b, d.columns = transposed ? b : a;
    return delta_keep(s, &d, NULL, 0, e);
}

/* ---- a module ---- */

static bool change_module(hf_modules *t, const hf_adapted *m, gq_error *e) {
    bool found;
    hf_source *s = hf_module_find(t, m->module, ".weight");
    if (!s && m->a) {
        if (!change_parameters(t, m, &found, e)) return false;
        if (!found && !change_one_expert(t, m, &found, e)) return false;
        if (found) return true;
    }
    if (!s && hf_module_is_elsewhere(t, m, ".weight")) return true;
    if (!s) return module_fail(t, hf_adapted_lora(m), m->module, e);
    return (!m->a || change_linear(t, m, s, e)) && (!m->embed_a || change_embedding(t, m, s, e));
}

/* Returns the adapter's change of the head; NULL: it has none. */
static const hf_adapted *head_change(const hf_adapter *a, const hf_build *b) {
    for (size_t i = 0; i < a->n; i++)
        if ((a->modules[i].a || a->modules[i].rows) &&
            hf_module_is(b, a->modules[i].module, ".weight", "output"))
            return &a->modules[i];
    return NULL;
}

/* Whether one of the others changes the embedding. */
static bool others_change_embedding(const hf_adapters *a, size_t own, const hf_build *b) {
    for (size_t i = 0; i < a->n; i++)
        for (size_t k = 0; i != own && k < a->items[i].n; k++)
            if (hf_module_is(b, a->items[i].modules[k].module, ".weight", "token_embd")) return true;
    return false;
}

/* A head that is the embedding becomes a matrix of its own before any adapter changes either, as in a model with all
 * adapters loaded: their order does not count. */
static bool adapters_untie_head(const hf_adapters *a, hf_build *b, gq_error *e) {
    bool ok = true;
    for (size_t i = 0; ok && i < a->n; i++) {
        const hf_adapted *m = head_change(&a->items[i], b);
        hf_modules t = {.adapter = &a->items[i], .build = b};
        if (!m) continue;
        ok = hf_modules_begin(&t, e);
        if (ok && !hf_module_find(&t, m->module, ".weight")) {
            ok = hf_module_copy_embedding(&t, m->module, e);
            if (ok && others_change_embedding(a, i, b))
                ok = hf_folder_warn(
                    &a->items[i].folder, "", e,
                    "it gives the model a head of its own, the base model's embedding with this "
                    "change: what other adapters change in the embedding is not in the head");
        }
        hf_modules_free(&t);
    }
    return ok;
}

/* ---- tensors in the place of the model's ---- */

/* Whether rows may be more, or fewer, than those of the array that is replaced. */
static bool source_is_of_tokens(const hf_modules *t, const char *module) {
    return hf_module_is(t->build, module, ".weight", "token_embd") ||
           hf_module_is(t->build, module, ".weight", "output");
}

static bool replace_array(hf_modules *t, const hf_adapted *m, const hf_stored *by, const char *suffix,
                          gq_error *e) {
    hf_source *s = hf_module_find(t, m->module, suffix);
    if (!s && hf_module_is_elsewhere(t, m, suffix)) return true;
    if (!s && t->build->projector) return module_fail(t, by, m->module, e);
    if (!s && !(s = hf_module_add(t, m->module, suffix, e)))
        return e->status != GQ_OK && e->remedy == GQ_REMEDY_MEMORY ? false : module_fail(t, by, m->module, e);
    if (s->stored && (s->deltas.n > 0 || s->is_adapters))
        return hf_list_fail(&t->adapter->list, by, e,
                            "it replaces '%s', which an earlier adapter has changed", s->name);
    bool fits = by->n_dims == s->n_dims && by->n_dims > 0 && by->shape[by->n_dims - 1] == s->columns;
    for (uint32_t i = 0; fits && i + 1 < by->n_dims; i++)
        fits = by->shape[i] == s->shape[i] || (by->n_dims == 2 && source_is_of_tokens(t, m->module));
    if (s->stored && !fits) return shape_fail(t, by, s, by->shape[0], by->shape[by->n_dims > 1], e);
    if (!s->stored && (by->n_dims == 0 || by->n_dims > 2))
        return hf_list_fail(&t->adapter->list, by, e, "%u dimensions, expected 1 or 2", by->n_dims);
    hf_module_replace(s, &t->adapter->list, by);
    return true;
}

/* Warns of what the file does not have. */
static bool left_out_warn(const hf_modules *t, gq_error *e) {
    static const char *const words[] = {"%zu module%s, such as '%s', %s of a part that the text model's file "
                                        "leaves out: what of that is a projector's is "
                                        "merged into the projector (mmproj)",
                                        "%zu module%s, such as '%s', %s of a part that the projector "
                                        "(mmproj) leaves out, too: no file has the change"};
    hf_folder *f = &((hf_adapter *)t->adapter)->folder;
    size_t i = 0;
    while (i < t->build->n_sources && !hf_module_has_change(t, &t->build->sources[i])) i++;
    return (t->n_left_out == 0 ||
            hf_folder_warn(f, "", e, words[t->build->projector != NULL], t->n_left_out,
                           plural_suffix(t->n_left_out), t->left_out, t->n_left_out == 1 ? "is" : "are")) &&
           (!t->build->projector || i < t->build->n_sources ||
            hf_folder_warn(f, "", e,
                           "no tensor of it belongs to the multimodal projector (mmproj), which stays the "
                           "base model's"));
}

static bool adapter_attach(hf_modules *t, gq_error *e) {
    const hf_adapter *a = t->adapter;
    for (size_t i = 0; i < a->n; i++) {
        const hf_adapted *m = &a->modules[i];
        const hf_stored *weight = adapted_weight(m), *bias = m->own_bias ? m->own_bias : m->base_bias;
        if (weight && !replace_array(t, m, weight, ".weight", e)) return false;
        if (bias && !replace_array(t, m, bias, ".bias", e)) return false;
    }
    for (size_t i = 0; i < a->n; i++) {
        const hf_adapted *m = &a->modules[i];
        if (hf_adapted_lora(m) && !change_module(t, m, e)) return false;
        if (m->bias && !change_bias(t, m, e)) return false;
        if (m->rows && !t->build->projector && !hf_module_replace_rows(t, m, e)) return false;
    }
    return hf_adapter_check_complete(t, e) && left_out_warn(t, e);
}

bool hf_adapters_attach(const hf_adapters *a, hf_build *b, gq_error *e) {
    if (!b->projector && !adapters_untie_head(a, b, e)) return false;
    for (size_t i = 0; i < a->n; i++) {
        hf_modules t = {.adapter = &a->items[i], .build = b};
        bool ok = hf_modules_begin(&t, e) && adapter_attach(&t, e);
        hf_modules_free(&t);
        if (!ok) return false;
    }
    return true;
}

/* ---- what was merged ---- */

static const hf_list *adapter_list_of(const hf_adapters *a, const hf_source *s) {
    for (size_t i = 0; i < a->n; i++) {
        if (s->list == &a->items[i].list) return s->list;
        for (size_t k = 0; k < s->deltas.n; k++)
            if (s->deltas.items[k].list == &a->items[i].list) return s->deltas.items[k].list;
    }
    return NULL;
}

bool hf_adapters_check_used(const hf_adapters *a, const hf_build *b, gq_error *e) {
    bool *used = calloc(b->n_sources + 1, sizeof *used), ok = true;
    size_t n = 0, first = 0;
    if (!used) return gq_fail_memory(e, b->n_sources);
    for (size_t i = 0; a->n > 0 && i < b->n; i++)
        for (size_t k = 0; k < b->tensors[i].n_pieces; k++)
            if (b->tensors[i].pieces[k].source) used[b->tensors[i].pieces[k].source - b->sources] = true;
    for (size_t i = a->n > 0 ? b->n_sources : 0; i > 0;)
        if (!used[--i] && !(b->sources[i].deltas.n && b->sources[i].deltas.items[0].was_read) &&
            adapter_list_of(a, &b->sources[i]))
            first = i, n++;
    free(used);
    if (n == 0) return true;
    const hf_list *l = adapter_list_of(a, &b->sources[first]);
    if (b->projector)
        ok = gq_fail(e, "%s changes '%s', which the multimodal projector (mmproj) stores in another form: %s",
                     l->folder->path, b->sources[first].name,
                     "merge it with peft (merge_and_unload), and convert the folder that it saves");
    return ok && hf_folder_warn(l->folder, "", e,
                                "it changes %zu tensor%s, such as '%s', that no tensor of the GGUF is made "
                                "of: the change is left out",
                                n, plural_suffix(n), b->sources[first].name);
}

bool hf_adapters_fold(const hf_adapters *a, uint32_t *content, gq_error *e) {
    for (size_t i = 0; i < a->n; i++)
        if (!hf_adapter_fold(&a->items[i], content, e)) return false;
    return true;
}

bool hf_adapters_metadata(const hf_adapters *a, const hf_build *b, hf_metadata *metadata, gq_error *e) {
    bool changes = !b->projector;
    for (size_t i = 0; i < b->n_sources; i++) changes |= adapter_list_of(a, &b->sources[i]) != NULL;
    if (!changes) return true;
    for (size_t i = 0; i < a->n; i++) {
        uint32_t content = 0;
        char *id = NULL, *stem = NULL, text[512];
        if (!hf_adapter_fold(&a->items[i], &content, e) ||
            !hf_folder_names(a->items[i].folder.path, &id, &stem, e))
            return false;
        int n = snprintf(text, sizeof text, "%.300s, factor %g, %08x", hf_path_last(id),
                         a->items[i].given_scale, content);
        free(id), free(stem);
        if (!hf_metadata_add_string(metadata, text, (size_t)n, e)) return false;
    }
    return a->n == 0 || hf_metadata_array(metadata, "gquant.adapters", GGUF_STRING, e);
}
