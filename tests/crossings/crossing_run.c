/* Runs the command as a child process in a folder below the case's. The setting says what is to happen to it:
 * an ISA level, faults by a preloaded library (tests/faults/faults.c), a kill or a stop after so many microseconds,
 * a power cut, a limit for files. What it prints goes to files beside the folders and is read from there.
 * Every command line is logged in the form in which a shell would repeat it, for whoever looks into a
 * failure. A run that hangs is ended by an alarm. For two runs at once, start_in stops the first one, and
 * end_started lets it go on or kills it.
 */
#include "tests/crossings/crossing_run.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "tests/support/model.h"

static const char *folder;
static unsigned folders;
static char *log_lines;
static size_t log_length;

/* ---- command lines, for whoever looks into a failure ---- */

static void log_text(const char *text, size_t n) {
    log_lines = realloc(log_lines, log_length + n + 1);
    memcpy(log_lines + log_length, text, n);
    log_lines[log_length += n] = 0;
}

static void log_word(const char *word, bool quoted) {
    if (quoted) log_text(" '", 2);
    for (; *word; word++)
        if (quoted && *word == '\'')
            log_text("'\\''", 4);
        else
            log_text(word, 1);
    if (quoted) log_text("'", 1);
}

static void log_number(const char *format, unsigned long long number) __attribute__((format(printf, 1, 0)));
static void log_number(const char *format, unsigned long long number) {
    char text[64];
    snprintf(text, sizeof text, format, number);
    log_word(text, false);
}

static void log_run(const char *where, const setting *s, const arguments *a) {
    log_word("(cd ", false), log_word(in_folder(folder, where), false), log_word(" &&", false);
    if (s->isa) log_word(" GQUANT_ISA=", false), log_word(s->isa, false);
    if (s->fault) log_word(" GQ_FAULT=", false), log_word(s->fault, false);
    if (s->cut_at) log_number(" GQ_POWER_CUT=%llu", s->cut_at);
#ifdef GQ_FAULTS
    if (s->fault || s->cut_at) log_word(" LD_PRELOAD=" GQ_FAULTS, false);
#endif
    if (s->most_bytes) log_number(" prlimit --fsize=%llu", s->most_bytes);
    if (s->kill_us) log_number(" timeout -s KILL 0.%06llu", s->kill_us); /* below a second */
    if (s->stop_us) log_number(" timeout -s STOP 0.%06llu", s->stop_us);
    log_word(" gquant", false);
    for (size_t i = 0; i < a->n; i++) log_word(a->items[i], true);
    log_word(")\n", false);
}

const char *run_log(void) { return log_lines; }

/* ---- folders ---- */

void run_below(const char *of_case) {
    folder = of_case, folders = 0;
    log_length = 0, log_text("", 0);
}

const char *new_folder(const char *name) {
    static char names[32][64];
    char *to = names[folders++ % 32];
    snprintf(to, sizeof names[0], "%s-%u", name, folders);
    assert_int_equal(mkdir(in_folder(folder, to), 0777), 0);
    return to;
}

/* ---- running ---- */

bool setting_kills(const setting *s) { return s->kill_us || (s->fault && strstr(s->fault, ":kill")); }

static void limit_files(uint64_t most) {
    struct rlimit limit = {.rlim_cur = most, .rlim_max = RLIM_INFINITY};
    if (most) setrlimit(RLIMIT_FSIZE, &limit);
}

/* In the child: becomes the command. `mark` names the file for its messages; "": "stderr", and "stdout" for
 * output. */
static void become(const char *where, const setting *s, const arguments *a, const char *mark) {
    char *argv[128] = {command_path()}, number[32];
    int err = open(in_folder(folder, *mark ? mark : "stderr"), O_WRONLY | O_CREAT | O_TRUNC, 0666),
        out = open(*mark ? "/dev/null" : in_folder(folder, "stdout"), O_WRONLY | O_CREAT | O_TRUNC, 0666);
    memcpy(argv + 1, a->items, a->n * sizeof *a->items);
    if (s->isa) setenv("GQUANT_ISA", s->isa, 1);
#ifdef GQ_FAULTS
    if (s->fault || s->cut_at || s->count_calls) setenv("LD_PRELOAD", GQ_FAULTS, 1);
    if (s->fault) setenv("GQ_FAULT", s->fault, 1);
    if (s->count_calls) setenv("GQ_FAULT_COUNT", in_folder(folder, "calls"), 1);
#endif
    snprintf(number, sizeof number, "%u", s->cut_at);
    if (s->cut_at) setenv("GQ_POWER_CUT", number, 1);
    alarm(SANITIZED ? 300 : 60); /* a hang is a failure, not a wait */
    limit_files(s->most_bytes);
    if (err >= 0 && out >= 0 && dup2(out, 1) == 1 && dup2(err, 2) == 2 &&
        chdir(in_folder(folder, where)) == 0)
        execv(command_path(), argv);
    _exit(127);
}

static pid_t start(const char *where, const setting *s, const arguments *a, const char *mark) {
    log_run(where, s, a);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) become(where, s, a, mark);
    return pid;
}

static void wait_us(unsigned us) { nanosleep(&(struct timespec){us / 1000000, us % 1000000 * 1000}, NULL); }

static outcome outcome_of(int status, const char *mark) {
    outcome o = {.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status)};
    size_t n;
    uint8_t *text = read_whole(in_folder(folder, mark), &n);
    memcpy(o.text, text, n < sizeof o.text ? n : sizeof o.text - 1);
    free(text);
    return o;
}

outcome run_in(const char *where, const setting *s, const arguments *a) {
    struct timespec begun, ended;
    int status;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    pid_t pid = start(where, s, a, "");
    if (s->kill_us) wait_us(s->kill_us), kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    clock_gettime(CLOCK_MONOTONIC, &ended);
    outcome o = outcome_of(status, "stderr");
    o.us = (unsigned)((ended.tv_sec - begun.tv_sec) * 1000000 + (ended.tv_nsec - begun.tv_nsec) / 1000);
    return o;
}

/* ---- faults ---- */

/* Not where another program stands in for the command: the library would be preloaded into that one. */
bool has_faults(void) {
#ifdef GQ_FAULTS
    return !command_stands_in();
#else
    return false;
#endif
}

unsigned calls_counted(const char *kind) {
    char line[64], format[32];
    unsigned n = 0;
    FILE *f = fopen(in_folder(folder, "calls"), "r");
    snprintf(format, sizeof format, "%s %%u", kind);
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, format, &n) == 1) break;
    if (f) fclose(f);
    return n;
}

/* ---- two at once ---- */

static const char FIRST[] = "stderr-of-first";

bool start_in(started *run, const char *where, const setting *s, const arguments *a) {
    *run = (started){.pid = start(where, s, a, FIRST)};
    if (s->stop_us) wait_us(s->stop_us), kill(run->pid, SIGSTOP);
    assert_int_equal(waitpid(run->pid, &run->status, WUNTRACED), run->pid);
    run->ended = !WIFSTOPPED(run->status);
    return !run->ended;
}

outcome end_started(started *run, bool killed) {
    if (!run->ended) {
        kill(run->pid, killed ? SIGKILL : SIGCONT);
        assert_int_equal(waitpid(run->pid, &run->status, 0), run->pid);
        run->ended = true;
    }
    return outcome_of(run->status, FIRST);
}
