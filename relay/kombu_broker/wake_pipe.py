"""A socket pair by which any thread interrupts the thread that waits on sockets."""

import contextlib
import selectors
import socket
import threading


class WakePipe:
    """`wake()` from any thread ends the wait of the owner; many calls before it looks count as one."""

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        self._lock = threading.Lock()
        self._pending = False

    def fileno(self) -> int:
        """What the owning thread waits on; -1 once closed."""
        return self._reader.fileno()

    def wake(self) -> None:
        """Interrupt the owner; never blocks, and does nothing once closed."""
        with self._lock:
            if self._pending:
                return
            self._pending = True
            with contextlib.suppress(OSError):  # closed meanwhile: nobody waits any more
                self._writer.send(b"\0")

    def drain(self) -> None:
        """Called by the owner after a wait and before it looks for work, so that no call is missed."""
        with self._lock:
            self._pending = False
            with contextlib.suppress(OSError):
                self._reader.recv(64)

    def wait(self, timeout_seconds: float, *, also: int | None = None) -> None:
        """Return after a call, when the file `also` can be read, or after the time."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._reader, selectors.EVENT_READ)
            if also is not None:
                selector.register(also, selectors.EVENT_READ)
            selector.select(max(timeout_seconds, 0.0))
        self.drain()

    def close(self) -> None:
        """Give the sockets back."""
        with self._lock:
            self._pending = True
            self._reader.close()
            self._writer.close()
