"""The base model as a Hugging Face folder: folder.py GGUF FOLDER. Needs torch, transformers and gguf.

transformers reads the GGUF and writes the folder. It knows nothing of the pre-tokenizer that a GGUF names, so that of
smollm, which cuts digits apart, is put into the tokenizer here; converters recognize a vocabulary by its tokens of a test text.
"""
import pathlib
import sys

import gguf
import tokenizers
import torch
import transformers


def main(original, folder):
    where = {"gguf_file": original.name}
    model = transformers.AutoModelForCausalLM.from_pretrained(
        original.parent, dtype=torch.float32, quantization_config=transformers.GgufConfig(dequantize=True), **where)
    tokenizer = transformers.AutoTokenizer.from_pretrained(original.parent, **where)
    pre = gguf.GGUFReader(original).fields.get("tokenizer.ggml.pre")
    if pre and pre.contents() == "smollm":
        steps = [tokenizers.pre_tokenizers.Digits(individual_digits=True),
                 tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)]
        tokenizer.backend_tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Sequence(steps)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


if __name__ == "__main__":
    main(*map(pathlib.Path, sys.argv[1:]))
