/* Checksums by which a plan is recognised: whoever continues work or uses measurements again compares them.
 */
#ifndef GQ_IDENTITY_H
#define GQ_IDENTITY_H

#include "quantize/plan/plan.h"

extern const char gq_build_id[9]; /* of the sources that this was built from (cmake/build-id.cmake) */
/* "0.1.0-1a2b3c4d": version and sources, which decide the bytes as much as the plan does. */
void plan_build(char to[24]);
/* Computes the input's checksums; reads a small part of its weights. */
bool plan_identify_input(gq_plan *plan, gq_error *e);
/* Returns a checksum of all options that decide the bytes of blocks. */
uint32_t plan_settings_digest(const gq_plan *plan);
/* Computes the checksums of options and layout. Called when all outputs are laid out. */
void plan_identify_layout(gq_plan *plan);
/* Returns a checksum of what an output is made of besides the input: settings, importance data, calibration.
 * It is in the output, so it does not depend on how the input is stored. */
uint32_t plan_ways_digest(const gq_plan *plan, const plan_output *out);
/* A number for a set of shards: what it is made of, and how. Unlike the identity it depends on neither times
 * nor builds, since it is in the output. */
uint64_t plan_set_digest(const gq_plan *plan, const plan_output *out);

#endif
