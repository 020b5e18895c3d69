#include <windows.h>

#include "base/platform/win32/wide.h"

struct win32_folder {
    HANDLE search;
    WIN32_FIND_DATAW next;
    bool has_next;
    int fd; /* -1: nobody has asked for it */
    struct dirent entry;
    char path[];
};

DIR *win32_opendir(const char *path) {
    wchar_t pattern[WIDE_CAPACITY];
    if (!wide_path(path, pattern)) return NULL;
    size_t n = wcslen(pattern);
    if (n + 3 > WIDE_CAPACITY) return errno = ENAMETOOLONG, NULL;
    wcscpy(pattern + n, n && (pattern[n - 1] == L'\\' || pattern[n - 1] == L'/') ? L"*" : L"\\*");
    size_t room = strlen(path) + 1;
    DIR *d = calloc(1, sizeof *d + room);
    if (!d) return NULL;
    d->fd = -1, d->has_next = true;
    memcpy(d->path, path, room);
    d->search = FindFirstFileW(pattern, &d->next);
    if (d->search != INVALID_HANDLE_VALUE) return d;
    wide_fail();
    free(d);
    return NULL;
}

/* Names that are no UTF-16 are left out: no function of ours could open them. */
struct dirent *win32_readdir(DIR *d) {
    for (bool found = false; d->has_next && !found;) {
        found = WideCharToMultiByte(CP_UTF8, WC_ERR_INVALID_CHARS, d->next.cFileName, -1, d->entry.d_name,
                                    sizeof d->entry.d_name, NULL, NULL);
        d->has_next = FindNextFileW(d->search, &d->next);
        if (found) return &d->entry;
    }
    return NULL;
}

int dirfd(DIR *d) {
    if (d->fd < 0) d->fd = open(d->path, O_RDONLY | O_DIRECTORY);
    return d->fd;
}

int win32_closedir(DIR *d) {
    FindClose(d->search);
    if (d->fd >= 0) _close(d->fd);
    free(d);
    return 0;
}

/* Only with to NULL: the path is malloc'ed, with slashes. Links are not followed. */
char *realpath(const char *path, char *to) {
    wchar_t wide[WIDE_CAPACITY], full[WIDE_CAPACITY];
    if (to || !wide_path(path, wide)) return NULL;
    DWORD length = GetFullPathNameW(wide, WIDE_CAPACITY, full, NULL);
    if (length == 0 || length >= WIDE_CAPACITY) return wide_fail(), NULL;
    int n = WideCharToMultiByte(CP_UTF8, WC_ERR_INVALID_CHARS, full, -1, NULL, 0, NULL, NULL);
    char *text = n > 0 ? malloc((size_t)n) : NULL;
    if (!text) return NULL;
    WideCharToMultiByte(CP_UTF8, WC_ERR_INVALID_CHARS, full, -1, text, n, NULL, NULL);
    for (char *c = text; *c; c++)
        if (*c == '\\') *c = '/';
    return text;
}
