"""The structs that are read from the headers are those that a C compiler makes of them."""

import ctypes
import pathlib
import runpy
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
    """Yields the name, the offset and the kind of each member; those of a union and of a struct in it are the struct's own."""
    for name, kind in struct._fields_:
        offset = getattr(struct, name).offset
        if name in getattr(struct, "_anonymous_", []):
            yield from ((inner, offset + further, inner_kind) for inner, further, inner_kind in members(kind))
        else:
            yield name, offset, kind


@pytest.mark.skipif(not shutil.which("cc") or not (SOURCE / "quantize/gquant.h").exists(), reason="no compiler, or no header")
def test_structs_are_as_in_c(tmp_path):
    assert len(STRUCTS) > 50
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


def test_every_function_that_is_declared_is_there():
    names = _library._declared.FUNCTIONS
    assert len(names) > 150
    for name in names:
        assert list(getattr(_library.library, name).argtypes) == names[name][1]


@pytest.mark.parametrize("declared", [
    "typedef struct gq_x { uint16_t a; } gq_x;", "typedef struct gq_x { long a; } gq_x;",
    "typedef struct gq_x { unsigned int a; } gq_x;", "typedef struct gq_x { int m[2][3]; } gq_x;",
    "typedef struct gq_x { int a : 3; } gq_x;", "typedef struct gq_x { struct gq_y { int a; } b; } gq_x;",
    "enum { N = 1 << 4 };\ntypedef struct gq_x { int a[N]; } gq_x;", "GQ_API int gq_f(int (*g)(int));",
])
@pytest.mark.skipif(not (SOURCE / "python/declarations.py").exists(), reason="not the source tree")
def test_what_the_reader_does_not_know_is_refused(declared):
    with pytest.raises((TypeError, ValueError)):
        declarations = runpy.run_path(str(SOURCE / "python/declarations.py"))
        declarations["Declarations"](declared + "\n")
