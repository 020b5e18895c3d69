#include "study/sweep/sweep.h"

#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "base/checked.h"
#include "base/fail.h"
#include "base/units.h"

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

uint64_t memory_budget_peak(void) {
    struct rusage so_far;
    return getrusage(RUSAGE_SELF, &so_far) == 0 ? (uint64_t)so_far.ru_maxrss * 1024 : 0;
}

void memory_budget_give_back(void) {
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

bool memory_budget_fail(const gq_comm *comm, uint64_t asked, const char *to, size_t context, uint64_t taken,
                        gq_error *e) {
    int ranks = comm_machine_ranks(comm);
    char given[UNITS_TEXT_BYTES], needed[UNITS_TEXT_BYTES], enough[UNITS_TEXT_BYTES], where[64] = "";
    const char *whose = asked ? "" : ", a quarter of the machine's,";
    uint64_t bytes = mul_sat(taken, (uint64_t)ranks);
    units_compare_memory(given, memory_budget_of(asked), needed, bytes);
    if (ranks > 1) snprintf(where, sizeof where, " in %d ranks on one machine", ranks);
    gq_fail_usage(e, "%s of memory%s is not enough%s: a layer and a window of %zu tokens take %s%s", given,
                  whose, to, context, needed, where);
    if (!e || asked == memory_budget_machine()) return false;
    /* The memory that this process has at the beginning differs a little from run to run. */
    uint64_t slack = (UINT64_C(2) << 20) + bytes / 64;
    gq_fail_usage(e, "%s; set %s", e->text, units_enough_memory(enough, add_sat(bytes, slack)));
    e->remedy = GQ_REMEDY_MORE_MEMORY;
    return false;
}
