"""AutoRound's own GGUF: autoround.py FOLDER IDS TOKENS TYPE OUT ITERATIONS [RATE]. Needs auto-round and torch.

IDS is a file of token ids, a window a line, as the other sides have it. TYPE is a file type. With 0 ITERATIONS, which
its makers advise for GGUF, scales are searched with importance and nothing is tuned. RATE is that of the tuning, or `ext`:
its makers' own, with their algorithm extension, in bf16. Else weights and activations stay in float32.
"""
import pathlib
import shutil
import sys

import auto_round
import torch
import transformers


def main(folder, ids, tokens, kind, out, iterations, *rate):
    torch.set_num_threads(2)
    lines = pathlib.Path(ids).read_text().splitlines()
    windows = torch.tensor([[int(i) for i in line.split()] for line in lines])
    windows = windows[:int(tokens) // windows.shape[1]]
    extended = rate == ("ext",)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16 if extended else torch.float32)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    scheme = f"gguf:{kind.lower()}"
    batches = [{"input_ids": w[None], "attention_mask": torch.ones_like(w[None])} for w in windows]
    tuning = {"iters": int(iterations), "amp": extended}
    if rate:
        tuning |= {"enable_alg_ext": True} if extended else {"lr": float(rate[0])}
    rounding = auto_round.AutoRound(
        model, tokenizer, scheme=scheme, dataset=batches, nsamples=len(batches), seqlen=windows.shape[1],
        device_map="cpu", enable_torch_compile=False, **tuning)
    making = pathlib.Path(out).with_suffix(".making")
    rounding.quantize_and_save(str(making), format=scheme)
    shutil.move(next(making.rglob("*.gguf")), out)
    shutil.rmtree(making)


if __name__ == "__main__":
    main(*sys.argv[1:])
