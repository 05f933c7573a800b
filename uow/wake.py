"""A wake-up call inside one process, across threads and event loops."""

import asyncio
import threading
from types import TracebackType
from typing import Self


class WakeSignal:
    """Wakes every waiter of this process; calling it never blocks, never fails, and needs no event loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiters: set[Waiter] = set()

    def __call__(self) -> None:
        """Wake everyone who waits, and let those who are busy find their next wait already over."""
        with self._lock:
            waiters = tuple(self._waiters)
        for waiter in waiters:
            waiter.wake()

    def waiter(self) -> "Waiter":
        """Someone who can wait for this signal in the running event loop; use it in a `with` block."""
        return Waiter(self)

    def join(self, waiter: "Waiter") -> None:
        """Begin to wake `waiter`."""
        with self._lock:
            self._waiters.add(waiter)

    def leave(self, waiter: "Waiter") -> None:
        """Wake `waiter` no longer."""
        with self._lock:
            self._waiters.discard(waiter)


class Waiter:
    """Waits for a WakeSignal; calls that came since the last wait count as one."""

    def __init__(self, signal: WakeSignal) -> None:
        self._signal = signal
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()

    def __enter__(self) -> Self:
        self._signal.join(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._signal.leave(self)

    def wake(self) -> None:
        """Let the present or next `wait` return; from any thread."""
        try:
            self._loop.call_soon_threadsafe(self._event.set)
        except RuntimeError:  # its loop is closed: nobody waits any more
            self._signal.leave(self)

    async def wait(self, timeout_seconds: float) -> bool:
        """Whether a call came, before or within `timeout_seconds`."""
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._event.wait()
        except TimeoutError:
            return False
        self._event.clear()
        return True
