#include "tests/memory/memory.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

long fail_at;

static bool failing(void) { return fail_at > 0 && --fail_at == 0; }

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
char *__real_strdup(const char *text);
int __real_posix_memalign(void **p, size_t alignment, size_t size);
char *__real_strndup(const char *text, size_t n);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
char *__wrap_strdup(const char *text);
int __wrap_posix_memalign(void **p, size_t alignment, size_t size);
char *__wrap_strndup(const char *text, size_t n);
int __wrap_asprintf(char **to, const char *format, ...) __attribute__((format(printf, 2, 3)));
int __wrap___asprintf_chk(char **to, int flag, const char *format, ...)
    __attribute__((format(printf, 3, 4))); /* asprintf under _FORTIFY_SOURCE */

void *__wrap_malloc(size_t size) { return failing() ? NULL : __real_malloc(size); }
void *__wrap_calloc(size_t n, size_t size) { return failing() ? NULL : __real_calloc(n, size); }
void *__wrap_realloc(void *p, size_t size) { return failing() ? NULL : __real_realloc(p, size); }
char *__wrap_strdup(const char *text) { return failing() ? NULL : __real_strdup(text); }
int __wrap_posix_memalign(void **p, size_t alignment, size_t size) {
    return failing() ? ENOMEM : __real_posix_memalign(p, alignment, size);
}
char *__wrap_strndup(const char *text, size_t n) { return failing() ? NULL : __real_strndup(text, n); }

int __wrap_asprintf(char **to, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int n = failing() ? -1 : vasprintf(to, format, arguments);
    va_end(arguments);
    return n;
}

int __wrap___asprintf_chk(char **to, int flag, const char *format, ...) {
    (void)flag;
    va_list arguments;
    va_start(arguments, format);
    int n = failing() ? -1 : vasprintf(to, format, arguments);
    va_end(arguments);
    return n;
}
