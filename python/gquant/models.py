"""Models as objects: read metadata and tensors of GGUF files, write models from arrays, turn texts into tokens.

A Model keeps its files open until it is closed; its tensors and metadata can be read only until then. Nothing is read
before it is asked for: metadata value by value, weights by the methods of Tensor. Shapes are numpy's, the length of a
row last, which is the reverse of GGUF's order. A GGUFBuilder goes the other way: it collects metadata and tensors in
memory, and write() makes the whole file.
"""

from __future__ import annotations

import ctypes
import dataclasses
import html
import numbers
import os
from ctypes import byref, c_char_p, c_uint64
from typing import Any, Iterator, Mapping, Optional, Union

import numpy as np
import numpy.typing as npt

from ._library import (
    Adapters, Handle, Size, UsageError, adapters_of, c_text, check, gq_error, gq_metadata, gq_value, library, listed,
    path_bytes, size_bytes, text_of, texts,
)
from .arrays import TensorType, blocks_of, row_bytes, tensor_type

Path = Union[str, "os.PathLike[str]"]
_UNSIGNED, _SIGNED, _FLOAT, _BOOL, _TEXT, _NESTED = range(6)
_DTYPES = {"u8": np.uint8, "i8": np.int8, "u16": np.uint16, "i16": np.int16, "u32": np.uint32, "i32": np.int32,
           "u64": np.uint64, "i64": np.int64, "f32": np.float32, "f64": np.float64, "bool": np.bool_}
_HOLDS = {"string": (str, bytes), "bool": (bool, np.bool_), "f32": numbers.Real, "f64": numbers.Real}
_KEYS = {np.dtype(dtype): name for name, dtype in _DTYPES.items()}


@dataclasses.dataclass(frozen=True)
class Origin:
    """Where a tensor comes from in a folder from Hugging Face.

    names: of its array, or a pattern of several: "experts.{0..127}.up_proj.weight"; "": it is computed.
    type: of the array, such as "BF16" or "F8_E4M3, a scale per row".
    changes: what is done to it, such as "dequantized; stacked"; "as is".
    bytes: stored of it, with scales. quantized: it has scales.
    """

    names: str
    type: str
    changes: str
    bytes: int
    quantized: bool


def origin_of(origin: Any) -> Optional[Origin]:
    """Copy what the library points to; None: the tensor is in a GGUF file."""
    o = origin.contents if origin else None
    return Origin(text_of(o.names), text_of(o.type), text_of(o.changes), o.bytes, o.quantized) if o else None


class Tensor:
    """A tensor of a model. Weights are read when a method asks for them; numpy.asarray(tensor) reads all.

    name; type: a TensorType.
    shape: as numpy has it, the length of a row last. size: elements.
    bytes: as stored. shard: number of its file, from 0. offset: bytes from the start of that file.
    transposed: the file stores its matrices transposed. They are read as they are stored.
    origin: an Origin in a folder, whose bytes and type are those of what is read; None in a GGUF file.
    """

    def __init__(self, model: "Model", number: int, stored: Any) -> None:
        self._model, self._number = model, number
        self.name: str = text_of(stored.name)
        self.type: TensorType = tensor_type(stored.type)
        self.shape: tuple[int, ...] = tuple(stored.ne[i] for i in range(stored.n_dims))[::-1]
        self.size: int = stored.n_weights
        self.bytes: int = stored.bytes
        self.offset: int = stored.offset
        self.shard: int = stored.shard
        self.transposed: bool = stored.transposed
        self.origin: Optional[Origin] = origin_of(stored.origin)

    def read(self) -> npt.NDArray[np.float32]:
        """Return all weights, decoded, as float32 in the tensor's shape.

        Raises Error where the type has no decoder or the file cannot be read, ValueError where the model is closed.
        """
        return self._read(0, self.size).reshape(self.shape)

    def rows(self, begin: int, end: int) -> npt.NDArray[np.float32]:
        """Return rows begin to end - 1, decoded, as float32 [end - begin, columns].

        Rows of all matrices are counted one after another. Raises UsageError where there are no such rows.
        """
        cols = self.shape[-1]
        n = self.size // cols
        if not 0 <= begin <= end <= n:
            raise UsageError(f"{self.name}: rows {begin} to {end} of {n}")
        return self._read(begin * cols, (end - begin) * cols).reshape(end - begin, cols)

    def _read(self, first: int, n: int) -> npt.NDArray[np.float32]:
        x = np.empty(n, dtype=np.float32)
        e = gq_error()
        check(library.gq_model_read(self._model.handle, self._number, first, n, x.ctypes.data, byref(e)), e)
        return x

    def stored(self) -> npt.NDArray[np.uint8]:
        """Return the bytes as they are in the file, as decode() takes them: uint8 [..., bytes of a row]."""
        blocks = np.empty(self.bytes, dtype=np.uint8)
        e = gq_error()
        check(library.gq_model_read_stored(self._model.handle, self._number, 0, self.size, blocks.ctypes.data,
                                           byref(e)), e)
        return blocks.reshape(self.shape[:-1] + (row_bytes(self.type, self.shape[-1]),))

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError(f"{self.name} is in a file: there is no array without a copy")
        x = self.read()
        return x if dtype is None else x.astype(dtype, copy=False)

    def __repr__(self) -> str:
        return f"Tensor({self.name!r}, {self.type.name}, {self.shape})"


class Weighed:
    """What has weights: their number, and the bytes of their tensors."""

    tensor_bytes: int
    n_weights: int

    @property
    def bits_per_weight(self) -> float:
        """Tensor data in bits per weight."""
        return 8 * self.tensor_bytes / self.n_weights if self.n_weights else 0.0


@dataclasses.dataclass(frozen=True)
class ModelFacts(Weighed):
    """Figures of a model's files.

    version: of the GGUF format. shards: files. alignment: of tensor data, in bytes.
    file_bytes, tensor_bytes: of all shards. n_tensors, n_weights: tensors, and elements in them.
    """

    version: int
    shards: int
    alignment: int
    file_bytes: int
    tensor_bytes: int
    n_tensors: int
    n_weights: int


class Metadata(Mapping[str, Any]):
    """A model's metadata as a mapping: key -> value.

    Values are numbers, bool or str; lists of texts are lists, lists of numbers numpy arrays. Lists within lists are
    None. Bytes that are not UTF-8 become surrogates ("surrogateescape"). Values are read when you ask for them, and the
    model must be open then.
    """

    def __init__(self, model: "Model") -> None:
        self._model = model
        self._raw = {text_of(m.key): m for m in listed(library.gq_model_metadata, model.handle)}

    def __getitem__(self, key: str) -> Any:
        m = self._raw[key]
        held = self._model.handle  # the texts are in it
        values = _values(m)
        del held
        return values

    def __iter__(self) -> Iterator[str]:
        return iter(self._raw)

    def __len__(self) -> int:
        return len(self._raw)

    def __repr__(self) -> str:
        return f"Metadata({len(self)} keys: {', '.join(list(self)[:3])}, ...)"

    def type(self, key: str) -> str:
        """Return the type as it is stored, such as "u32"; of a list, its elements' type."""
        held = self._model.handle
        text = text_of(self._raw[key].type)
        del held
        return text


def _value(v: gq_value) -> Any:
    if v.kind == _TEXT:
        return ctypes.string_at(v.text, v.length).decode("utf-8", "surrogateescape")
    return {_UNSIGNED: v.as_unsigned, _SIGNED: v.as_signed, _FLOAT: v.as_float, _BOOL: bool(v.as_bool)}.get(v.kind)


def _values(m: gq_metadata) -> Any:
    values = (gq_value * m.count)()
    n = library.gq_metadata_values(byref(m), values, m.count)
    if not m.list:
        return _value(values[0])
    found = [_value(values[i]) for i in range(n)]
    dtype = _DTYPES.get(text_of(m.type))
    return found if dtype is None else np.array(found, dtype=dtype)


class Model(Handle, Mapping[str, Tensor]):
    """A GGUF file, or all shards of a split one, as a mapping: name -> Tensor. Opening it reads no weights.

    path: the file, or any shard. Raises Error where it cannot be read or is malformed.
    lora, target_model: as in quantize(); the path is a folder from Hugging Face then.

    facts: a ModelFacts; metadata: a Metadata; warnings: sentences about the files; path: as given. Names come by shard and
    offset. Two models are equal where they are the same object. tensors: the same mapping as a dictionary.
    Close it when it is no longer needed, or use it in a `with` statement.

    >>> with Model("model.gguf") as m:
    ...     m.metadata["general.architecture"], m["token_embd.weight"].read(), [t.shape for t in m.values()]
    """

    __eq__, __hash__ = object.__eq__, object.__hash__  # a mapping's own would compare the tensors

    def __init__(self, path: Path, *, lora: Adapters = None, target_model: Optional[Path] = None) -> None:
        e = gq_error()
        adapters = adapters_of(lora, target=target_model)
        opened = library.gq_model_open_adapted(path_bytes(path), byref(adapters), byref(e))
        super().__init__(check(opened, e), library.gq_model_close)
        self.path = path
        f = library.gq_model_summary(self.handle).contents
        self.facts = ModelFacts(f.version, f.shards, f.alignment, f.file_bytes, f.tensor_bytes, f.n_tensors, f.n_weights)
        self.warnings: list[str] = texts(library.gq_model_warnings, self.handle)
        self.metadata = Metadata(self)
        stored = listed(library.gq_model_tensors, self.handle)
        self.tensors: dict[str, Tensor] = {t.name: t for t in (Tensor(self, i, s) for i, s in enumerate(stored))}

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tensors)

    def __len__(self) -> int:
        return len(self.tensors)

    def __repr__(self) -> str:
        f = self.facts
        return (f"Model({os.fsdecode(self.path)!r}, {f.n_tensors} tensors, {f.n_weights:,} weights, "
                f"{f.bits_per_weight:.2f} bits per weight{'' if self._handle else ', closed'})")

    def _repr_html_(self) -> str:
        """A table for notebooks: what the model is, and its tensors by type with a bar for their share of the bytes."""
        from ._pages import file_size

        name = self.metadata.get("general.name", "")
        about = f"{name} {self.metadata.get('general.architecture', '')}".strip()
        f = self.facts
        sums: dict[str, list[int]] = {}
        for t in self.values():
            of = sums.setdefault(t.type.name, [0, 0, 0])
            of[0], of[1], of[2] = of[0] + 1, of[1] + t.size, of[2] + t.bytes
        rows = []
        for kind, (n, size, stored) in sorted(sums.items(), key=lambda item: -item[1][2]):
            share = 100 * stored / max(1, f.tensor_bytes)
            bar = (f'<div style="background:#3b82c4;height:.8em;width:{share:.1f}%;min-width:1px" '
                   f'title="{share:.1f} %"></div>')
            cells = [kind, str(n), f"{size:,}", file_size(stored), f"{8 * stored / size if size else 0:.2f}"]
            rows.append("<tr>" + "".join(f'<td style="text-align:{"right" if i else "left"}">{html.escape(cell)}</td>'
                                         for i, cell in enumerate(cells))
                        + f'<td style="width:12em">{bar}</td></tr>\n')
        head = "".join(f'<th style="text-align:{"right" if i else "left"}">{cell}</th>' for i, cell in enumerate(
            ["type", "tensors", "weights", "size", "bits per weight", "share of the bytes"]))
        return (f"<p><b>{html.escape(about)}</b>: {f.n_weights:,} weights in {f.n_tensors} tensors, "
                f"{file_size(f.file_bytes)}, {f.bits_per_weight:.2f} bits per weight</p>\n"
                f"<table>\n<tr>{head}</tr>\n{''.join(rows)}</table>\n")


class GGUFBuilder(Handle):
    """A new model: set metadata, add tensors, write the file. builder[key] = value is set(key, value).

    >>> with GGUFBuilder() as b:
    ...     b["general.architecture"], b["general.type"] = "llama", "part"
    ...     b.add("output.weight", weights, type="Q6_K")
    ...     b.write("small.gguf")
    """

    def __init__(self) -> None:
        e = gq_error()
        super().__init__(check(library.gq_gguf_builder_new(byref(e)), e), library.gq_gguf_builder_free)
        self.handle.kept = []  # blocks

    def set(self, key: str, value: Any, type: Optional[str] = None) -> None:
        """Set a pair of metadata. One that is there already moves to the end.

        value: a number, bool or str, or a list or numpy array of these.
        type: "u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "f32", "f64", "bool" or "string", of a list its
            elements'. None: bool, i64 for int, f32 for float, string for str, and the array's own type for numpy's.

        Raises UsageError where the type cannot hold the value, or none is known for it.
        """
        is_list = isinstance(value, (list, tuple, np.ndarray))
        items = list(value) if is_list else [value]
        if type is None:
            type = _type_of(value, items)
        values = (gq_value * len(items))()
        texts = [_fill(v, item, type) for v, item in zip(values, items)]  # which have to stay until they are copied
        e = gq_error()
        with self.lock:
            check(library.gq_gguf_builder_set(self.handle, c_text(key), c_text(type), is_list, values, len(items), byref(e)), e)
        del texts

    def __setitem__(self, key: str, value: Any) -> None:
        self.set(key, value)

    def remove(self, key: str) -> None:
        """Remove a pair that was set or copied; nothing happens where there is none."""
        with self.lock:
            library.gq_gguf_builder_remove(self.handle, c_text(key))

    def copy_metadata(self, model: Model) -> None:
        """Copy all metadata of a model, except pairs about its shards."""
        e = gq_error()
        with self.lock:
            check(library.gq_gguf_builder_copy(self.handle, model.handle, byref(e)), e)

    def add(self, name: str, x: npt.ArrayLike, type: Union[str, int, TensorType] = "F32", *,
            importance: Optional[npt.ArrayLike] = None, encoded: bool = False) -> None:
        """Add the next tensor.

        name: 1 to 127 bytes.
        x: weights [..., columns] of 1 to 4 dimensions, which are encoded; with encoded=True blocks, uint8
            [..., bytes of a row], as encode() returns them.
        type: of the tensor in the file.
        importance: one value per column, for the encoding.
        encoded: whether x holds blocks.

        The builder keeps the blocks until it is closed. Raises UsageError or BadWeights, as encode() does.
        """
        from .arrays import encode

        of = tensor_type(type)
        _, blocks, _, cols = blocks_of(x if encoded else encode(x, of, importance), of)
        shape = blocks.shape[:-1] + (cols,)
        ne = (c_uint64 * len(shape))(*shape[::-1])
        e = gq_error()
        with self.lock:
            handle = self.handle
            check(library.gq_gguf_builder_add(handle, c_text(name), len(shape), ne, of.id, blocks.ctypes.data, blocks.size,
                                       byref(e)), e)
            handle.kept.append(blocks)

    def write(self, path: Path, *, force: bool = False) -> None:
        """Write the model to a file, which gets its name when it is complete.

        force: replace a file that is there. Raises Error where the file is there already or cannot be written.
        """
        e = gq_error()
        with self.lock:
            check(library.gq_gguf_builder_write(self.handle, path_bytes(path), force, byref(e)), e)


Draft = GGUFBuilder  # its name in version 0.1, which works for one release


def _type_of(value: Any, items: list[Any]) -> str:
    if isinstance(value, np.ndarray) and value.dtype in _KEYS:
        return _KEYS[value.dtype]
    if isinstance(value, np.generic) and value.dtype in _KEYS:
        return _KEYS[value.dtype]
    for kind, name in ((bool, "bool"), (int, "i64"), (float, "f32"), (str, "string")):
        if items and all(isinstance(item, kind) for item in items):
            return name
    raise UsageError(f"no type of metadata holds {value!r}; say which one is meant")


def _fill(v: gq_value, item: Any, type: str) -> Optional[bytes]:
    if not isinstance(item, _HOLDS.get(type, numbers.Integral)):
        raise UsageError(f"{item!r} is nothing that the type {type} can hold")
    if type == "string":
        text = item.encode("utf-8", "surrogateescape") if isinstance(item, str) else item
        v.kind, v.text, v.length = _TEXT, ctypes.cast(c_char_p(text), ctypes.c_void_p), len(text)
        return text
    if type == "bool":
        v.kind, v.as_bool = _BOOL, bool(item)
    elif type in ("f32", "f64"):
        v.kind, v.as_float = _FLOAT, float(item)
    elif not -(1 << 63) <= int(item) < 1 << 64:
        raise UsageError(f"{item} is beyond 64 bits")
    elif int(item) < 0:
        v.kind, v.as_signed = _SIGNED, int(item)
    else:
        v.kind, v.as_unsigned = _UNSIGNED, int(item)
    return None


class Tokenizer(Handle):
    """The tokenizer of a model, or of a GGUF file with nothing but a vocabulary. The ids are those of llama.cpp.

    Raises Error where the file cannot be read or has a kind of vocabulary that is not known.
    """

    def __init__(self, path: Path, *, lora: Adapters = None) -> None:
        e = gq_error()
        opened = library.gq_tokenizer_open_adapted(path_bytes(path), byref(adapters_of(lora)), byref(e))
        super().__init__(check(opened, e), library.gq_tokenizer_close)

    def __call__(self, text: Union[str, bytes], *, ends: bool = True, special: bool = False, tokens: int = 0,
                 memory: Optional[Size] = None) -> npt.NDArray[np.uint32]:
        """Return the token ids of a text, uint32.

        text: bytes need not be UTF-8.
        ends: add BOS and EOS where the vocabulary has texts begin and end with them.
        special: find control tokens in the text, too.
        tokens: only the first so many; 0: all. memory: to stay within, in bytes or as a text; None: a quarter of the
            machine's.

        Raises UsageError for a text whose ids, or longest word, need more memory.
        """
        from ._interruptible import interruptible
        from ._library import gq_tokenize_options, gq_tokens

        raw = text.encode() if isinstance(text, str) else text
        options = gq_tokenize_options(size=ctypes.sizeof(gq_tokenize_options), no_ends=not ends, parse_special=special,
                                      tokens=tokens, memory=size_bytes(memory))
        found, e = gq_tokens(), gq_error()

        def tokenize(callbacks: Any) -> None:
            options.callbacks = callbacks
            check(library.gq_tokenize(self.handle, raw, len(raw), byref(options), byref(found), byref(e)), e)

        interruptible(tokenize)
        ids = np.array(found.ids[:found.n], dtype=np.uint32)
        library.gq_tokens_free(byref(found))
        return ids
