"""Importance data: what is known of the inputs that a model's matrices meet."""

from __future__ import annotations

import ctypes
import dataclasses
from ctypes import byref, c_void_p
from typing import Any, Optional, Sequence, Union

import numpy as np
import numpy.typing as npt

from ._interruptible import interruptible
from ._library import (
    Handle, UsageError, check, gq_error, gq_imatrix_row, gq_importance_request, gq_text, library, listed,
    path_bytes, text_of,
)
from .models import Path
from .runs import ProgressCallback, Report, text_request


@dataclasses.dataclass(frozen=True)
class Entry(Report):
    """Statistics of an entry, over the mean squared activations of all columns that a token reached. What is not
    defined is NaN."""

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


def _entry(r: gq_imatrix_row) -> Entry:
    return Entry(text_of(r.name), text_of(r.role), r.layer if r.layer >= 0 else None, r.values,
                 tuple(r.counts[:r.experts]), r.experts_unseen, r.sum, r.min, r.max, r.mean, r.deviation, r.active,
                 r.entropy, r.evenness, r.outliers, r.cosine)


def _check_layout(layout: str) -> None:
    if layout not in ("gguf", "dat"):
        raise UsageError(f"layout {layout!r} is none of gguf, dat")


class Imatrix(Handle):
    """Importance data of a file, in either layout.

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
        f = library.gq_imatrix_summary(self.handle).contents
        self.legacy: bool = f.legacy
        self.chunk_count: int = f.chunk_count
        self.chunk_size: int = f.chunk_size
        self.datasets: list[str] = [text_of(f.datasets[i]) for i in range(f.n_datasets)]
        self.warnings: list[str] = text_of(f.warnings).splitlines()
        self.entries: dict[str, Entry] = {r.name: r for r in map(_entry, listed(library.gq_imatrix_rows, self.handle))}

    def show(self) -> list[dict[str, Any]]:
        """Statistics of all entries, as dictionaries: what a table is made of."""
        return [e.to_dict() for e in self.entries.values()]

    def columns(self, name: str, n: Optional[int] = None, matrix: int = 0) -> npt.NDArray[np.float32]:
        """Mean squared activations of one of an entry's matrices, one per column: importance for encode(). n: columns
        of the matrix; without, those of an entry for one matrix, or for as many as it has counts."""
        entry = self.entries[name]
        if n is None:
            n = entry.values // len(entry.counts)
        values = np.empty(n, dtype=np.float32)
        e = gq_error()
        row = list(self.entries).index(name)
        check(library.gq_imatrix_columns(self.handle, row, matrix, values.ctypes.data, n, byref(e)), e)
        return values

    def merge(self, other: "Imatrix") -> None:
        """Add another's sums and counts, so that each weighs by its tokens."""
        e = gq_error()
        if not library.gq_imatrix_merge(self.handle, other.handle, byref(e)):
            from ._library import failure

            error = failure(e)
            self.close()  # it is fit for nothing else
            raise error
        self._look()

    def write(self, path: Path, *, layout: str = "gguf", force: bool = False) -> None:
        """To a file, in the layout "gguf" or "dat"."""
        _check_layout(layout)
        e = gq_error()
        check(library.gq_imatrix_write(self.handle, path_bytes(path), layout == "gguf", force, byref(e)), e)

    @classmethod
    def compute(cls, model: Path, texts: Union[str, bytes, Sequence[Union[str, bytes]], npt.ArrayLike], out: Path, *,
                context: int = 0, tokens: int = 0, special: bool = False, layout: str = "gguf", force: bool = False,
                output_tensor: bool = False, part: int = 0, parts: int = 0, threads: int = 0, memory: int = 0,
                progress: Optional[ProgressCallback] = None) -> "Imatrix":
        """Run a model on texts (or on ids of tokens), a layer at a time, and write what flows into its matrices to
        out. A call that was interrupted goes on when it is made again."""
        _check_layout(layout)
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
            threads=threads, memory=memory)

        def call(callbacks: Any) -> Any:
            e = gq_error()
            plan = c_void_p(check(library.gq_importance_plan_new(byref(asked), byref(e)), e))
            try:
                return check(library.gq_importance_compute(plan, callbacks, byref(e)), e)
            finally:
                library.gq_importance_plan_free(plan)

        made = cls.__new__(cls)
        made._own(interruptible(call, progress))
        return made
