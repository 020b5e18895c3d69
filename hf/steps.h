/* Steps that rules name: what becomes of an array (docs/hugging-face.md). */
#ifndef GQ_HF_STEPS_H
#define GQ_HF_STEPS_H

#include "hf/build.h"

hf_step hf_step_plain;     /* as it is, with 1 added to norms where the architecture asks for it */
hf_step hf_step_drop;      /* left out */
hf_step hf_step_head;      /* with the rows of the embedding; left out where it is the embedding */
hf_step hf_step_permute_q; /* rows of each head from halves to pairs */
hf_step hf_step_permute_k;
hf_step hf_step_stack;         /* matrix of expert '*' of a tensor of all */
hf_step hf_step_stack_heads_q; /* vector of head '*' of a tensor of all */
hf_step hf_step_stack_heads_k;
hf_step hf_step_halves;        /* rows [.., 2 n, d] become two tensors of n rows */
hf_step hf_step_split_qkv;     /* rows of q, k, v, one behind the other, become three */
hf_step hf_step_turned;        /* each matrix transposed */
hf_step hf_step_turned_halves; /* [E, d, 2 n]: transposed, and then halves */
hf_step hf_step_interleaved; /* gpt-oss: even and odd rows (columns of a matrix that is turned) become two */
hf_step hf_step_kv_b;       /* latent attention's [K (n + v), r] becomes attn_k_b, transposed, and attn_v_b */
hf_step hf_step_qkv_groups; /* groups of queries, key, value: all queries, all keys, all values */
hf_step hf_step_qkv_groups_3; /* the same as three tensors, permuted */
hf_step hf_step_qkv_heads;    /* [H, 3, hd]: all q, all k, all v */
hf_step hf_step_squeeze;      /* without dimensions of 1 */
hf_step hf_step_column;       /* a dimension of 1 behind the others */
hf_step hf_step_negative_exp; /* -exp(x) */
hf_step hf_step_negative_exp_column;
hf_step hf_step_norm_groups; /* [D] as [G, D / G] */
hf_step hf_step_tile_heads;  /* rows of value heads in the order of key heads, and the like */
hf_step hf_step_tile_columns;
hf_step hf_step_tile_qkv;
hf_step hf_step_qkvz;
hf_step hf_step_factors;          /* falcon-h1's multipliers */
hf_step hf_step_zero;             /* must be zeros, and is left out */
hf_step hf_step_fill_rows;        /* rows up to the vocabulary's size, zeros */
hf_step hf_step_cut_rows;         /* rows up to the number of tokens */
hf_step hf_step_down_experts;     /* gpt-oss: turned, unless it is MXFP4 or a bias */
hf_step hf_step_shared_next;      /* a tensor of the whole prediction, for each predicting block */
hf_step hf_step_expert_first;     /* jamba: layers of one expert have it as a plain feed-forward part */
hf_step hf_step_conv_3;           /* [C, 1, w] or [C, w] as [w, 1, C, 1] */
hf_step hf_step_first_heads;      /* kimi-k3's A_log */
hf_step hf_step_stack_altup;      /* one of three matrices of gemma 3n */
hf_step hf_step_head_unless_same; /* left out where its bytes are the embedding's */
hf_step hf_step_shared_halves; /* granite: the shared expert, or where there are no experts, the only part */
hf_step hf_step_shared;
/* [E, n, d]: gate is the first n rows of each expert of a tensor that has both, up the others. */
hf_step hf_step_fused_gate;
hf_step hf_step_fused_up;
hf_step hf_step_heads_column;  /* kimi: -exp, [1, 1, H, 1] as [1, H] */
hf_step hf_step_gate_of_layer; /* kimi: a gate of linear or of full attention */

extern const hf_rename hf_common_renames[];
extern const char *const hf_common_left_out[];

#endif
