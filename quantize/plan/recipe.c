/* The types of a plan's output as a recipe. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quantize/model.h"
#include "quantize/plan/plan.h"

/* Returns the file type to ask for besides the recipe: the output's own, or one that quantizes as well. */
static const char *recipe_filetype(const plan_output *out) {
    const gguf_type *base = gguf_type_of(out->filetype->base);
    return base && base->quantized ? out->filetype->name : "Q8_0";
}

mix_pattern *plan_recipe_patterns(const mix_named_recipe *named, gq_error *e) {
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

char *gq_model_recipe(const gq_model *m, gq_error *e) {
    size_t n = m->file.n_tensors;
    mix_tensor *tensors = calloc(n + 1, sizeof *tensors);
    uint32_t *types = calloc(n + 1, sizeof *types);
    char *text = NULL, comment[512], path[256];
    for (size_t i = 0; tensors && types && i < n; i++) {
        const model_tensor *t = m->file.tensors[i];
        tensors[i] = (mix_tensor){.name = t->name, .type = t->type->id};
        memcpy(tensors[i].ne, t->ne, sizeof t->ne);
        types[i] = t->type->id;
    }
    const char *slash = strrchr(m->file.path, '/');
    gq_printable(path, sizeof path, slash ? slash + 1 : m->file.path);
    snprintf(comment, sizeof comment, "the types of %s", path);
    if (tensors && types)
        text = mix_recipe_write(tensors, types, n, comment, e);
    else
        gq_fail_memory(e, (n + 1) * sizeof *tensors);
    free(tensors), free(types);
    return text;
}

char *gq_plan_recipe(const gq_plan *plan, size_t output, gq_error *e) {
    const plan_output *out = &plan->outputs[output];
    size_t n = plan->n_tensors;
    char input[256], comment[512], *text = NULL;
    mix_tensor *tensors = calloc(n + 1, sizeof *tensors);
    uint32_t *types = calloc(n + 1, sizeof *types);
    for (size_t i = 0; tensors && types && i < n; i++) {
        const gq_tensor *t = &out->tensors[i];
        tensors[i] = (mix_tensor){.name = t->name, .type = t->from};
        memcpy(tensors[i].ne, t->ne, sizeof t->ne);
        types[i] = t->to;
    }
    const char *slash = strrchr(plan_input(plan), '/');
    gq_printable(input, sizeof input, slash ? slash + 1 : plan_input(plan));
    snprintf(comment, sizeof comment, "%s as %s: with this file, %s or any other file type that quantizes",
             input, out->label, recipe_filetype(out));
    if (tensors && types)
        text = mix_recipe_write(tensors, types, n, comment, e);
    else
        gq_fail_memory(e, (n + 1) * sizeof *tensors);
    free(tensors), free(types);
    return text;
}
