"""Imatrix: how large the inputs of a model's matrices are, column by column.

An Imatrix is opened from a file, or made by Imatrix.compute(), which runs a model on texts. The data stay in the
library; the object has copies of the facts and statistics, which are read again after merge(). An entry belongs to
one weight; a weight with several experts has a matrix for each of them, with columns of its own. quantize() takes an
imatrix file, encode() the columns of one matrix.
"""

from __future__ import annotations

import ctypes
import dataclasses
from ctypes import byref, c_void_p
from typing import Any, Optional, Sequence, Union

import numpy as np
import numpy.typing as npt

from ._interruptible import ProgressCallback, interruptible
from ._library import (
    Adapters, Handle, Size, UsageError, adapter_paths, adapters_of, c_text, check, gq_error, gq_imatrix_row, gq_importance_request, gq_text,
    library, listed, path_bytes, size_bytes, text_of,
)
from ._pages import Report, record_field, report_format, traced
from ._records import file_name, number, plain
from .arrays import Arithmetic
from .evaluations import text_request
from .models import Path


@dataclasses.dataclass(frozen=True)
class Entry:
    """Statistics of one entry, the data of one weight. Undefined numbers are NaN.

    name: of the weight; role: the part behind "blk.N."; layer: N, or None.
    values: columns of all its matrices together; experts have a matrix each.
    counts: tokens that reached each expert, or one number for all; in the .dat layout calls.
    experts_unseen: matrices that no token reached.
    sum, min, max, mean, deviation: of the mean squared activations, over all columns that a token reached.
    active: share of columns above 0.00001; outliers: share more than one deviation above the mean.
    entropy: in bits; evenness: the same as a share of the most that so many columns can have.
    cosine: similarity with the same role one layer earlier.
    """

    name: str
    role: str
    layer: Optional[int]
    values: int
    counts: tuple[float, ...]
    experts_unseen: int
    sum: float
    min: float
    max: float
    mean: float
    deviation: float
    active: float
    entropy: float
    evenness: float
    outliers: float
    cosine: float

    def to_dict(self) -> dict[str, Any]:
        """Return the entry with the keys of `gquant imatrix show --json` (docs/reports.md)."""
        figures = ("sum", "min", "max", "mean", "deviation", "active", "outliers", "entropy", "evenness", "cosine")
        return {"name": plain(self.name), "layer": -1 if self.layer is None else self.layer, "role": plain(self.role),
                "values": self.values, "experts": len(self.counts), "experts_unseen": self.experts_unseen,
                **{name: number(getattr(self, name)) for name in figures}}


def _entry(r: gq_imatrix_row) -> Entry:
    return Entry(text_of(r.name), text_of(r.role), r.layer if r.layer >= 0 else None, r.values,
                 tuple(r.counts[:r.experts]), r.experts_unseen, r.sum, r.min, r.max, r.mean, r.deviation, r.active,
                 r.entropy, r.evenness, r.outliers, r.cosine)


@dataclasses.dataclass(frozen=True)
class _Statistics(Report):
    """The report of compute(), as `gquant imatrix show --json` has it."""

    warnings: list[str]
    record: dict[str, Any] = record_field()


def _check_layout(layout: str) -> None:
    if layout not in ("gguf", "dat"):
        raise UsageError(f"layout {layout!r} is none of gguf, dat")


class Imatrix(Handle):
    """An imatrix: a file in the GGUF or the .dat layout, or what compute() made.

    path: the file. Raises Error where it cannot be read or holds values that cannot be used.

    legacy: whether it is the .dat layout, whose counts are calls, not tokens.
    chunk_count, chunk_size: chunks of text that the data was made from, and tokens in each; 0: not stored.
    datasets: names of the texts; warnings: sentences.
    entries: name -> Entry.

    Close it when it is no longer needed, or use it in a `with` statement.

    >>> with Imatrix("imatrix.gguf") as m:
    ...     blocks = encode(weights, "Q2_K", m.columns("blk.0.ffn_up.weight", weights.shape[-1]))
    """

    def __init__(self, path: Path) -> None:
        e = gq_error()
        self._own(check(library.gq_imatrix_open(path_bytes(path), byref(e)), e))

    def _own(self, handle: Any) -> None:
        Handle.__init__(self, handle, library.gq_imatrix_free)
        self._look()

    def _look(self) -> None:
        held = self.handle  # which the facts and texts are in
        f = library.gq_imatrix_summary(held).contents
        self.legacy: bool = f.legacy
        self.chunk_count: int = f.chunk_count
        self.chunk_size: int = f.chunk_size
        self.datasets: list[str] = [text_of(f.datasets[i]) for i in range(f.n_datasets)]
        self.warnings: list[str] = text_of(f.warnings).splitlines()
        self.entries: dict[str, Entry] = {r.name: r for r in map(_entry, listed(library.gq_imatrix_rows, held))}

    def __repr__(self) -> str:
        return f"Imatrix({len(self.entries)} entries, {self.chunk_count} chunks of {self.chunk_size} tokens)"

    def show(self) -> list[dict[str, Any]]:
        """Return the statistics of all entries, a dictionary each, for example for a table."""
        return [e.to_dict() for e in self.entries.values()]

    def columns(self, name: str, n: Optional[int] = None, matrix: int = 0) -> npt.NDArray[np.float32]:
        """Return the mean squared activations of one matrix, one per column: importance for encode().

        name: of the entry.
        n: columns of the matrix; None: the entry's values divided by the number of its counts.
        matrix: which one, from 0, of a weight with several experts.

        Returns float32 [n], all 1 where no token came by. Raises KeyError where there is no such entry, UsageError
        where it has no such matrix of n columns.
        """
        entry = self.entries[name]
        if n is None:
            n = entry.values // len(entry.counts)
        values = np.empty(n, dtype=np.float32)
        e = gq_error()
        with self.lock:
            row = list(self.entries).index(name)
            check(library.gq_imatrix_columns(self.handle, row, matrix, values.ctypes.data, n, byref(e)), e)
        return values

    def merge(self, other: "Imatrix") -> None:
        """Add another's sums and counts to this one, so that each weighs by its tokens.

        Raises Error where the two do not fit each other. This one is closed then.
        """
        e = gq_error()
        first, second = sorted((self, other), key=id)  # in one order, so that no two threads wait for each other
        with first.lock, second.lock:
            if not library.gq_imatrix_merge(self.handle, other.handle, byref(e)):
                from ._library import failure

                error = failure(e)
                self.close()  # it is fit for nothing else
                raise error
            self._look()

    def write(self, path: Path, *, layout: str = "gguf", force: bool = False) -> None:
        """Write the data to a file, which gets its name when it is complete.

        layout: "gguf" or "dat". force: replace a file that is there.
        Raises UsageError for another layout, Error where the file cannot be written or is there already.
        """
        _check_layout(layout)
        e = gq_error()
        with self.lock:
            check(library.gq_imatrix_write(self.handle, path_bytes(path), layout == "gguf", force, byref(e)), e)

    @classmethod
    def compute(cls, model: Path, texts: Union[str, bytes, Sequence[Union[str, bytes]], npt.ArrayLike], out: Path, *,
                context: int = 0, tokens: int = 0, special: bool = False, layout: str = "gguf", force: bool = False,
                output_tensor: bool = False, part: int = 0, parts: int = 0, threads: int = 0,
                memory: Optional[Size] = None, arithmetic: Arithmetic = "float32",
                progress: Optional[ProgressCallback] = None, lora: Adapters = None, report: Optional[Path] = None) -> "Imatrix":
        """Run a model on texts, a layer at a time, and write an imatrix file.

        model: a GGUF file that can be run (docs/internals/forward.md lists the architectures).
        texts: a text (str or bytes), a list of texts, or an array of token ids. Each text is cut into windows by
            itself.
        out: the file to write.
        context: tokens of a window; 0: 512. tokens: take so many at most, of all texts together; 0: all.
        special: find control tokens in the texts, too.
        layout: "gguf" or "dat". force: replace a file that is there.
        output_tensor: make data of the output matrix, too.
        part, parts: only the part-th (from 1) of so many shares of the windows; 0: all. merge() adds them up.
        threads: 0: one per core.
        memory: to stay within, in bytes or as a text ("8G"); None: a quarter of the machine's.
        arithmetic: "bf16" takes a fraction of the time on a processor with AMX.
        progress: called with a Progress now and then; return False to stop.
        lora: as in quantize().
        report: file for the statistics of show(), which ends in .json, .csv, .html or .md.

        Returns the data as an Imatrix. Make an interrupted call again, and it continues from what is done.
        Raises UsageError, BadWeights, Cancelled or Error.
        """
        _check_layout(layout)
        file = report_format(report, model, out, *adapter_paths(lora), has_chart=False)
        if isinstance(texts, (str, bytes)):
            several: list[Any] = [texts]
        elif isinstance(texts, Sequence) and texts and isinstance(texts[0], (str, bytes)):
            several = list(texts)
        else:
            several = [texts]
        requests = (gq_text * len(several))(
            *[text_request(t, context, tokens, special, f"text {i + 1}") for i, t in enumerate(several)])
        asked = gq_importance_request(
            size=ctypes.sizeof(gq_importance_request), model=path_bytes(model), texts=requests, n_texts=len(several),
            out=path_bytes(out), dat=layout == "dat", force=force, output=output_tensor, part=part, parts=parts,
            threads=threads, memory=size_bytes(memory), arithmetic=c_text(arithmetic),
            adapters=adapters_of(lora))

        def call(callbacks: Any) -> Any:
            e = gq_error()
            asked.callbacks = callbacks
            plan = c_void_p(check(library.gq_importance_plan_new(byref(asked), byref(e)), e))
            try:
                return check(library.gq_importance_compute(plan, callbacks, byref(e)), e)
            finally:
                library.gq_importance_plan_free(plan)

        made = cls.__new__(cls)
        made._own(interruptible(call, progress))
        traced(_Statistics(made.warnings, {
            "path": file_name(text_of(path_bytes(out))), "layout": layout, "chunk_count": made.chunk_count,
            "chunk_size": made.chunk_size, "datasets": list(map(plain, made.datasets)), "entries": made.show()}), report, file)
        return made
