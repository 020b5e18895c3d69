/* The types of a plan's output as a recipe. */
#include "quantize/plan/recipe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mixes/filetypes.h"
#include "mixes/patterns.h"
#include "mixes/recipe.h"
#include "quantize/input.h"
#include "quantize/plan/plan.h"

/* Returns the file type to ask for besides the recipe: the output's own, or one that quantizes as well. */
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
    if (!near) return gq_fail_usage(e, "there is no file type '%s'", name);
    return gq_fail_usage(e, "there is no file type '%s'; did you mean %s?", name, near);
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
