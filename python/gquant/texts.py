"""The texts that come with gquant, as `gquant text` writes them."""

import pathlib

__all__ = ["sample_text"]

_HERE = pathlib.Path(__file__).resolve().parent
_NAMES = ("calibration", "held-out")


def sample_text(name: str = "calibration") -> str:
    """Return a mixed text to work with at once: "calibration" (over 50,000 tokens, for imatrices and calibration) or
    "held-out" (over 10,000 tokens of other documents, for evaluate). License: MIT.
    """
    if name not in _NAMES:
        raise ValueError(f"there is no text {name!r}: expected one of {', '.join(map(repr, _NAMES))}")
    folder = _HERE if (_HERE / f"{name}.text").exists() else _HERE.parents[1] / "cli" / "texts"  # a wheel's, or a clone's
    return (folder / f"{name}.text").read_text(encoding="utf-8")
