"""libgquant through ctypes: its structs, its functions, and how its failures become exceptions.

Names, members and their order are those of the public headers, quantize/gquant_*.h and base/*.h; tests/test_layout.py compares them with what
a C compiler makes of these. First come the structs, then the functions with their types, which are set when the library is
loaded, at import; last the exceptions and the helpers that turn texts, paths and arrays into what C takes and back.
The other modules call `library.gq_...` directly and pass the result and the gq_error to check(), which raises.
"""

from __future__ import annotations

import ctypes
import errno
import os
import pathlib
import re
import typing
from ctypes import (
    CFUNCTYPE, POINTER, Structure, Union, byref, c_bool, c_char, c_char_p, c_double, c_float, c_int, c_int64,
    c_size_t, c_uint32, c_uint64, c_void_p,
)
from typing import Any, Callable, Optional, Sequence

# ---- structs ----


class Request(Structure):
    """A struct that is filled in here. A number that a member has no room for raises UsageError, and is not cut."""

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if isinstance(value, int) and getattr(self, name) != value:
            raise UsageError(f"{name.replace('_', ' ')} cannot be {value}")


class gq_error(Structure):
    _fields_ = [("status", c_int), ("remedy", c_int), ("text", c_char * 1024)]


class gq_target(Request):
    _fields_ = [("size", c_uint64), ("bpw", c_double)]


class gq_output(Request):
    _fields_ = [
        ("path", c_char_p), ("filetype", c_char_p), ("target", gq_target), ("size_of", c_char_p),
        ("reserved", c_uint64 * 3),
    ]


class gq_list(Structure):
    _fields_ = [("items", POINTER(c_char_p)), ("n", c_size_t)]


class gq_progress(Structure):
    _fields_ = [
        ("size", c_size_t), ("bytes_done", c_uint64), ("bytes_total", c_uint64), ("weights_done", c_uint64),
        ("seconds", c_double), ("bytes_resumed", c_uint64), ("weights_resumed", c_uint64),
        ("seconds_resumed", c_double), ("tensor", c_char_p), ("tokens", c_uint64),
        ("seconds_expected", c_double), ("share", c_double), ("share_resumed", c_double), ("seconds_left", c_double),
        ("sent_layer", c_uint64),
    ]


class gq_loss(Structure):
    _fields_ = [
        ("n", c_uint64), ("x2", c_double), ("e2", c_double), ("wx2", c_double), ("we2", c_double),
        ("max_error", c_double), ("crc32", c_uint32), ("reserved", c_uint64 * 4),
    ]


PROGRESS = CFUNCTYPE(None, c_void_p, POINTER(gq_progress))
TENSOR_DONE = CFUNCTYPE(None, c_void_p, c_size_t, c_size_t, POINTER(gq_loss))
CANCELLED = CFUNCTYPE(c_bool, c_void_p)


class gq_callbacks(Structure):
    _fields_ = [
        ("size", c_size_t), ("user", c_void_p), ("progress", PROGRESS), ("tensor_done", TENSOR_DONE),
        ("cancelled", CANCELLED),
    ]


class gq_text(Request):
    _fields_ = [
        ("name", c_char_p), ("bytes", c_char_p), ("n", c_size_t), ("ids", c_bool), ("parse_special", c_bool),
        ("context", c_uint32), ("tokens", c_uint64),
    ]


class gq_calibration(Request):
    _fields_ = [
        ("size", c_size_t), ("text", gq_text), ("random", c_bool), ("correction", c_float), ("damp", c_float),
        ("shrink", c_float), ("memory", c_uint64), ("steps", c_char_p), ("arithmetic", c_char_p), ("seconds", c_double),
    ]


class gq_options(Request):
    _fields_ = [
        ("size", c_size_t), ("input", c_char_p), ("outputs", POINTER(gq_output)), ("n_outputs", c_size_t),
        ("out_dir", c_char_p), ("imatrix", c_char_p), ("threads", c_int),
        ("effort", c_int), ("pure", c_bool), ("strict", c_bool), ("force", c_bool), ("allow_requantize", c_bool),
        ("leave_output_tensor", c_bool), ("output_tensor_type", c_char_p), ("token_embedding_type", c_char_p),
        ("missing_importance", c_char_p), ("tensor_types", gq_list), ("keep", gq_list),
        ("include_weights", gq_list), ("exclude_weights", gq_list), ("override_kv", gq_list),
        ("prune_layers", c_char_p), ("keep_split", c_bool), ("split_max_size", c_uint64), ("imatrix_path", c_bool),
        ("part", c_uint32), ("parts", c_uint32), ("join", c_bool), ("dry_run", c_bool), ("measure_file", c_char_p),
        ("callbacks", POINTER(gq_callbacks)), ("sync_ms", c_uint32), ("calibration", POINTER(gq_calibration)),
        ("transpose", gq_list), ("other_inputs", gq_list), ("remove_kv", gq_list),
        ("model", c_void_p), ("reuse", gq_list), ("no_digests", c_bool), ("forecast", c_bool), ("foretell", c_bool),
        ("comm", c_void_p), ("read_once", c_bool), ("assume_importance", c_bool), ("allow_missing", gq_list),
    ]


class gq_origin(Structure):
    _fields_ = [
        ("size", c_size_t), ("names", c_char_p), ("type", c_char_p), ("changes", c_char_p), ("bytes", c_uint64),
        ("quantized", c_bool),
    ]


class gq_tensor(Structure):
    _fields_ = [
        ("name", c_char_p), ("source_name", c_char_p), ("ne", c_uint64 * 4), ("n_weights", c_uint64),
        ("n_dims", c_uint32), ("from", c_uint32), ("to", c_uint32), ("wanted", c_uint32),
        ("fallback_bytes", c_uint64), ("why", c_char_p), ("in_bytes", c_uint64), ("out_bytes", c_uint64),
        ("importance", c_int), ("experts", c_uint64), ("experts_unseen", c_uint64), ("calibrated", c_bool),
        ("transposed", c_bool), ("origin", POINTER(gq_origin)),
        ("reserved", c_uint64 * 2),
    ]


class gq_summary(Structure):
    _fields_ = [
        ("size", c_size_t), ("path", c_char_p), ("filetype", c_char_p), ("n_tensors", c_uint64),
        ("n_weights", c_uint64), ("in_bytes", c_uint64), ("out_bytes", c_uint64), ("file_bytes", c_uint64),
        ("n_fallbacks", c_uint64), ("fallback_bytes", c_uint64), ("n_without_importance", c_uint64),
        ("n_experts_unseen", c_uint64), ("expected", c_double),
    ]


class gq_array_options(Request):
    _fields_ = [
        ("size", c_size_t), ("importance", POINTER(c_float)), ("effort", c_int), ("threads", c_int),
        ("callbacks", POINTER(gq_callbacks)), ("moments", POINTER(c_float)), ("damp", c_float), ("shrink", c_float),
    ]


class _text(Structure):
    _fields_ = [("text", c_void_p), ("length", c_uint64)]


class _value(Union):
    _anonymous_ = ("of_text",)
    _fields_ = [
        ("as_unsigned", c_uint64), ("as_signed", c_int64), ("as_float", c_double), ("as_bool", c_bool),
        ("of_text", _text),
    ]


class gq_value(Structure):
    _anonymous_ = ("value",)
    _fields_ = [("kind", c_int), ("value", _value)]


class gq_metadata(Structure):
    _fields_ = [
        ("key", c_char_p), ("type", c_char_p), ("list", c_bool), ("count", c_uint64), ("raw", c_void_p),
        ("reserved", c_uint64 * 4),
    ]


class gq_stored(Structure):
    _fields_ = [
        ("name", c_char_p), ("ne", c_uint64 * 4), ("n_weights", c_uint64), ("n_dims", c_uint32),
        ("type", c_uint32), ("shard", c_uint32), ("transposed", c_bool), ("bytes", c_uint64), ("offset", c_uint64),
        ("origin", POINTER(gq_origin)), ("reserved", c_uint64 * 3),
    ]


class gq_model_facts(Structure):
    _fields_ = [
        ("size", c_size_t), ("version", c_uint32), ("shards", c_uint32), ("alignment", c_uint32),
        ("file_bytes", c_uint64), ("tensor_bytes", c_uint64), ("n_tensors", c_uint64), ("n_weights", c_uint64),
        ("n_metadata", c_uint64),
    ]


class gq_comparison_request(Request):
    _fields_ = [
        ("size", c_size_t), ("original", c_char_p), ("copies", POINTER(c_char_p)), ("n_copies", c_size_t),
        ("imatrix", c_char_p), ("threads", c_int), ("callbacks", POINTER(gq_callbacks)),
    ]


class gq_checksum(Request):
    _fields_ = [("name", c_char_p), ("crc32", c_uint32)]


class gq_verdict(Structure):
    _fields_ = [
        ("name", c_char_p), ("type", c_uint32), ("crc32", c_uint32), ("decoded", c_bool), ("expected", c_bool),
        ("problem", c_char_p), ("has_digest", c_bool), ("reserved", c_uint64 * 3),
    ]


class gq_imatrix_facts(Structure):
    _fields_ = [
        ("size", c_size_t), ("legacy", c_bool), ("chunk_count", c_uint32), ("chunk_size", c_uint32),
        ("n_entries", c_size_t), ("n_datasets", c_size_t), ("datasets", POINTER(c_char_p)), ("warnings", c_char_p),
    ]


class gq_imatrix_row(Structure):
    _fields_ = [
        ("name", c_char_p), ("role", c_char_p), ("layer", c_int64), ("values", c_uint64), ("experts", c_uint64),
        ("experts_unseen", c_uint64), ("counts", POINTER(c_float)), ("sum", c_double), ("min", c_double),
        ("max", c_double), ("mean", c_double), ("deviation", c_double), ("active", c_double),
        ("entropy", c_double), ("evenness", c_double), ("outliers", c_double), ("cosine", c_double),
        ("reserved", c_uint64 * 4),
    ]


class gq_tokenize_options(Structure):
    _fields_ = [
        ("size", c_size_t), ("no_ends", c_bool), ("parse_special", c_bool), ("file", c_char_p), ("tokens", c_uint64),
        ("memory", c_uint64), ("callbacks", POINTER(gq_callbacks)),
    ]


class gq_tokens(Structure):
    _fields_ = [("ids", POINTER(c_uint32)), ("n", c_size_t), ("bytes_dropped", c_uint64)]


class gq_evaluation_request(Request):
    _fields_ = [
        ("size", c_size_t), ("original", c_char_p), ("copies", POINTER(c_char_p)), ("n_copies", c_size_t),
        ("text", gq_text), ("threads", c_int), ("memory", c_uint64), ("folder", c_char_p), ("logits", c_char_p),
        ("replace_logits", c_bool), ("callbacks", POINTER(gq_callbacks)), ("base", c_char_p), ("base_out", c_char_p),
        ("comm", c_void_p), ("forecast", c_bool), ("read_once", c_bool), ("stride", c_uint32),
        ("scores_file", c_char_p),
    ]


class gq_estimate(Structure):
    _fields_ = [("value", c_double), ("error", c_double)]


class gq_evaluated(Structure):
    _fields_ = [
        ("path", c_char_p), ("filetype", c_char_p), ("file_bytes", c_uint64), ("tensor_bytes", c_uint64),
        ("n_weights", c_uint64), ("perplexity", gq_estimate), ("divergence", gq_estimate), ("ratio", gq_estimate),
        ("rms_change", gq_estimate), ("same_top", gq_estimate), ("quantiles", c_double * 6),
        ("reserved", c_uint64 * 4),
    ]


class gq_evaluation_facts(Structure):
    _fields_ = [
        ("size", c_size_t), ("architecture", c_char_p), ("context", c_uint32), ("windows", c_uint64),
        ("tokens", c_uint64), ("scored", c_uint64), ("peak_bytes", c_uint64), ("state_bytes", c_uint64),
        ("states_in_file", c_bool), ("seconds", c_double), ("seconds_expected", c_double), ("ranks", c_uint32),
        ("rank_windows", c_uint64), ("stride", c_uint32),
    ]


class gq_importance_request(Request):
    _fields_ = [
        ("size", c_size_t), ("model", c_char_p), ("texts", POINTER(gq_text)), ("n_texts", c_size_t),
        ("out", c_char_p), ("dat", c_bool), ("force", c_bool), ("output", c_bool), ("part", c_uint32),
        ("parts", c_uint32), ("threads", c_int), ("memory", c_uint64), ("comm", c_void_p), ("forecast", c_bool),
        ("read_once", c_bool), ("arithmetic", c_char_p), ("dry_run", c_bool),
        ("callbacks", POINTER(gq_callbacks)),
    ]


class gq_rounding(Structure):
    _fields_ = [
        ("matrices", c_uint64), ("plain", c_uint64), ("unchecked", c_uint64), ("power", c_double),
        ("searched", c_double), ("written", c_double), ("codes", c_uint64), ("ends", c_uint64),
        ("tokens", c_uint64), ("width", c_uint64), ("damp", c_float), ("why", c_char_p), ("steps", c_uint64),
        ("reserved", c_uint64 * 3),
    ]


class gq_step(Structure):
    _fields_ = [
        ("name", c_char_p), ("what", c_char_p), ("on", c_bool), ("matrices", c_uint64), ("kept", c_uint64),
        ("compared", c_uint64), ("without", c_double), ("with", c_double), ("reserved", c_uint64 * 4),
    ]


class gq_calibration_facts(Structure):
    _fields_ = [
        ("size", c_size_t), ("text", c_char_p), ("context", c_uint32), ("windows", c_uint64), ("tokens", c_uint64),
        ("held_back", c_uint64), ("columns", c_uint64), ("width", c_uint64), ("per_column", c_double),
        ("layers", c_uint64), ("layers_finished", c_uint64), ("windows_at_once", c_uint64),
        ("experts_at_once", c_uint64), ("memory", c_uint64), ("disk", c_uint64), ("states_in_file", c_bool),
        ("work", c_double), ("has_trials", c_bool), ("trial_layers", c_uint64), ("steps", c_char_p),
        ("seconds_expected", c_double), ("tokens_advised", c_uint64), ("ranks", c_uint32),
        ("rank_windows", c_uint64), ("inputs_memory", c_uint64),
        ("inputs_disk", c_uint64), ("arithmetic", c_char_p), ("left_out", c_char_p),
    ]


class gq_verified_type(Structure):
    _fields_ = [
        ("type", c_uint32), ("tensors", c_size_t), ("problems", c_size_t), ("compared", c_uint64),
        ("worst", c_double), ("reserved", c_uint64 * 4),
    ]


class gq_page_row(Structure):
    _fields_ = [
        ("path", c_char_p), ("type", c_char_p), ("file_bytes", c_uint64), ("bits", c_double),
        ("evaluated", POINTER(gq_evaluated)), ("relative_error", c_double), ("reads", c_double),
        ("generates", c_double), ("reserved", c_uint64 * 4),
    ]


class gq_page(Structure):
    _fields_ = [
        ("size", c_size_t), ("rows", POINTER(gq_page_row)), ("n", c_size_t), ("original", POINTER(gq_evaluated)),
        ("evaluation", POINTER(gq_evaluation_facts)), ("memory", c_uint64), ("errors", c_bool),
        ("speed_note", c_char_p),
    ]


class gq_survey_request(Request):
    _fields_ = [
        ("size", c_size_t), ("options", POINTER(gq_options)), ("context", c_uint64), ("ram", c_uint64),
        ("folder", c_char_p), ("reserve", c_uint64),
    ]


class gq_choice(Structure):
    _fields_ = [
        ("name", c_char_p), ("made_for", c_char_p), ("file_bytes", c_uint64), ("memory_bytes", c_uint64),
        ("bits", c_double), ("expected", c_double), ("fits", c_bool), ("best", c_bool),
        ("needs_importance", c_bool), ("reserved", c_uint64 * 4),
    ]


class gq_curve_point(Structure):
    _fields_ = [
        ("file_bytes", c_uint64), ("memory", c_uint64), ("expected", c_double), ("reserved", c_uint64 * 4),
    ]


class gq_survey_facts(Structure):
    _fields_ = [
        ("size", c_size_t), ("context", c_uint64), ("context_trained", c_uint64), ("cache_bytes", c_uint64),
        ("buffer_bytes", c_uint64), ("quantized", c_char_p), ("dequantized", c_char_p), ("target", c_uint64),
        ("smallest", c_uint64), ("reserve", c_uint64),
    ]


class gq_publish_request(Request):
    _fields_ = [
        ("size", c_size_t), ("options", POINTER(gq_options)), ("name", c_char_p), ("ladder", c_bool),
        ("base_model", c_char_p), ("license", c_char_p), ("quantized_by", c_char_p), ("how", c_char_p),
        ("evaluation", POINTER(gq_evaluation_request)), ("speeds", c_char_p), ("callbacks", POINTER(gq_callbacks)),
        ("user", c_void_p), ("begins", c_void_p), ("ends", c_void_p), ("kept", c_void_p),
    ]


# ---- functions ----

_handle = c_void_p  # to an object of the library
_error = POINTER(gq_error)
_size = POINTER(c_size_t)
_strings = POINTER(c_char_p)

FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "gq_version": (c_char_p, ()),
    "gq_isa": (c_char_p, ()),
    "gq_build": (c_char_p, ()),
    "gq_filetype_count": (c_size_t, ()),
    "gq_filetype_name": (c_char_p, (c_size_t,)),
    "gq_filetype_summary": (c_char_p, (c_size_t,)),
    "gq_filetype_bits": (c_double, (c_size_t,)),
    "gq_type_limit": (c_uint32, ()),
    "gq_type_find": (c_int, (c_char_p,)),
    "gq_type_name": (c_char_p, (c_uint32,)),
    "gq_type_elements": (c_uint32, (c_uint32,)),
    "gq_type_bytes": (c_uint32, (c_uint32,)),
    "gq_type_quantized": (c_bool, (c_uint32,)),
    "gq_type_readable": (c_bool, (c_uint32,)),
    "gq_type_writable": (c_bool, (c_uint32,)),
    "gq_plan_new": (_handle, (POINTER(gq_options), _error)),
    "gq_plan_free": (None, (_handle,)),
    "gq_plan_outputs": (c_size_t, (_handle,)),
    "gq_plan_summary": (POINTER(gq_summary), (_handle, c_size_t)),
    "gq_plan_tensors": (POINTER(gq_tensor), (_handle, c_size_t, _size)),
    "gq_plan_warnings": (_strings, (_handle, _size)),
    "gq_plan_measure_file": (c_char_p, (_handle,)),
    "gq_plan_seconds": (c_double, (_handle,)),
    "gq_plan_calibration": (POINTER(gq_calibration_facts), (_handle,)),
    "gq_run": (c_bool, (_handle, POINTER(gq_callbacks), POINTER(_handle), _error)),
    "gq_results_free": (None, (_handle,)),
    "gq_results_losses": (POINTER(gq_loss), (_handle, c_size_t, _size)),
    "gq_results_roundings": (POINTER(gq_rounding), (_handle, c_size_t, _size)),
    "gq_results_steps": (POINTER(gq_step), (_handle, c_size_t, _size)),
    "gq_results_progress": (POINTER(gq_progress), (_handle,)),
    "gq_results_warnings": (_strings, (_handle, _size)),
    "gq_array_bytes": (c_bool, (c_uint32, c_uint64, c_uint64, _size, _error)),
    "gq_encode": (c_bool, (c_uint32, c_uint64, c_uint64, c_void_p, POINTER(gq_array_options), c_void_p, c_size_t,
                           POINTER(gq_loss), _error)),
    "gq_decode": (c_bool, (c_uint32, c_uint64, c_uint64, c_void_p, c_size_t, c_void_p, c_int, _error)),
    "gq_dot": (c_bool, (c_uint32, c_uint64, c_uint64, c_void_p, c_size_t, c_void_p, c_void_p, c_int, _error)),
    "gq_model_open": (_handle, (c_char_p, _error)),
    "gq_model_close": (None, (_handle,)),
    "gq_model_warnings": (_strings, (_handle, _size)),
    "gq_model_summary": (POINTER(gq_model_facts), (_handle,)),
    "gq_model_path": (c_char_p, (_handle, c_uint32)),
    "gq_model_metadata": (POINTER(gq_metadata), (_handle, _size)),
    "gq_metadata_values": (c_size_t, (POINTER(gq_metadata), POINTER(gq_value), c_size_t)),
    "gq_model_tensors": (POINTER(gq_stored), (_handle, _size)),
    "gq_model_read": (c_bool, (_handle, c_size_t, c_uint64, c_uint64, c_void_p, _error)),
    "gq_model_read_stored": (c_bool, (_handle, c_size_t, c_uint64, c_uint64, c_void_p, _error)),
    "gq_draft_new": (_handle, (_error,)),
    "gq_draft_free": (None, (_handle,)),
    "gq_draft_set": (c_bool, (_handle, c_char_p, c_char_p, c_bool, POINTER(gq_value), c_size_t, _error)),
    "gq_draft_remove": (None, (_handle, c_char_p)),
    "gq_draft_copy": (c_bool, (_handle, _handle, _error)),
    "gq_draft_add": (c_bool, (_handle, c_char_p, c_uint32, POINTER(c_uint64), c_uint32, c_void_p, c_size_t, _error)),
    "gq_draft_write": (c_bool, (_handle, c_char_p, c_bool, _error)),
    "gq_compare": (_handle, (POINTER(gq_comparison_request), _error)),
    "gq_comparison_free": (None, (_handle,)),
    "gq_comparison_summary": (POINTER(gq_summary), (_handle, c_size_t)),
    "gq_comparison_tensors": (POINTER(gq_tensor), (_handle, c_size_t, _size)),
    "gq_comparison_losses": (POINTER(gq_loss), (_handle, c_size_t)),
    "gq_comparison_warnings": (_strings, (_handle, _size)),
    "gq_comparison_seconds": (c_double, (_handle,)),
    "gq_verify": (_handle, (c_char_p, POINTER(gq_checksum), c_size_t, c_int, POINTER(gq_callbacks), _error)),
    "gq_verification_free": (None, (_handle,)),
    "gq_verification_verdicts": (POINTER(gq_verdict), (_handle, _size)),
    "gq_verification_types": (POINTER(gq_verified_type), (_handle, _size)),
    "gq_verification_missing": (_strings, (_handle, _size)),
    "gq_verification_warnings": (_strings, (_handle, _size)),
    "gq_imatrix_open": (_handle, (c_char_p, _error)),
    "gq_imatrix_free": (None, (_handle,)),
    "gq_imatrix_summary": (POINTER(gq_imatrix_facts), (_handle,)),
    "gq_imatrix_rows": (POINTER(gq_imatrix_row), (_handle, _size)),
    "gq_imatrix_columns": (c_bool, (_handle, c_size_t, c_uint64, c_void_p, c_size_t, _error)),
    "gq_imatrix_merge": (c_bool, (_handle, _handle, _error)),
    "gq_imatrix_write": (c_bool, (_handle, c_char_p, c_bool, c_bool, _error)),
    "gq_tokenizer_open": (_handle, (c_char_p, _error)),
    "gq_tokenizer_close": (None, (_handle,)),
    "gq_tokenize": (c_bool, (_handle, c_char_p, c_size_t, POINTER(gq_tokenize_options), POINTER(gq_tokens), _error)),
    "gq_tokens_free": (None, (POINTER(gq_tokens),)),
    "gq_evaluate": (_handle, (POINTER(gq_evaluation_request), _error)),
    "gq_evaluation_free": (None, (_handle,)),
    "gq_evaluation_models": (POINTER(gq_evaluated), (_handle, _size)),
    "gq_evaluation_difference": (None, (_handle, c_size_t, c_size_t, POINTER(gq_estimate))),
    "gq_evaluation_summary": (POINTER(gq_evaluation_facts), (_handle,)),
    "gq_evaluation_warnings": (_strings, (_handle, _size)),
    "gq_importance_plan_new": (_handle, (POINTER(gq_importance_request), _error)),
    "gq_importance_plan_free": (None, (_handle,)),
    "gq_importance_warnings": (_strings, (_handle, _size)),
    "gq_importance_compute": (_handle, (_handle, POINTER(gq_callbacks), _error)),
    "gq_page_table": (c_void_p, (POINTER(gq_page), c_bool, _error)),
    "gq_page_chart": (c_void_p, (POINTER(gq_page), _error)),
    "gq_survey_new": (_handle, (POINTER(gq_survey_request), _error)),
    "gq_survey_free": (None, (_handle,)),
    "gq_survey_summary": (POINTER(gq_survey_facts), (_handle,)),
    "gq_survey_choices": (POINTER(gq_choice), (_handle, _size)),
    "gq_survey_curve": (POINTER(gq_curve_point), (_handle, _size)),
    "gq_survey_warnings": (_strings, (_handle, _size)),
    "gq_publish": (_handle, (POINTER(gq_publish_request), _error)),
    "gq_publication_free": (None, (_handle,)),
    "gq_publication_plan": (_handle, (_handle,)),
    "gq_publication_made": (c_size_t, (_handle,)),
    "gq_publication_evaluation": (_handle, (_handle,)),
    "gq_publication_warnings": (_strings, (_handle, _size)),
    "gq_write_whole": (c_bool, (c_char_p, c_bool, c_char_p, c_size_t, _error)),
    "gq_free": (None, (c_void_p,)),
}


def _load() -> ctypes.CDLL:
    """Load the library: the one that GQUANT_LIBRARY names, else the one in this package, else the system's.

    Raises ImportError where there is none.
    """
    inside = pathlib.Path(__file__).with_name("libgquant.so.0")
    path = os.environ.get("GQUANT_LIBRARY") or (str(inside) if inside.exists() else "libgquant.so.0")
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        hint = "GQUANT_LIBRARY may name it" if "libgquant" in str(error).split(":")[0] else \
            "the system's packages have it (Debian: libpcre2-8-0, libjansson4, zlib1g)"
        raise ImportError(f"gquant needs its library: {error}; {hint}") from error
    for name, (result, arguments) in FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


library = _load()

# ---- failures ----


class Error(Exception):
    """A failure. The message names the file and the tensor, and says what was found and what was expected."""


class UsageError(Error, ValueError):
    """The request itself makes no sense."""


class BadWeights(Error, ValueError):
    """Weights that cannot be quantized or run: not finite, or beyond what the type can hold."""


class Cancelled(Error):
    """The work was stopped because a progress function returned False."""


class NotFound(Error, FileNotFoundError):
    """A file or folder that is not there."""


class NotAllowed(Error, PermissionError):
    """A file that may not be read or written."""


class AlreadyThere(Error, FileExistsError):
    """A file that would be replaced; force=True replaces it."""


# The system's own sentences, with which the library ends its message; and its own for a folder of an output.
_SYSTEM = {os.strerror(errno.ENOENT): NotFound, os.strerror(errno.EACCES): NotAllowed, " does not exist": NotFound}
_REPLACE = 1
_STATUS = {2: UsageError, 3: Cancelled, 4: BadWeights}
_REMEDY = {
    1: "; force=True replaces it",
    2: "; allow_requantize=True converts it all the same",
    3: "; missing_importance=TYPE gives such tensors another type",
}


def failure(e: gq_error) -> Error:
    """Return the exception for a gq_error, with what would help in the words of Python."""
    text = e.text.decode("utf-8", "replace")
    kind = AlreadyThere if e.remedy == _REPLACE else _STATUS.get(e.status, Error)
    if kind is Error:
        kind = next((found for sentence, found in _SYSTEM.items() if sentence in text), Error)
    return kind(text + _REMEDY.get(e.remedy, ""))


Size = typing.Union[int, str]
Texts = typing.Union[str, Sequence[str]]
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}


def size_bytes(size: Optional[Size]) -> int:
    """Return a size in bytes: a number, or a text as the command takes it ("7.5G", "500M", "16Gi"); None: 0."""
    if not isinstance(size, str):
        return size or 0
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]*)?)([KMGT]?I?)B?", size.strip().upper())
    if not found or found[2] not in _UNITS:
        raise UsageError(f"{size!r} is no size, such as '7.5G' or '500M'")
    return int(float(found[1]) * _UNITS[found[2]])


def check(done: Any, e: gq_error) -> Any:
    """Return what a call has given back; raise the failure where that is false or NULL."""
    if not done:
        raise failure(e)
    return done


# ---- texts, lists, handles ----


def _whole(raw: bytes) -> bytes:
    if b"\0" in raw:
        raise UsageError(f"{raw!r} has a NUL, where the library would take it to end")
    return raw


def c_text(text: Any) -> bytes:
    """Return a name, a pattern or the like as the library takes it; raise UsageError for no str, or one with a NUL."""
    if not isinstance(text, str):
        raise UsageError(f"{text!r} is no text")
    return _whole(text.encode("utf-8", "surrogateescape"))


def path_bytes(path: Any) -> bytes:
    """Return a path (str, bytes or PathLike) as the library takes it."""
    return _whole(os.fsencode(path))


def c_number(name: str, value: int) -> int:
    """Return a number that C's int can hold; raise UsageError for others."""
    if c_int(value).value != value:
        raise UsageError(f"{name} cannot be {value}")
    return value


def optional_path(path: Any) -> Optional[bytes]:
    """Return a path as the library takes it, or None."""
    return None if path is None else path_bytes(path)


def text_of(text: Optional[bytes]) -> str:
    """Return a text of the library as str. Bytes that are not UTF-8, as names in files may have, become surrogates."""
    return (text or b"").decode("utf-8", "surrogateescape")


def strings(items: Any) -> Any:
    """Return an array of C strings of a list of bytes."""
    return (c_char_p * len(items))(*items)


def listed(function: Callable[..., Any], *arguments: Any) -> list[Any]:
    """Return all elements of an array that function(*arguments, &n) hands out. They belong to the library's object."""
    n = c_size_t()
    first = function(*arguments, byref(n))
    return [first[i] for i in range(n.value)]


def texts(function: Callable[..., Any], *arguments: Any) -> list[str]:
    """Return the same for an array of texts, as copies."""
    return [text_of(t) for t in listed(function, *arguments)]


class Handle:
    """An object of the library. It is freed by close(), at the end of a `with` statement, or with this object."""

    def __init__(self, handle: Any, free: Callable[[Any], None]) -> None:
        self._handle, self._free = c_void_p(handle), free

    @property
    def handle(self) -> c_void_p:
        """The library's pointer. Raises ValueError after close()."""
        if not self._handle:
            raise ValueError("it is closed")
        return self._handle

    def close(self) -> None:
        """Free the library's object; a second call does nothing. No other thread may be in a call with it."""
        handle, self._handle = self._handle, c_void_p()  # before, as an interrupt may come right behind the call
        if handle:
            self._free(handle)

    def __reduce__(self) -> Any:
        raise TypeError(f"a {type(self).__name__} of the library cannot be copied")

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        try:
            self.close()
        except AttributeError:  # it was never opened
            pass
