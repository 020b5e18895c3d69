/* MLX loads a published model, puts its source tensors in the order that suits it, and saves them so. A depthwise
 * convolution [C, 1, w] becomes [C, w, 1], experts are stacked under names of their own, the two halves of
 * latent attention are stored apart, and matrices that others transpose are transposed already. None of that loses
 * anything.
 *
 * Some models keep their norms as differences from 1. Where MLX's own model adds 1 as it runs, as for Gemma,
 * Nemotron and MiniMax M3, the saved norms are the published ones. Where it adds 1 as it loads, the saved
 * norms have it: Qwen3-Next and Qwen 3.5 together with the transposed convolutions, Step 3.5 together with the
 * stacked experts' names. A folder of these whose source tensors are not changed so is read as published, by MLX and
 * here.
 */
#include <string.h>

#include "hf/tensors/tensors.h"

/* ---- marks ---- */

static bool tensor_is_convolution(const hf_source *s) {
    return s->n_dims == 3 && (name_ends(s->name, "conv1d.weight") || name_ends(s->name, ".conv.weight"));
}

static bool convolution_is_transposed(const hf_source *s) { return s->shape[2] == 1 && s->shape[1] > 1; }

/* Whether a name is one that only MLX gives. */
static bool name_is_mlx(const char *name) {
    return arch_names_match(NAMES(".switch_mlp.", ".switch_glu.", ".mlp.share_expert.", ".mlp.gate.gate.",
                                  ".embed_q.", ".unembed_out."),
                            name) ||
           name_ends(name, ".mlp.gate.gate_proj.weight");
}

/* Matrices that the architecture's rules transpose, and MLX has transposed already. */
static bool tensor_is_transposed(const hf_build *b, const hf_source *s) {
    uint32_t mlx = b->config->row->folder.mlx;
    if (mlx & MLX_TRANSPOSES_QKV)
        return name_ends(s->name, "attn.c_attn.weight") && s->n_dims == 2 && s->rows == 3 * s->columns;
    return (mlx & MLX_TRANSPOSES_EXPERTS) && s->n_dims == 3 &&
           name_ends(s->name, "feed_forward.experts.gate_proj.weight");
}

/* Facts that the tensors of a folder show. */
typedef struct mlx_marks {
    const hf_source *transposed,
        *upright; /* convolutions of MLX's shape, and of the original's; the last ones */
    bool has_names, has_transposed_matrices, predicts;
} mlx_marks;

static mlx_marks marks_find(hf_build *b) {
    mlx_marks m = {.transposed = NULL};
    for (size_t i = 0; i < b->n_sources; i++) {
        hf_source *s = &b->sources[i];
        m.has_names |= name_is_mlx(s->name);
        m.has_transposed_matrices |= tensor_is_transposed(b, s);
        m.predicts |= strstr(s->name, "mtp.") != NULL;
        if (!tensor_is_convolution(s)) continue;
        *(convolution_is_transposed(s) ? &m.transposed : &m.upright) = s;
    }
    return m;
}

/* Gives convolutions the shape of the original: the elements lie in the same order. */
static void convolutions_set_upright(hf_build *b) {
    for (size_t i = 0; i < b->n_sources; i++) {
        hf_source *s = &b->sources[i];
        if (s->coding != &hf_plain || !tensor_is_convolution(s) || !convolution_is_transposed(s)) continue;
        s->shape[2] = s->shape[1], s->shape[1] = 1;
        s->rows = s->shape[0], s->columns = s->shape[2], s->matrix_rows = 1;
    }
}

/* ---- norms ---- */

/* Finds out whether norms have 1 added, where they have it at all. */
static bool norms_find(hf_build *b, const mlx_marks *m, gq_error *e) {
    uint32_t mlx = b->config->row->folder.mlx;
    b->norms_have_one =
        ((mlx & MLX_NORMS_BY_CONVOLUTION) && m->transposed) || ((mlx & MLX_NORMS_BY_NAMES) && m->has_names);
    if (b->norms_have_one && m->transposed && m->upright)
        return hf_list_fail(m->transposed->list, m->transposed->stored, e,
                            "it has the shape that MLX gives, but '%s' has not: whether 1 is already added "
                            "to norms cannot be known; use the model's original folder",
                            m->upright->name);
    if (b->norms_have_one && m->predicts)
        return hf_config_fail(
            b->config, e,
            "the weights were saved by MLX, which leaves out \"mtp.\" tensors, but some are there: whether 1 "
            "is already added to their norms cannot be known; use the model's original folder");
    return true;
}

bool hf_mlx_find(hf_build *b, gq_error *e) {
    mlx_marks m = marks_find(b);
    if (!m.transposed && !m.has_names && !m.has_transposed_matrices) return true;
    if (b->config->row->folder.mlx & MLX_MULTIPLIES)
        return hf_config_fail(b->config, e,
                              "the weights were saved by MLX, which multiplies them by some of the config's "
                              "multipliers: use the model's original folder");
    b->is_transposed = m.has_transposed_matrices;
    convolutions_set_upright(b);
    return norms_find(b, &m, e) &&
           hf_folder_warn(
               b->list->folder, "", e,
               "the weights were saved by MLX: its names and shapes are mapped to the source model's%s",
               b->norms_have_one ? "; 1 is already added to norms" : "");
}
