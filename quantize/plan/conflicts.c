/* Options that exclude each other. A row of `conflicts` is all that a new pair takes: the plan refuses it
 * with the words of `members`, and a program that has asked gq_options_conflict refuses it with its own. */
#include "quantize/plan/conflicts.h"
#include "base/sized.h"

typedef enum member_kind { IS_FLAG, IS_POINTER, IS_COUNT, IS_SIZE, IS_LIST, IS_TARGET } member_kind;

/* A member of gq_options that excludes others. */
typedef struct member {
    size_t offset;
    member_kind kind; /* tells whether it is asked for */
    const char *words;
} member;

#define MEMBER(name, kind, words) \
    { offsetof(gq_options, name), kind, words }
static const member members[] = {
    MEMBER(outputs, IS_TARGET, "a target"),
    MEMBER(pure, IS_FLAG, "one type for all tensors"),
    MEMBER(imatrix, IS_POINTER, "importance data"),
    MEMBER(include_weights, IS_LIST, "weights to include"),
    MEMBER(exclude_weights, IS_LIST, "weights to exclude"),
    MEMBER(keep_split, IS_FLAG, "a split like the input's"),
    MEMBER(split_max_size, IS_SIZE, "a largest size of shards"),
    MEMBER(part, IS_COUNT, "doing a part"),
    MEMBER(join, IS_FLAG, "joining all parts"),
    MEMBER(calibration, IS_POINTER, "a calibration"),
    MEMBER(transpose, IS_LIST, "transposing tensors"),
    MEMBER(prune_layers, IS_POINTER, "layers to leave out"),
    MEMBER(no_mtp, IS_FLAG, "a model without prediction blocks"),
    MEMBER(mtp_only, IS_FLAG, "prediction blocks alone"),
    MEMBER(tensor_scales, IS_FLAG, "factors of tensors"),
};
#undef MEMBER

#define CONFLICT(one, other, why) \
    { \
        offsetof(gq_options, one), offsetof(gq_options, other), why, { 0 } \
    }
static const gq_conflict conflicts[] = {
    CONFLICT(outputs, pure, "a target mixes types"),
    CONFLICT(include_weights, exclude_weights, "name those to use or those to leave out"),
    CONFLICT(keep_split, split_max_size, "each says where shards end"),
    CONFLICT(join, part, "parts are joined when all are done"),
    CONFLICT(imatrix, calibration, "a calibration gathers more than importance data hold; leave these out"),
    CONFLICT(part, calibration,
             "a calibrated run cannot be done in parts, as each layer depends on those before it"),
    CONFLICT(join, calibration,
             "a calibrated run cannot be done in parts, as each layer depends on those before it"),
    CONFLICT(transpose, calibration,
             "a calibration cannot write transposed tensors; transpose those of the calibrated file"),
    CONFLICT(no_mtp, mtp_only, "each leaves out what the other writes"),
    CONFLICT(prune_layers, mtp_only, "a draft has no layers"),
    CONFLICT(tensor_scales, calibration, "a calibration knows nothing of what products are multiplied by"),
};
#undef CONFLICT

static bool has_target(const gq_options *o) {
    for (size_t i = 0; i < o->n_outputs; i++)
        if (o->outputs[i].target.size || o->outputs[i].target.bpw != 0 || o->outputs[i].size_of) return true;
    return false;
}

static const member *member_at(size_t offset) {
    const member *m = members;
    while (m->offset != offset) m++;
    return m;
}

static bool is_asked(const gq_options *o, size_t offset) {
    const void *at = (const char *)o + offset;
    switch (member_at(offset)->kind) {
    case IS_FLAG:
        return *(const bool *)at;
    case IS_POINTER:
        return *(const void *const *)at;
    case IS_COUNT:
        return *(const uint32_t *)at;
    case IS_SIZE:
        return *(const uint64_t *)at;
    case IS_LIST:
        return ((const gq_list *)at)->n;
    case IS_TARGET:
        return has_target(o);
    }
    return false;
}

const gq_conflict *gq_options_conflict(const gq_options *options) {
    gq_options o;
    if (!SIZED_TAKE(o, options, NULL)) return NULL;
    for (size_t i = 0; i < sizeof conflicts / sizeof *conflicts; i++)
        if (is_asked(&o, conflicts[i].first) && is_asked(&o, conflicts[i].second)) return &conflicts[i];
    return NULL;
}

bool conflicts_check(const gq_options *o, gq_error *e) {
    const gq_conflict *c = gq_options_conflict(o);
    return !c || gq_fail_usage(e, "%s and %s cannot be combined: %s", member_at(c->first)->words,
                               member_at(c->second)->words, c->why);
}
