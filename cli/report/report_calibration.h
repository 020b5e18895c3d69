/* What a calibration takes and what it has brought. */
#pragma once

#include "cli/report/report.h"

/* Prints the memory and the disk space that running a model takes. */
void report_room(FILE *to, uint64_t memory, uint64_t disk, bool states_in_file);
/* Prints what a calibration will take, for people. */
void report_calibration_plan(FILE *to, const gq_calibration_facts *f);
/* Prints what a calibration has brought; nothing where nothing was calibrated. */
void report_calibration(FILE *to, const report_output *o);
typedef struct report_roundings { /* of an output's tensors together */
    uint64_t tensors, matrices, plain, unchecked, codes, ends;
    double searched, written; /* root mean square of the tensors' gq_rounding_*; NaN: unknown */
} report_roundings;
report_roundings report_roundings_of(const report_output *o);
json_t *report_calibration_json(const gq_calibration_facts *f);
json_t *report_rounding_json(const report_output *o, const gq_rounding *r);
json_t *report_steps_json(const report_output *o);
