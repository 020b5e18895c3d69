/* The parts of a publication, one after another: how far the whole has come, and the time left of all of it.
 * The call that does a part tells what is left of its own; the parts to come stand behind it, by the seconds
 * that they are predicted to take. While files are planned nothing is known of these.
 */
#pragma once

#include "base/relay.h"
#include "quantize/gquant_study.h"

typedef enum publication_part {
    PART_PLAN,
    PART_VERIFY,
    PART_MAKE,
    PART_EVALUATE,
    PART_SUMS,
    PARTS
} publication_part;

typedef struct publication_parts {
    progress_relay relay;
    double seconds[PARTS]; /* predicted; 0 when a part is done */
    bool is_known;         /* the predictions are there */
    bool is_measured;      /* most of them is by a forecast */
    publication_part at;
    double expected; /* of the whole, when the part began; 0: nothing was measured */
} publication_parts;

/* Predicts all but the evaluation. force: files that are there are made again. summed: bytes of the files whose SHA-256
 * is computed. */
void parts_predict(publication_parts *p, const gq_plan *plan, bool force, uint64_t summed);
/* Returns what evaluating takes on a usual processor, for n models. */
double parts_usual_evaluation(const gq_plan *plan, const gq_evaluation_request *r, uint64_t tokens);
/* Begins a part and returns the callbacks for its call. to: the caller's, copied; may be NULL. *p must not
 * move until the end. */
const gq_callbacks *parts_begin(publication_parts *p, publication_part part, const gq_callbacks *to);
/* Ends the part at work. */
void parts_leave(publication_parts *p);
/* Tells that the whole is done, if anything was told before. */
void parts_end(publication_parts *p);
