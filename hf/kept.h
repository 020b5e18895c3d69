/* Tells the tensors of a converted model that stay F32, whatever type was asked for: those that llama.cpp's
 * converter keeps. */
#ifndef GQ_HF_KEPT_H
#define GQ_HF_KEPT_H

#include <stdbool.h>
#include <stdint.h>

bool hf_stays_f32(const char *arch, const char *name, uint32_t n_dims);

#endif
