/* The architectures of experts, recurrent mixers, and several kinds of layers. */
#include "hf/finish.h"
#include "hf/rules_arch.h"

/* ---- delta nets: Qwen 3.5, Qwen3-Next ---- */

static const hf_rule qwen35_rules[] = {
    P("post_attention_layernorm", "post_attention_norm", NULL),
    P("linear_attn.in_proj_qkv", "attn_qkv", hf_step_tile_qkv),
    P("linear_attn.in_proj_z", "attn_gate", hf_step_tile_heads),
    P("linear_attn.in_proj_b", "ssm_beta", hf_step_tile_heads),
    P("linear_attn.in_proj_a", "ssm_alpha", hf_step_tile_heads),
    P("linear_attn.conv1d", "ssm_conv1d", hf_step_tile_qkv),
    P("linear_attn.A_log", "ssm_a", hf_step_tile_heads),
    P("linear_attn.dt_proj", "ssm_dt", hf_step_tile_heads),
    P("linear_attn.norm", "ssm_norm", NULL),
    P("linear_attn.out_proj", "ssm_out", hf_step_tile_columns),
    {0},
};
static const hf_rule qwen3next_rules[] = {
    P("post_attention_layernorm", "post_attention_norm", NULL),
    P("linear_attn.in_proj_qkvz", "attn_qkv|blk.#.attn_gate", hf_step_qkvz),
    P("linear_attn.in_proj_ba", "ssm_ba", NULL),
    P("linear_attn.conv1d", "ssm_conv1d", hf_step_squeeze),
    P("linear_attn.A_log", "ssm_a", hf_step_negative_exp),
    P("linear_attn.dt_proj", "ssm_dt", NULL),
    P("linear_attn.norm", "ssm_norm", NULL),
    P("linear_attn.out_proj", "ssm_out", NULL),
    {0},
};

/* ---- gemma 3n and 4, llama 4 ---- */

static const hf_rename gemma4_renames[] = {
    {"layer_scalar", "layer_scalar.weight", HF_AT_END},
    {"per_dim_scale", "per_dim_scale.weight", HF_AT_END},
    {0},
};
static const hf_rule gemma4_rules[] = {
    {"model.embed_tokens", "token_embd", hf_step_cut_rows},
    {"model.embed_tokens_per_layer", "per_layer_token_embd", NULL},
    {"model.per_layer_model_projection", "per_layer_model_proj", NULL},
    {"model.per_layer_projection_norm", "per_layer_proj_norm", NULL},
    P("post_attention_layernorm", "post_attention_norm", NULL),
    P("router.proj", "ffn_gate_inp", NULL),
    P("router.scale", "ffn_gate_inp.scale", NULL),
    P("router.per_expert_scale", "ffn_down_exps.scale", NULL),
    P("experts.gate_up_proj", "ffn_gate_up_exps", NULL),
    P("experts.switch_glu.gate_proj", "ffn_gate_up_exps", hf_step_fused_gate),
    P("experts.switch_glu.up_proj", "ffn_gate_up_exps", hf_step_fused_up),
    P("experts.switch_glu.down_proj", "ffn_down_exps", NULL),
    P("experts.down_proj", "ffn_down_exps", NULL),
    P("per_layer_input_gate", "inp_gate", NULL),
    P("per_layer_projection", "proj", NULL),
    P("post_per_layer_input_norm", "post_norm", NULL),
    P("layer_scalar", "layer_output_scale", NULL),
    P("post_feedforward_layernorm_1", "post_ffw_norm_1", NULL),
    P("pre_feedforward_layernorm_2", "pre_ffw_norm_2", NULL),
    P("post_feedforward_layernorm_2", "post_ffw_norm_2", NULL),
    {0},
};
static const hf_rename gemma3n_renames[] = {{"_scale", "_scale.weight", HF_AT_END}, {0}};
static const hf_rule gemma3n_rules[] = {
    {"model.embed_tokens", "token_embd", hf_step_fill_rows},
    {"model.embed_tokens_per_layer", "per_layer_token_embd", hf_step_fill_rows},
    {"model.per_layer_model_projection", "per_layer_model_proj", NULL},
    {"model.per_layer_projection_norm", "per_layer_proj_norm", NULL},
    {"model.altup_projections.*", "altup_proj", hf_step_stack_altup},
    {"model.altup_unembed_projections.*", "altup_unembd_proj", hf_step_stack_altup},
    P("post_attention_layernorm", "post_attention_norm", NULL),
    P("per_layer_input_gate", "inp_gate", NULL),
    P("per_layer_projection", "proj", NULL),
    P("post_per_layer_input_norm", "post_norm", NULL),
    P("altup.correction_coefs", "altup_correct_coef", NULL),
    P("altup.correct_output_scale", "altup_correct_scale", NULL),
    P("altup.prediction_coefs", "altup_predict_coef", NULL),
    P("altup.modality_router", "altup_router", NULL),
    P("altup.router_norm", "altup_router_norm", NULL),
    P("laurel.linear_left", "laurel_l", NULL),
    P("laurel.linear_right", "laurel_r", NULL),
    P("laurel.post_laurel_norm", "laurel_post_norm", NULL),
    {0},
};
static const hf_rule llama4_rules[] = {
    P("feed_forward.experts.gate_up_proj", "ffn_gate_exps|blk.#.ffn_up_exps", hf_step_turned_halves),
    P("feed_forward.experts.down_proj", "ffn_down_exps", hf_step_turned),
    {0},
};
static const hf_rule qwen3vlmoe_rules[] = {
    P("mlp.experts.gate_up_proj", "ffn_gate_exps|blk.#.ffn_up_exps", hf_step_turned_halves),
    P("mlp.experts.down_proj", "ffn_down_exps", hf_step_turned),
    {0},
};
static const hf_rule mistral4_rules[] = {
    P("mlp.experts.gate_up_proj", "ffn_gate_up_exps", NULL),
    P("mlp.switch_mlp.gate_proj", "ffn_gate_up_exps", hf_step_fused_gate),
    P("mlp.switch_mlp.up_proj", "ffn_gate_up_exps", hf_step_fused_up),
    {0},
};

/* ---- Mamba and hybrids ---- */

#define MAMBA(prefix, a) \
    {prefix "conv1d", "blk.#.ssm_conv1d", hf_step_squeeze}, {prefix "dt_proj", "blk.#.ssm_dt", NULL}, \
        {prefix "x_proj", "blk.#.ssm_x", NULL}, {prefix "in_proj", "blk.#.ssm_in", NULL}, \
        {prefix "out_proj", "blk.#.ssm_out", NULL}, { \
        prefix "A_log", "blk.#.ssm_a", a \
    }
#define MAMBA2(prefix) \
    {prefix "D", "blk.#.ssm_d", hf_step_column}, { prefix "norm", "blk.#.ssm_norm", hf_step_norm_groups }
#define BACKBONE(from, to, step) \
    { "backbone.layers.#." from, "blk.#." to, step }
#define BACKBONE_ENDS \
    {"backbone.embeddings", "token_embd", NULL}, {"backbone.embedding", "token_embd", NULL}, \
        {"backbone.norm_f", "output_norm", NULL}, BACKBONE("norm", "attn_norm", NULL)

static const hf_rename backbone_renames[] = {
    {"model.backbone", "backbone", HF_AT_BEGIN},
    {"model.lm_head", "lm_head", HF_AT_BEGIN},
    {0},
};
static const hf_rule mamba_rules[] = {
    {"lm_head", "output", hf_step_head_unless_same},
    BACKBONE_ENDS,
    MAMBA("backbone.layers.#.mixer.", hf_step_negative_exp),
    BACKBONE("mixer.D", "ssm_d", NULL),
    {0},
};
static const hf_rule mamba2_rules[] = {
    BACKBONE_ENDS,
    MAMBA("backbone.layers.#.mixer.", hf_step_negative_exp_column),
    MAMBA2("backbone.layers.#.mixer."),
    {0},
};
static const hf_rename jamba_renames[] = {{".moe.", ".feed_forward.", HF_ANYWHERE}, {0}};
static const hf_rule jamba_rules[] = {
    {"model.final_layernorm", "output_norm", NULL},
    MAMBA("model.layers.#.mamba.", hf_step_negative_exp),
    P("mamba.D", "ssm_d", NULL),
    P("mamba.dt_layernorm", "ssm_dt_norm", NULL),
    P("mamba.b_layernorm", "ssm_b_norm", NULL),
    P("mamba.c_layernorm", "ssm_c_norm", NULL),
    P("pre_ff_layernorm", "ffn_norm", NULL),
    P("feed_forward.experts.*.gate_proj", "ffn_gate", hf_step_expert_first),
    P("feed_forward.experts.*.up_proj", "ffn_up", hf_step_expert_first),
    P("feed_forward.experts.*.down_proj", "ffn_down", hf_step_expert_first),
    {0},
};
static const hf_rule granitehybrid_rules[] = {
    MAMBA("model.layers.#.mamba.", hf_step_negative_exp_column),
    MAMBA2("model.layers.#.mamba."),
    {"model.final_layernorm", "output_norm", NULL},
    P("pre_ff_layernorm", "ffn_norm", NULL),
    P("block_sparse_moe.input_linear", "ffn_gate_exps|blk.#.ffn_up_exps", hf_step_halves),
    P("block_sparse_moe.output_linear", "ffn_down_exps", NULL),
    P("shared_mlp.input_linear", "ffn_gate|blk.#.ffn_up", hf_step_shared_halves),
    P("shared_mlp.output_linear", "ffn_down", hf_step_shared),
    {0},
};
static const hf_rule nemotron_h_rules[] = {
    BACKBONE_ENDS,
    MAMBA("backbone.layers.#.mixer.", hf_step_negative_exp_column),
    MAMBA2("backbone.layers.#.mixer."),
    BACKBONE("mixer.q_proj", "attn_q", hf_step_permute_q),
    BACKBONE("mixer.k_proj", "attn_k", hf_step_permute_k),
    BACKBONE("mixer.v_proj", "attn_v", NULL),
    BACKBONE("mixer.o_proj", "attn_output", NULL),
    BACKBONE("mixer.up_proj", "ffn_up", NULL),
    BACKBONE("mixer.down_proj", "ffn_down", NULL),
    BACKBONE("mixer.gate", "ffn_gate_inp", NULL),
    BACKBONE("mixer.gate.e_score_correction", "exp_probs_b", NULL),
    BACKBONE("mixer.experts.*.up_proj", "ffn_up_exps", hf_step_stack),
    BACKBONE("mixer.experts.*.down_proj", "ffn_down_exps", hf_step_stack),
    BACKBONE("mixer.shared_experts.up_proj", "ffn_up_shexp", NULL),
    BACKBONE("mixer.shared_experts.down_proj", "ffn_down_shexp", NULL),
    BACKBONE("mixer.fc1_latent_proj", "ffn_latent_down", NULL),
    BACKBONE("mixer.fc2_latent_proj", "ffn_latent_up", NULL),
    BACKBONE("post_attention_layernorm", "post_attention_norm", NULL),
    BACKBONE("enorm", "nextn.enorm", NULL),
    BACKBONE("hnorm", "nextn.hnorm", NULL),
    BACKBONE("eh_proj", "nextn.eh_proj", NULL),
    BACKBONE("final_layernorm", "nextn.shared_head_norm", NULL),
    {0},
};
static const hf_rule falcon_h1_rules[] = {
    {"model.embed_tokens", "token_embd", hf_step_factors},
    {"lm_head", "output", hf_step_factors},
    {"model.final_layernorm", "output_norm", NULL},
    P("pre_ff_layernorm.weight", "ffn_norm", NULL),
    P("feed_forward.gate_proj", "ffn_gate", hf_step_factors),
    P("feed_forward.up_proj", "ffn_up", NULL),
    P("feed_forward.down_proj", "ffn_down", hf_step_factors),
    P("mlp.gate_proj", "ffn_gate", hf_step_factors),
    P("mlp.down_proj", "ffn_down", hf_step_factors),
    P("self_attn.q_proj", "attn_q", hf_step_factors),
    P("self_attn.k_proj", "attn_k", hf_step_factors),
    P("self_attn.v_proj", "attn_v", hf_step_factors),
    P("self_attn.o_proj", "attn_output", hf_step_factors),
    P("mamba.in_proj", "ssm_in", hf_step_factors),
    P("mamba.out_proj", "ssm_out", hf_step_factors),
    MAMBA("model.layers.#.mamba.", hf_step_negative_exp_column),
    MAMBA2("model.layers.#.mamba."),
    {0},
};

/* ---- short convolutions ---- */

static const hf_rename lfm2_renames[] = {{"lfm.", "model.", HF_AT_BEGIN}, {0}};
static const char *const lfm2_left_out[] = {"audio",       "codebook",     "conformer", "depth_embedding",
                                            "depthformer", "depth_linear", NULL};
static const hf_rule lfm2_rules[] = {
    {"model.embedding_norm", "token_embd_norm", NULL},
    P("operator_norm", "attn_norm", NULL),
    P("ffn_norm", "ffn_norm", NULL),
    P("self_attn.out_proj", "attn_output", NULL),
    P("conv.conv", "shortconv.conv", hf_step_squeeze),
    P("conv.in_proj", "shortconv.in_proj", NULL),
    P("conv.out_proj", "shortconv.out_proj", NULL),
    {0},
};

/* ---- linear attention with gates per channel: Kimi ---- */

static const char *const kimi_left_out[] = {"^vision_tower.", "^mm_projector.", NULL};
static const hf_rule kimi_rules[] = {
    P("self_attn.q_conv1d", "ssm_conv1d_q", hf_step_conv_3),
    P("self_attn.k_conv1d", "ssm_conv1d_k", hf_step_conv_3),
    P("self_attn.v_conv1d", "ssm_conv1d_v", hf_step_conv_3),
    P("self_attn.f_a_proj", "ssm_f_a", NULL),
    P("self_attn.f_b_proj", "ssm_f_b", NULL),
    P("self_attn.b_proj", "ssm_beta", NULL),
    P("self_attn.g_a_proj", "ssm_g_a", NULL),
    P("self_attn.g_b_proj", "ssm_g_b", NULL),
    P("self_attn.o_norm", "ssm_norm", NULL),
    P("self_attn.A_log", "ssm_a", hf_step_heads_column),
    P("self_attn.dt_proj", "ssm_dt", NULL),
    P("self_attn.g_proj", "ssm_g", hf_step_gate_of_layer),
    P("self_attention_res_norm", "", hf_step_drop),
    P("self_attention_res_proj", "", hf_step_drop),
    P("mlp_res_norm", "", hf_step_drop),
    P("mlp_res_proj", "", hf_step_drop),
    {"model.output_attn_res_norm", "", hf_step_drop},
    {"model.output_attn_res_proj", "", hf_step_drop},
    P("block_sparse_moe.routed_expert_down_proj", "ffn_routed_down", NULL),
    P("block_sparse_moe.routed_expert_up_proj", "ffn_routed_up", NULL),
    P("block_sparse_moe.routed_expert_norm", "ffn_routed_norm", NULL),
    {0},
};

/* ---- experts ---- */

static const hf_rule bailing_rules[] = {
    {"model.word_embeddings", "token_embd", NULL},
    P("attention.query_key_value", "attn_qkv", NULL),
    P("attention.dense", "attn_output", NULL),
    P("attention.query_layernorm", "attn_q_norm", NULL),
    P("attention.key_layernorm", "attn_k_norm", NULL),
    P("final_layernorm", "layer_output_norm", NULL),
    {0},
};
static const char *const ernie_left_out[] = {"^model.mtp_block.", "^model.mtp_emb_norm.",
                                             "^model.mtp_hidden_norm.", "^model.mtp_linear_proj.", NULL};
static const hf_rename step_renames[] = {
    {".transformer.", ".", HF_ANYWHERE}, {"shared_head.output", "shared_head.head", HF_ANYWHERE}, {0}};
static const hf_rule step_rules[] = {P("self_attn.g_proj", "attn_gate", hf_step_squeeze), {0}};
static const hf_rule mimo_rules[] = {
    P("self_attn.attention_sink_bias", "attn_sinks", NULL),
    P("final_layernorm", "layer_output_norm", NULL),
    {0},
};
static const hf_rule afmoe_rules[] = {
    P("post_attention_layernorm", "post_attention_norm", NULL),
    P("self_attn.gate_proj", "attn_gate", NULL),
    {0},
};
static const hf_rule minimax_rules[] = {
    P("self_attn.index_q_proj", "indexer.q_proj", NULL),
    P("self_attn.index_k_proj", "indexer.k_proj", NULL),
    P("self_attn.index_q_norm", "indexer.q_norm", NULL),
    P("self_attn.index_k_norm", "indexer.k_norm", NULL),
    {0},
};

const hf_arch_rules hf_mixed_archs[] = {
    {.arch = "qwen35", .rules = qwen35_rules, .adds_one = true},
    {.arch = "qwen35moe", .rules = qwen35_rules, .adds_one = true},
    {.arch = "qwen3next", .rules = qwen3next_rules, .adds_one = true},
    {.arch = "gemma3n", .rules = gemma3n_rules, .renames = gemma3n_renames},
    {.arch = "gemma4", .rules = gemma4_rules, .renames = gemma4_renames, .finish = hf_finish_proportional},
    {.arch = "llama4", .rules = llama4_rules, .finish = hf_finish_rope},
    {.arch = "qwen3vlmoe", .rules = qwen3vlmoe_rules, .renames = hf_thinker_renames},
    {.arch = "mistral4", .rules = mistral4_rules, .more = hf_latent_rules, .drops_tied_head = true},
    {.arch = "deepseek2", .more = hf_latent_rules, .drops_tied_head = true, .drops_extra_layers = true},
    {.arch = "deepseek32", .more = hf_latent_rules, .drops_tied_head = true},
    {.arch = "glm-dsa", .more = hf_latent_rules, .drops_tied_head = true},
    {.arch = "mamba", .rules = mamba_rules, .renames = backbone_renames},
    {.arch = "mamba2", .rules = mamba2_rules, .renames = backbone_renames},
    {.arch = "jamba", .rules = jamba_rules, .renames = jamba_renames},
    {.arch = "granitehybrid",
     .rules = granitehybrid_rules,
     .more = hf_permuted_rules,
     .left_out = hf_granite_left_out,
     .renames = backbone_renames},
    {.arch = "nemotron_h",
     .rules = nemotron_h_rules,
     .left_out = hf_granite_left_out,
     .renames = backbone_renames},
    {.arch = "nemotron_h_moe",
     .rules = nemotron_h_rules,
     .left_out = hf_granite_left_out,
     .renames = backbone_renames},
    {.arch = "falcon-h1", .rules = falcon_h1_rules, .renames = backbone_renames},
    {.arch = "lfm2", .rules = lfm2_rules, .renames = lfm2_renames, .left_out = lfm2_left_out},
    {.arch = "lfm2moe", .rules = lfm2_rules, .renames = lfm2_renames, .left_out = lfm2_left_out},
    {.arch = "kimi-linear", .rules = kimi_rules, .more = hf_latent_rules},
    {.arch = "kimi-k3",
     .rules = kimi_rules,
     .more = hf_latent_rules,
     .left_out = kimi_left_out,
     .finish = hf_finish_residuals},
    {.arch = "hunyuan-moe", .drops_tied_head = true},
    {.arch = "dots1"},
    {.arch = "ernie4_5-moe",
     .left_out = ernie_left_out,
     .renames = hf_ernie_renames,
     .expert_count = "moe_num_experts"},
    {.arch = "bailingmoe2", .rules = bailing_rules},
    {.arch = "exaone-moe", .finish = hf_finish_rope},
    {.arch = "step35",
     .rules = step_rules,
     .renames = step_renames,
     .finish = hf_finish_rope,
     .adds_one = true,
     .expert_count = "moe_num_experts"},
    {.arch = "mimo2", .rules = mimo_rules},
    {.arch = "afmoe", .rules = afmoe_rules},
    {.arch = "smallthinker", .expert_count = "moe_num_primary_experts"},
    {.arch = "minimax-m2"},
    {.arch = "minimax-m3", .rules = minimax_rules, .adds_one = true},
    {0},
};
