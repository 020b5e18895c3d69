#!/usr/bin/env python3
"""hf_class_folders.py SHARED DIR [NAME...]: writes small random folders from Hugging Face, at least one for each class of models

Those of architectures whose classes SHARED/models/make_hf.py and make_hf2.py leave out; it uses their parts, so files are the same on
every run and machine. config.json has the keys that published models of the class have. tests/golden/hf has what llama.cpp's
converter makes of the folders (tests/hf/make_hf_golden). Prints the name of the cut of each tokenizer, which the converter is told.
"""
import pathlib
import sys

sys.dont_write_bytecode = True
ROOT = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "../shared")
sys.path.insert(0, str(ROOT / "models"))
sys.path.insert(1, str(pathlib.Path(__file__).resolve().parent))
import hf_draft_folders  # noqa: E402
import hf_family_folders  # noqa: E402
import hf_later_folders  # noqa: E402
import hf_rest_folders  # noqa: E402
import make_hf2 as m2  # noqa: E402
from make_hf import Folder, TEXT, bpe, common, llama_tensors, safetensors, spm, store, uniform, write  # noqa: E402

FOLDERS = {**hf_draft_folders.FOLDERS, **hf_family_folders.FOLDERS, **hf_later_folders.FOLDERS, **hf_rest_folders.FOLDERS}


def folder(make):
    FOLDERS[make.__name__.replace("_", "-").replace("-dot-", ".")] = make
    return make


# ---- parts

def tokens(f, pre="qwen2", added=("<|endoftext|>", "<|im_start|>", "<|im_end|>"), eos="<|im_end|>", pad="<|endoftext|>", **other):
    """A tokenizer of merges of bytes: the number of tokens, and ids by texts."""
    f.pre = pre
    return bpe(f.path, pre, added=added, eos=eos, pad=pad, **other)


def chat(f, pre="qwen2", **other):
    return tokens(f, pre, pairs=True, **other)[0]


def experts(f, b, width, inner, n, gate="gate", bias="gate.e_score_correction_bias", base="experts", names=("gate_proj", "up_proj", "down_proj")):
    """A router, a bias of its choices, and n experts, under b."""
    f.lin(b + gate, n, width)
    if bias:
        f.add(b + bias, n, dtype="F32")
    m2.exps(f, b + base, width, inner, n, names)


def predict(f, b, width, norms=("enorm", "hnorm", "shared_head.norm"), eh="eh_proj"):
    """What a predicting block has beside a layer's arrays."""
    f.lin(b + eh, width, 2 * width)
    for x in norms:
        f.norm(b + x, width)


def text(model_type, *sizes, **other):
    """A text_config: without the class, which the root has."""
    return common("-", model_type, *sizes, architectures="-", **other)


def ends(f, n, width, tied=False):
    f.norm("model.norm", width)
    if not tied:
        f.lin("lm_head", n, width)


def layers(n, kinds):
    """Kinds of layers by letters, repeated: S sliding, F full attention."""
    return [{"S": "sliding_attention", "F": "full_attention", "L": "linear_attention"}[kinds[i % len(kinds)]] for i in range(n)]


VISION = {"depth": 1, "hidden_size": 16, "num_heads": 1}


def tower(f, prefix="model.visual."):
    f.lin(prefix + "blocks.0.attn.qkv", 48, 16)


# ---- classes whose tensors are another class's: mostly the text part of models that see or hear

@folder
def gemma_embedding(f, D=64, N=3, H=4, hd=32, FF=96):
    """A sentence transformer: mean pooling, two dense heads, normalisation"""
    n, _ = spm(f.path, "gemma", unused=2, prefix=False, decoder={"4": {"content": "<start_of_turn>", "lstrip": False, "normalized": False,
                                                                      "rstrip": False, "single_word": False, "special": True}})
    f.pre = "default"
    llama_tensors(f, D, N, H, 1, hd, FF, n, p="", tied=1, n1=0.0, norms=("input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
                                                                       "post_feedforward_layernorm"), qkn="head")
    st = "sentence_transformers.models."
    write(f.path, "modules.json", [{"idx": 0, "name": "0", "path": "", "type": st + "Transformer"}, {"idx": 1, "name": "1", "path": "1_Pooling", "type": st + "Pooling"},
                                   {"idx": 2, "name": "2", "path": "2_Dense", "type": st + "Dense"}, {"idx": 3, "name": "3", "path": "3_Dense", "type": st + "Dense"},
                                   {"idx": 4, "name": "4", "path": "4_Normalize", "type": st + "Normalize"}])
    for name in ("1_Pooling", "2_Dense", "3_Dense"):
        (pathlib.Path(f.path) / name).mkdir(exist_ok=True)
    write(f.path, "1_Pooling/config.json", {"word_embedding_dimension": D, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True,
                                           "pooling_mode_max_tokens": False, "pooling_mode_lasttoken": False, "include_prompt": True})
    for name, out, width in (("2_Dense", 160, D), ("3_Dense", D, 160)):
        write(f.path, name + "/config.json", {"in_features": width, "out_features": out, "bias": False, "activation_function": "torch.nn.modules.linear.Identity"})
        safetensors(pathlib.Path(f.path) / name / "model.safetensors", {"linear.weight": store(uniform(f"dense/{name}", (out, width), -0.1, 0.1), "F32")})
    f.finish(common("Gemma3TextModel", "gemma3_text", D, N, H, 1, FF, n, head_dim=hd, attn_logit_softcapping=None, final_logit_softcapping=None,
                    query_pre_attn_scalar=32, sliding_window=512, _sliding_window_pattern=6, rope_local_base_freq=10000.0, rope_theta=1000000.0,
                    rope_scaling=None, use_bidirectional_attention=True, bos_token_id=2, eos_token_id=1, pad_token_id=0, rms_norm_eps=1e-06,
                    max_position_embeddings=2048, tie_word_embeddings="-"))


@folder
def gemma4_unified(f, D=64, H=4, hd=32, hds=16, FF=96):
    n, kinds = m2.gemma4_tok(f), [0, 0, 1]
    settings = pathlib.Path(f.path) / "tokenizer_config.json"  # the class of Gemma's adds tokens to a vocabulary that lacks them
    settings.write_text(settings.read_text().replace('"GemmaTokenizer"', '"PreTrainedTokenizerFast"'))
    m2.gemma4_tensors(f, "model.language_model.", D, kinds, H, (2, 1), hd, hds, FF, 0, 0, n, kv_eq=1, wide=0)
    f.lin("model.embed_vision.embedding_projection", 8, 8)
    f.finish({"architectures": ["Gemma4UnifiedForConditionalGeneration"], "model_type": "gemma4_unified", "eos_token_id": [1, 5],
              "vision_config": {"model_type": "gemma4_vision"}, "audio_config": None,
              "text_config": m2.gemma4_conf(D, kinds, H, (2, 1), hd, hds, FF, n, num_kv_shared_layers=0, hidden_size_per_layer_input=0,
                                            use_double_wide_mlp=False, attention_k_eq_v=True, enable_moe_block=False,
                                            moe_intermediate_size=None, num_experts=None, top_k_experts=None, num_global_key_value_heads=1)},
             generation={"temperature": 1.0, "top_k": 64, "top_p": 0.95, "eos_token_id": [1, 5], "suppress_tokens": [7, 8]})


def kimi25(f, name, model_type, part, lm, D=64, N=3, H=4, n=16, r=8, v=16, lora=24, q=32, FF=96, F=32, E=4):
    vocabulary = chat(f)
    p = lm + "model."
    f.add(p + "embed_tokens.weight", vocabulary, D)
    for i in range(N):
        b = f"{p}layers.{i}."
        f.norm(b + "input_layernorm", D), f.norm(b + "post_attention_layernorm", D)
        m2.mla(f, b + "self_attn.", D, H, n, r, v, lora, q)
        if i == 0:
            m2.ffn(f, b + "mlp.", D, FF)
        else:
            experts(f, b + "mlp.", D, F, E)
            m2.ffn(f, b + "mlp.shared_experts.", D, F)
    f.norm(p + "norm", D), f.lin(lm + "lm_head", vocabulary, D)
    f.lin("vision_tower.encoder.blocks.0.wqkv", 48, 16), f.lin("mm_projector.linear_1", 16, 16)
    rope = {"beta_fast": 1.0, "beta_slow": 1.0, "factor": 32.0, "mscale": 1.0, "mscale_all_dim": 1.0,
            "original_max_position_embeddings": 4096, "type": "yarn"}
    config = common("DeepseekV3ForCausalLM", "kimi_k2", D, N, H, H, FF, vocabulary, first_k_dense_replace=1, kv_lora_rank=lora, q_lora_rank=q,
                    moe_intermediate_size=F, moe_layer_freq=1, n_group=1, n_routed_experts=E, n_shared_experts=1, norm_topk_prob=True,
                    num_experts_per_tok=2, num_nextn_predict_layers=0, qk_nope_head_dim=n, qk_rope_head_dim=r, v_head_dim=v,
                    rope_scaling=rope, rope_theta=50000.0, routed_scaling_factor=2.827, scoring_func="sigmoid", topk_group=1,
                    topk_method="noaux_tc", max_position_embeddings=131072)
    f.finish({"architectures": [name], "model_type": model_type, part: config, "vision_config": VISION, "tie_word_embeddings": False}, shards=2)


@folder
def kimi_k25(f):
    kimi25(f, "KimiK25ForConditionalGeneration", "kimi_k25", "text_config", "language_model.")


@folder
def youtu_vl(f, D=64, N=2, H=4, n=16, r=8, v=16, lora=24, q=32, FF=96):
    vocabulary = chat(f, "llama-bpe")
    f.add("model.embed_tokens.weight", vocabulary, D)
    for i in range(N):
        b = f"model.layers.{i}."
        f.norm(b + "input_layernorm", D), f.norm(b + "post_attention_layernorm", D)
        m2.mla(f, b + "self_attn.", D, H, n, r, v, lora, q)
        m2.ffn(f, b + "mlp.", D, FF)
    f.norm("model.norm", D)
    f.lin("siglip2.vision_model.encoder.layers.0.self_attn.q_proj", 16, 16), f.lin("merger.mlp.0", 16, 16)
    f.finish(common("YoutuVLForConditionalGeneration", "youtu_vl", D, N, H, H, FF, vocabulary, kv_lora_rank=lora, q_lora_rank=q, qk_nope_head_dim=n,
                    qk_rope_head_dim=r, qk_head_dim=n + r, v_head_dim=v, rope_interleave=True, rope_scaling=None, rope_theta=500000,
                    tie_word_embeddings=True, attention_bias=False, head_dim=r, mlp_bias=False, vision_config=VISION))


GLM_TOKENS = ("<|endoftext|>", "[MASK]", "[gMASK]", "[sMASK]", "<sop>", "<eop>", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>")


def glm_tokens(f):
    made = tokens(f, "dbrx", added=GLM_TOKENS, eos="<|endoftext|>", pairs=True)
    f.pre = "glm4"  # another name of the same cut
    return made


def glm4(f, prefix, D, N, H, K, hd, FF, n, extra=0):
    for i in range(N + extra):
        b = f"{prefix}layers.{i}."
        for x in ("input_layernorm", "post_self_attn_layernorm", "post_attention_layernorm", "post_mlp_layernorm"):
            f.norm(b + x, D)
        m2.attn(f, b + "self_attn.", D, H, K, hd, qb=1)
        f.lin(b + "mlp.gate_up_proj", 2 * FF, D), f.lin(b + "mlp.down_proj", D, FF)
        if i >= N:
            predict(f, b, D)
    f.norm(prefix + "norm", D)


@folder
def glm4v(f, D=64, N=2, H=4, K=2, hd=16, FF=96):
    n, ids = glm_tokens(f)
    f.add("model.language_model.embed_tokens.weight", n, D)
    glm4(f, "model.language_model.", D, N, H, K, hd, FF, n)
    f.lin("lm_head", n, D), tower(f)
    config = text("glm4v_text", D, N, H, K, FF, n, eos_token_id=[ids["<|endoftext|>"], ids["<|user|>"]], attention_bias=True, rope_theta="-",
                  rope_parameters={"rope_type": "default", "mrope_section": [2, 3, 3], "partial_rotary_factor": 0.5, "rope_theta": 10000.0})
    f.finish({"architectures": ["Glm4vForConditionalGeneration"], "model_type": "glm4v", "text_config": config, "vision_config": VISION,
              "tie_word_embeddings": False})


@folder
def glm_ocr(f, D=64, N=2, H=4, K=2, hd=32, FF=96):
    n, ids = glm_tokens(f)
    f.add("model.language_model.embed_tokens.weight", n, D)
    glm4(f, "model.language_model.", D, N, H, K, hd, FF, n, extra=1)
    f.lin("lm_head", n, D), tower(f)
    config = text("glm_ocr_text", D, N, H, K, FF, n, head_dim=hd, eos_token_id=[ids["<|endoftext|>"], ids["<|user|>"]], attention_bias=False,
                  num_nextn_predict_layers=1, rope_theta="-",
                  rope_parameters={"rope_type": "default", "mrope_section": [4, 6, 6], "partial_rotary_factor": 1.0, "rope_theta": 10000.0})
    f.finish({"architectures": ["GlmOcrForConditionalGeneration"], "model_type": "glm_ocr", "text_config": config, "vision_config": VISION,
              "tie_word_embeddings": False})


@folder
def solar_open(f, D=64, N=2, H=4, K=2, hd=16, F=32, E=4):
    n, ids = tokens(f, "llama-bpe", added=("<|startoftext|>", "<|endoftext|>", "<unk>", "<|im:start|>", "<|im:end|>"), bos="<|startoftext|>",
                    eos="<|endoftext|>", pairs=True)

    def moe(f, b, i):
        experts(f, b + "mlp.", D, F, E)
        m2.ffn(f, b + "mlp.shared_experts.", D, F)
        return True

    llama_tensors(f, D, N, H, K, hd, 96, n, moe=moe)
    f.finish(common("SolarOpenForCausalLM", "solar_open", D, N, H, K, 96, n, head_dim=hd, attention_bias=False, first_k_dense_replace=0,
                    moe_intermediate_size=F, n_group=1, n_routed_experts=E, n_shared_experts=1, norm_topk_prob=True, num_experts_per_tok=2,
                    partial_rotary_factor=1.0, rope_scaling={"factor": 2.0, "original_max_position_embeddings": 65536, "type": "yarn"},
                    rope_theta=1000000, routed_scaling_factor=1.0, topk_group=1, use_qk_norm=False, eos_token_id=[ids["<|endoftext|>"]]))


@folder
def sarvam_moe(f, D=64, N=2, H=4, K=2, hd=16, FF=96, E=4, F=32):
    n = chat(f, "gpt-2")
    f.add("model.word_embeddings.weight", n, D)
    for i in range(N):
        b = f"model.layers.{i}."
        a = b + "attention."
        f.norm(b + "input_layernorm", D), f.norm(b + "post_attention_layernorm", D)
        f.lin(a + "query_key_value", (H + 2 * K) * hd, D), f.lin(a + "dense", D, H * hd)
        f.norm(a + "query_layernorm", hd), f.norm(a + "key_layernorm", hd)
        if i == 0:
            m2.ffn(f, b + "mlp.", D, FF)
        else:
            experts(f, b + "mlp.", D, F, E, bias="gate.expert_bias")
            m2.ffn(f, b + "mlp.shared_experts.", D, F)
    ends(f, n, D)
    f.finish(common("SarvamMoEForCausalLM", "sarvam_moe", D, N, H, K, FF, n, head_dim=hd, first_k_dense_replace=1, moe_intermediate_size=F,
                    moe_router_enable_expert_bias=True, moe_router_enable_routed_scaling=True, moe_shared_expert_intermediate_size=F,
                    n_group=1, norm_topk_prob=True, num_experts=E, num_experts_per_tok=2, num_shared_experts=1, routed_scaling_factor=2.5,
                    score_function="sigmoid", topk_group=1, use_bias=False, use_qk_norm=True, use_qkv_bias=False, rope_theta=8000000,
                    rope_scaling=None, auto_map={"AutoConfig": "configuration_sarvam_moe.SarvamMoEConfig"}))


@folder
def nemotron_puzzle(f, D=64, H=4, K=2, hd=16, Nn=16, Hm=8, p=8, G=2, w=4, E=4, F=(32, 24), S=40, latent=24):
    n, _ = tokens(f, "tekken", added=("<unk>", "<s>", "<|im_end|>"), first=True, bos="<s>", unk="<unk>", pad=None)
    V = -(-n // 8) * 8
    f.add("model.embeddings.weight", V, D)
    for i, kind in enumerate("ME*E"):
        m2.nemo(f, "model.", kind, D, H, K, hd, 0, Hm * p, Nn, Hm, G, w, E, F[i == 3], S, latent, first=i)
    f.norm("model.norm_f", D), f.lin("lm_head", V, D)
    f.lin("mtp.layers.0.eh_proj", D, 2 * D)
    moe = [{"block_type": "moe", "moe_intermediate_size": x, "num_experts_per_tok": k, "n_routed_experts": E} for x, k in zip(F, (2, 3))]
    config = m2.nemo_conf("ME*E", D, H, K, hd, F[0], Nn, Hm, p, G, w, V, norm_eps=1e-5, moe_latent_size=latent, n_routed_experts=E,
                          moe_shared_expert_intermediate_size=S, n_shared_experts=1, norm_topk_prob=True, n_group=1, topk_group=1,
                          routed_scaling_factor=5.0, num_nextn_predict_layers=1, bos_token_id=1, eos_token_id=2,
                          block_configs=[{"block_type": "mamba"}, moe[0], {"block_type": "attention"}, moe[1]])
    config.update(architectures=["NemotronHPuzzleForCausalLM"], model_type="nemotron_h_puzzle")
    for key in ("hybrid_override_pattern", "intermediate_size"):
        config.pop(key, None)
    f.finish(config)


@folder
def exaone4_5(f, D=64, N=4, H=4, K=2, hd=16, FF=96):
    n = chat(f, added=("[BOS]", "<|endoftext|>", "[|endofturn|]", "[PAD]"), bos="[BOS]", eos="[|endofturn|]", pad="[PAD]")
    p = "model.language_model."
    llama_tensors(f, D, N, H, K, hd, FF, n, p=p, qkn="head", norms=("post_attention_layernorm", "post_feedforward_layernorm"))
    llama_tensors(f, D, 1, H, K, hd, FF, n, p="mtp.", qkn="head", norms=("post_attention_layernorm", "post_feedforward_layernorm"), tied=1)
    del f.t["mtp.embed_tokens.weight"]
    f.lin("mtp.fc", D, 2 * D), f.norm("mtp.pre_fc_norm_embedding", D), f.norm("mtp.pre_fc_norm_hidden", D)
    tower(f)
    config = text("exaone4_5_text", D, N, H, K, FF, n, head_dim=hd, layer_types=layers(N, "SSSF"), sliding_window=64,
                  sliding_window_pattern="LLLG", num_nextn_predict_layers=1, rope_theta="-",
                  rope_parameters={"factor": 16.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 8192,
                                   "rope_type": "llama3", "rope_theta": 1000000})
    f.finish({"architectures": ["Exaone4_5_ForConditionalGeneration"], "model_type": "exaone4_5", "text_config": config, "vision_config": VISION,
              "tie_word_embeddings": False})


@folder
def minicpm_v_4_6(f, D=64, N=4, H=4, K=2, hd=16, FF=96, G=2, V=4, dk=16, w=4):
    n = chat(f, "qwen35")
    m2.qwen35_tensors(f, "model.language_model.", D, N, H, K, hd, FF, G, V, dk, w, n, mtp=1, tied=1)
    f.lin("model.vision_tower.encoder.layers.0.self_attn.q_proj", 16, 16), f.lin("model.merger.mlp.0.linear_1", 16, 16)
    config = text("qwen3_5_text", D, N, H, K, FF, n, head_dim=hd, attn_output_gate=True, full_attention_interval=4,
                  layer_types=layers(N, "LLLF"), mamba_ssm_dtype="float32", mtp_num_hidden_layers=1, rms_norm_eps=1e-6, rope_theta="-",
                  tie_word_embeddings=True, eos_token_id=n - 2, **m2.linear(G, V, dk, w),
                  rope_parameters={"mrope_interleaved": True, "mrope_section": [1, 1, 0], "rope_type": "default", "rope_theta": 10000000,
                                   "partial_rotary_factor": 0.25})
    f.finish({"architectures": ["MiniCPMV4_6ForConditionalGeneration"], "model_type": "minicpmv4_6", "text_config": config, "insert_layer_id": 6,
              "vision_config": VISION, "tie_word_embeddings": True})


@folder
def qwen3_asr(f, D=64, N=2, H=4, K=2, hd=16, FF=96):
    n = chat(f)
    llama_tensors(f, D, N, H, K, hd, FF, n, p="thinker.model.", qkn="head", tied=1)
    f.lin("thinker.audio_tower.layers.0.fc1", 16, 16)
    config = text("qwen3_asr_text", D, N, H, K, FF, n, head_dim=hd, rope_theta=1000000, rms_norm_eps=1e-6, tie_word_embeddings=True,
                  rope_scaling={"interleaved": True, "mrope_interleaved": True, "mrope_section": [3, 3, 2], "rope_type": "default"})
    f.finish({"architectures": ["Qwen3ASRForConditionalGeneration"], "model_type": "qwen3_asr",
              "thinker_config": {"audio_config": {"d_model": 16}, "text_config": config}})


@folder
def phi4_vision(f, D=64, N=2, H=4, K=2, hd=16, FF=96):
    n, ids = tokens(f, "dbrx", bos="<|endoftext|>", config={"tokenizer_class": "GPT2Tokenizer"}, txt=True)
    llama_tensors(f, D, N, H, K, hd, FF, n, fused=1, fused_ffn=1)
    f.lin("model.vision_tower.vision_tower.vision_model.encoder.layers.0.self_attn.q_proj", 16, 16), f.lin("model.mm_projector.0", 16, 16)
    f.finish(common("Phi4ForCausalLMV", "phi4-siglip", D, N, H, K, FF, n, bos_token_id=ids["<|endoftext|>"], eos_token_id=ids["<|im_end|>"],
                    max_position_embeddings=16384, original_max_position_embeddings=16384, rope_theta=250000, rope_scaling=None,
                    sliding_window=None, partial_rotary_factor=1.0))


@folder
def step_vl(f, D=64, N=2, H=4, K=2, hd=16, FF=96):
    n = chat(f)
    llama_tensors(f, D, N, H, K, hd, FF, n, qkn="head")
    f.lin("vision_model.transformer.resblocks.0.mlp.c_fc", 16, 16), f.lin("vit_large_projector", 16, 16)
    config = text("qwen3", D, N, H, K, FF, n, head_dim=hd, rope_theta=1000000, attention_bias=False, rms_norm_eps=1e-6)
    config["architectures"] = ["Qwen3ForCausalLM"]
    f.finish({"architectures": ["StepVLForConditionalGeneration"], "model_type": "step_robotics", "text_config": config, "vision_config": VISION,
              "understand_projector_stride": 2})


@folder
def hunyuan_vl(f, D=64, N=2, H=4, K=2, hd=16, FF=96):
    n, ids = tokens(f, "gpt-4o", added=("<｜hy_begin▁of▁sentence｜>", "<｜hy_end▁of▁sentence｜>", "<｜hy_Assistant｜>", "<｜hy_eod｜>"),
                    bos="<｜hy_begin▁of▁sentence｜>", eos="<｜hy_Assistant｜>", pad="<｜hy_end▁of▁sentence｜>", pairs=True)
    llama_tensors(f, D, N, H, K, hd, FF, n, tied=1)
    for i in range(N):
        for x in ("query_layernorm", "key_layernorm"):
            f.norm(f"model.layers.{i}.self_attn.{x}", hd)
    f.lin("vit.layers.0.self_attn.q_proj", 16, 16)
    f.finish(common("HunYuanVLForConditionalGeneration", "hunyuan_vl", D, N, H, K, FF, n, head_dim=hd, attention_head_dim=hd, add_classification_head=False,
                    num_experts=1, pad_token_id=-1, bos_token_id=ids["<｜hy_begin▁of▁sentence｜>"], eod_token_id=ids["<｜hy_eod｜>"], eos_token_id=ids["<｜hy_Assistant｜>"],
                    rope_scaling={"alpha": 1000.0, "beta_fast": 32, "beta_slow": 1, "factor": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0,
                                  "type": "xdrope", "xdrope_section": [2, 2, 2, 2]}, tie_word_embeddings=True, use_qk_norm=True,
                    vision_config=VISION), generation={"eos_token_id": [ids["<｜hy_eod｜>"], ids["<｜hy_Assistant｜>"]]})


@folder
def janus(f, D=64, N=2, H=4, K=4, hd=16, FF=96):
    n, ids = tokens(f, "llama-bpe", added=("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"), bos="<｜begin▁of▁sentence｜>", eos="<｜end▁of▁sentence｜>", pad=None)
    llama_tensors(f, D, N, H, K, hd, FF, n, p="model.language_model.")
    for x in ("vision_model.encoder.layers.0.self_attn.q_proj", "aligner.fc1", "vqmodel.quant_conv", "generation_embeddings", "generation_aligner.fc1",
              "generation_head.proj_out"):
        f.lin("model." + x, 16, 16)
    f.finish({"architectures": ["JanusForConditionalGeneration"], "model_type": "janus", "vision_config": VISION, "vq_config": {"embed_dim": 8},
              "text_config": text("llama", D, N, H, K, FF, n, head_dim=hd, bos_token_id=ids["<｜begin▁of▁sentence｜>"], eos_token_id=ids["<｜end▁of▁sentence｜>"],
                                  attention_bias=False, rope_scaling=None), "tie_word_embeddings": False})


@folder
def sarashina2_vision(f, D=64, N=2, H=4, K=2, hd=16, FF=96):
    n, _ = spm(f.path)
    llama_tensors(f, D, N, H, K, hd, FF, n, p="llm.model.", head="llm.lm_head")
    tower(f, "visual."), f.norm("norm", D)
    f.finish({"architectures": ["Sarashina2VisionForCausalLM"], "model_type": "sarashina2_vision", "image_token_index": n - 1,
              "text_config": text("llama", D, N, H, K, FF, n, head_dim=hd, bos_token_id=1, eos_token_id=2, rope_theta=500000.0, rope_scaling=None),
              "vision_config": VISION})


@folder
def granite_speech(f, D=64, N=2, H=4, K=2, hd=16, FF=96):
    n, _ = tokens(f, "gpt-2", added=("<|end_of_text|>", "<|pad|>", "<|start_of_role|>"), bos="<|end_of_text|>", eos="<|end_of_text|>", pad="<|pad|>")
    llama_tensors(f, D, N, H, K, hd, FF, n, p="language_model.model.", head="language_model.lm_head", tied=1)
    f.lin("encoder.layers.0.attn.to_q", 16, 16), f.lin("projector.linear", 16, 16)
    config = text("granite", D, N, H, K, FF, n, attention_multiplier=0.0625, embedding_multiplier=12.0, residual_multiplier=0.22, logits_scaling=8.0,
                  attention_bias=False, mlp_bias=False, rope_scaling=None, rope_theta=10000000.0, tie_word_embeddings=True)
    config["architectures"] = ["GraniteForCausalLM"]
    f.finish({"architectures": ["GraniteSpeechForConditionalGeneration"], "model_type": "granite_speech", "has_lora_adapter": False,
              "text_config": config, "encoder_config": {"hidden_dim": 16}, "projector_config": {"hidden_size": 16}, "tie_word_embeddings": True})


@folder
def llava_stablelm(f, D=64, N=2, H=4, hd=16, FF=96):
    n, _ = tokens(f, "gpt-2", eos="<|endoftext|>")
    llama_tensors(f, D, N, H, H, hd, FF, n, nb=1)
    f.lin("model.vision_tower.vision_tower.vision_model.encoder.layers.0.self_attn.q_proj", 16, 16), f.lin("model.mm_projector.0", 16, 16)
    f.finish(common("LlavaStableLMEpochForCausalLM", "llava_stablelm_epoch", D, N, H, H, FF, n, rms_norm_eps="-", norm_eps=1e-5, rope_pct=0.25,
                    rope_theta=10000, rotary_scaling_factor=1.0, use_qkv_bias=False))


# ---- classes with rows of their own

@folder
def laguna(f, D=64, N=4, H=(4, 6, 6, 4), K=2, hd=16, FF=96, F=32, S=40, E=4):
    n, ids = tokens(f, "llama-bpe", added=("<s>", "</s>", "<pad>", "<assistant>"), plain=("</assistant>",), bos="</s>", eos="</s>", pad="<pad>", jinja=True,
                    pairs=True)
    f.add("model.embed_tokens.weight", n, D)
    for i in range(N):
        b = f"model.layers.{i}."
        f.norm(b + "input_layernorm", D), f.norm(b + "post_attention_layernorm", D)
        m2.attn(f, b + "self_attn.", D, H[i], K, hd, qk="head")
        f.lin(b + "self_attn.g_proj", H[i], D)
        if i == 0:
            m2.ffn(f, b + "mlp.", D, FF)
        else:
            experts(f, b + "mlp.", D, F, E, bias="experts.e_score_correction_bias")
            m2.ffn(f, b + "mlp.shared_expert.", D, S)
    ends(f, n, D)
    rope = {"full_attention": {"rope_type": "yarn", "rope_theta": 500000.0, "factor": 32.0, "original_max_position_embeddings": 4096, "beta_fast": 64.0,
                               "beta_slow": 1.0, "attention_factor": 1.0, "partial_rotary_factor": 0.5},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 1.0}}
    f.finish(common("LagunaForCausalLM", "laguna", D, N, H[0], K, FF, n, head_dim=hd, attention_bias=False, gating=True, layer_types=layers(N, "FSSS"),
                    mlp_layer_types=["dense"] + ["sparse"] * (N - 1), moe_intermediate_size=F, moe_routed_scaling_factor=2.5,
                    moe_apply_router_weight_on_input=False, num_attention_heads_per_layer=list(H), num_experts=E, num_experts_per_tok=2,
                    rms_norm_eps=1e-6, rope_theta="-", rope_parameters=rope, shared_expert_intermediate_size=S, sliding_window=64,
                    bos_token_id=ids["</s>"], eos_token_id=[ids["</s>"], ids["</assistant>"]], pad_token_id=ids["<pad>"],
                    max_position_embeddings=131072), shards=2)


@folder
def laguna_element(f, D=64, N=3, H=4, K=2, hd=16, FF=96, F=32, S=40, E=4):
    n, ids = tokens(f, "llama-bpe", added=("<s>", "</s>", "<pad>"), bos="<s>", eos="</s>", pad="<pad>", pairs=True)
    f.add("model.embed_tokens.weight", n, D)
    for i in range(N):
        b = f"model.layers.{i}."
        f.norm(b + "input_layernorm", D), f.norm(b + "post_attention_layernorm", D)
        m2.attn(f, b + "self_attn.", D, H, K, hd, qk="head")
        f.lin(b + "self_attn.g_proj", H * hd, D)
        if i == 0:
            m2.ffn(f, b + "mlp.", D, FF)
        else:
            experts(f, b + "mlp.", D, F, E, bias="experts.e_score_correction_bias")
            m2.ffn(f, b + "mlp.shared_expert.", D, S)
    ends(f, n, D)
    f.finish(common("LagunaForCausalLM", "laguna", D, N, H, K, FF, n, head_dim=hd, gating="per-element", layer_types=layers(N, "F"),
                    mlp_layer_types=["dense"] + ["sparse"] * (N - 1), moe_intermediate_size=F, moe_routed_scaling_factor=2.5, num_experts=E,
                    num_experts_per_tok=2, rms_norm_eps=1e-6, rope_theta="-", shared_expert_intermediate_size=S, sliding_window=0,
                    rope_parameters={"full_attention": {"rope_type": "default", "rope_theta": 500000.0, "partial_rotary_factor": 0.5}},
                    bos_token_id=ids["<s>"], eos_token_id=ids["</s>"]))


def ling3(f, prefix, D, N, H, hd, FF, F, E, n, group, nope, r, v, lora, q, w):
    f.add(prefix + "word_embeddings.weight", n, D)
    for i in range(N + 1):
        b = f"{prefix}layers.{i}."
        a = b + "attention."
        f.norm(b + "input_layernorm", D), f.norm(b + "post_attention_layernorm", D)
        if i >= N or (i + 1) % group == 0 or i >= N // group * group:
            if q:
                f.lin(a + "q_a_proj", q, D), f.norm(a + "q_a_layernorm", q), f.lin(a + "q_b_proj", H * (nope + r), q)
            else:
                f.lin(a + "q_proj", H * (nope + r), D)
            f.lin(a + "kv_a_proj_with_mqa", lora + r, D), f.norm(a + "kv_a_layernorm", lora)
            f.lin(a + "kv_b_proj", H * (nope + v), lora), f.lin(a + "dense", D, H * v), f.lin(a + "g_proj", H, D)
        else:
            for x in "qkv":
                f.lin(f"{a}{x}_proj", H * hd, D), f.add(f"{a}{x}_conv1d.weight", H * hd, 1, w, scale=0.4)
            m2.vec(f, a + "A_log", H, lo=0.0, hi=2.0, dtype="F32"), m2.vec(f, a + "dt_bias", H * hd, lo=-2.0, dtype="F32")
            f.lin(a + "f_proj", H * hd, D), f.lin(a + "g_proj", H * hd, D), f.lin(a + "b_proj", H, D), f.norm(a + "o_norm", hd)
            f.lin(a + "o_proj", D, H * hd)
        if i == 0:
            m2.ffn(f, b + "mlp.", D, FF)
        else:
            experts(f, b + "mlp.", D, F, E, bias="gate.expert_bias")
            m2.ffn(f, b + "mlp.shared_experts.", D, F)
        if i == N:
            predict(f, b, D, ("enorm", "hnorm", "final_layernorm"))
    f.norm(prefix + "norm", D)


def ling3_config(name, D, N, H, hd, FF, F, E, n, group, nope, r, v, lora, q, w, **other):
    return common(name, "bailing_hybrid", D, N, H, H, FF, n, head_dim=hd, expert_swiglu_limit_list=[None] + [7.0] * (N - 1), first_k_dense_replace=1,
                  gated_attention_proj_granularity_type="head_wise", kda_lower_bound=-5.0, kda_safe_gate=True, kv_lora_rank=lora,
                  layer_group_size=group, moe_intermediate_size=F, moe_router_enable_expert_bias=True, moe_shared_expert_intermediate_size=F,
                  n_group=1, no_kda_lora=True, norm_topk_prob=True, num_experts=E, num_experts_per_tok=2, num_nextn_predict_layers=1,
                  num_shared_experts=1, q_lora_rank=q, qk_nope_head_dim=nope, qk_rope_head_dim=r, v_head_dim=v, rms_norm_eps=1e-6,
                  rope_scaling=None, rope_theta=6000000, routed_scaling_factor=2.5, score_function="sigmoid", topk_group=1,
                  share_expert_swiglu_limit_list=[None] * N + [5.0], short_conv_kernel_size=w, **other)


LING3 = {"D": 64, "N": 4, "H": 4, "hd": 16, "FF": 96, "F": 32, "E": 4, "group": 3, "nope": 16, "r": 8, "v": 16, "lora": 24, "w": 4}


@folder
def bailing3(f):
    n = chat(f, "gpt-2")
    ling3(f, "model.", n=n, q=32, **LING3)
    f.lin("lm_head", n, LING3["D"])
    f.finish(ling3_config("BailingMoeV3ForCausalLM", n=n, q=32, **LING3))


@folder
def bailing3_vl(f):
    n = chat(f, "gpt-2")
    ling3(f, "model.language_model.", n=n, q=None, **LING3)
    f.lin("lm_head", n, LING3["D"]), tower(f), f.lin("linear_proj.0", 16, 16)
    config = ling3_config("-", n=n, q=None, mrope_section=[2, 1, 1], architectures="-", **LING3)
    f.finish({"architectures": ["BailingMoeV3VLForConditionalGeneration"], "model_type": "bailing_moe_v3_vl", "text_config": config,
              "vision_config": dict(VISION, out_hidden_size=16, disable_merger_proj=True)})


@folder
def muse_glimmer(f, D=64, N=4, H=4, K=2, hd=16, FF=96):
    n, ids = tokens(f, "llama-bpe", added=("<|begin_of_text|>", "<|end_of_text|>", "<|eot|>"), bos="<|begin_of_text|>", eos="<|end_of_text|>", pad=None, pairs=True)
    p = "model.language_model."
    f.add(p + "embed_tokens.weight", n, D)
    for i in range(N):
        b = f"{p}layers.{i}."
        for x in ("input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"):
            f.norm(b + x, D, 0.0)
        m2.attn(f, b + "self_attn.", D, H, K, hd)
        f.lin(b + "self_attn.gate_proj", H * hd, D)
        m2.ffn(f, b + "mlp.", D, FF)
    f.norm(p + "norm", D), f.lin("lm_head", n, D)
    f.lin("model.vision_tower.layers.0.attn.q_proj", 16, 16), f.lin("model.vision_adapter.fc1", 16, 16), f.lin("model.vision_projection", 16, 16)
    config = text("muse_glimmer_text", D, N, H, K, FF, n, head_dim=hd, final_logit_softcapping=30.0, output_multiplier=0.25, qk_scale_factor=1.5,
                  layer_types=layers(N, "SSSF"), sliding_window=64, rope_theta="-", rope_parameters={"rope_type": "default", "rope_theta": 500000.0},
                  bos_token_id=ids["<|begin_of_text|>"], eos_token_id=ids["<|eot|>"])
    f.finish({"architectures": ["MuseGlimmerForConditionalGeneration"], "model_type": "muse_glimmer", "text_config": config, "vision_config": VISION,
              "tie_word_embeddings": False}, shards=2)


@folder
def hy_v3(f, D=64, N=3, H=4, K=2, hd=16, FF=96, F=32, E=4):
    n, ids = tokens(f, "gpt-4o", added=("<｜hy_begin▁of▁sentence｜>", "<｜hy_end▁of▁sentence｜>", "<｜hy_eos｜>"), bos="<｜hy_begin▁of▁sentence｜>",
                    eos="<｜hy_eos｜>", pad="<｜hy_end▁of▁sentence｜>", pairs=True)

    def moe(f, b, i):
        if i == 0:
            return False
        experts(f, b + "mlp.", D, F, E, gate="router.gate", bias="expert_bias")
        m2.ffn(f, b + "mlp.shared_mlp.", D, F)
        if i == N:
            predict(f, b, D, ("enorm", "hnorm", "final_layernorm"))
        return True

    llama_tensors(f, D, N + 1, H, K, hd, FF, n, qkn="head", moe=moe)
    f.finish(common("HYV3ForCausalLM", "hy_v3", D, N, H, K, FF, n, head_dim=hd, first_k_dense_replace=1, moe_intermediate_size=F, expert_hidden_dim=F,
                    moe_router_enable_expert_bias=True, moe_router_use_sigmoid=True, num_experts=E, num_experts_per_tok=2, num_shared_experts=1,
                    num_nextn_predict_layers=1, qk_norm=True, route_norm=True, router_scaling_factor=2.826, rope_theta="-",
                    rope_parameters={"rope_type": "default", "rope_theta": 11158840.0}, bos_token_id=ids["<｜hy_begin▁of▁sentence｜>"],
                    eos_token_id=ids["<｜hy_eos｜>"], enable_lm_head_fp32=True))


@folder
def cohere2moe(f, D=64, N=4, H=4, K=2, hd=16, FF=96, F=32, E=4):
    n, ids = tokens(f, "gpt-2", added=("<PAD>", "<UNK>", "<BOS_TOKEN>", "<|END_OF_TURN_TOKEN|>"), first=True, bos="<BOS_TOKEN>", eos="<|END_OF_TURN_TOKEN|>",
                    pad="<PAD>", unk="<UNK>")

    def moe(f, b, i):
        if i == 0:
            return False
        experts(f, b + "mlp.", D, F, E, bias=None)
        m2.ffn(f, b + "mlp.shared_experts.", D, F)
        return True

    llama_tensors(f, D, N, H, K, hd, FF, n, tied=1, norms=("input_layernorm",), moe=moe)
    f.finish(common("Cohere2MoeForCausalLM", "cohere2_moe", D, N, H, K, F, n, rms_norm_eps="-", layer_norm_eps=1e-5, head_dim=hd, attention_bias=False,
                    expert_selection_fn="sigmoid", first_k_dense_replace=1, prefix_dense_intermediate_size=FF, layer_types=layers(N, "SSSF"),
                    logit_scale=1.0, norm_topk_prob=True, num_experts=E, num_experts_per_tok=2, num_shared_experts=1, sliding_window=64,
                    shared_expert_combination_strategy="average", rope_theta=50000, rope_scaling=None, tie_word_embeddings=True,
                    bos_token_id=ids["<BOS_TOKEN>"], eos_token_id=ids["<|END_OF_TURN_TOKEN|>"], pad_token_id=ids["<PAD>"]))


def granite_swa_config(name, D, N, H, K, FF, n, **other):
    return common(name, "granite_swa", D, N, H, K, FF, n, attention_multiplier=0.0625, embedding_multiplier=12.0, residual_multiplier=0.22, logits_scaling=8.0,
                  attention_bias=False, mlp_bias=False, rope_scaling=None, rope_theta=10000000.0, sliding_window=64, tie_word_embeddings=True, **other)


@folder
def granite_swa(f, D=64, N=4, H=4, K=2, hd=16, FF=96):
    n, _ = tokens(f, "dbrx", added=("<|end_of_text|>", "<|pad|>", "<|unk|>"), bos="<|end_of_text|>", eos="<|end_of_text|>", pad="<|pad|>", unk="<|unk|>")
    llama_tensors(f, D, N, H, K, hd, FF, n, tied=1)
    for i in range(N):
        f.add(f"model.layers.{i}.self_attn.sinks", H)
    f.finish(granite_swa_config("GraniteSWAForCausalLM", D, N, H, K, FF, n, layer_types=layers(N, "FSSS"), no_rope_layers=[0, 1, 1, 1]))


@folder
def granite_moe_swa(f, D=64, N=4, H=4, K=2, hd=16, F=32, S=40, E=4):
    n, _ = tokens(f, "dbrx", added=("<|end_of_text|>", "<|pad|>", "<|unk|>"), bos="<|end_of_text|>", eos="<|end_of_text|>", pad="<|pad|>", unk="<|unk|>")

    def moe(f, b, i):
        m = b + "block_sparse_moe."
        f.lin(m + "router", E, D)
        f.add(m + "experts.gate_up_proj", E, 2 * F, D), f.add(m + "experts.down_proj", E, D, F)
        f.lin(b + "shared_mlp.input_linear", 2 * S, D), f.lin(b + "shared_mlp.output_linear", D, S)
        f.add(b + "self_attn.sinks", H)
        return True

    llama_tensors(f, D, N, H, K, hd, F, n, tied=1, moe=moe)
    f.finish(granite_swa_config("GraniteMoeSWAForCausalLM", D, N, H, K, F, n, shared_intermediate_size=S, num_local_experts=E, num_experts_per_tok=2))


@folder
def granite_switch(f, D=64, N=2, H=4, K=2, hd=16, FF=96, A=2, R=4):
    """A layer more than there are arrays of: the one that chooses adapters has none."""
    n, ids = tokens(f, "dbrx", added=("<|end_of_text|>", "<|pad|>", "<|unk|>", "<|answerability|>", "<|citations|>"), bos="<|end_of_text|>", eos="<|end_of_text|>",
                    pad="<|pad|>", unk="<|unk|>")

    def lora(name, out, inp, slices=()):
        f.lin(name + ".base_layer", sum(slices) or out, inp)
        for i, rows in enumerate(slices or (out,)):
            part = f"_slices.{i}" if slices else ""
            f.add(f"{name}.lora_A{part}", A, 1, R, inp), f.add(f"{name}.lora_B{part}", A, 1, rows, R)

    f.add("model.embed_tokens.weight", n, D)
    f.add("model.switch.control_to_substitute_lut", n)
    for i in range(N):
        b = f"model.layers.{i}."
        f.norm(b + "input_layernorm", D), f.norm(b + "post_attention_layernorm", D)
        lora(b + "self_attn.qkv_proj", 0, D, (H * hd, K * hd, K * hd)), lora(b + "self_attn.o_proj", D, H * hd)
        lora(b + "shared_mlp.input_linear", 0, D, (FF, FF)), lora(b + "shared_mlp.output_linear", D, FF)
    f.norm("model.norm", D)
    f.finish(common("GraniteSwitchForCausalLM", "granite_switch", D, N + 1, H, K, FF, n, attention_multiplier=0.0625, embedding_multiplier=12.0, residual_multiplier=0.22,
                    logits_scaling=8.0, attention_bias=False, rope_scaling=None, rope_theta=10000000.0, tie_word_embeddings=True, shared_intermediate_size=FF,
                    num_local_experts=0, num_experts_per_tok=8, num_adapters=A, max_lora_rank=R, adapter_ranks=[R, R], adapter_names=["answerability", "citations"],
                    adapter_token_ids=[ids["<|answerability|>"], ids["<|citations|>"]], adapter_substitute_token_ids=[ids["<|unk|>"], ids["<|pad|>"]],
                    control_token_gain=15.0, switch_head_dim=32, projection_head_dim=hd))


@folder
def nanbeige(f, D=64, N=2, H=4, K=2, hd=16, FF=96):
    n, _ = spm(f.path, user=("<|im_start|>", "<|im_end|>"))
    llama_tensors(f, D, N, H, K, hd, FF, n)
    f.finish(common("NanbeigeForCausalLM", "nanbeige", D, N, H, K, FF, n, head_dim=hd, attention_bias=False, mlp_bias=False, num_loops=2,
                    skip_loop_final_norm=True, rope_theta=70000000.0, rope_scaling=None, bos_token_id=1, eos_token_id=2, pad_token_id=0))


def chameleon_parts(f, name, D=64, N=2, H=4, K=4, hd=16, FF=96, **other):
    n = tokens(f, "gpt-2", added=("<s>", "</s>", "<pad>"), eos="</s>", pad="<pad>")[0]

    def norms(f, b, i):
        for x, heads in (("q_norm", H), ("k_norm", K)):
            f.add(b + f"self_attn.{x}.weight", heads, hd), f.add(b + f"self_attn.{x}.bias", heads, hd)

    llama_tensors(f, D, N, H, K, hd, FF, n, moe=norms)
    f.lin("model.vqmodel.quantize.embedding", 8, 16)
    f.finish(common(name, "chameleon", D, N, H, K, FF, n, attention_bias=False, mlp_bias=False, model_parallel_size=1, rope_theta=10000.0, rope_scaling=None,
                    hidden_act="silu", bos_token_id=0, eos_token_id=2, pad_token_id=1, max_position_embeddings=4096, rms_norm_eps=1e-05, **other))


@folder
def chameleon(f):
    chameleon_parts(f, "ChameleonForConditionalGeneration", swin_norm=False, vq_config={"embed_dim": 16, "num_embeddings": 8})


@folder
def chameleon_swin(f):
    chameleon_parts(f, "ChameleonForCausalLM", swin_norm=True)


def hrm_parts(f, each, inner, D=64, H=4, hd=16, FF=96, **other):
    n = chat(f)
    f.add("model.embed_tokens.weight", n, D), f.add("model.z_L_init", D)
    for stack in "LH":
        for i in range(each):
            b = f"model.{stack}_module.layers.{i}."
            f.lin(b + inner + "gqkv_proj", 4 * H * hd, D), f.lin(b + inner + "o_proj", D, H * hd)
            f.lin(b + "mlp.gate_up_proj", 2 * FF, D), f.lin(b + "mlp.down_proj", D, FF)
    f.lin("lm_head", n, D)
    f.finish(common("HrmTextForCausalLM", "hrm_text", D, each, H, H, FF, n, embedding_scale=8.0, prefix_lm=True, rms_norm_eps=1e-06, rope_theta=10000.0, **other))


@folder
def hrm_text(f):
    hrm_parts(f, 2, "attn.", H_cycles=2, L_cycles=3, head_dim=16)


@folder
def hrm_text_stacks(f):
    hrm_parts(f, 1, "attn.", H=2, hd=128, H_cycles=2, L_cycles=1, num_layers_per_stack=1, num_hidden_layers=4)


@folder
def mellum(f, D=64, N=4, H=4, K=2, hd=16, F=32, E=4):
    n, _ = tokens(f, "gpt-2", added=("<|endoftext|>", "<|im_start|>", "<|im_end|>"), eos="<|im_end|>")

    def moe(f, b, i):
        experts(f, b + "mlp.", D, F, E, bias=None)
        return True

    llama_tensors(f, D, N, H, K, hd, 96, n, qkn="head", moe=moe)
    rope = {"full_attention": {"rope_type": "yarn", "rope_theta": 1000000.0, "factor": 16.0, "original_max_position_embeddings": 8192,
                               "beta_fast": 32.0, "beta_slow": 1.0, "attention_factor": 1.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}
    f.finish(common("MellumForCausalLM", "mellum", D, N, H, K, 96, n, head_dim=hd, attention_bias=False, layer_types=layers(N, "SSSF"), mlp_only_layers=[],
                    moe_intermediate_size=F, norm_topk_prob=True, num_experts=E, num_experts_per_tok=2, rms_norm_eps=1e-6, rope_theta="-",
                    rope_parameters=rope, sliding_window=64, use_sliding_window=True, decoder_sparse_step=1))


@folder
def maple(f, D=64, N=4, H=4, K=2, hd=16, F=32, E=4):
    n = chat(f)

    def moe(f, b, i):
        experts(f, b + "mlp.", D, F, E, bias=None)
        return True

    llama_tensors(f, D, N, H, K, hd, 96, n, qkn="head", moe=moe)
    f.finish(common("MapleForCausalLM", "maple", D, N, H, K, 96, n, head_dim=hd, hidden_act="silu", layer_types=layers(N, "SSSF"), moe_intermediate_size=F,
                    norm_topk_prob=True, nope_on_global_attention=True, num_experts=E, num_experts_per_tok=2, rms_norm_eps=1e-6, sliding_window=64,
                    rope_theta=10000.0, partial_rotary_factor=0.5))


@folder
def spark2_5(f, D=64, N=4, H=4, K=2, hd=16, FF=96):
    n = chat(f)
    f.add("model.embed_tokens.weight", n, D)
    for i in range(N):
        b = f"model.layers.{i}."
        for x in ("input_layernorm", "post_attention_layernorm"):
            f.norm(b + x, D)
        f.lin(b + "self_attn.q_k_v_proj", (H + 2 * K) * hd, D)
        f.lin(b + "self_attn.g_proj", H, D)
        f.lin(b + "self_attn.o_proj", D, H * hd)
        for x, rows, columns in (("gate_proj", FF, D), ("up_proj", FF, D), ("down_proj", D, FF)):
            f.lin(b + "mlp." + x, rows, columns)
    ends(f, n, D, tied=True)
    rope = {"full_attention": {"rope_type": "default", "rope_theta": 1000000.0, "partial_rotary_factor": 0.5},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 1.0}}
    f.finish(common("Spark2_5ForCausalLM", "spark2_5", D, N, H, K, FF, n, head_dim=hd, hidden_act="gelu", gate_attn_act_mode="sigmoid",
                    headwise_attn_output_gate=True, layer_types=layers(N, "SSSF"), rms_norm_eps=1e-6, rope_theta="-", rope_parameters=rope,
                    sliding_window=64, tie_word_embeddings=True))


def diffusion_experts(f, name, model_type, D=64, N=2, H=4, K=2, hd=16, F=32, E=4, **other):
    n = chat(f, added=("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|mask|>"))

    def moe(f, b, i):
        experts(f, b + "mlp.", D, F, E, bias=None)
        return True

    llama_tensors(f, D, N, H, K, hd, 96, n, qkn="head", moe=moe)
    f.finish(common(name, model_type, D, N, H, K, 96, n, num_experts=E, num_experts_per_tok=2, rms_norm_eps=1e-6, rope_theta=1000000.0, **other))


@folder
def rnd1(f):
    diffusion_experts(f, "RND1", "rnd1", head_dim=16, moe_intermediate_size=32, norm_topk_prob=True, mask_token_id=3)


@folder
def llada_moe(f):
    diffusion_experts(f, "LLaDAMoEModelLM", "llada", expert_intermediate_size=32, norm_topk_prob=False)


@folder
def hy_v4(f, D=96, N=3, H=6, n=24, r=16, v=24, lora=48, q=40, FF=160, F=48, E=4, HC=4):
    V = chat(f)
    f.add("model.embed_tokens.weight", V, D)
    for i in range(N):
        b = f"model.layers.{i}."
        f.norm(b + "input_layernorm", D)
        f.norm(b + "post_attention_layernorm", D)
        m2.mla(f, b + "self_attn.", D, H, n, r, v, lora, q)
        f.lin(b + "self_attn.linear_gate", H * v, D)
        f.add(b + "self_attn.learnable_sink_param", H, dtype="F32")
        if i != 1:
            a = b + "self_attn.indexer."
            f.lin(a + "wq_b", 4 * 32, q)
            f.lin(a + "wk", 32, D)
            f.norm(a + "k_norm", 32, bias=1)
            f.lin(a + "weights_proj", 4, D)
        for part in ("attn", "mlp"):
            a = f"{b}hc_{part}_layer.hc_pre."
            f.add(a + "hc_fn", 2 * HC, HC * D, dtype="F32")
            f.add(a + "hc_base", 2 * HC, dtype="F32")
            f.add(a + "hc_scale", 2, dtype="F32")
        if i < 1:
            m2.ffn(f, b + "mlp.", D, FF)
            continue
        f.lin(b + "mlp.gate", E, D)
        f.add(b + "mlp.gate.e_score_correction_bias", E, dtype="F32")
        f.add(b + "mlp.experts.gate_up_proj", E, 2 * F, D)
        f.add(b + "mlp.experts.down_proj", E, D, F)
        m2.ffn(f, b + "mlp.shared_experts.", D, F)
    for x, sizes in (("fn", (HC, HC * D)), ("base", (HC,)), ("scale", (1,))):
        f.add(f"model.hc_head.hc_head_{x}", *sizes, dtype="F32")
    f.add("model.mtp_layers.0.eh_proj.weight", D, 2 * D)
    ends(f, V, D)
    f.finish(common("HYV4ForCausalLM", "hy_v4", D, N, H, 2, FF, V, first_k_dense_replace=1, mlp_layer_types=["dense", "sparse", "sparse"],
                    kv_lora_rank=lora, q_lora_rank=q, qk_nope_head_dim=n, qk_rope_head_dim=r, v_head_dim=v, moe_intermediate_size=F, n_group=1,
                    topk_group=1, n_routed_experts=E, n_shared_experts=1, norm_topk_prob=True, num_experts_per_tok=2, routed_scaling_factor=2.5,
                    swiglu_limit=7.0, hc_mult=HC, hc_eps=1e-6, hc_magnitude=2.0, index_n_heads=4, index_head_dim=32, index_topk=64,
                    indexer_types=["full", "shared", "full"], num_nextn_predict_layers=1, rms_norm_eps=1e-6, rope_theta=10000.0))


@folder
def talkie(f, D=64, N=2, H=4, hd=16, FF=96):
    n, _ = tokens(f, "gpt-4o", added=("<|endoftext|>", "<|user|>", "<|end|>"), eos="<|end|>")
    f.add("model.embed.weight", n, D)
    for i in range(N):
        b = f"model.blocks.{i}."
        for x in ("query", "key", "value", "resid"):
            f.lin(f"{b}attn.attn_{x}", D, D)
        m2.vec(f, b + "attn.head_gain.head_g", H, lo=0.5)
        f.lin(b + "mlp.mlp_gate", FF, D), f.lin(b + "mlp.mlp_linear", FF, D), f.lin(b + "mlp.mlp_resid", D, FF)
        for x in ("attn_gain", "mlp_gain", "embed_skip"):
            m2.vec(f, f"{b}{x}.a_g", 1, lo=0.1)
    f.add("lm_head", n, D), m2.vec(f, "lm_head_gain.w_g", 1, lo=0.5)
    f.finish(common("TalkieForCausalLM", "talkie", D, N, H, H, FF, n, head_dim=hd, rms_norm_eps="-", rope_theta=1000000.0, max_position_embeddings=2048))


@folder
def grovemoe(f, D=64, N=2, H=4, K=2, hd=16, F=32, E=4):
    n = chat(f)

    def moe(f, b, i):
        experts(f, b + "mlp.", D, F, E, bias="gate.expert_bias" if i else None)
        m2.exps(f, b + "mlp.chunk_experts", D, hd, E // 2)
        return True

    llama_tensors(f, D, N, H, K, hd, 96, n, qkn="head", moe=moe)
    f.finish(common("GroveMoeForCausalLM", "grove_moe", D, N, H, K, 96, n, head_dim=hd, attention_bias=False, decoder_sparse_step=1, mlp_only_layers=[],
                    moe_intermediate_size=F, norm_topk_prob=True, num_experts=E, num_experts_per_tok=2, parallel_expert_intermediate_size=hd,
                    rms_norm_eps=1e-6, rope_scaling=None, rope_theta=10000000, sliding_window=None, use_sliding_window=False,
                    auto_map={"AutoModelForCausalLM": "modeling_grove_moe.GroveMoeForCausalLM"}))


@folder
def paddleocr_vl(f, D=64, N=2, H=4, K=2, hd=32, FF=96):
    n, _ = spm(f.path, config={"add_prefix_space": False})
    llama_tensors(f, D, N, H, K, hd, FF, n)
    f.lin("visual.vision_model.encoder.layers.0.self_attn.q_proj", 16, 16), f.lin("mlp_AR.linear_1", 16, 16)
    f.finish(common("PaddleOCRVLForConditionalGeneration", "paddleocr_vl", D, N, H, K, FF, n, head_dim=hd, max_sequence_length=None, compression_ratio=1.0,
                    rope_is_neox_style=True, rope_scaling={"mrope_section": [4, 6, 6], "rope_type": "default", "type": "default"}, rope_theta=500000,
                    use_3d_rope=True, use_bias=False, use_rmsnorm=True, vision_config=VISION, bos_token_id=1, eos_token_id=2))


@folder
def jais(f, D=64, N=2, H=4, FF=96):
    n, _ = tokens(f, "gpt-2", added=("<|endoftext|>", "<|pad|>"), bos="<|endoftext|>", eos="<|endoftext|>", pad="<|pad|>")
    f.add("transformer.wte.weight", n, D), f.norm("transformer.ln_f", D, bias=True)
    f.t["transformer.relative_pe.slopes"] = store(uniform("slopes", (H,)) * 0 + [0.25, 0.0625, 0.015625, 0.00390625], "F32")
    for i in range(N):
        b = f"transformer.h.{i}."
        f.norm(b + "ln_1", D, bias=True), f.norm(b + "ln_2", D, bias=True)
        for x, o, p in (("attn.c_attn", 3 * D, D), ("attn.c_proj", D, D), ("mlp.c_fc", FF, D), ("mlp.c_fc2", FF, D), ("mlp.c_proj", D, FF)):
            f.add(b + x + ".weight", p, o), f.add(b + x + ".bias", o)
    f.lin("lm_head", n, D)
    f.finish({"activation_function": "swiglu", "architectures": ["JAISLMHeadModel"], "attn_pdrop": 0.0, "bos_token_id": n - 2, "eos_token_id": n - 2,
              "layer_norm_epsilon": 1e-05, "model_type": "jais", "mup_embeddings_scale": 9.1705785388303, "mup_output_alpha": 1.09518349815769,
              "mup_scale_qk_dot_by_d": True, "mup_width_scale": 0.16666666666666666, "n_embd": D, "n_head": H, "n_inner": FF, "n_layer": N,
              "n_positions": 2048, "pad_token_id": n - 1, "position_embedding_type": "alibi", "scale_attn_weights": True, "vocab_size": n})


@folder
def jais2(f, D=64, N=2, H=4, hd=16, FF=96):
    n, _ = tokens(f, "gpt-2", added=("<|endoftext|>", "<|pad|>"), bos="<|endoftext|>", eos="<|endoftext|>", pad="<|pad|>")
    llama_tensors(f, D, N, H, H, hd, FF, n, qb=1, ob=1, mb=1, nb=1)
    for i in range(N):
        for x in (".weight", ".bias"):
            del f.t[f"model.layers.{i}.mlp.gate_proj{x}"]
    f.finish(common("Jais2ForCausalLM", "jais2", D, N, H, H, FF, n, rms_norm_eps="-", layer_norm_eps=1e-5, hidden_act="relu2", attention_bias=True, head_dim=hd,
                    mlp_bias=True, rope_theta=500000.0, rope_scaling=None, bos_token_id=n - 2, eos_token_id=n - 2, pad_token_id=n - 1))


@folder
def plm(f, D=64, N=2, H=4, n=16, r=8, v=16, lora=24, FF=96):
    vocabulary = chat(f)
    f.add("model.embed_tokens.weight", vocabulary, D)
    for i in range(N):
        b = f"model.layers.{i}."
        f.norm(b + "input_layernorm", D), f.norm(b + "post_attention_layernorm", D)
        m2.mla(f, b + "self_attn.", D, H, n, r, v, lora, 0)
        m2.ffn(f, b + "mlp.", D, FF, (None, "up_proj", "down_proj"))
    f.norm("model.norm", D)
    f.finish(common("PLMForCausalLM", "plm", D, N, H, H, FF, vocabulary, hidden_act="relu2", attention_bias=False, kv_lora_rank=lora, q_lora_rank=None,
                    qk_nope_head_dim=n, qk_rope_head_dim=r, v_head_dim=v, rms_norm_eps=1e-6, rope_scaling=None, rope_theta=100000.0,
                    sliding_window=None, tie_word_embeddings=True))


@folder
def openelm(f, D=64, N=3, hd=16, kv=(1, 1, 2), q=(2, 4, 4), multipliers=(0.5, 1.25, 2.0)):
    n, _ = spm(f.path)
    f.add("transformer.token_embeddings.weight", n, D)
    for i in range(N):
        b, FF = f"transformer.layers.{i}.", max(32, int(multipliers[i] * D + 16) // 32 * 32)
        f.norm(b + "attn_norm", D), f.norm(b + "ffn_norm", D), f.norm(b + "attn.q_norm", hd), f.norm(b + "attn.k_norm", hd)
        f.lin(b + "attn.qkv_proj", (q[i] + 2 * kv[i]) * hd, D), f.lin(b + "attn.out_proj", D, q[i] * hd)
        f.lin(b + "ffn.proj_1", 2 * FF, D), f.lin(b + "ffn.proj_2", D, FF)
    f.norm("transformer.norm", D)
    f.finish({"activation_fn_name": "swish", "architectures": ["OpenELMForCausalLM"], "bos_token_id": 1, "eos_token_id": 2, "ffn_dim_divisor": 32,
              "ffn_multipliers": list(multipliers), "ffn_with_glu": True, "head_dim": hd, "initializer_range": 0.02, "max_context_length": 2048,
              "model_dim": D, "model_type": "openelm", "normalization_layer_name": "rms_norm", "normalize_qk_projections": True, "num_gqa_groups": 2,
              "num_kv_heads": list(kv), "num_query_heads": list(q), "num_transformer_layers": N, "qkv_multipliers": [0.5, 1.0],
              "rope_freq_constant": 10000, "rope_max_length": 4096, "share_input_output_layers": True, "vocab_size": n})


@folder
def orion(f, D=64, N=2, H=4, hd=16, FF=96):
    n, _ = spm(f.path)
    llama_tensors(f, D, N, H, H, hd, FF, n, nb=1)
    f.finish(common("OrionForCausalLM", "orion", D, N, H, H, FF, n, max_sequence_length=4096, rope_scaling=None, bos_token_id=1, eos_token_id=2, pad_token_id=0))


def baichuan_tensors(f, D, N, hd, FF, n, norm_head):
    f.add("model.embed_tokens.weight", n, D)
    for i in range(N):
        b = f"model.layers.{i}."
        f.norm(b + "input_layernorm", D), f.norm(b + "post_attention_layernorm", D)
        f.lin(b + "self_attn.W_pack", 3 * D, D), f.lin(b + "self_attn.o_proj", D, D)
        if not norm_head:
            f.t[b + "self_attn.rotary_emb.inv_freq"] = store(uniform("x", (hd // 2,)), "F32")
        m2.ffn(f, b + "mlp.", D, FF)
    ends(f, n, D)


@folder
def baichuan(f, D=64, N=2, H=4, FF=96):
    n, _ = spm(f.path)
    baichuan_tensors(f, D, N, 16, FF, n, False)
    f.finish(common("BaiChuanForCausalLM", "baichuan", D, N, H, "-", FF, n, rms_norm_eps=1e-6, bos_token_id=1, eos_token_id=2, pad_token_id=0, rope_theta="-"))


@folder
def baichuan2(f, D=64, N=2, H=4, FF=96):
    n, _ = spm(f.path)
    baichuan_tensors(f, D, N, 16, FF, n, True)
    f.finish(common("BaichuanForCausalLM", "baichuan", D, N, H, "-", FF, n, rms_norm_eps=1e-6, model_max_length=4096, bos_token_id=1, eos_token_id=2, pad_token_id=0,
                    z_loss_weight=0, rope_theta="-", tokenizer_class="BaichuanTokenizer"))


@folder
def chatglm_glm4(f, D=64, N=2, H=4, K=2, hd=16, FF=96):
    n, ids = glm_tokens(f)
    f.add("transformer.embedding.word_embeddings.weight", n, D)
    for i in range(N):
        b = f"transformer.encoder.layers.{i}."
        f.norm(b + "input_layernorm", D), f.norm(b + "post_attention_layernorm", D)
        f.lin(b + "self_attention.query_key_value", (H + 2 * K) * hd, D, True), f.lin(b + "self_attention.dense", D, H * hd)
        f.lin(b + "mlp.dense_h_to_4h", 2 * FF, D), f.lin(b + "mlp.dense_4h_to_h", D, FF)
    f.norm("transformer.encoder.final_layernorm", D), f.lin("transformer.output_layer", n, D)
    f.t["transformer.rotary_pos_emb.inv_freq"] = store(uniform("x", (hd // 4,)), "F32")
    f.finish({"add_bias_linear": False, "add_qkv_bias": True, "apply_query_key_layer_scaling": True, "architectures": ["ChatGLMForConditionalGeneration"],
              "attention_softmax_in_fp32": True, "eos_token_id": [ids["<|endoftext|>"], ids["<|user|>"], ids["<|observation|>"]], "ffn_hidden_size": FF,
              "fp32_residual_connection": False, "hidden_size": D, "kv_channels": hd, "layernorm_epsilon": 1.5625e-07, "model_type": "chatglm",
              "multi_query_attention": True, "multi_query_group_num": K, "num_attention_heads": H, "num_hidden_layers": N, "num_layers": N,
              "original_rope": True, "pad_token_id": ids["<|endoftext|>"], "padded_vocab_size": n, "post_layer_norm": True, "rmsnorm": True,
              "rope_ratio": 500, "seq_length": 131072, "tie_word_embeddings": False, "use_cache": True, "vocab_size": n})


@folder
def glm_9b_hf(f, D=64, N=2, H=4, K=2, hd=16, FF=96):
    n, ids = glm_tokens(f)
    f.add("model.embed_tokens.weight", n, D)
    for i in range(N):
        b = f"model.layers.{i}."
        f.norm(b + "input_layernorm", D), f.norm(b + "post_attention_layernorm", D)
        m2.attn(f, b + "self_attn.", D, H, K, hd, qb=1)
        f.lin(b + "mlp.gate_up_proj", 2 * FF, D), f.lin(b + "mlp.down_proj", D, FF)
    ends(f, n, D)
    f.finish(common("GlmForCausalLM", "glm", D, N, H, K, FF, n, attention_bias=True, head_dim=hd, partial_rotary_factor=0.5, rms_norm_eps=1.5625e-07,
                    eos_token_id=[ids["<|endoftext|>"], ids["<|user|>"]], pad_token_id=ids["<|endoftext|>"]))


@folder
def arctic(f, D=64, N=2, H=4, K=2, hd=16, F=32, E=4):
    n, ids = spm(f.path, decoder={"400": {"content": "<|im_start|>", "lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True},
                                  "401": {"content": "<tool>", "lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": False}},
                 config={"bos_token": "<|im_start|>"})

    def moe(f, b, i):
        f.norm(b + "residual_layernorm", D)
        m2.ffn(f, b + "residual_mlp.", D, D, ("w1", "w3", "w2"))
        experts(f, b + "block_sparse_moe.", D, F, E, bias=None, names=("w1", "w3", "w2"))
        return True

    llama_tensors(f, D, N, H, K, hd, F, n, moe=moe)
    f.finish(common("ArcticForCausalLM", "arctic", D, N, H, K, F, n, num_experts_per_tok=2, num_local_experts=E, moe_layer_frequency=1, parallel_attn_mlp_res=True,
                    use_residual=True, enc_index=list(range(N)), bos_token_id=400, eos_token_id=2, rope_theta=10000.0, quantization=None,
                    head_dim="-", sliding_window=None))


@folder
def dbrx(f, D=64, N=2, H=4, K=2, hd=16, F=32, E=4):
    n, _ = tokens(f, "dbrx", added=("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|pad|>"), bos="<|endoftext|>", eos="<|endoftext|>", pad="<|pad|>")
    f.add("transformer.wte.weight", n, D)
    for i in range(N):
        b = f"transformer.blocks.{i}."
        f.norm(b + "norm_attn_norm.norm_1", D), f.norm(b + "norm_attn_norm.norm_2", D)
        f.lin(b + "norm_attn_norm.attn.Wqkv", (H + 2 * K) * hd, D), f.lin(b + "norm_attn_norm.attn.out_proj", D, H * hd)
        f.lin(b + "ffn.router.layer", E, D)
        for x in ("w1", "v1", "w2"):
            f.add(b + "ffn.experts.mlp." + x, E * F, D)
    f.norm("transformer.norm_f", D), f.lin("lm_head", n, D)
    f.finish({"architectures": ["DbrxForCausalLM"], "attn_config": {"clip_qkv": 8, "kv_n_heads": K, "model_type": "", "rope_theta": 500000}, "d_model": D,
              "emb_pdrop": 0.0, "ffn_config": {"ffn_hidden_size": F, "model_type": "", "moe_jitter_eps": 0.01, "moe_loss_weight": 0.05, "moe_num_experts": E,
                                               "moe_top_k": 2}, "max_seq_len": 32768, "model_type": "dbrx", "n_heads": H, "n_layers": N,
              "output_router_logits": False, "tie_word_embeddings": False, "use_cache": True, "vocab_size": n})


@folder
def grok1(f, D=64, N=2, H=4, K=2, hd=16, F=32, E=4):
    n, _ = spm(f.path)
    f.add("transformer.in_out_embed.weight", n, D)
    for i in range(N):
        b = f"transformer.decoder_layer.{i}."
        for x in ("rms_norm", "rms_norm_1", "rms_norm_2", "rms_norm_3"):
            f.norm(b + x, D)
        for x, o, p in (("query", H * hd, D), ("key", K * hd, D), ("value", K * hd, D), ("linear", D, H * hd)):
            f.lin(b + "multi_head_attention." + x, o, p)
        f.lin(b + "router", E, D)
        for e in range(E):
            m2.ffn(f, f"{b}moe.{e}.", D, F, ("linear", "linear_v", "linear_1"))
    f.norm("transformer.rms_norm", D), f.lin("lm_head", n, D)
    f.finish(common("Grok1ForCausalLM", "grok-1", D, N, H, K, F, n, attn_output_multiplier=0.08838834764831845, embedding_multiplier_scale=78.38367176906169,
                    output_multiplier_scale=0.5773502691896257, max_attn_value=30.0, num_experts_per_tok=2, num_local_experts=E, head_dim=hd,
                    bos_token_id=1, eos_token_id=2, pad_token_id=0, tie_word_embeddings=True))


@folder
def grok2(f, D=64, N=2, H=4, K=2, hd=16, FF=96, F=32, E=4):
    n, _ = tokens(f, "gpt-4o", added=("<|pad|>", "<|eos|>", "<|separator|>"), eos="<|separator|>", pad="<|pad|>", jinja=True)
    f.add("model.embed_tokens.weight", n, D)
    for i in range(N):
        b = f"model.layers.{i}."
        for x in ("pre_attn_norm", "post_attn_norm", "pre_moe_norm", "post_moe_norm"):
            f.norm(b + x, D)
        m2.attn(f, b + "self_attn.", D, H, K, hd)
        m2.ffn(f, b + "mlp.", D, FF)
        experts(f, b + "block_sparse_moe.", D, F, E, bias=None, names=("w1", "w3", "w2"))
    ends(f, n, D)
    f.finish(common("Grok1ForCausalLM", "git", D, N, H, K, FF, n, attn_logit_softcapping=30.0, attn_temperature_len=1024, embedding_multiplier_scale=90.50966799187809,
                    final_logit_softcapping=50, head_dim=hd, moe_intermediate_size=F, num_experts_per_tok=2, num_local_experts=E,
                    output_multiplier_scale=0.5, residual_moe=True, router_logit_softcapping=30, rope_theta=208533496, rope_type="original", scaling_factor=16.0,
                    original_max_position_embeddings=8192, extrapolation_factor=1.0, attn_factor=1.0, beta_fast=8, beta_slow=1,
                    max_position_embeddings=131072))


@folder
def maincoder(f, D=64, N=2, H=4, K=2, hd=16, FF=96):
    n = chat(f)
    llama_tensors(f, D, N, H, K, hd, FF, n, qkn="head", tied=1)
    f.finish(common("MaincoderForCausalLM", "maincoder", D, N, H, K, FF, n, head_dim=hd, attention_bias=False, rope_theta=1000000, tie_word_embeddings=True,
                    intermediate_size_mlp=FF, rope_scaling=None, use_qk_norm=True))


@folder
def pangu(f, D=64, N=2, H=4, K=2, hd=16, FF=96):
    n, _ = spm(f.path, config={"add_prefix_space": False})
    llama_tensors(f, D, N, H, K, hd, FF, n, qb=1, ob=1)
    f.finish(common("PanguEmbeddedForCausalLM", "PanguEmbedded", D, N, H, K, FF, n, bias=True, rope_theta=16000000.0, bos_token_id=1, eos_token_id=2, pad_token_id=0))


@folder
def xverse(f, D=64, N=2, H=4, hd=16, FF=96):
    n, _ = spm(f.path, fast=True)
    llama_tensors(f, D, N, H, H, hd, FF, n)
    f.finish(common("XverseForCausalLM", "xverse", D, N, H, "-", FF, n, rms_norm_eps=1e-6, bos_token_id=1, eos_token_id=2, pad_token_id=0, max_tokenizer_truncation=4096))


@folder
def codeshell(f, D=64, N=2, H=4, K=2, hd=16):
    n, _ = tokens(f, "starcoder", added=("<|endoftext|>", "<fim_prefix>", "<fim_middle>", "<fim_suffix>"), first=True, bos="<|endoftext|>", eos="<|endoftext|>",
                  pad=None, unk="<|endoftext|>")
    f.add("transformer.wte.weight", n, D), f.norm("transformer.ln_f", D, bias=True)
    for i in range(N):
        b = f"transformer.h.{i}."
        f.norm(b + "ln_1", D, bias=True), f.norm(b + "ln_2", D, bias=True)
        f.lin(b + "attn.c_attn", (H + 2 * K) * hd, D, True), f.lin(b + "attn.c_proj", D, D, True)
        f.lin(b + "mlp.c_fc", 4 * D, D, True), f.lin(b + "mlp.c_proj", D, 4 * D, True)
        f.t[b + "attn.rotary_emb.inv_freq"] = store(uniform("x", (hd // 2,)), "F32")
    f.lin("lm_head", n, D)
    f.finish({"activation_function": "gelu_pytorch_tanh", "architectures": ["CodeShellForCausalLM"], "attention_softmax_in_fp32": True, "bos_token_id": 0,
              "eos_token_id": 0, "group_query_attention": True, "layer_norm_epsilon": 1e-05, "model_type": "codeshell", "n_embd": D, "n_head": H, "n_inner": 4 * D,
              "n_layer": N, "n_positions": 8192, "num_query_groups": K, "position_embedding_type": "rope", "rope_scaling": None, "vocab_size": n})


@folder
def refact(f, D=96, N=2, H=4):
    n, _ = tokens(f, "starcoder", added=("<|endoftext|>", "<fim_prefix>", "<fim_middle>", "<fim_suffix>"), first=True, bos="<|endoftext|>", eos="<|endoftext|>",
                  pad=None, unk="<|endoftext|>")
    hd, FF = D // H, 256
    f.add("transformer.wte.weight", n, D), f.norm("transformer.ln_f", D)
    for i in range(N):
        b = f"transformer.h.{i}."
        f.norm(b + "ln_1", D), f.norm(b + "ln_2", D)
        f.lin(b + "attn.q", D, D), f.lin(b + "attn.kv", 2 * hd, D), f.lin(b + "attn.c_proj", D, D)
        f.lin(b + "mlp.gate_up_proj", 2 * FF, D), f.lin(b + "mlp.c_proj", D, FF)
    f.lin("lm_head", n, D)
    f.finish({"architectures": ["GPTRefactForCausalLM"], "attention_bias_in_fp32": True, "bos_token_id": 0, "do_sample": True, "eos_token_id": 0,
              "layer_norm_epsilon": 1e-05, "model_type": "gpt_refact", "multi_query": True, "n_embd": D, "n_head": H, "n_inner": None, "n_layer": N,
              "n_positions": 4096, "vocab_size": n})


@folder
def bailingmoe(f, D=64, N=2, H=4, K=2, hd=16, F=32, E=4):
    n = chat(f, "gpt-2")
    f.add("model.word_embeddings.weight", n, D)
    for i in range(N):
        b = f"model.layers.{i}."
        f.norm(b + "input_layernorm", D), f.norm(b + "post_attention_layernorm", D)
        f.lin(b + "attention.query_key_value", (H + 2 * K) * hd, D), f.lin(b + "attention.dense", D, H * hd)
        experts(f, b + "mlp.", D, F, E, bias=None)
        m2.ffn(f, b + "mlp.shared_experts.", D, 2 * F)
    ends(f, n, D)
    f.finish(common("BailingMoeForCausalLM", "bailing_moe", D, N, H, K, 96, n, head_dim=hd, first_k_dense_replace=0, moe_intermediate_size=F, norm_head=True,
                    norm_softmax=False, norm_topk_prob=True, num_experts=E, num_experts_per_tok=2, num_shared_experts=2, rope_scaling=None, rope_theta=600000,
                    use_bias=False, use_qkv_bias=False))


@folder
def deepseek_moe(f, D=64, N=2, H=4, hd=16, FF=96, F=32, E=4):
    n, _ = tokens(f, "llama-bpe", added=("<|begin_of_sentence|>", "<|end_of_sentence|>"), bos="<|begin_of_sentence|>", eos="<|end_of_sentence|>", pad=None,
                  post=("<|begin_of_sentence|>", None))

    def moe(f, b, i):
        if i == 0:
            return False
        experts(f, b + "mlp.", D, F, E, bias=None)
        m2.ffn(f, b + "mlp.shared_experts.", D, 2 * F)
        return True

    llama_tensors(f, D, N, H, H, hd, FF, n, moe=moe)
    f.finish(common("DeepseekForCausalLM", "deepseek", D, N, H, H, FF, n, first_k_dense_replace=1, moe_intermediate_size=F, moe_layer_freq=1, n_routed_experts=E,
                    n_shared_experts=2, norm_topk_prob=False, num_experts_per_tok=2, rms_norm_eps=1e-6, rope_scaling=None, scoring_func="softmax"))


# ---- encoders

def words(f, n_words=60, lower=True, config=None):
    """tokenizer.json that cuts words into the longest tokens (WordPiece), as BERT's: the number of tokens."""
    from make_hf import TEXT, at
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    text = TEXT.lower() if lower else TEXT
    letters = sorted(set("".join(text.split())))
    tokens = special + letters + ["##" + x for x in letters] + sorted(x for x in set(text.split()) if len(x) > 1)[:n_words]
    f.pre = "default"
    ids = {x: i for i, x in enumerate(tokens)}
    template = [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "[SEP]", "type_id": 0}}]
    pair = template + [{"Sequence": {"id": "B", "type_id": 1}}, {"SpecialToken": {"id": "[SEP]", "type_id": 1}}]
    write(f.path, "tokenizer.json", {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [at(x, ids[x]) for x in special],
        "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": lower},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "TemplateProcessing", "single": template, "pair": pair,
                           "special_tokens": {x: {"id": x, "ids": [ids[x]], "tokens": [x]} for x in ("[CLS]", "[SEP]")}},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": ids}})
    write(f.path, "tokenizer_config.json", dict({
        "added_tokens_decoder": {str(ids[x]): {"content": x, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True} for x in special},
        "clean_up_tokenization_spaces": True, "cls_token": "[CLS]", "do_lower_case": lower, "mask_token": "[MASK]", "model_max_length": 512,
        "pad_token": "[PAD]", "sep_token": "[SEP]", "tokenizer_class": "BertTokenizer", "unk_token": "[UNK]"}, **(config or {})))
    return len(tokens)


def pooled(f, mode):
    """The modules of a sentence transformer that pools as mode says."""
    write(f.path, "modules.json", [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
                                   {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}])
    folder = pathlib.Path(f.path) / "1_Pooling"
    folder.mkdir(exist_ok=True)
    write(str(folder), "config.json", {"word_embedding_dimension": 64, "pooling_mode_cls_token": mode == "cls", "pooling_mode_mean_tokens": mode == "mean",
                                       "pooling_mode_max_tokens": False, "pooling_mode_mean_sqrt_len_tokens": False, "pooling_mode_lasttoken": mode == "lasttoken"})


def bert_config(name, D, N, H, FF, n, **other):
    return {"architectures": [name], "attention_probs_dropout_prob": 0.1, "classifier_dropout": None, "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "hidden_size": D,
            "initializer_range": 0.02, "intermediate_size": FF, "layer_norm_eps": 1e-12, "max_position_embeddings": 512, "model_type": "bert",
            "num_attention_heads": H, "num_hidden_layers": N, "pad_token_id": 0, "position_embedding_type": "absolute", "torch_dtype": "float32",
            "transformers_version": "4.51.0", "type_vocab_size": 2, "use_cache": True, "vocab_size": n, **other}


def bert_embeddings(f, n, D, positions, kinds=2, p=""):
    f.add(p + "embeddings.word_embeddings.weight", n, D)
    if positions:
        f.add(p + "embeddings.position_embeddings.weight", positions, D)
    if kinds:
        f.add(p + "embeddings.token_type_embeddings.weight", kinds, D)
    f.norm(p + "embeddings.LayerNorm", D, bias=True)


def bert_attention(f, b, D):
    for x in ("query", "key", "value"):
        f.lin(b + "attention.self." + x, D, D, True)
    f.lin(b + "attention.output.dense", D, D, True), f.norm(b + "attention.output.LayerNorm", D, bias=True)


def bert_tensors(f, n, D, N, FF, positions=512, kinds=2, p=""):
    bert_embeddings(f, n, D, positions, kinds, p)
    for i in range(N):
        b = f"{p}encoder.layer.{i}."
        bert_attention(f, b, D)
        f.lin(b + "intermediate.dense", FF, D, True), f.lin(b + "output.dense", D, FF, True), f.norm(b + "output.LayerNorm", D, bias=True)


@folder
def bert(f, D=64, N=2, H=4, FF=96):
    f.dtype = "F32"
    n = words(f)
    pooled(f, "cls")
    bert_tensors(f, n, D, N, FF)
    f.lin("pooler.dense", D, D, True)
    f.finish(bert_config("BertModel", D, N, H, FF, n))


@folder
def bert_mlm(f, D=64, N=2, H=4, FF=96):
    n = words(f, lower=False)
    bert_tensors(f, n, D, N, FF, p="bert.")
    f.lin("cls.predictions.transform.dense", D, D, True), f.add("cls.predictions.bias", n), f.lin("cls.seq_relationship", 2, D, True)
    f.finish(bert_config("BertForMaskedLM", D, N, H, FF, n, type_vocab_size=2))


def distil(f, name, p, D=64, N=2, H=4, FF=96, **more):
    n = words(f, config={"tokenizer_class": "DistilBertTokenizer"})
    bert_embeddings(f, n, D, 512, 0, p)
    for i in range(N):
        b = f"{p}transformer.layer.{i}."
        for x in ("q_lin", "k_lin", "v_lin", "out_lin"):
            f.lin(b + "attention." + x, D, D, True)
        f.norm(b + "sa_layer_norm", D, bias=True), f.norm(b + "output_layer_norm", D, bias=True)
        f.lin(b + "ffn.lin1", FF, D, True), f.lin(b + "ffn.lin2", D, FF, True)
    if name.endswith("MaskedLM"):
        f.lin("vocab_transform", D, D, True), f.norm("vocab_layer_norm", D, bias=True), f.add("vocab_projector.bias", n)
    f.finish({"activation": "gelu", "architectures": [name], "attention_dropout": 0.1, "dim": D, "dropout": 0.1, "hidden_dim": FF, "initializer_range": 0.02,
              "max_position_embeddings": 512, "model_type": "distilbert", "n_heads": H, "n_layers": N, "pad_token_id": 0, "qa_dropout": 0.1,
              "seq_classif_dropout": 0.2, "sinusoidal_pos_embds": False, "tie_weights_": True, "vocab_size": n, **more})


@folder
def distilbert(f):
    distil(f, "DistilBertModel", "")


@folder
def distilbert_mlm(f):
    distil(f, "DistilBertForMaskedLM", "distilbert.")


@folder
def roberta(f, D=64, N=2, H=4, FF=96, name="RobertaModel", p="", **more):
    n, ids = tokens(f, "roberta-bpe" if "roberta-bpe" in m2.PRE else "gpt-2", added=("<s>", "<pad>", "</s>", "<unk>", "<mask>"), first=True, bos="<s>", eos="</s>", pad="<pad>",
                    unk="<unk>", post=("<s>", "</s>"), template=None, config={"tokenizer_class": "RobertaTokenizer", "cls_token": "<s>", "sep_token": "</s>", "mask_token": "<mask>"})
    pooled(f, "mean")
    bert_tensors(f, n, D, N, FF, positions=514, kinds=1, p=p)
    f.finish(bert_config(name, D, N, H, FF, n, model_type="roberta", layer_norm_eps=1e-05, max_position_embeddings=514, type_vocab_size=1, pad_token_id=1,
                         bos_token_id=0, eos_token_id=2, **more))


@folder
def jina_v3(f, D=64, N=2, FF=96, H=4, rank=4, tasks=("retrieval.query", "text-matching")):
    """Encoders of XLM-RoBERTa with a rotation, whose matrices have adapters for tasks"""
    n = xlm_tokens(f)
    pooled(f, "mean")

    def lin(name, out, width, bias=True):
        f.add(name + ".parametrizations.weight.original", out, width)
        f.add(name + ".parametrizations.weight.0.lora_A", len(tasks), rank, width), f.add(name + ".parametrizations.weight.0.lora_B", len(tasks), out, rank)
        if bias:
            f.add(name + ".bias", out)

    lin("roberta.embeddings.word_embeddings", n, D, False), lin("roberta.embeddings.token_type_embeddings", 1, D, False), f.norm("roberta.emb_ln", D, bias=True)
    for i in range(N):
        b = f"roberta.encoder.layers.{i}."
        lin(b + "mixer.Wqkv", 3 * D, D), lin(b + "mixer.out_proj", D, D), lin(b + "mlp.fc1", FF, D), lin(b + "mlp.fc2", D, FF)
        f.norm(b + "norm1", D, bias=True), f.norm(b + "norm2", D, bias=True)
    lin("roberta.pooler.dense", D, D)
    f.finish(bert_config("XLMRobertaModel", D, N, H, FF, n, model_type="xlm-roberta", layer_norm_eps=1e-05, max_position_embeddings=514, type_vocab_size=1, pad_token_id=1,
                         bos_token_id=0, eos_token_id=2, position_embedding_type="rotary", rotary_emb_base=20000.0, lora_adaptations=list(tasks), lora_alpha=1, lora_rank=rank,
                         lora_dropout_p=0.0, load_trained_adapters=True, task_instructions={t: t + ": " for t in tasks}, truncate_dim=None, use_flash_attn=True))


@folder
def xlm_roberta(f, D=64, N=2, H=4, FF=96, name="XLMRobertaModel", p="", **more):
    n = xlm_tokens(f)
    pooled(f, "cls")
    bert_tensors(f, n, D, N, FF, positions=514, kinds=1, p=p)
    if not p:
        f.lin("pooler.dense", D, D, True)
    f.finish(bert_config(name, D, N, H, FF, n, model_type="xlm-roberta", layer_norm_eps=1e-05, max_position_embeddings=514, type_vocab_size=1, pad_token_id=1,
                         bos_token_id=0, eos_token_id=2, output_past=True, **more))


@folder
def xlm_roberta_json(f, D=64, N=2, H=4, FF=96):
    """The vocabulary is in tokenizer.json alone, as jina-embeddings-v3 has it; the config's is larger."""
    n = xlm_tokens(f)
    unigrams(f, ("<s>", "<pad>", "</s>", "<unk>"), ["<own>"] * (n - 5 - len(scored())))
    pooled(f, "cls")
    bert_tensors(f, n + 3, D, N, FF, positions=514, kinds=1)
    f.lin("pooler.dense", D, D, True)
    f.finish(bert_config("XLMRobertaModel", D, N, H, FF, n + 3, model_type="xlm-roberta", layer_norm_eps=1e-05, max_position_embeddings=514, type_vocab_size=1, pad_token_id=1,
                         bos_token_id=0, eos_token_id=2, output_past=True))


def scored():
    """Words and letters of the text with their scores."""
    words, letters = sorted({"\u2581" + w for w in TEXT.split()}), ["\u2581"] + sorted(set("".join(TEXT.split())))
    return [[x, -2.0 - i / 8] for i, x in enumerate(words)] + [[x, -9.0 - i / 8] for i, x in enumerate(letters)]


def unigrams(f, front, more=(), post=None):
    """tokenizer.json of unigrams instead of sentencepiece.bpe.model; returns the number of tokens."""
    import base64
    (pathlib.Path(f.path) / "sentencepiece.bpe.model").unlink()
    vocab = [[x, 0.0] for x in front] + scored() + [[x, -1.5] for x in more] + [["<mask>", 0.0]]
    names = [x for x, _ in vocab]
    added = [{"id": names.index(x), "content": x, "single_word": False, "lstrip": x == "<mask>", "rstrip": False, "normalized": False, "special": x != "<own>"}
             for x in (*front, "<own>", "<mask>") if x in names]
    space = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}
    if post:
        sides = [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}]
        post = {"type": "TemplateProcessing", "single": sides, "pair": sides, "special_tokens": {x: {"id": x, "ids": [names.index(x)], "tokens": [x]} for x in ("<s>", "</s>")}}
    write(f.path, "tokenizer.json", {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
                                     "normalizer": {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(b"\0\4\0\0" + bytes(1026)).decode()},
                                     "pre_tokenizer": space, "post_processor": post, "decoder": space, "model": {"type": "Unigram", "unk_id": 3, "vocab": vocab, "byte_fallback": False}})
    return len(vocab)


@folder
def camembert(f, D=64, N=2, H=4, FF=96):
    """XLM-RoBERTa's names and positions; other special tokens in front of the pieces."""
    xlm_tokens(f)
    n = unigrams(f, ("<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED", "<s>", "</s>"), post=True)
    write(f.path, "tokenizer_config.json", {"bos_token": "<s>", "clean_up_tokenization_spaces": True, "cls_token": "<s>", "eos_token": "</s>", "mask_token": "<mask>", "model_max_length": 512,
                                            "pad_token": "<pad>", "sep_token": "</s>", "tokenizer_class": "CamembertTokenizer", "unk_token": "<unk>"})
    pooled(f, "mean")
    bert_tensors(f, n, D, N, FF, positions=514, kinds=1)
    f.lin("pooler.dense", D, D, True)
    f.finish(bert_config("CamembertModel", D, N, H, FF, n, model_type="camembert", layer_norm_eps=1e-05, max_position_embeddings=514, type_vocab_size=1, pad_token_id=1,
                         bos_token_id=5, eos_token_id=6, output_past=True))


def xlm_tokens(f):
    """sentencepiece.bpe.model; returns the number of tokens."""
    from make_hf import pb
    letters = sorted(set("".join(TEXT.split())))
    pieces = [("<unk>", 0, 2), ("<s>", 0, 3), ("</s>", 0, 3)]
    pieces += [(x, -2.0 - i / 8, 1) for i, x in enumerate(sorted({"\u2581" + w for w in TEXT.split()}))] + [(x, -9.0 - i / 8, 1) for i, x in enumerate(["\u2581"] + letters)]
    model = b"".join(pb(1, 2, pb(1, 2, t.encode()) + pb(2, 5, float(s)) + (pb(3, 0, k) if k != 1 else b"")) for t, s, k in pieces)
    model += pb(2, 2, pb(3, 0, 1) + pb(4, 0, len(pieces)) + pb(40, 0, 0) + pb(41, 0, 1) + pb(42, 0, 2))
    model += pb(3, 2, pb(1, 2, b"nmt_nfkc") + pb(2, 2, b"\0\4" + bytes(1027)) + pb(3, 0, 1) + pb(4, 0, 1) + pb(5, 0, 1))
    (pathlib.Path(f.path) / "sentencepiece.bpe.model").write_bytes(model)
    special = {x: {"content": x, "lstrip": x == "<mask>", "normalized": False, "rstrip": False, "single_word": False, "special": True} for x in ("<s>", "<pad>", "</s>", "<unk>", "<mask>")}
    n = len(pieces) + 2
    write(f.path, "tokenizer_config.json", {"added_tokens_decoder": {str(i): special[x] for i, x in zip((0, 1, 2, 3, n - 1), special)}, "bos_token": "<s>",
                                            "clean_up_tokenization_spaces": True, "cls_token": "<s>", "eos_token": "</s>", "mask_token": "<mask>", "model_max_length": 512,
                                            "pad_token": "<pad>", "sep_token": "</s>", "tokenizer_class": "XLMRobertaTokenizer", "unk_token": "<unk>"})
    f.pre = "default"
    return n


def spiece(f, extra=2):
    """T5's vocabulary: <pad>, </s>, <unk>, words and letters; the config's is larger."""
    from make_hf import pb
    letters = sorted(set("".join(TEXT.split())))
    pieces = [("<pad>", 0, 3), ("</s>", 0, 3), ("<unk>", 0, 2)]
    pieces += [(x, -2.0 - i / 8, 1) for i, x in enumerate(sorted({"\u2581" + w for w in TEXT.split()}))] + [(x, -9.0 - i / 8, 1) for i, x in enumerate(["\u2581"] + letters)]
    model = b"".join(pb(1, 2, pb(1, 2, t.encode()) + pb(2, 5, float(s)) + (pb(3, 0, k) if k != 1 else b"")) for t, s, k in pieces)
    model += pb(2, 2, pb(3, 0, 1) + pb(4, 0, len(pieces)) + pb(40, 0, 2) + pb(41, 0, -1) + pb(42, 0, 1) + pb(43, 0, 0))
    model += pb(3, 2, pb(1, 2, b"nmt_nfkc") + pb(2, 2, b"\0\4" + bytes(1027)) + pb(3, 0, 1) + pb(4, 0, 1) + pb(5, 0, 1))
    (pathlib.Path(f.path) / "spiece.model").write_bytes(model)
    n = len(pieces)
    write(f.path, "added_tokens.json", {"<extra_id_0>": n})
    write(f.path, "tokenizer_config.json", {"additional_special_tokens": ["<extra_id_0>"], "eos_token": "</s>", "extra_ids": 1, "model_max_length": 512, "pad_token": "<pad>",
                                            "tokenizer_class": "T5Tokenizer", "unk_token": "<unk>"})
    f.pre = "default"
    return n + 1 + extra


def t5_block(f, b, D, H, HD, FF, gated, bias, decodes):
    parts = ["SelfAttention"] + ["EncDecAttention"] * decodes
    for i, part in enumerate(parts):
        for x in "qkv":
            f.lin(f"{b}layer.{i}.{part}.{x}", H * HD, D)
        f.lin(f"{b}layer.{i}.{part}.o", D, H * HD), f.norm(f"{b}layer.{i}.layer_norm", D)
        if i == 0 and bias:
            f.lin(f"{b}layer.{i}.{part}.relative_attention_bias", 32, H)
    i = len(parts)
    for x in ("wi_0", "wi_1") if gated else ("wi",):
        f.lin(f"{b}layer.{i}.DenseReluDense.{x}", FF, D)
    f.lin(f"{b}layer.{i}.DenseReluDense.wo", D, FF), f.norm(f"{b}layer.{i}.layer_norm", D)


def t5_of(f, architecture, model_type="t5", D=64, N=2, M=2, H=4, HD=32, FF=96, gated=False, own=False, embeddings=("shared",), head=False, **more):
    n = spiece(f)
    for name in embeddings:
        f.lin(name, n, D)
    if head:
        f.lin("lm_head", n, D)
    for i in range(N):
        t5_block(f, f"encoder.block.{i}.", D, H, HD, FF, gated, own or i == 0, False)
    f.norm("encoder.final_layer_norm", D)
    for i in range(M):
        t5_block(f, f"decoder.block.{i}.", D, H, HD, FF, gated, own or i == 0, True)
    if M:
        f.norm("decoder.final_layer_norm", D)
    f.finish({"architectures": [architecture], "d_ff": FF, "d_kv": HD, "d_model": D, "decoder_start_token_id": 0, "dropout_rate": 0.1, "eos_token_id": 1,
              "feed_forward_proj": "gated-gelu" if gated else "relu", "initializer_factor": 1.0, "is_encoder_decoder": True, "layer_norm_epsilon": 1e-06, "model_type": model_type,
              "num_decoder_layers": M or N, "num_heads": H, "num_layers": N, "output_past": True, "pad_token_id": 0, "relative_attention_num_buckets": 32, "vocab_size": n, **more})


@folder
def t5(f):
    t5_of(f, "T5ForConditionalGeneration", n_positions=512)


@folder
def t5_old(f):
    t5_of(f, "T5WithLMHeadModel", n_positions=512, M=1)


@folder
def mt5(f):
    t5_of(f, "MT5ForConditionalGeneration", "mt5", gated=True, head=True, tie_word_embeddings=False)


@folder
def umt5(f):
    t5_of(f, "UMT5ForConditionalGeneration", "umt5", gated=True, own=True, head=True, tie_word_embeddings=False)


@folder
def umt5_base(f):
    t5_of(f, "UMT5Model", "umt5", gated=True, own=True)


@folder
def t5_encoder(f):
    t5_of(f, "T5EncoderModel", n_positions=512, M=0, embeddings=("encoder.embed_tokens",))


@folder
def jina_v2(f, D=64, N=2, H=4, FF=96):
    n = words(f)
    pooled(f, "mean")
    bert_embeddings(f, n, D, 0)
    for i in range(N):
        b = f"encoder.layer.{i}."
        bert_attention(f, b, D)
        f.lin(b + "mlp.gated_layers", 2 * FF, D), f.lin(b + "mlp.wo", D, FF, True), f.norm(b + "mlp.layernorm", D, bias=True)
    f.lin("pooler.dense", D, D, True)
    f.finish(bert_config("JinaBertForMaskedLM", D, N, H, FF, n, position_embedding_type="alibi", feed_forward_type="geglu", emb_pooler="mean", max_position_embeddings=8192,
                         attn_implementation="torch", model_max_length=8192))


@folder
def jina_v2_code(f, D=64, N=2, H=4, FF=96):
    n, ids = tokens(f, "gpt-2", added=("<s>", "<pad>", "</s>", "<unk>", "<mask>"), first=True, bos="<s>", eos="</s>", pad="<pad>", unk="<unk>", post=("<s>", "</s>"),
                    template=None, config={"tokenizer_class": "RobertaTokenizer", "cls_token": "<s>", "sep_token": "</s>", "mask_token": "<mask>"})
    bert_embeddings(f, n, D, 0)
    for i in range(N):
        b = f"encoder.layer.{i}."
        bert_attention(f, b, D)
        for x in ("layer_norm_q", "layer_norm_k"):
            f.norm(b + "attention.self." + x, D, bias=True)
        f.norm(b + "layer_norm_1", D, bias=True), f.norm(b + "layer_norm_2", D, bias=True)
        f.lin(b + "mlp.up_gated_layer", 2 * FF, D), f.lin(b + "mlp.down_layer", D, FF, True)
    f.finish(bert_config("JinaBertModel", D, N, H, FF, n, position_embedding_type="alibi", feed_forward_type="geglu", max_position_embeddings=8192))


@folder
def modern_bert(f, D=64, N=4, H=4, FF=96, name="ModernBertModel", p="", **more):
    special = ("[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]")
    n, ids = tokens(f, "gpt-2", added=special, pad="[PAD]", unk="[UNK]", eos=None, template=None, post=("[CLS]", "[SEP]"),
                    config={"cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"})
    pooled(f, "cls")
    f.add(p + "embeddings.tok_embeddings.weight", n, D), f.norm(p + "embeddings.norm", D)
    for i in range(N):
        b = f"{p}layers.{i}."
        if i:
            f.norm(b + "attn_norm", D)
        f.lin(b + "attn.Wqkv", 3 * D, D), f.lin(b + "attn.Wo", D, D), f.norm(b + "mlp_norm", D)
        f.lin(b + "mlp.Wi", 2 * FF, D), f.lin(b + "mlp.Wo", D, FF)
    f.norm(p + "final_norm", D)
    f.finish({"architectures": [name], "attention_bias": False, "bos_token_id": ids["[CLS]"], "classifier_activation": "gelu", "classifier_bias": False,
              "classifier_pooling": "mean", "cls_token_id": ids["[CLS]"], "decoder_bias": True, "eos_token_id": ids["[SEP]"], "global_attn_every_n_layers": 3,
              "global_rope_theta": 160000.0, "hidden_activation": "gelu", "hidden_size": D, "intermediate_size": FF, "layer_norm_eps": 1e-05, "local_attention": 128,
              "local_rope_theta": 10000.0, "max_position_embeddings": 8192, "mlp_bias": False, "model_type": "modernbert", "norm_bias": False, "norm_eps": 1e-05,
              "num_attention_heads": H, "num_hidden_layers": N, "pad_token_id": ids["[PAD]"], "position_embedding_type": "absolute", "sep_token_id": ids["[SEP]"],
              "tie_word_embeddings": True, "torch_dtype": "float32", "vocab_size": n, **more})


@folder
def neobert(f, D=64, N=2, H=4, FF=96, name="NeoBERTLMHead", **more):
    n = words(f)
    f.add("model.encoder.weight", n, D)
    for i in range(N):
        b = f"model.transformer_encoder.{i}."
        f.norm(b + "attention_norm", D), f.norm(b + "ffn_norm", D)
        f.lin(b + "qkv", 3 * D, D), f.lin(b + "wo", D, D), f.lin(b + "ffn.w12", 2 * (2 * FF // 3), D), f.lin(b + "ffn.w3", D, 2 * FF // 3)
    f.norm("model.layer_norm", D)
    if name == "NeoBERTLMHead":
        f.lin("decoder", n, D, True)
    f.finish({"architectures": [name], "classifier_init_range": 0.02, "decoder_init_range": 0.02, "dim_head": D // H, "embedding_init_range": 0.02,
              "hidden_size": D, "intermediate_size": FF, "kwargs": {}, "max_length": 4096, "model_type": "neobert", "norm_eps": 1e-05, "num_attention_heads": H,
              "num_hidden_layers": N, "pad_token_id": 0, "torch_dtype": "float32", "vocab_size": n, **more})


# ---- the same with heads that classify

def labels(*names):
    return {"id2label": {str(i): x for i, x in enumerate(names)}, "label2id": {x: i for i, x in enumerate(names)}}


JUDGES = labels("LABEL_0")  # a reranker's


@folder
def bert_classifier(f, D=64, N=2, H=4, FF=96):
    n = words(f)
    bert_tensors(f, n, D, N, FF, p="bert.")
    f.lin("bert.pooler.dense", D, D, True), f.lin("classifier", 12, D, True)
    f.finish(bert_config("BertForSequenceClassification", D, N, H, FF, n, **labels(*(f"of kind {i}" for i in range(12)))))


@folder
def bert_reranker(f, D=64, N=2, H=4, FF=96):
    """Without names of its outputs."""
    n = words(f)
    bert_tensors(f, n, D, N, FF, p="bert.")
    f.lin("classifier", 2, D, True)
    f.finish(bert_config("BertForSequenceClassification", D, N, H, FF, n))


@folder
def distilbert_classifier(f, D=64):
    f.lin("pre_classifier", D, D, True), f.lin("classifier", 2, D, True)
    distil(f, "DistilBertForSequenceClassification", "distilbert.", **labels("NEGATIVE", "POSITIVE"))


@folder
def roberta_classifier(f, D=64):
    f.lin("classifier.dense", D, D, True), f.lin("classifier.out_proj", 3, D, True)
    roberta(f, name="RobertaForSequenceClassification", p="roberta.", **labels("negative", "neutral", "positive"))


@folder
def xlm_roberta_reranker(f, D=64):
    f.lin("classifier.dense", D, D, True), f.lin("classifier.out_proj", 1, D, True)
    xlm_roberta(f, name="XLMRobertaForSequenceClassification", p="roberta.", **JUDGES)


@folder
def modern_bert_reranker(f, D=64):
    f.lin("head.dense", D, D), f.norm("head.norm", D), f.lin("classifier", 1, D, True)
    modern_bert(f, name="ModernBertForSequenceClassification", p="model.", **JUDGES)


@folder
def modern_bert_mlm(f, D=64):
    f.lin("head.dense", D, D), f.norm("head.norm", D)
    modern_bert(f, name="ModernBertForMaskedLM", p="model.")


@folder
def neobert_classifier(f, D=64):
    f.lin("dense", D, D, True), f.lin("classifier", 3, D, True)
    neobert(f, name="NeoBERTForSequenceClassification", **labels("a", "b", "c"))


@folder
def jina_v5(f):
    eurobert(f, name="JinaEmbeddingsV5Model")
    pooled(f, "lasttoken")


@folder
def eurobert(f, D=64, N=2, H=4, K=2, hd=16, FF=96, name="EuroBertModel"):
    n, ids = tokens(f, "llama-bpe", added=("<|begin_of_text|>", "<|end_of_text|>", "<|mask|>", "<|pad|>"), bos="<|begin_of_text|>", eos="<|end_of_text|>", pad="<|pad|>",
                    template=None, post=("<|begin_of_text|>", "<|end_of_text|>"), config={"mask_token": "<|mask|>"})
    llama_tensors(f, D, N, H, K, hd, FF, n, p="", tied=1)
    f.finish(common(name, "eurobert", D, N, H, K, FF, n, attention_bias=False, bos_token=ids["<|begin_of_text|>"], bos_token_id=ids["<|begin_of_text|>"],
                    eos_token_id=ids["<|end_of_text|>"], head_dim=hd, mask_token_id=ids["<|mask|>"], mlp_bias=False, pad_token_id=ids["<|pad|>"], rope_scaling=None,
                    rope_theta=250000, max_position_embeddings=8192))


# ---- diffusion

@folder
def dream(f, D=64, N=2, H=4, K=2, hd=16, FF=96):
    n, ids = tokens(f, added=("<|endoftext|>", "<|beginoftext|>", "<|mask|>"), bos="<|beginoftext|>", eos="<|endoftext|>", pairs=True)
    llama_tensors(f, D, N, H, K, hd, FF, n, qb=1)
    f.finish(common("DreamModel", "Dream", D, N, H, K, FF, n, bos_token_id=ids["<|beginoftext|>"], eos_token_id=ids["<|endoftext|>"], mask_token_id=ids["<|mask|>"],
                    pad_token_id=ids["<|endoftext|>"], full_attn_mask=True, mask_token="<|mask|>", rope_scaling=None, rope_theta=1000000.0, use_mrope=False,
                    max_window_layers=N, sliding_window=None, use_sliding_window=False, max_position_embeddings=131072, rms_norm_eps=1e-6))


@folder
def llada(f, D=64, N=2, H=4, hd=16, FF=96):
    n, ids = tokens(f, "llama-bpe", added=("<|startoftext|>", "<|endoftext|>", "<|mdm_mask|>"), bos="<|startoftext|>", eos="<|endoftext|>", pairs=True)
    f.add("model.transformer.wte.weight", n, D), f.norm("model.transformer.ln_f", D), f.lin("model.transformer.ff_out", n, D)
    for i in range(N):
        b = f"model.transformer.blocks.{i}."
        f.norm(b + "attn_norm", D), f.norm(b + "ff_norm", D)
        for x in ("q_proj", "k_proj", "v_proj", "attn_out"):
            f.lin(b + x, D, D)
        f.lin(b + "ff_proj", FF, D), f.lin(b + "up_proj", FF, D), f.lin(b + "ff_out", D, FF)
    f.finish({"activation_type": "silu", "alibi": False, "architectures": ["LLaDAModelLM"], "attention_dropout": 0.0, "attention_layer_norm": False,
              "bias_for_layer_norm": False, "block_group_size": 1, "block_type": "llama", "d_model": D, "embedding_size": n, "eos_token_id": ids["<|endoftext|>"],
              "include_bias": False, "include_qkv_bias": False, "input_emb_norm": False, "layer_norm_type": "rms", "mask_token_id": ids["<|mdm_mask|>"],
              "max_sequence_length": 4096, "mlp_hidden_size": FF, "mlp_ratio": 4, "model_type": "llada", "n_heads": H, "n_kv_heads": H, "n_layers": N,
              "pad_token_id": ids["<|endoftext|>"], "rms_norm_eps": 1e-05, "rope": True, "rope_full_precision": True, "rope_theta": 500000.0, "scale_logits": False,
              "use_cache": False, "vocab_size": n, "weight_tying": False})


def plamo_tokens(f, n_words=60):
    """tokenizer.jsonl, a line per token: text, score, kind, and two numbers that readers do not need."""
    import json
    from make_hf import TEXT
    rows = [["<|plamo:unk|>", 0.0, "UNKNOWN"], ["<|plamo:bos|>", 0.0, "CONTROL"], ["<|plamo:eos|>", 0.0, "CONTROL"], ["<|plamo:pad|>", 0.0, "CONTROL"]]
    rows += [[f"<0x{i:02X}>", 0.0, "BYTE"] for i in range(256)]
    words = sorted(set(TEXT.split()))[:n_words]
    rows += [[x, -float(i), "NORMAL"] for i, x in enumerate(words + sorted(set("".join(TEXT.split()))))]
    seen = set()
    rows = [r for r in rows if not (r[0] in seen or seen.add(r[0]))]
    (pathlib.Path(f.path) / "tokenizer.jsonl").write_text("".join(json.dumps([*r, i, None], ensure_ascii=False) + "\n" for i, r in enumerate(rows)), encoding="utf-8")
    write(f.path, "tokenizer_config.json", {"add_bos_token": True, "add_eos_token": False, "bos_token": "<|plamo:bos|>", "eos_token": "<|plamo:eos|>",
                                            "pad_token": "<|plamo:pad|>", "unk_token": "<|plamo:unk|>", "tokenizer_class": "Plamo2Tokenizer"})
    return len(rows)


PLAMO_NORMS = ("pre_mixer_norm", "post_mixer_norm", "pre_mlp_norm", "post_mlp_norm")


@folder
def plamo2(f, D=64, N=4, H=4, K=1, hd=16, FF=96, Nn=16, Hm=4, w=4):
    n = plamo_tokens(f)
    n += -n % 16
    inner, rank = Hm * hd, max(64, D // 16)
    f.add("model.embed_tokens.weight", n, D)
    for i in range(N):
        b = f"model.layers.layers.{i}."
        m = b + "mixer."
        for x in PLAMO_NORMS:
            f.norm(b + x, D, 0.0)
        if i % 2 == 1:
            f.lin(m + "qkv_proj", (H + 2 * K) * hd, D), f.lin(m + "o_proj", D, H * hd), f.add(m + "q_weight", H, hd), f.add(m + "k_weight", K, hd)
        else:
            f.lin(m + "in_proj", 2 * inner, D), f.add(m + "conv1d.weight", inner, 1, w, scale=0.4)
            f.lin(m + "bcdt_proj", rank + 2 * Nn, inner), f.lin(m + "dt_proj", Hm, rank)
            m2.vec(f, m + "dt_bias", Hm, lo=-4.0, hi=0.0, dtype="F32"), m2.vec(f, m + "A_log", Hm, lo=0.0, hi=2.0, dtype="F32"), m2.vec(f, m + "D", Hm, dtype="F32")
            f.add(m + "dt_norm_weight", rank, around=1.0), f.add(m + "B_norm_weight", Nn, around=1.0), f.add(m + "C_norm_weight", Nn, around=1.0)
            f.lin(m + "out_proj", D, inner)
        f.lin(b + "mlp.gate_up_proj", 2 * FF, D), f.lin(b + "mlp.down_proj", D, FF)
    f.norm("model.norm", D, 0.0)
    f.finish(common("Plamo2ForCausalLM", "plamo2", D, N, H, K, FF, n, attention_window_size=2048, hidden_size_per_head=hd, mamba_d_conv=w, mamba_d_state=Nn, mamba_enabled=True,
                    mamba_num_heads=Hm, mamba_step=2, rms_norm_eps=1e-6, rope_theta="-", tie_word_embeddings=True, bos_token_id=1, eos_token_id=2, pad_token_id=3))


@folder
def plamo3(f, D=64, N=4, H=4, K=2, hd=16, FF=96):
    n = plamo_tokens(f)
    n += -n % 16
    f.add("model.embed_tokens.weight", n, D)
    for i in range(N):
        b = f"model.layers.layers.{i}."
        for x in PLAMO_NORMS:
            f.norm(b + x, D, 0.0)
        f.lin(b + "mixer.qkv_proj", (H + 2 * K) * hd, D), f.lin(b + "mixer.o_proj", D, H * hd), f.norm(b + "mixer.q_norm", hd, 0.0), f.norm(b + "mixer.k_norm", hd, 0.0)
        f.lin(b + "mlp.gate_up_proj", 2 * FF, D), f.lin(b + "mlp.down_proj", D, FF)
    f.norm("model.norm", D, 0.0)
    f.finish(common("Plamo3ForCausalLM", "plamo3", D, N, H, K, FF, n, head_dim=hd, rms_norm_eps=1e-6, rope_theta=1000000, rope_local_theta=10000, window_size=64,
                    sliding_window=64, sliding_window_pattern=4, interleaved_sliding_window=[64, 64, 64, None], tie_word_embeddings=True, bos_token_id=1, eos_token_id=2,
                    pad_token_id=3), shards=2)


def main():
    import json
    names = sys.argv[3:] or list(FOLDERS)
    cuts = {}
    for name in names:
        f = Folder(sys.argv[2], name)
        f.pre = "default"
        FOLDERS[name](f)
        cuts[name] = f.pre
    print(json.dumps(cuts))


if __name__ == "__main__":
    main()
