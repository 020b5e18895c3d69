#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quantize/quantize.h"
#include "study/evaluate/evaluate.h"

model_facts compared_facts(const model_source *m) { return model_facts_of(m->kv, m->n_kv, NULL, 0); }

static void evaluated_fill_memory(gq_evaluated *to, const runner *r) {
    const model_source *m = &r->file;
    const mix_filetype *filetype = mix_filetype_of(m->kv, m->n_kv);
    to->path = r->path;
    to->filetype = filetype ? filetype->name : "";
    to->file_bytes = model_file_bytes(m);
    for (uint64_t i = 0; i < m->n_tensors; i++) {
        to->tensor_bytes += m->tensors[i]->size;
        to->n_weights += shape_elements(m->tensors[i]->ne);
    }
}

static bool name_runner(gq_evaluation *v, size_t i, const char *path, gq_error *e) {
    v->runners[i].path = v->paths[i] = strdup(path);
    return v->paths[i] || gq_fail_memory(e, strlen(path));
}

/* Makes the model of a runner whose file is open, and notes the file's figures. */
static bool set_up_runner(gq_evaluation *v, size_t i, gq_error *e) {
    runner *r = &v->runners[i];
    warning_list unheard = {0}; /* the base model's will do */
    r->model = forward_model_new(&r->file, e);
    if (!r->model) return false;
    evaluated_fill_memory(&v->models[i], r);
    bool ok = forward_model_find_mtp_layers(r->model, i == v->first ? &v->warnings : &unheard, e);
    warnings_free(&unheard);
    return ok;
}

static bool open_runner(gq_evaluation *v, size_t i, const char *path, const gq_adapters *adapters,
                        gq_error *e) {
    runner *r = &v->runners[i];
    if (!name_runner(v, i, path, e)) return false;
    return input_open_adapted(&r->file, path, adapters, e) &&
           warnings_join(&v->warnings, &r->file.warnings, e) && set_up_runner(v, i, e);
}

/* Opens a quant that does not exist yet, by the headers that it will have. */
bool compared_open_planned(gq_evaluation *v, size_t i, const plan_output *out, gq_error *e) {
    gguf_planned *shards = calloc(out->n_shards, sizeof *shards);
    if (!shards) return gq_fail_memory(e, out->n_shards * sizeof *shards);
    for (uint32_t s = 0; s < out->n_shards; s++) {
        const plan_shard *p = &out->shards[s];
        shards[s] = (gguf_planned){p->path, p->header_data, p->header_size, p->size};
    }
    bool ok = name_runner(v, i, out->shards[0].path, e) &&
              gguf_model_planned(&v->runners[i].file, shards, out->n_shards, e) && set_up_runner(v, i, e);
    free(shards);
    return ok;
}

/* ---- checking quants ---- */

static const model_kv *tokens_of(const runner *r) {
    return model_kv_find(r->file.kv, r->file.n_kv, "tokenizer.ggml.tokens");
}

static bool same_tokens(const runner *a, const runner *b) {
    const model_kv *x = tokens_of(a), *y = tokens_of(b);
    return !x || !y || (x->size == y->size && memcmp(x->value, y->value, x->size) == 0);
}

/* Returns the model that all others must be quants of. */
const runner *compared_reference(const gq_evaluation *v) { return &v->runners[v->first]; }

bool compared_check(gq_evaluation *v, const runner *quant, gq_error *e) {
    const runner *base_model = compared_reference(v);
    size_t vocabulary = forward_model_sizes(base_model->model)->vocabulary,
           of_quant = forward_model_sizes(quant->model)->vocabulary;
    model_facts facts = compared_facts(&quant->file);
    if (strcmp(facts.arch, v->architecture) != 0)
        return gq_fail(e,
                       "%s: is a model of architecture %s, and %s one of %s; only quantized models of one "
                       "base model can be compared",
                       quant->path, facts.arch, base_model->path, v->architecture);
    if (vocabulary != of_quant)
        return gq_fail(
            e, "%s: has %zu tokens, and %s has %zu; only quantized models of one base model can be compared",
            quant->path, of_quant, base_model->path, vocabulary);
    const forward_sizes *a = forward_model_sizes(base_model->model), *b = forward_model_sizes(quant->model);
    if (a->embedded != b->embedded || a->pooling != b->pooling)
        return gq_fail(e,
                       "%s: pools embeddings differently from %s (pooling_type, dense heads); only quantized "
                       "models of one base model can be compared",
                       quant->path, base_model->path);
    if (!same_tokens(base_model, quant))
        return gq_fail(e,
                       "%s: its vocabulary differs from that of %s; only quantized models of one base model "
                       "can be compared",
                       quant->path, base_model->path);
    return differing_warn(&base_model->file, &quant->file, &v->warnings, e);
}

static void note_architecture(gq_evaluation *v) {
    snprintf(v->architecture, sizeof v->architecture, "%s",
             compared_facts(&compared_reference(v)->file).arch);
}

static bool open_reference(gq_evaluation *v, const char *path, const gq_adapters *adapters, gq_error *e) {
    if (!open_runner(v, v->first, path, adapters, e)) return false;
    note_architecture(v);
    return true;
}

/* Takes a plan's input as the base model, which stays open. */
bool compared_lend_reference(gq_evaluation *v, const gq_plan *plan, gq_error *e) {
    if (!name_runner(v, 0, plan_input(plan), e)) return false;
    v->runners[0].file = plan->model;
    if (!set_up_runner(v, 0, e)) return false;
    note_architecture(v);
    return true;
}

void compared_return_reference(gq_evaluation *v) {
    forward_model_free(v->runners[0].model);
    v->runners[0].model = NULL, v->runners[0].file = (model_source){.path = NULL};
}

static bool open_base_file(gq_evaluation *v, size_t i, const char *path, gq_error *e) {
    base_file *f = &v->bases[i];
    if (!base_file_open(f, path, e) || !name_runner(v, i, path, e)) return false;
    v->models[i] = (gq_evaluated){.path = v->paths[i], .filetype = "", .file_bytes = f->file.size};
    return !f->windows_missing ||
           warnings_add(&v->warnings, e, "%s is truncated: %zu of its %zu windows are used", f->file.path,
                        f->windows, f->windows + f->windows_missing);
}

static bool open_base(gq_evaluation *v, const gq_evaluation_request *r, gq_error *e) {
    if (r->base_model || r->n_quants == 0 || r->base_out || r->logits)
        return gq_fail_usage(e, "a base file takes the place of the base model: name only the models to "
                                "compare with it, and no file for the base model's logits");
    return open_base_file(v, 0, r->base, e);
}

static bool check_base(const gq_evaluation *v, gq_error *e) {
    const runner *r = compared_reference(v);
    size_t vocabulary = forward_model_sizes(r->model)->vocabulary;
    return vocabulary == v->bases->vocabulary ||
           gq_fail(e,
                   "%s: has %zu tokens, and %s is of a model with %zu; only its quantized models can be "
                   "compared with it",
                   r->path, vocabulary, v->paths[0], v->bases->vocabulary);
}

/* Opens the quants where they are base files like the base model: then no model is there. */
static bool open_quants_of_base(gq_evaluation *v, const gq_evaluation_request *r, gq_error *e) {
    v->none_runs = true;
    for (size_t i = 1; i < v->n; i++)
        if (!open_base_file(v, i, r->quants[i - 1], e) || !base_scores_check(v->bases, &v->bases[i], e))
            return false;
    return true;
}

bool compared_open_all(gq_evaluation *v, const gq_evaluation_request *r, gq_error *e) {
    gq_adapters adapters = r->adapters;
    if (r->draft) adapters.target = NULL; /* it is the draft's */
    if (v->first && !open_base(v, r, e)) return false;
    if (v->first && base_file_begins(r->quants[0])) return open_quants_of_base(v, r, e);
    if (!open_reference(v, v->first ? r->quants[0] : r->base_model, v->first ? NULL : &adapters, e) ||
        (v->first && !check_base(v, e)))
        return false;
    for (size_t i = v->first + 1; i < v->n; i++)
        if (!open_runner(v, i, r->quants[i - 1], NULL, e) || !compared_check(v, &v->runners[i], e))
            return false;
    return true;
}
