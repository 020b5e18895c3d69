#include "base/platform/win32/wide.h"

#include <windows.h>

static const struct {
    DWORD error;
    int number;
} errors[] = {
    {ERROR_FILE_NOT_FOUND, ENOENT},
    {ERROR_PATH_NOT_FOUND, ENOENT},
    {ERROR_INVALID_NAME, ENOENT},
    {ERROR_BAD_PATHNAME, ENOENT},
    {ERROR_INVALID_DRIVE, ENOENT},
    {ERROR_BAD_NETPATH, ENOENT},
    {ERROR_BAD_NET_NAME, ENOENT},
    {ERROR_ACCESS_DENIED, EACCES},
    {ERROR_SHARING_VIOLATION, EBUSY},
    {ERROR_WRITE_PROTECT, EROFS},
    {ERROR_LOCK_VIOLATION, EWOULDBLOCK},
    {ERROR_FILE_EXISTS, EEXIST},
    {ERROR_ALREADY_EXISTS, EEXIST},
    {ERROR_DIRECTORY, ENOTDIR},
    {ERROR_DIR_NOT_EMPTY, ENOTEMPTY},
    {ERROR_DISK_FULL, ENOSPC},
    {ERROR_HANDLE_DISK_FULL, ENOSPC},
    {ERROR_TOO_MANY_OPEN_FILES, EMFILE},
    {ERROR_NOT_ENOUGH_MEMORY, ENOMEM},
    {ERROR_OUTOFMEMORY, ENOMEM},
    {ERROR_INVALID_HANDLE, EBADF},
    {ERROR_NOT_SAME_DEVICE, EXDEV},
    {ERROR_INVALID_PARAMETER, EINVAL},
    {ERROR_INVALID_FUNCTION, EINVAL},
    {ERROR_NOT_SUPPORTED, EOPNOTSUPP},
    {ERROR_CALL_NOT_IMPLEMENTED, ENOSYS},
    {ERROR_BROKEN_PIPE, EPIPE},
    {ERROR_FILENAME_EXCED_RANGE, ENAMETOOLONG},
    {ERROR_NO_UNICODE_TRANSLATION, EILSEQ},
    {ERROR_INSUFFICIENT_BUFFER, ENAMETOOLONG},
};

int wide_fail(void) {
    DWORD error = GetLastError();
    errno = EIO;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].error == error) errno = errors[i].number;
    return -1;
}

static bool is_slash(wchar_t c) { return c == L'/' || c == L'\\'; }

/* \\?\ or \\.\: taken as it is. */
static bool has_prefix(const wchar_t *path) {
    return is_slash(path[0]) && is_slash(path[1]) && (path[2] == L'?' || path[2] == L'.') &&
           is_slash(path[3]);
}

/* To Windows "D:x" is in the folder where its shell was last on D, and "x:y" a stream y of a file x: where
 * names are made beside such a one they would mean something else. "D:" alone is what is left of "D:/x" where
 * the name goes, thus the root. */
static bool place_drive(wchar_t path[WIDE_CAPACITY]) {
    wchar_t *colon = wcschr(path, L':');
    if (!colon) return true;
    if (colon != path + 1 || (path[2] && !is_slash(path[2])) || wcschr(colon + 1, L':'))
        return errno = EINVAL, false;
    if (!path[2]) wcscpy(path + 2, L"\\");
    return true;
}

/* A path of more than MAX_PATH characters needs the prefix that turns off Windows' own treatment of names, so
 * it is made absolute and tidy first. */
static bool lengthen_path(wchar_t path[WIDE_CAPACITY]) {
    enum { PREFIX = 7, FOLDERS_MOST = MAX_PATH - 12 }; /* of which a folder's files need 12 */
    wchar_t whole[WIDE_CAPACITY];
    DWORD n = GetFullPathNameW(path, WIDE_CAPACITY - PREFIX, whole, NULL);
    if (n == 0) return wide_fail() == 0;
    if (n >= WIDE_CAPACITY - PREFIX) return errno = ENAMETOOLONG, false;
    if (n < FOLDERS_MOST || has_prefix(whole)) return true;
    bool server = is_slash(whole[0]); /* \\server\share */
    wcscat(wcscpy(path, server ? L"\\\\?\\UNC" : L"\\\\?\\"), whole + server);
    return true;
}

bool wide_path(const char *path, wchar_t to[WIDE_CAPACITY]) {
    if (!strcmp(path, "/dev/null")) return wcscpy(to, L"NUL");
    if (!*path) return errno = ENOENT, false;
    if (!MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, to, PATH_MAX)) return wide_fail() == 0;
    return has_prefix(to) || (place_drive(to) && lengthen_path(to));
}

FILE *wide_file(void) {
    wchar_t folder[MAX_PATH + 1], path[MAX_PATH + 1];
    DWORD n = GetTempPathW(MAX_PATH + 1, folder);
    if (n > MAX_PATH) return errno = ENAMETOOLONG, NULL;
    if (n == 0 || !GetTempFileNameW(folder, L"gq", 0, path)) return wide_fail(), NULL;
    HANDLE h = CreateFileW(path, GENERIC_READ | GENERIC_WRITE | DELETE, WIDE_SHARED, NULL, CREATE_ALWAYS,
                           FILE_ATTRIBUTE_TEMPORARY | FILE_FLAG_DELETE_ON_CLOSE, NULL);
    if (h == INVALID_HANDLE_VALUE) return wide_fail(), DeleteFileW(path), NULL;
    int fd = _open_osfhandle((intptr_t)h, O_RDWR | O_BINARY | O_NOINHERIT);
    FILE *f = fd < 0 ? NULL : _fdopen(fd, "w+b");
    if (fd < 0)
        CloseHandle(h);
    else if (!f)
        _close(fd);
    return f;
}
