#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

/* Up to and with its last slash, and a dot: "folder/.". */
static char *folder_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return format("%.*s.", slash ? (int)(slash - path) + 1 : 0, path);
}

static bool same_file(const char *a, const char *b) {
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* The same file, or the same name for one that is still to be made. */
static bool same_place(const char *a, const char *b) {
    if (!b) return false;
    char *x = folder_of(a), *y = folder_of(b);
    bool same = !strcmp(a + strlen(x) - 1, b + strlen(y) - 1) && same_file(x, y);
    free(x), free(y);
    return same || same_file(a, b);
}

static bool taken(const request *r, const char *path) {
    bool same = same_place(path, r->quantize.imatrix);
    for (size_t i = 0; i < r->n_arguments; i++) same |= same_place(path, r->arguments[i]);
    for (size_t i = 0; i < r->quantize.n_outputs; i++) same |= same_place(path, r->quantize.outputs[i].path);
    return same;
}

bool report_check_file(const request *r, const char *option, const char *path, gq_error *e) {
    if (taken(r, path))
        return gq_fail_usage(e, "--%s %s: is a model or importance file of this run", option, path);
    if (!gq_check_target(path, true, e)) return false;
    char *folder = folder_of(path);
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
    return !path || gq_write_whole(path, true, write_format, &(job){r, formats[format_of(path)].write}, e);
}
