/* The start of a program on Windows: arguments become UTF-8, output is not translated, and the console is set
 * to UTF-8. Linked with -municode. */
#include <windows.h>

int main(int argc, char **argv);
int wmain(int argc, wchar_t **wide);

static char *argument_utf8(const wchar_t *text) {
    int n = WideCharToMultiByte(CP_UTF8, 0, text, -1, NULL, 0, NULL, NULL);
    char *to = malloc((size_t)(n > 0 ? n : 1));
    if (!to) exit(1);
    *to = 0;
    WideCharToMultiByte(CP_UTF8, 0, text, -1, to, n, NULL, NULL);
    return to;
}

/* The console belongs to the shell, too, which finds it as it was. */
static UINT code_page;
static void restore_console(void) { SetConsoleOutputCP(code_page); }

static void prepare_console(int fd) {
    HANDLE h = (HANDLE)_get_osfhandle(fd);
    DWORD mode;
    _setmode(fd, O_BINARY);
    if (fd != STDIN_FILENO && GetConsoleMode(h, &mode))
        SetConsoleMode(h, mode | ENABLE_VIRTUAL_TERMINAL_PROCESSING);
}

int wmain(int argc, wchar_t **wide) {
    char **argv = calloc((size_t)argc + 1, sizeof *argv);
    if (!argv) return 1;
    for (int i = 0; i < argc; i++) argv[i] = argument_utf8(wide[i]);
    code_page = GetConsoleOutputCP();
    if (code_page && SetConsoleOutputCP(CP_UTF8)) atexit(restore_console);
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) prepare_console(fd);
    return main(argc, argv);
}
