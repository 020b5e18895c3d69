"""What comparisons of gquant's forward pass with llama.cpp's share: how logits are compared, and the bounds they must keep."""
import os
import subprocess
import sys

SKIPPED = 77
try:
    import numpy as np
except ImportError:
    system = "/usr/bin/python3"  # where packages put numpy
    if sys.executable != system and os.access(system, os.X_OK):
        os.execv(system, [system, "-B", *sys.argv])
    sys.exit(print("skipped: needs numpy") or SKIPPED)

# Architectures with GELU, which llama.cpp looks up in a table of F16 values.
GELU = {"gemma", "gemma2", "gemma3", "starcoder2", "phi2", "falcon", "gptneox", "gpt2", "starcoder", "bloom", "mpt", "codeshell", "grok", "gemma4",
        "gemma3n", "spark2_5", "bert", "nomic-bert-moe", "jina-bert-v2", "jina-bert-v3", "gemma-embedding"}
# Those that give states in place of logits.
ENCODERS = {"bert", "nomic-bert", "nomic-bert-moe", "jina-bert-v2", "jina-bert-v3", "modern-bert", "neo-bert", "eurobert", "gemma-embedding", "llama-embed", "t5encoder"}
# An encoder with a decoder, and a model that the library ends on with fewer ids than 8196: golden_peer compares these.
CODERS = {"t5", "chameleon"}


def bound_of(architecture):
    """The mean KL divergence that tokens may have whose experts are the same, in nats"""
    return 1e-6 if architecture in GELU else 1e-9


def knows(folder, architecture):
    """Whether llama.cpp's library in a folder has an architecture: some are newer than its release."""
    with open(os.path.join(folder, "libllama.v0.5.0.so"), "rb") as f:
        return b"\0" + architecture.encode() + b"\0" in f.read()


def build_tools(shared, folder, *tools):
    """Compiles the shared material's programs that drive llama.cpp's library."""
    for tool in tools:
        subprocess.run(["cc", "-O2", shared / f"peer/{tool}.c", "-o", os.path.join(folder, tool), "-ldl", "-lm"], check=True)


def log_softmax(z):
    z = z - z.max(-1, keepdims=True)
    return z - np.log(np.exp(z).sum(-1, keepdims=True))


def divergence(reference, other, vocabulary):
    """(KL divergence of each token, the largest difference of logits in standard deviations) of two files"""
    a, b = (np.fromfile(p, "<f4").reshape(-1, vocabulary).astype("f8") for p in (reference, other))
    la, lb = log_softmax(a), log_softmax(b)
    return (np.exp(la) * (la - lb)).sum(1), np.abs(a - b).max() / a.std()


def flipped_tokens(kl, architecture):
    """Which tokens differ so much that the smallest difference must have changed a choice of experts"""
    return kl > (1e-4 if architecture in GELU else 1e-6)
