/* Files, as base/platform/win32/posix.h declares them, by Windows' own functions.
 *
 * A path in UTF-8 becomes one in UTF-16 (wide_path), and a file is opened by CreateFileW so that it can be
 * renamed and removed while it is open, which open() there does not allow. Then it gets a number as POSIX has
 * them, and every function finds the handle behind the number again (handle_of). Functions that take an open
 * folder make a whole path of the folder's own and the name (path_in). A failure leaves Windows' error, of
 * which wide_fail makes errno. */
#include <stdarg.h>
#include <windows.h>

#include "base/platform/win32/wide.h"

static HANDLE handle_of(int fd) {
    HANDLE h = (HANDLE)_get_osfhandle(fd);
    if (h == INVALID_HANDLE_VALUE) errno = EBADF;
    return h;
}

/* Something else may stand behind a name: a link, or (deduplicated files, files of a cloud) the same file,
 * whose bytes only come to whom opens it without FILE_FLAG_OPEN_REPARSE_POINT. */
typedef enum { FILE_IS_PLAIN, FILE_IS_LINK, FILE_IS_ELSEWHERE } file_kind;

static file_kind file_kind_of(HANDLE h) {
    FILE_ATTRIBUTE_TAG_INFO info;
    if (!GetFileInformationByHandleEx(h, FileAttributeTagInfo, &info, sizeof info) ||
        !(info.FileAttributes & FILE_ATTRIBUTE_REPARSE_POINT))
        return FILE_IS_PLAIN;
    bool link = info.ReparseTag == IO_REPARSE_TAG_SYMLINK || info.ReparseTag == IO_REPARSE_TAG_MOUNT_POINT;
    return link ? FILE_IS_LINK : FILE_IS_ELSEWHERE;
}

/* ---- opening ---- */

static int open_wide(const wchar_t *path, int flags) {
    static const DWORD rights[] = {
        [O_RDONLY] = GENERIC_READ, [O_WRONLY] = GENERIC_WRITE, [O_RDWR] = GENERIC_READ | GENERIC_WRITE};
    DWORD attributes = FILE_ATTRIBUTE_NORMAL | (flags & O_DIRECTORY ? FILE_FLAG_BACKUP_SEMANTICS : 0) |
                       (flags & O_NOFOLLOW ? FILE_FLAG_OPEN_REPARSE_POINT : 0);
    DWORD how = !(flags & O_CREAT) ? OPEN_EXISTING : flags & O_EXCL ? CREATE_NEW : OPEN_ALWAYS;
    HANDLE h = CreateFileW(path, rights[flags & O_ACCMODE], WIDE_SHARED, NULL, how, attributes, NULL);
    if (h == INVALID_HANDLE_VALUE) return wide_fail();
    file_kind found = flags & O_NOFOLLOW ? file_kind_of(h) : FILE_IS_PLAIN;
    int fd =
        found ? -1 : _open_osfhandle((intptr_t)h, (flags & (O_ACCMODE | O_APPEND)) | O_BINARY | O_NOINHERIT);
    if (fd < 0) CloseHandle(h);
    if (found == FILE_IS_ELSEWHERE) return open_wide(path, flags & ~(O_NOFOLLOW | O_CREAT));
    if (found == FILE_IS_LINK) errno = ELOOP;
    return fd;
}

int win32_open(const char *path, int flags, ...) {
    wchar_t name[WIDE_CAPACITY];
    if (flags & O_TMPFILE) return errno = EOPNOTSUPP, -1;
    return wide_path(path, name) ? open_wide(name, flags) : -1;
}

/* A path of its own for what lies in a folder that is open. */
static bool path_in(int folder, const char *name, wchar_t to[WIDE_CAPACITY]) {
    HANDLE h = handle_of(folder);
    if (h == INVALID_HANDLE_VALUE) return false;
    DWORD n = GetFinalPathNameByHandleW(h, to, WIDE_CAPACITY, FILE_NAME_NORMALIZED | VOLUME_NAME_DOS);
    if (n == 0) return wide_fail() == 0;
    if (n + 1 >= WIDE_CAPACITY) return errno = ENAMETOOLONG, false;
    to[n++] = L'\\';
    return MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, name, -1, to + n, (int)(WIDE_CAPACITY - n)) ||
           wide_fail() == 0;
}

int win32_openat(int folder, const char *name, int flags) {
    wchar_t path[WIDE_CAPACITY];
    return path_in(folder, name, path) ? open_wide(path, flags) : -1;
}

int fcntl(int fd, int command, ...) {
    if (command == F_GETFD) return handle_of(fd) == INVALID_HANDLE_VALUE ? -1 : 0;
    va_list arguments;
    va_start(arguments, command);
    int least = va_arg(arguments, int), copy = _dup(fd);
    va_end(arguments);
    if (copy < 0 || copy >= least) return copy;
    int higher = fcntl(fd, command, least); /* while the lower number is taken */
    _close(copy);
    return higher;
}

/* ---- what is there ---- */

static int stat_handle(HANDLE h, struct stat *st) {
    enum { TICKS = 10 * 1000 * 1000 };        /* of 100 ns in a second */
    const int64_t since_1601 = 11644473600LL; /* seconds from 1601 to 1970 */
    BY_HANDLE_FILE_INFORMATION info;
    FILE_STANDARD_INFO room = {0};
    *st = (struct stat){.st_mode = GetFileType(h) == FILE_TYPE_PIPE ? S_IFIFO : S_IFCHR, .st_nlink = 1};
    if (GetFileType(h) != FILE_TYPE_DISK) return 0;
    if (!GetFileInformationByHandle(h, &info)) return wide_fail();
    GetFileInformationByHandleEx(h, FileStandardInfo, &room, sizeof room);
    int64_t ticks =
        (int64_t)((uint64_t)info.ftLastWriteTime.dwHighDateTime << 32 | info.ftLastWriteTime.dwLowDateTime);
    *st = (struct stat){.st_dev = info.dwVolumeSerialNumber,
                        .st_ino = (uint64_t)info.nFileIndexHigh << 32 | info.nFileIndexLow,
                        .st_size = (uint64_t)info.nFileSizeHigh << 32 | info.nFileSizeLow,
                        .st_blocks = ((uint64_t)room.AllocationSize.QuadPart + 511) / 512,
                        .st_mode = file_kind_of(h) == FILE_IS_LINK                    ? S_IFLNK
                                   : info.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY ? S_IFDIR
                                                                                      : S_IFREG,
                        .st_nlink = info.nNumberOfLinks,
                        .st_mtim = {ticks / TICKS - since_1601, (long)(ticks % TICKS * 100)}};
    return 0;
}

static int stat_wide(const wchar_t *path, DWORD flags, struct stat *st) {
    HANDLE h = CreateFileW(path, FILE_READ_ATTRIBUTES, WIDE_SHARED, NULL, OPEN_EXISTING,
                           flags | FILE_FLAG_BACKUP_SEMANTICS, NULL);
    if (h == INVALID_HANDLE_VALUE) return wide_fail();
    int status = stat_handle(h, st);
    CloseHandle(h);
    return status;
}

int win32_stat(const char *path, struct stat *st) {
    wchar_t name[WIDE_CAPACITY];
    return wide_path(path, name) ? stat_wide(name, 0, st) : -1;
}

int win32_lstat(const char *path, struct stat *st) {
    wchar_t name[WIDE_CAPACITY];
    return wide_path(path, name) ? stat_wide(name, FILE_FLAG_OPEN_REPARSE_POINT, st) : -1;
}

int win32_fstatat(int folder, const char *name, struct stat *st, int flags) {
    wchar_t path[WIDE_CAPACITY];
    DWORD open_as = flags & AT_SYMLINK_NOFOLLOW ? FILE_FLAG_OPEN_REPARSE_POINT : 0;
    return path_in(folder, name, path) ? stat_wide(path, open_as, st) : -1;
}

int win32_fstat(int fd, struct stat *st) {
    HANDLE h = handle_of(fd);
    return h == INVALID_HANDLE_VALUE ? -1 : stat_handle(h, st);
}

int win32_access(const char *path, int mode) {
    struct stat st;
    (void)mode;
    return win32_stat(path, &st);
}

/* ---- names ---- */

int win32_unlink(const char *path) {
    wchar_t name[WIDE_CAPACITY];
    return wide_path(path, name) ? DeleteFileW(name) ? 0 : wide_fail() : -1;
}

int win32_mkdir(const char *path, uint32_t mode) {
    wchar_t name[WIDE_CAPACITY];
    (void)mode;
    return wide_path(path, name) ? CreateDirectoryW(name, NULL) ? 0 : wide_fail() : -1;
}

int win32_rmdir(const char *path) {
    wchar_t name[WIDE_CAPACITY];
    return wide_path(path, name) ? RemoveDirectoryW(name) ? 0 : wide_fail() : -1;
}

int win32_unlinkat(int folder, const char *name, int flags) {
    wchar_t path[WIDE_CAPACITY];
    (void)flags;
    return path_in(folder, name, path) ? DeleteFileW(path) ? 0 : wide_fail() : -1;
}

/* Scanners of viruses and indexers open what is new for a moment, and some do not share it: two seconds of
 * that are no reason to lose the file. */
static int move_path(const char *from, const char *to, DWORD flags) {
    enum { TRIES = 40, PAUSE_MS = 50 };
    wchar_t a[WIDE_CAPACITY], b[WIDE_CAPACITY];
    if (!wide_path(from, a) || !wide_path(to, b)) return -1;
    for (int tries = 1; !MoveFileExW(a, b, flags | MOVEFILE_WRITE_THROUGH); tries++) {
        DWORD error = GetLastError();
        bool held = error == ERROR_ACCESS_DENIED || error == ERROR_SHARING_VIOLATION;
        if (!held || tries == TRIES) return wide_fail();
        Sleep(PAUSE_MS);
    }
    return 0;
}

int win32_rename(const char *from, const char *to) { return move_path(from, to, MOVEFILE_REPLACE_EXISTING); }

int renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags) {
    (void)from_folder, (void)to_folder, (void)flags;
    return move_path(from, to, 0);
}

int link(const char *from, const char *to) {
    wchar_t a[WIDE_CAPACITY], b[WIDE_CAPACITY];
    if (!wide_path(from, a) || !wide_path(to, b)) return -1;
    return CreateHardLinkW(b, a, NULL) ? 0 : wide_fail();
}

/* ---- bytes ---- */

enum { CALL_BYTES = 1 << 30 }; /* of one call, whose count has 32 bits */

ssize_t pread(int fd, void *to, size_t n, off_t offset) {
    HANDLE h = handle_of(fd);
    OVERLAPPED at = {.Offset = (DWORD)offset, .OffsetHigh = (DWORD)((uint64_t)offset >> 32)};
    DWORD done = 0;
    if (h == INVALID_HANDLE_VALUE) return -1;
    if (ReadFile(h, to, n < CALL_BYTES ? (DWORD)n : CALL_BYTES, &done, &at)) return (ssize_t)done;
    return GetLastError() == ERROR_HANDLE_EOF ? 0 : wide_fail();
}

ssize_t pwrite(int fd, const void *from, size_t n, off_t offset) {
    HANDLE h = handle_of(fd);
    OVERLAPPED at = {.Offset = (DWORD)offset, .OffsetHigh = (DWORD)((uint64_t)offset >> 32)};
    DWORD done = 0;
    if (h == INVALID_HANDLE_VALUE) return -1;
    return WriteFile(h, from, n < CALL_BYTES ? (DWORD)n : CALL_BYTES, &done, &at) ? (ssize_t)done
                                                                                  : wide_fail();
}

int fsync(int fd) {
    struct stat st;
    HANDLE h = handle_of(fd);
    if (h == INVALID_HANDLE_VALUE || stat_handle(h, &st) != 0) return -1;
    if (S_ISDIR(st.st_mode)) return errno = EINVAL, -1;
    return FlushFileBuffers(h) ? 0 : wide_fail();
}

/* ---- room ---- */

int win32_ftruncate(int fd, int64_t size) {
    HANDLE h = handle_of(fd);
    FILE_END_OF_FILE_INFO end = {.EndOfFile.QuadPart = size};
    if (h == INVALID_HANDLE_VALUE) return -1;
    return SetFileInformationByHandle(h, FileEndOfFileInfo, &end, sizeof end) ? 0 : wide_fail();
}

/* A file's size is set aside for it, unless it is sparse, which ours are not. */
int fallocate(int fd, int mode, off_t offset, off_t n) {
    struct stat st;
    (void)mode;
    if (win32_fstat(fd, &st) != 0) return -1;
    return st.st_size >= (uint64_t)(offset + n) ? 0 : win32_ftruncate(fd, offset + n);
}

int fstatvfs(int fd, struct statvfs *fs) {
    wchar_t path[WIDE_CAPACITY];
    ULARGE_INTEGER free_bytes;
    if (!path_in(fd, "", path)) return -1;
    wchar_t *name = wcsrchr(path, L'\\');
    *name = 0, name = wcsrchr(path, L'\\'); /* the file's name goes */
    if (name) name[1] = 0;
    if (!GetDiskFreeSpaceExW(path, &free_bytes, NULL, NULL)) return wide_fail();
    *fs = (struct statvfs){.f_bavail = free_bytes.QuadPart, .f_frsize = 1};
    return 0;
}

/* One byte beyond all files stands for the file: what Windows locks nobody else can read. */
int flock(int fd, int operation) {
    HANDLE h = handle_of(fd);
    OVERLAPPED at = {.OffsetHigh = 0x7FFFFFFF};
    if (h == INVALID_HANDLE_VALUE) return -1;
    UnlockFileEx(h, 0, 1, 0, &at);
    DWORD flags = LOCKFILE_FAIL_IMMEDIATELY | (operation & LOCK_EX ? LOCKFILE_EXCLUSIVE_LOCK : 0);
    if (LockFileEx(h, flags, 0, 1, 0, &at)) return 0;
    return wide_fail();
}

/* ---- folders ---- */

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
