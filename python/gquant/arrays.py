"""Tensor types and file types, and codecs for numpy arrays.

The last dimension of an array of weights is the length of a row; all dimensions before it count rows. Weights are
float32; blocks are uint8, with the bytes of a row last, as a GGUF file has them. Shapes and types are checked here.
The library then gets pointers to contiguous arrays, which are copies only where numpy's array is not contiguous or
has another type, and works without Python's interpreter lock. A long encode() can be interrupted with Ctrl-C;
decode() and dot() run to their end.
"""

from __future__ import annotations

import ctypes
import dataclasses
from ctypes import byref, c_float, c_size_t
from typing import Any, Literal, Optional, Union, overload

import numpy as np
import numpy.typing as npt

from ._interruptible import interruptible
from ._library import (
    UsageError, c_number, c_text, check, gq_array_options, gq_error, gq_loss, library, old_arguments, text_of,
)

Effort = Literal["default", "fast", "best"]
EFFORTS = {"default": 0, "fast": 1, "best": 2}
Arithmetic = Literal["float32", "bf16"]
_LONG = 1 << 20  # weights; what is less is done before somebody could interrupt it


def effort_number(effort: str) -> int:
    """Return the library's number of an effort."""
    if effort not in EFFORTS:
        raise UsageError(f"effort {effort!r} is none of {', '.join(EFFORTS)}")
    return EFFORTS[effort]


@dataclasses.dataclass(frozen=True)
class TensorType:
    """A tensor type of GGUF.

    id: its number in GGUF files; name: such as "Q4_K".
    elements, bytes: of one block. A row is a whole number of blocks.
    quantized: False where each element is a number of its own (F16, I32, ...).
    readable, writable: whether this library can decode it, and encode it.
    """

    id: int
    name: str
    elements: int
    bytes: int
    quantized: bool
    readable: bool
    writable: bool


@dataclasses.dataclass(frozen=True)
class FileType:
    """A type of whole models: a mix of tensor types that quantize() can be asked for.

    name: such as "Q4_K_M"; summary: one line for lists, may be empty.
    bits: per weight of a whole model, about; 0: it depends on the model.
    """

    name: str
    summary: str
    bits: float


@dataclasses.dataclass(frozen=True)
class Loss:
    """How far weights x' are from the weights x that they were made of.

    n: elements; 0: not measured, as the bytes were kept.
    x2, e2: sums of x^2 and of (x - x')^2.
    wx2, we2: the same weighted by importance or a Hessian; 0 where there were none.
    max_error: largest |x - x'|, in units of the weights.
    crc32: checksum of the encoded bytes.
    """

    n: int
    x2: float
    e2: float
    wx2: float
    we2: float
    max_error: float
    crc32: int

    @property
    def rmse(self) -> float:
        """Root mean square error, in units of the weights; 0 where nothing was measured."""
        return (self.e2 / self.n) ** 0.5 if self.n else 0.0

    @property
    def relative(self) -> float:
        """Root mean square error divided by the root mean square of the weights, sqrt(e2 / x2)."""
        return (self.e2 / self.x2) ** 0.5 if self.x2 else 0.0

    @property
    def weighted(self) -> Optional[float]:
        """The relative error weighted by importance or a Hessian, sqrt(we2 / wx2); None where there were none."""
        return (self.we2 / self.wx2) ** 0.5 if self.wx2 else None


def loss_of(l: gq_loss) -> Loss:
    return Loss(l.n, l.x2, l.e2, l.wx2, l.we2, l.max_error, l.crc32)


def types() -> list[TensorType]:
    """Return all tensor types that the library knows, by number."""
    return [_of(i) for i in range(library.gq_type_limit()) if library.gq_type_elements(i)]


def file_types() -> list[FileType]:
    """Return all file types that quantize() can be asked for."""
    return [
        FileType(text_of(library.gq_filetype_name(i)), text_of(library.gq_filetype_summary(i)),
                 library.gq_filetype_bits(i))
        for i in range(library.gq_filetype_count())
    ]


def _of(number: int) -> TensorType:
    return TensorType(number, text_of(library.gq_type_name(number)), library.gq_type_elements(number),
                      library.gq_type_bytes(number), library.gq_type_quantized(number),
                      library.gq_type_readable(number), library.gq_type_writable(number))


def tensor_type(name: Union[str, int, TensorType]) -> TensorType:
    """Return the tensor type with a name ("Q4_K", upper or lower case) or a number of GGUF.

    Raises UsageError where there is none.
    """
    if isinstance(name, TensorType):
        return name
    number = library.gq_type_find(c_text(name)) if isinstance(name, str) else name
    if not 0 <= number < library.gq_type_limit() or not library.gq_type_elements(number):
        raise UsageError(f"there is no tensor type {name!r}")
    return _of(number)


def row_bytes(of: TensorType, cols: int) -> int:
    bytes_, e = c_size_t(), gq_error()
    check(library.gq_array_bytes(of.id, 1, cols, byref(bytes_), byref(e)), e)
    return bytes_.value


def _rows(a: npt.NDArray[Any], what: str) -> tuple[int, int]:
    if a.ndim < 1:
        raise UsageError(f"{what} are rows, and this is a single number")
    rows = 1
    for n in a.shape[:-1]:
        rows *= n
    return rows, a.shape[-1]


def unmasked(x: npt.ArrayLike, name: str) -> npt.NDArray[Any]:
    """Return an array; raise TypeError where elements of it, or of a list of arrays, are masked: a plain array has them."""
    if any(map(np.ma.is_masked, x if isinstance(x, (list, tuple)) else [x])):
        raise TypeError(f"{name}: a masked array, whose masked elements no file can leave out; fill them first, as x.filled(0)")
    return np.asarray(x)


def _real(x: npt.ArrayLike, name: str) -> npt.NDArray[np.float32]:
    found = unmasked(x, name)
    if found.dtype.kind == "c":
        raise TypeError(f"{name}: complex numbers, whose imaginary part no type holds")
    return np.ascontiguousarray(found, dtype=np.float32)


@overload
def encode(x: npt.ArrayLike, type: Union[str, int, TensorType], importance: Optional[npt.ArrayLike] = None, *,
           hessian: Optional[npt.ArrayLike] = ..., damp: Optional[float] = ..., shrink: Optional[float] = ...,
           effort: Effort = ..., threads: int = ..., loss: Literal[False] = False) -> npt.NDArray[np.uint8]: ...


@overload
def encode(x: npt.ArrayLike, type: Union[str, int, TensorType], importance: Optional[npt.ArrayLike] = None, *,
           hessian: Optional[npt.ArrayLike] = ..., damp: Optional[float] = ..., shrink: Optional[float] = ...,
           effort: Effort = ..., threads: int = ..., loss: Literal[True]) -> tuple[npt.NDArray[np.uint8], Loss]: ...


@old_arguments(moments="hessian")
def encode(x, type, importance=None, *, hessian=None, damp=None, shrink=None, effort="default", threads=0, loss=False):
    """Encode weights as blocks of a type.

    x: weights [..., columns], converted to float32. They must be finite and within what the type can hold. columns must
        be a multiple of the type's block.
    type: a name ("Q4_K"), a number or a TensorType that is writable.
    importance: one value >= 0 per column, as Imatrix.columns returns them; None: all columns count the same.
    hessian: in place of importance, the Hessian of the inputs, [columns, columns]: y.T @ y / tokens for inputs y
        [tokens, columns]. Later columns then compensate the rounding error of a column (GPTQ). Each row gets that
        result or plain encoding's, whichever has the smaller error under this Hessian. Not for types of single numbers,
        such as F16. Takes a time of about columns^3.
    damp: with a Hessian, the share of the mean square that is added to each column's; None: 0.01.
    shrink: with a Hessian, how far columns are taken for independent of each other, 0 to 1; None: 0.3. Lower damp and
        shrink for many tokens per column, raise them for few.
    effort: "fast", "default" or "best": time spent on the search.
    threads: 0: one per core. The bytes do not depend on it.
    loss: whether to return a Loss, too.

    Returns the blocks, uint8 [..., bytes of a row]; with loss=True a pair of them and a Loss. With a Hessian,
    Loss.weighted is the relative error of the rows' products with such inputs.
    Raises UsageError for shapes, types and numbers that do not fit, BadWeights for weights that cannot be encoded.

    >>> blocks = encode(np.ones((2, 256)), "Q4_K")
    >>> blocks.shape
    (2, 144)
    """
    of = tensor_type(type)
    weights = _real(x, "weights")
    rows, cols = _rows(weights, "weights")
    bytes_, e, sums = c_size_t(), gq_error(), gq_loss()
    check(library.gq_array_bytes(of.id, rows, cols, byref(bytes_), byref(e)), e)
    options = gq_array_options(size=ctypes.sizeof(gq_array_options), threads=threads)
    options.effort = effort_number(effort)
    column = None
    if importance is not None:
        column = _real(importance, "importance")
        if column.shape != (cols,):
            raise UsageError(f"importance has the shape {column.shape}, and rows have {cols} columns")
        options.importance = column.ctypes.data_as(ctypes.POINTER(c_float))
    if hessian is not None:
        square = _real(hessian, "hessian")
        if square.shape != (cols, cols):
            raise UsageError(f"hessian has the shape {square.shape}; expected ({cols}, {cols}), a row and a column per input")
        options.hessian = square.ctypes.data_as(ctypes.POINTER(c_float))
    for name, share in (("damp", damp), ("shrink", shrink)):
        if share is not None:
            if hessian is None:
                raise UsageError(f"{name} works only with hessian")
            if not 0 <= share <= 1:
                raise UsageError(f"{name} {share!r} is not from 0 to 1")
            setattr(options, name, share or -1)  # 0 is the library's default
    blocks = np.empty(weights.shape[:-1] + (row_bytes(of, cols),), dtype=np.uint8)

    def call(callbacks: Any) -> bool:
        options.callbacks = callbacks
        return library.gq_encode(of.id, rows, cols, weights.ctypes.data, byref(options), blocks.ctypes.data,
                                 bytes_.value, byref(sums), byref(e))

    check(interruptible(call) if weights.size >= _LONG or hessian is not None else call(None), e)
    return (blocks, loss_of(sums)) if loss else blocks


def blocks_of(blocks: npt.ArrayLike, type: Union[str, int, TensorType]) -> tuple[TensorType, npt.NDArray[np.uint8], int, int]:
    of = tensor_type(type)
    stored = np.ascontiguousarray(unmasked(blocks, "blocks"))
    if stored.dtype != np.uint8:
        raise UsageError(f"blocks are bytes, numpy.uint8, not {stored.dtype}")
    rows, length = _rows(stored, "blocks")
    head = row_bytes(of, of.elements) - of.bytes
    if length < head or (length - head) % of.bytes:
        raise UsageError(f"rows of {length} bytes are no whole blocks of {of.name}, which have {of.bytes}")
    return of, stored, rows, (length - head) // of.bytes * of.elements


def decode(blocks: npt.ArrayLike, type: Union[str, int, TensorType], *, threads: int = 0) -> npt.NDArray[np.float32]:
    """Decode blocks to weights.

    blocks: uint8 [..., bytes of a row], as encode() and Tensor.stored() return them.
    type: their type, which must be readable.
    threads: 0: one per core.

    Returns float32 [..., columns]. Raises UsageError where blocks are not bytes, a row is not a whole number of blocks,
    or the type has no decoder.
    """
    of, stored, rows, cols = blocks_of(blocks, type)
    x = np.empty(stored.shape[:-1] + (cols,), dtype=np.float32)
    e = gq_error()
    check(library.gq_decode(of.id, rows, cols, stored.ctypes.data, stored.size, x.ctypes.data,
                            c_number("threads", threads), byref(e)), e)
    return x


def dot(blocks: npt.ArrayLike, type: Union[str, int, TensorType], vector: npt.ArrayLike, *,
        threads: int = 0) -> npt.NDArray[np.float32]:
    """Multiply each row with a vector, straight from the blocks, as programs that run a model do.

    blocks: uint8 [..., bytes of a row].
    type: their type.
    vector: [columns], converted to float32; for blocks of quantized types it is rounded to 16 bits.
    threads: 0: one per core.

    Returns float32 [...], one number per row. Raises UsageError where shapes do not fit, a number of the vector is not
    below 2^100 in size, or the type cannot be multiplied.
    """
    of, stored, rows, cols = blocks_of(blocks, type)
    x = _real(vector, "the vector")
    if x.shape != (cols,):
        raise UsageError(f"the vector has the shape {x.shape}, and rows have {cols} columns")
    out = np.empty(stored.shape[:-1], dtype=np.float32)
    e = gq_error()
    check(library.gq_dot(of.id, rows, cols, stored.ctypes.data, stored.size, x.ctypes.data, out.ctypes.data,
                         c_number("threads", threads), byref(e)), e)
    return out
