"""Before and after quantizing: which file fits a machine (plan), and a folder to upload (publish).

Both are whole jobs of the library, gq_survey_new and gq_publish. As in runs.py, what they find is copied into reports
and nothing of the library stays open.
"""

from __future__ import annotations

import ctypes
import dataclasses
import inspect
import json
import os
import tempfile
from ctypes import byref, c_char_p, c_void_p
from typing import Any, Optional, Sequence, Union

from . import _records
from ._interruptible import ProgressCallback, interruptible
from ._library import (
    Adapters, Size, Texts, UsageError, adapter_names, adapter_paths, adapters_of, c_text, check, gq_calibration, gq_error, gq_evaluation_request, gq_options, gq_output,
    gq_publish_request, gq_survey_request, gq_target, library, old_name, optional_path, path_bytes, size_bytes, text_of,
    texts,
)
from ._pages import Charted, Report, file_size, image, record_field, report_format, shown, table, traced
from ._records import raw
from .arrays import Effort, effort_number
from .evaluations import Evaluation, Text, evaluation_of, text_bytes, text_request
from .models import Path, Weighed
from .runs import calibration_text, list_of


def _calibration(text: Optional[Text], name: str, context: int = 0, tokens: int = 0) -> Any:
    if text is None:
        return None
    return ctypes.pointer(gq_calibration(
        size=ctypes.sizeof(gq_calibration), text=text_request(text, context, tokens, False, name)))


# ---- which file ----


@dataclasses.dataclass(frozen=True)
class Choice:
    """A file type for a model.

    file_type; made_for: the only kind of models that it suits, "": any.
    file_bytes: of the file; memory_bytes: with keys and values of the context and buffers; bits_per_weight.
    expected_kld: in nats, by trials on a text; None: not known.
    fits: into the memory given; None: none was given. best: the one to take.
    """

    file_type: str
    made_for: str
    file_bytes: int
    memory_bytes: int
    bits_per_weight: float
    expected_kld: Optional[float]
    fits: Optional[bool]
    best: bool
    needs_imatrix: bool

    expected_divergence, needs_importance = old_name("expected_kld"), old_name("needs_imatrix")


@dataclasses.dataclass(frozen=True)
class CurvePoint:
    """The best mix of a size. ram: bytes of a machine that it is for; None: only a point of the curve."""

    target_size: int
    expected_kld: Optional[float]
    ram: Optional[int]

    expected_divergence = old_name("expected_kld")


def _note(t: Choice) -> str:
    """The note of a row, as the command has it: a type for special models gets no "fits"."""
    if t.made_for:
        return f"for {t.made_for}"
    more = "the model as it is" if t.file_type == "COPY" else "needs an imatrix" if t.needs_imatrix else ""
    return ", ".join(["fits"] * bool(t.fits) + [more or "recommended"] * bool(more or t.best))


@dataclasses.dataclass(frozen=True)
class Plan(Report):
    """The result of plan().

    path: the model. types: a Choice each, smallest file first.
    curve: with a text, a CurvePoint each, smallest first: size against expected KL divergence.
    best: the Choice to take; None: nothing fits, or no memory was given.
    target_size: bytes that the memory leaves for a file; None: no memory was given.
    context: tokens that memory is counted for; cache_bytes, buffer_bytes: what these and working memory take.
    quantized, dequantized: the type of most of a model that is quantized already, or will be dequantized first; "": it
        is not.
    warnings: sentences.
    """

    path: str
    types: list[Choice]
    curve: list[CurvePoint]
    best: Optional[Choice]
    target_size: Optional[int]
    context: int
    cache_bytes: int
    buffer_bytes: int
    quantized: str
    dequantized: str
    warnings: list[str]
    record: dict[str, Any] = record_field()

    def __repr__(self) -> str:
        best = f", recommended: {self.best.file_type}" if self.best else ""
        return f"Plan({self.path}, {len(self.types)} types, context of {self.context:,} tokens{best})"

    def _table(self) -> tuple[list[str], list[list[str]]]:
        tried = any(t.expected_kld is not None for t in self.types)
        head = ["type", "file", "bits per weight", "memory"] + ["expected KLD"] * tried + ["note"]
        rows = []
        for t in sorted(self.types, key=lambda t: bool(t.made_for)):
            expected = [] if not tried else ["-" if t.expected_kld is None else f"{t.expected_kld:.4g}"]
            rows.append([t.file_type, file_size(t.file_bytes), f"{t.bits_per_weight:.2f}",
                         file_size(t.memory_bytes), *expected, _note(t)])
        return head, rows

    def _repr_html_(self) -> str:
        return table(*self._table()) + (image(self._chart) if self._chart else "")

    def plot(self) -> bytes:
        """Return a chart of the expected KL divergence against the size, as SVG; UsageError where there was no text."""
        if not self._chart:
            raise UsageError("no KL divergence is known without a text: plan(model, text=...)")
        return self._chart.encode()

    _chart: str = dataclasses.field(default="", repr=False, compare=False)  # of the types that people use, and of the curve


def plan(model: Path, *, ram: Optional[Size] = None, reserve: Optional[Size] = None, text: Optional[Text] = None,
         context: int = 0, imatrix: Optional[Path] = None, measure_file: Optional[Path] = None, threads: int = 0,
         progress: Optional[ProgressCallback] = None, lora: Adapters = None, report: Optional[Path] = None) -> Plan:
    """Tell which file types of a model fit a machine, and with a text the KL divergence that they are expected to have.

    model: a GGUF, any shard of a split one, or a folder from Hugging Face.
    ram: memory of the machine, in bytes or as a text ("16Gi"); None: no type is said to fit.
    reserve: how much of it is set aside for the system; None: an eighth, at most 8 GiB.
    text: str or bytes, or an array of token ids. The model is tried on it, with each tensor in coarse types.
    context: tokens to have memory for; 0: 8192, or what the model was made for if that is less.
    imatrix: an imatrix file, which some types need.
    measure_file: file that keeps what the trials found, for the next call and for quantize(); None: it is not kept.
    threads: 0: one per core.
    progress: called with a Progress now and then; return False to stop with Cancelled.
    lora: as in quantize().
    report: file for the report, which ends in .json, .csv, .html, .md or, with a text, .svg (a chart).

    Returns a Plan. Raises UsageError, Cancelled, NotFound, or Error, for example for a model that cannot be run.
    """
    file = report_format(report, model, imatrix, measure_file, *adapter_paths(lora), has_chart=text is not None)
    asked = gq_options(
        size=ctypes.sizeof(gq_options), input=path_bytes(model), imatrix=optional_path(imatrix), threads=threads,
        measure_file=optional_path(measure_file) or b"", calibration=_calibration(text, "text"), adapters=adapters_of(lora))
    memory = size_bytes(ram)
    if ram is not None and 0 <= memory < 10**6 and str(ram).strip()[-1:].isdigit():  # no model fits, and there is no unit
        raise UsageError(f"ram={ram!r}: these are {memory} bytes; for gigabytes write '{ram}G' or '{ram}Gi'")
    wanted = gq_survey_request(
        size=ctypes.sizeof(gq_survey_request), options=ctypes.pointer(asked), context=context, ram=memory,
        reserve=0 if reserve is None else size_bytes(reserve) or 2**64 - 1, folder=path_bytes(tempfile.gettempdir()))

    def call(callbacks: Any) -> Plan:
        e = gq_error()
        asked.callbacks = callbacks
        found = c_void_p(check(library.gq_survey_new(byref(wanted), byref(e)), e))
        try:
            return _plan(found, asked.input, text is not None)
        finally:
            library.gq_survey_free(found)

    return traced(interruptible(call, progress), report, file, input=model, lora=adapter_paths(lora),  # type: ignore[no-any-return]
                  imatrix=imatrix, text=text_bytes(text))


def _plan(found: c_void_p, path: bytes, tried: bool) -> Plan:
    d = json.loads(_records.taken(library.gq_survey_text, found, path, _records.EXACT))
    recommended = "COPY" if d.get("keep_model") else d.get("recommended")
    types = [Choice(t["file_type"], t.get("made_for", ""), t["file_bytes"], t["memory_bytes"], t["bits_per_weight"],
                    t.get("expected_kld"), t.get("fits"), t["file_type"] == recommended, t.get("needs_imatrix", False))
             for t in d["types"]]
    curve = [CurvePoint(p["target_size"], _records.published(p["expected_kld"]), p.get("ram")) for p in d.get("curve", [])]
    chart = _records.taken(library.gq_survey_text, found, path, _records.SVG) if tried else ""
    return Plan(text_of(path), types, curve, next((t for t in types if t.best), None), d.get("target_size"), d["context"],
                d["cache_bytes"], d["buffer_bytes"], d.get("quantized", ""), d.get("dequantized", ""),
                texts(library.gq_survey_warnings, found), _records.published(d), chart)


# ---- a folder to upload ----


@dataclasses.dataclass(frozen=True)
class PublishedFile(Weighed):
    """A file of a published folder: path (of the first shard), file_type, and sizes as in Quantized."""

    path: str
    file_type: str
    file_bytes: int
    tensor_bytes: int
    n_weights: int


@dataclasses.dataclass(frozen=True)
class Published(Charted):
    """The result of publish().

    folder; files: a PublishedFile each; made: how many of them this call has made.
    evaluation: an Evaluation of all; None: there was no text.
    recommended: path of the file that the page recommends, and why; None: no page was written.
    warnings: sentences.
    """

    folder: str
    files: list[PublishedFile]
    made: int
    evaluation: Optional[Evaluation]
    warnings: list[str]
    record: dict[str, Any] = record_field()
    recommended: Optional[tuple[str, str]] = None


def publish(model: Path, folder: Path, types: Texts = (), *, target_size: Union[Size, Sequence[Size], None] = None,
            ladder: bool = False, name: Optional[str] = None, imatrix: Optional[Path] = None,
            calibrate: Optional[Text] = None, calibrate_tokens: int = 0, evaluate: Optional[Text] = None,
            context: int = 0, tokens: int = 0,
            base_model: Optional[str] = None, license: Optional[str] = None, quantized_by: Optional[str] = None,
            speeds: Optional[Path] = None, effort: Effort = "default", force: bool = False,
            allow_requantize: bool = False, tensor_types: Optional[Texts] = None, keep: Optional[Texts] = None,
            override_kv: Optional[Texts] = None, remove_kv: Optional[Texts] = None,
            allow_missing: Optional[Texts] = None, projector: Optional[str] = None, target_model: Optional[Path] = None,
            split_max_size: Optional[Size] = None, measure_file: Optional[Path] = None, memory: Optional[Size] = None,
            dry_run: bool = False, threads: int = 0, progress: Optional[ProgressCallback] = None,
            calibration: Optional[Text] = None, lora: Adapters = None, repo: Optional[str] = None,
            title: Optional[str] = None, report: Optional[Path] = None) -> Published:
    """Make a folder to upload: files of a model, README.md with table and chart, SHA256SUMS.

    model: a GGUF, or a folder from Hugging Face. It is read once for all files.
    folder: where the files go; it is made where it is not there. Files that are there and whole are not made again.
    types: file types, and recipes such as "Q4_K_L". target_size: sizes, in bytes or as a text, whose best mixes are made.
    ladder: also the best mix for each common size of memory.
    name: of the files, with {type} and maybe {model}; None: "{model}-{type}.gguf".
    imatrix, calibrate, calibrate_tokens, effort, allow_requantize, tensor_types, keep, override_kv, remove_kv,
        allow_missing, target_model: as in quantize(). calibration: an earlier name of calibrate.
    projector: type of a folder's multimodal projector ("F16", "BF16", "F32", "Q8_0"); None: F16 where it
        can be made; "none": it is left out.
    evaluate: a text, or token ids, that all files are evaluated on; context, tokens: as in evaluate().
    base_model, license, quantized_by, repo, title: for the page; None: what an earlier page says, or the model. repo:
        OWNER/NAME that the folder is uploaded to.
    speeds: file of what llama-bench measured, its output as JSON, JSON lines or CSV: columns of tokens per second.
    force: make everything anew, also in place of a README.md that somebody else has written.
    split_max_size: of a shard; None: 48 GB.
    measure_file: as in quantize(). memory: for calibration and evaluation, in bytes or as a text.
    dry_run: only plan: nothing is written.
    report: file for the report, as in quantize().
    threads: 0: one per core. progress, lora: as in quantize().

    Returns a Published. Raises what quantize() and evaluate() raise. Called again, it continues from what is whole.
    """
    file = report_format(report, model, imatrix, speeds, measure_file, target_model, *adapter_paths(lora))
    wanted = [types] if isinstance(types, str) else list(types)
    sizes = target_size if isinstance(target_size, (list, tuple)) else [] if target_size is None else [target_size]
    outputs = [gq_output(filetype=c_text(t)) for t in wanted]
    outputs += [gq_output(target=gq_target(size_bytes(s), 0.0)) for s in sizes]
    fitted = _calibration(calibration_text(calibrate, calibration), "calibration", tokens=calibrate_tokens)
    if fitted and memory is not None:
        fitted.contents.memory = size_bytes(memory)
    asked = gq_options(
        size=ctypes.sizeof(gq_options), input=path_bytes(model), outputs=(gq_output * len(outputs))(*outputs),
        n_outputs=len(outputs), out_dir=path_bytes(folder), imatrix=optional_path(imatrix),
        threads=threads,
        dry_run=dry_run, measure_file=optional_path(measure_file) or b"", calibration=fitted, effort=effort_number(effort),
        force=force, allow_requantize=allow_requantize, split_max_size=size_bytes(split_max_size),
        adapters=adapters_of(lora, target=target_model))
    for member, items in (("tensor_types", tensor_types), ("keep", keep), ("override_kv", override_kv),
                          ("remove_kv", remove_kv), ("allow_missing", allow_missing)):
        if items is not None:
            setattr(asked, member, list_of(items))
    evaluation = None if evaluate is None else ctypes.pointer(gq_evaluation_request(
        size=ctypes.sizeof(gq_evaluation_request), text=text_request(evaluate, context, tokens, False), threads=threads,
        memory=size_bytes(memory), folder=path_bytes(folder)))
    request = gq_publish_request(
        size=ctypes.sizeof(gq_publish_request), options=ctypes.pointer(asked), name=c_text(name) if name else None,
        ladder=ladder, evaluation=evaluation, speeds=optional_path(speeds), how=c_text(_line(locals())))
    for member, value in (("base_model", base_model), ("license", license), ("quantized_by", quantized_by),
                          ("projector", projector), ("repo", repo), ("title", title)):
        if value is not None:
            setattr(request, member, c_text(value))
    made = _make_folder(os.fsdecode(folder))
    try:
        found = interruptible(lambda callbacks: _publish(request, asked, callbacks, file), progress)
        return traced(  # type: ignore[no-any-return]
            found, report, file, input=model, lora=adapter_paths(lora), imatrix=imatrix, calibrate=text_bytes(calibration_text(calibrate, calibration)),
            evaluate=text_bytes(evaluate), output=None if dry_run else [f.path for f in found.files])
    finally:
        for path in made:
            if not os.listdir(path):  # after a failure or a plan
                os.rmdir(path)


def _make_folder(folder: str) -> list[str]:
    """Make a folder and those above it that are missing; return what was made, the innermost first."""
    missing = []
    while folder and not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    for path in reversed(missing):
        os.mkdir(path)
    return missing


_DEFAULTS = {n: p.default for n, p in inspect.signature(publish).parameters.items()}
_QUIET = ("force", "threads", "progress", "dry_run", "memory", "report")
_FILES = ("model", "folder", "imatrix", "speeds", "measure_file")
_GIVEN = ("calibrate", "calibration", "evaluate")  # whose texts are too long for a line


def _line(arguments: dict[str, Any]) -> str:
    """Return the call of publish() that makes a folder again, for its page: files without folders."""
    words = []
    for key, default in _DEFAULTS.items():
        value = arguments[key]
        if key in _QUIET or (default is not inspect.Parameter.empty and value is default):
            continue
        if key in _FILES:
            value = _records.file_name(os.fsdecode(value).rstrip("/")) or "."
        if key == "lora":
            value = adapter_names(value)
        shown = "..." if key in _GIVEN else repr(value)
        words.append(shown if key in ("model", "folder", "types") else f"{key}={shown}")
    return f"gquant.publish({', '.join(words)})".encode("ascii", "backslashreplace").decode()


def _publish(request: gq_publish_request, asked: gq_options, callbacks: Any, file: Optional[int]) -> Published:
    e = gq_error()
    request.callbacks = asked.callbacks = callbacks
    found = c_void_p(check(library.gq_publish(byref(request), byref(e)), e))
    try:
        evaluated = c_void_p(library.gq_publication_evaluation(found))
        warnings = texts(library.gq_publication_warnings, found)
        document, texts_of = _records.gathered(file, warnings, [], plan=c_void_p(library.gq_publication_plan(found)),
                                               evaluation=evaluated, input=asked.input)
        why = c_char_p()
        row = library.gq_publication_recommended(found, byref(why))
        recommended = (text_of(row.contents.path), text_of(why.value)) if row else None
        files = [PublishedFile(raw(o[".path"]), raw(o["file_type"]), o["file_bytes"], o["out_bytes"], o["weights"])
                 for o in document["outputs"]]
        return shown(Published(  # type: ignore[no-any-return]
            text_of(asked.out_dir), files, library.gq_publication_made(found),
            evaluation_of(evaluated, [], asked.input) if evaluated else None, warnings, _records.published(document), recommended),
            texts_of)
    finally:
        library.gq_publication_free(found)
