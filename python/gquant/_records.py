"""What the library has found, in the words of docs/reports.md: dictionaries with the keys of the command's reports.

They are made while the library's objects are there, and hold nothing of them. Files are named without folders, as in
the command's reports. Numbers that are undefined are None, as JSON has null for them.
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import re
from ctypes import byref
from typing import Any, Optional

from ._library import (
    check, gq_chosen, gq_continued, gq_depth, gq_drafted, gq_error, gq_estimate, gq_interval, gq_loss, gq_tensor, library, listed, text_of,
)

_COVERAGE = ("unused", "missing", "full")
_WORST = 5


def plain(text: str) -> str:
    """Return a text of the library as reports have it: a byte that is not UTF-8 is one of U+EF80 to U+EFFF."""
    raw = re.sub("[\uef80-\uefff]", lambda c: c[0].encode().decode("ascii", "surrogateescape"), text)
    return re.sub("[\udc80-\udcff]", lambda c: chr(0xEF00 + ord(c[0]) - 0xDC00), raw)


def file_name(path: str) -> str:
    """Return a path without its folders."""
    return plain(os.path.basename(path))


def number(value: float) -> Optional[float]:
    """Return a number, or None where it is not finite."""
    return value if math.isfinite(value) else None


def as_json(document: Any) -> bytes:
    """Return a document as a file of JSON: ASCII, and nothing in it ends an element of HTML."""
    return (json.dumps(document, indent=1, allow_nan=False).replace("<", "\\u003c") + "\n").encode("ascii")


# Members that had another name in version 0.1 (cli/json.c): both are there for one release.
_RENAMED = {
    "changed_top1": "flips", "changed_top1_interval": "flips_interval", "expected_kld": "expected_divergence",
    "grid_types": "lattice_types", "held_out": "held_back", "needs_imatrix": "needs_importance",
    "hidden_states_in_file": "states_in_file", "kld": "divergence", "nll_interval": "surprise_interval",
    "top1_agreement": "same_top", "without_imatrix": "without_importance",
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


def document(kind: str, input: str, warnings: list[str], paths: list[str], **members: Any) -> dict[str, Any]:
    """Return the members of every report, those that are None left out. Paths within warnings become names."""
    for path in (path for path in [input, *paths] if os.path.basename(path) != path):
        warnings = [w.replace(path, os.path.basename(path)) for w in warnings]
    facts = {"gquant": text_of(library.gq_version()), "kind": kind, "isa": text_of(library.gq_isa()),
             "input": file_name(input), **{key: value for key, value in members.items() if value is not None}}
    return {**facts, "warnings": [plain(w) for w in warnings]}


# ---- losses ----


def _weighted(l: gq_loss) -> float:
    return math.sqrt(l.we2 / l.wx2) if l.wx2 > 0 else math.nan


def _relative(l: gq_loss) -> float:
    return math.sqrt(l.e2 / l.x2) if l.e2 > 0 and l.x2 > 0 else math.inf if l.e2 > 0 else 0.0


def _squares(l: gq_loss) -> float:
    return l.we2 if l.wx2 > 0 else l.e2


def _losses(l: gq_loss) -> dict[str, Any]:
    snr = 10 * math.log10(l.x2 / l.e2) if l.e2 > 0 and l.x2 > 0 else math.nan
    return {"rmse": number(math.sqrt(l.e2 / l.n) if l.n else 0.0), "relative_error": number(_relative(l)),
            "snr_db": number(snr), "max_error": number(l.max_error), "weighted_error": number(_weighted(l))}


def _sum(losses: list[gq_loss]) -> gq_loss:
    total = gq_loss()
    for l in losses:
        for member in ("n", "x2", "e2", "wx2", "we2"):
            setattr(total, member, getattr(total, member) + getattr(l, member))
        total.max_error = max(total.max_error, l.max_error)
    return total


# ---- roundings ----


def _share(part: float, whole: float) -> Optional[float]:
    return number(math.sqrt(part / whole)) if whole > 0 else None


def _steps(steps: list[Any]) -> list[dict[str, Any]]:
    found = []
    for s in steps:
        step = {"name": text_of(s.name), "what": text_of(s.what), "on": s.on, "matrices": s.matrices, "kept": s.kept,
                "compared": s.compared}
        if s.compared:
            step["error"] = number(math.sqrt(getattr(s, "with") / s.compared))
            step["error_without"] = number(math.sqrt(s.without / s.compared))
        found.append(step)
    return found


def _rounding(r: Any, steps: list[Any]) -> dict[str, Any]:
    return {
        "output_error": _share(r.written, r.power), "searched_output_error": _share(r.searched, r.power),
        "rounding": {
            "matrices": r.matrices, "plain": r.plain, "unchecked": r.unchecked, "why": text_of(r.why),
            "tokens": r.tokens, "width": r.width, "damp": number(r.damp), "codes": r.codes, "ends": r.ends,
            "steps": [text_of(s.name) for i, s in enumerate(steps) if r.steps >> i & 1]}}


def _roundings(roundings: list[Any], steps: list[Any]) -> dict[str, Any]:
    checked = [r for r in roundings if r.matrices and r.power > 0]
    mean = {name: math.sqrt(sum(getattr(r, name) / r.power for r in checked) / len(checked)) if checked else None
            for name in ("written", "searched")}
    plain_ones = sum(r.plain for r in roundings)
    return {"output_error": mean["written"], "searched_output_error": mean["searched"],
            "matrices_calibrated": sum(r.matrices for r in roundings) - plain_ones, "matrices_plain": plain_ones,
            "matrices_unchecked": sum(r.unchecked for r in roundings), "steps": _steps(steps)}


def calibration(plan: Any) -> Optional[dict[str, Any]]:
    """Return what a calibrated plan works with; None: it is not calibrated."""
    found = library.gq_plan_calibration(plan)
    if not found:
        return None
    f = found.contents
    facts = {
        "text": plain(text_of(f.text)) if f.text else None, "random": not f.text, "context": f.context,
        "windows": f.windows, "tokens": f.tokens, "held_out": f.held_back,
        "tokens_per_column": number(f.per_column), "columns": f.columns, "width": f.width, "memory_bytes": f.memory,
        "disk_bytes": f.disk, "hidden_states_in_file": f.states_in_file,
        "inputs_memory_bytes": f.inputs_memory, "inputs_disk_bytes": f.inputs_disk, "gflop": number(f.work / 1e9),
        "seconds_expected": f.seconds_expected if f.seconds_expected > 0 else None,
        "left_out": text_of(f.left_out) if f.left_out is not None else None,
        "tokens_advised": f.tokens_advised, "trial_layers": f.trial_layers if f.has_trials else None,
        "steps": text_of(f.steps), "arithmetic": text_of(f.arithmetic)}
    return {key: value for key, value in facts.items() if value is not None}


# ---- tensors and outputs ----


def origin(o: Any) -> dict[str, Any]:
    """Return where a folder has a tensor."""
    return {"names": plain(text_of(o.names)), "type": text_of(o.type), "changes": text_of(o.changes), "bytes": o.bytes}


def _tensor(t: gq_tensor, loss: Optional[gq_loss], rounding: Any, steps: list[Any], squares: float,
            checksum: bool) -> dict[str, Any]:
    def name_of(kind: int) -> str:
        return text_of(library.gq_type_name(kind))

    found: dict[str, Any] = {"name": plain(text_of(t.name)), "source_name": plain(text_of(t.source_name)),
                             "shape": [t.ne[i] for i in range(t.n_dims)]}
    if t.transposed:
        found["transposed"] = True
    found.update({"from": name_of(getattr(t, "from")), "to": name_of(t.to), "wanted": name_of(t.wanted)})
    if t.wanted != t.to:
        found["fallback_bytes"] = t.fallback_bytes
    found["why"] = plain(text_of(t.why))
    if t.origin:
        found["origin"] = origin(t.origin.contents)
    if t.lattice_types:
        found["grid_types"] = [name_of(i) for i in range(64) if t.lattice_types >> i & 1]
    found.update({"in_bytes": t.in_bytes, "out_bytes": t.out_bytes, "importance": _COVERAGE[t.importance],
                  "calibrated": t.calibrated})
    if t.experts > 1:
        found.update({"experts": t.experts, "experts_unseen": t.experts_unseen})
    if loss is None:
        return found
    if checksum:
        found["crc32"] = f"{loss.crc32:08x}"
    found["measured"] = loss.n > 0
    if loss.n:
        found.update(_losses(loss))
        found["error_share"] = number(_squares(loss) / squares) if squares > 0 else 0
    if rounding is not None and rounding.matrices:
        found.update(_rounding(rounding, steps))
    return found


def output(s: Any, tensors: list[gq_tensor], losses: Optional[list[gq_loss]], roundings: list[Any],
           steps: list[Any], rate: float, checksums: bool) -> dict[str, Any]:
    """Return the report of an output of a run, or of a quant; losses None: it is only planned.

    rate: weights per second, 0: not known. checksums: whether those of tensors are known.
    """
    found = {
        "path": file_name(text_of(s.path)), "file_type": text_of(s.filetype), "weights": s.n_weights,
        "in_bytes": s.in_bytes, "out_bytes": s.out_bytes, "file_bytes": s.file_bytes,
        "bits_per_weight": 8 * s.out_bytes / s.n_weights if s.n_weights else 0, "fallbacks": s.n_fallbacks,
        "fallback_bytes": s.fallback_bytes, "without_imatrix": s.n_without_importance,
        "experts_unseen": s.n_experts_unseen}
    squares = 0.0
    if losses is not None:
        squares = sum(map(_squares, losses))
        errors = [(_weighted(l) if l.wx2 > 0 else _relative(l)) if l.n else 0.0 for l in losses]
        if rate > 0:
            found["weights_per_second"] = rate
        found.update(_losses(_sum(losses)))
        if roundings:
            found.update(_roundings(roundings, steps))
        worst = [i for i in sorted(range(len(errors)), key=lambda i: -errors[i]) if errors[i] > 0][:_WORST]
        found["worst"] = [plain(text_of(tensors[i].name)) for i in worst]
    found["tensors"] = [
        _tensor(t, losses[i] if losses is not None else None, roundings[i] if roundings else None, steps, squares,
                checksums)
        for i, t in enumerate(tensors)]
    return found


def planned(plan: Any, results: Any, i: int) -> dict[str, Any]:
    """Return the report of an output of a plan, and of its run where there are results."""
    tensors = listed(library.gq_plan_tensors, plan, i)
    losses, roundings, steps, rate = None, [], [], 0.0
    if results:
        losses = listed(library.gq_results_losses, results, i)
        roundings = listed(library.gq_results_roundings, results, i)
        steps = listed(library.gq_results_steps, results, i)
        p = library.gq_results_progress(results).contents
        seconds = p.seconds - p.seconds_resumed
        rate = (p.weights_done - p.weights_resumed) / seconds if seconds > 0 else 0.0
    return output(library.gq_plan_summary(plan, i).contents, tensors, losses, roundings, steps, rate, bool(results))


def mark_best(outputs: list[dict[str, Any]], numbers: list[list[int]], losses: list[list[gq_loss]]) -> None:
    """Mark in the outputs of several quants which is nearest to the base model, tensor by tensor.

    numbers: of each quant's tensors, their number in the base model.
    """
    errors = [[(_weighted(l) if l.wx2 > 0 else _relative(l)) if l.n else 0.0 for l in of] for of in losses]
    by_number: dict[int, list[float]] = {}
    for of, values in zip(numbers, errors):
        for number_, error in zip(of, values):
            by_number.setdefault(number_, []).append(error)
    for output_, of, values in zip(outputs, numbers, errors):
        best = [error == min(by_number[number_]) < max(by_number[number_]) for number_, error in zip(of, values)]
        for tensor, is_best in zip(output_["tensors"], best):
            tensor["best"] = is_best
        behind = {key: output_.pop(key) for key in ("worst", "tensors")}
        output_.update(best_in=sum(best), **behind)


# ---- evaluations ----


def interval_of(found: Any, statistic: int, a: int, b: int = 0) -> gq_interval:
    """Return a statistic of a model of an evaluation with its interval."""
    to, e = gq_interval(), gq_error()
    check(library.gq_evaluation_interval(found, statistic, a, b, byref(to), byref(e)), e)
    return to


def depths_of(found: Any, model: int) -> list[Any]:
    """Return the figures of a model by depth."""
    to = (gq_depth * 4)()
    return list(to[:library.gq_evaluation_depths(found, model, to)])


def level_of(found: Any, model: int) -> str:
    """Return what a quant's figures come to."""
    to, e = ctypes.c_int(), gq_error()
    check(library.gq_evaluation_level(found, model, byref(to), byref(e)), e)
    return text_of(library.gq_level_text(to.value))


def asked_of(found: Any, model: int) -> tuple[Any, Any, Any]:
    """Return a gq_continued, a gq_chosen and a gq_drafted of a model; None where that was not asked for."""
    continued, chosen, drafted = gq_continued(), gq_chosen(), gq_drafted()
    return (continued if library.gq_evaluation_continued(found, model, byref(continued)) else None,
            chosen if library.gq_evaluation_chosen(found, model, byref(chosen)) else None,
            drafted if library.gq_evaluation_drafted(found, model, byref(drafted)) else None)


DIVERGENCE, FLIPS, SURPRISE = range(3)


def _interval(i: gq_interval) -> dict[str, Any]:
    return {"value": number(i.value), "low": number(i.low), "high": number(i.high), "of": i.windows}


def _more(found: Any, model: int, embeds: bool) -> dict[str, Any]:
    """What has no place in a table of plain numbers."""
    to: dict[str, Any] = {}
    if not embeds:
        to["nll_interval"] = _interval(interval_of(found, SURPRISE, model))
        if model:
            to.update(changed_top1_interval=_interval(interval_of(found, FLIPS, model)), level=level_of(found, model))
        to["depths"] = []
        for d in depths_of(found, model):
            depth = {"from": getattr(d, "from")}
            if d.to != 2**32 - 1:
                depth["to"] = d.to
            depth.update(scored=d.scored, perplexity=number(d.perplexity))
            if model:
                depth.update(kld=number(d.divergence), changed_top1=number(d.flips))
            to["depths"].append(depth)
        continued, chosen, drafted = asked_of(found, model)
        if continued:
            to["continued"] = {"parts": list(continued.parts), "prompts": continued.prompts, "same": _interval(continued.same),
                               "mean": number(continued.mean)}
        if chosen:
            to["chosen"] = {"questions": chosen.questions, "right": chosen.right, "accuracy": _interval(chosen.accuracy)}
            if model:
                to["chosen"].update(lost=chosen.lost, gained=chosen.gained, others=chosen.others, more=_interval(chosen.more))
        if drafted:
            to["drafted"] = {"texts": drafted.texts, "positions": drafted.positions, "first": _interval(drafted.first),
                             **{key: [_interval(i) for i in getattr(drafted, key)] for key in ("accepted", "length")}}
    if model:
        to["kld_interval"] = _interval(interval_of(found, DIVERGENCE, model))
    return to


def _certainty(e: gq_estimate, by_windows: gq_interval) -> str:
    if e.value == 0:
        return "the same"
    error = max(e.error, (by_windows.high - by_windows.low) / 4) if not math.isnan(by_windows.low) else e.error
    errors = abs(e.value) / error if error > 0 else math.inf
    return "certain" if errors >= 3 else "likely" if errors >= 2 else "open"


def _evaluated(v: Any, is_copy: bool) -> dict[str, Any]:
    found = {"path": file_name(text_of(v.path)), "file_type": text_of(v.filetype), "file_bytes": v.file_bytes,
             "tensor_bytes": v.tensor_bytes, "weights": v.n_weights,
             "bits_per_weight": 8 * v.tensor_bytes / v.n_weights if v.n_weights else 0,
             "perplexity": number(v.perplexity.value), "perplexity_error": number(v.perplexity.error)}
    if is_copy:
        found.update({"kld": number(v.divergence.value), "kld_error": number(v.divergence.error)})
        for name, value in zip(("median", "90", "95", "99", "99_9", "max"), v.quantiles):
            found[f"kld_{name}"] = number(value)
        found.update({"perplexity_ratio": number(v.ratio.value), "perplexity_ratio_error": number(v.ratio.error),
                      "rms_change": number(v.rms_change.value), "rms_change_error": number(v.rms_change.error),
                      "top1_agreement": number(v.same_top.value)})
    if not math.isnan(v.acceptance.value):
        found.update({"acceptance": number(v.acceptance.value), "acceptance_error": number(v.acceptance.error)})
    return found


def evaluation(found: Any) -> dict[str, Any]:
    """Return the part of a report about an evaluation."""
    f = library.gq_evaluation_summary(found).contents
    models = listed(library.gq_evaluation_models, found)
    differences = []
    for a in range(1, len(models)):
        for b in range(a + 1, len(models)):
            more = gq_estimate()
            library.gq_evaluation_difference(found, a, b, byref(more))
            by_windows = interval_of(found, DIVERGENCE, a, b)
            differences.append({"a": a, "b": b, "difference": number(more.value), "error": number(more.error),
                                "sure": _certainty(more, by_windows), "interval": _interval(by_windows)})
    embeds = math.isnan(models[0].perplexity.value)
    return {"architecture": text_of(f.architecture), "context": f.context, "windows": f.windows, "tokens": f.tokens,
            "scored": f.scored,
            **({"stride": f.stride} if f.stride else {}),
            **({"conversations": f.texts} if f.texts else {}),
            **({"masked": True} if f.masked else {}), "seconds": f.seconds,
            "models": [{**_evaluated(m, i > 0), **_more(found, i, embeds)} for i, m in enumerate(models)],
            "differences": differences}


# ---- verifications ----


def verification(path: str, found: Any, compared: bool) -> dict[str, Any]:
    """Return what `gquant verify --json` prints."""
    verdicts = listed(library.gq_verification_verdicts, found)
    missing = [plain(text_of(t)) for t in listed(library.gq_verification_missing, found)]
    n = sum(1 for v in verdicts if v.problem) + len(missing)
    tensors = []
    for v in verdicts:
        tensor = {"name": plain(text_of(v.name)), "type": text_of(library.gq_type_name(v.type)),
                  "crc32": f"{v.crc32:08x}", "decoded": v.decoded, "has_digest": v.has_digest}
        if compared:
            tensor["in_report"] = v.expected
        tensors.append({**tensor, "problem": plain(text_of(v.problem)) if v.problem else None})
    types = [{"type": text_of(library.gq_type_name(t.type)), "tensors": t.tensors, "problems": t.problems,
              "compared": t.compared, "worst_product": number(t.worst)}
             for t in listed(library.gq_verification_types, found)]
    return {"path": plain(os.fspath(path)), "sound": n == 0, "problems": n, "tensors": tensors, "types": types,
            "missing": missing}
