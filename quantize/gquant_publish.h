/* Whole jobs on all the rest: what fits a machine, and a folder to publish with its page.
 *
 *     gq_survey_request r = {.size = sizeof r, .options = &options, .ram = 16000000000};
 *     gq_survey *s = gq_survey_new(&r, &e);
 *     const gq_choice *choices = gq_survey_choices(s, &n);     // the best of them has .best
 *     gq_publish_request q = {.size = sizeof q, .options = &options, .evaluation = &evaluation};
 *     gq_publication *p = gq_publish(&q, &e);                  // makes only what is not there yet
 *
 * Bytes of memory are those that llama.cpp takes.
 * Errors, ownership and threads are as gquant.h says.
 */
#pragma once

#include "gquant_study.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- what fits a machine: all file types planned ---- */
typedef struct gq_survey_request {
    size_t size;
    /* The options of gq_plan_new, without outputs and their settings. With a calibration the model is run on
     * its text and KL divergences are predicted; nothing is calibrated. */
    const gq_options *options;
    uint64_t context;   /* tokens to have memory for; 0: as gq_model_memory does */
    uint64_t ram;       /* bytes of memory that the machine has; 0: not given */
    const char *folder; /* for measurements that cannot be kept beside the model; NULL: /tmp */
    uint64_t reserve;   /* bytes of `ram` for the system and other programs; 0: an eighth, at most 8 GiB;
                           UINT64_MAX: none */
} gq_survey_request;
typedef struct gq_choice {
    const char *name;     /* of the file type */
    const char *made_for; /* the only kind of models that it suits; "": any */
    uint64_t file_bytes;
    uint64_t memory_bytes; /* of weights, keys and values of the context, and buffers */
    double bits;           /* per weight */
    double expected;       /* KL divergence as in gq_summary; NaN: not known */
    bool fits;             /* into `ram`, beside what is reserved */
    /* The one to take, of the advised types that fit: the largest; where `expected` is known the smallest that is close
     * to the base model, or has the least loss. COPY only where it has to be. */
    bool best;
    /* The type requires an imatrix, and none was given; such a row is never the best. */
    GQ_RENAMED(bool, needs_imatrix, needs_importance);
    uint64_t reserved[4];
} gq_choice;
typedef struct gq_curve_point {
    uint64_t file_bytes; /* to ask for as a target */
    uint64_t memory;     /* bytes of a machine for which it is the best; 0: only a point of the curve */
    double expected;     /* KL divergence; NaN: not known */
    uint64_t reserved[4];
} gq_curve_point;
typedef struct gq_survey_facts {
    size_t size;
    uint64_t context, context_trained;  /* tokens, as in gq_memory */
    uint64_t cache_bytes, buffer_bytes; /* likewise */
    const char *quantized;   /* tensor type of most of a model that is quantized already; NULL: it is not */
    const char *dequantized; /* the same of a folder whose type GGUF does not have; NULL: it is not */
    uint64_t target;         /* bytes that `ram` leaves for a file, beside what is reserved */
    uint64_t smallest; /* bytes of about the smallest file that a target can make; 0: not known, or some type
                          fits */
    uint64_t reserve;  /* bytes of `ram` that are left to the system; 0: none, or there is no `ram` */
} gq_survey_facts;
typedef struct gq_survey gq_survey;
/* Plans each file type, and with a calibration mixes of several sizes. NULL: the file is no model, or these
 * options do not fit it. */
GQ_API gq_survey *gq_survey_new(const gq_survey_request *r, gq_error *e);
GQ_API void gq_survey_free(gq_survey *s);
GQ_API const gq_survey_facts *gq_survey_summary(const gq_survey *s);
/* *n file types, smallest file first; of a model that is quantized already those that make it smaller. */
GQ_API const gq_choice *gq_survey_choices(const gq_survey *s, size_t *n);
/* Of these the usual choice, which generates tokens faster than larger ones; NULL: there is none. */
GQ_API const gq_choice *gq_survey_usual(const gq_survey *s);
typedef struct gq_fallbacks { /* of the tensors of a file type whose rows do not fit the blocks of their type */
    double bits;              /* per weight of all tensors, which they add */
    uint64_t columns;         /* of a row of the first of them */
    const char *wanted;       /* its type by the file type */
    const char *instead;      /* "IQ4_NL in 180 tensors, Q5_0 in 30": types that they get */
    uint64_t reserved[4];
} gq_fallbacks;
/* NULL: the file type was not planned, or all rows fit. */
GQ_API const gq_fallbacks *gq_survey_fallbacks(const gq_survey *s, const char *filetype);
GQ_API const gq_curve_point *gq_survey_curve(const gq_survey *s, size_t *n); /* smallest first */
GQ_API const char *const *gq_survey_warnings(const gq_survey *s, size_t *n);

/* ---- a folder to publish ---- */
typedef struct gq_publish_request {
    size_t size;
    /* Outputs without a path, in the folder out_dir, which must exist. No output: a ladder alone. With
     * dry_run nothing is written. */
    const gq_options *options;
    /* File name with {type}, and maybe {model}, that ends in .gguf; NULL: {model}-{type}.gguf. */
    const char *name;
    bool ladder; /* also the best mix for each common size of memory, from 4 to 256 GB */
    const char *base_model, *license,
        *quantized_by; /* for the page; NULL: what the model says, if anything */
    const char *how;   /* line that makes the folder again, shown as code; NULL: none */
    /* The text to evaluate on and what goes with it; the files are put in. NULL: nothing is evaluated. */
    const gq_evaluation_request *evaluation;
    const char *speeds; /* output of llama-bench as JSON, JSON lines or CSV; NULL: none */
    const gq_callbacks *callbacks;
    /* Called before and after each part of the work, for programs that show it; each may be NULL. phase:
     * "plan", "verify" (of what is there), "quantize" (plan: what is made now), "evaluate" or "checksums",
     * with which the page is written. gq_progress.share and seconds_left are those of the whole call, all
     * else is of the part at work. failure: NULL, it went well. kept: a file exists and is complete, and is not
     * made again. */
    void *user;
    void (*begins)(void *user, const char *phase, const gq_plan *plan);
    void (*ends)(void *user, const char *phase, const gq_error *failure);
    void (*kept)(void *user, const char *path);
    /* The type of the projector that is made of a folder whose model has a vision or audio encoder, too, for all files:
     * mmproj-{model}- TYPE.gguf. NULL: F16, and where it cannot be made a warning says so. "none": it is left
     * out. */
    const char *projector;
    /* The type of a file with the MTP layers alone, mtp-{model}-TYPE.gguf, beside files that then are made
     * without them (options->no_mtp). NULL: none. */
    const char *mtp_file;
    /* A draft of the model, a GGUF or a folder, and the type that it is made in (NULL: Q8_0):
     * draft-{model}-TYPE.gguf. A draft's folder that has no vocabulary takes that of the model's. With an
     * evaluation the page says how much of it each file accepts. NULL: none. */
    const char *draft, *draft_type;
    const char
        *title; /* of the page: the model's name as people write it; NULL: that of its repository or files */
    const char
        *repo; /* OWNER/NAME that the folder is uploaded to, for the page's commands; NULL: not known */
} gq_publish_request;
/* Files that belong to all files of the table. */
typedef enum gq_companion { GQ_PROJECTOR, GQ_MTP_FILE, GQ_DRAFT_FILE, GQ_COMPANIONS } gq_companion;
typedef struct gq_publication gq_publication;
/* Makes the files that are not there yet, evaluates all, and writes README.md, divergence.svg, SHA256SUMS,
 * .gitattributes and a copy of the importance matrix into the folder. A README.md that this library has not
 * written, or that was edited between its marks, is replaced only with options->force; what stands around the
 * marks stays, as do files of the model that earlier calls have made and checksums of other files. One call
 * at a time works in a folder. NULL: *e says why; what is whole stays and counts the next time. */
GQ_API gq_publication *gq_publish(const gq_publish_request *r, gq_error *e);
GQ_API void gq_publication_free(gq_publication *p);
/* The plan of all files, made now or before. */
GQ_API const gq_plan *gq_publication_plan(const gq_publication *p);
GQ_API const gq_plan *gq_publication_projector(const gq_publication *p); /* NULL: there is none */
GQ_API const gq_plan *gq_publication_companion(const gq_publication *p, gq_companion which); /* likewise */
/* Estimates of time, memory and disk space for the whole job, made before the work. */
GQ_API void gq_publication_needs(const gq_publication *p, gq_needs *to);
GQ_API size_t gq_publication_made(const gq_publication *p);                     /* files made by this call */
GQ_API const gq_evaluation *gq_publication_evaluation(const gq_publication *p); /* NULL: there is none */
/* The base model that the page names, OWNER/NAME; NULL: none was found. *source: where it was found, such as
 * a key of the metadata; NULL: it was given. */
GQ_API const char *gq_publication_base_model(const gq_publication *p, const char **source);
/* What the call did not name and README.md keeps of an earlier one: repo, title, license, quantized_by. All else is
 * NULL or 0. */
GQ_API const gq_publish_request *gq_publication_kept(const gq_publication *p);
GQ_API const char *const *gq_publication_warnings(const gq_publication *p, size_t *n);

/* ---- tables and charts of files ---- */
typedef struct gq_page_row {
    const char *path; /* of the file, or of its first shard; its name alone is shown */
    const char *type; /* "Q4_K_M": the point's name in the chart */
    uint64_t file_bytes;
    double bits;                   /* per weight; 0: not known */
    const gq_evaluated *evaluated; /* NULL: it was not */
    double relative_error;         /* of the weights; NaN: not measured */
    double reads, generates;       /* tokens per second, of a prompt and of an answer; 0: not measured */
    /* 95 % intervals of the KL divergence and of the share of changed top-1 tokens, and gq_level_text of both;
     * NULL: not shown */
    GQ_RENAMED(const gq_interval *, kld, apart);
    GQ_RENAMED(const gq_interval *, changed_top1, flips);
    const char *level;
    uint64_t reserved[1];
} gq_page_row;
/* Sets the members of a row that a model of an evaluation has; the intervals are put into storage. */
GQ_API bool gq_page_row_evaluated(gq_page_row *row, const gq_evaluation *v, size_t model,
                                  gq_interval storage[2], gq_error *e);
/* The rows of a published page's table, *n of them, largest file first: all of the model's files in the folder. *n 0: no
 * page was written. */
GQ_API const gq_page_row *gq_publication_rows(const gq_publication *p, size_t *n);
/* The row of the file that the page recommends; *why: a noun phrase. NULL: there is no row. */
GQ_API const gq_page_row *gq_publication_recommended(const gq_publication *p, const char **why);
typedef struct gq_page {
    size_t size;
    const gq_page_row *rows; /* n of them, in any order: the largest file is shown first */
    size_t n;
    GQ_RENAMED(const gq_evaluated *, base_model, original); /* set both if any row is evaluated, else none */
    const gq_evaluation_facts *evaluation;
    uint64_t memory; /* bytes that running a file takes in addition to its size; 0: no column of memory */
    bool errors;     /* a column of relative errors, where any is known */
    const char *speed_note; /* sentence on how speed was measured; NULL: none */
    bool recommends;        /* the file to take is marked, as in gq_publication_recommended */
} gq_page;
/* Returns the table in Markdown, or as a <table> of HTML, with notes on its columns below; malloc'ed. */
GQ_API char *gq_page_table(const gq_page *page, bool html, gq_error *e);
/* Returns a chart of KL divergence, or else of relative errors, against size: SVG for light and dark pages;
 * malloc'ed. */
GQ_API char *gq_page_chart(const gq_page *page, gq_error *e);

/* ---- reports of jobs, as docs/reports.md describes them ---- */
/* The rank of a tensor and its share of a whole output's error: the relative error (0: not measured) and the sum of
 * squares, both under importance where there is any. */
GQ_API double gq_loss_error(const gq_loss *l);
GQ_API double gq_loss_squares(const gq_loss *l);

typedef struct gq_report_request {
    size_t size;
    /* The subject of the report, which must outlive it: a plan, with the results of its run (NULL: it is only
     * planned); or a comparison of so many quants; or an evaluation, which may also be of a run's outputs. */
    const gq_plan *plan;
    const gq_results *results;
    const gq_comparison *comparison;
    size_t n_quants;
    const gq_evaluation *evaluation;
    const gq_evaluation *const *kinds; /* of the same models on n_kinds more texts; NULL: none */
    const char *const *kind_names;
    size_t n_kinds;
    size_t only; /* of a plan or a comparison: this output alone, counted from 1; 0: all */
    /* Paths that the job was given; imatrix, effort: NULL where there was none. */
    const char *input, *imatrix, *effort;
    const char *const *options; /* as on a command line; paths in them are as they shall be shown */
    size_t n_options;
    const char *const *warnings;
    size_t n_warnings;
    double rate;     /* of a run: weights per second; 0: all that it did by the time that it took */
    bool full_paths; /* paths are shown with their folders */
    bool reuses;     /* outputs of earlier runs were offered for copying */
} gq_report_request;

enum { GQ_WORST = 5 };
typedef struct gq_report_output { /* an output of a run, or a quant of a comparison */
    const gq_summary *summary;
    const gq_tensor *tensors; /* n of them */
    size_t n;
    const gq_loss *losses;        /* NULL: only planned, nothing measured */
    const gq_rounding *roundings; /* NULL: nothing was calibrated, or it is only planned */
    const gq_step *steps;         /* n_steps of its calibration; NULL likewise */
    size_t n_steps;
    uint64_t reused, reused_bytes; /* tensors copied from earlier outputs, or, of a plan, that may be */
    const size_t *numbers; /* of several quants: which of the base model's each tensor is; else NULL */
    const bool *best;      /* and whether no quant is nearer to it; else NULL */
    size_t n_best;
    gq_loss loss;           /* sums over the measured tensors */
    double squares;         /* sum of gq_loss_squares over them */
    size_t worst[GQ_WORST]; /* n_worst tensors with the largest error, worst first */
    size_t n_worst;
    /* Rounding errors: sums, and the root mean square of gq_rounding_written and _plain (NaN: unknown). */
    uint64_t calibrated, matrices, plain, unchecked, codes, clipped;
    double written, plain_error;
    double rate; /* weights per second; 0: not known */
    uint64_t reserved[4];
} gq_report_output;

typedef enum gq_report_format {
    GQ_REPORT_JSON,
    GQ_REPORT_EXACT, /* for bindings: JSON with all digits, "NaN" and "Infinity", sums of squares, and no
                        members under earlier names; members that are not in reports begin with a dot */
    GQ_REPORT_CSV,
    GQ_REPORT_HTML,       /* a page that draws the JSON */
    GQ_REPORT_MARKDOWN,   /* a page with the table of published pages */
    GQ_REPORT_SVG,        /* the chart of published pages */
    GQ_REPORT_TABLE,      /* the page's table alone, in Markdown */
    GQ_REPORT_HTML_TABLE, /* the same in HTML */
} gq_report_format;
/* The format by the extension of a file's name, in any case; -1: it has none of .json, .csv, .html, .md, .svg. */
GQ_API int gq_report_format_of(const char *path);

typedef struct gq_report gq_report;
GQ_API gq_report *gq_report_new(const gq_report_request *r, gq_error *e);
GQ_API void gq_report_free(gq_report *r);
GQ_API const gq_report_output *gq_report_outputs(const gq_report *r, size_t *n);
/* "plan", "run", "comparison" or "evaluation". */
GQ_API const char *gq_report_kind(const gq_report *r);
/* Seconds that the job took; *planning: those of its plan. 0: not known. */
GQ_API double gq_report_seconds(const gq_report *r, double *planning);
/* Returns the report's text, malloc'ed. */
GQ_API char *gq_report_text(const gq_report *r, gq_report_format format, gq_error *e);
/* The same for a verification of the file `path`, JSON or EXACT. compared: checksums were expected; report: the
 * path of the report that had one for each tensor; NULL: they came from elsewhere. */
GQ_API char *gq_verification_text(const gq_verification *v, const char *path, bool compared,
                                  const char *report, gq_report_format format, gq_error *e);
/* The same for a survey of the model `path`: JSON, EXACT, or SVG, a chart of KL divergences. */
GQ_API char *gq_survey_text(const gq_survey *s, const char *path, gq_report_format format, gq_error *e);
/* The number of the quant to take, as published pages recommend it; 0: there is none. *level: its level of quality. */
GQ_API size_t gq_evaluation_recommended(const gq_evaluation *v, gq_level *level);
/* The certainty of which of two quants has the lower KL divergence: "certain", "likely", "open", or "the same". */
GQ_API const char *gq_evaluation_certainty(const gq_evaluation *v, size_t a, size_t b);

#ifdef __cplusplus
}
#endif
