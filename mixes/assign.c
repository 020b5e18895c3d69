/* Gives each tensor its type, by the rules that docs/internals/mixes.md states. Tensors are visited in the order
 * in which the rules count them, since a rule may depend on a tensor's place among those of its role. For each
 * one: some keep their type whatever is asked for; then the user's patterns and options decide, and where there
 * are none the tables of rules.c by role, file type and facts. A type whose blocks do not fit the rows falls
 * back to another one, and a type that requires an imatrix that is missing is raised or flagged. Types that a
 * target has chosen come in through mix_options.types in place of the tables (budget.c chooses them). */
#include <stdlib.h>
#include <string.h>

#include "arch/arch.h"
#include "mixes/rules.h"

/* ---- order ---- */

typedef struct place {
    int64_t block;
    const char *name;
    uint32_t index;
} place;

static int by_block_and_name(const void *left, const void *right) {
    const place *a = left, *b = right;
    if (a->block != b->block) return a->block < b->block ? -1 : 1;
    int names = strcmp(a->name, b->name);
    return names ? names : (a->index > b->index) - (a->index < b->index);
}

bool mix_order(const mix_tensor *tensors, size_t n, bool keep_order, uint32_t *order, gq_error *e) {
    for (size_t i = 0; i < n; i++) order[i] = (uint32_t)i;
    if (keep_order || n < 2) return true;
    place *places = calloc(n, sizeof *places);
    if (!places) return gq_fail_memory(e, n * sizeof *places);
    for (size_t i = 0; i < n; i++)
        places[i] = (place){model_block_number(tensors[i].name), tensors[i].name, (uint32_t)i};
    qsort(places, n, sizeof *places, by_block_and_name);
    for (size_t i = 0; i < n; i++) order[i] = places[i].index;
    free(places);
    return true;
}

/* ---- the model ---- */

mix_model mix_model_of(const model_facts *f) {
    const architecture *a = arch_of_facts(f);
    mix_model m = {.arch = f->arch,
                   .n_blocks = a && a->is_projector ? 0 : -1,
                   .is_adapter = model_fact_is(f, "general.type", "adapter")};
    if (model_fact_int(f, "block_count", &m.n_blocks) && a && m.n_blocks <= INT32_MAX)
        m.n_blocks += a->bare_layers;
    model_fact_int(f, "attention.head_count", &m.n_head);
    m.n_head_kv = m.n_head;
    model_fact_int(f, "attention.head_count_kv", &m.n_head_kv);
    model_fact_int(f, "expert_count", &m.n_expert);
    /* Blocks that run several times (nanbeige) are counted as often, as llama.cpp does. */
    int64_t loops;
    if (model_fact_int(f, "num_loops", &loops) && loops > 1 && loops <= INT32_MAX && m.n_blocks <= INT32_MAX)
        m.n_blocks *= loops;
    return m;
}

/* ---- one tensor ---- */

typedef struct run {
    const mix_model *model;
    const mix_options *options;
    const mix_tensor *tensors;
    const char *const *keeps; /* of an image model; else NULL */
    uint64_t filetype;        /* one bit */
    uint32_t facts;           /* facts that are the same for every tensor */
    bool tied;                /* no output tensor: the embedding serves as one */
    bool is_projector;        /* multimodal projectors (mmproj) */
    bool big;                 /* a model of the size where V of 3 or 4 bits costs too much */
    int64_t n_v;              /* tensors of role V, those left alone included */
    int64_t seen_v, seen_down, seen_up, seen_gate;
    mix_matcher *matcher;
} run;

static run run_new(const mix_model *m, const mix_options *o, const mix_tensor *tensors, size_t n) {
    static const arch_mix usual;
    const architecture *a = m->arch ? arch_named(m->arch) : NULL;
    const arch_mix *arch = a ? &a->mix : &usual;
    run r = {.model = m, .options = o, .tensors = tensors, .tied = true};
    r.keeps = a ? a->image.keeps : NULL, r.big = arch->big_blocks && m->n_blocks == arch->big_blocks &&
                                                 (!arch->big_if_grouped || m->n_head != m->n_head_kv);
    r.is_projector = a && a->is_projector;
    r.filetype = UINT64_C(1) << (o->filetype - mix_filetypes);
    if (m->n_head > 0 && m->n_head_kv > 0 && m->n_head / m->n_head_kv >= 4) r.facts |= IF_GQA4;
    if (m->n_expert >= 4) r.facts |= IF_NX4;
    if (m->n_expert == 8) r.facts |= IF_NX8;
    if (o->imatrix) r.facts |= IF_IMATRIX;
    if (arch->is_falcon) r.facts |= IF_FALCON;
    if (arch->is_bailing3) r.facts |= IF_BAILING3;
    for (size_t i = 0; i < n; i++) {
        mix_role role = mix_role_of(tensors[i].name);
        if (role == ROLE_OUTPUT) r.tied = false;
        if (role == ROLE_V) r.n_v++;
    }
    return r;
}

static bool type_fits_row(const mix_tensor *t, uint32_t type) {
    return gguf_fits_row(tensor_type_of(type), t->ne[0]);
}

/* Whether numbers of the type are not how weights are usually stored: integers, 64-bit floats. */
static bool is_element_type(uint32_t type) {
    return !tensor_type_of(type)->quantized && type != GGUF_F32 && type != GGUF_F16 && type != GGUF_BF16;
}

static mix_choice keep_type(const mix_tensor *t, mix_reason reason, const char *why) {
    return (mix_choice){.type = t->type, .wanted = t->type, .reason = reason, .why = why};
}

/* Returns why a tensor of an image model keeps its type; NULL: it does not. Besides the named tensors these
 * are convolution kernels and tensors that are too small to be worth a loss. */
static const char *family_keeps(const char *const *keeps, const mix_tensor *t) {
    enum { SMALL = 1024 };
    if (is_element_type(t->type)) return "kept: holds integers or 64-bit floats";
    if (t->ne[2] != 1 || t->ne[3] != 1) return "kept: more than two dimensions";
    if (t->ne[0] <= SMALL && t->ne[1] <= SMALL / t->ne[0]) return "kept: at most 1024 elements";
    return mix_family_keeps(keeps, t->name) ? "kept: by default for this architecture" : NULL;
}

/* Whether the tensor keeps its type whatever is asked for; *c then says why. */
static bool always_kept(const mix_tensor *t, mix_choice *c) {
    const char *why = NULL;
    if (!t->ne[0] || !t->ne[1] || !t->ne[2] || !t->ne[3])
        *c = keep_type(t, MIX_KEEP, "kept: no elements");
    else if (t->ne[1] == 1 && t->ne[2] == 1 && t->ne[3] == 1)
        *c = keep_type(t, MIX_ONE_DIM, "kept: one dimension");
    else if ((why = mix_left_alone(t->name)))
        *c = keep_type(t, MIX_NAME, why);
    else
        return false;
    return true;
}

bool mix_may_change(const mix_tensor *t) {
    mix_choice unused;
    return !always_kept(t, &unused);
}

/* Whether the tensor keeps its source type; *c then says why. A pattern of the user's (`chosen`) goes before
 * the defaults of a family, and before nothing else. */
static bool left_alone(const run *r, const mix_tensor *t, bool chosen, bool kept, mix_choice *c) {
    const char *why = NULL;
    if (r->filetype == FILETYPE(COPY))
        *c = keep_type(t, MIX_COPY, "kept: COPY");
    else if (always_kept(t, c))
        return !(r->model->is_adapter && c->reason == MIX_NAME);
    else if (r->options->leave_output && mix_role_of(t->name) == ROLE_OUTPUT)
        *c = keep_type(t, MIX_KEEP, "kept: the output tensor is left as it is");
    else if (kept)
        *c = keep_type(t, MIX_KEEP, "kept: by a pattern");
    else if (!chosen && r->keeps && (why = family_keeps(r->keeps, t)))
        *c = keep_type(t, MIX_KEEP, why);
    else
        return false;
    return true;
}

/* Returns the facts about place i among n; n < 0: unknown. */
static uint32_t place_facts(int64_t i, int64_t n) {
    if (n < 0) return 0;
    int64_t first = n / 8, last = n - n / 8 - (n % 8 != 0); /* last: 7 n / 8 rounded down, without overflow */
    uint32_t facts = 0;
    if (i < first) facts |= IF_E8;
    if (i < n / 16) facts |= IF_E16;
    if (i < first || i >= last || (i - first) % 3 == 2) facts |= IF_MORE;
    if (i >= first && i < last) facts |= IF_MIDDLE;
    return facts;
}

/* Finds the block number of a feed-forward tensor, which is its place in a model with experts. */
static bool expert_block(const run *r, const mix_tensor *t, int64_t *block, gq_error *e) {
    int64_t n = r->model->n_blocks;
    *block = model_block_number(t->name);
    if (n < 0 || (*block >= 0 && *block < n)) return true;
    if (*block < 0)
        return gq_fail(e,
                       "tensor '%s': no block number in its name; the mix needs one ('blk.N.') for each "
                       "feed-forward weight of a model with experts",
                       t->name);
    return gq_fail(e, "tensor '%s': block number %lld out of range; the model says it has %lld blocks",
                   t->name, (long long)*block, (long long)n);
}

/* Determines the tensor's position among those of its role. The counters advance by one for each tensor. */
static bool count_role(run *r, const mix_tensor *t, mix_role role, uint32_t *facts, gq_error *e) {
    if (role & (ROLE_V | ROLE_IMAGE_V)) {
        int64_t i = r->seen_v++;
        *facts |= place_facts(i, r->n_v) | (i < 2 ? IF_I2 : 0) | (i < 4 ? IF_I4 : 0);
    }
    if (!(role & ROLES_FFN)) return true;
    int64_t *seen = role == ROLE_DOWN ? &r->seen_down
                    : role == ROLE_UP ? &r->seen_up
                                      : &r->seen_gate,
            i = (*seen)++;
    if (r->model->n_expert > 1 && !(r->filetype & (FILETYPES_LOW | FILETYPE(MXFP4_MOE))))
        if (!expert_block(r, t, &i, e)) return false;
    *facts |= place_facts(i, r->model->n_blocks);
    return true;
}

/* Chooses by the output tensor's type, the given types or the mix tables, in this order. */
static bool by_rule(run *r, const mix_tensor *t, mix_role role, mix_choice *c, gq_error *e) {
    const mix_options *o = r->options;
    uint32_t base = o->filetype->base, facts = r->facts;
    if (role == ROLE_EMBED && r->tied) role = ROLE_OUTPUT;
    if (role == ROLE_OUTPUT && o->output_type >= 0) {
        *c = (mix_choice){
            .wanted = (uint32_t)o->output_type, .reason = MIX_OPTION, .why = "by the output tensor's type"};
        return true;
    }
    if (o->types) {
        *c = (mix_choice){.wanted = o->types[t - r->tensors], .reason = MIX_GIVEN, .why = ""};
        return true;
    }
    if (r->keeps) role = mix_image_role_of(t->name);
    if (t->ne[2] > 1) facts |= IF_3D;
    if (!type_fits_row(t, base)) facts |= IF_ODD_ROW;
    if (!count_role(r, t, role, &facts, e)) return false;
    c->wanted = mix_rule(r->filetype, role, facts, base);
    if (role == ROLE_V && r->big && !(r->filetype & FILETYPES_LOW) &&
        (c->wanted == GGUF_Q3_K || c->wanted == GGUF_Q4_K))
        c->wanted = GGUF_Q5_K;
    return true;
}

/* Sets c->type: c->wanted where its blocks divide the rows, or a fallback. */
static bool fall_back_by_row(const run *r, const mix_tensor *t, mix_choice *c, gq_error *e) {
    c->type = c->wanted;
    if (type_fits_row(t, c->wanted)) return true;
    unsigned block = tensor_type_of(c->wanted)->block_elements;
    c->type = mix_replacement(c->wanted);
    if (c->type == GGUF_TYPE_LIMIT)
        return gq_fail(
            e, "tensor '%s': row length %llu is not a multiple of %u, and there is no fallback type for %s",
            t->name, (unsigned long long)t->ne[0], block, tensor_type_name(c->wanted));
    c->reason = MIX_FALLBACK;
    c->why = block == 256  ? "fallback: row length is no multiple of 256"
             : block == 64 ? "fallback: row length is no multiple of 64"
                           : "fallback: row length is no multiple of 32";
    if (type_fits_row(t, c->type)) return true;
    c->why = "fallback: row length is no multiple of 32";
    /* F16 even for wider sources, as llama.cpp does; llama.cpp writes no image models, which lose nothing. */
    c->type = r->keeps && !tensor_type_of(t->type)->quantized ? t->type : GGUF_F16;
    return true;
}

/* A type that an option gives to one tensor by name is taken as it is, so its blocks must divide the rows. */
static bool by_name(const mix_tensor *t, int64_t type, const char *why, mix_choice *c, gq_error *e) {
    *c = (mix_choice){.type = (uint32_t)type, .wanted = (uint32_t)type, .reason = MIX_OPTION, .why = why};
    if (type_fits_row(t, c->type)) return true;
    return gq_fail_usage(e, "tensor '%s': %s requests %s, but row length %llu is not a multiple of %u",
                         t->name, why + strlen("by "), tensor_type_name(c->type),
                         (unsigned long long)t->ne[0], tensor_type_of(c->type)->block_elements);
}

/* Types that must not be chosen without an imatrix. Embeddings and output are exempt, since imatrix files do
 * not cover them, except for three types that no encoder makes without one. */
static const struct {
    uint32_t type;
    bool always; /* holds for embeddings and output, too */
    const char *raised;
} demanding[] = {{GGUF_IQ1_S, true, "raised from IQ1_S: no imatrix data"},
                 {GGUF_IQ2_XXS, true, "raised from IQ2_XXS: no imatrix data"},
                 {GGUF_IQ2_XS, true, "raised from IQ2_XS: no imatrix data"},
                 {GGUF_IQ1_M, false, "raised from IQ1_M: no imatrix data"},
                 {GGUF_IQ2_S, false, "raised from IQ2_S: no imatrix data"},
                 {GGUF_IQ3_XXS, false, "raised from IQ3_XXS: no imatrix data"},
                 {GGUF_Q2_K, false, "raised from Q2_K: no imatrix data"}};
enum { N_DEMANDING = sizeof demanding / sizeof *demanding, Q2_K_S_DEMANDS = N_DEMANDING - 1 };

/* Returns the row of demanding[], among the first n, that holds for the tensor; n: none does. */
static size_t demanding_row(const char *name, uint32_t type, size_t n) {
    bool spared = mix_is_outside_importance(name);
    size_t i = 0;
    while (i < n && (demanding[i].type != type || (spared && !demanding[i].always))) i++;
    return i;
}

bool mix_demands_importance(const char *name, uint32_t type) {
    return demanding_row(name, type, Q2_K_S_DEMANDS) < Q2_K_S_DEMANDS;
}

/* Q2_K_S is the only file type that demands data for Q2_K. */
static size_t n_demanding(const run *r) {
    return r->filetype == FILETYPE(Q2_K_S) ? N_DEMANDING : Q2_K_S_DEMANDS;
}

/* A tensor whose type demands data that it does not have gets the type for such cases. */
static bool meet_demand(const run *r, const mix_tensor *t, mix_choice *c, gq_error *e) {
    const mix_options *o = r->options;
    size_t n = n_demanding(r), i = demanding_row(t->name, c->type, n);
    c->needs_imatrix = i < n;
    if (i == n || o->missing_type < 0 || !o->covered || o->covered[t - r->tensors] || c->type == t->type)
        return true;
    c->wanted = (uint32_t)o->missing_type;
    if (!fall_back_by_row(r, t, c, e)) return false;
    c->reason = MIX_RAISED, c->why = demanding[i].raised;
    c->needs_imatrix = false;
    return true;
}

/* Fails if the type for tensors without an imatrix requires one itself. */
static bool check_missing_type(const run *r, gq_error *e) {
    int64_t type = r->options->missing_type;
    return type < 0 || demanding_row("", (uint32_t)type, n_demanding(r)) == n_demanding(r) ||
           gq_fail_usage(e, "%s cannot replace types that lack an imatrix: it requires one itself",
                         tensor_type_name((uint32_t)type));
}

/* Chooses a type when patterns are known. chosen: one matches and asks for `type`. kept: --keep matches. */
static bool choose_matched(run *r, const mix_tensor *t, bool chosen, uint32_t type, bool kept, mix_choice *c,
                           bool *by_pattern, gq_error *e) {
    const mix_options *o = r->options;
    if (left_alone(r, t, chosen, kept, c)) return true;

    mix_role role = mix_role_of(t->name);
    uint32_t base = o->filetype->base;
    bool per_layer = strcmp(t->name, "per_layer_token_embd.weight") == 0;
    *c = (mix_choice){.type = base, .wanted = base, .reason = MIX_RULE, .why = ""};
    if (role == ROLE_EMBED && o->embedding_type >= 0 && !(per_layer && chosen)) {
        if (!by_name(t, o->embedding_type, "by the token embedding's type", c, e)) return false;
    } else if (role == ROLE_OUTPUT && o->output_type >= 0) {
        if (!by_name(t, o->output_type, "by the output tensor's type", c, e)) return false;
    } else if (tensor_type_of(base)->quantized || o->types) {
        *by_pattern = chosen;
        if (chosen)
            *c = (mix_choice){.wanted = type, .reason = MIX_OPTION, .why = "by a pattern"};
        else if (!o->pure && !by_rule(r, t, role, c, e))
            return false;
        if (!fall_back_by_row(r, t, c, e)) return false;
    }
    return meet_demand(r, t, c, e);
}

/* Returns the type that a converter gives to a tensor of a projector: no mix, all but those that stay are
 * alike. */
static mix_choice converted_projector(const mix_tensor *t, uint32_t base) {
    mix_choice c = {.type = base, .wanted = base, .reason = MIX_RULE, .why = ""};
    if (t->stays) {
        c.type = c.wanted = t->stays_16 && base == GGUF_F16 ? GGUF_F16 : t->kept_type->id;
        c.reason = MIX_KEEP, c.why = "kept: by default for this architecture";
    } else if (!type_fits_row(t, base)) {
        c.type = GGUF_F16, c.reason = MIX_FALLBACK;
        c.why = "fallback: row length is no multiple of 32";
    }
    return c;
}

/* A source that converts decides about tensors that are not quantized: F16 and the like are types for all but
 * those that stay, and what is kept beside quantized ones has the type that a converter gives it, unless the
 * user keeps what the source has in 16 bits. Tensors that are quantized in the source are copied, unless they
 * may be quantized again. */
static void follow_converter(const run *r, const mix_tensor *t, mix_choice *c, bool *by_pattern) {
    const mix_options *o = r->options;
    if (!t->kept_type) return;
    bool asked = c->reason == MIX_OPTION || c->reason == MIX_COPY || c->reason == MIX_GIVEN ||
                 (c->reason == MIX_KEEP && !t->stays && t->type != GGUF_F32);
    bool is_quantized = tensor_type_of(t->type)->quantized;
    if (asked || (is_quantized && o->requantize)) return;
    if (r->is_projector)
        *c = converted_projector(t, o->filetype->base);
    else if (is_quantized)
        *c = keep_type(t, MIX_KEEP, "kept: quantized already"), *by_pattern = false;
    else if (!tensor_type_of(o->filetype->base)->quantized)
        c->type = c->wanted = t->stays ? t->kept_type->id : o->filetype->base;
    else if (c->reason != MIX_RULE && c->reason != MIX_FALLBACK && c->reason != MIX_RAISED)
        c->type = c->wanted = t->kept_type->id;
}

static bool choose_type(run *r, const mix_tensor *t, mix_choice *c, gq_error *e) {
    size_t pattern, keeper, item = MIX_NO_PATTERN;
    uint32_t type = GGUF_TYPE_LIMIT, unused;
    bool by_pattern = false;
    if (!mix_patterns_find(r->options->patterns, r->matcher, t->name, &pattern, &type, e) ||
        (pattern == MIX_NO_PATTERN &&
         !mix_patterns_find(r->options->recipe, r->matcher, t->name, &item, &type, e)) ||
        !mix_patterns_find(r->options->keep, r->matcher, t->name, &keeper, &unused, e) ||
        !choose_matched(r, t, pattern != MIX_NO_PATTERN || item != MIX_NO_PATTERN, type,
                        keeper != MIX_NO_PATTERN, c, &by_pattern, e))
        return false;
    follow_converter(r, t, c, &by_pattern);
    c->pattern = pattern, c->keeper = keeper, c->by_pattern = by_pattern && item == MIX_NO_PATTERN;
    return true;
}

bool mix_assign(const mix_model *model, const mix_options *options, const mix_tensor *tensors, size_t n,
                const uint32_t *order, mix_choice *choices, gq_error *e) {
    run r = run_new(model, options, tensors, n);
    if (!check_missing_type(&r, e)) return false;
    r.matcher = mix_matcher_new(e);
    bool ok = r.matcher;
    for (size_t i = 0; ok && i < n; i++) ok = choose_type(&r, &tensors[order[i]], &choices[order[i]], e);
    mix_matcher_free(r.matcher);
    return ok;
}

const mix_filetype *mix_prevalent(const mix_tensor *tensors, const mix_choice *choices, size_t n) {
    double weights[GGUF_TYPE_LIMIT] = {0};
    uint32_t most = 0;
    for (size_t i = 0; i < n; i++) weights[choices[i].type] += (double)shape_elements(tensors[i].ne);
    for (uint32_t type = 1; type < GGUF_TYPE_LIMIT; type++)
        if (weights[type] > weights[most]) most = type;
    const mix_filetype *named = mix_filetype_named(tensor_type_name(most));
    return named ? named : &mix_filetypes[FT_F16];
}
