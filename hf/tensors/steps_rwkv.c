/* The steps of RWKV, and of queries, keys and values that stand apart. */
#include "base/fail.h"
#include "hf/arrays/names.h"
#include "hf/tensors/build_tensor.h"
#include "hf/tensors/steps.h"

#include <math.h>
#include <string.h>

/* Vectors of what is mixed, in the order that readers expect: rwkv6 is without a, rwkv7 may be without g. */
bool hf_step_lerp(hf_build *b, const hf_found *f, gq_error *e) {
    const char *name = f->source->name, *order = strstr(name, "time_maa_") ? "wkvrg" : "rwkvag";
    bool gate;
    if (!hf_config_bool_or(b->config, "wkv_has_gate", true, &gate, e)) return false;
    uint64_t n = strlen(order) - (*order == 'r' && !gate), elements = f->source->rows * f->source->columns;
    if (name_ends(name, "x_x")) { /* all of them are in one array */
        hf_view v = hf_view_squeezed(f->source);
        if (v.n_dims != 2 || v.count[0] != n)
            return hf_found_fail(f, e, "its shape is not that of %llu vectors", (unsigned long long)n);
        return hf_build_shaped(b, f, 0, &v, 4, (uint64_t[]){v.count[1], 1, 1, n}, e) != NULL;
    }
    const char *letter = strchr(order, name[strlen(name) - 1]);
    hf_view v = hf_view_squeezed(f->source);
    if (!letter || (uint64_t)(letter - order) >= n || v.n_dims != 1)
        return hf_found_fail(f, e, "expected one vector of %.*s", (int)n, order);
    hf_tensor *t = hf_build_tensor(b, f, 0, n, 4, (uint64_t[]){elements, 1, 1, n}, e);
    return t && hf_build_piece(f, t, (size_t)(letter - order), &v, e);
}

bool hf_step_rescaled(hf_build *b, const hf_found *f, gq_error *e) {
    uint32_t every;
    hf_view v = hf_view_of(f->source);
    if (!hf_config_u32_or(b->config, "rescale_every", 0, &every, e)) return false;
    hf_piece *p = hf_build_view(b, f, 0, &v, e);
    uint64_t halvings = every ? f->layer / every : 0;
    return p && (!halvings || hf_piece_add_op(p, HF_MULTIPLY, exp2(-(double)halvings), e));
}

/* The parts are those of r, k, v, w, g; readers expect w, k, v, r, g. */
bool hf_step_shift_order(hf_build *b, const hf_found *f, gq_error *e) {
    enum { PARTS = 5 };
    static const uint64_t order[PARTS] = {3, 1, 2, 0, 4};
    hf_view whole = hf_view_of(f->source);
    uint32_t n = whole.n_dims;
    if (n == 2 || n == 3) hf_view_swap(&whole, n - 2, n - 1);
    uint64_t ne[3] = {n ? whole.count[n - 1] : 0, n == 3 ? whole.count[1] : whole.count[0],
                      n == 3 ? PARTS : 1};
    uint64_t rows = whole.count[0] / PARTS;
    if ((n != 2 && n != 3) || rows == 0 || whole.count[0] % PARTS || (n == 3 && rows != 1))
        return hf_found_fail(f, e, "its shape is not that of %d parts", PARTS);
    hf_tensor *t = hf_build_tensor(b, f, 0, PARTS, n, ne, e);
    for (size_t i = 0; t && i < PARTS; i++) {
        hf_view v = whole;
        if (!hf_view_cut(&v, 0, order[i] * rows, rows, 1) || !hf_build_piece(f, t, i, &v, e)) return false;
    }
    return t != NULL;
}

/* Matrices of flash-linear-attention are turned already. The first layer mixes no values of a layer before; readers
 * expect the tensors, and are given those of its learning rate. */
bool hf_step_low_rank(hf_build *b, const hf_found *f, gq_error *e) {
    bool first = f->layer == 0;
    hf_view v = hf_view_squeezed(f->source);
    if (first && !strchr(f->rule->to, '|') && strstr(f->rule->to, "time_mix_v")) return true;
    if (v.n_dims == 2 && !strstr(f->source->name, "_lora.")) hf_view_swap(&v, 0, 1);
    return hf_build_view(b, f, 0, &v, e) &&
           (!first || !strchr(f->rule->to, '|') || hf_build_view(b, f, 1, &v, e));
}

/* A matrix has a row for each head. */
bool hf_step_flat(hf_build *b, const hf_found *f, gq_error *e) {
    hf_view v = hf_view_of(f->source);
    uint32_t head = 0;
    if (f->source->rows > 1 && !hf_config_u32(b->config, "head_size|head_dim", &head, e)) return false;
    if (head && f->source->columns != head)
        return hf_found_fail(f, e, "%llu columns, expected %u, the width of a head by the config",
                             (unsigned long long)f->source->columns, head);
    return hf_build_shaped(b, f, 0, &v, 1, (uint64_t[]){f->source->rows * f->source->columns}, e) != NULL;
}

bool hf_step_join_qkv(hf_build *b, const hf_found *f, gq_error *e) {
    const char *at = strstr(f->source->name, "_proj");
    const char *part = at && at > f->source->name ? memchr("qkv", at[-1], 3) : NULL;
    hf_view v = hf_view_of(f->source);
    if (!part || (v.n_dims != 1 && v.n_dims != 2))
        return hf_found_fail(f, e, "expected a matrix of queries, keys or values, or its bias");
    uint64_t rows = v.count[0], ne[2] = {v.n_dims == 2 ? v.count[1] : 3 * rows, 3 * rows};
    hf_tensor *t = hf_build_tensor(b, f, 0, 3, v.n_dims, ne, e);
    size_t i = at[-1] == 'q' ? 0 : at[-1] == 'k' ? 1 : 2;
    return t && hf_build_piece(f, t, i, &v, e);
}
