"""What tests of Hugging Face folders share: the folders and golden data of the shared material, their arrays, and comparing with them."""
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

SKIPPED = 77
# Pairs that the converter of October 2026 writes and that of August does not: what readers take for granted without them.
LATER = {"tokenizer.ggml.add_bos_token", "tokenizer.ggml.add_eos_token", "qwen35.attention.recurrent_layers", "qwen4exp.attention.recurrent_layers"}


def near(data, text, least=0.0):
    """Whether floats are those of a hexadecimal text: exp and pow differ in the last place between C libraries. least: a difference that is always allowed"""
    n = len(data) // 4
    if len(text) != 8 * n:
        return False
    pairs = zip(struct.unpack(f"<{n}f", data), struct.unpack(f"<{n}f", bytes.fromhex(text)))
    return all(abs(a - b) <= max(1e-6 * abs(b), least) for a, b in pairs)


def has_numpy(python):
    try:
        return subprocess.run([python, "-c", "import numpy"], stderr=subprocess.DEVNULL).returncode == 0
    except OSError:
        return False


def read_safetensors(path):
    """The metadata of a file, and {name: (dtype, shape, bytes)}"""
    data = path.read_bytes()
    (n,) = struct.unpack_from("<Q", data)
    header, arrays = json.loads(data[8 : 8 + n]), {}
    metadata = header.pop("__metadata__", None)
    for name, a in header.items():
        begin, end = a["data_offsets"]
        arrays[name] = (a["dtype"], a["shape"], data[8 + n + begin : 8 + n + end])
    return metadata, arrays


def write_safetensors(path, arrays, metadata=None):
    header, at = {} if metadata is None else {"__metadata__": metadata}, 0
    for name, (dtype, shape, data) in arrays.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in arrays.values()))


# Its blocks use different numbers of experts, which gquant does not run: then nothing says which arrays such a model has.
NOT_RUN = {"nemotron-puzzle"}
OWN = pathlib.Path(__file__).resolve().parent


def golden_of(shared, name):
    """Where the golden data of a folder are: some are of the shared material, some of this repository."""
    own = OWN.parent / f"golden/hf/{name}.tsv"
    return own if own.exists() else pathlib.Path(shared) / f"golden/hf/{name}.tsv"


def target_of(folder):
    """The folder of the model that a draft drafts for, as the makers of folders leave it; None: it is no such draft."""
    target = folder.parents[1] / "targets" / folder.name
    return target if target.exists() else None


def target_options(folder):
    """What gquant is told of it."""
    target = target_of(folder)
    return ["--target-model", target] if target else []


def make_all(shared, root):
    """The folders, made below root; None, with a word why, where they cannot be made."""
    makers = [pathlib.Path(shared) / "models" / name for name in ("make_hf.py", "make_hf2.py")]
    if not all(maker.exists() for maker in makers):
        print("skipped: needs the shared test material")
        return None
    python = next((p for p in (sys.executable, "/usr/bin/python3") if has_numpy(p)), None)
    if not python:
        print("skipped: needs numpy")
        return None
    for maker in makers:
        subprocess.run([python, "-B", maker, root / "folders"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([python, "-B", OWN / "hf_class_folders.py", shared, root / "folders"], check=True, stdout=subprocess.DEVNULL)
    return sorted((root / "folders").iterdir())


def link(path, to):
    """A file under another name, or all files of a folder"""
    if path.is_dir():
        shutil.copytree(path, to)
    else:
        os.link(path, to)


def make_projectors(shared, root):
    """Folders of models that see or hear, made below root; make_all has found that they can be."""
    python = next(p for p in (sys.executable, "/usr/bin/python3") if has_numpy(p))
    subprocess.run([python, "-B", OWN / "hf_projector_folders.py", shared, root / "projectors"], check=True, stdout=subprocess.DEVNULL)
    return sorted((root / "projectors").iterdir())


def check_all(shared, check, only=(), praise="as llama.cpp's converter has them"):
    """Makes the folders, or only some of them, and calls check(folder, its golden .tsv, a folder to work in), which returns what is
    wrong. Returns the exit status."""
    shared, bad = pathlib.Path(shared), 0
    with tempfile.TemporaryDirectory() as temporary:
        root = pathlib.Path(temporary)
        folders = make_all(shared, root)
        if folders is None:
            return SKIPPED
        folders = [f for f in folders if not only or f.name in only]
        for folder in folders:
            faults = check(folder, golden_of(shared, folder.name), root)
            bad += bool(faults)
            for fault in faults[:4]:
                print(f"{folder.name}: {fault}")
    print(f"{len(folders) - bad} of {len(folders)} folders {praise}")
    return 1 if bad or (not only and len(folders) < 150) else 0
