/* Synthetic models for tests: metadata and tensors in, a GGUF file out; and reading of files. */
#pragma once

#include "gguf/gguf.h"
#include "quantize/gquant.h"
#include "tests/support/support.h"

typedef struct model model;
/* With general.architecture and {arch}.block_count, and as a part of a model (general.type) unless it gets an
 * epsilon, too; NULL: without metadata, as later shards are. */
model *model_new(const char *arch, uint32_t blocks);
void model_free(model *m);
void model_set(model *m, const char *key, uint32_t type, const void *value, uint64_t size);
void model_set_u32(model *m, const char *key, uint32_t value);
void model_set_string(model *m, const char *key, const char *text);
/* An array of n elements of a type of fixed size. */
void model_set_array(model *m, const char *key, uint32_t type, const void *elements, uint64_t n);
/* A tensor with the values given (F32, converted to the type, also to I32), or, for NULL, with values like a
 * model's that depend on the name. Dimensions of 0 at the end mean 1. */
void model_add(model *m, const char *name, uint32_t type, const uint64_t ne[4], const float *values);
void model_write(model *m, const char *path);
void model_save(model *m, const char *path); /* the same, and frees it */

/* A llama of 256 columns: token_embd, output, norms and `blocks` blocks, in F16 and F32. */
model *model_llama(uint32_t blocks);

/* n values, normal with a few outliers, the same for the same seed. */
float *random_values(uint64_t n, uint64_t seed);

gq_plan *must_plan(const gq_options *options);
gq_results *must_run(const gq_plan *plan);
gq_evaluation *must_evaluate(const gq_evaluation_request *r);
void must_not_evaluate(const gq_evaluation_request *r, const char *says); /* the message contains the text */
/* A tensor of the plan's first output, which has it. */
const gq_tensor *plan_tensor(const gq_plan *plan, const char *name);
/* Both; returns the results. */
gq_results *run_plan(const gq_options *options);
/* That an output of one run and one of another have the same losses. */
void assert_same_losses(const gq_results *a, size_t output_a, const gq_results *b, size_t output_b);
/* Run one output with defaults: file type, threads. */
void quantize(const char *in, const char *out, const char *filetype, int threads);
/* Whether a warning of the plan contains the text. */
bool warned(const gq_plan *plan, const char *text);
/* The plan or the run must fail; the text is the caller's until the next call. */
const char *failure(const gq_options *options);

/* Opens a file to inspect it; fails the test. */
model_source open_model(const char *path);
/* A tensor's bytes, malloc'ed, and decoded values. */
uint8_t *tensor_bytes(const model_source *m, const char *name, uint64_t *size);
float *tensor_values(const model_source *m, const char *name, uint64_t *n);
void assert_same_file(const char *a, const char *b);
/* Number of entries of a folder, hidden ones included. */
size_t count_files(const char *folder);
/* "FOLDER/name" in a static buffer, one of 64. */
const char *in_folder(const char *folder, const char *name);
