"""What makes golden data by llama.cpp's library: small models with all metadata that it asks for, and its quantizer.

The library is that of its release v0.5.0. tests/golden/README.md says how to get it.
"""
import ctypes
import math
import os
import pathlib
import struct
import subprocess

from peer_logits import ENCODERS, np  # or it tells that there is none

os.environ["GGML_NO_BACKTRACE"] = "1"  # which takes seconds with a debugger

FORMATS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
U32, F32, TEXT, LIST = 4, 6, 8, 9
TYPES = {"f32": 0, "f16": 1}
BLOCKS = {0: (1, 4), 1: (1, 2), 8: (32, 34), 12: (256, 144), 26: (1, 4), 27: (1, 8)}  # elements and bytes, of the types that models here have


class Header:
    """The header of a GGUF: pairs {key: (kind, value)} and tensors {name: (shape, type)}."""

    def __init__(self, pairs, tensors):
        self.pairs, self.tensors = pairs, tensors
        self.architecture = pairs["general.architecture"][1]

    @classmethod
    def read(cls, path):
        data, at = pathlib.Path(path).read_bytes(), 8

        def take(layout):
            nonlocal at
            values = struct.unpack_from("<" + layout, data, at)
            at += struct.calcsize("<" + layout)
            return values

        def text():
            (n,) = take("Q")
            return take(f"{n}s")[0].decode()

        def value(kind):
            if kind == TEXT:
                return text()
            if kind == LIST:
                inner, n = take("IQ")
                return inner, [value(inner) for _ in range(n)]
            return take(FORMATS[kind])[0]

        n_tensors, n_pairs = take("QQ")
        pairs, tensors = {}, {}
        for _ in range(n_pairs):
            key = text()
            (kind,) = take("I")
            pairs[key] = kind, value(kind)
        for _ in range(n_tensors):
            name = text()
            shape = take("%dQ" % take("I"))
            tensors[name] = list(shape), take("IQ")[0]
        return cls(pairs, tensors)

    def bytes(self):
        def text(t):
            return struct.pack("<Q", len(t.encode())) + t.encode()

        def value(kind, v):
            if kind == TEXT:
                return text(v)
            if kind == LIST:
                return struct.pack("<IQ", v[0], len(v[1])) + b"".join(value(v[0], x) for x in v[1])
            return struct.pack("<" + FORMATS[kind], v)

        head, at = [b"GGUF", struct.pack("<IQQ", 3, len(self.tensors), len(self.pairs))], 0
        for key, (kind, v) in self.pairs.items():
            head.append(text(key) + struct.pack("<I", kind) + value(kind, v))
        for name, (shape, kind) in self.tensors.items():
            head.append(text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, at))
            elements, size = BLOCKS[kind]
            at += -(-math.prod(shape) // elements * size // 32) * 32
        whole = b"".join(head)
        return whole + b"\0" * (-len(whole) % 32), at

    def write_hollow(self, path):
        """Writes a file whose weights are a hole: a dry run reads none of them."""
        head, size = self.bytes()
        with open(path, "wb") as f:
            f.write(head)
            f.truncate(len(head) + size)


def variants(build, folder):
    """Writes the models of tests/support/forward_models.c and yields the name and path of each."""
    subprocess.run([f"{build}/tests/forward_variants", folder], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for path in sorted(pathlib.Path(folder).glob("*.gguf")):
        if path.stem != "outliers":
            yield path.stem, path


def complete(header):
    """Adds the pairs that llama.cpp asks for, and gquant finds in the shapes of tensors or does not need."""
    def rows_of(part, dimension=1):
        return next((shape[dimension] for name, (shape, _) in header.tensors.items() if part in name and len(shape) > 1), None)

    arch = header.architecture + "."
    experts, shared = rows_of("ffn_down_exps", 0), rows_of("ffn_down_shexp", 0)
    more = {"context_length": 256, "vocab_size": rows_of("token_embd.weight"), "feed_forward_length": rows_of(".ffn_up.") or 0,
            "expert_feed_forward_length": experts, "expert_shared_feed_forward_length": shared,
            "expert_shared_count": shared // experts if shared and experts else 0,
            "expert_used_count": 1 if experts and arch + "expert_count" in header.pairs else None,
            "interleave_moe_layer_step": 1, "moe_every_n_layers": 1, "moe_latent_size": rows_of("ffn_latent_down"),
            "attention.q_lora_rank": rows_of("attn_q_a.weight"), "attention.kv_lora_rank": rows_of("attn_kv_a_mqa"),
            "attention.key_length_mla": header.pairs.get(arch + "attention.key_length", (0, None))[1],
            "attention.value_length_mla": header.pairs.get(arch + "attention.value_length", (0, None))[1], "ssm.group_count": 0}
    for key, value in more.items():
        if value is not None:
            header.pairs.setdefault(arch + key, (U32, value))
    header.pairs.setdefault(arch + "attention.layer_norm_epsilon", (F32, 1e-5))  # never its sister: that would say which norm it is
    header.pairs.setdefault("tokenizer.ggml.model", (TEXT, "none"))
    if header.architecture in ENCODERS:
        header.pairs.setdefault("tokenizer.ggml.token_type_count", (U32, 2))
    return header


class Params(ctypes.Structure):  # llama_model_quantize_params
    _fields_ = [("threads", ctypes.c_int), ("file_type", ctypes.c_int), ("output_type", ctypes.c_int), ("embedding_type", ctypes.c_int),
                *((name, ctypes.c_bool) for name in ("requantize", "quantize_output", "only_copy", "pure", "keep_split", "dry_run")),
                *((name, ctypes.c_void_p) for name in ("imatrix", "pairs", "tensor_types", "prune_layers")), ("room", ctypes.c_char * 256)]


class Importance(ctypes.Structure):  # llama_model_imatrix_data
    _fields_ = [("name", ctypes.c_char_p), ("data", ctypes.POINTER(ctypes.c_float)), ("size", ctypes.c_size_t)]


class TypeOverride(ctypes.Structure):  # llama_model_tensor_override
    _fields_ = [("pattern", ctypes.c_char_p), ("type", ctypes.c_int)]


def load(folder):
    """Returns llama.cpp's library, whose files find each other in their folder."""
    for name in "libggml-base.so", "libggml.v0.5.0.so", "libllama.v0.5.0.so":
        library = ctypes.CDLL(os.path.join(folder, name), mode=ctypes.RTLD_GLOBAL)
    return library


class Quantizer:
    """llama.cpp's own quantizer, which only says what it would do."""

    def __init__(self, folder):
        self.library, self.lines = load(folder), []
        self.hear = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(
            lambda _level, text, _user: self.lines.append(text.decode(errors="replace")))
        self.library.llama_log_set(self.hear, None)
        self.library.llama_model_quantize_default_params.restype = Params
        value = (ctypes.c_float * 1)(1)
        self.importance = (Importance * 2)(Importance(b"output.weight", value, 1))  # that there is one is all that counts

    def run(self, path, file_type, imatrix=False, tensor_types=(), **members):
        """Returns what it printed; fails where it does."""
        p = self.library.llama_model_quantize_default_params()
        overrides = (TypeOverride * (len(tensor_types) + 1))(*(TypeOverride(pattern.encode(), kind) for pattern, kind in tensor_types))
        p.threads, p.file_type, p.dry_run = 1, file_type, True
        if imatrix:
            p.imatrix = ctypes.addressof(self.importance)
        if tensor_types:
            p.tensor_types = ctypes.addressof(overrides)
        for name, value in members.items():
            setattr(p, name, value)
        self.lines.clear()
        if self.library.llama_model_quantize(str(path).encode(), (str(path) + ".out").encode(), ctypes.byref(p)):
            raise RuntimeError(f"{path}: llama.cpp fails: {''.join(self.lines[-3:])}")
        return "".join(self.lines)


class ContextParams(ctypes.Structure):  # llama_context_params; what is not named is as the library sets it
    _fields_ = [("context", ctypes.c_uint32), ("batch", ctypes.c_uint32), ("ubatch", ctypes.c_uint32), ("more", ctypes.c_uint32 * 8),
                ("pooling", ctypes.c_int32), ("attention", ctypes.c_int32), ("flash_attention", ctypes.c_int32), ("rope", ctypes.c_uint32 * 8), ("on_tensor", ctypes.c_void_p), ("user", ctypes.c_void_p),
                ("key_type", ctypes.c_uint32), ("value_type", ctypes.c_uint32), ("room", ctypes.c_char * 912)]


class ModelParams(ctypes.Structure):  # llama_model_params
    _fields_ = [("room", ctypes.c_char * 1024)]


class Batch(ctypes.Structure):  # llama_batch
    _fields_ = [("n", ctypes.c_int32), ("tokens", ctypes.POINTER(ctypes.c_int32)), ("states", ctypes.c_void_p),
                ("positions", ctypes.POINTER(ctypes.c_int32)), ("n_sequences", ctypes.POINTER(ctypes.c_int32)),
                ("sequences", ctypes.POINTER(ctypes.POINTER(ctypes.c_int32))), ("wanted", ctypes.POINTER(ctypes.c_int8))]


class Tensor(ctypes.Structure):  # ggml_tensor
    pass


Tensor._fields_ = [("type", ctypes.c_int32), ("buffer", ctypes.c_void_p), ("ne", ctypes.c_int64 * 4), ("nb", ctypes.c_size_t * 4),
                   ("op", ctypes.c_int32), ("op_params", ctypes.c_int32 * 16), ("flags", ctypes.c_int32),
                   ("sources", ctypes.POINTER(Tensor) * 10), ("view", ctypes.c_void_p), ("view_offset", ctypes.c_size_t),
                   ("data", ctypes.c_void_p), ("name", ctypes.c_char * 64)]


class Runner:
    """Runs models by llama.cpp's library: keys and values in F32, no flash attention, one thread."""

    def __init__(self, folder):
        self.library = load(folder)
        returns = {"llama_model_default_params": ModelParams, "llama_context_default_params": ContextParams, "llama_batch_init": Batch,
                   "llama_model_load_from_file": ctypes.c_void_p, "llama_model_get_vocab": ctypes.c_void_p, "llama_init_from_model": ctypes.c_void_p, "llama_get_memory": ctypes.c_void_p,
                   "llama_get_logits_ith": ctypes.POINTER(ctypes.c_float), "llama_get_embeddings_ith": ctypes.POINTER(ctypes.c_float),
                   "llama_get_embeddings_seq": ctypes.POINTER(ctypes.c_float), "ggml_op_desc": ctypes.c_char_p}
        for name, kind in returns.items():
            getattr(self.library, name).restype = kind
        self.said = []
        self.hear = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(
            lambda level, text, _user: self.said.append(text.decode(errors="replace")) if level == 4 else None)
        self.watch = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.POINTER(Tensor), ctypes.c_bool, ctypes.c_void_p)(self.on_tensor)
        self.library.llama_log_set(self.hear, None)
        self.library.ggml_backend_load_all_from_path(folder.encode())

    def on_tensor(self, tensor, asks, _user):
        """Adds up the squares of what a weight is multiplied with."""
        t = tensor.contents
        op = self.library.ggml_op_desc(tensor)
        if op not in (b"MUL_MAT", b"MUL_MAT_ID") or b".weight" not in t.sources[0].contents.name:
            return not asks
        if asks:
            return True
        weight, x = t.sources[0].contents, t.sources[1].contents
        shape, strides = tuple(x.ne), tuple(x.nb)
        size = sum((n - 1) * s for n, s in zip(shape, strides)) + 4
        values = np.ndarray(shape, "<f4", (ctypes.c_char * size).from_address(x.data), 0, strides).astype("f8")
        rows = shape[1] * shape[2] * shape[3]
        if op == b"MUL_MAT_ID":  # each token's row, or its rows, go to as many experts as it has
            used = t.sources[2].contents.ne[0]
            values, rows = values if shape[1] == used else np.repeat(values, used, 1), used * shape[2]
        count, total = self.fed.get(weight.name.decode(), (0, 0.0))
        self.fed[weight.name.decode()] = count + rows, total + float((values * values).sum())
        return True

    def run(self, path, ids, window, embeds=False, pooling=0, start=None):
        """Returns logits [token][id] of ids cut into windows, and {weight: (rows that flowed into its matrices, sum of their squares)}.

        embeds: of an encoder, in place of logits the states behind the last layer [token][feature], or with pooling -1 what the model pools
        them to [window][feature].

        start: of an encoder with a decoder, the token that the decoder begins with: it reads the second half of a window with this in place of its
        first token. Logits are those of these tokens, and what the encoder gives for the others is returned as well."""
        lib, self.fed = self.library, {}
        model = lib.llama_model_load_from_file(str(path).encode(), lib.llama_model_default_params())
        if not model:
            raise RuntimeError(self.said[0].strip() if self.said else "cannot be loaded")
        p = lib.llama_context_default_params()
        if (p.pooling, p.flash_attention, p.key_type, p.value_type) != (-1, -1, 1, 1):
            raise RuntimeError("another release's parameters")
        p.context = p.batch = p.ubatch = window
        p.flash_attention = p.key_type = p.value_type = 0
        p.pooling = pooling if embeds else -1
        p.on_tensor = ctypes.cast(self.watch, ctypes.c_void_p)
        context = ctypes.c_void_p(lib.llama_init_from_model(ctypes.c_void_p(model), p))
        lib.llama_set_n_threads(context, 1, 1)
        lib.llama_set_embeddings(context, embeds)
        vocabulary = lib.llama_vocab_n_tokens(ctypes.c_void_p(lib.llama_model_get_vocab(ctypes.c_void_p(model))))
        batch, logits, states = lib.llama_batch_init(window, 0, 1), [], []

        def fill(tokens):
            batch.n = len(tokens)
            for i, token in enumerate(tokens):
                batch.tokens[i], batch.positions[i], batch.n_sequences[i], batch.sequences[i][0], batch.wanted[i] = int(token), i, 1, 0, 1

        if start is not None:
            width, half = lib.llama_model_n_embd(ctypes.c_void_p(model)), window // 2
            for first in range(0, len(ids), window):
                lib.llama_memory_clear(ctypes.c_void_p(lib.llama_get_memory(context)), True)
                lib.llama_set_embeddings(context, True)
                fill(ids[first:first + half])
                if lib.llama_encode(context, batch):
                    raise RuntimeError("cannot be encoded")
                states += [np.ctypeslib.as_array(lib.llama_get_embeddings_ith(context, i), (width,)).astype("f8") for i in range(half)]
                lib.llama_set_embeddings(context, False)
                fill([start, *ids[first + half + 1:first + 2 * half]])
                if lib.llama_decode(context, batch):
                    raise RuntimeError("cannot be decoded")
                logits += [np.ctypeslib.as_array(lib.llama_get_logits_ith(context, i), (vocabulary,)).astype("f8") for i in range(half)]
            return np.array(logits), self.fed, np.array(states)
        for first in range(0, len(ids), window):
            fill(ids[first:first + window])
            lib.llama_memory_clear(ctypes.c_void_p(lib.llama_get_memory(context)), True)
            encodes = embeds and not lib.llama_model_is_hybrid(ctypes.c_void_p(model))  # layers with a state have it in a cache
            if (lib.llama_encode if encodes else lib.llama_decode)(context, batch):
                raise RuntimeError("cannot be run")
            of, n = (lib.llama_get_embeddings_ith, lib.llama_model_n_embd_out(ctypes.c_void_p(model))) if embeds else (lib.llama_get_logits_ith, vocabulary)
            whole = embeds and pooling == -1
            found = [lib.llama_get_embeddings_seq(context, 0)] if whole else [of(context, i) for i in range(window)]
            logits += [np.ctypeslib.as_array(x, (n,)).astype("f8") for x in found]
        return np.array(logits), self.fed
