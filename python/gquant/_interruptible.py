"""Calls that take long: they tell how far they have come, and end when asked to."""

from __future__ import annotations

import ctypes
import signal
import threading
from typing import Any, Callable, Optional

from ._library import CANCELLED, PROGRESS, gq_callbacks, gq_progress, text_of


class Progress:
    """How far a call has come: bytes_done of bytes_total, weights_done, tokens, seconds, and the tensor at hand."""

    __slots__ = ("bytes_done", "bytes_total", "weights_done", "seconds", "tensor", "tokens")

    def __init__(self, p: gq_progress) -> None:
        self.bytes_done, self.bytes_total = p.bytes_done, p.bytes_total
        self.weights_done, self.tokens, self.seconds = p.weights_done, p.tokens, p.seconds
        self.tensor = text_of(p.tensor) if p.tensor else None

    def __repr__(self) -> str:
        return f"Progress({self.bytes_done} of {self.bytes_total} bytes, {self.seconds:.1f} s)"


def interruptible(call: Callable[[Any], Any], progress: Optional[Callable[[Progress], Any]] = None) -> Any:
    """Make a call, which gets a pointer to gq_callbacks, in a thread: the one that waits here is free for signals.
    On KeyboardInterrupt, or where progress raises or returns False, the library ends its work cleanly first."""
    stop, done = False, threading.Event()
    raised: list[BaseException] = []
    result: list[Any] = []

    def tell(_: Any, p: Any) -> None:
        nonlocal stop
        if progress is None or stop:
            return
        try:
            if progress(Progress(p.contents)) is False:
                stop = True
        except BaseException as error:  # it cannot go through the library
            raised.append(error)
            stop = True

    callbacks = gq_callbacks(
        size=ctypes.sizeof(gq_callbacks), progress=PROGRESS(tell) if progress else PROGRESS(),
        cancelled=CANCELLED(lambda _: stop),
    )

    def work() -> None:
        try:
            result.append(call(ctypes.pointer(callbacks)))
        except BaseException as error:
            raised.append(error)
        finally:
            done.set()

    # A second signal may come while the first is dealt with; an exception there would leave the work behind, and a
    # lock would be waited for in vain.
    interrupts: list[BaseException] = []
    before = signal.getsignal(signal.SIGINT) if threading.current_thread() is threading.main_thread() else None

    def note(number: int, frame: Any) -> None:
        nonlocal stop
        try:
            before(number, frame)  # Python's own raises KeyboardInterrupt
        except BaseException as error:
            interrupts.append(error)
            stop = True

    if callable(before):
        signal.signal(signal.SIGINT, note)
    thread = threading.Thread(target=work, name="gquant")
    try:
        thread.start()
        done.wait()
    except BaseException as error:  # from another signal's handler, or no thread can be started
        stop = True
        if thread.ident is not None or not isinstance(error, RuntimeError):
            done.wait()
        raise
    finally:
        if callable(before):
            signal.signal(signal.SIGINT, before)
    if interrupts or raised:
        raise (interrupts or raised)[0]
    return result[0]
