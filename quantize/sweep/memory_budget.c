#include "quantize/sweep/memory_budget.h"

#include <stdio.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

uint64_t memory_budget_machine(void) {
    return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

uint64_t memory_budget_of(uint64_t asked) { return asked ? asked : memory_budget_machine() / 4; }

uint64_t memory_budget_taken(void) {
    enum { SLACK = 4 << 20 };
    unsigned long long pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    if (f && fscanf(f, "%*u %llu", &pages) != 1) pages = 0;
    if (f) fclose(f);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE) + SLACK;
}

void memory_budget_give_back(void) {
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}
