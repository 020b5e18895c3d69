"""What the command does: quantize, compare, verify, evaluate. Reports are dataclasses, and their to_dict()
plain dictionaries."""

from __future__ import annotations

import ctypes
import dataclasses
from ctypes import byref, c_void_p
from typing import Any, Callable, Mapping, Optional, Sequence, Union

import numpy as np
import numpy.typing as npt

from ._interruptible import Progress, interruptible
from ._library import (
    UsageError, c_number, c_text, check, gq_calibration, gq_checksum, gq_comparison_request, gq_error, gq_estimate,
    gq_evaluation_request, gq_list, gq_options, gq_output, gq_target, gq_tensor, gq_text, library,
    listed, optional_path, path_bytes, strings, text_of, texts,
)
from .arrays import EFFORTS, Effort, Loss, loss_of
from .models import Path

ProgressCallback = Callable[[Progress], Any]
_COVERAGE = ("unused", "missing", "full")


class Report:
    """What a call has found."""

    def to_dict(self) -> dict[str, Any]:
        """As plain dictionaries and lists."""
        return dataclasses.asdict(self)  # type: ignore[call-overload]


# ---- quantizing ----


@dataclasses.dataclass(frozen=True)
class QuantizedTensor(Report):
    """A tensor from one type to another, and what that did to it; loss.n is 0 where it was kept."""

    name: str
    shape: tuple[int, ...]
    source_type: str
    type: str
    why: str
    source_bytes: int
    bytes: int
    importance: str
    loss: Optional[Loss]


@dataclasses.dataclass(frozen=True)
class Quantized(Report):
    """An output of quantize()."""

    path: str
    file_type: str
    file_bytes: int
    tensor_bytes: int
    n_weights: int
    tensors: list[QuantizedTensor]
    warnings: list[str]
    seconds: float

    @property
    def bits_per_weight(self) -> float:
        return 8 * self.tensor_bytes / self.n_weights if self.n_weights else 0.0

    @property
    def loss(self) -> Loss:
        """Of all tensors together."""
        of = [t.loss for t in self.tensors if t.loss]
        return Loss(sum(l.n for l in of), sum(l.x2 for l in of), sum(l.e2 for l in of), sum(l.wx2 for l in of),
                    sum(l.we2 for l in of), max((l.max_error for l in of), default=0.0), 0)


def _tensor(t: gq_tensor, loss: Optional[Loss]) -> QuantizedTensor:
    return QuantizedTensor(
        text_of(t.name), tuple(t.ne[i] for i in range(t.n_dims))[::-1],
        text_of(library.gq_type_name(getattr(t, "from"))), text_of(library.gq_type_name(t.to)), text_of(t.why),
        t.in_bytes, t.out_bytes, _COVERAGE[t.importance], loss)


def _list_of(items: Sequence[str]) -> gq_list:
    raw = [items] if isinstance(items, str) else items
    return gq_list(items=strings([c_text(item) for item in raw]), n=len(raw))


def _several(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


_LISTS = ("tensor_types", "keep", "include_weights", "exclude_weights", "override_kv", "transpose")
_TEXTS = ("output_tensor_type", "token_embedding_type", "missing_importance", "prune_layers")
_SWITCHES = ("pure", "strict", "force", "allow_requantize", "leave_output_tensor", "keep_split")
_NUMBERS = ("split_max_size", "sync_ms")


def quantize(
    input: Path, output: Union[Path, Sequence[Path], None] = None,
    type: Union[str, Sequence[str], None] = None, *,
    target_size: Optional[int] = None, target_bpw: Optional[float] = None,
    imatrix: Optional[Path] = None, calibration: Union[str, bytes, npt.ArrayLike, None] = None, effort: Effort = "default", threads: int = 0, dry_run: bool = False,
    progress: Optional[ProgressCallback] = None, **options: Any,
) -> Union[Quantized, list[Quantized]]:
    """Quantize a GGUF model, and tell what was lost.

    output and type may be lists: several files from one reading, and a list of reports. In place of a type,
    target_size (bytes) or target_bpw choose one per tensor. Without output the name is the input's with the type.
    dry_run: only the plan; its losses are None.

    calibration: a text (or ids of tokens) that the model is run on, so that what is lost in one column the following
    ones make good; not beside imatrix.

    progress is called with a Progress now and then; where it returns False the work stops with Cancelled.
    KeyboardInterrupt stops it, too, and leaves no half file: the same call goes on from what is done.

    Other options are those of gq_options: pure, strict, force, allow_requantize, leave_output_tensor, keep_split,
    output_tensor_type, token_embedding_type, missing_importance, prune_layers, tensor_types, keep, include_weights,
    exclude_weights, override_kv, transpose (lists), split_max_size, sync_ms.
    """
    kinds, paths = _several(type), _several(output)
    many = len(kinds) > 1 or len(paths) > 1 or isinstance(type, (list, tuple)) or isinstance(output, (list, tuple))
    if len(paths) == 1:
        paths *= len(kinds)
        if len(kinds) > 1 and paths[0] is not None:
            raise UsageError(f"{len(kinds)} types and one output")
    if len(kinds) != len(paths):
        raise UsageError(f"{len(kinds)} types and {len(paths)} outputs")
    target = gq_target(target_size or 0, target_bpw or 0.0)
    outputs = (gq_output * len(kinds))(
        *[gq_output(optional_path(p), c_text(k) if k is not None else None, target) for p, k in zip(paths, kinds)])
    asked = gq_options(
        size=ctypes.sizeof(gq_options), input=path_bytes(input), outputs=outputs, n_outputs=len(outputs),
        imatrix=optional_path(imatrix), threads=threads, dry_run=dry_run, measure_file=b"")
    if calibration is not None:
        asked.calibration = ctypes.pointer(gq_calibration(
            size=ctypes.sizeof(gq_calibration), text=text_request(calibration, 0, 0, False, "calibration")))
    try:
        asked.effort = EFFORTS[effort]
    except KeyError:
        raise UsageError(f"effort {effort!r} is none of {', '.join(EFFORTS)}") from None
    for name, value in options.items():
        if name not in _LISTS + _TEXTS + _SWITCHES + _NUMBERS:
            raise TypeError(f"quantize() has no option {name!r}")
        if value is not None:
            setattr(asked, name, _list_of(value) if name in _LISTS else c_text(value) if name in _TEXTS else value)
    reports = interruptible(lambda callbacks: _quantize(asked, callbacks), progress)
    return reports if many else reports[0]


def _quantize(asked: gq_options, callbacks: Any) -> list[Quantized]:
    e = gq_error()
    asked.callbacks = callbacks
    plan = c_void_p(check(library.gq_plan_new(byref(asked), byref(e)), e))
    results = c_void_p()
    try:
        if not asked.dry_run:
            check(library.gq_run(plan, callbacks, byref(results), byref(e)), e)
        return [_quantized(plan, results, i) for i in range(library.gq_plan_outputs(plan))]
    finally:
        library.gq_results_free(results)
        library.gq_plan_free(plan)


def _quantized(plan: c_void_p, results: c_void_p, i: int) -> Quantized:
    s = library.gq_plan_summary(plan, i).contents
    tensors = listed(library.gq_plan_tensors, plan, i)
    warnings = texts(library.gq_plan_warnings, plan)
    losses: list[Optional[Loss]] = [None] * len(tensors)
    seconds = 0.0
    if results:
        losses = [loss_of(l) for l in listed(library.gq_results_losses, results, i)]
        warnings += texts(library.gq_results_warnings, results)
        seconds = library.gq_results_progress(results).contents.seconds
    return Quantized(text_of(s.path), text_of(s.filetype), s.file_bytes, s.out_bytes, s.n_weights,
                     [_tensor(t, l) for t, l in zip(tensors, losses)], warnings, seconds)


# ---- comparing and verifying ----


@dataclasses.dataclass(frozen=True)
class Compared(Report):
    """How far a copy's weights are from the original's."""

    path: str
    file_type: str
    file_bytes: int
    tensors: list[QuantizedTensor]
    warnings: list[str]


def compare(original: Path, *copies: Path, imatrix: Optional[Path] = None, threads: int = 0,
            progress: Optional[ProgressCallback] = None) -> list[Compared]:
    """How far copies are from the original, tensor by tensor, whatever types they have and whoever wrote them."""
    asked = gq_comparison_request(
        size=ctypes.sizeof(gq_comparison_request), original=path_bytes(original),
        copies=strings([path_bytes(c) for c in copies]), n_copies=len(copies), imatrix=optional_path(imatrix),
        threads=threads)

    def call(callbacks: Any) -> list[Compared]:
        e = gq_error()
        asked.callbacks = callbacks
        found = c_void_p(check(library.gq_compare(byref(asked), byref(e)), e))
        try:
            warnings = texts(library.gq_comparison_warnings, found)
            return [_compared(found, i, warnings) for i in range(len(copies))]
        finally:
            library.gq_comparison_free(found)

    return interruptible(call, progress)


def _compared(found: c_void_p, i: int, warnings: list[str]) -> Compared:
    s = library.gq_comparison_summary(found, i).contents
    losses = library.gq_comparison_losses(found, i)
    tensors = listed(library.gq_comparison_tensors, found, i)
    return Compared(text_of(s.path), text_of(s.filetype), s.file_bytes,
                    [_tensor(t, loss_of(losses[k])) for k, t in enumerate(tensors)], warnings)


@dataclasses.dataclass(frozen=True)
class Verified(Report):
    """What verify() found: problems by tensor, and the checksum of each tensor."""

    problems: dict[str, str]
    checksums: dict[str, int]
    missing: list[str]
    warnings: list[str]

    @property
    def ok(self) -> bool:
        return not self.problems and not self.missing


def verify(path: Path, expected: Optional[Mapping[str, int]] = None, *, threads: int = 0,
           progress: Optional[ProgressCallback] = None) -> Verified:
    """Read a whole file: values and scales finite, codes in range, shards of one set, and checksums as expected."""
    items = list((expected or {}).items())
    sums = (gq_checksum * len(items))(*[gq_checksum(c_text(name), crc) for name, crc in items])

    def call(callbacks: Any) -> Verified:
        e = gq_error()
        found = c_void_p(check(
            library.gq_verify(path_bytes(path), sums, len(items), c_number("threads", threads), callbacks, byref(e)), e))
        try:
            verdicts = listed(library.gq_verification_verdicts, found)
            return Verified({text_of(v.name): text_of(v.problem) for v in verdicts if v.problem},
                            {text_of(v.name): v.crc32 for v in verdicts},
                            texts(library.gq_verification_missing, found),
                            texts(library.gq_verification_warnings, found))
        finally:
            library.gq_verification_free(found)

    return interruptible(call, progress)


# ---- evaluating ----


@dataclasses.dataclass(frozen=True)
class Estimate:
    """A figure and its standard error (NaN: unknown)."""

    value: float
    error: float


@dataclasses.dataclass(frozen=True)
class Evaluated(Report):
    """A model on a text. divergence and what follows are of copies, against the original: Kullback-Leibler
    divergence of the next token's probabilities in nats, its quantiles over tokens (median, 90, 95, 99, 99.9 %,
    maximum), perplexity as a multiple, root mean square change of the right token's probability, and in what share
    of places the likeliest token is the same."""

    path: str
    file_type: str
    file_bytes: int
    tensor_bytes: int
    n_weights: int
    perplexity: Estimate
    divergence: Optional[Estimate]
    quantiles: Optional[tuple[float, ...]]
    ratio: Optional[Estimate]
    rms_change: Optional[Estimate]
    same_top: Optional[Estimate]

    @property
    def bits_per_weight(self) -> float:
        return 8 * self.tensor_bytes / self.n_weights if self.n_weights else 0.0


@dataclasses.dataclass(frozen=True)
class Evaluation(Report):
    """The original, models[0], and its copies; differences[a, b] is divergence of a less that of b."""

    models: list[Evaluated]
    differences: dict[tuple[int, int], Estimate]
    architecture: str
    context: int
    windows: int
    tokens: int
    scored: int
    peak_bytes: int
    seconds: float
    warnings: list[str]

    def to_dict(self) -> dict[str, Any]:
        """As plain dictionaries and lists: differences as a list, with a and b."""
        differences = [{"a": a, "b": b, **dataclasses.asdict(of)} for (a, b), of in self.differences.items()]
        return {**super().to_dict(), "differences": differences}


def _estimate(e: gq_estimate) -> Estimate:
    return Estimate(e.value, e.error)


def _evaluated(v: Any, original: bool) -> Evaluated:
    return Evaluated(
        text_of(v.path), text_of(v.filetype), v.file_bytes, v.tensor_bytes, v.n_weights, _estimate(v.perplexity),
        *(5 * (None,) if original else (_estimate(v.divergence), tuple(v.quantiles), _estimate(v.ratio),
                                        _estimate(v.rms_change), _estimate(v.same_top))))


def text_request(text: Union[str, bytes, npt.ArrayLike], context: int, tokens: int, special: bool,
                 name: Optional[str] = None) -> gq_text:
    """A text, or ids of tokens, as the library takes them."""
    ids = not isinstance(text, (str, bytes))
    raw = (" ".join(str(int(i)) for i in np.asarray(text).ravel()).encode() if ids
           else text.encode() if isinstance(text, str) else text)
    return gq_text(name=c_text(name) if name else None, bytes=raw, n=len(raw), ids=ids, parse_special=special,
                   context=context, tokens=tokens)


def evaluate(original: Path, *copies: Path, text: Union[str, bytes, npt.ArrayLike], context: int = 0,
             tokens: int = 0, special: bool = False, threads: int = 0, memory: int = 0,
             folder: Optional[Path] = None, progress: Optional[ProgressCallback] = None) -> Evaluation:
    """Run a model and copies of it on a text (or on ids of tokens), and tell how far the copies are from it.

    context: tokens of a window, 0: 512; tokens: so many at most, 0: all; memory: bytes to stay within.
    """
    asked = gq_evaluation_request(
        size=ctypes.sizeof(gq_evaluation_request), original=path_bytes(original),
        copies=strings([path_bytes(c) for c in copies]), n_copies=len(copies),
        text=text_request(text, context, tokens, special), threads=threads, memory=memory,
        folder=optional_path(folder))

    def call(callbacks: Any) -> Evaluation:
        e = gq_error()
        asked.callbacks = callbacks
        found = c_void_p(check(library.gq_evaluate(byref(asked), byref(e)), e))
        try:
            return _evaluation(found)
        finally:
            library.gq_evaluation_free(found)

    return interruptible(call, progress)


def _evaluation(found: c_void_p) -> Evaluation:
    models = [_evaluated(v, i == 0) for i, v in enumerate(listed(library.gq_evaluation_models, found))]
    differences = {}
    for a in range(1, len(models)):
        for b in range(1, len(models)):
            if a != b:
                of = gq_estimate()
                library.gq_evaluation_difference(found, a, b, byref(of))
                differences[a, b] = _estimate(of)
    f = library.gq_evaluation_summary(found).contents
    return Evaluation(models, differences, text_of(f.architecture), f.context, f.windows, f.tokens, f.scored,
                      f.peak_bytes, f.seconds, texts(library.gq_evaluation_warnings, found))
