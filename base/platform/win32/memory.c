#include <windows.h>

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
