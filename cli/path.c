/* Helpers of the command for paths. Two paths are the same if they lead to one file (device and inode) or, where
 * there is no file yet, if they end in the same name in the same folder. A shell's expansion of model-*.gguf
 * names all shards, of which the first stands for all. Folders that are made for outputs are remembered by how
 * much of the path existed before, so that a job that fails removes what it made and nothing else.
 */
#include "cli/cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

char *path_typed(char *path) {
#ifdef _WIN32
    for (char *at = path; (at = strchr(at, '\\'));) *at = '/';
#endif
    return path;
}

char *path_folder(const char *path) {
    const char *slash = strrchr(path, '/');
    return text_format("%.*s.", slash ? (int)(slash - path) + 1 : 0, path);
}

const char *path_reported(const char *path, bool full) {
    size_t n = full ? 0 : strlen(path);
    while (n > 0 && path[n - 1] == '/') n--; /* a folder's name keeps the slash behind it */
    while (n > 0 && path[n - 1] != '/') n--;
    return path + n;
}

bool path_is_folder(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static bool same_file(const char *a, const char *b) {
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Names of files that are not there yet: Windows and macOS ignore case, unless a folder is set otherwise. */
static bool same_name(const char *a, const char *b) {
#if defined _WIN32 || defined __APPLE__
    return !strcasecmp(a, b);
#else
    return !strcmp(a, b);
#endif
}

bool path_same(const char *a, const char *b) {
    if (!b) return false;
    char *x = path_folder(a), *y = path_folder(b);
    bool same = same_name(a + strlen(x) - 1, b + strlen(y) - 1) && same_file(x, y);
    free(x), free(y);
    return same || same_file(a, b);
}

/* ---- shards ---- */

/* Returns the length of the path before "-kkkkk-of-nnnnn.gguf", as names of shards end; 0: it is no shard. */
static size_t shard_prefix(const char *path) {
    static const char form[] = "-ddddd-of-ddddd.gguf";
    size_t n = strlen(path), m = sizeof form - 1;
    if (n <= m || path[n - m - 1] == '/') return 0;
    for (size_t i = 0; i < m; i++) {
        char c = path[n - m + i];
        if (form[i] == 'd' ? c < '0' || c > '9' : c != form[i]) return 0;
    }
    return n - m;
}

/* Whether both are shards of one model: they differ in the shard's number and in nothing else. */
static bool are_one_model(const char *a, const char *b) {
    size_t prefix = shard_prefix(a), behind = prefix + sizeof "-ddddd" - 1;
    return prefix > 0 && shard_prefix(b) == prefix && strlen(a) == strlen(b) && !strncmp(a, b, prefix) &&
           !strcmp(a + behind, b + behind) && strcmp(a, b) != 0;
}

void path_join_shards(const char **arguments, size_t *n) {
    size_t kept = 0;
    for (size_t i = 0; i < *n; i++)
        if (kept == 0 || !are_one_model(arguments[kept - 1], arguments[i])) arguments[kept++] = arguments[i];
    *n = kept;
}

/* ---- folders that are not there ---- */

bool path_make_folder(const char *folder, size_t *made, gq_error *e) {
    bool ok = true;
    struct stat st;
    char *path = text_format("%s", folder);
    *made = 0;
    for (size_t i = 1; ok && i <= strlen(folder); i++) {
        if (folder[i] != '/' && folder[i] != 0) continue;
#ifdef _WIN32
        if (folder[i - 1] == ':') continue; /* a drive */
#endif
        path[i] = 0; /* one part more each time */
        if (stat(path, &st) != 0 && errno == ENOENT) {
            ok = mkdir(path, 0777) == 0 || errno == EEXIST ||
                 gq_fail(e, "cannot make the folder %s: %s", path, strerror(errno));
            if (ok && *made == 0) *made = i;
        }
        path[i] = folder[i];
    }
    if (!ok) path_remove_folder(folder, *made);
    free(path);
    return ok;
}

void path_remove_folder(const char *folder, size_t made) {
    char *path = text_format("%s", folder);
    for (size_t n = strlen(path); made > 0 && n >= made; n--) {
        bool whole = path[n] == '/' || path[n] == 0;
        path[n] = 0;
        if (whole && rmdir(path) != 0 && errno != ENOENT) break;
    }
    free(path);
}
