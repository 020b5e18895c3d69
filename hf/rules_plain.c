/* The architectures with attention in every layer. Lists come before the common names; what an architecture
 * shares with all others is not repeated.
 */
#include "hf/finish.h"
#include "hf/rules_arch.h"

static const hf_rule after_attention[] = {P("post_attention_layernorm", "post_attention_norm", NULL), {0}};

/* ---- llama and its kin ---- */

static const hf_rename llama_renames[] = {{"text_model.", "", HF_ANYWHERE}, {0}};
static const hf_rule granitemoe_rules[] = {
    P("block_sparse_moe.input_linear", "ffn_gate_exps|blk.#.ffn_up_exps", hf_step_halves),
    P("block_sparse_moe.output_linear", "ffn_down_exps", NULL),
    P("shared_mlp.input_linear", "ffn_gate_shexp|blk.#.ffn_up_shexp", hf_step_halves),
    P("shared_mlp.output_linear", "ffn_down_shexp", NULL),
    {0},
};
static const hf_rule internlm2_rules[] = {
    {"model.tok_embeddings", "token_embd", NULL},
    {"output", "output", NULL},
    P("attention_norm", "attn_norm", NULL),
    P("ffn_norm", "ffn_norm", NULL),
    P("attention.wqkv", "attn_q|blk.#.attn_k|blk.#.attn_v", hf_step_qkv_groups_3),
    P("attention.wo", "attn_output", NULL),
    {0},
};
static const hf_rule ernie_rules[] = {
    P("self_attn.qkv_proj", "attn_q|blk.#.attn_k|blk.#.attn_v", hf_step_split_qkv),
    P("mlp.up_gate_proj", "ffn_gate|blk.#.ffn_up", hf_step_halves),
    {0},
};

/* ---- gemma, phi ---- */

static const hf_rule gemma2_rules[] = {
    P("post_attention_layernorm", "post_attention_norm", NULL),
    {0},
};
static const hf_rule gemma3_rules[] = {
    {"model.embed_tokens", "token_embd", hf_step_cut_rows},
    P("post_attention_layernorm", "post_attention_norm", NULL),
    {0},
};
static const hf_rule phi2_rules[] = {
    P("self_attn.dense", "attn_output", NULL),
    P("mlp.fc1", "ffn_up", NULL),
    P("mlp.fc2", "ffn_down", NULL),
    {"model.final_layernorm", "output_norm", NULL},
    {0},
};

/* ---- others, with names of their own ---- */

static const hf_rule gptoss_rules[] = {
    P("post_attention_layernorm", "post_attention_norm", NULL),
    P("self_attn.sinks", "attn_sinks", NULL),
    P("mlp.experts.gate_up_proj", "ffn_gate_exps|blk.#.ffn_up_exps", hf_step_interleaved),
    P("mlp.experts.down_proj", "ffn_down_exps", hf_step_down_experts),
    {0},
};
static const hf_rule cohere2_rules[] = {
    {"model.norm.bias", "", hf_step_zero},        P("input_layernorm.bias", "", hf_step_zero),
    P("self_attn.q_proj.bias", "", hf_step_zero), P("self_attn.k_proj.bias", "", hf_step_zero),
    P("self_attn.v_proj.bias", "", hf_step_zero), P("self_attn.o_proj.bias", "", hf_step_zero),
    P("mlp.gate_proj.bias", "", hf_step_zero),    P("mlp.up_proj.bias", "", hf_step_zero),
    P("mlp.down_proj.bias", "", hf_step_zero),    {0},
};
static const hf_rule starcoder2_rules[] = {
    P("mlp.c_fc", "ffn_up", NULL),
    P("mlp.c_proj", "ffn_down", NULL),
    {0},
};
static const hf_rule glm4_rules[] = {
    P("post_self_attn_layernorm", "post_attention_norm", NULL),
    P("post_attention_layernorm", "ffn_norm", NULL),
    P("post_mlp_layernorm", "post_ffw_norm", NULL),
    {0},
};
static const hf_rule stablelm_rules[] = {
    P("self_attn.q_layernorm.norms.*", "attn_q_norm", hf_step_stack_heads_q),
    P("self_attn.k_layernorm.norms.*", "attn_k_norm", hf_step_stack_heads_k),
    {0},
};
#define FALCON(from, to, step) \
    { "transformer.h.#." from, "blk.#." to, step }
static const hf_rule falcon_rules[] = {
    {"transformer.word_embeddings", "token_embd", NULL},
    {"transformer.ln_f", "output_norm", NULL},
    FALCON("input_layernorm", "attn_norm", NULL),
    FALCON("ln_mlp", "attn_norm", NULL),
    FALCON("ln_attn", "attn_norm_2", NULL),
    FALCON("self_attention.query_key_value", "attn_qkv", hf_step_qkv_groups),
    FALCON("self_attention.dense", "attn_output", NULL),
    FALCON("mlp.dense_h_to_4h", "ffn_up", NULL),
    FALCON("mlp.dense_4h_to_h", "ffn_down", NULL),
    {0},
};
#define NEOX(from, to, step) \
    { "gpt_neox.layers.#." from, "blk.#." to, step }
static const hf_rule gptneox_rules[] = {
    {"gpt_neox.embed_in", "token_embd", NULL},
    {"embed_out", "output", NULL},
    {"gpt_neox.final_layer_norm", "output_norm", NULL},
    NEOX("input_layernorm", "attn_norm", NULL),
    NEOX("post_attention_layernorm", "ffn_norm", NULL),
    NEOX("attention.query_key_value", "attn_qkv", hf_step_qkv_heads),
    NEOX("attention.dense", "attn_output", NULL),
    NEOX("mlp.dense_h_to_4h", "ffn_up", NULL),
    NEOX("mlp.dense_4h_to_h", "ffn_down", NULL),
    {0},
};
static const hf_rule exaone_rules[] = {
    {"transformer.wte", "token_embd", NULL},
    {"transformer.ln_f", "output_norm", NULL},
    FALCON("ln_1", "attn_norm", NULL),
    FALCON("ln_2", "ffn_norm", NULL),
    FALCON("attn.attention.q_proj", "attn_q", NULL),
    FALCON("attn.attention.k_proj", "attn_k", NULL),
    FALCON("attn.attention.v_proj", "attn_v", NULL),
    FALCON("attn.attention.out_proj", "attn_output", NULL),
    FALCON("mlp.c_fc_0", "ffn_gate", NULL),
    FALCON("mlp.c_fc_1", "ffn_up", NULL),
    FALCON("mlp.c_proj", "ffn_down", NULL),
    {0},
};
#define GPT2(from, to, step) \
    { "h.#." from, "blk.#." to, step }
static const hf_rename transformer_renames[] = {{"transformer.", "", HF_AT_BEGIN}, {0}};
static const hf_rule starcoder_rules[] = {
    {"wte", "token_embd", NULL},
    {"wpe", "position_embd", NULL},
    {"ln_f", "output_norm", NULL},
    GPT2("ln_1", "attn_norm", NULL),
    GPT2("ln_2", "ffn_norm", NULL),
    GPT2("attn.c_attn", "attn_qkv", NULL),
    GPT2("attn.c_proj", "attn_output", NULL),
    GPT2("mlp.c_fc", "ffn_up", NULL),
    GPT2("mlp.c_proj", "ffn_down", NULL),
    {0},
};
/* Its matrices are stored [in, out]; their biases are vectors, which turning leaves alone. */
static const hf_rule gpt2_rules[] = {
    GPT2("attn.bias", "", hf_step_drop),
    GPT2("attn.masked_bias", "", hf_step_drop),
    GPT2("attn.c_attn", "attn_qkv", hf_step_turned),
    GPT2("attn.c_proj", "attn_output", hf_step_turned),
    GPT2("mlp.c_fc", "ffn_up", hf_step_turned),
    GPT2("mlp.c_proj", "ffn_down", hf_step_turned),
    {0},
};
static const hf_rule bloom_rules[] = {
    {"word_embeddings", "token_embd", NULL},
    {"word_embeddings_layernorm", "token_embd_norm", NULL},
    {"ln_f", "output_norm", NULL},
    GPT2("input_layernorm", "attn_norm", NULL),
    GPT2("post_attention_layernorm", "ffn_norm", NULL),
    GPT2("self_attention.query_key_value", "attn_qkv", hf_step_qkv_heads),
    GPT2("self_attention.dense", "attn_output", NULL),
    GPT2("mlp.dense_h_to_4h", "ffn_up", NULL),
    GPT2("mlp.dense_4h_to_h", "ffn_down", NULL),
    {0},
};
#define MPT(from, to, step) \
    { "transformer.blocks.#." from, "blk.#." to, step }
static const hf_rule mpt_rules[] = {
    {"transformer.wte", "token_embd", NULL},
    {"transformer.wpe", "position_embd", NULL},
    {"transformer.norm_f", "output_norm", NULL},
    MPT("norm_1", "attn_norm", NULL),
    MPT("norm_2", "ffn_norm", NULL),
    MPT("attn.Wqkv", "attn_qkv", NULL),
    MPT("attn.out_proj", "attn_output", NULL),
    MPT("ffn.up_proj", "ffn_up", NULL),
    MPT("ffn.down_proj", "ffn_down", NULL),
    {0},
};
static const hf_rule minicpm3_rules[] = {P("self_attn.kv_b_proj", "attn_kv_b", NULL), {0}};
static const hf_rule apertus_rules[] = {
    P("attention_layernorm", "attn_norm", NULL),
    P("feedforward_layernorm", "ffn_norm", NULL),
    P("mlp.act_fn.alpha_p", "", hf_step_drop),
    P("mlp.act_fn.alpha_n", "", hf_step_drop),
    P("mlp.act_fn.beta", "", hf_step_drop),
    P("mlp.act_fn.eps", "", hf_step_drop),
    {0},
};

const hf_arch_rules hf_plain_archs[] = {
    {.arch = "llama", .more = hf_permuted_rules, .renames = llama_renames, .finish = hf_finish_rope},
    {.arch = "mistral3", .more = hf_permuted_rules, .finish = hf_finish_rope},
    {.arch = "arcee", .more = hf_permuted_rules, .finish = hf_finish_rope},
    {.arch = "smollm3", .more = hf_permuted_rules, .finish = hf_finish_rope},
    {.arch = "granite", .more = hf_permuted_rules, .left_out = hf_granite_left_out, .finish = hf_finish_rope},
    {.arch = "granitemoe",
     .rules = granitemoe_rules,
     .more = hf_permuted_rules,
     .left_out = hf_granite_left_out,
     .finish = hf_finish_rope},
    {.arch = "minicpm", .more = hf_permuted_rules, .finish = hf_finish_factors},
    {.arch = "minicpm3", .rules = minicpm3_rules, .more = hf_latent_rules, .finish = hf_finish_factors},
    {.arch = "internlm2", .rules = internlm2_rules},
    {.arch = "ernie4_5", .rules = ernie_rules, .renames = hf_ernie_renames},
    {.arch = "qwen2"},
    {.arch = "qwen3"},
    {.arch = "qwen2moe"},
    {.arch = "qwen3moe"},
    {.arch = "qwen2vl", .renames = hf_thinker_renames},
    {.arch = "qwen3vl", .renames = hf_thinker_renames},
    {.arch = "seed_oss", .rules = after_attention},
    {.arch = "gemma", .adds_one = true, .has_no_head = true},
    {.arch = "gemma2", .rules = gemma2_rules, .adds_one = true, .has_no_head = true},
    {.arch = "gemma3", .rules = gemma3_rules, .adds_one = true},
    {.arch = "phi2", .rules = phi2_rules},
    {.arch = "phi3", .finish = hf_finish_factors},
    {.arch = "phimoe", .finish = hf_finish_factors},
    {.arch = "gpt-oss", .rules = gptoss_rules},
    {.arch = "olmo", .more = hf_permuted_rules},
    {.arch = "olmo2", .rules = after_attention},
    {.arch = "olmoe"},
    {.arch = "command-r", .has_no_head = true},
    {.arch = "cohere2", .rules = cohere2_rules, .has_no_head = true},
    {.arch = "starcoder2", .rules = starcoder2_rules},
    {.arch = "glm4", .rules = glm4_rules},
    {.arch = "glm4moe", .rules = after_attention},
    {.arch = "stablelm", .rules = stablelm_rules},
    {.arch = "falcon", .rules = falcon_rules},
    {.arch = "gptneox", .rules = gptneox_rules},
    {.arch = "exaone", .rules = exaone_rules, .finish = hf_finish_rope},
    {.arch = "exaone4", .rules = after_attention, .finish = hf_finish_rope},
    {.arch = "hunyuan-dense", .drops_tied_head = true},
    {.arch = "gpt2", .rules = gpt2_rules, .more = starcoder_rules, .renames = transformer_renames},
    {.arch = "starcoder", .rules = starcoder_rules, .renames = transformer_renames},
    {.arch = "bloom", .rules = bloom_rules, .renames = transformer_renames},
    {.arch = "mpt", .rules = mpt_rules},
    {.arch = "apertus", .rules = apertus_rules, .finish = hf_finish_rope},
    {.arch = "nemotron", .adds_one = true},
    {0},
};
