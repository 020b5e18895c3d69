/* Names of outputs and of their shards, and whether they and what lies beside them may be written. */
#pragma once

#include "quantize/plan/plan.h"

/* Returns the input's name with the file type in place of F16, BF16 or F32, and "mmproj-" in front of a
 * projector's, in out_dir (NULL: the input's folder); malloc'ed, NULL: no memory. */
char *plan_derive_path(const gq_options *options, const char *filetype);
/* Returns PREFIX-kkkkk-of-nnnnn.gguf for the k-th shard (from 0) of n; malloc'ed, NULL: no memory. When n is
 * 1 it is the path itself, or, where that was given as a prefix, PREFIX.gguf. */
char *plan_shard_path(const char *path, bool prefix, uint32_t k, uint32_t n);
/* Check that writing a file of this name destroys nothing that is read: the model, importance data, or the
 * text of a calibration. plan_check_beside is for files that are made, replaced or removed beside an output,
 * and has a message of its own. */
bool plan_check_inputs(const gq_plan *plan, const gq_options *options, const char *path, gq_error *e);
bool plan_check_beside(const gq_plan *plan, const gq_options *options, const char *path, gq_error *e);
/* Checks that all outputs may be written where they are asked for. named: which shards, output by output,
 * have their names from an earlier run; NULL: none. */
bool plan_check_targets(const gq_plan *plan, const gq_options *options, const bool *named, gq_error *e);
/* Of a plan alone: warns of a folder that the run will need, unless it is out_dir, which is made. */
bool plan_warn_missing_folder(gq_plan *plan, const gq_options *options, gq_error *e);
/* Whether all files of an unfinished run are there, so that it can be continued. */
bool plan_outputs_are_there(const gq_plan *plan);
