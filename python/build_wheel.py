"""Makes the wheel, with the library inside: what pip calls (PEP 517), in a few lines, so that nothing has to be
fetched. The library is built by CMake from the sources beside this folder, or taken from GQUANT_LIBRARY or
--config-settings library=PATH. The bytes of a wheel depend on its contents alone. For other systems than this one
(cmake/release): python3 build_wheel.py FOLDER LIBRARY TAG LICENCES, with pip's name of the system as the tag and a folder of
the licences of what is linked in."""

import base64
import hashlib
import os
import pathlib
import re
import runpy
import subprocess
import sys
import sysconfig
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parent
METADATA = """Metadata-Version: 2.1
Name: gquant
Version: {version}
Summary: Quantizes GGUF models and reports what was lost
License: MIT
Requires-Python: >=3.9
Requires-Dist: numpy
Provides-Extra: chat
Requires-Dist: jinja2>=3.1.6; extra == "chat"
"""
SCRIPTS = "[console_scripts]\ngquant-chat = gquant.chat:main\n"
LIBRARIES = {"macosx": "libgquant.0.dylib", "win": "gquant.dll"}  # else Linux's; gquant/_library.py looks for it


def version():
    return re.search(r"project\(gquant VERSION ([\d.]+)", (SOURCE / "CMakeLists.txt").read_text())[1]


def say(text):
    """To the output, which pip shows with -v, and to the terminal that there may be: pip keeps the rest to itself."""
    print(text, flush=True)
    try:
        if not sys.stdout.isatty():
            with open("/dev/tty", "w") as terminal:
                terminal.write(f"\n{text}; pip -v shows how far it is\n")
    except OSError:
        pass  # nobody is there


def library(settings):
    given = (settings or {}).get("library") or os.environ.get("GQUANT_LIBRARY")
    if given:
        if not os.path.isfile(given):  # pip builds in this folder
            raise SystemExit(f"gquant: GQUANT_LIBRARY: there is no file {os.path.abspath(given)}; name it by its whole path")
        return pathlib.Path(given).read_bytes()
    if sys.platform != "linux":
        raise SystemExit("gquant: the library is compiled on Linux alone; take a wheel, or name a library by GQUANT_LIBRARY")
    say("gquant: compiling the library, which takes some minutes")
    with tempfile.TemporaryDirectory() as build:
        # Kernels are compiled several files at once: reading the processor's intrinsics takes a quarter of a second each time.
        options = ["-DCMAKE_BUILD_TYPE=Release", "-DGQUANT_TESTS=OFF", "-DCMAKE_UNITY_BUILD=ON"]
        subprocess.run(["cmake", "-S", SOURCE, "-B", build, *options], check=True)
        # A number: with none make would start a compiler for every file at once.
        level = os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL") or str(len(os.sched_getaffinity(0)))
        subprocess.run(["cmake", "--build", build, "--parallel", level, "--target", "gquant-shared"], check=True)
        subprocess.run(["strip", "--strip-unneeded", build + "/libgquant.so.0"], check=True)
        return (pathlib.Path(build) / "libgquant.so.0").read_bytes()


def tag(settings):
    return (settings or {}).get("tag") or re.sub(r"[^\w]", "_", sysconfig.get_platform())


def metadata(settings):
    wheel = f"Wheel-Version: 1.0\nGenerator: gquant\nRoot-Is-Purelib: false\nTag: py3-none-{tag(settings)}\n"
    return {"METADATA": METADATA.format(version=version()).encode(), "WHEEL": wheel.encode(), "entry_points.txt": SCRIPTS.encode()}


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    info = f"gquant-{version()}.dist-info"
    files = {f"gquant/{p.name}": p.read_bytes() for p in sorted((HERE / "gquant").iterdir()) if p.suffix in (".py", ".typed")}
    files["gquant/_declared.py"] = runpy.run_path(str(HERE / "declarations.py"))["module"](SOURCE).encode()
    files.update({f"gquant/{p.name}": p.read_bytes() for p in sorted((SOURCE / "cli/texts").glob("*.text"))})
    files["gquant/" + LIBRARIES.get(tag(config_settings).split("_")[0], "libgquant.so.0")] = library(config_settings)
    files.update({f"{info}/{name}": content for name, content in metadata(config_settings).items()})
    files[f"{info}/LICENSE"] = (SOURCE / "LICENSE").read_bytes()
    others = (config_settings or {}).get("licences")
    files.update({f"{info}/licenses/{p.name}": p.read_bytes() for p in sorted(pathlib.Path(others).iterdir())} if others else {})
    record = ""
    for name, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(content)}\n"
    files[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode()
    name = f"gquant-{version()}-py3-none-{tag(config_settings)}.whl"
    with zipfile.ZipFile(pathlib.Path(wheel_directory) / name, "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, content in files.items():
            entry = zipfile.ZipInfo(path)  # of 1980, whenever it is
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            wheel.writestr(entry, content)
    return name


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    info = pathlib.Path(metadata_directory) / f"gquant-{version()}.dist-info"
    info.mkdir()
    for name, content in metadata(config_settings).items():
        (info / name).write_bytes(content)
    return info.name


def build_sdist(sdist_directory, config_settings=None):
    raise NotImplementedError("the sources are the repository; take a wheel, or pip install ./python in a clone")


if __name__ == "__main__":
    print(build_wheel(sys.argv[1], {"library": sys.argv[2], "tag": sys.argv[3], "licences": sys.argv[4]}))
