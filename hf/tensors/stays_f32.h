/* Tells the tensors of a converted model that stay F32, whatever type was asked for: those that llama.cpp's
 * converter keeps. */
#ifndef GQ_HF_STAYS_F32_H
#define GQ_HF_STAYS_F32_H

#include <stdbool.h>
#include <stdint.h>

/* stays: what else has this in its name; NULL: nothing. */
bool hf_stays_f32(const char *stays, const char *name, uint32_t n_dims);

#endif
