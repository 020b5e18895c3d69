/* A folder of a model's files with their page. */
#pragma once

#include "base/warnings.h"
#include "publish/base_model.h"
#include "publish/phases.h"
#include "publish/speeds.h"

/* A file of the page: an output, or what an earlier call has made of the same model. */
typedef struct publish_file {
    char *path, *label; /* malloc'ed */
    uint64_t file_bytes;
    double bits;      /* per weight */
    size_t evaluated; /* its number in the evaluation; 0: it is not evaluated */
} publish_file;

struct gq_publication {
    gq_publish_request request;
    gq_options options; /* of all plans, without outputs */
    gq_model *model;
    char *stem; /* the model's name in file names */
    base_model base_model;
    gq_publish_request
        kept; /* repo, title, license and quantized_by, of an earlier page; malloc'ed, NULL: not kept */
    char *imatrix_name; /* of the importance matrix's file in the folder; NULL: there is none */
    gq_output *outputs; /* n of them; the paths are malloc'ed */
    char **labels;      /* each output's label in names */
    size_t n, output_capacity, label_capacity;
    size_t made, companions_made; /* by this call */
    publish_file *files;          /* n_files of them: first the outputs, in their order */
    size_t n_files, file_capacity;
    int folder_fd;                      /* of the folder, locked; -1: it cannot be */
    gq_plan *plan;                      /* of all outputs */
    gq_plan *companions[GQ_COMPANIONS]; /* of each; NULL: there is none */
    gq_evaluation *evaluation;          /* NULL: there is none */
    speed_table speeds;
    publication_phases phases;
    double sums_started;      /* when the first checksum began */
    gq_progress sums;         /* of all checksums */
    uint64_t memory, context; /* bytes besides the file to run with a context of so many tokens */
    gq_needs needs;
    gq_page page;           /* of README.md; no rows: it was not written */
    gq_interval *intervals; /* intervals that the page's rows point to */
    warning_list warnings;
};

/* Stands in commands for a repository that was not named. */
#define REPO_UNKNOWN "OWNER/NAME"
/* Files of the folder besides models. */
#define PUBLISH_PAGE "README.md"
#define PUBLISH_SUMS "SHA256SUMS"
#define PUBLISH_CHART "divergence.svg"
#define PUBLISH_ATTRIBUTES ".gitattributes"
