"""How often an idle loop looks for work when nobody wakes it."""

from typing import Final

from uow.wake import Waiter

_SHORTEST_SECONDS: Final = 0.05


class AdaptivePolling:
    """Waits between looks: 50 ms after work was found, doubling up to `maximum_seconds` while there is none.

    A wake-up ends the wait at once. Polling goes on whatever becomes of wake-ups.
    """

    def __init__(self, waiter: Waiter, *, maximum_seconds: float) -> None:
        self._waiter = waiter
        self._maximum_seconds = maximum_seconds
        self._delay_seconds = min(_SHORTEST_SECONDS, maximum_seconds)

    def found(self) -> None:
        """Work was found: look again soon."""
        self._delay_seconds = min(_SHORTEST_SECONDS, self._maximum_seconds)

    async def wait(self) -> None:
        """Wait for a wake-up or the end of the present delay."""
        if await self._waiter.wait(self._delay_seconds):
            self.found()
        else:
            self._delay_seconds = min(self._delay_seconds * 2, self._maximum_seconds)
