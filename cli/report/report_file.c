#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/path.h"
#include "cli/report/render.h"
#include "cli/report/report.h"
#include "cli/report/report_file.h"
#include "cli/report/report_page.h"
#include "cli/text.h"

static const struct {
    const char *extension;
    void (*write)(FILE *to, const report *r);
} formats[] = {{".json", report_json},
               {".csv", report_csv},
               {".html", report_html},
               {".md", report_markdown},
               {".svg", report_svg}};

static int format_of(const char *path) {
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot && i < sizeof formats / sizeof *formats; i++)
        if (strcasecmp(dot, formats[i].extension) == 0) return (int)i;
    return -1;
}

static bool is_in_use(const request *r, const char *path) {
    bool same = path != r->report && r->report && path_same(path, r->report);
    for (size_t i = 0; !same && i < r->files.n; i++) same = path_same(path, r->files.items[i]);
    for (size_t i = 0; !same && i < r->n_arguments; i++) same = path_same(path, r->arguments[i]);
    for (size_t i = 0; !same && i < r->quantize.n_outputs; i++)
        same = path_same(path, r->quantize.outputs[i].path);
    return same;
}

static bool report_check_inputs(const request *r, const char *option, const char *path, gq_error *e) {
    gq_error why;
    const gq_adapters *a = &r->quantize.adapters;
    bool ok = gq_check_inputs(path, r->files.items, r->files.n, &why) &&
              gq_check_inputs(path, r->arguments, r->n_arguments, &why);
    for (size_t i = 0; ok && (a->n || a->base || a->target) && i < r->n_arguments; i++)
        ok = gq_check_inputs_adapted(path, r->arguments[i], a, &why);
    if (ok) return true;
    gq_fail(e, "--%s %s: %s", option, path, why.text);
    return e->status = why.status, false;
}

bool report_check_file(const request *r, const char *option, const char *path, gq_error *e) {
    if (is_in_use(r, path))
        return gq_fail_usage(e, "--%s %s: is a file that this run reads or writes", option, path);
    if (!report_check_inputs(r, option, path, e)) return false;
    if (!gq_check_target(path, true, e)) return false;
    gq_clean_target(path); /* also where this run is then refused */
    char *folder = path_folder(path);
    bool ok = access(folder, W_OK | X_OK) == 0 ||
              gq_fail(e, "--%s %s: cannot write in its folder: %s", option, path, strerror(errno));
    free(folder);
    return ok;
}

bool report_check(const request *r, gq_error *e) {
    if (!r->report) return true;
    if (format_of(r->report) < 0)
        return gq_fail_usage(e, "--report %s: expected a name that ends in .json, .csv, .html, .md or .svg",
                             r->report);
    return report_check_file(r, "report", r->report, e);
}

typedef struct report_job {
    const report *report;
    void (*write)(FILE *to, const report *r);
} report_job;

static void write_format(FILE *to, const void *what) {
    const report_job *j = what;
    j->write(to, j->report);
}

bool report_write(const report *r, const char *path, gq_error *e) {
    return !path || render_file(path, write_format, &(report_job){r, formats[format_of(path)].write}, e);
}
