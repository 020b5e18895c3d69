/* File types against the codecs there are: what can be written, and what is near to it. */
#ifndef GQ_FILETYPE_H
#define GQ_FILETYPE_H

#include "mixes/mixes.h"
#include "quantize/gquant.h"

bool plan_type_writable(uint32_t type);
bool plan_filetype_writable(const mix_filetype *f);
/* Whether all outputs that ask for a file type ask for one that can be written; the message names those that
 * do not, and what is nearest to them. */
bool plan_check_filetypes(const gq_options *options, gq_error *e);

#endif
