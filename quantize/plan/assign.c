/* Gives each tensor of an output its type. plan_assignment_new collects what the mixes need to know, once for
 * all outputs: names, shapes, the user's patterns, and which tensors have data about their inputs. plan_assign
 * then asks mix_assign (mixes/mixes.h) for one output and turns its choices into gq_tensors with sizes. For a
 * target this happens several times, as plan/target/target.c tries types. Only when types are final does
 * plan_check_types ask whether they can be written: rows fit the blocks, there is a decoder and an encoder, and
 * imatrix data where the type needs them. Which type is right for a tensor is decided in mixes/, not here. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch/arch.h"
#include "quantize/plan/rounding.h"
#include "quantize/quantize.h"

static bool read_type(const char *name, const char *option, int64_t *type, gq_error *e) {
    uint32_t id;
    *type = -1;
    if (!name) return true;
    if (!mix_type_named(name, option, &id, e)) return false;
    *type = id;
    return true;
}

/* Checks that a tensor can become what the mix chose. needs_data: the type is not to be written without
 * importance. */
static bool check_change(const gq_plan *plan, const plan_output *out, size_t i, bool needs_data,
                         const gq_options *options, gq_error *e) {
    const plan_source *source = &plan->sources[i];
    const gq_tensor *t = &out->tensors[i];
    const char *file = model_file_path(&plan->model, source->tensor);
    const tensor_type *to = tensor_type_of(t->to);
    if (!to) return gq_fail(e, "%s: tensor %s: type %u is unknown", file, t->source_name, t->to);
    if (!gguf_fits_row(to, t->ne[0]))
        return gq_fail(e, "%s: tensor %s%s: rows of %llu elements do not fit %s, whose blocks have %u", file,
                       t->source_name, plan_transposes(source) ? ", transposed" : "", LLU(t->ne[0]), to->name,
                       to->block_elements);
    if (plan_copies(source, t)) return true;
    if (to->row_header_bytes && plan_transposes(source))
        return gq_fail(e,
                       "%s: tensor %s is stored transposed and cannot become %s, whose rows are written "
                       "whole; choose another type for it",
                       file, t->source_name, to->name);
    if (source->tensor->type->quantized && !options->allow_requantize)
        return gq_fail_remedy(e, GQ_REMEDY_REQUANTIZE,
                              "%s: tensor %s is already quantized, as %s; asked for: %s%s", file,
                              t->source_name, tensor_type_name(t->from), tensor_type_name(t->to),
                              plan_transposes(source) ? ", transposed" : "");
    if (!plan->kernels->codecs[t->from].decode)
        return gq_fail(e, "%s: tensor %s is stored as %s, which gquant cannot decode", file, t->source_name,
                       tensor_type_name(t->from));
    if (!plan->kernels->codecs[t->to].encode)
        return gq_fail(e, "%s: tensor %s would become %s, which gquant cannot write", file, t->source_name,
                       tensor_type_name(t->to));
    if (needs_data && !source->inputs.columns && !t->calibrated &&
        !(options->assume_importance && options->dry_run))
        return gq_fail_remedy(e, plan->inputs.n_entries ? GQ_REMEDY_OTHER_TYPE : GQ_REMEDY_IMPORTANCE,
                              "%s: tensor %s: %s in %s %s file needs an imatrix, and %s", file,
                              t->source_name, tensor_type_name(t->to), article(out->label), out->label,
                              source->transposed ? "none is of use to a tensor that is stored transposed"
                              : options->imatrix ? "the one given has no entry for it"
                                                 : "none is given");
    return true;
}

static uint64_t tensor_bytes_as(uint32_t type, const uint64_t ne[4]) {
    const tensor_type *t = tensor_type_of(type);
    return t ? shape_rows(ne) * gguf_row_bytes(t, ne[0]) : 0;
}

static void fill_tensor(gq_tensor *t, plan_source *source, const mix_choice *choice, bool keep_shape) {
    const model_tensor *in = source->tensor;
    *t = (gq_tensor){.name = source->name,
                     .source_name = in->name,
                     .from = in->type->id,
                     .to = choice->type,
                     .wanted = choice->wanted,
                     .why = choice->why ? choice->why : "",
                     .in_bytes = model_stored_bytes(source->stored),
                     .n_dims = in->n_dims,
                     .transposed = source->transposed,
                     .grid_types = source->qat_grid,
                     .origin = model_origin_show(source->stored, &source->origin),
                     .n_weights = shape_elements(in->ne)};
    memcpy(t->ne, in->ne, sizeof t->ne);
    while (!keep_shape && t->n_dims > 1 && t->ne[t->n_dims - 1] == 1) t->n_dims--;
    t->out_bytes = tensor_bytes_as(t->to, t->ne);
}

static void plan_sum_up_output(plan_output *out, size_t n) {
    gq_summary *s = &out->summary;
    *s = (gq_summary){
        .size = sizeof *s, .path = out->path, .filetype = out->label, .n_tensors = n, .expected = NAN};
    for (size_t i = 0; i < n; i++) {
        gq_tensor *t = &out->tensors[i];
        s->n_weights += t->n_weights;
        s->in_bytes += t->in_bytes, s->out_bytes += t->out_bytes;
        if (t->wanted == t->to) continue;
        /* The bytes of the wanted type if rows could end within a block, rounded to the nearest byte. */
        const tensor_type *wanted = tensor_type_of(t->wanted);
        double ideal = wanted ? (double)t->n_weights * wanted->block_bytes / wanted->block_elements +
                                    (double)(shape_rows(t->ne) * wanted->row_header_bytes)
                              : (double)t->out_bytes;
        s->n_fallbacks++;
        if ((double)t->out_bytes > ideal) t->fallback_bytes = (uint64_t)((double)t->out_bytes - ideal + 0.5);
        s->fallback_bytes += t->fallback_bytes;
    }
}

void plan_assignment_free(plan_assignment *a) {
    mix_patterns_free(a->patterns), mix_patterns_free(a->keep);
    free(a->tensors), free(a->order), free(a->types), free(a->covered), free(a->choices);
}

static bool plan_output_allocate(plan_output *out, size_t n, gq_error *e) {
    out->tensors = calloc(n + 1, sizeof *out->tensors);
    out->places = calloc(n + 1, sizeof *out->places);
    return (out->tensors && out->places) || gq_fail_memory(e, (n + 1) * sizeof *out->tensors);
}

static bool read_patterns(const gq_list *items, bool types, mix_pattern **to, gq_error *e) {
    return !items->n || (*to = mix_patterns_new(items->items, items->n, types, e));
}

bool plan_assignment_new(plan_assignment *a, gq_plan *plan, const gq_options *options, gq_error *e) {
    size_t n = plan->n_tensors;
    a->options = (mix_options){.imatrix = plan->rounding->knows_inputs || options->assume_importance,
                               .pure = options->pure,
                               .leave_output = options->leave_output_tensor,
                               .requantize = options->allow_requantize};
    if (!read_type(options->output_tensor_type, "output tensor type", &a->options.output_type, e) ||
        !read_type(options->token_embedding_type, "token embedding type", &a->options.embedding_type, e) ||
        !read_type(options->missing_importance, "missing importance", &a->options.missing_type, e))
        return false;
    if (!read_patterns(&options->tensor_types, true, &a->patterns, e) ||
        !read_patterns(&options->keep, false, &a->keep, e))
        return false;
    a->options.patterns = a->patterns, a->options.keep = a->keep;
    a->model = mix_model_of(&plan->facts);
    a->tensors = calloc(n + 1, sizeof *a->tensors);
    a->order = calloc(n + 1, sizeof *a->order);
    a->types = calloc(n + 1, sizeof *a->types);
    a->choices = calloc(n * plan->n_outputs + 1, sizeof *a->choices);
    a->covered = calloc(n + 1, sizeof *a->covered);
    if (!a->tensors || !a->order || !a->types || !a->covered || !a->choices)
        return gq_fail_memory(e, (n + 1) * (sizeof *a->tensors + plan->n_outputs * sizeof *a->choices));
    for (size_t i = 0; i < n; i++) { /* the sources are in order already */
        const model_tensor *t = plan->sources[i].tensor;
        a->tensors[i] = (mix_tensor){.name = plan->sources[i].name,
                                     .type = t->type->id,
                                     .kept_type = t->kept_type,
                                     .stays = t->stays,
                                     .stays_16 = t->stays_16};
        memcpy(a->tensors[i].ne, t->ne, sizeof t->ne);
        a->order[i] = (uint32_t)i;
        a->covered[i] = rounding_can_round(plan, &plan->sources[i]);
    }
    if (plan->rounding->knows_inputs) a->options.covered = a->covered;
    for (size_t o = 0; o < plan->n_outputs; o++)
        if (!plan_output_allocate(&plan->outputs[o], n, e)) return false;
    return true;
}

bool plan_assign(gq_plan *plan, plan_assignment *a, size_t output, gq_error *e) {
    plan_output *out = &plan->outputs[output];
    mix_choice *choices = a->choices + output * plan->n_tensors;
    size_t n = plan->n_tensors;
    a->options.filetype = out->filetype;
    a->options.recipe = out->recipe;
    if (!mix_assign(&a->model, &a->options, a->tensors, n, a->order, choices, e)) return false;
    /* A converted projector has the dimensions of its file, including trailing ones of 1. */
    const architecture *row = arch_of_facts(&plan->facts);
    bool is_made = row && row->is_projector && plan->model.version == 0,
         keep_shape = mix_is_image_model(plan->facts.arch) || is_made;
    for (size_t i = 0; i < n; i++) fill_tensor(&out->tensors[i], &plan->sources[i], &choices[i], keep_shape);
    if (plan->rounding->kind->choose) plan->rounding->kind->choose(plan, output);
    plan_sum_up_output(out, n);
    return true;
}

bool plan_check_types(const gq_plan *plan, const plan_assignment *a, const gq_options *options, gq_error *e) {
    for (size_t o = 0; o < plan->n_outputs; o++)
        for (size_t i = 0; i < plan->n_tensors; i++)
            if (!check_change(plan, &plan->outputs[o], i, a->choices[o * plan->n_tensors + i].needs_imatrix,
                              options, e))
                return false;
    return true;
}

/* Warns of patterns without effect, which are mostly slips: those that match no tensor, or only tensors that
 * stay as they are. */
bool plan_warn_patterns(gq_plan *plan, const plan_assignment *a, gq_error *e) {
    size_t n = plan->n_outputs * plan->n_tensors;
    mix_idle_patterns types, keep;
    warning_list *to = &plan->warnings;
    return mix_patterns_idle(a->patterns, a->choices, n, &types, e) &&
           mix_patterns_idle(a->keep, a->choices, n, &keep, e) &&
           mix_patterns_warn(to, types.unmatched, types.first_unmatched,
                             "for types: no tensor matches, or earlier patterns take all that do", e) &&
           mix_patterns_warn(to, keep.unmatched, keep.first_unmatched,
                             "to keep unchanged: no tensor matches, or earlier patterns take all that do",
                             e) &&
           mix_patterns_warn(to, types.powerless, types.first_powerless,
                             "for types: all matching tensors are kept unchanged, as they are norms or "
                             "vectors, another option names them, or the file type does not quantize",
                             e);
}

/* ---- a file type's recipe, and the types of an output as one ---- */

/* Returns the file type to name beside the recipe: the output's own, or one that quantizes as well. */
static const char *recipe_filetype(const plan_output *out) {
    const tensor_type *base = tensor_type_of(out->filetype->base);
    return base && base->quantized ? out->filetype->name : "Q8_0";
}

/* Compiles the items of a named recipe; NULL: no memory. */
static mix_pattern *plan_recipe_patterns(const mix_named_recipe *named, gq_error *e) {
    mix_recipe r;
    if (!mix_recipe_read(&r, NULL, named->items, strlen(named->items), e)) return NULL;
    mix_pattern *patterns = mix_patterns_new((const char *const *)r.items, r.n, true, e);
    mix_recipe_free(&r);
    return patterns;
}

bool plan_open_filetype(plan_output *out, const char *name, gq_error *e) {
    const mix_named_recipe *named = mix_recipe_named(name);
    out->filetype = mix_filetype_named(named ? named->filetype : name);
    if (named) return (out->recipe = plan_recipe_patterns(named, e)) != NULL;
    if (out->filetype) return true;
    const char *near = mix_filetype_nearest(name);
    if (!near) return gq_fail_usage(e, "unknown file type '%s'", name);
    return gq_fail_usage(e, "unknown file type '%s'; did you mean %s?", name, near);
}

const gq_named_recipe *gq_named_recipe_at(size_t i) {
    _Static_assert(sizeof(gq_named_recipe) == sizeof(mix_named_recipe), "one is shown as the other");
    return i < mix_n_named_recipes ? (const gq_named_recipe *)&mix_named_recipes[i] : NULL;
}

const gq_named_recipe *gq_named_recipe_find(const char *name) {
    return (const gq_named_recipe *)mix_recipe_named(name);
}

/* Tensor i of what a recipe is written of, and its type there. */
typedef uint32_t (*recipe_tensor)(const void *of, size_t i, mix_tensor *t);

/* Returns the recipe of n tensors behind a comment. The caller frees it. NULL on errors. */
static char *recipe_text(const void *of, size_t n, recipe_tensor tensor, const char *comment, gq_error *e) {
    mix_tensor *tensors = calloc(n + 1, sizeof *tensors);
    uint32_t *types = calloc(n + 1, sizeof *types);
    char *text = NULL;
    for (size_t i = 0; tensors && types && i < n; i++) types[i] = tensor(of, i, &tensors[i]);
    if (tensors && types)
        text = mix_recipe_write(tensors, types, n, comment, e);
    else
        gq_fail_memory(e, (n + 1) * sizeof *tensors);
    free(tensors), free(types);
    return text;
}

/* Writes the last part of a path, fit to be printed, into `name`. Returns it. */
static const char *recipe_file_name(char *name, size_t size, const char *path) {
    const char *slash = strrchr(path, '/');
    gq_printable(name, size, slash ? slash + 1 : path);
    return name;
}

static uint32_t recipe_of_model(const void *of, size_t i, mix_tensor *t) {
    const model_tensor *from = ((const gq_model *)of)->file.tensors[i];
    *t = (mix_tensor){.name = from->name, .type = from->type->id};
    memcpy(t->ne, from->ne, sizeof t->ne);
    return from->type->id;
}

const char *gq_model_filetype(const gq_model *m) {
    const mix_filetype *f = mix_filetype_of(m->file.kv, m->file.n_kv);
    return f ? f->name : NULL;
}

char *gq_model_recipe(const gq_model *m, gq_error *e) {
    char comment[512], name[256];
    snprintf(comment, sizeof comment, "the types of %s", recipe_file_name(name, sizeof name, m->file.path));
    return recipe_text(m, m->file.n_tensors, recipe_of_model, comment, e);
}

static uint32_t recipe_of_output(const void *of, size_t i, mix_tensor *t) {
    const gq_tensor *from = &((const plan_output *)of)->tensors[i];
    *t = (mix_tensor){.name = from->name, .type = from->from};
    memcpy(t->ne, from->ne, sizeof t->ne);
    return from->to;
}

char *gq_plan_recipe(const gq_plan *plan, size_t output, gq_error *e) {
    const plan_output *out = &plan->outputs[output];
    char comment[512], name[256];
    snprintf(comment, sizeof comment, "%s as %s: with this file, %s or any other file type that quantizes",
             recipe_file_name(name, sizeof name, plan_input(plan)), out->label, recipe_filetype(out));
    return recipe_text(out, plan->n_tensors, recipe_of_output, comment, e);
}
