"""GPTQ's int4 by gptqmodel: gptq.py FOLDER IDS TOKENS METHOD OUT COMMAND... Needs gptqmodel and torch.

IDS is a file of token ids, a window a line. METHOD is gptq or gptaq. Groups of 32 with a scale and no zero point, as Q4_0
has them, columns in the file's order, weights and activations in float32. OUT is a folder in GPTQ's form; paths are whole ones.
COMMAND, which makes a file of it, is run at the end.
"""
import os
import pathlib
import subprocess
import sys

os.environ.setdefault("GPTQMODEL_CPU_WORKERS", "2")  # with one, which it takes for itself on two cores, it does not load
import gptqmodel  # noqa: E402
import torch  # noqa: E402


def main(folder, ids, tokens, method, out, *command):
    os.chdir(pathlib.Path(out).parent)  # where it writes its logs
    torch.set_num_threads(2)
    windows = [[int(i) for i in line.split()] for line in pathlib.Path(ids).read_text().splitlines()]
    windows = windows[:int(tokens) // len(windows[0])]
    examples = [{"input_ids": w, "attention_mask": [1] * len(w)} for w in windows]
    extra = {"gptaq": gptqmodel.quantization.config.GPTAQConfig()} if method == "gptaq" else {}
    settings = gptqmodel.QuantizeConfig(bits=4, group_size=32, sym=True, desc_act=False, act_group_aware=False, **extra)
    model = gptqmodel.GPTQModel.load(folder, settings, device="cpu", dtype=torch.float32)
    model.quantize(examples, batch_size=1)
    model.save(out)
    subprocess.run(command, check=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
