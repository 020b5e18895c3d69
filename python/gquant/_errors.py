"""What the package raises, and structs that refuse numbers that they have no room for."""

from __future__ import annotations

from ctypes import Structure
from typing import Any

class Error(Exception):
    """A failure. The message names the file and the tensor, and says what was found and what was expected."""


class UsageError(Error, ValueError):
    """The request itself makes no sense."""


class BadWeights(Error, ValueError):
    """Weights that cannot be quantized or run: not finite, or beyond what the type can hold."""


class Cancelled(Error):
    """The work was stopped because a progress function returned False."""


class NotFound(Error, FileNotFoundError):
    """A file or folder that is not there."""


class NotAllowed(Error, PermissionError):
    """A file that may not be read or written."""


class AlreadyThere(Error, FileExistsError):
    """A file that would be replaced; force=True replaces it."""


class Checked(Structure):
    """A struct of the library. A number that a member has no room for raises UsageError, and is not cut."""

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if isinstance(value, int) and getattr(self, name) != value:
            raise UsageError(f"{name.replace('_', ' ')} cannot be {value}")
