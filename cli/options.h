/* The command line as a request: one table of options drives parsing, --help and completion.
 *
 * A new option is a member of `request` (or of gq_options) and a row of the table in options.c; the man page
 * needs its paragraph, which a test checks.
 */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include "quantize/gquant.h"

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
} command;

typedef struct request request;

typedef struct command_row {
    command id;
    int (*run)(const request *r); /* returns the exit status */
    const char *name;             /* NULL: the main job, which has no name */
    const char *arguments;        /* for usage lines */
    const char *summary;
    size_t min, max; /* number of arguments */
} command_row;
extern const command_row commands[];
extern const size_t n_commands;

struct request {
    command command;
    gq_options quantize; /* its lists and outputs belong to the request */
    const char **arguments;
    size_t n_arguments; /* what is not an option, in order */
    const char *report, *out_dir, *recipe_out;
    gq_target *targets; /* of --target-size and --target-bpw, in order, with room for each argument */
    size_t n_targets;
    uint64_t ram, context; /* 0: not given */
    bool count, no_bos, parse_special;
    bool dry_run, quiet, verbose, json, full_paths, help, version;
    int progress;    /* descriptor for JSON lines, and one; 0: none */
    bool any_option; /* one was given */
    struct given {   /* options, in order */
        const struct option_row *option;
        const char *argument; /* NULL: it takes none */
    } * given;
    size_t n_given;
    gq_list files; /* that options name, but for the report and the recipe to write */
    char **owned;  /* texts made while parsing */
    size_t n_owned;
};

typedef enum option_kind {
    OPTION_FLAG,        /* bool */
    OPTION_TEXT,        /* const char * */
    OPTION_LIST,        /* gq_list, appended to */
    OPTION_ITEMS,       /* gq_list, appended to: PATTERN=TYPE,PATTERN=TYPE */
    OPTION_NUMBER,      /* int, from 0 */
    OPTION_COUNT,       /* uint64_t, from 1 */
    OPTION_SIZE,        /* uint64_t bytes */
    OPTION_TARGET_SIZE, /* one more of request.targets */
    OPTION_TARGET_BITS,
    OPTION_EFFORT,   /* int, one of effort_names */
    OPTION_PART,     /* uint32_t[2]: K/N */
    OPTION_PROGRESS, /* int: json or json:FD */
    OPTION_RECIPE,   /* gq_list, appended to from a file */
} option_kind;

/* What completion offers for the argument. */
typedef enum option_hint { HINT_NONE, HINT_FILE, HINT_FOLDER, HINT_TENSOR_TYPE, HINT_EFFORT } option_hint;

typedef struct option_row {
    const char *name; /* NULL: a heading of --help, its text in `help` */
    char letter;      /* 0: none */
    const char *argument;
    option_kind kind;
    option_hint hint;
    size_t member;     /* offset in request */
    unsigned commands; /* bits of `command` */
    const char *help;  /* NULL: an alias, not listed */
} option_row;
extern const option_row options[];
extern const size_t n_options;
extern const char *const effort_names[]; /* NULL-terminated; index is GQ_EFFORT_* */

/* Fill *r, which request_free releases in every case. False: bad usage (or an unreadable recipe file). */
bool request_parse(request *r, int argc, char **argv, gq_error *e);
void request_free(request *r);
const command_row *request_command(const request *r);

/* Append a text that outlives the list. */
void list_add(gq_list *list, const char *text);
/* Hand a malloc'ed text to the request, which frees it at its end. */
char *own_text(request *r, char *text);

/* Turn the arguments of the main job, IN [OUT] TYPE [THREADS] or IN TYPE... with several outputs, or IN [OUT]
 * [THREADS] with one target, into r->quantize (positional.c). */
bool request_outputs(request *r, gq_error *e);

/* Whether a size stands in place of a file type. */
bool request_has_target(const request *r);

/* Append the PATTERN=TYPE items of a text, or of a file (recipe.c). */
bool recipe_add(request *r, gq_list *list, const char *name, const char *text, size_t n, gq_error *e);
bool recipe_add_file(request *r, gq_list *list, const char *path, gq_error *e);
/* Before the work: --recipe-out, is it a place to write to? */
bool recipe_check(const request *r, gq_error *e);
/* Write the recipe of each output: to --recipe-out, or, of several outputs, beside it. */
bool recipe_write(const request *r, const gq_plan *plan, gq_error *e);

#endif
