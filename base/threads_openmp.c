/* A team of OpenMP: one parallel region, which lasts as long as the team.
 *
 * OpenMP alone would have a region for each loop. Its threads then wait in the runtime library between two
 * loops, actively for milliseconds, and a loop ends when the last thread of its team has been running,
 * however little was left for it. So the members of this region enter the pool's gate (threads.c), where they
 * sleep soon and nobody waits for those that sleep.
 *
 * The region belongs to a host, a thread of its own, which takes the caller's number in the team and sleeps
 * until the team ends. What follows from that:
 *   - The caller may be in a region of its own program, or in several: the host is in none, so the team is
 *     neither nested nor counted there, and the settings that the host makes are the host's alone.
 *   - A child that is forked has never been in our region, and may have teams itself. libgomp would have it
 *     wait for threads that only its parent has.
 *   - When the host ends, libgomp ends the team's threads. (LLVM's libomp keeps them, asleep, for other
 * teams.)
 *
 * Both runtimes end the process where they cannot start a thread. So as many threads are started before, at
 * the same time and with the same stacks, and the region has as many as there were then. Another process of
 * this user may take the last ones in the milliseconds between; that is the one case that ends the process.
 */
#include "base/threads_team.h"

#include <ctype.h>
#include <errno.h>
#include <omp.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#ifdef KMP_VERSION_MAJOR
#include <sys/resource.h>
#endif
#ifdef __GLIBC__
#include <execinfo.h>
#include <sys/mman.h>
#endif
#include <unistd.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif

struct threads_team {
    int n; /* asked for */
    threads_work *enter;
    void *arg;
    pthread_t host;
    pthread_mutex_t lock; /* over what follows */
    pthread_cond_t changed;
    bool is_up, is_over;
    int started, error;
    pid_t ids[]; /* of the members */
};

const char *threads_kind(void) { return "OpenMP"; }

/* LLVM's runtime makes 1,024 bytes of shared memory when it is first called, and ends the process where no
 * file may have so many (ulimit -f 0). The caller's thread then works alone. */
static bool runtime_can_start(void) {
#ifdef KMP_VERSION_MAJOR
    struct rlimit bytes;
    return getrlimit(RLIMIT_FSIZE, &bytes) != 0 || bytes.rlim_cur >= 1024;
#else
    return true;
#endif
}

/* Not by sched_getaffinity, because OMP_PROC_BIND has bound this thread to one processor. */
int threads_available(void) {
    if (!runtime_can_start()) return 1;
    int n = omp_get_num_procs();
    return n < THREADS_MAX ? n : THREADS_MAX;
}

/* ---- the end of threads ---- */

#ifdef __linux__
static pid_t own_id(void) { return (pid_t)syscall(SYS_gettid); }

/* A thread still counts, and is in the runtime's code, some microseconds after it was joined or has left its
 * team. Nobody should meet it after that: neither a limit of threads nor a program that unloads the library.
 */
static void wait_until_gone(pid_t id) {
    for (int i = 0; i < 10000 && id && syscall(SYS_tgkill, getpid(), id, 0) == 0; i++) usleep(20);
}
#else
static pid_t own_id(void) { return 0; }
static void wait_until_gone(pid_t id) { (void)id; }
#endif

/* ---- how many threads can be started ---- */

/* Trial threads wait here until all were started. */
typedef struct trial_room {
    pthread_mutex_t lock; /* over what follows */
    pthread_cond_t came, over;
    int inside;  /* those that are running */
    int refused; /* those of them that got no addresses */
    bool is_over;
} trial_room;

typedef struct trial {
    pthread_t thread;
    trial_room *room;
    pid_t id;
} trial;

/* glibc takes 128 MiB of addresses for a thread that allocates and keeps half of them, or takes 64 MiB if
 * these happen to begin at a multiple of that, or goes without: by chance it does so in the region and not in
 * the trial. So a trial holds the most. */
#ifdef __GLIBC__
static const size_t most_addresses = (size_t)(sizeof(long) == 8 ? 128 : 2) << 20;

static bool addresses_take(void **at) {
    *at = mmap(NULL, most_addresses, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return *at != MAP_FAILED;
}
static void addresses_give_back(void *at) {
    if (at != MAP_FAILED) munmap(at, most_addresses);
}
#else
static bool addresses_take(void **at) { return *at = NULL, true; }
static void addresses_give_back(void *at) { (void)at; }
#endif

static void *trial_wait(void *arg) {
    trial *t = arg;
    trial_room *room = t->room;
    t->id = own_id();
    void *addresses;
    bool has_them = addresses_take(&addresses);
    pthread_mutex_lock(&room->lock);
    room->inside++, room->refused += !has_them;
    pthread_cond_signal(&room->came);
    while (!room->is_over) pthread_cond_wait(&room->over, &room->lock);
    pthread_mutex_unlock(&room->lock);
    addresses_give_back(addresses);
    return NULL;
}

/* OpenMP's threads have the size of stack that the process gives its threads, unless OMP_STACKSIZE says
 * otherwise. A smaller one than in threads_start is raised, once and for all: teams may start at the same
 * time. */
static void raise_default_stack(void) {
#ifdef __GLIBC__
    pthread_attr_t attributes;
    size_t bytes;
    if (pthread_getattr_default_np(&attributes) != 0) return;
    if (pthread_attr_getstacksize(&attributes, &bytes) == 0 && bytes < THREADS_STACK &&
        pthread_attr_setstacksize(&attributes, THREADS_STACK) == 0)
        pthread_setattr_default_np(&attributes);
    pthread_attr_destroy(&attributes);
#endif
}

#ifndef KMP_VERSION_MAJOR
/* "512k" as libgomp reads it: KiB without a unit. 0: it is no size. */
static size_t stack_bytes(const char *text) {
    static const char units[] = "bkmg";
    char *end;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    if (end == text || errno) return 0;
    end += strspn(end, " \t");
    int shift = 10;
    if (*end) {
        const char *unit = strchr(units, tolower((unsigned char)*end++));
        if (!unit || end[strspn(end, " \t")]) return 0;
        shift = 10 * (int)(unit - units);
    }
    return n <= SIZE_MAX >> shift ? (size_t)n << shift : 0;
}
#endif

/* Bytes of stack that the runtime's settings give its threads; 0: nothing, they get the process's default. */
static size_t stack_asked(void) {
#ifdef KMP_VERSION_MAJOR /* libomp's omp.h */
    return kmp_get_stacksize_s();
#else
    const char *text = getenv("OMP_STACKSIZE"), *own = getenv("GOMP_STACKSIZE");
    size_t bytes = text ? stack_bytes(text) : 0;
    if (!bytes && own) bytes = stack_bytes(own);
    return bytes;
#endif
}

/* Sets the stack size of the runtime's threads. */
static void trial_attributes(pthread_attr_t *attributes) {
    pthread_attr_init(attributes);
    size_t bytes = stack_asked();
#ifdef KMP_VERSION_MAJOR /* each of its threads begins 64 bytes lower */
    bytes = (bytes + THREADS_MAX * 64 + 65535) / 65536 * 65536;
#endif
    if (bytes) pthread_attr_setstacksize(attributes, bytes);
}

/* Returns how many threads can be started, at most n. Each has all its memory before the next is started. */
static int trials_run(int n, int *error) {
    enum {
        SPARE = 1 << 20
    }; /* bytes for what the runtime allocates; it ends the process without them, too */
    trial *trials = calloc((size_t)n, sizeof *trials);
    void *spare = malloc(SPARE);
    int started = 0;
    trial_room room = {.lock = PTHREAD_MUTEX_INITIALIZER,
                       .came = PTHREAD_COND_INITIALIZER,
                       .over = PTHREAD_COND_INITIALIZER};
    pthread_attr_t attributes;
    trial_attributes(&attributes);
    *error = trials && spare ? 0 : ENOMEM;
    pthread_mutex_lock(&room.lock);
    while (started < n && !*error) {
        trials[started].room = &room;
        *error = pthread_create(&trials[started].thread, &attributes, trial_wait, &trials[started]);
        started += !*error;
        while (room.inside < started) pthread_cond_wait(&room.came, &room.lock);
        if (room.refused) *error = ENOMEM;
    }
    int able = started - room.refused;
    room.is_over = true;
    pthread_cond_broadcast(&room.over);
    pthread_mutex_unlock(&room.lock);
    for (int i = 0; i < started; i++) pthread_join(trials[i].thread, NULL);
    for (int i = 0; i < started; i++) wait_until_gone(trials[i].id);
    pthread_mutex_destroy(&room.lock);
    pthread_cond_destroy(&room.came), pthread_cond_destroy(&room.over);
    pthread_attr_destroy(&attributes);
    free(spare), free(trials);
    return able;
}

/* ---- the region ---- */

/* Tells the caller that the team is there, and sleeps until it ends. */
static void host_wait(threads_team *t, int started) {
    pthread_mutex_lock(&t->lock);
    t->started = started;
    if (started < t->n && !t->error) t->error = EAGAIN; /* OMP_THREAD_LIMIT */
    t->is_up = true;
    pthread_cond_signal(&t->changed);
    while (!t->is_over) pthread_cond_wait(&t->changed, &t->lock);
    pthread_mutex_unlock(&t->lock);
}

/* A thread that ends in glibc loads libgcc_s then, and ends the process where it has no memory for that. So
 * it is loaded before the threads start. */
static bool threads_can_end(void) {
#ifdef __GLIBC__
    return backtrace(&(void *){NULL}, 1) > 0;
#else
    return true;
#endif
}

typedef struct own_member {
    threads_team *team;
    int number;
    pthread_t thread;
} own_member;

static void *own_member_enter(void *arg) {
    const own_member *m = arg;
    m->team->ids[m->number - 1] = own_id();
    m->team->enter(m->team->arg, m->number);
    return NULL;
}

/* The team without the runtime, whose threads would have a smaller stack than our loops need. */
static void host_run_own(threads_team *t) {
    own_member *members = calloc((size_t)t->n, sizeof *members);
    int started = 0;
    if (!members) t->error = ENOMEM;
    while (started < t->n && !t->error) {
        own_member *m = &members[started];
        *m = (own_member){.team = t, .number = 1 + started};
        t->error = threads_start(&m->thread, own_member_enter, m);
        started += !t->error;
    }
    host_wait(t, started);
    for (int i = 0; i < started; i++) pthread_join(members[i].thread, NULL);
    free(members);
}

static void *host_run(void *arg) {
    threads_team *t = arg;
    size_t stack = stack_asked();
    if (stack && stack < THREADS_STACK) return host_run_own(t), NULL;
    raise_default_stack();
    if (threads_can_end())
        t->started = trials_run(t->n, &t->error);
    else
        t->error = ENOMEM;
    omp_set_dynamic(0);
#ifdef KMP_VERSION_MAJOR
    kmp_set_blocktime(0); /* so that its threads sleep at once when the region has ended */
#endif
#pragma omp parallel num_threads(1 + t->started)
    {
        int number = omp_get_thread_num();
        if (number == 0) {
            host_wait(t, omp_get_num_threads() - 1);
        } else {
            t->ids[number - 1] = own_id();
            t->enter(t->arg, number);
        }
    }
    return NULL;
}

threads_team *threads_team_start(int n, threads_work *enter, void *arg, int *started, int *error) {
    threads_team *t = calloc(1, sizeof *t + (size_t)n * sizeof *t->ids);
    *started = 0;
    if (!t) return *error = ENOMEM, NULL;
    if (!runtime_can_start()) return free(t), *error = EFBIG, NULL;
    t->n = n, t->enter = enter, t->arg = arg;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->changed, NULL);
    *error = threads_start(&t->host, host_run, t);
    if (*error) {
        pthread_cond_destroy(&t->changed), pthread_mutex_destroy(&t->lock);
        return free(t), NULL;
    }
    pthread_mutex_lock(&t->lock);
    while (!t->is_up) pthread_cond_wait(&t->changed, &t->lock);
    *started = t->started, *error = t->error;
    pthread_mutex_unlock(&t->lock);
    if (*started == 0) threads_team_end(t), t = NULL;
    return t;
}

void threads_team_end(threads_team *t) {
    pthread_mutex_lock(&t->lock);
    t->is_over = true;
    pthread_cond_signal(&t->changed);
    pthread_mutex_unlock(&t->lock);
    pthread_join(t->host, NULL);
#ifndef KMP_VERSION_MAJOR
    for (int i = 0; i < t->started; i++) wait_until_gone(t->ids[i]);
#endif
    pthread_cond_destroy(&t->changed), pthread_mutex_destroy(&t->lock);
    free(t);
}
