#include "bench/turns.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double median(double *v, int n) {
    qsort(v, (size_t)n, sizeof *v, ascending);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

bool listed(const char *names, const char *name) {
    size_t n = strlen(name);
    for (const char *p = names; p && *p; p += strcspn(p, ","), p += *p == ',')
        if (strcspn(p, ",") == n && !strncasecmp(p, name, n)) return true;
    return names == NULL;
}
