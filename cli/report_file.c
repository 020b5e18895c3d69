#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/path.h"
#include "cli/render.h"
#include "cli/report.h"
#include "cli/text.h"

static const struct {
    const char *extension;
    void (*write)(FILE *to, const report *r);
} formats[] = {{".json", report_json}, {".csv", report_csv}, {".html", report_html}};

static int format_of(const char *path) {
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot && i < sizeof formats / sizeof *formats; i++)
        if (strcasecmp(dot, formats[i].extension) == 0) return (int)i;
    return -1;
}

/* A file that is there may be any shard of a model, under whatever name. */
static bool is_shard(const char *path, const char *model) {
    struct stat st;
    gq_error unused;
    gq_model *m = stat(path, &st) == 0 ? gq_model_open(model, &unused) : NULL;
    bool found = false;
    for (uint32_t i = 0; m && !found && i < gq_model_summary(m)->shards; i++)
        found = path_same(path, gq_model_path(m, i));
    gq_model_close(m);
    return found;
}

/* Whether it is where what targets found out of a model is kept. */
static bool is_measurements(const char *path, const char *model) {
    char *kept = format("%s.gquant-measure", model);
    bool same = path_same(path, kept);
    free(kept);
    return same;
}

static bool is_in_use(const request *r, const char *path) {
    bool same = path != r->report && r->report && path_same(path, r->report);
    for (size_t i = 0; !same && i < r->files.n; i++) same = path_same(path, r->files.items[i]);
    for (size_t i = 0; !same && i < r->n_arguments; i++)
        same = path_same(path, r->arguments[i]) || is_shard(path, r->arguments[i]) ||
               is_measurements(path, r->arguments[i]);
    for (size_t i = 0; !same && i < r->quantize.n_outputs; i++)
        same = path_same(path, r->quantize.outputs[i].path);
    return same;
}

bool report_check_file(const request *r, const char *option, const char *path, gq_error *e) {
    if (is_in_use(r, path))
        return gq_fail_usage(e, "--%s %s: is a file that this run reads or writes", option, path);
    if (!gq_check_target(path, true, e)) return false;
    char *folder = path_folder(path);
    bool ok = access(folder, W_OK | X_OK) == 0 ||
              gq_fail(e, "--%s %s: cannot write in its folder: %s", option, path, strerror(errno));
    free(folder);
    return ok;
}

bool report_check(const request *r, gq_error *e) {
    if (!r->report) return true;
    if (format_of(r->report) < 0)
        return gq_fail_usage(e, "--report %s: expected a name that ends in .json, .csv or .html", r->report);
    return report_check_file(r, "report", r->report, e);
}

typedef struct job {
    const report *report;
    void (*write)(FILE *to, const report *r);
} job;

static void write_format(FILE *to, const void *what) {
    const job *j = what;
    j->write(to, j->report);
}

bool report_write(const report *r, const char *path, gq_error *e) {
    return !path || render_file(path, write_format, &(job){r, formats[format_of(path)].write}, e);
}
