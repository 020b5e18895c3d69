/* AMX tiles in plain C, after measurements of the hardware: codec/amx/matmul_bf16.c is compiled with it to run
 * without AMX. */
#pragma once

#include "codec/tile.h"

/* codec/amx/matmul_bf16.c on the model. */
extern const product_kernels products_bf16_model;

/* One output of the product of tiles: c and `pairs` pairs of bf16; a[2 k + i], b[k * b_step + i]. Each step
 * is rounded once, to nearest and even; denormals are zeros, as inputs and as results. */
#include <stdint.h>
float tile_model_output(const uint16_t *a, const uint16_t *b, size_t b_step, size_t pairs, float c);
/* A float as bf16 with parts below 2^-56 set to 0. */
uint16_t tile_model_part(float x);
/* How often tiles were configured and not released. */
int tile_model_configured(void);
