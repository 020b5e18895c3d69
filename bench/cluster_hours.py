#!/usr/bin/env python3
"""Hours that a calibration takes on machines of 10^12 operations a second, for bench/results/ranks.md.

    bench/cluster_hours.py BUILD [--launch "mpirun -n"] [--ranks 1,4,16,64] [--moments R] [--root R] [--rounding R]

Work and memory are the engine's own: gquant-mpi --dry-run, with so many ranks, on sparse models that make-model writes.
The rates of Hessians, Cholesky factors and rounding are shares of that of products, as bench-feedback measures them. A rank
receives what the others send, and reads the model's weights over the same network; nothing overlaps.
"""

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

TOKENS, CONTEXT = 65536, 512
RATE = 1e12  # operations a second of products
SWEEPS = 2  # of the default effort
MODELS = {
    "8 B": "--width 4096 --feed 14336 --weights 8e9",
    "70 B": "--width 8192 --feed 28672 --weights 70e9",
    "400 B": "--width 16384 --feed 53248 --weights 405e9",
    "1 T, experts": "--width 7168 --feed 2048 --experts 384 --used 8 --weights 1.03e12",
}


def site_of(name):
    """Return the name of the linear-layer input that a tensor shares with others."""
    head, _, tail = name.partition(".attn_")
    if tail[:1] in "qkv" and tail[1:2] == ".":
        return head + ".attn_qkv"
    return name.replace("ffn_gate", "ffn_in").replace("ffn_up", "ffn_in")


def kinds_of_work(calibration, tensors, used):
    """Return operations: products, Hessians, rounding, Cholesky factors that ranks share, and those that all compute."""
    moments = rounding = dealt = alike = 0
    sites = set()
    for t in tensors:
        if not t["calibrated"]:
            continue
        columns, rows, matrices = (t["shape"] + [1, 1])[:3]
        state = "attn_output" in t["name"] or "ffn_down" in t["name"]
        rounding += columns * columns * rows * matrices * ((1 if state else 3) + 1 + 2 * SWEEPS)
        if site_of(t["name"]) in sites:
            continue
        sites.add(site_of(t["name"]))
        met = used / matrices if matrices > 1 else 1
        moments += met * matrices * columns * (columns + 2 * (rows if state else columns)) * TOKENS
        if matrices > 1:
            dealt += matrices * columns**3 / 3
        else:
            alike += columns**3 / 3
    products = calibration["gflop"] * 1e9 - moments - rounding - dealt - alike
    return products, moments, rounding, dealt, alike


def bytes_sent(tensors, used, ranks):
    """Return what a rank sends, about: inputs of its tokens, its share of the Hessians, and of blocks (docs/internals/ranks.md)."""
    sent, sites = 0, set()
    for t in tensors:
        if not t["calibrated"]:
            continue
        columns, rows, matrices = (t["shape"] + [1, 1])[:3]
        sent += t["out_bytes"] / ranks
        if site_of(t["name"]) in sites:
            continue
        sites.add(site_of(t["name"]))
        state = "attn_output" in t["name"] or "ffn_down" in t["name"]
        sent += 4 * TOKENS / ranks * used ** (matrices > 1) * (columns + (rows if state else columns) + 1)
        if matrices == 1:
            tiles, targets = -(-columns // 256), -(-(rows if state else columns) // 256)
            sent += 2**18 * (tiles * (tiles + 1) / 2 + tiles * targets) / ranks
    return sent if ranks > 1 else 0


def plan(command, model, ids, ranks):
    """Return the report of a dry run; each rank has a machine of 512 GB."""
    words = f"--dry-run --json -q --threads 1 --calibrate-ids {ids} --context {CONTEXT} --memory {512 * ranks}G {model} out.gguf Q4_K_M"
    found = subprocess.run(command + words.split(), stdout=subprocess.PIPE, check=True)
    return json.loads(found.stdout[found.stdout.index(b"{"):])


def main():
    """Print the table."""
    words = argparse.ArgumentParser()
    words.add_argument("build", type=Path)
    words.add_argument("--launch", default="mpirun -n")
    words.add_argument("--ranks", default="1,4,16,64")
    words.add_argument("--moments", type=float, default=0.91)
    words.add_argument("--root", type=float, default=0.53)
    words.add_argument("--rounding", type=float, default=0.65)
    asked = words.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ids = Path(folder) / "ids.txt"
        ids.write_text(" ".join(str(i * i * 31 % 60) for i in range(TOKENS)))
        for name, shape in MODELS.items():
            model = Path(folder) / "model.gguf"
            subprocess.run([asked.build / "make-model", "--sparse", *shape.split(), model], check=True)
            alone = {}
            for ranks in map(int, asked.ranks.split(",")):
                report = plan([*asked.launch.split(), str(ranks), str(asked.build / "gquant-mpi")], model, ids, ranks)
                c, tensors = report["calibration"], report["outputs"][0]["tensors"]
                products, moments, rounding, dealt, alike = kinds_of_work(c, tensors, 8 if "experts" in name else 1)
                shared = products + moments / asked.moments + rounding / asked.rounding + dealt / asked.root
                work = (shared / ranks + alike / asked.root) / RATE
                sent = bytes_sent(tensors, 8 if "experts" in name else 1, ranks)
                received, read = sent * (ranks - 1), model.stat().st_size
                print(f"{name}: {ranks} ranks, {c['gflop'] / 1e6:.3g} PFLOP (moments {moments / 1e15:.3g}, rounding {rounding / 1e15:.3g}, roots"
                      f" {(dealt + alike) / 1e15:.3g}), memory {c['memory_bytes'] / 1e9:.3g} GB, sent {sent / 1e9:.4g} GB,"
                      f" received {received / 1e9:.4g} GB")
                for gigabits in 10, 100:
                    seconds = work + (received + read) / (gigabits * 1e9 / 8)
                    alone.setdefault(gigabits, seconds * ranks)
                    print(f"    {gigabits} Gbit/s: {seconds / 3600:.3g} h, {100 * alone[gigabits] / ranks / seconds:.0f} %; work {work / 3600:.3g} h,"
                          f" of which roots made by all {alike / asked.root / RATE / 3600:.3g} h")


if __name__ == "__main__":
    main()
