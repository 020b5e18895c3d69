"""Cases of tests/hf/hf_saved: ways to save a folder. Needs numpy, and the shared material's make_hf on the path."""
import functools
import json
import os
import re
import shutil

import hf_class_folders
import make_hf
import make_hf2
import numpy as np

METADATA = {"format": "pt"}

# Most of a case's time was the same merges, found once more.
TRAINED = functools.cache(make_hf.train)
make_hf.train = lambda words, count: list(TRAINED(tuple(words), count))


def make(root, variant, change):
    """Writes a folder of make_hf under a root, and again after a change of its arrays and files. Returns its path."""
    shutil.rmtree(root / variant, ignore_errors=True)
    folder = make_hf.Folder(str(root), variant)
    (make_hf.VARIANTS.get(variant) or make_hf2.V2.get(variant) or hf_class_folders.FOLDERS[variant])(folder)
    folder.metadata, folder.parts = METADATA, {"model.safetensors": None}
    if change:
        change(folder)
        for name in os.listdir(folder.path):
            if name.endswith((".safetensors", ".index.json")):
                os.remove(os.path.join(folder.path, name))
        for file, names in folder.parts.items():
            make_hf.safetensors(os.path.join(folder.path, file), {n: folder.t[n] for n in names or folder.t}, metadata=folder.metadata)
        for file, names in getattr(folder, "beside", {}).items():
            make_hf.safetensors(os.path.join(folder.path, file), {n: make_hf.store(np.zeros(folder.t[n].shape, np.float32), "F32") for n in names})
        if getattr(folder, "index", None):
            make_hf.write(folder.path, "model.safetensors.index.json", {"weight_map": folder.index})
        if len(folder.parts) > 1:
            make_hf.write(folder.path, "model.safetensors.index.json", {"weight_map": {n: file for file, names in folder.parts.items() for n in names}})
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


def in_parts(change):
    """Two files and an index, with all names changed"""
    def to(folder):
        change(folder)
        names = list(folder.t)
        folder.parts = {f"model-0000{i + 1}-of-00002.safetensors": names[i::2] for i in (0, 1)}
    return to


# ---- names ----

def name_cases(cases):
    told, added, taken = "it is removed", "it is added", "it is removed"
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
    cases.same("wrapped, in parts with an index", "qwen3", in_parts(renamed(lambda n: "_orig_mod." + n)), told)
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
        cases.no("no rule: " + name, "llama", lambda f, name=name: f.add(name, 8, 8), f"unknown tensor|'{name}'|{near}")


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
                x = {"F8_E4M3": e4m3, "F8_E5M2": e5m2, "I8": lambda d: np.frombuffer(d, np.int8).astype(np.float32)}[dtype](codes.data).reshape(o, i)
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
    left = "activation scale"
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
        cases.same("only said: " + method, "qwen3", said(method), f"({method})|read as floats")
    cases.same("only said: in text_config", "qwen3vl", said_in_text_config, "(bitsandbytes)|read as floats")
    cases.same("only said: beside masks of bytes", "gpt2", lambda f: (said("bitsandbytes")(f), f.t.update({"h.0.attn.bias": make_hf.T("U8", (1, 1, 8, 8), bytes(64))})), "(bitsandbytes)|read as floats")
    cases.same("only said: MLX", "qwen3", lambda f: configure(f, quantization={"bits": 4, "group_size": 64}, quantization_config={"bits": 4, "group_size": 64}), "(MLX)|read as floats")
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


# ---- MLX ----

EXPERTS = {"w1": "gate_proj", "w3": "up_proj", "w2": "down_proj"}


def turned(t, a, b):
    """An array with two dimensions swapped"""
    size = {"BF16": "<u2", "F16": "<u2", "F32": "<u4"}[t.dtype]
    x = np.swapaxes(np.frombuffer(t.data, size).reshape(t.shape), a, b)
    return make_hf.T(t.dtype, x.shape, np.ascontiguousarray(x).tobytes())


def rows_of(t, first, last, axis=0):
    size = {"BF16": "<u2", "F16": "<u2", "F32": "<u4"}[t.dtype]
    x = np.frombuffer(t.data, size).reshape(t.shape)
    x = x[first:last] if axis == 0 else x[:, first:last]
    return make_hf.T(t.dtype, x.shape, np.ascontiguousarray(x).tobytes())


def stack_experts(f, container):
    """Experts of a layer as one array under MLX's names; `container`: what replaces "experts" of the path"""
    groups = {}
    for name in list(f.t):
        m = re.fullmatch(r"(.*)\.experts\.(\d+)\.(\w+)\.weight", name)
        if m:
            groups.setdefault((m[1], m[3]), {})[int(m[2])] = f.t.pop(name)
    for (path, proj), experts in groups.items():
        first = experts[0]
        proj = {"mixer": {"up_proj": "fc1", "down_proj": "fc2"}}.get(path.split(".")[-1], EXPERTS).get(proj, proj)
        data = b"".join(experts[i].data for i in range(len(experts)))
        f.t[f"{path}.{container}.{proj}.weight"] = make_hf.T(first.dtype, [len(experts)] + first.shape, data)


def split_fused(f, end, container, axis_turned=False):
    """gate_up_proj of all experts as two arrays, and down_proj, under MLX's names"""
    for name in [n for n in f.t if n.endswith(end)]:
        path, t = name[: -len(end)], f.t.pop(name)
        down = path + end.replace("gate_up_proj", "down_proj")
        d = f.t.pop(down)
        if axis_turned:
            t, d = turned(t, 1, 2), turned(d, 1, 2)
        half = t.shape[1] // 2
        f.t[f"{path}{container}.gate_proj.weight"] = rows_of(t, 0, half, 1)
        f.t[f"{path}{container}.up_proj.weight"] = rows_of(t, half, 2 * half, 1)
        f.t[f"{path}{container}.down_proj.weight"] = d


def split_latent(f):
    config = read(f, "config.json")
    config = config.get("text_config", config)
    heads, keys, values = config["num_attention_heads"], config["qk_nope_head_dim"], config["v_head_dim"]
    for name in [n for n in f.t if n.endswith("kv_b_proj.weight")]:
        t, path = f.t.pop(name), name[: -len("kv_b_proj.weight")]
        t = make_hf.T(t.dtype, [heads, keys + values, t.shape[1]], t.data)
        f.t[path + "embed_q.weight"] = turned(rows_of(t, 0, keys, 1), 1, 2)
        f.t[path + "unembed_out.weight"] = rows_of(t, keys, keys + values, 1)


def turn_convolutions(f):
    for name, t in f.t.items():
        if name.endswith(("conv1d.weight", "conv.conv.weight")) and len(t.shape) == 3:
            f.t[name] = make_hf.T(t.dtype, [t.shape[0], t.shape[2], 1], t.data)


def is_shifted_norm(name):
    return name.endswith("norm.weight") and "linear_attn.norm" not in name


def even_norms(f):
    """Norms that can be written with 1 added and without, and no arrays that MLX leaves out"""
    for name in [n for n in f.t if re.search(r"\bmtp\.", n)]:
        del f.t[name]
    config = read(f, "config.json")
    for part in (config, config.get("text_config", {})):
        part.pop("mtp_num_hidden_layers", None)
    make_hf.write(f.path, "config.json", config)
    last = config.get("text_config", config)["num_hidden_layers"]
    for name in list(f.t):
        m = re.match(r"model\.layers\.(\d+)\.", name)
        if m and int(m[1]) >= last:
            del f.t[name]
        elif is_shifted_norm(name):
            f.t[name] = make_hf.store(np.round(np.clip(floats(f.t[name]), -0.9, 0.9) * 128) / 128, f.t[name].dtype)


def add_ones(f):
    for name in [n for n in f.t if is_shifted_norm(n)]:
        f.t[name] = make_hf.store(floats(f.t[name]) + 1, f.t[name].dtype)


def mlx(*steps):
    def change(f):
        for step in steps:
            step(f)
        f.metadata = {"format": "mlx"}
    return change


def language_model_first(f):
    f.t = {n.replace("model.language_model.", "language_model.model."): t for n, t in f.t.items()}


def step35_names(f):
    names = ((".moe.gate_proj.", ".mlp.switch_mlp.gate_proj."), (".moe.up_proj.", ".mlp.switch_mlp.up_proj."), (".moe.down_proj.", ".mlp.switch_mlp.down_proj."),
             (".moe.gate.", ".mlp.gate.gate."), (".moe.router_bias", ".mlp.gate.router_bias"), (".share_expert.", ".mlp.share_expert."))
    for old, new in names:
        f.t = {n.replace(old, new): t for n, t in f.t.items()}


def kimi_names(f):
    f.t = {re.sub(r"([qkv])_conv1d\.weight", r"\1_conv.conv.weight", n.replace("block_sparse_moe.gate.e_score", "mlp.e_score").replace("block_sparse_moe.", "mlp.")): t for n, t in f.t.items()}


def gpt2_names(f):
    f.t = {"model." + n: turned(t, 0, 1) if n.endswith(("c_attn.weight", "c_proj.weight", "c_fc.weight")) else t for n, t in f.t.items()}


def dense_halves(f):
    for name in [n for n in f.t if n.endswith("shared_mlp.input_linear.weight")]:
        t, path = f.t.pop(name), name[: -len("shared_mlp.input_linear.weight")]
        half = t.shape[0] // 2
        f.t[path + "mlp.gate_proj.weight"], f.t[path + "mlp.up_proj.weight"] = rows_of(t, 0, half), rows_of(t, half, 2 * half)
        f.t[path + "mlp.down_proj.weight"] = f.t.pop(path + "shared_mlp.output_linear.weight")


def mlx_quantized(f, names=("_proj.weight", "embed_tokens.weight")):
    for key in [k for k in f.t if k.endswith(names)]:
        o, i = f.t[key].shape
        f.t[key] = make_hf.T("U32", (o, i // 8), make_hf.raw(key, o * i // 2).tobytes())
        f.t[key[: -len("weight")] + "scales"] = make_hf.store(make_hf.uniform(key, (o, i // 32)), "BF16")
        f.t[key[: -len("weight")] + "biases"] = make_hf.store(make_hf.uniform(key + "b", (o, i // 32)), "BF16")


def mlx_cases(cases):
    told, ones = "saved by MLX", "saved by MLX|1 is already added"
    switch = lambda f: stack_experts(f, "switch_mlp")
    plain = lambda *steps: lambda f: [step(f) for step in steps]
    halves = lambda f: split_fused(f, "experts.gate_up_proj", "switch_mlp")
    for variant in ("qwen3next", "qwen35", "qwen35moe"):
        steps = (even_norms, switch, halves, turn_convolutions)
        cases.same(variant + " by MLX", variant, mlx(*steps, add_ones, language_model_first), ones, even_norms)
        cases.same(variant + " by MLX, no metadata", variant, plain(*steps, add_ones), ones, even_norms)
        cases.same(variant + " by MLX, as published", variant, mlx(even_norms), None, even_norms)
        cases.no(variant + " by MLX, some convolutions", variant, lambda f: (even_norms(f), turn_convolutions(f), add_ones(f), f.t.update({n: make_hf.T(t.dtype, [t.shape[0], 1, t.shape[1]], t.data) for n, t in f.t.items() if "layers.1." in n and n.endswith("conv1d.weight")})), "MLX|conv1d|original folder")
        cases.no(variant + " by MLX, with predicting arrays", variant, mlx(turn_convolutions), "MLX|mtp.|original folder")
    cases.same("step35 by MLX", "step35", mlx(even_norms, step35_names, add_ones), ones, even_norms)
    cases.same("step35 by MLX, as published", "step35", mlx(even_norms), "num_nextn_predict_layers", even_norms)
    # Norms as published: MLX adds 1 as it runs.
    for variant in ("gemma", "gemma2", "gemma3", "nemotron", "llama", "qwen3", "gemma4"):
        cases.same(variant + " by MLX", variant, mlx(), "eos_token_id is a list" if variant == "gemma3" else None)
    cases.same("minimax-m3 by MLX", "minimax-m3", mlx(switch), told)
    for variant in ("mixtral", "qwen2moe", "phimoe", "olmoe", "glm4moe", "minimax-m2", "hunyuan-moe", "ernie4-5-moe", "nemotron-h", "nemotron-h-moe"):
        moe = variant != "nemotron-h"
        cases.same(variant + " by MLX", variant, mlx(*([even_norms] if "nemotron" in variant else []), switch, turn_convolutions), told if moe or "nemotron" in variant else None, even_norms if "nemotron" in variant else None)
    cases.same("qwen3moe-fused by MLX", "qwen3moe-fused", mlx(halves), told)
    cases.same("qwen3vlmoe by MLX", "qwen3vlmoe", mlx(lambda f: split_fused(f, "experts.gate_up_proj", "switch_mlp", True)), told)
    cases.same("llama4 by MLX", "llama4", mlx(lambda f: split_fused(f, "experts.gate_up_proj", "experts", True)), told)
    cases.same("gemma4-moe by MLX", "gemma4-moe", mlx(lambda f: split_fused(f, "experts.gate_up_proj", "experts.switch_glu"), language_model_first), told)
    cases.same("mistral4 by MLX", "mistral4", mlx(halves, split_latent), told)
    cases.same("granitemoe by MLX", "granitemoe", mlx(granite_experts), told)
    cases.same("granitehybrid by MLX", "granitehybrid", mlx(granite_experts, turn_convolutions), told)
    cases.same("granitehybrid-dense by MLX", "granitehybrid-dense", mlx(dense_halves, turn_convolutions), told)
    cases.same("deepseek2-lite by MLX", "deepseek2-lite", mlx(switch, split_latent), told)
    cases.same("deepseek32 by MLX", "deepseek32", mlx(switch, split_latent), told)
    cases.same("kimi-linear by MLX", "kimi-linear", mlx(switch, turn_convolutions, kimi_names, split_latent), told)
    cases.same("bailingmoe2 by MLX", "bailingmoe2", mlx(switch, renamed(lambda n: n.replace("mlp.gate.weight", "mlp.gate.gate_proj.weight"))), told)
    for variant in ("dots1", "afmoe"):
        cases.same(variant + " by MLX", variant, mlx(lambda f: stack_experts(f, "experts")), None)
    for variant in ("mamba", "mamba2-codestral", "lfm2", "jamba"):
        cases.same(variant + " by MLX", variant, mlx(turn_convolutions), told)
    cases.same("lfm2moe by MLX", "lfm2moe", mlx(switch, turn_convolutions), told)
    cases.same("gpt2 by MLX", "gpt2", mlx(gpt2_names), told + "|it is removed")
    cases.no("falcon-h1 by MLX", "falcon-h1", mlx(turn_convolutions), "MLX|multipliers|original folder")
    for name, change in (("", mlx(mlx_quantized)), (", said", mlx(mlx_quantized, lambda f: configure(f, quantization={"bits": 4, "group_size": 32}))), (", no metadata", mlx_quantized), (", the embedding alone", mlx(lambda f: mlx_quantized(f, ("embed_tokens.weight",))))):
        cases.no("quantized by MLX" + name, "qwen3", change, "U32|quantized by MLX|16 bits")
    cases.no("a name of MLX alone", "qwen3", mlx(lambda f: f.add("model.layers.0.mlp.down_proj.biases", 8, 8)), "biases|MLX|16 bits")


def granite_experts(f):
    for name in [n for n in f.t if n.endswith("block_sparse_moe.input_linear.weight")]:
        t, path = f.t.pop(name), name[: -len("input_linear.weight")]
        half = t.shape[1] // 2
        f.t[path + "switch_mlp.gate_proj.weight"], f.t[path + "switch_mlp.up_proj.weight"] = rows_of(t, 0, half, 1), rows_of(t, half, 2 * half, 1)
        f.t[path + "switch_mlp.down_proj.weight"] = f.t.pop(path + "output_linear.weight")


# ---- other things that are saved otherwise ----

def with_marks(f):
    """All JSON files with the mark of UTF-8 in front"""
    for name in os.listdir(f.path):
        if name.endswith(".json") and "index" not in name:
            path = os.path.join(f.path, name)
            data = open(path, "rb").read()
            open(path, "wb").write(b"\xef\xbb\xbf" + data)


def without_end(f, **values):
    """No eos_token but those of config.json"""
    settings = read(f, "tokenizer_config.json")
    settings.pop("eos_token", None)
    make_hf.write(f.path, "tokenizer_config.json", settings)
    configure(f, **values)


def without_merges(f):
    tokenizer = read(f, "tokenizer.json")
    tokenizer["model"]["merges"] = []
    make_hf.write(f.path, "tokenizer.json", tokenizer)
    if os.path.exists(os.path.join(f.path, "merges.txt")):
        os.remove(os.path.join(f.path, "merges.txt"))


def roberta(said):
    """RoBERTa's post-processor, or what it says of the separator as tokenizer_config.json would"""
    def change(f):
        tokenizer, settings = read(f, "tokenizer.json"), read(f, "tokenizer_config.json")
        token = tokenizer["added_tokens"][-1]
        tokenizer["post_processor"] = {"type": "RobertaProcessing", "sep": [token["content"], token["id"]], "cls": [token["content"], token["id"]], "trim_offsets": True, "add_prefix_space": False}
        settings.pop("sep_token", None)
        if said:
            settings["sep_token"] = token["content"]
        make_hf.write(f.path, "tokenizer.json", tokenizer)
        make_hf.write(f.path, "tokenizer_config.json", settings)
    return change


def head_alone(f):
    name = next(n for n in f.t if n.endswith(("embed_tokens.weight", "wte.weight", "word_embeddings.weight")))
    f.t.pop("lm_head.weight", None)
    f.t["lm_head.weight"] = f.t.pop(name)


def dense_layers(end):
    def change(f):
        config = read(f, "config.json")
        part = config.get("text_config", config)
        n = part["num_hidden_layers"]
        part["moe_layer_freq"] = ([0] + [1] * n)[: end or n]
        make_hf.write(f.path, "config.json", config)
    return change


def flat_convolutions(f, rates=False):
    for name, t in f.t.items():
        if name.endswith("conv1d.weight"):
            f.t[name] = make_hf.T(t.dtype, [t.shape[0], t.shape[-1]], t.data)
        elif rates and name.endswith("A_log"):
            f.t[name] = make_hf.T(t.dtype, [int(np.prod(t.shape))], t.data)


def other_cases(cases):
    for variant in ("qwen3", "Mistral-7B-Instruct-v0.3", "gemma3"):
        cases.same(variant + ": marks of UTF-8", variant, with_marks, "eos_token_id is a list" if variant == "gemma3" else None)
    told = "eos_token_id is a list"
    first = lambda f: without_end(f, eos_token_id=7)
    cases.same("ends: a list", "qwen3", lambda f: without_end(f, eos_token_id=[7, 9]), told + "|7 is written|eos_token_id=int:ID", first)
    cases.same("ends: a list of one", "qwen3", lambda f: without_end(f, eos_token_id=[7]), told, first)
    cases.same("ends: a list whose first is none", "qwen3", lambda f: without_end(f, eos_token_id=[-1, 10**6, 7]), told, first)
    cases.same("ends: a list of none", "qwen3", lambda f: without_end(f, eos_token_id=[-1, 10**6]), "none of its ids is one", lambda f: without_end(f, eos_token_id=None))
    cases.says("ends: beyond all pieces", "gemma", lambda f: configure(f, eos_token_id=10**6), {"tokenizer.ggml.eos_token_id": None}, "eos_token_id is 1000000, but there are")
    cases.same("ends: an empty list", "qwen3", lambda f: without_end(f, eos_token_id=[]), "no file names an end-of-text token", lambda f: without_end(f, eos_token_id=None))
    cases.same("ends: a list beside a known one", "qwen3", lambda f: configure(f, eos_token_id=[7, 9]))
    cases.same("no merges", "qwen3", without_merges, "tokenizer.json|no merges", without_merges)
    cases.same("RoBERTa's post-processor", "qwen3", roberta(False), None, roberta(True))
    for variant in ("llama", "gemma", "gemma2", "gemma3", "command-r", "minicpm", "qwen3vl", "gpt2"):
        cases.same(variant + ": its head alone", variant, head_alone, "lm_head.weight' is used", lambda f: f.t.pop("lm_head.weight", None))
    cases.no("a head alone that is not tied", "mixtral", lambda f: f.t.pop("model.embed_tokens.weight"), "token embedding")
    cases.same("kinds of fewer layers", "minimax-m3", dense_layers(2), None, dense_layers(None))
    cases.same("kinds of more layers", "minimax-m3", dense_layers(99), None, dense_layers(None))
    for variant in ("kimi-linear", "kimi-k3"):
        cases.same(variant + ": flat convolutions", variant, flat_convolutions)
    cases.same("kimi-linear: flat convolutions and rates", "kimi-linear", lambda f: flat_convolutions(f, True))


def with_arrays(**shapes):
    """Adds arrays: names, with '_' twice for each dot."""
    return lambda f: f.t.update({n.replace("__", "."): make_hf.store(make_hf.uniform(n, s), "F32") for n, s in shapes.items()})


def without(end):
    return lambda f: [f.t.pop(n) for n in list(f.t) if n.endswith(end)]


def rotated(*places):
    """Weights that were rotated before they were rounded, and what must be rotated while the model runs"""
    def change(f):
        config = read(f, "config.json")
        config["quantization_config"]["transform_config"] = {"config_groups": {"v": {"type": "hadamard", "apply": [{"location": p, "targets": ["Linear"]} for p in places]}}}
        make_hf.write(f.path, "config.json", config)
    return change


def tokenizer(change_json):
    def change(f):
        made = read(f, "tokenizer.json")
        change_json(made)
        make_hf.write(f.path, "tokenizer.json", made)
    return change


def tokenizer_cases(cases):
    def told(name, change, words):
        cases.same("tokenizer: " + name, "llama", tokenizer(change), words, tokenizer(change))
    begin = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<|end_of_text|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}], "pair": [], "special_tokens": {}}
    told("texts that begin with another token", lambda j: j.update(post_processor=begin), "begins texts with")
    for name, change, words in (("lower case alone", lambda j: j.update(normalizer={"type": "Lowercase"}), "not a BertNormalizer"), ("no normalizer", lambda j: j.update(normalizer=None), "not a BertNormalizer"),
                                ("control characters", lambda j: j["normalizer"].update(clean_text=False), "clean_text is false"), ("no cuts", lambda j: j.update(pre_tokenizer=None), "not a BertPreTokenizer"),
                                ("no processor", lambda j: j.update(post_processor=None), "does not enclose texts")):
        cases.same("words: " + name, "bert", tokenizer(change), words, tokenizer(change))
    def in_sequences(j):
        for key, parts in (("normalizer", "normalizers"), ("pre_tokenizer", "pretokenizers"), ("post_processor", "processors")):
            j[key] = {"type": "Sequence", parts: [j[key]]}
    cases.says("words: BERT's steps in sequences", "bert", tokenizer(in_sequences), {}, "!other token ids")
    def no_chinese(j):
        in_sequences(j), j["normalizer"]["normalizers"][0].update(handle_chinese_chars=False)
    cases.says("words: Chinese characters in sequences", "bert", tokenizer(no_chinese), {}, "handle_chinese_chars is false")
    cases.says("a mask beyond the tokens", "llada-moe", lambda f: None, {}, "mask_token_id is 156895, but there are")
    cases.no("limits of three layers of four", "bailing3", lambda f: configure(f, expert_swiglu_limit_list=[None, 7.0, 7.0]), "expert_swiglu_limit_list has 3 values")
    told("two tokens of an id", lambda j: j["model"]["vocab"].update({next(reversed(j["model"]["vocab"])): 5}), "1 id, such as 5, has two tokens")
    told("an added token of an id that is taken", lambda j: j["added_tokens"].append({**j["added_tokens"][0], "content": "<x>"}), "has two tokens")
    told("merges that make no token", lambda j: j["model"]["merges"].append("Q ZZ"), "1 merge, such as 'Q ZZ', makes no token")
    for kind in ({"type": "Replace", "pattern": {"String": "a"}, "content": "b"}, {"type": "NFKC"}, {"type": "NFD"}, {"type": "Strip"}, {"type": "Foo"}):
        told("normalizer " + kind["type"], lambda j, k=kind: j.update(normalizer={"type": "Sequence", "normalizers": [k]}), f"the normalizer {kind['type']} changes texts")
    blank, upper, lower = r"[^\r\n\p{L}\p{N}]?", r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
    tekken = f"{blank}{upper}*{lower}+|{blank}{upper}+{lower}*" + r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"

    def whole(ignore, word):
        def change(j):
            vocab = j["model"]["vocab"]
            token = next(t for t in reversed(vocab) if len(t) > 2 and not any(a["content"] == t for a in j["added_tokens"]))
            if word:
                vocab["\u0120zyxq"] = vocab.pop(token)
                j["model"]["merges"] = [m for m in j["model"]["merges"] if "".join(m if isinstance(m, list) else m.split(" ")) != token]
            j["model"].update(ignore_merges=ignore)
            if not ignore:
                j["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": tekken}, "behavior": "Isolated", "invert": False},
                                                                            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}]}
        return tokenizer(change)
    for ignore, told_as in ((True, "is true, but for tokenizer.ggml.pre 'qwen2' llama.cpp merges all words"), (False, "is not true, but for tokenizer.ggml.pre 'tekken' llama.cpp takes")):
        cases.same(f"ignore_merges {ignore}: a word that is a token", "qwen3", whole(ignore, True), told_as + "|1 token that no merge makes, such as '\u0120zyxq'", whole(ignore, True))
        cases.same(f"ignore_merges {ignore}: of no effect", "qwen3", whole(ignore, False), None, whole(ignore, False))
    told("normalizer NFC", lambda j: j.update(normalizer={"type": "NFC"}), None)
    told("dropout", lambda j: j["model"].update(dropout=.1), "model.dropout is 0.1")
    cases.no("tokenizer: a suffix of words", "llama", tokenizer(lambda j: j["model"].update(end_of_word_suffix="</w>")), "end_of_word_suffix is '</w>'")
    cases.no("tokenizer: a prefix within words", "llama", tokenizer(lambda j: j["model"].update(continuing_subword_prefix="##")), "continuing_subword_prefix is '##'")

    def without_begin(folder):
        settings = read(folder, "tokenizer_config.json")
        make_hf.write(folder.path, "tokenizer_config.json", {**settings, "add_bos_token": True, "bos_token": None})
        configure(folder, bos_token_id=None)
    cases.says("tokenizer: a begin that is not there", "qwen3", without_begin, {"tokenizer.ggml.add_bos_token": False}, "there is no bos_token: false is written")
    cases.says("tokenizer: a begin that config.json alone has", "qwen3", lambda f: (without_begin(f), configure(f, bos_token_id=300)), {"tokenizer.ggml.add_bos_token": True}, "config.json has bos_token_id 300")
    cases.says("ends: none", "qwen3", lambda f: without_end(f, eos_token_id=None), {"tokenizer.ggml.eos_token_id": None}, "no file names an end-of-text token")

    def beside(folder):
        make_hf.write(folder.path, "adapter_config.json", {"peft_type": "LORA"})
        make_hf.write(folder.path, "adapter_model.bin", {})
    cases.same("an adapter beside the model", "llama", beside, "a LoRA adapter is beside the model")
    told("a token that merges make is missing", lambda j: j["model"]["vocab"].pop("\u0120to"), "makes no token")


# ---- integers in words whose settings differ by module ----

def codes(t, bits, axis):
    """The small integers of words, along the axis in which these hold them"""
    words = np.moveaxis(np.frombuffer(t.data, "<u4").reshape(t.shape), axis, -1)
    return np.moveaxis((words[..., None] >> np.arange(0, 32, bits, dtype="<u4") & (1 << bits) - 1).reshape(*words.shape[:-1], -1), -1, axis)


def words_of(values, bits, axis):
    parts = np.moveaxis(values, axis, -1).astype("<u4")
    parts = parts.reshape(*parts.shape[:-1], -1, 32 // bits) << np.arange(0, 32, bits, dtype="<u4")
    return make_hf.store(np.ascontiguousarray(np.moveaxis(np.bitwise_or.reduce(parts, -1), -1, axis)).astype("<i4"), "I32")


def set_weights(folder, **values):
    config = read(folder, "config.json")
    groups = config["quantization_config"]["config_groups"]
    next(iter(groups.values()))["weights"].update(values)
    make_hf.write(folder.path, "config.json", config)


def one_scale_a_row(spread, **values):
    """The first scale of each row for all its columns; `spread`: written once for each group"""
    def to(folder):
        for name in [n for n in folder.t if n.endswith("weight_scale")]:
            first = floats(folder.t[name])[:, :1]
            folder.t[name] = make_hf.store(np.repeat(first, folder.t[name].shape[1], 1) if spread else first, folder.t[name].dtype)
        set_weights(folder, **values)
    return to


def down_of_8_bits(folder):
    """Down projections of 8 bits beside others of 4: the same numbers, by a second group of settings"""
    for name in [n for n in folder.t if n.endswith("down_proj.weight_packed")]:
        folder.t[name] = words_of(codes(folder.t[name], 4, 1) + 120, 8, 1)
    config = read(folder, "config.json")
    groups = config["quantization_config"]["config_groups"]
    first = next(iter(groups.values()))
    groups["group_down"] = {**first, "targets": ["re:.*down_proj$"], "weights": {**first["weights"], "num_bits": 8}}
    make_hf.write(folder.path, "config.json", config)


def groups_with_zeros(with_zeros, **others):
    """Two groups that differ in `symmetric` alone; no module has zero points"""
    def to(folder):
        config = read(folder, "config.json")
        groups = config["quantization_config"]["config_groups"]
        first = groups.pop(next(iter(groups)))
        groups["group_0"] = {**first, "targets": others.get("targets", ["Linear"])}
        groups["group_1"] = {**first, "targets": [with_zeros], "weights": {**first["weights"], "symmetric": False}}
        make_hf.write(folder.path, "config.json", config)
    return to


def gptq_down_of_8_bits(said):
    def to(folder):
        for name in [n for n in folder.t if n.endswith("down_proj.qweight")]:
            folder.t[name] = words_of(codes(folder.t[name], 4, 0), 8, 0)
            zeros = name.replace("qweight", "qzeros")
            folder.t[zeros] = words_of(codes(folder.t[zeros], 4, 1), 8, 1)
        quantization = read(folder, "config.json")["quantization_config"]
        configure(folder, quantization_config={**quantization, **({"dynamic": {"+:.*down.*": {"bits": 8}}} if said else {})})
    return to


def module_setting_cases(cases):
    packed = "llama-compressed-int4"
    for size in (None, -1):
        cases.same(f"packed integers, a scale for each row, group_size {size}", packed, one_scale_a_row(False, strategy="channel", group_size=size), None, one_scale_a_row(True))
    cases.no("packed integers, groups of -1", packed, one_scale_a_row(False, group_size=-1), "strategy channel")
    cases.same("packed integers of 8 bits beside others of 4", packed, down_of_8_bits)
    cases.no("packed integers without the zeros of their group", packed, groups_with_zeros("re:.*down_proj$"), "down_proj.weight_packed|symmetric: false")
    cases.no("packed integers without the zeros of all others", packed, groups_with_zeros("Linear", targets=["re:.*up_proj$"]), "weight_packed|symmetric: false")
    cases.same("packed integers, zeros of modules that are not there", packed, groups_with_zeros("re:.*nothing$"))
    cases.same("packed integers, zeros of others", packed, groups_with_zeros("Linear", targets=["re:.*proj$"]))
    whole = lambda **groups: {"quant_method": "compressed-tensors", "format": "int-quantized", "config_groups": {
        name: {"targets": [target], "weights": {"num_bits": 8, "type": "int", "strategy": "channel", "symmetric": is_even}} for name, (target, is_even) in groups.items()}}
    plain = lambda **groups: coded("weight_scale", SCALES["per channel"], dtype="I8", config=whole(**groups))
    cases.no("integers one by one without the zeros of their group", "qwen3", plain(a=("Linear", True), b=("re:.*down_proj$", False)), "down_proj.weight|symmetric: false")
    fp8_case(cases, "integers one by one, zeros of others", "weight_scale", "per channel", dtype="I8", config=whole(a=("re:.*proj$", True), b=("Linear", False)))
    for target in ("Embedding", "nothing", "re:^nothing$", "Qwen3Attention"):
        fp8_case(cases, f"integers one by one, zeros of {target}", "weight_scale", "per channel", dtype="I8", config=whole(a=(target, False), b=("Linear", True)))
    cases.same("GPTQ of 8 bits for some modules", "llama-gptq", gptq_down_of_8_bits(True))
    cases.no("GPTQ of 8 bits where config.json says 4", "llama-gptq", gptq_down_of_8_bits(False), "down_proj.qweight|does not fit")
    cases.no("AWQ by modelopt", "qwen3", lambda f: (coded("weight_scale", SCALES["per tensor"], config={"quant_method": "modelopt", "quant_algo": "NVFP4_AWQ"})(f), f.t.update({n[: -len("weight")] + "pre_quant_scale": make_hf.store(np.ones(f.t[n].shape[1], np.float32), "F32") for n in list(f.t) if n.endswith("down_proj.weight")})),
             "pre_quant_scale|it scales the inputs of its matrix (AWQ of modelopt)|16 bits")
    cases.no("fp8, two scales", "qwen3", lambda f: (coded("weight_scale_inv", SCALES["per tensor"], config={"quant_method": "fp8"})(f), f.t.update({n + "_scale": make_hf.store(np.float32([2]), "F32") for n in list(f.t) if n.endswith("q_proj.weight")})), "weight_scale_inv' and|are both beside it")


def doubtful_cases(cases):
    """What config.json asks for and the file will not have"""
    rotation = "rope_type is"
    for kind in ("foo", "dynamic", "linear", "yarn"):
        cases.same("rotation: " + kind, "llama", lambda f, k=kind: configure(f, rope_scaling={"rope_type": k}), f"{rotation} '{kind}'", lambda f: configure(f, rope_scaling=None))
    cases.same("rotation: of no type", "llama", lambda f: configure(f, rope_scaling={"factor": 4.0}), "has a factor of 4, but no rope_type", lambda f: configure(f, rope_scaling=None))
    llama3 = {"rope_type": "llama3", "factor": 8.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 8192}
    cases.same("rotation: of another architecture", "qwen3", lambda f: configure(f, rope_scaling=llama3), rotation + " 'llama3'", lambda f: configure(f, rope_scaling=None))
    cases.same("rotation: in capitals", "llama", lambda f: configure(f, rope_scaling={**read(f, "config.json")["rope_scaling"], "rope_type": "LLAMA3"}))
    cases.same("activation", "llama", lambda f: configure(f, hidden_act="relu"), "hidden_act is 'relu'")
    cases.same("activation: swish", "llama", lambda f: configure(f, hidden_act="swish"))
    for variant, key, value in (("cohere2", "sliding_window_pattern", 2), ("smollm3", "no_rope_layer_interval", 2), ("Qwen3-30B-A3B", "norm_topk_prob", False), ("qwen3", "use_sliding_window", True)):
        cases.same(f"fixed: {variant}: {key}", variant, lambda f, k=key, v=value: configure(f, **{k: v}), f"{key} is {int(value)}, but for the architecture")
    for variant in ("gpt-oss", "gemma2"):
        cases.same(f"fixed: {variant}: kinds of layers", variant, lambda f: configure(f, layer_types=["full_attention", "sliding_attention"]), "layer_types: layer 0 is 'full_attention'")
        cases.same(f"fixed: {variant}: the usual kinds of layers", variant, lambda f: configure(f, layer_types=["sliding_attention", "full_attention"]))
    cases.same("biases: none, of a class that has them", "Qwen2.5-0.5B-Instruct", without("_proj.bias"), "blk.0.attn_q.bias (model.layers.0.self_attn.q_proj.bias), nor another bias", without("_proj.bias"))
    cases.same("biases: none, though said", "llama", lambda f: configure(f, attention_bias=True), "says that queries, keys and values have a bias")
    cases.no("weights rotated with their inputs", "llama-compressed-int4", rotated("weight_input", "input"), "transform_config.v rotates input at run time")
    cases.same("weights rotated alone", "llama-compressed-int4", rotated("weight_input", "weight_output"))
    cases.same("tables of the rotation", "llama", with_arrays(model__rotary_emb__inv_freq=(16,), model__rotary_emb__original_inv_freq=(16,), model__layers__0__self_attn__rotary_emb__cos_cached=(8, 32)))
    cases.same("tables of two rotations", "gemma3", with_arrays(model__rotary_emb_local__inv_freq=(16,)), "eos_token_id is a list")


# ---- models that embed texts ----

POOLING = "sentence_transformers.models.Pooling"


def pooled(kind, **modes):
    """The files of a sentence transformer: `modes` are those of its pooling that are true."""
    def change(f):
        make_hf.write(f.path, "modules.json", [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}, {"idx": 1, "name": "1", "path": "1_Pooling", "type": kind}, *modes.pop("more", [])])
        os.makedirs(os.path.join(f.path, "1_Pooling"), exist_ok=True)
        make_hf.write(f.path, "1_Pooling/config.json", {"word_embedding_dimension": 128, **{"pooling_mode_" + m: m in modes for m in ("cls_token", "mean_tokens", "weightedmean_tokens", "lasttoken")}, **modes.get("config", {})})
    return change


def headless(prefix="model.", **values):
    """A model without its head; prefix: what is taken from the names' beginning."""
    def change(f):
        f.t = {(n[len(prefix):] if n.startswith(prefix) else n): t for n, t in f.t.items() if not n.startswith("lm_head")}
        configure(f, **{"tie_word_embeddings": False, **values})
    return change


def embedding_cases(cases):
    own = {"qwen3": "Qwen3", "Qwen2.5-0.5B-Instruct": "Qwen2", "llama": "Llama"}
    for variant in (*own, "phi3", "lfm2"):
        tied = lambda f, v=variant: (headless()(f), configure(f, tie_word_embeddings=True))
        cases.same(f"{variant}: the model inside alone", variant, headless(), "is added" if variant == "lfm2" else "the GGUF is for embeddings", tied)
        if variant in own:
            cases.says(f"{variant}: {own[variant]}Model", variant, headless("-", architectures=[own[variant] + "Model"]), {"general.architecture": own[variant].lower()}, "the GGUF is for embeddings")
    cases.no("qwen3: a head that is missing", "qwen3", headless("-"), "there is no tensor output.weight")
    for mode, number in (("lasttoken", 3), ("mean_tokens", 1), ("cls_token", 2)):
        cases.says(f"qwen3: pooling by {mode}", "qwen3", pooled(POOLING, **{mode: True}), {"pooling_type": number}, "!older releases")
    for variant in ("Qwen2.5-0.5B-Instruct", "llama", "gemma2"):
        cases.says(f"{variant}: pooling, and a dense head", variant, pooled(POOLING, lasttoken=True, more=[{"idx": 2, "path": "2_Dense", "type": "sentence_transformers.models.Dense"}]), {"pooling_type": 3},
                   "models.Dense is left out|" + ("!" if variant.startswith("Qwen") else "") + "older releases of llama.cpp")
    cases.says("qwen3: pooling that no file names", "qwen3", pooled(POOLING, weightedmean_tokens=True), {"pooling_type": None}, "1_Pooling/config.json|it pools by weightedmean_tokens,|no pooling_type")
    cases.says("qwen3: two poolings in one", "qwen3", pooled(POOLING, mean_tokens=True, cls_token=True), {"pooling_type": None}, "it pools by cls_token and mean_tokens,")
    cases.says("qwen3: pooling by sentence-transformers 5", "qwen3", pooled("sentence_transformers.sentence_transformer.modules.pooling.Pooling", config={"pooling_mode": "lasttoken"}), {"pooling_type": 3})
    cases.says("qwen3: pooling's file is missing", "qwen3", lambda f: (pooled(POOLING)(f), os.remove(os.path.join(f.path, "1_Pooling/config.json"))), {"pooling_type": None}, "1_Pooling/config.json|is missing")
    cases.says("qwen3: an embedding model whose head is missing", "qwen3", lambda f: (headless("-")(f), pooled(POOLING, lasttoken=True)(f)), {"pooling_type": 3}, "modules.json makes it an embedding model")


# ---- configs as transformers 5 saves them (tests/hf/hf_resaved tries all of them, with transformers) ----

HYBRID = {"mamba": "linear_attention", "attention": "full_attention"}


def resaved(*gone, words=(), **values):
    """Takes keys of config.json out, sets others, and changes words of layer_types."""
    def change(f):
        config = read(f, "config.json")
        part = config.get("text_config", config)
        for key in gone:
            part.pop(key)
        if words:
            part["layer_types"] = [dict(words).get(kind, kind) for kind in part["layer_types"]]
        part.update(values)
        make_hf.write(f.path, "config.json", config)
    return change


def resaved_cases(cases):
    def same(variant, change):
        cases.alike("saved by transformers 5: " + variant, variant, change)

    for variant in ("granitehybrid", "granitehybrid-attention", "granitehybrid-dense"):
        same(variant, resaved(words=HYBRID))
    same("nemotron-h", resaved("hybrid_override_pattern", "num_hidden_layers", num_experts_per_tok=2, n_routed_experts=8, n_shared_experts=1, n_group=1, topk_group=1, num_nextn_predict_layers=0,
                               mtp_layers_block_type=["full_attention", "moe"], layers_block_type=["linear_attention", "mlp", "linear_attention", "full_attention", "mlp", "linear_attention"]))
    same("nemotron-h-moe", resaved("hybrid_override_pattern", "mtp_hybrid_override_pattern", "num_hidden_layers", layers_block_type=["linear_attention", "moe", "full_attention", "moe"], mtp_layers_block_type=["full_attention", "moe"]))
    same("falcon", resaved(num_kv_heads=8))
    same("exaone", resaved("layer_norm_epsilon", "num_layers", rms_norm_eps=1e-5, num_hidden_layers=2))
    same("mimo2", resaved(sliding_window=41, rope_parameters={kind: {"partial_rotary_factor": 0.334, "rope_theta": base, "rope_type": "default"} for kind, base in (("full_attention", 5e6), ("sliding_attention", 1e4))}))
    rope = {"rope_type": "llama3", "factor": 2.0, "original_max_position_embeddings": 4096, "low_freq_factor": 1.0, "high_freq_factor": 32.0, "rope_theta": 5e6, "partial_rotary_factor": 0.5}
    same("step35", resaved("rope_theta", "rope_scaling", "partial_rotary_factors", "moe_num_experts", "moe_top_k", "moe_layers_enum", "num_attention_groups", n_routed_experts=4, num_experts_per_tok=2, num_key_value_heads=2,
                           num_sliding_attention_heads=6, layer_types=["full_attention"] + ["sliding_attention"] * 3, mtp_layer_types=["full_attention"], mlp_layer_types=["dense", "dense", "sparse", "sparse"],
                           rope_parameters={"full_attention": rope, "sliding_attention": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 1.0}}))
    same("deepseek4", resaved("compress_ratios", "num_hash_layers", "rope_scaling", compress_rates={"compressed_sparse_attention": 4, "heavily_compressed_attention": 128}, mlp_layer_types=["hash_moe", "moe", "moe"],
                              layer_types=["sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention"],
                              rope_parameters={"main": {"rope_theta": 10000, "rope_type": "default"}, "compress": {"attention_factor": 1.0, "beta_fast": 32, "beta_slow": 1, "factor": 16, "original_max_position_embeddings": 65536, "partial_rotary_factor": 0.5, "rope_theta": 160000, "rope_type": "yarn"}}))
    same("bailing3", resaved("max_position_embeddings", "n_group", "norm_topk_prob", "num_experts_per_tok", head_dim=8, linear_head_dim=16, model_max_length=4096, num_expert_group=1, moe_renormalize=True, num_experts_per_token=2))
    same("sarvam-moe", resaved("num_experts", "num_shared_experts", n_routed_experts=4, n_shared_experts=1))
    for word in ("indexed_attention", "qwen_sparse_attention"):
        cases.same("saved by transformers 5: qwen4exp, " + word, "qwen4exp", resaved(words={"full_attention": word}))
    same("dots3note", resaved("rope_theta", words={"full_attention": "indexed_attention"}, rope_parameters={"indexed_attention": {"rope_theta": 8000000, "rope_type": "default"}, "sliding_attention": {"rope_theta": 10000, "rope_type": "default"}}))
    same("eurobert", resaved(classifier_pooling="late"))


def defaults_cases(cases):
    """Keys that are left out, which the class has"""
    for variant, key in (("deepseek4", "swiglu_limit"), ("glm5-next", "swiglu_limit"), ("modern-bert", "local_rope_theta"), ("hrm-text", "prefix_lm"), ("mixtral", "num_experts_per_tok"), ("mixtral", "rms_norm_eps"),
                         ("cohere2", "layer_norm_eps"), ("glm4moe", "norm_topk_prob"), ("olmo3", "sliding_window"), ("gpt-oss", "max_position_embeddings"), ("gpt-oss", "rope_theta"), ("lfm2", "rope_theta"), ("apertus", "rope_theta"), ("ernie4-5", "rope_theta"), ("modern-bert", "global_rope_theta")):
        cases.alike(f"left out: {variant}: {key}", variant, resaved(key))
    for value, words in ((1.05, None), (1, None), ("x", "repetition_penalty is not a number")):
        cases.says(f"repetition_penalty: {value}", "qwen3", lambda f, v=value: make_hf.write(f.path, "generation_config.json", {"repetition_penalty": v}), {"general.sampling.penalty_repeat": value if value == 1.05 else None}, words)
    cases.says("repetition_penalty beside penalty_repeat", "qwen3", lambda f: make_hf.write(f.path, "generation_config.json", {"repetition_penalty": 1.5, "penalty_repeat": 1.25}), {"general.sampling.penalty_repeat": 1.25})


# ---- folders that are whole, in another shape ----

def one_file_and(shards, index):
    """One file with all, beside some of three shards of another save and, or, their index"""
    def change(f):
        names, of = list(f.t), [f"model-0000{i + 1}-of-00003.safetensors" for i in range(3)]
        f.parts = {"model.safetensors": None}
        f.beside = {of[i]: names[i::3] for i in range(shards)}
        f.index = {n: of[i % 3] for i, n in enumerate(names)} if index else None
    return change


def other_head(same):
    def change(f):
        f.t["lm_head.weight"] = f.t[next(n for n in f.t if n.endswith("embed_tokens.weight"))] if same else make_hf.store(make_hf.uniform("head", f.t[next(n for n in f.t if n.endswith("embed_tokens.weight"))].shape), "BF16")
        configure(f, tie_word_embeddings=None)
    return change


def shape_cases(cases):
    for shards, index in ((0, True), (2, True), (1, False), (3, False)):
        cases.same(f"one file beside {shards} of 3 shards{' and their index' if index else ''}", "qwen3", one_file_and(shards, index), "model.safetensors: is read as the whole model")
    for variant in ("gemma3", "cohere2"):
        cases.same(f"{variant}: an equal head, and no key of it", variant, other_head(True), "is a copy of the token embedding", lambda f: configure(f, tie_word_embeddings=None))
    cases.says("gemma3: another head, and no key of it", "gemma3", other_head(False), {}, "is used as the output head|transformers ties them")
    cases.no("gemma2: another head, and no key of it", "gemma2", other_head(False), "which gemma2 models use as their output matrix")
    for variant in ("gemma4", "gemma4-unified"):
        make = make_hf2.V2.get(variant) or hf_class_folders.FOLDERS[variant]
        cases.says(f"{variant}: global heads narrower than local ones", variant, lambda f, m=make: (f.t.clear(), m(f, hd=16, hds=32)), {"attention.key_length": 16, "attention.key_length_swa": 32})


# ---- two sources of one fact ----

def templates(file, told, name="chat_template.jinja"):
    """Chat templates of a file and of tokenizer_config.json"""
    def change(f):
        settings = read(f, "tokenizer_config.json")
        settings.pop("chat_template", None)
        if told is not None:
            settings["chat_template"] = told
        make_hf.write(f.path, "tokenizer_config.json", settings)
        with open(os.path.join(f.path, name), "w", encoding="utf-8") as out:
            out.write(json.dumps({"chat_template": file}) if name.endswith(".json") else file)
    return change


def kinds(f, keep):
    """Layers of these numbers alone, with what config.json has for each layer left as it was"""
    t = {}
    for new, old in enumerate(keep):
        t.update({re.sub(r"layers\.\d+\.", f"layers.{new}.", n): a for n, a in f.t.items() if f"layers.{old}." in n})
    f.t = {**{n: a for n, a in f.t.items() if "layers." not in n}, **t}
    configure(f, num_hidden_layers=len(keep))


def contradiction_cases(cases):
    key, other = "tokenizer.chat_template", "the chat template differs from tokenizer_config.json's"
    for name, told, words in (("another", "old", other), ("an empty one", "", other + ", which is empty"), ("a list", [{"name": "default", "template": "old"}], other), ("none", None, "!another than"), ("null", "null", "!another than"),
                              ("the same", "new\n", "!another than")):
        cases.says(f"templates: chat_template.jinja and {name}", "qwen3", templates("new", json.loads(told) if told == "null" else told), {key: "new\n" if told == "new\n" else "new"}, words)
    cases.says("templates: chat_template.json and another", "qwen3", templates("new", "old", "chat_template.json"), {key: "old"}, other)
    cases.says("templates: no tokenizer_config.json", "qwen3", lambda f: (templates("new", None)(f), os.remove(os.path.join(f.path, "tokenizer_config.json"))), {key: "new"})
    for variant, keep in (("gpt-oss-bf16", [0]), ("smollm3", [0, 1, 3]), ("afmoe", [0, 1, 3]), ("qwen3", [0])):
        old = (lambda f, v=variant: configure(f, layer_types=["full_attention"] * 2)) if variant == "qwen3" else (lambda f: None)
        cases.says(f"lists of other layers: {variant}", variant, lambda f, k=keep, o=old: (o(f), kinds(f, k)), {"block_count": len(keep)}, "layer_types has|entries, but the model has")
    whole = ["sliding_attention"] * 3 + ["full_attention"]
    for variant, name, right, wrong in (("smollm3", "no_rope_layers", [1, 1, 1, 0], [1, 1, 0, 1]), ("llama4", "no_rope_layers", [1, 1, 1, 0], [1, 1, 1, 1]), ("afmoe", "layer_types", whole, whole[::-1]),
                                        ("smallthinker", "rope_layout", [0, 1, 1, 1], [1, 1, 1, 1]), ("modern-bert", "layer_types", ["full_attention", "sliding_attention", "sliding_attention", "full_attention"], whole),
                                        ("llama4", "layer_types", ["chunked_attention"] * 3 + ["full_attention"], ["chunked_attention"] * 4)):
        for is_right in (True, False):
            cases.says(f"layers by number: {variant}: {name} {'right' if is_right else 'wrong'}", variant, resaved(**{name: right if is_right else wrong}), {"block_count": 4}, "!but for the architecture" if is_right else f"{name}: layer|but for the architecture")
    cases.says("layers by number: llama with windows", "llama", lambda f: configure(f, layer_types=["full_attention", "sliding_attention"]), {"block_count": 2}, "layer_types: layer 1 is 'sliding_attention'|no sliding window")


def cases(cases):
    embedding_cases(cases)
    shape_cases(cases)
    contradiction_cases(cases)
    defaults_cases(cases)
    resaved_cases(cases)
    name_cases(cases)
    quantized_cases(cases)
    mlx_cases(cases)
    other_cases(cases)
    doubtful_cases(cases)
    module_setting_cases(cases)
    tokenizer_cases(cases)
