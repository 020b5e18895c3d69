/* The commands and their options: one table each, from which parsing, --help and completion follow.
 *
 * A new option is a member of `request` (or of gq_options) and a row of the table in option_table.c, which
 * does not compile where the member's type is not that of the row's kind, or where the row does not say
 * whether a file is read or written; the man page needs its paragraph, which a test checks. A new command is a row there and one of mains[] in
 * cli/command_line.c.
 */
#pragma once

#include "cli/options/request.h"

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

/* What else a row says of its option, beside the bits of the commands that take it. */
#define COMMON (1u << 31)     /* the main job's --help has it; `help all` has all */
#define ONE_RANK (1u << 30)   /* what it asks for the first of several ranks alone prints or writes */
#define NO_RESULT (1u << 29)  /* neither files nor figures depend on it */
#define SAME_FILES (1u << 28) /* no file that is made depends on it, though speed, memory or figures may */
#define PROJECTOR (1u << 27)  /* of use where the projector is made alone */
#define COMPUTE (1u << 26)    /* of imatrix: for its job compute alone */
#define FORWARD (1u << 25)    /* runs a model, which a build without a forward pass refuses */

/* What an option's argument is: whether a file that it names is read or written, which paths.c checks for all
 * commands, and the words that completion offers. */
typedef enum option_argument {
    ARGUMENT_WORD, /* no file */
    ARGUMENT_TENSOR_TYPE,
    ARGUMENT_EFFORT,
    ARGUMENT_MMPROJ,
    ARGUMENT_IN_FILE,
    ARGUMENT_IN_FOLDER,
    ARGUMENT_OLD_FILE, /* read, and an output may take its place */
    ARGUMENT_OUT_FILE,
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
    return o->is == ARGUMENT_OUT_FILE || o->is == ARGUMENT_KEPT_FILE;
}
extern const char *const mmproj_types[]; /* NULL-terminated; the first is the default */
extern const char *const effort_names[]; /* NULL-terminated; index is GQ_EFFORT_* */
