/* A folder of a model's files with their page. */
#pragma once

#include "base/checksum.h"
#include "base/warnings.h"
#include "publish/base_model.h"
#include "publish/phases.h"
#include "publish/speeds.h"
#include "publish/template.h"

/* A file of the page: an output, or what an earlier call has made of the same model. */
typedef struct publish_file {
    char *path, *label; /* malloc'ed */
    uint64_t file_bytes;
    double bits;                     /* per weight */
    size_t evaluated;                /* its number in the evaluation; 0: it is not evaluated */
    bool has_imatrix, is_calibrated; /* an earlier file, as it says */
    /* Of an earlier file: its shards, and their checksums, where all were found equal to their lines of SHA256SUMS. */
    uint32_t n_checked; /* 0: they were not */
    char (*checked_sums)[SHA256_TEXT];
} publish_file;

/* README.md as a call finds it: where its parts end, and whether they are as they were written. */
typedef struct page_there {
    char *text;     /* malloc'ed; NULL: there is none, or it cannot be one of ours */
    bool is_there;  /* which of both */
    bool is_marked; /* the marks are there, once; else all below is 0 */
    bool is_models; /* a link of it leads to a file with the model's name in its own */
    bool front_is_ours, text_is_ours;
    size_t front, before, begins,
        end; /* behind the front matter; of the first mark; behind it; of the second */
} page_there;

struct gq_publication {
    gq_publish_request request;
    gq_options options; /* of all plans, without outputs */
    gq_model *model;
    char *stem; /* the model's name in file names */
    base_model base_model;
    gq_publish_request
        kept; /* repo, title, license and quantized_by of the old page; malloc'ed, NULL: not kept */
    page_there old_page; /* before this call */
    char *imatrix_name;  /* of the importance matrix's file in the folder; NULL: there is none */
    gq_output *outputs;  /* n of them; the paths are malloc'ed */
    char **labels;       /* each output's label in names */
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

/* ---- outputs.c ----
 * The outputs of a publication: their names, and which there are. */

bool publication_check_template(const gq_publish_request *r, gq_error *e);
/* Finds the model's name in file names: p->stem. */
bool publication_name_model(gq_publication *p, gq_error *e);
/* Lists all that was asked for: p->outputs and p->labels. */
bool publication_list(gq_publication *p, const gq_options *asked, gq_error *e);
/* Returns the first output of the plan that is the same file as this one, which may be itself. */
size_t publication_first_same(const gq_publication *p, size_t output);
/* Warns of outputs that are the same file as an earlier one. */
bool publication_warn_same(gq_publication *p, gq_error *e);

/* ---- companions.c ----
 * Files that belong to all files of the table: the multimodal projector, MTP layers in a file of their own, and a draft. */

/* Plans them: p->companions, NULL: it is not made. A projector of a kind that cannot be made here is an error only if
 * it was asked for; else p->warnings says why. A damaged one is always an error. */
bool publication_plan_companions(gq_publication *p, gq_error *e);
/* Makes those that are not there and whole. */
bool publication_make_companions(gq_publication *p, gq_error *e);
/* Whether the model's folder has tensors of a "vision" or an "audio" encoder. */
bool publication_has_sense(const gq_publication *p, const char *kind);
/* Whether a file's name begins as one of them does, of a model of that name. stem: "": any model's. */
bool companion_is_named(const char *file, const char *stem);

/* ---- extras.c ----
 * Files besides models, page, chart and checksums: the importance matrix, .gitattributes. */

/* Names the importance matrix's file in the folder: p->imatrix_name. */
bool publication_name_imatrix(gq_publication *p, gq_error *e);
/* Whether the importance matrix is in the folder, or can be copied there. */
bool publication_check_extras(const gq_publication *p, gq_error *e);
/* Copies the importance matrix into the folder, and has .gitattributes send large files through LFS or Xet. */
bool publication_write_extras(gq_publication *p, gq_error *e);

/* ---- folder.c ----
 * The contents of the folder before a call: files of the model from earlier calls, a page with its owner's text,
 * checksums of other files. All of it is kept, or stops the work. */

/* Locks the folder against another call that makes files of it, until the publication is freed. */
bool folder_lock(gq_publication *p, gq_error *e);
/* Returns the path of a file in the folder, malloc'ed. NULL: *e says why. */
char *folder_path(const gq_publication *p, const char *name, gq_error *e);
/* Lists the files of the page: the outputs, and what earlier calls have made of the same model. Warns of models
 * in the folder that the page does not name. */
bool folder_list_files(gq_publication *p, gq_error *e);
/* Takes from README.md of an earlier call what this one does not name: the base model, and what p->kept then has. Sets
 * p->old_page. false: no memory. */
bool folder_recall(gq_publication *p, gq_error *e);
/* Whether all that is there can be kept: to be asked before the work, once folder_recall was called. */
bool folder_check(const gq_publication *p, gq_error *e);

/* Writes README.md of its front matter and its text. What stands around the text in the file that is there is
 * kept, and so is a front matter that somebody has changed. */
bool folder_write_page(gq_publication *p, const char *front, const char *text, gq_error *e);
/* Writes the chart, with a mark that shows whether it was changed. */
bool folder_write_chart(const gq_publication *p, const char *chart, gq_error *e);
/* Writes SHA256SUMS of lines; those of other files that already exist follow them. */
bool folder_write_sums(gq_publication *p, const char *lines, gq_error *e);
/* Makes .gitattributes route models through LFS or Xet; its other lines stay. */
bool folder_write_attributes(const gq_publication *p, gq_error *e);

/* ---- sums.c ----
 * SHA256SUMS, for who fetches a publication's files. */

/* Returns the bytes of all files whose SHA-256 will be computed: as they are listed, or before that those of the plan. */
uint64_t publication_summed_bytes(const gq_publication *p);
/* Begins the progress that the two calls below share. */
void publication_begin_sums(gq_publication *p);
/* Writes SHA256SUMS of all files of the outputs. */
bool publication_write_sums(gq_publication *p, gq_error *e);
/* Computes the SHA-256 of the file that all were made of, for the page; to "": it is a folder, or has shards. */
bool publication_sum_source(gq_publication *p, char to[SHA256_TEXT], gq_error *e);

/* ---- card.c ----
 * The model card of a folder of models. */

/* Writes README.md, divergence.svg and SHA256SUMS into the folder. */
bool publication_write_page(gq_publication *p, gq_error *e);

/* ---- card_model.c ---- */

/* The tasks of models that make embeddings, or scores of texts. */
#define CARD_EMBEDS "feature-extraction"
#define CARD_RANKS "text-ranking"
/* Whether a text matches a pattern of letters, '*' and sets such as [2-8]; Windows has no fnmatch. */
bool card_matches(const char *pattern, const char *text);
/* Adds what the model's metadata say: what it is for, how a prompt is written, how tokens are sampled. */
void card_add_model(fact_list *l, const gq_publication *p);
