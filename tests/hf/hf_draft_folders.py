"""Folders of draft models for hf_class_folders.py: each drafts for a model whose folder, without weights, is made beside them, as ../targets/NAME.

config.json has the keys of published drafts, with small sizes. A draft has its target's vocabulary, and no tokenizer of its own.
"""
import pathlib

import numpy as np

import make_hf2 as m2
from make_hf import Folder, T, bpe, common, spm, write

FOLDERS = {}


def folder(make):
    FOLDERS[make.__name__.replace("_", "-").replace("-dot-", ".")] = make
    return make


# ---- targets: config.json and a tokenizer


def target(f):
    return Folder(str(pathlib.Path(f.path).parents[1] / "targets"), f.name)


def chat(f, pre="qwen2", added=("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|mask|>"), eos="<|im_end|>", pad="<|endoftext|>", **other):
    f.pre = pre
    t = target(f)
    n, ids = bpe(t.path, pre, added=added, eos=eos, pad=pad, **other)
    return t, n, ids


def llama_target(f, D=96, N=8):
    t, n, ids = chat(f, "llama-bpe", ("<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"), "<|eot_id|>", None, bos="<|begin_of_text|>",
                     post=("<|begin_of_text|>", None), pairs=True)
    write(t.path, "config.json", common("LlamaForCausalLM", "llama", D, N, 4, 2, 128, n, head_dim=24, bos_token_id=ids["<|begin_of_text|>"],
                                        eos_token_id=[ids["<|end_of_text|>"], ids["<|eot_id|>"]], rope_theta=500000.0))
    return n


def qwen3_target(f, name="Qwen3ForCausalLM", model_type="qwen3", **other):
    t, n, _ = chat(f)
    write(t.path, "config.json", common(name, model_type, 64, 8, 4, 2, 128, n, head_dim=16, rope_theta=1000000, rms_norm_eps=1e-6, **other))
    return n


def qwen35_target(f):
    t, n, _ = chat(f, "qwen35")
    config = common("-", "qwen3_5_text", 64, 8, 4, 2, 96, n, architectures="-", head_dim=16, full_attention_interval=4, rms_norm_eps=1e-6, rope_theta="-",
                    rope_parameters={"mrope_interleaved": True, "mrope_section": [1, 1, 0], "rope_type": "default", "rope_theta": 10000000,
                                     "partial_rotary_factor": 0.25}, **m2.linear(2, 4, 16, 4))
    write(t.path, "config.json", {"architectures": ["Qwen3_5ForConditionalGeneration"], "model_type": "qwen3_5", "text_config": config})
    return n


def gemma4_target(f, D=64):
    t = target(f)
    n = m2.gemma4_tok(t)
    settings = pathlib.Path(t.path) / "tokenizer_config.json"  # the class of Gemma's adds tokens to a vocabulary that lacks them
    settings.write_text(settings.read_text().replace('"GemmaTokenizer"', '"PreTrainedTokenizerFast"'))
    config = m2.gemma4_conf(D, [0, 0, 1] * 3, 4, (2, 1), 32, 16, 96, n, num_kv_shared_layers=0, hidden_size_per_layer_input=0, use_double_wide_mlp=False,
                            attention_k_eq_v=True, enable_moe_block=False, moe_intermediate_size=None, num_experts=None, top_k_experts=None,
                            num_global_key_value_heads=1)
    write(t.path, "generation_config.json", {"suppress_tokens": [7, 8]})  # of the target alone
    write(t.path, "config.json", {"architectures": ["Gemma4UnifiedForConditionalGeneration"], "model_type": "gemma4_unified", "eos_token_id": [1, 5],
                                  "vision_config": {"model_type": "gemma4_vision"}, "audio_config": None, "text_config": config})
    return n


# ---- parts


def ids_of(f, n, draft):
    """Which tokens of the target's a draft has: how far each is from its own number, and which of all they are."""
    offsets = np.arange(draft, dtype="<i8") // 3
    f.t["d2t"] = T("I64", (draft,), offsets.tobytes())
    own = np.zeros(n, dtype="u1")
    own[offsets + np.arange(draft)] = 1
    f.t["t2d"] = T("BOOL", (n,), own.tobytes())


def layer(f, b, D, H, K, hd, FF, inp=None, qk=None, v=True, norms=("input_layernorm", "post_attention_layernorm")):
    a = b + "self_attn."
    f.lin(a + "q_proj", H * hd, inp or D), f.lin(a + "k_proj", K * hd, inp or D)
    if v:
        f.lin(a + "v_proj", K * hd, inp or D)
    f.lin(a + "o_proj", D, H * hd)
    if qk:
        f.norm(a + "q_norm", hd), f.norm(a + "k_norm", hd)
    m2.ffn(f, b + "mlp.", D, FF)
    for x in norms:
        f.norm(b + x, D)


# ---- EAGLE-3


def eagle(f, name, n, D=256, H=4, K=2, hd=64, FF=256, Dt=96, draft=96, b="midlayer.", own=False, norm=False):
    layer(f, b, D, H, K, hd, FF, inp=2 * D)
    f.norm(b + "hidden_norm", D)
    f.lin("fc", D, 3 * Dt), f.norm("norm", D), f.lin("lm_head", draft, D)
    if own:
        f.add("embed_tokens.weight", n, D)
    if norm:
        f.norm("input_norm", 3 * Dt)
    ids_of(f, n, draft)
    return common(name, "llama", D, 1, H, K, FF, n, draft_vocab_size=draft, attention_bias=False, mlp_bias=False, max_position_embeddings=2048,
                  rope_theta=500000.0, bos_token_id=1, eos_token_id=2, pad_token_id=0, pretraining_tp=1)


@folder
def eagle3(f):
    n = llama_target(f)
    f.finish(dict(eagle(f, "LlamaForCausalLMEagle3", n), rope_scaling={"factor": 8.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
                                                                      "original_max_position_embeddings": 8192, "rope_type": "llama3"}))


@folder
def eagle3_llama(f):  # its class says nothing of a draft; features are normed, and the layers that they come from are named
    t = target(f)
    n, _ = spm(t.path)
    write(t.path, "config.json", common("MistralForCausalLM", "mistral", 80, 6, 4, 2, 96, n, bos_token_id=1, eos_token_id=2))
    f.dtype = "F16"
    f.finish(dict(eagle(f, "LlamaForCausalLM", n, Dt=80, own=True, norm=True, b="layers.0."), eagle_aux_hidden_state_layer_ids=[1, 3, 5], norm_before_fc=True,
                  target_hidden_size=80, head_dim=64))


@folder
def eagle3_speculator(f):
    n = llama_target(f)
    inner = eagle(f, "-", n, own=True, b="layers.0.")
    draft = inner.pop("draft_vocab_size")
    inner.update(head_dim=64, rope_scaling=None)
    f.finish({"architectures": ["Eagle3Speculator"], "auto_map": {"": "eagle3.Eagle3SpeculatorConfig"}, "draft_vocab_size": draft, "has_no_defaults_at_init": False,
              "norm_before_residual": True, "speculators_config": {"algorithm": "eagle3", "verifier": {"architectures": ["LlamaForCausalLM"]}},
              "speculators_model_type": "eagle3", "speculators_version": "0.1.0", "target_hidden_size": None, "tie_word_embeddings": False,
              "torch_dtype": "bfloat16", "transformer_layer_config": inner, "transformers_version": "4.53.2"})


@folder
def eagle3_draft(f):
    n = qwen3_target(f)
    f.finish(eagle(f, "Eagle3DraftModel", n, Dt=64))


@folder
def eagle3_causal(f):
    n = qwen35_target(f)
    f.finish(eagle(f, "Eagle3LlamaForCausalLM", n, Dt=64))


# ---- DFlash


def dflash(f, n, D=256, N=2, H=4, K=2, hd=64, FF=256, layers=(1, 3, 5), p="", **other):
    for i in range(N):
        layer(f, f"{p}layers.{i}.", D, H, K, hd, FF, qk=True, **other)
    f.norm(p + "norm", D), f.lin(p + "fc", D, len(layers) * D), f.norm(p + "hidden_norm", D)


def qwen3(name, n, D=256, N=2, H=4, K=2, hd=64, FF=256, **other):
    return common(name, "qwen3", D, N, H, K, FF, n, head_dim=hd, attention_bias=False, rms_norm_eps=1e-6, rope_theta=10000000, rope_scaling=None,
                  tie_word_embeddings=False, **other)


@folder
def dflash_qwen35(f):
    n = qwen35_target(f)
    dflash(f, n)
    f.finish(qwen3("DFlashDraftModel", n, auto_map={"AutoModel": "dflash.DFlashDraftModel"}, block_size=16, layer_types=["full_attention"] * 2,
                   dflash_config={"mask_token_id": n - 1, "target_layer_ids": [1, 3, 5]}, num_target_layers=8, sliding_window=None, use_sliding_window=False))


@folder
def dflash_window(f):  # windows, sinks, its own embedding and head, pairs of a head beside one another
    n = qwen3_target(f)
    dflash(f, n)
    for i in range(2):
        f.add(f"layers.{i}.self_attn.sinks", 4)
    f.add("embed_tokens.weight", n, 256), f.lin("lm_head", n, 256)
    f.finish(qwen3("DFlashDraftModel", n, block_size=8, layer_types=["sliding_attention", "full_attention"], use_sliding_window=True, sliding_window=48,
                   is_causal=False, final_logit_softcapping=30.0, output_multiplier=0.5, input_embedding_scale=2.0, rope_is_neox_style=False,
                   partial_rotary_factor=0.5, dflash_config={"mask_token_id": n - 1, "target_layer_ids": [1, 3, 5], "attention_value_scale": 0.75}))


@folder
def dflash2(f):
    n = qwen3_target(f)
    dflash(f, n)
    for i in range(2):
        for x in ("attention_conv", "mlp_conv"):
            f.add(f"layers.{i}.{x}.base_kernel", 2, 4, 256), f.lin(f"layers.{i}.{x}.kernel_projection", 2 * 4 * 16, 256)
    f.add("candidate_selector.predecessor_codebook", n, 32), f.add("candidate_selector.successor_codebook", n, 32)
    f.lin("candidate_selector.hidden_projection", 32, 256)
    f.add("embed_tokens.weight", n, 256)
    f.finish(qwen3("DFlash2DraftModel", n, has_embed_tokens=False,
                   dflash_config={"mask_token_id": n - 1, "target_layer_ids": [1, 3, 5], "block_size": 12, "conv_kernel_size": 4, "conv_group_size": 16,
                                  "selector_rank": 32, "selector_top_k": 4, "use_swa": True, "swa_window_size": 32, "causal": True}))


# ---- DSpark


def dspark(f, n, rank=32, draft=None, confidence=True, bias=False, p="", **other):
    dflash(f, n, p=p, **other)
    f.lin(p + "markov_head.markov_w1", n, rank), f.lin(p + "markov_head.markov_w2", draft or n, rank)
    if confidence:
        f.lin(p + "confidence_head.proj", 1, 256 + rank, bias)


def dspark_keys(n, **other):
    return dict(block_size=7, target_layer_ids=[1, 3, 5], mask_token_id=n - 1, markov_head_type="vanilla", markov_rank=32, num_target_layers=8,
                layer_types=["full_attention"] * 2, use_sliding_window=False, sliding_window=None, **other)


@folder
def dspark_qwen3(f):  # the head is the target's once more
    n = qwen3_target(f)
    dspark(f, n, p="model.", bias=True)
    f.add("model.embed_tokens.weight", n, 256), f.lin("lm_head", n, 256)
    f.finish(qwen3("Qwen3DSparkModel", n, **dspark_keys(n)), shards=2)


@folder
def dspark_draft(f):
    n = qwen35_target(f)
    dspark(f, n, confidence=False)
    f.finish(qwen3("DSparkDraftModel", n, **dspark_keys(n, sample_from_anchor=False, draft_vocab_size=None)))


@folder
def dspark_lfm2(f):
    t, n, ids = chat(f, "llama-bpe", ("<|pad|>", "<|startoftext|>", "<|endoftext|>", "<|im_start|>", "<|im_end|>"), "<|im_end|>", "<|pad|>", first=True,
                     bos="<|startoftext|>", post=("<|startoftext|>", None))
    write(t.path, "config.json", common("Lfm2ForCausalLM", "lfm2", 64, 6, 4, 2, 160, n, block_ff_dim=160, conv_L_cache=3, conv_bias=False, norm_eps=1e-5,
                                        layer_types=["conv", "full_attention"] * 3, bos_token_id=ids["<|startoftext|>"], eos_token_id=ids["<|im_end|>"]))
    dspark(f, n)
    f.finish(qwen3("Lfm2DSparkDraftModel", n, **dspark_keys(n)))


@folder
def dspark_ling(f):
    t, n, _ = chat(f, "gpt-2")
    write(t.path, "config.json", common("BailingMoeV2ForCausalLM", "bailing_moe", 64, 6, 4, 2, 96, n, head_dim=64, first_k_dense_replace=1, num_experts=4,
                                        moe_intermediate_size=32, num_experts_per_tok=2, rope_theta=600000))
    dspark(f, n)
    f.finish(qwen3("LingDSparkModel", n, **dspark_keys(n)))


@folder
def dspark_speculator(f):  # a part of the vocabulary, numbers of the layers whose states go in
    n = qwen3_target(f)
    dspark(f, n, draft=96)
    f.lin("lm_head", 96, 256), f.add("embed_tokens.weight", n, 256), ids_of(f, n, 96)
    f.finish({"architectures": ["DSparkSpeculator"], "speculators_model_type": "dspark", "speculators_version": "0.5.0", "draft_vocab_size": 96, "block_size": 8,
              "mask_token_id": n - 1, "aux_hidden_state_layer_ids": [2, 4, 6], "markov_head_type": "vanilla", "tie_word_embeddings": False,
              "torch_dtype": "bfloat16", "transformer_layer_config": dict(qwen3("-", n, layer_types=["full_attention"] * 2))})


@folder
def dspark_gemma4(f, D=256, N=2, H=4, K=1, hd=64, FF=256, rank=32):
    n = gemma4_target(f)
    norms = ("input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm")
    for i in range(N):
        layer(f, f"layers.{i}.", D, H, K, hd, FF, qk=True, v=False, norms=norms)
        m2.vec(f, f"layers.{i}.layer_scalar", 1, lo=0.5)
    f.norm("norm", D), f.lin("fc", D, 3 * D), f.norm("hidden_norm", D)
    f.lin("markov_head.markov_w1", n, rank), f.lin("markov_head.markov_w2", n, rank), f.lin("confidence_proj", 1, D + rank, True)
    rope = {"full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1000000.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}
    f.finish(common("Gemma4DSparkModel", "gemma4_text", D, N, H, 2, FF, n, hidden_act="-", hidden_activation="gelu_pytorch_tanh", head_dim=64, global_head_dim=hd,
                    num_global_key_value_heads=K, layer_types=["full_attention"] * N, rms_norm_eps=1e-6, rope_theta="-", rope_parameters=rope, sliding_window=40,
                    attention_k_eq_v=True, attention_bias=False, enable_moe_block=False, final_logit_softcapping=None, tie_word_embeddings=True,
                    block_size=8, markov_rank=rank, dflash_config={"mask_token_id": 7, "target_layer_ids": [1, 3, 5], "markov_head_type": "vanilla"}))


# ---- assistants


@folder
def muse_glimmer_assistant(f, D=256, N=2, H=4, K=2, hd=64, FF=256):
    t, n, ids = chat(f, "llama-bpe", ("<|begin_of_text|>", "<|end_of_text|>", "<|eot|>", "<|mask|>"), "<|end_of_text|>", None, bos="<|begin_of_text|>", pairs=True)
    text = common("-", "muse_glimmer_text", D, 8, H, K, FF, n, architectures="-", head_dim=hd, final_logit_softcapping=30.0, output_multiplier=0.25,
                  qk_scale_factor=1.5, layer_types=["full_attention"] * 8, sliding_window=64, rope_theta="-",
                  rope_parameters={"rope_type": "default", "rope_theta": 500000.0}, bos_token_id=ids["<|begin_of_text|>"], eos_token_id=ids["<|eot|>"])
    write(t.path, "config.json", {"architectures": ["MuseGlimmerForConditionalGeneration"], "model_type": "muse_glimmer", "text_config": text,
                                  "vision_config": {"depth": 1}, "tie_word_embeddings": False})
    for i in range(N):
        layer(f, f"layers.{i}.", D, H, K, hd, FF, qk=True)
    f.norm("norm", D), f.lin("encoder.fc", D, 3 * D), f.norm("encoder.output_norm_enc", D)
    f.finish(common("MuseGlimmerAssistantModel", "muse_glimmer_assistant", D, N, H, K, FF, n, head_dim=hd, rope_theta="-", block_size=16,
                    rope_parameters={"rope_type": "default", "rope_theta": 500000.0}, layer_types=["sliding_attention"] * N, sliding_window=64,
                    mask_token_id=ids["<|mask|>"], target_layer_ids=[1, 3, 5], bos_token_id=ids["<|begin_of_text|>"], eos_token_id=ids["<|eot|>"]))


def gemma4_assistant_of(f, name, model_type, ordered, D=256, B=512, H=4, hd=64, hds=32, FF=256):
    n, kinds = m2.gemma4_tok(f), [0, 0, 1]
    settings = pathlib.Path(f.path) / "tokenizer_config.json"
    settings.write_text(settings.read_text().replace('"GemmaTokenizer"', '"PreTrainedTokenizerFast"'))
    m2.gemma4_tensors(f, "model.", D, kinds, H, (2, 1), hd, hds, FF, 0, len(kinds), n, wide=0)
    f.lin("pre_projection", D, 2 * B), f.lin("post_projection", B, D)
    if ordered:
        f.lin("masked_embedding.centroids", 8, D)
        f.t["masked_embedding.token_ordering"] = T("I64", (n,), np.arange(n, dtype="<i8").tobytes())
    text = m2.gemma4_conf(D, kinds, H, (2, 1), hd, hds, FF, n, num_kv_shared_layers=len(kinds), hidden_size_per_layer_input=0, use_double_wide_mlp=False,
                          attention_k_eq_v=True, enable_moe_block=False, moe_intermediate_size=None, num_experts=None, top_k_experts=None,
                          num_global_key_value_heads=1, vocab_size_per_layer_input=0)
    f.finish({"architectures": [name], "model_type": model_type, "backbone_hidden_size": B, "use_ordered_embeddings": ordered, "num_centroids": 8,
              "centroid_intermediate_top_k": 2, "eos_token_id": [1, 5], "tie_word_embeddings": True, "text_config": text})


@folder
def gemma4_assistant(f):
    gemma4_assistant_of(f, "Gemma4AssistantForCausalLM", "gemma4_assistant", True)


@folder
def gemma4_unified_assistant(f):
    gemma4_assistant_of(f, "Gemma4UnifiedAssistantForCausalLM", "gemma4_unified_assistant", False)
