/* All rows of projectors. */
#include "arch/projector.h"

#include <string.h>

#include "arch/projectors.h"
#include "arch/rules.h"

static const arch_projector *const files[] = {arch_projectors_vision, arch_projectors_audio,
                                              arch_projectors_both, arch_projectors_more};

const arch_projector *arch_projector_at(size_t i) {
    for (size_t f = 0; f < sizeof files / sizeof *files; f++)
        for (const arch_projector *p = files[f]; p->classes; p++)
            if (i-- == 0) return p;
    return NULL;
}

bool arch_rule_makes(const arch_rule *r, const char *name) {
    for (const char *to = r->to; *to && *to != '|'; to++) {
        if (*to != '#' && *to != '*') {
            if (*to != *name++) return false;
            continue;
        }
        if (*name < '0' || *name > '9') return false;
        while (*name >= '0' && *name <= '9') name++;
    }
    return *name == 0 || (*name == '.' && !strchr(name + 1, '.'));
}

bool arch_rule_is_heard(const arch_rule *r) {
    return !strncmp(r->to, "a.", 2) || !strncmp(r->to, "mm.a.", 5);
}

/* ---- sizes of tensors ---- */

/* The sizes of projectors' tensors, in the notation of arch/projector.h. Letters are widths that several
 * tensors share: D of the states of the vision encoder, Q and K of queries and keys, H of a head, F of the
 * feed-forward sublayer, T of the text model, M of patches that were merged; small letters are the same of the
 * audio encoder, s its positions and y the states that are stacked; others stand in a few lines. */

const arch_tensor_size arch_projector_shapes[] = {
    /* the vision encoder: layers */
    SIZES_OF_LAYERS("v.blk.#.", "D", "Q", "K", "H", "F"),
    {"v.blk.#.attn_qkv", "D Q+2K"},
    {"v.blk.#.attn_sinks", "N"},
    {"v.blk.#.ls1", "D"},
    {"v.blk.#.ls2", "D"},
    {"v.blk.#.out_scale", "1"},
    {"v.blk.#.ffn_gate_inp", "D ?"},
    {"v.blk.#.ffn_gate_exps", "D E ?"},
    {"v.blk.#.ffn_up_exps", "D E ?"},
    {"v.blk.#.ffn_down_exps", "E D ?"},
    /* before and behind them */
    {"v.patch_embd", "? D|? ? 3 D"},
    {"v.patch_embd.weight.#", "? ? 3 D"},
    {"v.position_embd", "D @"},
    {"v.pre_ln", "D"},
    {"v.post_ln", "D"},
    {"v.norm_embd", "D"},
    {"v.class_embd", "D"},
    {"v.std_scale", "D"},
    {"v.std_bias", "D"},
    {"v.image_newline", "T"},
    {"v.token_embd.img_break", "T"},
    {"v.view_seperator", "T"},
    {"v.token_embd.img_start", "T"},
    {"v.token_embd.img_end", "T"},
    {"v.token_embd.img_pad", "T"},
    {"v.boi", "T"},
    {"v.eoi", "T"},
    {"v.deepstack.#.norm", "M +"},
    {"v.deepstack.#.fc1", "M M"},
    {"v.deepstack.#.fc2", "M T"},
    /* SAM */
    {"v.sam.patch_embd", "? ? 3 S +"},
    {"v.sam.pos_embd", "S G G"},
    {"v.sam.blk.#.pre_ln", "S +"},
    {"v.sam.blk.#.post_ln", "S +"},
    {"v.sam.blk.#.attn.qkv", "S 3S"},
    {"v.sam.blk.#.attn.out", "S S"},
    {"v.sam.blk.#.mlp.lin1", "S L"},
    {"v.sam.blk.#.mlp.lin2", "L S"},
    {"v.sam.neck.0", "1 1 S C"},
    {"v.sam.neck.1", "C +"},
    {"v.sam.neck.2", "3 3 C C"},
    {"v.sam.neck.3", "C +"},
    {"v.sam.net_2", "3 3 C R"},
    {"v.sam.net_3", "3 3 R U"},
    /* MiniCPM's and Granite's */
    {"v.vit_merger.ln1", "D +"},
    {"v.vit_merger.attn_q", "D D +"},
    {"v.vit_merger.attn_k", "D D +"},
    {"v.vit_merger.attn_v", "D D +"},
    {"v.vit_merger.attn_out", "D D +"},
    {"v.vit_merger.ds_ln", "4D +"},
    {"v.vit_merger.ds_ffn_up", "4D X +"},
    {"v.vit_merger.ds_ffn_down", "X D +"},
    SIZES_OF_QUERIES("v.proj_blk.#.", "D", "D", "P"),
    {"v.proj_blk.#.norm", "D +"},
    {"v.proj_blk.#.post_norm", "D +"},
    {"v.proj_blk.#.query", "D ~"},
    {"v.proj_blk.#.img_pos", "D ~"},
    {"v.proj_blk.#.linear", "D T"},
    /* from it to the text model */
    {"mm.input_norm", "^D +"},
    {"mm.post_norm", "A +"},
    {"mm.soft_emb_norm", "D"},
    {"mm.hard_emb_norm", "D"},
    {"mm.embedding", "D ?"},
    {"mm.input_projection", "D T"},
    {"mm.post_fc_norm", "A +"},
    {"mm.0", "^D X"},
    {"mm.1", "^D X"},
    {"mm.2", "X T"},
    {"mm.model.mlp.0", "Y"},
    {"mm.model.mlp.1", "Y X"},
    {"mm.model.mlp.3", "X T"},
    {"mm.model.fc", "? T"},
    {"mm.merger.fc1", "^T Z"},
    {"mm.merger.fc2", "Z T"},
    {"mm.gate", "A G"},
    {"mm.up", "A G"},
    {"mm.down", "G T"},
    {"v.patch_norm.#", "? +"},
    /* the audio encoder: layers, of transformers and conformers */
    SIZES_OF_LAYERS("a.blk.#.", "d", "q", "q", "h", "f"),
    {"a.blk.#.attn_pre_norm", "d"},
    {"a.blk.#.ffn_norm", "d"},
    {"a.blk.#.ffn_norm_1", "d"},
    {"a.blk.#.ffn_post_norm_1", "d"},
    {"a.blk.#.layer_pre_norm", "d"},
    {"a.blk.#.norm_conv", "d"},
    {"a.blk.#.ffn_up_1", "d g"},
    {"a.blk.#.ffn_down_1", "g d"},
    {"a.blk.#.conv_pw1", "d 2c"},
    {"a.blk.#.conv_pw2", "c d"},
    {"a.blk.#.conv_norm", "c"},
    {"a.blk.#.conv_norm_mean", "c"},
    {"a.blk.#.conv_norm_var", "c"},
    {"a.blk.#.conv_dw", "? c|? 1 c"},
    {"a.blk.#.linear_pos", "d q"},
    {"a.blk.#.attn_k_rel", "d q"},
    {"a.blk.#.per_dim_scale", "h"},
    {"a.blk.#.pos_bias_u", "h n"},
    {"a.blk.#.pos_bias_v", "h n"},
    {"a.blk.#.attn_rel_pos_emb", "h 2I+1"},
    /* before and behind them */
    {"a.conv1d.1", "3 ? d +"},
    {"a.conv1d.2", "3 d d +"},
    {"a.conv2d.1", "3 3 1 e +"},
    {"a.conv2d.2", "3 3 e e +"},
    {"a.conv2d.3", "3 3 e e +"},
    {"a.conv_out", "Be d"},
    {"a.position_embd", "d s"},
    {"a.post_ln", "d"},
    {"a.pre_encode.out", "? d"},
    {"a.downsample.conv", "? d d"},
    {"a.downsample.norm", "d +"},
    {"a.input_projection", "? d"},
    {"a.enc_ctc_out", "d o +"},
    {"a.enc_ctc_out_mid", "o d +"},
    SIZES_OF_QUERIES("a.proj_blk.#.", "p", "*d", "r"),
    {"a.proj_norm", "p +"},
    {"a.proj_linear", "p t +"},
    {"a.proj_query", "p V"},
    SIZES_OF_LAYERS("mm.a.local_blk.#.", "l", "m", "k", "i", "j"),
    {"mm.a.local_norm", "l"},
    {"mm.a.norm_pre", "*d +"},
    {"mm.a.mlp.0", "*d x"},
    {"mm.a.mlp.1", "d x"},
    {"mm.a.mlp.2", "x t"},
    {"mm.a.fc", "d t +"},
    {"mm.a.soft_emb_norm", "?"},
    {"mm.a.input_projection", "? t"},
    {NULL, NULL},
};
