#include "publish/publish.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fail.h"
#include "base/file.h"
#include "publish/text.h"

/* Importance matrices are read into memory as a whole; those of models of 400 B take half a gigabyte. */
static const size_t IMATRIX_MOST = (size_t)1 << 32;

/* Returns the end of an importance matrix's name: ".gguf", ".dat", ".dat.gz". */
static const char *imatrix_ending(const char *path) {
    const char *name = page_file_name(path), *dot = strrchr(name, '.'), *end = dot ? dot : ".dat";
    if (dot && !strcmp(dot, ".gz"))
        for (const char *c = dot; c > name && c[-1] != '-'; c--)
            if (c[-1] == '.') return c - 1;
    return end;
}

/* Whether a file has these bytes. */
static bool extras_are_same(const char *path, const char *bytes, size_t n) {
    size_t size;
    char *there = gq_read_whole(path, IMATRIX_MOST, &size, &(gq_error){0});
    bool is = there && size == n && !memcmp(there, bytes, n);
    free(there);
    return is;
}

/* Does what is to be done with the importance matrix's copy: to check that it can be written, or to write it. */
static bool extras_copy_imatrix(const gq_publication *p, bool writes, gq_error *e) {
    struct stat st;
    size_t n;
    char *path = folder_path(p, p->imatrix_name, e);
    if (!path) return false;
    bool is_there = lstat(path, &st) == 0, is_itself = gq_file_is_any(path, &p->options.imatrix, 1);
    char *bytes = is_itself ? NULL : gq_read_whole(p->options.imatrix, IMATRIX_MOST, &n, e);
    bool is_same = is_itself || (bytes && is_there && extras_are_same(path, bytes, n)),
         ok = is_itself || bytes;
    ok = ok && (is_same || !is_there || p->options.force ||
                gq_fail_remedy(e, GQ_REMEDY_REPLACE, "%s already exists and differs from the imatrix %s",
                               path, p->options.imatrix));
    ok = ok && (is_same || !writes || gq_write_whole(path, true, bytes, n, e));
    free(bytes), free(path);
    return ok;
}

bool publication_name_imatrix(gq_publication *p, gq_error *e) {
    const char *given = p->options.imatrix;
    if (!given) return true;
    bool is_here = false;
    char *path = NULL, *folder = strdup(given), *slash = folder ? strrchr(folder, '/') : NULL;
    if (slash) slash[slash == folder] = 0;
    if (folder) is_here = gq_file_is_any(slash ? folder : ".", &p->options.out_dir, 1);
    free(folder);
    int n = is_here ? asprintf(&path, "%s", page_file_name(given))
                    : asprintf(&path, "%s-imatrix%s", p->stem, imatrix_ending(given));
    if (n < 0) return gq_fail_memory(e, strlen(given));
    return p->imatrix_name = path, true;
}

bool publication_check_extras(const gq_publication *p, gq_error *e) {
    return !p->imatrix_name || extras_copy_imatrix(p, false, e);
}

bool publication_write_extras(gq_publication *p, gq_error *e) {
    return (!p->imatrix_name || extras_copy_imatrix(p, true, e)) && folder_write_attributes(p, e);
}
