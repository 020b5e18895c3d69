/* The types of a plan's output as a recipe. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quantize/plan/plan.h"

/* Returns the file type to ask for besides the recipe: the output's own, or one that quantizes as well. */
static const char *recipe_filetype(const plan_output *out) {
    const gguf_type *base = gguf_type_of(out->filetype->base);
    return base && base->quantized ? out->filetype->name : "Q8_0";
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
