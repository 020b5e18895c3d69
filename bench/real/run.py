#!/usr/bin/env python3
"""Published models compared with llama.cpp: fetches, prepares, makes all files, measures, prints tables.

    python3 bench/real/run.py WORK --gquant build/gquant --peer build-peer

WORK is a folder outside the repository: packages, models, files and scores stay there, and existing files are kept,
so that a repeated command resumes. Needs numpy and gguf (pip install numpy gguf), npm and apt-get; --peer is
a folder that ../shared/peer/setup.sh has filled.

A base model is its published file in 16 bits with noise of half a step (material.py says why). Each side gets the same
--tokens tokens of mixed text: prose, code, French and chats by turns. It is evaluated on other documents of each kind.
A side's ratio is its KL divergence over llama.cpp's, means over all kinds; in brackets one standard error of
the paired difference.
"""
import argparse
import json
import math
import pathlib

import material
import sides


def pooled(evaluations, i):
    """Means over kinds of text of the i-th file's KL divergence and of the error of its difference from the first's."""
    n = len(evaluations)
    divergence = sum(e["models"][i]["divergence"] for e in evaluations) / n
    error = 0.0
    for e in evaluations:
        error += sum(d["error"] ** 2 for d in e["differences"] if {d["a"], d["b"]} == {1, i})
    return divergence, math.sqrt(error) / n


def by_kind(evaluations, i):
    """The i-th file's KL divergence over the first's, for each kind of text."""
    return ", ".join(f"{e['models'][i]['divergence'] / e['models'][1]['divergence']:.2f}" for e in evaluations)


def row(evaluations, i, side, file):
    def mean(key):
        return sum(e["models"][i][key] for e in evaluations) / len(evaluations)

    first, _ = pooled(evaluations, 1)
    divergence, error = pooled(evaluations, i)
    cost = json.loads(file.with_suffix(".json").read_text())
    return (f"| {side} | {cost['bytes']:,} | {divergence:.5f} | {divergence / first:.3f} ({error / first:.3f}) | "
            f"{mean('divergence_median'):.5f} | {mean('divergence_99'):.4f} | {mean('divergence_99_9'):.3f} | "
            f"{100 * mean('same_top'):.2f} | {mean('perplexity_ratio'):.4f} | {by_kind(evaluations, i)} | {cost['cpu']:.0f} | "
            f"{cost['memory'] / 2 ** 20:.0f} |")


def table(bench, name, kind, window, tokens, wanted):
    files = [(side, bench.make(name, kind, side)) for side in wanted]
    evaluations = [bench.evaluate(name, text, window, tokens, [f for _, f in files]) for text in material.KINDS]
    print(f"\n{material.MODELS[name]['title']}, {kind}, windows of {window}, {tokens} tokens of each of "
          f"{', '.join(material.KINDS)}; calibrated on {bench.tokens} tokens of {', '.join(bench.kinds)}\n")
    print("| side | bytes | divergence | ratio | median | 99 % | 99.9 % | same top % | perplexity | by kind | "
          "seconds of processors | MiB |\n|---|---|---|---|---|---|---|---|---|---|---|---|")
    for i, (side, file) in enumerate(files):
        print(row(evaluations, i + 1, side, file), flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("work", type=pathlib.Path)
    p.add_argument("--gquant", type=pathlib.Path, default=pathlib.Path("build/gquant"))
    p.add_argument("--peer", type=pathlib.Path, default=pathlib.Path("build-peer"))
    p.add_argument("--models", default=",".join(material.MODELS))
    p.add_argument("--types", default="Q2_K,IQ2_M,Q3_K_M,Q4_K_M,Q6_K")
    p.add_argument("--sides", default=",".join(sides.SIDES[:3]), help=f"the first is llama.cpp; of {', '.join(sides.SIDES)}")
    p.add_argument("--tokens", type=int, default=65536, help="to calibrate on")
    p.add_argument("--kinds", default=",".join(material.KINDS), help="of text to calibrate on; it is evaluated on all of them")
    p.add_argument("--evaluate", type=int, default=16384, help="tokens of each kind of text")
    p.add_argument("--windows", default="512,2048", help="to evaluate in")
    p.add_argument("--threads", type=int, default=2)
    a = p.parse_args()
    bench = sides.Bench(a.work.resolve(), a.gquant.resolve(), a.peer.resolve(), a.tokens, a.threads, a.kinds.split(","))
    for name in a.models.split(","):
        for kind in a.types.split(","):
            for window in a.windows.split(","):
                table(bench, name, kind, int(window), a.evaluate, a.sides.split(","))


if __name__ == "__main__":
    main()
