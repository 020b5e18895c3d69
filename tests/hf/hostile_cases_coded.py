"""Cases of tests/hf/hostile_folders: names and shapes of arrays, experts, weights that are quantized already."""
import struct

from hostile_cases_texts import PIECES, pieces
from hostile_model import FF, TOKENS, WIDTH, product, weights

P = "model.layers.0."
Q, DOWN, UP = P + "self_attn.q_proj.weight", P + "mlp.down_proj.weight", P + "mlp.up_proj.weight"
EXPERT = P + "block_sparse_moe.experts."


def with_experts(change=None, **sizes):
    def make(m):
        m.experts(**sizes)
        if change:
            change(m)
    return make


def name_cases(yes, no):
    yes("extra arrays that are left out", lambda m: (m.tensor(P + "self_attn.rotary_emb.inv_freq", [8], "F32"), m.tensor(P + "attention.masked_bias", [], "F32"),
                                                     m.tensor("vision_tower.patch_embed.weight", [4, 4]), m.tensor("multi_modal_projector.linear_1.weight", [4, 4])))
    yes("names with language_model in front", lambda m: m.tensors.update({("language_model." + n): m.tensors.pop(n) for n in list(m.tensors)}))
    yes("names with model.language_model", lambda m: m.tensors.update({n.replace("model.", "model.language_model.", 1): m.tensors.pop(n) for n in list(m.tensors)}))
    no("a name without a rule", "model.layers.0.strange.weight|llama", lambda m: m.tensor("model.layers.0.strange.weight", [4]))
    no("a name of 600 bytes", "name of 606 bytes", lambda m: m.tensor("model." + "x" * 600, [4]))
    no("a name of a megabyte", "name of 1000000 bytes", lambda m: m.tensor("x" * 1000000, [4]))
    no("an empty name", "unknown tensor", lambda m: m.tensor("", [4]))
    no("a layer of 30 digits", "unknown tensor", lambda m: m.tensor("model.layers." + "9" * 30 + ".mlp.up_proj.weight", [FF, WIDTH]))
    no("a layer twice, with zeros in front", "already", lambda m: m.tensor("model.layers.00.mlp.up_proj.weight", [FF, WIDTH]))
    no("two names with one result", "already", lambda m: m.tensor("language_model.model.norm.weight", [WIDTH]))
    no("no embedding", "config.json|embedding|embed_tokens", lambda m: m.drop("embed_tokens"))
    no("a head without an embedding", "config.json|embedding", lambda m: (m.set(tie_word_embeddings=False), m.drop("embed_tokens"), m.tensor("lm_head.weight", [TOKENS, WIDTH])))
    yes("a head of its own", lambda m: m.tensor("lm_head.weight", [TOKENS, WIDTH]))
    no("an embedding with more rows", "9 rows|8 tokens", lambda m: m.tensor("model.embed_tokens.weight", [9, WIDTH]))
    no("an embedding of one dimension", "rows|tokens", lambda m: m.tensor("model.embed_tokens.weight", [WIDTH]))
    for shape in ([], [1], [WIDTH * WIDTH], [WIDTH, WIDTH, 1], [1, WIDTH, WIDTH], [3, WIDTH], [2, 2, 2, 2, 2], [1] * 8):
        no(f"q_proj of {shape}", "q_proj", lambda m, shape=shape: m.tensor(Q, shape))
    no("q_proj whose heads are odd", "q_proj|heads", lambda m: m.tensor(Q, [60, WIDTH]))
    for value in (0x7F80, 0xFF80, 0x7FC0):
        no(f"a weight of {value:x}", "ffn_down|element 0 is|finite", lambda m, value=value: m.tensor(DOWN, [WIDTH, FF], "BF16", struct.pack("<H", value) * (WIDTH * FF)))
    for dtype in ("F64", "F32", "F16", "F8_E4M3", "F8_E5M2"):
        yes("weights of " + dtype, lambda m, dtype=dtype: [m.tensor(n, shape, dtype) for n, (_, shape, _) in list(m.tensors.items())])
    for dtype in ("I32", "I8", "U8"):
        no("a matrix of " + dtype, "down_proj|" + dtype, lambda m, dtype=dtype: m.tensor(DOWN, [WIDTH, FF], dtype))
    yes("arrays of all types", lambda m: [m.tensor(n, m.tensors[n][1], d) for n, d in ((Q, "F32"), (DOWN, "F16"), (UP, "F8_E4M3"))])


def expert_cases(yes, no):
    yes("experts", with_experts())
    yes("experts of several types", with_experts(lambda m: m.tensor(EXPERT + "1.w1.weight", [32, WIDTH], "F32")))
    no("an expert is missing", "ffn_gate_exps|number 1", with_experts(lambda m: m.drop("experts.1.w1")))
    no("one expert too many", "experts.2|2", with_experts(stored=3))
    no("experts with a count of 0", "experts.0", with_experts(lambda m: m.set(num_local_experts=0)))
    no("experts with a count of 65,536", "experts|65536", with_experts(lambda m: m.set(num_local_experts=65536)))
    no("experts with a count of 2^32 - 1", "config.json|4294967295 experts", with_experts(lambda m: m.set(num_local_experts=4294967295)))
    no("an expert that is a number", "experts.0.w1", with_experts(lambda m: m.tensor(EXPERT + "0.w1.weight", [])))
    no("all experts are numbers", "experts.0.w", with_experts(lambda m: [m.tensor(n, []) for n in list(m.tensors) if "experts." in n]))
    no("an expert of one dimension", "experts.", with_experts(lambda m: m.tensor(EXPERT + "0.w1.weight", [WIDTH])))
    no("an expert of another shape", "experts.1.w1|shape", with_experts(lambda m: m.tensor(EXPERT + "1.w1.weight", [33, WIDTH])))
    no("an expert twice", "is the same part", with_experts(lambda m: m.tensor(EXPERT + "01.w1.weight", [32, WIDTH])))
    no("2000 layers of 65,536 experts", "experts", many_experts)


def many_experts(m):
    m.drop("layers.")
    m.set(architectures=["MixtralForCausalLM"], num_local_experts=65536, num_hidden_layers=2000)
    for n in range(2000):
        for w in ("w1", "w2", "w3"):
            m.tensor(f"model.layers.{n}.block_sparse_moe.experts.0.{w}.weight", [1, 2])


# ---- quantized already ----

def settings(**values):
    return lambda m: m.set(quantization_config=values)


def fp8(shape, scale, dtype="F32", blocks=(16, 16), name=DOWN, **more):
    def make(m):
        more.setdefault("weight_block_size", list(blocks) if blocks else None)
        m.set(quantization_config={"quant_method": "fp8", **more})
        m.tensor(name, shape, "F8_E4M3")
        if scale is not None:
            m.tensor(name + "_scale_inv", scale, dtype, struct.pack("<f", 0.03) * product(scale))
    return make


def words(n, seed=0):
    return struct.pack("<i", seed) * n


def packed(bits=4, group=32, shape=(WIDTH, FF), store=None, scale=None, zero=None, noted=None, drop=(), dtype="I32", weights=None):
    def make(m):
        whole = {"num_bits": bits, "group_size": group, "strategy": "group", "type": "int", "symmetric": True} if weights is None else weights
        m.set(quantization_config={"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {"group_0": {"weights": whole}}})
        m.drop("down_proj")
        o, i = shape
        m.tensor(P + "mlp.down_proj.weight_packed", store or [o, -(-i // 8)], dtype)
        m.tensor(P + "mlp.down_proj.weight_scale", scale or [o, -(-i // 32)], "BF16")
        m.tensor(P + "mlp.down_proj.weight_shape", [2], "I64", struct.pack("<qq", *(noted or shape)))
        if zero:
            m.tensor(P + "mlp.down_proj.weight_zero_point", zero, "I32")
        m.drop(*drop)
    return make


def gptq(bits=4, weight=None, zeros=None, scales=None, groups=None, drop=(), **more):
    def make(m):
        m.set(quantization_config={"quant_method": "gptq", "bits": bits, "group_size": 32, **more})
        m.drop("down_proj")
        p = P + "mlp.down_proj."
        m.tensor(p + "qweight", weight or [FF // 8, WIDTH], "I32")
        m.tensor(p + "qzeros", zeros or [FF // 32, WIDTH // 8], "I32")
        m.tensor(p + "scales", scales or [FF // 32, WIDTH], "F16")
        m.tensor(p + "g_idx", [FF], "I32", b"".join(struct.pack("<i", i // 32) for i in range(FF)) if groups is None else groups)
        m.drop(*drop)
    return make


def coded_cases(yes, no):
    for method in ("awq", "bitsandbytes", "hqq", "torchao", "bitnet", "nonsense"):
        yes("only said: quant_method " + method, settings(quant_method=method))
        no("quant_method " + method, "down_proj|" + method, lambda m, method=method: (settings(quant_method=method)(m), m.tensor(DOWN, [WIDTH, FF], "U8")))
    no("hf_quant_config.json cut off", "hf_quant_config.json|line", lambda m: m.file("hf_quant_config.json", "{"))
    no("hf_quant_config.json of nonsense", "quantization", lambda m: m.file("hf_quant_config.json", '{"quantization":[5]}'))
    yes("quant_method null", settings(quant_method=None))
    yes("quantization_config null", lambda m: m.set(quantization_config=None))
    no("quantization_config of text", "config.json|quantization_config", lambda m: m.set(quantization_config="fp8"))
    no("quant_method is a number", "config.json|quant_method", settings(quant_method=8))

    yes("fp8", fp8([WIDTH, FF], [4, 6]))
    yes("fp8, one scale", fp8([WIDTH, FF], [], blocks=None))
    yes("fp8, a scale for each row", fp8([WIDTH, FF], [WIDTH], blocks=None))
    yes("fp8, cut blocks", fp8([WIDTH, FF], [2, 3], blocks=(40, 40)))
    for blocks in ([0, 16], [16, 0], [-16, 16], ["16", "16"], [1.5, 16]):
        no(f"fp8, blocks {blocks!r}", "config.json|block size", fp8([WIDTH, FF], [4, 6], blocks=blocks))
    for blocks in ([16], [16, 16, 16], 16, "16"):
        no(f"fp8, blocks {blocks!r}", "down_proj", fp8([WIDTH, FF], [4, 6], blocks=None, weight_block_size=blocks))
    for scale in ([6, 4], [24], [3, 6], [4, 7], [1], [0], [4, 6, 2]):
        no(f"fp8, scales of {scale}", "down_proj.weight|_scale_inv|shape", fp8([WIDTH, FF], scale))
    no("fp8, scales without a weight", "o_proj.weight2_scale_inv|no weight", lambda m: (fp8([WIDTH, FF], [4, 6])(m), m.tensor(P + "self_attn.o_proj.weight2_scale_inv", [1], "F32")))
    for value in ("nan", "inf", "-1"):
        no("fp8, one scale of " + value, "_scale_inv|whole tensor", lambda m, value=value: (fp8([WIDTH, FF], [], blocks=None)(m), m.tensor(DOWN + "_scale_inv", [], "F32", struct.pack("<f", float(value)))))
    no("fp8, a scale of -1", "_scale_inv|a scale of -1", lambda m: (fp8([WIDTH, FF], [4, 6])(m), m.tensor(DOWN + "_scale_inv", [4, 6], "F32", struct.pack("<f", -1) * 24)))
    no("fp8, a scale of NaN", "_scale_inv|a scale of nan", lambda m: (fp8([WIDTH, FF], [4, 6])(m), m.tensor(DOWN + "_scale_inv", [4, 6], "F32", struct.pack("<f", float("nan")) * 24)))
    for what, number in (("not a number", "nan"), ("infinite", "inf")):
        no(f"bitnet, a weight is {what}", "q_proj|not finite", bitnet(float(number)))
    yes("bitnet, made of floats", bitnet(0.5))
    no("fp8, a scale of infinity", "_scale_inv|a scale of inf", lambda m: (fp8([WIDTH, FF], [4, 6])(m), m.tensor(DOWN + "_scale_inv", [4, 6], "F32", struct.pack("<f", float("inf")) * 24)))
    yes("fp8, blocks of 2^40", fp8([WIDTH, FF], [1, 1], blocks=(1 << 40, 1 << 40)))

    for name, shape, scale in (("three dimensions", [4, 4, FF], [1]), ("scales of rows", [WIDTH // 4, FF], [WIDTH]), ("scales of integers", [WIDTH // 4, FF], [1]), ("no scale", [WIDTH // 4, FF], None)):
        no("bitnet, " + name, "down_proj", lambda m, shape=shape, scale=scale, dtype="I32" if "integers" in name else "BF16": (
            settings(quant_method="bitnet")(m), m.tensor(DOWN, shape, "U8"), scale and m.tensor(DOWN + "_scale", scale, dtype)))
    yes("bitnet", lambda m: (settings(quant_method="bitnet")(m), m.tensor(DOWN, [WIDTH // 4, FF], "U8"), m.tensor(DOWN + "_scale", [1], "F32", struct.pack("<f", 30))))
    no("bitnet, rows of another model", "q_proj|heads", lambda m: (settings(quant_method="bitnet")(m), m.tensor(Q, [3, WIDTH], "U8"), m.tensor(Q + "_scale", [1], "F32", struct.pack("<f", 30))))

    yes("packed", packed())
    yes("packed with zeros", packed(zero=[WIDTH // 8, 3]))
    no("packed, without the zeros that are said", "weight_packed|_zero_point", packed(weights={"num_bits": 4, "group_size": 32, "symmetric": False}))
    for value in (-2, 3, 2147483647):
        no(f"packed, a column of group {value}", f"weight_g_idx|input 0 is {value},", lambda m, value=value: (packed()(m), m.tensor(P + "mlp.down_proj.weight_g_idx", [FF], "I32", struct.pack("<i", value) * FF)))
    for bits in (0, 1, 3, 5, 16, 32, 64, -4, "4", 1 << 40):
        no(f"packed, {str(bits)[:6]} bits", "config.json|bits", packed(bits=bits))
    for group in (0, -1, None, "32", 1.5):
        no(f"packed, groups of {group}", "config.json|groups", packed(group=group))
    for name, made in (("shape of other rows", packed(noted=(WIDTH + 1, FF))), ("shape of other columns", packed(noted=(WIDTH, FF + 8))), ("shape of 0", packed(noted=(0, FF))),
                       ("a negative shape", packed(noted=(-1, FF))), ("a shape of 2^40", packed(noted=(1 << 40, 1 << 40))), ("scales of another shape", packed(scale=[WIDTH, 4])),
                       ("zeros of another shape", packed(zero=[WIDTH, 3])), ("no scale", packed(drop=("weight_scale",))), ("no shape", packed(drop=("weight_shape",))),
                       ("words of U8", packed(dtype="U8")), ("words in three dimensions", packed(store=[1, WIDTH, FF // 8])), ("no words", packed(drop=("weight_packed",)))):
        no("packed, " + name, "down_proj", made)
    no("packed, two groups of settings", "config.json|compressed-tensors", lambda m: (packed()(m), m.config["quantization_config"]["config_groups"].update(group_1={})))
    no("packed, settings of text", "config.json|compressed-tensors", lambda m: (packed()(m), m.config["quantization_config"].update(config_groups="all")))
    no("packed, no settings", "config.json|bits", packed(weights={}))
    no("compressed, another format", "config.json|nvfp4", lambda m: (settings(quant_method="compressed-tensors", format="nvfp4-pack-quantized")(m), m.tensor(DOWN, [WIDTH, FF], "U8")))

    yes("gptq", gptq())
    yes("gptq, groups in order", gptq(drop=("g_idx",)))
    yes("gptq, version 2", gptq(checkpoint_format="gptq_v2"))
    for bits in (0, 3, 5, 16, -4, "4", None):
        no(f"gptq, {bits} bits", "config.json|bits", gptq(bits=bits))
    for name, group in (("a negative group", -1), ("a group behind the last", 3), ("a group of 2^31 - 1", 2147483647)):
        no("gptq, " + name, f"g_idx|input 0 is {group},", gptq(groups=struct.pack("<i", group) * FF))
    for name, made in (("zeros of another shape", gptq(zeros=[3, 7])), ("scales of another width", gptq(scales=[3, WIDTH + 1])), ("scales of one dimension", gptq(scales=[3 * WIDTH])),
                       ("no scales", gptq(drop=("scales",))), ("no zeros", gptq(drop=("qzeros",))), ("no groups", gptq(drop=("g_idx",), desc_act=True)), ("no groups, and no size", gptq(drop=("g_idx",), group_size=None)), ("groups of 2^62", gptq(drop=("g_idx",), group_size=1 << 62)), ("no words", gptq(drop=("qweight",))),
                       ("words of three dimensions", gptq(weight=[1, FF // 8, WIDTH])), ("words of one row", gptq(weight=[1, WIDTH])), ("more scales than groups", gptq(scales=[4, WIDTH]))):
        no("gptq, " + name, "down_proj", made)

    no("compressed, one expert of MXFP4 beside one of BF16", "experts.0.w1|MXFP4|ffn_gate_exps", mixed_experts)
    # MXFP4 is what gpt-oss has, in experts that are stacked.
    for name, change in mxfp4_changes():
        no("mxfp4, " + name, "_blocks|MXFP4|dimensions", lambda m, change=change: (m.set(quantization_config={"quant_method": "mxfp4"}), change(m)))


def blocks(m, name, shape, scales=None):
    m.tensors.pop(name, None)
    m.tensor(name + "_blocks", shape + [16], "U8")
    m.tensor(name + "_scales", scales or shape, "U8")


def mixed_experts(m):
    m.experts(ff=32)
    m.set(quantization_config={"quant_method": "compressed-tensors", "format": "mxfp4-pack-quantized", "config_groups": {"a": {"weights": {"num_bits": 4}}}})
    name = EXPERT + "0.w1.weight"
    del m.tensors[name]
    m.tensor(name + "_packed", [32, WIDTH // 2], "U8")
    m.tensor(name + "_scale", [32, WIDTH // 32], "U8")


def mxfp4_changes():
    yield "a matrix of another model", lambda m: blocks(m, DOWN, [WIDTH, FF // 32])
    yield "a permuted matrix", lambda m: blocks(m, Q, [WIDTH, WIDTH // 32])
    yield "scales of another shape", lambda m: blocks(m, DOWN, [WIDTH, FF // 32], [WIDTH, 2])
    yield "experts beside others of floats", lambda m: (m.experts(ff=32), blocks(m, EXPERT + "0.w1.weight", [32, WIDTH]))
    yield "all experts", lambda m: (m.experts(ff=32), [blocks(m, n, m.tensors[n][1]) for n in list(m.tensors) if "experts." in n])
    yield "a norm", lambda m: blocks(m, "model.norm.weight", [2])
    yield "no scales", lambda m: (blocks(m, DOWN, [WIDTH, FF // 32]), m.drop("_scales"))


def bitnet(first):
    def change(m):
        pieces(PIECES)(m)
        m.set(architectures=["BitnetForCausalLM"], model_type="llama", hidden_act="silu")
        m.tensor("model.layers.0.self_attn.inner_attn_ln.weight", [WIDTH])
        m.tensor("model.layers.0.mlp.ffn_layernorm.weight", [FF])
        m.tensor(Q, [WIDTH, WIDTH], "F32", struct.pack("<f", first) + weights("F32", [WIDTH * WIDTH - 1], "q"))
    return change


def cases(yes, no):
    name_cases(yes, no)
    expert_cases(yes, no)
    coded_cases(yes, no)
