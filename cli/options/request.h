/* The request of a command line. Lists, outputs and texts made while parsing belong to the request. */
#pragma once

#include "quantize/gquant_publish.h"

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
    size_t n_arguments; /* what is not an option, in order */
    const char *report, *out_dir, *recipe_out;
    const char *output, *type; /* by option, in place of arguments */
    /* Paths: of a text or of ids to run models on, and of the logits to write. NULL: not given */
    const char *text, *ids, *logits;
    gq_list kinds;                     /* paths of more texts to evaluate on, each by itself */
    const char *choices;               /* path of questions; NULL: not given */
    uint64_t prompts;                  /* to continue; 0: none */
    const char *draft;                 /* model that drafts tokens */
    const char *draft_type, *mtp_file; /* types of files that publish makes of it, and of prediction blocks */
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
    const char *log_file; /* that events are appended to; NULL: none */
    int progress;         /* descriptor for JSON lines plus 1; 0: none */
    bool any_option;      /* one was given */
    struct given {        /* options, in order */
        const struct option_row *option;
        const char *argument; /* NULL: it takes none */
    } * given;
    size_t n_given;
    gq_list files; /* that options name, but for the report and the recipe to write */
    char **owned;  /* texts made while parsing */
    size_t n_owned;
} request;

/* Appends a text, which must outlive the list. */
void list_add(gq_list *list, const char *text);
/* Hand a malloc'ed text to the request, which frees it at its end. */
char *own_text(request *r, char *text);
void request_free(request *r);
