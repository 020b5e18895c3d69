"""Do the cells of the notebooks and the first block of docs/python.md run one after another, on a small model?"""

import hashlib
import json
import os
import pathlib
import subprocess

import pytest

import gquant

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
NOTEBOOKS = sorted((DOCS / "examples").glob("*.ipynb"))
BUILT = pathlib.Path(os.environ.get("GQUANT_LIBRARY", "")).parent / "make-model"


@pytest.mark.skipif(not NOTEBOOKS or not BUILT.exists(), reason="no notebooks, or no build that makes a model")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_cells_run(path, tmp_path, monkeypatch, capsys):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4 and all(cell["cell_type"] in ("code", "markdown") for cell in notebook["cells"])
    subprocess.run([BUILT, "--weights", "1000000", tmp_path / "model-F16.gguf"], check=True, stdout=subprocess.DEVNULL)
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    for number, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] == "code":
            assert not cell["outputs"] and cell["execution_count"] is None  # results are of who runs it
            exec(compile("".join(cell["source"]), f"{path.name}, cell {number}", "exec"), names)
    out = capsys.readouterr().out
    digest = hashlib.sha256(gquant.sample_text("held-out").encode()).hexdigest()
    for expected in ("Q4_K_M", "±", "\\toprule", digest):
        assert expected in out
    assert (tmp_path / "notebook-chart.svg").read_bytes().startswith(b"<svg")


@pytest.mark.skipif(not DOCS.exists() or not BUILT.exists(), reason="no page, or no build that makes a model")
def test_the_page_begins_with_lines_that_run(tmp_path, monkeypatch):
    block = (DOCS / "python.md").read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    subprocess.run([BUILT, "--folder", "--weights", "1000000", tmp_path / "Synthetic-30M"], check=True, stdout=subprocess.DEVNULL)
    monkeypatch.chdir(tmp_path)
    exec(compile(block.replace("4096", "512").replace("2048", "512").replace("=held_out)", "=held_out, tokens=512)"), "python.md", "exec"), {})
    assert (tmp_path / "plan.md").read_text().startswith("| type |") and (tmp_path / "Synthetic-30M-GGUF" / "README.md").exists()
