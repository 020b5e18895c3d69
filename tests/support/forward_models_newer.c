/* Variants of architectures of late 2026, and of those that are not plain decoders. */
#include "tests/support/forward_models.h"

#define YARN "rope.scaling.type=yarn;rope.scaling.factor=4.0;rope.scaling.original_context_length=16"
#define ROUTE "expert_weights_scale=1.5;expert_weights_norm=true;expert_gating_func=2"
#define HYPER \
    "hc_attn_fn.weight=128x8;hc_attn_base.weight=8;hc_attn_scale.weight=2;hc_ffn_fn.weight=128x8;" \
    "hc_ffn_base.weight=8;hc_ffn_scale.weight=2"
#define HYPER_LAST "output_hc_fn.weight=128x4;output_hc_base.weight=4;output_hc_scale.weight=1"
#define HYPER_KEYS \
    "hyper_connection.count=4;hyper_connection.epsilon=0.01;hyper_connection.magnitude=1.5;" \
    "expert_shared_count=1"
#define GATED \
    "hc_attn_norm.weight=128;hc_attn_down.weight=128x12;hc_attn_up.weight=12x128;hc_attn_inject.weight=" \
    "128x4;" \
    "hc_ffn_norm.weight=128;hc_ffn_down.weight=128x12;hc_ffn_up.weight=12x128;hc_ffn_inject.weight=128x4"
#define GATED_LAST \
    "output_hc_norm.weight=128;output_hc_down.weight=128x12;output_hc_up.weight=12x128;" \
    "blk.0.ple_key.weight=32x128;blk.0.ple_value.weight=32x32;blk.0.ple_norm_key.weight=128;" \
    "blk.0.ple_norm_query.weight=128;blk.0.ple_norm_conv.weight=128;blk.0.ple_conv1d.weight=4x128;" \
    "per_layer_token_embd.weight=8x64;blk.1.indexer.q_proj.weight=32x256;blk.1.indexer.k_proj.weight=32x32;" \
    "blk.1.indexer.q_norm.weight=32;blk.1.indexer.k_norm.weight=32"
#define GATED_KEYS \
    "ssm.conv_kernel=4;ssm.inner_size=24;ssm.state_size=6;ssm.time_step_rank=4;ssm.group_count=2;" \
    "full_attention_interval=2;rope.dimension_sections=[1,1,1,0];" \
    "hyper_connection.count=4;hyper_connection.low_rank=12;attention.indexer.head_count=8;" \
    "attention.indexer.key_length=32;ple.layers=[0];ple.ngram_size=3;ple.heads_per_ngram=2;ple.conv_kernel=" \
    "4;" \
    "ple.eos_token_id=7;embedding_length_per_layer_input=8;" \
    "ple.layer_multipliers=[l:35184372088831,17592186044423,8796093022208];" \
    "ple.head_offsets=[l:0,11,24,41];ple.head_vocab_sizes=[l:11,13,17,19];"
#define RWKV6 "wkv.head_size=8;time_mix_extra_dim=4;time_decay_extra_dim=4"
#define RWKV7 \
    "wkv.head_size=64;attention.decay_lora_rank=4;attention.iclr_lora_rank=4;" \
    "attention.value_residual_mix_lora_rank=4;attention.gate_lora_rank=4"
#define SWITCHED(q, kv) \
    .fused_qkv = true, \
    .extra = "attn_q.lora_a=32x4x5;attn_q.lora_b=4x" q "x5;attn_k.lora_a=32x4x5;attn_k.lora_b=4x" kv "x5;" \
             "attn_v.lora_a=32x4x5;attn_v.lora_b=4x" kv "x5;attn_output.lora_a=" q "x4x5;" \
             "attn_output.lora_b=4x32x5;ffn_gate.lora_a=32x4x5;ffn_gate.lora_b=4x40x5;ffn_up.lora_a=32x4x5;" \
             "ffn_up.lora_b=4x40x5;ffn_down.lora_a=40x4x5;ffn_down.lora_b=4x32x5"
#define SWITCHED_KEYS \
    "embedding_scale=6.0;residual_scale=0.4;attention.scale=0.3;logit_scale=1.7;adapters.count=4;" \
    "adapters.lora_rank=4;adapters.token_ids_activate=[45,7,29,53];adapters.token_ids_substitute=[3,60,61," \
    "62]"
#define EXPERTS .ffn = 'r', .experts = 6, .used = 2, .ff = 24

const variant variants_newer[] = {
    {.name = "maple",
     EXPERTS,
     .layers = 3,
     .qk = 'h',
     .head = 12,
     .rotated = 6,
     .keys = YARN ";attention.sliding_window=6;attention.sliding_window_pattern=[true,false,true];"
                  "rope.freq_base_swa=500.0;swiglu_clamp_exp=[0.4,0.0,0.3]"},
    {.name = "minimax-01",
     EXPERTS,
     .layers = 3,
     .mixers = "tat",
     .rotated = 4,
     .keys = "full_attention_interval=2;residual_scale=1.3"},
    {.name = "spark2_5",
     .layers = 3,
     .head = 12,
     .fused_qkv = true,
     .gate = 'h',
     .rotated = 6,
     .heads_at = {2, 4, 4},
     .kv_at = {1, 2, 4},
     .keys = "attention.sliding_window=6;attention.sliding_window_pattern=[true,false,true];"
             "rope.freq_base_swa=500.0;rope.dimension_count_swa=8"},
    {.name = "dots3note",
     .layers = 4,
     .latent = 'f',
     .head = 20,
     .rotated = 8,
     .value = 12,
     .kv = 1,
     .heads_at = {4, 2, 4, 4},
     .local = 6,
     .gate = 'h',
     EXPERTS,
     .dense = 1,
     .shared = 24,
     .choice_bias = true,
     .extra = "attn_k_norm.weight=8",
     .extra_at = 9,
     .keys = ROUTE ";attention.sliding_window=6;attention.sliding_window_pattern=[false,true,true,false];"
                   "attention.kv_lora_rank_swa=8;attention.key_length_mla_swa=16;"
                   "attention.value_length_mla_swa=8;attention.key_length_swa=16;attention.value_length_swa="
                   "8;rope.freq_base_swa=500.0;attention.indexer.head_count=12;"
                   "attention.indexer.key_length=64;attention.indexer.top_k=5;"
                   "attention.indexer.types=[true,false,false,true]"},
    {.name = "deepseek4",
     .layers = 4,
     .latent = 'c',
     .head = 16,
     .rotated = 8,
     .kv = 1,
     EXPERTS,
     .tables = 2,
     .shared = 24,
     .choice_bias = true,
     .extra =
         "hc_attn_fn.weight=128x24;hc_attn_base.weight=24;hc_attn_scale.weight=3;hc_ffn_fn.weight=128x24;"
         "hc_ffn_base.weight=24;hc_ffn_scale.weight=3",
     .extra_model = HYPER_LAST,
     .keys = YARN ";attention.sliding_window=6;attention.compress_ratios=[4,0,128,4];"
                  "attention.compress_rope_freq_base=500.0;"
                  "attention.output_group_count=2;attention.output_lora_rank=6;"
                  "attention.indexer.head_count=12;attention.indexer.key_length=64;attention.indexer.top_k=2;"
                  "hyper_connection.count=4;hyper_connection.epsilon=0.01;"
                  "hyper_connection.sinkhorn_iterations=3;hash_layer_count=2;expert_shared_count=1;"
                  "expert_weights_scale=1.5;expert_weights_norm=true;expert_gating_func=4;"
                  "swiglu_clamp_exp=[0.4,0.0,0.3,0.5];swiglu_clamp_shexp=[0.5,0.3,0.0,0.4]"},
    {.name = "glm5-next",
     .layers = 5,
     .mixers = "gaaga",
     .latent = 'f',
     .head = 14,
     .no_rotation = true,
     .value = 10,
     EXPERTS,
     .dense = 1,
     .shared = 24,
     .choice_bias = true,
     .extra =
         "hc_attn_fn.weight=128x24;hc_attn_base.weight=24;hc_attn_scale.weight=3;hc_ffn_fn.weight=128x24;"
         "hc_ffn_base.weight=24;hc_ffn_scale.weight=3",
     .extra_at = 18,
     .keys = "expert_weights_scale=1.5;expert_weights_norm=true;ssm.conv_kernel=4;kda.head_dim=6;kda.gate_"
             "lower_bound=-5.0;"
             "attention.head_count_kv=[0,1,1,0,1];attention.layer_norm_epsilon=0.001;"
             "attention.indexer.head_count=12;attention.indexer.key_length=64;"
             "attention.indexer.top_k=8;attention.indexer.kpool=4;"
             "attention.indexer.types=[true,true,false,true,true];hyper_connection.count=4;"
             "hyper_connection.epsilon=0.01;hyper_connection.sinkhorn_iterations=3;"
             "expert_shared_count=1;swiglu_clamp_exp=[0.4,0.0,0.3,0.5,0.4]"},
    {.name = "qwen4exp",
     .layers = 3,
     .mixers = "dad",
     .no_pre = true,
     .inner = "",
     .last = "",
     .qk = 'h',
     .gated_q = true,
     .rotated = 6,
     EXPERTS,
     .shared = 20,
     .shared_gate = true,
     .extra = GATED,
     .extra_model = GATED_LAST,
     .keys = GATED_KEYS "attention.compress_ratios=[0,1,0];attention.indexer.top_k=5"},
    {.name = "qwen4exp-blocks",
     .arch = "qwen4exp",
     .mixers = "da",
     .no_pre = true,
     .inner = "",
     .last = "",
     .qk = 'h',
     .gated_q = true,
     .rotated = 6,
     EXPERTS,
     .fused_experts = true,
     .shared = 20,
     .shared_gate = true,
     .tied = true,
     .extra = GATED,
     .extra_model = GATED_LAST,
     .keys = GATED_KEYS "attention.compress_ratios=[0,4];attention.indexer.top_k=1024"},
    {.name = "hy_v4",
     .layers = 3,
     .latent = 'f',
     .head = 20,
     .rotated = 8,
     .value = 12,
     .kv = 1,
     .gate = 'v',
     .sinks = true,
     EXPERTS,
     .dense = 1,
     .shared = 24,
     .choice_bias = true,
     .extra = HYPER,
     .extra_model = HYPER_LAST,
     .extra_at = 5,
     .keys = ROUTE ";" HYPER_KEYS ";swiglu_clamp_exp=[0.0,0.4,0.3];attention.indexer.head_count=12;"
                   "attention.indexer.key_length=64;attention.indexer.top_k=5;"
                   "attention.indexer.types=[true,false,true]"},
    {.name = "hy_v4-full",
     .arch = "hy_v4",
     .latent = 'f',
     .head = 20,
     .rotated = 8,
     .value = 12,
     .kv = 1,
     .gate = 'v',
     .sinks = true,
     EXPERTS,
     .shared = 24,
     .extra = HYPER,
     .extra_model = HYPER_LAST,
     .keys = ROUTE ";" HYPER_KEYS},
    {.name = "rwkv6",
     .kv = 4,
     .layers = 3,
     .mixers = "666",
     .ln = true,
     .norm_bias = true,
     .embedding_norm = true,
     .no_length = true,
     .inner = "attn_norm_2",
     .ffn = 'c',
     .keys = RWKV6 ";rescale_every_n_layers=2"},
    {.name = "rwkv6qwen2", .mixers = "qq", .no_length = true, .keys = RWKV6 ";token_shift_count=1"},
    {.name = "rwkv7",
     .width = 128,
     .kv = 2,
     .layers = 3,
     .mixers = "777",
     .ln = true,
     .norm_bias = true,
     .embedding_norm = true,
     .no_length = true,
     .inner = "attn_norm_2",
     .ffn = 'n',
     .keys = RWKV7},
    {.name = "arwkv7",
     .width = 128,
     .kv = 2,
     .mixers = "rr",
     .no_length = true,
     .keys = RWKV7 ";token_shift_count=1"},
    {.name = "dream", .mask = 5, .layers = 3, .qkv_bias = true, .logit_bias = true},
    {.name = "llada",
     .mask = 5,
     .head = 12,
     .out_bias = true,
     .ffn_bias = true,
     .factors = 'f',
     .tied = true},
    {.name = "deci",
     .layers = 5,
     .mixers = "axnna",
     .heads_at = {4, 4, 0, 0, 2},
     .kv_at = {2, 0, 0, 0, 1},
     .ff_at = {40, 24, 48, 0, 40},
     .head = 8,
     .factors = 'f'},
    {.name = "bitnet", .tied = true, .extra = "attn_sub_norm.weight=32;ffn_sub_norm.weight=40"},
    {.name = "qwen", .kv = 4, .fused_qkv = true, .qkv_bias = true, .keys = "feed_forward_length=80"},
    {.name = "plamo", .inner = ""},
    {.name = "cogvlm",
     .kv = 4,
     .fused_qkv = true,
     .extra = "vis_attn_qkv.weight=32x96;vis_attn_output.weight=32x32;vis_gate.weight=32x40;"
              "vis_up.weight=32x40;vis_down.weight=40x32"},
    {.name = "chameleon", .qk = 'e', .extra = "attn_q_norm.bias=8x4@0.5;attn_k_norm.bias=8x2@0.5"},
    {.name = "chameleon-swin", .arch = "chameleon", .qk = 'e', .tied = true, .keys = "swin_norm=true"},
    {.name = "hrm_text",
     .layers = 4,
     .head = 12,
     .no_pre = true,
     .inner = "",
     .last = "",
     .gate = 'v',
     .extra_model = "hrm.z_l_init=32",
     .keys = "block_count=16;hrm.layers_per_stack=2;hrm.h_cycles=2;hrm.l_cycles=3;embedding_scale=3.5"},
    {.name = "graniteswitch", .layers = 3, .tied = true, SWITCHED("32", "16"), .keys = SWITCHED_KEYS},
    {.name = "graniteswitch-gain",
     .arch = "graniteswitch",
     .head = 12,
     SWITCHED("48", "24"),
     .keys = SWITCHED_KEYS ";adapters.router_gain=1.0;rope.scaling.finetuned=false"},
    {.name = "deepseek2-ocr",
     .kv = 4,
     .no_length = true,
     .rotated = 4,
     EXPERTS,
     .dense = 1,
     .shared = 24,
     .choice_bias = true,
     .keys = "expert_weights_scale=1.5;expert_weights_norm=true"},
    {.name = "llada-moe", .mask = 5, EXPERTS, .qk = 'h'},
    {.name = "rnd1", .mask = 5, EXPERTS, .qk = 'h', .head = 12, .tied = true},
    {.name = NULL},
};
