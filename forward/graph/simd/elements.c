/* Functions on activations at one ISA level; kernels.h says what each of them computes. This file is compiled
 * once per level. Lanes of a vector are tokens, so a sum over features goes from row to row within a lane and
 * never across lanes, and results do not depend on the width of vectors. Functions with exponentials are
 * written with vectors by FOR_EACH, which handles the rest of a row as well; plain loops are left to the
 * compiler. Norms sum in double. Softmax goes over its rows three times: scale, cap, mask and maximum;
 * exponentials and their sum; division. */
#include "forward/graph/simd/kernels.h"

#include "forward/graph/simd/exponential.h"

/* ---- element by element ---- */

INLINE vf load_some(const float *p, size_t n) {
    vf v = {0};
    memcpy(&v, p, n * sizeof *p);
    return v;
}

/* x[0 .. n) = f, an expression of v. */
#define FOR_EACH(x, n, v, f) \
    do { \
        size_t i_ = 0; \
        for (; i_ + L <= (n); i_ += L) { \
            vf v = vf_load((x) + i_); \
            vf_store((x) + i_, f); \
        } \
        if (i_ < (n)) { \
            vf v = load_some((x) + i_, (n)-i_); \
            vf y_ = f; \
            memcpy((x) + i_, &y_, ((n)-i_) * sizeof(float)); \
        } \
    } while (0)

INLINE vf lanes_logistic(vf x) { return 1.0f / (1.0f + lanes_exponential(-x)); }
INLINE vf lanes_silu(vf x) { return x / (1.0f + lanes_exponential(-x)); }
/* x/2 (1 + tanh(u)) = x / (1 + e^-2u) */
INLINE vf lanes_gelu(vf x) {
    const float two_root = 1.59576912f; /* 2 sqrt(2 / pi) */
    return x / (1.0f + lanes_exponential(-(two_root * x * (1.0f + 0.044715f * x * x))));
}
INLINE vf lanes_relu2(vf x) { return vf_pick(vf_less(x, vf_all(0.0f)), vf_all(0.0f), x * x); }
/* gpt-oss: g / (1 + e^(-1.702 g)) with g = min(x, 7) */
INLINE vf lanes_clamp(vf x) {
    vf g = vf_smaller(vf_all(7.0f), x);
    return g / (1.0f + lanes_exponential(-1.702f * g));
}

INLINE vf lanes_relu(vf x) { return vf_larger(vf_all(0.0f), x); }
INLINE vf lanes_xielu(const activation_rule *r, vf x) {
    vf above = r->positive * x * x;
    vf below = r->negative * (lanes_exponential(vf_smaller(vf_all(r->eps), x)) - 1.0f - x);
    return vf_pick(vf_less(vf_all(0.0f), x), above, below) + r->linear * x;
}
INLINE vf lanes_within(vf x, float limit) { return vf_smaller(vf_all(limit), vf_larger(vf_all(-limit), x)); }

static void elements_activate(const activation_rule *r, float *x, size_t n) {
    switch (r->act) {
    case ACT_SILU:
        FOR_EACH(x, n, v, lanes_silu(v));
        break;
    case ACT_GELU:
        FOR_EACH(x, n, v, lanes_gelu(v));
        break;
    case ACT_RELU2:
        FOR_EACH(x, n, v, lanes_relu2(v));
        break;
    case ACT_CLAMPED:
        FOR_EACH(x, n, v, lanes_clamp(v));
        break;
    case ACT_RELU:
        FOR_EACH(x, n, v, lanes_relu(v));
        break;
    case ACT_XIELU:
        FOR_EACH(x, n, v, lanes_xielu(r, v));
        break;
    case ACT_SITU:
        FOR_EACH(x, n, v, r->positive * hyperbolic_tangent(v / r->positive) * lanes_logistic(v));
        break;
    }
}

static void elements_multiply(float *x, const float *y, size_t n) {
    for (size_t i = 0; i < n; i++) x[i] *= y[i];
}

/* gate *= x within -limit and limit, plus `more`; is_smooth: by limit * tanh(x / limit). */
static void multiply_limited(float *gate, const float *x, float limit, float more, bool is_smooth, size_t n) {
    enum { PIECE = 1024 };
    float up[PIECE];
    for (size_t first = 0; first < n; first += PIECE) {
        size_t m = n - first < PIECE ? n - first : PIECE;
        memcpy(up, x + first, m * sizeof *x);
        if (is_smooth)
            FOR_EACH(up, m, v, hyperbolic_tangent(v / limit) * limit);
        else
            FOR_EACH(up, m, v, lanes_within(v, limit) + more);
        elements_multiply(gate + first, up, m);
    }
}

static void elements_gate(const activation_rule *r, float *g, const float *x, size_t n) {
    if (r->limits_input && r->limit != 0) FOR_EACH(g, n, v, vf_smaller(vf_all(r->limit), v));
    elements_activate(r, g, n);
    if (r->act == ACT_CLAMPED) {
        multiply_limited(g, x, 7, 1, false, n);
    } else if (r->act == ACT_SITU && r->linear > 0) {
        multiply_limited(g, x, r->linear, 0, true, n);
    } else if (r->limit != 0) {
        if (!r->limits_input) FOR_EACH(g, n, v, vf_smaller(vf_all(r->limit), v));
        multiply_limited(g, x, r->limit, 0, false, n);
    } else {
        elements_multiply(g, x, n);
    }
}

static void elements_exponential(float *x, size_t n) { FOR_EACH(x, n, v, lanes_exponential(v)); }
static void elements_sigmoid(float *x, size_t n) { FOR_EACH(x, n, v, lanes_logistic(v)); }
static void elements_softplus(float *x, size_t n) { FOR_EACH(x, n, v, lanes_softplus(v)); }
static void elements_root(float *x, size_t n) {
    for (size_t i = 0; i < n; i++) x[i] = sqrtf(x[i]);
}
static void elements_clamp(float *x, float limit, size_t n) { FOR_EACH(x, n, v, lanes_within(v, limit)); }
static void elements_cap(float *x, float c, size_t n) { FOR_EACH(x, n, v, hyperbolic_tangent(v / c) * c); }
static void elements_add(float *x, float y, size_t n) {
    for (size_t i = 0; i < n; i++) x[i] += y;
}
static void elements_scale(float *x, float factor, size_t n) {
    for (size_t i = 0; i < n; i++) x[i] *= factor;
}
static void add_scaled(float *x, const float *y, float factor, size_t n) {
    for (size_t i = 0; i < n; i++) x[i] += factor * y[i];
}

static void elements_rotate(float *restrict u, float *restrict v, const float *restrict cosine,
                            const float *restrict sine, size_t n) {
    for (size_t i = 0; i < n; i++) {
        float a = u[i], b = v[i];
        u[i] = a * cosine[i] - b * sine[i];
        v[i] = a * sine[i] + b * cosine[i];
    }
}

/* ---- along the features ---- */

/* Sums in double: there are thousands of squares, and they cost little beside the products around them. */
static void elements_norm(const norm_task *t) {
    double sum[ELEMENT_SPAN] = {0};
    float mean[ELEMENT_SPAN] = {0}, factor[ELEMENT_SPAN];
    size_t n = t->n;
    for (size_t c = 0; t->center && c < t->features; c++)
        for (size_t i = 0; i < n; i++) sum[i] += (double)t->x[c * t->x_stride + i];
    for (size_t i = 0; i < n; i++) mean[i] = (float)(sum[i] / (double)t->features), sum[i] = 0;
    for (size_t c = 0; c < t->features; c++) {
        const float *x = t->x + c * t->x_stride;
        for (size_t i = 0; i < n; i++) {
            double d = (double)(x[i] - mean[i]);
            sum[i] += d * d;
        }
    }
    for (size_t i = 0; i < n; i++)
        factor[i] = (float)(1.0 / (t->to_unit ? sqrt(sum[i] + (double)t->eps)
                                              : sqrt(sum[i] / (double)t->features + (double)t->eps)));
    for (size_t c = 0; c < t->features; c++) {
        const float *x = t->x + c * t->x_stride;
        float *y = t->y + c * t->y_stride, b = t->bias ? t->bias[c] : 0.0f;
        float w = t->weight ? t->weight[t->one_weight ? 0 : c] : 1.0f;
        for (size_t i = 0; i < n; i++) y[i] = (x[i] - mean[i]) * factor[i] * w + b;
    }
}

/* The score of a key at position `key` for the queries of one vector, -infinity where they do not see it. */
INLINE vf lanes_mask(const softmax_task *t, vf s, size_t key, vi query) {
    vm seen = vi_less(vi_all((int32_t)key - 1 - (int32_t)t->ahead), query);
    if (t->window) seen = vm_both(seen, vi_less(query, vi_all((int32_t)(key + t->window))));
    return vf_pick(seen, s, vf_all(-INFINITY));
}

static void elements_softmax(const softmax_task *t) {
    enum { MOST = ELEMENT_SPAN / L };
    size_t vectors = (t->n + L - 1) / L;
    vf most[MOST], sum[MOST], position[MOST];
    vi query[MOST];
    for (size_t v = 0; v < vectors; v++) {
        most[v] = vf_all(t->sink ? *t->sink : -INFINITY), sum[v] = vf_all(0.0f);
        for (int k = 0; k < L; k++) query[v][k] = (int32_t)(t->query + v * L + (size_t)k);
        for (int k = 0; k < L; k++) position[v][k] = (float)query[v][k];
    }
    for (size_t j = 0; j < t->rows; j++) {
        for (size_t v = 0; v < vectors; v++) {
            float *at = t->s + j * t->stride + v * L;
            vf s = vf_load(at) * t->scale;
            if (t->cap != 0) s = hyperbolic_tangent(s / t->cap) * t->cap;
            vf apart = position[v] - (float)(t->key + j);
            if (t->slope != 0) s -= t->slope * vf_larger(apart, -apart);
            if (t->masks) s = lanes_mask(t, s, t->key + j, query[v]);
            most[v] = vf_larger(most[v], s); /* NaN is not kept here, but comes back in the sum */
            vf_store(at, s);
        }
    }
    for (size_t j = 0; j < t->rows; j++) {
        for (size_t v = 0; v < vectors; v++) {
            float *at = t->s + j * t->stride + v * L;
            vf p = lanes_exponential(vf_load(at) - most[v]);
            sum[v] += p;
            vf_store(at, p);
        }
    }
    for (size_t v = 0; v < vectors; v++) {
        if (t->sink) sum[v] += lanes_exponential(vf_all(*t->sink) - most[v]);
        sum[v] = 1.0f / sum[v];
    }
    for (size_t j = 0; j < t->rows; j++) {
        for (size_t v = 0; v < vectors; v++) {
            float *at = t->s + j * t->stride + v * L;
            vf_store(at, vf_load(at) * sum[v]);
        }
    }
}

const element_kernels LEVEL(element_kernels) = {
    .norm = elements_norm,
    .softmax = elements_softmax,
    .activate = elements_activate,
    .gate = elements_gate,
    .exponential = elements_exponential,
    .sigmoid = elements_sigmoid,
    .softplus = elements_softplus,
    .root = elements_root,
    .clamp = elements_clamp,
    .cap = elements_cap,
    .rotate = elements_rotate,
    .add = elements_add,
    .add_scaled = add_scaled,
    .scale = elements_scale,
    .multiply = elements_multiply,
};
