/* Small files: read whole, and written so that nobody ever sees half of one. Bytes go to a hidden name beside
 * the target, locked; when they are on disk, the file gets the target's name. The hidden name is the same
 * every time, so that the next writer removes what a killed one left; another name is drawn at random only
 * while a process holds the first, or somebody else's file lies there. Two checks come before: whether the
 * target may be replaced (gq_check_target), and whether it or one of its hidden names is a file that the job
 * reads (files_check_inputs; device and inode tell, so that links do not deceive). The primitives are
 * base/safe_file.h's; outputs of a run are written by quantize/run/output.c. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/checksum.h"
#include "base/fail.h"
#include "base/safe_file.h"
#include "quantize/quantize.h"

bool gq_file_sha256(const char *path, char text[GQ_SHA256_TEXT], gq_error *e) {
    return sha256_file(path, text, NULL, NULL, e);
}

char *gq_read_whole(const char *path, size_t most, size_t *n, gq_error *e) {
    gq_file f;
    char *text = NULL;
    if (!gq_file_open(&f, path, e)) return NULL;
    if (f.size > most)
        gq_fail(e, "%s: has %llu bytes, and at most %zu are read", path, LLU(f.size), most);
    else if (!(text = malloc(f.size + 1)))
        gq_fail_memory(e, f.size + 1);
    else if (!gq_file_read(&f, 0, text, f.size, e))
        free(text), text = NULL;
    else
        text[ *n = f.size] = 0;
    gq_file_close(&f);
    return text;
}

bool files_begin_with(const char *path, const char *word) {
    char begin[4096];
    gq_file f;
    if (!gq_file_open(&f, path, NULL)) return false;
    size_t n = f.size < sizeof begin ? (size_t)f.size : sizeof begin;
    bool is = gq_file_read(&f, 0, begin, n, NULL) && memmem(begin, n, word, strlen(word));
    gq_file_close(&f);
    return is;
}

bool files_lack_folder(const char *path) {
    struct stat st;
    char *folder = safe_file_folder(path);
    bool lacks = folder && stat(folder, &st) != 0 && errno == ENOENT;
    free(folder);
    return lacks;
}

static bool check_folder(const char *path, gq_error *e) {
    struct stat st;
    char *folder = safe_file_folder(path);
    if (!folder) return gq_fail_memory(e, strlen(path) + 1);
    bool ok = true;
    if (stat(folder, &st) != 0)
        ok = gq_fail(e, "cannot write %s: the folder %s %s", path, folder,
                     errno == ENOENT ? "does not exist" : strerror(errno));
    else if (!S_ISDIR(st.st_mode))
        ok = gq_fail(e, "cannot write %s: %s is not a folder", path, folder);
    free(folder);
    return ok;
}

/* Finds where a link leads, malloc'ed; *to NULL: it is none. */
static bool link_target(const char *path, const char *folder, char **to, gq_error *e) {
    char target[PATH_MAX];
    ssize_t n = readlink(path, target, sizeof target - 1);
    *to = NULL;
    if (n <= 0) return true;
    target[n] = 0;
    bool is_whole = *target == '/';
    if (asprintf(to, "%s%s%s", is_whole ? "" : folder, is_whole ? "" : "/", target) >= 0) return true;
    *to = NULL;
    return gq_fail_memory(e, (size_t)n);
}

/* Refuses what stands for a device or an open file of a process, as /dev/stdout does, and a link to it: the entry
 * itself would be replaced, for all programs. */
static bool check_not_system(const char *path, gq_error *e) {
    enum { LINKS = 40 }; /* as many as Linux follows */
    char *at = strdup(path), *next = NULL;
    bool ok = at || gq_fail_memory(e, strlen(path));
    for (int i = 0; at && ok && i < LINKS; i++) {
        char *folder = safe_file_folder(at), *real = folder ? realpath(folder, NULL) : NULL;
        if (!folder || (!real && errno == ENOMEM))
            ok = gq_fail_memory(e, strlen(at));
        else if (real && (!strcmp(real, "/dev") || !strcmp(real, "/proc") || !strncmp(real, "/proc/", 6)))
            ok = gq_fail(e, "%s %s %s, which belongs to the system: name a file in another folder", path,
                         i ? "leads to" : "is in", i ? at : folder);
        ok = ok && link_target(at, folder, &next, e);
        free(at), free(real), free(folder);
        at = next, next = NULL;
    }
    free(at);
    return ok;
}

bool gq_check_target(const char *path, bool replace, gq_error *e) {
    struct stat st;
    const char *slash = strrchr(path, '/');
    size_t n = strlen(slash ? slash + 1 : path);
    if (n == 0) return gq_fail_usage(e, "the output '%s' has no file name", path);
    if (n > NAME_MAX)
        return gq_fail_usage(e, "the output's name has %zu bytes; a file name has at most %d", n, NAME_MAX);
    if (!check_folder(path, e)) return false;
    bool is_there = lstat(path, &st) == 0;
    if (!is_there && errno != ENOENT) return gq_fail(e, "%s: %s", path, strerror(errno));
    /* A link is replaced itself; one that leads to a device stands for what it leads to. */
    if (!is_there || (S_ISLNK(st.st_mode) && stat(path, &st) != 0)) st.st_mode = S_IFREG;
    if (!S_ISREG(st.st_mode))
        return gq_fail(e, "%s is %s, not a regular file", path, gq_file_kind(st.st_mode));
    return check_not_system(path, e) &&
           (!is_there || replace || gq_fail_remedy(e, GQ_REMEDY_REPLACE, "%s already exists", path));
}

void gq_clean_target(const char *path) {
    char *beside = safe_file_beside(path, FILES_NEW_SUFFIX);
    if (beside) safe_file_clean(beside);
    free(beside);
}

bool files_is_input(const char *path, const model_source *model, const char *const *others, size_t n) {
    struct stat st;
    return (model && stat(path, &st) == 0 && model_has_file(model, st.st_dev, st.st_ino)) ||
           gq_file_is_any(path, others, n);
}

/* Checks a file's name and its hidden names: until the file is whole it has one of these, which could be an
 * input's. status: of the failure where one of the names is an input's. */
static bool check_all_names(const char *path, const model_source *model, const char *const *others, size_t n,
                            gq_status status, gq_error *e) {
    static const char *const suffixes[] = {NULL, FILES_NEW_SUFFIX, FILES_LOGITS_SUFFIX};
    bool ok = true;
    for (size_t i = 0; ok && i < sizeof suffixes / sizeof *suffixes; i++) {
        char *name = suffixes[i] ? safe_file_beside(path, suffixes[i]) : strdup(path);
        if (!name) return gq_fail_memory(e, strlen(path));
        ok = !files_is_input(name, model, others, n) ||
             gq_fail_as(e, status, "%s is one of the inputs: writing %s would destroy what is read", name,
                        path);
        free(name);
    }
    return ok;
}

bool files_check_inputs(const char *path, const model_source *model, const char *const *others, size_t n,
                        gq_error *e) {
    return check_all_names(path, model, others, n, GQ_FAILED, e);
}

char *gq_kept_path(const char *model, const char *suffix, gq_error *e) {
    return input_kept_path(model, NULL, suffix, e);
}

/* Whether a file lies in a folder, or in a folder within it, under any name. */
static bool files_is_within(const char *path, const char *folder, bool deeper) {
    DIR *d = opendir(folder);
    bool is = false;
    for (struct dirent *entry; d && !is && (entry = readdir(d));) {
        char *name = NULL;
        struct stat st;
        if (entry->d_name[0] == '.' || asprintf(&name, "%s/%s", folder, entry->d_name) < 0) continue;
        const char *const one = name;
        is = gq_file_is_any(path, &one, 1) ||
             (deeper && stat(name, &st) == 0 && S_ISDIR(st.st_mode) && files_is_within(path, name, false));
        free(name);
    }
    if (d) closedir(d);
    return is;
}

/* Checks against the files of a model, and of its folder's projector. A folder that cannot be opened by
 * itself, as a draft's is without its target, may be read with all that is in it. */
static bool check_model_files(const char *path, const char *input, const gq_adapters *adapters, gq_error *e) {
    model_source model, projector;
    gq_error why = {0}, unused;
    struct stat st;
    bool is_folder = stat(input, &st) == 0 && S_ISDIR(st.st_mode);
    bool is_open = input_open_adapted(&model, input, adapters, &why), ok;
    if (is_open)
        ok = check_all_names(path, &model, NULL, 0, GQ_USAGE, e);
    else if (why.remedy == GQ_REMEDY_MEMORY)
        ok = (*e = why, false);
    else
        ok = !is_folder || !files_is_within(path, input, true) ||
             gq_fail_as(e, GQ_USAGE, "%s is in the folder %s, which is one of the inputs", path, input);
    model_close(&model);
    if (ok && is_folder && input_open_projector(&projector, input, adapters, &unused)) {
        ok = check_all_names(path, &projector, NULL, 0, GQ_USAGE, e);
        model_close(&projector);
    }
    return ok;
}

/* Whether a file, or one of its hidden names, is there: what is not there is no input. */
static bool files_has_any_name(const char *path) {
    static const char *const suffixes[] = {FILES_NEW_SUFFIX, FILES_LOGITS_SUFFIX};
    struct stat st;
    bool has = stat(path, &st) == 0;
    for (size_t i = 0; !has && i < sizeof suffixes / sizeof *suffixes; i++) {
        char *name = safe_file_beside(path, suffixes[i]);
        has = !name || stat(name, &st) == 0;
        free(name);
    }
    return has;
}

/* If an input is a model, all its files are inputs, and what is kept beside it between runs. */
bool gq_check_inputs_adapted(const char *path, const char *input, const gq_adapters *adapters, gq_error *e) {
    static const char *const suffixes[] = {GQ_MEASURE_SUFFIX, GQ_SCORES_SUFFIX};
    bool ok = true;
    for (size_t i = 0; ok && i < sizeof suffixes / sizeof *suffixes; i++) {
        char *kept = input_kept_path(input, adapters, suffixes[i], e);
        ok = kept && check_all_names(path, NULL, (const char *const[]){kept}, 1, GQ_USAGE, e);
        free(kept);
    }
    return ok && (!files_has_any_name(path) || check_model_files(path, input, adapters, e));
}

bool gq_check_inputs(const char *path, const char *const *inputs, size_t n, gq_error *e) {
    bool ok = check_all_names(path, NULL, inputs, n, GQ_USAGE, e);
    for (size_t i = 0; ok && i < n; i++) ok = gq_check_inputs_adapted(path, inputs[i], NULL, e);
    return ok;
}

/* Makes the file beside `path`, locked, and returns its descriptor, or -1. The name is the same every time,
 * so that the next writer removes what a killed one left. Where another process is writing, or somebody
 * else's file lies there, the name is random, which nobody can foresee. *beside: the name, malloc'ed. */
static int create_beside(const char *path, char **beside, gq_error *e) {
    enum { TRIES = 100 };
    *beside = safe_file_beside(path, FILES_NEW_SUFFIX);
    if (!*beside) return gq_fail_memory(e, strlen(path)), -1;
    int fd = safe_file_renew(*beside);
    if (fd < 0) errno = EEXIST;
    for (int i = 0; fd < 0 && errno == EEXIST && i < TRIES; i++) {
        uint64_t number = 0;
        char suffix[32];
        if (getrandom(&number, sizeof number, GRND_NONBLOCK) < 0)
            number = (uint64_t)getpid() * TRIES + (uint64_t)i;
        snprintf(suffix, sizeof suffix, ".%016llx", LLU(number));
        free(*beside);
        *beside = safe_file_beside(path, suffix);
        if (!*beside) return gq_fail_memory(e, strlen(path) + sizeof suffix), -1;
        fd = safe_file_create(*beside);
    }
    if (fd < 0) gq_fail(e, "%s: cannot create %s: %s", path, *beside, strerror(errno));
    return fd;
}

static bool write_piece(int fd, uint64_t offset, const file_piece *piece) {
    static const uint8_t zeros[4096];
    if (piece->bytes) return safe_file_write(fd, offset, piece->bytes, piece->n);
    for (uint64_t at = 0; at < piece->n; at += sizeof zeros) {
        uint64_t left = piece->n - at;
        if (!safe_file_write(fd, offset + at, zeros, left < sizeof zeros ? left : sizeof zeros)) return false;
    }
    return true;
}

/* Writes all pieces. A write beyond RLIMIT_FSIZE sends the thread SIGXFSZ, which would end the process; the
 * signal is blocked and consumed here, so that only the error is left. */
static bool file_write_pieces(int fd, const file_piece *pieces, size_t n) {
    sigset_t limit, old, pending;
    sigemptyset(&limit);
    sigaddset(&limit, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &limit, &old);
    sigpending(&pending);
    bool ok = true;
    uint64_t offset = 0;
    for (size_t i = 0; ok && i < n; offset += pieces[i++].n) ok = write_piece(fd, offset, &pieces[i]);
    ok = ok && fsync(fd) == 0;
    int error = errno;
    if (!sigismember(&pending, SIGXFSZ))
        while (sigtimedwait(&limit, NULL, &(struct timespec){0}) < 0 && errno == EINTR) {
        }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    errno = error;
    return ok;
}

static bool fail_write(const char *path, int error, gq_error *e) {
    struct rlimit most;
    if (error == EFBIG && getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur != RLIM_INFINITY)
        return gq_fail(
            e, "%s: cannot write: %s, files may have at most %llu bytes here (raise the limit: ulimit -f)",
            path, strerror(error), LLU(most.rlim_cur));
    return gq_fail(e, "%s: cannot write: %s", path, strerror(error));
}

bool files_write(const char *path, bool replace, const file_piece *pieces, size_t n, gq_error *e) {
    char *beside = NULL;
    if (!gq_check_target(path, replace, e)) return false;
    int fd = create_beside(path, &beside, e);
    bool ok = fd >= 0;
    if (ok && !(file_write_pieces(fd, pieces, n) && safe_file_rename(beside, path, replace))) {
        ok = fail_write(path, errno, e);
        unlink(beside);
    }
    if (fd >= 0) close(fd); /* it is locked until it has its name */
    free(beside);
    return ok;
}

bool gq_write_whole(const char *path, bool replace, const void *bytes, size_t n, gq_error *e) {
    return files_write(path, replace, &(file_piece){bytes, n}, 1, e);
}

void gq_free(void *memory) { free(memory); }
