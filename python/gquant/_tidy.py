"""What is made of a report's document (docs/reports.md): flat records, LaTeX, and the lines that a paper needs."""

from __future__ import annotations

import hashlib
import math
import os
import platform
import re
from ctypes import byref, create_string_buffer
from typing import Any, Sequence

import numpy

from ._library import UsageError, check, gq_error, library, path_bytes, text_of
from ._records import file_name

# ---- records ----


def _flat(of: dict[str, Any], before: str = "") -> dict[str, Any]:
    """Members of members as members, "kld_interval": {"low": ...} as "kld_low"; lists are left out."""
    found: dict[str, Any] = {}
    for key, value in of.items():
        name = before + key
        if isinstance(value, dict):
            found.update(_flat(value, (name[:-9] if name.endswith("_interval") else name) + "_"))
        elif not isinstance(value, list):
            found[name] = value
    return found


def _tensor(path: str, t: dict[str, Any]) -> dict[str, Any]:
    place = re.fullmatch(r"blk\.(\d+)\.(.*)", t["name"])
    rounding = t.get("rounding", {})
    return {"output": path, "tensor": t["name"], "layer": int(place[1]) if place else None, "role": place[2] if place else t["name"],
            "shape": "x".join(map(str, t["shape"])), "bits_per_weight": 8 * t["out_bytes"] / max(1, math.prod(t["shape"])),
            "matrices_plain": rounding.get("plain"), **{key: value for key, value in _flat(t).items() if key != "name"}}


def records(document: dict[str, Any], of: str = "") -> list[dict[str, Any]]:
    """Return a document's rows, flat dictionaries: of its tensors, types or models, or of what `of` names."""
    evaluation = document.get("evaluation") or {}
    models = [{"model": m["path"], **m} for m in evaluation.get("models", [])]
    kinds = {"models": lambda: [{key: value for key, value in _flat(m).items() if key != "path"} for m in models],
             "depths": lambda: [{"model": m["model"], **d} for m in models for d in m.get("depths", [])],
             "differences": lambda: [{**_flat(d), "model": models[d["a"]]["model"], "other": models[d["b"]]["model"]}
                                     for d in evaluation.get("differences", [])],
             "tensors": lambda: [_tensor(o["path"], t) for o in document.get("outputs", []) for t in o["tensors"]]
             or [_flat(t) for t in document.get("tensors", [])],
             "types": lambda: [_flat(t) for t in document.get("types", [])],
             "entries": lambda: [_flat(t) for t in document.get("entries", [])]}
    if of and of not in kinds:
        raise UsageError(f"records of {of!r} are none of {', '.join(kinds)}")
    return next((rows for rows in (kinds[kind]() for kind in ([of] if of else ("tensors", "types", "models", "entries"))) if rows), [])


def points(document: dict[str, Any]) -> tuple[str, list[tuple[str, float, float, float]]]:
    """Return what a chart shows, its name and type, GB, value and twice the error of each file: KL divergence where it was
    measured, else relative errors."""
    models, outputs = document.get("evaluation", {}).get("models", [])[1:], document["outputs"]
    if not models:
        return "relative error of the weights", sorted(
            [(o["file_type"], o["file_bytes"] / 1e9, o.get("relative_error") or math.nan, math.nan) for o in outputs], key=lambda p: p[1])
    return "KL divergence, nats", sorted(
        [((outputs[i] if outputs else m)["file_type"], m["file_bytes"] / 1e9, m["kld"], 2 * (m["kld_error"] or math.nan))
         for i, m in enumerate(models)], key=lambda p: p[1])


# ---- tables ----


def table_of(rows: list[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Return flat records as a table: its heading, the members that any has, and a line of texts for each."""
    head = list(dict.fromkeys(key for row in rows for key in row))
    return head, [["" if row.get(key) is None else f"{row[key]:.6g}" if isinstance(row[key], float) else str(row[key]) for key in head]
                  for row in rows]


def as_markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown. First and last column hold words, the others numbers."""
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(re.sub(r"([\\|*_`<>\[\]])", r"\\\1", cell) for cell in cells) + " |\n"

    return line(head) + "|" + "".join("---|" if i in (0, len(head) - 1) else "---:|" for i in range(len(head))) + "\n" + "".join(map(line, rows))


def as_csv(rows: list[dict[str, Any]]) -> str:
    """Return flat records as CSV, a line for each, all digits kept."""
    import csv
    import io

    to = io.StringIO(newline="")
    lines = csv.DictWriter(to, table_of(rows)[0], lineterminator="\n")
    lines.writeheader()
    lines.writerows(rows)
    return to.getvalue()


def as_latex(markdown: str) -> str:
    """Return a page's table for LaTeX with booktabs; what is said below it becomes comments."""
    lines = markdown.splitlines()
    rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines if line.startswith("|")]
    sides = "".join("r" if cell.endswith(":") else "l" for cell in rows[1])

    def text(cell: str) -> str:
        cell = re.sub(r"\\(\W|_)", r"\1", re.sub(r"\[(.*?)\]\(.*?\)|\*\*", r"\1", cell))
        return "".join(_LATEX.get(c, c) for c in cell)

    head, *body = [" & ".join(map(text, row)) + r" \\" for row in (rows[0], *rows[2:])]
    notes = [f"% {line}" for line in lines if line and not line.startswith("|")]
    return "\n".join([rf"\begin{{tabular}}{{{sides}}}", r"\toprule", head, r"\midrule", *body, r"\bottomrule", r"\end{tabular}",
                      *notes]) + "\n"


_LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", "\u00a0": "~", "<": r"$<$", ">": r"$>$",
          **{c: "\\" + c for c in "&%$#_{}"}}

# ---- for a paper ----


def _files(path: str) -> list[str]:
    """A file, all shards that it is the first of, or the files of a folder."""
    if os.path.isdir(path):
        return [entry.path for entry in sorted(os.scandir(path), key=lambda entry: entry.name) if entry.is_file()]
    shard = re.fullmatch(r"(.*-)\d{5}-of-(\d{5}\.gguf)", path, re.S)
    return [f"{shard[1]}{i + 1:05}-of-{shard[2]}" for i in range(int(shard[2][:5]))] if shard else [path]


def _sha256(path: str) -> str:
    text, e = create_string_buffer(65), gq_error()
    check(library.gq_file_sha256(path_bytes(path), text, byref(e)), e)
    return text_of(text.value)


def provenance(document: dict[str, Any], sources: dict[str, Any]) -> dict[str, Any]:
    """Return versions, options, seeds, and digests of files as they are now and of texts as they were given."""
    found: dict[str, Any] = {
        "gquant": {"version": text_of(library.gq_version()), "build": text_of(library.gq_build()), "isa": text_of(library.gq_isa()),
                   "features": text_of(library.gq_features())},
        "python": {"version": platform.python_version(), "numpy": numpy.__version__, "platform": platform.platform()},
        "seeds": "fixed in this version: the same call gives the same files and figures, on any number of threads",
        "options": list(document.get("options", [])),
        "types": [one["file_type"] for one in document.get("outputs", []) if one.get("file_type")], "files": []}
    for role, of in sources.items():
        if isinstance(of, bytes):
            found["files"].append({"role": role, "name": None, "bytes": len(of), "sha256": hashlib.sha256(of).hexdigest()})
            continue
        found["files"] += [{"role": role, "name": file_name(path), "bytes": os.path.getsize(path), "sha256": _sha256(path)}
                           for one in of for path in _files(one)]
    if "evaluation" in document:
        found["scored"] = {key: document["evaluation"][key] for key in ("scored", "tokens", "windows", "context")}
    return found


def provenance_lines(found: dict[str, Any]) -> str:
    """Return a provenance() as lines."""
    ours, python = found["gquant"], found["python"]
    lines = [("gquant", f"{ours['version']} ({ours['build']}), {ours['isa']}, {ours['features']}"),
             ("python", f"{python['version']}, numpy {python['numpy']}, {python['platform']}"),
             ("seeds", found["seeds"]), ("options", " ".join(found["options"]) or "none")]
    if found["types"]:
        lines.append(("types", " ".join(found["types"])))
    lines += [(f["role"], f"sha256 {f['sha256']}, {f['bytes']:,} bytes" + (f", {f['name']}" if f["name"] is not None else ""))
              for f in found["files"]]
    if "scored" in found:
        e = found["scored"]
        lines.append(("scored", f"{e['scored']:,} of {e['tokens']:,} tokens, {e['windows']:,} windows of {e['context']}"))
    return "".join(f"{role:10}{line}\n" for role, line in lines)
