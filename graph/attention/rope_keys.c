/* Reads rope's numbers from the metadata, and its factor tensors. */
#include <math.h>

#include "graph/attention/rope.h"
#include "graph/attention/rope_keys.h"
#include "model/value.h"

/* Reads how many of a head's values rope turns; no more than the head has. */
static size_t read_turned(const arch_graph *a, key_reader *r, const char *key, size_t absent, size_t head,
                          size_t most) {
    size_t turned = key_number(r, key, absent, 2, most < 2 ? 2 : most);
    if (!a->rope_partial && turned != head)
        key_fail(r, key, "is %zu, expected the size of a head: %zu", turned, head);
    if (turned % 2 != 0 || turned > most)
        key_fail(r, key, "is %zu, expected an even number of at most %zu", turned, most);
    return turned;
}

void rope_read_sections(rope_numbers *n, key_reader *r, rope_sections kind) {
    key_list l = key_list_needed(r, "rope.dimension_sections");
    uint64_t count = 1, sum = 0;
    if (!key_list_counts(&l, &count) || count < 3)
        key_fail(r, l.name, "has %llu values, expected a list of 4", (unsigned long long)count);
    for (size_t i = 0; i < 4 && i < count; i++)
        sum += n->sections[i] = key_number_at(r, &l, i, 0, 0, MODEL_MOST);
    if (r->ok && sum == 0) key_fail(r, l.name, "has only zeros, expected the pairs of each section");
    n->kind = kind;
}

/* 0: positions are not scaled. */
static double scaling_factor(key_reader *r) {
    const char *key = "rope.scaling.factor";
    double factor = key_float(r, key, 0, 0, 1e6);
    if (factor == 0) factor = key_float(r, key = "rope.scale_linear", 0, 0, 1e6);
    if (factor != 0 && factor < 1e-3) key_fail(r, key, "is %g, expected 0 or at least 0.001", factor);
    return factor;
}

static void read_local(rope_numbers *n, local_rope rule, key_reader *r) {
    rope_angles *p = &n->angles[1];
    switch (rule) {
    case LOCAL_SAME:
        break;
    case LOCAL_BASE_SWA:
        p->base = key_float(r, "rope.freq_base_swa", p->base, 1, 1e30);
        break;
    case LOCAL_OWN: /* as llama.cpp: of yarn only the division stays */
    case LOCAL_UNSCALED:
        if (p->yarn) p->magnitude /= 1 + 0.1 * n->log_factor;
        p->base = key_float(r, "rope.freq_base_swa", rule == LOCAL_OWN ? 10000 : p->base, 1, 1e30);
        p->scale = 1, p->yarn = false;
        break;
    case LOCAL_PLAIN_SWA:
        p->base = key_float(r, "rope.freq_base_swa", p->base, 1, 1e30);
        p->scale = p->magnitude = 1, p->yarn = false;
        break;
    case LOCAL_PLAIN:
        p->scale = p->magnitude = 1, p->yarn = false;
        break;
    }
}

/* Yarn makes what is turned larger, so that scores of far positions keep their size. */
static void read_magnitude(rope_angles *p, const rope_numbers *n, key_reader *r, bool is_upper) {
    double multiplier = n->log_multiplier, upper = is_upper && multiplier != 1 ? multiplier : 1;
    p->magnitude = key_float(r, "rope.scaling.attn_factor", 1, 0, 1e3);
    if (p->yarn && multiplier > 0)
        p->magnitude *= (1 + 0.1 * upper * n->log_factor) / (1 + 0.1 * multiplier * n->log_factor);
    else if (p->yarn)
        p->magnitude *= 1 + 0.1 * n->log_factor;
}

static void read_temperature(rope_numbers *n, key_reader *r, bool is_latent) {
    n->temperature = key_float(r, "attention.temperature_scale", 0, -1e3, 1e3);
    if (n->temperature == 0) return;
    n->temperature_length = is_latent
                                ? (double)key_number_needed(r, "attention.temperature_length", 1, MODEL_MOST)
                                : n->original_context;
}

void rope_read_keys(rope_numbers *n, const forward_model *m, key_reader *r, size_t head, size_t local_head,
                    bool is_latent) {
    enum { LINEAR, NONE, YARN, LONGROPE };
    static const char *const types[] = {
        [LINEAR] = "linear", [NONE] = "none", [YARN] = "yarn", [LONGROPE] = "longrope"};
    const arch_graph *a = &m->arch->graph;
    rope_angles *p = &n->angles[0];
    size_t most = is_latent ? head - 1 : head;
    n->neox = a->neox;
    bool turns_none = is_latent && a->no_rope == ROPE_NEVER && key_there(r, "rope.dimension_count") &&
                      !key_number(r, "rope.dimension_count", head, 0, head);
    if (a->rope_fixed || turns_none) {
        *p = (rope_angles){.turned = turns_none ? 0 : head, .base = 10000, .scale = 1, .magnitude = 1};
        n->angles[1] = *p;
        return;
    }
    p->turned = read_turned(a, r, "rope.dimension_count", head, head, most);
    if (a->sections != SECTIONS_NONE) rope_read_sections(n, r, a->sections);
    size_t type = key_choice(r, "rope.scaling.type", types, sizeof types / sizeof *types);
    double factor = scaling_factor(r);
    bool scaled = factor != 0 && type != NONE;
    n->log_factor = scaled ? log(factor) : 0;
    p->scale = scaled ? 1 / factor : 1;
    p->yarn = type == YARN, n->longrope = type == LONGROPE;
    p->base = key_float(r, "rope.freq_base", 10000, 1, 1e30);
    if (a->log_multiplier != 0)
        n->log_multiplier = key_float(r, "rope.scaling.yarn_log_multiplier", 0, 0, 1e3) / a->log_multiplier;
    read_magnitude(p, n, r, a->log_multiplier_twice);
    n->beta_fast = 32, n->beta_slow = 1, n->yarn_share = 1;
    n->original_context =
        (double)key_number(r, "rope.scaling.original_context_length", m->sizes.trained, 1, MODEL_MOST);
    if (a->temperature) read_temperature(n, r, is_latent);
    n->angles[1] = *p;
    if (a->turned_local)
        n->angles[1].turned =
            read_turned(a, r, "rope.dimension_count_swa", p->turned, local_head, local_head);
    read_local(n, a->local_rope, r);
}

void rope_find_tensors(rope_numbers *n, tensor_finder *f) {
    rope_factors kind = f->m->arch->graph.factors;
    /* One for each pair that rope.dimension_count tells, though step35 turns half of them in some layers. */
    size_t turned = n->angles[0].turned > n->angles[1].turned ? n->angles[0].turned : n->angles[1].turned;
    tensor_shape s = SHAPE(turned / 2);
    n->freqs_global = kind == FACTORS_GLOBAL;
    if (kind == FACTORS_LONGROPE || kind == FACTORS_GLOBAL) kind = n->longrope ? FACTORS_PAIR : FACTORS_FREQS;
    presence one = kind == FACTORS_FREQS ? OPTIONAL : ABSENT;
    presence pair = kind == FACTORS_PAIR ? OPTIONAL : ABSENT;
    if (kind == FACTORS_UNUSED) tensors_ignore(f, "rope_freqs.weight");
    n->freqs = tensors_take(f, "rope_freqs.weight", one, s);
    n->longer = tensors_take(f, "rope_factors_long.weight", pair, s);
    n->shorter = tensors_take(f, "rope_factors_short.weight", pair, s);
}
