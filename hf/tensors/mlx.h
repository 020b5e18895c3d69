/* Folders that MLX has saved: what it changes in a model's arrays. */
#pragma once

#include "hf/tensors/steps.h"

/* Finds what MLX has done to the arrays, by their shapes and names; convolutions get the shape of the
 * original. Warns where anything is found. What cannot be undone is an error. */
bool hf_mlx_find(hf_build *b, gq_error *e);
/* Names that MLX gives to arrays. */
extern const arch_rule hf_mlx_rules[];
