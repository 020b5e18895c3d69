"""Folders of recurrent models, of mixed attention, and of encoders with heads for hf_class_folders.py. config.json has the keys of published models, with small sizes."""
import json
import pathlib

import numpy as np

import make_hf2 as m2
from make_hf import T, TEXT, TEMPLATE, bpe, common, store, uniform, write

FOLDERS = {}


def folder(make):
    FOLDERS[make.__name__.replace("_", "-").replace("-dot-", ".")] = make
    return make


def chat(f, pre="qwen2", **other):
    f.pre = pre
    return bpe(f.path, pre, added=("<|endoftext|>", "<|im_start|>", "<|im_end|>"), eos="<|im_end|>", pad="<|endoftext|>", pairs=True, **other)[0]


# ---- minimax-01

@folder
def minimax_01(f, D=64, N=8, H=4, K=2, hd=16, F=48, E=4, name="MiniMaxText01ForCausalLM"):
    """Layers of lightning attention, and one of eight with full attention; rows of the embedding behind the vocabulary are zeros."""
    n = chat(f, jinja=True)
    rows = n + 5
    kinds = [0] * (N - 1) + [1]
    table = uniform(f"1/{f.name}/embedding", (rows, D), -0.08, 0.08)
    table[n + 1:] = 0
    table[n - 2] = 0
    f.t["model.embed_tokens.weight"] = store(table, f.dtype)
    for i, full in enumerate(kinds):
        b = f"model.layers.{i}."
        f.norm(b + "input_layernorm", D), f.norm(b + "post_attention_layernorm", D)
        if full:
            m2.attn(f, b + "self_attn.", D, H, K, hd)
        else:
            f.lin(b + "self_attn.qkv_proj", 3 * H * hd, D), f.lin(b + "self_attn.out_proj", D, H * hd)
            f.lin(b + "self_attn.output_gate", H * hd, D), f.norm(b + "self_attn.norm", H * hd)
        f.lin(b + "block_sparse_moe.gate", E, D)
        m2.exps(f, b + "block_sparse_moe.experts", D, F, E, ("w1", "w3", "w2"))
    f.norm("model.norm", D), f.lin("lm_head", rows, D)
    scales = {f"layernorm_{part}_{x}": y for part in ("full_attention", "linear_attention", "mlp") for x, y in (("alpha", 3.5565588200778455), ("beta", 1.0))}
    f.finish(common(name, "minimax_text_01", D, N, H, K, F, rows, head_dim=hd, attn_type_list=kinds, bos_token_id=None, eos_token_id=None, num_experts_per_tok=2,
                    num_local_experts=E, output_router_logits=False, postnorm=True, rope_theta=10000000, rotary_dim=hd // 2, router_aux_loss_coef=0.001,
                    shared_intermediate_size=0, shared_moe_mode="sigmoid", sliding_window=None, max_position_embeddings=10240000, **scales), shards=2)


# ---- rwkv

def world_tokens(f, unused=3, template=True):
    """rwkv_vocab_v20230424.txt: a number, a literal of Python, its bytes; numbers begin with 1. The token with number 261 is two ends of lines."""
    texts = [bytes([i]) for i in range(256)] + [b"\t\t", b"\t\n", b"\t ", b"\n\t", b"\n\n", b"\n ", b" '", b"''", b"\"'", "é".encode(), "日本".encode(), b"\\x", b"\xff\xfe\\",
                                                b"\x00\x7f", "\u2028".encode()]
    texts += [w.encode() for w in sorted(set(TEXT.split()) - {"'"}) if len(w) > 1][:60]
    lines = []
    for i, x in enumerate(texts, 1):
        try:
            literal = repr(x.decode())
        except UnicodeDecodeError:
            literal = repr(x)
        lines.append(f"{i} {literal} {len(x)}\n")
    (pathlib.Path(f.path) / "rwkv_vocab_v20230424.txt").write_text("".join(lines), encoding="utf-8", newline="\n")
    if template:
        write(f.path, "tokenizer_config.json", {"add_prefix_space": False, "bos_token": "<s>", "chat_template": TEMPLATE, "eos_token": "<s>", "pad_token": "<s>",
                                                "tokenizer_class": "Rwkv6Tokenizer", "unk_token": "<s>", "use_fast": False})
    f.pre = "default"
    return len(texts) + 1 + unused


def mixes(f, b, names, D, shape=(1, 1)):
    for x in names:
        m2.vec(f, b + x, *shape, D, lo=0.0)


def rwkv6_mixer(f, b, D, H, values, rank, decay):
    mixes(f, b + "time_maa_", "xwkvrg", D)
    f.add(b + "time_maa_w1", D, 5 * rank), f.add(b + "time_maa_w2", 5, rank, D)
    m2.vec(f, b + "time_decay", 1, 1, values, lo=-6.0), f.add(b + "time_decay_w1", D, decay), f.add(b + "time_decay_w2", decay, values)


@folder
def rwkv6(f, D=64, N=3, H=4, FF=224):
    n = world_tokens(f)
    f.add("rwkv.embeddings.weight", n, D), f.norm("rwkv.blocks.0.pre_ln", D, bias=True)
    for i in range(N):
        b = f"rwkv.blocks.{i}."
        a = b + "attention."
        f.norm(b + "ln1", D, bias=True), f.norm(b + "ln2", D, bias=True)
        rwkv6_mixer(f, a, D, H, D, 32, 64)
        m2.vec(f, a + "time_faaaa", H, D // H)
        for x in ("receptance", "key", "value", "gate", "output"):
            f.lin(a + x, D, D)
        f.norm(a + "ln_x", D, bias=True)
        mixes(f, b + "feed_forward.time_maa_", "kr", D)
        f.lin(b + "feed_forward.key", FF, D), f.lin(b + "feed_forward.receptance", D, D), f.lin(b + "feed_forward.value", D, FF)
    f.norm("rwkv.ln_out", D, bias=True), f.lin("head", n, D)
    f.finish({"architectures": ["Rwkv6ForCausalLM"], "attention_hidden_size": D, "bos_token_id": 0, "eos_token_id": 0, "head_size": D // H, "head_size_divisor": 8,
              "hidden_size": D, "intermediate_size": None, "layer_norm_epsilon": 1e-05, "model_type": "rwkv6", "num_attention_heads": H, "num_hidden_layers": N,
              "rescale_every": 2, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "use_cache": True, "vocab_size": n})


@folder
def rwkv6qwen2(f, D=64, N=2, H=4, K=2, FF=96):
    n, hd = chat(f), D // H
    f.add("model.embed_tokens.weight", n, D)
    for i in range(N):
        b = f"model.layers.{i}."
        a = b + "self_attn."
        f.norm(b + "input_layernorm", D), f.norm(b + "post_attention_layernorm", D)
        rwkv6_mixer(f, a, D, H, D, 16, 24)
        f.lin(a + "q_proj", D, D, True), f.lin(a + "k_proj", K * hd, D, True), f.lin(a + "v_proj", K * hd, D, True), f.lin(a + "gate", D, D), f.lin(a + "o_proj", D, D)
        m2.ffn(f, b + "mlp.", D, FF)
    f.norm("model.norm", D), f.lin("lm_head", n, D)
    f.finish(common("RWKV6Qwen2ForCausalLM", "rwkv6qwen2", D, N, H, K, FF, n, attention_bias=True, attention_output_bias=False, lora_rank_decay=24, lora_rank_tokenshift=16,
                    max_window_layers=N, rms_norm_eps=1e-6, rope_scaling=None, rope_theta=1000000.0, sliding_window=None, use_sliding_window=False))


def rwkv7_sizes(D):
    return dict(w=32, a=32, v=32, g=64) if D else None


@folder
def rwkv7(f, D=64, N=2, H=4, FF=256):
    """Names of flash-linear-attention."""
    n, rank = world_tokens(f), rwkv7_sizes(D)
    f.add("model.embeddings.weight", n, D), f.norm("model.layers.0.pre_norm", D, bias=True)
    for i in range(N):
        b = f"model.layers.{i}."
        a = b + "attn."
        f.norm(b + "attn_norm", D, bias=True), f.norm(b + "ffn_norm", D, bias=True)
        mixes(f, a + "x_", "rwkvag", D)
        m2.vec(f, a + "k_k", D), m2.vec(f, a + "k_a", D), m2.vec(f, a + "r_k", H, D // H)
        for x in ("r_proj", "k_proj", "v_proj", "o_proj"):
            f.lin(a + x, D, D)
        for x in "wavg" if i else "wag":
            f.lin(f"{a}{x}_lora.lora.0", rank[x], D), f.lin(f"{a}{x}_lora.lora.2", D, rank[x], x != "g")
        f.norm(a + "g_norm", D, bias=True)
        m2.vec(f, b + "ffn.x_k", D, lo=0.0), f.lin(b + "ffn.key", FF, D), f.lin(b + "ffn.value", D, FF)
    f.norm("model.norm", D, bias=True), f.lin("lm_head", n, D)
    f.finish({"a_low_rank_dim": rank["a"], "architectures": ["RWKV7ForCausalLM"], "attn": None, "attn_mode": "chunk", "bos_token_id": 0, "decay_low_rank_dim": rank["w"],
              "eos_token_id": 0, "fuse_cross_entropy": True, "fuse_norm": False, "gate_low_rank_dim": rank["g"], "head_dim": D // H, "hidden_act": "sqrelu", "hidden_ratio": 4.0,
              "hidden_size": D, "initializer_range": 0.006, "intermediate_size": FF, "max_position_embeddings": 2048, "model_type": "rwkv7", "norm_bias": True, "norm_eps": 1e-05,
              "norm_first": True, "num_heads": H, "num_hidden_layers": N, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "use_cache": True, "v_low_rank_dim": None,
              "vocab_size": n})


def rwkv7_mixer(f, a, D, H, rank, gate, norm, letters):
    mixes(f, a + "x_", letters, D)
    for x in ("w", "a", "v"):
        m2.vec(f, f"{a}{x}0", 1, 1, D), f.add(f"{a}{x}1", D, rank[x]), f.add(f"{a}{x}2", rank[x], D)
    if gate:
        f.add(a + "g1", D, rank["g"]), f.add(a + "g2", rank["g"], D)
    m2.vec(f, a + "k_k", 1, 1, D), m2.vec(f, a + "k_a", 1, 1, D), m2.vec(f, a + "r_k", H, D // H)
    for x in ("receptance", "key", "value", "output"):
        f.lin(a + x, D, D)
    if norm:
        f.norm(a + "ln_x", D, bias=True)


@folder
def rwkv7_goose(f, D=64, N=2, H=4, FF=256):
    """Names as the models' author has them; the first layer has arrays that are not used. No chat template."""
    n, rank = world_tokens(f, template=False), {**rwkv7_sizes(D), "g": 32}
    f.add("model.embeddings.weight", n, D), f.norm("model.pre_ln", D, bias=True)
    for i in range(N):
        b = f"model.blocks.{i}."
        f.norm(b + "ln1", D, bias=True), f.norm(b + "ln2", D, bias=True)
        rwkv7_mixer(f, b + "attention.", D, H, rank, True, True, "rwkvag")
        m2.vec(f, b + "feed_forward.x_k", 1, 1, D, lo=0.0), f.lin(b + "feed_forward.key", FF, D), f.lin(b + "feed_forward.value", D, FF)
    f.norm("model.ln_out", D, bias=True), f.lin("head", n, D)
    f.finish({"architectures": ["Rwkv7ForCausalLM"], "bos_token_id": 0, "eos_token_id": 0, "head_size": D // H, "hidden_size": D, "intermediate_size": None,
              "layer_norm_epsilon": 1e-05, "lora_rank_decay": rank["w"], "lora_rank_gate": None, "lora_rank_iclr": rank["a"], "lora_rank_value_residual_mix": rank["v"],
              "model_type": "rwkv7", "num_attention_heads": H, "num_hidden_layers": N, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "use_cache": True, "vocab_size": n})


@folder
def arwkv7(f, D=64, N=2, H=4, K=2, FF=96):
    n, rank = chat(f), {"w": 64, "a": 64, "v": 32, "g": 128}
    f.add("model.embed_tokens.weight", n, D)
    for i in range(N):
        b = f"model.layers.{i}."
        f.norm(b + "input_layernorm", D), f.norm(b + "post_attention_layernorm", D)
        rwkv7_mixer(f, b + "self_attn.time_mixer.", D, H, rank, False, False, "rwkva")
        m2.ffn(f, b + "mlp.", D, FF)
    f.norm("model.norm", D), f.lin("lm_head", n, D)
    f.finish(common("RwkvHybridForCausalLM", "rwkv_hybrid", D, N, H, K, FF, n, head_size=D // H, head_size_divisor=8, max_window_layers=N, rms_norm_eps=1e-6, rope_theta=1000000.0,
                    use_sliding_window=False, wkv_has_gate=False, wkv_has_group_norm=False, wkv_layers="full", wkv_version=7))


# ---- gpt2

@folder
def rugpt3xl(f, D=64, N=2, H=4, FF=256):
    n = chat(f, "gpt-2")
    f.add("model.embed_tokens.weight", n, D), f.add("model.embed_positions.weight", 128, D)
    for i in range(N):
        b = f"model.layers.{i}."
        f.norm(b + "input_layernorm", D, bias=True), f.norm(b + "post_attention_layernorm", D, bias=True)
        for x in ("q_proj", "k_proj", "v_proj", "o_proj"):
            f.lin(f"{b}self_attn.{x}", D, D, True)
        f.lin(b + "mlp.up_proj", FF, D, True), f.lin(b + "mlp.down_proj", D, FF, True)
    f.norm("model.norm", D, bias=True)
    f.finish({"architectures": ["RuGPT3XLForCausalLM"], "activation_function": "gelu", "attention_dropout": 0.1, "bos_token_id": 1, "eos_token_id": 2, "hidden_size": D,
              "initializer_range": 0.02, "intermediate_size": FF, "layer_norm_epsilon": 1e-05, "max_position_embeddings": 128, "model_type": "rugpt3xl", "num_attention_heads": H,
              "num_hidden_layers": N, "tie_word_embeddings": True, "torch_dtype": "bfloat16", "vocab_size": n})


# ---- dots3note

@folder
def dots3note(f, D=64, N=4, n=16, r=8, v=16, lora=24, q=32, F=32, E=4, FF=96):
    """Latent attention of two kinds: layers with a window have other heads; gates and norms of heads, an indexer in the others; a block that predicts."""
    f.pre = "qwen2"
    vocabulary, _ = bpe(f.path, "qwen2", added=("<|endoftext|>", "<|user|>", "<|endofuser|>", "<|assistant|>", "<|endofassistant|>"), eos="<|endoftext|>", pad="<|endoftext|>", pairs=True)
    kinds = ["sliding_attention", "full_attention", "sliding_attention", "full_attention"]
    f.add("model.embed_tokens.weight", vocabulary, D)
    for i in range(N + 1):
        b = f"model.layers.{i}."
        a, window = b + "self_attn.", i >= N or kinds[i] == "sliding_attention"
        H, nn, vv, kv = (2, 24, 24, 16) if window else (4, n, v, lora)
        f.norm(b + "input_layernorm", D), f.norm(b + "post_attention_layernorm", D)
        m2.mla(f, a, D, H, nn, r, vv, kv, q)
        f.norm(a + "k_rope_only_layernorm", r), f.lin(a + "g_proj", H, D)
        if not window:
            f.lin(a + "indexer.wq_b", 4 * 32, q), f.lin(a + "indexer.wk", 32, D), f.norm(a + "indexer.k_norm", 32, bias=True), f.lin(a + "indexer.weights_proj", 4, D)
        if i == 0:
            m2.ffn(f, b + "mlp.", D, FF)
        else:
            f.lin(b + "mlp.gate", E, D), f.add(b + "mlp.gate.e_score_correction_bias", E, dtype="F32")
            m2.exps(f, b + "mlp.experts", D, F, E), m2.ffn(f, b + "mlp.shared_experts.", D, F)
    f.lin(b + "eh_proj", D, 2 * D)
    for x in ("enorm", "hnorm", "shared_head.norm"):
        f.norm(b + x, D)
    f.add("model.mtp.embed_tokens.weight", vocabulary, D)
    f.norm("model.norm", D), f.lin("lm_head", vocabulary, D)
    f.lin("vision_encoder.blocks.0.attn.qkv", 48, 16), f.lin("audio_encoder.audio_adapter.proj.0", 16, 16)
    f.finish(common("Dots3NoteForConditionalGeneration", "dots3_note", D, N, 4, 4, FF, vocabulary, apply_mla_qkv_lora_rescale=True, attention_gate_type="headwise",
                    final_norm="RMSNorm", first_k_dense_replace=1, head_dim=n + r, index_head_dim=32, index_n_heads=4, index_topk=64, k_rope_only_layernorm=True,
                    kv_lora_rank=lora, layer_types=kinds, moe_gating_fp32=False, moe_intermediate_size=F, n_group=1, n_routed_experts=E, n_shared_experts=1,
                    norm_topk_prob=True, normalization="RMSNorm", num_experts_per_tok=2, q_lora_rank=q, qk_nope_head_dim=n, qk_rope_head_dim=r, rope_theta=8000000,
                    routed_scaling_factor=2.5, scoring_func="sigmoid", sliding_window_size=128, swa_attention_gate_type="headwise", swa_head_dim=24 + r, swa_kv_lora_rank=16,
                    swa_num_attention_heads=2, swa_num_key_value_heads=2, swa_q_lora_rank=q, swa_qk_nope_head_dim=24, swa_qk_rope_head_dim=r, swa_rope_theta=10000, swa_v_head_dim=24,
                    topk_group=1, topk_method="noaux_tc", vision_config={"adapter_out_dim": D}, audio_config={"adapter_out_dim": D}, use_dsa=True, use_dynamic_rsf=False, v_head_dim=v), shards=2)


# ---- qwen4exp

@folder
def qwen4exp(f, D=64, N=4, H=4, K=2, hd=32, G=2, V=4, dk=16, w=4, E=4, F=40, S=56, low=16, streams=4, ih=2, ik=32, ple=1):
    """Hyper-connections in place of norms, an indexer, and a table of n-grams in parts."""
    vocabulary = chat(f, "qwen35")
    p, parts, heads, row = "model.language_model.", 3, 2, 16
    f.add(p + "embed_tokens.weight", vocabulary, D)

    def mixer(b, inject=True):
        f.norm(b + "hc_norm", streams * D, 0.0), f.lin(b + "input_mix_weight_down", low, streams * D), f.lin(b + "input_mix_weight_up", streams * D, low)
        if inject:
            f.lin(b + "block_inject_weight", streams, streams * D)

    for i in range(N):
        b = f"{p}layers.{i}."
        mixer(b + "attn_hyper_connection."), mixer(b + "mlp_hyper_connection.")
        if (i + 1) % 4 == 0:
            a = b + "self_attn."
            m2.attn(f, a, D, H, K, hd, qk="head", n1=0.0, wide=1)
            f.lin(a + "indexer.index_qk_proj", (ih + 1) * ik, D), f.norm(a + "indexer.q_layernorm", ik, 0.0), f.norm(a + "indexer.k_layernorm", ik, 0.0)
        else:
            m2.gdn(f, b + "linear_attn.", D, G, V, dk, w)
        f.lin(b + "mlp.gate", E, D), m2.ffn(f, b + "mlp.shared_expert.", D, S), f.lin(b + "mlp.shared_expert_gate", 1, D)
        f.add(b + "mlp.experts.gate_up_proj", E, 2 * F, D), f.add(b + "mlp.experts.down_proj", E, D, F)
    b = f"{p}layers.{ple}.ple."
    n_heads = 2 * heads
    sizes = [31, 37, 41, 43]
    f.lin(b + "key_proj", streams * D, n_heads * row), f.lin(b + "value_proj", D, n_heads * row)
    for x in ("norm_key", "norm_query", "norm_conv"):
        f.norm(b + x, streams * D, 0.0)
    f.add(b + "conv1d.weight", streams * D, 1, 4, scale=0.4)
    constants = {"layer_multipliers": [33554467 * 1048583, 33554467 * 1048589 + 1, 21474836477], "ngram_heads_offsets": [0, 31, 68, 109], "ngram_heads_vocab_sizes": sizes}
    for x, values in constants.items():
        f.t[b + "ple_embedding." + x] = T("I64", [len(values)], np.array(values, "<i8").tobytes())
    for i, rows in enumerate((51, 51, 50)):
        f.add(f"{b}ple_embedding.ngram_embedding.shard_{i}.weight", rows, row)
    mixer(p + "hyper_connection_mixer.", False)
    f.lin("lm_head", vocabulary, D), f.lin("mtp.fc", D, 2 * D), f.lin("model.visual.blocks.0.attn.qkv", 48, 16)
    text = common("-", "qwen4_exp_text", D, N, H, K, 0, vocabulary, architectures="-", intermediate_size="-", eos_token_id=[378, 377], head_dim=hd, hc_count=streams, hc_lowrank=low,
                  heads_per_ngram=heads, indexer_budget=64, indexer_compress_ratio=4, indexer_head_dim=ik, indexer_kv_heads=1, indexer_n_heads=ih,
                  layer_types=["full_attention" if (i + 1) % 4 == 0 else "linear_attention" for i in range(N)], moe_intermediate_size=F, mtp_num_hidden_layers=1, ngram_size=3,
                  num_experts=E, num_experts_per_tok=2, partial_rotary_factor=0.25, ple_conv_kernel_size=4, ple_layer_ids=[ple + 1], rms_norm_eps=1e-6, rope_theta="-",
                  rope_parameters={"rope_type": "default", "rope_theta": 10000000, "mrope_section": [2, 1, 1], "mrope_interleaved": True}, shared_expert_intermediate_size=S,
                  split_ngram_parts=parts, **m2.linear(G, V, dk, w))
    f.finish({"architectures": ["Qwen4ExpForConditionalGeneration"], "image_token_id": 377, "model_type": "qwen4_exp", "text_config": text, "tie_word_embeddings": False}, shards=2)
