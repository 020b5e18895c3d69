"""Cases of tests/hf/hostile_folders: drafts, whose vocabulary is in the folder of the model that they draft for."""
import json
import struct

from hostile_model import FF, HEADS, KV_HEADS, TOKENS, WIDTH

HEAD, OWN = WIDTH // HEADS, 4


def ids(*offsets):
    return struct.pack(f"<{len(offsets)}q", *offsets)


def eagle(m):
    """An EAGLE-3 draft of OWN tokens, for the folder as it was."""
    m.target = {"config.json": json.dumps(dict(m.config, num_hidden_layers=8)), "tokenizer.json": json.dumps(m.tokenizer),
                "tokenizer_config.json": json.dumps(m.tokenizer_config)}
    m.config.update(architectures=["LlamaForCausalLMEagle3"], draft_vocab_size=OWN, tie_word_embeddings=False)
    m.files.update({"tokenizer.json": None, "tokenizer_config.json": None})
    m.tensors.clear()
    for name, *shape in (("fc.weight", WIDTH, 3 * WIDTH), ("norm.weight", WIDTH), ("lm_head.weight", OWN, WIDTH)):
        m.tensor(name, shape)
    for name, *shape in (("hidden_norm", WIDTH), ("input_layernorm", WIDTH), ("post_attention_layernorm", WIDTH), ("self_attn.q_proj", WIDTH, 2 * WIDTH),
                         ("self_attn.k_proj", KV_HEADS * HEAD, 2 * WIDTH), ("self_attn.v_proj", KV_HEADS * HEAD, 2 * WIDTH), ("self_attn.o_proj", WIDTH, WIDTH),
                         ("mlp.gate_proj", FF, WIDTH), ("mlp.up_proj", FF, WIDTH), ("mlp.down_proj", WIDTH, FF)):
        m.tensor(f"midlayer.{name}.weight", shape)
    m.tensor("d2t", [OWN], "I64", ids(0, 0, 1, 1))
    m.tensor("t2d", [TOKENS], "BOOL", bytes(TOKENS))


def dflash(m):
    """A DFlash draft of one layer."""
    eagle(m)
    m.config.update(architectures=["DFlashDraftModel"], num_hidden_layers=1, dflash_config={"mask_token_id": 7, "target_layer_ids": [1, 3]}, draft_vocab_size=None)
    m.tensors = {name.replace("midlayer.", "layers.0."): t for name, t in m.tensors.items()}
    m.drop("d2t", "t2d", "lm_head", "hidden_norm")
    m.tensor("hidden_norm.weight", [WIDTH]), m.tensor("fc.weight", [WIDTH, 2 * WIDTH])
    for x in ("q_norm", "k_norm"):
        m.tensor(f"layers.0.self_attn.{x}.weight", [HEAD])
    for x, rows in (("q", HEADS), ("k", KV_HEADS), ("v", KV_HEADS)):
        m.tensor(f"layers.0.self_attn.{x}_proj.weight", [rows * HEAD, WIDTH])


def then(make, *changes):
    def change(m):
        make(m)
        for c in changes:
            c(m)
    return change


def target_config(**keys):
    def change(m):
        config = {k: v for k, v in {**json.loads(m.target["config.json"]), **keys}.items() if v is not None}
        m.target["config.json"] = json.dumps(config)
    return change


def cases(yes, no):
    yes("draft: as it should be", eagle)
    yes("draft: DFlash as it should be", dflash)
    yes("draft: ids of 32 bits", then(eagle, lambda m: m.tensor("d2t", [OWN], "I32", struct.pack("<4i", 0, 0, 1, 1))))
    yes("draft: a target of a class that is not known", then(eagle, target_config(architectures=["NoSuchForCausalLM"])))

    # ---- d2t ----
    no("draft: no ids", "missing tensor d2t|which such a model has", then(eagle, lambda m: m.drop("d2t")))
    no("draft: ids as floats", "d2t|F64|expected I64 or I32", then(eagle, lambda m: m.tensor("d2t", [OWN], "F64")))
    no("draft: too few ids", "d2t|3 elements, expected 4", then(eagle, lambda m: m.tensor("d2t", [OWN - 1], "I64", ids(0, 0, 1))))
    no("draft: no elements of ids", "d2t|no elements", then(eagle, lambda m: m.tensor("d2t", [0], "I64", b"")))
    no("draft: more ids than tokens", "d2t|expected",
       then(eagle, lambda m: (m.tensor("d2t", [64], "I64", ids(*[0] * 64)), m.config.update(draft_vocab_size=64))))
    no("draft: an id twice", "d2t|two tokens of the draft model map to token 1", then(eagle, lambda m: m.tensor("d2t", [OWN], "I64", ids(0, 0, -1, 1))))
    for name, offset in (("below zero", -1), ("beyond the vocabulary", TOKENS), ("that wraps", 2**63 - 1), ("the least there is", -2**63)):
        no(f"draft: an id {name}", "d2t|one of the target's 8", then(eagle, lambda m, o=offset: m.tensor("d2t", [OWN], "I64", ids(o if o < 0 else 0, 0, 1, max(o, 1)))))
    no("draft: ids beyond a smaller target", "d2t|one of the target's 4", then(eagle, target_config(vocab_size=4)))
    no("draft: a vocabulary of 2^32 tokens", "vocab_size", then(eagle, lambda m: m.config.update(vocab_size=2**32)))
    no("draft: a vocabulary of 2^31 tokens", "vocabulary", then(eagle, lambda m: m.config.update(vocab_size=2**31)))

    # ---- the config ----
    no("draft: two layers", "EAGLE-3 draft model|2 layers", then(eagle, lambda m: m.config.update(num_hidden_layers=2)))
    no("draft: no vocabulary of its own", "EAGLE-3 draft model|without", then(eagle, lambda m: m.config.pop("draft_vocab_size")))
    no("draft: two layers of the target", "eagle_aux_hidden_state_layer_ids|3 layers", then(eagle, lambda m: m.config.update(eagle_aux_hidden_state_layer_ids=[1, 2])))
    no("draft: a layer that the target lacks", "has layer 9, but the target|has 8",
       then(eagle, lambda m: m.config.update(eagle_aux_hidden_state_layer_ids=[1, 2, 9])))
    no("draft: states of another width", "fc.weight|columns, expected 300 by the config", then(eagle, lambda m: m.config.update(target_hidden_size=100)))
    no("draft: a layer config of itself", "num_hidden_layers", then(eagle, lambda m: m.config.update(transformer_layer_config={"num_hidden_layers": None})))
    no("draft: no layers of the target", "target_layer_ids|1 to 64", then(dflash, lambda m: m.config.update(dflash_config={})))
    no("draft: too many layers of the target", "fc.weight|columns, expected 4160", then(dflash, lambda m: m.config.update(dflash_config={"target_layer_ids": [1] * 65})))
    no("draft: the layer behind the target's last", "has layer 8, but the target", then(dflash, lambda m: m.config.update(dflash_config={"target_layer_ids": [1, 8]})))
    no("draft: another head of DSpark's", "markov_head_type|vanilla",
       then(dflash, lambda m: m.config.update(architectures=["Qwen3DSparkModel"], markov_head_type="gated")))
    no("draft: half of DSpark's head", "markov_w2",
       then(dflash, lambda m: (m.config.update(architectures=["Qwen3DSparkModel"]), m.tensor("markov_head.markov_w1.weight", [TOKENS, 32]))))

    # ---- what is in the folder ----
    no("draft: a pickle of the mask's embedding", "mask_embedding.pt is a pickle|llama.cpp", then(dflash, lambda m: m.files.update({"mask_embedding.pt": b"\x80"})))
    no("draft: a matrix is missing", "blk.0.attn_q.weight|which such a model has", then(eagle, lambda m: m.drop("q_proj")))
    no("draft: a matrix is turned", "blk.0.ffn_up.weight|by the config", then(eagle, lambda m: m.tensor("midlayer.mlp.up_proj.weight", [WIDTH, FF])))

    # ---- the target ----
    no("draft: no target", "draft model with its target|--target-model FOLDER", then(eagle, lambda m: setattr(m, "target", None)))
    no("draft: an empty target", "config.json", then(eagle, lambda m: m.target.clear()))
    no("draft: a target without a tokenizer", "tokenizer.json", then(eagle, lambda m: m.target.pop("tokenizer.json")))
    no("draft: a target whose config is no JSON", "config.json", then(eagle, lambda m: m.target.update({"config.json": "{"})))
    no("draft: a target whose config nests", "config.json", then(eagle, lambda m: m.target.update({"config.json": "[" * 100000})))
    no("draft: a target of three layers", "3 layers", then(eagle, target_config(num_hidden_layers=3)))
    no("draft: a target of very many layers", "layers, expected at most", then(eagle, target_config(num_hidden_layers=2**31)))
    no("draft: a target without a width", "hidden_size", then(eagle, target_config(hidden_size=None)))
    no("draft: a target of a class that is not known, whose tokenizer is made", "NoSuchForCausalLM", then(dflash, target_config(architectures=["NoSuchForCausalLM"])))
    no("draft: a target that is a draft", "a draft model itself", then(dflash, target_config(architectures=["DFlashDraftModel"])))
    no("draft: a target with more tokens than the draft", "has id 4, expected below 4", then(dflash, lambda m: m.config.update(vocab_size=4)))
