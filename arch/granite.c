/* Granite and Nemotron, dense, with experts and with recurrent layers. */
#include "arch/rows.h"

static const arch_rule nemotron_h_rules[] = {
    BACKBONE_ENDS,
    MAMBA("backbone.layers.#.mixer.", OP_NEGATIVE_EXP_COLUMN),
    MAMBA2("backbone.layers.#.mixer."),
    BACKBONE("mixer.q_proj", "attn_q", OP_ROPE_PAIRS_Q),
    BACKBONE("mixer.k_proj", "attn_k", OP_ROPE_PAIRS_K),
    BACKBONE("mixer.v_proj", "attn_v"),
    BACKBONE("mixer.o_proj", "attn_output"),
    BACKBONE("mixer.up_proj", "ffn_up"),
    BACKBONE("mixer.down_proj", "ffn_down"),
    BACKBONE("mixer.gate", "ffn_gate_inp"),
    BACKBONE("mixer.gate.e_score_correction", "exp_probs_b"),
    BACKBONE("mixer.experts.*.up_proj", "ffn_up_exps", OP_JOIN_EXPERTS),
    BACKBONE("mixer.experts.*.down_proj", "ffn_down_exps", OP_JOIN_EXPERTS),
    BACKBONE("mixer.shared_experts.up_proj", "ffn_up_shexp"),
    BACKBONE("mixer.shared_experts.down_proj", "ffn_down_shexp"),
    BACKBONE("mixer.fc1_latent_proj", "ffn_latent_down"),
    BACKBONE("mixer.fc2_latent_proj", "ffn_latent_up"),
    BACKBONE("post_attention_layernorm", "post_attention_norm"),
    BACKBONE("enorm", "nextn.enorm"),
    BACKBONE("hnorm", "nextn.hnorm"),
    BACKBONE("eh_proj", "nextn.eh_proj"),
    BACKBONE("final_layernorm", "nextn.shared_head_norm"),
    {0},
};

static const arch_item list_granite[] = {
    LIST(arch_llama),
    ITEM(".attention.key_length", KV_REMOVE),
    ITEM(".attention.value_length", KV_REMOVE),
    SHARE_WHOLE(".rope.dimension_count", KV_SHARE_OF_EVEN_HEAD),
    FLOAT_IF_NOT_ZERO(".attention.scale", "attention_multiplier"),
    FLOAT_IF_NOT_ZERO(".embedding_scale", "embedding_multiplier"),
    FLOAT_IF_NOT_ZERO(".residual_scale", "residual_multiplier"),
    FLOAT_IF_NOT_ZERO(".logit_scale", "logits_scaling"),
    END,
};

static const arch_item list_granite_experts[] = {
    LIST(list_granite),
    U32_IF_NOT_ZERO(".expert_shared_feed_forward_length", "shared_intermediate_size"),
    END,
};

static const arch_item list_nemotron_sizes[] = {
    LIST(list_granite_experts),
    U32(".ssm.conv_kernel", "conv_kernel"),
    U32(".ssm.state_size", "ssm_state_size"),
    U32(".ssm.group_count", "n_groups"),
    ITEM_NAMES(".ssm.inner_size", KV_PRODUCT, "mamba_num_heads mamba_head_dim"),
    U32(".ssm.time_step_rank", "mamba_num_heads"),
    U32(".attention.key_length", "head_dim|attention_head_dim"),
    U32(".attention.value_length", "head_dim|attention_head_dim"),
    BOOL_IS(".rope.scaling.finetuned", false),
    U32_IS(".context_length", 1 << 20), /* without rotation no limit was trained */
    END,
};

static const arch_item list_nemotron_h[] = {LIST(list_nemotron_sizes), ITEM(NULL, KV_LAYERS_NEMOTRON), END};

/* Common to both models with experts. */
static const arch_item list_nemotron_experts[] = {
    U32(".expert_shared_feed_forward_length", "moe_shared_expert_intermediate_size"),
    U32(".expert_count", NAMES_EXPERTS),
    U32(".expert_shared_count", "n_shared_experts"),
    BOOL(".expert_weights_norm", "norm_topk_prob"),
    FLOAT(".expert_weights_scale", "routed_scaling_factor"),
    U32(".expert_group_count", "n_group"),
    U32_IF(".moe_latent_size", "moe_latent_size"),
    END,
};

/* Newer releases begin their names otherwise. */
static const arch_rename nemotron_renames[] = {
    {"model.backbone", "backbone", AT_BEGIN},
    {"model.lm_head", "lm_head", AT_BEGIN},
    {"model.", "backbone.", AT_BEGIN},
    {0},
};

static const char *const granite_left_out[] = {"^encoder.", "image_", "layerwise_projectors",
                                               "spatial_projectors", NULL};

/* Tables of tokens that follow from the config. */
static const char *const switch_left_out[] = {"^model.switch.", "^switch.", "adapter_token_ids",
                                              "control_to_substitute_lut", NULL};
/* A pair for each adapter, beside a module or one of the parts that it joins. */
#define ADAPTERS(module, part, to) \
    P(module ".lora_A" part, to ".lora_a", OP_PREPEND_NO_ADAPTER), \
        P(module ".lora_B" part, to ".lora_b", OP_PREPEND_NO_ADAPTER)

const architecture arch_rows_granite[] = {
    {
        .name = "granitehybrid",
        .folder =
            {CLASSES(CLASS("BambaForCausalLM", .when = WHEN_RECURRENT, .rotates = true),
                     CLASS("GraniteMoeHybridForCausalLM", .when = WHEN_RECURRENT)),
             .metadata = METADATA(
                 LIST(list_granite_experts), U32(".ssm.conv_kernel", "mamba_d_conv"),
                 U32(".ssm.state_size", "mamba_d_state"), U32(".ssm.group_count", "mamba_n_groups"),
                 ITEM_NAMES(".ssm.inner_size", KV_PRODUCT, "mamba_expand hidden_size"),
                 U32(".ssm.time_step_rank", "mamba_n_heads"),
                 U32_IF_NOT_ZERO(".rope.dimension_count", "attn_rotary_emb"), ITEM(NULL, KV_LAYERS_GRANITE)),
             .rules = RULES(
                 MAMBA("model.layers.#.mamba.", OP_NEGATIVE_EXP_COLUMN), MAMBA2("model.layers.#.mamba."),
                 RULE("model.final_layernorm", "output_norm"), P("pre_ff_layernorm", "ffn_norm"),
                 P("block_sparse_moe.input_linear", "ffn_gate_exps|blk.#.ffn_up_exps", OP_SPLIT_HALVES),
                 P("block_sparse_moe.output_linear", "ffn_down_exps"),
                 P("shared_mlp.input_linear", "ffn_gate|blk.#.ffn_up", OP_SPLIT_SHARED_EXPERT),
                 P("shared_mlp.output_linear", "ffn_down", OP_COPY_SHARED_EXPERT)),
             .more = arch_permuted_rules, .left_out = granite_left_out, .renames = arch_backbone_renames,
             .tokenizer = {.files = {FILE_MODEL, FILE_BYTES}, .multiple = 8}},
        .graph = {MIXERS(MIXER_ATTENTION, MIXER_MAMBA2), .ffns = {FFN_EXPERTS, FFN_GATED},
                  .experts_are_ffn = true, .has = {MAY_HAVE(WEIGHT_FFN_UP_SHEXP)},
                  .own = {OWN_SCALES_GRANITE, OWN_SHARED_LENGTH}, .qkv_bias = OPTIONAL,
                  .output_bias = OPTIONAL, .ffn_bias = OPTIONAL, .free_head = true,
                  .factors = FACTORS_LONGROPE, .no_rope = ROPE_IF_FINETUNED, .routing = ROUTING_SOFT_ONE},
    },
    {
        .name = "granite",
        .folder = {CLASSES(CLASS("BambaForCausalLM", .like = "granitehybrid",
                                 .tokenizer = {.files = {FILE_MODEL, FILE_BYTES}}),
                           CLASS("GraniteForCausalLM"), CLASS("GraniteSpeechForConditionalGeneration"),
                           CLASS("GraniteSpeechPlusForConditionalGeneration"),
                           CLASS("GraniteMoeHybridForCausalLM", .like = "granitehybrid",
                                 .tokenizer = {.files = {FILE_MODEL, FILE_BYTES}})),
                   .metadata = list_granite, .more = arch_permuted_rules, .left_out = granite_left_out,
                   .finish = FINISH_ROPE_EVEN, .tokenizer = TOKENIZER_LLAMA, .is_silu = true,
                   .has_own_head = true},
        .graph = {ATTENTION_AND(FFN_EXPERTS, FFN_GATED), .experts_are_ffn = true, .own = {OWN_SCALES_GRANITE},
                  .output_bias = OPTIONAL, .ffn_bias = OPTIONAL, .free_head = true,
                  .factors = FACTORS_LONGROPE, .no_rope = ROPE_IF_FINETUNED, .routing = ROUTING_SOFT_ONE},
    },
    {
        .name = "granitemoe",
        .folder = {CLASSES(CLASS("BambaForCausalLM", .when = WHEN_USED, .text = "num_experts_per_tok",
                                 .like = "granitehybrid", .tokenizer = {.files = {FILE_MODEL, FILE_BYTES}}),
                           CLASS("GraniteMoeForCausalLM"),
                           CLASS("GraniteMoeHybridForCausalLM", .when = WHEN_USED,
                                 .text = "num_experts_per_tok", .like = "granitehybrid",
                                 .tokenizer = {.files = {FILE_MODEL, FILE_BYTES}}),
                           CLASS("GraniteMoeSharedForCausalLM")),
                   .metadata = list_granite_experts,
                   .rules = RULES(
                       P("block_sparse_moe.input_linear", "ffn_gate_exps|blk.#.ffn_up_exps", OP_SPLIT_HALVES),
                       P("block_sparse_moe.output_linear", "ffn_down_exps"),
                       P("shared_mlp.input_linear", "ffn_gate_shexp|blk.#.ffn_up_shexp", OP_SPLIT_HALVES),
                       P("shared_mlp.output_linear", "ffn_down_shexp")),
                   .more = arch_permuted_rules, .left_out = granite_left_out, .finish = FINISH_ROPE_EVEN,
                   .tokenizer = TOKENIZER_LLAMA},
        .graph = {ATTENTION_AND(FFN_EXPERTS), .experts_are_ffn = true, .has = {MAY_HAVE(WEIGHT_FFN_UP_SHEXP)},
                  .own = {OWN_SCALES_GRANITE, OWN_SHARED_LENGTH}, .output_bias = OPTIONAL,
                  .ffn_bias = OPTIONAL, .free_head = true, .factors = FACTORS_LONGROPE,
                  .routing = ROUTING_SOFT_ONE},
    },
    {
        .name = "granite_swa",
        .folder = {CLASSES(CLASS("GraniteMoeSWAForCausalLM"), CLASS("GraniteSWAForCausalLM")),
                   .metadata = METADATA(
                       LIST(list_granite_experts), U32_OR(".attention.sliding_window", "sliding_window", 128),
                       ITEM(".attention.sliding_window_pattern", KV_LAYERS_GRANITE_WINDOW),
                       ITEM_NAMES(".attention.rope_pattern", KV_LAYERS_USED, "no_rope_layers")),
                   .rules =
                       RULES(P("self_attn.sinks", "attn_sinks"), P("block_sparse_moe.router", "ffn_gate_inp"),
                             P("block_sparse_moe.experts.gate_up_proj", "ffn_gate_up_exps"),
                             P("block_sparse_moe.experts.down_proj", "ffn_down_exps"),
                             P("block_sparse_moe.input_linear", "ffn_gate_up_exps"),
                             P("block_sparse_moe.output_linear", "ffn_down_exps"),
                             P("shared_mlp.input_linear", "ffn_up_shexp"),
                             P("shared_mlp.output_linear", "ffn_down_shexp")),
                   .more = arch_permuted_rules, .left_out = granite_left_out, .finish = FINISH_ROPE_EVEN,
                   .tokenizer = TOKENIZER_LLAMA},
        .graph = {ATTENTION_AND(FFN_EXPERTS, FFN_GATED),
                  .has = {MUST_HAVE(WEIGHT_ATTN_SINKS), MAY_HAVE(WEIGHT_FFN_GATE_UP_EXPS),
                          MAY_HAVE(WEIGHT_EXPERT_CHOICE), MAY_HAVE(WEIGHT_FFN_UP_SHEXP)},
                  .own = {OWN_SCALES_GRANITE, OWN_SHARED_LENGTH}, .output_bias = OPTIONAL,
                  .ffn_bias = OPTIONAL, .free_head = true, .factors = FACTORS_LONGROPE,
                  .window = WINDOW_REQUIRED, .pattern_list = true, .no_rope = ROPE_BY_PATTERN,
                  .routing = ROUTING_GROUPS_SOFT_ONE, .fused_shared = true},
    },
    {
        .name = "graniteswitch",
        .bare_layers = 1, /* in which llama.cpp compares tokens that switch adapters on with others */
        .folder = {CLASSES(CLASS("GraniteSwitchForCausalLM", .left_out = switch_left_out)),
                   .metadata =
                       METADATA(LIST(list_granite_experts), EXPECT_IF("num_local_experts=0"),
                                U32_IS(".expert_used_count", 0), U32(".adapters.count", "num_adapters"),
                                U32(".adapters.lora_rank", "max_lora_rank"),
                                ITEM_NAMES(".adapters.token_ids_activate", KV_INTEGERS, "adapter_token_ids"),
                                ITEM_NAMES(".adapters.token_ids_substitute", KV_INTEGERS,
                                           "adapter_substitute_token_ids"),
                                FLOAT_OR(".adapters.router_gain", "control_token_gain", 15)),
                   .rules = RULES(
                       P("self_attn.qkv_proj.base_layer", "attn_qkv", OP_ROPE_PAIRS_QKV),
                       P("self_attn.qkv_proj.lora_B_slices.0", "attn_q.lora_b", OP_PREPEND_NO_ADAPTER_Q),
                       P("self_attn.qkv_proj.lora_B_slices.1", "attn_k.lora_b", OP_PREPEND_NO_ADAPTER_K),
                       ADAPTERS("self_attn.qkv_proj", "_slices.0", "attn_q"),
                       ADAPTERS("self_attn.qkv_proj", "_slices.1", "attn_k"),
                       ADAPTERS("self_attn.qkv_proj", "_slices.2", "attn_v"),
                       P("self_attn.o_proj.base_layer", "attn_output"),
                       ADAPTERS("self_attn.o_proj", "", "attn_output"),
                       P("shared_mlp.input_linear.base_layer", "ffn_gate|blk.#.ffn_up", OP_SPLIT_HALVES),
                       ADAPTERS("shared_mlp.input_linear", "_slices.0", "ffn_gate"),
                       ADAPTERS("shared_mlp.input_linear", "_slices.1", "ffn_up"),
                       P("shared_mlp.output_linear.base_layer", "ffn_down"),
                       ADAPTERS("shared_mlp.output_linear", "", "ffn_down")),
                   .follows = ".lora_", .left_out = granite_left_out, .finish = FINISH_ROPE_EVEN,
                   .tokenizer = TOKENIZER_LLAMA},
        .graph = {ATTENTION_AND(FFN_GATED), .has = {MUST_HAVE(WEIGHT_ATTN_QKV)},
                  .switched = SUBLAYER_SWITCHED, .own = {OWN_SCALES_GRANITE}, .free_head = true,
                  .no_rope = ROPE_IF_FINETUNED},
    },
    {
        .name = "nemotron",
        .folder = {CLASSES(CLASS("NemotronForCausalLM")),
                   .metadata = METADATA(LIST(arch_base), U32(".vocab_size", "vocab_size"),
                                        FLOAT(".attention.layer_norm_epsilon", NAMES_NORM "|norm_eps"),
                                        ITEM_NAMES(".rope.dimension_count", KV_SHARE_OF_WIDTH,
                                                   "rope.partial_rotary_factor"),
                                        ITEM(NULL, KV_ROPE_NEMOTRON)),
                   .adds_one = true, .tokenizer = {.files = {FILE_MODEL}, .exceptions = TOKENS_NEMOTRON}},
        .graph = {ATTENTION_AND(FFN_PLAIN), .neox = true, .rope_partial = true, .norm = NORM_LAYER,
                  .norm_bias = REQUIRED, .output_bias = OPTIONAL, .ffn_bias = OPTIONAL, .act = ACT_RELU2,
                  .tied = TIED_NO},
    },
    {
        .name = "nemotron_h",
        .folder = {CLASSES(CLASS("NemotronHForCausalLM")), .metadata = list_nemotron_h,
                   .rules = nemotron_h_rules, .left_out = granite_left_out, .renames = arch_backbone_renames,
                   .tokenizer = {.multiple = 8, .exceptions = TOKENS_BOS_ALWAYS}, .mtp = {.is_one = true}},
        .graph = {MIXERS(MIXER_ATTENTION, MIXER_MAMBA2), .ffns = {FFN_PLAIN}, .one_sublayer = true,
                  .qkv_bias = OPTIONAL, .output_bias = OPTIONAL, .ffn_bias = OPTIONAL, .free_head = true,
                  .no_rope = ROPE_NEVER, .act = ACT_RELU2, .extra_layers = true},
    },
    {
        .name = "nemotron_h_moe",
        .folder = {CLASSES(CLASS("NemotronHForCausalLM", .when = WHEN_KEY, .text = "num_experts_per_tok"),
                           CLASS("NemotronHPuzzleForCausalLM", .drops_mtp = true,
                                 .metadata = METADATA(LIST(list_nemotron_sizes),
                                                      ITEM_NAMES(NULL, KV_LAYERS_PUZZLE, "block_configs"),
                                                      LIST(list_nemotron_experts)))),
                   .metadata = METADATA(
                       LIST(list_nemotron_h), U32(".expert_used_count", "num_experts_per_tok"),
                       U32(".expert_feed_forward_length", "moe_intermediate_size"),
                       LIST(list_nemotron_experts),
                       ITEM_IF_NOT_ZERO(".nextn_predict_layers", KV_PREDICT, "num_nextn_predict_layers")),
                   .rules = nemotron_h_rules, .left_out = granite_left_out, .renames = nemotron_renames,
                   .tokenizer = {.multiple = 8},
                   .mtp = {.key = "num_nextn_predict_layers", .most = 1, .is_one = true}},
        .graph = {MIXERS(MIXER_ATTENTION, MIXER_MAMBA2), .ffns = {FFN_EXPERTS, FFN_PLAIN},
                  .experts_share = true, .one_sublayer = true,
                  .has = {MAY_HAVE(WEIGHT_EXPERT_CHOICE), MAY_HAVE(WEIGHT_FFN_UP_SHEXP),
                          MAY_HAVE(WEIGHT_FFN_LATENT_DOWN)},
                  .qkv_bias = OPTIONAL, .output_bias = OPTIONAL, .free_head = true, .no_rope = ROPE_NEVER,
                  .act = ACT_RELU2,
                  .routing =
                      {.function = ROUTER_SIGMOID, .sum = SUM_BY_KEY, .scale_key = true, .has_groups = true},
                  .plain_experts = true, .extra_layers = true,
                  .mtp = {.input = MTP_NORMED, .place = PLACE_PAN, .centers = true}},
    },
    {.name = NULL},
};
