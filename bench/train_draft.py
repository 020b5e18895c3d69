#!/usr/bin/env python3
"""train_draft.py GGUF_PY TEXT_FOLDER OUT_FOLDER SECONDS: trains a small model with an MTP layer, for bench/results/prediction-blocks.md

The model is of architecture hy_v3 without experts: 256 wide, 2 layers and an MTP layer, 8 heads on 2, bytes as tokens. It is trained on the files *.py
below TEXT_FOLDER, for so many seconds: on the next byte and, with a weight of 0.3, on the MTP layer's prediction. Writes model-F16.gguf, and held-out.txt
and text.txt with ids of bytes that it has not seen. Python needs torch; GGUF_PY is llama.cpp's gguf-py.
"""
import math
import pathlib
import random
import sys
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

WIDTH, LAYERS, HEADS, KV, HEAD, FF, WORDS, WINDOW, BATCH = 256, 2, 8, 2, 32, 512, 256, 128, 6
EPS, BASE = 1e-5, 10000.0


class Norm(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(n))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPS) * self.weight


def turned(x):
    """Rope over halves of a head: x[batch, head, token, feature]"""
    n = x.shape[-1] // 2
    angle = torch.arange(x.shape[-2])[:, None] * BASE ** (-torch.arange(n) / n)[None]
    a, b, c, s = x[..., :n], x[..., n:], angle.cos(), angle.sin()
    return torch.cat((a * c - b * s, a * s + b * c), -1)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        linear = lambda i, o: nn.Linear(i, o, bias=False)
        self.attn_norm, self.ffn_norm, self.attn_q_norm, self.attn_k_norm = Norm(WIDTH), Norm(WIDTH), Norm(HEAD), Norm(HEAD)
        self.attn_q, self.attn_k, self.attn_v = linear(WIDTH, HEADS * HEAD), linear(WIDTH, KV * HEAD), linear(WIDTH, KV * HEAD)
        self.attn_output = linear(HEADS * HEAD, WIDTH)
        self.ffn_gate, self.ffn_up, self.ffn_down = linear(WIDTH, FF), linear(WIDTH, FF), linear(FF, WIDTH)

    def forward(self, x):
        y = self.attn_norm(x)
        heads = lambda z, n: z.view(*x.shape[:2], n, HEAD).transpose(1, 2)
        q = turned(self.attn_q_norm(heads(self.attn_q(y), HEADS)))
        k, v = turned(self.attn_k_norm(heads(self.attn_k(y), KV))), heads(self.attn_v(y), KV)
        k, v = k.repeat_interleave(HEADS // KV, 1), v.repeat_interleave(HEADS // KV, 1)
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(*x.shape[:2], HEADS * HEAD)
        x = x + self.attn_output(o)
        y = self.ffn_norm(x)
        return x + self.ffn_down(F.silu(self.ffn_gate(y)) * self.ffn_up(y))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.token_embd, self.output = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WORDS, bias=False)
        self.output_norm, self.blk = Norm(WIDTH), nn.ModuleList(Block() for _ in range(LAYERS + 1))
        self.enorm, self.hnorm, self.shared_head_norm, self.eh_proj = Norm(WIDTH), Norm(WIDTH), Norm(WIDTH), nn.Linear(2 * WIDTH, WIDTH, bias=False)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.05)

    def forward(self, ids):
        embedded = x = self.token_embd(ids)
        for block in self.blk[:LAYERS]:
            x = block(x)
        h = self.output_norm(x)
        before = F.pad(h, (0, 0, 1, 0))[:, :-1]
        draft = self.eh_proj(torch.cat((self.enorm(embedded), self.hnorm(before)), -1))
        return self.output(h), self.output(self.shared_head_norm(self.blk[LAYERS](draft)))


def write(model, path, gguf_py):
    sys.path.insert(0, gguf_py)
    import gguf

    w = gguf.GGUFWriter(str(path), "hy_v3")
    w.add_block_count(LAYERS + 1), w.add_context_length(4096), w.add_embedding_length(WIDTH), w.add_feed_forward_length(FF)
    w.add_head_count(HEADS), w.add_head_count_kv(KV), w.add_key_length(HEAD), w.add_value_length(HEAD), w.add_vocab_size(WORDS)
    w.add_layer_norm_rms_eps(EPS), w.add_rope_freq_base(BASE), w.add_rope_dimension_count(HEAD), w.add_leading_dense_block_count(LAYERS + 1)
    w.add_uint32("hy_v3.nextn_predict_layers", 1), w.add_file_type(1)
    for name, p in model.named_parameters():
        parts = name.split(".")
        name = f"blk.{LAYERS}.nextn.{name}" if parts[0] in ("enorm", "hnorm", "shared_head_norm", "eh_proj") else name
        w.add_tensor(name, p.detach().numpy().astype(np.float16 if p.dim() > 1 else np.float32))
    w.write_header_to_file(), w.write_kv_data_to_file(), w.write_tensors_to_file(), w.close()


def main():
    gguf_py, folder, out, seconds = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]), float(sys.argv[4])
    torch.manual_seed(1), random.seed(1), torch.set_num_threads(1)
    files = sorted(folder.rglob("*.py"))
    random.shuffle(files)
    data = [f.read_bytes() for f in files if f.stat().st_size > 2000]
    kept = b"\n".join(data[:40])
    text = np.frombuffer(b"\n".join(data[40:]), np.uint8)
    for name, part in (("held-out.txt", kept[:120000]), ("text.txt", kept[120000:400000])):
        (out / name).write_text(" ".join(map(str, part)) + "\n")
    model, began, step = Model(), time.time(), 0
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.98), weight_decay=0.1)
    while (share := (time.time() - began) / seconds) < 1:
        at = np.random.default_rng(step).integers(0, len(text) - WINDOW - 2, BATCH)
        ids = torch.tensor(np.stack([text[i:i + WINDOW + 1] for i in at]).astype(np.int64))
        for group in optimizer.param_groups:
            group["lr"] = 3e-3 * min(1, (step + 1) / 50) * (0.02 + 0.98 * (1 + math.cos(math.pi * share)) / 2)
        z, d = model(ids[:, :-1])
        loss, more = F.cross_entropy(z.flatten(0, 1), ids[:, 1:].flatten()), F.cross_entropy(d.flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad(), (loss + 0.3 * more).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step += 1
        if step % 50 == 0:
            same = (z.argmax(-1) == d.argmax(-1)).float().mean()
            print(f"step {step}: loss {loss.item():.3f}, block {more.item():.3f}, accepted {same.item():.3f}", flush=True)
    write(model, out / "model-F16.gguf", gguf_py)
    print(f"{step} steps of {BATCH * WINDOW} bytes, of {len(text)}", flush=True)


main()
