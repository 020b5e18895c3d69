/* Measurements in a file, from one run to the next. */
#ifndef GQ_QUANTIZE_PLAN_MEASURE_FILE_H
#define GQ_QUANTIZE_PLAN_MEASURE_FILE_H

#include "quantize/plan/target/measure.h"

/* Makes the key under which measurements may be used again: input, settings, version and build; for a
 * calibrated plan also the layers that are run and tried and the wanted tensors, as the trials depend on each
 * other. */
void measure_key(const gq_plan *plan, const bool *wanted, size_t trial_layers, char key[MEASURE_KEY]);
/* Fills `found` from the file with what was measured under this key. A file that is damaged, or of another
 * key, counts as not there. */
void measure_read(const gq_plan *plan, const char *path, const char *key, measured *found);
/* Fails where replacing the file would lose anything else than measurements. */
bool measure_may_replace(const char *path, gq_error *e);
/* Writes the file, in place of an older one, in one step. */
bool measure_write(const gq_plan *plan, const char *path, const char *key, const measured *found,
                   gq_error *e);

#endif
