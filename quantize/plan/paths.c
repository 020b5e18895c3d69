/* Names of outputs, of their shards and of what lies beside them while they are made; and whether they may be
 * written. */
#include "quantize/plan/plan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/safe_file.h"
#include "quantize/quantize.h"

static const char *base_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Length of a name without ".gguf" and without a shard's "-kkkkk-of-nnnnn". */
static size_t stem_length(const char *name) {
    size_t n = strlen(name);
    if (n > 5 && !strcmp(name + n - 5, ".gguf")) n -= 5;
    size_t count = 0, number = 0, at = n;
    while (at > 0 && name[at - 1] >= '0' && name[at - 1] <= '9') at--, count++;
    if (count < 5 || at < 5 || strncmp(name + at - 4, "-of-", 4) != 0) return n;
    at -= 4;
    while (at > 0 && name[at - 1] >= '0' && name[at - 1] <= '9') at--, number++;
    return number >= 5 && at > 1 && name[at - 1] == '-' ? at - 1 : n;
}

/* Finds the float type in a model's name; length 0: there is none. The last mention counts, and only one that
 * stands alone between separators. */
static const char *float_type_in(const char *name, size_t length, size_t *found) {
    static const char *const types[] = {"BF16", "FP16", "FP32", "F16", "F32"};
    static const char separators[] = "-._ ";
    for (size_t at = length; at-- > 0;) {
        if (at > 0 && !strchr(separators, name[at - 1])) continue;
        for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
            size_t n = strlen(types[i]), end = at + n;
            if (end <= length && !strncasecmp(name + at, types[i], n) &&
                (end == length || strchr(separators, name[end]))) {
                *found = n;
                return name + at;
            }
        }
    }
    *found = 0;
    return name + length;
}

static char *derive_path(const char *folder, const char *input, const char *begin, const char *filetype) {
    const char *name = base_of(input);
    size_t stem = stem_length(name), type_length;
    const char *type = float_type_in(name, stem, &type_length);
    char *path = NULL;
    int prefix = folder ? (int)strlen(folder) : (int)(name - input);
    int n = asprintf(&path, "%.*s%s%s%.*s%s%s%.*s.gguf", prefix, folder ? folder : input, folder ? "/" : "",
                     begin, (int)(type - name), name, type_length ? "" : "-", filetype,
                     (int)(name + stem - type - type_length), type + type_length);
    return n < 0 ? NULL : path;
}

char *plan_derive_path(const gq_options *options, const char *filetype) {
    char *stem = input_stem(options->input, &options->adapters, NULL),
         *path =
             stem ? derive_path(options->out_dir, stem, options->projector ? "mmproj-" : "", filetype) : NULL;
    free(stem);
    return path;
}

char *plan_shard_path(const char *path, bool prefix, uint32_t k, uint32_t n) {
    const char *name = base_of(path);
    size_t whole = strlen(name);
    char *shard = NULL;
    if (n == 1 && (!prefix || (whole > 5 && !strcmp(name + whole - 5, ".gguf")))) return strdup(path);
    if (n == 1) return asprintf(&shard, "%s.gguf", path) < 0 ? NULL : shard;
    int length = (int)(name - path + (ptrdiff_t)stem_length(name));
    return asprintf(&shard, "%.*s-%05u-of-%05u.gguf", length, path, k + 1, n) < 0 ? NULL : shard;
}

/* ---- may it be written? ---- */

/* The files, other than the model, that the library reads; NULL: not there. The caller's own are
 * options->other_inputs. */
enum { OTHER_INPUTS = 2 };
static void list_others(const gq_options *options, const char *others[OTHER_INPUTS]) {
    const gq_calibration *c = options->calibration;
    others[0] = options->imatrix, others[1] = c && !c->random ? c->text.name : NULL;
}

/* Whether a path is that of a file whose text becomes metadata. */
static bool is_override_file(const gq_options *options, const char *path) {
    for (size_t i = 0; i < options->override_kv.n; i++) {
        const char *file = plan_override_file(options->override_kv.items[i]);
        if (file && files_is_input(path, NULL, &file, 1)) return true;
    }
    return false;
}

static bool check_override_files(const gq_options *options, const char *path, gq_error *e) {
    for (size_t i = 0; i < options->override_kv.n; i++) {
        const char *file = plan_override_file(options->override_kv.items[i]);
        if (file && !files_check_inputs(path, NULL, &file, 1, e)) return false;
    }
    return true;
}

bool plan_check_inputs(const gq_plan *plan, const gq_options *options, const char *path, gq_error *e) {
    const char *others[OTHER_INPUTS];
    list_others(options, others);
    return files_check_inputs(path, &plan->model, others, OTHER_INPUTS, e) &&
           files_check_inputs(path, NULL, options->other_inputs.items, options->other_inputs.n, e) &&
           check_override_files(options, path, e);
}

/* Refuses an output in the place of a model's measurements, which cost minutes to make. */
static bool check_measurements(const gq_plan *plan, const gq_options *options, const char *path,
                               gq_error *e) {
    char *kept = input_kept_path(plan_input(plan), &options->adapters, GQ_MEASURE_SUFFIX, e);
    const char *const others[] = {kept, plan->measure_file};
    bool ok = kept && files_check_inputs(path, &plan->model, others, 2, e);
    free(kept);
    return ok;
}

/* Whether a path lies in a folder that does not exist yet, which a plan alone accepts. */
static bool is_still_missing(const gq_options *options, const char *path) {
    return options->dry_run && files_lack_folder(path);
}

bool plan_warn_missing_folder(gq_plan *plan, const gq_options *options, gq_error *e) {
    for (size_t o = 0; o < plan->n_outputs; o++) {
        const char *path = plan->outputs[o].shards[0].path;
        size_t n = options->out_dir ? strlen(options->out_dir) : 0;
        bool is_made = n > 0 && !strncmp(path, options->out_dir, n) && path[n] == '/';
        if (!is_made && is_still_missing(options, path))
            return warnings_add(&plan->warnings, e, FILES_NO_FOLDER, path);
    }
    return true;
}

static bool paths_check_output(const gq_plan *plan, const gq_options *options, const plan_shard *shard,
                               bool named, gq_error *e) {
    const char *path = shard->path;
    return is_still_missing(options, path) ||
           (plan_check_inputs(plan, options, path, e) && check_measurements(plan, options, path, e) &&
            gq_check_target(path, options->force || options->dry_run || named, e));
}

bool plan_check_beside(const gq_plan *plan, const gq_options *options, const char *path, gq_error *e) {
    const char *others[OTHER_INPUTS];
    list_others(options, others);
    bool is = files_is_input(path, &plan->model, others, OTHER_INPUTS) ||
              files_is_input(path, NULL, options->other_inputs.items, options->other_inputs.n) ||
              files_is_input(path, NULL, (const char *const[]){plan->measure_file}, 1) ||
              is_override_file(options, path);
    return !is ||
           gq_fail(e, "%s is one of the inputs, and has the name of a file that is made beside %s: rename it",
                   path, plan->outputs[0].path);
}

/* The identity of a file's location: one location may have several paths. */
typedef struct path_place {
    uint64_t device, folder;
    const char *name, *path;
} path_place;

static int by_place(const void *a, const void *b) {
    const path_place *x = a, *y = b;
    if (x->device != y->device) return x->device < y->device ? -1 : 1;
    if (x->folder != y->folder) return x->folder < y->folder ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* The folder exists, unless the caller knows that it is missing. */
static bool place_of(path_place *to, const char *path, const gq_options *options, gq_error *e) {
    struct stat st = {.st_size = 0};
    if (is_still_missing(options, path)) {
        *to = (path_place){UINT64_MAX, 0, path, path};
        return true;
    }
    char *folder = safe_file_folder(path);
    if (!folder) return gq_fail_memory(e, strlen(path) + 1);
    bool ok = stat(folder, &st) == 0 || gq_fail(e, "%s: %s", folder, strerror(errno));
    *to = (path_place){st.st_dev, st.st_ino, base_of(path), path};
    free(folder);
    return ok;
}

static bool all_different(const char **paths, size_t n, const gq_options *options, gq_error *e) {
    path_place *places = calloc(n, sizeof *places);
    bool ok = places || gq_fail_memory(e, n * sizeof *places);
    for (size_t i = 0; ok && i < n; i++) ok = place_of(&places[i], paths[i], options, e);
    if (ok) qsort(places, n, sizeof *places, by_place);
    for (size_t i = 1; ok && i < n; i++)
        if (!by_place(&places[i - 1], &places[i]))
            ok = gq_fail_usage(e, "two outputs would be written to %s", places[i].path);
    free(places);
    return ok;
}

static bool check_each(const gq_plan *plan, const gq_options *options, const bool *named, const char **paths,
                       size_t *n, gq_error *e) {
    for (size_t o = 0; o < plan->n_outputs; o++)
        for (uint32_t s = 0; s < plan->outputs[o].n_shards; s++) {
            const plan_shard *shard = &plan->outputs[o].shards[s];
            bool has_name = named && named[*n];
            paths[(*n)++] = shard->path;
            if (!paths_check_output(plan, options, shard, has_name, e) ||
                !plan_check_beside(plan, options, shard->temporary, e))
                return false;
        }
    return true;
}

bool plan_check_targets(const gq_plan *plan, const gq_options *options, const bool *named, gq_error *e) {
    size_t n = 0, outputs = 0;
    for (size_t o = 0; o < plan->n_outputs; o++) n += plan->outputs[o].n_shards;
    const char **paths = calloc(2 * n, sizeof *paths);
    if (!paths) return gq_fail_memory(e, 2 * n * sizeof *paths);
    bool ok = check_each(plan, options, named, paths, &outputs, e) && all_different(paths, n, options, e);
    for (size_t o = 0; ok && o < plan->n_outputs; o++)
        for (uint32_t s = 0; s < plan->outputs[o].n_shards; s++)
            paths[outputs++] = plan->outputs[o].shards[s].temporary;
    ok = ok && all_different(paths, outputs, options, e);
    free(paths);
    return ok;
}

bool plan_outputs_are_there(const gq_plan *plan) {
    bool all = true;
    for (size_t o = 0; all && o < plan->n_outputs; o++)
        for (uint32_t s = 0; all && s < plan->outputs[o].n_shards; s++) {
            const plan_shard *shard = &plan->outputs[o].shards[s];
            struct stat st;
            int fd = safe_file_open(shard->temporary);
            all = fd >= 0 && fstat(fd, &st) == 0;
            uint64_t size = all ? (uint64_t)st.st_size : 0;
            all = all && (plan->share == SHARE_PART ? size <= shard->size : size == shard->size);
            if (fd >= 0) close(fd);
        }
    return all;
}
