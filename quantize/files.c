/* Small files: read whole, and written so that nobody ever sees half of one. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "gguf/file.h"
#include "quantize/run/output.h"

char *gq_read_whole(const char *path, size_t most, size_t *n, gq_error *e) {
    gq_file f;
    char *text = NULL;
    if (!gq_file_open(&f, path, e)) return NULL;
    if (f.size > most)
        gq_fail(e, "%s: has %llu bytes, and at most %zu are read", path, (unsigned long long)f.size, most);
    else if (!(text = malloc(f.size + 1)))
        gq_fail_memory(e, f.size + 1);
    else if (!gq_file_read(&f, 0, text, f.size, e))
        free(text), text = NULL;
    else
        text[ *n = f.size] = 0;
    gq_file_close(&f);
    return text;
}

/* A name that nobody can foretell, so that neither what an earlier run left nor what somebody else put there
 * is in the way. */
static int create_beside(const char *path, char **beside, gq_error *e) {
    enum { TRIES = 100 };
    int fd = -1;
    errno = EEXIST;
    for (int i = 0; fd < 0 && errno == EEXIST && i < TRIES; i++) {
        uint64_t number = 0;
        char suffix[32];
        if (getrandom(&number, sizeof number, GRND_NONBLOCK) < 0)
            number = (uint64_t)getpid() * TRIES + (uint64_t)i;
        snprintf(suffix, sizeof suffix, ".%016llx", (unsigned long long)number);
        free(*beside);
        *beside = plan_beside(path, suffix);
        if (!*beside) return gq_fail_memory(e, strlen(path) + sizeof suffix), -1;
        fd = output_create_ours(*beside);
    }
    if (fd < 0) gq_fail(e, "%s: cannot create %s: %s", path, *beside, strerror(errno));
    return fd;
}

static bool write_to(int fd, gq_writer *write, const void *what) {
    FILE *f = fdopen(fd, "w");
    if (!f) return close(fd), false;
    write(f, what);
    bool ok = fflush(f) == 0 && !ferror(f) && fsync(fd) == 0;
    int error = errno;
    ok = fclose(f) == 0 && ok;
    if (!ok && error) errno = error;
    return ok;
}

/* A write beyond RLIMIT_FSIZE sends the thread SIGXFSZ, which would end the process: it is held back and
 * taken away again, so that the error is all that is left of it. */
static bool fill(int fd, gq_writer *write, const void *what) {
    sigset_t limit, old, pending;
    sigemptyset(&limit);
    sigaddset(&limit, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &limit, &old);
    sigpending(&pending);
    bool ok = write_to(fd, write, what);
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
            path, strerror(error), (unsigned long long)most.rlim_cur);
    return gq_fail(e, "%s: cannot write: %s", path, strerror(error));
}

bool gq_write_whole(const char *path, bool replace, gq_writer *write, const void *what, gq_error *e) {
    char *beside = NULL;
    if (!gq_check_target(path, replace, e)) return false;
    int fd = create_beside(path, &beside, e);
    bool ok = fd >= 0;
    if (ok && !(fill(fd, write, what) && output_rename(beside, path, replace))) {
        ok = fail_write(path, errno, e);
        unlink(beside);
    }
    free(beside);
    return ok;
}
