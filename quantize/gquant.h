/* libgquant: quantize GGUF models. The gquant command itself uses nothing else.
 *
 *     gq_output out = {.path = "model-Q4_K_M.gguf", .filetype = "Q4_K_M"};
 *     gq_options o = {.size = sizeof o, .input = "model-F16.gguf", .outputs = &out, .n_outputs = 1};
 *     gq_error e;
 *     gq_plan *plan = gq_plan_new(&o, &e);               // reads headers and imatrix data
 *     gq_results *results = NULL;
 *     if (plan && gq_run(plan, NULL, &results, &e)) ...  // writes the file, measures the loss
 *     gq_results_free(results);
 *     gq_plan_free(plan);
 *
 * A call that can fail returns false or NULL and fills *e with a kind and a sentence for people
 * (base/error.h); e may be NULL. Sizes are in bytes, counts in elements. Strings and arrays that a plan, a
 * model or results hand out belong to that object and are good until it is freed. Texts from a file (tensor
 * names, metadata) may hold control characters: pass them through gq_printable() (base/error.h) before you
 * show them.
 *
 * Every function may be called from several threads at once, on the same object where its parameter is const.
 * A forked child may call them, too, and has its own copies of the parent's objects; only a call in which
 * another thread of the parent was when it forked never ends in the child. gq_run and other calls that take
 * long start threads of their own, and call the caller's callbacks from them. A plan does not change once it
 * is made. GQUANT_ISA is the only environment variable that is read.
 *
 * This header brings all others along. Each of them can be included by itself, and brings what it needs:
 *
 *     gquant_common.h    version; types by name and number; a text; a tensor and what it lost; small files
 *     gquant_quantize.h  a model quantized: options, plan, run
 *     gquant_inspect.h   a file looked into, compared, verified; its speed
 *     gquant_arrays.h    arrays encoded and decoded; a model written from arrays
 *     gquant_study.h     a model run on a text: tokens, imatrix data, perplexity and KL divergence
 *     gquant_publish.h   what fits a machine; a folder to publish; tables and charts
 *     base/error.h, base/callbacks.h, base/comm/comm.h
 *                        failures; progress and stopping; several processes that do one job
 *
 * Later versions add to this interface in ways that break no program:
 * - A struct that begins with `size_t size` may get more members at its end. Who makes such a struct sets
 *   `size` to its sizeof; in all other members 0 is the default. In those that the library makes, `size` says
 *   how much of the struct there is.
 * - A struct that is handed out in arrays has room for more members in `reserved`, which is 0 till then.
 * - All other structs stay as they are.
 */
#pragma once

#include "gquant_arrays.h"
#include "gquant_common.h"
#include "gquant_inspect.h"
#include "gquant_publish.h"
#include "gquant_quantize.h"
#include "gquant_study.h"
