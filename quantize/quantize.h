/* Shared by the core and study/: inputs, files that are written atomically, the functions that run models. */
#pragma once

#include "gguf/model.h"
#include "imatrix/imatrix.h"
#include "quantize/gquant_common.h"
#include "quantize/gquant_inspect.h"
#include "quantize/gquant_quantize.h"
#include "quantize/gquant_study.h"

/* ---- opens a model by its path, whatever container it is in, and says what it has (input.c) ---- */

/* Opens a GGUF file, any shard of a split one, a Hugging Face folder, or an image model's safetensors.
 * Everything is checked except
 * the weights. The caller closes *m with model_close, which it may also do after a failure. */
bool input_open(model_source *m, const char *path, gq_error *e);
/* The same with adapters merged into it, and with a draft's target, which only a folder can have; NULL: none. */
bool input_open_adapted(model_source *m, const char *path, const gq_adapters *adapters, gq_error *e);
/* The same for the projector of a folder, in place of its text model; no target. */
bool input_open_projector(model_source *m, const char *path, const gq_adapters *adapters, gq_error *e);
/* Returns the path that names of outputs begin with: that of the input, unless the model is called otherwise;
 * the names of adapters (NULL: none) follow. malloc'ed; NULL: no memory. */
char *input_stem(const char *path, const gq_adapters *adapters, gq_error *e);
/* gq_kept_path of an input with adapters. */
char *input_kept_path(const char *path, const gq_adapters *adapters, const char *suffix, gq_error *e);

/* An open model, as the public header has it. */
struct gq_model {
    model_source file;
    gq_metadata *metadata;
    gq_stored *tensors;
    gq_origin *origins; /* of the tensors */
    gq_model_facts facts;
    /* Per tensor of `file`, what the first plan that was lent the model has found of the QAT grid that it
     * lies on (plan/target/qat_grid.c); 0: nothing yet. It saves the others reading the weights again. */
    _Atomic uint64_t *qat_grids;
};

/* Fills *to, if a tensor has an origin, and returns it; else NULL. Its texts are the model's. */
const gq_origin *model_origin_show(const model_tensor *t, gq_origin *to);
/* Returns the bytes that a tensor takes in the model's files. */
uint64_t model_stored_bytes(const model_tensor *t);

/* ---- writes files whole from memory, and checks that no job writes over what it reads (files.c) ---- */

typedef struct file_piece {
    const void *bytes; /* NULL: zeros */
    uint64_t n;
} file_piece;
/* Writes n pieces one after another into a file, in the way of gq_write_whole. */
bool files_write(const char *path, bool replace, const file_piece *pieces, size_t n, gq_error *e);

/* Suffixes of the hidden names (safe_file_beside) that files have while they are written: small ones, and
 * logits. */
#define FILES_NEW_SUFFIX ".gquant-new"
#define FILES_LOGITS_SUFFIX ".logits"

/* Fails where writing a file of that name would destroy an input: a file of the model's (NULL: there is no
 * model), or one of the n others, each of which may be NULL or not exist. The hidden names of the file are
 * checked, too. */
bool files_check_inputs(const char *path, const model_source *model, const char *const *others, size_t n,
                        gq_error *e);

/* Whether the first kilobytes of a file have a word: of one that is damaged, whether it was one of ours. */
bool files_begin_with(const char *path, const char *word);
/* Whether the folder of a file is not there. Without memory to find out: false. */
bool files_lack_folder(const char *path);
/* The warning of a plan that is not run; %s is the file. */
#define FILES_NO_FOLDER "the folder of %s does not exist yet; the run needs it"

/* Whether the file or folder of that very name is one of these inputs, whose names may be NULL. Allocates
 * nothing. */
bool files_is_input(const char *path, const model_source *model, const char *const *others, size_t n);

/* ---- what runs models ---- */

/* Functions above the core that run models, passed in by job.c. A build without a forward pass has none, and refuses
 * with RUNNERS_MISSING what would need them. */

typedef gq_plan *plan_maker(const gq_options *asked, gq_error *e);

typedef struct model_runners {
    const struct rounding_kind *calibration; /* plan/rounding.h */
    /* Makes the best plan of a calibration that takes no longer than was asked for. */
    gq_plan *(*plan_within)(const gq_options *asked, plan_maker *make, gq_error *e);
    const struct measurement *trials;    /* plan/target/target.h */
    const struct array_rounding *arrays; /* arrays/arrays.h */
    model_check *check;
} model_runners;

#define RUNNERS_MISSING "this build has no forward pass: build it with -DGQUANT_FORWARD=ON"

/* ---- verifying a model, as gq_verify does (verify.c) ---- */

/* complete: compares its tensors with its architecture; NULL: there is none, which becomes a warning. */
gq_verification *verify_model(const char *path, const gq_checksum *expected, size_t n, int threads,
                              model_check *complete, const gq_callbacks *callbacks, gq_error *e);

/* ---- makes an imatrix an object of the public header (importance.c) ---- */

/* Returns an object that owns *data; path is for messages. On failure *data is freed and the result is NULL. */
gq_imatrix *importance_of(imatrix *data, const char *path, gq_error *e);

/* Fills the rows of all entries, in their order: statistics of an entry's normalised values, all its matrices
 * together, except those that no token reached. Numbers that are not defined (no data, sum or deviation zero)
 * are NaN. For data that passed imatrix_check. Fails only for lack of memory. */
bool importance_statistics(const imatrix *im, gq_imatrix_row *rows, gq_error *e);
/* Fills what the entries say of n weights, whose names, columns and matrices are set. used[im->n_entries]:
 * whether an entry belongs to any of them. */
void importance_cover(const imatrix *im, gq_imatrix_cover *weights, size_t n, bool *used);
