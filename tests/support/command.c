#include "tests/support/command.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>

void make_model(const char *const *options) {
    const char *argv[16] = {GQ_MAKE_MODEL};
    for (size_t i = 0; options[i]; i++) argv[i + 1] = options[i];
    assert_int_equal(run_command(argv, NULL, NULL), 0);
}

char *model_folder(void) {
    char *folder = temporary_folder();
    make_model((const char *const[]){"--weights", "4000000", "--imatrix", in_folder(folder, "imatrix.dat"),
                                     in_folder(folder, "model-F16.gguf"), NULL});
    return folder;
}

char *gquant(int status, const char *const *words) {
    const char *argv[48] = {NULL};
    for (size_t i = 0; words[i]; i++) argv[i + 1] = words[i];
    char *err;
    int found = run_command(argv, NULL, &err);
    if (found == status) return err;
    for (size_t i = 0; words[i]; i++) print_message("%s ", words[i]);
    fail_msg("exit status %d, expected %d: %s", found, status, err);
    return NULL;
}

char *output(int status, const char *const *words) {
    const char *argv[24] = {NULL};
    for (size_t i = 0; words[i]; i++) argv[i + 1] = words[i];
    char *out, *err;
    int found = run_command(argv, &out, &err);
    if (found != status) fail_msg("%s: exit status %d, expected %d: %s", words[0], found, status, err);
    free(err);
    return out;
}

void gquant_says(int status, const char *mention, const char *const *words) {
    char *err = gquant(status, words);
    if (!strstr(err, mention)) fail_msg("expected \"%s\" in: %s", mention, err);
    free(err);
}

void assert_plain(const char *text) {
    for (uint32_t code, n; *text; text += n) {
        n = (uint32_t)gq_utf8(text, 4, &code);
        if (n == 0 || (gq_acts(code) && code != '\n')) fail_msg("character %x in: %s", code, text);
    }
}

/* Bounds of memory and CPU time for a small input. CPU time, not wall-clock time: a busy machine is not a slow
 * command. */
enum { LIMIT_KIB = 64 << 10, LIMIT_ADDRESSES = 512 << 20, SECONDS = 10, HANGS = 600 };

static void run_limited(unsigned times, const char *in, const char *const *words) {
    char *argv[64] = {command_path()};
    int null = open("/dev/null", O_RDWR);
    for (size_t i = 0; words[i]; i++) argv[i + 1] = (char *)(uintptr_t)words[i];
    dup2(null, 0), dup2(null, 1), dup2(null, 2);
    rlim_t most = SANITIZED ? 20 * SECONDS : SECONDS;
    setrlimit(RLIMIT_CPU, &(struct rlimit){most, most});
    rlim_t addresses = (rlim_t)LIMIT_ADDRESSES * times;
    if (!SANITIZED && !command_stands_in()) setrlimit(RLIMIT_AS, &(struct rlimit){addresses, addresses});
    alarm(HANGS);
    if (chdir(in) == 0) execv(argv[0], argv);
    _exit(127);
}

static void run_bounded(unsigned times, int most_status, const char *in, const char *const *words) {
    struct rusage use;
    int status;
    char line[512] = "";
    for (size_t i = 0; words[i] && strlen(line) < 400; i++) strcat(strncat(line, words[i], 60), " ");
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) run_limited(times, in, words);
    assert_int_equal(wait4(pid, &status, 0, &use), pid);
    if (!WIFEXITED(status) || WEXITSTATUS(status) > most_status)
        fail_msg("gquant %s: status %x", line, (unsigned)status);
    if (getenv("GQ_BOUNDS_SHOW"))
        print_message("%6ld KiB  %4ld ms  %d  %s\n", use.ru_maxrss,
                      use.ru_utime.tv_sec * 1000 + use.ru_utime.tv_usec / 1000, WEXITSTATUS(status), line);
    if (use.ru_maxrss > (long)times * LIMIT_KIB && !SANITIZED)
        fail_msg("gquant %s: %ld KiB", line, use.ru_maxrss);
}

char *printed(const char *const *words) {
    char *out = NULL, *err = NULL;
    int status = run_command(words, &out, &err);
    if (status != 0) fail_msg("status %d: %s", status, err);
    assert_string_equal(err, "");
    free(err);
    return out;
}

void says(const char *text, const char *expected) {
    if (!strstr(text, expected)) fail_msg("'%s' is not in:\n%s", expected, text);
}

void bounded(const char *in, const char *const *words) { run_bounded(1, 2, in, words); }

void bounded_times(unsigned times, const char *in, const char *const *words) {
    run_bounded(times, 0, in, words);
}

json *plan_report(const char *folder, const char *const *words) {
    const char *argv[48] = {"--dry-run", "--quiet", "--report", in_folder(folder, "plan.json")},
               **to = argv + 4;
    while (*words) *to++ = *words++;
    free(gquant(0, argv));
    json *report = json_file(argv[3]);
    remove(argv[3]);
    return report;
}

const json *report_tensor(const json *report, const char *name) {
    const json *tensors = json_need(&json_need(report, "outputs")->items[0], "tensors");
    for (size_t i = 0; i < tensors->n; i++)
        if (strcmp(json_text(&tensors->items[i], "name", ""), name) == 0) return &tensors->items[i];
    return NULL;
}

const char *report_type(const json *report, const char *name) {
    const json *tensor = report_tensor(report, name);
    if (!tensor) fail_msg("the report has no tensor %s", name);
    return json_text(tensor, "to", "");
}
