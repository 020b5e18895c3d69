"""Long calls: they report progress, and they stop on Ctrl-C or when a progress function asks for it."""

from __future__ import annotations

import ctypes
import signal
import threading
from typing import Any, Callable, Optional

from ._library import gq_callbacks, gq_progress, text_of


class Progress:
    """How far a call has come. Progress functions receive one of these.

    bytes_done, bytes_total: tensor data, in bytes; where a model is run they stand for the work.
    weights_done: elements; 0 where a model is run.
    seconds: since the call was made.
    tensor: name of the first tensor that is not done, or the layer at work where a model is run; None: none in
        particular.
    tokens: of the text that models are run on; 0: there is none.
    share: of the work that is done, 0 to 1, by the time that its parts are predicted to take; 1 at the end alone.
    seconds_left: by that share; NaN: unknown.
    """

    __slots__ = ("bytes_done", "bytes_total", "weights_done", "seconds", "tensor", "tokens", "share", "seconds_left")

    def __init__(self, p: gq_progress) -> None:
        self.bytes_done, self.bytes_total = p.bytes_done, p.bytes_total
        self.weights_done, self.tokens, self.seconds = p.weights_done, p.tokens, p.seconds
        self.share, self.seconds_left = p.share, p.seconds_left
        self.tensor = text_of(p.tensor) if p.tensor else None

    def __repr__(self) -> str:
        left = f", {self.seconds_left:.0f} s left" if self.seconds_left >= 0 else ""
        return f"Progress({100 * self.share:.0f} %, {self.bytes_done} of {self.bytes_total} bytes, {self.seconds:.1f} s{left})"


ProgressCallback = Callable[[Progress], Any]


def interruptible(call: Callable[[Any], Any], progress: Optional[ProgressCallback] = None) -> Any:
    """Run call(callbacks) in a thread of its own and return its result; this thread waits, and so can handle signals.

    call: gets a pointer to gq_callbacks, to hand on to the library.
    progress: called with a Progress now and then, from another thread; None: nobody is.

    When KeyboardInterrupt is raised here, or progress raises or returns False, the library first ends its work cleanly.
    Then the exception is raised again; for False that is the library's own, Cancelled.
    """
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

    kinds = dict(gq_callbacks._fields_)
    callbacks = gq_callbacks(size=ctypes.sizeof(gq_callbacks), cancelled=kinds["cancelled"](lambda _: stop))
    if progress:
        callbacks.progress = kinds["progress"](tell)

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
        while not done.wait(0.1):  # on Windows Ctrl-C does not end a wait
            pass
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
