#include "hf/folder/folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/memory.h"
#include "base/name_index.h"

bool hf_folder_open(hf_folder *f, const char *path, gq_error *e) {
    size_t n = strlen(path);
    *f = (hf_folder){.path = NULL};
    while (n > 1 && path[n - 1] == '/') n--;
    f->path = strndup(path, n);
    return f->path || gq_fail_memory(e, n);
}

void hf_folder_close(hf_folder *f) {
    for (size_t i = 0; i < f->n_files; i++) {
        gq_file_close(&f->files[i].file);
        free(f->files[i].name);
    }
    warnings_free(&f->warnings);
    free(f->files), free(f->path);
    *f = (hf_folder){.path = NULL};
}

char *hf_folder_path(const hf_folder *f, const char *name, gq_error *e) {
    char *path;
    if (asprintf(&path, "%s/%s", f->path, name) >= 0) return path;
    gq_fail_memory(e, strlen(f->path) + strlen(name));
    return NULL;
}

bool hf_folder_has(const hf_folder *f, const char *name) {
    enum {
        PATH_BYTES = 8192
    }; /* no system has longer paths; no memory that may lack, as that is no answer */
    char path[PATH_BYTES];
    struct stat st;
    int n = snprintf(path, sizeof path, "%s/%s", f->path, name);
    return n >= 0 && n < PATH_BYTES && lstat(path, &st) == 0;
}

/* ---- warnings ---- */

/* Adds a warning, unless there are enough. */
static bool folder_add_warning(hf_folder *f, const char *text, gq_error *e) {
    if (f->warnings.n > HF_WARNINGS_MOST) return true;
    if (f->warnings.n == HF_WARNINGS_MOST)
        return warnings_add(&f->warnings, e, "%s: further warnings are not shown", f->path);
    return warnings_add(&f->warnings, e, "%s", text);
}

bool hf_folder_warn(hf_folder *f, const char *name, gq_error *e, const char *format, ...) {
    gq_error text;
    char message[512];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    gq_fail(&text, "%s%s%s: %s", f->path, *name ? "/" : "", name, message);
    return folder_add_warning(f, text.text, e);
}

bool hf_folder_warn_failed(hf_folder *f, const gq_error *why, gq_error *e) {
    gq_error text;
    gq_fail(&text, "%s; it is left out", why->text);
    return folder_add_warning(f, text.text, e);
}

/* ---- files ---- */

/* Fails for the text that Git leaves in a large file's place until it is fetched. */
static bool folder_check_pointer(const gq_file *f, gq_error *e) {
    static const char lfs[] = "version https://git-lfs.github.com/spec/";
    char begin[sizeof lfs - 1];
    if (f->size < sizeof begin) return true;
    if (!gq_file_read(f, 0, begin, sizeof begin, e)) return false;
    return memcmp(begin, lfs, sizeof begin) != 0 ||
           gq_fail(e, "%s is a Git LFS pointer, not the file itself: fetch it with git lfs pull", f->path);
}

/* Opens a file of the folder and lists it. A link of the hub's cache whose file was removed is an error of
 * its own. */
static hf_file *folder_list_file(hf_folder *f, const char *name, gq_error *e) {
    struct stat st;
    char *path = hf_folder_path(f, name, e), *copy = strdup(name);
    hf_file *file = NULL;
    bool ok = path && (copy || gq_fail_memory(e, strlen(name))) &&
              memory_grow(&f->files, &f->capacity, f->n_files + 1, sizeof *f->files, e);
    if (ok && lstat(path, &st) == 0 && S_ISLNK(st.st_mode) && stat(path, &st) != 0)
        ok = gq_fail(e, "%s is a link to a file that is not there: %s; download the folder again", path,
                     strerror(errno));
    if (ok) {
        file = &f->files[f->n_files];
        *file = (hf_file){.name = copy};
        ok = gq_file_open(&file->file, path, e);
    }
    free(path);
    if (ok) f->n_files++;
    if (!ok) free(copy);
    return ok ? file : NULL;
}

static hf_file *folder_open_file(hf_folder *f, const char *name, gq_error *e) {
    hf_file *file = folder_list_file(f, name, e);
    return file && folder_check_pointer(&file->file, e) ? file : NULL;
}

bool hf_folder_text(hf_folder *f, const char *name, char **text, size_t *n, gq_error *e) {
    *text = NULL, *n = 0;
    if (!hf_folder_has(f, name)) return true;
    hf_file *file = folder_open_file(f, name, e);
    if (!file) return false;
    uint64_t size = file->file.size;
    char *bytes = NULL;
    bool ok = size <= HF_TEXT_MOST ||
              gq_fail(e, "%s: %llu bytes, expected at most %d", file->file.path, LLU(size), HF_TEXT_MOST);
    ok = ok && ((bytes = malloc(size + 1)) || gq_fail_memory(e, size + 1)) &&
         gq_file_read(&file->file, 0, bytes, size, e);
    if (!ok) {
        free(bytes);
        return false;
    }
    bytes[size] = 0;
    file->content = checksum_add(0, bytes, size);
    close(file->file.fd); /* hundreds of them may stay listed */
    file->file.fd = -1;
    *text = bytes, *n = size;
    return true;
}

bool hf_folder_json(hf_folder *f, const char *name, json_t **json, gq_error *e) {
    char *text;
    size_t n;
    *json = NULL;
    if (!hf_folder_text(f, name, &text, &n, e)) return false;
    if (!text) return true;
    static const char mark[] = "\xef\xbb\xbf"; /* of UTF-8, which some editors put in front */
    size_t skipped = n >= 3 && memcmp(text, mark, 3) == 0 ? 3 : 0;
    hf_json_join_pairs(text + skipped, n - skipped, "merges"); /* of tokenizer.json: half its tree */
    *json = hf_json_parse(f->files[f->n_files - 1].file.path, text + skipped, n - skipped, 0, e);
    free(text);
    return *json != NULL;
}

bool hf_folder_weights(hf_folder *f, const char *name, uint32_t *number, gq_error *e) {
    *number = (uint32_t)f->n_files;
    return folder_open_file(f, name, e) != NULL;
}

void hf_names_free(char **names, size_t n) {
    for (size_t i = 0; i < n; i++) free(names[i]);
    free(names);
}

void hf_names_sort(char **names, size_t n) {
    if (n) qsort(names, n, sizeof *names, name_compare);
}

bool hf_folder_list(const hf_folder *f, const char *begin, const char *end, char ***names, size_t *n,
                    gq_error *e) {
    DIR *d = opendir(f->path);
    size_t capacity = 0, last = strlen(end);
    bool ok = d || gq_fail(e, "cannot open %s: %s", f->path, strerror(errno));
    *names = NULL, *n = 0;
    for (struct dirent *entry; ok && (entry = readdir(d));) {
        size_t length = strlen(entry->d_name);
        if (strncmp(entry->d_name, begin, strlen(begin)) != 0 || length < strlen(begin) + last ||
            strcmp(entry->d_name + length - last, end) != 0)
            continue;
        char *copy = strdup(entry->d_name);
        ok = (copy || gq_fail_memory(e, length)) && memory_grow(names, &capacity, *n + 1, sizeof **names, e);
        if (ok)
            (*names)[(*n)++] = copy;
        else
            free(copy);
    }
    if (d) closedir(d);
    if (ok) hf_names_sort(*names, *n);
    if (!ok) hf_names_free(*names, *n);
    return ok;
}

void hf_folder_fold(const hf_folder *f, uint32_t *content) {
    for (size_t i = 0; i < f->n_files; i++) {
        *content = checksum_add_text(*content, f->files[i].name);
        *content = checksum_add(*content, &f->files[i].content, sizeof f->files[i].content);
    }
}
