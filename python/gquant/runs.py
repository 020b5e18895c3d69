"""What the command does: quantize, compare, verify, evaluate. Each returns a report, a dataclass with to_dict().

Each function fills a request of the library, has the library do the work in a thread of its own, and copies what was
found into a report. The library's objects are freed before the function returns or raises, so a report holds nothing
open. Meanwhile a progress function is called now and then, and Ctrl-C ends the work cleanly (_interruptible.py). What
the library refuses becomes an exception (_library.py).
"""

from __future__ import annotations

import copy
import ctypes
import dataclasses
import inspect
import math
from ctypes import byref, c_void_p
from typing import Any, Callable, Mapping, Optional, Sequence, Union

import numpy as np
import numpy.typing as npt

from . import _records
from ._interruptible import Progress, interruptible
from ._library import (
    Adapters, Size, Texts, UsageError, adapter_options, adapters_of, c_number, c_text, check, gq_calibration, gq_checksum, gq_comparison_request, gq_error,
    gq_estimate,
    gq_evaluation_request, gq_list, gq_question, gq_options, gq_output, gq_target, gq_tensor, gq_text, library,
    listed, optional_path, path_bytes, size_bytes, strings, text_of, texts,
)
from ._pages import Page, Row, report_format, write_report
from .arrays import EFFORTS, Arithmetic, Effort, Loss, loss_of
from .models import Origin, Path, origin_of

ProgressCallback = Callable[[Progress], Any]
_COVERAGE = ("unused", "missing", "full")


def record_field() -> Any:
    """Return the field that holds a report in the words of docs/reports.md."""
    return dataclasses.field(repr=False, compare=False, default_factory=dict)


class Report:
    """What a call has found. In a notebook it shows itself as a table and a chart."""

    record: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Return the report as dictionaries and lists with the keys of the command's JSON (docs/reports.md)."""
        return copy.deepcopy(self.record)

    def _page(self) -> Optional[Page]:
        return None

    def _repr_html_(self) -> Optional[str]:
        page = self._page()
        return page.html() if page else None


# ---- quantizing ----


@dataclasses.dataclass(frozen=True)
class QuantizedTensor:
    """One tensor of an output or a copy.

    name: in the output. shape: as numpy has it, the length of a row last.
    source_type, type: names of its types before and after.
    why: why it was kept, fell back or was chosen by an option; "" for the file type's plain rule.
    source_bytes, bytes: of the tensor before and after.
    importance: "full", "missing", or "unused" where none was given or the tensor is not quantized.
    loss: a Loss, whose n is 0 where the bytes were kept; None in a dry run.
    origin: an Origin where the input is a folder from Hugging Face; None: it is a GGUF file.
    """

    name: str
    shape: tuple[int, ...]
    source_type: str
    type: str
    why: str
    source_bytes: int
    bytes: int
    importance: str
    loss: Optional[Loss]
    origin: Optional[Origin] = None


@dataclasses.dataclass(frozen=True)
class Quantized(Report):
    """One output of quantize().

    path, file_type: the file (the first shard if split), and what was asked for.
    file_bytes: size of the file, of all shards together; tensor_bytes: of the tensor data in it.
    n_weights: elements in all tensors.
    tensors: a QuantizedTensor each, in the file's order.
    warnings: sentences.
    seconds: duration of the work; 0 in a dry run.
    """

    path: str
    file_type: str
    file_bytes: int
    tensor_bytes: int
    n_weights: int
    tensors: list[QuantizedTensor]
    warnings: list[str]
    seconds: float
    record: dict[str, Any] = record_field()

    def _row(self) -> Row:
        measured = [t.loss for t in self.tensors if t.loss and t.loss.n]
        return Row(self.path, self.file_type, self.file_bytes, self.bits_per_weight,
                   relative_error=self.loss.relative if measured else float("nan"))

    def _page(self) -> Page:
        return Page([self._row()])

    @property
    def bits_per_weight(self) -> float:
        """Tensor data in bits per weight."""
        return 8 * self.tensor_bytes / self.n_weights if self.n_weights else 0.0

    @property
    def loss(self) -> Loss:
        """The Loss of all tensors together; its crc32 is 0."""
        of = [t.loss for t in self.tensors if t.loss]
        return Loss(sum(l.n for l in of), sum(l.x2 for l in of), sum(l.e2 for l in of), sum(l.wx2 for l in of),
                    sum(l.we2 for l in of), max((l.max_error for l in of), default=0.0), 0)


class Reports(list):  # type: ignore[type-arg]
    """Reports of several files from one call: a list. to_dict() is one report with all of them as outputs."""

    def to_dict(self) -> dict[str, Any]:
        """Return one report with the outputs of all (docs/reports.md)."""
        return {**self[0].to_dict(), "outputs": [one for r in self for one in r.to_dict()["outputs"]]}

    def _page(self) -> Page:
        return Page([r._row() for r in self])

    def _repr_html_(self) -> str:
        return self._page().html()


def _tensor(t: gq_tensor, loss: Optional[Loss]) -> QuantizedTensor:
    return QuantizedTensor(
        text_of(t.name), tuple(t.ne[i] for i in range(t.n_dims))[::-1],
        text_of(library.gq_type_name(getattr(t, "from"))), text_of(library.gq_type_name(t.to)), text_of(t.why),
        t.in_bytes, t.out_bytes, _COVERAGE[t.importance], loss, origin_of(t.origin))


def list_of(items: Texts) -> gq_list:
    raw = [items] if isinstance(items, str) else items
    return gq_list(items=strings([c_text(item) for item in raw]), n=len(raw))


def _several(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


_LISTS = ("tensor_types", "keep", "include_weights", "exclude_weights", "override_kv", "transpose", "remove_kv",
          "allow_missing")
_TEXTS = ("output_tensor_type", "token_embedding_type", "missing_importance", "prune_layers")


def quantize(
    input: Path, output: Union[Path, Sequence[Path], None] = None,
    type: Union[str, Sequence[str], None] = None, *,
    target_size: Optional[Size] = None, target_bpw: Optional[float] = None,
    imatrix: Optional[Path] = None, calibrate: Union[str, bytes, npt.ArrayLike, None] = None,
    calibrate_tokens: int = 0, calibrate_seconds: float = 0, calibrate_steps: Optional[str] = None, context: int = 0,
    memory: Optional[Size] = None,
    arithmetic: Arithmetic = "float32", effort: Effort = "default", threads: int = 0, dry_run: bool = False,
    progress: Optional[ProgressCallback] = None,
    force: bool = False, allow_requantize: bool = False, pure: bool = False, strict: bool = False,
    leave_output_tensor: bool = False, output_tensor_type: Optional[str] = None,
    token_embedding_type: Optional[str] = None, missing_importance: Optional[str] = None,
    tensor_types: Optional[Texts] = None, keep: Optional[Texts] = None, transpose: Optional[Texts] = None,
    include_weights: Optional[Texts] = None, exclude_weights: Optional[Texts] = None,
    override_kv: Optional[Texts] = None, remove_kv: Optional[Texts] = None, prune_layers: Optional[str] = None,
    no_mtp: bool = False, mtp_only: bool = False, allow_missing: Optional[Texts] = None, projector: bool = False,
    target_model: Optional[Path] = None,
    keep_split: bool = False, split_max_size: Optional[Size] = None, sync_ms: int = 0,
    measure_file: Optional[Path] = None, report: Optional[Path] = None,
    calibration: Union[str, bytes, npt.ArrayLike, None] = None,
    lora: Adapters = None, base: Optional[Path] = None,
) -> Union[Quantized, list[Quantized]]:
    """Quantize a GGUF model, and measure what is lost.

    input: the model in F16, BF16 or F32, or any shard of a split one.
    output: the file to write, or a list of files; None: the input's name with the type in it.
    type: a file type ("Q4_K_M"), or a list of as many as there are outputs. All are made from one reading of the model.
    target_size, target_bpw: in place of a type, the largest size of the file (bytes, or a text such as "7.5G"), or of
        its tensors in bits per weight. Types are then chosen tensor by tensor.
    imatrix: a file of importance data.
    calibrate: a text (str or bytes) or an array of token ids. The model is run on it, and each matrix is rounded by
        its inputs there: columns further right make up for the error of a column. Not together with imatrix.
    calibrate_tokens: take so many of them at most; 0: 65,536.
    calibrate_seconds: the best calibration that takes no longer on this machine; it chooses tokens, calibrate_tokens
        (0: 262,144) at most, and steps.
    calibrate_steps: parts of the method to add or to leave out, such as "-sweeps" (docs/calibration.md).
    context: tokens of a window of a calibration; 0: 512.
    memory: for a calibration, in bytes or as a text ("8G"); None: a quarter of the machine's.
    arithmetic: of a calibration: "bf16" takes a fraction of the time on a processor with AMX.
    effort: "fast", "default" or "best": time spent on the search.
    threads: 0: one per core. The file does not depend on it.
    dry_run: only make the plan. The losses in the report are None.
    progress: called with a Progress now and then; return False to stop with Cancelled.

    force: replace a file that is there.
    allow_requantize: take an input whose tensors are quantized already.
    pure: one type for all tensors. strict: a tensor that has to fall back to another type is an error.
    leave_output_tensor: keep the output matrix as it is.
    output_tensor_type, token_embedding_type: tensor types for these two.
    missing_importance: tensor type where the type demands importance data and there are none for the tensor.
    tensor_types: list of "PATTERN=TYPE"; the first match wins. keep: list of patterns of tensors to keep as they are.
    transpose: list of patterns of matrices to write transposed, or back if they are.
    include_weights, exclude_weights: importance data to use, or to leave out; lists.
    override_kv: list of "KEY=TYPE:VALUE", metadata to change; "KEY=file:PATH" sets the text of a file.
    remove_kv: list of patterns of metadata keys to leave out.
    prune_layers: layers to leave out, such as "3,7,11".
    no_mtp: leave out prediction blocks. mtp_only: write these alone, as a draft's file.
    allow_missing: list of patterns of tensors that the input may lack.
    target_model: for the folder of a draft, that of the model that it drafts for.
    projector: of a folder from Hugging Face, what its model sees and hears by in place of its text model; type is then
        "F16", "BF16", "F32" or "Q8_0", and without an output the file is called mmproj-NAME-TYPE.gguf.
    keep_split: shards like the input's. split_max_size: of a shard, in bytes or as a text ("40G"); None: do not split.
    measure_file: file that keeps what a target has measured, for the next call; None: it is not kept.
    report: file for the report, which ends in .json, .md (a table) or .svg (a chart).
    calibration: an earlier name of calibrate.
    lora: an adapter that PEFT has saved, to be merged into the model, which is a folder from Hugging Face then; or a list of
        them, where a pair (folder, factor) multiplies its changes.
    base: the input is an adapter of the model in this folder: a GGUF file of it is made.
    sync_ms: how often finished work is made safe from a crash, in milliseconds; 0: every two seconds.

    Returns a Quantized, or a list of them where output or type is a list.
    Raises UsageError for a request that makes no sense, BadWeights for weights that cannot be quantized, Cancelled,
    NotFound, NotAllowed and AlreadyThere for files, Error for the rest (a full disk). After
    KeyboardInterrupt, as after every failure, no half-written file has the output's name; the same call continues from
    what is done.
    """
    report_format(report)
    kinds, paths = _several(type), _several(output)
    many = len(kinds) > 1 or len(paths) > 1 or isinstance(type, (list, tuple)) or isinstance(output, (list, tuple))
    if len(paths) == 1:
        paths *= len(kinds)
        if len(kinds) > 1 and paths[0] is not None:
            raise UsageError(f"{len(kinds)} types and one output")
    if len(kinds) != len(paths):
        raise UsageError(f"{len(kinds)} types and {len(paths)} outputs")
    target = gq_target(size_bytes(target_size), target_bpw or 0.0)
    outputs = (gq_output * len(kinds))(
        *[gq_output(optional_path(p), c_text(k) if k is not None else None, target) for p, k in zip(paths, kinds)])
    asked = gq_options(
        size=ctypes.sizeof(gq_options), input=path_bytes(input), outputs=outputs, n_outputs=len(outputs),
        imatrix=optional_path(imatrix), threads=threads, dry_run=dry_run,
        measure_file=optional_path(measure_file) or b"")
    if calibrate is not None and calibration is not None:
        raise UsageError("calibrate and calibration are one option: give one of them")
    text = calibration if calibrate is None else calibrate
    if text is not None:
        asked.calibration = ctypes.pointer(gq_calibration(
            size=ctypes.sizeof(gq_calibration),
            text=text_request(text, context, calibrate_tokens, False, "calibration"), memory=size_bytes(memory),
            steps=c_text(calibrate_steps) if calibrate_steps else None, arithmetic=c_text(arithmetic),
            seconds=calibrate_seconds))
    elif calibrate_tokens or calibrate_seconds or calibrate_steps or context or memory:
        raise UsageError("calibrate_tokens, calibrate_seconds, calibrate_steps, context and memory are for a "
                         "calibration: give calibrate a text")
    try:
        asked.effort = EFFORTS[effort]
    except KeyError:
        raise UsageError(f"effort {effort!r} is none of {', '.join(EFFORTS)}") from None
    asked.force, asked.allow_requantize, asked.pure, asked.strict = force, allow_requantize, pure, strict
    asked.leave_output_tensor, asked.keep_split, asked.projector = leave_output_tensor, keep_split, projector
    asked.no_mtp, asked.mtp_only = no_mtp, mtp_only
    asked.split_max_size, asked.sync_ms = size_bytes(split_max_size), sync_ms
    asked.adapters = adapters_of(lora, base, target_model)
    lists = (tensor_types, keep, include_weights, exclude_weights, override_kv, transpose, remove_kv, allow_missing)
    for name, items in zip(_LISTS, lists):
        if items is not None:
            setattr(asked, name, list_of(items))
    for name, text in zip(_TEXTS, (output_tensor_type, token_embedding_type, missing_importance, prune_layers)):
        if text is not None:
            setattr(asked, name, c_text(text))
    options = option_texts(locals()) + adapter_options(lora)
    reports = interruptible(lambda callbacks: _quantize(asked, callbacks, options), progress)
    write_report(report, reports.to_dict(), reports._page())
    return reports if many else reports[0]


# Arguments whose names are not those of the command's options, or that change nothing in the file.
_OPTION_NAMES = {"tensor_types": "tensor-type", "projector": "mmproj"}
_SILENT = ("input", "output", "type", "threads", "dry_run", "progress", "force", "report", "sync_ms", "calibrate",
           "calibration", "lora")
_PATHS = ("imatrix", "measure_file", "base", "target_model")
_DEFAULTS = (("effort", "default"), ("arithmetic", "float32"))


def option_texts(arguments: Mapping[str, Any]) -> list[str]:
    """Return arguments of quantize() as the options of the command, for the report."""
    found = []
    for name, value in arguments.items():
        if name not in _ARGUMENTS or name in _SILENT or value in (None, False, 0) or (name, value) in _DEFAULTS:
            continue
        option = "--" + _OPTION_NAMES.get(name, name).replace("_", "-")
        for item in value if isinstance(value, (list, tuple)) else [value]:
            text = _records.file_name(text_of(path_bytes(item))) if name in _PATHS else str(item)
            found.append(option if value is True else f"{option} {text}")
    return found


_ARGUMENTS = frozenset(inspect.signature(quantize).parameters)


def _quantize(asked: gq_options, callbacks: Any, options: list[str]) -> Reports:
    e = gq_error()
    asked.callbacks = callbacks
    plan = c_void_p(check(library.gq_plan_new(byref(asked), byref(e)), e))
    results = c_void_p()
    try:
        if not asked.dry_run:
            check(library.gq_run(plan, callbacks, byref(results), byref(e)), e)
        outputs = range(library.gq_plan_outputs(plan))
        record = _run_record(asked, plan, results, options, [_summary(plan, i) for i in outputs])
        return Reports(_quantized(plan, results, i, record) for i in outputs)
    finally:
        library.gq_results_free(results)
        library.gq_plan_free(plan)


def _summary(plan: c_void_p, i: int) -> Any:
    return library.gq_plan_summary(plan, i).contents


def _run_record(asked: gq_options, plan: c_void_p, results: c_void_p, options: list[str],
                summaries: list[Any]) -> dict[str, Any]:
    """Return the members that a run's report has for all outputs together."""
    warnings = texts(library.gq_plan_warnings, plan)
    seconds = planning = None
    if results:
        warnings += texts(library.gq_results_warnings, results)
        planning = library.gq_plan_seconds(plan)
        seconds = planning + library.gq_results_progress(results).contents.seconds
    measured = library.gq_plan_measure_file(plan)
    imatrix = _records.file_name(text_of(asked.imatrix)) if asked.imatrix else None
    return _records.document(
        "run" if results else "plan", text_of(asked.input), warnings,
        [text_of(s.path) for s in summaries] + [text_of(asked.imatrix)], imatrix=imatrix,
        effort=next(name for name, number in EFFORTS.items() if number == asked.effort),
        calibration=_records.calibration(plan), measurements=_records.file_name(text_of(measured)) if measured else None,
        options=options, seconds=seconds, plan_seconds=planning)


def _quantized(plan: c_void_p, results: c_void_p, i: int, record: dict[str, Any]) -> Quantized:
    s = _summary(plan, i)
    tensors = listed(library.gq_plan_tensors, plan, i)
    warnings = texts(library.gq_plan_warnings, plan)
    losses: list[Optional[Loss]] = [None] * len(tensors)
    seconds = 0.0
    if results:
        losses = [loss_of(l) for l in listed(library.gq_results_losses, results, i)]
        warnings += texts(library.gq_results_warnings, results)
        seconds = library.gq_results_progress(results).contents.seconds
    return Quantized(text_of(s.path), text_of(s.filetype), s.file_bytes, s.out_bytes, s.n_weights,
                     [_tensor(t, l) for t, l in zip(tensors, losses)], warnings, seconds,
                     {**record, "outputs": [_records.planned(plan, results, i)]})


# ---- comparing and verifying ----


@dataclasses.dataclass(frozen=True)
class Compared(Report):
    """How far one copy's weights are from the original's.

    path, file_type, file_bytes: of the copy; file_type "" where it says none.
    tensors: a QuantizedTensor for each tensor that could be compared, from the original's type to the copy's.
    warnings: sentences, of all copies together, for example about tensors that could not be compared.
    """

    path: str
    file_type: str
    file_bytes: int
    tensors: list[QuantizedTensor]
    warnings: list[str]
    record: dict[str, Any] = record_field()

    def _row(self) -> Row:
        found = self.record["outputs"][0]
        error = found["relative_error"]
        return Row(self.path, self.file_type, self.file_bytes, found["bits_per_weight"],
                   relative_error=float("nan") if error is None else error)

    def _page(self) -> Page:
        return Page([self._row()])


def compare(original: Path, *copies: Path, imatrix: Optional[Path] = None, threads: int = 0,
            progress: Optional[ProgressCallback] = None, report: Optional[Path] = None,
            lora: Adapters = None) -> list[Compared]:
    """Measure how far copies are from the original, tensor by tensor, whatever types they have and whoever wrote them.

    original, copies: GGUF files; at least one copy.
    imatrix: a file of importance data, for errors weighted by it.
    threads: 0: one per core.
    progress: called with a Progress now and then; return False to stop.
    report: file for the report, which ends in .json, .md (a table) or .svg (a chart).
    lora: as in quantize(); merged into the original.

    Returns a Compared for each copy. Raises UsageError without a copy, Cancelled, or Error where a file cannot be read
    or a copy has nothing to compare.
    """
    report_format(report)
    asked = gq_comparison_request(
        size=ctypes.sizeof(gq_comparison_request), original=path_bytes(original),
        copies=strings([path_bytes(c) for c in copies]), n_copies=len(copies), imatrix=optional_path(imatrix),
        threads=threads, adapters=adapters_of(lora))

    def call(callbacks: Any) -> Reports:
        e = gq_error()
        asked.callbacks = callbacks
        found = c_void_p(check(library.gq_compare(byref(asked), byref(e)), e))
        try:
            warnings = texts(library.gq_comparison_warnings, found)
            record = _records.document(
                "comparison", text_of(asked.original), warnings, [text_of(path_bytes(c)) for c in copies],
                imatrix=_records.file_name(text_of(asked.imatrix)) if asked.imatrix else None,
                options=([f"--imatrix {_records.file_name(text_of(asked.imatrix))}"] if asked.imatrix else [])
                + adapter_options(lora),
                seconds=library.gq_comparison_seconds(found))
            return Reports(_compared(found, i, warnings, record) for i in range(len(copies)))
        finally:
            library.gq_comparison_free(found)

    reports = interruptible(call, progress)
    write_report(report, reports.to_dict(), reports._page())
    return reports  # type: ignore[no-any-return]


def _compared(found: c_void_p, i: int, warnings: list[str], record: dict[str, Any]) -> Compared:
    s = library.gq_comparison_summary(found, i).contents
    tensors = listed(library.gq_comparison_tensors, found, i)
    losses = library.gq_comparison_losses(found, i)[:len(tensors)]
    rate = s.n_weights / record["seconds"] if record["seconds"] > 0 else 0.0
    return Compared(text_of(s.path), text_of(s.filetype), s.file_bytes,
                    [_tensor(t, loss_of(l)) for t, l in zip(tensors, losses)], warnings,
                    {**record, "outputs": [_records.output(s, tensors, losses, [], [], rate, False)]})


@dataclasses.dataclass(frozen=True)
class Verified(Report):
    """What verify() found.

    problems: tensor -> a sentence. checksums: tensor -> CRC-32 of its bytes, for all tensors.
    missing: a text for each expected tensor that the file does not have.
    warnings: sentences about the work.
    """

    problems: dict[str, str]
    checksums: dict[str, int]
    missing: list[str]
    warnings: list[str]
    record: dict[str, Any] = record_field()

    @property
    def ok(self) -> bool:
        """Whether there are no problems and nothing is missing."""
        return not self.problems and not self.missing


def verify(path: Path, expected: Optional[Mapping[str, int]] = None, *, threads: int = 0,
           progress: Optional[ProgressCallback] = None) -> Verified:
    """Read a whole file and check it.

    Values and scales have to be finite, codes in range, shards of one set, all ways of decoding have to agree, and
    checksums to be those of the file's own digests.

    path: the file, or any shard.
    expected: tensor -> CRC-32 of its bytes, such as Verified.checksums of a sound file; None: checksums are not
        compared.
    threads: 0: one per core.
    progress: called with a Progress now and then; return False to stop.

    Returns a Verified. Problems with tensors are in it and are not raised; a file that cannot be read raises Error.
    """
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
                            texts(library.gq_verification_warnings, found),
                            _records.verification(path, found, expected is not None))
        finally:
            library.gq_verification_free(found)

    return interruptible(call, progress)


# ---- evaluating ----


@dataclasses.dataclass(frozen=True)
class Estimate:
    """A figure (value) and its standard error (error; NaN: unknown)."""

    value: float
    error: float


@dataclasses.dataclass(frozen=True)
class Interval:
    """A mean, and the interval in which it is with another text of the same kind 19 times of 20; nan: not known.

    of: windows, prompts, questions or pieces.
    """

    value: float
    low: float
    high: float
    of: int


@dataclasses.dataclass(frozen=True)
class Continued:
    """Prompts that a copy continues as the original does, or not.

    same: share of prompts whose 32 tokens are all the same. parts: prompts by how many tokens are the same before the first
    other one, 0 to 32. mean: of these numbers.
    """

    prompts: int
    same: Interval
    parts: tuple[int, ...]
    mean: float


@dataclasses.dataclass(frozen=True)
class Chosen:
    """Questions that a model has answered. lost, gained: of a copy, right in the original alone, and in the copy alone;
    others: in neither, but another choice. more: accuracy less that of the original."""

    questions: int
    right: int
    lost: int
    gained: int
    others: int
    accuracy: Interval
    more: Interval


@dataclasses.dataclass(frozen=True)
class Drafted:
    """What a model accepts of a draft, both greedily, on pieces of the text. first: share of the positions whose first choice
    is the draft's, too. accepted: share of drafts of which the first 1 to 4 tokens are accepted. length: mean tokens that
    are accepted of a draft of 1 to 4."""

    texts: int
    positions: int
    first: Interval
    accepted: tuple[Interval, ...]
    length: tuple[Interval, ...]


@dataclasses.dataclass(frozen=True)
class Evaluated:
    """One model on a text.

    path, file_type: the file, and the type that it says ("": none).
    file_bytes, tensor_bytes: its size, and that of its tensor data. n_weights: elements.
    perplexity: on the text.
    acceptance: how often the first choice of the model's prediction block (MTP) is the model's own, 0 to 1; None: it
        has none that is run.

    These compare a copy with the original, and are None for the original:

    divergence: mean Kullback-Leibler divergence of the next token's probabilities, in nats.
    quantiles: of the divergence over tokens: median, 90, 95, 99 and 99.9 %, maximum.
    ratio: perplexity as a multiple of the original's.
    rms_change: root mean square change of the right token's probability.
    same_top: share of places with the same likeliest token, 0 to 1.
    divergence_interval, flips: 95 % intervals of the divergence, and of the share of places with another likeliest token.
    level: what these come to, a sentence.
    continued: a Continued; None where no prompts were continued. chosen: a Chosen, also of the original, or None.
    drafted: a Drafted, also of the original, or None.
    """

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
    divergence_interval: Optional[Interval] = None
    flips: Optional[Interval] = None
    level: str = ""
    continued: Optional[Continued] = None
    chosen: Optional[Chosen] = None
    drafted: Optional[Drafted] = None
    acceptance: Optional[Estimate] = None

    @property
    def bits_per_weight(self) -> float:
        """Tensor data in bits per weight."""
        return 8 * self.tensor_bytes / self.n_weights if self.n_weights else 0.0


@dataclasses.dataclass(frozen=True)
class Evaluation(Report):
    """The result of evaluate().

    models: an Evaluated each; models[0] is the original, its copies follow.
    differences: (a, b) -> Estimate of the mean divergence of copy a less that of copy b, by their numbers in models.
        Its error is smaller than theirs, as the places are the same.
    architecture; context: tokens of a window; windows; tokens: that were run; scored: those of them that count.
    peak_bytes: memory taken at most. seconds: duration.
    warnings: sentences. conversations: that the text holds; 0: it is none of these.
    """

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
    conversations: int = 0
    record: dict[str, Any] = record_field()

    def _page(self) -> Page:
        return Page([Row(v.path, v.file_type, v.file_bytes, v.bits_per_weight, v) for v in self.models[1:]], self)


def _estimate(e: gq_estimate) -> Estimate:
    return Estimate(e.value, e.error)


def _interval(i: Any) -> Interval:
    return Interval(i.value, i.low, i.high, i.windows)


def _more_of(found: Any, model: int, embeds: bool) -> tuple[Any, ...]:
    """The members of Evaluated behind same_top."""
    if embeds:
        return (_interval(_records.interval_of(found, _records.DIVERGENCE, model)) if model else None, None, "", None, None, None)
    continued, chosen, drafted = _records.asked_of(found, model)
    asked = (continued and Continued(continued.prompts, _interval(continued.same), tuple(continued.parts), continued.mean),
             chosen and Chosen(chosen.questions, chosen.right, chosen.lost, chosen.gained, chosen.others,
                               _interval(chosen.accuracy), _interval(chosen.more)),
             drafted and Drafted(drafted.texts, drafted.positions, _interval(drafted.first),
                                 tuple(map(_interval, drafted.accepted)), tuple(map(_interval, drafted.length))))
    if not model:
        return (None, None, "", *asked)
    return (*(_interval(_records.interval_of(found, of, model)) for of in (_records.DIVERGENCE, _records.FLIPS)),
            _records.level_of(found, model), *asked)


def _evaluated(v: Any, original: bool, more: tuple[Any, ...]) -> Evaluated:
    return Evaluated(
        text_of(v.path), text_of(v.filetype), v.file_bytes, v.tensor_bytes, v.n_weights, _estimate(v.perplexity),
        *(5 * (None,) if original else (_estimate(v.divergence), tuple(v.quantiles), _estimate(v.ratio),
                                        _estimate(v.rms_change), _estimate(v.same_top))), *more,
        acceptance=None if math.isnan(v.acceptance.value) else _estimate(v.acceptance))


def _ids_text(ids: npt.ArrayLike) -> bytes:
    numbers = np.asarray(ids)
    if numbers.size and numbers.dtype.kind not in "iu":
        raise TypeError(f"ids of tokens are whole numbers; these are {numbers.dtype}")
    return " ".join(str(int(i)) for i in numbers.ravel()).encode()


def text_request(text: Union[str, bytes, npt.ArrayLike], context: int, tokens: int, special: bool,
                 name: Optional[str] = None) -> gq_text:
    """Return a text (str or bytes), rendered conversations (chat.py), or an array of token ids, as the library takes them."""
    ids = not isinstance(text, (str, bytes)) or text[:14] in ("#gquant-chats ", b"#gquant-chats ")
    raw = _ids_text(text) if not isinstance(text, (str, bytes)) else text.encode() if isinstance(text, str) else text
    return gq_text(name=c_text(name) if name else None, bytes=raw, n=len(raw), ids=ids, parse_special=special,
                   context=context, tokens=tokens)


def evaluate(original: Path, *copies: Path, text: Union[str, bytes, npt.ArrayLike], context: int = 0,
             tokens: int = 0, special: bool = False, threads: int = 0, memory: Optional[Size] = None,
             folder: Optional[Path] = None, progress: Optional[ProgressCallback] = None,
             report: Optional[Path] = None, stride: int = 0, scores_file: Optional[Path] = None,
             lora: Adapters = None, prompts: int = 0,
             questions: Sequence[tuple[str, Sequence[str], int]] = (), draft: Optional[Path] = None,
             target_model: Optional[Path] = None) -> Evaluation:
    """Run a model and copies of it on a text, and measure how far the copies' predictions are from the model's.

    original, copies: GGUF files of one architecture, shape and vocabulary. Without copies only the perplexity is
        measured.
    text: str or bytes, also the contents of a file that gquant-chat has written; or an array of token ids.
    context: tokens of a window; 0: 512. The second half of each window is scored.
    tokens: take so many at most; 0: all.
    special: find control tokens in the text, too.
    threads: 0: one per core.
    memory: to stay within, in bytes or as a text ("8G"), as far as one window at a time allows; None: a quarter of
        the machine's.
    folder: for a file with the states of tokens where they take more memory; None: the current one.
    progress: called with a Progress now and then; return False to stop.
    report: file for the report, which ends in .json, .md (a table) or .svg (a chart).
    stride: begin a window every so many tokens, and score the last so many of each; 0: windows follow one another.
    scores_file: file that keeps scores for the next call, which runs only models that it does not have; None: nothing
        is kept.
    lora: as in quantize(); merged into the original.
    prompts: so many beginnings of windows or conversations are continued by 32 tokens.
    questions: texts, their choices, and the number of the right one.
    draft: a smaller model of the same tokens, or a draft of the original (EAGLE-3, DFlash, DSpark, an assistant of
        Gemma 4), of which each model accepts so much.
    target_model: of a draft's folder, the folder that has its vocabulary; None: the original.

    Returns an Evaluation. Raises UsageError, BadWeights, Cancelled, or Error, for example for an architecture that
    cannot be run.
    """
    report_format(report)
    asked = gq_evaluation_request(
        size=ctypes.sizeof(gq_evaluation_request), original=path_bytes(original),
        copies=strings([path_bytes(c) for c in copies]), n_copies=len(copies),
        text=text_request(text, context, tokens, special), threads=threads, memory=size_bytes(memory),
        folder=optional_path(folder), stride=stride, scores_file=optional_path(scores_file), prompts=prompts,
        n_questions=len(questions), adapters=adapters_of(lora, target=target_model), draft=optional_path(draft))
    asking = (gq_question * max(1, len(questions)))()
    for to, (question, choices, answer) in zip(asking, questions):
        to.text, to.choices = c_text(question), strings([c_text(choice) for choice in choices])
        to.n_choices, to.answer = len(choices), answer
    asked.questions = ctypes.cast(asking, type(asked.questions)) if questions else None

    def call(callbacks: Any) -> Evaluation:
        e = gq_error()
        asked.callbacks = callbacks
        found = c_void_p(check(library.gq_evaluate(byref(asked), byref(e)), e))
        try:
            return evaluation_of(found, options)
        finally:
            library.gq_evaluation_free(found)

    options = ([f"--context {context}"] * bool(context) + [f"--stride {stride}"] * bool(stride)
               + [f"--tokens {tokens}"] * bool(tokens) + adapter_options(lora))
    made = interruptible(call, progress)
    write_report(report, made.to_dict(), made._page())
    return made  # type: ignore[no-any-return]


def evaluation_of(found: c_void_p, options: list[str]) -> Evaluation:
    """Copy what an evaluation of the library has found."""
    listing = listed(library.gq_evaluation_models, found)
    embeds = math.isnan(listing[0].perplexity.value)
    models = [_evaluated(v, i == 0, _more_of(found, i, embeds)) for i, v in enumerate(listing)]
    differences = {}
    for a in range(1, len(models)):
        for b in range(1, len(models)):
            if a != b:
                of = gq_estimate()
                library.gq_evaluation_difference(found, a, b, byref(of))
                differences[a, b] = _estimate(of)
    f = library.gq_evaluation_summary(found).contents
    warnings = texts(library.gq_evaluation_warnings, found)
    record = _records.document("evaluation", models[0].path, warnings, [v.path for v in models], options=options,
                               seconds=f.seconds)
    return Evaluation(models, differences, text_of(f.architecture), f.context, f.windows, f.tokens, f.scored,
                      f.peak_bytes, f.seconds, warnings, f.texts,
                      {**record, "outputs": [], "evaluation": _records.evaluation(found)})
