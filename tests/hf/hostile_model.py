"""A small whole folder, as Hugging Face has them, and ways to spoil it: what tests/hf/hostile_folders is made of."""
import json
import os
import random
import struct

SIZES = {"F64": 8, "I64": 8, "F32": 4, "I32": 4, "F16": 2, "BF16": 2, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1}
WIDTH, FF, HEADS, KV_HEADS, TOKENS = 64, 96, 4, 2, 8


def product(shape):
    n = 1
    for x in shape:
        n *= x
    return n


def weights(dtype, shape, seed):
    """Finite numbers of any type: random bytes without large exponents."""
    size, n = SIZES[dtype], product(shape)
    data = bytearray(random.Random(seed).randbytes(n * size))
    if dtype in ("BF16", "F32"):
        for i in range(size - 1, n * size, size):
            data[i] = 0x3D | data[i] & 0x80
    elif dtype == "F64":
        for i in range(7, n * 8, 8):
            data[i - 1], data[i] = 0, 0x3F | data[i] & 0x80
    elif dtype == "F16":
        for i in range(1, n * 2, 2):
            data[i] = 0x28 | data[i] & 0x83
    elif dtype.startswith("F8"):
        data = bytearray(x & 0xBF for x in data)
    return bytes(data)


class Folder:
    """Parts that a case changes before they are written."""

    def __init__(self):
        self.config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_hidden_layers": 1, "hidden_size": WIDTH,
                       "intermediate_size": FF, "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS,
                       "max_position_embeddings": 128, "rms_norm_eps": 1e-5, "vocab_size": TOKENS, "tie_word_embeddings": True}
        self.tokenizer = {"added_tokens": [], "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
                          "model": {"type": "BPE", "vocab": {t: i for i, t in enumerate(["a", "b", "c", "d", "e", "ab", "cd", "\u0120"])},
                                    "merges": ["a b", "c d"]}}
        self.tokenizer_config = {"tokenizer_class": "PreTrainedTokenizerFast"}
        self.tensors, self.fields, self.files, self.made = {}, {}, {}, []
        self.target = None      # files of the folder of the model that a draft drafts for
        self.parts = None       # several files: name -> names of tensors
        self.index = None       # changes weight_map
        self.header = None      # changes the text of the header
        self.length = None      # the first eight bytes
        self.cut = None         # bytes that the file is cut to (negative: from its end)
        self.gap = {}           # bytes left free before a tensor
        self.tensor("model.embed_tokens.weight", [TOKENS, WIDTH])
        self.tensor("model.norm.weight", [WIDTH])
        self.layer(0)

    def layer(self, n):
        p, kv = f"model.layers.{n}.", WIDTH // HEADS * KV_HEADS
        for name in ("input_layernorm", "post_attention_layernorm"):
            self.tensor(p + name + ".weight", [WIDTH])
        for name, rows, columns in (("q_proj", WIDTH, WIDTH), ("k_proj", kv, WIDTH), ("v_proj", kv, WIDTH), ("o_proj", WIDTH, WIDTH)):
            self.tensor(f"{p}self_attn.{name}.weight", [rows, columns])
        for name, rows, columns in (("gate_proj", FF, WIDTH), ("up_proj", FF, WIDTH), ("down_proj", WIDTH, FF)):
            self.tensor(f"{p}mlp.{name}.weight", [rows, columns])

    # ---- changes ----

    def qwen3(self):
        self.config["architectures"] = ["Qwen3ForCausalLM"]
        for name in ("q_norm", "k_norm"):
            self.tensor(f"model.layers.0.self_attn.{name}.weight", [WIDTH // HEADS])

    def tensor(self, name, shape, dtype="BF16", data=None):
        self.tensors[name] = (dtype, shape, weights(dtype, shape, name) if data is None else data)

    def drop(self, *parts):
        for name in [n for n in self.tensors if any(p in n for p in parts)]:
            del self.tensors[name]

    def entry(self, name, **fields):
        """Sets fields of a tensor's entry in the header; None takes one away."""
        self.fields.setdefault(name, {}).update(fields)

    def header_entry(self, name, text):
        """A text in place of a tensor's entry."""
        self.fields[name] = text

    def place(self, name):
        """Where a tensor's bytes are, in a folder of one file."""
        at = 0
        for n, (_, _, content) in self.tensors.items():
            at += self.gap.get(n, 0)
            if n == name:
                return at, at + len(content)
            at += len(content)
        return None

    def set(self, **keys):
        self.config.update(keys)

    def unset(self, *keys):
        for key in keys:
            del self.config[key]

    def file(self, name, data):
        self.files[name] = data.encode() if isinstance(data, str) else data

    def make(self, name, how):
        """how(path) makes what is no plain file in place of one, or beside them."""
        self.made.append((name, how))

    def experts(self, n=2, ff=32, stored=None):
        """Mixtral's experts in place of the feed-forward part."""
        self.drop("mlp.")
        self.set(architectures=["MixtralForCausalLM"], num_local_experts=n, num_experts_per_tok=1, intermediate_size=ff)
        self.tensor("model.layers.0.block_sparse_moe.gate.weight", [n, WIDTH])
        for e in range(n if stored is None else stored):
            for name, rows, columns in (("w1", ff, WIDTH), ("w3", ff, WIDTH), ("w2", WIDTH, ff)):
                self.tensor(f"model.layers.0.block_sparse_moe.experts.{e}.{name}.weight", [rows, columns])

    # ---- writing ----

    def shard(self, names):
        head, data = {"__metadata__": {"format": "pt"}}, b""
        for name in names:
            dtype, shape, content = self.tensors[name]
            data += bytes(self.gap.get(name, 0))
            head[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
            data += content
            changed = self.fields.get(name, {})
            if isinstance(changed, dict):
                head[name] = {k: v for k, v in {**head[name], **changed}.items() if v is not None}
        text = json.dumps(head)
        for name in [n for n in names if isinstance(self.fields.get(n), str)]:
            text = text.replace(json.dumps(name) + ": " + json.dumps(head[name]), json.dumps(name) + ": " + self.fields[name])
        text = self.header(text) if self.header else text
        text = text.encode() if isinstance(text, str) else text
        length = len(text) if self.length is None else self.length(len(text), len(data))
        return (struct.pack("<Q", length & (1 << 64) - 1) + text + data)[:self.cut]

    def write(self, path):
        os.mkdir(path)
        out = {"config.json": json.dumps(self.config).encode(), "tokenizer.json": json.dumps(self.tokenizer).encode(),
               "tokenizer_config.json": json.dumps(self.tokenizer_config).encode()}
        if self.parts:
            out.update({file: self.shard(names) for file, names in self.parts.items()})
            places = {name: file for file, names in self.parts.items() for name in names}
            if self.index:
                self.index(places)
            out["model.safetensors.index.json"] = json.dumps({"metadata": {}, "weight_map": places}).encode()
        else:
            out["model.safetensors"] = self.shard(list(self.tensors))
        out.update(self.files)
        for name, data in out.items():
            if data is not None:
                with open(os.path.join(path, name), "wb") as f:
                    f.write(data)
        for name, how in self.made:
            how(os.path.join(path, name))
