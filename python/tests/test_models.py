import copy
import re
import signal
import threading
import time

import numpy as np
import pytest

import gquant


def test_tensors_are_read_when_asked_for(model):
    with gquant.Model(model) as m:
        assert m.facts.n_tensors == len(m) == 21
        t = m["blk.1.ffn_up.weight"]
        assert t.type.name == "F16" and t.shape == (512, 256) and t.stored().shape == (512, 512)
        x = t.read()
        assert x.shape == t.shape and np.array_equal(x, np.asarray(t))
        assert np.array_equal(t.rows(7, 9), x[7:9])
        assert np.array_equal(gquant.decode(t.stored(), "F16"), x)
        with pytest.raises(gquant.UsageError, match="rows 5 to 600"):
            t.rows(5, 600)
        with pytest.raises(KeyError):
            m["blk.7.ffn_up.weight"]
    with pytest.raises(ValueError, match="closed"):
        t.read()


def test_a_model_is_a_mapping(model):
    with gquant.Model(model) as m, gquant.Model(model) as again:
        assert list(m) == list(m.keys()) == [t.name for t in m.values()] and dict(m.items()) == m.tensors
        assert "output.weight" in m and "absent" not in m and m.get("absent") is None
        assert len(m) == m.facts.n_tensors and all(m[name].name == name for name in m)
        assert m != again and m == m and len({m, again}) == 2
        assert re.fullmatch(r"Model\('.*model-F16.gguf', 21 tensors, 1,377,536 weights, 16.01 bits per weight\)", repr(m))
    assert repr(m).endswith(", closed)")


def test_metadata(tmp_path):
    pairs = {"text": "grün\0", "texts": ["a", "", "c"], "yes": True, "whole": -5, "large": 2**40, "part": 0.25,
             "array": np.array([1, 2, 300], dtype=np.uint16), "switches": [True, False]}
    with gquant.GGUFBuilder() as d:
        for key, value in pairs.items():
            d[key] = value
        d.set("typed", 7, "u8")
        d.set("top", 2**64 - 1, "u64")
        d.set("gone", 1)
        d.remove("gone")
        with pytest.raises(gquant.UsageError, match="u8"):
            d.set("typed", 256, "u8")
        for value, type in ((1e300, "f32"), (5, "string"), (2.9, "u32"), ("no", "bool"), ("1", "f32"), (1, "bool")):
            with pytest.raises(gquant.UsageError, match=type):
                d.set("typed", value, type)
        with pytest.raises(gquant.UsageError, match="NUL"):
            d["cut\0off"] = 1
        with pytest.raises(gquant.UsageError, match="say which"):
            d["what"] = object()
        d.write(tmp_path / "m.gguf")
        with pytest.raises(gquant.Error, match="force=True"):
            d.write(tmp_path / "m.gguf")
        d.write(tmp_path / "m.gguf", force=True)
    with gquant.Model(tmp_path / "m.gguf") as m:
        for key, value in pairs.items():
            assert np.array_equal(m.metadata[key], value), key
        assert m.metadata["typed"] == 7 and m.metadata.type("typed") == "u8" and m.metadata["top"] == 2**64 - 1
        assert m.metadata["array"].dtype == np.uint16 and "gone" not in m.metadata
        assert list(m.metadata)[0] == "text"
        metadata = m.metadata
    with pytest.raises(ValueError, match="closed"):
        metadata.type("text")
    with pytest.raises(TypeError, match="cannot be copied"):
        copy.copy(m)


def test_a_model_of_encoded_arrays(tmp_path, model):
    with gquant.Model(model) as m, gquant.GGUFBuilder() as d:
        d.copy_metadata(m)
        for t in m.values():
            d.add(t.name, t.read() if len(t.shape) > 1 else t.stored(), "Q8_0" if len(t.shape) > 1 else "F32",
                  encoded=len(t.shape) == 1)
        d.write(tmp_path / "q8.gguf")
        gquant.quantize(model, tmp_path / "ours.gguf", "Q8_0", pure=True)
        with gquant.Model(tmp_path / "q8.gguf") as a, gquant.Model(tmp_path / "ours.gguf") as b:
            assert all(np.array_equal(t.stored(), b[t.name].stored()) for t in a.values())
            assert a.metadata["general.name"] == "small"


def test_blocks_are_bytes():
    with gquant.GGUFBuilder() as d:
        for x in (np.ones((1, 144)), np.full((1, 144), 300), np.ones((1, 143), dtype=np.uint8)):
            with pytest.raises(gquant.UsageError, match="blocks"):
                d.add("x", x, "Q4_K", encoded=True)


def test_an_interrupt_while_closing(model):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    m, freed = gquant.Model(model), []
    free = m.handle.free

    def interrupted(handle):  # as one is seen right after the call
        free(handle)
        freed.append(handle)
        signal.raise_signal(signal.SIGINT)

    m.handle.free = interrupted
    with pytest.raises(KeyboardInterrupt):
        m.close()
    signal.signal(signal.SIGINT, before)
    m.close()
    assert len(freed) == 1


def until_closed(call):
    """Calls until the object is closed; returns how often it came back with a result."""
    times = 0
    while True:
        try:
            call()
            times += 1
        except ValueError:
            return times


@pytest.mark.parametrize("what", ["weights", "blocks", "metadata", "tokenizer"])
def test_an_object_is_closed_while_other_threads_read_it(model, what):
    for delay in (0, 0.0001, 0.001, 0.005) * 3:
        opened = gquant.Tokenizer(model) if what == "tokenizer" else gquant.Model(model)
        call = {"weights": lambda: opened["token_embd.weight"].read(), "blocks": lambda: opened["output.weight"].stored(),
                "metadata": lambda: opened.metadata["tokenizer.ggml.tokens"], "tokenizer": lambda: opened("abc" * 2000)}[what]
        threads = [threading.Thread(target=until_closed, args=(call,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        time.sleep(delay)
        opened.close()
        for thread in threads:
            thread.join()


def test_a_draft_is_changed_by_several_threads_and_closed(tmp_path, model):
    x = np.ones((64, 256), dtype=np.float32)
    d = gquant.Draft()

    def add(first):
        for i in range(50):
            d[f"key.{first}.{i}"] = "text" * 20
            d.add(f"t.{first}.{i}", x, "F16")

    threads = [threading.Thread(target=add, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    d.write(tmp_path / "m.gguf")
    writing = threading.Thread(target=until_closed, args=(lambda: d.write(tmp_path / "again.gguf", force=True),))
    writing.start()
    time.sleep(0.002)
    d.close()
    writing.join()
    with gquant.Model(tmp_path / "m.gguf") as m:
        assert len(m) == 200 and all(m[f"t.3.{i}"].read().all() for i in range(50)) and m.metadata["key.0.49"] == "text" * 20


def test_what_is_no_model(tmp_path):
    (tmp_path / "text").write_text("no model")
    with pytest.raises(gquant.Error, match="text"):
        gquant.Model(tmp_path / "text")
    with pytest.raises(gquant.Error, match="absent"):
        gquant.Model(tmp_path / "absent")


def test_a_tokenizer(model):
    with gquant.Tokenizer(model) as t:
        assert t("abc").tolist() == [0, 1, 2] and t("").size == 0
