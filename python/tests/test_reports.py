"""Reports in the words of the command: the same documents, pages and folders, by the command and by the package."""

import csv
import hashlib
import json
import locale
import os
import pathlib
import re
import shutil
import subprocess

import numpy as np
import pytest

import gquant
from gquant import _records

COMMAND = pathlib.Path(os.environ.get("GQUANT_LIBRARY", "libgquant.so.0")).with_name("gquant")
GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/lora"
needs_command = pytest.mark.skipif(not COMMAND.exists(), reason="no command beside the library")


def command(*words):
    found = subprocess.run([COMMAND, *map(str, words)], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    return found.stdout


def alike(ours, theirs, where=""):
    """Compares two documents: the same keys everywhere, the same values but for times, memory of the process and rounding."""
    assert type(ours) is type(theirs) or (isinstance(ours, (int, float)) and isinstance(theirs, (int, float))), where
    if isinstance(ours, dict):
        assert list(ours) == list(theirs), where
        for key in ours:
            if not re.search("seconds|per_second|calibration.(inputs_)?(memory|disk)_bytes", f"{where}.{key}"):
                alike(ours[key], theirs[key], f"{where}.{key}")
    elif isinstance(ours, list):
        assert len(ours) == len(theirs), where
        for i, (a, b) in enumerate(zip(ours, theirs)):
            alike(a, b, f"{where}[{i}]")
    elif isinstance(ours, float):
        assert ours == pytest.approx(theirs, rel=1e-8), where
    else:
        assert ours == theirs, where


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("abcdefghij" * 160)
    return path


@pytest.fixture(scope="module")
def made(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    paths = [folder / "a.gguf", folder / "b.gguf"]
    return gquant.quantize(model, paths, ["Q2_K", "Q8_0"], keep=["attn_v"], report=folder / "run.json"), folder


@needs_command
def test_runs_and_plans(model, made, tmp_path):
    both, folder = made
    theirs = json.loads(command("--json", "-q", "--keep", "attn_v", model, "--out-dir", tmp_path, "a.gguf=Q2_K", "b.gguf=Q8_0"))
    theirs["options"].remove(f"--out-dir {tmp_path.name}")
    alike(both.to_dict(), theirs)
    alike(json.loads((folder / "run.json").read_text()), theirs)
    alike(both[1].to_dict(), {**theirs, "outputs": theirs["outputs"][1:]})
    planned = gquant.quantize(model, tmp_path / "c.gguf", "Q4_K_M", dry_run=True)
    alike(planned.to_dict(), json.loads(command("--json", "--dry-run", model, tmp_path / "c.gguf", "Q4_K_M")))


@needs_command
def test_calibrated_runs(model, text, tmp_path):
    report = gquant.quantize(model, tmp_path / "a.gguf", "Q4_0", calibration=text.read_bytes())
    theirs = json.loads(command("--json", "-q", "--force", "--calibrate", text, model, tmp_path / "a.gguf", "Q4_0"))
    theirs["calibration"]["text"], theirs["options"] = "calibration", []
    alike(report.to_dict(), theirs)
    assert report.to_dict()["outputs"][0]["steps"]


@needs_command
def test_comparisons_evaluations_verifications(model, made, text, tmp_path):
    (small, large), _ = made
    alike(gquant.compare(model, small.path).to_dict(), json.loads(command("compare", "--json", model, small.path)))
    ours = gquant.evaluate(model, small.path, large.path, text=text.read_bytes(), context=40, report=tmp_path / "e.md")
    theirs = json.loads(command("evaluate", "--json", "-q", model, small.path, large.path, "--text", text, "--context", "40"))
    theirs["options"].remove("--text text.txt")
    notes = theirs.pop("warnings")  # how long a text should be is the command's advice
    document = ours.to_dict()
    assert set(document.pop("warnings")) <= set(notes)
    alike(document, theirs)
    both = gquant.compare(model, small.path, large.path, report=tmp_path / "c.csv")
    alike(both.to_dict(), json.loads(command("compare", "--json", model, small.path, large.path)))
    page = command("evaluate", "-q", model, small.path, large.path, "--text", text, "--context", "40", "--report",
                   tmp_path / "theirs.md") or (tmp_path / "theirs.md").read_text()
    assert (tmp_path / "e.md").read_text().split("Warnings")[0] == page.split("Warnings")[0]
    alike(gquant.verify(small.path).to_dict(), json.loads(command("verify", "--json", small.path)))


@needs_command
def test_plans(model, text, tmp_path):
    ours = gquant.plan(model, ram="1G")
    theirs = command("plan", "--json", "--ram", "1G", model)
    alike(ours.to_dict(), json.loads(theirs))
    assert ours.best.file_type == json.loads(theirs)["recommended"]
    assert repr(ours).endswith(f" tokens, recommended: {ours.best.file_type})") and repr(ours).startswith("Plan(")
    assert ours.target_size == 10**9 - 10**9 // 8 - ours.cache_bytes - ours.buffer_bytes
    whole = gquant.plan(model, ram="1G", reserve=0)
    assert whole.target_size == 10**9 - whole.cache_bytes - whole.buffer_bytes
    alike(whole.to_dict(), json.loads(command("plan", "--json", "--ram", "1G", "--reserve", "0", model)))
    assert any(t.needs_imatrix for t in ours.types) and not ours.best.needs_imatrix
    printed = [re.split(r"  +", line.strip()) for line in command("plan", "--ram", "1G", model).splitlines()]
    notes = {row[0]: row[-1] if len(row) > 4 else "" for row in printed if row and row[0]}
    assert "fits, needs an imatrix" in notes.values()
    for row in (ours._table()[1], whole._table()[1]):
        assert all(cells[-1] == notes[cells[0]] for cells in row if cells[0] in notes)
    assert "fits, needs an imatrix" in ours.to_markdown()
    kept = tmp_path / "measured"
    tried = gquant.plan(model, text=text.read_bytes(), measure_file=kept)
    assert kept.exists() and len(tried.curve) >= 9
    by_name = {t.file_type: t for t in tried.types}
    assert by_name["Q2_K"].expected_kld > by_name["Q8_0"].expected_kld > 0
    assert "data:image/svg+xml" in tried._repr_html_() and "recommended" in ours._repr_html_()
    alike(tried.to_dict(), json.loads(command("plan", "--json", "--text", text, "--measure-file", kept, model)))


def test_sizes_that_mean_gigabytes(model):
    for ram in (5, "5", 7.5, 16.0, 0):
        with pytest.raises(gquant.UsageError, match="is no size" if ram == 7.5 else "for gigabytes write '"):
            gquant.plan(model, ram=ram)
    assert gquant.plan(model, ram=np.int64(10**9)).to_dict() == gquant.plan(model, ram="1G").to_dict()


def test_a_published_folder(model, text, tmp_path):
    folder = tmp_path / "new" / "folder"
    with pytest.raises(FileNotFoundError):
        gquant.publish(tmp_path / "none.gguf", folder, "Q8_0")
    assert not folder.exists()
    assert gquant.publish(model, folder, "Q8_0", dry_run=True).made == 0 and not folder.exists()
    bench = tmp_path / "bench.json"
    bench.write_text(json.dumps([{"model_filename": "model-Q8_0.gguf", "n_prompt": 0, "n_gen": 32, "avg_ts": 12.5,
                                  "cpu_info": "a CPU", "n_threads": 2, "build_commit": "b"}]))
    found = gquant.publish(model, folder, ["q8_0", "Q4_K_L"], target_size="0.5M", evaluate=text.read_bytes(), context=40,
                           license="mit", quantized_by="me", speeds=bench, memory="1G")
    assert found.made == 3 and [f.file_type for f in found.files[:2]] == ["Q8_0", "Q4_K_L"]
    page = (folder / "README.md").read_text()
    for words in ("license: \"mit\"", "gquant.publish('model-F16.gguf', 'folder', ['q8_0', 'Q4_K_L'], target_size='0.5M'",
                  "evaluate=..., context=40", "generation, tokens/s", "12.5", "(model-0.5MB.gguf)"):
        assert words in page, words
    assert (folder / "SHA256SUMS").read_text().count("\n") == 3 and (folder / "divergence.svg").exists()
    assert found.evaluation.models[1].kld.value > 0 and found.to_dict()["evaluation"]["models"]
    assert "changed top-1 tokens" in found._repr_html_()
    with pytest.raises(gquant.Error, match="figures of an evaluation, which this"):
        gquant.publish(model, folder, ["Q8_0", "Q4_K_L"])
    again = gquant.publish(model, folder, ["Q8_0", "Q4_K_L"], evaluate=text.read_bytes(), context=40, speeds=bench, repo="me/It",
                           title="It", report=tmp_path / "p.json")
    assert again.made == 0 and "hf download me/It " in (folder / "README.md").read_text()
    alike(json.loads((tmp_path / "p.json").read_text()), again.to_dict())
    (folder / "README.md").write_text("mine")
    with pytest.raises(FileExistsError, match="force=True"):
        gquant.publish(model, folder, "Q8_0")
    with pytest.raises(gquant.UsageError, match="nothing to make"):
        gquant.publish(model, folder, force=True)


def test_shown_in_a_notebook(model, made, tmp_path):
    both, _ = made
    for shown in (both, both[0], gquant.compare(model, both[0].path)[0], gquant.compare(model, both[0].path)):
        found = shown._repr_html_()
        assert found.startswith("<table>") and "relative error" in found and "data:image/svg+xml;base64," in found
    with gquant.Model(model) as m:
        assert "<b>small llama</b>" in m._repr_html_() and "F16" in m._repr_html_()
    assert not hasattr(gquant.verify(both[0].path), "_repr_html_")
    with gquant.GGUFBuilder() as d:
        d["general.architecture"], d["general.name"] = "x<script>", "y&"
        d.add("a", np.zeros(32))
        d.write(tmp_path / "odd.gguf")
    with gquant.Model(tmp_path / "odd.gguf") as m:
        assert "<script>" not in m._repr_html_() and "y&amp;" in m._repr_html_()


@needs_command
def test_tables_and_pages_are_the_commands(model, made, text, tmp_path):
    (small, large), _ = made
    words = (model, small.path, large.path)
    for name, kind, more in (("evaluate", ".csv", ["--text", text, "--context", "40"]), ("compare", ".csv", []), ("compare", ".html", []),
                             ("quantize", ".csv", ["--calibrate", text])):
        ours, theirs = tmp_path / f"ours{kind}", tmp_path / f"theirs{kind}"
        if name == "compare":
            gquant.compare(*words, report=ours)
        elif name == "evaluate":
            gquant.evaluate(*words, text=text.read_bytes(), context=40, report=ours)
        else:
            gquant.quantize(model, tmp_path / "x.gguf", "Q4_K_M", report=ours, calibrate=text.read_bytes())
            name, words = "--force", (model, tmp_path / "x.gguf", "Q4_K_M")
        command(name, "-q", *words, *more, "--report", theirs)
        same_file(ours, theirs)


@pytest.fixture
def comma(tmp_path, monkeypatch):
    """A locale whose numbers have a comma, as programs with windows set it."""
    before = locale.setlocale(locale.LC_NUMERIC)
    if shutil.which("localedef"):
        monkeypatch.setenv("LOCPATH", str(tmp_path))
        subprocess.run(["localedef", "-i", "de_DE", "-f", "UTF-8", tmp_path / "de_DE.UTF-8"], capture_output=True)
    try:
        locale.setlocale(locale.LC_NUMERIC, "de_DE.UTF-8")
    except locale.Error:
        pytest.skip("no locale with a comma")
    yield
    locale.setlocale(locale.LC_NUMERIC, before)


def test_reports_in_a_locale_with_a_comma(model, made, tmp_path, comma):
    (small, large), folder = made
    assert locale.str(1.5) == "1,5"
    compared = gquant.compare(model, small.path, large.path, report=tmp_path / "c.csv")
    assert 0 < compared.to_dict()["outputs"][0]["relative_error"] < 1
    assert locale.str(1.5) == "1,5" and len({row.count(",") for row in (tmp_path / "c.csv").read_text().splitlines()}) == 1


def same_file(ours, theirs):
    """A table whole; a page but for its document, which is compared elsewhere."""
    page = re.compile(rb'(?s)(.*<script type="application/json" id="report">)(.*?)(</script>.*)')
    ours, theirs = ours.read_bytes(), theirs.read_bytes()
    if found := page.fullmatch(ours):
        wanted = page.fullmatch(theirs)
        assert found[1] == wanted[1] and found[3] == wanted[3] and json.loads(found[2]).keys() == json.loads(wanted[2]).keys()
    else:
        assert ours == theirs


def test_records_are_tidy(model, made, text, tmp_path):
    (small, large), _ = made
    found = gquant.evaluate(model, small.path, large.path, text=text.read_bytes(), context=40)
    rows = found.records()
    assert [r["file_type"] for r in rows] == ["", "Q2_K", "Q8_0"] and "kld" not in rows[0]
    assert rows[1]["kld"] == found.models[1].kld.value
    assert rows[1]["kld_low"] <= rows[1]["kld"] * (1 + 1e-9) and "changed_top1_high" in rows[1]
    assert found.to_dict()["evaluation"]["models"][1]["divergence"] == rows[1]["kld"]  # the old name
    assert [r["model"] for r in found.records("differences")] == ["a.gguf"]
    assert {r["model"] for r in found.records("depths")} == {"model-F16.gguf", "a.gguf", "b.gguf"}
    with pytest.raises(gquant.UsageError, match="records of 'all'"):
        found.records("all")
    tensors = gquant.compare(model, small.path, large.path).records()
    assert len(tensors) == 42 and {r["output"] for r in tensors} == {"a.gguf", "b.gguf"}
    up = next(r for r in tensors if r["tensor"] == "blk.1.ffn_up.weight")
    assert up["layer"] == 1 and up["role"] == "ffn_up.weight" and up["shape"] == "256x512" and 0 < up["relative_error"] < 1
    assert len(small.records()) == 21 and len(gquant.plan(model).records()) > 20
    verified = gquant.verify(small.path).records()
    assert len(verified) == 21 and verified[0]["problem"] is None
    for rows in (found.records(), tensors, verified):
        assert all(not isinstance(value, (dict, list)) for row in rows for value in row.values())


def test_tables_and_charts_for_a_paper(model, made, text, tmp_path):
    (small, large), folder = made
    found = gquant.evaluate(model, small.path, large.path, text=text.read_bytes(), context=40, tokens=800)
    for r in (found, made[0], small, gquant.compare(model, small.path)):
        assert r.plot().startswith(b"<svg") and r.to_markdown().count("\n| ") >= 1
        table = r.to_latex().splitlines()
        assert re.fullmatch(r"\\begin\{tabular\}\{l[lr]*r\}", table[0]) and r"\end{tabular}" in table
        cells = [line.count(" & ") for line in table if line.endswith(r"\\")]
        assert len(cells) >= 2 and len(set(cells)) == 1 and r"a.gguf & " in r.to_latex()
    assert r" $\pm$~" in found.to_latex() and r"~\% " in found.to_latex() and r"\_" not in found.to_markdown().splitlines()[0]
    said = found.provenance()
    digest = hashlib.sha256(pathlib.Path(small.path).read_bytes()).hexdigest()
    for words in (f"gquant    {gquant.__version__} (", "seeds ", "options   --context 40 --tokens 800", "base      sha256 ",
                  f"quant     sha256 {digest}, ", "bytes, a.gguf\n", f"text      sha256 {hashlib.sha256(text.read_bytes()).hexdigest()}, 1,600 bytes",
                  "scored    380 of 800 tokens, 20 windows of 40"):
        assert words in said, words
    assert "input     sha256 " in small.provenance() and digest in made[0].provenance() and "--keep attn_v" in small.provenance()
    assert f"types     {small.file_type}\n" in small.provenance()
    assert gquant.plan(model).provenance() and digest in gquant.verify(small.path).provenance()
    split = gquant.quantize(model, tmp_path / "s.gguf", "F16", split_max_size="2M")
    assert split.provenance().count("-of-0000") == 2


def test_plots_on_axes(made):
    class Axes:
        def errorbar(self, x, y, yerr, **_):
            self.points = len(x), len(y), len(yerr)

        def annotate(self, text, *_, **__):
            self.last = text

        def set(self, **words):
            self.words = words

    axes = Axes()
    assert made[0].plot(axes) is axes and axes.points == (2, 2, 2) and axes.last == "Q8_0" and "relative error" in axes.words["ylabel"]


@pytest.mark.skipif(not GOLDEN.is_dir(), reason="the source tree's golden data")
def test_a_report_replaces_no_input(model, made, tmp_path):
    (small, _), _ = made
    folder = tmp_path / "folder"
    shutil.copytree(GOLDEN / "llama", folder)
    config = (folder / "config.json").read_bytes()
    for call in (lambda: gquant.quantize(folder, tmp_path / "x.gguf", "Q8_0", report=folder / "config.json"),
                 lambda: gquant.quantize(model, tmp_path / "x.json", "Q8_0", report=tmp_path / "x.json"),
                 lambda: gquant.compare(folder, small.path, report=folder / "config.json"),
                 lambda: gquant.evaluate(folder, small.path, text="a", report=folder / "config.json")):
        with pytest.raises(gquant.UsageError):
            call()
    assert (folder / "config.json").read_bytes() == config and not (tmp_path / "x.json").exists()


def test_reports_in_files(model, tmp_path):
    for name in ("r.json", "r.md", "r.SVG", "r.csv", "r.html"):
        gquant.quantize(model, tmp_path / "x.gguf", "Q4_0", force=True, report=tmp_path / name)
    assert "| [x.gguf](x.gguf) |" in (tmp_path / "r.md").read_text()
    assert (tmp_path / "r.SVG").read_text().startswith("<svg")
    with pytest.raises(gquant.UsageError, match="ends in .json"):
        gquant.quantize(model, tmp_path / "y.gguf", "Q4_0", report="report.txt")
    assert not (tmp_path / "y.gguf").exists()


def test_every_call_writes_a_report(model, text, tmp_path):
    small = gquant.quantize(model, tmp_path / "a.gguf", "Q4_0").path

    def compute(report):
        with gquant.Imatrix.compute(model, text.read_bytes(), tmp_path / "i.gguf", context=40, force=True, report=report) as found:
            return found.show()

    calls = {"plan": lambda to: gquant.plan(model, report=to).records(), "verify": lambda to: gquant.verify(small, report=to).records(),
             "imatrix": compute}
    for name, call in calls.items():
        for end in ("json", "md", "csv", "html"):
            rows = call(tmp_path / f"{name}.{end}")
        found = json.loads((tmp_path / f"{name}.json").read_text())
        assert len(next(found[key] for key in ("tensors", "types", "entries") if key in found)) == len(rows) > 2, name
        table = list(csv.DictReader((tmp_path / f"{name}.csv").open()))
        first = next(iter(rows[0]))
        assert [row[first] for row in table] == [str(row[first]) for row in rows], name
        assert (tmp_path / f"{name}.md").read_text().count("\n") == len(rows) + 2, name
        assert (tmp_path / f"{name}.html").read_text().count("<tr>") == len(rows) + 1, name
        with pytest.raises(gquant.UsageError, match="no chart"):
            call(tmp_path / "r.svg")
    assert gquant.plan(model, text=text.read_bytes(), report=tmp_path / "p.svg").plot() == (tmp_path / "p.svg").read_bytes()
    fits = gquant.plan(model, ram="1G")
    assert "| Q4\\_K\\_M |" in fits.to_markdown() and "fits, recommended" in fits.to_markdown()
    assert r"Q4\_K\_M & " in fits.to_latex() and fits.to_latex().startswith(r"\begin{tabular}{lrrrl}")


def test_lists_of_files(model, made, text):
    (small, large), _ = made
    found = gquant.evaluate(model, [small.path, large.path], text=text.read_bytes(), context=40, tokens=400)
    assert [r["model"] for r in found.records()][1:] == ["a.gguf", "b.gguf"]
    assert len(gquant.compare(model, [small.path], large.path)) == 2


def test_provenance_as_a_dictionary(model, made):
    (small, _), _ = made
    found = small.provenance(text=False)
    assert found["types"] == [small.file_type] and "--keep attn_v" in found["options"] and found["gquant"]["version"] == gquant.__version__
    digest = hashlib.sha256(pathlib.Path(small.path).read_bytes()).hexdigest()
    assert [f["role"] for f in found["files"]][0] == "input" and any(f["sha256"] == digest and f["name"] == "a.gguf" for f in found["files"])
    json.dumps(found)


def test_a_missing_type(model):
    with pytest.raises(gquant.UsageError, match="the file type is missing"):
        gquant.quantize(model, "Q6_K")


def test_a_format_that_there_is_not(model, monkeypatch, tmp_path):
    monkeypatch.setattr(_records, "SVG", 99)
    with pytest.raises(gquant.UsageError, match="has no format 99"):
        gquant.quantize(model, tmp_path / "x.gguf", "Q4_0")


def test_failures_are_pythons_own(model, made, tmp_path):
    missing = tmp_path / "none.gguf"
    calls = [lambda: gquant.Model(missing), lambda: gquant.Imatrix(missing), lambda: gquant.Tokenizer(missing),
             lambda: gquant.compare(model, missing), lambda: gquant.verify(missing), lambda: gquant.plan(missing),
             lambda: gquant.evaluate(missing, text="a"), lambda: gquant.quantize(missing, tmp_path / "x.gguf", "Q8_0"),
             lambda: gquant.quantize(model, tmp_path / "x.gguf", "Q8_0", imatrix=missing),
             lambda: gquant.quantize(model, tmp_path / "no folder" / "x.gguf", "Q8_0"),
             lambda: gquant.quantize(model, tmp_path / "x.gguf", "Q8_0", report=tmp_path / "no folder" / "r.json"),
             lambda: gquant.publish(model, tmp_path / "p", "Q8_0", speeds=missing)]
    for i, call in enumerate(calls):
        with pytest.raises(FileNotFoundError) as found:
            call()
        assert isinstance(found.value, gquant.Error), i
    if getattr(os, "geteuid", lambda: 0)() != 0:
        locked = tmp_path / "locked.gguf"
        locked.write_bytes(pathlib.Path(model).read_bytes())
        locked.chmod(0)
        with pytest.raises(PermissionError):
            gquant.Model(locked)
    with pytest.raises(FileExistsError):
        gquant.quantize(model, made[0][0].path, "Q8_0")
