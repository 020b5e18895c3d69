"""Cases of tests/hf/hostile_folders: config.json, tokenizers, README and the other texts."""
import json
import struct

HUGE = 4294967295
TOKENIZER = "tokenizer.json"


def key(name, value):
    return lambda m: m.set(**{name: value})


def without(name):
    return lambda m: m.unset(name)


def rope(**values):
    return lambda m: m.set(rope_scaling=values)


def tok(change):
    return lambda m: change(m.tokenizer)


def vocab(change):
    return lambda m: change(m.tokenizer["model"]["vocab"])


def added(*tokens):
    return lambda m: m.tokenizer.update(added_tokens=[{"id": i, "content": t, "special": True} for t, i in tokens])


def cut(*regexes):
    steps = [{"type": "Split", "pattern": {"Regex": r}, "behavior": "Isolated", "invert": False} for r in regexes]
    return lambda m: m.tokenizer.update(pre_tokenizer={"type": "Sequence", "pretokenizers": steps + [{"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}]})


# ---- tokenizer.model ----

def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def piece(text, score=-1.0, kind=1):
    return field(1, field(1, text) + b"\x15" + struct.pack("<f", score) + b"\x18" + varint(kind))


PIECES = [piece(b"<unk>", 0, 2), piece(b"<s>", 0, 3), piece(b"</s>", 0, 3)] + [piece(bytes([c])) for c in b"abcde"]


def pieces(data):
    def change(m):
        m.files[TOKENIZER] = None
        m.file("tokenizer.model", data if isinstance(data, bytes) else b"".join(data))
    return change


def hfft(change):
    """tokenizer.json of the sentencepiece kind"""
    def make(m):
        m.tokenizer.update(decoder={"type": "Sequence", "decoders": []})
        m.tokenizer["model"].update(byte_fallback=True)
        change(m)
    return make


# ---- config.json ----

def config_cases(yes, no):
    for name, words in (("architectures", "config.json|architectures"), ("num_hidden_layers", "config.json|num_hidden_layers"), ("hidden_size", "config.json|hidden_size"), ("num_attention_heads", "q_proj|heads")):
        no("without " + name, words, without(name))
    for value in ([], "LlamaForCausalLM", [5], [None], {}, None):
        no(f"architectures {value}", "config.json|architectures", key("architectures", value))
    no("architecture unknown", "config.json|LlamaForCausalLn|llama.cpp", key("architectures", ["LlamaForCausalLn"]))
    no("architecture of a megabyte", "config.json|XXXX", key("architectures", ["X" * 1000000]))
    no("architecture with an escape sequence", "config.json|model classes", key("architectures", ["\x1b]0;gone\x07"]))
    for name in ("num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads", "vocab_size"):
        for value in (-1, 1.5, "1", [1], {"a": 1}, True, 1 << 32, float("nan"), 1e308):
            no(f"{name} is {value!r:.8}", "config.json|" + name, key(name, value))
    no("a billion layers", "config.json|1000000000 layers", key("num_hidden_layers", 1000000000))
    no("4097 layers", "config.json|4097 layers", key("num_hidden_layers", 4097))
    no("no layers", "config.json", lambda m: (m.set(num_hidden_layers=0), m.drop("layers.")))
    no("more layers than there are", "config.json|layer 1 of 2", key("num_hidden_layers", 2))
    no("fewer layers than there are", "layer 1", lambda m: m.layer(1))
    for name, words in (("num_attention_heads", "q_proj|heads"), ("num_key_value_heads", "k_proj|heads")):
        for value in (0, 3, 7, 64, HUGE):
            no(f"{name} is {value}", words, key(name, value))
    yes("vocab_size is 0", key("vocab_size", 0))
    for value in (2, 7):
        no(f"vocab_size is {value}", f"tokenizer.json|expected below {value}", key("vocab_size", value))
    for value in (9, 100000, HUGE):
        no(f"vocab_size is {value}", "config.json|tokens", key("vocab_size", value))
    no("rms_norm_eps is text", "config.json|rms_norm_eps", key("rms_norm_eps", "1e-5"))
    no("rms_norm_eps is 1e308", "config.json|rms_norm_eps", key("rms_norm_eps", 1e308))
    no("rms_norm_eps is NaN", "config.json|rms_norm_eps", key("rms_norm_eps", float("nan")))
    no("max_position_embeddings is 2^40", "config.json|max_position_embeddings", key("max_position_embeddings", 1 << 40))
    no("head_dim is 2^32 - 1, with llama 3's rotation", "config.json|head_dim", lambda m: m.set(head_dim=HUGE, rope_scaling={"rope_type": "llama3"}))
    no("head_dim is 10^9, with llama 3's rotation", "config.json|head_dim", lambda m: m.set(head_dim=1000000000, rope_scaling={"rope_type": "llama3"}))
    no("head_dim is 0, with llama 3's rotation", "config.json|head_dim", lambda m: m.set(head_dim=0, rope_scaling={"rope_type": "llama3"}))
    no("head_dim is 1, with llama 3's rotation", "config.json|head_dim", lambda m: m.set(head_dim=1, rope_scaling={"rope_type": "llama3"}))
    yes("rotation with low = high", rope(rope_type="llama3", low_freq_factor=4, high_freq_factor=4, original_max_position_embeddings=64))
    no("rotation with a factor of 0", "config.json|factor", rope(rope_type="llama3", factor=0, original_max_position_embeddings=8))
    no("rotation with a negative base", "config.json|rope_theta", lambda m: m.set(rope_theta=-5.0, rope_scaling={"rope_type": "llama3"}))
    no("rotation with a base of 0", "config.json|rope_theta", lambda m: m.set(rope_theta=0, rope_scaling={"rope_type": "llama3"}))
    yes("rotation as published", rope(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192))
    no("rope_theta is text", "config.json|rope_theta", key("rope_theta", "10000"))
    no("rope_theta is 1e300", "config.json|rope_theta", key("rope_theta", 1e300))
    no("factor is text", "config.json|factor", rope(rope_type="linear", factor="2"))
    no("yarn without its context", "config.json|original_max_position_embeddings", rope(rope_type="yarn", factor=2.0))
    no("factor is a list", "config.json|factor", rope(rope_type="yarn", factor=[2], original_max_position_embeddings=8))
    no("mrope_section is a number", "config.json|mrope_section", rope(rope_type="default", mrope_section=3))
    no("mrope_section of 100 entries", "config.json|mrope_section", rope(rope_type="default", mrope_section=[1] * 100))
    yes("a rotation of an unknown kind", rope(rope_type="nonsense", factor=3))
    yes("text_config that is empty", key("text_config", {}))
    yes("text_config that is null", key("text_config", None))
    no("text_config with other layers", "layer 1 of 2", key("text_config", {"num_hidden_layers": 2}))
    no("text_config of text_config", "config.json", key("text_config", {"text_config": {"num_hidden_layers": 3}, "num_hidden_layers": [1]}))
    no("20,000 keys", "config.json|num_hidden_layers", lambda m: (m.unset("num_hidden_layers"), m.set(**{f"k{i}": i for i in range(20000)})))
    no("a key of a megabyte", "config.json|no such key", lambda m: (m.set(**{"k" * 1000000: 1}), m.unset("num_hidden_layers")))


# ---- tokenizers ----

def tokenizer_cases(yes, no):
    no("no tokenizer", TOKENIZER, lambda m: m.files.update({TOKENIZER: None}))
    no("tokenizer.json is empty", TOKENIZER, lambda m: m.file(TOKENIZER, b""))
    no("tokenizer.json is {}", TOKENIZER + "|vocab", lambda m: m.file(TOKENIZER, "{}"))
    no("tokenizer.json truncated", TOKENIZER + "|line", lambda m: m.file(TOKENIZER, json.dumps(m.tokenizer)[:200]))
    no("tokenizer.json too deep", TOKENIZER + "|deep", tok(lambda t: t.update(pre_tokenizer=nested(40))))
    no("tokenizer.json not UTF-8", TOKENIZER + "|line", lambda m: m.file(TOKENIZER, json.dumps(m.tokenizer).encode().replace(b'"ab"', b'"\xff"')))
    no("tokenizer.json has 20 million values", TOKENIZER + "|values", lambda m: m.file(TOKENIZER, '{"a":[' + "0," * 20000000 + "0]}"))
    for kind in ("Unigram", "WordPiece", "WordLevel", 5):
        no(f"a model of type {kind}", TOKENIZER + "|BPE", tok(lambda t, kind=kind: t["model"].update(type=kind)))
    no("a vocabulary that is a list", TOKENIZER + "|vocab", tok(lambda t: t["model"].update(vocab=[["a", 0]])))
    no("a vocabulary without tokens", TOKENIZER + "|vocab", tok(lambda t: t["model"].update(vocab={})))
    for value in (-1, 1.5, "1", None, [1], 1 << 32, 1 << 62):
        no(f"an id of {value}", TOKENIZER + "|id", vocab(lambda v, value=value: v.update(ab=value)))
    for value in (8, 1 << 20, HUGE):
        no(f"an id of {value}, behind the vocabulary", TOKENIZER + f'|"ab"|{value}', vocab(lambda v, value=value: v.update(ab=value)))
    for value in (8, 10000000, HUGE, -1, "8", None):
        no(f"an added token of id {value!r}", TOKENIZER, added(("<x>", value)))
    yes("an id twice", vocab(lambda v: v.update(ab=1)))
    yes("an added token over another", added(("<x>", 3)))
    no("an added token without text", TOKENIZER + "|content", tok(lambda t: t.update(added_tokens=[{"id": 1}])))
    no("added tokens that are numbers", TOKENIZER + "|content", tok(lambda t: t.update(added_tokens=[1, 2])))
    no("30,000 added tokens", TOKENIZER, added(*((f"<{i}>", i) for i in range(30000))))
    no("without vocab_size, an id of 10 million", TOKENIZER + "|ab|10000000", lambda m: (m.unset("vocab_size"), m.tokenizer["model"]["vocab"].update(ab=10000000)))
    no("fewer tokens than rows", "8 rows|7 tokens", lambda m: (m.unset("vocab_size"), m.tokenizer["model"]["vocab"].pop("\u0120")))
    no("vocab_size of 2 million tokens", "8 rows|2000000", key("vocab_size", 2000000))
    for merges in (["a"], [["a"]], [["a", "b", "c"]], [1], [None], [["a", 1]], {"a": "b"}, "a b"):
        (no if isinstance(merges, list) and merges != ["a"] else yes)(*([f"merges {merges}", TOKENIZER + "|merges"] if isinstance(merges, list) and merges != ["a"] else [f"merges {merges}"]),
            tok(lambda t, merges=merges: t["model"].update(merges=merges)))
    yes("merges of pieces that do not exist", tok(lambda t: t["model"].update(merges=["x y", "zz q"])))
    yes("a token of 100 kilobytes", vocab(lambda v: (v.pop("ab"), v.update({"x" * 100000: 5}))))
    yes("a token of a NUL byte", vocab(lambda v: (v.pop("ab"), v.update({"x": 5}))))
    for name, steps in (("an unknown step", {"type": "Whitespace"}), ("no step", None), ("a number", 5), ("steps that are no list", {"type": "Sequence", "pretokenizers": 5})):
        no("cut by " + name, TOKENIZER + "|cut", tok(lambda t, steps=steps: t.update(pre_tokenizer=steps)))
    for name, regex in (("backtracks for ever", "(x+x+)+y|(\\s*\\s*)*z|(.*)*(.*)*(.*)*Q"), ("matches nothing", "(?:)"), ("is not supported", "((((("), ("recurses", "(?R)?a|(a(?1)?b)*"),
                        ("counts far", "(((a{1,200}){1,200}){1,200}){1,200}"), ("is long", "a|" * 20000), ("has a callout", "(?C255)\\w+"), ("looks behind", "(?<=(?<!a)b+)c"),
                        ("changes limits", "(*LIMIT_MATCH=4000000000)(x+x+)+y"), ("has a NUL", "a\0b")):
        no("cut by an expression that " + name, TOKENIZER + "|cut", cut(regex))
    no("cut by 10,000 expressions", TOKENIZER + "|cut", cut(*[f"x{i}" for i in range(10000)]))
    for name in ("Lowercase", "StripAccents", "BertNormalizer"):
        no("normalizer " + name, TOKENIZER + "|" + name, tok(lambda t, name=name: t.update(normalizer={"type": "Sequence", "normalizers": [{"type": name}]})))
    no("pieces with a gap of 2 million", TOKENIZER, hfft(added(("<x>", 2000000))))
    no("pieces with a gap of one", TOKENIZER + "|id 8", hfft(added(("<x>", 9))))
    no("bos_token_id beyond 2^32", "config.json|bos_token_id", key("bos_token_id", 1 << 32))
    yes("pad_token_id -1", key("pad_token_id", -1))
    yes("eos_token_id that is a list", key("eos_token_id", [1, 2]))
    for value in (5, [5], {"a": 1}, [], [{"name": "x"}], [{"name": 5, "template": 6}], None):
        yes(f"chat_template {value}", lambda m, value=value: m.tokenizer_config.update(chat_template=value))
    yes("chat_template of 300 kilobytes", lambda m: m.tokenizer_config.update(chat_template="{{ x }}" * 40000))
    no("60,000 chat templates", "tokenizer_config.json|template", lambda m: m.tokenizer_config.update(chat_template=[{"name": f"t{i}", "template": "x"} for i in range(60000)]))
    no("tokenizer_config.json truncated", "tokenizer_config.json|line", lambda m: m.file("tokenizer_config.json", "{"))
    no("chat_template.jinja not UTF-8", "chat_template.jinja|UTF-8", lambda m: m.file("chat_template.jinja", b"\xff"))
    no("chat_template.json truncated", "chat_template.json|line", lambda m: m.file("chat_template.json", "{"))
    no("added_tokens_decoder with odd ids", "tokenizer_config.json|id", lambda m: (pieces(PIECES)(m), m.tokenizer_config.update(added_tokens_decoder={"-1": {"content": "x"}})))
    no("added_tokens_decoder with huge ids", "tokenizer_config.json|id", lambda m: (pieces(PIECES)(m), m.tokenizer_config.update(added_tokens_decoder={"9" * 30: {"content": "x"}})))
    no("merges.txt not UTF-8", "merges.txt|UTF-8", lambda m: (m.tokenizer["model"].pop("merges"), m.file("merges.txt", b"a \xff\n")))
    yes("merges.txt of odd lines", lambda m: (m.tokenizer["model"].pop("merges"), m.file("merges.txt", b"#v\n\n\0\na b c\na\n c d \r\n")))

    # tokenizer.model
    yes("pieces", pieces(PIECES))
    for name, data in (("empty", b""), ("one byte", b"\n"), ("a number without an end", b"\x08" + b"\xff" * 11), ("a number of 70 bits", b"\x08" + b"\xff" * 9 + b"\x7f"),
                       ("a piece longer than the rest", b"\n\xff\xff\xff\xff\x0f"), ("a length of 2^64 - 1", b"\n" + b"\xff" * 9 + b"\x01"), ("a group", b"\x0b"),
                       ("a field without a number", b"\0\0"), ("a piece that is not UTF-8", [field(1, field(1, b"\xff"))]), ("a score that is NaN", [piece(b"x", float("nan"))]),
                       ("a score that is infinite", [piece(b"x", float("inf"))]), ("a type of 7", [piece(b"x", 0, 7)]), ("a type of 0", [piece(b"x", 0, 0)]),
                       ("no pieces", field(2, b"\x18\x01")), ("truncated", b"".join(PIECES)[:-3]), ("JSON", b"{}")):
        no("tokenizer.model: " + name, "tokenizer.model", pieces(data))
    no("tokenizer.model is a pointer of Git LFS", "tokenizer.model|Git LFS", pieces(b"version https://git-lfs.github.com/spec/v1\n"))
    no("tokenizer.model of three million pieces", "tokenizer.model|pieces", pieces(b"\n\0" * 3000000))
    no("tokenizer.model of other pieces", "8 rows|5 tokens", lambda m: (pieces(PIECES[:5])(m), m.unset("vocab_size")))
    no("added_tokens.json with a negative id", "added_tokens.json|id", lambda m: (pieces(PIECES)(m), m.file("added_tokens.json", '{"x":-1}')))
    no("added_tokens.json with text as an id", "added_tokens.json|id", lambda m: (pieces(PIECES)(m), m.file("added_tokens.json", '{"x":"1"}')))


def nested(n):
    step = {"type": "Digits", "individual_digits": True}
    for _ in range(n):
        step = {"type": "Sequence", "pretokenizers": [step]}
    return step


# ---- README.md, generation_config.json ----

def card_cases(yes, no):
    for name, text in (("without an end", "---\nname: x\n"), ("empty", "---\n---\n"), ("30,000 dashes", "---\n" + "- x\n" * 30000 + "---\n"), ("NUL bytes", "---\nname: a\0b\n---\n"),
                       ("bad YAML", "---\n{[}: ]\n&a *b !!c |\n  - [[[[\nname: 'x\n---\n"), ("not UTF-8", b"---\nname: \xff\xfe\n---\n"), ("a key twice", "---\ntags:\n- a\ntags: b\n- c\ntags:\n---\n"),
                       ("a name of a megabyte", "---\nname: " + "x" * 1000000 + "\n---\n"), ("10,000 base models", "---\nbase_model:\n" + "- a/b-7B\n" * 10000 + "---\n"),
                       ("a base model of brackets", "---\nbase_model: [\"\\ud800\", 'a''b', [], {}, ]\n---\n"), ("20,000 tags", "---\ntags:\n" + "- x\n" * 20000 + "---\n"),
                       ("a line of quotes", "---\nname: " + "'" * 9999 + "\nlicense: " + '"' * 9999 + "\n---\n"), ("an alias of itself", "---\na: &a [*a, *a]\n---\n")):
        yes("README.md: " + name, lambda m, text=text: m.file("README.md", text))
    yes("generation_config.json that is none", lambda m: m.file("generation_config.json", "{"))
    yes("generation_config.json of nonsense", lambda m: m.file("generation_config.json", '{"temperature":1e300,"top_k":1e300,"top_p":[1],"sequence":5,"mirostat":-1.5}'))
    yes("a model of Qwen 3", lambda m: m.qwen3())
    no("a reranker of Qwen 3, by its config", "config.json|Qwen/Qwen3-Reranker-4B|reranker", lambda m: m.set(architectures=["Qwen3ForCausalLM"], _name_or_path="Qwen/Qwen3-Reranker-4B"))
    no("a reranker of Qwen 3, by its README", "config.json|Qwen3-Reranker|reranker", lambda m: (m.set(architectures=["Qwen3ForCausalLM"]), m.file("README.md", "---\nlicense: mit\n---\n\n# Qwen3-Reranker\n")))
    yes("a README of Qwen 3 that tells of rerankers", lambda m: (m.qwen3(), m.file("README.md", "# Qwen3\nLike Qwen3-Reranker.\n# Qwen3-Reranker\n")))
    yes("_name_or_path of nonsense", key("_name_or_path", "-" * 5000 + "7b1-" * 3000))
    yes("_name_or_path of many slashes", key("_name_or_path", "/" * 100))


def cases(yes, no):
    config_cases(yes, no)
    tokenizer_cases(yes, no)
    card_cases(yes, no)
