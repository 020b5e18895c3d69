"""How the wheel's library is compiled, with a cmake that writes down what it was asked."""

import os
import pathlib
import runpy
import sys
import zipfile

import pytest

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
        assert b"@REPORT@" in wheel.read("gquant/page.html")
