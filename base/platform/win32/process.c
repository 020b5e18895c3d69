#include <windows.h>

/* after it */
#include <ntsecapi.h>
#include <psapi.h>

#include "base/platform/win32/wide.h"

long sysconf(int name) {
    SYSTEM_INFO system;
    MEMORYSTATUSEX memory = {.dwLength = sizeof memory};
    GetSystemInfo(&system);
    if (name == _SC_PAGESIZE) return (long)system.dwPageSize;
    if (name == _SC_NPROCESSORS_ONLN) return (long)GetActiveProcessorCount(ALL_PROCESSOR_GROUPS);
    return GlobalMemoryStatusEx(&memory) ? (long)(memory.ullTotalPhys / system.dwPageSize) : 0;
}

ssize_t getrandom(void *to, size_t n, unsigned flags) {
    (void)flags;
    return RtlGenRandom(to, (ULONG)n) ? (ssize_t)n : (errno = EIO, -1);
}

int sched_getaffinity(pid_t process, size_t size, cpu_set_t *set) {
    DWORD_PTR ours, all;
    (void)process, (void)size;
    if (GetActiveProcessorCount(ALL_PROCESSOR_GROUPS) > 64 ||
        !GetProcessAffinityMask(GetCurrentProcess(), &ours, &all) || !ours)
        return errno = EINVAL, -1;
    return set->mask = ours, 0;
}

int win32_cond_timedwait(pthread_cond_t *wake, pthread_mutex_t *lock, const struct timespec *until) {
    enum { SECOND = 1000 * 1000 * 1000 };
    struct timespec now, left;
    clock_gettime(CLOCK_MONOTONIC, &now);
    left = (struct timespec){until->tv_sec - now.tv_sec, until->tv_nsec - now.tv_nsec};
    if (left.tv_nsec < 0) left.tv_sec--, left.tv_nsec += SECOND;
    if (left.tv_sec < 0) return ETIMEDOUT;
    return pthread_cond_timedwait_relative_np(wake, lock, &left);
}

static PROCESS_MEMORY_COUNTERS memory_of(void) {
    PROCESS_MEMORY_COUNTERS m = {0};
    GetProcessMemoryInfo(GetCurrentProcess(), &m, sizeof m);
    return m;
}

int getrusage(int who, struct rusage *use) {
    (void)who;
    use->ru_maxrss = (long)(memory_of().PeakWorkingSetSize / 1024);
    return 0;
}

static FILE *memory_as_linux_tells(void) {
    enum { ROOM = 64 };
    char text[ROOM];
    int ends[2];
    unsigned long long pages = memory_of().WorkingSetSize / (size_t)sysconf(_SC_PAGESIZE);
    int n = snprintf(text, sizeof text, "%llu %llu", pages, pages);
    if (_pipe(ends, ROOM, O_BINARY | O_NOINHERIT) != 0) return NULL;
    bool written = _write(ends[1], text, (unsigned)n) == n;
    _close(ends[1]);
    FILE *f = written ? _fdopen(ends[0], "rb") : NULL;
    if (!f) _close(ends[0]);
    return f;
}

#undef fopen
FILE *win32_fopen(const char *path, const char *mode) {
    return strcmp(path, "/proc/self/statm") ? fopen(path, mode) : memory_as_linux_tells();
}

/* ---- the terminal ---- */

int win32_isatty(int fd) {
    DWORD mode;
    return GetConsoleMode((HANDLE)_get_osfhandle(fd), &mode);
}

int ioctl(int fd, int request, struct winsize *size) {
    CONSOLE_SCREEN_BUFFER_INFO info;
    (void)request;
    if (!GetConsoleScreenBufferInfo((HANDLE)_get_osfhandle(fd), &info)) return errno = ENOTTY, -1;
    size->ws_col = (unsigned short)(info.srWindow.Right - info.srWindow.Left + 1);
    size->ws_row = (unsigned short)(info.srWindow.Bottom - info.srWindow.Top + 1);
    return 0;
}

/* ---- memory that starts with pages ---- */

#undef free

/* Pages of their own, the first of which says so and is not given away: a block of the C library's heap may
 * begin where pages do, but not at the second one of a first that has this. */
enum { PAGE_BYTES = 4096 }; /* the most that is asked for, too */
static const uint64_t ours[2] = {0x9E3779B97F4A7C15, 0xD1B54A32D192ED03};

void *aligned_alloc(size_t alignment, size_t n) {
    void *memory = NULL;
    int error = posix_memalign(&memory, alignment, n);
    if (error) errno = error;
    return memory;
}

int posix_memalign(void **memory, size_t alignment, size_t n) {
    if (alignment > PAGE_BYTES) return EINVAL;
    if (n > SIZE_MAX - PAGE_BYTES - 1) return ENOMEM;
    char *pages = VirtualAlloc(NULL, PAGE_BYTES + (n ? n : 1), MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
    if (!pages) return ENOMEM;
    memcpy(pages, ours, sizeof ours);
    return *memory = pages + PAGE_BYTES, 0;
}

void win32_free(void *memory) {
    MEMORY_BASIC_INFORMATION info;
    if (!memory) return;
    char *first = (char *)memory - PAGE_BYTES;
    if ((uintptr_t)memory % PAGE_BYTES == 0 && VirtualQuery(memory, &info, sizeof info) &&
        info.AllocationBase == first && !memcmp(first, ours, sizeof ours))
        VirtualFree(first, 0, MEM_RELEASE);
    else
        free(memory);
}

void *reallocarray(void *old, size_t n, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes)) return errno = ENOMEM, NULL;
    return realloc(old, bytes);
}
