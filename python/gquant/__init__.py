"""Quantize GGUF models, and tell what was lost: libgquant for Python.

    import gquant

    report = gquant.quantize("model-F16.gguf", "model-Q4_K_M.gguf", "Q4_K_M", imatrix="imatrix.gguf")
    print(report.loss.relative, report.bits_per_weight)
    print(gquant.evaluate("model-F16.gguf", "model-Q4_K_M.gguf", text=open("held-out.txt").read()).models[1].divergence)

    blocks = gquant.encode(weights, "Q4_K")          # codecs without files
    with gquant.Model("model-F16.gguf") as model:    # files as objects
        model["output.weight"].read()
"""

from ._interruptible import Progress
from ._library import BadWeights, Cancelled, Error, UsageError, library, text_of
from .arrays import FileType, Loss, TensorType, decode, dot, encode, file_types, tensor_type, types
from .imatrices import Entry, Imatrix
from .models import Draft, Metadata, Model, ModelFacts, Tensor, Tokenizer
from .runs import (
    Compared, Estimate, Evaluated, Evaluation, Quantized, QuantizedTensor, Verified, compare, evaluate, quantize,
    verify,
)

__version__ = text_of(library.gq_version())


def isa() -> str:
    """The level of this CPU's instructions that kernels use: "x86-64-v3", ..."""
    level = library.gq_isa()
    if not level:
        raise UsageError("GQUANT_ISA names a level that is unknown or that this processor lacks, or it lacks SSE4.2")
    return text_of(level)


__all__ = [
    "BadWeights", "Cancelled", "Compared", "Draft", "Entry", "Error", "Estimate", "Evaluated", "Evaluation", "FileType",
    "Imatrix", "Loss", "Metadata", "Model", "ModelFacts", "Progress", "Quantized", "QuantizedTensor", "Tensor",
    "TensorType", "Tokenizer", "UsageError", "Verified", "compare", "decode", "dot", "encode", "evaluate",
    "file_types", "isa", "quantize", "tensor_type", "types", "verify",
]
