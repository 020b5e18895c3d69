"""Folders of models that came late to those that are read, for hf_class_folders.py. config.json has the keys of published models, with small sizes."""
import pathlib

import numpy as np

import make_hf2 as m2
from make_hf import Folder, T, bpe, common, fp8, llama_tensors, raw, spm, write

FOLDERS = {}


def folder(make):
    FOLDERS[make.__name__.replace("_", "-").replace("-dot-", ".")] = make
    return make


def chat(f, pre="qwen2", added=("<|endoftext|>", "<|im_start|>", "<|im_end|>"), eos="<|im_end|>", pad="<|endoftext|>", **other):
    f.pre = pre
    return bpe(f.path, pre, added=added, eos=eos, pad=pad, **{"pairs": True, **other})


def experts(f, b, D, F, E):
    f.lin(b + "gate", E, D), f.add(b + "gate.e_score_correction_bias", E, dtype="F32"), m2.exps(f, b + "experts", D, F, E)


# ---- GLM 5 Next

@folder
def glm5_next(f, D=64, N=4, H=4, e=16, w=4, n=16, v=16, lora=24, q=32, ih=4, ik=32, pool=4, FF=96, F=32, E=4, streams=4):
    """Layers of KDA and of latent attention without a rotation, whose indexer has a key for several tokens; a block that predicts."""
    vocabulary, ids = chat(f, "dbrx", ("<|endoftext|>", "[MASK]", "[gMASK]", "[sMASK]", "<sop>", "<eop>", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>"), "<|endoftext|>")
    f.pre = "glm4"  # another name of the same cut
    p, kinds = "model.language_model.", ["linear_attention", "full_attention", "linear_attention", "full_attention"]
    f.add(p + "embed_tokens.weight", vocabulary, D)
    for i in range(N + 1):
        b = f"{p}layers.{i}."
        a = b + "self_attn."
        f.norm(b + "input_layernorm", D), f.norm(b + "post_attention_layernorm", D)
        if i < N:
            hyper(f, b, D, streams, "attn"), hyper(f, b, D, streams, "ffn")
        if i < N and kinds[i] == "linear_attention":
            m2.kda(f, a, D, H, e, w)
            f.t[a + "A_log"].shape = [H]
        else:
            m2.mla(f, a, D, H, n, 0, v, lora, q)
            f.lin(a + "indexer.wq_b", ih * ik, q), f.lin(a + "indexer.wk", ik, D), f.norm(a + "indexer.k_norm", ik, bias=True), f.lin(a + "indexer.weights_proj", ih, D)
            f.add(a + "indexer.index_kpool_compress_gate", ik, D), f.add(a + "indexer.index_kpool_compress_ape", pool, ik)
        if i == 0:
            m2.ffn(f, b + "mlp.", D, FF)
        else:
            experts(f, b + "mlp.", D, F, E), m2.ffn(f, b + "mlp.shared_experts.", D, F)
    f.lin(b + "eh_proj", D, 2 * D), f.norm(b + "enorm", D), f.norm(b + "hnorm", D), f.norm(b + "shared_head.norm", D)
    f.norm(p + "norm", D), f.lin("lm_head", vocabulary, D), f.lin("model.visual.blocks.0.attn.qkv", 48, 16)
    text = common("-", "glm5_next_text", D, N, H, H, FF, vocabulary, architectures="-", attention_bias=False, eos_token_id=[ids["<|endoftext|>"], ids["<|user|>"], ids["<|observation|>"]],
                  first_k_dense_replace=1, hc_eps=1e-06, hc_mult=streams, hc_sinkhorn_iters=20, head_dim=n, index_head_dim=ik, index_kpool=pool, index_kpool_always_select_tail=True,
                  index_n_heads=ih, index_topk=64, indexer_types=["full"] * N, kv_lora_rank=lora, layer_types=kinds,
                  linear_attn_config={"gate_lower_bound": -5.0, "head_dim": e, "num_heads": H, "short_conv_kernel_size": w}, max_position_embeddings=202752, mhc=True, mla_use_nope=True,
                  moe_intermediate_size=F, n_group=1, n_routed_experts=E, n_shared_experts=1, norm_topk_prob=True, num_experts_per_tok=2, num_nextn_predict_layers=1, pad_token_id=0,
                  q_lora_rank=q, qk_nope_head_dim=n, qk_rope_head_dim=0, routed_scaling_factor=2.5, scoring_func="sigmoid", swiglu_limit=10.0, topk_group=1, topk_method="noaux_tc",
                  v_head_dim=v, rope_theta="-", rope_parameters={"rope_theta": 10000.0, "rope_type": "default"}, rms_norm_eps=1e-5)
    f.finish({"architectures": ["Glm5NextForConditionalGeneration"], "model_type": "glm5_next", "text_config": text, "vision_config": {"depth": 1, "hidden_size": 16, "num_heads": 1},
              "tie_word_embeddings": False}, shards=2)


# ---- OCR models of DeepSeek and Baidu

def ocr(f, name, D=64, N=2, H=4, FF=96, F=32, E=4, **more):
    n = deepseek_tokens(f, template=None)
    p = "model."
    f.add(p + "embed_tokens.weight", n, D)
    for i in range(N):
        b = f"{p}layers.{i}."
        f.norm(b + "input_layernorm", D), f.norm(b + "post_attention_layernorm", D), m2.attn(f, b + "self_attn.", D, H, H, D // H)
        if i == 0:
            m2.ffn(f, b + "mlp.", D, FF)
        else:
            f.lin(b + "mlp.gate", E, D), m2.exps(f, b + "mlp.experts", D, F, E), m2.ffn(f, b + "mlp.shared_experts.", D, 2 * F)
    f.norm(p + "norm", D), f.lin("lm_head", n, D)
    f.lin(p + "sam_model.blocks.0.attn.qkv", 48, 16, True), f.lin(p + "vision_model.transformer.layers.0.mlp.fc1", 16, 16, True), f.lin(p + "projector.layers", D, 32, True)
    f.add(p + "image_newline", D), f.add(p + "view_seperator", D), f.add(p + "sam_model.pos_embed", 1, 4, 4, 16)
    text = common("DeepseekV2ForCausalLM", "deepseek_v2", D, N, H, H, FF, n, architectures=["DeepseekV2ForCausalLM"], auto_map={}, bos_token_id=0, eos_token_id=1, first_k_dense_replace=1,
                  kv_lora_rank=None, lm_head=True, max_position_embeddings=8192, moe_intermediate_size=F, n_group=1, n_routed_experts=E, n_shared_experts=2, num_experts_per_tok=2,
                  q_lora_rank=None, qk_nope_head_dim=0, qk_rope_head_dim=0, rm_head=False, topk_group=1, topk_method="greedy", use_mla=False, v_head_dim=0, rms_norm_eps="-",
                  rope_theta="-", tie_word_embeddings="-", hidden_act="-", **more)
    root = {k: v for k, v in text.items() if k not in ("architectures", "auto_map", "model_type")}
    f.finish({"architectures": [name], "candidate_resolutions": [[1024, 1024]], "global_view_pos": "head", "language_config": text, "model_type": "DeepseekOCR",
              "projector_config": {"input_dim": 32, "model_type": "mlp_projector", "n_embed": D, "projector_type": "linear"}, "tile_tag": "2D", "torch_dtype": "bfloat16", **root,
              "vision_config": {"image_size": 1024, "mlp_ratio": 3.7362, "model_name": "deeplip_b_l", "model_type": "vision", "width": {"sam_vit_b": {"layers": 1, "width": 16}}}})


@folder
def deepseek_ocr(f):
    ocr(f, "DeepseekOCRForCausalLM")


@folder
def unlimited_ocr(f):
    ocr(f, "UnlimitedOCRForCausalLM", sliding_window_size=128)


# ---- DeepSeek V4

DEEPSEEK = ("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜▁pad▁｜>", "<｜User｜>", "<｜Assistant｜>")


def deepseek_tokens(f, **other):
    n, _ = chat(f, "deepseek-v3", DEEPSEEK, DEEPSEEK[1], DEEPSEEK[2], bos=DEEPSEEK[0], post=(DEEPSEEK[0], None), first=True, pairs=False,
                config={"add_bos_token": True, "add_eos_token": False, "tokenizer_class": "LlamaTokenizerFast"}, **other)
    return n


def powers(key, shape, low=117, high=123):
    """Scales of F8_E8M0, powers of two."""
    return T("F8_E8M0", shape, (low + raw(key, int(np.prod(shape))) % (high - low)).astype(np.uint8).tobytes())


def with_scale(f, name, rows, columns):
    """FP8, and a scale for each block of 128 x 128."""
    key = f"1/{f.name}/{name}"
    f.t[name + ".weight"] = fp8(key, (rows, columns))
    f.t[name + ".scale"] = powers(key + "/scale", (-(-rows // 128), -(-columns // 128)))


def two_codes(f, name, rows, columns):
    """Two codes of MXFP4 in a byte, and a scale for each 32 columns."""
    key = f"1/{f.name}/{name}"
    f.t[name + ".weight"] = T("I8", (rows, columns // 2), raw(key, rows * columns // 2).tobytes())
    f.t[name + ".scale"] = powers(key + "/scale", (rows, columns // 32))


def hyper(f, b, D, streams, what):
    mixes = streams if what == "head" else (2 + streams) * streams
    f.add(f"{b}hc_{what}_fn", mixes, streams * D, dtype="F32"), f.add(f"{b}hc_{what}_base", mixes, dtype="F32")
    f.add(f"{b}hc_{what}_scale", 1 if what == "head" else 3, dtype="F32")


def compressor(f, b, D, width, ratio):
    wide = width * (2 if ratio == 4 else 1)
    f.add(b + "ape", ratio, wide, dtype="F32"), f.lin(b + "wkv", wide, D), f.lin(b + "wgate", wide, D), f.norm(b + "norm", width)


def v4_layer(f, b, D, H, hd, q, groups, low, ih, ihd, F, E, ratio, table, n, streams, lin, exp, images):
    a = b + "attn."
    f.norm(b + "attn_norm", D), f.norm(b + "ffn_norm", D)
    f.add(a + "attn_sink", H, dtype="F32")
    lin(f, a + "wq_a", q, D), f.norm(a + "q_norm", q), lin(f, a + "wq_b", H * hd, q), lin(f, a + "wkv", hd, D), f.norm(a + "kv_norm", hd)
    lin(f, a + "wo_a", groups * low, H * hd // groups), lin(f, a + "wo_b", D, groups * low)
    if ratio:
        compressor(f, a + "compressor.", D, hd, ratio)
    if ratio == 4:
        lin(f, a + "indexer.wq_b", ih * ihd, q), f.lin(a + "indexer.weights_proj", ih, D), compressor(f, a + "indexer.compressor.", D, ihd, ratio)
    hyper(f, b, D, streams, "attn"), hyper(f, b, D, streams, "ffn")
    f.lin(b + "ffn.gate", E, D), f.add(b + "ffn.gate.bias", E, dtype="F32")
    if images:
        f.add(b + "ffn.gate.bias_vl", E, dtype="F32")
    if table:
        first, step = raw(f"1/{f.name}/{b}tid2eid", n * 2).reshape(2, n)
        ids = np.stack((first % E, (first % E + 1 + step % (E - 1)) % E), 1)
        f.t[b + "ffn.gate.tid2eid"] = T(table, ids.shape, ids.astype("<i8" if table == "I64" else "<i4").tobytes())
    for e in range(E):
        for x, rows, columns in (("w1", F, D), ("w2", D, F), ("w3", F, D)):
            exp(f, f"{b}ffn.experts.{e}.{x}", rows, columns)
    for x, rows, columns in (("w1", F, D), ("w2", D, F), ("w3", F, D)):
        lin(f, f"{b}ffn.shared_experts.{x}", rows, columns)


def v4_config(name, D, N, H, hd, r, q, groups, low, ih, ihd, F, E, ratios, hashes, n, streams, **config):
    return common(name, "deepseek_v4", D, N, H, 1, 0, n, intermediate_size="-", attention_bias=False, attention_dropout=0.0, bos_token_id=0, eos_token_id=1,
                  compress_ratios=ratios, compress_rope_theta=160000, hc_eps=1e-06, hc_mult=streams, hc_sinkhorn_iters=20, head_dim=hd, index_head_dim=ihd, index_n_heads=ih,
                  index_topk=512, initializer_range=0.02, max_position_embeddings=1048576, moe_intermediate_size=F, n_routed_experts=E, n_shared_experts=1, norm_topk_prob=True,
                  num_experts_per_tok=2, num_hash_layers=hashes, num_nextn_predict_layers=1, o_groups=groups, o_lora_rank=low, q_lora_rank=q, qk_rope_head_dim=r, rms_norm_eps=1e-06,
                  rope_scaling={"beta_fast": 32, "beta_slow": 1, "factor": 16, "original_max_position_embeddings": 65536, "type": "yarn"}, rope_theta=10000,
                  routed_scaling_factor=1.5, scoring_func="sqrtsoftplus", sliding_window=128, swiglu_limit=10.0, topk_method="noaux_tc", **config)


FP8 = {"expert_dtype": "fp4",
       "quantization_config": {"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8", "scale_fmt": "ue8m0", "weight_block_size": [128, 128]}}


def v4(f, D, N, H, hd, r, q, groups, low, ih, ihd, F, E, ratios, hashes, lin, exp, ints="I32", images=False, **config):
    n, streams = deepseek_tokens(f, template=None), 4
    f.add("embed.weight", n, D)
    for i in range(N):
        v4_layer(f, f"layers.{i}.", D, H, hd, q, groups, low, ih, ihd, F, E, ratios[i], ints if i < hashes else None, n, streams, lin, exp, images)
    f.norm("norm", D), f.lin("head", n, D), hyper(f, "", D, streams, "head")
    b = "mtp.0."
    v4_layer(f, b, D, H, hd, q, groups, low, ih, ihd, F, E, ratios[N], None, n, streams, lin, exp, images)
    for x in ("enorm", "hnorm", "norm"):
        f.norm(b + x, D)
    lin(f, b + "e_proj", D, D), lin(f, b + "h_proj", D, D), hyper(f, b, D, streams, "head")
    f.finish(v4_config("DeepseekV4ForCausalLM", D, N, H, hd, r, q, groups, low, ih, ihd, F, E, ratios, hashes, n, streams, **config), shards=2)


@folder
def deepseek4(f):
    """FP8 and MXFP4, blocks of 128 x 128 that are cut off; a block that predicts, which is left out."""
    v4(f, 160, 3, 4, 32, 16, 64, 2, 32, 4, 64, 64, 4, [0, 4, 128, 0], 1, with_scale, two_codes, **FP8)


@folder
def dspark_deepseek4(f, D=160, N=4, H=4, hd=32, q=16, groups=2, low=32, F=64, E=4, streams=4, rank=32):
    """A draft's stages beside a layer of its target, whose config it has: that layer is left out. More layers with tables than there are stages."""
    target = Folder(str(pathlib.Path(f.path).parents[1] / "targets"), f.name)
    f.pre = target.pre = "deepseek-v3"
    n, _ = bpe(target.path, f.pre, added=DEEPSEEK, eos=DEEPSEEK[1], pad=DEEPSEEK[2], bos=DEEPSEEK[0], post=(DEEPSEEK[0], None), first=True, template=None,
               config={"add_bos_token": True, "add_eos_token": False, "tokenizer_class": "LlamaTokenizerFast"})
    sizes = D, N, H, hd, 16, q, groups, low, 4, 64, F, E, [0, 4, 128, 0, 0, 0], 3, n, streams
    write(target.path, "config.json", v4_config("DeepseekV4ForCausalLM", *sizes, **FP8))
    f.add("embed.weight", n, D), f.norm("norm", D), f.lin("head", n, D), hyper(f, "", D, streams, "head")
    for b, images in (("layers.3.", False), ("mtp.0.", True), ("mtp.1.", False)):
        v4_layer(f, b, D, H, hd, q, groups, low, 4, 64, F, E, 0, None, n, streams, with_scale, two_codes, images)
    with_scale(f, "mtp.0.main_proj", D, 3 * D), f.norm("mtp.0.main_norm", D)
    b = "mtp.1."
    f.norm(b + "norm", D), hyper(f, b, D, streams, "head"), f.lin(b + "confidence_head.proj", 1, D + rank)
    f.lin(b + "markov_head.markov_w1", n, rank), f.lin(b + "markov_head.markov_w2", n, rank)
    f.finish(v4_config("DeepseekV4DSparkModel", *sizes, dspark_block_size=5, dspark_noise_token_id=7, dspark_target_layer_ids=[0, 1, 2], dspark_markov_rank=rank, **FP8), shards=2)


@folder
def deepseek4_vision(f):
    """Weights of 16 bits, but for the experts; a choice of experts for images; what sees is left out."""
    f.lin("aligner.layers.0", 16, 16), f.add("image_newline", 64), f.lin("vision.blocks.0.attn.qkv", 48, 16)
    v4(f, 64, 2, 4, 32, 16, 32, 2, 16, 4, 32, 32, 4, [4, 0, 0], 1, lambda f, *a: f.lin(*a), two_codes, ints="I64", images=True, vision_n_layers=1)


# ---- models beside Llama

@folder
def llama_embed(f, D=64, N=2, H=4, K=2, hd=16, FF=96):
    n, ids = chat(f, "llama-bpe", ("<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"), "<|eot_id|>", "<|eot_id|>", bos="<|begin_of_text|>", post=("<|begin_of_text|>", None))
    llama_tensors(f, D, N, H, K, hd, FF, n, p="", tied=1)
    f.finish(common("LlamaBidirectionalModel", "llama", D, N, H, K, FF, n, attention_bias=False, bos_token_id=ids["<|begin_of_text|>"], eos_token_id=ids["<|eot_id|>"], head_dim=hd,
                    mlp_bias=False, pooling="avg", pretraining_tp=1, rope_theta=500000.0, max_position_embeddings=131072,
                    rope_scaling={"factor": 8.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 8192, "rope_type": "llama3"}))


def deci_layer(f, b, D, H, K, hd, FF, linear=False):
    if K:
        f.norm(b + "input_layernorm", D), m2.attn(f, b + "self_attn.", D, H, K, hd)
    elif linear:
        f.norm(b + "input_layernorm", D), f.lin(b + "self_attn.linear_attn", D, D)
    if FF:
        f.norm(b + "post_attention_layernorm", D), m2.ffn(f, b + "mlp.", D, FF)


@folder
def deci(f, D=64, H=4, hd=16):
    """Layers with other numbers of heads, one matrix in place of attention, no attention, and neither part."""
    n, _ = spm(f.path, fast=True, only_json=True)
    f.pre = "default"
    kinds = [(2, False, 2.625), (None, True, 5.25), (4, False, 1.3125), (None, False, 2.625), (None, False, None), (1, False, 2.625)]
    f.add("model.embed_tokens.weight", n, D)
    for i, (group, linear, times) in enumerate(kinds):
        deci_layer(f, f"model.layers.{i}.", D, H, H // group if group else 0, hd, 256 if times else 0, linear)
    f.norm("model.norm", D), f.lin("lm_head", n, D)
    blocks = [{"attention": {"n_heads_in_group": group, "no_op": group is None and not linear, "num_sink_tokens": None, "replace_with_linear": linear, "use_prefill_window_in_sink_attention": False,
                             "window_length": None}, "ffn": {"ffn_mult": times, "no_op": times is None, "replace_with_linear": False}} for group, linear, times in kinds]
    f.finish(common("DeciLMForCausalLM", "nemotron-nas", D, len(kinds), H, 0, 0, n, attention_bias=False, block_configs=blocks, intermediate_size=None, num_key_value_heads=None,
                    max_position_embeddings=131072, mlp_bias=False, pretraining_tp=1, rope_theta=500000.0, rope_scaling=None))


@folder
def deci_7b(f, D=64, H=4, hd=16, FF=96, K=(4, 2, 1)):
    n, _ = spm(f.path, fast=True, only_json=True)
    f.pre = "default"
    f.add("model.embed_tokens.weight", n, D)
    for i, heads in enumerate(K):
        deci_layer(f, f"model.layers.{i}.", D, H, heads, hd, FF)
    f.norm("model.norm", D), f.lin("lm_head", n, D)
    f.finish(common("DeciLMForCausalLM", "deci", D, len(K), H, 0, FF, n, num_key_value_heads="-", num_key_value_heads_per_layer=list(K), max_position_embeddings=8192, rope_theta=10000.0,
                    rope_scaling={"factor": 2.0, "type": "dynamic"}))


@folder
def cogvlm(f, D=64, N=2, H=4, FF=96):
    """Each layer once more for images; what sees is left out."""
    n, ids = chat(f, "llama-bpe", ("<|begin_of_text|>", "<|end_of_text|>"), "<|end_of_text|>", None, bos="<|begin_of_text|>", post=("<|begin_of_text|>", None))
    f.add("model.embed_tokens.weight", n, D)
    for i in range(N):
        b = f"model.layers.{i}."
        f.norm(b + "input_layernorm", D), f.norm(b + "post_attention_layernorm", D)
        for x in ("language", "vision"):
            f.lin(f"{b}self_attn.{x}_expert_query_key_value", 3 * D, D), f.lin(f"{b}self_attn.{x}_expert_dense", D, D), m2.ffn(f, f"{b}mlp.{x}_mlp.", D, FF)
    f.norm("model.norm", D), f.lin("lm_head", n, D), f.lin("model.vision.transformer.layers.0.attention.query_key_value", 48, 16, True), f.lin("model.vision.linear_proj.linear_proj", D, 16)
    f.finish(common("CogVLMForCausalLM", "cogvlm", D, N, H, H, FF, n, bos_token_id=ids["<|begin_of_text|>"], eos_token_id=ids["<|end_of_text|>"], template_version="chat",
                    max_position_embeddings=8192, rope_theta="-", vision_config={"hidden_size": 16, "image_size": 224, "num_hidden_layers": 1, "patch_size": 14}))


@folder
def plamo(f, D=160, N=2, shared=8, K=5, FF=96):
    """Heads that share keys are far apart."""
    n, _ = spm(f.path)
    H, hd = shared * K, D // (shared * K)
    f.add("model.embed_tokens.weight", n, D)
    for i in range(N):
        b = f"model.layers.layers.{i}."
        f.norm(b + "norm", D), m2.attn(f, b + "self_attn.", D, H, K, hd), m2.ffn(f, b + "mlp.", D, FF)
        f.add(b + "self_attn.rotary_emb.inv_freq", hd // 2, dtype="F32")
    f.norm("model.norm", D), f.lin("lm_head", n, D)
    f.finish(common("PlamoForCausalLM", "plamo", D, N, H, H, FF, n, bos_token_id=1, eos_token_id=2, hidden_act="-", max_position_embeddings="-", n_shared_head=shared, pad_token_id=0,
                    rms_norm_eps=1e-06, rope_theta="-", tokenizer_class="PlamoTokenizer"))
