"""Reports as pages: the table and the chart of published pages, for notebooks and files.

The library writes both (gq_report_text). In a notebook the chart is an image of its own, so that its
colours, which follow the reader's choice of light or dark, reach nothing else.
"""

from __future__ import annotations

import base64
import dataclasses
import html
import json
import math
import os
import sys
from ctypes import byref
from typing import Any, Literal, Optional, Sequence, overload

from ._library import UsageError, check, gq_error, library, path_bytes, strings, text_of
from . import _tidy
from ._records import CSV, HTML, HTML_TABLE, JSON, MARKDOWN, SVG, TABLE, with_old_names


def image(svg: str) -> str:
    """Return a chart as an image within a page."""
    data = base64.b64encode(svg.encode("utf-8", "replace")).decode("ascii")
    return f'<img alt="chart" style="max-width:100%" src="data:image/svg+xml;base64,{data}">\n'


def file_size(size: float) -> str:
    """Return a size in bytes, with three digits that count: "105 MB", "4.92 GB"."""
    value = size / (1e6 if size < 1e9 else 1e9)
    digits = f"{value:.{min(8, max(0, 2 - math.floor(math.log10(value))))}f}" if value > 0 else "0"
    return f"{digits} {'MB' if size < 1e9 else 'GB'}"


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

    def _table(self) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
        return _tidy.table_of(self.records())

    def to_markdown(self) -> str:
        """Return a table in Markdown."""
        return _tidy.as_markdown(*self._table())

    def to_latex(self) -> str:
        """Return the same table for LaTeX with booktabs, its notes as comments."""
        return _tidy.as_latex(self.to_markdown())

    def _written(self, format: int) -> str:
        """The content of a report's file."""
        if format == SVG:
            return self.plot().decode()  # type: ignore[attr-defined,no-any-return]
        if format == HTML:
            return f'<!DOCTYPE html>\n<meta charset="utf-8">\n{table(*self._table())}'
        return {JSON: lambda: json.dumps(self.to_dict(), indent=2) + "\n", CSV: lambda: _tidy.as_csv(self.records()),
                MARKDOWN: self.to_markdown}[format]()

    @overload
    def provenance(self, text: Literal[True] = True) -> str: ...

    @overload
    def provenance(self, text: Literal[False]) -> dict[str, Any]: ...

    def provenance(self, text: bool = True) -> Any:
        """Return what a paper has to say: versions, options, seeds, and the SHA-256 of all files and texts.

        text: as lines; False: as a dictionary, whose "files" is a record for each file and text.
        Files are read for it, as they are now. Raises NotFound where one is gone.
        """
        found = _tidy.provenance(self._whole(), self._sources)
        return _tidy.provenance_lines(found) if text else found


class Charted(Report):
    """A report with a row for each file. In a notebook it shows itself as a table and a chart."""

    _texts: dict[int, str] = {}

    def _repr_html_(self) -> str:
        return self._texts[HTML_TABLE] + image(self._texts[SVG])

    def to_markdown(self) -> str:
        """Return the table of published pages, a line for each file."""
        return self._texts[TABLE]

    def _written(self, format: int) -> str:
        return self._texts[format]

    def plot(self, axes: Any = None) -> Any:
        """Draw the KL divergence, or else the relative error of the weights, against the size of the files.

        axes: of matplotlib, which are drawn on and returned; None: returns the chart as SVG, bytes. That needs no matplotlib.
        """
        if axes is None:
            return self._texts[SVG].encode("utf-8", "surrogateescape")
        name, points = _tidy.points(self._whole())
        types, sizes, values, errors = zip(*points) if points else ((), (), (), ())
        unit = "GB" if max(sizes, default=1) >= 1 else "MB"
        sizes = [size if unit == "GB" else 1000 * size for size in sizes]
        axes.errorbar(sizes, values, errors, fmt="o-", capsize=3)
        for i, (type, at) in enumerate(zip(types, zip(sizes, values))):  # above and below by turns, as sizes may be alike
            axes.annotate(type, at, xytext=(4, -12 if i % 2 else 4), textcoords="offset points")
        axes.set(xlabel=f"size, {unit}", ylabel=name, yscale="log")
        return axes


def shown(report: Any, texts: dict[int, str]) -> Any:
    """Note a report's texts by format. Returns the report."""
    object.__setattr__(report, "_texts", texts)
    return report


class Reports(list, Charted):  # type: ignore[type-arg,misc]
    """Reports of several files from one call: a list. to_dict() is one report with all of them as outputs."""

    def _whole(self) -> dict[str, Any]:
        return {**self[0].record, "outputs": [one for r in self for one in r.record["outputs"]]}


def traced(report: Any, to: Any = None, format: Optional[int] = None, **sources: Any) -> Any:
    """Note what a report comes of, for provenance(): paths, lists of paths, or bytes; None is left out. Writes it as the
    command does, where a format is given; only then warns of what the library warns of, at the caller's line, as a warning
    may be an exception. Returns the report."""
    found = {role: of if isinstance(of, bytes) else [text_of(path_bytes(path)) for path in (of if isinstance(of, list) else [of])]
             for role, of in sources.items() if of is not None}
    for one in (report, *(report if isinstance(report, list) else [])):
        object.__setattr__(one, "_sources", found)
    if format is not None:
        content, e = report._written(format).encode("utf-8", "surrogateescape"), gq_error()
        check(library.gq_write_whole(path_bytes(to), True, content, len(content), byref(e)), e)
    warn([text for one in (report if isinstance(report, list) else [report]) for text in one.warnings])
    return report


def warn(texts: Sequence[str]) -> None:
    """Warn of each text once, as of the line that has called this package."""
    import warnings

    frame, level = sys._getframe(1), 2
    while frame.f_back and os.path.dirname(frame.f_code.co_filename) == os.path.dirname(__file__):
        frame, level = frame.f_back, level + 1
    for text in dict.fromkeys(texts):
        warnings.warn(text, UserWarning, stacklevel=level)


# ---- files ----


def report_format(path: Any, *inputs: Any, has_chart: bool = True) -> Optional[int]:
    """Return the format of a report, to be asked before the work; None: there is none.

    inputs: paths that the call reads or writes, None among them. Raises UsageError where the report would replace one, or
    would be a chart that there is not, and Error where it cannot be written.
    """
    if path is None:
        return None
    raw, e = path_bytes(path), gq_error()
    name, found = text_of(raw), library.gq_report_format_of(raw)
    if found < 0:
        raise UsageError(f"{name}: a report's name ends in .json, .csv, .html, .md or .svg")
    if found == SVG and not has_chart:
        raise UsageError(f"{name}: this call has no chart to write; a report's name ends in .json, .csv, .html or .md here")
    used = [path_bytes(i) for i in inputs if i is not None]
    if os.path.realpath(raw) in map(os.path.realpath, used):  # also where none is there yet
        raise UsageError(f"{name} is a file that this call reads or writes: give the report another name")
    check(library.gq_check_inputs(raw, strings(used), len(used), byref(e)), e)
    check(library.gq_check_target(raw, True, byref(e)), e)
    return int(found)
