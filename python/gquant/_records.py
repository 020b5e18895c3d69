"""What the library has found, in the words of docs/reports.md: dictionaries with the keys of the command's reports.

The library writes reports (gq_report_text, with all digits). They are made while the library's objects are there, and hold
nothing of them. Files are named without folders, as in the command's reports. Numbers that are undefined are None, as
JSON has null for them.
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import re
from ctypes import byref
from typing import Any, Callable, Optional, Sequence

from ._library import check, gq_error, gq_report_request, library, strings, text_of

JSON, EXACT, CSV, HTML, MARKDOWN, SVG, TABLE, HTML_TABLE = range(8)  # gq_report_format


def plain(text: str) -> str:
    """Return a text of the library as reports have it: a byte that is not UTF-8 is one of U+EF80 to U+EFFF."""
    return re.sub("[\udc80-\udcff]", lambda c: chr(0xEF00 + ord(c[0]) - 0xDC00),
                  re.sub("[\uef80-\uefff]", lambda c: c[0].encode().decode("ascii", "surrogateescape"), text))


def raw(text: str) -> str:
    """Return a text of a report as the library has it."""
    found = re.sub("[\uef80-\uefff]", lambda c: chr(0xDC00 + ord(c[0]) - 0xEF00), text)
    return found.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")


def file_name(path: str) -> str:
    """Return a path without its folders."""
    return plain(os.path.basename(path))


def number(value: float) -> Optional[float]:
    """Return a number, or None where it is not finite."""
    return value if math.isfinite(value) else None


def taken(function: Callable[..., Any], *arguments: Any) -> str:
    """Return a text that the library has made for its caller."""
    e = gq_error()
    text = check(function(*arguments, byref(e)), e)
    try:
        return text_of(ctypes.string_at(text))
    finally:
        library.gq_free(text)


def published(of: Any) -> Any:
    """Return a document as reports have it: no numbers that JSON lacks, no members that begin with a dot."""
    if isinstance(of, dict):
        return {key: published(value) for key, value in of.items() if key[0] != "."}
    if isinstance(of, list):
        return [published(item) for item in of]
    return None if isinstance(of, float) and not math.isfinite(of) else of


def gathered(file: Any, warnings: Sequence[str], options: Sequence[str], **members: Any) -> tuple[dict[str, Any], dict[int, str]]:
    """Return a report as the library has it (gq_report_request), and its texts by format: tables, chart, and the file's."""
    e = gq_error()
    said, given = [[text.encode("utf-8", "surrogateescape") for text in of] for of in (warnings, options)]
    asked = gq_report_request(size=ctypes.sizeof(gq_report_request), warnings=strings(said), n_warnings=len(said),
                              options=strings(given), n_options=len(given), **members)
    found = ctypes.c_void_p(check(library.gq_report_new(byref(asked), byref(e)), e))
    try:
        formats = {TABLE, HTML_TABLE, SVG} | (set() if file is None else {file})
        return json.loads(taken(library.gq_report_text, found, EXACT)), {
            of: taken(library.gq_report_text, found, of) for of in formats}
    finally:
        library.gq_report_free(found)


# Members that had another name in version 0.1 (base/json.c): both are there for one release.
_RENAMED = {
    "changed_top1": "flips", "changed_top1_interval": "flips_interval", "clipped": "ends", "expected_kld": "expected_divergence",
    "grid_types": "lattice_types", "held_out": "held_back", "needs_imatrix": "needs_importance",
    "hidden_states_in_file": "states_in_file", "kld": "divergence", "nll_interval": "surprise_interval",
    "plain_output_error": "searched_output_error", "top1_agreement": "same_top", "without_imatrix": "without_importance",
    **{f"kld_{of}": f"divergence_{of}" for of in ("90", "95", "99", "99_9", "error", "interval", "max", "median")}}


def with_old_names(of: Any) -> Any:
    """Return a copy of a report in which renamed members have their old names, too."""
    if isinstance(of, list):
        return [with_old_names(item) for item in of]
    if not isinstance(of, dict):
        return of
    found: dict[str, Any] = {}
    for key, value in of.items():
        found[key] = with_old_names(value)
        if key in _RENAMED:
            found[_RENAMED[key]] = found[key]
    return found
