"""Reads GGUF files: pairs and tensors, without numpy."""
import struct

NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
NAMES = {0: "F32", 1: "F16", 8: "Q8_0", 26: "I32", 27: "I64", 30: "BF16", 39: "MXFP4"}


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def number(self, form):
        (value,) = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return value

    def text(self):
        n = self.number("Q")
        self.at += n
        return self.data[self.at - n:self.at].decode()

    def value(self, kind):
        if kind == 8:
            return self.text()
        if kind == 9:
            of = self.number("I")
            return [self.value(of) for _ in range(self.number("Q"))]
        return self.number(NUMBERS[kind])


def size_of(kind, n):
    return {0: 4 * n, 1: 2 * n, 30: 2 * n, 8: n // 32 * 34, 26: 4 * n, 27: 8 * n, 39: n // 32 * 17}[kind]


def read(path):
    """{key: value} and {name: (type, shape with the row length first, bytes)}, in the file's order"""
    with open(path, "rb") as f:
        r = Reader(f.read())
    assert r.data[:4] == b"GGUF", path
    r.at = 8
    n_tensors, n_pairs = r.number("Q"), r.number("Q")
    pairs, infos = {}, []
    for _ in range(n_pairs):
        key = r.text()
        pairs[key] = r.value(r.number("I"))
    for _ in range(n_tensors):
        name = r.text()
        shape = [r.number("Q") for _ in range(r.number("I"))]
        infos.append((name, shape, r.number("I"), r.number("Q")))
    align = pairs.get("general.alignment", 32)
    begin, tensors = (r.at + align - 1) // align * align, {}
    for name, shape, kind, offset in infos:
        n = 1
        for count in shape:
            n *= count
        at = begin + offset
        tensors[name] = (NAMES[kind], shape, r.data[at:at + size_of(kind, n)])
    return pairs, tensors


def floats(data):
    return struct.unpack(f"<{len(data) // 4}f", data)
