"""Quantize GGUF models and measure what is lost: libgquant for Python.

    import gquant

    report = gquant.quantize("model-F16.gguf", "model-Q4_K_M.gguf", "Q4_K_M", imatrix="imatrix.gguf")
    print(report.loss.relative, report.bits_per_weight)
    print(gquant.evaluate("model-F16.gguf", "model-Q4_K_M.gguf", text=open("held-out.txt").read()).models[1].kld)

    blocks = gquant.encode(weights, "Q4_K")          # codecs without files
    with gquant.Model("model-F16.gguf") as model:    # files as objects
        model["output.weight"].read()

What the library refuses is raised as Error or one of its subclasses: UsageError, BadWeights, Cancelled. Sizes are in
bytes, counts in elements. Where an argument `threads` is 0, each processor core gets one thread; results do not depend
on the number of threads.
"""

import importlib
import typing

from ._errors import AlreadyThere, BadWeights, Cancelled, Error, NotAllowed, NotFound, UsageError
from ._library import library, text_of

# Modules and their names, which are imported when they are first asked for: numpy takes longer than all else.
_NAMES = {
    "_interruptible": "Progress",
    "_pages": "Reports",
    "arrays": "FileType Loss TensorType decode dot encode file_types tensor_type types",
    "chat": "",
    "texts": "sample_text",
    "evaluations": "Chosen Continued Drafted Estimate Evaluated Evaluation Interval evaluate",
    "imatrices": "Entry Imatrix",
    "models": "Draft GGUFBuilder Metadata Model ModelFacts Origin Tensor Tokenizer",
    "plans": "Choice CurvePoint Plan Published PublishedFile plan publish",
    "runs": "Compared Quantized QuantizedTensor Verified compare quantize verify",
}

if typing.TYPE_CHECKING:
    from ._interruptible import Progress as Progress
    from ._pages import Reports as Reports
    from .arrays import *
    from .evaluations import *
    from .imatrices import *
    from .models import *
    from .plans import *
    from .runs import *
    from .texts import *


def __getattr__(name: str) -> typing.Any:
    if name in _NAMES:
        return importlib.import_module(f".{name}", __name__)
    module = next((module for module, names in _NAMES.items() if name in names.split()), None)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(f".{module}", __name__), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


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


__all__ = [  # pyright: ignore[reportUnsupportedDunderAll]
    "AlreadyThere", "BadWeights", "Cancelled", "Error", "NotAllowed", "NotFound", "UsageError", "isa",
    *[name for names in _NAMES.values() for name in names.split()],
]
