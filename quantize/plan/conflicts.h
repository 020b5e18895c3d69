/* Options that exclude each other: one table, for gq_options_conflict and for the plan. */
#ifndef GQ_CONFLICTS_H
#define GQ_CONFLICTS_H

#include "quantize/gquant_quantize.h"

/* Fails with GQ_USAGE where gq_options_conflict finds two options. */
bool conflicts_check(const gq_options *o, gq_error *e);

#endif
