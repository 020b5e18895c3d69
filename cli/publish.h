/* A folder of a model's files with their page, for the command `publish`. */
#ifndef CLI_PUBLISH_H
#define CLI_PUBLISH_H

#include "cli/request.h"

typedef struct publication {
    const request *request;
    gq_model *model;
    char *stem;                /* the model's name in file names */
    gq_output *outputs;        /* n of them; the paths are malloc'ed */
    char **labels;             /* what names say of each */
    size_t n, made;            /* made: by this run */
    gq_plan *plan;             /* of all outputs */
    gq_evaluation *evaluation; /* NULL: there is none */
    uint64_t memory, context;  /* bytes besides the file to run with a context of so many tokens */
} publication;

/* Writes README.md, divergence.svg and SHA256SUMS into the folder (publish_page.c). */
bool publication_write_page(const publication *p, gq_error *e);

#endif
