/* Stage 3, ops: what becomes of a source tensor whose name has a rule (ARCH_OPS, arch/rules.h). An op makes a
 * view of it (split, swap, cut: hf/sources/view.c), in which the last dimension is a row, and gives the view to
 * one tensor or to several. Sizes on which the config and a source tensor disagree are found by a split or a
 * cut that does not work out.
 *
 * Here are those that many kinds of tensors need; ops_attention.c, ops_experts.c, ops_recurrent.c, ops_vocabulary.c and
 * ops_projector.c have those of one kind.
 */
#include "hf/tensors/tensors.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool op_finish_piece(hf_build *b, const hf_match *f, hf_piece *p, gq_error *e) {
    if (!p) return false;
    bool is_norm = name_ends(f->source->name, "norm.weight") || name_ends(f->rule->to, "nextn.enorm") ||
                   name_ends(f->rule->to, "nextn.hnorm");
    return !b->arch->adds_one || b->norms_have_one || !is_norm ||
           name_ends(f->source->name, "linear_attn.norm.weight") || hf_piece_add_op(p, HF_ADD, 1, e);
}

HF_OP(copy) {
    hf_view v = hf_match_view(f);
    return op_finish_piece(b, f, hf_build_view(b, f, 0, &v, e), e);
}

HF_OP(omit) {
    (void)b, (void)f, (void)e;
    return true;
}

HF_OP(copy_to_mtp_layers) {
    bool each = b->config->row->folder.mtp.for_each;
    for (uint64_t i = 0; i < (each ? b->config->mtp : 1); i++) {
        hf_match g = *f;
        g.layer = b->config->layers + i;
        if (!hf_op_copy(b, &g, e)) return false;
    }
    return true;
}

/* ---- shape ---- */

HF_OP(squeeze) {
    hf_view v = hf_view_squeezed(f->source);
    return hf_build_view(b, f, 0, &v, e) != NULL;
}

HF_OP(transpose) {
    hf_view v = hf_match_view(f);
    if (v.n_dims < 2 || b->is_transposed) return hf_op_copy(b, f, e);
    hf_view_swap(&v, v.n_dims - 2, v.n_dims - 1);
    return hf_build_view(b, f, 0, &v, e) != NULL;
}

HF_OP(transpose_split_halves) {
    if (f->source->n_dims != 3 || hf_match_view(f).count[2] % 2)
        return hf_match_fail_shape(f, e, "an even number of rows");
    for (unsigned i = 0; i < 2; i++) {
        hf_view v = hf_match_view(f);
        uint64_t half = v.count[2] / 2;
        hf_view_swap(&v, 1, 2);
        if (!hf_view_cut(&v, 1, i * half, half, 1) || !hf_build_view(b, f, i, &v, e)) return false;
    }
    return true;
}

HF_OP(split_halves) {
    uint32_t dim = f->source->n_dims > 2 ? 1 : 0;
    if (hf_match_view(f).count[dim] % 2) return hf_match_fail_shape(f, e, "an even number of rows");
    return hf_build_equal_pieces(b, f, dim, 2, e);
}

HF_OP(split_rows_of_stack) {
    hf_match at = *f;
    uint64_t each = b->config->layers / 2, rows = hf_view_of(f->source).count[0];
    unsigned n = hf_match_names(f);
    if (f->layer >= each)
        return hf_match_fail(f, e, "layer %llu, but a stack has %llu", LLU(f->layer), LLU(each));
    if (rows % n) return hf_match_fail(f, e, "%llu rows, expected a multiple of %u", LLU(rows), n);
    if (strstr(f->rule->from, ".H_module.")) at.layer += each;
    return hf_build_equal_pieces(b, &at, 0, n, e);
}

/* A matrix has a row for each head. */
HF_OP(flatten) {
    hf_view v = hf_view_of(f->source);
    uint32_t head = 0;
    if (f->source->rows > 1 && !hf_config_u32(b->config, "head_size|head_dim", &head, e)) return false;
    if (head && f->source->columns != head)
        return hf_match_fail(f, e, "%llu columns, expected %u, the width of a head by the config",
                             LLU(f->source->columns), head);
    return hf_build_shaped(b, f, 0, &v, 1, (uint64_t[]){f->source->rows * f->source->columns}, e) != NULL;
}

static hf_piece *build_column(hf_build *b, const hf_match *f, gq_error *e) {
    hf_view v = hf_view_of(f->source);
    if (v.n_dims < VIEW_DIMS) v.count[v.n_dims] = v.stride[v.n_dims] = 1, v.n_dims++;
    return hf_build_view(b, f, 0, &v, e);
}

HF_OP(append_dim) { return build_column(b, f, e) != NULL; }

/* ---- arithmetic ---- */

HF_OP(negative_exp_column) {
    hf_piece *p = build_column(b, f, e);
    return p && hf_piece_add_op(p, HF_NEGATIVE_EXP, 0, e);
}

HF_OP(negative_exp) { return hf_build_with_op(b, f, HF_NEGATIVE_EXP, 0, e); }
HF_OP(add_one) { return hf_build_with_op(b, f, HF_ADD, 1, e); }
HF_OP(softplus) { return hf_build_with_op(b, f, HF_SOFTPLUS, 0, e); }

HF_OP(add_plamo_offset) {
    double added = strstr(f->rule->to, "post_attention_norm") ? 1.0 / 5
                   : strstr(f->rule->to, "post_ffw_norm")     ? 1 / (5 * sqrt(5))
                                                              : 1;
    return hf_build_with_op(b, f, HF_ADD, added, e);
}

/* The mean of a source tensor's absolute values. Sums are of binary64: the converter's differ in the last place. */
static bool mean_absolute(const hf_source *s, float *mean, gq_error *e) {
    enum { STRIP_ELEMENTS = 1 << 16 };
    float *x = malloc(STRIP_ELEMENTS * sizeof *x);
    double sum = 0;
    bool ok = x || gq_fail_memory(e, STRIP_ELEMENTS * sizeof *x);
    uint64_t at_once = s->columns < STRIP_ELEMENTS ? STRIP_ELEMENTS / s->columns : 1;
    for (uint64_t row = 0, rows; ok && row < s->rows; row += rows) {
        rows = min(at_once, s->rows - row);
        for (uint64_t column = 0, n; ok && column < s->columns; column += n) {
            n = min(STRIP_ELEMENTS, s->columns - column);
            ok = hf_changed_read(s, row, rows, column, n, tensor_type_of(GGUF_F32), x, e);
            for (uint64_t i = 0; ok && i < rows * n; i++) sum += fabs((double)x[i]);
        }
    }
    free(x);
    *mean = (float)(sum / (double)s->stored->n);
    return ok &&
           (isfinite(sum) || hf_list_fail(s->list, s->stored, e,
                                          "a weight is not finite: the file is damaged; download it again"));
}

HF_OP(round_ternary) {
    float mean;
    hf_piece *p = hf_build_whole(b, f, e);
    if (!p || f->source->coding != &hf_plain || f->source->stored->n == 0) return p;
    return mean_absolute(f->source, &mean, e) &&
           hf_piece_add_op(p, HF_ROUND_TERNARY, (double)(1 / (mean > 1e-5f ? mean : 1e-5f)), e);
}

HF_OP(omit_zeros) {
    const hf_source *s = f->source;
    (void)b;
    for (uint64_t i = 0, n; i < s->columns; i += n) {
        float x[256];
        n = s->columns - i < 256 ? s->columns - i : 256;
        if (s->n_dims != 1) return hf_match_fail_shape(f, e, "the shape of a bias");
        if (!hf_changed_read(s, 0, 1, i, n, tensor_type_of(GGUF_F32), x, e)) return false;
        for (uint64_t k = 0; k < n; k++)
            if (x[k] != 0)
                return hf_match_fail(f, e, "element %llu is %g, expected 0: GGUFs have no such bias",
                                     LLU(i + k), (double)x[k]);
    }
    return true;
}
