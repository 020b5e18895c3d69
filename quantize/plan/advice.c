/* Checks and warnings about a model before the work: files that are no models, tensors that are missing or
 * quantized already, names that other programs refuse. */
#include "arch/arch.h"
#include "quantize/plan/plan.h"

#include <stdlib.h>
#include <string.h>

#include "quantize/quantize.h"

enum { LLAMA_NAME = 63 }; /* bytes of a tensor's name that llama.cpp's ordinary build reads */

/* ---- kinds of files ---- */

static const struct {
    const char *type, *advice; /* general.type; "X is ..." */
} no_models[] = {
    {"adapter", "is an adapter (LoRA), which has no weights to quantize: merge it into its model with "
                "llama.cpp's llama-export-lora and quantize that, or use it as it is"},
    {"imatrix", "is an imatrix, not a model"},
};

/* Whether outputs are of types that llama.cpp's converter gives an adapter. An adapter that was no GGUF file
 * becomes one. */
static bool makes_adapter(const gq_plan *plan, const char *kind) {
    if (plan->model.version != 0 || strcmp(kind, "adapter") != 0) return false;
    for (size_t o = 0; o < plan->n_outputs; o++) {
        uint32_t base = plan->outputs[o].filetype->base;
        if (base != GGUF_F32 && base != GGUF_F16 && base != GGUF_BF16 && base != GGUF_Q8_0) return false;
    }
    return true;
}

static bool all_copies(const gq_plan *plan) {
    for (size_t o = 0; o < plan->n_outputs; o++)
        if (plan->outputs[o].filetype->base < GGUF_TYPE_LIMIT) return false;
    return true;
}

bool plan_check_kind(const gq_plan *plan, const gq_options *options, gq_error *e) {
    const model_kv *kv = model_kv_find(plan->model.kv, plan->model.n_kv, "general.architecture");
    if (kv && kv->type != GGUF_STRING)
        return gq_fail(e, "%s: general.architecture has type %s, expected %s", plan_input(plan),
                       gguf_value_name(kv->type), gguf_value_name(GGUF_STRING));
    for (size_t i = 0; i < sizeof no_models / sizeof *no_models; i++)
        if (model_fact_is(&plan->facts, "general.type", no_models[i].type) && !all_copies(plan) &&
            !makes_adapter(plan, no_models[i].type))
            return plan->model.version == 0
                       ? gq_fail_usage(e, "%s: an adapter becomes a file of F32, F16, BF16 or Q8_0",
                                       plan_input(plan))
                       : gq_fail(e, "%s %s", plan_input(plan), no_models[i].advice);
    return !(options->imatrix || options->transpose.n) ||
           !model_fact_is(&plan->facts, "general.type", no_models[0].type) ||
           gq_fail_usage(e, "%s: an adapter's matrices have no imatrix and are not transposed",
                         plan_input(plan));
}

/* ---- what becomes of its tensors ---- */

static bool is_quantized(const gq_plan *plan, size_t tensor) {
    for (size_t o = 0; o < plan->n_outputs; o++)
        if (!plan_copies(&plan->sources[tensor], &plan->outputs[o].tensors[tensor])) return true;
    return false;
}

/* Warns of tensors that are quantized already: the errors that a run reports are only those of its own step. */
static bool warn_requantized(gq_plan *plan, gq_error *e) {
    size_t n = 0, of[GGUF_TYPE_LIMIT] = {0};
    uint32_t most = 0;
    for (size_t i = 0; i < plan->n_tensors; i++) {
        const tensor_type *from = plan->sources[i].tensor->type;
        if (!from->quantized || !is_quantized(plan, i)) continue;
        n++;
        if (++of[from->id] > of[most]) most = from->id;
    }
    return n == 0 ||
           warnings_add(&plan->warnings, e,
                        "%zu of %zu tensor%s %s quantized already, most as %s: errors are measured against "
                        "the quantized values and add to their loss; quantize the base model if you have it",
                        n, plan->n_tensors, plural_suffix(plan->n_tensors), n == 1 ? "is" : "are",
                        tensor_type_name(most));
}

static bool warn_names(gq_plan *plan, gq_error *e) {
    size_t n = 0, first = 0;
    for (size_t i = plan->n_tensors; i-- > 0;)
        if (strlen(plan->sources[i].name) > LLAMA_NAME) n++, first = i;
    if (n == 0) return true;
    return warnings_add(&plan->warnings, e,
                        "%zu tensor %s longer than %d bytes, which llama.cpp refuses to load: %s%s", n,
                        n == 1 ? "name is" : "names are", (int)LLAMA_NAME, n == 1 ? "" : "the first is ",
                        plan->sources[first].name);
}

static bool warn_unchanged(gq_plan *plan, const plan_output *out, gq_error *e) {
    uint32_t base = out->filetype->base;
    if (base >= GGUF_TYPE_LIMIT || !tensor_type_of(base)->quantized || plan->n_tensors == 0) return true;
    size_t already = 0;
    for (size_t i = 0; i < plan->n_tensors; i++) {
        if (!plan_copies(&plan->sources[i], &out->tensors[i])) return true;
        already += tensor_type_of(out->tensors[i].from)->quantized;
    }
    const char *why = out->tensors[0].why;
    if (already) why = "some already have the quantized type that they would get";
    return warnings_add(&plan->warnings, e, "%s: no tensor changes%s%s; the output has the input's weights",
                        out->label, *why ? ": " : "", why);
}

/* Warns of quantizing a vision or audio part: it is small, and all images and sounds pass through it. */
static bool warn_projector(gq_plan *plan, const plan_output *out, gq_error *e) {
    const architecture *a = arch_of_facts(&plan->facts);
    if (!a || !a->is_projector) return true;
    for (size_t i = 0; i < plan->n_tensors; i++) {
        const tensor_type *to = tensor_type_of(out->tensors[i].to);
        if (out->tensors[i].to != out->tensors[i].from && 8 * to->block_bytes < 8 * to->block_elements)
            return warnings_add(&plan->warnings, e,
                                "%s: a projector (mmproj), which all images and sounds pass through; F16 or "
                                "Q8_0 is usual and saves most of what can be saved",
                                out->label);
    }
    return true;
}

bool plan_advise(gq_plan *plan, gq_error *e) {
    bool ok = warn_requantized(plan, e) && warn_names(plan, e);
    for (size_t o = 0; ok && o < plan->n_outputs; o++)
        ok = warn_unchanged(plan, &plan->outputs[o], e) && warn_projector(plan, &plan->outputs[o], e);
    return ok;
}

/* ---- whether all tensors are there ---- */

/* The patterns of tensors that may be missing. */
typedef struct allowed_missing {
    const mix_pattern *patterns;
    mix_matcher *matcher;
    bool *matched; /* one for each pattern */
    bool failed;
    gq_error *e;
} allowed_missing;

static bool complete_may_lack(void *user, const char *tensor) {
    allowed_missing *a = user;
    uint32_t unused;
    size_t number;
    if (!a->matcher || a->failed) return false;
    a->failed = !mix_patterns_find(a->patterns, a->matcher, tensor, &number, &unused, a->e);
    if (a->failed || number == MIX_NO_PATTERN) return false;
    return a->matched[number] = true;
}

static bool complete_warn_idle(gq_plan *plan, const gq_list *patterns, const bool *matched, gq_error *e) {
    for (size_t i = 0; i < patterns->n; i++)
        if (!matched[i])
            return warnings_add(&plan->warnings, e,
                                "tensors that may be missing: no missing tensor's name matches '%s'",
                                patterns->items[i]);
    return true;
}

/* A build without a forward pass does not know which tensors an architecture has. */
static bool complete_is_unknown(gq_plan *plan, gq_error *e) {
    return warnings_add(&plan->warnings, e,
                        "%s: not verified that it has all tensors of its architecture: " RUNNERS_MISSING,
                        plan_input(plan));
}

bool plan_check_complete(gq_plan *plan, const gq_options *options, gq_error *e) {
    const gq_list *list = &options->allow_missing;
    if (!plan->runners->check) return complete_is_unknown(plan, e);
    mix_pattern *patterns = list->n ? mix_patterns_new(list->items, list->n, false, e) : NULL;
    allowed_missing allowed = {.patterns = patterns,
                               .matcher = patterns ? mix_matcher_new(e) : NULL,
                               .matched = calloc(list->n + 1, sizeof *allowed.matched),
                               .e = e};
    bool ok = (!list->n || allowed.matcher) && (allowed.matched || gq_fail_memory(e, list->n));
    const model_expected expected = {.set = plan->overrides.items,
                                     .n_set = plan->overrides.n,
                                     .may_lack = complete_may_lack,
                                     .user = &allowed,
                                     .doubts = &plan->warnings,
                                     .without_blocks = options->no_mtp};
    gq_error why;
    model_source written = plan->model;
    model_kv *rest = ok ? plan_removed_rest(&plan->removed, &plan->model, &written.n_kv, e) : NULL;
    written.kv = rest;
    ok = ok && rest;
    if (ok && !(ok = plan->runners->check(&written, &expected, &why)) && !allowed.failed && e) *e = why;
    free(rest);
    ok = ok && !allowed.failed && complete_warn_idle(plan, list, allowed.matched, e);
    free(allowed.matched);
    mix_matcher_free(allowed.matcher);
    mix_patterns_free(patterns);
    return ok;
}
