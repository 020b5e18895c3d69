"""A base model and its quants, run on a text and compared: evaluate(), and the texts and token ids that it is given.

As in runs.py, what the library finds is copied into a report and nothing of the library stays open.
"""

from __future__ import annotations

import ctypes
import dataclasses
import os
from ctypes import byref, c_void_p
from typing import Any, Optional, Sequence, Union

import numpy as np
import numpy.typing as npt

from . import _records
from ._interruptible import ProgressCallback, interruptible
from ._library import (
    Adapters, Size, UsageError, adapter_options, adapter_paths, adapters_of, c_text, check, gq_error, gq_evaluation_request, gq_question, gq_text,
    library, old_arguments, old_name,
    optional_path, path_bytes, size_bytes, strings, texts,
)
from ._pages import Charted, record_field, report_format, shown, traced
from ._records import raw
from .arrays import unmasked
from .models import Path, Weighed

Text = Union[str, bytes, npt.ArrayLike]


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
    """Prompts that a quant continues as the base model does, or not.

    same: share of prompts whose 32 tokens are all the same. parts: prompts by how many tokens are the same before the first
    other one, 0 to 32. mean: of these numbers.
    """

    prompts: int
    same: Interval
    parts: tuple[int, ...]
    mean: float


@dataclasses.dataclass(frozen=True)
class Chosen:
    """Questions that a model has answered. lost, gained: of a quant, right in the base model alone, and in the quant alone;
    others: in neither, but another choice. more: accuracy less that of the base model."""

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
class Evaluated(Weighed):
    """One model on a text.

    path, file_type: the file, and the type that it says ("": none).
    file_bytes, tensor_bytes: its size, and that of its tensor data. n_weights: elements.
    perplexity: on the text.
    acceptance: how often the first choice of the model's MTP layer is the model's own, 0 to 1; None: it
        has none that is run.

    These compare a quant with the base model, and are None for the base model:

    kld: the mean KL divergence (KLD) of the next token's probabilities, in nats.
    quantiles: of the KLD over tokens: median, 90, 95, 99 and 99.9 %, maximum.
    ratio: perplexity as a multiple of the base model's.
    rms_change: root mean square change of the right token's probability.
    top1_agreement: share of positions with the same likeliest token, 0 to 1.
    kld_interval, changed_top1: 95 % intervals of the KLD, and of the share of changed top-1 tokens.
    level: what these come to, a sentence.
    continued: a Continued; None where no prompts were continued. chosen: a Chosen, also of the base model, or None.
    drafted: a Drafted, also of the base model, or None.
    """

    path: str
    file_type: str
    file_bytes: int
    tensor_bytes: int
    n_weights: int
    perplexity: Estimate
    kld: Optional[Estimate]
    quantiles: Optional[tuple[float, ...]]
    ratio: Optional[Estimate]
    rms_change: Optional[Estimate]
    top1_agreement: Optional[Estimate]
    kld_interval: Optional[Interval] = None
    changed_top1: Optional[Interval] = None
    level: str = ""
    continued: Optional[Continued] = None
    chosen: Optional[Chosen] = None
    drafted: Optional[Drafted] = None
    acceptance: Optional[Estimate] = None

    divergence, same_top = old_name("kld"), old_name("top1_agreement")
    divergence_interval, flips = old_name("kld_interval"), old_name("changed_top1")


@dataclasses.dataclass(frozen=True)
class Evaluation(Charted):
    """The result of evaluate().

    models: an Evaluated each; models[0] is the base model, its quants follow.
    differences: (a, b) -> Estimate of the mean KLD of quant a less that of quant b, by their numbers in models.
        Its error is smaller than theirs, as the places are the same.
    architecture; context: tokens of a window; windows; tokens: that were run; scored: those of them that count.
    peak_bytes: memory taken at most. seconds: duration.
    warnings: sentences. conversations: that the text holds; 0: it is none of these.
    masked: the models predict what masks stand for, and what is scored are tokens that are masked.
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
    masked: bool = False
    record: dict[str, Any] = record_field()

    def __repr__(self) -> str:
        quants = "; ".join(f"{v.path}: {v.kld.value:.3g} nats" for v in self.models[1:] if v.kld)
        return f"Evaluation({self.models[0].path}, {self.scored:,} of {self.tokens:,} tokens scored{'; ' if quants else ''}{quants})"


def _estimate(of: dict[str, Any], value: str, error: str) -> Estimate:
    return Estimate(of[value], of[error])


def _interval(i: Optional[dict[str, Any]]) -> Optional[Interval]:
    return None if i is None else Interval(**i)


def _chosen(c: dict[str, Any]) -> Chosen:
    lost, gained, others, more = (c[name] if name in c else c["." + name] for name in ("lost", "gained", "others", "more"))
    return Chosen(c["questions"], c["right"], lost, gained, others, Interval(**c["accuracy"]), Interval(**more))


def _drafted(d: dict[str, Any]) -> Drafted:
    return Drafted(d["texts"], d["positions"], Interval(**d["first"]), *[tuple(Interval(**i) for i in d[key]) for key in ("accepted", "length")])


def _continued(c: dict[str, Any]) -> Continued:
    return Continued(c["prompts"], Interval(**c["same"]), tuple(c["parts"]), c["mean"])


def _evaluated(m: dict[str, Any]) -> Evaluated:
    """A model of an exact report."""
    compared = () if "kld" not in m else (
        _estimate(m, "kld", "kld_error"), tuple(m[f"kld_{q}"] for q in ("median", "90", "95", "99", "99_9", "max")),
        _estimate(m, "perplexity_ratio", "perplexity_ratio_error"), _estimate(m, "rms_change", "rms_change_error"),
        _estimate(m, "top1_agreement", ".top1_error"))
    asked = [make(m[name]) if name in m else None
             for name, make in (("continued", _continued), ("chosen", _chosen), ("drafted", _drafted))]
    return Evaluated(
        raw(m[".path"]), raw(m["file_type"]), m["file_bytes"], m["tensor_bytes"], m["weights"],
        _estimate(m, "perplexity", "perplexity_error"), *(compared or 5 * (None,)), _interval(m.get("kld_interval")),
        _interval(m.get("changed_top1_interval")), m.get("level", ""), *asked,  # type: ignore[arg-type]
        acceptance=_estimate(m, "acceptance", "acceptance_error") if "acceptance" in m else None)


def _ids_text(ids: npt.ArrayLike) -> bytes:
    numbers = unmasked(ids, "ids of tokens")
    if numbers.size and numbers.dtype.kind not in "iu":
        raise TypeError(f"ids of tokens are whole numbers; these are {numbers.dtype}")
    return " ".join(str(int(i)) for i in numbers.ravel()).encode()


def text_bytes(text: Optional[Text]) -> Optional[bytes]:
    """Return a text, or token ids as a text, as bytes; None: there is none.

    Raises UsageError for the name of a file, TypeError for an open file.
    """
    if isinstance(text, os.PathLike) or isinstance(text, str) and len(text) < 256 and text.split() == [text] and os.path.isfile(text):
        name = os.fspath(text)
        raise UsageError(f"{name!r} is a file name? pass its text: open({name!r}).read()")
    if hasattr(text, "read"):
        raise TypeError("a text is str, bytes or token ids; this is an open file: pass what its read() returns")
    if text is None or isinstance(text, bytes):
        return text
    return text.encode() if isinstance(text, str) else _ids_text(text)


def text_request(text: Text, context: int, tokens: int, special: bool,
                 name: Optional[str] = None) -> gq_text:
    """Return a text (str or bytes), rendered conversations (chat.py), or an array of token ids, as the library takes them."""
    ids = not isinstance(text, (str, bytes)) or text[:14] in ("#gquant-chats ", b"#gquant-chats ")
    raw = text_bytes(text) or b""
    return gq_text(name=c_text(name) if name else None, bytes=raw, n=len(raw), ids=ids, parse_special=special,
                   context=context, tokens=tokens)


def flat_paths(of: Sequence[Union[Path, Sequence[Path]]]) -> tuple[Path, ...]:
    """Return paths, and those of lists among them, one after another."""
    return tuple(path for one in of for path in (one if isinstance(one, (list, tuple)) else [one]))  # type: ignore[misc]


@old_arguments(original="base")
def evaluate(base: Path, *quants: Union[Path, Sequence[Path]], text: Text, context: int = 0,
             tokens: int = 0, special: bool = False, threads: int = 0, memory: Optional[Size] = None,
             folder: Optional[Path] = None, progress: Optional[ProgressCallback] = None,
             report: Optional[Path] = None, stride: int = 0, scores_file: Optional[Path] = None,
             lora: Adapters = None, prompts: int = 0,
             questions: Sequence[tuple[str, Sequence[str], int]] = (), draft: Optional[Path] = None,
             target_model: Optional[Path] = None) -> Evaluation:
    """Run a base model and its quants on a text, and measure how far their predictions are from the base model's.

    base, quants: the base model and its quants, GGUF files of one architecture, shape and vocabulary, or lists of them.
        Without quants, only the perplexity is measured. The records() of the result have a row for each.
    text: str or bytes, also the contents of a file that gquant-chat has written; or an array of token ids.
    context: tokens of a window; 0: 512. The second half of each window is scored.
    tokens: take so many at most; 0: all.
    special: find control tokens in the text, too.
    threads: 0: one per core.
    memory: to stay within, in bytes or as a text ("8G"), as far as one window at a time allows; None: a quarter of
        the machine's.
    folder: for a file with the hidden states of tokens where they take more memory; None: the current one.
    progress: called with a Progress now and then; return False to stop.
    report: file for the report, which ends in .json, .csv, .html, .md (a table) or .svg (a chart).
    stride: begin a window every so many tokens, and score the last so many of each; 0: windows follow one another.
    scores_file: file that keeps scores for the next call, which runs only models that it does not have; None: nothing
        is kept.
    lora: as in quantize(); merged into the base model.
    prompts: so many beginnings of windows or conversations are continued by 32 tokens.
    questions: texts, their choices, and the number of the right one.
    draft: a smaller model of the same tokens, or a draft of the base model (EAGLE-3, DFlash, DSpark, an assistant of
        Gemma 4), of which each model accepts so much.
    target_model: of a draft's folder, the folder that has its vocabulary; None: the base model.

    Returns an Evaluation. Raises UsageError, BadWeights, Cancelled, or Error, for example for an architecture that
    cannot be run.
    """
    files = flat_paths(quants)
    file = report_format(report, base, *files, scores_file, draft, target_model, *adapter_paths(lora))
    asked = gq_evaluation_request(
        size=ctypes.sizeof(gq_evaluation_request), base_model=path_bytes(base),
        quants=strings([path_bytes(q) for q in files]), n_quants=len(files),
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
            return evaluation_of(found, options, asked.base_model, file)
        finally:
            library.gq_evaluation_free(found)

    options = ([f"--context {context}"] * bool(context) + [f"--stride {stride}"] * bool(stride)
               + [f"--tokens {tokens}"] * bool(tokens) + adapter_options(lora))
    return traced(interruptible(call, progress), report, file, base=base,  # type: ignore[no-any-return]
                  lora=adapter_paths(lora), quant=list(files), draft=draft, text=text_bytes(text))


def evaluation_of(found: c_void_p, options: list[str], input: Any, file: Optional[int] = None) -> Evaluation:
    """Copy what an evaluation of the library has found."""
    warnings = texts(library.gq_evaluation_warnings, found)
    document, texts_of = _records.gathered(file, warnings, options, evaluation=found, input=input)
    e = document["evaluation"]
    differences = {}
    for d in e["differences"]:
        differences[d["a"], d["b"]] = Estimate(d["difference"], d["error"])
        differences[d["b"], d["a"]] = Estimate(-d["difference"], d["error"])
    return shown(Evaluation(  # type: ignore[no-any-return]
        [_evaluated(m) for m in e["models"]], differences, e["architecture"], e["context"], e["windows"], e["tokens"], e["scored"],
        e[".peak_bytes"], e["seconds"], warnings, e.get("conversations", 0), e.get("masked", False), _records.published(document)), texts_of)
