#!/usr/bin/env python3
"""KL divergence and time of a calibration by tokens and steps, on a published model: one line per way.

    python3 bench/real/curve.py WORK --gquant build/gquant --peer build-peer --models smollm2 --types Q4_K_M

WORK, models, texts and the evaluation are those of run.py. A way is a number of tokens and options of gquant, as in
--ways "16384;16384 --calibrate-steps -trials;4096 --effort fast". Each way's ratio is its KL divergence over llama.cpp's with
an imatrix from --importance tokens; in brackets one standard error of the paired difference.
"""
import argparse
import hashlib
import json
import pathlib

import material
import run
import sides

WAYS = ";".join([*(str(1 << n) for n in range(11, 17)), *(f"16384 {options}" for options in [
    "--calibrate-steps -trials", "--calibrate-steps -sweeps", "--calibrate-steps -trials,-sweeps",
    "--calibrate-steps -rows", "--calibrate-steps -random", "--calibrate-steps -embedding", "--effort fast",
    "--effort best"])])


def make(bench, name, kind, way):
    """Makes the file of a way if it is not there. Returns its path."""
    tokens, *options = way.split()
    out = bench.work / "files" / f"{name}-{kind}-{tokens}-{hashlib.sha256(way.encode()).hexdigest()[:12]}.gguf"
    return bench.make_by(out, lambda part: ([*bench.calibrating(name, tokens), *options, bench.original(name), part, kind], None))


def table(bench, name, kind, window, tokens, ways):
    files = [bench.make(name, kind, "llama.cpp")] + [make(bench, name, kind, way) for way in ways]
    evaluations = [bench.evaluate(name, text, window, tokens, files) for text in material.KINDS]
    first, _ = run.pooled(evaluations, 1)
    print(f"\n{material.MODELS[name]['title']}, {kind}, windows of {window}, {tokens} tokens of each kind of text\n")
    print("| tokens | options | ratio | by kind | seconds of processors | MiB |\n|---|---|---|---|---|---|")
    for i, way in enumerate(ways):
        divergence, error = run.pooled(evaluations, i + 2)
        cost = json.loads(files[i + 1].with_suffix(".json").read_text())
        asked, _, options = way.partition(" ")
        print(f"| {asked} | {options} | {divergence / first:.3f} ({error / first:.3f}) | {run.by_kind(evaluations, i + 2)} | {cost['cpu']:.0f} | "
              f"{cost['memory'] / 2 ** 20:.0f} |", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("work", type=pathlib.Path)
    p.add_argument("--gquant", type=pathlib.Path, default=pathlib.Path("build/gquant"))
    p.add_argument("--peer", type=pathlib.Path, default=pathlib.Path("build-peer"))
    p.add_argument("--models", default="smollm2")
    p.add_argument("--types", default="Q4_K_M")
    p.add_argument("--ways", default=WAYS)
    p.add_argument("--importance", type=int, default=65536, help="tokens of llama.cpp's importance data")
    p.add_argument("--evaluate", type=int, default=8192, help="tokens of each kind of text")
    p.add_argument("--window", type=int, default=512, help="to evaluate in")
    p.add_argument("--threads", type=int, default=2)
    a = p.parse_args()
    bench = sides.Bench(a.work.resolve(), a.gquant.resolve(), a.peer.resolve(), a.importance, a.threads)
    for name in a.models.split(","):
        for kind in a.types.split(","):
            table(bench, name, kind, a.window, a.evaluate, a.ways.split(";"))


if __name__ == "__main__":
    main()
