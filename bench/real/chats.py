#!/usr/bin/env python3
"""Calibration data: one model with prose, chats and both, evaluated on chats and on prose.

    PYTHONPATH=python python3 bench/real/chats.py WORK --gquant build/gquant --peer build-peer --models smollm2 --types Q4_K_M

WORK, models and texts are those of run.py. Chats are the same conversations, eight and more of them after another as the
turns of one, rendered by gquant-chat with the model's own template; the assistant's tokens have weight 1, others --others. On
chats only assistant tokens are scored. A ratio is a KL divergence over that of llama.cpp's file with an imatrix from
prose; in brackets one standard error of the paired difference. Needs jinja2 and what run.py needs, and libgquant.so beside
--gquant.
"""
import argparse
import itertools
import json
import os
import pathlib
import subprocess
import sys

import material
import sides

HEADER = "#gquant-chats 1\n"


def jsonl(work, first, last):
    """Conversations of about 1,000 letters, as OpenAI's messages."""
    path, out, messages = work / "ids" / f"chats-{first}-{last}.jsonl", [], []
    for talk in material.conversations(work, first, last):
        for i, turn in enumerate(talk[:len(talk) // 2 * 2]):
            messages.append({"role": ["user", "assistant"][i % 2], "content": turn})
        if sum(len(m["content"]) for m in messages) > 1000:
            out.append(json.dumps({"messages": messages}))
            messages = []
    return material.write(path, "".join(line + "\n" for line in out))


def rendered(bench, name, first, last, others):
    path = bench.work / "ids" / f"{name}-chats-{first}-{last}-{others}.ids"
    if not path.exists():
        environment = dict(os.environ, GQUANT_LIBRARY=str(bench.gquant.parent / "libgquant.so"))
        template = material.MODELS[name].get("template")
        options = ["--template", material.write(path.with_suffix(".jinja"), template)] if template else []
        subprocess.run([sys.executable, "-m", "gquant.chat", bench.original(name), jsonl(bench.work, first, last), path,
                        "--others", str(others), *options], check=True, env=environment)
    return path


def conversations(path, tokens):
    """Lines of a file of chats or ids while they have at most so many tokens."""
    out = []
    for line in path.read_text().splitlines(True):
        words = line.split("#")[0].split()
        tokens -= sum(w[0] != "=" for w in words)
        if tokens < 0:
            break
        out += [line] if words else []
    return out


def data(bench, name, source, others):
    """A file of as many tokens as are calibrated on: of prose, of chats, or half of each by turns."""
    path = bench.work / "ids" / f"{name}-{source}-{others}-{bench.tokens}.chats"
    prose = material.tokens(bench.work, name, bench.gquant, "prose", False, bench.tokens)
    chats = rendered(bench, name, "a", "j", others)
    if source != "both":
        return material.write(path, HEADER + "".join(conversations({"prose": prose, "chats": chats}[source], bench.tokens)))
    halves = (conversations(f, bench.tokens // 2) for f in (prose, chats))
    return material.write(path, HEADER + "".join(line for pair in itertools.zip_longest(*halves, fillvalue="") for line in pair))


def make(bench, name, kind, side, source, others):
    """Makes the file of a side if it is not there: llama.cpp's with an imatrix, or gquant's with a calibration."""
    ids, model = data(bench, name, source, others), bench.original(name)
    out = bench.work / "files" / f"{name}-{kind}-{side}-{source}-{others}-{bench.tokens}.gguf"
    if side == "llama.cpp":
        def command(part):
            importance = part.with_suffix(".dat")
            material.run(bench.gquant, "imatrix", "compute", "-q", "--process-output", "--context", material.WINDOW, "--ids",
                         ids, model, importance)
            return bench.peer_command(model, part, kind, importance)
        return bench.make_by(out, command)
    calibrating = bench.calibrating(name, bench.tokens, ids)
    if side == "target":
        size = make(bench, name, kind, "llama.cpp", "prose", others).stat().st_size
        return bench.make_by(out, lambda part: ([*calibrating, "--target-size", size, model, part], None))
    return bench.make_by(out, lambda part: ([*calibrating, model, part, kind], None))


def column(evaluation, i):
    model, first = evaluation["models"][i], evaluation["models"][1]
    error = sum(d["error"] for d in evaluation["differences"] if {d["a"], d["b"]} == {1, i})
    return (f"{model['divergence']:.5f} | {model['divergence'] / first['divergence']:.3f} "
            f"({error / first['divergence']:.3f}) | {100 * model['same_top']:.1f}")


def table(bench, name, kind, evaluated, others, made):
    texts = [rendered(bench, name, "k", "z", 0), material.tokens(bench.work, name, bench.gquant, "prose", True, evaluated)]
    limited = bench.work / "ids" / f"{name}-judged-{evaluated}.chats"
    texts[0] = material.write(limited, HEADER + "".join(conversations(texts[0], evaluated)))
    files = [make(bench, name, kind, side, source, others) for side, source in made]
    evaluations = [bench.judge(name, ids, material.WINDOW, files) for ids in texts]
    print(f"\n{material.MODELS[name]['title']}, {kind}, {bench.tokens} tokens of data, of which others than the assistant's "
          f"count {others}; {evaluated} tokens judged of each\n")
    print("| side | data | bytes | chats: divergence | ratio | same top % | prose: divergence | ratio | same top % |\n"
          "|---|---|---|---|---|---|---|---|---|")
    for i, ((side, source), file) in enumerate(zip(made, files)):
        print(f"| {side} | {source} | {file.stat().st_size:,} | " + " | ".join(column(e, i + 1) for e in evaluations) + " |",
              flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("work", type=pathlib.Path)
    p.add_argument("--gquant", type=pathlib.Path, default=pathlib.Path("build/gquant"))
    p.add_argument("--peer", type=pathlib.Path, default=pathlib.Path("build-peer"))
    p.add_argument("--models", default="smollm2")
    p.add_argument("--types", default="Q4_K_M")
    p.add_argument("--sides", default="llama.cpp,calibrated,target")
    p.add_argument("--sources", default="prose,chats,both")
    p.add_argument("--tokens", type=int, default=16384, help="of data")
    p.add_argument("--others", type=float, default=0.0, help="what tokens count that are not the assistant's")
    p.add_argument("--evaluate", type=int, default=16384, help="tokens of chats and of prose")
    p.add_argument("--threads", type=int, default=2)
    a = p.parse_args()
    bench = sides.Bench(a.work.resolve(), a.gquant.resolve(), a.peer.resolve(), a.tokens, a.threads)
    made = [(side, source) for side in a.sides.split(",") for source in a.sources.split(",")]
    for name in a.models.split(","):
        for kind in a.types.split(","):
            table(bench, name, kind, a.evaluate, a.others, made)


if __name__ == "__main__":
    main()
