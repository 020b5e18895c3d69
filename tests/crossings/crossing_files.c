/* Compares what runs leave behind: names and bytes of the files in two folders, reports without what changes
 * from run to run, the errors in a run's report with those that `compare` measures, the sizes of files with
 * the plan. A comparison returns a malloc'ed sentence about the first difference, or NULL, so that the caller
 * can add which way of which case led to it. Reports are compared as text, line by line, after members with
 * times and thread-dependent numbers are cut out. in_folder reuses its 64 buffers, so functions that make
 * many paths copy those they were given.
 */
#include "tests/crossings/crossing_files.h"

#include <dirent.h>
#include <math.h>
#include <sys/stat.h>

#include "tests/support/json.h"
#include "tests/support/model.h"

static char *text_of(const char *format, ...) __attribute__((format(printf, 1, 2)));
static char *text_of(const char *format, ...) {
    char *text;
    va_list values;
    va_start(values, format);
    assert_true(vasprintf(&text, format, values) >= 0);
    va_end(values);
    return text;
}

/* ---- names ---- */

static int by_name(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

file_list files_in(const char *folder, const char *but) {
    file_list files = {.n = 0};
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *d; (d = readdir(dir));) {
        if (!strcmp(d->d_name, ".") || !strcmp(d->d_name, "..")) continue;
        if (but && !strncmp(d->d_name, but, strlen(but))) continue;
        files.names = realloc(files.names, (files.n + 1) * sizeof *files.names);
        files.names[files.n++] = strdup(d->d_name);
    }
    closedir(dir);
    if (files.n) qsort(files.names, files.n, sizeof *files.names, by_name);
    return files;
}

void files_free(file_list *files) {
    for (size_t i = 0; i < files->n; i++) free(files->names[i]);
    free(files->names);
    *files = (file_list){.n = 0};
}

/* Returns the number in -kkkkk-of-nnnnn.gguf at the end of a name; 0: there is none. */
static unsigned shard_number(const char *name) {
    size_t n = strlen(name);
    unsigned number, count;
    char rest;
    return n > 20 && sscanf(name + n - 20, "-%5u-of-%5u.ggu%c", &number, &count, &rest) == 3 ? number : 0;
}

file_list files_first(const char *folder) {
    file_list all = files_in(folder, "."), first = {.names = calloc(all.n + 1, sizeof *first.names)};
    for (size_t i = 0; i < all.n; i++)
        if (shard_number(all.names[i]) <= 1) first.names[first.n++] = strdup(all.names[i]);
    files_free(&all);
    return first;
}

bool exists_output(const char *folder) {
    file_list files = files_in(folder, ".");
    bool any = files.n > 0;
    files_free(&files);
    return any;
}

/* ---- bytes ---- */

static char *bytes_difference(const char *name, const char *a, const char *b) {
    size_t na, nb, i = 0;
    uint8_t *x = read_whole(a, &na), *y = read_whole(b, &nb);
    while (i < na && i < nb && x[i] == y[i]) i++;
    char *difference =
        i == na && i == nb ? NULL : text_of("%s: %zu and %zu bytes, different at %zu", name, na, nb, i);
    free(x), free(y);
    return difference;
}

/* A copy of a path that in_folder made, which makes 64 before it begins anew. */
#define KEEP(path) path = strcpy((char[4096]){""}, path)

char *files_difference(const char *a, const char *b, const char *but) {
    KEEP(a), KEEP(b);
    file_list x = files_in(a, but), y = files_in(b, but);
    char *difference = NULL;
    for (size_t i = 0; !difference && (i < x.n || i < y.n); i++) {
        int order = i == x.n ? 1 : i == y.n ? -1 : strcmp(x.names[i], y.names[i]);
        if (order)
            difference = text_of("only one has %s", order < 0 ? x.names[i] : y.names[i]);
        else
            difference = bytes_difference(x.names[i], in_folder(a, x.names[i]), in_folder(b, y.names[i]));
    }
    files_free(&x), files_free(&y);
    return difference;
}

/* ---- reports ---- */

/* Cuts a member out of every object; it must not be the last one of an object. */
static void erase_member(char *text, const char *key) {
    for (char *at = text, *end; (at = strstr(at, key));) {
        end = strchr(at, ',') ? strchr(at, ',') + 1 : at + strlen(at);
        memmove(at, end, strlen(end) + 1);
    }
}

char *report_facts(const char *path) {
    static const char *const passing[] = {"  \"seconds\": ",
                                          "  \"plan_seconds\": ",
                                          "  \"isa\": ",
                                          "\"weights_per_second\": ",
                                          "  \"options\": ", /* with the number of threads */
                                          "\"input\": ",     /* any shard may have been named */
                                          "products in bf16 take no less time"}; /* a level may lack AMX */
    char *text = (char *)read_whole(path, NULL), *to = text;
    /* Threads, and the memory that the process has taken already, decide these: how much is run at once, and
     * what is run twice. */
    erase_member(text, "\"memory_bytes\": "), erase_member(text, "\"states_in_file\": ");
    erase_member(text, "\"disk_bytes\": "), erase_member(text, "\"inputs_memory_bytes\": ");
    erase_member(text, "\"inputs_disk_bytes\": "), erase_member(text, "\"gflop\": ");
    erase_member(text, "\"seconds\": "), erase_member(text, "\"models\": [{\"path\": ");
    for (char *line = text, *end; *line; line = end) {
        end = strchr(line, '\n') ? strchr(line, '\n') + 1 : line + strlen(line);
        bool passes = false;
        for (size_t i = 0; i < sizeof passing / sizeof *passing; i++) {
            const char *found = strstr(line, passing[i]);
            passes = passes || (found && found < line + 16 && found < end);
        }
        size_t n = (size_t)(end - line);
        if (passes) continue;
        memmove(to, line, n), to += n;
        if (n > 1 && to[-1] == '\n' && to[-2] == ',')
            *--to = 0, to[-1] = '\n'; /* the last one of a list has none */
    }
    *to = 0;
    return text;
}

char *reports_difference(const char *run, const char *comparison) {
    json *a = json_file(run), *b = json_file(comparison);
    const json *found = &json_need(b, "outputs")->items[0];
    const char *path = json_text(found, "path", ""), *slash = strrchr(path, '/');
    const json *outputs = json_need(a, "outputs"), *said = NULL;
    for (size_t i = 0; i < outputs->n; i++) {
        const char *own = json_text(&outputs->items[i], "path", ""), *base = strrchr(own, '/');
        if (!strcmp(base ? base + 1 : own, slash ? slash + 1 : path)) said = &outputs->items[i];
    }
    char *difference = said ? NULL : text_of("%s is not in the report", path);
    const json *tensors = json_need(found, "tensors");
    for (size_t i = 0; !difference && i < tensors->n; i++) {
        const json *y = &tensors->items[i];
        const json *x = json_named(json_need(said, "tensors"), "name", json_text(y, "name", ""));
        if (!x) {
            difference = text_of("%s is not in the report", json_text(y, "name", ""));
            continue;
        }
        double e = json_number(x, "rmse", 0), f = json_number(y, "rmse", 0);
        if (fabs(e - f) > 1e-6 * fabs(e) && !(isnan(e) && isnan(f)))
            difference = text_of("rmse of %s: %g and %g", json_text(y, "name", ""), e, f);
    }
    json_free(a), json_free(b);
    return difference;
}

char *sizes_difference(const char *folder, const char *plan) {
    KEEP(folder);
    json *report = json_file(plan);
    const json *outputs = json_need(report, "outputs");
    double planned = 0, found = 0;
    for (size_t i = 0; i < outputs->n; i++) planned += json_number(&outputs->items[i], "file_bytes", 0);
    file_list files = files_in(folder, NULL);
    for (size_t i = 0; i < files.n; i++) {
        struct stat st;
        assert_int_equal(stat(in_folder(folder, files.names[i]), &st), 0);
        found += (double)st.st_size;
    }
    files_free(&files), json_free(report);
    return planned == found ? NULL : text_of("%.0f and %.0f bytes", planned, found);
}

char *shards_above(const char *folder, uint64_t most) {
    KEEP(folder);
    file_list files = files_first(folder);
    char *above = NULL;
    for (size_t i = 0; !above && i < files.n; i++) {
        model_source m = open_model(in_folder(folder, files.names[i]));
        for (uint32_t k = 0; k < gguf_container_of(&m)->n_shards; k++)
            if (gguf_container_of(&m)->shards[k].file.size > most &&
                gguf_container_of(&m)->shards[k].n_tensors > 1)
                above = text_of("shard %u of %s has %llu bytes and %llu tensors", k + 1, files.names[i],
                                (unsigned long long)gguf_container_of(&m)->shards[k].file.size,
                                (unsigned long long)gguf_container_of(&m)->shards[k].n_tensors);
        model_close(&m);
    }
    files_free(&files);
    return above;
}
