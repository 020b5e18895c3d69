"""How the wheel's library is compiled, with a cmake that writes down what it was asked; and how the package is imported."""

import os
import pathlib
import runpy
import subprocess
import sys
import zipfile

import pytest

import gquant

BUILD = pathlib.Path(__file__).resolve().parents[1] / "build_wheel.py"
CMAKE = """#!/bin/sh
echo "$@" >> "$(dirname "$0")/asked"
[ "$1" != --build ] || echo library > "$2/libgquant.so.0"
"""


@pytest.mark.skipif(not BUILD.exists() or sys.platform != "linux", reason="no sources, or another system")
@pytest.mark.parametrize("level", [None, "7"])
def test_compilers_are_limited(tmp_path, monkeypatch, level):
    for name, text in (("cmake", CMAKE), ("strip", "#!/bin/sh\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.delenv("GQUANT_LIBRARY", raising=False)
    monkeypatch.delenv("CMAKE_BUILD_PARALLEL_LEVEL", raising=False)
    if level:
        monkeypatch.setenv("CMAKE_BUILD_PARALLEL_LEVEL", level)
    made = runpy.run_path(str(BUILD))["build_wheel"](str(tmp_path))
    assert f"--parallel {level or len(os.sched_getaffinity(0))} " in (tmp_path / "asked").read_text()
    with zipfile.ZipFile(tmp_path / made) as wheel:
        assert wheel.read("gquant/libgquant.so.0") == b"library\n"
        assert wheel.read("gquant/held-out.text").decode() == gquant.sample_text("held-out")


IMPORTS = """
import sys, time
begin = time.process_time()
import gquant
print(time.process_time() - begin, "numpy" in sys.modules, gquant.__version__, len(gquant.types()) > 30)
"""


@pytest.mark.skipif(not BUILD.exists() or not os.environ.get("GQUANT_LIBRARY"), reason="no sources, or no library to put inside")
def test_an_import_takes_less_than_50_ms(tmp_path):
    made = runpy.run_path(str(BUILD))["build_wheel"](str(tmp_path))
    with zipfile.ZipFile(tmp_path / made) as wheel:
        wheel.extractall(tmp_path)
    environment = {key: value for key, value in os.environ.items() if key not in ("GQUANT_LIBRARY", "PYTHONDONTWRITEBYTECODE")}
    runs = [subprocess.run([sys.executable, "-c", IMPORTS], env={**environment, "PYTHONPATH": str(tmp_path)}, check=True, text=True,
                           capture_output=True).stdout.split() for _ in range(3)]
    assert all(run[1:] == ["False", gquant.__version__, "True"] for run in runs)
    assert min(float(run[0]) for run in runs) < 0.05 or "LD_PRELOAD" in os.environ  # of the processor; sanitizers take longer


def test_texts_to_begin_with_are_there():
    calibration, held_out = gquant.sample_text(), gquant.sample_text("held-out")
    assert len(calibration) > 150_000 and len(held_out) > 30_000
    long = {line for line in calibration.split("\n") if len(line) > 60}
    assert not long & set(held_out.split("\n"))
    with pytest.raises(ValueError, match="expected one of 'calibration', 'held-out'"):
        gquant.sample_text("test")


def test_all_names_are_there():
    for name in gquant.__all__:
        assert getattr(gquant, name) is not None and name in dir(gquant)
    assert gquant.chat.Templates and gquant.runs.quantize is gquant.quantize
    with pytest.raises(AttributeError, match="'gquant' has no attribute 'quantise'"):
        gquant.quantise
