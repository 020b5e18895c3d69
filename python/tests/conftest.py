"""A small llama that can be run, made of arrays."""

import numpy as np
import pytest

import gquant

VOCABULARY, COLUMNS, HEADS, INNER = 512, 256, 8, 512


def write_model(path, seed=1, layers=2):
    rng = np.random.default_rng(seed)

    def weights(rows, columns, scale=0.05):
        return (scale * rng.standard_normal((rows, columns))).astype(np.float32)

    with gquant.GGUFBuilder() as d:
        d["general.architecture"] = "llama"
        d["general.name"] = "small"
        for key, value in {"block_count": layers, "context_length": 128, "embedding_length": COLUMNS,
                           "feed_forward_length": INNER, "attention.head_count": HEADS,
                           "attention.head_count_kv": 2}.items():
            d.set(f"llama.{key}", value, "u32")
        d["llama.attention.layer_norm_rms_epsilon"] = 1e-5
        d["tokenizer.ggml.model"] = "gpt2"
        d["tokenizer.ggml.tokens"] = [chr(ord("a") + i) if i < 26 else f"token-{i}" for i in range(VOCABULARY)]
        d.set("tokenizer.ggml.merges", [], "string")
        d["tokenizer.ggml.scores"] = np.zeros(VOCABULARY, dtype=np.float32)
        d.add("token_embd.weight", weights(VOCABULARY, COLUMNS, 1.0), "F16")
        for b in range(layers):
            for name, rows, columns in (("attn_q", COLUMNS, COLUMNS), ("attn_k", 64, COLUMNS), ("attn_v", 64, COLUMNS),
                                        ("attn_output", COLUMNS, COLUMNS), ("ffn_gate", INNER, COLUMNS),
                                        ("ffn_up", INNER, COLUMNS), ("ffn_down", COLUMNS, INNER)):
                d.add(f"blk.{b}.{name}.weight", weights(rows, columns), "F16")
            for name in ("attn_norm", "ffn_norm"):
                d.add(f"blk.{b}.{name}.weight", np.ones(COLUMNS))
        d.add("output_norm.weight", np.ones(COLUMNS))
        d.add("output.weight", weights(VOCABULARY, COLUMNS, 0.3), "F16")
        d.write(path)
    return path


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("model") / "model-F16.gguf")


@pytest.fixture(scope="session")
def ids():
    return np.arange(300) * 37 % VOCABULARY
