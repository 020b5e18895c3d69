"""Folders of the classes that stand alone in llama.cpp's register, for hf_class_folders.py: vocabularies of their own, encoders of decoders' layers, and
models that make sounds. config.json has the keys of published models, with small sizes."""
import base64
import pathlib

import make_hf2 as m2
from make_hf import BM, TEXT, bpe, byte_words, common, llama_tensors, safetensors, spm, store, train, uniform, write

FOLDERS = {}


def folder(make):
    FOLDERS[make.__name__.replace("_", "-")] = make
    return make


# ---- Qwen 1

def ranks(f, merges=120):
    """qwen.tiktoken; returns the number of its tokens."""
    byte = {c: b for b, c in BM.items()}
    tokens = [bytes([byte[c]]) for c in sorted(BM.values(), key=lambda c: byte[c])]
    for left, right in train(byte_words(), merges):
        tokens.append(bytes(byte[c] for c in left + right))
    assert len(set(tokens)) == len(tokens)
    (pathlib.Path(f.path) / "qwen.tiktoken").write_bytes(b"".join(base64.b64encode(t) + b" %d\n" % i for i, t in enumerate(tokens)))
    f.pre = "qwen2"
    return len(tokens)


def qwen_parts(f, D=64, N=2, H=4, FF=96, **other):
    n = ranks(f)
    write(f.path, "tokenizer_config.json", {"model_max_length": 8192, "tokenizer_class": "QWenTokenizer", "auto_map": {"AutoTokenizer": ["tokenization_qwen.QWenTokenizer", None]}})
    vocabulary = n + 240
    f.add("transformer.wte.weight", vocabulary, D)
    for i in range(N):
        b = f"transformer.h.{i}."
        f.norm(b + "ln_1", D), f.norm(b + "ln_2", D), f.lin(b + "attn.c_attn", 3 * D, D, True), f.lin(b + "attn.c_proj", D, D)
        f.lin(b + "mlp.w1", FF, D), f.lin(b + "mlp.w2", FF, D), f.lin(b + "mlp.c_proj", D, FF)
    f.norm("transformer.ln_f", D), f.lin("lm_head", vocabulary, D)
    return {"architectures": ["QWenLMHeadModel"], "attn_dropout_prob": 0.0, "auto_map": {"AutoConfig": "configuration_qwen.QWenConfig", "AutoModelForCausalLM": "modeling_qwen.QWenLMHeadModel"},
            "bf16": False, "emb_dropout_prob": 0.0, "fp16": False, "fp32": False, "hidden_size": D, "initializer_range": 0.02, "intermediate_size": 2 * FF, "kv_channels": D // H,
            "layer_norm_epsilon": 1e-06, "max_position_embeddings": 32768, "model_type": "qwen", "no_bias": True, "num_attention_heads": H, "num_hidden_layers": N, "onnx_safe": None,
            "rotary_emb_base": 10000, "rotary_pct": 1.0, "scale_attn_weights": True, "seq_length": 8192, "tie_word_embeddings": False, "tokenizer_class": "QWenTokenizer",
            "transformers_version": "4.32.0", "use_cache": True, "use_dynamic_ntk": True, "use_flash_attn": "auto", "use_logn_attn": True, "vocab_size": vocabulary, **other}, n


@folder
def qwen(f):
    config, n = qwen_parts(f)
    f.finish(config, shards=2, generation={"chat_format": "chatml", "eos_token_id": n, "pad_token_id": n, "max_window_size": 24000, "top_p": 0.8, "top_k": 0})


@folder
def qwen_vl(f):
    """What sees is left out; its tokens are a part of the vocabulary."""
    config, n = qwen_parts(f)
    f.lin("transformer.visual.transformer.resblocks.0.attn.in_proj", 48, 16, True), f.add("transformer.visual.proj", 16, 64)
    f.finish({**config, "visual": {"heads": 1, "image_size": 448, "image_start_id": n + 214, "layers": 1, "mlp_ratio": 4.9231, "output_dim": 64, "patch_size": 14, "width": 16}})


# ---- weights of three values

@folder
def bitnet(f, D=64, N=2, H=4, FF=96):
    f.dtype = "F16"
    n, _ = spm(f.path)
    llama_tensors(f, D, N, H, H, D // H, FF, n, tied=1)
    for i in range(N):
        f.norm(f"model.layers.{i}.self_attn.inner_attn_ln", D), f.norm(f"model.layers.{i}.mlp.ffn_layernorm", FF)
    f.finish(common("BitnetForCausalLM", "llama", D, N, H, H, FF, n, attention_bias=False, bos_token_id=1, eos_token_id=2, input_bits=8, max_position_embeddings=2048, pad_token_id=32000,
                    pretraining_tp=1, rope_scaling=None, tie_word_embeddings=True, torch_dtype="float16", weight_bits=1))


# ---- LFM2

def lfm2_embeds(f, name, kinds, D=64, H=4, K=2, FF=96, l=3, **other):
    n, _ = bpe(f.path, "llama-bpe", added=("<|pad|>", "<|startoftext|>", "<|endoftext|>", "<|im_start|>", "<|im_end|>"), first=True, bos="<|startoftext|>", eos="<|im_end|>", pad="<|pad|>",
               post=("<|startoftext|>", None))
    f.pre = "llama-bpe"
    m2.lfm(f, D, kinds, H, K, FF, l, n)
    f.t = {x.removeprefix("model."): a for x, a in f.t.items()}
    f.finish(common(name, "lfm2", D, len(kinds), H, K, FF, n, rms_norm_eps="-", norm_eps=1e-05, block_auto_adjust_ff_dim=False, block_dim=D, block_ff_dim=FF, block_ffn_dim_multiplier=1.0,
                    block_multiple_of=32, block_norm_eps=1e-05, block_use_swiglu=True, conv_L_cache=l, conv_bias=False, conv_dim=D, layer_types=kinds, rope_theta=1000000.0,
                    tie_word_embeddings=True, bos_token_id=1, eos_token_id=4, pad_token_id=0, **other))


def modules(f, *more):
    """A sentence transformer's list: the model, then these kinds, each with the config of its folder."""
    rows = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}]
    for i, (kind, config) in enumerate(more, 1):
        name = f"{i}_{kind}"
        (pathlib.Path(f.path) / name).mkdir(exist_ok=True)
        write(f.path, name + "/config.json", config)
        rows.append({"idx": i, "name": str(i), "path": name, "type": ("pylate.models.Dense.Dense" if kind == "Dense" else f"sentence_transformers.models.{kind}")})
    write(f.path, "modules.json", rows)


@folder
def lfm2_embedding(f):
    """Sees to both sides, also in its convolutions."""
    lfm2_embeds(f, "Lfm2BidirectionalModel", ["conv", "full_attention", "conv"], auto_map={"AutoModel": "modeling_lfm2_bidirectional.Lfm2BidirectionalModel"})
    modules(f, ("Pooling", {"word_embedding_dimension": 64, "pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False, "pooling_mode_max_tokens": False,
                            "pooling_mode_lasttoken": False, "include_prompt": True}))


@folder
def lfm2_colbert(f, out=32):
    """A vector for each token: a dense matrix behind the model, in a file of its own."""
    lfm2_embeds(f, "Lfm2Model", ["conv", "conv", "full_attention", "conv"])
    modules(f, ("Dense", {"in_features": 64, "out_features": out, "bias": False, "activation_function": "torch.nn.modules.linear.Identity", "use_residual": False}))
    safetensors(pathlib.Path(f.path) / "1_Dense" / "model.safetensors", {"linear.weight": store(uniform("lfm2/1_Dense", (out, 64), -0.1, 0.1), "F32")})


# ---- models of sounds, which have no vocabulary

@folder
def lfm2_audio_tokenizer(f, D=64, H=4, K=2, FF=96, l=3, out=80):
    """What makes sounds of LFM2.5's codes: layers of LFM2 with a window, and a matrix behind them."""
    kinds, n = ["conv", "conv", "sliding_attention", "conv"], 128
    m2.lfm(f, D, kinds, H, K, FF, l, n)
    f.t = {"lfm." + x.removeprefix("model."): a for x, a in f.t.items()}
    f.add("emb.emb.weight", 8 * 32, D), f.add("istft.window", out), f.lin("lin", out, D, True)
    f.finish(common("Lfm25AudioTokenizer", "lfm2", D, len(kinds), H, K, FF, n, rms_norm_eps="-", norm_eps=1e-05, block_auto_adjust_ff_dim=False, block_dim=D, block_ff_dim=FF,
                    block_ffn_dim_multiplier=1.0, block_multiple_of=256, block_norm_eps=1e-05, conv_L_cache=l, conv_bias=False, conv_dim=D, layer_types=kinds, output_size=out,
                    rope_theta=1000000.0, sliding_window=30, tie_word_embeddings=True, bos_token_id=1, eos_token_id=7, pad_token_id=0))


@folder
def wavtokenizer(f, D=32, P=64, FF=96, N=6, V=64, out=34):
    """The folder as llama.cpp's script makes it of the published file."""
    f.dtype = "F32"

    def both(name, *shape, bias):
        f.add(name + ".weight", *shape), f.add(name + ".bias", *bias)

    f.add("backbone.embedding.weight", V, D)
    for x in ("cluster_size", "embed_avg", "inited"):
        f.add(f"feature_extractor.encodec.quantizer.vq.layers.0._codebook.{x}", 4)
    both("backbone.embed", P, D, 7, bias=(P, 1)), both("backbone.norm", P, bias=(P,))
    for i in (0, 1, 3, 4):
        for k in "12":
            both(f"backbone.posnet.{i}.norm{k}", P, 1, bias=(P, 1)), both(f"backbone.posnet.{i}.conv{k}", P, P, 3, bias=(P, 1))
    both("backbone.posnet.2.norm", P, 1, bias=(P, 1)), both("backbone.posnet.5.norm", P, 1, bias=(P, 1))
    for x in ("q", "k", "v", "proj_out"):
        both("backbone.posnet.2." + x, P, P, 1, bias=(P, 1))
    for i in range(N):
        b = f"backbone.convnext.{i}."
        both(b + "dwconv", P, 1, 7, bias=(P, 1)), both(b + "norm", P, bias=(P,)), both(b + "pwconv1", FF, P, bias=(FF,)), both(b + "pwconv2", P, FF, bias=(P,))
        f.add(b + "gamma.weight", P)
    both("backbone.final_layer_norm", P, bias=(P,)), both("head.out", out, P, bias=(out,))
    f.finish({"architectures": ["WavTokenizerDec"], "hidden_size": D, "n_embd_features": D, "n_ff": FF, "vocab_size": V, "n_head": 1, "layer_norm_epsilon": 1e-6, "group_norm_epsilon": 1e-6,
              "group_norm_groups": 32, "max_position_embeddings": 8192, "n_layer": N, "posnet": {"n_embd": P, "n_layer": 6}, "convnext": {"n_embd": P, "n_layer": N}})
