/* Granite and Nemotron, dense, with experts and with recurrent layers. */
#include "arch/rows.h"

#define MAMBA(prefix, a) \
    {prefix "conv1d", "blk.#.ssm_conv1d", STEP_SQUEEZE}, {prefix "dt_proj", "blk.#.ssm_dt", STEP_PLAIN}, \
        {prefix "x_proj", "blk.#.ssm_x", STEP_PLAIN}, {prefix "in_proj", "blk.#.ssm_in", STEP_PLAIN}, \
        {prefix "out_proj", "blk.#.ssm_out", STEP_PLAIN}, { \
        prefix "A_log", "blk.#.ssm_a", a \
    }

#define MAMBA2(prefix) \
    {prefix "D", "blk.#.ssm_d", STEP_COLUMN}, { prefix "norm", "blk.#.ssm_norm", STEP_NORM_GROUPS }

#define BACKBONE(from, to, step) \
    { "backbone.layers.#." from, "blk.#." to, step }

#define BACKBONE_ENDS \
    {"backbone.embeddings", "token_embd", STEP_PLAIN}, {"backbone.embedding", "token_embd", STEP_PLAIN}, \
        {"backbone.norm_f", "output_norm", STEP_PLAIN}, BACKBONE("norm", "attn_norm", STEP_PLAIN)

static const arch_rule nemotron_h_rules[] = {
    BACKBONE_ENDS,
    MAMBA("backbone.layers.#.mixer.", STEP_NEGATIVE_EXP_COLUMN),
    MAMBA2("backbone.layers.#.mixer."),
    BACKBONE("mixer.q_proj", "attn_q", STEP_PERMUTE_Q),
    BACKBONE("mixer.k_proj", "attn_k", STEP_PERMUTE_K),
    BACKBONE("mixer.v_proj", "attn_v", STEP_PLAIN),
    BACKBONE("mixer.o_proj", "attn_output", STEP_PLAIN),
    BACKBONE("mixer.up_proj", "ffn_up", STEP_PLAIN),
    BACKBONE("mixer.down_proj", "ffn_down", STEP_PLAIN),
    BACKBONE("mixer.gate", "ffn_gate_inp", STEP_PLAIN),
    BACKBONE("mixer.gate.e_score_correction", "exp_probs_b", STEP_PLAIN),
    BACKBONE("mixer.experts.*.up_proj", "ffn_up_exps", STEP_STACK),
    BACKBONE("mixer.experts.*.down_proj", "ffn_down_exps", STEP_STACK),
    BACKBONE("mixer.shared_experts.up_proj", "ffn_up_shexp", STEP_PLAIN),
    BACKBONE("mixer.shared_experts.down_proj", "ffn_down_shexp", STEP_PLAIN),
    BACKBONE("mixer.fc1_latent_proj", "ffn_latent_down", STEP_PLAIN),
    BACKBONE("mixer.fc2_latent_proj", "ffn_latent_up", STEP_PLAIN),
    BACKBONE("post_attention_layernorm", "post_attention_norm", STEP_PLAIN),
    BACKBONE("enorm", "nextn.enorm", STEP_PLAIN),
    BACKBONE("hnorm", "nextn.hnorm", STEP_PLAIN),
    BACKBONE("eh_proj", "nextn.eh_proj", STEP_PLAIN),
    BACKBONE("final_layernorm", "nextn.shared_head_norm", STEP_PLAIN),
    {0},
};

static const arch_item list_granite[] = {
    LIST(arch_llama),
    ITEM(".attention.key_length", PAIR_REMOVE),
    ITEM(".attention.value_length", PAIR_REMOVE),
    SHARE_WHOLE(".rope.dimension_count", PAIR_SHARE_OF_EVEN_HEAD),
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

static const arch_item list_nemotron_h[] = {
    LIST(list_granite_experts),
    U32(".ssm.conv_kernel", "conv_kernel"),
    U32(".ssm.state_size", "ssm_state_size"),
    U32(".ssm.group_count", "n_groups"),
    ITEM_NAMES(".ssm.inner_size", PAIR_PRODUCT, "mamba_num_heads mamba_head_dim"),
    U32(".ssm.time_step_rank", "mamba_num_heads"),
    U32(".attention.key_length", "head_dim|attention_head_dim"),
    U32(".attention.value_length", "head_dim|attention_head_dim"),
    BOOL_IS(".rope.scaling.finetuned", false),
    U32_IS(".context_length", 1 << 20), /* without rotation no limit was trained */
    ITEM(NULL, PAIR_LAYERS_NEMOTRON),
    END,
};

static const char *const granite_left_out[] = {"^encoder.", "image_", "layerwise_projectors",
                                               "spatial_projectors", NULL};

const architecture arch_rows_granite[] = {
    {
        .name = "granitehybrid",
        .folder =
            {
                .classes = CLASSES(CLASS("BambaForCausalLM", .when = WHEN_RECURRENT, .turns = true),
                                   CLASS("GraniteMoeHybridForCausalLM", .when = WHEN_RECURRENT)),
                .pairs =
                    (const arch_item[]){
                        LIST(list_granite_experts),
                        U32(".ssm.conv_kernel", "mamba_d_conv"),
                        U32(".ssm.state_size", "mamba_d_state"),
                        U32(".ssm.group_count", "mamba_n_groups"),
                        ITEM_NAMES(".ssm.inner_size", PAIR_PRODUCT, "mamba_expand hidden_size"),
                        U32(".ssm.time_step_rank", "mamba_n_heads"),
                        U32_IF_NOT_ZERO(".rope.dimension_count", "attn_rotary_emb"),
                        ITEM(NULL, PAIR_LAYERS_GRANITE),
                        END,
                    },
                .rules =
                    (const arch_rule[]){
                        MAMBA("model.layers.#.mamba.", STEP_NEGATIVE_EXP_COLUMN),
                        MAMBA2("model.layers.#.mamba."),
                        {"model.final_layernorm", "output_norm", STEP_PLAIN},
                        P("pre_ff_layernorm", "ffn_norm", STEP_PLAIN),
                        P("block_sparse_moe.input_linear", "ffn_gate_exps|blk.#.ffn_up_exps", STEP_HALVES),
                        P("block_sparse_moe.output_linear", "ffn_down_exps", STEP_PLAIN),
                        P("shared_mlp.input_linear", "ffn_gate|blk.#.ffn_up", STEP_SHARED_HALVES),
                        P("shared_mlp.output_linear", "ffn_down", STEP_SHARED),
                        {0},
                    },
                .more = arch_permuted_rules,
                .left_out = granite_left_out,
                .renames = arch_backbone_renames,
                .tokenizer = {.files = "mb", .multiple = 8},
            },
        .graph =
            {
                .mixers = {MIXER_ATTENTION, MIXER_MAMBA2},
                .ffns = {FFN_EXPERTS, FFN_GATED},
                .has = {[WEIGHT_FFN_UP_SHEXP] = OPTIONAL},
                .own = {OWN_SCALES_GRANITE, OWN_SHARED_LENGTH},
                .qkv_bias = OPTIONAL,
                .output_bias = OPTIONAL,
                .ffn_bias = OPTIONAL,
                .free_head = true,
                .factors = FACTORS_LONGROPE,
                .no_rope = ROPE_IF_FINETUNED,
                .routing = ROUTING_SOFT_ONE,
            },
    },
    {
        .name = "granite",
        .folder =
            {
                .classes =
                    CLASSES(CLASS("BambaForCausalLM", .like = "granitehybrid", .tokenizer = {.files = "mb"}),
                            CLASS("GraniteForCausalLM"),
                            CLASS("GraniteMoeHybridForCausalLM", .like = "granitehybrid",
                                  .tokenizer = {.files = "mb"})),
                .pairs = list_granite,
                .more = arch_permuted_rules,
                .left_out = granite_left_out,
                .finish = FINISH_ROPE_EVEN,
                .tokenizer = {.files = "mpb", .exceptions = TOKENS_LLAMA},
                .is_silu = true,
                .has_own_head = true,
            },
        .graph =
            {
                .mixers = {MIXER_ATTENTION},
                .ffns = {FFN_EXPERTS, FFN_GATED},
                .own = {OWN_SCALES_GRANITE},
                .qkv_bias = OPTIONAL,
                .output_bias = OPTIONAL,
                .ffn_bias = OPTIONAL,
                .free_head = true,
                .factors = FACTORS_LONGROPE,
                .no_rope = ROPE_IF_FINETUNED,
                .routing = ROUTING_SOFT_ONE,
            },
    },
    {
        .name = "granitemoe",
        .folder =
            {
                .classes = CLASSES(CLASS("BambaForCausalLM", .when = WHEN_USED, .text = "num_experts_per_tok",
                                         .like = "granitehybrid", .tokenizer = {.files = "mb"}),
                                   CLASS("GraniteMoeForCausalLM"),
                                   CLASS("GraniteMoeHybridForCausalLM", .when = WHEN_USED,
                                         .text = "num_experts_per_tok", .like = "granitehybrid",
                                         .tokenizer = {.files = "mb"}),
                                   CLASS("GraniteMoeSharedForCausalLM")),
                .pairs = list_granite_experts,
                .rules =
                    (const arch_rule[]){
                        P("block_sparse_moe.input_linear", "ffn_gate_exps|blk.#.ffn_up_exps", STEP_HALVES),
                        P("block_sparse_moe.output_linear", "ffn_down_exps", STEP_PLAIN),
                        P("shared_mlp.input_linear", "ffn_gate_shexp|blk.#.ffn_up_shexp", STEP_HALVES),
                        P("shared_mlp.output_linear", "ffn_down_shexp", STEP_PLAIN),
                        {0},
                    },
                .more = arch_permuted_rules,
                .left_out = granite_left_out,
                .finish = FINISH_ROPE_EVEN,
                .tokenizer = {.files = "mpb", .exceptions = TOKENS_LLAMA},
            },
        .graph =
            {
                .mixers = {MIXER_ATTENTION},
                .ffns = {FFN_EXPERTS},
                .has = {[WEIGHT_FFN_UP_SHEXP] = OPTIONAL},
                .own = {OWN_SCALES_GRANITE, OWN_SHARED_LENGTH},
                .qkv_bias = OPTIONAL,
                .output_bias = OPTIONAL,
                .ffn_bias = OPTIONAL,
                .free_head = true,
                .factors = FACTORS_LONGROPE,
                .routing = ROUTING_SOFT_ONE,
            },
    },
    {
        .name = "granite_swa",
        .graph =
            {
                .mixers = {MIXER_ATTENTION},
                .ffns = {FFN_EXPERTS, FFN_GATED},
                .has = {[WEIGHT_ATTN_SINKS] = REQUIRED,
                        [WEIGHT_FFN_GATE_UP_EXPS] = OPTIONAL,
                        [WEIGHT_EXPERT_CHOICE] = OPTIONAL,
                        [WEIGHT_FFN_UP_SHEXP] = OPTIONAL},
                .own = {OWN_SCALES_GRANITE},
                .qkv_bias = OPTIONAL,
                .output_bias = OPTIONAL,
                .ffn_bias = OPTIONAL,
                .free_head = true,
                .factors = FACTORS_LONGROPE,
                .window = WINDOW_REQUIRED,
                .pattern_list = true,
                .no_rope = ROPE_BY_PATTERN,
                .routing = ROUTING_GROUPS_SOFT_ONE,
                .fused_shared = true,
            },
    },
    {
        .name = "nemotron",
        .folder =
            {
                .classes = CLASSES(CLASS("NemotronForCausalLM")),
                .pairs =
                    (const arch_item[]){
                        LIST(arch_base),
                        U32(".vocab_size", "vocab_size"),
                        FLOAT(".attention.layer_norm_epsilon", NAMES_NORM "|norm_eps"),
                        SHARE(".rope.dimension_count", PAIR_SHARE_OF_WIDTH, "rope.partial_rotary_factor"),
                        ITEM(NULL, PAIR_ROPE_NEMOTRON),
                        END,
                    },
                .adds_one = true,
                .tokenizer = {.files = "m", .exceptions = TOKENS_NEMOTRON},
            },
        .graph =
            {
                .mixers = {MIXER_ATTENTION},
                .ffns = {FFN_PLAIN},
                .neox = true,
                .rope_partial = true,
                .norm = NORM_LAYER,
                .norm_bias = REQUIRED,
                .qkv_bias = OPTIONAL,
                .output_bias = OPTIONAL,
                .ffn_bias = OPTIONAL,
                .act = ACT_RELU2,
                .tied = TIED_NO,
            },
    },
    {
        .name = "nemotron_h",
        .folder =
            {
                .classes = CLASSES(CLASS("NemotronHForCausalLM")),
                .pairs = list_nemotron_h,
                .rules = nemotron_h_rules,
                .left_out = granite_left_out,
                .renames = arch_backbone_renames,
                .tokenizer = {.multiple = 8, .exceptions = TOKENS_BOS_ALWAYS},
                .predicting = {.is_one = true},
            },
        .graph =
            {
                .mixers = {MIXER_ATTENTION, MIXER_MAMBA2},
                .ffns = {FFN_PLAIN},
                .one_part = true,
                .qkv_bias = OPTIONAL,
                .output_bias = OPTIONAL,
                .ffn_bias = OPTIONAL,
                .free_head = true,
                .no_rope = ROPE_NEVER,
                .act = ACT_RELU2,
                .extra_layers = true,
            },
    },
    {
        .name = "nemotron_h_moe",
        .folder =
            {
                .classes =
                    CLASSES(CLASS("NemotronHForCausalLM", .when = WHEN_KEY, .text = "num_experts_per_tok")),
                .pairs =
                    (const arch_item[]){
                        LIST(list_nemotron_h),
                        U32(".expert_used_count", "num_experts_per_tok"),
                        U32(".expert_feed_forward_length", "moe_intermediate_size"),
                        U32(".expert_shared_feed_forward_length", "moe_shared_expert_intermediate_size"),
                        U32(".expert_count", NAMES_EXPERTS),
                        U32(".expert_shared_count", "n_shared_experts"),
                        BOOL(".expert_weights_norm", "norm_topk_prob"),
                        FLOAT(".expert_weights_scale", "routed_scaling_factor"),
                        U32(".expert_group_count", "n_group"),
                        U32_IF(".moe_latent_size", "moe_latent_size"),
                        {.key = ".nextn_predict_layers",
                         .make = PAIR_PREDICT,
                         .names = "num_nextn_predict_layers",
                         .need = IF_NOT_ZERO},
                        END,
                    },
                .rules = nemotron_h_rules,
                .left_out = granite_left_out,
                .renames = arch_backbone_renames,
                .tokenizer = {.multiple = 8},
                .predicting = {.key = "num_nextn_predict_layers", .most = 1, .is_one = true},
            },
        .graph =
            {
                .mixers = {MIXER_ATTENTION, MIXER_MAMBA2},
                .ffns = {FFN_EXPERTS, FFN_PLAIN},
                .one_part = true,
                .has = {[WEIGHT_EXPERT_CHOICE] = OPTIONAL,
                        [WEIGHT_FFN_UP_SHEXP] = OPTIONAL,
                        [WEIGHT_FFN_LATENT_DOWN] = OPTIONAL},
                .qkv_bias = OPTIONAL,
                .output_bias = OPTIONAL,
                .free_head = true,
                .no_rope = ROPE_NEVER,
                .act = ACT_RELU2,
                .routing =
                    {.function = ROUTER_SIGMOID, .sum = SUM_BY_KEY, .scale_key = true, .has_groups = true},
                .plain_experts = true,
                .extra_layers = true,
            },
    },
    {.name = NULL},
};
