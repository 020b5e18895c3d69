"""libgquant through ctypes: its structs, its functions, and how its failures become exceptions.

Structs and functions are those of the public headers (declarations.py). The structs are names of this module, and the library
is loaded at import. The other modules call `library.gq_...` directly and pass the result and the gq_error to check(),
which raises. At the end come helpers that turn texts, paths and arrays into what C takes and back.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import numbers
import operator
import os
import sys
import threading
import typing
from ctypes import byref, c_char_p, c_int, c_size_t, c_void_p
from typing import Any, Callable, Optional, Sequence

from ._errors import AlreadyThere, BadWeights, Cancelled, Error, NotAllowed, NotFound, UsageError

# ---- structs and functions ----


def _declare() -> Any:
    """Return the module with the structs and functions: a wheel's, or one made of the headers of the source tree."""
    try:
        from . import _declared as found  # type: ignore[attr-defined]
    except ImportError:
        import runpy
        import types

        python = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        reader = runpy.run_path(os.path.join(python, "declarations.py"))
        found = types.ModuleType("gquant._declared")
        found.__package__ = "gquant"
        exec(reader["module"](reader["pathlib"].Path(python).parent), found.__dict__)
    return found


_declared = _declare()
globals().update({name: kind for name, kind in vars(_declared).items() if name.startswith("gq_")})

if typing.TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...  # structs


class _Library(ctypes.CDLL):
    def __getattr__(self, name: str) -> Any:
        function = self[name]
        function.restype, function.argtypes = _declared.FUNCTIONS[name]
        setattr(self, name, function)  # last, as other threads may look for it
        return function


_NAME = {"darwin": "libgquant.0.dylib", "win32": "gquant.dll"}.get(sys.platform, "libgquant.so.0")


def _load() -> _Library:
    """Load the library: the one that GQUANT_LIBRARY names, else the one in this package, else the system's.

    Raises ImportError where there is none.
    """
    inside = os.path.join(os.path.dirname(os.path.abspath(__file__)), _NAME)
    path = os.environ.get("GQUANT_LIBRARY") or (inside if os.path.exists(inside) else _NAME)
    try:
        return _Library(path)
    except OSError as error:
        hint = "GQUANT_LIBRARY may name it" if _NAME.split(".")[0] in str(error).split(": ")[0] else \
            "the system's packages have it (Debian: libpcre2-8-0, libjansson4, zlib1g)"
        raise ImportError(f"gquant needs its library: {error}; {hint}") from error


library = _load()

# The system's own sentences, with which the library ends its message; and its own for a folder of an output.
_SYSTEM = {os.strerror(errno.ENOENT): NotFound, os.strerror(errno.EACCES): NotAllowed, " does not exist": NotFound}
_REPLACE = 1
_Function = typing.TypeVar("_Function", bound=Callable[..., Any])
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
Adapters = Any  # None, a path, or a list of paths and of pairs of a path and a factor
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}


def size_bytes(size: typing.Union[Size, float, None]) -> int:
    """Return a size in bytes: a number, or a text as the command takes it ("7.5G", "500M", "16Gi"); None: 0."""
    if size is None or isinstance(size, numbers.Integral) or isinstance(size, float) and size.is_integer():
        return int(size or 0)
    if not isinstance(size, str):
        raise UsageError(f"{size!r} is no size, such as '7.5G' or '500M', or a whole number of bytes")
    import re  # which takes a while to be imported

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
    """Return a path (str, bytes or PathLike) as the library takes it: with / between folders on Windows, too."""
    return _whole(os.fsencode(path).replace(os.sep.encode(), b"/"))


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


def _adapters(lora: Any) -> list[tuple[Any, float]]:
    """Each adapter with its factor: of one folder, or a list of folders and of pairs of a folder and a factor."""
    if lora is None:
        return []
    return [item if isinstance(item, tuple) else (item, 1.0) for item in (lora if isinstance(lora, list) else [lora])]


def adapter_paths(lora: Any) -> list[Any]:
    """The folders alone."""
    return [path for path, _ in _adapters(lora)]


def adapter_names(lora: Any) -> Any:
    """The same without the folders above."""
    named = [(text_of(path_bytes(path)).rstrip("/").rpartition("/")[2], factor) for path, factor in _adapters(lora)]
    return [name if factor == 1 else (name, factor) for name, factor in named] or None


def adapters_of(lora: Any, base: Any = None, target: Any = None) -> gq_adapters:
    items = _adapters(lora)
    array = (gq_adapter * len(items))(*[gq_adapter(path=path_bytes(path), scale=factor) for path, factor in items])
    return gq_adapters(items=array, n=len(items), base=optional_path(base), target=optional_path(target))


def adapter_options(lora: Any) -> list[str]:
    """The same as the options of the command, without folders' paths."""
    found = []
    for path, factor in _adapters(adapter_names(lora)):
        found.append(f"--lora {path}")
        found += [f"--lora-scale {factor:g}"] * (factor != 1)
    return found


def listed(function: Callable[..., Any], *arguments: Any) -> list[Any]:
    """Return all elements of an array that function(*arguments, &n) hands out. They belong to the library's object."""
    n = c_size_t()
    first = function(*arguments, byref(n))
    return [first[i] for i in range(n.value)]


def texts(function: Callable[..., Any], *arguments: Any) -> list[str]:
    """Return the same for an array of texts, as copies."""
    return [text_of(t) for t in listed(function, *arguments)]


class _Owned(c_void_p):
    """A pointer that owns the library's object. Python keeps it as long as a call has it as an argument, in any thread."""

    free: Callable[[Any], None]
    interrupts: list[BaseException]
    kept: list[Any]  # what the library's object points to

    def __del__(self) -> None:
        try:
            self.free(self)
        except BaseException as error:  # from a signal's handler; close() raises it again
            self.interrupts.append(error)


class Handle:
    """An object of the library. It is freed by close(), at the end of a `with` statement, or with this object."""

    def __init__(self, handle: Any, free: Callable[[Any], None]) -> None:
        self._handle: Optional[_Owned] = _Owned(handle)
        self._handle.free, self._handle.interrupts = free, []
        self.lock = threading.RLock()  # for calls that change the object

    @property
    def handle(self) -> _Owned:
        """The library's pointer, which is good as long as it is held. Raises ValueError after close()."""
        handle = self._handle  # once, as another thread may close the object
        if handle is None:
            raise ValueError("it is closed")
        return handle

    def close(self) -> None:
        """Free the library's object, where other threads are in calls with it as these end. A second call does nothing."""
        handle, self._handle = self._handle, None
        interrupts = handle.interrupts if handle else []
        del handle  # which frees it
        if interrupts:
            raise interrupts.pop()

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


def old_name(new: str) -> Any:
    """Return a member by its name of version 0.1, which works for one release."""
    return property(operator.attrgetter(new), doc=new)


def old_arguments(**renamed: str) -> Callable[[_Function], _Function]:
    """Have a function take arguments by their names of version 0.1, too, for one release."""
    def around(f: Any) -> Any:
        @functools.wraps(f)
        def call(*args: Any, **words: Any) -> Any:
            return f(*args, **{renamed.get(name, name): value for name, value in words.items()})
        return call
    return around
