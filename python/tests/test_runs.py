import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
import warnings

import numpy as np
import pytest

import gquant


@pytest.fixture(scope="module")
def quants(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("quants")
    paths = [folder / "q2.gguf", folder / "q8.gguf"]
    return gquant.quantize(model, paths, ["Q2_K", "Q8_0"])


def test_reports(quants, model):
    small, large = quants
    assert small.file_type == "Q2_K" and pathlib.Path(small.path).stat().st_size == small.file_bytes
    assert 2 < small.bits_per_weight < large.bits_per_weight < 9
    assert small.loss.relative > 5 * large.loss.relative > 0
    norm = next(t for t in large.tensors if t.name == "output_norm.weight")
    assert norm.type == "F32" and norm.loss.n == 0 and norm.why and norm.shape == (256,)
    assert json.loads(json.dumps(large.to_dict()))["outputs"][0]["tensors"][0]["measured"] in (True, False)


def test_a_plan_and_a_size(model, tmp_path):
    planned = gquant.quantize(model, tmp_path / "x.gguf", "Q4_K_M", dry_run=True)
    assert planned.tensors[0].loss is None and not list(tmp_path.iterdir())
    assert "not measured" in repr(planned) and "relative error" not in repr(planned)
    sized = gquant.quantize(model, tmp_path / "x.gguf", target_bpw=5.0)
    assert 4.5 < sized.bits_per_weight <= 5.0


def test_warnings_are_of_the_callers_line(tmp_path):
    odd = tmp_path / "odd.gguf"
    with gquant.GGUFBuilder() as builder:
        builder["general.architecture"], builder["general.type"] = "llama", "part"
        builder.add("blk.0.ffn_up.weight", np.ones((64, 576), np.float32), "F16")
        builder.write(odd)
    with pytest.warns(UserWarning, match="rows that do not fit the wanted type") as said:
        report = gquant.quantize(odd, tmp_path / "x.gguf", "Q4_K_M")
    assert [str(w.message) for w in said] == report.warnings
    assert {w.filename for w in said} == {__file__}
    with warnings.catch_warnings(), pytest.raises(UserWarning):  # -W error: the report is there all the same
        warnings.simplefilter("error")
        gquant.quantize(odd, tmp_path / "y.gguf", "Q4_K_M", report=tmp_path / "run.json")
    assert json.loads((tmp_path / "run.json").read_text())["warnings"] == report.warnings


def test_options(model, tmp_path):
    report = gquant.quantize(model, tmp_path / "x.gguf", "Q4_K_M", tensor_types=["ffn_up=Q8_0"], keep=["attn_v"],
                             output_tensor_type="Q5_K", prune_layers="1", effort="fast", threads=2)
    by_name = {t.name: t.type for t in report.tensors}
    assert by_name["blk.0.ffn_up.weight"] == "Q8_0" and by_name["blk.0.attn_v.weight"] == "F16"
    assert by_name["output.weight"] == "Q5_K" and "blk.1.ffn_up.weight" not in by_name
    with pytest.raises(TypeError, match="'pur'"):
        gquant.quantize(model, tmp_path / "y.gguf", "Q8_0", pur=True)
    with pytest.raises(FileExistsError, match="already exists; force=True"):
        gquant.quantize(model, tmp_path / "x.gguf", "Q8_0")
    with pytest.raises(FileNotFoundError, match="nowhere.gguf") as missing:
        gquant.quantize(tmp_path / "nowhere.gguf", tmp_path / "y.gguf", "Q8_0")
    assert isinstance(missing.value, gquant.Error)
    with pytest.raises(gquant.UsageError, match="is no size"):
        gquant.quantize(model, tmp_path / "y.gguf", target_size="7.5X")
    by_text = gquant.quantize(model, tmp_path / "y.gguf", target_size="0.5Mi", dry_run=True)
    assert by_text.file_bytes <= 2**19
    with pytest.raises(gquant.UsageError, match="did you mean Q4_K"):
        gquant.quantize(model, tmp_path / "y.gguf", "Q4_K_X")
    with pytest.raises(gquant.UsageError, match="2 types and one output"):
        gquant.quantize(model, tmp_path / "y.gguf", ["Q8_0", "Q4_0"])
    with pytest.raises(gquant.UsageError, match="is no text"):
        gquant.quantize(model, tmp_path / "y.gguf", 7)
    with pytest.raises(gquant.UsageError, match="NUL"):
        gquant.quantize(model, f"{tmp_path}/x.gguf\0y", "Q8_0", force=True)
    for name, number in (("target_size", -1), ("split_max_size", -1), ("threads", 2**32 + 1), ("sync_ms", 2**32)):
        with pytest.raises(gquant.UsageError, match=f"{name.split('_')[-1]} cannot be {number}"):
            gquant.quantize(model, tmp_path / "y.gguf", **({"type": "Q8_0"} if name != "target_size" else {}),
                            **{name: number})
    assert gquant.quantize(model, tmp_path / "y.gguf", "Q8_0", keep=None, dry_run=True).file_type == "Q8_0"


def test_transposed(model, tmp_path):
    turned, back = tmp_path / "turned.gguf", tmp_path / "back.gguf"
    gquant.quantize(model, turned, "COPY", transpose=["ffn_(up|down)"])
    name = "blk.0.ffn_up.weight"
    with gquant.Model(model) as a, gquant.Model(turned) as b:
        assert b[name].transposed and not a[name].transposed
        assert np.array_equal(b[name].read(), a[name].read().T)
        assert b.metadata["gquant.transposed"][0].endswith("weight")
    gquant.quantize(turned, back, "COPY", transpose="ffn_(up|down)")
    with gquant.Model(back) as c:
        assert not c[name].transposed and "gquant.transposed" not in c.metadata
    with pytest.raises(gquant.Error, match="transpose it back"):
        gquant.evaluate(model, turned, text="ab", context=4)


def test_compare_and_verify(quants, model, tmp_path):
    found = gquant.compare(model, *[c.path for c in quants])
    for ours, theirs in zip(quants, found):
        losses = {t.name: t.loss for t in theirs.tensors}
        for t in ours.tensors:
            assert losses[t.name].e2 == pytest.approx(t.loss.e2)
    checked = gquant.verify(quants[0].path, {"output.weight": 1, "absent": 2})
    assert not checked.ok and list(checked.problems) == ["output.weight"]
    assert len(checked.missing) == 1 and "absent" in checked.missing[0]
    assert gquant.verify(quants[0].path, checked.checksums).ok
    assert gquant.verify(quants[0].path, {"\udcff": 1}).missing
    with pytest.raises(gquant.UsageError, match="threads cannot be"):
        gquant.verify(quants[0].path, threads=2**32 + 1)
    with pytest.raises(gquant.UsageError, match="at least one quantized model"):
        gquant.compare(model)


def test_evaluate(quants, model, ids):
    found = gquant.evaluate(model, *[c.path for c in quants], text=ids, context=50)
    base, small, large = found.models
    assert base.kld is None and base.perplexity.value > 1
    assert small.kld.value > 10 * large.kld.value > 0
    assert found.differences[1, 2].value == pytest.approx(small.kld.value - large.kld.value)
    assert found.windows == 6 and found.tokens == 300 and found.architecture == "llama"
    assert small.divergence == small.kld and small.flips == small.changed_top1  # names of version 0.1
    assert len(small.quantiles) == 6 and 0 <= small.top1_agreement.value <= 1
    plain = json.loads(json.dumps(found.to_dict()))["evaluation"]["differences"]
    assert [(of["a"], of["b"]) for of in plain] == [(1, 2)] and plain[0]["difference"] == found.differences[1, 2].value
    by_text = gquant.evaluate(model, quants[0].path, text="abcdefgh" * 10, context=40, draft=quants[0].path)
    drafted = by_text.models[1].drafted
    assert drafted.first.value == 1 and drafted.length[3].value == 4 and found.models[1].drafted is None
    assert by_text.models[0].drafted.positions == drafted.positions
    plain = by_text.to_dict()["evaluation"]["models"][1]["drafted"]
    assert plain["first"]["value"] == 1 and len(plain["length"]) == 4
    assert by_text.tokens == 80


def test_evaluate_conversations(quants, model):
    chats = "#gquant-chats 1\n" + "".join(f"=0 1 2 {i} 4 =1 {' '.join(str(i * k % 500) for k in range(3, 30))}\n" for i in range(9))
    questions = [("abcd", ["e", "f"], 1), ("bcda", ["g", "h", "a"], 0)]
    found = gquant.evaluate(model, *[c.path for c in quants], text=chats, context=64, prompts=2, questions=questions,
                            draft=quants[0].path)
    base, small, large = found.models
    assert small.drafted.texts == 9 and small.drafted.first.value == 1 and small.drafted.length[3].value == 4
    assert found.scored == 9 * 27 and found.windows == 9 and found.to_dict()["evaluation"]["conversations"] == 9
    assert small.kld_interval.low < small.kld.value < small.kld_interval.high
    assert small.changed_top1.value == pytest.approx(1 - small.top1_agreement.value) and "this text" in small.level
    assert base.continued is None and small.continued.prompts == 2 and sum(small.continued.parts) == 2
    assert base.chosen.questions == 2 and large.chosen.more.of == 2
    with pytest.raises(gquant.UsageError, match="question 1"):
        gquant.evaluate(model, text=chats, context=64, questions=[("a", ["b", "c"], 2)])


def test_scores_are_kept(quants, model, ids, tmp_path):
    ways = {"text": ids, "context": 50, "scores_file": tmp_path / "scores"}
    first = gquant.evaluate(model, quants[0].path, **ways)
    assert (tmp_path / "scores").exists() and (tmp_path / "scores.states").exists()
    again = gquant.evaluate(model, *[c.path for c in quants], **ways)
    assert again.models[1].kld == first.models[1].kld
    assert again.models == gquant.evaluate(model, *[c.path for c in quants], text=ids, context=50).models


def test_importance(model, ids, tmp_path):
    with gquant.Imatrix.compute(model, ids, tmp_path / "one.gguf", context=50) as one:
        assert one.chunk_count == 6 and one.chunk_size == 50 and len(one.entries) == 14
        up = one.columns("blk.0.ffn_up.weight")
        assert up.shape == (256,) and up.mean() == pytest.approx(one.entries["blk.0.ffn_up.weight"].mean, rel=1e-5)
        assert one.show()[0]["name"] in one.entries and repr(one) == "Imatrix(14 entries, 6 chunks of 50 tokens)"
        with gquant.Imatrix.compute(model, ids[:100], tmp_path / "two.dat", context=50, layout="dat") as two:
            assert len(two.entries) == 14 and gquant.Imatrix(tmp_path / "two.dat").legacy
        with gquant.Imatrix(tmp_path / "one.gguf") as other:
            one.merge(other)
        assert one.columns("blk.0.ffn_up.weight") == pytest.approx(up) and one.chunk_count == 12
        one.write(tmp_path / "sum.gguf")
        with pytest.raises(gquant.Error, match="force=True"):
            one.write(tmp_path / "sum.gguf")
        with pytest.raises(KeyError):
            one.columns("absent")
    with pytest.raises(gquant.UsageError, match="layout 'dta'"):
        gquant.Imatrix.compute(model, ids, tmp_path / "three.dat", layout="dta")
    report = gquant.quantize(model, tmp_path / "x.gguf", "Q2_K", imatrix=tmp_path / "sum.gguf")
    assert report.loss.weighted > 0 and {t.importance for t in report.tensors if t.loss.n} >= {"full"}
    with gquant.Model(model) as m, gquant.Model(tmp_path / "x.gguf") as made:
        t = made["blk.0.ffn_up.weight"]
        with gquant.Imatrix(tmp_path / "sum.gguf") as i:
            blocks = gquant.encode(m[t.name].read(), t.type, i.columns(t.name))
        assert np.array_equal(t.stored(), blocks)


# ---- stopping ----


def test_progress(model, tmp_path):
    seen = []
    gquant.quantize(model, tmp_path / "x.gguf", "Q4_0", progress=seen.append)
    assert repr(seen[-1]).startswith("Progress(100 %, ")
    assert seen[-1].bytes_done == seen[-1].bytes_total > 0
    assert [p.bytes_done for p in seen] == sorted(p.bytes_done for p in seen)


def test_a_callback_that_stops_or_raises(model, tmp_path):
    with pytest.raises(gquant.Cancelled):
        gquant.quantize(model, tmp_path / "x.gguf", "Q4_0", threads=1, progress=lambda p: False)
    with pytest.raises(ZeroDivisionError):
        gquant.quantize(model, tmp_path / "y.gguf", "Q4_0", threads=1, progress=lambda p: 1 // 0)
    assert not (tmp_path / "x.gguf").exists() and not (tmp_path / "y.gguf").exists()


def interrupt_process():
    if os.name == "nt":
        signal.raise_signal(signal.SIGINT)  # os.kill ends a process there
    else:
        os.kill(os.getpid(), signal.SIGINT)


def test_an_interrupt_ends_it_cleanly(model, tmp_path):
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which shells take from what they run behind

    def interrupt(p):
        for _ in range(100):  # impatiently; and the work would be done before Python looks at signals
            interrupt_process()
            time.sleep(0.003)

    with pytest.raises(KeyboardInterrupt):
        gquant.quantize(model, tmp_path / "x.gguf", "Q4_0", threads=1, progress=interrupt)
    assert not (tmp_path / "x.gguf").exists()
    gquant.quantize(model, tmp_path / "x.gguf", "Q4_0")  # which goes on, or starts again
    gquant.quantize(model, tmp_path / "y.gguf", "Q4_0")
    assert (tmp_path / "x.gguf").read_bytes() == (tmp_path / "y.gguf").read_bytes()
    assert len(list(tmp_path.iterdir())) == 2


def test_an_interrupt_within_an_interrupt(model, tmp_path, monkeypatch):
    inside, real, main = [], threading.Event.set, threading.get_ident()

    def interrupted(event):  # while it holds its lock
        if threading.get_ident() == main:
            assert not inside, "it would wait for itself"
            inside.append(event)
            signal.raise_signal(signal.SIGINT)
        real(event)

    signal.signal(signal.SIGINT, signal.default_int_handler)
    monkeypatch.setattr(threading.Event, "set", interrupted)
    with pytest.raises(KeyboardInterrupt):
        gquant.quantize(model, tmp_path / "x.gguf", "Q4_0", threads=1,
                        progress=lambda p: (interrupt_process(), time.sleep(0.01)))
    assert not (tmp_path / "x.gguf").exists()


def test_no_thread_to_be_had(model, monkeypatch):
    def none(*_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading, "_start_new_thread", none)
    with pytest.raises(RuntimeError, match="new thread"):
        gquant.verify(model)


def test_threads_of_python(model, tmp_path):
    def work(i):
        gquant.quantize(model, tmp_path / f"{i}.gguf", "Q4_K_M", threads=2)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len({(tmp_path / f"{i}.gguf").read_bytes() for i in range(4)}) == 1


# A thread of Python's that has just ended may still hold the lock of AddressSanitizer's allocator, which the child
# would inherit and wait for: gcc 12's does not look after its locks when a process forks.
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.skipif("asan" in os.environ.get("LD_PRELOAD", ""), reason="the sanitizer's allocator cannot fork")
def test_a_child_that_was_forked(model, ids, quants):
    before = gquant.evaluate(model, quants[0].path, text=ids, context=50, threads=2).models[1].kld
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)
        same = gquant.evaluate(model, quants[0].path, text=ids, context=50, threads=2).models[1].kld == before
        os._exit(0 if same else 1)
    assert os.waitpid(pid, 0)[1] == 0


def test_without_the_library(tmp_path):
    run = subprocess.run([sys.executable, "-c", "import gquant"], capture_output=True, text=True,
                         env={**os.environ, "GQUANT_LIBRARY": str(tmp_path / "absent.so")})
    assert run.returncode and "ImportError: gquant needs its library" in run.stderr


def test_a_calibration_has_the_commands_names(model, tmp_path):
    text = "abcdefghij" * 160
    one, two, three = (tmp_path / f"{i}.gguf" for i in range(3))
    gquant.quantize(model, one, "Q4_0", calibrate=text, calibrate_tokens=768, context=128)
    report = gquant.quantize(model, two, "Q4_0", calibration=text)
    assert report.to_dict()["calibration"]["windows"] == 3 and one.read_bytes() != two.read_bytes()
    made = gquant.quantize(model, three, "Q4_0", calibrate=text, calibrate_tokens=768, context=128)
    assert made.to_dict()["calibration"]["windows"] == 6 and one.read_bytes() == three.read_bytes()
    assert "--calibrate-tokens 768" in made.to_dict()["options"]
    timed = gquant.quantize(model, three, "Q4_0", calibrate=text, calibrate_tokens=768, calibrate_seconds=3600, context=128,
                            force=True)
    assert timed.to_dict()["calibration"]["left_out"] == "" and one.read_bytes() == three.read_bytes()
    assert "--calibrate-tokens 768" in timed.to_dict()["options"]
    damped = gquant.quantize(model, three, "Q4_0", calibrate=text, calibrate_tokens=768, context=128, damp=0, force=True)
    assert "--damp 0" in damped.to_dict()["options"] and one.read_bytes() != three.read_bytes()
    gquant.quantize(model, three, "Q4_0", calibrate=text, calibrate_tokens=768, context=128, damp=0.01, shrink=0.3, force=True)
    assert one.read_bytes() == three.read_bytes()
    for wrong in ({"damp": 2}, {"shrink": -1}, {"correction": 1.5}):
        with pytest.raises(gquant.UsageError, match="from 0 to 1"):
            gquant.quantize(model, one, "Q4_0", calibrate=text, force=True, **wrong)
    with pytest.raises(gquant.UsageError, match="give calibrate a text"):
        gquant.quantize(model, one, "Q4_0", correction=0, force=True)
    with pytest.raises(gquant.UsageError, match="one option"):
        gquant.quantize(model, one, "Q4_0", calibrate="a", calibration="b", force=True)
    with pytest.raises(gquant.UsageError, match="give calibrate a text"):
        gquant.quantize(model, one, "Q4_0", calibrate_tokens=5, force=True)


def test_a_file_in_place_of_its_text_is_refused(model, tmp_path):
    file = tmp_path / "calib.txt"
    file.write_text("abcdefghij" * 160)
    for name in (file, str(file)):
        with pytest.raises(gquant.UsageError, match=r"is a file name\? pass its text: open\("):
            gquant.quantize(model, tmp_path / "x.gguf", "Q4_0", calibrate=name)
        with pytest.raises(gquant.UsageError, match="is a file name"):
            gquant.evaluate(model, text=name)
    with open(file, "rb") as opened, pytest.raises(TypeError, match="open file: pass what its read"):
        gquant.Imatrix.compute(model, opened, tmp_path / "own.gguf")


def test_numbers_that_would_be_changed_are_refused(model, tmp_path):
    with pytest.raises(TypeError, match="whole numbers"):
        gquant.evaluate(model, text=[1.5, 2.0] * 400)
    with pytest.raises(TypeError, match="whole numbers"):
        gquant.quantize(model, tmp_path / "x.gguf", "Q4_0", calibrate=np.ones(900))
    with pytest.raises(TypeError, match="imaginary"):
        gquant.encode(np.ones((2, 256)) * 1j, "Q4_K")
    with pytest.raises(TypeError, match="imaginary"), gquant.GGUFBuilder() as draft:
        draft.add("output.weight", np.ones((2, 256)) * 1j)
    with pytest.raises(TypeError, match="imaginary"):
        gquant.encode(np.ones((2, 256)), "Q4_K", importance=np.ones(256) * 1j)


def test_a_text_as_far_as_tokens_and_memory_go(model):
    t = gquant.Tokenizer(model)
    text = "abc def\n" * 100000
    every = t(text)
    assert (t(text, tokens=100) == every[:100]).all() and len(t(text, tokens=100)) == 100
    with pytest.raises(gquant.UsageError, match="a longer run does not fit"):
        t(b"\0" * 40_000_000, memory="32Mi")
    t.close()


GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "lora"


@pytest.mark.skipif(not GOLDEN.is_dir(), reason="the source tree's golden data")
def test_an_adapter_is_merged_as_a_folder_is_read(tmp_path):
    base, adapter = GOLDEN / "llama", GOLDEN / "case-plain"
    made = gquant.quantize(base, tmp_path / "merged.gguf", "F32", lora=adapter)
    assert "--lora case-plain" in made.to_dict()["options"]
    with gquant.Model(tmp_path / "merged.gguf") as m, gquant.Model(base) as b, gquant.Model(base, lora=adapter) as both, \
            gquant.Model(base, lora=[(adapter, -1.0)]) as minus:
        name = "blk.0.attn_q.weight"
        merged, plain = m[name].read(), b[name].read()
        assert m.metadata["gquant.adapters"][0].startswith("case-plain, factor 1, ")
        np.testing.assert_array_equal(merged, both[name].read())
        np.testing.assert_allclose(plain - merged, minus[name].read() - plain, atol=1e-6)
        assert np.abs(merged - plain).max() > 1e-3
    compared = gquant.compare(base, tmp_path / "merged.gguf", lora=adapter)[0]
    assert compared.to_dict()["outputs"][0]["relative_error"] in (0, None)
    with pytest.raises(gquant.Error, match="peft_type|not an adapter"):
        gquant.quantize(base, tmp_path / "other.gguf", "F32", lora=base)
    file = gquant.quantize(adapter, tmp_path / "adapter.gguf", "F16", base=base)
    assert file.file_bytes > 0
    with gquant.Model(tmp_path / "adapter.gguf") as m:
        assert m.metadata["general.type"] == "adapter" and m[f"{name}.lora_a"].shape is not None
