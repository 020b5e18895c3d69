#!/usr/bin/env python3
"""embeddings.py FORWARD_RUN MODEL.gguf FOLDER TEXT WINDOWS CONTEXT: embeddings of gquant's forward pass beside those of transformers.

FOLDER is the sentence transformer that MODEL.gguf was made of. TEXT is cut into windows of CONTEXT tokens, each with the ends that the folder's
tokenizer gives a text. GELU is the tanh form in both, as in llama.cpp. Prints the cosine distances, mean and largest.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from transformers import AutoConfig, AutoModel

run, model, folder, text, windows, context = sys.argv[1:]
folder, windows, context = pathlib.Path(folder), int(windows), int(context)
tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
tokenizer.no_truncation(), tokenizer.no_padding()
begin, *ids, end = tokenizer.encode(pathlib.Path(text).read_text()[:windows * context * 8]).ids
rows = np.array([[begin, *ids[i * (context - 2):(i + 1) * (context - 2)], end] for i in range(windows)])
config = AutoConfig.from_pretrained(folder)
if getattr(config, "hidden_act", "") == "gelu":
    config.hidden_act = "gelu_new"
with torch.no_grad():
    state = AutoModel.from_pretrained(folder, config=config, dtype=torch.float32, attn_implementation="eager").eval()(torch.tensor(rows)).last_hidden_state
    theirs = state.double().mean(1)
    for module in json.loads((folder / "modules.json").read_text()):
        if module["type"].endswith("Dense"):
            theirs = theirs @ load_file(folder / module["path"] / "model.safetensors")["linear.weight"].double().T
theirs = theirs.numpy()
with tempfile.TemporaryDirectory() as work:
    rows.astype("<u4").tofile(f"{work}/ids.u32")
    subprocess.run([run, model, f"{work}/ids.u32", str(rows.size), str(context), "2", "/dev/null", f"{work}/pooled"], check=True, stdout=subprocess.DEVNULL)
    ours = np.fromfile(f"{work}/pooled", "<f8").reshape(windows, -1)
a, b = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (ours, theirs))
far = ((a - b) ** 2).sum(1) / 2
print(f"{windows} windows of {context}: cosine distance {far.mean():.3g}, largest {far.max():.3g}; largest difference of a feature {np.abs(a - b).max():.3g}")
