"""Cases of tests/hf_saved: ways to save a folder. Needs numpy, and the shared material's make_hf on the path."""
import json
import os
import re

import make_hf
import make_hf2
import numpy as np

METADATA = {"format": "pt"}


def make(root, variant, change):
    """Writes a folder of make_hf under a root, and again after a change of its arrays and files. Returns its path."""
    folder = make_hf.Folder(str(root), variant)
    (make_hf.VARIANTS.get(variant) or make_hf2.V2[variant])(folder)
    folder.metadata = METADATA
    if change:
        change(folder)
        for name in os.listdir(folder.path):
            if name.endswith((".safetensors", ".index.json")):
                os.remove(os.path.join(folder.path, name))
        make_hf.safetensors(os.path.join(folder.path, "model.safetensors"), folder.t, metadata=folder.metadata)
    return folder.path


def read(folder, name):
    with open(os.path.join(folder.path, name), encoding="utf-8") as file:
        return json.load(file)


def configure(folder, **values):
    """Sets keys of config.json; None takes a key out."""
    config = read(folder, "config.json")
    for key, value in values.items():
        config.pop(key, None)
        if value is not None:
            config[key] = value
    make_hf.write(folder.path, "config.json", config)


def floats(t):
    if t.dtype == "BF16":
        return (np.frombuffer(t.data, "<u2").astype("<u4") << 16).view("<f4").reshape(t.shape)
    return np.frombuffer(t.data, {"F32": "<f4", "F16": "<f2"}[t.dtype]).astype("<f4").reshape(t.shape)


def renamed(change):
    def to(folder):
        folder.t = {change(name): t for name, t in folder.t.items()}
    return to


# ---- names ----

def name_cases(cases):
    told, added, taken = "it is taken out", "it is added", "it is taken away"
    layer = r"(layers\.\d+\.)"
    for variant in ("qwen3", "mixtral", "gptneox"):
        for name, change in {
            "_orig_mod. in front": lambda n: "_orig_mod." + n,
            "module. in front": lambda n: "module." + n,
            "_orig_mod.module. in front": lambda n: "_orig_mod.module." + n,
            "module._orig_mod._fsdp_wrapped_module. in front": lambda n: "module._orig_mod._fsdp_wrapped_module." + n,
            "wrapped layers": lambda n: re.sub(layer, r"\1_fsdp_wrapped_module._checkpoint_wrapped_module.", n),
            "wrapped matrices": lambda n: n.replace("_proj.weight", "_proj._orig_mod.weight").replace("dense.weight", "dense._orig_mod.weight"),
            "wrapped at three places": lambda n: "module." + re.sub(layer, r"\1_orig_mod.", n).replace("model.", "model.module.", 1),
        }.items():
            cases.same(f"{variant}: {name}", variant, renamed(change), told)
    for variant, prefix in (("llama", "model."), ("mixtral", "model."), ("gemma3", "model."), ("deepseek2-lite", "model."), ("gptneox", "gpt_neox."), ("falcon", "transformer."), ("mamba", "backbone.")):
        cases.same(f"{variant}: without {prefix}", variant, renamed(lambda n, p=prefix: n[len(p):] if n.startswith(p) else n), added)
    cases.same("wrapped, and without model.", "qwen3", renamed(lambda n: "_orig_mod." + n.replace("model.", "", 1)), told + "|" + added)
    for variant in ("llama", "qwen3"):
        cases.same(f"{variant}: model. twice", variant, renamed(lambda n: "model." + n), taken)
    cases.same("model._orig_mod.model.", "qwen3", renamed(lambda n: "model._orig_mod." + n), told + "|" + taken)
    cases.no("a wrapped array beside the plain one", "llama", lambda f: f.t.update({"module.model.norm.weight": f.t["model.norm.weight"]}), "model.norm.weight|has it, too")
    q = "model.layers.0.self_attn.q_proj."
    peft = "PEFT|merge"
    cases.no("base_model.model.", "llama", renamed(lambda n: "base_model.model." + n), peft)
    cases.no("base_layer", "llama", renamed(lambda n: n.replace("_proj.weight", "_proj.base_layer.weight")), peft)
    cases.no("an adapter beside its matrix", "llama", lambda f: [f.add(q + s, 8, 256) for s in ("lora_A.default.weight", "lora_B.default.weight")], peft)
    cases.no("an adapter in a wrapper", "llama", lambda f: f.add("_orig_mod." + q + "lora_A.weight", 8, 256), peft)
    cases.no("modules_to_save", "llama", lambda f: f.t.update({"model.embed_tokens.modules_to_save.default.weight": f.t.pop("model.embed_tokens.weight")}), peft)
    cases.no("DoRA", "llama", lambda f: f.add(q + "lora_magnitude_vector.weight", 256), peft)
    for name, near in (("model.layers.1.mlp.gate_projection.weight", "model.layers.1.mlp.gate_proj"), ("model.layers.1.input_layer_norm.weight", "model.layers.1.input_layernorm"),
                       ("model.layers.0.block_sparse_moe.experts.3.w4.weight", "model.layers.0.block_sparse_moe.experts.3.w"), ("model.layers.0.self_attn.queries.weight", "nearest")):
        cases.no("no rule: " + name, "llama", lambda f, name=name: f.add(name, 8, 8), f"no rule|'{name}'|{near}")


# ---- weights that are quantized, or said to be ----

METHODS = {
    "bitsandbytes": {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"},
    "awq": {"bits": 4, "group_size": 128}, "gptq": {"bits": 4, "group_size": 128}, "hqq": {}, "torchao": {}, "quanto": {}, "aqlm": {}, "eetq": {}, "bitnet": {}, "fbgemm_fp8": {},
    "fp8": {"weight_block_size": [128, 128]}, "compressed-tensors": {"format": "pack-quantized"}, "modelopt": {}, "mxfp4": {}, "auto-round": {}, "quark": {}, "nonsense": {},
}
MATRICES = ("_proj.weight",)


def said(method, **values):
    return lambda f: configure(f, quantization_config={"quant_method": method, **METHODS.get(method, {}), **values})


def said_in_text_config(f):
    config = read(f, "config.json")
    config["text_config"]["quantization_config"] = {"quant_method": "bitsandbytes"}
    make_hf.write(f.path, "config.json", config)


def e4m3(data):
    b = np.frombuffer(data, np.uint8).astype(int)
    e, m, sign = b >> 3 & 15, b & 7, np.where(b >> 7, -1.0, 1.0)
    return (sign * np.where(e == 0, m / 8 * 2.0**-6, (1 + m / 8) * 2.0 ** (e - 7))).astype(np.float32)


def e5m2(data):
    return np.frombuffer(np.frombuffer(data, np.uint8).astype("<u2").__lshift__(8).astype("<u2").tobytes(), "<f2").astype(np.float32)


SCALES = {  # shape of an array's scales, from its own
    "per tensor": lambda o, i: (), "per tensor, [1]": lambda o, i: (1,), "per tensor, [1, 1]": lambda o, i: (1, 1), "per channel": lambda o, i: (o, 1), "per channel, [o]": lambda o, i: (o,),
}


def coded(name, shape_of, dtype="F8_E4M3", scale_dtype="F32", config=None, more=(), plain=False, files=()):
    """Matrices of FP8 with scales of this name, or what they mean, as floats"""
    def change(f):
        for key in [k for k in f.t if k.endswith(MATRICES)]:
            o, i = f.t[key].shape
            codes = make_hf.fp8(key, (o, i), dtype)
            scale = make_hf.store(make_hf.uniform(key + name, shape_of(o, i), 1e-4, 3e-3), scale_dtype)
            if plain:
                x = (e4m3 if dtype == "F8_E4M3" else e5m2)(codes.data).reshape(o, i)
                f.t[key] = make_hf.store(x * floats(scale).reshape((-1, 1) if scale.shape else ()), "F32")
                continue
            f.t[key], f.t[key[: -len("weight")] + name] = codes, scale
            for m in more:
                f.t[key[: -len("weight")] + m] = make_hf.store(np.float32(0.5), "F32")
        if not plain:
            if config:
                configure(f, quantization_config=config)
            for file, text in files:
                make_hf.write(f.path, file, text)
    return change


def fp8_case(cases, case, name, shape, warns=None, **more):
    cases.same(case, "qwen3", coded(name, SCALES[shape], **more), warns, coded(name, SCALES[shape], plain=True, **{k: v for k, v in more.items() if k in ("dtype", "scale_dtype")}))


def fp8_cases(cases):
    left = "scales of activations"
    compressed = lambda strategy: {"quant_method": "compressed-tensors", "format": "float-quantized", "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float", "strategy": strategy}}}}
    for shape in SCALES:
        fp8_case(cases, f"fp8, weight_scale {shape}, nothing said", "weight_scale", shape)
    fp8_case(cases, "fp8, weight_scale_inv per tensor, nothing said", "weight_scale_inv", "per tensor")
    fp8_case(cases, "fp8, static", "weight_scale", "per tensor", left, config={"quant_method": "fp8", "activation_scheme": "static"}, more=("input_scale",))
    fp8_case(cases, "fp8, static, E5M2, scales of BF16", "weight_scale", "per channel", left, dtype="F8_E5M2", scale_dtype="BF16", config={"quant_method": "fp8"}, more=("input_scale",))
    fp8_case(cases, "fp8, activation_scale", "weight_scale_inv", "per tensor", left, config={"quant_method": "fp8"}, more=("activation_scale",))
    fp8_case(cases, "fp8 of another method's block", "weight_scale", "per channel", config={"quant_method": "bitsandbytes"})
    for method in ("fbgemm_fp8", "quark", "auto-round", "nonsense"):
        fp8_case(cases, "fp8 of " + method, "weight_scale", "per channel", left, config={"quant_method": method}, more=("input_scale", "output_scale"))
    fp8_case(cases, "fp8 of compressed-tensors, per tensor", "weight_scale", "per tensor, [1]", left, config=compressed("tensor"), more=("input_scale",))
    fp8_case(cases, "fp8 of modelopt", "weight_scale", "per tensor", left, more=("input_scale", "k_scale"), files=[("hf_quant_config.json", {"quantization": {"quant_algo": "FP8"}})])
    block = lambda o, i: (-(-o // 64), -(-i // 64))
    what = "weight_block_size|down_proj.weight|16 bits"
    cases.no("fp8, blocks of no size, nothing said", "qwen3", coded("weight_scale_inv", block), what)
    cases.no("fp8, blocks of no size", "qwen3", coded("weight_scale_inv", block, config={"quant_method": "fp8"}), what + "|fp8")
    cases.no("fp8, blocks of no size, weight_scale", "qwen3", coded("weight_scale", block, config={"quant_method": "fbgemm_fp8"}), what + "|fbgemm_fp8")

    def lacking(method):
        def change(f):
            coded("weight_scale", SCALES["per channel"], config=method)(f)
            del f.t["model.layers.1.mlp.up_proj.weight_scale"]
        return change
    cases.no("fp8, a scale is missing", "qwen3", lacking({"quant_method": "fp8"}), "layers.1.mlp.up_proj.weight|without a scale")
    cases.no("fp8, a scale is missing, nothing said", "qwen3", lacking(None), "layers.1.mlp.up_proj.weight|without a scale")
    cases.no("a scale beside floats", "qwen3", lambda f: f.add("model.layers.0.mlp.up_proj.weight_scale", 1), "up_proj.weight|weight_scale|16 bits")


def ternary(plain=False, inverse=True, scale_dtype="BF16", **config):
    """BitNet's four rows in a byte, or what they mean"""
    def change(f):
        for key in [k for k in f.t if k.endswith(MATRICES)]:
            o, i = f.t[key].shape
            q = make_hf.raw(key, o * i).reshape(o, i) % 3
            scale = make_hf.store(make_hf.uniform(key + "s", (1,), 20, 60), scale_dtype)
            if plain:
                x, by = q.astype(np.float32) - 1, floats(scale)
                f.t[key] = make_hf.store(x / by if inverse else x * by, "F32")
            else:
                r = q.reshape(4, o // 4, i)
                f.t[key] = make_hf.T("U8", (o // 4, i), (r[0] | r[1] << 2 | r[2] << 4 | r[3] << 6).astype(np.uint8).tobytes())
                f.t[key + "_scale"] = scale
        if not plain:
            configure(f, quantization_config={"quant_method": "bitnet", **config})
    return change


def bitsandbytes(f, nf4=True):
    for key in [k for k in f.t if k.endswith(MATRICES)]:
        o, i = f.t[key].shape
        if nf4:
            f.t[key] = make_hf.T("U8", (o * i // 2, 1), make_hf.raw(key, o * i // 2).tobytes())
            f.t[key + ".absmax"] = make_hf.T("U8", (o * i // 64,), make_hf.raw(key, o * i // 64).tobytes())
            f.t[key + ".quant_state.bitsandbytes__nf4"] = make_hf.T("U8", (88,), make_hf.raw(key, 88).tobytes())
        else:
            f.t[key] = make_hf.T("I8", (o, i), make_hf.raw(key, o * i).tobytes())
            f.t[key.replace(".weight", ".SCB")] = make_hf.store(make_hf.uniform(key, (o,)), "F32")


def awq(f):
    for key in [k for k in f.t if k.endswith(MATRICES)]:
        o, i = f.t.pop(key).shape
        p = key[: -len("weight")]
        f.t[p + "qweight"] = make_hf.T("I32", (i, o // 8), make_hf.raw(key, o * i // 2).tobytes())
        f.t[p + "qzeros"] = make_hf.T("I32", (1, o // 8), make_hf.raw(key, o // 2).tobytes())
        f.t[p + "scales"] = make_hf.store(make_hf.uniform(key, (1, o)), "F16")


def quantized_cases(cases):
    for method in METHODS:
        cases.same("only said: " + method, "qwen3", said(method), f"({method})|read as they are")
    cases.same("only said: in text_config", "qwen3vl", said_in_text_config, "(bitsandbytes)|read as they are")
    cases.same("only said: MLX", "qwen3", lambda f: configure(f, quantization={"bits": 4, "group_size": 64}, quantization_config={"bits": 4, "group_size": 64}), "(MLX)|read as they are")
    cases.same("only said: hf_quant_config.json", "qwen3", lambda f: make_hf.write(f.path, "hf_quant_config.json", {"quantization": {"quant_algo": "FP8"}}), "hf_quant_config.json|(modelopt)")
    cases.same("said: none", "qwen3", said("none"))
    cases.same("said: nothing", "qwen3", lambda f: configure(f, quantization_config={}))
    fp8_cases(cases)
    cases.same("bitnet", "llama", ternary(), None, ternary(plain=True))
    cases.same("bitnet, scales of F32", "qwen3", ternary(scale_dtype="F32", linear_class="bitlinear"), None, ternary(plain=True, scale_dtype="F32"))
    cases.same("bitnet, scales that multiply", "qwen3", ternary(linear_class="autobitlinear", quantization_mode="offline"), None, ternary(plain=True, inverse=False))
    cases.no("bitnet, a scale is missing", "qwen3", lambda f: (ternary()(f), f.t.pop("model.layers.0.mlp.up_proj.weight_scale")), "up_proj.weight|bitnet|16 bits")
    for said_so in (True, False):
        end = ", said" if said_so else ""
        for name, change, method in (("NF4 of bitsandbytes", bitsandbytes, "bitsandbytes"), ("LLM.int8 of bitsandbytes", lambda f: bitsandbytes(f, nf4=False), "bitsandbytes"), ("AWQ", awq, "awq")):
            words = {"awq": "awq" if said_so else "AWQ"}.get(method, method if said_so else "quantized by")
            cases.no(name + end, "qwen3", lambda f, change=change, method=method, said_so=said_so: (change(f), said_so and said(method)(f)), f"down_proj|{words}|16 bits")


def cases(cases):
    name_cases(cases)
    quantized_cases(cases)
