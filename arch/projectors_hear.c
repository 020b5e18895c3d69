/* Projectors of models that hear. */
#include "arch/projectors.h"

static const char *const takes_audio[] = {"^audio_tower.", "^multi_modal_projector.", NULL};

#define WHISPER_PAIRS \
    LIST(clip_hears), U32(".audio.num_mel_bins", "audio.num_mel_bins"), \
        FLOAT_OR(".audio.attention.layer_norm_epsilon", "audio.layer_norm_eps", 1e-5)
#define STACK(n) U32(".audio.projector.stack_factor", n)

const arch_projector arch_projectors_hear[] = {
    {.classes = NAMES("Qwen2AudioForConditionalGeneration"),
     .audio = "audio_config",
     .takes = takes_audio,
     .is_f16 = NAMES("a.conv1d.1.weight", "a.conv1d.2.weight"),
     .folder = {.pairs = PAIRS(WHISPER_PAIRS, KIND("qwen2a")),
                .rules = RULES(WHISPER("audio_tower."), RULE("multi_modal_projector.linear", "mm.a.fc"))}},
    {.classes = NAMES("UltravoxModel"),
     .audio = "audio_config",
     .takes = takes_audio,
     .is_f16 = NAMES("a.conv1d.1.weight", "a.conv1d.2.weight"),
     .folder = {.pairs = PAIRS(WHISPER_PAIRS, KIND("ultravox"), STACK("root.stack_factor")),
                .rules = RULES(WHISPER("audio_tower."), RULE("multi_modal_projector.linear_#", "mm.a.mlp.#"),
                               RULE("multi_modal_projector.ln_pre", "mm.a.norm_pre"),
                               RULE("multi_modal_projector.ln_mid", "mm.a.norm_mid"))}},
    {.classes = NAMES("VoxtralForConditionalGeneration"),
     .audio = "audio_config",
     .takes = takes_audio,
     .is_f16 = NAMES("a.conv1d.1.weight", "a.conv1d.2.weight"),
     .folder = {.pairs = PAIRS(WHISPER_PAIRS, KIND("voxtral"), U32_IS(".audio.projector.stack_factor", 4)),
                .rules =
                    RULES(WHISPER("audio_tower."), RULE("multi_modal_projector.linear_#", "mm.a.mlp.#"))}},
    {.classes = NAMES("AudioFlamingo3ForConditionalGeneration"),
     .audio = "audio_config",
     .takes = takes_audio,
     .is_f32 = NAMES("a.conv1d.1.weight", "a.conv1d.2.weight"),
     .folder = {.pairs = PAIRS(WHISPER_PAIRS, KIND("musicflamingo")),
                .rules =
                    RULES(WHISPER("audio_tower."), RULE("multi_modal_projector.linear_#", "mm.a.mlp.#"))}},
    {.classes = NAMES("MERaLiON2ForConditionalGeneration"),
     .audio = "speech_config",
     .takes = NAMES("^speech_encoder.", "^ln_speech.", "^speech_audio_adapter."),
     .is_f16 = NAMES("a.conv1d.1.weight", "a.conv1d.2.weight"),
     .folder = {.pairs = PAIRS(WHISPER_PAIRS, KIND("meralion"),
                               U32_OR(".audio.projector.stack_factor", "root.speech_mlp_scale_factor", 15)),
                .rules = RULES(WHISPER("speech_encoder."), RULE("ln_speech", "mm.a.norm_pre"),
                               RULE("speech_audio_adapter.mlp_adapter.0", "mm.a.mlp.0"),
                               RULE("speech_audio_adapter.gate_proj", "mm.a.mlp.1"),
                               RULE("speech_audio_adapter.pool_proj", "mm.a.mlp.2"),
                               RULE("speech_audio_adapter.out_proj", "mm.a.mlp.3"))}},
    {.classes = NAMES("GlmasrModel"),
     .audio = "whisper_config",
     .takes = NAMES("^audio_encoder."),
     .is_f16 = NAMES("a.conv1d.1.weight", "a.conv1d.2.weight"),
     .folder = {.pairs = PAIRS(WHISPER_PAIRS, KIND("glma"), STACK("root.merge_factor")),
                .rules = RULES(WHISPER("audio_encoder.whisper."),
                               RULE("audio_encoder.layer_norm", "mm.a.norm_pre"),
                               RULE("audio_encoder.adapting.0", "mm.a.mlp.1"),
                               RULE("audio_encoder.adapting.2", "mm.a.mlp.2"),
                               RULE("audio_encoder.audio_bos_eos_token.weight", "v.boi|v.eoi", STEP_ROWS)),
                .left_out = NAMES("^audio_encoder.proj.")}},
    {.classes = NAMES("Qwen3ASRForConditionalGeneration"),
     .audio = "thinker_config.audio_config",
     .takes = NAMES("^thinker.audio_tower.", "^audio_tower."),
     .is_f16 = NAMES("a.conv2d.1.weight", "a.conv2d.2.weight", "a.conv2d.3.weight", "a.conv_out.weight"),
     .folder = {.pairs = PAIRS(WHISPER_PAIRS, KIND_OF("audio", "qwen3a")),
                .rules = RULES(RULE("audio_tower.conv2d#.bias", "a.conv2d.#.bias", STEP_COLUMNS_2),
                               RULE("audio_tower.conv2d#", "a.conv2d.#"),
                               RULE("audio_tower.conv_out", "a.conv_out"),
                               RULE("audio_tower.proj#", "mm.a.mlp.#"), WHISPER("audio_tower.")),
                .renames = RENAMES({"thinker.", "", AT_BEGIN}),
                .finish = FINISH_SINUSOIDS}},
    {.classes = NULL},
};
