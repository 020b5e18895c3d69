#!/usr/bin/env python3
"""Quantize a model to six types, run them on a text, and draw how far each is from the base model.

    size_against_divergence.py MODEL.gguf TEXT.txt [PICTURE.png] [--imatrix FILE] [--tokens N] [--ids]
"""

# %% What is asked for
import argparse
import pathlib
import sys
import tempfile

import gquant

TYPES = ["Q2_K", "Q3_K_M", "Q4_K_S", "Q4_K_M", "Q5_K_M", "Q6_K"]

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("model", type=pathlib.Path)
parser.add_argument("text", type=pathlib.Path)
parser.add_argument("picture", type=pathlib.Path, nargs="?", default="size-against-divergence.png")
parser.add_argument("--imatrix", type=pathlib.Path)
parser.add_argument("--tokens", type=int, default=8192)
parser.add_argument("--context", type=int, default=0)
parser.add_argument("--ids", action="store_true", help="the text is ids of tokens, with white space between them")
asked = parser.parse_args()


def show(p):
    if sys.stderr.isatty():
        print(f"\r{100 * p.share:3.0f} %", end="", file=sys.stderr)


# %% One reading of the model, six files
folder = tempfile.TemporaryDirectory(prefix="gquant-")
paths = [pathlib.Path(folder.name) / f"{name}.gguf" for name in TYPES]
reports = gquant.quantize(asked.model, paths, TYPES, imatrix=asked.imatrix, progress=show)
for report in reports:
    print(f"{report.file_type:8} {report.bits_per_weight:5.2f} bits per weight, relative error {report.loss.relative:.4f}")

# %% All of them side by side on the text
text = [int(i) for i in asked.text.read_text().split()] if asked.ids else asked.text.read_bytes()
found = gquant.evaluate(asked.model, *paths, text=text, tokens=asked.tokens, context=asked.context,
                        progress=show)
base, *quants = found.models
print(f"perplexity of the base model on {found.scored} tokens: {base.perplexity.value:.2f}")
for name, quant in zip(TYPES, quants):
    print(f"{name:8} KLD {quant.kld.value:.4g} +- {quant.kld.error:.2g}, "
          f"same top-1 token {100 * quant.top1_agreement.value:.1f} %")

# %% For the paper
print(found.to_latex())
print(found.provenance())

# %% The picture
import matplotlib  # noqa: E402  only here, as all before works without

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
found.plot(axes).set_title(f"{asked.model.name}, {found.scored} tokens; bars: two standard errors")
axes.grid(True, which="both", alpha=0.3)
axes.margins(x=0.12)
figure.savefig(asked.picture, dpi=150)
print(asked.picture)
