"""Cases of tests/hf/hostile_folders: which files are there, safetensors headers, and arrays."""
import json
import os

EMBED, NORM, Q, DOWN = "model.embed_tokens.weight", "model.norm.weight", "model.layers.0.self_attn.q_proj.weight", "model.layers.0.mlp.down_proj.weight"
ST, INDEX = "model.safetensors", "model.safetensors.index.json"
LFS = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 123456\n"


def halves(m):
    names = list(m.tensors)
    m.parts = {"model-00001-of-00002.safetensors": names[:5], "model-00002-of-00002.safetensors": names[5:]}
    return m.parts


def places(m, change):
    halves(m)
    m.index = change


def replace(m, old, new):
    m.header = lambda text: text.replace(old, new, 1)


def raw(m, header):
    """A header of its own, and no data."""
    m.header = lambda text: header
    m.length = lambda n, data: n


def fifo(path):
    os.mkfifo(path)


def loop(path):
    os.symlink(os.path.basename(path), path)


def link(to):
    return lambda path: os.symlink(to, path)


def moved(path):
    """A file that lies elsewhere and is linked, as the hub's cache has it."""
    blobs = path + ".blob"
    os.rename(path, blobs)
    os.symlink(os.path.basename(blobs), path)


def instead(m, name, how):
    """A thing of another kind in place of a file."""
    m.files[name] = None
    m.make(name, how)


def cases(yes, no):
    # ---- which files are there ----
    yes("as it should be", lambda m: None)
    yes("two parts", halves)
    yes("without an index", lambda m: (halves(m), m.files.update({INDEX: None})))
    yes("weights by a link, as in the hub's cache", lambda m: m.make(ST, moved))
    no("no config.json", "no config.json", lambda m: m.files.update({"config.json": None}))
    no("empty config.json", "config.json", lambda m: m.file("config.json", b""))
    no("config.json is truncated", "config.json|line ", lambda m: m.file("config.json", json.dumps(m.config)[:-9]))
    no("config.json is an array", "config.json|array|object", lambda m: m.file("config.json", "[1]"))
    no("config.json is not UTF-8", "config.json|line ", lambda m: m.file("config.json", b'{"a":"\xff\xfe"}'))
    no("config.json has a lone surrogate", "config.json|line ", lambda m: m.file("config.json", '{"a":"\\ud800"}'))
    no("config.json is a FIFO", "config.json|FIFO", lambda m: instead(m, "config.json", fifo))
    no("config.json is a folder", "config.json|directory", lambda m: instead(m, "config.json", os.mkdir))
    no("config.json is a device", "config.json|device", lambda m: instead(m, "config.json", link("/dev/zero")))
    no("config.json links to itself", "config.json|link", lambda m: instead(m, "config.json", loop))
    no("config.json is a pointer of Git LFS", "config.json|Git LFS", lambda m: m.file("config.json", LFS))
    no("config.json is 70 brackets deep", "config.json|deep", lambda m: m.file("config.json", '{"a":' + "[" * 69 + "]" * 69 + "}"))
    no("config.json is a million brackets", "config.json|deep", lambda m: m.file("config.json", "[" * 1000000))
    no("config.json has 2^63", "config.json|integer", lambda m: m.file("config.json", '{"architectures":["LlamaForCausalLM"],"num_hidden_layers":9223372036854775808}'))
    no("config.json has 1e999", "config.json|overflow", lambda m: m.file("config.json", '{"a":1e999}'))
    yes("config.json has NaN beside", lambda m: m.set(initializer_range=float("nan")))
    no("no weights", "no weights", nothing_at(ST))
    no("weights are a FIFO", ST + "|FIFO", lambda m: instead(m, ST, fifo))
    no("weights are a folder", ST + "|directory", lambda m: instead(m, ST, os.mkdir))
    no("weights are /dev/zero", ST + "|device", lambda m: instead(m, ST, link("/dev/zero")))
    no("weights link to themselves", ST + "|link", lambda m: instead(m, ST, loop))
    no("weights link to nothing", ST + "|link to a file that is not there", lambda m: instead(m, ST, link("../blobs/none")))
    no("weights are empty", ST + "|empty", lambda m: m.file(ST, b""))
    no("weights of seven bytes", ST, lambda m: m.file(ST, b"\2\0\0\0\0\0\0"))
    no("weights are a pointer of Git LFS", ST + "|Git LFS|pull", lambda m: m.file(ST, LFS))
    no("weights are a page of HTML", ST, lambda m: m.file(ST, "<!DOCTYPE html><html><body>404</body></html>"))
    for name, words in (("pytorch_model.bin", "pytorch_model|safetensors"), ("pytorch_model-00001-of-00002.bin", "pytorch_model|safetensors"),
                        ("consolidated.safetensors", "consolidated"), ("adapter_config.json", "LoRA|merge"), ("model.gguf", "GGUF"),
                        ("0123abcd.incomplete", "download")):
        no("only " + name, words, lambda m, name=name: (nothing_at(ST)(m), m.file(name, b"x")))
    no("adapter with its weights", "LoRA|merge", lambda m: (nothing_at(ST)(m), m.file("adapter_config.json", "{}"), m.file("adapter_model.safetensors", b"")))

    # ---- the index ----
    for name in ("../model.safetensors", "/etc/passwd", "a/b.safetensors", "a\\b.safetensors", "..", ".", ""):
        no(f"index names {name!r}", INDEX + "|weight_map|" + name, lambda m, name=name: places(m, lambda at: at.update({Q: name})))
    no("index names a number", INDEX + "|weight_map", lambda m: places(m, lambda at: at.update({Q: 5})))
    no("index has a NUL in a name", INDEX, lambda m: places(m, lambda at: at.update({Q: "model-00001-of-00002.safetensors\0x"})))
    no("index names a file that is missing", "model-9.safetensors|missing", lambda m: places(m, lambda at: at.update({Q: "model-9.safetensors"})))
    no("a part is missing", "model-00002-of-00002.safetensors|missing", lambda m: (halves(m), m.files.update({"model-00002-of-00002.safetensors": None})))
    no("index names a tensor that no part has", INDEX + "|model.extra", lambda m: places(m, lambda at: at.update({"model.extra": "model-00001-of-00002.safetensors"})))
    no("index lacks a tensor", Q + "|" + INDEX, lambda m: places(m, lambda at: at.pop(Q)))
    no("a tensor in two parts", Q + "|model-00001-of-00002.safetensors|model-00002-of-00002.safetensors",
       lambda m: [names.append(Q) for names in halves(m).values() if Q not in names])
    no("index without weight_map", INDEX + "|weight_map", lambda m: m.file(INDEX, "{}"))
    no("index with an array", INDEX + "|weight_map", lambda m: m.file(INDEX, '{"weight_map":[]}'))
    no("index that is empty", "weights", lambda m: m.file(INDEX, '{"weight_map":{}}'))
    no("index is a FIFO", INDEX + "|FIFO", lambda m: instead(m, INDEX, fifo))
    no("a part is truncated", "model-00002-of-00002.safetensors|truncated", lambda m: (halves(m), cut_last(m)))
    yes("index names the wrong part", lambda m: places(m, lambda at: at.update({Q: "model-00002-of-00002.safetensors", NORM: "model-00002-of-00002.safetensors"})))

    # ---- the header's length ----
    for name, n in (("0", 0), ("1", 1), ("beyond the file", 1 << 20), ("2^31", 1 << 31), ("2^63", 1 << 63), ("2^64 - 1", (1 << 64) - 1), ("2^64 - 8", (1 << 64) - 8)):
        no(f"header of {name} bytes", ST + f"|{n} bytes", lambda m, n=n: setattr(m, "length", lambda text, data: n))
    no("header one byte too long", ST, lambda m: setattr(m, "length", lambda text, data: text + 1))
    no("header one byte too short", ST, lambda m: setattr(m, "length", lambda text, data: text - 1))
    no("header is all that there is, and more", ST, lambda m: setattr(m, "length", lambda text, data: text + data + 1))
    no("file cut in the header", ST + "|truncated", lambda m: setattr(m, "cut", 50))
    no("file cut in the data", ST + "|truncated|download", lambda m: setattr(m, "cut", -3))
    yes("bytes behind the data", trailing)
    yes("spaces behind the header", lambda m: setattr(m, "header", lambda text: text + " " * 17))
    no("a header that begins with a space", ST + "|{", lambda m: setattr(m, "header", lambda text: " " + text))

    # ---- the header's JSON ----
    no("header that is an array", ST, lambda m: raw(m, "[]"))
    no("header without tensors", "embedding", lambda m: raw(m, "{}"))
    no("header of metadata only", "embedding", lambda m: raw(m, '{"__metadata__":{}}'))
    no("header with a byte 0xff", ST + "|line", lambda m: setattr(m, "header", lambda text: text.encode().replace(b"norm", b"n\xffrm", 1)))
    no("header with a lone surrogate", ST + "|line", lambda m: replace(m, "norm", "n\\udc00rm"))
    no("header with a NUL in a name", ST, lambda m: replace(m, "norm", "n\\u0000rm"))
    no("header with a name twice", ST + "|duplicate", lambda m: setattr(m, "header", lambda text: text[:-1] + ',"model.norm.weight":' + json.dumps({"dtype": "BF16", "shape": [0], "data_offsets": [0, 0]}) + "}"))
    no("header 100 brackets deep", ST + "|deep", lambda m: replace(m, "[64]", "[" * 100 + "]" * 100))
    no("header of a million brackets", ST + "|deep", lambda m: raw(m, '{"a":' + "[" * 1000000))
    no("header with 20 million values", ST + "|values", lambda m: raw(m, '{"a":[' + "0," * 20000000 + "0]}"))
    no("header with NaN as an offset", Q + "|data_offsets", lambda m: m.entry(Q, data_offsets=[0, float("nan")]))
    no("header with Infinity as a size", Q + "|shape", lambda m: m.entry(Q, shape=[64, float("inf")]))
    no("header with a comma too many", ST + "|line", lambda m: setattr(m, "header", lambda text: text[:-1] + ",}"))
    no("entry that is a number", NORM, lambda m: m.header_entry(NORM, "5"))
    no("entry that is null", NORM, lambda m: m.header_entry(NORM, "null"))

    # ---- one tensor ----
    for name, fields, words in (
            ("without dtype", {"dtype": None}, "dtype"), ("dtype is a number", {"dtype": 3}, "dtype"), ("dtype of another kind", {"dtype": "F4"}, "F4"),
            ("dtype in small letters", {"dtype": "bf16"}, "bf16"), ("U16", {"dtype": "U16"}, "U16"), ("U64", {"dtype": "U64"}, "U64"), ("C64", {"dtype": "C64"}, "C64"),
            ("another dtype's size", {"dtype": "F32"}, "8192 bytes|16384"), ("dtype with a NUL", {"dtype": "BF16\0"}, "dtype"),
            ("without shape", {"shape": None}, "shape"), ("shape is a number", {"shape": 64}, "shape"), ("a size of text", {"shape": ["64", 64]}, "shape"),
            ("a negative size", {"shape": [-64, 64]}, "shape"), ("two negative sizes", {"shape": [-64, -64]}, "shape"), ("a size with a fraction", {"shape": [64.0, 64]}, "shape"),
            ("nine dimensions", {"shape": [64, 64] + [1] * 7}, "9 dimensions"), ("a million dimensions", {"shape": [1] * 1000000}, "1000000 dimensions"),
            ("2^62 x 4", {"shape": [1 << 62, 4]}, "elements"), ("2^32 x 2^32", {"shape": [1 << 32, 1 << 32]}, "elements"),
            ("2^63 - 1", {"shape": [(1 << 63) - 1]}, "elements"), ("2^62 x 2^62 x 0", {"shape": [1 << 62, 1 << 62, 0]}, "elements"),
            ("2^31 x 2^31", {"shape": [1 << 31, 1 << 31]}, "elements"), ("2^30 x 2^30", {"shape": [1 << 30, 1 << 30]}, "8192 bytes|2305843009213693952"), ("one row less", {"shape": [63, 64]}, "8192 bytes|8064"),
            ("without offsets", {"data_offsets": None}, "data_offsets"), ("one offset", {"data_offsets": [0]}, "data_offsets"), ("three offsets", {"data_offsets": [0, 1, 2]}, "data_offsets"),
            ("offsets of text", {"data_offsets": ["0", "8192"]}, "data_offsets"), ("negative offsets", {"data_offsets": [-8192, 0]}, "data_offsets"),
            ("reversed offsets", {"data_offsets": [8192, 0]}, "data_offsets"), ("offsets beyond the file", {"data_offsets": [1 << 40, (1 << 40) + 8192]}, "truncated"),
            ("offsets near 2^63", {"data_offsets": [(1 << 63) - 8193, (1 << 63) - 1]}, "truncated"), ("offsets with fractions", {"data_offsets": [0.0, 8192.0]}, "data_offsets"),
            ("no elements", {"shape": [0, 64], "data_offsets": [0, 0]}, "no elements"),
            ("overlap", {"data_offsets": [0, 8192]}, "overlaps tensor"), ("overlap by a byte", None, "overlaps tensor")):
        def change(m, fields=fields):
            if fields is None:
                at = m.place(Q)
                fields = {"data_offsets": [at[0] - 1, at[1] - 1]}
            m.entry(Q, **fields)
        no("q_proj: " + name, ST + f"|'{Q}'|" + words, change)
    no("overlap around an empty tensor", "overlaps tensor", overlap_around_empty)
    yes("a hole in the data", lambda m: m.gap.update({Q: 1}))
    yes("unknown fields of a tensor", lambda m: m.entry(Q, extra={"a": [1, 2]}))


def nothing_at(name):
    return lambda m: m.files.update({name: None})


def cut_last(m):
    names = m.parts["model-00002-of-00002.safetensors"]
    m.file("model-00002-of-00002.safetensors", m.shard(names)[:-1])


def trailing(m):
    m.file(ST, m.shard(list(m.tensors)) + b"behind")


def overlap_around_empty(m):
    at = m.place(Q)
    m.tensor("empty", [0], "U8")
    m.entry("empty", data_offsets=[at[0] + 10, at[0] + 10])
    m.entry(NORM, data_offsets=[at[0] + 20, at[0] + 20 + 2 * 64])
