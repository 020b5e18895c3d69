/* Plans to inspect, and files for them. */
#pragma once

#include "tests/support/model.h"

void write_llama(const char *to, uint32_t blocks);
/* Parts of an imatrix in the .dat layout: an entry of n values like a model's, times scale. */
void write_bytes(FILE *f, const void *bytes, size_t n);
void write_int(FILE *f, int32_t n);
void write_entry(FILE *f, const char *name, int32_t calls, int32_t n, float scale);
/* A whole file in that layout: entries for attn_q and ffn_down of each block of such a model. */
void write_importance(const char *to, uint32_t blocks);

gq_options options_for(const char *in, const gq_output *out);
/* No plan can be made: the status, and what the message contains. */
void must_refuse(const gq_options *options, gq_status status, const char *says);
