#include <errno.h>
#include <fcntl.h>
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

static bool same_file(const struct stat *a, const char *path) {
    struct stat b;
    return path && stat(path, &b) == 0 && a->st_dev == b.st_dev && a->st_ino == b.st_ino;
}

static bool taken(const request *r, const struct stat *st) {
    bool same = same_file(st, r->quantize.imatrix);
    for (size_t i = 0; i < r->n_arguments; i++) same |= same_file(st, r->arguments[i]);
    for (size_t i = 0; i < r->quantize.n_outputs; i++) same |= same_file(st, r->quantize.outputs[i].path);
    return same;
}

bool report_check(const request *r, gq_error *e) {
    struct stat st;
    if (!r->report) return true;
    if (r->quantize.parts && !r->quantize.join && !r->dry_run)
        return gq_fail_usage(e, "--report goes with --join: one part does not know the others' losses");
    if (format_of(r->report) < 0)
        return gq_fail_usage(e, "--report %s: expected a name that ends in .json, .csv or .html", r->report);
    if (stat(r->report, &st) == 0) {
        if (taken(r, &st))
            return gq_fail_usage(e, "--report %s: is a model or importance file of this run", r->report);
        if (!S_ISREG(st.st_mode)) return gq_fail(e, "--report %s: is not a regular file", r->report);
    }
    char *folder = format("%s", r->report), *slash = strrchr(folder, '/');
    if (slash) slash[slash == folder] = 0;
    bool ok = access(slash ? folder : ".", W_OK | X_OK) == 0 ||
              gq_fail(e, "--report %s: cannot write in its folder: %s", r->report, strerror(errno));
    free(folder);
    return ok;
}

/* A reader of the report never sees half of it. */
static bool write_beside(const report *r, const char *path, const char *beside, gq_error *e) {
    int fd = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
    if (!f) return gq_fail(e, "%s: cannot create: %s", beside, strerror(errno));
    formats[format_of(path)].write(f, r);
    bool ok = !ferror(f);
    ok = fclose(f) == 0 && ok;
    if (ok && rename(beside, path) == 0) return true;
    gq_fail(e, "%s: cannot write: %s", path, strerror(errno));
    unlink(beside);
    return false;
}

bool report_write(const report *r, const char *path, gq_error *e) {
    if (!path) return true;
    char *beside = format("%s.%ld.tmp", path, (long)getpid());
    bool ok = write_beside(r, path, beside, e);
    free(beside);
    return ok;
}
