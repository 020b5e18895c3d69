#include "hf/sources/sources.h"

hf_view hf_view_of(const hf_source *s) {
    hf_view v = {.n_dims = s->n_dims};
    uint64_t stride = 1;
    for (uint32_t i = s->n_dims; i > 0; i--) {
        v.count[i - 1] = s->shape[i - 1], v.stride[i - 1] = stride;
        stride *= s->shape[i - 1];
    }
    if (s->coding == &hf_gptq) hf_view_swap(&v, 0, 1);
    return v;
}

hf_view hf_view_squeezed(const hf_source *s) {
    hf_view v = hf_view_of(s), squeezed = {.base = v.base};
    for (uint32_t i = 0; i < v.n_dims; i++)
        if (v.count[i] != 1)
            squeezed.count[squeezed.n_dims] = v.count[i], squeezed.stride[squeezed.n_dims++] = v.stride[i];
    return squeezed;
}

uint64_t hf_view_units(const hf_view *v) {
    uint64_t n = 1;
    for (uint32_t i = 0; i < v->n_dims; i++) n = mul_sat(n, v->count[i]);
    return n;
}

uint64_t hf_view_offset(const hf_view *v, uint32_t dims, uint64_t at) {
    uint64_t offset = v->base;
    for (uint32_t i = dims; i > 0; at /= v->count[--i]) offset += at % v->count[i - 1] * v->stride[i - 1];
    return offset;
}

bool hf_view_split(hf_view *v, uint32_t dim, uint64_t inner) {
    if (inner == 0 || v->count[dim] % inner != 0 || v->n_dims == VIEW_DIMS) return false;
    for (uint32_t i = v->n_dims++; i > dim; i--)
        v->count[i] = v->count[i - 1], v->stride[i] = v->stride[i - 1];
    v->count[dim] /= inner, v->count[dim + 1] = inner;
    v->stride[dim] *= inner;
    return true;
}

void hf_view_swap(hf_view *v, uint32_t a, uint32_t b) {
    uint64_t count = v->count[a], stride = v->stride[a];
    v->count[a] = v->count[b], v->stride[a] = v->stride[b];
    v->count[b] = count, v->stride[b] = stride;
}

bool hf_view_cut(hf_view *v, uint32_t dim, uint64_t first, uint64_t count, uint64_t step) {
    if (count == 0 || step == 0 || first >= v->count[dim] || (v->count[dim] - 1 - first) / step < count - 1)
        return false;
    v->base += first * v->stride[dim];
    v->count[dim] = count, v->stride[dim] *= step;
    return true;
}

void hf_view_simplify(hf_view *v) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < v->n_dims; i++) {
        if (v->count[i] == 1) continue;
        if (n > 0 && v->stride[n - 1] == v->count[i] * v->stride[i])
            v->count[n - 1] *= v->count[i], v->stride[n - 1] = v->stride[i];
        else
            v->count[n] = v->count[i], v->stride[n++] = v->stride[i];
    }
    if (n == 0) v->count[0] = v->stride[0] = 1, n = 1;
    v->n_dims = n;
}
