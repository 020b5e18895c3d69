/* The weights that layers of models may have, by their names in GGUF. */
#pragma once

/* The kinds of weights. A small one (a norm, a kernel, a bias alone) is kept decoded and has no inputs; its name may
 * lack ".weight", and that of a bare one always does. A matrix stays as it is stored; its inputs are reported. A
 * helper is a matrix that no mix quantizes, so that nobody asks for its inputs; those of a pair are bare. Experts are
 * matrices of which each sees tokens of its own; late ones read what the layer's other experts give. */

/* The weights that a layer may have, each with a bias that may be there: member, name in the file, kind.
 * Several sublayers may use one slot, with shapes of their own. */
#define ARCH_WEIGHTS(W) \
    W(ATTN_NORM, "attn_norm", SMALL) \
    W(LOOP_NORM, "output_norm", SMALL) /* the model's */ \
    W(ATTN_NORM_2, "attn_norm_2", SMALL) \
    W(FFN_NORM, "ffn_norm", SMALL) \
    W(POST_ATTENTION_NORM, "post_attention_norm", SMALL) \
    W(POST_FFW_NORM, "post_ffw_norm", SMALL) \
    W(ATTN_OUTPUT_NORM, "attn_output_norm", SMALL) \
    W(LAYER_OUTPUT_NORM, "layer_output_norm", SMALL) \
    W(LAYER_OUTPUT_SCALE, "layer_output_scale", SMALL) \
    W(FFN_NORM_EXPS, "ffn_norm_exps", SMALL) \
    W(PRE_FFW_NORM_2, "pre_ffw_norm_2", SMALL) \
    W(POST_FFW_NORM_1, "post_ffw_norm_1", SMALL) \
    W(POST_FFW_NORM_2, "post_ffw_norm_2", SMALL) \
    W(FFN_ROUTER_SCALE, "ffn_gate_inp.scale", BARE) \
    W(FFN_DOWN_SCALE, "ffn_down_exps.scale", BARE) \
    W(MIXER_GAIN, "attn_output.scale", BARE) /* one number that a sublayer's result is multiplied by */ \
    W(FFN_GAIN, "ffn_down.scale", BARE) \
    W(INP_GATE, "inp_gate", MATRIX) \
    W(PROJ, "proj", MATRIX) \
    W(POST_NORM, "post_norm", SMALL) \
    W(ALTUP_ROUTER, "altup_router", HELPER) \
    W(ALTUP_ROUTER_NORM, "altup_router_norm", SMALL) \
    W(ALTUP_PREDICT, "altup_predict_coef", HELPER) \
    W(ALTUP_CORRECT, "altup_correct_coef", HELPER) \
    W(ALTUP_SCALE, "altup_correct_scale", SMALL) \
    W(LAUREL_L, "laurel_l", HELPER) \
    W(LAUREL_R, "laurel_r", HELPER) \
    W(LAUREL_POST_NORM, "laurel_post_norm", SMALL) \
    W(ATTN_Q, "attn_q", MATRIX) \
    W(ATTN_K, "attn_k", MATRIX) \
    W(ATTN_V, "attn_v", MATRIX) \
    W(ATTN_QKV, "attn_qkv", MATRIX) \
    W(ATTN_OUTPUT, "attn_output", MATRIX) \
    W(ATTN_Q_NORM, "attn_q_norm", SMALL) \
    W(ATTN_K_NORM, "attn_k_norm", SMALL) \
    W(ATTN_SINKS, "attn_sinks", SMALL) \
    W(ATTN_REL_B, "attn_rel_b", SMALL)       /* added by a head to scores of a distance */ \
    W(ENCODER_NORM, "output_norm", SMALL)    /* the encoder's, in layers that read what it gives */ \
    W(ATTN_SUB_NORM, "attn_sub_norm", SMALL) /* between heads and attn_output */ \
    W(FFN_SUB_NORM, "ffn_sub_norm", SMALL)   /* between the gated middle and ffn_down */ \
    W(ATTN_Q_A, "attn_q_a", MATRIX) \
    W(ATTN_Q_A_NORM, "attn_q_a_norm", SMALL) \
    W(ATTN_Q_B, "attn_q_b", MATRIX) \
    W(ATTN_KV_A, "attn_kv_a_mqa", MATRIX) \
    W(ATTN_KV_A_NORM, "attn_kv_a_norm", SMALL) \
    W(ATTN_KV_B, "attn_kv_b", MATRIX) \
    W(ATTN_K_B, "attn_k_b", MATRIX) \
    W(ATTN_V_B, "attn_v_b", MATRIX) \
    W(ATTN_GATE, "attn_gate", MATRIX) \
    W(ATTN_KV, "attn_kv", MATRIX) \
    W(ATTN_OUTPUT_A, "attn_output_a", MATRIX) \
    W(ATTN_OUTPUT_B, "attn_output_b", MATRIX) \
    W(COMPRESSOR_KV, "attn_compressor_kv", MATRIX) \
    W(COMPRESSOR_GATE, "attn_compressor_gate", MATRIX) \
    W(COMPRESSOR_APE, "attn_compressor_ape", SMALL) /* added by the position in a block */ \
    W(COMPRESSOR_NORM, "attn_compressor_norm", SMALL) \
    W(INDEXER_COMPRESSOR_KV, "indexer_compressor_kv", MATRIX) \
    W(INDEXER_COMPRESSOR_GATE, "indexer_compressor_gate", MATRIX) \
    W(INDEXER_COMPRESSOR_APE, "indexer_compressor_ape", SMALL) \
    W(INDEXER_COMPRESSOR_NORM, "indexer_compressor_norm", SMALL) \
    W(SSM_IN, "ssm_in", MATRIX) \
    W(SSM_BETA, "ssm_beta", MATRIX) \
    W(SSM_ALPHA, "ssm_alpha", MATRIX) \
    W(SSM_BA, "ssm_ba", MATRIX) \
    W(TIME_MIX_LERP_X, "time_mix_lerp_x", SMALL) \
    W(TIME_MIX_LERP_W, "time_mix_lerp_w", SMALL) \
    W(TIME_MIX_LERP_K, "time_mix_lerp_k", SMALL) \
    W(TIME_MIX_LERP_V, "time_mix_lerp_v", SMALL) \
    W(TIME_MIX_LERP_R, "time_mix_lerp_r", SMALL) \
    W(TIME_MIX_LERP_G, "time_mix_lerp_g", SMALL) \
    W(TIME_MIX_LERP_ALL, "time_mix_lerp_fused", SMALL) \
    W(TIME_MIX_FIRST, "time_mix_first", SMALL) \
    W(TIME_MIX_DECAY, "time_mix_decay", SMALL) \
    W(TIME_MIX_DECAY_W1, "time_mix_decay_w1", HELPER) \
    W(TIME_MIX_DECAY_W2, "time_mix_decay_w2", HELPER) \
    W(TIME_MIX_W0, "time_mix_w0", SMALL) \
    W(TIME_MIX_W1, "time_mix_w1", HELPER) \
    W(TIME_MIX_W2, "time_mix_w2", HELPER) \
    W(TIME_MIX_A0, "time_mix_a0", SMALL) \
    W(TIME_MIX_A1, "time_mix_a1", HELPER) \
    W(TIME_MIX_A2, "time_mix_a2", HELPER) \
    W(TIME_MIX_V0, "time_mix_v0", SMALL) \
    W(TIME_MIX_V1, "time_mix_v1", HELPER) \
    W(TIME_MIX_V2, "time_mix_v2", HELPER) \
    W(TIME_MIX_G1, "time_mix_g1", HELPER) \
    W(TIME_MIX_G2, "time_mix_g2", HELPER) \
    W(TIME_MIX_K_K, "time_mix_k_k", SMALL) \
    W(TIME_MIX_K_A, "time_mix_k_a", SMALL) \
    W(TIME_MIX_R_K, "time_mix_r_k", SMALL) \
    W(TIME_MIX_LN, "time_mix_ln", SMALL) \
    W(TIME_MIX_KEY, "time_mix_key", MATRIX) \
    W(TIME_MIX_VALUE, "time_mix_value", MATRIX) \
    W(TIME_MIX_RECEPTANCE, "time_mix_receptance", MATRIX) \
    W(TIME_MIX_GATE, "time_mix_gate", MATRIX) \
    W(TIME_MIX_OUTPUT, "time_mix_output", MATRIX) \
    W(CHANNEL_MIX_LERP_K, "channel_mix_lerp_k", SMALL) \
    W(CHANNEL_MIX_LERP_R, "channel_mix_lerp_r", SMALL) \
    W(CHANNEL_MIX_KEY, "channel_mix_key", MATRIX) \
    W(CHANNEL_MIX_VALUE, "channel_mix_value", MATRIX) \
    W(CHANNEL_MIX_RECEPTANCE, "channel_mix_receptance", MATRIX) \
    W(HC_ATTN_FN, "hc_attn_fn", MATRIX) \
    W(HC_ATTN_BASE, "hc_attn_base", SMALL) \
    W(HC_ATTN_SCALE, "hc_attn_scale", SMALL) \
    W(HC_FFN_FN, "hc_ffn_fn", MATRIX) \
    W(HC_FFN_BASE, "hc_ffn_base", SMALL) \
    W(HC_FFN_SCALE, "hc_ffn_scale", SMALL) \
    W(HC_ATTN_NORM, "hc_attn_norm", SMALL) \
    W(HC_ATTN_DOWN, "hc_attn_down", MATRIX) \
    W(HC_ATTN_UP, "hc_attn_up", MATRIX) \
    W(HC_ATTN_INJECT, "hc_attn_inject", MATRIX) \
    W(HC_FFN_NORM, "hc_ffn_norm", SMALL) \
    W(HC_FFN_DOWN, "hc_ffn_down", MATRIX) \
    W(HC_FFN_UP, "hc_ffn_up", MATRIX) \
    W(HC_FFN_INJECT, "hc_ffn_inject", MATRIX) \
    W(PLE_KEY, "ple_key", MATRIX) \
    W(PLE_VALUE, "ple_value", MATRIX) \
    W(PLE_NORM_KEY, "ple_norm_key", SMALL) \
    W(PLE_NORM_QUERY, "ple_norm_query", SMALL) \
    W(PLE_NORM_CONV, "ple_norm_conv", SMALL) \
    W(PLE_KERNEL, "ple_conv1d", SMALL) \
    W(SSM_KERNEL, "ssm_conv1d", SMALL) \
    W(SSM_KERNEL_Q, "ssm_conv1d_q", SMALL) \
    W(SSM_KERNEL_K, "ssm_conv1d_k", SMALL) \
    W(SSM_KERNEL_V, "ssm_conv1d_v", SMALL) \
    W(SSM_F_A, "ssm_f_a", MATRIX) \
    W(SSM_F_B, "ssm_f_b", MATRIX) \
    W(SSM_G_A, "ssm_g_a", MATRIX) \
    W(SSM_G_B, "ssm_g_b", MATRIX) \
    W(SSM_G, "ssm_g", MATRIX) \
    W(SSM_DT, "ssm_dt", MATRIX) \
    W(SSM_X, "ssm_x", MATRIX) \
    W(SSM_DT_NORM, "ssm_dt_norm", SMALL) \
    W(SSM_B_NORM, "ssm_b_norm", SMALL) \
    W(SSM_C_NORM, "ssm_c_norm", SMALL) \
    W(SSM_A, "ssm_a", BARE) \
    W(SSM_D, "ssm_d", BARE) \
    W(SSM_NORM, "ssm_norm", SMALL) \
    W(SSM_OUT, "ssm_out", MATRIX) \
    W(SHORTCONV_IN, "shortconv.in_proj", MATRIX) \
    W(SHORTCONV_KERNEL, "shortconv.conv", SMALL) \
    W(SHORTCONV_OUT, "shortconv.out_proj", MATRIX) \
    W(INDEXER_Q_B, "indexer.attn_q_b", MATRIX) \
    W(INDEXER_K, "indexer.attn_k", MATRIX) \
    W(INDEXER_K_NORM, "indexer.k_norm", SMALL) \
    W(INDEXER_PROJ, "indexer.proj", MATRIX) \
    W(INDEXER_Q_PROJ, "indexer.q_proj", HELPER) \
    W(INDEXER_K_PROJ, "indexer.k_proj", HELPER) \
    W(INDEXER_Q_NORM, "indexer.q_norm", SMALL) \
    W(FFN_GATE, "ffn_gate", MATRIX) \
    W(FFN_UP, "ffn_up", MATRIX) \
    W(FFN_DOWN, "ffn_down", MATRIX) \
    W(FFN_ROUTER, "ffn_gate_inp", MATRIX) \
    W(EXPERT_CHOICE, "exp_probs_b", SMALL) \
    W(EXPERT_CHOICE_SEEN, "exp_probs_b_vl", SMALL) /* for tokens of images, which no text has */ \
    W(FFN_GATE_EXPS, "ffn_gate_exps", EXPERTS) \
    W(FFN_UP_EXPS, "ffn_up_exps", EXPERTS) \
    W(FFN_GATE_UP_EXPS, "ffn_gate_up_exps", EXPERTS) \
    W(FFN_DOWN_EXPS, "ffn_down_exps", EXPERTS) \
    W(FFN_GATE_CHEXPS, "ffn_gate_chexps", LATE_EXPERTS) \
    W(FFN_UP_CHEXPS, "ffn_up_chexps", LATE_EXPERTS) \
    W(FFN_DOWN_CHEXPS, "ffn_down_chexps", LATE_EXPERTS) \
    W(FFN_LATENT_DOWN, "ffn_latent_down", MATRIX) \
    W(FFN_LATENT_UP, "ffn_latent_up", MATRIX) \
    W(FFN_ROUTED_DOWN, "ffn_routed_down", MATRIX) \
    W(FFN_ROUTED_NORM, "ffn_routed_norm", SMALL) \
    W(FFN_ROUTED_UP, "ffn_routed_up", MATRIX) \
    W(ATTN_RES_SCORE, "attn_res_score", SMALL) \
    W(FFN_RES_SCORE, "ffn_res_score", SMALL) \
    W(FFN_SHARED_GATE, "ffn_gate_inp_shexp", MATRIX) \
    W(FFN_GATE_SHEXP, "ffn_gate_shexp", MATRIX) \
    W(FFN_UP_SHEXP, "ffn_up_shexp", MATRIX) \
    W(FFN_DOWN_SHEXP, "ffn_down_shexp", MATRIX) \
    W(NEXTN_ENORM, "nextn.enorm", SMALL) \
    W(NEXTN_HNORM, "nextn.hnorm", SMALL) \
    W(NEXTN_EH_PROJ, "nextn.eh_proj", MATRIX) \
    W(DRAFT_FC, "fc", MATRIX) /* the model's, as are the next three */ \
    W(DRAFT_NORM, "enc.output_norm", SMALL) \
    W(DRAFT_PRE, "nextn.pre_projection", MATRIX) \
    W(DRAFT_POST, "nextn.post_projection", MATRIX) \
    W(ATTN_CONV_BASE, "attn_conv_base", BARE) \
    W(ATTN_CONV_PROJ, "attn_conv_proj", MATRIX) \
    W(FFN_CONV_BASE, "ffn_conv_base", BARE) \
    W(FFN_CONV_PROJ, "ffn_conv_proj", MATRIX) \
    W(ATTN_Q_LORA_A, "attn_q.lora_a", PAIR) /* one for each adapter (forward/graph/sublayer.h) */ \
    W(ATTN_Q_LORA_B, "attn_q.lora_b", PAIR) \
    W(ATTN_K_LORA_A, "attn_k.lora_a", PAIR) \
    W(ATTN_K_LORA_B, "attn_k.lora_b", PAIR) \
    W(ATTN_V_LORA_A, "attn_v.lora_a", PAIR) \
    W(ATTN_V_LORA_B, "attn_v.lora_b", PAIR) \
    W(ATTN_OUTPUT_LORA_A, "attn_output.lora_a", PAIR) \
    W(ATTN_OUTPUT_LORA_B, "attn_output.lora_b", PAIR) \
    W(FFN_GATE_LORA_A, "ffn_gate.lora_a", PAIR) \
    W(FFN_GATE_LORA_B, "ffn_gate.lora_b", PAIR) \
    W(FFN_UP_LORA_A, "ffn_up.lora_a", PAIR) \
    W(FFN_UP_LORA_B, "ffn_up.lora_b", PAIR) \
    W(FFN_DOWN_LORA_A, "ffn_down.lora_a", PAIR) \
    W(FFN_DOWN_LORA_B, "ffn_down.lora_b", PAIR)

#define ARCH_WEIGHT_MEMBER(member, name, kind) WEIGHT_##member,
/* WEIGHT_SLOTS: their number; it ends lists, and says that there is none. */
typedef enum weight_slot { ARCH_WEIGHTS(ARCH_WEIGHT_MEMBER) WEIGHT_SLOTS } weight_slot;
#undef ARCH_WEIGHT_MEMBER
