/* The command from its words to its exit status: the words become a request, the request's command runs, and
 * what was printed is flushed. Several ranks (gquant-mpi) all do that with the same words. They share the
 * work of some commands; rank 0 alone does the others, and prints. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "cli/cli.h"
#include "cli/options/options.h"
#include "cli/report/table.h"

/* A caller may have closed the standard descriptors; the next file opened would get their numbers. They are
 * opened the wrong way round, so that using them fails as it does when they are closed. */
static void occupy_descriptors(void) {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0) return;
}

static const struct {
    command id;
    int (*run)(const request *r);
} mains[] = {
    {CMD_QUANTIZE, quantize_main}, {CMD_INFO, info_main},         {CMD_PLAN, plan_main},
    {CMD_COMPARE, compare_main},   {CMD_VERIFY, verify_main},     {CMD_IMATRIX, imatrix_main},
    {CMD_EVALUATE, evaluate_main}, {CMD_TOKENIZE, tokenize_main}, {CMD_TEXT, text_main},
    {CMD_TYPES, types_main},       {CMD_PUBLISH, publish_main},   {CMD_COMPLETION, completion_main},
    {CMD_HELP, help_main},         {CMD_VERSION, version_main},
};

/* Whether ranks share the work of a command. Rank 0 does all others alone. */
static bool is_shared(const request *r) {
    bool computes = r->command == CMD_IMATRIX && r->n_arguments && !strcmp(r->arguments[0], "compute");
    return computes || (r->command == CMD_EVALUATE && !r->speed) || r->command == CMD_QUANTIZE;
}

/* Makes rank 0 alone write messages that all ranks have. */
static void be_silent(request *r) {
    for (size_t i = 0; i < r->n_given; i++)
        if (r->given[i].option->commands & ONE_RANK) option_clear(r, r->given[i].option);
    r->quiet = true;
}

static int command_main(const request *r) {
    if (r->help) return help_main(r);
    if (r->version) return version_main(r);
    for (size_t i = 0; i < sizeof mains / sizeof *mains; i++)
        if (mains[i].id == r->command) return mains[i].run(r);
    return GQ_FAILED;
}

/* Flushes what is still to be printed. A finished model counts as success even if nobody can read the
 * message. */
static int close_output(const request *r, int status) {
    gq_error e = {0};
    if (fflush(stdout) == 0 && !ferror(stdout)) return status;
    if (status == GQ_OK && r->command == CMD_QUANTIZE && !r->dry_run && !r->help && !r->version) {
        say_warning(r->said, "cannot write the results to standard output; the work itself is done");
        return GQ_OK;
    }
    gq_fail(&e, "cannot write to standard output");
    return status ? (say_failure(r->said, &e), status) : say_failure(r->said, &e);
}

/* Runs the command of a request on all ranks that have a part in it. */
static int ranks_main(request *r, gq_comm *comm) {
    bool alone = r->help || r->version || !is_shared(r), first = gq_comm_rank(comm) == 0;
    if (!first && alone) return GQ_OK;
    if (!first) be_silent(r);
    r->comm = alone ? NULL : comm;
    gq_error e = {0};
    return event_log_open(&r->said->log, r->log_file, &e) ? command_main(r) : say_failure(r->said, &e);
}

/* Ends a line on all ranks: one that failed alone is waited for, and its failure is said by rank 0. */
static int agree_on_status(said *s, gq_comm *comm, int status) {
    gq_error e = s->failure;
    if (gq_comm_agree(comm, status == GQ_OK, &e) || status != GQ_OK) return status;
    return say_failure(s, &e);
}

/* A disk that is full by then has lost other events as well. */
static void log_end(const said *s, const request *r, int status) {
    event v;
    if (s->log < 0) return;
    event_begin(&v, "exit", NULL);
    event_count(&v, "status", (uint64_t)status);
    if (status) event_text(&v, "message", s->failure.text);
    if (event_send(&v, -1, s->log)) return;
    char *text = text_format("--log-file %s: cannot write: %s; events are missing from it", r->log_file,
                             strerror(errno));
    say_warning(s, text);
    free(text);
}

/* Says how an evaluation that was stopped goes on: it keeps what is done in a file that --scores-file names alone. */
static void say_how_to_continue(const request *r, int argc, char **argv) {
    if (r->command != CMD_EVALUATE || !evaluation_keeps_scores(r) || r->quiet) return;
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--")) return;
    if (r->scores_file && *r->scores_file) {
        print_line(stderr, "the same command continues after the last finished layer");
        return;
    }
    char *line = text_format("gquant");
    for (int i = 1; i < argc; i++) line = text_add_word(line, argv[i]);
    char *shown = text_shown(line);
    fprintf(stderr,
            "repeating the command starts afresh; --scores-file keeps finished work:\n%s --scores-file "
            "evaluation.scores\n",
            shown);
    free(line), free(shown);
}

/* Runs one line of gquant. */
static int line_main(said *s, int argc, char **argv, gq_comm *comm) {
    request r;
    gq_error e = {0};
    bool ok = request_parse(&r, argc, argv, &e);
    r.said = s;
    int status = ok ? ranks_main(&r, comm) : say_failure(s, &e);
    status = agree_on_status(s, comm, close_output(&r, status));
    log_end(s, &r, status);
    if (s->failure.status == GQ_INTERRUPTED && gq_comm_rank(comm) == 0) say_how_to_continue(&r, argc, argv);
    if (status == GQ_USAGE) {
        const char *name = command_of(r.command)->name;
        print_line(stderr, "Try 'gquant %s%s--help'.", name ? name : "", name ? " " : "");
    }
    request_free(&r);
    return status;
}

/* Runs the lines that stand for one of another tool. */
static int lines_main(said *s, tool_lines *l, gq_comm *comm, gq_error *e) {
    int status = e->status ? say_failure(s, e) : GQ_OK;
    for (size_t i = 0; i < l->n && status == GQ_OK; i++)
        status = line_main(s, l->lines[i].argc, l->lines[i].argv, comm);
    /* the temporary file did not exist before */
    if (l->temporary && gq_comm_rank(comm) == 0) unlink(l->temporary);
    tool_lines_free(l);
    return status;
}

/* The C library learns from large blocks that are freed to keep blocks of up to 32 MB to itself, which come
 * on top of the reported memory: 65 MB in a calibration of 1 GB. Those from 4 MiB on go back to the
 * system, and so does what is free at the end of the heap. Smaller ones are kept: with 1 MiB the pages that
 * are new again and again took 5 % of the time of a model of 100 M weights. */
static void return_freed_memory(void) {
#ifdef __GLIBC__
    mallopt(M_MMAP_THRESHOLD, 4 << 20);
    mallopt(M_TRIM_THRESHOLD, 16 << 20);
#endif
}

int command_line_main(int argc, char **argv, gq_comm *comm) {
    tool_lines lines;
    said s = {.log = -1};
    gq_error e = {0};
    occupy_descriptors();
    return_freed_memory();
    signal(SIGXFSZ, SIG_IGN); /* writing beyond the limit is an error like others */
    int status = other_tool_lines(&lines, argc, argv, &e) ? lines_main(&s, &lines, comm, &e)
                 : argc < 2                               ? hint_main()
                                                          : line_main(&s, argc, argv, comm);
    for (size_t i = 0; i < s.n; i++) free(s.warnings[i]);
    free(s.warnings);
    return status;
}
