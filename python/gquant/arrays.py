"""Tensor types, and their codecs for numpy arrays."""

from __future__ import annotations

import ctypes
import dataclasses
from ctypes import byref, c_float, c_size_t
from typing import Any, Literal, Optional, Union, overload

import numpy as np
import numpy.typing as npt

from ._interruptible import interruptible
from ._library import UsageError, c_number, c_text, check, gq_array_options, gq_error, gq_loss, library, text_of

Effort = Literal["default", "fast", "best"]
EFFORTS = {"default": 0, "fast": 1, "best": 2}
_LONG = 1 << 20  # weights; what is less is done before somebody could interrupt it


@dataclasses.dataclass(frozen=True)
class TensorType:
    """A type of tensors, as GGUF numbers them: a block of so many elements takes so many bytes."""

    id: int
    name: str
    elements: int
    bytes: int
    quantized: bool
    readable: bool
    writable: bool


@dataclasses.dataclass(frozen=True)
class FileType:
    """What a whole model can be made: a mix of tensor types."""

    name: str
    summary: str
    bits: float


@dataclasses.dataclass(frozen=True)
class Loss:
    """How far weights are from what they were.

    Sums over n elements of x^2 and (x - x')^2, plain and under importance or moments, and the largest |x - x'|.
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
        """Root mean square error."""
        return (self.e2 / self.n) ** 0.5 if self.n else 0.0

    @property
    def relative(self) -> float:
        """Root mean square error as a share of the weights' own."""
        return (self.e2 / self.x2) ** 0.5 if self.x2 else 0.0

    @property
    def weighted(self) -> Optional[float]:
        """The same under importance, or second moments; None where there was neither."""
        return (self.we2 / self.wx2) ** 0.5 if self.wx2 else None


def loss_of(l: gq_loss) -> Loss:
    return Loss(l.n, l.x2, l.e2, l.wx2, l.we2, l.max_error, l.crc32)


def types() -> list[TensorType]:
    """All tensor types."""
    return [_of(i) for i in range(library.gq_type_limit()) if library.gq_type_elements(i)]


def file_types() -> list[FileType]:
    """All that quantize() can be asked for by name."""
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
    """The type of a name ("Q4_K", in any case) or of a number."""
    if isinstance(name, TensorType):
        return name
    number = library.gq_type_find(c_text(name)) if isinstance(name, str) else name
    if not 0 <= number < library.gq_type_limit() or not library.gq_type_elements(number):
        raise UsageError(f"there is no tensor type {name!r}")
    return _of(number)


def _rows(a: npt.NDArray[Any], what: str) -> tuple[int, int]:
    if a.ndim < 1:
        raise UsageError(f"{what} are rows, and this is a single number")
    rows = 1
    for n in a.shape[:-1]:
        rows *= n
    return rows, a.shape[-1]


@overload
def encode(x: npt.ArrayLike, type: Union[str, int, TensorType], importance: Optional[npt.ArrayLike] = None, *,
           moments: Optional[npt.ArrayLike] = ..., damp: Optional[float] = ..., shrink: Optional[float] = ...,
           effort: Effort = ..., threads: int = ..., loss: Literal[False] = False) -> npt.NDArray[np.uint8]: ...


@overload
def encode(x: npt.ArrayLike, type: Union[str, int, TensorType], importance: Optional[npt.ArrayLike] = None, *,
           moments: Optional[npt.ArrayLike] = ..., damp: Optional[float] = ..., shrink: Optional[float] = ...,
           effort: Effort = ..., threads: int = ..., loss: Literal[True]) -> tuple[npt.NDArray[np.uint8], Loss]: ...


def encode(x, type, importance=None, *, moments=None, damp=None, shrink=None, effort="default", threads=0, loss=False):
    """Weights as blocks of a type: [..., columns] becomes bytes [..., bytes of a row].

    importance: one value >= 0 per column, as Imatrix.columns gives them. threads 0: one per core; the bytes are the
    same for any number. With loss=True the blocks and a Loss.

    moments: in place of importance the second moments of the inputs, [columns, columns]: for inputs y [tokens, columns]
    the mean y.T @ y / tokens, importance being its diagonal. What rounding a column loses the columns behind it make
    good. damp (.01): how much of the mean square is added to each column's; shrink (.1): how far columns are taken for
    independent of each other; less of both is right for many tokens per column, more for few. Loss.weighted is the
    relative error of the rows' products with such inputs.

    >>> blocks = encode(np.ones((2, 256)), "Q4_K")
    >>> blocks.shape
    (2, 144)
    """
    of = tensor_type(type)
    weights = np.ascontiguousarray(x, dtype=np.float32)
    rows, cols = _rows(weights, "weights")
    bytes_, e, sums = c_size_t(), gq_error(), gq_loss()
    check(library.gq_array_bytes(of.id, rows, cols, byref(bytes_), byref(e)), e)
    options = gq_array_options(size=ctypes.sizeof(gq_array_options), threads=threads)
    try:
        options.effort = EFFORTS[effort]
    except KeyError:
        raise UsageError(f"effort {effort!r} is none of {', '.join(EFFORTS)}") from None
    column = None
    if importance is not None:
        column = np.ascontiguousarray(importance, dtype=np.float32)
        if column.shape != (cols,):
            raise UsageError(f"importance has the shape {column.shape}, and rows have {cols} columns")
        options.importance = column.ctypes.data_as(ctypes.POINTER(c_float))
    if moments is not None:
        square = np.ascontiguousarray(moments, dtype=np.float32)
        if square.shape != (cols, cols):
            raise UsageError(f"moments have the shape {square.shape}, and rows have {cols} columns")
        options.moments = square.ctypes.data_as(ctypes.POINTER(c_float))
    for name, share in (("damp", damp), ("shrink", shrink)):
        if share is not None:
            if moments is None:
                raise UsageError(f"{name} is of moments, and there are none")
            if not 0 <= share <= 1:
                raise UsageError(f"{name} {share!r} is not from 0 to 1")
            setattr(options, name, share or -1)  # 0 is the library's default
    blocks = np.empty(weights.shape[:-1] + (cols // of.elements * of.bytes,), dtype=np.uint8)

    def call(callbacks: Any) -> bool:
        options.callbacks = callbacks
        return library.gq_encode(of.id, rows, cols, weights.ctypes.data, byref(options), blocks.ctypes.data,
                                 bytes_.value, byref(sums), byref(e))

    check(interruptible(call) if weights.size >= _LONG or moments is not None else call(None), e)
    return (blocks, loss_of(sums)) if loss else blocks


def blocks_of(blocks: npt.ArrayLike, type: Union[str, int, TensorType]) -> tuple[TensorType, npt.NDArray[np.uint8], int, int]:
    of = tensor_type(type)
    stored = np.ascontiguousarray(blocks)
    if stored.dtype != np.uint8:
        raise UsageError(f"blocks are bytes, numpy.uint8, not {stored.dtype}")
    rows, row_bytes = _rows(stored, "blocks")
    if row_bytes % of.bytes:
        raise UsageError(f"rows of {row_bytes} bytes are no whole blocks of {of.name}, which have {of.bytes}")
    return of, stored, rows, row_bytes // of.bytes * of.elements


def decode(blocks: npt.ArrayLike, type: Union[str, int, TensorType], *, threads: int = 0) -> npt.NDArray[np.float32]:
    """What blocks of a type stand for: bytes [..., bytes of a row] become weights [..., columns]."""
    of, stored, rows, cols = blocks_of(blocks, type)
    x = np.empty(stored.shape[:-1] + (cols,), dtype=np.float32)
    e = gq_error()
    check(library.gq_decode(of.id, rows, cols, stored.ctypes.data, stored.size, x.ctypes.data,
                            c_number("threads", threads), byref(e)), e)
    return x


def dot(blocks: npt.ArrayLike, type: Union[str, int, TensorType], vector: npt.ArrayLike, *,
        threads: int = 0) -> npt.NDArray[np.float32]:
    """Rows times a vector, from the blocks as they are: the vector is rounded to 16 bits, as runtimes do."""
    of, stored, rows, cols = blocks_of(blocks, type)
    x = np.ascontiguousarray(vector, dtype=np.float32)
    if x.shape != (cols,):
        raise UsageError(f"the vector has the shape {x.shape}, and rows have {cols} columns")
    out = np.empty(stored.shape[:-1], dtype=np.float32)
    e = gq_error()
    check(library.gq_dot(of.id, rows, cols, stored.ctypes.data, stored.size, x.ctypes.data, out.ctypes.data,
                         c_number("threads", threads), byref(e)), e)
    return out
