/* Rotary position embedding (RoPE, Su et al. 2021, arXiv:2104.09864) with its scalings, YaRN (Peng et al.
 * 2023, arXiv:2309.00071) among them: parameters from metadata and factor tensors; tables of sines and
 * cosines, in double; and the rotation. */
#include <math.h>
#include <stdlib.h>

#include "forward/graph/attention/attention.h"
#include "forward/graph/attention/rope.h"

/* ---- keys and tensors ---- */

/* Reads how many of a head's values rope rotates; no more than the head has. */
static size_t read_rotated(const arch_graph *a, key_reader *r, const char *key, size_t absent, size_t head,
                           size_t most) {
    size_t rotated = key_number(r, key, absent, 2, most < 2 ? 2 : most);
    if (!a->rope_partial && rotated != head)
        key_fail(r, key, "is %zu, expected the size of a head: %zu", rotated, head);
    if (rotated % 2 != 0 || rotated > most)
        key_fail(r, key, "is %zu, expected an even number of at most %zu", rotated, most);
    return rotated;
}

void rope_read_sections(rope_numbers *n, key_reader *r, rope_sections kind, size_t head) {
    key_list l = key_list_needed(r, "rope.dimension_sections");
    uint64_t count = 1, sum = 0;
    if (!key_list_counts(&l, &count) || count < 4)
        key_fail(r, l.name, "has %llu values, expected an array of 4", (unsigned long long)count);
    for (size_t i = 0; i < 4 && i < count; i++)
        sum += n->sections[i] = key_number_at(r, &l, i, 0, 0, MODEL_MOST);
    if (r->ok && sum == 0) key_fail(r, l.name, "has only zeros, expected how many pairs each section has");
    if (r->ok && sum > head)
        key_fail(r, l.name, "has %llu pairs in all sections, but a head has %zu values",
                 (unsigned long long)sum, head);
    n->kind = kind;
}

/* 0: there is none, and positions are not scaled. */
static double scaling_factor(key_reader *r) {
    const char *key = "rope.scaling.factor";
    if (!key_there(r, key)) key = "rope.scale_linear";
    return key_float(r, key, 0, 1e-3, 1e6);
}

static void read_local(rope_numbers *n, local_rope rule, key_reader *r) {
    rope_angles *p = &n->angles[1];
    bool is_plain = rule == LOCAL_PLAIN || rule == LOCAL_PLAIN_SWA;
    if (rule == LOCAL_SAME) return;
    if (rule != LOCAL_PLAIN)
        p->base = key_float(r, "rope.freq_base_swa", rule == LOCAL_OWN ? 10000 : p->base, 1, 1e30);
    if (rule == LOCAL_BASE_SWA) return;
    if (is_plain) p->magnitude = 1;
    if (!is_plain && p->yarn)
        p->magnitude /= 1 + 0.1 * n->log_factor; /* as llama.cpp: only the division stays */
    p->scale = 1, p->yarn = false;
}

/* Yarn makes what is rotated larger, so that scores of far positions keep their size. */
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
    bool rotates_none = is_latent && a->no_rope == ROPE_NEVER && key_there(r, "rope.dimension_count") &&
                        !key_number(r, "rope.dimension_count", head, 0, head);
    if (a->rope_fixed || rotates_none) {
        *p = (rope_angles){.rotated = rotates_none ? 0 : head, .base = 10000, .scale = 1, .magnitude = 1};
        n->angles[1] = *p, n->counted = p->rotated;
        return;
    }
    p->rotated = n->counted = read_rotated(a, r, "rope.dimension_count", head, head, most);
    if (a->sections != SECTIONS_NONE) rope_read_sections(n, r, a->sections, head);
    size_t type = key_choice(r, "rope.scaling.type", types, sizeof types / sizeof *types);
    double factor = type == NONE ? 0 : scaling_factor(r);
    bool scaled = factor != 0;
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
    if (a->rotated_local)
        n->angles[1].rotated =
            read_rotated(a, r, "rope.dimension_count_swa", p->rotated, local_head, local_head);
    read_local(n, a->local_rope, r);
}

void rope_find_tensors(rope_numbers *n, tensor_finder *f) {
    rope_factors kind = f->m->arch->graph.factors;
    n->freqs_global = kind == FACTORS_GLOBAL;
    /* One for each pair that rope.dimension_count names, though step35 rotates half of them in some layers. */
    size_t rotated = n->counted;
    if (!n->freqs_global && rotated < n->angles[1].rotated) rotated = n->angles[1].rotated;
    tensor_shape s = SHAPE(rotated / 2);
    if (kind == FACTORS_LONGROPE || kind == FACTORS_GLOBAL) kind = n->longrope ? FACTORS_PAIR : FACTORS_FREQS;
    presence one = kind == FACTORS_FREQS ? OPTIONAL : ABSENT;
    presence pair = kind == FACTORS_PAIR ? OPTIONAL : ABSENT;
    if (kind == FACTORS_UNUSED) tensors_ignore(f, "rope_freqs.weight");
    n->freqs = tensors_take(f, "rope_freqs.weight", one, s);
    n->longer = tensors_take(f, "rope_factors_long.weight", pair, s);
    n->shorter = tensors_take(f, "rope_factors_short.weight", pair, s);
}

/* ---- tables ---- */

/* The share of a pair's angle that YaRN keeps unscaled. */
static double yarn_keeps(const rope_numbers *n, const rope_angles *p, size_t pair) {
    const double pi = 3.14159265358979323846;
    double rotated = (double)p->rotated, scale = 2 * log(p->base);
    double low = floor(rotated * log(n->original_context / (n->beta_fast * 2 * pi)) / scale);
    double high = ceil(rotated * log(n->original_context / (n->beta_slow * 2 * pi)) / scale);
    low = fmax(0, low), high = fmin(rotated - 1, high);
    double ramp = ((double)pair - low) / fmax(0.001, high - low);
    return 1 - fmin(fmax(ramp, 0), 1);
}

/* Whether text rotates a pair: the last of four positions is 0. */
static bool pair_rotations(const rope_numbers *n, size_t pair) {
    const size_t *of = n->sections;
    size_t sum = of[0] + of[1] + of[2] + of[3], at = sum ? pair % sum : 0;
    if (n->kind == SECTIONS_IN_ORDER) return at < sum - of[3];
    return n->kind == SECTIONS_NONE || at < 3 * of[at % 3];
}

static void rope_fill_one_table(const rope_numbers *n, rope_tables *tables, int local, bool is_short,
                                size_t context, const float *factors) {
    const rope_angles *p = &n->angles[local];
    size_t pairs = p->rotated / 2, row = is_short ? pairs : 0;
    for (size_t i = 0; i < pairs; i++, row++) {
        double step = pair_rotations(n, i) ? pow(p->base, -2.0 * (double)i / (double)p->rotated) : 0;
        double keep = p->yarn ? n->yarn_share * yarn_keeps(n, p, i) : 0;
        if (factors) step /= (double)factors[i];
        for (size_t t = 0; t < context; t++) {
            double theta = (double)t * step, angle = keep * theta + (1 - keep) * p->scale * theta;
            tables->cosine[local][row * tables->rotation_stride + t] = (float)(cos(angle) * p->magnitude);
            tables->sine[local][row * tables->rotation_stride + t] = (float)(sin(angle) * p->magnitude);
        }
    }
}

/* Texts of a window of `context` tokens that are short enough for other factors than it has; 0: none can be. */
static size_t rope_short_tokens(const rope_numbers *n, size_t context) {
    bool differ = !n->freqs && n->longer != n->shorter && (double)context > n->original_context;
    return differ ? (size_t)n->original_context : 0;
}

/* The factors that the angles of texts of `context` tokens are divided by, or NULL: there are none. */
static bool read_factors(const rope_numbers *n, const forward_model *m, size_t context, float **factors,
                         gq_error *e) {
    const model_tensor *t = n->freqs;
    if (!t) t = (double)context > n->original_context ? n->longer : n->shorter;
    *factors = NULL;
    if (!t) return true;
    void *raw = malloc(t->size);
    *factors = malloc(shape_elements(t->ne) * sizeof **factors);
    bool ok = raw && *factors ? model_read_values(m, t, raw, *factors, e) : gq_fail_memory(e, t->size);
    free(raw);
    for (size_t i = 0; ok && i < n->angles[0].rotated / 2; i++)
        if (!isfinite((*factors)[i]) || (*factors)[i] == 0) {
            gq_fail(e, "%s: tensor %s: element %zu is %g, expected a number other than 0", m->path, t->name,
                    i, (double)(*factors)[i]);
            ok = batch_blame_weights(e);
        }
    return ok;
}

void rope_lay_out(const rope_numbers *n, rope_tables *t, size_t context, scratch *s) {
    t->rotation_stride = forward_stride(context), t->short_tokens = rope_short_tokens(n, context);
    for (int local = 0; local < 2; local++) {
        size_t rows = n->angles[local].rotated / 2 * (t->short_tokens ? 2 : 1);
        t->cosine[local] = scratch_take(s, rows, t->rotation_stride, sizeof(float));
        t->sine[local] = scratch_take(s, rows, t->rotation_stride, sizeof(float));
    }
    if (n->temperature != 0) t->temperature = scratch_take(s, 1, t->rotation_stride, sizeof(float));
}

bool rope_fill_tables(const rope_numbers *n, rope_tables *tables, const forward_model *m, size_t context,
                      gq_error *e) {
    bool ok = true;
    for (int is_short = 0; ok && is_short < (tables->short_tokens ? 2 : 1); is_short++) {
        float *factors;
        ok = read_factors(n, m, is_short ? tables->short_tokens : context, &factors, e);
        for (int local = 0; ok && local < 2; local++)
            rope_fill_one_table(n, tables, local, is_short, context,
                                local && n->freqs_global ? NULL : factors);
        free(factors);
    }
    for (size_t t = 0; n->temperature != 0 && t < context; t++)
        tables->temperature[t] =
            (float)(1 + n->temperature *
                            log(floor(((double)t + n->temperature_first) / n->temperature_length) + 1));
    return ok;
}

/* ---- rotation ---- */

typedef struct rotated_heads {
    const forward_batch *b;
    const rope_tables *tables;
    const rope_columns *of;
    size_t pairs;
    bool is_local, neox;
} rotated_heads;

static void rope_rotate(forward_batch *b, const sublayer_spec *p, const rope_columns *of, bool neox,
                        threads_body *body) {
    const attention_numbers *n = p->sublayer->numbers;
    const attention_scratch *own = batch_own(b, p->sublayer);
    const attention_layer *l = p->numbers;
    rotated_heads t = {b, &own->rope, of, n->rope.angles[l->is_local].rotated / 2, l->is_local, neox};
    threads_for(b->pool, of->heads * t.pairs, THREADS_EVEN, body, &t);
}

/* The two rows of a head's pair. */
static float *pair_rows(const rotated_heads *t, size_t pair, float **other) {
    size_t i = pair % t->pairs, s = t->b->stride;
    float *first = t->of->x + (pair / t->pairs * t->of->head + (t->neox ? i : 2 * i)) * s;
    *other = first + (t->neox ? t->pairs : 1) * s;
    return first;
}

static void rotate_pair(void *data, size_t j, int) {
    const rotated_heads *t = data;
    const forward_batch *b = t->b;
    const rope_tables *tables = t->tables;
    float *v, *u = pair_rows(t, j, &v);
    for (size_t w = 0; w < b->n_spans; w++) {
        const batch_span *text = &b->spans[w];
        size_t row = rope_rows_of(tables, text, t->pairs) + j % t->pairs * tables->rotation_stride;
        b->model->elements->rotate(u + text->first, v + text->first, tables->cosine[t->is_local] + row,
                                   tables->sine[t->is_local] + row, text->tokens);
    }
}

void batch_rope(forward_batch *b, const sublayer_spec *p, float *x, size_t heads, size_t head_stride) {
    const attention_numbers *n = p->sublayer->numbers;
    batch_rope_pairs(b, p, x, heads, head_stride, n->rope.neox);
}

void batch_rope_pairs(forward_batch *b, const sublayer_spec *p, float *x, size_t heads, size_t head_stride,
                      bool neox) {
    rope_rotate(b, p, &(rope_columns){.x = x, .heads = heads, .head = head_stride}, neox, rotate_pair);
}

static void rotate_column_pair(void *data, size_t j, int) {
    const rotated_heads *t = data;
    const rope_columns *of = t->of;
    float *v, *u = pair_rows(t, j, &v);
    const rope_tables *tables = t->tables;
    for (size_t w = 0; w < t->b->n_spans; w++) {
        const batch_span *text = &t->b->spans[w];
        size_t row = rope_rows_of(tables, text, t->pairs) + j % t->pairs * tables->rotation_stride;
        const float *cosine = tables->cosine[t->is_local] + row, *sine = tables->sine[t->is_local] + row;
        for (size_t k = 0; k < of->columns && k < text->tokens / of->step; k++) {
            size_t at = text->first + k, position = k * of->step;
            float a = u[at], c = v[at], rotation = of->back ? -sine[position] : sine[position];
            u[at] = a * cosine[position] - c * rotation, v[at] = a * rotation + c * cosine[position];
        }
    }
}

void batch_rope_columns(forward_batch *b, const sublayer_spec *p, const rope_columns *c) {
    const attention_numbers *n = p->sublayer->numbers;
    rope_rotate(b, p, c, n->rope.neox, rotate_column_pair);
}

typedef struct tempered_rows {
    const forward_batch *b;
    float *x;
    const float *temperature;
} tempered_rows;

static void temper_row(void *data, size_t r, int) {
    const tempered_rows *t = data;
    const forward_batch *b = t->b;
    for (size_t i = 0; i < b->n_spans; i++)
        b->model->elements->multiply(t->x + r * b->stride + b->spans[i].first, t->temperature,
                                     b->spans[i].tokens);
}

void batch_temper(forward_batch *b, const sublayer_spec *p, float *x, size_t rows) {
    const attention_scratch *own = batch_own(b, p->sublayer);
    const attention_layer *l = p->numbers;
    tempered_rows t = {b, x, own->rope.temperature};
    if (t.temperature && l->is_tempered) threads_for(b->pool, rows, THREADS_EVEN, temper_row, &t);
}
