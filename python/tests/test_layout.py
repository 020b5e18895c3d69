"""The structs and functions of _library.py are those of the C header."""

import ctypes
import pathlib
import re
import shutil
import subprocess

import pytest

from gquant import _library

SOURCE = pathlib.Path(__file__).resolve().parents[2]
STRUCTS = {name: s for name, s in vars(_library).items()
           if name.startswith("gq_") and isinstance(s, type) and issubclass(s, ctypes.Structure)}


# What C calls the simple types of ctypes. An enum is an unsigned int to C and a c_int here.
IN_C = {"?": "bool", "f": "float", "d": "double", "B": "uint8_t", "i": "int: 1, unsigned", "I": "uint32_t",
        "l": "int64_t", "L": "uint64_t", "q": "int64_t", "Q": "uint64_t", "z": "char *: 1, const char *"}


def members(struct):
    """Yields the name, the offset and the kind of each member."""
    for name, kind in struct._fields_:
        if isinstance(kind, type) and issubclass(kind, ctypes.Union):  # its members are the struct's own
            for inner, inner_kind in kind._fields_:
                if inner == "of_text":
                    inner, inner_kind = inner_kind._fields_[0]
                yield inner, getattr(struct, name).offset, inner_kind
        else:
            yield name, getattr(struct, name).offset, kind


@pytest.mark.skipif(not shutil.which("cc") or not (SOURCE / "quantize/gquant.h").exists(), reason="no compiler, or no header")
def test_structs_are_as_in_c(tmp_path):
    assert len(STRUCTS) > 25
    lines = ['#include "quantize/gquant.h"']
    for name, struct in STRUCTS.items():
        lines.append(f'_Static_assert(sizeof({name}) == {ctypes.sizeof(struct)}, "sizeof({name})");')
        for member, offset, kind in members(struct):
            lines.append(f'_Static_assert(offsetof({name}, {member}) == {offset}, "{name}.{member}");')
            lines.append(f'_Static_assert(sizeof((({name} *)0)->{member}) == {ctypes.sizeof(kind)}, "{name}.{member}");')
            if expected := IN_C.get(getattr(kind, "_type_", None) if isinstance(kind, type(ctypes.c_int)) else None):
                lines.append(f'_Static_assert(_Generic((({name} *)0)->{member}, {expected}: 1, default: 0), '
                             f'"{name}.{member} is {expected}");')
    (tmp_path / "layout.c").write_text("\n".join(lines) + "\n")
    subprocess.run(["cc", "-std=c11", "-fsyntax-only", "-I", str(SOURCE), str(tmp_path / "layout.c")], check=True)


@pytest.mark.skipif(not (SOURCE / "quantize/gquant.h").exists(), reason="no header")
def test_functions_take_as_many_arguments():
    header = "\n".join(path.read_text() for path in sorted((SOURCE / "quantize").glob("gquant_*.h")))
    declared = {name: arguments for name, arguments in re.findall(r"^GQ_API [^;]*?\b(gq_\w+)\(([^;]*)\);", header, re.M)}
    for name, (_, arguments) in _library.FUNCTIONS.items():
        n = 0 if declared[name].strip() == "void" else declared[name].count(",") + 1
        assert len(arguments) == n, name
