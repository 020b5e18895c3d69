/* The phases of a publication, one after another: how far the whole has come, and the time left of all of it.
 * The call that does a phase reports what is left of its own; the phases to come stand behind it, by the seconds
 * that they are predicted to take. While files are planned nothing is known of these.
 */
#pragma once

#include "base/relay.h"
#include "quantize/gquant_study.h"

typedef enum publication_phase {
    PHASE_PLAN,
    PHASE_VERIFY,
    PHASE_MAKE,
    PHASE_EVALUATE,
    PHASE_SUMS,
    PHASES
} publication_phase;

typedef struct publication_phases {
    progress_relay relay;
    double seconds[PHASES]; /* predicted; 0 when a phase is done */
    bool is_known;          /* the predictions are there */
    bool is_measured;       /* most of them is by a forecast */
    publication_phase at;
    double expected; /* of the whole, when the phase began; 0: nothing was measured */
} publication_phases;

/* Predicts all but the evaluation. force: files that are there are made again. summed: bytes of the files whose SHA-256
 * is computed. */
void phases_predict(publication_phases *p, const gq_plan *plan, bool force, uint64_t summed);
/* Returns what evaluating takes on a usual processor, for n models. */
double phases_usual_evaluation(const gq_plan *plan, const gq_evaluation_request *r, uint64_t tokens);
/* Begins a phase and returns the callbacks for its call. to: the caller's, copied; may be NULL. *p must not
 * move until the end. */
const gq_callbacks *phases_begin(publication_phases *p, publication_phase phase, const gq_callbacks *to);
/* Ends the phase at work. */
void phases_leave(publication_phases *p);
/* Reports that the whole is done, if anything was reported before. */
void phases_end(publication_phases *p);
