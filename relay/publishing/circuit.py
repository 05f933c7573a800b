"""Keeps the relay from claiming and sending while the broker is known to be away."""

import logging
from collections.abc import Awaitable, Callable, Iterable
from enum import StrEnum
from typing import Final

from relay.broker import BrokerUnavailableError, Verdict
from uow.backoff import Backoff
from uow.loop.supervision import StopRequest

_log: Final = logging.getLogger(__name__)
_OUTAGE: Final = frozenset({Verdict.UNSENT, Verdict.UNKNOWN})


class CircuitState(StrEnum):
    """What is known of the broker."""

    CLOSED = "closed"
    """It takes messages."""
    OPEN = "open"
    """It is away: nothing is claimed."""
    TRIAL = "trial"
    """It answers again: one message is tried before the rest follows."""


class Circuit:
    """Opens at the first sign of an outage; closes when the broker answers and takes a message again.

    While it is open the broker is asked with a pause that grows from `pauses.initial_seconds` to
    `pauses.maximum_seconds`. It starts open without a pause, so that nothing is claimed before the broker
    has answered once.
    """

    def __init__(self, check: Callable[[], Awaitable[None]], *, pauses: Backoff) -> None:
        self._check = check
        self._pauses = pauses
        self._failures = 0
        self.state = CircuitState.OPEN

    @property
    def closed(self) -> bool:
        """Whether whole batches may be claimed."""
        return self.state is CircuitState.CLOSED

    @property
    def usable(self) -> bool:
        """Whether the broker answered when it was asked last."""
        return self.state is not CircuitState.OPEN

    def judge(self, verdicts: Iterable[Verdict]) -> None:
        """Learn from the verdicts on one batch."""
        seen = set(verdicts)
        if seen - _OUTAGE:
            self._failures = 0
        if seen & _OUTAGE:
            self._fail("messages could not be sent")
        elif seen:
            self.state = CircuitState.CLOSED

    async def wait_until_usable(self, stop: StopRequest) -> bool:
        """Wait until the broker answers; False when a stop came first."""
        while self.state is CircuitState.OPEN:
            if self._failures and await stop.sleep(self._pauses.delay_seconds(self._failures)):
                return False
            try:
                await self._check()
            except (BrokerUnavailableError, OSError) as error:
                self._fail(str(error))
            else:
                self._answered()
        return not stop.requested

    def _answered(self) -> None:
        if self._failures:
            _log.info("the broker answers again")
        self.state = CircuitState.TRIAL if self._failures else CircuitState.CLOSED

    def _fail(self, reason: str) -> None:
        if self._failures == 0:
            _log.warning("the broker is away (%s); events wait in the database", reason)
        self._failures += 1
        self.state = CircuitState.OPEN
