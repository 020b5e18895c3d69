#include "bench/turns.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

double turns_cpu_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double turns_median(double *v, int n) {
    qsort(v, (size_t)n, sizeof *v, compare_doubles);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

bool turns_is_listed(const char *names, const char *name) {
    size_t n = strlen(name);
    for (const char *p = names; p && *p; p += strcspn(p, ","), p += *p == ',')
        if (strcspn(p, ",") == n && !strncasecmp(p, name, n)) return true;
    return names == NULL;
}
