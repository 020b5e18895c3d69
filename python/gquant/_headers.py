"""The library's structs and functions as ctypes has them, read from its public headers (quantize/gquant.h).

A wheel carries what the headers declare as one text; in the source tree the headers themselves are read. This knows the C
that they are written in, and no more: tests/test_layout.py compares the structs with what a C compiler makes of them.
"""

from __future__ import annotations

import ctypes
import pathlib
import re
from ctypes import CFUNCTYPE, POINTER, Structure, Union, c_char_p, c_void_p
from typing import Any, Optional

_NUMBERS = {"unsigned": ctypes.c_uint, "unsigned long long": ctypes.c_ulonglong, "size_t": ctypes.c_size_t,
            **{name: getattr(ctypes, f"c_{name}") for name in ("bool", "char", "int", "float", "double")},
            **{f"{name}_t": getattr(ctypes, f"c_{name}") for name in ("int32", "uint32", "int64", "uint64")}}
INSIDE = pathlib.Path(__file__).with_name("declarations.h")


def gathered(root: pathlib.Path, name: str = "gquant.h", done: Optional[set[str]] = None) -> str:
    """Return what a header of the source tree declares, with that of the headers that it includes; no comments."""
    done = set() if done is None else done
    if name in done:
        return ""
    done.add(name)
    path = next(path for path in (root / "quantize" / name, root / name) if path.exists())
    text = re.sub(r"/\*.*?\*/|#ifdef __cplusplus.*?#endif", "", path.read_text(encoding="utf-8"), flags=re.S)
    text = re.sub(r'^#include "(.*)"', lambda found: gathered(root, found[1], done), text, flags=re.M)
    return re.sub(r"^#.*\n|^\s*\n|[ \t]+$", "", text, flags=re.M)


class Declarations:
    """What a text declares.

    base: the class of all structs but those with a union.

    structs: by name. An enum is an int, and a pointer to what is not known is void *. A text within a union is void *,
        too: it may lack a NUL.
    functions: by name, their results and their arguments as they are declared.
    """

    def __init__(self, text: str, base: type[Structure]) -> None:
        self._sizes = dict(re.findall(r"\b([A-Z][A-Z0-9_]+) = (\d+)(?=\s*[,}])", text))
        self._enums = {"...", *re.findall(r"\benum (\w+) \{", text)}
        self._handles = {"void", *re.findall(r"\bstruct (\w+)\b(?! \{)", text)}
        self.functions = {name: (result, arguments) for result, name, arguments in
                           re.findall(r"^GQ_API ([^;()]*?)(gq_\w+)\(([^()]*)\)", text, re.M)}
        if len(self.functions) != len(re.findall(r"^GQ_API\b", text, re.M)):
            raise TypeError("the headers have a function that is declared in a way that is not known here")
        self.structs: dict[str, Any] = {}
        while found := re.search(r"\b(struct|union) (\{([^{}]*)\})", text):  # without a name, the inner ones first
            self._add(name := f"unnamed_{len(self.structs)}", Structure if found[1] == "struct" else Union)
            self._fill(name, found[3].replace("char *", "void *"))
            text = text.replace(found[0], name)
        bodies = dict(re.findall(r"\bstruct (\w+) \{([^{}]*)\}", text))
        if len(bodies) != len(re.findall(r"\bstruct \w+ \{", text)):
            raise TypeError("the headers have a struct with a name within a struct, which is not known here")
        for name, body in bodies.items():
            self._add(name, Structure if "unnamed_" in body else base)
        for name, body in bodies.items():  # after all have names, as members may point to later ones
            self._fill(name, body)

    def function(self, name: str) -> tuple[Any, list[Any]]:
        """Return the type of a function's result, and those of its arguments.

        Memory that the caller has to free, char *, is an address. Pointers to numbers are so in arguments.
        """
        result, arguments = self.functions[name]
        return c_void_p if result == "char *" else self._kind(result), self._arguments(arguments)

    def _add(self, name: str, base: Any) -> None:
        self.structs[name] = type(name, (base,), {})

    def _fill(self, name: str, body: str) -> None:
        members = self._members(body)
        self.structs[name]._anonymous_ = [member for member, _ in members if member.startswith("unnamed_")]
        self.structs[name]._fields_ = members

    def _members(self, body: str) -> list[tuple[str, Any]]:
        members = []
        for member in (" ".join(member.split()) for member in body.split(";")[:-1]):
            if call := re.fullmatch(r"(.*)\(\*(\w+)\)\((.*)\)", member):
                members.append((call[2], CFUNCTYPE(self._kind(call[1]), *self._arguments(call[3]))))
                continue
            base, names = re.fullmatch(r"((?:const )?(?:struct )?\w+) ?(.*)", member).groups()  # type: ignore[union-attr]
            if not re.fullmatch(r"([*const ]*\b\w+(\[\w+\])?(, ?|$))+", names or base):
                raise TypeError(f"'{member}': a member that is declared in a way that is not known here")
            for stars, name, n in re.findall(r"([*const ]*?)\b(\w+)(?:\[(\w+)\])?(?:,|$)", names or base):
                kind = self._kind(base + stars)
                members.append((name, kind * int(self._sizes.get(n, n)) if n else kind))
        return members

    def _arguments(self, text: str) -> list[Any]:
        if text == "void":
            return []
        kinds = [re.sub(r"\w+(\[\w*\])?$", lambda name: "*" * bool(name[1]), one) for one in re.split(r",\s*", text)]
        return [c_void_p if kind.count("*") == 1 and _base(kind) in _NUMBERS and "char" not in kind else self._kind(kind)
                for kind in kinds]

    def _kind(self, declared: str) -> Any:
        """Return the type for "const char *const *" and the like."""
        base, stars = _base(declared), declared.count("*")
        kind = _NUMBERS.get(base) or self.structs.get(base)
        if stars and (base == "char" or kind is None and base in self._handles):
            kind, stars = c_char_p if kind else c_void_p, stars - 1
        elif base in self._enums:
            kind = ctypes.c_int
        elif kind is None and base != "void":
            raise TypeError(f"'{declared}': a type that is not known here")
        for _ in range(stars):
            kind = POINTER(kind)
        return kind


def _base(declared: str) -> str:
    return re.sub(r"\b(const|struct)\b|\*", "", declared).strip()
