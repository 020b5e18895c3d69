"""Reports as pages: the table and the chart of published pages, for notebooks and files.

The library writes both (gq_page_table, gq_page_chart). In a notebook the chart is an image of its own, so that its
colours, which follow the reader's choice of light or dark, reach nothing else.
"""

from __future__ import annotations

import base64
import ctypes
import dataclasses
import html
import math
import os
from ctypes import byref
from typing import Any, Callable, NamedTuple, Optional, Sequence

from ._library import (
    UsageError, check, gq_error, gq_estimate, gq_evaluated, gq_evaluation_facts, gq_interval, gq_page, gq_page_row, library,
    path_bytes, strings, text_of,
)
from . import _tidy
from ._records import as_json, with_old_names

FORMATS = (".json", ".csv", ".html", ".md", ".svg")


class Point(NamedTuple):
    """A file in a chart; error NaN: unknown."""

    type: str
    file_bytes: int
    value: float
    error: float


class Row(NamedTuple):
    """A file in the table: evaluated is an Evaluated, or None; relative_error NaN where it was not measured."""

    path: str
    type: str
    file_bytes: int
    bits: float
    evaluated: Any = None
    relative_error: float = math.nan


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape").replace(b"\0", b"")


def _estimate(e: Any) -> gq_estimate:
    return gq_estimate(e.value, e.error) if e else gq_estimate()


def evaluated_struct(v: Any) -> gq_evaluated:
    """Return an Evaluated as the library has it."""
    return gq_evaluated(perplexity=_estimate(v.perplexity), divergence=_estimate(v.divergence),
                        ratio=_estimate(v.ratio), rms_change=_estimate(v.rms_change), same_top=_estimate(v.same_top),
                        acceptance=_estimate(v.acceptance) if v.acceptance else gq_estimate(math.nan, math.nan))


class Page:
    """Files in a table and a chart. evaluation: the Evaluation that the rows' evaluated are of; None: there is none."""

    def __init__(self, rows: Sequence[Row], evaluation: Any = None, memory: int = 0) -> None:
        self._of = rows
        kept = [evaluated_struct(r.evaluated) if r.evaluated else None for r in rows]
        self._rows = (gq_page_row * len(rows))(*[
            gq_page_row(path=_raw(r.path), type=_raw(r.type), file_bytes=r.file_bytes, bits=r.bits,
                        evaluated=ctypes.pointer(v) if v else None, relative_error=r.relative_error)
            for r, v in zip(rows, kept)])
        levels = [(row, r.evaluated) for row, r in zip(self._rows, rows) if r.evaluated and r.evaluated.level]
        for row, v in levels:
            row.level = _raw(v.level)
            row.apart, row.flips = (ctypes.pointer(gq_interval(i.value, i.low, i.high, i.of))
                                    for i in (v.divergence_interval, v.flips))
        self._page = gq_page(size=ctypes.sizeof(gq_page), rows=self._rows, n=len(rows), memory=memory,
                             errors=evaluation is None)
        if evaluation is not None:
            self._page.original = ctypes.pointer(evaluated_struct(evaluation.models[0]))
            self._page.evaluation = ctypes.pointer(gq_evaluation_facts(
                size=ctypes.sizeof(gq_evaluation_facts), context=evaluation.context, windows=evaluation.windows,
                tokens=evaluation.tokens, scored=evaluation.scored, texts=evaluation.conversations,
                masked=evaluation.masked))
        self._kept = kept  # which the rows point to

    def points(self) -> tuple[str, list[Point]]:
        """Return what the chart shows, and its name: KL divergence where it was measured, else relative errors."""
        def point(r: Row) -> Point:
            d = r.evaluated.divergence if r.evaluated else None
            return Point(r.type, r.file_bytes, d.value, d.error) if d else Point(r.type, r.file_bytes, r.relative_error, math.nan)

        evaluated = any(r.evaluated for r in self._of)
        points = [point(r) for r in self._of if bool(r.evaluated) == evaluated]
        return ("KL divergence, nats" if evaluated else "relative error of the weights"), sorted(points, key=lambda p: p.file_bytes)

    def _made(self, function: Callable[..., Any], *arguments: Any) -> str:
        e = gq_error()
        text = check(function(byref(self._page), *arguments, byref(e)), e)
        try:
            return text_of(ctypes.string_at(text))
        finally:
            library.gq_free(text)

    def markdown(self) -> str:
        """Return the table in Markdown."""
        return self._made(library.gq_page_table, False)

    def svg(self) -> str:
        """Return the chart."""
        return self._made(library.gq_page_chart)

    def html(self) -> str:
        """Return table and chart for a notebook."""
        return self._made(library.gq_page_table, True) + image(self.svg())


def image(svg: str) -> str:
    """Return a chart as an image within a page."""
    data = base64.b64encode(svg.encode("utf-8", "replace")).decode("ascii")
    return f'<img alt="chart" style="max-width:100%" src="data:image/svg+xml;base64,{data}">\n'


def gigabytes(size: float) -> str:
    """Return a size in bytes in GB, with three digits that count."""
    value = size / 1e9
    return f"{value:.{min(8, max(0, 2 - math.floor(math.log10(value))))}f}" if value > 0 else "0"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table for a notebook. First and last column hold words, the others numbers; cells are no markup."""
    def line(tag: str, cells: Sequence[str]) -> str:
        sides = ["left", *["right"] * (len(cells) - 2), "left"]
        return "<tr>" + "".join(f'<{tag} style="text-align:{side}">{html.escape(cell)}</{tag}>'
                                for side, cell in zip(sides, cells)) + "</tr>\n"

    return "<table>\n" + line("th", head) + "".join(line("td", row) for row in rows) + "</table>\n"


# ---- reports ----


def record_field() -> Any:
    """Return the field that holds a report in the words of docs/reports.md."""
    return dataclasses.field(repr=False, compare=False, default_factory=dict)


class Report:
    """What a call has found."""

    record: dict[str, Any]
    _sources: dict[str, Any] = {}

    def to_dict(self) -> dict[str, Any]:
        """Return the report as dictionaries and lists with the keys of the command's JSON (docs/reports.md)."""
        return with_old_names(self._whole())  # type: ignore[no-any-return]

    def _whole(self) -> dict[str, Any]:
        return self.record

    def records(self, of: str = "") -> list[dict[str, Any]]:
        """Return flat dictionaries, as pandas.DataFrame takes them: one for each tensor, or each model of an evaluation.

        of: "tensors", "models", "types", or of an evaluation "depths" and "differences"; "": what the report is about.
        """
        return _tidy.records(self._whole(), of)

    def provenance(self) -> str:
        """Return what a paper has to say: versions, options, seeds, and the SHA-256 of all files and texts.

        Files are read for it, as they are now. Raises NotFound where one is gone.
        """
        return _tidy.provenance(self._whole(), self._sources)


class Charted(Report):
    """A report with a row for each file. In a notebook it shows itself as a table and a chart."""

    def _page(self) -> Page:
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return self._page().html()

    def to_markdown(self) -> str:
        """Return the table of published pages, a line for each file."""
        return self._page().markdown()

    def to_latex(self) -> str:
        """Return the same table for LaTeX with booktabs, its notes as comments."""
        return _tidy.as_latex(self._page().markdown())

    def plot(self, axes: Any = None) -> Any:
        """Draw the KL divergence, or else the relative error of the weights, against the size of the files.

        axes: of matplotlib, which are drawn on and returned; None: returns the chart as SVG, bytes. That needs no matplotlib.
        """
        page = self._page()
        if axes is None:
            return page.svg().encode("utf-8", "surrogateescape")
        name, points = page.points()
        axes.errorbar([p.file_bytes / 1e9 for p in points], [p.value for p in points], [2 * p.error for p in points], fmt="o-", capsize=3)
        for p in points:
            axes.annotate(p.type, (p.file_bytes / 1e9, p.value), xytext=(4, 4), textcoords="offset points")
        axes.set(xlabel="size, GB", ylabel=name, yscale="log")
        return axes


class Reports(list, Charted):  # type: ignore[type-arg,misc]
    """Reports of several files from one call: a list. to_dict() is one report with all of them as outputs."""

    def _whole(self) -> dict[str, Any]:
        return {**self[0].record, "outputs": [one for r in self for one in r.record["outputs"]]}

    def _page(self) -> Page:
        return Page([r._row() for r in self])


def traced(report: Any, **sources: Any) -> Any:
    """Note what a report comes of, for provenance(): paths, lists of paths, or bytes; None is left out. Returns the report."""
    found = {role: of if isinstance(of, bytes) else [text_of(path_bytes(path)) for path in (of if isinstance(of, list) else [of])]
             for role, of in sources.items() if of is not None}
    for one in (report, *(report if isinstance(report, list) else [])):
        object.__setattr__(one, "_sources", found)
    return report


# ---- files ----


def report_format(path: Any, *inputs: Any) -> Optional[str]:
    """Return the extension of a report, to be asked before the work; None: there is none.

    inputs: paths that the call reads or writes, None among them. Raises UsageError where the report would replace one, and
    Error where it cannot be written.
    """
    if path is None:
        return None
    raw, e = path_bytes(path), gq_error()
    name = text_of(raw)
    found = next((f for f in FORMATS if name.lower().endswith(f)), None)
    if not found:
        raise UsageError(f"{name}: a report's name ends in {', '.join(FORMATS[:-1])} or {FORMATS[-1]}")
    used = [path_bytes(i) for i in inputs if i is not None]
    if os.path.realpath(raw) in map(os.path.realpath, used):  # also where none is there yet
        raise UsageError(f"{name} is a file that this call reads or writes: give the report another name")
    check(library.gq_check_inputs(raw, strings(used), len(used), byref(e)), e)
    check(library.gq_check_target(raw, True, byref(e)), e)
    return found


def _escaped(text: str) -> str:
    return "".join("\\" + c if c in "\\`*_{}[]<>#|&" else " " if c < " " else c for c in text)


def write_report(path: Any, document: dict[str, Any], page: Page) -> None:
    """Write a report as the command does: .json is the document, .md the page's table, .svg its chart."""
    if path is None:
        return
    kind = os.path.splitext(text_of(path_bytes(path)))[1].lower()
    made = {".json": as_json, ".csv": _tidy.as_csv, ".html": _tidy.as_html}.get(kind)
    if made:
        content = made(document)
    elif kind == ".svg":
        content = page.svg().encode("utf-8", "surrogateescape")
    else:
        lines = [f"# {_escaped(document['input'])}\n\n", page.markdown(),
                 f"\ngquant {text_of(library.gq_version())} ({text_of(library.gq_build())})\n"]
        if document["warnings"]:
            lines += ["\nWarnings:\n\n", *[f"- {_escaped(w)}\n" for w in document["warnings"]]]
        content = "".join(lines).encode("utf-8", "surrogateescape")
    e = gq_error()
    check(library.gq_write_whole(path_bytes(path), True, content, len(content), byref(e)), e)
