/* A team of POSIX threads. */
#include "base/threads_team.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct team_member {
    threads_team *team;
    int number;
    pthread_t thread;
} team_member;

struct threads_team {
    threads_work *enter;
    void *arg;
    int n;
    team_member members[];
};

const char *threads_kind(void) { return "POSIX threads"; }

int threads_available(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
    long n = sysconf(_SC_NPROCESSORS_ONLN); /* more processors than a cpu_set_t holds */
    return n < 1 ? 1 : n > THREADS_MAX ? THREADS_MAX : (int)n;
}

static void *member_enter(void *arg) {
    const team_member *m = arg;
    m->team->enter(m->team->arg, m->number);
    return NULL;
}

threads_team *threads_team_start(int n, threads_work *enter, void *arg, int *started, int *error) {
    threads_team *t = calloc(1, sizeof *t + (size_t)n * sizeof *t->members);
    *started = 0;
    if (!t) return *error = ENOMEM, NULL;
    t->enter = enter, t->arg = arg;
    while (t->n < n && !*error) {
        team_member *m = &t->members[t->n];
        *m = (team_member){.team = t, .number = 1 + t->n};
        *error = threads_start(&m->thread, member_enter, m);
        t->n += !*error;
    }
    *started = t->n;
    if (t->n == 0) free(t), t = NULL;
    return t;
}

void threads_team_end(threads_team *t) {
    for (int i = 0; i < t->n; i++) pthread_join(t->members[i].thread, NULL);
    free(t);
}
