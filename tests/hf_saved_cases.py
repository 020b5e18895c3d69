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


def cases(cases):
    name_cases(cases)
