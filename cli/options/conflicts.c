#include "cli/options/options.h"

/* Options that become a member of gq_options later. */
static const struct {
    size_t option, member;
} stand_ins[] = {
    {offsetof(request, calibrate), offsetof(gq_options, calibration)},
    {offsetof(request, calibrate_ids), offsetof(gq_options, calibration)},
    {offsetof(request, targets), offsetof(gq_options, outputs)},
};

/* Options that exclude each other, of which the library sees one text. */
static const struct {
    size_t first, second;
    const char *why;
} conflicts[] = {
    {offsetof(request, calibrate), offsetof(request, calibrate_ids),
     "they are two texts, and only one can be used"},
    {offsetof(request, text), offsetof(request, ids), "they are two texts, and only one can be used"},
    {offsetof(request, base), offsetof(request, text), "the file has the tokens of its text"},
    {offsetof(request, base), offsetof(request, ids), "the file has its tokens"},
    {offsetof(request, base), offsetof(request, context), "the file's windows have their length"},
    {offsetof(request, base), offsetof(request, parse_special), "the file has the tokens of its text"},
    {offsetof(request, base), offsetof(request, logits), "the file has the place of the base model"},
    {offsetof(request, base), offsetof(request, base_out), "the file has the place of the base model"},
    {offsetof(request, base), offsetof(request, speed), "the speed is measured without any text"},
    {offsetof(request, base_out), offsetof(request, speed), "the speed is measured without any text"},
    {offsetof(request, mmproj), offsetof(request, quantize.part),
     "the run with --join can make the projector"},
};

/* Options that mean nothing without one of others. */
enum { MOST_NEEDED = 3 };
static const struct {
    unsigned commands;
    size_t option, needed[MOST_NEEDED];
    const char *words;
} needs[] = {
#define FOR_CALIBRATION(member) \
    { \
        CMD_QUANTIZE, offsetof(request, member), \
            {offsetof(request, calibrate), offsetof(request, calibrate_ids), offsetof(request, calibrate)}, \
            "--calibrate" \
    }
#define FOR_ANY_TEXT(member) \
    { \
        CMD_QUANTIZE, offsetof(request, member), \
            {offsetof(request, calibrate), offsetof(request, calibrate_ids), offsetof(request, text)}, \
            "--calibrate or --evaluate" \
    }
    FOR_CALIBRATION(calibrate_tokens),
    FOR_CALIBRATION(calibration.seconds),
    FOR_CALIBRATION(calibration.steps),
    FOR_CALIBRATION(calibration.correction),
    FOR_CALIBRATION(calibration.damp),
    FOR_CALIBRATION(calibration.shrink),
    FOR_CALIBRATION(calibration.arithmetic),
    FOR_ANY_TEXT(context),
    FOR_ANY_TEXT(memory),
#undef FOR_CALIBRATION
#undef FOR_ANY_TEXT
};

/* The option that was given and is kept there; NULL: it was not. */
static const char *given_at(const request *r, size_t member) {
    for (size_t i = 0; i < r->n_given; i++)
        if (r->given[i].option->member == member) return r->given[i].option->name;
    return NULL;
}

/* The option that a member of gq_options was asked for with. */
static const char *given_for(const request *r, size_t member) {
    const char *name = given_at(r, offsetof(request, quantize) + member);
    for (size_t i = 0; !name && i < sizeof stand_ins / sizeof *stand_ins; i++)
        if (stand_ins[i].member == member) name = given_at(r, stand_ins[i].option);
    return name;
}

static bool fail_conflict(const char *first, const char *second, const char *why, gq_error *e) {
    return gq_fail_usage(e, "--%s and --%s cannot be combined: %s", first, second, why);
}

static bool check_library(const request *r, gq_error *e) {
    gq_options o = r->quantize;
    if (r->calibrate || r->calibrate_ids) o.calibration = &r->calibration;
    const gq_conflict *c = gq_options_conflict(&o);
    if (!c) return true;
    const char *first = given_for(r, c->first), *second = given_for(r, c->second);
    return !first || !second || fail_conflict(first, second, c->why, e);
}

bool request_check_conflicts(const request *r, gq_error *e) {
    for (size_t i = 0; i < sizeof conflicts / sizeof *conflicts; i++) {
        const char *first = given_at(r, conflicts[i].first), *second = given_at(r, conflicts[i].second);
        if (first && second) return fail_conflict(first, second, conflicts[i].why, e);
    }
    for (size_t i = 0; i < sizeof needs / sizeof *needs; i++) {
        const char *name = needs[i].commands & r->command ? given_at(r, needs[i].option) : NULL;
        bool has = false;
        for (size_t k = 0; name && k < MOST_NEEDED; k++) has = has || given_at(r, needs[i].needed[k]);
        if (name && !has) return gq_fail_usage(e, "--%s works only with %s", name, needs[i].words);
    }
    return check_library(r, e);
}
