/* Operations on activations one by one, or along the features of each token, at one ISA level.
 *
 * Tokens are the lanes, so no sum runs across a vector, and results do not depend on its width. Only
 * exponentials use fused products.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "arch/graph.h"
/* An activation with its numbers. */
typedef struct activation_rule {
    activation act;
    float limit; /* of gates: act(gate) is at most this, and x within -limit and limit; 0: they are free */
    bool limits_input; /* what the activation reads is at most that, not what it gives */
    /* ACT_SITU: positive tanh(x / positive) sigmoid(x), of gates times linear tanh(u / linear), linear 0: u.
     * ACT_XIELU: above 0 positive x^2 + linear x; else negative (e^min(x, eps) - 1 - x) + linear x */
    float positive, negative, linear, eps;
} activation_rule;

enum { ELEMENT_SPAN = 64 }; /* tokens that norms and softmax take at once, at most */

/* y = (x - mean) / sqrt(mean((x - mean)^2) + eps) * weight + bias over the features of each of n tokens; to
 * unit length x / sqrt(sum(x^2) + eps) takes the place of the fraction. */
typedef struct norm_task {
    const float *x;
    float *y; /* may be x */
    size_t x_stride, y_stride, features, n;
    const float *weight, *bias; /* per feature; NULL: 1, 0 */
    bool one_weight;            /* weight[0] for all features */
    float eps;
    bool centre;  /* else the mean is not taken off */
    bool to_unit; /* not centred */
} norm_task;

/* Softmax along the rows of s[rows][n], each column for itself; columns up to the next multiple of 16 are
 * overwritten. First s = scale * s; with a cap, cap * tanh(s / cap); then slope times the distance between
 * query and key is taken off. */
typedef struct softmax_task {
    float *s;
    size_t stride, rows, n;
    float scale, cap; /* cap 0: none */
    float slope;
    /* Rows are keys at the positions from `key` on, columns queries from `query` on: a query sees keys up to
     * `ahead` positions behind its own, and of those before it the last window - 1. */
    bool masks;                       /* else it sees all keys */
    size_t key, query, ahead, window; /* window 0: all before it */
    const float *sink;                /* one more logit, which is not in the result; or NULL */
} softmax_task;

typedef struct element_kernels {
    void (*norm)(const norm_task *t);
    void (*softmax)(const softmax_task *t);
    void (*activate)(const activation_rule *r, float *x, size_t n);                /* x = act(x), n floats */
    void (*gate)(const activation_rule *r, float *gate, const float *x, size_t n); /* gate = act(gate) x */
    void (*exponential)(float *x, size_t n);
    void (*sigmoid)(float *x, size_t n);
    void (*softplus)(float *x, size_t n);           /* ln(1 + e^x) */
    void (*root)(float *x, size_t n);               /* square root */
    void (*clamp)(float *x, float limit, size_t n); /* x within -limit and limit */
    void (*cap)(float *x, float cap, size_t n);     /* x = cap tanh(x / cap) */
    /* (u, v) turned: u = u cos - v sin, v = u sin + v cos. */
    void (*turn)(float *u, float *v, const float *cosine, const float *sine, size_t n);
    void (*add)(float *x, float y, size_t n);
    void (*add_scaled)(float *x, const float *y, float factor, size_t n); /* x += factor y */
    void (*scale)(float *x, float factor, size_t n);
    void (*multiply)(float *x, const float *y, size_t n);
} element_kernels;
