#include "cli/recipe_out.h"

#include <stdlib.h>
#include <string.h>

#include "cli/report/report.h"
#include "cli/report/report_file.h"
#include "cli/text.h"

bool recipe_out_check(const request *r, gq_error *e) {
    const char *path = r->recipe_out;
    size_t n = path ? strlen(path) : 0;
    if (n > 5 && !strcasecmp(path + n - 5, ".gguf"))
        return gq_fail_usage(e, "--recipe-out %s: a recipe is a text, not a model", path);
    return !path || report_check_file(r, "recipe-out", path, e);
}

/* FILE, or of several outputs FILE with the output's type or target before its extension. */
static char *recipe_path(const request *r, const gq_plan *plan, size_t output) {
    const char *path = r->recipe_out, *name = strrchr(path, '/'), *dot = strrchr(name ? name : path, '.');
    if (gq_plan_outputs(plan) == 1) return text_format("%s", path);
    int stem = dot && dot > (name ? name + 1 : path) ? (int)(dot - path) : (int)strlen(path);
    return text_format("%.*s-%s%s", stem, path, gq_plan_summary(plan, output)->filetype, path + stem);
}

static bool write_recipe_of(const request *r, const gq_plan *plan, size_t output, const char *path,
                            gq_error *e) {
    if (gq_plan_outputs(plan) > 1 && !report_check_file(r, "recipe-out", path, e)) return false;
    char *text = gq_plan_recipe(plan, output, e);
    bool ok = text && gq_write_whole(path, true, text, strlen(text), e);
    free(text);
    return ok;
}

bool recipe_out_write(const request *r, const gq_plan *plan, gq_error *e) {
    size_t n = gq_plan_outputs(plan);
    if (!r->recipe_out) return true;
    char **paths = need_memory(n, sizeof *paths);
    bool ok = true;
    for (size_t i = 0; i < n; i++) paths[i] = recipe_path(r, plan, i);
    for (size_t i = 0; ok && i < n; i++)
        for (size_t k = 0; ok && k < i; k++)
            if (!strcmp(paths[i], paths[k]))
                ok = gq_fail_usage(e, "--recipe-out: two recipes would be written to %s", paths[i]);
    for (size_t i = 0; ok && i < n; i++) ok = write_recipe_of(r, plan, i, paths[i], e);
    for (size_t i = 0; i < n; i++) free(paths[i]);
    free(paths);
    return ok;
}
