"""The library's structs and functions as ctypes has them, made from its public headers (quantize/gquant.h).

    python3 declarations.py SOURCE      # prints the module gquant/_declared.py

A wheel has that module; in the source tree the package makes it as it is imported. This knows the C that the headers are
written in, and no more: tests/test_layout.py compares the structs with what a C compiler makes of them.
"""

from __future__ import annotations

import pathlib
import re
import sys
from typing import Optional

_NUMBERS = {"unsigned": "c_uint", "unsigned long long": "c_ulonglong", "size_t": "c_size_t",
            **{name: f"c_{name}" for name in ("bool", "char", "int", "float", "double")},
            **{f"{name}_t": f"c_{name}" for name in ("int32", "uint32", "int64", "uint64")}}


def gathered(root: pathlib.Path, name: str = "gquant.h", done: Optional[set[str]] = None) -> str:
    """Return what a header of the source tree declares, with that of the headers that it includes; no comments."""
    done = set() if done is None else done
    if name in done:
        return ""
    done.add(name)
    path = next(path for path in (root / "quantize" / name, root / name) if path.exists())
    text = re.sub(r"/\*.*?\*/|#ifdef __cplusplus.*?#endif", "", path.read_text(encoding="utf-8"), flags=re.S)
    text = re.sub(r'^#include "(.*)"', lambda found: gathered(root, found[1], done), text, flags=re.M)
    text = re.sub(r"^#(.*\\\n)*.*\n|^\s*\n|[ \t]+$", "", text, flags=re.M)
    return re.sub(r"\bGQ_RENAMED\((.*?), (\w+), \w+\)", r"\1 \2", text)


class Declarations:
    """What a text declares, in the words of Python.

    structs: name -> its base, and the names and types of its members. An enum is an int, and a pointer to what is not known
        is void *. A text within a union is void *, too: it may lack a NUL.
    functions: name -> its result, and its arguments. Memory that the caller has to free, char *, is an address, and
        pointers to numbers are so in arguments.
    """

    def __init__(self, text: str) -> None:
        self._sizes = dict(re.findall(r"\b([A-Z][A-Z0-9_]+) = (\d+)(?=\s*[,}])", text))
        self._enums = {"...", *re.findall(r"\benum (\w+) \{", text)}
        self._handles = {"void", *re.findall(r"\bstruct (\w+)\b(?! \{)", text)}
        self.structs: dict[str, tuple[str, list[tuple[str, str]]]] = {}
        declared = re.findall(r"^GQ_API ([^;()]*?)(gq_\w+)\(([^()]*)\)", text, re.M)
        if len(declared) != len(re.findall(r"^GQ_API\b", text, re.M)):
            raise TypeError("the headers have a function that is declared in a way that is not known here")
        while found := re.search(r"\b(struct|union) (\{([^{}]*)\})", text):  # without a name, the inner ones first
            name, base = f"unnamed_{len(self.structs)}", "Structure" if found[1] == "struct" else "Union"
            self.structs[name] = base, self._members(found[3].replace("char *", "void *"))
            text = text.replace(found[0], name)
        bodies = dict(re.findall(r"\bstruct (\w+) \{([^{}]*)\}", text))
        if len(bodies) != len(re.findall(r"\bstruct \w+ \{", text)):
            raise TypeError("the headers have a struct with a name within a struct, which is not known here")
        self.structs.update({name: ("Structure" if "unnamed_" in body else "Checked", []) for name, body in bodies.items()})
        for name, body in bodies.items():  # after all have names, as members may point to later ones
            self.structs[name][1].extend(self._members(body))
        self.functions = {name: ("c_void_p" if result == "char *" else self._kind(result), self._arguments(arguments))
                          for result, name, arguments in declared}

    def module(self) -> str:
        """Return a module of Python with all structs, and with FUNCTIONS: name -> result, arguments."""
        lines = ['"""The library\'s structs and functions, made from its public headers by declarations.py."""\n',
                 "from ctypes import *\n\nfrom ._errors import Checked\n"]
        lines += [f"class {name}({base}): pass" for name, (base, _) in self.structs.items()]
        for name, (_, members) in self.structs.items():
            if inner := [member for member, _ in members if member.startswith("unnamed_")]:
                lines.append(f"{name}._anonymous_ = {inner}")
            lines.append(f"{name}._fields_ = [{', '.join(f'({member!r}, {kind})' for member, kind in members)}]")
        lines += ["FUNCTIONS = {", *(f"    {name!r}: ({result}, [{', '.join(arguments)}])," for name, (result, arguments)
                                    in self.functions.items()), "}"]
        return "\n".join(lines) + "\n"

    def _members(self, body: str) -> list[tuple[str, str]]:
        members = []
        for member in (" ".join(member.split()) for member in body.split(";")[:-1]):
            if call := re.fullmatch(r"(.*)\(\*(\w+)\)\((.*)\)", member):
                members.append((call[2], f"CFUNCTYPE({', '.join([self._kind(call[1]), *self._arguments(call[3])])})"))
                continue
            base, names = re.fullmatch(r"((?:const )?(?:struct )?\w+) ?(.*)", member).groups()  # type: ignore[union-attr]
            if not re.fullmatch(r"([*const ]*\b\w+(\[\w+\])?(, ?|$))+", names or base):
                raise TypeError(f"'{member}': a member that is declared in a way that is not known here")
            for stars, name, n in re.findall(r"([*const ]*?)\b(\w+)(?:\[(\w+)\])?(?:,|$)", names or base):
                kind = self._kind(base + stars)
                members.append((name, f"{kind} * {int(self._sizes.get(n, n))}" if n else kind))
        return members

    def _arguments(self, text: str) -> list[str]:
        if text == "void":
            return []
        kinds = [re.sub(r"\w+(\[\w*\])?$", lambda name: "*" * bool(name[1]), one) for one in re.split(r",\s*", text)]
        return ["c_void_p" if kind.count("*") == 1 and _base(kind) in _NUMBERS and "char" not in kind else self._kind(kind)
                for kind in kinds]

    def _kind(self, declared: str) -> str:
        """Return the type for "const char *const *" and the like."""
        base, stars = _base(declared), declared.count("*")
        kind = _NUMBERS.get(base) or (base if base in self.structs else None)
        if stars and (base == "char" or kind is None and base in self._handles):
            kind, stars = "c_char_p" if kind else "c_void_p", stars - 1
        elif base in self._enums:
            kind = "c_int"
        elif kind is None and base != "void":
            raise TypeError(f"'{declared}': a type that is not known here")
        return "POINTER(" * stars + str(kind) + ")" * stars


def _base(declared: str) -> str:
    return re.sub(r"\b(const|struct)\b|\*", "", declared).strip()


def module(source: pathlib.Path) -> str:
    """Return the module for the headers of a source tree."""
    return Declarations(gathered(source)).module()


if __name__ == "__main__":
    print(module(pathlib.Path(sys.argv[1])), end="")
