/* Command lines: the request that the words of a line become, the tables of commands and options, and what
 * reads them. */
#pragma once

#include "quantize/gquant_publish.h"

/* ---- request.c ---- */

/* The request of a command line. Lists, outputs and texts made while parsing belong to the request. */

typedef enum command {
    CMD_QUANTIZE = 1, /* bits, so that a row can name the commands it is for */
    CMD_TYPES = 2,
    CMD_INFO = 4,
    CMD_COMPARE = 8,
    CMD_VERIFY = 16,
    CMD_IMATRIX = 32,
    CMD_COMPLETION = 64,
    CMD_PLAN = 128,
    CMD_TOKENIZE = 256,
    CMD_EVALUATE = 512,
    CMD_HELP = 1024,
    CMD_VERSION = 2048,
    CMD_PUBLISH = 4096,
    CMD_TEXT = 8192,
} command;

typedef struct request {
    command command;
    gq_options quantize; /* its lists and outputs belong to the request */
    gq_comm *comm;       /* the ranks that do this together; NULL: this process alone */
    const char **arguments;
    size_t n_arguments; /* arguments that are no options, in order */
    const char *report, *out_dir, *recipe_out;
    const char *output, *type; /* by option, in place of arguments */
    /* Paths: of a text or of ids to run models on, and of the logits to write. NULL: not given */
    const char *text, *ids, *logits;
    gq_list kinds;                     /* paths of more texts to evaluate on, each by itself */
    const char *choices;               /* path of questions; NULL: not given */
    uint64_t prompts;                  /* to continue; 0: none */
    const char *draft;                 /* model that drafts tokens */
    const char *draft_type, *mtp_file; /* types of files that publish makes of it, and of MTP layers */
    const char *mmproj;                /* the type of the projector that is made, too; NULL: none */
    const char *scores_file;           /* "none": nowhere; NULL: not given */
    const char *calibration_text, *held_out_text; /* of the command text: files to write */
    const char *base, *base_out; /* llama.cpp's files of log-probabilities: to read, to write */
    const char *calibrate, *calibrate_ids;
    uint64_t calibrate_tokens;
    gq_calibration calibration; /* its numbers; text and memory are put in when they are read */
    gq_target *targets;         /* of --target-size and --target-bpw, in order, with room for each argument */
    const char **size_of;       /* of each target the file type whose size it is; NULL: none */
    const char *like;
    const char *name, *base_model, *license, *quantized_by, *speeds, *title,
        *repo; /* of publish; NULL: not given */
    bool ladder;
    size_t n_targets; /* above 0: a size stands in place of a file type */
    uint64_t ram, reserve, context, tokens, stride, memory; /* 0: not given */
    bool count, no_bos, parse_special, process_output, read_once, speed;
    bool dry_run, quiet, verbose, json, full_paths, help, version;
    struct said *said;    /* by the process (say.c); not the request's */
    const char *log_file; /* file that events are appended to; NULL: none */
    int progress;         /* descriptor for JSON lines plus 1; 0: none */
    bool any_option;      /* one was given */
    struct given {        /* options, in order */
        const struct option_row *option;
        const char *argument; /* NULL: it takes none */
    } * given;
    size_t n_given;
    gq_list files; /* files that options name, without the report and the recipe to write */
    char **owned;  /* texts made while parsing */
    size_t n_owned;
} request;

/* Appends a text, which must outlive the list. */
void list_add(gq_list *list, const char *text);
/* Hand a malloc'ed text to the request, which frees it at its end. */
char *own_text(request *r, char *text);
void request_free(request *r);

/* ---- option_table.c ---- */

/* The commands and their options: one table each, from which parsing, --help and completion follow.
 *
 * A new option is a member of `request` (or of gq_options) and a row of the table in option_table.c, which does
 * not compile where the member's type is not that of the row's kind, or where the row does not say whether a
 * file is read or written; the man page needs its paragraph, which a test checks. A new command is a row there
 * and one of mains[] in cli/command_line.c. */

typedef struct command_row {
    command id;
    const char *name;      /* NULL: the main job, which has no name */
    const char *arguments; /* for usage lines */
    const char *summary;
    size_t min, max;     /* number of arguments */
    const char *example; /* a line of it; NULL: the main job's help has none, for room */
} command_row;
extern const command_row commands[];
extern const size_t n_commands;
const command_row *command_of(command id);
const command_row *command_named(const char *name);
/* The name of the command that was likely meant, NULL: none. */
const char *command_nearest(const char *name);

typedef enum option_kind {
    OPTION_FLAG,        /* bool */
    OPTION_TEXT,        /* const char * */
    OPTION_KEPT,        /* const char *: a file; of 'none' it is "" */
    OPTION_LIST,        /* gq_list, appended to */
    OPTION_PAIRS,       /* gq_list, appended to: KEY=TYPE:VALUE, of which a file may be the value */
    OPTION_ITEMS,       /* gq_list, appended to: PATTERN=TYPE,PATTERN=TYPE */
    OPTION_NUMBER,      /* int, from 0 */
    OPTION_COUNT,       /* uint64_t, from 1 */
    OPTION_SIZE,        /* uint64_t bytes */
    OPTION_SIZE_OR_0,   /* the same, and 0 may be given */
    OPTION_TARGET_SIZE, /* one more of request.targets */
    OPTION_TARGET_BITS,
    OPTION_SHARE,    /* float, to 1; of 0 it is -1 */
    OPTION_DURATION, /* double seconds: 90s, 45m, 1h30m */
    OPTION_EFFORT,   /* int, one of effort_names */
    OPTION_PART,     /* uint32_t[2]: K/N */
    OPTION_PROGRESS, /* int: json or json:FD */
    OPTION_RECIPE,   /* gq_list, appended to from a file */
    OPTION_ADAPTER,  /* gq_adapters, appended to */
    OPTION_FACTOR,   /* gq_adapters: of the last one */
    OPTION_MMPROJ,   /* const char *: a type of projectors, F16 without an argument */
} option_kind;

/* Flags of an option, besides the bits of the commands that take it. */
#define COMMON (1u << 31)     /* the main job's --help has it; `help all` has all */
#define ONE_RANK (1u << 30)   /* what it asks for the first of several ranks alone prints or writes */
#define NO_RESULT (1u << 29)  /* neither files nor figures depend on it */
#define SAME_FILES (1u << 28) /* no file that is made depends on it, though speed, memory or figures may */
#define PROJECTOR (1u << 27)  /* of use where the projector is made alone */
#define COMPUTE (1u << 26)    /* of imatrix: for its job compute alone */
#define FORWARD (1u << 25)    /* runs a model, which a build without a forward pass refuses */

/* The kind of an option's argument: a file that is read or written (paths.c checks these for all commands), and the
 * words that completion offers. */
typedef enum option_argument {
    ARGUMENT_WORD, /* no file */
    ARGUMENT_TENSOR_TYPE,
    ARGUMENT_EFFORT,
    ARGUMENT_MMPROJ,
    ARGUMENT_IN_FILE,
    ARGUMENT_IN_FOLDER,
    ARGUMENT_OLD_FILE, /* read, and an output may take its place */
    ARGUMENT_OUT_FILE,
    ARGUMENT_OUT_TEXT, /* replaces or continues an older one without --force, but nothing else */
    ARGUMENT_OUT_FOLDER,
    ARGUMENT_KEPT_FILE, /* read and written */
} option_argument;

typedef struct option_row {
    const char *name;     /* NULL: a heading of --help, its text in `help` */
    char letter;          /* 0: none */
    const char *argument; /* NULL: none; "[=TYPE]": it may be left out, and stands behind an equals sign */
    option_kind kind;
    option_argument is;
    size_t member;     /* offset in request */
    unsigned commands; /* bits of `command`, and of what else the row says */
    const char *help;  /* NULL: an alias, not listed */
} option_row;
extern const option_row options[];
extern const size_t n_options;
/* Whether the option's argument may be left out; and what stands between the name and it in a text. */
static inline bool option_is_optional(const option_row *o) { return o->argument && *o->argument == '['; }
static inline const char *option_gap(const option_row *o) {
    return o->argument && !option_is_optional(o) ? " " : "";
}
static inline bool option_is_file(const option_row *o) { return o->is >= ARGUMENT_IN_FILE; }
static inline bool option_is_folder(const option_row *o) {
    return o->is == ARGUMENT_IN_FOLDER || o->is == ARGUMENT_OUT_FOLDER;
}
static inline bool option_is_read(const option_row *o) {
    return o->is == ARGUMENT_IN_FILE || o->is == ARGUMENT_IN_FOLDER || o->is == ARGUMENT_OLD_FILE ||
           o->is == ARGUMENT_KEPT_FILE;
}
static inline bool option_is_written(const option_row *o) {
    return o->is == ARGUMENT_OUT_FILE || o->is == ARGUMENT_OUT_TEXT || o->is == ARGUMENT_KEPT_FILE;
}
extern const char *const mmproj_types[]; /* NULL-terminated; the first is the default */
extern const char *const effort_names[]; /* NULL-terminated; index is GQ_EFFORT_* */

/* ---- words of a command line -> a request, by the tables (options.c) ---- */

/* Fill *r, which request_free releases in every case. False: bad usage (or an unreadable recipe file). */
bool request_parse(request *r, int argc, char **argv, gq_error *e);

/* Makes the member of an option of ONE_RANK what it is without the option. */
void option_clear(request *r, const option_row *o);

/* ---- conflicts.c ---- */

/* Whether the options that were given go together. What excludes each other in the library is its own table;
 * here it gets the options' names. */
bool request_check_conflicts(const request *r, gq_error *e);

/* ---- paths.c ---- */

/* Files that a command line reads and writes. No file that is read may be written, whichever options and arguments
 * name it. */

/* Compares each path that the line writes with all that it reads and with the others that it writes. To be
 * called before the work; it also looks whether files of options can be written. */
bool paths_check(const request *r, gq_error *e);
/* The same for one more file that the option of that name writes. */
bool paths_check_written(const request *r, const char *option, const char *path, gq_error *e);
/* Returns the path that an option with its argument names; NULL: it names none. */
const char *path_of_given(const struct given *g);

/* Returns the path in the argument of an option that reads a text for metadata from a file; NULL: it reads
 * none. */
const char *override_file(const option_row *o, const char *argument);

/* ---- the meaning of the bare arguments (positional.c) ---- */

/* Turn the arguments of the main job, IN [OUT] TYPE [THREADS] or IN TYPE... with several outputs, or IN [OUT]
 * [THREADS] with one target, into r->quantize. */
bool request_outputs(request *r, gq_error *e);

/* Returns true, with an error that has the line to type, if a word that is no file is what other programs
 * call the main job; n words follow it. any_option: some stand before it. */
bool positional_fail_verb(const char *verb, char *const *words, size_t n, bool any_option, gq_error *e);

/* Whether a word names a file type or a recipe; numbers of file types do not count. */
bool filetype_known(const char *text);
/* Fails: the word is no file type. Names the nearest one. */
bool filetype_fail_unknown(const char *text, gq_error *e);
/* Takes the types of --like's file: as items behind the user's own, and as the file type where none is given. */
bool request_take_like(request *r, gq_error *e);

/* ---- other_tools.c ---- */

/* Command lines of llama.cpp's tools for imatrix data and perplexity, as lines of gquant:
 *
 *     gquant imatrix -m MODEL -f TEXT -o OUT ...        gquant-imatrix, by a link of that name
 *     gquant perplexity -m MODEL -f TEXT ...            gquant-perplexity
 *
 * gquant-quantize needs no translation: the main job takes the words of llama-quantize. */

enum { OTHER_TOOL_LINES = 2 };
typedef struct tool_lines {
    size_t n; /* lines to run, one after another while they succeed */
    struct tool_line {
        int argc;
        char **argv; /* NULL-terminated */
    } lines[OTHER_TOOL_LINES];
    char *temporary; /* a file that only the later lines need; NULL: none */
} tool_lines;

/* Whether a line is one of another tool's. True: `to` has gquant's lines, of which there are none where the
 * request was for help, which has been printed, or where it cannot be fulfilled: *e says why. A note about
 * options that mean nothing here has been printed. Free with tool_lines_free. */
bool other_tool_lines(tool_lines *to, int argc, char **argv, gq_error *e);
void tool_lines_free(tool_lines *l);

/* ---- --tensor-type and --tensor-type-file: items for gq_options.tensor_types (request.c) ---- */

/* Append the PATTERN=TYPE items of a text of n bytes, or of a file. The items belong to the request. `name`
 * is for messages; NULL: the text is no file. */
bool recipe_add(request *r, gq_list *list, const char *name, const char *text, size_t n, gq_error *e);
bool recipe_add_file(request *r, gq_list *list, const char *path, gq_error *e);
