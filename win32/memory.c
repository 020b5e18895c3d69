#include <windows.h>

#undef free

/* Memory of its own, whose address is a multiple of 64 KiB, which serves every alignment that is asked for. A
 * block of the C library's heap never is where an allocation of pages begins: its head is there. */
enum { GRANULE = 64 << 10 };

void *aligned_alloc(size_t alignment, size_t n) {
    void *memory = NULL;
    int error = posix_memalign(&memory, alignment, n);
    if (error) errno = error;
    return memory;
}

int posix_memalign(void **memory, size_t alignment, size_t n) {
    if (alignment > GRANULE) return EINVAL;
    *memory = VirtualAlloc(NULL, n ? n : 1, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
    return *memory ? 0 : ENOMEM;
}

void win32_free(void *memory) {
    MEMORY_BASIC_INFORMATION info;
    if (memory && (uintptr_t)memory % GRANULE == 0 && VirtualQuery(memory, &info, sizeof info) &&
        info.AllocationBase == memory)
        VirtualFree(memory, 0, MEM_RELEASE);
    else
        free(memory);
}

void *reallocarray(void *old, size_t n, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes)) return errno = ENOMEM, NULL;
    return realloc(old, bytes);
}
