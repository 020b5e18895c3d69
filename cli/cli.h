/* The command: its jobs, and what they share. The only folder that prints or exits. */
#pragma once

#include <stdarg.h>

#include "cli/report/report.h"
#include "cli/report/table.h"

/* ---- text.c ---- */

/* Small helpers of the command: memory that is there or ends the program, formatted text, numbers with units,
 * the nearest of some words. */

/* End the program with a message when memory runs out. Only the command may do that, and it only asks for
 * memory while no output is open. */
void *need(void *memory);                     /* returns it; NULL: there is none */
void *need_memory(size_t count, size_t size); /* zeroed */
void *need_more(void *old, size_t count, size_t size);
/* Room for one more element behind n, in an array that only this function has grown. */
void *need_next(void *old, size_t n, size_t size);
char *text_format(const char *text, ...) __attribute__((format(printf, 1, 2)));
char *text_format_list(const char *text, va_list args) __attribute__((format(printf, 1, 0)));

/* Returns a malloc'ed line with one more word, quoted where a shell needs it; frees the old line. */
char *text_add_word(char *line, const char *word);

/* "4096 x 1024" of n dimensions, with " T" behind it if the tensor is stored transposed; malloc'ed. */
char *shape_text(const uint64_t *ne, uint32_t n, bool transposed);

/* Into a caller's buffer, which they return. */
enum { UNIT_ROOM = 32 };
char *file_text(char to[UNIT_ROOM], double bytes); /* of files and disks: "512 bytes", "105 MB", "7.50 GB" */
char *memory_text(char to[UNIT_ROOM], double bytes); /* "512 bytes", "3.25 MiB", "1.50 GiB" */
char *count_text(char to[UNIT_ROOM], double n);      /* "950", "12.5 M", "8.03 B" */
char *time_text(char to[UNIT_ROOM], double seconds); /* "0.8 s", "2:05", "1:02:05" */

/* "a second", "40 seconds", "14 minutes", "3.5 hours": how long something will take, for people. */
char *duration_text(char to[UNIT_ROOM], double seconds);

/* Decimals with which a number above 0 keeps three digits, at most 8. */
int decimals_for(double least);

/* "40G", "7.5GiB", "500M", "1000000": powers of 1000, or of 1024 with an i. */
bool size_parse(const char *text, uint64_t *bytes);
/* "90s", "45m", "2h", "1h30m", "1.5d": units from the largest down, each once; below 10^9 seconds. */
bool duration_parse(const char *text, double *seconds);
/* Plain decimal within min..max, nothing behind it. */
bool number_parse(const char *text, uint64_t min, uint64_t max, uint64_t *value);

/* The word that takes the fewest edits (case ignored) to become `text`; NULL when none is near. */
const char *text_nearest_word(const char *text, const char *const *words, size_t n);

/* ---- the kind of file that a path leads to (path.c) ---- */

/* Replaces '\\' between folders, which Windows allows, by '/', in place. */
char *path_typed(char *path);
/* Up to and with its last slash, and a dot: "folder/.". malloc'ed. */
char *path_folder(const char *path);
bool path_is_folder(const char *path);
/* The same file, or the same name for one that is still to be made; b may be NULL. */
bool path_same(const char *a, const char *b);

/* Returns the path as reports name it: `full`, or without its folders; points into it. */
const char *path_reported(const char *path, bool full);
static inline const char *report_named(const report *r, const char *path) {
    return path_reported(path, r->request->full_paths);
}

/* Replaces consecutive arguments that are shards of one model, which a shell makes of "model-*.gguf", by the
 * first of them, which stands for all. */
void path_join_shards(const char **arguments, size_t *n);

/* Makes the folder, and those above it that are missing. *made: bytes of the path up to and with the first
 * folder that was made; 0: all were there. */
bool path_make_folder(const char *folder, size_t *made, gq_error *e);
/* Removes those folders again, from the last one up, as far as they are empty. made 0: does nothing. */
void path_remove_folder(const char *folder, size_t made);

/* ---- errors, warnings and what is usually done next, on standard error (say.c) ---- */

/* The messages of a process, for all command lines that it runs. */
typedef struct said {
    gq_error failure; /* the last one; of status GQ_OK: none was */
    char **warnings;  /* texts that were warned of, n of them */
    size_t n;
    int log; /* descriptor of --log-file (events.c); -1: none */
} said;

/* Prints "gquant: error: ..." and returns the exit status that fits. Sets said->failure. */
int say_failure(said *s, const gq_error *e);
void say_warning(const said *s, const char *text);
/* Warns of a disk that is too small for what a run takes. */
void warn_of_disk(const said *s, const gq_needs *needs);
/* Warns of the first dozen at most that were not said before, and how many more there are. */
void warn_all(said *s, const char *const *texts, size_t n);
/* Prints "next: gquant WORD ...", each word quoted where a shell needs it; the list ends with NULL. It does
 * so only where a person reads: both streams are terminals, and neither --quiet, --json nor --progress was
 * given. */
__attribute__((sentinel)) void next_say(const request *r, ...);
/* The same for evaluating n quants on held-out.txt, which is made first where it is not there yet. */
void next_say_evaluate(const request *r, const char *base_model, const char *const *quants, size_t n);

/* ---- the commands, each in a file of its own; they return the exit status ---- */

/* The whole command. comm: the ranks that run it; NULL: this process alone. */
int command_line_main(int argc, char **argv, gq_comm *comm); /* command_line.c */

int quantize_main(const request *r);                 /* quantize.c */
int publish_main(const request *r);                  /* publish.c */
int info_main(const request *r);                     /* info.c */
int plan_main(const request *r);                     /* plan.c */
int compare_main(const request *r);                  /* compare.c */
int verify_main(const request *r);                   /* verify.c */
int evaluate_main(const request *r);                 /* evaluate.c */
int speed_main(const request *r);                    /* speed.c, of evaluate --speed */
int imatrix_main(const request *r);                  /* imatrix.c */
bool imatrix_compute(const request *r, gq_error *e); /* importance.c */
int tokenize_main(const request *r);                 /* tokenize.c */
int text_main(const request *r);                     /* sample_text.c */
/* Whether a file is what `gquant text` writes: with --held-out, or with --calibration. path may be NULL. */
bool text_is_sample(const char *path, bool held_out);
int types_main(const request *r);      /* types.c */
int completion_main(const request *r); /* completion.c */
int help_main(const request *r);       /* help.c */
int hint_main(void);                   /* short usage, for a command line without words */
int version_main(const request *r);

/* ---- running models on a text, for the command `evaluate` and behind a run (evaluate.c) ---- */

/* Whether --scores-file keeps what an evaluation has done: it is refused where it cannot. */
bool evaluation_keeps_scores(const request *r);

/* Turns the options into a request, without its models. Reads the text; evaluation_free releases it in every
 * case. */
bool evaluation_ask(const request *r, gq_evaluation_request *to, gq_error *e);
void evaluation_free(gq_evaluation_request *asked);
/* Plans the evaluation, with progress: measuring its time takes about a second. */
gq_evaluation *evaluation_plan(const request *r, gq_evaluation_request *asked, gq_error *e);
/* Runs the models of the request, with progress and warnings. The caller frees the result; NULL: *e says why. */
gq_evaluation *evaluation_run(const request *r, gq_evaluation_request *asked, gq_error *e);

/* ---- texts that the command is given (input.c) ---- */

/* Makes *to name a file, which the library reads as far as it needs it, with to->ids set where it holds rendered
 * conversations; or reads all of standard input, for "-", at most 1 GiB and no more than `memory` (0: no such limit).
 * False: *e says why; also where the file's conversations have to be rendered first. */
bool input_text(const char *path, uint64_t memory, gq_text *to, gq_error *e);
/* Turns the options of a calibration into gq_options.calibration, and reads its text: *to becomes `room`, or
 * NULL where no calibration is asked for. input_free(&room->text) releases it in every case. */
bool input_calibration(const request *r, gq_calibration *room, const gq_calibration **to, gq_error *e);
/* Frees what these have read. */
void input_free(gq_text *text);

/* Questions with several choices, from a file with one JSON object a line. */
typedef struct questions {
    gq_question *items; /* their texts belong to `rows` */
    size_t n;
    json_t *rows;
} questions;
/* Reads {"question": "...", "choices": ["...", ...], "answer": 0}: the number of the right choice, its
 * letter, A for the first one, or its text. The caller frees *q, also after a failure, where *e names the line. */
bool input_questions(questions *q, const char *path, gq_error *e);
void input_questions_free(questions *q);

/* ---- projector.c ---- */

/* A folder's vision and audio encoders: printed for the user, and with --mmproj written beside the outputs. */

/* Prints which other parts the folder holds: projectors, MTP layers. */
void projector_say_beside(const request *r, const gq_plan *plan);
/* Plans the projector, on all ranks; *plan NULL: none is asked for, it is there and whole, or another rank
 * makes it. `main`: the plan of the text model; NULL: the projector is made alone. */
bool projector_plan(const request *r, const gq_plan *main, gq_plan **plan, gq_error *e);
/* Prints a summary of the output and writes it, unless only a plan was asked for. All ranks call it; a
 * failure of one is a failure of all. */
bool projector_run(const request *r, const gq_plan *plan, gq_error *e);
/* The main job where the projector is made alone. */
int projector_main(const request *r);

/* ---- events.c ---- */

/* --progress json and --log-file: what happens, for programs, as one JSON object per line. docs/reports.md lists the
 * members.
 *
 * A line is made in a buffer and written with one call, so that lines never mix and nothing is allocated:
 * some are written from callbacks. A reader that has gone is not missed. */

enum { EVENT_ROOM = 4096 };
typedef struct event {
    char text[EVENT_ROOM];
    size_t n;
} event;

/* phase NULL: of no phase. */
void event_begin(event *v, const char *name, const char *phase);
/* Members. Bytes that are not UTF-8 are written as in reports; a text that is too long is cut. */
void event_text(event *v, const char *key, const char *text);
void event_count(event *v, const char *key, uint64_t n);
void event_number(event *v, const char *key, double value); /* NaN and infinity: null */
/* Ends the line and writes it to two descriptors, of --progress json and of the log; -1: there is none. false and
 * errno: the log could not take it. */
bool event_send(event *v, int fd, int log);
/* Opens the log, behind what the file has. path NULL: there is none, *log stays. */
bool event_log_open(int *log, const char *path, gq_error *e);

/* ---- progress.c ---- */

/* Messages while a run works: a progress line on a terminal, a line per tensor with --verbose; and Ctrl-C. */

typedef struct progress {
    const gq_plan *plan;  /* NULL: there is none yet */
    const char *phase;    /* "plan", "calibrate", "quantize", "compare", "verify", "evaluate", "importance",
                             "checksums" */
    const char *input;    /* as given */
    int events, log;      /* descriptors for JSON lines, -1: none; said.log */
    bool is_followed;     /* by events, on the descriptor or in the log */
    bool verbose;         /* a line per tensor */
    bool terminal;        /* standard error is one, and --quiet was not given */
    bool lines;           /* standard error is none: a line every 10 % of a run that takes long */
    bool shown;           /* the line is on the screen */
    bool is_stage;        /* of a call whose progress continues from phase to phase */
    bool is_time_shown;   /* how long it will take */
    bool is_sent_shown;   /* the bytes that a rank sends for a layer */
    int tenths;           /* of the work, that a line was written for */
    double last;          /* when, in seconds of the run */
    gq_progress now;      /* the last one; `tensor` is not kept */
    const char *at_start; /* a line that is said when there is something to do; NULL: none */
} progress;

void progress_start(progress *p, const request *r, const gq_plan *plan);
void progress_start_phase(progress *p, const request *r, const char *phase); /* a phase without a plan */
/* The phase "plan", in which a sample of the work may be measured; `measures` says so before it is. */
void progress_start_measuring(progress *p, const request *r, const char *measures);
/* A phase of a call that reports the progress of all its phases. *p: of zeros before the first one. plan: what
 * is made in it, or NULL. */
void progress_start_stage(progress *p, const request *r, const gq_plan *plan, const char *phase);
gq_callbacks progress_callbacks(progress *p);
/* Clears the line and ends the phase. e: the error; NULL: it went well. */
void progress_end(progress *p, const gq_error *e);

/* Writes the line, without control sequences, in at most `columns` - 1 bytes (0: the size of `to`). subject:
 * what bytes and rates are of, where the share and the time left are of more; NULL: of the same. It allocates
 * nothing, since callbacks may not end the program. */
enum { PROGRESS_LINE_BYTES = 160 };
char *progress_text(char to[PROGRESS_LINE_BYTES], const gq_progress *now, const char *subject, int columns);

/* From so many seconds on a run takes long. */
enum { PROGRESS_LINES_FROM = 5 };

/* Weights per second that this run has done itself, without the work of a run that it continues; 0: not
 * known. */
double progress_weights(const gq_progress *now);

/* From here on the first SIGINT or SIGTERM is only noted; a second one ends the program. */
void interrupt_catch(void);
int interrupt_signal(void); /* the one noted, 0: none */
