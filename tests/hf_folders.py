"""What tests of Hugging Face folders share: the folders and golden data of the shared material, and comparing with them."""
import pathlib
import struct
import subprocess
import sys
import tempfile

SKIPPED = 77


def near(data, text):
    """Whether floats are those of a hexadecimal text: exp and pow differ in the last place between C libraries."""
    n = len(data) // 4
    if len(text) != 8 * n:
        return False
    pairs = zip(struct.unpack(f"<{n}f", data), struct.unpack(f"<{n}f", bytes.fromhex(text)))
    return all(abs(a - b) <= 1e-6 * abs(b) for a, b in pairs)


def has_numpy(python):
    try:
        return subprocess.run([python, "-c", "import numpy"], stderr=subprocess.DEVNULL).returncode == 0
    except OSError:
        return False


def check_all(shared, check, only=(), praise="as llama.cpp's converter has them"):
    """Makes the folders, or only some of them, and calls check(folder, its golden .tsv, a folder to work in), which returns what is
    wrong. Returns the exit status."""
    shared = pathlib.Path(shared)
    makers = [shared / "models/make_hf.py", shared / "models/make_hf2.py"]
    if not all(maker.exists() for maker in makers):
        print("skipped: needs the shared test material")
        return SKIPPED
    python = next((p for p in (sys.executable, "/usr/bin/python3") if has_numpy(p)), None)
    if not python:
        print("skipped: needs numpy")
        return SKIPPED
    bad = 0
    with tempfile.TemporaryDirectory() as temporary:
        root = pathlib.Path(temporary)
        for maker in makers:
            subprocess.run([python, "-B", maker, root / "folders"], check=True, stdout=subprocess.DEVNULL)
        folders = sorted(f for f in (root / "folders").iterdir() if not only or f.name in only)
        for folder in folders:
            faults = check(folder, shared / f"golden/hf/{folder.name}.tsv", root)
            bad += bool(faults)
            for fault in faults[:4]:
                print(f"{folder.name}: {fault}")
    print(f"{len(folders) - bad} of {len(folders)} folders {praise}")
    return 1 if bad or (not only and len(folders) < 99) else 0
