"""Folders of models that came late to those that are read, for hf_class_folders.py. config.json has the keys of published models, with small sizes."""
import numpy as np

import make_hf2 as m2
from make_hf import T, bpe, common, fp8, raw, spm, store, uniform

FOLDERS = {}


def folder(make):
    FOLDERS[make.__name__.replace("_", "-").replace("-dot-", ".")] = make
    return make


def chat(f, pre="qwen2", added=("<|endoftext|>", "<|im_start|>", "<|im_end|>"), eos="<|im_end|>", pad="<|endoftext|>", **other):
    f.pre = pre
    return bpe(f.path, pre, added=added, eos=eos, pad=pad, **{"pairs": True, **other})


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
    f.finish(common("DeepseekV4ForCausalLM", "deepseek_v4", D, N, H, 1, 0, n, intermediate_size="-", attention_bias=False, attention_dropout=0.0, bos_token_id=0, eos_token_id=1,
                    compress_ratios=ratios, compress_rope_theta=160000, hc_eps=1e-06, hc_mult=streams, hc_sinkhorn_iters=20, head_dim=hd, index_head_dim=ihd, index_n_heads=ih,
                    index_topk=512, initializer_range=0.02, max_position_embeddings=1048576, moe_intermediate_size=F, n_routed_experts=E, n_shared_experts=1, norm_topk_prob=True,
                    num_experts_per_tok=2, num_hash_layers=hashes, num_nextn_predict_layers=1, o_groups=groups, o_lora_rank=low, q_lora_rank=q, qk_rope_head_dim=r, rms_norm_eps=1e-06,
                    rope_scaling={"beta_fast": 32, "beta_slow": 1, "factor": 16, "original_max_position_embeddings": 65536, "type": "yarn"}, rope_theta=10000,
                    routed_scaling_factor=1.5, scoring_func="sqrtsoftplus", sliding_window=128, swiglu_limit=10.0, topk_method="noaux_tc", **config), shards=2)


@folder
def deepseek4(f):
    """FP8 and MXFP4, blocks of 128 x 128 that are cut off; a block that predicts, which is left out."""
    v4(f, 160, 3, 4, 32, 16, 64, 2, 32, 4, 64, 64, 4, [0, 4, 128, 0], 1, with_scale, two_codes, expert_dtype="fp4",
       quantization_config={"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8", "scale_fmt": "ue8m0", "weight_block_size": [128, 128]})


@folder
def deepseek4_vision(f):
    """Weights of 16 bits, but for the experts; a choice of experts for images; what sees is left out."""
    f.lin("aligner.layers.0", 16, 16), f.add("image_newline", 64), f.lin("vision.blocks.0.attn.qkv", 48, 16)
    v4(f, 64, 2, 4, 32, 16, 32, 2, 16, 4, 32, 32, 4, [4, 0, 0], 1, lambda f, *a: f.lin(*a), two_codes, ints="I64", images=True, vision_n_layers=1)
