"""Quantize GGUF models and measure what is lost: libgquant for Python.

    import gquant

    report = gquant.quantize("model-F16.gguf", "model-Q4_K_M.gguf", "Q4_K_M", imatrix="imatrix.gguf")
    print(report.loss.relative, report.bits_per_weight)
    print(gquant.evaluate("model-F16.gguf", "model-Q4_K_M.gguf", text=open("held-out.txt").read()).models[1].divergence)

    blocks = gquant.encode(weights, "Q4_K")          # codecs without files
    with gquant.Model("model-F16.gguf") as model:    # files as objects
        model["output.weight"].read()

What the library refuses is raised as Error or one of its subclasses: UsageError, BadWeights, Cancelled. Sizes are in
bytes, counts in elements. Where an argument `threads` is 0, each processor core gets one thread; results do not depend
on the number of threads.
"""

from ._interruptible import Progress
from ._library import (
    AlreadyThere, BadWeights, Cancelled, Error, NotAllowed, NotFound, UsageError, library, text_of,
)
from .arrays import FileType, Loss, TensorType, decode, dot, encode, file_types, tensor_type, types
from .evaluations import Chosen, Continued, Drafted, Estimate, Evaluated, Evaluation, Interval, evaluate
from .imatrices import Entry, Imatrix
from .models import Draft, Metadata, Model, ModelFacts, Origin, Tensor, Tokenizer
from .plans import Choice, CurvePoint, Plan, Published, PublishedFile, plan, publish
from .runs import Compared, Quantized, QuantizedTensor, Reports, Verified, compare, quantize, verify

__version__ = text_of(library.gq_version())


def isa() -> str:
    """Return the instruction set that the kernels use on this processor, such as "x86-64-v3".

    Raises UsageError where the environment variable GQUANT_ISA names a level that is unknown or that the processor
    lacks, or where the processor has none of the levels that are built in.
    """
    level = library.gq_isa()
    if not level:
        raise UsageError("GQUANT_ISA names a level that is unknown or that this processor lacks, or it lacks SSE4.2")
    return text_of(level)


__all__ = [
    "AlreadyThere", "BadWeights", "Cancelled", "Choice", "Chosen", "Compared", "Continued", "CurvePoint", "Draft", "Drafted", "Entry", "Error", "Estimate",
    "Evaluated", "Evaluation", "FileType", "Imatrix", "Interval", "Loss", "Metadata", "Model", "ModelFacts", "NotAllowed", "NotFound",
    "Origin", "Plan", "Progress", "Published", "PublishedFile", "Quantized", "QuantizedTensor", "Reports", "Tensor",
    "TensorType", "Tokenizer", "UsageError", "Verified", "compare", "decode", "dot", "encode", "evaluate", "file_types",
    "isa", "plan", "publish", "quantize", "tensor_type", "types", "verify",
]
