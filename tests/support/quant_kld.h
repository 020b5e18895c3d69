/* KL divergence of a quantized model from its base model. */
#pragma once

#include <stdint.h>

/* The mean KL divergence (nats) on decimal ids in windows of `context`, with one thread. */
double quant_kld(const char *original, const char *copy, const char *ids, uint32_t context);
