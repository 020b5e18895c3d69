"""A base model and its quants, run on a text and compared: evaluate(), and the texts and token ids that it is given.

As in runs.py, what the library finds is copied into a report and nothing of the library stays open.
"""

from __future__ import annotations

import ctypes
import dataclasses
import math
from ctypes import byref, c_void_p
from typing import Any, Optional, Sequence, Union

import numpy as np
import numpy.typing as npt

from . import _records
from ._interruptible import ProgressCallback, interruptible
from ._library import (
    Adapters, Size, adapter_options, adapter_paths, adapters_of, c_text, check, gq_error, gq_estimate, gq_evaluation_request, gq_question, gq_text, library, listed,
    optional_path, path_bytes, size_bytes, strings, text_of, texts,
)
from ._pages import Charted, Page, Row, record_field, report_format, traced, write_report
from .arrays import unmasked
from .models import Path

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
class Evaluated:
    """One model on a text.

    path, file_type: the file, and the type that it says ("": none).
    file_bytes, tensor_bytes: its size, and that of its tensor data. n_weights: elements.
    perplexity: on the text.
    acceptance: how often the first choice of the model's MTP layer is the model's own, 0 to 1; None: it
        has none that is run.

    These compare a quant with the base model, and are None for the base model:

    divergence: the mean KL divergence (KLD) of the next token's probabilities, in nats.
    quantiles: of the KLD over tokens: median, 90, 95, 99 and 99.9 %, maximum.
    ratio: perplexity as a multiple of the base model's.
    rms_change: root mean square change of the right token's probability.
    same_top: share of places with the same likeliest token, 0 to 1.
    divergence_interval, flips: 95 % intervals of the KLD, and of the share of changed top-1 tokens.
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
        quants = "; ".join(f"{v.path}: {v.divergence.value:.3g} nats" for v in self.models[1:] if v.divergence)
        return f"Evaluation({self.models[0].path}, {self.scored:,} of {self.tokens:,} tokens scored{'; ' if quants else ''}{quants})"

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
    numbers = unmasked(ids, "ids of tokens")
    if numbers.size and numbers.dtype.kind not in "iu":
        raise TypeError(f"ids of tokens are whole numbers; these are {numbers.dtype}")
    return " ".join(str(int(i)) for i in numbers.ravel()).encode()


def text_bytes(text: Optional[Text]) -> Optional[bytes]:
    """Return a text, or token ids as a text, as bytes; None: there is none."""
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


def evaluate(original: Path, *copies: Path, text: Text, context: int = 0,
             tokens: int = 0, special: bool = False, threads: int = 0, memory: Optional[Size] = None,
             folder: Optional[Path] = None, progress: Optional[ProgressCallback] = None,
             report: Optional[Path] = None, stride: int = 0, scores_file: Optional[Path] = None,
             lora: Adapters = None, prompts: int = 0,
             questions: Sequence[tuple[str, Sequence[str], int]] = (), draft: Optional[Path] = None,
             target_model: Optional[Path] = None) -> Evaluation:
    """Run a base model and its quants on a text, and measure how far their predictions are from the base model's.

    original, copies: the base model and its quants, GGUF files of one architecture, shape and vocabulary. Without quants only the perplexity is
        measured.
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
    report_format(report, original, *copies, scores_file, draft, target_model, *adapter_paths(lora))
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
    made = traced(interruptible(call, progress), base=original, lora=adapter_paths(lora), quant=list(copies), draft=draft,
                  text=text_bytes(text))
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
                      f.peak_bytes, f.seconds, warnings, f.texts, f.masked,
                      {**record, "outputs": [], "evaluation": _records.evaluation(found)})
