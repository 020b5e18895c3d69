/* LLaMA, Mistral, and those that keep to them. */
#include "arch/rows.h"

const architecture arch_rows_llama[] = {
    {
        .name = "llama",
        .folder =
            {
                .classes = CLASSES(
                    CLASS("IQuestCoderForCausalLM", .when = WHEN_NO_DRAFT),
                    CLASS("InternLM3ForCausalLM",
                          .tokenizer = {.files = "m", .exceptions = TOKENS_INTERNLM3 | TOKENS_SPACE_IS_TOLD}),
                    CLASS("LLaMAForCausalLM", .when = WHEN_NO_DRAFT),
                    CLASS("LlamaForCausalLM", .when = WHEN_NO_DRAFT),
                    CLASS("LlamaModel", .when = WHEN_NO_DRAFT), CLASS("LlavaForConditionalGeneration"),
                    CLASS("MistralForCausalLM"), CLASS("MixtralForCausalLM"), CLASS("VLlama3ForCausalLM"),
                    CLASS("VoxtralForConditionalGeneration")),
                .pairs = arch_llama,
                .more = arch_permuted_rules,
                .renames = (const arch_rename[]){{"text_model.", "", ANYWHERE}, {0}},
                .finish = FINISH_ROPE,
                .tokenizer = {.files = "mpb", .exceptions = TOKENS_LLAMA},
                .is_silu = true,
                .has_own_head = true,
            },
        .graph =
            {
                .mixers = {MIXER_ATTENTION},
                .ffns = {FFN_EXPERTS, FFN_GATED},
                .free_head = true,
                .qkv_bias = OPTIONAL,
                .output_bias = OPTIONAL,
                .ffn_bias = OPTIONAL,
                .factors = FACTORS_LONGROPE,
                .routing = ROUTING_SOFT_ONE,
            },
        .mix = {.big_blocks = 80, .big_if_grouped = true},
    },
    {
        .name = "llama4",
        .folder =
            {
                .classes = CLASSES(CLASS("Llama4ForCausalLM"), CLASS("Llama4ForConditionalGeneration")),
                .pairs =
                    (const arch_item[]){
                        LIST(arch_llama),
                        U32(".feed_forward_length", "intermediate_size_mlp"),
                        U32(".expert_feed_forward_length", "intermediate_size"),
                        U32(".interleave_moe_layer_step", "interleave_moe_layer_step"),
                        ITEM(".attention.sliding_window", PAIR_OWN_LLAMA4_WINDOW),
                        END,
                    },
                .rules =
                    (const arch_rule[]){
                        P("feed_forward.experts.gate_up_proj", "ffn_gate_exps|blk.#.ffn_up_exps",
                          STEP_TURNED_HALVES),
                        P("feed_forward.experts.down_proj", "ffn_down_exps", STEP_TURNED),
                        {0},
                    },
                .finish = FINISH_ROPE,
                .assumed_key = "attention_chunk_size",
                .assumed = 8192,
                .mlx = MLX_TURNS_EXPERTS,
            },
        .graph =
            {
                .mixers = {MIXER_ATTENTION},
                .ffns = {FFN_EXPERTS, FFN_GATED},
                .has = {[WEIGHT_EXPERT_CHOICE] = OPTIONAL, [WEIGHT_FFN_UP_SHEXP] = REQUIRED},
                .own = {OWN_GROWING_QUERIES},
                .qk = QK_UNWEIGHTED,
                .qk_after_rope = true,
                .qkv_bias = OPTIONAL,
                .free_head = true,
                .factors = FACTORS_LONGROPE,
                .window = WINDOW_CHUNKS,
                .window_default = 8192,
                .period_default = 4,
                .local_rope = LOCAL_BASE_SWA,
                .no_rope = ROPE_NOT_FOURTH,
                .routing =
                    {.function = ROUTER_SIGMOID, .has_groups = true, .is_late = true, .scales_inputs = true},
                .experts_by_number = true,
            },
    },
    {
        .name = "mistral3",
        .folder =
            {
                .classes = CLASSES(CLASS("Ministral3ForCausalLM"), CLASS("Mistral3ForConditionalGeneration")),
                .pairs =
                    (const arch_item[]){
                        LIST(arch_llama),
                        ITEM(NULL, PAIR_ROPE_MISTRAL),
                        END,
                    },
                .more = arch_permuted_rules,
                .finish = FINISH_ROPE,
                .tokenizer = {.files = "mpb", .exceptions = TOKENS_LLAMA},
                .is_silu = true,
                .has_own_head = true,
            },
        .graph =
            {
                .mixers = {MIXER_ATTENTION},
                .ffns = {FFN_EXPERTS, FFN_GATED},
                .own = {OWN_YARN_BETAS},
                .qkv_bias = OPTIONAL,
                .output_bias = OPTIONAL,
                .ffn_bias = OPTIONAL,
                .free_head = true,
                .factors = FACTORS_LONGROPE,
                .log_multiplier = 1.0,
                .temperature = true,
                .routing = ROUTING_SOFT_ONE,
            },
    },
    {
        .name = "arcee",
        .folder =
            {
                .classes = CLASSES(CLASS("ArceeForCausalLM")),
                .pairs = arch_llama,
                .more = arch_permuted_rules,
                .finish = FINISH_ROPE,
                .tokenizer = {.files = "mpb", .exceptions = TOKENS_LLAMA},
            },
        .graph =
            {
                .mixers = {MIXER_ATTENTION},
                .ffns = {FFN_PLAIN},
                .qkv_bias = OPTIONAL,
                .free_head = true,
                .factors = FACTORS_LONGROPE,
                .act = ACT_RELU2,
            },
    },
    {
        .name = "smollm3",
        .folder =
            {
                .classes = CLASSES(CLASS("SmolLM3ForCausalLM")),
                .pairs = arch_llama,
                .more = arch_permuted_rules,
                .finish = FINISH_ROPE,
                .tokenizer = {.files = "mpb", .exceptions = TOKENS_LLAMA},
                .is_silu = true,
                .assumed_key = "no_rope_layer_interval",
                .assumed = 4,
            },
        .graph =
            {
                .mixers = {MIXER_ATTENTION},
                .ffns = {FFN_GATED},
                .qkv_bias = OPTIONAL,
                .free_head = true,
                .no_rope = ROPE_NOT_FOURTH,
            },
    },
    {
        .name = "apertus",
        .folder =
            {
                .classes = CLASSES(CLASS("ApertusForCausalLM")),
                .pairs = arch_llama,
                .rules =
                    (const arch_rule[]){
                        P("attention_layernorm", "attn_norm", STEP_PLAIN),
                        P("feedforward_layernorm", "ffn_norm", STEP_PLAIN),
                        P("mlp.act_fn.alpha_p", "", STEP_DROP),
                        P("mlp.act_fn.alpha_n", "", STEP_DROP),
                        P("mlp.act_fn.beta", "", STEP_DROP),
                        P("mlp.act_fn.eps", "", STEP_DROP),
                        {0},
                    },
                .finish = FINISH_ROPE,
                .tokenizer = {.files = "mpb", .exceptions = TOKENS_LLAMA},
                .tensor_pairs = TENSOR_PAIRS_XIELU,
            },
        .graph =
            {
                .mixers = {MIXER_ATTENTION},
                .ffns = {FFN_PLAIN},
                .own = {OWN_XIELU},
                .neox = true,
                .qk = QK_HEAD,
                .qkv_bias = OPTIONAL,
                .output_bias = OPTIONAL,
                .free_head = true,
                .factors = FACTORS_LONGROPE,
                .act = ACT_XIELU,
                .tied = TIED_NO,
            },
    },
    {
        .name = "internlm2",
        .folder =
            {
                .classes = CLASSES(CLASS("InternLM2ForCausalLM")),
                .pairs = arch_base,
                .rules =
                    (const arch_rule[]){
                        {"model.tok_embeddings", "token_embd", STEP_PLAIN},
                        {"output", "output", STEP_PLAIN},
                        P("attention_norm", "attn_norm", STEP_PLAIN),
                        P("ffn_norm", "ffn_norm", STEP_PLAIN),
                        P("attention.wqkv", "attn_q|blk.#.attn_k|blk.#.attn_v", STEP_QKV_GROUPS_3),
                        P("attention.wo", "attn_output", STEP_PLAIN),
                        {0},
                    },
                .tokenizer = {.files = "m", .exceptions = TOKENS_INTERNLM2},
            },
        .graph =
            {
                .mixers = {MIXER_ATTENTION},
                .ffns = {FFN_GATED},
                .qkv_bias = OPTIONAL,
                .tied = TIED_NO,
            },
    },
    {
        .name = "minicpm",
        .folder =
            {
                .classes = CLASSES(CLASS("MiniCPMForCausalLM")),
                .pairs =
                    (const arch_item[]){
                        LIST(arch_base),
                        ITEM(NULL, PAIR_OWN_MINICPM),
                        END,
                    },
                .more = arch_permuted_rules,
                .finish = FINISH_FACTORS_WHOLE,
                .tokenizer = {.files = "m"},
            },
        .graph =
            {
                .mixers = {MIXER_ATTENTION},
                .ffns = {FFN_EXPERTS, FFN_GATED},
                .own = {OWN_SCALES_DEPTH},
                .qkv_bias = OPTIONAL,
                .output_bias = OPTIONAL,
                .ffn_bias = OPTIONAL,
                .free_head = true,
                .factors = FACTORS_LONGROPE,
                .routing = ROUTING_SOFT_ONE,
            },
        .by_number = {{.what = BY_NUMBER_SCALES, .unless = "residual_scale"}},
    },
    {
        .name = "seed_oss",
        .folder =
            {
                .classes = CLASSES(CLASS("SeedOssForCausalLM")),
                .pairs = arch_base,
                .rules = arch_after_attention,
            },
        .graph =
            {
                .mixers = {MIXER_ATTENTION},
                .ffns = {FFN_GATED},
                .neox = true,
                .place = PLACE_PAN,
                .qkv_bias = OPTIONAL,
                .free_head = true,
            },
    },
    {
        .name = "nanbeige",
        .graph =
            {
                .mixers = {MIXER_ATTENTION},
                .ffns = {FFN_GATED},
                .own = {OWN_LOOPS},
                .qkv_bias = OPTIONAL,
                .free_head = true,
                .factors = FACTORS_FREQS,
            },
    },
    {
        .name = "refact",
        .graph =
            {
                .mixers = {MIXER_ATTENTION},
                .ffns = {FFN_GATED},
                .alibi = 8,
                .factors = FACTORS_UNUSED,
                .qkv_bias = OPTIONAL,
                .output_bias = UNUSED,
                .ffn_bias = UNUSED,
                .free_head = true,
                .no_rope = ROPE_NEVER,
            },
    },
    {
        .name = "xverse",
        .graph =
            {
                .mixers = {MIXER_ATTENTION},
                .ffns = {FFN_GATED},
                .qkv_bias = OPTIONAL,
                .tied = TIED_NO,
            },
    },
    {
        .name = "baichuan",
        .graph =
            {
                .mixers = {MIXER_ATTENTION},
                .ffns = {FFN_GATED},
                .own = {OWN_POSITIONS_BY_NUMBER},
                .alibi = 8,
                .qkv_bias = OPTIONAL,
                .tied = TIED_NO,
            },
        .by_number = {{.what = BY_NUMBER_ROPE, .least = 32, .most = 32},
                      {.what = BY_NUMBER_ALIBI, .least = 40, .most = 40}},
    },
    {
        .name = "pangu-embedded",
        .graph =
            {
                .mixers = {MIXER_ATTENTION},
                .ffns = {FFN_GATED},
                .neox = true,
                .factors = FACTORS_UNUSED,
                .qkv_bias = OPTIONAL,
                .output_bias = REQUIRED,
                .free_head = true,
            },
    },
    {
        .name = "maincoder",
        .graph =
            {
                .mixers = {MIXER_ATTENTION},
                .ffns = {FFN_GATED},
                .qk = QK_HEAD,
                .qk_after_rope = true,
                .qkv_bias = OPTIONAL,
                .free_head = true,
            },
    },
    {.name = NULL},
};
