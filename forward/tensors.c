/* The tensors of each layer: found by name, their shapes checked against the numbers, none left over. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "forward/model.h"
#include "model/facts.h"

#define NAME(slot, name) [slot] = (name),
static const char *const names[SLOTS] = {FORWARD_SLOTS(NAME, NAME)};
#undef NAME
/* The first thing that is wrong ends it; later calls do nothing. */
typedef struct finder {
    forward_model *m;
    gq_error *e;
    bool ok;
    bool *taken; /* by place in the file's tensors by name */
} finder;

typedef struct shape {
    uint64_t ne[3]; /* 0 behind the last dimension */
} shape;
#define SHAPE(...) ((shape){{__VA_ARGS__}})

static const gguf_tensor *look_up(finder *f, const char *name, bool take) {
    const gguf_model *g = f->m->file;
    uint64_t low = 0, high = g->n_tensors;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        int order = strcmp(g->by_name[middle]->name, name);
        if (order == 0) {
            if (take) f->taken[middle] = true;
            return g->by_name[middle];
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

static char *shape_text(char *to, size_t size, const uint64_t *ne, int n) {
    size_t at = (size_t)snprintf(to, size, "[");
    for (int i = 0; i < n && ne[i]; i++)
        at += (size_t)snprintf(to + at, size - at, "%s%llu", i ? ", " : "", (unsigned long long)ne[i]);
    snprintf(to + at, size - at, "]");
    return to;
}

static void check(finder *f, const gguf_tensor *t, shape s) {
    const char *path = gguf_model_path(f->m->file, t);
    char found[96], expected[96];
    bool same = t->ne[3] == 1;
    for (int i = 0; i < 3; i++) same = same && t->ne[i] == (s.ne[i] ? s.ne[i] : 1);
    if (!same) {
        f->ok = gq_fail(f->e, "%s: tensor %s has shape %s, expected %s", path, t->name,
                        shape_text(found, sizeof found, t->ne, (int)t->n_dims),
                        shape_text(expected, sizeof expected, s.ne, 3));
    } else if (!f->m->codecs->codecs[t->type->id].decode) {
        f->ok = gq_fail(f->e, "%s: tensor %s has type %s, which is not decoded here", path, t->name,
                        t->type->name);
    }
}

static const gguf_tensor *take(finder *f, const char *name, presence p, shape s) {
    if (!f->ok || p == ABSENT) return NULL;
    const gguf_tensor *t = look_up(f, name, true);
    if (t)
        check(f, t, s);
    else if (p == REQUIRED)
        f->ok = gq_fail(f->e, "%s: there is no tensor %s, which every %s model has", f->m->path, name,
                        f->m->arch->name);
    return t;
}

/* ---- one layer's ---- */

typedef struct layer_finder {
    finder *f;
    layer_plan *l;
    size_t i;
} layer_finder;

static const char *name_of(const layer_finder *b, slot s, const char *what) {
    static _Thread_local char name[GGUF_MAX_NAME + 1];
    snprintf(name, sizeof name, "blk.%zu.%s.%s", b->i, names[s], what);
    return name;
}

static bool there(const layer_finder *b, slot s) {
    return look_up(b->f, name_of(b, s, "weight"), false) != NULL;
}

/* Rows of a matrix whose number only its own shape tells; 1 where it is not there, which is told later. */
static size_t rows_of(const layer_finder *b, slot s) {
    const gguf_tensor *t = look_up(b->f, name_of(b, s, "weight"), false);
    return t ? t->ne[1] : 1;
}

static void weight(layer_finder *b, slot s, presence p, shape of) {
    b->l->weight[s] = take(b->f, name_of(b, s, "weight"), p, of);
}

/* A weight, and a bias as long as its outputs. */
static void biased(layer_finder *b, slot s, presence p, shape of, presence bias) {
    weight(b, s, p, of);
    if (!b->l->weight[s]) return;
    shape outputs = SHAPE(of.ne[1] ? of.ne[1] : of.ne[0], of.ne[2]);
    b->l->bias[s] = take(b->f, name_of(b, s, "bias"), bias, outputs);
}

static void find_norms(layer_finder *b) {
    const architecture *a = b->f->m->arch;
    shape d = SHAPE(b->f->m->sizes.width);
    presence bias = a->norm_bias;
    bool after = a->place == PLACE_SANDWICH || a->place == PLACE_POST;
    bool inner = a->place == PLACE_PRE || a->place == PLACE_SANDWICH;
    biased(b, ATTN_NORM, a->place == PLACE_POST ? ABSENT : REQUIRED, d, bias);
    biased(b, ATTN_NORM_2, a->attn_norm_2 ? OPTIONAL : ABSENT, d, bias);
    biased(b, FFN_NORM, !inner ? ABSENT : a->parallel_without_ffn_norm ? OPTIONAL : REQUIRED, d, bias);
    biased(b, POST_ATTENTION_NORM, after || a->place == PLACE_PAN ? REQUIRED : ABSENT, d, bias);
    biased(b, POST_FFW_NORM, after ? REQUIRED : ABSENT, d, bias);
}

static void find_qk_norms(layer_finder *b) {
    const forward_model *m = b->f->m;
    const architecture *a = m->arch;
    presence p = a->qk == QK_NONE ? ABSENT : a->qk_optional ? OPTIONAL : REQUIRED;
    uint64_t heads[] = {b->l->heads, b->l->kv_heads};
    static const slot slots[] = {Q_NORM, K_NORM};
    for (int i = 0; i < 2; i++) {
        shape of = a->qk == QK_FULL   ? SHAPE(heads[i] * m->head)
                   : a->qk == QK_EACH ? SHAPE(m->head, heads[i])
                                      : SHAPE(m->head);
        weight(b, slots[i], p, of);
        p = p == ABSENT ? ABSENT : b->l->weight[Q_NORM] ? REQUIRED : ABSENT; /* both or none */
    }
}

static void find_attention(layer_finder *b) {
    const forward_model *m = b->f->m;
    const architecture *a = m->arch;
    uint64_t d = m->sizes.width, hd = m->head, q = b->l->heads * hd, k = b->l->kv_heads * hd;
    if (a->only_qkv || there(b, QKV)) {
        biased(b, QKV, REQUIRED, SHAPE(d, q + 2 * k), a->qkv_bias);
    } else {
        biased(b, Q, REQUIRED, SHAPE(d, q), a->qkv_bias);
        biased(b, K, REQUIRED, SHAPE(d, k), a->qkv_bias);
        biased(b, V, REQUIRED, SHAPE(d, k), a->qkv_bias);
    }
    find_qk_norms(b);
    weight(b, SINKS, a->sinks ? REQUIRED : ABSENT, SHAPE(b->l->heads));
    biased(b, O, REQUIRED, SHAPE(q, d), a->output_bias);
    if (a->output_bias_unused) b->l->bias[O] = NULL;
}

static void find_latent(layer_finder *b) {
    const forward_model *m = b->f->m;
    uint64_t d = m->sizes.width, heads = b->l->heads, plain = m->head - m->turned, r = m->latent;
    if (there(b, Q_A)) {
        b->l->q_rank = rows_of(b, Q_A);
        weight(b, Q_A, REQUIRED, SHAPE(d, b->l->q_rank));
        weight(b, Q_A_NORM, REQUIRED, SHAPE(b->l->q_rank));
        weight(b, Q_B, REQUIRED, SHAPE(b->l->q_rank, heads * m->head));
    } else {
        weight(b, Q, REQUIRED, SHAPE(d, heads * m->head));
    }
    weight(b, KV_A, REQUIRED, SHAPE(d, r + m->turned));
    weight(b, KV_A_NORM, REQUIRED, SHAPE(r));
    if (there(b, KV_B)) {
        weight(b, KV_B, REQUIRED, SHAPE(r, heads * (plain + m->value)));
    } else {
        weight(b, K_B, REQUIRED, SHAPE(plain, r, heads));
        weight(b, V_B, REQUIRED, SHAPE(r, m->value, heads));
    }
    weight(b, O, REQUIRED, SHAPE(heads * m->value, d));
}

/* Rows of each of two matrices in one; at least 1, which the shape of both then tells from what is there. */
static size_t halved(size_t rows) { return rows < 2 ? 1 : rows / 2; }

static void find_dense(layer_finder *b) {
    const architecture *a = b->f->m->arch;
    uint64_t d = b->f->m->sizes.width, up = rows_of(b, UP);
    b->l->ff = a->ffn == FFN_FUSED ? halved(up) : up;
    if (a->ffn == FFN_GATED) biased(b, GATE, REQUIRED, SHAPE(d, up), a->ffn_bias);
    biased(b, UP, REQUIRED, SHAPE(d, a->ffn == FFN_FUSED ? 2 * b->l->ff : up), a->ffn_bias);
    biased(b, DOWN, REQUIRED, SHAPE(b->l->ff, d), a->ffn_bias);
}

static void find_shared(layer_finder *b) {
    const forward_model *m = b->f->m;
    const architecture *a = m->arch;
    presence p = a->shared;
    uint64_t d = m->sizes.width, n = rows_of(b, UP_SHEXP);
    if (p == OPTIONAL && there(b, UP_SHEXP)) p = REQUIRED;
    weight(b, UP_SHEXP, p, SHAPE(d, n));
    if (!b->l->weight[UP_SHEXP]) return;
    b->l->shared_ff = n;
    weight(b, GATE_SHEXP, REQUIRED, SHAPE(d, n));
    weight(b, DOWN_SHEXP, REQUIRED, SHAPE(n, d));
    weight(b, SHARED_GATE, a->shared_gate ? REQUIRED : ABSENT, SHAPE(d));
}

static void find_routed(layer_finder *b) {
    finder *f = b->f;
    const forward_model *m = f->m;
    const architecture *a = m->arch;
    uint64_t d = m->sizes.width, n = m->experts, fused = rows_of(b, GATE_UP_EXPS);
    if (f->ok && !n) {
        f->ok = gq_fail(f->e, "%s: %s.expert_count is 0 or missing, but there is a tensor %s", m->path,
                        a->name, name_of(b, ROUTER, "weight"));
        return;
    }
    b->l->routed = true;
    biased(b, ROUTER, REQUIRED, SHAPE(d, n), a->router_bias);
    if (f->ok) b->l->bias[CHOICE] = take(f, name_of(b, CHOICE, "bias"), a->choice_bias, SHAPE(n));
    if (a->fused_experts && there(b, GATE_UP_EXPS)) {
        b->l->expert_ff = halved(fused);
        weight(b, GATE_UP_EXPS, REQUIRED, SHAPE(d, 2 * b->l->expert_ff, n));
    } else {
        b->l->expert_ff = rows_of(b, UP_EXPS);
        biased(b, GATE_EXPS, REQUIRED, SHAPE(d, b->l->expert_ff, n), a->router_bias);
        biased(b, UP_EXPS, REQUIRED, SHAPE(d, b->l->expert_ff, n), a->router_bias);
    }
    biased(b, DOWN_EXPS, REQUIRED, SHAPE(b->l->expert_ff, d, n), a->router_bias);
    find_shared(b);
}

static void find_layer(finder *f, size_t i) {
    layer_finder b = {f, &f->m->layers[i], i};
    const architecture *a = f->m->arch;
    find_norms(&b);
    if (a->latent)
        find_latent(&b);
    else
        find_attention(&b);
    if (a->routing != ROUTE_NONE && (!a->dense || there(&b, ROUTER)))
        find_routed(&b);
    else
        find_dense(&b);
}

/* ---- the whole model's ---- */

static void find_rope_factors(finder *f) {
    forward_model *m = f->m;
    rope_factors kind = m->arch->factors;
    shape s = SHAPE(m->turned / 2);
    if (kind == FACTORS_LONGROPE) kind = m->longrope ? FACTORS_PAIR : FACTORS_FREQS;
    m->rope_freqs = take(f, "rope_freqs.weight", kind == FACTORS_FREQS ? OPTIONAL : ABSENT, s);
    m->rope_long = take(f, "rope_factors_long.weight", kind == FACTORS_PAIR ? OPTIONAL : ABSENT, s);
    m->rope_short = take(f, "rope_factors_short.weight", kind == FACTORS_PAIR ? OPTIONAL : ABSENT, s);
}

static void find_head(finder *f) {
    forward_model *m = f->m;
    const architecture *a = m->arch;
    uint64_t d = m->sizes.width;
    const gguf_tensor *t = look_up(f, "token_embd.weight", false);
    m->sizes.vocabulary = t ? t->ne[1] : 1;
    shape of = SHAPE(d, m->sizes.vocabulary);
    m->sizes.embedding = take(f, "token_embd.weight", REQUIRED, of);
    presence out = a->tied == TIED_MAY ? OPTIONAL : a->tied == TIED_NO ? REQUIRED : ABSENT;
    m->sizes.out = take(f, "output.weight", out, of);
    if (!m->sizes.out) m->sizes.out = m->sizes.embedding;
    m->out_bias = take(f, "output.bias", a->logit_bias, SHAPE(m->sizes.vocabulary));
    m->output_norm = take(f, "output_norm.weight", REQUIRED, SHAPE(d));
    m->output_norm_bias = take(f, "output_norm.bias", a->norm_bias, SHAPE(d));
    if (f->ok && m->sizes.vocabulary > UINT32_MAX)
        f->ok = gq_fail(f->e, "%s: tensor token_embd.weight has %zu rows, more than ids can name", m->path,
                        m->sizes.vocabulary);
}

/* What would be left out would be missing in the logits. */
static void refuse_others(finder *f) {
    const gguf_model *g = f->m->file;
    for (uint64_t i = 0; f->ok && i < g->n_tensors; i++) {
        gguf_block b;
        if (f->taken[i]) continue;
        if (gguf_block_leads(g->by_name[i]->name, &b) && b.number >= f->m->sizes.layers &&
            f->m->arch->extra_layers)
            continue;
        f->ok = gq_fail(f->e, "%s: tensor %s is none that a model of architecture %s is known to have here",
                        gguf_model_path(g, g->by_name[i]), g->by_name[i]->name, f->m->arch->name);
    }
}

/* leading_dense_block_count and expert_shared_feed_forward_length say once more what the tensors say. */
static void compare_with_keys(finder *f) {
    forward_model *m = f->m;
    const architecture *a = m->arch;
    gguf_facts facts = gguf_facts_of(m->file->kv, m->file->n_kv, NULL, 0);
    int64_t dense = -1, shared = 0;
    if (a->routing == ROUTE_KEYS && gguf_fact(&facts, "leading_dense_block_count"))
        gguf_fact_int(&facts, "leading_dense_block_count", &dense);
    if (a->shared_by_length) gguf_fact_int(&facts, "expert_shared_feed_forward_length", &shared);
    for (size_t i = 0; f->ok && i < m->sizes.layers; i++) {
        const layer_plan *l = &m->layers[i];
        if (dense >= 0 && m->experts && l->routed != ((int64_t)i >= dense))
            f->ok = gq_fail(
                f->e, "%s: %s.leading_dense_block_count is %lld, but there is %s tensor blk.%zu.%s.weight",
                m->path, a->name, (long long)dense, l->routed ? "a" : "no", i, names[ROUTER]);
        else if (a->shared_by_length && (shared > 0) != (l->shared_ff > 0))
            f->ok =
                gq_fail(f->e,
                        "%s: %s.expert_shared_feed_forward_length is %lld, but there is %s tensor "
                        "blk.%zu.%s.weight",
                        m->path, a->name, (long long)shared, l->shared_ff ? "a" : "no", i, names[UP_SHEXP]);
    }
}

bool model_find_tensors(forward_model *m, gq_error *e) {
    finder f = {m, e, true, calloc(m->file->n_tensors + 1, sizeof(bool))};
    if (!f.taken) return gq_fail_memory(e, m->file->n_tensors + 1);
    find_head(&f);
    find_rope_factors(&f);
    for (size_t i = 0; f.ok && i < m->sizes.layers; i++) find_layer(&f, i);
    compare_with_keys(&f);
    refuse_others(&f);
    for (size_t i = 0; f.ok && i < m->sizes.layers; i++) {
        uint64_t bytes = layer_plan_bytes(&m->layers[i]);
        if (bytes > m->sizes.layer_bytes) m->sizes.layer_bytes = bytes;
    }
    free(f.taken);
    return f.ok;
}
