/* Imatrix data in a plan. The file is read and filtered once, when the plan is opened. A source tensor looks its
 * values up at most once, when something first asks for them (plan_cover_source); plan_cover does it for all
 * tensors that some output quantizes, when types are final, and notes the coverage in the outputs' gq_tensors.
 * What a user may have overlooked becomes one warning each, with the first names: tensors without data, experts
 * that no token reached, entries of no tensor, transposed tensors. Values that do not fit a tensor's columns are
 * an error, except for tensors that may lack data. How files are read and normalised is imatrix/'s. */
#include "quantize/plan/plan.h"

#include <stdio.h>
#include <string.h>

bool plan_open_importance(gq_plan *plan, const gq_options *options, gq_error *e) {
    const gq_list *in = &options->include_weights, *ex = &options->exclude_weights;
    if (!options->imatrix) return true;
    const gq_list *texts = in->n ? in : ex;
    inputs_filter filter = {texts->items, texts->n, .include = in->n > 0};
    if (!model_inputs_read(&plan->inputs, options->imatrix, filter, e) ||
        !warnings_add_lines(&plan->warnings, e, plan->inputs.warnings))
        return false;
    plan->settings.importance = model_inputs_digest(&plan->inputs);
    return plan->inputs.n_entries ||
           warnings_add(&plan->warnings, e,
                        "%s: no entry is left after the filter; quantizing without an imatrix",
                        options->imatrix);
}

static bool find_inputs(const gq_plan *plan, const plan_source *source, tensor_inputs *found, gq_error *e) {
    return model_inputs_find_tensor(&plan->inputs, source->tensor, source->transposed, found, e);
}

bool plan_has_importance(const gq_plan *plan, const plan_source *source) {
    tensor_inputs found;
    return find_inputs(plan, source, &found, NULL) && found.columns;
}

bool plan_cover_source(gq_plan *plan, plan_source *source, const gq_options *options, gq_error *e) {
    const model_tensor *t = source->tensor;
    if (source->covered) return true;
    source->covered = true;
    if (find_inputs(plan, source, &source->inputs, e)) {
        source->inputs_digest = tensor_inputs_digest(&source->inputs);
        return true;
    }
    return mix_may_lack_importance(t->name) &&
           warnings_add(
               &plan->warnings, e,
               "%s: %llu values do not fit the %llu columns of %s, which is quantized without an imatrix",
               options->imatrix, LLU(source->inputs.n_values), LLU(t->ne[0]), t->name);
}

/* "a, b, c and 5 more", in list_text */
enum { NAMES_BYTES = 400, MORE_BYTES = 48 };
typedef struct name_list {
    char text[NAMES_BYTES + MORE_BYTES];
    size_t length;
    uint64_t n, shown;
} name_list;

static void list_name(name_list *l, const char *name) {
    l->n++;
    size_t n = strlen(name);
    if (l->shown + 1 < l->n || l->length + n + 2 >= NAMES_BYTES) return;
    if (l->shown++) memcpy(l->text + l->length, ", ", 2), l->length += 2;
    memcpy(l->text + l->length, name, n + 1);
    l->length += n;
}

static const char *list_text(name_list *l) {
    if (l->n > l->shown) snprintf(l->text + l->length, MORE_BYTES, " and %llu more", LLU(l->n - l->shown));
    return l->text;
}

bool plan_warn_raised(gq_plan *plan, const plan_output *out, const mix_choice *choices, gq_error *e) {
    name_list raised = {.n = 0};
    const gq_tensor *first = NULL;
    for (size_t i = 0; i < plan->n_tensors; i++) {
        if (choices[i].reason != MIX_RAISED) continue;
        list_name(&raised, out->tensors[i].source_name);
        if (!first) first = &out->tensors[i];
    }
    return !first || warnings_add(&plan->warnings, e,
                                  "%s: %llu %s no imatrix data, which %s type requires, and %s %s: %s",
                                  out->label, LLU(raised.n), raised.n == 1 ? "tensor has" : "tensors have",
                                  raised.n == 1 ? "its" : "their", raised.n == 1 ? "becomes" : "become",
                                  tensor_type_name(first->wanted), list_text(&raised));
}

static bool warn_missing(gq_plan *plan, const gq_options *options, name_list *missing, uint64_t covered,
                         gq_error *e) {
    if (missing->n && covered == 0)
        return warnings_add(
            &plan->warnings, e,
            "%s: no entry (of %llu) belongs to a tensor that is quantized; is it of another model?",
            options->imatrix, LLU(plan->inputs.n_entries));
    return missing->n == 0 ||
           warnings_add(&plan->warnings, e, "%llu %s no imatrix data and %s quantized without: %s",
                        LLU(missing->n), missing->n == 1 ? "tensor has" : "tensors have",
                        missing->n == 1 ? "is" : "are", list_text(missing));
}

/* Looks for names in the model, not in the plan: entries of pruned layers are known. */
bool importance_warn_unknown(const model_inputs *inputs, const model_source *model, warning_list *warnings,
                             gq_error *e) {
    name_list unknown = {.n = 0};
    for (uint64_t i = 0; i < inputs->n_entries; i++) {
        const char *name = model_inputs_entry(inputs, i);
        if (!model_tensor_named(model, name)) list_name(&unknown, name);
    }
    return unknown.n == 0 ||
           warnings_add(warnings, e,
                        "%s: %llu of its %llu entries %s of no tensor of the model, so it may be of another "
                        "one: %s",
                        inputs->path, LLU(unknown.n), LLU(inputs->n_entries), unknown.n == 1 ? "is" : "are",
                        list_text(&unknown));
}

static bool warn_unseen(gq_plan *plan, name_list *unseen, uint64_t experts, gq_error *e) {
    return experts == 0 ||
           warnings_add(&plan->warnings, e,
                        "%llu %s no token of the imatrix's text; all their columns count the same: %s",
                        LLU(experts), experts == 1 ? "matrix was reached by" : "matrices were reached by",
                        list_text(unseen));
}

static bool warn_transposed(gq_plan *plan, name_list *names, gq_error *e) {
    return names->n == 0 ||
           warnings_add(&plan->warnings, e,
                        "an imatrix describes columns, which are rows in a transposed tensor; it is not used "
                        "for %llu %s: %s",
                        LLU(names->n), names->n == 1 ? "tensor" : "tensors", list_text(names));
}

/* Whether at least one output quantizes the tensor in a way that uses importance. */
static bool uses_importance(const gq_plan *plan, size_t tensor) {
    for (size_t o = 0; o < plan->n_outputs; o++) {
        const gq_tensor *t = &plan->outputs[o].tensors[tensor];
        if (mix_uses_importance(t->from, t->to)) return true;
    }
    return false;
}

bool plan_cover(gq_plan *plan, const gq_options *options, gq_error *e) {
    if (!plan->inputs.n_entries) return true;
    name_list missing = {.n = 0}, unseen = {.n = 0}, transposed = {.n = 0};
    uint64_t covered = 0, experts = 0;
    for (size_t i = 0; i < plan->n_tensors; i++) {
        plan_source *source = &plan->sources[i];
        if (!uses_importance(plan, i)) continue;
        if (source->transposed) {
            list_name(&transposed, source->tensor->name);
            continue;
        }
        if (!plan_cover_source(plan, source, options, e)) return false;
        const tensor_inputs *inputs = &source->inputs;
        covered += inputs->columns > 0;
        experts += inputs->n_unseen;
        if (!inputs->columns && !mix_is_outside_importance(source->tensor->name))
            list_name(&missing, source->tensor->name);
        if (inputs->n_unseen) list_name(&unseen, source->tensor->name);
        for (size_t o = 0; o < plan->n_outputs; o++) {
            gq_tensor *t = &plan->outputs[o].tensors[i];
            gq_summary *s = &plan->outputs[o].summary;
            if (!mix_uses_importance(t->from, t->to)) continue;
            t->importance = inputs->columns ? GQ_IMPORTANCE_FULL : GQ_IMPORTANCE_MISSING;
            t->experts = inputs->n_counted, t->experts_unseen = inputs->n_unseen;
            s->n_without_imatrix += !inputs->columns;
            s->n_experts_unseen += inputs->n_unseen;
        }
    }
    bool useless = missing.n && !covered; /* which is warned of by itself */
    return warn_missing(plan, options, &missing, covered, e) &&
           (useless || importance_warn_unknown(&plan->inputs, &plan->model, &plan->warnings, e)) &&
           warn_unseen(plan, &unseen, experts, e) && warn_transposed(plan, &transposed, e);
}
