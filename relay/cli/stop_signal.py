"""SIGINT and SIGTERM: the first asks for a graceful stop, the second ends the process at once."""

import asyncio
import contextlib
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Final

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def stop_on_signal(on_first: Callable[[signal.Signals], None]) -> Iterator[asyncio.Event]:
    """An event that the first signal sets, after calling `on_first` in the event loop; main thread only.

    A second signal ends the process with 128 plus its number, even while a handler of the application
    blocks the event loop: a thread of its own learns of signals through Python's wake-up descriptor, since
    the kernel may give a signal to a thread other than the one that is blocked.
    """
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    seen: Counter[str] = Counter()

    def begin_stop(number: signal.Signals) -> None:
        if not stop.is_set():
            stop.set()
            on_first(number)

    def learn(source: str, number: int) -> None:
        # Two sources tell of each signal; an application may have taken the descriptor for itself.
        seen[source] += 1
        if seen[source] > 1:
            os._exit(128 + number)  # neither threads nor buffers may delay it; leases bring work back
        with contextlib.suppress(RuntimeError):  # the loop has just ended
            loop.call_soon_threadsafe(begin_stop, signal.Signals(number))

    def handle(number: int, _frame: FrameType | None) -> None:
        learn("handler", number)

    before = {number: signal.signal(number, handle) for number in _SIGNALS}
    try:
        with _watched(lambda number: learn("descriptor", number)):
            yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _watched(learn: Callable[[int], None]) -> Iterator[None]:
    """Call `learn` in a thread of its own for each of our signals."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)

    def watch() -> None:
        while numbers := os.read(reading, 64):
            for number in numbers:
                if number in _SIGNALS:
                    learn(number)
        os.close(reading)

    threading.Thread(target=watch, name="signals", daemon=True).start()
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        os.close(writing)
