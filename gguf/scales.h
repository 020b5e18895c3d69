/* Powers of two by which some columns or rows of a model's tensors are multiplied when they are read, so that
 * a model can be seen with scales moved from one tensor to another (study/calibrate/balance.c). Tensors
 * are of F32, F16 or BF16, whose values stay exact but where F16 has no room for them: those become infinite,
 * or lose bits. */
#pragma once

#include "gguf/model.h"

typedef struct model_scales model_scales;

model_scales *model_scales_new(gq_error *e); /* NULL: no memory */
void model_scales_free(model_scales *s);     /* s may be NULL */
/* Whether a type's values can be scaled. */
bool model_scales_type(const tensor_type *type);
/* Multiplies column `column` of matrix number `matrix` of t by 2^by, or row `row` of all its matrices' rows.
 * Columns of one tensor are given in ascending order of matrix and column, rows in ascending order. */
bool model_scales_column(model_scales *s, const model_tensor *t, uint64_t matrix, uint64_t column, int by,
                         gq_error *e);
bool model_scales_row(model_scales *s, const model_tensor *t, uint64_t row, int by, gq_error *e);
/* Whether something of t is scaled. */
bool model_scales_has(const model_scales *s, const model_tensor *t);
/* Multiplies n values of such a type by 2^by. */
void model_scales_values(const tensor_type *type, void *values, uint64_t n, int by);
/* Scales n elements from `first` on, as they were read. */
void model_scales_apply(const model_scales *s, const model_tensor *t, uint64_t first, uint64_t n, void *to);
