/* NVFP4 has a scale for 16 weights, a number of 8 bits from 2^-9 to 448. Weights of models are so small that their
 * scales would be among the least of these, of one or two significant bits. Runtimes therefore multiply what such
 * a matrix gives by a number of its own, NAME.scale, one for each expert where it has several.
 *
 * Here that number is a power of two, so that weights times its inverse are exact. It puts the largest weight
 * of a tensor on 64 to 128, so that scales reach from a twentieth of their range down. The model is wrapped in
 * a container that multiplies as it reads and has the tensors NAME.scale, so that all that follows, from the
 * layout to a resumed run, knows nothing of it. */
#include "quantize/plan/target/target.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch/arch.h"
#include "base/checksum.h"
#include "gguf/scales.h"
#include "quantize/strips/strips.h"

enum { LARGEST = 6 }; /* the largest weight gets this exponent */

/* The matrices beside which llama.cpp looks for a factor, by what follows their block in their name. */
static const char *const scaled_names[] = {
    "attn_q.weight",        "attn_k.weight",         "attn_v.weight",        "attn_output.weight",
    "attn_qkv.weight",      "attn_gate.weight",      "ffn_gate.weight",      "ffn_up.weight",
    "ffn_down.weight",      "ffn_gate_shexp.weight", "ffn_up_shexp.weight",  "ffn_down_shexp.weight",
    "ffn_gate_exps.weight", "ffn_up_exps.weight",    "ffn_down_exps.weight", "ssm_in.weight",
    "ssm_out.weight",       "ssm_alpha.weight",      "ssm_beta.weight",
};

/* A matrix, and the tensor with its factor. */
typedef struct scaled_matrix {
    const model_tensor *matrix;
    int by; /* its weights are multiplied by 2^by */
    model_tensor factor;
    char name[GGUF_MAX_NAME + 1];
} scaled_matrix;

typedef struct scaled_state {
    model_source inner;
    scaled_matrix *items; /* in the order of their addresses as matrices */
    size_t n;
} scaled_state;

/* ---- the container ---- */

static const model_source *inner_of(const model_source *m) {
    return &((const scaled_state *)m->state)->inner;
}

static int compare_matrices(const void *a, const void *b) {
    const scaled_matrix *x = a, *y = b;
    return (x->matrix > y->matrix) - (x->matrix < y->matrix);
}

static const scaled_matrix *find_matrix(const model_source *m, const model_tensor *t) {
    const scaled_state *s = m->state;
    return bsearch(&(scaled_matrix){.matrix = t}, s->items, s->n, sizeof *s->items, compare_matrices);
}

/* The item whose factor a tensor is; NULL: it is one of the model's own. A factor's offset is its item's
 * number. */
static const scaled_matrix *find_factor(const model_source *m, const model_tensor *t) {
    const scaled_state *s = m->state;
    return t->offset < s->n && t == &s->items[t->offset].factor ? &s->items[t->offset] : NULL;
}

static bool scaled_read(const model_source *m, const model_tensor *t, uint64_t first, uint64_t n, void *to,
                        gq_error *e) {
    const scaled_matrix *of = find_factor(m, t);
    if (of) {
        (void)first; /* all experts have the same */
        for (uint64_t i = 0; i < n; i++) ((float *)to)[i] = ldexpf(1, -of->by);
        return true;
    }
    const model_source *inner = inner_of(m);
    if (!inner->container->read(inner, t, first, n, to, e)) return false;
    if ((of = find_matrix(m, t))) model_scales_values(t->type, to, n, of->by);
    return true;
}

static void scaled_advise(const model_source *m, const model_tensor *t, uint64_t first, uint64_t n,
                          model_advice advice) {
    const model_source *inner = inner_of(m);
    if (!find_factor(m, t)) model_advise(inner, t, first, n, advice);
}

static bool scaled_is_cold(const model_source *m, const model_tensor *t, uint64_t first, uint64_t n) {
    const model_source *inner = inner_of(m);
    return !find_factor(m, t) && model_is_cold(inner, t, first, n);
}

static uint64_t scaled_stored_at(const model_source *m, const model_tensor *t) {
    const model_source *inner = inner_of(m);
    const scaled_matrix *of = find_factor(m, t);
    return model_stored_at(inner, of ? of->matrix : t);
}

static bool scaled_fold_content(const model_source *m, uint32_t *content, gq_error *e) {
    const scaled_state *s = m->state;
    if (!s->inner.container->fold_content(&s->inner, content, e)) return false;
    for (uint64_t i = 0; i < m->n_tensors; i++) {
        const scaled_matrix *of = find_factor(m, m->tensors[i]);
        int32_t by = of ? of->by : 0;
        if (of) *content = checksum_add(*content, &by, sizeof by);
    }
    return true;
}

static bool scaled_mixed(const model_source *m, uint32_t *file, uint32_t *other) {
    return model_mixed(inner_of(m), file, other);
}

static bool scaled_own_name(const model_source *m, const char *name, char *to, size_t size) {
    const model_source *inner = inner_of(m);
    return inner->container->own_name && inner->container->own_name(inner, name, to, size);
}

static void scaled_close(void *state) {
    scaled_state *s = state;
    model_close(&s->inner);
    free(s->items), free(s);
}

static const model_container scaled_container = {.read = scaled_read,
                                                 .advise = scaled_advise,
                                                 .is_cold = scaled_is_cold,
                                                 .fold_content = scaled_fold_content,
                                                 .mixed = scaled_mixed,
                                                 .stored_at = scaled_stored_at,
                                                 .own_name = scaled_own_name,
                                                 .close = scaled_close};

/* ---- which matrices, and by how much ---- */

/* Whether llama.cpp reads a factor beside a matrix. */
static bool name_is_scaled(const char *name) {
    model_block b;
    if (!model_block_leads(name, &b)) return false;
    for (size_t i = 0; i < sizeof scaled_names / sizeof *scaled_names; i++)
        if (strcmp(b.rest, scaled_names[i]) == 0) return true;
    return false;
}

/* The power of two for a matrix; 0: it has none, or is to stay as it is. By the largest of all weights, since
 * one beyond what NVFP4 holds would end the run. */
static bool choose_power(const gq_plan *plan, const model_tensor *t, strip_buffers *scratch, int *by,
                         gq_error *e) {
    enum { MOST = 126 }; /* so that the factor is a normal number */
    uint64_t n = shape_rows(t->ne) * t->ne[0];
    size_t some;
    float top = 0;
    *by = 0;
    for (uint64_t at = 0; at < n; at += some) {
        some = (size_t)min(STRIP_ELEMENTS, t->ne[0] - at % t->ne[0]);
        if (!strip_read_decoded(plan->kernels, &plan->model, t, at, some, scratch->stored[0],
                                scratch->decoded[0], e))
            return false;
        for (size_t i = 0; i < some; i++) top = fmaxf(top, fabsf(scratch->decoded[0][i]));
    }
    if (top > 0 && isfinite(top)) *by = (int)fmaxf(-MOST, fminf(MOST, LARGEST - (float)ilogbf(top)));
    if (t->type->id == GGUF_F16 && *by < 0) *by = 0; /* its smallest values would lose bits */
    return true;
}

/* Whether factors are asked for where they would have an effect. */
static bool scales_apply(gq_plan *plan, const gq_options *options, bool *apply, gq_error *e) {
    const model_source *m = &plan->model;
    model_facts facts = model_facts_of(m->kv, m->n_kv, NULL, 0);
    const architecture *a = arch_of_facts(&facts);
    *apply = false;
    if (!a || !a->mix.has_factors)
        return warnings_add(&plan->warnings, e,
                            "no per-tensor scales: llama.cpp does not apply all of them for architecture %s",
                            facts.arch);
    for (size_t o = 0; o < plan->n_outputs; o++) {
        const tensor_type *base = tensor_type_of(plan->outputs[o].filetype->base);
        *apply |= plan_has_target(options, o) || (base && base->quantized);
    }
    return *apply ||
           warnings_add(&plan->warnings, e, "no per-tensor scales: the file type does not quantize");
}

static bool scaled_add(scaled_state *s, const model_source *m, const model_tensor *t, int by, gq_error *e) {
    scaled_matrix *to = &s->items[s->n];
    size_t stem = strlen(t->name) - strlen("weight");
    uint64_t n = t->ne[2] * t->ne[3];
    *to = (scaled_matrix){.matrix = t, .by = by};
    snprintf(to->name, sizeof to->name, "%.*sscale", (int)stem, t->name);
    if (model_tensor_named(m, to->name))
        return gq_fail(e, "%s: tensor %s already has a scale, %s", model_file_path(m, t), t->name, to->name);
    to->factor = (model_tensor){.n_dims = 1,
                                .ne = {n, 1, 1, 1},
                                .type = tensor_type_of(GGUF_F32),
                                .size = n * sizeof(float),
                                .shard = t->shard};
    s->n++;
    return true;
}

static bool find_all(gq_plan *plan, scaled_state *s, const mix_pattern *patterns, mix_matcher *matcher,
                     strip_buffers *scratch, gq_error *e) {
    const model_source *m = &plan->model;
    for (uint64_t i = 0; i < m->n_tensors; i++) {
        const model_tensor *t = m->tensors[i];
        char name[GGUF_MAX_NAME + 1]; /* in the outputs, as patterns have it */
        size_t number;
        uint32_t type;
        int by;
        if (!model_scales_type(t->type) || t->transposed || !name_is_scaled(t->name) ||
            !plan_layers_rename(&plan->layers, t->name, name))
            continue;
        if (!mix_patterns_find(patterns, matcher, name, &number, &type, e)) return false;
        if (number == MIX_NO_PATTERN || type != GGUF_NVFP4 || !gguf_fits_row(tensor_type_of(type), t->ne[0]))
            continue;
        if (!choose_power(plan, t, scratch, &by, e) || (by && !scaled_add(s, m, t, by, e))) return false;
    }
    return true;
}

/* Makes the plan's model one of the wrapping container, which owns what was the plan's model. */
static bool wrap_model(gq_plan *plan, scaled_state *s, gq_error *e) {
    model_source *m = &plan->model, wrapped = *m;
    uint64_t n = m->n_tensors + s->n, at = 0;
    wrapped.tensors = calloc(n + 1, sizeof *wrapped.tensors);
    wrapped.files = calloc(m->n_files + 1, sizeof *wrapped.files);
    wrapped.by_name = NULL;
    if (!wrapped.tensors || !wrapped.files) {
        free(wrapped.tensors), free(wrapped.files);
        return gq_fail_memory(e, (n + 1) * sizeof *wrapped.tensors);
    }
    memcpy(wrapped.files, m->files, m->n_files * sizeof *wrapped.files);
    qsort(s->items, s->n, sizeof *s->items, compare_matrices);
    for (size_t i = 0; i < s->n; i++)
        s->items[i].factor.name = s->items[i].name, s->items[i].factor.offset = i;
    wrapped.container = &scaled_container, wrapped.state = s;
    for (uint64_t i = 0; i < m->n_tensors; i++) {
        wrapped.tensors[at++] = m->tensors[i];
        const scaled_matrix *of = find_matrix(&wrapped, m->tensors[i]);
        if (of) wrapped.tensors[at++] = (model_tensor *)&of->factor;
    }
    wrapped.n_tensors = n;
    s->inner = *m, s->inner.warnings = (warning_list){0};
    *m = wrapped;
    return model_index_names(m, e);
}

bool plan_scale_tensors(gq_plan *plan, const gq_options *options, gq_error *e) {
    if (!options->tensor_scales) return true;
    if (plan->model_is_lent)
        return gq_fail_usage(e, "per-tensor scales need a model that the plan opens itself");
    bool apply;
    if (!scales_apply(plan, options, &apply, e)) return false;
    if (!apply) return true;
    mix_pattern *patterns = mix_patterns_new(options->tensor_types.items, options->tensor_types.n, true, e);
    mix_matcher *matcher = patterns ? mix_matcher_new(e) : NULL;
    strip_buffers *scratch = malloc(sizeof *scratch);
    scaled_state *s = calloc(1, sizeof *s);
    bool ok = s && scratch && (s->items = calloc(plan->model.n_tensors + 1, sizeof *s->items));
    if (!ok) gq_fail_memory(e, sizeof *scratch);
    ok = ok && (!options->tensor_types.n || matcher);
    if (ok && matcher) ok = find_all(plan, s, patterns, matcher, scratch, e);
    bool any = ok && s->n;
    if (any) ok = wrap_model(plan, s, e);
    if (ok && !any)
        ok = warnings_add(&plan->warnings, e,
                          "no per-tensor scales: no matrix that can have one becomes NVFP4");
    if (s && plan->model.state != s) free(s->items), free(s);
    free(scratch), mix_matcher_free(matcher), mix_patterns_free(patterns);
    return ok;
}
