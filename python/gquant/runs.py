"""What the command does: quantize, compare, verify. Each returns a report, a dataclass with to_dict().

Each function fills a request of the library, has the library do the work in a thread of its own, and copies what was
found into a report. The library's objects are freed before the function returns or raises, so a report holds nothing
open. Meanwhile a progress function is called now and then, and Ctrl-C ends the work cleanly (_interruptible.py). What
the library refuses becomes an exception (_library.py).
"""

from __future__ import annotations

import ctypes
import dataclasses
import inspect
import json
import math
from ctypes import byref, c_void_p
from typing import Any, Callable, Mapping, Optional, Sequence, Union

from . import _records
from ._interruptible import ProgressCallback, interruptible
from ._library import (
    Adapters, Size, Texts, UsageError, adapter_options, adapter_paths, adapters_of, c_number, c_text, check, gq_calibration, gq_checksum, gq_comparison_request, gq_error,
    gq_list, gq_options, gq_output, gq_target, library, optional_path, path_bytes, size_bytes, strings, text_of, texts,
)
from ._pages import Charted, Report, Reports, file_size, record_field, report_format, shown, traced
from ._records import raw
from .arrays import EFFORTS, Arithmetic, Effort, Loss, effort_number
from .evaluations import Text, flat_paths, text_bytes, text_request
from .models import Origin, Path, Weighed


# ---- quantizing ----


@dataclasses.dataclass(frozen=True)
class QuantizedTensor:
    """One tensor of an output or a quant.

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
class Quantized(Weighed, Charted):
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

    def __repr__(self) -> str:
        found = [f"{len(self.tensors)} tensors"]
        found += [f"relative error {self.loss.relative:.4f}"] if any(t.loss for t in self.tensors) else ["not measured"]
        found += [f"{len(self.warnings)} warnings"] if self.warnings else []
        return (f"Quantized({self.path!r}, {self.file_type}, {file_size(self.file_bytes)}, {self.bits_per_weight:.2f} bits per weight, "
                f"{', '.join(found)})")

    @property
    def loss(self) -> Loss:
        """The Loss of all tensors together; its crc32 is 0."""
        of = [t.loss for t in self.tensors if t.loss]
        return Loss(sum(l.n for l in of), sum(l.x2 for l in of), sum(l.e2 for l in of), sum(l.wx2 for l in of),
                    sum(l.we2 for l in of), max((l.max_error for l in of), default=0.0), 0)


def _loss(t: dict[str, Any]) -> Optional[Loss]:
    return Loss(t[".n"], *t[".sums"], t[".crc32"]) if ".n" in t else None


def _tensors(output: dict[str, Any]) -> list[QuantizedTensor]:
    """The tensors of an output of an exact report."""
    def origin(o: dict[str, Any]) -> Origin:
        return Origin(raw(o["names"]), raw(o["type"]), o["changes"], o["bytes"], o[".quantized"])

    return [QuantizedTensor(raw(t["name"]), tuple(t["shape"])[::-1], t["from"], t["to"], raw(t["why"]), t["in_bytes"],
                            t["out_bytes"], t["importance"], _loss(t), origin(t["origin"]) if "origin" in t else None)
            for t in output["tensors"]]


def list_of(items: Texts) -> gq_list:
    raw = [items] if isinstance(items, str) else items
    return gq_list(items=strings([c_text(item) for item in raw]), n=len(raw))


def calibration_text(calibrate: Optional[Text], calibration: Optional[Text]) -> Optional[Text]:
    """Return the text of a calibration, which is given under one of two names."""
    if calibrate is not None and calibration is not None:
        raise UsageError("calibrate and calibration are one option: give one of them")
    return calibration if calibrate is None else calibrate


def _share(name: str, share: Optional[float]) -> float:
    """Return a share as gq_calibration has it: 0 for the default, a negative number for 0."""
    if share is not None and not 0 <= share <= 1:
        raise UsageError(f"{name} is {share}: expected a number from 0 to 1")
    return 0.0 if share is None else share or -1.0


def _several(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


_LISTS = ("tensor_types", "keep", "include_weights", "exclude_weights", "override_kv", "transpose", "remove_kv",
          "allow_missing")
_TEXTS = ("output_tensor_type", "token_embedding_type", "missing_importance", "prune_layers")


def quantize(
    input: Path, output: Union[Path, Sequence[Path], None] = None,
    type: Union[str, Sequence[str], None] = None, *,
    target_size: Optional[Size] = None, target_bpw: Optional[float] = None,
    imatrix: Optional[Path] = None, calibrate: Optional[Text] = None,
    calibrate_tokens: int = 0, calibrate_seconds: float = 0, calibrate_steps: Optional[str] = None, context: int = 0,
    damp: Optional[float] = None, shrink: Optional[float] = None, correction: Optional[float] = None,
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
    calibration: Optional[Text] = None,
    lora: Adapters = None, base: Optional[Path] = None,
) -> Union[Quantized, list[Quantized]]:
    """Quantize a GGUF model, and measure what is lost.

    input: the model in F16, BF16 or F32, or any shard of a split one.
    output: the file to write, or a list of files; None: the input's name with the type in it.
    type: a file type ("Q4_K_M"), or a list of as many as there are outputs. All are made from one reading of the model.
    target_size, target_bpw: in place of a type, the largest size of the file (bytes, or a text such as "7.5G"), or of
        its tensors in bits per weight. Types are then chosen tensor by tensor.
    imatrix: an imatrix file.
    calibrate: a text (str or bytes) or an array of token ids. The model is run on it, and each matrix is rounded by
        its inputs there: columns further right make up for the error of a column. Not together with imatrix.
    calibrate_tokens: take so many of them at most; 0: 65,536.
    calibrate_seconds: the best calibration that takes no longer on this machine; it chooses tokens, calibrate_tokens
        (0: 262,144) at most, and steps.
    calibrate_steps: parts of the method to add or to leave out, such as "-sweeps" (docs/calibration.md).
    context: tokens of a window of a calibration; 0: 512.
    damp, shrink, correction: of a calibration, 0 to 1 (docs/calibration.md); None: 0.01, 0.3, and half of each matrix's fit.
    memory: for a calibration, in bytes or as a text ("8G"); None: what it needs, up to 12 GiB or, where that is
        more, a quarter of the machine's.
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
    missing_importance: tensor type where the type needs imatrix data and there are none for the tensor.
    tensor_types: list of "PATTERN=TYPE"; the first match wins. keep: list of patterns of tensors to keep as they are.
    transpose: list of patterns of matrices to write transposed, or back if they are.
    include_weights, exclude_weights: names of imatrix entries to use, or to leave out; lists.
    override_kv: list of "KEY=TYPE:VALUE", metadata to change; "KEY=file:PATH" sets the text of a file.
    remove_kv: list of patterns of metadata keys to leave out.
    prune_layers: layers to leave out, such as "3,7,11".
    no_mtp: leave out MTP layers. mtp_only: write these alone, as a draft's file.
    allow_missing: list of patterns of tensors that the input may lack.
    target_model: for the folder of a draft, that of the model that it drafts for.
    projector: of a folder from Hugging Face, the multimodal projector in place of the text model; type is then
        "F16", "BF16", "F32" or "Q8_0", and without an output the file is called mmproj-NAME-TYPE.gguf.
    keep_split: shards like the input's. split_max_size: of a shard, in bytes or as a text ("40G"); None: do not split.
    measure_file: file that keeps what a target has measured, for the next call; None: it is not kept.
    report: file for the report, which ends in .json, .csv, .html, .md (a table) or .svg (a chart).
    calibration: an earlier name of calibrate.
    lora: an adapter that PEFT has saved, to be merged into the model, which is a folder from Hugging Face then; or a list of
        them, where a pair (folder, factor) multiplies its changes.
    base: the input is an adapter of the model in this folder: a GGUF file of it is made.
    sync_ms: how often finished work is made safe from a crash, in milliseconds; 0: every two seconds.

    Returns a Quantized, or Reports, a list of them, where output or type is a list.
    Raises UsageError for a request that makes no sense, BadWeights for weights that cannot be quantized, Cancelled,
    NotFound, NotAllowed and AlreadyThere for files, Error for the rest (a full disk). After
    KeyboardInterrupt, as after every failure, no half-written file has the output's name; the same call continues from
    what is done.
    """
    kinds, paths = _several(type), _several(output)
    if None in kinds and target_size is None and target_bpw is None:
        raise UsageError('the file type is missing: quantize(input, output, "Q4_K_M"), or type="Q4_K_M" without an output')
    file = report_format(report, input, imatrix, measure_file, base, target_model, *paths, *adapter_paths(lora))
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
    text = calibrating = calibration_text(calibrate, calibration)
    if text is not None:
        asked.calibration = ctypes.pointer(gq_calibration(
            size=ctypes.sizeof(gq_calibration),
            text=text_request(text, context, calibrate_tokens, False, "calibration"), memory=size_bytes(memory),
            damp=_share("damp", damp), shrink=_share("shrink", shrink), correction=_share("correction", correction),
            steps=c_text(calibrate_steps) if calibrate_steps else None, arithmetic=c_text(arithmetic),
            seconds=calibrate_seconds))
    elif calibrate_tokens or calibrate_seconds or calibrate_steps or context or memory or (damp, shrink, correction) != (None,) * 3:
        raise UsageError("calibrate_tokens, calibrate_seconds, calibrate_steps, context, damp, shrink, correction and memory are for a "
                         "calibration: give calibrate a text")
    asked.effort = effort_number(effort)
    asked.force, asked.allow_requantize, asked.pure, asked.strict = force, allow_requantize, pure, strict
    asked.leave_output_tensor, asked.keep_split, asked.projector = leave_output_tensor, keep_split, projector
    asked.no_mtp, asked.mtp_only = no_mtp, mtp_only
    asked.split_max_size, asked.sync_ms = size_bytes(split_max_size), sync_ms
    asked.adapters = adapters_of(lora, base, target_model)
    given = locals()
    for names, converted in ((_LISTS, list_of), (_TEXTS, c_text)):
        for name in names:
            if given[name] is not None:
                setattr(asked, name, converted(given[name]))
    options = option_texts(given) + adapter_options(lora)
    reports = interruptible(lambda callbacks: _quantize(asked, callbacks, options, file), progress)
    traced(reports, report, file, input=input, base=base, target=target_model, lora=adapter_paths(lora), imatrix=imatrix,
           calibrate=text_bytes(calibrating), output=None if dry_run else [r.path for r in reports])
    return reports if many else reports[0]


# Arguments whose names are not those of the command's options, or that change nothing in the file.
_OPTION_NAMES = {"tensor_types": "tensor-type", "projector": "mmproj"}
_SILENT = ("input", "output", "type", "threads", "dry_run", "progress", "force", "report", "sync_ms", "calibrate",
           "calibration", "lora")
_PATHS = ("imatrix", "measure_file", "base", "target_model")
_SHARES = ("damp", "shrink", "correction")  # whose 0 is not their default
_DEFAULTS = (("effort", "default"), ("arithmetic", "float32"))


def option_texts(arguments: Mapping[str, Any]) -> list[str]:
    """Return arguments of quantize() as the options of the command, for the report."""
    found = []
    for name, value in arguments.items():
        if name not in _ARGUMENTS or name in _SILENT or value is None or (name, value) in _DEFAULTS:
            continue
        if value in (False, 0) and name not in _SHARES:
            continue
        option = "--" + _OPTION_NAMES.get(name, name).replace("_", "-")
        for item in value if isinstance(value, (list, tuple)) else [value]:
            text = _records.file_name(text_of(path_bytes(item))) if name in _PATHS else str(item)
            found.append(option if value is True else f"{option} {text}")
    return found


_ARGUMENTS = frozenset(inspect.signature(quantize).parameters)


def _reports(make: Callable[[dict[str, Any], list[str]], Report], n: int, file: Optional[int], warnings: list[str],
             options: list[str], **members: Any) -> Reports:
    """Return a report for each of n outputs, which `make` makes of an exact document, and the texts of all together."""
    found = Reports()
    for i in range(n):
        document, texts_of = _records.gathered(None, warnings, options, only=i + 1, **members)
        found.append(shown(make(document, warnings), texts_of))
    return shown(found, _records.gathered(file, warnings, options, **members)[1])  # type: ignore[no-any-return]


def _quantize(asked: gq_options, callbacks: Any, options: list[str], file: Optional[int]) -> Reports:
    e = gq_error()
    asked.callbacks = callbacks
    plan = c_void_p(check(library.gq_plan_new(byref(asked), byref(e)), e))
    results = c_void_p()
    try:
        if not asked.dry_run:
            check(library.gq_run(plan, callbacks, byref(results), byref(e)), e)
        warnings = texts(library.gq_plan_warnings, plan) + (texts(library.gq_results_warnings, results) if results else [])
        return _reports(_quantized, library.gq_plan_outputs(plan), file, warnings, options, plan=plan, results=results,
                        input=asked.input, imatrix=asked.imatrix,
                        effort=next(name for name, number in EFFORTS.items() if number == asked.effort).encode())
    finally:
        library.gq_results_free(results)
        library.gq_plan_free(plan)


def _quantized(document: dict[str, Any], warnings: list[str]) -> Quantized:
    o = document["outputs"][0]
    seconds = document.get("seconds", 0.0) - document.get("plan_seconds", 0.0)
    return Quantized(raw(o[".path"]), raw(o["file_type"]), o["file_bytes"], o["out_bytes"], o["weights"], _tensors(o),
                     warnings, seconds, _records.published(document))


# ---- comparing and verifying ----


@dataclasses.dataclass(frozen=True)
class Compared(Charted):
    """How far one quant's weights are from the base model's.

    path, file_type, file_bytes: of the quant; file_type "" where it says none.
    tensors: a QuantizedTensor for each tensor that could be compared, from the base model's type to the quant's.
    warnings: sentences, of all quants together, for example about tensors that could not be compared.
    """

    path: str
    file_type: str
    file_bytes: int
    tensors: list[QuantizedTensor]
    warnings: list[str]
    record: dict[str, Any] = record_field()

    def __repr__(self) -> str:
        error = self.record["outputs"][0]["relative_error"]
        return f"Compared({self.path!r}, {self.file_type}, {len(self.tensors)} tensors, relative error {math.nan if error is None else error:.4f})"


def compare(base: Path, *quants: Union[Path, Sequence[Path]], imatrix: Optional[Path] = None, threads: int = 0,
            progress: Optional[ProgressCallback] = None, report: Optional[Path] = None,
            lora: Adapters = None) -> list[Compared]:
    """Measure how far quants are from the base model, tensor by tensor, whatever types they have and whoever wrote them.

    base, quants: the base model and its quants, GGUF files, or lists of them; at least one quant.
    imatrix: an imatrix file, for errors weighted by it.
    threads: 0: one per core.
    progress: called with a Progress now and then; return False to stop.
    report: file for the report, which ends in .json, .csv, .html, .md (a table) or .svg (a chart).
    lora: as in quantize(); merged into the base model.

    Returns a Compared for each quant. Raises UsageError without a quant, Cancelled, or Error where a file cannot be read
    or a quant has nothing to compare.
    """
    files = flat_paths(quants)
    file = report_format(report, base, *files, imatrix, *adapter_paths(lora))
    asked = gq_comparison_request(
        size=ctypes.sizeof(gq_comparison_request), base_model=path_bytes(base),
        quants=strings([path_bytes(q) for q in files]), n_quants=len(files), imatrix=optional_path(imatrix),
        threads=threads, adapters=adapters_of(lora))

    def call(callbacks: Any) -> Reports:
        e = gq_error()
        asked.callbacks = callbacks
        found = c_void_p(check(library.gq_compare(byref(asked), byref(e)), e))
        try:
            warnings = texts(library.gq_comparison_warnings, found)
            options = [f"--imatrix {_records.file_name(text_of(asked.imatrix))}"] if asked.imatrix else []
            return _reports(_compared, len(files), file, warnings, options + adapter_options(lora), comparison=found,
                            n_quants=len(files), input=asked.base_model, imatrix=asked.imatrix)
        finally:
            library.gq_comparison_free(found)

    return traced(interruptible(call, progress), report, file, base=base,  # type: ignore[no-any-return]
                  lora=adapter_paths(lora), quant=list(files), imatrix=imatrix)


def _compared(document: dict[str, Any], warnings: list[str]) -> Compared:
    o = document["outputs"][0]
    return Compared(raw(o[".path"]), raw(o["file_type"]), o["file_bytes"], _tensors(o), warnings, _records.published(document))


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
           progress: Optional[ProgressCallback] = None, report: Optional[Path] = None) -> Verified:
    """Read a whole file and check it.

    Values and scales have to be finite, codes in range, shards of one set, all ways of decoding have to agree, and
    checksums to be those of the file's own digests.

    path: the file, or any shard.
    expected: tensor -> CRC-32 of its bytes, such as Verified.checksums of a sound file; None: checksums are not
        compared.
    threads: 0: one per core.
    progress: called with a Progress now and then; return False to stop.
    report: file for the report, which ends in .json, .csv, .html or .md.

    Returns a Verified. Problems with tensors are in it and are not raised; a file that cannot be read raises Error.
    """
    file = report_format(report, path, has_chart=False)
    items = list((expected or {}).items())
    sums = (gq_checksum * len(items))(*[gq_checksum(c_text(name), crc) for name, crc in items])

    def call(callbacks: Any) -> Verified:
        e = gq_error()
        found = c_void_p(check(
            library.gq_verify(path_bytes(path), sums, len(items), c_number("threads", threads), callbacks, byref(e)), e))
        try:
            document = json.loads(_records.taken(library.gq_verification_text, found, path_bytes(path), expected is not None,
                                                 None, _records.EXACT))
            tensors = {raw(t["name"]): t for t in document["tensors"]}
            return Verified({name: raw(t["problem"]) for name, t in tensors.items() if t["problem"]},
                            {name: int(t["crc32"], 16) for name, t in tensors.items()}, [raw(t) for t in document["missing"]],
                            texts(library.gq_verification_warnings, found), _records.published(document))
        finally:
            library.gq_verification_free(found)

    return traced(interruptible(call, progress), report, file, file=path)  # type: ignore[no-any-return]
